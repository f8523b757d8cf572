"""
One suite for every kind of target: whatever its receiver answers, the ledger is right after it, the others continued,
and a later good run delivers exactly what was missing.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from campaigns import cross
from publishing_rig import BATCH, HTTP, ONE_OF_EACH, OTHER, SLOW_S, TARGETS, Rig, reconfigure, repair, some
from publishing_site import DAY_S, JUNE, QUICK

from arcacct.errors import ArcacctError, CredentialError, TargetBusy, TargetError, TargetRefuses
from arcacct.publishing.answers import Answer, Outcome
from arcacct.sandbox.sgas import PROCESSING_FAILED, UNAVAILABLE
from arcacct.targets.apel.ams import Signer
from arcacct.targets.directory.target import DirectorySender

only = pytest.mark.parametrize


def test_nothing_is_due(rig) -> None:
    """Without a new record no record is sent, and a target that published is left alone until its time."""
    rig.record(1)
    assert rig.publish().error is None
    before = rig.site.ledger("SELECT count(*) FROM SentRecords")

    assert rig.publish().error is None
    assert rig.site.ledger("SELECT count(*) FROM SentRecords") == before
    outcomes = rig.site.publish_all(now=False, since=None)
    assert outcomes[1].skipped is not None
    if rig.endpoint not in {"sgas", "auditor"}:
        assert outcomes[0].skipped is not None
    rig.assert_all_is_delivered()


def test_no_record_at_all(rig) -> None:
    """A site without jobs publishes nothing, without an error."""
    assert rig.publish().summary.sent == {}
    assert rig.received() == {}


@only(("rig", "count"), cross(7, [*HTTP, "dirq", "directory"], [1, BATCH, BATCH + 1, 5 * BATCH + 3]), indirect=["rig"])
def test_records_arrive_once(rig, count) -> None:
    """Any number of records arrives, in batches that are full but for the last, over one connection."""
    rig.record(count)

    outcome = rig.publish()

    assert outcome.error is None
    rig.assert_all_is_delivered()
    if rig.kind != "summaries":
        (job_messages,) = [sent for kind, sent in outcome.summary.sent.items() if kind != "sync"]
        assert (job_messages.messages, job_messages.records) == (-(-count // BATCH), count)
    if rig.kind in HTTP:
        assert rig.box.servers[rig.endpoint].connections == 1
        assert rig.box.servers["authn"].requests == (rig.endpoint == "ams")
    assert rig.box.sgas.ignored_repeats == 0


class Fault(NamedTuple):
    """Something that goes wrong for as long as it is not repaired."""

    name: str
    begin: Callable[[Rig], object]
    errors: dict[str, type[ArcacctError]]
    """The error of a run, by kind of target; ``*``: of all others."""
    lost_answers: bool = False
    """Whether the receiver may have what we are not told of."""


def answers(status: int, body: str = "", **more: Any) -> Callable[[Rig], object]:
    """The receiver gives this answer to everything."""
    return lambda rig: rig.box.faults.answer(rig.endpoint, status, body, times=None, **more)


def _expired(rig: Rig) -> None:
    now = int(time.time())
    old = rig.box.authority.issue(
        "ce.example.org", not_before=now - 9 * DAY_S, not_after=now - DAY_S, directory=str(rig.path), stem="old"
    )
    config = (rig.path / "arc.conf").read_text()
    rig.good_config = config
    config = config.replace(rig.box.client.key_path, old.key_path).replace(rig.box.client.cert_path, old.cert_path)
    reconfigure(rig, config)


def _slow(rig: Rig, *, after_work: bool) -> None:
    rig.site.timeouts = QUICK._replace(read_s=0.1)
    rig.box.faults.slow(rig.endpoint, SLOW_S, after_work=after_work, times=None)


FAULTS = [
    Fault(
        "401",
        answers(401, '{"error":{"message":"Unauthorized"}}'),
        {"sgas": TargetRefuses, "auditor": TargetRefuses, "*": CredentialError},
    ),
    Fault("403", answers(403, "No insert rights."), {"*": TargetRefuses}),
    Fault("404", answers(404, "<html>No Such Resource</html>"), {"*": TargetRefuses}),
    Fault("406", answers(406, "Subject x is not allowed to perform insertion"), {"*": TargetRefuses}),
    # After one record or two no one can tell whether the record or the server is at fault.
    Fault("413-for-everything", answers(413, "<html>Too Large</html>"), {"*": TargetError}),
    Fault("429", answers(429, "slow down", headers={"Retry-After": "3600"}), {"*": TargetBusy}),
    Fault("500-text", answers(500, "could not extend file: No space left"), {"sgas": TargetError, "*": TargetBusy}),
    Fault("500-html", answers(500, PROCESSING_FAILED), {"sgas": TargetError, "*": TargetBusy}),
    Fault("503", answers(503, UNAVAILABLE), {"*": TargetBusy}),
    Fault("not-our-receiver", answers(200, "<html>Welcome</html>"), {"*": TargetRefuses}),
    Fault("reset-before", lambda rig: rig.box.faults.drop(rig.endpoint, times=None), {"*": TargetBusy}),
    Fault(
        "reset-after",
        lambda rig: rig.box.faults.drop(rig.endpoint, after_work=True, times=None),
        {"*": TargetBusy},
        lost_answers=True,
    ),
    Fault("504-after", answers(504, "<html>", after_work=True), {"*": TargetBusy}, lost_answers=True),
    Fault("slow", lambda rig: _slow(rig, after_work=False), {"*": TargetBusy}, lost_answers=True),
    Fault("slow-after", lambda rig: _slow(rig, after_work=True), {"*": TargetBusy}, lost_answers=True),
    Fault("expired-certificate", _expired, {"*": CredentialError}),
]


@pytest.mark.campaign
@only("rig", ONE_OF_EACH, indirect=True)
@only("count", [1, 2 * BATCH + 1], ids=["one", "three-batches"])
@only("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_that_lasts(rig, fault, count) -> None:
    """Whatever is wrong, nothing is lost or set aside; once it is repaired the next run delivers the rest."""
    rig.record(count)
    fault.begin(rig)
    for _ in range(2):
        outcome = rig.publish()

    assert isinstance(outcome.error, fault.errors.get(rig.kind, fault.errors["*"]))
    assert [state for state, _why in rig.site.held().values() if state != "held"] == []
    if not fault.lost_answers:
        assert rig.received() == {}
    (block,) = {target.block for target in rig.site.settings.targets} - {"arcacct/directory:other"}
    ((words, success),) = rig.site.ledger("SELECT LastError, LastSuccess FROM Targets WHERE Target = ?", block)
    assert words == str(outcome.error)
    assert success is None
    ((last,),) = rig.site.ledger("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", block)
    assert last == JUNE - 1

    repair(rig)
    rig.record(1)
    outcome = rig.publish()

    assert outcome.error is None
    rig.assert_all_is_delivered()
    if not fault.lost_answers:
        assert rig.box.sgas.ignored_repeats == 0
    assert rig.publish().summary.resent == 0


ONCE = [
    Fault("503-then-200", lambda rig: rig.box.faults.answer(rig.endpoint, 503, UNAVAILABLE), {}),
    Fault("408", lambda rig: rig.box.faults.answer(rig.endpoint, 408), {}),
    Fault("429", lambda rig: rig.box.faults.answer(rig.endpoint, 429, headers={"Retry-After": "0"}), {}),
    Fault("500-text", lambda rig: rig.box.faults.answer(rig.endpoint, 500, "deadlock detected"), {}),
    Fault("500-html", lambda rig: rig.box.faults.answer(rig.endpoint, 500, PROCESSING_FAILED), {}),
    Fault("reset-before", lambda rig: rig.box.faults.drop(rig.endpoint), {}),
    Fault("reset-after", lambda rig: rig.box.faults.drop(rig.endpoint, after_work=True), {}, lost_answers=True),
    Fault("502-after", lambda rig: rig.box.faults.answer(rig.endpoint, 502, after_work=True), {}, lost_answers=True),
    Fault("413-once", lambda rig: rig.box.faults.answer(rig.endpoint, 413), {}),
]


@only(("fault", "rig"), cross(len(ONCE), ONCE, ONE_OF_EACH), indirect=["rig"])
def test_a_fault_that_passes(rig, fault) -> None:
    """What passes by itself is overcome within the run."""
    rig.record(2 * BATCH + 1)
    fault.begin(rig)

    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    assert (rig.box.sgas.ignored_repeats > 0) == (fault.lost_answers and rig.kind == "sgas")


@only("rig", ["cars", "summaries"], indirect=True)
def test_a_refused_token_is_fetched_again(rig) -> None:
    """A token that was rotated in the middle of a run costs one more question."""
    rig.record(2 * BATCH)
    rig.box.faults.answer("ams", 401, '{"error":{"message":"Unauthorized"}}')

    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    assert rig.box.servers["authn"].requests == 2


@only("rig", ["cars", "summaries"], indirect=True)
@only(
    ("status", "error"),
    [(403, CredentialError), (404, TargetRefuses), (500, TargetBusy)],
    ids=["expired", "not-mapped", "broken"],
)
def test_no_token(rig, status, error) -> None:
    """Without a token nothing is sent and nothing is lost."""
    rig.record(BATCH)
    rig.box.faults.answer("authn", status, '{"error":{"message":"Binding was not found"}}', times=None)

    assert isinstance(rig.publish().error, error)
    assert rig.received() == {}

    repair(rig)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


@only("rig", ["sgas"], indirect=True)
def test_null(rig) -> None:
    """SGAS's `null` (stored, the ids lost) is asked again until it names the records; a lasting one is no success."""
    rig.record(BATCH)
    rig.box.faults.answer("sgas", 200, "null", after_work=True)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()

    rig.record(BATCH)
    rig.box.faults.answer("sgas", 200, "null", after_work=True, times=None)
    assert isinstance(rig.publish().error, TargetBusy)
    repair(rig)
    assert rig.publish().summary.resent == 1
    rig.assert_all_is_delivered()


@only("rig", ["cars"], indirect=True)
def test_a_message_is_signed_again_with_a_new_certificate(rig) -> None:
    """What waited while the host certificate was renewed is signed again: APEL would drop the old signature unseen."""
    rig.record(BATCH)
    rig.box.faults.answer("ams", 503, times=None)
    rig.publish()
    ((before, text),) = rig.site.ledger("SELECT EmpaID, Digest FROM Messages WHERE Kind = 'car'")
    # The authority of the old certificate is not trusted any more; one from the same name is.
    renewed = rig.box.authority.issue("ce.example.org", directory=str(rig.path), stem="new")
    config = (rig.path / "arc.conf").read_text()
    config = config.replace(rig.box.client.key_path, renewed.key_path)
    reconfigure(rig, config.replace(rig.box.client.cert_path, renewed.cert_path))
    repair(rig)

    assert rig.publish().summary.resent == 1
    rig.assert_all_is_delivered()
    assert rig.site.ledger("SELECT EmpaID, Digest FROM Messages WHERE Kind = 'car'") == [(before, text)]
    ((data,),) = rig.site.ledger(
        "SELECT MessageBytes.Bytes FROM Messages JOIN MessageBytes USING (MessageID) WHERE Kind = 'car'"
    )
    assert Signer(renewed.cert_path, renewed.key_path).signed(zlib.decompress(data))
    assert not Signer(rig.box.client.cert_path, rig.box.client.key_path).signed(zlib.decompress(data))


@pytest.mark.campaign
@only("rig", ["sgas", "cars"], indirect=True)
def test_messages_are_no_larger_than_the_receiver_takes(rig) -> None:
    """Without a number of records to keep to, messages are cut by their bytes."""
    rig.site.configure((TARGETS[rig.kind] + OTHER).replace(f"urbatchsize={BATCH}", "urbatchsize=0"))
    rig.jobs = [job._replace(name="n" * 900) for job in some(900)]
    rig.site.record(*rig.jobs)

    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    sizes = [size for (size,) in rig.site.ledger("SELECT ByteCount FROM Messages WHERE Kind IN ('ur', 'car')")]
    assert len(sizes) in {2, 3}
    assert all(size * 4 / 3 <= 1_000_000 if rig.kind == "cars" else size <= 1_500_000 for size in sizes)
    # None was split: no one said that it was too large.
    assert rig.site.ledger("SELECT DISTINCT State FROM Messages") == [("accepted",)]


class LostAnswers:
    """A way to a directory whose answers get lost, before or after the work."""

    def __init__(self, plugin: Any, *, after_work: bool) -> None:
        self._sender = DirectorySender(plugin.target.path, plugin.target.layout)
        self._after_work = after_work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)

    def send(self, message: Any) -> Any:
        answer = self._sender.send(message) if self._after_work else None
        return Answer(Outcome.TRY_LATER, text=f"lost {answer}", outcome_known=answer is None)


@only("rig", ["dirq", "directory"], indirect=True)
@only("after_work", [False, True], ids=["before", "after"])
def test_a_disk_that_loses_answers(rig, after_work) -> None:
    """A message whose fate is unknown is written again under its name: it stays one file."""
    rig.record(2 * BATCH)
    found = rig.site.settings

    def make_sender(plugin: Any) -> Any:
        return (
            plugin.sender() if plugin.target.name == "directory:other" else LostAnswers(plugin, after_work=after_work)
        )

    assert len(found.targets) == 2
    assert isinstance(rig.publish(make_sender=make_sender).error, TargetBusy)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    names = [file for file in (rig.path / "outgoing").rglob("*") if file.is_file()]
    assert len(names) == 3  # two batches of jobs and the sync message


@only("rig", ["dirq", "directory"], indirect=True)
@only("broken", ["missing", "a-file"])
def test_a_directory_that_cannot_be_used(rig, broken) -> None:
    """A missing directory, or a file in its place, stops this target alone; nothing is lost."""
    rig.record(2 * BATCH)
    (rig.path / "outgoing").rmdir()
    if broken == "a-file":
        (rig.path / "outgoing").write_text("")

    assert isinstance(rig.publish().error, TargetRefuses | TargetBusy)

    (rig.path / "outgoing").unlink(missing_ok=True)
    (rig.path / "outgoing").mkdir()
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
