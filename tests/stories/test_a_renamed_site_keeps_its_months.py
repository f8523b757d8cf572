"""A site is renamed on purpose: every month under its former name is named at once, and moved or kept together."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from installed import arcacct
from publishing_site import CARS, SUMMARIES, Job, Site

from arcacct.database import access
from arcacct.times import Month, month_bounds, month_name, month_of

NOW = int(time.time())
THIS = month_of(NOW)
LAST = month_of(month_bounds(*THIS)[0] - 1)
OLD = [(2025, 4), (2025, 5), (2025, 6)]
OLD_NAMES = "2025-04 to 2025-06"
KINDS = pytest.mark.parametrize("messages", [SUMMARIES, CARS], ids=["summaries", "cars"])


def ended(month: Month, count: int, first: int = 0, **values: Any) -> list[Job]:
    begin = month_bounds(*month)[0]
    numbers = range(first, first + count)
    return [Job(f"{month_name(month)}-{number:03d}", begin + number, **values) for number in numbers]


def command(site: Site, *words: str) -> tuple[int, str]:
    """The exit code of a command, and everything that it prints."""
    done = arcacct("--config", str(site.path / "arc.conf"), *words)
    return done.returncode, done.stdout + done.stderr


def usage_s(site: Site, name: str) -> dict[Month, int]:
    """The wall seconds of each month of a site at the portal."""
    totals = site.box.apel.totals().items()
    return {(year, month): one.wall_s for (found, year, month), one in totals if found == name and one.wall_s}


def notes(site: Site, month: Month) -> tuple[bool, str]:
    """Whether the ledger agrees by `verify`, and what it says of the target."""
    found = json.loads(
        arcacct("--config", str(site.path / "arc.conf"), "verify", month_name(month), "--format", "json").stdout
    )
    of_target = [one for one in found["sources"] if one["name"].startswith("apel")]
    texts = [one["text"] for one in found["differences"] if one["source"].startswith("apel")]
    return all(one["agrees"] for one in of_target), " ".join(texts)


@pytest.fixture
def renamed(request, memory, empty_box) -> Site:
    """Three months of last year were published under the name SITE, which is NEW-SITE now."""
    messages = request.param
    site = Site(memory, empty_box, messages)
    site.send(*[job for month in OLD for job in ended(month, 3)])
    site.configure(messages.replace("=SITE", "=NEW-SITE"))
    return site


EACH = pytest.mark.parametrize("renamed", [SUMMARIES, CARS], ids=["summaries", "cars"], indirect=True)


@EACH
def test_every_month_is_named_at_once(renamed) -> None:
    """Also months that nothing touches; new months begin under the new name; the portal keeps what it has."""
    renamed.record(*ended(LAST, 2))
    for _ in range(2):
        code, text = command(renamed, "publish", "--now")
        assert code == 69
        assert (
            f"{OLD_NAMES} are held: published under the name SITE; since then gocdb_name was SITE and is NEW-SITE"
            in text
        )
        assert "`arcacct publish --target apel:a --former-names move`" in text
        assert "`arcacct publish --target apel:a --former-names keep`" in text
        assert usage_s(renamed, "SITE") == dict.fromkeys(OLD, 300)
        assert usage_s(renamed, "NEW-SITE") == {LAST: 200}
        assert f"{OLD_NAMES} are held" in command(renamed, "status")[1]
        assert notes(renamed, OLD[0])[0] is False


@EACH
def test_one_command_moves_them_all(renamed) -> None:
    """Zeros under the former name, the jobs under the new one; who said so is in the ledger."""
    assert command(renamed, "publish", "--now")[0] == 69
    assert command(renamed, "publish", "--target", "apel:a", "--former-names", "move")[0] == 0

    assert usage_s(renamed, "SITE") == {}
    assert usage_s(renamed, "NEW-SITE") == dict.fromkeys(OLD, 300)
    code, text = command(renamed, "publish", "--now")
    assert code == 0, text
    for month in OLD:
        assert notes(renamed, month) == (True, "")
    decided = renamed.ledger("SELECT DISTINCT Year, Month, Decision FROM MonthDecisions ORDER BY 1, 2")
    assert decided == [(*month, "lower") for month in OLD]


@EACH
def test_one_command_keeps_them_all(renamed) -> None:
    """Nothing of them is sent any more, the runs are well, and `verify` says under which name a month is."""
    assert command(renamed, "publish", "--now")[0] == 69
    assert command(renamed, "publish", "--target", "apel:a", "--former-names", "keep")[0] == 0
    received = len(renamed.box.apel.received)

    for _ in range(2):
        code, text = command(renamed, "publish", "--now")
        assert code == 0, text
    assert "is held" not in command(renamed, "status")[1]
    assert usage_s(renamed, "SITE") == dict.fromkeys(OLD, 300)
    assert usage_s(renamed, "NEW-SITE") == {}
    # Counts of the sync message, as in each run.
    assert all(b"sync" in bytes(str(one), "utf-8") for one in renamed.box.apel.received[received:])
    agrees, text = notes(renamed, OLD[1])
    assert agrees
    assert "the receiver has this month under the name SITE (kept by " in text
    assert renamed.ledger("SELECT DISTINCT Decision FROM MonthDecisions") == [("kept",)]


@EACH
def test_a_kept_month_with_a_late_job_is_held_alone(renamed) -> None:
    """It would be split between two names: it is held until it is moved, and the others stay."""
    assert command(renamed, "publish", "--target", "apel:a", "--former-names", "keep")[0] == 0
    renamed.record(*ended(OLD[1], 1, 3))
    code, text = command(renamed, "publish", "--now")
    assert (code, "2025-05 is held" in text, "2025-04" in text) == (69, True, False)
    assert usage_s(renamed, "SITE") == dict.fromkeys(OLD, 300)

    assert command(renamed, "publish", "--accept-lower", "2025-05")[0] == 0
    assert usage_s(renamed, "SITE") == {OLD[0]: 300, OLD[2]: 300}
    assert usage_s(renamed, "NEW-SITE") == {OLD[1]: 400}
    assert notes(renamed, OLD[1]) == (True, "")
    assert "under the name SITE" in notes(renamed, OLD[0])[1]


@pytest.mark.parametrize("change", ["a job without use", "more use", "another user"])
@pytest.mark.parametrize("renamed", [SUMMARIES], ids=["summaries"], indirect=True)
def test_a_kept_month_with_other_figures_is_held(renamed, change) -> None:
    """The jobs of a group or their wall time: as sums neither can be sent for one part of the month alone."""
    assert command(renamed, "publish", "--target", "apel:a", "--former-names", "keep")[0] == 0
    if change == "a job without use":
        (job,) = ended(OLD[1], 1, 3, wall_s=0, cpu_s=0)
    else:
        (job,) = ended(OLD[1], 1, **({"wall_s": 200} if change == "more use" else {"user_dn": "/CN=Other"}))
    renamed.record(job)

    code, text = command(renamed, "publish", "--now")
    assert (code, "2025-05 is held" in text) == (69, True)
    assert usage_s(renamed, "SITE") == dict.fromkeys(OLD, 300)


@EACH
def test_a_late_job_hides_no_choice(renamed) -> None:
    """It waits for the same decision as the others."""
    renamed.record(*ended(OLD[1], 1, 3))
    for _ in range(2):
        code, text = command(renamed, "publish", "--now")
        assert (code, f"{OLD_NAMES} are held: published under the name SITE" in text) == (69, True)


@EACH
def test_a_site_that_was_renamed_before_is_not_asked(renamed) -> None:
    """A former program stored no decision: nothing has changed since its last run, and `verify` names the name."""
    assert command(renamed, "publish", "--target", "apel:a", "--former-names", "keep")[0] == 0
    con = access.open_publishing(renamed.settings.places)
    con.execute("DELETE FROM MonthDecisions")
    con.close()

    code, text = command(renamed, "publish", "--now")
    assert code == 0, text
    assert notes(renamed, OLD[0]) == (True, "the receiver has this month under the name SITE")


@pytest.mark.parametrize("renamed", [SUMMARIES], ids=["summaries"], indirect=True)
def test_sums_without_names_are_under_no_name(renamed) -> None:
    """A former program did not store them: their months are held because of the change, and no empty name is named."""
    con = access.open_publishing(renamed.settings.places)
    con.execute("UPDATE SentSummaries SET Site = NULL, SubmitHost = NULL")
    con.close()

    code, text = command(renamed, "publish", "--now")
    assert (code, f"{OLD_NAMES} are held: 3 jobs published, 0 would be sent now" in text) == (69, True)
    assert "gocdb_name was SITE and is NEW-SITE" in text


@EACH
def test_a_mistake_needs_no_command(renamed) -> None:
    """The name is right again: publishing resumes, and nothing was sent meanwhile."""
    assert command(renamed, "publish", "--now")[0] == 69
    renamed.configure((renamed.path / "arcacct.conf").read_text().partition("\n\n")[2].replace("=NEW-SITE", "=SITE"))

    code, text = command(renamed, "publish", "--now")
    assert code == 0, text
    assert "is held" not in command(renamed, "status")[1]
    assert usage_s(renamed, "SITE") == dict.fromkeys(OLD, 300)
    assert notes(renamed, OLD[0]) == (True, "")


@KINDS
def test_the_current_months_are_kept_as_well(memory, empty_box, messages) -> None:
    """Every run sends them: unchanged they stay under the former name, and a new job holds its month."""
    site = Site(memory, empty_box, messages)
    site.send(*ended(LAST, 3), *ended(THIS, 2))
    site.configure(messages.replace("=SITE", "=NEW-SITE"))
    assert command(site, "publish", "--target", "apel:a", "--former-names", "keep")[0] == 0
    assert command(site, "publish", "--now")[0] == 0
    assert usage_s(site, "SITE") == {LAST: 300, THIS: 200}

    site.record(*ended(THIS, 1, 2))
    code, text = command(site, "publish", "--now")
    assert (code, f"{month_name(THIS)} is held" in text, f"{month_name(LAST)} is held" in text) == (69, True, False)


def test_another_host_of_the_batch_system(memory, empty_box) -> None:
    """lrms_host is the SubmitHost of local jobs, and a part of each sum's key: the same holds for it."""
    site = Site(memory, empty_box, SUMMARIES, lrms_host="one.example.org")
    site.send(*ended(OLD[0], 3, endpoint_url=""), *ended(OLD[1], 3))
    site.options["lrms_host"] = "two.example.org"
    site.configure(SUMMARIES)

    code, text = command(site, "publish", "--now")
    assert code == 69
    assert "2025-04 is held: published under the name one.example.org; since then lrms_host was one" in text
    assert "2025-05" not in text
    assert command(site, "publish", "--target", "apel:a", "--former-names", "move")[0] == 0
    hosts = {row["SubmitHost"] for row in empty_box.apel.summaries.values() if row["NumberOfJobs"]}
    assert hosts == {"two.example.org", "https://ce.example.org:443/arex"}


def test_words_that_are_no_choice(memory, empty_box) -> None:
    """Move or keep, and nothing else."""
    site = Site(memory, empty_box, SUMMARIES)
    assert command(site, "publish", "--former-names", "maybe")[0] == 64
