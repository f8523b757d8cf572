"""One target's run with databases in memory and no receiver: for steps that only read and note."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from publishing_site import Site

from arcacct.db import schema
from arcacct.publishing.floor import Floor
from arcacct.publishing.months import Accepted
from arcacct.publishing.this_run import Tally, ThisRun
from arcacct.targets import plugs


@contextmanager
def run_alone(path: pathlib.Path, targets: str, **more: Any) -> Iterator[ThisRun]:
    """A run of the first target of a configuration; ``more``: fields of `ThisRun`."""
    site = Site(path, None, targets)
    plug = plugs(site.settings)[0]
    nothing = Floor(
        accepted=Accepted(frozenset(), frozenset()),
        life_seq=0,
        selection=plug.selection(),
        proven=plug.selection(),
        given_jobs={},
        given_sums={},
        folded=str.lower,
    )
    with (
        closing(schema.in_memory(schema.ACCOUNTING)) as accounting,
        closing(schema.in_memory(schema.PUBLISHING)) as publishing,
    ):
        fields = {"tally": Tally(), "dry_run": False, "floor": nothing, "months": {}, "life": "this", **more}
        yield ThisRun(plug, accounting, publishing, **fields)
