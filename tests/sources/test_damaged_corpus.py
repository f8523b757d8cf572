"""
Every file of a batch system or of Sonar among the tests' data, damaged in 200 ways: it costs what it touches.

A part of a file is a line, or an object of JSON. One is removed, doubled, cut, or one of its values is replaced by an
odd one; the jobs of all other parts must come out the same, to the byte. A few of the ways are tried each time, with
fixed seeds; ``ARCACCT_ALL_DAMAGE=1`` tries all of them.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import pytest

from arcacct.errors import InputError
from arcacct.files.json_reader import Objects
from arcacct.records.import_quarantine import Fault
from arcacct.records.runs import SourceType
from arcacct.sources.gridengine.accounting_file import read_lines
from arcacct.sources.htcondor.importer import SOURCE as HTCONDOR
from arcacct.sources.lsf.importer import SOURCE as LSF
from arcacct.sources.pbs.importer import SOURCE as PBS
from arcacct.sources.slurm.importer import SOURCE as SLURM
from arcacct.sources.slurm.sacct import OutputForm
from arcacct.sources.sonar.envelopes import Dropped, TelemetryStream
from arcacct.sources.sonar.fields import RejectedObject

pytestmark = pytest.mark.campaign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = pathlib.Path(__file__).parent.parent / "data"
WAYS = 200
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
    """So many parts a damage of one touches: HTCondor's history has an ad's end behind it."""

    def text(self, parts: list[bytes]) -> bytes:
        """A file of some parts."""
        return self.before + self.between.join(parts) + self.after


def runs_of(source: SourceType[Any], form: Any, data: bytes) -> Counter[str]:
    """The runs of a source with one record each."""
    found: Counter[str] = Counter()
    try:
        for one in source.read([data], form):
            if isinstance(one.what, source.run_type):
                found[repr(one.what)] += 1
    except InputError:
        # What came before is good.
        pass
    return found


def records_of(data: bytes) -> Counter[str]:
    """The records of Grid Engine."""
    lines = data.splitlines(keepends=True)
    return Counter(repr(one) for _, one in read_lines(lines) if not isinstance(one, Fault))


def envelopes_of(data: bytes) -> Counter[str]:
    """The envelopes of Sonar."""
    stream = TelemetryStream()
    found = (one for last in (False, True) for one in stream.feed(b"" if last else data, final=last))
    return Counter(repr(one) for one in found if not isinstance(one, RejectedObject | Dropped))


def objects(text: str) -> Iterator[str]:
    """The objects of a file, one behind the other."""
    stream = Objects(r"[ \t\r\n,]*", r"^(?=\{)", 1 << 24)
    for one in (*stream.feed(text), *stream.feed("", final=True)):
        if one.value is not None:
            yield stream.text


def corpora() -> Iterator[tuple[str, Callable[[], Corpus]]]:
    """Every file, by name."""
    folders = ("cases", "gridengine", "htcondor", "lsf", "pbs", "slurm", "sonar")
    for path in sorted(path for folder in folders for path in (DATA / folder).iterdir() if path.is_file()):
        made = _maker(path)
        if made is not None:
            yield f"{path.parent.name}/{path.name}", made


def _maker(path: pathlib.Path) -> Callable[[], Corpus] | None:
    name, folder = path.name, path.parent.name
    of_lines: SourceType[Any] | None = {"pbs": PBS, "lsf": LSF, "htcondor": HTCONDOR}.get(folder)
    is_telemetry = folder == "sonar" or (folder == "cases" and (name.endswith(".jsonl") or name == "x1.json"))
    made: Callable[[], Corpus] | None = None
    if name.startswith(("README", "expected", "apel", "qacct", "sinfo", "sreport", "sacct-default", "real-sacct")):
        made = None
    elif of_lines is HTCONDOR and name == "history":
        made = partial(_history, path)
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
    return Corpus(parts, partial(runs_of, HTCONDOR, HTCONDOR.form), marks=(b"\n", b" = "), reach=2)


def _lines(path: pathlib.Path, read: Callable[[bytes], Counter[str]], marks: tuple[bytes, ...]) -> Corpus:
    lines = path.read_bytes().splitlines(keepends=True)
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


def _sacct_json(path: pathlib.Path) -> Corpus:
    jobs = [json.dumps(one).encode() for one in json.loads(path.read_bytes())["jobs"]]
    form = OutputForm(cluster="c")
    return Corpus(jobs, lambda data: runs_of(SLURM, form, data), b'{"jobs": [', b"]}", between=b",\n")


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
    way = chance.choice(("removed", "doubled", "cut", "value", "value", "value", "value", "value"))
    if way == "removed":
        return way, parts[:place] + parts[place + 1 :], (place,)
    if way == "doubled":
        # The same again is the same.
        return way, [*parts[:place], part, *parts[place:]], ()
    if way == "cut":
        body = part.rstrip(b"\n")
        # Behind a hole in one document of JSON nothing can be told from what is missing.
        behind = range(place, len(parts)) if corpus.after else range(place, min(place + corpus.reach, len(parts)))
        return (
            way,
            [*parts[:place], body[: chance.randrange(len(body) + 1)] + b"\n", *parts[place + 1 :]],
            tuple(behind),
        )
    odd = chance.choice(ODD)
    changed = _with_value(chance, part, corpus.marks, odd)
    return (
        f"{odd!r:.40}",
        [*parts[:place], changed, *parts[place + 1 :]],
        tuple(range(place, min(place + corpus.reach, len(parts)))),
    )


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
