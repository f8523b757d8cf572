-- Records in narrow rows: a JobID stands once for all targets, and of a receiver's key only what nothing else says.

DROP VIEW v1_publications;

-- What an older program wrote. Each run carries a part of it over into the tables below; until then both are read.
ALTER TABLE MessageRecords RENAME TO FormerRecords;

-- The jobs that were ever in a message. JobID and not only RecordID: it outlives a restored database.
CREATE TABLE Jobs (
  Job      INTEGER PRIMARY KEY,     -- counted here
  JobID    TEXT NOT NULL,
  RecordID INTEGER NOT NULL         -- in the accounting database, when it was sent last; 0: not known
);

-- The jobs by CRC-32 of their JobIDs: a fifth of an index of texts. Hashes come in no order, and each one added to many
-- is a page written: so the newest are collected, and go to the others some thousands at a time, in order.
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

-- What the keys of many records have in common: char(1) stands for the JobID, char(2) for EndTime, char(3) for KeyRest.
CREATE TABLE KeyForms (
  FormID INTEGER PRIMARY KEY,
  Form   TEXT NOT NULL UNIQUE
);
INSERT INTO KeyForms VALUES (1, char(3));

-- The records that a message carries.
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
CREATE INDEX SentRecords_Job_IDX ON SentRecords (Job);

-- Bytes apart from the messages: an answer must not write them once more.
CREATE TABLE MessageBytes (
  MessageID INTEGER PRIMARY KEY,
  IsPacked  INTEGER NOT NULL,       -- 1: Bytes are zlib of what is sent; 0: they are just that, and go when it is answered
  Bytes     BLOB NOT NULL           -- of an answered message as long as keep_messages says
);

-- The receiver's own numbers of the records (SGAS), JSON, by position: each as its distance to the one before; or texts.
ALTER TABLE Messages ADD COLUMN ReceiverRows TEXT;

CREATE VIEW SentRows AS
SELECT Number, Number >> 20 AS MessageID, Number & 1048575 AS Position, SentRecords.Job AS Job, JobID, RecordID, EndTime,
       Digest, replace(replace(replace(Form, char(1), JobID), char(2), EndTime), char(3), KeyRest) AS Key, Notes, GivenID,
       Wall, ReplacedID, ReplacedWall, NULL AS ReceiverRow
  FROM SentRecords JOIN Jobs ON Jobs.Job = SentRecords.Job JOIN KeyForms ON KeyForms.FormID = SentRecords.FormID;

-- All of them, whichever program wrote them.
CREATE VIEW MessageRecords AS
SELECT MessageID, Position, JobID, RecordID, EndTime, Digest, Key, Notes, GivenID, Wall, ReplacedID, ReplacedWall
  FROM SentRows
UNION ALL
SELECT MessageID, Position, JobID, RecordID, EndTime, Digest, Key, Notes, GivenID, Wall, ReplacedID, ReplacedWall
  FROM FormerRecords;

-- One row for each record of each message, and one for each message that carries sums instead of records.
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
