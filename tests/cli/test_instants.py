"""Times and periods as people write them, one way for every command."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed import arcacct

from arcacct.cli.main import COMMANDS
from arcacct.cli.main import arcacct as root
from arcacct.cli.options import PERIODS, Parsed, period_of, qacct_seconds, seconds_of

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
    """A time without its year is of this year, which began already where the clocks are ahead."""
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
def test_other_times_beside_those_of_qacct(text) -> None:
    """Every other form is left to those who read it everywhere."""
    assert qacct_seconds(text, NOW, UTC) is None


@given(st.datetimes(datetime(1971, 1, 1), datetime(9990, 1, 1)), st.sampled_from(["month", "week", "year"]))
def test_periods_follow_each_other_without_gap(moment, kind) -> None:
    """This period has the moment, and the last one ends where it begins."""
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
        if re.fullmatch("TIME|WHEN|YYYY-MM|MONTH|WEEK|YEAR", param.metavar or "")
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
