"""The scripts for engines that read the dataset without us."""

from __future__ import annotations

import re

import pytest

from arcacct.dataset.columns import columns
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
