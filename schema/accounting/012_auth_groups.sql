-- The authgroups of arc.conf that A-REX found a job's user in, of jobs whose VO no credential tells: a target may have a
-- VO for them (vomsless_vo = AUTHGROUP NAME). No child of the record: they do not change once it has ended.
CREATE TABLE AuthGroups (
  RecordID INTEGER PRIMARY KEY,
  Names    TEXT NOT NULL         -- with blanks between, in the order of .local
);
CREATE TRIGGER AuthGroups_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM AuthGroups WHERE RecordID = old.RecordID;
END;

-- Cells are told apart by them, too. (What is there already has none.)
DROP VIEW v1_usage_by_month;
DROP VIEW UsageCells;
DROP VIEW RecordUsage;
CREATE TABLE NewCells (
  CellID     INTEGER PRIMARY KEY,
  Month      INTEGER NOT NULL,      -- 202611
  UserID     INTEGER NOT NULL,
  VOID       INTEGER NOT NULL,
  FQAN       TEXT NOT NULL,         -- the first one, as in AuthTokenAttributes; '' when there is none
  EndpointID INTEGER NOT NULL,
  NodeCount  INTEGER NOT NULL,
  CPUCount   INTEGER NOT NULL,
  Benchmark  TEXT NOT NULL,         -- as in JobExtraInfo; '' when there is none
  AuthGroups TEXT NOT NULL,         -- as in AuthGroups; '' when there are none
  Jobs       INTEGER NOT NULL DEFAULT 0,
  Wall       INTEGER NOT NULL DEFAULT 0,
  Cpu        INTEGER NOT NULL DEFAULT 0,
  Earliest   INTEGER,
  Latest     INTEGER,
  ChangedSeq INTEGER NOT NULL,      -- of FinishedLog, when it changed last
  UNIQUE (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups)
);
INSERT INTO NewCells
SELECT CellID, Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, '', Jobs, Wall, Cpu, Earliest,
       Latest, ChangedSeq
  FROM Cells;
DROP TABLE Cells;
ALTER TABLE NewCells RENAME TO Cells;
CREATE INDEX Cells_ChangedSeq_IDX ON Cells (ChangedSeq, Month);

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
       coalesce((SELECT Names FROM AuthGroups WHERE AuthGroups.RecordID = AAR.RecordID), '') AS AuthGroups,
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
         JOIN Cells USING (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups))
SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, Earliest, Latest
  FROM Cells WHERE Jobs > 0 AND CellID NOT IN Changed
UNION ALL
SELECT * FROM (
  SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
         sum(Jobs) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, min(Earliest) AS Earliest, max(Latest) AS Latest
    FROM (
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, Earliest, Latest
        FROM Cells WHERE Jobs > 0 AND CellID IN Changed AND CellID NOT IN Touched
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
             Cells.Jobs - Gone.Jobs, Cells.Wall - Gone.Wall, Cells.Cpu - Gone.Cpu,
             (SELECT min(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail),
             (SELECT max(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail)
        FROM (SELECT CellID, count(*) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu
                FROM Tail CROSS JOIN Contributions USING (RecordID) GROUP BY CellID) AS Gone
        CROSS JOIN Cells USING (CellID)
       WHERE Cells.Jobs > Gone.Jobs
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, 1, Wall, Cpu, EndTime, EndTime
        FROM Tail CROSS JOIN RecordUsage USING (RecordID)
    )
   GROUP BY Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups
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
  strftime('%Y-%m-%dT%H:%M:%SZ', Latest, 'unixepoch') AS latest_end_time_iso, -- latest_end_time as text
  nullif(AuthGroups, '') AS auth_groups -- authgroups of arc.conf that A-REX found the user in, with blanks between, where no credential told the VO; AuthGroups
FROM UsageCells
JOIN Users ON Users.ID = UserID
JOIN WLCGVOs ON WLCGVOs.ID = VOID
JOIN Endpoints ON Endpoints.ID = EndpointID;
