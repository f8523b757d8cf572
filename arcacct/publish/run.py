"""
`arcacct publish` and `arcacct republish`: every target on its own, each continuing where it stopped (DESIGN section 5).

fence -> what began and has no answer -> records after the target's last Seq (or the months they touch) -> sync.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

from arcacct.conf.settings import Settings
from arcacct.conf.targets import Target
from arcacct.errors import StoreBusy
from arcacct.publish.target_run import AS_CONFIGURED, Databases, Outcome, Period, TargetRun, Wishes
from arcacct.store import accounting, cells, ledger, lives, query
from arcacct.store.spool import private_directory
from arcacct.sweep import drain

__all__ = ["Outcome", "Period", "Wishes", "publish", "publishing_lock", "republish"]

DAY_S = 86400

_READABLE = partial(str, encoding="utf-8", errors="replace")
"""Texts that are no UTF-8, which other programs may have written: one of them must not stop all publishing."""


@contextmanager
def publishing_lock(path: str) -> Iterator[None]:
    """Only one publisher at a time; raises StoreBusy at once when another is at work."""
    private_directory(os.path.dirname(path))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreBusy(f"{path}: another arcacct is publishing; wait until it is done") from None
        yield
    finally:
        os.close(fd)


def publish(settings: Settings, targets: Sequence[Target], wishes: Wishes = AS_CONFIGURED) -> list[Outcome]:
    """
    Send what is new to each of the targets; one that fails never stops the next.

    Raises StoreError when a database refuses, StoreBusy when another publisher is at work; everything about one
    target is in its Outcome.
    """
    with _databases(settings, wishes) as (both, horizon):
        return [TargetRun(settings, target, both, wishes).publish(horizon) for target in targets]


def republish(
    settings: Settings, targets: Sequence[Target], period: Period, wishes: Wishes = AS_CONFIGURED
) -> list[Outcome]:
    """
    Send the records of a period again; summaries as whole months. Cursors stay where they are.

    Raises as `publish`. Interrupted, it can be repeated: both receivers know what to do with a repeat.
    """
    with _databases(settings, wishes) as (both, horizon):
        return [TargetRun(settings, target, both, wishes).republish(period, horizon) for target in targets]


@contextmanager
def _databases(settings: Settings, wishes: Wishes) -> Iterator[tuple[Databases, int]]:
    """The databases and the horizon: behind lock and fence, or for a dry run just as they are."""
    here = settings.places
    if wishes.dry_run:
        both = Databases(accounting.read_accounting(here), accounting.read_publishing(here))
        with closing(both.accounting), closing(both.publishing), accounting.translating(here.database):
            both.accounting.text_factory = _READABLE
            yield both, query.highest_seq(both.accounting)
        return
    # Before the lock: where no database is begun, no directory for it is made either.
    accounting.refuse_unasked(here)
    with publishing_lock(here.publishing_lock):
        both = Databases(accounting.open_accounting(here), accounting.open_publishing(here))
        with (
            accounting.put_away(both.accounting, here.database, here),
            accounting.put_away(both.publishing, here.publishing_database, here),
            accounting.translating(here.publishing_database),
        ):
            both.accounting.text_factory = _READABLE
            # What waits in the spool is new, too; what is set aside there no sweep will find again.
            complaints: list[str] = []
            drain(here, both.accounting, complaints)
            for complaint in complaints:
                wishes.complain(complaint)
            cells.advance(both.accounting, here)
            accounting.read_once(both.accounting)
            begun = lives.begin_run(both.accounting, both.publishing, here)
            yield both, begun.horizon
            ledger.forget_bytes(both.publishing, int(time.time()) - settings.keep_messages_days * DAY_S)
