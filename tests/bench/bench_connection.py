"""
What surrounds the records: a publish that has nothing to send, and a message between us and a receiver on loopback.

A message goes over one connection that is kept, as a run sends them, or over a new one each, as the first of a run
does: TCP, TLS and the certificates of both sides are in it. The peer of a process is the bare start of the same
interpreter, that of a message the same by `requests` as it is used plainly, in turns. The receivers run in processes of
their own; what they cost is no one's.
"""

from __future__ import annotations

import contextlib
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial

from bench_publish import APEL, SGAS, configure, receivers
from figures import Figure, cost_of
from generate import Look, generate

from arcacct.publishing.answers import Answer, Outcome
from arcacct.publishing.transport import Request, Transport
from arcacct.sandbox.authority import Credential, create
from arcacct.tls import tls_context

SIZES = {"smoke": (100, 1, 2), "small": (10_000, 5, 200), "large": (100_000, 15, 1000)}
"""Jobs that were published before; rounds; messages of a round."""
BODIES = {"100 bytes": 100, "130 kB, as 50 usage records": 130_000, "1 MB, as an AMS message": 1_000_000}
KEPT, NEW = "one connection", "a new connection each"
DIRECTORY = "[arcacct/directory:bench]\npath={path}\ngocdb_name=BENCH\napel_messages=individual\n"
ARCACCT = str(pathlib.Path(sys.executable).with_name("arcacct"))
RECEIVER = """
import http.server, ssl, sys

class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "25")
        self.end_headers()
        self.wfile.write(b'{"messageIds": ["12345"]}')

    def log_message(self, *_):
        pass

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()
"""


def bench(size: str) -> list[Figure]:
    """The figures."""
    jobs, rounds, messages = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        return [*_runs(pathlib.Path(folder), jobs, rounds), *_messages(pathlib.Path(folder), rounds, messages)]


def _runs(folder: pathlib.Path, jobs: int, rounds: int) -> Iterator[Figure]:
    """Runs after everything was sent, each in turns with the bare interpreter."""
    (folder / "outgoing").mkdir()
    generate(folder / "site", jobs, Look(plain=True))
    with receivers(folder / "box") as box:
        sgas = SGAS.format(sgas=box["sgas"])
        seldom = "urdelivery_frequency=86400\n"
        cars = APEL.format(ams=box["ams"], messages="urs")
        messages = DIRECTORY.format(path=folder / "outgoing")
        for name, targets, more, options in (
            ("SGAS, nothing new", sgas, "", ["--now"]),
            ("three targets, none due", sgas + seldom + cars + seldom, messages + seldom, []),
            ("three targets, nothing new, two syncs", sgas + cars, messages, ["--now"]),
        ):
            site = folder / "site"
            configure(site, box, targets)
            with open(site / "arcacct.conf", "a") as file:
                file.write(more)
            publish = [ARCACCT, "--config", str(site / "arc.conf"), "publish"]
            first = cost_of([*publish, "--now", "--since", "2026-01-01"], log=site / "ours.log")
            costs: list[float] = []
            bare: list[float] = []
            failed = first.exit_code
            for _ in range(rounds):
                cost = cost_of([*publish, *options], log=site / "ours.log")
                failed = failed or cost.exit_code
                costs.append(cost.cpu_s * 1000)
                bare.append(cost_of([sys.executable, "-I", "-c", "pass"]).cpu_s * 1000)
            note = f"FAILED: {(site / 'ours.log').read_text()[-300:]}" if failed else "peer: bare interpreter"
            yield _figure(f"publish, {name}: CPU", "ms", costs, bare, note)
    shutil.rmtree(folder / "site")


def _messages(folder: pathlib.Path, rounds: int, messages: int) -> Iterator[Figure]:
    """Messages of every size in each round, over one connection or a new one each, ours and theirs."""
    authority = create(str(folder / "authority"))
    host = authority.issue("localhost", stem="host")
    with _receiver(host) as port:
        url = f"https://localhost:{port}/messages"
        openers = [partial(way, url, host, authority.ca_file) for way in (_ours, _theirs)]
        costs: dict[str, tuple[list[float], list[float]]] = {
            f"message of {name}, {how}: CPU": ([], []) for name in BODIES for how in (KEPT, NEW)
        }
        for _ in range(rounds):
            for name, n_bytes in BODIES.items():
                for how, found in ((how, costs[f"message of {name}, {how}: CPU"]) for how in (KEPT, NEW)):
                    for opener, side in zip(openers, found, strict=True):
                        side.append(_cpu_us(opener, b"x" * n_bytes, messages, is_kept=how == KEPT))
        for what, (mine, other) in costs.items():
            yield _figure(what, "us", mine, other, "peer: requests")


@contextlib.contextmanager
def _receiver(host: Credential) -> Iterator[int]:
    command = [sys.executable, "-c", RECEIVER, host.cert_path, host.key_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextlib.contextmanager
def _ours(url: str, host: Credential, ca_file: str) -> Iterator[Callable[[bytes], object]]:
    session = Transport(tls_context(host.cert_path, host.key_path, ca_file=ca_file))

    def judge(status: int, _headers: object, body: bytes) -> Answer:
        assert (status, len(body)) == (200, 25)
        return Answer(Outcome.ACCEPTED, status)

    with contextlib.closing(session):
        yield lambda body: session.request(Request("POST", url, {"Content-Type": "application/xml"}, body), judge)


@contextlib.contextmanager
def _theirs(url: str, host: Credential, ca_file: str) -> Iterator[Callable[[bytes], object]]:
    import requests  # as late as ours

    with requests.Session() as session:
        session.trust_env = False
        session.verify, session.cert = ca_file, (host.cert_path, host.key_path)
        yield lambda body: session.post(url, data=body, headers={"Content-Type": "application/xml"}).json()


Opener = Callable[[], contextlib.AbstractContextManager[Callable[[bytes], object]]]


def _cpu_us(opener: Opener, body: bytes, messages: int, *, is_kept: bool) -> float:
    """Of one message: over a connection that two messages have opened, or with the connection."""
    with opener() as send:
        for _ in range(2):
            send(body)
        begun = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(messages):
            if is_kept:
                send(body)
            else:
                with opener() as send_anew:
                    send_anew(body)
        ended = resource.getrusage(resource.RUSAGE_SELF)
    return (ended.ru_utime - begun.ru_utime + ended.ru_stime - begun.ru_stime) / messages * 1e6


def _figure(what: str, unit: str, mine: list[float], other: list[float], note: str) -> Figure:
    spread = f"median of {len(mine)}, {min(mine):,.0f} to {max(mine):,.0f}; {min(other):,.0f} to {max(other):,.0f}"
    ratios = tuple(theirs / ours for ours, theirs in zip(mine, other, strict=True))
    return Figure(what, statistics.median(mine), unit, statistics.median(other), f"{spread}; {note}", ratios)
