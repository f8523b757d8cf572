"""The core without any optional part: a copy of the package whose folders of parts are gone records and publishes."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing

import pytest
from installed import configured

ROOT = pathlib.Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
(CONTRACT,) = (
    contract
    for contract in PROJECT["tool"]["importlinter"]["contracts"]
    if contract["name"] == "The core imports no optional part"
)
PARTS = [module.replace(".", "/") for module in CONTRACT["forbidden_modules"]]
"""The folders of the optional parts, as the contract about imports names them."""
SHARE = (
    "tests/arex/test_reconcile.py",
    "tests/arex/test_sweep.py",
    "tests/config",
    "tests/records/test_integrity.py",
    "tests/schema/test_finished_log.py",
)
"""Tests of the core that run without the parts."""


def test_the_contract_is_for_every_folder_of_the_core() -> None:
    """A new one imports no part either. Of sources and targets each folder imports no other, by contracts of theirs."""
    modules = {path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "arcacct").glob("[a-z_]*")}
    core = {name.replace(".", "/") for name in CONTRACT["source_modules"]}
    packages = {name for name in modules if not name.endswith(("/__init__", "/__pycache__"))}

    assert packages - core == {"arcacct/sources", "arcacct/targets", *(part for part in PARTS if part.count("/") == 1)}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The package as installed without its parts: neither their folders nor their entry points are there."""
    place = tmp_path_factory.mktemp("core")
    for folder in ("arcacct", "schema", "etc", "docs"):
        shutil.copytree(ROOT / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for part in PARTS:
        shutil.rmtree(place / part)
    # The metadata of this environment come later on the path.
    (place / "arcacct-0.1.dist-info").mkdir()
    return place


def run(place: pathlib.Path, *words: object, module: str = "arcacct") -> subprocess.CompletedProcess[str]:
    """A module of Python in a process of its own that takes arcacct from there."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        # Without the current directory, which may have a whole arcacct.
        env={**os.environ, "PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"},
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.campaign
def test_what_parts_have_stored_is_kept_by_the_core(core, tmp_path) -> None:
    """It answers `stats`, and is checked, backed up, forgotten and pruned where no part is installed."""
    (tmp_path / "out").mkdir()
    conf = configured(tmp_path, f"[arcacct/directory:out]\npath={tmp_path}/out\ngocdb_name=SITE")
    sonar = sorted(DATA.glob("sonar/real-*.json*"))
    assert run(ROOT, "--config", conf, "import", "slurm", DATA / "slurm/sacct.txt").returncode == 0
    assert run(ROOT, "--config", conf, "import", "sonar", "--records", *sonar).returncode == 0
    database = tmp_path / "control/accounting/arcacct/accounting.db"

    def rows(asked: str, path: pathlib.Path = database) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(path)) as con:
            return con.execute(asked).fetchall()

    def asked(*words: object) -> str:
        done = run(core, "--config", conf, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    measured = rows("SELECT * FROM JobTelemetry ORDER BY RecordID")
    accounts = rows("SELECT DISTINCT UserName FROM SlurmJobs WHERE UserName <> ''")
    assert len(measured) > 5
    assert len(accounts) > 1
    stats = ("stats", "--by", "user,month", "--gpu", "--format", "csv")
    assert asked(*stats) == run(ROOT, "--config", conf, *stats).stdout
    assert "6 jobs added" in asked("import", "pbs", DATA / "pbs/torque-20261102")
    asked("sweep")
    asked("publish", "--since", "1970-01-01", "--accept-lower", "2026-11")
    assert len(asked("query", "--format", "json", "SELECT job_id FROM v1_job_telemetry")) > 100
    asked("db", "backup", tmp_path / "backup")
    forgetting = (
        "import sys\n"
        "from contextlib import closing, nullcontext\n"
        "from arcacct.config.paths import places\n"
        "from arcacct.database.access import open_accounting, open_publishing\n"
        "from arcacct.records.pseudonymise import Scope, pseudonymise\n"
        "here = places(None, sys.argv[1])\n"
        "with closing(open_accounting(here)) as con, closing(open_publishing(here)) as publishing:\n"
        # 2030-01-01, after all jobs.
        "    pseudonymise(here, con, publishing, Scope(1893456000), alone=nullcontext)\n"
    )
    program = tmp_path / "forgetting.py"
    program.write_text(forgetting)
    done = subprocess.run(
        [sys.executable, program, tmp_path / "control"], env={**os.environ, "PYTHONPATH": str(core)}, check=False
    )
    assert done.returncode == 0
    assert not {*accounts} & {*rows("SELECT DISTINCT UserName FROM SlurmJobs")}
    asked("db", "prune", "--before", "2026-12", "--yes")
    assert rows("SELECT * FROM JobTelemetry") == []
    assert len(rows("SELECT * FROM JobTelemetry", database.parent / "archive.db")) == len(measured)
    asked("db", "check")


@pytest.mark.campaign
def test_the_tests_of_the_core_pass_without_the_parts(core) -> None:
    """A share of them, with fewer parameters. Tests that need a part cannot be imported, for that reason alone."""
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "--parameters", "2", "--continue-on-collection-errors")
    # The reference of the configuration is one for the core and its parts.
    others = ("--deselect", "tests/etc/test_configuration_reference.py")
    done = run(core, *options, *others, *SHARE, module="pytest")
    missing = re.findall(r"^E +ModuleNotFoundError: No module named '([\w.]+)'", done.stdout, re.MULTILINE)

    assert not re.findall(r"^FAILED .*", done.stdout, re.MULTILINE), done.stdout
    assert len(missing) == len(re.findall(r"^ERROR ", done.stdout, re.MULTILINE)), done.stdout
    assert all(name.replace(".", "/").startswith(tuple(PARTS)) for name in missing), missing
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) > 200
