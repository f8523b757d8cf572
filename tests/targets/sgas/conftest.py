"""Fixtures of these tests."""

from __future__ import annotations

from publishing_fixtures import authority, host, naps, receiver, session, session_of
from target_fixtures import arex_jobs, bare_job, golden, job, ur_schema
