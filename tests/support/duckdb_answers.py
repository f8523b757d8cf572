"""
What DuckDB answers: `duckdb_answers.py SCRIPT PRINTED` runs the manual's Python, then the questions on stdin.

In a process of its own: DuckDB's sqlite extension comes as a wheel of one version of DuckDB, which need not be that of
the Python that runs the tests. A question is JSON ``[name, statement]``, the answers are JSON: of each types and rows.
"""

from __future__ import annotations

import json
import pathlib
import sys


def main() -> None:
    """Run it."""
    names: dict = {}
    with open(sys.argv[2], "w", encoding="utf-8") as printed:
        names["print"] = lambda *values: print(*values, file=printed)
        exec(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), names)
    answers = {}
    for name, statement in json.load(sys.stdin):
        asked = names["con"].execute(statement)
        answers[name] = [[str(column[1]) for column in asked.description], asked.fetchall()]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
