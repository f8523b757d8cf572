"""
Fuzzers, all or some: ``python tests/fuzz [NAME...] [--tries N | --cpu-hours H] [--seed TEXT] [--findings DIR]``.

Each first tries the cases that once broke something (``cases/NAME/``), then makes inputs of its own from a seed: the
same seed makes the same inputs. An input that fails is kept in the directory of findings, as files; ``--case DIR``
tries one such directory again. Exit code 1: something was found.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import secrets
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "support")]

from fuzz.harness import Budget, campaign, names, try_case  # noqa: E402  after the path is set


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names())}; none: all")
    parser.add_argument("--tries", type=int, default=200, help="how many inputs to make, besides the cases (200)")
    parser.add_argument("--cpu-hours", type=float, help="go on for so much CPU time of each fuzzer instead")
    parser.add_argument("--seed", default="0", help="where inputs come from; 'new': other inputs each time (0)")
    parser.add_argument("--findings", default="fuzz-findings", help="where inputs that fail are kept (fuzz-findings)")
    parser.add_argument("--case", metavar="DIR", help="try only this input, in this process")
    args = parser.parse_args()
    if args.case is not None:
        (name,) = args.names
        try_case(name, pathlib.Path(args.case))
        return 0
    seed = secrets.token_hex(4) if args.seed == "new" else args.seed
    budget = Budget(args.tries, None) if args.cpu_hours is None else Budget(None, args.cpu_hours * 3600)
    failed = False
    for name in args.names or names():
        told = campaign(name, seed, budget, pathlib.Path(args.findings))
        print(told.line(), flush=True)
        failed = failed or bool(told.findings)
    return int(failed)


if __name__ == "__main__":
    # As a program that is piped into `head` would: no traceback of ours is of interest there.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    os.environ.setdefault("TZ", "UTC")
    sys.exit(main())
