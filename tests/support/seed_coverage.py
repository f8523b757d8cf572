"""
Seed coverage: where each field of the source documents is stored and sent (docs/reference/seed-coverage.csv, its page).

``stored``: columns of views, ``v1_node_usage[...]`` for a measure of nodes. ``sent``: a document with an element (by
its path, with an attribute in brackets), a key of a message or a key of features. ``why``: for what is not stored, not
sent, or otherwise than one may think.
"""

from __future__ import annotations

import csv
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

For each field of the five source documents, this page lists the view columns that have it and where it is sent, or why
not. A test generates the page from `seed-coverage.csv`, and compares both columns with the program.

In the column *sent*, UR is the record for SGAS, CAR and `job` (also `job-v0.3`, `job-seed`) are records for APEL,
`summary`, `summary-seed` and `normalised` are sums, `sync` are counts, and AUDITOR is the record for AUDITOR. `machine`
and `job-features` are directories that `arcacct features` writes. The configuration of a target decides whether it gets
a field. *No place* and *telemetry* mean that no receiver has a place for the field. *For jobs only* means that it is
not used for accounting. *Only without another record* means that it is sent if the job has no other record.
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
    """The page."""
    text = [_BEFORE]
    before, is_sent_at_all = ("", ""), False
    all_rows = rows()
    for row in all_rows:
        if row.seed != before[0]:
            text.append(f"\n\n## {SEEDS[row.seed]}\n")
        if (row.seed, row.part) != before:
            is_sent_at_all = any(one.sent for one in all_rows if (one.seed, one.part) == (row.seed, row.part))
            header = ("field", "stored", "sent", "note") if is_sent_at_all else ("field", "stored", "note")
            text.append(f"\n### {row.part}\n\n| {' | '.join(header)} |\n{'|---' * len(header)}|\n")
        before = row.seed, row.part
        stored, sent = (", ".join(f"`{one}`" for one in parts(cell)) for cell in (row.stored, row.sent))
        cells = (f"`{row.field}`", stored, sent, row.why) if is_sent_at_all else (f"`{row.field}`", stored, row.why)
        text.append(f"| {' | '.join(cells)} |\n")
    return "".join(text)


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
