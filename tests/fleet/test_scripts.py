"""The scripts for engines that read the dataset without us."""

from __future__ import annotations

import re

import pytest

from arcacct.dataset.columns import columns
from arcacct.dataset.layout import TABLES, Partition, part_name
from arcacct.dataset.manifest import Manifest, Part
from arcacct.resources import resource

SCRIPTS = {
    "postgresql": ("CREATE TABLE arcacct.{} (", r", PRIMARY KEY| \);", ("bigint", "double precision", "text")),
    "trino": ("EXISTS {}_files (", r" \) WITH", ("bigint", "double", "varchar")),
    "clickhouse": (
        "DATASET/{}/v1/site=*/year=*/month=*/ce=*/part-*.parquet', Parquet, '",
        "'",
        ("Int64", "Float64", "String"),
    ),
}
"""Where the columns of a table begin and end in each, and what it calls int64, double and string."""
KEYS = {"site", "year", "month", "ce"}


@pytest.mark.parametrize("engine", SCRIPTS)
def test_a_script_has_the_columns_of_the_dataset(engine) -> None:
    """Every one, in its order and of its type."""
    begin, end, types = SCRIPTS[engine]
    names = dict(zip(("int64", "double", "string"), types, strict=True))
    with open(resource("schema", "fleet", f"{engine}.sql"), encoding="utf-8") as file:
        script = " ".join(file.read().split())
    for table, wanted in columns().items():
        told = re.split(end, script.split(begin.format(table))[1])[0].strip()
        plain = re.sub(r"Nullable\((\w+)\)", r"\1", told.replace(" NOT NULL", ""))
        found = [tuple(column.split(" ", 1)) for column in plain.split(", ")]

        assert [one for one in found if one[0] not in KEYS] == [(one.name, names[one.type]) for one in wanted], table


def test_trino_reads_the_files_in_the_lines_of_a_manifest() -> None:
    """All of them, and nothing else, by the pattern of each view."""
    digests = [f"{number:x}" * 64 for number in range(len(TABLES))]
    parts = [Part(part_name(digest), 1, 1767225600, 1767225600, digest, 1) for digest in digests]
    tables = dict(zip(TABLES, parts, strict=True))
    manifest = Manifest(Partition("S", 2026, 1, "ce"), 18, "f" * 32, 1, "plain", 1, tables, {})
    with open(resource("schema", "fleet", "trino.sql"), encoding="utf-8") as file:
        named = r"regexp_extract\(line, '(.+)', 1\) FROM manifest_lines WHERE line LIKE '%(.+)%'"
        patterns = re.findall(named, file.read())

    assert len(patterns) == len(TABLES)
    for pattern, part_of_line in patterns:
        found = [re.search(pattern, line) for line in manifest.to_json().decode().splitlines() if part_of_line in line]
        assert [match[1] for match in found if match] == [part.file for part in parts]
