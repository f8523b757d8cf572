"""Which line holds for an option, and what a whole block comes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from arcacct.conf.options import Spec
from arcacct.conf.parser import Conf, Option
from arcacct.conf.problems import ERROR, Problem


class InForce(NamedTuple):
    """The texts that hold for an option and where they were set."""

    texts: tuple[str, ...]
    lines: tuple[Option, ...]
    """As many as there are texts, none for a default; without texts those that say that nothing holds."""
    block: str
    """The block that sets it: the option's own, or one that it inherits from."""


def find(conf: Conf, block: str, spec: Spec) -> InForce:
    """
    What holds for an option of a block: its own lines, those of a block it inherits from, or the default.

    Of an option that is not repeated the last line holds, as A-REX takes it.
    """
    for name in (block, *spec.inherits):
        there = conf.blocks.get(name)
        lines = [line for line in there.options.get(spec.name, ()) if line.value] if there is not None else []
        if lines:
            lines = lines if spec.repeated else lines[-1:]
            return InForce(tuple(line.value for line in lines), tuple(lines), name)
        if spec.may_be_empty and there is not None and spec.name in there.options:
            return InForce((), tuple(there.options[spec.name]), name)
    return InForce(() if spec.default is None else (spec.default,), (), block)


def read_block(conf: Conf, block: str, options: Iterable[Spec], problems: list[Problem]) -> dict[str, Any]:
    """
    The values of a block by field: one, ``None`` where nothing is set, or a tuple where the option is repeated.

    What cannot be read is added to ``problems`` and counts as not set.
    """
    fields: dict[str, Any] = {}
    for spec in options:
        found = find(conf, block, spec)
        if spec.required and not found.texts:
            there = conf.blocks[block]
            wrong = f"is not set and this target needs it; add a line {spec.name} = ..."
            problems.append(Problem(ERROR, there.file, there.line, there.name, spec.name, wrong))
        values = []
        for number, text in enumerate(found.texts):
            try:
                values.append(spec.read(text))
            except ValueError as error:
                line = found.lines[number]
                name = conf.blocks[found.block].name
                problems.append(Problem(ERROR, line.file, line.line, name, spec.name, str(error)))
        fields[spec.field] = tuple(values) if spec.repeated else next(iter(values), None)
    return fields
