"""`arcacct help`: the manual on a terminal, by page, command, exit code or word."""

from __future__ import annotations

import pathlib
import re

import manual_pages
import pytest
import terminal
from campaigns import sample
from in_process import answer
from installed import ARCACCT, arcacct

from arcacct.cli.main import main
from arcacct.cli.manual_pages import load
from arcacct.cli.manual_text import rendered
from arcacct.files import directories

MANUAL = load()


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """Ask the manual of `manual_pages`; the exit code, what is on stdout and on stderr."""

    def ask(*topic: str, columns: str = "80", **more: str) -> tuple[int, str, str]:
        manual_pages.write(tmp_path, **more)
        monkeypatch.setattr(directories, "_PACKAGE", str(tmp_path))
        monkeypatch.setenv("COLUMNS", columns)
        return answer(capsys, "help", *topic)

    return ask


def test_without_a_topic_all_pages_are_listed(ask) -> None:
    """By section, each with what to type and its title."""
    code, out, err = ask()

    assert (code, err) == (0, "")
    assert "\n\nHow to\n  install       Install on a CE\n  install-arc7  Install beside ARC 7\n" in out
    assert out.index("To begin") < out.index("How to") < out.index("Reference") < out.index("The project")


@pytest.mark.parametrize("topic", [("install",), ("howto/install",), ("Install",), ("tut",), ("reference/opt",)])
def test_a_page_by_its_name_or_how_it_starts(ask, topic) -> None:
    code, out, err = ask(*topic)

    assert (code, err) == (0, "")
    assert out.splitlines()[1].startswith("=====")


def test_words_of_a_name_may_be_apart(ask) -> None:
    assert ask("install", "arc7") == ask("install-arc7")


@pytest.mark.parametrize(("columns", "widest"), [("50", 50), ("200", 100), ("10", 40)])
def test_lines_are_as_long_as_the_terminal_is_wide(ask, columns, widest) -> None:
    """Not longer than one likes to read, nor so short that a word has no room."""
    _code, out, _err = ask("words", columns=columns)

    assert widest - 12 < max(map(len, out.splitlines())) <= widest


@pytest.mark.parametrize("topic", [("db", "init"), ("arcacct", "db", "init")])
def test_a_command_by_its_name(ask, topic) -> None:
    """Its own help, and the pages that speak of it."""
    code, out, err = ask(*topic)

    assert (code, err) == (0, "")
    assert out.startswith("Usage: arcacct db init [OPTIONS]\n\n  Create both databases")
    assert out.endswith("about it (arcacct help NAME):\n  install       Install on a CE\n")


def test_the_program_itself_is_a_command(ask) -> None:
    assert ask("arcacct")[1].startswith("Usage: arcacct [OPTIONS] COMMAND")


def test_a_page_that_is_called_as_a_command_is_shown(ask) -> None:
    """With where the help of the command is."""
    code, out, _err = ask("verify")

    assert code == 0
    assert out.startswith("`arcacct verify` is also a command: `arcacct verify --help`.\n\nVerify: do all agree\n=====")


@pytest.mark.parametrize("topic", ["69", "EX_UNAVAILABLE", "unavailable", "Exit code 69"])
def test_an_exit_code(ask, topic) -> None:
    """By number or name: its row, and where all of them are."""
    code, out, err = ask(topic)

    assert (code, err) == (0, "")
    assert "\n69" in re.sub("`", "", out)
    assert "a target refuses us (publishing (`arcacct help install`))" in out
    assert out.endswith("All of them: `arcacct help exit-codes`.\n")
    assert "75" not in out


def test_words_are_looked_for_in_all_pages(ask) -> None:
    """The section that answers them best is shown, with its page."""
    code, out, err = ask("the", "strongest")

    assert (code, err) == (0, "")
    assert out.startswith("Order\n-----\n")
    assert "\nThis is in `arcacct help words`.\n\nOther pages for 'the strongest' (arcacct help NAME):\n" in out


MESSAGES = """\
# Messages

The spool, the spool, and the spool.

## arcacct status

| subject | meaning | what to do |
|---|---|---|
| `database` | the spool is not here | look |
| `spool` | events in the spool | run `arcacct sweep` |
| `launcher spool` | no sweep reads it | name it |

## In A-REX's log

| message | what to do |
|---|---|
| `no room in the spool *` | free space |
| `other` | the spool |
"""


def results(out: str) -> list[str]:
    """The lines of the list below the best result."""
    return [line.strip() for line in out.partition("Other pages for")[2].splitlines()[1:] if line.startswith("  ")]


def test_a_subject_of_status_comes_before_all_other_text(ask) -> None:
    """The rows of its table; of another message the row alone."""
    pages = {"howto/a": "# A\n\nspool spool spool spool\n", "reference/messages": MESSAGES}
    code, out, err = ask("spool", **pages)

    assert (code, err) == (0, "")
    assert re.match(r"arcacct status\n-+\n\nsubject +meaning +what to do *\n[ -]+\n`spool` ", out)
    assert "`launcher spool`" in out
    assert "`database`" not in out
    assert results(out)[0].startswith("a ")
    code, out, err = ask("no", "room", "in", "the", "spool", "/x", **pages)
    assert (code, err) == (0, "")
    assert re.match(r"In A-REX's log\n-+\n\nmessage +what to do *\n[ -]+\n`no room in the spool \*` ", out)
    assert "`other`" not in out


def test_a_subject_of_status_is_shown_with_a_command_of_its_name(ask) -> None:
    _code, out, _err = ask("sweep", **{"reference/messages": MESSAGES.replace("`database`", "`sweep`")})

    assert out.startswith("Usage: arcacct sweep")
    assert "`sweep`" in out.partition("arcacct status\n")[2]


def test_at_most_ten_pages_are_listed(ask) -> None:
    """The one that says most of it is shown."""
    pages = {f"howto/p{number:02}": f"# Page {number}\n\n{'needle ' * (number + 1)}\n" for number in range(15)}
    code, out, err = ask("needle", **pages)

    assert (code, err) == (0, "")
    assert out.startswith("Page 14\n")
    assert [line.split()[0] for line in results(out)] == [f"p{number:02}" for number in range(13, 4, -1)]


def test_a_number_that_is_no_exit_code_is_said(ask) -> None:
    """It is not looked for in the text, where any table may have it."""
    code, out, err = ask("99", **{"howto/a": "# A\n\nAbove 99 percent.\n"})
    assert (code, out) == (64, "")
    assert "99 is not an exit code of arcacct; `arcacct help exit-codes` lists them" in err


def test_names_of_metrics_and_alerts_are_words(ask) -> None:
    """A word is found within a name: behind an underscore, and as a part that starts with a capital letter."""
    pages = {
        "reference/metrics": "# Metrics\n\n`arcacct_needle_files`\n",
        "reference/alerts": "# Alerts\n\n## ArcacctNeedleNotDrained\n\nText.\n",
        "howto/a": "# A\n\nForneedle.\n",
        "project/rules": "# Rules\n\n## The needle in the hay\n\nneedle needle\n",
    }
    _code, out, _err = ask("needle", **pages)
    assert out.startswith("Metrics\n")
    assert [line.split()[0] for line in results(out)] == ["alerts", "rules"]


@pytest.mark.parametrize(
    ("topic", "first"),
    [
        ("spool", "`spool`"),
        ("disk", "`disk`"),
        ("vanished", "`vanished`"),
        ("unmeasured", "Unmeasured jobs"),
        ("belong together", "belong together"),
    ],
)
def test_the_real_manual_answers_in_ten_results(topic, first) -> None:
    """What an operator sees in `status` or in an error is the first thing shown."""
    out = arcacct("help", *topic.split(), environment={"COLUMNS": "100"}).stdout

    assert first.lower() in out[:600].lower()
    assert len(results(out)) <= 9


PROBLEMS = {
    "howto/implausible": (
        "held",
        "job is held",
        "no wall time",
        "CPU time too high",
        "wall-beyond-life (wall_s 100000, at most 430)",
    ),
    "explanation/figures-that-do-not-fall": (
        "month is held",
        "nothing logged explains it",
        "wrong site name",
        "apel:egi: 2026-11 is held: 41 jobs published, 1 in the database now",
    ),
    "howto/care-of-the-database": (
        "lost database",
        "damaged database",
        "disk full",
        "queries are slow",
        "restore a backup",
        "accounting.db: database disk image is malformed; it is damaged or not a database",
        "the rows of AAR are intact, and only indexes are damaged, AAR_EndTime_IDX",
    ),
    "howto/republish": ("never published", "send a month again"),
    "howto/verify": ("does not verify", "verify says NO", "jobs missing at the portal"),
    "howto/before-it-goes-live": (
        "certificate expired",
        "permission denied",
        "firewall",
        "clock is wrong",
        "the certificate cannot be verified (certificate has expired)",
        "other users can replace files there; choose a directory of your own",
    ),
    "howto/set-aside": ("record refused", "rejected by SGAS"),
    "howto/benchmarks": (
        "no benchmark",
        "none is set, here or for a queue or a kind of node: jobs are published with HEPSPEC 1.0",
    ),
    "howto/switch-from-jura-ng": (
        "counted twice",
        "is a target of A-REX's jura-ng, which would publish in addition to arcacct",
    ),
    "howto/rejected-records": ("rejected import", "bad line in the accounting file"),
    "explanation/recording": ("spool fills up", "event is not recorded", "jobs vanished"),
    "howto/install": ("launcher cannot be started", "callouts missing"),
    "explanation/publishing": (
        "proxy",
        "publish times out",
        "the proxy rejects the connection (HTTP 403); check http_proxy",
    ),
    "howto/privacy": ("GDPR", "forget a user"),
    "howto/upgrade": (
        "downgrade",
        "schema version 33; this program supports 32: install the version of arcacct that created it, or a newer one",
    ),
    "reference/whose-job-it-is": ("wrong VO",),
    "explanation/what-can-be-lost": ("power cut",),
    "howto/rehearse": ("test without sending",),
    "howto/months-end": ("monthly report",),
    "howto/monitor": ("nagios",),
}
"""What an operator types, some of it the text of our own messages, by the page for this problem."""


@pytest.mark.parametrize(
    ("page", "phrase"), sample([(page, one) for page, phrases in PROBLEMS.items() for one in phrases], 12)
)
def test_a_problem_has_its_page_first(capsys, page, phrase) -> None:
    """Whichever of its sections is shown, it has text."""
    with pytest.raises(SystemExit) as raised:
        main(["help", *phrase.split()])

    assert raised.value.code == 0
    shown, _words, place = capsys.readouterr().out.partition("This is in `arcacct help ")
    assert place.startswith(f"{page.rpartition('/')[2]}`.")
    assert len(shown.rstrip().split("\n\n", 1)) == 2


@pytest.mark.parametrize("page", MANUAL.pages, ids=lambda page: page.name)
def test_every_heading_has_text(page) -> None:
    """A heading that only groups others is shown with them, down to the next of its level."""
    assert [section.heading for section in page.sections() if section.heading and not section.text.strip()] == []


def test_a_heading_of_others_is_shown_with_them(ask) -> None:
    """The search finds their text below its own heading."""
    text = "# Care\n\nTea.\n\n## Upkeep\n\n### Check\n\nCheck the kettle.\n\n### Tidy\n\nTidy up.\n\n## End\n\nDone.\n"

    _code, upkeep, _err = ask("upkeep", **{"howto/care": text})
    _code, kettle, _err = ask("kettle", **{"howto/care": text})

    assert "Check the kettle." in upkeep
    assert "Tidy up." in upkeep
    assert "Done." not in upkeep
    assert kettle.startswith("Check\n-----\n\nCheck the kettle.\n\nThis is in")


def test_a_beginning_of_several_names_lists_them(ask) -> None:
    code, out, _err = ask("inst")

    assert code == 0
    assert out.startswith("Pages whose names start with 'inst':\n  install       Install on a CE\n  install-arc7 ")


def test_an_option_may_be_looked_for(ask) -> None:
    code, out, _err = ask("--dry-run")

    assert code == 0
    assert "arcacct publish --dry-run" in out
    assert out.endswith("This is in `arcacct help install`.\n")


def test_what_is_nowhere_is_a_wrong_argument(ask) -> None:
    """With names that look like it, and what to do."""
    code, out, err = ask("tutroial")

    assert (code, out) == (64, "")
    assert "'tutroial': no page, command or exit code has this name, and no page has these words" in err
    assert "did you mean `arcacct help tutorial`? `arcacct help` lists all pages" in err


def test_without_its_pages_it_says_what_is_missing(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(directories, "_PACKAGE", str(tmp_path))
    with pytest.raises(SystemExit) as raised:
        main(["help"])

    assert raised.value.code == 74
    assert "the pages of the manual are missing; install arcacct again" in capsys.readouterr().err


def test_an_option_by_its_name(ask) -> None:
    """What stands below each heading that ends so, and on which page."""
    code, out, err = ask("settle")

    assert (code, err) == (0, "")
    assert out.startswith("arcacct settle\n--------------\n\nHow long a failed job is held back.\n\nThis is in")
    assert "\nsgas settle\n" in out
    assert out.count("This is in `arcacct help options`.") == 2


HOSTILE = """\
# Title\x1b]0;owned\x07

\x1b[2J text \u202e &#27;[2J &#x9b;31m `\x1b[H` [link](\x1b[31m.md) owned

    \x1b[2Jcode
"""


@pytest.mark.parametrize("topic", [("evil",), ("owned",), ()])
def test_nothing_in_pages_steers_the_terminal(ask, topic) -> None:
    """Whoever changed a page of an installation may have more to say than a page should."""
    code, out, _err = ask(*topic, **{"howto/evil": HOSTILE})

    assert code == 0
    assert "owned" in out
    assert [letter for letter in out if not (letter.isprintable() or letter == "\n")] == []


@pytest.mark.parametrize("topic", [("",), (" ", "")])
def test_what_is_empty_is_no_topic(ask, topic) -> None:
    assert ask(*topic) == ask()


def on_a_terminal(*arguments: str, lines: int, pager: str) -> str:
    """What reaches a terminal with so many lines."""
    environment = {"PATH": "/usr/bin:/bin", "COLUMNS": "80", "LINES": str(lines), "PAGER": pager, "TERM": "xterm"}
    return terminal.on_a_terminal([ARCACCT, *arguments], environment)


def test_a_long_page_goes_through_the_pager(tmp_path) -> None:
    """As git and man do it; one that has room is printed."""
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGER\ncat\n")
    pager.chmod(0o755)

    assert on_a_terminal("help", lines=10, pager=str(pager)).startswith("PAGER\n")
    assert not on_a_terminal("help", lines=1000, pager=str(pager)).startswith("PAGER\n")


def test_colours_are_for_terminals() -> None:
    """A heading is bold there, and nothing but letters in a pipe."""
    assert "\x1b[1mReference\x1b[0m" in on_a_terminal("help", lines=1000, pager="cat")
    assert "\x1b" not in arcacct("help").stdout


@pytest.mark.parametrize("page", sample(MANUAL.pages, 20), ids=lambda page: page.name)
def test_every_page_of_the_manual_is_shown(page) -> None:
    """By its name, with its title, and without the signs of Markdown, of HTML and of the site."""
    text = "\n".join("".join(piece.text for piece in line) for line in rendered(page, MANUAL, 80))

    assert MANUAL.named(MANUAL.topic(page)) == page
    assert text.splitlines()[0] == page.title
    assert "<!--" not in text
    assert not re.search(r"^(:::|!!!|\?\?\?|===? |\||#{1,6} )", text, re.MULTILINE)
    assert "](" not in re.sub(r"(?m)^ {4,}.*$|`[^`]*`", "", text)


def test_the_manual_that_is_installed_is_found(tmp_path: pathlib.Path) -> None:
    """From any directory, without a configuration and without a database."""
    done = arcacct("help", "exit-codes", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Exit codes\n")


def offered(*words: str) -> list[str]:
    """What bash is offered for the last word."""
    where = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    found = arcacct(environment={"_ARCACCT_COMPLETE": "bash_complete", **where}).stdout
    return [line.partition(",")[2] for line in found.splitlines() if line]


def test_topics_are_completed() -> None:
    """Pages and commands, and behind a group what is in it."""
    assert "exit-codes" in offered("arcacct", "help", "ex")
    assert "export" in offered("arcacct", "help", "ex")
    assert offered("arcacct", "help", "db", "mo") == ["move"]
    assert offered("arcacct", "help", "exit-codes", "x") == []
