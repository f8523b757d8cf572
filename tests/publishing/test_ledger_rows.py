"""What the ledger keeps of the records of messages: jobs and keys as they were sent, whatever is in them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from publishing_site import CARS, DIRECTORY, JUNE, SGAS, Job, Site

from arcacct.database.connection import PUBLISHING_SCHEMA, open_database
from arcacct.database.schema import PUBLISHING, ensure, in_memory
from arcacct.publishing import ledger, ledger_rows, sent
from arcacct.publishing.ledger import Message, SentRecord

TARGET = "arex/jura/sgas:s"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.one_of(TEXT, st.sampled_from(["1", "x", "\1", "\2", "\3", '"', "17", "job-1", "\0a"]))
TIMES = st.one_of(st.integers(-3, 20), st.integers(1_700_000_000, 1_800_000_000))
FORMS = [
    "ur-ce.example.org-{job}", '["{text}", "{local}", {end}]', "{text}", "{job}{job}{end}", '"{local}"', '{job}"{end}"'
]  # fmt: skip
RECORDS = st.builds(
    lambda form, job, local, end, text, digest, notes: SentRecord(
        job, 0, 0, end, digest, form.format(job=job, local=local, end=end, text=text), notes
    ),
    st.sampled_from(FORMS), NAMES.filter(bool), NAMES, TIMES, NAMES, st.binary(max_size=17), st.one_of(st.none(), TEXT),
)  # fmt: skip


@pytest.fixture
def con():
    """An empty ledger."""
    with closing(in_memory(PUBLISHING)) as made:
        yield made


def message(*records: SentRecord, kind: str = "ur") -> Message:
    return Message(0, kind, "publish", None, "https://x", None, "", len(records), b"bytes", records)


@settings(deadline=None)
@given(st.lists(RECORDS, max_size=6, unique_by=lambda one: one.job_id), st.lists(RECORDS, max_size=3))
@example([], [SentRecord("0", 0, 0, 5, b"", "ur-0"), SentRecord("\3", 0, 0, 5, b"", "ur-\3")])
@example([SentRecord("\1", 0, 0, 5, b"", "\1\2\3")], [])
@example([SentRecord("\2", 0, 0, 5, b"", "a\2b")], [])
@example([SentRecord("5", 0, 0, 5, b"", '["5", "5", 5]')], [SentRecord("5", 0, 0, 6, b"", '["5", "5", 6]')])
def test_whatever_is_in_a_key_comes_back(first, second) -> None:
    """Jobs, ends, digests, keys and notes of two messages are read as they were written, by Python and by SQL."""
    with closing(in_memory(PUBLISHING)) as con:
        intended = ledger.record_intent(con, TARGET, [message(*first), message(*second)])

        assert [ledger.stored(con, one.message_id).records for one in intended] == [tuple(first), tuple(second)]
        rows = con.execute(
            "SELECT job_id, end_time, receiver_key, is_neutralised, notes FROM v1_publications WHERE job_id IS NOT NULL"
        )
        assert Counter(rows) == Counter(
            (one.job_id, one.end_time, one.key, int(not one.digest), one.notes) for one in (*first, *second)
        )
        found = sent.versions(con, TARGET, [one.job_id for one in first], keeps_first=False)
        last = {(one.job_id, one.key): one.digest for one in (*first, *second)}
        jobs = {one.job_id for one in first}
        assert {(job_id, one.key): one.digest for job_id, known in found.items() for one in known} == {
            place: digest for place, digest in last.items() if digest and place[0] in jobs
        }


def test_jobs_whose_ids_end_alike(con) -> None:
    """Each has its own messages, also where one ID is the end of another, and however many jobs are asked for."""
    ends = [f"{number:02d}-0123456789abcdef" for number in range(ledger_rows.MANY + 1)] + ["0123456789abcdef"]
    records = [SentRecord(job_id, 0, 0, JUNE, b"d", f"ur-{job_id}") for job_id in ends]
    ledger.record_intent(con, TARGET, [message(*records[1:])])

    found = sent.versions(con, TARGET, [*ends, *ends], keeps_first=True)
    assert {job_id: [one.key for one in known] for job_id, known in found.items()} == {
        one.job_id: [one.key] for one in records[1:]
    }
    assert sent.versions(con, TARGET, ends[:1], keeps_first=True) == {}
    assert sent.ever_carried(con, TARGET, [ends[0], ends[1], ends[-1]]) == {ends[1], ends[-1]}


class Lane:
    """A thread with a connection of its own to one ledger, as targets that are published to side by side have."""

    def __init__(self, path: str) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.con = self.thread.submit(open_database, path, PUBLISHING_SCHEMA).result()

    def does(self, work, *arguments, **named):
        return self.thread.submit(work, self.con, *arguments, **named).result()

    def intends(self, names):
        """A message of jobs."""
        records = [SentRecord(name, 0, 0, JUNE, b"d", f"ur-{name}") for name in names]
        return self.does(ledger.record_intent, TARGET, [message(*records)])


@pytest.fixture
def two(tmp_path):
    """Two threads with one ledger."""
    path = str(tmp_path / "publishing.db")
    ensure(path, PUBLISHING, read_group=None)
    lanes = Lane(path), Lane(path)
    yield lanes
    for lane in lanes:
        lane.does(sqlite3.Connection.close)
        lane.thread.shutdown()


def test_jobs_of_a_transaction_that_was_taken_back(two) -> None:
    """Nothing of it is left; each later message comes back as it was written."""
    one, other = two
    one.intends("ab")
    nothing = message(*(SentRecord(name, 0, 0, JUNE, b"d", name) for name in "cd"))._replace(data=None)
    with pytest.raises(TypeError):
        one.does(ledger.record_intent, TARGET, [nothing])
    for begun in (*other.intends("dce"), *one.intends("acdf")):
        assert one.does(ledger.stored, begun.message_id).records == begun.records
    rows = one.does(lambda con: con.execute("SELECT JobID FROM SentRecords ORDER BY MessageID, Position").fetchall())
    assert [job_id for (job_id,) in rows] == [*"abdceacdf"]


@given(
    st.lists(
        st.one_of(st.none(), st.integers(0, 2**70).map(str), st.sampled_from(["other", "0", "007", "٣", "-1", ""]))
    )
)
def test_receivers_numbers_come_back(rows) -> None:
    """Numbers, words, and none."""
    assert ledger_rows.unpacked_rows(ledger_rows.packed_rows(rows)) == rows


def test_what_a_message_says_of_a_key_is_said_once(con) -> None:
    """What all keys begin with, and the JobID that each ends with, are not stored with each record."""
    ids = ["slurm:c:7:1790000000", "slurm:c:8:1790000000"]
    records = [SentRecord(job_id, 0, 0, JUNE, b"d", f"ur-ce-{job_id}") for job_id in ids]
    others = [SentRecord(job_id, 0, 0, JUNE, b"d", f'["SITE", "{number}"]') for number, job_id in enumerate(ids)]
    ledger.record_intent(con, TARGET, [message(*records), message(*records[:1]), message(*others), message()])

    prefixes = [prefix for (prefix,) in con.execute("SELECT KeyPrefix FROM Messages ORDER BY MessageID")]
    assert prefixes == ["ur-ce-", "ur-ce-", '["SITE", "', ""]
    rests = [rest for (rest,) in con.execute("SELECT KeyRest FROM SentRecords ORDER BY MessageID, Position")]
    assert rests == [None, None, None, '0"]', '1"]']


@pytest.mark.campaign
def test_a_record_takes_few_bytes(memory, empty_box) -> None:
    """Of three targets, with all that stays of it; and nothing of its bytes once they are answered."""
    (memory / "outgoing").mkdir()
    site = Site(memory, empty_box, SGAS + CARS + DIRECTORY)
    # JobIDs as A-REX makes them; each job has an end of its own.
    records = [
        Job(f"{number:04d}" + "AbCdEfGh01" * 5, JUNE + number, local_id=str(10_000_000 + number))
        for number in range(2000)
    ]
    site.send(*records)

    with closing(sqlite3.connect(site.settings.places.publishing_database)) as con:
        used = dict(con.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
        bytes_of_messages = used.pop("MessageBytes")
        (kept,) = con.execute("SELECT sum(ByteCount) FROM Messages JOIN MessageBytes USING (MessageID)").fetchone()
    growing = {name: size for name, size in used.items() if size > 50_000}
    assert growing.keys() == {"SentRecords", "SentRecords_Job_IDX"}
    # A table or index of one page has none of the records.
    assert sum(size for size in used.values() if size > 4096) / (3 * len(records)) < 170
    # The last message of each kind.
    assert bytes_of_messages < kept + 40_000
