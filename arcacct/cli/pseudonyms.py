"""`arcacct db forget`: pseudonyms replace the names of one user, or of users of old jobs."""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import click

from arcacct.cli.console import ask, examples, print_error, print_line
from arcacct.cli.options import plan_option, settings_of, yes_option
from arcacct.cli.progress import STOPPED, progress, stop_on_signal
from arcacct.config.settings import Settings
from arcacct.database.access import accounting, open_publishing, read_accounting, read_publishing
from arcacct.database.connection import Connection
from arcacct.errors import ConfigError, InputError, UsageError, use_as
from arcacct.publishing.locks import publishing_lock
from arcacct.wording import count_of

if TYPE_CHECKING:
    from arcacct.records.pseudonymise import Scope


_SWEEP_S = 20.0
"""Seconds that a sweep spends on it; the next one does the rest."""


@click.command(
    short_help="Replace names of users by pseudonyms.",
    epilog=examples("arcacct db forget --plan", "arcacct db forget '/DC=org/DC=example/CN=Jane Doe' --plan"),
)
@click.argument("user_dn", metavar="[DN]", required=False)
@plan_option("Show what would be replaced; change nothing.")
@yes_option()
@click.pass_context
def forget(ctx: click.Context, user_dn: str | None, plan_only: bool, yes: bool) -> int:
    """
    Replace names of users by pseudonyms: of one user DN, or of all jobs older than names_kept_months.

    Replaces DN, account, address, job name and personal claims of tokens, in both databases and in archives. Sums do
    not change, and nothing is sent again. Only months before the last one are included, and only if all their jobs were
    sent or dropped and are gone from the control directory. Backups and copies of the databases keep the names. An
    unknown DN is an error (65).
    """
    from arcacct.records import pseudonymise  # noqa: PLC0415  slow to import

    found = settings_of(ctx)
    scope = scope_of(found, user_dn, int(time.time()))
    here = found.places
    with closing(read_accounting(here)) as con, closing(read_publishing(here)) as publishing:
        if user_dn is not None and not pseudonymise.is_known(here, con, publishing, user_dn):
            raise InputError(f"{user_dn}: no job, sum or message of this user; use the DN in `arcacct stats --by user`")
        plan = pseudonymise.plan(con, publishing, scope)
    before = time.strftime("%Y-%m-%d", time.gmtime(scope.ended_before))
    would = "would become" if plan_only else "become"
    print_line(f"{count_of(plan.jobs, 'job')} that ended before {before}: names {would} pseudonyms")
    for table, count in plan.rows:
        print_line(f"  {table}: {count_of(count, 'row')}")
    for reason, jobs in plan.left:
        print_line(f"{count_of(jobs, 'job')} kept, with all others of the month: {reason}", err=True)
    print_line("receivers keep what was published; backups and copies of the databases keep the names", err=True)
    if plan_only or not (plan.rows or user_dn):
        return 0
    ask("replace these names? This cannot be undone.", yes=yes)
    with (
        accounting(here) as con,
        closing(open_publishing(here)) as publishing,
        progress("Jobs") as show,
        stop_on_signal() as stopping,
    ):
        done = _forget(found, con, publishing, scope, lambda jobs: show(jobs, plan.jobs), stopping)
        if stopping():
            print_error(
                f"stopped: {done} of {count_of(plan.jobs, 'job')} done; run the same command again for the others"
            )
            return STOPPED
        if user_dn is not None:
            _overwrite(found, con, publishing)
    print_line(f"names replaced in {count_of(done, 'job')}")
    return 0


def scope_of(found: Settings, user_dn: str | None, now: int) -> Scope:
    """
    Return whose names to replace. Raises UsageError if no option names them, InputError without the control directory.
    """
    from arcacct.arex.control_files import scan_status_files  # noqa: PLC0415  with its command
    from arcacct.records import pseudonymise  # noqa: PLC0415  slow to import
    from arcacct.targets.common import NAME, spelt  # noqa: PLC0415  with its command

    if found.places.rehearsal is not None:
        raise ConfigError(f"[arcacct] rehearsal={found.places.rehearsal}: use the configuration of the site")
    months = 1 if user_dn is not None else found.names_kept_months
    if not months:
        raise UsageError("pass a DN, or set names_kept_months in [arcacct]")
    year, month = time.gmtime(now)[:2]
    index = year * 12 + month - 1 - months
    try:
        present = frozenset(job_id for job_id, _path, _stat in scan_status_files(found.places.controldir))
    except OSError as error:
        raise InputError(
            f"{found.places.controldir}: cannot read the control directory: {error.strerror};"
            f" {use_as(found.places.controldir)}"
        ) from error
    return pseudonymise.Scope(
        calendar.timegm((index // 12, index % 12 + 1, 1, 0, 0, 0)),
        user_dn,
        tuple(target.block for target in found.targets),
        present,
        "" if user_dn is None else spelt(user_dn, NAME),
    )


def forget_old(found: Settings, con: Connection) -> None:
    """
    Run this part of a sweep once a day, for some seconds; the next sweep continues.

    Raises StoreError and its kinds, StoreBusy while another process publishes.
    """
    from arcacct.records import pseudonymise  # noqa: PLC0415  slow to import

    now = int(time.time())
    if not found.names_kept_months or found.places.rehearsal is not None or not pseudonymise.is_due(con, now):
        return
    until = time.monotonic() + _SWEEP_S

    def is_over() -> bool:
        return time.monotonic() > until

    with closing(open_publishing(found.places)) as publishing:
        _forget(found, con, publishing, scope_of(found, None, now), lambda _jobs: None, is_over)
    if not is_over():
        pseudonymise.note_done(con, found.places, now)


def _forget(
    found: Settings,
    con: Connection,
    publishing: Connection,
    scope: Scope,
    show: Callable[[int], None],
    stopping: Callable[[], bool],
) -> int:
    from arcacct.records.pseudonymise import pseudonymise as forget_all  # noqa: PLC0415  slow to import

    here = found.places
    alone = partial(publishing_lock, here.publishing_lock)
    return forget_all(here, con, publishing, scope, alone=alone, progress=show, stopping=stopping)


def _overwrite(found: Settings, con: Connection, publishing: Connection) -> None:
    from arcacct.database import upkeep  # noqa: PLC0415  psutil is slow to import
    from arcacct.records.pseudonymise import overwrite  # noqa: PLC0415  slow to import

    if os.path.exists(found.places.publishing_database):
        with publishing_lock(found.places.publishing_lock):
            overwrite(publishing)
    upkeep.shrink(found.places, con)
