"""Finds what SGAS would refuse in a job before it is sent: SGAS rolls back everything in the same document."""

from __future__ import annotations

from collections.abc import Sequence

from arcacct.publishing.plugin import Acceptance
from arcacct.records.model import AAR, FQAN, Transfer, job_record_id, machine_host, parsed_fqan
from arcacct.secrecy import without_credentials
from arcacct.targets.common import EXACT, Care, carried
from arcacct.targets.sgas.usage_record import RULES, UROptions, local_job_id
from arcacct.targets.verdicts import benchmark_problem, changed, job_refusal, refused, repair_texts, repair_values
from arcacct.times import LAST_SECOND

_MOST = {column: int(rule.most) for column, rule in RULES.items()}
_ENVIRONMENT, _URL, _MACHINE, _GROUP, _USER = map(
    _MOST.__getitem__, ("runtime_environment", "transfer_url", "machine_name", "vo_group", "local_user")
)
_LARGEST_FILE, _LARGEST_NODE_COUNT = _MOST["transfer_size"], _MOST["node_count"]
# The rest of a cut text is a part of one, or one of many.
_CUT = tuple(
    (rule.value, int(rule.most))
    for rule in RULES.values()
    if rule.care is Care.CUT and rule.value not in {"local_user", "fqans", "run_time_environments", "transfers"}
)


def transfers_sound(transfers: Sequence[Transfer]) -> bool:
    """Whether SGAS would accept all transfers of a job unchanged."""
    for url, size_bytes, start_time, end_time, _kind in transfers:
        if not (
            0 < len(url) <= _URL
            and url.isprintable()
            and 0 <= size_bytes <= _LARGEST_FILE
            and 0 <= start_time <= LAST_SECOND >= end_time >= 0
        ):
            return False
    return True


def accept_for_sgas(aar: AAR, options: UROptions, now: int) -> Acceptance:
    """Check a job by SGAS's rules, one after the other; `now` in seconds, for ends in the future."""
    # A value in its column of eight bytes beyond EXACT is not a measurement.
    refusal = job_refusal(aar, _MOST["wall_duration"], min(_MOST["cpu_duration"], EXACT)) or _refusal(aar, options)
    if verdict := refused(aar, refusal, now):
        return verdict
    notes: list[str] = []
    aar = repair_texts(repair_values(aar, notes), notes)
    aar = _cut_texts(aar, notes)
    if aar.local_job_id and local_job_id(aar.local_job_id, options) is None:
        # If it were sent, SGAS would give the record another id.
        notes.append(f"LocalJobId: longer than {_MOST['local_job_id']} characters or starts with a slash: left out")
    if aar.node_count > _LARGEST_NODE_COUNT:
        notes.append(f"node count {aar.node_count}: SGAS holds {_LARGEST_NODE_COUNT}")
        aar = aar._replace(node_count=_LARGEST_NODE_COUNT)
    if problem := benchmark_problem(aar.benchmark):
        notes.append(f"{problem}: left out")
    if any(len(fqan) > _GROUP // 2 for fqan in aar.fqans):
        aar = aar._replace(fqans=tuple(_cut_fqan(fqan, notes) for fqan in aar.fqans))
    environments = tuple(name[:_ENVIRONMENT] for name in aar.run_time_environments if carried(name))
    if environments != aar.run_time_environments:
        notes.append(f"run-time environments: empty ones left out, others cut to {_ENVIRONMENT} characters")
    transfers = tuple(
        # A URL that fits is sent unchanged: `usage_record` decides which part may be sent.
        transfer if len(transfer.url) <= _URL else transfer._replace(url=without_credentials(transfer.url)[:_URL])
        for transfer in aar.transfers
        if carried(transfer.url) and transfers_sound((transfer._replace(url="possible"),))
    )
    is_cut = any(len(without_credentials(transfer.url)) > _URL for transfer in aar.transfers)
    if is_cut or len(transfers) < len(aar.transfers):
        notes.append(f"transfers: impossible ones left out, URLs cut to {_URL} characters")
    return Acceptance(aar._replace(run_time_environments=environments, transfers=transfers), tuple(notes))


def _refusal(aar: AAR, options: UROptions) -> str | None:
    machine = machine_host(aar.endpoint_url, options.host)
    if not machine:
        return "no MachineName: the job has no endpoint, set lrms_host"
    if len(machine) > _MACHINE or not machine.isprintable():
        return f"MachineName {machine[:60]!r}... is longer than {_MACHINE} characters or not printable"
    if len(job_record_id(aar, options.host)) > _MOST["record_id"]:
        return f"recordId is longer than {_MOST['record_id']} characters"
    return None


def _cut_texts(aar: AAR, notes: list[str]) -> AAR:
    """Names longer than their column are cut."""
    for name, width in _CUT:
        text = getattr(aar, name)
        if text is not None and len(text) > width:
            notes.append(f"{name}: cut from {len(text)} to {width} characters")
            aar = changed(aar, **{name: text[:width]})
    # User and group are separate values.
    user, colon, group = (aar.local_user or "").partition(":")
    if max(len(user), len(group)) > _USER:
        notes.append(f"local_user: cut to {_USER} characters")
        aar = aar._replace(local_user=f"{user[:_USER]}{colon}{group[:_USER]}")
    return aar


def _cut_fqan(text: str, notes: list[str]) -> str:
    """Group and role have columns of their own; in jura-ng's style the role is written with its key."""
    parsed = parsed_fqan(text)
    if parsed is None:
        return text
    role = None if parsed.role is None else parsed.role[: _MOST["vo_role"] - len("/Role=")]
    cut = FQAN(parsed.group[:_GROUP].rstrip("/"), role, parsed.capability)
    if cut == parsed:
        return text
    notes.append(f"VOMS attribute {text[:60]!r}...: cut to {_GROUP} characters")
    return str(cut)
