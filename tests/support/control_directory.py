"""What A-REX makes when it starts."""

from __future__ import annotations

import os

from arcacct.config.paths import STATUS_FOLDERS


def set_up(path: str | os.PathLike[str]) -> str:
    """Make a control directory, whole and without jobs, or what is missing of one; its path."""
    for folder in STATUS_FOLDERS:
        os.makedirs(os.path.join(path, folder), exist_ok=True)
    return os.fspath(path)
