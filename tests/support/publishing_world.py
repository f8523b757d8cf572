"""
A site whose receivers are in memory and whose publisher can be killed at any statement and at any message.

The receivers are the sandbox's own; only the network between is left out, since a thousand histories must be
played. What a power cut takes back is what was committed after the last fsync.
"""

from __future__ import annotations

import copy
import html
import itertools
import pathlib
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from publishing_site import DAY_S, JUNE, Job, Site, at_apel, at_auditor, at_sgas, truth, write

from arcacct.database import access, incarnation, moving, upkeep
from arcacct.database.schema import new_incarnation
from arcacct.errors import FiguresHeld
from arcacct.publishing import ledger
from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.run import publish
from arcacct.publishing.target_run import Databases, Period, RunOptions, TargetResult, TargetRun
from arcacct.publishing.transport import Request
from arcacct.records import usage
from arcacct.sandbox import apel
from arcacct.sandbox.apel import APEL
from arcacct.sandbox.auditor import Auditor, AuditorAccess
from arcacct.sandbox.http_server import HTTPRequest, Peer
from arcacct.sandbox.sgas import SGAS
from arcacct.targets import plugins
from arcacct.targets.auditor.sender import AuditorSender
from arcacct.targets.sgas.sender import classify_sgas

FAR = 10**9
EVERYTHING = Period(JUNE - 40 * DAY_S, JUNE + 90 * DAY_S)
"""Every month that a history has jobs of."""
FAMILY = "[arex/jura/apel:a]\ntargeturl=https://ams.example.org\ngocdb_name=ONE\napel_messages={}\nurbatchsize=3\n"
CE = Peer("/CN=ce.example.org", "CN=ce.example.org", "ce.example.org", 0, 2**40)


class Killed(BaseException):
    """The process is gone: nothing of it may go on."""


class Fault(NamedTuple):
    """What goes wrong in one run; counted from 0."""

    statement: int = FAR
    """The process ends before this statement of SQL."""
    message: int = FAR
    """This message goes wrong: ..."""
    how: str = "ok"
    """
    ``kill-before``, ``kill-after``, ``busy``, ``lost`` (done, but not answered), ``refused``.

    At APEL also ``dropped`` (accepted, and not loaded) and ``twice`` (loaded twice).
    """


FINE = Fault()
"""Nothing goes wrong."""


class Countdown:
    """The end of a process, so many statements from now."""

    def __init__(self, left: int) -> None:
        self.left = left

    def tick(self) -> None:
        """One statement more."""
        if self.left <= 0:
            raise Killed
        self.left -= 1


class Mortal:
    """A database connection of a process that may end before any statement."""

    def __init__(self, con: sqlite3.Connection, countdown: Countdown) -> None:
        self.con = con
        self.countdown = countdown

    def __getattr__(self, name: str) -> Any:
        return getattr(self.con, name)

    def execute(self, *statement: Any) -> Any:
        self.countdown.tick()
        return self.con.execute(*statement)

    def executemany(self, *statement: Any) -> Any:
        self.countdown.tick()
        return self.con.executemany(*statement)


class NoJournal:
    """The sandbox's folder of received documents, kept nowhere."""

    def __init__(self) -> None:
        self.directory = ""
        self._numbers = itertools.count(1)

    def number(self, _target: str) -> str:
        return str(next(self._numbers))

    def keep(self, target: str, name: str, _content: bytes) -> str:
        return f"{target}/{name}"


class Line:
    """The way to one receiver in memory, with the fault of this run."""

    destination = "memory"

    def __init__(self, receiver: Any, fault: Fault, loaded: list[bytes]) -> None:
        """``loaded`` gets the messages that APEL accepted, for those that come late."""
        self._receiver = receiver
        self._fault = fault
        self._loaded = loaded
        self._sent = 0

    def name(self) -> str | None:
        return "20261120/00000000000000"

    def pack(self, text: str) -> bytes:
        return text.encode()

    def unpack(self, data: bytes) -> str:
        return data.decode()

    def renewed(self, data: bytes) -> bytes:
        return data

    def set_deadline(self, _deadline: Any) -> None:
        """Memory answers at once."""

    def close(self) -> None:
        """Nothing is open."""

    def send(self, message: Any) -> Answer:
        how = self._fault.how if self._sent == self._fault.message else "ok"
        self._sent += 1
        if how == "kill-before":
            raise Killed
        if how == "busy":
            return Answer(Outcome.TRY_LATER, 503, "busy")
        if how == "refused":
            return Answer(Outcome.RECORDS_REFUSED, 500, "refused")
        if isinstance(self._receiver, APEL):
            self._loaded.append(message.data)
            if how == "dropped":
                return Answer(Outcome.ACCEPTED, 200)
            if how == "twice":
                self._deliver(message)
        answer = self._deliver(message)
        if how == "kill-after":
            raise Killed
        return Answer(Outcome.TRY_LATER, text="lost", outcome_known=False) if how == "lost" else answer

    def _deliver(self, message: Any) -> Answer:
        if isinstance(self._receiver, APEL):
            load(self._receiver, message.data)
            return Answer(Outcome.ACCEPTED, 200)
        ids = [html.unescape(one) for one in re.findall('urf:recordId="([^"]*)"', message.data.decode())]
        answer = self._receiver.answer(HTTPRequest("POST", "/sgas/ur", {}, {}, message.data, CE))
        return classify_sgas(answer.status, {}, answer.body, dict.fromkeys(ids))


def load(receiver: APEL, data: bytes) -> None:
    """APEL's loader reads a message."""
    receiver.load(apel.read(data.decode().strip()))


class AuditorConfiguration(NamedTuple):
    """How the server answers to a record that it has, and whether we may look at it."""

    hides_repeats: bool = False
    may_read: bool = True


class AuditorLine:
    """A session with AUDITOR in memory: what goes wrong in a run does so at a request of a message, whichever it is."""

    def __init__(self, server: Auditor, fault: Fault) -> None:
        self._server = server
        self._fault = fault
        self._asked = 0

    def set_deadline(self, _deadline: Any) -> None:
        """Memory answers at once."""

    def close(self) -> None:
        """Nothing is open."""

    def request(self, request: Request, judge: Any) -> Answer:
        how = self._fault.how if self._asked == self._fault.message else "ok"
        self._asked += 1
        if how == "kill-before":
            raise Killed
        if how == "busy":
            return Answer(Outcome.TRY_LATER, 503, "busy")
        if how == "refused":
            return judge(500, {}, b"UNEXPECTED_ERROR")
        path = request.url.removeprefix("https://auditor.example.org")
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self._server.answer(HTTPRequest(request.method, path, {}, headers, request.body or b"", CE))
        if how == "kill-after":
            raise Killed
        if how == "lost":
            return Answer(Outcome.TRY_LATER, text="lost", outcome_known=False)
        return judge(answer.status, {}, answer.body)


def way_to(receiver: Any, fault: Fault, loaded: list[bytes]) -> Any:
    if isinstance(receiver, Auditor):
        return AuditorSender("https://auditor.example.org", AuditorLine(receiver, fault))
    return Line(receiver, fault, loaded)


class World:
    """What happened, what is recorded of it, and what the receivers were told."""

    def __init__(self, path: pathlib.Path, targets: str, hostname: str = "ce.example.org") -> None:
        self.targets = targets
        self.auditor = AuditorConfiguration()
        self.since = 1
        self.site = Site(path, None, targets, hostname)
        self.here = self.site.settings.places
        self.template = path / "template"
        con = access.open_accounting(self.here)
        # A site that recorded every job from the first.
        con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
        con.close()
        access.open_publishing(self.here).close()
        shutil.copytree(self.here.directory, self.template)
        self.begin()

    def begin(self) -> None:
        """Everything as on the first day."""
        for place in self.site.path.glob("place*"):
            shutil.rmtree(place)
        self.site.options = {}
        self.site.configure(self.targets)
        self.here = self.site.settings.places
        pathlib.Path(self.here.place_note).unlink(missing_ok=True)
        self.moves = 0
        for name in ("accounting.db", "publishing.db"):
            shutil.copyfile(self.template / name, f"{self.here.directory}/{name}")
            for suffix in ("-wal", "-shm"):
                pathlib.Path(f"{self.here.directory}/{name}{suffix}").unlink(missing_ok=True)
        self.jobs: dict[str, Job] = {}
        self.deleted: set[str] = set()
        self.lost_history = self.lost_ledger = False
        self.receivers: dict[str, Any] = {}
        for target in self.site.settings.targets:
            receiver: Any = APEL(NoJournal(), "")
            if target.name.startswith("sgas"):
                receiver = SGAS(NoJournal())
                receiver.rights[CE.subject] = "jobinsert:all"
            elif target.name.startswith("auditor"):
                receiver = Auditor(NoJournal())
                names = frozenset({CE.common_name})
                receiver.access = AuditorAccess(names, names if self.auditor.may_read else frozenset())
                receiver.ignores_repeats = self.auditor.hides_repeats
            self.receivers[target.name] = receiver
        self.loaded: dict[str, list[bytes]] = {name: [] for name in self.receivers}
        self.tables = [self._tables()]
        self.receiver_failed = False
        self.copies = [self._copy()]
        self.ledgers = [self._ledger()]
        self.durable = self.copies[0]
        self.fences = 0

    def _copy(self) -> bytes:
        return pathlib.Path(self.here.database).read_bytes()

    def _ledger(self) -> bytes:
        return pathlib.Path(self.here.publishing_database).read_bytes()

    # -- what happens at the site

    def record(self, *recorded: Job) -> None:
        """Jobs end, or turn out to be something else."""
        for job in recorded:
            self.jobs[job.job_id] = job
            self.deleted.discard(job.job_id)
        con = access.open_accounting(self.here)
        with access.writing(con, self.here):
            for job in recorded:
                write(con, job)
        con.close()

    def delete(self, *job_ids: str) -> None:
        """An operator deletes records that should never have been."""
        con = access.open_accounting(self.here)
        for job_id in job_ids:
            # A copy of before that was restored does not have it, and there is nothing to delete.
            if con.execute("DELETE FROM AAR WHERE JobID = ?", (job_id,)).rowcount:
                self.jobs.pop(job_id, None)
                self.deleted.add(job_id)
        con.close()

    def family(self, name: str) -> None:
        """The operator chooses other messages."""
        self.site.configure(FAMILY.format(name))

    def rename(self, name: str) -> None:
        """The site gets another name, by mistake or not."""
        numbers = itertools.count(1)
        named = re.sub("gocdb_name=.*", lambda _match: f"gocdb_name={name}{next(numbers)}", self._configured())
        self.site.configure(named)

    def choose(self, vofilter: str) -> None:
        """Another VO in the filter, by mistake or not; none with ''."""
        plain = re.sub("vofilter=.*\n", "", self._configured())
        chosen = re.sub(r"(gocdb_name=.*\n)", rf"\g<1>vofilter={vofilter}\n", plain) if vofilter else plain
        self.site.configure(chosen)

    def host(self, name: str) -> None:
        """The batch system's host gets another name."""
        configured = self._configured()
        self.site.options |= {"lrms_host": name}
        self.site.configure(configured)

    def _configured(self) -> str:
        text = (self.site.path / "arcacct.conf").read_text()
        return text[text.index("[arex") :]

    def backup(self) -> None:
        """Copy both databases."""
        self.copies.append(self._copy())
        self.ledgers.append(self._ledger())
        self.tables.append(self._tables())

    def _tables(self) -> dict[str, Any]:
        """A backup of APEL's database."""
        return {name: copy.deepcopy(one._tables) for name, one in self.receivers.items() if isinstance(one, APEL)}

    def late(self, which: int) -> None:
        """APEL's loader gets an older message of each target once more."""
        self.receiver_failed = True
        for name, loaded in self.loaded.items():
            if loaded:
                load(self.receivers[name], loaded[which % len(loaded)])

    def restore_receiver(self, which: int) -> None:
        """APEL's database is restored from a backup."""
        self.receiver_failed = True
        for name, tables in self.tables[which % len(self.tables)].items():
            self.receivers[name]._tables.update(copy.deepcopy(tables))

    def restore_ledger(self, which: int) -> None:
        """Put an older copy of the ledger in place."""
        self._put_ledger(self.ledgers[which % len(self.ledgers)])

    def lose_ledger(self) -> None:
        """publishing.db is gone, and the next command makes another."""
        path = pathlib.Path(self.here.publishing_database)
        path.unlink()
        access.open_publishing(self.here).close()
        self.lost_ledger = True

    def _put_ledger(self, data: bytes) -> None:
        self.lost_ledger = True
        pathlib.Path(self.here.publishing_database).write_bytes(data)

    def lose(self) -> None:
        """accounting.db is gone, an operator starts a new life, and the sweep finds what there is."""
        pathlib.Path(self.here.database).unlink()
        upkeep.start_new_incarnation(self.here)
        self.lost_history = True
        self.durable = self._copy()
        self.fences = 0
        self.sweep()

    def move(self) -> None:
        """Both databases go to another directory, and the configuration says so."""
        self.moves += 1
        moved = moving.move(self.here, str(self.site.path / f"place{self.moves}"))
        configured = self._configured()
        self.site.options |= {"database": moved.database}
        self.site.configure(configured)
        self.here = self.site.settings.places

    def restore(self, which: int, by_hand: bool) -> None:
        """Put an older copy in place, but none that the ledger never met; ``by_hand`` without a new incarnation."""
        before = self._copy()
        self._put_back(self.copies[which % len(self.copies)])
        accounting, publishing = access.open_accounting(self.here), access.open_publishing(self.here)
        if not by_hand:
            new_incarnation(accounting)
        is_foreign = incarnation.DatabaseMismatch.FOREIGN in incarnation.mismatches(
            incarnation.incarnation_state(accounting, publishing)
        )
        accounting.close()
        publishing.close()
        if is_foreign:
            self._put_back(before)

    def restore_both(self, which: int) -> None:
        """`db restore` of both, from one moment."""
        which %= len(self.copies)
        for name, copies in (("accounting", self.copies), ("publishing", self.ledgers)):
            copy_of = self.site.path / f"{name}-copy.db"
            copy_of.write_bytes(copies[which])
            kept = upkeep.restore(self.here, str(copy_of)).kept
            if kept is not None and name == "accounting":
                pathlib.Path(kept).unlink()
        self.lost_history = self.lost_ledger = True
        self.durable = self._copy()

    def power_cut(self) -> None:
        """Take back what was committed after the last fsync."""
        self._put_back(self.durable)

    def _put_back(self, data: bytes) -> None:
        self.lost_history = True
        pathlib.Path(self.here.database).write_bytes(data)
        self.durable = data

    def sweep(self, backwards: bool = False) -> None:
        """Record what the database lacks of what happened."""
        recorded = sorted(self.jobs.values(), reverse=backwards)
        con = access.open_accounting(self.here)
        there = {job_id for (job_id,) in con.execute("SELECT JobID FROM AAR")}
        con.close()
        self.record(*recorded)
        self.delete(*(there - self.jobs.keys()))

    # -- publishing

    def publish(
        self,
        fault: Fault = FINE,
        accept: tuple[tuple[int, int], ...] = (),
        of_target: str | None = None,
        former_names: str | None = None,
    ) -> list[TargetResult]:
        """
        One run, perhaps the last of its process.

        ``accept``: months that an operator lets fall (``of_target``). ``former_names``: ``move`` or ``keep``.
        """
        return self._run(fault, lambda run, horizon: run.publish(horizon), accept, of_target, (), former_names)

    def plan(self) -> list[TargetResult]:
        """What `publish --dry-run` says that the next run does."""
        options = RunOptions(now=True, since=1, dry_run=True)
        return publish(self.site.settings, plugins(self.site.settings, None), options)

    def republish(
        self, period: Period, fault: Fault = FINE, of_target: str | None = None, rows: Sequence[str] = ()
    ) -> list[TargetResult]:
        """A period again; ``rows``: with exports of the receiver's tables."""
        return self._run(fault, lambda run, horizon: run.republish(period, horizon), (), of_target, rows)

    def _run(
        self,
        fault: Fault,
        work: Any,
        accept: tuple[tuple[int, int], ...] = (),
        of_target: str | None = None,
        rows: Sequence[str] = (),
        former_names: str | None = None,
    ) -> list[TargetResult]:
        countdown = Countdown(fault.statement)
        self.receiver_failed |= fault.how in ("dropped", "twice")
        both = (access.open_accounting(self.here), access.open_publishing(self.here))
        options = RunOptions(
            now=True,
            since=self.since,
            accept_lower=accept,
            accept_names=of_target is not None,
            receiver_rows=rows,
            former_names=former_names,
            make_sender=lambda plugin: way_to(
                self.receivers[plugin.target.name], fault, self.loaded[plugin.target.name]
            ),
        )
        outcomes: list[TargetResult] = []
        try:
            mortal = Databases(*(Mortal(con, countdown) for con in both))
            usage.update_monthly(mortal.accounting, self.here)
            begun = incarnation.begin_run(mortal.accounting, mortal.publishing, self.here)
            chosen = plugins(self.site.settings, of_target)
            outcomes += [work(TargetRun(plugin, mortal, options), begun.horizon) for plugin in chosen]
            ledger.forget_bytes(mortal.publishing, int(time.time()) + 1)
        except Killed:
            pass
        finally:
            (fences,) = both[0].execute("SELECT Passed FROM Fence").fetchone()
            for con in both:
                con.close()
        if fences != self.fences:
            # A fence is on disk, and with it all that was committed before.
            self.fences, self.durable = fences, self._copy()
        return outcomes

    def settle(self) -> None:
        """Mistakes are mended, the sweep has seen everything, what was set aside is tried again, nothing goes wrong."""
        configured = re.sub("vofilter=.*\n", "", self._configured())
        names = iter(re.findall("gocdb_name=.*", self.targets))
        self.site.options.pop("lrms_host", None)
        self.site.configure(re.sub("gocdb_name=.*", lambda _match: next(names), configured))
        self.sweep()
        con = access.open_publishing(self.here)
        con.execute("UPDATE HeldRecords SET State = 'retry' WHERE State IN ('held', 'quarantined')")
        con.close()
        for _ in range(2):
            for one in self.publish():
                if "--former-names move" in str(one.error):
                    self.publish(of_target=one.target, former_names="move")
        outcomes = self.publish()
        held = {
            (year, month)
            for year, month in self.site.ledger("SELECT DISTINCT Year, Month FROM TargetMonths WHERE Cause IS NOT NULL")
        }
        errors = [one.error for one in outcomes if one.error is not None]
        # What is not as the database has it is held, and said; an operator accepts it then.
        assert all(isinstance(error, FiguresHeld) for error in errors)
        if any("the records sent before are unknown" in str(error) for error in errors):
            # Names changed while the ledger was lost: no one can know, and nothing is sent before that is accepted.
            self.lost_history = True
            return
        assert bool(errors) == bool(held)
        said = " ".join(map(str, errors))
        assert all(f"--accept-lower {year:04d}-{month:02d}" in said for year, month in held)
        if held:
            outcomes = self.publish(accept=tuple(sorted(held)))
            assert [one.error for one in outcomes] == [None] * len(outcomes)
            outcomes = self.publish()
        assert [one.error for one in outcomes] == [None] * len(outcomes)
        assert self.site.ledger("SELECT * FROM TargetMonths WHERE Cause IS NOT NULL") == []
        assert self.site.ledger("SELECT * FROM Messages WHERE State = 'sending'") == []
        assert self.site.ledger("SELECT * FROM TargetMonths WHERE IsUnfinished") == []
        if self.receiver_failed:
            # The operator sends the months again to APEL, once; no other receiver failed.
            outcomes = [one for one in self.republish(EVERYTHING) if one.target.startswith("apel:")]
            assert [one.error for one in outcomes] == [None] * len(outcomes)
        assert self.site.audit() == []

    # -- what must be true in the end

    @property
    def blind(self) -> bool:
        """Whether both databases have forgotten: then no one can know what a receiver has besides."""
        return self.lost_ledger and self.lost_history

    def _ghosts(self) -> set[str]:
        """Jobs that may be left at a receiver: deleted, and that deletion forgotten by a restore or power cut."""
        return self.deleted if self.lost_history else set()

    def check_sgas(self, name: str) -> None:
        """Each job once; as it is, or as it was first with an entry in the list of corrections."""
        block = f"arex/jura/{name}"
        rows = at_sgas(self.receivers[name].records)
        assert len(rows) == len(self.receivers[name].records)
        aside = dict(self.site.ledger("SELECT JobID, State FROM HeldRecords WHERE Target = ?", block))
        assert set(aside.values()) <= {"correction"}
        wanted = truth(self.jobs.values())
        assert wanted.keys() <= rows.keys()
        differing = {job for job, row in rows.items() if wanted.get(job) != row}
        assert differing - self._ghosts() <= aside.keys()
        assert aside.keys() <= rows.keys()

    def check_auditor(self, name: str) -> None:
        """As at SGAS; what changed in nothing that it is sent is no correction."""
        rows = at_auditor(self.receivers[name].records)
        assert len(rows) == len(self.receivers[name].records)
        aside = dict(self.site.ledger("SELECT JobID, State FROM HeldRecords WHERE Target = ?", f"arcacct/{name}"))
        assert set(aside.values()) <= {"correction"}
        wanted = truth(self.jobs.values())
        assert wanted.keys() <= rows.keys()
        assert {job for job, row in rows.items() if wanted.get(job) != row} - self._ghosts() <= aside.keys()
        assert aside.keys() <= rows.keys()

    def check_jobs(self, name: str) -> None:
        """Each job with its values, everything else taken back, also at the portal."""
        rows = at_apel(self.receivers[name].job_records)
        ghosts = {f"4{job_id}" for job_id in self._ghosts()}
        assert {job: row for job, row in rows.items() if job not in ghosts} == truth(self.jobs.values(), by_lrms=True)
        alive = Counter(row["LocalJobId"] for row in self.receivers[name].job_records.values() if row["WallDuration"])
        assert all(alive[job.lrms_id] == 1 for job in self.jobs.values())
        assert self.site.ledger("SELECT * FROM HeldRecords WHERE Target = ?", f"arex/jura/{name}") == []
        self.check_usage(name)

    def check_summaries(self, name: str) -> None:
        """Each sum, everything else zero."""
        found: dict[Any, tuple[int, int]] = {}
        for row in self.receivers[name].hybrid.values():
            if row["NumberOfJobs"]:
                key = (row["Year"], row["Month"], row["VO"], row["ServiceLevel"])
                number, wall_s = found.get(key, (0, 0))
                found[key] = (number + row["NumberOfJobs"], wall_s + row["WallDuration"])
        sums: dict[Any, tuple[int, int]] = {}
        for job in self.jobs.values():
            when = time.gmtime(job.end_time)
            key = (when.tm_year, when.tm_mon, job.vo, float(job.benchmark.partition(":")[2]))
            number, wall_s = sums.get(key, (0, 0))
            sums[key] = (number + 1, wall_s + job.wall_s)
        assert found == sums
        self._check_sync(name)

    def check_usage(self, name: str) -> None:
        """
        APEL's portal has the usage of the database, month by month.

        Jobs whose deletion was forgotten by a restore or a power cut may be left there as records of their own.
        """
        receiver = self.receivers[name]
        found: Counter[Any] = Counter()
        for (_site, *month), total in receiver.totals().items():
            found[tuple(month)] += total.wall_s
        for row in receiver.job_records.values():
            if row["LocalJobId"].removeprefix("4") in self._ghosts():
                found[time.gmtime(row["EndTime"])[:2]] -= row["WallDuration"]
        wanted: Counter[Any] = Counter()
        for job in self.jobs.values():
            when = time.gmtime(job.end_time)
            wanted[when.tm_year, when.tm_mon] += job.wall_s
        assert +found == +wanted
        self._check_sync(name)

    def _check_sync(self, name: str) -> None:
        found: Counter[Any] = Counter()
        for row in self.receivers[name].sync_records.values():
            found[row["Year"], row["Month"]] += row["NumberOfJobs"]
        found = +found
        months = Counter(time.gmtime(job.end_time)[:2] for job in self.jobs.values())
        assert found == months
