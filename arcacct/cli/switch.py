"""`arcacct switch`: taking over from jura-ng."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import click

from arcacct.arex.import_database import arex_databases
from arcacct.cli.console import ask, examples, print_line
from arcacct.cli.options import MONTH, name_of_user, plan_option, settings_of, yes_option
from arcacct.cli.tables import format_option, show
from arcacct.cli.targets import complete_target
from arcacct.config.settings import Settings
from arcacct.database import access
from arcacct.errors import FiguresHeld, UsageError
from arcacct.publishing.former_publisher import former_publisher
from arcacct.publishing.held_texts import month_names
from arcacct.publishing.plugin import TargetPlugin
from arcacct.targets import plugins
from arcacct.targets.apel import jura
from arcacct.targets.apel.jura import JobsOfMonth, SumsOfMonth, TargetPlan, hours
from arcacct.targets.apel.summaries import SummaryKey
from arcacct.times import Month, month_name
from arcacct.wording import count_of

_COLUMNS = (
    "target", "month", "replaced", "jobs", "wall_h", "user", "vo", "group", "role", "submit_host", "nodes", "cores",
    "service_level",
)  # fmt: skip
_SHOWN = 20


@click.command(
    epilog=examples("arcacct switch --plan", "arcacct switch --target apel:egi --yes", "arcacct switch --decline")
)
@click.argument("path", required=False)
@plan_option("Show the plan; change nothing.")
@click.option(
    "--target", metavar="NAME", shell_complete=complete_target, help="Only this target: apel:x, directory:x, or x."
)
@click.option(
    "--month",
    "months",
    type=MONTH,
    multiple=True,
    metavar="YYYY-MM",
    help="This month, repeatable; default: the month of jura-ng's last job, the one before, and the months on hold.",
)
@click.option(
    "--arc",
    type=click.Choice(["6", "7"]),
    help="The release of ARC whose jura-ng published; default: that of A-REX's database.",
)
@click.option(
    "--decline", is_flag=True, help="Leave jura-ng's sums at APEL and send ours in addition; your name is stored."
)
@yes_option()
@format_option()
@click.pass_context
def switch(
    ctx: click.Context,
    /,
    *,
    path: str | None,
    plan_only: bool,
    target: str | None,
    months: Sequence[Month],
    arc: str | None,
    decline: bool,
    yes: bool,
    form: str,
) -> None:
    """
    Take over from jura-ng without counting a job twice.

    jura-ng sent summaries under its own keys, and APEL would add our summaries to them. This command stores the keys
    that our records do not replace, and the next `arcacct publish` sends zeros for them. Until then, or until you
    decline, `arcacct publish` sends no sums of these months (69). The command itself sends nothing, and you can repeat
    it.

    PATH is an accounting.db (ARC 6) or accounting_v2.db (ARC 7) with jura-ng's publishing.db next to it; default: those
    of the control directory.
    """
    # A plan is made while jura-ng still publishes, with the present configuration.
    settings = settings_of(ctx, to_publish=not plan_only)
    if decline:
        if plan_only or path or arc:
            raise UsageError("--decline takes over nothing: use it only with --target, --month and --yes")
        _decline(settings, plugins(settings, target), months, yes=yes)
        return
    databases = [path] if path else arex_databases(settings.places.controldir)
    plans = jura.plan(settings, plugins(settings, target), databases, months, int(arc) if arc else None)
    rows = [row for one in plans for row in _rows(one)]
    if rows or form != "table":
        show(_COLUMNS, rows, form)
    for one in plans:
        _tell(one)
    if plan_only:
        return
    is_needed = any(map(jura.left, plans))
    if is_needed:
        ask("store these keys?", yes=yes)
    for name, new in jura.take_over(settings, plans, name_of_user()).items():
        words = (
            f"{count_of(new, 'key')} stored: the next `arcacct publish` sends zeros for them"
            if new
            else "everything was already stored"
        )
        print_line(f"{name}: {words}", err=True)
    unknown = [one.target for one in plans if one.sums and not one.settles]
    if unknown:
        raise FiguresHeld(
            f"{', '.join(unknown)}: not settled: the given databases of A-REX do not have jura-ng's messages"
        )
    if not is_needed:
        print_line("nothing to store: our records replace all that APEL has", err=True)


def _decline(settings: Settings, targets: Sequence[TargetPlugin], months: Sequence[Month], *, yes: bool) -> None:
    """Store that jura-ng's sums stay: of ``months``, or of all that are not settled yet."""
    here = settings.places
    with access.translating(here.publishing_database), closing(access.read_publishing(here)) as ledger:
        found = [(one.target, former_publisher(one, ledger)) for one in targets]
    left = {
        target: chosen
        for target, former in found
        if former is not None and former.adds_up and (chosen := months or former.open)
    }
    for target, some in left.items():
        print_line(
            f"{target.name}: jura-ng's sums of {month_names(some)} stay, and count in addition to ours", err=True
        )
    if not left:
        print_line("nothing to decline: every month is settled, or jura-ng published none", err=True)
        return
    ask("is that intended?", yes=yes)
    jura.decline(settings, {target.block: some for target, some in left.items()}, name_of_user())


def _rows(one: TargetPlan) -> Iterator[tuple[object, ...]]:
    for month in one.sums:
        left = {summary.key for summary in month.left}
        told: list[tuple[str, SummaryKey, int | None, float | None]] = [
            ("no" if summary.key in left else "yes", summary.spelling, summary.jobs, round(summary.wall_s / 3600, 2))
            for summary in month.sums
        ]
        told += [("perhaps", key, None, None) for key in month.perhaps]
        for replaced, key, jobs, wall_h in told:
            level = f"{key.benchmark_type}:{key.benchmark_value}"
            yield (
                one.target, month_name(month.month), replaced, jobs, wall_h, key.user, key.vo, key.group, key.role,
                key.submit_host, key.node_count, key.processors, level,
            )  # fmt: skip


def _tell(one: TargetPlan) -> None:
    told = [one.says, *map(_sentence, one.sums)]
    for jobs in one.jobs:
        told.append(_job_sentence(jobs))
        told += [f"{job_id}: recorded here with another end or batch system id" for job_id in jobs.differing[:_SHOWN]]
        told += [f"{job_id}: resumed; APEL may also have it with an earlier end" for job_id in jobs.again[:_SHOWN]]
    for text in (*told, *one.notes):
        print_line(f"{one.target}: {text}", err=True)


def _sentence(one: SumsOfMonth) -> str:
    if not one.sums:
        return f"{month_name(one.month)}: the given databases of A-REX have no messages of jura-ng"
    jobs, wall_s = sum(summary.jobs for summary in one.sums), sum(summary.wall_s for summary in one.sums)
    twice, twice_s = sum(summary.jobs for summary in one.left), sum(summary.wall_s for summary in one.left)
    return (
        f"{month_name(one.month)}: APEL has {count_of(jobs, 'job')} and {hours(wall_s)} hours from jura-ng under"
        f" {count_of(len(one.sums), 'key')}; our records do not replace {len(one.left)} of them: "
        f"{count_of(twice, 'job')} and {hours(twice_s)} hours would count"
        f" twice. This database has {count_of(one.ours[0], 'job')} and {hours(one.ours[1])} hours"
    ) + _counts(one.syncs)


def _job_sentence(one: JobsOfMonth) -> str:
    if not one.jobs:
        return f"{month_name(one.month)}: the given databases of A-REX have no messages of jura-ng"
    same = one.jobs - len(one.differing)
    return (
        f"{month_name(one.month)}: APEL has {count_of(one.jobs, 'job record')} and {hours(one.wall_s)} hours from"
        f" jura-ng; our records replace {same} of them (same id and end), {len(one.differing)} would count twice"
    ) + _counts(one.syncs)


def _counts(syncs: Sequence[object]) -> str:
    return f". Its sync message counts {len(syncs)} SubmitHosts that our sync message does not have" if syncs else ""
