"""The statuses of jobs in SQL: what `states` lists, as the texts of statements need it."""

from __future__ import annotations

from arcacct.jobs.states import ABORTED, COMPLETED, FAILED, FINAL, IN_PROGRESS

SQL_FINAL = str(FINAL)
"""Of jobs that have ended, for ``Status.Name IN``."""
SQL_BY_ITSELF = f"('{COMPLETED}', '{FAILED}')"
"""Of those that ended by themselves: they count whatever they used, and an aborted one only if it used something."""
SQL_FAILED = f"'{FAILED}'"
SQL_ABORTED = f"'{ABORTED}'"
SQL_IN_PROGRESS = f"'{IN_PROGRESS}'"
