"""The spool as the programs of arcacct 0.2 wrote it: their events may still wait after an upgrade."""

from __future__ import annotations

import os
import time

from arcacct.arex.control_files import JobFiles


def write(spool: str, files: JobFiles) -> str:
    """Write an event as the hook of 0.2 did, and return its path."""
    now_ns = time.time_ns()
    os.makedirs(spool, mode=0o700, exist_ok=True)
    path = f"{spool}/{now_ns}-{os.getpid()}-{files.state}-{files.job_id}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "wb") as file:
        file.write(to_bytes(files, now_ns))
    return path


def to_bytes(files: JobFiles, now_ns: int) -> bytes:
    """Return the content of such a file."""
    status = files.status
    lines = [
        "version=1",
        f"controldir={files.controldir}",
        f"jobid={files.job_id}",
        f"state={files.state}",
        f"time={files.event_ns or now_ns}",
        f"failed={'yes' if files.failed else 'no'}",
    ]
    if status is not None:
        lines.append(f"status={status.size} {status.mtime_ns} {status.ctime_ns}")
    if files.owner:
        lines.append(f"owner={files.owner}")
    if files.hashed:
        lines.append("hashed=yes")
    parts = ["\n".join(lines).encode("utf-8", "surrogateescape"), b"\n"]
    for name in ("local", "diag", "statistics"):
        content: bytes | None = getattr(files, name)
        if content is not None:
            parts += [f"file={name} {len(content)}\n".encode(), content, b"\n"]
    return b"".join(parts)
