-- The order in which records became final, and changed after: what a publisher has not seen is what has a higher Seq.
--
-- One row per record; every change moves it to the end. SQLite has one writer, so Seq order is commit order: a reader
-- that remembers the last Seq it handled can miss neither a late record nor a correction (an end time can do both).
CREATE TABLE FinishedLog (
  Seq      INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice, also after pruning and VACUUM
  RecordID INTEGER NOT NULL UNIQUE             -- no foreign key: a deleted record stays as a tombstone until handled
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
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER FinishedLog_AAR_delete AFTER DELETE ON AAR
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;

CREATE TRIGGER AAR_RecordID_fixed BEFORE UPDATE OF RecordID ON AAR
WHEN new.RecordID <> old.RecordID
BEGIN
  SELECT RAISE(ABORT, 'RecordID is the identity of a record: it cannot change');
END;

-- A child that changes changes its record. A record is "in the log" as soon as it was final once: the cheap test.
CREATE TRIGGER FinishedLog_AuthTokenAttributes_insert AFTER INSERT ON AuthTokenAttributes
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_AuthTokenAttributes_update AFTER UPDATE ON AuthTokenAttributes
WHEN (old.RecordID, old.AttrKey, old.AttrValue)
 IS NOT (new.RecordID, new.AttrKey, new.AttrValue)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
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

CREATE TRIGGER FinishedLog_RunTimeEnvironments_insert AFTER INSERT ON RunTimeEnvironments
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_RunTimeEnvironments_update AFTER UPDATE ON RunTimeEnvironments
WHEN (old.RecordID, old.RTEName)
 IS NOT (new.RecordID, new.RTEName)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
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

CREATE TRIGGER FinishedLog_DataTransfers_insert AFTER INSERT ON DataTransfers
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_DataTransfers_update AFTER UPDATE ON DataTransfers
WHEN (old.RecordID, old.URL, old.FileSize, old.TransferStart, old.TransferEnd, old.TransferType)
 IS NOT (new.RecordID, new.URL, new.FileSize, new.TransferStart, new.TransferEnd, new.TransferType)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
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

CREATE TRIGGER FinishedLog_JobExtraInfo_insert AFTER INSERT ON JobExtraInfo
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_JobExtraInfo_update AFTER UPDATE ON JobExtraInfo
WHEN (old.RecordID, old.InfoKey, old.InfoValue)
 IS NOT (new.RecordID, new.InfoKey, new.InfoValue)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
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

-- A renamed name would change many records unseen.
CREATE TRIGGER Users_append_only BEFORE UPDATE ON Users
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Users is append-only: insert the new name and update AAR');
END;

CREATE TRIGGER WLCGVOs_append_only BEFORE UPDATE ON WLCGVOs
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'WLCGVOs is append-only: insert the new name and update AAR');
END;

CREATE TRIGGER Queues_append_only BEFORE UPDATE ON Queues
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Queues is append-only: insert the new name and update AAR');
END;

CREATE TRIGGER Status_append_only BEFORE UPDATE ON Status
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Status is append-only: insert the new name and update AAR');
END;

CREATE TRIGGER Endpoints_append_only BEFORE UPDATE ON Endpoints
WHEN (new.ID, new.Interface, new.URL) IS NOT (old.ID, old.Interface, old.URL)
BEGIN
  SELECT RAISE(ABORT, 'Endpoints is append-only: insert the new endpoint and update AAR');
END;
