"""What the ledger keeps of the records of messages: jobs and keys as they were sent, whatever is in them."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
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
        job, 7, 0, end, digest, form.format(job=job, local=local, end=end, text=text), notes
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
@example([], [SentRecord("0", 1, 0, 5, b"", "ur-0"), SentRecord("\3", 1, 0, 5, b"", "ur-\3")])
@example([SentRecord("\1", 1, 0, 5, b"", "\1\2\3")], [])
@example([SentRecord("\2", 1, 0, 5, b"", "a\2b")], [])
@example([SentRecord("5", 1, 0, 5, b"", '["5", "5", 5]')], [SentRecord("5", 1, 0, 6, b"", '["5", "5", 6]')])
def test_whatever_is_in_a_key_comes_back(first, second) -> None:
    """Jobs, ends, digests, keys and notes of two messages are read as they were written, by Python and by SQL."""
    with closing(in_memory(PUBLISHING)) as con:
        intended = ledger.record_intent(con, TARGET, [message(*first), message(*second)])

        assert [ledger.stored(con, one.message_id).records for one in intended] == [tuple(first), tuple(second)]
        rows = con.execute("SELECT JobID, EndTime, Key, Digest, Notes FROM SentRows ORDER BY MessageID, Position")
        assert rows.fetchall() == [
            (one.job_id, one.end_time, one.key, one.digest, one.notes) for one in (*first, *second)
        ]
        found = sent.versions(con, TARGET, [one.job_id for one in first], keeps_first=False)
        last = {(one.job_id, one.key): one.digest for one in (*first, *second)}
        jobs = {one.job_id for one in first}
        assert {(job_id, one.key): one.digest for job_id, known in found.items() for one in known} == {
            place: digest for place, digest in last.items() if digest and place[0] in jobs
        }


def test_two_jobs_with_one_hash(con) -> None:
    """Each has its own messages, also when their hashes have long gone to the others."""
    seen: dict[int, str] = {}
    pair: list[str] = []
    for number in range(10**6):
        job_id = hashlib.sha256(str(number).encode()).hexdigest()[:16]
        other = seen.setdefault(zlib.crc32(job_id.encode()), job_id)
        if other != job_id:
            pair = [other, job_id]
            break
    assert pair
    others = [
        SentRecord(f"other{number}", number, 0, JUNE, b"o", f"ur-{number}") for number in range(ledger_rows.NEW_JOBS)
    ]
    ledger.record_intent(con, TARGET, [message(SentRecord(pair[0], 1, 0, JUNE, b"1", "a"))])
    ledger.record_intent(con, TARGET, [message(*others)])
    ledger.record_intent(con, TARGET, [message(SentRecord(pair[1], 2, 0, JUNE, b"2", "b"))])

    found = sent.versions(con, TARGET, pair, keeps_first=True)
    assert {job_id: [one.digest for one in known] for job_id, known in found.items()} == {
        pair[0]: [b"1"],
        pair[1]: [b"2"],
    }
    assert con.execute("SELECT count(*) FROM JobHashes").fetchone()[0] >= len(others)
    again = ledger.record_intent(con, TARGET, [message(*others[:3])])
    assert con.execute("SELECT count(*) FROM Jobs").fetchone() == (len(others) + 2,)
    assert ledger.stored(con, again[0].message_id).records == tuple(others[:3])


class Lane:
    """A thread with a connection of its own to one ledger, as targets that are published to side by side have."""

    def __init__(self, path: str) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.con = self.thread.submit(open_database, path, PUBLISHING_SCHEMA).result()

    def does(self, work, *arguments, **named):
        return self.thread.submit(work, self.con, *arguments, **named).result()

    def intends(self, names):
        """A message of jobs."""
        records = [SentRecord(name, 7, 0, JUNE, b"d", f"ur-{name}") for name in names]
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
    """Their numbers are those of other jobs then; each message comes back as it was written."""
    one, other = two
    one.intends("ab")
    nothing = message(*(SentRecord(name, 7, 0, JUNE, b"d", name) for name in "cd"))._replace(data=None)
    with pytest.raises(TypeError):
        one.does(ledger.record_intent, TARGET, [nothing])
    for begun in (*other.intends("dce"), *one.intends("acdf")):
        assert one.does(ledger.stored, begun.message_id).records == begun.records
    jobs = one.does(lambda con: con.execute("SELECT Job, JobID FROM Jobs").fetchall())
    assert jobs == [*enumerate("abdcef", 1)]


def test_jobs_that_another_target_was_sent(two) -> None:
    """Each has one number, whoever of two wrote it down first, also when hashes of jobs are written in between."""
    some = [f"job{number}" for number in range(ledger_rows.NEW_JOBS * 2 + 100)]
    for start in range(0, len(some), 3000):
        names = some[max(0, start - 500) : start + 3000]
        for lane, known in zip(two if start % 6000 else reversed(two), (names[:500], names), strict=True):
            found = lane.does(sent.versions, TARGET, names, keeps_first=True)
            assert set(found) == set(known if start or known is names else [])
            lane.intends(names)

    def counted(con, table):
        return con.execute(f"SELECT count(*), count(DISTINCT Job), max(Job) FROM {table}").fetchone()

    assert two[0].does(counted, "Jobs") == (len(some),) * 3
    hashes = "(SELECT Job FROM JobHashes UNION ALL SELECT Job FROM NewJobHashes)"
    assert two[0].does(counted, hashes) == (len(some),) * 3
    assert set(two[1].does(sent.versions, TARGET, some[::97], keeps_first=True)) == set(some[::97])


@given(
    st.lists(
        st.one_of(st.none(), st.integers(0, 2**70).map(str), st.sampled_from(["other", "0", "007", "٣", "-1", ""]))
    )
)
def test_receivers_numbers_come_back(rows) -> None:
    """Numbers, words, and none."""
    assert ledger_rows.unpacked_rows(ledger_rows.packed_rows(rows)) == rows


def test_keys_that_have_nothing_in_common_fill_no_table_of_forms(con) -> None:
    """Every key is another form, as of ids that are built in a way that nobody foresaw: they are kept as they are."""
    records = [
        SentRecord(f"{number}", number, 0, JUNE, b"", f"{chr(0x4E00 + number)}-{number}-{chr(0x4E00 + number)}")
        for number in range(3000)
    ]
    (intended,) = ledger.record_intent(con, TARGET, [message(*records)])

    assert ledger.stored(con, intended.message_id).records == tuple(records)
    assert con.execute("SELECT count(*) FROM KeyTemplates").fetchone()[0] < 1100


def test_another_life_of_the_accounting_database(con) -> None:
    """A job is the same job under another number, and the ledger has the one that it has now."""
    ledger.record_intent(
        con, TARGET, [message(SentRecord("one", 4, 0, JUNE, b"d", "k"), SentRecord("two", 5, 0, JUNE, b"d", "l"))]
    )
    ledger.record_intent(con, TARGET, [message(SentRecord("one", 5, 0, JUNE, b"e", "k"))])
    ledger.record_intent(con, TARGET, [message(SentRecord("two", 0, 0, JUNE, b"", "l"))])

    assert con.execute("SELECT JobID, RecordID FROM Jobs").fetchall() == [("one", 5), ("two", 5)]


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
    site.record(*records)
    site.publish_all()

    with closing(sqlite3.connect(site.settings.places.publishing_database)) as con:
        used = dict(con.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
        bytes_of_messages = used.pop("MessageBytes")
        (kept,) = con.execute("SELECT sum(ByteCount) FROM Messages JOIN MessageBytes USING (MessageID)").fetchone()
    growing = {name: size for name, size in used.items() if size > 50_000}
    assert growing.keys() == {"SentRecords", "SentRecords_Job_IDX", "Jobs"}
    # A table or index of one page has none of the records.
    assert sum(size for size in used.values() if size > 4096) / (3 * len(records)) < 105
    # The last message of each kind.
    assert bytes_of_messages < kept + 40_000
