"""LSF's lsb.acct: what is read of a line, what is left out, and the jobs that are made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import pytest
from batch_files import BEGIN, DATA, BatchHost, reasons, runs
from campaigns import examples
from slurm_files import arc_job

from arcacct.sources.lsf.importer import SOURCE

LOG = DATA / "lsf" / "lsb.acct"
LINES = LOG.read_bytes().splitlines(keepends=True)


@pytest.fixture
def host(tmp_path) -> Iterator[BatchHost]:
    found = BatchHost(tmp_path, SOURCE)
    with closing(found.con):
        yield found


def test_a_log(host) -> None:
    """Two runs of a job that was requeued are one job; one that never started is none."""
    report = host.take(LOG)

    assert (report.jobs, report.rejected, report.unused["never started"]) == (8, 0, 1)
    assert host.rows(
        "SELECT local_job_id, status, exit_code, wall_s, cpu_s, core_count, node_count, memory_kib, project"
        " FROM v1_jobs ORDER BY local_job_id"
    ) == [
        ("386", "completed", 0, 3600, 3513, 1, 1, 108544, "atlas"),
        ("387", "completed", 0, 600, 2020, 4, 2, 4096, "cms"),
        ("388[7]", "failed", 3, 600, 7100, 12, 2, 65536, None),
        ("389", "aborted", 2 + 256, 600, None, 1, 1, None, None),
        ("390", "failed", 9 + 256, 600, 1001, 2, 1, 2048, "higgs"),
        ("392", "completed", 0, 1700, 1403, 2, 1, 3072, "higgs"),
    ]
    assert host.rows("SELECT JobName FROM BatchRuns WHERE JobNumber = 387") == [('say "hi" 5',)]


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_however_it_is_cut_into_pieces(piece) -> None:
    assert runs(SOURCE, LOG.read_bytes(), piece) == runs(SOURCE, LOG.read_bytes())


def test_once_more_and_in_any_order_changes_nothing(host, tmp_path) -> None:
    host.take(LOG)
    found, logged = host.everything(), host.logged()
    host.take(LOG)
    other = BatchHost(tmp_path / "other", SOURCE)
    with closing(other.con):
        for part in reversed(LINES):
            other.take(part)

        assert (host.everything(), host.logged()) == (found, logged)
        assert other.everything() == found


@pytest.mark.parametrize("keep", ["exitStatus", "idx", "exitInfo"])
def test_the_end_of_a_record_may_lack(keep) -> None:
    """The blank in its command counts, too. Older versions end earlier; newer ones have more than is read."""
    upto = {"exitStatus": 51, "idx": 55, "exitInfo": 64}[keep]
    (whole,) = runs(SOURCE, LINES[0])
    (run,) = runs(SOURCE, b" ".join(LINES[0].split(b" ")[: upto + 1]) + b"\n")

    assert run[:9] == whole[:9]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b" 108544 204800 ", b" 1e30 204800 ", "maxRMem"),
        (b" 3500.25 ", b" abc ", "ru_utime"),
        (b'"atlas" 0 1 ', b'"atlas" -5 1 ', "exitStatus"),
        (b'"n1" 64 ', '"n1" ١٢٣ '.encode(), "jStatus"),
    ],
)
def test_an_odd_value_costs_itself(host, old, new, field) -> None:
    report = host.take(LINES[0].replace(old, new))

    assert report.unusable == {field: 1}
    assert host.rows("SELECT local_job_id, wall_s FROM v1_jobs") == [("386", 3600)]


def test_a_start_of_zeros_is_none(host) -> None:
    """However many: a run from 1970 on is none."""
    report = host.take(LINES[0].replace(b" 1793577604 ", b" 00 "))

    assert (report.rejected, report.unused) == (0, {"never started": 1})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (LINES[0].replace(b'0 1 "n1"', b'0 9999 "n1"'), "numExHosts: 9999 hosts, but the record ends earlier"),
        (LINES[0].replace(b" 386 ", b" x ", 1), "jobId: 'x' is not a number"),
        (LINES[0].replace(b" 1793577600 ", b" 0 ", 1), "submitTime: it is missing"),
        (LINES[2].replace(b" 7 ", " ² ".encode()), "idx: '²' is not a number"),
        (LINES[0][:200] + b"\n", "it ends before its exit status"),
        (LINES[0].replace(b'"pilot"', b'"pi"lot"'), "field 28 cannot be read"),
        (b"Killed\n", "'Killed' is not a type of a record"),
        (LINES[0].replace(b'"JOB_FINISH"', b"JOB_FINISH"), "'JOB_FINISH' is not a type of a record"),
        (LINES[0].replace(b'"pilot"', b'"pilot'), "field 28 cannot be read"),
    ],
)
def test_what_cannot_be_used_costs_itself(host, content, reason) -> None:
    report = host.take(LINES[1] + content + LINES[2])

    assert reasons(SOURCE, content + LINES[2])[0].startswith(reason)
    assert (report.rejected, report.news, report.taken.added) == (1, 1, 2)
    assert host.take(LINES[1] + content + LINES[2]).news == 0


def test_a_job_of_arex_is_completed(host) -> None:
    record = arc_job(host, number="386", SubmitTime=BEGIN - 5, EndTime=BEGIN + 4000)
    host.take(LINES[0])

    assert host.rows(
        f"SELECT wall_s, memory_kib FROM v1_jobs JOIN AAR ON JobID = job_id WHERE RecordID = {record}"
    ) == [(3600, 108544)]
    assert host.rows("SELECT count(*) FROM v1_jobs") == [(1,)]


def case(name: str) -> bytes:
    return (DATA / "lsf" / name).read_bytes()


def test_a_record_ends_where_its_quotes_close() -> None:
    """A job script that is given as command has line ends of its own."""
    assert [(run.number, run.cpu_user_s) for run in runs(SOURCE, case("l7.acct"))] == [(7, 12_000), (71, 12_000)]
    assert not reasons(SOURCE, case("l7.acct"))


def test_user_and_system_cpu_are_rounded_once() -> None:
    found = runs(SOURCE, case("l15.acct"))

    assert [(run.cpu_user_s or 0) + (run.cpu_kernel_s or 0) for run in found] == [100, 1, 1, 12_001]


def test_the_cpus_of_a_job_of_hp_xc_are_in_additional_info() -> None:
    """LSF sees one slot, whatever the job has."""
    assert [run.cores for run in runs(SOURCE, case("l16.acct"))] == [4]
    assert [run.cores for run in runs(SOURCE, case("l16.acct").replace(b"ncpus=4;", b"ncpus=;"))] == [1]


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        (b"gpu[num=2:mode=shared:mps=no:j_exclusive=yes]", 2),
        (b"gpu[mode=shared:num=2]", 2),
        (b"gpu[num=1/task:mode=shared]", 4),
        (b"", 2),
        (b"gpu[mode=shared]", 2),
    ],
)
def test_the_gpus_are_those_of_the_effective_requirement(asked, gpus) -> None:
    """For each host, or for each task; a version that does not write it has none."""
    old = b"gpu[num=2:mode=shared:mps=no:j_exclusive=yes]"
    rest = case("l17.acct").partition(b" 2 1032 ")[0] + b"\n"

    assert [run.gpus for run in runs(SOURCE, case("l17.acct").replace(old, asked))] == [gpus]
    assert [run.gpus for run in runs(SOURCE, rest)] == [None]


def test_the_gpus_of_several_hosts_are_added() -> None:
    several = case("l17.acct").replace(b'"n1" "n1" "n1" "n1" 64', b'"n1" "n1" "n2" "n2" 64')

    assert [(run.node_list, run.gpus) for run in runs(SOURCE, several)] == [("n1,n2", 4)]


def test_gpus_are_read_behind_counted_groups_of_any_length() -> None:
    none = case("l17.acct")
    some = none.replace(b' 2 1032 "0" 1033 "0" 0 -1 64 ', b' 1 1032 "gpu[num=9]" 2 "n1" 1 2 3 4 "n2" 1 2 3 4 -1 64 ')

    assert some != none
    assert [run.gpus for run in runs(SOURCE, some)] == [2]


FORGED = LINES[1].decode().rstrip("\n")
HOSTILE = (
    *('"', '""', "\n", "\r\n", " ", '" "', "x", "é", "#", "\\", "64 60.0", ' 0 4 "n9" ', "gpu[num=9]"),
    *(FORGED, f"\n{FORGED}\n", "\n" + FORGED.replace('"', "") + "\n", FORGED.partition(" 1793")[0], "ncpus=99"),
)


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


class Written:
    """A record by the grammar, with hostile texts wherever a user can set one, and its values."""

    def __init__(self, chance: random.Random, number: int) -> None:
        def text() -> str:
            return quoted("".join(chance.choices(HOSTILE, k=chance.randint(0, 4))))

        self.name, self.project = ("".join(chance.choices(HOSTILE, k=chance.randint(1, 4))) for _ in range(2))
        start, wall, cores = BEGIN + chance.randint(1, 99), chance.randint(0, 9999), chance.randint(1, 9)
        user_s, kernel_s, gpus = chance.randint(0, 10**6) / 10, chance.randint(0, 10**4) / 10, chance.randint(1, 4)
        hosts = " ".join(quoted(f"n{at % 2}") for at in range(cores))
        before = (
            f'"JOB_FINISH" "10.1" {start + wall} {number} 1001 33816602 {cores} {BEGIN} 0 0 {start} "ada" "normal"'
            f' {text()} {text()} {text()} "sub1" {text()} {text()} {text()} {text()} "1793520000.7" 1 "n9" {cores}'
        )
        usage = f"{user_s} {kernel_s} 5316 0 -1 0 0 2322 0 0 8 0 -1 0 0 0 128 5 -1"
        after = (
            f"64 60.0 {quoted(self.name)} {text()} {usage} {text()} {quoted(self.project)} 0 {cores} {text()} {text()}"
            f' 0 20480 40960 {text()} {text()} {text()} {text()} 0 "" 0'
        )
        extensions = chance.randint(0, 3)
        tail = (
            f'{text()} -1 {text()} {text()} {text()} {text()} -1 {text()} {text()} 2097168 {text()} {start} "" {text()}'
            f" {extensions} {' '.join(f'{at} {text()}' for at in range(extensions))} 0 -1 64 19000"
            f' "select[type == any] gpu[num={gpus}:mode=shared]" {text()} -1 {text()} -1 0'
        )
        self.text = f"{before} {hosts} {after} {tail}\n"
        cpu_s = round(user_s + kernel_s)
        nodes = ",".join(("n0", "n1")[:cores])
        self.values = (number, "ada", "normal", BEGIN, start, start + wall, cores, cpu_s, gpus * len(nodes.split(",")))
        self.values += (nodes, self.name, self.project)


def test_no_text_of_a_user_decides_about_a_job() -> None:
    """Each record is read as it was written, or, if it was torn, costs itself alone: none becomes another's job."""
    chance = random.Random(50)
    written = [Written(chance, number) for number in range(1, examples(2000) + 1)]
    torn = [chance.random() < 0.1 for _ in written[1:]] + [False]
    content = "".join(
        one.text[: chance.randint(60, len(one.text) - 80)] + "\n" if is_torn else one.text
        for one, is_torn in zip(written, torn, strict=True)
    ).encode()
    told = [
        (
            *(run.number, run.user, run.queue, run.submit_time, run.start_time, run.end_time, run.cores),
            *((run.cpu_user_s or 0) + (run.cpu_kernel_s or 0), run.gpus, run.node_list, run.name, run.project),
        )
        for run in runs(SOURCE, content, chance.choice([1000, 1 << 20]))
    ]
    whole = [one.values for one, is_torn in zip(written, torn, strict=True) if not is_torn]
    numbers = {one[0] for one in whole}

    assert [one for one in told if one[0] in numbers] == whole
    assert {one[1:4] for one in told} == {("ada", "normal", BEGIN)}
    assert len(told) + len(reasons(SOURCE, content)) == len(written)


def test_a_quote_that_is_never_closed_costs_one_record() -> None:
    """Also if lines without quotes follow."""
    content = LINES[1] + LINES[0].replace(b'"pilot"', b'"pilot') + b"x\n\ny\n" + LINES[2] + LINES[3]

    assert runs(SOURCE, content) == runs(SOURCE, LINES[1] + LINES[2] + LINES[3])
    assert len(reasons(SOURCE, content)) == 1


def test_a_record_that_is_still_written_is_left_for_the_next_look(host, tmp_path) -> None:
    """A follower takes a record when its quotes are closed, and then as one."""
    lines = case("l7.acct").splitlines(keepends=True)
    log = tmp_path / "lsb.acct"
    log.write_bytes(b"".join(lines[:2]))
    looks = iter(range(3))

    def goes_on() -> bool:
        look = next(looks)
        if look == 1:
            with log.open("ab") as file:
                file.write(b"".join(lines[2:]))
        return look < 2

    work = host.work()
    work.follow([str(log)], poll_s=0.01, goes_on=goes_on)

    assert (work.report.jobs, work.report.rejected, work.report.noise) == (2, 0, 0)
    assert host.rows("SELECT local_job_id FROM v1_jobs ORDER BY 1") == [("7",), ("71",)]


@pytest.mark.parametrize("reason", ["10", "11"])
def test_a_run_that_was_requeued_waits_for_the_next(host, reason) -> None:
    """Its exitInfo says so; that of the last run does not."""
    requeued = LINES[0].replace(b' 0 "" 0 "" -1 ', f' 0 "" {reason} "" -1 '.encode())
    again = LINES[0].replace(b" 1793577604 ", b" 1793581300 ").replace(b" 1793581204 ", b" 1793582300 ")

    assert [run.is_final for run in runs(SOURCE, requeued + again)] == [0, 1]
    assert host.take(requeued).taken.followed == 1
    assert host.rows("SELECT count(*) FROM v1_jobs") == [(0,)]
    assert host.take(again).taken.added == 1
    assert host.rows("SELECT wall_s, cpu_s FROM v1_jobs") == [(3600 + 1000, 2 * 3513)]


@pytest.mark.parametrize("resize_first", [True, False])
def test_a_job_that_was_resized_counts_its_cores_phase_by_phase(host, resize_first) -> None:
    """4 cores for 1,800 s, then 8 for 1,800 s."""
    lines = case("l13.acct").splitlines(keepends=True)
    for one in lines if resize_first else reversed(lines):
        host.take(one)

    assert host.rows("SELECT core_count, wall_s FROM v1_jobs") == [(8, 2700)]
    assert host.rows("SELECT wall_s, core_s FROM v1_batch_runs") == [(3600, 21600)]


def test_a_job_that_was_resized_twice(host) -> None:
    """4 cores for 1,800 s, 8 for 800 s, then 6; a resize that cannot be used costs itself."""
    resize, finish = case("l13.acct").splitlines(keepends=True)
    shrink = b'"JOB_RESIZE" "10.1" 1793522700 13 0 1793520100 1001 "ada" 1 1793521900 1 "8*n1" 1 "2*n1"\n'
    last = finish.replace(b' 8 "n1" "n1" "n1" "n1" "n2" "n2" "n2" "n2" 64 ', b' 1 "6*n1" 64 ')
    report = host.take(resize + shrink + last + resize.replace(b" 13 0 ", b" x 0 "))

    assert (report.jobs, report.rejected) == (2, 1)
    assert host.rows("SELECT core_count, v1_batch_runs.core_s FROM v1_jobs JOIN v1_batch_runs USING (job_id)") == [
        (8, 4 * 1800 + 8 * 800 + 6 * 1000)
    ]
