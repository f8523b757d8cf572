"""
The floor under published figures: a receiver's numbers fall, or move, only as far as there is proof (INVARIANTS 10).

A proof is a record that changed or was deleted since, and was logged. What else would make figures fall (a database
lost, restored, moved or exchanged; a filter mistyped, a name changed) holds the month until it is mended, or accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from arcacct.errors import FiguresHeld
from arcacct.publishing.digests import is_same
from arcacct.publishing.given import NOTHING, Amount, CountingKey, totals
from arcacct.publishing.instants import Month, month_name, month_of
from arcacct.publishing.ledger import SentVersion
from arcacct.publishing.months import AcceptedDecreases, HeldMonth
from arcacct.records.model import AAR
from arcacct.wording import count_of

Selection = Mapping[str, object]

_WAYS_OUT = (
    "publishing resumes automatically once the jobs are restored (`arcacct sweep`, `arcacct import arex`, `arcacct db"
    " restore`) or the configuration is fixed; `arcacct publish {options}` sends what the database has"
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
        self._waiting: Counter[Month] = Counter()
        self._reported: set[Month] = set()
        """Months of these that `held` names already."""
        self._why: dict[Month, str] = {}
        self.held: dict[Month, HeldMonth] = {}

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
                if moves and self._keep(one, "they are known there by other names", loud=asked):
                    return True
            elif 0 < seq <= self._life_seq and self._keep(one, "the backup has older versions of them"):
                return True
        return False

    def blocks_new_record(self, end_time: int, site: str) -> bool:
        """Whether a new job has to wait, since its month is published under the name of another site."""
        month = month_of(end_time)
        if month in self._accepted.open or not self.published_under_other_site(month, site):
            return False
        self._waiting[month] += 1
        return True

    def blocks_retraction(self, aar: AAR | None, seq: int, known: Sequence[SentVersion], *, unwanted: bool) -> bool:
        """
        Whether what a receiver has of a job has to stay there.

        ``unwanted``: only the selection (vofilter) excludes it, which is a proof if the record itself has changed.
        """
        for one in known:
            unchanged = unwanted and aar is not None and is_same(aar, one.digest)
            if unchanged and self._keep(one, "vofilter does not select them"):
                return True
            if not unchanged and 0 < seq <= self._life_seq and self._keep(one, "the backup has older versions of them"):
                return True
        return False

    def _keep(self, one: SentVersion, why: str, *, loud: bool = True) -> bool:
        month = month_of(one.end_time)
        if month in self._accepted.open:
            return False
        if loud:
            self._kept[month] += 1
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
            fall = f"{count_of(given, 'job')} published, and {kept} would be changed, moved or taken back without proof"
            self.hold(HeldMonth(*month, f"{fall}: {self._why[month]}{self._changes}", given, max(0, given - kept)))
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
