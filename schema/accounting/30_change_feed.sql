-- The order in which records became final and changed: what publishing and export read.

-- The order in which records became final, and changed after: what a publisher has not seen is what has a higher Seq.
--
-- One row per record; every change moves it to the end. SQLite has one writer, so Seq order is commit order: a reader
-- that remembers the last Seq it handled can miss neither a late record nor a correction (an end time can do both).
--   Seq: never used twice, also after pruning and VACUUM
--   RecordID: no foreign key: a deleted record stays as a tombstone until handled
CREATE TABLE FinishedLog (
  Seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  RecordID INTEGER NOT NULL UNIQUE
);

-- What a finished record was before it changed or was deleted: the proof by which published figures may fall, and the
-- keys under which a receiver may still have it.
--   Seq: of FinishedLog, where the change was logged: what was read up to before it was this
--   Wall: as in Contributions
CREATE TABLE FormerVersions (
  Seq        INTEGER NOT NULL,
  RecordID   INTEGER NOT NULL,
  JobID      TEXT NOT NULL,
  LocalJobID TEXT,
  VOID       INTEGER NOT NULL,
  EndpointID INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  Wall       INTEGER NOT NULL,
  Cpu        INTEGER NOT NULL
);
CREATE INDEX FormerVersions_Seq_IDX ON FormerVersions (Seq);
CREATE INDEX FormerVersions_RecordID_IDX ON FormerVersions (RecordID);

-- One row that a publisher changes with synchronous=FULL before it reads: all that was committed earlier is on disk
-- then, so no power cut can take back a record that was published, nor give its Seq to another.
--   Horizon: the highest Seq at the last fence
--   Passed: how many fences there were: the row changes each time
CREATE TABLE Fence (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Horizon INTEGER NOT NULL,
  Passed  INTEGER NOT NULL
);

-- The outbox: the values of a finished job with its children in one piece, so that publishing reads one row for it
-- and not all of its tables. Written with the final status, by who has the values in hand; gone once every target has
-- had the record. What is not here is read from the tables, which are what counts.
--   Seq: of FinishedLog: a record that has moved there since is none of this pack's
--   Version: of the layout of Data
--   Digest: of Data: what tells versions of a record apart, and that these bytes are what was written
CREATE TABLE PackedJob (
  RecordID INTEGER PRIMARY KEY,
  Seq      INTEGER NOT NULL,
  Version  INTEGER NOT NULL,
  Digest   BLOB NOT NULL,
  Data     BLOB NOT NULL
);

INSERT INTO Fence VALUES (1, 0, 0);
