"""What `arcacct job why --sent` shows of each message, held against what the receivers really got."""

from __future__ import annotations

import itertools
import pathlib
import re
import sqlite3
import tracemalloc
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from publishing_rig import BATCH, Rig
from publishing_site import AUDITOR, CARS, DIRECTORY, JUNE, SGAS, SUMMARIES, Job, Site, jobs

from arcacct.cli.main import main
from arcacct.database import access
from arcacct.queries.job_history import AS_IT_IS, AS_IT_IS_THERE, KEPT, MADE_AGAIN, SUM_AS_IT_IS, SentTexts
from arcacct.targets import plugins

RECORDS = {"sgas": SGAS, "cars": CARS, "auditor": AUDITOR, "directory": DIRECTORY}


class Shown(NamedTuple):
    """What the command says of one message of a target."""

    message: str
    how: str
    text: str


@pytest.fixture
def why(capsys):
    """What the command shows of a job, by target, in the order of the messages; and all that it prints."""

    def asked(site: Site, job_id: str) -> dict[str, list[Shown]]:
        with pytest.raises(SystemExit) as ended:
            main(["--config", str(site.path / "arc.conf"), "job", "--only", "why", "--sent", job_id])
        asked.out, err = capsys.readouterr()
        assert (ended.value.code or 0, err) == (0, "")
        found: dict[str, list[Shown]] = {}
        lines = asked.out.splitlines()
        for number, line in enumerate(lines):
            if line.startswith("    its text: "):
                text = itertools.takewhile(lambda one: one.startswith("      "), lines[number + 1 :])
                target = lines[number - 1].split(": ")[0].strip()
                shown = Shown(lines[number - 1], line.partition("its text: ")[2], "\n".join(one[6:] for one in text))
                found.setdefault(target, []).append(shown)
        return found

    return asked


def received(site: Site) -> list[str]:
    """Every text that a receiver got, in the order in which they came."""
    box = pathlib.Path(site.box.received)
    files = [*box.glob("sgas/*"), *box.glob("apel/*"), *box.glob("auditor/*"), *site.path.glob("outgoing/**/*")]
    return [file.read_text() for file in sorted(files) if file.is_file() and file.suffix != ".smime"]


def got(site: Site, shown: Shown) -> bool:
    """Whether a text that is shown is one that a receiver got."""
    return bool(shown.text) and any(shown.text in text for text in received(site))


def without_times(text: str) -> str:
    """A text without the time when it was made."""
    return re.sub('createTime="[^"]*"', "", text)


def ledger(site: Site, statement: str) -> None:
    """Time passes, or something happens to the ledger."""
    with closing(sqlite3.connect(site.settings.places.publishing_database)) as con, con:
        con.execute(statement)


@pytest.fixture(autouse=True)
def nothing_received(empty_box):
    """The folder of what was received is empty."""
    for file in pathlib.Path(empty_box.received).glob("*/*"):
        file.unlink()


@pytest.fixture
def site(memory, empty_box):
    """Make a site with targets."""
    (memory / "outgoing").mkdir()

    def made(targets: str, **options: str) -> Site:
        return Site(memory, empty_box, targets, **options)

    return made


def test_every_target_of_every_kind(rig: Rig, why) -> None:
    """The bytes of the last message are there, those of the others are made again: both are what was received."""
    rig.record(BATCH + 2)
    rig.publish()
    ways = set()
    for job in rig.jobs:
        (shown,) = why(rig.site, job.job_id)[rig.site.settings.targets[0].name]
        assert got(rig.site, shown), shown
        ways.add(shown.how)
    assert ways == {KEPT, MADE_AGAIN}


@pytest.mark.parametrize("version", ["individual-v04", "summaries-v03", "summaries-v04", "normalised-v04"])
def test_every_format_of_apel(site, why, version) -> None:
    """Each format has its own texts, and its own ends of them."""
    made = site(CARS.replace("=urs", f"={version}") + "urbatchsize=1\n")
    made.send(*jobs(1), *jobs(1, 1, user_dn="/CN=Ada O'Neill"))
    shown = [why(made, job.job_id)["apel:a"][0] for job in jobs(2)]
    assert {one.how for one in shown} == {KEPT, MADE_AGAIN}
    assert shown[0].text != shown[1].text
    assert all(got(made, one) for one in shown)


def test_kept_as_long_as_the_configuration_says(site, why) -> None:
    """With keep_messages nothing must be made again, also when all records are something else by now."""
    sums = SUMMARIES.replace("apel:a", "apel:sums").replace("=SITE", "=SUMS")
    made = site(f"{SGAS}urbatchsize=2\n{CARS}{sums}", keep_messages="90")
    made.send(*jobs(5))
    made.sql("UPDATE AAR SET UsedWalltime = 1")
    for name, (shown,) in why(made, "job00003").items():
        assert shown.how == KEPT, name
        assert got(made, shown)


def test_what_has_no_answer(site, why) -> None:
    """The text of a message that waits is the one that will arrive."""
    made = site(SGAS)
    made.box.faults.answer("sgas", 503, times=None)
    made.record(*jobs(2))
    made.publish_all()
    made.sql("UPDATE AAR SET UsedWalltime = 1")
    (shown,) = why(made, "job00001")["sgas:s"]
    assert shown.how == KEPT
    made.box.faults.clear()
    made.publish_all()
    assert got(made, shown)


def test_a_refused_message_and_its_parts(site, why) -> None:
    """A message that was cut in halves is shown as each of them is."""
    made = site(SGAS)
    made.box.faults.answer("sgas", 500, "smallint out of range", containing="job00003", times=None)
    made.send(*jobs(4))
    made.publish_all()
    made.box.faults.clear()
    whole, half = why(made, "job00000")["sgas:s"]
    assert ": split" in whole.message
    assert (whole.how, half.how) == (MADE_AGAIN, MADE_AGAIN)
    assert whole.text == half.text
    assert got(made, half)
    refused = why(made, "job00003")["sgas:s"]
    assert ": refused" in refused[-1].message
    assert {one.how for one in refused} == {MADE_AGAIN}
    assert {without_times(one.text) for one in refused} == {without_times(refused[0].text)}


@pytest.mark.parametrize("kind", ["sgas", "cars", "auditor"])
def test_repaired_records(site, why, kind) -> None:
    """What was repaired before it was sent is repaired once more."""
    made = site(f"{RECORDS[kind]}urbatchsize=1\n")
    made.record(Job("odd", name="a\x07b", queue="q" * 2000))
    made.sql("UPDATE AAR SET NodeCount = 1 << 33 WHERE JobID = 'odd'")
    made.send(Job("next", JUNE + 1))
    (shown,) = next(iter(why(made, "odd").values()))
    assert shown.how == MADE_AGAIN
    assert "repaired: " in shown.message
    assert got(made, shown)


def test_replaced_records(site, why) -> None:
    """A correction under another GlobalJobId is made again under that one."""
    made = site(f"{SGAS}urbatchsize=1\nsgas_corrections=replace\n")
    made.send(*jobs(2))
    made.send(jobs(2)[0]._replace(wall_s=77))
    made.send(*jobs(1, 5))
    first, second = why(made, "job00000")["sgas:s"]
    assert (first.text, first.how.partition(":")[0]) == ("", "unknown")
    assert second.how == MADE_AGAIN
    assert "<GlobalJobId>job00000#" in second.text
    assert "PT77S" in second.text
    assert got(made, second)


@pytest.mark.parametrize("is_gone", [False, True], ids=["resumed", "deleted"])
def test_zeros(site, why, is_gone) -> None:
    """What was taken back is shown with the zeros that did it, also of a job that is there no more."""
    made = site(CARS)
    made.send(*jobs(3))
    if is_gone:
        made.sql("DELETE FROM AAR WHERE JobID = 'job00001'")
    else:
        made.record(jobs(3)[1]._replace(end_time=JUNE + 500))
    made.publish_all()
    made.send(*jobs(1, 5))
    shown = why(made, "job00001")["apel:a"]
    zeros = next(one for one in shown if "with zeros" in one.message)
    assert zeros.how == MADE_AGAIN
    assert "<WallDuration>PT0S</WallDuration>" in zeros.text
    assert got(made, zeros)
    if not is_gone:
        (new,) = [one for one in shown if one.how == MADE_AGAIN and one != zeros]
        assert "<WallDuration>PT100S</WallDuration>" in new.text
        assert got(made, new)


def test_a_message_that_was_made_long_before_it_was_sent(site, why) -> None:
    """Records are made before the message is written down, up to minutes; the time in them is found all the same."""
    made = site(f"{SGAS}urbatchsize=2\n")
    made.send(*jobs(4))
    ledger(made, "UPDATE Messages SET Created = Created + 599")
    (shown,) = why(made, "job00000")["sgas:s"]
    assert shown.how == MADE_AGAIN
    assert got(made, shown)
    ledger(made, "UPDATE Messages SET Created = Created + 100000000")
    (shown,) = why(made, "job00000")["sgas:s"]
    assert shown.how == AS_IT_IS


@pytest.mark.parametrize("kind", RECORDS)
def test_a_neighbour_that_changed(site, why, kind) -> None:
    """Nothing is called the bytes that were sent unless the whole message has their digest."""
    made = site(f"{RECORDS[kind]}urbatchsize=2\n")
    made.send(*jobs(4))
    made.sql("UPDATE AAR SET UsedWalltime = 123 WHERE JobID = 'job00000'")
    (same,) = next(iter(why(made, "job00001").values()))
    assert same.how == AS_IT_IS
    assert without_times(f"{same.text}\n") in "".join(map(without_times, received(made)))
    (changed,) = next(iter(why(made, "job00000").values()))
    assert changed.text == ""
    assert changed.how == (
        "unknown: the record changed since, and the bytes of the message are not kept;"
        " keep_messages=DAYS in [arcacct] keeps those of later messages"
    )


def test_a_digest_of_something_else(site, why) -> None:
    """Neither what is kept nor what is made again passes for a message with another digest."""
    made = site(f"{SGAS}urbatchsize=2\n")
    made.send(*jobs(4))
    ledger(made, "UPDATE Messages SET Digest = replace(Digest, substr(Digest, 1, 1), 'x')")
    for job in jobs(4):
        assert [one.how for one in why(made, job.job_id)["sgas:s"]] == [AS_IT_IS]


def test_bytes_that_are_damaged(site, why) -> None:
    """They are made again."""
    made = site(f"{SGAS}{CARS}", keep_messages="9")
    made.send(*jobs(2))
    ledger(made, "UPDATE MessageBytes SET Bytes = x'00', IsPacked = MessageID % 2")
    for (shown,) in why(made, "job00000").values():
        assert shown.how == MADE_AGAIN
        assert got(made, shown)


def test_another_configuration(site, why) -> None:
    """A record that is spelled otherwise today is not called what was sent."""
    made = site(f"{SGAS}urbatchsize=2\n")
    made.send(*jobs(4))
    made.configure(f"{SGAS}urbatchsize=2\nlocalid_prefix=ce-\n")
    (shown,) = why(made, "job00000")["sgas:s"]
    assert shown.how == AS_IT_IS
    assert "<LocalJobId>ce-" in shown.text


def test_a_version_that_the_receiver_did_not_take(site, why) -> None:
    """The ledger then has the digest of the version that was kept, and not of the one that was sent."""
    made = site(f"{SGAS}urbatchsize=1\n")
    made.send(*jobs(1))
    made.send(jobs(1)[0]._replace(wall_s=77))
    ledger(made, "UPDATE HeldRecords SET State = 'retry'")
    made.publish_all()
    made.send(*jobs(1, 5))
    first, second = why(made, "job00000")["sgas:s"]
    assert (first.text, second.how) == ("", MADE_AGAIN)
    assert "PT77S" in second.text
    assert got(made, second)
    made.sql("UPDATE AAR SET UsedWalltime = 100 WHERE JobID = 'job00000'")
    first, second = why(made, "job00000")["sgas:s"]
    assert (first.how, second.how) == (MADE_AGAIN, AS_IT_IS_THERE)


def test_a_sum_whose_message_cannot_be_made_again(site, why) -> None:
    """A sum that is as it was stands for itself; one that changed is unknown: ."""
    made = site(SUMMARIES)
    made.send(*jobs(3), *jobs(1, 3, user_dn="/CN=Other"))
    (of_other,) = why(made, "job00003")["apel:a"]
    (shown,) = why(made, "job00000")["apel:a"]
    assert "NumberOfJobs: 1\n" in of_other.text
    assert "NumberOfJobs: 3\n" in shown.text
    ledger(made, "DELETE FROM MessageBytes")
    assert why(made, "job00000")["apel:a"] == [shown._replace(how=MADE_AGAIN)]
    assert why(made, "job00003")["apel:a"] == [of_other._replace(how=MADE_AGAIN)]
    assert got(made, shown)
    ledger(made, "UPDATE Messages SET Digest = 'x'")
    assert why(made, "job00000")["apel:a"] == [shown._replace(how=SUM_AS_IT_IS)]
    ledger(made, "UPDATE SentSummaries SET Wall = Wall + 1")
    (shown,) = why(made, "job00000")["apel:a"]
    assert shown.how.startswith("unknown: the sum changed since")


def test_a_sum_that_was_taken_back(site, why) -> None:
    """The zeros of a sum are made again from its key."""
    made = site(SUMMARIES)
    made.send(*jobs(1))
    made.send(jobs(1)[0]._replace(user_dn="/CN=Other"))
    made.sql(f"UPDATE AAR SET UserID = (SELECT ID FROM Users WHERE Name = '{jobs(1)[0].user_dn}')")
    (shown,) = why(made, "job00000")["apel:a"]
    assert "with zeros" in shown.message
    assert "NumberOfJobs: 0" in shown.text
    assert (shown.how, got(made, shown)) == (MADE_AGAIN, True)


def test_a_sum_among_those_of_other_months(site, why) -> None:
    """Of a kept message the sum is found that has the job's key, although later messages have the others."""
    made = site(SUMMARIES, keep_messages="9")
    may = JUNE - 30 * 86_400
    made.send(Job("may", may), *jobs(2), *jobs(1, 3, user_dn="/CN=Other"))
    made.send(*jobs(1, 4))
    (shown,) = why(made, "may")["apel:a"]
    assert "Month: 5" in shown.text
    assert (shown.how, got(made, shown)) == (KEPT, True)


def test_a_job_without_a_record(site, why, capsys) -> None:
    """A job that was pruned is known to the ledger, by its whole id, and so are its neighbours."""
    made = site(f"{SGAS}urbatchsize=2\n{CARS}")
    made.send(*jobs(3))
    made.sql("DELETE FROM AAR WHERE JobID = 'job00000'")
    shown = why(made, "https://ce.example.org/arex/rest/1.0/jobs/job00000")
    assert "record: deleted or pruned" in why.out
    with pytest.raises(SystemExit) as ended:
        main(["--config", str(made.path / "arc.conf"), "job", "--sent", "job00000"])
    assert (ended.value.code or 0, capsys.readouterr().out) == (0, why.out)
    assert [one.how.partition(":")[0] for one in shown["sgas:s"]] == ["unknown"]
    assert [(one.how, got(made, one)) for one in shown["apel:a"]] == [(KEPT, True)]
    assert [one.how for one in why(made, "job00001")["sgas:s"]] == [AS_IT_IS]


def test_a_record_with_a_status_that_no_one_knows(site, why) -> None:
    """What was sent of it is told all the same."""
    made = site(f"{SGAS}urbatchsize=1\n{DIRECTORY}")
    made.send(*jobs(2))
    made.sql("PRAGMA foreign_keys = OFF", "UPDATE AAR SET StatusID = 99 WHERE JobID = 'job00000'")
    shown = why(made, "job00000")
    assert "see `arcacct db check`" in why.out
    assert [one.how.partition(":")[0] for one in shown["sgas:s"]] == ["unknown"]
    assert [(one.how, got(made, one)) for one in shown["directory:d"]] == [(KEPT, True)]


def test_hostile_names(site, why) -> None:
    """Nothing of a record steers the terminal, and none passes for a line of ours, or for the time of the message."""
    name = "9456-01-02T03:04:05Z\n    its text: byte for byte \x1b[2J\u202egnp.\u2028"
    made = site(f"{SGAS}urbatchsize=1\n{DIRECTORY}urbatchsize=1\n")
    made.send(Job("odd", name=name, user_dn=f"/CN={name}", queue=name), Job("next", JUNE + 1))
    shown = why(made, "odd")
    assert [one.how for (one,) in shown.values()] == [MADE_AGAIN] * 2
    assert not {"\x1b", "\u202e", "\u2028"} & set(why.out)
    assert sum(line.startswith("    its text: ") for line in why.out.splitlines()) == 2
    assert "\\u202egnp." in shown["sgas:s"][0].text


@pytest.mark.campaign
def test_memory_is_that_of_one_message(site) -> None:
    """However many messages carried a job."""
    made = site(SGAS, keep_messages="9")
    made.send(*jobs(200))

    def peak() -> int:
        with (
            closing(access.read_accounting(made.settings.places)) as accounting,
            closing(access.read_publishing(made.settings.places)) as publishing,
        ):
            texts: Any = SentTexts(plugins(made.settings)[0], accounting, publishing)
            tracemalloc.start()
            for (number,) in publishing.execute("SELECT MessageID FROM Messages").fetchall():
                assert texts.of_record(number, 7, None).how == KEPT
            (_now, highest), _stop = tracemalloc.get_traced_memory(), tracemalloc.stop()
            return highest

    one = peak()
    for _ in range(6):
        made.republish()
    assert peak() < 1.5 * one
