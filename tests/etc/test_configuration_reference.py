"""etc/arcacct.conf.reference and the code say the same."""

from __future__ import annotations

import re

import conf_files
import pytest

from arcacct.config.options import options_of
from arcacct.config.settings import examine
from arcacct.files.directories import resource
from arcacct.targets import kinds

OPTIONS = options_of(kinds())

COMPUTED = {
    ("arcacct", "database"): "<controldir>/accounting/arcacct/accounting.db",
    ("arcacct", "lrms_host"): "hostname of [common]",
}
"""Defaults that depend on other options: no text in the code, words in the reference."""


def reference() -> str:
    """The file as it is installed."""
    with open(resource("etc", "arcacct.conf.reference"), encoding="ascii") as file:
        return file.read()


def documented() -> dict[tuple[str, str], dict[str, str]]:
    """Each option of the reference, by block and name, with its attributes."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    block, names = "", [""]
    for line in reference().splitlines():
        if header := re.fullmatch(r"#\[([^:\]]+)(:NAME)?\]", line):
            block = header[1]
        elif option := re.match(r"## (\w+(?:, \w+)?) = \S", line):
            names = option[1].split(", ")
            found |= {(block, name): {} for name in names}
        elif attribute := re.fullmatch(r"## (multivalued|mandatory|(default|inherits|allowedvalues): (.+))", line):
            values = (attribute[3] or "yes").split(", ") if len(names) > 1 else [attribute[3] or "yes"]
            for name, value in zip(names, values, strict=True):
                found[block, name][attribute[2] or attribute[1]] = value
        elif example := re.match(r"#(\w+)=", line):
            assert example[1] in names, f"the example of {example[1]} stands under {names}"
            found[block, example[1]]["example"] = "yes"
    return found


def known() -> dict[tuple[str, str], dict[str, str]]:
    """The same of the code."""
    found = {}
    for block, specs in OPTIONS.items():
        for spec in specs:
            default = COMPUTED.get((block, spec.name), spec.default or "undefined")
            attributes = {
                "mandatory" if spec.required else "default": "yes" if spec.required else default,
                "example": "yes",
            }
            attributes |= {"multivalued": "yes"} if spec.repeated else {}
            attributes |= {"allowedvalues": " ".join(spec.words)} if spec.words else {}
            attributes |= {"inherits": " ".join(spec.inherits)} if spec.inherits else {}
            found[block, spec.name] = attributes
    return found


def test_every_option_is_documented_and_every_documented_option_exists():
    """The same options in the same blocks, each with its default, allowed values and inheritance."""
    assert documented() == known()


@pytest.mark.parametrize("block", OPTIONS)
def test_every_default_is_a_value(block):
    """A default passes the same check as what a user writes."""
    for spec in OPTIONS[block]:
        if spec.default is not None:
            assert spec.read(spec.default) not in ("", None)
        assert all(spec.read(word) is not None for word in spec.words)


def test_the_reference_is_a_valid_file_as_it_is(tmp_path):
    """Copied to arcacct.conf it changes nothing."""
    found, problems = examine(conf_files.read(tmp_path, reference()), kinds())
    assert problems == []
    assert found is not None
    assert found.targets == ()


def test_the_examples_of_the_reference_are_valid(tmp_path):
    """With every example line made real there is nothing to complain about and a target of each kind."""
    found, problems = examine(conf_files.read(tmp_path, re.sub(r"(?m)^#(?=[\[\w])", "", reference())), kinds())
    assert problems == []
    assert found is not None
    assert [target.name for target in found.targets] == ["sgas:NAME", "apel:NAME", "directory:NAME", "auditor:NAME"]
    assert found.targets[0].vofilter == ("atlas", "alice.cern.ch")


def test_the_reference_fits_a_terminal():
    """No line is longer than a terminal is wide, but those that list allowed values or a rule."""
    long = [line for line in reference().splitlines() if len(line) > 80]
    assert all(line.startswith(("## allowedvalues:", "## map =")) for line in long)
