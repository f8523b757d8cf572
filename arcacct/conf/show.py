"""The settings that hold, as text of the same syntax: reading it again gives the same settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from arcacct.conf.lookup import find
from arcacct.conf.options import OPTIONS, Spec
from arcacct.conf.parser import Conf
from arcacct.conf.places import places
from arcacct.conf.targets import Kinds, options_of
from arcacct.errors import ConfigError
from arcacct.secrecy import without_login

ALWAYS = ("common", "arex", "lrms", "arcacct")
"""Blocks whose defaults hold even if no file has them."""


def show(conf: Conf, kinds: Kinds, database: str | None = None) -> str:
    """
    Each option that has a value, under a comment with the line that sets it.

    ``database`` is the one of the command line, which wins.
    """
    options = options_of(kinds)
    names = [*ALWAYS, *(name for name in conf.blocks if name not in ALWAYS and conf.blocks[name].kind in options)]
    lines = []
    for name in names:
        lines.append(f"[{name}]")
        for spec in options[name.partition(":")[0]]:
            if name == "arcacct" and spec.name == "database" and database:
                lines += ["# --database", f"database = {database}"]
            else:
                lines += [*_set(conf, name, spec)] or _computed(conf, name, spec)
        lines.append("")
    return "\n".join(lines)


def _set(conf: Conf, block: str, spec: Spec) -> Iterator[str]:
    found = find(conf, block, spec)
    for text, line in zip(found.texts, found.lines, strict=False):
        yield f"# {line.file}:{line.line}" + (f" [{found.block}]" if found.block != block else "")
        yield f"{spec.name} = {without_login(text) if spec.is_url else text}"
    if found.lines and not found.texts:
        yield f"# {found.lines[-1].file}:{found.lines[-1].line}"
        yield f"{spec.name} ="


def _computed(conf: Conf, block: str, spec: Spec) -> Iterator[str]:
    """A default, where ARC has an expression or we have a rule its outcome."""
    value = spec.default
    if block == "common" and spec.name == "hostname":
        value = spec.read(spec.default or "")
    elif block == "arcacct" and spec.name == "lrms_host":
        value = conf.get("common", "hostname") or OPTIONS["common"][0].read("$EXEC{hostname -f}")
    elif block == "arcacct" and spec.name == "database":
        with suppress(ConfigError):  # `config check` says what is wrong
            value = places(conf).database
    if value is not None:
        yield "# default"
        yield f"{spec.name} = {value}"
