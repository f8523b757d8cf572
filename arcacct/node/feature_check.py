"""
Whether the features that a site provides are as the specification and their readers want them: one verdict a rule.

``ok`` and ``fail`` are certain, ``warn`` looks wrong, ``unseen`` cannot be judged from one look (it shows over a job's
life; the tests of this project do so for what it writes itself).
"""

from __future__ import annotations

import os
import stat
import time
from typing import NamedTuple

import psutil

from arcacct.errors import InputError, UsageError
from arcacct.node.feature_check_web import check_web
from arcacct.node.feature_keys import DEPRECATED, JOB_KEYS, KEYS, NAME, problem
from arcacct.node.feature_reader import VARIABLES, Features, location_of, missing, read, remaining_s
from arcacct.node.feature_verdict import Judgement, Verdict, fail, of_problems, ok, unseen, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from arcacct.node.feature_http import Web

_SLACK_S = 60
_TOLERANCE = 0.01


class Seen(NamedTuple):
    """What there is to judge."""

    given: dict[str, str]
    """What the variables say, by ``machine`` and ``job``."""
    locations: dict[str, str]
    features: dict[str, Features]
    raw: dict[str, dict[str, str]]
    """Of directories every file with its contents."""
    now: int
    boot: int

    def values(self) -> dict[str, str]:
        """Every good value of both."""
        return {key: value for one in self.features.values() for key, value in one.values.items()}

    def raw_values(self) -> dict[str, str]:
        """Every value of both as it is there, good or not."""
        found: dict[str, str] = {}
        for kind, one in self.features.items():
            found |= self.raw.get(kind, one.values)
        return found

    def number(self, key: str) -> int | None:
        """A good value that is a whole number."""
        value = self.values().get(key)
        return int(value) if value is not None and value.isdigit() else None


def check(given: Mapping[str, str], *, web: Web | None = None, now: int | None = None) -> list[Verdict]:
    """
    The verdict of each rule about the locations given, by ``machine`` and ``job`` (one may be missing).

    Raises InputError when a directory cannot be read.
    """
    seen = _look(given, web, now)
    verdicts = {number: judge(seen) for number, judge in _RULES.items()}
    verdicts |= check_web(seen.locations, seen.features, web)
    return [Verdict(number, *verdicts[number]) for number in sorted(verdicts)]


def _look(given: Mapping[str, str], web: Web | None, now: int | None) -> Seen:
    locations: dict[str, str] = {}
    for kind, value in given.items():
        try:
            locations[kind] = location_of(value, f"${VARIABLES[kind]}")
        except UsageError:
            continue
    features = {kind: read(place, fetch=web.get if web is not None else None) for kind, place in locations.items()}
    raw = {kind: _raw(place) for kind, place in locations.items() if place.startswith("/")}
    return Seen(
        dict(given), locations, features, raw, now if now is not None else int(time.time()), int(psutil.boot_time())
    )


def _raw(directory: str) -> dict[str, str]:
    found = {}
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    found[name] = file.read(4097).decode("latin-1")
            else:
                found[name] = ""
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return found


def _names(seen: Seen) -> Judgement:
    if not seen.raw:
        return unseen("a web server does not list its keys")
    wrong = [name for raw in seen.raw.values() for name in raw if not NAME.fullmatch(name) and not name.startswith(".")]
    return of_problems([f"{name}: not lower-case letters, digits and _" for name in wrong])


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
        place = seen.locations.get(kind, "")
        if at is None or grace is None or not place.startswith("/"):
            continue
        there += 1
        announced = int(os.stat(f"{place}/shutdowntime{suffix}").st_mtime)
        if at < announced + grace:
            wrong.append(f"shutdowntime{suffix} was announced {at - announced} s before, grace_secs is {grace}")
    return of_problems(wrong) if there else unseen("no shutdown is announced in a directory")


def _complete(seen: Seen) -> Judgement:
    lacking = [name for kind, features in seen.features.items() for name in missing(features, kind)]
    return warn(f"missing: {', '.join(lacking)}") if lacking else ok()


def _static(seen: Seen) -> Judgement:
    start, place = seen.number("jobstart_secs"), seen.locations.get("job", "")
    if start is None or not place.startswith("/"):
        return unseen("shows over the life of a job")
    changed = [
        key.name
        for key in JOB_KEYS
        if not key.dynamic
        and key.name in seen.raw["job"]
        and os.stat(f"{place}/{key.name}").st_mtime > start + _SLACK_S
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
    for kind in seen.raw:
        place = seen.locations[kind]
        mode = os.stat(place).st_mode
        if not mode & stat.S_IXOTH or mode & (stat.S_IWGRP | stat.S_IWOTH):
            wrong.append(f"{place} has mode {stat.S_IMODE(mode):04o}; 0755 is right")
        for name in seen.raw[kind]:
            own = os.lstat(f"{place}/{name}").st_mode
            if stat.S_ISREG(own) and (not own & stat.S_IROTH or own & (stat.S_IWGRP | stat.S_IWOTH)):
                wrong.append(f"{place}/{name} has mode {stat.S_IMODE(own):04o}; 0644 is right")
    return of_problems(wrong) if seen.raw else unseen("a web server does not show permissions")


def _links(seen: Seen) -> Judgement:
    wrong = [
        f"{seen.locations[kind]}/{name} is no plain file"
        for kind, raw in seen.raw.items()
        for name in raw
        if not stat.S_ISREG(os.lstat(f"{seen.locations[kind]}/{name}").st_mode)
    ]
    return of_problems(wrong) if seen.raw else unseen("a web server does not show links")


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
    there = [name for raw in seen.raw.values() for name in raw if name in DEPRECATED]
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
