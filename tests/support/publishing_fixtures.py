"""Certificates of a throw-away authority, and receivers that say what a test tells them."""

from __future__ import annotations

import os
import pathlib
import tempfile
import time

import pytest
from publishing_rig import HTTP, Rig
from scripted_receiver import ScriptedReceiver, server_context

from arcacct.publishing.answers import RunDeadline
from arcacct.publishing.transport import TimeoutPolicy, Transport
from arcacct.sandbox import Sandbox
from arcacct.sandbox.authority import create
from arcacct.tls import tls_context


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """A throw-away certificate authority."""
    return create(str(tmp_path_factory.mktemp("authority")))


@pytest.fixture(scope="session")
def host(authority):
    """A host certificate with an EC key."""
    return authority.issue("ce.example.org", stem="ec", rsa_key=False)


@pytest.fixture(scope="session")
def rsa_host(authority):
    """A host certificate with an RSA key, as most sites have."""
    return authority.issue("rsa.example.org", stem="rsa")


@pytest.fixture(scope="session")
def issue(authority, tmp_path_factory):
    """Make a certificate that ends (or starts) so many seconds from now."""

    def make(name: str = "ce.example.org", *, begins_s: int = -3600, ends_s: int = 30 * 86400):
        now = int(time.time())
        where = str(tmp_path_factory.mktemp("issued"))
        return authority.issue(name, not_before=now + begins_s, not_after=now + ends_s, directory=where, rsa_key=False)

    return make


@pytest.fixture
def receiver(authority, host):
    """A scripted receiver that demands a client certificate."""
    server = ScriptedReceiver(server_context(host, authority))
    yield server
    server.stop()


@pytest.fixture
def naps(monkeypatch):
    """The waits between tries, which no one waits."""
    taken = []
    monkeypatch.setattr(RunDeadline, "sleep", lambda _deadline, seconds: taken.append(seconds))
    return taken


@pytest.fixture
def session_of(authority, host, naps):
    """Make sessions that trust the throw-away authority; all are closed at the end."""
    made = []

    def make(credential=host, *, read_s=5.0, ca_dir=None, proxy=None, no_proxy=(), **timeouts):
        context = tls_context(credential.cert_path, credential.key_path, ca_dir=ca_dir or authority.ca_dir)
        how = TimeoutPolicy(connect_s=5.0, read_s=read_s, **timeouts)
        made.append(Transport(context, proxy=proxy, no_proxy=no_proxy, timeouts=how))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture
def session(session_of):
    """A session with the host certificate."""
    return session_of()


@pytest.fixture
def memory():
    """A directory in memory, where there is one: the ledger syncs to disk before and after each message."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="arcacct-test-", dir=where) as path:
        yield pathlib.Path(path)


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """The sandbox's receivers for all tests of a module: making their keys takes longer than most tests."""
    with Sandbox(str(tmp_path_factory.mktemp("box"))) as running:
        # An EC key is read in no time; RSA has its tests in test_signing.
        running.client = running.authority.issue("ce.example.org", stem="quick", rsa_key=False)
        yield running


@pytest.fixture
def empty_box(box):
    """The receivers as if they had just been started."""
    box.faults.clear()
    box.sgas.rights[box.client.subject] = "jobinsert:all"
    box.sgas._stored.clear()
    box.auditor.forget(*box.auditor.records)
    box.sgas.ignored_repeats = 0
    box.apel.rejected.clear()
    box.apel.received.clear()
    for table in box.apel._tables.values():
        table.clear()
    box.apel._spelt.clear()
    box.apel.summarises_each_message = True
    for server in box.servers.values():
        server.connections = server.requests = server.refused_handshakes = 0
    return box


@pytest.fixture(params=[*HTTP, "dirq", "directory"])
def rig(request, memory, empty_box):
    """A target of every kind in turn."""
    return Rig(request.param, memory, empty_box)
