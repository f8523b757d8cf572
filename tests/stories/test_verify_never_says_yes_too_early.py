"""`verify` says yes, NO or unknown, and never yes without what is not sent on purpose."""

from __future__ import annotations

import json
import pathlib
import time

import pytest
from installed import arcacct
from publishing_site import CARS, SUMMARIES, Site, jobs

from arcacct.database import access
from arcacct.times import month_name, month_of

NOW = int(time.time())
THIS = month_name(month_of(NOW - 60))


def command(site: Site, *words: str) -> str:
    """What a command prints, on stdout and stderr."""
    done = arcacct("--config", str(site.path / "arc.conf"), *words)
    return done.stdout + done.stderr


def places(site: Site, month: str) -> dict[str, dict[str, object]]:
    """The places of `verify`, by name."""
    done = arcacct("--config", str(site.path / "arc.conf"), "verify", month, "--format", "json")
    return {one["name"]: one for one in json.loads(done.stdout)["sources"]}


@pytest.mark.parametrize("messages", [SUMMARIES, CARS], ids=["summaries", "cars"])
def test_what_the_filter_leaves_out_is_said(tmp_path, empty_box, messages) -> None:
    """The VO was renamed, the filter was not: half of the jobs never go out, and every command says so."""
    site = Site(tmp_path, empty_box, f"{messages}vofilter=atlas\n")
    site.record(*[job._replace(end_time=NOW - 60) for job in jobs(6)])
    site.record(*[job._replace(end_time=NOW - 60) for job in jobs(6, 6, vo="atlas-new", fqan="/atlas-new")])

    sent = command(site, "publish", "--now", "--since", "2000-01-01")
    assert "apel:a: 6 jobs of the current and the previous month not selected by vofilter" in sent
    assert "6 jobs of the current and the previous month not selected by vofilter" in command(site, "status")
    told = command(site, "verify", THIS)
    assert "6 not selected by vofilter" in told
    for name, place in places(site, THIS).items():
        assert (name.startswith("apel:a"), place["not_selected"]) in {(True, 6), (False, 0)}
    for line in told.splitlines():
        if line.startswith("apel:a") and " yes" in line:
            assert "yes, 6 not selected by vofilter" in line


def test_without_a_filter_nothing_is_left_out(tmp_path, empty_box) -> None:
    """Nor is anything said of it."""
    site = Site(tmp_path, empty_box, CARS)
    site.record(*[job._replace(end_time=NOW - 60) for job in jobs(3)])

    for words in (("publish", "--now", "--since", "2000-01-01"), ("status",), ("verify", THIS)):
        assert "not selected" not in command(site, *words)


def test_a_month_that_was_accepted_blindly_is_unknown(tmp_path, empty_box) -> None:
    """Both databases were restored: what APEL has besides only the portal can tell, and verify says how to ask it."""
    site = Site(tmp_path, empty_box, SUMMARIES)
    site.send(*[job._replace(end_time=NOW - 60) for job in jobs(3)])
    con = access.open_publishing(site.settings.places)
    con.execute(
        "INSERT INTO TargetMonths (Target, Year, Month, UncertainSince, Answered) VALUES ('', ?, ?, 1, 2)",
        month_of(NOW - 60),
    )
    con.close()

    done = arcacct("--config", str(site.path / "arc.conf"), "verify", THIS)
    assert done.returncode == 1
    assert "unknown until compared with the portal" in done.stdout
    assert f"arcacct verify {THIS} --portal FILE" in done.stdout
    lines = [line for line in done.stdout.splitlines() if line.startswith("apel:a")]
    assert sum(" unknown " in line and "until" not in line for line in lines) == 2
    assert not any(" NO " in line or " yes" in line for line in lines)

    title = "Sum of jobs (SITE)"
    export = pathlib.Path(tmp_path / "jobs.csv")
    export.write_text(f'"{title}"\n"VO","{_portal_month()}","Total"\n"atlas","3","3"\n"Total","3","3"\n')
    settled = arcacct("--config", str(site.path / "arc.conf"), "verify", THIS, "--portal", str(export))
    assert "unknown" not in settled.stdout


def _portal_month() -> str:
    return time.strftime("%b %Y", time.gmtime(NOW - 60))
