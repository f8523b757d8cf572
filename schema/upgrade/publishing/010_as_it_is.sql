-- The ledger of a database that was made by 0.1 goes: a run of 0.2 carries it over, some with each run. What is left
-- stops this script: run `arcacct publish` of 0.2 until FormerRecords is empty.
CREATE TEMP TABLE Refused (Rows INTEGER CONSTRAINT "run arcacct publish of 0.2 until it has carried over the ledger of 0.1" CHECK (Rows = 0));
INSERT INTO Refused SELECT count(*) FROM FormerRecords;
DROP TABLE Refused;
DROP VIEW v1_publications;
DROP VIEW MessageRecords;
DROP VIEW SentRows;
DROP TABLE FormerRecords;

-- SQLite before 3.35 cannot drop a column (EL 9 has 3.34): both tables are small, and made anew without Counted and Bytes.
CREATE TABLE NewTargets (
  Target TEXT PRIMARY KEY, Incarnation TEXT NOT NULL, LastSeq INTEGER NOT NULL, StartEndTime INTEGER NOT NULL,
  LastRun INTEGER, LastSuccess INTEGER, LastError TEXT, Selection TEXT, Walked TEXT, DoubtSeq INTEGER,
  Runs INTEGER NOT NULL DEFAULT 0, LastSeqAgain INTEGER
);
INSERT INTO NewTargets SELECT Target, Incarnation, LastSeq, StartEndTime, LastRun, LastSuccess, LastError, Selection,
  Walked, DoubtSeq, Runs, LastSeqAgain FROM Targets;
DROP TABLE Targets;
ALTER TABLE NewTargets RENAME TO Targets;

CREATE TABLE NewMessages (
  MessageID INTEGER PRIMARY KEY AUTOINCREMENT, Target TEXT NOT NULL, Kind TEXT NOT NULL, Origin TEXT NOT NULL,
  State TEXT NOT NULL CHECK (State IN ('sending', 'accepted', 'refused', 'split')), Seq INTEGER,
  Created INTEGER NOT NULL, Answered INTEGER, Attempts INTEGER NOT NULL DEFAULT 0, RecordCount INTEGER NOT NULL,
  ByteCount INTEGER NOT NULL, Digest TEXT NOT NULL, Destination TEXT NOT NULL, EmpaID TEXT, AnswerCode INTEGER,
  Answer TEXT, ReceiverID TEXT, ReceiverRows TEXT
);
INSERT INTO NewMessages SELECT MessageID, Target, Kind, Origin, State, Seq, Created, Answered, Attempts, RecordCount,
  ByteCount, Digest, Destination, EmpaID, AnswerCode, Answer, ReceiverID, ReceiverRows FROM Messages;
INSERT OR IGNORE INTO MessageBytes SELECT MessageID, 1, Bytes FROM Messages WHERE Bytes IS NOT NULL;
INSERT INTO sqlite_sequence SELECT 'NewMessages', 0 FROM sqlite_sequence WHERE name = 'Messages'
  AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'NewMessages');
UPDATE sqlite_sequence SET seq = (SELECT seq FROM sqlite_sequence WHERE name = 'Messages') WHERE name = 'NewMessages';
DROP TABLE Messages;
ALTER TABLE NewMessages RENAME TO Messages;
CREATE INDEX Messages_sending_IDX ON Messages (Target) WHERE State = 'sending';
CREATE INDEX Messages_Target_IDX ON Messages (Target, Kind, MessageID);
CREATE INDEX Messages_republished_IDX ON Messages (Target) WHERE Origin = 'republish';

-- The program then gives each object the text that a new database has (arcacct/db/schema.py).
