"""Fixtures of these tests."""

from __future__ import annotations

import manual_pages
import pytest
from corpus_fixtures import arex_file, ours, unchanged
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
