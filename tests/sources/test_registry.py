"""Sources of other packages: the template of the manual, installed next to arcacct, imports like any of ours."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import closing

import manual
import pytest
from batch_files import DATA, BatchHost
from campaigns import cross
from publishing_site import Site, jobs

from arcacct.database import access
from arcacct.records import batch_jobs
from arcacct.records.enrichment import precedes
from arcacct.sources.lsf.importer import SOURCE as LSF
from arcacct.sources.registry import GROUP

PAGE = manual.read("project/source")
MONTH_START = 1793577600


def block(language: str) -> str:
    """The one code block of a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def install(folder: pathlib.Path, name: str = "slots", module: str = "arcacct_slots", text: str = "") -> None:
    """Put a package there as an installer does: the module, and the metadata that names it."""
    project = tomllib.loads(block("toml"))["project"]
    assert project["entry-points"] == {GROUP: {"slots": "arcacct_slots"}}
    (folder / f"{module}.py").write_text(text or block("python"))
    info = folder / f"{module}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}\n")


@pytest.fixture
def site(tmp_path) -> Site:
    """A site without jobs, and its log of the batch system."""
    made = Site(tmp_path / "site", targets="")
    made.record(*jobs(1))
    (tmp_path / "packages").mkdir()
    (tmp_path / "jobs.csv").write_text(block("csv"))
    return made


def run(site: Site, *arguments: object, path: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, that finds what is installed."""
    done = subprocess.run(
        [sys.executable, "-m", "arcacct", "--config", f"{site.path}/arc.conf", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path or f"{site.path.parent}/packages"},
        text=True,
        capture_output=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it is true; a minute at most."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_the_template_of_the_manual_imports(site, tmp_path) -> None:
    """Its jobs are recorded once, a bad line is kept, tried again and listed, and a month is compared."""
    log = tmp_path / "jobs.csv"
    unknown = run(site, "import", "slots", log)
    assert (unknown.returncode, "No such command 'slots'" in unknown.stderr) == (64, True)
    unknown = run(site, "verify", "2026-11", "--lrms", f"slots:{log}")
    assert (unknown.returncode, "or NAME:FILE of an installed source" in unknown.stderr) == (64, True)
    unknown = run(site, "import", "rejected", "--source", "slots")
    assert (unknown.returncode, "--source slots: no such source" in unknown.stderr) == (64, True)

    install(tmp_path / "packages")
    assert "Import the jobs of the log of the Slots batch system" in run(site, "import", "slots", "--help").stdout
    assert re.search(r"^  slots +Import the jobs", run(site, "import", "--help").stdout, re.MULTILINE)
    first = run(site, "import", "slots", log)
    assert (first.returncode, "2 jobs added" in first.stdout) == (0, True), first.stderr
    again = run(site, "import", "slots", log)
    assert (again.returncode, "0 jobs added, 0 changed" in again.stdout) == (0, True)
    assert site.database(
        "SELECT job_id, status, exit_code, wall_s, cpu_s, core_count, source, lrms FROM v1_jobs WHERE source <> 'arc'"
    ) == [
        (f"slots:default:17:{MONTH_START}", "completed", 0, 3600, 14000, 4, "slots", "slots"),
        (f"slots:default:18:{MONTH_START}", "failed", 3, 600, None, 1, "slots", "slots"),
    ]
    assert site.database("SELECT source, job_number, cpus, core_s FROM v1_batch_runs") == [
        ("slots", 17, 4, 14400),
        ("slots", 18, 1, 600),
    ]

    same = run(site, "verify", "2026-11", "--lrms", f"slots:{log}", "--all")
    assert re.search(r"slots \S+jobs.csv +2 .* yes ", same.stdout), same.stdout
    shown = run(site, "stats", "--by", "queue")
    assert shown.returncode == 0
    assert re.search(r"^long +2 ", shown.stdout, re.MULTILINE), shown.stdout

    with log.open("a") as file:
        file.write("19,carol\n20,carol,long,1793577600,1793577700,1793577800,1,90,0\n")
    bad = run(site, "import", "slots", log)
    assert (bad.returncode, "2 columns instead of 9" in bad.stderr, "1 job added" in bad.stdout) == (65, True, True)
    differs = run(site, "verify", "2026-11", "--lrms", f"slots:{log}", "--all")
    assert "jobs.csv: 1 entry not usable; `arcacct import slots` says why" in differs.stderr
    assert "2 columns instead of 9" in run(site, "import", "rejected", "--source", "slots").stdout
    assert "1 rejected record" in run(site, "import", "slots", "--retry").stdout


def test_a_job_of_arex_is_completed(site, tmp_path) -> None:
    """A-REX's job of that batch system gets what it lacks, and no second record."""
    install(tmp_path / "packages")
    times = f"SubmitTime = {MONTH_START}, EndTime = {MONTH_START + 4000}"
    site.sql(
        f"UPDATE AAR SET LocalJobID = '17', {times}",
        "UPDATE JobExtraInfo SET InfoValue = 'slots' WHERE InfoKey = 'lrms'",
    )
    done = run(site, "import", "slots", tmp_path / "jobs.csv")
    assert (done.returncode, "1 job added" in done.stdout) == (0, True), done.stderr
    assert "wall_s is 100 by A-REX, 3600 by slots; the first is kept" in done.stderr
    turned = run(site, "import", "slots", "--prefer-slots", "--derive-again")
    assert turned.returncode == 0, turned.stderr
    assert site.database("SELECT job_id, source, wall_s, core_count FROM v1_jobs WHERE local_job_id = '17'") == [
        ("job00000", "arc", 3600, 4)
    ]


def test_what_was_imported_outlives_the_package(tmp_path) -> None:
    """Jobs of a package that is gone are shown and published; what was rejected is listed and can be dropped."""
    target = "[arcacct/directory:d]\npath={path}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"
    site = Site(tmp_path / "site", targets=target, map="owner * vo=atlas user=/CN=Someone")
    site.record()
    site.sql("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
    (site.path / "outgoing").mkdir()
    packages = tmp_path / "packages"
    packages.mkdir()
    install(packages)
    log = tmp_path / "jobs.csv"
    log.write_text(block("csv") + "19,carol\n")
    for cluster in ("one", "two"):
        assert "2 jobs added" in run(site, "import", "slots", "--cluster", cluster, log).stdout
    shutil.rmtree(packages)

    assert run(site, "import", "slots", log).returncode == 64
    done = run(site, "publish", "--since", "2026-01-01")
    assert done.returncode == 0, done.stderr
    # Both clusters have jobs of these numbers: they are told apart at the receiver, with no package to ask.
    messages = "".join(path.read_text() for path in (site.path / "outgoing").rglob("*") if path.is_file())
    assert sorted(re.findall(r"LocalJobI[dD]: (.+)", messages)) == ["17", "18", "two:17", "two:18"]
    assert "slots" in run(site, "job", "info", f"slots:one:17:{MONTH_START}").stdout
    assert run(site, "query", "SELECT DISTINCT source FROM v1_batch_runs").stdout.split()[-1] == "slots"
    assert "2 columns instead of 9" in run(site, "import", "rejected", "--source", "slots").stdout
    dropped = run(site, "import", "rejected", "--source", "slots", "--drop-all", "--yes")
    assert "1 rejected record dropped" in dropped.stdout


def test_it_follows_a_growing_file(site, tmp_path) -> None:
    """With --follow a line that is added is imported; SIGTERM ends the import."""
    install(tmp_path / "packages")
    log = tmp_path / "jobs.csv"
    *lines, last = block("csv").splitlines(keepends=True)
    log.write_text("".join(lines))
    with subprocess.Popen(
        [sys.executable, "-m", "arcacct", "--config", f"{site.path}/arc.conf", "import", "slots", "--follow", log],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}/packages"},
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        wait_for(lambda: len(site.database("SELECT 1 FROM BatchRuns")) == 1)
        with log.open("a") as file:
            file.write(last)
        wait_for(lambda: len(site.database("SELECT 1 FROM BatchRuns")) == 2)
        following.send_signal(signal.SIGTERM)
        assert "2 jobs added" in following.communicate(timeout=60)[0]
        assert following.returncode == 0


def test_a_place_is_known_from_its_first_slice_on(site, tmp_path) -> None:
    """Also of an import that was killed: what publishing calls jobs must not depend on when that was."""
    install(tmp_path / "packages")
    run(site, "import", "slots", tmp_path / "jobs.csv")
    killed = BatchHost(tmp_path / "killed", LSF)
    with closing(killed.con):
        killed.work().output("log", [(DATA / "lsf/lsb.acct").read_bytes()])
        assert killed.rows("SELECT Place, Seq FROM BatchProgress") == [("lsf:default", 0)]
    with closing(access.open_accounting(site.settings.places)) as con:
        assert batch_jobs.places(con) == ["slots:default"]
    assert batch_jobs.place_of(f"slots:default:17:{MONTH_START}") == "slots:default"
    assert batch_jobs.place_of("https://ce.example.org:443/arex/1") is None
    assert batch_jobs.place_of("a:b:c") is None


UNUSABLE = [
    ("slots", ("import csv", "import nothing_of_this_name"), "cannot be loaded: ModuleNotFoundError"),
    ("slots", ("SOURCE =", "OTHER ="), "cannot be loaded: AttributeError"),
    ("slots", ("SOURCE =", "SOURCE = ="), "cannot be loaded: SyntaxError"),
    ("slots", ("SOURCE =", "raise SystemExit(0)\nSOURCE ="), "cannot be loaded: SystemExit: 0; reinstall it"),
    ("slots", ("SOURCE =", "raise GeneratorExit\nSOURCE ="), "cannot be loaded: GeneratorExit"),
    ("slots", ("SlotsSource(BatchSystem", "repr(BatchSystem"), "cannot be used: SOURCE is a str, not a LogSource"),
    ("slots", ("kind=NAME", 'kind="pbs"'), "kind of its BatchSystem is 'pbs': it must be 'slots'"),
    ("slots", ('lrms_names=("slots",)', 'lrms_names=("Slots",)'), "must be names in small letters"),
    ("slots", ("    example =", "    other ="), "SOURCE has no example"),
    ("gesge", ('NAME = "slots"', 'NAME = "gesge"'), "JobIDs of Grid Engine begin with gesge"),
    ("sacct", ('NAME = "slots"', 'NAME = "sacct"'), "sacct is another source of values"),
    ("sl_ots", ('NAME = "slots"', 'NAME = "sl_ots"'), "'sl_ots' is not a name of a source"),
]
"""Of the package of the manual: its name, what is changed in it, and what is said then."""


@pytest.mark.parametrize(("of", "asked"), cross(len(UNUSABLE), UNUSABLE, ["import", "verify", "help"]))
def test_a_package_that_cannot_be_used(site, tmp_path, of, asked) -> None:
    """One error that names the command, the entry point and the module; the help names it, and lists all others."""
    name, change, said = of
    install(tmp_path / "packages", name, text=block("python").replace(*change))
    if asked == "help":
        shown = run(site, "import", "--help")
        assert (shown.returncode, f"import {name}: the entry point" in shown.stdout, "  pbs" in shown.stdout) == (
            0,
            True,
            True,
        )
        return
    lrms = ("import", name, "jobs.csv") if asked == "import" else ("verify", "2026-11", "--lrms", f"{name}:jobs.csv")
    done = run(site, *lrms)
    assert done.returncode == 78, done.stderr
    assert f"import {name}: the entry point arcacct.sources of arcacct_slots" in done.stderr
    assert said in done.stderr


def test_a_name_that_is_built_in(site, tmp_path) -> None:
    """The built-in source stays, and the help says that the other one is not used."""
    install(tmp_path / "packages", "pbs")
    assert "PBS's accounting logs" in run(site, "import", "pbs", "--help").stdout
    shown = " ".join(run(site, "import", "--help").stdout.split())
    assert "import pbs: the entry point arcacct.sources of arcacct_slots cannot be used: pbs is built in" in shown


def test_two_packages_with_one_name(site, tmp_path) -> None:
    """Which one is meant only a person knows."""
    install(tmp_path / "packages")
    install(tmp_path / "packages", module="other_slots")
    done = run(site, "import", "slots", "jobs.csv")
    assert (done.returncode, "only one package may have this name" in done.stderr) == (78, True)


@pytest.mark.parametrize(
    "content", [b"[arcacct.sources]\n\xff\xfe\n", b"[arcacct.sources]\nslots\n"], ids=["no text", "no entry point"]
)
def test_a_package_with_damaged_files_is_left_out(site, tmp_path, content) -> None:
    """One line names it; the source of another package imports, and the help lists all the others."""
    packages = tmp_path / "packages"
    install(packages, "foreign", "foreign")
    (packages / "foreign-1.0.dist-info" / "entry_points.txt").write_bytes(content)
    install(packages)
    line = f"arcacct: the package foreign in {packages}: its entry_points.txt cannot be read: "
    shown = run(site, "import", "--help")
    assert (shown.returncode, shown.stderr.count("\n")) == (0, 1)
    assert shown.stderr.startswith(line)
    assert shown.stderr.endswith("; reinstall or uninstall this package\n")
    assert re.search(r"^  slots +Import the jobs", shown.stdout, re.MULTILINE)
    done = run(site, "import", "slots", tmp_path / "jobs.csv")
    assert (done.returncode, "2 jobs added" in done.stdout, done.stderr.count(line)) == (0, True, 1), done.stderr
    unknown = run(site, "import", "others", tmp_path / "jobs.csv")
    assert (unknown.returncode, "No such command 'others'" in unknown.stderr, line in unknown.stderr) == (
        64,
        True,
        True,
    )


def test_only_the_entry_points_of_a_package_are_read(site, tmp_path) -> None:
    """Damage to its other files is none of arcacct's business; metadata of older tools is found, too."""
    packages = tmp_path / "packages"
    install(packages)
    (packages / "arcacct_slots-1.0.dist-info" / "METADATA").write_bytes(b"Name: \xff\n")
    for name in ("arcacct_slots-1.0.dist-info", "arcacct_slots-1.0.egg-info", "arcacct_slots.egg-info"):
        next(packages.glob("arcacct_slots*-info")).rename(packages / name)
        done = run(site, "import", "slots", "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: arcacct import slots")


def test_another_installation_of_a_package_further_down_the_path_is_not_used(site, tmp_path) -> None:
    """Python imports from the first place; the second one may have another version, with another name."""
    (tmp_path / "packages" / "below").mkdir()
    install(tmp_path / "packages")
    install(tmp_path / "packages" / "below", "former", text=block("python").replace("slots", "former"))
    done = run(site, "import", "--help", path=f"{tmp_path}/packages:{tmp_path}/packages/below")
    assert (done.returncode, "  slots " in done.stdout, "former" in done.stdout) == (0, True, False), done.stdout


def test_a_package_that_exits_is_no_success(site, tmp_path) -> None:
    """While it reads a line this costs the line; anywhere else the import ends with an error."""
    packages = tmp_path / "packages"
    reading = "    def run_of(self, line, unusable, place):\n"
    assert reading in block("python")
    text = block("python").replace(
        reading, f"{reading}        if line.startswith('17,'):\n            raise SystemExit(0)\n"
    )
    install(packages, text=text)
    done = run(site, "import", "slots", tmp_path / "jobs.csv")
    assert (done.returncode, "1 job added" in done.stdout) == (65, True), done.stderr
    assert "SystemExit: 0" in done.stderr
    source = (packages / "arcacct_slots.py").read_text()
    for ending, name in (("sys.exit(0)", "SystemExit: 0"), ("raise GeneratorExit", "GeneratorExit")):
        (packages / "arcacct_slots.py").write_text(
            f"import sys\n{source}\n\ndef job(*_):\n    {ending}\n\nSlotsSource.job = job\n"
        )
        done = run(site, "import", "slots", "--derive-again", tmp_path / "jobs.csv")
        assert done.returncode == 70, done.stderr
        assert f"arcacct: internal error: {name}" in done.stderr


def test_built_in_sources_look_through_no_package(site, tmp_path) -> None:
    """With a built-in name the metadata of installed packages is not read; with another one it is."""
    program = (
        "import sys\n"
        "from arcacct import entry_points\n"
        "def refused(): raise RuntimeError('looked through')\n"
        "entry_points._registered = refused\n"
        "from arcacct.cli.main import main\n"
        "main()\n"
    )
    log = pathlib.Path(__file__).parent.parent / "data/lsf/lsb.acct"
    asked = (
        ("import", "lsf", log),
        ("import", "rejected", "--source", "pbs"),
        ("verify", "2026-11", "--lrms", f"lsf:{log}"),
    )
    for arguments in (*asked, ("import", "slots", log)):
        command = [sys.executable, "-c", program, "--config", f"{site.path}/arc.conf", *map(str, arguments)]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        found = done.returncode in (0, 1), "looked through" in done.stderr
        assert found == (("slots" not in arguments), "slots" in arguments), done.stderr


def test_an_unknown_source_ranks_behind_the_built_in_ones() -> None:
    """Weaker than every batch system that is built in, stronger than a guess; two of them by name, in either order."""
    for field in ("wall_s", "core_count", "cpu_user_s", "memory_kib", "node_names", "benchmark"):
        for known in ("arc", "arex", "gridengine", "htcondor", "lsf", "pbs", "sacct", "slurm"):
            assert precedes(field, known, "slots")
            assert not precedes(field, "slots", known)
        assert precedes(field, "slots", "default")
        assert not precedes(field, "default", "slots")
        assert precedes(field, "aslots", "slots")
        assert not precedes(field, "slots", "aslots")
    assert precedes("benchmark", "features", "slots")
