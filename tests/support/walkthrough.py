"""
A page of the manual as somebody follows it: every block of commands, in order, in one shell, from a new directory.

A block of the language ``text`` right after one of ``sh`` is what these commands print, stderr included. A line ``...``
there stands for any lines, ``...`` at the end of a line for the rest of it. Every command has to end with 0; where the
manual shows another exit code, the block prints it (``|| echo "exit code $?"``). The days of the page are those of the
walk. What differs from walk to walk (the time of day of today, ports, sizes, the directory) is the same for both.
Places of the host, as /srv/..., lie below the directory.
"""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sysconfig
import time
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

DAY_S = 86_400
PAGE_DAY = date(2026, 11, 24)
"""The day on which the pages were written: what they show of it, and of the days before, is shifted to today's."""
HOME = "/home/you"
"""The directory in which the pages work."""
LONGEST_S = 300
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PLACES = re.compile(r"(?<![\w.])/(?=(?:etc|opt|srv|usr/local|var/backups|var/lib)/)")
_MASKS = (
    (r"TODAYT\d\d:\d\d:\d\dZ", "TODAYTnow"),
    (r"TODAY \d\d:\d\d:\d\d", "TODAY now"),
    (r"TODAY(?=T?\d{6}Z)T?\d{6}Z", "TODAYTnow"),
    (r"\(\d+ (s|min|h) ago\)", "(ago)"),
    (r"(localhost:|port )\d+", r"\1PORT"),
    (r"[\d,]+ bytes|\d+(\.\d+)? [KMG]iB", "SIZE"),
    (r"schema \d+", "schema N"),
    # Targets are served side by side, so whose message is the first is chance.
    (r"message \d+ \(", "message N ("),
)


class Step(NamedTuple):
    """Commands of a page, and the outputs that it shows of them."""

    commands: str
    shown: list[str]


def steps(page: str) -> list[Step]:
    """The blocks ``sh`` of a page, each with the blocks ``text`` behind it; ValueError at one without commands."""
    found: list[Step] = []
    before = ""
    for language, text in _FENCE.findall(page):
        if language == "sh":
            found.append(Step(text, []))
        elif language == "text":
            if before != "sh" or not text.strip(".\n"):
                raise ValueError(f"an output without commands, or that says nothing:\n{text}")
            found[-1].shown.append(text)
        before = language
    return found


def walk(page: str, home: pathlib.Path, prepare: str = "") -> list[str]:
    """What each step of a page prints, after the commands that prepare; AssertionError at the first that fails."""
    for place in ("srv", "var/backups", "var/lib"):
        (home / place).mkdir(parents=True)
    script = home.parent / f"{home.name}.sh"
    parts = ["set -eo pipefail", "exec 2>&1", prepare]
    for number, step in enumerate(steps(page)):
        parts += [f"echo '@@ {number} @@'", _PLACES.sub(f"{home}/", step.commands)]
    script.write_text("\n".join([*parts, "echo '@@ end @@'", ""]), encoding="utf-8")
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ARC", "PYTHON"))}
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", str(script)], cwd=home, env={**kept, "PATH": path, "HOME": str(home)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as shell:  # fmt: skip
        try:
            printed, _ = shell.communicate(timeout=LONGEST_S)
        finally:
            # What the page started and did not end.
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    outputs = re.split(r"(?m)^@@ (?:\d+|end) @@\n", printed)[1:]
    done = len(steps(page)) + 1
    assert (shell.returncode, len(outputs)) == (0, done), (
        f"step {len(outputs)} of {done - 1} failed:\n{printed[-3000:]}"
    )
    return outputs[:-1]


def differences(page: str, outputs: list[str], home: pathlib.Path, today: date) -> list[str]:
    """Of each step whose output is not what the page shows: the commands, and both."""
    found = []
    for step, printed in zip(steps(page), outputs, strict=True):
        for shown in step.shown:
            actual = masked(printed.replace(str(home), HOME), today)
            if not fits(masked(shown, PAGE_DAY), actual):
                found.append(f"$ {step.commands}--- the page shows\n{shown}--- but it is\n{printed}")
    return found


def masked(text: str, today: date) -> str:
    """A text without what differs from walk to walk; days, and seconds since 1970, are counted from ``today``."""
    yesterday = today - timedelta(days=1)
    for day, name in ((today, "TODAY"), (yesterday, "YESTERDAY")):
        text = text.replace(day.isoformat(), name).replace(day.strftime("%Y%m%d"), name)
    text = re.sub(rf"{yesterday:%Y-%m}(?!-?\d)", "MONTH", text)
    midnight_s = (yesterday - date(1970, 1, 1)).days * DAY_S
    text = re.sub(r"(?<!\d)1[7-9]\d{8}(?!\d)", lambda found: f"YESTERDAY{int(found[0]) - midnight_s:+}s", text)
    for pattern, mask in _MASKS:
        text = re.sub(pattern, mask, text)
    return text


def fits(shown: str, printed: str) -> bool:
    """Whether an output is the one that is shown; both are masked."""
    pattern = ""
    for line in shown.splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*?"
        elif line.endswith("..."):
            pattern += re.escape(line.removesuffix("...")) + r".*\n"
        else:
            pattern += re.escape(line.rstrip()) + r" *\n"
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


def today_utc() -> date:
    """The day, in UTC."""
    return datetime.fromtimestamp(time.time(), UTC).date()
