#!/usr/bin/env python3
"""
Make a release of what is committed: build everything, verify it, list it. Nothing is signed, tagged or uploaded.

    packaging/release.py                  the version that arcacct/__init__.py and CHANGELOG.md name, into dist/VERSION/
    packaging/release.py --out DIR        elsewhere; a directory that is not there yet
    packaging/release.py --no-packages    without .deb and .rpm, and so without an SBOM

Needs the extras `release`, `packages` and `docs`, Python's venv, git, and PyPI; dpkg-deb to look into the .deb.

What is built is what git has under HEAD, in the order and with the times of the commit: the same bytes each time, which
is tried by building all of it twice. What is wrong before the first build ends the program with 1 and every complaint.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from typing import Any

import click

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
ENTRY = re.compile(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", re.MULTILINE)
UNRELEASED = re.compile(r"^## Unreleased\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_BUILD = "import sys, hatchling.build as backend; print(getattr(backend, sys.argv[1])(sys.argv[2]))"


def run(*command: str | os.PathLike[str], cwd: pathlib.Path | None = None, **variables: str) -> str:
    """Run a program; what it printed. Raises ClickException with all that it said when it fails."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def complaints(root: pathlib.Path) -> Iterator[str]:
    """What keeps this checkout from being a release."""
    changed = run("git", "-C", root, "status", "--porcelain").splitlines()
    if changed:
        yield f"{len(changed)} files are not as they are committed, {changed[0][3:]} first: commit them"
    version = version_of(root)
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entry = ENTRY.search(log)
    if entry is None or entry[1] != version:
        yield f"CHANGELOG.md begins with {entry and entry[1]}, arcacct/__init__.py says {version}: make them one"
    waiting = UNRELEASED.search(log)
    if waiting is not None and waiting[1].strip():
        yield "CHANGELOG.md has changes under Unreleased: give them a version and a day"
    if f"v{version}" in run("git", "-C", root, "tag", "--list").split():
        head = run("git", "-C", root, "rev-parse", "HEAD").strip()
        tagged = run("git", "-C", root, "rev-list", "-n", "1", f"v{version}").strip()
        if tagged != head:
            yield f"v{version} is the tag of another commit: choose the next version"


def version_of(root: pathlib.Path) -> str:
    """The program's."""
    found = VERSION.search((root / "arcacct" / "__init__.py").read_text(encoding="utf-8"))
    if found is None:
        raise click.ClickException("arcacct/__init__.py names no version")
    return found[1]


def source_of(root: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """What git has under HEAD, and nothing else, in a new directory."""
    packed = subprocess.run(["git", "-C", root, "archive", "HEAD"], capture_output=True, check=True).stdout
    target.mkdir()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(target, filter="data")
    return target


def build_module() -> Any:
    """packaging/build.py, which fetches what the packages carry as we need it, too."""
    spec = importlib.util.spec_from_file_location("arcacct_packages", HERE / "build.py")
    if spec is None or spec.loader is None:
        raise click.ClickException("packaging/build.py cannot be read")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build(source: pathlib.Path, out: pathlib.Path, wheels: pathlib.Path | None) -> None:
    """Wheel, sdist, packages (with the wheels of their dependencies) and the manual as a site."""
    out.mkdir(parents=True)
    for kind in ("wheel", "sdist"):
        run(sys.executable, "-c", _BUILD, f"build_{kind}", out, cwd=source)
    if wheels is not None:
        run(sys.executable, source / "packaging" / "build.py", "--source", source, "--out", out, "--wheelhouse", wheels)
    if importlib.util.find_spec("mkdocs") is not None:
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, "-m", "mkdocs", "-q", "build", "--strict", "--site-dir", folder, cwd=source)
            name = f"arcacct-{version_of(source)}-manual"
            pack(pathlib.Path(folder), name, out / f"{name}.tar.gz")


def pack(folder: pathlib.Path, name: str, target: pathlib.Path) -> None:
    """A directory as a .tar.gz that depends on its content alone."""
    time = int(os.environ["SOURCE_DATE_EPOCH"])
    with (
        open(target, "wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(folder.rglob("*")):
            # mkdocs writes the day of the build into these, and nobody asks them here.
            if path.is_file() and not path.name.startswith("sitemap.xml"):
                info = tarfile.TarInfo(f"{name}/{path.relative_to(folder)}")
                info.size, info.mtime, info.mode = path.stat().st_size, time, 0o644
                with open(path, "rb") as file:
                    archive.addfile(info, file)


def digest(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpacked(package: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The directory of modules that a .deb carries."""
    run("dpkg-deb", "-x", package, folder)
    (site,) = (folder / "opt" / "arcacct").glob("**/site-packages/arcacct")
    return site.parent


def carried(site: pathlib.Path) -> dict[str, str]:
    """``{name: version}`` of each distribution in a directory of modules, names as PyPI compares them."""
    found = {}
    for folder in site.glob("*.dist-info"):
        name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
        found[canonical(name)] = version
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def bill_of_materials(site: pathlib.Path, wheels: Iterable[pathlib.Path], source: pathlib.Path) -> dict[str, Any]:
    """
    CycloneDX of what a package carries: each distribution with version, licences, and the digests of its wheels.

    cyclonedx-py reads what is installed where a Python looks for modules; it says nothing of digests, and passes over
    a licence that is told in words of its own.
    """
    told = {canonical(one.name): one.metadata.get("License") for one in distributions(path=[str(site)])}
    with tempfile.TemporaryDirectory() as folder:
        bare = pathlib.Path(folder) / "bare"
        run(sys.executable, "-m", "venv", "--without-pip", bare)
        listed = run(
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--spec-version", "1.6"),
            *("--pyproject", source / "pyproject.toml", bare / "bin" / "python"),
            PYTHONPATH=str(site),
        )
    bill: dict[str, Any] = json.loads(listed)
    # In pyproject.toml it is dynamic.
    bill["metadata"]["component"]["version"] = version_of(source)
    for component in bill["components"]:
        words = told.get(canonical(component["name"]))
        if not licences(component) and words:
            component["licenses"] = [{"license": {"name": words}}]
        component["externalReferences"] = [
            *(one for one in component.get("externalReferences", []) if not one["url"].startswith("file:")),
            *(
                {
                    "type": "distribution",
                    "url": f"https://pypi.org/project/{component['name']}/{component['version']}/#files",
                    "comment": wheel.name,
                    "hashes": [{"alg": "SHA-256", "content": digest(wheel)}],
                }
                for wheel in sorted(wheels)
                if canonical(wheel.name.split("-")[0]) == canonical(component["name"])
            ),
        ]
    return bill


def licences(component: dict[str, Any]) -> list[str]:
    """What a component's licences are called."""
    found = component.get("licenses", [])
    return [one.get("expression") or one["license"].get("id") or one["license"].get("name") for one in found]


def wrong_with(bill: dict[str, Any], site: pathlib.Path, version: str) -> Iterator[str]:
    """Where a bill of materials is not that of a directory of modules, or tells too little."""
    listed = {canonical(one["name"]): one["version"] for one in bill["components"]}
    there = {name: number for name, number in carried(site).items() if name != "arcacct"}
    root = bill["metadata"]["component"]
    listed.pop("arcacct", None)
    if listed != there:
        odd = sorted(set(listed.items()) ^ set(there.items()))
        yield f"the SBOM and the .deb differ: {odd}"
    if (root["name"], root["version"]) != ("arcacct", version):
        yield f"the SBOM is of {root['name']} {root['version']}"
    for one in bill["components"]:
        if one["name"] == "arcacct":
            continue
        if not licences(one):
            yield f"the SBOM names no licence of {one['name']}"
        if not any("hashes" in link for link in one["externalReferences"]):
            yield f"the SBOM has no digest of {one['name']}"


def invalid(bill: dict[str, Any]) -> Iterator[str]:
    """What CycloneDX's schema has against a bill: cyclonedx-py looked at it before the digests were in it."""
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415  of the extra `release`, and only for a release
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    complaint = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill))
    if complaint is not None:
        yield f"the SBOM is no CycloneDX: {complaint}"


def demo(wheel: pathlib.Path, wheels: pathlib.Path | None) -> None:
    """Install a wheel in an environment of its own, and run its demo."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        run(sys.executable, "-m", "venv", here / "venv")
        where = ["--no-index", "--find-links", wheels] if wheels else []
        run(here / "venv" / "bin" / "pip", "-q", "--disable-pip-version-check", "install", *where, wheel)
        run(here / "venv" / "bin" / "arcacct", "demo", cwd=here)


def write_sums(out: pathlib.Path) -> list[pathlib.Path]:
    """SHA256SUMS of all that is there, as `sha256sum -c` reads it, and that it does."""
    found = sorted(path for path in out.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{digest(path)}  {path.name}\n" for path in found]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=out)
    return [*found, out / "SHA256SUMS"]


def compare(one: pathlib.Path, other: pathlib.Path) -> Iterator[str]:
    """Files that a second build made otherwise."""
    digests = [{path.name: digest(path) for path in folder.iterdir()} for folder in (one, other)]
    for name in sorted({*digests[0], *digests[1]}):
        if digests[0].get(name) != digests[1].get(name):
            yield f"{name} is another one when it is built again: release nothing that cannot be built again"


def note(text: str) -> None:
    click.echo(f"release: {text}", err=True)


@click.command()
@click.option("--out", type=click.Path(path_type=pathlib.Path), help="A new directory. Default: dist/VERSION")
@click.option("--tests/--no-tests", default=True, help="Run the tests of packaging and of releases first.")
@click.option("--packages/--no-packages", default=True, help="Build .deb, .rpm and SBOM.")
@click.option("--check", is_flag=True, help="Only say whether this checkout is a release.")
def main(out: pathlib.Path | None, *, tests: bool, packages: bool, check: bool) -> None:
    """Build, verify and list the artefacts of a release."""
    found = list(complaints(ROOT))
    if found:
        raise click.ClickException("this is no release:\n" + "\n".join(f"  {one}" for one in found))
    version = version_of(ROOT)
    note(f"{version}, {run('git', '-C', ROOT, 'log', '-1', '--format=%h %cs %s').strip()}")
    if check:
        return
    out = out or ROOT / "dist" / version
    if out.exists():
        raise click.ClickException(f"{out} is there already: give another directory, or remove it")
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="arcacct-release-") as folder:
        work = pathlib.Path(folder)
        source = source_of(ROOT, work / "source")
        if tests:
            note("tests of packaging and of releases")
            run(sys.executable, "-m", "pytest", "-q", "tests/test_packaging.py", "tests/test_releases.py", cwd=source)
        wheels, fetched = None, []
        if packages:
            note("fetching what the packages carry")
            module = build_module()
            run(sys.executable, "-c", _BUILD, "build_wheel", work, cwd=source)
            (wheel,) = work.glob("arcacct-*.whl")
            wheels = work / "wheels"
            fetched = module.fetch(module.Shipped(wheel, version, "1", "amd64", module.RPM_PYTHON), wheels, None)
        for turn in ("first", "second"):
            note(f"building everything, the {turn} time")
            build(source, work / turn, wheels)
        wrong = list(compare(work / "first", work / "second"))
        if packages:
            note("listing what the packages carry")
            (package,) = (work / "first").glob("*.deb")
            site = unpacked(package, work / "unpacked")
            bill = bill_of_materials(site, fetched, source)
            wrong += [*wrong_with(bill, site, version), *invalid(bill)]
            text = json.dumps(bill, indent=2, sort_keys=True)
            (work / "first" / f"arcacct-{version}.cdx.json").write_text(f"{text}\n", encoding="utf-8")
        note("installing the wheel elsewhere and running its demo")
        (wheel,) = (work / "first").glob("arcacct-*.whl")
        demo(wheel, None)
        if wrong:
            raise click.ClickException("not released:\n" + "\n".join(f"  {one}" for one in wrong))
        shutil.copytree(work / "first", out)
    for path in write_sums(out):
        click.echo(f"{digest(path)}  {path.stat().st_size:>10,}  {path.name}")
    click.echo(
        f"\nNothing is signed, tagged or uploaded. Look at {out}, then:\n"
        f"  git tag --sign v{version} --message 'arcacct {version}'\n"
        f"  gpg --armor --detach-sign {out}/SHA256SUMS\n"
        f"and check as others will: gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum --check SHA256SUMS"
    )


if __name__ == "__main__":
    main()
