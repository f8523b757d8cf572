"""
The jobs that a target selects, from which end on, and their names at its receiver; and what the receiver has under
names that they had. A change of these is reported as a cause.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from arcacct.config.paths import Places
from arcacct.database import incarnation, schema
from arcacct.database.access import writing
from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.publishing import cursors, ledger, sent, target_months
from arcacct.publishing.former_publisher import FormerPublisher
from arcacct.publishing.held_texts import changes
from arcacct.publishing.ledger import SentRecord
from arcacct.publishing.plugin import TargetPlugin, bare
from arcacct.publishing.sent import published_jobs, published_sums
from arcacct.records import batch_jobs, reader, usage
from arcacct.records.model import endpoint_host
from arcacct.times import DAY_S, LAST_SECOND, Month, iso, month_bounds, month_name, recent_months
from arcacct.wording import count_of

_FILTER, _UNTIL, _KINDS, _START = "vofilter", "until_fence", "kinds", "start"
"""The keys of `incarnation.saved_names` that are no names."""
NOT_SELECTED = "of the current and the previous month not selected by vofilter"
"""The note about the jobs that `not_selected` counts."""
_BARE_IDS = "BARE_LOCAL_IDS"
"""The key in DBConfig of both databases for `bare_ids`, as JSON."""


def bare_ids(accounting: Connection, publishing: Connection) -> batch_jobs.BareIDs:
    """
    Return the places with bare ids, as noted at the first run that found jobs of a batch system, else as the next run
    would note them.

    The place with the first record always has bare ids. If jobs were published before, other places keep them for jobs
    that end until now, so that no key changes.
    """
    for con in (publishing, accounting):
        if (found := schema.noted(con, _BARE_IDS)) is not None:
            return tuple((str(place), int(until)) for place, until in json.loads(found))
    places = batch_jobs.places(accounting)
    if not places:
        return ()
    # Any earlier publishing was by an older program, which sent all of them with bare ids.
    has_sent = ledger.last_message(publishing) > 0 or incarnation.is_successor(publishing)
    now = int(time.time())
    return ((places[0], LAST_SECOND), *((place, now) for place in places[1:] if has_sent))


def note_bare_ids(accounting: Connection, publishing: Connection, here: Places) -> None:
    """
    Store in both databases which places have bare ids, so that the loss of one database changes no key.

    A rehearsal does not change the accounting database.
    """
    found = bare_ids(accounting, publishing)
    text = json.dumps(found)
    if found and schema.noted(publishing, _BARE_IDS) != text:
        with transaction(publishing):
            schema.note(publishing, _BARE_IDS, text)
    if found and here.rehearsal is None and schema.noted(accounting, _BARE_IDS) != text:
        with writing(accounting, here):
            schema.note(accounting, _BARE_IDS, text)


def in_use(accounting: Connection, plugin: TargetPlugin) -> dict[str, object]:
    """Return a target's selection without the names that no job of the site has at the receiver."""
    unused = set()
    if all(map(endpoint_host, usage.endpoint_urls(accounting))):
        unused.add("lrms_host")
    # Sums have no ids of jobs. A month keeps its kind, so any may be one of records.
    if not any(map(plugin.has_records, {plugin.message_format, *remembered_kinds(accounting, plugin).values()})):
        unused.add("localid_prefix")
    return {name: value for name, value in plugin.selection().items() if name not in unused}


def names_of(accounting: Connection, plugin: TargetPlugin) -> dict[str, object]:
    """Return the part of a selection that names jobs at the receiver: under other names it would have them twice."""
    return {name: value for name, value in in_use(accounting, plugin).items() if name in plugin.names}


def names_in_doubt(accounting: Connection, publishing: Connection, plugin: TargetPlugin) -> str:
    """
    Return why nothing may be sent to a target, with the ways out; empty if it may.

    Without the earlier ledger it is unknown what the receiver has. Under other names it would have that twice. An older
    copy of the ledger knows only about names whose last use was before the copy was made.
    """
    if incarnation.uncertain_after_seq(publishing, plugin.target.block) is None:
        return ""
    now = names_of(accounting, plugin)
    fence = incarnation.uncertain_fence(publishing)
    others = [
        one
        for one in incarnation.saved_names(accounting, plugin.target.block)
        # A ledger that has all runs up to the fence knows what was sent under names of before.
        if not (_is_same(plugin, one, now) or (isinstance(until := one.get(_UNTIL), int) and until <= fence))
    ]
    if not others:
        return ""
    here = {**dict.fromkeys(target_months.kinds(publishing, plugin.target.block), 0), **usage.jobs_by_month(accounting)}
    months = ", ".join(f"{month_name(month)} ({count_of(jobs, 'job')} here)" for month, jobs in sorted(here.items()))
    concerned = f" of {months}" if here else ""
    return (
        f"nothing is sent{concerned}: the records sent before are unknown{changes(others[-1], now)}, and the"
        " receiver would have jobs under both names; restore publishing.db (`arcacct db restore`) or fix the"
        " configuration. If the receiver has nothing under the other names, confirm it for this target: `arcacct"
        f" publish --target {plugin.target.name} --accept-lower YYYY-MM`, with any of these months. If it has, `arcacct"
        " republish --receiver-rows FILE` takes that back first"
    )


def not_selected(accounting: Connection, plugin: TargetPlugin) -> int:
    """Return the number of jobs of the current and the previous month that ``vofilter`` excludes from a target."""
    if not plugin.target.vofilter:
        return 0
    recent = recent_months(int(time.time()))
    return sum(cell.jobs for cell in usage.usage_cells(accounting, recent) if not plugin.target.wants(cell.vo))


def unresolved_selection(accounting: Connection, plugin: TargetPlugin) -> str:
    """
    Return why a target stays in doubt after a run that sent all selected jobs; empty if it does not.

    Jobs that were selected before the ledger was lost, and are not today, were neither sent again nor retracted.
    """
    known, selection = incarnation.saved_names(accounting, plugin.target.block), plugin.selection()
    before, now = known[-1].get(_FILTER) if known else None, selection[_FILTER]
    if not isinstance(before, list) or not isinstance(now, list):
        # An older program stored names only.
        return ""
    if not now or (before and {*before} <= {*now}):
        return ""
    return (
        f"the receiver's data of jobs that are no longer selected are unknown{changes(known[-1], selection)};"
        " each run sends everything again until publishing.db is restored (`arcacct db restore`), the filter is"
        " fixed, or you accept it: `arcacct publish --accept-lower YYYY-MM`, of any month"
    )


def remembered_kinds(accounting: Connection, plugin: TargetPlugin) -> dict[Month, str]:
    """Return the message kind of each month from accounting.db, which stores it in case the ledger is lost."""
    found = incarnation.saved_names(accounting, plugin.target.block)
    kinds = found[-1].get(_KINDS) if found else None
    return {(year, month): kind for year, month, kind in kinds} if isinstance(kinds, list) else {}


def remembered_start(accounting: Connection, target: str) -> int | None:
    """Return the end time from which a target is sent jobs (UTC seconds), as accounting.db stores it."""
    found = incarnation.saved_names(accounting, target)
    start = found[-1].get(_START) if found else None
    return start if isinstance(start, int) else None


def is_start_known(accounting: Connection, publishing: Connection, target: str) -> bool:
    """Whether no earlier start of a target was lost with the ledger: an older program stored it only there."""
    was_published = bool(incarnation.saved_names(accounting, target))
    is_lost = was_published and incarnation.is_successor(publishing)
    return not is_lost or remembered_start(accounting, target) is not None


def to_remember(
    accounting: Connection,
    plugin: TargetPlugin,
    *,
    alone: bool,
    whole: bool,
    start: int | None,
    kinds: Mapping[Month, str] | None = None,
) -> list[Mapping[str, object]]:
    """
    Return the new `saved_names`: the present names last, with the filter of the last complete run.

    ``whole``: a run is complete, so that the receiver has exactly the present selection. ``alone``: an operator says
    that the receiver has nothing under other names; these were used before the fence of this run. ``start``: the
    target's start, UTC seconds; ``None``: an earlier one may have been lost. ``kinds``: the kind of every month with
    something published. With it, names that differ only in the kind count as the same.
    """
    known = incarnation.saved_names(accounting, plugin.target.block)
    now, before = names_of(accounting, plugin), known[-1] if known else {}
    fence, ignored = incarnation.fences_passed(accounting), None if kinds is None else plugin.kind_option
    others = [
        {_UNTIL: fence, **{name: value for name, value in one.items() if name not in {_KINDS, _START}}}
        for one in known
        if not alone and not _is_same(plugin, one, now, but=ignored)
    ]
    further = {
        _FILTER: plugin.selection()[_FILTER] if whole else before.get(_FILTER, plugin.selection()[_FILTER]),
        _KINDS: [[*month, kind] for month, kind in sorted(kinds.items())] if kinds else before.get(_KINDS),
        _START: start,
    }
    return [*others, now | {name: value for name, value in further.items() if value is not None}]


def _is_same(
    plugin: TargetPlugin, remembered: Mapping[str, object], now: Mapping[str, object], *, but: str | None = None
) -> bool:
    """Whether remembered names give the receiver's keys of today. A name that no job had is in only one of them."""
    before = plugin.keyed({name: remembered[name] for name in plugin.names if name in remembered})
    today = plugin.keyed(now)
    return all(before[name] == today[name] for name in before.keys() & today.keys() if name != but)


def former_names(con: Connection, plugin: TargetPlugin) -> dict[Month, list[str]]:
    """
    Return the names of the site, or of the batch system's host, that a receiver has and that are no longer in use.

    By month. A receiver that counts by site knows local jobs by that host, and other jobs by a URL. In job records the
    host is no part of the key.
    """
    block, folded = plugin.target.block, plugin.folded
    # A former program did not store the names of sums.
    present = {"", folded(plugin.site), folded(plugin.settings.lrms_host)}
    found: dict[Month, set[str]] = {}
    if not plugin.site:
        return {}
    jobs, sums = published_jobs(con, block), published_sums(con, block)
    names = [(place, place.site) for place in (*jobs, *sums)]
    names += [(place, place.submit_host) for place in sums if "://" not in place.submit_host]
    for place, name in names:
        if folded(name) not in present:
            found.setdefault((place.year, place.month), set()).add(name)
    return {month: sorted(others) for month, others in sorted(found.items())}


def surplus_records(
    accounting: Connection, publishing: Connection, plugin: TargetPlugin, ended: tuple[int, int], last_message: int
) -> list[SentRecord]:
    """
    Return the records with zeros that a receiver has in addition to those of jobs, each key once (`sent.zeroed`).

    A receiver that replaces records never deletes one, and counts each as a job. A key that another job has now is left
    out.
    """
    if plugin.keeps_first:
        return []
    gone = {one.key: one for one in sent.zeroed(publishing, plugin.target.block, ended, last_message)}
    key = plugin.any_records().key
    ended_then = reader.ended_at(accounting, {one.end_time for one in gone.values()})
    others = [
        job_id
        for _record_id, job_id, local_job_id, end_time in ended_then
        if key(bare(job_id, end_time, local_job_id)) in gone
    ]
    there = sent.versions(publishing, plugin.target.block, others, keeps_first=False)
    held_by_others = {one.key for known in there.values() for one in known}
    return [one for one in gone.values() if one.key not in held_by_others]


class Surplus(NamedTuple):
    """How many `surplus_records` a receiver has in a month."""

    jobs: int
    is_minimum: bool
    """Whether there may be more: a lost ledger may have known them, or the month has sums, where 0 means unknown."""

    def __bool__(self) -> bool:
        return self.jobs > 0 or self.is_minimum

    def __str__(self) -> str:
        if not self.is_minimum:
            return f"{count_of(self.jobs, 'job')} too many"
        return f"{self.jobs} or more jobs too many" if self.jobs else "number of jobs unknown"


def surplus(accounting: Connection, publishing: Connection, plugin: TargetPlugin, month: Month) -> Surplus:
    """
    Count the `surplus_records` of a month.

    In a month of sums, a receiver may show a sum of the same names instead of a record, so the number is unknown.
    """
    ended = month_bounds(*month)
    jobs = len(surplus_records(accounting, publishing, plugin, ended, ledger.last_message(publishing)))
    kinds = {**remembered_kinds(accounting, plugin), **target_months.kinds(publishing, plugin.target.block)}
    has_sent_records = plugin.groups_records and any(map(plugin.has_records, {plugin.message_format, *kinds.values()}))
    may_be_more = has_sent_records and incarnation.may_lack(publishing, ended[0])
    if not plugin.has_records(kinds.get(month, plugin.message_format)):
        return Surplus(0, jobs > 0 or may_be_more)
    return Surplus(jobs, may_be_more)


def first_start(
    publishing: Connection,
    accounting: Connection,
    plugin: TargetPlugin,
    former: FormerPublisher | None,
    since: int | None = None,
) -> tuple[int, str]:
    """
    Return the end time (UTC seconds) from which the first run of a target sends jobs, and the reason.

    It is ``since`` if given, but never later than the start before the ledger was lost, else a day before jura-ng
    stopped (repeats are harmless), else the start of our recording. Jobs that were imported from before that time were
    another program's to publish.
    """
    remembered = remembered_start(accounting, plugin.target.block)
    if remembered is not None and (since is None or remembered <= since):
        return remembered, "its start before publishing.db was lost"
    if since is not None:
        return since, "set by --since"
    stopped = cursors.jura_end_time(publishing, plugin.target.block)
    if stopped is None and former is not None and not former.is_guessed:
        stopped = former.until_s
    if stopped is not None:
        return max(0, stopped - DAY_S), f"a day before jura-ng stopped at {iso(stopped)}"
    return schema.created(accounting), "when the database was created"
