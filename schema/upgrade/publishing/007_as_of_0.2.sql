-- The publishing database as arcacct 0.2 makes it (schema 7), for the check of its backups.
CREATE TABLE AccountingTargets (
  TargetID    TEXT UNIQUE NOT NULL,  -- the block of the configuration, e.g. arex/jura/sgas:NAME
  LastEndTime INTEGER NOT NULL,
  LastReport  INTEGER NOT NULL
);
CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);
CREATE TABLE Targets (
  Target         TEXT PRIMARY KEY,  -- the block of the configuration, e.g. arex/jura/sgas:NAME
  Incarnation    TEXT NOT NULL,     -- of the accounting database that LastSeq belongs to
  LastSeq        INTEGER NOT NULL,  -- every record up to here is handled: sent, held or not this target's business
  StartEndTime   INTEGER NOT NULL,  -- records that ended earlier are not this target's business
  LastRun        INTEGER,           -- times of the last run and of the last one without error
  LastSuccess    INTEGER,
  LastError      TEXT
, Selection TEXT, Walked TEXT, Counted INTEGER NOT NULL DEFAULT 0, DoubtSeq INTEGER, Runs INTEGER NOT NULL DEFAULT 0);
CREATE TABLE Messages (
  MessageID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Target      TEXT NOT NULL,
  Kind        TEXT NOT NULL,        -- ur, car, summaries, sync, ...
  Origin      TEXT NOT NULL,        -- publish or republish
  State       TEXT NOT NULL CHECK (State IN ('sending', 'accepted', 'refused', 'split')),
  Seq         INTEGER,              -- the cursor once the message is done; NULL: it does not move the cursor
  Created     INTEGER NOT NULL,
  Answered    INTEGER,
  Attempts    INTEGER NOT NULL DEFAULT 0,
  RecordCount INTEGER NOT NULL,
  ByteCount   INTEGER NOT NULL,     -- of what goes over the wire, before base64
  Digest      TEXT NOT NULL,        -- SHA-256 of the unsigned body, hexadecimal
  Destination TEXT NOT NULL,        -- URL or directory
  EmpaID      TEXT,                 -- AMS: attribute of the message
  AnswerCode  INTEGER,              -- HTTP status
  Answer      TEXT,                 -- the receiver's words
  ReceiverID  TEXT,                 -- AMS message id, name of the file
  Bytes       BLOB                  -- zlib of exactly what is sent; dropped after keep_messages days
, ReceiverRows TEXT);
CREATE TABLE "FormerRecords" (
  MessageID INTEGER NOT NULL,
  Position  INTEGER NOT NULL,       -- in the message, from 0: a refused message is split between records
  JobID     TEXT NOT NULL,
  RecordID  INTEGER NOT NULL,
  Seq       INTEGER NOT NULL,       -- 0: republished
  EndTime   INTEGER NOT NULL,
  Digest    BLOB NOT NULL,          -- of the record's values as they were sent; empty: sent with zeros, see Keys
  Key       TEXT NOT NULL,          -- what the receiver knows the record by
  Notes     TEXT, GivenID INTEGER, Wall INTEGER, ReplacedID INTEGER, ReplacedWall INTEGER, ReceiverRow TEXT,                   -- what was repaired before it was sent
  PRIMARY KEY (MessageID, Position)
) WITHOUT ROWID;
CREATE TABLE SumKeys (
  Target    TEXT NOT NULL,
  Kind      TEXT NOT NULL,          -- summaries, summaries-v04, ..., sync
  Key       TEXT NOT NULL,          -- as the receiver compares it, JSON
  Year      INTEGER NOT NULL,
  Month     INTEGER NOT NULL,
  Jobs      INTEGER NOT NULL,       -- as last sent; 0: neutralised
  MessageID INTEGER NOT NULL, Site TEXT, SubmitHost TEXT, Wall INTEGER, IsAdopted INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (Target, Key)         -- a key of two families is one key: the later message overwrites
) WITHOUT ROWID;
CREATE TABLE OpenMonths (
  Target TEXT NOT NULL,
  Year   INTEGER NOT NULL,
  Month  INTEGER NOT NULL,
  PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
CREATE TABLE HeldRecords (
  Target   TEXT NOT NULL,
  JobID    TEXT NOT NULL,
  RecordID INTEGER NOT NULL,
  Seq      INTEGER NOT NULL,
  EndTime  INTEGER NOT NULL,
  State    TEXT NOT NULL CHECK (State IN ('held', 'quarantined', 'correction', 'retry', 'dropped')),
  Reason   TEXT NOT NULL,           -- ours, or the receiver's words
  Attempts INTEGER NOT NULL DEFAULT 0,
  Since    INTEGER NOT NULL, NextTry INTEGER, Tried INTEGER, Refusals INTEGER NOT NULL DEFAULT 0, RefusedRun INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (Target, JobID)
) WITHOUT ROWID;
CREATE TABLE Given (
  GivenID    INTEGER PRIMARY KEY,
  Target     TEXT NOT NULL,
  Site       TEXT NOT NULL,             -- name of the site; '' at SGAS
  SubmitHost TEXT NOT NULL,             -- as it is sent; at SGAS the MachineName
  Year       INTEGER NOT NULL,          -- of EndTime, UTC
  Month      INTEGER NOT NULL,
  Jobs       INTEGER NOT NULL DEFAULT 0,
  Wall       INTEGER NOT NULL DEFAULT 0,
  UNIQUE (Target, Site, SubmitHost, Year, Month)
);
CREATE TABLE Months (
  Target      TEXT NOT NULL,
  Year        INTEGER NOT NULL,
  Month       INTEGER NOT NULL,
  Kind        TEXT NOT NULL,            -- summaries, car, ...
  Seq         INTEGER,                  -- NULL: published by an older program
  Incarnation TEXT,
  Sent        INTEGER,                  -- UTC seconds
  PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
CREATE TABLE HeldMonths (
  Target    TEXT NOT NULL,
  Year      INTEGER NOT NULL,
  Month     INTEGER NOT NULL,
  Cause     TEXT NOT NULL,              -- in words: what fell, and what may have caused it
  GivenJobs INTEGER NOT NULL,           -- what the receiver has, and what it would have
  FoundJobs INTEGER NOT NULL,
  Since     INTEGER NOT NULL,
  PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
CREATE TABLE AcceptedMonths (
  AcceptedID  INTEGER PRIMARY KEY,
  Target      TEXT NOT NULL,
  Year        INTEGER NOT NULL,
  Month       INTEGER NOT NULL,
  Incarnation TEXT NOT NULL,            -- of the accounting database whose figures they accepted
  Accepted    INTEGER NOT NULL,         -- UTC seconds
  Who         TEXT NOT NULL,            -- name of the user
  IsOpen      INTEGER NOT NULL          -- 1: not used yet; a later fall has to be accepted anew
);
CREATE TABLE RefusedSums (
  Target     TEXT NOT NULL,
  Kind       TEXT NOT NULL,
  Year       INTEGER NOT NULL,
  Month      INTEGER NOT NULL,
  Reason     TEXT NOT NULL,             -- the receiver's words
  Refusals   INTEGER NOT NULL,          -- in so many runs, one after the other
  RefusedRun INTEGER NOT NULL,
  Since      INTEGER NOT NULL,
  PRIMARY KEY (Target, Kind, Year, Month)
) WITHOUT ROWID;
CREATE TABLE Jobs (
  Job      INTEGER PRIMARY KEY,     -- counted here
  JobID    TEXT NOT NULL,
  RecordID INTEGER NOT NULL         -- in the accounting database, when it was sent last; 0: not known
);
CREATE TABLE JobHashes (
  Hash INTEGER NOT NULL,
  Job  INTEGER NOT NULL,
  PRIMARY KEY (Hash, Job)
) WITHOUT ROWID;
CREATE TABLE NewJobHashes (
  Hash INTEGER NOT NULL,
  Job  INTEGER NOT NULL,
  PRIMARY KEY (Hash, Job)
) WITHOUT ROWID;
CREATE TABLE KeyForms (
  FormID INTEGER PRIMARY KEY,
  Form   TEXT NOT NULL UNIQUE
);
CREATE TABLE SentRecords (
  Number       INTEGER PRIMARY KEY, -- MessageID * 2^20 + position in the message: one that is refused is split between records
  Job          INTEGER NOT NULL,
  EndTime      INTEGER NOT NULL,
  Digest       BLOB NOT NULL,       -- of the record's values as they were sent; empty: sent with zeros
  FormID       INTEGER NOT NULL,
  KeyRest      TEXT NOT NULL,
  Notes        TEXT,                -- what was repaired before it was sent
  GivenID      INTEGER,             -- where the receiver counts it; NULL: nowhere
  Wall         INTEGER,             -- seconds, as sent
  ReplacedID   INTEGER,             -- where the receiver counted what had this key; NULL: nothing
  ReplacedWall INTEGER
);
CREATE TABLE MessageBytes (
  MessageID INTEGER PRIMARY KEY,
  IsPacked  INTEGER NOT NULL,       -- 1: Bytes are zlib of what is sent; 0: they are just that, and go when it is answered
  Bytes     BLOB NOT NULL           -- of an answered message as long as keep_messages says
);
CREATE INDEX Messages_sending_IDX ON Messages (Target) WHERE State = 'sending';
CREATE INDEX Messages_Target_IDX ON Messages (Target, Kind, MessageID);
CREATE INDEX MessageRecords_JobID_IDX ON "FormerRecords" (JobID);
CREATE INDEX SumKeys_Month_IDX ON SumKeys (Target, Year, Month);
CREATE INDEX Messages_Bytes_IDX ON Messages (Answered) WHERE Bytes IS NOT NULL;
CREATE INDEX Messages_republished_IDX ON Messages (Target) WHERE Origin = 'republish';
CREATE INDEX AcceptedMonths_IDX ON AcceptedMonths (Target, Year, Month);
CREATE INDEX SentRecords_Job_IDX ON SentRecords (Job);
CREATE VIEW v1_quarantine AS
SELECT
  Target AS target, -- block of the configuration; HeldRecords
  JobID AS job_id, -- the job; HeldRecords
  State AS state, -- held (goes by itself), quarantined, correction, retry or dropped; HeldRecords
  Reason AS reason, -- why, in our words or the receiver's; HeldRecords
  Attempts AS attempts, -- how often it was held back again; HeldRecords
  EndTime AS end_time, -- s since 1970: end_time of the job; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS end_time_iso, -- end_time as text
  Since AS since_time, -- s since 1970: first held back; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', Since, 'unixepoch') AS since_time_iso, -- since_time as text
  NextTry AS next_try_time, -- s since 1970: a run tries it again from then on; NULL: once it is settled, or not by itself; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', NextTry, 'unixepoch') AS next_try_time_iso, -- next_try_time as text
  Refusals AS refusals -- in so many runs the receiver refused it; HeldRecords
FROM HeldRecords;
CREATE VIEW SentRows AS
SELECT Number, Number >> 20 AS MessageID, Number & 1048575 AS Position, SentRecords.Job AS Job, JobID, RecordID, EndTime,
       Digest, replace(replace(replace(Form, char(1), JobID), char(2), EndTime), char(3), KeyRest) AS Key, Notes, GivenID,
       Wall, ReplacedID, ReplacedWall, NULL AS ReceiverRow
  FROM SentRecords JOIN Jobs ON Jobs.Job = SentRecords.Job JOIN KeyForms ON KeyForms.FormID = SentRecords.FormID;
CREATE VIEW MessageRecords AS
SELECT MessageID, Position, JobID, RecordID, EndTime, Digest, Key, Notes, GivenID, Wall, ReplacedID, ReplacedWall
  FROM SentRows
UNION ALL
SELECT MessageID, Position, JobID, RecordID, EndTime, Digest, Key, Notes, GivenID, Wall, ReplacedID, ReplacedWall
  FROM FormerRecords;
CREATE VIEW v1_publications AS
SELECT
  Messages.MessageID AS message_id, -- number of the message in the ledger; Messages
  Messages.Target AS target, -- block of the configuration, e.g. arex/jura/sgas:NAME; Messages
  Messages.Kind AS kind, -- ur, car, summaries, sync, ...; Messages
  Messages.Origin AS origin, -- publish or republish; Messages
  Messages.State AS state, -- sending (no answer yet), accepted, refused or split (into smaller messages); Messages
  Messages.Created AS created_time, -- s since 1970: written into the ledger, just before it was first sent; Messages
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Created, 'unixepoch') AS created_time_iso, -- created_time as text
  Messages.Answered AS answered_time, -- s since 1970: the receiver's answer; NULL: none yet; Messages
  strftime('%Y-%m-%dT%H:%M:%SZ', Messages.Answered, 'unixepoch') AS answered_time_iso, -- answered_time as text
  Messages.Attempts AS attempts, -- how often it was sent; Messages
  Messages.AnswerCode AS answer_code, -- HTTP status of the last answer; Messages
  Messages.Answer AS answer, -- words of the last answer; Messages
  Messages.Destination AS destination, -- URL or directory it goes to; Messages
  Messages.ReceiverID AS receiver_id, -- the receiver's own id of the message; Messages
  Messages.RecordCount AS record_count, -- records, or sums, in the message; Messages
  Messages.ByteCount AS message_bytes, -- bytes of the message; Messages
  Record.JobID AS job_id, -- the job; NULL for a message of sums; MessageRecords
  Record.EndTime AS end_time, -- s since 1970: end_time of the job as it was sent; MessageRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', Record.EndTime, 'unixepoch') AS end_time_iso, -- end_time as text
  Record.Key AS receiver_key, -- what the receiver knows the record by; MessageRecords
  CASE length(Record.Digest) WHEN 0 THEN 1 ELSE 0 END AS is_neutralised, -- 1: sent with zeros, to take back an earlier key; MessageRecords
  Record.Notes AS notes -- what was repaired before sending; MessageRecords
FROM Messages JOIN SentRows AS Record ON Record.MessageID = Messages.MessageID
  AND Record.Number >= Messages.MessageID << 20 AND Record.Number < (Messages.MessageID + 1) << 20
UNION ALL
SELECT Messages.MessageID, Target, Kind, Origin, State, Created, strftime('%Y-%m-%dT%H:%M:%SZ', Created, 'unixepoch'),
  Answered, strftime('%Y-%m-%dT%H:%M:%SZ', Answered, 'unixepoch'), Attempts, AnswerCode, Answer, Destination, ReceiverID,
  RecordCount, ByteCount, JobID, EndTime, strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch'), Key,
  CASE length(Record.Digest) WHEN 0 THEN 1 ELSE 0 END, Notes
FROM Messages JOIN FormerRecords AS Record ON Record.MessageID = Messages.MessageID
UNION ALL
SELECT MessageID, Target, Kind, Origin, State, Created, strftime('%Y-%m-%dT%H:%M:%SZ', Created, 'unixepoch'), Answered,
  strftime('%Y-%m-%dT%H:%M:%SZ', Answered, 'unixepoch'), Attempts, AnswerCode, Answer, Destination, ReceiverID,
  RecordCount, ByteCount, NULL, NULL, NULL, NULL, 0, NULL
FROM Messages
WHERE NOT EXISTS (SELECT 1 FROM SentRecords WHERE Number >= MessageID << 20 AND Number < (MessageID + 1) << 20)
  AND NOT EXISTS (SELECT 1 FROM FormerRecords WHERE FormerRecords.MessageID = Messages.MessageID);
INSERT INTO "KeyForms" VALUES (1, '');
