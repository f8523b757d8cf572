-- A-REX's own tables, as A-REX 6.17 makes them (arcctl reads them by position), with our indexes. Nothing else: an empty
-- database with these tables alone is one of A-REX.

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

CREATE TRIGGER AAR_RecordID_fixed BEFORE UPDATE OF RecordID ON AAR
WHEN new.RecordID <> old.RecordID
BEGIN
  SELECT RAISE(ABORT, 'RecordID is the identity of a record: it cannot change');
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
-- Of what v1_jobs shows as user_dn: the jobs of a user are found by their index.
CREATE INDEX Users_PlainName_IDX ON Users (
  CAST(nullif(replace(replace(replace(replace(replace(replace(replace(replace(Name, '%27', ''''), '%23', '#'),
         '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%'),
         '') AS TEXT));

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

--   EventKey: a state of the job, LRMSSTART, LRMSEND, DTR{DOWNLOAD,UPLOAD}{START,END}
--   EventTime: YYYY-MM-DD hh:mm:ss, UTC (A-REX: local time)
CREATE TABLE JobEvents (
  RecordID  INTEGER NOT NULL,
  EventKey  TEXT NOT NULL,
  EventTime TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX JobEvents_RecordID_IDX ON JobEvents (RecordID);

CREATE TABLE RunTimeEnvironments (
  RecordID INTEGER NOT NULL,
  RTEName  TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX RunTimeEnvironments_RecordID_IDX ON RunTimeEnvironments (RecordID);

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

--   InfoKey: jobname, lrms, nodenames, clienthost, localuser, projectname, systemsoftware, ...
CREATE TABLE JobExtraInfo (
  RecordID  INTEGER NOT NULL,
  InfoKey   TEXT NOT NULL,
  InfoValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE INDEX JobExtraInfo_RecordID_IDX ON JobExtraInfo (RecordID);

CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);

INSERT INTO Status (ID, Name) VALUES (1, 'in-progress'), (2, 'completed'), (3, 'failed'), (4, 'aborted');

-- DBSCHEMA_VERSION is A-REX's.
INSERT INTO DBConfig VALUES ('DBSCHEMA_VERSION', '1');
