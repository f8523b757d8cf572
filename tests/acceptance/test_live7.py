"""
Beside a real A-REX 7: what we record of X.509, VOMS and token jobs is what A-REX itself records.

Runs on request, as root, on any Linux with debootstrap; all that is installed, and A-REX itself, is in a root below
/var/tmp/arcacct-live (or $ARCACCT_LIVE_ROOTS), which the next run finds again:

    ARCACCT_LIVE=1 venv/bin/pytest -n 0 tests/acceptance/test_live7.py
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import NamedTuple

import arex_corpus as corpus
import debian_root
import live_arex
import live_arex7
import pytest
from live_arex7 import LiveCE7

pytestmark = live_arex7.ON_REQUEST

RULES = """\
[arex]
authtokenmap=sub:user,wlcg.groups:group

[arex/jura]
vomsless_vo=general
vomsless_vo=nobodys lost
vomsless_vo=tokens dteam#/DC=org/DC=example/CN=voms server
vomsless_vo=everybody
"""
"""Which VO a job without VOMS has, and which claims are kept: for the jobs whose names begin with `rules`."""
WAITING = '&(executable=/bin/sh)(arguments="-c" "until test -e {}/go; do sleep 1; done")'
AUTHENTICATED = ("x509", "voms", "production", "token", "groups")
THROUGH = ("through", "through-groups")
"""Jobs that A-REX accepted before it knew `RULES` and that ended afterwards."""
NAMES = (*live_arex.JOBS, *AUTHENTICATED, *THROUGH, *(f"rules-{name}" for name in AUTHENTICATED))
VO_COLUMN = 5


class Lived(NamedTuple):
    """What is left when A-REX has stopped."""

    way: str
    ce: LiveCE7
    jobs: dict[str, str]
    """Job ids by name."""
    recorded: list[str]
    """The jobs that were recorded before the last sweep."""
    said: dict[str, subprocess.CompletedProcess[str]]
    """What our commands said afterwards, in this order."""
    theirs: sqlite3.Connection
    ours: sqlite3.Connection
    """As the spool's events left it."""


@pytest.fixture(scope="module", params=live_arex.WAYS)
def lived(request: pytest.FixtureRequest) -> Iterator[Lived]:
    """All jobs have run, the last ones under `RULES`; one ran through A-REX's restart between them."""
    root = debian_root.debian_root(live_arex7.SUITE, live_arex7.PACKAGES)
    try:
        ce = live_arex7.LiveCE7(root)
        ce.prepare()
        jobs = {name: live_arex.id_of(url) for name, url in _live(ce, request.param).items()}
        copies = ce.home / "copies"
        accounting = ce.control / "accounting"
        drained = ce.arcacct("sweep") if request.param == "sweep" else None
        theirs = live_arex.copy_of(accounting / "accounting_v2.db", copies / "accounting_v2.db")
        ours = live_arex.copy_of(accounting / "arcacct" / "accounting.db", copies / "accounting.db")
        said = {
            name: ce.arcacct(*command)
            for name, command in {
                "sweep": ("sweep",),
                "import": ("import", "arex"),
                "again": ("sweep",),
                "check": ("config", "check"),
                "stats": ("stats", "--filter-vo", "dteam", "--by", "vo", "--format", "json"),
            }.items()
        }
        with closing(sqlite3.connect(theirs)) as first, closing(sqlite3.connect(ours)) as second:
            recorded = [str(job_id) for (job_id,) in second.execute("SELECT JobID FROM AAR")]
            if drained is not None:
                said["sweep"] = drained
            yield Lived(request.param, ce, jobs, recorded, said, first, second)
    finally:
        root.end_processes()


def _live(ce: LiveCE7, way: str) -> dict[str, str]:
    """Every job from its submission to its end; returns the URLs by name."""
    storage = live_arex.Storage()
    storage.refused.add("/put/refused")
    with storage.running(), ce.recorded(way, live_arex7.ARCACCT):
        with ce.running():
            ce.arcacct("db", "init")
            urls = live_arex.live(ce, storage) | _submit_with_each_credential(ce, "")
            through = {
                name: ce.submit(name, WAITING.format(ce.seen(ce.home)), **environment)
                for name, environment in {"through": {}, "through-groups": _with_groups(ce)}.items()
            }
            live_arex.ended(ce, urls)
            for url in through.values():
                live_arex.wait_for(lambda url=url: ce.state(url) == "INLRMS", 60, "it runs")  # type: ignore[misc]
        if way == "sweep":
            # The rules count that a site has when the event is recorded.
            ce.arcacct("sweep")
        ce.configure("60-vo.conf", RULES)
        with ce.running():
            (ce.home / "go").touch()
            urls |= through | _submit_with_each_credential(ce, "rules-")
            live_arex.ended(ce, urls)
    return urls


def _submit_with_each_credential(ce: LiveCE7, prefix: str) -> dict[str, str]:
    credentials = {
        "x509": {},
        "voms": ce.voms_proxy("/atlas/Role=NULL/Capability=NULL"),
        "production": ce.voms_proxy("/atlas/Role=production/Capability=NULL", "/atlas/Role=NULL/Capability=NULL"),
        "token": ce.token("tom"),
        "groups": _with_groups(ce),
    }
    return {
        f"{prefix}{name}": ce.submit(f"{prefix}{name}", f'&(executable=/bin/true)(jobname="{name}")', **environment)
        for name, environment in credentials.items()
    }


def _with_groups(ce: LiveCE7) -> dict[str, str]:
    return ce.token("gro'a", email="groa@example.org", **{"wlcg.groups": ["/atlas/production", "/atlas"]})


def test_every_event_came_by_the_spool(lived: Lived) -> None:
    """The recorder, or the sweep, found the events of every job there; none was unusable."""
    swept = lived.said["sweep"]
    by_recorder = lived.way == "recorder"
    spooled = lived.ce.left_to_recorder() if by_recorder else int(swept.stdout.partition(" ")[0])
    since = lived.jobs if by_recorder else [name for name in lived.jobs if name.startswith("rules-")]

    assert sorted(lived.recorded) == sorted(lived.jobs.values())
    assert spooled >= 4 * len(since)
    assert swept.stdout.rstrip().endswith(", 0 recorded")
    assert swept.stderr == ""


@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_what_arex_wrote(lived: Lived, name: str) -> None:
    """Every column of AAR, names resolved; A-REX 7.0 takes the issuer of a VO for a part of its name."""
    ours, theirs = (list(corpus.records(con)[lived.jobs[name]]) for con in (lived.ours, lived.theirs))
    theirs[VO_COLUMN] = str(theirs[VO_COLUMN]).partition("%23")[0]
    if name in THROUGH:
        del ours[VO_COLUMN], theirs[VO_COLUMN]

    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_the_children_are_what_arex_wrote(lived: Lived, name: str) -> None:
    """Every row of every child table but the events; of a resumed job A-REX has some of them twice."""
    job_id = lived.jobs[name]
    left_out = {"JobEvents", "AuthTokenAttributes"} if name in THROUGH else {"JobEvents"}
    for table in [table for table in corpus.CHILDREN if table not in left_out]:
        ours, theirs = corpus.children(lived.ours, table)[job_id], _in_version_1(lived.theirs, table, job_id)

        assert sorted(set(ours), key=repr) == sorted(set(theirs), key=repr), table
        assert len(ours) == len(set(ours)), table


def _in_version_1(theirs: sqlite3.Connection, table: str, job_id: str) -> list[tuple[object, ...]]:
    """A-REX's rows; its columns for the first FQAN and the benchmark as rows, as A-REX 6 had them."""
    rows = corpus.children(theirs, table)[job_id]
    fqan, benchmark = theirs.execute(
        "SELECT FQANs.Name, Benchmarks.Name FROM AAR JOIN FQANs ON FQANs.ID = FQANID"
        " JOIN Benchmarks ON Benchmarks.ID = BenchmarkID WHERE JobID = ?",
        (job_id,),
    ).fetchone()
    if table == "JobExtraInfo" and benchmark:
        rows.append(("benchmark", benchmark))
    if table == "AuthTokenAttributes" and fqan:
        rows[rows.index(("vomsfqan", fqan))] = ("mainfqan", fqan)
    return rows


@pytest.mark.parametrize("name", NAMES)
def test_the_events_are_what_arex_wrote(lived: Lived, name: str) -> None:
    """Each event of a state with a callout, INLRMS too; A-REX takes the time after it, so ours is never later."""
    job_id = lived.jobs[name]
    ours, theirs = (corpus.children(con, "JobEvents")[job_id] for con in (lived.ours, lived.theirs))
    wanted = [row for row in theirs if row[0] != "CANCELING"]
    if name == "resumed":
        # On its way from FINISHED back to FINISHING it is INLRMS for an instant, without a callout.
        wanted.remove([row for row in wanted if row[0] == "INLRMS"][1])

    for key, when in wanted:
        behind = [_seconds(when) - _seconds(other) for event, other in ours if event == key]
        assert any(0 <= seconds <= 2 for seconds in behind), (key, when, ours)
    # A sweep of the recorder may see it.
    assert {row[0] for row in ours} - {"CANCELING"} == {row[0] for row in wanted}


def _seconds(text: object) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


@pytest.mark.parametrize(
    ("name", "vo"),
    [
        ("x509", ""),
        ("token", ""),
        ("groups", ""),
        ("voms", "atlas"),
        ("rules-x509", "everybody"),
        ("rules-voms", "atlas"),
        ("rules-production", "atlas"),
        ("rules-token", "dteam"),
        ("rules-groups", "dteam"),
    ],
)
def test_the_vo_is_the_one_of_the_rules(lived: Lived, name: str, vo: str) -> None:
    """A line with an authgroup goes before those without, of which the last holds."""
    assert corpus.records(lived.ours)[lived.jobs[name]][VO_COLUMN] == vo


def test_the_rules_at_the_end_of_a_job_count(lived: Lived) -> None:
    """A-REX keeps what it found when it accepted the job, and says nothing of rules that came later."""
    ours, theirs = corpus.records(lived.ours), corpus.records(lived.theirs)
    vos = [(ours[lived.jobs[name]][VO_COLUMN], theirs[lived.jobs[name]][VO_COLUMN]) for name in THROUGH]
    claims = [
        {key for key, _ in corpus.children(con, "AuthTokenAttributes")[lived.jobs["through-groups"]]}
        for con in (lived.ours, lived.theirs)
    ]

    assert vos == [("everybody", ""), ("dteam", "")]
    assert claims == [{"group", "user"}, {"email", "name", "username"}]


def test_only_the_claims_of_authtokenmap_are_kept(lived: Lived) -> None:
    """ARC's default first, then what the site said in arc.conf.d."""
    attributes = corpus.children(lived.ours, "AuthTokenAttributes")

    assert sorted(attributes[lived.jobs["groups"]]) == [
        ("email", "groa@example.org"),
        ("name", "gro%27a"),
        ("username", "gro%27a"),
    ]
    assert sorted(attributes[lived.jobs["rules-groups"]]) == [
        ("group", "/atlas"),
        ("group", "/atlas/production"),
        ("user", "gro%27a"),
    ]
    assert attributes[lived.jobs["rules-token"]] == [("user", "tom")]


def test_no_callout_failed(lived: Lived) -> None:
    """A-REX neither waited for one nor took one for a failure."""
    log = (lived.ce.home / "arex.log").read_text(errors="replace")

    assert "State: FINISHED" in log
    assert not re.search(r"Plugin at state .* : (TIMEOUT|FAILED)", log)


def test_a_second_sweep_changes_nothing(lived: Lived) -> None:
    """What is recorded of the live directory is complete."""
    assert lived.said["again"].stdout.rstrip().endswith(" 0 recorded")


def test_the_import_finds_no_other_difference(lived: Lived) -> None:
    """Of accounting_v2.db and of the control directory come the same rows, save claims that were mapped otherwise."""
    *differing, count = lived.said["import"].stderr.splitlines()

    assert f" {len(lived.jobs)} records read, 0 jobs added, 0 changed," in lived.said["import"].stdout
    assert [line.partition(" has ")[0] for line in differing] == [
        f"{lived.jobs['through-groups']}: AuthTokenAttributes"
    ]
    assert count == "1 job have other values here, which stay unchanged"


def test_the_vo_can_be_asked_for(lived: Lived) -> None:
    """`stats --filter-vo` knows jobs whose VO is no credential's."""
    (row,) = json.loads(lived.said["stats"].stdout)

    assert (row["vo"], row["jobs"]) == ("dteam", len(("rules-token", "rules-groups", "through-groups")))


def test_the_configuration_is_as_the_manual_wants_it(lived: Lived) -> None:
    """Nothing against the callouts; of the lines `vomsless_vo` the two that were written to be wrong."""
    said = lived.said["check"]

    assert said.stderr.endswith(": 0 errors, 2 warnings\n"), said
    assert "names authgroup 'nobodys', which does not exist" in said.stdout
    assert "replaces line" in said.stdout
