"""
A whole job as A-REX's tables and ours keep it, and back: the one place where its texts are escaped.

What is unknown is kept as A-REX writes it: 0, one node, one core, exit code 1.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from arcacct.jobs.aar import Transfer
from arcacct.jobs.job import Job
from arcacct.jobs.reading import TRANSFER_KINDS, unescaped
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
"""JobExtraInfo.InfoKey of the fields of a `Job` that are kept there."""
UNKNOWN = Numbers._make((1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0))
_FIELDS = {key: field for field, key in INFO_KEYS.items()}
_named = attrgetter(*INFO_KEYS)
_numbers = attrgetter(*Numbers._fields)
_KIND_NUMBERS = {kind: number for number, kind in TRANSFER_KINDS.items()}


def stored(job: Job) -> ArexRows:
    """The rows of a job; its extra values in the order of their keys, as A-REX writes them."""
    extra = [(key, escaped(value)) for key, value in job.extra]
    for key, value in zip(INFO_KEYS.values(), _named(job), strict=True):
        if value is not None and value != ():
            extra.append((key, escaped(value if isinstance(value, str) else ":".join(value))))
    extra.sort()
    return ArexRows(
        0,
        escaped(job.job_id),
        escaped(job.local_job_id),
        escaped(job.endpoint_type),
        escaped(job.endpoint_url),
        escaped(job.queue),
        escaped(job.user_dn),
        escaped(job.vo),
        job.status,
        Numbers._make(
            [unknown if value is None else value for value, unknown in zip(_numbers(job), UNKNOWN, strict=True)]
        ),
        None,
        None,
        [(key, escaped(value)) for key, value in job.auth_tokens],
        [(escaped(name),) for name in job.run_time_environments],
        [
            (escaped(one.url), one.size_bytes, one.start_time, one.end_time, _KIND_NUMBERS[one.kind])
            for one in job.transfers
        ],
        extra,
        [(key, event_time(when) if isinstance(when, int) else when) for key, when in job.events],
    )


def as_job(rows: ArexRows, events: tuple[tuple[str, int | str], ...]) -> Job:
    """The job of some rows; ``events`` are its own, in UTC."""
    named: dict[str, Any] = {}
    extra: list[tuple[str, str]] = []
    for key, value in rows.extra:
        field = _FIELDS.get(str(key))
        if field is None or field in named:
            extra.append((str(key), unescaped(value)))
        else:
            named[field] = unescaped(value)
    if "node_names" in named:
        named["node_names"] = tuple(named["node_names"].split(":"))
    return Job(
        job_id=unescaped(rows.job_id),
        status=rows.status,
        local_job_id=unescaped(rows.local_job_id),
        endpoint_type=unescaped(rows.interface),
        endpoint_url=unescaped(rows.url),
        queue=unescaped(rows.queue),
        user_dn=unescaped(rows.user_dn),
        vo=unescaped(rows.vo),
        **rows.numbers._asdict(),
        extra=tuple(extra),
        auth_tokens=tuple([(str(key), unescaped(value)) for key, value in rows.auth_tokens]),
        run_time_environments=tuple([unescaped(name) for (name,) in rows.rtes]),
        transfers=tuple([_transfer(*row) for row in rows.transfers]),
        events=events,
        **named,
    )


def _transfer(url: object, *numbers: object) -> Transfer:
    size, start, end, kind = (number if isinstance(number, int) else 0 for number in numbers)
    return Transfer(unescaped(url), size, start, end, TRANSFER_KINDS.get(kind, "input"))
