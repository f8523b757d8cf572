"""What the tests of the launcher and of the recorder need."""

from __future__ import annotations

from other_users import public_dir
from recording_host import host, shell

__all__ = ["host", "public_dir", "shell"]
