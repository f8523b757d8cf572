"""`arcacct publish`, killed at two hundred moments."""

from __future__ import annotations

import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest
from publishing_site import CARS, SGAS, Site, at_apel, at_sgas, jobs, truth

from arcacct.sandbox import Sandbox

pytestmark = pytest.mark.campaign

KILLS = 200
RECORDS = 5000
BATCH = 4
HELPER = pathlib.Path(__file__).parent.parent / "support" / "forking_publisher.py"


def test_killed_two_hundred_times(memory, empty_box) -> None:
    """Nothing is lost, nothing is there twice, and each kill costs at most one message sent again."""
    batches = f"urbatchsize={BATCH}\n"
    site = Site(memory, empty_box, f"{SGAS}{batches}{CARS.replace('=urs', '=individual')}{batches}")
    recorded = jobs(RECORDS)
    site.record(*recorded)
    chance = random.Random(20261120)

    command = [
        sys.executable,
        str(HELPER),
        "--config",
        str(memory / "arc.conf"),
        "publish",
        "--now",
        "--since",
        "2024-06-01",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as publisher:
        for _kill in range(KILLS):
            assert _start(publisher, _moment(empty_box, chance)) == signal.SIGKILL
        # Else the last of them hit runs that had nothing to do.
        assert len(empty_box.apel.job_records) < RECORDS
        assert _start(publisher, None) == 0
        publisher.stdin.close()

    assert at_sgas(empty_box.sgas.records) == truth(recorded)
    assert len(empty_box.sgas.records) == RECORDS
    assert at_apel(empty_box.apel.job_records) == truth(recorded, by_lrms=True)
    assert len(empty_box.apel.job_records) == RECORDS
    assert empty_box.apel.rejected == []
    # A kill finds one message under way to each of the two targets at most.
    assert _repeats(empty_box) <= 2 * KILLS
    assert empty_box.sgas.ignored_repeats <= KILLS * BATCH
    assert site.held() == {}
    accepted = site.ledger(
        "SELECT Target, count(*), count(DISTINCT JobID) FROM SentRecords JOIN Messages USING (MessageID)"
        " WHERE State = 'accepted' GROUP BY Target"
    )
    assert accepted == [("arex/jura/apel:a", RECORDS, RECORDS), ("arex/jura/sgas:s", RECORDS, RECORDS)]
    assert site.ledger("SELECT count(*) FROM Messages WHERE State <> 'accepted'") == [(0,)]


def _moment(box: Sandbox, chance: random.Random) -> Callable[[], None]:
    """Wait for a moment: now and then while the run starts, else between, before and after its messages."""

    def asked() -> int:
        return sum(server.requests for server in box.servers.values())

    until, give_up = asked() + chance.choice([0, *range(1, 13)]), time.monotonic() + 5.0
    rest_s = chance.uniform(0.0, 0.1 if until == asked() else 0.01)

    def wait() -> None:
        while asked() < until and time.monotonic() < give_up:
            time.sleep(0.0005)
        time.sleep(rest_s)

    return wait


def _start(publisher: subprocess.Popen[str], wait: Callable[[], None] | None) -> int:
    """Start a run and kill it at a moment; how it ended: a signal's number, or the exit code."""
    assert publisher.stdin is not None
    assert publisher.stdout is not None
    publisher.stdin.write("go\n")
    child = int(publisher.stdout.readline())
    if wait is not None:
        wait()
        os.kill(child, signal.SIGKILL)
    publisher.stdin.write("ended?\n")
    status = int(publisher.stdout.readline())
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def _repeats(box: Sandbox) -> int:
    """How many documents and messages came again, byte for byte."""
    texts = Counter(accepted.text for accepted in box.apel.received if "sync" not in accepted.text[:20])
    documents = Counter(
        hashlib.sha256(file.read_bytes()).digest() for file in pathlib.Path(box.received, "sgas").iterdir()
    )
    return (texts.total() - len(texts)) + (documents.total() - len(documents))
