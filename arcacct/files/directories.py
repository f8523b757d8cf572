"""Directories: those that this user may not look into, our own private ones, and those of the package."""

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def resource(folder: str, *names: str) -> str:
    """The path of a file below ``schema`` or ``etc``, in an installed package or in a checkout."""
    inside = os.path.join(_PACKAGE, folder)
    return os.path.join(inside if os.path.isdir(inside) else os.path.join(os.path.dirname(_PACKAGE), folder), *names)


def unseen(path: str) -> str:
    """Return why this user cannot see whether a path exists; empty if it exists, or does not exist."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"cannot be looked at ({(error.strerror or str(error)).lower()})"
    return ""


def private_directory(path: str) -> None:
    """
    Make a directory and its parents, each for its owner only, whatever the umask; their names are on disk afterwards.

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
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(fd, 0o700)
    finally:
        os.close(fd)
    try:
        fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        # A user who may not read the parent cannot sync it either.
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
