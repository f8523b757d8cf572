"""
The safeguard of published figures (INVARIANTS 10 and 12): the numbers of a receiver fall only as far as there is
proof.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from arcacct.database.connection import Connection
from arcacct.database.durable import transaction
from arcacct.errors import FiguresHeld
from arcacct.publishing.ledger import SentVersion
from arcacct.publishing.ledger_rows import Month, month_name, month_of
from arcacct.publishing.sent import is_same
from arcacct.records.model import AAR
from arcacct.wording import count_of, sanitise_line

# Published totals by month and counting key, as the ledger has them: jobs and wall time.


class CountingKey(NamedTuple):
    """Where a receiver counts jobs: texts as they are sent, of sums as they are compared (folded)."""

    site: str
    submit_host: str
    year: int
    month: int


class Amount(NamedTuple):
    """How much; ``wall_s=None`` is not known (sent by an older program)."""

    jobs: int
    wall_s: int | None


NOTHING = Amount(0, 0)


def totals(amounts: Iterable[tuple[CountingKey, Amount]]) -> dict[CountingKey, Amount]:
    """The amounts of each place, added up."""
    found: dict[CountingKey, Amount] = {}
    for place, more in amounts:
        had = found.get(place, NOTHING)
        wall_s = None if had.wall_s is None or more.wall_s is None else had.wall_s + more.wall_s
        found[place] = Amount(had.jobs + more.jobs, wall_s)
    return found


def published_jobs(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """Job records that were published to the receiver and not retracted."""
    rows = con.execute(
        "SELECT Site, SubmitHost, Year, Month, Jobs, Wall FROM PublishedTotals WHERE Target = ? AND Jobs > 0", (target,)
    )
    return {CountingKey._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


def published_total_ids(con: Connection, target: str, month: Month) -> set[int]:
    """The rows of ``PublishedTotals`` where a target's receiver counts the jobs of a month."""
    rows = con.execute(
        "SELECT PublishedTotalID FROM PublishedTotals WHERE Target = ? AND Year = ? AND Month = ?", (target, *month)
    )
    return {total_id for (total_id,) in rows}


def published_sums(con: Connection, target: str) -> dict[CountingKey, Amount]:
    """The amounts of the published sums; sync messages are no sums of usage."""
    rows = con.execute(
        "SELECT coalesce(Site, ''), coalesce(SubmitHost, ''), Year, Month, sum(Jobs),"
        " CASE WHEN count(Wall) = count(*) THEN sum(Wall) END FROM SentSummaries"
        " WHERE Target = ? AND Kind <> 'sync' AND Jobs > 0 AND NOT IsAdopted GROUP BY Site, SubmitHost, Year, Month",
        (target,),
    )
    return {CountingKey._make(place): Amount(jobs, wall_s) for *place, jobs, wall_s in rows}


# Months as the ledger keeps them: the family each is in, those that are held, and what operators accepted.


class MonthFormat(NamedTuple):
    """A month of which a target was sent something."""

    message_format: str
    """The messages it is published in: ``summaries``, ``car``, ..."""
    seq: int | None
    """Of sums: up to where in FinishedLog they were made; ``None``: by an older program, which did not note it."""
    incarnation: str | None
    """Of sums: the incarnation of the accounting database of `seq`; ``''``: the sum was retracted since."""
    sent: int | None
    """Of sums: when, UTC seconds."""


class HeldMonth(NamedTuple):
    """A month that is not sent, since the receiver's figures would fall and nothing explains it."""

    year: int
    month: int
    cause: str
    published_jobs: int
    found_jobs: int
    since_s: int = 0


class AcceptedDecreases(NamedTuple):
    """What operators said about the months of a target."""

    open: frozenset[Month]
    """May fall in this run."""
    ever: frozenset[Month]
    """Of this life of the accounting database: may be sent although the database does not have their beginning."""


def published(con: Connection, target: str) -> dict[Month, MonthFormat]:
    """Every month of which the target was sent something."""
    rows = con.execute("SELECT Year, Month, Kind, Seq, Incarnation, Sent FROM MonthFormats WHERE Target = ?", (target,))
    return {(year, month): MonthFormat._make(values) for year, month, *values in rows}


def held(con: Connection, target: str | None = None) -> dict[str, list[HeldMonth]]:
    """The months that are held, by target; of one target, or of all."""
    rows = con.execute(
        "SELECT Target, Year, Month, Cause, PublishedJobs, FoundJobs, Since FROM HeldMonths WHERE ?1 IS NULL OR"
        " Target = ?1"
        " ORDER BY Target, Year, Month",
        (target,),
    )
    found: dict[str, list[HeldMonth]] = {}
    for name, *values in rows:
        found.setdefault(name, []).append(HeldMonth._make(values))
    return found


def held_month(con: Connection, target: str, month: Month) -> HeldMonth | None:
    """A month of a target if it is held."""
    return next((one for one in held(con, target).get(target, ()) if (one.year, one.month) == month), None)


def set_held(con: Connection, target: str, months: Iterable[HeldMonth], looked_at: Iterable[Month] | None) -> None:
    """
    From now on these months of a target are held, and of those ``looked_at`` no other (``None``: of all).

    A month that was held before keeps the time since when.
    """
    now = int(time.time())
    holding = list(months)
    with transaction(con):
        rows = con.execute("SELECT Year, Month, Since FROM HeldMonths WHERE Target = ?", (target,)).fetchall()
        before = {(year, month): since for year, month, since in rows}
        gone = before.keys() if looked_at is None else before.keys() & set(looked_at)
        con.executemany(
            "DELETE FROM HeldMonths WHERE Target = ? AND Year = ? AND Month = ?", [(target, *month) for month in gone]
        )
        con.executemany(
            "INSERT OR REPLACE INTO HeldMonths (Target, Year, Month, Cause, PublishedJobs, FoundJobs, Since)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(target, *one[:5], before.get((one.year, one.month), now)) for one in holding],
        )


def accept(con: Connection, target: str, months: Iterable[Month], incarnation: str, who: str) -> None:
    """An operator accepts that figures of these months fall, once, to what the database has in this life of it."""
    now = int(time.time())
    with transaction(con):
        con.executemany(
            "INSERT INTO AcceptedDecreases (Target, Year, Month, Incarnation, Accepted, Who, IsOpen)"
            " VALUES (?, ?, ?, ?, ?, ?, 1)",
            [(target, *month, incarnation, now, sanitise_line(who)) for month in months],
        )


def accepted(con: Connection, target: str, incarnation: str) -> AcceptedDecreases:
    """What was accepted of a target, in this life of the accounting database."""
    rows = con.execute(
        "SELECT Year, Month, IsOpen FROM AcceptedDecreases WHERE Target = ? AND Incarnation = ?", (target, incarnation)
    ).fetchall()
    return AcceptedDecreases(
        frozenset((year, month) for year, month, is_open in rows if is_open),
        frozenset((year, month) for year, month, _is_open in rows),
    )


def close_accepted(con: Connection, target: str, *, but: Iterable[Month] = ()) -> None:
    """What was accepted (``but`` for these) was used, or nothing needed it: the next fall has to be accepted anew."""
    with transaction(con):
        open_months = con.execute(
            "SELECT DISTINCT Year, Month FROM AcceptedDecreases WHERE Target = ? AND IsOpen", (target,)
        ).fetchall()
        con.executemany(
            "UPDATE AcceptedDecreases SET IsOpen = 0 WHERE Target = ? AND Year = ? AND Month = ? AND IsOpen",
            [(target, *month) for month in set(open_months) - set(but)],
        )


class UncertainMonth(NamedTuple):
    """A month of which the ledger may not know what the receiver has, since both databases were put back."""

    jobs: int | None
    """Given, as the ledger that was replaced says; ``None``: nobody knows."""
    answered_s: int | None
    """When an operator accepted what the database has, or its jobs were back, UTC seconds; ``None``: it is held."""


def uncertain_months(con: Connection, target: str) -> dict[Month, UncertainMonth]:
    """The months of which the ledger may not know what the target's receiver has."""
    rows = con.execute(
        "SELECT Year, Month, Jobs, Answered FROM UncertainMonths WHERE Target IN ('', ?) ORDER BY Target", (target,)
    )
    return {(year, month): UncertainMonth._make(values) for year, month, *values in rows}


def uncertain_before(con: Connection, target: str) -> Month | None:
    """
    The month before which the ledger knows no month that nothing touched since both databases were put back.

    Nothing was left to compare them with: of an earlier month late jobs may have been sent, and nobody knows of which.
    ``None``: that never happened.
    """
    row = con.execute(
        "SELECT Year, Month FROM UncertainMonths WHERE Target IN ('', ?) AND Jobs IS NULL AND NOT IsEarlier"
        " ORDER BY Year, Month LIMIT 1",
        (target,),
    ).fetchone()
    return None if row is None else (row[0], row[1])


def resolve_uncertain(con: Connection, target: str, months: Iterable[Month]) -> None:
    """What the database has of these months is what counts at the target's receiver: they are held no more for that."""
    now, known, first = int(time.time()), uncertain_months(con, target), uncertain_before(con, target)
    nobody_knows = UncertainMonth(None, None)
    with transaction(con):
        con.executemany(
            "INSERT INTO UncertainMonths (Target, Year, Month, Jobs, Since, Answered, IsEarlier)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6) ON CONFLICT (Target, Year, Month)"
            " DO UPDATE SET Answered = excluded.Answered",
            [
                (target, *month, one.jobs, now, month not in known)
                for month in months
                if (one := known.get(month, nobody_knows)).answered_s is None
                and (month in known or (first is not None and month < first))
            ],
        )


def selections(con: Connection, target: str) -> tuple[dict[str, object] | None, dict[str, object] | None]:
    """By what the target selected when nothing was held last, and when the log was last gone through as a whole."""
    row = con.execute("SELECT LastGoodSelection, FullScanSelection FROM Targets WHERE Target = ?", (target,)).fetchone()
    proven, walked = row or (None, None)
    return None if proven is None else json.loads(proven), None if walked is None else json.loads(walked)


def set_selection(con: Connection, target: str, column: str, selection: Mapping[str, object]) -> None:
    """Note by what the target selects now, in ``LastGoodSelection`` or ``FullScanSelection``."""
    with transaction(con):
        con.execute(
            f"UPDATE Targets SET {column} = ? WHERE Target = ?", (json.dumps(selection, sort_keys=True), target)
        )


# The floor under published figures: a receiver's numbers fall, or move, only as far as there is proof (INVARIANTS 10).
#
# A proof is a record that changed or was deleted since, and was logged. What else would make figures fall (a database
# lost, restored, moved or exchanged; a filter mistyped, a name changed) holds the month until it is mended, or
# accepted.


Selection = Mapping[str, object]

_WAYS_OUT = (
    "publishing resumes automatically once the jobs are restored (`arcacct sweep`, `arcacct import arex`, `arcacct db"
    " restore`) or the configuration is fixed; `arcacct publish {options}` sends the current figures of the database"
)


_WAS_LOST = " (was the database lost, restored or exchanged?)"


class DecreaseGuard:
    """What one target's run may do to published months, and what it therefore leaves as it is."""

    def __init__(
        self,
        *,
        accepted: AcceptedDecreases,
        life_seq: int,
        selection: Selection,
        proven: Selection | None,
        given_jobs: Mapping[CountingKey, Amount],
        given_sums: Mapping[CountingKey, Amount],
        folded: Callable[[str], str],
    ) -> None:
        """
        Begin a run.

        ``life_seq``: records up to there in FinishedLog are those of a backup; ``selection`` is by what the target
        selects now, ``proven`` by what it did when nothing was held; ``given_jobs`` are its job records,
        ``given_sums`` what its sums stand for. The receiver compares names of places as they are ``folded``.
        """
        self._accepted = accepted
        self._folded = folded
        self._life_seq = life_seq
        self._changes = changes(proven, selection)
        self.filter_changed = proven is not None and proven.get("vofilter") != selection["vofilter"]
        """Whether other VOs are selected than when nothing was held last."""
        self._published_jobs: Counter[Month] = Counter()
        self._sites: dict[Month, set[str]] = {}
        for place, amount in given_jobs.items():
            self._published_jobs[place.year, place.month] += amount.jobs
        self._published = Counter(self._published_jobs)
        for place, amount in given_sums.items():
            self._published[place.year, place.month] += amount.jobs
        for place in (*given_jobs, *given_sums):
            self._sites.setdefault((place.year, place.month), set()).add(place.site)
        self._site = folded(str(selection.get("gocdb_name", "")))
        is_proven = proven is not None and proven.get("gocdb_name") == selection.get("gocdb_name")
        self._first = self._first_months() if is_proven else {}
        self._elsewhere: dict[tuple[Month, str], bool] = {}
        self._kept: Counter[Month] = Counter()
        self._kept_wall_s: Counter[Month] = Counter()
        self._instead_wall_s: Counter[Month] = Counter()
        """The wall time of what would be sent in the place of what was kept."""
        self._waiting: Counter[Month] = Counter()
        self._reported: set[Month] = set()
        """Months of these that `held` names already."""
        self._why: dict[Month, str] = {}
        self.held: dict[Month, HeldMonth] = {}
        self.waiting: set[int] = set()
        """
        The places in FinishedLog of the records by which months are held: kept at the receiver, or waiting here.

        Not those that have other names now and stay quietly: these wait for nothing but another decision of what was
        mistyped.
        """

    @property
    def mistyped_sites(self) -> list[str]:
        """The names that were mistyped, among those that something is published under."""
        return sorted(filter(self.was_mistyped, {site for sites in self._sites.values() for site in sites}))

    @property
    def accepts_any(self) -> bool:
        """Whether an operator lets a month fall in this run."""
        return bool(self._accepted.open)

    def _first_months(self) -> dict[str, Month]:
        """By the name of each site, as the receiver compares it: the first month that is published under it."""
        first: dict[str, Month] = {}
        for month in sorted(self._sites):
            for site in self._sites[month]:
                first.setdefault(self._folded(site), month)
        return first

    def was_mistyped(self, site: str) -> bool:
        """
        Whether what is published under another site's name belongs under ours: that one was wrong for a while.

        Ours is older, and was right when nothing was held last. A name that the site had before is no mistake.
        """
        ours, other = self._first.get(self._site), self._first.get(self._folded(site))
        return ours is not None and other is not None and ours < other

    def has_mistyped(self, month: Month) -> bool:
        """Whether a month is published under a name that was mistyped."""
        return any(map(self.was_mistyped, self._sites.get(month, ())))

    def blocks_correction(
        self, aar: AAR, key: str, seq: int, known: Sequence[SentVersion], *, asked: bool, site_of: Callable[[str], str]
    ) -> bool:
        """
        Whether a record has to stay at the receiver as it is; ``known`` is what that has of it, ``key`` today's.

        A record that has not changed moves to no other key, unless the site in it (``site_of`` a key) was mistyped;
        only who ``asked`` for it hears of that. One of a backup is no correction.
        """
        for one in known:
            if is_same(aar, one.digest):
                moves = one.key != key and not self.was_mistyped(site_of(one.key))
                if moves and self._keep(one, seq, "they are known there by other names", aar, loud=asked):
                    return True
            elif 0 < seq <= self._life_seq and self._keep(one, seq, "the backup has older versions of them", aar):
                return True
        return False

    def blocks_new_record(self, end_time: int, site: str, seq: int = 0) -> bool:
        """Whether a new job has to wait, since its month is published under the name of another site."""
        month = month_of(end_time)
        if month in self._accepted.open or not self.published_under_other_site(month, site):
            return False
        self._waiting[month] += 1
        if seq:
            self.waiting.add(seq)
        return True

    def blocks_retraction(self, aar: AAR | None, seq: int, known: Sequence[SentVersion], *, unwanted: bool) -> bool:
        """
        Whether what a receiver has of a job has to stay there.

        ``unwanted``: only the selection (vofilter) excludes it, which is a proof if the record itself has changed.
        """
        for one in known:
            unchanged = unwanted and aar is not None and is_same(aar, one.digest)
            if unchanged and self._keep(one, seq, "vofilter does not select them", None):
                return True
            is_of_backup = not unchanged and 0 < seq <= self._life_seq
            if is_of_backup and self._keep(one, seq, "the backup has older versions of them", None):
                return True
        return False

    def _keep(self, one: SentVersion, seq: int, why: str, instead: AAR | None, *, loud: bool = True) -> bool:
        """``instead``: what would be sent in its place; ``None``: zeros."""
        month = month_of(one.end_time)
        if month in self._accepted.open:
            return False
        if loud:
            if seq:
                self.waiting.add(seq)
            self._kept[month] += 1
            self._kept_wall_s[month] += one.wall_s
            has_s: object = 0 if instead is None else instead.wall_s
            # SQLite holds anything in a column of numbers.
            self._instead_wall_s[month] += has_s if isinstance(has_s, int) else 0
            self._why.setdefault(month, why)
        return True

    def published_in(self, month: Month) -> int:
        """How many jobs of a month the receiver was given, as records or in sums."""
        return self._published[month]

    def published_under_other_site(self, month: Month, site: str) -> bool:
        """Whether a month is published, and under the name of another site; asked of every new record."""
        asked = (month, site)
        if asked not in self._elsewhere:
            sites = self._sites.get(month)
            here = self._folded(site)
            self._elsewhere[asked] = sites is not None and not any(
                self._folded(one) == here or self.was_mistyped(one) for one in sites
            )
        return self._elsewhere[asked]

    def has_kept_more(self) -> bool:
        """Whether records were kept at the receiver, or have to wait, in months that are not held yet."""
        return bool((self._kept.keys() | self._waiting.keys()) - self._reported)

    def hold_blocked_months(self) -> None:
        """Hold the months of which records were kept at the receiver, or wait here; again, when there are more."""
        for month in self._reported:
            self.held.pop(month, None)
        self._reported = {*self._kept, *self._waiting}
        for month, kept in self._kept.items():
            given = self._published_jobs.get(month, kept)
            fall = f"{count_of(given, 'job')} published, and {kept} would be changed, moved or removed without proof"
            had_s, has_s = self._kept_wall_s[month], self._instead_wall_s[month]
            what = "falls" if has_s < had_s else "does not fall"
            figures = f"; their wall time {what}: {had_s / 3600:.2f} h published, {has_s / 3600:.2f} h would be sent"
            cause = f"{fall}: {self._why[month]}{self._changes}{figures}"
            self.hold(HeldMonth(*month, cause, given, max(0, given - kept)))
        for month, waiting in self._waiting.items():
            given = self._published_jobs[month]
            sites = ", ".join(sorted(self._sites[month]))
            cause = (
                f"{count_of(given, 'job')} published under the name {sites}, and {waiting} more waiting{self._changes}"
            )
            self.hold(HeldMonth(*month, cause, given, given + waiting))

    def would_decrease(
        self,
        month: Month,
        given: Mapping[CountingKey, Amount],
        found: Mapping[CountingKey, Amount],
        left: Mapping[CountingKey, Amount],
    ) -> bool:
        """
        Whether the sums of a month would fall at some place by more than was ``left``; holds the month then.

        ``found`` is what the database has, of what the receiver was ``given``; ``left`` what changed since or was
        deleted. Wall times are compared where both are known.
        """
        if month in self._accepted.open:
            return False
        there, gone = self._by_place(found), self._by_place(left)
        fallen = [
            (place, had, has)
            for place, had in self._by_place(given).items()
            if _fell(had, has := there.get(place, NOTHING), gone.get(place, NOTHING))
        ]
        if not fallen:
            return False
        jobs, wall_s = (sum(had.jobs for _, had, _ in fallen), sum(had.wall_s or 0 for _, had, _ in fallen))
        now, now_s = (sum(has.jobs for *_, has in fallen), sum(has.wall_s or 0 for *_, has in fallen))
        # What another selection passes over is in the database all the same.
        where = "would be sent now" if self._changes else "in the database now"
        names = sorted(site for site in self._sites.get(month, ()) if self._folded(site) != self._site)
        under = f" under the name {', '.join(names)}" if names and self._site else ""
        figures = f"{count_of(jobs, 'job')} published{under}, {now} {where}"
        if now >= jobs:
            had_h, has_h = f"{wall_s / 3600:.1f} h", f"{now_s / 3600:.1f} h"
            if had_h == has_h:
                had_h, has_h = f"{wall_s} s", f"{now_s} s"
            figures = f"{had_h} of wall time published{under}, {has_h} {where}"
        hosts = sorted({place.submit_host for place, *_ in fallen})
        # In another life of the database jobs are missing under whatever name.
        is_renamed = under and not any(map(self.was_mistyped, names))
        why = self._changes or ("; the name is another one now" if is_renamed else _WAS_LOST)
        self.hold(HeldMonth(*month, f"{figures} ({', '.join(hosts)}): nothing logged explains it{why}", jobs, now))
        return True

    def _by_place(self, amounts: Mapping[CountingKey, Amount]) -> dict[CountingKey, Amount]:
        """The same, places compared as the receiver compares them; what is under a mistyped name belongs under ours."""
        return totals(
            (
                place._replace(
                    site=self._site if self.was_mistyped(place.site) else self._folded(place.site),
                    submit_host=self._folded(place.submit_host),
                ),
                amount,
            )
            for place, amount in amounts.items()
        )

    def is_incomplete(self, month: Month, jobs: int, cause: str) -> bool:
        """Whether the beginning of a month is missing and nobody accepted that; holds the month then."""
        if self.was_accepted(month):
            return False
        self.hold(HeldMonth(*month, cause, 0, jobs))
        return True

    def was_accepted(self, month: Month) -> bool:
        """Whether somebody said of a month that what the database has of it is what counts."""
        return month in self._accepted.ever

    def hold(self, one: HeldMonth) -> None:
        """From now on a month is held; one that is already stays as it is."""
        self.held.setdefault((one.year, one.month), one)

    def error(self) -> FiguresHeld | None:
        """What a run with months that were held comes to."""
        return FiguresHeld(held_text(*sorted(self.held.values()))) if self.held else None


def held_text(*months: HeldMonth) -> str:
    """``2026-11 is held: 41 jobs published, 1 in the database now: ...``, for each month; then what to do about all."""
    names = [month_name((one.year, one.month)) for one in months]
    causes = [f"{name} is held: {one.cause}" for name, one in zip(names, months, strict=True)]
    return "; ".join([*causes, _WAYS_OUT.format(options=" ".join(f"--accept-lower {name}" for name in names))])


def _fell(given: Amount, found: Amount, left: Amount) -> bool:
    if found.jobs < given.jobs - left.jobs:
        return True
    if given.wall_s is None or found.wall_s is None or left.wall_s is None:
        return False
    return found.wall_s < given.wall_s - left.wall_s


def changes(proven: Selection | None, selection: Selection) -> str:
    """What has changed about what a target selects, in words; empty if nothing has."""
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
