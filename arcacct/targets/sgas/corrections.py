"""Corrections at SGAS, which keeps the first version of a record: what its administrator does to make room for them."""

from __future__ import annotations

from arcacct.db.engine import Connection
from arcacct.publishing import held
from arcacct.targets.postgresql import quoted
from arcacct.targets.sgas.options import SGASTarget


def corrections_sql(target: SGASTarget, con: Connection) -> str:
    """
    The transaction for SGAS's PostgreSQL that removes what is outdated of a target, and has its daily sums made anew.

    Children go first, since the server's foreign keys do not cascade; the days concerned are put into the queue of its
    own aggregation before, since a deleted row tells no day. Raises InputError when nothing is set
    aside as a correction.
    """
    keys = held.outdated(con, target)
    ids = ",\n  ".join(map(quoted, keys))
    rows = "SELECT id FROM usagedata WHERE record_id IN (SELECT record_id FROM outdated)"
    return f"""\
-- For the administrator of {target.url}: {len(keys)} usage records that were corrected after they were published.
-- Their runtime environments and transfers go with them; the daily sums are made anew by the server's own task.
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
