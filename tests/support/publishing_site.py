"""
A site for the tests of publishing: jobs recorded by the real recorder, targets from real configuration text, the
sandbox's receivers, and what all of them hold in the end.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from control_directory import set_up
from stored_jobs import endpoint_id

from arcacct.config.parser import load
from arcacct.config.settings import Settings, settings
from arcacct.database import access
from arcacct.database.schema import incarnation, new_incarnation
from arcacct.publishing.audit import questions
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.run import publish, republish
from arcacct.publishing.target_run import Period, RunOptions, TargetResult
from arcacct.publishing.transport import TimeoutPolicy
from arcacct.queries.verify import MonthReport, verify
from arcacct.records import holds, recorder
from arcacct.records.states import CLOCK_S, MEASURED, StateChange, Usage
from arcacct.records.texts import escaped
from arcacct.sandbox import Sandbox
from arcacct.sandbox.apel import APEL
from arcacct.targets import kinds, plugins

JUNE = 1_718_452_800
"""2024-06-15 12:00:00 UTC."""
DAY_S = 86_400
LIFE_S = 36_000
"""From the submission of a job to its end."""
MOST_S = LIFE_S + CLOCK_S
"""The bound of a job's wall time."""
QUICK = TimeoutPolicy(connect_s=5.0, read_s=5.0, backoff_s=(0.0, 0.01), longest_wait_s=0.05)
"""Every wait of the real patience, too short to notice."""

SGAS = "[arex/jura/sgas:s]\ntargeturl={sgas}\n"
AUDITOR = "[arcacct/auditor:a]\ntargeturl={auditor}\nsite_id=SITE\n"
# Reading all CAs of the operating system would take longer than most tests.
CARS = "[arex/jura/apel:a]\ntargeturl={ams}\nauthn_port={authn}\nca_system=no\ngocdb_name=SITE\napel_messages=urs\n"
SUMMARIES = CARS.replace("=urs", "=summaries")
DIRECTORY = "[arcacct/directory:d]\npath={path}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"


class Job(NamedTuple):
    """A job that ended, as the test knows it."""

    job_id: str
    end_time: int = JUNE
    wall_s: int = 100
    cpu_s: int = 90
    vo: str = "atlas"
    fqan: str = "/atlas/Role=production"
    user_dn: str = "/DC=org/DC=example/CN=Ada Lovelace"
    local_id: str | None = None
    """``None``: made from the job id."""
    endpoint_url: str = "https://ce.example.org:443/arex"
    status: str = "completed"
    cores: int = 1
    nodes: int = 1
    benchmark: str = "HEPSPEC:10.0"
    queue: str = "main"
    name: str = "job"
    hosts: str = ""
    """Names of nodes, with colons between."""
    auth_groups: tuple[str, ...] = ()
    """That A-REX found the user in, of a job whose VO no credential tells."""
    is_measured: bool = True
    """Without a measurement both times are 0 here, too."""
    ran: tuple[int, int] | None = None
    """When the run started and ended, by the batch system."""

    @property
    def lrms_id(self) -> str:
        """The id in the batch system."""
        return f"4{self.job_id}" if self.local_id is None else self.local_id


def jobs(count: int, first: int = 0, **values: Any) -> list[Job]:
    """Some jobs, a second apart."""
    return [Job(f"job{number:05d}", JUNE + number, **values) for number in range(first, first + count)]


def facts_of(job: Job) -> StateChange:
    """What the control files of the job would have said at its end."""
    facts = StateChange(job.job_id, "FINISHED", job.end_time * 10**9, None)
    facts.known = True
    facts.local_job_id = job.lrms_id
    facts.endpoint_type = "org.nordugrid.arcrest" if job.endpoint_url else ""
    facts.endpoint_url = job.endpoint_url
    facts.queue, facts.user_dn, facts.vo = job.queue, job.user_dn, job.vo
    facts.has_voms, facts.auth_groups = bool(job.fqan), list(job.auth_groups)
    facts.submit_time = job.end_time - LIFE_S
    facts.auth_tokens = [("mainfqan", job.fqan)] if job.fqan else []
    facts.extra = {"jobname": job.name, "benchmark": job.benchmark, "lrms": "slurm"}
    if job.hosts:
        facts.extra["nodenames"] = job.hosts
    usage = facts.usage = Usage()
    usage.status, usage.end_time, usage.exit_code = job.status, job.end_time, 0
    usage.wall_s, usage.cpu_user_s = job.wall_s, job.cpu_s
    usage.node_count, usage.core_count = job.nodes, job.cores
    if not job.is_measured:
        usage.unknown = MEASURED
    if job.ran is not None:
        facts.events = [*zip(("LRMSSTART", "LRMSEND"), job.ran, strict=True)]
    return facts


def write(con: sqlite3.Connection, job: Job) -> None:
    """
    Record a job's end; of one that is known, correct also what no control file ever changes (an operator would).

    Inside the caller's transaction.
    """
    facts = facts_of(job)
    con.execute(
        "UPDATE AAR SET SubmitTime = ?1 WHERE JobID = ?2 AND SubmitTime <> ?1", (facts.submit_time, escaped(job.job_id))
    )
    recorder.record(con, facts, present=True)
    values = (
        endpoint_id(con, facts.endpoint_type, facts.endpoint_url),
        recorder.name_id(con, "Users", job.user_dn),
        recorder.name_id(con, "WLCGVOs", job.vo),
    )
    (record_id,) = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (escaped(job.job_id),)).fetchone()
    con.execute(
        "UPDATE AAR SET (EndpointID, UserID, VOID) = (?, ?, ?) WHERE RecordID = ?"
        " AND (EndpointID, UserID, VOID) IS NOT (?, ?, ?)",
        (*values, record_id, *values),
    )
    tokens: list[tuple[object, ...]] = [(key, escaped(value)) for key, value in facts.auth_tokens]
    recorder.set_children(con, record_id, "AuthTokenAttributes", tokens)
    extra: list[tuple[object, ...]] = [(key, escaped(value)) for key, value in facts.extra.items()]
    recorder.set_children(con, record_id, "JobExtraInfo", extra)


class Site:
    """A directory with a configuration, our databases, and the sandbox that it publishes to."""

    def __init__(
        self,
        path: pathlib.Path,
        box: Sandbox | None = None,
        targets: str = SGAS,
        hostname: str = "ce.example.org",
        **options: str,
    ) -> None:
        self.path = path
        self.hostname = hostname
        self.box = box
        self.options = options
        self.timeouts = QUICK
        set_up(path / "control")
        self.configure(targets)

    def configure(self, targets: str) -> None:
        """
        Write the configuration again.

        ``{sgas}``, ``{ams}``, ``{authn}``, ``{auditor}`` and ``{path}`` stand for the sandbox's addresses and the
        site's directory.
        """
        box = self.box
        words = {"path": self.path}
        if box is not None:
            words |= {"sgas": box.sgas_url, "ams": box.ams_url, "authn": box.authn_port, "auditor": box.auditor_url}
        credentials = (
            ""
            if box is None
            else (
                f"x509_host_key={box.client.key_path}\nx509_host_cert={box.client.cert_path}\nx509_cert_dir={box.ca_dir}\n"
            )
        )
        ours = "\n".join(f"{name}={value}" for name, value in self.options.items())
        (self.path / "arc.conf").write_text(
            f"[common]\nhostname={self.hostname}\n{credentials}[lrms]\nlrms=slurm\n[arex]\n"
            f"controldir={self.path}/control\n"
        )
        (self.path / "arcacct.conf").write_text(f"[arcacct]\n{ours}\n{targets.format(**words)}")
        self.settings: Settings = settings(load(str(self.path / "arc.conf"), {}), kinds())

    def record(self, *recorded: Job) -> None:
        """Record jobs that ended: new ones, or known ones that are something else now."""
        here = self.settings.places
        con = access.open_accounting(here)
        try:
            for start in range(0, len(recorded), 200):
                with access.writing(con, here):
                    # A site that recorded every job from the first: its months are whole.
                    con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
                    for job in recorded[start : start + 200]:
                        write(con, job)
        finally:
            con.close()

    def send(self, *recorded: Job) -> None:
        """Record jobs, and publish to every target without an error."""
        self.record(*recorded)
        publish_well(self)

    def sql(self, *statements: str) -> None:
        """What an operator, or another program, does to the accounting database by hand."""
        con = access.open_accounting(self.settings.places)
        try:
            for statement in statements:
                con.execute(statement)
        finally:
            con.close()

    def refusable(self, *recorded: Job, wall_s: int = -1) -> None:
        """Record jobs that receivers refuse: another program writes a wall time that no one judges."""
        self.record(*recorded)
        for job in recorded:
            self.sql(f"UPDATE AAR SET UsedWalltime = {wall_s} WHERE JobID = '{job.job_id}'")

    def publish(self, name: str | None = None, **options: Any) -> TargetResult:
        """One run for the only target, or the one of a name; everything is due, whatever ended is wanted."""
        (outcome,) = [one for one in self.publish_all(**options) if name in {None, one.target}]
        return outcome

    def publish_all(self, **options: Any) -> list[TargetResult]:
        """One run for all targets."""
        found = self.settings
        return publish(found, plugins(found), self._options(**{"since": 1, "now": True, **options}))

    def republish(self, from_s: int = 1, before_s: int = 2_000_000_000, **options: Any) -> TargetResult:
        """Send a period again to the only target."""
        found = self.settings
        (outcome,) = republish(found, plugins(found), Period(from_s, before_s), self._options(**options))
        return outcome

    def _options(self, **options: Any) -> RunOptions:
        def quick(plugin: TargetPlugin) -> Any:
            return plugin.sender(self.timeouts)

        return RunOptions(**{"make_sender": quick, **options})

    def audit(self) -> list[str]:
        """What `arcacct db check` finds wrong with what the ledger claims."""
        here = self.settings.places
        with closing(access.read_accounting(here)) as ours, closing(access.read_publishing(here)) as ledger:
            asked = questions(ours, ledger, plugins(self.settings))
            return [problem for parts in asked.values() for ask in parts.values() for problem in ask()]

    @contextmanager
    def verified(self, month: tuple[int, int]) -> Iterator[MonthReport]:
        """The report of `arcacct verify` on a month."""
        here = self.settings.places
        with (
            closing(access.read_accounting(here)) as con,
            closing(access.read_publishing(here)) as ledger,
            closing(verify(self.settings, con, ledger, month)) as report,
        ):
            yield report

    def decide(self, job: Job, state: str) -> None:
        """What an operator decides of a job that is on hold."""
        here = self.settings.places
        with closing(access.open_accounting(here)) as con:
            (record_id,) = con.execute("SELECT RecordID FROM AAR WHERE JobID = ?", (job.job_id,)).fetchone()
            with access.writing(con, here):
                holds.decide(con, record_id, state, "root")

    def ledger(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of the publishing database."""
        return _rows(self.settings.places.publishing_database, query, values)

    def database(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of the accounting database."""
        return _rows(self.settings.places.database, query, values)

    def held(self) -> dict[str, tuple[str, str]]:
        """``(state, reason)`` of each job that is held back."""
        return {job: (state, why) for job, state, why in self.ledger("SELECT JobID, State, Reason FROM HeldRecords")}

    def wait(self, seconds: int) -> None:
        """Time passes, as far as what is set aside can tell."""
        con = access.open_publishing(self.settings.places)
        con.execute("UPDATE HeldRecords SET NextTry = NextTry - ?1, Tried = Tried - ?1, Since = Since - ?1", (seconds,))
        con.close()

    def backup(self, name: str = "backup") -> pathlib.Path:
        """Copy the accounting database as `db backup` does."""
        copy = self.path / f"{name}.db"
        copy.unlink(missing_ok=True)
        con, target = sqlite3.connect(self.settings.places.database), sqlite3.connect(copy)
        con.backup(target)
        con.close()
        target.close()
        return copy

    def put_back(self, copy: pathlib.Path, *, by_hand: bool = False) -> None:
        """Put a copy in the database's place: as `db restore` does, or ``by_hand`` as an operator in a hurry."""
        database = pathlib.Path(self.settings.places.database)
        for suffix in ("-wal", "-shm"):
            pathlib.Path(f"{database}{suffix}").unlink(missing_ok=True)
        shutil.copyfile(copy, database)
        if not by_hand:
            con = access.open_accounting(self.settings.places)
            new_incarnation(con)
            con.close()

    @property
    def life(self) -> str:
        """The incarnation of the accounting database."""
        con = access.open_accounting(self.settings.places)
        try:
            return incarnation(con)
        finally:
            con.close()


def _rows(path: str, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    con = sqlite3.connect(path)
    try:
        return con.execute(query, values).fetchall()
    finally:
        con.close()


class Received(NamedTuple):
    """What a receiver has of a job."""

    end_time: int
    wall_s: int
    cpu_s: int


def at_sgas(rows: Any) -> dict[str, Received]:
    """What SGAS has, by JobID."""
    return {row.global_job_id: Received(row.end_time, row.wall_duration, row.cpu_duration) for row in rows.values()}


def at_apel(table: Any) -> dict[str, Received]:
    """What APEL's table of jobs has, by the id in the batch system; rows that were taken back are left out."""
    return {
        row["LocalJobId"]: Received(row["EndTime"], row["WallDuration"], row["CpuDuration"])
        for row in table.values()
        if row["WallDuration"] or row["CpuDuration"]
    }


def at_auditor(records: Any) -> dict[str, Received]:
    """What AUDITOR has, by JobID."""
    return {
        re.sub("^ur-[a-z.]*-", "", record_id): Received(
            int(one.stop_time.timestamp()),
            one.runtime_s,
            next(part.amount for part in one.components if part.name == "TotalCPU"),
        )
        for record_id, one in records.items()
    }


def usage(apel: APEL) -> tuple[int, int]:
    """All wall and CPU seconds that APEL's portal shows."""
    shown = apel.totals().values()
    return sum(one.wall_s for one in shown), sum(one.cpu_s for one in shown)


def truth(recorded: Any, *, by_lrms: bool = False) -> dict[str, Received]:
    """What a receiver ought to have."""
    return {
        job.lrms_id.lower() if by_lrms else job.job_id: Received(job.end_time, job.wall_s, job.cpu_s)
        for job in recorded
    }


def received_by_both(site: Site) -> set[str]:
    """The jobs that SGAS has, of a site that publishes to both; APEL has to have the same."""
    ids = set(at_sgas(site.box.sgas.records))
    assert {f"4{job_id}" for job_id in ids} == set(at_apel(site.box.apel.job_records))
    return ids


def publish_well(site: Site, **options: Any) -> list[int]:
    """One run without an error; how many job records each target was sent."""
    outcomes = site.publish_all(**options)
    assert [one.error for one in outcomes] == [None] * len(outcomes)
    return [sum(sent.records for kind, sent in one.summary.sent.items() if kind != "sync") for one in outcomes]
