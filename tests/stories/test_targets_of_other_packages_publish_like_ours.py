"""Targets of other packages: the template of the manual, installed next to arcacct, publishes like any of ours."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import manual
import pytest
from publishing_site import Site, jobs

from arcacct.targets import GROUP

PAGE = manual.read("project/target")


def block(language: str) -> str:
    """The one code block of a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def install(folder: pathlib.Path, name: str = "arcacct-lines", module: str = "arcacct_lines", text: str = "") -> None:
    """Put a package there as an installer does: the module, and the metadata that names it."""
    project = tomllib.loads(block("toml"))["project"]
    ((kind, _value),) = project["entry-points"][GROUP].items()
    (folder / f"{module}.py").write_text(text or block("python"))
    info = folder / f"{module}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{kind} = {module}\n")


@pytest.fixture
def site(tmp_path) -> Site:
    """Three jobs, and no target yet."""
    made = Site(tmp_path / "site", targets="")
    made.record(*jobs(3))
    (made.path / "out").mkdir()
    ours = made.path / "arcacct.conf"
    block_of_page = block("ini").replace("/srv/accounting", f"{made.path}/out")
    ours.write_text(f"{ours.read_text() if ours.exists() else ''}\n{block_of_page}")
    (tmp_path / "packages").mkdir()
    return made


def run(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, that finds what is installed."""
    return subprocess.run(
        [sys.executable, "-m", "arcacct", "--config", f"{site.path}/arc.conf", *arguments],
        env={**os.environ, "PYTHONPATH": f"{site.path.parent}/packages"},
        text=True,
        capture_output=True,
        check=False,
    )


def lines(site: Site) -> list[dict[str, object]]:
    """What was written, in the order of the files' times."""
    files = sorted((site.path / "out").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_the_template_of_the_manual_publishes(site, tmp_path) -> None:
    """Its options are judged, its records sent once, and a change is sent as a correction."""
    unknown = run(site, "config", "check")
    assert (unknown.returncode, "[arcacct/lines:archive]: is not a block" in unknown.stdout) == (78, True)

    install(tmp_path / "packages")
    assert run(site, "config", "check").returncode == 0
    first = run(site, "publish", "--since", "1970-01-01")
    assert first.returncode == 0, first.stderr
    assert sorted(str(line["job"]) for line in lines(site)) == sorted(one.job_id for one in jobs(3))

    assert run(site, "publish").returncode == 0
    assert len(lines(site)) == 3
    site.sql("UPDATE AAR SET UsedWalltime = 77 WHERE RecordID = 1")
    assert run(site, "publish").returncode == 0
    assert [line["wall_s"] for line in lines(site)][3:] == [77]
    assert "lines:archive" in run(site, "status").stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_this_name\n", "cannot be loaded: ModuleNotFoundError"),
        ("KIND =\n", "cannot be loaded: SyntaxError"),
        ("raise SystemExit(0)\n", "cannot be loaded: SystemExit: 0; reinstall it"),
        ("raise GeneratorExit\n", "cannot be loaded: GeneratorExit"),
        ("PLUGIN = None\n", "cannot be loaded: AttributeError"),
        ("KIND = None\nPLUGIN = None\n", "cannot be used: KIND is a NoneType, no TargetKind"),
        ("from arcacct.targets.sgas.options import KIND\nPLUGIN = 1\n", "cannot be used: it is for [arex/jura/sgas]"),
        (f"{block('python')}PLUGIN = None\n", "cannot be used: PLUGIN is a NoneType, no class"),
    ],
)
def test_a_package_that_cannot_be_used(site, tmp_path, text, said) -> None:
    """One error of the configuration that names block and entry point."""
    install(tmp_path / "packages", text=text)
    done = run(site, "publish")
    assert done.returncode == 78
    assert f"[arcacct/lines]: the entry point arcacct.targets of arcacct_lines {said}" in done.stderr


def test_two_packages_for_one_kind(site, tmp_path) -> None:
    """Which of them is meant only a person knows."""
    install(tmp_path / "packages")
    install(tmp_path / "packages", "another", "other_lines")
    done = run(site, "publish")
    assert (done.returncode, "only one package may have this name" in done.stderr) == (78, True)


def test_a_package_with_a_damaged_file_is_left_out(site, tmp_path) -> None:
    """One line names it, and the target of another package publishes."""
    packages = tmp_path / "packages"
    install(packages, "foreign", "foreign")
    (packages / "foreign-1.0.dist-info" / "entry_points.txt").write_bytes(b"[arcacct.targets]\n\xff\n")
    install(packages)
    done = run(site, "publish", "--since", "1970-01-01")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"arcacct: the package foreign in {packages}: its entry_points.txt cannot be read: ") == 1
    assert len(lines(site)) == 3


@pytest.mark.parametrize("place", ["__init__", "send", "accept"])
def test_a_target_that_exits_is_an_error_and_stops_no_other(site, tmp_path, place) -> None:
    """While its sender is made, while a message is sent, or while its records are judged."""
    text = {
        "__init__": ("self.folder, self.destination = target.path, target.url", "raise SystemExit(0)"),
        "send": ("os.fsync(file.fileno())", "raise SystemExit(0)"),
        "accept": ("notes = []", "raise SystemExit(0)"),
    }
    install(tmp_path / "packages", text=block("python").replace(*text[place]))
    (site.path / "messages").mkdir()
    with (site.path / "arcacct.conf").open("a") as file:
        file.write(f"urbatchsize=1\n[arcacct/directory:d]\npath={site.path}/messages\ngocdb_name=SITE\n")
    done = run(site, "publish", "--since", "1970-01-01")
    assert done.returncode == 70, done.stderr
    assert "lines:archive: internal error: SystemExit: 0; please report it" in done.stderr
    assert not list((site.path / "out").glob("*.jsonl"))
    assert [path for path in (site.path / "messages").rglob("*") if path.is_file()]
    assert "SystemExit: 0" in run(site, "status").stdout


def test_a_target_that_exits_stops_no_other_of_its_receiver(site, tmp_path) -> None:
    """Both are done by one thread, one after the other."""
    exits = (
        "    @property\n    def folded(self):\n        if self.target.name == 'lines:archive':\n"
        "            raise SystemExit(0)\n        return super().folded\n\n    def records("
    )
    install(tmp_path / "packages", text=block("python").replace("    def records(", exits))
    with (site.path / "arcacct.conf").open("a") as file:
        file.write(f"\n[arcacct/lines:second]\npath={site.path}/out\n")
    done = run(site, "publish", "--since", "1970-01-01")
    assert done.returncode == 70, done.stderr
    assert "lines:archive: internal error: SystemExit: 0; please report it" in done.stderr
    assert len(lines(site)) == 3


def test_built_in_targets_look_through_no_package(tmp_path) -> None:
    """With blocks of ours alone the metadata of installed packages is not read."""
    program = (
        "import sys\n"
        "from arcacct import entry_points\n"
        "def refused(): raise AssertionError('looked through')\n"
        "entry_points._registered = refused\n"
        "from arcacct.config.parser import load\n"
        "from arcacct.targets import kinds\n"
        "conf = load(sys.argv[1], {})\n"
        "assert len(kinds(conf)) == 3\n"
    )
    conf = tmp_path / "arc.conf"
    conf.write_text("[common]\n[arex]\n[infosys/glue2]\n")
    (tmp_path / "arcacct.conf").write_text("[arcacct]\n[arcacct/directory:out]\npath=/x\n[arex/jura/sgas:s]\n")
    subprocess.run([sys.executable, "-c", program, str(conf)], check=True)
