"""What jura-ng sent to APEL, computed from A-REX's database, against what the real one sent."""

from __future__ import annotations

import pathlib
from collections import Counter

import pytest
from jura_site import JURA, NOVEMBER, arex_database

from arcacct.benchmark import Benchmark
from arcacct.targets.apel import jura
from arcacct.targets.apel.summaries import (
    SUMMARY_HEADERS,
    SYNC_HEADER,
    JuraCell,
    SummaryKey,
    summary_record,
    sync_record,
)

SITE = "EXAMPLE-SITE"
MONTH = (2026, 11)
URL = "https://ce.example.org:443/arex"
NAMES = {6: "6.17", 7: "7.0"}
CELL = JuraCell("/CN=Ada", "atlas", "org.nordugrid.arcrest", URL, 1, 1, "/atlas", "HEPSPEC:10.0", 1, 60, 50, 10, 20)


@pytest.fixture(params=[6, 7])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def captured(name: str) -> str:
    return (JURA / name).read_text(encoding="ascii")


def cells(path: pathlib.Path, version: int) -> list[JuraCell]:
    with arex_database(path, version) as database:
        return jura.cells(database, NOVEMBER)


def key_of(cell: JuraCell, version: int) -> SummaryKey:
    (found,) = jura.sums([cell], MONTH, SITE, version)
    assert found.earlier == ()
    return found.summary.key


def test_summaries_are_those_that_jura_sent(tmp_path, version) -> None:
    """Byte for byte, in its order: its groups without FQAN, its doubled jobs and its escapes included."""
    records = [summary_record(one.summary) for one in jura.sums(cells(tmp_path, version), MONTH, SITE, version)]

    assert SUMMARY_HEADERS["summaries"] + "".join(records) == captured(f"{NAMES[version]}-summaries.txt")


def test_summaries_with_a_dictionary_of_benchmarks_are_those_that_jura_sent(tmp_path) -> None:
    """The other kind that jura-ng of ARC 7 knows has the same keys."""
    records = [summary_record(one.summary, "summaries-v04") for one in jura.sums(cells(tmp_path, 7), MONTH, SITE, 7)]

    assert SUMMARY_HEADERS["summaries-v04"] + "".join(records) == captured("7.0-summaries-v04.txt")


def test_counts_are_those_that_jura_sent(tmp_path, version) -> None:
    """Byte for byte; two records for one SubmitHost in version 6, which counts by interface."""
    with arex_database(tmp_path, version) as database:
        found = jura.counts(database, NOVEMBER)
    merged: Counter[tuple[str, str]] = Counter()
    for _vo, interface, url, jobs in found:
        merged[interface, url] += jobs
    counts = [(*endpoint, jobs) for endpoint, jobs in merged.items()]
    records = [sync_record(one) for one in jura.syncs(counts, MONTH, SITE, version)]

    assert SYNC_HEADER + "".join(records) == captured(f"{NAMES[version]}-sync.txt")


def test_job_records_have_the_ids_and_ends_that_jura_sent(tmp_path, version) -> None:
    """All but one job that ended once more after it was sent: such jobs are named."""
    lines = captured(f"{NAMES[version]}-urs.tsv").lower().splitlines()
    sent = {tuple(line.split("\t")[:2]) for line in lines}
    with arex_database(tmp_path, version) as database:
        ends = [one for page in jura.ends(database, NOVEMBER) for one in page]
        again = jura.ended_again(database, NOVEMBER)
    keys = {one.job_id: jura.job_key(one.job_id, one.local_job_id, one.end_time, SITE) for one in ends}
    known = {(key.local_job_id, str(key.end_time)) for key in keys.values()}

    assert sent - known == ({("3395", "1795169554")} if version == 6 else set())
    assert {job for job, _end in sent - known} <= {keys[job_id].local_job_id for job_id in again}


def test_job_records_have_the_service_levels_that_jura_sent(tmp_path, version) -> None:
    """Those recorded in version 6, and 1.0 for every job in version 7."""
    sent = {line.split("\t")[2] for line in captured(f"{NAMES[version]}-urs.tsv").splitlines()}
    found = {str(jura.service_level_of_job(one.benchmark, version)) for one in cells(tmp_path, version)}

    assert found == {str(Benchmark.parse(level)) for level in sent}


@pytest.mark.parametrize(
    ("version", "fqan", "group", "role"),
    [
        (6, "/atlas/Role=production", "/atlas/role", "role=null"),
        (7, "/atlas/Role=production", "/atlas", "/role=production"),
        (6, "/atlas/uk/Role=production/Capability=x", "/atlas/uk/role", "role=null"),
        (7, "/atlas/uk/Role=production/Capability=x", "/atlas/uk", "/role=production"),
        (6, "/atlas/uk", "/atlas/uk", "role=null"),
        (7, "/atlas/uk", "/atlas/uk", "role=null"),
        (6, "", "/atlas", "role=null"),
        (7, "", "/atlas", "role=null"),
    ],
)
def test_group_and_role_are_split_as_jura_did(version, fqan, group, role) -> None:
    """Version 6 takes the role's name for a group, version 7 the slash for a part of the role."""
    key = key_of(CELL._replace(fqan=fqan), version)

    assert (key.vo, key.group, key.role) == ("atlas", group, role)


def test_a_user_without_vo(version) -> None:
    """An empty VO in version 6, which APEL stores as none, with a group and a role; nothing of it in version 7."""
    key = key_of(CELL._replace(vo="", fqan=""), version)

    assert (key.vo, key.group, key.role) == ((None, "/", "role=null") if version == 6 else (None, None, None))


@pytest.mark.parametrize(
    ("version", "benchmark", "sent"),
    [
        (6, "HEPscore23:12.5", ("hepspec", "1")),
        (7, "HEPscore23:12.50", ("hepscore23", "12.5")),
        (6, "Si2k:3065", ("si2k", "3065")),
        (6, "hepspec:12", ("hepspec", "1")),
        (7, "", ("hepspec", "1")),
        (7, "HEPSPEC", ("hepspec", "1")),
    ],
)
def test_what_jura_takes_for_no_benchmark_is_hepspec_1(version, benchmark, sent) -> None:
    """Version 6 knows no HEPscore23; both want the type in the letters that they know."""
    key = key_of(CELL._replace(benchmark=benchmark), version)

    assert (key.benchmark_type, key.benchmark_value) == sent


def test_what_apel_refused_is_left_out(version) -> None:
    """A value that is no number never got into the database: zeros for it would not either."""
    assert jura.sums([CELL._replace(benchmark="HEPSPEC:fast")], MONTH, SITE, version) == []


@pytest.mark.parametrize(
    ("interface", "host"),
    [
        ("org.nordugrid.arcrest", f"arcrest:{URL}"),
        ("org.nordugrid.internal", f"ternal:{URL}"),
        ("org.ogf.glue.emies.activitycreation", URL),
        ("org.nordugrid.gridftpjob", URL),
    ],
)
def test_version_7_puts_the_interface_before_the_url(interface, host) -> None:
    """In summaries and in sync records."""
    assert key_of(CELL._replace(interface=interface), 7).submit_host == host
    (sync,) = jura.syncs([(interface, URL, 3)], MONTH, SITE, 7)
    assert (sync.key.submit_host, sync.jobs) == (host, 3)
    assert key_of(CELL._replace(interface=interface), 6).submit_host == URL


def test_the_last_job_lends_its_fqan_in_version_6() -> None:
    """Jobs of one user under several FQANs are one sum; earlier runs may have sent it under another of them."""
    first = CELL._replace(fqan="/atlas/Role=production", latest_end_time=15)
    (found,) = jura.sums([first, CELL], MONTH, SITE, 6)

    assert (found.summary.jobs, found.summary.wall_s) == (2, 120)
    assert found.summary.key.group == "/atlas"
    assert [key.group for key in found.earlier] == ["/atlas/role"]
    assert len(jura.sums([first, CELL], MONTH, SITE, 7)) == 2
