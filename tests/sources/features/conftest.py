"""Fixtures of this folder."""

from __future__ import annotations

from other_users import public_dir

__all__ = ["public_dir"]
