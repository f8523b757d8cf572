"""APEL's summaries and sync messages: one record for each key of the receiver, and the right sums."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Callable
from typing import Any

import apel_rules
import pytest
import stored_jobs
from apel_message import message
from hostile_text import CELLS
from hypothesis import given
from hypothesis import strategies as st

from arcacct.config.paths import VO
from arcacct.records.model import AAR, UsageCell, VOs
from arcacct.targets.apel.acceptance import accept_cell
from arcacct.targets.apel.messages import APELOptions, place
from arcacct.targets.apel.summaries import (
    SUMMARY_HEADERS,
    SYNC_HEADER,
    SummaryKey,
    Sync,
    SyncKey,
    mixed_benchmarks,
    summaries,
    summary_record,
    sync_record,
    syncs,
    zero_summary,
)

NOW = 1_800_000_000
OPTIONS = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")
FAMILIES = list(SUMMARY_HEADERS)
VERSIONS = dict(zip(FAMILIES, ("v0.2", "v0.3", "v0.4", "normalised-v0.4"), strict=True))


def text_of(cells: list[UsageCell], options: APELOptions = OPTIONS, family: str = "summaries") -> str:
    """One message with everything."""
    records = [summary_record(one, family, options.dialect) for one in summaries(cells, options, family)]
    return message(SUMMARY_HEADERS[family], records)


def rows(cells: list[UsageCell], options: APELOptions = OPTIONS, family: str = "summaries") -> list[dict[str, Any]]:
    """What APEL reads of it."""
    return apel_rules.parse(text_of(cells, options, family), NOW)[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_summary_message(golden: Callable[[str, str], None], cell: UsageCell, family: str) -> None:
    """A grid user and a local one, byte for byte."""
    local = cell._replace(
        endpoint_url=None, user_dn=None, vo=None, fqan=None, benchmark=None, node_count=0, core_count=0
    )
    golden(f"summary-{VERSIONS[family]}.msg", text_of([cell, local], family=family))


def test_golden_summary_message_in_the_seeds_dialect(golden: Callable[[str, str], None], cell: UsageCell) -> None:
    """v0.3 as its document says: hours, each rounded to the nearest."""
    golden("summary-seed.msg", text_of([cell], OPTIONS._replace(dialect="seed"), "summaries-v03"))


def counts(cells: list[UsageCell]) -> list[tuple[SyncKey, int]]:
    """The jobs of cells by where APEL counts them."""
    return [(SyncKey(*place(cell.endpoint_url, OPTIONS), cell.year, cell.month), cell.jobs) for cell in cells]


def test_golden_sync_message(golden: Callable[[str, str], None], cell: UsageCell) -> None:
    """Counts by SubmitHost and month, byte for byte."""
    cells = [cell, cell._replace(endpoint_url=None), cell._replace(month=2, jobs=7)]
    golden("sync.msg", message(SYNC_HEADER, [sync_record(sync) for sync in syncs(counts(cells))]))


def test_durations_are_seconds_and_normalised_ones_are_rounded_once(cell: UsageCell) -> None:
    """The document's hours would under-report by 3600; the server's own client sends seconds."""
    stored = rows([cell, cell._replace(user_dn=cell.user_dn and cell.user_dn.upper())], family="summaries-v03")[0]
    assert (stored["WallDuration"], stored["CpuDuration"]) == (14_400, 10_802)
    # 2 x 5401 x 10.5 = 113,421 exactly; rounding each of them first would give 113,422.
    assert (stored["NormalisedWallDuration"], stored["NormalisedCpuDuration"]) == (151_200, 113_421)


@pytest.mark.parametrize("family", FAMILIES)
def test_cells_that_are_one_key_to_mysql_are_summed(cell: UsageCell, family: str) -> None:
    """Case, trailing blanks and spellings of one benchmark: separate records would overwrite each other."""
    cells = [
        cell,
        cell._replace(user_dn="/dc=org/dc=EXAMPLE/CN=jane doe "),
        cell._replace(benchmark="hepspec 10.500", earliest_end_time=cell.earliest_end_time - 5),
    ]
    (stored,) = rows(cells, family=family)
    assert (stored["NumberOfJobs"], stored["WallDuration"]) == (9, 21_600)
    assert stored["EarliestEndTime"] == cell.earliest_end_time - 5


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        pytest.param({"benchmark": "HEPSPEC:11"}, (2, 1, 2, 1), id="value"),
        pytest.param({"benchmark": "HEPscore23:10.5"}, (2, 1, 2, 2), id="type"),
        pytest.param({"core_count": 1}, (2, 2, 2, 2), id="cores"),
        pytest.param({"fqan": "/atlas/uk"}, (2, 2, 2, 2), id="role"),
        pytest.param({"endpoint_url": None}, (2, 2, 2, 2), id="local"),
        pytest.param({"fqan": "/atlas/uk/Role=production/Capability=NULL"}, (1, 1, 1, 1), id="capability"),
    ],
)
def test_summaries_are_apart_by_the_receivers_key(
    cell: UsageCell, changes: dict[str, Any], numbers: tuple[int, ...]
) -> None:
    """Each family has its own key: normalised tables have no benchmark value, v0.3 no type either."""
    assert tuple(len(rows([cell, cell._replace(**changes)], family=family)) for family in FAMILIES) == numbers


@given(cells=st.lists(CELLS, min_size=1, max_size=12), family=st.sampled_from(FAMILIES), seed=st.integers(0, 99))
def test_nothing_is_lost_or_doubled_by_summing(cells: list[UsageCell], family: str, seed: int) -> None:
    """Any cells in any order: the message parses, no key comes twice, and the totals are those of the cells."""
    accepted = [accept_cell(cell, OPTIONS, NOW).cell for cell in cells]
    text = text_of(accepted, family=family)
    kind, records = apel_rules.parse(text, NOW)
    keys = [apel_rules.key_of(kind, record) for record in records]
    assert len(keys) == len(set(keys))
    for field, column in (("NumberOfJobs", "jobs"), ("WallDuration", "wall_s"), ("CpuDuration", "cpu_s")):
        assert sum(record[field] for record in records) == sum(getattr(cell, column) for cell in cells)
    shuffled = random.Random(seed).sample(accepted, len(accepted))
    assert text_of(shuffled, family=family) == text


@given(cells=st.lists(CELLS, min_size=1, max_size=6), family=st.sampled_from(FAMILIES))
def test_any_key_that_was_sent_can_be_neutralised(cells: list[UsageCell], family: str) -> None:
    """A zero record has the key of what it takes back, also when the ledger kept the key as JSON."""
    accepted = [accept_cell(cell, OPTIONS, NOW).cell for cell in cells]
    for summary in summaries(accepted, OPTIONS, family):
        key = SummaryKey(*json.loads(json.dumps(summary.key)))
        zero = message(SUMMARY_HEADERS[family], [summary_record(zero_summary(key), family)])
        kind, (was,) = apel_rules.parse(message(SUMMARY_HEADERS[family], [summary_record(summary, family)]), NOW)
        _, (now,) = apel_rules.parse(zero, NOW)
        assert apel_rules.key_of(kind, now) == apel_rules.key_of(kind, was)
        assert now["NumberOfJobs"] == now["WallDuration"] == now["CpuDuration"] == 0


def test_families_of_one_table_share_their_keys(cell: UsageCell) -> None:
    """v0.2 and v0.4 overwrite each other; normalised ones are another table and would be counted besides."""
    keys = {family: summaries([cell], OPTIONS, family)[0].key for family in FAMILIES}
    assert keys["summaries"] == keys["summaries-v04"]
    assert len({keys["summaries"], keys["summaries-v03"], keys["normalised-v04"]}) == 3


@pytest.mark.parametrize(
    ("changes", "options", "stored"),
    [
        pytest.param({}, {}, ("atlas", "/atlas/uk", "Role=production"), id="fqan"),
        pytest.param({"fqan": "/atlas"}, {}, ("atlas", "/atlas", "Role=NULL"), id="no-role-is-what-jura-sent"),
        pytest.param({"fqan": None}, {}, ("atlas", "/atlas", "Role=NULL"), id="vo-alone"),
        pytest.param({"fqan": None, "vo": None}, {}, (None, None, None), id="no-vo-is-left-out"),
        pytest.param(
            {"fqan": None, "vo": None},
            {"vomsless_vo": VOs((VO("dteam"),)), "vo_groups": ("/dteam/prod",)},
            ("dteam", "/dteam/prod", "Role=NULL"),
            id="vomsless",
        ),
        pytest.param(
            {"endpoint_url": None},
            {"local_group_prefix": "local-"},
            ("local-atlas", "/atlas/uk", "Role=production"),
            id="local-prefix",
        ),
    ],
)
def test_membership(
    cell: UsageCell, changes: dict[str, Any], options: dict[str, Any], stored: tuple[str | None, ...]
) -> None:
    """VO, VOGroup and VORole of a summary."""
    result = rows([cell._replace(**changes)], OPTIONS._replace(**options))[0]
    assert tuple(result.get(name) for name in ("VO", "VOGroup", "VORole")) == stored


def test_months_with_several_benchmarks_are_named(cell: UsageCell) -> None:
    """v0.3 cannot tell types apart, so the user is told which months mix them, APEL's favourite first."""
    cells = [
        cell,
        cell._replace(benchmark="HEPscore23:11"),
        cell._replace(month=2),
        cell._replace(month=3, benchmark="Si2k:2500"),
        cell._replace(month=3, benchmark=None),
    ]
    assert mixed_benchmarks(cells, OPTIONS) == {(2024, 1): ("HEPscore23", "HEPSPEC"), (2024, 3): ("HEPSPEC", "Si2k")}


def test_one_submit_host_has_one_sync_record(cell: UsageCell) -> None:
    """jura-ng sent one for each interface of a CE; the second overwrote the first at the server."""
    cells = [
        cell._replace(jobs=32),
        cell._replace(jobs=1, user_dn="/CN=other"),
        cell._replace(jobs=2, endpoint_url=None),
    ]
    _, records = apel_rules.parse(message(SYNC_HEADER, [sync_record(sync) for sync in syncs(counts(cells))]), NOW)
    assert [(record["SubmitHost"], record["NumberOfJobs"]) for record in records] == [
        ("https://arc1.example.org:443/arex", 33),
        ("lrms.example.org", 2),
    ]


def test_a_sync_key_can_be_neutralised(cell: UsageCell) -> None:
    """With no jobs, under the key that the ledger kept as JSON."""
    (sync,) = syncs(counts([cell]))
    key = SyncKey(*json.loads(json.dumps(sync.key)))
    kind, (was,) = apel_rules.parse(message(SYNC_HEADER, [sync_record(sync)]), NOW)
    _, (now,) = apel_rules.parse(message(SYNC_HEADER, [sync_record(Sync(key, key, 0))]), NOW)
    assert apel_rules.key_of(kind, now) == apel_rules.key_of(kind, was)
    assert now["NumberOfJobs"] == 0


def test_records_can_be_cut_anywhere(cell: UsageCell) -> None:
    """Each record stands for itself, so a message that is too large is halved between records."""
    records = [summary_record(one) for one in summaries([cell, cell._replace(core_count=1)], OPTIONS)]
    halves = [apel_rules.parse(message(SUMMARY_HEADERS["summaries"], [record]), NOW)[1][0] for record in records]
    assert halves == apel_rules.parse(message(SUMMARY_HEADERS["summaries"], records), NOW)[1]


def _cells_of(jobs: list[AAR]) -> list[UsageCell]:
    """Every job as a cell of its own."""
    return [stored_jobs.cell_of(job, 2026, 11) for job in jobs]


def test_summaries_of_the_real_arex_count_each_job_once(test_data: pathlib.Path, arex_jobs: list[AAR]) -> None:
    """34 jobs had ended when jura-ng sent these messages: its sync lost one, its summaries counted 36."""
    wire = test_data / "arex" / "wire" / "1-jura-unmodified-all-targets"
    jura_sync = (wire / "012-publish.msg0.payload").read_text(encoding="ascii")
    kind, records = apel_rules.parse(jura_sync, NOW)
    assert len({apel_rules.key_of(kind, record) for record in records}) < len(records)
    jobs = [job for job in arex_jobs if job.record_id < 36]
    ours = apel_rules.parse(message(SYNC_HEADER, [sync_record(sync) for sync in syncs(counts(_cells_of(jobs)))]), NOW)[
        1
    ]
    assert [record["NumberOfJobs"] for record in ours] == [sum(record["NumberOfJobs"] for record in records)]
    counted = rows(_cells_of(jobs))
    assert sum(record["NumberOfJobs"] for record in counted) == len(jobs)
    assert {"/atlas"} <= {record.get("VOGroup") for record in counted}
