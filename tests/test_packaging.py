"""What is built: everything that an installed arcacct needs, and nothing else."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from importlib.util import find_spec
from typing import NamedTuple

import pytest
from installed import ARCACCT
from packaging.requirements import Requirement

import arcacct

ROOT = pathlib.Path(__file__).parent.parent
BUILD = "import sys, hatchling.build as backend; print(getattr(backend, sys.argv[1])(sys.argv[2]))"
"""Builds with the backend of pyproject.toml as pip does, but in this environment: pip would ask the network for it."""
DIST_INFO = f"arcacct-{arcacct.__version__}.dist-info"
PATH = f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"
SCRIPTS = f"arcacct-{arcacct.__version__}.data/scripts"
SHARE = f"arcacct-{arcacct.__version__}.data/data/share"
SHELLS = {
    "arcacct.bash": "bash-completion/completions/arcacct",
    "arcacct.zsh": "zsh/site-functions/_arcacct",
    "arcacct.fish": "fish/vendor_completions.d/arcacct.fish",
}
"""Where each shell looks for what it completes."""


class Shipped(NamedTuple):
    """A file of a wheel."""

    content: bytes
    executable: bool


def build(what: str, source: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Build a wheel or an sdist of a source tree; the path of the file."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{what}", target], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.split()[-1]


def files_of(wheel: pathlib.Path) -> dict[str, Shipped]:
    """Each file of a wheel by its name."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            info.filename: Shipped(archive.read(info), bool(info.external_attr >> 16 & 0o111))
            for info in archive.infolist()
        }


def tree(folder: str) -> dict[str, bytes]:
    """Each file below a folder of the checkout by its path there, without what Python leaves behind."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel_path(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(wheel_path) -> dict[str, Shipped]:
    return files_of(wheel_path)


@pytest.fixture(scope="module")
def prefix(wheel_path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A place into which pip has installed the wheel."""
    prefix = tmp_path_factory.mktemp("prefix")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--ignore-installed", "--prefix", prefix, wheel_path], check=True)
    return prefix


@pytest.mark.parametrize("folder", ["arcacct", "schema", "etc", "docs"])
def test_wheel_has_every_file(wheel, folder) -> None:
    """Modules, demo data, SQL scripts, the administrator's files and the manual are in the wheel, byte for byte."""
    inside = "" if folder == "arcacct" else "arcacct/"
    expected = {f"{inside}{path}": content for path, content in tree(folder).items()}

    assert len(expected) > 2
    assert {name: wheel[name].content for name in expected if name in wheel} == expected


def shared() -> dict[str, bytes]:
    """What pip puts below PREFIX/share, by its path there: man pages, and completions for shells."""
    completions = {SHELLS[name.rpartition("/")[2]]: content for name, content in tree("etc/completions").items()}
    return tree("man") | completions


def test_wheel_has_what_man_and_shells_look_for(wheel, prefix) -> None:
    """In the wheel byte for byte, and pip installs it where `man` and the shells look."""
    expected = shared()

    assert {name.partition("/")[0] for name in expected} == {"man", "bash-completion", "zsh", "fish"}
    assert {name: wheel[f"{SHARE}/{name}"].content for name in expected} == expected
    assert {name: (prefix / "share" / name).read_bytes() for name in expected} == expected


def test_wheel_has_nothing_else(wheel) -> None:
    """No test, no cache, no build script: the package, its metadata, its programs and their pages."""
    expected = set(tree("arcacct")) | {f"arcacct/{path}" for path in (*tree("schema"), *tree("etc"), *tree("docs"))}
    others = set(wheel) - expected - {f"{SHARE}/{name}" for name in shared()}

    assert others == {
        f"{SCRIPTS}/arcacct",
        f"{SCRIPTS}/arcacct-record",
        f"{SHARE}/arcacct/arcacct-hook",
        *(f"{DIST_INFO}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")),
    }


def test_modes_survive(wheel) -> None:
    """The launcher, which is copied out of the package, can be run; data cannot."""
    assert wheel["arcacct/etc/arcacct-hook"].executable
    assert not wheel["arcacct/etc/arcacct.conf.reference"].executable
    assert not any(file.executable for name, file in wheel.items() if name.startswith("arcacct/sandbox/demo_data/"))


@pytest.mark.parametrize("name", ["arcacct", "arcacct-record"])
def test_the_programs_are_script_files(wheel, name) -> None:
    """They are no entry points: pip's shim for those obeys PYTHONPATH."""
    assert wheel[f"{SCRIPTS}/{name}"].content == (ROOT / "etc" / name).read_bytes()


def test_metadata_names_what_is_needed(wheel) -> None:
    """The wheel asks for what the program imports; for the tools of the tests only with [dev] and [test]."""
    metadata = message_from_bytes(wheel[f"{DIST_INFO}/METADATA"].content)
    lines = metadata.get_all("Requires-Dist", [])
    always = {line.partition(">")[0] for line in lines if "extra ==" not in line}

    program = b"".join(
        file.content for name, file in wheel.items() if name.startswith("arcacct/") and name[-3:] == ".py"
    )
    imported = {module.decode() for module in re.findall(rb"^ *(?:from|import) (\w+)", program, re.MULTILINE)}

    assert {"click", "cryptography", "psutil", "sqlite-utils"} <= always
    assert {name.replace("-", "_") for name in always} <= imported
    assert not {"pytest", "mypy", "ruff", "hatchling", "lxml", "hypothesis"} & always
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Version"] == arcacct.__version__
    assert metadata["License-Expression"] == "Apache-2.0"


PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


class Dependency(NamedTuple):
    """A requirement of pyproject.toml, and the comment next to it or above it."""

    requirement: Requirement
    reason: str

    @property
    def bounds(self) -> list[str]:
        """Its lower bounds, as they are written; a pin is one."""
        return [one.version for one in self.requirement.specifier if one.operator in {">=", "=="}]


def dependencies() -> list[Dependency]:
    """Those of the program and of every extra; an extra that takes in others is none."""
    found, above = [], ""
    listed = PYPROJECT[PYPROJECT.index("\ndependencies = [") : PYPROJECT.index("\n[tool.")]
    for line in map(str.strip, listed.splitlines()):
        if line.startswith("#"):
            above += line.strip("# ")
            continue
        if entry := re.fullmatch(r"""(["'])(.+?)\1,(?:\s*#(.*))?""", line):
            requirement = Requirement(entry[2])
            if requirement.name != "arcacct":
                found.append(Dependency(requirement, (entry[3] or above).strip()))
        above = ""
    project = tomllib.loads(PYPROJECT)["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    assert [str(one.requirement) for one in found] == [
        str(one) for one in map(Requirement, lines) if one.name != "arcacct"
    ]
    return found


def sites() -> set[str]:
    """The names of what the program imports, of its extras, too."""
    project = tomllib.loads(PYPROJECT)["project"]
    extras = project["optional-dependencies"]
    of_developers = {"dev", "docs", "packages", "release", "test"}
    lines = [*project["dependencies"], *(line for name in set(extras) - of_developers for line in extras[name])]
    return {Requirement(line).name for line in lines}


@pytest.mark.parametrize("dependency", dependencies(), ids=lambda one: one.requirement.name)
def test_each_dependency_has_one_lower_bound_and_a_reason(dependency) -> None:
    """The bound is the same wherever the dependency stands, in what builds the wheel, too."""
    name = dependency.requirement.name
    build = [Requirement(line) for line in tomllib.loads(PYPROJECT)["build-system"]["requires"]]
    same = [one for one in (*dependencies(), *(Dependency(one, "") for one in build)) if one.requirement.name == name]

    assert len(dependency.bounds) == 1
    assert [one.bounds for one in same] == [dependency.bounds] * len(same)
    assert dependency.reason


def test_each_dependency_is_tested_at_its_lower_bound() -> None:
    """
    CI installs the lower bounds and runs the tests of what uses them: a dependency that is new here is new there.

    It fails where one is installed above its bound (``tests/matrix --lowest``).
    """
    script = (ROOT / "tests" / "matrix").read_text(encoding="utf-8")
    tested: dict[str, list[str]] = {}
    for row in re.findall(r"^lowest='\n(.*?)^'$", script, re.MULTILINE | re.DOTALL)[0].splitlines():
        name, *tests = row.split()
        tested.setdefault(name, []).extend(tests)
    elsewhere = re.findall(r"^not_lowest='(.*)'$", script, re.MULTILINE)[0].split()

    assert sorted([*tested, *elsewhere]) == sorted({one.requirement.name for one in dependencies()})
    # What a site installs is tested there, but for Spark.
    assert sites() & set(elsewhere) == {"pyspark"}
    for name, tests in tested.items():
        assert tests, name
        for test in tests:
            path, _, function = test.partition("::")
            assert (ROOT / path).exists(), test
            assert not function or f"\ndef {function}(" in (ROOT / path).read_text(encoding="utf-8"), test
    if (ROOT / ".ci" / "run").exists():
        assert "tests/matrix --lowest\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.campaign
def test_sdist_builds_the_same_wheel(wheel, tmp_path) -> None:
    """Who builds from the source archive gets what who builds from a checkout gets."""
    with tarfile.open(build("sdist", ROOT, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("arcacct-*/")
    rebuilt = files_of(build("wheel", source, tmp_path))

    assert rebuilt == wheel
    assert (source / "tests" / "test_packaging.py").is_file()


def test_the_installed_program_of_0_2_runs_the_launcher(prefix, tmp_path) -> None:
    """Installed by pip, `arcacct-record` finds the launcher that it was installed with."""
    done = subprocess.run(
        [prefix / "bin" / "arcacct-record", "too", "few"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")
    assert "usage: arcacct-hook" in done.stderr
    assert (prefix / "share" / "arcacct" / "arcacct-hook").read_bytes() == (ROOT / "etc" / "arcacct-hook").read_bytes()


def test_an_installed_sample_does_without_the_command_line(prefix, tmp_path) -> None:
    """What each node runs every minute needs five small modules; whatever else is asked for has the command line."""
    copied = shutil.copytree(prefix, tmp_path / "prefix")
    (package,) = copied.glob("lib/python3*/site-packages/arcacct")
    (package / "cli" / "__init__.py").write_text("raise SystemExit(99)\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [copied / "bin" / "arcacct", "node", "sample", *arguments]
        return subprocess.run(command, cwd=tmp_path, env={"PATH": PATH}, capture_output=True, text=True, check=False)

    done = run("--cluster", "c", "--exclude-system-jobs")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["data"]["attributes"]["cluster"] == "c"
    assert [run(*others).returncode for others in (["--help"], ["--interval", "60"], ["--unknown"])] == [99] * 3


def test_installed_program_finds_its_schema(prefix, tmp_path) -> None:
    """The installed command creates a database from the scripts that came with it, wherever it is run."""
    command = [prefix / "bin" / "arcacct", "--database", tmp_path / "accounting.db", "db", "init"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": PATH}, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "accounting.db").is_file()
    assert f"{tmp_path}/publishing.db: created" in done.stdout


def test_installed_program_has_its_manual(prefix, tmp_path) -> None:
    """The pages came with it: they are read where there is neither a checkout nor a network."""
    command = [prefix / "bin" / "arcacct", "help", "exit-codes"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": PATH}, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Exit codes\n==========\n")


@pytest.fixture
def traps(tmp_path) -> pathlib.Path:
    """A directory with a module of each name that the program or Python itself imports, which says that it ran."""
    for name in ("click", "sqlite3", "_sqlite3", "sitecustomize", "usercustomize", "re", "encodings", "os", "arcacct"):
        (tmp_path / f"{name}.py").write_text(f"import sys\nsys.stderr.write('TRAPPED by {name}')\n")
    return tmp_path


@pytest.mark.parametrize("by", ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "directory"])
@pytest.mark.parametrize("where", ["environment", "prefix", "link"])
def test_what_the_caller_has_lying_about_is_not_imported(prefix, traps, tmp_path, by, where) -> None:
    """Neither by the variables of Python nor from the current directory, however it was installed and is started."""
    program = pathlib.Path(ARCACCT) if where == "environment" else prefix / "bin" / "arcacct"
    if where == "link":
        (tmp_path / "link").symlink_to(program)
        program = tmp_path / "link"
    variables = {} if by == "directory" else {by: str(traps / "click.py" if by == "PYTHONSTARTUP" else traps)}

    done = subprocess.run(
        [program, "--version"], cwd=traps, env={"PATH": PATH, **variables}, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"arcacct, version {arcacct.__version__}\n"


@pytest.mark.parametrize("start", ["{}/bin/arcacct", "bin/arcacct"])
def test_the_program_next_to_the_launcher_runs(prefix, tmp_path, start) -> None:
    """Not the one that this Python has of its own, and whatever directories the shell's cd knows of."""
    home = tmp_path / "home"
    shutil.copytree(prefix, home)
    (init,) = home.glob("**/arcacct/__init__.py")
    init.write_text('__version__ = "99"\n')
    (tmp_path / "elsewhere" / "bin").mkdir(parents=True)
    done = subprocess.run(
        [start.format(home), "--version"],
        cwd=home,
        env={"PATH": PATH, "CDPATH": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "arcacct, version 99\n", "")


@pytest.fixture
def outlived(prefix, tmp_path) -> pathlib.Path:
    """An environment whose Python was replaced after arcacct was installed into it for another one."""
    home = tmp_path / "opt arcacct"
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", home], check=True)
    shutil.copy(prefix / "bin" / "arcacct", home / "bin")
    (site,) = prefix.glob("lib/python3*/site-packages")
    shutil.copytree(site, home / "lib" / "python3.2" / "site-packages")
    return home


def run_outlived(home: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [home / "bin" / "arcacct", *arguments]
    path = f"{os.path.dirname(getattr(sys, '_base_executable', sys.executable))}:/usr/bin:/bin"
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("how", ["newer", "gone"])
def test_another_python_is_said_in_one_line_with_the_remedy(outlived, how) -> None:
    """Also where the link to the Python of the environment leads nowhere: monitoring reads exit code 1 as a warning."""
    if how == "gone":
        (outlived / "bin" / "python3").unlink()
        (outlived / "bin" / "python3").symlink_to("/nonexistent/python3.2")
    now = f"{sys.version_info[0]}.{sys.version_info[1]}"

    for arguments in (["publish"], ["node", "sample"], ["--config", "arc.conf", "sweep"]):
        done = run_outlived(outlived, *arguments)
        assert (done.returncode, done.stdout) == (70, "")
        (line,) = done.stderr.splitlines()
        assert f"{outlived}: installed for Python 3.2, but Python is now {now}; in a checkout" in line
    status = run_outlived(outlived, "status", "--format", "nagios")
    assert (status.returncode, status.stderr) == (3, "")
    assert status.stdout == line.replace("arcacct: ", "UNKNOWN: ", 1) + "\n"


@pytest.mark.campaign
@pytest.mark.skipif(find_spec("ensurepip") is None, reason="this Python has no ensurepip (Debian: python3-venv)")
def test_the_command_against_another_python_repairs_the_environment(outlived, wheel_path) -> None:
    """As it is printed, but that it installs the wheel, and takes dependencies from here."""
    (outlived / "bin" / "python3").unlink()
    (outlived / "bin" / "python3").symlink_to("/nonexistent/python3.2")
    command = run_outlived(outlived, "sweep").stderr.partition("run: ")[2].rstrip()
    assert command.endswith("pip install .")
    subprocess.run(f"{command[:-1]} --quiet --no-deps --no-index {wheel_path}", shell=True, check=True)
    (site,) = outlived.glob(f"lib/python3.{sys.version_info[1]}/site-packages")
    (site / "dependencies.pth").write_text(f"{pathlib.Path(pytest.__file__).parent.parent}\n")

    done = run_outlived(outlived, "--version")

    assert (done.returncode, done.stdout, done.stderr) == (0, f"arcacct, version {arcacct.__version__}\n", "")


def test_what_python_cannot_load_is_said_in_one_line(outlived) -> None:
    """A dependency that is missing; of the packages, whose environment has no pip, the advice is to install them."""
    (outlived / "lib" / "python3.2").rename(outlived / "lib" / "other")
    (site,) = outlived.glob(f"lib/python3.{sys.version_info[1]}/site-packages")
    site.rmdir()
    (outlived / "lib" / "other" / "site-packages").rename(site)
    (outlived / "versions").mkdir()

    done = run_outlived(outlived, "publish")

    assert (done.returncode, done.stdout) == (70, "")
    assert (
        f"{outlived}: Python 3.{sys.version_info[1]} cannot load it: No module named 'click'; install the"
        in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_checkout_works_without_being_built(tmp_path) -> None:
    """An editable installation takes schema and etc from the top level of the project."""
    code = "from arcacct.files.directories import resource; print(resource('schema', 'accounting'), resource('etc'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == [str(ROOT / "schema" / "accounting"), str(ROOT / "etc")]
