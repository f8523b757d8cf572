"""
The folder ``received/``: every document a receiver got, numbered, and a line of JSON for each request.

A journal that finds an older one continues its numbers: nothing received is ever overwritten. What was received has the
names of users: only whom the sandbox runs as may read it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable

from arcacct.files.safe_open import open_directory, private
from arcacct.sandbox.wire import Arrival


class Journal:
    """``<directory>/index.jsonl`` and a folder for each target, e.g. ``sgas/NNNN.xml``, ``apel/NNNN.smime``."""

    def __init__(self, directory: str, targets: Iterable[str]) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        for target in targets:
            open_directory(os.path.join(directory, target), make=0o700).close()
            numbers = (name.partition(".")[0] for name in os.listdir(os.path.join(directory, target)))
            self._last[target] = max((int(number) for number in numbers if number.isdecimal()), default=0)

    def number(self, target: str) -> str:
        """The next number of this target, four digits or more."""
        with self._lock:
            self._last[target] += 1
            return f"{self._last[target]:04d}"

    def keep(self, target: str, name: str, content: bytes) -> str:
        """Write a received document; its name below the journal's directory."""
        with (
            open_directory(os.path.join(self.directory, target)) as folder,
            open(folder.create(name), "wb") as file,
        ):
            file.write(content)
        return f"{target}/{name}"

    def note(self, delivery: Arrival, answer: int | None) -> None:
        """Add the line of one delivery; `answer` is the HTTP status the sender saw, None if it saw none."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "target": delivery.target,
            "records": delivery.records,
            "answer": answer,
            "file": delivery.file,
            "verdict": delivery.verdict,
        }
        index = os.path.join(self.directory, "index.jsonl")
        with self._lock, open(index, "a", encoding="utf-8", opener=private) as file:
            file.write(json.dumps(line) + "\n")
