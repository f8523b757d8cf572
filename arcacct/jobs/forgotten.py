"""Which records and months have pseudonyms instead of names (`forgetting`): they are never sent again, nor changed."""

from __future__ import annotations

from collections.abc import Sequence

from arcacct.database.connection import Connection


def pseudonymised(con: Connection, record_ids: Sequence[int]) -> set[int]:
    """Which of these records have pseudonyms."""
    if con.execute("SELECT 1 FROM ForgottenRecords LIMIT 1").fetchone() is None:
        return set()
    listed = ", ".join(str(int(one)) for one in record_ids)
    rows = con.execute(f"SELECT RecordID FROM ForgottenRecords WHERE RecordID IN ({listed})")
    return {record_id for (record_id,) in rows}


def closed_months(con: Connection) -> set[tuple[int, int]]:
    """The months, as ``(2026, 11)``, of which some have: their sums have other keys than those that were sent."""
    return {divmod(month, 100) for (month,) in con.execute("SELECT Month FROM ForgottenMonths")}
