-- Records with values that cannot be true, and other records that are in no figure until an operator decides about them.
-- What was reported stays in AAR.

CREATE TABLE RecordHolds (
  RecordID          INTEGER PRIMARY KEY,
  Reasons           TEXT NOT NULL,     -- words with blanks between: wall-beyond-life, cpu-beyond-cores, ...
  Doubts            TEXT NOT NULL,     -- a line for each: reason, value (a field of v1_jobs), bound, what was reported
  State             TEXT NOT NULL,     -- held; unknown, bound, reported, excluded: decided; published: before this table
  IsHeld            INTEGER NOT NULL,  -- 1: it is in no figure and is sent to no receiver
  Since             INTEGER NOT NULL,  -- s since 1970
  Decided           INTEGER,           -- s since 1970
  DecidedBy         TEXT,
  -- What counts instead of what AAR has, or JobExtraInfo; NULL: that counts; -1, and '' of a benchmark: unknown.
  NodeCount         INTEGER,
  CPUCount          INTEGER,
  UsedWalltime      INTEGER,
  UsedCPUUserTime   INTEGER,
  UsedCPUKernelTime INTEGER,
  Benchmark         TEXT
);

-- Each decision, also those that were taken back.
CREATE TABLE HoldDecisions (
  RecordID  INTEGER NOT NULL,
  Decided   INTEGER NOT NULL,  -- s since 1970
  DecidedBy TEXT NOT NULL,
  State     TEXT NOT NULL,     -- held: an earlier decision was taken back
  Reasons   TEXT NOT NULL
);
CREATE INDEX HoldDecisions_RecordID_IDX ON HoldDecisions (RecordID);

-- The records as they count: without those that are held, and with what was decided. Columns as in AAR, and
-- HoldBenchmark: what counts in the place of the benchmark in JobExtraInfo, if anything does.
CREATE VIEW AccountedAAR AS
SELECT AAR.RecordID, JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime, EndTime,
       CASE WHEN Hold.NodeCount IS NULL THEN AAR.NodeCount ELSE max(Hold.NodeCount, 0) END AS NodeCount,
       CASE WHEN Hold.CPUCount IS NULL THEN AAR.CPUCount ELSE max(Hold.CPUCount, 0) END AS CPUCount,
       UsedMemory, UsedVirtMem,
       CASE WHEN Hold.UsedWalltime IS NULL THEN AAR.UsedWalltime ELSE max(Hold.UsedWalltime, 0) END AS UsedWalltime,
       CASE WHEN Hold.UsedCPUUserTime IS NULL THEN AAR.UsedCPUUserTime ELSE max(Hold.UsedCPUUserTime, 0) END AS UsedCPUUserTime,
       CASE WHEN Hold.UsedCPUKernelTime IS NULL THEN AAR.UsedCPUKernelTime ELSE max(Hold.UsedCPUKernelTime, 0) END AS UsedCPUKernelTime,
       UsedScratch, StageInVolume, StageOutVolume, Hold.Benchmark AS HoldBenchmark
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
       + CASE WHEN UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUKernelTime ELSE 0 END AS Cpu
  FROM AccountedAAR AS AAR
  JOIN Status ON Status.ID = +StatusID
 -- A condition on AAR alone would let SQLite read all of it, to make a Bloom filter for a few records.
 WHERE CASE WHEN Status.Name IN ('completed', 'failed') THEN EndTime > 0
            WHEN Status.Name = 'aborted'
            THEN EndTime > 0 AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) <> (0, 0, 0) END;

-- A hold, and a decision, changes what its record counts as: the version before is noted, if it counted anything, and
-- the record is logged again. Who holds a record before its final status is written makes one entry in the log. A record
-- that a receiver may have had before there were holds (published) stays as it is there.
CREATE TRIGGER RecordHolds_insert BEFORE INSERT ON RecordHolds
WHEN new.State <> 'published' AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, AAR.RecordID, JobID, LocalJobID, Used.VOID, Used.EndpointID, Used.EndTime, Wall, Cpu
    FROM sqlite_sequence JOIN RecordUsage AS Used ON Used.RecordID = new.RecordID
    JOIN AAR ON AAR.RecordID = Used.RecordID
   WHERE name = 'FinishedLog';
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER RecordHolds_update BEFORE UPDATE ON RecordHolds
WHEN (old.IsHeld, old.NodeCount, old.CPUCount, old.UsedWalltime, old.UsedCPUUserTime, old.UsedCPUKernelTime, old.Benchmark)
 IS NOT
     (new.IsHeld, new.NodeCount, new.CPUCount, new.UsedWalltime, new.UsedCPUUserTime, new.UsedCPUKernelTime, new.Benchmark)
 AND (old.IsHeld, new.IsHeld) <> (1, 1)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, AAR.RecordID, JobID, LocalJobID, Used.VOID, Used.EndpointID, Used.EndTime, Wall, Cpu
    FROM sqlite_sequence JOIN RecordUsage AS Used ON Used.RecordID = old.RecordID
    JOIN AAR ON AAR.RecordID = Used.RecordID
   WHERE name = 'FinishedLog';
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

CREATE TRIGGER RecordHolds_delete BEFORE DELETE ON RecordHolds
WHEN old.State <> 'published' AND EXISTS (SELECT 1 FROM AAR WHERE RecordID = old.RecordID)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, AAR.RecordID, JobID, LocalJobID, Used.VOID, Used.EndpointID, Used.EndTime, Wall, Cpu
    FROM sqlite_sequence JOIN RecordUsage AS Used ON Used.RecordID = old.RecordID
    JOIN AAR ON AAR.RecordID = Used.RecordID
   WHERE name = 'FinishedLog';
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

-- What a record was before a change is what it counted as: nothing, if it was held.
DROP TRIGGER FinishedLog_AAR_update;
CREATE TRIGGER FinishedLog_AAR_update AFTER UPDATE ON AAR
WHEN (old.StatusID, old.EndTime, old.ExitCode, old.LocalJobID, old.SubmitTime, old.EndpointID, old.QueueID,
      old.UserID, old.VOID, old.NodeCount, old.CPUCount, old.UsedMemory, old.UsedVirtMem, old.UsedWalltime,
      old.UsedCPUUserTime, old.UsedCPUKernelTime, old.UsedScratch, old.StageInVolume, old.StageOutVolume, old.JobID)
 IS NOT
     (new.StatusID, new.EndTime, new.ExitCode, new.LocalJobID, new.SubmitTime, new.EndpointID, new.QueueID,
      new.UserID, new.VOID, new.NodeCount, new.CPUCount, new.UsedMemory, new.UsedVirtMem, new.UsedWalltime,
      new.UsedCPUUserTime, new.UsedCPUKernelTime, new.UsedScratch, new.StageInVolume, new.StageOutVolume, new.JobID)
 AND EXISTS (SELECT 1 FROM Status WHERE ID IN (old.StatusID, new.StatusID) AND Name IN ('completed', 'failed', 'aborted'))
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, old.RecordID, old.JobID, old.LocalJobID, old.VOID, old.EndpointID, old.EndTime,
         CASE WHEN coalesce(Hold.UsedWalltime, old.UsedWalltime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedWalltime, old.UsedWalltime) ELSE 0 END,
         CASE WHEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) ELSE 0 END
         + CASE WHEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) BETWEEN 0 AND 9007199254740992
                THEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) ELSE 0 END
    FROM sqlite_sequence LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = old.RecordID
   WHERE name = 'FinishedLog' AND old.EndTime > 0 AND ifnull(Hold.IsHeld, 0) = 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'))
     AND (old.StatusID, old.EndTime, old.LocalJobID, old.VOID, old.EndpointID, old.UsedWalltime, old.UsedCPUUserTime,
          old.UsedCPUKernelTime, old.JobID)
      IS NOT
         (new.StatusID, new.EndTime, new.LocalJobID, new.VOID, new.EndpointID, new.UsedWalltime, new.UsedCPUUserTime,
          new.UsedCPUKernelTime, new.JobID);
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

DROP TRIGGER FinishedLog_AAR_delete;
CREATE TRIGGER FinishedLog_AAR_delete AFTER DELETE ON AAR
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, old.RecordID, old.JobID, old.LocalJobID, old.VOID, old.EndpointID, old.EndTime,
         CASE WHEN coalesce(Hold.UsedWalltime, old.UsedWalltime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedWalltime, old.UsedWalltime) ELSE 0 END,
         CASE WHEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) ELSE 0 END
         + CASE WHEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) BETWEEN 0 AND 9007199254740992
                THEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) ELSE 0 END
    FROM sqlite_sequence LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = old.RecordID
   WHERE name = 'FinishedLog' AND old.EndTime > 0 AND ifnull(Hold.IsHeld, 0) = 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'));
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
  DELETE FROM RecordHolds WHERE RecordID = old.RecordID;
  DELETE FROM HoldDecisions WHERE RecordID = old.RecordID;
END;

CREATE TRIGGER RecordHolds_AAR_delete AFTER DELETE ON AAR
WHEN NOT EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM RecordHolds WHERE RecordID = old.RecordID;
  DELETE FROM HoldDecisions WHERE RecordID = old.RecordID;
END;

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
  CAST(nullif(coalesce(Hold.NodeCount, AAR.NodeCount), -1) AS INTEGER) AS node_count, -- worker nodes; AAR
  CAST(nullif(coalesce(Hold.CPUCount, AAR.CPUCount), -1) AS INTEGER) AS core_count, -- cores, on all nodes together; AAR CPUCount
  CAST(nullif(coalesce(Hold.UsedWalltime, AAR.UsedWalltime), -1) AS INTEGER) AS wall_s, -- s of clock time that the job ran, whatever its cores; AAR UsedWalltime
  CAST(nullif(coalesce(Hold.UsedCPUUserTime, AAR.UsedCPUUserTime), -1)
       + nullif(coalesce(Hold.UsedCPUKernelTime, AAR.UsedCPUKernelTime), -1) AS INTEGER) AS cpu_s, -- s of CPU time, user and kernel, of all cores; AAR
  CAST(nullif(coalesce(Hold.UsedCPUUserTime, AAR.UsedCPUUserTime), -1) AS INTEGER) AS cpu_user_s, -- s of CPU time in user mode; AAR
  CAST(nullif(coalesce(Hold.UsedCPUKernelTime, AAR.UsedCPUKernelTime), -1) AS INTEGER) AS cpu_kernel_s, -- s of CPU time in the kernel; AAR
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
    coalesce((SELECT Source FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID AND Field = 'benchmark'),
             (SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID), 'diag')
  END AS TEXT) AS benchmark_source, -- where the benchmark is from: diag (the job's .diag or the site's default), or FieldSources
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

-- Records from before: which are judged already, up to which they are from before, and up to which place in the log a
-- receiver may have them, so that they stay as they are there.
INSERT INTO DBConfig
SELECT 'ARCACCT_UNJUDGED', '0 ' || coalesce(max(RecordID), 0) || ' ' || (SELECT Horizon FROM Fence) FROM AAR;
