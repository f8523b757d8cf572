"""
A whole job as A-REX's tables and ours keep it, and back: the one place where its texts are escaped.

What is unknown is kept as A-REX writes it: 0, one node, one core, exit code 1.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Any

from arcacct.jobs.job import Job
from arcacct.jobs.packing import TRANSFER_KINDS
from arcacct.jobs.reading import transfer_of, unescaped
from arcacct.jobs.recorder import escaped, event_time
from arcacct.jobs.rows import ArexRows, Numbers

INFO_KEYS = {
    "benchmark": "benchmark",
    "client_host": "clienthost",
    "job_name": "jobname",
    "local_user": "localuser",
    "lrms": "lrms",
    "node_names": "nodenames",
    "project": "projectname",
    "system_software": "systemsoftware",
    "wn_instance": "wninstance",
}
"""JobExtraInfo.InfoKey of the fields of a `Job` that are kept there, in the order of the keys."""
NOTHING_TOLD = Numbers._make((1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0))
INFO_FIELDS = {key: field for field, key in INFO_KEYS.items()}
_TEXTS = ("job_id", "local_job_id", "endpoint_type", "endpoint_url", "queue", "user_dn", "vo")
"""Fields of a `Job`, as the first texts of ArexRows stand."""
_names = attrgetter(*_TEXTS[2:])
_named = attrgetter(*INFO_KEYS)
_numbers = attrgetter(*Numbers._fields)
_KIND_NUMBERS = {kind: number for number, kind in TRANSFER_KINDS.items()}
_NONE = (None, ())
_SECONDS = tuple(f"{second:02}" for second in range(60))
# Names come back with every job, and so do minutes.
_name = lru_cache(maxsize=8192)(escaped)


@lru_cache(maxsize=8192)
def _minute(minute: int) -> str:
    return event_time(60 * minute)[:-2]


def stored(job: Job) -> ArexRows:
    """The rows of a job; its extra values in the order of their keys, as A-REX writes them."""
    named = zip(INFO_FIELDS, _named(job), strict=True)
    # Node names are several.
    extra = [(key, escaped(text if type(text) is str else ":".join(text))) for key, text in named if text not in _NONE]
    if job.extra:
        extra = sorted([*extra, *((key, escaped(text)) for key, text in job.extra)])
    numbers = _numbers(job)
    if None in numbers:
        numbers = tuple(
            unknown if value is None else value for value, unknown in zip(numbers, NOTHING_TOLD, strict=True)
        )
    transfers = [
        (escaped(one.url), one.size_bytes, one.start_time, one.end_time, _KIND_NUMBERS[one.kind])
        for one in job.transfers
    ]
    events = [
        (key, _minute(when // 60) + _SECONDS[when % 60] if isinstance(when, int) else when) for key, when in job.events
    ]
    texts = (escaped(job.job_id), escaped(job.local_job_id), *map(_name, _names(job)), job.status)
    tokens = [(key, escaped(value)) for key, value in job.auth_tokens]
    rtes = [(escaped(name),) for name in job.run_time_environments]
    return ArexRows._make((0, *texts, Numbers._make(numbers), None, None, tokens, rtes, transfers, extra, events, None))


def as_job(rows: ArexRows, events: tuple[tuple[str, int | str], ...]) -> Job:
    """The job of some rows; ``events`` are its own, in UTC."""
    named: dict[str, Any] = dict(zip(_TEXTS, map(unescaped, rows[1:8]), strict=True)) | rows.numbers._asdict()
    extra: list[tuple[str, str]] = []
    for key, value in rows.extra:
        field = INFO_FIELDS.get(str(key))
        if field is None or field in named:
            extra.append((str(key), unescaped(value)))
        else:
            named[field] = unescaped(value)
    if "node_names" in named:
        named["node_names"] = tuple(named["node_names"].split(":"))
    return Job(
        status=rows.status,
        extra=tuple(extra),
        auth_tokens=tuple([(str(key), unescaped(value)) for key, value in rows.auth_tokens]),
        run_time_environments=tuple([unescaped(name) for (name,) in rows.rtes]),
        transfers=tuple([transfer_of(*row) for row in rows.transfers]),
        events=events,
        **named,
    )
