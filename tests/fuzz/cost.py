"""What a try may cost: CPU time and memory in proportion to what it was given."""

from __future__ import annotations

import pathlib
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LEAST_CPU_S = 2.0
CPU_S_PER_BYTE = 50e-6
"""Ten times what the worst input takes that is only rejected, piece by piece; a usual one takes a hundredth."""
LEAST_KIB = 64 * 1024
KIB_PER_KB = 60
"""Python's smallest objects for each character, and some copies of the text."""
LARGEST = 400_000
"""Characters of what `repeated` makes: what is quadratic takes minutes."""


@contextmanager
def in_proportion(size: int) -> Iterator[None]:
    """What is done within costs at most in proportion to so many bytes."""
    status = pathlib.Path("/proc/self/status")
    # So that the peak is that of what follows.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before, began_s = _kib(status, "VmRSS"), time.process_time()
    yield
    took_s, grown = time.process_time() - began_s, _kib(status, "VmHWM") - before
    assert took_s < LEAST_CPU_S + CPU_S_PER_BYTE * size, f"{took_s:.1f} s of CPU for {size} bytes"
    assert grown < LEAST_KIB + KIB_PER_KB * size / 1000, f"{grown} KiB for {size} bytes"


def _kib(status: pathlib.Path, name: str) -> int:
    return int(next(line for line in status.read_text().splitlines() if line.startswith(name)).split()[1])


def repeated(chance: random.Random, units: Sequence[str]) -> str:
    """Some of these, each some times or very often, behind each other."""
    largest = chance.choice((100, 10_000, LARGEST, LARGEST))
    text = ""
    for _ in range(chance.randint(1, 8)):
        unit = "".join(chance.choice(units) for _ in range(chance.choice((1, 1, 1, 2, 3))))
        most = max(1, largest // (len(unit) or 1))
        text += unit * min(most, chance.choice((1, 1, 2, 40, 1_200, most)))
        if len(text) >= largest:
            break
    return text[: 2 * LARGEST]
