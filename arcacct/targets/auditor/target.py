"""AUDITOR as a target: its behaviour, and its records for publishing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.publishing.ledger import Names
from arcacct.publishing.plugin import Acceptance, DuplicatePolicy, RecordFormat, Sender, TargetPlugin
from arcacct.records.model import AAR
from arcacct.targets.auditor import record
from arcacct.targets.auditor.acceptance import accept
from arcacct.targets.auditor.options import KIND, LONGEST_NAME, AuditorTarget
from arcacct.targets.auditor.record import DOCUMENT, RecordOptions, headnode, record_id
from arcacct.targets.common import quoted
from arcacct.targets.parts import Plain, RecordOfParts
from arcacct.wording import count_of

if TYPE_CHECKING:
    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy


# The behaviour of AUDITOR. AUDITOR keeps the first version of a record and reports this. Only its end can be changed;
# for anything else its administrator must delete the record from the database.


class AuditorRecords(RecordOfParts[RecordOptions]):
    """A record for each job; a correction is sent like any record, and the server decides whether it accepts it."""

    envelope = DOCUMENT
    can_replace = True

    def __init__(self, options: RecordOptions) -> None:
        super().__init__(options, record.SHARED)
        self.site = options.site

    def accept(self, aar: AAR, now: int) -> Acceptance:
        return accept(aar, self.options, now)

    def plain(self, aar: AAR, parts: Sequence[Any], local_id: str | None) -> Plain:  # noqa: ARG002  it has none
        where: record.Where = parts[0]
        key = where.id_head + aar.job_id
        is_sound = aar.core_count >= 1 and aar.node_count >= 1 and len(key) <= LONGEST_NAME
        return (key, None, (self.options.site, where.headnode)) if is_sound else None

    def written(self, aar: AAR, parts: Sequence[Any], local_id: str | None, now: int) -> str:  # noqa: ARG002  it says neither
        return record.written(aar, parts, self.options)

    def replacement(self, aar: AAR, now: int, digest: bytes) -> str:  # noqa: ARG002  it has no other name
        return self.text(aar, now)

    def key(self, aar: AAR) -> str:
        return record_id(aar, self.options)

    def digest(self, aar: AAR) -> bytes:
        return record.digest(aar, self.options)

    def names(self, aar: AAR) -> Names:
        return self.options.site, headnode(aar, self.options) or ""


class AuditorPlugin(TargetPlugin):
    """Records to AUDITOR."""

    target: AuditorTarget
    message_format = DOCUMENT.message_format
    record_formats = (message_format,)
    # Well below `rules.LARGEST_BODY`, so that single characters need no counting.
    max_bytes = 1_500_000
    duplicate_policy = DuplicatePolicy.ANSWERS
    confirmation_level = "stored"
    correction_advice = "give its administrator what `arcacct quarantine sql` prints (it deletes record {key})"
    replacement_note = "a correction: accepted only if just the end of the job differs"

    def __init__(self, target: AuditorTarget, settings: Settings) -> None:
        super().__init__(target, settings)
        default = self.default_benchmark()
        self._options = RecordOptions(
            site=target.site_id,
            host=settings.lrms_host,
            localid_prefix=target.localid_prefix or "",
            vomsless_vo=self.vos(),
            vo_groups=target.vo_group,
            local_group_prefix=settings.local_group_prefix or "",
            start_time_source=target.start_time_source,
            default_benchmark=default,
            score_type=None if target.score_type == "any" else target.score_type or default.type,
            names=target.rename,
        )

    def records(self, _kind: str) -> RecordFormat:
        return AuditorRecords(self._options)

    def sender(self, timeouts: TimeoutPolicy | None = None) -> Sender:
        # The import of HTTP is slow.
        from arcacct.publishing.transport import transport_to  # noqa: PLC0415
        from arcacct.targets.auditor.sender import AuditorSender  # noqa: PLC0415

        url = self.target.url
        return AuditorSender(
            url, transport_to(self.target.transport_options, timeouts, in_clear=url.startswith("http://"))
        )

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        from arcacct.publishing.transport import ConnectivityCheck  # noqa: PLC0415  HTTP is slow to import
        from arcacct.targets.auditor.sender import classify_probe  # noqa: PLC0415

        shows = "it accepts our certificate; the first record will show whether its CN is in write_access_cn"
        if self.target.credentials() is None:
            shows = "it answers without encryption, to anyone"
        return (ConnectivityCheck("server", f"{self.target.url}/health_check", classify_probe, shows),)

    def corrections(self, con: Connection) -> str:
        from arcacct.publishing.held import outdated  # noqa: PLC0415  asked for once a year

        keys = outdated(con, self.target)
        ids = ",\n  ".join(map(quoted, keys))
        return f"""\
-- For the administrator of {self.target.url}: {count_of(len(keys), "record")} corrected after publishing.
-- They are sent once more; plugins report months before the previous one again only when they are asked to.
BEGIN;
DELETE FROM auditor_accounting WHERE record_id IN (
  {ids}
);
COMMIT;
"""


__all__ = ["KIND", "PLUGIN"]

PLUGIN = AuditorPlugin
