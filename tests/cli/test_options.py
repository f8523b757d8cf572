"""An option that several commands have means the same for each of them."""

from __future__ import annotations

import pathlib
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import click
import commands_page
import conf_files
import in_process
import pytest
from control_directory import set_up
from hypothesis import given
from hypothesis import strategies as st
from installed import arcacct
from stored_jobs import add, job

from arcacct.cli.main import COMMANDS, FORMER
from arcacct.cli.main import arcacct as root
from arcacct.cli.options import PERIODS, Parsed, period_of, qacct_seconds, seconds_of
from arcacct.cli.tables import FORMATS
from arcacct.config.parser import load
from arcacct.config.paths import places
from arcacct.database.access import open_accounting

PLANS = {
    "sweep": ["sweep"],
    "switch": ["switch"],
    "publish": ["publish"],
    "republish": ["republish", "--from", "2026-01", "--to", "2027-01"],
    "db benchmark": [
        "db",
        "benchmark",
        "--from",
        "2026-01",
        "--to",
        "2027-01",
        "--replace",
        "HEPSPEC:12.26",
        "--as",
        "HEPSPEC:12",
    ],
    "db forget": ["db", "forget", "/DC=org/CN=User 0"],
    "db prune": ["db", "prune", "--before", "2026-10"],
}
"""A command line of each command that shows what it would do."""
ASKS = {
    **{path: PLANS[path] for path in ("db benchmark", "db forget", "db prune")},
    "db move": ["db", "move", "{folder}/elsewhere"],
    "db restore": ["db", "restore", "{folder}/backup/accounting.db"],
    "import rejected": ["import", "rejected", "--drop-all"],
    "quarantine decide": ["quarantine", "decide", "--as", "reported", "--month", "2026-05"],
    "quarantine drop": ["quarantine", "drop", "--all"],
}
"""
A command line of each command that asks for confirmation, and needs --yes without a terminal; `setup` and `switch` need
another site (`test_setup`, `test_switch`).
"""
RANGES = {
    "republish": ["republish"],
    "stats": ["stats", "--by", "month"],
    "fleet stats": ["fleet", "stats", "/none", "--by", "month"],
    "db benchmark": ["db", "benchmark"],
}
"""A command line of each command with a range of time."""


def commands_with(flag: str) -> dict[str, click.Option]:
    """Each command that has an option, by its words."""
    found = {}
    for ctx in commands_page.contexts():
        for one in ctx.command.params:
            if isinstance(one, click.Option) and flag in one.opts and not one.hidden:
                found[ctx.command_path.removeprefix("arcacct ")] = one
    return found


@pytest.fixture
def site(tmp_path: pathlib.Path) -> str:
    """The configuration of a CE with a target, a job and one that is held, and nothing published."""
    target = f"[arcacct/directory:d]\npath={tmp_path}/outgoing\ngocdb_name=SITE\napel_messages=individual\n"
    arc = f"[common]\nhostname=ce.example.org\n[arex]\ncontroldir={set_up(tmp_path / 'control')}\n[lrms]\nlrms=slurm\n"
    (tmp_path / "outgoing").mkdir()
    conf = conf_files.write(tmp_path, target, arc)
    here = places(load(conf, {}))
    with closing(open_accounting(here)) as con:
        add(con, here, job(0), job(1)._replace(wall_s=100_000))
    return str(conf)


@pytest.mark.parametrize(
    ("former", "new"),
    [
        (("--month", "2026-05"), ("--from", "2026-05", "--to", "2026-06")),
        (("--week", "2026-W19"), ("--from", "2026-W19", "--to", "2026-W20")),
        (("--year", "last"), ("--from", "last-year", "--to", "this-year")),
    ],
    ids=" ".join,
)
def test_a_former_option_does_the_same_and_says_what_to_write(
    former: tuple[str, ...], new: tuple[str, ...], site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line on stderr; no help and no completion shows it."""
    before, after = (
        in_process.said(capsys, "--config", site, "stats", "--by", "vo", *words) for words in (former, new)
    )

    assert (before.returncode, before.stdout) == (after.returncode, after.stdout) == (0, after.stdout)
    line, rest = before.stderr.split("\n", 1)
    assert re.fullmatch(rf"{former[0]} is deprecated; write `--from .*", line)
    assert rest == after.stderr
    assert former[0] not in in_process.said(capsys, "stats", "--help").stdout
    assert former[0] not in commands_with(former[0])


@pytest.mark.parametrize("words", FORMER)
def test_former_words_run_and_are_not_shown(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a line on stderr for all but arcctl's, which stay; the line is not in the help."""
    done = in_process.said(capsys, *words.split(), "--help")

    new = FORMER[words].new
    assert (done.returncode, done.stderr) == (0, f"`{words}` is deprecated; write {new}\n" if new else "")
    assert f"arcacct {FORMER[words].runs.partition(' -')[0]} " in done.stdout
    assert words not in {ctx.command_path.removeprefix("arcacct ") for ctx in commands_page.contexts()}


def state(site: str) -> list[object]:
    """The jobs as they are recorded, the messages in the ledger and those of the target."""
    here = places(load(site, {}))
    found: list[object] = [str(path) for path in sorted(pathlib.Path(site).parent.joinpath("outgoing").rglob("*"))]
    with closing(sqlite3.connect(here.database)) as con:
        found += con.execute("SELECT * FROM v1_jobs ORDER BY job_id")
    if pathlib.Path(here.publishing_database).exists():
        with closing(sqlite3.connect(here.publishing_database)) as con:
            found += con.iterdump()
    return found


def test_a_plan_has_the_same_two_names_everywhere() -> None:
    """It is one switch, which says that nothing changes, nothing is sent or nothing is written."""
    found = commands_with("--plan")
    assert found.keys() == commands_with("--dry-run").keys() == PLANS.keys()
    for path, option in found.items():
        assert (option.opts, option.is_flag, option.default in (None, False)) == (
            ["--plan", "--dry-run"],
            True,
            False,
        ), path
        assert re.search("; (change|send|write) nothing.$", option.help or ""), path


@pytest.mark.parametrize("path", PLANS)
def test_a_plan_changes_nothing_also_without_a_question(
    path: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By either name; --yes answers a question, and does not turn a plan into the act."""
    before = state(site)
    yes = ["--yes"] if path in commands_with("--yes") else []
    told = []
    for words in (["--plan"], ["--dry-run"], ["--plan", *yes]):
        done = in_process.said(capsys, "--config", site, *PLANS[path], *words)
        told.append((done.returncode, re.sub("[0-9]+", "N", done.stdout + done.stderr)))
        assert state(site) == before, words
    assert len({*told}) == 1
    if path in ("publish", "db benchmark"):
        in_process.said(capsys, "--config", site, *PLANS[path], *yes)
        assert state(site) != before


def test_yes_is_the_same_answer_everywhere() -> None:
    """A switch, whose help says when the command asks."""
    for path, option in commands_with("--yes").items():
        assert option.is_flag, path
        assert re.fullmatch(r"(With --[-a-z]+( or --[-a-z]+)*: d|D)o not ask for confirmation\.", option.help or ""), (
            path
        )


@pytest.mark.parametrize("path", ASKS)
def test_a_question_needs_a_terminal_or_yes(path: str, site: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without both nothing changes. Only `republish` does not ask then, as its page of the manual says."""
    assert commands_with("--yes").keys() == ASKS.keys() | {"republish", "setup", "switch"}
    folder = pathlib.Path(site).parent
    for words in (["publish"], ["db", "backup", folder / "backup"]):
        in_process.said(capsys, "--config", site, *words)
    before = state(site)
    command = [word.format(folder=folder) for word in ASKS[path]]
    done = in_process.said(capsys, "--config", site, *command)
    assert (done.returncode, state(site)) == (64, before), done.stderr
    assert done.stderr.endswith("not a terminal: pass --yes to proceed\n")


def test_a_format_is_one_of_the_same_words_everywhere() -> None:
    """Its first word is for people, and rows as CSV are there also for a spreadsheet."""
    for path, option in commands_with("--format").items():
        assert isinstance(option.type, click.Choice), path
        words = option.type.choices
        assert {*words} <= {*FORMATS, "text", "nagios", "qacct"}, path
        assert (option.name, option.default) == ("form", words[0]), path
        assert words[0] in ("table", "text", "qacct"), path
        assert ("csv" in words) == ("spreadsheet" in words), path


def test_a_range_of_time_is_the_same_everywhere() -> None:
    """--from and --to are times, and a command has both."""
    found = commands_with("--from")
    assert found.keys() == commands_with("--to").keys() == RANGES.keys()
    for path, option in [*found.items(), *commands_with("--to").items()]:
        assert (option.metavar, isinstance(option.type, Parsed) and option.type.name) == (None, "time"), path


@pytest.mark.parametrize("path", RANGES)
def test_a_range_that_ends_before_it_starts_is_an_error(
    path: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same way for a text that is no time."""
    for first, last in (("2026-11", "2026-10"), ("teatime", "2026-10"), ("2026-10", "teatime")):
        done = in_process.said(capsys, "--config", site, *RANGES[path], "--from", first, "--to", last)
        assert (done.returncode, done.stdout) == (64, ""), done.stderr


# Times and periods as people write them, one way for every command.


NOW = int(datetime(2026, 11, 23, 15, 4, 5, tzinfo=UTC).timestamp())
"""A Monday."""


def utc(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp())  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "seconds"),
    {
        "2026": utc(2026, 1, 1),
        "2026-10": utc(2026, 10, 1),
        "2026-W45": utc(2026, 11, 2),
        "2026-11-20": utc(2026, 11, 20),
        "20261120": utc(2026, 11, 20),
        "2026-11-20T10:30": utc(2026, 11, 20, 10, 30),
        "2026-11-20 10:30:07Z": utc(2026, 11, 20, 10, 30, 7),
        "2026-11-20T11:30+01:00": utc(2026, 11, 20, 10, 30),
        "202611201030": utc(2026, 11, 20, 10, 30),
        "202611201030.07": utc(2026, 11, 20, 10, 30, 7),
        "20261120103007Z": utc(2026, 11, 20, 10, 30, 7),
        "202611201130+01:00": utc(2026, 11, 20, 10, 30),
        "1795170600": 1_795_170_600,
        "@1795170600": 1_795_170_600,
        "@7": 7,
        "now": NOW,
        "today": utc(2026, 11, 23),
        "Yesterday": utc(2026, 11, 22),
        "-7d": NOW - 7 * 86_400,
        "+2h": NOW + 7_200,
        "-30min": NOW - 1_800,
        "-2w": NOW - 14 * 86_400,
        "2 weeks ago": NOW - 14 * 86_400,
        "1 hour ago": NOW - 3_600,
        "45 minutes ago": NOW - 2_700,
        "this-month": utc(2026, 11, 1),
        "Last month": utc(2026, 10, 1),
        "last-week": utc(2026, 11, 16),
        "this-year": utc(2026, 1, 1),
    }.items(),
)
def test_each_form_is_the_moment_that_it_says(text, seconds, monkeypatch) -> None:
    """Whatever the host's zone, a time is UTC or of the offset that is written, and relative ones count from now."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")

    assert seconds_of(text, NOW) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tea",
        "202613200000",
        "2026-13",
        "2026-W54",
        "-7",
        "-7m",
        "7d",
        "next-month",
        "last-day",
        "-999999d",
        "2 fortnights ago",
        "²026",
        "0000",
        "9" * 19,
        "2026-11-20T25:00",
        "202611201030+9900",
        "last",
        "2026-11-20T10:30 Europe/Oslo",
    ],
)
def test_anything_else_is_refused(text) -> None:
    """What is no time is no time, and no other error."""
    with pytest.raises((ValueError, OverflowError)):
        seconds_of(text, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    {
        "11201030": utc(2026, 11, 20, 10, 30),
        "2611201030": utc(2026, 11, 20, 10, 30),
        "7011201030": utc(1970, 11, 20, 10, 30),
        "6911201030.59": utc(2069, 11, 20, 10, 30, 59),
        "202611201030": utc(2026, 11, 20, 10, 30),
        "1711112233": utc(2017, 11, 11, 22, 33),
        "202611201030.07": utc(2026, 11, 20, 10, 30, 7),
    }.items(),
)
def test_times_of_qacct(text, seconds) -> None:
    """Eight, ten or twelve digits are a time of day in its zone, and never seconds since 1970."""
    hours_2 = timezone(timedelta(hours=2))

    assert qacct_seconds(text, NOW, UTC) == seconds
    assert qacct_seconds(text, NOW, hours_2) == seconds - 7_200


def test_the_year_of_qacct_is_that_of_the_zone() -> None:
    """A time without its year is of this year, which started already where the clocks are ahead."""
    new_year = utc(2026, 12, 31, 23)
    ahead = timezone(timedelta(hours=2))

    assert qacct_seconds("01010000", new_year, UTC) == utc(2026, 1, 1)
    assert qacct_seconds("01010000", new_year, ahead) == utc(2026, 12, 31, 22)


@pytest.mark.parametrize("text", ["1795168200", "11312500", "202611311030", "202611201030.60", "20261120", "1120"])
def test_no_time_of_qacct(text) -> None:
    """What has the digits of such a time, and is none, is nothing else either."""
    with pytest.raises(ValueError):  # noqa: PT011  whatever it says
        qacct_seconds(text, NOW, UTC)


@pytest.mark.parametrize(
    "text", ["@1795170600", "179517060", "2026", "2026-11-20", "-7d", "202611201030Z", "+112010300"]
)
def test_other_times_next_to_those_of_qacct(text) -> None:
    """Every other form is left to those who read it everywhere."""
    assert qacct_seconds(text, NOW, UTC) is None


@given(st.datetimes(datetime(1971, 1, 1), datetime(9990, 1, 1)), st.sampled_from(["month", "week", "year"]))
def test_periods_follow_each_other_without_gap(moment, kind) -> None:
    """This period has the moment, and the last one ends where it starts."""
    now_s = int(moment.replace(tzinfo=UTC).timestamp())

    begin, before = period_of(kind, "this", now_s)
    assert begin <= now_s < before
    assert period_of(kind, "last", now_s)[1] == begin


@pytest.mark.parametrize(
    ("kind", "text", "first", "days"),
    [
        ("month", "2026-10", (2026, 10, 1), 31),
        ("month", "last", (2026, 10, 1), 31),
        ("month", "2028-02", (2028, 2, 1), 29),
        ("week", "2026-W45", (2026, 11, 2), 7),
        ("week", "this", (2026, 11, 23), 7),
        ("week", "last", (2026, 11, 16), 7),
        ("year", "2028", (2028, 1, 1), 366),
        ("year", "LAST", (2025, 1, 1), 365),
    ],
)
def test_a_period_is_as_long_as_the_calendar_says(kind, text, first, days) -> None:
    """Months, ISO weeks and years, by name or as seen from now."""
    begin = datetime(*first, tzinfo=UTC)

    assert period_of(kind, text, NOW) == (begin.timestamp(), (begin + timedelta(days=days)).timestamp())


@pytest.mark.parametrize(("kind", "text"), [("month", "2026"), ("week", "2026-11"), ("year", "9999"), ("year", "next")])
def test_a_period_of_another_kind_is_refused(kind, text) -> None:
    """A month is no year; and the calendar ends."""
    with pytest.raises((ValueError, OverflowError)):
        period_of(kind, text, NOW)


def test_every_command_reads_times_in_the_same_way() -> None:
    """Whatever option of any command is a TIME or a month has one of the types of this parser."""

    def params(command: click.Command, name: str) -> list[tuple[str, click.Parameter]]:
        if isinstance(command, click.Group):
            ctx = click.Context(command)
            below = [(word, command.get_command(ctx, word)) for word in command.list_commands(ctx)]
            return [one for word, found in below if found for one in params(found, f"{name} {word}")]
        return [(name, param) for param in command.params]

    found = [
        (name, param)
        for name, param in params(root, "arcacct")
        if re.fullmatch("(?i)TIME|WHEN|YYYY-MM|MONTH|WEEK|YEAR", param.metavar or param.type.name)
    ]

    assert len(found) > 15
    assert COMMANDS
    assert [
        (name, param.name)
        for name, param in found
        if not isinstance(param.type, Parsed) or param.type.name not in ("time", *PERIODS)
    ] == []


def test_what_is_no_time_names_every_form() -> None:
    """A mistake ends with 64 and what can be written."""
    done = arcacct("stats", "--from", "teatime")

    assert done.returncode == 64
    assert "'teatime' is not a time; write 2026-11-20, 2026-11-20T10:30 (UTC;" in done.stderr
