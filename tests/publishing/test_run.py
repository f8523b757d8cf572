"""Targets side by side: what is wrong with one receiver is no business of the others, nor of an operator's."""

from __future__ import annotations

import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
from dripping_receiver import ANSWERS, DrippingReceiver
from installed import ARCACCT
from publishing_site import CARS, DIRECTORY, Site, at_apel, at_sgas, jobs, truth
from scripted_receiver import server_context

from arcacct.cli.main import main
from arcacct.cli.targets import exit_code
from arcacct.errors import StoreBusy, TargetBusy
from arcacct.publishing.locks import publishing_lock
from arcacct.publishing.run import publish, republish
from arcacct.publishing.target_run import Period, RunOptions
from arcacct.targets import plugins

pytestmark = pytest.mark.campaign

PATIENT_S = 60.0
"""What must not be reached: how long a test waits for what is to happen."""
SLOW = "[arex/jura/sgas:slow]\ntargeturl={slow}/sgas\n{{more}}"


@pytest.fixture
def slow(empty_box, tmp_path):
    """A receiver whose answers never end; `enough` ends them."""
    credential = empty_box.authority.issue("localhost", stem="slow", directory=str(tmp_path), rsa_key=False)
    receiver = DrippingReceiver(server_context(credential), ANSWERS["body"])
    yield receiver
    receiver.stop()


@pytest.fixture
def site_of(memory, empty_box, slow):
    """A site with three jobs whose first target is slow and whose second is good."""

    def make(more: str = "", good: str = CARS) -> Site:
        site = Site(memory, empty_box, SLOW.format(slow=slow.url).format(more=more) + good)
        site.record(*jobs(3))
        return site

    return make


def by_name(site: Site, name: str):
    return plugins(site.settings, name)


def run_as_configured(site: Site, name: str | None = None):
    """A run with the waits of the configuration."""
    return publish(site.settings, plugins(site.settings, name), RunOptions(since=1, now=True))


class Background:
    """A run that continues meanwhile."""

    def __init__(self, site: Site) -> None:
        self._result: list = []
        self._thread = threading.Thread(target=lambda: self._result.append(run_as_configured(site)))
        self._thread.start()

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def outcomes(self):
        self._thread.join(PATIENT_S)
        return self._result[0]


def publisher_of(site: Site) -> subprocess.Popen[str]:
    """A process that publishes, which Ctrl-C ends."""
    command = ["--config", str(site.path / "arc.conf"), "publish", "--now", "--since", "2024-06-01"]
    # Whatever this test inherits: a shell starts what it puts into the background deaf to SIGINT.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " from arcacct.cli.main import main; main(sys.argv[1:])"
    )
    return subprocess.Popen([sys.executable, "-c", program, *command], stderr=subprocess.PIPE, text=True)


def wait_until(there) -> None:
    until = time.monotonic() + PATIENT_S
    while not there():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_byte_now_and_then_costs_the_others_nothing(site_of, empty_box, capsys) -> None:
    """The row of the table, as an administrator sees it: the good one has everything, 75 for the bad one."""
    site = site_of(more="exchange_timeout=1\nrun_timeout=3\n")
    with pytest.raises(SystemExit) as ended:
        main(["--config", str(site.path / "arc.conf"), "publish", "--now", "--since", "2024-06-01"])
    said = capsys.readouterr()
    assert ended.value.code == 75
    assert "arcacct: sgas:slow: " in said.err
    assert "exchange_timeout" in said.err or "run_timeout" in said.err
    assert "apel:a: sent 3 car records in 1 message" in said.out
    assert at_apel(empty_box.apel.job_records) == truth(jobs(3), by_lrms=True)
    (error,) = site.ledger("SELECT LastError FROM Targets WHERE Target = 'arex/jura/sgas:slow'")[0]
    assert "_timeout" in error


def test_what_hangs_keeps_nobody(site_of, slow, empty_box) -> None:
    """While one receiver says its byte, all is delivered to the other, and an operator may publish to that one."""
    site = site_of(good=CARS + DIRECTORY)
    (site.path / "outgoing").mkdir()
    timer = Background(site)
    assert slow.begun.wait(PATIENT_S)
    wait_until(lambda: site.ledger("SELECT 1 FROM Targets WHERE Target LIKE '%apel:a' AND LastSuccess > 0"))
    assert at_apel(empty_box.apel.job_records) == truth(jobs(3), by_lrms=True)

    site.record(*jobs(2, 3))
    (manual,) = run_as_configured(site, "apel:a")
    assert manual.error is None
    assert at_apel(empty_box.apel.job_records) == truth(jobs(5), by_lrms=True)
    (again,) = republish(site.settings, by_name(site, "apel:a"), Period(1, 2_000_000_000))
    assert again.summary.sent["car"].records == 5

    (refused,) = run_as_configured(site, "slow")
    assert isinstance(refused.error, StoreBusy)
    assert "another arcacct is publishing to sgas:slow" in str(refused.error)
    assert exit_code([refused]) == 75
    everyone = run_as_configured(site)
    assert [one.target for one in everyone] == ["sgas:slow", "apel:a", "directory:d"]
    assert [type(one.error) for one in everyone] == [StoreBusy, type(None), type(None)]
    with (
        pytest.raises(StoreBusy, match="another arcacct is publishing"),
        publishing_lock(site.settings.places.publishing_lock),
    ):
        pass
    assert timer.goes_on

    slow.drips = 0
    slow.enough.set()
    first, *others = timer.outcomes()
    assert (first.target, type(first.error)) == ("sgas:slow", TargetBusy)
    assert [(one.target, one.error) for one in others] == [("apel:a", None), ("directory:d", None)]
    with publishing_lock(site.settings.places.publishing_lock):
        pass


def test_a_receiver_hears_one_at_a_time(site_of, slow, empty_box) -> None:
    """Whatever a target is called: of two messages with one key the later one must come later."""
    site = site_of()
    timer = Background(site)
    assert slow.begun.wait(PATIENT_S)
    (site.path / "arcacct.conf").write_text(f"[arex/jura/sgas:other]\ntargeturl={slow.url}/sgas/\n")
    other = Site.__new__(Site)
    other.__dict__ |= site.__dict__
    other.configure(f"[arex/jura/sgas:other]\ntargeturl={slow.url}/sgas/\n")
    (refused,) = run_as_configured(other)
    assert isinstance(refused.error, StoreBusy)
    assert "to the same receiver" in str(refused.error)
    slow.enough.set()
    timer.outcomes()


def test_two_targets_of_one_receiver_take_turns(memory, empty_box) -> None:
    """They do not lock each other out."""
    half = "[arex/jura/sgas:{name}]\ntargeturl={{sgas}}\nvofilter={name}\n"
    site = Site(memory, empty_box, half.format(name="atlas") + half.format(name="cms"))
    recorded = [*jobs(2), *jobs(2, 2, vo="cms")]
    site.record(*recorded)
    assert [one.error for one in site.publish_all()] == [None, None]
    assert at_sgas(empty_box.sgas.records) == truth(recorded)


@pytest.mark.parametrize("fault", [RuntimeError, MemoryError, SystemExit])
def test_a_fault_of_ours_is_one_targets_outcome(memory, empty_box, fault) -> None:
    """An error that no one thought of ends one run: the others go on, and the exit code says 70."""
    site = Site(memory, empty_box, f"[arex/jura/sgas:bad]\ntargeturl={{sgas}}\n{CARS}")
    site.record(*jobs(3))

    def announce(target: str, _note: str) -> None:
        if target == "sgas:bad":
            raise fault("unthinkable")

    bad, good = site.publish_all(announce=announce)
    assert (bad.target, bad.error.exit_code) == ("sgas:bad", 70)
    assert "unthinkable" in str(bad.error)
    assert good.error is None
    assert exit_code([bad, good]) == 70
    assert at_apel(empty_box.apel.job_records) == truth(jobs(3), by_lrms=True)


def test_an_interrupt_does_not_wait_for_a_receiver(site_of, slow, empty_box) -> None:
    """Ctrl-C ends a run long before a receiver that says nothing would, and the next one continues."""
    site = site_of(more="exchange_timeout=3600\n")
    with publisher_of(site) as publisher:
        assert slow.begun.wait(PATIENT_S)
        wait_until(lambda: len(empty_box.apel.job_records) == 3)
        publisher.send_signal(signal.SIGINT)
        _out, said = publisher.communicate(timeout=PATIENT_S)
    assert publisher.returncode == 130
    assert said.endswith("arcacct: stopped\n")
    assert "Traceback" not in said
    site.configure("[arex/jura/sgas:slow]\ntargeturl={sgas}\n" + CARS)
    assert [one.error for one in site.publish_all()] == [None, None]
    assert at_sgas(empty_box.sgas.records) == truth(jobs(3))
    assert at_apel(empty_box.apel.job_records) == truth(jobs(3), by_lrms=True)


def test_an_interrupted_run_sends_nothing_more(site_of, slow) -> None:
    """What is under way may end; no other try and no other message starts."""
    site = site_of(more="exchange_timeout=1\n")

    def interrupt() -> None:
        slow.begun.wait(PATIENT_S)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            run_as_configured(site, "slow")
    finally:
        signal.signal(signal.SIGINT, before)
    assert slow.connections == 1


def test_nobody_takes_a_database_away_from_the_lanes(site_of, slow, empty_box) -> None:
    """
    Seen: three publishes at once, and the ledger was damaged.

    SQLite takes the WAL away when it thinks that no one else has the database open. Its locks tell, and they end when
    a process that has it open closes any descriptor of it.
    """
    site = site_of(more="exchange_timeout=3600\n")
    here = site.settings.places
    look = "import sqlite3, sys; con = sqlite3.connect(sys.argv[1]); con.execute('SELECT * FROM DBConfig'); con.close()"
    with publisher_of(site) as publisher:
        assert slow.begun.wait(PATIENT_S)
        wait_until(lambda: len(empty_box.apel.job_records) == 3)
        databases = (here.database, here.publishing_database)
        for database in databases:
            subprocess.run([sys.executable, "-c", look, database], check=True)
        still_there = [database for database in databases if os.path.exists(f"{database}-wal")]
        publisher.send_signal(signal.SIGINT)
        publisher.communicate(timeout=PATIENT_S)
    assert still_there == [*databases]


FEW_THREADS = """
import resource, sys, threading
from arcacct.cli.main import main

resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
threading.stack_size(int(sys.argv[1]) << 30)
main(sys.argv[2:])
"""


@pytest.mark.parametrize(("stack_gib", "code"), [(1, 0), (2, 75)])
def test_a_host_that_lets_few_threads_begin(memory, empty_box, stack_gib, code) -> None:
    """What has no thread yet waits for one; where not even one can begin, the next run does it."""
    site = Site(memory, empty_box, f"[arex/jura/sgas:s]\ntargeturl={{sgas}}\nurbatchsize=1\n{CARS}{DIRECTORY}")
    (site.path / "outgoing").mkdir()
    site.record(*jobs(3))
    command = ["--config", str(site.path / "arc.conf"), "publish", "--now", "--since", "2024-06-01"]
    program = [sys.executable, "-c", FEW_THREADS, str(stack_gib), *command]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert (code == 0) != ("cannot start a thread" in done.stderr)
    expected = jobs(3) if code == 0 else []
    assert at_sgas(empty_box.sgas.records) == truth(expected)
    assert at_apel(empty_box.apel.job_records) == truth(expected, by_lrms=True)
    assert bool(list((site.path / "outgoing").iterdir())) == (code == 0)


def test_notes_that_no_one_can_hear_keep_nothing_from_being_sent(memory, empty_box) -> None:
    """The log's disk is full: that is no reason not to publish."""
    site = Site(memory, empty_box, f"[arex/jura/sgas:s]\ntargeturl={{sgas}}\n{CARS}")
    site.record(*jobs(3))
    with pathlib.Path("/dev/full").open("w") as full:
        command = [ARCACCT, "--config", site.path / "arc.conf", "publish", "--now", "--since", "2024-06-01"]
        subprocess.run(command, stderr=full, check=False)
    assert at_sgas(empty_box.sgas.records) == truth(jobs(3))
    assert at_apel(empty_box.apel.job_records) == truth(jobs(3), by_lrms=True)


def test_locks_are_files_for_their_owner_whatever_targets_are_called(memory, empty_box) -> None:
    """A name is no path, and two names are two locks."""
    names = ["../../x", "a b", "a_b", "ü" * 300]
    site = Site(memory, empty_box, "".join(f"[arex/jura/sgas:{name}]\ntargeturl={{sgas}}\n" for name in names))
    assert [one.error for one in site.publish_all()] == [None] * len(names)
    folder = pathlib.Path(f"{site.settings.places.publishing_lock}s")
    found = [path for path in folder.iterdir() if "arex_jura" in path.name]
    assert len(found) == len(names)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(os.lstat(path).st_mode) for path in folder.iterdir()} == {0o600}
