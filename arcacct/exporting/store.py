"""
The place that a dataset is in: a local directory, or what a URL names and pyarrow or fsspec can write.

A file is there whole or not at all: a local one gets its name when it is on disk, an object of a store when it is
complete. Files are only added, replaced and removed, one by one; what they mean together the manifests say.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from arcacct.errors import InputError, StoreError, UsageError
from arcacct.files.foreign import TEMPORARY, open_directory

_CHUNK_BYTES = 1 << 20


def is_half(path: str, name: str = "") -> bool:
    """Whether a file is what a killed export left of one, with this name."""
    return path.rpartition("/")[2].startswith(TEMPORARY) and path.endswith(name and f"-{name}")


class Store:
    """The files of a dataset, by their paths below it. Everything raises StoreError, which names the file."""

    def __init__(self, filesystem: Any, root: str, shown: str, *, makes_folders: bool = False) -> None:
        self._fs = filesystem
        self._makes_folders = makes_folders
        self._root = root.rstrip("/")
        self.shown = shown.rstrip("/")

    def path_of(self, path: str) -> str:
        """What a file is called in a message."""
        return f"{self.shown}/{path}"

    def read(self, path: str) -> bytes | None:
        """A small file; ``None`` if there is none."""
        with self._named(path):
            try:
                with self._fs.open_input_stream(f"{self._root}/{path}") as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

    def open(self, path: str) -> Any:
        """A part, for pyarrow to read."""
        with self._named(path):
            return self._fs.open_input_file(f"{self._root}/{path}")

    def files(self, folder: str) -> dict[str, int]:
        """The files in a folder and below it, by their paths there, with their bytes; none if there is no folder."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415  of the extra

        whole = f"{self._root}/{folder}"
        with self._named(folder):
            found = self._fs.get_file_info(FileSelector(whole, allow_not_found=True, recursive=True))
            return {info.path.rpartition(whole)[2].lstrip("/"): info.size for info in found if info.is_file}

    def put(self, path: str, file: IO[bytes]) -> None:
        """What is in a local file from where it stands, under a path, in the place of what is there."""
        whole = f"{self._root}/{path}"
        with self._named(path):
            if self._makes_folders:
                # Objects of a store need none.
                self._fs.create_dir(whole.rpartition("/")[0], recursive=True)
            with self._fs.open_output_stream(whole) as there:
                while chunk := file.read(_CHUNK_BYTES):
                    there.write(chunk)

    def remove(self, path: str) -> None:
        """Take a file away, if it is there."""
        with self._named(path), suppress(FileNotFoundError):
            self._fs.delete_file(f"{self._root}/{path}")

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        from pyarrow import ArrowException  # noqa: PLC0415  of the extra

        try:
            yield
        except (OSError, ArrowException) as error:
            why = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise StoreError(f"{self.path_of(path)}: {why}") from error


class LocalStore(Store):
    """A directory; the umask says who may read it. No link is followed that somebody else could have made."""

    def __init__(self, root: str) -> None:
        from pyarrow.fs import LocalFileSystem  # noqa: PLC0415  of the extra

        super().__init__(LocalFileSystem(), os.path.abspath(root), root)
        umask = os.umask(0o077)
        os.umask(umask)
        self._file_mode, self._folder_mode = 0o666 & ~umask, 0o777 & ~umask

    def put(self, path: str, file: IO[bytes]) -> None:
        """As the others, and on disk when it returns."""
        folder, _, name = f"{self._root}/{path}".rpartition("/")
        with self._named(path), open_directory(folder, make=self._folder_mode) as there:
            temporary = f"{TEMPORARY}{os.urandom(8).hex()}-{name}"
            try:
                with open(there.create(temporary, self._file_mode), "wb") as new:
                    shutil.copyfileobj(file, new, _CHUNK_BYTES)
                    new.flush()
                    os.fsync(new.fileno())
                os.rename(temporary, name, src_dir_fd=there.fd, dst_dir_fd=there.fd)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=there.fd)
                raise
            os.fsync(there.fd)


def open_store(place: str) -> Store:
    """
    The dataset at a path or a URL; it need not be there yet.

    Raises UsageError for one that cannot be used, InputError without the packages that are needed, StoreError when the
    store cannot be reached.
    """
    scheme, colon, rest = place.partition("://")
    if not place:
        raise UsageError("DIR is empty: name a directory, or a URL")
    is_local = not colon or scheme == "file"
    shown = place if is_local else _shown(scheme, rest)
    try:
        from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem  # noqa: PLC0415  of the extra
    except ImportError as error:
        raise InputError(f"{shown}: the package pyarrow is not installed (pip install 'arcacct[parquet]')") from error
    if is_local:
        return LocalStore(rest or place)
    try:
        if scheme in ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"):
            filesystem, root = FileSystem.from_uri(place)
            return Store(filesystem, root, shown)
        from fsspec.core import url_to_fs  # noqa: PLC0415  of the extra

        remote, root = url_to_fs(place)
        return Store(PyFileSystem(FSSpecHandler(remote)), root, shown, makes_folders=True)
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
    # Azure has the container there.
    if (at and (":" in user or scheme == "s3")) or re.search("secret|passw|token|key=", query.lower()):
        # What processes there are, and what they were called with, everybody may see.
        raise UsageError(
            f"{scheme}://{host}: no credentials in a URL; give them in the environment (AWS_ACCESS_KEY_ID, ...)"
        )
    if not path.strip("/"):
        raise UsageError(f"{scheme}://{path}: it names no bucket or directory")
    return f"{scheme}://{path}"
