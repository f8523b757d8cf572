"""The manual's page of all options, made from etc/arcacct.conf.reference, which a test holds equal to the program."""

from __future__ import annotations

import re
from typing import NamedTuple

from generated import code, plain

from arcacct.files.directories import resource
from arcacct.targets import kinds

_ATTRIBUTE = re.compile(r"(multivalued|mandatory|default|inherits|allowedvalues)(?:: (.+))?")


class Option(NamedTuple):
    """An option as the reference describes it."""

    name: str
    """Or two, with a comma between them; their defaults are written so, too."""
    value: str
    """The form of its value, as ``yes|no``."""
    text: str
    attributes: dict[str, str]
    """``default``, ``allowedvalues``, ``inherits``, and without a value ``multivalued`` and ``mandatory``."""
    examples: list[str]

    @property
    def notes(self) -> str:
        """What holds besides its description."""
        said = self.attributes
        words = ["Mandatory."] if "mandatory" in said else []
        words += ["Repeatable."] if "multivalued" in said else []
        if "allowedvalues" in said:
            words.append(f"Allowed: {', '.join(map(code, said['allowedvalues'].split()))}.")
        if "inherits" in said:
            words.append(f"Not set: as in {', else '.join(f'`[{block}]`' for block in said['inherits'].split())}.")
        if "default" in said:
            default = said["default"]
            words += [f"Default: {code(default)}."] if default != "undefined" else []
        names, defaults = self.name.split(", "), said.get("default", "").split(", ")
        usual = [f"{name}={default}" for name, default in zip(names, defaults, strict=False)]
        examples = [line for line in self.examples if line not in usual]
        words += [f"Example{'s' if len(examples) > 1 else ''}: {', '.join(map(code, examples))}."] if examples else []
        return " ".join(words)


class Block(NamedTuple):
    """A block with what the reference says of it and of its options."""

    name: str
    """As ``arex/jura/sgas:NAME``."""
    about: str
    options: list[Option]

    @property
    def word(self) -> str:
        """What the headings of its options begin with."""
        kind = self.name.partition(":")[0]
        return kinds()[kind].word if kind in kinds() else kind


def blocks() -> list[Block]:
    """All of the reference, in its order."""
    with open(resource("etc", "arcacct.conf.reference"), encoding="ascii") as file:
        parts = re.split(r"\n#{75}\n(?=###)", file.read())[1:]
    found = []
    for part in parts:
        # A ruled heading, and what stands below it, is about the first block there.
        title, *more = re.findall(r"^###(?!#) ?(.*)$", part, re.MULTILINE)
        about = " ".join([f"{title}.", *filter(None, more)])
        for chunk in part.split("\n\n"):
            lines = chunk.strip().splitlines()
            if len(lines) == 1 and (header := re.fullmatch(r"#\[(.+)\]", lines[0])):
                found.append(Block(header[1], about, []))
                about = ""
            elif lines and lines[0].startswith("## "):
                found[-1].options.append(_option(lines))
    return found


def _option(lines: list[str]) -> Option:
    told = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    attributes = [found for line in told if (found := _ATTRIBUTE.fullmatch(line))]
    text = " ".join(line for line in told if not _ATTRIBUTE.fullmatch(line))
    head, _, meaning = text.partition(" - ")
    name, _, value = head.partition(" = ")
    examples = [line.removeprefix("#") for line in lines if not line.startswith("##")]
    return Option(name, value, meaning, {one[1]: one[2] or "" for one in attributes}, examples)


def anchor(heading: str) -> str:
    """Of a heading, as the site makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def markdown() -> str:
    """
    Return the list of the blocks, with the names of their options, then a section for each block and option.

    An option with the text of an earlier one refers to it.
    """
    found = blocks()
    parts = [
        f"* [`[{block.name}]`](#{anchor(block.name)}): {', '.join(one.name for one in block.options)}"
        for block in found
    ]
    parts.append("")
    earlier: dict[str, str] = {}
    for block in found:
        parts.append(f"## [{block.name}]\n")
        parts += [f"{plain(block.about)}\n"] if block.about else []
        for one in block.options:
            heading = f"{block.word} {one.name}"
            text = f"`{one.name}={one.value}`\n\n{plain(one.text)}\n\n{one.notes}\n"
            same = earlier.setdefault(text, heading)
            parts.append(f"### {heading}\n")
            parts.append(text if same == heading else f"As [{same}](#{anchor(same)}).\n")
    return "\n".join(parts)
