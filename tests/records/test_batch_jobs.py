"""One job, as several batch systems and programs write its id."""

from __future__ import annotations

import pytest

from arcacct.config.paths import Validity
from arcacct.config.values import MapRule, NodeBenchmark
from arcacct.records.batch_jobs import (
    LocalID,
    Owner,
    accounted_to,
    contradict,
    exit_code,
    local_id,
    model_benchmark,
    same_host,
    spellings,
    tasks_of,
)


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


@pytest.mark.parametrize(
    ("group", "fqans"),
    [(None, ()), ("prod", ("/atlas/prod",)), ("/atlas/Role=pilot", ("/atlas/Role=pilot",))],
    ids=["none", "a name", "an FQAN"],
)
def test_the_group_of_a_map_line_is_an_fqan(group, fqans):
    """A name is a group of the VO; what has a slash in front is the FQAN itself. The first line that matches counts."""
    rules = [MapRule("group", "x*", "cms", None, None), MapRule("owner", "atl*", "atlas", group, "/CN=U")]

    found = accounted_to({"owner": "atl001", "group": "y"}, rules)

    assert found == Owner("atlas", "/CN=U", tuple(("mainfqan", fqan) for fqan in fqans))
    assert accounted_to({"owner": None, "group": "y"}, rules) == Owner()


@pytest.mark.parametrize(
    ("model", "end_time", "benchmark"),
    [
        ("AMD EPYC 7702", 86_399, "HEPscore23:9"),
        ("amd epyc 7702", 86_400, "HEPscore23:10"),
        ("AMD EPYC 9654", 86_400, None),
        ("Xeon", 86_399, None),
    ],
)
def test_the_benchmark_of_a_model_is_that_of_its_time(model, end_time, benchmark):
    """Both the model and the time must match, in any case of letters."""
    lines = [
        NodeBenchmark("*EPYC 7*", "HEPscore23:9", Validity(before="1970-01-02")),
        NodeBenchmark("*epyc 7*", "HEPscore23:10", Validity(first="1970-01-02")),
    ]

    assert model_benchmark(model, end_time, lines) == benchmark


@pytest.mark.parametrize(
    ("place", "schedd", "is_same"),
    [
        ("", "schedd.example.org", True),
        ("0", "schedd.example.org", True),
        ("condor", "schedd.example.org", True),
        ("Schedd.Example.org", "name@schedd.example.org", True),
        ("schedd", "schedd.example.org", True),
        ("schedd.example.org", "schedd", True),
        ("other", "schedd.example.org", False),
        ("schedd.other.org", "schedd.example.org", False),
    ],
)
def test_a_host_without_its_domain_is_the_same_host(place, schedd, is_same):
    """Two whole names must be equal."""
    assert same_host(place, schedd) is is_same


@pytest.mark.parametrize(
    ("status", "signal", "is_removed", "code"),
    [
        (0, None, False, 0),
        (3, 0, False, 3),
        (None, None, False, None),
        (0, 9, False, 265),
        (0, None, True, 15),
        (None, None, True, 15),
        (3, None, True, 3),
        (0, 9, True, 265),
    ],
)
def test_the_exit_code_is_that_of_arex(status, signal, is_removed, code):
    """A signal is that number plus 256, and no removed job has succeeded: 15 is SIGTERM."""
    assert exit_code(status, signal, is_removed=is_removed) == code
