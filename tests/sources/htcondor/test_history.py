"""What a job of HTCondor used, as its ad says it."""

from __future__ import annotations

import pytest
from htcondor_files import BEGIN, HISTORY, ad, jobs, reasons, told
from hypothesis import given
from hypothesis import strategies as st

from arcacct.sources.engine.runs import BatchSite, NoUsage
from arcacct.sources.htcondor.history import CondorJob
from arcacct.sources.htcondor.importer import SOURCE, local_job


def one(**values: object) -> CondorJob:
    """The job of an ad that ended well but for these values."""
    (found,) = jobs(ad(**values).encode()).values()
    return found


def unused(**values: object) -> str:
    """Why it is no job to account."""
    (found,) = [each.what for each in told(ad(**values).encode())]
    assert isinstance(found, NoUsage)
    return found.why


def test_a_job_with_two_runs() -> None:
    """Wall time and CPU time are of both; the cumulative times are, those of the last run alone are not."""
    job = jobs(HISTORY)["103.0"]

    assert (job.wall_s, job.starts, job.cpu_user_s, job.cpu_kernel_s) == (542, 2, 500, 12)
    assert (job.last_start or 0) - job.start_time == 600


@pytest.mark.parametrize(
    ("values", "cpu"),
    [
        ({}, (99, 1)),
        ({"CumulativeRemoteUserCpu": None, "CumulativeRemoteSysCpu": None}, (99, 1)),
        ({"CumulativeRemoteUserCpu": None, "CumulativeRemoteSysCpu": None, "NumJobStarts": 2}, (None, None)),
        ({"CumulativeRemoteUserCpu": 50.0}, (99, 1)),
        ({"RemoteUserCpu": None, "CumulativeRemoteUserCpu": None}, (None, None)),
        ({"CumulativeRemoteUserCpu": 99.5, "CumulativeRemoteSysCpu": 1.4}, (100, 1)),
        (
            dict.fromkeys(("CumulativeRemoteUserCpu", "CumulativeRemoteSysCpu", "RemoteUserCpu", "RemoteSysCpu"), 0.4),
            (1, 0),
        ),
    ],
)
def test_cpu_times(values, cpu) -> None:
    """What is of the last of several runs is no measure of the job. The sum is rounded, not its parts."""
    job = one(**values)

    assert (job.cpu_user_s, job.cpu_kernel_s) == cpu


@pytest.mark.parametrize(
    ("values", "cores"),
    [
        ({"CpusProvisioned": 8}, 8),
        ({"CpusProvisioned": None, "MachineAttrCpus0": 4}, 4),
        ({"CpusProvisioned": None, "RequestCpus": 3}, 3),
        ({"CpusProvisioned": "undefined", "RequestCpus": 3}, 3),
        ({"CpusProvisioned": 2, "JobUniverse": 11, "MaxHosts": 5}, 10),
        ({"MaxHosts": 5}, 2),
    ],
)
def test_cores(values, cores) -> None:
    """Those of the slot, before those asked for; an expression is no number."""
    assert one(**values).cores == cores


def test_unknown_cores() -> None:
    (reason,) = reasons(ad(CpusProvisioned=None, RequestCpus="ifThenElse(Big,8,1)").encode())

    assert reason == "its number of CPUs is unknown: CpusProvisioned and RequestCpus are not numbers"


def test_memory() -> None:
    """The peak as it was measured, before the one that HTCondor rounds up for matching."""
    assert (one().memory_kib, one(ResidentSetSize_RAW=None, ResidentSetSize=2500).memory_kib) == (2048, 2500)
    assert one(ImageSize_RAW=4000, ImageSize=5000).virtual_memory_kib == 4000
    # The image of what starts a container says nothing of the job.
    assert one(ImageSize_RAW=15).virtual_memory_kib is None


def test_ends() -> None:
    """CompletionDate is 0 of a removed job, and may be old where one was held and released."""
    assert one().end_time == BEGIN + 70
    removed = {"JobStatus": 3, "CompletionDate": 0, "EnteredCurrentStatus": BEGIN + 90}
    assert one(**removed).end_time == BEGIN + 90
    assert one(**(removed | {"CompletionDate": BEGIN + 60})).end_time == BEGIN + 90
    assert one(CompletionDate="undefined").end_time == BEGIN + 70
    assert reasons(ad(CompletionDate=0, EnteredCurrentStatus=None).encode()) == [
        "it has neither CompletionDate nor EnteredCurrentStatus: its end is unknown"
    ]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        *[({"JobStatus": status}, "unfinished") for status in (1, 2, 5, 6, 7)],
        ({"JobStartDate": None, "JobStatus": 3, "RemoteWallClockTime": 0}, "never started"),
        ({"JobStartDate": 0, "JobStatus": 3, "RemoteWallClockTime": None}, "never started"),
        *[({"JobUniverse": universe}, "not run in the pool") for universe in (7, 9, 12)],
    ],
)
def test_what_is_no_use_of_the_pool(values, why) -> None:
    assert unused(**values) == why


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"RemoteWallClockTime": 1793577600.0}, "it ran 1793577600 s between a start and an end that are 60 s apart"),
        ({"RemoteWallClockTime": -5}, "RemoteWallClockTime: -5 is less than 0"),
        ({"CompletionDate": BEGIN + 5}, "it ended 5 s before it started"),
        ({"GlobalJobId": None}, "it has no GlobalJobId, by which HTCondor identifies its jobs"),
        ({"ProcId": 5}, f"its ClusterId and ProcId differ from its GlobalJobId: 'ce.example.org#1.0#{BEGIN}'"),
        ({"JobStatus": None}, "it has no JobStatus: is it an ad of a job?"),
        ({"JobStartDate": 0}, "it has a RemoteWallClockTime and no JobStartDate: its start is unknown"),
        (
            {"CpusProvisioned": -1, "RequestCpus": '"8"'},
            "its number of CPUs is unknown: CpusProvisioned and RequestCpus are not numbers",
        ),
    ],
)
def test_what_cannot_be(values, reason) -> None:
    """It is set aside with its reason, and never becomes another number."""
    assert reasons(ad(**values).encode()) == [reason]


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("RequestGPUs", '"1"', "gpus", None),
        ("RequestGPUs", "1e20", "gpus", None),
        ("GPUsProvisioned", "0.5", "gpus", 0.5),
        ("CpusProvisioned", "0.5", "cores", 1),
        ("CpusProvisioned", "2.25", "cores", 3),
        ("GPUsProvisioned", "2.0", "gpus", 2),
        ("MemoryProvisioned", "2000.5", "memory_mib", None),
        ("NumJobStarts", "2.5", "starts", None),
        ("ImageSize_RAW", "1e20", "virtual_memory_kib", None),
        ("RemoteSysCpu", "-1.0", "cpu_kernel_s", 1),
        ("CumulativeRemoteUserCpu", "1e999", "cpu_user_s", 99),
        ("CpusProvisioned", "99999999999999999999", "cores", 2),
        ("CpusProvisioned", "true", "cores", 2),
        ("QDate", "99999999999", "submit_time", BEGIN),
        ("ExitCode", "1.5", "exit_status", None),
        ("ExitBySignal", '"yes"', "exit_signal", None),
        ("ExitBySignal", "1", "exit_signal", None),
        ("NumJobStarts", "-1", "starts", None),
        ("MemoryProvisioned", "-1", "memory_mib", None),
        ("Owner", "5", "user", ""),
    ],
)
def test_an_odd_value_costs_itself(name, value, field, expected) -> None:
    """The job is read; the attribute is counted unless its value can be used."""
    (found,) = told(ad(**{name: value}).encode())

    assert isinstance(found.what, CondorJob)
    assert (getattr(found.what, field), found.what.wall_s) == (expected, 60)
    assert found.unusable == (set() if value in ("0.5", "2.0", "2.25") else {name})


def test_a_signal_that_cannot_be_read_is_no_success() -> None:
    (found,) = told(ad(ExitBySignal="true", ExitSignal='"9"').encode())

    assert (found.what.exit_status, found.what.exit_signal, found.unusable) == (1, None, {"ExitSignal"})
    assert local_job(found.what, BatchSite()).exit_code == 1


@pytest.mark.parametrize(
    ("values", "wall_s"),
    [
        ({}, 60),
        ({"JobCurrentStartDate": BEGIN + 10}, 60),
        ({"JobCurrentStartDate": BEGIN + 20}, None),
        ({"NumJobStarts": 2}, None),
        ({"NumJobStarts": None}, None),
        ({"JobStatus": 3, "CompletionDate": 0}, None),
    ],
)
def test_the_wall_time_of_one_run_is_from_its_start_to_its_end(values, wall_s) -> None:
    """Where HTCondor does not say it; a job that was removed may have been held before."""
    content = ad(RemoteWallClockTime=None, **values).encode()

    assert [found.wall_s for found in jobs(content).values()] == ([] if wall_s is None else [wall_s])
    assert len(reasons(content)) == (wall_s is None)


def test_a_queue_is_written_without_quotes() -> None:
    """`+NordugridQueue = grid` is an attribute's name to HTCondor."""
    assert jobs(HISTORY)["120.0"].queue == "grid"
    assert (one(NordugridQueue='"long"').queue, one(NordugridQueue="a + b").queue) == ("long", "")


def test_groups_without_their_users() -> None:
    found = jobs(HISTORY)

    assert [found[number].account for number in ("101.0", "102.0", "102.1")] == ["", "group_physics", "group_physics"]
    assert one(AccountingGroup='"group_a.sub.carol"', AcctGroupUser='"carol"').account == "group_a.sub"


def test_an_attribute_that_may_name_a_person_is_left_out() -> None:
    assert one(x509UserProxyFirstFQAN='"/vo/Role=NULL/Capability=NULL"').fqan == "/vo/Role=NULL/Capability=NULL"
    assert one(x509UserProxyFirstFQAN='"/vo/CN=Carol"').fqan == ""


_TEXTS = st.sampled_from(["", "a", "b", "abc"])
_NUMBERS = st.one_of(st.none(), st.integers(0, 3))
_JOBS = st.builds(
    CondorJob,
    *(st.just("s"), st.just(1), st.just(0), st.just(5)),
    start_time=st.integers(0, 3),
    end_time=st.integers(0, 3),
    cpu_user_s=_NUMBERS,
    memory_kib=_NUMBERS,
    gpus=st.one_of(_NUMBERS, st.sampled_from([0.5, 1.5])),
    user=_TEXTS,
    account=_TEXTS,
)


@given(_JOBS, _JOBS, _JOBS)
def test_what_is_known_has_no_order(one, other, third) -> None:
    assert SOURCE.joined(one, other) == SOURCE.joined(other, one)
    assert SOURCE.joined(SOURCE.joined(one, other), third) == SOURCE.joined(one, SOURCE.joined(other, third))
    assert SOURCE.joined(one, one) == one
