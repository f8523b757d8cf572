"""
What each receiver would refuse, found before it is sent.

A receiver refuses whole batches: SGAS rolls the transaction back, APEL drops the message and tells nobody. So each
record is measured by the receiver's own rules first. What can be repaired without changing what is accounted
(a name cut, an optional value left out) is repaired and noted; the rest is refused with the reason, alone.

The rules are in a table for each receiver: `sgas.rules`, `apel.rules`.
"""

from __future__ import annotations

from arcacct.targets.apel.acceptance import CellVerdict, accept_cell, accept_for_apel_job, accept_for_car
from arcacct.targets.sgas.acceptance import accept_for_sgas
from arcacct.targets.verdicts import Verdict

__all__ = ["CellVerdict", "Verdict", "accept_cell", "accept_for_apel_job", "accept_for_car", "accept_for_sgas"]
