"""
Directories of features: one file for each key, so that no reader ever sees half of a value.

A value is written beside the old one and renamed over it. Nothing is written or removed through a symbolic link: the
directories may stand where jobs can write.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager

from arcacct.errors import InputError, StoreError, UsageError
from arcacct.node.feature_keys import NAME, problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DIRECTORY_MODE = 0o755
FILE_MODE = 0o644
_TEMPORARY = ".new-"


def write(
    directory: str, values: Mapping[str, str], *, force: bool = False, owner: tuple[int, int] | None = None
) -> None:
    """
    Write some keys into a directory, which is made if it is missing; other keys that are there stay.

    ``owner`` (uid, gid) is whom directory and files are given. Raises UsageError for a value that its key may not
    have (nothing is written then), StoreError when the file system refuses, InputError for a planted link.
    """
    wrong = [
        f"{name}={value!r}: {what}" for name, value in values.items() if (what := problem(name, value, force=force))
    ]
    if wrong:
        raise UsageError("; ".join(wrong))
    with _directory(directory, make=True, owner=owner) as fd:
        for name, value in values.items():
            _refuse_other_than_file(fd, directory, name)
            _replace(fd, directory, name, value, owner)


def remove_keys(directory: str, names: tuple[str, ...]) -> None:
    """Take keys away, at once each; those that are not there are no error."""
    with _directory(directory) as fd:
        for name in names:
            _refuse_other_than_file(fd, directory, name)
            try:
                os.unlink(name, dir_fd=fd)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreError(f"{directory}/{name}: cannot be removed: {error.strerror}") from error


def remove(directory: str) -> None:
    """
    Remove a directory of features with its keys.

    Raises InputError, and removes nothing, if it holds anything that is no key: then it is another directory.
    """
    with _directory(directory) as fd:
        names = os.listdir(fd)
        for name in names:
            kind = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not stat.S_ISREG(kind) or not (NAME.fullmatch(name) or name.startswith(_TEMPORARY)):
                raise InputError(f"{directory}/{name} is no key of features: nothing was removed")
        try:
            for name in names:
                os.unlink(name, dir_fd=fd)
            os.rmdir(directory)
        except OSError as error:
            raise StoreError(f"{directory}: cannot be removed: {error.strerror}") from error


@contextmanager
def _directory(path: str, *, make: bool = False, owner: tuple[int, int] | None = None) -> Iterator[int]:
    """A descriptor of a directory that is not reached through a link of its own."""
    clean = path.rstrip("/") or "/"
    try:
        if make and not os.path.lexists(clean):
            os.makedirs(clean, DIRECTORY_MODE)
            os.chmod(clean, DIRECTORY_MODE)
            if owner is not None:
                os.chown(clean, *owner)
        fd = os.open(clean, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(clean):
            raise InputError(f"{clean} is a symbolic link; name the directory itself") from error
        raise StoreError(f"{clean}: {error.strerror}; name a directory that this user may write") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _refuse_other_than_file(fd: int, directory: str, name: str) -> None:
    try:
        kind = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(kind):
        raise InputError(f"{directory}/{name} is no plain file: somebody else put it there; remove it first")


def _replace(fd: int, directory: str, name: str, value: str, owner: tuple[int, int] | None) -> None:
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=fd)
        try:
            os.write(file, value.encode("ascii", "strict") + b"\n")
            os.fchmod(file, FILE_MODE)
            if owner is not None:
                os.fchown(file, *owner)
        finally:
            os.close(file)
        os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
    except UnicodeEncodeError as error:
        os.unlink(temporary, dir_fd=fd)
        raise UsageError(f"{name}={value!r}: not ASCII") from error
    except OSError as error:
        raise StoreError(f"{directory}/{name}: cannot be written: {error.strerror}") from error
