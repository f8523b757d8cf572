"""
The sources and targets of other packages, by the entry points that these packages register.

Another package cannot stop arcacct: any error in its files or code, even SystemExit, becomes one error that names the
package.
"""

from __future__ import annotations

import os
import sys
from functools import cache, reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from arcacct.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

PARTS = {
    "arcacct.commands": ("report", "export", "fleet", "node", "features", "sandbox", "demo"),
    "arcacct.sources": ("sonar",),
    "arcacct.targets": ("arcacct/auditor",),
}
"""The names that the optional parts of arcacct register, by group. An installation may lack some of them."""
NOT_INSTALLED = (
    "is in an optional part that is not installed; install arcacct again (in a checkout: `pip install -e .`)"
)
"""What an error says of such a name."""


def _say_nothing(_text: str) -> None:
    pass


complain: Callable[[str], None] = _say_nothing
"""Tells the user that an installed package is left out: the command line sets its own function."""


class EntryPoint(NamedTuple):
    """A name that a package has registered, and the place of its object: ``MODULE`` or ``MODULE:ATTRIBUTE``."""

    group: str
    name: str
    value: str

    def load(self) -> Any:
        """Import the module, and return it or its attribute. Raises any error of the package."""
        module, _, attribute = self.value.partition("[")[0].strip().partition(":")
        return reduce(getattr, filter(None, attribute.split(".")), import_module(module))


# Not by importlib.metadata: its import takes as long as everything else of a short command, and one damaged file of any
# package makes it fail.


@cache
def _registered() -> tuple[EntryPoint, ...]:
    """Return the entry points for arcacct; of two installations of one package those of the first on Python's path."""
    found: dict[str, list[EntryPoint]] = {}
    for folder in (one or "." for one in sys.path):
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            # A folder that does not exist, or modules in a zip file.
            continue
        # A folder may also have metadata of an older version of a package.
        earlier = set(found)
        for entry in entries:
            stem, kind = os.path.splitext(entry)
            name = stem.partition("-")[0]
            if kind not in (".dist-info", ".egg-info") or name in earlier:
                continue
            try:
                with open(os.path.join(folder, entry, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
                points = list(_entry_points(text)) if "arcacct." in text else []
            except (FileNotFoundError, NotADirectoryError):
                points = []
            except (OSError, ValueError) as error:
                why = f"its entry_points.txt cannot be read: {type(error).__name__}: {error}"
                complain(f"the package {name} in {folder}: {why}; reinstall or uninstall this package")
                continue
            found.setdefault(name, []).extend(points)
    return tuple(one for entry_points in found.values() for one in entry_points)


def _entry_points(text: str) -> Iterator[EntryPoint]:
    """Yield the entry points for arcacct of an entry_points.txt. Raises ValueError for a line that has no value."""
    group = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = map(str.strip, line.partition("="))
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif not line.startswith(("#", ";")):
            if not equals:
                raise ValueError(f"{line!r} has no value")
            if group.startswith("arcacct."):
                yield EntryPoint(group, name, value)


def names(group: str) -> list[str]:
    """Return the names that installed packages have registered in a group, usable or not."""
    return sorted({one.name for one in _registered() if one.group == group})


def load(group: str, name: str, label: str, use: Callable[[Any], tuple[T, str]]) -> T | None:
    """
    Load the module that a package has registered in a group under a name; ``None``: no package has this name.

    ``use`` gets the module, and returns the part in use, and why it cannot be used (empty: it can). ``label`` begins
    the text of errors. Raises ConfigError if two packages have the name, or the module cannot be loaded or used.
    """
    # A package may be registered twice: a pip that was killed leaves its former metadata under another name.
    found = sorted({one for one in _registered() if (one.group, one.name) == (group, name)})
    if not found:
        return None
    named = f"{label}: the entry point {group} of {', '.join(one.value for one in found)}"
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
