"""Records of AUDITOR: read by the server's rules, and by the fields of its APEL plugin."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hostile_text import READABLE_JOBS
from hypothesis import HealthCheck, given, settings
from record_texts import record

from arcacct.benchmark import Benchmark
from arcacct.config.paths import VO
from arcacct.records.model import AAR, VOs
from arcacct.resources import Accelerators
from arcacct.sandbox import auditor
from arcacct.targets.auditor.acceptance import accept
from arcacct.targets.auditor.record import DOCUMENT, RecordOptions, record_id

NOW = 1_800_000_000
OPTIONS = RecordOptions("EXAMPLE-SITE", host="lrms.example.org", default_benchmark=Benchmark("HEPscore23", 10_000))


def stored(job: AAR, options: RecordOptions = OPTIONS) -> auditor.StoredRecord:
    """What the server makes of a job's record."""
    return auditor.read(json.loads(record(job, options)))


def amounts(job: AAR, options: RecordOptions = OPTIONS) -> dict[str, int]:
    return {one.name: one.amount for one in stored(job, options).components}


def at_apel(found: auditor.StoredRecord) -> dict[str, Any]:
    """The fields of a summary as the plugin's template has them; KeyError where its run would end."""
    cores = next(one for one in found.components if one.name == "Cores")
    (score,) = [one.value for one in cores.scores if one.name == "hepscore23"]
    cpu_s = next(one.amount for one in found.components if one.name == "TotalCPU")
    patterns = {"VO": r"(?<=/).*?(?=/|$)", "VOGroup": r"(?<=/).*?(?=/Role|$)", "VORole": r"(?=Role).*?(?=/|$)"}
    voms = (found.meta or {}).get("voms", ["None"])[0]
    return {name: match[0] for name, pattern in patterns.items() if (match := re.search(pattern, voms))} | {
        "Site": found.meta["site_id"][0],
        "SubmitHost": found.meta["headnode"][0],
        "GlobalUserName": found.meta.get("subject", ["None"])[0],
        "Processors": cores.amount,
        "NodeCount": next(one.amount for one in found.components if one.name == "NNodes"),
        "WallDuration": found.runtime_s,
        "CpuDuration": cpu_s,
        "NormalisedWallDuration": round(found.runtime_s * score),
        "NormalisedCpuDuration": round(cpu_s * score),
    }


def test_golden_record(golden: Callable[[str, str], None], job: AAR, bare_job: AAR) -> None:
    """A fully described job and one of which nothing is known, byte for byte."""
    golden("auditor.json", DOCUMENT.join([record(job, OPTIONS), record(bare_job, OPTIONS)]))


def test_what_the_plugin_makes_of_it(job: AAR) -> None:
    """Wall time is the run time as the server reckons it, and the role is no part of the group."""
    assert at_apel(stored(job)) == {
        "Site": "EXAMPLE-SITE",
        "VO": "atlas",
        "VOGroup": "atlas",
        "VORole": "Role=production",
        "SubmitHost": "arc1.example.org",
        "GlobalUserName": "/DC=org/DC=example/CN=Test & User",
        "Processors": 8,
        "NodeCount": 2,
        "WallDuration": 7205,
        "CpuDuration": 50_321,
        "NormalisedWallDuration": round(7205 * 12.3),
        "NormalisedCpuDuration": round(50_321 * 12.3),
    }


def test_what_the_plugin_makes_of_a_bare_job(bare_job: AAR) -> None:
    """Every component and the score are there; of a VO that no one knows it says None by itself."""
    found = at_apel(stored(bare_job))
    assert (found["Processors"], found["NodeCount"], found["SubmitHost"]) == (1, 1, "lrms.example.org")
    assert "VO" not in found
    assert found["GlobalUserName"] == "None"


@pytest.mark.parametrize(
    ("fqans", "vo", "more", "voms"),
    [
        (("/atlas/Capability=NULL",), "atlas", {}, ("/atlas/Role=NULL",)),
        (("/atlas/de/Role=x/Capability=y", "/atlas"), "atlas", {}, ("/atlas/de/Role=x", "/atlas/Role=NULL")),
        (("not an attribute",), "atlas", {}, ("/atlas/Role=NULL",)),
        ((), "atlas", {"vo_groups": ("/cms/x", "/atlas/y", "/atlas/z")}, ("/atlas/y/Role=NULL",)),
        ((), None, {"vomsless_vo": VOs((VO("dteam"),))}, ("/dteam/Role=NULL",)),
        ((), "atlas", {"local_group_prefix": "local-"}, ("/atlas/Role=NULL",)),
        ((), None, {}, ()),
    ],
)
def test_the_users_attributes(job: AAR, fqans, vo, more, voms) -> None:
    """Each with its role and without its capability; a VO without attributes is a group of its own."""
    found = stored(job._replace(fqans=fqans, vo=vo), OPTIONS._replace(**more))
    assert found.meta.get("voms", ()) == voms


def test_local_jobs_have_the_sites_prefix(job: AAR) -> None:
    """As in APEL's own messages."""
    local = job._replace(endpoint_url=None, fqans=())
    assert stored(local, OPTIONS._replace(local_group_prefix="local-")).meta["voms"] == ("/local-atlas/Role=NULL",)


@pytest.mark.parametrize(
    ("source", "lrms_start_time", "start"),
    [
        ("wall", 1_704_190_800, 1_704_198_605 - 7205),
        ("lrms", 1_704_190_800, 1_704_190_800),
        ("lrms", None, 1_704_198_605 - 7205),
        ("lrms", 1_704_000_000, 1_704_198_605 - 7205),
    ],
)
def test_when_it_started(job: AAR, source, lrms_start_time, start) -> None:
    """The wall time before the end, or the batch system's word where it can be believed."""
    found = stored(job._replace(lrms_start_time=lrms_start_time), OPTIONS._replace(start_time_source=source))
    assert (found.start_time, found.stop_time) == (
        datetime.fromtimestamp(start, UTC),
        datetime.fromtimestamp(job.end_time, UTC),
    )


def test_amounts(job: AAR) -> None:
    """Memory in what Slurm calls MB, rounded up; cores and nodes are never none."""
    assert amounts(job) == {"Cores": 8, "TotalCPU": 50_321, "NNodes": 2, "Memory": 2000}
    assert amounts(job._replace(memory_kib=1))["Memory"] == 1
    assert amounts(job._replace(core_count=0, node_count=0, memory_kib=0)) == {
        "Cores": 1,
        "TotalCPU": 50_321,
        "NNodes": 1,
        "Memory": 0,
    }


def test_names_of_the_site(job: AAR) -> None:
    """Whatever a site calls them; what it wants no one to see is left out."""
    names = (("site_id", "site"), ("subject", "-"), ("Memory", "-"), ("TotalCPU", "CPU"), ("HEPscore23", "hs23"))
    found = stored(job, OPTIONS._replace(names=names))
    assert set(found.meta) == {"site", "headnode", "voms", "user_id", "group_id", "collector_type"}
    assert [one.name for one in found.components] == ["Cores", "CPU", "NNodes"]
    assert found.components[0].scores == (auditor.Score("hs23", 12.3),)


FURTHER = (("GPUs", "GPU"), ("GPUTime", "TotalGPU"), ("Energy", "energy"))


def test_gpus_and_energy_are_components_where_a_site_names_them(job: AAR) -> None:
    """Whole GPUs, GPU seconds and J, behind the components that the APEL plugin reads, which stay as they are."""
    measured = job._replace(accelerators=Accelerators(2, 1800.6, 3.5, 4.5, 10**15))
    found = stored(measured, OPTIONS._replace(names=FURTHER))

    assert amounts(measured, OPTIONS._replace(names=FURTHER)) == amounts(job) | {
        "GPU": 2,
        "TotalGPU": 1801,
        "energy": 10**15,
    }
    assert found.components[:4] == stored(job).components
    assert at_apel(found) == at_apel(stored(job))
    assert [one.name for one in stored(measured, OPTIONS._replace(names=FURTHER[2:])).components[4:]] == ["energy"]


@pytest.mark.parametrize("told", [None, Accelerators(0, 0, 1.5, 2.5, 0), Accelerators(None, None, 1.5, 2.5, None)])
def test_a_component_without_a_known_amount_is_left_out(job: AAR, told) -> None:
    """Unknown is not 0."""
    assert record(job._replace(accelerators=told), OPTIONS._replace(names=FURTHER)) == record(job, OPTIONS)


def test_a_record_of_a_site_that_names_no_gpus_is_as_before(job: AAR) -> None:
    """Byte for byte, whatever is known of the job."""
    assert record(job._replace(accelerators=Accelerators(2, 1800, 1.0, 2.0, 5)), OPTIONS) == record(job, OPTIONS)


def test_the_id_never_changes(job: AAR) -> None:
    """The one of a usage record, after the site's prefix."""
    assert record_id(job, OPTIONS) == "ur-arc1.example.org-good1"
    assert record_id(job, OPTIONS._replace(localid_prefix="de-")) == "de-ur-arc1.example.org-good1"


REFUSED = {
    "a status that is not final": ({"status": "running"}, "status"),
    "an id that is too long": ({"job_id": "j" * 300}, "record_id"),
    "an id with a letter that cannot be printed": ({"endpoint_url": "https://a\0b/"}, "record_id"),
    "an end that is none": ({"end_time": 0}, "EndTime"),
    "a benchmark that the plugin would not find": ({"benchmark": "HEPSPEC:11"}, "score_type"),
    "too much wall time": ({"wall_s": 2**31}, "wall time"),
    "wall time in words": ({"wall_s": "long"}, "wall time"),
}


@pytest.mark.parametrize(("values", "words"), REFUSED.values(), ids=REFUSED)
def test_quarantined_jobs(job: AAR, values, words) -> None:
    """With the reason, whoever would have refused it."""
    verdict = accept(job._replace(**values), OPTIONS._replace(score_type="HEPscore23"), NOW)
    assert words in verdict.refusal
    assert verdict.not_before is None


def test_a_job_of_nowhere(bare_job: AAR) -> None:
    assert "lrms_host" in accept(bare_job, OPTIONS._replace(host=None), NOW).refusal


def test_a_job_of_the_future(job: AAR) -> None:
    """It waits for the clock."""
    assert accept(job, OPTIONS, job.end_time - 10 * 86_400).not_before == job.end_time - 2 * 86_400


NOTED = {
    "no cores": ({"core_count": 0}, "number of cores unknown: sent as 1"),
    "no nodes": ({"node_count": -1}, "number of nodes unknown: sent as 1"),
    "no benchmark": ({"benchmark": None}, "no benchmark: HEPscore23:10 is used"),
    "a long name": ({"user_dn": f"/CN={'ä' * 100}"}, "user_dn: cut to 256 characters"),
    "a long attribute": ({"fqans": ("/atlas", f"/atlas/{'a' * 300}")}, "VOMS attribute: cut to 256 characters"),
    "memory of nobody's": ({"memory_kib": -1}, "memory_kib -1 is outside 0..2^53: left out"),
}


@pytest.mark.parametrize(("values", "note"), NOTED.values(), ids=NOTED)
def test_what_is_repaired(job: AAR, values, note) -> None:
    """What was done to it is said, and the server takes it."""
    verdict = accept(job._replace(**values), OPTIONS, NOW)
    assert (verdict.refusal, note in verdict.notes) == (None, True)
    stored(verdict.aar)


def test_a_sound_job_is_left_alone(job: AAR) -> None:
    assert accept(job, OPTIONS, NOW) == (job, (), None, None)


def test_a_job_that_did_not_run(job: AAR) -> None:
    """It is sent: the server has it, with a run time of nothing, which its plugin ignores."""
    idle = job._replace(wall_s=0, cpu_user_s=0, cpu_kernel_s=0)
    assert accept(idle, OPTIONS, NOW).refusal is None
    assert stored(idle).runtime_s == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(READABLE_JOBS)
def test_any_text_survives(hostile: AAR) -> None:
    """Whatever a job says, the server takes the record, and no value has a line of its own in the plugin's message."""
    verdict = accept(hostile, OPTIONS, NOW)
    if verdict.refusal is not None:
        return
    text = record(verdict.aar, OPTIONS)
    assert DOCUMENT.cut(DOCUMENT.join([text, text])) == [text, text]
    found = auditor.read(json.loads(text))
    for values in found.meta.values():
        assert all(value.isascii() and value.isprintable() and "%%" not in value for value in values)
    assert found.record_id == record_id(verdict.aar, OPTIONS)
