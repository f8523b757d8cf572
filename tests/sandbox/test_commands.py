"""`arcacct demo`: what a newcomer runs first."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from types import SimpleNamespace
from typing import NamedTuple

import manual
import pytest
from arex_corpus import AREX
from installed import run_arcacct
from sandbox_clients import Connection, usage_record, usage_records

from arcacct.cli.main import main
from arcacct.files.directories import resource
from arcacct.sandbox import Sandbox
from arcacct.sandbox.authority import Credential

JOBS = 12
EVENTS_BY_HOOK = 14
DAY_S = 86_400
SPECIAL = "Y3tLDm4iaoAoOSAtDmABFKDmABFKDmABFKDm86LKDmLBFKDmBowyIo"
"""The job with special characters in its names."""


class Demo(NamedTuple):
    """A demo that was run."""

    done: subprocess.CompletedProcess[str]
    home: pathlib.Path
    started_s: int


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Run it once, as installed, on a machine where no other program is found."""
    home = tmp_path_factory.mktemp("newcomer")
    started_s = int(time.time())
    # A newcomer may have any umask.
    umask = os.umask(0)
    try:
        done = run_arcacct("demo", cwd=home, env={"PATH": "/nonexistent"})
    finally:
        os.umask(umask)
    return Demo(done, home / "arcacct-demo", started_s)


def rows(demo: Demo, database: str, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(demo.home / database)) as con:
        return con.execute(query).fetchall()


def test_demo_succeeds(demo) -> None:
    """It ends with 0, with nothing on stderr, and says that all jobs were recorded, sent and accepted."""
    assert (demo.done.returncode, demo.done.stderr) == (0, "")
    assert f"All {JOBS} jobs were recorded, sent and accepted." in demo.done.stdout


def test_the_readme_shows_what_the_demo_says(demo) -> None:
    """Word for word, but for the day."""
    (shown,) = [
        block.text for block in manual.blocks(manual.README.read_text(encoding="utf-8")) if "Recorded" in block.text
    ]
    as_ever = [re.sub(r"\d{4}-\d\d-\d\d", "DAY", text) for text in (shown, demo.done.stdout)]

    assert as_ever[1].startswith(as_ever[0])


def test_demo_fits_a_terminal(demo) -> None:
    """But for the commands to copy, no line of the output is wider than 100 columns."""
    told = demo.done.stdout.partition("What to try next")[0]

    assert max(map(len, told.splitlines())) <= 100


def test_demo_leaves_what_it_names(demo) -> None:
    """Every file that the output tells to look at is there."""
    listed = demo.done.stdout.partition("Where to look")[2].partition("What to try next")[0]
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]

    assert {"accounting.db", "publishing.db", "arc.conf", "arcacct.conf", "received/", "control/"} == set(names)
    assert all((demo.home / name).exists() for name in names)


def test_demo_is_for_whom_ran_it_alone(demo) -> None:
    """Keys, databases, what receivers got: whatever the umask, no one else can read or change any of it."""
    modes = {
        str(path.relative_to(demo.home)): oct(path.stat().st_mode & 0o777)
        for path in (demo.home, *demo.home.rglob("*"))
        if path.stat().st_mode & 0o777 != (0o700 if path.is_dir() or path.name == "arcacct-hook" else 0o600)
    }

    assert modes == {}


def test_demo_records_every_job(demo) -> None:
    """The database has each of the shipped jobs, completed or failed, in the end they had on the computing element."""
    shipped = {line.split("\t")[1] for line in (AREX / "jobs.tsv").read_text().splitlines()}
    found = rows(demo, "accounting.db", "SELECT JobID, Status.Name FROM AAR JOIN Status ON Status.ID = StatusID")

    assert len(found) == JOBS
    assert {job_id for job_id, _ in found} <= shipped
    assert sorted(status for _, status in found) == ["completed"] * 10 + ["failed"] * 2


def test_demo_moves_the_jobs_to_yesterday(demo) -> None:
    """A target that is new starts with the jobs of today or as it is told: the jobs ended on the day before."""
    today = demo.started_s // DAY_S * DAY_S
    # Were it midnight just now, the demo may have started on the day after.
    ((first, last),) = rows(demo, "accounting.db", "SELECT min(EndTime), max(EndTime) FROM AAR")

    assert today - DAY_S <= first <= last < today + DAY_S
    assert last - first < 600


def test_demo_moves_all_times_alike(demo) -> None:
    """No job ends before it was submitted, and no file is moved before its job came or after it had ended."""
    wrong = rows(
        demo,
        "accounting.db",
        "SELECT JobID FROM AAR LEFT JOIN DataTransfers USING (RecordID) WHERE SubmitTime > EndTime"
        " OR TransferStart < SubmitTime OR TransferEnd > EndTime",
    )

    assert not wrong


def test_demo_uses_the_hook_and_the_sweep(demo) -> None:
    """Two jobs came state by state, as only the hook can see them; the rest have what is left on disk."""
    by_hook = rows(
        demo, "accounting.db", "SELECT count(*) FROM JobEvents WHERE EventKey = 'FINISHING' GROUP BY RecordID"
    )

    assert [count for (count,) in by_hook] == [2, 1]
    assert f"2 jobs by callouts, in {EVENTS_BY_HOOK} events" in demo.done.stdout
    assert f"{JOBS - 2} jobs without any callout, by sweep" in demo.done.stdout


def test_demo_keeps_the_owners_of_the_jobs(demo) -> None:
    """The jobs belong to users of the computing element, whom this machine need not know."""
    owners = rows(demo, "accounting.db", "SELECT DISTINCT InfoValue FROM JobExtraInfo WHERE InfoKey = 'localuser'")

    assert sorted(owners) == [("griduser:griduser",), ("prduser:prduser",)]


def test_every_message_was_accepted(demo) -> None:
    """The ledger has each message as accepted: 5 kinds of them published, and the same 5 of the day again.

    Targets with receivers of their own are served side by side: in which order theirs are numbered is no one's promise.
    """
    messages = rows(demo, "publishing.db", "SELECT Target, Kind, Origin, State, RecordCount FROM Messages")
    expected = [
        ("arex/jura/sgas:demo", "ur", JOBS),
        ("arex/jura/apel:records", "car", JOBS),
        ("arex/jura/apel:records", "sync", 1),
        ("arex/jura/apel:summaries", "summaries", 10),
        ("arex/jura/apel:summaries", "sync", 1),
    ]

    assert sorted(messages) == sorted(
        (target, kind, origin, "accepted", records)
        for origin in ("publish", "republish")
        for target, kind, records in expected
    )


def test_receivers_kept_every_document(demo) -> None:
    """received/ has the documents, and index.jsonl each with the answer and what became of it."""
    received = demo.home / "received"
    index = [json.loads(line) for line in (received / "index.jsonl").read_text().splitlines()]

    assert {(line["answer"], line["verdict"]) for line in index} == {(200, "stored"), (200, "loaded")}
    assert sorted(line["file"] for line in index) == sorted(
        str(path.relative_to(received))
        for path in received.glob("*/*")
        if path.suffix == ".smime" or "sgas" in str(path)
    )
    assert f"the {len(index)} documents" in demo.done.stdout


def test_names_arrive_unharmed(demo) -> None:
    """Letters that XML or ASCII cannot take as they are come to SGAS as the user wrote them."""
    document = (demo.home / "received" / "sgas" / "0001.xml").read_text(encoding="utf-8")

    assert "żółć Ω 数据 🚀" in document
    assert "a &amp; b &lt;c&gt;" in document


def test_commands_to_try_next_work(demo, tmp_path) -> None:
    """Each line under `What to try next` can be copied into a shell, from where the demo was run."""
    commands = [line.strip() for line in demo.done.stdout.partition("What to try next:\n")[2].splitlines()]

    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=demo.home.parent, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout


def test_receivers_can_be_started_again(demo) -> None:
    """arcacct.conf says with which command the receivers come back to the ports that the targets name."""
    conf = (demo.home / "arcacct.conf").read_text()
    command = next(line for line in conf.splitlines() if "arcacct sandbox" in line).lstrip("# ")
    options = dict(zip(shlex.split(command)[2::2], shlex.split(command)[3::2], strict=True))

    assert options["--dir"] == str(demo.home)
    assert f"targeturl = https://localhost:{options['--sgas-port']}/sgas" in conf
    assert (
        conf.count(f"targeturl = https://localhost:{options['--ams-port']}\nauthn_port = {options['--authn-port']}\n")
        == 2
    )


def test_demo_overwrites_nothing(demo) -> None:
    """Run again into the same directory it refuses, says what to do, and touches nothing."""
    before = {path: path.stat().st_mtime_ns for path in demo.home.rglob("*")}
    again = run_arcacct("demo", cwd=demo.home.parent)

    assert again.returncode == 64
    assert again.stdout == ""
    assert again.stderr == "arcacct: arcacct-demo: the directory is not empty; remove it, or give a new directory\n"
    assert {path: path.stat().st_mtime_ns for path in demo.home.rglob("*")} == before


@pytest.mark.parametrize(
    ("directory", "code", "message"),
    [
        pytest.param("file", 64, "arcacct: file: this is a file; give a new directory", id="a file"),
        pytest.param("file/demo", 78, "Not a directory; choose a directory that can be written", id="below a file"),
        pytest.param("/proc/demo", 78, "choose a directory that can be written", id="not writable"),
        pytest.param("a\nb", 64, "a configuration file cannot contain", id="newline"),
    ],
)
def test_unusable_directory_is_refused(tmp_path, directory, code, message) -> None:
    """One clear line and the exit code for a directory that cannot be used."""
    (tmp_path / "file").write_text("")
    done = run_arcacct("demo", directory, cwd=tmp_path)

    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_directory_of_any_name(tmp_path) -> None:
    """Blanks, quotes, comment signs and letters of any script in the path do no harm."""
    name = "it's # a%20 “tést” ; x=1"
    done = run_arcacct("demo", name, cwd=tmp_path)
    command = done.stdout.partition("What to try next:\n")[2].splitlines()[0].strip()

    assert (done.returncode, done.stderr) == (0, "")
    assert subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, check=False).returncode == 0


def sgas_refuses_one(box: Sandbox) -> None:
    box.faults.answer("sgas", 500, "", containing=SPECIAL, times=None)


def apel_knows_nobody(box: Sandbox) -> None:
    box.apel.allowed_dns = set()


def ams_is_away(box: Sandbox) -> None:
    box.faults.answer("ams", 403, "{}", times=None)


@pytest.mark.parametrize(
    ("misbehave", "missing"),
    [
        (
            sgas_refuses_one,
            [
                "sgas:demo: 1 record quarantined",
                f"SGAS lacks job {SPECIAL}",
                "12 repeated records expected, 11 arrived",
            ],
        ),
        (apel_knows_nobody, ["APEL rejected apel/0001.smime", "DEMO-RECORDS: 0 jobs, not 12"]),
        (ams_is_away, ["apel:summaries: ", "DEMO-SUMMARIES: 0 jobs, not 12", "DEMO-SUMMARIES: 0 wall seconds, not 59"]),
    ],
)
def test_what_a_receiver_lacks_is_named(tmp_path, monkeypatch, capsys, misbehave, missing) -> None:
    """When not everything is accepted the demo says what is missing and ends with 70, not with good news."""

    class Misbehaving(Sandbox):
        def __init__(self, directory: str) -> None:
            super().__init__(directory)
            misbehave(self)

    monkeypatch.setattr("arcacct.sandbox.commands.Sandbox", Misbehaving)
    with pytest.raises(SystemExit) as end:
        main(["demo", str(tmp_path / "new")])

    said = capsys.readouterr()
    assert end.value.code == 70
    assert [line for line in missing if line not in said.err] == []
    assert "accepted" not in said.out


def test_shipped_files_are_those_of_the_corpus() -> None:
    """What the demo lays out is what A-REX wrote, byte for byte."""
    shipped = pathlib.Path(resource("sandbox", "demo_data", "control"))
    files = [path.relative_to(shipped) for path in shipped.rglob("job.*")]

    assert len([path for path in files if path.suffix == ".status"]) == JOBS
    for path in files:
        assert (shipped / path).read_bytes() == (AREX / "control" / path).read_bytes()


def test_every_shipped_file_has_its_time() -> None:
    """files.tsv has a line for each file of demo_data, and no other line."""
    root = pathlib.Path(resource("sandbox", "demo_data"))
    listed = [line.split("\t")[0] for line in (root / "files.tsv").read_text().splitlines()[1:]]

    assert sorted(listed) == sorted(path.relative_to(root).as_posix() for path in root.rglob("job.*"))


COMMAND = [sys.executable, "-c", "from arcacct.cli.main import main; main()", "sandbox"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_until_a_request_to_stop(tmp_path, end):
    """The command prints the blocks for arcacct.conf, serves, and ends cleanly on Ctrl-C and SIGTERM."""
    directory = tmp_path / "here"
    with subprocess.Popen(
        [*COMMAND, "--dir", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        lines = []
        while not lines or not lines[-1].startswith("Received"):
            lines.append(running.stderr.readline())
            assert running.poll() is None, lines
        running.send_signal(end)
        out, rest = running.communicate(timeout=60)
    assert (running.returncode, rest) == (0, "")
    assert "[arex/jura/sgas:sandbox]" in out
    assert f"x509_cert_dir = {directory}/certificates" in out
    assert os.path.isdir(directory / "received")


def test_it_tells_what_the_portals_would_show(tmp_path):
    """On SIGUSR1 while it runs, and once more at its end."""
    shown = r"SGAS ce.example.org \d{4}-\d\d-\d\d: jobs 1, wall 60 s, CPU 0 s\n"
    with subprocess.Popen(
        [*COMMAND, "--dir", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        port = int(re.search(r"localhost:(\d+)/sgas", running.stderr.readline())[1])
        assert running.stderr.readline().startswith("Received")
        box = SimpleNamespace(ca_dir=str(tmp_path / "certificates"), servers={"sgas": SimpleNamespace(port=port)})
        client = Credential(str(tmp_path / "hostcert.pem"), str(tmp_path / "hostkey.pem"))
        with Connection(box, "sgas", client) as connection:
            assert connection.ask("POST", "/sgas/ur", usage_records(usage_record())).status == 200
        running.send_signal(signal.SIGUSR1)
        assert re.fullmatch(shown, running.stderr.readline())
        running.send_signal(signal.SIGTERM)
        _, rest = running.communicate(timeout=60)
    assert running.returncode == 0
    assert re.fullmatch(shown, rest)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--dir", "/proc/nowhere"], 78, "/proc/nowhere: "),
        ([], 64, "--dir"),
        (["--dir", ".", "--ams-port", "70000"], 64, "70000"),
    ],
    ids=["directory", "no directory", "port"],
)
def test_wrong_calls_are_one_line_and_a_code(tmp_path, options, code, words):
    """No traceback, a line that names what is wrong, the exit code of its kind."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port(tmp_path):
    """Somebody else's port: 75, and the port is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--dir", str(tmp_path), "--sgas-port", str(port)], capture_output=True, text=True, check=False
        )
    assert done.returncode == 75
    assert done.stderr.startswith(f"arcacct: port {port} of the loopback address:")
    assert done.stderr.count("\n") == 1
