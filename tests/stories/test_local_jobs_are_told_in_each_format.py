"""Jobs that came to their batch system without ARC, as each format tells of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apel_rules
import car_rules
import pytest
import sgas_rules
from apel_message import message
from lxml import etree
from record_texts import car, individual_job, usage_record

from arcacct.config.values import LocalJobs, local_jobs
from arcacct.records.model import AAR
from arcacct.targets.apel.messages import JOB_HEADERS, APELOptions, job_key
from arcacct.targets.apel.target import CAR
from arcacct.targets.common import LocalJobValues, local_job_values
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions

NOW = 1_800_000_000
SUBMITTED, STARTED = 1_704_189_600, 1_704_190_800
APEL = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")
SGAS = UROptions("lrms.example.org")
AS_ARCS = (LocalJobs("arc"),)
SEED = APEL._replace(dialect="seed")


@pytest.fixture(params=[("sge", "local"), ("slurm", None)], ids=["Grid Engine", "Slurm"])
def local_job(request: pytest.FixtureRequest, job: AAR) -> AAR:
    """A job of each source: Grid Engine's have an interface, Slurm's and Sonar's none."""
    lrms, interface = request.param
    return job._replace(lrms=lrms, endpoint_type=interface, endpoint_url=None, fqans=(), lrms_submit_time=None)


def text_of(aar: AAR, options: APELOptions = APEL, version: str = "v0.3") -> str:
    """One message with one job."""
    return message(JOB_HEADERS[version], [individual_job(aar, options, version)])


def document(aar: AAR, options: APELOptions = APEL) -> str:
    """The same in XML."""
    return CAR.join([car(aar, options, NOW)])


def in_text(aar: AAR, options: APELOptions = APEL) -> dict[str, Any]:
    """What APEL reads of a job record."""
    return apel_rules.parse(text_of(aar, options), NOW)[1][0]


def in_xml(aar: AAR, options: APELOptions = APEL) -> dict[str, Any]:
    """What APEL reads of a CAR."""
    return car_rules.parse(document(aar, options))[0]


@pytest.mark.parametrize("read", [in_text, in_xml])
def test_apel_reads_the_batch_system(local_job: AAR, read: Callable[[AAR], dict[str, Any]]) -> None:
    """Start and infrastructure are the batch system's, as from APEL's own parsers; local, as ever."""
    found = read(local_job)

    assert found["StartTime"] == STARTED
    assert found["InfrastructureDescription"] == (local_job.lrms or "").upper()
    assert found["InfrastructureType"] == "local"
    assert found["SubmitHost"] == found["MachineName"] == "lrms.example.org"


@pytest.mark.parametrize(
    "make", [text_of, document, lambda one: text_of(one, version="v0.4"), lambda one: text_of(one, SEED)]
)
def test_nothing_is_said_of_arc(local_job: AAR, make: Callable[[AAR], str]) -> None:
    """Neither ARC nor jura-ng had to do with the job."""
    text = make(local_job).replace("arcacct", "")

    assert not [word for word in ("ARC", "arc", "JURA", "NorduGrid") if word in text]
    assert "StartTime: 1704190800" in text or "<StartTime>2024-01-02T10:20:00Z</StartTime>" in text


def test_the_car_is_valid_and_names_the_batch_system(local_job: AAR, car_schema: etree.XMLSchema) -> None:
    """Also of a job of which no batch system is known: it has no middleware."""
    root = etree.fromstring(document(local_job).encode())
    unknown = etree.fromstring(document(local_job._replace(lrms=None)).encode())

    car_schema.assertValid(root)
    car_schema.assertValid(unknown)
    assert [one.get(f"{{{root.nsmap[None]}}}name") for one in root.iterfind(".//{*}Middleware")] == [local_job.lrms]
    assert not [*unknown.iterfind(".//{*}Middleware")]
    assert in_xml(local_job._replace(lrms=None))["InfrastructureDescription"] == "LOCAL"


def test_sgas_reads_the_real_start(local_job: AAR, ur_schema: etree.XMLSchema) -> None:
    """And the submission where it reads that."""
    head, tail = UsageRecords.envelope.head, UsageRecords.envelope.tail
    text = f"{head}{usage_record(local_job, SGAS, NOW)}{tail}"
    (found,) = sgas_rules.parse(text.encode())

    ur_schema.assertValid(etree.fromstring(text.encode()))
    assert found["StartTime"] == STARTED
    assert "<deisa:SubmitTime>2024-01-02T10:00:00Z</deisa:SubmitTime>" in text


def test_a_start_that_cannot_be_true_is_the_submission(local_job: AAR) -> None:
    """As for every job: one outside of its life, or none."""
    for start in (None, SUBMITTED - 1, local_job.end_time + 1):
        assert in_text(local_job._replace(lrms_start_time=start))["StartTime"] == SUBMITTED


def test_jobs_of_arc_are_described_as_before(job: AAR) -> None:
    """Whatever is said of others; also one whose URL is not known, as long as its interface is."""
    for aar in (job, job._replace(endpoint_url=None)):
        assert in_text(aar)["InfrastructureDescription"] == "ARC-SLURM"
        assert in_xml(aar)["InfrastructureDescription"] == "JURA-ARC-SLURM"
        assert in_text(aar)["StartTime"] == in_xml(aar)["StartTime"] == SUBMITTED


def test_a_site_may_continue_as_before(local_job: AAR) -> None:
    """`local_jobs=arc`: the words of ARC's jobs, and the start by start_time_source."""
    options = APEL._replace(local_jobs=AS_ARCS)
    lrms = (local_job.lrms or "").upper()

    assert in_text(local_job, options)["InfrastructureDescription"] == f"ARC-{lrms}"
    assert in_xml(local_job, options)["InfrastructureDescription"] == f"JURA-ARC-{lrms}"
    assert 'urf:name="arc" urf:description="NorduGrid ARC, ' in document(local_job, options)
    for source, start in (("submit", SUBMITTED), ("lrms", STARTED)):
        assert in_text(local_job, options._replace(start_time_source=source))["StartTime"] == start


def test_keys_are_the_same_whatever_is_said(local_job: AAR) -> None:
    """A job that was sent as ARC's is replaced by the same job as it is: it does not count twice."""
    told_as = {
        lines: (in_text(local_job, APEL._replace(local_jobs=lines)), usage_record(local_job, SGAS, NOW))
        for lines in ((), AS_ARCS)
    }
    keys = {
        (*(found[name] for name in ("Site", "LocalJobId", "EndTime", "SubmitHost", "InfrastructureType")), text[:120])
        for found, text in told_as.values()
    }

    assert len(keys) == 1
    assert job_key(local_job, APEL) == job_key(local_job, APEL._replace(local_jobs=AS_ARCS))


@pytest.mark.parametrize(
    ("lines", "told_of_sge", "told_of_slurm"),
    [
        ([], ("lrms", "SGE", "sge"), ("lrms", "SLURM", "slurm")),
        (["arc"], ("submit", None, None), ("submit", None, None)),
        (["slurm arc"], ("lrms", "SGE", "sge"), ("submit", None, None)),
        (["own", "SGE arc"], ("submit", None, None), ("lrms", "SLURM", "slurm")),
        (
            ["arc infrastructure=X", "slurm own infrastructure=APEL-CREAM-SLURM"],
            ("submit", "X", None),
            ("lrms", "APEL-CREAM-SLURM", "slurm"),
        ),
    ],
)
def test_each_batch_system_has_its_line(
    job: AAR, lines: list[str], told_of_sge: tuple[Any, ...], told_of_slurm: tuple[Any, ...]
) -> None:
    """The line of the job's batch system, whatever comes before it; else that for any; else its own words."""
    read = [local_jobs(line) for line in lines]
    local = job._replace(endpoint_url=None, endpoint_type=None)

    assert local_job_values(local._replace(lrms="sge"), read, "submit") == LocalJobValues(*told_of_sge)
    assert local_job_values(local, read, "submit") == LocalJobValues(*told_of_slurm)
    assert local_job_values(job, read, "submit") == LocalJobValues("submit", None, None)


@pytest.mark.parametrize("line", ["no", "own slurm", "own infrastructure=", "infrastructure=X", "a b own"])
def test_what_is_no_line(line: str) -> None:
    """And what would be one."""
    with pytest.raises(ValueError, match="write own or arc"):
        local_jobs(line)
