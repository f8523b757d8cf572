"""
Every file of a batch system or of Sonar among the tests' data, damaged in 200 ways: it costs what it touches.

A part of a file is a line, or an object of JSON. One is removed, doubled, cut, loses a line or some bytes of its
middle, or one of its bytes or values is replaced by an odd one; the jobs of all other parts must come out the same, to
the byte, also those behind it in the same document. A few of the ways are tried each time, with fixed seeds;
``ARCACCT_ALL_DAMAGE=1`` tries all of them.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from arcacct.errors import InputError
from arcacct.files.json_reader import Objects
from arcacct.sources.engine.runs import SourceType
from arcacct.sources.gridengine.importer import SOURCE as GRIDENGINE
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR
from arcacct.sources.lsf.importer import SOURCE as LSF
from arcacct.sources.pbs.importer import SOURCE as PBS
from arcacct.sources.slurm.importer import SOURCE as SLURM
from arcacct.sources.slurm.sacct import OutputForm
from arcacct.sources.sonar.envelopes import Dropped, TelemetryStream
from arcacct.sources.sonar.fields import RejectedObject

pytestmark = pytest.mark.campaign


DATA = pathlib.Path(__file__).parent.parent / "data"
WAYS = 200
CHUNK = 64 * 1024
TRIED = WAYS if os.environ.get("ARCACCT_ALL_DAMAGE") else 40
ODD = (
    *("", " ", "0", "-1", "1", "0.5", "2000.5", "1e20", "1e999", "nan", "inf", "-0", "00", "9" * 40, "4294967294"),
    *("4294967295", "9223372036854775808", "18446744073709551614", "16E", "1.2G", "-00:00:01", "Unknown", "INVALID"),
    *("None assigned", "\0", "\t", "a b", '"', "'", "\\", "|", ":", ";", "\x1b[2J", "żółć", "x" * 5000),
)


class Corpus(NamedTuple):
    """A file as parts, and how it is read."""

    parts: list[bytes]
    """All of the file, one behind the other. What stands before the first job is no part, but `before`."""
    read: Callable[[bytes], Counter[str]]
    """The jobs as texts that have all their values."""
    before: bytes = b""
    after: bytes = b""
    marks: tuple[bytes, ...] = ()
    """What stands between the values of a part; none: JSON."""
    between: bytes = b""
    owner: Callable[[bytes], str] = lambda _part: "\0"
    """What the texts of the jobs have that a part may be of, whether or not it decides anything."""
    reach: int = 1
    """So many parts a damage of the end of one touches: HTCondor's history has an ad's end behind it."""
    is_long: bool = False
    """Whether a part is of several lines or of many values, so that it may lose some of its middle."""

    def text(self, parts: list[bytes]) -> bytes:
        """A file of some parts."""
        return self.before + self.between.join(parts) + self.after


def runs_of(source: SourceType[Any], form: Any, data: bytes) -> Counter[str]:
    """The runs of a source with one record each."""
    found: Counter[str] = Counter()
    try:
        for one in source.read([data[at : at + CHUNK] for at in range(0, len(data), CHUNK)], form):
            if isinstance(one.what, source.run_type):
                found[repr(one.what)] += 1
    except InputError:
        # What came before is good.
        pass
    return found


def records_of(data: bytes) -> Counter[str]:
    """The records of Grid Engine."""
    found = (one.what for one in GRIDENGINE.read([data], GRIDENGINE.form))
    return Counter(repr(one._replace(line=0)) for one in found if isinstance(one, GRIDENGINE.run_type))


def envelopes_of(data: bytes) -> Counter[str]:
    """The envelopes of Sonar."""
    stream = TelemetryStream()
    found = (one for last in (False, True) for one in stream.feed(b"" if last else data, final=last))
    return Counter(repr(one) for one in found if not isinstance(one, RejectedObject | Dropped))


def objects(text: str) -> Iterator[str]:
    """The objects of a file, one behind the other."""
    stream = Objects(r"[ \t\r\n,\[\]]*", r"^(?=\{)", 1 << 24)
    for last in (False, True):
        # Its text is that of the object that came last.
        yield from (stream.text for one in stream.feed("" if last else text, final=last) if one.value is not None)


def corpora() -> Iterator[tuple[str, Callable[[], Corpus]]]:
    """Every file, by name."""
    folders = ("cases", "gridengine", "htcondor", "lsf", "pbs", "slurm", "sonar")
    for path in sorted(path for folder in folders for path in (DATA / folder).iterdir() if path.is_file()):
        made = _maker(path)
        if made is not None:
            yield f"{path.parent.name}/{path.name}", made
            if isinstance(made, partial) and made.func is _sacct_json:
                yield f"{path.parent.name}/{path.name} as Slurm prints it", partial(made, is_printed=True)


def _maker(path: pathlib.Path) -> Callable[[], Corpus] | None:
    name, folder = path.name, path.parent.name
    of_lines: SourceType[Any] | None = {"pbs": PBS, "lsf": LSF, "htcondor": HTCONDOR}.get(folder)
    is_telemetry = folder == "sonar" or (folder == "cases" and (name.endswith(".jsonl") or name == "x1.json"))
    made: Callable[[], Corpus] | None = None
    if name.startswith(("README", "expected", "apel", "qacct", "sinfo", "sreport", "sacct-default", "real-sacct")):
        made = None
    elif of_lines is HTCONDOR and name == "history":
        made = partial(_history, path)
    elif of_lines is HTCONDOR and name in ("json.txt", "long.txt"):
        made = partial(_ads, path)
    elif of_lines is not None and name != "README.md" and (of_lines is not HTCONDOR or name == "jsonl.txt"):
        marks = {"pbs": (b" ", b"="), "lsf": (b" ",)}.get(folder, ())
        made = partial(_lines, path, partial(runs_of, of_lines, of_lines.form), marks)
    elif folder == "gridengine" or name.endswith(".acc"):
        made = partial(_lines, path, records_of, () if name.endswith(".jsonl") else (b":",))
    elif is_telemetry:
        made = partial(_json_objects, path, envelopes_of)
    elif folder in ("cases", "slurm"):
        made = partial(_sacct_json if name.endswith(".json") else _sacct_table, path)
    return made


def _history(path: pathlib.Path) -> Corpus:
    """A history file of HTCondor: each ad with the line behind it."""
    parts = re.findall(rb".*?\n\*\*\* [^\n]*\n", path.read_bytes(), re.DOTALL)
    return Corpus(parts, partial(runs_of, HTCONDOR, HTCONDOR.form), marks=(b"\n", b" = "), reach=2, is_long=True)


def _ads(path: pathlib.Path) -> Corpus:
    """What condor_history prints: with -long a blank line behind each ad, with -json one list."""
    data, read = path.read_bytes(), partial(runs_of, HTCONDOR, HTCONDOR.form)
    if path.name == "long.txt":
        ads = re.findall(rb".*?\n\n", data, re.DOTALL)
        return Corpus(ads, read, marks=(b"\n", b" = "), reach=2, is_long=True)
    parts = [f"{one}\n".encode() for one in objects(data.decode())]
    return Corpus(parts, read, b"[\n", b"]\n", between=b",\n", is_long=True)


def _lines(path: pathlib.Path, read: Callable[[bytes], Counter[str]], marks: tuple[bytes, ...]) -> Corpus:
    data = path.read_bytes()
    # A text of LSF may have line ends.
    is_lsf = path.parent.name == "lsf"
    lines = re.split(rb'(?m)^(?="[A-Z_]+" ")', data)[1:] if is_lsf else data.splitlines(keepends=True)
    return Corpus(lines, read, marks=marks)


def _sacct_table(path: pathlib.Path) -> Corpus:
    header, *lines = path.read_bytes().splitlines(keepends=True)
    mark = next(one for one in (b"\x1f", b";|;", b"|") if one in header)
    columns = header.rstrip().split(mark)
    read = partial(runs_of, SLURM, OutputForm(cluster="c"))
    place = columns.index(b"JobIDRaw") if b"JobIDRaw" in columns else len(columns)

    def owner(part: bytes) -> str:
        # A name with line ends makes several lines of one row.
        number = (part.split(mark)[place:] or [b"-"])[0].partition(b".")[0]
        return f"job_id={number.decode()}, "

    return Corpus(lines, read, before=header, marks=(mark,), owner=owner)


def _sacct_json(path: pathlib.Path, *, is_printed: bool = False) -> Corpus:
    form = OutputForm(cluster="c")
    jobs = json.loads(path.read_bytes())["jobs"]
    if is_printed:
        parts = [re.sub("^", "    ", json.dumps(one, indent=2), flags=re.MULTILINE).encode() + b"\n" for one in jobs]
    else:
        parts = [json.dumps(one).encode() for one in jobs]
    before, after = b'{"jobs": [', b'], "errors": []}'
    return Corpus(parts, partial(runs_of, SLURM, form), before, after, between=b",\n", is_long=True)


def _json_objects(path: pathlib.Path, read: Callable[[bytes], Counter[str]]) -> Corpus:
    return Corpus([f"{one}\n".encode() for one in objects(path.read_text(encoding="utf-8"))], read)


FILES = dict(corpora())


@pytest.mark.parametrize("name", FILES)
def test_damage_costs_what_it_touches(name) -> None:
    corpus = FILES[name]()
    whole = corpus.read(corpus.text(corpus.parts))
    own: dict[int, Counter[str]] = {}
    for number in range(TRIED):
        chance = random.Random(f"{name} {number}")
        place = chance.randrange(len(corpus.parts))
        way, parts, touched = _damaged(chance, corpus, place)
        others = whole.copy()
        for one in touched:
            if one not in own:
                without = whole - corpus.read(corpus.text(corpus.parts[:one] + corpus.parts[one + 1 :]))
                of_part = corpus.owner(corpus.parts[one])
                own[one] = without | Counter({job: count for job, count in whole.items() if of_part in job})
            others -= own[one]
        missing = others - corpus.read(corpus.text(parts))
        assert not missing, f"{way} in part {place}: {len(missing)} other jobs are not what they were: {missing}"


def _damaged(chance: random.Random, corpus: Corpus, place: int) -> tuple[str, list[bytes], tuple[int, ...]]:
    """A way of damage, the parts with it, and which parts it touches."""
    parts, part = corpus.parts, corpus.parts[place]
    inside = ("line removed", "hole", "byte") if corpus.is_long else ()
    way = chance.choice(("removed", "doubled", "cut", *inside, *["value"] * 5))
    if way == "removed":
        return way, parts[:place] + parts[place + 1 :], (place,)
    if way == "doubled":
        # The same again is the same.
        return way, [*parts[:place], part, *parts[place:]], ()
    body = part.rstrip(b"\n")
    touched = tuple(range(place, min(place + corpus.reach, len(parts))))
    if way == "cut":
        changed = body[: chance.randrange(len(body) + 1)] + b"\n"
    elif way in inside:
        changed, touched = _without(chance, way, part, is_json=not corpus.marks), (place,)
    else:
        odd = chance.choice(ODD)
        way, changed = f"{odd!r:.40}", _with_value(chance, part, corpus.marks, odd)
    return way, [*parts[:place], changed, *parts[place + 1 :]], touched


def _without(chance: random.Random, way: str, part: bytes, *, is_json: bool) -> bytes:
    """A part that lacks something of its middle: of lines, their last one, which ends the part, is none of it."""
    lines = part.splitlines(keepends=True)
    if way == "line removed":
        # Of an object of one line half of the line is gone.
        at = chance.randrange(len(lines) - 1 + is_json)
        return b"".join([*lines[:at], *lines[at + 1 :]]) if len(lines) > 1 else part[: len(part) // 2]
    text = part if is_json else b"".join(lines[:-1]).removesuffix(b"\n")
    start = chance.randrange(len(text) - 1)
    if way == "byte":
        changed = text[:start] + chance.choice((b"\xff", *map(bytes, zip(b'\0"{}[],\n')))) + text[start + 1 :]
    else:
        changed = text[:start] + text[start + chance.randrange(1, len(text) - start) :]
    return changed + part[len(text) :]


def _with_value(chance: random.Random, part: bytes, marks: tuple[bytes, ...], odd: str) -> bytes:
    body = part.rstrip(b"\n")
    if marks:
        mark = chance.choice(marks)
        values = body.split(mark)
        values[chance.randrange(len(values))] = odd.encode()
        return mark.join(values) + part[len(body) :]
    try:
        value = json.loads(body)
    except ValueError:
        return odd.encode() + part[len(body) :]
    return json.dumps(_with_leaf(chance, value, odd)).encode() + part[len(body) :]


def _with_leaf(chance: random.Random, value: Any, odd: str) -> Any:
    if isinstance(value, dict) and value:
        key = chance.choice(sorted(value))
        return value | {key: _with_leaf(chance, value[key], odd)}
    if isinstance(value, list) and value:
        place = chance.randrange(len(value))
        return [*value[:place], _with_leaf(chance, value[place], odd), *value[place + 1 :]]
    try:
        return chance.choice((odd, json.loads(odd), None))
    except ValueError:
        return odd
