"""`arcacct republish`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing

import click

from arcacct.cli.console import confirm, examples, print_error, print_line
from arcacct.cli.options import INSTANT, conf_of, conf_option, in_order, plan_option, settings_of, together, yes_option
from arcacct.cli.progress import at_work
from arcacct.cli.tables import lines
from arcacct.cli.targets import announce, complete_target, exit_code, show
from arcacct.config.options import named
from arcacct.config.settings import Settings, settings
from arcacct.database import access
from arcacct.errors import UsageError
from arcacct.publishing import run, target_run
from arcacct.publishing.plugin import TargetPlugin
from arcacct.queries.usage import COLUMNS, rows
from arcacct.records.benchmarks import Ratings, plan
from arcacct.targets import built_in, kinds, plugins
from arcacct.times import iso

# `arcacct republish`.


_OF_URLS = {
    "--apel-topic": ("topic", "With --apel-url"),
    "--apel-project": ("project", "With --apel-url"),
    "--apel-messages": ("apel_messages", "With --apel-url"),
    "--gocdb-name": ("gocdb_name", "With --apel-url"),
    "--localid-prefix": ("localid_prefix", "With a URL"),
    "--vofilter": ("vofilter", "With a URL"),
    "--urbatchsize": ("urbatchsize", "With a URL"),
}
"""Options of a target that only the command line knows: their names in the configuration, which judges them."""
_NOTHING = "nothing to send"


def _period(from_s: int | None, to_s: int | None, after_s: int | None, till_s: int | None) -> target_run.Period:
    """``[from, to)``, or arcctl's ``(after, till]``: end times are whole seconds."""
    first = from_s if from_s is not None else None if after_s is None else after_s + 1
    before = to_s if to_s is not None else None if till_s is None else till_s + 1
    if first is None or before is None:
        raise UsageError("pass a period: --from TIME --to TIME (or arcctl's -b TIME -e TIME)")
    if first >= before:
        raise UsageError(f"nothing ends between {iso(first)} and {iso(before)}: the period must start before it ends")
    return target_run.Period(first, before)


@click.command(
    short_help="Send the records of a period again.",
    epilog=examples(
        "arcacct republish --from 2026-10-01 --to 2026-11-01 --plan",
        "arcacct republish --from 2026-10-01 --to 2026-11-01 --target apel:egi --yes",
        "arcacct republish --from 2026-10-01 --to 2026-11-01 --target apel:egi --receiver-rows rows.tsv",
    ),
)
@click.option("--from", "from_s", type=INSTANT, help="Start of the period (inclusive).")
@click.option("--to", "to_s", type=INSTANT, help="End of the period (exclusive).")
@click.option("-b", "--end-from", "after_s", type=INSTANT, help="Start of the period as in arcctl (exclusive).")
@click.option("-e", "--end-till", "till_s", type=INSTANT, help="End of the period as in arcctl (inclusive).")
@click.option(
    "-t",
    "--target",
    "--target-name",
    metavar="NAME",
    shell_complete=complete_target,
    help="Only this target: sgas:x, apel:x, directory:x, or x.",
)
@click.option("-a", "--apel-url", metavar="URL", help="Send to AMS at this URL, without configuration.")
@click.option("-s", "--sgas-url", metavar="URL", help="Send to SGAS at this URL, without configuration.")
@in_order(
    *(
        conf_option(named(built_in("arex/jura/apel").options, name), f"{when}: {{}}.", flag)
        for flag, (name, when) in _OF_URLS.items()
    )
)
@click.option(
    "--receiver-rows",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="Export of APEL's tables: zeros are sent for rows of this CE that arcacct does not publish. Repeatable.",
)
@plan_option("Show the plan; send nothing.")
@click.option("--write-to", metavar="DIR", help="Write the exact messages to a directory; send nothing.")
@yes_option()
@click.pass_context
@together(_period, "period", ("from_s", "to_s", "after_s", "till_s"))
@together(dict, "of_url", [name for name, _when in _OF_URLS.values()])
def republish(
    ctx: click.Context,
    *,
    period: target_run.Period,
    target: str | None,
    apel_url: str | None,
    sgas_url: str | None,
    receiver_rows: tuple[str, ...],
    plan_only: bool,
    write_to: str | None,
    yes: bool,
    of_url: dict[str, str | None],
) -> int:
    """
    Send the records of a period again: jobs with FROM <= end time < TO, all times UTC.

    First shows the plan. Summaries are always sent as whole months. SGAS ignores records that it has, APEL replaces
    them. Outdated keys at APEL are sent with zeros. You can repeat an interrupted republish.
    """
    found, targets = _targets(ctx, target, apel_url, sgas_url, of_url)
    if receiver_rows and len(targets) > 1:
        raise UsageError("--receiver-rows needs one receiver: pass --target NAME")
    if not plan_only and write_to is None:
        access.refuse_unasked(found.places)
    print_line(f"jobs that ended from {iso(period.from_s)} to before {iso(period.before_s)}", err=True)
    complaints: list[str] = []
    with at_work("planning"):
        options = target_run.RunOptions(
            dry_run=True, write_to=write_to, receiver_rows=receiver_rows, announce=announce, complain=complaints.append
        )
        planned = run.republish(found, targets, period, options)
    show(planned, planned=True, nothing=_NOTHING)
    _tell_ratings(found, period)
    if plan_only or write_to is not None or not any(one.summary.sent or one.error for one in planned):
        print_error(*complaints)
        return exit_code(planned, complaints)
    if sys.stdin.isatty() and not yes:
        confirm("send this?")
    options = target_run.RunOptions(receiver_rows=receiver_rows, complain=complaints.append)
    if sys.stderr.isatty():
        total = sum(sent.messages for outcome in planned for sent in outcome.summary.sent.values())
        with click.progressbar(length=total, label="messages", file=sys.stderr) as bar:
            told = options._replace(watch=lambda _target, _summary: bar.update(1))
            outcomes = run.republish(found, targets, period, told)
    else:
        outcomes = run.republish(found, targets, period, options)
    print_error(*complaints)
    show(outcomes, reported=planned, nothing=_NOTHING)
    return exit_code(outcomes, complaints)


def _tell_ratings(found: Settings, period: target_run.Period) -> None:
    """Print how the configuration's benchmarks would change the period, if they differ from the recorded ones."""
    if not found.queue_benchmarks and not found.node_benchmarks:
        return
    options = Ratings(*period, (found.places.rules.default_benchmark,), found.queue_benchmarks, found.node_benchmarks)
    with closing(access.read_accounting(found.places)) as con:
        changes = plan(con, options)
    if changes:
        print_error(
            "the configuration has other benchmarks for jobs of this period than were recorded, and recorded ones are"
            " sent; `arcacct db benchmark` would make these corrections:"
        )
        for line in lines(COLUMNS, rows(changes), "table"):
            print_line(line, err=True)


def _targets(
    ctx: click.Context, name: str | None, apel_url: str | None, sgas_url: str | None, of_url: dict[str, str | None]
) -> tuple[Settings, Sequence[TargetPlugin]]:
    """The targets that are meant: configured ones, or one that only the command line knows."""
    if sum(choice is not None for choice in (name, apel_url, sgas_url)) > 1:
        raise UsageError("pass one of --target, --apel-url and --sgas-url")
    url = apel_url or sgas_url
    if url is None:
        for flag, (option, _when) in _OF_URLS.items():
            if of_url[option] is not None:
                raise UsageError(f"{flag} needs --apel-url or --sgas-url")
        found = settings_of(ctx, to_publish=True)
        return found, plugins(found, name)
    kind = "arex/jura/apel" if apel_url else "arex/jura/sgas"
    conf = conf_of(ctx)
    lines = [
        f"[{kind}:command-line]",
        f"targeturl={url}",
        *(f"{option}={value}" for option, value in of_url.items() if value is not None),
    ]
    conf.add("\n".join(lines) + "\n", "command line")
    found = settings(conf, kinds(conf), database=ctx.obj["database"])
    return found, plugins(found, f"{kind}:command-line")
