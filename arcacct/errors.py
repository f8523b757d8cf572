"""
The errors of arcacct and the exit code of each (sysexits, DESIGN section 7).

::

    ArcacctError            70  an error of our own
    ├── UsageError          64  wrong command line
    ├── InputError          65  a file or a record that cannot be used
    ├── StoreError          74  the database refuses or is damaged
    │   ├── StoreBusy       75  the database is locked by another process: nothing was lost
    │   └── SchemaError     74  not our file, or of a version that we do not know
    ├── TargetError         69  a target of publishing
    │   ├── TargetRefuses   69  the target refuses us: the administrator has to act
    │   ├── FiguresHeld     69  its figures would fall without proof: the operator has to act
    │   └── TargetBusy      75  try again later: nothing was lost
    ├── CredentialError     77  certificate, key or token
    └── ConfigError         78  arc.conf or arcacct.conf
"""

from __future__ import annotations

import os
import sys

from arcacct import __version__


class ArcacctError(Exception):
    """The root of the tree: its text says what, where and what to do, with each argument on its own line."""

    exit_code = 70

    def __str__(self) -> str:
        """The lines."""
        return "\n".join(map(str, self.args))


class UsageError(ArcacctError):
    """A command was called in a way that it does not understand."""

    exit_code = 64


class InputError(ArcacctError):
    """A control file, an accounting file or a record that cannot be used."""

    exit_code = 65


class StoreError(ArcacctError):
    """The database refuses, is damaged or cannot be opened."""

    exit_code = 74


class StoreBusy(StoreError):
    """The database is locked by another process; nothing was lost."""

    exit_code = 75


class SchemaError(StoreError):
    """The file is not ours, or is of a version that this program does not know."""


class TargetError(ArcacctError):
    """An error between us and a target of publishing."""

    exit_code = 69


class TargetRefuses(TargetError):
    """The target refuses us (not our records): the administrator has to act."""


class FiguresHeld(TargetError):
    """Months are not sent, because the target's figures would fall without an explanation: the operator has to act."""


class TargetBusy(TargetError):
    """The target cannot answer now; the next run tries again and nothing is lost."""

    exit_code = 75


class CredentialError(ArcacctError):
    """A certificate, key or token that is missing, unreadable, expired or refused."""

    exit_code = 77


class ConfigError(ArcacctError):
    """arc.conf or arcacct.conf contains a setting that cannot work."""

    exit_code = 78


def install_extra(extra: str) -> str:
    """Return the command that adds the packages of an extra of arcacct, for its installation by pip or package."""
    if not os.path.isdir(os.path.join(sys.prefix, "versions")):
        return f"{sys.prefix}/bin/pip install 'arcacct[{extra}]'"
    # The environment of the .deb and .rpm has no pip (packaging/build.py).
    wheel = f"'./arcacct-{__version__}-py3-none-any.whl[{extra}]'"
    return (
        f"python3 -m venv /opt/arcacct-extras && /opt/arcacct-extras/bin/pip install {wheel}, then use"
        " /opt/arcacct-extras/bin/arcacct for this command (`arcacct help install-packages`)"
    )


def use_as(path: str, who: str = "the user of A-REX") -> str:
    """Return what to do if the system refuses a path: run as ``who``; for root and the owner, the possible reasons."""
    try:
        owner = os.stat(path).st_uid
    except OSError:
        owner = None
    if os.geteuid() not in (0, owner):
        return f"run as {who}"
    return "check its mode, SELinux (ausearch -m avc), access lists (getfacl) and the mount (findmnt -T)"


def cannot_load(error: ImportError) -> str:
    """Return the message for an installed package that does not load, for example if a shared library is missing."""
    what = f"the package {error.name.partition('.')[0]}" if error.name else "a package"
    return f"{what} is installed and cannot be loaded: {error}; install the library that it names, or reinstall it"
