"""Fixtures of these tests."""

from __future__ import annotations

from closed_later import closed_databases
from other_users import public_dir

__all__ = ["closed_databases", "public_dir"]
