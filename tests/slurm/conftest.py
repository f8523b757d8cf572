"""What sacct printed says no zone: these outputs are of a machine in UTC, and are read on one."""

from __future__ import annotations

import time

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC0")
        time.tzset()
        yield
    time.tzset()
