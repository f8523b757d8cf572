"""
Datasets with something wrong: each next to partitions that are whole, which readers answer from.

`BROKEN` has a maker for each; whatever reads datasets is shown all of them.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import federation
from written_partitions import WRITTEN_S, write_partition

from arcacct.export.dataset import Partition, with_digest

WHOLE = Partition("Site-01", 2026, 1, "ce01.example.org")
BAD = Partition("Site-01", 2026, 1, "ce02.example.org")
"""The one that something is wrong with; in overlaps there is a whole version of it, too."""
JOBS = 20
"""Of each partition."""


class Broken(NamedTuple):
    """A dataset, or two, with something wrong."""

    name: str
    make: Callable[[pathlib.Path], list[pathlib.Path]]
    """Writes below an empty folder; returns the datasets' directories, to be named in one command."""
    whole_jobs: int
    """Jobs that nothing is wrong with, answered in any case: of two versions of a partition the later ones."""


def _both(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A dataset of two partitions, and the manifest of the bad one."""
    _write(folder, WHOLE)
    return folder, _write(folder, BAD)


def _write(folder: pathlib.Path, partition: Partition, jobs: int = JOBS, **manifest: Any) -> pathlib.Path:
    tables = {"jobs": federation.jobs_of(partition, jobs)}
    tables |= federation.children_of(tables["jobs"])
    return write_partition(folder, partition, tables, **manifest)


def _told(manifest: pathlib.Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a manifest says."""
    whole = json.loads(manifest.read_text())
    change(whole)
    manifest.write_bytes(with_digest(whole))


def part(folder: pathlib.Path, manifest: pathlib.Path, table: str = "jobs") -> pathlib.Path:
    """The file that the manifest names for the table."""
    told = json.loads(manifest.read_text())
    return folder / BAD.part(table, told["tables"][table]["file"])


def _another_version(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    _told(manifest, lambda whole: whole.update(dataset_version=2))
    return [folder]


def _cut_off_manifest(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    manifest.write_bytes(manifest.read_bytes()[:-100])
    return [folder]


def _of_another_partition(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    _told(manifest, lambda whole: whole.update(ce="ce03.example.org"))
    return [folder]


def _half_written_part(folder: pathlib.Path) -> list[pathlib.Path]:
    """As a disk that was full, or a copy that was interrupted, leaves one."""
    _, manifest = _both(folder)
    file = part(folder, manifest)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return [folder]


def _no_part(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    part(folder, manifest).unlink()
    return [folder]


def _other_bytes(folder: pathlib.Path) -> list[pathlib.Path]:
    """A whole Parquet file with as many jobs, of another CE."""
    _, manifest = _both(folder)
    (other,) = (folder / WHOLE.folder("jobs")).iterdir()
    part(folder, manifest).write_bytes(other.read_bytes())
    return [folder]


def _other_rows(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    _told(manifest, lambda whole: whole["tables"]["jobs"].update(rows=JOBS + 1))
    return [folder]


def _unfinished(folder: pathlib.Path) -> list[pathlib.Path]:
    """An export that was killed before its manifest: parts that nothing names."""
    _, manifest = _both(folder)
    manifest.unlink()
    return [folder]


def _one_name(folder: pathlib.Path) -> list[pathlib.Path]:
    """Two CEs that call themselves the same, each with a directory of its own; a month of the first is whole."""
    _write(folder / "one", WHOLE)
    _write(folder / "one", BAD)
    _write(folder / "other", BAD._replace(month=2), life="f" * 32)
    return [folder / "one", folder / "other"]


def _one_name_and_directory(folder: pathlib.Path) -> list[pathlib.Path]:
    """The same, and both write into one directory, in turns."""
    _write(folder, WHOLE)
    _write(folder, BAD)
    _write(folder, BAD._replace(month=2), life="f" * 32)
    return [folder]


def _overlapping(folder: pathlib.Path) -> list[pathlib.Path]:
    """A CE that is exported into two directories, one of which is a copy of last week."""
    _write(folder / "now", WHOLE)
    _write(folder / "now", BAD, seq=2 * JOBS, written_s=WRITTEN_S + 7 * 86_400)
    _write(folder / "then", BAD, JOBS // 2, seq=JOBS)
    return [folder / "then", folder / "now"]


def _link_to_the_root(folder: pathlib.Path) -> list[pathlib.Path]:
    """Where a site could be, and each of its months: whoever follows one walks the whole file system."""
    _, manifest = _both(folder)
    manifest.unlink()
    manifest.symlink_to("/")
    (folder / "manifests/v1/site=Site-99").symlink_to("/")
    (folder / "jobs/v1/site=Site-99").symlink_to("..")
    return [folder]


def _link_to_the_part(folder: pathlib.Path) -> list[pathlib.Path]:
    """What it leads to is the part, which whoever made the link can exchange."""
    _, manifest = _both(folder)
    file = part(folder, manifest)
    file.rename(folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")
    return [folder]


def _pipe_for_a_part(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    file = part(folder, manifest)
    file.unlink()
    os.mkfifo(file)
    return [folder]


def _pipe_for_a_manifest(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    manifest.unlink()
    os.mkfifo(manifest)
    return [folder]


def _sparse_manifest(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    os.truncate(manifest, 6 << 30)
    return [folder]


def _nested_manifest(folder: pathlib.Path) -> list[pathlib.Path]:
    _, manifest = _both(folder)
    manifest.write_text("[" * 200_000)
    return [folder]


BROKEN = (
    Broken("another version of the dataset", _another_version, JOBS),
    Broken("a manifest that is cut off", _cut_off_manifest, JOBS),
    Broken("a manifest of another partition", _of_another_partition, JOBS),
    Broken("a part that is half written", _half_written_part, JOBS),
    Broken("a part that is not there", _no_part, JOBS),
    Broken("a part with other bytes", _other_bytes, JOBS),
    Broken("a manifest that tells another number of rows", _other_rows, JOBS),
    Broken("two CEs with one name", _one_name, JOBS),
    Broken("two CEs with one name in one directory", _one_name_and_directory, JOBS),
    Broken("overlapping exports", _overlapping, 2 * JOBS),
    Broken("an export that is not finished", _unfinished, JOBS),
    Broken("links to the root directory", _link_to_the_root, JOBS),
    Broken("a link to a part", _link_to_the_part, JOBS),
    Broken("a pipe in the place of a part", _pipe_for_a_part, JOBS),
    Broken("a pipe in the place of a manifest", _pipe_for_a_manifest, JOBS),
    Broken("a manifest of 6 GB", _sparse_manifest, JOBS),
    Broken("a manifest of 200,000 brackets", _nested_manifest, JOBS),
)
