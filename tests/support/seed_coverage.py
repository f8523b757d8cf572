"""
Seed coverage: where each field of the source documents is stored and sent (docs/reference/seed-coverage.csv, its page).

``stored``: columns of views, ``v1_node_usage[...]`` for a measure of nodes. ``sent``: a document with an element (by
its path, with an attribute in brackets), a key of a message or a key of features. ``why``: for what is not stored, not
sent, or otherwise than one may think.
"""

from __future__ import annotations

import csv
import itertools
import json
import pathlib
import re
from typing import NamedTuple
from xml.etree import ElementTree as ET

from arcacct.sources.features.reader import JOB_KEYS, MACHINE_KEYS

ROOT = pathlib.Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
TABLE, PAGE = ROOT / "docs/reference/seed-coverage.csv", ROOT / "docs/reference/seed-coverage.md"
SEEDS = {
    "000": "APEL's message format",
    "001": "ARC's accounting: the A-REX Accounting Record",
    "002": "Machine/Job Features (HSF-TN-2016-02)",
    "003": "Grid Engine's accounting file",
    "004": "Sonar's output",
}
MESSAGES = {
    "job": ("job-v0.4.msg", "job-v0.3.msg"),
    "job-seed": ("job-seed.msg",),
    "job-v0.3": ("job-v0.3.msg",),
    "summary": ("summary-v0.4.msg",),
    "summary-seed": ("summary-seed.msg",),
    "normalised": ("summary-normalised-v0.4.msg",),
    "sync": ("sync.msg",),
}
RECORDS = {"UR": "ur.xml", "CAR": "car.xml"}
FEATURES = {"machine": MACHINE_KEYS, "job-features": JOB_KEYS}
_ITEM = re.compile(r"(?P<document>\S+) (?P<path>[\w/]+)(?:\[(?P<name>\w+)=(?P<value>\w+)\])?")
_BEFORE = """\
# Seed coverage

This page lists each field of the five source documents: which view stores it, and where it is sent, or why not. A test
generates it from `seed-coverage.csv`, and compares it with the program.

UR is the record for SGAS. CAR and `job` (`job-v0.3`, `job-seed`) are records for APEL, `summary`, `summary-seed` and
`normalised` are sums, `sync` are counts. `machine` and `job-features` are directories of `arcacct features`. The
configuration of a target decides whether it gets a field.

In a list, a column or key has the name of its field, or the name in brackets. *As `AAR.queue`* means: stored and sent
like that field of [AAR](#aar). *No place* and *telemetry*: no receiver has a place for the field. *For jobs only*: not
used for accounting. *Only without another record*: sent if the job has no other record.
"""


class Row(NamedTuple):
    """A field of a document."""

    seed: str
    part: str
    field: str
    stored: str
    sent: str
    why: str


def rows() -> list[Row]:
    """The table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file)]


def parts(cell: str) -> list[str]:
    """The items of a cell."""
    return [one for one in cell.split("; ") if one]


def page() -> str:
    """
    The page: for each part a table of the fields that are sent in several documents, then lists of all others.

    A field that is sent as one of an earlier table refers to it. A list has the fields of one view, document and note.
    """
    text = [_BEFORE]
    first: dict[str, Row] = {}
    for seed, of_seed in itertools.groupby(rows(), lambda row: row.seed):
        text.append(f"\n## {SEEDS[seed]}\n")
        for part, of_part in itertools.groupby(of_seed, lambda row: row.part):
            table: list[str] = []
            lists: dict[str, list[str]] = {}
            for row in of_part:
                is_sent_often = bool(row.stored) and ";" in row.sent
                if is_sent_often and first.setdefault(row.sent, row) is row:
                    note = f" ({row.why})" if row.why else ""
                    table.append(f"| `{row.field}` | {_code(parts(row.stored))} | {_code(parts(row.sent))}{note} |\n")
                else:
                    place, names = _listed(row, first[row.sent] if is_sent_often else None)
                    lists.setdefault(place, []).append(f"`{row.field}`{names}")
            text.append(f"\n### {part}\n\n")
            if table:
                text += ["| field | stored | sent |\n|---|---|---|\n", *table, "\n" if lists else ""]
            text += [f"* {place}: {'; '.join(fields)}\n" for place, fields in lists.items()]
    return "".join(text)


def _listed(row: Row, same: Row | None) -> tuple[str, str]:
    """The list that a field belongs to, by view, document and note; its names there, if they are not its own."""
    columns = [one for one in parts(row.stored) if same is None or one not in parts(same.stored)]
    keys = parts(row.sent) if same is None else []
    view = re.split(r"[.[]", columns[0])[0] if columns else ""
    document = keys[0].partition(" ")[0] if keys else ""
    names = [one.removeprefix(f"{view}.") for one in columns]
    names = [] if names == [row.field] else names
    names += [one for one in (key.removeprefix(f"{document} ") for key in keys) if one != row.field]
    places = ", ".join(filter(None, (f"in `{view}`" * bool(view), f"sent in `{document}`" * bool(document))))
    what = [_code(names)] * bool(names) + ([f"as `{same.part}.{same.field}`"] if same else [])
    return (f"{places} ({row.why})" if places and row.why else places or row.why), f" ({', '.join(what)})" * bool(what)


def _code(items: list[str]) -> str:
    return ", ".join(f"`{one}`" for one in items)


def keys_of(*names: str) -> set[str]:
    """The keys of golden messages."""
    return {match for name in names for match in re.findall(r"(?m)^(\w+): ", (GOLDEN / name).read_text("utf-8"))}


def elements_of(name: str) -> dict[str, list[dict[str, str]]]:
    """Every element below a record of a golden file by its path, without namespaces, each with its attributes."""
    found: dict[str, list[dict[str, str]]] = {}

    def walk(element: ET.Element, path: str) -> None:
        for child in element:
            own = f"{path}/{_plain(child.tag)}".lstrip("/")
            found.setdefault(own, []).append({_plain(key): value for key, value in child.attrib.items()})
            walk(child, own)

    for record in ET.parse(GOLDEN / name).getroot():
        walk(record, "")
    return found


def _plain(name: str) -> str:
    return name.rpartition("}")[2]


def is_sent(item: str) -> bool:
    """Whether a document has what an item names."""
    match = _ITEM.fullmatch(item)
    if match is None:
        return False
    document, path = match["document"], match["path"]
    if document in MESSAGES:
        return path in keys_of(*MESSAGES[document]) and match["name"] is None
    if document in FEATURES:
        return path in {key.name for key in FEATURES[document]}
    if document == "AUDITOR":
        return path in auditor_names()
    found = elements_of(RECORDS[document]).get(path, [])
    return any(match["name"] is None or one.get(match["name"]) == match["value"] for one in found)


def auditor_names() -> set[str]:
    """What a record for AUDITOR has, and the names of its meta values and components."""
    records = json.loads((GOLDEN / "auditor.json").read_text("utf-8"))
    found = {key for record in records for key in (*record, *record["meta"])}
    return found | {"scores"} | {one["name"] for record in records for one in record["components"]}


def properties(name: str) -> dict[str, set[str]]:
    """The fields of Sonar's objects in one of our JSON Schemas, by path."""
    found: dict[str, set[str]] = {}

    def walk(schema: dict[str, object], path: str) -> None:
        inner = schema.get("properties")
        if isinstance(inner, dict):
            found.setdefault(path, set()).update(inner)
            for key, value in inner.items():
                walk(value, f"{path}.{key}".lstrip("."))
        if isinstance(items := schema.get("items"), dict):
            walk(items, path)

    walk(json.loads((ROOT / "schema" / "sonar" / f"{name}.schema.json").read_text("utf-8")), "")
    return found
