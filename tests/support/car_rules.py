"""
A strict reader of compute accounting records: what the sandbox's receiver loads of them, less what only its leniency
lets pass, and only if the database could have latin1 for its charset.
"""

from __future__ import annotations

import math
import re
from typing import Any

from lxml import etree

from arcacct.sandbox import apel
from arcacct.sandbox.smime import MessageRejected

_FORMS = {
    "WallDuration": r"PT\d+S",
    "CpuDuration": r"PT\d+S",
    "StartTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "EndTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
}


class Rejected(Exception):
    """The receiver would put the whole message aside."""


def parse(text: str) -> list[dict[str, Any]]:
    """What lands in JobRecords of each record, None for nothing; raises Rejected where the receiver would."""
    _require(text.isascii(), "SSM does not pass this on")
    _require(not re.search("application/(x-)?pkcs7-mime", text), "SSM takes it for an encrypted message")
    try:
        loaded = apel.read_car("\n".join(text.splitlines()).strip(), math.inf)
    except MessageRejected as error:
        raise Rejected(str(error)) from error
    records = etree.fromstring(text.encode()).iterchildren(f"{{{apel.CAR}}}UsageRecord")
    return [_row(one.values, record) for one, record in zip(loaded, records, strict=True)]


def _row(values: dict[str, Any], record: etree._Element) -> dict[str, Any]:
    for name, form in _FORMS.items():
        for element in record.iter(f"{{{apel.CAR}}}{name}"):
            _require(bool(re.fullmatch(form, element.text or "")), f"{name}: {element.text}")
    totals = record.xpath("*[local-name()='CpuDuration'][@*[local-name()='usageType']='all']")
    _require(len(totals) == 1, "one CpuDuration of usageType all is needed")
    _require(values["InfrastructureType"] in ("grid", "local"), "Infrastructure")
    _require(values["ServiceLevel"] > 0, "ServiceLevel")
    row = {name: None if value == "None" else value for name, value in values.items()}
    # The database names no charset: where its own is latin1, another character refuses the whole message.
    for name, value in row.items():
        _require(not isinstance(value, str) or max(value) <= "\xff", f"{name}: the column does not hold {value!r}")
    return {name: value for name, value in row.items() if not name.startswith("Memory")}


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise Rejected(words)
