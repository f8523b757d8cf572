"""`arcacct features`: data for jobs about their machine and themselves (HSF-TN-2016-02)."""

from __future__ import annotations

import os
import pwd
from contextlib import closing

import click

from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import INSTANT, Decorator, FormerOption, conf_of, in_order, places_of, settings_of, together
from arcacct.cli.queries import RATING
from arcacct.cli.tables import LISTED, TOLD, format_option, show_object
from arcacct.cli.tables import show as show_rows
from arcacct.database.access import accounting, read_accounting
from arcacct.errors import InputError, UsageError
from arcacct.records.reader import by_job_id
from arcacct.sources.features import values as features_values
from arcacct.sources.features.check import RULES
from arcacct.sources.features.check import check as check_all
from arcacct.sources.features.collect import collect
from arcacct.sources.features.http import Web
from arcacct.sources.features.reader import JOB_KEYS, MACHINE_KEYS, Key, missing, read, remaining_s
from arcacct.sources.features.reader import remove as remove_directory
from arcacct.sources.features.values import NAMES, default_file, from_here, job_values_of_environment, locations, valid
from arcacct.wording import count_of

_FORCE = click.option("--force", is_flag=True, help="Also write keys that look wrong or should not change.")
_HEPSCORE = click.option("--hepscore-is-hs06", is_flag=True, help="Also write a rating in HEPscore23 as hs06.")


def _key_options(keys: tuple[Key, ...], but: tuple[str, ...] = ()) -> Decorator:
    """One option for each key of the specification; the command gets the keys that have a value as ``given``."""

    def given(**values: str | None) -> dict[str, str]:
        return {key: value for key, value in values.items() if value is not None}

    wanted = {key.name: key.meaning for key in keys if key.name not in but}
    return in_order(
        *(
            click.option(f"--{name.replace('_', '-')}", name, metavar="VALUE", help=f"{meaning}.")
            for name, meaning in wanted.items()
        ),
        together(given, "given", wanted),
    )


_places = in_order(
    click.option("--machine", metavar="PLACE", help="Directory or URL; default: $MACHINEFEATURES."),
    click.option("--job", metavar="PLACE", help="Directory or URL; default: $JOBFEATURES."),
    click.option("--metadata-url", metavar="URL", help="A cloud's metadata service that names both directories."),
    click.option("--metadata-file", metavar="FILE", help="File for its answer, because it may be asked only once."),
    together(dict, "where", ("machine", "job", "metadata_url", "metadata_file")),
)
"""The options that say where features are; the command gets them as ``where``."""


@click.group(epilog=examples("arcacct features show", "arcacct features check"))
def features() -> None:
    """Write, show and check machine and job features."""


@features.group(epilog=examples("arcacct features machine write /etc/machinefeatures"))
def machine() -> None:
    """Features of this machine."""


@features.group(epilog=examples("arcacct features job write /tmp/job1/jobfeatures"))
def job() -> None:
    """Features of one job."""


@machine.command(
    "write", epilog=examples("arcacct features machine write /etc/machinefeatures --benchmark HEPscore23:12.3")
)
@click.argument("directory")
@click.option("--benchmark", type=RATING, metavar="TYPE:VALUE", help="Rating of one core, to calculate hs06.")
@_HEPSCORE
@_key_options(MACHINE_KEYS, ("total_cpu", "hs06"))
@click.option("--total-cpu", type=click.IntRange(min=1), help="Processors for jobs; default: all of the system.")
@click.option("--hs06", metavar="VALUE", help="HS06 rating of the whole machine.")
@_FORCE
def machine_write(
    directory: str,
    benchmark: str | None,
    hepscore_is_hs06: bool,
    total_cpu: int | None,
    hs06: str | None,
    force: bool,
    given: dict[str, str],
) -> None:
    """Write the features of this machine into DIRECTORY."""
    values = features_values.machine_values(total_cpu, hs06, benchmark, hepscore_is_hs06=hepscore_is_hs06) | given
    features_values.write_machine(directory, values, force=force)
    _say_values(values)


@job.command("write", epilog=examples("arcacct features job write /tmp/job1/jobfeatures"))
@click.argument("directory")
@_key_options(JOB_KEYS)
@click.option(
    "--environment/--no-environment",
    default=True,
    help="Take missing values from the batch system's environment variables.",
)
@click.option("--record", metavar="JOBID", help="Take missing values from JOBID's record.")
@_HEPSCORE
@click.option("--machine", "machine_place", metavar="PLACE", help="Features of the machine, for the share of hs06.")
@click.option("--owner", metavar="USER", help="Give directory and files to this user.")
@_FORCE
@click.pass_context
def job_write(
    ctx: click.Context,
    directory: str,
    environment: bool,
    record: str | None,
    hepscore_is_hs06: bool,
    machine_place: str | None,
    owner: str | None,
    force: bool,
    given: dict[str, str],
) -> None:
    """
    Write the features of a job into DIRECTORY.

    Options have priority over the environment of a batch system (Slurm, Torque, LSF, Grid Engine; for HTCondor also the
    ads of job and slot that it names), and this over our record. If there is no value, nothing is written, and the exit
    code is 64.
    """
    values: dict[str, str] = {}
    if record:
        with closing(read_accounting(settings_of(ctx).places)) as con:
            aar = by_job_id(con, [record]).get(record)
        if aar is None:
            raise InputError(f"{record}: this job has no record")
        values = features_values.job_values_of_record(aar, hepscore_is_hs06=hepscore_is_hs06)
    values |= (job_values_of_environment(os.environ) if environment else {}) | given
    if not values:
        raise UsageError(
            f"{directory}: nothing to write: no option gives a value, and this is not the environment of a job of "
            f"{NAMES}; run it in the job or in its prologue, or give values"
        )
    place = from_here(machine_place) if machine_place else os.environ.get("MACHINEFEATURES")
    values |= features_values.share_of_machine(values, read(valid({"machine": place})["machine"]) if place else None)
    ids = None
    if owner is not None:
        try:
            known = pwd.getpwnam(owner)
        except KeyError:
            raise UsageError(f"--owner {owner}: this host has no such user") from None
        ids = known.pw_uid, known.pw_gid
    features_values.write_job(directory, values, force=force, owner=ids)
    _say_values(values)


@job.command("set", epilog=examples("arcacct features job set /tmp/job1/jobfeatures wall_limit_secs 86400"))
@click.argument("directory")
@click.argument("key")
@click.argument("value")
@_FORCE
def job_set(directory: str, key: str, value: str, force: bool) -> None:
    """Write one KEY of a job; keys outside the specification are allowed."""
    features_values.write_job(directory, {key: value}, force=force)


@job.command("remove", epilog=examples("arcacct features job remove /tmp/job1/jobfeatures"))
@click.argument("directory")
def job_remove(directory: str) -> None:
    """Remove a job's DIRECTORY, after the job; does nothing if the directory contains anything but keys."""
    remove_directory(directory)


@features.group(epilog=examples("arcacct features shutdown clear /etc/machinefeatures"))
def shutdown() -> None:
    """Announce a shutdown, or cancel it."""


@shutdown.command("set", epilog=examples("arcacct features shutdown set /etc/machinefeatures 2026-12-01T06:00:00"))
@click.argument("directory")
@click.argument("when", type=INSTANT)
@click.option("--job", "of_job", is_flag=True, help="DIRECTORY is a job's: the job is shut down, not the machine.")
@_FORCE
def shutdown_set(directory: str, when: int, of_job: bool, force: bool) -> None:
    """Announce in DIRECTORY that jobs must end by WHEN; not earlier than its grace_secs allows."""
    features_values.set_shutdown(directory, when, job=of_job, force=force)


@shutdown.command("clear", epilog=examples("arcacct features shutdown clear /etc/machinefeatures"))
@click.argument("directory")
@click.option("--job", "of_job", is_flag=True, help="DIRECTORY is a job's.")
def shutdown_clear(directory: str, of_job: bool) -> None:
    """Cancel the announcement: without a file, no shutdown is planned."""
    features_values.clear_shutdown(directory, job=of_job)


@features.command(epilog=examples("arcacct features show"))
@click.pass_context
@_places
@format_option(TOLD, "an object with machine, job and remaining_secs")
def show(ctx: click.Context, where: dict[str, str | None], form: str) -> int:
    """Show what a job would read: values, missing or wrong keys, the remaining time."""
    web, places = _found(ctx, where)
    found = {kind: read(place, fetch=web.get) for kind, place in valid(places).items()}
    left = remaining_s(found.get("machine"), found.get("job"))
    code = InputError.exit_code if any(one.warnings for one in found.values()) else 0
    if form == "json":
        of_places = {
            kind: {
                "location": one.location,
                "values": one.values | one.extra,
                "missing": list(missing(one, kind)),
                "warnings": list(one.warnings),
            }
            for kind, one in found.items()
        }
        show_object(of_places | {"remaining_secs": left})
        return code
    for kind, one in found.items():
        print_line(f"{kind} {one.location}")
        _say_values(one.values | one.extra)
        print_error(*(f"{kind}: {key} is missing" for key in missing(one, kind)))
        print_error(*(f"{kind}: {warning}" for warning in one.warnings))
    print_line(f"remaining_secs {'unlimited' if left is None else left}")
    return code


@features.command(epilog=examples("arcacct features check"))
@click.pass_context
@_places
@format_option(LISTED)
def check(ctx: click.Context, where: dict[str, str | None], form: str) -> int:
    """Check the features with 35 rules, one verdict per line; exits with 65 if one says fail."""
    web, places = _found(ctx, where)
    verdicts = check_all(places, web=web)
    if form == "text":
        for verdict in verdicts:
            print_line(str(verdict))
    else:
        rows = ((one.rule, one.verdict, RULES[one.rule].title, one.reason) for one in verdicts)
        show_rows(("rule", "verdict", "title", "reason"), rows, form)
    return InputError.exit_code if any(verdict.verdict == "fail" for verdict in verdicts) else 0


@features.command(epilog=examples("arcacct features record --pattern '/var/spool/arc/features/{jobid}'"))
@click.argument("jobid", nargs=-1)
@click.option("--pattern", metavar="PATTERN", help="Path of the saved features, with {jobid}. Required.")
@click.option("--from", "former", cls=FormerOption, metavar="PATTERN", new="`--pattern PATTERN`")
@click.option("--retry", is_flag=True, help="Only jobs whose features could not be used, see `import rejected`.")
@click.pass_context
def record(ctx: click.Context, jobid: tuple[str, ...], *, pattern: str | None, former: str | None, retry: bool) -> int:
    """
    Add features saved by jobs' wrappers to their records.

    PATTERN is a directory or a file of key=value lines for each job, e.g. in its session directory. Default for JOBID:
    all jobs that ended since the last run. hs06_job divided by allocated_cpu becomes the benchmark.
    """
    pattern = pattern or former
    if pattern is None:
        raise click.MissingParameter(ctx=ctx, param_hint="'--pattern'", param_type="option")
    here = places_of(ctx)
    with accounting(here) as con:
        done = collect(con, here, pattern, jobid, retry=retry)
    print_error(*done.complaints)
    for one in done.not_rejected:
        print_line(f"{one}: no features of this job are rejected, nothing to retry", err=True)
    if retry and not jobid and not done.looked_at:
        print_line("no features are rejected, nothing to retry", err=True)
    print_line(
        f"{count_of(done.looked_at, 'job')} looked at, {done.found} with features, "
        f"{count_of(done.changed, 'record')} changed"
    )
    return InputError.exit_code if done.complaints else 0


def _found(ctx: click.Context, where: dict[str, str | None]) -> tuple[Web, dict[str, str]]:
    """The web, and the place of features; it trusts the grid's authorities, which a worker node may lack."""
    ca_dir = conf_of(ctx).get("common", "x509_cert_dir", "/etc/grid-security/certificates")
    web = Web(ca_dir if ca_dir and os.path.isdir(ca_dir) else None)
    where["metadata_file"] = where["metadata_file"] or default_file(os.environ)
    found = locations(os.environ, **where, fetch=web.get)
    if not found:
        raise UsageError("neither $MACHINEFEATURES nor $JOBFEATURES is set; pass --machine or --job")
    return web, found


def _say_values(values: dict[str, str]) -> None:
    for key, value in values.items():
        print_line(f"{key} {value}")
