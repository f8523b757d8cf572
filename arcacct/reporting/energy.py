"""
Energy and carbon of jobs: measured where a source measured, else the core time times watts of the site's table.

Joules of machines; what cooling and supply take on top is the site's PUE, what a kWh emits the grid's intensity.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

from arcacct.config.values import CPUWatts
from arcacct.errors import InputError
from arcacct.reporting.facts import EnergyUse

HEADER = ("time", "gco2e_per_kwh")
J_PER_KWH = 3_600_000
_DAY_S = 86_400
_STEP_S = 1800
"""Grids publish their intensity for half hours at the finest."""
_LARGEST_BYTES = 2**24


class EnergyModel(NamedTuple):
    """What the site says of its machines, its building and its grid."""

    cpu_watts: tuple[CPUWatts, ...] = ()
    core_watts: float | None = None
    """Of cores of a CPU that no line names; ``None``: their energy is not known."""
    pue: float | None = None
    carbon_intensity: str | None = None
    """A number of g CO2e per kWh, or the path of a table by time."""

    @property
    def estimates(self) -> bool:
        """Whether the energy of any job can be computed without a measurement."""
        return self.core_watts is not None or bool(self.cpu_watts)

    def watts(self, model: str | None) -> float | None:
        """W per core of a CPU model: of the first line that matches; ``None``: not known."""
        for one in self.cpu_watts if model else ():
            if fnmatchcase(model or "", one.pattern):
                return one.watts
        return self.core_watts


class Energy(NamedTuple):
    """What the jobs of a VO drew."""

    measured_j: float = 0.0
    estimated_j: float = 0.0
    carbon_g: float | None = None
    """With the PUE; ``None``: the intensity is not known of any part."""
    unknown_core_s: float = 0.0
    """Core time of which the energy is neither measured nor estimated."""
    uncharged_j: float = 0.0
    """Energy at times of which the intensity is not known."""

    def plus(self, other: Energy) -> Energy:
        """Both together."""
        known = [carbon for carbon in (self.carbon_g, other.carbon_g) if carbon is not None]
        return Energy(
            self.measured_j + other.measured_j,
            self.estimated_j + other.estimated_j,
            sum(known) if known else None,
            self.unknown_core_s + other.unknown_core_s,
            self.uncharged_j + other.uncharged_j,
        )


class Grid:
    """The intensity of the grid, in g CO2e per kWh, as steps: each value holds until the next."""

    def __init__(self, steps: Sequence[tuple[int, float]]) -> None:
        """``steps``: UTC seconds and values, sorted; the first may be at any time."""
        self._times = [time_s for time_s, _value in steps]
        self._values = [value for _time_s, value in steps]

    def of_day(self, day: int) -> float | None:
        """The mean of a day (since 1970), of the part of it that is known; ``None`` before the first step."""
        found = []
        for at in range(day * _DAY_S, (day + 1) * _DAY_S, _STEP_S):
            place = bisect_right(self._times, at)
            if place:
                found.append(self._values[place - 1])
        return math.fsum(found) / len(found) if found else None


def grid(intensity: str | None) -> Grid:
    """
    What is known of the grid: a number for all times, or a CSV file ``time,gco2e_per_kwh``.

    Times are ISO 8601, UTC unless a zone is written. Raises InputError with the number of the line that is wrong.
    """
    if intensity is None:
        return Grid([])
    if not intensity.startswith("/"):
        return Grid([(-(2**62), float(intensity))])
    try:
        with open(intensity, "rb") as file:
            text = file.read(_LARGEST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{intensity}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{intensity}: not UTF-8; write it as {','.join(HEADER)}") from error
    steps: dict[int, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in next(csv.reader([line]))]
        if not steps and tuple(field.lower() for field in fields) == HEADER:
            continue
        try:
            written, value = fields
            when = datetime.fromisoformat(written)
            amount = float(value)
        except ValueError:
            when, amount = None, -1.0
        if when is None or not (math.isfinite(amount) and amount >= 0):
            right = f"{','.join(HEADER)}, as 2026-11-20T10:00,312"
            raise InputError(f"{intensity}:{number}: no time and amount; write {right}")
        steps[int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())] = amount
    return Grid(sorted(steps.items()))


def energies(
    parts: Iterable[EnergyUse], model: EnergyModel, cpu_models: Mapping[str, str], known: Grid
) -> dict[str | None, Energy]:
    """
    By VO: what its jobs drew, and emitted.

    The energy that the batch system measured is that of the whole job, GPUs included; of other jobs the cores are
    estimated, and what telemetry measured of their GPUs is added. A job counts on the day on which it ended.
    """
    found: dict[str | None, Energy] = {}
    intensities: dict[int, float | None] = {}
    for part in parts:
        cpu = part.cpu_model or cpu_models.get((part.host or "").partition(".")[0])
        watts = model.watts(None if cpu is None else cpu.partition(";")[0])
        rest_s = part.core_s - part.measured_core_s
        measured_j = (part.energy_j or 0.0) + (part.gpu_energy_j or 0.0)
        estimated_j = rest_s * watts if watts is not None else 0.0
        energy_j = measured_j + estimated_j
        if part.day not in intensities:
            intensities[part.day] = known.of_day(part.day)
        intensity = intensities[part.day]
        carbon_g = None if intensity is None else energy_j / J_PER_KWH * (model.pue or 1.0) * intensity
        one = Energy(
            measured_j,
            estimated_j,
            carbon_g,
            rest_s if watts is None else 0.0,
            energy_j if intensity is None else 0.0,
        )
        found[part.vo] = found.get(part.vo, Energy()).plus(one)
    return found
