"""
The sources and targets of other packages, by the entry points that these packages register.

Nothing of another package stops arcacct: whatever its files contain and its code raises, also SystemExit, becomes one
error that names it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from arcacct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import Distribution, EntryPoint

T = TypeVar("T")


def _say_nothing(_text: str) -> None:
    pass


complain: Callable[[str], None] = _say_nothing
"""Tells the user that an installed package is left out: the command line sets its own function."""


@cache
def _registered() -> tuple[EntryPoint, ...]:
    """Return the entry points for arcacct; of two installations of one package those of the first on Python's path."""
    from importlib.metadata import distributions  # noqa: PLC0415  slow, and most commands need none

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for package in distributions():
        # Not by importlib.metadata.entry_points: one damaged file of any package would make it fail.
        try:
            if "arcacct." in (package.read_text("entry_points.txt") or ""):
                found.setdefault(package.name, tuple(package.entry_points))
        except Exception as error:  # noqa: BLE001  whatever another package contains
            why = f"its entry_points.txt cannot be read: {type(error).__name__}: {error}"
            complain(f"{_name_of(package)}: {why}; reinstall or uninstall this package")
    return tuple(one for entry_points in found.values() for one in entry_points)


def _name_of(package: Distribution) -> str:
    folder = package.locate_file("")
    try:
        return f"the package {package.name} in {folder}"
    except Exception:  # noqa: BLE001  its other files may be damaged, too
        return f"a package in {folder}"


def names(group: str) -> list[str]:
    """Return the names that installed packages have registered in a group, usable or not."""
    return sorted({one.name for one in _registered() if one.group == group})


def load(group: str, name: str, label: str, use: Callable[[Any], tuple[T, str]]) -> T | None:
    """
    Load the module that a package has registered in a group under a name; ``None``: no package has this name.

    ``use`` gets the module, and returns what is used of it, and why it cannot be used (empty: it can). ``label`` begins
    the text of errors. Raises ConfigError if two packages have the name, or the module cannot be loaded or used.
    """
    found = [one for one in _registered() if (one.group, one.name) == (group, name)]
    if not found:
        return None
    named = f"{label}: the entry point {group} of {', '.join(sorted(one.value for one in found))}"
    if len(found) > 1:
        raise ConfigError(f"{named}: only one package may have this name; uninstall the others")
    try:
        loaded, wrong = use(found[0].load())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(f"{named} cannot be loaded: {type(error).__name__}: {error}; reinstall it") from error
    if wrong:
        raise ConfigError(f"{named} cannot be used: {wrong}; report it to the authors of the package")
    return loaded
