"""The harness of the power cuts can fail: it loses what a program did not sync, and keeps what it did."""

from __future__ import annotations

import pathlib
import sys

import pytest
from power_cuts import DATA, JOURNAL, NAMES, STRICT, Cut, Trace, TraceError, possible_order
from strace import strace_only

pytestmark = [pytest.mark.campaign, strace_only]

KEEP = """
import os, sys
folder, synced = sys.argv[1], sys.argv[2:]
with open(f"{folder}/.tmp", "wb") as file:
    file.write(b"new" * 3000)
    file.flush()
    if "file" in synced:
        os.fsync(file.fileno())
os.rename(f"{folder}/.tmp", f"{folder}/kept")
if "directory" in synced:
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
os.unlink(f"{folder}/source")
"""
NEW = b"new" * 3000


def traced(tmp_path: pathlib.Path, *synced: str) -> Trace:
    """A program that writes a file again, gives it its name, and removes what it was made from."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "kept").write_bytes(b"old")
    (root / "source").write_bytes(b"source")
    return Trace.of(root, [sys.executable, "-I", "-c", KEEP, str(root), *synced])


def left(trace: Trace, cut: Cut) -> dict[str, bytes]:
    trace.restore(cut)
    return {path.name: path.read_bytes() for path in pathlib.Path(trace.root).iterdir()}


def every_cut(trace: Trace, rule: str) -> list[Cut]:
    return [
        Cut(after, rule, names, data, seed)
        for after in range(len(trace.calls) + 1)
        for names in (NAMES if rule == STRICT else NAMES[:2])
        for data in DATA
        for seed in range(3)
    ]


def losses(trace: Trace, rule: str) -> set[str]:
    """What a reader would miss after all kinds of cuts: neither the source nor the whole new file is there."""
    found = set()
    for cut in every_cut(trace, rule):
        files = left(trace, cut)
        if "source" not in files and files.get("kept") != NEW:
            found.add("nothing" if "kept" not in files else "empty" if not files["kept"] else "other")
        assert files.get("kept") in {None, b"old", NEW} or "file" not in trace_synced(trace)
    return found


def trace_synced(trace: Trace) -> set[str]:
    """What the program synced."""
    kinds = {trace.root: "directory"}
    return {kinds.get(str(call.arguments[0]), "file") for call in trace.calls if call.method == "sync"}


def test_what_was_not_synced_is_lost(tmp_path: pathlib.Path) -> None:
    """Renamed without a sync of the file: an empty or half file in its place, under either rule."""
    trace = traced(tmp_path)

    assert {"empty", "other"} <= losses(trace, JOURNAL)
    assert {"empty", "other"} <= losses(trace, STRICT)
    assert left(trace, Cut(len(trace.calls))) == {"kept": b""}


def test_a_synced_file_needs_its_directory_only_where_posix_says_so(tmp_path: pathlib.Path) -> None:
    """A synced file that was renamed is whole; strictly its new name may still be lost while the source is gone."""
    trace = traced(tmp_path, "file")

    assert losses(trace, JOURNAL) == set()
    assert losses(trace, STRICT) == {"other"}
    assert left(trace, Cut(len(trace.calls), STRICT, "removals")) == {"kept": b"old"}


def test_what_was_synced_is_kept(tmp_path: pathlib.Path) -> None:
    """File and directory synced before the source goes: no cut loses anything."""
    trace = traced(tmp_path, "file", "directory")

    assert losses(trace, JOURNAL) == losses(trace, STRICT) == set()
    assert left(trace, Cut(0)) == {"kept": b"old", "source": b"source"}
    assert left(trace, Cut(len(trace.calls))) == {"kept": NEW}


SHELL = """
set -e
cd "$1"
mkdir -p sub/deep
printf 'one %s\\n' line >sub/deep/a
echo two >>sub/deep/a
cp sub/deep/a sub/deep/b
cp -p big copy
ln big linked
ln -s big symlink
mv sub/deep sub/deeper
chmod 640 copy
truncate -s 100 copy
cat big >>sub/deeper/b
rm linked
sync sub/deeper/a
sync sub
"""


def test_what_a_shell_does_is_understood(tmp_path: pathlib.Path) -> None:
    """Copies, links, redirections and renamed directories: the calls add up to what is on the disk."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "big").write_bytes(bytes(range(256)) * 1000)

    trace = Trace.of(root, ["sh", "-c", SHELL, "sh", str(root)])

    assert trace.exit_code == 0
    everything = Cut(len(trace.calls), data="all")
    trace.restore(Cut(0))
    assert sorted(path.name for path in root.iterdir()) == ["big"]
    trace.restore(everything)
    assert (root / "sub/deeper/a").read_text() == "one line\ntwo\n"
    assert (root / "sub/deeper/b").read_bytes() == b"one line\ntwo\n" + (root / "big").read_bytes()
    assert (root / "copy").read_bytes() == (root / "big").read_bytes()[:100]
    assert (root / "symlink").read_bytes() == (root / "big").read_bytes()
    # Of what was not synced only names are left, where even those are.
    trace.restore(Cut(len(trace.calls)))
    assert (root / "sub/deeper/a").read_text() == "one line\ntwo\n"
    assert (root / "sub/deeper/b").read_bytes() == b""
    trace.restore(Cut(len(trace.calls), STRICT, "removals"))
    assert sorted(path.name for path in root.iterdir()) == ["big"]


# Two processes: one makes a file, syncs and renames it; the other removes it in the meantime.
MAKE = """
import os, sys
fd = os.open(f"{sys.argv[1]}/.tmp", os.O_WRONLY | os.O_CREAT)
os.rename(f"{sys.argv[1]}/.tmp", f"{sys.argv[1]}/event")
os.fsync(fd)
os.unlink(f"{sys.argv[1]}/event")
"""


@pytest.mark.parametrize("ended", ["rename", "sync"])
def test_calls_of_two_processes_that_overlap_are_put_in_order(tmp_path: pathlib.Path, ended: str) -> None:
    """A file is synced before the trace shows that it got its name, or after it shows that it lost it."""
    root = tmp_path / "root"
    root.mkdir()
    trace = Trace.of(root, [sys.executable, "-I", "-c", MAKE, str(root)])
    opened, renamed, synced, removed = trace.calls
    other = synced._replace(process=synced.process + 1)
    traced = [opened, other, renamed, removed] if ended == "rename" else [opened, renamed, removed, other]

    assert possible_order(trace.before, traced) == [opened, renamed, other, removed]
    with pytest.raises(TraceError, match="used, and never made"):
        possible_order(trace.before, [opened, other])


DATABASE = """
import os, sqlite3, sys
con = sqlite3.connect(sys.argv[1], isolation_level=None)
con.execute(f"PRAGMA synchronous = {sys.argv[2]}")
for number in range(20):
    con.execute("INSERT INTO Kept VALUES (?, zeroblob(6000))", (number,))
    os.mkdir(f"{os.path.dirname(sys.argv[1])}/{number}")
os._exit(0)
"""


@pytest.mark.parametrize(("synchronous", "lost"), [("FULL", False), ("NORMAL", True)])
def test_sqlite_is_as_durable_as_it_says(tmp_path: pathlib.Path, synchronous: str, lost: bool) -> None:
    """Every commit survives with FULL and some are lost with NORMAL; whole from the first to the last that is left."""
    import sqlite3
    from contextlib import closing

    root = tmp_path / "root"
    root.mkdir()
    database = root / "a.db"
    with closing(sqlite3.connect(database)) as con:
        con.execute("PRAGMA journal_mode = WAL")
        con.execute("CREATE TABLE Kept (Number INTEGER, Filling BLOB)")
    trace = Trace.of(root, [sys.executable, "-I", "-c", DATABASE, str(database), synchronous])
    missing = 0
    for rule in (JOURNAL, STRICT):
        for cut in trace.cuts(60, rule, 1):
            committed = sum(call.method == "make" for call in trace.calls[: cut.after])
            trace.restore(cut)
            with closing(sqlite3.connect(database)) as con:
                assert con.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                found = [number for (number,) in con.execute("SELECT Number FROM Kept ORDER BY 1")]
            assert found == list(range(len(found)))
            missing += max(0, committed - len(found))

    assert (missing > 0) is lost
