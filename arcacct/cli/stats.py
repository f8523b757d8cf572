"""`arcacct stats`: arcctl's questions, and usage by whatever is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from arcacct.asking import arcctl as words
from arcacct.asking import questions
from arcacct.asking.questions import Selection
from arcacct.asking.usage import usage
from arcacct.asking.usage_table import NEEDS
from arcacct.cli import stats_gridengine
from arcacct.cli.asking import arcctl_option, arcctl_version, asking, completed
from arcacct.cli.examples import examples
from arcacct.cli.instants import INSTANT
from arcacct.cli.speech import data, say
from arcacct.cli.tables import format_option, lines
from arcacct.errors import UsageError
from arcacct.jobs.states import FINAL, IN_PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.db.engine import Connection

OUTPUTS = (
    "brief",
    "jobcount",
    "walltime",
    "cputime",
    "data-staged-in",
    "data-staged-out",
    "wlcgvos",
    "fqans",
    "users",
    "jobids",
    "json",
)


@click.command(
    short_help="Sums over jobs, as arcctl prints them or by month, VO, user, ...",
    epilog=examples(
        "arcacct stats -b 2026-11-01 -e 2026-12-01 --filter-vo atlas",
        "arcacct stats -o json",
        "arcacct stats --by month,vo --format csv",
        "arcacct stats --from 2026-11-01 --to 2026-12-01 --by user,queue --details",
        "arcacct stats --gridengine --by owner,project -d 30",
    ),
)
@click.option("-b", "--end-from", type=INSTANT, metavar="TIME", help="Jobs that ended after this time (UTC).")
@click.option("-e", "--end-till", type=INSTANT, metavar="TIME", help="Jobs that ended at this time or before.")
@click.option("-s", "--start-from", type=INSTANT, metavar="TIME", help="Jobs that were submitted after this time.")
@click.option("--from", "from_s", type=INSTANT, metavar="TIME", help="Jobs that ended at this time or later.")
@click.option("--to", "before_s", type=INSTANT, metavar="TIME", help="Jobs that ended before this time.")
@click.option("--filter-vo", multiple=True, metavar="VO", shell_complete=completed("vo"), help="Jobs of this VO.")
@click.option(
    "--filter-fqan", multiple=True, metavar="FQAN", shell_complete=completed("fqan"), help="With this first FQAN."
)
@click.option("--filter-user", multiple=True, metavar="DN", shell_complete=completed("user"), help="Of this user.")
@click.option(
    "--filter-state", multiple=True, metavar="STATE", shell_complete=completed("state"), help="In this state."
)
@click.option(
    "--filter-queue", multiple=True, metavar="QUEUE", shell_complete=completed("queue"), help="Of this queue."
)
@click.option(
    "--filter-endpoint",
    multiple=True,
    metavar="TYPE",
    shell_complete=completed("endpoint"),
    help="Submitted by this type of interface.",
)
@click.option(
    "--filter-extra",
    nargs=2,
    multiple=True,
    metavar="ATTRIBUTE VALUE",
    help="With this jobname, projectname, vomsfqan, rte, dtrurl, ...",
)
@click.option("-a", "--show-active", is_flag=True, help="Also jobs that are not at their end.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), help="What arcctl prints for this; default brief.")
@arcctl_option
@click.option("--by", metavar="COLUMN,...", help=f"A table by any of {', '.join(NEEDS)}.")
@click.option("--details", is_flag=True, help="With --by: failed jobs and data volumes too.")
@format_option
@stats_gridengine.gridengine_options
@click.pass_context
def stats(ctx: click.Context, /, **given: Any) -> None:
    """
    Sums over jobs, as arcctl prints them or by month, VO, user, ...

    Without --by the options and the output are those of arcctl accounting stats, of ARC 6 or ARC 7, times in UTC. With
    --by: jobs, wall and CPU time in s, core hours, core hours times benchmark, CPU time over core time; of finished
    jobs as they are published, or of any with -a, --filter-state or --by status. --filter-... can be repeated.

    With --gridengine: of records of Grid Engine instead of jobs, what qacct answers, and slots times wall clock.
    """
    stats_gridengine.check(given)
    for option, name in (("-o", "output"), ("--arcctl", "arcctl")):
        if given["by"] and given[name]:
            raise UsageError(f"--by makes a table of its own, {option} prints what arcctl prints: give one of them")
    is_table = given["form"] == "table" if given["by"] or given["gridengine"] else given["output"] != "json"
    out = say if is_table else data
    with asking(ctx) as con:
        for line in stats_gridengine.answer(con, given) if given["gridengine"] else _of_jobs(con, given):
            out(line)


def _of_jobs(con: Connection, given: dict[str, Any]) -> Iterator[str]:
    chosen = _selection(given)
    for kind, name in questions.unknown_names(con, chosen):
        say(f"arcacct: there are no jobs with {kind} {name} in the database", err=True)
    if chosen.states and given["show_active"]:
        chosen = chosen._replace(states=(*chosen.states, IN_PROGRESS))
    yield from _by(con, chosen, given) if given["by"] else _arcctl(con, chosen, given)


def _selection(given: dict[str, Any]) -> Selection:
    return Selection(
        after_s=given["end_from"],
        until_s=given["end_till"],
        from_s=given["from_s"],
        before_s=given["before_s"],
        users=given["filter_user"],
        vos=given["filter_vo"],
        queues=given["filter_queue"],
        states=given["filter_state"],
        endpoints=given["filter_endpoint"],
        extra=given["filter_extra"],
        submitted_after_s=given["start_from"],
        fqans=given["filter_fqan"],
    )


def _by(con: Connection, chosen: Selection, given: dict[str, Any]) -> Iterator[str]:
    by = tuple(dict.fromkeys(name.strip() for name in given["by"].split(",")))
    for name in by:
        if name not in NEEDS:
            raise UsageError(f"--by {name}: it can be any of {', '.join(NEEDS)}")
    table = usage(con, chosen, by, details=given["details"], active=given["show_active"])
    return lines(table.columns, table.rows, given["form"])


def _arcctl(con: Connection, chosen: Selection, given: dict[str, Any]) -> Iterator[str]:
    output = given["output"] or "brief"
    version = arcctl_version(con, given["arcctl"])
    active = given["show_active"] or version == 6
    if not chosen.states and not active:
        chosen = chosen._replace(states=FINAL)
    if output == "jobids":
        yield from questions.job_ids(con, chosen)
        return
    if output in _NAMES:
        names = _NAMES[output](con, chosen)
        if names != [""]:
            yield from names
        return
    totals = questions.totals(con, chosen)
    if not totals.count:
        say("arcacct: There are no jobs matching defined filtering criteria", err=True)
    if output == "json":
        fqans = [] if version == 6 else questions.fqans(con, chosen)
        users, vos = questions.owners(con, chosen), questions.vos(con, chosen)
        yield json.dumps(words.stats_json(totals, version, users=users, vos=vos, fqans=fqans))
    elif output == "brief":
        if totals.count:
            yield from words.brief(totals, version, active=active)
    else:
        amounts = {
            "jobcount": totals.count,
            "walltime": totals.walltime,
            "cputime": totals.cpuusertime + totals.cpukerneltime,
            "data-staged-in": totals.stagein,
            "data-staged-out": totals.stageout,
        }
        yield str(amounts[output])


_NAMES = {"users": questions.owners, "wlcgvos": questions.vos, "fqans": questions.fqans}
