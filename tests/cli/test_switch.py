"""`arcacct switch` as an operator types it."""

from __future__ import annotations

import functools
import json
import shutil
import sqlite3

import jura_site
import pytest
from in_process import answer
from jura_site import SUMMARIES
from rehearsal import configured

from arcacct.sandbox import Sandbox

SGAS = "[arex/jura/sgas:s]\ntargeturl={sgas}\n"
URS = SUMMARIES.replace("=summaries", "=urs")


@pytest.fixture
def box(tmp_path):
    with Sandbox(str(tmp_path)) as running:
        yield running


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a command in this process, without a terminal."""
    return functools.partial(answer, capsys, "--config", tmp_path / "arc.conf")


def test_the_plan_names_every_key(tmp_path, box, run) -> None:
    """Which ours replace, which not, jobs and hours; SGAS in one line."""
    jura_site.site(tmp_path, box, 6, SUMMARIES + SGAS)
    code, out, err = run("switch", "--plan", "--format", "json")

    rows = json.loads(out)
    assert code == 0
    assert [row["replaced"] for row in rows].count("no") == 7
    assert [row["replaced"] for row in rows].count("yes") == 2
    (robot,) = [row for row in rows if row["group"] == "/atlas/Role" and row["cores"] == 8]
    assert (robot["jobs"], robot["month"], robot["service_level"]) == (1, "2026-11", "HEPSPEC:1.0")
    assert "apel:a: jura-ng of ARC 6 sent summaries of the jobs that ended until 2026-11-20T10:14:31Z" in err
    assert "under 9 keys; our records do not replace 7 of them" in err
    assert "sgas:s: nothing to do" in err


def test_the_keys_are_noted_once(tmp_path, box, run) -> None:
    """--yes notes them; again there is nothing new."""
    jura_site.site(tmp_path, box, 6)

    assert "apel:a: 8 keys stored" in run("switch", "--yes")[2]
    assert "apel:a: everything was already stored" in run("switch", "--yes")[2]


def test_nothing_is_noted_unasked(tmp_path, box, run) -> None:
    """Without a terminal somebody has to say --yes."""
    jura_site.site(tmp_path, box, 6)
    code, _out, err = run("switch")

    assert code == 64
    assert "--yes" in err
    assert not (tmp_path / "control" / "accounting" / "arcacct" / "publishing.db").exists()


def test_job_records_need_nothing_but_words(tmp_path, box, run) -> None:
    """ARC 7.0 left the benchmarks out: how far the figures jump is told with numbers."""
    jura_site.site(tmp_path, box, 7, URS)
    code, _out, err = run("switch", "--plan")

    assert code == 0
    assert "our records replace 39 of them (same id and end)" in err
    assert "1.0 for every job): 0.02 normalised hours instead of 0.20" in err


def test_job_records_of_version_6_are_all_replaced(tmp_path, box, run) -> None:
    """Nothing is noted, and no one is asked."""
    jura_site.site(tmp_path, box, 6, URS)
    code, _out, err = run("switch")

    assert code == 0
    assert "nothing to store" in err
    assert "ServiceLevels" not in err


def test_a_database_elsewhere(tmp_path, box, run) -> None:
    """PATH is an old CE's database, with the publishing.db next to it."""
    jura_site.site(tmp_path, box, 6)
    old = tmp_path / "old"
    shutil.move(tmp_path / "control" / "accounting" / "publishing.db", tmp_path / "publishing.db")
    assert "jura-ng has never published to it" in run("switch", "--plan")[2]

    jura_site.write_arex_database(old, 6)
    shutil.move(tmp_path / "publishing.db", old / "publishing.db")
    assert "our records do not replace 7 of them" in run("switch", str(old / "accounting.db"), "--plan")[2]


def test_other_months_and_versions_on_request(tmp_path, box, run) -> None:
    """--month and --arc win over what the databases say."""
    jura_site.site(tmp_path, box, 6)
    _code, out, err = run("switch", "--plan", "--month", "2026-11", "--arc", "7", "--format", "json")

    assert "2026-10" not in err
    assert "jura-ng of ARC 7" in err
    assert {row["role"] for row in json.loads(out)} >= {"/Role=production"}
    code, _out, err = run("switch", "--plan", "--month", "11")
    assert code == 64
    assert "2026-11" in err


def test_the_plan_is_made_before_the_configuration_is_changed(tmp_path, box, run) -> None:
    """While the targets are still A-REX's, the plan is that of after they were moved; the switch itself refuses."""
    jura_site.site(tmp_path, box, 6)
    moved = run("switch", "--plan")
    ours, arc = tmp_path / "arcacct.conf", tmp_path / "arc.conf"
    blocks = ours.read_text()
    start = blocks.index("[arex/jura")
    ours.write_text(blocks[:start])
    arc.write_text(arc.read_text() + "\n[arex/jura]\n" + blocks[start:])

    assert run("switch", "--plan") == moved
    assert moved[0] == 0
    code, _out, err = run("switch", "--yes")
    assert code == 78
    assert "jura-ng" in err


def test_status_and_plan_and_run_agree_before_the_first_publish(tmp_path, box, run) -> None:
    """After `switch` the jobs that the first run sends are waiting for it, and none is one that is never sent."""
    jura_site.site(tmp_path, box, 6, SGAS)
    (tmp_path / "control" / "accounting" / "publishing.db").unlink()
    jura_site.served_by_jura(tmp_path / "control" / "accounting", jura_site.STOPPED_S[6], "arex/jura/sgas:s")
    assert run("switch", "--yes")[0] == 0

    lines = [line for line in run("status")[1].splitlines() if "sgas:s" in line]
    planned = run("publish", "--dry-run")[1]
    sent = run("publish")[1]

    assert any("35 records waiting" in line for line in lines)
    assert not any("never sent" in line for line in lines)
    assert "would send 35 ur records" in planned
    assert "sent 35 ur records" in sent
    assert "never sent" not in run("status")[1]


def judged(run) -> dict[str, tuple[int, str]]:
    """What each command says of the switch: its exit code, and its verdict."""
    status = {one["subject"]: one for one in json.loads(run("status", "--format", "json")[1])}
    code, out, _err = run("doctor", "--offline", "--format", "json")
    doctor = {one["what"]: one for one in json.loads(out)}
    setup_code, out, _err = run("setup", "--check", "--format", "json")
    (step,) = [one for one in json.loads(out) if one["step"] == "switch"]
    verify_code, out, _err = run("verify", "2026-11", "--format", "json")
    reasons = [one["text"] for one in json.loads(out)["differences"] if one["source"].startswith("apel")]
    return {
        "status": (status["switch"]["severity"], status["switch"]["text"]),
        "doctor": (code, f"{doctor['switch']['verdict']}: {doctor['switch']['detail']}"),
        "setup": (setup_code, f"{step['verdict']}: {step['details']}"),
        "verify": (verify_code, " ".join(reasons)),
        "switch": (0, run("switch", "--plan")[2]),
    }


def test_every_command_asks_the_same(tmp_path, box, run) -> None:
    """The targets were moved, and `switch` was forgotten: none calls that well, and `publish` sends no sums."""
    jura_site.site(tmp_path, box, 6)
    jura_site.deliver(box, "6.17-summaries.txt", "6.17-sync.txt")
    at_apel = dict(box.apel.summaries)
    # As after `switch` without a terminal and without --yes.
    assert run("switch")[0] == 64

    for published in (False, True):
        if published:
            code, _out, err = run("publish")
            assert (code, "2026-11 is held: jura-ng published" in err) == (69, True)
            assert "`arcacct switch --target apel:a` takes them over" in err
        found = judged(run)
        assert found["status"][0] == 2
        assert found["doctor"][1].startswith("error")
        assert found["setup"][1].startswith("error")
        assert found["verify"][0] == 1
        for command in ("status", "doctor", "setup", "verify"):
            assert "jura-ng published to [arex/jura/apel:a]" in found[command][1], command
        assert "apel:a: not settled: 2026-11" in found["switch"][1]
    assert box.apel.summaries == at_apel

    assert run("switch", "--yes")[0] == 0
    assert run("publish", "--now")[0] == 0
    found = judged(run)
    assert found["status"][0] == 0
    assert found["doctor"][1].startswith("ok")
    assert found["setup"][1].startswith("ok")
    for command in ("status", "doctor", "setup"):
        assert "jura-ng's sums until 2026-11-20T10:14:31Z: switched by " in found[command][1]
    assert "jura-ng published" not in found["verify"][1]
    assert "apel:a: settled: 2026-10 and 2026-11: switched by " in found["switch"][1]


def test_declining_is_asked_and_remembered(tmp_path, box, run) -> None:
    """Not without --yes; then `publish` sends, and each command says who declined."""
    jura_site.site(tmp_path, box, 6)
    jura_site.deliver(box, "6.17-summaries.txt", "6.17-sync.txt")
    code, _out, err = run("switch", "--decline")
    assert (code, "jura-ng's sums of 2026-11 stay, and count in addition to ours" in err) == (64, True)
    assert run("publish")[0] == 69

    assert run("switch", "--decline", "--yes")[0] == 0
    assert run("publish", "--now")[0] == 0
    found = judged(run)
    for command in ("status", "doctor", "setup"):
        assert "declined by " in found[command][1]
    assert "jura-ng's sums stay there, and count in addition: declined by " in run("verify", "2026-11")[1]
    assert "nothing to decline" in run("switch", "--decline", "--yes")[2]
    assert run("switch", "--decline", "--plan")[0] == 64


def test_setup_asks_before_there_is_a_database(tmp_path, box, run) -> None:
    """jura-ng's own database is enough to know that it published."""
    configured(tmp_path, box, SUMMARIES)
    folder = tmp_path / "control" / "accounting"
    folder.mkdir(parents=True)
    jura_site.served_by_jura(folder, jura_site.STOPPED_S[6], "arex/jura/apel:a")

    (step,) = [one for one in json.loads(run("setup", "--check", "--format", "json")[1]) if one["step"] == "switch"]
    assert step["verdict"] == "error"
    assert step["do"][0] == "arcacct switch --plan"


def test_a_plan_that_knows_no_message_of_jura_settles_nothing(tmp_path, box, run) -> None:
    """A-REX has created its database again: `switch` says so and fails, and the month stays held."""
    jura_site.site(tmp_path, box, 6)
    con = sqlite3.connect(tmp_path / "control" / "accounting" / "publishing.db")
    con.execute("UPDATE AccountingTargets SET LastEndTime = LastEndTime - 15 * 86400")
    con.commit()
    con.close()

    code, _out, err = run("switch", "--yes")
    assert (code, "apel:a: not settled" in err) == (69, True)


def test_a_site_may_let_both_publish(tmp_path, box, run) -> None:
    """allow_jura=yes says so in the configuration: `status` names it, and nothing is asked."""
    jura_site.site(tmp_path, box, 6)
    ours, arc = tmp_path / "arcacct.conf", tmp_path / "arc.conf"
    blocks = ours.read_text()
    ours.write_text("[arcacct]\nallow_jura=yes\n")
    arc.write_text(arc.read_text() + "\n[arex/jura]\n" + blocks[blocks.index("[arex/jura") :])

    assert run("publish")[0] == 0
    found = {one["subject"]: one for one in json.loads(run("status", "--format", "json")[1])}
    assert "switch" not in found
    assert "as allow_jura=yes allows" in found["jura"]["text"]
