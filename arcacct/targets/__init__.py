"""
The kinds of targets: a folder for each, with options, format, the rules of the receiver and protocol, and their table.

A folder is imported only when it is needed.

Optional parts and other packages add kinds by an entry point of the group `GROUP`: its name is the kind of block,
``arcacct/NAME``, and its object a module with ``KIND`` and ``PLUGIN``. Installed packages are searched only if the
configuration has a block below ``arcacct/`` that is not in the table.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from arcacct import entry_points
from arcacct.config.options import TargetKind, select_targets
from arcacct.errors import ConfigError

if TYPE_CHECKING:
    from arcacct.config.options import Target
    from arcacct.config.parser import Conf
    from arcacct.config.settings import Settings
    from arcacct.publishing.plugin import TargetPlugin

FOLDERS = {"arex/jura/sgas": "sgas", "arex/jura/apel": "apel", "arcacct/directory": "directory"}
"""The folder of each kind of block. Its ``options.py`` has a KIND, its ``target.py`` a PLUGIN (`publishing.plugin`)."""
GROUP = "arcacct.targets"


def built_in(block: str) -> TargetKind:
    """Return the kind of target of a block of the table."""
    kind: TargetKind = import_module(f"{__name__}.{FOLDERS[block]}.options").KIND
    return kind


def kinds(conf: Conf | None = None) -> dict[str, TargetKind]:
    """
    Return every kind of target, by its block, for reading a configuration.

    If the configuration has only blocks of the table, these are the kinds of the table. Raises ConfigError for a
    package that the configuration needs and that cannot be used.
    """
    found = {block: built_in(block) for block in FOLDERS}
    blocks = () if conf is None else conf.blocks.values()
    others = {one.kind for one in blocks if one.kind.startswith("arcacct/") and one.kind not in found}
    if conf is None or others:
        for name in entry_points.names(GROUP):
            try:
                found[name] = _installed(name).KIND
            except ConfigError:
                if conf is None or name in others:
                    raise
    return found


@cache
def _installed(block: str) -> Any:
    """The module that a package has registered for a kind of block; ``None``: none has. Raises ConfigError."""

    def use(module: Any) -> tuple[Any, str]:
        kind = module.KIND
        if not isinstance(kind, TargetKind):
            return module, f"KIND is a {type(kind).__name__}, no TargetKind"
        if kind.block != block:
            return module, f"it is for [{kind.block}]"
        return module, "" if callable(module.PLUGIN) else f"PLUGIN is a {type(module.PLUGIN).__name__}, no class"

    return entry_points.load(GROUP, block, f"[{block}]", use)


def plugin_of(target: Target, settings: Settings) -> TargetPlugin:
    """Return the plugin of a configured target."""
    block = target.block.partition(":")[0]
    module = import_module(f"{__name__}.{FOLDERS[block]}.target") if block in FOLDERS else _installed(block)
    plugin: TargetPlugin = module.PLUGIN(target, settings)
    return plugin


def plugins(settings: Settings, name: str | None = None) -> tuple[TargetPlugin, ...]:
    """Return the plugins of all targets, or of one with a name. Raises UsageError as `select_targets`."""
    return tuple(plugin_of(target, settings) for target in select_targets(settings.targets, name))
