"""Digests of records: bytes that every later program has to make of the same values, or all is published anew."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import arex_corpus as corpus
import pytest
from publishing_site import Site

from arcacct.database import access
from arcacct.publishing.plugin import RecordFormat, bare
from arcacct.publishing.sent import DIGESTED, digest_of, is_same
from arcacct.records import reader
from arcacct.records.model import AAR, Transfer
from arcacct.sandbox import auditor, sgas
from arcacct.targets.auditor.record import RecordOptions
from arcacct.targets.auditor.target import AuditorRecords
from arcacct.targets.sgas.target import UsageRecords
from arcacct.targets.sgas.usage_record import UROptions

RELEASED = pathlib.Path(__file__).parent.parent / "data" / "released" / "0.2.0"
GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "digests.txt"
"""The digest of each job of the two real control directories, and its JobID."""
FULL = AAR(
    record_id=7,
    job_id="full",
    local_job_id="4711",
    endpoint_type="org.nordugrid.arcrest",
    endpoint_url="https://ce.example.org:443/arex",
    queue="main",
    user_dn="/DC=org/CN=J\\xC3\\xBCrgen",
    vo="atlas",
    status="completed",
    exit_code=3,
    submit_time=1_718_449_000,
    end_time=1_718_452_800,
    node_count=2,
    core_count=16,
    memory_kib=2_000_000,
    virtual_memory_kib=2**40,
    wall_s=3500,
    cpu_user_s=20_000,
    cpu_kernel_s=300,
    scratch_bytes=5,
    stage_in_bytes=600,
    stage_out_bytes=2000,
    fqans=("/atlas/Role=production", "/atlas"),
    job_name="jöb",
    lrms="slurm",
    node_names=("node1", "node2"),
    client_host="192.0.2.1:40000",
    local_user="atlas001:atlas",
    project="physics",
    system_software="AlmaLinux 9.6",
    wn_instance="c5.large",
    benchmark="HEPSPEC:12.26",
    run_time_environments=("ENV/PROXY", "APPS/HEP-1.0"),
    transfers=(
        Transfer("https://se.example.org/in", 600, 1_718_449_100, 1_718_449_200, "input"),
        Transfer("https://se.example.org/out", 2000, 1_718_452_700, 1_718_452_790, "output"),
    ),
    lrms_submit_time=1_718_449_210,
    lrms_start_time=1_718_449_300,
    lrms_end_time=1_718_452_600,
    auth_groups=("zero",),
    held="wall-beyond-life",
    unknown=("core_count",),
)
UNSEEN = {"record_id", "auth_groups", "held", "unknown"}
"""What no digest is of: a record's place, and what was kept of records only later."""
digest = digest_of()


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Site:
    """The databases as 0.2.0 left them."""
    site = Site(tmp_path_factory.mktemp("released"), None, "")
    here = site.settings.places
    pathlib.Path(here.directory).mkdir(parents=True)
    for path, name in ((here.database, "accounting"), (here.publishing_database, "publishing")):
        with closing(sqlite3.connect(path)) as con:
            con.executescript((RELEASED / f"{name}.sql").read_text())
    return site


def test_records_of_a_released_program_have_the_digests_that_it_noted(released) -> None:
    """What 0.2.0 sent of the records that are still as they were is what this program would note of them."""
    with closing(access.open_accounting(released.settings.places)) as con:
        aars = [aar for page in reader.ended_between(con, 1, 2**40) for aar in page]
    noted: dict[str, set[bytes]] = {}
    for job_id, stored in released.ledger("SELECT JobID, Digest FROM SentRows WHERE Digest <> x''"):
        noted.setdefault(job_id, set()).add(stored)

    compared = [aar for aar in aars if aar.job_id in noted]
    assert len(compared) >= 5
    for aar in compared:
        assert digest(aar) in noted[aar.job_id]
        assert any(is_same(aar, stored) for stored in noted[aar.job_id])


@pytest.mark.parametrize(
    ("aar", "expected"),
    [(FULL, "9511ca10ae4750183f5e7383a9e2805e"), (bare("bare", 1_718_452_800), "d958b41adeb08084dde107c3f4736cad")],
    ids=["every-value", "hardly-any"],
)
def test_the_bytes_of_a_digest_never_change(aar: AAR, expected: str) -> None:
    """Of all values, of a record with every value and of one with hardly any; equal texts need not be one object."""
    apart = aar._replace(job_id="".join(aar.job_id))

    assert digest(aar).hex() == expected
    assert digest(apart).hex() == expected


def test_the_bytes_of_a_digest_of_some_values_never_change() -> None:
    """Twelve bytes of the values, then one bit for each: job_id is the first of them, vo the seventh."""
    assert digest_of(("vo", "job_id"))(FULL).hex() == "1859224bef4d1b74d3c756ad0000000041"
    assert digest_of(("transfers",))(FULL).hex() == "5c0a2292840a8062a0bb83ce0100000000"


def with_another(field: str) -> AAR:
    """The full record, with another value of one field."""
    value: Any = getattr(FULL, field)
    assert value != AAR._field_defaults.get(field)
    return FULL._replace(**{field: value[1:] if isinstance(value, str | tuple) else value + 1})


@pytest.mark.parametrize("field", AAR._fields)
def test_each_value_of_a_record_is_in_its_digest(field: str) -> None:
    """A record in which anything is otherwise is another version, but for what no digest is of."""
    other = with_another(field)

    assert (digest(other) == digest(FULL)) is (field in UNSEEN)
    assert is_same(other, digest(FULL)) is (field in UNSEEN)


def test_jobs_of_real_arexes_have_the_digests_of_former_programs(tmp_path: pathlib.Path) -> None:
    """golden/digests.txt was written by the last program that kept packs of jobs, from its packs: none may change."""
    noted = dict(line.split("  ")[::-1] for line in GOLDEN.read_text(encoding="ascii").splitlines())
    found: dict[str, str] = {}
    for con in (corpus.swept(corpus.rebuild(tmp_path / "6")), corpus.swept7(tmp_path / "7")):
        page = reader.logged_after(con, 0, 2**62)
        assert page is not None
        found |= {aar.job_id: digest(aar).hex() for _seq, aar in page.records}
        con.close()

    assert len(noted) == 75
    assert found == noted


def test_a_digest_of_some_values_is_compared_by_these() -> None:
    """Whatever their place in a record, and whatever the target's digests are of now."""
    for names in (("wall_s", "cpu_user_s", "cpu_kernel_s"), ("vo", "transfers", "job_id"), ("benchmark",), DIGESTED):
        stored = digest_of(names)(FULL)

        assert {field for field in AAR._fields if not is_same(with_another(field), stored)} == set(names)
        assert len(stored) == (16 if names is DIGESTED else 17)


@pytest.mark.parametrize("stored", [b"", b"\0", bytes(12), bytes(17), bytes(12) + b"\xff" * 5, bytes(12) + b"\1" * 6])
def test_a_digest_that_this_program_does_not_know_is_of_no_record(stored: bytes) -> None:
    """What was sent with zeros, what is in doubt, and what a later program stored."""
    assert not is_same(FULL, stored)


def at_sgas(of: UsageRecords, aar: AAR) -> object:
    """What SGAS stores of a record."""
    return sgas.read(of.envelope.join([of.text(aar, aar.end_time)]).encode())


def at_auditor(of: AuditorRecords, aar: AAR) -> object:
    """What AUDITOR stores of a record."""
    return auditor.read(json.loads(of.text(aar, aar.end_time)))


IGNORED = {
    "endpoint_type", "scratch_bytes", "stage_in_bytes", "stage_out_bytes", "system_software", "wn_instance",
    "lrms_submit_time", "lrms_end_time",
}  # fmt: skip
"""What neither receiver stores."""
AT_AUDITOR = IGNORED | {
    "local_job_id", "queue", "status", "exit_code", "virtual_memory_kib", "job_name", "node_names", "client_host",
    "project", "run_time_environments", "transfers",
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "stored", "ignored"),
    [
        (UsageRecords(UROptions(host="ce"), can_replace=False), at_sgas, {"lrms", "benchmark", "lrms_start_time"}),
        (
            UsageRecords(UROptions(host="ce", start_time_source="lrms"), can_replace=False),
            at_sgas,
            {"lrms", "benchmark"},
        ),
        (AuditorRecords(RecordOptions("SITE")), at_auditor, AT_AUDITOR | {"submit_time", "lrms_start_time"}),
        (AuditorRecords(RecordOptions("SITE", start_time_source="lrms")), at_auditor, AT_AUDITOR),
    ],
    ids=["sgas", "sgas-lrms", "auditor", "auditor-lrms"],
)
def test_a_value_that_is_not_in_a_digest_changes_nothing_at_the_receiver(
    family: RecordFormat, stored: Callable[[RecordFormat, AAR], object], ignored: set[str]
) -> None:
    same = {field for field in AAR._fields if family.digest(with_another(field)) == family.digest(FULL)}

    assert same == UNSEEN | IGNORED | ignored
    assert {field for field in same if stored(family, with_another(field)) != stored(family, FULL)} == set()


def test_the_start_of_a_local_job_is_in_the_digest_of_sgas() -> None:
    """Without an endpoint it is the batch system's, whatever the option says."""
    family = UsageRecords(UROptions(host="ce"), can_replace=False)
    local = FULL._replace(endpoint_url=None, endpoint_type=None)
    later = local._replace(lrms_start_time=local.end_time)

    assert at_sgas(family, later) != at_sgas(family, local)
    assert family.digest(later) != family.digest(local)
