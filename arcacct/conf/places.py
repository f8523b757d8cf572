"""
Where this host keeps its accounting, and the few settings the recorder needs.

On the hook's path: nothing but string methods and the parser; ``os`` only where a path needs it.
"""

from arcacct.conf.parser import absolute
from arcacct.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from arcacct.conf.parser import Conf

CONTROLDIR = "/var/spool/arc/jobstatus"
"""ARC's default of [arex] controldir."""
BENCHMARK = "HEPSPEC:1.0"
"""ARC's default of [lrms] benchmark."""
DEADLINE_S = 5.0
"""How long the hook may take in all before it spools; below the timeout of the statecallout lines."""
AREX_DATABASES = ("accounting.db", "accounting_v2.db")
"""What A-REX 6.4 and later, and ARC 7, write themselves into ``<controldir>/accounting``."""
AREX_WRITES = (
    "that is the file A-REX writes, and A-REX loses rows when another program writes it too; leave database= out, "
    "or set arex_writes_no_accounting=yes on a host where no A-REX writes it"
)
GIVEN = "the command line"
"""Who says where the control directory is."""
YES = ("yes", "true", "1", "on")
NO = ("no", "false", "0", "off")


class Places:
    """Paths, all absolute, and what the recorder has to know about each job's surroundings."""

    __slots__ = (
        "arex_accounting",
        "breaker",
        "controldir",
        "controldir_from",
        "database",
        "deadline_s",
        "default_benchmark",
        "directory",
        "maintenance",
        "place_note",
        "publishing_database",
        "publishing_lock",
        "queue_lock",
        "read_group",
        "rehearsal",
        "spool",
        "spool_fallback",
    )

    def __init__(
        self,
        controldir: str,
        database: str,
        default_benchmark: str,
        deadline_s: float,
        read_group: str | None,
        rehearsal: str | None = None,
        spool_fallback: str | None = None,
        *,
        arex_accounting: bool = True,
        controldir_from: str = GIVEN,
    ) -> None:
        """
        ``arex_accounting``: whether A-REX may write a database of its own below the control directory.

        ``controldir_from``: who says that it is this one, for messages.
        """
        directory = database.rpartition("/")[0]
        ledger = rehearsal or directory
        self.arex_accounting = arex_accounting
        self.controldir = controldir
        self.controldir_from = controldir_from
        self.database = database
        self.directory = directory
        self.publishing_database = ledger + "/publishing.db"
        self.spool = directory + "/spool"
        self.spool_fallback = spool_fallback
        self.queue_lock = directory + "/queue.lock"
        self.publishing_lock = ledger + "/publishing.lock"
        self.maintenance = directory + "/maintenance"
        self.place_note = controldir + "/accounting/arcacct.place"
        # Where the launcher finds it, which reads no configuration.
        self.breaker = controldir + "/accounting/arcacct/breaker"
        self.default_benchmark = default_benchmark
        self.deadline_s = deadline_s
        self.read_group = read_group
        self.rehearsal = rehearsal


def places(conf: "Conf | None", controldir: str | None = None, database: str | None = None) -> Places:
    """
    The places of this host: those given, else those of the configuration, else ARC's defaults.

    Raises ConfigError for a database that A-REX itself writes, a benchmark without type or value, or a deadline
    that is no time. In the hook that means: spool in the usual directory, and lose nothing.
    """
    rehearsal = _get(conf, "arcacct", "rehearsal")
    fallback = _get(conf, "arcacct", "spool_fallback")
    control = absolute(controldir or _get(conf, "arex", "controldir") or CONTROLDIR)
    alone = yes_or_no(_get(conf, "arcacct", "arex_writes_no_accounting") or "no") or False
    return Places(
        control,
        _database(conf, control, database, alone=alone),
        _default_benchmark(conf),
        _deadline(conf),
        _get(conf, "arcacct", "read_group"),
        absolute(rehearsal) if rehearsal else None,
        absolute(fallback) if fallback else None,
        arex_accounting=not alone,
        controldir_from=GIVEN if controldir else _origin(conf),
    )


def usual_database(controldir: str) -> str:
    """Where the database of a control directory is unless ``database=`` says otherwise."""
    return controldir + "/accounting/arcacct/accounting.db"


def benchmark(text: str) -> str | None:
    """
    A benchmark as ``TYPE:VALUE``, or ``None`` if the text is none.

    ARC spells it ``TYPE:VALUE`` in [lrms] and ``TYPE VALUE`` in [queue]; both are taken everywhere.
    """
    kind, colon, value = text.partition(":")
    if not colon:
        kind, _, value = text.strip().partition(" ")
    kind, value = kind.strip(), value.strip()
    try:
        number = float(value)
    except ValueError:
        return None
    # The upper bound also refuses inf, the comparison refuses nan.
    return f"{kind}:{value}" if kind and " " not in kind and 0 < number < 1e9 else None


def arex_writes(database: str, controldir: str) -> bool:
    """Whether this is the file that A-REX itself writes, by whatever name or link."""
    import os  # noqa: PLC0415  only when database= is set

    path = os.path.realpath(database)
    return path in [os.path.realpath(f"{controldir}/accounting/{name}") for name in AREX_DATABASES]


def yes_or_no(text: str) -> bool | None:
    """What ``yes``, ``no`` and their synonyms mean; ``None`` if the text is neither."""
    word = text.lower()
    return True if word in YES else False if word in NO else None


def _get(conf: "Conf | None", block: str, option: str) -> str | None:
    return conf.get(block, option) if conf is not None else None


def _where(conf: "Conf | None", block: str, option: str) -> str:
    found = conf.option(block, option) if conf is not None else None
    return f"{found.file}:{found.line}: [{block}] {option}" if found is not None else f"[{block}] {option}"


def _origin(conf: "Conf | None") -> str:
    if conf is None or conf.option("arex", "controldir") is None:
        return "ARC's default, since [arex] controldir is set nowhere"
    return _where(conf, "arex", "controldir")


def _database(conf: "Conf | None", controldir: str, given: str | None, *, alone: bool) -> str:
    configured = given or _get(conf, "arcacct", "database")
    if not configured:
        return usual_database(controldir)
    path = absolute(configured)
    if not alone and arex_writes(path, controldir):
        raise ConfigError(f"{path if given else _where(conf, 'arcacct', 'database')}: {AREX_WRITES}")
    return path


def _default_benchmark(conf: "Conf | None") -> str:
    text = _get(conf, "lrms", "benchmark") or BENCHMARK
    found = benchmark(text)
    if found is None:
        raise ConfigError(
            f"{_where(conf, 'lrms', 'benchmark')}: {text!r} is no benchmark; write TYPE:VALUE, as {BENCHMARK}"
        )
    return found


def _deadline(conf: "Conf | None") -> float:
    text = _get(conf, "arcacct", "deadline")
    if text is None:
        return DEADLINE_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise ConfigError(f"{_where(conf, 'arcacct', 'deadline')}: {text!r} is no time; write seconds, as 5")
    return seconds
