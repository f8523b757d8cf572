"""Who is at the keyboard."""

from __future__ import annotations

import getpass
import os


def operator() -> str:
    """The name of the user who gives the command, also behind sudo; the number of one without a name."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
