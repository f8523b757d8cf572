"""
What the control files of a job say, as the values of A-REX's tables.

The rules are A-REX's own (observed on 6.17 and read in its AAR.cpp): leading digits of a number count, the last of
several numbers wins, the first of several extra values wins (under ARC 7 the last benchmark), keys of .diag are of
any case.
"""

from arcacct.controldir.files import JobFiles, StatusFile
from arcacct.controldir.instants import parse_instant

_MAX_INTEGER = 2**63 - 1  # what a column of SQLite holds
_MAX_RTES = 1000  # .diag is the job's to write, and each is a row that every other job's hook waits for

_NUMBERS = frozenset(
    (
        "processors",
        "exitcode",
        "walltime",
        "kerneltime",
        "usertime",
        "maxresidentmemory",
        "averageresidentmemory",
        "maxtotalmemory",
        "averagetotalmemory",
        "usedscratch",
    )
)

_TOKEN_CLAIM = "tokenclaim."  # noqa: S105  a key
"""ARC 7 writes the claims of the user's token so: ``tokenclaim.iss=https://...``, repeated for lists."""
_LRMS_EVENTS = {"lrmsstarttime": "LRMSSTART", "lrmsendtime": "LRMSEND"}

TRANSFER_INPUT, TRANSFER_CACHED_INPUT, TRANSFER_OUTPUT = 10, 11, 20
"""DataTransfers.TransferType as A-REX numbers it."""


class Transfer:
    """One line of .statistics."""

    __slots__ = ("end_time", "kind", "size_bytes", "start_time", "url")

    def __init__(self, url: str, size_bytes: int, start_time: int, end_time: int, kind: int) -> None:
        self.url = url
        self.size_bytes = size_bytes
        self.start_time = start_time
        self.end_time = end_time
        self.kind = kind


class Usage:
    """What a finished job used and left behind: the columns that A-REX fills at FINISHED."""

    __slots__ = (
        "cpu_count",
        "cpu_kernel_s",
        "cpu_user_s",
        "end_time",
        "exit_code",
        "memory_kib",
        "node_count",
        "rtes",
        "scratch_bytes",
        "stage_in_bytes",
        "stage_out_bytes",
        "status",
        "transfers",
        "virtual_memory_kib",
        "wall_s",
    )

    def __init__(self) -> None:
        self.status = "completed"
        self.end_time = 0
        self.exit_code = 1
        self.node_count = 1
        self.cpu_count = 1
        self.memory_kib = 0
        self.virtual_memory_kib = 0
        self.wall_s = 0
        self.cpu_user_s = 0
        self.cpu_kernel_s = 0
        self.scratch_bytes = 0
        self.stage_in_bytes = 0
        self.stage_out_bytes = 0
        self.rtes: list[str] = []
        self.transfers: list[Transfer] = []


class JobFacts:
    """
    One state change of a job, ready to be recorded. Texts are plain (not escaped), times UTC seconds.

    ``known`` is False when .local could not be read: then only the ids, the state and its time mean something.
    ``events`` are those that the files tell beside the state itself: LRMSSTART, LRMSEND, DTRDOWNLOADSTART, ...
    """

    __slots__ = (
        "auth_tokens",
        "endpoint_type",
        "endpoint_url",
        "event_ns",
        "events",
        "extra",
        "job_id",
        "known",
        "local_job_id",
        "queue",
        "state",
        "status",
        "submit_time",
        "usage",
        "user_dn",
        "vo",
    )

    def __init__(self, job_id: str, state: str, event_ns: int, status: StatusFile | None) -> None:
        self.job_id = job_id
        self.state = state
        self.event_ns = event_ns
        self.status = status
        self.known = False
        self.local_job_id = ""
        self.endpoint_type = ""
        self.endpoint_url = ""
        self.queue = ""
        self.user_dn = ""
        self.vo = ""
        self.submit_time = 0
        self.auth_tokens: list[tuple[str, str]] = []
        self.extra: dict[str, str] = {}
        self.events: list[tuple[str, int]] = []
        self.usage: Usage | None = None


def job_facts(files: JobFiles, default_benchmark: str) -> JobFacts:
    """
    The facts of one state change from the bytes of a job's files.

    ``default_benchmark`` (``TYPE:VALUE``, arc.conf ``[lrms] benchmark``) is used for jobs whose .diag has none.
    """
    facts = JobFacts(files.job_id, files.state, files.event_ns, files.status)
    if files.local:
        _read_local(facts, files.local)
    if files.state == "FINISHED":
        _read_usage(facts, files, default_benchmark)
    elif files.diag:
        # Nothing else of a .diag is final before the job is.
        facts.events += _lrms_events(files.diag)
    return facts


def lines_of(content: bytes) -> list[str]:
    r"""Lines as text; bytes that are not UTF-8 become ``\xHH``, which loses nothing and is what OpenSSL writes."""
    return content.decode("utf-8", "backslashreplace").replace("\0", "").split("\n")


def _read_local(facts: JobFacts, content: bytes) -> None:
    values: dict[str, str] = {}
    fqans: list[str] = []
    projects: list[str] = []
    claims: list[tuple[str, str]] = []
    for line in lines_of(content):
        key, equals, value = line.partition("=")
        if not equals or not value:
            continue
        if key == "voms":
            fqans.append(value)
        elif key == "projectname":
            projects.append(value)
        elif key.startswith(_TOKEN_CLAIM):
            claims.append((key[len(_TOKEN_CLAIM) :], value))
        else:
            values[key] = value
    facts.known = True
    facts.local_job_id = values.get("localid", "")
    facts.endpoint_type = values.get("interface", "")
    facts.endpoint_url = values.get("headnode", "")
    facts.queue = values.get("queue", "")
    facts.user_dn = values.get("subject", "")
    facts.submit_time = parse_instant(values.get("starttime", "")) or 0
    _set_fqans(facts, fqans)
    facts.auth_tokens += claims
    for key, name in (("jobname", "jobname"), ("lrms", "lrms"), ("clientname", "clienthost")):
        if key in values:
            facts.extra[name] = values[key]
    if projects:
        facts.extra["projectname"] = projects[0]


def _set_fqans(facts: JobFacts, fqans: list[str]) -> None:
    for position, fqan in enumerate(fqans):
        facts.auth_tokens.append(("vomsfqan" if position else "mainfqan", fqan))
    if fqans:
        facts.vo = fqans[0].removeprefix("/").partition("/")[0]


def _read_usage(facts: JobFacts, files: JobFiles, default_benchmark: str) -> None:
    usage = Usage()
    usage.status = "failed" if files.failed else "completed"
    usage.end_time = files.event_ns // 1_000_000_000
    if files.diag:
        _read_diag(facts, usage, files.diag, last_benchmark=files.hashed)
    if not facts.extra.get("benchmark"):
        facts.extra["benchmark"] = default_benchmark
    if files.owner:
        # A name of the host may be any bytes.
        facts.extra["localuser"] = files.owner.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if files.statistics:
        _read_statistics(facts, usage, files.statistics)
    facts.usage = usage


def _lrms_events(content: bytes) -> list[tuple[str, int]]:
    """When the batch system started and ended the job, in the order of .diag."""
    events: list[tuple[str, int]] = []
    for line in lines_of(content):
        name, _, value = line.partition("=")
        if name.lower() in _LRMS_EVENTS:
            _add_lrms_event(events, name.lower(), value)
    return events


def _add_lrms_event(events: list[tuple[str, int]], key: str, value: str) -> None:
    instant = parse_instant(value)
    if instant is not None:
        events.append((_LRMS_EVENTS[key], instant))


def _read_diag(facts: JobFacts, usage: Usage, content: bytes, *, last_benchmark: bool) -> None:
    extra = facts.extra
    numbers: dict[str, int] = {}
    nodes: list[str] = []
    for line in lines_of(content):
        name, equals, value = line.partition("=")
        key = name.lower()
        if not equals:
            continue
        if key in _NUMBERS:
            number = leading_digits(value)
            if number is not None:
                numbers[key] = number
        elif key == "nodename":
            nodes.append(value)
        elif key in _LRMS_EVENTS:
            _add_lrms_event(facts.events, key, value)
        elif key == "runtimeenvironments":
            usage.rtes.extend(rte for rte in value.split(";") if rte)
        elif key in ("systemsoftware", "wninstance", "benchmark") and (
            key not in extra or (key == "benchmark" and last_benchmark and value)
        ):
            extra[key] = value
    del usage.rtes[_MAX_RTES:]
    _set_numbers(usage, numbers)
    if nodes:
        extra["nodenames"] = ":".join(nodes)
        usage.node_count = len(set(nodes))
    usage.cpu_count = numbers.get("processors") or len(nodes) or 1


def _set_numbers(usage: Usage, numbers: dict[str, int]) -> None:
    usage.exit_code = numbers.get("exitcode", 1)
    usage.wall_s = numbers.get("walltime", 0)
    usage.cpu_user_s = numbers.get("usertime", 0)
    usage.cpu_kernel_s = numbers.get("kerneltime", 0)
    usage.scratch_bytes = numbers.get("usedscratch", 0)
    usage.memory_kib = numbers.get("maxresidentmemory") or numbers.get("averageresidentmemory", 0)
    total = numbers.get("maxtotalmemory") or numbers.get("averagetotalmemory", 0)
    # Nothing measured the virtual size: A-REX repeats the resident one.
    usage.virtual_memory_kib = total or usage.memory_kib


def leading_digits(text: str) -> int | None:
    """The number that a value begins with (``5.36s`` is 5), or ``None``; at most what a column holds."""
    end = len(text) - len(text.lstrip("0123456789"))
    # Longer texts are no measurement; int() would also refuse more than 4,300 digits.
    return min(int(text[:end]), _MAX_INTEGER) if 0 < end <= 40 else (_MAX_INTEGER if end else None)


def _read_statistics(facts: JobFacts, usage: Usage, content: bytes) -> None:
    inputs: list[Transfer] = []
    outputs: list[Transfer] = []
    for line in lines_of(content):
        kind, colon, text = line.partition(":")
        if colon and kind.lower() in ("inputfile", "outputfile"):
            transfer = parse_transfer(kind.lower() == "inputfile", text)
            if transfer is not None:
                (outputs if transfer.kind == TRANSFER_OUTPUT else inputs).append(transfer)
                usage.transfers.append(transfer)
    usage.stage_in_bytes = min(sum(one.size_bytes for one in inputs if one.kind == TRANSFER_INPUT), _MAX_INTEGER)
    usage.stage_out_bytes = min(sum(one.size_bytes for one in outputs), _MAX_INTEGER)
    for name, group in (("DTRDOWNLOAD", inputs), ("DTRUPLOAD", outputs)):
        if group:
            facts.events.append((name + "START", min(one.start_time for one in group)))
            facts.events.append((name + "END", max(one.end_time for one in group)))


def parse_transfer(is_input: bool, text: str) -> Transfer | None:
    """
    One transfer from ``url=U,size=N,starttime=T,endtime=T[,fromcache=yes|no]``.

    A-REX does not escape the URL, which may hold commas and equal signs of its own: the fields are taken from the
    right, where only A-REX writes. (A-REX reads from the left and stores such a URL cut, with a wrong type.)
    ``None`` when the line has no URL or no times: a failed transfer writes such lines.
    """
    if not text.startswith("url="):
        return None
    rest = text[4:]
    values: dict[str, str] = {}
    for name in ("fromcache", "endtime", "starttime", "size"):
        head, comma, value = rest.rpartition(f",{name}=")
        # The field must be the last one: another comma behind it means that it is part of the URL.
        if comma and "," not in value:
            rest = head
            values[name] = value
    start, end = parse_instant(values.get("starttime", "")), parse_instant(values.get("endtime", ""))
    if not rest or start is None or end is None:
        return None
    kind = TRANSFER_OUTPUT
    if is_input:
        kind = TRANSFER_CACHED_INPUT if values.get("fromcache") == "yes" else TRANSFER_INPUT
    return Transfer(rest, leading_digits(values.get("size", "")) or 0, start, end, kind)
