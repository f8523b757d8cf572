"""`arcacct record`: the hook for people, whose errors are errors."""

from __future__ import annotations

import click

from arcacct.arex.control_files import STATES, is_job_id, read_job
from arcacct.arex.hook import record_event
from arcacct.cli.context import places_of
from arcacct.cli.speech import examples, print_line
from arcacct.database.access import accounting
from arcacct.errors import InputError, UsageError


@click.command(epilog=examples("arcacct record /var/spool/arc/jobstatus rUkNDmRi FINISHED"))
@click.argument("controldir")
@click.argument("jobid")
@click.argument("state", type=click.Choice(STATES))
@click.pass_context
def record(ctx: click.Context, controldir: str, jobid: str, state: str) -> None:
    """
    Record one state change of a job, as the hook does.

    Reads the control files that job JOBID has in CONTROLDIR now and records them as of STATE; the database is made if
    it is missing. Recording twice changes nothing. Unlike the hook it writes nothing into the spool: when it cannot
    record it says why, and `arcacct sweep` finds what is missing later.
    """
    here = places_of(ctx, controldir)
    if not is_job_id(jobid):
        raise UsageError(f"{jobid!r} is not the id of a job; give the id alone, without job. and path")
    try:
        files = read_job(here.controldir, jobid, state)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}; run as the user of A-REX") from error
    if state == "DELETED":
        print_line(f"{jobid} DELETED: nothing to record, a record outlives its job")
        return
    with accounting(here) as con:
        new = record_event(here, files, con)
    print_line(f"{jobid} {state}: {'recorded' if new else 'nothing new'} in {here.database}")
