"""
Local jobs, record by record, next to what APEL's own client makes of the same files.

`apel-*-parser.csv` next to the files is what the parsers of apel/apel made of each line, in UTC, with ``parallel`` and
without ``qhost``: `SGEParser.parse` of commit 23b4aebced31, and a `SlurmParser.parse` of before it took other states
than COMPLETED (and the partition for the queue), which was given the columns that it names, out of `sacct.txt`. Rows
that names of jobs broke are left out. What it ignores for its state was shown to it once more as COMPLETED, and has
the state in the column ``refused``.
"""

from __future__ import annotations

import csv
import pathlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC
from typing import Any, NamedTuple

import apel_rules
import gridengine_files
import pytest
import slurm_files
from apel_message import message
from control_directory import set_up
from record_texts import individual_job

from arcacct.config.paths import places
from arcacct.config.values import local_jobs
from arcacct.database.access import open_accounting
from arcacct.database.connection import Connection
from arcacct.records import reader
from arcacct.sources.engine.imports import BatchPolicy, RunsImport
from arcacct.sources.engine.runs import BatchSite
from arcacct.sources.gridengine.accounting_file import Origin
from arcacct.sources.gridengine.importer import SOURCE
from arcacct.targets.apel.messages import JOB_HEADERS, APELOptions

GE_FILE = gridengine_files.COLON
GE_TABLE = GE_FILE.parent / "apel-sge-parser.csv"
SLURM_TABLE = slurm_files.DATA / "apel-slurm-parser.csv"
FIELDS = {
    "LocalUserId": "LocalUserID", "WallDuration": "WallDuration", "CpuDuration": "CpuDuration",
    "StartTime": "StartTime", "EndTime": "StopTime", "Processors": "Processors",
}  # fmt: skip
"""Ours, and what the same is called in APEL's EventRecord."""
OPTIONS = APELOptions("SITE", lrms_host="lrms.example.org")
APEL_READS = 1_900_000_000


class Event(NamedTuple):
    """A line of the batch system's, with what APEL's parser made of it."""

    line: list[str]
    apel: dict[str, str]


def stored(con: Connection, options: APELOptions = OPTIONS) -> list[dict[str, Any]]:
    """What APEL has of all jobs of a database."""
    page = reader.logged_after(con, 0, 2**62)
    assert page is not None
    texts = [individual_job(aar, options) for _seq, aar in page.records]
    rows: list[dict[str, Any]] = apel_rules.parse(message(JOB_HEADERS["v0.3"], texts), APEL_READS)[1]
    return rows


def differences(ours: dict[str, Any], apel: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Fields that are not the same: ours, and APEL's."""
    return {name: (ours[name], int(apel[theirs])) for name, theirs in FIELDS.items() if str(ours[name]) != apel[theirs]}


@pytest.fixture
def gridengine(tmp_path: pathlib.Path) -> Iterator[Connection]:
    """The jobs of the real accounting file."""
    here = places(None, set_up(tmp_path / "gridengine"))
    con = open_accounting(here)
    site = BatchSite("default", default_benchmark="HEPSPEC:11.11")
    work = RunsImport(SOURCE, here, con, BatchPolicy(site, gridengine_files.NOW, 0), Origin(), print)
    work.files([str(GE_FILE)])
    work.finish()
    yield con
    con.close()


@pytest.fixture
def slurm(tmp_path: pathlib.Path) -> Iterator[Connection]:
    """The jobs of sacct's real output."""
    host = slurm_files.SlurmHost(tmp_path / "slurm")
    # What sacct printed says no zone: it was a machine in UTC.
    host.take(slurm_files.TABLE, zone=UTC)
    yield host.con
    host.con.close()


def table(path: pathlib.Path) -> list[dict[str, str]]:
    """What APEL's parser made, line by line."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def events_of_gridengine() -> dict[str, list[Event]]:
    """The lines of each job of the accounting file, by the id that we give it."""
    lines = GE_FILE.read_text().splitlines()
    found = defaultdict(list)
    for apel in table(GE_TABLE):
        line = lines[int(apel["line"]) - 1].split(":")
        task = line[35]
        found[line[5] if task == "0" else f"{line[5]}.{task}"].append(Event(line, apel))
    return found


def test_grid_engine(gridengine: Connection) -> None:
    """Every job that ran, with the same user, start, end, wall time and slots; CPU time where it was measured."""
    ours = {row["LocalJobId"]: row for row in stored(gridengine)}
    events = events_of_gridengine()
    of_one_line = {key: one for key, (one, *others) in events.items() if not others and not one.apel["refused"]}

    assert {key for key in events if key not in ours} == {"15", "16"}
    assert len(of_one_line) == 36
    assert {key: found for key, one in of_one_line.items() if (found := differences(ours[key], one.apel))} == {
        # ACCT_RESERVED_USAGE: Grid Engine wrote what was reserved; ours is what the kernel counted.
        "45": {"CpuDuration": (2, 3)},
        "46": {"CpuDuration": (1, 3)},
    }


def test_several_lines_of_one_job_of_grid_engine(gridengine: Connection) -> None:
    """To APEL's parser each line is a job: tasks of a parallel job, attempts that never ran, and each run."""
    ours = {row["LocalJobId"]: row for row in stored(gridengine)}
    several = {key: found for key, found in events_of_gridengine().items() if len(found) > 1}

    # The tasks of a tightly integrated parallel job, each with all slots of the job: 5 s of wall time for 2.
    assert [int(one.apel["WallDuration"]) for one in several.pop("8")] == [1, 2, 2]
    assert (ours["8"]["WallDuration"], ours["8"]["Processors"]) == (2, 3)
    # Two runs of a requeued job: two jobs by their ends. Ours starts with its last run, and has the time of both.
    first, last = several.pop("17")
    assert differences(ours["17"], last.apel) == {"WallDuration": (2, 0)}
    assert int(first.apel["WallDuration"]) + int(last.apel["WallDuration"]) == 2
    # `qmod -rj` wrote a line without times, which the parser refuses.
    nothing, ran = several.pop("35")
    assert nothing.apel["refused"] == "Zero epoch time for field StopTime"
    assert differences(ours["35"], ran.apel) == {}
    assert several == {}


def test_tasks_of_an_array_of_grid_engine(gridengine: Connection) -> None:
    """Under one id at APEL's parser: of tasks that end in one second APEL keeps one; ours have the task's number."""
    tasks = {key: one.apel for key, (one, *_) in events_of_gridengine().items() if "." in key}
    ours = {row["LocalJobId"] for row in stored(gridengine)}

    assert tasks.keys() <= ours
    assert len({(apel["JobName"], apel["StopTime"]) for apel in tasks.values()}) < len(tasks)


def test_sacct(slurm: Connection) -> None:
    """Every run that ended, with the same user, start, end, wall time and cores, whatever state it ended in."""
    lines = slurm_files.TABLE.read_text("utf-8", "surrogateescape").split("\n")
    columns = lines[0].split("|")
    ours = {(row["LocalJobId"], row["EndTime"]): row for row in stored(slurm)}
    compared, other_ids, cpu_s = 0, {}, [0, 0]
    for apel in table(SLURM_TABLE):
        if "." in apel["JobName"] or not apel["StopTime"]:
            continue
        told = dict(zip(columns, lines[int(apel["line"]) - 1].split("|"), strict=True))
        row = ours[told["JobIDRaw"], int(apel["StopTime"])]
        compared += 1
        cpu_s = [cpu_s[0] + row["CpuDuration"], cpu_s[1] + int(apel["CpuDuration"])]
        other_ids |= {apel["JobName"]: told["JobIDRaw"]} if apel["JobName"] != told["JobIDRaw"] else {}

        assert differences(row, apel).keys() <= {"CpuDuration"}
        assert str(row["NodeCount"]) == apel["NodeCount"]
        # CPUTimeRAW, which APEL's manual asks for, is wall time times cores.
        assert int(apel["CpuDuration"]) == row["WallDuration"] * row["Processors"]

    assert compared == 55
    assert cpu_s[0] < cpu_s[1] / 2
    # Elements of arrays and components of heterogeneous jobs go under the number that Slurm gives each.
    assert other_ids == {
        "21_1": "24", "21_2": "25", "21_3": "26", "21_4": "27", "21_5": "21", "51+0": "51", "51+1": "52",
    }  # fmt: skip


def test_what_is_a_job_of_slurms(slurm: Connection) -> None:
    """To APEL's parser each step of a completed job is one, and no job that ended otherwise (in that version)."""
    apel = table(SLURM_TABLE)
    steps = [one for one in apel if "." in one["JobName"]]
    jobs = [one for one in apel if "." not in one["JobName"]]

    assert len([one for one in steps if not one["refused"]]) == 109
    assert len([one for one in jobs if one["refused"] and one["StopTime"]]) == 18
    assert not any("." in row["LocalJobId"] for row in stored(slurm))


@pytest.mark.parametrize("table_of", [GE_TABLE, SLURM_TABLE], ids=["Grid Engine", "Slurm"])
def test_a_site_may_keep_the_clients_description(
    table_of: pathlib.Path, gridengine: Connection, slurm: Connection
) -> None:
    """The client names itself and CREAM; `local_jobs` gives that name to those who look for it at APEL."""
    con = gridengine if table_of == GE_TABLE else slurm
    (theirs,) = {one["Infrastructure"] for one in table(table_of)} - {""}
    options = OPTIONS._replace(local_jobs=(local_jobs(f"own infrastructure={theirs}"),))

    assert {row["InfrastructureDescription"] for row in stored(con)} == {theirs.removeprefix("APEL-CREAM-")}
    assert {row["InfrastructureDescription"] for row in stored(con, options)} == {theirs}
