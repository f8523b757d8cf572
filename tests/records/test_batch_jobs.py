"""One job, as several batch systems and programs write its id."""

from __future__ import annotations

import pytest

from arcacct.records.batch_jobs import LocalID, contradict, local_id, spellings, tasks_of


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("123", LocalID(123)),
        ("123.4", LocalID(123, 4)),
        ("123.0", LocalID(123)),
        ("123.ce.example.org", LocalID(123)),
        ("123[4]", LocalID(123, 4)),
        ("123[4].pbs", LocalID(123, 4)),
        ("123_4", LocalID(123, 4, is_element=True)),
        ("123_0", LocalID(123, 0, is_element=True)),
        ("123[0]", None),
        ("123[]", None),
        ("", None),
        (None, None),
        ("job-1", None),
        ("1" * 19, None),
        ("\u0661", None),
        ("007", None),
        ("0", None),
        ("123.04", None),
    ],
)
def test_forms(text, job):
    """Every form is read as what it is, and no other text as a number."""
    assert local_id(text) == job


@pytest.mark.parametrize(
    "text", ["123", "123.0", "123.4", "123.ce.example.org", "123[4]", "123[4].pbs", "123_4", "123_0"]
)
def test_each_form_is_among_the_spellings(text):
    """What is looked for in a column finds every form of the job, and no neighbour."""
    job = local_id(text)
    assert job is not None
    ranges = spellings(job)
    assert any(first <= text < behind for first, behind in ranges)
    others = {"12", "1230", "123.5", "123.40", "123[40]", "123[5]", "123_5", "123_40", "123.1", "1234"}
    assert not [one for one in others for first, behind in ranges if first <= one < behind]


def test_tasks_of_an_array():
    """All of them, and not the array."""
    first, behind = tasks_of(123)
    found = [one for one in ("123.1", "123.10", "123.999", "123", "123.ce", "124.1") if first <= one < behind]
    assert found == ["123.1", "123.10", "123.999"]


@pytest.mark.parametrize(
    ("one", "other", "are_different"),
    [
        ("123", "123.pbs", False),
        ("123.4", "123.4", False),
        ("123.4", "123.5", True),
        ("123", "123.4", False),
        ("123.4", "124.4", True),
        ("123_4", "123_5", True),
        ("123_4", "123", True),
        ("a.b", "a.c", False),
        ("a.b", "b.b", True),
    ],
)
def test_contradictions(one, other, are_different):
    """Two tasks of one array are two jobs; a host that is missing is no contradiction."""
    assert contradict(one, other) is contradict(other, one) is are_different
