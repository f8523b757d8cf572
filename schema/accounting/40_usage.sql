-- Sums that are kept up to date: usage by month, user and VO, and finer ones.

--   Month: 202611
--   FQAN: the first one, as in AuthTokenAttributes; '' when there is none
--   Benchmark: as in JobExtraInfo; '' when there is none
--   AuthGroups: as in AuthGroups; '' when there are none
--   ChangedSeq: of FinishedLog, when it changed last
--   CoreRest: core s less wall time x cores, of jobs whose runs had different cores
--   CpuUnpaired, CoreUnpaired: CPU and core s of jobs whose wall time or CPU time is unknown: no efficiency has them
CREATE TABLE MonthlyUsage (
  CellID       INTEGER PRIMARY KEY,
  Month        INTEGER NOT NULL,
  UserID       INTEGER NOT NULL,
  VOID         INTEGER NOT NULL,
  FQAN         TEXT NOT NULL,
  EndpointID   INTEGER NOT NULL,
  NodeCount    INTEGER NOT NULL,
  CPUCount     INTEGER NOT NULL,
  Benchmark    TEXT NOT NULL,
  AuthGroups   TEXT NOT NULL,
  Jobs         INTEGER NOT NULL DEFAULT 0,
  Wall         INTEGER NOT NULL DEFAULT 0,
  Cpu          INTEGER NOT NULL DEFAULT 0,
  Earliest     INTEGER,
  Latest       INTEGER,
  ChangedSeq   INTEGER NOT NULL,
  NoWall       INTEGER NOT NULL DEFAULT 0,
  NoCpu        INTEGER NOT NULL DEFAULT 0,
  CoreUnpaired INTEGER NOT NULL DEFAULT 0,
  CoreRest     INTEGER NOT NULL DEFAULT 0,
  CpuUnpaired  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups)
);
CREATE INDEX MonthlyUsage_ChangedSeq_IDX ON MonthlyUsage (ChangedSeq, Month);

-- How far the cells are: every record with a Seq up to here is in them as it was then.
CREATE TABLE UsageCursor (
  ID  INTEGER PRIMARY KEY CHECK (ID = 1),
  Seq INTEGER NOT NULL
);

-- What each job last contributed, so that a correction is exact. A pruned job's contribution stays.
--   MonthID, DayID, HostID: the rows of UsageBreakdown that count the job; NULL: none yet, the next command that
--     writes adds it
--   NoWall, NoCpu: 1 where that value is unknown
--   CoreRest: core s less wall time x cores, of a job whose runs had different cores
--   CpuUnpaired, CoreUnpaired: CPU and core s, if the job's wall time or CPU time is unknown
CREATE TABLE JobUsageShares (
  RecordID     INTEGER PRIMARY KEY,
  CellID       INTEGER NOT NULL,
  EndTime      INTEGER NOT NULL,
  Wall         INTEGER NOT NULL,
  Cpu          INTEGER NOT NULL,
  MonthID      INTEGER,
  DayID        INTEGER,
  HostID       INTEGER,
  StageIn      INTEGER,
  StageOut     INTEGER,
  NoWall       INTEGER NOT NULL DEFAULT 0,
  NoCpu        INTEGER NOT NULL DEFAULT 0,
  CoreUnpaired INTEGER NOT NULL DEFAULT 0,
  CoreRest     INTEGER NOT NULL DEFAULT 0,
  CpuUnpaired  INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX JobUsageShares_Cell_IDX ON JobUsageShares (CellID, EndTime);
CREATE INDEX JobUsageShares_Waiting_IDX ON JobUsageShares (RecordID) WHERE MonthID IS NULL;

-- Sums for `stats`, finer than MonthlyUsage, which summaries are made of. Each job is in one row of each kind: 1: of a
-- month, all but its host; 2: of a day, all but its user and host (with them there would be nearly a row for each
-- job); 3: of a month, host, status, cores and benchmark. What a kind does not tell apart is 0 or ''.
--   Period: 202611, or days since 1970
--   Project: as in JobExtraInfo; '' when there is none
--   Host: the node that the batch system named first
CREATE TABLE UsageBreakdown (
  FinerID      INTEGER PRIMARY KEY,
  Kind         INTEGER NOT NULL,
  Period       INTEGER NOT NULL,
  UserID       INTEGER NOT NULL,
  VOID         INTEGER NOT NULL,
  FQAN         TEXT NOT NULL,
  EndpointID   INTEGER NOT NULL,
  QueueID      INTEGER NOT NULL,
  StatusID     INTEGER NOT NULL,
  Project      TEXT NOT NULL,
  Host         TEXT NOT NULL,
  CPUCount     INTEGER NOT NULL,
  Benchmark    TEXT NOT NULL,
  Jobs         INTEGER NOT NULL DEFAULT 0,
  Wall         INTEGER NOT NULL DEFAULT 0,
  Cpu          INTEGER NOT NULL DEFAULT 0,
  StageIn      INTEGER NOT NULL DEFAULT 0,
  StageOut     INTEGER NOT NULL DEFAULT 0,
  NoWall       INTEGER NOT NULL DEFAULT 0,
  NoCpu        INTEGER NOT NULL DEFAULT 0,
  CoreUnpaired INTEGER NOT NULL DEFAULT 0,
  CoreRest     INTEGER NOT NULL DEFAULT 0,
  CpuUnpaired  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (Kind, Period, UserID, VOID, FQAN, EndpointID, QueueID, StatusID, Project, Host, CPUCount, Benchmark)
);

-- The cells as they are at this moment: what changed after UsageCursor is taken from the records themselves, so
-- that a reader who may not write sees the present, too. Cells that nothing changed in are not summed again.
--   Something left these; into the others something came.
CREATE VIEW CurrentUsage AS
WITH Tail AS (SELECT RecordID FROM FinishedLog WHERE Seq > (SELECT Seq FROM UsageCursor)),
     Touched AS (SELECT CellID FROM Tail CROSS JOIN JobUsageShares USING (RecordID)),
     Changed AS (
       SELECT CellID FROM Touched
       UNION
       SELECT CellID FROM Tail CROSS JOIN RecordUsage USING (RecordID)
         JOIN MonthlyUsage USING (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups))
SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, NoWall,
       NoCpu, CoreRest, CpuUnpaired, CoreUnpaired, Earliest, Latest
  FROM MonthlyUsage WHERE Jobs > 0 AND CellID NOT IN Changed
UNION ALL
SELECT * FROM (
  SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
         sum(Jobs) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu,
         sum(CoreRest) AS CoreRest, sum(CpuUnpaired) AS CpuUnpaired, sum(CoreUnpaired) AS CoreUnpaired,
         min(Earliest) AS Earliest, max(Latest) AS Latest
    FROM (
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, NoWall,
             NoCpu, CoreRest, CpuUnpaired, CoreUnpaired, Earliest, Latest
        FROM MonthlyUsage WHERE Jobs > 0 AND CellID IN Changed AND CellID NOT IN Touched
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
             MonthlyUsage.Jobs - Gone.Jobs, MonthlyUsage.Wall - Gone.Wall, MonthlyUsage.Cpu - Gone.Cpu,
             MonthlyUsage.NoWall - Gone.NoWall, MonthlyUsage.NoCpu - Gone.NoCpu,
             MonthlyUsage.CoreRest - Gone.CoreRest, MonthlyUsage.CpuUnpaired - Gone.CpuUnpaired,
             MonthlyUsage.CoreUnpaired - Gone.CoreUnpaired,
             (SELECT min(EndTime) FROM JobUsageShares WHERE CellID = MonthlyUsage.CellID AND RecordID NOT IN Tail),
             (SELECT max(EndTime) FROM JobUsageShares WHERE CellID = MonthlyUsage.CellID AND RecordID NOT IN Tail)
        FROM (SELECT CellID, count(*) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, sum(NoWall) AS NoWall,
                     sum(NoCpu) AS NoCpu, sum(CoreRest) AS CoreRest, sum(CpuUnpaired) AS CpuUnpaired,
                     sum(CoreUnpaired) AS CoreUnpaired
                FROM Tail CROSS JOIN JobUsageShares USING (RecordID) GROUP BY CellID) AS Gone
        CROSS JOIN MonthlyUsage USING (CellID)
       WHERE MonthlyUsage.Jobs > Gone.Jobs
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, 1, Wall, Cpu, NoWall, NoCpu,
             CoreRest, CASE WHEN NoWall OR NoCpu THEN Cpu ELSE 0 END,
             CASE WHEN NoWall OR NoCpu THEN min(Wall * CPUCount + CoreRest, 9007199254740992) ELSE 0 END, EndTime, EndTime
        FROM Tail CROSS JOIN RecordUsage USING (RecordID)
    )
   GROUP BY Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups
);

INSERT INTO UsageCursor VALUES (1, 0);
