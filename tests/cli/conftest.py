"""Fixtures of these tests."""

from __future__ import annotations

import functools

import manual_pages
import pytest
from corpus_fixtures import arex_file, ours, unchanged
from in_process import answer
from watched_site import authority, site

from arcacct.cli.manual_pages import Manual, load
from arcacct.files import directories

# The manual of `manual_pages` where the program looks for its own.


@pytest.fixture
def manual(tmp_path, monkeypatch) -> Manual:
    """The sample pages, read as those of an installed program are."""
    manual_pages.write(tmp_path)
    monkeypatch.setattr(directories, "_PACKAGE", str(tmp_path))
    return load()


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command in this process; returns exit code, standard output and standard error."""
    for name in ("ARC_CONFIG", "ARCACCT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return functools.partial(answer, capsys)
