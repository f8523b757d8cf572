"""
Carrying over what an older program wrote into the ledger (FormerRecords): a part with each run, in short transactions.

Each takes whole messages, so that a record stands in one of the two forms at any moment, whatever interrupts it.
"""

from __future__ import annotations

from arcacct.db.durable import transaction
from arcacct.db.engine import Connection
from arcacct.publishing import sent_rows
from arcacct.publishing.ledger import SentRecord

_SLICE = 2000
"""So many records, or one message of more, in one transaction."""
OF_A_RUN = 200_000
"""So many records at the end of a run: some seconds."""


def carry_over(con: Connection, records: int = OF_A_RUN) -> None:
    """Carry over the oldest records that are left, about so many."""
    while records > 0 and sent_rows.has_former(con):
        with transaction(con):
            some = con.execute(
                "SELECT MessageID, count(*) FROM FormerRecords GROUP BY MessageID ORDER BY MessageID LIMIT 50"
            ).fetchall()
            carried = 0
            for message_id, count in some:
                if not carried or carried + count <= min(_SLICE, records):
                    _carry(con, message_id)
                    carried += count
        records -= carried


def carry_unanswered(con: Connection, target: str) -> None:
    """Carry over what a target has not answered for, and all that was sent to anybody since: an answer changes it."""
    if not sent_rows.has_former(con):
        return
    with transaction(con):
        for (message_id,) in con.execute(
            "SELECT DISTINCT MessageID FROM FormerRecords WHERE MessageID >="
            " (SELECT min(MessageID) FROM Messages WHERE Target = ? AND State = 'sending')",
            (target,),
        ).fetchall():
            _carry(con, message_id)


def _carry(con: Connection, message_id: int) -> None:
    records, given_ids, receiver_rows = [], [], []
    for given_id, receiver_row, *values in con.execute(
        "SELECT GivenID, ReceiverRow, JobID, RecordID, 0, EndTime, Digest, Key, Notes, '', NULL, Wall, ReplacedID,"
        " ReplacedWall FROM FormerRecords WHERE MessageID = ? ORDER BY Position",
        (message_id,),
    ):
        records.append(SentRecord._make(values))
        given_ids.append(given_id)
        receiver_rows.append(receiver_row)
    sent_rows.add(con, message_id, records, given_ids, sent_rows.job_numbers(con, records))
    if any(receiver_rows):
        con.execute(
            "UPDATE Messages SET ReceiverRows = ? WHERE MessageID = ?",
            (sent_rows.packed_rows(receiver_rows), message_id),
        )
    con.execute("DELETE FROM FormerRecords WHERE MessageID = ?", (message_id,))
