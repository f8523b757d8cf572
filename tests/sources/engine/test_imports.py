"""Following accounting files while they are written, rotated, cut and replaced."""

from __future__ import annotations

import gzip
import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from control_directory import set_up
from gridengine_files import World, ran

from arcacct.config.paths import places
from arcacct.database.access import open_accounting
from arcacct.errors import InputError


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    here = places(None, set_up(tmp_path / "control"))
    with closing(open_accounting(here)) as con:
        yield World(here, con)


@pytest.fixture
def path(tmp_path) -> pathlib.Path:
    return tmp_path / "accounting"


def following(world: World, path: pathlib.Path, *rounds: Callable[[], object]) -> list[str]:
    """The jobs in the database after these things happened, each before one look at the file."""
    coming = iter((*rounds, lambda: None))

    def goes_on() -> bool:
        happens = next(coming, None)
        if happens is not None:
            happens()
        return happens is not None

    world.work().follow([str(path)], poll_s=0, goes_on=goes_on)
    return [row[0] for row in world.con.execute("SELECT local_job_id FROM v1_jobs ORDER BY CAST(local_job_id AS INT)")]


def append(path: pathlib.Path, content: bytes) -> Callable[[], object]:
    def happens() -> None:
        with path.open("ab") as file:
            file.write(content)

    return happens


def line(number: int) -> bytes:
    return ran(number, 1, 10, 20)


def test_lines_that_come(world, path) -> None:
    """What is appended is imported, a line in two parts once it is whole."""
    path.write_bytes(line(1))

    assert following(world, path, append(path, line(2) + line(3)[:50]), append(path, line(3)[50:])) == ["1", "2", "3"]
    assert world.value("SELECT count(*) FROM GridEngineFiles") == 1


def test_a_file_that_comes_later(world, path) -> None:
    """A path without a file is followed until there is one; a header alone is no record."""
    rounds = [lambda: None, append(path, b"# Version: 9.1.0\n# \n"), append(path, line(1)), append(path, line(2))]

    assert following(world, path, *rounds) == ["1", "2"]
    assert world.value("SELECT lines FROM v1_gridengine_files") == 4


def test_a_renamed_file(world, path) -> None:
    """What is written into the old file until it is closed is not lost, nor what comes into the new one."""
    path.write_bytes(line(1))
    old = path.with_name("accounting.0")

    def rename() -> None:
        append(path, line(2))()
        path.rename(old)

    def old_and_new() -> None:
        append(old, line(3))()
        append(path, line(4))()

    assert following(world, path, rename, old_and_new) == ["1", "2", "3", "4"]


def test_two_rotations_between_two_looks(world, path) -> None:
    """Files that came and went between two looks are found under the names they were rotated to."""
    path.write_bytes(line(1))

    def twice() -> None:
        append(path, line(2))()
        path.rename(path.with_name("accounting.1"))
        path.with_name("accounting.0").write_bytes(line(3))
        path.write_bytes(line(4))

    assert following(world, path, lambda: None, twice) == ["1", "2", "3", "4"]


def test_a_file_that_was_emptied(world, path) -> None:
    """A file that was copied away and cut continues from its new beginning, also if it is as long as before at once."""
    path.write_bytes(line(1) + line(2))

    def cut() -> None:
        packed = path.with_name("accounting.0.gz")
        packed.write_bytes(gzip.compress(path.read_bytes() + line(3)))
        with path.open("r+b") as file:
            file.truncate()
            file.write(line(4) + line(5))
        os.utime(path, ns=(1, 1))

    assert following(world, path, lambda: None, cut) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("name", ["accounting.bak", "old-accounting", "archive.gz", "accounting.0.gz"])
@pytest.mark.parametrize("follows", [True, False])
def test_a_copy_of_any_name(world, path, name, follows) -> None:
    """Of a file that was copied to whatever name next to it and cut, what came before the cut is not lost."""
    path.write_bytes(line(1) + line(2))
    path.with_name("unrelated").write_bytes(line(8))

    def cut() -> None:
        append(path, line(3))()
        pack = gzip.compress if name.endswith(".gz") else bytes
        path.with_name(name).write_bytes(pack(path.read_bytes()))
        path.with_name("another.gz").write_bytes(gzip.compress(line(9) * 9))
        with path.open("r+b") as file:
            file.truncate()
            file.write(line(4) + line(5) + line(6))

    if follows:
        found = following(world, path, lambda: None, cut)
    else:
        world.take(path)
        cut()
        world.take(path)
        found = [row[0] for row in world.con.execute("SELECT local_job_id FROM v1_jobs ORDER BY 1")]

    assert found == ["1", "2", "3", "4", "5", "6"]
    assert world.said == []


@pytest.mark.parametrize("follows", [True, False])
def test_a_copy_that_is_elsewhere(world, path, follows) -> None:
    """Where no copy is next to a file that was cut it is said that something may be missing; and not once it came."""
    path.write_bytes(line(1) + line(2))
    copy = path.parent / "archive" / "2026"
    copy.parent.mkdir()
    read = len(path.read_bytes())

    def cut() -> None:
        append(path, line(3))()
        copy.write_bytes(path.read_bytes())
        path.write_bytes(line(4))

    if follows:
        following(world, path, lambda: None, cut)
    else:
        world.take(path)
        cut()
        world.take(path)
    said = list(world.said)
    world.take(copy, path)

    missing = (
        f"{path}: truncated or replaced after it was read up to byte {read}, and no file next to it continues there: "
    )
    assert said == [f"{missing}if lines were written meanwhile, also import the copy of the old file"]
    assert world.said == said
    assert world.value("SELECT count(*) FROM v1_jobs") == 4


def test_the_copy_that_is_named_as_well(world, path) -> None:
    """Nothing is said where the copy is among the files that are to be read."""
    path.write_bytes(line(1) + line(2))
    world.take(path)
    copy = path.parent / "archive" / "2026"
    copy.parent.mkdir()
    append(path, line(3))()
    path.rename(copy)
    path.write_bytes(line(4))
    world.take(path, copy)

    assert world.value("SELECT count(*) FROM v1_jobs") == 4
    assert world.said == []


def test_a_complaint_is_said_once(world, path) -> None:
    """A file that cannot be read is said once, however often it is looked at, and read when it can be."""
    path.mkdir()

    def becomes_a_file() -> None:
        path.rmdir()
        path.write_bytes(line(1))

    assert following(world, path, lambda: None, lambda: None, becomes_a_file) == ["1"]
    assert world.said == [f"{path}: cannot be read: Is a directory"]


def test_standard_input_cannot_be_followed(world) -> None:
    """Standard input ends: following it is refused with what to do."""
    with pytest.raises(InputError, match="without --follow"):
        world.work().follow(["-"])
