-- A-REX's own tables, as A-REX 6.17 makes them (ARC's arcctl reads them by position), with our indexes.

-- The tables that A-REX 6 knows (its schema version 1): the same names, columns and order, so that every query
-- written for ARC, and ARC's own `arcctl accounting`, work here. arcctl reads AAR by position: never add a column to
-- it.
--
-- One row per job: the A-REX Accounting Record.
CREATE TABLE AAR (
  RecordID          INTEGER PRIMARY KEY AUTOINCREMENT,
  JobID             TEXT NOT NULL UNIQUE,
  LocalJobID        TEXT,
  EndpointID        INTEGER NOT NULL,
  QueueID           INTEGER NOT NULL,
  UserID            INTEGER NOT NULL,
  VOID              INTEGER NOT NULL,
  StatusID          INTEGER NOT NULL,
  ExitCode          INTEGER NOT NULL,
  SubmitTime        INTEGER NOT NULL,
  EndTime           INTEGER NOT NULL,
  NodeCount         INTEGER NOT NULL,
  CPUCount          INTEGER NOT NULL,
  UsedMemory        INTEGER NOT NULL,
  UsedVirtMem       INTEGER NOT NULL,
  UsedWalltime      INTEGER NOT NULL,
  UsedCPUUserTime   INTEGER NOT NULL,
  UsedCPUKernelTime INTEGER NOT NULL,
  UsedScratch       INTEGER NOT NULL,
  StageInVolume     INTEGER NOT NULL,
  StageOutVolume    INTEGER NOT NULL,
  FOREIGN KEY (EndpointID) REFERENCES Endpoints (ID),
  FOREIGN KEY (QueueID) REFERENCES Queues (ID),
  FOREIGN KEY (UserID) REFERENCES Users (ID),
  FOREIGN KEY (VOID) REFERENCES WLCGVOs (ID),
  FOREIGN KEY (StatusID) REFERENCES Status (ID)
);
CREATE INDEX AAR_LocalJobID_IDX ON AAR (LocalJobID);
CREATE INDEX AAR_UserID_IDX ON AAR (UserID);
CREATE INDEX AAR_StatusID_IDX ON AAR (StatusID);
CREATE INDEX AAR_SubmitTime_IDX ON AAR (SubmitTime);
CREATE INDEX AAR_EndTime_IDX ON AAR (EndTime);

-- Questions that read what they ask for, whatever the database has: jobs by time and by their id in the batch system,
-- and sums for `stats`.
--
-- The views show these as NULL where there is none: so the index has to be of what they show. CAST: it would not be
-- used for a comparison with anything but a literal, CAST(strftime('%s', 'now') AS INTEGER) say.
CREATE INDEX AAR_EndTimeOrNull_IDX ON AAR (CAST(nullif(EndTime, 0) AS INTEGER));
CREATE INDEX AAR_SubmitTimeOrNull_IDX ON AAR (CAST(nullif(SubmitTime, 0) AS INTEGER));
CREATE INDEX AAR_LocalJobIDOrNull_IDX ON AAR (CAST(nullif(LocalJobID, '') AS TEXT));

-- DELETE + INSERT: the conflict clause of the *outer* statement would override an INSERT OR REPLACE in a trigger.
-- Statuses by name: A-REX numbers them by first use. IS NOT: UPDATE triggers fire on updates that change nothing.
CREATE TRIGGER FinishedLog_AAR_insert AFTER INSERT ON AAR
WHEN (SELECT Name FROM Status WHERE ID = new.StatusID) IN ('completed', 'failed', 'aborted')
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;

CREATE TRIGGER AAR_RecordID_fixed BEFORE UPDATE OF RecordID ON AAR
WHEN new.RecordID <> old.RecordID
BEGIN
  SELECT RAISE(ABORT, 'RecordID is the identity of a record: it cannot change');
END;

CREATE TRIGGER RecordCount_insert AFTER INSERT ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records + 1;
END;

CREATE TRIGGER RecordCount_delete AFTER DELETE ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records - 1;
END;

CREATE TRIGGER RecordNotes_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM RecordNotes WHERE RecordID = old.RecordID;
END;

CREATE TRIGGER AuthGroups_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM AuthGroups WHERE RecordID = old.RecordID;
END;

CREATE TRIGGER ForgottenRecords_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM ForgottenRecords WHERE RecordID = old.RecordID;
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

-- Names. Each is written once and never changed.
CREATE TABLE Endpoints (
  ID        INTEGER PRIMARY KEY AUTOINCREMENT,
  Interface TEXT NOT NULL,
  URL       TEXT NOT NULL
);
CREATE INDEX Endpoints_Interface_IDX ON Endpoints (Interface);

CREATE TRIGGER Endpoints_append_only BEFORE UPDATE ON Endpoints
WHEN (new.ID, new.Interface, new.URL) IS NOT (old.ID, old.Interface, old.URL)
BEGIN
  SELECT RAISE(ABORT, 'Endpoints is append-only: insert the new endpoint and update AAR');
END;

CREATE TABLE Queues (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX Queues_Name_IDX ON Queues (Name);

CREATE TRIGGER Queues_append_only BEFORE UPDATE ON Queues
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Queues is append-only: insert the new name and update AAR');
END;

CREATE TABLE Users (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX Users_Name_IDX ON Users (Name);

-- A renamed name would change many records unseen.
CREATE TRIGGER Users_append_only BEFORE UPDATE ON Users
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Users is append-only: insert the new name and update AAR');
END;

CREATE TABLE WLCGVOs (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX WLCGVOs_Name_IDX ON WLCGVOs (Name);

CREATE TRIGGER WLCGVOs_append_only BEFORE UPDATE ON WLCGVOs
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'WLCGVOs is append-only: insert the new name and update AAR');
END;

CREATE TABLE Status (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX Status_Name_IDX ON Status (Name);

CREATE TRIGGER Status_append_only BEFORE UPDATE ON Status
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Status is append-only: insert the new name and update AAR');
END;

-- The children of a record.
--   AttrKey: mainfqan, vomsfqan
CREATE TABLE AuthTokenAttributes (
  RecordID  INTEGER NOT NULL,
  AttrKey   TEXT NOT NULL,
  AttrValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX AuthTokenAttributes_RecordID_IDX ON AuthTokenAttributes (RecordID);

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

--   EventKey: a state of the job, LRMSSTART, LRMSEND, DTR{DOWNLOAD,UPLOAD}{START,END}
--   EventTime: YYYY-MM-DD hh:mm:ss, UTC (A-REX: local time)
CREATE TABLE JobEvents (
  RecordID  INTEGER NOT NULL,
  EventKey  TEXT NOT NULL,
  EventTime TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX JobEvents_RecordID_IDX ON JobEvents (RecordID);

-- No value changes under its pack: what does not move the log, and is published, are the times of three events.
CREATE TRIGGER PackedJob_JobEvents_insert AFTER INSERT ON JobEvents
WHEN new.EventKey IN ('SUBMIT', 'LRMSSTART', 'LRMSEND')
BEGIN
  DELETE FROM PackedJob WHERE RecordID = new.RecordID;
END;

CREATE TRIGGER PackedJob_JobEvents_update AFTER UPDATE ON JobEvents
BEGIN
  DELETE FROM PackedJob WHERE RecordID IN (old.RecordID, new.RecordID);
END;

CREATE TRIGGER PackedJob_JobEvents_delete AFTER DELETE ON JobEvents
BEGIN
  DELETE FROM PackedJob WHERE RecordID = old.RecordID;
END;

-- The times of a run are in its events, and a change of these alone is not logged.
CREATE TRIGGER TelemetryToDivide_JobEvents_insert AFTER INSERT ON JobEvents
WHEN new.EventKey IN ('LRMSSTART', 'LRMSEND')
 AND EXISTS (SELECT 1 FROM JobTelemetry WHERE RecordID = new.RecordID)
BEGIN
  INSERT OR IGNORE INTO TelemetryToDivide VALUES (new.RecordID);
END;

CREATE TABLE RunTimeEnvironments (
  RecordID INTEGER NOT NULL,
  RTEName  TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX RunTimeEnvironments_RecordID_IDX ON RunTimeEnvironments (RecordID);

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

--   FileSize: bytes
--   TransferType: 10 input, 11 input from the cache, 20 output
CREATE TABLE DataTransfers (
  RecordID      INTEGER NOT NULL,
  URL           TEXT NOT NULL,
  FileSize      INTEGER NOT NULL,
  TransferStart INTEGER NOT NULL,
  TransferEnd   INTEGER NOT NULL,
  TransferType  INTEGER NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX DataTransfers_RecordID_IDX ON DataTransfers (RecordID);

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

--   InfoKey: jobname, lrms, nodenames, clienthost, localuser, projectname, systemsoftware, ...
CREATE TABLE JobExtraInfo (
  RecordID  INTEGER NOT NULL,
  InfoKey   TEXT NOT NULL,
  InfoValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX JobExtraInfo_RecordID_IDX ON JobExtraInfo (RecordID);

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

CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);

INSERT INTO Status (ID, Name) VALUES (1, 'in-progress'), (2, 'completed'), (3, 'failed'), (4, 'aborted');

-- DBSCHEMA_VERSION is A-REX's. ARCACCT_PACKS_AFTER: records up to this Seq have no pack.
INSERT INTO DBConfig VALUES ('DBSCHEMA_VERSION', '1'), ('ARCACCT_PACKS_AFTER', '0');
