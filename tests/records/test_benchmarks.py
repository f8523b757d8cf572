"""Benchmarks with validity: what a job gets when it is recorded, and what a correction would change before it does."""

from __future__ import annotations

import json
from contextlib import closing

import arex_corpus as corpus
import pytest
import rehearsal
from campaigns import sample
from installed import arcacct

from arcacct.arex.sweep import sweep
from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.database.access import open_accounting, read_accounting
from arcacct.publishing import run, target_run
from arcacct.sandbox import Sandbox
from arcacct.sandbox.apel import PortalTotals
from arcacct.targets import plugins

DEFAULT = "HEPSPEC:11.11"
NEW = 'queue_benchmark = "fork" HEPscore23:20 from=2026-11-20\n'
PERIOD = ("--from", "2026-11", "--to", "2026-12")
RECORDED = (
    "SELECT JobID, EndTime, ifnull(WLCGVOs.Name, ''), Queues.Name, UsedWalltime * CPUCount, InfoValue FROM AAR"
    " LEFT JOIN WLCGVOs ON WLCGVOs.ID = VOID JOIN Queues ON Queues.ID = QueueID"
    " LEFT JOIN JobExtraInfo AS Extra ON Extra.RecordID = AAR.RecordID AND InfoKey = 'benchmark' WHERE EndTime > 0"
)


def recorded(ours) -> list[tuple]:
    with closing(read_accounting(corpus.place(ours.control))) as con:
        return con.execute(RECORDED).fetchall()


def configure(ours, text: str) -> None:
    ours.conf.write_text(f"{ours.conf.read_text()}[custom:arcacct]\n{text}")


def said(ours, *words: str):
    done = arcacct("--config", ours.conf, *words)
    assert done.returncode == 0, done.stderr
    return done


def millionths(jobs: list[tuple]) -> int:
    return sum(found.normalised(job[4]) for job in jobs if (found := parsed_benchmark(job[5])) is not None)


def test_the_plan_is_what_sql_says_and_the_correction_is_the_plan(ours) -> None:
    """Only jobs that had the default change; by month and VO before and after; then they are logged, once."""
    before = recorded(ours)
    configure(ours, NEW)

    planned = json.loads(said(ours, "db", "benchmark", *PERIOD, "--plan", "--format", "json").stdout)
    assert recorded(ours) == before
    asked = said(ours, "db", "benchmark", *PERIOD, "--yes")

    after = recorded(ours)
    changed = [job for job in before if job[5] == DEFAULT and job[3] == "fork"]
    assert {job[5] for job in before} > {DEFAULT}
    assert {job[0]: job[5] for job in after} == {
        job[0]: "HEPscore23:20" if job in changed else job[5] for job in before
    }
    order = [(row["month"], row["vo"] or "", row["type"]) for row in planned]
    assert order == sorted(order)
    for vo in {job[2] for job in changed}:
        rows = {row["type"]: row for row in planned if (row["vo"] or "") == vo}
        mine = [job for job in changed if job[2] == vo]
        hours = millionths(mine) / 3.6e9
        assert rows["HEPSPEC"]["jobs"] == rows["HEPscore23"]["jobs"] == len(mine)
        assert rows["HEPSPEC"]["before_h"] == round(hours, 3)
        assert rows["HEPSPEC"]["after_h"] == 0
        assert rows["HEPSPEC"]["difference_h"] == -round(hours, 3)
        assert rows["HEPscore23"]["after_h"] == round(sum(job[4] for job in mine) * 20 / 3600, 3)
    assert asked.stderr.endswith(
        f"{len(changed)} jobs have another benchmark now: the next `arcacct publish` sends the correction\n"
    )
    with closing(read_accounting(corpus.place(ours.control))) as con:
        logged = con.execute("SELECT count(*) FROM FinishedLog WHERE Seq > ?", (len(before),)).fetchone()[0]
        assert logged >= len(changed)
        sources = "SELECT count(*) FROM FieldSources WHERE Field = 'benchmark' AND Source = 'arc.conf'"
        assert con.execute(sources).fetchone()[0] == len(changed)
    assert "no benchmark changes" in said(ours, "db", "benchmark", *PERIOD, "--yes").stderr
    said(ours, "db", "check")


def test_a_new_line_changes_nothing_that_is_recorded(ours) -> None:
    """A sweep that sees every job again leaves benchmarks as they were taken; so it does after a correction."""
    before = recorded(ours)
    configure(ours, NEW)

    def again() -> None:
        with closing(open_accounting(corpus.place(ours.control))) as con:
            con.execute("DELETE FROM StatusFiles")
        said(ours, "sweep")

    again()
    assert recorded(ours) == before
    said(ours, "db", "benchmark", *PERIOD, "--yes")
    after = recorded(ours)
    again()
    assert recorded(ours) == after != before


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ('queue_benchmark = "fork" HEPscore23:20 from=2026-11-20 to=2026-11-21', "HEPscore23:20"),
        ('queue_benchmark = "fork" HEPscore23:20 to=2026-11-20', DEFAULT),
        ('queue_benchmark = "other" HEPscore23:20', DEFAULT),
    ],
    ids=["in its time", "out of its time", "another queue"],
)
def test_jobs_get_the_benchmark_of_their_queue_and_time(tmp_path, line, given) -> None:
    """A job whose .diag has none gets what holds at its end when it is recorded; one of its own stays."""
    control = corpus.rebuild(tmp_path / "control")
    conf = tmp_path / "arc.conf"
    conf.write_text(
        f"[lrms]\nlrms=fork\nbenchmark={DEFAULT}\n[arex]\ncontroldir={control.path}\n[custom:arcacct]\n{line}\n"
    )
    here = places(load(str(conf), {}))
    with closing(open_accounting(here)) as con:
        sweep(here, con, owner=control.owner)
        found = {job[0]: job[5] for job in con.execute(f"{RECORDED} AND Queues.Name = 'fork'")}
    with closing(corpus.arex_database()) as con:
        theirs = {job[0]: job[5] for job in con.execute(f"{RECORDED} AND Queues.Name = 'fork'")}

    assert set(theirs.values()) > {DEFAULT}
    assert {job: value for job, value in found.items() if job in theirs} == {
        job: given if value == DEFAULT else value for job, value in theirs.items() if job in found
    }


def test_what_stats_would_be_with_another_benchmark(ours) -> None:
    """One for all, or a multiple of those of a type; nothing changes."""
    jobs = recorded(ours)
    asked = ("stats", "--by", "year", "--format", "json", "--benchmark-as")

    (fixed,) = json.loads(said(ours, *asked, "HEPscore23:14.5").stdout)
    (scaled,) = json.loads(said(ours, *asked, "HEPSPEC=1.1").stdout)
    (other,) = json.loads(said(ours, *asked, "Si2k=7").stdout)

    before = round(millionths(jobs) / 3.6e9, 3)
    core_s = sum(job[4] for job in jobs)
    assert fixed["normalised_before"] == scaled["normalised_before"] == before
    assert fixed["normalised_after"] == round(Benchmark.parse("HEPSPEC:14.5").normalised(core_s) / 3.6e9, 3)
    # Every job of the corpus has a benchmark of this type.
    assert scaled["difference"] == pytest.approx(millionths(jobs) / 3.6e10, abs=0.002)
    assert other["difference"] == 0
    assert fixed["difference"] == pytest.approx(fixed["normalised_after"] - before, abs=0.002)
    assert recorded(ours) == jobs


@pytest.mark.parametrize("value", ["fast", "HEPSPEC:1e999", "HEPSPEC:-1", "HEPSPEC=0", "HEPSPEC:99999999999999999"])
def test_what_is_no_benchmark_is_refused(ours, value) -> None:
    """64, and what can be written; on both commands."""
    for words in (("stats", "--by", "vo", "--benchmark-as"), ("db", "benchmark", *PERIOD, "--plan", "--as")):
        done = arcacct("--config", ours.conf, *words, value)
        assert (done.returncode, done.stdout) == (64, "")


def test_a_republish_says_what_a_correction_would_change(ours) -> None:
    """The plan sends what is recorded, and tells where the configuration has another value by now."""
    target = f"[arcacct/directory:d]\npath={ours.conf.parent}/out\ngocdb_name=EXAMPLE-SITE\n"
    (ours.conf.parent / "arcacct.conf").write_text(f"[arcacct]\n{NEW}{target}")

    done = arcacct("--config", ours.conf, "republish", *PERIOD, "--plan")

    assert "`arcacct db benchmark` would make these corrections:" in done.stderr
    assert "difference_h" in done.stderr


TARGET = "[arex/jura/apel:{kind}]\ntargeturl={{ams}}\nauthn_port={{authn}}\ngocdb_name={kind}\napel_messages={kind}\n"


@pytest.mark.parametrize("kind", sample(["summaries", "normalised-v04", "urs", "individual"], 2))
def test_a_correction_reaches_the_portal(tmp_path, kind) -> None:
    """The hours at APEL are those of before, worth what the new benchmark says; nothing is held or set aside."""
    with Sandbox(str(tmp_path)) as box:
        site = rehearsal.site(tmp_path, box, TARGET.format(kind=kind))

        def publish() -> PortalTotals:
            settings = site.settings()
            (outcome,) = run.publish(settings, plugins(settings), target_run.RunOptions(since=0))
            assert not outcome.error
            return next(found for (_site, *month), found in box.apel.totals().items() if month == [2026, 11])

        before = publish()
        words = correction(site)
        said_so = arcacct(*words, "--yes")
        assert said_so.returncode == 0, said_so.stderr
        after = publish()

    assert (after.wall_s, after.cpu_s) == (before.wall_s, before.cpu_s)
    # APEL never deletes a record: the former groups have one without usage each.
    assert (after.jobs == before.jobs) is (kind not in {"urs", "individual"})
    assert after.normalised_wall_s == 20 * before.wall_s != before.normalised_wall_s


def correction(site: rehearsal.Site) -> list:
    """The command that gives every job another benchmark, whatever was recorded."""
    with closing(read_accounting(site.settings().places)) as con:
        values = {job[5] for job in con.execute(RECORDED)}
    replaced = [word for value in values for word in ("--replace", value)]
    return ["--config", site.arc_conf, "db", "benchmark", *PERIOD, "--as", "HEPSPEC:20", *replaced]
