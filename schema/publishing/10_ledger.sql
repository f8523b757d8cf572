-- Targets, messages and what each receiver was sent.

CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);

-- jura-ng's own table, kept true so that a site can go back to it, and read when arcacct takes over from it. Nothing
-- may refer to it: jura's INSERT OR REPLACE deletes the row.
--   TargetID: the block of the configuration, e.g. arex/jura/sgas:NAME
CREATE TABLE AccountingTargets (
  TargetID    TEXT UNIQUE NOT NULL,
  LastEndTime INTEGER NOT NULL,
  LastReport  INTEGER NOT NULL
);

-- What was sent where, what was answered, and what is held back and why.
--   Target: the block of the configuration, e.g. arex/jura/sgas:NAME
--   Incarnation: of the accounting database that LastSeq belongs to
--   LastSeq: every record up to here is handled: sent, held or not this target's business
--   StartEndTime: records that ended earlier are not this target's business
--   LastRun: times of the last run and of the last one without error
--   LastGoodSelection: JSON: the names and filters of the last run that held no month
--   FullScanSelection: JSON: the names and filters of the last run that read the log from its beginning
--   UncertainAfterSeq: an older ledger was put back: what was sent after this Seq is unknown
--   Runs: the number of runs; a receiver's refusal is final when it repeats in a later run
--   LastSeqAgain: LastSeq again: where the two differ, one is damaged, and the log is read from its beginning
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

-- A message is written here, bytes and all, before it is sent, and its answer after.
--   Kind: ur, car, summaries, sync, ...
--   Origin: publish or republish
--   Seq: the cursor once the message is done; NULL: it does not move the cursor
--   ByteCount: of what goes over the wire, before base64
--   Digest: SHA-256 of the unsigned body, hexadecimal
--   Destination: URL or directory
--   EmpaID: AMS: attribute of the message
--   AnswerCode: HTTP status
--   Answer: the receiver's words
--   ReceiverID: AMS message id, name of the file
--   ReceiverRows: The receiver's own numbers of the records (SGAS), JSON, by position: each as its distance to the
--     one before; or texts.
--   KeyPrefix: what the receiver's keys of its records begin with
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
CREATE INDEX Messages_sending_IDX ON Messages (Target) WHERE State = 'sending';
CREATE INDEX Messages_Target_IDX ON Messages (Target, Kind, MessageID);

CREATE INDEX Messages_republished_IDX ON Messages (Target) WHERE Origin = 'republish';

-- Bytes apart from the messages: an answer must not write them once more.
--   IsPacked: 1: Bytes are zlib of what is sent; 0: they are just that, and go when it is answered
--   Bytes: of an answered message as long as keep_messages says
CREATE TABLE MessageBytes (
  MessageID INTEGER PRIMARY KEY,
  IsPacked  INTEGER NOT NULL,
  Bytes     BLOB NOT NULL
);

-- The records that a message carries. JobID and not RecordID: it outlives a restored database.
--   Position: in the message; one that is refused is split between records
--   EndTime: as sent
--   Digest: of the record's values as they were sent; empty: sent with zeros
--   KeyRest: the receiver's key behind the message's KeyPrefix; NULL: it is the JobID
--   Notes: what was repaired before it was sent
--   PublishedTotalID: the names and the month under which the receiver counts it; NULL: zeros of a former program
--   Wall: seconds, as sent
--   ReplacedID: where the receiver counted what had this key; NULL: nothing
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

-- The ends of JobIDs find a job, at half the size of an index of whole ones: A-REX's end with what it drew for the job,
-- those of batch systems with number and submission.
CREATE INDEX SentRecords_Job_IDX ON SentRecords (substr(JobID, -16));

-- Keys of job records that were sent with zeros: each sending of their month repeats them, since a receiver may lose
-- any message after it accepted it, or get an older one late. Few records are zeros, so these indexes are small.
CREATE INDEX SentRecords_zeros_IDX ON SentRecords (EndTime) WHERE length(Digest) = 0;
CREATE INDEX SentRecords_zeroed_groups_IDX ON SentRecords (PublishedTotalID) WHERE length(Digest) = 0;
