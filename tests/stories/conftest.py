"""Fixtures of these tests."""

from __future__ import annotations

from corpus_fixtures import arex7_file, arex_file, ours
from publishing_fixtures import box, empty_box, memory, rig
from recording_host import host
from target_fixtures import bare_job, car_schema, cell, job, ur_schema
