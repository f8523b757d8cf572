-- The publishing database as arcacct makes it (schema 15), for later programs.
CREATE TABLE AccountingTargets (
  TargetID    TEXT UNIQUE NOT NULL,
  LastEndTime INTEGER NOT NULL,
  LastReport  INTEGER NOT NULL
);
CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);
CREATE TABLE HeldRecords (
  Target     TEXT NOT NULL,
  JobID      TEXT NOT NULL,
  RecordID   INTEGER NOT NULL,
  Seq        INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  State      TEXT NOT NULL CHECK (State IN ('held', 'quarantined', 'correction', 'retry', 'dropped')),
  Reason     TEXT NOT NULL,
  Attempts   INTEGER NOT NULL DEFAULT 0,
  Since      INTEGER NOT NULL,
  NextTry    INTEGER,
  Tried      INTEGER,
  Refusals   INTEGER NOT NULL DEFAULT 0,
  RefusedRun INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (Target, JobID)
) WITHOUT ROWID;
CREATE TABLE MessageBytes (
  MessageID INTEGER PRIMARY KEY,
  IsPacked  INTEGER NOT NULL,
  Bytes     BLOB NOT NULL
);
CREATE TABLE Messages (
  MessageID    INTEGER PRIMARY KEY AUTOINCREMENT,
  Target       TEXT NOT NULL,
  Kind         TEXT NOT NULL,
  Origin       TEXT NOT NULL,
  State        TEXT NOT NULL CHECK (State IN ('sending', 'accepted', 'refused', 'split')),
  Seq          INTEGER,
  Created      INTEGER NOT NULL,
  Answered     INTEGER,
  Attempts     INTEGER NOT NULL DEFAULT 0,
  RecordCount  INTEGER NOT NULL,
  ByteCount    INTEGER NOT NULL,
  Digest       TEXT NOT NULL,
  Destination  TEXT NOT NULL,
  EmpaID       TEXT,
  AnswerCode   INTEGER,
  Answer       TEXT,
  ReceiverID   TEXT,
  ReceiverRows TEXT,
  KeyPrefix    TEXT NOT NULL DEFAULT ''
);
CREATE TABLE MonthDecisions (
  DecisionID  INTEGER PRIMARY KEY,
  Target      TEXT NOT NULL,
  Year        INTEGER NOT NULL,
  Month       INTEGER NOT NULL,
  Decision    TEXT NOT NULL,
  Incarnation TEXT NOT NULL,
  Decided     INTEGER NOT NULL,
  Who         TEXT NOT NULL
);
CREATE TABLE PublishedTotals (
  PublishedTotalID INTEGER PRIMARY KEY,
  Target           TEXT NOT NULL,
  NamesID          INTEGER NOT NULL,
  Year             INTEGER NOT NULL,
  Month            INTEGER NOT NULL,
  Jobs             INTEGER NOT NULL DEFAULT 0,
  Wall             INTEGER NOT NULL DEFAULT 0,
  IsSent           INTEGER NOT NULL DEFAULT 0,
  UNIQUE (Target, NamesID, Year, Month)
);
CREATE TABLE SentNames (
  NamesID    INTEGER PRIMARY KEY,
  Names      TEXT NOT NULL UNIQUE COLLATE NOCASE,
  Site       TEXT NOT NULL,
  SubmitHost TEXT NOT NULL
);
CREATE TABLE SentRecords (
  MessageID        INTEGER NOT NULL,
  Position         INTEGER NOT NULL,
  JobID            TEXT NOT NULL,
  EndTime          INTEGER NOT NULL,
  Digest           BLOB NOT NULL,
  KeyRest          TEXT,
  Notes            TEXT,
  PublishedTotalID INTEGER,
  Wall             INTEGER,
  ReplacedID       INTEGER,
  ReplacedWall     INTEGER,
  PRIMARY KEY (MessageID, Position)
) WITHOUT ROWID;
CREATE TABLE SentSummaries (
  Target     TEXT NOT NULL,
  Kind       TEXT NOT NULL,
  Key        TEXT NOT NULL,
  Year       INTEGER NOT NULL,
  Month      INTEGER NOT NULL,
  Jobs       INTEGER NOT NULL,
  MessageID  INTEGER NOT NULL,
  Site       TEXT,
  SubmitHost TEXT,
  Wall       INTEGER,
  IsAdopted  INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (Target, Key)
) WITHOUT ROWID;
CREATE TABLE TargetMonths (
  Target         TEXT NOT NULL,
  Year           INTEGER NOT NULL,
  Month          INTEGER NOT NULL,
  Kind           TEXT,
  Seq            INTEGER,
  Incarnation    TEXT,
  Sent           INTEGER,
  Cause          TEXT,
  PublishedJobs  INTEGER,
  FoundJobs      INTEGER,
  HeldSince      INTEGER,
  Remedy         TEXT,
  AcceptedFor    TEXT,
  IsUnfinished   INTEGER NOT NULL DEFAULT 0,
  Refusals       TEXT NOT NULL DEFAULT '{}',
  UncertainSince INTEGER,
  UncertainJobs  INTEGER,
  Answered       INTEGER,
  IsEarlier      INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
CREATE TABLE Targets (
  Target            TEXT PRIMARY KEY,
  Incarnation       TEXT NOT NULL,
  LastSeq           INTEGER NOT NULL,
  StartEndTime      INTEGER NOT NULL,
  LastRun           INTEGER,
  LastSuccess       INTEGER,
  LastError         TEXT,
  LastGoodSelection TEXT,
  FullScanSelection TEXT,
  UncertainAfterSeq INTEGER,
  Runs              INTEGER NOT NULL DEFAULT 0,
  LastSeqAgain      INTEGER
);
CREATE INDEX Messages_sending_IDX ON Messages (Target) WHERE State = 'sending';
CREATE INDEX Messages_Target_IDX ON Messages (Target, Kind, MessageID);
CREATE INDEX Messages_republished_IDX ON Messages (Target) WHERE Origin = 'republish';
CREATE INDEX SentRecords_Job_IDX ON SentRecords (substr(JobID, -16));
CREATE INDEX SentRecords_zeros_IDX ON SentRecords (EndTime) WHERE length(Digest) = 0;
CREATE INDEX SentRecords_zeroed_groups_IDX ON SentRecords (PublishedTotalID) WHERE length(Digest) = 0;
CREATE INDEX SentSummaries_Month_IDX ON SentSummaries (Target, Year, Month);
CREATE INDEX MonthDecisions_IDX ON MonthDecisions (Target, Year, Month);
CREATE VIEW v1_publications AS
SELECT
  MessageID AS message_id,
  Messages.Target AS target,
  Messages.Kind AS kind,
  Messages.Origin AS origin,
  Messages.State AS state,
  Messages.Created AS created_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Created, 'unixepoch') AS created_time_iso,
  Messages.Answered AS answered_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Answered, 'unixepoch') AS answered_time_iso,
  Messages.Attempts AS attempts,
  Messages.AnswerCode AS answer_code,
  Messages.Answer AS answer,
  Messages.Destination AS destination,
  Messages.ReceiverID AS receiver_id,
  Messages.RecordCount AS record_count,
  Messages.ByteCount AS message_bytes,
  Record.JobID AS job_id,
  Record.EndTime AS end_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Record.EndTime, 'unixepoch') AS end_time_iso,
  KeyPrefix || coalesce(KeyRest, JobID) AS receiver_key,
  CASE length(Record.Digest) WHEN 0 THEN 1 ELSE 0 END AS is_neutralised,
  Record.Notes AS notes
FROM Messages LEFT JOIN SentRecords AS Record USING (MessageID);
CREATE VIEW v1_quarantine AS
SELECT
  Target AS target,
  JobID AS job_id,
  State AS state,
  Reason AS reason,
  Attempts AS attempts,
  EndTime AS end_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS end_time_iso,
  Since AS since_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', Since, 'unixepoch') AS since_time_iso,
  NextTry AS next_try_time,
  strftime('%Y-%m-%dT%H:%M:%SZ', NextTry, 'unixepoch') AS next_try_time_iso,
  Refusals AS refusals
FROM HeldRecords;
