"""A month in every place that has it: control directory, databases, ledger, sync message, EGI's portal."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain

from arcacct.arex import own_database
from arcacct.arex.control_files import is_job_id, read_job, read_status_file, scan_status_files
from arcacct.arex.import_database import Archives, import_lock, settled_before
from arcacct.arex.job_facts import job_facts
from arcacct.arex.own_database import Ended
from arcacct.arex.sweep_context import batches, printable, reason
from arcacct.config.paths import Places, is_without_arex
from arcacct.config.settings import Settings
from arcacct.database import access, incarnation, schema
from arcacct.database.connection import Connection
from arcacct.database.incarnation import MEANING
from arcacct.database.location import fence
from arcacct.errors import InputError, StoreError
from arcacct.publishing import cursors, held, ledger, sent, target_months
from arcacct.publishing.former_publisher import former_publisher
from arcacct.publishing.held_texts import held_text
from arcacct.publishing.ledger import COUNTS, SentSum
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.selection import former_names, is_start_known, names_in_doubt, surplus, surplus_records
from arcacct.publishing.sent import published_total_ids
from arcacct.publishing.summaries import unsettled
from arcacct.publishing.target_months import DECLINED, KEPT
from arcacct.queries import portal
from arcacct.queries.job_history import changed_since_sent, seq_of
from arcacct.queries.portal import JobSums, MonthJob, MonthJobs, PortalContext, compare_portal, folded_vo, read_portal
from arcacct.queries.usage import before_recording
from arcacct.queries.verify_report import UNTIL_PORTAL, Finding, MonthReport, Source
from arcacct.records import reader, states
from arcacct.records.enrichment import measured_by
from arcacct.records.hold_decisions import ImplausibleFilter, ImplausibleRecord, held_records
from arcacct.records.holds import HELD
from arcacct.records.model import UsageCell
from arcacct.records.pseudonyms import pseudonymised
from arcacct.records.states import ABORTED, IN_PROGRESS, MEASURED, NOT_MEASURED, UNKNOWN, UNMEASURED, Usage
from arcacct.records.usage import former_keys, pruned, usage_cells
from arcacct.records.writer import known_jobs
from arcacct.targets import plugins
from arcacct.times import HOUR_S, Month, iso, month_bounds, month_name
from arcacct.wording import count_of

_PATIENCE_S = 20.0
"""How long to wait until A-REX does not write."""
_LOOKED_UP_JOBS = 500
_TODO = "`arcacct import arex` imports it"
_LATE = "`arcacct sweep` records later changes"
_NONE_BEFORE = "; if no job ended before, `arcacct publish --accept-lower {}` confirms it"
_NOT_FROM_FILES = "`arcacct job` shows the source of the record"


def verify(
    settings: Settings,
    accounting: Connection,
    publishing: Connection,
    month: Month,
    portal: Sequence[str] = (),
    exported_s: int | None = None,
) -> MonthReport:
    """
    Compare all data of a month (of end times, UTC); ``portal`` are exports of the portal. ``exported_s`` is the time of
    these exports; ``None``: the times of their files.

    Raises InputError for an export that cannot be read, StoreError when a database cannot.
    """
    targets = [_TargetMonth(plugin, publishing, month) for plugin in plugins(settings)]
    report = MonthReport()
    try:
        has_records = any(one.has_records for one in targets)
        # Versions of records are compared only for targets with records, because this is slow.
        read = reader.ended_between if has_records else reader.usage_ended_between
        pages = read(accounting, *month_bounds(*month))
        digests = sent.digests_in(publishing, month_bounds(*month)) if has_records else None
        with MonthJobs.of(pages, digests=digests, closed=partial(pseudonymised, accounting)) as jobs:
            jobs.add_pruned(pruned(accounting, month))
            notes = [f"{jobs.pruned} of its jobs are in an archive of `arcacct db prune`"] if jobs.pruned else []
            ours = _source("database", jobs.amount(jobs.vos))
            why = before_recording(accounting, *month_bounds(*month))
            if why and not any(one.was_accepted(schema.incarnation(accounting)) for one in targets):
                ours = ours._replace(unknown=why + (_NONE_BEFORE.format(month_name(month)) if targets else ""))
            report.add(ours, unsettled(settings.places, accounting, month), *notes)
            doubtful = _implausible(report, accounting, month)
            if not is_without_arex(settings.places, has_callouts=bool(settings.launchers)):
                _control_directory(report, settings, accounting, jobs, month, doubtful)
            _arex(report, settings.places, accounting, jobs, month, doubtful)
            _ledger(report, settings, accounting, publishing)
            counted = []
            for target in targets:
                one = _AtTarget(target, accounting, jobs, doubtful, has_portal=bool(portal))
                one.compare(report)
                # A receiver that counts by site is behind the portal.
                counted += [one] if target.plugin.site else []
            if portal:
                month_cells = usage_cells(accounting, [month])
                _portals(report, jobs, counted, month_cells, [(path, month, exported_s) for path in portal])
                if counted and not any(compared.differences for _name, compared in report.portals):
                    report.settle()
            for source in report.sources:
                if source.unknown:
                    report.add_deviations(source.name, [(None, source.unknown)])
    except BaseException:
        report.close()
        raise
    return report


def _ledger(report: MonthReport, settings: Settings, accounting: Connection, publishing: Connection) -> None:
    here = settings.places
    known = incarnation.incarnation_state(
        accounting, publishing, rehearsing=here.rehearsal is not None, fences_noted=fence(here)
    )
    for doubt in incarnation.mismatches(known):
        report.add(Source("ledger"), [(None, MEANING[doubt])])


def _portals(
    report: MonthReport,
    jobs: MonthJobs,
    targets: Sequence[_AtTarget],
    cells: Sequence[UsageCell],
    portal: Sequence[tuple[str, Month, int | None]],
) -> None:
    """
    Exports to compare: path, month, and time of the export; ``None`` means the time of the file.

    Those of jobs first: where the jobs agree, normalised hours differ by what they are worth.
    """
    if not targets:
        report.add_deviations("portal", [(None, "no target for this portal is configured ([arex/jura/apel:NAME])")])
    counted, names = _vos_there(targets, jobs, cells)
    left_out = [vo for vo in jobs.vos if targets and not any(one.wants(vo) for one in targets)]
    unselected = {name: jobs.example(vo) for vo in left_out for name in names[vo]}
    noted = [one._replace(vo=name) for one in jobs.noted() for name in names[one.vo]]
    single = {(one.place, one.vo) for one in noted}
    noted += [one for target in targets for one in target.unsent(cells) if (one.place, one.vo) not in single]
    surplus = sum((target.surplus_by_vo() for target in targets), Counter[str]())
    known = PortalContext(noted, {}, [one.site for one in targets], unselected, surplus)
    for path, month, exported_s in sorted(portal, key=lambda one: read_portal(one[0], one[1]).measure != "jobs"):
        made_s = int(os.stat(path).st_mtime) if exported_s is None else exported_s
        resent: Counter[str] = Counter()
        for target in targets:
            resent |= target.sent_after(made_s, names)
        found = compare_portal(path, month, counted, known._replace(resent=resent))
        if found.measure == "jobs":
            known = known._replace(same_jobs=[row.name for row in found.rows if not row.causes])
        amount = round(found.found)
        count, hours = (amount, None) if found.measure == "jobs" else (None, amount * HOUR_S)
        wall_s, cpu_s = (None, hours) if "CPU" in found.measure else (hours, None)
        what = f"{found.found:.0f} {found.measure}, in the database {found.ours:.0f}"
        texts = (what, *found.differences) if found.differences else ()
        source = Source(f"portal {found.measure}", count, wall_s, cpu_s, proof="confirmed")
        report.add(source, [(None, text) for text in texts])
        report.portals.append((source.name, found))


def _vos_there(
    targets: Sequence[_AtTarget], jobs: MonthJobs, cells: Iterable[UsageCell]
) -> tuple[list[UsageCell], dict[str | None, list[str]]]:
    """
    Return usage under the VOs that the receiver has for it, and these by recorded VO, as the portal compares them.

    They differ by `vomsless_vo`, `local_group_prefix` and the length of a name.
    """
    found: dict[str | None, set[str]] = {vo: set() for vo in jobs.vos}
    there = []
    for cell in cells:
        wanting = [one for one in targets if one.wants(cell.vo)] or targets
        there.append(cell._replace(vo=wanting[0].vo_of(cell) if wanting else cell.vo))
        found.setdefault(cell.vo, set()).add(folded_vo(there[-1].vo))
    return there, {vo: sorted(names or {folded_vo(vo)}) for vo, names in found.items()}


def _source(name: str, amount: JobSums) -> Source:
    return Source(name, *amount)


Doubtful = Mapping[str, ImplausibleRecord]
"""By JobID, the records with values that cannot be true."""


def _implausible(report: MonthReport, con: Connection, month: Month) -> Doubtful:
    """Report the month's impossible values: held records are not published, so the month is incomplete."""
    start, end = month_bounds(*month)
    found = {one.job_id: one for one in held_records(con, ImplausibleFilter(ended_from=start, ended_before=end))}
    held = [one for one in found.values() if one.state == HELD]
    late, decides = f"{_LATE}, ", "decide with `arcacct quarantine decide`"
    if found:
        report.add(
            Source("held as implausible", len(held)),
            ((one.job_id, f"{one.text}: {late if NOT_MEASURED in one.reasons else ''}{decides}") for one in held),
            *(f"{one.job_id}: {one.text}: decided: {one.state}" for one in found.values() if one.state != HELD),
        )
    return found


def _control_directory(
    report: MonthReport, settings: Settings, accounting: Connection, jobs: MonthJobs, month: Month, doubtful: Doubtful
) -> None:
    """
    Compare with the control directory: A-REX removes files of old jobs, so it may have fewer jobs than the database,
    but no additional one.
    """
    name = "control directory"
    total = JobSums()

    def compared() -> Iterator[Finding]:
        nonlocal total
        for batch in batches(_control_jobs(settings, month), _LOOKED_UP_JOBS):
            # Held jobs are reported already: their files do not count.
            used = {job_id: job for job_id, job in batch if isinstance(job, Usage) and job_id not in doubtful}
            for usage in used.values():
                total = total.plus(1, usage.wall_s, _cpu_s(usage))
            yield from ((job_id, job) for job_id, job in batch if isinstance(job, str))
            yield from _lacking(accounting, jobs.find(used), used)

    try:
        differs = report.add_deviations(name, compared())
    except OSError as error:
        report.add(Source(name), [(None, f"{error.filename}: cannot be read: {error.strerror}")])
    else:
        report.add(_source(name, total)._replace(agrees=not differs))


def _lacking(con: Connection, ours: Mapping[str, MonthJob], used: Mapping[str, Usage]) -> Iterator[Finding]:
    """Yield what the files of some jobs have and the database lacks."""
    absent = known_jobs(con, [job_id for job_id in used if job_id not in ours])
    sources = measured_by(con, [one.record_id for one in ours.values()])
    for job_id, usage in used.items():
        if job_id not in ours:
            known = absent.get(job_id)
            status = usage.status if known is None else states.status_of_end(usage.status, known.status, known.state)
            if status != ABORTED:
                yield job_id, "finished, but not in the database with this end: `arcacct sweep` records it"
            continue
        record, others = ours[job_id], sources.get(ours[job_id].record_id, {})
        if fields := _measured_otherwise(usage, record, others):
            is_late = ("wall_s" in fields and not record.wall_s) or not others.keys().isdisjoint(fields)
            there = f"wall {usage.wall_s} s and CPU {_cpu_s(usage)} s"
            here = f"in the database {record.wall_s} s and {record.cpu_s} s"
            yield job_id, f"{there}, {here}: {_LATE if is_late else _NOT_FROM_FILES}"


def _measured_otherwise(usage: Usage, record: MonthJob, others: Mapping[str, str]) -> list[str]:
    """
    Return the fields of `MEASURED` that the files have, and the record has otherwise.

    ``others``: the record's values from other sources (`measured_by`). What a batch system measured is right.
    """
    wall, cpu = MEASURED[:1], MEASURED[1:]
    pairs = ((wall, usage.wall_s, record.wall_s), (cpu, _cpu_s(usage), record.cpu_s))
    return [
        field
        for fields, there, here in pairs
        if there != here
        and not {*fields} <= {*usage.unknown}
        and {others.get(field, UNKNOWN) for field in fields} <= {*UNMEASURED}
        for field in fields
    ]


def _cpu_s(usage: Usage) -> int:
    return usage.cpu_user_s + usage.cpu_kernel_s


def _control_jobs(settings: Settings, month: Month) -> Iterator[tuple[str, Usage | str]]:
    """Return the jobs of the month by id, with their usage or the problem of their files."""
    start, end = month_bounds(*month)
    unreadable: list[tuple[str, str]] = []

    def wrong(job_id: str, path: str, error: Exception) -> None:
        unreadable.append((printable(job_id), printable(reason(error, path))))

    for job_id, path, stat in scan_status_files(settings.places.controldir, wrong):
        yield from unreadable
        unreadable.clear()
        if "/finished/" not in path or not start <= stat.st_mtime < end:
            continue
        try:
            if not is_job_id(job_id):
                raise InputError(f"{path}: not a status file of A-REX, by its name")  # noqa: TRY301  as any other
            status = read_status_file(path)
            if status is None or status.state != "FINISHED":
                continue
            files = read_job(settings.places.controldir, job_id, status.state, lambda _stat: "", status)
            usage = job_facts(files, settings.places.rules).usage
        except Exception as error:  # noqa: BLE001  whatever it is, the other jobs are compared
            wrong(job_id, path, error)
            continue
        if usage is not None and usage.status != ABORTED:
            yield job_id, usage
    yield from unreadable


def _arex(
    report: MonthReport, here: Places, con: Connection, jobs: MonthJobs, month: Month, doubtful: Doubtful
) -> None:
    """
    A-REX may have fewer jobs (it loses some, and knows no other sources), but none that is not in the database.

    That it cannot be asked now says nothing of the month.
    """
    paths = own_database.own_databases(here)
    if not paths:
        return
    name = "A-REX's database"
    total, archived = JobSums(), 0

    def compared(archives: Archives) -> Iterator[Finding]:
        nonlocal total, archived
        for page in (page for path in paths for page in _pages(here, path, month)):
            ended = page
            if len(paths) > 1:
                new = jobs.first_seen(list(page))
                ended = {job_id: one for job_id, one in page.items() if job_id in new}
            ours: dict[str, MonthJob] = {}
            sources: dict[int, dict[str, str]] = {}
            for some in batches(ended, _LOOKED_UP_JOBS):
                found = jobs.find(some)
                ours |= found
                sources |= measured_by(con, [one.record_id for one in found.values()])
            ended = {job_id: one for job_id, one in ended.items() if job_id not in doubtful}
            for job_id, one in ended.items():
                total = total.plus(1, one.wall_s, one.cpu_s)
                if (
                    job_id in ours
                    and ours[job_id].wall_s < one.wall_s
                    and sources.get(ours[job_id].record_id, {}).get("wall_s", UNKNOWN) in UNMEASURED
                ):
                    text = f"wall {one.wall_s} s, in the database {ours[job_id].wall_s} s"
                    yield job_id, f"{text}; `arcacct job` shows the source of our value"
            absent = [(job_id, one) for job_id, one in ended.items() if job_id not in ours]
            for lacking in map(dict, batches(absent, _LOOKED_UP_JOBS)):
                put_away = archives.archived(con, {job_id: one.end_time for job_id, one in lacking.items()})
                archived += len(put_away)
                yield from _absent(con, lacking, put_away)

    try:
        with closing(Archives(con)) as archives:
            differs = report.add_deviations(name, compared(archives))
    except (InputError, StoreError) as error:
        report.add(Source(name), (), f"cannot be compared now: {error}")
        return
    notes = [f"{archived} of its jobs are in an archive of `arcacct db prune`: not a difference"] if archived else []
    report.add(_source(name, total)._replace(agrees=not differs), (), *notes)


def _pages(here: Places, path: str, month: Month) -> Iterator[dict[str, Ended]]:
    with ExitStack() as stack:
        if os.access(here.directory, os.W_OK):
            workspace = here.directory
            stack.enter_context(import_lock(os.path.join(workspace, "import.lock")))
        else:
            workspace = stack.enter_context(tempfile.TemporaryDirectory(prefix="arcacct-"))
        database = stack.enter_context(own_database.opened(path, workspace, patience_s=_PATIENCE_S))
        with access.translating(path):
            yield from own_database.ended_between(database, *month_bounds(*month), settled_before())


def _absent(con: Connection, ended: Mapping[str, Ended], archived: set[str]) -> Iterator[tuple[str, str]]:
    """Return those jobs without an end in this month here that have no end at all, and are not archived either."""
    known = known_jobs(con, list(ended))
    for job_id, one in ended.items():
        ours = known.get(job_id)
        if ours is None and job_id not in archived:
            yield job_id, f"ended there at {iso(one.end_time)}, and is not in the database: {_TODO}"
        elif ours is not None and ours.status in (IN_PROGRESS, ABORTED):
            yield job_id, f"ended there at {iso(one.end_time)}, and is {ours.status} in the database: {_TODO}"


_CAUSES = {
    "waits: its month is on hold": portal.HELD,
    "waits": portal.NOT_SENT,
    "not sent: the target never published": portal.NOT_SENT,
    "not sent: it ended before": portal.BEFORE,
    "unknown whether it was sent": portal.BEFORE,
    "not sent": portal.LESS,
    "changed since it was sent": portal.CHANGED,
    "sent, and": portal.GONE,
}
"""Text for a missing job, by its beginning, and the cause; any other text is the reason for its quarantine."""


_MOST_COMPARED = 1000
"""Maximum number of changed records with their old values: each is looked up separately."""


class _TargetMonth:
    """The ledger's data about a target and a month."""

    def __init__(self, plugin: TargetPlugin, publishing: Connection, month: Month) -> None:
        known = target_months.kinds(publishing, plugin.target.block)
        self.plugin = plugin
        self.ledger = publishing
        self.month = month
        self.ended = month_bounds(*month)
        self.kind = known.get(month, plugin.message_format)
        self.has_records = plugin.has_records(self.kind)

    def was_accepted(self, incarnation: str) -> bool:
        """Whether an operator accepted the month for this incarnation of the accounting database."""
        return self.month in target_months.accepted(self.ledger, self.plugin.target.block, incarnation).ever


class _AtTarget:
    """The ledger's data about a month at a receiver, and why it lacks a job, or has one too many."""

    def __init__(
        self, target: _TargetMonth, accounting: Connection, jobs: MonthJobs, doubtful: Doubtful, *, has_portal: bool
    ) -> None:
        """``has_portal``: why it lacks a job is kept for the portal, which then cannot have it either."""
        self._has_portal = has_portal and bool(target.plugin.site)
        self.site = target.plugin.site
        self.wants = target.plugin.target.wants
        self.vo_of = target.plugin.vo_of
        self._target = target
        self._plugin = target.plugin
        self._block = target.plugin.target.block
        self._accounting = accounting
        self._ledger = target.ledger
        self._jobs = jobs
        self._doubtful = doubtful
        self._vos = [vo for vo in jobs.vos if target.plugin.target.wants(vo)]
        self._wanted = jobs.amount(self._vos)
        self._former = former_publisher(target.plugin, target.ledger)
        known = target_months.load(self._ledger, self._block)
        self._held_month = target_months.held(known).get(target.month)
        self._is_any_aside = held.any_held(self._ledger, self._block, target.ended)
        self._cursor = cursors.cursor(self._ledger, self._block)
        self._unanswered = sent.pending(self._ledger, self._block)
        self._unanswered_jobs = set(self._unanswered.values())
        unsure = target_months.uncertain(known).get(target.month)
        # The replaced ledger knew every key of sums, and this one took them over.
        is_answered = unsure is not None and unsure.answered_s is not None
        self._is_unsure = is_answered and (target.has_records or unsure is None or unsure.jobs is None)
        # Its months are never held, so no one accepts them.
        self._may_keep_forgotten = unsure is not None and self._plugin.keeps_first
        self._pruned_unknown = 0
        """Archived jobs that a lost ledger may have had as sent."""

    def compare(self, report: MonthReport) -> None:
        """Compare its jobs or its sums, and the counts of the sync message."""
        plugin, name, month = self._plugin, self._plugin.target.name, self._target.month
        compare = self._delivered if self._target.has_records else self._sums
        doubts = [(None, text) for text in self._doubts()]
        source, differences = compare()
        left_out = self._jobs.amount(self._jobs.vos).jobs - self._wanted.jobs
        source = source._replace(
            proof=plugin.confirmation_level,
            not_selected=left_out,
            unknown=self._unknown(),
            surplus=str(too_many) if (too_many := surplus(self._accounting, self._ledger, plugin, month)) else "",
        )
        notes = [f"{count_of(left_out, 'job')} not selected by vofilter, so they were not sent"] if left_out else []
        if names := former_names(self._ledger, plugin).get(self._target.month):
            kept = target_months.decisions(self._ledger, self._block, KEPT).get(self._target.month)
            by = "" if kept is None else f" ({kept})"
            notes.append(f"the receiver has this month under the name {' and '.join(names)}{by}")
        decision = None if self._former is None else self._former.decisions.get(self._target.month)
        if decision is not None and decision.what == DECLINED:
            notes.append(f"jura-ng's sums stay there, and count in addition: {decision}")
        report.add(source, chain(doubts, self._noted(differences)), *notes)
        if plugin.counts is not None:
            # It reports to the receiver how many jobs it was sent.
            said = sum(one.jobs for one in self._live_sums(COUNTS))
            missed = not source.jobs and bool(self._wanted.jobs)
            counted = f"the database has {self._wanted.jobs}" if missed else f"{source.jobs or 'none'} were given"
            is_right = self._pruned_unknown or (said == source.jobs and not missed)
            wrong = [] if is_right else [(None, f"announces {count_of(said, 'job')}, {counted}")]
            count = Source(
                f"{name} sync", said, proof=plugin.confirmation_level, not_selected=left_out, unknown=source.unknown
            )
            report.add(count, wrong)

    def _unknown(self) -> str:
        """Why the receiver's data are unknown here, and what decides it; empty if the ledger knows."""
        if self._may_keep_forgotten:
            return (
                "unknown until compared with the receiver: both databases were restored, and the receiver keeps the"
                " first version of a job, even if neither database has it; compare the wall time of the month with the"
                " receiver's administrator"
            )
        if forgotten := self._forgotten():
            return (
                f"unknown until compared with the receiver: publishing.db was lost, and {count_of(forgotten, 'job')}"
                " that it may have had as sent are deleted, held or in another month here; compare the wall time of"
                " the month with the receiver's administrator"
            )
        if self._pruned_unknown:
            return (
                f"{UNTIL_PORTAL}: publishing.db was lost, and it is unknown whether "
                f"{count_of(self._pruned_unknown, 'job')} in an archive of `arcacct db prune` were sent"
            )
        if not self._is_unsure or self._plugin.keeps_first:
            return ""
        return (
            f"{UNTIL_PORTAL}: both databases were restored, and keys that neither has may"
            f" also count there; `arcacct verify {month_name(self._target.month)} --portal FILE` compares"
        )

    def _forgotten(self) -> int:
        """Return how many jobs only a lost ledger may have had as sent, at a receiver that keeps its records."""
        if not self._plugin.keeps_first or not incarnation.is_successor(self._ledger):
            return 0
        start, end = self._target.ended
        former = {one.job_id for one in former_keys(self._accounting, 0) if start <= one.end_time < end}
        here = reader.by_job_id(self._accounting, list(former))
        gone = [job_id for job_id in former if job_id not in here or not reader.is_publishable(here[job_id])]
        moved = [job_id for job_id in here.keys() - {*gone} if not start <= here[job_id].end_time < end]
        # If a job ended again in another month, the receiver keeps a version, and only the lost ledger knew which.
        states = held.states(self._ledger, self._block, [*gone, *moved])
        unlike = {job_id for job_id, state in states.items() if state == "correction"}
        return len({*gone} - sent.ever_carried(self._ledger, self._block, gone) | unlike)

    def _noted(self, differences: Iterable[Finding]) -> Iterator[Finding]:
        """The same, with the cause of each noted for the portal."""
        for job_id, text in differences:
            if job_id is not None and self._has_portal:
                cause = next((cause for begin, cause in _CAUSES.items() if text.startswith(begin)), portal.ASIDE)
                self._jobs.note(self._plugin.target.name, cause, [job_id])
            yield job_id, text

    def sent_after(self, moment_s: int, names: Mapping[str | None, Iterable[str]]) -> Counter[str]:
        """
        Return, by VO as the portal compares it, the jobs in messages of the month since a time.

        ``names``: the receiver's VOs by recorded VO.
        """
        found: Counter[str] = Counter()
        plugin, target = self._plugin, self._target
        if target.has_records:
            later = sent.jobs_sent_after(self._ledger, self._block, plugin.record_formats, target.ended, moment_s)
            for vo, count in self._jobs.by_vo(later).items():
                found.update(dict.fromkeys(names[vo], count))
            return found
        for kind, one in sent.sums_sent_after(self._ledger, self._block, *target.month, moment_s):
            if kind != COUNTS and not plugin.has_records(kind):
                found[folded_vo(plugin.summaries(kind).vo_of(one.key))] += one.jobs
        return found

    def unsent(self, cells: Iterable[UsageCell]) -> Iterator[portal.NotedJobs]:
        """
        Return, by VO, what sums lack without another note about single jobs: they wait, or their month is held.

        ``cells``: all usage of the month.
        """
        if self._target.has_records:
            return
        plugin = self._plugin
        given = dict[str, JobSums]()
        for kind, one in sent.live_sums(self._ledger, self._block, *self._target.month):
            if kind != COUNTS and not plugin.has_records(kind) and one.key not in self._unanswered:
                vo = folded_vo(plugin.summaries(kind).vo_of(one.key))
                given[vo] = given.get(vo, JobSums()).plus(one.jobs, one.wall_s or 0, 0)
        cause = portal.NOT_SENT if self._held_month is None else portal.HELD
        wanted: dict[str, tuple[JobSums, str | None]] = {}
        for cell in filter(lambda cell: self.wants(cell.vo), cells):
            vo = folded_vo(self.vo_of(cell))
            ours, example = wanted.get(vo, (JobSums(), cell.vo))
            wanted[vo] = ours.plus(cell.jobs, cell.wall_s, 0), example
        for vo, (ours, example) in wanted.items():
            theirs = given.get(vo, JobSums())
            if theirs.jobs < ours.jobs:
                lacking = (ours.jobs - theirs.jobs, ours.wall_s - theirs.wall_s, 0)
                yield portal.NotedJobs(vo, plugin.target.name, cause, *lacking, self._jobs.example(example))

    def surplus_by_vo(self) -> Counter[str]:
        """By VO as the portal compares it: records with zeros, which the receiver counts as jobs."""
        con, plugin = self._ledger, self._plugin
        found = surplus_records(self._accounting, con, plugin, self._target.ended, ledger.last_message(con))
        return Counter(folded_vo(plugin.any_records().vo_of(ledger.sent_names(con, one.total_id))) for one in found)

    def _doubts(self) -> Iterator[str]:
        """Why it is unknown whether the receiver has the right data."""
        live = sent.live_sums(self._ledger, self._block, *self._target.month) if self._unanswered else ()
        if waiting := sum(1 for _kind, one in live if one.key in self._unanswered):
            yield f"{count_of(waiting, 'sum')} without an answer: the next run of `arcacct publish` sends them again"
        if self._held_month is not None:
            yield held_text(self._held_month)
        elif self._former is not None and self._target.month in self._former.open:
            yield f"{self._former.cause}; {self._former.remedy()}"
        if in_doubt := names_in_doubt(self._accounting, self._ledger, self._plugin):
            yield in_doubt
        elif incarnation.uncertain_after_seq(self._ledger, self._block) is not None:
            yield "an older ledger was restored: later messages are unknown until the next run repeats them"

    def _live_sums(self, kind: str) -> list[SentSum]:
        """The sums of a kind that the receiver has, without those in doubt."""
        live = sent.live_sums(self._ledger, self._block, *self._target.month)
        return [one for found, one in live if found == kind and one.key not in self._unanswered]

    def _aside(self, job: MonthJob) -> str | None:
        """Why a job is quarantined, if it is."""
        if not self._is_any_aside:
            return None
        start, end = self._target.ended
        found = held.held_entries(self._ledger, target=self._block, job_id=job.job_id)
        return next((f"{one.state}: {one.reason}" for one in found if start <= one.end_time < end), None)

    def _why_not(self, job: MonthJob) -> str:
        """Why it does not have a job, apart from quarantine."""
        if job.job_id in self._unanswered_jobs:
            return "sent, no answer yet: the next run sends it again"
        if self._cursor is None:
            return "not sent: the target never published"
        if job.end_time < self._cursor.start_end_time:
            is_known = is_start_known(self._accounting, self._ledger, self._block)
            what = "not sent" if is_known else "unknown whether it was sent, since publishing.db was lost"
            return f"{what}: it ended before the target's start; {self._republish()} sends it"
        if self._held_month is not None:
            return "waits: its month is on hold"
        seq = seq_of(self._accounting, job.record_id)
        if seq is not None and seq > self._cursor.last_seq:
            return "waits for the next run"
        return f"not sent, reason unknown to the ledger; {self._republish()} sends it"

    def _republish(self) -> str:
        """The command that sends the month to this target again."""
        start, end = (iso(bound_s)[:10] for bound_s in month_bounds(*self._target.month))
        return f"`arcacct republish --from {start} --to {end} --target {self._plugin.target.name}`"

    def _delivered(self) -> tuple[Source, Iterator[Finding]]:
        has = self._jobs.sent(
            sent.sent_versions(self._ledger, self._block, self._plugin.record_formats, self._target.ended),
            self._unanswered,
            self._vos,
        )
        if self._plugin.keeps_first and has.gone:
            has.drop(list(self._moved(has)))
        is_same = has.differing == has.gone and next(self._lost(has), None) is None
        is_all = is_same and has.jobs == self._wanted.jobs
        # The sent amount is known by its wall time; the CPU time only if it is that of the database.
        lacking_s = 0 if is_all or not is_same else sum(job.cpu_s for job in has.missing())
        cpu_s = self._wanted.cpu_s - lacking_s if is_same else None
        self._pruned_unknown = self._unknown_of_pruned(has, is_same=is_same)

        def differences() -> Iterator[Finding]:
            for job in () if is_all else has.missing():
                yield job.job_id, self._aside(job) or self._why_not(job)
            known = has.jobs + self._pruned_unknown
            if is_same and known + sum(1 for _job in has.missing()) != self._wanted.jobs:
                # Pruned jobs have no names here.
                yield None, f"{count_of(has.jobs, 'job')}, in the database and its archives {self._wanted.jobs}"
            for job_id in self._lost(has):
                why = "no longer in the database with an end in this month"
                if job_id in self._doubtful:
                    why = f"held since then: {self._doubtful[job_id].text}"
                entries = held.held_entries(self._ledger, target=self._block, job_id=job_id)
                remedy = "".join(f"; {one.state}: {one.reason}" for one in entries)
                yield job_id, f"sent, and {why}{remedy or f'; {self._republish()} takes it back'}"
            left = _MOST_COMPARED
            for job_id, changed, is_wanted in has.otherwise():
                if changed is None:
                    continue
                if is_wanted:
                    why = self._aside(changed) or self._why_not(changed)
                    told = self._how(job_id) if left > 0 else ""
                    left -= 1
                    yield job_id, f"changed since it was sent{told}: {why}"
                else:
                    yield job_id, "sent, and vofilter no longer selects it"

        return Source(self._plugin.target.name, has.jobs, has.wall_s, cpu_s), differences()

    def _how(self, job_id: str) -> str:
        """Return the former and the present state of a record, in brackets; empty if unknown."""
        found = changed_since_sent(
            self._accounting, self._ledger, self._block, job_id, keeps_first=self._plugin.keeps_first
        )
        return f" ({found.text})" if found is not None and found.fields else ""

    def _unknown_of_pruned(self, has: portal.ReceiverSide, *, is_same: bool) -> int:
        """How many jobs in an archive a ledger that was lost may have known to be sent; 0: this one knows all."""
        if not is_same or not self._jobs.pruned or not incarnation.is_successor(self._ledger):
            return 0
        lacking = self._wanted.jobs - has.jobs - sum(1 for _job in has.missing())
        return lacking if 0 < lacking <= self._jobs.pruned else 0

    def _moved(self, has: portal.ReceiverSide) -> Iterator[str]:
        """
        The jobs that the receiver had in this month, and has in another one now, under the same key.

        Somebody there made room, and the job was sent again. `PublishedTotals` says where it counts, its end does not:
        the receiver may have kept the earlier version.
        """
        here = published_total_ids(self._ledger, self._block, self._target.month)
        for some in batches((job_id for job_id, job, _is_wanted in has.otherwise() if job is None), _LOOKED_UP_JOBS):
            for job_id, known in sent.versions(self._ledger, self._block, some, keeps_first=True).items():
                if known and not any(one.total_id is None or one.total_id in here for one in known):
                    yield job_id

    def _lost(self, has: portal.ReceiverSide) -> Iterator[str]:
        """The jobs that the receiver has and that are neither in the month here nor in an archive."""
        ended_s = self._target.ended[0]
        with closing(Archives(self._accounting)) as archives:
            for some in batches(
                (job_id for job_id, job, _is_wanted in has.otherwise() if job is None), _LOOKED_UP_JOBS
            ):
                put_away = archives.archived(self._accounting, dict.fromkeys(some, ended_s))
                yield from (job_id for job_id in some if job_id not in put_away)

    def _sums(self) -> tuple[Source, Iterator[Finding]]:
        """Sums are known by their jobs, and how long these ran; who is missing, as far as it is known."""
        kind = self._target.kind
        live = self._live_sums(kind)
        jobs = sum(one.jobs for one in live)
        known = [one.wall_s for one in live if one.wall_s is not None]
        wall_s = sum(known) if len(known) == len(live) else None

        def differences() -> Iterator[Finding]:
            ours, ours_s = self._wanted.jobs, self._wanted.wall_s
            if jobs != ours:
                yield None, f"{count_of(jobs, 'job')}, in the database {ours}"
            elif wall_s is not None and wall_s != ours_s:
                text = f"{wall_s / HOUR_S:.3f} h of wall time, in the database {ours_s / HOUR_S:.3f} h"
                yield None, text
            else:
                return
            for job in self._jobs.wanted(self._vos):
                aside = self._aside(job)
                why = aside or self._why_not(job)
                if aside is not None or why.startswith("waits"):
                    yield job.job_id, why

        return Source(f"{self._plugin.target.name} {kind}", jobs, wall_s), differences()
