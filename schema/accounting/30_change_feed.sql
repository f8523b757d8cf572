-- The order in which records became final and changed: what publishing and export read.

-- The order in which records became final, and changed after: what a publisher has not seen is what has a higher Seq.
--
-- One row per record; every change moves it to the end. SQLite has one writer, so Seq order is commit order: a reader
-- that remembers the last Seq it handled can miss neither a late record nor a correction (an end time can do both).
--   Seq: never used twice, also after pruning and VACUUM
--   RecordID: no foreign key: a deleted record stays as a tombstone until handled
CREATE TABLE FinishedLog (
  Seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  RecordID INTEGER NOT NULL UNIQUE
);

-- What a finished record was before it changed or was deleted: the proof by which published figures may fall, and the
-- keys under which a receiver may still have it.
--   Seq: of FinishedLog, where the change was logged: what was read up to before it was this
--   Wall: as in JobUsageShares
CREATE TABLE PreviousVersions (
  Seq        INTEGER NOT NULL,
  RecordID   INTEGER NOT NULL,
  JobID      TEXT NOT NULL,
  LocalJobID TEXT,
  VOID       INTEGER NOT NULL,
  EndpointID INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  Wall       INTEGER NOT NULL,
  Cpu        INTEGER NOT NULL
);
CREATE INDEX PreviousVersions_Seq_IDX ON PreviousVersions (Seq);
CREATE INDEX PreviousVersions_RecordID_IDX ON PreviousVersions (RecordID);

-- One row that a publisher changes with synchronous=FULL before it reads: all that was committed earlier is on disk
-- then, so no power cut can take back a record that was published, nor give its Seq to another.
--   Horizon: the highest Seq at the last fence
--   Passed: how many fences there were: the row changes each time
CREATE TABLE Fence (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Horizon INTEGER NOT NULL,
  Passed  INTEGER NOT NULL
);

-- DELETE + INSERT: the conflict clause of the *outer* statement would override an INSERT OR REPLACE in a trigger.
-- Statuses by name: A-REX numbers them by first use. IS NOT: UPDATE triggers fire on updates that change nothing.
CREATE TRIGGER FinishedLog_AAR_insert AFTER INSERT ON AAR
WHEN (SELECT Name FROM Status WHERE ID = new.StatusID) IN ('completed', 'failed', 'aborted')
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

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
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
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
     AND (old.StatusID, old.EndTime, old.LocalJobID, old.UserID, old.VOID, old.EndpointID, old.NodeCount, old.CPUCount,
          old.UsedWalltime, old.UsedCPUUserTime, old.UsedCPUKernelTime, old.JobID)
      IS NOT
         (new.StatusID, new.EndTime, new.LocalJobID, new.UserID, new.VOID, new.EndpointID, new.NodeCount, new.CPUCount,
          new.UsedWalltime, new.UsedCPUUserTime, new.UsedCPUKernelTime, new.JobID);
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FinishedLog_AAR_delete AFTER DELETE ON AAR
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
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

-- A child that changes changes its record. A record is "in the log" as soon as it was final once: the cheap test.
CREATE TRIGGER FinishedLog_AuthTokenAttributes_insert AFTER INSERT ON AuthTokenAttributes
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FinishedLog_AuthTokenAttributes_delete AFTER DELETE ON AuthTokenAttributes
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

CREATE TRIGGER FinishedLog_AuthTokenAttributes_update AFTER UPDATE ON AuthTokenAttributes
WHEN (old.rowid, old.RecordID, old.AttrKey, old.AttrValue)
 IS NOT (new.rowid, new.RecordID, new.AttrKey, new.AttrValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;

CREATE TRIGGER FinishedLog_RunTimeEnvironments_insert AFTER INSERT ON RunTimeEnvironments
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FinishedLog_RunTimeEnvironments_delete AFTER DELETE ON RunTimeEnvironments
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

CREATE TRIGGER FinishedLog_RunTimeEnvironments_update AFTER UPDATE ON RunTimeEnvironments
WHEN (old.rowid, old.RecordID, old.RTEName)
 IS NOT (new.rowid, new.RecordID, new.RTEName)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;

CREATE TRIGGER FinishedLog_DataTransfers_insert AFTER INSERT ON DataTransfers
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FinishedLog_DataTransfers_delete AFTER DELETE ON DataTransfers
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

CREATE TRIGGER FinishedLog_DataTransfers_update AFTER UPDATE ON DataTransfers
WHEN (old.rowid, old.RecordID, old.URL, old.FileSize, old.TransferStart, old.TransferEnd, old.TransferType)
 IS NOT (new.rowid, new.RecordID, new.URL, new.FileSize, new.TransferStart, new.TransferEnd, new.TransferType)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;

CREATE TRIGGER FinishedLog_JobExtraInfo_insert AFTER INSERT ON JobExtraInfo
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FinishedLog_JobExtraInfo_delete AFTER DELETE ON JobExtraInfo
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

CREATE TRIGGER FinishedLog_JobExtraInfo_update AFTER UPDATE ON JobExtraInfo
WHEN (old.rowid, old.RecordID, old.InfoKey, old.InfoValue)
 IS NOT (new.rowid, new.RecordID, new.InfoKey, new.InfoValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;

INSERT INTO Fence VALUES (1, 0, 0);
