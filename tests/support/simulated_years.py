"""
Years of CEs with accidents drawn at random, and operators who do what `status`, `publish` and `verify` say.

One CE, or two of one site that have the same receivers and, at times, the same ids of a batch system. A driver over
`publishing_world.World`: receivers are in memory, the clock is simulated. After each accident, and with every month of
all years at each month's end, each receiver is compared with what really happened.
"""

from __future__ import annotations

import pathlib
import random
import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from publishing_site import DAY_S, Job
from publishing_world import FINE, Fault, World, load
from receiver_rows import export

from arcacct.database import access, upkeep
from arcacct.errors import FiguresHeld
from arcacct.health import checks, facts
from arcacct.publishing import held
from arcacct.publishing.target_run import Period, TargetResult
from arcacct.queries.verify_report import Source
from arcacct.records.retention import PruneOptions, prune
from arcacct.sandbox.apel import APEL
from arcacct.sandbox.auditor import Auditor
from arcacct.sandbox.sgas import SGAS
from arcacct.times import Month, month_bounds, month_name, month_of

APEL_TARGETS = {"apel:cars": "ONE", "apel:sums": "TWO", "apel:kinds": "THREE"}
"""By name the `gocdb_name`; the kind of the last one's messages changes."""
KINDS = ("individual", "summaries", "urs", "summaries-v04", "individual-v04", "normalised-v04", "summaries-v03")
STEPS = 10
"""Of a month: a step has jobs, perhaps an accident, and a run."""
ACCIDENTS_A_MONTH = 100 / 12
KEPT = 3
"""Backups that an operator still has."""
LATE_MESSAGES = 30
"""Messages that may come once more."""
PRUNED_AFTER_S, REPUBLISHED_S = 150 * DAY_S, 110 * DAY_S
"""What is pruned cannot be sent again: receivers fail in what is younger."""
SWEPT_S = 100 * DAY_S
"""How long jobs stay in the control directory."""
_TYPO = "X"
_ACCEPT = re.compile(r"--accept-lower (\d{4})-(\d\d)")


class Cell(NamedTuple):
    """Where figures count at a receiver."""

    receiver: str
    month: Month
    key: tuple[str, ...]


Figures = dict[Cell, tuple[int, int]]
"""Jobs and wall seconds of each cell that has any."""


class Wrong(NamedTuple):
    """A cell that differs from the truth."""

    when: str
    cell: Cell
    there: tuple[int, int]
    truth: tuple[int, int]


class Backup(NamedTuple):
    """Both databases from one moment, as `db backup` makes them and as plain copies, and every receiver's."""

    made_s: int
    documented: tuple[str, ...]
    plain: tuple[bytes, bytes]
    tables: dict[str, Any]


class Clock:
    """The clock of this process; ``patch`` sets it."""

    def __init__(self, first: Month, patch: pytest.MonkeyPatch) -> None:
        self.now, self.skew = month_bounds(*first)[0], 0
        patch.setattr(time, "time", lambda: self.now + self.skew)


class Years(World):
    """A CE, its accidents, its operator and what went wrong."""

    def __init__(self, path: pathlib.Path, seed: int, clock: Clock, other: Years | None = None) -> None:
        """``other``: the first CE of the site, with which this one has its receivers in common."""
        self.random = random.Random(seed)
        self.clock = clock
        self.name = "" if other is None else "b"
        self.prefix = ""
        self.others = [] if other is None else [other]
        self.kind, self.filter, self.names = "urs", [], dict(APEL_TARGETS)
        self.vos, self.benchmark = ["atlas", "cms", "lhcb"], 10.0
        self.backups: list[Backup] = []
        self.pruned_before = self.failed_from = 0
        self.is_ledger_lost = False
        self.accepted = 0
        self.accidents = Counter[str]()
        self.wrong_and_green: list[Wrong] = []
        self.nobody_knows: defaultdict[str, set[Cell]] = defaultdict(set)
        self.until_republished = self.number = self.number_of_backups = 0
        self.complaints: list[str] = []
        self.story: list[str] = []
        self.first = month_of(clock.now)
        if other is not None:
            other.others, other.prefix, self.prefix = [self], "first:", "second:"
        super().__init__(path, self._targets(), f"{'second' if other else 'ce'}.example.org")
        if other is not None:
            other._configure()
            self.receivers, self.loaded = other.receivers, other.loaded

    def _targets(self) -> str:
        chosen = "".join(f"vofilter={vo}\n" for vo in self.filter)
        kinds = {"apel:cars": "individual", "apel:sums": "summaries", "apel:kinds": self.kind}
        prefix = f"localid_prefix={self.prefix}\n" if self.prefix else ""
        apel = "".join(
            f"[arex/jura/{name}]\ntargeturl=https://ams.example.org\ngocdb_name={self.names[name]}\n"
            f"apel_messages={kind}\nurbatchsize=5\n{prefix}{chosen}"
            for name, kind in kinds.items()
        )
        return (
            f"[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\nurbatchsize=5\n{chosen}"
            f"[arcacct/auditor:a]\ntargeturl=https://auditor.example.org\nsite_id=ONE\nurbatchsize=5\n{chosen}{apel}"
        )

    def _configure(self) -> None:
        self.site.configure(self._targets())

    # -- time and jobs

    @property
    def now(self) -> int:
        """What the clock ought to say."""
        return self.clock.now

    def step(self, begin: int) -> None:
        """Jobs end, perhaps there is an accident, and the operator looks; ``begin`` of what is past since the last."""
        self._jobs_end(begin)
        if self.random.random() < 0.6:
            self.backup()
        if self.random.random() < ACCIDENTS_A_MONTH / STEPS:
            self._accident()
        self.operate()

    def _jobs_end(self, since: int) -> None:
        ended = []
        for _ in range(self.random.randint(1, 4)):
            self.number += 1
            vo = self.random.choice(self.vos)
            end, wall_s = self.random.randint(since, self.now - 60), self.random.randint(10, 20_000)
            url = "" if self.number % 7 == 0 else f"https://{self.site.hostname}:443/arex"
            ended.append(
                Job(
                    f"{self.name}j{self.number}", end, wall_s, wall_s - 5, vo=vo, fqan=f"/{vo}", endpoint_url=url,
                    benchmark=f"HEPSPEC:{self.benchmark}", local_id=f"4j{self.number}",
                )
            )  # fmt: skip
        for other in self.others:
            # Some have the id, and the end, of a job of the other CE.
            twins = [job for job in other.jobs.values() if since <= job.end_time < self.now - 60]
            if twins and self.random.random() < 0.5:
                twin = self.random.choice(twins)
                ended[0] = ended[0]._replace(local_id=twin.lrms_id, end_time=twin.end_time)
        self.record(*ended)

    def sweep(self, backwards: bool = False) -> None:
        """Record what the database lacks, or has otherwise, of the jobs that the control directory still has."""
        there = {
            job_id: (end, wall_s)
            for job_id, end, wall_s in self.site.database("SELECT JobID, EndTime, UsedWalltime FROM AAR")
        }
        since = max(self.now - SWEPT_S, self.pruned_before)
        missing = [
            job
            for job in sorted(self.jobs.values(), reverse=backwards)
            if job.end_time >= since and there.get(job.job_id) != (job.end_time, job.wall_s)
        ]
        self.record(*missing)

    # -- accidents

    def _accident(self) -> None:
        name = self.random.choice(ACCIDENTS)
        self.accidents[name] += 1
        self._note(name)
        getattr(self, name)()

    def _note(self, text: str) -> None:
        self.story.append(f"{time.strftime('%Y-%m-%d', time.gmtime(self.now))} {text}")

    def _receivers_failed(self, since: int | None = None) -> None:
        """The operator learns of it at the end of the month and sends again what may be concerned."""
        since = min(since or self.now, self.now) - REPUBLISHED_S
        for one in (self, *self.others):
            one.failed_from = min(one.failed_from or since, since)

    def message_lost(self) -> None:
        """APEL's loader drops messages that AMS took."""
        self._receivers_failed()
        self.publish(Fault(message=self.random.randrange(3), how="dropped"))

    def message_twice(self) -> None:
        """APEL's loader gets messages twice."""
        self.publish(Fault(message=self.random.randrange(3), how="twice"))

    def message_late(self) -> None:
        """An older message comes once more."""
        self._receivers_failed()
        for name, loaded in self.loaded.items():
            if loaded:
                load(self.receivers[name], self.random.choice(loaded[-LATE_MESSAGES:]))

    def receiver_restored(self) -> None:
        """A receiver is restored from its backup."""
        if not self.backups:
            return
        backup = self.random.choice(self.backups)
        self._receivers_failed(backup.made_s)
        name = self.random.choice([*self.receivers])
        self._note(f"  {name}, of {self._days(backup)} days ago")
        _fill(self.receivers[name], backup.tables[name])

    def publisher_killed(self) -> None:
        """The process ends before any statement, or around any message."""
        statement, how = self.random.randrange(400), self.random.choice(["kill-before", "kill-after", "lost", "busy"])
        by_message = Fault(message=self.random.randrange(4), how=how)
        self.publish(self.random.choice([Fault(statement=statement), by_message]))

    def power_is_cut(self) -> None:
        """What was committed after the last fsync is gone, and found again."""
        self.power_cut()

    def both_restored(self) -> None:
        """`db restore` of both, where what is replaced can be read or is lost."""
        if backup := self._backup():
            if is_lost := self.random.random() < 0.3:
                self._remove(self.here.database)
                self._remove(self.here.publishing_database)
            self._note(f"  of {self._days(backup)} days ago{', lost' * is_lost}")
            for path in backup.documented:
                self._restore(path)
            self._perhaps_before_the_sweep()

    def both_copied_back(self) -> None:
        """Both are restored by plain copies; the note next to the control directory is not."""
        if backup := self._backup():
            self._note(f"  of {self._days(backup)} days ago")
            self._copy_back(self.here.database, backup.plain[0])
            self._copy_back(self.here.publishing_database, backup.plain[1])
            self._perhaps_before_the_sweep()

    def accounting_restored(self) -> None:
        """accounting.db is lost, or is not, and its backup is restored."""
        if backup := self._backup():
            self._note(f"  of {self._days(backup)} days ago")
            if self.random.random() < 0.5:
                self._copy_back(self.here.database, backup.plain[0])
            else:
                if self.random.random() < 0.5:
                    self._remove(self.here.database)
                self._restore(backup.documented[0])
            self._perhaps_before_the_sweep()

    def ledger_restored(self) -> None:
        """publishing.db is restored from its backup."""
        if backup := self._backup():
            self._note(f"  of {self._days(backup)} days ago")
            if self.random.random() < 0.5:
                self._copy_back(self.here.publishing_database, backup.plain[1])
            else:
                self._restore(backup.documented[1])

    def ledger_lost(self) -> None:
        """publishing.db is lost, and the next command makes another."""
        self._remove(self.here.publishing_database)
        self.is_ledger_lost = True

    def site_mistyped(self) -> None:
        """The site's names are mistyped for one run."""
        self.names = {name: f"{site}{_TYPO}" for name, site in APEL_TARGETS.items()}
        self._configure()
        self._publish_and_note()
        self.names = dict(APEL_TARGETS)
        self._configure()

    def vo_renamed(self) -> None:
        """A VO has another name since; with a filter its jobs are not selected until the operator sees it."""
        if self.random.random() < 0.5:
            self.filter = self._vos_of_jobs()
            self._configure()
            self._publish_and_note()
        which = self.random.randrange(len(self.vos))
        self.vos[which] = f"{self.vos[which].split('-')[0]}-{self.number}"
        self._jobs_end(self.now - 3600)

    def kind_changed(self) -> None:
        """A target sends messages of another kind since."""
        self.kind = self.random.choice(KINDS)
        self._note(f"  {self.kind}")
        self._configure()

    def jobs_resumed(self) -> None:
        """Finished jobs of the last weeks are resumed: they end now, some of them in another month than before."""
        recent = [job for job in self.jobs.values() if job.end_time > self.now - 40 * DAY_S]
        for job in self.random.sample(recent, min(3, len(recent))):
            end, wall_s = self.now - self.random.randrange(60, 3600), job.wall_s + self.random.randrange(5000)
            benchmark = f"HEPSPEC:{self.benchmark}"
            self.record(job._replace(end_time=end, wall_s=wall_s, cpu_s=wall_s - 5, benchmark=benchmark))

    def old_jobs_pruned(self) -> None:
        """`db prune`, as the manual says."""
        self.pruned_before = max(self.pruned_before, self.now - PRUNED_AFTER_S)
        blocks = tuple(target.block for target in self.site.settings.targets)
        options = PruneOptions(self.pruned_before, str(self.site.path / "archive.db"), blocks)
        with closing(access.open_accounting(self.here)) as con, closing(access.open_publishing(self.here)) as ledger:
            prune(self.here, con, ledger, options)

    def clock_wrong(self) -> None:
        """A run with a clock that is behind or ahead."""
        self.clock.skew = self.random.choice([-40, -10, -1, 1, 10, 40]) * DAY_S
        self._note(f"  by {self.clock.skew // DAY_S} days")
        self._publish_and_note()
        self.clock.skew = 0

    def benchmark_changed(self) -> None:
        """Jobs that end since have another benchmark."""
        self.benchmark = self.random.choice([8.0, 9.5, 10.0, 11.25, 12.0])

    def backup(self) -> None:
        """`db backup`, plain copies, and the receivers' own backups, from one moment."""
        self.number_of_backups += 1
        folder = self.site.path / f"backup{self.number_of_backups}"
        folder.mkdir()
        documented = tuple(one.path for one in upkeep.backups(self.here, str(folder)))
        tables = {name: _tables_of(one) for name, one in self.receivers.items()}
        self.backups.append(Backup(self.now, documented, (self._copy(), self._ledger()), tables))
        if len(self.backups) > KEPT:
            shutil.rmtree(pathlib.Path(self.backups.pop(0).documented[0]).parent)

    def _backup(self) -> Backup | None:
        return self.random.choice(self.backups) if self.backups else None

    def _days(self, backup: Backup) -> int:
        return (self.now - backup.made_s) // DAY_S

    def _restore(self, path: str) -> None:
        kept = upkeep.restore(self.here, path).kept
        if kept is not None:
            self._remove(kept)
        self.durable = self._copy()

    def _copy_back(self, path: str, data: bytes) -> None:
        self._remove(path)
        pathlib.Path(path).write_bytes(data)
        self.durable = self._copy()

    def _remove(self, path: str) -> None:
        for suffix in upkeep.SUFFIXES:
            pathlib.Path(f"{path}{suffix}").unlink(missing_ok=True)

    def _perhaps_before_the_sweep(self) -> None:
        """A run comes first, or the sweep does."""
        if self.random.random() < 0.5:
            self._publish_and_note()
        self.sweep()

    # -- the operator

    def operate(self) -> None:
        """A run; the operator does what its messages say, and what `status` says of jobs that a filter leaves out."""
        self.sweep()
        for _ in range(4):
            errors = self._publish_and_note()
            if not any(self.site.ledger("SELECT 1 FROM Messages WHERE State = 'sending'")) and not errors:
                break
            said = " ".join(errors.values())
            months = tuple(sorted({(int(year), int(month)) for year, month in _ACCEPT.findall(said)}))
            if months:
                self.accepted += len(months)
                self._note(f"  accepts {', '.join(map(month_name, months))}: {said}")
                self.publish(accept=months)
            for name, error in errors.items():
                if "the records sent before are unknown" in error:
                    self._settle_names(name, error)
                elif "--former-names move" in error:
                    self.publish(of_target=name, former_names="move")
        else:
            self.complaints.append(f"{self._when()}: still: {errors}")
        if self.filter and any("not selected" in check.text for check in self._status()):
            self.filter = self._vos_of_jobs()
            self._configure()
            self._publish_and_note()

    def _settle_names(self, target: str, error: str) -> None:
        """As the message says: put publishing.db back, fix the configuration, or say that nothing is under others."""
        if self.is_ledger_lost and self.backups:
            self.is_ledger_lost = False
            self._note("  publishing.db is put back")
            self._restore(self.backups[-1].documented[1])
        elif "gocdb_name was" not in error and (kind := re.search("apel_messages was ([a-z0-9-]+) and is", error)):
            self.kind = kind[1]
            self._note(f"  {self.kind} again")
            self._configure()
        else:
            rows = export(self.receivers[target], self.site.path)
            self._note(f"  of {target}: takes back by the receiver's rows what is under other names: {error}")
            everything = Period(month_bounds(*self.first)[0], self.now + DAY_S)
            for one in self.republish(everything, of_target=target, rows=rows):
                self.complaints += [f"{self._when()}: rows: {one.error}"] if one.error is not None else []
            sites = {cell.key[0] for cell in self.figures() if cell.receiver == target}
            self.complaints += [f"{self._when()}: a false word about {sites}"] * (len(sites) > 1)
            self.accepted += 1
            self.publish(accept=(month_of(self.now),), of_target=target)

    def _publish_and_note(self) -> dict[str, str]:
        """A run; what it says by target."""
        errors = {one.target: one.error for one in self.publish(FINE) if one.error is not None}
        other = [error for error in errors.values() if not isinstance(error, FiguresHeld)]
        self.complaints += [f"{self._when()}: {error!r}" for error in other]
        return {name: str(error) for name, error in errors.items()}

    def reconcile(self) -> None:
        """At the end of a month: administrators free space for corrections; what failed at a receiver is sent again."""
        aside = self.site.ledger("SELECT Target, JobID FROM HeldRecords WHERE State = 'correction'")
        for block, job_id in aside:
            receiver = self.receivers[block.rpartition("/")[2]]
            records = [one for one in receiver.records if one.endswith(f"-{job_id}")]
            (receiver.delete_records(records) if isinstance(receiver, SGAS) else receiver.forget(*records))
        with closing(access.open_publishing(self.here)) as con:
            held.change_state(con, None, [job_id for _block, job_id in aside], "retry")
        if aside:
            self._publish_and_note()
        if self.failed_from:
            self._note("republish")
            outcomes: list[TargetResult] = self.republish(Period(self.failed_from, self.now + DAY_S))
            self.complaints += [f"{self._when()}: republish: {one.error}" for one in outcomes if one.error is not None]
            self.failed_from = 0
        self._check_audit()

    def _check_audit(self) -> None:
        self.complaints += [f"{self._when()}: db check: {problem}" for problem in self.site.audit()]

    # -- comparing

    def _when(self) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(self.now))

    def _vos_of_jobs(self) -> list[str]:
        return sorted({job.vo for job in self.jobs.values()})

    def truth(self) -> Figures:
        """What every receiver should have."""
        found: Figures = {}
        for job in self.jobs.values():
            month = month_of(job.end_time)
            _add(found, Cell("sgas:s", month, (job.vo,)), 1, job.wall_s)
            _add(found, Cell("auditor:a", month, ()), 1, job.wall_s)
            for name, site in APEL_TARGETS.items():
                _add(found, Cell(name, month, (site, job.vo)), 1, job.wall_s)
                _add(found, Cell(f"{name} sync", month, (site,)), 1, 0)
        return found

    def figures(self) -> Figures:
        """What every receiver has of this CE."""
        found: Figures = {}
        for name, receiver in self.receivers.items():
            if isinstance(receiver, SGAS):
                for row in receiver.records.values():
                    if row.global_job_id.startswith("b") == bool(self.name):
                        _add(found, Cell(name, month_of(row.end_time or 0), (row.vo_name or "",)), 1, row.wall_duration)
            elif isinstance(receiver, Auditor):
                for record_id, record in receiver.records.items():
                    if record_id.startswith(f"ur-{self.site.hostname}-"):
                        stop = record.stop_time
                        month = (stop.year, stop.month) if stop else (0, 0)
                        _add(found, Cell(name, month, ()), 1, record.runtime_s)
            else:
                _add_apel(found, name, receiver, self.site.hostname)
        return {cell: figures for cell, figures in found.items() if figures != (0, 0)}

    def wrong(self) -> list[Wrong]:
        """The cells that differ."""
        there, truth = self.figures(), self.truth()
        nothing = (0, 0)
        return [
            Wrong(self._when(), cell, there.get(cell, nothing), truth.get(cell, nothing))
            for cell in sorted(there.keys() | truth.keys())
            if there.get(cell) != truth.get(cell)
        ]

    def compare(self) -> None:
        """Note what is wrong at a receiver, and whether everything here is green nevertheless."""
        wrong = self.wrong()
        if not wrong:
            return
        if self.failed_from:
            # A receiver failed: no one here can know before its administrator, or the portal, tells.
            self.until_republished += len(wrong)
            return
        green = self.green({one.cell.month for one in wrong})
        mistyped = {
            (one.cell.receiver, one.cell.month) for one in wrong if one.cell.key and one.cell.key[0].endswith(_TYPO)
        }
        for one in wrong:
            where = (one.cell.receiver, one.cell.month)
            if where not in green:
                continue
            if where in mistyped:
                self.nobody_knows["under a mistyped name until the next job of the month ends"].add(one.cell)
            else:
                self._note(f"WRONG AND GREEN {one.cell} there {one.there} truth {one.truth}")
                self.wrong_and_green.append(one)

    def green(self, months: set[Month]) -> set[tuple[str, Month]]:
        """Receivers of which `status` and `verify` say that a month agrees."""
        raised = [check.subject for check in self._status() if check.severity]
        if "ledger" in raised:
            return set()
        found = set()
        for month in months:
            sources = self.verified(month)
            for name in (*self.receivers, *(f"{name} sync" for name in APEL_TARGETS)):
                target = name.removesuffix(" sync")
                if any(subject.split()[0] == target for subject in raised):
                    continue
                rows = [one for one in sources if self._receiver_of(one) == name]
                # A yes names what is not selected: that is no green for who reads it.
                if rows and all(one.answer == "yes" for one in rows):
                    found.add((name, month))
        return found

    def verified(self, month: Month) -> list[Source]:
        """The places of `verify`."""
        with self.site.verified(month) as report:
            return report.sources

    def _receiver_of(self, source: Source) -> str:
        name, _, kind = source.name.partition(" ")
        return f"{name} sync" if kind == "sync" else name

    def _status(self) -> list[facts.Check]:
        """What `status` says of publishing."""
        names = {"ledger", *self.receivers}
        found = checks.judge(facts.examine(self.site.settings), facts.Thresholds())
        return [check for check in found if check.subject.split()[0] in names]

    def false_answers(self) -> tuple[list[str], list[str]]:
        """In the end: places where `verify` says NO though every receiver is right, and where it says unknown."""
        wrong = {(one.cell.receiver, one.cell.month) for one in self.wrong()}
        wrongly_no, unknown = [], []
        for month in sorted({month_of(job.end_time) for job in self.jobs.values()}):
            for one in self.verified(month):
                name = self._receiver_of(one)
                if one.answer == "NO" and (name, month) not in wrong:
                    wrongly_no.append(f"{month_name(month)} {one.name}")
                elif one.answer == "unknown":
                    unknown.append(f"{month_name(month)} {one.name}")
        return wrongly_no, unknown

    def summary(self) -> str:
        """The numbers of a campaign."""
        wrongly_no, unknown = self.false_answers()
        return "\n".join(
            [
                f"accidents: {self.accidents.total()} {dict(self.accidents)}",
                f"jobs: {len(self.jobs)}",
                f"cells wrong and green: {len(self.wrong_and_green)}",
                *(
                    f"cells wrong, and nobody here can know: {len(cells)} {why}"
                    for why, cells in self.nobody_knows.items()
                ),
                f"different cells wrong and green: {len({one.cell for one in self.wrong_and_green})}",
                f"cells wrong at the end: {len(self.wrong())}",
                f"cell checks wrong until a republish after a receiver's failure: {self.until_republished}",
                f"false NO at the end: {len(wrongly_no)} {wrongly_no}",
                f"unknown at the end: {len(unknown)}",
                f"--accept-lower: {self.accepted}",
                f"complaints: {len(self.complaints)}",
                *self.complaints[:20],
            ]
        )


def strangers(ces: Sequence[Years]) -> list[dict[str, Any]]:
    """What APEL has that is of no CE."""
    receivers = [one for one in ces[0].receivers.values() if isinstance(one, APEL)]
    tables = [table for receiver in receivers for table in receiver._tables.values()]
    names = [ce.site.hostname for ce in ces]
    return [row for table in tables for row in table.values() if not any(name in row["SubmitHost"] for name in names)]


def simulate(ces: Sequence[Years], years: float) -> None:
    """Let all months pass; after each step, and at the end of each month, every CE is compared with the truth."""
    clock, chance = ces[0].clock, ces[0].random
    year, month = month_of(clock.now)
    for number in range(round(years * 12)):
        begin, end = month_bounds(year + (month - 1 + number) // 12, (month - 1 + number) % 12 + 1)
        for step in range(STEPS):
            before = clock.now
            clock.now = begin + (end - begin) * (step + 1) // (STEPS + 1) + chance.randrange(3600)
            for ce in ces:
                ce.step(max(before, begin))
                for one in ces:
                    one.compare()
        clock.now = end + 3600
        for ce in ces:
            ce.operate()
            ce.reconcile()
        for ce in ces:
            ce.compare()


ACCIDENTS = (
    "message_lost", "message_twice", "message_late", "receiver_restored", "publisher_killed", "power_is_cut",
    "both_restored", "both_copied_back", "accounting_restored", "ledger_restored", "ledger_lost", "site_mistyped",
    "vo_renamed", "kind_changed", "jobs_resumed", "old_jobs_pruned", "clock_wrong", "benchmark_changed",
)  # fmt: skip
"""Steps of `Years`, as likely as each other."""


def _add(found: Figures, cell: Cell, jobs: int, wall_s: int | None) -> None:
    before = found.get(cell, (0, 0))
    found[cell] = (before[0] + jobs, before[1] + (wall_s or 0))


def _add_apel(found: Figures, name: str, receiver: APEL, hostname: str) -> None:
    """Wall seconds as the portal shows them. Job records that were taken back have no wall time, and sums no jobs."""

    def mine(table: dict[Any, dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in table.values() if hostname in row["SubmitHost"]]

    for row in mine(receiver.hybrid):
        key = (str(row["Site"]).upper(), row["VO"])
        _add(found, Cell(name, (row["Year"], row["Month"]), key), 0, row["WallDuration"])
    for row in mine(receiver.job_records):
        if row["WallDuration"]:
            key = (str(row["Site"]).upper(), row["VO"])
            _add(found, Cell(name, month_of(row["EndTime"]), key), 1, 0)
    for row in (*mine(receiver.summaries), *mine(receiver.normalised_summaries)):
        key = (str(row["Site"]).upper(), row["VO"])
        _add(found, Cell(name, (row["Year"], row["Month"]), key), row["NumberOfJobs"], 0)
    for row in mine(receiver.sync_records):
        key = (str(row["Site"]).upper(),)
        _add(found, Cell(f"{name} sync", (row["Year"], row["Month"]), key), row["NumberOfJobs"], 0)


def _tables_of(receiver: Any) -> Any:
    """A backup of a receiver's database."""
    if isinstance(receiver, APEL):
        return {name: dict(table) for name, table in receiver._tables.items()}
    return dict(receiver._stored), getattr(receiver, "_last_row", None)


def _fill(receiver: Any, backup: Any) -> None:
    if isinstance(receiver, APEL):
        receiver._tables.update({name: dict(table) for name, table in backup.items()})
        return
    receiver._stored, last_row = dict(backup[0]), backup[1]
    if last_row is not None:
        receiver._last_row = last_row
