from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from sandbox_clients import Connection, usage_record, usage_records

from arcacct.sandbox.authority import Credential

COMMAND = [sys.executable, "-c", "from arcacct.cli.main import main; main()", "sandbox"]


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


def test_it_tells_what_the_portals_would_show(tmp_path):
    """On SIGUSR1 while it runs, and once more at its end."""
    shown = r"SGAS ce.example.org \d{4}-\d\d-\d\d: jobs 1, wall 60 s, CPU 0 s\n"
    with subprocess.Popen(
        [*COMMAND, "--dir", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        port = int(re.search(r"localhost:(\d+)/sgas", running.stderr.readline())[1])
        assert running.stderr.readline().startswith("Received")
        box = SimpleNamespace(ca_dir=str(tmp_path / "certificates"), servers={"sgas": SimpleNamespace(port=port)})
        client = Credential(str(tmp_path / "hostcert.pem"), str(tmp_path / "hostkey.pem"))
        with Connection(box, "sgas", client) as connection:
            assert connection.ask("POST", "/sgas/ur", usage_records(usage_record())).status == 200
        running.send_signal(signal.SIGUSR1)
        assert re.fullmatch(shown, running.stderr.readline())
        running.send_signal(signal.SIGTERM)
        _, rest = running.communicate(timeout=60)
    assert running.returncode == 0
    assert re.fullmatch(shown, rest)


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
