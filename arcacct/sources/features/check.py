"""Check the features of a site against the specification and the needs of their readers: one verdict for each rule."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import psutil

from arcacct.errors import InputError, UsageError
from arcacct.files.safe_open import Directory, open_directory
from arcacct.sources.features import reader
from arcacct.sources.features.http import LARGEST_VALUE
from arcacct.sources.features.reader import KEYS, NAME, VARIABLES, Features, missing

if TYPE_CHECKING:
    from arcacct.http_client import Response
    from arcacct.sources.features.http import Web


# The rules for features that a web server provides.


_OK = "ok", ""
_SHORT_S = 60.0
_LIMIT_S = 5.0
_NOT_SERVED = "features are read from directories"
_HEADERS = ("Content-Type", "Content-Length", "ETag", "Last-Modified")


def check_web(locations: dict[str, str], features: dict[str, Features], web: Web | None) -> dict[int, tuple[str, str]]:
    """Return the verdicts of rules 27 to 31, each with its reason."""
    served = {kind: place for kind, place in locations.items() if not place.startswith("/")}
    if not served or web is None:
        return dict.fromkeys(range(27, 32), ("unseen", _NOT_SERVED))
    began = time.monotonic()
    try:
        found = {
            27: _of_problems(text for kind, place in served.items() for text in _served(web, place, features[kind])),
            28: _freshness(web, served, features),
            29: _of_problems(text for kind, place in served.items() for text in _methods(web, place, features[kind])),
        }
    except InputError as error:
        found = {rule: ("fail", str(error)) for rule in (27, 28, 29)}
    slow = time.monotonic() - began > _LIMIT_S
    plain = any(place.startswith("http://") for place in served.values())
    found[30] = ("unseen", "http without TLS") if plain else _OK
    found[31] = ("warn", "slow") if slow else _OK
    return found


def _of_problems(problems: Iterable[str]) -> tuple[str, str]:
    text = "; ".join(problems)
    return ("fail", text) if text else _OK


def _served(web: Web, place: str, features: Features) -> list[str]:
    wrong = []
    for key in features.values:
        answer = web.request(f"{place}/{key}")
        kind = answer.headers.get("Content-Type", "nothing").partition(";")[0].strip().lower()
        if kind != "text/plain":
            wrong.append(f"{key} is served as {kind}, not as text/plain")
    missing = next((key for key in KEYS if key not in features.values), "no_such_key")
    answer = web.request(f"{place}/{missing}")
    if answer.status != 404:
        wrong.append(f"{missing}: a missing key is answered with {answer.status}, not 404")
    elif answer.body:
        wrong.append(f"{missing}: 404 has a body, which simple readers take for the value")
    return wrong


def _freshness(web: Web, served: dict[str, str], features: dict[str, Features]) -> tuple[str, str]:
    from arcacct.sources.features.http import freshness_s  # noqa: PLC0415  only needed for a web server

    wrong, silent = [], []
    for kind, place in served.items():
        for key in features[kind].values:
            answer = web.request(f"{place}/{key}")
            if not answer.headers.get("Cache-Control") and not answer.headers.get("Expires"):
                silent.append(key)
            elif KEYS[key].dynamic and freshness_s(answer.headers) > _SHORT_S:
                wrong.append(f"{key} may change, but the server says that it is valid for more than {_SHORT_S:g} s")
    if wrong:
        return _of_problems(wrong)
    return ("warn", f"no Cache-Control or Expires: {', '.join(silent)}") if silent else _OK


def _methods(web: Web, place: str, features: Features) -> list[str]:
    wrong = []
    for key in list(features.values)[:1]:
        full, head = web.request(f"{place}/{key}"), web.request(f"{place}/{key}", method="HEAD")
        if head.status != full.status or _told(head) != _told(full):
            wrong.append(f"{key}: HEAD has other headers than GET")
        etag = full.headers.get("ETag")
        if etag and web.request(f"{place}/{key}", headers={"If-None-Match": etag}).status != 304:
            wrong.append(f"{key}: the same ETag does not answer 304")
    outside = web.request(f"{place}/{quote('../', safe='')}{quote('../etc/passwd', safe='')}")
    if outside.status == 200:
        wrong.append("a path out of the directory is served")
    return wrong


def _told(answer: Response) -> list[str | None]:
    return [answer.headers.get(name) for name in _HEADERS]


# Check the features of a site against the specification and the needs of their readers: one verdict for each rule.
#
# ``ok`` and ``fail`` are certain, and ``warn`` looks wrong. ``unseen`` cannot be decided from one look, because it
# shows only during the life of a job. The tests of this project check it for the features that arcacct writes.


_SLACK_S = 60
_TOLERANCE = 0.01

Judgement = list[str] | str | None
"""The list of faults; or a remark about a correct state; or ``None``: it cannot be decided here."""


class File(NamedTuple):
    """The entry with a name in a directory."""

    status: os.stat_result
    content: str
    """The start of its content; empty for an entry that is not a plain file or that cannot be trusted."""


class Folder(NamedTuple):
    """A directory at one moment."""

    mode: int
    files: dict[str, File]


class Observations(NamedTuple):
    """The observations that the rules judge."""

    given: Mapping[str, str]
    """The values of the variables, by ``machine`` and ``job``."""
    locations: dict[str, str]
    features: dict[str, Features]
    folders: dict[str, Folder]
    """The directories that were read. Locations on a web server have none."""
    now: int
    boot: int

    def values(self) -> dict[str, str]:
        """Return all valid values of machine and job."""
        return {key: value for one in self.features.values() for key, value in one.values.items()}

    def raw_values(self) -> dict[str, str]:
        """Return all values of machine and job unchanged, valid or not."""
        found: dict[str, str] = {}
        for kind, one in self.features.items():
            folder = self.folders.get(kind)
            found |= one.values if folder is None else {name: file.content for name, file in folder.files.items()}
        return found

    def number(self, key: str) -> int | None:
        """Return a valid value that is a whole number, else ``None``."""
        value = self.values().get(key)
        return int(value) if value is not None and value.isdigit() else None


class Requirement(NamedTuple):
    """One rule."""

    title: str
    judge: Callable[[Observations], Judgement] = lambda _seen: None
    unseen: str = ""
    """The reason for the verdict ``unseen``."""
    verdict: str = "fail"
    """The verdict when the rule is broken: ``fail`` or ``warn``."""

    def judged(self, seen: Observations) -> tuple[str, str]:
        """Return verdict and reason."""
        found = self.judge(seen)
        if found is None:
            return "unseen", self.unseen
        if isinstance(found, str):
            return "ok", found
        return self.verdict if found else "ok", "; ".join(found)


class RuleResult(NamedTuple):
    """The result of one rule."""

    rule: int
    verdict: str
    """``ok``, ``fail``, ``warn`` or ``unseen``."""
    reason: str

    def __str__(self) -> str:
        """Return the result as one line."""
        return f"{self.rule:2d} {self.verdict:6} {RULES[self.rule].title}{': ' + self.reason if self.reason else ''}"


def check(given: Mapping[str, str], *, web: Web | None = None, now: int | None = None) -> list[RuleResult]:
    """
    Return the verdict of each rule about the given locations, by ``machine`` and ``job`` (one may be missing).

    Raises InputError when a directory cannot be read.
    """
    locations: dict[str, str] = {}
    for kind, value in given.items():
        with suppress(UsageError):
            locations[kind] = reader.location_of(value, f"${VARIABLES[kind]}")
    fetch = web.get if web is not None else None
    features = {kind: reader.read(place, fetch=fetch) for kind, place in locations.items()}
    folders = {kind: _folder(place) for kind, place in locations.items() if place.startswith("/")}
    judged_at = now if now is not None else int(time.time())
    seen = Observations(given, locations, features, folders, judged_at, int(psutil.boot_time()))
    of_web = check_web(locations, features, web)
    return [RuleResult(number, *(of_web.get(number) or rule.judged(seen))) for number, rule in RULES.items()]


def _folder(location: str) -> Folder:
    try:
        with open_directory(location) as place:
            found = {name: file for name in reader.names_in(place)[0] if (file := _file(place, name)) is not None}
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
        # The file was removed in the meantime.
        return None
    except (InputError, OSError):
        # The entry is now another file, or this user may not read it. Rules 25 and 32 report that.
        return File(status, "")


def _names(seen: Observations) -> Judgement:
    names = [name for folder in seen.folders.values() for name in folder.files]
    wrong = [name for name in names if not NAME.fullmatch(name) and not name.startswith(".")]
    return [f"{name!r}: not lower-case letters, digits and _" for name in wrong] if seen.folders else None


def _of_forms(*forms: str) -> Callable[[Observations], Judgement]:
    def judge(seen: Observations) -> Judgement:
        there = {name: text for name, text in seen.raw_values().items() if name in KEYS and KEYS[name].form in forms}
        # One newline at the end is allowed, and nothing else.
        wrong = {name: reader.problem(name, text.removesuffix("\n")) for name, text in there.items()}
        return [f"{name}: {what}" for name, what in wrong.items() if what is not None] if there else None

    return judge


def _job_start(seen: Observations) -> Judgement:
    start = seen.number("jobstart_secs")
    if start is None:
        return _of_forms("instant")(seen)
    if start > seen.now:
        return ["jobstart_secs is in the future"]
    return [] if start >= seen.boot - _SLACK_S else ["jobstart_secs is before this host booted"]


def _limits(wrong: str, is_wrong: Callable[[int, int, int], bool]) -> Callable[[Observations], Judgement]:
    def judge(seen: Observations) -> Judgement:
        wall, cpu, cores = map(seen.number, ("wall_limit_secs", "cpu_limit_secs", "allocated_cpu"))
        if wall is None or cpu is None or cores is None:
            return None
        return [wrong] if is_wrong(wall, cpu, cores) else []

    return judge


def _rating(seen: Observations) -> Judgement:
    values = seen.values()
    if not {"hs06", "hs06_job", "allocated_cpu", "total_cpu"} <= values.keys():
        return None
    share = float(values["hs06"]) * int(values["allocated_cpu"]) / int(values["total_cpu"])
    if abs(float(values["hs06_job"]) - share) <= _TOLERANCE * share:
        return []
    return [f"hs06_job is {values['hs06_job']}, the job's share of the machine is {share:.2f}"]


def _order(seen: Observations) -> Judgement:
    job, machine = seen.number("shutdowntime_job"), seen.number("shutdowntime")
    if job is None or machine is None:
        return None
    return [] if job <= machine else ["shutdowntime_job is later than shutdowntime"]


def _grace(seen: Observations) -> Judgement:
    told = {end: (seen.number(f"shutdowntime{end}"), seen.number(f"grace_secs{end}")) for end in ("", "_job")}
    wrong = [f"shutdowntime{end} without grace_secs{end}" for end, (at, grace) in told.items() if at and grace is None]
    return wrong if wrong or any(grace is not None for _at, grace in told.values()) else None


def _notice(seen: Observations) -> Judgement:
    wrong, there = [], 0
    for kind, suffix in (("machine", ""), ("job", "_job")):
        at, grace = seen.number(f"shutdowntime{suffix}"), seen.number(f"grace_secs{suffix}")
        folder = seen.folders.get(kind)
        file = None if folder is None else folder.files.get(f"shutdowntime{suffix}")
        if at is None or grace is None or file is None:
            continue
        there += 1
        announced = int(file.status.st_mtime)
        if at < announced + grace:
            wrong.append(f"shutdowntime{suffix} was announced {at - announced} s before, grace_secs is {grace}")
    return wrong if there else None


def _static(seen: Observations) -> Judgement:
    start, folder = seen.number("jobstart_secs"), seen.folders.get("job")
    if start is None or folder is None:
        return None
    late = {name for name, file in folder.files.items() if file.status.st_mtime > start + _SLACK_S}
    names = [key.name for key in reader.JOB_KEYS if not key.dynamic and key.name in late]
    return _listed("written after the job started", names)


def _permissions(seen: Observations) -> Judgement:
    wrong = []
    for kind, folder in seen.folders.items():
        place = seen.locations[kind]
        if not folder.mode & stat.S_IXOTH or folder.mode & (stat.S_IWGRP | stat.S_IWOTH):
            wrong.append(f"{place} has mode {stat.S_IMODE(folder.mode):04o}; 0755 is right")
        for name, file in folder.files.items():
            own = file.status.st_mode
            if stat.S_ISREG(own) and (not own & stat.S_IROTH or own & (stat.S_IWGRP | stat.S_IWOTH)):
                wrong.append(f"{_shown(place, name)} has mode {stat.S_IMODE(own):04o}; 0644 is right")
    return wrong if seen.folders else None


def _links(seen: Observations) -> Judgement:
    wrong = [
        f"{_shown(seen.locations[kind], name)} is not a plain file"
        for kind, folder in seen.folders.items()
        for name, file in folder.files.items()
        if not stat.S_ISREG(file.status.st_mode)
    ]
    return wrong if seen.folders else None


def _shown(place: str, name: str) -> str:
    """Return a path for people. A path with unprintable characters is quoted."""
    path = f"{place}/{name}"
    return path if path.isprintable() else repr(path)


def _left(seen: Observations) -> Judgement:
    left = reader.remaining_s(seen.features.get("machine"), seen.features.get("job"), seen.now)
    return None if left is None else f"{left} s are left to the job"


def _listed(what: str, names: Iterable[str]) -> list[str]:
    """Return all names as one finding; empty without names."""
    text = ", ".join(names)
    return [f"{what}: {text}"] if text else []


_NEEDS_LIMITS = "needs wall_limit_secs, cpu_limit_secs and allocated_cpu"
_NO_KEY = "there is no such key"
_BEGINS = "begins neither with / nor with http:// or https://"
RULES = {
    1: Requirement("names are lower-case letters, digits and _", _names, "a web server does not list its keys"),
    2: Requirement("whole numbers are digits alone", _of_forms("count", "seconds", "instant", "bytes"), _NO_KEY),
    3: Requirement("ratings are numbers above 0", _of_forms("rating"), _NO_KEY),
    4: Requirement("processors are at least 1", _of_forms("count"), _NO_KEY),
    5: Requirement("job_id is one printable word", _of_forms("id"), _NO_KEY),
    6: Requirement("jobstart_secs is a time since the boot", _job_start, _NO_KEY),
    7: Requirement(
        "wall_limit_secs is not scaled by processors",
        _limits(
            "wall_limit_secs is more than cpu_limit_secs: is it scaled by processors?",
            lambda wall, cpu, _cores: wall > cpu,
        ),
        _NEEDS_LIMITS,
        "warn",
    ),
    8: Requirement(
        "cpu_limit_secs is of all processes together",
        _limits(
            "cpu_limit_secs is that of one processor: is it the total of all processes?",
            lambda wall, cpu, cores: cores > 1 and cpu <= wall,
        ),
        _NEEDS_LIMITS,
        "warn",
    ),
    9: Requirement("sizes are in bytes", _of_forms("bytes"), _NO_KEY),
    10: Requirement(
        "hs06_job is the job's share of hs06", _rating, "needs hs06, total_cpu, hs06_job and allocated_cpu", "warn"
    ),
    11: Requirement("the job's shutdown is not after the machine's", _order, "needs two times of shutdown"),
    12: Requirement("a shutdown comes with grace_secs", _grace, "no shutdown can be announced without grace_secs"),
    13: Requirement("a shutdown is announced grace_secs before", _notice, "no shutdown is announced in a directory"),
    14: Requirement(
        "every key is there before the job starts",
        lambda seen: _listed("missing", (name for kind, one in seen.features.items() for name in missing(one, kind))),
        verdict="warn",
    ),
    15: Requirement("static keys stay unchanged", _static, "visible only while a job runs", "warn"),
    16: Requirement(
        "no planned shutdown means no file",
        lambda seen: [
            f"{name} is empty or 0: remove the file when no shutdown is planned"
            for name in ("shutdowntime", "shutdowntime_job")
            if seen.raw_values().get(name, "1").strip() in {"", "0"}
        ],
    ),
    17: Requirement("a cancelled shutdown is removed at once", unseen="visible only when a shutdown is cancelled"),
    18: Requirement("no reader sees half of a value", unseen="visible only while values change"),
    19: Requirement("only the directory is removed after the job", unseen="visible only after the job"),
    20: Requirement(
        "two jobs have two directories",
        lambda seen: (
            ["both variables name one place"] if len({*seen.locations.values()}) < len(seen.locations) else None
        ),
        "needs two jobs on one machine",
    ),
    21: Requirement(
        "variables have no slash at their end",
        lambda seen: [f"${VARIABLES[kind]} ends in a slash" for kind, said in seen.given.items() if said[-1:] == "/"],
    ),
    22: Requirement(
        "variables are paths or http(s) URLs",
        lambda seen: [f"${VARIABLES[kind]} {_BEGINS}" for kind in seen.given if kind not in seen.locations],
    ),
    23: Requirement(
        "one of the variables is enough", lambda seen: "only one variable is set" if len(seen.given) == 1 else ""
    ),
    24: Requirement("a cloud's metadata are read once", unseen="visible only while a virtual machine runs"),
    25: Requirement("jobs can read but not write", _permissions, "a web server does not show permissions"),
    26: Requirement("no links", _links, "a web server does not show links"),
    # See `check_web`.
    27: Requirement("a served key is plain text, a missing one is 404 without content"),
    28: Requirement("a server says how long a value is valid"),
    29: Requirement("HEAD answers like GET, and no other file is served"),
    30: Requirement("TLS is verified, and no redirect to another host is followed"),
    31: Requirement("a server answers within 5 s"),
    32: Requirement(
        "every value can be read",
        lambda seen: [f"{kind}: {text}" for kind, one in seen.features.items() for text in one.warnings],
        verdict="warn",
    ),
    33: Requirement("the remaining time is never negative", _left, "nothing limits the job's time"),
    34: Requirement(
        "unknown keys are kept",
        lambda seen: "; ".join(
            _listed("kept for accounting", (name for one in seen.features.values() for name in one.extra))
        ),
    ),
    35: Requirement(
        "no keys of the old draft",
        lambda seen: _listed(
            "keys of an old draft",
            (name for one in seen.folders.values() for name in one.files if name in reader.DEPRECATED),
        ),
        verdict="warn",
    ),
}
