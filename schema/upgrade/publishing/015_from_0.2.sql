-- From the schema of arcacct 0.2 to the one of 0.3. The program then gives each table the text that a new database has, and
-- makes the indexes and views that this one lacks or has otherwise (arcacct/database/schema.py). SQLite before 3.35 cannot
-- drop a column (EL 9 has 3.34): tables are made anew instead.

-- The ledger of a database that was made by 0.1 goes: a run of 0.2 carries it over, some with each run. What is left
-- stops this script: run `arcacct publish` of 0.2 until FormerRecords is empty.
CREATE TEMP TABLE Refused (Rows INTEGER CONSTRAINT "run arcacct publish of 0.2 until it has carried over the ledger of 0.1" CHECK (Rows = 0));
INSERT INTO Refused SELECT count(*) FROM FormerRecords;
DROP TABLE Refused;
DROP VIEW v1_publications;
DROP VIEW MessageRecords;
DROP VIEW SentRows;
DROP TABLE FormerRecords;
DROP INDEX IF EXISTS SumKeys_Month_IDX;
ALTER TABLE SumKeys RENAME TO SentSummaries;

-- A cursor is noted twice: where the two differ, one of them was damaged, and the log is read from its beginning.
ALTER TABLE Targets RENAME TO FormerTargets;
CREATE TABLE Targets (
  Target TEXT PRIMARY KEY, Incarnation TEXT NOT NULL, LastSeq INTEGER NOT NULL, StartEndTime INTEGER NOT NULL,
  LastRun INTEGER, LastSuccess INTEGER, LastError TEXT, LastGoodSelection TEXT, FullScanSelection TEXT,
  UncertainAfterSeq INTEGER, Runs INTEGER NOT NULL DEFAULT 0, LastSeqAgain INTEGER
);
INSERT INTO Targets SELECT Target, Incarnation, LastSeq, StartEndTime, LastRun, LastSuccess, LastError, Selection, Walked,
  DoubtSeq, Runs, LastSeq FROM FormerTargets;
DROP TABLE FormerTargets;

-- The names under which each record was sent, so that what is taken back is what was sent. Of records that were sent
-- before, only site and submit host are known. Spellings that differ in case alone are two places before, and one after.
CREATE TABLE SentNames (
  NamesID INTEGER PRIMARY KEY, Names TEXT NOT NULL UNIQUE COLLATE NOCASE, Site TEXT NOT NULL, SubmitHost TEXT NOT NULL
);
INSERT OR IGNORE INTO SentNames (Names, Site, SubmitHost)
  SELECT json_array(Site, SubmitHost), Site, SubmitHost FROM Given;
CREATE TABLE PublishedTotals (
  PublishedTotalID INTEGER PRIMARY KEY, Target TEXT NOT NULL, NamesID INTEGER NOT NULL, Year INTEGER NOT NULL,
  Month INTEGER NOT NULL, Jobs INTEGER NOT NULL DEFAULT 0, Wall INTEGER NOT NULL DEFAULT 0,
  IsSent INTEGER NOT NULL DEFAULT 0, UNIQUE (Target, NamesID, Year, Month)
);
INSERT INTO PublishedTotals SELECT min(GivenID), Target, NamesID, Year, Month, sum(Jobs), sum(Wall), 1
  FROM Given JOIN SentNames ON Names = json_array(Given.Site, Given.SubmitHost)
 GROUP BY Target, NamesID, Year, Month;
CREATE TEMP TABLE Moved (GivenID INTEGER PRIMARY KEY, New INTEGER);
INSERT INTO Moved SELECT GivenID, PublishedTotalID FROM Given
  JOIN SentNames ON Names = json_array(Given.Site, Given.SubmitHost)
  JOIN PublishedTotals ON (PublishedTotals.Target, PublishedTotals.NamesID, PublishedTotals.Year, PublishedTotals.Month)
   = (Given.Target, SentNames.NamesID, Given.Year, Given.Month);
DROP TABLE Given;

-- A row for each record that was sent, with its JobID: no table of jobs, of hashes or of forms of keys beside it. The prefix
-- is what a form begins with, where all keys of a message have the same one; each other key is stored whole.
CREATE TEMP TABLE Prefixes (MessageID INTEGER PRIMARY KEY, Prefix TEXT);
INSERT INTO Prefixes
SELECT MessageID, substr(Form, 1, instr(replace(replace(Form, char(2), char(1)), char(3), char(1)) || char(1), char(1)) - 1)
  FROM (SELECT Number >> 20 AS MessageID, min(FormID) AS FormID, max(FormID) AS Last FROM SentRecords GROUP BY 1)
  JOIN KeyForms USING (FormID) WHERE FormID = Last;
INSERT OR IGNORE INTO MessageBytes SELECT MessageID, 1, Bytes FROM Messages WHERE Bytes IS NOT NULL;
ALTER TABLE Messages RENAME TO FormerMessages;
CREATE TABLE Messages (
  MessageID INTEGER PRIMARY KEY AUTOINCREMENT, Target TEXT NOT NULL, Kind TEXT NOT NULL, Origin TEXT NOT NULL,
  State TEXT NOT NULL CHECK (State IN ('sending', 'accepted', 'refused', 'split')), Seq INTEGER,
  Created INTEGER NOT NULL, Answered INTEGER, Attempts INTEGER NOT NULL DEFAULT 0, RecordCount INTEGER NOT NULL,
  ByteCount INTEGER NOT NULL, Digest TEXT NOT NULL, Destination TEXT NOT NULL, EmpaID TEXT, AnswerCode INTEGER,
  Answer TEXT, ReceiverID TEXT, ReceiverRows TEXT, KeyPrefix TEXT NOT NULL DEFAULT ''
);
INSERT INTO Messages SELECT MessageID, Target, Kind, Origin, State, Seq, Created, Answered, Attempts, RecordCount,
  ByteCount, Digest, Destination, EmpaID, AnswerCode, Answer, ReceiverID, ReceiverRows, ifnull(Prefix, '')
  FROM FormerMessages LEFT JOIN Prefixes USING (MessageID);
-- A number is never used again, also not one of a message that is gone.
DELETE FROM sqlite_sequence WHERE name = 'Messages';
UPDATE sqlite_sequence SET name = 'Messages' WHERE name = 'FormerMessages';
DROP TABLE FormerMessages;

ALTER TABLE SentRecords RENAME TO FormerRecords;
CREATE TABLE SentRecords (
  MessageID INTEGER NOT NULL, Position INTEGER NOT NULL, JobID TEXT NOT NULL, EndTime INTEGER NOT NULL,
  Digest BLOB NOT NULL, KeyRest TEXT, Notes TEXT, PublishedTotalID INTEGER, Wall INTEGER, ReplacedID INTEGER,
  ReplacedWall INTEGER, PRIMARY KEY (MessageID, Position)
) WITHOUT ROWID;
-- CROSS: in the order of the records, so that each page is written once.
INSERT INTO SentRecords
SELECT Messages.MessageID, Number & 1048575, JobID, EndTime, Record.Digest,
       nullif(substr(replace(replace(replace(Form, char(1), JobID), char(2), EndTime), char(3), KeyRest), length(KeyPrefix) + 1), JobID),
       Notes, ifnull((SELECT New FROM Moved WHERE Moved.GivenID = Record.GivenID), Record.GivenID), Wall,
       ifnull((SELECT New FROM Moved WHERE Moved.GivenID = ReplacedID), ReplacedID), ReplacedWall
  FROM FormerRecords AS Record CROSS JOIN Messages ON Messages.MessageID = Number >> 20
 CROSS JOIN Jobs ON Jobs.Job = Record.Job CROSS JOIN KeyForms ON KeyForms.FormID = Record.FormID
 ORDER BY Number;
DROP TABLE Moved;
DROP TABLE Prefixes;
DROP TABLE FormerRecords;
DROP TABLE Jobs;
DROP TABLE JobHashes;
DROP TABLE NewJobHashes;
DROP TABLE KeyForms;

-- One row for a month of a target, and one log of what operators decided.
CREATE TABLE TargetMonths (
  Target TEXT NOT NULL, Year INTEGER NOT NULL, Month INTEGER NOT NULL, Kind TEXT, Seq INTEGER, Incarnation TEXT,
  Sent INTEGER, Cause TEXT, PublishedJobs INTEGER, FoundJobs INTEGER, HeldSince INTEGER, Remedy TEXT, AcceptedFor TEXT,
  IsUnfinished INTEGER NOT NULL DEFAULT 0, Refusals TEXT NOT NULL DEFAULT '{}', UncertainSince INTEGER,
  UncertainJobs INTEGER, Answered INTEGER, IsEarlier INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
INSERT INTO TargetMonths (Target, Year, Month, Kind, Seq, Incarnation, Sent)
SELECT Target, Year, Month, Kind, Seq, Incarnation, Sent FROM Months;
INSERT INTO TargetMonths (Target, Year, Month, Cause, PublishedJobs, FoundJobs, HeldSince, Remedy)
SELECT Target, Year, Month, Cause, GivenJobs, FoundJobs, Since, '' FROM HeldMonths WHERE true
    ON CONFLICT DO UPDATE SET Cause = excluded.Cause, PublishedJobs = excluded.PublishedJobs,
       FoundJobs = excluded.FoundJobs, HeldSince = excluded.HeldSince, Remedy = excluded.Remedy;
-- In the order of the decisions, so that the last one counts.
INSERT INTO TargetMonths (Target, Year, Month, AcceptedFor)
SELECT Target, Year, Month, Incarnation FROM AcceptedMonths WHERE IsOpen ORDER BY AcceptedID
    ON CONFLICT DO UPDATE SET AcceptedFor = excluded.AcceptedFor;
INSERT INTO TargetMonths (Target, Year, Month, IsUnfinished)
SELECT Target, Year, Month, 1 FROM OpenMonths WHERE true ON CONFLICT DO UPDATE SET IsUnfinished = 1;
INSERT INTO TargetMonths (Target, Year, Month, Refusals)
SELECT Target, Year, Month, json_group_object(Kind, json_array(Reason, Refusals, RefusedRun)) FROM RefusedSums
 GROUP BY Target, Year, Month ON CONFLICT DO UPDATE SET Refusals = excluded.Refusals;
CREATE TABLE MonthDecisions (
  DecisionID INTEGER PRIMARY KEY, Target TEXT NOT NULL, Year INTEGER NOT NULL, Month INTEGER NOT NULL,
  Decision TEXT NOT NULL, Incarnation TEXT NOT NULL, Decided INTEGER NOT NULL, Who TEXT NOT NULL
);
INSERT INTO MonthDecisions
SELECT AcceptedID, Target, Year, Month, 'lower', Incarnation, Accepted, Who FROM AcceptedMonths;
DROP TABLE Months;
DROP TABLE HeldMonths;
DROP TABLE AcceptedMonths;
DROP TABLE OpenMonths;
DROP TABLE RefusedSums;
