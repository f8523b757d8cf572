"""Names that users choose reach the terminal of whoever asks about their jobs: nothing in them may steer it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import arex_corpus as corpus
import pytest
import terminal
from campaigns import sample
from installed import ARCACCT
from publishing_site import DIRECTORY, Job, Site

TITLE = "\x1b]0;owned\x07"
CLEAR = "\x1b[2J\x1b[H"
CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x1b\\"
NAME = f"run{TITLE}{CLEAR}{CLIPBOARD}\x9b31m\u202etxt\nforged line\u2028\x7f end"
SHOWN = r"run\x1b]0;owned\x07\x1b[2J\x1b[H\x1b]52;c;cm0gLXJmIC8=\x1b\\x9b31m\u202etxt\nforged line\u2028\x7f end"


@pytest.fixture
def site(tmp_path):
    """A site with a job whose every name is hostile, and a target in which it is counted."""
    (tmp_path / "outgoing").mkdir()
    made = Site(tmp_path, None, DIRECTORY)
    made.send(Job("one", name=NAME, user_dn=f"/CN={NAME}", vo=NAME, fqan=f"/{NAME}", queue=NAME), Job("two"))
    return made


def piped(site: Site, *arguments: str) -> tuple[str, str]:
    """What a command prints for another program: stdout and stderr."""
    command = [ARCACCT, "--config", str(site.path / "arc.conf"), *arguments]
    done = subprocess.run(command, capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})
    return done.stdout.decode(), done.stderr.decode()


def on_a_terminal(site: Site, *arguments: str) -> str:
    """What reaches the terminal of a person who gives a command."""
    command = [ARCACCT, "--config", str(site.path / "arc.conf"), *arguments]
    return terminal.on_a_terminal(command, {"PATH": "/usr/bin:/bin"})


def steers(text: str) -> list[str]:
    """What in a text steers a terminal, but for the colours, erased lines and bars that are ours."""
    text = re.sub(r"\x1b\[(?:0|1|3[0-9])m|\r|\x1b\[K|\x1b\[\?25[lh]", "", text)
    return [letter for letter in text if not (letter.isprintable() or letter in "\n\t")]


QUESTIONS = [
    ("job", "info", "one"),
    ("job", "--only", "why", "one"),
    ("stats", "-o", "users"),
    ("stats", "-o", "wlcgvos"),
    ("stats", "--by", "user,vo,queue"),
    ("stats", "--by", "user", "--format", "csv"),
    ("stats", "--by", "user", "--format", "json"),
    ("query", "SELECT * FROM v1_jobs"),
    ("query", "--format", "csv", "SELECT * FROM v1_jobs"),
    ("query", "--format", "json", "SELECT * FROM v1_jobs"),
    ("quarantine", "list"),
    ("status",),
    ("verify", "2024-06"),
]


@pytest.mark.parametrize("question", sample(QUESTIONS, 6), ids=" ".join)
def test_nothing_steers_the_terminal_of_who_asks(site, question) -> None:
    """Titles, cleared screens, clipboards, turned lines: all of it is shown in letters, and on one line."""
    seen = on_a_terminal(site, *question)

    assert seen
    assert steers(seen) == []
    assert "\nforged line" not in seen


@pytest.mark.parametrize(
    "question", [("job", "info", "one"), ("stats", "-o", "users"), ("job", "--only", "why", "one")]
)
def test_a_script_reads_one_line_for_each_name(site, question) -> None:
    """In a pipe, too, a name is one line, and every character of it can be told."""
    out, _err = piped(site, *question)

    # arcctl shows names as A-REX stores them.
    assert SHOWN in out or SHOWN.replace(r"\n", "%0a") in out
    assert "\nforged" not in out


def test_formats_for_programs_have_the_name_itself(site) -> None:
    """CSV and JSON in a pipe hold what was recorded, character for character; JSON nothing that steers a terminal."""
    sql = "SELECT job_name FROM v1_jobs WHERE job_id = 'one'"
    in_csv, _err = piped(site, "query", "--format", "csv", sql)
    in_json, _err = piped(site, "query", "--format", "json", sql)

    assert list(csv.reader(io.StringIO(in_csv, newline=""))) == [["job_name"], [NAME]]
    assert json.loads(in_json) == [{"job_name": NAME}]
    assert steers(in_json) == []


@pytest.mark.parametrize(
    "question",
    sample(
        [
            ("job", "info", "one"),
            ("job", "--only", "why", "one"),
            ("job", "--only", "why", "two"),
            ("stats", "-o", "users"),
            ("stats", "--by", "user"),
            ("verify", "2024-06"),
        ],
        3,
    ),
    ids=" ".join,
)
def test_a_name_that_is_no_utf8_is_reported_as_far_as_it_can_be(site, question) -> None:
    """Bytes that somebody's program wrote into our tables hide no job, and no command calls them damage."""
    with closing(sqlite3.connect(site.settings.places.database)) as con, con:
        con.execute("INSERT INTO Users (Name) VALUES (CAST(x'2f434e3d4aff72' AS TEXT))")
        con.execute("UPDATE AAR SET UserID = (SELECT max(ID) FROM Users) WHERE JobID = 'one'")
    out, err = piped(site, *question)
    assert err == ""
    assert "two" not in question or "job two" in out
    assert question[0] == "verify" or "two" in question or "/CN=J\ufffdr" in out

    theirs = str(site.settings.places.database)
    if question[0] != "verify" and question[1] != "why":
        assert piped(site, "--database", theirs, *question) == (out, err)


def test_an_import_names_hostile_jobs_in_letters(site, tmp_path) -> None:
    """What `import arex` leaves out or finds different is told on the terminal without its own words' effects."""
    theirs = tmp_path / "accounting.db"
    with closing(sqlite3.connect(theirs)) as con:
        con.executescript((corpus.AREX / "accounting.sql").read_text())
        con.execute("UPDATE AAR SET JobID = JobID || ?", (NAME,))
        con.execute("UPDATE AAR SET EndTime = 0, SubmitTime = 0 WHERE RecordID % 2")
        con.commit()

    seen = on_a_terminal(site, "import", "arex", str(theirs), "--timezone", "UTC")

    assert "records read" in seen
    assert steers(seen) == []


def test_a_terminal_of_another_alphabet_is_no_error(site) -> None:
    """Where stdout has no sign for a letter it is shown by its number."""
    site.record(Job("three", user_dn="/CN=数据"))
    # Not by the installed program: no variable of Python's has a say there, and no machine has such a locale for sure.
    program = [sys.executable, "-c", "from arcacct.cli.main import main; main()"]
    command = [*program, "--config", str(site.path / "arc.conf"), "stats", "-o", "users"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "iso8859-1"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)

    assert done.returncode == 0, done.stderr
    assert rb"/CN=\u6570\u636e" in done.stdout


def test_a_traceback_has_no_secrets_and_no_effects(site) -> None:
    """--debug shows where an error came from, and that is all."""
    seen = on_a_terminal(site, "--debug", "--config", "/nowhere/\x1b]0;x\x07", "publish")

    assert "Traceback" in seen
    assert steers(seen) == []


def test_completion_offers_no_name_that_steers(site) -> None:
    """A shell puts what it completes on the command line: only names that can be typed are offered."""
    environment = {
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "_ARCACCT_COMPLETE": "bash_complete",
        "COMP_WORDS": f"arcacct --config {site.path}/arc.conf stats --filter-user /CN=",
        "COMP_CWORD": "5",
        "COMP_LINE": "",
    }
    done = subprocess.run([ARCACCT], capture_output=True, check=False, env=environment)

    assert steers(done.stdout.decode()) == []
