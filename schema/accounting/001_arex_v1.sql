-- The tables that A-REX 6 knows (its schema version 1): the same names, columns and order, so that every query written
-- for ARC, and ARC's own `arcctl accounting`, work here. arcctl reads AAR by position: never add a column to it.

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
CREATE UNIQUE INDEX AAR_JobID_IDX ON AAR (JobID);
CREATE INDEX AAR_LocalJobID_IDX ON AAR (LocalJobID);
CREATE INDEX AAR_EndpointID_IDX ON AAR (EndpointID);
CREATE INDEX AAR_QueueID_IDX ON AAR (QueueID);
CREATE INDEX AAR_UserID_IDX ON AAR (UserID);
CREATE INDEX AAR_StatusID_IDX ON AAR (StatusID);
CREATE INDEX AAR_SubmitTime_IDX ON AAR (SubmitTime);
CREATE INDEX AAR_EndTime_IDX ON AAR (EndTime);

-- Names. Each is written once and never changed.
CREATE TABLE Endpoints (
  ID        INTEGER PRIMARY KEY AUTOINCREMENT,
  Interface TEXT NOT NULL,
  URL       TEXT NOT NULL
);
CREATE INDEX Endpoints_Interface_IDX ON Endpoints (Interface);

CREATE TABLE Queues (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX Queues_Name_IDX ON Queues (Name);

CREATE TABLE Users (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX Users_Name_IDX ON Users (Name);

CREATE TABLE WLCGVOs (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX WLCGVOs_Name_IDX ON WLCGVOs (Name);

CREATE TABLE Status (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX Status_Name_IDX ON Status (Name);

-- The children of a record.
CREATE TABLE AuthTokenAttributes (
  RecordID  INTEGER NOT NULL,
  AttrKey   TEXT NOT NULL,  -- mainfqan, vomsfqan
  AttrValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX AuthTokenAttributes_RecordID_IDX ON AuthTokenAttributes (RecordID);
CREATE INDEX AuthTokenAttributes_AttrKey_IDX ON AuthTokenAttributes (AttrKey);

CREATE TABLE JobEvents (
  RecordID  INTEGER NOT NULL,
  EventKey  TEXT NOT NULL,  -- a state of the job, LRMSSTART, LRMSEND, DTR{DOWNLOAD,UPLOAD}{START,END}
  EventTime TEXT NOT NULL,  -- YYYY-MM-DD hh:mm:ss, UTC (A-REX: local time)
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX JobEvents_RecordID_IDX ON JobEvents (RecordID);
CREATE INDEX JobEvents_EventKey_IDX ON JobEvents (EventKey);

CREATE TABLE RunTimeEnvironments (
  RecordID INTEGER NOT NULL,
  RTEName  TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX RunTimeEnvironments_RecordID_IDX ON RunTimeEnvironments (RecordID);
CREATE INDEX RunTimeEnvironments_RTEName_IDX ON RunTimeEnvironments (RTEName);

CREATE TABLE DataTransfers (
  RecordID      INTEGER NOT NULL,
  URL           TEXT NOT NULL,
  FileSize      INTEGER NOT NULL,  -- bytes
  TransferStart INTEGER NOT NULL,
  TransferEnd   INTEGER NOT NULL,
  TransferType  INTEGER NOT NULL,  -- 10 input, 11 input from the cache, 20 output
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX DataTransfers_RecordID_IDX ON DataTransfers (RecordID);
CREATE INDEX DataTransfers_URL_IDX ON DataTransfers (URL);

CREATE TABLE JobExtraInfo (
  RecordID  INTEGER NOT NULL,
  InfoKey   TEXT NOT NULL,  -- jobname, lrms, nodenames, clienthost, localuser, projectname, systemsoftware, ...
  InfoValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX JobExtraInfo_RecordID_IDX ON JobExtraInfo (RecordID);
CREATE INDEX JobExtraInfo_InfoKey_IDX ON JobExtraInfo (InfoKey);

CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);
-- ARC reads it nowhere; '2' would be ARC 7's schema. Our own version is ARCACCT_SCHEMA.
INSERT INTO DBConfig VALUES ('DBSCHEMA_VERSION', '1');

-- So that these have the lowest numbers; the log's triggers look them up by name, for A-REX numbers by first use.
INSERT INTO Status (Name) VALUES ('in-progress'), ('completed'), ('failed'), ('aborted');
