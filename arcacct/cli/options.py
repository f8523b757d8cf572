"""The common parts of commands: the configuration that global options name, groups of options, times and periods."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial, reduce, wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from arcacct.cli.console import print_deprecated, print_error
from arcacct.config import parser
from arcacct.config.options import OPTIONS, Spec, named
from arcacct.config.parser import Conf, load
from arcacct.config.paths import Places, places
from arcacct.config.settings import Settings, remember_secrets, settings
from arcacct.errors import ConfigError, InputError, UsageError
from arcacct.targets import kinds

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


# The first step of every command: the configuration that the global options name.


def conf_of(ctx: click.Context) -> Conf:
    """Read arc.conf and arcacct.conf of this host, or those that --config names. Raises ConfigError."""
    conf = load(ctx.obj["config"], os.environ)
    if conf.files and os.path.abspath(conf.arc_conf) == os.path.abspath(conf.our_conf):
        raise ConfigError(
            f"{conf.arc_conf}: --config and $ARC_CONFIG name arc.conf; arcacct.conf next to it is read automatically, "
            "and $ARCACCT_CONFIG names another one"
        )
    remember_secrets(conf)
    return conf


def places_of(ctx: click.Context, controldir: str | None = None) -> Places:
    """
    Return the places of this host's accounting; ``controldir`` and --database of the command line win.

    Raises ConfigError, also if neither a configuration nor the command line names them: the launcher then uses ARC's
    defaults, but a user has probably forgotten an option.
    """
    conf = conf_of(ctx)
    if not conf.files and not controldir and not ctx.obj["database"]:
        raise ConfigError(
            f"{conf.arc_conf}: no such file, and no {conf.our_conf}; pass one with --config, or create it"
        )
    return places(conf, controldir, ctx.obj["database"])


def next_start(ctx: click.Context) -> Conf:
    """Read again the configuration that the next start of A-REX reads. Raises ConfigError."""
    conf = conf_of(ctx)
    if parser.is_run_time(conf.arc_conf) and os.path.exists(parser.ARC_CONF):
        # The running A-REX uses the file as it was at its start. The next start reads the others.
        conf = parser.load(parser.ARC_CONF, os.environ)
        remember_secrets(conf)
    return conf


def settings_of(ctx: click.Context, *, to_publish: bool = False, warns: bool = True) -> Settings:
    """
    Return every setting.

    Raises ConfigError with every complaint. ``to_publish``: for a command that sends. Only for it, the same targets in
    jura-ng are an error. ``warns``: whether to print warnings, which a command that needs few settings does not.
    """
    conf = conf_of(ctx)
    found = settings(conf, kinds(conf), database=ctx.obj["database"], to_publish=to_publish)
    for problem in found.warnings if warns else ():
        print_error(str(problem))
    return found


def name_of_user() -> str:
    """Return the user who runs the command, also through sudo."""
    import getpass  # noqa: PLC0415  of few commands

    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


# Times and periods on the command line, the same for every command; in UTC, unless they have an offset.  A day, a week,
# a month or a year means its first second, so that `--from 2026-10 --to 2026-11` is October.


# Texts: few commands take a time, and compiling all these takes a millisecond.
_EPOCH = "[0-9]{9,11}"
"""Until after the year 5000; with 12 digits it is a time of qacct and of jura's tools."""
_DIGITS = r"([0-9]{12})(?:\.?([0-9]{2}))?(Z|[+-][0-9]{2}:?[0-9]{2})?"
_SINCE_1970 = "@([0-9]{1,11})"
_QACCT = r"(?:([0-9]{2})?([0-9]{2}))?([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})(?:\.([0-9]{2}))?"
_MONTH = r"([0-9]{4})(?:-(0[1-9]|1[0-2]))?"
_SHIFT = r"([+-])([0-9]{1,5}) ?(min|h|d|w)"
_AGO = r"([0-9]{1,5}) (min|h|d|w)(?:ute|our|ay|eek)?s? ago"
_UNITS_S = {"min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DAYS_BACK = {"today": 0, "yesterday": 1}
_PERIOD = "(this|last)[ -](week|month|year)"
_KNOWN = (
    "write 2026-11-20, 2026-11-20T10:30 (UTC; or add a zone like +01:00), 202611201030, 2026-11, 2026-W47 or"
    " 2026 (its start), seconds since 1970, now, today, yesterday, last-month or this-month (its start; also of a week"
    " or year), -7d (min, h, d, w) or '2 weeks ago'"
)
_KNOWN_OF_QACCT = (
    "write 202611201030 or another [[CC]YY]MMDDhhmm[.SS] (this host's time, or that of --timezone), 2026-11-20T10:30"
    " (UTC; or add a zone like +01:00), @ and seconds since 1970, now, today, yesterday or -7d"
)
_NO_YEAR_DIGITS = 4
_FIRST_YEAR = 70
"""Two digits before it are of this century, as qacct takes them."""
PERIODS = {"month": "2026-11", "week": "2026-W47", "year": "2026"}
"""The periods with a form of their own, each with an example."""


def seconds_of(text: str, now_s: int) -> int:
    """
    Return UTC seconds of a time in any form that the manual lists, relative ones to ``now_s``.

    Raises ValueError for anything else, and for a time that no calendar has.
    """
    if found := re.fullmatch(_SINCE_1970, text):
        return int(found[1])
    if re.fullmatch(_EPOCH, text):
        return int(text)
    if found := re.fullmatch(_DIGITS, text):
        digits, seconds, zone = found.groups()
        when = datetime.strptime(f"{digits}{seconds or '00'}{zone or 'Z'}", "%Y%m%d%H%M%S%z")
        return int(when.timestamp())
    if found := re.fullmatch(_MONTH, text):
        return int(datetime(int(found[1]), int(found[2] or 1), 1, tzinfo=UTC).timestamp())
    relative_s = _relative(text.lower(), now_s)
    if relative_s is not None:
        return relative_s
    when = datetime.fromisoformat(text)
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def _relative(word: str, now_s: int) -> int | None:
    """Return a time relative to now; ``None`` for a text in another form."""
    if word in _DAYS_BACK:
        return now_s - now_s % _UNITS_S["d"] - _DAYS_BACK[word] * _UNITS_S["d"]
    if found := re.fullmatch(_PERIOD, word):
        return period_of(found[2], found[1], now_s)[0]
    if found := re.fullmatch(_SHIFT, word):
        return now_s + int(found[1] + found[2]) * _UNITS_S[found[3]]
    if found := re.fullmatch(_AGO, word):
        return now_s - int(found[1]) * _UNITS_S[found[2]]
    return now_s if word == "now" else None


def qacct_seconds(text: str, now_s: int, zone: tzinfo | None) -> int | None:
    """
    Return UTC seconds of a time in qacct's form, ``[[CC]YY]MMDDhhmm[.SS]``, in a zone (``None``: this host's).

    ``None`` for a text in another form; a number with as many digits is never seconds since 1970. Raises ValueError for
    a time that no calendar has.
    """
    found = re.fullmatch(_QACCT, text)
    if found is None:
        if len(text) <= _NO_YEAR_DIGITS and text.isdecimal() and text < "1970":
            raise ValueError(text)
        return None
    century, year, *fields = found.groups()
    if year is None:
        full = datetime.fromtimestamp(now_s, zone).year
    else:
        full = int(year) + (100 * int(century) if century else 2000 if int(year) < _FIRST_YEAR else 1900)
    month, day, hour, minute, second = (int(field or 0) for field in fields)
    return int(datetime(full, month, day, hour, minute, second, tzinfo=zone).timestamp())


def period_of(kind: str, text: str, now_s: int) -> tuple[int, int]:
    """
    Return ``[from, before)`` of a period of `PERIODS`, ``last`` or ``this``; weeks are those of ISO 8601, from Monday.

    Raises ValueError for anything else.
    """
    word = text.lower()
    if word in ("this", "last"):
        begin = _begin(kind, datetime.fromtimestamp(now_s, UTC))
        if word == "last":
            begin = _begin(kind, begin - timedelta(days=1))
    else:
        pattern = {"month": r"[0-9]{4}-[0-9]{2}", "week": r"[0-9]{4}-[Ww][0-9]{2}", "year": "[0-9]{4}"}[kind]
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(text)
        begin = datetime.fromtimestamp(seconds_of(text.upper(), now_s), UTC)
    # A year has at most 366 days, and a month at most 31: so many days after its first second is in the next.
    after = _begin(kind, begin + timedelta(days={"month": 31, "week": 7, "year": 366}[kind]))
    return int(begin.timestamp()), int(after.timestamp())


def _begin(kind: str, when: datetime) -> datetime:
    """Return the start of the period that contains a moment."""
    day = when.replace(hour=0, minute=0, second=0, microsecond=0)
    if kind == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if kind == "month" else day.replace(month=1, day=1)


class Parsed(click.ParamType[Any]):
    """A type of option with a parser, which raises ValueError or InputError with the correct form."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value; fail with the correct form."""
        try:
            return self._read(str(value).strip())
        except (ValueError, InputError) as error:
            self.fail(str(error), param, ctx)


def instant(text: str) -> int:
    """A time as UTC seconds since 1970. Raises ValueError."""
    try:
        return seconds_of(text, int(time.time()))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time; {_KNOWN}") from None


def period_type(kind: str) -> Parsed:
    """A month, week or year as ``[from, before)``, UTC seconds."""
    return Parsed(kind, partial(period, kind))


def period(kind: str, text: str) -> tuple[int, int]:
    """`period_of`, relative to now. Raises ValueError."""
    try:
        return period_of(kind, text, int(time.time()))
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a {kind}; write {PERIODS[kind]}, this or last") from None


def month(text: str) -> tuple[int, int]:
    """A month as ``(year, month)``. Raises ValueError."""
    begin, _after = period("month", text)
    if begin < 0:
        raise ValueError(f"{text!r} is before 1970; write it like {PERIODS['month']}")
    return time.gmtime(begin)[:2]


def started_month(text: str) -> tuple[int, int]:
    """A month as ``(year, month)``. Raises ValueError for a future one: all its figures would agree."""
    found = month(text)
    if found > time.gmtime()[:2]:
        raise ValueError(f"{found[0]:04d}-{found[1]:02d} has not started by this host's clock")
    return found


def named_month(text: str) -> tuple[int, int]:
    """
    A month as ``(year, month)``.

    Raises ValueError, also for ``this`` and ``last``, since the command cannot be undone.
    """
    if not text[:1].isdigit():
        raise ValueError(f"{text!r} is not a month; write it like {PERIODS['month']}")
    return month(text)


INSTANT = Parsed("time", instant)
MONTH = Parsed("month", month)
STARTED_MONTH = Parsed("month", started_month)
NAMED_MONTH = Parsed("month", named_month)


class QacctInstant(Parsed):
    """
    A time as UTC seconds since 1970, with a switch that also accepts qacct's form.

    The switch, --timezone and --now must be eager: they are read first.
    """

    def __init__(self, switch: str) -> None:
        """``switch``: the name of its parameter."""
        super().__init__("time", instant)
        self._switch = switch

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds; fail with the correct form."""
        # Until all options are read, an option that is not set has a value of click's own.
        given = {} if ctx is None else ctx.params
        if given.get(self._switch) is not True:
            return super().convert(value, param, ctx)
        text, now_s, zone = str(value).strip(), given.get("now"), given.get("timezone")
        now_s = now_s if type(now_s) is int else int(time.time())
        zone = UTC if zone == "UTC" else zone_of(zone if type(zone) is str else None)
        try:
            found = qacct_seconds(text, now_s, zone)
            return seconds_of(text, now_s) if found is None else found
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is not a time; {_KNOWN_OF_QACCT}", param, ctx)


def in_turn(first_s: int | None, first: str, last_s: int | None, last: str) -> None:
    """Raise UsageError if a range of time is empty; ``first``, ``last`` are the options."""
    if first_s is None or last_s is None:
        return
    if first_s > last_s:
        raise UsageError(f"{first} is later than {last}: the range is empty")
    # -b and -e have the meaning of arcctl, which answers with 0 jobs.
    if first_s == last_s and (first, last) == ("--from", "--to"):
        raise UsageError("--from and --to are the same: the range is empty; --to is the first second after it")


def zone_of(name: str | None) -> ZoneInfo | None:
    """Return a zone of the tz database; ``None``: this host's. Raises UsageError for an unknown name."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo, available_timezones  # noqa: PLC0415  few commands know zones, and many know times

    if name not in available_timezones():
        raise UsageError(f"--timezone {name}: no such zone; use a name of the tz database, like Europe/Oslo")
    return ZoneInfo(name)


# Options that belong together reach a command as one value, so their names and types are written once.


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A decorator of a command's function, as `click.option` returns it."""


def conf_option(spec: Spec, text: str, flag: str) -> Decorator:
    """
    Return an option of a command that is also one of the configuration; ``text``: its help, with ``{}`` for its
    meaning.
    """
    return click.option(flag, spec.name, metavar=spec.metavar, help=text.format(spec.about))


controldir_option = conf_option(
    named(OPTIONS["arex"], "controldir"), "Use this {} instead of the configured one.", "--controldir"
)


def plan_option(text: str) -> Decorator:
    """Return --plan, also --dry-run: show and change nothing; ``text``: its help."""
    return click.option("--plan", "--dry-run", "plan_only", is_flag=True, help=text)


def yes_option(when: str = "") -> Decorator:
    """Return --yes: `console.ask` does not ask; ``when``: the start of its help, for a command that rarely asks."""
    return click.option("--yes", is_flag=True, help=f"{when}{'do' if when else 'Do'} not ask for confirmation.")


def need_kind(ctx: click.Context, kind: str, options: Mapping[str, Sequence[str]]) -> None:
    """
    Raise UsageError for an option that does not apply to ``kind``, an argument of the command.

    ``options``: the kinds of each parameter; all others apply to every kind.
    """
    for name, right in options.items():
        if kind not in right and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name.replace('_', '-')} is not for {kind}; it is for {' and '.join(right)}")


class FormerOption(click.Option):
    """An option that works in this release only: hidden, with a line on stderr that names the new form."""

    def __init__(self, *names: Any, new: str, **attributes: Any) -> None:
        """``new``: what to write."""
        super().__init__(*names, **attributes)
        self.hidden = True
        self.help = f"Write {new}."
        self.new = new

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """See click; prints the line if the option is given."""
        if self.name in opts and not ctx.resilient_parsing:
            print_deprecated(self.opts[-1], self.new)
        return super().handle_parse_result(ctx, opts, args)


def together(make: Callable[..., object], name: str, options: Iterable[str] | None = None) -> Decorator:
    """
    Combine options into one parameter of the command, called ``name``, with ``make``.

    Without ``options``: those with the names of its fields; ``make`` is then a NamedTuple.
    """
    names = tuple(make.__annotations__ if options is None else options)

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def called(*args: object, **given: object) -> Any:
            made = make(**{option: given.pop(option) for option in names})
            return command(*args, **given, **{name: made})

        return called

    return decorated


def in_order(*decorators: Decorator) -> Decorator:
    """Combine all of them, the first outermost: a command's help has options in this order."""
    return lambda command: reduce(lambda made, decorator: decorator(made), reversed(decorators), command)
