-- Values that nobody told are told apart from 0: in the views they are NULL, and the sums count the jobs without them.
--
-- A-REX's tables hold 0 for such a value (one node, one core). Who told a value is in FieldSources; of a value that nobody
-- told it says 'unknown': wall_s, cpu_user_s, cpu_kernel_s, core_count, node_count. What is sent to receivers is as before.

CREATE INDEX FieldSources_Unknown_IDX ON FieldSources (RecordID) WHERE Source = 'unknown';

-- Jobs of A-REX that completed, or had started, without any measurement: there was no .diag, or none of the job itself.
INSERT OR IGNORE INTO FieldSources (RecordID, Field, Source)
SELECT RecordID, Field, 'unknown'
  FROM AAR
  CROSS JOIN (SELECT 'wall_s' AS Field UNION ALL SELECT 'cpu_user_s' UNION ALL SELECT 'cpu_kernel_s')
 WHERE EndTime > 0
   AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, UsedMemory, UsedVirtMem) = (0, 0, 0, 0, 0)
   AND (SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID AND Source <> 'arex') IS NULL
   AND CASE (SELECT Name FROM Status WHERE ID = StatusID)
       WHEN 'completed' THEN 1
       WHEN 'failed' THEN
         EXISTS (SELECT 1 FROM JobEvents WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART') END;

-- Jobs of sacct without CPU time. A run of more than a second with 0 was not measured.
UPDATE SlurmRuns SET CPUUs = NULL, CPUKernelUs = NULL WHERE CPUUs = 0 AND Elapsed > 1;
INSERT OR IGNORE INTO FieldSources (RecordID, Field, Source)
SELECT DISTINCT SlurmRuns.RecordID, Field, 'unknown'
  FROM SlurmRuns
  CROSS JOIN RecordSources ON RecordSources.RecordID = SlurmRuns.RecordID AND Source = 'sacct'
  CROSS JOIN (SELECT 'cpu_user_s' AS Field UNION ALL SELECT 'cpu_kernel_s')
 WHERE CPUUs IS NULL;

-- Jobs of HTCondor without CPU time of all their runs.
INSERT OR IGNORE INTO FieldSources (RecordID, Field, Source)
SELECT HTCondorJobs.RecordID, Field, 'unknown'
  FROM HTCondorJobs
  CROSS JOIN RecordSources ON RecordSources.RecordID = HTCondorJobs.RecordID AND Source = 'htcondor'
  CROSS JOIN (SELECT 'cpu_user_s' AS Field UNION ALL SELECT 'cpu_kernel_s')
 WHERE CPUUser IS NULL;

-- What a job adds to the sums of jobs without a value; WallNoCpu is its clock time, if its CPU time is not known.
ALTER TABLE Contributions ADD COLUMN NoWall INTEGER NOT NULL DEFAULT 0;
ALTER TABLE Contributions ADD COLUMN NoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE Contributions ADD COLUMN WallNoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE Cells ADD COLUMN NoWall INTEGER NOT NULL DEFAULT 0;
ALTER TABLE Cells ADD COLUMN NoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE Cells ADD COLUMN WallNoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE FinerCells ADD COLUMN NoWall INTEGER NOT NULL DEFAULT 0;
ALTER TABLE FinerCells ADD COLUMN NoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE FinerCells ADD COLUMN WallNoCpu INTEGER NOT NULL DEFAULT 0;
-- The sums that there are get them here: no record is logged as changed, so nothing is published again.
UPDATE Contributions SET NoWall = 1
 WHERE RecordID IN (SELECT RecordID FROM FieldSources WHERE Source = 'unknown' AND Field = 'wall_s');
UPDATE Contributions SET NoCpu = 1, WallNoCpu = Wall
 WHERE RecordID IN (SELECT RecordID FROM FieldSources WHERE Source = 'unknown' AND Field = 'cpu_user_s');
UPDATE Cells SET NoWall = Part.NoWall, NoCpu = Part.NoCpu, WallNoCpu = Part.WallNoCpu
  FROM (SELECT CellID, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu, sum(WallNoCpu) AS WallNoCpu FROM Contributions
         WHERE RecordID IN (SELECT RecordID FROM FieldSources WHERE Source = 'unknown') GROUP BY CellID) AS Part
 WHERE Cells.CellID = Part.CellID;
UPDATE FinerCells SET NoWall = Part.NoWall, NoCpu = Part.NoCpu, WallNoCpu = Part.WallNoCpu
  FROM (SELECT MonthID AS FinerID, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu, sum(WallNoCpu) AS WallNoCpu
          FROM Contributions WHERE RecordID IN (SELECT RecordID FROM FieldSources WHERE Source = 'unknown')
         GROUP BY 1) AS Part
 WHERE FinerCells.FinerID = Part.FinerID;
UPDATE FinerCells SET NoWall = Part.NoWall, NoCpu = Part.NoCpu, WallNoCpu = Part.WallNoCpu
  FROM (SELECT DayID AS FinerID, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu, sum(WallNoCpu) AS WallNoCpu
          FROM Contributions WHERE RecordID IN (SELECT RecordID FROM FieldSources WHERE Source = 'unknown')
         GROUP BY 1) AS Part
 WHERE FinerCells.FinerID = Part.FinerID;
UPDATE FinerCells SET NoWall = Part.NoWall, NoCpu = Part.NoCpu, WallNoCpu = Part.WallNoCpu
  FROM (SELECT HostID AS FinerID, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu, sum(WallNoCpu) AS WallNoCpu
          FROM Contributions WHERE RecordID IN (SELECT RecordID FROM FieldSources WHERE Source = 'unknown')
         GROUP BY 1) AS Part
 WHERE FinerCells.FinerID = Part.FinerID;

-- A value that becomes known, or unknown, where A-REX's tables stay as they are: the sums have to count its job again.
CREATE TRIGGER FieldSources_unknown_insert AFTER INSERT ON FieldSources
WHEN new.Source = 'unknown'
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID AND Seq <= (SELECT Seq FROM CellsPosition))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FieldSources_unknown_update AFTER UPDATE ON FieldSources
WHEN (old.Source = 'unknown') <> (new.Source = 'unknown')
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID AND Seq <= (SELECT Seq FROM CellsPosition))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FieldSources_unknown_delete AFTER DELETE ON FieldSources
WHEN old.Source = 'unknown'
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID AND Seq <= (SELECT Seq FROM CellsPosition))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

DROP VIEW v1_usage_by_month;
DROP VIEW UsageCells;
-- The records as they count: without those that are held, and with what was decided. Columns as in AAR; HoldBenchmark: what
-- counts in the place of the benchmark in JobExtraInfo, if anything does; NoWall, NoCpu: 1 where that time is unknown.
CREATE VIEW AccountedAAR AS
SELECT AAR.RecordID, JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime, EndTime,
       CASE WHEN Hold.NodeCount IS NULL THEN AAR.NodeCount ELSE max(Hold.NodeCount, 1) END AS NodeCount,
       CASE WHEN Hold.CPUCount IS NULL THEN AAR.CPUCount ELSE max(Hold.CPUCount, 1) END AS CPUCount,
       UsedMemory, UsedVirtMem,
       CASE WHEN Hold.UsedWalltime IS NULL THEN AAR.UsedWalltime ELSE max(Hold.UsedWalltime, 0) END AS UsedWalltime,
       CASE WHEN Hold.UsedCPUUserTime IS NULL THEN AAR.UsedCPUUserTime ELSE max(Hold.UsedCPUUserTime, 0) END AS UsedCPUUserTime,
       CASE WHEN Hold.UsedCPUKernelTime IS NULL THEN AAR.UsedCPUKernelTime ELSE max(Hold.UsedCPUKernelTime, 0) END AS UsedCPUKernelTime,
       UsedScratch, StageInVolume, StageOutVolume, Hold.Benchmark AS HoldBenchmark,
       EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
                AND Field = 'wall_s' AND Source = 'unknown') OR Hold.UsedWalltime IS -1 AS NoWall,
       EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
                AND Field = 'cpu_user_s' AND Source = 'unknown') OR Hold.UsedCPUUserTime IS -1 AS NoCpu
  FROM AAR
  LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = AAR.RecordID
 WHERE ifnull(Hold.IsHeld, 0) = 0;

DROP VIEW RecordUsage;
-- What a record contributes now. What is larger than 2^53 is no measurement: it would make the sum of its month overflow.
-- A job that is held contributes nothing; one that vanished unfinished counts only when the batch system measured something.
CREATE VIEW RecordUsage AS
SELECT AAR.RecordID,
       CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER) AS Month,
       UserID, VOID,
       coalesce((SELECT AttrValue FROM AuthTokenAttributes AS Token
                  -- The plus keeps SQLite off the index of AttrKey, which has half of all rows under one key.
                  WHERE Token.RecordID = AAR.RecordID AND +AttrKey IN ('mainfqan', 'vomsfqan')
                  ORDER BY +AttrKey, Token.rowid LIMIT 1), '') AS FQAN,
       EndpointID, NodeCount, CPUCount,
       coalesce(HoldBenchmark,
                (SELECT InfoValue FROM JobExtraInfo AS Extra
                  WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'
                  ORDER BY Extra.rowid LIMIT 1), '') AS Benchmark,
       coalesce((SELECT Names FROM AuthGroups WHERE AuthGroups.RecordID = AAR.RecordID), '') AS AuthGroups,
       EndTime,
       CASE WHEN UsedWalltime BETWEEN 0 AND 9007199254740992 THEN UsedWalltime ELSE 0 END AS Wall,
       CASE WHEN UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUUserTime ELSE 0 END
       + CASE WHEN UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUKernelTime ELSE 0 END AS Cpu,
       NoWall, NoCpu
  FROM AccountedAAR AS AAR
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
SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, NoWall,
       NoCpu, Earliest, Latest
  FROM Cells WHERE Jobs > 0 AND CellID NOT IN Changed
UNION ALL
SELECT * FROM (
  SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
         sum(Jobs) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu,
         min(Earliest) AS Earliest, max(Latest) AS Latest
    FROM (
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, NoWall,
             NoCpu, Earliest, Latest
        FROM Cells WHERE Jobs > 0 AND CellID IN Changed AND CellID NOT IN Touched
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
             Cells.Jobs - Gone.Jobs, Cells.Wall - Gone.Wall, Cells.Cpu - Gone.Cpu, Cells.NoWall - Gone.NoWall,
             Cells.NoCpu - Gone.NoCpu,
             (SELECT min(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail),
             (SELECT max(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail)
        FROM (SELECT CellID, count(*) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, sum(NoWall) AS NoWall,
                     sum(NoCpu) AS NoCpu
                FROM Tail CROSS JOIN Contributions USING (RecordID) GROUP BY CellID) AS Gone
        CROSS JOIN Cells USING (CellID)
       WHERE Cells.Jobs > Gone.Jobs
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, 1, Wall, Cpu, NoWall, NoCpu,
             EndTime, EndTime
        FROM Tail CROSS JOIN RecordUsage USING (RecordID)
    )
   GROUP BY Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups
);

-- The finished jobs of each month (of their end, in UTC) that agree in all that a summary is made by. A job that vanished
-- unfinished (aborted) counts only if the batch system measured something. A duration that is no measurement counts 0.
CREATE VIEW v1_usage_by_month AS
SELECT
  CAST(substr(Month, 1, 4) || '-' || substr(Month, 5) AS TEXT) AS month, -- month of end_time in UTC, e.g. 2026-11; AAR
  CAST(nullif(replace(replace(replace(replace(replace(replace(Users.Name, '%27', ''''), '%23', '#'), '%0D', "char"(13)),
                                 '%0A', "char"(10)), '%08', "char"(8)), '%25', '%'), '') AS TEXT) AS user_dn, -- as in v1_jobs
  CAST(nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS vo, -- as in v1_jobs
  CAST(nullif(replace(replace(replace(FQAN, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS fqan, -- as in v1_jobs
  CAST(CASE WHEN substr(FQAN, 1, 1) = '/' THEN
    substr(FQAN, 1, min(instr(FQAN || '/Role=', '/Role='), instr(FQAN || '/Capability=', '/Capability=')) - 1)
  END AS TEXT) AS vo_group, -- as in v1_jobs
  CAST(CASE WHEN instr(FQAN, '/Role=') THEN
    nullif(nullif(
      substr(FQAN, instr(FQAN, '/Role=') + 6, instr(substr(FQAN, instr(FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL')
  END AS TEXT) AS vo_role, -- as in v1_jobs
  CAST(nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS endpoint_url, -- as in v1_jobs
  CAST(CASE Endpoints.URL WHEN '' THEN 'local' ELSE 'grid' END AS TEXT) AS infrastructure, -- grid, or local for jobs without an endpoint; Endpoints
  NodeCount AS node_count, -- as in v1_jobs
  CPUCount AS core_count, -- as in v1_jobs
  CAST(CASE WHEN instr(Benchmark, ':') THEN substr(Benchmark, 1, instr(Benchmark, ':') - 1) END AS TEXT) AS benchmark_type, -- as in v1_jobs
  CAST(CASE WHEN instr(Benchmark, ':') THEN
    substr(Benchmark, instr(Benchmark, ':') + 1) END AS REAL) AS benchmark_value, -- as in v1_jobs
  CAST(Jobs AS INTEGER) AS jobs, -- number of jobs
  CAST(Wall AS INTEGER) AS wall_s, -- s of clock time of all jobs; multiplied by core_count it is the core time
  CAST(Cpu AS INTEGER) AS cpu_s, -- s of CPU time of all jobs
  CAST(Earliest AS INTEGER) AS earliest_end_time, -- s since 1970: end_time of the first job
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Earliest, 'unixepoch') AS TEXT) AS earliest_end_time_iso, -- earliest_end_time as text
  CAST(Latest AS INTEGER) AS latest_end_time, -- s since 1970: end_time of the last job
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Latest, 'unixepoch') AS TEXT) AS latest_end_time_iso, -- latest_end_time as text
  CAST(nullif(AuthGroups, '') AS TEXT) AS auth_groups, -- authgroups of arc.conf that A-REX found the user in, with blanks between, where no credential told the VO; AuthGroups
  CAST(NoWall AS INTEGER) AS jobs_without_wall, -- jobs whose clock time nobody measured; it counts 0 in wall_s
  CAST(NoCpu AS INTEGER) AS jobs_without_cpu -- jobs whose CPU time nobody measured; it counts 0 in cpu_s
FROM UsageCells
JOIN Users ON Users.ID = UserID
JOIN WLCGVOs ON WLCGVOs.ID = VOID
JOIN Endpoints ON Endpoints.ID = EndpointID;

DROP VIEW v1_jobs;
-- One row for each job, from its acceptance on. The values of a job that is not finished yet are those of the start.
CREATE VIEW v1_jobs AS
SELECT
  AAR.JobID AS job_id, -- id that A-REX gave the job; AAR, as stored
  CAST(nullif(AAR.LocalJobID, '') AS TEXT) AS local_job_id, -- id that the batch system gave the job; AAR, as stored
  CAST((SELECT replace(replace(replace(replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%0D', "char"(13)),
                                  '%0A', "char"(10)), '%08', "char"(8)), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'jobname'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS job_name, -- name that the user gave the job; JobExtraInfo jobname
  CAST(nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS endpoint_url, -- URL at which the job was submitted; NULL: a local job; Endpoints
  CAST(nullif(Endpoints.Interface, '') AS TEXT) AS endpoint_type, -- submission interface, e.g. org.nordugrid.arcrest; Endpoints
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'lrms'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS lrms, -- batch system, as [lrms] calls it; JobExtraInfo lrms
  CAST(nullif(replace(replace(replace(Queues.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS queue, -- queue or partition of the batch system; Queues
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID
      AND InfoKey IN ('nodenames', 'nodename')
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS node_names, -- worker nodes joined by ":", one name for each slot; JobExtraInfo nodenames
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'clienthost'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS client_host, -- address:port that the job was submitted from; JobExtraInfo clienthost
  CAST(nullif(replace(replace(replace(replace(replace(replace(Users.Name, '%27', ''''), '%23', '#'), '%0D', "char"(13)),
                                 '%0A', "char"(10)), '%08', "char"(8)), '%25', '%'),
         '') AS TEXT) AS user_dn, -- distinguished name of the user, in OpenSSL's one-line form; Users
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'localuser'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS local_user, -- account that the job ran under, user or user:group; JobExtraInfo localuser
  CAST(nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS vo, -- virtual organisation; WLCGVOs
  CAST(AAR.FQAN AS TEXT) AS fqan, -- main VOMS attribute; AuthTokenAttributes mainfqan
  CAST(CASE WHEN substr(AAR.FQAN, 1, 1) = '/' THEN
    substr(AAR.FQAN, 1, min(instr(AAR.FQAN || '/Role=', '/Role='), instr(AAR.FQAN || '/Capability=', '/Capability=')) - 1)
  END AS TEXT) AS vo_group, -- group part of fqan, with its leading slash; AuthTokenAttributes
  CAST(CASE WHEN instr(AAR.FQAN, '/Role=') THEN
    nullif(nullif(
      substr(AAR.FQAN, instr(AAR.FQAN, '/Role=') + 6,
             instr(substr(AAR.FQAN, instr(AAR.FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL')
  END AS TEXT) AS vo_role, -- role part of fqan; NULL without one; AuthTokenAttributes
  CAST((SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'projectname'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS project, -- project or account that the job belongs to; JobExtraInfo projectname
  CAST(nullif(Status.Name, '') AS TEXT) AS status, -- in-progress, completed, failed or aborted; Status
  CAST(CASE WHEN AAR.EndTime > 0 THEN AAR.ExitCode END AS INTEGER) AS exit_code, -- exit code of the job; 1 when A-REX did not learn it; AAR
  CAST(nullif(AAR.SubmitTime, 0) AS INTEGER) AS submit_time, -- s since 1970: A-REX accepted the job; AAR
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.SubmitTime, 0), 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  CAST((SELECT strftime('%s', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS INTEGER) AS lrms_submit_time, -- s since 1970: handed to the batch system; JobEvents SUBMIT
  CAST((SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS TEXT) AS lrms_submit_time_iso, -- lrms_submit_time as text
  CAST((SELECT strftime('%s', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS INTEGER) AS lrms_start_time, -- s since 1970: began to run, by the worker's clock; JobEvents LRMSSTART
  CAST((SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS TEXT) AS lrms_start_time_iso, -- lrms_start_time as text
  CAST((SELECT strftime('%s', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS INTEGER) AS lrms_end_time, -- s since 1970: ended to run, by the worker's clock; JobEvents LRMSEND
  CAST((SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS TEXT) AS lrms_end_time_iso, -- lrms_end_time as text
  CAST(nullif(AAR.EndTime, 0) AS INTEGER) AS end_time, -- s since 1970: the job reached its final status in A-REX; AAR
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.EndTime, 0), 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  CAST(CASE WHEN EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
    AND Field = 'node_count' AND Source = 'unknown') THEN NULL ELSE nullif(coalesce(Hold.NodeCount, AAR.NodeCount), -1) END AS INTEGER) AS node_count, -- worker nodes; NULL: not known; AAR
  CAST(CASE WHEN EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
    AND Field = 'core_count' AND Source = 'unknown') THEN NULL ELSE nullif(coalesce(Hold.CPUCount, AAR.CPUCount), -1) END AS INTEGER) AS core_count, -- cores, on all nodes together; NULL: not known; AAR CPUCount
  CAST(CASE WHEN EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
    AND Field = 'wall_s' AND Source = 'unknown') THEN NULL ELSE nullif(coalesce(Hold.UsedWalltime, AAR.UsedWalltime), -1) END AS INTEGER) AS wall_s, -- s of clock time that the job ran, whatever its cores; NULL: not measured; AAR UsedWalltime
  CAST(CASE WHEN EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
    AND Field = 'cpu_user_s' AND Source = 'unknown') THEN NULL
    ELSE nullif(coalesce(Hold.UsedCPUUserTime, AAR.UsedCPUUserTime), -1)
         + nullif(coalesce(Hold.UsedCPUKernelTime, AAR.UsedCPUKernelTime), -1) END AS INTEGER) AS cpu_s, -- s of CPU time, user and kernel, of all cores; NULL: not measured; AAR
  CAST(CASE WHEN EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
    AND Field = 'cpu_user_s' AND Source = 'unknown') THEN NULL ELSE nullif(coalesce(Hold.UsedCPUUserTime, AAR.UsedCPUUserTime), -1) END AS INTEGER) AS cpu_user_s, -- s of CPU time in user mode; NULL: not measured; AAR
  CAST(CASE WHEN EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
    AND Field = 'cpu_kernel_s' AND Source = 'unknown') THEN NULL ELSE nullif(coalesce(Hold.UsedCPUKernelTime, AAR.UsedCPUKernelTime), -1) END AS INTEGER) AS cpu_kernel_s, -- s of CPU time in the kernel; NULL: not measured; AAR
  CAST(nullif(AAR.UsedMemory, 0) AS INTEGER) AS memory_kib, -- KiB of resident memory at most; AAR UsedMemory
  CAST(nullif(AAR.UsedVirtMem, 0) AS INTEGER) AS virtual_memory_kib, -- KiB of virtual memory at most; AAR UsedVirtMem
  AAR.UsedScratch AS scratch_bytes, -- bytes in the scratch directory at the end; A-REX 6 writes 0; AAR
  AAR.StageInVolume AS stage_in_bytes, -- bytes of input fetched, without what was in the cache; AAR StageInVolume
  CAST((SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType IN (10, 11)) AS INTEGER) AS stage_in_s, -- s of all input transfers added up, queueing included; DataTransfers
  AAR.StageOutVolume AS stage_out_bytes, -- bytes of output stored; AAR StageOutVolume
  CAST((SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType = 20) AS INTEGER) AS stage_out_s, -- s of all output transfers added up, queueing included; DataTransfers
  CAST((SELECT group_concat(RTEName, ';') FROM (
     SELECT DISTINCT RTEName FROM RunTimeEnvironments WHERE RunTimeEnvironments.RecordID = AAR.RecordID
      ORDER BY RTEName)) AS TEXT) AS run_time_environments, -- ARC runtime environments joined by ";"; RunTimeEnvironments
  CAST((SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'systemsoftware'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS system_software, -- operating system of the worker; JobExtraInfo systemsoftware
  CAST((SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'wninstance'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS wn_instance, -- kind of worker, e.g. an instance type of a cloud; JobExtraInfo wninstance
  CAST(CASE WHEN instr(AAR.Benchmark, ':') THEN
    substr(AAR.Benchmark, 1, instr(AAR.Benchmark, ':') - 1)
  END AS TEXT) AS benchmark_type, -- benchmark of the worker: HEPscore23, HEPSPEC (HS06) or Si2k; JobExtraInfo benchmark
  CAST(CASE WHEN instr(AAR.Benchmark, ':') THEN
    substr(AAR.Benchmark, instr(AAR.Benchmark, ':') + 1)
  END AS REAL) AS benchmark_value, -- value of that benchmark for one core; JobExtraInfo benchmark
  CAST(CASE WHEN instr(AAR.Benchmark, ':') THEN
    CASE WHEN AAR.Benchmark IN ('HEPSPEC:1.0', 'HEPSPEC:1') THEN 'default' ELSE
    coalesce((SELECT Source FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID AND Field = 'benchmark'),
             (SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID), 'diag') END
  END AS TEXT) AS benchmark_source, -- where the benchmark is from: default (HEPSPEC 1.0, which is sent for want of one), diag (the job's .diag, or arc.conf), or FieldSources
  CAST(coalesce((SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID),
           'arc') AS TEXT) AS source, -- where the record is from: arc (control directory), or RecordSources
  CAST(Hold.Reasons AS TEXT) AS hold_reasons, -- why values of the job cannot be true, words with blanks between; NULL: nothing is wrong with them; RecordHolds
  CAST(Hold.State AS TEXT) AS hold_state -- held (in no figure until an operator decides), unknown, bound, reported or excluded (as decided), published (before holds existed); NULL: nothing is wrong; RecordHolds
FROM (
  SELECT *,
         (SELECT replace(replace(replace(AttrValue, '%27', ''''), '%23', '#'), '%25', '%') FROM AuthTokenAttributes
           WHERE AuthTokenAttributes.RecordID = AAR.RecordID AND +AttrKey IN ('mainfqan', 'vomsfqan')
           ORDER BY +AttrKey, AuthTokenAttributes.rowid LIMIT 1) AS FQAN,
         coalesce((SELECT Benchmark FROM RecordHolds WHERE RecordHolds.RecordID = AAR.RecordID),
                  (SELECT InfoValue FROM JobExtraInfo
                    WHERE JobExtraInfo.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'
                    ORDER BY JobExtraInfo.rowid LIMIT 1)) AS Benchmark
    FROM AAR
) AS AAR
LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = AAR.RecordID
LEFT JOIN Endpoints ON Endpoints.ID = AAR.EndpointID
LEFT JOIN Queues ON Queues.ID = AAR.QueueID
LEFT JOIN Users ON Users.ID = AAR.UserID
LEFT JOIN WLCGVOs ON WLCGVOs.ID = AAR.VOID
LEFT JOIN Status ON Status.ID = AAR.StatusID;

DROP VIEW v1_slurm_runs;
-- One row for each run of a job of Slurm that is over, as sacct tells it.
CREATE VIEW v1_slurm_runs AS
SELECT
  SlurmRuns.RunNo AS run_no, -- number of the row; SlurmRuns
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none yet; AAR
  Cluster AS cluster, -- cluster that it is from
  SlurmRuns.JobID AS slurm_job_id, -- Slurm's number of the job; a job that was requeued has several runs
  ShownID AS slurm_job, -- as sacct shows it: array_index, or job+offset of a heterogeneous job
  State AS state, -- Slurm's state, e.g. COMPLETED
  SlurmRuns.SubmitTime AS submit_time, -- s since 1970: submitted, or requeued
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970: began to run
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  SlurmRuns.EndTime AS end_time, -- s since 1970: ended
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.EndTime, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  Elapsed AS elapsed_s, -- s that it ran, without those that it was suspended
  ExitStatus AS exit_status, -- exit status of the job script; NULL: not known
  ExitSignal AS exit_signal, -- signal that ended it; 0: none; NULL: not known
  CAST(nullif(CPUs, 0) AS INTEGER) AS cpus, -- CPUs that it was given; NULL: not known
  Nodes AS nodes, -- nodes that it was given
  NodeList AS node_list, -- their names, in brackets
  QPartition AS partition, -- partition
  UserName AS user_name, -- account that the job ran under
  GroupName AS group_name, -- group that the job ran under
  Account AS account, -- Slurm's account (project)
  QOS AS qos, -- quality of service
  WCKey AS wckey, -- workload characterization key
  JobName AS job_name, -- name that the user gave the job
  AllocTRES AS allocated_tres, -- trackable resources that it was given, GPUs among them
  CAST(CPUUs / 1e6 AS REAL) AS cpu_s, -- s of CPU time of all steps; NULL: sacct was asked without steps, or nothing measured it
  CAST(CPUKernelUs / 1e6 AS REAL) AS cpu_kernel_s, -- s of it in the kernel
  MaxRSS AS max_memory_kib, -- KiB of resident memory, of the task that used most
  MaxVMSize AS max_virtual_memory_kib, -- KiB of virtual memory, of the task that used most
  CAST(Elapsed * nullif(CPUs, 0) AS INTEGER) AS core_s -- s that it ran, times CPUs: what sreport sums
FROM SlurmRuns LEFT JOIN AAR ON AAR.RecordID = SlurmRuns.RecordID;

-- The token that a job of HTCondor was submitted with; '': none, or not told. TokenSubject NULL: it was read before tokens
-- were, and its record does not say whose it is by its token.
ALTER TABLE HTCondorJobs ADD COLUMN TokenSubject TEXT;
ALTER TABLE HTCondorJobs ADD COLUMN TokenIssuer TEXT NOT NULL DEFAULT '';
ALTER TABLE HTCondorJobs ADD COLUMN TokenGroups TEXT NOT NULL DEFAULT '';
ALTER TABLE HTCondorJobs ADD COLUMN TokenScopes TEXT NOT NULL DEFAULT '';
ALTER TABLE HTCondorJobs ADD COLUMN TokenID TEXT DEFAULT ''; -- NULL: forgotten

DROP VIEW v1_htcondor_jobs;
-- One row for each job of HTCondor that had started and left the queue, as its history tells it.
CREATE VIEW v1_htcondor_jobs AS
SELECT
  JobNo AS job_no, -- number of the row; HTCondorJobs
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none yet; AAR
  Schedd AS schedd, -- schedd that it was submitted to
  CAST(Cluster || '.' || Proc AS TEXT) AS htcondor_job, -- HTCondor's number of the job: cluster.process
  CAST(CASE JobStatus WHEN 3 THEN 'removed' ELSE 'completed' END AS TEXT) AS state, -- completed or removed
  HTCondorJobs.SubmitTime AS submit_time, -- s since 1970: submitted
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970: its first run began
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  LastStart AS last_start_time, -- s since 1970: its last run began
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', LastStart, 'unixepoch') AS TEXT) AS last_start_time_iso, -- last_start_time as text
  HTCondorJobs.EndTime AS end_time, -- s since 1970: completed or removed
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.EndTime, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  Wall AS wall_s, -- s that it ran, all runs together, with suspensions
  Starts AS starts, -- how often it was started
  CPUs AS cpus, -- CPUs that it was given, of all nodes
  GPUs AS gpus, -- GPUs that it was given; NULL: not said
  CPUUser AS cpu_user_s, -- s of CPU time in user mode, all runs together; NULL: not known of all
  CPUKernel AS cpu_kernel_s, -- s of CPU time in the kernel, all runs together; NULL: not known of all
  MaxRSS AS max_memory_kib, -- KiB of resident memory at most
  MaxVMSize AS max_virtual_memory_kib, -- KiB of virtual memory at most
  MemoryMiB AS memory_mib, -- MiB of memory that it was given
  ExitStatus AS exit_status, -- exit status; NULL: not known
  ExitSignal AS exit_signal, -- signal that ended it; 0: none; NULL: not known
  Hosts AS hosts, -- slots of its last run, slot@node, joined by ","
  UserName AS user_name, -- account that the job ran under
  Account AS account, -- accounting group
  Project AS project, -- project (ProjectName)
  JobName AS job_name, -- name that the user gave the batch of jobs
  QueueName AS queue, -- queue of A-REX that it came through
  UserDN AS user_dn, -- distinguished name of the proxy that it was submitted with
  VO AS vo, -- virtual organisation of that proxy
  FQAN AS fqan, -- main VOMS attribute of that proxy
  Benchmark AS benchmark, -- benchmark of a core of its machine, by the machine's own attribute
  CAST(Wall * CPUs AS INTEGER) AS core_s, -- s that it ran, times CPUs
  CAST(nullif(TokenSubject, '') AS TEXT) AS token_subject, -- subject of the token that it was submitted with
  CAST(nullif(TokenIssuer, '') AS TEXT) AS token_issuer, -- issuer of that token
  CAST(nullif(TokenGroups, '') AS TEXT) AS token_groups, -- groups of that token, joined by ","
  CAST(nullif(TokenScopes, '') AS TEXT) AS token_scopes, -- scopes of that token, joined by ","
  CAST(nullif(TokenID, '') AS TEXT) AS token_id -- identifier of that token (jti)
FROM HTCondorJobs LEFT JOIN AAR ON AAR.RecordID = HTCondorJobs.RecordID;
