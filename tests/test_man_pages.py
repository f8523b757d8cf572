"""The man pages: one for each command with each of its options, the configuration, and the launcher; well formed."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import click
import man_pages as man
import pytest

from arcacct.arex.control_files import STATES
from arcacct.config.options import options_of
from arcacct.files.directories import resource
from arcacct.targets import kinds

PAGES = {page.path: page for page in man.pages()}


def kept() -> list[pathlib.Path]:
    return sorted(man.MAN.glob("man*/*"))


def shown(*paths: pathlib.Path) -> str:
    """Pages as a terminal of 80 columns shows them, without bold and underlined letters."""
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("there is no groff here, which shows man pages")
    done = subprocess.run(
        [groff, "-man", "-Kutf8", "-Tutf8", "-P-c", "-P-b", "-P-o", "-P-u", "-ww", *paths],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "GROFF_NO_SGR": "1"},
    )
    assert done.stderr == ""
    return done.stdout


def section(path: pathlib.Path, heading: str) -> str:
    """What stands below a heading of a page, as roff."""
    text = path.read_text(encoding="utf-8").partition(f".SH {heading}\n")[2]
    return re.split(r"^\.SH ", text, flags=re.MULTILINE)[0]


def terms(path: pathlib.Path, heading: str) -> list[str]:
    """The terms of a section without the signs of roff."""
    found = re.findall(r"^\.TP\n(.*)$", section(path, heading), re.MULTILINE)
    return [re.sub(r"\\f[BIR]", "", term).replace("\\-", "-").replace("\\&", "") for term in found]


def test_the_pages_are_those_of_the_program() -> None:
    """
    Each command, the configuration and the launcher have a page, word for word, and there is no other.

    ``ARCACCT_WRITE_DOCS=1`` writes them again.
    """
    if os.environ.get(man.WRITE):
        shutil.rmtree(man.MAN, ignore_errors=True)
        for path, page in PAGES.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page.text, encoding="utf-8")
    assert kept() == sorted(PAGES)
    assert [path.name for path in kept() if path.read_text(encoding="utf-8") != PAGES[path].text] == []


def test_every_option_of_a_command_is_on_its_page_and_no_other() -> None:
    """By the names that a user types; commands and groups alike."""
    for ctx in man.contexts():
        path = man.MAN / "man1" / f"{ctx.command_path.replace(' ', '-')}.1"
        options = [one for one in ctx.command.get_params(ctx) if isinstance(one, click.Option) and not one.hidden]
        typed = {name for one in options for name in (*one.opts, *one.secondary_opts)}
        on_page = {word for term in terms(path, "OPTIONS") for word in re.findall(r"(?<![\w-])--?[a-z][\w-]*", term)}

        assert on_page == typed, path.name
        assert {"-h", "--help"} <= on_page


def test_every_command_of_a_group_is_on_its_page() -> None:
    for ctx in man.contexts():
        if isinstance(ctx.command, click.Group):
            name = ctx.command_path.replace(" ", "-")
            below = [f"{one.command_path.replace(' ', '-')}(1)" for one in man.contexts(ctx) if one.parent is ctx]
            assert terms(man.MAN / "man1" / f"{name}.1", "COMMANDS") == below


def test_every_option_of_the_configuration_is_on_its_page_and_no_other() -> None:
    """In its block, with what is allowed there."""
    path = man.MAN / "man5" / "arcacct.conf.5"
    found = {}
    for block, text in re.findall(r"^\.SS \[(.+)\]\n((?:(?!\.SS).*\n)*)", section(path, "OPTIONS"), re.MULTILINE):
        for names, told in re.findall(r"^\.TP\n\\fB([\w, ]+)\\fR = .*\n((?:(?!\.TP).*\n)*)", text, re.MULTILINE):
            words = re.search(r"One of: ([^.]+)\.", " ".join(told.split()))
            for name in names.split(", "):
                found[block.removesuffix(":NAME"), name] = words[1].replace("\\-", "-").split() if words else []

    assert found == {
        (block, spec.name): list(spec.words) for block, specs in options_of(kinds()).items() for spec in specs
    }


def test_the_page_of_the_launcher_says_what_it_does() -> None:
    """Its variables with their defaults, its arguments and the states that it knows."""
    path = man.MAN / "man8" / "arcacct-hook.8"
    with open(resource("etc", "arcacct-hook"), encoding="utf-8") as file:
        launcher = file.read()
    variables = dict(re.findall(r"^[a-z]+=\$\{(ARCACCT_\w+):-(.*)\}$", launcher, re.MULTILINE))
    text = " ".join(section(path, "ENVIRONMENT").replace("\\", "").split())

    assert terms(path, "ENVIRONMENT") == list(variables)
    assert all(default in text for default in variables.values())
    assert all(f"{name}=" in text for name in re.findall(r"^([a-z]+)=\$\{ARCACCT_", launcher, re.MULTILINE))
    assert set(STATES) <= set(re.findall(r"[A-Z]{5,}", section(path, "ARGUMENTS")))


def test_the_exit_codes_are_those_of_the_tree_of_errors() -> None:
    assert set(man.STATUS) == man.codes() | {0, 130}


def test_pages_name_each_other() -> None:
    """Each page but none of them itself, and only pages that there are."""
    names = {f"{page.name}({page.section})" for page in PAGES.values()}
    for path, page in PAGES.items():
        found = re.findall(r"\\fB(.+?)\\fR\((\d)\)", section(path, "SEE ALSO"))
        named = {f"{name}({number})".replace("\\-", "-") for name, number in found}
        assert named, page.name
        assert named <= names - {f"{page.name}({page.section})"}, page.name


def test_no_page_changes_by_itself() -> None:
    """Neither a date of today nor a place of this machine."""
    for page in PAGES.values():
        assert re.search(r'^\.TH \S+ [158] "" "arcacct \S+" "[^"]+"$', page.text, re.MULTILINE), page.name
        assert str(man.ROOT) not in page.text


def test_roff_has_no_complaint() -> None:
    """All warnings of groff on, about every page, and each shows its name and headings."""
    text = shown(*kept())

    assert all(f"{page.name} - " in text or f"{page.name} -\n" in text for page in PAGES.values())
    assert text.count("SEE ALSO") == len(PAGES)
    # The line at the top has room for the name on both sides.
    assert not [page.name for page in PAGES.values() if text.count(f"{page.name.upper()}({page.section}) ") < 1]
    # No backquote and no sign of click's or roff's is left over.
    assert not re.search(r"[`\x08]|\\f|\\e|\\-", text)


def test_mandoc_has_no_complaint() -> None:
    """It reads pages where there is no groff, and is stricter."""
    mandoc = shutil.which("mandoc")
    if mandoc is None:
        pytest.skip("there is no mandoc here, which judges man pages")
    done = subprocess.run([mandoc, "-T", "lint", "-W", "warning", *kept()], capture_output=True, text=True, check=False)
    # It wants a date; a page of ours changes when what it says changes.
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


def test_man_shows_a_page() -> None:
    """As a user calls it, with all its warnings."""
    program = shutil.which("man")
    if program is None:
        pytest.skip("there is no man here")
    done = subprocess.run(
        [program, "--warnings", "-l", man.MAN / "man1" / "arcacct-publish.1"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "PAGER": "cat"},
    )
    if "No manual entry" in done.stderr or "minimized" in done.stdout:
        pytest.skip("this host shows no man pages: it was made small without them")

    assert (done.returncode, done.stderr) == (0, "")
    assert "\n       arcacct publish --dry-run\n" in done.stdout


@pytest.mark.parametrize(
    "text",
    [
        r"a path C:\new \fBbold\fR \n \*x \(aq",
        ".SH no request",
        "'br no request",
        '--no-dash -1 ~user ^caret a\'b "c"',
        "`code with - and ' and \\` and more",
        "one, e.g. two. Three; four.",
        "A-REX's word, 100 % of it, <controldir>/x and Zażółć",
    ],
)
def test_texts_are_shown_as_they_are(tmp_path, text) -> None:
    """Nothing in a help text is an instruction to roff, and none of its characters becomes another."""
    page = man._page("x", 1, "y", {"DESCRIPTION": man.prose(text), "EXAMPLES": man.verbatim([text])})
    (path := tmp_path / "x.1").write_text(page.text, encoding="utf-8")

    prose, as_it_is = shown(path).partition("DESCRIPTION\n")[2].split("EXAMPLES\n")
    assert " ".join(prose.split()) == text.replace("`", "")
    assert as_it_is.splitlines()[0] == f"       {text}"


def test_long_texts_break_where_words_end(tmp_path) -> None:
    """A command in bold continues over the break; nothing after it is bold."""
    text = f"{'word ' * 13}`arcacct import gridengine --retry` and the rest. {'And so on. ' * 20}"
    made = man.prose(text).splitlines()

    assert max(map(len, made)) < 110
    assert all(line.count("\\fB") == line.count("\\fR") for line in made)
