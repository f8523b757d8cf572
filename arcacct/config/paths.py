"""The places of this host's accounting, and the few settings that the recorder needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import NamedTuple, TypeVar

from arcacct.config.parser import Conf
from arcacct.errors import ConfigError
from arcacct.files.directories import unseen

_Read = TypeVar("_Read")


HOOK = "arcacct"
"""A part of the name of our callout."""
CONTROLDIR = "/var/spool/arc/jobstatus"
"""ARC's default of [arex] controldir."""
BENCHMARK = "HEPSPEC:1.0"
"""ARC's default of [lrms] benchmark."""
CLAIM_NAMES = "name:name,email:email,preferred_username:username,wlcg_groups:group"
"""ARC's default of [arex] authtokenmap."""
AREX_DATABASES = ("accounting.db", "accounting_v2.db")
"""Databases that A-REX 6.4 and later, and ARC 7, write into ``<controldir>/accounting``."""
AREX_WRITES = (
    "this is the file that A-REX writes, and A-REX loses rows if another program writes it; leave database= out, "
    "or set arex_writes_no_accounting=yes on a host where no A-REX writes it"
)
_AREX_KEEPS = "A-REX writes its own files into this directory of the control directory; choose a directory outside"
STATUS_FOLDERS = ("accepting", "processing", "finished", "restarting")
"""The folders of status files of jobs, below the control directory."""
_AREX_FOLDERS = (".", *STATUS_FOLDERS, "delegations", "jobs", "logs")
"""The folders below the control directory in which A-REX writes, and the control directory itself."""
GIVEN = "the command line"
BY_DEFAULT = "ARC's default, because [arex] controldir is not set"
"""The source of the default control directory."""
ZERO, WAIT, LRMS = MISSING_WALL_TIME = ("zero", "wait", "lrms")
"""The site's choice for jobs without a measured wall time (`records.hold_decisions`)."""
PUBLISHED, RECORDED = KILLED_BEFORE_AREX = ("published", "recorded")
"""The site's choice for jobs that were killed before A-REX took them."""
YES = ("yes", "true", "1", "on")
NO = ("no", "false", "0", "off")


@dataclass(frozen=True, slots=True)
class Validity:
    """
    The jobs that a line of the configuration applies to: those that ended from one day on and before another, UTC.

    Days are texts like ``2026-11-20``, which sort like days; empty: no bound.
    """

    first: str = ""
    before: str = ""

    def has(self, end_time: int) -> bool:
        """Whether the line applies to a job with this end, in UTC seconds."""
        if not self.first and not self.before:
            return True
        day = time.strftime("%Y-%m-%d", time.gmtime(end_time))
        return self.first <= day and not (self.before and day >= self.before)

    def overlaps(self, other: Validity) -> bool:
        """Whether both apply on some day."""
        return not ((self.before and other.first >= self.before) or (other.before and self.first >= other.before))

    def __str__(self) -> str:
        """Return the text as written."""
        words = (f"from={self.first}" if self.first else "", f"to={self.before}" if self.before else "")
        return " ".join(word for word in words if word)


class VO(NamedTuple):
    """``vomsless_vo=[AUTHGROUP ]NAME[#ISSUER]``: the VO of jobs without VOMS attributes, and who vouches for it."""

    name: str
    issuer: str | None = None
    authgroup: str | None = None
    """The rule applies only to users in this authgroup of arc.conf; ``None``: to all."""


class QueueBenchmark(NamedTuple):
    """One ``queue_benchmark`` line, or ``benchmark`` of a [queue:NAME] of arc.conf: of the nodes of a queue."""

    queue: str
    benchmark: str
    valid: Validity = Validity()


@dataclass(slots=True)
class JobRules:
    """
    The site's settings for records of jobs, in addition to the jobs' files.

    ``default_benchmark``: ``TYPE:VALUE``, for jobs whose .diag has none. ``claim_names``: which claims of a token are
    kept, and under which names. ``vo_claims``: the claims that tell a job's VO, each with the only issuer that is
    believed, or ``None``. ``queue_benchmarks``: the first that holds takes the place of the default.
    ``missing_wall_time``: one of `MISSING_WALL_TIME`; ``killed_before_arex``: one of `KILLED_BEFORE_AREX`.
    """

    default_benchmark: str
    vomsless_vos: tuple[VO, ...] = ()
    claim_names: dict[str, tuple[str, ...]] = field(default_factory=lambda: _ARC_CLAIM_NAMES)
    vo_claims: tuple[tuple[str, str | None], ...] = ()
    queue_benchmarks: tuple[QueueBenchmark, ...] = ()
    missing_wall_time: str = ZERO
    killed_before_arex: str = PUBLISHED

    def benchmark_of(self, queue: str, end_time: int) -> str:
        """What a job without a benchmark of its own gets, by its queue and its end."""
        held = (one.benchmark for one in self.queue_benchmarks if one.queue == queue and one.valid.has(end_time))
        return next(held, self.default_benchmark)


@dataclass
class Places:
    """
    Absolute paths, and the settings that the recorder needs for each job.

    ``arex_accounting``: whether A-REX may write a database of its own below the control directory. ``controldir_from``:
    the source of the control directory, for messages.
    """

    controldir: str
    database: str
    rules: JobRules
    read_group: str | None
    rehearsal: str | None = None
    spool_fallback: str | None = None
    arex_accounting: bool = field(default=True, kw_only=True)
    controldir_from: str = field(default=GIVEN, kw_only=True)

    @cached_property
    def directory(self) -> str:
        """The directory of the accounting database."""
        return self.database.rpartition("/")[0]

    @cached_property
    def publishing_database(self) -> str:
        """The ledger; a rehearsal has its own."""
        return f"{self.rehearsal or self.directory}/publishing.db"

    @cached_property
    def publishing_lock(self) -> str:
        """The lock of the publisher: one process holds it at a time."""
        return f"{self.rehearsal or self.directory}/publishing.lock"

    @cached_property
    def spool(self) -> str:
        """The directory in which the launcher writes events."""
        return f"{self.directory}/spool"

    @cached_property
    def queue_lock(self) -> str:
        """The queue of the writers of the accounting database."""
        return f"{self.directory}/queue.lock"

    @cached_property
    def maintenance(self) -> str:
        """The file that stops all other processes from using the databases."""
        return f"{self.directory}/maintenance"

    @cached_property
    def place_note(self) -> str:
        """The file in the control directory that names the place of the database."""
        return f"{self.controldir}/accounting/arcacct.place"


def places(conf: Conf | None, controldir: str | None = None, database: str | None = None) -> Places:
    """
    Return the places of this host: the given ones, else those of the configuration, else ARC's defaults.

    Raises ConfigError for a place that belongs to A-REX, a benchmark without type or value, and invalid rules about VOs
    and claims.
    """
    if conf is None:
        conf = Conf("", "")
    control = os.path.abspath(controldir or conf.get("arex", "controldir") or CONTROLDIR)
    alone = yes_or_no(conf.get("arcacct", "arex_writes_no_accounting") or "no") or False
    for option, path, problem in misplaced_options(conf, control, database):
        given = database and option == "database"
        raise ConfigError(f"{path if given else _where(conf, 'arcacct', option)}: {problem}")
    origin = BY_DEFAULT
    if controldir:
        origin = GIVEN
    elif conf.option("arex", "controldir") is not None:
        origin = _where(conf, "arex", "controldir")
    configured = database or conf.get("arcacct", "database")
    path = os.path.abspath(configured) if configured else usual_database(control)
    named = (conf.get("arcacct", "rehearsal"), conf.get("arcacct", "spool_fallback"))
    others = (os.path.abspath(one) if one else None for one in named)
    ours = (control, path, job_rules(conf), conf.get("arcacct", "read_group"))
    return Places(*ours, *others, arex_accounting=not alone, controldir_from=origin)


def usual_database(controldir: str) -> str:
    """The place of the database of a control directory without ``database=``."""
    return controldir + "/accounting/arcacct/accounting.db"


def seconds(text: str, most_s: int = 3600, example: str = "5") -> float:
    """A time longer than 0, in seconds; at most an hour. Raises ValueError."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= most_s:
        raise ValueError(f"{text!r} is not a time; write seconds, as {example}")
    return found


def benchmark(text: str) -> str:
    """
    A benchmark as ``TYPE:VALUE``. Raises ValueError.

    ARC spells it ``TYPE:VALUE`` in [lrms] and ``TYPE VALUE`` in [queue]; both are accepted everywhere.
    """
    kind, colon, value = text.partition(":")
    if not colon:
        kind, _, value = text.strip().partition(" ")
    kind, value = kind.strip(), value.strip()
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    # The upper bound also refuses inf, the comparison refuses nan.
    if not kind or " " in kind or not 0 < number < 1e9:
        raise ValueError(f"{text!r} is not a benchmark; write TYPE:VALUE or TYPE VALUE, like HEPscore23:11.5")
    return f"{kind}:{value}"


def job_rules(conf: Conf) -> JobRules:
    """Return the rules of the configuration for records of jobs. Raises ConfigError."""
    names = _ARC_CLAIM_NAMES
    arex = conf.blocks.get("arex")
    if arex is not None and "authtokenmap" in arex.options:
        # Lines without a value keep nothing, as in A-REX.
        names = _named_claims([pair for line in _each(conf, "arex", "authtokenmap", claim_names) for pair in line])
    return JobRules(
        _last(conf, "lrms", "benchmark", benchmark, BENCHMARK),
        tuple(_each(conf, "arex/jura", "vomsless_vo", vomsless_vo)),
        names,
        tuple(_each(conf, "arcacct", "vo_claim", vo_claim)),
        tuple(_each(conf, "arcacct", "queue_benchmark", queue_benchmark)),
        conf.get("arcacct", "missing_wall_time") or ZERO,
        conf.get("arcacct", "killed_before_arex") or PUBLISHED,
    )


def queue_benchmark(text: str) -> QueueBenchmark:
    """``"QUEUE" TYPE:VALUE [from=DAY] [to=DAY]``: the benchmark per core of its nodes. Raises ValueError."""
    return QueueBenchmark(*rated(text, "QUEUE"))


def rated(text: str, what: str) -> tuple[str, str, Validity]:
    """
    Return the parts of ``"NAME" TYPE:VALUE [from=DAY] [to=DAY]``. ``what``: the thing that the name belongs to. Raises
    ValueError.
    """
    parts = text.split('"')
    values, valid = dated(parts[-1].split())
    name = parts[1].strip() if len(parts) == 3 and not parts[0].strip() else ""
    try:
        value = benchmark(" ".join(values))
    except ValueError:
        value = ""
    if not name or not value:
        raise ValueError(
            f'{text!r} is not a benchmark line; write "{what}" TYPE:VALUE, then optionally from=DAY or to=DAY, like'
            f' "{what}" HEPscore23:14.5 from=2026-07-01'
        )
    return name, value, valid


def dated(words: list[str]) -> tuple[list[str], Validity]:
    """Return the words except ``from=DAY`` and ``to=DAY``, and the values of these two. Raises ValueError."""
    bounds = {"from": "", "to": ""}
    values = []
    for word in words:
        key, equals, day = word.partition("=")
        if equals and key in bounds:
            bounds[key] = _day(day)
        else:
            values.append(word)
    if bounds["to"] and bounds["from"] >= bounds["to"]:
        text = " ".join(words)
        raise ValueError(f"{text!r} applies to no job: to= must be after from= (the first day without this value)")
    return values, Validity(bounds["from"], bounds["to"])


def _day(text: str) -> str:
    """A day as ``2026-11-20``; a month or a year is its first. Raises ValueError."""
    whole = text + ("-01-01", "-01", "")[min(text.count("-"), 2)]
    try:
        # Other forms of ISO 8601, like 20261120, are days too, but do not sort as texts.
        if date.fromisoformat(whole).isoformat() == whole:
            return whole
    except ValueError:
        pass
    raise ValueError(f"{text!r} is not a day; write it like 2026-07-01")


def vomsless_vo(text: str) -> VO:
    """
    ``[AUTHGROUP ]NAME[#ISSUER]``; the issuer is a DN and may have blanks.

    Raises ValueError with the problem and the correct form.
    """
    names, _, issuer = text.partition("#")
    words = names.split()
    if not 1 <= len(words) <= 2 or not names.isascii() or not names.isprintable():
        what = "names no VO" if not words else "is neither a VO nor an authgroup and a VO"
        raise ValueError(f"{text!r} {what}; write NAME, NAME#ISSUER or AUTHGROUP NAME")
    return VO(words[-1], issuer.strip() or None, words[0] if len(words) == 2 else None)


def claim_names(text: str) -> list[tuple[str, str]]:
    """``CLAIM:NAME,...``: the claims of a token to keep, and their names. Raises ValueError."""
    found = []
    for part in text.split(","):
        claim, colon, name = part.partition(":")
        claim, name = claim.strip(), name.strip()
        if not colon or not claim or not name or " " in claim or " " in name:
            raise ValueError(f"{part.strip()!r} is not a pair; write CLAIM:NAME, separated by commas, like sub:user")
        found.append((claim, name))
    return found


def vo_claim(text: str) -> tuple[str, str | None]:
    """``CLAIM[ ISSUER]``: a claim that contains the VO, for one issuer only if it is named. Raises ValueError."""
    words = text.split()
    if not 1 <= len(words) <= 2 or (len(words) == 2 and "://" not in words[1]):
        raise ValueError(
            f"{text!r} is not a rule; write CLAIM or CLAIM ISSUER, like wlcg.groups https://iam.example.org/"
        )
    return words[0], (words[1] if len(words) == 2 else None)


def misplaced_options(conf: Conf, controldir: str, database: str | None) -> Iterator[tuple[str, str, str]]:
    """
    Return the options of [arcacct] that name a place of A-REX's own: option, path and problem.

    ``database`` of the command line replaces the option.
    """
    alone = yes_or_no(conf.get("arcacct", "arex_writes_no_accounting") or "no")
    for option in ("database", "rehearsal", "spool_fallback"):
        path = (database if option == "database" else None) or conf.get("arcacct", option)
        if path and option == "database" and not alone and arex_writes(path, controldir):
            yield option, path, AREX_WRITES
        elif path and _is_of_arex(os.path.dirname(path) if option == "database" else path, controldir):
            yield option, path, _AREX_KEEPS


def refuse_of_arex(directory: str, controldir: str) -> None:
    """Raise ConfigError if arcacct would write a file of its own into a directory in which A-REX writes."""
    if _is_of_arex(directory, controldir):
        raise ConfigError(f"{directory}: {_AREX_KEEPS}")


def _is_of_arex(directory: str, controldir: str) -> bool:
    """Whether the path is that of A-REX's own, by any name or link."""
    below = os.path.relpath(os.path.realpath(directory), os.path.realpath(controldir))
    return below.partition("/")[0] in _AREX_FOLDERS


def arex_writes(database: str, controldir: str) -> bool:
    """Whether this is the file that A-REX itself writes, under any name or link."""
    path = os.path.realpath(database)
    return path in [os.path.realpath(f"{controldir}/accounting/{name}") for name in AREX_DATABASES]


def is_without_arex(here: Places, *, has_callouts: bool) -> bool:
    """
    Whether the site has decided that there is no A-REX: the database is elsewhere, and there is no control directory.

    If arc.conf names a control directory, or has our callouts, there is an A-REX: the directory is missing or not
    mounted.
    """
    if has_callouts or here.controldir_from != BY_DEFAULT or here.database.startswith(f"{here.controldir}/"):
        return False
    return not os.path.isdir(here.controldir) and not unseen(here.controldir)


def yes_or_no(text: str) -> bool | None:
    """Return the meaning of ``yes``, ``no`` and their synonyms; ``None`` if the text is neither."""
    word = text.lower()
    return True if word in YES else False if word in NO else None


def _where(conf: Conf, block: str, option: str) -> str:
    found = conf.option(block, option)
    return f"{found.file}:{found.line}: [{block}] {option}" if found is not None else f"[{block}] {option}"


def _last(conf: Conf, block: str, option: str, read: Callable[[str], _Read], default: _Read) -> _Read:
    """The value of an option that is not repeated. Raises ConfigError with file and line."""
    text = conf.get(block, option)
    try:
        return read(text) if text else default
    except ValueError as error:
        raise ConfigError(f"{_where(conf, block, option)}: {error}") from None


def _each(conf: Conf, block: str, option: str, read: Callable[[str], _Read]) -> Iterator[_Read]:
    """Every value of a repeated option. Raises ConfigError with file and line."""
    found = conf.blocks.get(block)
    for line in found.options.get(option, ()) if found is not None else ():
        if line.value:
            try:
                yield read(line.value)
            except ValueError as error:
                raise ConfigError(f"{line.file}:{line.line}: [{block}] {option}: {error}") from None


def _named_claims(pairs: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for claim, name in pairs:
        names[claim] = (*names.get(claim, ()), name)
    return names


_ARC_CLAIM_NAMES: dict[str, tuple[str, ...]] = _named_claims(claim_names(CLAIM_NAMES))
