-- What recording notes beside A-REX's tables: where values come from, what was cut, what is held.

-- What the recorder and the sweep remember of each job's status file: recording is monotone in its time, and the
-- sweep reads a job's files again only when the status file is another one.
--   State: the last state recorded
--   EventNs: its time, nanoseconds since 1970
--   Size: identity of the status file that the sweep has read; NULL: only the hook saw it
CREATE TABLE StatusFiles (
  RecordID INTEGER PRIMARY KEY,
  State    TEXT NOT NULL,
  EventNs  INTEGER NOT NULL,
  Size     INTEGER,
  MTimeNs  INTEGER,
  CTimeNs  INTEGER
);

-- Where a record came from, when it was not A-REX's control directory.
--   Source: arex (its own database), gridengine, slurm
--   Origin: the file, cell or cluster
CREATE TABLE RecordSources (
  RecordID INTEGER PRIMARY KEY,
  Source   TEXT NOT NULL,
  Origin   TEXT NOT NULL
);

-- Where single values came from, when it was not where the record came from: an enrichment, a default.
--   Field: a column of v1_jobs, e.g. benchmark, memory_kib
--   Source: arc.conf, gridengine, sonar, features, ...
CREATE TABLE FieldSources (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,
  Source   TEXT NOT NULL,
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;

-- Values that nobody told are told apart from 0: in the views they are NULL, and the sums count the jobs without
-- them.
--
-- A-REX's tables hold 0 for such a value (one node, one core). Who told a value is in FieldSources; of a value that
-- nobody told it says 'unknown': wall_s, cpu_user_s, cpu_kernel_s, core_count, node_count. What is sent to receivers
-- is as before.
CREATE INDEX FieldSources_Unknown_IDX ON FieldSources (RecordID) WHERE Source = 'unknown';

-- A value that becomes known, or unknown, where A-REX's tables stay as they are: the sums have to count its job
-- again.
CREATE TRIGGER FieldSources_unknown_insert AFTER INSERT ON FieldSources
WHEN new.Source = 'unknown'
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID AND Seq <= (SELECT Seq FROM UsageCursor))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FieldSources_unknown_update AFTER UPDATE ON FieldSources
WHEN (old.Source = 'unknown') <> (new.Source = 'unknown')
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID AND Seq <= (SELECT Seq FROM UsageCursor))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FieldSources_unknown_delete AFTER DELETE ON FieldSources
WHEN old.Source = 'unknown'
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID AND Seq <= (SELECT Seq FROM UsageCursor))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

-- What the recorder left out of what a job's files say, since it was more than a job may have stored. No child of the
-- record: a note is not published, so it does not log the record anew.
--   Field: a column of v1_jobs, what a job has several of (transfers, ...), or a file (local, diag, ...)
--   Noted: s since 1970
CREATE TABLE TruncationNotes (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,
  Note     TEXT NOT NULL,
  Noted    INTEGER NOT NULL,
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;
CREATE INDEX TruncationNotes_Noted_IDX ON TruncationNotes (Noted);

-- The authgroups of arc.conf that A-REX found a job's user in, of jobs whose VO no credential tells: a target may
-- have a VO for them (vomsless_vo = AUTHGROUP NAME). No child of the record: they do not change once it has ended.
--   Names: with blanks between, in the order of .local
CREATE TABLE AuthGroups (
  RecordID INTEGER PRIMARY KEY,
  Names    TEXT NOT NULL
);

-- The kinds of further values, as a table: a UNION within a view DuckDB gives back to SQLite in brackets, which it
-- refuses.
--   Kind: token, rte or info
CREATE TABLE AttributeKinds (
  Kind TEXT PRIMARY KEY
) WITHOUT ROWID;

-- Monthly usage, kept up to date from FinishedLog: what it costs to ask follows what changed, not the history.
--
-- How many records there are: to count them would take longer with every job.
CREATE TABLE RecordCount (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Records INTEGER NOT NULL
);

-- Records with values that cannot be true, and other records that are in no figure until an operator decides about
-- them. What was reported stays in AAR.
--   Reasons: words with blanks between: wall-beyond-life, cpu-beyond-cores, ...
--   Doubts: a line for each: reason, value (a field of v1_jobs), bound, what was reported
--   State: held; unknown, bound, reported, excluded: decided; published: before this table
--   IsHeld: 1: it is in no figure and is sent to no receiver
--   Since: s since 1970
--   Decided: s since 1970
--   NodeCount: What counts instead of what AAR has, or JobExtraInfo; NULL: that counts; -1, and '' of a benchmark:
--     unknown.
CREATE TABLE RecordHolds (
  RecordID          INTEGER PRIMARY KEY,
  Reasons           TEXT NOT NULL,
  Doubts            TEXT NOT NULL,
  State             TEXT NOT NULL,
  IsHeld            INTEGER NOT NULL,
  Since             INTEGER NOT NULL,
  Decided           INTEGER,
  DecidedBy         TEXT,
  NodeCount         INTEGER,
  CPUCount          INTEGER,
  UsedWalltime      INTEGER,
  UsedCPUUserTime   INTEGER,
  UsedCPUKernelTime INTEGER,
  Benchmark         TEXT
);

-- A hold, and a decision, changes what its record counts as: the version before is noted, if it counted anything, and
-- the record is logged again. Who holds a record before its final status is written makes one entry in the log. A
-- record that a receiver may have had before there were holds (published) stays as it is there.
CREATE TRIGGER RecordHolds_insert BEFORE INSERT ON RecordHolds
WHEN new.State <> 'published' AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
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
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
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
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, AAR.RecordID, JobID, LocalJobID, Used.VOID, Used.EndpointID, Used.EndTime, Wall, Cpu
    FROM sqlite_sequence JOIN RecordUsage AS Used ON Used.RecordID = old.RecordID
    JOIN AAR ON AAR.RecordID = Used.RecordID
   WHERE name = 'FinishedLog';
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

-- Each decision, also those that were taken back.
--   Decided: s since 1970
--   State: held: an earlier decision was taken back
CREATE TABLE HoldDecisions (
  RecordID  INTEGER NOT NULL,
  Decided   INTEGER NOT NULL,
  DecidedBy TEXT NOT NULL,
  State     TEXT NOT NULL,
  Reasons   TEXT NOT NULL
);
CREATE INDEX HoldDecisions_RecordID_IDX ON HoldDecisions (RecordID);

-- The records as they count: without those that are held, and with what was decided. Columns as in AAR;
-- HoldBenchmark: what counts in the place of the benchmark in JobExtraInfo, if anything does; NoWall, NoCpu: 1 where
-- that time is unknown; CoreRest: core s less wall time x cores, of a job whose runs had different cores, else 0.
--   The plus keeps SQLite off the index of InfoKey.
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
                AND Field = 'cpu_user_s' AND Source = 'unknown') OR Hold.UsedCPUUserTime IS -1 AS NoCpu,
       CASE WHEN Hold.CPUCount IS NULL AND Hold.UsedWalltime IS NULL
            THEN coalesce((SELECT CAST(InfoValue AS INTEGER) - AAR.UsedWalltime * AAR.CPUCount FROM JobExtraInfo AS Extra
                            WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'coreseconds' LIMIT 1), 0)
            ELSE 0 END AS CoreRest
  FROM AAR
  LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = AAR.RecordID
 WHERE ifnull(Hold.IsHeld, 0) = 0;

-- What a record contributes now. What is larger than 2^53 is no measurement: it would make the sum of its month
-- overflow. A job that is held contributes nothing; one that vanished unfinished counts only when the batch system
-- measured something.
--   The plus keeps SQLite off the index of AttrKey, which has half of all rows under one key.
--   A condition on AAR alone would let SQLite read all of it, to make a Bloom filter for a few records.
CREATE VIEW RecordUsage AS
SELECT AAR.RecordID,
       CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER) AS Month,
       UserID, VOID,
       coalesce((SELECT AttrValue FROM AuthTokenAttributes AS Token
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
       NoWall, NoCpu, CoreRest
  FROM AccountedAAR AS AAR
  JOIN Status ON Status.ID = +StatusID
 WHERE CASE WHEN Status.Name IN ('completed', 'failed') THEN EndTime > 0
            WHEN Status.Name = 'aborted'
            THEN EndTime > 0 AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) <> (0, 0, 0) END;

CREATE TRIGGER RecordCount_insert AFTER INSERT ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records + 1;
END;

CREATE TRIGGER RecordCount_delete AFTER DELETE ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records - 1;
END;

CREATE TRIGGER TruncationNotes_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM TruncationNotes WHERE RecordID = old.RecordID;
END;

CREATE TRIGGER AuthGroups_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM AuthGroups WHERE RecordID = old.RecordID;
END;

CREATE TRIGGER RecordHolds_AAR_delete AFTER DELETE ON AAR
WHEN NOT EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM RecordHolds WHERE RecordID = old.RecordID;
  DELETE FROM HoldDecisions WHERE RecordID = old.RecordID;
END;

INSERT INTO RecordCount VALUES (1, 0);
INSERT INTO AttributeKinds VALUES ('info'), ('rte'), ('token');
