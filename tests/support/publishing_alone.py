"""One target's run with databases in memory and no receiver: for steps that only read and note."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from publishing_site import Site

from arcacct.database import schema
from arcacct.publishing.context import RunContext, RunSummary
from arcacct.publishing.safeguard import DecreaseGuard
from arcacct.publishing.target_months import AcceptedDecreases
from arcacct.targets import plugins


@contextmanager
def run_alone(path: pathlib.Path, targets: str, **more: Any) -> Iterator[RunContext]:
    """A run of the first target of a configuration; ``more``: fields of `RunContext`."""
    site = Site(path, None, targets)
    plugin = plugins(site.settings)[0]
    nothing = DecreaseGuard(
        accepted=AcceptedDecreases(frozenset(), frozenset()),
        life_seq=0,
        selection=plugin.selection(),
        proven=plugin.selection(),
        given_jobs={},
        given_sums={},
        folded=str.lower,
    )
    with (
        closing(schema.in_memory(schema.ACCOUNTING)) as accounting,
        closing(schema.in_memory(schema.PUBLISHING)) as publishing,
    ):
        fields = {"summary": RunSummary(), "guard": nothing, "months": {}, "incarnation": "this", **more}
        yield RunContext(plugin, accounting, publishing, **fields)
