"""What the steps of one target's run share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from arcacct.db.engine import Connection
from arcacct.publishing.floor import Floor
from arcacct.publishing.held import Due
from arcacct.publishing.instants import Month
from arcacct.publishing.months import Published
from arcacct.publishing.plug import Plug
from arcacct.publishing.tally import Tally


class Limits(NamedTuple):
    """How much goes into one message; ``max_count=None`` is as much as fits."""

    max_count: int | None
    max_bytes: int


class Task(NamedTuple):
    """One target's run: what its steps share."""

    plug: Plug
    accounting: Connection
    publishing: Connection
    tally: Tally
    dry_run: bool
    floor: Floor
    months: Mapping[Month, Published]
    """Those of which the target was sent something, as they were when the run began."""
    life: str
    """The incarnation of the accounting database."""
    run: int = 0
    """The number of this run of the target."""

    @property
    def block(self) -> str:
        """What the ledger knows the target by."""
        return self.plug.target.block

    @property
    def limits(self) -> Limits:
        """Of one message."""
        return Limits(self.plug.target.urbatchsize, self.plug.max_bytes)

    @property
    def due(self) -> Due:
        """By what to tell whether the time of a held record has come."""
        now = int(time.time())
        return Due(now - self.plug.target.settle_s, now, self.run)
