"""Fixtures of these tests."""

from __future__ import annotations

from publishing_fixtures import *
from target_fixtures import arex_jobs, bare_job, car_schema, cell, golden, job
