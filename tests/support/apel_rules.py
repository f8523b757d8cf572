r"""
A strict reader of APEL's text messages: what the sandbox's receiver takes, less what only its leniency lets pass.

No duplicate keys, no empty messages, no number in another form than ours, no month or service level without sense.
"""

from __future__ import annotations

import re
from calendar import timegm
from typing import Any

from arcacct.sandbox import apel
from arcacct.sandbox.apel import folded
from arcacct.sandbox.smime import Crashed, MessageRejected
from arcacct.targets.apel.messages import BENCHMARK_TYPES

KINDS = {
    "APEL-individual-job-message: v0.3": "job",
    "APEL-individual-job-message: v0.4": "job04",
    "APEL-summary-job-message: v0.2": "summary",
    "APEL-summary-job-message: v0.3": "normalised",
    "APEL-summary-job-message: v0.4": "summary04",
    "APEL-normalised-summary-message: v0.4": "normalised04",
    "APEL-sync-message: v0.1": "sync",
}
_TABLES = {"job": apel.JOBS, "summary": apel.SUMMARIES, "normalised": apel.NORMALISED_SUMMARIES, "sync": apel.SYNCS}
_NUMBER = re.compile(r"[0-9]+|[0-9]+\.[0-9]{1,3}")
_DICTIONARY = re.compile(rf"\{{({'|'.join(BENCHMARK_TYPES)}): ([0-9]+(?:\.[0-9]{{1,3}})?)\}}", re.IGNORECASE)


class Rejected(Exception):
    """The receiver would put the whole message aside."""


def parse(text: str, now: int) -> tuple[str, list[dict[str, Any]]]:
    """The kind of a message and its records, each with what it says; raises Rejected where the receiver would."""
    _require(text.isascii(), "not ASCII: the receiver's daemon stops")
    _require(not re.search("application/(x-)?pkcs7-mime", text), "taken for an encrypted message")
    _require("\r" not in text.replace("\r\n", ""), "a bare CR breaks the signature")
    body = "\n".join(text.strip().splitlines())
    header, _, rest = body.partition("\n")
    _require(header in KINDS, f"unknown header {header!r}")
    try:
        loaded = apel.read(body, now)
    except (MessageRejected, Crashed) as error:
        raise Rejected(str(error)) from error
    _require(bool(loaded), "no records")
    chunks = [chunk for chunk in rest.split("%%") if chunk.strip()]
    records = [_said(one.values, chunk) for one, chunk in zip(loaded, chunks, strict=True)]
    for record in records:
        _check(record, now)
    return KINDS[header], records


def key_of(kind: str, record: dict[str, Any]) -> tuple[Any, ...]:
    """What the server replaces by, compared as MySQL does."""
    dictionary = record.get("NormalisedWallDuration")
    level = dictionary[0] if isinstance(dictionary, tuple) else record.get("ServiceLevelType")
    columns = apel.KEYS[_TABLES[kind.removesuffix("04")]]
    return folded({**dict.fromkeys(columns), **record, "ServiceLevelType": level}, columns)


def unescaped(value: str) -> str:
    r"""The text behind ``\xHH`` escapes."""
    return re.sub(rb"\\x([0-9A-F]{2})", lambda match: bytes([int(match[1], 16)]), value.encode("ascii")).decode(
        "utf-8", "surrogateescape"
    )


def _said(values: dict[str, Any], chunk: str) -> dict[str, Any]:
    """What a record says itself, of what was read: not what the server makes of its FQAN or of what it lacks."""
    pairs = [line.partition(":")[::2] for line in chunk.strip().splitlines()]
    said = {key.strip(): value.strip() for key, value in pairs}
    _require(len(said) == len(pairs), f"a field twice in {chunk!r}")
    record: dict[str, Any] = {}
    for name, text in said.items():
        if text.lower() in ("", "none", "null"):
            continue
        dictionary = _DICTIONARY.fullmatch(text)
        if isinstance(values[name], str):
            record[name] = text
        elif dictionary is not None:
            record[name] = dictionary[1].lower(), float(dictionary[2])
        else:
            _require(bool(_NUMBER.fullmatch(text)), f"{name}: {text} is no number as we write it")
            record[name] = values[name]
    return record


def _check(record: dict[str, Any], now: int) -> None:
    _require("SubmitHost" in record or "NumberOfJobs" not in record or "NodeCount" in record, "a sync of nowhere")
    level = record.get("ServiceLevel", 1)
    _require((level[1] if isinstance(level, tuple) else level) > 0, "ServiceLevel is not positive")
    if "Month" in record:
        _require(1 <= record["Month"] <= 12, f"month {record['Month']}")
        _require(timegm((record["Year"], record["Month"], 1, 0, 0, 0)) <= now, "month in the future")


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise Rejected(words)
