"""
Control files of a job, damaged, between those of two that are whole: through sweep, the database and every message.

What must hold: the two jobs are recorded and published with what they used; the damaged one is in every receiver's
messages or set aside for it, or never was a finished job; each message is one that its receiver would take; no command
ends in an error of ours or writes a character that steers a terminal.
"""

from __future__ import annotations

import pathlib
from functools import lru_cache

from fuzz.command import arcacct, steers
from fuzz.damage import damaged
from fuzz.site_of_targets import GOOD, WALL_S, begin, publish_to_all, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random

DATA = pathlib.Path(__file__).parent.parent / "data"
SUFFIXES = ("local", "diag", "statistics", "failed")
NAMES = ("hostileJob", "ho;st$(id)%41", "-rf", "x" * 150, "\x1b]0;x\x07", "j.ob.local", "'")


@lru_cache
def _originals() -> list[dict[str, bytes]]:
    """The files of every job of both corpora."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(DATA.glob("arex/control/job.*.*")):
        _job, name, suffix = path.name.split(".")
        found.setdefault(name, {})[suffix] = path.read_bytes()
    for path in sorted(DATA.glob("arex7/control/jobs/**/*")):
        if path.is_file():
            found.setdefault(str(path.parent), {})[path.name] = path.read_bytes()
    return [{name: files[name] for name in SUFFIXES if name in files} for files in found.values() if "local" in files]


def made(chance: random.Random) -> dict[str, bytes]:
    files = dict(chance.choice(_originals()))
    for name in chance.sample(sorted(files), chance.randint(1, len(files))):
        files[name] = damaged(chance, files[name])
    state = b"FINISHED" if chance.random() < 0.9 else chance.choice((b"INLRMS", b"DELETED", b"PENDING:FINISHED"))
    files["status"] = state if chance.random() < 0.9 else damaged(chance, state)
    name = chance.choice(NAMES) if chance.random() < 0.2 else NAMES[0]
    return {f"{name}/{suffix}": content for suffix, content in files.items()}


def tried(files: dict[str, bytes], work: pathlib.Path) -> None:
    control = begin(work)
    for path, content in files.items():
        name, _, suffix = path.rpartition("/")
        folder = control / "finished" if suffix == "status" else control
        (folder / f"job.{name}.{suffix}").write_bytes(content)
    conf = ("--config", str(work / "arc.conf"))
    arcacct(*conf, "sweep", allowed=(0, 65))
    before = records(work)
    arcacct(*conf, "sweep", allowed=(0, 65))
    assert before == records(work), "a second sweep of the same files changed the records"
    assert all(before[name][:2] == ("completed", WALL_S) for name in GOOD), before
    publish_to_all(work)
    name = next(iter(files)).rpartition("/")[0]
    for command in (("status",), ("job", "info", "--", name), ("job", "why", "--", name), ("stats", "--by", "user,vo")):
        shown = arcacct(*conf, *command, allowed=(0, 1, 2, 3, 64, 65))
        assert not steers(shown.out + shown.err), shown
