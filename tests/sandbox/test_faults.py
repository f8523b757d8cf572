from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
import time

import pytest
from sandbox_clients import Connection, publication, sign, sync_message, usage_record, usage_records

from arcacct.sandbox import sgas

PUBLISH = "/v1/projects/accounting/topics/gLite-APEL:publish"
RECORD = "ur-ce.example.org-job1"


def index(sandbox) -> list[dict]:
    """The lines of the journal."""
    with open(os.path.join(sandbox.received, "index.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def post(connection: Connection, *jobs: str):
    """Send usage records of these jobs."""
    return connection.ask("POST", "/sgas/ur", usage_records(*(usage_record(job) for job in jobs)))


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (503, sgas.UNAVAILABLE, {}),
        (429, "slow down", {"Retry-After": "7"}),
        (500, sgas.PROCESSING_FAILED, {}),
        (413, "<html>413</html>", {}),
        (502, "", {}),
    ],
)
def test_an_answer_on_order(sandbox, status, body, headers):
    """The next request gets the ordered answer and is not worked on; the one after it is served."""
    sandbox.faults.answer("sgas", status, body, headers=headers)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        answer = post(connection, "job1")
        assert (answer.status, answer.text) == (status, body)
        assert headers.items() <= {"Retry-After": answer.headers.get("retry-after")}.items()
        assert sandbox.sgas.records == {}
        assert post(connection, "job1").status == 200
    assert [line["answer"] for line in index(sandbox)] == [status, 200]
    assert sandbox.faults.pending("sgas") == 0


def test_an_answer_for_several_requests(sandbox):
    """A fault is met as many times as it was ordered for, or until it is cleared."""
    sandbox.faults.answer("sgas", 503, times=2)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        assert [post(connection, "job1").status for _ in range(3)] == [503, 503, 200]
        sandbox.faults.answer("sgas", 503, times=None)
        assert [post(connection, "job1").status for _ in range(3)] == [503] * 3
        sandbox.faults.clear()
        assert post(connection, "job1").status == 200


def test_a_poisonous_record(sandbox):
    """A fault can follow a record: every document with it is refused, others are not."""
    sandbox.faults.answer("sgas", 500, "smallint out of range", containing=f'"{RECORD}"', times=None)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        answers = [post(connection, *jobs).status for jobs in (("job1", "job2"), ("job2",), ("job1",), ("job3",))]
    assert answers == [500, 200, 500, 200]
    assert set(sandbox.sgas.records) == {"ur-ce.example.org-job2", "ur-ce.example.org-job3"}


def test_null_after_the_work(sandbox):
    """The server that lost its result: 200 `null`, and the records are there."""
    sandbox.faults.answer("sgas", 200, sgas.NULL, after_work=True)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        assert post(connection, "job1").text == "null"
        assert list(sandbox.sgas.records) == [RECORD]
        assert post(connection, "job1").json == {RECORD: "1"}


@pytest.mark.parametrize("after_work", [False, True], ids=["before the work", "after the work"])
def test_a_lost_connection(sandbox, after_work):
    """The connection closes without an answer; the records are there only if the work was done."""
    sandbox.faults.drop("sgas", after_work=after_work)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        with pytest.raises((http.client.RemoteDisconnected, OSError)):
            post(connection, "job1")
        assert bool(sandbox.sgas.records) is after_work
    (line,) = index(sandbox)
    assert line["answer"] is None
    assert line["file"] == ("sgas/0001.xml" if after_work else None)


def test_a_balancer_without_patience(sandbox):
    """504 after the message was stored: the sender's repeat is there twice, and loaded once."""
    sandbox.faults.answer("ams", 504, "<html>Gateway Timeout</html>", after_work=True, path=":publish")
    body = publication(sign(sandbox.client, sync_message().encode()))
    with Connection(sandbox, "ams") as connection:
        answers = [connection.ask("POST", PUBLISH, body, x_api_key=sandbox.token).status for _ in range(2)]
    assert answers == [504, 200]
    assert len(sandbox.ams.messages("accounting", "gLite-APEL")) == 2
    assert len(sandbox.apel.sync_records) == 1


def test_faults_look_into_signed_messages(sandbox):
    """`containing` sees through base64, and `path` keeps a fault to one kind of request."""
    sandbox.faults.answer("ams", 500, containing="Site: BAD", path=":publish", times=None)
    with Connection(sandbox, "ams") as connection:
        answers = [
            connection.ask(
                "POST",
                PUBLISH,
                publication(sign(sandbox.client, sync_message(Site=site).encode())),
                x_api_key=sandbox.token,
            ).status
            for site in ("BAD", "GOOD")
        ]
        assert connection.ask("GET", "/v1/status").status == 200
    assert answers == [500, 200]


def test_a_slow_answer(sandbox):
    """The answer comes late, after the work if ordered so, and is the real one."""
    sandbox.faults.slow("sgas", 0.2, after_work=True)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        begin = time.monotonic()
        assert post(connection, "job1").json == {RECORD: "1"}
        assert time.monotonic() - begin >= 0.2


def test_a_slow_answer_does_not_outlive_the_sandbox(sandbox):
    """Closing ends a wait of an hour at once."""
    sandbox.faults.slow("sgas", 3600)
    with Connection(sandbox, "sgas", sandbox.client) as connection:
        asking = threading.Thread(target=_ask_in_vain, args=(connection,))
        asking.start()
        while sandbox.faults.pending("sgas"):
            time.sleep(0.01)
        begin = time.monotonic()
        sandbox.close()
        assert time.monotonic() - begin < 60
        asking.join()


def _ask_in_vain(connection: Connection) -> None:
    with contextlib.suppress(OSError):
        post(connection, "job1")
