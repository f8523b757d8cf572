"""
`arcacct` as a process of its own, forked from one that has imported it already.

The interpreter and its imports take longer than most commands. Each process of pytest starts one server, which has one
thread, and each call is a fork of it: its own environment, directory, descriptors and exit code, as from a shell.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cache

from campaigns import has_campaigns

_HEADER = struct.Struct("!I")
_LEFT_TO_THE_PROGRAM = ("arcacct.__main__", "arcacct.export", "arcacct.fleet", "arcacct.reports")


def may_run(environment: Mapping[str, str]) -> bool:
    """Whether a fork is the same to a test: no campaign, and nothing that the interpreter reads as it starts."""
    return not has_campaigns() and not any(name.startswith(("LANG", "LC_", "PYTHON")) for name in environment)


def run(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], cwd: str | pathlib.Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, without input; ``program`` is what it takes its name from."""
    asked = json.dumps([program, list(arguments), dict(environment), str(cwd or os.getcwd())]).encode()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        closing(_connected()) as server,
    ):
        descriptors = array.array("i", [out.fileno(), err.fileno()])
        server.sendmsg([_HEADER.pack(len(asked))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        server.sendall(asked)
        answer = server.recv(_HEADER.size, socket.MSG_WAITALL)
        if len(answer) < _HEADER.size:
            raise RuntimeError("the server of forked programs has ended")
        status = os.waitstatus_to_exitcode(_HEADER.unpack(answer)[0])
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([program, *arguments], status, out.read(), err.read())


def _connected() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_server())
    return connection


@cache
def _server() -> str:
    """Start the server of this process, which ends with it; the abstract address where it listens."""
    address = f"\0arcacct-tests-{os.getpid()}-{time.monotonic_ns()}"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    # It ends when this pipe does, however this process ends.
    alive, kept = os.pipe()
    server = subprocess.Popen(
        [sys.executable, __file__, str(listening.fileno()), str(alive)],
        pass_fds=(listening.fileno(), alive),
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
    )
    listening.close()
    os.close(alive)

    def end() -> None:
        os.close(kept)
        server.wait()

    atexit.register(end)
    return address


def _serve(listening: socket.socket, alive: int) -> None:
    import gc
    import importlib
    import pkgutil
    import select

    import arcacct
    from arcacct.cli.main import main

    for module in pkgutil.walk_packages(arcacct.__path__, "arcacct."):
        # What they load has threads, or is large.
        if not module.name.startswith(_LEFT_TO_THE_PROGRAM):
            importlib.import_module(module.name)
    gc.freeze()
    sessions: set[int] = set()
    while alive not in select.select([listening, alive], [], [])[0]:
        connection, _ = listening.accept()
        session = os.fork()
        if session == 0:
            listening.close()
            os.close(alive)
            _answer(connection, main)
        connection.close()
        sessions = {one for one in {*sessions, session} if os.waitpid(one, os.WNOHANG)[0] == 0}


def _answer(connection: socket.socket, main) -> None:
    """Fork the program, wait for it, and send its status."""
    child = -1
    try:
        header, ancillary, _flags, _sender = connection.recvmsg(_HEADER.size, socket.CMSG_SPACE(2 * 4))
        out, err = array.array("i", ancillary[0][2])
        asked = connection.recv(_HEADER.unpack(header)[0], socket.MSG_WAITALL)
        child = os.fork()
        if child == 0:
            connection.close()
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.close(out)
            os.close(err)
            program, arguments, environment, cwd = json.loads(asked)
            os.environ.clear()
            os.environ.update(environment)
            time.tzset()
            os.chdir(cwd)
            sys.argv = [program, *arguments]
            main()
        connection.sendall(_HEADER.pack(os.waitpid(child, 0)[1]))
    except SystemExit:
        # The interpreter of the program ends as any does.
        raise
    except BaseException:
        if child:
            os._exit(70)
        raise
    os._exit(0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
