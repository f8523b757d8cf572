-- Monthly usage, kept up to date from FinishedLog: what it costs to ask follows what changed, not the history.

-- How many records there are: to count them would take longer with every job.
CREATE TABLE RecordCount (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Records INTEGER NOT NULL
);
INSERT INTO RecordCount SELECT 1, count(*) FROM AAR;
CREATE TRIGGER RecordCount_insert AFTER INSERT ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records + 1;
END;
CREATE TRIGGER RecordCount_delete AFTER DELETE ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records - 1;
END;

-- One row per month of EndTime (UTC) and all that a summary is keyed by. A cell that lost its last job stays with Jobs 0:
-- a publisher has to learn that the month changed.
CREATE TABLE Cells (
  CellID     INTEGER PRIMARY KEY,
  Month      INTEGER NOT NULL,      -- 202611
  UserID     INTEGER NOT NULL,
  VOID       INTEGER NOT NULL,
  FQAN       TEXT NOT NULL,         -- the first one, as in AuthTokenAttributes; '' when there is none
  EndpointID INTEGER NOT NULL,
  NodeCount  INTEGER NOT NULL,
  CPUCount   INTEGER NOT NULL,
  Benchmark  TEXT NOT NULL,         -- as in JobExtraInfo; '' when there is none
  Jobs       INTEGER NOT NULL DEFAULT 0,
  Wall       INTEGER NOT NULL DEFAULT 0,
  Cpu        INTEGER NOT NULL DEFAULT 0,
  Earliest   INTEGER,
  Latest     INTEGER,
  ChangedSeq INTEGER NOT NULL,      -- of FinishedLog, when it changed last
  UNIQUE (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark)
);
CREATE INDEX Cells_ChangedSeq_IDX ON Cells (ChangedSeq, Month);

-- What each job last contributed, so that a correction is exact. A pruned job's contribution stays.
CREATE TABLE Contributions (
  RecordID INTEGER PRIMARY KEY,
  CellID   INTEGER NOT NULL,
  EndTime  INTEGER NOT NULL,
  Wall     INTEGER NOT NULL,
  Cpu      INTEGER NOT NULL
);
CREATE INDEX Contributions_Cell_IDX ON Contributions (CellID, EndTime);

-- How far the cells are: every record with a Seq up to here is in them as it was then.
CREATE TABLE CellsPosition (
  ID  INTEGER PRIMARY KEY CHECK (ID = 1),
  Seq INTEGER NOT NULL
);
INSERT INTO CellsPosition VALUES (1, 0);

-- What a record contributes now. What is larger than 2^53 is no measurement: it would make the sum of its month overflow.
-- A job that vanished unfinished counts only when the batch system measured something.
CREATE VIEW RecordUsage AS
SELECT AAR.RecordID,
       CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER) AS Month,
       UserID, VOID,
       coalesce((SELECT AttrValue FROM AuthTokenAttributes AS Token
                  -- The plus keeps SQLite off the index of AttrKey, which has half of all rows under one key.
                  WHERE Token.RecordID = AAR.RecordID AND +AttrKey IN ('mainfqan', 'vomsfqan')
                  ORDER BY +AttrKey, Token.rowid LIMIT 1), '') AS FQAN,
       EndpointID, NodeCount, CPUCount,
       coalesce((SELECT InfoValue FROM JobExtraInfo AS Extra
                  WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'
                  ORDER BY Extra.rowid LIMIT 1), '') AS Benchmark,
       EndTime,
       CASE WHEN UsedWalltime BETWEEN 0 AND 9007199254740992 THEN UsedWalltime ELSE 0 END AS Wall,
       CASE WHEN UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUUserTime ELSE 0 END
       + CASE WHEN UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUKernelTime ELSE 0 END AS Cpu
  FROM AAR
  JOIN Status ON Status.ID = +StatusID
 -- A condition on AAR alone would let SQLite read all of it, to make a Bloom filter for a few records.
 WHERE CASE WHEN Status.Name IN ('completed', 'failed') THEN EndTime > 0
            WHEN Status.Name = 'aborted'
            THEN EndTime > 0 AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) <> (0, 0, 0) END;

-- The cells as they are at this moment: what changed after CellsPosition is taken from the records themselves, so that
-- a reader who may not write sees the present, too. Cells that nothing changed in are not summed again.
CREATE VIEW UsageCells AS
WITH Tail AS (SELECT RecordID FROM FinishedLog WHERE Seq > (SELECT Seq FROM CellsPosition)),
     -- Something left these; into the others something came.
     Touched AS (SELECT CellID FROM Tail CROSS JOIN Contributions USING (RecordID)),
     Changed AS (
       SELECT CellID FROM Touched
       UNION
       SELECT CellID FROM Tail CROSS JOIN RecordUsage USING (RecordID)
         JOIN Cells USING (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark))
SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, Jobs, Wall, Cpu, Earliest, Latest
  FROM Cells WHERE Jobs > 0 AND CellID NOT IN Changed
UNION ALL
SELECT * FROM (
  SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark,
         sum(Jobs) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, min(Earliest) AS Earliest, max(Latest) AS Latest
    FROM (
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, Jobs, Wall, Cpu, Earliest, Latest
        FROM Cells WHERE Jobs > 0 AND CellID IN Changed AND CellID NOT IN Touched
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark,
             Cells.Jobs - Gone.Jobs, Cells.Wall - Gone.Wall, Cells.Cpu - Gone.Cpu,
             (SELECT min(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail),
             (SELECT max(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail)
        FROM (SELECT CellID, count(*) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu
                FROM Tail CROSS JOIN Contributions USING (RecordID) GROUP BY CellID) AS Gone
        CROSS JOIN Cells USING (CellID)
       WHERE Cells.Jobs > Gone.Jobs
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, 1, Wall, Cpu, EndTime, EndTime
        FROM Tail CROSS JOIN RecordUsage USING (RecordID)
    )
   GROUP BY Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark
);

-- The finished jobs of each month (of their end, in UTC) that agree in all that a summary is made by. A job that vanished
-- unfinished (aborted) counts only if the batch system measured something. A duration that is no measurement counts 0.
CREATE VIEW v1_usage_by_month AS
SELECT
  substr(Month, 1, 4) || '-' || substr(Month, 5) AS month, -- month of end_time in UTC, e.g. 2026-11; AAR
  nullif(replace(replace(replace(replace(replace(replace(Users.Name, '%27', ''''), '%23', '#'), '%0D', char(13)),
                                 '%0A', char(10)), '%08', char(8)), '%25', '%'), '') AS user_dn, -- as in v1_jobs
  nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'), '') AS vo, -- as in v1_jobs
  nullif(replace(replace(replace(FQAN, '%27', ''''), '%23', '#'), '%25', '%'), '') AS fqan, -- as in v1_jobs
  CASE WHEN FQAN LIKE '/%' THEN
    substr(FQAN, 1, min(instr(FQAN || '/Role=', '/Role='), instr(FQAN || '/Capability=', '/Capability=')) - 1)
  END AS vo_group, -- as in v1_jobs
  CASE WHEN instr(FQAN, '/Role=') THEN
    nullif(nullif(
      substr(FQAN, instr(FQAN, '/Role=') + 6, instr(substr(FQAN, instr(FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL')
  END AS vo_role, -- as in v1_jobs
  nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'), '') AS endpoint_url, -- as in v1_jobs
  CASE Endpoints.URL WHEN '' THEN 'local' ELSE 'grid' END AS infrastructure, -- grid, or local for jobs without an endpoint; Endpoints
  NodeCount AS node_count, -- as in v1_jobs
  CPUCount AS core_count, -- as in v1_jobs
  CASE WHEN instr(Benchmark, ':') THEN substr(Benchmark, 1, instr(Benchmark, ':') - 1) END AS benchmark_type, -- as in v1_jobs
  CASE WHEN instr(Benchmark, ':') THEN
    CAST(substr(Benchmark, instr(Benchmark, ':') + 1) AS REAL) END AS benchmark_value, -- as in v1_jobs
  Jobs AS jobs, -- number of jobs
  Wall AS wall_s, -- s of clock time of all jobs; multiplied by core_count it is the core time
  Cpu AS cpu_s, -- s of CPU time of all jobs
  Earliest AS earliest_end_time, -- s since 1970: end_time of the first job
  strftime('%Y-%m-%dT%H:%M:%SZ', Earliest, 'unixepoch') AS earliest_end_time_iso, -- earliest_end_time as text
  Latest AS latest_end_time, -- s since 1970: end_time of the last job
  strftime('%Y-%m-%dT%H:%M:%SZ', Latest, 'unixepoch') AS latest_end_time_iso -- latest_end_time as text
FROM UsageCells
JOIN Users ON Users.ID = UserID
JOIN WLCGVOs ON WLCGVOs.ID = VOID
JOIN Endpoints ON Endpoints.ID = EndpointID;
