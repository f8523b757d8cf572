"""Problems beyond single values: misspellings, wrong blocks, two publishers, callouts without our launcher."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from arcacct import entry_points
from arcacct.config import options, paths
from arcacct.config.options import ERROR, WARNING, Kinds, Problem, Spec
from arcacct.config.parser import ARC_CONF, OUR_CONF, Block, Conf, Option, is_run_time
from arcacct.config.values import benchmark_advice

# Problems beyond single values: misspellings, wrong blocks, two publishers at once.


ARCHIVING = "arex/jura/archiving"
LIKE = 0.75
"""The similarity of a misspelt name to the right one; 0.75 allows a wrong letter or two in a usual option."""


def review(conf: Conf, kinds: Kinds, *, allow_jura: bool) -> list[Problem]:
    """Return all findings that do not depend on the meaning of a value."""
    problems = [
        # A-REX ignores such lines of arc.conf, and so do we; our own file must be right.
        Problem(ERROR if found.file == conf.our_conf else WARNING, found.file, found.line, None, None, found.text)
        for found in conf.complaints
        if found.file not in conf.without_blocks
    ]
    for file in conf.without_blocks:
        what = f"is not an {OUR_CONF}" if file == conf.our_conf else "is not a configuration file of ARC"
        text = f"{what}: it has no [block] line; give the path of the right file, or start it with [common]"
        problems.append(Problem(ERROR, file, None, None, None, text))
    if conf.arc_files and conf.arc_files[0] != conf.arc_conf:
        text = (
            "no such file, and A-REX does not start without it; create it, at least with a comment "
            f"(arcacct reads {conf.arc_conf}.d without it)"
        )
        problems.append(Problem(WARNING, conf.arc_conf, None, None, None, text))
    problems += _two_publishers(conf, kinds, allow_jura=allow_jura)
    for block in conf.blocks.values():
        problems += _block(conf, block, kinds)
        problems += _vomsless(conf, block)
        problems += _without_effect(conf, block, options.options_of(kinds))
    # Lines of arc.conf for the VO of jobs that arcacct does not see, since arcacct.conf has the block without them.
    for block in conf.replaced:
        ours = conf.blocks[block.name]
        for line in block.options.get("vomsless_vo", ()) if "vomsless_vo" not in ours.options else ():
            text = f"applies only to A-REX: [{ours.name}] in {ours.file} replaces this block; repeat the line there"
            problems.append(_option(block, line, "vomsless_vo", WARNING, text))
    return problems


def jura_targets(conf: Conf, kinds: Kinds) -> list[Block]:
    """The targets that A-REX's jura-ng publishes to: those in arc.conf and arc.conf.d."""
    return [block for block in _arcs(conf) if block.kind in kinds and kinds[block.kind].is_arcs]


def _arcs(conf: Conf) -> list[Block]:
    return [block for block in [*conf.replaced, *conf.blocks.values()] if block.file in conf.arc_files]


def _two_publishers(conf: Conf, kinds: Kinds, *, allow_jura: bool) -> Iterator[Problem]:
    if allow_jura:
        return
    targets = jura_targets(conf, kinds)
    for block in targets:
        there = conf.blocks[block.name].file == conf.our_conf
        what = f"is also in {conf.our_conf}: A-REX's jura-ng" if there else "is a target of A-REX's jura-ng, which"
        text = f"{what} would publish in addition to arcacct; {_moving(conf)}, or set allow_jura=yes"
        # In each file with a part of it: at the block's line, in further files at the line of its first option.
        first = {block.file: block.line}
        for line in sorted((line for lines in block.options.values() for line in lines), key=lambda line: line.line):
            first.setdefault(line.file, line.line)
        for file, number in first.items():
            yield Problem(ERROR, file, number, block.name, None, text)
    for block in _arcs(conf):
        # A-REX 7 reads vomsless_vo there for its own database. So that block must stay; jura-ng finds nothing to do.
        if block.kind == "arex/jura" and not targets and "vomsless_vo" not in block.options:
            text = f"makes A-REX start jura-ng, which has no target; {_moving(conf)}"
            yield Problem(WARNING, block.file, block.line, block.name, None, text)


def _moving(conf: Conf) -> str:
    run_time = is_run_time(conf.arc_conf)
    return f"move [arex/jura] and all its targets from {ARC_CONF if run_time else 'here'} to {conf.our_conf} " + (
        "and restart A-REX" if run_time else "and restart A-REX, if it runs"
    )


def _block(conf: Conf, block: Block, kinds: Kinds) -> Iterator[Problem]:
    # [custom:arcacct] is another name of [arcacct].
    kind, specs = "arcacct" if block.name == "custom:arcacct" else block.kind, options.options_of(kinds)
    yield from _contradictions(block, specs.get(kind, ()))
    is_ours = block.kind == "arcacct" or (block.kind in kinds and not kinds[block.kind].is_arcs)
    ours = block.file == conf.our_conf or is_ours or kind == "arcacct"
    if kind == ARCHIVING:
        yield _about(block, WARNING, "is obsolete since ARC 6.8; remove it, arcacct keeps every record in its database")
    elif kind in ("lrms", "queue"):
        for line in block.options.get("benchmark", ()):
            advice = benchmark_advice(line.value)
            if advice:
                yield _option(block, line, "benchmark", WARNING, advice)
    elif kind in kinds or kind == "arcacct" or (kind == "arex/jura" and ours):
        yield from _options(block, kind, kinds, strict=ours and kind != "arex/jura")
    elif kind in entry_points.PARTS["arcacct.targets"]:
        yield _about(block, ERROR, entry_points.NOT_INSTALLED)
    elif ours and kind not in options.ARC_BLOCKS:
        known = [*specs, *options.ARC_BLOCKS]
        yield _about(block, ERROR, f"is not a block of {OUR_CONF}; {_instead(kind, known, 'remove it')}")
    if block.file in conf.arc_files and is_ours:
        other = ", or rename it [custom:arcacct]" if block.kind == "arcacct" else ""
        yield _about(
            block, ERROR, f"is not a block of arc.conf and A-REX rejects it; move it to {conf.our_conf}{other}"
        )
    if block.name == "custom:arcacct" and conf.blocks["arcacct"] is not block:
        yield _about(block, WARNING, f"is ignored: {conf.blocks['arcacct'].file} has [arcacct]")


def _contradictions(block: Block, specs: Iterable[Spec]) -> Iterator[Problem]:
    """Options that have one value, and another one in another file."""
    for spec in specs:
        lines = [line for line in block.options.get(spec.name, ()) if line.value and not spec.repeated]
        for other in lines[:-1]:
            if other.file != lines[-1].file and other.value != lines[-1].value:
                text = f"is used, but {other.file}:{other.line} has another value; keep one of them"
                yield _option(block, lines[-1], spec.name, WARNING, text)


def _without_effect(conf: Conf, block: Block, specs: Mapping[str, Iterable[Spec]]) -> Iterator[Problem]:
    """Find options without effect: the option that they need is set neither here nor in a block that inherits them."""
    for needing in specs.get(block.kind, ()):
        lines = [line for line in block.options.get(needing.name, ()) if line.value]
        if not needing.needs or not lines:
            continue
        needed = [
            found
            for one in conf.blocks.values()
            for spec in specs.get(one.kind, ())
            if spec.name == needing.name and (one is block or block.name in spec.inherits)
            for found in options.find(conf, one.name, options.named(specs[one.kind], spec.needs)).texts
        ]
        if not needed:
            text = f"has no effect without {needing.needs}; set {needing.needs}, too, or remove this line"
            yield _option(block, lines[-1], needing.name, WARNING, text)


def _vomsless(conf: Conf, block: Block) -> Iterator[Problem]:
    """Lines that no job can meet: for an authgroup that there is not or was named before; those replaced later."""
    authgroups = [one.label for one in conf.blocks.values() if one.kind == "authgroup" and one.label]
    known: dict[str | None, Option] = {}
    for line in block.options.get("vomsless_vo", ()):
        try:
            authgroup = paths.vomsless_vo(line.value).authgroup
        except ValueError:
            continue
        earlier = known.get(authgroup)
        known[authgroup] = line
        if earlier is not None and authgroup is None:
            there = f"line {earlier.line}" if earlier.file == line.file else f"{earlier.file}:{earlier.line}"
            text = f"replaces {there}: of several lines for all jobs only the last counts; remove the others"
            yield _option(block, line, "vomsless_vo", WARNING, text)
        elif earlier is not None:
            text = f"is never used: of several lines for authgroup {authgroup!r} only the first counts; remove this one"
            yield _option(block, line, "vomsless_vo", WARNING, text)
        elif authgroup is not None and authgroups and authgroup not in authgroups:
            right = _instead(authgroup, authgroups, "is it right?")
            text = f"names authgroup {authgroup!r}, which does not exist; {right}"
            yield _option(block, line, "vomsless_vo", WARNING, text)


def _options(block: Block, kind: str, kinds: Kinds, *, strict: bool) -> Iterator[Problem]:
    specs = {spec.name: spec for spec in options.options_of(kinds)[kind]}
    obsolete = kinds[kind].obsolete if kind in kinds else options.OBSOLETE.get(kind, ())
    for name, lines in block.options.items():
        if name in specs:
            yield from _lines(block, specs[name], lines)
        elif name in obsolete:
            since = "arcacct 0.3" if kind == "arcacct" else "ARC 6.8"
            yield _option(block, lines[-1], name, WARNING, f"is obsolete since {since} and ignored; remove it")
        elif name not in options.ARC_ONLY.get(kind, ()):
            yield from _unknown(block, kind, name, lines[-1], kinds, strict=strict)


def _lines(block: Block, spec: Spec, lines: list[Option]) -> Iterator[Problem]:
    if len({line.file for line in lines}) < len(lines) and not spec.repeated:
        text = f"is set {len(lines)} times; only this line counts; remove the others"
        yield _option(block, lines[-1], spec.name, WARNING, text)
    for line in lines:
        if not line.value:
            yield _option(block, line, spec.name, WARNING, "has no value, so it is not set; remove it")
        elif len(line.value) > 1 and line.value[0] == line.value[-1] and line.value[0] in "'\"":
            yield _option(block, line, spec.name, ERROR, "has quotes, which would be part of the value; remove them")
        elif spec.advice is not None and (advice := spec.advice(line.value)):
            yield _option(block, line, spec.name, WARNING, advice)


def _unknown(block: Block, kind: str, name: str, line: Option, kinds: Kinds, *, strict: bool) -> Iterator[Problem]:
    names = {block: [spec.name for spec in specs] for block, specs in options.options_of(kinds).items()}
    known = names[kind]
    homes = [f"[{other}]" for other in ("arcacct", *kinds) if name in names[other]]
    if not strict:
        if _like(name, known):
            yield _option(block, line, name, WARNING, f"is not an option of [{kind}]; {_instead(name, known, '')}")
    elif homes:
        yield _option(block, line, name, ERROR, f"is not an option of [{kind}]; it belongs in {' or '.join(homes)}")
    else:
        yield _option(block, line, name, ERROR, f"is not an option of [{kind}]; {_instead(name, known, 'remove it')}")


def _instead(name: str, known: Iterable[str], otherwise: str) -> str:
    like = _like(name, known)
    return f"did you mean {like}?" if like else otherwise


def _like(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415  most configurations have every option right

    return next(iter(get_close_matches(name.lower(), list(known), 1, LIKE)), None)


def _about(block: Block, severity: str, text: str) -> Problem:
    return Problem(severity, block.file, block.line, block.name, None, text)


def _option(block: Block, line: Option, name: str, severity: str, text: str) -> Problem:
    return Problem(severity, line.file, line.line, block.name, name, text)


# A-REX's lines that call our launcher at each change of a job's state, and what is wrong with them.


STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")
"""The states that change a record and have a callout in every A-REX since 6."""
NEW_STATES = ("INLRMS",)
"""Those that have one since A-REX 7; A-REX 6 does not start with a callout for one of them."""
_FILE = "etc/arc.conf.statecallout"
_LINE = "write timeout=10,onsuccess=pass,onfailure=log,ontimeout=log"


class Callout(NamedTuple):
    """One ``statecallout`` line: ``STATE OPTIONS PROGRAM ARGUMENTS``."""

    line: Option
    state: str
    options: str
    """As in the file; empty: no options, and A-REX does not start with such a line."""
    program: str
    arguments: tuple[str, ...]

    def option(self, name: str, default: str) -> str:
        """The value of an option; a bare number is the timeout."""
        pairs = (word.partition("=") for word in self.options.lower().split(","))
        return {key if equals else "timeout": value if equals else key for key, equals, value in pairs}.get(
            name, default
        )


def misplaced_callouts(conf: Conf) -> Iterator[Problem]:
    """Lines that call our launcher from outside [arex] of A-REX's files: A-REX reads none of them."""
    for block in (*conf.replaced, *conf.blocks.values()):
        for line in block.options.get("statecallout", ()):
            if paths.HOOK in line.value and (block.name != "arex" or line.file not in conf.arc_files):
                text = f"A-REX does not read it here; move it to [arex] of {conf.arc_conf}"
                yield _option(block, line, "statecallout", ERROR, text)


def callouts(conf: Conf) -> list[Callout]:
    """Our lines, in the order of the files."""
    return [one for one in all_callouts(conf) if paths.HOOK in one.program]


def all_callouts(conf: Conf) -> list[Callout]:
    """Every ``statecallout`` line, in the order of the files."""
    block = conf.blocks.get("arex")
    found = []
    for line in block.options.get("statecallout", ()) if block is not None else ():
        state, *words = line.value.split() or [""]
        # A path in the place of the options: A-REX takes it for them.
        given = "" if words[:1] and words[0].startswith("/") else " ".join(words[:1])
        program, *arguments = words[1 if given else 0 :] or [""]
        found.append(Callout(line, state, given, program, tuple(arguments)))
    return found


class Release(NamedTuple):
    """The release of A-REX that the next start of this host runs."""

    major: int
    """6 or 7; 0: unknown."""
    source: str = ""
    """The source of this answer, for people."""

    @property
    def states(self) -> tuple[str, ...]:
        """The states that change a record and have a callout, in the order of a job's life."""
        if self.major < 7:
            return STATES
        at = STATES.index("FINISHING")
        return (*STATES[:at], *NEW_STATES, *STATES[at:])


def release(conf: Conf) -> Release:
    """
    Ask the installed A-REX for its release; without it, use the database that A-REX created at its last start.

    An upgraded package runs from the next start on, so its program is asked first. On a host with neither, the
    directory arc.conf.d shows the release: the packages of ARC 7 create it. The program is below ARC_LOCATION, or /usr,
    as for A-REX's own start.
    """
    import subprocess  # noqa: PLC0415  slow to import, of every publish

    program = os.path.join(os.environ.get("ARC_LOCATION") or "/usr", "sbin", "arched")
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        found = None
    else:
        found = re.search(r" version (\d+)(\.\d+)*", done.stdout)
    if found is not None:
        return Release(int(found[1]), f"{program} is{found[0]}")
    accounting = os.path.join(conf.get("arex", "controldir") or paths.CONTROLDIR, "accounting")
    for major, name in ((7, "accounting_v2.db"), (6, "accounting.db")):
        if os.path.exists(path := os.path.join(accounting, name)):
            return Release(major, f"by its database {path}")
    return Release(7, f"by {conf.arc_conf}.d") if os.path.isdir(f"{conf.arc_conf}.d") else Release(0)


class Wrong(NamedTuple):
    """A problem of the lines, at one of them."""

    line: Option
    is_error: bool
    """Whether A-REX does not start with it, or records nothing with it."""
    text: str
    """The problem, and after a semicolon the solution."""


def wrong_callouts(conf: Conf, arex: Release) -> Iterator[Wrong]:
    """Return harmful lines, states without a line and states with two; nothing if no line is ours."""
    found = callouts(conf)
    for one in all_callouts(conf):
        yield from _of_line(one, arex)
    often = Counter(one.state for one in found)
    lacking = [state for state in arex.states if state not in often]
    if found and lacking:
        text = f"missing for {', '.join(lacking)}: only a sweep sees these states; add their lines from {_FILE}"
        yield Wrong(found[-1].line, False, text)
    for one in found:
        earlier = next(other for other in found if other.state == one.state)
        if earlier is not one:
            text = f"is the second for {one.state}: A-REX waits for both, without any benefit; keep one of them"
            yield Wrong(one.line, False, text)


def _of_line(one: Callout, arex: Release) -> Iterator[Wrong]:
    if one.state not in (*STATES, *NEW_STATES, "DELETED"):
        text = f"{one.state} is not a state with callouts, and A-REX does not start with it; write one as in {_FILE}"
        yield Wrong(one.line, True, text)
    elif one.state in NEW_STATES and arex.major == 6:
        text = f"{one.state} has no callout in A-REX 6 ({arex.source}), which does not start with it; remove this line"
        yield Wrong(one.line, True, text)
    if not one.options:
        text = f"has no options between state and program, and A-REX does not start with it; {_LINE}"
        yield Wrong(one.line, True, text)
        return
    if not one.program:
        yield Wrong(one.line, True, f"names no program, and A-REX does not start with it; write one as in {_FILE}")
    if paths.HOOK not in one.program:
        return
    wrong = _wrong(one)
    if wrong:
        yield Wrong(one.line, False, f"{wrong}; {_LINE}")
    if [word for word in one.arguments if word != "spool-only"][:3] != ["%C", "%I", "%S"]:
        text = f"lacks the arguments of {one.program}; end it with %C %I %S, in this order"
        yield Wrong(one.line, True, text)


def _wrong(callout: Callout) -> str | None:
    # A-REX fails the job when our callout fails or hangs, unless its line says otherwise.
    if "fail" in (callout.option("onfailure", "fail"), callout.option("ontimeout", "fail")):
        return "would fail the user's job if accounting fails"
    if not callout.option("timeout", "0").strip("0"):
        return "has no timeout and could delay every job"
    return None
