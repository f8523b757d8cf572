"""
Figures for monitoring plug-ins: performance data as the Monitoring Plugins Development Guidelines have it.

``'label'=value[unit];warning;critical;minimum``, where a threshold is a range: ``9`` is an alarm above 9, ``9:`` below.
"""

from __future__ import annotations

from collections.abc import Iterator

from arcacct.database import upkeep
from arcacct.queries.health import Health, Limit, Thresholds
from arcacct.queries.health_queries import TargetState
from arcacct.records.hold_decisions import NONE
from arcacct.records.holds import HELD

SECONDS, BYTES = "s", "B"


def perfdata(found: Health, limits: Thresholds) -> Iterator[str]:
    """What is known in figures; what is not is absent."""
    if found.recorded is not None:
        yield _datum("jobs", found.recorded.jobs)
        yield _datum("database", found.size_bytes, BYTES)
        if found.recorded.last_sweep_s is not None:
            yield _datum("sweep age", found.now - found.recorded.last_sweep_s, SECONDS, limits.sweep_s)
        yield _datum("ended by callout", found.recorded.ends.jobs - found.recorded.ends.swept)
        yield _datum("ended by sweep", found.recorded.ends.swept)
        held = found.implausible.get(HELD, NONE).records
        yield _datum("implausible", held, "", limits.implausible)
    if found.basis is not None:
        yield _datum("without wall time", found.basis.without_wall_percent, "%", limits.unmeasured_percent)
    if not found.spool.unknown:
        oldest_s = found.spool.oldest_s
        yield _datum("spool", found.spool.files, "", limits.spool_files)
        yield _datum("spool age", 0 if oldest_s is None else found.now - oldest_s, SECONDS, limits.spool_s)
    for target in found.targets:
        yield from _of_target(found.now, target, limits)
    if upkeep.BACKUP in found.maintenance_log:
        yield _datum("backup age", found.now - found.maintenance_log[upkeep.BACKUP].at_s, SECONDS, limits.backup_s)
    for path, end in found.certificates.items():
        if isinstance(end, int):
            yield _datum(f"certificate {path}", end - found.now, SECONDS, limits.certificate_s, falling=True)
    if found.free is not None:
        mib = limits.free_mib
        limit = Limit(mib.warning * 2**20, mib.critical * 2**20)
        yield _datum("disk free", found.free.bytes, BYTES, limit, falling=True)


def _of_target(now: int, target: TargetState, limits: Thresholds) -> Iterator[str]:
    oldest_s = target.waiting.oldest_end_s
    late_s = 0 if oldest_s is None else now - max(oldest_s, target.due_s)
    yield _datum(f"{target.name} waiting", target.waiting.records)
    yield _datum(f"{target.name} late", max(late_s, 0), SECONDS, limits.unsent_s)
    yield _datum(f"{target.name} quarantined", target.held.get("quarantined", 0), "", limits.quarantined)
    yield _datum(f"{target.name} held months", len(target.held_months), "", Limit(1, 1))


def _datum(label: str, value: int, unit: str = "", limit: Limit | None = None, *, falling: bool = False) -> str:
    """``limit``: reached from below, or from above where the value is ``falling``."""
    edges = ("", "")
    if limit is not None:
        # Ours are reached at the limit itself, a range is left above its end.
        edges = (
            (f"{limit.warning}:", f"{limit.critical}:")
            if falling
            else (f"{limit.warning - 1}", f"{limit.critical - 1}")
        )
    # What a label must not have.
    name = label.translate({ord("="): "_", ord("'"): "_", ord("|"): "_"})
    least = "" if value < 0 else "0"
    return f"'{name}'={value}{unit};{edges[0]};{edges[1]};{least}"
