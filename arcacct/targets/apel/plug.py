"""
How APEL is dealt with, over AMS or by a site's own sender.

APEL replaces records by their keys, deletes nothing, reports no message that it rejects, and adds up all that it has:
job records under another key, and sums beside records of the same month, count twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arcacct.config.settings import Settings
from arcacct.publishing.plugin import (
    DuplicatePolicy,
    MonthlySummaries,
    ReceiverRows,
    RecordFormat,
    Sender,
    TargetPlugin,
)
from arcacct.targets.apel import families
from arcacct.targets.apel.messages import APELOptions
from arcacct.targets.apel.options import SPECIFIED, APELContent, APELTarget
from arcacct.targets.apel.text import folded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcacct.publishing.transport import ConnectivityCheck, TimeoutPolicy


class APELMessages(TargetPlugin):
    """A target with APEL's messages, however they get there."""

    target: APELContent
    record_formats = families.JOB_KINDS
    # Text that stays below 1,000,000 bytes of base64 once it is signed (CRLF line ends are counted by the batcher).
    max_bytes = 735_000
    duplicate_policy = DuplicatePolicy.REPLACES
    keys_may_collide = True
    one_format_per_month = True
    names = ("gocdb_name", "lrms_host", "localid_prefix", "apel_messages")
    kind_option = "apel_messages"
    record_names = ("vofilter", "gocdb_name", "lrms_host", "localid_prefix")
    takeover_advice = ""

    def __init__(self, target: APELContent, settings: Settings) -> None:
        super().__init__(target, settings)
        chosen = target.apel_messages
        if target.apel_dialect == "seed":
            chosen = SPECIFIED[chosen]
        self.message_format = families.CAR.message_format if chosen == "urs" else chosen
        self.options = APELOptions(
            site=target.gocdb_name,
            lrms_host=settings.lrms_host,
            localid_prefix=target.localid_prefix or "",
            vomsless_vo=self.vos(),
            vo_groups=target.vo_group,
            start_time_source=target.start_time_source,
            default_benchmark=self.default_benchmark(),
            local_group_prefix=settings.local_group_prefix or "",
            dialect=target.apel_dialect,
            local_jobs=target.local_jobs,
        )
        self.site = target.gocdb_name
        self.counts: families.APELSyncCounts = families.APELSyncCounts(self.options)

    def records(self, kind: str) -> RecordFormat:
        return families.APELRecords(kind, self.options._replace(bare_ids=self.bare_ids))

    def summaries(self, kind: str) -> MonthlySummaries:
        return families.APELSummaries(kind, self.options)

    def keyed(self, names: Mapping[str, object]) -> dict[str, object]:
        # All kinds of job records share a table at APEL, and its key.
        is_of_jobs = names.get("apel_messages") in ("urs", *families.JOB_KINDS)
        return {**names, "apel_messages": "urs"} if is_of_jobs else dict(names)

    def selection(self) -> dict[str, object]:
        return super().selection() | {
            "gocdb_name": self.target.gocdb_name,
            "apel_messages": self.target.apel_messages,
            "local_group_prefix": self.options.local_group_prefix,
            "benchmark": self.settings.places.rules.default_benchmark,
        }

    def receiver_rows(self, paths: Sequence[str], endpoint_urls: Iterable[str | None]) -> ReceiverRows:
        from arcacct.targets.apel import receiver_rows  # noqa: PLC0415  for one option alone

        return receiver_rows.read(paths, {folded(self.counts.site_and_host(url)[1]) for url in endpoint_urls})

    def folded(self, text: str) -> str:
        return folded(text) or ""


class APELPlugin(APELMessages):
    """Messages by AMS."""

    target: APELTarget
    confirmation_level = "handed to AMS"

    def text_of(self, data: bytes) -> str:
        from arcacct.targets.apel.signing import signed_text  # noqa: PLC0415  cryptography is slow to import

        return signed_text(data)

    def sender(self, timeouts: TimeoutPolicy | None = None) -> Sender:
        # For AMS only: the library behind it takes longer to import than a thousand records to publish.
        from arcacct.targets.apel.ams import AMSSender  # noqa: PLC0415

        return AMSSender(self.target, timeouts)

    def connectivity_checks(self) -> tuple[ConnectivityCheck, ...]:
        from arcacct.publishing import transport  # noqa: PLC0415  HTTP is slow to import
        from arcacct.targets.apel.answers import classify_ams_status, classify_authn  # noqa: PLC0415

        target = self.target
        known = "a token was given (and thrown away): our certificate's DN is registered"
        return (
            transport.ConnectivityCheck(
                "server", f"https://{target.address.netloc}/v1/status", classify_ams_status, "AMS is up"
            ),
            # The token is asked for at the start of each run, too; asking changes nothing.
            transport.ConnectivityCheck("token", target.authn_url, classify_authn, known),
        )


PLUGIN = APELPlugin
