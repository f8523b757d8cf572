"""
A site that publishes to SGAS, AUDITOR and APEL, and an operator who does what the program says.

The receivers are the sandbox's, in memory, and no table of them is ever emptied. The clock is simulated. The runs are
those of `arcacct publish` and `arcacct republish`.
"""

from __future__ import annotations

import pathlib
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from typing import Any, NamedTuple

import pytest
from publishing_site import Job
from publishing_world import FINE, World, way_to
from receiver_rows import export

from arcacct.cli.targets import exit_code
from arcacct.database import access
from arcacct.errors import InputError
from arcacct.health import checks as health_checks
from arcacct.health import facts
from arcacct.publishing import held
from arcacct.publishing.run import publish, republish
from arcacct.publishing.target_run import Period, RunOptions, TargetResult
from arcacct.records import hold_decisions
from arcacct.records.hold_decisions import ImplausibleFilter, held_records
from arcacct.records.holds import EXCLUDED, HELD
from arcacct.targets import plugins
from arcacct.targets.common import ascii_text
from arcacct.times import Month, month_bounds, month_of

NOON = 1_718_452_800
"""2024-06-15 12:00:00 UTC: the start of each history."""
SGAS, AUDITOR, APEL = "sgas:s", "auditor:a", "apel:a"
_TARGETS = (
    "[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\n"
    "[arcacct/auditor:a]\ntargeturl=https://auditor.example.org\nsite_id=SITE\n"
    "[arex/jura/apel:a]\ntargeturl=https://ams.example.org\ngocdb_name={site}\napel_messages={kind}\n"
)
_ASKS = re.compile("--accept-lower|--former-names")
_ACCEPT = re.compile(r"--accept-lower (\d{4})-(\d\d)")
_COUNTED = (
    "SELECT job_id, end_time, user_dn, vo, ifnull(vo_group, ''), ifnull(vo_role, ''), ifnull(core_count, 0),"
    " ifnull(node_count, 0), ifnull(wall_s, 0), ifnull(cpu_s, 0), benchmark_value FROM v1_jobs"
    f" WHERE ifnull(hold_state, '') NOT IN ('{HELD}', '{EXCLUDED}')"
)


class Counted(NamedTuple):
    """A job that the accounting database counts; times in seconds."""

    job_id: str
    end_time: int
    user: str
    vo: str
    group: str
    role: str
    cores: int
    nodes: int
    wall_s: int
    cpu_s: int
    benchmark: float


class Group(NamedTuple):
    """What APEL sums by, apart from the benchmark, which is in the normalised times; names as MySQL compares them."""

    month: Month
    site: str
    user: str
    vo: str
    group: str
    role: str
    cores: int
    nodes: int


Usage = tuple[int, ...]
"""Seconds of wall time and CPU, and both times the benchmark."""


class Record(NamedTuple):
    """What SGAS and AUDITOR have of a job; names in ASCII, as AUDITOR has them."""

    end_time: int
    wall_s: int
    cpu_s: int
    user: str
    vo: str
    cores: int
    nodes: int


class Difference(NamedTuple):
    """What a receiver shows otherwise than the database counts; None: nothing."""

    month: Month
    what: Group | str
    """The group, or the record's id."""
    there: Usage | Record | None
    here: Usage | Record | None


class Run(NamedTuple):
    """The result of a command."""

    outcomes: list[TargetResult]

    @property
    def code(self) -> int:
        """The exit code of the command."""
        return exit_code(self.outcomes)

    def error(self, target: str) -> str | None:
        """The error of one target."""
        return next(None if one.error is None else str(one.error) for one in self.outcomes if one.target == target)

    def __str__(self) -> str:
        lines = [f"exit code {self.code}"]
        for one in self.outcomes:
            lines += [f"{one.target}: {text}" for text in [*one.summary.notes, one.error] if text is not None]
        return "\n".join(lines)


class Clock:
    """The clock of this process; ``patch`` sets it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = NOON
        patch.setattr(time, "time", lambda: self.now)


class Publisher(World):
    """A site with one target of each kind."""

    def __init__(self, path: pathlib.Path, clock: Clock) -> None:
        self.clock = clock
        self.name, self.kind, self._since = "ONE", "individual", None
        super().__init__(path, _TARGETS.format(site=self.name, kind=self.kind))

    def start(self, kind: str, recording_days: int | None = None, *, always_summarised: bool = True) -> None:
        """
        Everything as on the first day; the database was created so many days ago (None: before every job).

        ``always_summarised``: APEL's summariser runs after each message, else after each run of ours.
        """
        self.clock.now = NOON
        self.begin()
        self.receivers[APEL].summarises_each_message = always_summarised
        created = 0 if recording_days is None else NOON - recording_days * 86_400
        self.site.sql(f"UPDATE DBConfig SET KeyValue = '{created}' WHERE KeyName = 'ARCACCT_CREATED'")
        self.set_target("ONE", kind)
        self.names_were_in_doubt = False
        """Whether the ledger was lost while the site was renamed: the count under the former name stays."""
        # A target is started once by hand with --since; the timer runs it afterwards.
        self._since: int | None = 1

    # -- what happens at the site

    def set_target(self, name: str, kind: str) -> None:
        """The operator changes `gocdb_name` or `apel_messages`."""
        self.name, self.kind = name, kind
        self.site.configure(_TARGETS.format(site=name, kind=kind))

    def lose_ledger(self) -> None:
        for path in pathlib.Path(self.here.directory).glob("publishing.db-*"):
            path.unlink()
        super().lose_ledger()

    def decide(self, job_id: str, state: str) -> None:
        """`arcacct quarantine decide --as STATE JOBID`; nothing if the job has no impossible value."""
        with access.accounting(self.here) as con:
            asked = list(held_records(con, ImplausibleFilter(job_ids=(job_id,))))
            hold_decisions.decide(con, self.here, asked, state, "root")

    def older_program_sent(self, job: Job, wall_s: int) -> Run:
        """A program that judged no values recorded an impossible wall time and published it; then it was upgraded."""
        self.record(job)
        self.site.sql(f"UPDATE AAR SET UsedWalltime = {wall_s} WHERE JobID = '{job.job_id}'")
        run = self.run_publish()
        ((last,),) = self.site.database("SELECT max(RecordID) FROM AAR")
        ((horizon,),) = self.site.database("SELECT max(Seq) FROM FinishedLog")
        self.site.sql(f"INSERT OR REPLACE INTO DBConfig VALUES ('ARCACCT_UNJUDGED', '0 {last} {horizon}')")
        return run

    # -- what the operator does

    def run_publish(
        self, accepted: Collection[Month] = (), target: str | None = None, former_names: str | None = None
    ) -> Run:
        """`arcacct publish`, with --accept-lower of some months, or with --former-names."""
        options = RunOptions(
            now=True, since=self._since, accept_lower=tuple(accepted), accept_names=target is not None,
            former_names=former_names, make_sender=self._sender,
        )  # fmt: skip
        self._since = None
        return Run(publish(self.site.settings, plugins(self.site.settings, target), options))

    def run_republish(self, month: Month | None, target: str | None = None, rows: Collection[str] = ()) -> Run:
        """`arcacct republish` of a month, or of everything; ``rows``: with exports of the receiver's tables."""
        period = Period(1, self.clock.now + 1) if month is None else Period(*month_bounds(*month))
        options = RunOptions(make_sender=self._sender, receiver_rows=tuple(rows))
        return Run(republish(self.site.settings, plugins(self.site.settings, target), period, options))

    def _sender(self, plugin: Any) -> Any:
        name = plugin.target.name
        return way_to(self.receivers[name], FINE, self.loaded[name])

    def accept(self, run: Run, former_names: str = "move") -> bool:
        """
        Do what a run says of the months that it held, target by target; whether there was one.

        ``former_names``: what happens to months under a former name of the site, ``move`` or ``keep``.
        """
        asked = {one.target: str(one.error) for one in run.outcomes if _ASKS.search(str(one.error))}
        for target, error in asked.items():
            if "--former-names" in error:
                self.run_publish(target=target, former_names=former_names)
            months = {(int(year), int(month)) for year, month in _ACCEPT.findall(error)}
            if not months and "--former-names" not in error:
                # Names in doubt: the receiver's rows take back what is under other names, then any month is accepted.
                self.names_were_in_doubt = True
                rows = export(self.receivers[target], self.site.path)
                taken_back = self.run_republish(None, target, rows)
                if held_months := {(int(year), int(month)) for year, month in _ACCEPT.findall(str(taken_back))}:
                    # The rows of months on hold stay: the operator accepts them, and gives the same files again.
                    self.run_publish(held_months, target)
                    self.run_republish(None, target, rows)
            if "--accept-lower" in error:
                self.run_publish(months or {month_of(self.clock.now)}, target)
        return bool(asked)

    def correct(self) -> None:
        """What `quarantine sql` prints is done at SGAS and AUDITOR, and then `quarantine retry --all` here."""
        for target in (SGAS, AUDITOR):
            receiver, there = self.receivers[target], self.outdated(target) & self.receivers[target].records.keys()
            receiver.delete_records(there) if target == SGAS else receiver.forget(*there)
            with closing(access.open_publishing(self.here)) as con:
                held.change_state(con, self._block(target), [], "retry")

    def _block(self, target: str) -> str:
        return next(one.block for one in self.site.settings.targets if one.name == target)

    # -- what the program says

    def outdated(self, target: str) -> set[str]:
        """The record ids that `arcacct quarantine sql TARGET` prints."""
        (plugin,) = plugins(self.site.settings, target)
        with closing(access.read_publishing(self.here)) as con, suppress(InputError):
            return set(re.findall("^  '(.*)',?$", plugin.corrections(con), re.MULTILINE))
        return set()

    def verified(self, target: str, month: Month) -> tuple[list[str], str]:
        """What `arcacct verify` says of a month at a target and of its sync message: yes and so on, and the reasons."""
        with self.site.verified(month) as report:
            answers = [one.answer for one in report.sources if one.name.split()[0] == target]
            return answers, "\n".join(one.text for one in report.differences if one.source.split()[0] == target)

    def status_is_ok(self, target: str) -> bool:
        """Whether `arcacct status` has no complaint about a target."""
        checks = health_checks.judge(facts.examine(self.site.settings), facts.Thresholds())
        return not any(one.severity for one in checks if one.subject.split()[0] in (target, "ledger"))

    # -- what is, and what should be

    def counted(self) -> list[Counted]:
        """The jobs that the database counts now."""
        return [Counted(*row) for row in self.site.database(_COUNTED)]

    def differences(self, jobs: Iterable[Counted]) -> dict[str, list[Difference]]:
        """By target what the receiver shows otherwise than of these jobs."""
        here: dict[Any, Any] = {}
        for job in jobs:
            names = _folded(self.name, ascii_text(job.user), job.vo, job.group, job.role)
            times = (job.wall_s, job.cpu_s)
            usage = (*times, *(round(one * job.benchmark) for one in times))
            add(here, Group(month_of(job.end_time), *names, job.cores, job.nodes), usage)
        found = {APEL: _compared(_nonzero(here), self._at_apel(), lambda group, *_usage: {group.month})}
        records = {
            f"ur-{self.site.hostname}-{job.job_id}": Record(
                job.end_time, job.wall_s, job.cpu_s, ascii_text(job.user), job.vo, job.cores, job.nodes
            )
            for job in jobs
        }
        for target, read in ((SGAS, _of_sgas), (AUDITOR, _of_auditor)):
            stored = {record_id: read(one) for record_id, one in self.receivers[target].records.items()}
            found[target] = _compared(records, stored, _months_of_records)
        return found

    def _at_apel(self) -> dict[Any, Any]:
        """What APEL's portal shows."""
        found: dict[Any, Any] = {}
        for row in self.receivers[APEL].hybrid.values():
            names = _folded(*(row[name] for name in ("Site", "GlobalUserName", "VO", "VOGroup", "VORole")))
            usage = [row[f"{kind}{time}Duration"] for kind in ("", "Normalised") for time in ("Wall", "Cpu")]
            add(found, Group((row["Year"], row["Month"]), *names, row["Processors"], row["NodeCount"]), usage)
        return _nonzero(found)

    def jobs_at_apel(self) -> tuple[Counter[Month], Counter[Month]]:
        """How many jobs the portal shows of each month, and how many the last sync messages announced."""
        shown, announced = Counter[Month](), Counter[Month]()
        for (_site, year, month), total in self.receivers[APEL].totals().items():
            shown[year, month] += total.jobs
        for row in self.receivers[APEL].sync_records.values():
            announced[row["Year"], row["Month"]] += row["NumberOfJobs"]
        return shown, announced


def add(found: dict[Any, Any], key: Group, usage: Iterable[int]) -> None:
    """Add the usage of a group."""
    found[key] = tuple(map(sum, zip(found.get(key, (0, 0, 0, 0)), usage, strict=True)))


def _nonzero(found: dict[Any, Any]) -> dict[Any, Any]:
    return {key: usage for key, usage in found.items() if any(usage)}


def _compared(here: dict[Any, Any], there: dict[Any, Any], months_of: Any) -> list[Difference]:
    return [
        Difference(month, key, there.get(key), here.get(key))
        for key in sorted(here.keys() | there.keys())
        if here.get(key) != there.get(key)
        for month in sorted(months_of(key, here.get(key), there.get(key)))
    ]


def _months_of_records(_record_id: str, *records: Record | None) -> set[Month]:
    return {month_of(one.end_time) for one in records if one is not None}


def _of_sgas(row: Any) -> Record:
    times = row.end_time, row.wall_duration, row.cpu_duration
    return Record(*times, ascii_text(row.global_user_name), row.vo_name, row.processors or 0, row.node_count or 0)


def _of_auditor(one: Any) -> Record:
    amounts = {part.name: part.amount for part in one.components}
    times = int(one.stop_time.timestamp()), one.runtime_s, amounts["TotalCPU"]
    (user, *_), (voms, *_) = one.meta["subject"], one.meta["voms"]
    return Record(*times, user, voms.split("/")[1], amounts["Cores"], amounts["NNodes"])


def _folded(*names: str | None) -> list[str]:
    """Names as MySQL compares them; no name, None and Role=NULL are one."""
    plain = [(name or "").casefold().rstrip().removeprefix("role=") for name in names]
    return ["" if name in ("none", "null") else name for name in plain]
