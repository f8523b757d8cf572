"""The reference in docs/reference/ says all that the program has, and nothing that it has not."""

from __future__ import annotations

import inspect
import re

import click
import commands_page
import manual
import options_page
import pytest
import reference_tables
import spoken
from generated import Part

from arcacct.asking.doctor.verdict import VERDICTS
from arcacct.cli.outcomes import GRAVEST_FIRST
from arcacct.cli.working import STOPPED
from arcacct.conf.targets import options_of
from arcacct.errors import ArcacctError
from arcacct.targets import kinds

PARTS = (
    Part("reference/commands", "commands", commands_page.markdown),
    Part("reference/options", "options", options_page.markdown),
    Part("reference/metrics", "metrics", reference_tables.metrics),
    Part("reference/metrics", "alerts", reference_tables.alerts),
    Part("reference/messages", "doubts", reference_tables.doubts),
    Part("reference/views", "views", reference_tables.views),
    Part("reference/precedence", "precedence", reference_tables.precedence),
)


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_what_is_made_from_the_program_is_of_this_program(part: Part) -> None:
    """Word for word; ``ARCACCT_WRITE_DOCS=1 python -m pytest tests/test_reference_pages.py`` writes all of it anew."""
    assert part.in_page() == part.text()


def sections(page: str) -> dict[str, str]:
    """The text below each heading of a page."""
    parts = re.split(r"^#+ (.+)$", manual.read(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The rows of all tables of a text, without their headers, as cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [number for number, row in enumerate(cells) if set("".join(row)) == {"-"}]
    return [row for number, row in enumerate(cells) if number not in rules and number + 1 not in rules]


def test_every_command_is_in_the_reference_and_no_other() -> None:
    """A section for each, with all of its options, arguments and examples."""
    found = {heading: text for heading, text in sections("reference/commands").items() if heading != "Commands"}
    known = {ctx.command_path: ctx.command for ctx in commands_page.contexts()}

    assert found.keys() == known.keys()
    for path, command in known.items():
        names = {name for row in rows(found[path]) for name in re.findall(r"`(-[\w-]+)", row[0])}
        assert names == {name for one in commands_page.options(command) for name in (*one.opts, *one.secondary_opts)}
        for param in command.params:
            if isinstance(param.type, click.Choice):
                assert all(word in found[path] for word in param.type.choices)


def test_every_option_is_in_the_reference_and_no_other() -> None:
    """A heading for each option of each block."""
    words = {kind: kinds()[kind].word if kind in kinds() else kind for kind in options_of(kinds())}
    known = {f"{words[kind]} {spec.name}" for kind, specs in options_of(kinds()).items() for spec in specs}

    assert {heading for heading in sections("reference/options") if re.fullmatch(r"[\w/]+ \w+", heading)} == known


def coded(page: str, heading: str) -> set[str]:
    """What stands first in the rows of a section, without its backquotes."""
    first = [row[0] for row in rows(sections(page)[heading])]
    assert len({*first}) == len(first)
    return {cell.strip("`") for cell in first}


MESSAGES = {
    "arcacct status": spoken.subjects,
    "arcacct doctor": lambda: {*VERDICTS},
    "In A-REX's log": spoken.of_hook,
    "arcacct sweep": spoken.of_sweeps,
    "Why a job was not sent": spoken.not_sent,
    "Why a record is refused": spoken.refusals,
    "What is sent otherwise": spoken.repairs,
    "Why a record of an import is left out": spoken.of_imports,
}


@pytest.mark.parametrize("heading", MESSAGES)
def test_every_message_is_in_the_reference_and_no_other(heading: str) -> None:
    """As the source has it, with ``*`` for each value."""
    assert coded("reference/messages", heading) == {text.replace("`", "") for text in MESSAGES[heading]()}


def test_everything_that_the_doctor_looks_at_is_in_the_manual() -> None:
    """By the name that its verdicts have."""
    text = manual.read("howto/before-it-goes-live") + sections("reference/messages")["arcacct doctor"]

    assert not [thing for thing in spoken.things() if f"`{thing}`" not in text]


def error_codes(kind: type[ArcacctError] = ArcacctError) -> set[int]:
    """The exit codes of a class of errors and of all below it."""
    return {kind.exit_code}.union(*(error_codes(below) for below in kind.__subclasses__()))


def test_every_exit_code_is_in_the_reference_and_no_other() -> None:
    """Those of the tree of errors, of what was well, and of what was stopped."""
    found = sections("reference/exit-codes")["Of all commands"]

    assert {row[0] for row in rows(found)} == {f"`{code}`" for code in {0, STOPPED} | error_codes()}
    assert f"in the order {', '.join(map(str, GRAVEST_FIRST))}." in found


def test_every_command_with_codes_of_its_own_is_in_the_reference_and_no_other() -> None:
    """A command that decides on its exit code returns a number."""
    named = [
        name for row in rows(sections("reference/exit-codes")["Of single commands"]) for name in row[0].split(", ")
    ]
    callbacks = {ctx.command_path: ctx.command.callback for ctx in commands_page.contexts()}
    deciding = [
        path
        for path, callback in callbacks.items()
        if callback is not None and inspect.signature(callback).return_annotation == "int"
    ]

    assert sorted(name.strip("`") for name in named) == sorted(deciding)
