"""What `mutate.py` breaks, and what it lets stand: a break that changes nothing would be called unnoticed for ever."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest
from breaks import breaks_of, explained

ROOT = pathlib.Path(__file__).parent.parent
SOURCE = b'''"""Module."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from a import b


def f(x: int, y: int = 3) -> bool:
    """Doc, with a number: 1."""
    if x < y and not g(x):
        raise ValueError
    h(x)
    assert x > 1
    return x + y

QUERY = "SELECT a FROM \xc3\xa9 WHERE b = ? AND c <= 1"
'''


def test_each_break_is_one_line_that_differs() -> None:
    """Conditions, sums, numbers, statements and conditions of SQL; no annotation, docstring, import or assertion."""
    described = [one.described(SOURCE).removeprefix("m.py: ") for one in breaks_of("m.py", SOURCE)]
    query = 'QUERY = "SELECT a FROM \xe9 WHERE b = ? AND c <= 1"'

    assert sorted(described) == sorted(
        [
            "def f(x: int, y: int = 3) -> bool: -> def f(x: int, y: int = 4) -> bool:",
            "if x < y and not g(x): -> if not (x < y and not g(x)):",
            "if x < y and not g(x): -> if x < y or not g(x):",
            "if x < y and not g(x): -> if x < y and (g(x)):",
            "if x < y and not g(x): -> if x <= y and not g(x):",
            "raise ValueError -> pass",
            "h(x) -> pass",
            "return x + y -> return None",
            "return x + y -> return x - y",
            f"{query} -> {query.replace('b = ', 'b <> ')}",
            f"{query} -> {query.replace('AND', 'OR')}",
            f"{query} -> {query.replace('<=', '<')}",
        ]
    )


@pytest.mark.campaign
@pytest.mark.parametrize("module", ["arcacct/publishing/sent.py", "arcacct/records/usage.py"])
def test_what_is_broken_can_still_be_read(module) -> None:
    """A module that cannot be imported is noticed by any test, and says nothing of them."""
    source = (ROOT / module).read_bytes()
    breaks = breaks_of(module, source)

    assert len(breaks) > 20
    for one in breaks:
        assert ast.dump(ast.parse(one.applied(source))) != ast.dump(ast.parse(source)), one.described(source)


def test_the_parts_of_a_sample_are_the_sample() -> None:
    """Each break is in one of them, and the seed chooses the same ones again."""

    def listed(*options: str) -> list[str]:
        command = [sys.executable, ROOT / "tests/mutate.py", "arcacct/publishing/cursors.py", "--list", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    sample = listed("--sample", "7", "--seed", "5")
    parts = [listed("--sample", "7", "--seed", "5", "--slice", part) for part in ("1/2", "2/2")]

    assert [len(part) for part in parts] == [4, 3]
    assert sorted(one for part in parts for one in part) == sorted(sample)


def test_what_is_explained_is_still_there() -> None:
    """Each explained break has its reason, and is one of a line that the program has."""
    known = explained((ROOT / "tests/mutations_explained.txt").read_text())
    there = {
        one.described(source)
        for module in {line.partition(":")[0] for line in known}
        for source in [(ROOT / module).read_bytes()]
        for one in breaks_of(module, source)
    }

    assert known.keys() <= there
    assert all(known.values())
