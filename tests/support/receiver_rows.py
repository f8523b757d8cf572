"""What an administrator of APEL exports of its tables: as the MySQL client prints the views."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Mapping
from typing import Any

from arcacct.sandbox.apel import APEL


def export(apel: APEL, folder: pathlib.Path) -> list[str]:
    """The rows of VJobRecords, VSummaries and VNormalisedSummaries, a file each; those without rows are left out."""
    tables = {"jobs": apel.job_records, "summaries": apel.summaries, "normalised": apel.normalised_summaries}
    return [_written(folder / f"{name}.tsv", [*table.values()]) for name, table in tables.items() if table]


def _written(path: pathlib.Path, rows: list[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["\t".join(_shown(name, row.get(name)) for name in names) for row in rows]
    path.write_text("\n".join(["\t".join(names), *lines]) + "\n")
    return str(path)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "NULL"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(value)) if name in {"StartTime", "EndTime"} else str(value)
