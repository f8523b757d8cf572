"""
The safeguard of published figures (INVARIANTS 10 and 12): a receiver's numbers fall only as far as there is proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from arcacct.errors import FiguresHeld
from arcacct.publishing import held_texts
from arcacct.publishing.ledger import SentVersion
from arcacct.publishing.sent import NOTHING, Amount, CountingKey, KeptRecords, is_same, totals
from arcacct.publishing.target_months import AcceptedDecreases, HeldMonth
from arcacct.records.model import AAR
from arcacct.times import Month, month_of

# The floor under published figures: a receiver's numbers fall, or move, only as far as there is proof (INVARIANTS 10).
#
# A proof is a logged record that changed or was deleted since. Any other cause of a decrease (a database that was lost,
# restored, moved or exchanged; a mistyped filter, a changed name) holds the month until it is fixed or accepted.


Selection = Mapping[str, object]


class DecreaseGuard:
    """Decides what one target's run may do to published months, and collects the months that it leaves as they are."""

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
        Start the checks of a run.

        ``life_seq``: records up to this place in FinishedLog are those of a backup. ``selection`` is the target's
        present selection, ``proven`` the one when nothing was held last. ``given_jobs`` are the published job records,
        ``given_sums`` the published sums, by place. ``folded`` returns a name of a place as the receiver compares it.
        """
        self.accepted = accepted
        """The decreases that operators accepted."""
        self._folded = folded
        self._life_seq = life_seq
        self._changes = held_texts.changes(proven, selection)
        places = {name: selection[name] for name in ("gocdb_name", "lrms_host") if name in selection}
        self._names_changed = bool(held_texts.changes(proven, places))
        self.filter_changed = proven is not None and proven.get("vofilter") != selection["vofilter"]
        """Whether the selected VOs differ from those when nothing was held last."""
        self._given = [*sorted(given_jobs.items()), *sorted(given_sums.items())]
        self._published_jobs = Counter[Month]()
        for place, amount in given_jobs.items():
            self._published_jobs[place.year, place.month] += amount.jobs
        self._sites: dict[Month, set[str]] = {}
        for place, _amount in self._given:
            self._sites.setdefault((place.year, place.month), set()).add(place.site)
        self._site = folded(str(selection.get("gocdb_name", "")))
        self._first: dict[str, Month] = {}
        """By folded site name, the first month that is published under it, if our name was right when proven."""
        if proven is not None and proven.get("gocdb_name") == selection.get("gocdb_name"):
            for month, site in sorted((month, site) for month, sites in self._sites.items() for site in sites):
                self._first.setdefault(folded(site), month)
        self._names = {
            month: set(map(folded, sites))
            for month, sites in self._sites.items()
            if not any(map(self.was_mistyped, sites))
        }
        """The names of sites in each month that is not published under a mistyped one."""
        self.kept: dict[Month, KeptRecords] = {}
        """
        The records of the log that hold months.

        Records that are kept silently because of other names are not included: they wait only for another decision
        about mistyped names.
        """
        self._asked: dict[Month, KeptRecords] = {}
        """The same of records that do not come from the log."""
        self._reported: set[Month] = set()
        """Those of these months that are already in `held` ..."""
        self._blocked: set[Month] = set()
        """... and those of them that are held for no other reason."""
        self.held: dict[Month, HeldMonth] = {}

    def amounts(self, month: Month) -> list[list[object]]:
        """Return the published amounts of a month by place, as JSON values."""
        return [[*place[:2], *amount] for place, amount in self._given if (place.year, place.month) == month]

    def hold_former_names(self, former: Mapping[Month, Sequence[str]], target: str) -> None:
        """
        Hold the months that the receiver has under former names, if a name has changed since nothing was held last.

        ``target``: the name of the target, for the command that decides about all of them.
        """
        if not self._names_changed:
            return
        for month, names in former.items():
            if month not in self.accepted.open:
                cause, remedy = held_texts.former_names(names, self._changes, target)
                published = sum(amount.jobs for place, amount in self._given if (place.year, place.month) == month)
                self.hold(HeldMonth(*month, cause, published, published, remedy=remedy))

    @property
    def mistyped_sites(self) -> list[str]:
        """The mistyped site names, among those with something published."""
        return sorted(filter(self.was_mistyped, {site for sites in self._sites.values() for site in sites}))

    def was_mistyped(self, site: str) -> bool:
        """
        Whether another site's name was mistyped, so that its records belong under ours.

        This is so if our name is older and was right when nothing was held last. An earlier name of the site is no
        mistake.
        """
        ours, other = self._first.get(self._site), self._first.get(self._folded(site))
        return ours is not None and other is not None and ours < other

    def blocks_correction(
        self, aar: AAR, key: str, seq: int, known: Sequence[SentVersion], *, asked: bool, site_of: Callable[[str], str]
    ) -> bool:
        """
        Whether a record must stay at the receiver as it is. ``known``: the receiver's versions; ``key``: the present
        key.

        An unchanged record moves to no other key, unless the site in its key (``site_of``) was mistyped. This is
        reported only if the record was ``asked`` for. A record of a backup is no correction.
        """
        for one in known:
            if is_same(aar, one.digest):
                moves = one.key != key and not self.was_mistyped(site_of(one.key))
                if moves and self._keep(one, seq, "they have other names there", aar, loud=asked):
                    return True
            elif 0 < seq <= self._life_seq and self._keep(one, seq, "the backup has older versions of them", aar):
                return True
        return False

    def blocks_new_record(self, end_time: int, site: str, seq: int = 0) -> bool:
        """Whether a new job must wait because its month is published under the name of another site."""
        month = month_of(end_time)
        if month in self.accepted.open or not self.published_under_other_site(month, site):
            return False
        if (found := self._new_of(month, seq)) is not None:
            found.waiting += 1
        return True

    def blocks_retraction(self, aar: AAR | None, seq: int, known: Sequence[SentVersion], *, unwanted: bool) -> bool:
        """
        Whether a job must stay at the receiver.

        ``unwanted``: only the selection (vofilter) excludes it. That is a proof only if the record itself has changed.
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
        """Keep a version unless its month may fall. ``instead``: the record that would replace it; ``None``: zeros."""
        month = month_of(one.end_time)
        if month in self.accepted.open:
            return False
        if loud and (found := self._new_of(month, seq)) is not None:
            found.kept += 1
            found.kept_wall_s += one.wall_s
            has_s: object = 0 if instead is None else instead.wall_s
            # SQLite accepts any value in a number column.
            found.instead_wall_s += has_s if isinstance(has_s, int) else 0
            found.why = found.why or why
        return True

    def _new_of(self, month: Month, seq: int) -> KeptRecords | None:
        """Return what a record of a month is added to; ``None``: an earlier run has counted it."""
        found = (self.kept if seq else self._asked).setdefault(month, KeptRecords())
        if seq:
            if found.is_noted(seq):
                return None
            found.places.add(seq)
        return found

    def published_under_other_site(self, month: Month, site: str) -> bool:
        """Whether a month is published only under the name of another site."""
        names = self._names.get(month)
        return names is not None and self._folded(site) not in names

    def has_kept_more(self) -> bool:
        """Whether records were kept at the receiver, or must wait, in months that are not held yet."""
        return bool((self.kept.keys() | self._asked.keys()) - self._reported)

    def hold_blocked_months(self) -> None:
        """Hold the months with kept or waiting records. Update a month that is held already if there are more."""
        for month in self._blocked:
            self.held.pop(month, None)
        self._reported = {*self.kept, *self._asked}
        self._blocked = self._reported - self.held.keys()
        for month in self._reported:
            # Records that do not come from the log are added first.
            found = self._asked.get(month, KeptRecords()) + self.kept.get(month, KeptRecords())
            given = self._published_jobs.get(month, found.kept)
            if found.kept:
                cause = held_texts.kept_records(given, found, self._changes)
                self.hold(HeldMonth(*month, cause, given, max(0, given - found.kept)))
            else:
                cause = held_texts.waiting_records(given, found.waiting, self._sites[month], self._changes)
                self.hold(HeldMonth(*month, cause, given, given + found.waiting))

    def would_decrease(
        self,
        month: Month,
        given: Mapping[CountingKey, Amount],
        found: Mapping[CountingKey, Amount],
        left: Mapping[CountingKey, Amount],
    ) -> bool:
        """
        Whether the sums of a month would fall at some place by more than ``left``. If so, hold the month.

        ``given``: the receiver's figures. ``found``: the database's figures. ``left``: the amount that has changed or
        was deleted since. Wall times are compared if both are known.
        """
        if month in self.accepted.open:
            return False
        there, gone = self._by_place(found), self._by_place(left)
        fallen = [
            (place, had, has)
            for place, had in self._by_place(given).items()
            if _fell(had, has := there.get(place, NOTHING), gone.get(place, NOTHING))
        ]
        if not fallen:
            return False
        had = Amount(sum(had.jobs for _, had, _ in fallen), sum(had.wall_s or 0 for _, had, _ in fallen))
        has = Amount(sum(has.jobs for *_, has in fallen), sum(has.wall_s or 0 for *_, has in fallen))
        sites = self._sites.get(month, ()) if self._site else ()
        names = sorted(site for site in sites if self._folded(site) not in ("", self._site))
        # In another incarnation of the database jobs are missing, under any name.
        is_renamed = bool(names) and not any(map(self.was_mistyped, names))
        hosts = {place.submit_host for place, *_ in fallen}
        cause = held_texts.decrease(had, has, names, hosts, self._changes, is_renamed=is_renamed)
        self.hold(HeldMonth(*month, cause, had.jobs, has.jobs))
        return True

    def _by_place(self, amounts: Mapping[CountingKey, Amount]) -> dict[CountingKey, Amount]:
        """Return the amounts by folded place. Amounts under a mistyped name are added to ours."""
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
        """Whether the start of a month is missing and no operator has accepted that. If so, hold the month."""
        if month in self.accepted.ever:
            return False
        self.hold(HeldMonth(*month, cause, 0, jobs))
        return True

    def hold_unknown(self, month: Month, jobs: int | None, here: int) -> None:
        """Hold a month that a lost ledger may have known better; ``jobs``: its number, ``None`` if that is unknown."""
        self.hold(HeldMonth(*month, held_texts.unknown(jobs, here), jobs or 0, here))

    def hold(self, one: HeldMonth) -> None:
        """Hold a month. A month that is already held is not changed."""
        self.held.setdefault((one.year, one.month), one)

    def error(self) -> FiguresHeld | None:
        """Return the error of a run with held months; ``None`` if there are none."""
        return FiguresHeld(held_texts.held_text(*sorted(self.held.values()))) if self.held else None


def _fell(given: Amount, found: Amount, left: Amount) -> bool:
    if found.jobs < given.jobs - left.jobs:
        return True
    if given.wall_s is None or found.wall_s is None or left.wall_s is None:
        return False
    return found.wall_s < given.wall_s - left.wall_s
