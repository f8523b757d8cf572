"""`arcacct import sonar`: telemetry of clusters, nodes and jobs."""

from __future__ import annotations

from collections import Counter

import click

from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import settings_of
from arcacct.cli.progress import print_retried, progress, until_signal
from arcacct.config.settings import Settings
from arcacct.database.access import accounting
from arcacct.database.connection import Connection
from arcacct.errors import InputError, UsageError
from arcacct.sources.registry import TelemetrySource
from arcacct.sources.sonar.importer import UNJOINED, Importer, SonarReport, has_arex_records
from arcacct.sources.sonar.jobs import Site
from arcacct.wording import count_of


@click.command(
    "sonar",
    epilog=examples(
        "arcacct import sonar /var/lib/sonar/2026-11-20", "arcacct import sonar --follow /var/lib/sonar/samples.jsonl"
    ),
)
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--follow", is_flag=True, help="Keep reading new data, until SIGTERM or Ctrl-C.")
@click.option("--retry", is_flag=True, help="Retry rejected records (see `import rejected`); then read FILE, if given.")
@click.option(
    "--records/--no-records",
    default=None,
    help="Make records of finished Slurm jobs; the default if A-REX has no jobs.",
)
@click.option(
    "--details", is_flag=True, help="Also store Sonar's CPU and GPU percentages and commands for each job and hour."
)
@click.pass_context
def sonar(
    ctx: click.Context, files: tuple[str, ...], *, follow: bool, retry: bool, records: bool | None, details: bool
) -> int:
    """
    Import telemetry of Sonar, or of `arcacct node`.

    FILE is a file of JSON envelopes, compressed or not, a directory of such files, or - for standard input. The result
    does not depend on order or repetition. An unusable value is treated as absent. Unusable records are shown and
    stored (`import rejected`). The exit code is 65 if any is new.
    """
    if not files and not retry:
        raise UsageError("no FILE: pass files or directories of telemetry, or - for standard input")
    settings = settings_of(ctx)
    codes = []
    with accounting(settings.places) as con:
        site = _site(con, settings, records=records, details=details)
        if retry:
            run = Importer(con, settings.places, site, print_error, keeps=False)
            print_retried(run.retry())
            codes.append(_tell(run.report))
        if files:
            with progress("Bytes", has_end=not follow and "-" not in files) as show_progress:
                run = Importer(
                    con, settings.places, site, print_error, lambda _path, done, size: show_progress(done, size)
                )
                if follow:
                    with until_signal() as goes_on:
                        run.follow(files, goes_on=goes_on)
                else:
                    run.files(files)
            codes.append(_tell(run.report))
    return max(codes)


def _site(con: Connection, settings: Settings, *, records: bool | None = None, details: bool = False) -> Site:
    rated = (settings.node_benchmarks, settings.queue_benchmarks, settings.places.rules.default_benchmark)
    return Site(settings.map, *rated, not has_arex_records(con) if records is None else records, details)


def _join(con: Connection, settings: Settings) -> int:
    """
    Add telemetry that came before its records to them, and say how much.

    Returns the number of records to which it cannot be added.
    """
    run = Importer(con, settings.places, _site(con, settings), print_error)
    run.finish()
    if run.report.enriched:
        print_line(f"telemetry of an earlier import added to {count_of(run.report.enriched, 'record')}")
    return run.report.news


def _tell(report: SonarReport) -> int:
    if report.rejected:
        print_error(f"{count_of(report.rejected, 'telemetry record')} not usable; all others are imported")
    if report.dropped:
        fields = ", ".join(f"{field} {count}" for field, count in sorted(report.dropped.items()))
        print_error(f"unusable values, treated as absent: {fields}")
    if report.late:
        print_error(f"hourly totals are final; late samples of {count_of(report.late, 'hour')} ignored")
    if report.unrecorded:
        print_error(
            f"{count_of(report.unrecorded, 'finished Slurm job')} not recorded: each may be a recorded ARC job; "
            "--records makes records of all others"
        )
    for why, count in sorted(Counter(why for why, _record_id in report.unjoined).items()):
        print_error(f"no telemetry added to {count_of(count, 'record')} of {UNJOINED[why]}")
    outside = [samples for samples in report.outside.values() if samples]
    if outside:
        print_error(
            f"{count_of(sum(outside), 'sample')} of {count_of(len(outside), 'job number')} outside every known "
            "run of this number: not added to a job until a run of that time is imported"
        )
    kinds = (
        ", ".join(count_of(count, f"{kind} envelope") for kind, count in sorted(report.envelopes.items())) or "nothing"
    )
    print_line(
        f"{kinds}; {count_of(report.recorded, 'Slurm job')} recorded, {count_of(report.enriched, 'record')} enriched"
    )
    # A record that was rejected before and has not changed is not new.
    return InputError.exit_code if report.news or report.unreadable else 0


SOURCE = TelemetrySource(sonar, _join)
