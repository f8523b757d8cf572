"""
One suite for every kind of target: whatever its receiver answers, the ledger is right after it, the others went on,
and a later good run delivers exactly what was missing.
"""

from __future__ import annotations

import pathlib
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from publishing_site import CARS, DAY_S, JUNE, QUICK, SGAS, SUMMARIES, Job, Site, at_apel, at_sgas, jobs, truth

from arcacct.conf.parser import load
from arcacct.conf.settings import settings
from arcacct.errors import ArcacctError, CredentialError, InputError, TargetBusy, TargetError, TargetRefuses
from arcacct.publish.answers import Answer, Kind
from arcacct.publish.run import Outcome
from arcacct.publish.senders import DirectorySender
from arcacct.publish.signing import Signer
from arcacct.sandbox import Sandbox, apel
from arcacct.sandbox.sgas import PROCESSING_FAILED, UNAVAILABLE
from arcacct.store import story
from arcacct.store.accounting import open_publishing

HTTP = ("sgas", "cars", "jobs", "summaries")
ONE_OF_EACH = ("sgas", "cars", "summaries")
BATCH = 4
SLOW_S = 0.3
USERS = 3
"""So many sums the jobs of the suite make; a batch of sums holds two."""
_OTHER = "[arcacct/directory:other]\npath={path}/other\ngocdb_name=OTHER\napel_messages=individual\n"
TARGETS = {
    "sgas": f"{SGAS}urbatchsize={BATCH}\n",
    "cars": f"{CARS}urbatchsize={BATCH}\n",
    "jobs": f"{CARS.replace('=urs', '=individual')}urbatchsize={BATCH}\n",
    "summaries": f"{SUMMARIES}urbatchsize=2\n",
    "dirq": f"[arcacct/directory:d]\npath={{path}}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"
    f"urbatchsize={BATCH}\n",
}
TARGETS["directory"] = f"{TARGETS['dirq']}layout=directory\n"


def some(count: int, first: int = 0) -> list[Job]:
    """Jobs of a few users."""
    return [
        job._replace(user_dn=f"/DC=org/CN=User {number % USERS}", wall_s=100 + number)
        for number, job in enumerate(jobs(count, first), first)
    ]


class Rig:
    """A target of one kind with its receiver, and a second target that nothing is ever wrong with."""

    def __init__(self, kind: str, path: pathlib.Path, box: Sandbox) -> None:
        self.kind = kind
        self.box = box
        self.endpoint = "sgas" if kind == "sgas" else "ams"
        (path / "outgoing").mkdir()
        (path / "other").mkdir()
        self.path = path
        self.site = Site(path, box, TARGETS[kind] + _OTHER)
        self.jobs: list[Job] = []

    def record(self, count: int) -> None:
        """More jobs."""
        new = some(count, len(self.jobs))
        self.jobs += new
        self.site.record(*new)

    def publish(self, **wishes: Any) -> Outcome:
        """A run of both targets; the other one must have gone on."""
        first, other = self.site.publish_all(**wishes)
        assert other.error is None
        assert at_apel(written(self.path / "other")) == truth(self.jobs, by_lrms=True)
        return first

    def received(self) -> dict[Any, Any]:
        """What the receiver has, to be compared with `wanted`."""
        if self.kind == "sgas":
            return at_sgas(self.box.sgas.records)
        if self.kind == "summaries":
            sums = self.box.apel.summaries.values()
            return {row["GlobalUserName"]: (row["NumberOfJobs"], row["WallDuration"]) for row in sums}
        if self.kind in {"dirq", "directory"}:
            return at_apel(written(self.path / "outgoing"))
        return at_apel(self.box.apel.job_records)

    def wanted(self, found: list[Job]) -> dict[Any, Any]:
        """What the receiver ought to have of some jobs."""
        if self.kind != "summaries":
            return truth(found, by_lrms=self.kind != "sgas")
        sums: dict[str, tuple[int, int]] = {}
        for job in found:
            number, wall_s = sums.get(job.user_dn, (0, 0))
            sums[job.user_dn] = (number + 1, wall_s + job.wall_s)
        return sums

    def assert_all_is_delivered(self) -> None:
        """The receiver has all of the database, the ledger knows it, and nothing waits."""
        assert self.received() == self.wanted(self.jobs)
        assert self.box.apel.rejected == []
        block = "arcacct/directory:d" if self.kind in {"dirq", "directory"} else self.site.settings.targets[0].block
        assert self.site.ledger("SELECT State FROM Messages WHERE Target = ? AND State = 'sending'", block) == []
        assert self.site.ledger("SELECT * FROM HeldRecords WHERE Target = ?", block) == []
        (highest,) = self.site.database("SELECT max(Seq) FROM FinishedLog")[0]
        assert self.site.ledger("SELECT LastSeq, LastError FROM Targets WHERE Target = ?", block) == [(highest, None)]
        last = self.site.ledger("SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", block)
        assert last == [(max(job.end_time for job in self.jobs),)]
        accepted = {
            job
            for (job,) in self.site.ledger(
                "SELECT JobID FROM MessageRecords JOIN Messages USING (MessageID) WHERE Target = ?"
                " AND State = 'accepted'",
                block,
            )
        }
        assert accepted == (set() if self.kind == "summaries" else {job.job_id for job in self.jobs})


def written(folder: pathlib.Path) -> dict[Any, Any]:
    """APEL's table of jobs after it took every message of an outgoing directory, in the order of their names."""
    table = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        for record in apel.read(file.read_text("ascii").strip()):
            if record.table == "job_records":
                table[apel.key(record)] = record.values
    return table


@pytest.fixture(params=[*HTTP, "dirq", "directory"])
def rig(request, memory, empty_box):
    """A target of every kind in turn."""
    return Rig(request.param, memory, empty_box)


only = pytest.mark.parametrize


def test_nothing_is_due(rig) -> None:
    """Without a new record no record is sent, and a target that published is left alone until its time."""
    rig.record(1)
    assert rig.publish().error is None
    before = rig.site.ledger("SELECT count(*) FROM MessageRecords")

    assert rig.publish().error is None
    assert rig.site.ledger("SELECT count(*) FROM MessageRecords") == before
    outcomes = rig.site.publish_all(now=False)
    assert outcomes[1].skipped is not None
    if rig.kind != "sgas":
        assert outcomes[0].skipped is not None
    rig.assert_all_is_delivered()


def test_no_record_at_all(rig) -> None:
    """A site without jobs publishes nothing, without an error."""
    assert rig.publish().tally.sent == {}
    assert rig.received() == {}


@only("count", [1, BATCH, BATCH + 1, 5 * BATCH + 3], ids=["one", "a-batch", "a-batch-and-one", "many-batches"])
def test_records_arrive_once(rig, count) -> None:
    """Any number of records arrives, in batches that are full but for the last, over one connection."""
    rig.record(count)

    outcome = rig.publish()

    assert outcome.error is None
    rig.assert_all_is_delivered()
    if rig.kind != "summaries":
        (job_messages,) = [sent for kind, sent in outcome.tally.sent.items() if kind != "sync"]
        assert (job_messages.messages, job_messages.records) == (-(-count // BATCH), count)
    if rig.kind in HTTP:
        assert rig.box.servers[rig.endpoint].connections == 1
        assert rig.box.servers["authn"].requests == (rig.kind != "sgas")
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
    _reconfigure(rig, config)


def _slow(rig: Rig, *, after_work: bool) -> None:
    rig.site.patience = QUICK._replace(read_s=0.1)
    rig.box.faults.slow(rig.endpoint, SLOW_S, after_work=after_work, times=None)


def _reconfigure(rig: Rig, config: str) -> None:
    (rig.path / "arc.conf").write_text(config)
    rig.site.settings = settings(load(str(rig.path / "arc.conf"), {}))


def repair(rig: Rig) -> None:
    """The receiver is what it should be again, and so is our configuration."""
    rig.box.faults.clear()
    if rig.site.patience != QUICK:
        time.sleep(SLOW_S)  # what the receiver still works on would overwrite what is newer
    rig.site.patience = QUICK
    if hasattr(rig, "good_config"):
        _reconfigure(rig, rig.good_config)


FAULTS = [
    Fault("401", answers(401, '{"error":{"message":"Unauthorized"}}'), {"sgas": TargetRefuses, "*": CredentialError}),
    Fault("403", answers(403, "No insert rights."), {"*": TargetRefuses}),
    Fault("404", answers(404, "<html>No Such Resource</html>"), {"*": TargetRefuses}),
    Fault("406", answers(406, "Subject x is not allowed to perform insertion"), {"*": TargetRefuses}),
    # After one record or two nobody can tell whether the record or the server is at fault.
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
    assert rig.publish().tally.resent == 0


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


@only("rig", ONE_OF_EACH, indirect=True)
@only("fault", ONCE, ids=[fault.name for fault in ONCE])
def test_a_fault_that_passes(rig, fault) -> None:
    """What passes by itself is overcome within the run."""
    rig.record(2 * BATCH + 1)
    fault.begin(rig)

    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    assert (rig.box.sgas.ignored_repeats > 0) == (fault.lost_answers and rig.kind == "sgas")


@only("rig", ["cars", "summaries"], indirect=True)
def test_a_refused_token_is_fetched_anew(rig) -> None:
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
    assert rig.publish().tally.resent == 1
    rig.assert_all_is_delivered()


BAD = "4job00005"
ONE_REFUSED = {
    "500-text": lambda rig: rig.box.faults.answer("sgas", 500, "smallint out of range", containing=BAD, times=None),
    "500-html": lambda rig: rig.box.faults.answer("sgas", 500, PROCESSING_FAILED, containing=BAD, times=None),
    "413": lambda rig: rig.box.faults.answer(rig.endpoint, 413, "too large", containing=BAD, times=None),
    "400": lambda rig: rig.box.faults.answer(
        "ams", 400, '{"error":{"message":"Invalid Message Arguments"}}', containing=BAD, times=None
    ),
}


@only(
    ("rig", "fault"),
    [("sgas", "500-text"), ("sgas", "500-html"), ("sgas", "413"), ("jobs", "413"), ("jobs", "400"), ("cars", "400")],
    indirect=["rig"],
)
@only("count", [6, 7, 3 * BATCH], ids=["the-last", "the-last-but-one", "in-the-middle"])
def test_one_record_is_refused(rig, fault, count) -> None:
    """A record that the receiver refuses is set aside alone with its words; an operator's retry delivers it."""
    rig.record(count)
    ONE_REFUSED[fault](rig)

    outcome = rig.publish()

    assert outcome.error is None
    assert outcome.tally.quarantined == 1
    rest = [job for job in rig.jobs if job.lrms_id != BAD]
    assert rig.received() == rig.wanted(rest)
    ((job_id, (state, why)),) = rig.site.held().items()
    assert (job_id, state) == ("job00005", "quarantined")
    assert any(words in why for words in ("smallint", "Processing Failed", "too large", "Invalid Message"))
    ((last,),) = rig.site.ledger(
        "SELECT LastEndTime FROM AccountingTargets WHERE TargetID = ?", rig.site.settings.targets[0].block
    )
    assert last == JUNE + 4

    rig.record(BATCH)
    assert rig.publish().tally.quarantined == 0
    repair(rig)
    con = open_publishing(rig.site.settings.places)
    story.change_state(con, None, ["job00005"], "retry")
    con.close()
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


@only("rig", ["sgas"], indirect=True)
def test_a_server_that_breaks_sets_nothing_aside(rig) -> None:
    """Records refused after others were taken are not at fault: the server takes nothing at all any more."""
    rig.record(4 * BATCH)
    rig.box.faults.slow("sgas", 0.0)
    rig.box.faults.answer("sgas", 500, "could not extend file", times=None)

    assert isinstance(rig.publish().error, TargetRefuses)
    assert rig.received() == rig.wanted(rig.jobs[:BATCH])
    assert rig.site.held() == {}

    repair(rig)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


@only("rig", ["sgas"], indirect=True)
def test_many_bad_records_in_a_row_stop_nobody(rig) -> None:
    """A whole batch of poison is set aside record by record: SGAS still takes what it took before."""
    rig.record(BATCH)
    rig.publish()
    rig.record(4 * BATCH)
    for number in range(6, 15):
        rig.box.faults.answer("sgas", 500, "refused", containing=f"4job{number:05d}", times=None)

    outcome = rig.publish()

    assert outcome.error is None
    assert set(rig.site.held()) == {f"job{number:05d}" for number in range(6, 15)}
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.job_id not in rig.site.held()])


@only("rig", ["sgas"], indirect=True)
def test_the_only_new_record_is_refused(rig) -> None:
    """On a quiet site, too, it is found out in the same run whether the record or the server is at fault."""
    rig.record(1)
    rig.publish()
    rig.record(1)
    rig.box.faults.answer("sgas", 500, "smallint out of range", containing="4job00001", times=None)

    assert rig.publish().error is None
    assert [state for state, _why in rig.site.held().values()] == ["quarantined"]


@only("rig", ["sgas"], indirect=True)
def test_machines_that_are_not_ours(rig) -> None:
    """A 406 is about one machine: its records wait, those of the others go on, and all arrive once it is allowed."""
    rig.box.sgas.rights[rig.box.client.subject] = "jobinsert:machine_name=ce.example.org"
    ours = some(3 * BATCH)
    theirs = [job._replace(endpoint_url="https://ce2.other.net/arex") for job in some(3 * BATCH, 3 * BATCH)]
    mixed = [job for pair in zip(ours, theirs, strict=True) for job in pair]
    rig.jobs = mixed
    rig.site.record(*mixed)

    for _ in range(2):
        outcome = rig.publish()
        assert isinstance(outcome.error, TargetRefuses)
        assert "ce2.other.net" in str(outcome.error)
        assert rig.received() == rig.wanted(ours)
        assert {job: state for job, (state, _why) in rig.site.held().items()} == {job.job_id: "held" for job in theirs}
    asked = rig.box.servers["sgas"].requests
    rig.publish()
    assert rig.box.servers["sgas"].requests == asked + 1

    rig.box.sgas.rights[rig.box.client.subject] = "jobinsert:all"
    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    assert rig.box.sgas.ignored_repeats == 0


@only("rig", ["cars"], indirect=True)
def test_a_message_is_signed_anew_with_a_new_certificate(rig) -> None:
    """What waited while the host certificate was renewed is signed again: APEL would drop the old signature unseen."""
    rig.record(BATCH)
    rig.box.faults.answer("ams", 503, times=None)
    rig.publish()
    ((before, text),) = rig.site.ledger("SELECT EmpaID, Digest FROM Messages WHERE Kind = 'car'")
    # The authority of the old certificate is not trusted any more; one from the same name is.
    renewed = rig.box.authority.issue("ce.example.org", directory=str(rig.path), stem="new")
    config = (rig.path / "arc.conf").read_text()
    config = config.replace(rig.box.client.key_path, renewed.key_path)
    _reconfigure(rig, config.replace(rig.box.client.cert_path, renewed.cert_path))
    repair(rig)

    assert rig.publish().tally.resent == 1
    rig.assert_all_is_delivered()
    assert rig.site.ledger("SELECT EmpaID, Digest FROM Messages WHERE Kind = 'car'") == [(before, text)]
    ((data,),) = rig.site.ledger("SELECT Bytes FROM Messages WHERE Kind = 'car'")
    assert Signer(renewed.cert_path, renewed.key_path).signed(zlib.decompress(data))
    assert not Signer(rig.box.client.cert_path, rig.box.client.key_path).signed(zlib.decompress(data))


@only("rig", ["sgas", "cars"], indirect=True)
def test_messages_are_no_larger_than_the_receiver_takes(rig) -> None:
    """Without a number of records to keep to, messages are cut by their bytes."""
    rig.site.configure((TARGETS[rig.kind] + _OTHER).replace(f"urbatchsize={BATCH}", "urbatchsize=0"))
    rig.jobs = [job._replace(name="n" * 900) for job in some(900)]
    rig.site.record(*rig.jobs)

    assert rig.publish().error is None
    rig.assert_all_is_delivered()
    sizes = [size for (size,) in rig.site.ledger("SELECT ByteCount FROM Messages WHERE Kind IN ('ur', 'car')")]
    assert len(sizes) in {2, 3}
    assert all(size * 4 / 3 <= 1_000_000 if rig.kind == "cars" else size <= 1_500_000 for size in sizes)
    assert rig.box.servers[rig.endpoint].requests == len(sizes) + (rig.kind == "cars")


class Squeamish:
    """A way to a directory that cannot pack one record, as if a rule had been forgotten."""

    def __init__(self, target: Any) -> None:
        self._sender = DirectorySender(target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)

    def pack(self, text: str) -> bytes:
        if BAD in text:
            raise InputError("line 7 cannot be carried")
        return self._sender.pack(text)


@only("rig", ["dirq"], indirect=True)
def test_a_record_that_cannot_be_packed(rig) -> None:
    """What no rule foresaw and no message can carry is set aside alone, with the reason."""
    rig.record(3 * BATCH)

    outcome = rig.publish(
        make_sender=lambda target: (DirectorySender if target.name == "directory:other" else Squeamish)(target)
    )

    assert outcome.error is None
    assert rig.received() == rig.wanted([job for job in rig.jobs if job.lrms_id != BAD])
    assert rig.site.held() == {"job00005": ("quarantined", "line 7 cannot be carried")}


@only("rig", ["dirq"], indirect=True)
def test_a_fault_of_ours_stops_one_target_only(rig) -> None:
    """An error that nobody foresaw becomes the outcome of its target; the others go on, and the next run is whole."""
    rig.record(BATCH)

    def make_sender(target: Any) -> Any:
        return DirectorySender(target) if target.name == "directory:other" else 1 // 0

    outcome = rig.publish(make_sender=make_sender)
    assert "internal error: ZeroDivisionError" in str(outcome.error)
    assert rig.publish().error is None
    rig.assert_all_is_delivered()


class LostAnswers:
    """A way to a directory whose answers get lost, before or after the work."""

    def __init__(self, target: Any, *, after_work: bool) -> None:
        self._sender = DirectorySender(target)
        self._after_work = after_work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)

    def send(self, message: Any) -> Any:
        answer = self._sender.send(message) if self._after_work else None
        return Answer(Kind.TRY_LATER, text=f"lost {answer}", outcome_known=answer is None)


@only("rig", ["dirq", "directory"], indirect=True)
@only("after_work", [False, True], ids=["before", "after"])
def test_a_disk_that_loses_answers(rig, after_work) -> None:
    """A message whose fate is unknown is written again under its name: it stays one file."""
    rig.record(2 * BATCH)
    found = rig.site.settings

    def make_sender(target: Any) -> Any:
        return (
            DirectorySender(target) if target.name == "directory:other" else LostAnswers(target, after_work=after_work)
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
