-- What receivers count, by month and place; what is held, accepted or not known.

-- The names under which receivers count job records, each once: what is taken back is built from them (INVARIANTS 18).
-- APEL compares them without case.
--   Names: JSON, as sent: site, submit host (SGAS: '' and the MachineName), then all others by which the receiver
--     groups jobs; site and submit host alone: a former program did not store the others
--   Site: of Names; '': none
--   SubmitHost: of Names; '': none
CREATE TABLE SentNames (
  NamesID    INTEGER PRIMARY KEY,
  Names      TEXT NOT NULL UNIQUE COLLATE NOCASE,
  Site       TEXT NOT NULL,
  SubmitHost TEXT NOT NULL
);

-- Job records that a receiver has, by the names and the month under which it counts them. Sums are in SentSummaries.
--   Year: of EndTime, UTC
--   Jobs: records that were sent with usage
--   Wall: seconds
--   IsSent: 1: the receiver has, or had, records under these names, or may have had
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

-- Sums that a receiver has of a target. What was sent under a key that no longer exists is sent again with zeros,
-- since APEL has no message to delete anything.
--   Kind: summaries, summaries-v04, ..., sync
--   Key: as the receiver compares it, JSON
--   Jobs: as last sent; 0: neutralised
--   PRIMARY: a key of two families is one key: the later message overwrites
--   SubmitHost: as it was sent
--   Wall: seconds, as last sent; NULL: sent by an older program
--   IsAdopted: 1: another program's, there to be taken back
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
CREATE INDEX SentSummaries_Month_IDX ON SentSummaries (Target, Year, Month);

-- What is known of each month of a target.
--   Target: '': every target: a lost ledger may have known the month (UncertainSince); a row of a target goes first
--   Kind: in which kind of message the receiver has the month (summaries, car, ...): APEL's summariser writes each
--     family over the others, so a month stays in the one it began in; NULL: nothing was published
--   Seq: of sums: up to where in the log they were made; NULL: published by an older program
--   Incarnation: the accounting database of Seq
--   Sent: of sums: UTC seconds
--   Cause: the month is not sent, since the receiver's figures would fall and nothing explains it: in words: what fell,
--     and what may have caused it; NULL: the month is not held
--   PublishedJobs: of a held month: what the receiver has, and what it would have (FoundJobs)
--   HeldSince: UTC seconds
--   Remedy: in words: what ends the hold, where that is neither the jobs nor an acceptance
--   AcceptedFor: an operator lets the figures fall once to those of this incarnation of the accounting database
--   IsUnfinished: 1: a sum was refused: what the receiver has is unknown, and the next run sends the month
--   Refusals: of sums that the receiver refused in the last run, JSON, by kind of message: the receiver's words, in how
--     many runs one after the other, and the number of the last of them; each run sends them again
--   UncertainSince: UTC seconds: both databases were put back from copies, so the ledger may not know what the receiver
--     has; the month is held until an operator accepts what the database has, or until the jobs are back
--   UncertainJobs: given, as the ledger that was replaced says; NULL: nobody knows
--   Answered: UTC seconds: accepted, or the jobs were back; NULL: still held
--   IsEarlier: 1: of before the uncertain months, and asked about since something touched it
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

-- What operators decided about months. Each decision stays.
--   Decision: lower: the figures may fall; switched: what jura-ng sent was taken over; declined: it was not; kept: the
--     month stays under the former names of the site
--   Incarnation: of the accounting database whose figures they accepted
--   Decided: UTC seconds
--   Who: name of the user
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
CREATE INDEX MonthDecisions_IDX ON MonthDecisions (Target, Year, Month);

-- Records that are not sent, and why: held (will be sent by itself), quarantined (the receiver would refuse it, or
-- did), correction (the receiver has an older version and keeps that), retry (an operator wants it sent with the next
-- run), dropped (an operator wants it never sent).
--   Reason: ours, or the receiver's words
--   RecordID: in the accounting database, when it was held; 0: not there, or not known
--   NextTry: UTC seconds: not before then; NULL: held until it is settled, else not by itself
--   Tried: UTC seconds: when it was held back last
--   Refusals: in so many runs the receiver refused it
--   RefusedRun: the last of them, by its number in Targets
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
