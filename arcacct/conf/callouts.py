"""A-REX's lines that call our launcher at each change of a job's state, and what is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from arcacct.conf import places
from arcacct.conf.parser import Conf, Option

STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")
"""The states that change a record and have a callout in every A-REX since 6."""
NEW_STATES = ("INLRMS",)
"""Those that have one since A-REX 7; A-REX 6 does not start with a line for one of them."""
_FILE = "etc/arc.conf.statecallout"
_LINE = "write timeout=10,onsuccess=pass,onfailure=log,ontimeout=log"


class Callout(NamedTuple):
    """One ``statecallout`` line that is ours: ``STATE OPTIONS PROGRAM ARGUMENTS``."""

    line: Option
    state: str
    options: str
    """As they stand there; empty: none, and A-REX does not start with such a line."""
    program: str
    arguments: tuple[str, ...]

    def option(self, name: str, default: str) -> str:
        """The value of an option; a bare number is the timeout."""
        pairs = (word.partition("=") for word in self.options.lower().split(","))
        return {key if equals else "timeout": value if equals else key for key, equals, value in pairs}.get(
            name, default
        )


def callouts(conf: Conf) -> list[Callout]:
    """Our lines, in the order of the files."""
    block = conf.blocks.get("arex")
    found = []
    for line in block.options.get("statecallout", ()) if block is not None else ():
        state, *words = line.value.split() or [""]
        # A path in the place of the options: A-REX takes it for them.
        options = "" if words[:1] and words[0].startswith("/") else " ".join(words[:1])
        program, *arguments = words[1 if options else 0 :] or [""]
        if places.HOOK in program:
            found.append(Callout(line, state, options, program, tuple(arguments)))
    return found


class Wrong(NamedTuple):
    """What is wrong with the lines, told at one of them."""

    line: Option
    is_error: bool
    """Whether A-REX does not start with it, or nothing is recorded by it."""
    text: str
    """What is wrong, and after a semicolon what would be right."""


def wrong_callouts(conf: Conf) -> Iterator[Wrong]:
    """Lines that harm, states without a line and states with two; nothing where there is no line of ours at all."""
    deadline = conf.get("arcacct", "deadline") or str(places.DEADLINE_S)
    found = callouts(conf)
    for one in found:
        yield from _of_line(one, deadline)
    often = Counter(one.state for one in found)
    lacking = [state for state in STATES if state not in often]
    if found and lacking:
        text = (
            f"there is none for {', '.join(lacking)}: only a sweep tells of these states; add their lines from {_FILE}"
        )
        yield Wrong(found[-1].line, False, text)
    for one in found:
        earlier = next(other for other in found if other.state == one.state)
        if earlier is not one:
            text = (
                f"is the second for {one.state}: A-REX waits for both, and nothing more is recorded; keep one of them"
            )
            yield Wrong(one.line, False, text)


def _of_line(one: Callout, deadline: str) -> Iterator[Wrong]:
    if one.state not in (*STATES, *NEW_STATES, "DELETED"):
        text = f"{one.state} is no state that has a callout, and A-REX does not start with it; write one as in {_FILE}"
        yield Wrong(one.line, True, text)
    if not one.options:
        text = f"has no options between state and program, and A-REX does not start with it; {_LINE}"
        yield Wrong(one.line, True, text)
        return
    wrong = _wrong(one, deadline)
    if wrong:
        yield Wrong(one.line, False, f"{wrong}; {_LINE}")
    if [word for word in one.arguments if word != "spool-only"][:3] != ["%C", "%I", "%S"]:
        text = f"does not tell {one.program} what happened; end it with %C %I %S, in this order"
        yield Wrong(one.line, True, text)


def _wrong(callout: Callout, deadline: str) -> str | None:
    # A-REX fails the job when a callout of ours fails or hangs, unless its line says otherwise.
    if "fail" in (callout.option("onfailure", "fail"), callout.option("ontimeout", "fail")):
        return "would fail the user's job if accounting fails"
    timeout = callout.option("timeout", "0")
    if not timeout.strip("0"):
        return "has no timeout and could hold up every job"
    try:
        early = float(timeout) <= float(deadline)
    except ValueError:
        return None  # a deadline that is no number is complained about where it stands; a timeout is A-REX's business
    return f"ends the hook before its own deadline of {deadline} s, at which it would spool" if early else None
