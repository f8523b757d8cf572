"""
Records that receivers would refuse, die over or misread: each delays no one, is named with the reason or repaired, and
hostile text arrives as it was recorded.
"""

from __future__ import annotations

import pathlib
import subprocess
import time
from typing import Any, NamedTuple

import apel_rules
import pytest
import rehearsal
import sgas_rules
from argo_ams_library import ArgoMessagingService
from lxml import etree
from publishing_site import CARS, JUNE, SGAS, SUMMARIES, Job, Site, at_apel, at_sgas, jobs, truth

from arcacct.sandbox import Sandbox
from arcacct.sandbox.smime import accept
from arcacct.targets import plugins

NOW = int(time.time())
TARGETS = (
    f"{SGAS}urbatchsize=100\n"
    + CARS.replace("apel:a", "apel:cars").replace("SITE", "CARS")
    + CARS.replace("apel:a", "apel:jobs").replace("SITE", "JOBS").replace("=urs", "=individual")
    + SUMMARIES.replace("apel:a", "apel:sums").replace("SITE", "SUMS")
)
SGAS_BLOCK, *APEL_BLOCKS = (f"arex/jura/{name}" for name in ("sgas:s", "apel:cars", "apel:jobs", "apel:sums"))
BAD = Job("bad", JUNE + 2, user_dn="/CN=Bad")
NEIGHBOURS = [*jobs(2), *jobs(2, 10)]


class Poison(NamedTuple):
    """What is wrong with a record, and what becomes of it: a word of the reason, or ``None`` where it is sent."""

    name: str
    values: dict[str, Any]
    sgas: str | None
    apel: str | None
    """Of job records; the same word for sums unless told otherwise."""
    sums: str | None = None
    sql: tuple[str, ...] = ()


def damage(name: str, assignment: str, sgas: str | None, apel: str | None, sums: str | None = None) -> Poison:
    """A column that no recorder of ours would write so."""
    return Poison(name, {}, sgas, apel, sums, (f"UPDATE AAR SET {assignment} WHERE JobID = 'bad'",))


def child(name: str, table: str, values: str, sgas: str | None = None, apel: str | None = None) -> Poison:
    """A row of a child table that the receivers would trip over."""
    statement = f"INSERT INTO {table} SELECT RecordID, {values} FROM AAR WHERE JobID = 'bad'"
    return Poison(name, {}, sgas, apel, sql=(statement,))


def other_benchmark(name: str, benchmark: str) -> Poison:
    """A benchmark that is none, written by another program: ours would hold the job."""
    of_bad = "RecordID = (SELECT RecordID FROM AAR WHERE JobID = 'bad')"
    statement = f"UPDATE JobExtraInfo SET InfoValue = '{benchmark}' WHERE InfoKey = 'benchmark' AND {of_bad}"
    return Poison(name, {}, None, None, sql=(statement,))


UNMEASURED = "cannot have been measured"
POISON = [
    damage("wall-time-beyond-int4", f"UsedWalltime = {2**31}", "wall time", "wall time"),
    damage("wall-time-beyond-exact", f"UsedWalltime = {2**53 + 1}", "wall time", "wall time", UNMEASURED),
    damage("wall-time-beyond-sqlite-sums", f"UsedWalltime = {2**63 - 1}", "wall time", "wall time", UNMEASURED),
    damage("negative-wall-time", "UsedWalltime = -1", "wall time", "wall time", UNMEASURED),
    damage("cpu-time-beyond-int4", f"UsedCPUUserTime = {2**31}", None, "CPU time"),
    damage("negative-cpu-time", "UsedCPUUserTime = -5", "CPU time", "CPU time", UNMEASURED),
    Poison("unknown-benchmark", {"benchmark": "SPECint:10"}, None, None),
    other_benchmark("benchmark-zero", "HEPSPEC:0"),
    Poison("benchmark-no-number", {"benchmark": "HEPSPEC:fast"}, None, None),
    Poison("too-many-nodes", {"nodes": 2**15}, None, None),
    damage("nodes-beyond-int4", f"NodeCount = {2**31}", None, None),
    damage("negative-cores", "CPUCount = -1", None, None),
    Poison("no-cores", {"cores": 0, "nodes": 0}, None, None),
    Poison("long-queue", {"queue": "q" * 300}, None, None),
    Poison("long-name", {"name": "n" * 2000}, None, None),
    Poison("long-dn", {"user_dn": "/CN=" + "x" * 1200}, None, None),
    Poison("long-fqan", {"fqan": "/atlas/" + "g" * 300 + "/Role=production"}, None, None),
    Poison("long-vo", {"vo": "v" * 1200, "fqan": ""}, None, None),
    Poison("long-local-id", {"local_id": "4" * 121}, None, None),
    Poison("longest-local-id", {"local_id": "4" * 600}, None, None),
    Poison("local-id-like-a-path", {"local_id": "/4711"}, None, None),
    Poison("local-id-none", {"local_id": "None"}, None, None),
    Poison("no-local-id", {"local_id": ""}, None, None),
    Poison("no-endpoint", {"endpoint_url": ""}, None, None),
    Poison("endpoint-without-host", {"endpoint_url": "nonsense"}, None, None),
    Poison("long-endpoint", {"endpoint_url": f"https://{'e' * 250}.example.org/arex"}, "MachineName", None),
    Poison("record-separator", {"name": "%%", "queue": "a%%b", "user_dn": "/CN=%%"}, None, None),
    Poison("line-breaks", {"user_dn": "/CN=a\nLocalJobId: fake", "queue": "x\r\ny\x0b\x0c\x1c"}, None, None),
    Poison("non-ascii", {"user_dn": "/CN=Jörg Żółć 🚀", "name": "数据", "queue": "Ω"}, None, None),
    Poison(
        "looks-encrypted", {"user_dn": "/CN=application/pkcs7-mime", "name": "application/x-pkcs7-mime"}, None, None
    ),
    Poison("control-characters", {"name": "\x01\x02", "queue": "\x7f\x85\u2028\ufffe"}, None, None),
    Poison(
        "xml",
        {"name": "]]></JobUsageRecord>", "queue": '<a b="c">&amp;', "user_dn": '/CN="urf:recordId="x"'},
        None,
        None,
    ),
    Poison("means-nothing", {"user_dn": "none", "queue": "null", "vo": "NULL", "fqan": ""}, None, None),
    Poison("broken-fqan", {"fqan": "atlas:/x//Role=;%%"}, None, None),
    damage("end-of-time", "EndTime = 9223372036854775807", "EndTime", "EndTime", "EndTime"),
    damage("end-after-9999", "EndTime = 253402300800", "EndTime", "EndTime", "EndTime"),
    damage("submitted-after-the-end", "SubmitTime = EndTime + 100", None, None),
    damage("submitted-never", "SubmitTime = -1", None, None),
    damage("memory-beyond-int4", "UsedMemory = 1 << 40, UsedVirtMem = 1 << 62", None, None),
    damage("negative-memory", "UsedMemory = -1, UsedScratch = -1, StageInVolume = -1", None, None),
    damage("exit-code-beyond-everything", "ExitCode = 1 << 62", None, None),
    damage("words-for-numbers", "UsedMemory = 'much', NodeCount = 'some', ExitCode = 'bad'", None, None),
    other_benchmark("endless-benchmark", "HEPSPEC:" + "9" * 70_000),
    Poison("hosts-that-are-none", {"hosts": "\x01:" + "h" * 70_000 + ":wn1.example.org"}, None, None),
    damage(
        "words-for-a-duration",
        "UsedWalltime = 'long'",
        "wall time 'long' is outside",
        "wall time 'long' is outside",
        "measured",
    ),
    damage("words-for-the-end", "EndTime = 'soon'", "EndTime", "EndTime", "EndTime"),
    damage("bytes-for-the-end", "EndTime = x'00ff'", "EndTime", "EndTime", "EndTime"),
    damage("end-beyond-numbers", "EndTime = 1e308", "EndTime", "EndTime", "EndTime"),
    damage("no-such-vo", "VOID = 4711", None, None),
    child("bytes-for-an-environment", "RunTimeEnvironments", "x'ff00'"),
    damage("fraction-of-a-second", "UsedWalltime = 61.5", None, None),
    damage("no-such-queue", "QueueID = 4711", None, None),
    damage("local-id-not-utf-8", "LocalJobID = CAST(x'3432c3' AS TEXT)", None, None),
    child("name-not-utf-8", "JobExtraInfo", "'projectname', CAST(x'e92042' AS TEXT)"),
    child("empty-environment", "RunTimeEnvironments", "''"),
    child("long-environment", "RunTimeEnvironments", "hex(zeroblob(300))"),
    child("transfer-without-url", "DataTransfers", "'', 1, 1, 1, 10"),
    child("transfer-with-long-url", "DataTransfers", "'https://se/' || hex(zeroblob(2000)), 1, 1, 1, 10"),
    child("impossible-transfer", "DataTransfers", "'https://se/x', -1, -1, 1 << 62, 10"),
    child("words-for-a-size", "DataTransfers", "'https://se/x', 'big', 'then', 'now', 'somehow'"),
    child("event-at-no-time", "JobEvents", "'LRMSSTART', 'yesterday'"),
    child("event-long-ago", "JobEvents", "'LRMSSTART', '0001-01-01 00:00:00'"),
]


@pytest.fixture
def site(memory, empty_box):
    """A site that publishes in every form."""
    return Site(memory, empty_box, TARGETS)


@pytest.mark.campaign
@pytest.mark.parametrize("poison", POISON, ids=[one.name for one in POISON])
def test_a_poison_record_delays_nobody(site, poison) -> None:
    """
    The neighbours arrive in the same run; the record is repaired and arrives, or is set aside and named with why.

    Mended, it arrives as well.
    """
    box = site.box
    site.record(*NEIGHBOURS[:2], BAD._replace(**poison.values), *NEIGHBOURS[2:])
    site.sql(*poison.sql)

    outcomes = site.publish_all()

    assert [one.error for one in outcomes] == [None] * len(outcomes)
    assert box.apel.stopped is None
    assert box.apel.rejected == []
    good = truth(NEIGHBOURS)
    assert {job: row for job, row in at_sgas(box.sgas.records).items() if job in good} == good
    good = truth(NEIGHBOURS, by_lrms=True)
    for name in ("CARS", "JOBS"):
        table = {key: row for key, row in box.apel.job_records.items() if row["Site"] == name}
        assert {job: row for job, row in at_apel(table).items() if job in good} == good
        assert len(table) == len(NEIGHBOURS) + (poison.apel is None)
    assert len(box.sgas.records) == len(NEIGHBOURS) + (poison.sgas is None)
    summed = [row["NumberOfJobs"] for row in box.apel.summaries.values() if row["GlobalUserName"].endswith("Lovelace")]
    assert sum(summed) >= len(NEIGHBOURS)

    words = dict.fromkeys(APEL_BLOCKS[:2], poison.apel) | {SGAS_BLOCK: poison.sgas, APEL_BLOCKS[2]: poison.sums}
    for block, word in words.items():
        held = site.ledger("SELECT JobID, State, Reason FROM HeldRecords WHERE Target = ?", block)
        assert [(job, state) for job, state, _why in held] == ([] if word is None else [("bad", "quarantined")])
        assert all(word in why for _job, _state, why in held)

    again = site.publish_all()
    assert [(one.error, one.summary.quarantined) for one in again] == [(None, 0)] * len(again)
    assert site.box.sgas.ignored_repeats == 0
    if poison.sgas or poison.apel or poison.sums:
        _mend(site, sgas_took_it=poison.sgas is None)


def _mend(site: Site, *, sgas_took_it: bool) -> None:
    """Corrected, the record is sent like any other, and is in no list any more."""
    site.record(BAD)

    outcomes = site.publish_all()

    assert [one.error for one in outcomes] == [None] * len(outcomes)
    # What SGAS took of it, repaired, it keeps.
    corrections = site.ledger("SELECT DISTINCT State FROM HeldRecords")
    assert corrections == ([("correction",)] if sgas_took_it else [])
    for name in ("CARS", "JOBS"):
        table = {key: row for key, row in site.box.apel.job_records.items() if row["Site"] == name}
        assert at_apel(table) == truth([*NEIGHBOURS, BAD], by_lrms=True)
    sums = [row for row in site.box.apel.hybrid.values() if row["NumberOfJobs"] and row["Site"] not in ("CARS", "JOBS")]
    assert sum(row["NumberOfJobs"] for row in sums) == len(NEIGHBOURS) + 1
    assert sum(row["WallDuration"] for row in sums) == 100 * (len(NEIGHBOURS) + 1)


@pytest.mark.campaign
def test_every_poison_at_once(site) -> None:
    """All of them in one run: each is named or arrives, and so does everybody else."""
    site.record(*NEIGHBOURS)
    for number, poison in enumerate(POISON):
        values = {"job_id": f"bad{number}", "end_time": JUNE + 100 + number, **poison.values}
        site.record(BAD._replace(**values))
        site.sql(*[statement.replace("'bad'", f"'bad{number}'") for statement in poison.sql])

    outcomes = site.publish_all()

    assert [one.error for one in outcomes] == [None] * len(outcomes)
    assert site.box.apel.rejected == []
    everybody = len(NEIGHBOURS) + len(POISON)
    for block, count in ((SGAS_BLOCK, len(site.box.sgas.records)), (APEL_BLOCKS[0], _jobs_of(site.box, "CARS"))):
        held = site.ledger("SELECT count(*) FROM HeldRecords WHERE Target = ? AND Reason <> ''", block)[0][0]
        assert count + held == everybody


def _jobs_of(box: Sandbox, name: str) -> int:
    return sum(row["Site"] == name for row in box.apel.job_records.values())


TEXTS = {
    "markup": "a & b <c> \"d\" 'e' &amp; ]]>",
    "percents": "100% %41 %% a%%b %",
    "alphabets": "Jörg Żółć Ω 数据",
    "beyond-the-basic-plane": "rocket 🚀",
    "line-breaks": "one\ntwo\r\nthree\tfour",
    "quotes": "'; DROP TABLE AAR; -- #",
    "colons": "key: value: {HEPSPEC: 1}",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_text_arrives_as_it_was_recorded(site, text) -> None:
    r"""What the receivers load is what was recorded: in XML letter by letter, in text behind `\xHH` escapes."""
    box = site.box
    job = Job("hostile", JUNE, queue=text, user_dn=f"/CN={text}", vo=f"vo {text}", fqan="", name=text)
    site.record(job)

    assert [one.error for one in site.publish_all()] == [None] * 4
    (row,) = box.sgas.records.values()
    assert (row.queue, row.global_user_name, row.vo_name, row.job_name) == (text, f"/CN={text}", f"vo {text}", text)
    assert box.apel.rejected == []
    for record in [*box.apel.job_records.values(), *box.apel.hybrid.values()]:
        for name, recorded in (("Queue", text), ("GlobalUserName", f"/CN={text}"), ("VO", f"vo {text}")):
            if name in record:
                assert apel_rules.unescaped(_ascii(record[name])) == recorded


def _ascii(value: str) -> str:
    r"""What XML brought as it is, with escapes like what came in a text message."""
    return "".join(f"\\x{byte:02X}" if byte >= 128 else chr(byte) for byte in value.encode())


def test_every_message_verifies_and_is_pulled(memory, empty_box, monkeypatch) -> None:
    """`openssl smime -verify` accepts what the official client pulls, and the text in it is what we meant."""
    # The library has no place for a CA directory of its own.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", empty_box.ca_file)
    reader = ArgoMessagingService(
        endpoint=empty_box.ams_url.removeprefix("https://"), token=empty_box.token, project="accounting"
    )
    reader.create_sub("reader", "gLite-APEL")
    try:
        site = Site(memory, empty_box, TARGETS)
        site.record(
            *NEIGHBOURS, *[Job(f"t{number}", name=text, queue=text) for number, text in enumerate(TEXTS.values())]
        )
        assert [one.error for one in site.publish_all()] == [None] * 4

        pulled = reader.pull_sub("reader", 100, return_immediately=True)
        assert len(pulled) == len(empty_box.apel.received) == 6
        for _ack_id, message in pulled:
            assert (
                _verified(message.get_data(), empty_box.ca_file)
                .replace("\r\n", "\n")
                .startswith(
                    ("Content-Type: text/plain\n\nAPEL-", "Content-Type: text/plain\n\n<?xml", "APEL-", "<?xml")
                )
            )
            assert accept(message.get_data(), empty_box.ca_dir, {empty_box.client.dn})
            assert message.get_attr()["empaid"]
        stored = site.ledger("SELECT EmpaID, ReceiverID FROM Messages WHERE EmpaID IS NOT NULL ORDER BY MessageID")
        assert [empaid for empaid, _id in stored] == [message.get_attr()["empaid"] for _ack, message in pulled]
        assert [message_id for _empaid, message_id in stored] == [message.get_msgid() for _ack, message in pulled]
    finally:
        reader.delete_sub("reader")


def _verified(message: bytes, ca_file: str) -> str:
    command = ["openssl", "smime", "-verify", "-CAfile", ca_file, "-purpose", "any", "-text"]
    return subprocess.run(command, input=message, capture_output=True, check=True).stdout.decode()


def test_every_record_of_the_corpus_validates(memory, empty_box, test_data) -> None:
    """The usage records and CARs of a real control directory, as they were received, satisfy the published schemas."""
    site = rehearsal.site(memory, empty_box)
    from arcacct.publishing.run import publish
    from arcacct.publishing.target_run import RunOptions

    found = site.settings()
    outcomes = publish(found, plugins(found), RunOptions(since=1, now=True))
    assert [one.error for one in outcomes] == [None, None]

    before = {path.name for path in pathlib.Path(empty_box.received, "sgas").iterdir()}
    schema = etree.XMLSchema(etree.parse(str(test_data / "xsd" / "gfd98_urf_relaxed_extensions.xsd")))
    newest = max(before)
    document = etree.parse(str(pathlib.Path(empty_box.received, "sgas", newest))).getroot()
    # This host's clients come from 127.0.0.1, which SGAS stores and the schema's pattern does not know.
    schema.assertValid(sgas_rules.without_addresses(document))
    assert len(document) == 35
    cars = [accepted.text for accepted in empty_box.apel.received if accepted.text.startswith("<")]
    schema = etree.XMLSchema(etree.parse(str(test_data / "xsd" / "car_v1.2.xsd")))
    for text in cars:
        schema.assertValid(etree.fromstring(text.encode()))
    assert sum(len(etree.fromstring(text.encode())) for text in cars) == 35
