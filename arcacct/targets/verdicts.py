"""
Finds records that a receiver would refuse before they are sent: the rules that all receivers share.

A receiver refuses whole batches: SGAS rolls the transaction back, APEL drops the message without a report. So each
record is first checked by the receiver's own rules. A repair that does not change accounted values (a name cut, an
optional value left out) is made and noted; any other record is refused alone, with the reason. The shared rules are
about identity, a final status, an end, and amounts that a column can hold. The receivers' own acceptance
(`sgas.acceptance`, `apel.acceptance`) adds further rules.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from arcacct.benchmark import Benchmark, parsed_benchmark
from arcacct.errors import InputError
from arcacct.publishing.plugin import Acceptance
from arcacct.records.model import AAR, UsageCell
from arcacct.records.states import FINAL
from arcacct.targets.common import EXACT, FUTURE_S, INT4, ascii_text, carried, iso_time
from arcacct.times import LAST_SECOND

_FREE_TEXTS = ("job_name", "user_dn", "vo", "queue", "project", "local_user", "local_job_id", "wn_instance")
_OPTIONAL_AMOUNTS = ("memory_kib", "virtual_memory_kib", "scratch_bytes", "stage_in_bytes", "stage_out_bytes")
SMALLEST_WIDTH = 100
"""No text of a job has a narrower column than this, at any receiver."""
_LONGEST_SHOWN = 60
LONGEST_HOST = 255
"""The longest domain name."""
MOST_HOSTS = 1000
"""SGAS keeps one name of a node, or a text of 2700 characters; APEL keeps none."""
UNKNOWN_EXIT_CODE = 1
"""A-REX's value for it."""


def job_refusal(aar: AAR, largest_wall_s: int, largest_cpu_s: int) -> str | None:
    """Return why no receiver would accept a job, or None."""
    if not (aar.job_id and aar.job_id.isprintable()):
        return f"JobID {aar.job_id!r} is empty or has characters that cannot be sent"
    if aar.status not in FINAL:
        return f"status {aar.status!r} is not final: expected completed, failed or aborted"
    if not _is_within(aar.end_time, 1, LAST_SECOND):
        return f"EndTime {_shown(aar.end_time)} is not a time"
    return outside(
        ("wall time", aar.wall_s, largest_wall_s),
        ("user CPU time", aar.cpu_user_s, largest_cpu_s),
        ("kernel CPU time", aar.cpu_kernel_s, largest_cpu_s),
    ) or outside(("CPU time", aar.cpu_s, largest_cpu_s))


def refused(aar: AAR, refusal: str | None, now: int) -> Acceptance | None:
    """
    Return the verdict on a job with this reason against it, or with an end in the future; ``None`` for any other job.

    A job in the future may be right, if this host's clock is slow. APEL has this rule; SGAS would count the job on a
    future day.
    """
    if refusal or aar.end_time <= now + FUTURE_S:
        return Acceptance(aar, (), refusal) if refusal else None
    refusal = f"EndTime {iso_time(aar.end_time)} is in the future by this host's clock ({iso_time(now)})"
    return Acceptance(aar, (), refusal, aar.end_time - FUTURE_S)


def outside(*bounds: tuple[str, object, int]) -> str | None:
    """Return the first of (name, value, largest) that is not a number in 0..largest, in words."""
    for name, value, largest in bounds:
        if not _is_within(value, 0, largest):
            return f"{name} {_shown(value)} is outside 0..{largest}"
    return None


def known_count(name: str, count: object, notes: list[str]) -> int:
    """
    Return nodes or cores in every receiver's range; 0 means "unknown", and also replaces an impossible number.

    It is not the largest number of a column: receivers multiply wall times by it.
    """
    if isinstance(count, int) and 0 <= count <= INT4:
        return count
    notes.append(f"{name} {_shown(count)} is outside 0..{INT4}: treated as unknown")
    return 0


def _is_within(value: object, least: int, most: int) -> bool:
    """Whether a value is a number between two: SQLite holds anything in a column of numbers."""
    return isinstance(value, int) and least <= value <= most


def _shown(value: object) -> str:
    """A value of any kind in a few letters."""
    text = str(value) if isinstance(value, int | float) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def benchmark_problem(text: str | None) -> str | None:
    """Return the problem of a benchmark; nothing if there is none."""
    if not text or parsed_benchmark(text) is not None:
        return None
    try:
        Benchmark.parse(text)
    except InputError as error:
        return str(error)
    return None


def changed(aar: AAR, **values: Any) -> AAR:
    """Return the record with other values, if the names of the fields are known only at run time."""
    return aar._replace(**values)


def repair_values(aar: AAR, notes: list[str]) -> AAR:
    """
    Move a start after the end to the end: only durations and the end are accounted.

    Leave out optional amounts that are impossible: none of them prevents a job from being counted.
    """
    if not _is_within(aar.submit_time, 0, aar.end_time):
        notes.append(f"StartTime {_shown(aar.submit_time)} is not before EndTime: EndTime is used")
        aar = aar._replace(submit_time=aar.end_time)
    for name in ("lrms_submit_time", "lrms_start_time", "lrms_end_time"):
        seconds = getattr(aar, name)
        if seconds is not None and not 0 <= seconds <= LAST_SECOND:
            notes.append(f"{name} {seconds} is not a time: left out")
            aar = changed(aar, **{name: None})
    for name in _OPTIONAL_AMOUNTS:
        amount = getattr(aar, name)
        if not _is_within(amount, 0, EXACT - 1):
            notes.append(f"{name} {_shown(amount)} is outside 0..2^53: left out")
            aar = changed(aar, **{name: 0})
    nodes, cores = known_count("node count", aar.node_count, notes), known_count("core count", aar.core_count, notes)
    aar = aar._replace(node_count=nodes, core_count=cores)
    if not isinstance(aar.exit_code, int):
        notes.append(f"exit code {_shown(aar.exit_code)} is not a number: treated as unknown")
        aar = aar._replace(exit_code=UNKNOWN_EXIT_CODE)
    return aar


def repair_texts(aar: AAR, notes: list[str]) -> AAR:
    """
    Leave out invalid names of nodes, and all beyond the most that a job can have.

    Only note which other names lose characters: the formats remove these.
    """
    good = sound_hosts(aar.node_names)
    if good != aar.node_names:
        count = len(aar.node_names) - len(good)
        notes.append(f"node names: {count} left out, unprintable, too long or too many")
        aar = aar._replace(node_names=good)
    for name in _FREE_TEXTS:
        text = getattr(aar, name)
        if text and carried(text) != text:
            notes.append(f"{name}: control characters are removed or escaped")
    return aar


def sound_hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the valid names of nodes, and no more of them than any job has."""
    return tuple(name for name in names if name.isprintable() and len(name) <= LONGEST_HOST)[:MOST_HOSTS]


def note_cuts(record: AAR | UsageCell, widths: tuple[tuple[str, int], ...], notes: list[str]) -> None:
    """Note the texts for which APEL gets the beginning and a digest; the formats cut them."""
    for name, width in widths:
        text = getattr(record, name)
        length = 0 if text is None else _sent_length(text)
        if length > width:
            notes.append(f"{name}: cut from {length} to {width} characters")


# The names of users and VOs occur in every cell.
@lru_cache(maxsize=8192)
def _sent_length(text: str) -> int:
    return len(ascii_text(text).strip())
