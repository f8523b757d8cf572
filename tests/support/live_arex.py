"""
A real A-REX on the loopback interface alone: Debian's packages, a test CA, the fork batch system. Needs root.

A-REX 6 runs on this host; everything is below one directory, but /run/arched-arex*.cfg, which A-REX's start script
writes. `live_arex7` has A-REX 7 in a root of its own.
"""

from __future__ import annotations

import http.server
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from arcacct.files.directories import resource

ON_REQUEST = [
    pytest.mark.skipif(not os.environ.get("ARCACCT_LIVE"), reason="runs on request: ARCACCT_LIVE=1"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not shutil.which("apt-get"), reason="needs Debian's packages"),
]
"""The marks of every test that does."""
PACKAGES = (
    "nordugrid-arc-arex",
    "nordugrid-arc-client",
    "nordugrid-arc-arcctl",
    "nordugrid-arc-arcctl-service",
    "nordugrid-arc-plugins-needed",
    "nordugrid-arc-plugins-arcrest",
)
PORT = 20443
FILES_PORT = 20080
CE = f"https://localhost:{PORT}/arex"
FILES = f"http://localhost:{FILES_PORT}"
STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "FINISHING", "FINISHED")

ODD_NAME = "O'Neill %I #1 = żółć & <b>"
JOBS = {
    "ok": '&(executable=/bin/true)(jobname="ok")(stdout=out)',
    "exit7": '&(executable=/bin/sh)(arguments="-c" "exit 7")(jobname="exit7")',
    "output": '&(executable=/bin/sh)(arguments="-c" "cat in >out; sleep 2")(jobname="output")'
    '(inputFiles=("in" "{files}/in1"))(outputFiles=("out" "{files}/put/out1"))',
    "cached": '&(executable=/bin/true)(jobname="cached")(inputFiles=("in" "{files}/in1"))',
    "input404": '&(executable=/bin/true)(jobname="input404")(inputFiles=("in" "{files}/missing"))',
    "odd": f'&(executable=/bin/true)(jobname="{ODD_NAME}")',
    "noname": "&(executable=/bin/true)",
    "noexec": '&(executable=/bin/nowhere)(jobname="noexec")',
    "killed": '&(executable=/bin/sleep)(arguments=300)(jobname="killed")',
    "resumed": '&(executable=/bin/sh)(arguments="-c" "echo x >out")(jobname="resumed")(rerun=2)'
    '(outputFiles=("out" "{files}/put/refused"))',
}
"""A job for each way in which one may go (xRSL)."""

WAYS = ("sweep", "recorder")
"""What records the events that the callouts spool: one sweep at the end, or a recorder."""

CONF = """\
[common]
hostname=localhost
x509_host_key={home}/host-localhost-key.pem
x509_host_cert={home}/host-localhost-cert.pem
x509_cert_dir={home}/ca

[authgroup:all]
all=yes

[mapping]
map_to_user=all nobody:nogroup

[lrms]
lrms=fork
benchmark=HEPSPEC:11.11

[arex]
controldir={home}/control
sessiondir={home}/session
logfile={home}/arex.log
pidfile={home}/arex.pid
wakeupperiod=5
{callouts}

[arex/cache]
cachedir={home}/cache

[arex/data-staging]
logfile={home}/staging.log
maxtransfertries=1

[arex/ws]
wsurl={ce}
logfile={home}/ws.log
pidfile={home}/ws.pid

[arex/ws/jobs]
allowaccess=all

[infosys]
logfile={home}/infoprovider.log

[infosys/glue2]

[infosys/cluster]

[queue:fork]
benchmark=HEPSPEC 12.26
"""


def install_packages() -> None:
    """Debian's packages, unless they are there; no service is started. Raises CalledProcessError."""
    if all(_is_installed(name) for name in PACKAGES):
        return
    policy = pathlib.Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], check=True, env=environment)
        install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *PACKAGES]
        subprocess.run(install, check=True, env=environment)
    finally:
        if ours:
            policy.unlink()


def _is_installed(name: str) -> bool:
    return subprocess.run(["dpkg", "-s", name], capture_output=True, check=False).returncode == 0


class LiveCE:
    """A computing element below ``home``, with arcacct's state callouts."""

    prefix: tuple[str, ...] = ()
    """What stands before each command."""
    status_file = "job.{}.status"

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.control = home / "control"
        self.conf = home / "arc.conf"
        self.log: list[str] = []

    def seen(self, path: pathlib.Path) -> str:
        """A path as the commands see it."""
        return str(path)

    def prepare(self) -> None:
        """Certificates, a proxy, the launcher and the configuration."""
        self.credentials()
        self.conf.write_text(CONF.format(home=self.home, ce=CE, callouts="\n".join(self._callouts())))
        (self.home / "arcacct.conf").write_text("[arcacct]\n")

    def credentials(self) -> None:
        """Make A-REX's directories, a test CA, the host's and a user's certificate, and a proxy of the user."""
        for name in ("control", "session", "cache", "client"):
            (self.home / name).mkdir()
        ca = ["arcctl", "test-ca", "--ca-dir", self.seen(self.home / "ca"), "--ca-id", "live"]
        self.run([*ca, "init"])
        self.run([*ca, "hostcert", "-n", "localhost"])
        self.run([*ca, "usercert", "-n", "Ada O'Neill", "--no-auth"])
        self.run(["arcproxy", "-P", self.seen(self.home / "proxy")], **self.user())

    def user(self) -> dict[str, str]:
        """The user's certificate and key, as ARC's client commands are told of them."""
        (key,) = self.home.glob("client-*-key.pem")
        (cert,) = self.home.glob("client-*-cert.pem")
        return {"X509_USER_CERT": self.seen(cert), "X509_USER_KEY": self.seen(key)}

    def _callouts(self) -> Iterator[str]:
        """The lines that we ship, with the launcher where this test has it."""
        launcher = self.home / "arcacct-hook"
        shutil.copy2(resource("etc", "arcacct-hook"), launcher)
        for line in pathlib.Path(resource("etc", "arc.conf.statecallout")).read_text().splitlines():
            if line.startswith("statecallout="):
                yield line.replace("/usr/local/libexec/arcacct-hook", str(launcher))

    @contextmanager
    def running(self) -> Iterator[None]:
        """A-REX and its web service, as their start scripts start them without systemd."""
        try:
            for script in ("arc-arex-start", "arc-arex-ws-start"):
                # The daemons inherit the output: a pipe would never end.
                with open(self.home / f"{script}.log", "w") as output:
                    subprocess.run(
                        [*self.prefix, f"/usr/share/arc/{script}"],
                        env=self.environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        check=True,
                    )
            wait_for(self._answers, 60, "the REST interface answers")
            yield
        finally:
            self.stop()

    @contextmanager
    def recorded(self, way: str, arcacct: str) -> Iterator[None]:
        """``recorder``: run one, as its unit starts it; ``sweep``: there is none."""
        if way == "sweep":
            yield
            return
        unit = pathlib.Path(resource("etc", "systemd", "arcacct-recorder.service")).read_text()
        found = re.search(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)
        assert found
        with open(self.home / "recorder.log", "w") as output:
            recorder = subprocess.Popen(
                # The recorder reports at each sweep how many events it has recorded.
                [*self.prefix, arcacct, *found[1].replace("--interval 60", "--interval 3").split()],
                cwd=self.home,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            yield
        finally:
            # Each program of the prefix replaces itself by the next: the process is the recorder.
            recorder.terminate()
            assert recorder.wait(60) == 0, (self.home / "recorder.log").read_text()

    def left_to_recorder(self) -> int:
        """How many events the recorder found in the spool."""
        return sum(map(int, re.findall(r"(\d+) events? from the spool", (self.home / "recorder.log").read_text())))

    def _answers(self) -> bool:
        try:
            socket.create_connection(("localhost", PORT), timeout=5).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """End both daemons, and what the web service leaves behind."""
        for name in ("ws.pid", "arex.pid"):
            path = self.home / name
            if path.exists():
                pid = int(path.read_text())
                _signal(pid, signal.SIGTERM)
                wait_for(lambda pid=pid: not _runs(pid), 60, f"{name} ends")  # type: ignore[misc]
        # The web service leaves a program behind that makes numbers for TLS, for half an hour of all the processor.
        subprocess.run(["pkill", "-f", f"dhparam -out {self.seen(self.home)}/"], check=False)

    def submit(self, name: str, description: str, **environment: str) -> str:
        """Submit a job description (xRSL), with other credentials by the environment; returns the job's URL."""
        path = self.home / f"{name}.xrsl"
        path.write_text(description, encoding="utf-8")
        done = self.run(["arcsub", "-C", CE, "-T", "arcrest", "-Q", "NONE", self.seen(path)], **environment)
        found = re.search(r"jobid: (\S+)", done.stdout)
        assert found, done.stdout + done.stderr
        return found[1]

    def client(self, command: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """One of ARC's client commands, with the user's proxy."""
        return self.run([command, *arguments], check=check)

    def state(self, url: str) -> str:
        """The state of a job by its status file; empty when there is none."""
        for folder in ("finished", "processing", "accepting", "restarting"):
            path = self.control / folder / self.status_file.format(id_of(url))
            if path.exists():
                return path.read_text()
        return ""

    def run(self, command: list[str], *, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the home directory."""
        done = subprocess.run(
            [*self.prefix, *command],
            cwd=self.home,
            env={**self.environment(), **environment},
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        self.log.append(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
        assert not check or done.returncode == 0, self.log[-1]
        return done

    def environment(self) -> dict[str, str]:
        """What each command has in its environment."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.seen(self.home / "client"),
            "LC_ALL": "C.UTF-8",
            # A-REX writes local times.
            "TZ": "UTC",
            "ARC_CONFIG": self.seen(self.conf),
            "X509_USER_PROXY": self.seen(self.home / "proxy"),
            "X509_CERT_DIR": self.seen(self.home / "ca"),
        }


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Ask again and again; fails with ``what`` did not happen."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(1)


def id_of(url: str) -> str:
    """The id of a job by its URL."""
    return url.rpartition("/")[2]


class Storage:
    """A storage element on the loopback interface: gives inputs, takes outputs, refuses those it is told to."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.taken: dict[str, bytes] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        storage = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                storage.give(self, with_body=True)

            def do_HEAD(self) -> None:
                storage.give(self, with_body=False)

            def do_PUT(self) -> None:
                storage.take(self)

            def log_message(self, *_arguments: object) -> None:
                return

        server = http.server.ThreadingHTTPServer(("127.0.0.1", FILES_PORT), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def give(self, request: http.server.BaseHTTPRequestHandler, *, with_body: bool) -> None:
        path = _path(request)
        content = self.taken.get(path, b"x" * 10_000 if path.startswith("/in") else None)
        request.send_response(404 if content is None else 200)
        request.send_header("Content-Length", str(len(content or b"")))
        request.send_header("Last-Modified", "Fri, 20 Nov 2020 12:00:00 GMT")
        request.end_headers()
        if with_body and content:
            request.wfile.write(content)

    def take(self, request: http.server.BaseHTTPRequestHandler) -> None:
        content = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        refused = _path(request) in self.refused
        if not refused:
            self.taken[_path(request)] = content
        request.send_response(403 if refused else 201)
        request.send_header("Content-Length", "0")
        request.end_headers()


def _path(request: http.server.BaseHTTPRequestHandler) -> str:
    """ARC asks as if of a proxy, by the whole URL."""
    return request.path.removeprefix(FILES)


def live(ce: LiveCE, storage: Storage) -> dict[str, str]:
    """Every one of `JOBS` from its submission to its end, one killed and one resumed; returns the URLs by name."""

    def submit(name: str) -> str:
        return ce.submit(name, JOBS[name].replace("{files}", FILES))

    urls = {name: submit(name) for name in JOBS if name != "cached"}
    wait_for(lambda: ce.state(urls["killed"]) == "INLRMS", 120, "the job to kill runs")
    ce.client("arckill", urls["killed"])
    wait_for(lambda: ce.state(urls["output"]) == "FINISHED", 180, "the job with files ends")
    urls["cached"] = submit("cached")
    wait_for(lambda: ce.state(urls["resumed"]) == "FINISHED", 300, "the upload is refused")
    storage.refused.clear()
    ce.client("arcresume", urls["resumed"])
    wait_for(lambda: "/put/refused" in storage.taken, 180, "the upload of the resumed job")
    ended(ce, urls)
    return urls


def ended(ce: LiveCE, urls: dict[str, str]) -> None:
    """Wait for the end of these jobs."""
    for name, url in urls.items():
        wait_for(lambda url=url: ce.state(url) == "FINISHED", 180, f"{name} ends")  # type: ignore[misc]
    # A-REX writes its rows behind the state.
    time.sleep(3)


def copy_of(database: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """A database that no one writes any more, with its WAL, in another place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal"):
        source = pathlib.Path(f"{database}{suffix}")
        if source.exists():
            shutil.copyfile(source, f"{target}{suffix}")
    return target
