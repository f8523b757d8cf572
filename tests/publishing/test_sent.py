"""What the ledger says that a receiver has: versions of jobs, and sums. In memory, of one target next to another."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import arex_corpus as corpus
import pytest
from ledger_rows import MAY, ONE, OTHER, begin, message, new_ledger, one_sum, record, send
from publishing_site import Job, Site, write

from arcacct.database import access
from arcacct.database.connection import Connection
from arcacct.database.schema import ACCOUNTING, in_memory
from arcacct.publishing import ledger, sent, target_months
from arcacct.publishing.ledger import COUNTS, SentSum
from arcacct.publishing.plugin import RecordFormat, bare
from arcacct.publishing.sent import DIGESTED, MANY, digest_of, is_same
from arcacct.publishing.target_months import Refusal
from arcacct.records import reader
from arcacct.records.model import AAR, Transfer
from arcacct.resources import Accelerators
from arcacct.sandbox import auditor, sgas
from arcacct.targets.auditor.record import RecordOptions
from arcacct.targets.auditor.target import AuditorRecords
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions


@pytest.fixture
def con() -> Iterator[Connection]:
    """A ledger of two targets."""
    with closing(new_ledger()) as found:
        yield found


def digests(con: Connection, job_id: str = "one", *, keeps_first: bool = False) -> list[tuple[str, bytes]]:
    """Key and digest of what the receiver may have of a job."""
    found = sent.versions(con, ONE, [job_id], keeps_first=keeps_first)
    return [(version.key, version.digest) for version in found.get(job_id, [])]


def test_the_last_version_of_each_key_counts(con: Connection) -> None:
    """Of those that were accepted or may have arrived; what was refused, or went elsewhere, is not there."""
    assert digests(con) == []
    send(con, record("one", digest=b"1", key="a"))
    send(con, record("one", digest=b"1", key="b"))
    send(con, record("one", digest=b"2", key="a"))
    send(con, record("one", digest=b"9", key="a"), target=OTHER)
    refused = begin(con, record("one", digest=b"8", key="a"))
    ledger.refused(con, ONE, refused, 500, "no", [])
    assert digests(con) == [("a", b"2"), ("b", b"1")]

    begin(con, record("one", digest=b"3", key="b"))
    send(con, record("one", digest=b"", key="a"))
    assert digests(con) == [("b", b"3")]


def test_what_is_known_of_a_version(con: Connection) -> None:
    """All that a correction of it needs: where it is counted, and with how much."""
    begun = send(con, record("one", notes="repaired"))
    ((version,),) = sent.versions(con, ONE, ["one"], keeps_first=False).values()
    ((place,),) = con.execute("SELECT PublishedTotalID FROM PublishedTotals")
    assert version == ("key-one", b"digest", MAY, place, 60, begun.message_id, "repaired")


def test_a_receiver_that_keeps_the_first_has_that(con: Connection) -> None:
    """A version that was sent again on purpose counts only if nothing was there under its key."""
    send(con, record("one", digest=b"1"), origin="republish")
    send(con, record("one", digest=b"2"), origin="republish")
    assert digests(con, keeps_first=True) == [("key-one", b"1")]
    assert digests(con) == [("key-one", b"2")]
    send(con, record("one", digest=b"3"))
    assert digests(con, keeps_first=True) == [("key-one", b"3")]


def test_versions_of_more_jobs_than_go_into_one_question(con: Connection) -> None:
    """Each page is asked for."""
    names = [f"job{number:04d}" for number in range(MANY + 2)]
    wanted = {names[0], names[1], names[MANY - 1], names[MANY], names[-1]}
    send(con, *map(record, sorted(wanted)))
    assert set(sent.versions(con, ONE, names, keeps_first=False)) == wanted


def test_records_of_a_period_that_are_there(con: Connection) -> None:
    """From its first second to before its last, of the kinds that are asked for, in the order of sending."""
    first, last = record("first", end_time=MAY), record("last", end_time=MAY + 9)
    send(con, first, last, record("before", end_time=MAY - 1), record("after", end_time=MAY + 10))
    send(con, record("gone", end_time=MAY), record("of-another-kind", end_time=MAY), message_format="individual")
    send(con, record("gone", end_time=MAY, digest=b""), message_format="individual")
    send(con, record("other", end_time=MAY), target=OTHER)
    again = record("last", end_time=MAY + 9, digest=b"2", wall_s=61)
    begin(con, again)

    def versions_of(*kinds: str) -> list[tuple[str, bytes, int]]:
        return [(one.job_id, one.digest, one.wall_s) for one in sent.sent_versions(con, ONE, kinds, (MAY, MAY + 10))]

    urs = [(one.job_id, one.digest, one.wall_s) for one in (first, last, again)]
    assert versions_of("ur") == urs
    assert [job_id for job_id, *_values in versions_of("ur", "individual")] == [
        *("first", "last", "gone", "of-another-kind", "gone", "last")
    ]
    assert versions_of("individual")[-1][1] == b""


def test_keys_that_may_have_arrived(con: Connection) -> None:
    """Of records and of sums in messages without an answer."""
    send(con, record("sent"), sums=(one_sum("s-sent"),))
    begin(con, record("begun"), sums=(one_sum("s-begun"),))
    begin(con, record("other"), target=OTHER, sums=(one_sum("s-other"),))
    assert sent.pending(con, ONE).keys() == {"key-begun", "s-begun"}


def refuse(con: Connection, kind: str, *months: tuple[int, int], run: int, target: str = ONE) -> int:
    """A receiver refuses a message of sums of these months."""
    (begun,) = ledger.record_intent(con, target, [message(message_format=kind)])
    return ledger.refused(con, target, begun, 500, "no", [], months, run)


def test_months_of_a_refused_sum_are_open_until_a_run_that_takes_them(con: Connection) -> None:
    """Not closed by the run in which they were refused; counts open none, and keep none open."""
    for target in (ONE, OTHER):
        refuse(con, "summaries", (2026, 4), (2026, 5), run=3, target=target)
    refuse(con, COUNTS, (2026, 6), run=3)
    assert target_months.unfinished(con, ONE) == {(2026, 4), (2026, 5)}

    target_months.finish(con, ONE, [(2026, 5)], 3)
    assert target_months.unfinished(con, ONE) == {(2026, 4), (2026, 5)}
    refuse(con, COUNTS, (2026, 5), run=4)
    target_months.finish(con, ONE, [(2026, 5), (2026, 6)], 4)
    assert target_months.unfinished(con, ONE) == {(2026, 4)}
    assert target_months.unfinished(con, OTHER) == {(2026, 4), (2026, 5)}


def test_refusals_of_sums_are_counted_by_run(con: Connection) -> None:
    """Of each month by itself, one run after the other; what a later run was not refused is forgotten."""
    assert refuse(con, "summaries", (2026, 4), run=1) == 1
    assert refuse(con, "summaries", (2026, 4), run=1) == 1
    assert refuse(con, "summaries", (2025, 4), run=2) == 1
    assert refuse(con, "summaries", (2026, 4), (2026, 5), run=2) == 2
    assert refuse(con, COUNTS, (2026, 4), (2026, 5), run=2) == 1
    assert refuse(con, "summaries", (2026, 5), run=2, target=OTHER) == 1
    assert refuse(con, "summaries", run=2) == 0

    def refused(kind: str, target: str = ONE) -> dict[tuple[int, int], int]:
        found = target_months.load(con, target).items()
        return {month: one.refused[kind].refusals for month, one in found if kind in one.refused}

    assert refused("summaries") == {(2025, 4): 1, (2026, 4): 2, (2026, 5): 1}
    assert refused(COUNTS) == {(2026, 4): 1, (2026, 5): 1}

    assert refuse(con, "summaries", (2026, 4), run=3) == 3
    target_months.end_run(con, ONE, [], 3, is_whole=False)
    assert refused(COUNTS) == {(2026, 4): 1, (2026, 5): 1}
    target_months.end_run(con, ONE, [], 3, is_whole=True)
    assert target_months.load(con, ONE)[2026, 4].refused == {"summaries": Refusal("no", 3, 3)}
    assert (refused("summaries"), refused(COUNTS)) == ({(2026, 4): 3}, {})
    assert refused("summaries", OTHER) == {(2026, 5): 1}


def test_sums_of_a_refused_month_may_be_there(con: Connection) -> None:
    """Also those that were sent with zeros: the next run takes them back once more."""
    send(con, sums=(one_sum("a"), one_sum("b", jobs=0), one_sum("c", year=2025, jobs=0)), message_format="summaries")
    send(con, sums=(one_sum("d", jobs=0),), message_format=COUNTS)
    refuse(con, "summaries", (2026, 5), run=1)
    assert {one.key: one.jobs for one in sent.sums_of_kind(con, ONE, "summaries")} == {"a": 3, "b": 1, "c": 0}
    assert [one.jobs for one in sent.sums_of_kind(con, ONE, COUNTS)] == [0]


def test_sums_that_are_there(con: Connection) -> None:
    """Those of a month that are not zero; all of a month or of a kind, since zeros are repeated."""
    may, zero, june = one_sum("may"), one_sum("zero", jobs=0), one_sum("june", month=6)
    send(con, sums=(may, zero, june), message_format="summaries")
    count = one_sum("count", wall_s=None)
    send(con, sums=(count,), message_format=COUNTS)
    send(con, sums=(one_sum("other"),), message_format="summaries", target=OTHER)

    assert sorted(sent.live_sums(con, ONE, 2026, 5)) == [("summaries", may), (COUNTS, count)]
    assert sorted(sent.all_sums(con, ONE, 2026, 5)) == [("summaries", may), ("summaries", zero), (COUNTS, count)]
    assert sent.live_sums(con, ONE, 2025, 5) == []
    assert sent.sums_of_kind(con, ONE, "summaries") == [june, may, zero]
    assert sent.sums_of_kind(con, OTHER, COUNTS) == []


def test_sums_of_another_publisher_are_taken_over_once(con: Connection) -> None:
    """What we sent under a key ourselves stays what it is."""
    send(con, sums=(one_sum("ours"),), message_format="summaries")
    theirs = one_sum("theirs", jobs=8, wall_s=9)
    assert sent.adopt(con, ONE, "summaries", [one_sum("ours", jobs=99), theirs]) == 1
    assert sent.adopt(con, ONE, "summaries", [theirs]) == 0
    assert sent.sums_of_kind(con, ONE, "summaries") == [
        one_sum("ours"),
        SentSum("theirs", 2026, 5, 8, 9, "", "", is_adopted=1),
    ]


def test_what_was_taken_last(con: Connection) -> None:
    """Of a target and a kind; and whether anything was, since a message."""
    assert sent.last_accepted(con, ONE, "ur") is None
    first = send(con, record("first"))
    second = send(con, record("second"), destination="there")
    send(con, message_format="car", destination="elsewhere")
    third = begin(con, record("third"))
    last = send(con, record("other"), target=OTHER, destination="yonder")

    found = sent.last_accepted(con, ONE, "ur")
    assert found is not None
    assert (found.message_id, found.data) == (second.message_id, b"bytes")
    assert sent.accepted_after(con, ONE, first.message_id)
    assert not sent.accepted_after(con, ONE, third.message_id)
    assert not sent.accepted_after(con, OTHER, last.message_id)
    assert sent.destinations(con) == {ONE: "elsewhere", OTHER: "yonder"}

    con.execute("DELETE FROM MessageBytes WHERE MessageID = ?", (second.message_id,))
    found = sent.last_accepted(con, ONE, "ur")
    assert found is not None
    assert found.message_id == first.message_id


def test_jobs_of_before_that_no_one_sent_again(con: Connection) -> None:
    """Of a period and of some VOs; a job that was sent again twice, or elsewhere, or is of another time, is one."""
    with closing(in_memory(ACCOUNTING)) as accounting:
        for name, end_time in (("first", MAY), ("last", MAY + 9), ("before", MAY - 1), ("after", MAY + 10)):
            write(accounting, Job(name, end_time))
        write(accounting, Job("cms", MAY, vo="cms", fqan="/cms"))
        period = (MAY, MAY + 10)

        def left(*vos: str, ended: tuple[int, int] = period) -> int:
            return sent.not_sent_again(con, accounting, ONE, ended, vos)

        assert (left(), left("cms"), left("atlas", "cms"), left("lhcb")) == (3, 1, 3, 0)
        for _ in range(2):
            send(con, record("last", end_time=MAY + 9), origin="republish")
        send(con, record("first", end_time=MAY))
        send(con, record("first", end_time=MAY), origin="republish", target=OTHER)
        send(con, record("before", end_time=MAY - 1), record("after", end_time=MAY + 10), origin="republish")
        begin(con, record("first", end_time=MAY), origin="republish")
        assert left() == 2
        for name in ("first", "cms", "pruned"):
            send(con, record(name), origin="republish")
        assert left() == 0
        assert left(ended=(MAY + 10, MAY + 11)) == 0


# Digests of records: bytes that every later program has to make of the same values, or all is published again.


RELEASED = pathlib.Path(__file__).parent.parent / "data" / "released" / "0.2.0"
GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "digests.txt"
"""The digest of each job of the two real control directories, and its JobID."""
FULL = AAR(
    record_id=7, job_id="full", local_job_id="4711", endpoint_type="org.nordugrid.arcrest",
    endpoint_url="https://ce.example.org:443/arex", queue="main", user_dn="/DC=org/CN=J\\xC3\\xBCrgen", vo="atlas",
    status="completed", exit_code=3, submit_time=1_718_449_000, end_time=1_718_452_800, node_count=2, core_count=16,
    memory_kib=2_000_000, virtual_memory_kib=2**40, wall_s=3500, cpu_user_s=20_000, cpu_kernel_s=300, scratch_bytes=5,
    stage_in_bytes=600, stage_out_bytes=2000, fqans=("/atlas/Role=production", "/atlas"), job_name="jöb",
    lrms="slurm", node_names=("node1", "node2"), client_host="192.0.2.1:40000", local_user="atlas001:atlas",
    project="physics", system_software="AlmaLinux 9.6", wn_instance="c5.large", benchmark="HEPSPEC:12.26",
    run_time_environments=("ENV/PROXY", "APPS/HEP-1.0"),
    transfers=(
        Transfer("https://se.example.org/in", 600, 1_718_449_100, 1_718_449_200, "input"),
        Transfer("https://se.example.org/out", 2000, 1_718_452_700, 1_718_452_790, "output"),
    ),
    lrms_submit_time=1_718_449_210, lrms_start_time=1_718_449_300, lrms_end_time=1_718_452_600, auth_groups=("zero",),
    accelerators=Accelerators(2, 7000.0), held="wall-beyond-life", unknown=("core_count",),
)  # fmt: skip
UNSEEN = {"record_id", "auth_groups", "accelerators", "held", "unknown"}
"""What no digest is of: a record's place, and what was kept of records only later."""
digest = digest_of()


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Site:
    """The databases as 0.2.0 left them."""
    site = Site(tmp_path_factory.mktemp("released"), None, "")
    here = site.settings.places
    pathlib.Path(here.directory).mkdir(parents=True)
    for path, name in ((here.database, "accounting"), (here.publishing_database, "publishing")):
        with closing(sqlite3.connect(path)) as con:
            con.executescript((RELEASED / f"{name}.sql").read_text())
    return site


def test_records_of_a_released_program_have_the_digests_that_it_noted(released) -> None:
    """What 0.2.0 sent of the records that are still as they were is what this program would note of them."""
    with closing(access.open_accounting(released.settings.places)) as con:
        aars = [aar for page in reader.ended_between(con, 1, 2**40) for aar in page]
    noted: dict[str, set[bytes]] = {}
    for job_id, stored in released.ledger("SELECT JobID, Digest FROM SentRows WHERE Digest <> x''"):
        noted.setdefault(job_id, set()).add(stored)

    compared = [aar for aar in aars if aar.job_id in noted]
    assert len(compared) >= 5
    for aar in compared:
        assert digest(aar) in noted[aar.job_id]
        assert any(is_same(aar, stored) for stored in noted[aar.job_id])


@pytest.mark.parametrize(
    ("aar", "expected"),
    [(FULL, "9511ca10ae4750183f5e7383a9e2805e"), (bare("bare", 1_718_452_800), "d958b41adeb08084dde107c3f4736cad")],
    ids=["every-value", "hardly-any"],
)
def test_the_bytes_of_a_digest_never_change(aar: AAR, expected: str) -> None:
    """Of all values, of a record with every value and of one with hardly any; equal texts need not be one object."""
    apart = aar._replace(job_id="".join(aar.job_id))

    assert digest(aar).hex() == expected
    assert digest(apart).hex() == expected


def test_the_bytes_of_a_digest_of_some_values_never_change() -> None:
    """Twelve bytes of the values, then one bit for each: job_id is the first of them, vo the seventh."""
    assert digest_of(("vo", "job_id"))(FULL).hex() == "1859224bef4d1b74d3c756ad0000000041"
    assert digest_of(("transfers",))(FULL).hex() == "5c0a2292840a8062a0bb83ce0100000000"


def with_another(field: str) -> AAR:
    """The full record, with another value of one field."""
    value: Any = getattr(FULL, field)
    assert value != AAR._field_defaults.get(field)
    if isinstance(value, Accelerators):
        return FULL._replace(accelerators=value._replace(gpu_count=3))
    return FULL._replace(**{field: value[1:] if isinstance(value, str | tuple) else value + 1})


@pytest.mark.parametrize("field", AAR._fields)
def test_each_value_of_a_record_is_in_its_digest(field: str) -> None:
    """A record in which anything is otherwise is another version, but for what no digest is of."""
    other = with_another(field)

    assert (digest(other) == digest(FULL)) is (field in UNSEEN)
    assert is_same(other, digest(FULL)) is (field in UNSEEN)


def test_jobs_of_real_arexes_have_the_digests_of_former_programs(tmp_path: pathlib.Path) -> None:
    """golden/digests.txt was written by the last program that kept packs of jobs, from its packs: none may change."""
    noted = dict(line.split("  ")[::-1] for line in GOLDEN.read_text(encoding="ascii").splitlines())
    found: dict[str, str] = {}
    for con in (corpus.swept(corpus.rebuild(tmp_path / "6")), corpus.swept7(tmp_path / "7")):
        page = reader.logged_after(con, 0, 2**62)
        assert page is not None
        found |= {aar.job_id: digest(aar).hex() for _seq, aar in page.records}
        con.close()

    assert len(noted) == 75
    assert found == noted


def test_a_digest_of_some_values_is_compared_by_these() -> None:
    """Whatever their place in a record, and whatever the target's digests are of now."""
    for names in (("wall_s", "cpu_user_s", "cpu_kernel_s"), ("vo", "transfers", "job_id"), ("benchmark",), DIGESTED):
        stored = digest_of(names)(FULL)

        assert {field for field in AAR._fields if not is_same(with_another(field), stored)} == set(names)
        assert len(stored) == (16 if names is DIGESTED else 17)


@pytest.mark.parametrize("stored", [b"", b"\0", bytes(12), bytes(17), bytes(12) + b"\xff" * 5, bytes(12) + b"\1" * 6])
def test_a_digest_that_this_program_does_not_know_is_of_no_record(stored: bytes) -> None:
    """What was sent with zeros, what is in doubt, and what a later program stored."""
    assert not is_same(FULL, stored)


def at_sgas(of: UsageRecords, aar: AAR) -> object:
    """What SGAS stores of a record."""
    return sgas.read(of.envelope.join([of.text(aar, aar.end_time)]).encode())


def at_auditor(of: AuditorRecords, aar: AAR) -> object:
    """What AUDITOR stores of a record."""
    return auditor.read(json.loads(of.text(aar, aar.end_time)))


IGNORED = {
    "endpoint_type", "scratch_bytes", "stage_in_bytes", "stage_out_bytes", "system_software", "wn_instance",
    "lrms_submit_time", "lrms_end_time",
}  # fmt: skip
"""What neither receiver stores."""
AT_AUDITOR = IGNORED | {
    "local_job_id", "queue", "status", "exit_code", "virtual_memory_kib", "job_name", "node_names", "client_host",
    "project", "run_time_environments", "transfers",
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "stored", "ignored"),
    [
        (UsageRecords(UROptions(host="ce"), can_replace=False), at_sgas, {"lrms", "benchmark", "lrms_start_time"}),
        (
            UsageRecords(UROptions(host="ce", start_time_source="lrms"), can_replace=False),
            at_sgas,
            {"lrms", "benchmark"},
        ),
        (AuditorRecords(RecordOptions("SITE")), at_auditor, AT_AUDITOR | {"submit_time", "lrms_start_time"}),
        (AuditorRecords(RecordOptions("SITE", start_time_source="lrms")), at_auditor, AT_AUDITOR),
    ],
    ids=["sgas", "sgas-lrms", "auditor", "auditor-lrms"],
)
def test_a_value_that_is_not_in_a_digest_changes_nothing_at_the_receiver(
    family: RecordFormat, stored: Callable[[RecordFormat, AAR], object], ignored: set[str]
) -> None:
    same = {field for field in AAR._fields if family.digest(with_another(field)) == family.digest(FULL)}

    assert same == UNSEEN | IGNORED | ignored
    assert {field for field in same if stored(family, with_another(field)) != stored(family, FULL)} == set()


def test_the_start_of_a_local_job_is_in_the_digest_of_sgas() -> None:
    """Without an endpoint it is the batch system's, whatever the option says."""
    family = UsageRecords(UROptions(host="ce"), can_replace=False)
    local = FULL._replace(endpoint_url=None, endpoint_type=None)
    later = local._replace(lrms_start_time=local.end_time)

    assert at_sgas(family, later) != at_sgas(family, local)
    assert family.digest(later) != family.digest(local)
