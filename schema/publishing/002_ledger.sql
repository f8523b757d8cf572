-- What was sent where, what was answered, and what is held back and why.

CREATE TABLE Targets (
  Target         TEXT PRIMARY KEY,  -- the block of the configuration, e.g. arex/jura/sgas:NAME
  Incarnation    TEXT NOT NULL,     -- of the accounting database that LastSeq belongs to
  LastSeq        INTEGER NOT NULL,  -- every record up to here is handled: sent, held or not this target's business
  StartEndTime   INTEGER NOT NULL,  -- records that ended earlier are not this target's business
  LastRun        INTEGER,           -- times of the last run and of the last one without error
  LastSuccess    INTEGER,
  LastError      TEXT
);

-- A message is written here, bytes and all, before it is sent, and its answer after.
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
);
CREATE INDEX Messages_sending_IDX ON Messages (Target) WHERE State = 'sending';
CREATE INDEX Messages_Target_IDX ON Messages (Target, Kind, MessageID);

-- The records that a message carries. JobID and not only RecordID: it outlives a restored database.
CREATE TABLE MessageRecords (
  MessageID INTEGER NOT NULL,
  Position  INTEGER NOT NULL,       -- in the message, from 0: a refused message is split between records
  JobID     TEXT NOT NULL,
  RecordID  INTEGER NOT NULL,
  Seq       INTEGER NOT NULL,       -- 0: republished
  EndTime   INTEGER NOT NULL,
  Digest    BLOB NOT NULL,          -- of the record's values as they were sent; empty: sent with zeros, see Keys
  Key       TEXT NOT NULL,          -- what the receiver knows the record by
  Notes     TEXT,                   -- what was repaired before it was sent
  PRIMARY KEY (MessageID, Position)
) WITHOUT ROWID;
CREATE INDEX MessageRecords_JobID_IDX ON MessageRecords (JobID);

-- Sums that a receiver has of a target. What was sent under a key that no longer exists is sent again with zeros, since
-- APEL has no message to delete anything.
CREATE TABLE SumKeys (
  Target    TEXT NOT NULL,
  Kind      TEXT NOT NULL,          -- summaries, summaries-v04, ..., sync
  Key       TEXT NOT NULL,          -- as the receiver compares it, JSON
  Year      INTEGER NOT NULL,
  Month     INTEGER NOT NULL,
  Jobs      INTEGER NOT NULL,       -- as last sent; 0: neutralised
  MessageID INTEGER NOT NULL,
  PRIMARY KEY (Target, Key)         -- a key of two families is one key: the later message overwrites
) WITHOUT ROWID;
CREATE INDEX SumKeys_Month_IDX ON SumKeys (Target, Year, Month);

-- Months that are not whole at the receiver: they change from sums to records of their own, or back, or a sum was refused.
-- Whatever interrupts that, the next run does it again.
CREATE TABLE OpenMonths (
  Target TEXT NOT NULL,
  Year   INTEGER NOT NULL,
  Month  INTEGER NOT NULL,
  PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;

-- Records that are not sent, and why: held (will be sent by itself), quarantined (the receiver would refuse it, or did),
-- correction (the receiver has an older version and keeps that), retry (an operator wants it sent with the next run),
-- dropped (an operator wants it never sent).
CREATE TABLE HeldRecords (
  Target   TEXT NOT NULL,
  JobID    TEXT NOT NULL,
  RecordID INTEGER NOT NULL,
  Seq      INTEGER NOT NULL,
  EndTime  INTEGER NOT NULL,
  State    TEXT NOT NULL CHECK (State IN ('held', 'quarantined', 'correction', 'retry', 'dropped')),
  Reason   TEXT NOT NULL,           -- ours, or the receiver's words
  Attempts INTEGER NOT NULL DEFAULT 0,
  Since    INTEGER NOT NULL,
  PRIMARY KEY (Target, JobID)
) WITHOUT ROWID;
