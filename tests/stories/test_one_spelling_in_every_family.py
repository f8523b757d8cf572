"""One spelling of users, groups and places: whatever family a month is sent in, APEL sums it under the same keys."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import stored_jobs
from apel_message import message
from hostile_text import READABLE_JOBS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_texts import car, individual_job

from arcacct.config.paths import VO
from arcacct.records.model import AAR, VOs
from arcacct.sandbox import apel
from arcacct.targets.apel.acceptance import accept_cell, accept_for_apel_job, accept_for_car
from arcacct.targets.apel.messages import JOB_HEADERS, APELOptions
from arcacct.targets.apel.summaries import SUMMARY_HEADERS, summaries, summary_record
from arcacct.targets.apel.target import CAR as CAR_DOCUMENT

NOW = 1_710_000_000
OPTIONS = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")
CHOICES = st.builds(
    lambda host, vomsless, groups, prefix: OPTIONS._replace(
        lrms_host=host, vomsless_vo=vomsless, vo_groups=groups, local_group_prefix=prefix
    ),
    st.sampled_from([None, "lrms.example.org", "none"]),
    st.sampled_from([VOs(), VOs((VO("dteam"),)), VOs((VO("null"),))]),
    st.sampled_from([(), ("/dteam/prod",), ("/dteam/ü",)]),
    st.sampled_from(["", "local-"]),
)
BENCHMARKS = st.sampled_from([None, "HEPSPEC:12.26", "hepscore23 10.0005", "HS06:10", "Si2k:3065"])
NOT_IN_SUMMARY: dict[str, set[str]] = {
    "summaries-v03": {"ServiceLevelType", "ServiceLevel"},
    "normalised-v04": {"ServiceLevel"},
}
"""Of benchmarks the summaries of normalised sums have the type alone, and v0.3 not even that."""
WHO_AND_WHERE = (
    "Site", "GlobalUserName", "VO", "VOGroup", "VORole", "SubmitHost", "InfrastructureType", "ServiceLevelType",
    "ServiceLevel", "NodeCount", "Processors",
)  # fmt: skip


def key_of(values: dict[str, Any]) -> dict[str, Any]:
    """What APEL's summariser groups by, as MySQL compares it: no case, no blanks at the end, three decimals."""
    values = {"InfrastructureType": values.get("Infrastructure"), **values}
    key = {name: values.get(name) for name in WHO_AND_WHERE}
    for name, value in key.items():
        if isinstance(value, str):
            key[name] = value.rstrip(" ").lower()
    if key["ServiceLevel"] is not None:
        key["ServiceLevel"] = Decimal(str(key["ServiceLevel"])).quantize(Decimal("0.001"))
    return key


def keys_of_records(job: AAR, options: APELOptions) -> dict[str, dict[str, Any]]:
    """The key of a job in each family of job records, as the rehearsal's receiver reads it."""
    xml = accept_for_car(job, options, NOW).aar
    texts = {"car": apel.read(CAR_DOCUMENT.join([car(xml, options, NOW)]))}
    for version, header in JOB_HEADERS.items():
        aar = accept_for_apel_job(job, options, NOW).aar
        texts[version] = apel.read(message(header, [individual_job(aar, options, version)]))
    return {family: key_of(record.values) for family, (record,) in texts.items()}


def key_of_summary(job: AAR, options: APELOptions, family: str) -> dict[str, Any]:
    """The key of the summary of this one job."""
    cell = stored_jobs.cell_of(job._replace(end_time=1_701_400_000), 2023, 12)
    (summary,) = summaries([accept_cell(cell, options, NOW).cell], options, family)
    (record,) = apel.read(message(SUMMARY_HEADERS[family], [summary_record(summary, family)]))
    return key_of(record.values)


def check(job: AAR, options: APELOptions, families: list[str]) -> None:
    """Each family of job records says of a job what its summaries say."""
    records = keys_of_records(job, options)
    for family in families:
        summary = key_of_summary(job, options, family)
        compared = summary.keys() - NOT_IN_SUMMARY.get(family, set())
        for kind, key in records.items():
            assert {name: key[name] for name in compared} == {name: summary[name] for name in compared}, kind


@given(job=READABLE_JOBS, benchmark=BENCHMARKS, options=CHOICES, family=st.sampled_from(list(SUMMARY_HEADERS)))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_every_family_says_the_same_of_any_job(
    job: AAR, benchmark: str | None, options: APELOptions, family: str
) -> None:
    """Whatever users write into names: job records of each family have the key of the month's summary."""
    check(job._replace(benchmark=benchmark), options, [family])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="all-known"),
        pytest.param({"fqans": ("/cms",)}, id="no-role"),
        pytest.param({"fqans": ("/cms/Role=NULL/Capability=NULL",)}, id="role-null"),
        pytest.param({"fqans": ("/cms/Capability=x/uk",)}, id="no-role-and-a-group-at-the-end"),
        pytest.param({"fqans": ("/cms/Role=",)}, id="empty-role"),
        pytest.param({"fqans": ("/cms;x/Role=pilot",)}, id="semicolon"),
        pytest.param({"fqans": ("/cms /Role= pilot ",)}, id="blanks"),
        pytest.param({"fqans": ("/cms/Role=żółć",)}, id="role-not-ascii"),
        pytest.param({"fqans": ("/cms/" + "g" * 300 + "/Role=" + "r" * 300,)}, id="too-long"),
        pytest.param({"fqans": ("/none/Role=null",)}, id="words-for-nothing"),
        pytest.param({"vo": "atlas", "fqans": ("/cms/Role=pilot",)}, id="a-vo-that-is-not-the-attributes"),
        pytest.param({"fqans": ()}, id="no-attributes"),
        pytest.param({"fqans": ("token:claim",)}, id="no-voms-attribute"),
        pytest.param({"fqans": (), "vo": None}, id="no-vo"),
        pytest.param({"endpoint_url": None}, id="local"),
        pytest.param({"endpoint_url": "https://ce.example.org/żółć"}, id="endpoint-not-ascii"),
        pytest.param({"user_dn": "/CN=Jörg 数据 🚀"}, id="user-not-ascii"),
        pytest.param({"user_dn": "  /CN=" + "x" * 300}, id="long-user-with-blanks"),
        pytest.param({"user_dn": "é" * 200}, id="escapes-at-the-end-of-the-column"),
        pytest.param({"user_dn": "x" * 246 + "pkcs7-mime"}, id="escape-where-the-column-ends"),
        pytest.param({"benchmark": "HS06:10.00049"}, id="other-name-of-a-benchmark"),
        pytest.param({"core_count": 0, "node_count": 0}, id="no-counts"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "local-"], ids=["plain", "local-prefix"])
def test_every_family_says_the_same(job: AAR, changes: dict[str, Any], prefix: str) -> None:
    """Each way in which families could differ."""
    check(job._replace(**changes), OPTIONS._replace(local_group_prefix=prefix), list(SUMMARY_HEADERS))


@pytest.mark.parametrize("kind", ["car", "v0.3", "v0.4"])
@pytest.mark.parametrize("fqan", ["/cms", "/cms/Role=NULL", "/cms/Role=NULL/Capability=NULL"])
def test_no_role_is_what_summaries_have_always_sent(job: AAR, fqan: str, kind: str) -> None:
    """So that the months which a site has published stay under their keys."""
    key = keys_of_records(job._replace(vo="cms", fqans=(fqan,)), OPTIONS)[kind]
    assert (key["VO"], key["VOGroup"], key["VORole"]) == ("cms", "/cms", "role=null")
