"""What sacct printed says no zone: these outputs are of a machine in UTC, and are read on one."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _in_utc(utc: None) -> None:
    """Every test of the folder."""
