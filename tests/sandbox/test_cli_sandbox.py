from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-c", "from arcacct.cli import main; main()", "sandbox"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_until_it_is_told_to_stop(tmp_path, end):
    """The command prints the blocks for arcacct.conf, serves, and ends cleanly on Ctrl-C and SIGTERM."""
    directory = tmp_path / "here"
    with subprocess.Popen(
        [*COMMAND, "--dir", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        lines = []
        while not lines or not lines[-1].startswith("Received"):
            lines.append(running.stderr.readline())
            assert running.poll() is None, lines
        running.send_signal(end)
        out, rest = running.communicate(timeout=60)
    assert (running.returncode, rest) == (0, "")
    assert "[arex/jura/sgas:sandbox]" in out
    assert f"x509_cert_dir = {directory}/certificates" in out
    assert os.path.isdir(directory / "received")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--dir", "/proc/nowhere"], 78, "/proc/nowhere: "),
        ([], 64, "--dir"),
        (["--dir", ".", "--ams-port", "70000"], 64, "70000"),
    ],
    ids=["directory", "no directory", "port"],
)
def test_wrong_calls_are_one_line_and_a_code(tmp_path, options, code, words):
    """No traceback, a line that names what is wrong, the exit code of its kind."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port(tmp_path):
    """Somebody else's port: 75, and the port is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--dir", str(tmp_path), "--sgas-port", str(port)], capture_output=True, text=True, check=False
        )
    assert done.returncode == 75
    assert done.stderr.startswith(f"arcacct: port {port} of the loopback address:")
    assert done.stderr.count("\n") == 1
