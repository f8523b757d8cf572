"""
Directories of features: one file for each key, so that no reader ever sees half of a value.

A value is written beside the old one and renamed over it. The directories may stand where jobs can write: all is done
by their descriptor (`files.safe_open`), and only what was made here is given to another user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from arcacct.errors import InputError, StoreError, UsageError
from arcacct.features.keys import NAME, problem
from arcacct.files.safe_open import TEMPORARY, Directory, open_directory, open_parent

DIRECTORY_MODE = 0o755
FILE_MODE = 0o644


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
    with _failures(directory), open_directory(directory, make=DIRECTORY_MODE, link=False) as place:
        for name, value in values.items():
            _refuse_other_than_file(place, name)
            try:
                place.replace(name, value.encode("ascii") + b"\n", FILE_MODE, owner)
            except UnicodeEncodeError as error:
                raise UsageError(f"{name}={value!r}: not ASCII") from error
            except OSError as error:
                raise StoreError(f"{place.path_of(name)}: cannot be written: {error.strerror}") from error
        # At the end: until then nobody else can change a directory that was made here.
        if owner is not None and place.made:
            os.fchown(place.fd, *owner)


def remove_keys(directory: str, names: tuple[str, ...]) -> None:
    """Take keys away, at once each; those that are not there are no error."""
    with _failures(directory), open_directory(directory, link=False) as place:
        for name in names:
            _refuse_other_than_file(place, name)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place.fd)


def remove(directory: str) -> None:
    """
    Remove a directory of features with its keys.

    Raises InputError, and removes nothing, if it holds anything that is no key: then it is another directory.
    """
    with _failures(directory):
        folder, own_name = open_parent(directory)
        with folder, folder.open(own_name) as place:
            names = os.listdir(place.fd)
            for name in names:
                kind = place.lstat(name).st_mode
                if not stat.S_ISREG(kind) or not (NAME.fullmatch(name) or name.startswith(TEMPORARY)):
                    raise InputError(f"{place.path_of(name)!r} is no key of features: nothing was removed")
            for name in names:
                os.unlink(name, dir_fd=place.fd)
            os.rmdir(own_name, dir_fd=folder.fd)


@contextmanager
def _failures(directory: str) -> Iterator[None]:
    """What the file system refuses becomes a StoreError that says what to do."""
    if not directory:
        raise UsageError("DIRECTORY is empty; name the directory of the features")
    try:
        yield
    except OSError as error:
        # What was done relative to a descriptor knows no more than a name.
        path = error.filename if error.filename and os.path.isabs(error.filename) else directory
        raise StoreError(f"{path}: {error.strerror}; name a directory that this user may write") from error


def _refuse_other_than_file(place: Directory, name: str) -> None:
    try:
        kind = place.lstat(name).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(kind):
        raise InputError(f"{place.path_of(name)} is no plain file: somebody else put it there; remove it first")
