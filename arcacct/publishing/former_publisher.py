"""Whether jura-ng published to a target's receiver, and whether an operator has settled that (INVARIANTS 19)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import NamedTuple

from arcacct.database.connection import Connection, DatabaseError, connect
from arcacct.errors import StoreError, use_as
from arcacct.publishing import cursors, target_months
from arcacct.publishing.plugin import TargetPlugin
from arcacct.publishing.target_months import DECLINED, SWITCHED, Decision
from arcacct.times import DAY_S, Month, iso, month_bounds, month_name, month_of, recent_months


class Mark(NamedTuple):
    """How far jura-ng published to a target, by its own database: UTC seconds."""

    last_end_s: int
    last_report_s: int


class FormerPublisher(NamedTuple):
    """jura-ng's records at the receiver of a target, and the operators' decisions about them."""

    target: str
    """The name of the target."""
    block: str
    """The target's name in jura-ng's database."""
    is_guessed: bool
    """Whether jura-ng's block is not configured: it may be this target under another name."""
    until_s: int
    """The end of the last job that jura-ng published."""
    adds_up: bool = False
    """Whether the receiver adds jura-ng's sums to ours; not if the configuration lets both publish (allow_jura)."""
    months: tuple[Month, ...] = ()
    """The months that both publish as sums, or would."""
    decisions: Mapping[Month, Decision] = MappingProxyType({})
    """The decisions that hold: jura-ng published nothing after them."""

    def is_open(self, month: Month) -> bool:
        """Whether sums of jura-ng may be there for a month, and nothing was decided about them."""
        return self.adds_up and month <= month_of(self.until_s) and month not in self.decisions

    @property
    def open(self) -> list[Month]:
        """Those of `months` without a decision."""
        return [month for month in self.months if self.is_open(month)]

    @property
    def decided(self) -> str:
        """Return the names of those who decided, as text."""
        return ", ".join(dict.fromkeys(map(str, self.decisions.values())))

    @property
    def cause(self) -> str:
        """Why an open month is not sent."""
        return (
            f"jura-ng published to [{self.block}] the jobs that ended until {iso(self.until_s)}, and its sums would"
            " count in addition to ours"
        )

    def remedy(self, months: Iterable[Month] = ()) -> str:
        """Return the ways out, as text, for some open months; by default for `months`."""
        further = "".join(f" --month {month_name(month)}" for month in sorted({*months} - {*self.months}))
        switch = f"`arcacct switch --target {self.target}{further}"
        decline = f"{switch} --decline` leaves them there, and ours are sent"
        if self.is_guessed:
            name = self.block.rpartition(":")[2]
            return f"if it is the same receiver, call the target {name} as in arc.conf; if not, {decline}"
        return f"{switch}` takes them over (`--plan` shows them first); {decline}"


def marks(path: str) -> dict[str, Mark]:
    """
    Return how far jura-ng came with each target; empty if there is no such database, or if it has no such table.

    SQLite opens a copy: a lock on the original could stop a jura-ng that is still running. Raises StoreError if the
    database cannot be read: then it is unknown what counts twice.
    """
    if not os.path.lexists(path):
        return {}
    import shutil  # noqa: PLC0415  slow to import, of every publish
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="arcacct-") as folder:
        copy = os.path.join(folder, "publishing.db")
        try:
            for suffix in ("", "-wal"):
                if os.path.exists(path + suffix) or not suffix:
                    shutil.copyfile(path + suffix, copy + suffix)
            with closing(connect(copy)) as con:
                if not con.execute("SELECT 1 FROM sqlite_master WHERE name = 'AccountingTargets'").fetchall():
                    return {}
                rows = con.execute("SELECT TargetID, LastEndTime, LastReport FROM AccountingTargets")
                return {str(name): Mark(int(end), int(report)) for name, end, report in rows}
        except (OSError, shutil.SpecialFileError, DatabaseError, ValueError) as error:
            raise StoreError(
                f"{path}: what jura-ng published cannot be read, and may count twice: {error};"
                f" {use_as(path)}, restore it, or move it away if jura-ng never published from this host"
            ) from error


def former_publisher(
    plugin: TargetPlugin, publishing: Connection | None, database: str | None = None
) -> FormerPublisher | None:
    """
    Return what jura-ng published to the receiver of a target; ``None``: nothing.

    ``publishing=None``: there is no ledger yet. ``database``: jura-ng's, if it is not that of this host.
    """
    settings, target = plugin.settings, plugin.target
    found = marks(database or settings.jura_database)
    adds_up = not plugin.takeover_advice
    block = plugin.former_block
    if is_guessed := adds_up and block not in found:
        labels = {one.block.partition(":")[2] for one in settings.targets}
        kind = f"{block.partition(':')[0]}:"
        others = [name for name in found if name.startswith(kind) and name.removeprefix(kind) not in labels]
        block = max(others, key=lambda name: found[name].last_end_s, default=block)
    if block not in found:
        return None
    until_s = found[block].last_end_s
    former = FormerPublisher(target.name, block, is_guessed, until_s)
    if not adds_up or (settings.allow_jura and settings.jura_targets):
        return former
    cursor = None if publishing is None else cursors.cursor(publishing, target.block)
    start_s = until_s - DAY_S if cursor is None else cursor.start_end_time
    months = {month for month in recent_months(until_s) if month_bounds(*month)[1] > start_s}
    if cursor is None and is_guessed:
        # A new target sends the recent months.
        months = recent_months(until_s) & recent_months(int(time.time()))
    known = {} if publishing is None else target_months.load(publishing, target.block)
    published = {month: one.format.message_format for month, one in known.items() if one.format is not None}
    months |= {month for month in (*published, *target_months.held(known)) if month <= month_of(until_s)}
    of_sums = [month for month in sorted(months) if not plugin.has_records(published.get(month, plugin.message_format))]
    decided = {} if publishing is None else target_months.decisions(publishing, target.block, SWITCHED, DECLINED)
    decisions = {month: one for month, one in decided.items() if one.when_s >= max(found[block])}
    return former._replace(adds_up=True, months=tuple(of_sums), decisions=decisions)
