from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from arcacct.sandbox import Sandbox, authority
from arcacct.sandbox.apel import APEL
from arcacct.sandbox.http_server import Journal
from arcacct.sandbox.sgas import SGAS


@pytest.fixture
def sandbox(tmp_path: pathlib.Path) -> Iterator[Sandbox]:
    """The receivers, running."""
    with Sandbox(str(tmp_path / "sandbox")) as running:
        yield running


@pytest.fixture(scope="session")
def ca(tmp_path_factory: pytest.TempPathFactory) -> authority.Authority:
    """An authority for tests that need no servers."""
    return authority.create(str(tmp_path_factory.mktemp("ca")))


@pytest.fixture(scope="session")
def ce(ca: authority.Authority) -> authority.Credential:
    """A computing element's certificate."""
    return ca.issue("ce.example.org")


@pytest.fixture
def journal(tmp_path: pathlib.Path) -> Journal:
    return Journal(str(tmp_path / "received"), ("sgas", "apel"))


@pytest.fixture
def sgas(journal: Journal) -> SGAS:
    """An SGAS server without a port."""
    return SGAS(journal)


@pytest.fixture
def apel(journal: Journal, ca: authority.Authority, ce: authority.Credential) -> APEL:
    """APEL's receiver without a messaging service before it."""
    receiver = APEL(journal, ca.ca_dir)
    receiver.allowed_dns = {ce.dn}
    return receiver
