-- What a finished record was before it changed or was deleted: the proof by which published figures may fall, and the keys
-- under which a receiver may still have it.
CREATE TABLE FormerVersions (
  Seq        INTEGER NOT NULL,  -- of FinishedLog, where the change was logged: what was read up to before it was this
  RecordID   INTEGER NOT NULL,
  JobID      TEXT NOT NULL,
  LocalJobID TEXT,
  VOID       INTEGER NOT NULL,
  EndpointID INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  Wall       INTEGER NOT NULL,  -- as in Contributions
  Cpu        INTEGER NOT NULL
);
CREATE INDEX FormerVersions_Seq_IDX ON FormerVersions (Seq);
CREATE INDEX FormerVersions_RecordID_IDX ON FormerVersions (RecordID);

-- In one trigger with the log, since the order of two would be SQLite's: the version is noted before the log moves on.
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
         CASE WHEN old.UsedWalltime BETWEEN 0 AND 9007199254740992 THEN old.UsedWalltime ELSE 0 END,
         CASE WHEN old.UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUUserTime ELSE 0 END
         + CASE WHEN old.UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUKernelTime ELSE 0 END
    FROM sqlite_sequence
   WHERE name = 'FinishedLog' AND old.EndTime > 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'))
     AND (old.StatusID, old.EndTime, old.LocalJobID, old.VOID, old.EndpointID, old.UsedWalltime, old.UsedCPUUserTime,
          old.UsedCPUKernelTime, old.JobID)
      IS NOT
         (new.StatusID, new.EndTime, new.LocalJobID, new.VOID, new.EndpointID, new.UsedWalltime, new.UsedCPUUserTime,
          new.UsedCPUKernelTime, new.JobID);
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

-- A pruned record has left the log before: it still counts, so nothing is noted.
DROP TRIGGER FinishedLog_AAR_delete;
CREATE TRIGGER FinishedLog_AAR_delete AFTER DELETE ON AAR
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, old.RecordID, old.JobID, old.LocalJobID, old.VOID, old.EndpointID, old.EndTime,
         CASE WHEN old.UsedWalltime BETWEEN 0 AND 9007199254740992 THEN old.UsedWalltime ELSE 0 END,
         CASE WHEN old.UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUUserTime ELSE 0 END
         + CASE WHEN old.UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUKernelTime ELSE 0 END
    FROM sqlite_sequence
   WHERE name = 'FinishedLog' AND old.EndTime > 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'));
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
