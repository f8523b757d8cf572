"""What this host tells of itself, in Sonar's format."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from functools import partial

import pytest
from sonar_site import REAL, kind_of, objects, read, validate

from arcacct.sources.sonar import sampler
from arcacct.sources.sonar.envelopes import Errors, Sysinfo
from arcacct.sources.sonar.sampler import Host, json_text, line, name_jobs, processes, sample
from arcacct.sources.sonar.samples import Sample, SampledKey
from arcacct.sources.sonar.sysinfo import cpu_layout, numa_distances, sysinfo

ROOT = pathlib.Path(__file__).parents[3]
SMI = """#!/bin/sh
case "$1" in
*index,uuid,pci*)
  echo "0, GPU-1, 00000000:01:00.0, NVIDIA A100, 550.1, 92.00, 40960, 400.00, 400.00, 100.00, 1410, [N/A]";;
*index,uuid,fan*) echo "0, GPU-1, [N/A], Default, P0, 1024, 37, 5, 41, 123.45, 400.00, 1200, 1215";;
*index,uuid) echo "0, GPU-1";;
--query-compute*) echo "{pid}, GPU-1, 512";;
pmon) echo "# gpu pid type sm mem enc dec command"; echo "    0 {pid} C 33 5 - - python3";;
esac
"""


def told(probe, kind, host):
    """What our own reader makes of an envelope of this host, and the envelope."""
    text, succeeded = line(probe, kind, host)
    [found] = read([text.encode() + b"\n"])
    return found, json.loads(text), succeeded


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """A card, as nvidia-smi tells it, that this process uses."""
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI.replace("{pid}", str(os.getpid())))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return str(program)


def test_what_this_host_is():
    """Sysinfo is valid by its schema and is read without a complaint."""
    host = Host("c")
    found, envelope, succeeded = told(partial(sysinfo, host), "sysinfo", host)
    assert succeeded
    assert isinstance(found, Sysinfo)
    assert found.sockets * found.cores_per_socket * found.threads_per_core >= 1
    assert found.node == os.uname().nodename
    validate(envelope, "sysinfo")


def test_what_this_host_does():
    """A sample is valid by its schema, is read without a complaint, and has this process in it."""
    host = Host("c", "n7")
    found, envelope, succeeded = told(partial(sample, host), "sample", host)
    assert succeeded
    assert isinstance(found, Sample)
    validate(envelope, "sample")
    mine = [shot for shot in found.jobs.values() if str(os.getpid()) in shot.processes]
    assert len(mine) == 1
    assert mine[0].memory_kib > 1000
    assert found.node == "n7"
    assert found.reading[""]["cores"] == os.cpu_count()


def keys(value, path="", into=None):
    """Every path of keys in a JSON value, with the types found there."""
    into = {} if into is None else into
    if isinstance(value, dict):
        for key, one in value.items():
            into.setdefault(f"{path}.{key}", set()).add(
                bool if isinstance(one, bool) else float if isinstance(one, int) else type(one)
            )
            keys(one, f"{path}.{key}", into)
    elif isinstance(value, list):
        for one in value:
            keys(one, f"{path}[]", into)
    return into


def test_the_shape_is_that_of_real_samples(smi):
    """Every key that we write Sonar writes there, too, and with the same type; what we never write is known."""
    host = Host("c")
    ours = keys(json.loads(line(partial(sample, host), "sample", host)[0]))
    ours |= keys(json.loads(line(partial(sysinfo, host), "sysinfo", host)[0]))
    real = {}
    for path in REAL.iterdir():
        if path.name.startswith("real-") and path.suffix != ".txt":
            for one in objects(path):
                if kind_of(one) in {"sample", "sysinfo"}:
                    keys(one, "", real)
    cards_and_containers = {
        "in_container", "compute_mode", "performance_state", "power", "power_limit", "memory_clock",
        "min_power_limit", "fan", "data_cancelled",
    }  # fmt: skip
    unknown = {key for key in ours if key not in real and key.rpartition(".")[2] not in cards_and_containers}
    assert unknown == set()
    assert {key: kinds for key, kinds in ours.items() if key in real and not kinds & real[key]} == {}
    never = {key.rpartition(".")[2] for key in real if key not in ours} - cards_and_containers
    assert never <= {
        "cpu_util", "rolledup", "topo_text", "architecture", "firmware", "gpu_memory_util", "num_threads",
        "data_read", "data_written", "max_ce_clock", "disks", "name", "major", "minor", "stats", "epoch", "index",
        "numa_nodes", "distances", "cpu_avg", "cpu_time",
    }  # fmt: skip


def test_cpu_time_grows():
    """A process that computes has used more at the second sample, and children it waited for are its own."""
    script = (
        "import subprocess, sys, time\n"
        "subprocess.run([sys.executable, '-c', 'sum(range(20_000_000))'])\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        [mine] = [one for one in processes() if one.pid == child.pid]
        child.kill()
    assert mine.cpu_s > mine.own_cpu_s >= 0
    assert mine.group == child.pid


def write_process(
    proc: pathlib.Path,
    pid: int,
    *,
    ppid: int = 1,
    group: int = 0,
    command: str = "python3",
    cgroup: str = "0::/\n",
    start: int = 1000,
):
    """A process as /proc tells it."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    rest = ["S", ppid, group, *[0] * 8, 300, 100, 50, 50, 20, 0, 4, 0, start, *[0] * 30]
    (folder / "stat").write_text(f"{pid} ({command}) {' '.join(map(str, rest))}\n")
    (folder / "statm").write_text("1000 600 100 10 0 400 0\n")
    (folder / "cgroup").write_text(cgroup)
    (folder / "io").write_text("rchar: 1\nwchar: 1\nread_bytes: 4097\nwrite_bytes: 0\ncancelled_write_bytes: 0\n")
    return folder


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n", 4242),
        ("4:memory:/slurm/uid_1000/job_77/step_batch\n1:name=systemd:/\n", 77),
        ("1:name=systemd:/\n4:memory:/slurm/uid_1000/job_77\n", 77),
        ("4:cpuset,cpu:/slurm_n7/uid_1000/job_77/step_batch\n", 77),
        ("0::/system.slice/n7_slurmstepd.scope/job_4242/step_0/user/task_0\n", 4242),
        ("0::/batch.slice/batch-low.slice/slurmstepd.scope/job_4242\n", 4242),
        ("0::/system.slice/slurmstepd.scope/job_4242/step_0/user/job_99\n", 4242),
        ("0::/system.slice/slurmstepd.scope/system\n", None),
        ("1:cpu:/system.slice/slurmstepd.scope/system\n0::/system.slice/slurmstepd.scope/job_7/step_0\n", 7),
        ("0::/system.slice/slurmstepd.scope/job_x/job_99\n", None),
        ("0::/system.slice/slurmstepd.scope/job_" + "9" * 30 + "\n", None),
        ("0::/user.slice/job_x/\n", None),
        ("0::/user.slice/user-1000.slice\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/job_99\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_99\n", None),
        ("0::/user.slice/user-1000.slice/slurmstepd.scope/job_99\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/a:/slurm/uid_0/job_99\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/a\r0::/slurm/uid_0/job_99\n", None),
        ("0::/system.slice/docker-0a1b.scope/system.slice/slurmstepd.scope/job_99\n", None),
        ("0::/system.slice/httpd.service/job_99\n", None),
        ("4:memory:/user.slice/slurm/uid_1000/job_99\n", None),
        ("0::/job_99\n", None),
    ],
)
def test_batch_jobs_are_known_by_their_cgroup(tmp_path, cgroup, job):
    """Only a cgroup that Slurm made names the job of a process; users can give their own cgroups any name."""
    write_process(tmp_path, 10, group=9, cgroup=cgroup)
    [found] = processes(str(tmp_path))
    assert (found.batch_job, found.group) == (job, 9)
    assert (found.cpu_s, found.own_cpu_s, found.resident_kib, found.data_kib) == (5.0, 4.0, 2000, 1600)


SCOPE = "0::/system.slice/slurmstepd.scope"
SLUID = "sEKNKTV3WPV500"


def job_of_sluid(proc, sluid=SLUID, *, title=None, environment=None, pid=20, start=1000):
    """Slurm's own process of a step and one of its user, as Slurm 26.05 names their cgroups."""
    stepd = write_process(proc, pid, command="slurmstepd", cgroup=f"{SCOPE}/{sluid}/step_0/slurm\n", start=start - 1)
    user = write_process(proc, pid + 1, group=9, cgroup=f"{SCOPE}/{sluid}/step_0/user/task_0\n", start=start)
    if title is not None:
        (stepd / "cmdline").write_bytes(title)
    if environment is not None:
        (user / "environ").write_bytes(environment)


def named(proc):
    """The job of each process by pid, and how many jobs have no number."""
    found = list(processes(str(proc)))
    unnamed = name_jobs(found, str(proc))
    return {one.pid: one.batch_job for one in found}, unnamed


@pytest.mark.parametrize(
    ("title", "environment", "job"),
    [
        (b"slurmstepd: [3385.0]\0", None, 3385),
        (b"slurmstepd: [3385.extern]\0", b"SLURM_JOB_ID=9\0", 3385),
        (b"", b"HOME=/\0SLURM_JOB_ID=3385\0", 3385),
        (None, b"SLURM_JOB_ID=3385\0", 3385),
        (b"/usr/sbin/slurmstepd infinity\0", b"SLURM_JOB_ID=3385\0", 3385),
        (b"slurmstepd: [sEKNKTV3WPV500.0]\0", b"SLURM_JOB_ID=3385\0", 3385),
        (None, b"HOME=/\0", None),
        (None, None, None),
        (b"slurmstepd: [" + b"9" * 30 + b".0]\0", None, None),
    ],
)
def test_jobs_of_slurm_26_are_known_though_their_cgroups_have_no_number(tmp_path, title, environment, job):
    """The title of slurmstepd has it, which no user can change, else the environment of the job's processes."""
    job_of_sluid(tmp_path, title=title, environment=environment)
    assert named(tmp_path) == ({20: job, 21: job}, int(job is None))


def test_a_user_cannot_name_another_job(tmp_path):
    """Neither by a title and a cgroup of his own, nor by the environment of a process that he starts later."""
    job_of_sluid(tmp_path, environment=b"SLURM_JOB_ID=7\0")
    forged = write_process(
        tmp_path, 30, command="slurmstepd", cgroup=f"{SCOPE}/{SLUID}/step_0/user/slurm\n", start=2000
    )
    (forged / "cmdline").write_bytes(b"slurmstepd: [8.0]\0")
    (forged / "environ").write_bytes(b"SLURM_JOB_ID=8\0")
    write_process(tmp_path, 40, cgroup=f"0::/user.slice/user-1000.slice/slurmstepd.scope/{SLUID}/step_0/slurm\n")
    assert named(tmp_path) == ({20: 7, 21: 7, 30: 7, 40: None}, 0)


def test_jobs_that_cannot_be_named_are_in_the_errors_of_the_sample(tmp_path):
    """Not silently: the sample says how many, and what to do; the others are there."""
    job_of_sluid(tmp_path, title=b"slurmstepd: [3385.0]\0")
    job_of_sluid(tmp_path, "sEKNKTV3WPV501", pid=50)
    for name, text in (
        ("stat", "cpu 1 2 3 4\ncpu0 1 2 3 4 5 6 7\nbtime 1795000000\n"),
        ("loadavg", "0.1 0.2 0.3 1/200 300\n"),
        ("meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\n"),
        ("diskstats", ""),
    ):
        (tmp_path / name).write_text(text)
    text, succeeded = line(lambda: sample(Host(proc=str(tmp_path))), "sample", Host("c", "n1"))
    validate(json.loads(text), "sample")
    [found] = read([text.encode()])
    assert succeeded
    assert [key.job for key in found.jobs if not key.epoch] == [3385]
    [(_, detail)] = found.errors
    assert detail.startswith("Slurm jobs of unknown number: 1. ")
    assert "CgroupJobIdPaths=yes" in detail


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        (b"HOME=/\0JOB_ID=815\0JOB_IDS=1\0", (815, 0)),
        (b"SGE_TASK_ID=undefined\0JOB_ID=815\0", (815, 0)),
        (b"SGE_TASK_ID=4\0JOB_ID=815\0", (815, 4)),
        (b"SGE_TASK_ID=4\0", (None, 0)),
        (b"JOB_ID=\0", (None, 0)),
        (b"JOB_ID=815.ce.example.org\0", (815, 0)),
        (b"JOB_ID=815[4].pbs\0", (815, 4)),
        (b"JOB_ID=815_4\0", (None, 0)),
        (b"JOB_ID=" + b"9" * 30 + b"\0", (None, 0)),
    ],
)
def test_batch_jobs_may_be_known_by_their_environment(tmp_path, environment, job):
    """Where the cgroup does not tell, a variable of the environment may: Grid Engine's JOB_ID, with the task."""
    (write_process(tmp_path, 10, group=9) / "environ").write_bytes(environment)
    write_process(tmp_path, 11, group=9)
    found = {one.pid: (one.batch_job, one.batch_task) for one in processes(str(tmp_path), variable="JOB_ID")}
    assert found == {10: job, 11: (None, 0)}


def test_tasks_of_one_array_are_jobs_of_their_own():
    """Two tasks on one node are two jobs in the sample, by the names of the format, and our reader has both."""
    script = "import sys; print(flush=True); sys.stdin.read()"
    with contextlib.ExitStack() as stack:
        for task in ("4", "5"):
            command, variables = [sys.executable, "-I", "-c", script], {"ARCACCT_TEST_JOB": f"815[{task}]"}
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)
            stack.enter_context(child)
            stack.callback(child.kill)
            # The kernel shows no environment while it still starts the program.
            child.stdout.readline()
        host = Host("c", "n7")
        found, envelope, _ = told(partial(sample, host, variable="ARCACCT_TEST_JOB"), "sample", host)
    assert {key: len(shot.processes) for key, shot in found.jobs.items() if key.job == 815} == {
        SampledKey(815, 0, 4): 1,
        SampledKey(815, 0, 5): 1,
    }
    validate(envelope, "sample")


def test_any_text_is_the_same_json():
    """The producer writes JSON itself: what json reads back is what was meant."""
    texts = ["", 'a"b\\c', "\x00\x1f\x7f", "na\u00efve \U0001f600", "tab\tline\n"]
    value = {"texts": texts, "numbers": [0, -1, 2**53, 0.1, 100.0], "flags": [True, False], "empty": [[], {}]}
    assert json.loads(json_text(value)) == value


def lean(*arguments: str, script: str = "") -> subprocess.CompletedProcess[str]:
    """A new Python that has nothing, as the program's script starts one."""
    code = f"import sys\nsys.path.append({str(ROOT)!r})\nold = set(sys.modules)\n"
    code += (
        f"from arcacct.sources.sonar.sampler import main\ncode = main({list(arguments)!r})\n{script}\nsys.exit(code)"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, env={"PATH": "/"}, check=False
    )


def test_a_sample_imports_next_to_nothing():
    """What a node runs every minute loads a few small modules: most of what it would cost is Python's own start."""
    done = lean(script="print(*(set(sys.modules) - old), file=sys.stderr)")
    assert done.returncode == 0
    ours = {"arcacct", "arcacct.sources", "arcacct.sources.sonar", "arcacct.sources.sonar.sampler"}
    of_os = {"os", "os.path", "posixpath", "genericpath", "stat", "_stat", "abc", "_abc", "_collections_abc"}
    # As Python 3.13 of Debian 13 does.
    of_os |= {"errno"}
    assert set(done.stderr.split()) <= {*ours, *of_os, "pwd", "time"}


def test_the_lean_way_says_the_same():
    """Its options mean what they mean to the command; what it does not know it leaves to that."""
    done = lean("--cluster=c", "--node", "n9", "--exclude-system-jobs", "--job-variable", "JOB_ID")
    [found] = read([done.stdout.encode()])
    assert (done.returncode, found.cluster, found.node) == (0, "c", "n9")
    script = "print('left' if code is None else code, file=sys.stderr)"
    for arguments in (["--help"], ["--interval", "5"], ["--cluster"], ["n9"], ["--cluster", "c", "--nodes", "n"]):
        done = lean(*arguments, script=script)
        assert (done.stdout, done.stderr) == ("", "left\n")


@pytest.mark.parametrize("command", ["a b", "we(ir)d", "x) S 1 2", "naïve"])
def test_commands_may_have_any_character(tmp_path, command):
    """Brackets and blanks in a command's name do not shift the numbers behind it."""
    write_process(tmp_path, 10, group=9, command=command)
    [found] = processes(str(tmp_path))
    assert (found.command, found.group) == (command, 9)


def test_a_process_that_goes_is_ignored(tmp_path):
    """What ends while we look is no error."""
    write_process(tmp_path, 10)
    (tmp_path / "11").mkdir()
    assert [one.pid for one in processes(str(tmp_path))] == [10]


def test_a_failed_probe_is_an_errors_envelope(tmp_path):
    """A host that cannot tell says why, in the form that readers know."""
    host = Host("c", "n1", proc=str(tmp_path / "nowhere"))
    found, envelope, succeeded = told(partial(sample, host), "sample", host)
    assert not succeeded
    assert isinstance(found, Errors)
    assert "nowhere" in found.complaints[0].detail
    validate(envelope, "errors")


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        (
            (
                "processor: 0\nmodel name: AMD EPYC\nphysical id: 0\nsiblings: 4\ncpu cores: 2\n\n"
                "processor: 1\nmodel name: AMD EPYC\nphysical id: 1\nsiblings: 4\ncpu cores: 2\n"
            ),
            (2, 2, 2, "AMD EPYC"),
        ),
        ("processor\t: 0\nCPU architecture: 8\n\nprocessor\t: 1\nCPU architecture: 8\n", (1, 2, 1, "ARMv8")),
    ],
    ids=["x86_64", "aarch64"],
)
def test_processors(tmp_path, text, layout):
    """Sockets, cores and threads are counted as the kernel lists them."""
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_layout(Host(proc=str(tmp_path))) == layout


def test_numa_distances(tmp_path):
    """The matrix has a row for each NUMA node, in the order of their numbers."""
    for number, text in ((0, "10 21"), (1, "21 10")):
        folder = tmp_path / f"devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "distance").write_text(text)
    assert numa_distances(Host(sys=str(tmp_path))) == [[10, 21], [21, 10]]


def test_cards_are_reported(smi):
    """What nvidia-smi says of cards and their users, in Sonar's units; what it cannot tell is left out."""
    host = Host("c")
    found, envelope, _ = told(partial(sysinfo, host), "sysinfo", host)
    assert isinstance(found, Sysinfo)
    [card] = found.cards
    assert (card.uuid, card.memory_kib, card.power_limit_w, card.max_memory_clock_mhz) == (
        "GPU-1",
        40960 * 1024,
        400,
        0,
    )
    found, envelope, _ = told(partial(sample, host), "sample", host)
    assert isinstance(found, Sample)
    validate(envelope, "sample")
    assert found.reading["GPU-1"]["power_w"] == 123
    assert found.reading["GPU-1"]["performance_state"] == 0
    [mine] = [shot for shot in found.jobs.values() if str(os.getpid()) in shot.processes]
    assert mine.cards["GPU-1"][:3] == (33.0, 512 * 1024, 123.0)


def test_a_broken_nvidia_smi_is_a_failed_probe(smi):
    """Its failure is told, not hidden."""
    pathlib.Path(smi).write_text("#!/bin/sh\nexit 9\n")
    with pytest.raises(OSError, match="nvidia-smi"):
        sampler.states(smi)


def test_samples_of_this_host_add_up(tmp_path):
    """Our own samples, imported, give the CPU time that a process really used."""
    from sonar_site import Host as Site

    script = (
        "import time\nend = time.process_time() + 2.2\nwhile time.process_time() < end: pass\n"
        "print('done', flush=True)\ntime.sleep(60)"
    )
    host = Host("c", "n1")
    site = Site(tmp_path)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        site.take(line(partial(sample, host), "sample", host)[0].encode())
        child.stdout.readline()
        # Samples are a second apart at least, as their times are.
        time.sleep(1)
        site.take(line(partial(sample, host), "sample", host)[0].encode())
        child.kill()
    [(cpu_s,)] = site.rows(f"SELECT cpu_s FROM v1_sampled_jobs WHERE job_id = {child.pid}")
    assert cpu_s in {2, 3}
