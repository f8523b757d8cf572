"""Fixtures of these tests."""

from __future__ import annotations

from hook_host import host
from other_users import public_dir

__all__ = ["host", "public_dir"]
