"""`arcacct quarantine`: records that are not sent, the reasons, and the decisions of operators about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import click

from arcacct.cli.console import ask, block, data, examples, print_line
from arcacct.cli.options import MONTH, name_of_user, settings_of, yes_option
from arcacct.cli.tables import TOLD, format_option, show_object
from arcacct.cli.tables import show as show_table
from arcacct.cli.targets import complete_target, target_option
from arcacct.config.options import select_targets
from arcacct.config.settings import Settings
from arcacct.database import access
from arcacct.errors import InputError
from arcacct.publishing import held
from arcacct.queries.job_history import changed_since_sent
from arcacct.records import hold_decisions, usage
from arcacct.records.hold_decisions import ImplausibleFilter, ImplausibleRecord
from arcacct.records.holds import DECISIONS, HELD, PUBLISHED
from arcacct.records.reader import find_job, has_job, is_time
from arcacct.records.states import BOUNDS
from arcacct.targets import plugins
from arcacct.times import iso, month_bounds, month_name
from arcacct.wording import count_of

_HEADER = ("target", "state", "job", "ended", "reason")
_ALL = "(all)"
_LONG = 120
"""Characters of a reason that is not repeated in each row."""
_IMPLAUSIBLE = "implausible"
"""In the list: the state of a record that no target is sent, since values of it cannot be true."""


@click.group(
    short_help="List, retry, drop or decide on records that are not sent.",
    epilog=examples(
        "arcacct quarantine list",
        "arcacct quarantine retry --all --target sgas:s",
        "arcacct quarantine decide --as bound --reason wall-beyond-life --month 2026-11",
    ),
)
def quarantine() -> None:
    """
    Records that are not sent to a target: records that the receiver rejects or would reject, and corrections
    that it ignores.

    "held": waits and is retried automatically. "quarantined": the receiver rejects it. "implausible": has values that
    cannot be true. It is not sent to any target and not in any sum, until `quarantine decide` says how to count it.
    """


@quarantine.command(
    "list",
    short_help="All quarantined records, with the reasons.",
    epilog=examples("arcacct quarantine list --format json"),
)
@target_option
@click.option("--decided", is_flag=True, help="Also implausible records that have a decision.")
@format_option()
@click.pass_context
def list_(ctx: click.Context, target: str | None, *, decided: bool, form: str) -> None:
    """List every quarantined record, with the reason."""
    settings = settings_of(ctx)
    with closing(access.read_publishing(settings.places)) as con:
        found = held.held_entries(con, target=_block(settings, target))
    with closing(access.read_accounting(settings.places)) as con:
        implausible = list(hold_decisions.held_records(con, ImplausibleFilter(states=() if decided else (HELD,))))
    if form == "json":
        rows_of_target = [one._asdict() for one in found]
        show_object([*map(_as_json, implausible), *rows_of_target])
        return
    if not found and not implausible and form == "table":
        print_line("nothing is quarantined", err=True)
        return
    names = {one.block: one.name for one in settings.targets}
    reasons, causes = _reasons(settings, found) if form == "table" else ([one.reason for one in found], [])
    rows = [(_ALL, _state(one), one.job_id, _end(one), one.text) for one in implausible]
    rows += [
        (names.get(one.target, one.target), one.state, one.job_id, iso(one.end_time), reason)
        for one, reason in zip(found, reasons, strict=True)
    ]
    if form != "table":
        show_table(_HEADER, rows, form)
        return
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, strict=True)]
    for row in (_HEADER, *rows):
        # The reason is last: it may be long, and is shown whole.
        print_line("  ".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)) + f"  {row[-1]}")

    for number, cause in enumerate(causes, 1):
        print_line(f"({number}) {cause}")


@quarantine.command(
    hidden=True,
    short_help="All details of one quarantined record.",
    epilog=examples("arcacct quarantine show rUkNDmRi"),
)
@click.argument("job_id", metavar="JOBID")
@format_option(TOLD, "as in quarantine list")
@click.pass_context
def show(ctx: click.Context, job_id: str, form: str) -> None:
    """Show where and why a record is quarantined; `arcacct job` shows the rest of its history."""
    settings = settings_of(ctx)
    (job_id,) = _whole_ids(settings, (job_id,))
    with closing(access.read_publishing(settings.places)) as con:
        found = held.held_entries(con, job_id=job_id)
    with closing(access.read_accounting(settings.places)) as con:
        implausible = list(hold_decisions.held_records(con, ImplausibleFilter(job_ids=(job_id,))))
        for record in implausible if form == "text" else ():
            print_line(f"all targets: {_state(record)} since {iso(record.since_s)}")
            print_line(f"  ended {_end(record)}")
            for value in record.values:
                print_line(f"  {hold_decisions.value_text(value)}: {BOUNDS[value[0]][0]}")
            for decision in hold_decisions.decisions(con, record.record_id):
                print_line(f"  {iso(decision.decided_s)} {decision.decided_by} decided: {decision.state}")
    if not found and not implausible:
        raise InputError(f"{job_id}: not quarantined; see `arcacct quarantine list` and `arcacct job {job_id}`")
    if form == "json":
        show_object([*map(_as_json, implausible), *(one._asdict() for one in found)])
        return
    for one in found:
        print_line(f"{one.target}: {one.state} since {iso(one.since_s)}, tried {count_of(one.attempts + 1, 'time')}")
        print_line(f"  ended {iso(one.end_time)}")
        print_line(f"  {one.reason}")
        if one.state == "correction" and (changed := _changed(settings, [one])[0]):
            print_line(f"  {changed}")
        if one.refusals:
            print_line(f"  the receiver rejected it in {count_of(one.refusals, 'run')}")
        if one.retry_text:
            print_line(f"  {one.retry_text}")


@quarantine.command(
    short_help="Send records again with the next run.",
    epilog=examples("arcacct quarantine retry rUkNDmRi", "arcacct quarantine retry --all"),
)
@click.argument("job_ids", metavar="JOBID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All quarantined records.")
@target_option
@click.pass_context
def retry(ctx: click.Context, job_ids: tuple[str, ...], everything: bool, target: str | None) -> None:
    """Send records again with the next run, after you fixed the cause here or at the receiver."""
    _change(ctx, job_ids, "retry", everything=everything, target=target)


@quarantine.command(
    short_help="Never send these records.", epilog=examples("arcacct quarantine drop rUkNDmRi --target sgas:s")
)
@click.argument("job_ids", metavar="JOBID...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All quarantined records.")
@target_option
@yes_option("With --all: ")
@click.pass_context
def drop(ctx: click.Context, job_ids: tuple[str, ...], everything: bool, target: str | None, yes: bool) -> None:
    """
    Never send these records; they stay in the database, and `quarantine retry JOBID` brings them back.

    With --all it asks for confirmation; without a terminal it needs --yes.
    """
    if everything and not job_ids:
        where = f"that is quarantined for {target}" if target else "that is quarantined, for all targets"
        ask(f"never send any record {where}?", yes=yes)
    _change(ctx, job_ids, "dropped", everything=everything, target=target)


@quarantine.command(
    short_help="Decide how to count records with values that cannot be true.",
    epilog=examples(
        "arcacct quarantine decide --as bound rUkNDmRi",
        "arcacct quarantine decide --as unknown --reason cpu-beyond-cores",
        "arcacct quarantine decide --as reported --month 2026-11 --yes",
        "arcacct quarantine decide --as held rUkNDmRi",
    ),
)
@click.argument("job_ids", metavar="[JOBID...]", nargs=-1)
@click.option(
    "--as",
    "state",
    type=click.Choice([*DECISIONS, HELD]),
    required=True,
    help="unknown: treat the value as unknown; bound: use the possible maximum; reported: use the reported value;"
    " excluded: never count the job; held: cancel a decision.",
)
@click.option("--reason", type=click.Choice(list(BOUNDS)), help="All records held for this reason.")
@click.option("--month", type=MONTH, metavar="YYYY-MM", help="All held records that ended in this month (UTC).")
@click.option("--published", is_flag=True, help="Instead, records that were published before arcacct checked values.")
@yes_option("With --reason or --month: ")
@click.pass_context
def decide(
    ctx: click.Context,
    job_ids: tuple[str, ...],
    *,
    state: str,
    reason: str | None,
    month: tuple[int, int] | None,
    published: bool,
    yes: bool,
) -> None:
    """
    Decide how to count records with values that cannot be true; the next run publishes the result, as records and sums.

    The reported values stay in the database; `quarantine list` shows them with the bound. A decision applies to the
    values it was made for: if these values change, the record is held again. The decision is stored with time and
    operator (`arcacct job`), and `--as held` cancels it.
    """
    if bool(job_ids) == bool(reason or month):
        raise click.UsageError("pass ids of jobs, or --reason or --month")
    settings = settings_of(ctx)
    here = settings.places
    job_ids = _whole_ids(settings, job_ids)
    states = (PUBLISHED,) if published else DECISIONS if state == HELD else (HELD,)
    period = (None, None) if month is None else month_bounds(*month)
    asked = ImplausibleFilter((), None, None, None, job_ids) if job_ids else ImplausibleFilter(states, reason, *period)
    with access.accounting(here) as con:
        records = list(hold_decisions.held_records(con, asked))
        unknown = [job_id for job_id in job_ids if job_id not in {one.job_id for one in records}]
        if unknown:
            raise InputError(f"{unknown[0]}: it has no implausible value; see `arcacct quarantine list`")
        if not job_ids and records:
            where = f"{f' for {reason}' if reason else ''}{f' of {month_name(month)}' if month else ''}"
            ask(f"decide `{state}` about {count_of(len(records), 'record')}{where}?", yes=yes)
        done = hold_decisions.decide(con, here, records, state, name_of_user())
        usage.update_monthly(con, here)
        usage.update_breakdown(con, here)
    print_line(f"{count_of(done, 'record')}: {state}")


@quarantine.command(
    "sql",
    short_help="Print SQL for SGAS's administrator, to allow corrections.",
    epilog=examples("arcacct quarantine sql sgas:s > corrections.sql"),
)
@click.argument("target", shell_complete=complete_target)
@click.pass_context
def sql(ctx: click.Context, target: str) -> None:
    """
    Print the transaction that removes outdated records from the database of an SGAS server, for its administrator.

    The records are those quarantined as corrections. The transaction also recalculates the daily sums, because deletion
    alone does not change them. Afterwards `arcacct quarantine retry --all --target TARGET` sends the current records.
    """
    settings = settings_of(ctx)
    (found,) = plugins(settings, target)
    with closing(access.read_publishing(settings.places)) as con:
        block(found.corrections(con), data)


def _change(ctx: click.Context, job_ids: tuple[str, ...], state: str, *, everything: bool, target: str | None) -> None:
    if bool(job_ids) == everything:
        raise click.UsageError("pass ids of jobs, or --all")
    settings = settings_of(ctx)
    job_ids = _whole_ids(settings, job_ids)
    with closing(access.open_publishing(settings.places)) as con:
        changed = held.change_state(con, _block(settings, target), job_ids, state)
    print_line(f"{count_of(changed, 'record')}: {state}")


def _whole_ids(settings: Settings, given: tuple[str, ...]) -> tuple[str, ...]:
    """
    The ids of these jobs, each given as `find_job` takes it.

    What names no job of the database stays as it is: its record may have been pruned, and the ledger still has its id.
    Raises InputError for a text that names several jobs.
    """
    with closing(access.read_publishing(settings.places)) as ledger:
        whole = {text for text in given if held.held_entries(ledger, job_id=text)}
    if whole.issuperset(given):
        # The ledger alone decides: accounting.db may be away.
        return given
    with closing(access.read_accounting(settings.places)) as con:
        return tuple(text if text in whole or not has_job(con, text) else find_job(con, text).job_id for text in given)


def _state(one: ImplausibleRecord) -> str:
    return _IMPLAUSIBLE if one.state == HELD else one.state


def _end(one: ImplausibleRecord) -> str:
    return iso(one.end_time) if is_time(one.end_time) else str(one.end_time)


def _as_json(one: ImplausibleRecord) -> dict[str, object]:
    values = [
        {"reason": reason, "value": field, "bound": bound, "reported": reported}
        for reason, field, bound, reported in one.values
    ]
    return {
        "target": None, "job_id": one.job_id, "record_id": one.record_id, "end_time": one.end_time,
        "state": _state(one), "reason": one.text, "since_s": one.since_s, "values": values,
        "decided_s": one.decided_s, "decided_by": one.decided_by,
    }  # fmt: skip


def _changed(settings: Settings, entries: Sequence[held.HeldEntry]) -> list[str]:
    """Return the changes of each record since the receiver got it; empty if unknown or unimportant."""
    with (
        closing(access.read_publishing(settings.places)) as publishing,
        closing(access.read_accounting(settings.places)) as accounting,
    ):
        return [
            changed.text
            if one.state == "correction"
            and (changed := changed_since_sent(accounting, publishing, one.target, one.job_id)) is not None
            else ""
            for one in entries
        ]


def _reasons(settings: Settings, found: Sequence[held.HeldEntry]) -> tuple[list[str], list[str]]:
    """
    Return the text in the table for each; long reasons of several records are printed once below the table.

    A reason may name the record: JOB replaces its name there.
    """
    common = [one.reason.replace(one.job_id, "JOB") for one in found]
    often = [reason for reason, count in Counter(common).items() if count > 1 and len(reason) > _LONG]
    changed = _changed(settings, found)
    told = []
    for one, reason, change in zip(found, common, changed, strict=True):
        first = f"({often.index(reason) + 1})" if reason in often else one.reason
        told.append("; ".join(filter(None, (first, change, one.retry_text))))
    return told, often


def _block(settings: Settings, target: str | None) -> str | None:
    return None if target is None else select_targets(settings.targets, target)[0].block
