"""What an administrator of APEL exports of its tables: as the client of MariaDB prints the views."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from arcacct.sandbox.apel import APEL, LoadedRecord, key

NAMES = [
    r"/CN=Ana Mar\xC3\xADa",
    r"/CN=back\slash\\twice\tab\new\0zero",
    '"/CN=starts with a quote',
    '/CN="quoted", with a comma',
    r"\N",
    "/CN=it's; a 'name' | 100 %",
]
"""Of users, as APEL has them: ASCII, because messages have nothing else."""
FOREIGN = [
    "/CN=a\u2028b", "/CN=a\x85b", "/CN=a\fb\vc", "/CN=a\tb\nc\\d", "/CN=carriage\rreturn\r", '"', '""/CN=a', "\\N",
    "NULL", "", "/CN=\u00d6z\U0001f600",
]  # fmt: skip
"""Of other CEs' users: whatever a column can hold."""

_TIMES = {"StartTime", "EndTime", "EarliestEndTime", "LatestEndTime"}
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\0": "\\0"})


def export(apel: APEL, folder: pathlib.Path) -> list[str]:
    """The rows of VJobRecords, VSummaries and VNormalisedSummaries, a file each; those without rows are left out."""
    tables = {"jobs": apel.job_records, "summaries": apel.summaries, "normalised": apel.normalised_summaries}
    written = []
    for name, table in tables.items():
        if table:
            path = folder / f"{name}.tsv"
            path.write_text(batch(*exported([*table.values()])), encoding="utf-8", newline="")
            written.append(str(path))
    return written


def exported(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str | None]]]:
    """The names of the columns, and each row as the database prints it; ``None``: NULL."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = ([stored(row).get(name) for name in names] for row in rows)
    return names, [[None if cell is None else str(cell) for cell in row] for row in cells]


def batch(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """The output of `mariadb --batch`."""
    cells = (["NULL" if cell is None else cell.translate(_ESCAPED) for cell in row] for row in rows)
    return "".join("\t".join(line) + "\n" for line in [names, *cells])


def put(apel: APEL, table: str, row: Mapping[str, Any]) -> None:
    """Have a row in one of APEL's tables that another program sent, or that was sent before everything was lost."""
    apel._tables[table][key(LoadedRecord(table, dict(row)))] = dict(row)


def stored(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the sandbox's APEL as its database has it: times as text."""
    return {
        name: time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(value)) if name in _TIMES and value is not None else value
        for name, value in row.items()
    }
