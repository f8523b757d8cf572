"""A site that publishes to AUDITOR alone, and the server."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest
from publishing_site import AUDITOR, Site
from target_fixtures import bare_job, golden, job

from arcacct.sandbox import Sandbox
from arcacct.sandbox.auditor import Auditor, AuditorAccess


@pytest.fixture(scope="module")
def box(tmp_path_factory) -> Iterator[Sandbox]:
    """The receivers for all tests of a module: making their keys takes longer than most tests."""
    with Sandbox(str(tmp_path_factory.mktemp("box"))) as running:
        running.client = running.authority.issue("ce.example.org", stem="quick", rsa_key=False)
        yield running


@pytest.fixture
def server(box) -> Auditor:
    """The server as if it had just been started."""
    box.faults.clear()
    box.servers["auditor"].requests = 0
    ours = frozenset({"ce.example.org"})
    box.auditor.access, box.auditor.ignores_repeats = AuditorAccess(ours, ours), False
    box.auditor.forget(*box.auditor.records)
    return box.auditor


@pytest.fixture
def site(box, server) -> Iterator[Site]:
    """A site with an empty ledger, in memory where there is some."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="arcacct-test-", dir=where) as path:
        yield Site(pathlib.Path(path), box, AUDITOR)
