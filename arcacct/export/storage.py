"""The place of a dataset: a local directory, or a URL that pyarrow or fsspec can write."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, Any, NamedTuple

from arcacct.errors import InputError, StoreError, UsageError, cannot_load, install_extra
from arcacct.export.dataset import MOST_BYTES, VERSION, names_in
from arcacct.files.safe_open import TEMPORARY, Directory, open_directory

_CHUNK_BYTES = 1 << 20
_MOST_IN_A_FOLDER = 10_000
"""As many sites in a dataset, or CEs in a month."""
_MOST_OF_A_SITE = 100_000
_MOST = 1_000_000
"""The most names that are read below a folder: 200 CEs of all sites have this many parts of a table in 200 years."""
_HALF = re.compile(re.escape(TEMPORARY) + "[0-9a-f]+-")
_OTHERS = frozenset(
    (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG, errno.ENOTEMPTY, errno.EEXIST)
)
"""The system's errors for another object under a name: the store itself is good."""
_NOT_OURS = frozenset((errno.EACCES, errno.EPERM))
"""Raised if an existing file may not be read or replaced."""
_GONE = _OTHERS | _NOT_OURS | {errno.ENOENT}


_ANOTHER = f"a dataset of another version, which is left out; this program reads v{VERSION}"


def is_half(path: str, name: str = "") -> bool:
    """Whether a file with this name is the incomplete file of a killed export."""
    return _HALF.match(path.rpartition("/")[2]) is not None and path.endswith(name and f"-{name}")


class Listing(NamedTuple):
    """The existing files of the layout, by their paths below the dataset."""

    files: dict[str, int]
    """The files with their sizes in bytes."""
    refused: dict[str, str]
    """A message for each object of the wrong kind (a link, a pipe), or beyond a limit."""

    def obstacle(self, path: str) -> str | None:
        """
        Return the message about a wrong object in the place of a file or of a folder on its path; ``None``: there is
        none.
        """
        return next((why for place, why in self.refused.items() if place == path or path.startswith(f"{place}/")), None)


class Store(ABC):
    """
    The files of a dataset, by their paths below it.

    Every method raises InputError with the name of the file if only that file is unusable, and StoreError if the store
    cannot be reached or refuses.
    """

    def __init__(self, place: str, shown: str) -> None:
        self.place = place
        """Identifies the dataset: the same for the same one, different for all others."""
        self.shown = shown.rstrip("/")

    def path_of(self, path: str) -> str:
        """Return the name of a file for messages."""
        return f"{self.shown}/{path}"

    @abstractmethod
    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """
        Return the content of a small file; ``None`` if there is none. Raises InputError for a larger one, or if it is
        not a file.
        """

    @abstractmethod
    def open(self, path: str) -> Any:
        """Open a part for pyarrow: the same file as long as it is open. Raises InputError if it is not a file."""

    def listing(self, *folders: str) -> Listing:
        """List some folders of the layout and their content; a missing folder is empty."""
        found = Listing({}, {})
        for folder in folders:
            with self._named(folder):
                self._list(folder, found)
        return found

    @abstractmethod
    def _list(self, folder: str, found: Listing) -> None:
        """Add what there is in a folder."""

    @abstractmethod
    def put(self, path: str, file: IO[bytes]) -> None:
        """Store the content of an open local file under a path, replacing the present one."""

    def make(self) -> None:  # noqa: B027  a store of objects has no directories
        """Create the directory of the dataset if it is missing. Raises StoreError if this user cannot write there."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    @contextmanager
    def _named(self, path: str, costs_itself: Collection[int] = _OTHERS | _NOT_OURS) -> Iterator[None]:
        from pyarrow import ArrowException  # noqa: PLC0415  of the extra

        try:
            yield
        except (OSError, ArrowException) as error:
            why = getattr(error, "strerror", None) or str(error).splitlines()[0]
            kind = InputError if getattr(error, "errno", None) in costs_itself else StoreError
            raise kind(f"{self.path_of(path)}: {why}") from error


class RemoteStore(Store):
    """A store at a URL; its objects have no links."""

    def __init__(self, filesystem: Any, root: str, place: str, shown: str, *, makes_folders: bool = False) -> None:
        super().__init__(place, shown)
        self._fs = filesystem
        self._makes_folders = makes_folders
        self._root = root.rstrip("/")

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """See `Store`."""
        with self._named(path):
            try:
                # It knows its length without a further request.
                file = self._fs.open_input_file(f"{self._root}/{path}")
            except FileNotFoundError:
                return None
            with file:
                return _read(file, self.path_of(path), file.size(), most_bytes)

    def open(self, path: str) -> Any:
        """See `Store`."""
        with self._named(path, _GONE):
            return self._fs.open_input_file(f"{self._root}/{path}")

    def _list(self, folder: str, found: Listing) -> None:
        from pyarrow.fs import FileSelector  # noqa: PLC0415  of the extra

        whole = f"{self._root}/{folder}"
        for info in self._fs.get_file_info(FileSelector(whole, allow_not_found=True, recursive=True)):
            path = folder + info.path.rpartition(whole)[2]
            if info.is_file and (version := _other_version(path)):
                found.refused[version] = f"{self.path_of(version)}: {_ANOTHER}"
            elif info.is_file and _is_of_dataset(path):
                found.files[path] = info.size

    def put(self, path: str, file: IO[bytes]) -> None:
        """See `Store`."""
        whole = f"{self._root}/{path}"
        with self._named(path):
            if self._makes_folders:
                # Objects of a store need no directory.
                self._fs.create_dir(whole.rpartition("/")[0], recursive=True)
            with self._fs.open_output_stream(whole) as there:
                while chunk := file.read(_CHUNK_BYTES):
                    there.write(chunk)

    def remove(self, path: str) -> None:
        """See `Store`."""
        with self._named(path), suppress(FileNotFoundError):
            self._fs.delete_file(f"{self._root}/{path}")


class LocalStore(Store):
    """A directory, which may be a link of the administrator; the umask decides who can read new files."""

    def __init__(self, root: str) -> None:
        super().__init__(os.path.realpath(root), root)
        self._root = os.path.abspath(root)
        umask = os.umask(0o077)
        os.umask(umask)
        self._file_mode, self._folder_mode = 0o666 & ~umask, 0o777 & ~umask

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """See `Store`."""
        with self._named(path):
            try:
                fd = self._opened(path)
            except FileNotFoundError:
                return None
            with open(fd, "rb") as file:
                return _read(file, self.path_of(path), os.fstat(fd).st_size, most_bytes)

    def open(self, path: str) -> Any:
        """See `Store`; the reader gets the checked file, even if it is replaced."""
        from pyarrow import PythonFile  # noqa: PLC0415  of the extra

        with self._named(path, _GONE):
            return PythonFile(open(self._opened(path), "rb", buffering=0), mode="r")

    def make(self) -> None:
        """See `Store`."""
        try:
            with open_directory(self._root, make=self._folder_mode) as there:
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=there.fd):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(
                f"{self._root}: {reason}; name a directory that this user may create or write to"
            ) from error

    def _opened(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        with self._folder(folder) as there:
            return there.plain(name)

    def _folder(self, path: str, make: int | None = None) -> Directory:
        """A folder of the dataset, made if wished; no link below the dataset's own directory is followed."""
        here = open_directory(self._root, make=make)
        for name in filter(None, path.split("/")):
            with here:
                try:
                    there = here.open(name)
                except FileNotFoundError:
                    if make is None:
                        raise
                    there = here.make(name, make)
            here = there
        return here

    def _list(self, folder: str, found: Listing) -> None:
        try:
            top = self._folder(folder)
        except FileNotFoundError:
            return
        except InputError as error:
            found.refused[folder] = str(error)
            return
        with top:
            _Walk(self, found).site(top, folder)

    def put(self, path: str, file: IO[bytes]) -> None:
        """As the others; on disk when it returns."""
        folder, _, name = path.rpartition("/")
        # If nothing can be created, the store is at fault, not an existing file.
        with self._named(path, _OTHERS), self._folder(folder, self._folder_mode) as there:
            temporary = f"{TEMPORARY}{os.urandom(8).hex()}-{name}"
            try:
                with open(there.create(temporary, self._file_mode), "wb") as new:
                    shutil.copyfileobj(file, new, _CHUNK_BYTES)
                    new.flush()
                    os.fsync(new.fileno())
                # Another user who can write there may also have removed the new file.
                with self._named(path, _GONE):
                    os.rename(temporary, name, src_dir_fd=there.fd, dst_dir_fd=there.fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=there.fd)
                raise
            os.fsync(there.fd)

    def remove(self, path: str) -> None:
        """See `Store`."""
        folder, _, name = path.rpartition("/")
        with self._named(path), suppress(FileNotFoundError), self._folder(folder) as there:
            os.unlink(name, dir_fd=there.fd)


class _TooManyError(Exception):
    """A site has more names than it can have."""


class _Walk:
    """Looks at the names below a folder, at each once, and at no more than `_MOST`."""

    def __init__(self, store: Store, found: Listing) -> None:
        self._store = store
        self._found = found
        self._left = _MOST
        self._left_of_site = 0

    def site(self, here: Directory, path: str) -> None:
        """List the folder of a site, or any other one."""
        self._left_of_site = _MOST_OF_A_SITE
        try:
            self._folder(here, path)
        except _TooManyError:
            # All or nothing: otherwise the order of the directory would decide what is left out.
            for file in [file for file in self._found.files if file.startswith(f"{path}/")]:
                del self._found.files[file]
            self._refuse(path, f"more than {_MOST_OF_A_SITE} files and folders, so all are left out")

    def _folder(self, here: Directory, path: str) -> None:
        with os.scandir(here.fd) as entries:
            names = [entry.name for entry in islice(entries, _MOST_IN_A_FOLDER + 1)]
        self._left -= len(names)
        self._left_of_site -= len(names)
        if self._left < 0:
            raise StoreError(f"{self._store.path_of(path)}: the dataset has more than {_MOST} files and folders")
        if self._left_of_site < 0:
            raise _TooManyError
        if len(names) > _MOST_IN_A_FOLDER:
            self._refuse(path, f"more than {_MOST_IN_A_FOLDER} files, so all are skipped; remove unknown files")
            return
        expected = names_in(path)
        for name in sorted(names):
            is_file = _is_file(expected, name)
            if is_file is not None:
                with suppress(FileNotFoundError):
                    self._take(here, name, f"{path}/{name}", is_file=is_file)

    def _take(self, here: Directory, name: str, path: str, *, is_file: bool) -> None:
        status = here.lstat(name)
        if _other_version(path):
            self._refuse(path, _ANOTHER)
        elif stat.S_ISLNK(status.st_mode):
            self._refuse(path, "a symbolic link, which is not followed; remove it")
        elif is_file and stat.S_ISREG(status.st_mode):
            self._found.files[path] = status.st_size
        elif is_file or not stat.S_ISDIR(status.st_mode):
            self._refuse(path, f"not a {'file' if is_file else 'directory'}; remove it")
        else:
            try:
                there = here.open(name)
            except (InputError, OSError) as error:
                if isinstance(error, FileNotFoundError):
                    raise
                self._refuse(path, getattr(error, "strerror", None) or "replaced while it was listed; try again")
                return
            with there:
                (self.site if name.startswith("site=") else self._folder)(there, path)

    def _refuse(self, path: str, why: str) -> None:
        self._found.refused[path] = f"{self._store.path_of(path)}: {why}"


def _is_file(expected: tuple[re.Pattern[str], bool] | None, name: str) -> bool | None:
    """Whether a name is one of a file or of a folder, by what `names_in` says; ``None``: it is not of the dataset."""
    if expected is None:
        return None
    pattern, are_files = expected
    half = _HALF.match(name) if are_files else None
    return are_files if pattern.fullmatch(name, half.end() if half else 0) else None


def _is_of_dataset(path: str) -> bool:
    """Whether the layout can have a file with this path."""
    names = path.split("/")
    last = len(names) - 1
    return all(_is_file(names_in("/".join(names[:at])), names[at]) is (at == last) for at in range(1, last + 1))


def _other_version(path: str) -> str | None:
    """The folder of another version of the dataset that a path is, or leads through."""
    first, version, *_rest = f"{path}/".split("/")
    is_other = version.startswith("v") and version[1:].isdigit() and version != f"v{VERSION}"
    return f"{first}/{version}" if is_other else None


def _read(file: Any, path: str, size_bytes: int, most_bytes: int) -> bytes:
    """Return the whole content of an open file, which others may still write. Raises InputError if it is too large."""
    data = b""
    if size_bytes <= most_bytes:
        data = bytes(file.read(most_bytes + 1))
        size_bytes = len(data)
    if size_bytes > most_bytes:
        raise InputError(f"{path}: {size_bytes} bytes, and arcacct writes at most {most_bytes} there; remove it")
    return data


def open_store(place: str) -> Store:
    """
    Open the dataset at a path or a URL; it need not exist.

    Raises UsageError for an unusable one, InputError if packages are missing, StoreError if the store cannot be
    reached.
    """
    scheme, colon, rest = place.partition("://")
    if not place:
        raise UsageError("DIR is empty: name a directory, or a URL")
    is_local = not colon or scheme == "file"
    shown = place if is_local else _shown(scheme, rest)
    try:
        from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem  # noqa: PLC0415  of the extra
    except ImportError as error:
        what = f"the package pyarrow is not installed; {install_extra('parquet')}"
        if not isinstance(error, ModuleNotFoundError):
            what = cannot_load(error)
        raise InputError(f"{shown}: {what}") from error
    if is_local:
        return LocalStore(rest or place)
    try:
        if scheme in ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"):
            filesystem, root = FileSystem.from_uri(place)
            return RemoteStore(filesystem, root, place, shown)
        from fsspec.core import url_to_fs  # noqa: PLC0415  of the extra

        remote, root = url_to_fs(place)
        return RemoteStore(PyFileSystem(FSSpecHandler(remote)), root, place, shown, makes_folders=True)
    except ImportError as error:
        raise InputError(f"{shown}: for {scheme}:// a package is needed: {error}") from error
    except ValueError as error:
        raise UsageError(f"{shown}: {str(error).splitlines()[0]}") from error
    except OSError as error:
        raise StoreError(f"{shown}: {str(error).splitlines()[0]}") from error


def _shown(scheme: str, rest: str) -> str:
    """A URL as messages have it. Raises UsageError for one that names nothing, or more than it should."""
    path, _, query = rest.partition("?")
    user, at, host = path.partition("/")[0].rpartition("@")
    # Azure has the name of the container there.
    if (at and (":" in user or scheme == "s3")) or re.search("secret|passw|token|key=", query.lower()):
        # Every user can see the processes and their arguments.
        raise UsageError(
            f"{scheme}://{host}: no credentials in a URL; give them in the environment (AWS_ACCESS_KEY_ID, ...)"
        )
    if not path.strip("/"):
        raise UsageError(f"{scheme}://{path}: it names no bucket or directory")
    return f"{scheme}://{path}"
