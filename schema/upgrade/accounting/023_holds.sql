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

-- Records from before: which are judged already, up to which they are from before, and up to which place in the log a
-- receiver may have them, so that they stay as they are there.
INSERT INTO DBConfig
SELECT 'ARCACCT_UNJUDGED', '0 ' || coalesce(max(RecordID), 0) || ' ' || (SELECT Horizon FROM Fence) FROM AAR;
