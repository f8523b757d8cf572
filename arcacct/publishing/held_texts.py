"""The texts about held months: the decrease, its possible cause, and the ways out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arcacct.publishing.sent import Amount, KeptRecords
from arcacct.publishing.target_months import HeldMonth
from arcacct.times import Month, month_name
from arcacct.wording import count_of

_WAYS_OUT = (
    "publishing resumes automatically once the jobs are restored (`arcacct sweep`, `arcacct import`, `arcacct db"
    " restore`) or the configuration is fixed; `arcacct publish {options}` sends the current figures of the database"
)


def held_text(*months: HeldMonth) -> str:
    """
    Return ``2026-11 is held: 41 jobs published, 1 in the database now: ...``, then the ways out.

    Months with the same cause are named together.
    """
    causes: dict[str, list[Month]] = {}
    for one in months:
        causes.setdefault(one.cause, []).append((one.year, one.month))
    text = [f"{month_names(found)} {'are' if found[1:] else 'is'} held: {cause}" for cause, found in causes.items()]
    text += dict.fromkeys(one.remedy for one in months if one.remedy)
    fallen = [month_name((one.year, one.month)) for one in months if not one.remedy]
    if fallen:
        text.append(_WAYS_OUT.format(options=" ".join(f"--accept-lower {name}" for name in fallen)))
    return "; ".join(text)


def month_names(months: Iterable[Month]) -> str:
    """Return ``2026-08 and 2026-11``, and ``2026-08 to 2026-11`` for three or more months that follow each other."""
    runs: list[list[Month]] = []
    for year, month in sorted(months):
        if runs and runs[-1][-1] == (year - (month == 1), (month - 2) % 12 + 1):
            runs[-1].append((year, month))
        else:
            runs.append([(year, month)])
    names: list[str] = []
    for run in runs:
        names += [f"{month_name(run[0])} to {month_name(run[-1])}"] if run[2:] else map(month_name, run)
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# Causes (`HeldMonth.cause`). ``changed``: the changes of the target's selection in words (`changes`), or empty.


def former_names(names: Sequence[str], changed: str, target: str) -> tuple[str, str]:
    """Return the cause of a month that the receiver has under former names, and what ends the hold of a ``target``."""
    publish = f"`arcacct publish --target {target} --former-names"
    return f"published under the name {' and '.join(names)}{changed}", (
        f"if that was a mistake, correct it, and publishing resumes; if not, {publish} move` sends zeros under the"
        f" former names and these months under the new ones, {publish} keep` leaves them unchanged"
    )


def kept_records(published: int, found: KeptRecords, changed: str) -> str:
    """Return the cause of a month with records that stay at the receiver; ``published``: its number of jobs there."""
    fall = (
        f"{count_of(published, 'job')} published, and {found.kept} would be changed, moved or removed without proof:"
        f" {found.why}{changed}"
    )
    had_s, has_s = found.kept_wall_s, found.instead_wall_s
    what = "falls" if has_s < had_s else "does not fall"
    return f"{fall}; their wall time {what}: {had_s / 3600:.2f} h published, {has_s / 3600:.2f} h would be sent"


def waiting_records(published: int, waiting: int, sites: Iterable[str], changed: str) -> str:
    """Return the cause of a month with new records that wait, since it is published under the names of ``sites``."""
    names = ", ".join(sorted(sites))
    return f"{count_of(published, 'job')} published under the name {names}, and {waiting} more waiting{changed}"


def decrease(
    had: Amount, has: Amount, names: Sequence[str], hosts: Iterable[str], changed: str, *, is_renamed: bool
) -> str:
    """
    Return the cause of a month whose sums would fall from ``had`` to ``has`` at some submit hosts.

    ``names``: other names of the site that the receiver has for the month. ``is_renamed``: the site had them before.
    """
    # With another selection the excluded jobs are still in the database.
    where = "would be sent now" if changed else "in the database now"
    under = f" under the name {', '.join(names)}" if names else ""
    figures = f"{count_of(had.jobs, 'job')} published{under}, {has.jobs} {where}"
    if has.jobs >= had.jobs:
        had_s, has_s = had.wall_s or 0, has.wall_s or 0
        had_h, has_h = f"{had_s / 3600:.1f} h", f"{has_s / 3600:.1f} h"
        if had_h == has_h:
            had_h, has_h = f"{had_s} s", f"{has_s} s"
        figures = f"{had_h} of wall time published{under}, {has_h} {where}"
    lost = "; the name is different now" if is_renamed else " (was the database lost, restored or exchanged?)"
    return f"{figures} ({', '.join(sorted(hosts))}): nothing logged explains it{changed or lost}"


def unknown(jobs: int | None, here: int) -> str:
    """
    Return the cause of a month that a lost ledger may have known better.

    ``jobs``: the published number by the replaced ledger; ``None``: unknown. ``here``: the database's number.
    """
    change = f"{'unknown' if jobs is None else jobs} -> {count_of(here, 'job')}: both databases were restored, and"
    if jobs is None:
        return f"{change} neither knows the later publications: the receiver may have more"
    return f"{change} the replaced ledger says that the receiver has more"


def changes(proven: Mapping[str, object] | None, selection: Mapping[str, object]) -> str:
    """Describe the changes of a target's selection in words; empty if there are none."""
    if proven is None:
        return ""
    words = [
        f"{name} was {_shown(proven[name])} and is {_shown(value)}"
        for name, value in selection.items()
        if name in proven and proven[name] != value
    ]
    return f"; since then {' and '.join(words)}" if words else ""


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "not set"
    return "not set" if value in (None, "") else str(value)
