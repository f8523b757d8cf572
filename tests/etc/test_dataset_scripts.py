"""The scripts for engines that read the dataset without us."""

from __future__ import annotations

import re

import pytest

from arcacct.export.dataset import TABLES, Manifest, Part, Partition, columns, part_name
from arcacct.files.directories import resource

SCRIPTS = {
    "postgresql": (
        "CREATE TABLE IF NOT EXISTS arcacct.{} (",
        r", PRIMARY KEY| \);",
        ("bigint", "double precision", "text"),
    ),
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


def test_trino_reads_the_files_that_manifests_name() -> None:
    """By the patterns of its views: where a file stands is what a manifest's place and one of its lines say."""
    digests = [f"{number:x}" * 64 for number in range(len(TABLES))]
    parts = [Part(part_name(digest), 1, 1767225600, 1767225600, digest, 1) for digest in digests]
    partition = Partition("S", 2026, 1, "ce.example.org")
    tables = dict(zip(TABLES, parts, strict=True))
    manifest = Manifest(partition, 18, "f" * 32, 1, "plain", 1, tables, {})
    with open(resource("schema", "fleet", "trino.sql"), encoding="utf-8") as file:
        found = re.findall(r"regexp_extract\((\S+), '(.+?)', 1\)", file.read())
    place, named, line = found[:3]
    lines = [text for text in manifest.to_json().decode().splitlines() if '"file":' in text]

    assert found == [place, named, line] * len(TABLES)
    folder = re.search(named[1], f"s3://site=x/{partition.manifest}")[1]
    told = [f"{folder}/{re.search(line[1], text)[1]}" for text in lines]
    stored = [f"s3://site=x/{partition.part(table, part.file)}" for table, part in tables.items()]
    assert told == [re.search(place[1], path)[1] for path in stored]
