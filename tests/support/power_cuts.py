"""
Power cuts, replayed: a command is traced once, and the disk is built again as a cut after any of its calls leaves it.

`Trace.of` runs a command under strace and keeps, in their order, the calls that change files below one directory.
`Trace.restore` puts that directory into the state of a `Cut`: what was written and not synced is gone or in pieces,
names are as the worst file system may have them. Nothing is timed, and one trace serves any number of cuts.

Two rules for names, since file systems differ:

* ``JOURNAL``: as ext4, XFS and Btrfs do it: names change on disk in the order of the calls, and a sync of any file
  takes along all names that were changed before it.
* ``STRICT``: what POSIX promises: a name is safe only when its directory was synced; until then removals may be kept
  while creations and renames made before them are lost.

Under both the contents of a file are safe only as far as that file was synced. SQLite's -shm is never restored: it is
memory, and made again.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PAGE_BYTES = 4096

JOURNAL = "journal"
STRICT = "strict"

NAMES = ("all", "some", "removals")
"""
What is left of the changes of names that are not safe: all of them; under the journal the first ones, else any; or,
under the strict rule, removals alone.
"""
DATA = ("none", "first", "pages", "lengths", "all", "mixed")
"""
What is left of the contents that are not safe: nothing; the first writes; any pages of 4 KiB; lengths without contents
(what is new reads as zeros); everything; or one of these for each file apart.
"""


class Cut(NamedTuple):
    """One moment and what the disk made of it."""

    after: int
    """So many of the trace's calls were made."""
    rule: str = JOURNAL
    names: str = "all"
    data: str = "none"
    seed: int = 0

    def __str__(self) -> str:
        return f"cut after call {self.after}, {self.rule}, names {self.names}, data {self.data}, seed {self.seed}"


class TraceError(Exception):
    """The trace does not explain what is on the disk: the harness lacks a system call."""


class UnknownName(TraceError):
    """A call uses a path that no call before it has made."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: used, and never made")
        self.path = path


# -- the model of a disk


class Write(NamedTuple):
    """Bytes at a place; with ``data`` None the file's length becomes ``offset``."""

    offset: int
    data: bytes | None


class Inode:
    """A file, directory or symbolic link."""

    def __init__(self, kind: str, content: bytes = b"", mode: int = 0o600, mtime_ns: int | None = None) -> None:
        self.kind = kind
        self.mode = mode
        self.mtime_ns = mtime_ns
        """As it was before the command; ``None`` once the file was changed."""
        self.safe = content
        self.live = bytearray(content)
        self.unsafe: list[Write] = []
        self.position = 0
        self.appending = False
        self.synchronous = False

    def write(self, offset: int | None, data: bytes) -> None:
        """``offset`` None: where the last write ended, or the end of a file that is open for appending."""
        if offset is None:
            offset = len(self.live) if self.appending else self.position
            self.position = offset + len(data)
        self._apply(Write(offset, data))

    def truncate(self, length: int) -> None:
        self._apply(Write(length, None))

    def _apply(self, write: Write) -> None:
        _put(self.live, write)
        self.unsafe.append(write)
        self.mtime_ns = None
        if self.synchronous:
            self.sync()

    def sync(self) -> None:
        self.safe = bytes(self.live)
        self.unsafe = []

    def after_cut(self, data: str, chance: random.Random) -> bytes:
        """The contents that a cut leaves."""
        if data == "mixed":
            data = chance.choice(DATA[:-1])
        if not self.unsafe or data == "all":
            return bytes(self.live)
        content = bytearray(self.safe)
        if data == "first":
            for write in self.unsafe[: chance.randint(0, len(self.unsafe))]:
                _put(content, write)
        elif data == "pages":
            for write in self.unsafe:
                for part in _pages(write):
                    if part.data is None or chance.random() < 0.5:
                        _put(content, part)
        elif data == "lengths":
            shortest = min([len(content), *(write.offset for write in self.unsafe if write.data is None)])
            del content[shortest:]
            _put(content, Write(len(self.live), None))
        return bytes(content)


def _put(content: bytearray, write: Write) -> None:
    end = write.offset if write.data is None else write.offset + len(write.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if write.data is None:
        del content[end:]
    else:
        content[write.offset : end] = write.data


def _pages(write: Write) -> Iterator[Write]:
    if write.data is None:
        yield write
        return
    done = 0
    while done < len(write.data):
        size = PAGE_BYTES - (write.offset + done) % PAGE_BYTES
        yield Write(write.offset + done, write.data[done : done + size])
        done += size


class Change(NamedTuple):
    """A change of names: one is gone (``old``), one is there (``new``), or a thing was renamed."""

    old: str | None
    new: str | None
    inode: Inode

    def apply(self, names: dict[str, Inode]) -> None:
        if self.old is not None:
            below = f"{self.old}/"
            for path in [path for path in names if path == self.old or path.startswith(below)]:
                inode = names.pop(path)
                if self.new is not None:
                    names[self.new + path[len(self.old) :]] = inode
        if self.new is not None:
            names[self.new] = self.inode

    def is_in(self, directory: str) -> bool:
        return directory in {os.path.dirname(path) for path in (self.old, self.new) if path is not None}


class Disk:
    """What is below a directory: as programs see it, and how much of it is safe."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.safe_names: dict[str, dict[str, Inode]] = {JOURNAL: {}, STRICT: {}}
        self.unsafe: dict[str, list[Change]] = {JOURNAL: [], STRICT: []}
        self.nameless: dict[str, Inode] = {}
        """Files that were made without a name, by what /proc calls them."""

    @classmethod
    def found(cls, root: str) -> Disk:
        """What is there now, all of it safe."""
        disk, by_number = cls(), {}
        for path, about in _walk(root):
            if about.st_ino not in by_number:
                by_number[about.st_ino] = _inode_of(path, about)
            disk.names[path] = by_number[about.st_ino]
        disk.safe_names = {rule: dict(disk.names) for rule in disk.safe_names}
        return disk

    def copy(self) -> Disk:
        """Another one with the same contents; of a disk that is safe."""
        disk, copies = Disk(), {}
        for path, inode in self.names.items():
            if inode not in copies:
                copies[inode] = Inode(inode.kind, inode.safe, inode.mode, inode.mtime_ns)
            disk.names[path] = copies[inode]
        disk.safe_names = {rule: dict(disk.names) for rule in disk.safe_names}
        return disk

    # -- the calls

    def open(self, path: str, flags: str, mode: int) -> None:
        """A file was opened for writing, and made or emptied if the flags say so."""
        if "O_TMPFILE" in flags:
            self.nameless[path] = Inode("file", mode=mode)
            return
        if path not in self.names:
            self._change(Change(None, path, Inode("file", mode=mode)))
        inode = self.names[path]
        if inode.kind != "file":
            return
        if "O_TRUNC" in flags and inode.live:
            inode.truncate(0)
        inode.position = 0
        inode.appending = "O_APPEND" in flags
        inode.synchronous = "SYNC" in flags

    def write(self, path: str, offset: int | None, data: bytes) -> None:
        self._file(path).write(offset, data)

    def copy_range(self, source: str | bytes, start: int, path: str, offset: int | None, length: int) -> None:
        """``source``: a path on this disk, or the contents of a file that is elsewhere."""
        content = source if isinstance(source, bytes) else bytes(self._file(source).live)
        self.write(path, offset, content[start : start + length])

    def truncate(self, path: str, length: int) -> None:
        self._file(path).truncate(length)

    def allocate(self, path: str, end: int) -> None:
        """fallocate: the file is at least so long."""
        if end > len(self._file(path).live):
            self._file(path).truncate(end)

    def seek(self, path: str, position: int) -> None:
        if path in self.names or path in self.nameless:
            self._file(path).position = position

    def chmod(self, path: str, mode: int) -> None:
        self._file(path).mode = mode

    def make(self, path: str, kind: str, content: bytes, mode: int) -> None:
        """A directory, or a symbolic link."""
        self._change(Change(None, path, Inode(kind, content, mode)))

    def link(self, source: str, path: str) -> None:
        self._change(Change(None, path, self._file(source)))

    def remove(self, path: str) -> None:
        self._change(Change(path, None, self._file(path)))

    def rename(self, old: str, new: str) -> None:
        self._change(Change(old, new, self._file(old)))

    def exchange(self, one: str, other: str) -> None:
        first, second = self._file(one), self._file(other)
        self._change(Change(None, one, second))
        self._change(Change(None, other, first))

    def sync(self, path: str) -> None:
        """Fsync or fdatasync of a file or a directory."""
        if path in self.names and self.names[path].kind == "directory":
            mine = [change for change in self.unsafe[STRICT] if change.is_in(path)]
            self._make_safe(STRICT, mine)
        else:
            self._file(path).sync()
        self._make_safe(JOURNAL, self.unsafe[JOURNAL])

    def sync_all(self) -> None:
        for inode in (*self.names.values(), *self.nameless.values()):
            inode.sync()
        for rule, changes in self.unsafe.items():
            self._make_safe(rule, changes)

    def _file(self, path: str) -> Inode:
        inode = self.names.get(path) or self.nameless.get(path)
        if inode is None:
            raise UnknownName(path)
        return inode

    def _change(self, change: Change) -> None:
        change.apply(self.names)
        for changes in self.unsafe.values():
            changes.append(change)

    def _make_safe(self, rule: str, changes: list[Change]) -> None:
        for change in changes:
            change.apply(self.safe_names[rule])
        done = {id(change) for change in changes}
        self.unsafe[rule] = [change for change in self.unsafe[rule] if id(change) not in done]

    # -- the cut

    def after_cut(self, cut: Cut) -> dict[str, tuple[Inode, bytes]]:
        """Each path with its inode and the contents that are left of it."""
        chance = random.Random(f"{cut.seed} {cut.after}")
        names = dict(self.safe_names[cut.rule])
        for change in self._kept(cut, chance):
            change.apply(names)
        contents: dict[Inode, bytes] = {}
        left = {}
        for path in sorted(names):
            inode = names[path]
            if inode not in contents:
                contents[inode] = inode.after_cut(cut.data, chance)
            left[path] = inode, contents[inode]
        # What is in a directory that is not there is not there.
        return {path: one for path, one in left.items() if _is_reached(path, left)}

    def _kept(self, cut: Cut, chance: random.Random) -> list[Change]:
        unsafe = self.unsafe[cut.rule]
        if cut.names == "removals":
            return [change for change in unsafe if change.new is None]
        if cut.names == "some" and cut.rule == JOURNAL:
            return unsafe[: chance.randint(0, len(unsafe))]
        if cut.names == "some":
            return [change for change in unsafe if chance.random() < 0.5]
        return unsafe


def _is_reached(path: str, left: dict[str, tuple[Inode, bytes]]) -> bool:
    top = min(left)
    while path != top:
        path = os.path.dirname(path)
        if path not in left:
            return False
    return True


def _walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """The directory and everything below it but SQLite's shared memory."""
    yield root, os.lstat(root)
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if not name.endswith("-shm"):
                yield path, os.lstat(path)


def _inode_of(path: str, about: os.stat_result) -> Inode:
    mode = stat.S_IMODE(about.st_mode)
    if stat.S_ISDIR(about.st_mode):
        return Inode("directory", mode=mode)
    if stat.S_ISLNK(about.st_mode):
        return Inode("link", os.fsencode(os.readlink(path)), mode)
    if not stat.S_ISREG(about.st_mode):
        raise TraceError(f"{path}: neither a file nor a directory")
    return Inode("file", pathlib.Path(path).read_bytes(), mode, about.st_mtime_ns)


# -- the trace

_CALLS = (
    "open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,copy_file_range,"
    "sendfile,ioctl,lseek,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "chmod,fchmod,fchmodat,fchmodat2,fsync,fdatasync,sync,syncfs,chdir,fchdir"
)
# A processor or a strace that lacks a call of these is none the worse.
_TRACED = "trace=" + ",".join(f"?{name}" for name in _CALLS.split(","))
_LINE = re.compile(r"(\d+) +(\d+\.\d+) (\w+)\((.*)\) += (\d+)(?:<([^>]*)>(\(deleted\))?)?(?: .*)?$")
_UNFINISHED = re.compile(r"(\d+) +(\d+\.\d+) (\w+\(.*?),? *<unfinished \.\.\.>$")
_RESUMED = re.compile(r"(\d+) +\d+\.\d+ <\.\.\. \w+ resumed>,? ?(.*)$")
_DESCRIPTOR = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>(\(deleted\))?")
_WORKING = re.compile(r"AT_FDCWD<([^>]*)>")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_FD_LINK = re.compile(r"/proc/(?:self|\d+)/fd/(\d+)$")


class Call(NamedTuple):
    """A call that changed something on the disk, as a method of `Disk` with its arguments."""

    method: str
    arguments: tuple[object, ...]
    at_s: float
    """When it was started, UTC."""
    process: int

    def replay(self, disk: Disk) -> None:
        getattr(disk, self.method)(*self.arguments)

    @property
    def made(self) -> object:
        """The path that exists after the call, or None."""
        at = {"open": 0, "make": 0, "rename": 1, "link": 1}.get(self.method)
        return None if at is None else self.arguments[at]

    @property
    def removed(self) -> object:
        """The path that does not exist after the call, or None."""
        return self.arguments[0] if self.method in {"remove", "rename"} else None

    def __str__(self) -> str:
        told = [f"{len(one)} bytes" if isinstance(one, bytes) else str(one) for one in self.arguments]
        return f"{self.method} {' '.join(told)}"


class Trace:
    """What one command did to a directory, and the directory as it was before."""

    def __init__(self, root: str, before: Disk, calls: list[Call], exit_code: int, stderr: str) -> None:
        self.root = root
        self.before = before
        self.calls = calls
        self.exit_code = exit_code
        self.stderr = stderr

    @classmethod
    def of(
        cls, root: str | os.PathLike[str], command: Sequence[str | os.PathLike[str]], env: dict[str, str] | None = None
    ) -> Trace:
        """
        Run a command to its end, all its children too, and read what they did below a directory.

        Raises TraceError when the calls do not add up to what is on the disk then.
        """
        root = os.path.realpath(root)
        before = Disk.found(root)
        output = f"{root}.strace"
        done = subprocess.run(
            ["strace", "-f", "-y", "-xx", "-ttt", "-s", str(1 << 24), "-o", output, "-e", _TRACED, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=os.environ | (env or {}),
            check=False,
        )
        if not os.path.exists(output):
            raise TraceError(f"strace: {done.stderr.decode(errors='replace')}")
        reader = _Reader(root)
        with open(output, encoding="ascii") as lines:
            calls = [call for line in _whole(lines) for call in reader.read(line)]
        os.unlink(output)
        # Where somebody only reads changes nothing.
        in_turn = {call.arguments[0] for call in calls if call.method == "write" and call.arguments[1] is None}
        calls = [call for call in calls if call.method != "seek" or call.arguments[0] in in_turn]
        calls = possible_order(before, calls)
        trace = cls(root, before, calls, done.returncode, done.stderr.decode(errors="replace"))
        trace._check()
        return trace

    def _check(self) -> None:
        wanted = {path: (inode.kind, bytes(inode.live)) for path, inode in self.replayed(len(self.calls)).names.items()}
        found = {path: (inode.kind, inode.safe) for path, inode in Disk.found(self.root).names.items()}
        wrong = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
        if wrong:
            raise TraceError(f"the traced calls do not explain {', '.join(wrong[:5])}")

    def replayed(self, count: int) -> Disk:
        """The disk after so many calls."""
        disk = self.before.copy()
        for call in self.calls[:count]:
            call.replay(disk)
        return disk

    def restore(self, cut: Cut) -> None:
        """
        Put the directory into the state that a cut leaves.

        Files that are in that state already stay the files that they are, with all their times.
        """
        left = self.replayed(cut.after).after_cut(cut)
        for path, about in reversed(list(_walk(self.root))):
            if path not in left or left[path][0].kind != _inode_kind(about):
                _delete(path, about)
        for folder, _folders, files in os.walk(self.root):
            for name in files:
                if name.endswith("-shm"):
                    os.unlink(os.path.join(folder, name))
        paths: dict[Inode, list[str]] = {}
        for path, (inode, _content) in left.items():
            paths.setdefault(inode, []).append(path)
        for inode, same in sorted(paths.items(), key=lambda one: one[0].kind != "directory"):
            _lay(inode, left[same[0]][1], same)

    def moments(self, *methods: str) -> list[int]:
        """The numbers of calls after which one of these kinds has just been made."""
        return [number for number, call in enumerate(self.calls, 1) if call.method in methods]

    def cuts(self, count: int, rule: str, seed: int, *, first: int = 0) -> list[Cut]:
        """
        Cuts chosen by a seed, from the ``first`` call on: half of them right after names have changed, others right
        before a sync, others anywhere.

        Under the journal every second one keeps all names and no data, the worst for what unlinks too early.
        """
        chance = random.Random(f"{seed} {rule}")
        everywhere = [*range(first, len(self.calls) + 1)]
        changed = [one for one in self.moments("remove", "rename", "link") if one >= first] or everywhere
        unsynced = [one - 1 for one in self.moments("sync", "sync_all") if one > first] or everywhere
        found = []
        for number in range(count):
            after = chance.choice((changed, unsynced, changed, everywhere)[number % 4])
            names, data = chance.choice(NAMES if rule == STRICT else NAMES[:2]), chance.choice(DATA)
            if rule == JOURNAL and number % 4 < 2:
                names, data = "all", "none"
            found.append(Cut(after, rule, names, data, chance.randrange(1 << 16)))
        return found


def possible_order(before: Disk, calls: list[Call]) -> list[Call]:
    """
    The calls in an order in which every name exists while it is used.

    Calls of two processes that overlap are traced in the order in which they ended, and the kernel may have made them
    in the other: a file is used before the trace shows that it got its name, or after it shows that it lost it.
    """
    ordered = [*calls]
    disk, number, moved = before.copy(), 0, set()
    while number < len(ordered):
        try:
            ordered[number].replay(disk)
        except UnknownName as missing:
            call, done, later = ordered[number], ordered[:number], ordered[number + 1 :]
            makers = [one for one in later if one.made == missing.path and one.at_s < call.at_s]
            ended = [at for at, one in enumerate(done) if one.removed == missing.path]
            removals = [at for at in ended if done[at].process != call.process]
            if makers and id(makers[0]) not in moved:
                moved.add(id(makers[0]))
                later.remove(makers[0])
                ordered = [*done, makers[0], call, *later]
            elif removals and id(call) not in moved:
                moved.add(id(call))
                ordered = [*done[: removals[-1]], call, *done[removals[-1] :], *later]
            else:
                raise
            disk, number = before.copy(), 0
        else:
            number += 1
    return ordered


def _inode_kind(about: os.stat_result) -> str:
    return "directory" if stat.S_ISDIR(about.st_mode) else "link" if stat.S_ISLNK(about.st_mode) else "file"


def _delete(path: str, about: os.stat_result) -> None:
    if stat.S_ISDIR(about.st_mode):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _lay(inode: Inode, content: bytes, paths: list[str]) -> None:
    """One inode under its names."""
    first = paths[0]
    if inode.kind == "directory":
        os.makedirs(first, exist_ok=True)
        os.chmod(first, inode.mode)
    elif not _is_laid(inode, content, paths):
        for path in paths:
            if os.path.lexists(path):
                os.unlink(path)
        if inode.kind == "link":
            os.symlink(os.fsdecode(content), first)
        else:
            pathlib.Path(first).write_bytes(content)
            os.chmod(first, inode.mode)
            if inode.mtime_ns is not None:
                os.utime(first, ns=(inode.mtime_ns, inode.mtime_ns))
        for path in paths[1:]:
            os.link(first, path, follow_symlinks=False)


def _is_laid(inode: Inode, content: bytes, paths: list[str]) -> bool:
    if inode.kind == "link" or not all(os.path.lexists(path) for path in paths):
        return False
    about = [os.lstat(path) for path in paths]
    return (
        len({one.st_ino for one in about}) == 1
        and about[0].st_nlink == len(paths)
        and stat.S_IMODE(about[0].st_mode) == inode.mode
        and inode.mtime_ns in {None, about[0].st_mtime_ns}
        and about[0].st_size == len(content)
        and pathlib.Path(paths[0]).read_bytes() == content
    )


def _whole(lines: Iterator[str]) -> Iterator[str]:
    """Lines of strace, those put together that another process broke in two, in the order in which calls ended."""
    begun: dict[str, str] = {}
    for line in lines:
        if match := _UNFINISHED.match(line):
            begun[match[1]] = f"{match[1]} {match[2]} {match[3]}"
        elif (match := _RESUMED.match(line)) and match[1] in begun:
            yield _joined(begun.pop(match[1]), match[2])
        else:
            yield line


def _joined(begin: str, end: str) -> str:
    comma = "" if begin.endswith("(") or end.startswith(")") else ", "
    return f"{begin}{comma}{end}"


class _Reader:
    """From strace's lines to calls on a `Disk`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.descriptors: dict[tuple[str, str], str] = {}
        """The path of each descriptor of a process, where a call told it."""
        self.read_to: dict[str, int] = {}
        """How far a file was copied from."""
        self.working: dict[str, str] = {}
        """The working directory of each process, as its calls tell."""

    def read(self, line: str) -> Iterator[Call]:
        """The calls of one line: none when it failed, or was about other files."""
        match = _LINE.match(line)
        if match is None:
            return
        process, at_s, name, text, result, path, deleted = match.groups()
        arguments = text.split(", ")
        if here := _WORKING.search(text):
            self.working[process] = self.working[""] = _decoded(here[1])
        if path is not None:
            self.descriptors[process, result] = _decoded(path)
        handler = getattr(self, f"_{name.removesuffix('64')}", None)
        if handler is None:
            return
        for method, *values in handler(process, arguments, int(result), _decoded(path or ""), bool(deleted)):
            yield Call(method, tuple(values), float(at_s), int(process))

    def _is_ours(self, path: str) -> bool:
        return (path == self.root or path.startswith(f"{self.root}/")) and not path.endswith("-shm")

    def _path_of(self, argument: str) -> str:
        match = _DESCRIPTOR.match(argument)
        # What has lost its last name is lost with the power; what never had one may get one.
        if match is None or (match[2] and "/#" not in _decoded(match[1])):
            return ""
        return _decoded(match[1])

    def _named(self, directory: str | None, name: str, process: str) -> str:
        """The path that a call names, next to a descriptor of its directory where it takes one."""
        text = os.fsdecode(_bytes(name))
        if match := _FD_LINK.match(text):
            return self.descriptors.get((process, match[1]), text)
        if not os.path.isabs(text):
            working = self.working.get(process, self.working.get("", ""))
            text = os.path.join(working if directory is None else self._path_of(directory), text)
        # The last name itself may be a link; the way to it is followed.
        folder, last = os.path.split(os.path.normpath(text))
        return os.path.join(os.path.realpath(folder), last)

    def _chdir(self, process, arguments, result, path, deleted):
        self.working[process] = self.working[""] = self._named(None, arguments[0], process)
        return ()

    def _fchdir(self, process, arguments, result, path, deleted):
        self.working[process] = self.working[""] = self._path_of(arguments[0])
        return ()

    def _open(self, process, arguments, result, path, deleted):
        return self._opened(arguments[1], arguments[2:], path)

    def _openat(self, process, arguments, result, path, deleted):
        return self._opened(arguments[2], arguments[3:], path)

    def _creat(self, process, arguments, result, path, deleted):
        return self._opened("O_WRONLY|O_CREAT|O_TRUNC", arguments[1:], path)

    def _opened(self, flags, mode, path):
        self.read_to.pop(path, None)
        if self._is_ours(path) and re.search("O_WRONLY|O_RDWR|O_CREAT", flags):
            # Whatever the umask: what is ours is for its owner.
            yield "open", path, flags, int(mode[0], 8) & 0o700 if mode else 0o600

    def _write(self, process, arguments, result, path, deleted):
        yield from self._written(arguments, result, None)

    _writev = _write

    def _pwrite(self, process, arguments, result, path, deleted):
        yield from self._written(arguments, result, int(arguments[-1]))

    _pwritev = _pwrite

    def _pwritev2(self, process, arguments, result, path, deleted):
        offset = int(arguments[-2])
        yield from self._written(arguments, result, None if offset < 0 else offset)

    def _written(self, arguments, result, offset):
        path = self._path_of(arguments[0])
        if self._is_ours(path):
            data = b"".join(_bytes(found[0]) for found in _STRING.finditer(", ".join(arguments[1:])))
            if len(data) < result:
                raise TraceError(f"{path}: strace shows {len(data)} of {result} bytes")
            yield "write", path, offset, data[:result]

    def _ftruncate(self, process, arguments, result, path, deleted):
        path = self._path_of(arguments[0])
        if self._is_ours(path):
            yield "truncate", path, int(arguments[1])

    def _truncate(self, process, arguments, result, path, deleted):
        path = self._named(None, arguments[0], process)
        if self._is_ours(path):
            yield "truncate", path, int(arguments[1])

    def _fallocate(self, process, arguments, result, path, deleted):
        path = self._path_of(arguments[0])
        if self._is_ours(path) and "KEEP_SIZE" not in arguments[1]:
            yield "allocate", path, int(arguments[2]) + int(arguments[3])

    def _copy_file_range(self, process, arguments, result, path, deleted):
        return self._copied(arguments[0], arguments[1], arguments[2], arguments[3], result)

    def _sendfile(self, process, arguments, result, path, deleted):
        return self._copied(arguments[1], arguments[2], arguments[0], "NULL", result)

    def _ioctl(self, process, arguments, result, path, deleted):
        # A clone is a copy of everything.
        if "CLONE" in arguments[1] and "RANGE" not in arguments[1]:
            return self._copied(arguments[2], "[0]", arguments[0], "[0]", 1 << 40)
        return ()

    def _copied(self, source, start, target, offset, length):
        source, path = self._path_of(source), self._path_of(target)
        # Positions that a call moves are shown as [0] => [4096].
        begin, place = (None if one == "NULL" else int(re.findall(r"\d+", one)[0]) for one in (start, offset))
        if begin is None:
            begin = self.read_to.get(source, 0)
            self.read_to[source] = begin + length
        if self._is_ours(path) and length:
            content = source if self._is_ours(source) else pathlib.Path(source).read_bytes()
            yield "copy_range", content, begin, path, place, length

    def _lseek(self, process, arguments, result, path, deleted):
        path = self._path_of(arguments[0])
        if self._is_ours(path):
            yield "seek", path, result

    def _rename(self, process, arguments, result, path, deleted):
        return self._renamed(self._named(None, arguments[0], process), self._named(None, arguments[1], process))

    def _renameat2(self, process, arguments, result, path, deleted):
        old, new = (self._named(arguments[at], arguments[at + 1], process) for at in (0, 2))
        if "RENAME_EXCHANGE" in arguments[-1]:
            return [("exchange", old, new)] if self._is_ours(old) else []
        return self._renamed(old, new)

    _renameat = _renameat2

    def _renamed(self, old, new):
        if self._is_ours(old) != self._is_ours(new):
            raise TraceError(f"{old}, {new}: moved across the border of {self.root}")
        if self._is_ours(old):
            yield "rename", old, new

    def _link(self, process, arguments, result, path, deleted):
        return self._linked(self._named(None, arguments[0], process), self._named(None, arguments[1], process))

    def _linkat(self, process, arguments, result, path, deleted):
        return self._linked(*(self._named(arguments[at], arguments[at + 1], process) for at in (0, 2)))

    def _linked(self, source, path):
        if self._is_ours(path):
            yield "link", source, path

    def _symlink(self, process, arguments, result, path, deleted):
        return self._made(self._named(None, arguments[1], process), "link", _bytes(arguments[0]), 0o777)

    def _symlinkat(self, process, arguments, result, path, deleted):
        return self._made(self._named(arguments[1], arguments[2], process), "link", _bytes(arguments[0]), 0o777)

    def _mkdir(self, process, arguments, result, path, deleted):
        return self._made(self._named(None, arguments[0], process), "directory", b"", int(arguments[1], 8) & 0o700)

    def _mkdirat(self, process, arguments, result, path, deleted):
        where = self._named(arguments[0], arguments[1], process)
        return self._made(where, "directory", b"", int(arguments[2], 8) & 0o700)

    def _made(self, path, kind, content, mode):
        if self._is_ours(path):
            yield "make", path, kind, content, mode

    def _unlink(self, process, arguments, result, path, deleted):
        return self._removed(self._named(None, arguments[0], process))

    _rmdir = _unlink

    def _unlinkat(self, process, arguments, result, path, deleted):
        return self._removed(self._named(arguments[0], arguments[1], process))

    def _removed(self, path):
        if self._is_ours(path):
            yield "remove", path

    def _chmod(self, process, arguments, result, path, deleted):
        return self._modified(self._named(None, arguments[0], process), arguments[1])

    def _fchmod(self, process, arguments, result, path, deleted):
        return self._modified(self._path_of(arguments[0]), arguments[1])

    def _fchmodat(self, process, arguments, result, path, deleted):
        return self._modified(self._named(arguments[0], arguments[1], process), arguments[2])

    _fchmodat2 = _fchmodat

    def _modified(self, path, mode):
        if self._is_ours(path):
            yield "chmod", path, int(mode, 8)

    def _fsync(self, process, arguments, result, path, deleted):
        path = self._path_of(arguments[0])
        if self._is_ours(path):
            yield "sync", path

    _fdatasync = _fsync

    def _sync(self, process, arguments, result, path, deleted):
        yield ("sync_all",)

    def _syncfs(self, process, arguments, result, path, deleted):
        yield ("sync_all",)


def _bytes(text: str) -> bytes:
    match = _STRING.search(text)
    if match is None or match[2]:
        raise TraceError(f"not a whole string of strace: {text[:60]}")
    return bytes.fromhex(match[1].replace("\\x", ""))


def _decoded(text: str) -> str:
    return os.fsdecode(re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode()))
