"""
The table of checks: the checked value, the page of the manual, and the metrics for Prometheus.

Each row is a function of the facts in `facts`. `arcacct status`, `arcacct metrics` and `arcacct doctor` show it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from arcacct.arex.resident import UNIT
from arcacct.arex.spool import Spooled
from arcacct.config.options import ERROR
from arcacct.config.settings import Settings
from arcacct.config.values import Thresholds
from arcacct.database import durable
from arcacct.database.incarnation import MEANING, DatabaseMismatch
from arcacct.errors import ConfigError, CredentialError, FiguresHeld, TargetBusy
from arcacct.health import facts
from arcacct.health.databases import Basis, RecordingState, TargetState
from arcacct.health.facts import CRITICAL, OK, UNKNOWN, WARNING, Check, Health, Metric, Values, advised, ago, over
from arcacct.publishing.held_texts import held_text, month_names
from arcacct.publishing.selection import NOT_SELECTED
from arcacct.records import unfinished
from arcacct.records.enrichment import FEATURES
from arcacct.records.hold_decisions import NONE
from arcacct.records.holds import HELD, PUBLISHED
from arcacct.records.states import BOUNDS
from arcacct.times import DAY_S, iso, month_name, recent_months
from arcacct.wording import count_of, span_of

_CLOCK_TOLERANCE_S = 300
_RECORDED_S = 900
_SNAPSHOT_S = 2 * DAY_S
"""A copy for readers that is older is not what its readers take it for."""
UNMEASURED_TODO = (
    "check the .diag of a job without wall time: do the worker nodes have GNU time? missing_wall_time= in [arcacct]"
    " sets what is published for such jobs"
)
_SNAPSHOT = "run `arcacct db snapshot DIR` by its timer, or remove it"


Judge = Callable[["Health", Thresholds], Iterable[Check]]


class HealthCheck(NamedTuple):
    """A row of the table."""

    judge: Judge
    manual: str
    metrics: tuple[Metric, ...]
    by_doctor: bool
    """Whether `arcacct doctor` shows the same text; it checks the others more closely, or not at all."""


CHECKS: list[HealthCheck] = []
"""Every check, in the order of a job's life."""


def _check(manual: str, *metrics: Metric, by_doctor: bool = True) -> Callable[[Judge], Judge]:
    """The function is a row of the table."""

    def add(judge: Judge) -> Judge:
        CHECKS.append(HealthCheck(judge, manual, metrics, by_doctor))
        return judge

    return add


def _recorded(read: Callable[[RecordingState], Values]) -> Callable[[Health], Values]:
    return lambda found: {} if found.recorded is None else read(found.recorded)


def _left(read: Callable[[Spooled], Values]) -> Callable[[Health], Values]:
    """Return the content of the spools; if they cannot be listed, that after the last sweep."""

    def values(found: Health) -> Values:
        left = found.spool if not found.spool.unknown else None if found.recorded is None else found.recorded.left
        return None if left is None else read(left)

    return values


def _of_settings(read: Callable[[Settings], float]) -> Callable[[Health], Values]:
    return lambda found: None if found.settings is None else read(found.settings)


def _of_basis(read: Callable[[Basis], Values]) -> Callable[[Health], Values]:
    return lambda found: {} if found.basis is None else read(found.basis)


def _each_launcher(read: Callable[[facts.Launcher], float | None]) -> Callable[[Health], Values]:
    return lambda found: {(one.path,): read(one) for one in found.launchers}


def _each_target(read: Callable[[TargetState], float | None]) -> Callable[[Health], Values]:
    return lambda found: {(one.name,): read(one) for one in found.targets}


def _implausible_values(found: Health) -> Values:
    """Each reason for which jobs may be held, also where none is; of those that were settled what there is."""
    if found.recorded is None:
        return {}
    counted: dict[tuple[str, ...], float | None] = {(reason, HELD): 0 for reason in BOUNDS}
    return counted | {
        (reason, state): count for state, counts in found.implausible.items() for reason, count in counts.by_reason
    }


_STATES = ("held", "quarantined", "correction", "retry", "dropped")


@_check(
    "howto/care-of-the-database.md",
    Metric("arcacct_jobs", "Jobs in the accounting database", _recorded(lambda one: one.jobs)),
    Metric(
        "arcacct_database_bytes",
        "Size of the accounting database with its WAL",
        lambda found: None if found.recorded is None else found.size_bytes,
    ),
)
def _databases(found: Health, _limits: Thresholds) -> Iterator[Check]:
    if found.problem is not None:
        yield advised("database", CRITICAL, found.problem)
    elif found.recorded is not None:
        size = f"{found.size_bytes / 2**20:.1f} MiB, schema {found.recorded.schema}"
        yield Check("database", OK, f"{found.database}: {size}, {count_of(found.recorded.jobs, 'job')}")
    if found.writer is not None:
        text = f"process {found.writer} keeps the database locked: events wait until it ends"
        yield Check("lock", CRITICAL, text, f"check what it does (ps {found.writer})")
    if found.maintenance:
        text = "database maintenance is running: events wait until it ends"
        advice = (
            "wait for that `arcacct db` command, or repeat one that was killed; if you created the file `maintenance`"
            " next to the database, remove it"
        )
        yield Check("maintenance", WARNING, text, advice)
    if found.leftovers:
        text = f"{', '.join(found.leftovers)}: left by a killed command"
        advice = "the next `arcacct db backup` (or `db optimize --shrink`) removes it; you may also remove it yourself"
        yield Check("leftovers", WARNING, text, advice)
    if found.recorded is not None and found.recorded.foreign_records:
        text = (
            f"{found.recorded.foreign_records} of the newest records were written by another program: if that is"
            " A-REX, it loses rows"
        )
        yield Check("writers", CRITICAL, text, "give arcacct another path (database= in arcacct.conf)")


@_check(
    "reference/messages.md#the-two-databases",
    Metric(
        "arcacct_ledger_doubts",
        "Disagreement between accounting.db and publishing.db; 0: none",
        lambda found: (
            None if found.recorded is None else len(found.doubts) + sum(one.in_doubt for one in found.targets)
        ),
    ),
)
def _doubts(found: Health, _limits: Thresholds) -> Iterator[Check]:
    """Whether both databases are the two that belong together, and neither is an old copy."""
    for doubt in found.doubts:
        advice = "" if doubt is DatabaseMismatch.FOREIGN else "if this is intended, run `arcacct publish`"
        yield Check("ledger", CRITICAL, MEANING[doubt], advice)


@_check(
    "explanation/recording.md",
    Metric(
        "arcacct_last_event_timestamp_seconds",
        "Time of the last recorded state change",
        _recorded(lambda one: one.last_event_s),
    ),
    Metric(
        "arcacct_cut_records",
        "Records of the last day that were cut, because a file or value was too long",
        _recorded(lambda one: one.cut_records),
    ),
)
def _recorder(found: Health, _limits: Thresholds) -> Iterator[Check]:
    if found.recorded is None:
        return
    event = found.recorded.last_event_s
    yield Check("recorder", OK, "no event recorded yet" if event is None else f"last event {ago(found.now, event)}")
    if found.recorded.cut_records:
        # arcacct works as it should, but the administrator should look at a megabyte of .diag.
        cut_files = found.recorded.cut_files
        files = f", {cut_files} of them with a file above 1 MiB" if cut_files else ""
        text = (
            f"{count_of(found.recorded.cut_records, 'record')} of the last day cut, because a file or "
            f"value was too long{files}"
        )
        advice = 'see `arcacct query "SELECT * FROM v1_record_notes"`'
        yield Check("cut", WARNING if cut_files else OK, text, advice)


@_check(
    "explanation/recording.md",
    Metric("arcacct_last_sweep_timestamp_seconds", "End of the last sweep", _recorded(lambda one: one.last_sweep_s)),
)
def _sweep(found: Health, limits: Thresholds) -> Iterator[Check]:
    if found.recorded is None or (found.recorded.last_sweep_s is None and found.is_without_arex):
        return
    swept = found.recorded.last_sweep_s
    severity = WARNING if swept is None else over(found.now - swept, limits.sweep_s)
    text = "never ran" if swept is None else f"last one {ago(found.now, swept)}"
    yield Check("sweep", severity, text, "is arcacct-sweep.timer active?" if severity else "")


@_check(
    "howto/rejected-records.md",
    Metric(
        "arcacct_import_rejected_records{source}",
        "Records of imports that could not be used",
        _recorded(lambda one: {(source,): count for source, count in one.rejected.by_source.items()}),
    ),
    Metric(
        "arcacct_import_rejected_oldest_timestamp_seconds",
        "Time of the oldest of them",
        _recorded(lambda one: one.rejected.oldest_s),
    ),
    Metric(
        "arcacct_sonar_dropped_values_total{field}",
        "Values of telemetry that could not be used",
        _recorded(lambda one: {(field,): count for field, count in one.dropped.items()}),
    ),
)
def _imports(found: Health, _limits: Thresholds) -> Iterator[Check]:
    """Check records of imports that could not be used: they are in no sum until an operator handles them."""
    rejected = None if found.recorded is None else found.recorded.rejected
    if rejected is not None and rejected.by_source and rejected.oldest_s is not None:
        counts = ", ".join(f"{count} of {source}" for source, count in rejected.by_source.items())
        ours = f", {rejected.ours} by an internal error (please report it)" if rejected.ours else ""
        text = f"{counts} could not be used{ours}, the oldest {ago(found.now, rejected.oldest_s)}"
        retries = " and ".join(
            "`arcacct features record --pattern PATTERN --retry`"
            if source == FEATURES
            else f"`arcacct import {source} --retry`"
            for source in rejected.by_source
        )
        advice = f"see `arcacct import rejected`; after an upgrade or a correction run {retries}"
        yield Check("imports", WARNING, text, advice)


@_check(
    "explanation/recording.md#jobs-whose-files-are-gone",
    Metric(
        "arcacct_jobs_on_hold",
        "Jobs that ended with unknown usage",
        lambda found: None if found.recorded is None else found.on_hold,
    ),
)
def _vanished(found: Health, _limits: Thresholds) -> Iterator[Check]:
    if found.on_hold:
        text = f"{count_of(found.on_hold, 'job')} ended with unknown usage"
        yield Check("vanished", WARNING, text, f"{unfinished.REMEDIES}; `arcacct verify` of the month names them")


@_check(
    "howto/implausible.md",
    Metric(
        "arcacct_implausible_jobs{reason,state}",
        "Jobs with values that cannot be true, by reason: held, decided, or published before values were checked",
        _implausible_values,
    ),
)
def _implausible(found: Health, limits: Thresholds) -> Iterator[Check]:
    """Whether figures lack jobs whose values cannot be true, or have some."""
    held, published = found.implausible.get(HELD, NONE), found.implausible.get(PUBLISHED, NONE)
    if held.records:
        text = f"{count_of(held.records, 'job')} held, not counted and not sent, {held.why} ({held.text})"
        advice = "see `arcacct quarantine list`, and decide on them with `arcacct quarantine decide`"
        yield Check("implausible", over(held.records, limits.implausible), text, advice)
    if published.records:
        text = (
            f"{count_of(published.records, 'job')} with values that cannot be true, published before values were"
            f" checked ({published.text})"
        )
        advice = (
            "see `arcacct quarantine list --decided`, and correct or keep them with `arcacct quarantine decide"
            " --published`"
        )
        severity = over(published.records, limits.implausible._replace(critical=2**63))
        yield Check("implausible", severity, text, advice)


@_check(
    "howto/implausible.md#unmeasured-jobs",
    Metric(
        "arcacct_recent_jobs",
        "Jobs that ended in this month or the one before, by the sums",
        _of_basis(lambda one: one.jobs),
    ),
    Metric(
        "arcacct_recent_jobs_without{what}",
        "Those without a measured wall time, without CPU time, and with only the default benchmark",
        _of_basis(
            lambda one: {("wall",): one.without_wall, ("cpu",): one.without_cpu, ("benchmark",): one.without_benchmark}
        ),
    ),
)
def _measured(found: Health, limits: Thresholds) -> Iterator[Check]:
    if found.basis is not None and (found.basis.jobs or found.basis.held):
        year, month = min(recent_months(found.now))
        severity = over(found.basis.without_wall_percent, limits.unmeasured_percent)
        text = f"{year:04d}-{month:02d} and later: {found.basis}"
        yield Check("measured", severity, text, UNMEASURED_TODO if severity else "")


@_check(
    "howto/install.md#4-add-the-callouts",
    Metric(
        "arcacct_launcher_ok{launcher}",
        "1: A-REX can start its callout",
        _each_launcher(lambda one: 1 if one.problem is None else 0 if one.problem.severity == ERROR else None),
    ),
    by_doctor=False,
)
def _launchers(found: Health, _limits: Thresholds) -> Iterator[Check]:
    return (facts.launcher_check(one.problem) for one in found.launchers if one.problem is not None)


@_check(
    "howto/install.md#4-add-the-callouts",
    Metric(
        "arcacct_ended_jobs{told_by}",
        "Jobs of A-REX that ended within the last day, by the reporter of their end: callout or sweep",
        _recorded(lambda one: {("callout",): one.ends.jobs - one.ends.swept, ("sweep",): one.ends.swept}),
    ),
)
def _callouts(found: Health, limits: Thresholds) -> Iterator[Check]:
    """Whether A-REX calls us: how many ends the callouts reported, and how many only the sweep found."""
    ends = None if found.recorded is None else found.recorded.ends
    if ends is not None and ends.jobs:
        text = (
            f"of {count_of(ends.jobs, 'job')} that ended within a day and after recording began, callouts reported"
            f" {ends.jobs - ends.swept}, and the sweep found {ends.swept}"
        )
        severity = over(100 * ends.swept // ends.jobs, limits.swept_percent)
        advice = "does A-REX call arcacct-hook? See `statecallout` in arc.conf, and `Plugin at state` in A-REX's log"
        yield Check("callouts", severity, text, advice if severity else "")


@_check(
    "explanation/recording.md#where-a-recorder-runs",
    Metric(
        "arcacct_recorder_running",
        "1: a recorder records the events that callouts spool; 0: they wait for the next sweep",
        lambda found: None if found.recorder is None else found.recorder.process is not None,
    ),
)
def _resident(found: Health, _limits: Thresholds) -> Iterator[Check]:
    """Whether a recorder records what callouts spool, or only the next sweep does."""
    recorder = found.recorder
    if found.is_without_arex:
        return
    if found.no_directory:
        yield Check("recorder service", UNKNOWN, f"cannot read: {found.no_directory}")
        return
    if recorder is None:
        return
    if recorder.reason:
        text = f"process {recorder.process} cannot record, and events wait in the spool: {recorder.reason}"
        yield Check("recorder service", WARNING, text, f"systemctl restart {UNIT}, once the cause is removed")
    elif recorder.process is not None:
        text = f"process {recorder.process} records what state callouts report, within a second"
        yield Check("recorder service", OK, text)
    else:
        text, advice = "no recorder runs: events wait for the next sweep", f"systemctl enable --now {UNIT}"
        yield Check("recorder service", WARNING if recorder.is_enabled else OK, text, advice)


@_check(
    "explanation/recording.md",
    Metric("arcacct_spool_files", "Events that wait in the spool", _left(lambda one: one.files)),
    Metric(
        "arcacct_spool_oldest_timestamp_seconds",
        "Time of the oldest event in the spool",
        _left(lambda one: one.oldest_s),
    ),
    Metric("arcacct_spool_unusable_files", "Unusable files of the spool", _left(lambda one: one.unusable)),
    Metric(
        "arcacct_spool_known",
        "1: every spool could be listed; 0: the metrics are those of the last sweep",
        lambda found: not found.spool.unknown,
    ),
)
def _spool(found: Health, limits: Thresholds) -> Iterator[Check]:
    for text in found.misshapen:
        yield advised("spool", CRITICAL, f"{text}: nothing can be recorded until then")
    spool, recorder = found.spool, found.recorder
    severity = _waits(spool, found.now, limits)
    is_late = (
        recorder is not None
        and recorder.process is not None
        and spool.oldest_s is not None
        and found.now - spool.oldest_s > _RECORDED_S
    )
    text = _events(found.now, spool)
    if spool.unknown:
        # By the sweep, whose own age is another check.
        left = None if found.recorded is None else found.recorded.left
        hidden = f"cannot read: {', '.join(spool.unknown)}"
        if left is None:
            known = f"{text}; " if spool.files or spool.unusable else ""
            text = f"{known}{hidden}; it is unknown whether a sweep has recorded its content"
            yield Check("spool", severity or UNKNOWN, text, exit_code=TargetBusy.exit_code)
            return
        severity = max(severity, _waits(left, found.now, limits))
        text = f"{_events(found.now, left)}, as of the last sweep ({hidden})"
    if is_late and severity == OK:
        # A recorder takes an event within a second, and an incomplete one within ten minutes.
        severity, text = WARNING, f"{text}, and the running recorder does not record them"
    aside = "`arcacct doctor` says what to do with each file in spool/unusable"
    advice = aside if spool.unusable else "run `arcacct sweep` and read its messages"
    yield Check("spool", severity, text, advice if severity else "")


@_check(
    "explanation/recording.md",
    Metric(
        "arcacct_launcher_spool_files{launcher}",
        "Events in the launcher's own spool, which no sweep drains",
        _each_launcher(lambda one: one.astray.files),
    ),
    Metric(
        "arcacct_launcher_spool_oldest_timestamp_seconds{launcher}",
        "Time of the oldest of them",
        _each_launcher(lambda one: one.astray.oldest_s),
    ),
)
def _launcher_spools(found: Health, _limits: Thresholds) -> Iterator[Check]:
    for launcher in found.launchers:
        if launcher.places:
            astray, places = launcher.astray, " and ".join(launcher.places)
            text = f"{launcher.path} spools in {places}, which no sweep reads: {_events(found.now, astray)}"
            advice = (
                "set spool_fallback= in [arcacct] to the same directory, or leave spool= of the launcher empty, and"
                " run `arcacct sweep`"
            )
            yield Check("launcher spool", CRITICAL, text, advice, ConfigError.exit_code)


def _waits(spool: Spooled, now: int, limits: Thresholds) -> int:
    severity = over(spool.files, limits.spool_files)
    if spool.oldest_s is not None:
        severity = max(severity, over(now - spool.oldest_s, limits.spool_s))
    return max(severity, WARNING) if spool.unusable else severity


def _events(now: int, spool: Spooled) -> str:
    text = "empty"
    if spool.oldest_s is not None:
        text = f"{count_of(spool.files, 'event')}, the oldest from {ago(now, spool.oldest_s)}"
    return f"{text}; {count_of(spool.unusable, 'file')} in spool/unusable" if spool.unusable else text


@_check(
    "howto/care-of-the-database.md",
    Metric(
        "arcacct_last_care_timestamp_seconds{kind}",
        "Last backup, check, prune and snapshot of the databases",
        lambda found: {(kind,): done.at_s for kind, done in found.maintenance_log.items()},
    ),
    Metric(
        "arcacct_check_found_damage",
        "1: the last `arcacct db check` found damage",
        lambda found: None if (last := found.maintenance_log.get(durable.CHECK)) is None else not last.is_well,
    ),
)
def _care(found: Health, limits: Thresholds) -> Iterator[Check]:
    """Check whether there is a backup, and the result of the last check of the databases."""
    last = found.maintenance_log.get(durable.BACKUP)
    if found.recorded is not None:
        since = found.recorded.created_s if last is None else last.at_s
        text = "none is known" if last is None else f"last one {ago(found.now, last.at_s)}"
        # Another program may make backups: a missing note is never critical.
        severity = min(over(found.now - since, limits.backup_s), WARNING if last is None else CRITICAL)
        yield Check("backup", severity, text, "run `arcacct db backup DIR` every night" if severity else "")
    last = found.maintenance_log.get(durable.CHECK)
    if last is not None:
        text = f"last one {ago(found.now, last.at_s)}{'' if last.is_well else ' found damage'}"
        advice = "" if last.is_well else "run `arcacct db check`, then do what it says"
        yield Check("check", OK if last.is_well else CRITICAL, text, advice)
    last = found.maintenance_log.get(durable.SNAPSHOT)
    if found.recorded is not None and last is not None:
        is_other = last.incarnation != found.recorded.life
        text = f"last one {ago(found.now, last.at_s)}{', of the database before it was restored' if is_other else ''}"
        is_old = is_other or found.now - last.at_s >= _SNAPSHOT_S
        yield Check("snapshot", WARNING if is_old else OK, text, _SNAPSHOT if is_old else "")


@_check(
    "howto/switch-from-jura-ng.md",
    Metric("arcacct_targets", "Configured targets of arcacct", _of_settings(lambda one: len(one.targets))),
    Metric("arcacct_publishes", "0: this host only records (publishes=no)", _of_settings(lambda one: one.publishes)),
    Metric(
        "arcacct_jura_targets",
        "Targets in arc.conf, to which A-REX's jura publishes",
        _of_settings(lambda one: len({*one.jura_targets})),
    ),
)
def _publishers(found: Health, _limits: Thresholds) -> Iterator[Check]:
    """Whether there is a target, and no other program publishes to it."""
    who = found.settings
    if who is None:
        return
    # Two publishers are an error of the configuration, which names the lines.
    names = ", ".join(f"[{block}]" for block in dict.fromkeys(who.jura_targets))
    if names and not who.publishes:
        yield Check("jura", OK, f"A-REX's jura publishes to {names}; arcacct only records (publishes=no)")
    elif names and who.allow_jura:
        yield Check("jura", OK, f"A-REX's jura publishes to the same targets, as allow_jura=yes allows: {names}")
    elif not who.publishes:
        yield Check("targets", OK, "none: this host only records (publishes=no)")
    elif not who.targets and not names:
        text = "no target is configured, so nothing is published"
        todo = "configure one in arcacct.conf; if this host must only record, set publishes=no in [arcacct]"
        yield Check("targets", WARNING, text, todo)


@_check("howto/switch-from-jura-ng.md")
def _former_publishers(found: Health, _limits: Thresholds) -> Iterator[Check]:
    """Whether jura-ng published months of a target as well, and that is settled."""
    still = () if found.settings is None else found.settings.jura_targets
    for one in found.former:
        # The check of jura-ng reports what it publishes today.
        if one.block in still or not one.months:
            continue
        if one.open:
            text = f"{one.target}: {month_names(one.open)}: {one.cause}"
            yield Check("switch", CRITICAL, text, one.remedy(), FiguresHeld.exit_code)
        else:
            yield Check("switch", OK, f"{one.target}: jura-ng's sums until {iso(one.until_s)}: {one.decided}")


@_check(
    "howto/monitor.md",
    Metric(
        "arcacct_target_last_success_timestamp_seconds{target}",
        "Last run of a target without error",
        _each_target(lambda one: one.last_success_s),
    ),
    Metric(
        "arcacct_target_due_timestamp_seconds{target}",
        "When a target is due next",
        _each_target(lambda one: one.due_s or None),
    ),
    Metric(
        "arcacct_target_waiting_records{target}",
        "Unsent records of a target",
        _each_target(lambda one: one.waiting.records),
    ),
    Metric(
        "arcacct_target_oldest_waiting_timestamp_seconds{target}",
        "End time of the oldest of them",
        _each_target(lambda one: one.waiting.oldest_end_s),
    ),
    Metric(
        "arcacct_target_unanswered_messages{target}",
        "Messages without an answer",
        _each_target(lambda one: one.unanswered),
    ),
    Metric(
        "arcacct_target_never_sent_records{target}",
        "Jobs from before a target's start that were never sent to it",
        _each_target(lambda one: one.never_sent if one.is_start_known else None),
    ),
    by_doctor=False,
)
def _targets(found: Health, limits: Thresholds) -> Iterator[Check]:
    return (_target_check(found, target, limits) for target in found.targets)


def last_error(state: TargetState) -> str:
    """Return the error that ended a target's last run, in one line; held records have their own check."""
    error = state.last_error or ""
    return "" if " held: " in error else " ".join(error.split())


def _target_check(found: Health, state: TargetState, limits: Thresholds) -> Check:
    now = found.now
    settings = found.settings
    left = () if settings is None or settings.allow_jura else settings.jura_targets
    if state.block in left and state.last_run_s is None:
        # The check of jura-ng is the warning.
        return Check(state.name, OK, "left to A-REX's jura, while its block is in arc.conf")
    parts = ["never published" if state.last_success_s is None else f"last success {ago(now, state.last_success_s)}"]
    severity = OK
    if state.waiting.records and state.waiting.oldest_end_s is not None:
        parts.append(
            f"{count_of(state.waiting.records, 'record')} waiting, the oldest ended "
            f"{ago(now, state.waiting.oldest_end_s)}"
        )
        # Not before they could be sent: when they ended, or when the target was due.
        severity = over(now - max(state.waiting.oldest_end_s, state.due_s), limits.unsent_s)
    else:
        parts.append("nothing waiting")
    if state.last_success_s is not None:
        overdue = over(now - state.due_s, limits.unsent_s)
        if overdue and (state.last_run_s or 0) <= state.due_s:
            # Nothing may be waiting, but nothing would be sent either.
            severity = max(severity, overdue)
            parts.append("no run since it was due: is arcacct-publish.timer active?")
    if state.unanswered:
        parts.append(f"{count_of(state.unanswered, 'message')} without an answer")
    if error := last_error(state):
        # Also if nothing waits: the run failed, with or without the sync message. A receiver may be busy for a while;
        # any other failure needs an administrator.
        is_busy = state.last_success_s and state.last_exit_code in (0, TargetBusy.exit_code)
        severity = max(severity, over(now - state.due_s, limits.unsent_s), OK if is_busy else WARNING)
        parts.append(f"last error: {error}")
    if state.never_sent:
        what = f"{count_of(state.never_sent, 'job')} from before {iso(state.start_s)}"
        if state.is_start_known:
            parts.append(f"{what} never sent (`arcacct republish` sends them)")
        else:
            why = "it is unknown whether they were sent, because publishing.db was lost"
            parts.append(f"{what}: {why} (`arcacct publish --since TIME` sends them again)")
    parts.append("due" if state.due_s <= now else f"due {iso(state.due_s)}")
    return Check(state.name, severity, "; ".join(parts))


@_check(
    "explanation/figures-that-do-not-fall.md",
    Metric(
        "arcacct_target_held_months{target}",
        "Months on hold, because figures would fall without proof",
        _each_target(lambda one: len(one.held_months)),
    ),
    Metric(
        "arcacct_target_held_month_jobs{target,month,kind}",
        "Jobs of such a month: published (given), and now in the database (found)",
        lambda found: {
            (target.name, f"{one.year:04d}-{one.month:02d}", kind): jobs
            for target in found.targets
            for one in target.held_months
            for kind, jobs in (("given", one.published_jobs), ("found", one.found_jobs))
        },
    ),
    by_doctor=False,
)
def _figures(found: Health, _limits: Thresholds) -> Iterator[Check]:
    """Whether the receivers' figures may be sent, or would fall without proof."""
    for target in found.targets:
        if target.held_months:
            yield Check(f"{target.name} figures", CRITICAL, held_text(*target.held_months))
        if target.names_in_doubt:
            yield Check(f"{target.name} figures", CRITICAL, target.names_in_doubt)
        for kind, month, one in target.refused_sums:
            text = f"{month_name(month)}: a record of {kind} rejected in {count_of(one.refusals, 'run')}: {one.reason}"
            severity = OK if one.refusals == 1 else WARNING
            yield Check(f"{target.name} sums", severity, text, "each run sends it again")
        for month, surplus in target.surplus:
            text = f"{month_name(month)}: usage is right, {surplus}: the receiver never deletes a record"
            yield Check(f"{target.name} surplus", OK, text)
        if target.not_selected:
            yield Check(f"{target.name} selection", OK, f"{count_of(target.not_selected, 'job')} {NOT_SELECTED}")
        if target.ledger_problem:
            yield Check(f"{target.name} ledger", CRITICAL, target.ledger_problem)
        if target.in_doubt:
            text = "an older ledger was restored: later messages are unknown until the next run repeats them"
            yield Check(f"{target.name} ledger", WARNING, text)


@_check(
    "howto/set-aside.md",
    Metric(
        "arcacct_target_held_records{target,state}",
        "Quarantined records",
        lambda found: {(one.name, state): one.held.get(state, 0) for one in found.targets for state in _STATES},
    ),
    by_doctor=False,
)
def _quarantines(found: Health, limits: Thresholds) -> Iterator[Check]:
    for target in found.targets:
        held, once, ahead = target.held, target.refused_once, target.ahead
        settling = held.get("held", 0) - sum(one.records for one in (once, ahead) if one is not None)
        counts = {**held, "held": settling}
        parts = [f"{count} {state}" for state, count in sorted(counts.items()) if count]
        # The receiver keeps an older version of a correction until a person acts there.
        severity = max(over(held.get("quarantined", 0), limits.quarantined), WARNING * bool(held.get("correction")))
        if once is not None:
            # Refused for days: this is no accident.
            severity = max(severity, over(found.now - once.since_s, limits.unsent_s))
            when = "with the next run" if once.next_s <= found.now else f"from {iso(once.next_s)}"
            first = ago(found.now, once.since_s)
            parts.append(f"{once.records} rejected, to be tried again {when}, the first was rejected {first}")
        if ahead is not None:
            parts.append(
                f"{ahead.records} with an end in the future by this host's clock, held until {iso(ahead.next_s)}"
            )
        advice = "see `arcacct quarantine list`" if severity else ""
        yield Check(f"{target.name} quarantine", severity, ", ".join(parts) or "nothing quarantined", advice)


@_check(
    "howto/monitor.md",
    Metric(
        "arcacct_certificate_not_after_timestamp_seconds{file}",
        "End of a certificate's validity",
        lambda found: {(path,): end for path, end in found.certificates.items()},
    ),
    by_doctor=False,
)
def _ends_of_certificates(found: Health, limits: Thresholds) -> Iterator[Check]:
    for path, end in found.certificates.items():
        if end is not None:
            yield facts.certificate_check(path, end, found.now, limits)
        elif os.path.exists(path) and not os.access(path, os.R_OK):
            yield Check("certificate", UNKNOWN, f"{path} cannot be read by {facts.user_name(os.geteuid())}")
    for option, text in found.refused:
        yield advised("key" if option == "x509_host_key" else "certificate", CRITICAL, text, CredentialError.exit_code)


@_check(
    "howto/care-of-the-database.md",
    Metric(
        "arcacct_database_free_bytes",
        "Free space on the disk of the databases",
        lambda found: found.disks[0].free_bytes if found.disks else None,
    ),
)
def _rooms(found: Health, limits: Thresholds) -> Iterator[Check]:
    return (facts.disk_check(disk, limits) for disk in found.disks)


@_check("howto/monitor.md")
def _clock(found: Health, _limits: Thresholds) -> Iterator[Check]:
    """Instants that are past, unless the clock is or was wrong: an age counted from them looks young for long."""
    instants: dict[str, int | None] = {}
    if found.recorded is not None:
        instants["creation of the database"] = found.recorded.created_s
        instants["last event"], instants["last sweep"] = found.recorded.last_event_s, found.recorded.last_sweep_s
    for target in found.targets:
        instants[f"last run of {target.name}"] = max(target.last_run_s or 0, target.last_success_s or 0)
    instants |= {f"last {kind}": done.at_s for kind, done in found.maintenance_log.items()}
    ahead = [
        f"the {what} is {span_of(at_s - found.now)}"
        for what, at_s in instants.items()
        if at_s is not None and at_s > found.now + _CLOCK_TOLERANCE_S
    ]
    if ahead:
        advice = "check the clock of this host (chronyd or ntpd): records with a future end are not sent"
        yield Check("clock", CRITICAL, f"{', '.join(ahead)} in the future", advice)
    elif not any(instants.values()):
        yield Check("clock", UNKNOWN, f"{iso(found.now)}: no recorded time to compare with")
    else:
        yield Check("clock", OK, iso(found.now))


def judge(found: Health, limits: Thresholds, rows: Iterable[HealthCheck] = CHECKS) -> list[Check]:
    """Return the results of the rows of the table."""
    return [check._replace(manual=row.manual) for row in rows for check in row.judge(found, limits)]
