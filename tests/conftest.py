"""Fixtures that every test may use."""

from __future__ import annotations

import os
import pathlib

import pytest
from hypothesis import HealthCheck, settings

from arcacct import wording

# No test is about time, and a machine may be busy with anything.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    """Each test is a run of its own: what one keeps secret the next may show."""
    monkeypatch.setattr(wording, "_secrets", wording.Secrets())


@pytest.fixture(scope="session")
def test_data() -> pathlib.Path:
    """Schemas and samples that are not ours to ship, found through ARCACCT_TEST_DATA."""
    directory = os.environ.get("ARCACCT_TEST_DATA")
    if not directory:
        pytest.skip("ARCACCT_TEST_DATA is unset: schemas and samples that are not ours to ship are elsewhere")
    return pathlib.Path(directory)
