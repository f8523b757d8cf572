"""`arcacct demo` and `arcacct sandbox`: a rehearsal of recording and publishing on one machine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import click

from arcacct.arex.control_files import owner_of, read_job
from arcacct.cli.console import block, examples, print_line
from arcacct.cli.options import in_order
from arcacct.config.parser import load
from arcacct.config.paths import STATUS_FOLDERS
from arcacct.config.review import Release
from arcacct.config.settings import Settings, settings
from arcacct.database import access
from arcacct.errors import ArcacctError, ConfigError, UsageError
from arcacct.files.directories import resource
from arcacct.files.safe_open import open_directory, private
from arcacct.sandbox import CE, RECEIVERS, Sandbox
from arcacct.sandbox.apel import int_of
from arcacct.targets import kinds, plugins
from arcacct.wording import count_of

if TYPE_CHECKING:
    from arcacct.arex.sweep_context import SweepReport
    from arcacct.publishing.target_run import TargetResult
    from arcacct.records.model import AAR

# A rehearsal of everything on one machine: a small real control directory is recorded, published and published again.
# The receivers are the sandbox's, so the received records can be counted and compared with the recorded ones. The job
# files are shipped in ``demo_data``, and their times are moved to yesterday.


DAY_S = 86_400
RECORDED_ON = date(2026, 11, 20)
"""The day on which the jobs of ``demo_data`` ran."""
_EPOCH = date(1970, 1, 1)
RECORDS_SITE, SUMMARIES_SITE = "DEMO-RECORDS", "DEMO-SUMMARIES"
"""APEL would add job records and summaries of one site, so the two targets are two sites."""
_INSTANT = re.compile(rb"(?<![0-9])(\d{4})(-?)(\d\d)\2(\d\d)(?=T?\d\d(:?)\d\d\5\d\dZ)")
"""The date of a time, in both of A-REX's spellings."""


class Rehearsal(NamedTuple):
    """The result of a rehearsal."""

    directory: str
    day: date
    """The day on which the jobs ended, UTC."""
    reported: list[tuple[str, str]]
    """Job id and state of each event from a callout."""
    swept: SweepReport
    records: list[AAR]
    """The number of records in the database at the end."""
    published: list[TargetResult]
    republished: list[TargetResult]
    ignored_repeats: int
    """Records that SGAS received again and ignored."""
    documents: int
    """Files in ``received``, without those that only repeat a signed body."""
    missing: list[str]
    """Records that were not recorded, sent or accepted; empty if there are none."""


def rehearse(directory: str) -> Rehearsal:
    """
    Create files, record, publish and publish again, all in a new ``directory``.

    Raises UsageError if that directory has content, ConfigError if it cannot be written, and the errors of recording
    and publishing.
    """
    # `arcacct sandbox` needs none of these.
    from arcacct.arex.sweep import record_event, sweep  # noqa: PLC0415
    from arcacct.publishing.run import publish, republish  # noqa: PLC0415
    from arcacct.publishing.target_run import Period, RunOptions  # noqa: PLC0415
    from arcacct.records import reader  # noqa: PLC0415

    day = _EPOCH + timedelta(days=time.time() // DAY_S - 1)
    midnight = (day - _EPOCH).days * DAY_S
    with _new_directory(directory) as home, Sandbox(home) as box:
        here = _configured(home, box)
        site = DemoSite(os.path.join(home, "control"), (day - RECORDED_ON).days)
        with closing(access.open_accounting(here.places)) as con:
            reported = []
            # Every shipped callout: the control directory at that time, then the event.
            for job_id in sorted(os.listdir(resource("sandbox", "demo_data", "hooks"))):
                for call in sorted(os.listdir(resource("sandbox", "demo_data", "hooks", job_id))):
                    state = call.partition("-")[2]
                    site.remove(job_id)
                    site.lay_out(f"hooks/{job_id}/{call}")
                    record_event(here.places, read_job(site.control, job_id, state, site.owner), con)
                    reported.append((job_id, state))
            site.lay_out("control")
            swept = sweep(here.places, con, owner=site.owner)
        # The month started before this database existed: a site confirms this once, or imports A-REX's records.
        options = RunOptions(now=True, since=midnight, accept_lower=((day.year, day.month),))
        published = publish(here, plugins(here), options)
        republished = republish(here, plugins(here), Period(midnight, midnight + DAY_S))
        with closing(access.read_accounting(here.places)) as con:
            records = [aar for page in reader.ended_between(con, midnight, midnight + DAY_S) for aar in page]
        return Rehearsal(
            directory,
            day,
            reported,
            swept,
            records,
            published,
            republished,
            ignored_repeats=box.sgas.ignored_repeats,
            documents=sum(
                name.endswith(".smime") or os.path.basename(folder) == "sgas"
                for folder, _, names in os.walk(box.received)
                for name in names
            ),
            missing=list(_missing(swept, records, [*published, *republished], box)),
        )


class DemoSite:
    """The shipped control directory: with its times moved by whole days, and its owners in a separate file."""

    def __init__(self, control: str, days: int) -> None:
        self.control = control
        self._days = days
        self._owners: dict[int, str] = {}
        with open(resource("sandbox", "demo_data", "files.tsv"), encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file][1:]
        self._shipped = {path: (int(Decimal(seconds) * 10**9), owner) for path, seconds, owner in rows}
        """Time in nanoseconds and owner of each shipped file."""
        for folder in STATUS_FOLDERS:
            open_directory(os.path.join(control, folder), make=0o700).close()

    def owner(self, stat: os.stat_result) -> str:
        """``user:group`` of a file on the computing element where the jobs ran: this machine has no such users."""
        return self._owners.get(stat.st_ino) or owner_of(stat)

    def lay_out(self, folder: str) -> None:
        """Put the files of a folder of ``demo_data`` into the control directory, replacing existing ones."""
        for shipped, (mtime_ns, owner) in self._shipped.items():
            if not shipped.startswith(f"{folder}/"):
                continue
            with open(resource("sandbox", "demo_data", *shipped.split("/")), "rb") as source:
                content = source.read()
            path = os.path.join(self.control, shipped.removeprefix(f"{folder}/"))
            with open(path, "wb", opener=private) as file:
                file.write(_INSTANT.sub(self._moved, content))
            moved_ns = mtime_ns + self._days * DAY_S * 10**9
            os.utime(path, ns=(moved_ns, moved_ns))
            self._owners[os.stat(path).st_ino] = owner

    def remove(self, job_id: str) -> None:
        """Remove the files of a job."""
        for folder in ("", *STATUS_FOLDERS):
            with os.scandir(os.path.join(self.control, folder)) as entries:
                for entry in [entry for entry in entries if entry.name.startswith(f"job.{job_id}.")]:
                    os.unlink(entry.path)

    def _moved(self, found: re.Match[bytes]) -> bytes:
        day = date(int(found[1]), int(found[3]), int(found[4])) + timedelta(days=self._days)
        return day.isoformat().replace("-", found[2].decode()).encode()


def job_ids() -> list[str]:
    """The jobs that are shipped."""
    return sorted(name[4:-7] for name in os.listdir(resource("sandbox", "demo_data", "control", "finished")))


@contextmanager
def _new_directory(directory: str) -> Iterator[str]:
    """The absolute path of a directory that is made, or empty; failures to write below it become ConfigError."""
    home = os.path.abspath(directory)
    if not home.isprintable():
        raise UsageError(f"{home!r}: a configuration file cannot contain such a name; choose another directory")
    if os.path.isfile(home):
        raise UsageError(f"{directory}: this is a file; give a new directory")
    try:
        with open_directory(home, make=0o700) as made:
            if os.listdir(made.fd):
                raise UsageError(f"{directory}: the directory is not empty; remove it, or give a new directory")
        yield home
    except OSError as error:
        raise ConfigError(
            f"{error.filename or directory}: {error.strerror}; choose a directory that can be written"
        ) from error


def _configured(home: str, box: Sandbox) -> Settings:
    """Write arc.conf and arcacct.conf, and read them as every command does."""
    from arcacct.health.setup import callout_lines  # noqa: PLC0415  `arcacct sandbox` does not need it

    arc_conf, launcher = os.path.join(home, "arc.conf"), os.path.join(home, "arcacct-hook")
    shutil.copy(resource("etc", "arcacct-hook"), launcher)
    os.chmod(launcher, 0o700)
    callouts = "\n".join(callout_lines(launcher, Release(6)))
    _write_text(
        arc_conf,
        f"""\
# A-REX's configuration. Any command of arcacct uses this file and arcacct.conf next to it with
#   arcacct --config {arc_conf} COMMAND

[common]
hostname = {CE}
x509_host_cert = {box.client.cert_path}
x509_host_key = {box.client.key_path}
x509_cert_dir = {box.ca_dir}

[lrms]
lrms = fork
benchmark = HEPSPEC:11.11

[arex]
controldir = {os.path.join(home, "control")}
{callouts}
""",
    )
    ports = " ".join(f"--{endpoint}-port {server.port}" for endpoint, server in box.servers.items())
    _write_text(
        os.path.join(home, "arcacct.conf"),
        f"""\
# The targets. The receivers ended with the demo; to start them again for more publishing:
#   arcacct sandbox --dir {home} {ports}

[arcacct]
database = {os.path.join(home, "accounting.db")}

[arex/jura/sgas:demo]
targeturl = {box.sgas_url}

# Each target of APEL is a separate site here: job records and summaries of one site would be added up.
[arex/jura/apel:records]
targeturl = {box.ams_url}
authn_port = {box.authn_port}
gocdb_name = {RECORDS_SITE}
apel_messages = urs

[arex/jura/apel:summaries]
targeturl = {box.ams_url}
authn_port = {box.authn_port}
gocdb_name = {SUMMARIES_SITE}
apel_messages = summaries
""",
    )
    conf = load(arc_conf, {})
    return settings(conf, kinds(conf))


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape", opener=private) as file:
        file.write(text)


def _missing(
    swept: SweepReport, records: Sequence[AAR], outcomes: Sequence[TargetResult], box: Sandbox
) -> Iterator[str]:
    """One line for each thing that did not get from the control directory into the receivers' tables."""
    yield from swept.complaints
    shipped = set(job_ids())
    yield from _lacking("the database", shipped, {aar.job_id for aar in records})
    for outcome in outcomes:
        if outcome.error is not None:
            yield f"{outcome.target}: {outcome.error}"
        if outcome.summary.quarantined:
            yield f"{outcome.target}: {count_of(outcome.summary.quarantined, 'record')} quarantined"
    yield from _lacking("SGAS", shipped, {row.global_job_id for row in box.sgas.records.values()})
    if box.sgas.ignored_repeats != len(shipped):
        yield f"SGAS: {count_of(len(shipped), 'repeated record')} expected, {box.sgas.ignored_repeats} arrived"
    for rejection in (*box.apel.rejected, *([box.apel.stopped] if box.apel.stopped else [])):
        yield f"APEL rejected {rejection.file}: {rejection.reason}"
    usage = {
        "jobs": len(records),
        "wall seconds": sum(aar.wall_s for aar in records),
        "CPU seconds": sum(aar.cpu_s for aar in records),
    }
    totals, counts = box.apel.totals(), box.apel.sync_records.values()
    for site in (RECORDS_SITE, SUMMARIES_SITE):
        months = [month for (name, _, _), month in totals.items() if name == site]
        shown = (
            sum(month.jobs for month in months),
            sum(month.wall_s for month in months),
            sum(month.cpu_s for month in months),
        )
        for (what, wanted), found in zip(usage.items(), shown, strict=True):
            if found != wanted:
                yield f"APEL, portal of {site}: {found} {what}, not {wanted}"
        synced = sum(int_of(row, "NumberOfJobs") for row in counts if row["Site"] == site)
        if synced != len(records):
            yield f"APEL, sync of {site}: {count_of(synced, 'job')}, not {len(records)}"


def _lacking(where: str, wanted: set[str], found: set[str | None]) -> Iterator[str]:
    yield from (f"{where} lacks job {job_id}" for job_id in sorted(wanted.difference(found)))


# ``arcacct sandbox``: receivers on this machine, by hand.


@click.command(epilog=examples("arcacct sandbox --dir /tmp/receivers"))
@click.option("--dir", "directory", required=True, metavar="DIR", help="Keep certificates and received documents here.")
@in_order(
    *(
        click.option(
            f"--{receiver.endpoint}-port",
            type=click.IntRange(0, 65535),
            default=0,
            metavar="PORT",
            help=f"Port of {receiver.title}{'; default: a free one' if receiver is RECEIVERS[0] else ''}.",
        )
        for receiver in RECEIVERS
    )
)
def sandbox(directory: str, **ports: int) -> None:
    """
    Run receivers on this machine, to rehearse publishing.

    SGAS, and APEL behind the ARGO Messaging Service, on the loopback address, until Ctrl-C or SIGTERM. Prints the
    blocks for a test arcacct.conf ($ARCACCT_CONFIG names it), with a separate ledger: the site's ledger is neither read
    nor written. Received documents are in DIR/received. At the end, and at each SIGUSR1, prints what the portals would
    show.
    """
    wanted = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}
    # Blocked before any thread starts, so that every thread leaves them to the wait below.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    try:
        with Sandbox(directory, **ports) as running:
            block(f"[arcacct]\nrehearsal = {running.directory}/ledger\n\n{running.configuration()}")
            print_line(running.addresses, err=True)
            print_line(f"Received documents: {running.received}. Stop with Ctrl-C.", err=True)
            goes_on = True
            while goes_on:
                goes_on = signal.sigwait(wanted) == signal.SIGUSR1
                for line in running.totals():
                    print_line(line, err=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# `arcacct demo`: everything on one machine, in a few seconds.


KINDS = {"ur": "usage records", "car": "job records", "summaries": "summaries"}
"""Names of the records of a message; the sync message is separate."""
PLACES = {
    "accounting.db": "the records, in A-REX's tables (SQLite)",
    "publishing.db": "the ledger: every message, its records, its answer",
    "received/": "the {documents} documents that SGAS and APEL got, and index.jsonl with the answers",
    "control/": "the jobs' files, as A-REX keeps them",
    "arc.conf": "the configuration of the computing element",
    "arcacct.conf": "the targets, and the path of the databases",
}
QUERY = "SELECT Users.Name, count(*), sum(UsedWalltime) FROM AAR JOIN Users ON Users.ID = UserID GROUP BY 1"


@click.command(epilog=examples("arcacct demo", "arcacct demo /tmp/demo"))
@click.argument("directory", metavar="[DIR]", default="arcacct-demo")
def demo(directory: str) -> None:
    """
    Record and publish a small, real control directory.

    Creates the files of twelve jobs of an ARC computing element in DIR (arcacct-demo), a new directory, records them,
    runs receivers that answer like SGAS and APEL, publishes to them, and publishes the same day again. Nothing leaves
    this machine. Exits with 0 only if every record was recorded, sent and accepted, else with 70 and a list of what is
    missing.
    """
    done = rehearse(directory)
    print_line(f"Twelve jobs of an ARC computing element, their times moved to yesterday, {done.day}.")
    print_line()
    jobs = count_of(len(dict(done.reported)), "job")
    print_line(f"Recorded      {jobs} by callouts, in {count_of(len(done.reported), 'event')}")
    print_line(f"              {count_of(done.swept.recorded, 'job')} without any callout, by sweep")
    _tell("Published", done.published)
    _tell("Republished", done.republished)
    print_line()
    if done.missing:
        raise ArcacctError(f"{done.directory}: not everything arrived:", *(f"  {line}" for line in done.missing))
    print_line(
        f"All {len(done.records)} jobs were recorded, sent and accepted. Nothing counts twice: of the repeated records,"
    )
    print_line(f"SGAS ignored all {done.ignored_repeats} records, and APEL replaced what it had.")
    print_line()
    print_line(f"Where to look, in {done.directory}:")
    width = max(map(len, PLACES))
    for name, what in PLACES.items():
        print_line(f"  {name:<{width}}  {what.format(documents=done.documents)}")
    print_line()
    print_line("What to try next:")
    # The command that calls this program again from the same directory.
    program = shlex.quote(sys.argv[0])
    if os.path.basename(sys.argv[0]) != "arcacct" or shutil.which("arcacct") == os.path.abspath(sys.argv[0]):
        program = "arcacct"
    conf = shlex.quote(os.path.join(done.directory, "arc.conf"))
    print_line(f"  {program} --config {conf} config show")
    print_line(f"  {program} --config {conf} publish --now --dry-run")
    database = os.path.join(done.directory, "accounting.db")
    if shutil.which("sqlite3"):
        print_line(f'  sqlite3 {shlex.quote(database)} "{QUERY}"')
        return
    # The sqlite3 program may be missing, but Python exists.
    rows = f"sqlite3.connect({json.dumps(database)}).execute({json.dumps(QUERY)})"
    print_line(f"  python3 -c {shlex.quote(f'import sqlite3; [print(*row) for row in {rows}]')}")


def _tell(verb: str, outcomes: Sequence[TargetResult]) -> None:
    width = max((len(outcome.target) for outcome in outcomes), default=0)
    for outcome in outcomes:
        sent = outcome.summary.sent
        parts = [f"{sent[kind].records} {name}" for kind, name in KINDS.items() if kind in sent]
        if "sync" in sent:
            parts.append("the sync message")
        print_line(f"{verb:<12}  {outcome.target:<{width}}  {' and '.join(parts) or 'nothing'}")
        verb = ""
