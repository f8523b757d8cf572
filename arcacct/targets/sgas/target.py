"""SGAS as a target: the behaviour of its server, and its usage records for publishing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from arcacct.config.settings import Settings
from arcacct.database.connection import Connection
from arcacct.publishing.ledger import Names
from arcacct.publishing.plugin import Acceptance, DuplicatePolicy, Envelope, RecordFormat, Sender, TargetPlugin
from arcacct.records.model import AAR, job_record_id, machine_host
from arcacct.targets.common import now_time, quoted
from arcacct.targets.parts import Plain, RecordOfParts
from arcacct.targets.sgas import acceptance, usage_record
from arcacct.targets.sgas.options import SGASTarget
from arcacct.targets.sgas.usage_record import UROptions, Where

if TYPE_CHECKING:
    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy


# The behaviour of SGAS. SGAS ignores a record that it has, so a message may be sent again at any time. It never
# corrects a record: unless the new one has another GlobalJobId (`sgas_corrections=replace`), its administrator must
# delete the old one.


_SUFFIX_DIGITS = 12


class UsageRecords(RecordOfParts[UROptions]):
    """OGF usage records; SGAS authorises by MachineName."""

    envelope = Envelope("ur", usage_record.HEAD, usage_record.TAIL, "</JobUsageRecord>\n")

    def __init__(self, options: UROptions, *, can_replace: bool) -> None:
        """``can_replace``: whether corrections are sent, under another GlobalJobId."""
        super().__init__(options, usage_record.SHARED)
        self.can_replace = can_replace

    def accept(self, aar: AAR, now: int) -> Acceptance:
        return acceptance.accept_for_sgas(aar, self.options, now)

    def local_id(self, aar: AAR) -> str | None:
        return usage_record.local_job_id(aar.local_job_id, self.options)

    def plain(self, aar: AAR, parts: Sequence[Any], local_id: str | None) -> Plain:
        if (local_id is None and aar.local_job_id) or not acceptance.transfers_sound(aar.transfers):
            return None
        where: Where = parts[0]
        return where.id_head + aar.job_id, where.machine, ("", where.machine)

    def written(self, aar: AAR, parts: Sequence[Any], local_id: str | None, now: int) -> str:
        return usage_record.written(aar, parts, local_id, now_time(now), self.options)

    def key(self, aar: AAR) -> str:
        return job_record_id(aar, self.options.host)

    def digest(self, aar: AAR) -> bytes:
        return usage_record.digest(aar, self.options)

    def authorisation_group(self, aar: AAR) -> str | None:
        return machine_host(aar.endpoint_url, self.options.host)

    def names(self, aar: AAR) -> Names:
        return "", self.authorisation_group(aar) or ""

    def replaces(self, aar: AAR) -> bool:
        """Whether the record has no children: only such a record can replace the existing one."""
        return self.can_replace and not aar.run_time_environments and not aar.transfers

    def replacement(self, aar: AAR, now: int, digest: bytes) -> str:
        other_id = f"{aar.job_id}#{digest.hex()[:_SUFFIX_DIGITS]}"
        return usage_record.written(aar, self.parts(aar), self.local_id(aar), now_time(now), self.options, other_id)


class SGASPlugin(TargetPlugin):
    """Usage records to SGAS."""

    target: SGASTarget
    message_format = UsageRecords.envelope.message_format
    record_formats = (message_format,)
    # nginx before SGAS refuses bodies above 2 MB (client_max_body_size 2m).
    max_bytes = 1_500_000
    duplicate_policy = DuplicatePolicy.IGNORES
    # The record id has no local id.
    names = ("lrms_host",)
    record_names = ("vofilter", "lrms_host")
    confirmation_level = "stored"
    returns_row_ids = True
    correction_advice = "give its administrator what `arcacct quarantine sql` prints (it deletes record {key})"
    replacement_note = "sent with another GlobalJobId, at which the receiver replaces the record that it has"
    takeover_advice = "nothing to do: record ids are the same as jura-ng's, and SGAS ignores records that it has"

    def __init__(self, target: SGASTarget, settings: Settings) -> None:
        super().__init__(target, settings)
        self._options = UROptions(
            host=settings.lrms_host,
            localid_prefix=target.localid_prefix or "",
            vomsless_vo=self.vos(),
            vo_groups=target.vo_group,
            start_time_source=target.start_time_source,
            vo_style=target.sgas_vo_style,
            host_style=target.sgas_host_style,
            memory_type=target.memory_type,
            local_jobs=target.local_jobs,
        )

    def records(self, _kind: str) -> RecordFormat:
        return UsageRecords(self._options, can_replace=self.target.sgas_corrections == "replace")

    def sender(self, timeouts: TimeoutPolicy | None = None) -> Sender:
        from arcacct.publishing.transport import transport_to  # noqa: PLC0415  HTTP is slow to import
        from arcacct.targets.sgas.sender import SGASSender  # noqa: PLC0415

        return SGASSender(self.target.url, transport_to(self.target.transport_options, timeouts))

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        from arcacct.publishing.transport import ConnectivityCheck  # noqa: PLC0415  HTTP is slow to import
        from arcacct.targets.sgas.sender import classify_probe  # noqa: PLC0415

        shows = "it accepts our certificate; the first record will show whether it has the right jobinsert"
        return (ConnectivityCheck("server", self.target.url, classify_probe, shows),)

    def corrections(self, con: Connection) -> str:
        from arcacct.publishing.held import outdated  # noqa: PLC0415  asked for once a year

        # Children are deleted first, since the server's foreign keys do not cascade. Before that, the days concerned
        # are put into the queue of its own aggregation, since a deleted row no longer has its day.
        url, keys = self.target.url, outdated(con, self.target)
        ids = ",\n  ".join(map(quoted, keys))
        rows = "SELECT id FROM usagedata WHERE record_id IN (SELECT record_id FROM outdated)"
        return f"""\
-- For the administrator of {url}: {len(keys)} usage records that were corrected after they were published.
-- Their runtime environments and transfers are deleted, too. The server's own task recalculates the daily sums.
BEGIN;
CREATE TEMPORARY TABLE outdated (record_id varchar(1000)) ON COMMIT DROP;
INSERT INTO outdated SELECT unnest(ARRAY[
  {ids}
]);
INSERT INTO uraggregated_update (insert_time, machine_name_id)
  SELECT DISTINCT insert_time::date, machine_name_id FROM usagedata
   WHERE record_id IN (SELECT record_id FROM outdated);
DELETE FROM runtimeenvironment_usagedata WHERE usagedata_id IN ({rows});
DELETE FROM jobtransferdata WHERE usage_data_id IN ({rows});
DELETE FROM usagedata WHERE record_id IN (SELECT record_id FROM outdated);
COMMIT;
"""


PLUGIN = SGASPlugin
