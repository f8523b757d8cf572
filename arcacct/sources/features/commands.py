"""`arcacct features`: data for jobs about their machine and themselves (HSF-TN-2016-02)."""

from __future__ import annotations

import os
import pwd
from contextlib import closing
from typing import NamedTuple

import click

from arcacct.cli import options
from arcacct.cli.console import examples, print_error, print_line
from arcacct.cli.options import INSTANT, FormerOption, Parsed
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
from arcacct.sources.features.reader import JOB_KEYS, KEYS, LIMITS, MACHINE_KEYS, missing, problem, read, remaining_s
from arcacct.sources.features.reader import remove as remove_directory
from arcacct.sources.features.values import NAMES, default_file, from_here, job_values_of_environment, locations, valid
from arcacct.wording import count_of

_FORCE = click.option("--force", is_flag=True, help="Also write keys that look wrong or should not change.")


_KEYS = {"machine": [key.name for key in MACHINE_KEYS], "job": [key.name for key in JOB_KEYS]}
_FOR = {"benchmark": ("machine",), **dict.fromkeys(("environment", "record", "machine", "owner"), ("job",))}
"""By option of `features write`: the kind of features that it is for."""


class WriteOptions(NamedTuple):
    """Further options of a write."""

    hepscore_is_hs06: bool
    benchmark: str | None
    environment: bool
    record: str | None
    machine: str | None
    owner: str | None
    force: bool


def _pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE`` as a pair. Raises ValueError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not KEY=VALUE; write like {JOB_KEYS[0].name}=4")
    return key, value


def _given(**values: str | None) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


_places = options.in_order(
    click.option("--machine", metavar="PLACE", help="Directory or URL; default: $MACHINEFEATURES."),
    click.option("--job", metavar="PLACE", help="Directory or URL; default: $JOBFEATURES."),
    click.option("--metadata-url", metavar="URL", help="A cloud's metadata service that names both directories."),
    click.option("--metadata-file", metavar="FILE", help="File for its answer, because it may be asked only once."),
    options.together(dict, "where", ("machine", "job", "metadata_url", "metadata_file")),
)
"""The options that say where features are; the command gets them as ``where``."""


@click.group(epilog=examples("arcacct features show", "arcacct features check"))
def features() -> None:
    """Write, show and check machine and job features."""


@features.command(
    epilog=examples(
        "arcacct features write machine /etc/machinefeatures --benchmark HEPscore23:12.3 grace_secs=86400",
        "arcacct features write job /tmp/job1/jobfeatures wall_limit_secs=86400",
    )
)
@click.argument("kind", type=click.Choice(tuple(_KEYS)), metavar="machine|job")
@click.argument("directory")
@click.argument("pairs", nargs=-1, type=Parsed("KEY=VALUE", _pair), metavar="[KEY=VALUE]...")
@click.option("--hepscore-is-hs06", is_flag=True, help="Also write a rating in HEPscore23 as hs06.")
@click.option("--benchmark", type=RATING, metavar="TYPE:VALUE", help="machine: rating of one core, to calculate hs06.")
@click.option(
    "--environment/--no-environment",
    default=True,
    help="job: take missing values from the batch system's environment variables.",
)
@click.option("--record", metavar="JOBID", help="job: take missing values from JOBID's record.")
@click.option("--machine", metavar="PLACE", help="job: features of the machine, for the share of hs06.")
@click.option("--owner", metavar="USER", help="job: give directory and files to this user.")
@_FORCE
@options.in_order(
    *(
        click.option(
            f"--{name.replace('_', '-')}",
            name,
            cls=FormerOption,
            metavar="VALUE",
            new="the key with its value, as `grace_secs=86400`",
        )
        for name in KEYS
    ),
    options.together(_given, "former", KEYS),
)
@options.together(WriteOptions, "given")
@click.pass_context
def write(
    ctx: click.Context,
    kind: str,
    directory: str,
    pairs: tuple[tuple[str, str], ...],
    former: dict[str, str],
    given: WriteOptions,
) -> None:
    """
    Write the features of this machine or of a job into DIRECTORY.

    Keys of a machine: total_cpu (default: as written in DIRECTORY, else all processors of the system), hs06,
    shutdowntime, grace_secs. Keys of a job: allocated_cpu, hs06_job, shutdowntime_job, grace_secs_job, jobstart_secs,
    job_id, wall_limit_secs, cpu_limit_secs, max_rss_bytes, max_swap_bytes, scratch_limit_bytes. Keys outside the
    specification are allowed.

    A value of a job is from KEY=VALUE; else from the environment of the batch system (Slurm, Torque, LSF, Grid Engine;
    for HTCondor also from the ads of job and slot); else from our record. If there is no value, nothing is written, and
    the exit code is 64.
    """
    options.need_kind(ctx, kind, _FOR)
    names = [*former, *(key for key, _value in pairs)]
    if twice := [key for key in names if names.count(key) > 1]:
        raise UsageError(f"{twice[0]} is given twice; give each key once")
    chosen = former | dict(pairs)
    if others := [key for key in chosen if key in KEYS and key not in _KEYS[kind]]:
        raise UsageError(f"{others[0]}: not a key of a {kind}; its keys are {', '.join(_KEYS[kind])}")
    if kind == "machine":
        total_cpu = chosen.get("total_cpu")
        if total_cpu is not None and (wrong := problem("total_cpu", total_cpu)):
            raise UsageError(f"total_cpu={total_cpu!r}: {wrong}")
        values = features_values.machine_values(
            _written_total_cpu(directory) if total_cpu is None else int(total_cpu),
            chosen.get("hs06"),
            given.benchmark,
            hepscore_is_hs06=given.hepscore_is_hs06,
        )
        chosen = values | {key: value for key, value in chosen.items() if key not in values}
        features_values.write_machine(directory, chosen, force=given.force)
    else:
        chosen = _job_values(ctx, directory, given, chosen)
        features_values.write_job(directory, chosen, force=given.force, owner=_ids_of(given.owner))
    _say_values(chosen)


def _written_total_cpu(directory: str) -> int | None:
    """
    Return the total_cpu that a directory has; ``None`` without a usable one.

    It stays until it is given again, since an administrator may give jobs fewer processors than the system has. The
    system may have got others since, so a difference is printed to stderr.
    """
    written = read(os.path.abspath(directory)).number("total_cpu") if os.path.isdir(directory) else None
    system = features_values.machine_values()["total_cpu"]
    if written is not None and str(written) != system:
        todo = f"give total_cpu={system} to change it, or total_cpu={written} to keep it"
        print_error(f"total_cpu is {written}, as {directory} has it, and the system has {system}; {todo}")
    return written


def _job_values(ctx: click.Context, directory: str, given: WriteOptions, chosen: dict[str, str]) -> dict[str, str]:
    """``chosen``, and what the record, the environment and the machine say. Raises UsageError without any value."""
    values: dict[str, str] = {}
    if given.record:
        with closing(read_accounting(options.settings_of(ctx).places)) as con:
            aar = by_job_id(con, [given.record]).get(given.record)
        if aar is None:
            raise InputError(f"{given.record}: this job has no record")
        values = features_values.job_values_of_record(aar, hepscore_is_hs06=given.hepscore_is_hs06)
    values |= (job_values_of_environment(os.environ) if given.environment else {}) | chosen
    if not values:
        raise UsageError(
            f"{directory}: nothing to write: no option gives a value, and this is not the environment of a job of "
            f"{NAMES}; run it in the job or in its prologue, or give values"
        )
    place = from_here(given.machine) if given.machine else os.environ.get("MACHINEFEATURES")
    return values | features_values.share_of_machine(
        values, read(valid({"machine": place})["machine"]) if place else None
    )


@features.command(
    "set", hidden=True, epilog=examples("arcacct features set /tmp/job1/jobfeatures wall_limit_secs 86400")
)
@click.argument("directory")
@click.argument("key")
@click.argument("value")
@_FORCE
def set_(directory: str, key: str, value: str, force: bool) -> None:
    """Write one KEY of a job, as `features job set` did in the previous release."""
    features_values.write_job(directory, {key: value}, force=force)


@features.command(epilog=examples("arcacct features remove /tmp/job1/jobfeatures"))
@click.argument("directory")
def remove(directory: str) -> None:
    """Remove a job's DIRECTORY, after the job; does nothing if the directory contains other files than keys."""
    remove_directory(directory)


@features.command(
    epilog=examples(
        "arcacct features shutdown /etc/machinefeatures 2026-12-01T06:00:00",
        "arcacct features shutdown --cancel /etc/machinefeatures",
    )
)
@click.argument("directory")
@click.argument("when", type=INSTANT, required=False)
@click.option("--cancel", is_flag=True, help="Cancel the announcement: without it, no shutdown is planned.")
@click.option("--job", "of_job", is_flag=True, help="DIRECTORY is a job's: the job is shut down, not the machine.")
@_FORCE
def shutdown(directory: str, when: int | None, *, cancel: bool, of_job: bool, force: bool) -> None:
    """Announce in DIRECTORY that jobs must end by WHEN; not earlier than its grace_secs allows."""
    if cancel == (when is not None):
        raise UsageError("pass either WHEN or --cancel")
    if when is None:
        features_values.clear_shutdown(directory, job=of_job)
    else:
        features_values.set_shutdown(directory, when, job=of_job, force=force)


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
    # A limit that is there and cannot be read is not the same as none.
    unread = any(one.doubts(key) for one in found.values() for key in LIMITS)
    print_line(f"remaining_secs {left if left is not None else 'unknown' if unread else 'unlimited'}")
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
    here = options.places_of(ctx)
    with accounting(here) as con:
        done = collect(con, here, pattern, jobid, retry=retry)
    print_error(*done.complaints)
    for one in done.not_rejected:
        print_line(f"{one}: no features of this job are rejected, nothing to retry", err=True)
    if retry and not jobid and not done.looked_at:
        print_line("no features are rejected, nothing to retry", err=True)
    print_line(
        f"{count_of(done.looked_at, 'job')} checked, {done.found} with features, "
        f"{count_of(done.changed, 'record')} changed"
    )
    return InputError.exit_code if done.complaints else 0


def _ids_of(owner: str | None) -> tuple[int, int] | None:
    """The uid and gid of a user; ``None`` for none. Raises UsageError."""
    if owner is None:
        return None
    try:
        known = pwd.getpwnam(owner)
    except KeyError:
        raise UsageError(f"--owner {owner}: this host has no such user") from None
    return known.pw_uid, known.pw_gid


def _found(ctx: click.Context, where: dict[str, str | None]) -> tuple[Web, dict[str, str]]:
    """The web, and the place of features; it trusts the grid's authorities, which a worker node may lack."""
    ca_dir = options.conf_of(ctx).get("common", "x509_cert_dir", "/etc/grid-security/certificates")
    web = Web(ca_dir if ca_dir and os.path.isdir(ca_dir) else None)
    where["metadata_file"] = where["metadata_file"] or default_file(os.environ)
    found = locations(os.environ, **where, fetch=web.get)
    if not found:
        raise UsageError("neither $MACHINEFEATURES nor $JOBFEATURES is set; pass --machine or --job")
    return web, found


def _say_values(values: dict[str, str]) -> None:
    for key, value in values.items():
        print_line(f"{key} {value}")
