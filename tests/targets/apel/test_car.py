"""EMI compute accounting records, measured by the schema and read by APEL's rules."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import car_rules
import pytest
from hostile_text import READABLE_JOBS
from hypothesis import HealthCheck, given, settings
from lxml import etree
from record_texts import car

from arcacct import __version__
from arcacct.config.paths import VO
from arcacct.records.model import AAR, VOs
from arcacct.targets.apel.acceptance import accept_for_car
from arcacct.targets.apel.messages import APELOptions, field
from arcacct.targets.apel.target import CAR as CAR_DOCUMENT

CREATED = 1_704_198_660
NOW = 1_800_000_000
OPTIONS = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")


def row(job: AAR, options: APELOptions = OPTIONS) -> dict[str, Any]:
    """What APEL stores of a job."""
    return car_rules.parse(CAR_DOCUMENT.join([car(job, options, CREATED)]))[0]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("car.xml", OPTIONS, id="defaults"),
        pytest.param(
            "car-lrms-prefix.xml", OPTIONS._replace(start_time_source="lrms", localid_prefix="ce1:"), id="choices"
        ),
    ],
)
def test_golden_car(golden: Callable[[str, str], None], job: AAR, name: str, options: APELOptions) -> None:
    """A fully described job, byte for byte."""
    golden(name, CAR_DOCUMENT.join([car(job, options, CREATED)]).replace(__version__, "VERSION"))


def test_golden_car_of_a_bare_job(golden: Callable[[str, str], None], bare_job: AAR) -> None:
    """A local job of which nothing is known, with the site's VO for jobs without VOMS."""
    options = OPTIONS._replace(vomsless_vo=VOs((VO("dteam"),)), vo_groups=("/dteam/prod", "/dteam/other"))
    golden("car-bare.xml", CAR_DOCUMENT.join([car(bare_job, options, CREATED)]).replace(__version__, "VERSION"))


TOKEN_SUBJECT = "https://ce.example.org/arc/testjwt/80531ad/Test User 75029021"


def test_golden_car_of_a_token_job(golden: Callable[[str, str], None], job: AAR) -> None:
    """A job that was submitted with a bearer token and no VOMS attributes."""
    token_job = job._replace(user_dn=TOKEN_SUBJECT, vo="dteam.example.org", fqans=())
    golden("car-token.xml", CAR_DOCUMENT.join([car(token_job, OPTIONS, CREATED)]).replace(__version__, "VERSION"))


@pytest.mark.parametrize(
    ("user", "kind"),
    [
        ("/DC=org/DC=example/CN=Jane Doe", "opensslCompat"),
        ("CN=Jane Doe,O=Example,C=NO", "rfc2253"),
        ("CN = Jane Doe", "rfc2253"),
        ("2.5.4.3=Jane Doe, OID.2.5.4.10=Example", "rfc2253"),
        (TOKEN_SUBJECT, "opensslCompat"),
        ("https://issuer.example.org/?CN=Jane", "opensslCompat"),
        ("withheld", "opensslCompat"),
        ("Łukasz=x", "opensslCompat"),
    ],
)
def test_only_distinguished_names_of_rfc_2253_are_called_so(
    job: AAR, car_schema: etree.XMLSchema, user: str, kind: str
) -> None:
    """The schema knows two words and wants one; a token's subject, or any other name, is no name of RFC 2253."""
    root = etree.fromstring(CAR_DOCUMENT.join([car(job._replace(user_dn=user), OPTIONS, CREATED)]).encode("ascii"))
    car_schema.assertValid(root)
    (name,) = root.iterfind(".//{*}GlobalUserName")
    assert list(name.attrib.values()) == [kind]


def test_golden_cars_are_valid(job: AAR, bare_job: AAR, car_schema: etree.XMLSchema) -> None:
    """Strictly, also with nothing known."""
    car_schema.assertValid(
        etree.fromstring(CAR_DOCUMENT.join(car(one, OPTIONS, CREATED) for one in (job, bare_job)).encode())
    )


def test_apel_stores_every_column_as_intended(job: AAR) -> None:
    """What lands in JobRecords."""
    assert row(job) == {
        "Site": "EXAMPLE-SITE",
        "SubmitHost": "https://arc1.example.org:443/arex",
        "MachineName": "arc1.example.org",
        "Queue": "grid",
        "LocalJobId": "4711",
        "LocalUserId": "atlasprd",
        "GlobalUserName": "/DC=org/DC=example/CN=Test & User",
        "FQAN": "/atlas/Role=production/Capability=NULL",
        "VO": "atlas",
        "VOGroup": "/atlas",
        "VORole": "Role=production",
        "WallDuration": 7205,
        "CpuDuration": 50_321,
        "Processors": 8,
        "NodeCount": 2,
        "ServiceLevelType": "HEPscore23",
        "ServiceLevel": 12.3,
        "StartTime": 1_704_189_600,
        "EndTime": 1_704_198_605,
        "InfrastructureType": "grid",
        "InfrastructureDescription": "JURA-ARC-SLURM",
    }


@pytest.mark.parametrize(
    ("changes", "options", "stored"),
    [
        pytest.param({"fqans": ()}, {}, ("atlas", "/atlas", "Role=NULL"), id="a-vo-without-attributes"),
        pytest.param({"fqans": ("/atlas",)}, {}, ("atlas", "/atlas", "Role=NULL"), id="no-role"),
        pytest.param(
            {"vo": "uk", "fqans": ("/atlas/Role=production",)},
            {},
            ("uk", "/atlas", "Role=production"),
            id="a-vo-that-is-not-the-attributes",
        ),
        pytest.param({"fqans": (), "vo": None}, {}, (None, None, None), id="neither"),
        pytest.param(
            {"fqans": (), "vo": None},
            {"vomsless_vo": VOs((VO("dteam"),))},
            ("dteam", "/dteam", "Role=NULL"),
            id="vomsless",
        ),
        pytest.param(
            {"fqans": (), "vo": None},
            {"vomsless_vo": VOs((VO("dteam"),)), "vo_groups": ("/dteam/prod", "/dteam/b")},
            ("dteam", "/dteam/prod", "Role=NULL"),
            id="vomsless-with-groups",
        ),
        pytest.param(
            {}, {"vo_groups": ("/dteam/prod",)}, ("atlas", "/atlas", "Role=production"), id="attributes-win-over-groups"
        ),
        pytest.param(
            {"endpoint_url": None},
            {"local_group_prefix": "local-"},
            ("local-atlas", "/atlas", "Role=production"),
            id="local-jobs-with-a-prefix",
        ),
    ],
)
def test_vo_group_and_role_as_apel_reads_them(
    job: AAR, changes: dict[str, Any], options: dict[str, Any], stored: tuple[str | None, ...]
) -> None:
    """From the FQAN if there is one, else from Group and the attribute types that APEL reads."""
    result = row(job._replace(**changes), OPTIONS._replace(**options))
    assert (result["VO"], result["VOGroup"], result["VORole"]) == stored


@pytest.mark.parametrize(
    ("local_job_id", "stored"),
    [(None, "good1"), ("", "good1"), ("None", "good1"), ("NULL", "good1"), ("x" * 256, "good1"), ("é", r"\xC3\xA9")],
    ids=["unknown", "empty", "none", "null", "too-long", "not-ascii"],
)
def test_local_job_id_is_never_nothing(job: AAR, local_job_id: str | None, stored: str) -> None:
    """It is part of the key, so the JobID stands in where APEL would read nothing."""
    assert row(job._replace(local_job_id=local_job_id))["LocalJobId"] == stored


def test_jobs_without_endpoint_are_local(bare_job: AAR) -> None:
    """With the batch system's host where grid jobs have their CE."""
    stored = row(bare_job)
    assert (stored["InfrastructureType"], stored["SubmitHost"]) == ("local", "lrms.example.org")


def test_every_car_of_the_real_arex_is_valid(arex_jobs: list[AAR], car_schema: etree.XMLSchema) -> None:
    """Accepted by our rules, strictly valid, read by APEL's parser, all in ASCII."""
    verdicts = [accept_for_car(job, OPTIONS, NOW) for job in arex_jobs]
    assert [verdict.refusal for verdict in verdicts] == [None] * 35
    text = CAR_DOCUMENT.join(car(verdict.aar, OPTIONS, CREATED) for verdict in verdicts)
    car_schema.assertValid(etree.fromstring(text.encode("ascii")))
    assert len(car_rules.parse(text)) == 35


def test_names_survive_the_ascii_road(job: AAR) -> None:
    """Characters beyond ASCII travel as references and are themselves again in the XML parser."""
    root = etree.fromstring(
        CAR_DOCUMENT.join([car(job._replace(job_name="żółć 数据 🚀 & <x>\n"), OPTIONS, CREATED)]).encode("ascii")
    )
    assert root.findtext(".//{*}JobName") == "żółć 数据 🚀 & <x>\n"


def test_the_recommended_document_is_read_as_ours(test_data: pathlib.Path, job: AAR) -> None:
    """The sample that the real APEL parser read as intended and our record of the same job give the same row."""
    sample = car_rules.parse((test_data / "usage-records" / "good" / "car.xml").read_text(encoding="utf-8"))[0]
    assert row(job) == sample


@given(job=READABLE_JOBS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_hostile_names_reach_apel(car_schema: etree.XMLSchema, job: AAR) -> None:
    """Whatever users write into names, the record is strictly valid, APEL takes it, and the figures are right."""
    verdict = accept_for_car(job, OPTIONS, NOW)
    assert verdict.refusal is None
    text = CAR_DOCUMENT.join([car(verdict.aar, OPTIONS, CREATED)])
    car_schema.assertValid(etree.fromstring(text.encode("ascii"), etree.XMLParser(huge_tree=True)))
    stored = car_rules.parse(text)[0]
    assert (stored["WallDuration"], stored["CpuDuration"]) == (job.wall_s, job.cpu_s)
    assert (stored["GlobalUserName"], stored["Queue"]) == (field(job.user_dn, 255), field(job.queue, 100))
    assert all(value.isascii() for value in stored.values() if isinstance(value, str))
