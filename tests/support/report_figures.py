"""What `arcacct report` writes as CSV."""

from __future__ import annotations

import csv
import pathlib

import pytest
from in_process import said


def figures(capture: pytest.CaptureFixture[str], conf: object, *options: object) -> dict[tuple[str, str, str], str]:
    """By section, key and metric: the values of the CSV."""
    path = pathlib.Path(str(conf)).parent / "report.csv"
    done = said(capture, "--config", conf, "report", *options, "--csv", path)
    assert done.returncode == 0, done.stderr
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {(row["section"], row["key"], row["metric"]): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found
