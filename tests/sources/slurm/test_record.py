"""Runs of jobs out of real output of sacct: every pitfall that it has."""

from __future__ import annotations

import json
import sys
from collections import Counter
from zoneinfo import ZoneInfo

import pytest
from campaigns import cross, sample
from hypothesis import given
from hypothesis import strategies as st
from memory import cost_of
from slurm_files import (
    BEGIN,
    CASES,
    CLUSTER,
    COLUMNS,
    DATA,
    JSON,
    SONAR,
    TABLE,
    faults,
    later_json,
    row,
    run,
    runs,
    table,
    told,
    unused,
)

from arcacct.errors import InputError
from arcacct.records.rejected import Fault
from arcacct.records.slurm_formats import new_delimiter
from arcacct.sources.engine.runs import Noise
from arcacct.sources.slurm.importer import SOURCE
from arcacct.sources.slurm.record import Misfit, SlurmRun, TableRow, TableRows, header_of
from arcacct.sources.slurm.sacct import OutputForm, read

STJOHNS = ZoneInfo("America/St_Johns")
OSLO = ZoneInfo("Europe/Oslo")


def test_all_runs_of_a_table() -> None:
    """64 rows of jobs: 59 runs, two jobs go on, three never started."""
    assert len(runs(TABLE)) == 59
    assert Counter(unused(TABLE)) == {True: 2, False: 3}
    assert not faults(TABLE)


def test_sums_are_those_of_sreport() -> None:
    """Job sizes by account, in CPU seconds."""
    lines = (DATA / "sreport-sizesbyaccount-flat.txt").read_text(encoding="utf-8").splitlines()[6:]
    sums: Counter[str] = Counter()
    for one in runs(TABLE).values():
        sums[one.account] += one.elapsed_s * one.cores

    assert sums == {line.split()[1]: int(line.split()[2]) for line in lines}
    assert sums == {"atlas": 282, "atlasprod": 356, "lz": 321}


@pytest.mark.parametrize("later", [False, True])
def test_json_says_the_same_as_a_table(later: bool) -> None:
    """What is wrong there is not believed: an exit code of 0 of a job that failed, a job's own CPU time."""
    ours = runs(TABLE)
    theirs = runs(later_json(JSON.read_text(encoding="utf-8")).encode() if later else JSON)

    assert theirs.keys() == ours.keys()
    for key, one in theirs.items():
        both = SOURCE.joined(ours[key], one)
        assert both == ours[key]._replace(cpu_us=one.cpu_us, cpu_kernel_us=one.cpu_kernel_us)
        assert 0 <= (one.cpu_us or 0) - (ours[key].cpu_us or 0) < 1000
        assert one.exit_status in (None, ours[key].exit_status)
        assert one._replace(exit_status=None, exit_signal=None, cpu_us=0, cpu_kernel_us=0) == ours[key]._replace(
            exit_status=None, exit_signal=None, cpu_us=0, cpu_kernel_us=0
        )


def test_json_as_it_is_printed() -> None:
    """Over many lines; a step was killed by signal 11, the job was not."""
    one = run(DATA / "sacct-job12-as-printed.json", 12)

    assert (one.state, one.exit_status, one.cpu_us) == ("COMPLETED", 0, 6733)


def test_a_job_that_was_requeued_has_runs() -> None:
    """2, 55, 56 and 61 twice, with submissions of their own; without -D the first is missing, and 136 CPU seconds."""
    twice = [number for number, count in Counter(number for number, _ in runs(TABLE)).items() if count > 1]
    assert twice == [2, 56, 61]
    assert Counter(number for number, _ in runs(TABLE))[55] == 1
    less = runs(DATA / "sacct-no-D.txt", cluster=CLUSTER)
    # Its name has delimiters, and stands next to the user there.
    assert faults(DATA / "sacct-no-D.txt", cluster=CLUSTER)[1].content.splitlines()[1].startswith("32|32|pipe|in|name|")
    missing = [one for key, one in runs(TABLE).items() if key not in less and key[0] != 32]

    assert sum(one.elapsed_s * one.cores for one in missing) == 136
    assert {one.state for one in missing} == {"REQUEUED", "PREEMPTED", "NODE_FAIL"}


def test_jobs_that_never_started_are_none() -> None:
    """Held, cancelled before, past their deadline; also where sacct invents a start (15)."""
    never = DATA / "sacct-by-id-never-eligible.txt"
    assert Counter(unused(never)) == {True: 3, False: 4}
    assert {number for number, _ in runs(TABLE)} & {14, 15, 16, 17, 18, 19, 20, 22, 23, 46, 54} == set()


def test_jobs_that_continue_are_left_for_later() -> None:
    """Running, suspended, pending: also where steps have ended, and as JSON."""
    assert not [key for key in runs(DATA / "sacct-while-running.txt") if key[0] in (68, 69, 70)]
    assert unused(DATA / "sacct-while-running-68-69.json") == [True, True]


def test_elements_of_arrays_and_components_have_numbers_of_their_own() -> None:
    shown = {one.shown: number for (number, _), one in runs(TABLE).items() if "_" in one.shown or "+" in one.shown}

    assert shown == {"21_1": 24, "21_2": 25, "21_3": 26, "21_4": 27, "21_5": 21, "51+0": 51, "51+1": 52}


def test_exit_codes() -> None:
    """Exit 137 is shown as 9:0, kill -9 as 0:9, a time limit as 0:15 or 0:0; the state alone says who ended it."""
    found = {number: (one.state, one.exit_status, one.exit_signal) for (number, _), one in runs(TABLE).items()}

    assert {number: found[number] for number in (9, 10, 11, 12, 3, 4, 5, 63, 57, 60)} == {
        9: ("FAILED", 3, 0), 10: ("FAILED", 9, 0), 11: ("FAILED", 0, 9), 12: ("COMPLETED", 0, 0),
        3: ("TIMEOUT", 0, 15), 4: ("TIMEOUT", 0, 0), 5: ("FAILED", 42, 0), 63: ("CANCELLED", 0, 0),
        57: ("PREEMPTED", 0, 0), 60: ("NODE_FAIL", 0, 0),
    }  # fmt: skip


def test_time_in_suspension_does_not_count() -> None:
    one = run(TABLE, 7)

    assert (one.end_time - one.start_time, one.elapsed_s) == (31, 19)
    assert run(table(row(ElapsedRaw="")), 1).elapsed_s == 60


def test_resources_and_names() -> None:
    one = run(TABLE, 43)
    assert (one.cores, one.tres) == (2, "billing=2,cpu=2,gres/gpu=2,mem=200M,node=1")
    assert run(TABLE, 62).node_list == "wn[01-02]"
    assert (run(TABLE, 41).wckey, run(TABLE, 5).wckey, run(TABLE, 1).wckey) == ("simulation", "simulation", "")
    assert (run(TABLE, 44).qos, run(TABLE, 44).partition, run(TABLE, 44).group) == ("express", "short", "alice")


def test_cpu_and_memory_are_those_of_all_steps() -> None:
    """Without steps nothing is known of them, although sacct prints 00:00:00."""
    one = run(TABLE, 28)
    assert (one.cpu_us, one.cpu_kernel_us, one.memory_kib) == (5_870_000, 39_000, 13_976)
    without = run(DATA / "sacct-X-epoch.txt", 28, cluster=CLUSTER)
    assert (without.cpu_us, without.cpu_kernel_us, without.memory_kib) == (None, None, None)
    steps = [row("1.batch", TotalCPU="00:00:00", SystemCPU="", MaxRSS="100K")]
    steps.append(row("1.0", TotalCPU="1-00:00:00", SystemCPU="00:00:00", MaxRSS="2M"))
    long = run(table(row(TotalCPU="1-00:00:00", SystemCPU=""), *steps), 1)
    assert (long.cpu_us, long.memory_kib) == (86_400 * 10**6, 2048)


UNSET = (2**32 - 2, 2**32 - 1, 2**64 - 2, 2**64 - 1)


@pytest.mark.parametrize("number", UNSET)
def test_counts_that_slurm_does_not_know_are_unknown(number: int) -> None:
    """71.6 million core hours for a minute otherwise; what another column says of the same counts."""
    columns = f"{COLUMNS}|NNodes|AllocTRES|MaxVMSize"
    job = f"{row(AllocCPUS=number, MaxRSS=number, ElapsedRaw=number)}|{number}|cpu={number},mem={number}M|{number}"
    one = run(table(job, columns=columns), 1)

    assert (one.cores, one.nodes, one.memory_kib, one.virtual_memory_kib) == (None, None, None, None)
    assert one.elapsed_s == 60
    assert run(table(job.replace(f"cpu={number}", "cpu=8"), columns=columns), 1).cores == 8


@pytest.mark.parametrize(
    "wrap", [lambda number: number, lambda number: {"set": True, "infinite": False, "number": number}]
)
@pytest.mark.parametrize("number", UNSET)
def test_counts_of_json_that_slurm_does_not_know_are_unknown(number: int, wrap) -> None:
    """Also where a wrapper says that they are set."""
    job = json.loads(JSON.read_bytes())["jobs"][20]
    job["tres"]["allocated"] = [{"type": kind, "name": None, "count": wrap(number)} for kind in ("cpu", "node", "mem")]
    job |= {"required": {"CPUs": wrap(number)}, "allocation_nodes": wrap(number)}
    job["exit_code"] = {"return_code": wrap(number), "signal": {"signal_id": wrap(number)}}
    elapsed_s = job["time"]["elapsed"]
    job["time"]["elapsed"] = wrap(number)
    (one,) = runs(json.dumps({"jobs": [job]}).encode()).values()

    assert (one.cores, one.nodes, one.tres, one.exit_status, one.exit_signal) == (None, None, "", None, None)
    assert one.elapsed_s == elapsed_s


@pytest.mark.parametrize("name", ["s2.txt", "j4.json"])
def test_cpu_time_that_only_the_usage_has(name: str) -> None:
    """Slurm 25.05 has TotalCPU 0 in job and steps; TRESUsageInTot of its step is 3:50 h."""
    (one,) = runs(CASES / name).values()

    assert (one.cpu_us, one.cpu_kernel_us) == (13_800 * 10**6, 0)


def test_the_larger_of_two_cpu_times_counts() -> None:
    """Of each step: Slurm samples its processes before their end, and no one may wait for some of them."""
    columns = f"{COLUMNS}|TRESUsageInTot"
    steps = [("1.batch", "00:09.429", "cpu=00:00:07"), ("1.0", "00:01.000", "cpu=01:00:00"), ("1.1", "00:00:00", "")]
    rows = [f"{row(number, TotalCPU=total, SystemCPU='')}|{usage}" for number, total, usage in steps]
    one = run(table(f"{row(TotalCPU='00:10.429', SystemCPU='')}|", *rows, columns=columns), 1)

    assert one.cpu_us == 3_609_429_000


@pytest.mark.parametrize(
    ("largest", "usage", "memory_kib"),
    [
        ("1000K", "cpu=00:00:07,mem=4000K", 4000),
        ("1000K", "mem=18446744073709551614,cpu=00:00:07", 1000),
        ("", "mem=1M", 1024),
    ],
)
def test_memory_is_that_of_all_tasks_of_a_step(largest: str, usage: str, memory_kib: int) -> None:
    """MaxRSS is of one task."""
    step = f"{row('1.0', MaxRSS=largest)}|{usage}"
    one = run(table(f"{row(MaxRSS='')}|", step, columns=f"{COLUMNS}|TRESUsageInTot"), 1)

    assert one.memory_kib == memory_kib


@pytest.mark.parametrize(
    ("of_job", "tres", "of_steps", "energy"),
    [
        ("7200", "cpu=2,energy=5,node=1", ("100", "200"), "cpu=2,node=1,energy=7200"),
        ("", "cpu=2,energy=5", ("100", "200"), "cpu=2,energy=5"),
        ("0", "cpu=2,energy=18446744073709551614", ("100", "200"), "cpu=2,energy=300"),
        ("", "", ("", "50"), "energy=50"),
        ("18446744073709551614", "cpu=2", ("0", ""), "cpu=2"),
        ("9000000000000", "cpu=2,energy=9000000000001,node=1", ("100", "200"), "cpu=2,node=1,energy=300"),
        ("9000000000000", "energy=7,cpu=2", ("100", ""), "energy=7,cpu=2"),
        ("9000000000000", "cpu=2", ("", ""), "cpu=2"),
    ],
)
def test_energy_is_that_of_the_job_before_that_of_its_steps(of_job, tres, of_steps, energy) -> None:
    steps = [f"{row(f'1.{number}')}||{energy_j}" for number, energy_j in enumerate(of_steps)]
    content = table(f"{row()}|{tres}|{of_job}", *steps, columns=f"{COLUMNS}|AllocTRES|ConsumedEnergyRaw")

    assert run(content, 1).tres == energy
    assert not faults(content)


def test_memory_and_energy_of_json() -> None:
    job = json.loads((CASES / "j4.json").read_bytes())["jobs"][0]
    step = job["steps"][0]
    step["statistics"] = {"energy": {"consumed": {"set": True, "infinite": False, "number": 7200}}}
    step["tres"]["requested"] = {
        "max": [{"type": "mem", "name": "", "count": 1024}],
        "total": [{"type": "mem", "name": "", "count": 5000}],
    }
    (one,) = runs(json.dumps({"jobs": [job]}).encode()).values()

    assert (one.memory_kib, one.tres.split(",")[-1]) == (5, "energy=7200")


@pytest.mark.parametrize(
    "cut", ["{0}\n", "{0}sacct: error: slurmdbd: x\n", "{0}sacct: error: slurmdbd: x\n{1}\n", "{0}\n{0}\n"]
)
def test_a_row_that_is_cut_is_a_job_that_is_left_out(cut: str) -> None:
    """In any of its values behind the number, also by a line of sacct's errors within it."""
    good = (CASES / "s_cut.txt").read_text().splitlines(keepends=True)
    whole = good[4].replace("4|cl", "5|cl", 1)
    for length in range(len("5|cl|COMPLETED|"), len("5|cl|COMPLETED|2026-11-20T10:00:00|2026-11-20T10:00:10|2026")):
        content = "".join([*good[:5], cut.format(whole[:length], whole[length:].rstrip()), *good[6:]]).encode()
        found = [one for one in told(content) if isinstance(one.what, Fault) and not one.is_line]

        assert len(runs(content)) == 9
        assert {one.content.splitlines()[1].partition("|")[0] for one in found} == {"5"}


@pytest.mark.parametrize(("elapsed_s", "cpu_us"), [(0, 0), (1, 0), (2, None), (60, None)])
def test_no_cpu_time_at_all_is_believed_of_a_second(elapsed_s: int, cpu_us: int | None) -> None:
    """A step takes some milliseconds to start: a longer run with 0 was not measured."""
    nothing = {"TotalCPU": "00:00:00", "SystemCPU": "00:00:00", "ElapsedRaw": elapsed_s, "End": BEGIN + 10 + elapsed_s}
    one = run(table(row(**nothing), row("1.batch", **nothing)), 1)

    assert one.cpu_us == cpu_us


def test_cpu_time_of_jobs_whose_node_failed_is_unknown() -> None:
    """Of real ones; that of all others is what TotalCPU says."""
    found = runs(TABLE)

    assert {one.job_id: one.state for one in found.values() if one.cpu_us is None} == dict.fromkeys(
        (60, 61), "NODE_FAIL"
    )
    assert [one.what.cpu_us for one in told(CASES / "x2.txt")] == [None]


def test_units_of_memory() -> None:
    """K, bytes of --noconvert, K of --units=K."""
    columns, *lines = (DATA / "sacct-units-default.txt").read_text(encoding="utf-8").splitlines()
    assert columns.startswith("JobID|State|ReqMem|MaxRSS")
    for name in ("sacct-units-default", "sacct-noconvert", "sacct-units-K"):
        _, *lines = (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        found = {line.split("|")[0]: line.split("|")[3] for line in lines}
        steps = [row(f"1.{number}", MaxRSS=found[step]) for number, step in enumerate(("31.batch", "31.extern"))]
        assert run(table(row(), *steps), 1).memory_kib == 164_940


def test_times_of_another_zone() -> None:
    """Local times with their zone given, with an offset, and seconds: the same runs."""
    epoch = runs(DATA / "sacct-X-epoch.txt", cluster=CLUSTER)
    offset = (DATA / "sacct-X-TZ-StJohns-offset.txt").read_bytes().replace(b"ElapsedRaw\n", b"AllocCPUS\n")

    assert runs(DATA / "sacct-X-TZ-StJohns.txt", cluster=CLUSTER, zone=STJOHNS) == epoch
    assert {key: one.end_time for key, one in runs(offset, cluster=CLUSTER).items()} == {
        key: one.end_time for key, one in epoch.items()
    }


def test_a_local_time_that_was_shown_twice() -> None:
    """How long the job took tells which it was; where that is not enough the job is set aside, and how to ask said."""
    before, twice, after = "2026-10-25T01:30:00", "2026-10-25T02:30:00", "2026-10-25T05:00:00"
    one = run(table(row(Submit=before, Start=before, End=twice, ElapsedRaw=7200)), 1, zone=OSLO)
    assert (one.start_time, one.end_time) == (1792884600, 1792884600 + 7200)
    one = run(table(row(Submit=before, Start=twice, End=after, ElapsedRaw=9000)), 1, zone=OSLO)
    assert one.end_time - one.start_time == 9000
    for values in (
        {"Submit": before, "Start": before, "End": twice, "ElapsedRaw": ""},
        {"Submit": before, "Start": twice, "End": twice, "ElapsedRaw": 0},
        {"Submit": twice, "Start": after, "End": after, "ElapsedRaw": 0},
    ):
        (told_of,) = faults(table(row(**values)), zone=OSLO)
        assert "SLURM_TIME_FORMAT=%s" in told_of.what.reason


def test_truncated_times() -> None:
    """`--truncate` ends a job before it started (57), and gives one that waits a start (20)."""
    (one,) = faults(DATA / "sacct-X-start-0546-end-0547-truncate.txt", cluster=CLUSTER)
    cut = runs(DATA / "sacct-X-start-0546-end-0547-truncate.txt", cluster=CLUSTER)
    whole = runs(DATA / "sacct-X-start-0546-end-0547.txt", cluster=CLUSTER)

    assert "--truncate" in one.what.reason
    assert 20 not in {number for number, _ in cut}
    assert {key: SOURCE.joined(one, whole[key]) for key, one in cut.items()} == {key: whole[key] for key in cut}


def test_a_fault_costs_its_job() -> None:
    """It stands for itself, header and all: it can be read again, with what was lacking."""
    bad = [row(1, End="1X"), row(2, Cluster=""), row(3), row("3.0", State="?"), row("5.batch"), row(6, Submit="")]
    found = faults(table(*bad, row(7)))

    assert [one.position for one in found] == ["line 2", "line 3", "line 5", "line 6", "line 7"]
    for one in found:
        (again,) = told(one.content.encode())
        assert again.what == one.what
    assert list(runs(table(*bad, row(7)))) == [(3, BEGIN), (7, BEGIN)]
    assert [len(runs(one.content.encode(), cluster=CLUSTER)) for one in found] == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("bad", [row("1.0")[:30], row("1.0")[30:], "", "sacct: error: x"])
def test_a_bad_line_among_steps_costs_no_job(bad: str) -> None:
    """Steps behind it are still those of the job before them."""
    steps = [row(f"1.{number}", MaxRSS=f"{number}M") for number in (1, 2)]
    found = told(table(row(1), steps[0], bad, steps[1], row(2)))

    assert [one.what.job_id for one in found if isinstance(one.what, SlurmRun)] == [1, 2]
    assert [one.position for one in found if one.is_line] == ["line 4"]
    assert run(table(row(1), steps[0], bad, steps[1]), 1).memory_kib == 2048


@pytest.mark.parametrize("name", ["k1", "k2", "k4", "k5"])
def test_a_delimiter_in_constraints_or_licenses_makes_no_other_user(name: str) -> None:
    """OR in Slurm's own language: the row is read so, or rejected alone."""
    found = told(CASES / f"{name}.txt")
    read_well = [one.what for one in found if isinstance(one.what, SlurmRun)]

    assert all((one.user, one.account) == ("ada", "atlas") for one in read_well)
    assert all(one.node_list == "n1" for one in read_well if one.node_list)
    assert [one.job_id for one in read_well] == {"k1": [62], "k2": [61]}.get(name, [])
    assert all("--json" in one.what.reason for one in found if isinstance(one.what, Fault))


def test_a_group_with_a_blank() -> None:
    """As an Active Directory has them."""
    one = run(CASES / "s3.txt", 300)

    assert (one.group, one.user, one.elapsed_s, one.memory_kib) == ("domain users", "ada", 3600, 352_000)


def test_a_column_that_is_not_used_is_not_looked_at() -> None:
    """`--units=K` makes 0.00K of the number of requested nodes."""
    one = run(CASES / "s4.txt", 400, cluster="c")
    assert (one.state, one.elapsed_s, one.memory_kib) == ("CANCELLED", 12_805, 231_092)
    columns = "|AveRSS|Priority|NTasks|ReqNodes|Timelimit|UID"
    odd = "|-1X|0.5|many|0.00K|?|nobody"
    assert run(table(row() + odd, columns=COLUMNS + columns), 1) == run(table(row()), 1)


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("MaxRSS", "18446744073709551614", "memory_kib"),
        ("MaxRSS", "16E", "memory_kib"),
        ("MaxRSS", "-4K", "memory_kib"),
        ("TotalCPU", "-01:40.500", "cpu_us"),
        ("AllocCPUS", "two", "cores"),
        ("ExitCode", "x:y", "exit_status"),
    ],
)
def test_an_optional_value_that_cannot_be_used_is_unknown(column: str, value: str, field: str) -> None:
    """Its job is read, and the column counted; also if the value is one of a step."""
    odd = {"TotalCPU": "", "SystemCPU": ""} if column == "TotalCPU" else {}
    (one,) = told(table(row(**{**odd, column: value}), row("1.0", **{**odd, column: value}), columns=COLUMNS))

    assert one.unusable == {column}
    assert (getattr(one.what, field), one.what.elapsed_s, one.what.user) == (None, 60, "alice")


@pytest.mark.parametrize("name", ["t10.txt", "t16.txt", "j16.json"])
def test_values_that_slurm_has_for_none_are_counted(name: str) -> None:
    """In a table as in JSON; the wall time is that from start to end."""
    (one,) = told(CASES / name)

    assert (one.what.elapsed_s, one.what.memory_kib) == (3600, 1000 if name == "t16.txt" else None)
    assert one.unusable == {"ElapsedRaw" if name == "t16.txt" else "MaxRSS"}


def test_optional_values_of_json_are_counted() -> None:
    job = json.loads(JSON.read_bytes())["jobs"][20]
    job["time"] |= {"suspended": -5, "elapsed": 2**64 - 1}
    job["steps"][0]["tres"]["requested"]["max"] = [{"type": "mem", "name": "", "count": 2**64 - 2}]
    job["exit_code"] = {"return_code": "0"}
    (one,) = told(json.dumps({"jobs": [job]}).encode())

    assert isinstance(one.what, SlurmRun)
    assert one.unusable == {"Suspended", "ElapsedRaw", "MaxRSS", "ExitCode"}


def test_an_account_with_a_blank() -> None:
    assert run(CASES / "t27.txt", 27).account == "proj a"


def test_out_of_memory_is_no_signal() -> None:
    """Slurm's mark is 125; Linux has signals up to 64."""
    one = run(CASES / "t3.txt", 3)

    assert (one.state, one.exit_status, one.exit_signal) == ("OUT_OF_MEMORY", 0, None)


def test_faults_in_json() -> None:
    """They cost their job, and can be read again by themselves."""
    jobs = json.loads(JSON.read_text(encoding="utf-8"))["jobs"][:4]
    jobs[1]["job_id"] = "x"
    jobs[2]["time"]["end"] = 10**13
    jobs.append(["no object"])
    found = faults(json.dumps({"jobs": jobs}).encode())

    assert [one.position for one in found] == ["job 2", "job 3", "job 5"]
    for one in found:
        (again,) = told(one.content.encode())
        assert again.what == one.what


def test_a_number_without_end_costs_its_job() -> None:
    """Python refuses to read numbers of more than 4,300 digits."""
    digits = "9" * 5000
    jobs = json.loads(JSON.read_text(encoding="utf-8"))["jobs"][:2]
    long = json.dumps({"jobs": [{"job_id": 0}, *jobs]}).replace('"job_id": 0', f'"job_id": {digits}', 1)

    assert len(faults(long.encode())) == 1
    assert len(faults(table(row(JobIDRaw=digits), row()))) == 1


@pytest.mark.parametrize("levels", [1_000, 100_000])
def test_a_job_that_is_nested_too_deeply_costs_itself(levels: int) -> None:
    """Its neighbours are read, whether it comes at once or in pieces; some versions of Python decode 1,000 levels."""
    jobs = json.loads(JSON.read_text(encoding="utf-8"))["jobs"][:3]
    whole = json.dumps({"jobs": [jobs[0], jobs[1] | {"deep": "HERE"}, jobs[2]]})
    content = whole.replace('"HERE"', "[" * levels + "]" * levels).encode()
    read_as_usual = [one.what for one in told(whole.encode())]
    for piece in (1 << 20, 1_000):
        found = told(content, piece)

        assert [one.what for one in (found[0], found[2])] == read_as_usual[::2]
        assert found[1].what == Fault("deep is nested too deeply") or (
            levels < 10_000 and found[1].what == read_as_usual[1]
        )
        assert told(found[1].content.encode())[0].what == found[1].what


HUGE = {
    "a text": ('"comment": "', '"x" * 65_536', '"', "comment is longer than"),
    "lists": ('"comment": [', '"[]," * 20_000', "[]]", "comment is longer than"),
    "members": (
        '"a": 1, ',
        """''.join(f'"b{n}": "{n:300}", ' for n in range(at, at + 500))""",
        '"c": 1',
        "than any job",
    ),
    "a step": ('"steps": [{"x": [', '"[]," * 20_000', "[]]}]", "a step is longer than"),
}


@pytest.mark.campaign
@pytest.mark.parametrize(("begin", "middle", "end", "reason"), HUGE.values(), ids=HUGE)
def test_a_job_of_60_mb_costs_itself(begin: str, middle: str, end: str, reason: str) -> None:
    """It is passed without being held, and named; its neighbours are read."""
    (one, other) = json.loads(JSON.read_text(encoding="utf-8"))["jobs"][:2]
    code = f"""
from arcacct.records.rejected import Fault
from arcacct.sources.slurm.sacct import OutputForm, read
def chunks():
    yield {f'{{"jobs": [{json.dumps(one)}, {{{begin}'.encode()!r}
    came = at = 0
    while came < 60_000_000:
        chunk = ({middle}).encode()
        yield chunk
        came, at = came + len(chunk), at + 500
    yield {f"{end}}}, {json.dumps(other)}]}}".encode()!r}
found = list(read(chunks(), OutputForm()))
assert [type(one.what).__name__ for one in found] == ["SlurmRun", "Fault", "SlurmRun"], found
assert {reason!r} in found[1].what.reason, found[1].what
assert found[1].position == "job 2" and found[1].length > 60_000_000 and len(found[1].content) <= 1024 * 1024
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=60).peak_kib < 150 * 1024


def test_a_job_of_10_000_steps_is_read() -> None:
    """90 MB as Slurm 22.05 prints it: each step is read for itself."""
    (job,) = [one for one in json.loads(JSON.read_text(encoding="utf-8"))["jobs"] if one["job_id"] == 28]
    times = {"time": {"total": {"seconds": 2, "microseconds": 500_000}}}
    step = json.dumps(job["steps"][0] | times, indent=4)
    code = f"""
from arcacct.records.rejected import Fault
from arcacct.sources.slurm.sacct import OutputForm, read
def chunks():
    yield {f'{{"jobs": [{json.dumps(job | {"steps": []})[:-1]}, "steps": ['.encode()!r}
    for _ in range(9_999):
        yield {f"{step},".encode()!r}
    yield {f"{step}]}}]}}".encode()!r}
(found,) = read(chunks(), OutputForm())
assert found.what.cpu_us == 25_000_000_000, found.what
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=60).peak_kib < 100 * 1024


def test_values_of_json_that_are_none() -> None:
    """Each is absent for itself."""
    job = json.loads(JSON.read_text(encoding="utf-8"))["jobs"][20]
    spoilt = job | {"name": {}, "user": 3, "wckey": None, "exit_code": "x", "steps": [None, {"time": 5}], "qos": []}
    (one,) = runs(json.dumps({"jobs": [spoilt]}).encode()).values()

    assert (one.name, one.user, one.wckey, one.exit_status, one.qos) == ("", job["association"]["user"], "", None, "")
    assert (one.cpu_us, one.elapsed_s) == (None, job["time"]["elapsed"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"\n\n", "header"),
        ((DATA / "sacct-default.txt").read_bytes(), "--parsable2"),
        ((DATA / "sacct-SYNTHETIC-long-times.txt").read_bytes(), "lacks the columns JobIDRaw, State, AllocCPUS"),
        ((SONAR / "real-sacct-raw.txt").read_bytes(), "lacks the columns Submit"),
        (b"{", "truncated"),
        (b'{"jobs": [{"job_id"', "truncated"),
        (b'{"jobs" 3}', "damaged"),
        (b"[]", "header"),
    ],
)
def test_what_is_no_output(content: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        told(content)


@pytest.mark.parametrize("text", ["{}", '{"jobs": null}', '{"jobs": {"a": 1}}', '{"meta": {}, "nodes": []}'])
def test_json_without_jobs_is_no_output(text: str) -> None:
    """Also that of another of Slurm's programs: none of it was read, and that is not well."""
    with pytest.raises(InputError, match="no list of jobs"):
        told(text.encode())


def test_what_sacct_says_that_failed_is_said() -> None:
    """It ends well, with no job or some of them, when its database does not answer: what it has is taken, and told."""
    jobs = json.loads(JSON.read_bytes())["jobs"][:2]
    text = json.dumps({"errors": [{"error": "Unable to connect to database", "error_number": 7000}], "jobs": jobs})
    coming = read([text.encode()], OutputForm())
    found = [next(coming) for _ in jobs]

    assert [one.what.job_id for one in found if isinstance(one.what, SlurmRun)]
    with pytest.raises(InputError, match=r"sacct says in it: \[\{[^\[]*Unable to connect to database"):
        next(coming)


def test_outputs_of_json_behind_each_other_are_all_read() -> None:
    """As `cat` makes one file of those of several days."""
    day = (DATA / "sacct-job12-as-printed.json").read_bytes()

    assert runs(day + JSON.read_bytes()) == runs(JSON)
    assert len(told(day + b"\n" + JSON.read_bytes())) == 1 + len(told(JSON))


def as_printed() -> tuple[list[str], list[dict[str, object]]]:
    """The lines of an output as Slurm prints it, and its jobs."""
    jobs = json.loads(JSON.read_bytes())["jobs"]
    return json.dumps({"jobs": jobs, "errors": []}, indent=2).splitlines(keepends=True), jobs


def test_a_job_without_the_beginning_of_a_part_is_quarantined() -> None:
    """Its end seems to come too early: it is not taken without what follows, and all others are as they were."""
    lines, _ = as_printed()
    whole = [*runs("".join(lines).encode()).values()]
    start = lines.index("    {\n")
    end = lines.index("    },\n", start)
    openers = [at for at in range(start, end) if lines[at].rstrip().endswith(("{", "["))]
    for at in sample(openers, 6):
        found = told("".join([*lines[:at], *lines[at + 1 :]]).encode())
        good = [one.what for one in found if isinstance(one.what, SlurmRun)]
        assert good == whole[1:], lines[at]
        assert any(isinstance(one.what, Fault) for one in found)
    assert len(openers) > 20


@pytest.mark.parametrize(("damage", "size"), cross(7, ['"', "{", "}", "]", "\n", "\0", ""], [7, 1000, 1 << 30]))
def test_damage_in_a_document_costs_its_job_however_it_comes(damage: str, size: int) -> None:
    """Also where the output comes in pieces, and of several outputs behind each other."""
    lines, jobs = as_printed()
    text = "".join(lines)
    number = jobs[30]["job_id"]
    at = text.index('"partition"', text.index(f'"job_id": {number}'))
    data = (text[:at] + damage + text[at + 11 :] + text).encode()
    whole = [*runs(text.encode()).values()]
    found = [one.what for one in told(data, size)]
    good = [one for one in found if isinstance(one, SlurmRun)]

    assert Counter(good) == Counter([*whole, *(one for one in whole if one.job_id != number)])
    assert sum(isinstance(one, Fault) for one in found) == 1


@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_a_name_that_is_longer_than_any_is_not_read(size: int) -> None:
    """It is no damage: the job is taken, also the last one."""
    jobs = json.loads(JSON.read_bytes())["jobs"][20:23]
    odd = [{**job, "x" * 5000: {"y": 1}} for job in jobs]

    found = [one.what for one in told(json.dumps({"jobs": odd, "z" * 2000: 1}).encode(), size)]
    assert found == [one.what for one in told(json.dumps({"jobs": jobs}).encode())]


def test_damage_before_the_jobs_costs_none() -> None:
    jobs = json.loads(JSON.read_bytes())["jobs"]
    text = json.dumps({"meta": {"Slurm": {"version": {"major": 22}}}, "jobs": jobs}, indent=2)
    found = told(text.replace('"version": {', '"version": ', 1).encode())

    assert [one.what for one in found if isinstance(one.what, SlurmRun)] == [*runs(text.encode()).values()]
    assert [one.position for one in found if isinstance(one.what, Fault)] == ["job 1"]


def test_what_came_before_a_cut_is_good() -> None:
    content = JSON.read_bytes()
    coming = read([content[: len(content) // 2]], OutputForm())
    found = [next(coming) for _ in range(20)]

    assert [one.what.job_id for one in found if isinstance(one.what, SlurmRun)]
    with pytest.raises(InputError, match="truncated"):
        list(coming)


def test_long_durations_of_a_database_that_was_edited() -> None:
    """From an hour on without fractions, from a day on with days."""
    _, *lines = (DATA / "sacct-SYNTHETIC-long-times.txt").read_text(encoding="utf-8").splitlines()
    totals = [line.split("|")[11] for line in lines if "." not in line.split("|")[0]]
    found = [run(table(row(TotalCPU=total)), 1).cpu_us for total in totals]

    assert found == [9_430_000, 5_000_000_000, 200_000_000_000, 18_000_000_000_000]


@given(st.integers(1, 60), st.booleans())
def test_pieces_are_the_whole(piece: int, is_json: bool) -> None:
    path = DATA / ("sacct-while-running-68-69.json" if is_json else "sacct-while-running.txt")

    assert told(path, piece) == told(path)


VALUES = st.one_of(st.none(), st.integers(0, 5))
RUN = run(TABLE, 28)
ANY_RUN = st.builds(
    RUN._replace,
    start_time=st.integers(BEGIN, BEGIN + 3),
    end_time=st.integers(BEGIN + 5, BEGIN + 8),
    cpu_us=VALUES,
    memory_kib=VALUES,
    exit_status=VALUES,
    name=st.sampled_from(["", "a", "b", "ab", "ba"]),
    state=st.sampled_from(["COMPLETED", "FAILED", "NODE_FAIL"]),
)


@given(ANY_RUN, ANY_RUN, ANY_RUN)
def test_runs_are_joined_in_any_order(one, other, third) -> None:
    assert SOURCE.joined(one, one) == one
    assert SOURCE.joined(one, other) == SOURCE.joined(other, one)
    assert SOURCE.joined(SOURCE.joined(one, other), third) == SOURCE.joined(one, SOURCE.joined(other, third))


def test_a_step_that_is_there_twice_counts_once() -> None:
    step = row("7.batch", State="COMPLETED", TotalCPU="00:10.000", MaxRSS="100K")
    found = run(table(row(7, TotalCPU="00:00:00", SystemCPU=""), step, step), 7)

    assert found.cpu_us == 10_000_000


# Rows of tables whose texts have delimiters and line ends: put together where it is certain, else set aside.


def rows(*lines: str, columns: str = COLUMNS) -> list[TableRow | Misfit | Noise]:
    return list(TableRows(header_of(columns)).of(enumerate("\n".join(lines).split("\n"), 2)))


def names(found: list[TableRow | Misfit | Noise]) -> list[str | None]:
    return [one.values["JobName"] if isinstance(one, TableRow) else None for one in found]


def test_every_row_of_a_real_table_is_put_together() -> None:
    """Nine lines have not its 109 fields: names, comments and command lines with delimiters and line ends."""
    first, *lines = TABLE.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = rows(*lines, columns=first)

    assert sum(line.count("|") != 108 for line in lines) == 9
    assert not [one for one in found if isinstance(one, Misfit)]
    of_job = {one.values["JobID"]: one.values["JobName"] for one in found if isinstance(one, TableRow)}
    assert (of_job["32"], of_job["35"], of_job["28.4"]) == ("pipe|in|name", "line1\nline2", "step|pipe")
    assert of_job["37"] == "quote`s 'single' back\\slash, comma; semi"
    assert (of_job["33"], of_job["53"]) == ("ünï Größe ? ?? ?", "ünï Größe Δ 日本 🚀 utf8mb4")


def test_another_delimiter_leaves_line_ends_only() -> None:
    first, *lines = (DATA / "sacct-X-delimiter-x1f.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = rows(*lines, columns=first)

    assert header_of(first).delimiter == "\x1f"
    assert [len(one.lines) for one in found if len(one.lines) > 1] == [2, 2]
    assert not [one for one in found if isinstance(one, Misfit)]


def test_a_delimiter_behind_the_last_column() -> None:
    """As `sacct -p` writes it."""
    (one,) = rows("1|x|COMPLETED|", columns="JobIDRaw|JobName|State|")

    assert isinstance(one, TableRow)
    assert one.values == {"JobIDRaw": "1", "JobName": "x", "State": "COMPLETED"}


def test_names_are_taken_in_any_letters() -> None:
    (one,) = rows("1|x|COMPLETED", columns="jobidraw|jobname|state")

    assert isinstance(one, TableRow)
    assert one.values == {"JobIDRaw": "1", "JobName": "x", "State": "COMPLETED"}


@pytest.mark.parametrize(
    "line", ["", "JobID", "1|2|3", "JobID           JobName  Partition", "JobID|JobID", "Job ID|State"]
)
def test_what_is_no_header(line: str) -> None:
    with pytest.raises(InputError, match="header"):
        header_of(line)


def test_a_delimiter_with_letters_must_be_given() -> None:
    assert header_of("JobIDxyStatexyEnd", "xy").columns == ("JobID", "State", "End")


@pytest.mark.parametrize(
    "bad",
    [
        ("", ""),
        ("sacct: error: slurmdbd: Connection refused", "sacct: error: x"),
        (row(100)[:60], row(101)[:60]),
        (row(100)[20:], row(101)[20:]),
        (row(100).partition("job")[0] + "jo", row(101)[:60]),
    ],
)
def test_a_bad_line_costs_nothing_but_itself(bad: tuple[str, str]) -> None:
    """Of two with forty good rows between them: all forty are read, and so are those before and behind."""
    good = [row(number) for number in range(1, 43)]
    found = rows(good[0], bad[0], *good[1:41], bad[1], good[41])

    assert [one.lines[0] for one in found if isinstance(one, TableRow)] == good
    assert len(found) == 44


def test_blank_lines_and_those_without_the_delimiter_are_noise() -> None:
    found = rows(row(1), "", "sacct: error: x", row(2))

    assert [type(one) for one in found] == [TableRow, Noise, Noise, TableRow]
    assert [(one.line, one.number) for one in found if isinstance(one, Noise)] == [("", 3), ("sacct: error: x", 4)]


def test_a_torn_row_and_the_row_behind_it_are_not_one() -> None:
    """Also where the second one is torn as well, and they could be put together."""
    in_its_name = row(2).partition("job")[0] + "jo"
    found = rows(row(1), in_its_name, row(3), in_its_name, row(4)[:-6], row(5))

    assert [one.values["JobIDRaw"] for one in found if isinstance(one, TableRow)] == ["1", "3", "5"]
    assert [one.job for one in found if isinstance(one, Misfit)] == ["2", "2", "4"]


def test_a_name_with_line_ends_is_put_together() -> None:
    found = rows(row(1), row(2, JobName="x\n\ny z"), row(3))

    assert names(found) == ["job", "x\n\ny z", "job"]


@pytest.mark.parametrize("name", ["User", "Group", "Account", "WCKey", "Reservation", "Partition"])
def test_a_blank_in_a_name_is_read(name: str) -> None:
    """Groups of an Active Directory have them."""
    (one,) = rows("1|domain users|COMPLETED", columns=f"JobIDRaw|{name}|State")

    assert isinstance(one, TableRow)
    assert one.values[name] == "domain users"


def test_with_a_secret_delimiter_the_number_of_fields_decides() -> None:
    """Whatever is in them, and however many lines a text has; a row with fewer costs itself."""
    between = new_delimiter()
    columns, *lines = (
        between.join(fields)
        for fields in (
            ("JobIDRaw", "JobName", "ReqNodes", "State", "User"),
            ("1", "a|b\n\n2|x\nc", "0.00K", "COMPLETED", "domain users"),
            ("2", "x"),
            ("3", "y", "-", "FAILED", "u|v"),
        )
    )
    found = rows(*lines, columns=columns)

    assert names(found) == ["a|b\n\n2|x\nc", None, "y"]
    assert [one.values["User"] for one in found if isinstance(one, TableRow)] == ["domain users", "u|v"]


def test_any_text_may_hold_the_delimiter() -> None:
    """Between values with a proven shape the reading is certain; else the row is rejected, with a way out."""
    (certain,) = rows("1|a100|h100|COMPLETED", columns="JobIDRaw|Constraints|State")
    (doubtful,) = rows("1|ada|a100|h100|COMPLETED", columns="JobIDRaw|User|Constraints|State")

    assert isinstance(certain, TableRow)
    assert isinstance(doubtful, Misfit)
    assert all(way in doubtful.reason for way in ("--json", "--delimiter", "--run"))


def test_two_texts_with_delimiters_between_which_anything_fits_are_not_certain() -> None:
    (one,) = rows("1|a|b|c|COMPLETED", columns="JobIDRaw|JobName|Comment|State")

    assert isinstance(one, Misfit)


def test_a_text_that_is_not_used_need_not_be_certain() -> None:
    (one,) = rows("1|a|b|c|COMPLETED", columns="JobIDRaw|AdminComment|Comment|State")

    assert isinstance(one, TableRow)
    assert one.values == {"JobIDRaw": "1", "State": "COMPLETED"}


def test_many_broken_lines_are_read_in_time_that_grows_with_them() -> None:
    """No line is tried with more than some behind it."""
    found = rows(*[row(number)[:30] for number in range(1, 3000)])

    assert all(isinstance(one, Misfit) for one in found)


@pytest.mark.parametrize(("line", "times"), [("", 60_000), ("x", 60_000), ("a|b|c", 60_000), ("1|testgrid", 5_000)])
def test_thousands_of_lines_that_are_no_rows(line, times) -> None:
    """What is left of one row, or seems to be, takes time and memory in proportion; rows before and behind are read."""
    code = f"""
from arcacct.sources.slurm.sacct import OutputForm, read
first, good = {COLUMNS!r}, {row(1)!r}
whole = "".join(one + "\\n" for one in (first, good, good, {row(2)[:50]!r}, *[{line!r}] * {times}, *[good] * 200))
found = list(read([whole.encode()], OutputForm()))
assert "SlurmRun" in {{type(one.what).__name__ for one in (found[0], found[-1])}}
"""
    assert cost_of(sys.executable, "-c", code, most_cpu_s=25).peak_kib < 200 * 1024
