"""The VO of jobs without VOMS attributes: chosen when they were recorded, or by rules of the target's own."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from installed import arcacct
from publishing_site import CARS, JUNE, SGAS, SUMMARIES, Job, Site

BARE = Job("bare", JUNE, vo="", fqan="")
TOKEN = Job("token", JUNE + 1, vo="", fqan="", auth_groups=("tokens", "everybody"))
OTHER = Job("other", JUNE + 2, vo="", fqan="", auth_groups=("everybody",))
RECORDED = Job("recorded", JUNE + 3, vo="site", fqan="", auth_groups=("tokens", "everybody"))
CLAIMED = Job("claimed", JUNE + 4, vo="bio", fqan="")
VOMS = Job("voms", JUNE + 5)
JOBS = (BARE, TOKEN, OTHER, RECORDED, CLAIMED, VOMS)
ONE_AUTHGROUP = "vomsless_vo=tokens dteam#/DC=org/CN=voms dteam\n"
BOTH_FORMS = ONE_AUTHGROUP + "vomsless_vo=rest\n"
SITE = "[arex/jura]\nvomsless_vo=tokens site#/DC=org/CN=voms site\n"

UNKNOWN = "None"
"""As APEL keeps a VO that it was not told."""
CASES = pytest.mark.parametrize(
    ("conf", "own", "vos"),
    [
        pytest.param("", "", (None, None, None, "site", "bio", "atlas"), id="no rule"),
        pytest.param("", ONE_AUTHGROUP, (None, "dteam", None, "dteam", "bio", "atlas"), id="authgroup"),
        pytest.param("", BOTH_FORMS, ("rest", "dteam", "rest", "dteam", "bio", "atlas"), id="both forms"),
        pytest.param(SITE, "", (None, "site", None, "site", "bio", "atlas"), id="of the site"),
        pytest.param(SITE, BOTH_FORMS, ("rest", "dteam", "rest", "dteam", "bio", "atlas"), id="target before site"),
        pytest.param(
            "[arex/jura]\nvomsless_vo=new\n", "", ("new", "new", "new", "site", "bio", "atlas"), id="site changed"
        ),
    ],
)
"""The VO of each of JOBS: no rule, authgroup, another, by the site's rule of then, by a claim, by VOMS."""


def by_job(jobs, vos) -> dict[str, str | None]:
    """The VO of each job by its id in the batch system."""
    return {job.lrms_id: vo for job, vo in zip(jobs, vos, strict=True)}


@CASES
def test_the_vo_at_sgas(memory, empty_box, conf, own, vos) -> None:
    """Name and issuer of the VO in usage records."""
    site = Site(memory, empty_box, f"{conf}{SGAS}{own}")
    site.record(*JOBS)

    assert [one.error for one in site.publish_all()] == [None]

    rows = empty_box.sgas.records.values()
    assert {f"4{row.global_job_id}": row.vo_name for row in rows} == by_job(JOBS, vos)
    issuers = {row.vo_name: row.vo_issuer for row in rows if row.vo_name in ("dteam", "site")}
    if "site" in vos and conf == SITE:
        assert issuers["site"] == "/DC=org/CN=voms site"
    if "dteam" in vos:
        assert issuers["dteam"] == "/DC=org/CN=voms dteam"


@CASES
@pytest.mark.parametrize("family", ["urs", "individual"])
def test_the_vo_of_a_job_at_apel(memory, empty_box, family, conf, own, vos) -> None:
    """In records of jobs."""
    site = Site(memory, empty_box, conf + CARS.replace("=urs", f"={family}") + own)
    site.record(*JOBS)

    assert [one.error for one in site.publish_all()] == [None]

    vos = [vo or UNKNOWN for vo in vos]
    assert {row["LocalJobId"]: row["VO"] for row in empty_box.apel.job_records.values()} == by_job(JOBS, vos)


@CASES
def test_the_vo_of_sums(memory, empty_box, conf, own, vos) -> None:
    """Sums are by VO, and each job is in one of them."""
    site = Site(memory, empty_box, conf + SUMMARIES + own)
    site.record(*JOBS)

    assert [one.error for one in site.publish_all()] == [None]

    counts: dict[str | None, int] = {}
    for row in empty_box.apel.hybrid.values():
        counts[row["VO"]] = counts.get(row["VO"], 0) + row["NumberOfJobs"]
    assert counts == {vo or UNKNOWN: vos.count(vo) for vo in vos}


def test_two_targets_have_rules_of_their_own(memory, empty_box) -> None:
    """What one target calls a job is nothing to the other."""
    site = Site(memory, empty_box, f"{SGAS}vomsless_vo=tokens one\n{CARS}vomsless_vo=tokens two\n")
    site.record(TOKEN)

    assert [one.error for one in site.publish_all()] == [None, None]

    assert [row.vo_name for row in empty_box.sgas.records.values()] == ["one"]
    assert [row["VO"] for row in empty_box.apel.job_records.values()] == ["two"]


def test_the_sums_stay_when_the_program_chooses_the_vo_earlier(memory, empty_box) -> None:
    """Jobs that were recorded without a VO and published by the site's rule, and jobs that got it at once: one sum."""
    site = Site(memory, empty_box, f"[arex/jura]\nvomsless_vo=site\n{SUMMARIES}")
    site.send(BARE)

    site.send(Job("next", JUNE + 60, vo="site", fqan="", auth_groups=("everybody",)))

    assert [(row["VO"], row["NumberOfJobs"]) for row in empty_box.apel.hybrid.values()] == [("site", 2)]


LOCAL = Job("local", JUNE + 6, endpoint_url="")


@pytest.mark.parametrize("kind", ["urs", "summaries"])
@pytest.mark.parametrize(
    "own", ["", BOTH_FORMS, "vofilter=atlas\nvofilter=bio\n"], ids=["no rule", "both forms", "vofilter"]
)
def test_verify_knows_the_vos_of_the_portal(memory, empty_box, kind, own) -> None:
    """An export of everything that arrived agrees; of one without a VO's jobs, only this VO differs."""
    site = Site(memory, empty_box, CARS.replace("=urs", f"={kind}") + own, local_group_prefix="ce-")
    site.record(*JOBS, LOCAL)
    assert [one.error for one in site.publish_all()] == [None]
    vos = Counter[str]()
    for row in empty_box.apel.hybrid.values():
        vos[str(row["VO"])] += row["NumberOfJobs"]

    def rows_of_portal(*without: str) -> tuple[list[dict], list[str]]:
        path = memory / "portal.csv"
        lines = [f"{vo},{jobs}\n" for vo, jobs in vos.items() if vo not in without]
        path.write_text("".join(["VO,Jun 2024\n", *lines]))
        done = arcacct("--config", site.path / "arc.conf", "verify", "2024-06", "--portal", path, "--format", "json")
        report = json.loads(done.stdout)
        assert ("Exit", done.returncode) == ("Exit", 0 if report["agrees"] else 1)
        texts = [one["text"] for one in report["differences"] if one["source"] == "portal jobs"]
        return report["portals"]["portal jobs"], texts

    unselected = {row["vo"] for row in rows_of_portal()[0] if row["cause"]}
    # A job that vofilter leaves out may have no name at the portal.
    assert unselected == ({"no vo", "site"} if "vofilter" in own else set())
    for missing in vos:
        rows, texts = rows_of_portal(missing)
        name = "no vo" if missing == UNKNOWN else missing
        assert {row["vo"] for row in rows if row["cause"]} == unselected | {name}
        assert any(f"{name} 0, in the database {vos[missing]}" in text for text in texts), texts
