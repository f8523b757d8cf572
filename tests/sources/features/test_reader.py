"""Features in directories that belong to jobs: their users swap them while root writes and reads."""

from __future__ import annotations

import os
import sqlite3
import stat

import pytest
from attackers import SECRET, THEM, TRIES, secret_of_root, snatching, swapping, theirs, tries
from installed import arcacct, configured
from other_users import acting_as
from sonar_site import REAL

from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.database.access import open_accounting
from arcacct.errors import ArcacctError, InputError, StoreError
from arcacct.sources.features import values
from arcacct.sources.features.check import check
from arcacct.sources.features.collect import collect, saved
from arcacct.sources.features.reader import remove, remove_keys, write

pytestmark = [pytest.mark.campaign, pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whom users attack")]
OWNER = (THEM.pw_uid, THEM.pw_gid)
JOB = "sonar:testcl:10:1795168549"


def test_no_file_of_roots_is_given_away(public_dir):
    """`features write job --owner USER` below a directory of the user's, who puts links into the place of ours."""
    secret = secret_of_root(public_dir / "of_root")
    before = secret.stat()
    home = theirs(public_dir / "home")
    met = set()
    with snatching(home, secret):
        for _ in tries(TRIES, met, 2):
            try:
                values.write_job(str(home / "made"), {"job_id": "1"}, owner=OWNER)
                met.add("written")
            except ArcacctError:
                met.add("refused")
            after = secret.stat()
            assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert met == {"written", "refused"}


def test_no_directory_of_roots_is_given_away(public_dir):
    """The same with links to a directory: neither its owner nor its mode changes, and nothing is written there."""
    secret = secret_of_root(public_dir / "of_root")
    home = theirs(public_dir / "home")
    with snatching(home, secret.parent):
        for _ in range(TRIES):
            try:
                values.write_job(str(home / "made"), {"job_id": "1"}, owner=OWNER)
            except ArcacctError:
                continue
    after = secret.parent.stat()
    assert (after.st_uid, stat.S_IMODE(after.st_mode)) == (0, 0o700)
    assert os.listdir(secret.parent) == [secret.name]


@pytest.mark.parametrize("below", ["", "deep"])
def test_nothing_is_written_or_removed_elsewhere(public_dir, below):
    """`job set` and `shutdown clear` in a directory while it, or one above it, is swapped with a link to root's."""
    secret = secret_of_root(public_dir / "of_root")
    (secret.parent / "deep").mkdir()
    for place in (secret.parent, secret.parent / "deep"):
        (place / "shutdowntime_job").write_text("4102444800\n")
    home = theirs(public_dir / "home")
    (home / "one" / "deep").mkdir(parents=True)
    (home / "other").symlink_to(secret.parent)
    place = str(home / "one" / below)
    met = set()
    with swapping(home):
        for number in tries(TRIES // 2, met, 2):
            for act in (
                lambda: write(place, {"wall_limit_secs": str(number)}, owner=OWNER),  # noqa: B023  called at once
                lambda: remove_keys(place, ("shutdowntime_job",)),
            ):
                try:
                    act()
                    met.add("done")
                except ArcacctError:
                    met.add("refused")
    assert met == {"done", "refused"}
    assert sorted(path.name for path in secret.parent.rglob("*")) == [
        "deep",
        "shutdowntime_job",
        "shutdowntime_job",
        "site_key",
    ]
    assert {path.stat().st_uid for path in secret.parent.rglob("*")} == {0}


@pytest.mark.parametrize("pattern", ["{jobid}/one", "{jobid}/one/saved", "{jobid}/one/site_key"])
def test_no_text_of_roots_gets_into_records(public_dir, pattern):
    """`features record` where users save features: the directory, one above it, and a file are swapped with links."""
    secret = secret_of_root(public_dir / "of_root")
    (secret.parent / "saved").mkdir()
    (secret.parent / "saved" / "site_key").write_text(f"{SECRET}\n")
    job = theirs(public_dir / JOB)
    (job / "one").mkdir()
    (job / "one" / "saved").mkdir()
    (job / "one" / "site_key").write_text("hs06=1\n")
    (job / "other").symlink_to(secret.parent)
    met = set()
    with swapping(job):
        for _ in tries(TRIES, met, 1):
            try:
                features = saved(str(public_dir / pattern.format(jobid=JOB)))
            except ArcacctError:
                continue
            if features is not None:
                met.add("found")
            assert SECRET not in str(features)
    assert met


def test_features_are_recorded_while_their_directory_is_swapped(public_dir):
    """The command's own function, with the database: the job's own features are there in the end, and nothing else."""
    conf = configured(public_dir)
    arcacct("--config", conf, "import", "sonar", str(REAL / "real-jobs-completed.json"))
    secret = secret_of_root(public_dir / "of_root")
    job = theirs(public_dir / JOB)
    (job / "one").mkdir()
    (job / "one" / "zone").write_text("b\n")
    (job / "other").symlink_to(secret.parent)
    here = places(load(str(conf), {}))
    con = open_accounting(here)
    changed, met = 0, set()
    with swapping(job):
        for _ in tries(TRIES, met, 2):
            done = collect(con, here, str(public_dir / "{jobid}" / "one"), [JOB])
            changed += done.changed
            met.add("refused" if done.complaints else "recorded")
    assert (changed, met) == (1, {"refused", "recorded"})
    con.close()
    with sqlite3.connect(here.database) as found:
        assert found.execute("SELECT name, value FROM v1_job_attributes WHERE name GLOB 'mjf_*'").fetchall() == [
            ("mjf_zone", "b")
        ]
    found.close()


def test_one_file_that_cannot_be_read_is_judged_with_the_others(public_dir):
    """`features check` as a job runs it: what its user may not read is told, and every other rule is judged."""
    place = public_dir / "machine"
    values.write_machine(str(place), {"total_cpu": "16", "hs06": "160.5"})
    (place / "hs06").chmod(0o600)
    with acting_as(THEM.pw_name):
        verdicts = {one.rule: one for one in check({"machine": str(place)})}
    assert (verdicts[25].verdict, verdicts[4].verdict) == ("fail", "ok")
    assert verdicts[32].reason == "machine: hs06: Permission denied; treated as absent"


@pytest.mark.parametrize("act", [lambda path: write(path, {"job_id": "1"}), remove])
def test_what_cannot_be_written_is_named_whole(public_dir, act):
    """Below the directory of another user everything is done by names: the message has the path."""
    (public_dir / "there").mkdir()
    place = public_dir / "there" if act is remove else public_dir / "new"
    with acting_as(THEM.pw_name), pytest.raises(StoreError, match=f"^{place}: Permission denied"):
        act(str(place))


def test_a_directory_that_was_there_is_not_given_away(public_dir):
    """`job write --owner`: the files that were written are the user's, the directory stays whose it was."""
    (public_dir / "there").mkdir()
    write(str(public_dir / "there"), {"job_id": "1"}, owner=OWNER)
    write(str(public_dir / "made"), {"job_id": "1"}, owner=OWNER)
    owners = [(public_dir / name).stat().st_uid for name in ("there", "there/job_id", "made", "made/job_id")]
    assert owners == [0, THEM.pw_uid, THEM.pw_uid, THEM.pw_uid]


def test_a_second_name_of_a_file_of_roots_is_no_feature(public_dir):
    """Saved as a directory or as one file of lines: what others may not read does not get into a record."""
    secret = secret_of_root(public_dir / "of_root")
    secret.write_text(f"zone={SECRET}\n")
    home = theirs(public_dir / "home")
    (home / "folder").mkdir()
    for path in (home / "lines", home / "folder" / "zone"):
        os.link(secret, path)
    with pytest.raises(InputError, match="lines: a file of user 0 that others may not read"):
        saved(str(home / "lines"))
    found = saved(str(home / "folder"))
    assert found is not None
    assert (found.extra, found.warnings) == (
        {},
        ("zone: a file of user 0 that others may not read; treated as absent",),
    )
