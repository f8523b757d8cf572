"""What AUDITOR's server takes (0.11.0): the types of its records, and what its framework takes of a body."""

from __future__ import annotations

from arcacct.targets.rules import INT8

LONGEST_NAME = 256
"""Graphemes, of which a text has no more than characters: of ids, keys and values of meta, components and scores."""
LARGEST_AMOUNT = INT8
LARGEST_BODY = 2 * 1024 * 1024
