"""
All benchmarks, or one by name: ``python tests/bench [NAME...] [--size smoke|small|large] [--json FILE]``.

Each prints our figure and the peer's, measured in turns in one run. Nothing here asserts anything. ``--keep`` keeps
what was measured next to the benchmarks; `tests/test_reference_pages.py` writes it into the manual.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import measured  # noqa: E402  after the path is set
from figures import Figure, as_json, as_rows, table  # noqa: E402


def names() -> list[str]:
    """The benchmarks: every ``bench_NAME.py`` here."""
    return sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tests/bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names())}; none: all")
    parser.add_argument("--size", choices=["smoke", "small", "large"], default="small", help="how many jobs")
    parser.add_argument("--json", metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--keep", action="store_true", help="keep the figures for the manual")
    args = parser.parse_args()
    figures: list[Figure] = []
    for name in args.names or names():
        found = importlib.import_module(f"bench_{name}").bench(args.size)
        print(table(found), flush=True)
        figures += found
        if args.keep:
            measured.keep(name, args.size, as_rows(found))
    if args.json:
        pathlib.Path(args.json).write_text(as_json(figures))


if __name__ == "__main__":
    main()
