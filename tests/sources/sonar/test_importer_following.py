"""Telemetry in files that are written, rotated, cut and compressed while they are followed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pathlib
from collections.abc import Callable

import pytest
from sonar_site import SERIES, Host

from arcacct.records.rejected import listed
from arcacct.sources.sonar.importer import Importer, SonarReport

LINES = SERIES.read_bytes().splitlines(keepends=True)


@pytest.fixture
def host(tmp_path) -> Host:
    """A host without any job."""
    return Host(tmp_path)


def followed(host: Host, path: pathlib.Path, *rounds: Callable[[], object]) -> SonarReport:
    """What an import did that looked at a path once, and again after each of these things happened."""
    coming = iter(rounds)

    def goes_on() -> bool:
        happens = next(coming, None)
        if happens is not None:
            happens()
        return happens is not None

    run = Importer(host.con, host.here, host.site, host.said.append)
    run.follow([str(path)], poll_s=0, goes_on=goes_on)
    return run.report


def samples(host: Host) -> list[tuple[object, ...]]:
    """How many samples the series' job has."""
    return host.rows("SELECT samples FROM v1_sampled_jobs WHERE job_id = 4242")


def test_two_rotations_between_two_looks(host, tmp_path) -> None:
    """What came and went meanwhile is found under the names that it was rotated to; nothing is read twice."""
    path = tmp_path / "feed.jsonl"
    path.write_bytes(LINES[0] + LINES[1][:50])

    def twice() -> None:
        with path.open("ab") as file:
            file.write(LINES[1][50:] + LINES[2])
        path.with_name("feed.jsonl.2.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        path.with_name("feed.jsonl.1").write_bytes(b"".join(LINES[3:5]))
        path.write_bytes(b"".join(LINES[5:]))

    report = followed(host, path, twice)

    assert (report.envelopes["sample"], report.rejected, samples(host)) == (8, 0, [(8,)])


def test_a_file_that_was_copied_and_cut(host, tmp_path) -> None:
    """An envelope of which half was read before is whole with the copy's other half."""
    path = tmp_path / "feed.jsonl"
    path.write_bytes(b"".join(LINES[:3]) + LINES[3][:50])

    def cut() -> None:
        path.with_name("feed.jsonl-20261120").write_bytes(b"".join(LINES[:6]))
        os.truncate(path, 0)
        path.write_bytes(b"".join(LINES[6:]))

    report = followed(host, path, cut)

    assert (report.envelopes["sample"], report.rejected, samples(host)) == (8, 0, [(8,)])


def test_an_envelope_without_its_end_is_kept(host, tmp_path) -> None:
    """What will never be whole, since its file was removed, is told and kept; what may still be is waited for."""
    path = tmp_path / "feed.jsonl"
    path.write_bytes(LINES[0] + LINES[1][:50])
    assert followed(host, path, lambda: None).rejected == 0

    def replace() -> None:
        path.unlink()
        path.write_bytes(LINES[2])

    assert followed(host, path, replace, lambda: None).rejected == 1
    assert [(one.file, one.position) for one in listed(host.con)] == [(str(path), "object 2")]


COMPRESSED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("ending", COMPRESSED)
def test_a_directory_of_compressed_files(host, tmp_path, ending) -> None:
    """Of a directory every file of JSON is read, in whatever way it is compressed; one that grows is read on."""
    folder = tmp_path / "in"
    folder.mkdir()
    path, compress = folder / f"a.jsonl.{ending}", COMPRESSED[ending]
    path.write_bytes(compress(b"".join(LINES[:4])))

    def grow() -> None:
        with path.open("ab") as file:
            file.write(compress(b"".join(LINES[4:])))

    report = followed(host, folder, grow)

    assert (report.envelopes["sample"], report.unreadable, samples(host)) == (8, 0, [(8,)])


def test_bad_objects_are_reported_whenever_all_is_read(host, tmp_path) -> None:
    """While a file is followed: one line for each reason, with the number of objects and one of them."""
    path = tmp_path / "feed.jsonl"
    teas = [b'{"meta":{},"data":{"type":"tea%d","attributes":{}}}\n' % number for number in range(50)]
    path.write_bytes(b"".join(teas[:30]))
    seen: list[int] = []

    def more() -> None:
        seen.append(len(host.said))
        with path.open("ab") as file:
            file.write(b"".join(teas[30:]))

    followed(host, path, lambda: None, lambda: None, more, lambda: None, lambda: None)

    assert seen == [1]
    assert [line.partition(", as ")[0] for line in host.said] == ["30 records", "20 records"]
