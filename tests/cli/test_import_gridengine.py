"""`arcacct import gridengine` and `arcacct stats --gridengine`, as a user types them."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import sqlite3
import subprocess
import time

import pytest
from campaigns import sample
from gridengine_files import COLON, DATA, ENCODINGS, JSON_91, json_line, ran
from gridengine_questions import ANSWERS, OPTIONS
from in_process import said
from installed import ARCACCT, arcacct, configured

MAP = "[arcacct]\nlrms_host = ge.example.org\nmap = owner gebob vo=atlas group=higgs\nmap = group geal* vo=local\n"


@pytest.fixture
def conf(tmp_path) -> pathlib.Path:
    path = pathlib.Path(configured(tmp_path))
    (path.parent / "arcacct.conf").write_text(MAP)
    return path


def import_(conf: pathlib.Path, *words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return arcacct("--config", conf, "import", "gridengine", *map(str, words))


def rows(conf: pathlib.Path, sql: str) -> list[tuple[object, ...]]:
    """What a query finds in the host's database."""
    path = conf.parent / "control" / "accounting" / "arcacct" / "accounting.db"
    con = sqlite3.connect(path)
    try:
        return con.execute(sql).fetchall()
    finally:
        con.close()


def printed(name: str) -> list[str]:
    """What qacct printed, without the command and the exit code."""
    lines = (DATA / "qacct-out" / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith(("$", "rc="))]


def numbers(lines: list[str]) -> list[list[str]]:
    """The rows of a table of qacct's: names, then its seven sums."""
    return [line.split() for line in lines[lines.index(next(line for line in lines if line[:1] == "=")) + 1 :]]


def test_a_file_is_imported(conf) -> None:
    """A file is imported with the configuration's map lines, and what was done is said in one line."""
    done = import_(conf, COLON)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "49 lines read: 45 new records, 0 known; 39 jobs added, 0 changed, 0 jobs of A-REX completed\n"
    )
    assert rows(conf, "SELECT vo, fqan, count(*) FROM v1_jobs GROUP BY 1 ORDER BY 1") == [
        ("atlas", "/atlas/higgs", 3),
        ("local", None, 36),
    ]
    assert import_(conf, COLON).stdout.startswith("0 lines read: 0 new records")


def test_the_months_are_summed(conf) -> None:
    """What was imported is in the monthly sums at once."""
    import_(conf, COLON)

    assert rows(conf, "SELECT month, infrastructure, sum(jobs), sum(wall_s) FROM v1_usage_by_month GROUP BY 1, 2") == [
        ("2026-11", "local", 39, 169)
    ]


def test_bad_lines_and_lenience(conf, tmp_path) -> None:
    """A bad line is shown with its place, all others come in, and the exit code says so unless it should not."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20) + b"what is this\n" + ran(2, 1, 10, 20))
    done = import_(conf, path)

    assert done.returncode == 65
    assert f"arcacct: {path}: line 2: 1 field; a record has 43, 45 or more; left out\n" in done.stderr
    assert done.stdout.startswith("3 lines read: 2 new records")
    path.write_bytes(b"nor this\n" + path.read_bytes())
    assert import_(conf, "--lenient", path).returncode == 0


def test_standard_input(conf) -> None:
    """Lines come through a pipe as well, compressed files and pipes may be mixed with others."""
    command = [ARCACCT, "--config", str(conf), "import", "gridengine", "-", str(COLON)]
    done = subprocess.run(command, input=JSON_91.read_bytes(), capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert rows(conf, "SELECT count(*) FROM v1_gridengine_records") == [(45,)]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param([], "no FILE", id="no file"),
        pytest.param(["--cell", "a:b", "x"], "--cell 'a:b'", id="cell"),
        pytest.param(["--owner", "alice", "x"], "--owner needs --summary", id="question"),
        pytest.param(["--summary", "--follow", "x"], "--summary imports nothing", id="following a summary"),
        pytest.param(["--summary", "--by", "colour", "x"], "--by colour", id="unknown column"),
        pytest.param(["--summary", "-b", "202613200000", "x"], "is not a time", id="no month"),
    ],
)
def test_command_lines_that_mean_nothing(conf, words, complaint) -> None:
    """A command line that cannot be meant is refused with what is wrong."""
    done = import_(conf, *words)

    assert done.returncode == 64
    assert complaint in done.stderr


def test_a_file_that_is_not_there(conf, tmp_path) -> None:
    """A mistake in a name is told in one line."""
    done = import_(conf, tmp_path / "nothing")

    assert done.returncode == 65
    assert done.stderr == f"arcacct: {tmp_path}/nothing: cannot be read: No such file or directory\n"


def test_new_map_lines(conf) -> None:
    """After a change of the configuration the jobs are made again from their records, without the files."""
    import_(conf, COLON)
    (conf.parent / "arcacct.conf").write_text("[arcacct]\nmap = owner gebob vo=cms\n")
    done = import_(conf, "--derive-again")

    assert "0 jobs added, 39 changed" in done.stdout
    assert rows(conf, "SELECT vo, count(*) FROM v1_jobs GROUP BY 1") == [(None, 36), ("cms", 3)]


def test_following(conf, tmp_path) -> None:
    """While a file is followed its jobs come in, and an interrupt ends that with the summary."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 20))
    command = [ARCACCT, "--config", str(conf), "import", "gridengine", "--follow", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        for number in (1, 2):
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and not _has(conf, number):
                time.sleep(0.1)
            with path.open("ab") as file:
                file.write(ran(number + 1, 1, 10, 20))
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == 0
    assert "jobs added" in output
    assert _has(conf, 2)


def _has(conf: pathlib.Path, number: int) -> bool:
    try:
        return rows(conf, f"SELECT 1 FROM v1_jobs WHERE local_job_id = '{number}'") == [(1,)]
    except sqlite3.OperationalError:
        return False


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", ANSWERS)
def test_the_totals_of_qacct(capfd, name) -> None:
    """Asked what qacct was asked, our summary of the file prints what it printed."""
    done = said(capfd, "import", "gridengine", "--summary", *OPTIONS[name], COLON)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == printed(name)


def test_times_of_qacct_are_of_the_host_or_of_the_zone_that_is_named() -> None:
    """The digits of qacct are its host's time of day, unless a zone is said; every other form is UTC."""
    words = ["import", "gridengine", "--summary", str(COLON)]
    india = {"TZ": "IST-5:30"}
    asked = [
        ["-b", "202611201520"],
        ["-b", "2611201520.00"],
        ["-b", "202611200950", "--timezone", "UTC"],
        ["-b", "202611201520+0530"],
        ["-b", "2026-11-20T09:50"],
        ["-b", "@1795168200"],
        ["-b", "11201520", "--now", "2026-12-01"],
    ]
    found = [arcacct(*words, *times, environment=india).stdout.splitlines() for times in asked]

    assert found == [printed("b_time")] * len(asked)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-b", "1795168200"], "'1795168200' is not a time; write 202611201030"),
        (["-l", "h_rt=600"], "-l h_rt=600: qacct asks qmaster which queues offer that today"),
        (["-l", "hostname=vm,mem_free"], "-l mem_free: "),
        (["--queue", "all.q@@big"], "--queue all.q@@big: only qmaster knows the hosts of a group"),
        (["-b", "11200950", "--timezone", "Moon"], "--timezone Moon: no such zone"),
    ],
)
def test_what_a_file_cannot_answer(capfd, words, message) -> None:
    """What is no time, and what qacct asks a running qmaster, is refused with what can be asked."""
    done = said(capfd, "import", "gridengine", "--summary", *words, COLON)

    assert done.returncode == 64
    assert message in done.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [(["-l", "hostname=vm"], "l_h_rt"), (["-l", "h=VM,qname=*"], "total"), (["--by", "host", "--host", "VM"], "h_vm")],
)
def test_hosts_and_queues(capfd, words, name) -> None:
    """Hosts are found whatever their case, also as resources of queues."""
    done = said(capfd, "import", "gridengine", "--summary", *words, COLON)

    assert (done.returncode, done.stdout.splitlines()) == (0, printed(name))


def test_a_group_by_its_number(capfd, tmp_path) -> None:
    """A number is the group of that number here, as qacct takes it."""
    path = tmp_path / "accounting"
    path.write_bytes(ran(1, 1, 10, 30, group="root") + ran(2, 1, 10, 30))
    words = ["import", "gridengine", "--summary", "--format", "json", "--group", "0"]

    (row,) = json.loads(said(capfd, *words, path).stdout)

    assert row["records"] == 1


@pytest.mark.parametrize(
    ("words", "blocks"),
    [
        (["-j", "35"], "j_35"),
        (["-j", "okcpu"], "j_name"),
        (["-j", "6"], "j_6"),
        (["-j", "6", "-t", "1-7:3"], "j_6_t1_7_3"),
        (["-j", "6", "-t", "4"], "j_6_t4"),
        (["-j", "8"], "j_8"),
        (["-j", "8", "-m"], "m_j8"),
        (["-j", "resch*"], "j_pat"),
    ],
)
def test_the_records_of_a_job_in_a_file(capfd, words, blocks) -> None:
    """Those that qacct lists, in the same order, with what they say."""
    done = said(capfd, "import", "gridengine", "--summary", *words, COLON)
    listed = said(capfd, "import", "gridengine", "--summary", *words, "--format", "json", COLON)
    names = ("qname", "owner", "slots", "category", "department")

    def values(lines: list[str]) -> list[tuple[str, str]]:
        pairs = (line.split(maxsplit=1) for line in lines if not line.startswith("="))
        found = [(pair[0], pair[-1].strip()) for pair in pairs if pair[0] in names]
        return [pair for pair in found if pair[1] != "NONE"]

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(values(done.stdout.splitlines())) == sorted(values(printed(blocks)))
    assert done.stdout.count("=" * 62) == len(json.loads(listed.stdout)) == "\n".join(printed(blocks)).count("=" * 62)


def test_a_job_that_is_not_in_the_file(capfd) -> None:
    """That is said, as qacct says it."""
    done = said(capfd, "import", "gridengine", "--summary", "-j", "9999", COLON)

    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith(f"arcacct: 9999: no record in {COLON} has this job number or name")


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    """A database with the real file's records."""
    path = str(tmp_path_factory.mktemp("asked") / "accounting.db")
    assert arcacct("--database", path, "import", "gridengine", str(COLON)).returncode == 0
    return path


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", sample([*ANSWERS], 10))
def test_the_totals_of_qacct_from_the_database(database, capfd, name) -> None:
    """The same questions asked of the database have the same sums."""
    words = ["stats", "--gridengine", "--format", "json", *OPTIONS[name]]
    done = said(capfd, "--database", database, *words)
    found = json.loads(done.stdout)
    by = (OPTIONS[name][OPTIONS[name].index("--by") + 1]).split(",") if "--by" in OPTIONS[name] else []

    assert (done.returncode, done.stderr.partition(";")[0]) == (0, "--gridengine is deprecated")
    assert done.stderr.count("\n") == 1
    expected = numbers(printed(name))
    sums = ("wallclock_s", "utime_s", "stime_s", "cpu_s", "memory_gib_s", "io_gib", "iow_s")
    digits = (0, 3, 3, 3, 3, 3, 3)
    assert [[f"{row[name]:.{places}f}" for name, places in zip(sums, digits, strict=True)] for row in found] == [
        row[len(by) :] for row in expected
    ]
    assert [sorted(str(row[column]) for column in by) for row in found] == [sorted(row[: len(by)]) for row in expected]


def test_the_records_of_a_job(database) -> None:
    """One job's records are listed by number, name or pattern, and by tasks."""
    by_number = arcacct("--database", database, "stats", "--gridengine", "-j", "6", "-t", "1-7:3", "--format", "json")
    by_pattern = arcacct("--database", database, "stats", "--gridengine", "-j", "arr*", "--format", "json")
    short = arcacct("--database", database, "stats", "--gridengine", "-j", "17")

    assert [row["task_number"] for row in json.loads(by_number.stdout)] == [1, 4, 7]
    assert json.loads(by_pattern.stdout) == json.loads(by_number.stdout)
    assert [line.split()[:2] for line in short.stdout.splitlines()[2:]] == [["17", "ex99"]] * 2
    assert "rescheduling" in short.stdout


def test_every_encoding_has_the_same_totals() -> None:
    """The summary is the same of every encoding, and of all of them together three times that."""
    outputs = {arcacct("import", "gridengine", "--summary", str(path)).stdout for path in ENCODINGS}
    together = arcacct("import", "gridengine", "--summary", "--format", "csv", *map(str, ENCODINGS))

    assert len(outputs) == 1
    assert together.stdout.splitlines()[1].startswith("135,516.0,")


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        pytest.param(["--gridengine", "-j", "999"], 65, "999: no record", id="no such job"),
        pytest.param(["--gridengine", "-t", "1"], 64, "--tasks needs --job", id="tasks of nothing"),
        pytest.param(["--gridengine", "-j", "6", "-t", "x"], 64, "--tasks x", id="no tasks"),
        pytest.param(["--owner", "alice"], 64, "--owner .*needs --gridengine", id="without --gridengine"),
        pytest.param(["--gridengine", "--filter-vo", "atlas"], 64, "--filter-vo reads jobs", id="of jobs"),
        pytest.param(["--gridengine", "-s", "2026-11-01"], 64, "--start-from reads jobs", id="by submission"),
        pytest.param(["--gridengine", "-a"], 64, "--show-active reads jobs", id="active jobs"),
        pytest.param(["--gridengine", "--filter-fqan", "/atlas"], 64, "--filter-fqan reads jobs", id="by FQAN"),
        pytest.param(["--gridengine", "--arcctl", "7"], 64, "--arcctl reads jobs", id="arcctl"),
        pytest.param(["--by", "vo", "--arcctl", "7"], 64, "--arcctl prints arcctl's output", id="a table"),
        pytest.param(["--gridengine", "--by", "vo"], 64, "--by vo", id="by a column of jobs"),
    ],
)
def test_questions_that_mean_nothing(database, words, code, complaint) -> None:
    """A question that cannot be answered is refused with the reason."""
    done = arcacct("--database", database, "stats", *words)

    assert done.returncode == code
    assert re.search(complaint, done.stderr)


def test_an_unreadable_line_in_a_summary(tmp_path) -> None:
    """A bad line of a file that is summed is left out, not counted as the line before it."""
    path = tmp_path / "accounting.jsonl"
    path.write_bytes(json_line() + b'{"job_number":\n' * 20 + json_line(2))
    done = arcacct("import", "gridengine", "--summary", "--format", "csv", str(path))

    assert done.returncode == 65
    assert done.stdout.splitlines()[1].startswith("2,15.0,")
    assert done.stderr.count("not JSON") == 1
    assert f"20 records, as {path}:2: not JSON" in done.stderr
