"""
Files in directories that other users may write, opened without following links; and complete files that options name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from arcacct.errors import InputError
from arcacct.files.directories import descriptor

_CLOSED = os.O_NOFOLLOW | os.O_CLOEXEC
_SEARCH = os.O_PATH | os.O_DIRECTORY | _CLOSED
_LIST = os.O_RDONLY | os.O_DIRECTORY | _CLOSED
# A pipe in the place of a file does not block us, and a terminal does not become ours.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _CLOSED
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED
TEMPORARY = ".new-"
"""The start of the name of an unfinished file."""
_MOST_LINKS = 40
"""The limit of the kernel."""
_OPENAT2 = {"x86_64": 437, "aarch64": 437}
"""The number of the system call on machines that we know; on others the way is gone step by step."""
_INSTEAD = "give its target"
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 2, 4, 8
_MIB = 2**20
_MOST_BYTES = 16 * _MIB
"""No configuration, certificate, key, list of revoked certificates or bundle of CAs is larger."""
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


class Directory:
    """
    A directory that is open; ``with`` closes it. Made by `open_directory`.

    ``status`` is the result of `os.fstat`. ``sure``: only root and this process's user can replace their files in it,
    or the directories on its path. ``shared``: other users can put files there. ``made``: it did not exist before.
    """

    __slots__ = ("fd", "made", "path", "shared", "status", "sure")

    def __init__(self, fd: int, path: str, *, sure: bool, made: bool = False) -> None:
        self.fd = fd
        self.path = path
        self.made = made
        self.status = os.fstat(fd)
        # By its name in /proc: a descriptor that is open for searching only gives no information.
        others = others_write(f"/proc/self/fd/{fd}", self.status)
        self.sure = sure and _is_ours(self.status) and (not others or bool(self.status.st_mode & stat.S_ISVTX))
        self.shared = others or not self.sure

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; afterwards the object is unusable."""
        os.close(self.fd)

    def path_of(self, name: str) -> str:
        """Return the name of a file in it for messages."""
        return f"{self.path.rstrip('/')}/{name}"

    def lstat(self, name: str) -> os.stat_result:
        """Return the stat of a name; for a link, of the link itself. Raises OSError."""
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def open(self, name: str) -> Directory:
        """
        Open a directory in it that is not a link.

        Raises InputError for a link, OSError for anything else that is no directory.
        """
        try:
            fd = os.open(name, _LIST, dir_fd=self.fd)
        except OSError as error:
            raise self._named(error, name) from None
        return Directory(fd, self.path_of(name), sure=self.sure)

    def make(self, name: str, mode: int = 0o700) -> Directory:
        """
        Create a directory in it with this mode (with any umask) if it is missing; its name is then on disk.

        Raises InputError if another user replaces the new one, else as `open`.
        """
        try:
            os.mkdir(name, 0o700, dir_fd=self.fd)
        except FileExistsError:
            return self.open(name)
        found = self.open(name)
        try:
            found._take(mode)  # noqa: SLF001  its own kind
            self._sync_names()
        except BaseException:
            found.close()
            raise
        return found

    def _take(self, mode: int) -> None:
        """Set the mode of a directory that was just made; raises InputError if it is not the one."""
        # The owner alone is not enough: a user may have moved a directory of root here, and that one would have
        # content.
        if self.status.st_uid != os.geteuid() or os.listdir(self.fd):
            raise InputError(
                f"{self.path}: another process replaced the directory just created; "
                "choose a directory that other users cannot write"
            )
        self.made = True
        # The set-group-ID bit was inherited, and stays.
        os.fchmod(self.fd, mode | self.status.st_mode & stat.S_ISGID)

    def _sync_names(self) -> None:
        """The names in it are on disk afterwards. A user who may not read it cannot sync it either."""
        with suppress(PermissionError), descriptor(".", _LIST, self.fd) as fd:
            os.fsync(fd)

    def create(self, name: str, mode: int = 0o600) -> int:
        """Return a descriptor of a new file with this mode, with any umask. Raises OSError, also if the name exists."""
        fd = os.open(name, _NEW, 0o600, dir_fd=self.fd)
        os.fchmod(fd, mode)
        return fd

    def replace(self, name: str, content: bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
        """
        Write this content under a name, completely or not at all, replacing anything there.

        ``owner`` (uid, gid) gets the file. Raises OSError, and then leaves nothing behind.
        """
        temporary = f"{TEMPORARY}{os.urandom(8).hex()}"
        fd = self.create(temporary, mode)
        try:
            with open(fd, "wb") as file:
                file.write(content)
                file.flush()
                if owner is not None:
                    os.fchown(fd, *owner)
            os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self.fd)
            raise

    def read(self, name: str, most_bytes: int, *, for_all: bool = False) -> bytes:
        """
        Return the first ``most_bytes`` of a file.

        Raises InputError for a problem found by `doubt` (also with ``for_all``), OSError if it cannot be read.
        """
        fd = self._opened(name, lambda status: self.doubt(status, for_all=for_all))
        try:
            chunks = []
            while most_bytes > 0 and (chunk := os.read(fd, min(most_bytes, 1 << 20))):
                chunks.append(chunk)
                most_bytes -= len(chunk)
            return b"".join(chunks)
        except OSError as error:
            raise self._named(error, name) from None
        finally:
            os.close(fd)

    def plain(self, name: str) -> int:
        """
        Return a descriptor of a plain file in it, with any owner, for reading.

        Raises InputError for a link, a pipe and anything else that is no plain file, OSError if it cannot be opened.
        """
        return self._opened(name, _not_plain)

    def _opened(self, name: str, doubt: Callable[[os.stat_result], str]) -> int:
        # Before opening: opening a device may use it.
        self._refuse(name, doubt(self.lstat(name)))
        try:
            fd = os.open(name, _READ, dir_fd=self.fd)
        except OSError as error:
            raise self._named(error, name) from None
        try:
            self._refuse(name, doubt(os.fstat(fd)))
        except BaseException:
            os.close(fd)
            raise
        return fd

    def doubt(self, status: os.stat_result, *, for_all: bool = False) -> str:
        """
        Return why a file in it must not be trusted; empty: it can be.

        In a shared directory this is a file of a third user, unless every user may put files there as in ``/tmp``. It
        is also a file of ours or root's that is not the directory owner's, if it has a second name (a hard link), or
        with ``for_all`` if not all users may read it: any user who may write there can have moved it there.
        """
        if wrong := _not_plain(status):
            return wrong
        owner = status.st_uid
        if not self.shared:
            return ""
        if not _is_ours(status):
            return "" if self.sure or owner == self.status.st_uid else f"a file of user {owner}"
        if for_all:
            return "" if status.st_mode & stat.S_IROTH else f"a file of user {owner} that others may not read"
        if status.st_nlink > 1 and (self.sure or owner != self.status.st_uid):
            return f"a file of user {owner} that has another name elsewhere"
        return ""

    def _refuse(self, name: str, wrong: str) -> None:
        if wrong:
            raise InputError(f"{self.path_of(name)}: {wrong}")

    def _named(self, error: OSError, name: str) -> Exception:
        """An error of a file in it with the whole path; for a link an InputError."""
        path = self.path_of(name)
        is_link = error.errno == errno.ELOOP
        if error.errno == errno.ENOTDIR:
            # With O_DIRECTORY the kernel reports this also for a link.
            with suppress(OSError):
                is_link = stat.S_ISLNK(self.lstat(name).st_mode)
        if is_link:
            return InputError(f"{path} is a symbolic link, which is not followed; remove it, or give its target")
        error.filename = path
        return error


def open_directory(path: str, *, make: int | None = None, link: bool = True) -> Directory:
    """
    Open a directory by its path, from which ``..`` is removed as text; ``make``: it is created with this mode if
    missing.

    Missing parents get the same mode. ``link``: whether its last part may be a link of the administrator. Raises
    InputError for a link that is not followed, OSError (with the path) for an error of the file system.
    """
    todo = _parts(os.path.abspath(path))
    here = Directory(os.open("/", _SEARCH), "/", sure=True)
    links = 0
    try:
        while todo:
            # If the kernel can do it, the rest of the path in one step, without any link. If it cannot, or finds a link
            # or an error, single steps show the part.
            rest = "/".join(reversed(todo))
            fd = -1 if here.sure else _openat2(here.fd, rest)
            there: Directory | None
            if fd >= 0:
                there, todo = Directory(fd, here.path_of(rest), sure=False), []
            else:
                name = todo.pop()
                there = _step(here, name, make)
            if there is None:
                links += 1
                target = _target(here, name, followed=links <= _MOST_LINKS and (link or bool(todo)))
                todo += _parts(target)
                if not target.startswith("/"):
                    continue
                there = Directory(os.open("/", _SEARCH), "/", sure=True)
            here.close()
            here = there
        return Directory(os.open(".", _LIST, dir_fd=here.fd), here.path, sure=here.sure, made=here.made)
    except OSError as error:
        if error.filename == ".":
            error.filename = here.path
        raise
    finally:
        here.close()


def open_parent(path: str) -> tuple[Directory, str]:
    """Open the directory of a file, as `open_directory`; return it and the file's name in it."""
    folder, name = os.path.split(os.path.abspath(path))
    return open_directory(folder), name


def read_file(path: str, most_bytes: int) -> bytes:
    """Return the first bytes of a file by its path, which may not be a link itself; raises as `Directory.read`."""
    folder, name = open_parent(path)
    with folder:
        return folder.read(name, most_bytes)


def read_regular(path: str, most_bytes: int = _MOST_BYTES) -> bytes:
    """
    Return the content of a regular file that an option names; the administrator's links are followed.

    Raises OSError if it cannot be read, is a directory, a pipe, a socket or a device, or has more than ``most_bytes``
    (EFBIG). The ``strerror`` says which.
    """
    # Before opening: opening a device may use it.
    _require_regular(path, os.stat(path))
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _READ & ~os.O_NOFOLLOW)) as file:
        status = os.fstat(file.fileno())
        _require_regular(path, status)
        # It may grow, and files of the kernel have no size.
        content = file.read(most_bytes + 1) if status.st_size <= most_bytes else b""
    if max(status.st_size, len(content)) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes // _MIB} MiB", path)
    return content


def _require_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file", path)


def replace_file(path: str, content: bytes, mode: int) -> None:
    """Write a file, completely or not at all, as `Directory.replace`. Raises InputError."""
    try:
        folder, name = open_parent(path)
        with folder:
            folder.replace(name, content, mode)
    except IsADirectoryError:
        raise InputError(f"{path}: a directory; give the name of a file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; give a directory of this user") from error


def private(path: str, flags: int) -> int:
    """
    An opener for `open`, in a directory of our own: the file is readable only by its owner, and no link is followed.

    Raises OSError.
    """
    fd = os.open(path, flags | _CLOSED, 0o600)
    try:
        os.fchmod(fd, 0o600)
    except OSError:
        os.close(fd)
        raise
    return fd


def _parts(path: str) -> list[str]:
    """The parts of a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _not_plain(status: os.stat_result) -> str:
    return "" if stat.S_ISREG(status.st_mode) else "no plain file"


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def others_write(path: str, status: os.stat_result) -> bool:
    """Whether users other than its owner may write a file, or in a directory."""
    # Where every user has a group of his own (with his number, like root), directories are often writable by it.
    if status.st_mode & stat.S_IWOTH or not status.st_mode & stat.S_IWGRP or status.st_gid != status.st_uid:
        return bool(status.st_mode & (stat.S_IWOTH | stat.S_IWGRP))
    try:
        # An ACL that names further users: the bits of the group are then the most that they may do.
        return "system.posix_acl_access" in os.listxattr(path)
    except OSError:
        return False


def _step(here: Directory, name: str, make: int | None) -> Directory | None:
    """One part of the way, made if wished; ``None`` if it is no directory, so perhaps a link."""
    try:
        fd = os.open(name, _SEARCH, dir_fd=here.fd)
    except NotADirectoryError:
        return None
    except OSError as error:
        if make is not None and isinstance(error, FileNotFoundError):
            return here.make(name, make)
        error.filename = here.path_of(name)
        raise
    # Only for the target of a link: the path itself has none.
    path = os.path.dirname(here.path) if name == ".." else here.path_of(name)
    return Directory(fd, path, sure=here.sure)


def _target(here: Directory, name: str, *, followed: bool) -> str:
    """Return the target of a link, if it may be followed."""
    path = here.path_of(name)
    with descriptor(name, os.O_PATH | _CLOSED, here.fd) as fd:
        status = os.fstat(fd)
        if not stat.S_ISLNK(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if not followed:
            raise InputError(f"{path} is a symbolic link; give the directory itself")
        if not _is_ours(status):
            raise InputError(f"{path} is a symbolic link of user {status.st_uid}, so it is not followed; {_INSTEAD}")
        if not here.sure:
            raise InputError(f"{path} is a symbolic link where others can write, so it is not followed; {_INSTEAD}")
        return os.readlink("", dir_fd=fd)


def _openat2(folder: int, path: str) -> int:
    """A directory below a directory by openat2(2), which Linux has since 5.6; a negative number if that fails."""
    number = _OPENAT2.get(os.uname().machine)
    if number is None:
        return -1
    # Here, since few paths lead through directories of other users.
    try:
        import ctypes  # noqa: PLC0415
    except ImportError:
        return -1
    # struct open_how: flags, mode, resolve.
    how = (ctypes.c_uint64 * 3)(_LIST, 0, _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH)
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    size = ctypes.c_size_t(ctypes.sizeof(how))
    return int(call(ctypes.c_long(number), folder, os.fsencode(path), ctypes.byref(how), size))
