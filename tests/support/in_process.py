"""The command line, run in this process: where it matters what a command says, and not how the program starts."""

from __future__ import annotations

import subprocess

import pytest

from arcacct import wording
from arcacct.cli.main import main


def said(capture: pytest.CaptureFixture[str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run it as a program of its own would: it keeps no secret that an earlier run was told."""
    wording._secrets = wording.Secrets()
    capture.readouterr()
    command = [str(argument) for argument in arguments]
    with pytest.raises(SystemExit) as ended:
        main(command)
    out, err = capture.readouterr()
    assert "Traceback" not in err
    return subprocess.CompletedProcess(command, int(ended.value.code or 0), out, err)


def answer(capture: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code, standard output and standard error."""
    done = said(capture, *arguments)
    return done.returncode, done.stdout, done.stderr
