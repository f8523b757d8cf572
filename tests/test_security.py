"""SECURITY.md: each giver of input has promises, and each promise has tests, which are there."""

from __future__ import annotations

import re

import manual
import pytest

READERS = {
    *(
        "arex",
        "config",
        "database",
        "export",
        "files",
        "fleet",
        "publishing",
        "records",
        "reports",
        "sandbox",
        "targets",
    ),
    *(f"sources/{name}" for name in ("features", "gridengine", "htcondor", "slurm", "sonar")),
}
"""Folders of the package that read what others wrote."""


def promises() -> list[tuple[str, str, tuple[str, ...]]]:
    """Giver, promise and tests of each row."""
    text = (manual.ROOT / "SECURITY.md").read_text(encoding="utf-8")
    part = manual.between(text, "## What arcacct reads, and what it promises\n", "## Owners and permissions\n")
    found = []
    for section in re.split(r"^### ", part, flags=re.MULTILINE)[1:]:
        giver, _, body = section.partition("\n")
        rows = [line for line in body.splitlines() if line.startswith("| ")][1:]
        assert rows, f"{giver}: no promise"
        for row in rows:
            promise, tests = row.strip("| ").rsplit(" | ", 1)
            found.append((giver, promise, tuple(re.findall(r"`(tests/[^`]+)`", tests))))
    return found


def test_each_promise_has_tests() -> None:
    """A sentence without one is no promise."""
    assert [promise for _, promise, tests in promises() if not tests] == []


@pytest.mark.parametrize("name", sorted({name for _, _, tests in promises() for name in tests}))
def test_the_test_of_a_promise_is_there(name: str) -> None:
    """Whoever renames or removes a test changes the promise as well."""
    file, _, function = name.partition("::")

    assert re.search(rf"^def {function}\(", (manual.ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_each_reader_has_a_promise() -> None:
    """Each folder that reads what others wrote, and the portal."""
    tests = {name.removeprefix("tests/") for _, _, some in promises() for name in some}
    named = {name.rpartition("/")[0] for name in tests}
    named |= {name.partition("/")[0] for name in named if not name.startswith("sources/")}

    assert named >= READERS
    assert "etc/test_datasette.py::test_what_is_not_a_view_or_a_query_is_forbidden" in tests
    assert all((manual.ROOT / "arcacct" / name).is_dir() for name in READERS)
