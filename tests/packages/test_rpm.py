"""The life of an installation, with the real .rpm and the real `rpm`, in a clean Debian 12 that has its Python 3.11."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import manual
import pytest
from launcher_calls import Calls
from package_hosts import CONTROL, DATABASE, LAUNCHER, NOW_EPOCH, ROOT, finished_jobs
from rpm_hosts import ON_REQUEST, SUITE, ask, files, rpm

import arcacct
from arcacct.database.connection import ACCOUNTING_SCHEMA

pytestmark = [*ON_REQUEST, pytest.mark.xdist_group("rpm")]
NOW = f"{arcacct.__version__}-2"


def test_it_works_on_a_clean_machine_and_leaves_nothing(packages, make_host) -> None:
    """Python and the package, nothing else: the demo runs; erased, each file is gone that was not there before."""
    ce = make_host(SUITE)
    before = files(ce)

    installed = rpm(ce, "-i", packages.rpm)
    assert installed.returncode == 0, installed.stdout
    assert "the next steps are in /usr/share/doc/arcacct/howto/install-packages.md" in installed.stdout
    demo = ce.run("sh", "-c", "cd /tmp && arcacct demo")

    assert "What to try next" in demo.stdout
    assert "0 errors" in ce.run("arcacct", "config", "check").stdout
    assert ce.inside(LAUNCHER).stat().st_mode & 0o777 == 0o755
    assert list(ce.inside("/opt/arcacct/current/").rglob("sweep.cpython-311.pyc"))
    assert not list(ce.inside("/etc/systemd/system").rglob("arcacct-*"))
    assert rpm(ce, "-V", "arcacct").stdout == ""

    erased = rpm(ce, "-e", "arcacct")
    assert (erased.returncode, erased.stdout) == (0, "")
    assert files(ce) == before


def test_the_life_of_an_installation(packages, make_host, tmp_path) -> None:
    """
    Recorded and published by the version before, upgraded while jobs end, taken back, forward again, and erased.

    At each moment A-REX can start the launcher, no job is lost, and none is sent twice.
    """
    corpus, jobs = finished_jobs(tmp_path)
    first, meanwhile, back = jobs[:9], jobs[9:18], jobs[18:27]
    ce = make_host(SUITE)
    before = files(ce)
    ce.become_a_ce()
    assert rpm(ce, "-i", packages.former_rpm).returncode == 0
    ce.take_into_use(first, corpus)
    configuration = ce.inside("/etc/arcacct.conf")
    edited = configuration.read_text()
    once = ce.sent()

    # The upgrade, while jobs end.
    ce.bring_jobs(meanwhile, corpus)
    with Calls(ce, meanwhile) as calls:
        upgraded = rpm(ce, "-U", packages.rpm)
    assert upgraded.returncode == 0, upgraded.stdout
    assert calls.count > len(meanwhile)
    assert "upgraded to schema" in upgraded.stdout
    assert "the launcher keeps its line fallback=/var/lib/arcacct/spool" in upgraded.stdout
    assert ce.schema() == ACCOUNTING_SCHEMA
    ce.run("arcacct", "sweep")
    ce.run("arcacct", "publish", "--now")
    assert ce.recorded() == sorted(first + meanwhile)
    assert len(ce.sent()) == len(set(ce.sent())) > len(once)
    # Of the version before nothing is left, not even what programs compiled while it went.
    assert os.readlink(ce.inside("/opt/arcacct/current")) == f"versions/{NOW}"
    assert os.listdir(ce.inside("/opt/arcacct/versions")) == [NOW]
    assert rpm(ce, "-V", "arcacct").stdout == ""

    # Back: the older program records into the spool, publishes nothing, and says how to go on.
    ce.bring_jobs(back, corpus)
    sent = ce.sent()
    unasked = rpm(ce, "-U", packages.former_rpm)
    with Calls(ce, back):
        downgraded = rpm(ce, "-U", "--oldpackage", packages.former_rpm)
    ce.told(back)
    refused = ce.does("arcacct", "publish", "--now")
    assert unasked.returncode != 0
    assert downgraded.returncode == 0, downgraded.stdout
    assert "A newer arcacct made these databases" in downgraded.stdout
    assert f"arcacct db restore {DATABASE}.before-schema-{ACCOUNTING_SCHEMA}." in downgraded.stdout
    assert refused.returncode != 0
    assert "install the arcacct that made it, or a newer one" in refused.stdout
    assert ce.sent() == sent

    # Forward again: what waited is recorded and sent, once. The same package once more changes nothing.
    for options in (("-U",), ("-U", "--replacepkgs")):
        forward = rpm(ce, *options, packages.rpm)
        assert forward.returncode == 0, forward.stdout
        assert os.listdir(ce.inside("/opt/arcacct/versions")) == [NOW]
    ce.run("arcacct", "sweep")
    ce.run("arcacct", "publish", "--now")
    assert ce.recorded() == sorted(first + meanwhile + back)
    assert len(ce.sent()) == len(set(ce.sent())) > len(sent)
    assert ce.does("arcacct", "db", "check").returncode == 0

    # Erased, when nothing calls it: what is left is the site's own.
    ce.call_out(False)
    sent = ce.sent()
    erased = rpm(ce, "-e", "arcacct")
    assert (erased.returncode, erased.stdout) == (0, "")
    assert configuration.read_text() == edited
    assert ce.recorded() == sorted(first + meanwhile + back)
    assert ce.sent() == sent
    left = {name for name in files(ce) - before if not name.startswith(("var/spool/", "var/lib/arcacct"))}
    assert left == {"etc/arc.conf", "etc/arcacct.conf"}


def test_it_is_not_erased_while_arex_calls_the_launcher(packages, make_host) -> None:
    """Refused for callouts of the configuration, and for those that A-REX was started with; nothing was changed."""
    ce = make_host(SUITE)
    ce.become_a_ce()
    assert rpm(ce, "-i", packages.rpm).returncode == 0
    before = files(ce)

    ce.call_out()
    called = rpm(ce, "-e", "arcacct")
    with ce.running_arex():
        ce.call_out(False)
        started = rpm(ce, "-e", "arcacct")
        verified = rpm(ce, "-V", "arcacct")
        left = files(ce)
        ce.told(["abcdef"])

    (shown,) = [
        block.text for block in manual.blocks(manual.read("howto/install-packages")) if "In this order" in block.text
    ]
    assert set(shown.splitlines()) <= set(called.stdout.splitlines())
    for refused in (called, started):
        assert refused.returncode != 0
        assert f"A-REX still calls {LAUNCHER}" in refused.stdout
        assert "arcacct: not removed, and nothing was changed." in refused.stdout
    assert "/etc/arc.conf:" in called.stdout
    assert "(what A-REX runs with)" not in called.stdout
    assert "(what A-REX runs with)" in started.stdout
    assert "systemctl restart arc-arex" in started.stdout
    assert (verified.returncode, verified.stdout) == (0, "")
    assert before <= left

    # By force, without a question: the launcher is left alone, and spools; and the package comes back.
    ce.call_out()
    assert rpm(ce, "-e", "--noscripts", "arcacct").returncode == 0
    assert ce.run(LAUNCHER, CONTROL, "abcdef", "FINISHED").stdout == ""
    assert rpm(ce, "-i", packages.rpm).returncode == 0
    assert rpm(ce, "-V", "arcacct").stdout == ""

    # A-REX was restarted without them.
    ce.call_out(False)
    assert rpm(ce, "-e", "arcacct").returncode == 0
    assert not ce.inside(LAUNCHER).exists()
    assert not ce.inside("/opt/arcacct").exists()


def test_from_an_environment_of_pip_to_the_package(packages, make_host, tmp_path) -> None:
    """Nothing is installed over it; moved away, as the message says, the package comes in, and no event is lost."""
    corpus, jobs = finished_jobs(tmp_path)
    ce = make_host(SUITE)
    ce.become_a_ce()
    ce.bring_jobs(jobs[:3], corpus)
    ce.run("mkdir", "-p", "/opt/arcacct/lib/python3.11/site-packages/arcacct", "/opt/arcacct/bin", "/usr/local/libexec")
    old = "/usr/local/libexec/arcacct-hook"
    shutil.copy(ROOT / "etc" / "arcacct-hook", ce.inside(old))
    before = files(ce)

    refused = rpm(ce, "-i", packages.rpm)
    assert refused.returncode != 0
    assert "/opt/arcacct is an environment that pip made" in refused.stdout
    assert files(ce) == before

    # Between the two the launcher that A-REX knows spools; afterwards the program of the package records that.
    ce.run("mv", "/opt/arcacct", "/opt/arcacct.pip")
    assert ce.run(old, CONTROL, jobs[0], "FINISHED").stdout == ""
    assert rpm(ce, "-i", packages.rpm).returncode == 0
    ce.run("arcacct", "db", "init")
    assert ce.run(old, CONTROL, jobs[1], "FINISHED").stdout == ""
    ce.run("arcacct", "sweep")
    assert ce.recorded() == jobs[:3]

    # Callouts of that launcher do not keep the package: it stays, and spools. Its own question is answered.
    ce.call_out()
    conf = ce.inside("/etc/arc.conf")
    conf.write_text(conf.read_text().replace(LAUNCHER, old))
    assert ce.does("/usr/share/arcacct/arcacct-uninstall-check", old).returncode == 1
    assert ce.does("/usr/share/arcacct/arcacct-uninstall-check", LAUNCHER).returncode == 0
    assert rpm(ce, "-e", "arcacct").returncode == 0
    assert ce.run(old, CONTROL, jobs[2], "FINISHED").stdout == ""


def test_what_the_package_says_of_itself(packages, tmp_path) -> None:
    """It needs EL 9's glibc and its second Python and what its scriptlets call; unpacked, all it lists is there."""
    needs = ask(packages.rpm, "-q", "--requires")
    assert {"/usr/bin/python3.11", "/bin/sh", "glibc >= 2.34", "util-linux"} <= set(needs)
    pages = ask(packages.rpm, "-q", "--docfiles")
    assert {"/usr/share/man/man1/arcacct.1.gz", "/usr/share/doc/arcacct/howto/install.md"} <= set(pages)

    unpacked = f"rpm2cpio '{packages.rpm}' | cpio -idm --quiet"
    subprocess.run(["sh", "-c", unpacked], cwd=tmp_path, check=True)
    listed = set(ask(packages.rpm, "-q", "--list"))
    found = {f"/{path.relative_to(tmp_path)}" for path in tmp_path.rglob("*")}
    assert listed <= found
    assert os.readlink(tmp_path / "opt/arcacct/bin/python3") == "/usr/bin/python3.11"
    # What is not listed is a directory of the distribution's.
    assert {name for name in found - listed if not (tmp_path / name[1:]).is_dir()} == set()


def test_the_same_source_gives_the_same_packages(packages, tmp_path) -> None:
    """With another umask, in another zone and language, from another directory: the same bytes."""
    source = tmp_path / "elsewhere"
    rest = shutil.ignore_patterns(".*", "__pycache__", "*venv*", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, source, ignore=rest, copy_function=shutil.copy)
    for path in source.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
    build = [sys.executable, source / "packaging" / "build.py", "--out", tmp_path / "out", "--release", "2"]
    environment = {"SOURCE_DATE_EPOCH": str(NOW_EPOCH), "TZ": "NST3:30", "LC_ALL": "tr_TR.UTF-8"}
    done = subprocess.run(
        build,
        cwd=tmp_path,
        umask=0o077,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )

    deb, other_rpm = map(pathlib.Path, done.stdout.split())
    assert deb.read_bytes() == packages.deb.read_bytes()
    assert other_rpm.read_bytes() == packages.rpm.read_bytes()
