"""
What publishing costs: usage records, CARs, job records and sums, ours and ARC's jura-ng in turns, from one database.

Each program has its defaults first, then both have the same batch size, or months. From runs over few and over many
jobs follows what a run costs, and what a record does. Then the whole way of a job, ours alone: the launcher's events
into accounting.db, by the recorder, and then the records and sums to their receivers.

Figures are the least of three rounds, in which who starts alternates; the ratio is the rounds' median. CPU is that of
the process and its children. The receivers run in a process of their own; what they cost is no one's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import peer
from control_directory import set_up
from figures import ROUNDS, Cost, Figure, Turns, cost_of, cpu_of, in_turns
from generate import USERS, Look, generate
from job_files import DIAG, LOCAL, STATISTICS, Files, lay

from arcacct.arex import resident
from arcacct.arex.control_files import job_file
from arcacct.config.paths import places
from arcacct.database.access import initialise
from arcacct.files.directories import resource

SIZES = {"smoke": (100, 300), "small": (1_000, 10_000), "large": (5_000, 50_000)}
"""Few jobs and many."""
HEAVY = {"smoke": (10, 30), "small": (200, 2_000), "large": (1_000, 10_000)}
WAY = {"smoke": 20, "small": 2_000, "large": 10_000}

SGAS = "[arex/jura/sgas:bench]\ntargeturl={sgas}\n"
APEL = "[arex/jura/apel:bench]\ntargeturl={ams}\ngocdb_name=BENCH\ntopic=gLite-APEL\napel_messages={messages}\n"
ARCACCT = str(pathlib.Path(sys.executable).with_name("arcacct"))


class Case(NamedTuple):
    """What is published, and how."""

    kind: str
    """``SGAS``, or a kind of ``apel_messages``."""
    settings: str = "defaults"
    """Of both programs, in words."""
    batch: int | None = None
    """``urbatchsize`` of both programs."""

    def targets(self, box: dict[str, Any]) -> str:
        """The block of the target."""
        batch = "" if self.batch is None else f"urbatchsize={self.batch}\n"
        text = SGAS if self.kind == "SGAS" else APEL
        return text.format(**box, messages=self.kind).replace(":bench", self.name) + batch

    @property
    def name(self) -> str:
        """Of the target: what jura-ng has published to one of the same name, we do not publish."""
        return f":{self.kind.lower()}"

    @property
    def block(self) -> str:
        """The block's name for jura-ng."""
        return f"arex/jura/{'sgas' if self.kind == 'SGAS' else 'apel'}{self.name}"


SAME = "500 a message"
RECORDS = (
    Case("SGAS"),
    Case("SGAS", "50 a message", 50),
    Case("SGAS", SAME, 500),
    Case("urs", f"{SAME} by default"),
    Case("individual"),
)
NEW = (Case("summaries", "the same months"),)
OF_HEAVY = (Case("SGAS"), Case("SGAS", SAME, 500), Case("urs", f"{SAME} by default"))
SHOWN = {"urs": "CAR", "individual": "job records"}
WAYS = {
    "SGAS records": ("SGAS",),
    "SGAS and APEL sums": ("SGAS", "summaries"),
    "SGAS and APEL records": ("SGAS", "urs"),
}
EVENTS = {"ACCEPTED": 90, "PREPARING": 85, "SUBMIT": 80, "FINISHING": 2, "FINISHED": 0}
"""The callouts that `arcacct setup` writes: how many seconds before the job's end."""
DAY_S = 86_400


@contextlib.contextmanager
def receivers(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """
    The sandbox in a process of its own; authn at the port that jura-ng insists on, if it is free.

    ``connections`` is a function: how many there were to any of its servers so far.
    """
    program = (
        "import json, sys\nfrom arcacct.errors import TargetBusy\nfrom arcacct.sandbox import Sandbox\n"
        # Another benchmark may have it, or take it this moment.
        "try: box = Sandbox(sys.argv[1], authn_port=8443)\n"
        "except TargetBusy: box = Sandbox(sys.argv[1] + '-elsewhere', authn_port=0)\n"
        "with box:\n"
        "    print(json.dumps({'sgas': box.sgas_url, 'ams': box.ams_url, 'authn': box.authn_port,"
        " 'cert': box.client.cert_path, 'key': box.client.key_path, 'ca': box.ca_dir}), flush=True)\n"
        "    for _ in sys.stdin: print(sum(server.connections for server in box.servers.values()), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def connections() -> int:
        process.stdin.write("\n")
        return int(process.stdout.readline())

    try:
        yield {**json.loads(process.stdout.readline()), "connections": connections}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


def configure(site: pathlib.Path, box: dict[str, Any], targets: str) -> None:
    """Both conf files: jura-ng reads its targets from arc.conf, we read ours from arcacct.conf."""
    common = (
        f"[common]\nhostname=ce.example.org\nx509_host_key={box['key']}\nx509_host_cert={box['cert']}\n"
        f"x509_cert_dir={box['ca']}\n[arex]\ncontroldir={site}\n[lrms]\nlrms=slurm\n"
    )
    jura = f"[arex/jura]\nx509_host_key={box['key']}\nx509_host_cert={box['cert']}\nx509_cert_dir={box['ca']}\n"
    (site / "arc.conf").write_text(common)
    (site / "jura.conf").write_text(common + jura + targets)
    (site / "arcacct.conf").write_text(targets.replace("gocdb_name", f"authn_port={box['authn']}\ngocdb_name"))


def ours(site: pathlib.Path) -> Cost:
    """One run of `arcacct publish` that sends everything, of jobs that were recorded and went nowhere yet."""
    folder, recorded = site / "accounting" / "arcacct", site / "recorded.db"
    # jura-ng has published nothing yet, either.
    (site / "accounting" / "publishing.db").unlink(missing_ok=True)
    if not recorded.exists():
        shutil.copyfile(folder / "accounting.db", recorded)
    for file in (*folder.glob("publishing.db*"), *folder.glob("accounting.db*")):
        file.unlink()
    shutil.copyfile(recorded, folder / "accounting.db")
    return published(site)


def published(site: pathlib.Path) -> Cost:
    """One run of `arcacct publish`."""
    command = [ARCACCT, "--config", str(site / "arc.conf"), "publish", "--now", "--since", "2026-01-01"]
    return cost_of(command, log=site / "ours.log")


def theirs(site: pathlib.Path, root: pathlib.Path, block: str) -> Cost:
    """One run of jura-ng that sends everything."""
    peer.publish_everything(site, [block])
    return cost_of(peer.jura(root, site / "jura.conf"), env=peer.environment(root), log=site / "jura.log")


def bench(size: str) -> list[Figure]:
    """Rows of each case, then those of the whole way."""
    root = None if size == "smoke" else peer.arc_root()
    rounds = 1 if size == "smoke" else ROUNDS
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with receivers(folder / "box") as box:
            for what, cases, counts, look in (
                ("jobs", RECORDS, SIZES, Look(plain=True)),
                ("new jobs", NEW, SIZES, Look(plain=True, new=True)),
                ("jobs of 16 nodes and 20 transfers", OF_HEAVY, HEAVY, Look(plain=True, heavy=True)),
            ):
                few, many = (Bench(folder / f"{what}-{jobs}", jobs, box, root, rounds) for jobs in counts[size])
                for one in (few, many):
                    generate(one.site, one.jobs, look)
                for case in cases:
                    figures += rows(what, few, many, case)
                shutil.rmtree(few.site)
                shutil.rmtree(many.site)
            for way, kinds in WAYS.items():
                figures += whole_way(folder / "way", way, kinds, box, WAY[size], rounds)
    return figures


class Bench(NamedTuple):
    """One database, and who publishes from it."""

    site: pathlib.Path
    jobs: int
    box: dict[str, Any]
    root: pathlib.Path | None
    """Where ARC's programs are."""
    rounds: int

    def run(self, case: Case) -> tuple[Turns, list[list[int]], str]:
        """The costs of both programs, the connections of each of their runs, and what failed."""
        shutil.copyfile(self.site / "accounting/arcacct/accounting.db", self.site / "accounting/accounting.db")
        configure(self.site, self.box, case.targets(self.box))
        connections: list[list[int]] = [[], []]

        def counted(run: Callable[[], Cost], made: list[int]) -> Cost:
            before = self.box["connections"]()
            cost = run()
            made.append(self.box["connections"]() - before)
            return cost

        root = self.root
        # jura-ng has no messages of job records.
        has_peer = root is not None and case.kind != "individual"
        other = (lambda: counted(lambda: theirs(self.site, root, case.block), connections[1])) if has_peer else None
        turns = in_turns(lambda: counted(lambda: ours(self.site), connections[0]), other, self.rounds)
        return turns, connections, note_of(turns, connections, self.site / "ours.log")


def rows(what: str, few: Bench, many: Bench, case: Case) -> list[Figure]:
    """What many jobs cost; what the run costs, and a job; with the defaults also memory and connections."""
    (smaller, _made, failed), (larger, connections, note) = few.run(case), many.run(case)
    named = f"publish {many.jobs:,} {what}, {SHOWN.get(case.kind, case.kind)}, {case.settings}"
    ends = zip(smaller.least(_cpu), larger.least(_cpu), strict=True)
    both = [
        run_and_job((few.jobs, less), (many.jobs, more)) for less, more in ends if less is not None and more is not None
    ]
    run_ms, job_us = (
        [cost * unit for cost in side] for side, unit in zip(zip(*both, strict=True), (1e3, 1e6), strict=True)
    )
    found = [
        larger.figure(f"{named}: CPU", "s", _cpu, ", ".join(filter(None, (failed, note)))),
        Figure(f"{named}: CPU of a run without them", run_ms[0], "ms", *run_ms[1:]),
        Figure(f"{named}: CPU of each", job_us[0], "us", *job_us[1:]),
    ]
    if case.batch is None:
        made = [max(one, default=0) for one in connections]
        found += [
            larger.figure(f"{named}: peak memory", "MiB", lambda cost: cost.peak_mib),
            Figure(f"{named}: connections", made[0], "", made[1] or None),
        ]
    return found


def run_and_job(few: tuple[int, float], many: tuple[int, float]) -> tuple[float, float]:
    """What a run costs without jobs, and each job: from two numbers of jobs, and what these cost."""
    (jobs, less), (more_jobs, more) = few, many
    job = (more - less) / (more_jobs - jobs)
    return less - jobs * job, job


def _cpu(cost: Cost) -> float:
    return cost.cpu_s


def note_of(turns: Turns, connections: list[list[int]], log: pathlib.Path) -> str:
    """A run that failed, or sent nothing, says so instead of being quoted: by the connections of ours and of theirs."""
    if not all(connections[0]) or any(cost.exit_code for cost in turns.ours):
        return f"OURS FAILED: {log.read_text()[-300:]}"
    failed = [f"jura-ng exit code {cost.exit_code}" for cost in turns.theirs if cost.exit_code][:1]
    return ", ".join([*failed, *([] if all(connections[1]) else ["jura-ng sent nothing"])])


def whole_way(
    folder: pathlib.Path, way: str, kinds: tuple[str, ...], box: dict[str, Any], jobs: int, rounds: int
) -> list[Figure]:
    """CPU and bytes of a job from its events to its records and sums at the receivers."""
    costs, note = [], ""
    for _ in range(rounds):
        site = pathlib.Path(set_up(folder / "control"))
        configure(site, box, "".join(Case(kind).targets(box) for kind in kinds))
        here = places(None, str(site))
        initialise(here)
        with contextlib.closing(sqlite3.connect(here.database)) as con, con:
            # As if every job had been recorded from the first: its months are whole.
            con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
        empty = _used_bytes(here.database) + _used_bytes(here.publishing_database)
        recording_s = _recorded(site, jobs)
        publishing = published(site)
        with contextlib.closing(sqlite3.connect(here.publishing_database)) as con, con:
            # The last message stays until the next one: 1.4 MB of 500 records, however many jobs there are.
            con.execute("DELETE FROM MessageBytes")
        used = _used_bytes(here.database) + _used_bytes(here.publishing_database) - empty
        costs.append(((recording_s + publishing.cpu_s) / jobs * 1e6, publishing.cpu_s / jobs * 1e6, used / jobs))
        with contextlib.closing(sqlite3.connect(here.publishing_database)) as con:
            sent = "SELECT count(*) FROM v1_publications WHERE state = 'accepted' AND job_id IS NOT NULL"
            accepted = con.execute(sent).fetchone()[0]
        if publishing.exit_code or accepted != jobs * sum(kind != "summaries" for kind in kinds):
            note = f"OURS FAILED: {accepted} records of {jobs} jobs accepted; {(site / 'ours.log').read_text()[-300:]}"
        shutil.rmtree(folder)
    whole, publish, used = map(min, zip(*costs, strict=True))
    named = f"whole way of a job, {way}"
    return [
        Figure(f"{named}: CPU", whole, "us", note=note or f"of {jobs:,} jobs"),
        Figure(f"{named}: CPU of publishing alone", publish, "us"),
        Figure(f"{named}: bytes in both databases", used, "bytes"),
    ]


def _used_bytes(database: str) -> int:
    """Of the pages in use."""
    with contextlib.closing(sqlite3.connect(database)) as con:
        pages, free, size = (
            con.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def _recorded(site: pathlib.Path, jobs: int) -> float:
    """CPU seconds of the recorder for all events of so many jobs, all of one state before those of the next."""
    here = places(None, str(site))
    ended_s = int(time.time()) - 3 * DAY_S
    events = _events(site, ended_s)
    ids = [hashlib.sha256(b"%d" % number).hexdigest()[:54] for number in range(jobs)]
    # An event without files is recorded with what A-REX's .local says.
    for number, job_id in enumerate(ids):
        pathlib.Path(job_file(str(site), job_id, "local")).write_bytes(_of_job(_LOCAL, number, job_id))
    os.makedirs(here.spool, exist_ok=True)
    new = site / "event"
    command = [ARCACCT, "--config", str(site / "arc.conf"), "sweep", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as recorder:
        while (seen := resident.seen(here)) is None or seen.process is None:
            time.sleep(0.05)
        # Its first sweep.
        time.sleep(1)
        begun_s = cpu_of(recorder.pid)
        try:
            for state, before_s in EVENTS.items():
                for number, job_id in enumerate(ids):
                    event = _of_job(events[state], number, job_id)
                    new.write_bytes(event.replace(b"/%d/" % ended_s, b"/%d/" % (ended_s + number)))
                    os.utime(new, (ended_s + number - before_s,) * 2)
                    # Whatever is in the spool is an event.
                    new.rename(os.path.join(here.spool, f"{number + 1}-{state}-{job_id}"))
                while any(re.match("[0-9]", name) for name in os.listdir(here.spool)):
                    time.sleep(0.05)
        finally:
            recorder.terminate()
        _pid, status, usage = os.wait4(recorder.pid, 0)
        recorder.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime - begun_s


_TEMPLATE = "0" * 54
_SUBJECT, _LOCAL_ID = b"User 0000000", b"10000000"
_LOCAL = (
    LOCAL.replace(b"Uc8KDmTestJobNumber1", _TEMPLATE.encode())
    .replace(b"Ada Lovelace", _SUBJECT)
    .replace(b"localid=4711", b"localid=" + _LOCAL_ID)
)


def _of_job(template: bytes, number: int, job_id: str) -> bytes:
    """A file of the template's job as that of another job, as long."""
    return (
        template.replace(_TEMPLATE.encode(), job_id.encode())
        .replace(_SUBJECT, b"User %07d" % (number % USERS))
        .replace(b"localid=" + _LOCAL_ID, b"localid=%d" % (int(_LOCAL_ID) + number))
    )


def _events(site: pathlib.Path, ended_s: int) -> dict[str, bytes]:
    """What the launcher leaves of each callout of the template's job."""
    spool, found = site / "templates", {}
    launcher = resource("etc", "arcacct-hook")
    for state in EVENTS:
        lay(site, Files(state, ended_s * 10**9, _LOCAL, DIAG, STATISTICS), _TEMPLATE)
        command = ["/bin/sh", launcher, str(site), _TEMPLATE, state]
        subprocess.run(command, check=True, env={**os.environ, "ARCACCT_SPOOL": str(spool)})
        while not (written := [*spool.glob(f"[0-9]*-{state}-*")]):
            time.sleep(0.01)
        found[state] = written[0].read_bytes()
    for file in (*site.glob(f"job.{_TEMPLATE}.*"), *site.glob(f"*/job.{_TEMPLATE}.status")):
        file.unlink()
    shutil.rmtree(spool)
    return found
