from __future__ import annotations

import json
import time

import pytest
from sandbox_clients import usage_record, usage_records

from arcacct.sandbox import sgas as sandbox_sgas
from arcacct.sandbox.http_server import HTTPRequest, Peer

NOW = int(time.time())
CE = Peer("/O=Sandbox/CN=ce.example.org", "CN=ce.example.org,O=Sandbox", "ce.example.org", NOW - 60, NOW + 86_400)


def post(sgas, document: str | bytes, *, right: str | None = "jobinsert:all", peer: Peer | None = CE):
    """The server's answer to a document, from a client with this right."""
    if right is not None and peer is not None:
        sgas.rights[peer.subject] = right
    body = document.encode() if isinstance(document, str) else document
    return sgas.answer(HTTPRequest("POST", sandbox_sgas.PATH, {}, {}, body, peer))


def row(sgas, body: str, **options):
    """The row of a record with something added."""
    answer = post(sgas, usage_records(usage_record(body=body, **options)))
    assert answer.status == 200, answer.body
    (stored,) = sgas.records.values()
    return stored


def test_the_answer_names_each_record_with_its_row(sgas):
    """200 with a JSON object of record ids to row numbers, wrongly called HTML."""
    answer = post(sgas, usage_records(usage_record("a"), usage_record("b")))
    assert (answer.status, answer.content_type) == (200, "text/html")
    assert json.loads(answer.body) == {"ur-ce.example.org-a": "1", "ur-ce.example.org-b": "2"}


def test_an_empty_document_is_fine(sgas):
    """No records, no ids."""
    assert post(sgas, usage_records()).body == b"{}"


def test_a_single_record_is_a_document(sgas):
    """JobUsageRecord may be the root."""
    alone = usage_record().replace("<JobUsageRecord>", '<JobUsageRecord xmlns="{0}" xmlns:urf="{0}">')
    assert post(sgas, alone.format("http://schema.ogf.org/urf/2003/09/urf")).status == 200


VALUES = {
    "wall": ("", "wall_duration", 60),
    "cpu is summed": ("<CpuDuration>PT1S</CpuDuration><CpuDuration>PT2S</CpuDuration>", "cpu_duration", 3),
    "all counts too": (
        '<CpuDuration urf:usageType="user">PT1S</CpuDuration><CpuDuration urf:usageType="all">PT1S</CpuDuration>',
        "cpu_duration",
        2,
    ),
    "parts of a second are dropped": ("<WallDuration>PT1.9S</WallDuration>", "wall_duration", 1),
    "decimals with a comma": ("<WallDuration>PT1,5H</WallDuration>", "wall_duration", 5400),
    "days and weeks": ("<WallDuration>P1W1DT1S</WallDuration>", "wall_duration", 691201),
    "years are unknown": ("<WallDuration>P1Y</WallDuration>", "wall_duration", None),
    "months are unknown": ("<WallDuration>P1M</WallDuration>", "wall_duration", None),
    "plain seconds are unknown": ("<WallDuration>3600</WallDuration>", "wall_duration", None),
    "last repeated element wins": ("<Queue>a</Queue><Queue>b</Queue>", "queue", "b"),
    "last host wins": ("<Host>a.example.org</Host><Host>b.example.org</Host>", "host", "b.example.org"),
    "long host is cut": (f"<Host>{'x' * 2701}</Host>", "host", "x" * 2699 + "$"),
    "node count alone": ("<NodeCount>4</NodeCount>", "processors", 4),
    "node count beside processors": ("<NodeCount>4</NodeCount><Processors>8</Processors>", "node_count", 4),
    "node count in words": ("<NodeCount>four</NodeCount>", "node_count", None),
    "processors in words": ("<NodeCount>4</NodeCount><Processors>four</Processors>", "processors", None),
    "nodes beside processors in words": ("<NodeCount>4</NodeCount><Processors>four</Processors>", "node_count", 4),
    "last page faults": ("<sgas:MajorPageFaults>1</sgas:MajorPageFaults>" * 2, "major_page_faults", 1),
    "submit host of an IPv6 client": ("<SubmitHost>[2001:db8::1]</SubmitHost>", "submit_host", "[2001:db8::1]"),
    "submit host of an IPv4 client": ("<SubmitHost>192.0.2.7</SubmitHost>", "submit_host", "192.0.2.7"),
    "no processors at all": ("<Processors>0</Processors>", "processors", 0),
    "charge is cut": ("<Charge>12.9</Charge>", "charge", 12),
    "exit code": ("<sgas:ExitCode>271</sgas:ExitCode>", "exit_code", 15),
    "negative exit code": ("<sgas:ExitCode>-1</sgas:ExitCode>", "exit_code", 255),
    "user time": ("<sgas:UserTime>PT7S</sgas:UserTime>", "user_time", 7),
    "submit time": ("<deisa:SubmitTime>2026-01-02T03:04:05Z</deisa:SubmitTime>", "submit_time", 1767323045),
    "start with a zone": ("<StartTime>2026-01-02T05:04:05+02:00</StartTime>", "start_time", 1767323045),
    "start with hours of a zone": ("<StartTime>2026-01-02T05:04:05+02</StartTime>", "start_time", 1767323045),
    "minutes of a zone without colon": ("<StartTime>2026-01-02T05:04:05+0230</StartTime>", "start_time", 1767323045),
    "start without zone": ("<StartTime>2026-01-02T03:04:05</StartTime>", "start_time", 1767323045),
    "start with fractions": ("<StartTime>2026-01-02T03:04:05.9Z</StartTime>", "start_time", 1767323045),
    "start with a blank": ("<StartTime>2026-01-02 03:04:05</StartTime>", "start_time", None),
    "memory in kilobytes": (
        '<Memory urf:storageUnit="KB" urf:metric="max" urf:type="physical">2</Memory>',
        "memory",
        ((2048, "max", "physical"),),
    ),
    "memory of ARC": (
        '<Memory urf:storageUnit="MB" urf:type="virtual">1</Memory>',
        "memory",
        ((1048576, "total", ""),),
    ),
    "memory without unit": ("<Memory>5</Memory>", "memory", ((5, "total", ""),)),
    "memory attributes without namespace": ('<Memory storageUnit="KB">5</Memory>', "memory", ((5, "total", ""),)),
    "run-time environments": (
        "<sgas:RuntimeEnvironment>A</sgas:RuntimeEnvironment><arc:RuntimeEnvironment>B</arc:RuntimeEnvironment>",
        "runtime_environments",
        ("A", "B"),
    ),
    "no transfers": ("<tr:FileTransfers/>", "transfers", ()),
    "unknown elements": ("<Disk>1</Disk><sgas:Nonsense/>", "charge", None),
}


@pytest.mark.parametrize(("body", "column", "value"), VALUES.values(), ids=VALUES)
def test_what_the_database_holds(sgas, body, column, value):
    """Each column is what the real server makes of the element."""
    assert getattr(row(sgas, body), column) == value


def test_a_virtual_organisation(sgas):
    """Name, type, issuer and the pairs of group and role; nothing without a name."""
    vo = (
        '<UserIdentity><LocalUserId>u</LocalUserId><vo:VO vo:type="voms">'
        "<vo:Name>atlas</vo:Name><vo:Issuer>/CN=i</vo:Issuer>"
        "<vo:Attribute><vo:Group>/atlas</vo:Group><vo:Role>production</vo:Role></vo:Attribute>"
        "<vo:Attribute><vo:Group>/atlas/uk</vo:Group></vo:Attribute></vo:VO></UserIdentity>"
    )
    stored = row(sgas, vo)
    assert (stored.vo_name, stored.vo_type, stored.vo_issuer) == ("atlas", "voms", "/CN=i")
    assert stored.vo_attributes == (("/atlas", "production"), ("/atlas/uk", None))
    assert stored.local_user == "u"


NAMED = "<vo:Name>{}</vo:Name><vo:Issuer>{}</vo:Issuer>"


@pytest.mark.parametrize(
    ("vos", "name", "issuer"),
    [
        (f"<vo:VO>{NAMED.format('atlas', '/CN=a')}{NAMED.format('cms', '/CN=b')}</vo:VO>", "cms", "/CN=b"),
        ("<vo:VO><vo:Name>atlas</vo:Name></vo:VO><vo:VO><vo:Name>cms</vo:Name></vo:VO>", "cms", None),
        ("<vo:VO><vo:Name>atlas</vo:Name><vo:Name/></vo:VO>", None, None),
    ],
    ids=["in one VO", "in two", "the last is empty"],
)
def test_a_name_twice(sgas, vos, name, issuer):
    """The server keeps the last of what is there twice."""
    stored = row(sgas, f"<UserIdentity>{vos}</UserIdentity>")

    assert (stored.vo_name, stored.vo_issuer) == (name, issuer)


def test_a_virtual_organisation_without_a_name_is_dropped(sgas):
    """Without vo:Name neither issuer nor groups are stored."""
    vo = "<vo:VO><vo:Issuer>i</vo:Issuer><vo:Attribute><vo:Group>g</vo:Group></vo:Attribute></vo:VO>"
    stored = row(sgas, f"<UserIdentity>{vo}</UserIdentity>")
    assert (stored.vo_issuer, stored.vo_attributes) == (None, ())


def test_transfers(sgas):
    """Downloads and uploads with size, times and cache."""
    (transfer,) = row(
        sgas,
        "<tr:FileTransfers><tr:FileDownload><tr:URL>gsiftp://a/b?c=1&amp;d</tr:URL><tr:Size>12</tr:Size>"
        "<tr:StartTime>2026-01-02T03:04:05Z</tr:StartTime><tr:BypassCache>false</tr:BypassCache>"
        "<tr:RetrievedFromCache>1</tr:RetrievedFromCache></tr:FileDownload></tr:FileTransfers>",
    ).transfers
    assert transfer == ("download", "gsiftp://a/b?c=1&d", 12, 1767323045, None, False, True)


DOWNLOAD = "<tr:FileTransfers><tr:FileDownload><tr:URL>gsiftp://a/b</tr:URL>{}</tr:FileDownload></tr:FileTransfers>"


@pytest.mark.parametrize(
    ("word", "cached"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False), ("yes", None)]
)
def test_the_words_for_the_cache(sgas, word, cached):
    """Two spellings of each are known, in any case; another word is nothing."""
    body = DOWNLOAD.format(f"<tr:RetrievedFromCache>{word}</tr:RetrievedFromCache>")
    assert row(sgas, body).transfers[0].from_cache is cached


FAILED = {
    "not well-formed": usage_records(usage_record(body="<Queue>a & b</Queue>")),
    "not utf-8": usage_records(usage_record(body="<JobName>é</JobName>")).encode("latin-1"),
    "compressed": b"\x1f\x8b\x08\x00",
    "another root": "<UsageRecords/>",
    "another child": usage_records("<UsageRecord/>"),
    "no machine": usage_records(usage_record(drop="MachineName")),
    "no identity": usage_records(usage_record(drop="RecordIdentity")),
    "createTime without namespace": usage_records(usage_record()).replace("urf:createTime", "createTime"),
    "empty local id": usage_records(usage_record()).replace("<LocalJobId>17</LocalJobId>", "<LocalJobId/>"),
    "empty wall": usage_records(usage_record(body="<WallDuration/>")),
    "empty processors": usage_records(usage_record(body="<NodeCount>4</NodeCount><Processors/>")),
    "empty node count": usage_records(usage_record(body="<NodeCount/><Processors>4</Processors>")),
    "empty end": usage_records(usage_record(body="<EndTime/>")),
    "empty end before a good one": usage_records(
        usage_record(drop="EndTime", body="<EndTime/><EndTime>2026-01-02T03:04:00Z</EndTime>")
    ),
    "empty start": usage_records(usage_record(body="<StartTime></StartTime>")),
    "empty charge": usage_records(usage_record(body="<Charge/>")),
    "empty word for the cache": usage_records(usage_record(body=DOWNLOAD.format("<tr:RetrievedFromCache/>"))),
    "empty size": usage_records(usage_record(body=DOWNLOAD.format("<tr:Size/>"))),
    "two exit codes": usage_records(usage_record(body="<sgas:ExitCode>0</sgas:ExitCode>" * 2)),
    "empty exit code": usage_records(usage_record(body="<sgas:ExitCode/>")),
    "exit code in words": usage_records(usage_record(body="<sgas:ExitCode>one</sgas:ExitCode>")),
    "charge in words": usage_records(usage_record(body="<Charge>free</Charge>")),
    "one unreadable cpu of two": usage_records(
        usage_record(body="<CpuDuration>PT1S</CpuDuration><CpuDuration>5</CpuDuration>")
    ),
    "memory in words": usage_records(usage_record(body="<Memory>much</Memory>")),
}


@pytest.mark.parametrize("document", FAILED.values(), ids=FAILED)
def test_failures_before_the_database(sgas, document):
    """500 with 95 bytes of HTML that say nothing."""
    answer = post(sgas, document)
    assert (answer.status, answer.body.decode()) == (500, sandbox_sgas.PROCESSING_FAILED)
    assert len(sandbox_sgas.PROCESSING_FAILED) == 95
    assert sgas.records == {}


REFUSED = {
    "long group": (
        "<UserIdentity><vo:VO><vo:Name>a</vo:Name><vo:Attribute><vo:Group>"
        + "x" * 101
        + "</vo:Group></vo:Attribute></vo:VO></UserIdentity>",
        "varying(100)",
    ),
    "groups too long together": (
        "<UserIdentity><vo:VO><vo:Name>a</vo:Name><vo:Attribute>"
        + f"<vo:Group>{'x' * 60}</vo:Group>" * 2
        + "</vo:Attribute></vo:VO></UserIdentity>",
        "varying(100)",
    ),
    "many nodes": ("<NodeCount>32768</NodeCount><Processors>1</Processors>", "smallint out of range"),
    "long wall": ("<WallDuration>PT2147483648S</WallDuration>", "integer out of range"),
    "metric": ('<Memory urf:metric="peak">1</Memory>', "'SgasMemory' object has no attribute 'metric'"),
    "bits": ('<Memory urf:storageUnit="Kb">1</Memory>', "invalid input"),
    "empty environment": ("<arc:RuntimeEnvironment/>", "null value"),
    "transfer without url": (
        "<tr:FileTransfers><tr:FileUpload><tr:Size>1</tr:Size></tr:FileUpload></tr:FileTransfers>",
        "null value",
    ),
    "empty transfer": ("<tr:FileTransfers><tr:FileDownload/></tr:FileTransfers>", "lower bound of FOR loop"),
}


@pytest.mark.parametrize(("body", "words"), REFUSED.values(), ids=REFUSED)
def test_refusals_of_the_database(sgas, body, words):
    """500 with the database's text, and the good neighbour of the bad record is not stored either."""
    answer = post(sgas, usage_records(usage_record("good"), usage_record("bad", body=body)))
    assert answer.status == 500
    assert words in answer.body.decode()
    assert sgas.records == {}


@pytest.mark.parametrize(
    ("changed", "words"),
    [("urf:recordId=", "record_id"), ("2026-01-02T03:04:05Z", "create_time")],
    ids=["no record id", "createTime that is none"],
)
def test_columns_that_must_not_be_null(sgas, changed, words):
    """A record without id, or whose createTime cannot be read, fails in the database."""
    document = usage_records(usage_record()).replace(changed, changed.upper() if "=" in changed else "yesterday")
    answer = post(sgas, document.replace("URF:RECORDID=", "urf:other="))
    assert answer.status == 500
    assert f'null value in column "{words}"' in answer.body.decode()


def test_a_repeat_is_ignored(sgas):
    """A corrected record changes nothing: same answer, old row, old values."""
    first = post(sgas, usage_records(usage_record(body="<Queue>old</Queue>")))
    second = post(sgas, usage_records(usage_record(body="<Queue>new</Queue>")))
    assert first.body == second.body
    assert sgas.records["ur-ce.example.org-job1"].queue == "old"
    assert sgas.ignored_repeats == 1


def test_a_repeat_within_a_document(sgas):
    """Twice in one document is once in the database and in the answer."""
    answer = post(sgas, usage_records(usage_record(body="<Queue>a</Queue>"), usage_record(body="<Queue>b</Queue>")))
    assert json.loads(answer.body) == {"ur-ce.example.org-job1": "1"}
    assert sgas.records["ur-ce.example.org-job1"].queue == "a"


def test_another_job_under_the_same_id_replaces(sgas):
    """With another GlobalJobId the row is replaced."""
    post(sgas, usage_records(usage_record()))
    other = usage_record(body="<Queue>new</Queue>").replace("<GlobalJobId>job1", "<GlobalJobId>job2")
    assert json.loads(post(sgas, usage_records(other)).body) == {"ur-ce.example.org-job1": "2"}
    assert sgas.records["ur-ce.example.org-job1"].queue == "new"


def test_a_row_with_environments_cannot_be_replaced(sgas):
    """Its children hold the old row fast: 500."""
    post(sgas, usage_records(usage_record(body="<arc:RuntimeEnvironment>A</arc:RuntimeEnvironment>")))
    other = usage_record().replace("<GlobalJobId>job1", "<GlobalJobId>job2")
    answer = post(sgas, usage_records(other))
    assert answer.status == 500
    assert b"foreign key" in answer.body


@pytest.mark.parametrize("local_id", ["/a/path", "x" * 121], ids=["path", "long"])
def test_an_odd_local_id_renames_the_record(sgas, local_id):
    """The LocalJobId is dropped, and the record known by its GlobalJobId, also in the answer."""
    document = usage_records(usage_record()).replace("<LocalJobId>17<", f"<LocalJobId>{local_id}<")
    assert json.loads(post(sgas, document).body) == {"job1": "1"}
    assert sgas.records["job1"].local_job_id is None


@pytest.mark.parametrize(
    ("right", "machine", "status"),
    [
        ("jobinsert", "ce.example.org", 200),
        ("jobinsert", "other.example.org", 200),
        ("jobinsert", "ce.example.com", 406),
        ("jobinsert:all", "ce.example.com", 200),
        ("jobinsert:machine_name=a.b;c.d", "c.d", 200),
        ("jobinsert:machine_name=a.b;c.d", "ce.example.org", 406),
        (None, "ce.example.org", 403),
    ],
)
def test_rights(sgas, right, machine, status):
    """Which machines a client may report for, by its line in the authz file."""
    assert post(sgas, usage_records(usage_record(machine=machine)), right=right).status == status


def test_a_forbidden_machine_names_all_of_the_document(sgas):
    """406 lists every machine, the allowed ones too, and nothing is stored."""
    document = usage_records(usage_record(machine="a.example.org"), usage_record(machine="b.example.com"))
    answer = post(sgas, document, right="jobinsert")
    assert answer.body.decode().endswith("for machines: a.example.org,b.example.com")
    assert sgas.records == {}


def test_without_rights_the_document_is_not_read(sgas):
    """403 comes before any complaint about the document, and names the subject."""
    answer = post(sgas, b"nonsense", right=None)
    assert answer.body.decode() == f"Rejecting job usage insert for {CE.subject}. No insert rights."


def test_a_certificate_without_domain_fails(sgas):
    """A common name without a dot breaks the check of machines: 500 on any record."""
    plain = CE._replace(common_name="localhost")
    assert post(sgas, usage_records(usage_record()), right="jobinsert", peer=plain).status == 500
    assert post(sgas, usage_records(), right="jobinsert", peer=plain).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/sgas/ur/", 404),
        ("POST", "/logger", 404),
        ("POST", "/sgas", 405),
        ("GET", "/sgas/ur", 405),
        ("PUT", "/sgas/ur", 501),
        ("GET", "/sgas", 200),
    ],
)
def test_paths_and_methods(sgas, method, path, status):
    """Only POST of the exact path inserts."""
    answer = sgas.answer(HTTPRequest(method, path, {}, {"host": "h:1"}, b"", CE))
    assert answer.status == status
    if status == 405 and path == sandbox_sgas.PATH:
        assert answer.headers == (("Allow", "HEAD, POST"),)
    if status == 200:
        assert b"<href>https://h:1/sgas/ur</href>" in answer.body


def test_the_largest_document(sgas):
    """Above two megabytes nginx answers 413."""
    big = usage_records(usage_record(body="<Nonsense>" + "x" * 2 * 1024 * 1024 + "</Nonsense>"))
    assert post(sgas, big).status == 413


@pytest.mark.parametrize(
    ("peer", "words"),
    [(None, b"No required SSL certificate"), (CE._replace(not_after=NOW - 1), b"SSL certificate error")],
    ids=["none", "expired"],
)
def test_certificates(sgas, peer, words):
    """Without a certificate, or with one that is over, nginx answers 400."""
    answer = post(sgas, usage_records(), peer=peer)
    assert answer.status == 400
    assert words in answer.body


def test_real_documents(sgas, test_data):
    """The recommended record is stored whole; jura's captured ones are stored or fail as on the real server."""
    assert post(sgas, (test_data / "usage-records/good/ur.xml").read_bytes()).status == 200
    (good,) = sgas.records.values()
    assert None not in {good.vo_name, good.exit_code, good.submit_time, good.cpu_duration, good.host}
    assert good.transfers
    assert {memory.type for memory in good.memory} <= {"shared", "physical"}
    answers = {path.stem: post(sgas, path.read_bytes()).status for path in test_data.glob("usage-records/arc_ur_*.xml")}
    failing = {name for name, status in answers.items() if status == 500}
    assert failing == {"arc_ur_escape", "arc_ur_vogroup", "arc_ur_badfqan"}
    for path in test_data.glob("arex/wire/*/*-sgas.xml"):
        assert post(sgas, path.read_bytes()).status in {200, 500}, path
