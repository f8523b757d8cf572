"""Whatever happened at a site: what `job why --sent` calls the bytes that were sent was in that very message."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import tempfile
import zlib
from contextlib import closing

import pytest
from campaigns import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from publishing_site import JUNE, Job
from publishing_world import FAMILY, Fault, World

from arcacct.database import access
from arcacct.publishing.target_run import Period
from arcacct.queries.job_history import KEPT, MADE_AGAIN, SentTexts, messages_of
from arcacct.records import reader
from arcacct.targets import plugins

pytestmark = pytest.mark.campaign

EACH = (
    "[arex/jura/sgas:s]\ntargeturl=https://sgas.example.org/sgas\nurbatchsize=3\nsgas_corrections=replace\n"
    "[arcacct/auditor:a]\ntargeturl=https://auditor.example.org\nsite_id=ONE\nurbatchsize=3\n"
    "[arex/jura/apel:cars]\ntargeturl=https://ams.example.org\ngocdb_name=ONE\napel_messages=urs\nurbatchsize=3\n"
    "[arex/jura/apel:sums]\ntargeturl=https://ams.example.org\ngocdb_name=TWO\napel_messages=summaries\nurbatchsize=3\n"
)
PLAY = settings(
    max_examples=examples(40),
    derandomize="ARCACCT_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
NUMBERS = st.integers(0, 6)
JOBS = st.builds(
    lambda number, end, wall_s, vo, name: Job(
        f"j{number}", JUNE + end + number, wall_s, wall_s - 1, vo=vo, fqan=f"/{vo}", name=name
    ),
    NUMBERS,
    st.sampled_from([0, 1, 86_400 * 40]),
    st.integers(2, 5),
    st.sampled_from(["atlas", "cms"]),
    # One is repaired, one has the form of a time.
    st.sampled_from(["job", "a\x07b", "9999-01-01T00:00:00Z"]),
)
FAULTS = st.builds(
    Fault, message=st.integers(0, 4), how=st.sampled_from(["ok", "kill-before", "kill-after", "lost", "refused"])
)
EVENTS = st.one_of(
    st.none(),
    st.tuples(st.just("republish"), st.just(Period(JUNE, JUNE + 5)), FAULTS),
    st.tuples(st.just("delete"), NUMBERS.map("j{}".format)),
    st.tuples(st.just("backup")),
    st.tuples(st.just("restore"), st.integers(0, 2), st.just(False)),
    st.tuples(st.just("host"), st.sampled_from(["lrms.example.org", "batch.example.org"])),
)
FAMILIES = st.one_of(
    EVENTS,
    st.tuples(
        st.just("family"), st.sampled_from(["individual", "summaries", "urs", "normalised-v04", "individual-v04"])
    ),
    st.tuples(st.just("rename"), st.sampled_from(["ONE", "TWO"])),
)


def histories(events: st.SearchStrategy) -> st.SearchStrategy:
    """Rounds of what happens at a site: some jobs end or change, something else happens, a run is made or not."""
    run = st.one_of(st.none(), st.just(Fault()), FAULTS)
    return st.lists(st.tuples(st.lists(JOBS, max_size=4), events, run), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def places():
    """Two sites that every history starts again."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="arcacct-test-", dir=where) as path:
        each, family = pathlib.Path(path, "each"), pathlib.Path(path, "family")
        yield World(each, EACH), World(family, FAMILY.format("individual"))


class Witness:
    """Everything that was ever written down to be sent, next to the ledger, which forgets it."""

    def __init__(self, world: World) -> None:
        self._path = world.here.publishing_database
        self._texts: dict[int, set[str]] = {}
        self.watch()

    def watch(self) -> None:
        """From now on; once more where the ledger was written again."""
        with closing(sqlite3.connect(self._path)) as con, con:
            con.execute("CREATE TABLE Witness AS SELECT * FROM MessageBytes")
            con.execute(
                "CREATE TRIGGER Witness_TRG AFTER INSERT ON MessageBytes BEGIN"
                " INSERT INTO Witness SELECT new.MessageID, new.IsPacked, new.Bytes; END"
            )

    def texts(self) -> dict[int, set[str]]:
        """By message."""
        with closing(sqlite3.connect(self._path)) as con:
            for message_id, is_packed, data in con.execute("SELECT * FROM Witness"):
                text = (zlib.decompress(data) if is_packed else data).decode()
                self._texts.setdefault(message_id, set()).add(text)
        return self._texts


def play(world: World, history: list[tuple[object, ...]]) -> dict[str, int]:
    """What happens; then how often each word is given for a text, of which none is wrong."""
    world.begin()
    witness = Witness(world)
    for ended, event, fault in history:
        world.record(*{job.job_id: job for job in ended}.values())
        if event is not None:
            what, *values = event
            getattr(world, what)(*values)
        if fault is not None:
            world.publish(fault)
    said: dict[str, int] = {}
    sent = witness.texts()
    with (
        closing(access.read_accounting(world.here)) as accounting,
        closing(access.read_publishing(world.here)) as publishing,
    ):
        for plugin in plugins(world.site.settings):
            texts = SentTexts(plugin, accounting, publishing)
            block = plugin.target.block
            for (job_id,) in publishing.execute("SELECT DISTINCT JobID FROM SentRecords").fetchall():
                aar = reader.by_job_id(accounting, [job_id]).get(job_id)
                for one in messages_of(publishing, block, job_id):
                    shown = texts.of_record(one.message_id, one.position, aar)
                    said[shown.how] = said.get(shown.how, 0) + 1
                    if shown.how in (KEPT, MADE_AGAIN):
                        pieces = [plugin.envelope(one.kind).cut(text)[one.position] for text in sent[one.message_id]]
                        assert shown.text in pieces
            sums = "SELECT MessageID, Key FROM SentSummaries WHERE Target = ? AND Kind <> 'sync'"
            for message_id, key in publishing.execute(sums, (block,)).fetchall():
                shown = texts.of_sum(message_id, key)
                if shown.how in (KEPT, MADE_AGAIN):
                    assert any(str(shown.text) in text for text in sent[message_id])
    return said


@PLAY
@given(histories(EVENTS))
def test_no_text_is_called_what_was_sent_that_was_not(places, history) -> None:
    """Of every kind of receiver: after corrections, resumed jobs, lost answers, refusals, deleted and restored jobs."""
    play(places[0], history)


@PLAY
@given(histories(FAMILIES))
def test_nor_after_changes_of_the_configuration(places, history) -> None:
    """The site has other names, and sends other formats to APEL."""
    play(places[1], history)


def test_such_a_history_proves_something(places) -> None:
    """Jobs that are as they were are shown as they were sent, whatever became of others."""
    first = [Job(f"j{number}", JUNE + number, 3, 2, name="a\x07b") for number in range(7)]
    resumed = [first[6]._replace(end_time=JUNE + 90)]
    said = play(places[0], [(first, None, Fault()), (resumed, ("delete", "j5"), Fault()), ([], None, Fault())])

    assert said[MADE_AGAIN] + said[KEPT] > sum(said.values()) / 2
    assert len(said) > 2
