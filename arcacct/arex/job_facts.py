"""Turns a job's control files into values of A-REX's tables."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from arcacct.arex.control_files import JobFiles
from arcacct.arex.input_limits import MOST_LRMS_EVENTS, MOST_ROWS, InputLimiter, lines_of, stored_bytes
from arcacct.config.paths import PUBLISHED, WAIT, JobRules
from arcacct.records import states
from arcacct.records.model import VOs
from arcacct.records.states import StateChange, TransferLine, Usage

# A-REX's two formats of times, as UTC seconds.


@lru_cache(maxsize=1000)
def _midnight(day: str) -> int | None:
    """Return the start of a day in eight digits. Cached: the times of the jobs of one sweep are from few days."""
    try:
        seconds = int(datetime(int(day[:4]), int(day[4:6]), int(day[6:]), tzinfo=UTC).timestamp())
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def parse_instant(text: str) -> int | None:
    """
    Return the seconds since 1970 of ``YYYYMMDDhhmmssZ`` or ``YYYY-MM-DDThh:mm:ssZ``; ``None`` for anything else.

    Times before 1970 and days that do not exist in their month are not valid.

    The batch system's times in .diag carry the Z although they are local to the worker (`date` without -u). The file
    does not show the zone, so the Z is believed, as A-REX does.
    """
    digits = text.strip()
    if len(digits) == 20 and digits[4] + digits[7] + digits[10] + digits[13] + digits[16] == "--T::":
        digits = digits[:4] + digits[5:7] + digits[8:10] + digits[11:13] + digits[14:16] + digits[17:]
    if len(digits) != 15 or digits[14] != "Z" or not (digits[:14].isascii() and digits[:14].isdigit()):
        return None
    hour, minute, second = int(digits[8:10]), int(digits[10:12]), int(digits[12:14])
    if hour > 23 or minute > 59 or second > 60:
        return None
    midnight = _midnight(digits[:8])
    return None if midnight is None else midnight + hour * 3600 + minute * 60 + second


# The content of a job's control files as values of A-REX's tables.
#
# The rules are A-REX's own (observed on 6.17 and read in its AAR.cpp). The leading digits of a number count. Of several
# numbers the last wins, of several extra values the first (under ARC 7 the last benchmark). The case of keys in .diag
# does not matter.


_MAX_INTEGER = 2**63 - 1  # what a column of SQLite holds
_ROW_BYTES = 80
"""The bytes of a row in a table with two indexes, without its texts."""

_NUMBERS = frozenset(
    (
        *("processors", "exitcode", "walltime", "kerneltime", "usertime", "maxresidentmemory"),
        *("averageresidentmemory", "maxtotalmemory", "averagetotalmemory", "usedscratch"),
    )
)

_TOKEN_CLAIM = "tokenclaim."  # noqa: S105  a key
"""The prefix of a claim of the user's token in ARC 7: ``tokenclaim.iss=https://...``, repeated for lists."""
_GROUPS = "wlcg.groups"
_LOCAL_EXTRA = (
    ("jobname", "jobname", "job_name"),
    ("lrms", "lrms", "lrms"),
    ("clientname", "clienthost", "client_host"),
)
_DIAG_EXTRA = {"systemsoftware": "system_software", "wninstance": "wn_instance"}
"""Keys of .local and .diag that become rows of JobExtraInfo: their names there, if different, and in v1_jobs."""
_LIFETIME = "lifetime"
"""A-REX 6 and 7 add this to .local when they take a job from their web service and first record it."""
_LOCAL = frozenset(
    ("localid", "interface", "headnode", "queue", "subject", "starttime", "jobname", "lrms", "clientname", _LIFETIME)
)
_LRMS_EVENTS = {"lrmsstarttime": "LRMSSTART", "lrmsendtime": "LRMSEND"}
_MEASUREMENTS = {"walltime": "wall_s", "usertime": "cpu_user_s", "kerneltime": "cpu_kernel_s"}


def job_facts(files: JobFiles, rules: JobRules) -> StateChange:
    """Return the facts of one state change, from the bytes of a job's files and the rules of the site."""
    facts = StateChange(files.job_id, files.state, files.event_ns, files.status)
    gate = InputLimiter(len(files.local or b"") + len(files.diag or b"") + len(files.statistics or b""))
    # Without a complete .local this is unknown.
    is_taken = not files.local or _read_local(facts, files.local, rules, gate, hashed=files.hashed)
    if files.state == "FINISHED":
        _read_usage(facts, files, rules, gate)
        was_killed_before = files.failed and files.diag is None and not is_taken
        if facts.usage is not None and was_killed_before and rules.killed_before_arex != PUBLISHED:
            # The job used nothing, so it is in no message and no sum.
            facts.usage.status = states.ABORTED
    elif files.diag:
        # Before the end of the job nothing else of a .diag is final.
        times = []
        for line in gate.lines("diag", files.diag):
            name, equals, value = line.partition("=")
            if equals and name.lower() in _LRMS_EVENTS:
                times.append((name.lower(), value))
        facts.events += _last_events(times, gate)
    facts.notes = gate.notes
    return facts


def _read_local(facts: StateChange, content: bytes, rules: JobRules, gate: InputLimiter, *, hashed: bool) -> bool:
    """Read .local. Return whether A-REX has taken the job, as far as an incomplete .local shows it."""
    values: dict[str, str] = {}
    several: dict[str, list[str]] = {"voms": [], "projectname": [], "auth": []}
    claims: list[tuple[str, str]] = []
    is_ended = content.endswith(b"\n")
    # Drop an incomplete last line: half of a line would be another name.
    for line in gate.lines("local", content if is_ended else content[: content.rfind(b"\n") + 1]):
        key, equals, value = line.partition("=")
        if not equals or not value:
            continue
        if key in _LOCAL:
            values[key] = value
        elif key in several:
            several[key].append(value)
        elif key.startswith(_TOKEN_CLAIM):
            claims.append((key[len(_TOKEN_CLAIM) :], value))
    facts.known = True
    facts.is_whole = is_ended and "subject" in values and "starttime" in values
    # Names are stored in a table with two indexes.
    facts.local_job_id = gate.text("local_job_id", values.get("localid", ""), 2)
    facts.endpoint_type = gate.text("endpoint_type", values.get("interface", ""), 2)
    facts.endpoint_url = gate.text("endpoint_url", values.get("headnode", ""))
    facts.queue = gate.text("queue", values.get("queue", ""), 3)
    facts.user_dn = gate.text("user_dn", values.get("subject", ""), 3)
    facts.submit_time = parse_instant(values.get("starttime", "")) or 0
    _set_credentials(facts, several["voms"], claims, several["auth"], rules, gate, hashed=hashed)
    for key, name, column in _LOCAL_EXTRA:
        if key in values:
            facts.extra[name] = gate.text(column, values[key])
    if several["projectname"]:
        facts.extra["projectname"] = gate.text("project", several["projectname"][0])
    return _LIFETIME in values or not facts.is_whole


def _set_credentials(
    facts: StateChange,
    fqans: list[str],
    claims: list[tuple[str, str]],
    auth_groups: list[str],
    rules: JobRules,
    gate: InputLimiter,
    *,
    hashed: bool,
) -> None:
    """Set the values from the user's credentials: VOMS attributes, the claims that the site keeps, the VO."""
    kept = [(name, value) for claim, value in claims for name in rules.claim_names.get(claim, ())]
    # A site may keep the groups of a token as FQANs.
    named = [*fqans, *(value for name, value in kept if name in states.FQAN_KEYS)]
    # For jobs without VOMS attributes A-REX 6 leaves the VO to the publisher.
    told = "" if fqans else vo_of_claims(claims, rules)
    rule = None if fqans or not hashed else VOs(rules.vomsless_vos).rule(None, tuple(auth_groups))
    vo = told or (rule.name if rule is not None else "")
    if not named:
        named = main_group(claims, vo, rules)
    tokens = [("vomsfqan" if position else "mainfqan", fqan) for position, fqan in enumerate(named)]
    tokens += [row for row in kept if row[0] not in states.FQAN_KEYS]
    most = MOST_ROWS["auth_tokens"][0]
    tokens, found = tokens[:most], len(tokens)
    tokens = [(gate.text("auth_tokens", key, 0), gate.text("auth_tokens", value, 0)) for key, value in tokens]
    sizes = (2 * stored_bytes(key) + stored_bytes(value) + _ROW_BYTES for key, value in tokens)
    facts.auth_tokens = tokens[: gate.most("auth_tokens", sizes, found)]
    if fqans:
        facts.has_voms = True
        facts.vo = gate.text("vo", tokens[0][1].removeprefix("/").partition("/")[0], 3)
        return
    facts.vo = gate.text("vo", vo, 3)
    if not told and auth_groups:
        most = MOST_ROWS["auth_groups"][0]
        names = [gate.text("auth_groups", name) for name in auth_groups[:most] if " " not in name]
        facts.auth_groups = names[: gate.most("auth_groups", (len(name) + 1 for name in names), len(auth_groups))]


def main_group(claims: list[tuple[str, str]], vo: str, rules: JobRules) -> list[str]:
    """
    Return the token group that serves as the first FQAN, if it is a group within the job's VO; else an empty list.

    The groups of `wlcg.groups` are in the order in which the user requested them, and the first is the one that he
    works for (WLCG Common JWT Profile 1.0). The group of the VO itself needs no FQAN. A group is used only if a rule of
    the site names that claim, to keep it or for the VO: no other claim gets into the database.
    """
    if _GROUPS not in rules.claim_names and _GROUPS not in [claim for claim, _issuer in rules.vo_claims]:
        return []
    first = [value for name, value in claims if name == _GROUPS][:1]
    return first if vo and first and first[0].startswith(f"/{vo}/") else []


def vo_of_claims(claims: list[tuple[str, str]], rules: JobRules) -> str:
    """
    Return the VO from a token by the site's ``vo_claim`` rules; empty if no rule gives one.

    A group (``/atlas/production``) or an entitlement (``urn:...:group:VO:...``, AARC-G069) starts with it.
    """
    for claim, issuer in rules.vo_claims:
        if issuer is None or issuer.rstrip("/") in [value.rstrip("/") for name, value in claims if name == "iss"]:
            for name, value in claims:
                vo = _vo_in(value) if name == claim else ""
                if vo:
                    return vo
    return ""


def _vo_in(value: str) -> str:
    if value.startswith("/"):
        return value[1:].partition("/")[0]
    if value.startswith("urn:"):
        return value.partition(":group:")[2].partition("#")[0].partition(":")[0]
    # Only a single name is a VO, not a scope or a sentence.
    return value if value.isprintable() and not set(value) & {" ", ":", "/", ","} else ""


def _read_usage(facts: StateChange, files: JobFiles, rules: JobRules, gate: InputLimiter) -> None:
    usage = Usage()
    usage.status = states.FAILED if files.failed else states.COMPLETED
    usage.end_time = files.event_ns // 1_000_000_000
    if files.diag:
        _read_diag(facts, usage, files.diag, gate, last_benchmark=files.hashed)
    else:
        usage.unknown = states.MEASURED
    is_used = usage.wall_s or usage.cpu_user_s or usage.cpu_kernel_s
    has_run = is_used or usage.status == states.COMPLETED or "LRMSSTART" in [key for key, _when in facts.events]
    if not has_run:
        # It used nothing.
        usage.unknown = ()
    usage.is_awaited = rules.missing_wall_time == WAIT and "wall_s" in usage.unknown
    facts.default_benchmark = rules.benchmark_of(facts.queue, usage.end_time)
    if not facts.extra.get("benchmark"):
        facts.extra["benchmark"] = facts.default_benchmark
    if files.owner:
        # A user name of the host may contain any bytes.
        owner = files.owner.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        facts.extra["localuser"] = gate.text("local_user", owner)
    if files.statistics:
        _read_statistics(facts, usage, files.statistics, gate)
    facts.usage = usage


def _last_events(times: list[tuple[str, str]], gate: InputLimiter) -> list[tuple[str, int]]:
    """Return when the batch system started and ended the job, in the order of .diag."""
    if len(times) > MOST_LRMS_EVENTS:
        gate.notes["lrms_times"] = f"{MOST_LRMS_EVENTS} of {len(times)} kept, the last ones"
    events = []
    for key, value in times[-MOST_LRMS_EVENTS:]:
        instant = parse_instant(value)
        if instant is not None:
            events.append((_LRMS_EVENTS[key], instant))
    return events


def _read_diag(facts: StateChange, usage: Usage, content: bytes, gate: InputLimiter, *, last_benchmark: bool) -> None:
    numbers: dict[str, int] = {}
    extra: dict[str, str] = {}
    several: dict[str, list[str]] = {"nodename": [], "runtimeenvironments": [], "benchmark": []}
    times: list[tuple[str, str]] = []
    for line in gate.lines("diag", content):
        name, equals, value = line.partition("=")
        if not equals:
            continue
        key = name.lower()
        if key in _NUMBERS:
            number = leading_digits(value)
            if number is not None:
                numbers[key] = number
        elif key in several:
            several[key].append(value)
        elif key in _LRMS_EVENTS:
            times.append((key, value))
        elif key in _DIAG_EXTRA and key not in extra:
            extra[key] = value
    for key, value in extra.items():
        facts.extra[key] = gate.text(_DIAG_EXTRA[key], value)
    facts.events += _last_events(times, gate)
    _set_several(facts, usage, several, gate, last_benchmark=last_benchmark)
    usage.exit_code = numbers.get("exitcode", 1)
    usage.wall_s = numbers.get("walltime", 0)
    usage.cpu_user_s = numbers.get("usertime", 0)
    usage.cpu_kernel_s = numbers.get("kerneltime", 0)
    # They are missing without a .diag, and in a .diag that only the front end wrote.
    has_cpu = "usertime" in numbers or "kerneltime" in numbers
    usage.unknown = (() if "walltime" in numbers else states.MEASURED[:1]) + (() if has_cpu else states.MEASURED[1:])
    usage.scratch_bytes = numbers.get("usedscratch", 0)
    usage.memory_kib = numbers.get("maxresidentmemory") or numbers.get("averageresidentmemory", 0)
    total = numbers.get("maxtotalmemory") or numbers.get("averagetotalmemory", 0)
    # The virtual size was not measured: A-REX repeats the resident size.
    usage.virtual_memory_kib = total or usage.memory_kib
    usage.core_count = numbers.get("processors") or len(several["nodename"]) or 1


def measurements(diag: bytes) -> dict[str, int]:
    """Return the values of `MEASURED` in a .diag, in seconds, as `job_facts` reads them."""
    found = {}
    for line in lines_of(diag):
        name, equals, value = line.partition("=")
        field = _MEASUREMENTS.get(name.lower())
        number = leading_digits(value) if equals and field else None
        if field and number is not None:
            found[field] = number
    return found


def _set_several(
    facts: StateChange, usage: Usage, several: dict[str, list[str]], gate: InputLimiter, *, last_benchmark: bool
) -> None:
    field = "run_time_environments"
    most = MOST_ROWS[field][0]
    rtes: list[str] = []
    for line in several["runtimeenvironments"]:
        # Far above the limit, the values are not kept: the number is enough.
        if len(rtes) <= most:
            rtes += [rte for rte in line.split(";") if rte]
    usage.rtes = [gate.text(field, rte, 0) for rte in rtes[:most]]
    del usage.rtes[gate.most(field, (2 * stored_bytes(rte) + _ROW_BYTES for rte in usage.rtes), len(rtes)) :]
    nodes = several["nodename"]
    if nodes:
        usage.node_count = len(set(nodes))
        # Cut between names only: a part of a name is another host.
        kept = gate.most("node_names", (stored_bytes(node) + 1 for node in nodes), len(nodes))
        facts.extra["nodenames"] = ":".join(nodes[:kept])
    benchmarks = several["benchmark"]
    if benchmarks:
        given = [value for value in benchmarks if value] or [""]
        facts.benchmarks = (gate.text("benchmark", given[0]), gate.text("benchmark", given[-1]))
        # For A-REX 6 an empty first benchmark counts, as no benchmark.
        facts.extra["benchmark"] = (
            facts.benchmarks[1] if last_benchmark else facts.benchmarks[0] if benchmarks[0] else ""
        )


def leading_digits(text: str) -> int | None:
    """Return the number at the start of a value (``5.36s`` is 5), at most what a column holds; ``None``: no number."""
    end = len(text) - len(text.lstrip("0123456789"))
    # Longer texts are no measurement; int() would also refuse more than 4,300 digits.
    return min(int(text[:end]), _MAX_INTEGER) if 0 < end <= 40 else (_MAX_INTEGER if end else None)


def _read_statistics(facts: StateChange, usage: Usage, content: bytes, gate: InputLimiter) -> None:
    inputs: list[TransferLine] = []
    outputs: list[TransferLine] = []
    for line in gate.lines("statistics", content):
        kind, colon, text = line.partition(":")
        if colon and kind.lower() in ("inputfile", "outputfile"):
            transfer = parse_transfer(kind.lower() == "inputfile", text)
            if transfer is not None:
                (outputs if transfer.kind == states.TRANSFER_OUTPUT else inputs).append(transfer)
                usage.transfers.append(transfer)
    usage.stage_in_bytes = min(sum(one.size_bytes for one in inputs if one.kind == states.TRANSFER_INPUT), _MAX_INTEGER)
    usage.stage_out_bytes = min(sum(one.size_bytes for one in outputs), _MAX_INTEGER)
    for name, group in (("DTRDOWNLOAD", inputs), ("DTRUPLOAD", outputs)):
        if group:
            facts.events.append((name + "START", min(one.start_time for one in group)))
            facts.events.append((name + "END", max(one.end_time for one in group)))
    # Volumes and times include all transfers; only the number of rows is limited.
    for one in usage.transfers[: MOST_ROWS["transfers"][0]]:
        one.url = gate.text("transfer_urls", one.url, 0)
    sizes = (2 * stored_bytes(one.url) + _ROW_BYTES for one in usage.transfers)
    del usage.transfers[gate.most("transfers", sizes, len(usage.transfers)) :]


def parse_transfer(is_input: bool, text: str) -> TransferLine | None:
    """
    Return one transfer from ``url=U,size=N,starttime=T,endtime=T[,fromcache=yes|no]``.

    A-REX does not escape the URL, which may contain commas and equal signs. So the fields are read from the right,
    where only A-REX writes. (A-REX reads from the left and stores such a URL cut, with a wrong type.) Returns ``None``
    if the line has no URL or no times: a failed transfer writes such lines.
    """
    if not text.startswith("url="):
        return None
    rest = text[4:]
    values: dict[str, str] = {}
    for name in ("fromcache", "endtime", "starttime", "size"):
        head, comma, value = rest.rpartition(f",{name}=")
        # The field must be the last one: if a comma follows, it is part of the URL.
        if comma and "," not in value:
            rest = head
            values[name] = value
    start, end = parse_instant(values.get("starttime", "")), parse_instant(values.get("endtime", ""))
    if not rest or start is None or end is None:
        return None
    kind = states.TRANSFER_OUTPUT
    if is_input:
        kind = states.TRANSFER_CACHED_INPUT if values.get("fromcache") == "yes" else states.TRANSFER_INPUT
    return TransferLine(rest, leading_digits(values.get("size", "")) or 0, start, end, kind)
