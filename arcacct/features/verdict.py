"""Verdicts on features."""

from __future__ import annotations

from typing import NamedTuple

Judgement = tuple[str, str]
"""Verdict and reason."""

RULES = {
    1: "names are lower-case letters, digits and _",
    2: "whole numbers are digits alone",
    3: "ratings are numbers above 0",
    4: "processors are at least 1",
    5: "job_id is one printable word",
    6: "jobstart_secs is a time since the boot",
    7: "wall_limit_secs is not scaled by processors",
    8: "cpu_limit_secs is of all processes together",
    9: "sizes are in bytes",
    10: "hs06_job is the job's share of hs06",
    11: "the job's shutdown is not after the machine's",
    12: "a shutdown comes with grace_secs",
    13: "a shutdown is announced grace_secs before",
    14: "every key is there before the job starts",
    15: "static keys stay as they are",
    16: "no shutdown is no file",
    17: "a shutdown is taken back at once",
    18: "no reader sees half of a value",
    19: "the directory goes after the job, and nothing else",
    20: "two jobs have two directories",
    21: "variables have no slash at their end",
    22: "variables are paths or http(s) URLs",
    23: "one of the variables is enough",
    24: "a cloud's metadata are read once",
    25: "jobs can read and not write",
    26: "no links",
    27: "a served key is plain text, a missing one 404 with nothing",
    28: "a server says how long a value holds",
    29: "HEAD is as GET, and no other file is served",
    30: "TLS is verified, no other host is followed to",
    31: "a server answers within 5 s",
    32: "every value can be read",
    33: "the time that is left is never negative",
    34: "unknown keys are kept",
    35: "no keys of the old draft",
}


class Verdict(NamedTuple):
    """What holds of one rule."""

    rule: int
    verdict: str
    """``ok``, ``fail``, ``warn`` or ``unseen``."""
    reason: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.rule:2d} {self.verdict:6} {RULES[self.rule]}{': ' + self.reason if self.reason else ''}"


def ok(reason: str = "") -> Judgement:
    """As it should be."""
    return "ok", reason


def fail(reason: str) -> Judgement:
    """Against the rule."""
    return "fail", reason


def warn(reason: str) -> Judgement:
    """Most likely against it."""
    return "warn", reason


def unseen(reason: str) -> Judgement:
    """Not to be judged from here."""
    return "unseen", reason


def of_problems(problems: list[str]) -> Judgement:
    """``ok``, or all that is wrong."""
    return fail("; ".join(problems)) if problems else ok()
