"""The report of a month over many CEs: the tables that a dataset can fill, and usage by site and CE."""

from __future__ import annotations

from collections.abc import Sequence

from arcacct.fleet.dataset import Dataset, Engine, Exported, dataset
from arcacct.fleet.engine import answered
from arcacct.fleet.usage import FleetSelection, concerned, first_end_s, tables_of, usage, waits
from arcacct.queries.questions import Selection
from arcacct.queries.usage import UsageTable
from arcacct.records.pseudonyms import Names
from arcacct.reports.capacity import Capacity
from arcacct.reports.month import BY_DAY, by_day_with_vo, job_sizes, top_users, usage_by
from arcacct.reports.tables import Column, Report, Table
from arcacct.reports.trends import Recording, first_month, over_time, sizes, use_of_pledge, waiting
from arcacct.times import Month, iso, month_bounds
from arcacct.wording import count_of

_NO_CAPACITY = Capacity({}, "", "the dataset does not have the installed cores; each CE's own report does")


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
    Report a month of all CEs in these datasets, and the problems of files that were left out.

    Raises InputError for a directory without a dataset, and for an unusable file of pledges.
    """
    start_s, before_s = month_bounds(*month)
    of_month = Selection(from_s=start_s, before_s=before_s)
    of_years = Selection(from_s=month_bounds(*first_month(month))[0], before_s=before_s)

    def tables(engine: Engine) -> tuple[Table, ...]:
        def ask(by: Sequence[str]) -> UsageTable:
            # A CE is named by its site, too.
            keys = ("site", "ce") if tuple(by) == ("ce",) else by
            answer = usage(engine, of_month, keys, details=True)
            return answer if keys == by else _joined(answer)

        def ask_of(selection: Selection, by: Sequence[str]) -> UsageTable:
            return usage(engine, selection, by, details=False, exact=True)

        by_vo = usage_by(ask, "vo", Table("vo", "Usage by VO", "VO", ()))
        over = over_time(ask_of, month, _NO_CAPACITY, written_s, recorded)
        jobs = 0 if by_vo.total is None else int(by_vo.number(by_vo.total, "jobs"))
        by_walltime = [
            (str(of["walltime"]) if of["walltime"] else None, int(str(of["jobs"])), float(of["core_hours"] or 0))
            for of in ask(("walltime",)).named()
        ]
        return (
            by_vo,
            over.history,
            *use_of_pledge(ask_of, month, pledge, recorded),
            over.year,
            over.utilisation,
            usage_by(ask, "site", Table("site", "Usage by site", "Site", ())),
            usage_by(ask, "ce", Table("ce", "Usage by CE", "CE (site)", ())),
            usage_by(ask, "day", BY_DAY),
            by_day_with_vo(ask, start_s).table,
            waiting(waits(engine, of_month), jobs, 1),
            job_sizes(ask),
            sizes("walltime", "Wall time of jobs", "Wall time", by_walltime),
            top_users(ask, users, pseudonyms),
        )

    every = dataset(directories)
    recorded = Recording(_first_end_s(every))
    every = concerned(every, of_years, FleetSelection())
    made, read = answered("duckdb", every, tables, tables_of(of_years, measured=False))
    found = concerned(read, of_month, FleetSelection())
    if found.problems:
        # Readers of the page do not see the command's output.
        problems = f"{count_of(len(found.problems), 'problem')} with the exported files"
        note = f"The figures may be incomplete: {problems}; `arcacct fleet verify` names each."
        made = (made[0]._replace(notes=(*made[0].notes, note)), *made[1:])
    sites = {one.partition.site for one in found.partitions}
    title = f"{count_of(len(sites), 'site')} with {count_of(len(found.partitions), 'CE')}"
    report = Report(title, month, written_s, (*made, _completeness(found)), first_end_s=recorded.first_end_s)
    return report, found.problems


def _first_end_s(every: Dataset) -> int:
    """
    When the first job that counts ended, UTC seconds; 0 without any.

    Asked month by month, since almost always the first has one: all files of a dataset would be read for it.
    """
    by_month: dict[Month, list[Exported]] = {}
    for one in every.partitions:
        if one.jobs.rows:
            by_month.setdefault((one.partition.year, one.partition.month), []).append(one)
    for month in sorted(by_month):
        found, _read = answered("duckdb", every.only(by_month[month]), first_end_s, ("jobs",))
        if found is not None:
            return found
    return 0


def _joined(answer: UsageTable) -> UsageTable:
    """CE and site as one name, the CE first: charts have little room."""
    rows = [(f"{ce} ({site})", *amounts) for site, ce, *amounts in answer.rows]
    return UsageTable(answer.columns[1:], rows, answer.total[1:])


def _completeness(found: Dataset) -> Table:
    """When each CE exported the month; missing CEs are unknown, because there is no list of CEs."""
    columns = (Column("jobs", "Jobs", "jobs"), Column("written", "Exported"), Column("names", "Names of users"))
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
