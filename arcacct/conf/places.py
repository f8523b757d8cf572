"""
Where this host keeps its accounting, and the few settings the recorder needs.

On the hook's path: nothing but string methods and the parser; ``os`` only where a path needs it.
"""

from arcacct.conf.parser import Conf, absolute
from arcacct.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    _Read = TypeVar("_Read")

HOOK = "arcacct"
"""What the name of our callout contains."""
CONTROLDIR = "/var/spool/arc/jobstatus"
"""ARC's default of [arex] controldir."""
BENCHMARK = "HEPSPEC:1.0"
"""ARC's default of [lrms] benchmark."""
CLAIM_NAMES = "name:name,email:email,preferred_username:username,wlcg_groups:group"
"""ARC's default of [arex] authtokenmap."""
DEADLINE_S = 5.0
"""How long the hook may take in all before it spools; below the timeout of the statecallout lines."""
AREX_DATABASES = ("accounting.db", "accounting_v2.db")
"""What A-REX 6.4 and later, and ARC 7, write themselves into ``<controldir>/accounting``."""
AREX_WRITES = (
    "that is the file A-REX writes, and A-REX loses rows when another program writes it too; leave database= out, "
    "or set arex_writes_no_accounting=yes on a host where no A-REX writes it"
)
STATUS_FOLDERS = ("accepting", "processing", "finished", "restarting")
"""Where A-REX keeps the status files of jobs, below the control directory."""
GIVEN = "the command line"
"""Who says where the control directory is."""
YES = ("yes", "true", "1", "on")
NO = ("no", "false", "0", "off")


class JobRules:
    """What the site has decided about records of jobs, beside what the jobs' files say."""

    def __init__(
        self,
        default_benchmark: str,
        vomsless_vos: "tuple[tuple[str | None, str, str | None], ...]" = (),
        claim_names: "dict[str, tuple[str, ...]] | None" = None,
        vo_claims: "tuple[tuple[str, str | None], ...]" = (),
    ) -> None:
        """
        ``default_benchmark``: ``TYPE:VALUE``, for jobs whose .diag has none. ``vomsless_vos``: as `vomsless_vo`.

        ``claim_names``: which claims of a token are kept, and under which names; without it, ARC's default.
        ``vo_claims``: the claims that tell a job's VO, each with the only issuer that is believed, or ``None``.
        """
        self.default_benchmark = default_benchmark
        self.vomsless_vos = vomsless_vos
        self.claim_names = _ARC_CLAIM_NAMES if claim_names is None else claim_names
        self.vo_claims = vo_claims


class Places:
    """Paths, all absolute, and what the recorder has to know about each job's surroundings."""

    def __init__(
        self,
        controldir: str,
        database: str,
        rules: JobRules,
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
        self.rules = rules
        self.deadline_s = deadline_s
        self.read_group = read_group
        self.rehearsal = rehearsal


def places(conf: Conf | None, controldir: str | None = None, database: str | None = None) -> Places:
    """
    The places of this host: those given, else those of the configuration, else ARC's defaults.

    Raises ConfigError for a database that A-REX itself writes, a benchmark without type or value, a deadline that is
    no time, and rules about VOs and claims that are none. In the hook that means: spool in the usual directory, and
    lose nothing.
    """
    if conf is None:
        conf = Conf("", "")
    rehearsal = conf.get("arcacct", "rehearsal")
    fallback = conf.get("arcacct", "spool_fallback")
    control = absolute(controldir or conf.get("arex", "controldir") or CONTROLDIR)
    alone = yes_or_no(conf.get("arcacct", "arex_writes_no_accounting") or "no") or False
    origin = "ARC's default, since [arex] controldir is set nowhere"
    if controldir:
        origin = GIVEN
    elif conf.option("arex", "controldir") is not None:
        origin = _where(conf, "arex", "controldir")
    configured = database or conf.get("arcacct", "database")
    path = absolute(configured) if configured else usual_database(control)
    if configured and not alone and arex_writes(path, control):
        raise ConfigError(f"{path if database else _where(conf, 'arcacct', 'database')}: {AREX_WRITES}")
    rules = job_rules(conf)
    deadline_s = DEADLINE_S
    text = conf.get("arcacct", "deadline")
    if text is not None:
        try:
            deadline_s = float(text)
        except ValueError:
            deadline_s = 0.0
        if not 0 < deadline_s <= 3600:
            raise ConfigError(f"{_where(conf, 'arcacct', 'deadline')}: {text!r} is not a time; write seconds, as 5")
    return Places(
        control,
        path,
        rules,
        deadline_s,
        conf.get("arcacct", "read_group"),
        absolute(rehearsal) if rehearsal else None,
        absolute(fallback) if fallback else None,
        arex_accounting=not alone,
        controldir_from=origin,
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


def job_rules(conf: Conf) -> JobRules:
    """What the configuration says about records of jobs. Raises ConfigError."""
    text = conf.get("lrms", "benchmark") or BENCHMARK
    default_benchmark = benchmark(text)
    if default_benchmark is None:
        raise ConfigError(
            f"{_where(conf, 'lrms', 'benchmark')}: {text!r} is not a benchmark; write TYPE:VALUE, as {BENCHMARK}"
        )
    vomsless_vos = tuple(_each(conf, "arex/jura", "vomsless_vo", vomsless_vo))
    names = None
    arex = conf.blocks.get("arex")
    if arex is not None and "authtokenmap" in arex.options:
        # Lines without a value keep nothing: A-REX takes them so.
        names = _named_claims([pair for line in _each(conf, "arex", "authtokenmap", claim_names) for pair in line])
    return JobRules(
        default_benchmark,
        vomsless_vos,
        names,
        tuple(_each(conf, "arcacct", "vo_claim", vo_claim)),
    )


def vomsless_vo(text: str) -> "tuple[str | None, str, str | None]":
    """
    ``[AUTHGROUP ]NAME[#ISSUER]`` in its three parts; the issuer is a DN and may have blanks.

    Raises ValueError with what is wrong and what would be right.
    """
    names, _, issuer = text.partition("#")
    words = names.split()
    if not 1 <= len(words) <= 2 or not names.isascii() or not names.isprintable():
        what = "names no VO" if not words else "is no VO, nor an authgroup and a VO"
        raise ValueError(f"{text!r} {what}; write NAME, NAME#ISSUER or AUTHGROUP NAME")
    return (words[0] if len(words) == 2 else None), words[-1], issuer.strip() or None


def claim_names(text: str) -> "list[tuple[str, str]]":
    """``CLAIM:NAME,...``: which claims of a token are kept and what they are called. Raises ValueError."""
    found = []
    for part in text.split(","):
        claim, colon, name = part.partition(":")
        claim, name = claim.strip(), name.strip()
        if not colon or not claim or not name or " " in claim or " " in name:
            raise ValueError(f"{part.strip()!r} is not a pair; write CLAIM:NAME, with commas between, as sub:user")
        found.append((claim, name))
    return found


def vo_claim(text: str) -> "tuple[str, str | None]":
    """``CLAIM[ ISSUER]``: a claim that tells the VO, of one issuer's tokens alone if it is named. Raises ValueError."""
    words = text.split()
    if not 1 <= len(words) <= 2 or (len(words) == 2 and "://" not in words[1]):
        raise ValueError(
            f"{text!r} is not a rule; write CLAIM or CLAIM ISSUER, as wlcg.groups https://iam.example.org/"
        )
    return words[0], (words[1] if len(words) == 2 else None)


def arex_writes(database: str, controldir: str) -> bool:
    """Whether this is the file that A-REX itself writes, by whatever name or link."""
    import os  # noqa: PLC0415  only when database= is set

    path = os.path.realpath(database)
    return path in [os.path.realpath(f"{controldir}/accounting/{name}") for name in AREX_DATABASES]


def yes_or_no(text: str) -> bool | None:
    """What ``yes``, ``no`` and their synonyms mean; ``None`` if the text is neither."""
    word = text.lower()
    return True if word in YES else False if word in NO else None


def _where(conf: Conf, block: str, option: str) -> str:
    found = conf.option(block, option)
    return f"{found.file}:{found.line}: [{block}] {option}" if found is not None else f"[{block}] {option}"


def _each(conf: Conf, block: str, option: str, read: "Callable[[str], _Read]") -> "Iterator[_Read]":
    """Every value of a repeated option. Raises ConfigError with file and line."""
    found = conf.blocks.get(block)
    for line in found.options.get(option, ()) if found is not None else ():
        if line.value:
            try:
                yield read(line.value)
            except ValueError as error:
                raise ConfigError(f"{line.file}:{line.line}: [{block}] {option}: {error}") from None


def _named_claims(pairs: "list[tuple[str, str]]") -> "dict[str, tuple[str, ...]]":
    names: dict[str, tuple[str, ...]] = {}
    for claim, name in pairs:
        names[claim] = (*names.get(claim, ()), name)
    return names


_ARC_CLAIM_NAMES = _named_claims(claim_names(CLAIM_NAMES))
