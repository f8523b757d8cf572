"""So many finished jobs that what is kept of each of them in memory is seen."""

from __future__ import annotations

from contextlib import closing

from arcacct.config.paths import Places
from arcacct.database.access import initialise, open_accounting
from arcacct.records import usage


def fill(here: Places, jobs: int, first_end_s: int) -> None:
    """A database with jobs that end a second after each other; only what stands in AAR itself."""
    initialise(here)
    with closing(open_accounting(here)) as con:
        con.execute("UPDATE DBConfig SET KeyValue = '0' WHERE KeyName = 'ARCACCT_CREATED'")
        con.execute("PRAGMA synchronous = OFF")
        con.execute("INSERT INTO Endpoints VALUES (1, 'org.nordugrid.arcrest', 'https://ce.example.org:443/arex')")
        con.execute("INSERT INTO Queues VALUES (1, 'main')")
        con.execute("INSERT INTO Users VALUES (1, '/DC=org/CN=User')")
        con.execute("INSERT INTO WLCGVOs VALUES (1, 'atlas')")
        con.execute("BEGIN")
        con.execute(
            "WITH RECURSIVE N(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM N WHERE n < ?)"
            " INSERT INTO AAR SELECT n, printf('%054d', (n * 2654435761) % 4294967296), n, 1, 1, 1, 1,"
            " (SELECT ID FROM Status WHERE Name = 'completed'), 0, ? + n - 3600, ? + n, 1, 8, 1, 1, 3500, 9, 9, 0, 0, 0"
            " FROM N",
            (jobs, first_end_s, first_end_s),
        )
        con.execute("COMMIT")
        usage.update_monthly(con, here)
