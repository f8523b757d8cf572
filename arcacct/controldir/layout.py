"""
Where A-REX 6 keeps the files of a job: ``job.ID.SUFFIX``, flat in the control directory.

The status file moves between four folders: accepting (ACCEPTED), finished (FINISHED, DELETED), processing (the rest)
and restarting.
"""

import os

STATES = ("ACCEPTED", "PREPARING", "SUBMIT", "INLRMS", "CANCELING", "FINISHING", "FINISHED", "DELETED")
"""The states of a job, in the order of its life."""

STATUS_FOLDERS = ("accepting", "processing", "finished", "restarting")

_FOLDER_OF_STATE = {"ACCEPTED": "accepting", "FINISHED": "finished", "DELETED": "finished"}


def job_file(controldir: str, job_id: str, suffix: str) -> str:
    """The path of one of a job's files, e.g. ``local``, ``diag``, ``statistics``, ``failed``."""
    return f"{controldir}/job.{job_id}.{suffix}"


def status_files(controldir: str, job_id: str, state: str) -> list[str]:
    """Every place where a job's status file may be, the likely one for the state first."""
    likely = _FOLDER_OF_STATE.get(state, "processing")
    folders = [likely, *(folder for folder in STATUS_FOLDERS if folder != likely)]
    return [f"{controldir}/{folder}/job.{job_id}.status" for folder in folders]


def is_job_id(text: str) -> bool:
    """
    Whether a text may name a job (A-REX's ids are letters and digits).

    Anything that could leave the directory or hide in it is refused before it becomes part of a path.
    """
    printable = text.isascii() and text.isprintable() and not set(text) & {"/", " "}
    return printable and 0 < len(text) <= 200 and text[0] != "."


def scan_status_files(controldir: str) -> "list[tuple[str, str, os.stat_result]]":
    """
    ``(job id, path, stat)`` of each status file in the directory.

    A job that moves from one folder to another during the scan may be seen twice or not at all: the next scan
    sees it. Raises OSError when the control directory itself cannot be read.
    """
    os.stat(controldir)
    found = []
    for folder in STATUS_FOLDERS:
        try:
            entries = os.scandir(f"{controldir}/{folder}")
        except FileNotFoundError:
            continue
        with entries:
            for entry in entries:
                name = entry.name
                if name.startswith("job.") and name.endswith(".status"):
                    try:
                        found.append((name[4:-7], entry.path, entry.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        continue
    return found
