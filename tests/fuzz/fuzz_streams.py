"""
What others write at length: streams of telemetry, ads of HTCondor as text and as JSON, ``sacct --json`` and its tables.

Whatever it is, time and memory are in proportion to it, the objects of a stream are the same however it is divided, and
what is good behind it is read.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

from fuzz.cost import in_proportion, repeated
from htcondor_files import JSON as ADS
from htcondor_files import ad
from slurm_files import COLUMNS, JSON, row

from arcacct.errors import InputError
from arcacct.files.json_reader import Objects, parsed
from arcacct.sources.htcondor.classad import read as read_ads
from arcacct.sources.slurm.sacct import OutputForm
from arcacct.sources.slurm.sacct import read as read_sacct
from arcacct.sources.sonar.envelopes import TelemetryStream
from arcacct.sources.sonar.fields import RejectedObject

_JOB = json.dumps(json.loads(JSON.read_text(encoding="utf-8"))["jobs"][27])
_AD = json.dumps(json.loads(ADS.read_text(encoding="utf-8"))[0])
_GOOD = '{"meta": {"producer": "sonar"}, "data": {"type": "job", "attributes": {"time": "2026-11-20T11:00:00Z"}}}'
_JSON_UNITS = (
    *('{"a":[\n', '{"meta":[', '{"meta":[{},\n', "{},\n", "[],", "[", "]", "{", "}", '{"a":', "1,", "x", '"', '\\"'),
    *("\\", "\n", "\n{", '{"a":"so', '{"meta":"', '{"a": 1}\n', _GOOD, _GOOD + "\n", _GOOD[:40], _JOB, _JOB + ","),
    *(f"{_AD},\n", f"\n{_AD}\n", "9", "-1e5,", "NaN,", "null,", "\\u00e9", "é", "\0", '"steps": [', '{"jobs": [', ", "),
    *(
        '"jobs": [',
        '"errors": [], ',
        f'{{"n":{"9" * 5_000},',
        f'{{"d":{"[" * 1_200}{"]" * 1_200}}}\n',
        '{"e": 1, "f": [',
    ),
)
_AD_UNITS = (
    *(
        ad(),
        ad(7),
        ad() + "\n",
        '*** Offset = 0 Owner = "x"\n',
        "*** ",
        "a",
        'a = "',
        "a = ",
        '"',
        '\\"',
        "\\",
        "=",
        "\n",
    ),
    *(
        " ",
        "\t",
        'Owner = "bob"\n',
        'Owner = "',
        "A = 1\n",
        "ClusterId = 1\n",
        'GlobalJobId = "x#1"\n',
        "x\n",
        "\0",
        "é",
    ),
    *(
        "{ 1, 2 }",
        "[ b = 1; ]",
        "1",
        ".",
        "e9",
        "undefined\n",
        "'q' = 1\n",
        ad()[:77],
        "*** Offset = 77 ClusterId = 2\n",
    ),
)
_TABLE_UNITS = (
    *(
        row() + "\n",
        row(7) + "\n",
        row("7.batch") + "\n",
        "|",
        "x",
        "\n",
        "\r\n",
        "1|",
        row()[:40],
        "\0",
        "é",
        " ",
        "9",
    ),
    *(
        row(8, NodeList="n[1-99999]") + "\n",
        row(9, NodeList=",".join(["n[1-99999]"] * 50)) + "\n",
        row(3, JobName="a|b\nc"),
    ),
)
_KINDS = {"sonar": _JSON_UNITS, "ads": _JSON_UNITS, "history": _AD_UNITS, "sacct": _JSON_UNITS, "table": _TABLE_UNITS}
_BEGINS = r"^(?=\{)|(?=\{\s*\"meta\"\s*:)"
_SHORT = 3_000
"""Characters of what is compared with the simplest reading of it, which is quadratic."""


def made(chance: random.Random) -> dict[str, bytes]:
    kind = chance.choice(sorted(_KINDS))
    text = repeated(chance, _KINDS[kind])
    begin = {"sacct": '{"jobs": [', "table": f"{COLUMNS}\n", "history": ad()}.get(kind, "")
    if begin and chance.random() < 0.8:
        text = begin + text
    return {
        "kind": kind.encode(),
        "text": text.encode(),
        "piece": b"%d" % chance.choice((1_000, 4_096, 65_536, 262_144)),
    }


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    data, kind = files["text"], files["kind"].decode()
    size = max(int(files["piece"]), len(data) // 1_000 + 1)
    with in_proportion(len(data)):
        found = _read(kind, _pieces(data, size))
    if kind in ("sonar", "ads"):
        with in_proportion(len(data)):
            assert found == _read(kind, [data]), "divided otherwise it is something else"
    text = data.decode()
    if kind == "sonar" and len(text) <= _SHORT and "[" * 1_000 not in text:
        stream = Objects(r"[ \t\r\n\ufeff\0]*", _BEGINS, 1 << 26)
        objects = [one.value for one in (*stream.feed(text), *stream.feed("", final=True)) if one.value is not None]
        assert str(objects) == str(_simply_read(text))
    with in_proportion(len(data)):
        try:
            parsed(data)
        except ValueError:
            return


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def _read(kind: str, pieces: Iterable[bytes]) -> list[str]:
    """What could be used of a source."""
    if kind == "sonar":
        stream = TelemetryStream()
        # A new line, or envelope, is found again whatever was before.
        ending = ("\n" + _GOOD + "\n").encode()
        came = [one for piece in (*pieces, ending) for one in stream.feed(piece)]
        came += stream.feed(b"", final=True)
        return [repr(one) for one in came if not isinstance(one, RejectedObject)]
    try:
        if kind in ("ads", "history"):
            return [repr(one.what) for one in read_ads(pieces, {"globaljobid", "owner"}) if isinstance(one.what, dict)]
        return [repr(one.what) for one in read_sacct(pieces, OutputForm())]
    except InputError as error:
        return [str(error)[:1_000]]


def _simply_read(text: str) -> list[Any]:
    """The objects of a text, each looked for from wherever one may begin."""
    found, place = [], 0
    decoder = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) <= 4_300 else float("nan"))
    while place < len(text):
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n\ufeff\0"))
        try:
            value, end = decoder.raw_decode(text, place) if text[place : place + 1] == "{" else (None, 0)
        except ValueError:
            end = 0
        if not end:
            following = re.compile(_BEGINS, re.MULTILINE).search(text, place + 1)
            place = following.start() if following else len(text)
        else:
            found.append(value)
            place = end
    return found
