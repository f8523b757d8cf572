"""
Twelve questions that every engine answers alike: SQLite on the views v1_*, DuckDB, Spark, PostgreSQL.

One text each, in the SQL that all of them read, on the tables jobs, events, transfers and attributes of the dataset
(`sqlite_views` makes these of our database). What they agree on, and what the texts keep to:

- sums of integers are cast to BIGINT: else they are HUGEINT in DuckDB, numeric in PostgreSQL;
- whole numbers are divided only after ``1e0 *``, which makes them floats everywhere;
- a day is the second that it starts with, ``end_time - end_time % 86400``: no functions of dates;
- no ORDER BY: NULL and letters sort differently, `canonical` sorts the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple


class Question(NamedTuple):
    """What is asked, and how."""

    name: str
    sql: str


QUESTIONS = (
    Question(
        "usage by month and VO",
        """
        SELECT year, month, vo, count(*) AS jobs, CAST(sum(wall_s) AS BIGINT) AS wall_s,
               CAST(sum(wall_s * core_count) AS BIGINT) AS core_s, CAST(sum(cpu_s) AS BIGINT) AS cpu_s
          FROM jobs WHERE status IN ('completed', 'failed') GROUP BY year, month, vo
        """,
    ),
    Question(
        "usage by site and CE",
        """
        SELECT site, ce, count(*) AS jobs, count(DISTINCT user_dn) AS users, min(end_time) AS first_end_s,
               max(end_time) AS last_end_s, CAST(sum(wall_s * core_count) AS BIGINT) AS core_s
          FROM jobs GROUP BY site, ce
        """,
    ),
    Question(
        "jobs that ended, by day",
        """
        SELECT end_time - end_time % 86400 AS day_s, count(*) AS jobs,
               CAST(sum(CASE WHEN status = 'failed' THEN 1 ELSE 0 END) AS BIGINT) AS failed_jobs
          FROM jobs GROUP BY end_time - end_time % 86400
        """,
    ),
    Question(
        "users and what they used",
        """
        SELECT user_dn, count(*) AS jobs, count(DISTINCT queue) AS queues, max(core_count) AS most_cores,
               CAST(sum(cpu_user_s) AS BIGINT) AS cpu_user_s, CAST(sum(cpu_kernel_s) AS BIGINT) AS cpu_kernel_s
          FROM jobs GROUP BY user_dn
        """,
    ),
    Question(
        "efficiency by VO and queue",
        """
        SELECT vo, queue, 1e0 * sum(cpu_s) / nullif(sum(wall_s * core_count), 0) AS cpu_efficiency,
               avg(1e0 * memory_kib) AS memory_kib
          FROM jobs GROUP BY vo, queue
        """,
    ),
    Question(
        "failures by exit code",
        """
        SELECT status, exit_code, count(*) AS jobs, CAST(sum(wall_s * core_count) AS BIGINT) AS lost_core_s
          FROM jobs WHERE status <> 'completed' GROUP BY status, exit_code
        """,
    ),
    Question(
        "waiting in the batch system by queue",
        """
        SELECT queue, count(*) AS jobs, min(lrms_start_time - submit_time) AS least_s,
               max(lrms_start_time - submit_time) AS most_s, avg(1e0 * (lrms_start_time - submit_time)) AS mean_s
          FROM jobs WHERE lrms_start_time IS NOT NULL AND submit_time IS NOT NULL GROUP BY queue
        """,
    ),
    Question(
        "jobs by length and cores",
        """
        SELECT CASE WHEN wall_s < 600 THEN 'minutes' WHEN wall_s < 86400 THEN 'hours' ELSE 'days' END AS length,
               core_count, count(*) AS jobs
          FROM jobs
         GROUP BY CASE WHEN wall_s < 600 THEN 'minutes' WHEN wall_s < 86400 THEN 'hours' ELSE 'days' END, core_count
        """,
    ),
    Question(
        "hours times benchmark by VO",
        """
        SELECT vo, benchmark_type, sum(wall_s * core_count * benchmark_value) / 36e2 AS normalised_hours
          FROM jobs WHERE benchmark_value IS NOT NULL GROUP BY vo, benchmark_type
        """,
    ),
    Question(
        "bytes moved by VO and kind",
        """
        SELECT jobs.vo, transfers.kind, count(*) AS files, CAST(sum(transfers.size_bytes) AS BIGINT) AS size_bytes,
               CAST(sum(transfers.duration_s) AS BIGINT) AS duration_s
          FROM transfers
          JOIN jobs ON jobs.site = transfers.site AND jobs.ce = transfers.ce AND jobs.record_id = transfers.record_id
         GROUP BY jobs.vo, transfers.kind
        """,
    ),
    Question(
        "the last event of each kind, after how long",
        """
        SELECT event, count(*) AS jobs, CAST(sum(last_s - submit_time) AS BIGINT) AS after_s
          FROM (SELECT events.site, events.ce, events.record_id, event, max(event_time) AS last_s
                  FROM events GROUP BY events.site, events.ce, events.record_id, event) AS lasts
          JOIN jobs ON jobs.site = lasts.site AND jobs.ce = lasts.ce AND jobs.record_id = lasts.record_id
         GROUP BY event
        """,
    ),
    Question(
        "the largest job of each user, and its attributes",
        """
        SELECT ranked.user_dn, ranked.job_id, attributes.kind, attributes.name, attributes.value
          FROM (SELECT site, ce, record_id, job_id, user_dn,
                       row_number() OVER (PARTITION BY user_dn
                                          ORDER BY wall_s * core_count DESC, site, ce, record_id) AS place
                  FROM jobs) AS ranked
          LEFT JOIN attributes ON attributes.site = ranked.site AND attributes.ce = ranked.ce
                              AND attributes.record_id = ranked.record_id
         WHERE ranked.place = 1
        """,
    ),
)


def sqlite_views(site: str, ce: str) -> str:
    """A script that makes the tables of the dataset as temporary views of an accounting database, of one CE."""
    of_job = (
        f"'{site}' AS site, '{ce}' AS ce, CAST(strftime('%Y', AAR.EndTime, 'unixepoch') AS INTEGER) AS year,"
        " strftime('%m', AAR.EndTime, 'unixepoch') AS month, "
    )
    number = "AAR.RecordID AS record_id, "
    # The values as told: `v1_jobs` shows no usage of a job that does not count.
    views = {
        "jobs": ("", "JobValues"),
        "events": (number, "v1_job_events"),
        "transfers": (number, "v1_transfers"),
        "attributes": (number, "v1_job_attributes"),
    }
    return "".join(
        f"CREATE TEMP VIEW {name} AS SELECT {of_job}{own}{view}.* FROM {view} JOIN AAR ON AAR.JobID = {view}.job_id"
        " WHERE AAR.EndTime > 0 AND AAR.RecordID NOT IN (SELECT RecordID FROM RecordHolds WHERE IsHeld);\n"
        for name, (own, view) in views.items()
    )


def canonical(rows: Iterable[Sequence[object]]) -> list[tuple[object, ...]]:
    """Rows in an order that is the same whichever engine they are from, floats by nine digits."""
    return sorted(
        (tuple(map(_plain, row)) for row in rows), key=lambda row: [(value is not None, str(value)) for value in row]
    )


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        value = float(value)
    return float(f"{value:.9g}") if isinstance(value, float) else value
