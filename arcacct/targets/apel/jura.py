"""Taking over from jura-ng without counting a job twice: the messages that it sent to APEL, by its own rules."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import NamedTuple

from arcacct.arex import own_database
from arcacct.arex.own_database import ArexDatabase
from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.config.settings import Settings
from arcacct.database import access, schema
from arcacct.database.connection import Connection
from arcacct.publishing import sent, target_months
from arcacct.publishing.context import RunSummary
from arcacct.publishing.former_publisher import FormerPublisher, former_publisher
from arcacct.publishing.held_texts import month_names
from arcacct.publishing.ledger import COUNTS, SentSum
from arcacct.publishing.locks import publishing_lock
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.summaries import summed
from arcacct.publishing.target_months import DECLINED, SWITCHED
from arcacct.records import reader, usage
from arcacct.records.row_mapping import first_end
from arcacct.records.states import SQL_BY_ITSELF
from arcacct.records.texts import unescaped
from arcacct.targets.apel import messages, summaries
from arcacct.targets.apel.messages import LONG, JobKey, field, folded
from arcacct.targets.apel.summaries import JuraCell, Summary, SummaryKey, Sync, SyncKey, folded_key
from arcacct.targets.apel.target import APELMessages
from arcacct.times import Month, iso, month_bounds, month_name, month_of, recent_months

# The messages of jura-ng to APEL, by its own rules: the keys of its summaries, sync records and job records. APEL never
# deletes: if ours have other keys, jura-ng's rows stay and their jobs count twice. The rules are those of jura-ng 6.17
# and 7.0, with their faults; they use values as A-REX wrote them, with percent-escapes.


_TYPES = {6: ("Si2k", "HEPSPEC"), 7: ("Si2k", "HEPSPEC", "HEPscore23")}
"""Benchmark types that each takes, in these letters alone; anything else is HEPSPEC 1.0."""
_FALLBACK = ("HEPSPEC", "1.0")
_PATH = re.compile(r"(?:/[\w.-]+)+")
_WORD = re.compile(r"[\w.-]+")
_PLAIN_HOSTS = ("org.ogf.glue.emies.activitycreation", "org.nordugrid.gridftpjob")
"""Interfaces whose SubmitHost is the bare URL in version 7, too."""

_LETTERS = "dginoru."


class JuraSum(NamedTuple):
    """One summary as jura-ng sent it, and the keys that it may have had in an earlier run."""

    summary: Summary
    earlier: tuple[SummaryKey, ...] = ()


def sums(cells: Iterable[JuraCell], month: Month, site: str, version: int) -> list[JuraSum]:
    """
    Return the summaries that jura-ng sent for these cells, in its order: if two have one key, APEL keeps the later.

    ``cells``, all of one month, are in the order of user, VO, endpoint, nodes, cores, benchmark. Version 6 does not
    distinguish FQANs: all jobs with the same other values get the FQAN of the job that ended last, so earlier runs may
    have sent another.
    """
    groups: dict[tuple[object, ...], list[JuraCell]] = {}
    for cell in cells:
        what = (*cell[:6], cell.benchmark, "" if version == 6 else cell.fqan)
        groups.setdefault(what, []).append(cell)
    found = []
    for group in groups.values():
        last = max(group, key=lambda cell: cell.latest_end_time)
        benchmark = parsed_benchmark(":".join(_service_level(last.benchmark, version)))
        # A value that APEL's loader refuses was not stored there.
        if benchmark is not None:
            spelling = _spelling(last, month, site, version)
            key = _key(spelling, benchmark)
            keys = dict.fromkeys(_key(_spelling(cell, month, site, version), benchmark) for cell in group)
            summary = summaries.summed(key, spelling, [(benchmark, cell) for cell in group])
            found.append(JuraSum(summary, tuple(one for one in keys if one != key)))
    return found


def _spelling(cell: JuraCell, month: Month, site: str, version: int) -> SummaryKey:
    """The values in the letters that were sent; None where a line was left out."""
    kind, value = _service_level(cell.benchmark, version)
    group, role = _group_and_role(cell.fqan, version)
    # For a user without VO, version 6 sends empty values, version 7 no lines.
    unnamed = not cell.vo and version != 6
    return SummaryKey(
        table="Summaries",
        site=site,
        year=month[0],
        month=month[1],
        user=cell.user_dn,
        vo=None if unnamed else cell.vo,
        group=None if unnamed else group or f"/{cell.vo}",
        role=None if unnamed else role or "Role=NULL",
        submit_host=_submit_host(cell.interface, cell.endpoint_url, version),
        infrastructure="grid",
        benchmark_type=kind,
        benchmark_value=value,
        node_count=cell.node_count,
        processors=cell.core_count,
    )


def _key(spelling: SummaryKey, benchmark: Benchmark) -> SummaryKey:
    """APEL's value: an empty text means no value, and a number is compared as a number."""
    stored = (field(value, LONG) if isinstance(value, str) else value for value in spelling)
    return folded_key(SummaryKey._make(stored)._replace(table=spelling.table, benchmark_value=benchmark.value))


def _group_and_role(fqan: str, version: int) -> tuple[str | None, str | None]:
    """
    ``/atlas/Role=production``: the group ``/atlas/Role`` and no role in version 6, ``/Role=production`` in 7.

    (A role with its slash is a word of its own to APEL.)
    """
    path, mark, role = (fqan, "", "") if version == 6 else fqan.partition("/Role=")
    group = _PATH.match(path)
    word = _WORD.match(role)
    if group is None or not mark or word is None or group.end() < len(path):
        return group and group[0], None
    return group[0], f"{mark}{word[0]}"


def _service_level(benchmark: str, version: int) -> tuple[str, str]:
    """Type and value in the letters that were sent."""
    kind, colon, value = benchmark.partition(":")
    return (kind, value) if colon and ":" not in value and kind in _TYPES[version] else _FALLBACK


def _submit_host(interface: str, url: str, version: int) -> str:
    """
    Version 7 puts the interface before the URL, ``arcrest:https://...``, in summaries and sync records alike.

    (It takes more off the interface than ``org.nordugrid.``, namely all its letters: ``internal`` becomes ``ternal``.)
    """
    if version == 6 or interface in _PLAIN_HOSTS:
        return url
    return f"{interface.lstrip(_LETTERS)}:{url}"


def syncs(counts: Iterable[tuple[str, str, int]], month: Month, site: str, version: int) -> list[Sync]:
    """
    Return the sync records that jura-ng sent, in its order: if two have one key, APEL keeps the later.

    ``counts``: interface and URL of an endpoint, and its number of jobs in the month.
    """
    found = []
    for interface, url, jobs in counts:
        host = _submit_host(interface, url, version)
        key = SyncKey(folded(field(site, LONG)), folded(field(host, LONG)), *month)
        found.append(Sync(key, SyncKey(site, host, *month), jobs))
    return found


def job_key(job_id: str, local_job_id: str, end_time: int, site: str) -> JobKey:
    """
    Return APEL's key of a job record of jura-ng, the same in both versions: the JobID if the batch system gave no id.

    Our keys of the same job are equal, unless the two databases have another end or another id for it.
    """
    return JobKey(folded(field(site, LONG)) or "", folded(field(local_job_id or job_id, LONG)) or "", end_time)


def service_level_of_job(benchmark: str, version: int) -> Benchmark | None:
    """
    Return the ServiceLevel of a job record; None if it could not be read.

    Version 7.0 looks for the benchmark in the place of version 6 of the database, and sends HEPSPEC 1.0 for every job.
    """
    return parsed_benchmark(":".join(_FALLBACK if version != 6 else _service_level(benchmark, version)))


# What jura-ng read from A-REX's database, month by month: the jobs that it published, grouped for its messages.


class End(NamedTuple):
    """The parts of the key of a job record; texts as A-REX wrote them."""

    vo: str
    job_id: str
    local_job_id: str
    """Empty if the batch system gave none."""
    end_time: int


_WANTED = f"EndTime >= ? AND EndTime < ? AND Status.Name IN {SQL_BY_ITSELF}"
"""jura-ng publishes jobs that ended in one of these ways, and no others."""
_NAMES = """
      JOIN Users ON Users.ID = UserID JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Endpoints ON Endpoints.ID = EndpointID
      JOIN Status ON Status.ID = StatusID
"""
_FQAN_AND_BENCHMARK = {
    1: (
        "ifnull(AttrValue, '')",
        "ifnull(InfoValue, '')",
        # A resumed job has a benchmark for each of its ends, so a row for each: jura-ng 6 counts them all.
        """
        LEFT JOIN JobExtraInfo ON JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'benchmark'
        LEFT JOIN AuthTokenAttributes ON AuthTokenAttributes.RecordID = AAR.RecordID AND AttrKey = 'mainfqan'
        """,
    ),
    2: (
        "ifnull(FQANs.Name, '')",
        "ifnull(Benchmarks.Name, '')",
        "LEFT JOIN FQANs ON FQANs.ID = FQANID LEFT JOIN Benchmarks ON Benchmarks.ID = BenchmarkID",
    ),
}


def cells(database: ArexDatabase, period: tuple[int, int]) -> list[JuraCell]:
    """
    Yield the cells of the jobs with ``period[0] <= EndTime < period[1]``, in the order that `sums` needs.

    Reads in one transaction, which delays no writer if SQLite reads the file in place.
    """
    fqan, benchmark, join = _FQAN_AND_BENCHMARK[database.version]
    rows = database.con.execute(
        "SELECT Users.Name, WLCGVOs.Name, Interface, URL, NodeCount, CPUCount,"
        f" {fqan} AS Fqan, {benchmark} AS Benchmark, count(*), sum(UsedWalltime),"
        " sum(UsedCPUUserTime + UsedCPUKernelTime), min(EndTime), max(EndTime)"
        f" FROM AAR {_NAMES} {join} WHERE {_WANTED}"
        " GROUP BY UserID, VOID, EndpointID, NodeCount, CPUCount, Benchmark, Fqan"
        " ORDER BY UserID, VOID, EndpointID, NodeCount, CPUCount,"
        # By number if benchmarks have numbers, in the order of the program that wrote them.
        f" {'Benchmark' if database.version == 1 else 'FQANID, BenchmarkID'}, Fqan",
        period,
    )
    return [JuraCell(*row) for row in rows]


def counts(database: ArexDatabase, period: tuple[int, int]) -> list[tuple[str, str, str, int]]:
    """Return ``(vo, interface, URL, jobs)``: the jobs of a period by endpoint, and within it by VO."""
    return database.con.execute(
        f"SELECT WLCGVOs.Name, Interface, URL, count(*) FROM AAR {_NAMES} WHERE {_WANTED}"
        " GROUP BY EndpointID, VOID ORDER BY EndpointID",
        period,
    ).fetchall()


def ends(database: ArexDatabase, period: tuple[int, int]) -> Iterator[list[End]]:
    """The jobs of a period, page by page."""
    first, record_id = period[0], 0
    while rows := database.con.execute(
        # CROSS: by the index of ends, or every page sorts all remaining rows.
        "SELECT EndTime, AAR.RecordID, WLCGVOs.Name, JobID, ifnull(LocalJobID, '') FROM AAR"
        " CROSS JOIN WLCGVOs ON WLCGVOs.ID = VOID CROSS JOIN Status ON Status.ID = StatusID"
        f" WHERE {_WANTED} AND (EndTime > ? OR AAR.RecordID > ?) ORDER BY EndTime, AAR.RecordID LIMIT ?",
        (first, period[1], first, record_id, sent.MANY),
    ).fetchall():
        yield [End(vo, job_id, local_job_id, end) for end, _record, vo, job_id, local_job_id in rows]
        first, record_id = rows[-1][:2]


def ended_again(database: ArexDatabase, period: tuple[int, int]) -> list[str]:
    """Return the JobIDs of jobs that ended more than once: a record may have been sent for an earlier end."""
    rows = database.con.execute(
        f"SELECT JobID FROM AAR JOIN Status ON Status.ID = StatusID JOIN JobEvents USING (RecordID) WHERE {_WANTED}"
        " AND EventKey = 'FINISHED' GROUP BY RecordID HAVING count(DISTINCT EventTime) > 1",
        period,
    )
    return [job_id for (job_id,) in rows]


# Taking over from jura-ng without counting a job twice: the sums at APEL under keys that our records do not replace.
# They are noted in the ledger as if we had sent them, and the next run cancels them with zeros, like our own. This
# module sends nothing.


SUMMARIES = "summaries"
"""The kind in the ledger: both kinds of summaries of jura-ng are in one table at APEL."""
_MILLION = 10**6


class SumsOfMonth(NamedTuple):
    """jura-ng's summaries of a month at APEL, and what happens to them."""

    month: Month
    sums: tuple[Summary, ...]
    left: tuple[Summary, ...]
    """Those of ``sums`` that no sum of ours replaces: their jobs would count twice."""
    perhaps: tuple[SummaryKey, ...]
    """Other keys that jura-ng may have used: in an earlier run, or in a failed one."""
    ours: tuple[int, int]
    """Jobs and wall seconds of the same month and target in our database."""
    syncs: tuple[Sync, ...]
    """Counts under a SubmitHost that our counts do not replace."""


class JobsOfMonth(NamedTuple):
    """jura-ng's job records of a month at APEL."""

    month: Month
    jobs: int
    differing: tuple[str, ...]
    """JobIDs of records with another key here: they would count twice."""
    again: tuple[str, ...]
    """JobIDs of resumed jobs: jura-ng may have sent an earlier end, which APEL keeps as a separate job."""
    wall_s: int
    normalised: tuple[int, int]
    """Wall seconds times benchmark, in millionths: as jura-ng sent it, and as recorded."""
    syncs: tuple[Sync, ...]


class TargetPlan(NamedTuple):
    """The plan for one target."""

    target: str
    block: str
    says: str
    """Notes about the target as a whole."""
    sums: tuple[SumsOfMonth, ...] = ()
    jobs: tuple[JobsOfMonth, ...] = ()
    notes: tuple[str, ...] = ()
    settles: tuple[Month, ...] = ()
    """The months whose sums of jura-ng are all known, so that taking them over settles these months."""


class _Sources(NamedTuple):
    accounting: Connection
    publishing: Connection
    databases: list[ArexDatabase]
    months: Sequence[Month]
    arc: int | None

    def version(self, database: ArexDatabase) -> int:
        """Return the version of jura-ng that read a database."""
        return self.arc or (6 if database.version == 1 else 7)

    def cells(self, plugin: APELMessages, period: tuple[int, int]) -> Iterator[tuple[list[JuraCell], int]]:
        """Return the cells that jura-ng read for a period and a target, and its version, by database."""
        for database in self.databases:
            found = cells(database, period)
            yield [cell for cell in found if plugin.target.wants(cell.vo)], self.version(database)


def plan(
    settings: Settings,
    plugins: Sequence[TargetPlugin],
    databases: Sequence[str],
    months: Sequence[Month] = (),
    arc: int | None = None,
) -> list[TargetPlan]:
    """
    Return what jura-ng sent to each target, and which of it our records do not replace. Only reads.

    ``databases`` are A-REX's; jura-ng's publishing.db is in the same directory. Without ``months``: the month of the
    last job that jura-ng published, and the one before. ``arc``: 6 or 7, the version of jura-ng; ``None``: by the
    database. Raises InputError when a database is not A-REX's, StoreError and its kinds when one cannot be read.
    """
    here = settings.places
    with ExitStack() as stack:
        stack.enter_context(access.translating(here.database))
        ours = stack.enter_context(closing(access.read_accounting(here)))
        ledger = stack.enter_context(closing(access.read_publishing(here)))
        opened = []
        for path in databases:
            workspace = stack.enter_context(tempfile.TemporaryDirectory(prefix="switch-", dir=here.directory))
            database = stack.enter_context(own_database.opened(path, workspace))
            # Names that are not UTF-8 must not stop it: such bytes are escaped, as everywhere.
            database.con.text_factory = lambda content: content.decode("utf-8", "backslashreplace")
            opened.append(database)
        sources = _Sources(ours, ledger, opened, months, arc)
        beside = os.path.join(os.path.dirname(os.path.abspath(databases[0])), "publishing.db")
        return [_plan(sources, plugin, former_publisher(plugin, ledger, beside)) for plugin in plugins]


def _plan(sources: _Sources, plugin: TargetPlugin, former: FormerPublisher | None) -> TargetPlan:
    name, block = plugin.target.name, plugin.target.block
    if not isinstance(plugin, APELMessages):
        return TargetPlan(name, block, plugin.takeover_advice)
    if former is None:
        return TargetPlan(name, block, "jura-ng has never published to it: nothing to do")
    if former.is_guessed:
        return TargetPlan(name, block, f"{former.cause}; {former.remedy()}")
    stopped = former.until_s
    months = sources.months or sorted({*recent_months(stopped), *former.months})
    until = iso(stopped)
    begun_later = _begun_later(sources, stopped)
    settled = [f"not settled: {month_names(former.open)}"] if former.open else []
    if former.decisions:
        settled.append(f"settled: {month_names(sorted(former.decisions))}: {former.decided}")
    arc = " and ".join(sorted({str(sources.version(one)) for one in sources.databases}))
    what = "records" if plugin.has_records(plugin.message_format) else "summaries"
    says = f"jura-ng of ARC {arc} sent {what} of the jobs that ended until {until}"
    if what == "summaries":
        sums = tuple(_sums_of_month(sources, plugin, month, stopped) for month in months)
        since = schema.complete_since(sources.accounting, stopped)
        published = target_months.kinds(sources.publishing, block)
        notes = (
            f"{month_name(month)}: this database does not have every job of it, so nothing of it is sent or cancelled:"
            " `arcacct import arex` imports missing jobs"
            for month in sorted(months)
            if month_bounds(*month)[0] < since and month not in published
        )
        settles = () if begun_later else tuple(months)
        return TargetPlan(name, block, says, sums=sums, notes=(*settled, *begun_later, *notes), settles=settles)
    jobs = [_jobs_of_month(sources, plugin, month, stopped) for month in months]
    return TargetPlan(name, block, says, jobs=tuple(jobs), notes=(*begun_later, *_job_notes(jobs)))


def _begun_later(sources: _Sources, stopped: int) -> list[str]:
    """Return the notes about databases that A-REX created after jura-ng had stopped."""
    firsts = [first_end(database.con, schema.PLAUSIBLE_S) for database in sources.databases]
    if any(first is not None and first <= stopped for first in firsts):
        return []
    why = (
        "jura-ng's messages are unknown: no job in the given databases of A-REX ended before it stopped, so A-REX has"
        " newly created its database; give the former one (`arcacct switch FILE`), and import it (`arcacct import arex"
        " FILE`)"
    )
    return [why]


def _sums_of_month(sources: _Sources, plugin: APELMessages, month: Month, stopped: int) -> SumsOfMonth:
    start, before = month_bounds(*month)
    period = (start, min(before, stopped + 1))
    certain = _jura_sums(sources, plugin, month, period)
    possible = _jura_sums(sources, plugin, month, (start, before))
    mine = usage.usage_cells(sources.accounting, [month])
    sums_now = summed(plugin, plugin.summaries(plugin.message_format), mine, RunSummary()).sums
    kept = {one.key for _text, one in sums_now}
    wanted = [cell for cell in mine if plugin.target.wants(cell.vo)]
    # APEL keeps the last record of one key.
    sums = tuple({one.summary.key: one.summary for one in certain}.values())
    left = tuple(one for one in sums if json.dumps(one.key) not in kept)
    known = kept | {json.dumps(one.key) for one in left}
    perhaps = [key for one in (*certain, *possible) for key in (one.summary.key, *one.earlier)]
    return SumsOfMonth(
        month,
        sums,
        left,
        tuple(key for key in dict.fromkeys(perhaps) if json.dumps(key) not in known),
        (sum(cell.jobs for cell in wanted), sum(int(cell.wall_s) for cell in wanted)),
        _syncs_left(sources, plugin, month, period),
    )


def _jura_sums(sources: _Sources, plugin: APELMessages, month: Month, period: tuple[int, int]) -> list[JuraSum]:
    found = sources.cells(plugin, period)
    return [one for group, version in found for one in sums(group, month, plugin.site, version)]


def _syncs_left(sources: _Sources, plugin: APELMessages, month: Month, period: tuple[int, int]) -> tuple[Sync, ...]:
    """The counts that jura-ng sent under a key of its own; zeros take them back when the sync message is sent."""
    mine = [
        (SyncKey(*plugin.counts.site_and_host(cell.endpoint_url), *month), cell.jobs)
        for cell in usage.usage_cells(sources.accounting, [month])
        if plugin.target.wants(cell.vo)
    ]
    kept = {one.key for one in summaries.syncs(mine)}
    found: dict[SyncKey, Sync] = {}
    for database in sources.databases:
        wanted = [
            (interface, url, jobs) for vo, interface, url, jobs in counts(database, period) if plugin.target.wants(vo)
        ]
        found |= {one.key: one for one in syncs(wanted, month, plugin.site, sources.version(database))}
    return tuple(one for key, one in found.items() if key not in kept)


def _jobs_of_month(sources: _Sources, plugin: APELMessages, month: Month, stopped: int) -> JobsOfMonth:
    start, before = month_bounds(*month)
    period = (start, min(before, stopped + 1))
    jobs, differing = 0, []
    for database in sources.databases:
        for page in ends(database, period):
            wanted = [one for one in page if plugin.target.wants(one.vo)]
            jobs += len(wanted)
            differing += _differing(sources, plugin, wanted)
    default = plugin.options.default_benchmark
    found = [
        (cell, service_level_of_job(cell.benchmark, version))
        for group, version in sources.cells(plugin, period)
        for cell in group
    ]
    return JobsOfMonth(
        month,
        jobs,
        tuple(differing),
        tuple(job_id for database in sources.databases for job_id in ended_again(database, period)),
        sum(cell.wall_s for cell, _level in found),
        (
            sum(level.normalised(cell.wall_s) for cell, level in found if level is not None),
            sum((parsed_benchmark(cell.benchmark) or default).normalised(cell.wall_s) for cell, _level in found),
        ),
        _syncs_left(sources, plugin, month, period),
    )


def _differing(sources: _Sources, plugin: APELMessages, page: Sequence[End]) -> list[str]:
    """The jobs that our own record has another key for."""
    different, without_prefix = [], plugin.options._replace(localid_prefix="")
    theirs = {unescaped(one.job_id): one for one in page}
    for job_id, aar in reader.by_job_id(sources.accounting, list(theirs)).items():
        end = theirs[job_id]
        key = job_key(end.job_id, end.local_job_id, end.end_time, plugin.site)
        if messages.job_key(aar, without_prefix) != key:
            different.append(job_id)
    return different


def _job_notes(jobs: Sequence[JobsOfMonth]) -> tuple[str, ...]:
    """Return how far the figures change because jura-ng left out the benchmark."""
    return tuple(
        f"{name}: jura-ng sent ServiceLevels that differ from the recorded ones (ARC 7.0 sends 1.0 for every job):"
        f" {hours(sent_s)} normalised hours instead of {hours(recorded_s)}. The portal's figures jump when"
        f" arcacct publishes; `arcacct republish --from {name}-01 --to {following}-01` corrects the whole month"
        for one in jobs
        for name, following in [(month_name(one.month), month_name(month_of(month_bounds(*one.month)[1])))]
        for sent_s, recorded_s in [(one.normalised[0] // _MILLION, one.normalised[1] // _MILLION)]
        if one.normalised[0] != one.normalised[1]
    )


def hours(seconds: int) -> str:
    """Return seconds as hours for people."""
    return f"{seconds / 3600:,.2f}"


def take_over(settings: Settings, plans: Sequence[TargetPlan], who: str) -> dict[str, int]:
    """
    Note in the ledger the keys that our records do not replace, and the operator; return the number of new keys of each
    target.

    Targets without such keys are left out. Repeating it changes nothing. Raises StoreBusy if a publisher runs,
    StoreError for an error of the ledger.
    """
    with _ledger(settings) as con:
        new = {
            one.target: sum(sent.adopt(con, one.block, kind, sums) for kind, sums in found.items())
            for one in plans
            if (found := left(one))
        }
        for one in plans:
            target_months.decide(con, one.block, one.settles, SWITCHED, who)
    return new


def decline(settings: Settings, months: Mapping[str, Sequence[Month]], who: str) -> None:
    """Note in the ledger that jura-ng's sums of some months stay at the receivers; ``months``: by block of a target."""
    with _ledger(settings) as con:
        for block, some in months.items():
            target_months.decide(con, block, some, DECLINED, who)


@contextmanager
def _ledger(settings: Settings) -> Iterator[Connection]:
    here = settings.places
    with publishing_lock(here.publishing_lock), access.translating(here.publishing_database):
        con = access.open_publishing(here)
        with access.close_or_leave_open(con, here.publishing_database, here):
            yield con


def left(one: TargetPlan) -> dict[str, list[SentSum]]:
    """
    Return the receiver's keys, or possible keys, that our records do not replace: sums and counts, by the ledger's
    kind.

    A kind without any of them is left out.
    """
    certain = [(summary.key, summary.jobs) for month in one.sums for summary in month.left]
    perhaps = [(key, 1) for month in one.sums for key in month.perhaps]
    months: list[SumsOfMonth | JobsOfMonth] = [*one.sums, *one.jobs]
    counted = [(sync.key, sync.jobs) for month in months for sync in month.syncs]
    return {
        kind: [SentSum(json.dumps(key), key.year, key.month, jobs) for key, jobs in found]
        for kind, found in ((SUMMARIES, [*certain, *perhaps]), (COUNTS, counted))
        if found
    }
