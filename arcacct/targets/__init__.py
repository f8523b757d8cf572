"""
What each receiver wants, and how to speak to it: a folder for each kind of target, and the table of them.

Nothing of a folder is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module

from arcacct.config.options import select_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.config.options import Target, TargetKind
    from arcacct.config.settings import Settings
    from arcacct.publishing.plugin import TargetPlugin

FOLDERS = {
    "arex/jura/sgas": "sgas",
    "arex/jura/apel": "apel",
    "arcacct/directory": "directory",
    "arcacct/auditor": "auditor",
}
"""The folder of each kind of block. Its ``options.py`` has a KIND, its ``target.py`` a PLUGIN (`publishing.plugin`)."""


def kinds() -> dict[str, TargetKind]:
    """Every kind of target, by its block: what reads a configuration has to know."""
    return {block: import_module(f"{__name__}.{folder}.options").KIND for block, folder in FOLDERS.items()}


def plugin_of(target: Target, settings: Settings) -> TargetPlugin:
    """How publishing deals with a configured target."""
    plugin: TargetPlugin = import_module(f"{__name__}.{FOLDERS[target.block.partition(':')[0]]}.target").PLUGIN(
        target, settings
    )
    return plugin


def plugins(settings: Settings, name: str | None = None) -> tuple[TargetPlugin, ...]:
    """The same of all targets, or of the one of a name. Raises UsageError as `select_targets`."""
    return tuple(plugin_of(target, settings) for target in select_targets(settings.targets, name))
