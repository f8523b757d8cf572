"""
Lists of hosts as anybody may write them: of sacct, of Sonar, of sinfo.

A list is refused, or is at most 100,000 names, the same as those that it is compressed to; time and memory are in
proportion to its text, and to the names that one list may have.
"""

from __future__ import annotations

import json
import pathlib
import random

from fuzz.cost import in_proportion, repeated

from arcacct.records.slurm_formats import LARGEST_LIST, MalformedError, compress, expand, split

_UNITS = (
    *("n", "c1", "[1-3]", "[1]", "[08-11]", "[1-99999]", "[1-50000]", "[1-400]", "[1,2,5-9]", ",", "n[1-99999],", "a,"),
    *("1", "9999999999", "[", "]", "-", "[1-", "[3-1]", "[]", " ", "[[", "]]", "\n", "\0", "ö", "None", "(null)", "x1"),
    *("[1-999999999999999999]", "[000000000000000001-3]", "1,", "2-3,", ".fox", "host-12345678901234567890123,"),
)


def made(chance: random.Random) -> dict[str, bytes]:
    times = chance.choice((1, 1, 2, 300))
    ranges = [repeated(chance, _UNITS)[: 1_000_000 // times]] * times
    if times == 1:
        ranges += [repeated(chance, _UNITS)[:20_000] for _ in range(chance.choice((0, 2, 30)))]
    return {"list": json.dumps(ranges).encode()}


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    ranges = json.loads(files["list"])
    names: list[str] = []
    refused = ""
    # What one list may have costs as much as so many bytes.
    with in_proportion(len(files["list"]) + 10 * LARGEST_LIST):
        try:
            names = expand(ranges)
        except MalformedError as error:
            refused = str(error)
    assert len(refused) < 300, refused
    assert len(names) == len(set(names)) <= LARGEST_LIST
    with in_proportion(sum(map(len, names)) + 10 * LARGEST_LIST):
        text = compress(names)
        # A name that has a comma or a bracket is none that any list is made of.
        assert sorted(expand([text]) if text else []) == sorted(names)
    for one in ranges:
        with in_proportion(len(one)):
            assert ",".join(split(one)) == one
