"""One target's batches without a receiver: what would be delivered is kept for the test to look at."""

from __future__ import annotations

import pathlib
from typing import Any

from closed_later import closed_later
from ledger_rows import MAY
from publishing_site import Site

from arcacct.database.schema import ACCOUNTING, PUBLISHING, in_memory
from arcacct.publishing.context import RunContext, RunSummary
from arcacct.publishing.delivery import DeliveryBatch
from arcacct.publishing.ledger import HeldRecord, SentRecord
from arcacct.publishing.plugin import bare
from arcacct.publishing.safeguard import DecreaseGuard
from arcacct.publishing.sent import Amount, CountingKey
from arcacct.publishing.target_months import AcceptedDecreases
from arcacct.records.model import AAR
from arcacct.targets import plugins

SGAS = "[arex/jura/sgas:one]\ntargeturl=https://localhost:9/sgas\n"
REPLACING = f"{SGAS}sgas_corrections=replace\n"
APEL = "[arcacct/directory:one]\npath={path}\ngocdb_name=SITE\napel_messages=individual\n"


class Kept:
    """Keeps what it is to deliver."""

    def __init__(self) -> None:
        self.consignments: list[DeliveryBatch] = []
        self.listened = 0

    def resume(self) -> None:
        """Nothing was started."""

    def deliver(self, what: DeliveryBatch) -> None:
        """As it is told."""
        self.consignments.append(what)

    def collect_answers(self) -> None:
        """Asked between two records."""
        self.listened += 1

    @property
    def sizes(self) -> list[int]:
        """How many texts each message has."""
        return [len(batch) for what in self.consignments for batch in what.batches]

    @property
    def texts(self) -> list[str]:
        """All that is to be sent."""
        return [part.text for what in self.consignments for batch in what.batches for part in batch]

    @property
    def records(self) -> list[SentRecord]:
        """Those that are to be sent."""
        found = (part.record for what in self.consignments for batch in what.batches for part in batch)
        return [record for record in found if record is not None]

    @property
    def held(self) -> list[HeldRecord]:
        """Those that are not."""
        return [one for what in self.consignments for one in what.held]


def floor_of(given_jobs: dict[CountingKey, Amount]) -> DecreaseGuard:
    """Of a target that was given so many; what was logged up to 7 is a backup's."""
    return DecreaseGuard(
        accepted=AcceptedDecreases(frozenset(), frozenset()),
        life_seq=7,
        selection={"vofilter": []},
        proven={"vofilter": []},
        given_jobs=given_jobs,
        given_sums={},
        folded=str.lower,
    )


def this_run(path: pathlib.Path, target: str, **values: Any) -> RunContext:
    """A run of a target with nothing in either database; what was logged up to 7 is a backup's, with jobs in May."""
    (plugin,) = plugins(Site(path, targets=target).settings)
    guard = floor_of({CountingKey(plugin.site, "ce.example.org", 2026, 5): Amount(3, 180)})
    both = (closed_later(in_memory(ACCOUNTING)), closed_later(in_memory(PUBLISHING)))
    return RunContext(plugin, *both, RunSummary(), guard, {}, "life")._replace(**values)


def aar(job_id: str = "one", **values: Any) -> AAR:
    """A job that any receiver takes."""
    made = bare(job_id, MAY, f"4{job_id}")._replace(
        record_id=1, status="completed", exit_code=0, submit_time=MAY - 100, wall_s=50, cpu_user_s=40, vo="atlas",
        endpoint_type="org.nordugrid.arcrest", endpoint_url="https://ce.example.org:443/arex", queue="main",
        user_dn="/CN=Ada",
    )  # fmt: skip
    return made._replace(**values)
