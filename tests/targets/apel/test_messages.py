"""APEL's individual job messages, read by a strict parser of the receiver's rules."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import apel_rules
import pytest
from apel_message import message
from hostile_text import READABLE_JOBS, TEXT
from hypothesis import HealthCheck, given, settings
from record_texts import individual_job

from arcacct.benchmark import Benchmark
from arcacct.config.paths import VO
from arcacct.errors import InputError
from arcacct.records.model import AAR, VOs
from arcacct.sandbox import apel
from arcacct.targets.apel.acceptance import accept_for_apel_job
from arcacct.targets.apel.messages import JOB_HEADERS, APELOptions, JobKey, field, folded, job_key
from arcacct.targets.apel.target import APELRecords
from arcacct.targets.common import ascii_text

NOW = 1_800_000_000
OPTIONS = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")
VERSIONS = [pytest.param("v0.3", id="v0.3"), pytest.param("v0.4", id="v0.4")]


def text_of(job: AAR, options: APELOptions = OPTIONS, version: str = "v0.3") -> str:
    """One message with one job."""
    return message(JOB_HEADERS[version], [individual_job(job, options, version)])


def row(job: AAR, options: APELOptions = OPTIONS, version: str = "v0.3") -> dict[str, Any]:
    """What APEL reads of a job."""
    return apel_rules.parse(text_of(job, options, version), NOW)[1][0]


@pytest.mark.parametrize("version", VERSIONS)
def test_golden_job_message(golden: Callable[[str, str], None], job: AAR, bare_job: AAR, version: str) -> None:
    """A grid job of which all is known and a local one of which nothing is, byte for byte."""
    records = [individual_job(one, OPTIONS, version) for one in (job, bare_job)]
    golden(f"job-{version}.msg", message(JOB_HEADERS[version], records))


def test_golden_job_message_in_the_seeds_dialect(golden: Callable[[str, str], None], job: AAR, bare_job: AAR) -> None:
    """The format's document to the letter: Infrastructure and SubmitHostType, no field that it does not name."""
    seed = OPTIONS._replace(dialect="seed")
    golden("job-seed.msg", message(JOB_HEADERS["v0.3"], [individual_job(one, seed) for one in (job, bare_job)]))


def test_the_seeds_dialect_is_not_for_the_server(job: AAR) -> None:
    """Today's server rejects it whole, which is why it is an option and not the default."""
    with pytest.raises(apel_rules.Rejected, match="Unknown field: Infrastructure"):
        row(job, OPTIONS._replace(dialect="seed"))


@pytest.mark.parametrize(("version", "level"), [("v0.3", 12.3), ("v0.4", ("hepscore23", 12.3))], ids=["v0.3", "v0.4"])
def test_apel_reads_every_value_as_intended(job: AAR, version: str, level: object) -> None:
    """What lands in JobRecords."""
    expected = {
        "Site": "EXAMPLE-SITE",
        "SubmitHost": "https://arc1.example.org:443/arex",
        "MachineName": "arc1.example.org",
        "Queue": "grid",
        "LocalJobId": "4711",
        "LocalUserId": "atlasprd",
        "GlobalUserName": "/DC=org/DC=example/CN=Test & User",
        "FQAN": "/atlas/Role=production/Capability=NULL",
        "WallDuration": 7205,
        "CpuDuration": 50_321,
        "Processors": 8,
        "NodeCount": 2,
        "StartTime": 1_704_189_600,
        "EndTime": 1_704_198_605,
        "InfrastructureDescription": "ARC-SLURM",
        "InfrastructureType": "grid",
        "MemoryReal": 2_048_000,
        "MemoryVirtual": 4_096_000,
        "ServiceLevel": level,
    }
    if version == "v0.3":
        expected["ServiceLevelType"] = "HEPscore23"
    assert row(job, version=version) == expected


def test_unknown_optional_values_are_left_out(bare_job: AAR) -> None:
    """But the counts, which the database cannot do without, are always there."""
    stored = row(bare_job)
    assert stored["InfrastructureType"] == "local"
    assert stored["SubmitHost"] == "lrms.example.org"
    assert stored["LocalJobId"] == "bare1"
    assert (stored["NodeCount"], stored["Processors"]) == (0, 0)
    assert (stored["ServiceLevelType"], stored["ServiceLevel"]) == ("HEPSPEC", 1.0)
    assert not {"Queue", "GlobalUserName", "FQAN", "VO", "MemoryReal", "LocalUserId"} & set(stored)


@pytest.mark.parametrize(
    ("changes", "options", "stored"),
    [
        pytest.param({}, {}, ("/atlas/Role=production/Capability=NULL", None, None, None), id="fqan-alone"),
        pytest.param({"fqans": ("/atlas",)}, {}, ("/atlas/Role=NULL", None, None, None), id="no-role"),
        pytest.param(
            {"fqans": ("/atlas/Capability=NULL",)},
            {},
            ("/atlas/Role=NULL/Capability=NULL", None, None, None),
            id="no-role-but-a-capability",
        ),
        pytest.param({"vo": "uk"}, {}, (None, "uk", "/atlas", "Role=production"), id="a-vo-that-is-not-the-attributes"),
        pytest.param({"fqans": ()}, {}, (None, "atlas", "/atlas", "Role=NULL"), id="vo-alone"),
        pytest.param(
            {"fqans": (), "vo": None},
            {"vomsless_vo": VOs((VO("dteam"),)), "vo_groups": ("/dteam/prod",)},
            (None, "dteam", "/dteam/prod", "Role=NULL"),
            id="vomsless",
        ),
        pytest.param(
            {"fqans": ("/atlas/" + "g" * 300 + "/Role=production",)},
            {},
            (
                None,
                "atlas",
                "/atlas/" + "g" * 235 + "~" + hashlib.sha256(b"/atlas/" + b"g" * 300).hexdigest()[:12],
                "Role=production",
            ),
            id="too-long-for-one-field-keeps-its-role",
        ),
        pytest.param(
            {"endpoint_url": None},
            {"local_group_prefix": "local-"},
            (None, "local-atlas", "/atlas", "Role=production"),
            id="local-with-a-prefix",
        ),
    ],
)
def test_membership(job: AAR, changes: dict[str, Any], options: dict[str, Any], stored: tuple[str | None, ...]) -> None:
    """The FQAN where there is one, else VO, group and role."""
    result = row(job._replace(**changes), OPTIONS._replace(**options))
    assert tuple(result.get(name) for name in ("FQAN", "VO", "VOGroup", "VORole")) == stored


def test_a_benchmark_that_apel_refuses_is_not_guessed_silently(job: AAR) -> None:
    """Taking the default in its place is for `acceptance`, which notes it: it changes the account of the month."""
    with pytest.raises(InputError, match="SPECint"):
        individual_job(job._replace(benchmark="SPECint:10"), OPTIONS)


@pytest.mark.parametrize("sample", ["good_job_v03.msg", "seed_summary_v03_fixed.msg", "seed_sync_v01.msg"])
def test_the_strict_parser_takes_what_the_real_loader_took(test_data: pathlib.Path, sample: str) -> None:
    """Messages that the live database accepted are accepted by the rules of these tests."""
    kind, records = apel_rules.parse((test_data / "apel" / sample).read_text(encoding="ascii"), NOW)
    assert kind in ("job", "normalised", "sync")
    assert len(records) == 1


@pytest.mark.parametrize("sample", ["seed_job_v03_infrastructure.msg", "seed_summary_v03.msg"])
def test_the_strict_parser_refuses_what_the_real_loader_refused(test_data: pathlib.Path, sample: str) -> None:
    """Messages that the live loader rejected are rejected by the rules of these tests."""
    with pytest.raises(apel_rules.Rejected, match="Unknown field"):
        apel_rules.parse((test_data / "apel" / sample).read_text(encoding="ascii"), NOW)


def test_our_job_is_written_as_the_accepted_sample(test_data: pathlib.Path, job: AAR) -> None:
    """The same fields in the same order as the message that the live database accepted."""
    sample = (test_data / "apel" / "good_job_v03.msg").read_text(encoding="ascii")
    assert re.findall("^[A-Za-z]+:", text_of(job), re.MULTILINE) == re.findall("^[A-Za-z]+:", sample, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        pytest.param("Jörg", r"J\xC3\xB6rg", id="umlaut"),
        pytest.param(r"J\xC3\xB6rg", r"J\xC3\xB6rg", id="openssl-has-escaped-it-already"),
        pytest.param("a\nSite: fake", r"a\x0ASite: fake", id="no-line-can-be-added"),
        pytest.param("a\x0b\x1c\x7f", r"a\x0B\x1C\x7F", id="control-characters"),
        pytest.param("a\u2028\x85", r"a\xE2\x80\xA8\xC2\x85", id="unicode-line-ends"),
        pytest.param("50%%", r"50%\x25", id="record-separator"),
        pytest.param("%%%", r"%\x25%", id="three-percent-signs"),
        pytest.param("application/pkcs7-mime", r"application/pkcs7\x2Dmime", id="what-ssm-would-decrypt"),
        pytest.param("\udce9", r"\xE9", id="a-byte-that-was-not-utf8"),
        pytest.param("\ud800", r"\xED\xA0\x80", id="half-a-pair"),
    ],
)
def test_values_are_printable_ascii(text: str, written: str) -> None:
    r"""Everything else is written as \xHH, one for each byte of UTF-8."""
    assert ascii_text(text) == written


@given(TEXT.filter(lambda text: "\\" not in text and not re.search("[\ud800-\udfff]", text)))
def test_escaped_text_can_be_read_back(text: str) -> None:
    """No character is lost: undoing the escapes gives the text."""
    assert apel_rules.unescaped(ascii_text(text)) == text


@given(TEXT)
def test_a_field_fits_its_column(text: str) -> None:
    """Printable ASCII, no blanks around it, not longer than the column, and no half escape at its end."""
    value = field(text, 20)
    if value is not None:
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()
        assert 0 < len(value) <= 20
        assert field(value, 20) == value


def test_long_names_that_begin_alike_stay_apart() -> None:
    """Users of one long organisation whose letters are escaped; in any case, as the receiver compares them."""
    users = [f"/DC=org/O=Zażółć gęślą jaźń Żółw Ćma/OU={'数据' * 20}/CN=user {number}" for number in range(2500)]

    stored = {folded(field(user, 255)) for user in users}

    assert len(stored) == 2500
    assert {len(one) <= 255 and one.isascii() for one in stored} == {True}
    assert folded(field("/CN=" + "X" * 300, 255)) == folded(field("/CN=" + "x" * 300, 255))


def test_a_cut_never_halves_an_escape() -> None:
    """Half an escape would be read as text."""
    assert [field("é" * 9, limit) for limit in (8, 9, 10, 11, 12)] == [*[r"\xC3\xA9"] * 4, r"\xC3\xA9\xC3"]


@given(job=READABLE_JOBS)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_hostile_names_reach_apel(job: AAR) -> None:
    """Whatever users write into names, the message parses back to the same numbers and the same texts."""
    verdict = accept_for_apel_job(job, OPTIONS, NOW)
    assert verdict.refusal is None
    for version in ("v0.3", "v0.4"):
        stored = row(verdict.aar, version=version)
        assert (stored["WallDuration"], stored["CpuDuration"]) == (job.wall_s, job.cpu_s)
        assert (stored["EndTime"], stored["Processors"], stored["NodeCount"]) == (
            job.end_time,
            job.core_count,
            job.node_count,
        )
        assert stored.get("GlobalUserName") == field(job.user_dn, 255)
        assert stored.get("Queue") == field(job.queue, 100)


def test_every_job_of_the_real_arex_is_read(arex_jobs: list[AAR]) -> None:
    """One message with all jobs, each with its own key."""
    jobs = [accept_for_apel_job(job, OPTIONS, NOW).aar for job in arex_jobs]
    kind, records = apel_rules.parse(message(JOB_HEADERS["v0.3"], [individual_job(job, OPTIONS) for job in jobs]), NOW)
    assert len({apel_rules.key_of(kind, record) for record in records}) == 35
    assert sum(record["WallDuration"] for record in records) == sum(job.wall_s for job in arex_jobs)


@pytest.mark.parametrize("kind", ["individual", "individual-v04", "car"])
@pytest.mark.parametrize("prefix", ["", "CE1:"], ids=["plain", "prefixed"])
@pytest.mark.parametrize("local_job_id", [None, "4711", "X-é", "none"])
@pytest.mark.parametrize("change", [{}, {"fqans": ()}, {"user_dn": None, "vo": None, "fqans": ()}, {"node_count": 0}])
def test_zeros_stay_in_the_group_of_what_was_sent(
    job: AAR, local_job_id: str | None, prefix: str, kind: str, change: dict[str, Any]
) -> None:
    """APEL puts the record with zeros in place of what was sent, in the same group, whatever the job is now."""
    records = APELRecords(kind, OPTIONS._replace(localid_prefix=prefix))
    first = job._replace(local_job_id=local_job_id, **change)
    envelope = records.envelope
    (was,) = apel.read(envelope.join([records.text(first, NOW)]), NOW)
    (now,) = apel.read(envelope.join([records.zeros(records.key(first), records.names(first), NOW)]), NOW)
    assert apel.key(now) == apel.key(was)
    (group_before,), (group_now,) = (list(apel.hybrid_rows([one.values], [], [])) for one in (was, now))
    usage = {"WallDuration", "CpuDuration", "NormalisedWallDuration", "NormalisedCpuDuration"}
    same = group_before.keys() - usage - {"EarliestEndTime", "LatestEndTime"}
    assert {name: group_now[name] for name in same} == {name: group_before[name] for name in same}
    assert {group_now[name] for name in usage} == {0}


@pytest.mark.parametrize(
    ("dialect", "fields"), [(OPTIONS.dialect, ["VO", "VOGroup", "VORole"]), ("seed", ["FQAN"])], ids=["server", "seed"]
)
def test_zeros_name_the_group_in_the_fields_of_the_dialect(job: AAR, dialect: str, fields: list[str]) -> None:
    """Each dialect has its own."""
    records = APELRecords("individual", OPTIONS._replace(dialect=dialect))
    zeros = records.zeros(records.key(job), records.names(job), NOW)
    assert [
        name for name in re.findall("^([A-Za-z]+):", zeros, re.MULTILINE) if name.startswith(("VO", "FQ"))
    ] == fields


def test_the_key_of_an_end_that_is_no_number_can_be_read(job: AAR) -> None:
    """A damaged database may have a text there."""
    records = APELRecords("individual", OPTIONS)
    assert json.loads(records.key(job._replace(end_time='12"')))[2] == '12"'


@pytest.mark.parametrize("kind", ["individual", "individual-v04", "car"])
def test_a_group_without_jobs_has_a_record_of_its_own(job: AAR, kind: str) -> None:
    """Its ID is of no batch system, and always the same for a group; other names are another group."""
    records = APELRecords(kind, OPTIONS)
    names = records.names(job)
    local_id, key = records.group_record(names, job.end_time)
    (row,) = apel.read(records.envelope.join([records.zeros(key, names, NOW)]), NOW)
    assert row.values["LocalJobId"] == local_id
    assert local_id.startswith("arcacct-zero-")
    spelt = tuple(one.upper() if isinstance(one, str) else one for one in names)
    assert records.group_record(spelt, job.end_time) == (local_id, key)
    assert records.group_record((*names[:-1], 77), job.end_time)[0] != local_id


@pytest.mark.parametrize(
    ("local_job_id", "prefix", "stored"),
    [
        pytest.param("4711", "ce1:", "ce1:4711", id="prefixed"),
        pytest.param(None, "ce1:", "good1", id="unknown"),
        pytest.param("none", "ce1:", "good1", id="nothing"),
        pytest.param("ne", "no", "good1", id="nothing-once-joined"),
        pytest.param("4" * 251, "ce1:", "ce1:" + "4" * 251, id="fits"),
        pytest.param("4" * 252, "ce1:", "good1", id="too-long-with-the-prefix"),
        pytest.param("é" * 32, "", "good1", id="too-long-once-escaped"),
    ],
)
def test_local_job_id(job: AAR, local_job_id: str | None, prefix: str, stored: str) -> None:
    """Never nothing and never cut, which could make two jobs one: the JobID stands in."""
    assert row(job._replace(local_job_id=local_job_id), OPTIONS._replace(localid_prefix=prefix))["LocalJobId"] == stored


def test_job_keys_compare_as_the_database_does(job: AAR) -> None:
    """Letters' case and trailing blanks make no difference there."""
    one = job_key(job._replace(local_job_id="Job-A "), OPTIONS._replace(site="Site"))
    assert (
        one
        == job_key(job._replace(local_job_id="job-a"), OPTIONS._replace(site="SITE"))
        == JobKey("site", "job-a", job.end_time)
    )


def test_the_default_benchmark_is_the_sites(job: AAR) -> None:
    """For jobs that have none of their own."""
    stored = row(job._replace(benchmark=None), OPTIONS._replace(default_benchmark=Benchmark.parse("HEPscore23:17.5")))
    assert (stored["ServiceLevelType"], stored["ServiceLevel"]) == ("HEPscore23", 17.5)
