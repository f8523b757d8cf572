"""What the client of a real MariaDB prints of APEL's tables, by the manual's commands, and what is made of it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

import manual
import pytest
from campaigns import examples, sample
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mariadb_server import Server, reason, server
from publishing_site import SUMMARIES, Job, Site
from receiver_rows import FOREIGN, NAMES, put, stored

from arcacct.files.text_tables import batch_rows, unescaped
from arcacct.publishing.ledger import COUNTS
from arcacct.sandbox import apel as at_apel
from arcacct.sandbox.apel import JOBS, NORMALISED_SUMMARIES
from arcacct.targets.apel.receiver_rows import read
from arcacct.times import month_bounds, month_of

pytestmark = pytest.mark.skipif(bool(reason()), reason=reason() or "MariaDB is here")

LAST = month_of(month_bounds(*month_of(int(time.time())))[0] - 1)
VIEWS = {at_apel.SUMMARIES: "VSummaries", NORMALISED_SUMMARIES: "VNormalisedSummaries", JOBS: "VJobRecords"}
TEXTS = st.text(
    st.one_of(st.sampled_from('\\\t\n\r\0"%NtnN0x \x0b\x0c\x85\u2028'), st.characters(codec="utf-8")), max_size=255
)
OURS, OTHER = "https://ce.example.org:443/arex", "https://other.ce.org/arex"
ROW = {
    "Site": "EXAMPLE-SITE", "Month": 10, "Year": 2026, "GlobalUserName": "/CN=x", "VO": "atlas", "VOGroup": "None",
    "VORole": "None", "SubmitHost": OURS, "InfrastructureType": "grid", "ServiceLevelType": "hepspec",
    "ServiceLevel": 10.5, "NodeCount": 1, "Processors": 8, "WallDuration": 1, "CpuDuration": 1, "NumberOfJobs": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    """For all tests of this module."""
    with server() as started:
        yield started


def exports(database: Server, folder: pathlib.Path, month: tuple[int, int] = (2026, 10), site: str = "EXAMPLE-SITE"):
    """The files that the manual's commands write, for each view that they name and for the third; none is empty."""
    page = (manual.ROOT / "docs" / "howto" / "republish.md").read_text(encoding="utf-8")
    text = "\n".join(re.findall("^mariadb .*$", page, re.MULTILINE))
    text += "\n" + text.partition("\n")[0].replace("VSummaries", "VNormalisedSummaries").replace("rows.tsv", "sums.tsv")
    year, number = month
    for word, instead in {
        "EXAMPLE-SITE": site,
        "Year = 2026 AND Month = 10": f"Year = {year} AND Month = {number}",
        "2026-10-01": f"{year}-{number:02}-01",
        "2026-11-01": f"{year + number // 12}-{number % 12 + 1:02}-01",
    }.items():
        text = text.replace(word, instead)
    subprocess.run(["sh", "-e", "-c", text], cwd=folder, env=os.environ | database.env, check=True)
    files = [folder / name for name in re.findall("> (.*)$", text, re.MULTILINE)]
    assert len(files) == len(VIEWS)
    # The client prints nothing at all if there is no row.
    return [str(file) for file in files if file.stat().st_size]


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXTS, st.none() | TEXTS), min_size=1, max_size=20))
@example([(name, name) for name in (*NAMES, *FOREIGN)])
def test_every_text_that_a_column_can_have_comes_back(database, texts) -> None:
    """NULL is printed as the text NULL."""
    rows = [{**ROW, "GlobalUserName": one, "InfrastructureDescription": other and other[:100]} for one, other in texts]
    database.fill("VSummaries", [{**row, "Processors": number} for number, row in enumerate(rows)])

    printed = database.run("SELECT GlobalUserName, InfrastructureDescription FROM VSummaries ORDER BY Processors")

    read = [tuple(map(unescaped, cells)) for _line, cells in batch_rows(printed.decode())]
    wanted = [(one, "NULL" if other is None else other[:100]) for one, other in texts]
    assert read == [("GlobalUserName", "InfrastructureDescription"), *wanted]


def sendable(name: str) -> bool:
    """Whether a text message for APEL can have this name: nothing else in it would be the same key."""
    plain = name.rstrip(" ")
    return (
        plain.isascii() and plain.isprintable() and not plain.startswith(" ") and not re.search("%%|pkcs7-mime", plain)
    )


def kept(name: str) -> str | None:
    """The name in a key: without case and blanks at the end, as MySQL compares it."""
    plain = name.rstrip(" ").lower()
    return None if plain in {"", "none", "null"} else plain


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.booleans(), TEXTS, TEXTS), min_size=1, max_size=20))
@example([(is_ours, name, name) for is_ours in (True, False) for name in (*NAMES, *FOREIGN, "None", "null ")])
def test_the_keys_of_ours_are_those_of_the_database(database, tmp_path, rows) -> None:
    """Rows of ours with names of any kind among rows of another CE; keys are the exact names, or said to be none."""
    table = [
        {**ROW, "GlobalUserName": user, "VO": vo, "SubmitHost": OURS if is_ours else OTHER, "Processors": number}
        for number, (is_ours, user, vo) in enumerate(rows)
    ]
    database.fill("VSummaries", table)
    database.fill("VJobRecords", [])
    database.fill("VNormalisedSummaries", [])

    found = read(exports(database, tmp_path), {OURS})

    ours = [row for row in table if row["SubmitHost"] == OURS]
    good = [row for row in ours if sendable(row["GlobalUserName"]) and sendable(row["VO"])]
    keys = [one.key for kind, one in found.sums if kind != COUNTS]
    assert keys == [_key(row) for row in good]
    assert len(found.unsendable) == len(ours) - len(good)
    assert sum(found.others.values()) == len(table) - len(ours)
    assert not found.unread


def _key(row: Mapping[str, Any]) -> str:
    names = [kept(row[name]) for name in ("GlobalUserName", "VO")]
    return json.dumps(
        [
            "Summaries",
            "example-site",
            2026,
            10,
            *names,
            None,
            None,
            OURS,
            "grid",
            "hepspec",
            "10.5",
            1,
            row["Processors"],
        ]
    )


@pytest.mark.parametrize(
    "kind", sample(["summaries", "summaries-v04", "summaries-v03", "normalised-v04", "urs", "individual"], 3)
)
def test_lost_keys_are_taken_back_with_the_export_of_the_manual(memory, empty_box, database, kind) -> None:
    """From the tables of a receiver into a real database, out of it by its client, and as zeros to the receiver."""
    site = Site(memory, empty_box, SUMMARIES.replace("=summaries", f"={kind}"))
    apel = empty_box.apel
    site.send(Job("j", month_bounds(*LAST)[0]))
    ((table, row),) = [(name, row) for name in VIEWS for row in apel._table(name).values()]
    for number, name in enumerate(NAMES):
        put(
            apel,
            table,
            {**row, "GlobalUserName": name, "VORole": name, "LocalJobId": f"{number}{name}", "WallDuration": 7},
        )
    groups = apel.hybrid.keys()
    other = [{**row, "GlobalUserName": name, "LocalJobId": name, "SubmitHost": OTHER} for name in FOREIGN]
    for name, view in VIEWS.items():
        rows = [*apel._table(name).values(), *(other if name == table else [])]
        database.fill(view, [stored(one) for one in rows])

    outcome = site.republish(*month_bounds(*LAST), receiver_rows=exports(database, memory, LAST, "SITE"))

    assert outcome.error is None
    assert not apel.rejected
    assert f"{len(FOREIGN)} rows of SubmitHost {OTHER} ignored" in str(outcome.summary.notes)
    # No row and no group appeared, and only the job that the database has is left.
    assert apel.hybrid.keys() == groups
    assert sum(one["WallDuration"] for one in apel.hybrid.values()) == 100
