"""Files that grow and are renamed, copied, cut and compressed meanwhile: each line of them once."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable

import pytest
from campaigns import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcacct.errors import InputError
from arcacct.files.follow import FileOffset, FileTailer, Overlong, Reader

COMPRESSED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


class Store:
    """What a source keeps of the files that it read: it survives the process."""

    def __init__(self) -> None:
        self.files: dict[int, tuple[bytes | None, FileOffset]] = {}
        self.numbers = itertools.count(1)
        self.last: dict[str, tuple[FileOffset, int]] = {}
        self.lines: list[bytes] = []

    def find(self, reader: Reader) -> FileOffset:
        reader.look_at_head()
        known = (position for head, position in self.files.values() if head is not None and head == reader.head)
        return next((one for one in known if reader.holds(one)), FileOffset(next(self.numbers)))

    def latest(self, path: str) -> tuple[FileOffset, int] | None:
        return self.last.get(path)

    def take(self, reader: Reader, most: int | None = None) -> bool:
        """Take the lines that there are, or so many of them; whether that was all."""
        for lines in reader.lines():
            assert not isinstance(lines, Overlong)
            taken = lines if most is None else lines[:most]
            if taken:
                self.lines += taken
                reader.position = reader.position.after(taken)
                reader.look_at_head()
                self.files[reader.position.file_id] = reader.head, reader.position
                self.last[reader.path] = reader.position, int(time.time())
            if len(taken) < len(lines):
                return False
        return True


class Growing(RuleBasedStateMachine):
    """A file that is written, rotated and followed, by a process that may be killed at any moment."""

    keeps = True
    """Whether positions survive the process."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.path = self.folder / "log"
        self.written: list[bytes] = []
        self.torn = b""
        self.rotations = 0
        self.is_open = False
        self.open_before: pathlib.Path | None = None
        self.store = Store()
        self.complaints: list[str] = []
        self.start()

    def start(self) -> None:
        positions = self.store if self.keeps else None
        self.rounds = FileTailer([str(self.path)], self.complaints.append, positions).follow(0)
        self.is_open, self.open_before = False, None

    def write(self, path: pathlib.Path, content: bytes) -> None:
        with path.open("ab") as file:
            file.write(content)

    def line(self) -> bytes:
        """A line of any length, none like another; as often as not as long as the one before."""
        number = len(self.written) + 1000
        line = b"%d %s %d\n" % (number, b"x" * (number % 3 * 2500), number)
        self.written.append(line)
        return line

    def end_line(self) -> None:
        self.write(self.path, self.torn)
        self.torn = b""

    def rotated(self) -> pathlib.Path:
        self.rotations += 1
        return self.path.with_name(f"log.{self.rotations}")

    @initialize()
    def begin(self) -> None:
        self.path.write_bytes(self.line())
        # What was rotated before anything was read is no one's.
        self.look()

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        self.end_line()
        for _ in range(count):
            self.write(self.path, self.line())

    @rule()
    def append_half_a_line(self) -> None:
        self.end_line()
        line = self.line()
        # So much of it that no other line starts alike: else a file that was cut here could not be told from its next.
        self.write(self.path, line[:4])
        self.torn = line[4:]

    @rule(at_once=st.booleans())
    @precondition(lambda self: self.path.exists())
    def rename(self, at_once: bool) -> None:
        self.end_line()
        target = self.rotated()
        self.path.rename(target)
        self.open_before = target if self.is_open else None
        self.is_open = False
        if at_once:
            self.path.touch()

    @rule(again=st.booleans())
    @precondition(lambda self: self.path.exists())
    def copy_and_cut(self, again: bool) -> None:
        self.end_line()
        shutil.copy2(self.path, self.rotated())
        os.truncate(self.path, 0)
        self.is_open = False
        if again:
            # As long as before at once.
            self.append(2)

    @rule()
    @precondition(lambda self: self.open_before is not None)
    def append_to_what_was_renamed(self) -> None:
        """Its writer has not let go of it yet."""
        self.write(self.open_before, self.line())

    @rule(how=st.sampled_from(sorted(COMPRESSED)))
    def compress(self, how: str) -> None:
        plain = sorted(
            path for path in self.folder.iterdir() if path != self.path and path.suffix[1:] not in COMPRESSED
        )
        for path in plain[:1]:
            packed = path.with_name(f"{path.name}.{how}")
            packed.write_bytes(COMPRESSED[how](path.read_bytes()))
            shutil.copystat(path, packed)
            path.unlink()
            if path == self.open_before:
                self.open_before = None

    @rule()
    def look(self) -> None:
        for reader in self.rounds:
            if reader is None:
                break
            self.take(reader)
        self.is_open = self.path.exists()

    def take(self, reader: Reader) -> None:
        if self.keeps:
            self.store.take(reader)
            return
        reader.state = b"".join([reader.state or b"", *reader.chunks()])
        *lines, reader.state = reader.state.split(b"\n")
        self.store.lines += [line + b"\n" for line in lines]

    @rule(most=st.integers(0, 3))
    @precondition(lambda self: self.keeps)
    def die_while_looking(self, most: int) -> None:
        for reader in self.rounds:
            if reader is None or not self.store.take(reader, most):
                break
        self.rounds.close()
        self.start()

    @invariant()
    def nothing_came_twice(self) -> None:
        assert len(set(self.store.lines)) == len(self.store.lines)
        assert self.complaints == []

    def teardown(self) -> None:
        if self.written:
            self.append(1)
            self.look()
            self.look()
            self.rounds.close()
            assert sorted(self.store.lines) == sorted(self.written)
        shutil.rmtree(self.folder)


class GrowingInMemory(Growing):
    """The same without positions that survive, by bytes instead of lines."""

    keeps = False


BRIEFLY = settings(
    max_examples=examples(150), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestKept = Growing.TestCase
TestKept.settings = BRIEFLY
TestInMemory = GrowingInMemory.TestCase
TestInMemory.settings = BRIEFLY


def taken(follower: FileTailer, *rounds: Callable[[], object]) -> list[tuple[str, bytes]]:
    """What each file had after these things happened, each before one look."""
    coming = iter((*rounds, lambda: None))

    def goes_on() -> bool:
        happens = next(coming, None)
        if happens is not None:
            happens()
        return happens is not None

    looked = ((reader.path, b"".join(reader.chunks())) for reader in follower.follow(0, goes_on=goes_on) if reader)
    return [(os.path.basename(path), text) for path, text in looked if text]


def test_files_of_directories_by_their_names(tmp_path) -> None:
    """Of a directory, at any depth, what ends as it should and is not hidden; a named file whatever its name."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name in ("in/b.json", "in/deep/a.json.gz", "in/c.txt", "in/.d.json", "named"):
        (tmp_path / name).write_bytes(name.encode())
    follower = FileTailer([str(tmp_path / "in"), str(tmp_path / "named")], print, endings=(".json", ".json.gz"))

    assert [b"".join(one.chunks()) for one in follower.once()] == [b"in/b.json", b"in/deep/a.json.gz", b"named"]


def test_what_is_no_file_is_not_waited_for(tmp_path) -> None:
    """A pipe in a directory is complained about, one that is named is read."""
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "in" / "a.json")
    complaints: list[str] = []
    assert list(FileTailer([str(tmp_path)], complaints.append, endings=(".json",)).once()) == []
    assert complaints == [f"{tmp_path}/in/a.json: a pipe or a device, so it is skipped; name it explicitly to read it"]

    writer = os.open(tmp_path / "in" / "a.json", os.O_RDWR)
    os.write(writer, b"line\n")
    rounds = FileTailer([str(tmp_path / "in" / "a.json")], print).follow(0)
    reader = next(rounds)
    assert reader is not None
    assert next(reader.chunks()) == b"line\n"
    os.close(writer)


def test_a_complaint_is_reported_once_and_again_when_it_was_away(tmp_path) -> None:
    """A path that is no file for some looks, then one, then none again: two complaints, and what the file had."""
    path = tmp_path / "log"
    path.mkdir()
    complaints: list[str] = []

    def becomes_a_file() -> None:
        path.rmdir()
        path.write_bytes(b"line\n")

    def becomes_none() -> None:
        path.unlink()
        path.mkdir()

    rounds = [lambda: None, lambda: None, becomes_a_file, becomes_none, lambda: None]
    assert taken(FileTailer([str(path)], complaints.append), *rounds) == [("log", b"line\n")]
    assert complaints == [f"{path}: cannot be read: Is a directory"] * 2


@pytest.mark.parametrize("how", COMPRESSED)
def test_a_damaged_archive_that_is_put_right(tmp_path, how) -> None:
    """What can be read of it comes at once and the damage is told once; of the whole file the rest comes, only that."""
    packed = COMPRESSED[how](bytes(range(256)) * 2000)
    path = tmp_path / f"log.{how}"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    complaints: list[str] = []
    rounds = [lambda: None, lambda: None, lambda: path.write_bytes(packed)]
    found = taken(FileTailer([str(path)], complaints.append), *rounds)

    assert b"".join(text for _name, text in found) == bytes(range(256)) * 2000
    assert complaints == [f"{path}: truncated in compressed data; everything before is imported"]


def test_members_that_are_added_to_an_archive(tmp_path) -> None:
    """An archive of several members, to which one more is added while it is followed, is read on."""
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))

    def one_more() -> None:
        with path.open("ab") as file:
            file.write(gzip.compress(b"three\n"))

    assert taken(FileTailer([str(path)], print), lambda: None, one_more) == [
        ("log.gz", b"one\ntwo\n"),
        ("log.gz", b"three\n"),
    ]


def test_an_archive_of_another_kind_is_reported(tmp_path) -> None:
    """What we cannot read is no text: it is said, with what to do."""
    path = tmp_path / "log.0.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(40))
    with pytest.raises(InputError, match="zstdcat"):
        Reader(str(path))


def test_a_file_that_leaves_is_read_to_its_end(tmp_path) -> None:
    """What was written into a file of a directory before it was removed comes, and that it was all is known."""
    path = tmp_path / "a.json"
    path.write_bytes(b"one\n")
    ends = []

    def remove() -> None:
        with path.open("ab") as file:
            file.write(b"two\n")
        path.unlink()

    coming = iter([lambda: None, remove, lambda: None])
    for reader in FileTailer([str(tmp_path)], print, endings=(".json",)).follow(
        0, goes_on=lambda: (happens := next(coming, None)) is not None and (happens() or True)
    ):
        if reader is not None:
            ends.append((b"".join(reader.chunks()), reader.is_last))
    assert ends == [(b"one\n", False), (b"two\n", True)]


def test_standard_input_is_followed_alone(tmp_path) -> None:
    """It has no second look, so it cannot be one of several."""
    with pytest.raises(InputError, match="standard input and files cannot be followed together"):
        next(FileTailer(["-", str(tmp_path / "a")], print).follow(0))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_link_of_another_user_is_not_followed(tmp_path) -> None:
    """Who may write into the directory must not choose what root reads and keeps; a link that is named is read."""
    secret, folder = tmp_path / "secret", tmp_path / "in"
    folder.mkdir()
    secret.write_bytes(b"root:x:0:0\n")
    link = folder / "a.json"
    link.symlink_to(secret)
    complaints: list[str] = []

    def read(path: pathlib.Path) -> list[bytes]:
        return [b"".join(one.chunks()) for one in FileTailer([str(path)], complaints.append, endings=(".json",)).once()]

    assert read(folder) == [secret.read_bytes()]
    os.lchown(link, 65_534, 65_534)
    assert read(folder) == []
    assert complaints == [f"{link}: another user's link, so it is skipped; name it explicitly to read it"]
    assert read(link) == [secret.read_bytes()]
    os.chown(secret, 65_534, 65_534)
    assert read(folder) == [secret.read_bytes()]
