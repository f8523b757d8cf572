"""OGF usage records, read by SGAS's rules and measured by the schema."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

import pytest
import sgas_rules
from hostile_text import READABLE_JOBS
from hypothesis import HealthCheck, given, settings
from lxml import etree
from record_texts import usage_record

from arcacct import __version__
from arcacct.config.paths import VO
from arcacct.records.model import AAR, VOs
from arcacct.targets.sgas.acceptance import accept_for_sgas
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions

DOCUMENT = UsageRecords.envelope

CREATED = 1_704_198_660
NOW = 1_800_000_000
OPTIONS = UROptions(host="lrms.example.org")
RECORDS = UsageRecords(OPTIONS, can_replace=False)


def row(job: AAR, options: UROptions = OPTIONS) -> dict[str, Any]:
    """What SGAS stores of a job."""
    return sgas_rules.parse(DOCUMENT.join([usage_record(job, options, CREATED)]).encode())[0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("ur.xml", OPTIONS, id="as-jura-ng"),
        pytest.param(
            "ur-doc-lrms-joined.xml",
            OPTIONS._replace(vo_style="doc", start_time_source="lrms", host_style="joined", memory_type="virtual"),
            id="every-choice-the-other-way",
        ),
        pytest.param(
            "ur-prefix-vo-groups.xml",
            OPTIONS._replace(localid_prefix="ce.example.org:", vo_groups=("/atlas/uk", "/extra/prod", "/extra/test")),
            id="prefix-and-extra-groups",
        ),
    ],
)
def test_golden_usage_record(golden: Callable[[str, str], None], job: AAR, name: str, options: UROptions) -> None:
    """A fully described job, byte for byte."""
    golden(name, DOCUMENT.join([usage_record(job, options, CREATED)]).replace(__version__, "VERSION"))


def test_golden_usage_record_of_a_bare_job(golden: Callable[[str, str], None], bare_job: AAR) -> None:
    """A local job of which nothing is known: no empty elements, no zeros, the site's own host."""
    vomsless = OPTIONS._replace(
        vomsless_vo=VOs((VO("dteam", "/DC=ch/CN=voms.example.org"),)), vo_groups=("/dteam/prod",)
    )
    golden("ur-bare.xml", DOCUMENT.join([usage_record(bare_job, vomsless, CREATED)]).replace(__version__, "VERSION"))


def test_sgas_stores_every_column_as_intended(job: AAR) -> None:
    """Nothing is lost, nothing is counted twice, and SGAS keeps the primary host."""
    stored = row(job)
    assert stored["record_id"] == "ur-arc1.example.org-good1"
    assert stored["wall_s"] == 7205
    assert stored["cpu_s"] == 50_321
    assert (stored["UserTime"], stored["KernelTime"]) == (50_000, 321)
    assert stored["host"] == "wn001.example.org"
    assert stored["submit_host"] == "ui.example.org"
    assert stored["local_user"] == "atlasprd"
    assert stored["memory"] == [(4_096_000 * 1024, "shared"), (2_048_000 * 1024, "physical")]
    assert stored["voattributes"] == [("/atlas", "/Role=production"), ("/atlas/uk", None)]
    assert stored["exit_code"] == 0
    assert stored["transfers"] == [
        ("FileDownload", "https://se.example.org/in1", 600, False),
        ("FileDownload", "https://se.example.org/in2", 400, True),
        ("FileUpload", "https://se.example.org/out", 2000, None),
    ]


@pytest.mark.parametrize("kib", [0, 1])
def test_memory_counts_from_the_first_kibibyte(job: AAR, kib: int) -> None:
    """0 is unknown: SGAS gets no element for it."""
    stored = row(job._replace(memory_kib=kib, virtual_memory_kib=kib))
    assert stored["memory"] == [(1024, "shared"), (1024, "physical")] * kib


@pytest.mark.parametrize(
    ("count", "nodes", "cores"),
    [
        pytest.param(-1, None, None, id="impossible"),
        pytest.param(0, None, None, id="unknown"),
        pytest.param(1, 1, 1, id="one"),
        pytest.param(2, 2, 2, id="two"),
        pytest.param(32_767, 32_767, 32_767, id="smallint"),
        pytest.param(32_768, 32_767, 32_768, id="beyond-smallint"),
        pytest.param(2_147_483_647, 32_767, 2_147_483_647, id="integer"),
        pytest.param(2_147_483_648, None, None, id="beyond-integer"),
    ],
)
def test_sgas_stores_the_numbers_of_nodes_and_cores(job: AAR, count: int, nodes: int | None, cores: int | None) -> None:
    """One is a number as any other one; PostgreSQL's smallint has nodes, its integer cores, and 0 is never sent."""

    def counts(node_count: int, core_count: int) -> tuple[int | None, int | None]:
        aar = job._replace(node_count=node_count, core_count=core_count)
        at_once = RECORDS.rendered(aar, NOW)
        text = at_once.text if at_once else RECORDS.text(RECORDS.accept(aar, NOW).aar, NOW)
        stored = sgas_rules.parse(DOCUMENT.join([text]).encode())[0]
        return stored["node_count"], stored["processors"]

    assert counts(count, 8) == (nodes, 8)
    assert counts(0, count) == (None, cores)
    assert counts(count, count) == (nodes, cores)


def test_the_documented_style_names_roles_without_their_key(job: AAR) -> None:
    """`sgas_vo_style=doc`: plain role, nothing for NULL."""
    assert row(job, OPTIONS._replace(vo_style="doc"))["voattributes"] == [("/atlas", "production"), ("/atlas/uk", None)]


def test_start_is_the_batch_systems_only_if_it_is_believable(job: AAR) -> None:
    """Workers write local time with a false Z: a start outside the job's life falls back to submission."""
    lrms = OPTIONS._replace(start_time_source="lrms")
    assert row(job, lrms)["StartTime"] == 1_704_190_800
    assert row(job._replace(lrms_start_time=job.end_time + 3600), lrms)["StartTime"] == 1_704_189_600
    assert row(job)["StartTime"] == 1_704_189_600


def test_joined_hosts_are_whole_names_that_fit(job: AAR) -> None:
    """SGAS cuts a Host at 2700 characters; a name is never cut."""
    names = tuple(f"wn{number:04d}.example.org" for number in range(400))
    stored = row(job._replace(node_names=names), OPTIONS._replace(host_style="joined"))["host"]
    assert len(stored) < 2700
    assert stored.split(",") == list(names[: stored.count(",") + 1])


@pytest.mark.parametrize(
    ("client_host", "stored"),
    [
        pytest.param("ui.example.org:34567", "ui.example.org", id="name"),
        pytest.param("ui:34567", "ui", id="short-name"),
        pytest.param("10.0.0.1:34567", "10.0.0.1", id="ipv4"),
        pytest.param("192.168.101.222:1", "192.168.101.222", id="ipv4-that-looks-like-a-name"),
        pytest.param("[2001:db8::1]:99", "2001:db8::1", id="ipv6"),
        pytest.param("2001:db8::1", "2001:db8::1", id="ipv6-without-a-port"),
        pytest.param("[::ffff:10.0.0.1]:99", "::ffff:10.0.0.1", id="ipv4-in-ipv6"),
        pytest.param("[fe80::1%eth0]:99", None, id="zone"),
        pytest.param("10.0.0.256:1", None, id="no-address"),
        pytest.param("10.0.0:1", None, id="part-of-an-address"),
        pytest.param("my ui:1", None, id="no-name"),
        pytest.param(":1", None, id="port-alone"),
        pytest.param(f"{'u' * 201}:1", None, id="beyond-the-column"),
        pytest.param(None, None, id="unknown"),
    ],
)
def test_submit_host(job: AAR, client_host: str | None, stored: str | None) -> None:
    """Names and addresses of clients, without their port; left out what is neither."""
    assert row(job._replace(client_host=client_host))["submit_host"] == stored


@pytest.mark.parametrize("number", range(0, 2**32, 2**32 // 97))
def test_any_address_is_stored(job: AAR, number: int) -> None:
    """Not only those that the schema's pattern of host names happens to take."""
    address = str(IPv4Address(number))
    assert row(job._replace(client_host=f"{address}:34567"))["submit_host"] == address


@pytest.mark.parametrize(
    ("local_job_id", "stored"),
    [
        pytest.param("4711", "ce:4711", id="prefixed"),
        pytest.param(None, None, id="unknown"),
        pytest.param("", None, id="empty"),
        pytest.param("\x01", "ce:", id="nothing-but-control-characters"),
        pytest.param("x" * 118, None, id="so-long-that-sgas-would-rename-the-record"),
    ],
)
def test_local_job_id(job: AAR, local_job_id: str | None, stored: str | None) -> None:
    """Left out where SGAS would fail at it or give the record another id."""
    result = row(job._replace(local_job_id=local_job_id), OPTIONS._replace(localid_prefix="ce:"))
    assert result["local_job_id"] == stored


def test_an_empty_element_is_never_written_where_sgas_fails_at_one(job: AAR) -> None:
    """Names of nothing but forbidden characters vanish with their element."""
    nothing = "\x00\x0b\ud800"
    hostile = job._replace(
        local_job_id=nothing,
        vo=nothing,
        run_time_environments=(nothing, "ENV/PROXY"),
        transfers=tuple(transfer._replace(url=nothing) for transfer in job.transfers),
    )
    stored = row(hostile)
    assert stored["environments"] == ["ENV/PROXY"]
    assert (stored["local_job_id"], stored["vo_name"], stored["transfers"]) == (None, None, [])


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("ftp://ada:s3cret@se.example.org:2811/f", "ftp://se.example.org:2811/f"),
        ("https://ada:s@cret:x@se.example.org/f@1", "https://se.example.org/f@1"),
        ("https://:s3cret@se.example.org/f?a&b", "https://se.example.org/f"),
        ("https://ada@se.example.org/a:b@c", "https://se.example.org/a:b@c"),
        ("https://s3.example.org/b/f?X-Amz-Date=1&X-Amz-Signature=s3cret", "https://s3.example.org/b/f"),
        ("https://blob.example.org/f?sv=2022&sig=s3cret%3D", "https://blob.example.org/f"),
        ("davs://dcache.example.org:2880/f?authz=s3cret", "davs://dcache.example.org:2880/f"),
        (f"https://se.example.org/f?access_token=s3cret{'x' * 2500}", "https://se.example.org/f"),
        ("srm://se.example.org:8444/v2?SFN=/pnfs/f&authz=s3cret", "srm://se.example.org:8444/v2?SFN=/pnfs/f"),
        ("srm://se.example.org:8444/a@b:c", "srm://se.example.org:8444/a@b:c"),
        ("file:///a:b@c", "file:///a:b@c"),
    ],
)
def test_what_gives_access_in_the_url_of_a_file_is_not_sent(job: AAR, url: str, sent: str) -> None:
    """A user wrote it into his job, A-REX keeps it, and who reads the record could use it."""
    stored = row(job._replace(transfers=(job.transfers[0]._replace(url=url),)))
    (transfer,) = stored["transfers"]
    assert sent in transfer
    assert "s3cret" not in str(stored)


def test_a_signature_is_no_reason_for_a_note(job: AAR) -> None:
    """A URL that fits without its query is not cut, and a record with it is the same as before (no new digest)."""
    signed = job._replace(transfers=(job.transfers[0]._replace(url=f"https://se.example.org/f?sig={'x' * 3000}"),))
    accepted = accept_for_sgas(signed, OPTIONS, NOW)
    assert (accepted.notes, accepted.aar.transfers[0].url) == ((), "https://se.example.org/f")


def test_jobs_without_endpoint_speak_for_the_sites_host(bare_job: AAR) -> None:
    """MachineName and recordId come from `lrms_host`; without one there is no MachineName."""
    assert RECORDS.authorisation_group(bare_job) == "lrms.example.org"
    assert RECORDS.key(bare_job) == "ur-lrms.example.org-bare1"
    assert UsageRecords(UROptions(), can_replace=False).authorisation_group(bare_job) is None


def test_records_are_joined_without_being_formatted_again(job: AAR, bare_job: AAR) -> None:
    """A document is head, records and tail, so a batch can be cut anywhere."""
    records = [usage_record(one, OPTIONS, CREATED) for one in (job, bare_job)]
    assert [stored["global_job_id"] for stored in sgas_rules.parse(DOCUMENT.join(records).encode())] == [
        "good1",
        "bare1",
    ]
    assert DOCUMENT.join([]).startswith("<?xml")


def test_every_usage_record_of_the_real_arex_is_valid(arex_jobs: list[AAR], ur_schema: etree.XMLSchema) -> None:
    """Accepted by our rules without a refusal, valid by the schema, stored by SGAS's rules."""
    verdicts = [accept_for_sgas(job, OPTIONS, NOW) for job in arex_jobs]
    assert [verdict.refusal for verdict in verdicts] == [None] * 35
    text = DOCUMENT.join(usage_record(verdict.aar, OPTIONS, CREATED) for verdict in verdicts).encode()
    ur_schema.assertValid(sgas_rules.without_addresses(etree.fromstring(text)))
    stored = sgas_rules.parse(text)
    assert {"żółć Ω 数据 🚀", "a & b <c> 'q' \"dq\" k=v; x,y %I # \\ back / ]]>"} <= {one["job_name"] for one in stored}
    assert {r"/DC=org/DC=nordugrid/DC=ARC/O=TestCA/CN=Ana Mar\xC3\x83\xC2\xADa O'Neill"} <= {
        one["global_user_name"] for one in stored
    }


def test_record_ids_are_those_that_jura_sent(test_data: pathlib.Path, arex_jobs: list[AAR]) -> None:
    """Byte for byte, so SGAS knows the jobs again that jura-ng has sent."""
    wire = (test_data / "arex" / "wire" / "7-jura-patched-utf8-body" / "035-sgas.xml").read_text(encoding="utf-8")
    sent = set(re.findall(r'urf:recordId="([^"]+)"', wire))
    assert sent
    assert sent <= {RECORDS.key(job) for job in arex_jobs}


def test_the_recommended_document_is_read_as_ours(test_data: pathlib.Path, job: AAR) -> None:
    """The sample that the real SGAS stored as intended and our record of the same job land in the same columns."""
    sample = sgas_rules.parse((test_data / "usage-records" / "good" / "ur.xml").read_bytes())[0]
    ours = row(
        job._replace(
            fqans=("/atlas/Role=production",), run_time_environments=("ENV/PROXY",), transfers=job.transfers[:1]
        ),
        OPTIONS._replace(vo_style="doc", start_time_source="lrms"),
    )
    # Of the two hosts SGAS keeps the last: the sample wrote the primary first, we write it last. We charge nothing.
    # The sample has the query of the URL of a file.
    differences = {name for name in sample if sample[name] != ours[name]}
    assert differences == {"charge", "host", "transfers", "vo_issuer"}


@given(job=READABLE_JOBS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_hostile_names_reach_sgas(ur_schema: etree.XMLSchema, job: AAR) -> None:
    """Whatever users write into names, the document is valid, SGAS takes it, and the figures are right."""
    verdict = accept_for_sgas(job, OPTIONS, NOW)
    assert verdict.refusal is None
    text = DOCUMENT.join([usage_record(verdict.aar, OPTIONS, CREATED)]).encode()
    ur_schema.assertValid(sgas_rules.without_addresses(etree.fromstring(text, etree.XMLParser(huge_tree=True))))
    stored = sgas_rules.parse(text)[0]
    assert (stored["wall_s"], stored["cpu_s"]) == (job.wall_s, job.cpu_s)


@pytest.mark.parametrize("local_id", ["/4711", "\x00/4711", "\ud800/", "4" * 121])
def test_no_id_makes_sgas_rename_a_record(job: AAR, local_id: str) -> None:
    """Not even one that starts with a slash only once what XML cannot carry is gone."""
    verdict = accept_for_sgas(job._replace(local_job_id=local_id), OPTIONS, NOW)

    assert verdict.refusal is None
    assert row(verdict.aar)["local_job_id"] is None
