"""The benchmark of one core of a worker node."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from arcacct.errors import InputError

TYPES = ("HEPscore23", "HEPSPEC", "Si2k")
"""The types that APEL's server knows, in its order of preference."""

_CANONICAL = {name.lower(): name for name in TYPES} | dict.fromkeys(("hs06", "hepspec06", "hep-spec06"), "HEPSPEC")
_FORM = re.compile(r"([^\s:]+)(?:\s*:\s*|\s+)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_LIMIT_THOUSANDTHS = 10**10
_SI2K_PER_HEPSPEC = 250
_LONGEST_SHOWN = 60
PLAUSIBLE = {"HEPscore23": (2, 100), "HEPSPEC": (2, 100), "Si2k": (500, 25_000)}
"""
The plausible values of one core, by type: lowest and highest.

WLCG's sites publish 5 to 30 HEP-SPEC06 for cores of 2009 to 2024; HEPscore23 is scaled to agree with it on its
reference machine; APEL's server divides Si2k by 250. A value far outside is that of a node, or in another unit.
"""


class Benchmark(NamedTuple):
    """
    A benchmark type and its value per core, exact to the three decimals that APEL's columns keep.

    Integers and not floats: sums of wall time times benchmark must not depend on the order of the jobs.
    """

    type: str
    """In the canonical spelling of :data:`TYPES`."""
    thousandths: int

    @classmethod
    def parse(cls, text: str) -> Benchmark:
        """
        Read ``TYPE:VALUE`` ([lrms], .diag) or ``TYPE VALUE`` ([queue:NAME]).

        Raises InputError with the reason. HEP-SPEC06 is the full name of HEPSPEC: ``HS06`` and ``HEPSPEC06`` are read
        as APEL's name.
        """
        match = _FORM.fullmatch(text.strip())
        shown = repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")
        if match is None:
            raise InputError(f"benchmark {shown} is not of the form TYPE:VALUE, e.g. HEPscore23:12.3")
        name = canonical_type(match[1])
        if name is None:
            raise InputError(f"benchmark {shown}: APEL accepts the types {', '.join(TYPES)}")
        from decimal import ROUND_HALF_UP, Decimal  # noqa: PLC0415  slow to load, and most runs read none

        thousandths = int((Decimal(match[2]) * 1000).to_integral_value(ROUND_HALF_UP))
        if not 0 < thousandths < _LIMIT_THOUSANDTHS:
            raise InputError(f"benchmark {shown}: the value must be above 0 and below 10000000")
        return cls(name, thousandths)

    @property
    def value(self) -> str:
        """The value in the receivers' form: at most three decimals, no exponent, no trailing zeros."""
        whole, rest = divmod(self.thousandths, 1000)
        return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") if rest else str(whole)

    def __str__(self) -> str:
        """``TYPE:VALUE``."""
        return f"{self.type}:{self.value}"

    @property
    def is_plausible(self) -> bool:
        """Whether one core may have this value (`PLAUSIBLE`)."""
        least, most = PLAUSIBLE[self.type]
        return least * 1000 <= self.thousandths <= most * 1000

    def normalised(self, seconds: int) -> int:
        """Seconds times value, in millionths; Si2k is divided by 250 as APEL's server does."""
        product = seconds * self.thousandths * 1000
        return product // _SI2K_PER_HEPSPEC if self.type == "Si2k" else product


def canonical_type(name: str) -> str | None:
    """The type in the spelling of :data:`TYPES`; None if APEL does not know it."""
    return _CANONICAL.get(name.lower())


FALLBACK = Benchmark("HEPSPEC", 1000)
"""
The value that ARC records and publishes for a job without a benchmark. No core is that slow: it means no benchmark.
"""
FALLBACK_SHOWN = "HEPSPEC 1.0"
"""The same for people, in ARC's spelling."""
SUBSTITUTE_SHOWN = f"{FALLBACK_SHOWN} or the site's default"
"""The value that receivers get for a job without a benchmark of its own, or with one that cannot be read."""


def measured_benchmark(text: str | None) -> Benchmark | None:
    """Return a job's own benchmark; None if it is missing, unusable or the default."""
    found = parsed_benchmark(text)
    return None if found == FALLBACK else found


@lru_cache(maxsize=1024)
def parsed_benchmark(text: str | None) -> Benchmark | None:
    """Return the benchmark; None if there is none or it is not valid."""
    if not text:
        return None
    try:
        return Benchmark.parse(text)
    except InputError:
        return None
