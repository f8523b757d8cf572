"""A-REX's two ways to write a time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcacct.arex.job_facts import parse_instant

MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31))


@given(MOMENTS, st.sampled_from(["%Y%m%d%H%M%SZ", "%Y-%m-%dT%H:%M:%SZ"]))
def test_every_instant_is_the_one_of_the_calendar(moment: datetime, form: str) -> None:
    """Both forms give the seconds since 1970 that the calendar gives, in every year."""
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    # strftime would write the year 999 with three digits.
    text = moment.strftime(form.replace("%Y", f"{moment.year:04}"))

    assert parse_instant(text) == int(moment.timestamp())


@given(st.from_regex(r"[0-9]{4}(0[0-9]|1[0-3])[0-3][0-9]([01][0-9]|2[0-5])[0-6][0-9][0-5][0-9]Z", fullmatch=True))
def test_a_date_that_the_calendar_does_not_have_is_no_time(text: str) -> None:
    """Month 13, February 30 and hour 25 are refused exactly when the calendar refuses them."""
    try:
        wanted = int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())
    except ValueError:
        wanted = -1

    assert parse_instant(text) == (wanted if wanted >= 0 else None)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("20240229000000Z", 1709164800, id="leap day"),
        pytest.param("20000229235959Z", 951868799, id="leap day of a century that has one"),
        pytest.param("21000228235959Z", 4107542399, id="century without leap day"),
        pytest.param("19700101000000Z", 0, id="the beginning"),
        pytest.param("20161231235960Z", 1483228800, id="leap second"),
        pytest.param(" 20261119101431Z\r", 1795083271, id="blanks around"),
    ],
)
def test_the_days_that_are_easily_got_wrong(text: str, wanted: int) -> None:
    """Leap days, the leap second and the first second come out right."""
    assert parse_instant(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "Z", "20261119101431", "2026111910143Z", "20261119101431+0100", "21000229000000Z", "19691231235959Z",
     "\u0662\u0660261119101431Z", "2026-11-19", "now", "20261119101431ZZ", "-20261119101431Z", "0" * 5000],
)  # fmt: skip
def test_anything_else_is_no_time(text: str) -> None:
    """What is not exactly one of the forms is unknown, never a guess."""
    assert parse_instant(text) is None


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    """Any text at all gives a time or none."""
    found = parse_instant(text)

    assert found is None or 0 <= found < 2**63
