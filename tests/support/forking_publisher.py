"""
Starts `arcacct publish` again and again, each time as a process of its own that can be killed.

The processes are forked from this one, which has imported what the command needs: 200 interpreters would take minutes
to start. A line on stdin starts one, whose number comes on stdout; the next line asks how it ended. Until then its
number is no one else's.
"""

from __future__ import annotations

import os
import sys

import arcacct.cli.publish
from arcacct.cli.main import main


def _run(arguments: list[str]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    try:
        main(arguments)
    except SystemExit as ended:
        os._exit(int(ended.code or 0))
    finally:
        os._exit(70)


if __name__ == "__main__":
    assert arcacct.cli.publish.publish
    while sys.stdin.readline():
        child = os.fork()
        if child == 0:
            _run(sys.argv[1:])
        print(child, flush=True)
        sys.stdin.readline()
        print(os.waitpid(child, 0)[1], flush=True)
