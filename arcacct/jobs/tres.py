"""Slurm's trackable resources: ``billing=32,cpu=32,gres/gpu:a100=1,gres/gpu=1,mem=472.50G,node=1,energy=12``."""

from __future__ import annotations

import re

from arcacct.jobs.sacct import LARGEST, UNSET, duration_us

_AMOUNT = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,20})?)([KMGTP]?)i?B?", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def parse(text: str) -> dict[str, int]:
    """
    Each resource with its amount: sizes in bytes, energy in J; what is no number or not measured is left out.

    (Energy is NO_VAL64, 18446744073709551614, where the site does not measure it.)
    """
    found = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        match = _AMOUNT.fullmatch(value.strip())
        if not match:
            continue
        number = int(match[1]) if match[1].isdigit() else float(match[1])
        amount = round(number * 1024 ** _POWERS[match[2].upper()])
        if number not in UNSET and amount <= LARGEST:
            found[key.strip()] = amount
    return found


def cpu_us(text: str) -> int | None:
    """The CPU time of a usage (``cpu=03:50:00,energy=0``, TRESUsageInTot), in microseconds; ``None``: not known."""
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key.strip() == "cpu":
            try:
                return duration_us(value.strip())
            except ValueError:
                return None
    return None


def gpu_count(tres: dict[str, int]) -> int:
    """GPUs, of all types: the untyped amount if there is one, else the sum of the typed ones (never both)."""
    if "gres/gpu" in tres:
        return tres["gres/gpu"]
    return sum(amount for key, amount in tres.items() if key.startswith("gres/gpu:"))
