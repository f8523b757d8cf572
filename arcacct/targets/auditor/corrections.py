"""Corrections at AUDITOR, which deletes nothing: what its administrator does in its database to make room for them."""

from __future__ import annotations

from arcacct.db.engine import Connection
from arcacct.publishing import held
from arcacct.targets.auditor.options import AuditorTarget
from arcacct.targets.postgresql import quoted


def corrections_sql(target: AuditorTarget, con: Connection) -> str:
    """
    The transaction for AUDITOR's PostgreSQL that removes what is outdated of a target.

    Raises InputError when nothing is set aside as a correction.
    """
    keys = held.outdated(con, target)
    ids = ",\n  ".join(map(quoted, keys))
    return f"""\
-- For the administrator of {target.url}: {len(keys)} records that were corrected after they were published.
-- They are sent once more; plugins report months before the previous one again only when they are asked to.
BEGIN;
DELETE FROM auditor_accounting WHERE record_id IN (
  {ids}
);
COMMIT;
"""
