"""Each receiver's table of rules, walked: at the limit all agree, one beyond is caught by us and refused by it."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from apel_message import message
from record_texts import individual_job
from record_texts import usage_record as rendered
from sandbox_clients import job_message, summary_message, sync_message, usage_record, usage_records

from arcacct.records.model import AAR, Transfer, UsageCell
from arcacct.sandbox import apel
from arcacct.sandbox.http_server import HTTPRequest, Journal, Peer
from arcacct.sandbox.sgas import PATH, SGAS, Row
from arcacct.sandbox.smime import MessageRejected
from arcacct.targets.apel import messages
from arcacct.targets.apel.acceptance import accept_cell, accept_for_apel_job
from arcacct.targets.apel.messages import JOB_HEADERS, APELOptions
from arcacct.targets.apel.summaries import SUMMARY_HEADERS, summaries, summary_record
from arcacct.targets.common import EXACT, Breach, Care, Form, Rule
from arcacct.targets.sgas.acceptance import accept_for_sgas
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import RULES as OF_SGAS
from arcacct.targets.sgas.usage_record import UROptions
from arcacct.targets.verdicts import SMALLEST_WIDTH
from arcacct.times import LAST_SECOND

NOW = 1_704_200_000
UR = UROptions(host="lrms.example.org")
DOCUMENT = UsageRecords.envelope
APEL = APELOptions("EXAMPLE-SITE", lrms_host="lrms.example.org")
CE = Peer("/CN=ce.example.org", "CN=ce.example.org", "ce.example.org", 0, 2**40)
TABLES = {
    "sgas": OF_SGAS,
    **{
        name.lower(): table
        for name, table in vars(messages).items()
        if isinstance(table, dict) and name.isupper() and all(isinstance(rule, Rule) for rule in table.values())
    },
}


def test_the_tables_are_those_that_were_read(golden: Callable[[str, str], None]) -> None:
    """Each rule in a line, as it was found on the real servers: a number that changes here is a claim about them."""
    lines = [
        f"{table}.{field}: {'needs ' if rule.needed else ''}{rule.least}..{rule.most} {rule.form.value}"
        f" ({rule.source}), else {rule.breach.value}; {rule.value or '-'}: {rule.care.value}\n"
        for table, rules in TABLES.items()
        for field, rule in rules.items()
    ]
    golden("rules.txt", "".join(lines))


def test_the_quick_look_knows_the_narrowest_column() -> None:
    """What a job can make too long for any column is longer than what passes at a glance."""
    widths = {
        rule.most for rules in TABLES.values() for rule in rules.values() if rule.form is Form.TEXT and rule.value
    }
    assert min(widths) == SMALLEST_WIDTH


@pytest.fixture
def sgas(tmp_path: pathlib.Path) -> SGAS:
    """A server that takes any machine from `CE`."""
    server = SGAS(Journal(str(tmp_path), ("sgas",)))
    server.rights[CE.subject] = "jobinsert:all"
    return server


def stored(server: SGAS, posted: str) -> dict[str, Row] | None:
    """What the server has after a document, by the ids in its answer; None: refused."""
    answer = server.answer(HTTPRequest("POST", PATH, {}, {}, posted.encode(), CE))
    if answer.status != 200:
        assert server.records == {}
        return None
    assert set(json.loads(answer.body)) == set(server.records)
    return server.records


def written(rule: Rule, limit: float) -> str:
    """A value of this size as XML has it."""
    if rule.form is Form.TEXT:
        return "x" * int(limit)
    if rule.form is Form.DURATION:
        return f"{'-' if limit < 0 else ''}PT{abs(int(limit))}S"
    return str(int(limit))


ROUND = {
    "record_id": '<RecordIdentity urf:createTime="2026-01-02T03:04:05Z" urf:recordId="{}"/>',
    "create_time": '<RecordIdentity urf:createTime="{}" urf:recordId="r"/>',
    "vo_type": '<UserIdentity><vo:VO vo:type="{}"><vo:Name>v</vo:Name></vo:VO></UserIdentity>',
    "transfer_size": "<tr:FileTransfers><tr:FileUpload><tr:URL>u</tr:URL><tr:Size>{}</tr:Size></tr:FileUpload>"
    "</tr:FileTransfers>",
}
"""What stands around a value where its element alone would not do."""


def with_value(column: str, text: str) -> str:
    """A document in which the column's element holds this, after a usual one that the server ignores."""
    body = ROUND.get(column)
    if body is None:
        body = "{}"
        for name in reversed(OF_SGAS[column].element.replace("urf:", "").split("/")):
            known = "<vo:Name>v</vo:Name>" if name == "vo:VO" and column != "vo_name" else ""
            body = f"<{name}>{known}{body}</{name}>"
    return usage_records(usage_record(body=body.format(text) + "<Processors>1</Processors>" * (column == "node_count")))


@pytest.mark.parametrize("column", [name for name, rule in OF_SGAS.items() if rule.form is not Form.TIME])
def test_sgas_keeps_to_its_table(sgas: SGAS, column: str) -> None:
    """A value at the limit is stored as it is; with one beyond becomes of the record what the table says."""
    rule = OF_SGAS[column]
    # The server's durations are doubles: no longer exact beyond EXACT.
    most = min(rule.most, EXACT) if rule.form is Form.DURATION else rule.most
    rows = stored(sgas, with_value(column, written(rule, most)))
    assert rows is not None
    (row,) = rows.values()
    if column in Row._fields and column != "memory":
        assert getattr(row, column) == (written(rule, most) if rule.form is Form.TEXT else most)
    sgas.delete_records(rows)

    gap = 1 if most == rule.most else 2**12
    for beyond in [rule.most + gap] if rule.form is Form.TEXT else [rule.most + gap, rule.least - gap]:
        rows = stored(sgas, with_value(column, written(rule, beyond)))
        if rule.breach is Breach.REFUSED:
            assert rows is None
            continue
        assert rows is not None
        (row,) = rows.values()
        assert getattr(row, column) != written(rule, beyond)
        assert (row.record_id == "job1") == (rule.breach is Breach.RENAMED)
    if rule.needed:
        sgas.delete_records(sgas.records)
        cleared = with_value(column, "").replace(' urf:recordId=""', "")
        assert stored(sgas, cleared) is None


@pytest.mark.parametrize("column", [name for name, rule in OF_SGAS.items() if rule.form is Form.TIME])
def test_sgas_and_times_that_are_none(sgas: SGAS, column: str) -> None:
    """Stored as nothing, or refused, as the table says."""
    rows = stored(sgas, with_value(column, "yesterday"))
    assert (rows is None) == (OF_SGAS[column].breach is Breach.REFUSED)
    assert rows is None or [getattr(row, column) for row in rows.values()] == [None]


def ur_values(column: str, size: int) -> dict[str, Any]:
    """The values of a job that come to this size in a column of SGAS."""
    texts = "x" * size if OF_SGAS[column].form is Form.TEXT else ""
    return {
        "record_id": {"job_id": texts[len("ur-arc1.example.org-") :]},
        "machine_name": {"endpoint_url": f"https://{texts}/arex"},
        "submit_host": {"client_host": f"{('u' * 49 + '.') * 5}"[:size] + ":1"},
        "vo_group": {"fqans": ("/" + texts[1:],)},
        "vo_role": {"fqans": ("/atlas/Role=" + texts[len("/Role=") :],)},
        "cpu_duration": {"cpu_user_s": size, "cpu_kernel_s": 0},
        "memory": {"memory_kib": size // 1024},
        "runtime_environment": {"run_time_environments": (texts,)},
        "transfer_url": {"transfers": (Transfer(texts, 1, 1, 1, "output"),)},
        "transfer_size": {"transfers": (Transfer("u", size, 1, 1, "output"),)},
    }.get(column, {OF_SGAS[column].value: texts or size})


OURS_ALONE = {"global_job_id", "status"}
"""A job id is too long for the record id before, and a status is one of three words."""


@pytest.mark.parametrize(
    "column", [name for name, rule in OF_SGAS.items() if rule.care is not Care.OURS and name not in OURS_ALONE]
)
def test_a_job_at_sgas_limits(sgas: SGAS, job: AAR, column: str) -> None:
    """At the limit it goes untouched, and is stored; one beyond we take care of it, as the table says."""
    rule = OF_SGAS[column]
    most = int(min(rule.most, EXACT if column == "cpu_duration" else math.inf))
    good = job._replace(**ur_values(column, most))
    verdict = accept_for_sgas(good, UR, NOW)
    assert (verdict.aar, verdict.notes, verdict.refusal) == (good, (), None)
    rows = stored(sgas, UsageRecords.envelope.join([rendered(good, UR, NOW)]))
    assert rows is not None
    sgas.delete_records(rows)

    bad = job._replace(**ur_values(column, most + 1))
    verdict = accept_for_sgas(bad, UR, NOW)
    if rule.care is Care.REFUSE:
        assert verdict.refusal
        assert stored(sgas, UsageRecords.envelope.join([rendered(bad, UR, NOW)])) is None or column == "cpu_duration"
        return
    assert verdict.refusal is None
    if rule.care is not Care.OTHERWISE:
        assert len(verdict.notes) == 1
        assert verdict.aar != bad
    rows = stored(sgas, UsageRecords.envelope.join([rendered(verdict.aar, UR, NOW)]))
    assert rows is not None
    assert list(rows) == [f"ur-arc1.example.org-{job.job_id}"]


@pytest.mark.parametrize("name", ["lrms_submit_time", "lrms_start_time", "lrms_end_time"])
@pytest.mark.parametrize(("seconds", "kept"), [(-1, None), (0, 0), (LAST_SECOND, LAST_SECOND), (LAST_SECOND + 1, None)])
def test_a_time_of_the_batch_system_is_left_out_if_it_is_none(job: AAR, name: str, seconds: int, kept: int | None):
    """The rest of the job is sent as it is, with a note."""
    verdict = accept_for_sgas(job._replace(**{name: seconds}), UR, NOW)

    assert verdict.aar == job._replace(**{name: kept})
    assert len(verdict.notes) == (kept is None)


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (("n", "m" * 255), 2),
        (("n", "m" * 256), 1),
        (tuple(f"n{number}" for number in range(1000)), 1000),
        (tuple(f"n{number}" for number in range(1001)), 1000),
    ],
    ids=["longest", "longer", "most", "more"],
)
def test_names_of_nodes_that_no_job_has_are_left_out(job: AAR, names: tuple[str, ...], kept: int) -> None:
    """Names of 255 characters, and 1,000 of them, are the most."""
    verdict = accept_for_sgas(job._replace(node_names=names), UR, NOW)

    assert verdict.aar.node_names == names[:kept]
    assert len(verdict.notes) == (kept < len(names))


BUILDERS = {
    "job": job_message,
    "job_04": lambda **fields: job_message("v0.4", **fields),
    "summary": summary_message,
    "summary_04": lambda **fields: summary_message("APEL-summary-job-message: v0.4", **fields),
    "normalised": lambda **fields: summary_message("APEL-summary-job-message: v0.3", **fields),
    "normalised_04": lambda **fields: summary_message("APEL-normalised-summary-message: v0.4", **fields),
    "sync": sync_message,
}
FIELDS = [
    (table, field)
    for table in BUILDERS
    for field, rule in TABLES[table].items()
    # The type of a benchmark is one of three words.
    if field != "ServiceLevelType" and math.isfinite(rule.most)
]
BOTH = {"NormalisedWallDuration", "NormalisedCpuDuration"}


def taken(text: str) -> bool:
    """Whether APEL loads a message of one record."""
    try:
        return len(apel.read(text.strip())) == 1
    except MessageRejected:
        return False


@pytest.mark.parametrize(("table", "field"), FIELDS)
def test_apel_keeps_to_its_table(table: str, field: str) -> None:
    """A value at the limit is loaded; with one beyond the whole message is refused, as without a needed one."""
    rule = TABLES[table][field]

    def holding(limit: float) -> str:
        if rule.form is Form.TEXT:
            return str(BUILDERS[table](**{field: "x" * int(limit)}))
        number = f"{limit:.3f}" if isinstance(limit, float) else str(limit)
        return str(BUILDERS[table](**{field: f"{{HEPscore23: {number}}}" if rule.form is Form.BENCHMARK else number}))

    step = 0.001 if isinstance(rule.most, float) else 1
    # Doubles have no room for one more above 2^63; what is rounded to it is beyond as well.
    beyond = rule.most + step if rule.form is not Form.BENCHMARK or step != 1 else 2**63 + 2**12
    assert taken(holding(rule.most)) or (rule.form is Form.BENCHMARK and step == 1)
    assert not taken(holding(beyond))
    if rule.form is not Form.TEXT:
        assert not taken(holding(rule.least - step))
    assert taken(str(BUILDERS[table](**{field: "null"}))) or rule.needed or rule.form is not Form.TEXT
    if rule.needed:
        assert not taken(str(BUILDERS[table](**{field: "null"})))


def job_values(field: str, size: int) -> dict[str, Any]:
    """The values of a job that come to this size in a field of APEL."""
    rule = messages.JOB[field]
    texts = "x" * size if rule.form is Form.TEXT else ""
    return {
        "CpuDuration": {"cpu_user_s": size, "cpu_kernel_s": 0},
        "FQAN": {"fqans": ("/" + texts[len("//Role=NULL") :] + "/Role=NULL",)},
    }.get(field, {rule.value: texts or size})


@pytest.mark.parametrize(
    "field",
    [
        name
        for name, rule in messages.JOB.items()
        if rule.care is not Care.OURS and rule.form in {Form.TEXT, Form.INTEGER}
    ],
)
def test_a_job_at_apels_limits(job: AAR, field: str) -> None:
    """At the limit it goes untouched, and is loaded; one beyond we take care of it, as the table says."""
    rule = messages.JOB[field]

    def loaded(one: AAR) -> bool:
        return all(taken(message(header, [individual_job(one, APEL, name)])) for name, header in JOB_HEADERS.items())

    good = job._replace(**job_values(field, int(rule.most)))
    verdict = accept_for_apel_job(good, APEL, NOW)
    assert (verdict.aar, verdict.notes, verdict.refusal) == (good, (), None)
    assert loaded(good)

    bad = job._replace(**job_values(field, int(rule.most) + 1))
    verdict = accept_for_apel_job(bad, APEL, NOW)
    if rule.care is Care.REFUSE:
        assert verdict.refusal
        assert not loaded(bad)
        return
    assert verdict.refusal is None
    assert len(verdict.notes) == 1
    assert loaded(verdict.aar)
    if rule.form is Form.INTEGER:
        assert not loaded(bad)


@pytest.mark.parametrize(
    "field",
    [
        name
        for name, rule in messages.SUMMARY.items()
        if rule.care is not Care.OURS and rule.form in {Form.TEXT, Form.INTEGER} and math.isfinite(rule.most)
    ],
)
def test_a_sum_at_apels_limits(cell: UsageCell, field: str) -> None:
    """At the limit it goes untouched, and is loaded in every family; one beyond we take care of it."""
    rule = messages.SUMMARY[field]
    most = min(int(rule.most), EXACT)

    def loaded(one: UsageCell) -> bool:
        texts = (
            message(header, [summary_record(found, name) for found in summaries([one], APEL, name)])
            for name, header in SUMMARY_HEADERS.items()
        )
        return all(map(taken, texts))

    good, bad = (
        cell._replace(**{rule.value: "/" + "x" * (size - 1) if rule.form is Form.TEXT else size})
        for size in (most, most + 1)
    )
    verdict = accept_cell(good, APEL, NOW)
    assert (verdict.cell, verdict.notes, verdict.refusal) == (good, (), None)
    assert loaded(good)

    verdict = accept_cell(bad, APEL, NOW)
    assert bool(verdict.refusal) == (rule.care is Care.REFUSE)
    if not verdict.refusal:
        assert len(verdict.notes) == 1
        assert loaded(verdict.cell)
