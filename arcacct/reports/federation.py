"""The report of a month over many CEs: the tables that a dataset can fill, and usage by site and CE."""

from __future__ import annotations

from collections.abc import Sequence

from arcacct.fleet.dataset import Dataset, dataset
from arcacct.fleet.engine import Engine, answered
from arcacct.fleet.usage import FleetSelection, concerned, usage
from arcacct.publishing.ledger_rows import Month, iso, month_bounds
from arcacct.queries.questions import Selection
from arcacct.queries.usage import UsageTable
from arcacct.records.pseudonyms import Names
from arcacct.reports.month import BY_DAY, by_day_with_vo, top_users, usage_by, use_of_pledge
from arcacct.reports.tables import Column, Report, Table, pledges
from arcacct.wording import count_of


def federation_report(
    directories: Sequence[str],
    month: Month,
    written_s: int,
    *,
    pledge: str | None,
    pseudonyms: Names | None,
    users: int,
) -> tuple[Report, Sequence[str]]:
    """
    A month of all CEs in these datasets, and what is wrong with the files that it does not have.

    Raises InputError for a directory without a dataset, and for a file of pledges that cannot be used.
    """
    start_s, before_s = month_bounds(*month)
    promised = None if pledge is None else pledges(pledge, month)
    of_month = Selection(from_s=start_s, before_s=before_s)

    def tables(engine: Engine) -> tuple[Table, ...]:
        def ask(by: Sequence[str]) -> UsageTable:
            # A CE is named by its site, too.
            keys = ("site", "ce") if tuple(by) == ("ce",) else by
            answer = usage(engine, of_month, keys, details=True)
            return answer if keys == by else _joined(answer)

        by_vo = usage_by(ask, "vo", Table("vo", "Usage by VO", "VO", ()))
        return (
            by_vo,
            usage_by(ask, "site", Table("site", "Usage by site", "Site", ())),
            usage_by(ask, "ce", Table("ce", "Usage by CE", "CE (site)", ())),
            usage_by(ask, "day", BY_DAY),
            by_day_with_vo(ask, start_s).table,
            use_of_pledge(by_vo, promised),
            top_users(ask, users, pseudonyms),
        )

    made, found = answered("duckdb", concerned(dataset(directories), of_month, FleetSelection()), tables)
    sites = {one.partition.site for one in found.partitions}
    title = f"{count_of(len(sites), 'site')} with {count_of(len(found.partitions), 'CE')}"
    return Report(title, month, written_s, (*made, _completeness(found))), found.problems


def _joined(answer: UsageTable) -> UsageTable:
    """CE and site as one name, the CE first: charts have little room."""
    rows = [(f"{ce} ({site})", *amounts) for site, ce, *amounts in answer.rows]
    return UsageTable(answer.columns[1:], rows, answer.total[1:])


def _completeness(found: Dataset) -> Table:
    """When each CE exported the month; which have none is not known, since nobody lists those that should."""
    columns = (
        Column("jobs", "Jobs", "jobs"),
        Column("written", "Exported"),
        Column("names", "Names of users"),
    )
    rows = (
        (
            f"{one.partition.ce} ({one.partition.site})",
            {"jobs": one.jobs.rows, "written": iso(one.manifest.written_s), "names": one.manifest.names},
        )
        for one in sorted(found.partitions, key=lambda one: one.partition)
    )
    return Table("export", "What was exported", "CE (site)", columns).filled(
        rows, empty="No CE has exported this month."
    )
