"""Fixtures of these tests."""

from __future__ import annotations

from closed_later import closed_databases
from corpus_fixtures import arex7_file, arex_file, ours
from publishing_fixtures import box, empty_box, memory, rig
from recording_host import host
from target_fixtures import bare_job, car_schema, cell, job, ur_schema

__all__ = [
    "arex7_file",
    "arex_file",
    "bare_job",
    "box",
    "car_schema",
    "cell",
    "closed_databases",
    "empty_box",
    "host",
    "job",
    "memory",
    "ours",
    "rig",
    "ur_schema",
]
