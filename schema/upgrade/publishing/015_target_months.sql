-- One row for a month of a target, and one log of what operators decided.
CREATE TABLE TargetMonths (
  Target TEXT NOT NULL, Year INTEGER NOT NULL, Month INTEGER NOT NULL, Kind TEXT, Seq INTEGER, Incarnation TEXT,
  Sent INTEGER, Cause TEXT, PublishedJobs INTEGER, FoundJobs INTEGER, HeldSince INTEGER, Remedy TEXT, AcceptedFor TEXT,
  IsUnfinished INTEGER NOT NULL DEFAULT 0, Refusals TEXT NOT NULL DEFAULT '{}', UncertainSince INTEGER,
  UncertainJobs INTEGER, Answered INTEGER, IsEarlier INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
INSERT INTO TargetMonths (Target, Year, Month, Kind, Seq, Incarnation, Sent)
SELECT Target, Year, Month, Kind, Seq, Incarnation, Sent FROM MonthFormats;
INSERT INTO TargetMonths (Target, Year, Month, Cause, PublishedJobs, FoundJobs, HeldSince, Remedy)
SELECT Target, Year, Month, Cause, PublishedJobs, FoundJobs, Since, Remedy FROM HeldMonths WHERE true
    ON CONFLICT DO UPDATE SET Cause = excluded.Cause, PublishedJobs = excluded.PublishedJobs,
       FoundJobs = excluded.FoundJobs, HeldSince = excluded.HeldSince, Remedy = excluded.Remedy;
-- In the order of the decisions, so that the last one counts.
INSERT INTO TargetMonths (Target, Year, Month, AcceptedFor)
SELECT Target, Year, Month, Incarnation FROM AcceptedDecreases WHERE IsOpen ORDER BY AcceptedID
    ON CONFLICT DO UPDATE SET AcceptedFor = excluded.AcceptedFor;
INSERT INTO TargetMonths (Target, Year, Month, IsUnfinished)
SELECT Target, Year, Month, 1 FROM UnfinishedMonths WHERE true ON CONFLICT DO UPDATE SET IsUnfinished = 1;
INSERT INTO TargetMonths (Target, Year, Month, Refusals)
SELECT Target, Year, Month, json_group_object(Kind, json_array(Reason, Refusals, RefusedRun)) FROM RefusedSummaries
 GROUP BY Target, Year, Month ON CONFLICT DO UPDATE SET Refusals = excluded.Refusals;
INSERT INTO TargetMonths (Target, Year, Month, UncertainSince, UncertainJobs, Answered, IsEarlier)
SELECT Target, Year, Month, Since, Jobs, Answered, IsEarlier FROM UncertainMonths WHERE true
    ON CONFLICT DO UPDATE SET UncertainSince = excluded.UncertainSince, UncertainJobs = excluded.UncertainJobs,
       Answered = excluded.Answered, IsEarlier = excluded.IsEarlier;

CREATE TABLE MonthDecisions (
  DecisionID INTEGER PRIMARY KEY, Target TEXT NOT NULL, Year INTEGER NOT NULL, Month INTEGER NOT NULL,
  Decision TEXT NOT NULL, Incarnation TEXT NOT NULL, Decided INTEGER NOT NULL, Who TEXT NOT NULL
);
INSERT INTO MonthDecisions
SELECT AcceptedID, Target, Year, Month, Decision, Incarnation, Accepted, Who FROM AcceptedDecreases;

DROP TABLE MonthFormats;
DROP TABLE HeldMonths;
DROP TABLE AcceptedDecreases;
DROP TABLE UnfinishedMonths;
DROP TABLE RefusedSummaries;
DROP TABLE UncertainMonths;

-- A run now notes more about the records of held months; the first one after the upgrade reads the whole log.
DELETE FROM DBConfig WHERE KeyName GLOB 'WAITING_RECORDS *';
CREATE INDEX MonthDecisions_IDX ON MonthDecisions (Target, Year, Month);
