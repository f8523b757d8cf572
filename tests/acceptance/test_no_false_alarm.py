"""What real systems wrote raises no false alarm: whatever way the corpora come in, no job of them is held."""

from __future__ import annotations

import pathlib
from contextlib import closing

import arex_corpus as corpus
import pytest
from control_directory import set_up
from installed import arcacct

from arcacct.database.connection import ACCOUNTING_SCHEMA, open_for_reading
from arcacct.records.hold_decisions import held_records

DATA = pathlib.Path(__file__).parents[1] / "data"
IMPORTS = {
    "slurm": [("slurm", DATA / "slurm" / "sacct.txt"), ("slurm", DATA / "slurm" / "sacct.json")],
    "gridengine": [("gridengine", path) for path in sorted((DATA / "gridengine").glob("accounting.*"))],
    "htcondor": [("htcondor", DATA / "htcondor" / "history")],
    "sonar": [("sonar", path) for path in sorted((DATA / "sonar").glob("real-*.json*"))],
}
CASES = {
    # 41 hours of CPU on two cores in half an hour.
    "s1.txt": ("slurm", ["cpu-beyond-cores"]),
    # A CPU and a half: no more than threads, or a job that nothing confines.
    "x1.txt": ("slurm", []),
    # The time from start to end stands in for a wall time that is none.
    "t16.txt": ("slurm", []),
    "z.txt": ("slurm", []),
    "g3.acc": ("gridengine", []),
    "g8.acc": ("gridengine", []),
}
"""Of single inputs the reasons for which jobs of them are held."""


@pytest.fixture
def conf(tmp_path, monkeypatch) -> pathlib.Path:
    """A site without jobs, on a machine in UTC as those of the corpora were."""
    monkeypatch.setenv("TZ", "UTC0")
    path = tmp_path / "arc.conf"
    path.write_text(
        f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={set_up(tmp_path / 'control')}\n[lrms]\nlrms=fork\n"
        "benchmark=HEPSPEC:11.11\n"
    )
    return path


def held(database: str) -> tuple[int, list[tuple[str, str]]]:
    """How many jobs ended, and each that is held, with why."""
    with closing(open_for_reading(database, ACCOUNTING_SCHEMA)) as con:
        (jobs,) = con.execute("SELECT count(*) FROM v1_jobs WHERE end_time IS NOT NULL").fetchone()
        return jobs, [(one.job_id, one.text) for one in held_records(con)]


@pytest.mark.parametrize("files", [corpus.AREX, corpus.AREX7], ids=["arex", "arex7"])
def test_real_control_directories(tmp_path, files) -> None:
    with closing(corpus.swept(corpus.rebuild(tmp_path / "control", files))) as con:
        (jobs,) = con.execute("SELECT count(*) FROM v1_jobs WHERE end_time IS NOT NULL").fetchone()
        assert (jobs > 30, list(held_records(con))) == (True, [])


@pytest.mark.parametrize("name", IMPORTS)
def test_real_accounting(conf, tmp_path, name) -> None:
    for kind, path in IMPORTS[name]:
        arcacct("--config", conf, "import", kind, path)

    jobs, found = held(str(tmp_path / "control" / "accounting" / "arcacct" / "accounting.db"))
    assert (jobs > 8, found) == (True, [])


@pytest.mark.parametrize(("name", "kind", "reasons"), [(name, *case) for name, case in CASES.items()], ids=CASES)
def test_odd_inputs(conf, tmp_path, test_data, name, kind, reasons) -> None:
    """Each after a public report of its kind: what cannot be true is held, and nothing else."""
    arcacct("--config", conf, "import", kind, test_data / "cases" / name)

    jobs, found = held(str(tmp_path / "control" / "accounting" / "arcacct" / "accounting.db"))
    assert jobs
    assert [text.partition(" ")[0] for _job_id, text in found] == reasons
