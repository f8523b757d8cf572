"""Commands of the program inside of the fuzzer's process: thousands a minute, and every one must end in good order."""

from __future__ import annotations

import contextlib
import gc
import io
from types import SimpleNamespace
from typing import NamedTuple

from arcacct.cli.main import arcacct as group
from arcacct.cli.main import main
from arcacct.database import access

INTERNAL = 70
_THRESHOLD = gc.get_threshold()


# Connections that a command leaves open for its end would be open for as long as this process continues.
access.ctypes = SimpleNamespace(  # type: ignore[assignment]
    pythonapi=SimpleNamespace(Py_IncRef=lambda _: None), py_object=lambda con: con
)


class Ended(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


def arcacct(*args: str, allowed: tuple[int, ...] = (0, 64, 65, 69, 74, 75, 77, 78)) -> Ended:
    """
    Run ``arcacct ARGS``; streams are strict UTF-8, as on a terminal.

    Raises AssertionError for any other exit code than those allowed, 70 above all, and for a traceback.
    """
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", newline="")
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(args))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    # Publishing sets what there is aside from the search for garbage: once in a process that ends, not in this one.
    gc.unfreeze()
    gc.set_threshold(*_THRESHOLD)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    told = Ended(code, *texts)
    if code == INTERNAL and code not in allowed:
        # Once more, to see where it comes from.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            group.main(list(args), prog_name="arcacct", standalone_mode=False)
    assert code in allowed, f"arcacct {' '.join(args)}: exit code {code}\n{told.err[-2000:]}"
    assert "Traceback" not in told.err, told.err[-4000:]
    assert "internal error" not in told.err, told.err[-2000:]
    return told


def steers(text: str) -> bool:
    """Whether a text has characters that steer a terminal, or that no one can see."""
    return any(not (letter.isprintable() or letter in "\n\t") for letter in text)
