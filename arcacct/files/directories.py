"""Directories: those that this user may not list, our own private ones, and those of the package."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def resource(folder: str, *names: str) -> str:
    """The path of a file below ``schema`` or ``etc``, in an installed package or in a checkout."""
    inside = os.path.join(_PACKAGE, folder)
    return os.path.join(inside if os.path.isdir(inside) else os.path.join(os.path.dirname(_PACKAGE), folder), *names)


@contextmanager
def descriptor(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    """Open a path as `os.open`, below the directory of a descriptor if one is given, and close it. Raises OSError."""
    fd = os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def unseen(path: str) -> str:
    """Return why this user cannot see whether a path exists; empty if it exists, or does not exist."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"cannot be examined ({(error.strerror or str(error)).lower()})"
    return ""


def private_directory(path: str) -> None:
    """
    Make a directory and its parents, each for its owner only, with any umask; their names are on disk afterwards.

    (`os.makedirs` gives its mode to the last alone.) Raises OSError.
    """
    if not path or os.path.isdir(path):
        return
    private_directory(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        # Another process was first.
        return
    # Not by its path: where others may write it may lead elsewhere by now.
    with descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as fd:
        os.fchmod(fd, 0o700)
    # A user who may not read the parent cannot sync it either.
    with suppress(PermissionError), descriptor(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)
