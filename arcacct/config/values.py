"""Converts texts of options to values: each function returns the value or raises ValueError with the problem."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from arcacct.benchmark import PLAUSIBLE, canonical_type, measured_benchmark
from arcacct.config import paths
from arcacct.secrecy import without_login
from arcacct.times import DAY_S, HOUR_S

_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
_MOST_CORES = 10**8
_MAP_FIELDS = ("owner", "group", "project", "account")
_LOCAL_JOBS = re.compile(r"(?:([A-Za-z0-9_.-]+)\s+)?(own|arc)(?:\s+infrastructure=(\S+))?")
_THRESHOLD = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,15}))? ?([A-Za-z%]*)")
_TIMES = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZES = {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
UNITS = {"h": _TIMES, "d": _TIMES, "MiB": _SIZES, "%": {"%": 1}, "": {"": 1}}
"""By unit of a limit: the units that may replace it, and how many s, bytes or pieces each has."""
LIMIT_KINDS = {"warn": "warning", "crit": "critical"}
"""The first words of the options of a limit, and the field of `Limit` that each sets."""


NoProxy = tuple[str | ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
"""Hosts that are reached without a proxy: those of a domain, in lower case, and of a network; empty text: all."""


class MapRule(NamedTuple):
    """One ``map`` line: the VO of a job from another source than ARC; the first that matches applies."""

    field: str
    """The compared value: ``owner``, ``group``, ``project`` or ``account``."""
    pattern: str
    """A shell pattern."""
    vo: str
    group: str | None
    user: str | None
    """The DN to publish, or ``withheld``; ``None`` publishes none."""


class LocalJobs(NamedTuple):
    """One ``local_jobs`` line: the description of jobs that came to a batch system without ARC."""

    profile: str
    """``own``: start, infrastructure and middleware of the batch system; ``arc``: those of ARC's jobs."""
    lrms: str | None = None
    """The batch system, in lower case; ``None``: any that no other line names."""
    infrastructure: str | None = None
    """The description of the infrastructure, in place of the profile's."""


class NodeBenchmark(NamedTuple):
    """One ``node_benchmark`` line: the benchmark per core of every node whose CPU model matches."""

    pattern: str
    benchmark: str
    valid: paths.Validity = paths.Validity()


class InstalledCores(NamedTuple):
    """One ``cores`` line: how many cores the batch system has for jobs."""

    cores: int
    valid: paths.Validity = paths.Validity()


class CPUWatts(NamedTuple):
    """One ``cpu_watts`` line: the power of a core of every node whose CPU model matches, in W."""

    pattern: str
    """A shell pattern."""
    watts: float


class Address(NamedTuple):
    """The address of a web service."""

    host: str
    port: int

    @property
    def netloc(self) -> str:
        """``HOST:PORT``, as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"

    def at(self, port: int) -> Address:
        """The same host at another port."""
        return Address(self.host, port)


class Limit(NamedTuple):
    """The values at which a warning starts, and at which the state is critical."""

    warning: int
    critical: int
    name: str = ""
    """The options are ``warn_NAME`` and ``crit_NAME``; empty: no option sets it."""
    unit: str = ""
    """The unit of those options; empty: a number."""
    is_minimum: bool = False
    """Whether values below it are reported, instead of values from it on."""


class Thresholds(NamedTuple):
    """The limits of everything that `arcacct status` judges by a number; the options and their defaults are here."""

    unsent_s: Limit = Limit(24 * HOUR_S, 72 * HOUR_S, "unsent", "h")
    """Since records wait for a target that is due."""
    sweep_s: Limit = Limit(HOUR_S, 6 * HOUR_S, "sweep", "h")
    """Since the last sweep."""
    spool_files: Limit = Limit(100, 10_000, "spool")
    spool_s: Limit = Limit(HOUR_S, 24 * HOUR_S, "spool_age", "h")
    """Age of the oldest event in the spool."""
    certificate_s: Limit = Limit(30 * DAY_S, DAY_S, "certificate", "d", is_minimum=True)
    """Until a certificate ends: some CAs take weeks."""
    quarantined: Limit = Limit(1, 1000, "quarantine")
    """Records that a target refuses."""
    implausible: Limit = Limit(1, 1000, "implausible")
    """Records that are held because some of their values cannot be true."""
    unmeasured_percent: Limit = Limit(5, 50, "unmeasured", "%")
    """Share of the jobs of this month and the last without a measured wall time, if there are at least ten jobs."""
    backup_s: Limit = Limit(7 * DAY_S, 30 * DAY_S, "backup", "d")
    """Since the last `arcacct db backup`, or since the creation of the database."""
    free_bytes: Limit = Limit(2**30, 2**27, "disk", "MiB", is_minimum=True)
    """Free space on the disk of the databases."""
    free_files: Limit = Limit(10_000, 100, "disk_files", is_minimum=True)
    """The same in files (inodes): each event of the spool is one."""
    free_s: Limit = Limit(30 * DAY_S, 7 * DAY_S, "disk_time", "d", is_minimum=True)
    """How long the free space lasts at the rate of the last week."""
    swept_percent: Limit = Limit(100, 101, "swept", "%")
    """Share of the jobs that ended within a day whose end no callout reported."""

    def changed(self, values: Mapping[str, int | None]) -> Thresholds:
        """Return a copy with the ``warn_FIELD`` and ``crit_FIELD`` of ``values`` that are not ``None``."""
        found = self._asdict()
        for field, limit in found.items():
            given = {part: values.get(f"{kind}_{field}") for kind, part in LIMIT_KINDS.items()}
            found[field] = limit._replace(**{part: value for part, value in given.items() if value is not None})
        return Thresholds(**found)


def threshold(value: str, unit: str) -> int:
    """A limit in s, bytes or pieces; ``unit`` applies to a number alone. Fractions are rounded up."""
    found = _THRESHOLD.fullmatch(value)
    if found is None or (found[3] or unit) not in UNITS[unit]:
        units = f", optionally with a unit ({', '.join(UNITS[unit])})" if unit else ""
        raise ValueError(f"{value!r} is not a limit; write a number{units}")
    whole, part, written = found.groups(default="")
    # Without floating point, in which 1.1 h is more than 3960 s.
    number = int(whole + part.ljust(15, "0"))
    return -(-number * UNITS[unit][written or unit] // 10**15)


def word(value: str) -> str:
    """One word of printable ASCII."""
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"{value!r} is not one word of ASCII letters; write one name without blanks")
    return value


def path(value: str) -> str:
    """An absolute path."""
    if not value.startswith("/"):
        raise ValueError(f"{value!r} is not an absolute path; start it with /")
    return value


def yes_no(value: str) -> bool:
    """``yes`` or ``no``."""
    found = paths.yes_or_no(value)
    if found is None:
        raise ValueError(f"{value!r} is not yes or no")
    return found


def whole(value: str) -> int:
    """A whole number, zero included."""
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"{value!r} is not a whole number; write only digits, like 3600")
    return int(value)


def batch(value: str) -> int | None:
    """How many records go into one message; 0 (``None``) leaves it to the limit in bytes."""
    return whole(value) or None


def many_seconds(value: str) -> float:
    """A time longer than 0, in seconds; at most a day."""
    return paths.seconds(value, 86400, "3600")


def port(value: str) -> int:
    """A TCP port."""
    found = whole(value)
    if not 1 <= found <= 65535:
        raise ValueError(f"{value!r} is not a port; write a number from 1 to 65535")
    return found


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser that accepts one of these words."""

    def read(value: str) -> str:
        if value not in words:
            known = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
            raise ValueError(f"{value!r} is not known; write {known}")
        return value

    return read


def host(value: str) -> str:
    """
    A host's name.

    ``$EXEC{hostname -f}`` is ARC's default: the system's resolver answers it, since arcacct never runs a command from a
    file.
    """
    if value.startswith("$EXEC{"):
        import socket  # noqa: PLC0415  no other value asks the system

        return socket.getfqdn()
    if not _HOST.fullmatch(value):
        raise ValueError(f"{value!r} is not a host name; write the full name, like ce.example.org")
    return value


def benchmark_advice(value: str) -> str | None:
    """
    Return advice about a benchmark that APEL refuses, or that no core has; ``None``: it is good, empty, or the default.
    """
    try:
        known = paths.benchmark(value)
    except ValueError:
        return None
    kind, _, _number = known.partition(":")
    if canonical_type(kind) is None:
        return f"has a type that APEL rejects, {kind!r}; APEL accepts HEPscore23, HEPSPEC (HS06) and Si2k"
    rated = measured_benchmark(known)
    if rated is None or rated.is_plausible:
        return None
    least, most = PLAUSIBLE[rated.type]
    return f"is {rated}, and a core has {least} to {most} {rated.type}; use the value of one core, not of a node"


def rated_advice(value: str) -> str | None:
    """The same for a line ``"NAME" TYPE:VALUE [from=DAY] [to=DAY]``."""
    try:
        return benchmark_advice(paths.rated(value, "NAME")[1])
    except ValueError:
        return None


def proxy(value: str) -> str:
    """A proxy as ``http://HOST:PORT``."""
    url = _split(value)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ValueError(f"{without_login(value)!r} is not a proxy; write http://HOST:PORT")
    return value


def no_proxy(value: str) -> NoProxy:
    """Names of hosts and domains, addresses and networks, separated by commas or blanks; ``*``: all hosts."""
    return tuple(map(_exception, value.replace(",", " ").split()))


def _exception(text: str) -> str | ipaddress.IPv4Network | ipaddress.IPv6Network:
    if text == "*":
        return ""
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        name = text.lower().removeprefix("*.").removeprefix(".").removesuffix(".")
    # No Internet domain ends in a number: that is a mistyped address.
    if not _HOST.fullmatch(name) or name.rpartition(".")[2].isdigit():
        raise ValueError(
            f"{without_login(text)!r} is not a host, domain, address or network; separate them with commas, like"
            " localhost,.example.org,192.0.2.0/24"
        )
    return name


def proxy_for(url: str, proxy: str | None, exceptions: NoProxy | None) -> str | None:
    """
    Return the proxy for the request of a URL; ``None``: directly.

    Only https goes through a proxy, except for the hosts of ``no_proxy``. Names are not resolved: a network has the
    hosts that the URL names by address.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        # The request reports the error.
        return proxy
    host = (parts.hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    is_direct = any(
        not one or f".{host}".endswith(f".{one}") if isinstance(one, str) else address is not None and address in one
        for one in exceptions or ()
    )
    return None if is_direct or parts.scheme != "https" else proxy


def vo(value: str) -> str:
    """The name of one VO."""
    if "," in value or " " in value:
        raise ValueError(f"{value!r} is more than one VO; write one vofilter line for each")
    return word(value)


def map_rule(value: str) -> MapRule:
    """``owner|group|project|account PATTERN vo=VO [group=G] [user=DN|withheld]``; a DN takes the rest of the line."""
    rule, _, user = f"{value} ".partition(" user=")
    words = rule.split()
    fields = dict(part.split("=", 1) for part in words[2:] if "=" in part)
    if (
        len(words) < 3
        or words[0] not in _MAP_FIELDS
        or len(fields) != len(words) - 2
        or not fields.get("vo")
        or not fields.keys() <= {"vo", "group"}
    ):
        raise ValueError(
            f"{value!r} is not a valid map line; write owner|group|project|account PATTERN vo=VO [group=G] "
            "[user=DN|withheld]"
        )
    return MapRule(words[0], words[1], fields["vo"], fields.get("group") or None, user.strip() or None)


def local_jobs(value: str) -> LocalJobs:
    """``[LRMS] own|arc [infrastructure=NAME]``."""
    found = _LOCAL_JOBS.fullmatch(value)
    if found is None:
        raise ValueError(
            f"{value!r} is not a valid local_jobs line; write own or arc, optionally after a batch system (sge, slurm)"
            " to apply only to it, and before infrastructure=NAME to send that name"
        )
    lrms, profile, infrastructure = found.groups()
    return LocalJobs(profile, lrms and lrms.lower(), infrastructure)


def node_benchmark(value: str) -> NodeBenchmark:
    """``"CPU MODEL PATTERN" TYPE:VALUE [from=DAY] [to=DAY]``."""
    return NodeBenchmark(*paths.rated(value, "CPU MODEL PATTERN"))


def installed_cores(value: str) -> InstalledCores:
    """``NUMBER [from=DAY] [to=DAY]``: the cores that jobs can have, at least one."""
    words, valid = paths.dated(value.split())
    if len(words) != 1 or not (words[0].isascii() and words[0].isdigit()) or not 0 < int(words[0]) < _MOST_CORES:
        raise ValueError(
            f"{value!r} is not a number of cores; write NUMBER, optionally with from=DAY or to=DAY, as 1024"
            " from=2026-03-01"
        )
    return InstalledCores(int(words[0]), valid)


def cpu_watts(value: str) -> CPUWatts:
    """``"CPU MODEL PATTERN" WATTS``."""
    start, pattern, rest = [*value.split('"'), "", "", ""][:3]
    if value.count('"') != 2 or start.strip() or not pattern.strip():
        raise ValueError(f'{value!r} is not a valid cpu_watts; write "CPU MODEL PATTERN" WATTS')
    return CPUWatts(pattern.strip(), watts(rest.strip()))


def watts(value: str) -> float:
    """The power of one core, in W."""
    return _amount(value, 0, 1000, "watts of one core, like 4.5")


def pue(value: str) -> float:
    """The factor of a site's whole power over the power of its machines."""
    return _amount(value, 0.999, 10, "power of the site divided by power of its machines, like 1.35")


def carbon_intensity(value: str) -> str:
    """A number of g CO2e per kWh, or the path of a table of such numbers."""
    if not value.startswith("/"):
        _amount(value, -1, 10_000, "g CO2e per kWh, like 45, or the path of a file time,gco2e_per_kwh")
    return value


def _amount(value: str, above: float, most: float, what: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = above
    if not above < found <= most:
        raise ValueError(f"{value!r} is not a valid amount; write {what}")
    return found


def https_url(value: str) -> SplitResult:
    """An https URL without login, query or fragment."""
    url = _split(value)
    if url.scheme != "https" or not url.hostname:
        raise ValueError(f"{without_login(value)!r} is not an https URL; write https://HOST[:PORT]/PATH")
    if url.username is not None or url.query or url.fragment:
        raise ValueError(
            f"{without_login(value)!r} has parts other than host, port and path; write https://HOST[:PORT]/PATH"
        )
    return url


def _split(value: str) -> SplitResult:
    try:
        url = urlsplit(value)
        url.port  # noqa: B018  a wrong port raises only when it is asked for
    except ValueError:
        # Without Python's reason: it quotes the presumed port, which may be a password.
        raise ValueError(f"{without_login(value)!r} is not a URL; write https://HOST[:PORT]/PATH") from None
    return url


def address_of(url: SplitResult) -> Address:
    """Return the address of a URL."""
    assert url.hostname is not None
    return Address(url.hostname, url.port or 443)
