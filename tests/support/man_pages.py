r"""
The man pages in ``man/``: one for each command and group, arcacct.conf(5) and arcacct-hook(8), made from the program.

Made by our own hand and not by click-man (0.6): that finds no command of a group that looks its commands up by name,
as `arcacct` does, so there would be one page; it writes texts as they are, so that a backslash, a line that starts with
a dot and click's own ``\b`` become instructions to roff; and it knows no examples, choices, exit status, files, no SEE
ALSO and no other section of the manual than 1. What is left is the order of the headings.

Pages have no date: a page changes when what it says changes.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click

from arcacct import __version__
from arcacct.cli.main import arcacct
from arcacct.cli.options import Parsed
from arcacct.errors import ArcacctError
from arcacct.files.directories import resource

ROOT = pathlib.Path(__file__).parent.parent.parent
MAN = ROOT / "man"
WRITE = "ARCACCT_WRITE_DOCS"
"""With this variable in the environment the tests write the pages again."""
MADE = f'.\\" Made from the program ({WRITE}=1 python -m pytest tests/test_man_pages.py): do not edit.\n'
STATUS = {
    0: "Success.",
    64: "The command line is wrong.",
    65: "Some input cannot be used, or a record was quarantined; everything else was done.",
    69: "A target rejects the sender, or a month is on hold because its figures would fall: act on it.",
    70: "Internal error.",
    74: "A database or another file is unusable, damaged, or of another version.",
    75: "Try again later: a lock, a receiver that is down, maintenance. Nothing was lost.",
    77: "A certificate, key or token is missing, expired or rejected.",
    78: "The configuration is wrong.",
    130: "Stopped by Ctrl-C.",
}
"""The exit codes of all commands."""
OWN_STATUS = {
    "arcacct status": {0: "OK.", 1: "Warning.", 2: "Critical.", 3: "Unknown.", 64: STATUS[64]},
    "arcacct verify": {1: "Not everything agrees."},
}
"""Those of commands that have codes of their own; ``status`` has no others."""
FILES = {
    "/etc/arc.conf": "The configuration of ARC.",
    "/etc/arcacct.conf": "The configuration of arcacct; see `arcacct.conf`(5).",
    "<controldir>/accounting/arcacct/accounting.db": "The jobs.",
    "<controldir>/accounting/arcacct/publishing.db": "The ledger: messages and answers.",
    "<controldir>/accounting/arcacct/spool/": "Events that the next `arcacct sweep` records.",
}
"""What commands read and write, unless the configuration says another place."""
ENVIRONMENT = {
    "ARC_CONFIG": "Read this arc.conf. The option `--config` has priority.",
    "ARCACCT_CONFIG": "Read this arcacct.conf instead of the one next to arc.conf.",
    "ARC_LOCATION": "A-REX is installed below this directory; the default is `/usr`.",
}
_NONE_OF_OURS = ("arcacct demo", "arcacct fleet", "arcacct help", "arcacct node", "arcacct sandbox", "arcacct features")
"""Commands that need neither the configuration nor the databases, or hardly ever."""
_WIDTH = 78


class Page(NamedTuple):
    """A page of the manual of the system."""

    name: str
    section: int
    text: str

    @property
    def path(self) -> pathlib.Path:
        """Where it is kept."""
        return MAN / f"man{self.section}" / f"{self.name}.{self.section}"


def pages() -> list[Page]:
    """All of them."""
    return [*(_of_command(ctx) for ctx in contexts()), _of_configuration(), _of_hook()]


def contexts(ctx: click.Context | None = None) -> Iterator[click.Context]:
    """Every command in the context in which it runs, groups before what is in them."""
    ctx = ctx or click.Context(arcacct, info_name="arcacct", **arcacct.context_settings)
    yield ctx
    for below in _below(ctx):
        yield from contexts(below)


def _below(ctx: click.Context) -> Iterator[click.Context]:
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield click.Context(command, info_name=name, parent=ctx, **command.context_settings)


def escaped(text: str) -> str:
    """A text that roff prints character for character: nothing in it is an instruction, a dash or a quote of roff's."""
    signs = {"\\": "\\e", "-": "\\-", "^": "\\(ha", "~": "\\(ti", "`": "\\(ga", "'": "\\(aq"}
    made = "".join(signs.get(letter, letter) for letter in text)
    return f"\\&{made}" if made.startswith((".", "'")) else made


def prose(text: str) -> str:
    """Words on lines: a line for each sentence or part of one, what stands between backquotes in bold."""
    lines = []
    for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(text.split())):
        # Only the end of the sentence may look like one: roff puts more room behind it.
        *broken, last = textwrap.wrap(sentence, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [*(f"{_marked(line)}\\&" if line[-1:] in ".?!" else _marked(line) for line in broken), _marked(last)]
    return "\n".join(_whole(lines))


def _marked(line: str) -> str:
    return escaped(line).replace("\\(ga", "`")


def _whole(lines: Iterable[str]) -> Iterator[str]:
    """Lines with backquotes as lines with bold words, also where a break stands between two backquotes."""
    bold = False
    for line in lines:
        made = "\\fB" if bold else ""
        for number, part in enumerate(line.split("`")):
            if number:
                bold = not bold
                made += "\\fB" if bold else "\\fR"
            made += part
        yield made + ("\\fR" if bold else "")


def paragraphs(text: str) -> str:
    r"""The paragraphs of a help text; one that starts with ``\b`` keeps its lines."""
    made = []
    for part in inspect.cleandoc(text).split("\n\n"):
        lines = part.splitlines()
        made.append(verbatim(lines[1:]) if lines[:1] == ["\b"] else prose(part))
    return "\n.PP\n".join(made)


def verbatim(lines: Iterable[str]) -> str:
    """Lines as they are."""
    return "\n".join((".EX", *map(escaped, lines), ".EE"))


def items(terms: Iterable[tuple[str, str]]) -> str:
    """Terms, which are roff already, each with a text below it."""
    return "\n".join(f".TP\n{term}\n{text}" for term, text in terms)


def bold(text: str) -> str:
    return f"\\fB{escaped(text)}\\fR"


def italic(text: str) -> str:
    return f"\\fI{escaped(text)}\\fR"


def _page(name: str, section: int, purpose: str, sections: dict[str, str]) -> Page:
    head = f'{MADE}.TH {escaped(name.upper())} {section} "" "arcacct {__version__}" "arcacct"\n'
    # Nothing that may be copied has a hyphen or blanks of roff's in it.
    head += ".nh\n.ad l\n"
    body = {"NAME": f"{escaped(name)} \\- {_one_line(purpose)}"} | sections
    parts = [f".SH {heading}\n{text}\n" for heading, text in body.items() if text]
    return Page(name, section, head + "".join(parts))


def _one_line(purpose: str) -> str:
    purpose = purpose.strip()
    return _marked(purpose if purpose.endswith("...") else purpose.rstrip(".")).replace("`", "")


def _see(names: Iterable[tuple[str, int]]) -> str:
    """References to other pages, in the order of section and name."""
    known = sorted(set(names), key=lambda one: (one[1], one[0]))
    return ",\n".join(f"{bold(name)}({section})" for name, section in known)


def page_of(ctx: click.Context) -> str:
    """The name of a command's page."""
    return ctx.command_path.replace(" ", "-")


def _of_command(ctx: click.Context) -> Page:
    command = ctx.command
    help_text = inspect.cleandoc(command.help or "")
    options = [param for param in command.get_params(ctx) if isinstance(param, click.Option) and not param.hidden]
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    below = list(_below(ctx))
    return _page(
        page_of(ctx),
        1,
        _purpose(ctx),
        {
            "SYNOPSIS": _synopsis(ctx, arguments),
            "DESCRIPTION": paragraphs(help_text),
            "ARGUMENTS": items((italic(_shown(one)), prose(_choices(one))) for one in arguments if _choices(one)),
            "COMMANDS": items(
                (f"{bold(page_of(one))}(1)", prose(one.command.get_short_help_str(1000))) for one in below
            ),
            "OPTIONS": items((_names(one), prose(_meaning(one, ctx))) for one in options) + _global(ctx),
            "EXIT STATUS": _exit_status(ctx.command_path),
            "ENVIRONMENT": "" if ctx.parent else _list(ENVIRONMENT),
            "FILES": "" if ctx.command_path.startswith(_NONE_OF_OURS) else _list(FILES),
            "EXAMPLES": verbatim(line.strip() for line in inspect.cleandoc(command.epilog or "").splitlines()[2:]),
            "SEE ALSO": _see(_related(ctx, below, help_text, options)) + _manual(ctx),
        },
    )


def _purpose(ctx: click.Context) -> str:
    return ctx.command.get_short_help_str(1000)


def _synopsis(ctx: click.Context, arguments: list[click.Argument]) -> str:
    words = [bold(ctx.command_path), f"[{italic('OPTIONS')}]"]
    words += [italic("COMMAND"), f"[{italic('ARGUMENTS')}]"] if isinstance(ctx.command, click.Group) else []
    for one in arguments:
        name = italic(_shown(one)) + ("\\|.\\|.\\|." if one.nargs == -1 else "")
        words.append(name if one.required else f"[{name}]")
    return "\n".join(words)


def _shown(argument: click.Argument) -> str:
    return (argument.metavar or argument.name or "").strip("[].").upper()


def _choices(param: click.Parameter) -> str:
    return f"One of {', '.join(param.type.choices)}." if isinstance(param.type, click.Choice) else ""


def _names(option: click.Option) -> str:
    names = ", ".join(map(bold, (*option.opts, *option.secondary_opts)))
    if option.is_flag or option.count:
        return names
    kind = option.type.name if isinstance(option.type, Parsed) else option.name or ""
    return f"{names} {italic(option.metavar or kind.upper())}"


def _meaning(option: click.Option, ctx: click.Context) -> str:
    extra = option.get_help_extra(ctx)
    text = (option.help or "").strip()
    # Where the help itself does not say it.
    repeated = option.multiple and not re.search(r"repeat|every such", text, re.IGNORECASE)
    more = (
        _choices(option),
        "Required." if option.required else "",
        "May be repeated." if repeated else "",
        _range(extra.get("range", "")),
        f"Default: {extra['default']}." if "default" in extra else "",
    )
    return " ".join(word for word in (f"{text}{'' if text.endswith(('.', ':')) else '.'}", *more) if word)


def _range(told: str) -> str:
    """``x>=1`` of click in words."""
    low, _, high = told.partition("<=x<=")
    if high:
        return f"{low} to {high}."
    return told and told.replace("x>=", "At least ").replace("x>", "More than ") + "."


def _global(ctx: click.Context) -> str:
    if ctx.parent is None:
        return ""
    text = "`--config`, `--database` and `--debug` stand before the command, as in `arcacct --debug status`;"
    return f"\n.PP\n{prose(text)}\nsee\n{bold('arcacct')}(1)."


def _exit_status(path: str) -> str:
    own = OWN_STATUS.get(path, {})
    known = own if path == "arcacct status" else {**STATUS, **own}
    return items((bold(str(code)), prose(known[code])) for code in sorted(known))


def _list(terms: dict[str, str]) -> str:
    return items((italic(term), prose(text)) for term, text in terms.items())


def _related(
    ctx: click.Context, below: list[click.Context], help_text: str, options: list[click.Option]
) -> Iterator[tuple[str, int]]:
    """What is above and below, what the page mentions, and what a page of that kind always names."""
    known = _names_of_pages()
    if ctx.parent:
        yield page_of(ctx.parent), 1
    for one in below:
        yield page_of(one), 1
    text = " ".join((help_text, *(option.help or "" for option in options)))
    # `import rejected` in the text is `arcacct import rejected`; the longest that is a command counts.
    for quoted in re.findall(r"`([^`]+)`", text):
        words = ["arcacct", *quoted.removeprefix("arcacct ").split()]
        paths = (" ".join(words[:end]) for end in range(len(words), 1, -1))
        found = next((path for path in paths if path in known), None)
        if found and found != ctx.command_path:
            yield known[found], 1
    yield "arcacct.conf", 5
    if ctx.command_path in ("arcacct", "arcacct sweep", "arcacct doctor"):
        yield "arcacct-hook", 8


@functools.cache
def _names_of_pages() -> dict[str, str]:
    return {ctx.command_path: page_of(ctx) for ctx in contexts()}


def _manual(ctx: click.Context) -> str:
    topic = ctx.command_path.partition(" ")[2]
    asked = f"arcacct help {topic}".strip()
    return f"\n.PP\n{prose(f'The manual: `{asked}`.')}"


def _of_configuration() -> Page:
    """From etc/arcacct.conf.reference, whose form stands at its own beginning."""
    with open(resource("etc", "arcacct.conf.reference"), encoding="ascii") as file:
        head, *parts = re.split(r"\n#{75}\n(?=###)", file.read())
    blocks = "\n".join(_blocks(part) for part in parts)
    about = [line.removeprefix("##").strip() for line in head.splitlines() if not line.startswith("###")]
    about = about[: about.index("How to read this file")]
    described = "\n".join(about).strip().partition("\n\n")[2]
    return _page(
        "arcacct.conf",
        5,
        "the configuration of arcacct, with every option",
        {
            "SYNOPSIS": f"{italic('/etc/arcacct.conf')}",
            "DESCRIPTION": "\n.PP\n".join(prose(part) for part in described.split("\n\n"))
            + "\n.PP\n"
            + prose(
                "`arcacct config check` lists every error with its line, `arcacct config show` prints the settings in "
                "use with their lines."
            ),
            "OPTIONS": blocks.strip(),
            "FILES": _list(
                {name: text for name, text in FILES.items() if name.startswith("/etc")}
                | {"/run/arched-arex.cfg": "The configuration with which A-REX runs."}
            ),
            "ENVIRONMENT": _list({name: text for name, text in ENVIRONMENT.items() if name.endswith("CONFIG")}),
            "SEE ALSO": _see([("arcacct", 1), ("arcacct-config", 1), ("arcacct-doctor", 1), ("arcacct-hook", 8)]),
        },
    )


def _blocks(part: str) -> str:
    """What stands below one ruled heading of the reference: what it is about, and its blocks with their options."""
    title, *about = re.findall(r"^###(?!#) ?(.*)$", part, re.MULTILINE)
    made = [f".SS {escaped(title.strip())}", paragraphs("\n".join(about))]
    for chunk in part.split("\n\n"):
        lines = chunk.strip().splitlines()
        if len(lines) == 1 and (block := re.fullmatch(r"#\[(.+)\]", lines[0])):
            made.append(f".SS [{escaped(block[1])}]")
        elif lines and lines[0].startswith("## "):
            made.append(_option(lines))
    return "\n".join(one for one in made if one) + "\n"


_ATTRIBUTE = re.compile(r"multivalued|mandatory|(default|inherits|allowedvalues): .+")
_SAID = {
    "mandatory": "Mandatory.",
    "multivalued": "May be repeated.",
    "allowedvalues": "One of: {}.",
    "default": "Default: {}.",
    "inherits": "If it is not set here, {} is used before the default.",
}


def _option(lines: list[str]) -> str:
    told = [line.removeprefix("## ") for line in lines if line.startswith("## ")]
    attributes = [
        line for line in told if re.fullmatch(r"multivalued|mandatory|(default|inherits|allowedvalues): .+", line)
    ]
    head, _, text = " ".join(line for line in told if line not in attributes).partition(" - ")
    name, _, value = head.partition(" = ")
    more = []
    for line in attributes:
        word, _, rest = line.partition(": ")
        if word == "inherits":
            rest = " and then ".join(f"[{block}]" for block in rest.split())
        more.append(_SAID[word].format(rest))
    examples = [line.removeprefix("#") for line in lines if line.startswith("#") and not line.startswith("##")]
    shown = "\n".join((".IP", verbatim(examples)))
    return f".TP\n{bold(name)} = {italic(value)}\n{prose(text)}\n{prose(' '.join(more))}\n{shown}"


HOOK = {
    "DESCRIPTION": """
        A-REX starts this program at each change of a job's state and waits for it. The program, the launcher, only
        writes the event into the spool. The recorder (arcacct-recorder.service, which is `arcacct sweep --follow`)
        records it within a second; where no recorder runs, the next `arcacct sweep` records it.

        At FINISHED the launcher opens the job's files, which the client may remove at once, and leaves copying them
        into the event to a process that A-REX does not wait for. In other states it starts no other program.

        It is a shell script outside the Python environment of arcacct, and reads no configuration. The lines
        `statecallout=` of the block [arex] in arc.conf name it; `arcacct doctor` checks them.

        Never remove this program while arc.conf names it: A-REX fails every job whose callout cannot be started,
        whatever onfailure= says. First remove the lines `statecallout=`, restart A-REX, and then remove the program.
        Replace it only by a rename in the same directory (`mv`).

        `arcacct record` records an event by hand, and reports errors.
        """,
    "EXIT STATUS": "Always 0. Errors go to standard error, which A-REX writes to its log. Exception: where /bin/sh is "
    "dash and the limit of open files is below 12, dash itself cannot start, and ends with 2.",
}
"""What arcacct-hook(8) says in sentences."""
HOOK_ARGUMENTS = {
    "CONTROLDIR": "The control directory of A-REX.",
    "JOBID": "The id of the job. (A-REX replaces %C, %I and %S.)",
    "STATE": "ACCEPTED, PREPARING, SUBMIT, INLRMS, CANCELING, FINISHING or FINISHED. DELETED has no effect.",
}
HOOK_VARIABLES = {
    "ARCACCT_SPOOL": "The directory of the spool (`spool=` at the top of the script). "
    "Default: accounting/arcacct/spool below CONTROLDIR.",
    "ARCACCT_SPOOL_FALLBACK": "A directory on another disk, for events that the spool cannot take (`fallback=`): "
    "the same as `spool_fallback=` of arcacct.conf, or no sweep reads it. Default: none.",
}
HOOK_FILES = {
    "/usr/libexec/arcacct-hook": "The program in packages; without a package /usr/local/libexec/arcacct-hook.",
    "<controldir>/accounting/arcacct/spool/": FILES["<controldir>/accounting/arcacct/spool/"],
    "<controldir>/accounting/arcacct/spool/.recorder": "The recorder holds a lock on it.",
}


def _of_hook() -> Page:
    called = bold("arcacct-hook")
    three = " ".join(map(italic, ("CONTROLDIR", "JOBID", "STATE")))
    return _page(
        "arcacct-hook",
        8,
        "leave one state change of a job to the recorder, for A-REX",
        {
            "SYNOPSIS": f"{called} {three}",
            "DESCRIPTION": paragraphs(HOOK["DESCRIPTION"]),
            "ARGUMENTS": _list(HOOK_ARGUMENTS),
            "ENVIRONMENT": _list(HOOK_VARIABLES),
            "EXIT STATUS": prose(HOOK["EXIT STATUS"]),
            "FILES": _list(HOOK_FILES),
            "EXAMPLES": prose("Lines of the block [arex] in arc.conf:") + "\n.PP\n" + verbatim(_callouts()),
            "SEE ALSO": _see([("arcacct-sweep", 1), ("arcacct-doctor", 1), ("arcacct.conf", 5)]),
        },
    )


def _callouts() -> list[str]:
    with open(resource("etc", "arc.conf.statecallout"), encoding="ascii") as file:
        return [line.rstrip() for line in file if line.startswith("statecallout=")]


def codes() -> set[int]:
    """Every exit code of the tree of errors."""
    found, left = set(), [ArcacctError]
    while left:
        one = left.pop()
        found.add(one.exit_code)
        left += one.__subclasses__()
    return found
