"""`arcacct job info|events|transfers`: what arcctl printed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import arex_corpus as corpus
import pytest
from installed import arcacct

from arcacct.database.access import read_accounting
from arcacct.queries import arcctl
from arcacct.queries.arcctl import arcctl_record
from arcacct.records.reader import find_job

EXPECTED = corpus.AREX / "expected" / "jobs"
FILES = sorted(path.name for path in EXPECTED.iterdir())
# The table of differences: our events are UTC from one set of children, and a job without headnode is recorded whole.
DIFFERENT = {corpus.names()[name] for name in ("internal", "flaky", "oddurl", "hookexp-fail-FINISHING")}


def printed(name: str) -> str:
    """What arcctl printed, without the lines of its log."""
    lines = (EXPECTED / name).read_text().splitlines(keepends=True)
    return "".join(line for line in lines if "[ARCCTL.Accounting]" not in line)


def answer(con: sqlite3.Connection, name: str) -> str:
    """What we print for a file of the corpus."""
    job_id, what, form = name.split(".")
    record = arcctl_record(con, find_job(con, job_id).record_id)
    if form == "json":
        return json.dumps(record) + "\n"
    lines = {"info": lambda: arcctl.info(record, "all"), "events": lambda: arcctl.events(record)}
    return "".join(f"{line}\n" for line in lines.get(what, lambda: arcctl.transfers(record))())


@pytest.fixture(scope="module")
def arex() -> Iterator[sqlite3.Connection]:
    """A-REX's own database, to be read alone."""
    with closing(corpus.arex_database()) as con:
        yield con


@pytest.mark.parametrize("name", FILES)
def test_each_answer_is_what_arcctl_printed(arex, name) -> None:
    """Asked of A-REX's own tables, info, events and transfers of each job are the same bytes."""
    assert answer(arex, name) == printed(name)


def test_our_database_answers_alike(unchanged) -> None:
    """Of ours, resources, runtime environments and transfers of each job are the same, but for intended differences."""
    wrong = []
    with closing(read_accounting(corpus.place(unchanged.control))) as con:
        for name in FILES:
            job_id, what, form = name.split(".")
            present = con.execute("SELECT count(*) FROM AAR WHERE JobID = ?", (job_id,)).fetchone()[0]
            if job_id in DIFFERENT or form == "json" or what == "events" or not present:
                continue
            if answer(con, name) != printed(name):
                wrong.append(name)

    assert wrong == []


@pytest.mark.parametrize("part", ["description", "resources", "rtes", "authtokens"])
def test_a_part_is_what_the_whole_has(arex_file, part) -> None:
    """-o PART prints the lines that stand in the whole under its title, without their indentation."""
    job_id = corpus.names()["multicore"]

    lines = arcacct("--database", arex_file, "job", "info", "-o", part, job_id).stdout.splitlines()

    whole = [line.strip() for line in printed(f"{job_id}.info.txt").splitlines()]
    assert lines
    assert {line.strip() for line in lines} <= set(whole)


@pytest.mark.parametrize("name", ["27647", "mGsLDmZi"], ids=["local-id", "prefix"])
def test_a_job_is_found_by_what_one_has_at_hand(arex_file, name) -> None:
    """The batch system's id, or how the job's id starts, finds the job."""
    done = arcacct("--database", arex_file, "job", "events", name)

    assert done.stdout == printed(f"{corpus.names()['multicore']}.events.txt")


@pytest.mark.parametrize("section", ["info", "events", "transfers"])
def test_the_words_of_arcctl_are_those_of_a_section(arex_file, section) -> None:
    """With the same output, and no word about it: ARC has them."""
    by_section = arcacct("--database", arex_file, "job", "--only", section, "27647")
    by_arcctl = arcacct("--database", arex_file, "job", section, "27647")

    assert by_section.stdout == by_arcctl.stdout
    assert (by_arcctl.returncode, by_arcctl.stderr) == (0, by_section.stderr)
    assert "deprecated" not in by_arcctl.stderr


def test_a_job_is_shown_with_all_its_sections(unchanged) -> None:
    """The record and the transfers as arcctl prints them, then the history, which has the events."""

    def told(*words: str) -> str:
        done = arcacct("--config", unchanged.conf, "job", *words, corpus.names()["flaky"])
        assert done.returncode == 0, done.stderr
        return done.stdout

    info, moved, history = (told("--only", section) for section in ("info", "transfers", "why"))

    assert moved
    assert told() == f"{info}{moved}\n{history}"
    assert json.loads(told("--format", "json")) == {
        "info": json.loads(told("--only", "info", "--format", "json")),
        "why": history.splitlines(),
    }


def test_the_former_word_for_the_history_says_what_to_write(unchanged) -> None:
    """In a line on stderr, with the same answer."""
    job_id = corpus.names()["multicore"]
    now, then = (arcacct("--config", unchanged.conf, "job", *words, job_id) for words in (("--only", "why"), ("why",)))

    assert (now.returncode, then.returncode, then.stdout) == (0, 0, now.stdout)
    assert then.stderr == f"`job why` is deprecated; write `job JOBID`, or `job --only why JOBID`\n{now.stderr}"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--format", "csv"), "--format csv needs --only events or --only transfers"),
        (("--only", "info", "--format", "spreadsheet"), "--format spreadsheet needs --only events"),
        (("--only", "events", "--sent"), "--sent needs the section why"),
        (("-o", "json"), "-o needs --only info"),
    ],
)
def test_what_a_section_does_not_have_is_refused(arex_file, options, complaint) -> None:
    """64, and why."""
    done = arcacct("--database", arex_file, "job", *options, "27647")

    assert (done.returncode, done.stdout, complaint in done.stderr) == (64, "", True)


def test_a_job_without_transfers_says_so_on_stderr(arex_file) -> None:
    """Arcctl's complaint goes to stderr, and nothing to stdout."""
    job_id = corpus.names()["multicore"]

    done = arcacct("--database", arex_file, "job", "transfers", job_id)

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"arcacct: There are no data transfers registered for job {job_id}\n"


def test_what_gives_access_in_the_url_of_a_file_is_not_shown() -> None:
    """A-REX's table keeps the URL as the job gave it; `arcacct job` shows where the file was, and no signature."""
    with closing(corpus.arex_database()) as con:
        con.execute("UPDATE DataTransfers SET URL = 'https://ada:s3cret@se.example.org/f?X-Amz-Signature=s3cret'")
        record_id, moved = con.execute("SELECT RecordID, count(*) FROM DataTransfers GROUP BY RecordID").fetchone()
        record = arcctl_record(con, record_id)

    assert [one["url"] for one in record["DataTransfers"]] == ["https://se.example.org/f"] * moved


def test_a_job_in_progress_has_no_accounting_yet() -> None:
    """A job that is not finished gets arcctl's one line."""
    with closing(corpus.arex_database()) as con:
        con.execute("INSERT OR IGNORE INTO Status (Name) VALUES ('in-progress')")
        con.execute("UPDATE AAR SET StatusID = (SELECT ID FROM Status WHERE Name = 'in-progress') WHERE RecordID = 1")
        record = arcctl_record(con, 1)

    assert arcctl.unfinished(record) == (
        f"Job {record['JobID']} (submitted on {record['SubmitTime']}) is not finished yet. "
        "Accounting data is not available yet."
    )
