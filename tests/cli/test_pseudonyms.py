"""`arcacct db forget`: names of users become pseudonyms in every file; sums stay, and nothing is sent again."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import time
from contextlib import closing
from types import SimpleNamespace

import arex_corpus as corpus
import pytest
import rehearsal
from in_process import answer
from rehearsal import Site

from arcacct.cli import pseudonyms
from arcacct.database import access
from arcacct.database.location import PSEUDONYMS
from arcacct.records import usage
from arcacct.records.integrity import check
from arcacct.sandbox import Sandbox

LATER = 1_800_000_000
"""In January of 2027: November, in which all jobs of the corpus ended, is not sent any more by itself."""
NAMES = "SELECT job_id, user_dn, local_user, client_host, job_name FROM v1_jobs ORDER BY job_id"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Published to SGAS and APEL, as records and as sums; the jobs are gone from the control directory."""
    with Sandbox(str(tmp_path)) as box:
        made = rehearsal.site(tmp_path, box)
        configure(made)
        clock = {name: getattr(time, name) for name in ("gmtime", "strftime", "monotonic")}
        monkeypatch.setattr(pseudonyms, "time", SimpleNamespace(time=lambda: LATER, **clock))
        yield made


def configure(site: Site, more: str = "") -> None:
    sums = "[arex/jura/apel:sums]\ntargeturl={ams}\nauthn_port={authn}\ngocdb_name=SUMS-SITE\napel_messages=summaries\n"
    site.configure(f"[arcacct]\nkeep_messages = 30\n{more}" + rehearsal.SGAS_AND_CARS + sums)


@pytest.fixture
def run(site: Site, capsys):
    """Runs a command in this process."""
    return functools.partial(answer, capsys, "--config", site.arc_conf)


def published(site: Site, run) -> None:
    with closing(access.open_accounting(site.settings().places)) as con:
        # The one job of the corpus that is still in progress.
        con.execute(
            "UPDATE AAR SET EndTime = SubmitTime + 60, StatusID = (SELECT ID FROM Status WHERE Name = 'failed')"
            " WHERE EndTime = 0"
        )
    code, _out, err = run("publish", "--since", "2026-11-01")
    assert code in (0, 65), err
    run("quarantine", "drop", "--all", "--yes")
    for path in [one for one in (site.path / "control").iterdir() if one.name != "accounting"]:
        if path.is_dir():
            shutil.rmtree(path)
            path.mkdir()
        else:
            path.unlink()


def users(site: Site) -> dict[str, int]:
    with closing(access.read_accounting(site.settings().places)) as con:
        found = con.execute(
            "SELECT user_dn, count(*) FROM v1_jobs WHERE user_dn IS NOT NULL GROUP BY 1 ORDER BY 2 DESC"
        )
        return dict(found.fetchall())


def sums(site: Site) -> list[tuple[object, ...]]:
    """All that a sum says, but for the user's name."""
    with closing(access.read_accounting(site.settings().places)) as con:
        return sorted((one._replace(user_dn=None) for one in usage.usage_cells(con)), key=repr)


def received(site: Site) -> tuple[str, str]:
    """What SGAS and APEL have of each job, names and all."""
    return repr(site.box.sgas.records), repr(sorted(site.box.apel.job_records.items(), key=repr))


def with_text(site: Site, text: str) -> list[str]:
    """The files beside the database that have a text in them, in whatever letters: a receiver compares without case."""
    folder = pathlib.Path(site.settings().places.directory)
    return [
        path.name for path in folder.rglob("*") if path.is_file() and text.lower().encode() in path.read_bytes().lower()
    ]


def test_one_user_is_forgotten(site, run) -> None:
    """No byte of the DN is left in any file; sums and receivers stay as they are, and nothing is sent again."""
    published(site, run)
    here = site.settings().places
    dn = next(iter(users(site)))
    before, had = sums(site), users(site)
    assert {"accounting.db", "publishing.db"} <= {name.removesuffix("-wal") for name in with_text(site, dn)}
    records = received(site)

    code, out, err = run("db", "forget", dn, "--plan")
    assert (code, out.splitlines()[0]) == (
        0,
        f"{had[dn]} jobs that ended before 2026-12-01: names would become pseudonyms",
    ), err
    assert "receivers keep what was published" in err
    assert users(site) == had

    assert run("db", "forget", dn)[0] == 64
    code, out, err = run("db", "forget", dn, "--yes")

    assert (code, out.splitlines()[-1]) == (0, f"names replaced in {had[dn]} jobs"), err
    assert with_text(site, dn) == []
    now = users(site)
    assert dn not in now
    assert sorted(now.values()) == sorted(had.values())
    assert sum(bool(re.fullmatch("pseudonym-[0-9a-f]{20}", name)) for name in now) == 1
    assert sums(site) == before
    assert {one.problems for one in check(here)} == {()}
    assert os.stat(os.path.join(here.directory, PSEUDONYMS)).st_mode & 0o777 == 0o600

    code, out, err = run("publish", "--now")
    assert code == 0, err
    assert not re.search(r"sent \d+ (ur|car|summaries)", out)
    assert received(site) == records
    code, out, err = run("verify", "2026-11", "--all")
    assert "changed since it was sent" not in out + err
    code, out, err = run("republish", "--from", "2026-11-01", "--to", "2026-12-01", "--yes")
    assert f"{had[dn]} jobs not sent again: the names of the users were replaced" in err
    assert not re.search(rf"sent {sum(had.values())} (ur|car) records", out)
    assert "November 2026" in err or "2026-11: no longer sent" in err
    assert received(site) == records


def test_an_import_does_not_bring_the_names_back(site, run, tmp_path) -> None:
    """A-REX's own database still has them: the pseudonym stays."""
    published(site, run)
    dn = next(iter(users(site)))
    code, _out, err = run("db", "forget", dn, "--yes")
    assert code == 0, err
    corpus.arex_database(str(tmp_path / "arex.db")).close()
    run("import", "arex", str(tmp_path / "arex.db"))

    assert dn not in users(site)


def test_old_names_go_with_the_sweep(site, run) -> None:
    """With names_kept_months a sweep does it, for everybody; what is younger keeps its names."""
    published(site, run)
    had = users(site)
    configure(site, "names_kept_months = 3\n")
    run("sweep")
    assert users(site) == had

    configure(site, "names_kept_months = 1\n")
    with closing(access.open_accounting(site.settings().places)) as con:
        con.execute("DELETE FROM DBConfig WHERE KeyName = 'ARCACCT_FORGOT_AT'")
    code, out, err = run("db", "forget", "--plan")
    assert code == 0, err
    assert "AAR: " in out
    run("sweep")

    assert all(name.startswith("pseudonym-") for name in users(site))
    with closing(access.read_accounting(site.settings().places)) as con:
        for _job, *names in con.execute(NAMES):
            assert all(name is None or name.startswith("pseudonym-") for name in names)


def test_what_waits_keeps_its_names(site, run) -> None:
    """What was not sent yet is told, and stays; so does a month whose jobs the control directory still has."""
    dn = next(iter(users(site)))
    code, out, err = run("db", "forget", dn, "--yes")
    assert (code, out.splitlines()[-1]) == (0, "names replaced in 0 jobs")
    assert "kept, with all others of the month" in err
    assert dn in users(site)


def test_a_mistyped_user_is_an_error(site, run) -> None:
    """What no one is called changes nothing and says so; who was forgotten, or has pruned jobs alone, is known."""
    published(site, run)
    dn = next(iter(users(site)))
    for plan in ((), ("--plan",)):
        code, out, err = run("db", "forget", dn[:-1], "--yes", *plan)
        assert (code, out) == (65, "")
        assert f"{dn[:-1]}: no job, sum or message of this user" in err
    assert run("db", "prune", "--before", "2026-12-01", "--archive", str(site.path / "old.db"), "--yes")[0] == 0
    assert run("db", "forget", dn, "--yes")[0] == 0
    assert with_text(site, dn) == []
    assert run("db", "forget", dn, "--yes")[0] == 0


def test_who_is_meant_has_to_be_said(run) -> None:
    """Without a DN and without an age there is nothing to forget."""
    assert run("db", "forget")[0] == 64
