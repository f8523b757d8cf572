"""The life of an installation, with the real .deb in clean Debian 12 and 13."""

from __future__ import annotations

import os
import re

import pytest
from launcher_calls import Calls
from package_hosts import CONF, CONTROL, DATABASE, FORMER_SCHEMA, LAUNCHER, ON_REQUEST, TARGET, finished_jobs

import arcacct
from arcacct.database.connection import ACCOUNTING_SCHEMA

pytestmark = ON_REQUEST
SUITES = [
    pytest.param("bookworm", marks=pytest.mark.xdist_group("bookworm")),
    pytest.param("trixie", marks=pytest.mark.xdist_group("trixie")),
]


@pytest.mark.parametrize("suite", SUITES)
def test_it_works_on_a_clean_machine_and_leaves_nothing(packages, make_host, suite) -> None:
    """Python and the package, nothing else: the demo runs; purged, each file is gone that was not there before."""
    ce = make_host(suite)
    before = ce.files()

    installed = ce.dpkg("-i", packages.deb)
    assert installed.returncode == 0, installed.stdout
    demo = ce.run("sh", "-c", "cd /tmp && arcacct demo")

    assert "What to try next" in demo.stdout
    # What a program imports late is of its own version, whatever `current` leads to by then.
    traceback = ce.does("arcacct", "--debug", "query", "SELEC").stdout
    assert f"/opt/arcacct/versions/{arcacct.__version__}-2/site-packages/arcacct/cli" in traceback
    assert "0 errors" in ce.run("arcacct", "config", "check").stdout
    assert ce.inside(LAUNCHER).stat().st_mode & 0o777 == 0o755
    assert list(ce.inside("/opt/arcacct/current/").rglob("sweep.cpython-*.pyc"))
    units = {path.name for path in ce.inside("/usr/lib/systemd/system").glob("arcacct-*")}
    assert {"arcacct-sweep.timer", "arcacct-publish.service", "arcacct-recorder.service"} <= units
    assert not list(ce.inside("/etc/systemd/system").rglob("arcacct-*"))

    purged = ce.dpkg("--purge", "arcacct")
    assert purged.returncode == 0, purged.stdout
    assert ce.files() == before


@pytest.mark.parametrize("suite", SUITES)
def test_the_life_of_an_installation(packages, make_host, suite, tmp_path) -> None:
    """
    Recorded and published by the version before, upgraded while jobs end, taken back, and forward again.

    At each moment A-REX can start the launcher, no job is lost, and none is sent twice.
    """
    corpus, jobs = finished_jobs(tmp_path)
    first, meanwhile, back = jobs[:9], jobs[9:18], jobs[18:27]
    ce = make_host(suite)
    ce.become_a_ce()
    ce.dpkg("-i", packages.former_deb).check_returncode()
    ce.take_into_use(first, corpus)
    configuration = ce.inside("/etc/arcacct.conf")
    once = ce.sent()

    # The upgrade, while jobs end.
    ce.bring_jobs(meanwhile, corpus)
    with Calls(ce, meanwhile) as calls:
        upgraded = ce.dpkg("-i", packages.deb)
    assert upgraded.returncode == 0, upgraded.stdout
    assert calls.count > len(meanwhile)
    assert "warning" not in upgraded.stdout, upgraded.stdout
    assert "upgraded to schema" in upgraded.stdout
    assert "the launcher keeps its line fallback=/var/lib/arcacct/spool" in upgraded.stdout
    assert ce.schema() == ACCOUNTING_SCHEMA
    ce.run("arcacct", "sweep")
    ce.run("arcacct", "publish", "--now")
    assert ce.recorded() == sorted(first + meanwhile)
    assert len(ce.sent()) == len(set(ce.sent())) > len(once)
    assert configuration.read_text().endswith(TARGET)
    # Of the version before nothing is left, not even what programs compiled while it went.
    assert os.readlink(ce.inside("/opt/arcacct/current")) == f"versions/{arcacct.__version__}-2"
    assert [path.name for path in ce.inside("/opt/arcacct/versions").iterdir()] == [f"{arcacct.__version__}-2"]

    # Back: the older program records into the spool, publishes nothing, and says how to go on.
    ce.bring_jobs(back, corpus)
    sent = ce.sent()
    with Calls(ce, back):
        downgraded = ce.dpkg("-i", packages.former_deb)
    ce.told(back)
    refused = ce.does("arcacct", "publish", "--now")
    assert downgraded.returncode == 0, downgraded.stdout
    assert "A newer arcacct made these databases" in downgraded.stdout
    assert f"arcacct db restore {DATABASE}.before-schema-{ACCOUNTING_SCHEMA}." in downgraded.stdout, downgraded.stdout
    assert refused.returncode != 0
    assert "install the arcacct that made it, or a newer one" in refused.stdout
    assert ce.sent() == sent

    # Forward again: what waited is recorded and sent, once.
    assert ce.dpkg("-i", packages.deb).returncode == 0
    ce.run("arcacct", "sweep")
    ce.run("arcacct", "publish", "--now")
    assert ce.recorded() == sorted(first + meanwhile + back)
    assert len(ce.sent()) == len(set(ce.sent())) > len(sent)
    assert ce.does("arcacct", "db", "check").returncode == 0


def test_the_way_back_to_the_version_before(packages, make_host, tmp_path) -> None:
    """As the package says: the copies from before the upgrade are restored, and what came since is recorded again."""
    corpus, jobs = finished_jobs(tmp_path)
    first, since = jobs[:6], jobs[6:12]
    ce = make_host("bookworm")
    ce.become_a_ce()
    ce.dpkg("-i", packages.former_deb).check_returncode()
    ce.run("arcacct", "db", "init")
    ce.bring_jobs(first, corpus)
    ce.told(first)
    ce.dpkg("-i", packages.deb).check_returncode()
    ce.bring_jobs(since, corpus)
    ce.told(since)
    ce.run("arcacct", "sweep")
    assert ce.recorded() == sorted(first + since)

    said = ce.dpkg("-i", packages.former_deb).stdout
    # 0.2.0 names accounting.db first, and says that it is restored last.
    copies = sorted(re.findall(r"arcacct db restore (\S+)", said), reverse=True)
    assert [path.partition(".db.")[0].rpartition("/")[2] for path in copies] == ["publishing", "accounting"], said
    for copy in copies:
        ce.run("arcacct", "db", "restore", "--yes", copy)
    ce.run("arcacct", "sweep")

    assert ce.schema() == FORMER_SCHEMA
    assert ce.recorded() == sorted(first + since)
    assert ce.does("arcacct", "db", "check").returncode == 0


def test_a_launcher_that_is_called_is_not_removed(packages, make_host) -> None:
    """
    Neither while the configuration names it, nor while an A-REX runs that was started when it did.

    By force it is left alone where it is, and spools; purged when nothing calls it, all is gone but the records.
    """
    ce = make_host("bookworm")
    ce.become_a_ce()
    ce.dpkg("-i", packages.deb).check_returncode()
    ce.run("arcacct", "db", "init")
    ce.call_out()
    listed = ce.run("dpkg", "-L", "arcacct").stdout

    refused = ce.dpkg("--remove", "arcacct")

    assert refused.returncode != 0
    assert f"/etc/arc.conf: statecallout in lines {len(CONF.splitlines()) + 1} " in refused.stdout
    assert refused.stdout.count("statecallout") == 1, refused.stdout
    assert "restart A-REX" in refused.stdout
    assert ce.run("dpkg-query", "-W", "-f", "${db:Status-Status}", "arcacct").stdout == "installed"
    assert ce.run("dpkg", "-L", "arcacct").stdout == listed
    assert ce.does("dpkg", "--verify", "arcacct").stdout == ""
    assert ce.run("arcacct", "config", "check")

    # The lines are gone, and A-REX runs as it was started.
    with ce.running_arex():
        ce.call_out(yes=False)
        again = ce.dpkg("--remove", "arcacct")

    assert again.returncode != 0
    assert "what A-REX runs with" in again.stdout
    assert ce.does("dpkg", "--verify", "arcacct").stdout == ""

    # Restarted: now it goes, and takes neither records nor configuration with it.
    records = ce.recorded()
    removed = ce.dpkg("--remove", "arcacct")
    assert removed.returncode == 0, removed.stdout
    assert not ce.inside(LAUNCHER).exists()
    assert not ce.inside("/opt/arcacct").exists()
    assert ce.inside("/etc/arcacct.conf").exists()
    assert ce.recorded() == records
    assert ce.dpkg("--purge", "arcacct").returncode == 0
    assert not ce.inside("/etc/arcacct.conf").exists()
    assert ce.recorded() == records


def test_a_launcher_that_is_removed_by_force_works_alone(packages, make_host, tmp_path) -> None:
    """Whoever takes the package away in spite of all: no job fails, and no event is lost."""
    corpus, jobs = finished_jobs(tmp_path)
    ce = make_host("trixie")
    ce.become_a_ce()
    ce.dpkg("-i", packages.deb).check_returncode()
    ce.run("arcacct", "db", "init")
    ce.call_out()
    ce.bring_jobs(jobs[:5], corpus)

    # What stands in the way of dpkg is taken out of it.
    ce.inside("/var/lib/dpkg/info/arcacct.prerm").unlink()
    with Calls(ce, jobs[:5]):
        removed = ce.dpkg("--remove", "arcacct")
    ce.told(jobs[:5])

    assert removed.returncode == 0, removed.stdout
    assert f"{LAUNCHER} was left where it is" in removed.stdout
    assert not ce.inside("/opt/arcacct/bin").exists()
    assert ce.dpkg("-i", packages.deb).returncode == 0
    ce.run("arcacct", "sweep")
    assert ce.recorded() == jobs[:5]


def test_an_environment_of_pip_is_not_overwritten(packages, make_host) -> None:
    """The package says what is in its way and changes nothing; once that was moved aside it is installed."""
    ce = make_host("bookworm")
    ce.become_a_ce()
    made_by_pip = ce.inside("/opt/arcacct/lib/python3.11/site-packages/arcacct")
    made_by_pip.mkdir(parents=True)

    refused = ce.dpkg("-i", packages.deb)

    assert refused.returncode != 0
    assert "mv /opt/arcacct /opt/arcacct.pip" in refused.stdout
    assert made_by_pip.is_dir()
    assert not ce.inside("/opt/arcacct/bin").exists()
    ce.run("mv", "/opt/arcacct", "/opt/arcacct.pip")
    assert ce.dpkg("-i", packages.deb).returncode == 0
    assert "0 errors" in ce.run("arcacct", "config", "check").stdout


def test_databases_of_another_user_stay_his(packages, make_host, tmp_path) -> None:
    """Where A-REX does not run as root, an upgrade makes no file that its recorder cannot write."""
    corpus, jobs = finished_jobs(tmp_path)
    ce = make_host("trixie")
    ce.run("useradd", "--system", "grid")
    ce.become_a_ce(user="grid")
    ce.dpkg("-i", packages.former_deb).check_returncode()
    ce.run("runuser", "-u", "grid", "--", "arcacct", "db", "init")
    ce.bring_jobs(jobs[:3], corpus)
    ce.run("chown", "-R", "grid", CONTROL)

    upgraded = ce.dpkg("-i", packages.deb)
    ce.run("runuser", "-u", "grid", "--", "arcacct", "sweep")

    assert "upgraded to schema" in upgraded.stdout
    assert ce.recorded() == jobs[:3]
    owners = ce.run("find", f"{CONTROL}/accounting", "-printf", "%u\n").stdout.split()
    assert set(owners) == {"grid"}
