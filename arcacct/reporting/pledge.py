"""
What a site has promised to its VOs, from a file of the site's: ``vo,from,hours,kind``.

Hours a month, from a month (YYYY-MM) on until another line of the same VO and kind begins.
"""

from __future__ import annotations

import csv
import math
import re
from typing import NamedTuple

from arcacct.errors import InputError
from arcacct.publishing.ledger_rows import Month

HEADER = ("vo", "from", "hours", "kind")
KINDS = {"core": "core_hours", "cpu": "cpu_hours", "hs06": "hs06_hours", "hepscore23": "hepscore23_hours"}
"""What can be promised, and the column of usage that it is compared with."""
_LARGEST_BYTES = 2**20
_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


class Pledge(NamedTuple):
    """What is promised to a VO in a month."""

    vo: str
    kind: str
    hours: float


def pledges(path: str, month: Month) -> list[Pledge]:
    """
    The pledges that hold in a month, by VO and kind; a first line with the names of the columns may stand there.

    Empty lines and lines that begin with # are passed over. Raises InputError with the number of a line that is wrong.
    """
    found: dict[tuple[str, str], tuple[Month, float]] = {}
    lines = set[tuple[str, str, Month]]()
    for number, fields in _lines(path):
        vo, begins, hours, kind = fields
        match = _MONTH.fullmatch(begins)
        if match is None:
            raise _wrong(path, number, f"{begins!r} is not a month; write it like 2026-11")
        if kind not in KINDS:
            raise _wrong(path, number, f"{kind!r} is not a kind of hours; write one of {', '.join(KINDS)}")
        if not vo:
            raise _wrong(path, number, "no VO is named; write its name in the first column")
        start = int(match[1]), int(match[2])
        amount = _hours(hours)
        if amount is None:
            raise _wrong(path, number, f"{hours!r} is not an amount; write hours a month, as 120000")
        if (vo, kind, start) in lines:
            raise _wrong(path, number, f"VO {vo!r} has a pledge of {kind} from {begins} already; remove one of both")
        lines.add((vo, kind, start))
        known = found.get((vo, kind))
        if start <= month and (known is None or known[0] < start):
            found[vo, kind] = start, amount
    return [Pledge(vo, kind, amount) for (vo, kind), (_start, amount) in sorted(found.items())]


def _lines(path: str) -> list[tuple[int, list[str]]]:
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        place = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{place}: not UTF-8; write the file anew as UTF-8") from error
    if len(content) > _LARGEST_BYTES:
        raise InputError(f"{path}: larger than 1 MiB; a pledge file has a line for each VO and change")
    found: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in next(csv.reader([line]))]
        if not found and tuple(field.lower() for field in fields) == HEADER:
            continue
        if len(fields) != len(HEADER):
            raise _wrong(path, number, f"{len(fields)} columns; write {','.join(HEADER)}, as atlas,2026-04,120000,core")
        found.append((number, fields))
    return found


def _hours(text: str) -> float | None:
    try:
        hours = float(text)
    except ValueError:
        return None
    return hours if math.isfinite(hours) and hours >= 0 else None


def _wrong(path: str, number: int, text: str) -> InputError:
    return InputError(f"{path}:{number}: {text}")
