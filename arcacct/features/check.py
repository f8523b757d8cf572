"""
Whether the features that a site provides are as the specification and their readers want them: one verdict a rule.

``ok`` and ``fail`` are certain, ``warn`` looks wrong, ``unseen`` cannot be judged from one look (it shows over a job's
life; the tests of this project do so for what it writes itself).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import psutil

from arcacct.errors import InputError, UsageError
from arcacct.features.check_web import check_web
from arcacct.features.keys import DEPRECATED, JOB_KEYS, KEYS, NAME, problem
from arcacct.features.reader import (
    LARGEST_VALUE,
    VARIABLES,
    Features,
    location_of,
    missing,
    names_in,
    read,
    remaining_s,
)
from arcacct.features.verdict import Judgement, Verdict, fail, of_problems, ok, unseen, warn
from arcacct.files.foreign import Directory, open_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.features.http import Web

_SLACK_S = 60
_TOLERANCE = 0.01


class File(NamedTuple):
    """What is under a name in a directory."""

    status: os.stat_result
    content: str
    """Its beginning, empty for what is no plain file or is not to be believed."""


class Folder(NamedTuple):
    """A directory as it was at one moment."""

    mode: int
    files: dict[str, File]


class Seen(NamedTuple):
    """What there is to judge."""

    given: dict[str, str]
    """What the variables say, by ``machine`` and ``job``."""
    locations: dict[str, str]
    features: dict[str, Features]
    folders: dict[str, Folder]
    """What is not served, but read from directories."""
    now: int
    boot: int

    def values(self) -> dict[str, str]:
        """Every good value of both."""
        return {key: value for one in self.features.values() for key, value in one.values.items()}

    def raw_values(self) -> dict[str, str]:
        """Every value of both as it is there, good or not."""
        found: dict[str, str] = {}
        for kind, one in self.features.items():
            found |= self.contents(kind) if kind in self.folders else one.values
        return found

    def contents(self, kind: str) -> dict[str, str]:
        """Every file of a directory with its content."""
        return {name: file.content for name, file in self.folders[kind].files.items()}

    def file(self, kind: str, name: str) -> File | None:
        """A file of a directory, if there is one."""
        folder = self.folders.get(kind)
        return None if folder is None else folder.files.get(name)

    def number(self, key: str) -> int | None:
        """A good value that is a whole number."""
        value = self.values().get(key)
        return int(value) if value is not None and value.isdigit() else None


def check(given: Mapping[str, str], *, web: Web | None = None, now: int | None = None) -> list[Verdict]:
    """
    The verdict of each rule about the locations given, by ``machine`` and ``job`` (one may be missing).

    Raises InputError when a directory cannot be read.
    """
    locations: dict[str, str] = {}
    for kind, value in given.items():
        with suppress(UsageError):
            locations[kind] = location_of(value, f"${VARIABLES[kind]}")
    features = {kind: read(place, fetch=web.get if web is not None else None) for kind, place in locations.items()}
    folders = {kind: _folder(place) for kind, place in locations.items() if place.startswith("/")}
    judged_at = now if now is not None else int(time.time())
    seen = Seen(dict(given), locations, features, folders, judged_at, int(psutil.boot_time()))
    verdicts = {number: judge(seen) for number, judge in _RULES.items()}
    verdicts |= check_web(seen.locations, seen.features, web)
    return [Verdict(number, *verdicts[number]) for number in sorted(verdicts)]


def _folder(location: str) -> Folder:
    try:
        with open_directory(location) as place:
            found = {name: file for name in names_in(place)[0] if (file := _file(place, name)) is not None}
            return Folder(place.status.st_mode, found)
    except OSError as error:
        raise InputError(f"{error.filename or location}: cannot be read: {error.strerror}") from error


def _file(place: Directory, name: str) -> File | None:
    try:
        status = place.lstat(name)
    except FileNotFoundError:
        return None
    try:
        return File(status, place.read(name, LARGEST_VALUE + 1, for_all=True).decode("latin-1"))
    except FileNotFoundError:
        # Taken away meanwhile.
        return None
    except (InputError, OSError):
        # Another file by now, or one that this user may not read: rules 25 and 32 say so.
        return File(status, "")


def _names(seen: Seen) -> Judgement:
    if not seen.folders:
        return unseen("a web server does not list its keys")
    names = [name for folder in seen.folders.values() for name in folder.files]
    wrong = [name for name in names if not NAME.fullmatch(name) and not name.startswith(".")]
    return of_problems([f"{name!r}: not lower-case letters, digits and _" for name in wrong])


def _of_forms(*forms: str) -> Callable[[Seen], Judgement]:
    def judge(seen: Seen) -> Judgement:
        wrong, there = [], 0
        for name, value in seen.raw_values().items():
            key = KEYS.get(name)
            if key is None or key.form not in forms:
                continue
            there += 1
            # One newline at the end is allowed, and nothing else.
            what = problem(name, value.removesuffix("\n"))
            if what is not None:
                wrong.append(f"{name}: {what}")
        return of_problems(wrong) if there else unseen("no such key is there")

    return judge


def _job_start(seen: Seen) -> Judgement:
    form = _of_forms("instant")(seen)
    start = seen.number("jobstart_secs")
    if start is None:
        return form
    if start > seen.now:
        return fail("jobstart_secs is in the future")
    return ok() if start >= seen.boot - _SLACK_S else fail("jobstart_secs is before this host booted")


def _wall_limit(seen: Seen) -> Judgement:
    wall, cpu, cores = seen.number("wall_limit_secs"), seen.number("cpu_limit_secs"), seen.number("allocated_cpu")
    if wall is None or cpu is None or cores is None:
        return unseen("needs wall_limit_secs, cpu_limit_secs and allocated_cpu")
    return warn("wall_limit_secs is more than cpu_limit_secs: is it scaled by processors?") if wall > cpu else ok()


def _cpu_limit(seen: Seen) -> Judgement:
    wall, cpu, cores = seen.number("wall_limit_secs"), seen.number("cpu_limit_secs"), seen.number("allocated_cpu")
    if wall is None or cpu is None or cores is None:
        return unseen("needs wall_limit_secs, cpu_limit_secs and allocated_cpu")
    if cores > 1 and cpu <= wall:
        return warn("cpu_limit_secs is that of one processor: is it the total of all processes?")
    return ok()


def _rating(seen: Seen) -> Judgement:
    values = seen.values()
    if not {"hs06", "hs06_job", "allocated_cpu", "total_cpu"} <= values.keys():
        return unseen("needs hs06, total_cpu, hs06_job and allocated_cpu")
    share = float(values["hs06"]) * int(values["allocated_cpu"]) / int(values["total_cpu"])
    if abs(float(values["hs06_job"]) - share) <= _TOLERANCE * share:
        return ok()
    return warn(f"hs06_job is {values['hs06_job']}, the job's share of the machine is {share:.2f}")


def _order(seen: Seen) -> Judgement:
    job, machine = seen.number("shutdowntime_job"), seen.number("shutdowntime")
    if job is None or machine is None:
        return unseen("there are not two times of shutdown")
    return ok() if job <= machine else fail("shutdowntime_job is later than shutdowntime")


def _grace(seen: Seen) -> Judgement:
    wrong = [
        f"shutdowntime{suffix} without grace_secs{suffix}"
        for suffix in ("", "_job")
        if seen.number(f"shutdowntime{suffix}") is not None and seen.number(f"grace_secs{suffix}") is None
    ]
    if wrong:
        return fail("; ".join(wrong))
    promised = [key for key in ("grace_secs", "grace_secs_job") if seen.number(key) is not None]
    return ok() if promised else unseen("no shutdown can be announced without grace_secs")


def _notice(seen: Seen) -> Judgement:
    wrong, there = [], 0
    for kind, suffix in (("machine", ""), ("job", "_job")):
        at, grace = seen.number(f"shutdowntime{suffix}"), seen.number(f"grace_secs{suffix}")
        file = seen.file(kind, f"shutdowntime{suffix}")
        if at is None or grace is None or file is None:
            continue
        there += 1
        announced = int(file.status.st_mtime)
        if at < announced + grace:
            wrong.append(f"shutdowntime{suffix} was announced {at - announced} s before, grace_secs is {grace}")
    return of_problems(wrong) if there else unseen("no shutdown is announced in a directory")


def _complete(seen: Seen) -> Judgement:
    lacking = [name for kind, features in seen.features.items() for name in missing(features, kind)]
    return warn(f"missing: {', '.join(lacking)}") if lacking else ok()


def _static(seen: Seen) -> Judgement:
    start = seen.number("jobstart_secs")
    if start is None or "job" not in seen.folders:
        return unseen("shows over the life of a job")
    changed = [
        key.name
        for key in JOB_KEYS
        if not key.dynamic
        and (file := seen.file("job", key.name)) is not None
        and file.status.st_mtime > start + _SLACK_S
    ]
    return warn(f"written after the job started: {', '.join(changed)}") if changed else ok()


def _no_shutdown(seen: Seen) -> Judgement:
    raw = seen.raw_values()
    wrong = [name for name in ("shutdowntime", "shutdowntime_job") if raw.get(name, "1").strip() in {"", "0"}]
    return of_problems([f"{name} is empty or 0: take the file away when none is foreseen" for name in wrong])


def _disjoint(seen: Seen) -> Judgement:
    places = list(seen.locations.values())
    if len(places) == 2 and places[0] == places[1]:
        return fail("both variables name one place")
    return unseen("needs two jobs on one machine")


def _slash(seen: Seen) -> Judgement:
    return of_problems(
        [f"${VARIABLES[kind]} ends in a slash" for kind, value in seen.given.items() if value[-1:] == "/"]
    )


def _prefix(seen: Seen) -> Judgement:
    return of_problems(
        [
            f"${VARIABLES[kind]} begins neither with / nor with http:// or https://"
            for kind in seen.given
            if kind not in seen.locations
        ]
    )


def _permissions(seen: Seen) -> Judgement:
    wrong = []
    for kind, folder in seen.folders.items():
        place = seen.locations[kind]
        if not folder.mode & stat.S_IXOTH or folder.mode & (stat.S_IWGRP | stat.S_IWOTH):
            wrong.append(f"{place} has mode {stat.S_IMODE(folder.mode):04o}; 0755 is right")
        for name, file in folder.files.items():
            own = file.status.st_mode
            if stat.S_ISREG(own) and (not own & stat.S_IROTH or own & (stat.S_IWGRP | stat.S_IWOTH)):
                wrong.append(f"{_shown(place, name)} has mode {stat.S_IMODE(own):04o}; 0644 is right")
    return of_problems(wrong) if seen.folders else unseen("a web server does not show permissions")


def _links(seen: Seen) -> Judgement:
    wrong = [
        f"{_shown(seen.locations[kind], name)} is no plain file"
        for kind, folder in seen.folders.items()
        for name, file in folder.files.items()
        if not stat.S_ISREG(file.status.st_mode)
    ]
    return of_problems(wrong) if seen.folders else unseen("a web server does not show links")


def _shown(place: str, name: str) -> str:
    """A file for people, whatever somebody called it."""
    path = f"{place}/{name}"
    return path if path.isprintable() else repr(path)


def _absent(seen: Seen) -> Judgement:
    warnings = [f"{kind}: {text}" for kind, features in seen.features.items() for text in features.warnings]
    return warn("; ".join(warnings)) if warnings else ok()


def _remaining(seen: Seen) -> Judgement:
    left = remaining_s(seen.features.get("machine"), seen.features.get("job"), seen.now)
    return ok(f"{left} s are left to the job") if left is not None else unseen("nothing limits the job's time")


def _unknown(seen: Seen) -> Judgement:
    names = [name for features in seen.features.values() for name in features.extra]
    return ok(f"kept for accounting: {', '.join(names)}" if names else "")


def _deprecated(seen: Seen) -> Judgement:
    there = [name for folder in seen.folders.values() for name in folder.files if name in DEPRECATED]
    return warn(f"keys of an old draft: {', '.join(there)}") if there else ok()


def _only_over_time(what: str) -> Callable[[Seen], Judgement]:
    return lambda _seen: unseen(what)


_RULES: dict[int, Callable[[Seen], Judgement]] = {
    1: _names,
    2: _of_forms("count", "seconds", "instant", "bytes"),
    3: _of_forms("rating"),
    4: _of_forms("count"),
    5: _of_forms("id"),
    6: _job_start,
    7: _wall_limit,
    8: _cpu_limit,
    9: _of_forms("bytes"),
    10: _rating,
    11: _order,
    12: _grace,
    13: _notice,
    14: _complete,
    15: _static,
    16: _no_shutdown,
    17: _only_over_time("shows when an announced shutdown is taken back"),
    18: _only_over_time("shows while values change"),
    19: _only_over_time("shows after the job"),
    20: _disjoint,
    21: _slash,
    22: _prefix,
    23: lambda seen: ok("only one variable is set") if len(seen.given) == 1 else ok(),
    24: _only_over_time("shows over the life of a virtual machine"),
    25: _permissions,
    26: _links,
    32: _absent,
    33: _remaining,
    34: _unknown,
    35: _deprecated,
}
