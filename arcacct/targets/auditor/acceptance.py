"""
Finds records that AUDITOR would refuse, or that would harm its readers, before they are sent.

AUDITOR refuses a whole request for one bad name, and its APEL plugin stops at one record without the component or the
score in its configuration. Sources: the server's types (names of at most 256 graphemes, not blank; amounts of int64)
and the fields of the plugin.
"""

from __future__ import annotations

from arcacct.benchmark import parsed_benchmark
from arcacct.publishing.plugin import Acceptance
from arcacct.records.model import AAR
from arcacct.targets.auditor.options import LONGEST_NAME
from arcacct.targets.auditor.record import RecordOptions, benchmark, headnode, record_id
from arcacct.targets.common import EXACT, INT4, ascii_text
from arcacct.targets.verdicts import benchmark_problem, job_refusal, refused, repair_values


def accept(aar: AAR, options: RecordOptions, now: int) -> Acceptance:
    """Check a job by AUDITOR's rules; `now` in UTC seconds, for ends in the future."""
    refusal = job_refusal(aar, INT4, EXACT) or _refusal(aar, options)
    if verdict := refused(aar, refusal, now):
        return verdict
    notes: list[str] = []
    aar = repair_values(aar, notes)
    for what, count in (("cores", aar.core_count), ("nodes", aar.node_count)):
        if count < 1:
            notes.append(f"number of {what} unknown: sent as 1")
    if parsed_benchmark(aar.benchmark) is None:
        notes.append(f"{benchmark_problem(aar.benchmark) or 'no benchmark'}: {options.default_benchmark} is used")
    user, _, group = (aar.local_user or "").partition(":")
    texts = (("user_dn", aar.user_dn), ("local user", user), ("local group", group), ("vo", aar.vo))
    for name, text in (*texts, *(("VOMS attribute", fqan) for fqan in aar.fqans)):
        if text and len(ascii_text(text)) > LONGEST_NAME:
            notes.append(f"{name}: cut to {LONGEST_NAME} characters")
    return Acceptance(aar, tuple(notes))


def _refusal(aar: AAR, options: RecordOptions) -> str | None:
    found = record_id(aar, options)
    if len(found) > LONGEST_NAME or not found.isprintable():
        return f"record_id {found[:60]!r}... is longer than {LONGEST_NAME} characters or not printable"
    if headnode(aar, options) is None:
        return "no headnode: the job has no endpoint, set lrms_host"
    worth = benchmark(aar, options)
    if options.score_type not in (None, worth.type):
        return (
            f"its benchmark is {worth}, and records of this target have {options.score_type}: AUDITOR's APEL plugin"
            " stops at a record without the score in its configuration (score_type)"
        )
    return None
