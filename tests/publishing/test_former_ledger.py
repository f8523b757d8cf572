"""A ledger from before records stood in narrow rows: read from the first, carried over in parts."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable

import former_ledger
import pytest
from publishing_site import AUDITOR, CARS, JUNE, SGAS, Job, Site, at_apel, at_auditor, at_sgas, jobs, truth
from publishing_world import Countdown, Killed, Mortal

from arcacct.db import opening
from arcacct.db.connect import PUBLISHING_SCHEMA
from arcacct.publishing import former_rows, ledger, sent

TARGETS = f"{SGAS}urbatchsize=4\n{CARS}urbatchsize=3\n{AUDITOR}"
SGAS_BLOCK = "arex/jura/sgas:s"


@pytest.fixture
def site(memory, empty_box) -> Site:
    """A site with a history: jobs that were sent, corrected, resumed and refused, and some that wait for an answer."""
    made = Site(memory, empty_box, TARGETS)
    made.record(*jobs(20))
    made.publish_all()
    # A resumed job has another key at APEL, a corrected one another digest.
    made.record(jobs(20)[3]._replace(end_time=JUNE + 900), jobs(20)[5]._replace(wall_s=77))
    made.publish_all()
    for target in (SGAS, CARS, AUDITOR):
        made.configure(target)
        made.republish(JUNE, JUNE + 8)
    made.configure(TARGETS)
    empty_box.faults.answer("sgas", 503, times=None)
    made.record(Job("waits"), Job("quoted", local_id='4"7\\'))
    made.publish_all()
    empty_box.faults.clear()
    return made


def rows(site: Site) -> list[tuple[object, ...]]:
    """All that the ledger says of records and messages to third parties."""
    return site.ledger("SELECT * FROM v1_publications ORDER BY message_id, job_id, receiver_key")


def in_both_forms(site: Site) -> tuple[int, int]:
    """How many records stand as the former program wrote them, and how many as this one does."""
    return (
        site.ledger("SELECT count(*) FROM FormerRecords")[0][0],
        site.ledger("SELECT count(*) FROM SentRecords")[0][0],
    )


def carried(site: Site, records: int) -> None:
    """Some records are carried over."""
    con = opening.open_publishing(site.settings.places)
    former_rows.carry_over(con, records)
    con.close()


def downgraded(site: Site) -> list[tuple[object, ...]]:
    """The former program wrote it; returns what third parties read of it."""
    path = site.settings.places.publishing_database
    former_ledger.as_it_was_written(path)
    before = rows(site)
    opening.open_publishing(site.settings.places).close()
    return before


def test_third_parties_read_the_same_before_between_and_after(site) -> None:
    """The rows of v1_publications are those that the former program's view gave, whatever was carried over."""
    now = rows(site)
    before = downgraded(site)

    assert before == now
    while in_both_forms(site)[0]:
        assert rows(site) == before
        carried(site, 5)
    assert rows(site) == before
    assert in_both_forms(site) == (0, len([row for row in before if row[16] is not None]))


@pytest.mark.parametrize("part", [0, 9, 30, 10**6], ids=["nothing", "a-little", "half", "all"])
def test_publishing_goes_on(site, part) -> None:
    """Whatever is carried over already: nothing is sent twice, what waited goes, and later changes replace."""
    downgraded(site)
    carried(site, part)
    repeats = site.box.sgas.ignored_repeats
    site.publish_all()

    assert site.box.sgas.ignored_repeats == repeats
    resent = site.publish_all()
    assert [one.tally.sent.get("car") for one in resent] == [None] * 3
    changed = [jobs(20)[1]._replace(wall_s=55), jobs(20)[9]._replace(end_time=JUNE + 1700)]
    site.record(*changed)
    site.publish_all()
    wanted = {job.job_id: job for job in jobs(20)}
    wanted |= {"job00003": jobs(20)[3]._replace(end_time=JUNE + 900), "job00005": jobs(20)[5]._replace(wall_s=77)}
    wanted |= {"waits": Job("waits"), "quoted": Job("quoted", local_id='4"7\\')}
    wanted |= {job.job_id: job for job in changed}
    assert at_apel(site.box.apel.job_records) == truth(wanted.values(), by_lrms=True)
    held = {job_id for job_id, (state, _why) in site.held().items() if state == "correction"}
    assert held >= {"job00001", "job00003", "job00005", "job00009"}
    assert at_sgas(site.box.sgas.records).keys() == wanted.keys()
    assert site.ledger("SELECT * FROM Messages WHERE State = 'sending'") == []
    assert in_both_forms(site)[0] == 0


def test_a_kill_at_any_statement_loses_nothing(site) -> None:
    """Carrying over is interrupted before each of its statements, one after the other, and goes on."""
    before = downgraded(site)
    con = opening.open_publishing(site.settings.places)
    statements = 0
    while True:
        mortal = Mortal(con, Countdown(statements))
        try:
            former_rows.carry_over(mortal, 7)
            former_rows.carry_unanswered(mortal, SGAS_BLOCK)
        except Killed:
            # What its transaction had done is undone when its connection is gone.
            con.close()
            con = opening.open_publishing(site.settings.places)
            assert rows(site) == before
            statements += 1
            continue
        break
    con.close()
    assert statements > 20
    assert in_both_forms(site)[0] > 0
    assert rows(site) == before


def test_bytes_of_the_former_program(site) -> None:
    """Those that were answered go, but for the last of each kind; what waits is sent as it was written."""
    path = site.settings.places.publishing_database
    downgraded(site)
    con = sqlite3.connect(path)
    con.execute("UPDATE Messages SET Bytes = zeroblob(9) WHERE State <> 'sending'")
    con.commit()
    con.close()
    waiting = site.ledger("SELECT MessageID FROM Messages WHERE State = 'sending'")
    assert waiting
    con = opening.open_publishing(site.settings.places)
    ledger.forget_bytes(con, 2**40)
    con.close()

    left = site.ledger("SELECT MessageID FROM Messages WHERE Bytes IS NOT NULL")
    last = site.ledger("SELECT max(MessageID) FROM Messages WHERE State = 'accepted' GROUP BY Target, Kind")
    assert sorted(left) == sorted({*waiting, *last})
    site.publish_all()
    assert "waits" in at_sgas(site.box.sgas.records)


ASKED: list[Callable[[sqlite3.Connection], object]] = [
    lambda con: sent.versions(con, SGAS_BLOCK, [job.job_id for job in jobs(20)], keeps_first=True),
    lambda con: [*sent.sent_versions(con, "arex/jura/apel:a", ["car"], (JUNE, JUNE + 10_000))],
    lambda con: sent.unanswered_keys(con, SGAS_BLOCK),
    lambda con: sorted(sent.jobs_of_records(con, SGAS_BLOCK, range(30))),
    lambda con: list(ledger.unanswered(con, SGAS_BLOCK)),
    lambda con: ledger.highest_row(con, SGAS_BLOCK, "ur"),
    lambda con: sent.last_accepted(con, "arex/jura/apel:a", "car"),
]


def test_questions_have_the_same_answers_in_both_forms(site) -> None:
    """Of a ledger as this program wrote it, as the former one did, and of each mixture between."""
    answers = []
    for step in range(8):
        con = opening.open_publishing(site.settings.places)
        answers.append([ask(con) for ask in ASKED])
        con.close()
        if step == 0:
            downgraded(site)
        else:
            carried(site, 12)
    assert in_both_forms(site)[0] < 40
    for later in answers[1:]:
        assert later == answers[0]


def test_auditors_answers_are_carried_over(site) -> None:
    """What a receiver that gives no numbers said of a record is known afterwards."""
    downgraded(site)
    former = site.ledger("SELECT JobID, ReceiverRow FROM FormerRecords WHERE ReceiverRow IS NOT NULL ORDER BY 1, 2")
    assert former
    carried(site, 10**6)
    site.publish_all()
    assert at_auditor(site.box.auditor.records).keys() >= {job.job_id for job in jobs(20)}
    path = pathlib.Path(site.settings.places.publishing_database)
    assert list(path.parent.glob(f"publishing.db.before-schema-{PUBLISHING_SCHEMA}.*"))
