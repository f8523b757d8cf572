"""One line of `arcacct doctor`, and what every check is given."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import psutil

from arcacct.config import parser
from arcacct.config.parser import Conf
from arcacct.config.paths import places
from arcacct.config.settings import examine
from arcacct.errors import ArcacctError, ConfigError, CredentialError, StoreError
from arcacct.targets import kinds
from arcacct.wording import count_of

OK, WARNING, ERROR, UNTOLD = "ok", "warning", "error", "cannot be told"
VERDICTS = (OK, WARNING, ERROR, UNTOLD)
DAY_S, HOUR_S = 86_400, 3600
CONF, KEYS, STORE = ConfigError.exit_code, CredentialError.exit_code, StoreError.exit_code
"""What errors of the configuration (and of what it names), of credentials, and of databases add to the exit code."""


class Verdict(NamedTuple):
    """What one check found."""

    what: str
    """The thing that was looked at, in a word or two."""
    verdict: str
    """One of `VERDICTS`."""
    detail: str
    """What is so."""
    advice: str = ""
    """What to do about it; empty where there is nothing to do."""
    exit_code: int = 0
    """What it adds to the exit code (DESIGN section 7); 0 of all but errors and what could not be looked at."""

    @property
    def text(self) -> str:
        """Detail and advice, as a person reads them."""
        return f"{self.detail}; {self.advice}" if self.advice else self.detail


def advised(what: str, verdict: str, text: str, exit_code: int) -> Verdict:
    """A verdict of a text of the house: what is wrong, and after a semicolon what to do."""
    detail, _, advice = text.partition("; ")
    return Verdict(what, verdict, detail, advice, exit_code)


def of_error(what: str, error: ArcacctError) -> Verdict:
    """The verdict that an error is."""
    return advised(what, ERROR, " ".join(map(str, error.args)), error.exit_code)


class Process(NamedTuple):
    """A running A-REX."""

    pid: int
    files: tuple[str, ...]
    """What it has open, as far as we may see that."""


def arex_processes() -> list[Process]:
    """The processes ``arched`` of this host."""
    found = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"] != "arched":
            continue
        try:
            files = tuple(one.path for one in process.open_files())
        except (psutil.Error, OSError):
            files = ()
        found.append(Process(process.pid, files))
    return found


class Site:
    """The host as its configuration has it; what cannot be made of a wrong one is ``None``."""

    def __init__(
        self,
        conf: Conf,
        database: str | None = None,
        *,
        limit_s: float = 20.0,
        now: int | None = None,
        processes: Callable[[], Sequence[Process]] = arex_processes,
        mounts: str = "/proc/self/mountinfo",
        run_time_conf: str = parser.RUN_TIME_FILE,
    ) -> None:
        """
        ``database`` of the command line wins. ``limit_s``: how long one question to a receiver may take.

        ``now``: UTC seconds, ``None`` for the present. The others are where this host's state is read.
        """
        self.conf = conf
        self.database = database
        self.limit_s = limit_s
        self.now = int(time.time()) if now is None else now
        self.processes = processes
        self.mounts = mounts
        self.run_time_conf = run_time_conf
        self.settings, _problems = examine(conf, kinds(), database=database)
        try:
            self.here = places(conf, None, database) if conf.files else None
        except ConfigError:
            # Is among the problems of the configuration.
            self.here = None

    @property
    def is_without_arex(self) -> bool:
        """Whether the site has decided that there is no A-REX here: a database= , and no control directory."""
        here = self.here
        is_set = self.database or self.conf.get("arcacct", "database")
        return here is not None and bool(is_set) and not os.path.isdir(here.controldir)


Check = Callable[[Site], Iterable[Verdict]]
"""Looks at one thing. May raise what it likes: that is a verdict, too."""


def user_name(uid: int) -> str:
    """A user's name, or the number of one who has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def is_hidden(path: str) -> bool:
    """Whether this user may not even see if a file is there."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def ago(seconds: int) -> str:
    """A time that has passed, in words."""
    for unit, size in (("days", DAY_S), ("hours", HOUR_S), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return count_of(max(seconds, 0), "second")
