"""Energy and carbon: measured where something measured, else by the site's table; estimates are marked everywhere."""

from __future__ import annotations

import csv
import os
import sqlite3
from contextlib import closing

import pytest
import stored_jobs
from in_process import said

from arcacct.config.values import CPUWatts
from arcacct.errors import InputError
from arcacct.reports.tables import EnergyModel, Pledge, grid, pledges

MAY = ("--month", "2026-05", "--skip-verify")
CORE_H = 3500 * 8 / 3600
"""Of a stored job."""


def energy(capsys, made, path) -> dict[str, tuple[str, str, str, str]]:
    """By VO: measured, estimated, with PUE, carbon."""
    done = said(capsys, "--config", made.conf, "report", *MAY, "--csv", path)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert (row["estimated"] == "yes") == (row["metric"] in ("estimated_kwh", "site_kwh", "carbon_kg"))
            if row["section"] == "energy":
                found.setdefault(row["key"], []).append(row["value"])
    return {key: tuple(values) for key, values in found.items()}  # type: ignore[misc]


def telemetry(made, number: int, **values: object) -> None:
    """What telemetry tells of a stored job."""
    with closing(sqlite3.connect(made.settings().places.database)) as con:
        con.execute("INSERT OR IGNORE INTO Clusters (ID, Name) VALUES (1, 'c')")
        measures = {"Source": "sonar", "Place": "c"} | {
            name: values.pop(name) for name in [*values] if name.endswith(("J", "S"))
        }
        columns = {"ClusterID": 1, "JobID": number, "Samples": 0} | values
        for table, row in (("JobTelemetry", columns), ("JobAccelerators", measures)):
            con.execute(
                f"INSERT INTO {table} (RecordID, {', '.join(row)})"
                f" SELECT RecordID, {', '.join('?' * len(row))} FROM AAR WHERE JobID = ?",
                (*row.values(), f"STORED{number:06d}"),
            )
        con.commit()


def test_nothing_is_known_without_measurement_and_table(capsys, site) -> None:
    """No zero is shown for what no one measured: the report says what is missing."""
    made = site()
    made.add(stored_jobs.job(1))

    done = said(capsys, "--config", made.conf, "report", *MAY)

    assert "unknown: not measured, and neither cpu_watts nor core_watts of [arcacct] estimates it" in done.stdout
    assert "kwh" not in done.stdout


def test_estimates_are_hours_times_watts(capsys, site, tmp_path) -> None:
    """By the watts of a job's CPU model, else by those of any core; with PUE, and the grid's intensity."""
    made = site('cpu_watts="AMD EPYC 7*" 10\ncore_watts=5\npue=1.5\ncarbon_intensity=100')
    made.add(stored_jobs.job(1), stored_jobs.job(2)._replace(vo="alice"))
    telemetry(made, 1, CPUModel="AMD EPYC 7763")

    told = energy(capsys, made, tmp_path / "r.csv")

    for vo, watts in (("atlas", 10), ("alice", 5)):
        kwh = CORE_H * watts / 1000
        expected = (kwh, kwh * 1.5, kwh * 1.5 * 100 / 1000)
        assert tuple(map(float, told[vo][1:])) == pytest.approx(expected, abs=0.0006)
    text = said(capsys, "--config", made.conf, "report", *MAY).stdout
    assert "estimated_kwh*  site_kwh*  carbon_kg*" in text
    assert "* estimated, not measured" in text
    assert "times watts per core of its CPU model (cpu_watts), of others 5 W per core (core_watts)" in text


def test_the_node_tells_the_cpu_where_the_job_does_not(capsys, site, tmp_path) -> None:
    """A job without telemetry ran on a node that telemetry knows."""
    made = site('cpu_watts="Intel*" 20')
    made.add(stored_jobs.job(1)._replace(node_names=("wn1.example.org",)), stored_jobs.job(2)._replace(vo="alice"))
    with closing(sqlite3.connect(made.settings().places.database)) as con:
        con.execute("INSERT INTO Clusters (ID, Name) VALUES (1, 'c')")
        con.execute("INSERT INTO NodeNames (ID, ClusterID, Name) VALUES (1, 1, 'wn1')")
        columns = [row[1:4] for row in con.execute("PRAGMA table_info(Nodes)") if row[3] and not row[5]]
        values = {name: "" if kind == "TEXT" else 0 for name, kind, _must in columns} | {
            "NodeID": 1,
            "CPUModel": "Intel X",
        }
        con.execute(
            f"INSERT INTO Nodes ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values())
        )
        con.commit()

    told = energy(capsys, made, tmp_path / "r.csv")

    assert told["atlas"][:2] == ("", str(round(CORE_H * 20 / 1000, 3)))
    text = said(capsys, "--config", made.conf, "report", *MAY).stdout
    assert "7.8 core hours are on CPUs with unknown watts: they are missing." in text


def test_what_is_measured_is_not_estimated(capsys, site, tmp_path) -> None:
    """Energy of the batch system is that of the whole job; the GPUs' by telemetry stand beside an estimate of cores."""
    made = site("core_watts=5")
    made.add(*(stored_jobs.job(number)._replace(vo=vo) for number, vo in enumerate(("slurm", "gpu", "sacct"))))
    telemetry(made, 0, EnergyJ=7_200_000, GPUEnergyJ=3_600_000, GPUAllocatedS=7200)
    telemetry(made, 1, GPUEnergyJ=3_600_000, GPUAllocatedS=3600, GPUBusyS=1800)
    with closing(sqlite3.connect(made.settings().places.database)) as con:
        con.execute(
            "INSERT INTO JobAccelerators SELECT RecordID, 'sacct', 'c', 2, 7200, NULL, NULL, 1800000"
            " FROM AAR WHERE JobID = 'STORED000002'"
        )
        con.commit()

    told = energy(capsys, made, tmp_path / "r.csv")

    estimate = str(round(CORE_H * 5 / 1000, 3))
    assert {vo: told[vo][:2] for vo in ("slurm", "gpu", "sacct")} == {
        "slurm": ("2.0", ""),
        "gpu": ("1.0", estimate),
        "sacct": ("0.5", ""),
    }
    # Without a PUE and an intensity these are not known, which is not 0.
    assert told["gpu"][2:] == ("", "")
    with open(tmp_path / "r.csv", newline="", encoding="utf-8") as file:
        gpus = {
            row["key"]: row["value"]
            for row in csv.DictReader(file)
            if (row["section"], row["metric"]) == ("gpu", "gpu_hours")
        }
    assert gpus == {"slurm": "2.0", "gpu": "1.0", "sacct": "2.0"}


def test_the_first_line_that_matches_holds() -> None:
    """As with node_benchmark."""
    model = EnergyModel((CPUWatts("AMD*", 3.0), CPUWatts("*", 4.0)), 5.0)

    assert [model.watts(name) for name in ("AMD EPYC", "Intel", None)] == [3.0, 4.0, 5.0]


def test_an_intensity_holds_until_the_next(tmp_path) -> None:
    """A day has the mean of its half hours; before the table starts nothing is known; a zone counts."""
    path = tmp_path / "grid.csv"
    path.write_text("time,gco2e_per_kwh\n1970-01-02T06:00,100\n# holds\n1970-01-02T19:00+01:00,300\n")

    known = grid(str(path))

    assert known.of_day(0) is None
    # From 6 to 18 it was 100, then 300.
    assert known.of_day(1) == pytest.approx((100 * 24 + 300 * 12) / 36)
    assert known.of_day(9) == 300
    assert grid("45").of_day(9) == 45
    assert grid(None).of_day(9) is None


@pytest.mark.parametrize("line", ["yesterday,5", "2026-11-01,-4", "2026-11-01,inf", "2026-11-01", "2026-11-01,5,6"])
def test_a_wrong_line_of_the_grid_is_reported(tmp_path, line) -> None:
    """With its number, and what would be right."""
    path = tmp_path / "grid.csv"
    path.write_text(f"2026-11-01T00:00,5\n{line}\n")

    with pytest.raises(InputError, match=r"grid.csv:2: no time and amount; write time,gco2e_per_kwh, as"):
        grid(str(path))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("core_watts=0", "'0' is not a valid amount; write watts of one core"),
        ("pue=0.9", "'0.9' is not a valid amount; write power of the site"),
        ("carbon_intensity=coal", "'coal' is not a valid amount; write g CO2e per kWh"),
        ("cpu_watts=EPYC 5", 'write "CPU MODEL PATTERN" WATTS'),
        ('cpu_watts="EPYC" much', "'much' is not a valid amount"),
    ],
)
def test_wrong_options_are_told(capsys, site, line, wrong) -> None:
    """`config check` names the option and what would be right."""
    done = said(capsys, "--config", site(line).conf, "config", "check")

    assert wrong in done.stdout + done.stderr


# The file of pledges: which line holds in which month, and every mistake with its line.


GOOD = """\
# what was promised
vo,from,hours,kind
atlas,2026-04,40000,core
atlas,2026-10,60000,core
atlas,2026-12,1,core

atlas,2026-01,500,hs06
alice,2027-01,3,cpu
"""


def test_the_last_line_that_began_holds(tmp_path) -> None:
    """Each VO and kind has the hours of the line that started last; what starts later does not count yet."""
    path = tmp_path / "pledge.csv"
    path.write_text(GOOD)

    assert pledges(str(path), (2026, 11)) == [Pledge("atlas", "core", 60000.0, 4), Pledge("atlas", "hs06", 500.0, 1)]
    assert pledges(str(path), (2026, 3)) == [Pledge("atlas", "hs06", 500.0, 1)]
    assert pledges(str(path), (2025, 12)) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("atlas,2026-13,5,core", "'2026-13' is not a month"),
        ("atlas,2026-11,many,core", "'many' is not an amount"),
        ("atlas,2026-11,nan,core", "'nan' is not an amount"),
        ("atlas,2026-11,-1,core", "'-1' is not an amount"),
        ("atlas,2026-11,5,gpu", "'gpu' is not a kind of hours; write one of core, cpu, hs06, hepscore23"),
        (",2026-11,5,core", "no VO is named"),
        ("atlas,2026-11,5", "3 columns; write vo,from,hours,kind"),
        ("atlas", "1 column; write vo,from,hours,kind"),
        ("atlas;2026-11;5;core", "the separator is a semicolon; it must be a comma: write vo,from,hours,kind"),
        ("atlas\t2026-11\t5\tcore", "the separator is a tab; it must be a comma: write vo,from,hours,kind"),
        ("atlas,2026-04,7,core", "has a pledge of core from 2026-04 already"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_every_mistake_is_told_with_its_line(tmp_path, line, what) -> None:
    """What is wrong, in which line, and what would be right."""
    path = tmp_path / "pledge.csv"
    path.write_bytes((GOOD + line + "\n").encode("utf-8", "surrogateescape"))

    with pytest.raises(InputError) as raised:
        pledges(str(path), (2026, 11))

    assert str(raised.value).startswith(f"{path}:9: ")
    assert what in str(raised.value)


def test_a_quote_without_an_end_is_reported(tmp_path) -> None:
    """It would hide the lines after it; in a comment it is nothing."""
    path = tmp_path / "pledge.csv"
    path.write_text('# "first\n"a,b",2026-04,5,core\n"atlas,2026-04,6,core\ncms,2026-04,7,core\n')

    with pytest.raises(InputError, match=r"pledge.csv, line 3: a quote has no end, or text follows it"):
        pledges(str(path), (2026, 11))


def test_what_is_no_file_is_not_waited_for(tmp_path) -> None:
    """A pipe without a writer."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError, match="pipe: cannot be read: a pipe, not a regular file; give"):
        pledges(str(tmp_path / "pipe"), (2026, 11))


def test_use_is_compared_with_the_pledge(capsys, site, tmp_path) -> None:
    """A VO without a job has used nothing; the share is of the hours that the pledge is in."""
    made = site()
    made.add(stored_jobs.job(1))
    path = tmp_path / "pledge.csv"
    path.write_text("atlas,2026-05,100,hs06\nnobody,2026-05,10,core\n")

    done = said(capsys, "--config", made.conf, "report", "--month", "2026-05", "--pledge", path)

    # 3500 s on 8 cores of 12.26 HS06.
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["atlas", "hs06", "100.0", "95.356", "0.9536"] in lines
    assert ["nobody", "core", "10.0", "0.0", "0.0"] in lines


def test_a_missing_file_is_reported(capsys, site) -> None:
    """The report is not made without what was asked for."""
    made = site()
    made.add(stored_jobs.job(1))

    done = said(capsys, "--config", made.conf, "report", "--month", "2026-05", "--pledge", "/nowhere.csv")

    assert (done.returncode, done.stdout) == (65, "")
    assert "/nowhere.csv: cannot be read: No such file or directory" in done.stderr
