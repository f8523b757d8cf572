"""What is wrong with a configuration: one value for each complaint, so that all can be shown at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """
    One complaint.

    ``text`` says what is wrong and, after a semicolon, what would be right.
    An error stops publishing (exit code 78); a warning is something the administrator should know.
    """

    severity: str
    file: str
    line: int | None
    block: str | None
    option: str | None
    text: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        severity = ["warning:"] if self.severity == WARNING else []
        block = [f"[{self.block}]"] if self.block is not None else []
        subject = " ".join([*block, *([self.option] if self.option is not None else [])])
        return " ".join([f"{where}:", *severity, *([f"{subject}:"] if subject else []), self.text])


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that stop publishing."""
    return [problem for problem in problems if problem.severity == ERROR]


def in_order(problems: Iterable[Problem], files: list[str]) -> list[Problem]:
    """Each complaint once, by file as they were read, then by line."""
    places = {file: number for number, file in enumerate(files)}
    return sorted(dict.fromkeys(problems), key=lambda found: (places.get(found.file, len(places)), found.line or 0))
