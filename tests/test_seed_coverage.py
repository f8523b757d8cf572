"""docs/seed-coverage.md: each field of the documents that arcacct is made by, and what the program does with it."""

from __future__ import annotations

import functools
import os
import pathlib

import manual
import pytest
import seed_coverage as seeds
import seed_values
import sql_contract

from arcacct.sources.features.reader import JOB_KEYS, MACHINE_KEYS

ROWS = seeds.rows()
SONAR = {
    "MetadataObject": ("sample", "meta"),
    "KVPair": ("sample", "meta.attrs"),
    "SysinfoAttributes": ("sysinfo", "data.attributes"),
    "SysinfoGpuCard": ("sysinfo", "data.attributes.cards"),
    "SysinfoSoftwareVersion": ("sysinfo", "data.attributes.software"),
    "SampleAttributes": ("sample", "data.attributes"),
    "ErrorObject": ("sample", "data.attributes.errors"),
    "SampleSystem": ("sample", "data.attributes.system"),
    "SampleGpu": ("sample", "data.attributes.system.gpus"),
    "SampleJob": ("sample", "data.attributes.jobs"),
    "SampleProcess": ("sample", "data.attributes.jobs.processes"),
    "SampleProcessGpu": ("sample", "data.attributes.jobs.processes.gpus"),
    "JobsAttributes": ("job", "data.attributes"),
    "SlurmJob": ("job", "data.attributes.slurm_jobs"),
    "SacctData": ("job", "data.attributes.slurm_jobs.sacct"),
    "ClusterAttributes": ("cluster", "data.attributes"),
    "ClusterPartition": ("cluster", "data.attributes.partitions"),
    "ClusterNodes": ("cluster", "data.attributes.nodes"),
}
"""Where our JSON Schemas have the objects of Sonar's document."""
NEWER = {
    *("distances", "numa_nodes", "topo_text", "boot", "disks", "load1", "load5", "load15", "runnable_entities"),
    *("existing_entities", "data_read", "data_written", "data_cancelled", "num_threads", "in_container"),
    *("requested_resources", "allocated_resources"),
}
"""Fields that later versions of Sonar have beyond the document."""
OURS = {"SampleJob": {"array_task_id"}}
"""Fields that no Sonar writes but `arcacct node sample`."""
UNASKED = {
    "UR": {"Disk", "TimeInstant", "SubmitTime", "LoggerName", "FileTransfers"},
    "CAR": {"Middleware", "TimeInstant"},
}
"""What we send of ourselves, or of several fields at once, next to what a row names."""


def fields_of(seed: str, part: str) -> set[str]:
    return {row.field for row in ROWS if (row.seed, row.part) == (seed, part)}


def test_the_page_is_made_of_the_table() -> None:
    """``ARCACCT_WRITE_DOCS=1`` writes it again."""
    if os.environ.get("ARCACCT_WRITE_DOCS"):
        seeds.PAGE.write_text(seeds.page(), encoding="utf-8")
    assert seeds.PAGE.read_text(encoding="utf-8") == seeds.page()


def test_the_manual_names_the_page() -> None:
    assert "(seed-coverage.md)" in manual.read("reference/what-is-sent")


def test_all_five_documents_are_there_and_no_field_twice() -> None:
    assert {row.seed for row in ROWS} == set(seeds.SEEDS)
    assert len({row[:3] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ".".join(row[:3]))
def test_each_row_is_true(row) -> None:
    """Its columns and what is sent of it exist; where one of both is missing it says why."""
    known = {*columns(), *measures()}
    missing = [one for one in seeds.parts(row.stored) if one not in known]

    assert missing == []
    assert [one for one in seeds.parts(row.sent) if not seeds.is_sent(one)] == []
    assert row.why or (row.stored and row.sent)


@functools.cache
def columns() -> set[str]:
    """Every column of every view of accounting.db."""
    views = sql_contract.documented(sql_contract.ACCOUNTING)
    return {f"{view}.{one.name}" for view, some in views.items() for one in some}


@functools.cache
def measures() -> set[str]:
    """What samples say of nodes: each measure stands in the module that makes them."""
    text = (pathlib.Path(seeds.ROOT) / "arcacct" / "sources" / "sonar" / "samples.py").read_text(encoding="utf-8")
    named = (one for row in ROWS for one in seeds.parts(row.stored) if one.startswith("v1_node_usage["))
    return {one for one in named if f'"{one.removeprefix("v1_node_usage[").removesuffix("]")}"' in text}


def test_what_is_stored_has_values(tmp_path) -> None:
    """Each column that a row names has a value once something of every field is imported."""
    asked = {}
    for name in {one for row in ROWS for one in seeds.parts(row.stored)}:
        view, _, column = name.partition(".")
        if column:
            asked[name] = f"SELECT 1 FROM {view} WHERE {column} IS NOT NULL LIMIT 1"
        else:
            measure = name.removeprefix("v1_node_usage[").removesuffix("]")
            asked[name] = f"SELECT 1 FROM v1_node_usage WHERE measure = '{measure}' LIMIT 1"

    assert asked.keys() - seed_values.filled(tmp_path, asked) == set()


def test_the_messages_of_apel() -> None:
    """Each key of the document's forms is a row, and each key that any form sends is named by one."""
    assert fields_of("000", "job record") == seeds.keys_of("job-seed.msg") - HEADERS
    assert fields_of("000", "summary record") == seeds.keys_of("summary-seed.msg") - HEADERS
    assert fields_of("000", "sync record") == seeds.keys_of("sync.msg") - HEADERS
    for document, names in seeds.MESSAGES.items():
        kind = "job" if document.startswith("job") else "sync" if document == "sync" else "summary"
        assert seeds.keys_of(*names) - HEADERS - named_of(*ALIKE[kind]) - DERIVED == set(), document


HEADERS = {"message"}
ALIKE = {
    "job": ("job", "job-v0.3", "job-seed"),
    "summary": ("summary", "summary-seed", "normalised"),
    "sync": ("sync",),
}
DERIVED = {"MachineName", "ServiceLevel"}
"""The host of SubmitHost once more; a benchmark."""


def named_of(*documents: str) -> set[str]:
    """What rows say is sent in some documents."""
    items = (one.partition(" ") for row in ROWS for one in seeds.parts(row.sent))
    return {path.partition("[")[0] for document, _, path in items if document in documents}


@pytest.mark.parametrize("document", seeds.RECORDS)
def test_nothing_is_sent_that_no_row_names(document) -> None:
    """Each element of a record is what a field became, or we say ourselves."""
    named = named_of(document)
    found = {path.partition("/")[0] for path in seeds.elements_of(seeds.RECORDS[document])}

    assert found - {path.partition("/")[0] for path in named} - UNASKED[document] == set()


def test_the_keys_of_features() -> None:
    assert fields_of("002", "$MACHINEFEATURES") == {key.name for key in MACHINE_KEYS}
    assert fields_of("002", "$JOBFEATURES") == {key.name for key in JOB_KEYS}


@pytest.mark.parametrize("part", SONAR)
def test_the_fields_of_sonar(part) -> None:
    """Those of our schemas, by which telemetry is read and written."""
    name, path = SONAR[part]

    assert seeds.properties(name)[path] - NEWER - OURS.get(part, set()) == fields_of("004", part)


def test_no_object_of_sonar_is_forgotten() -> None:
    rest = {row.part for row in ROWS if row.seed == "004"} - set(SONAR)

    assert rest == {
        f"{kind}{what}" for kind in ("Sysinfo", "Sample", "Jobs", "Cluster") for what in ("Envelope", "Data")
    }
