-- What each receiver was given, month by month, and the proof without which it is given less.

ALTER TABLE Targets ADD COLUMN Selection TEXT;   -- JSON: by what names and filters it selects, when nothing was held last
ALTER TABLE Targets ADD COLUMN Walked TEXT;      -- the same, when the log was last gone through from its beginning
ALTER TABLE Targets ADD COLUMN Counted INTEGER NOT NULL DEFAULT 0;  -- 1: Given counts everything that was accepted
ALTER TABLE Targets ADD COLUMN DoubtSeq INTEGER; -- an older ledger was put back: what was sent after this Seq is unknown
-- Cursors of this program begin with an empty Given; those that are here already are counted by the next run.

-- Job records that a receiver has, by where it counts them. Sums are counted in SumKeys.
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

CREATE INDEX Messages_republished_IDX ON Messages (Target) WHERE Origin = 'republish';

-- What a message changes in Given once it is accepted: it gives this, and takes back what it replaces.
ALTER TABLE MessageRecords ADD COLUMN GivenID INTEGER;
ALTER TABLE MessageRecords ADD COLUMN Wall INTEGER;           -- seconds, as sent
ALTER TABLE MessageRecords ADD COLUMN ReplacedID INTEGER;     -- where the receiver counted what had this key; NULL: nothing
ALTER TABLE MessageRecords ADD COLUMN ReplacedWall INTEGER;
ALTER TABLE MessageRecords ADD COLUMN ReceiverRow TEXT;       -- the receiver's own number of the record (SGAS)

ALTER TABLE SumKeys ADD COLUMN Site TEXT;
ALTER TABLE SumKeys ADD COLUMN SubmitHost TEXT;               -- as it was sent
ALTER TABLE SumKeys ADD COLUMN Wall INTEGER;                  -- seconds, as last sent; NULL: sent by an older program
ALTER TABLE SumKeys ADD COLUMN IsAdopted INTEGER NOT NULL DEFAULT 0;  -- 1: another program's, there to be taken back
UPDATE SumKeys SET Site = coalesce(json_extract(Key, '$[1]'), ''), SubmitHost = coalesce(json_extract(Key, '$[8]'), '')
 WHERE Kind <> 'sync';
UPDATE SumKeys SET Site = coalesce(json_extract(Key, '$[0]'), ''), SubmitHost = coalesce(json_extract(Key, '$[1]'), '')
 WHERE Kind = 'sync';

-- In which kind of message a receiver has a month: APEL's summariser writes each family over the others, so a month stays
-- in the one it began in. And of sums: up to where in the log, of which life of the database, they were made.
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
INSERT OR REPLACE INTO Months (Target, Year, Month, Kind)
SELECT Target, Year, Month, Kind FROM (
  SELECT Target, Year, Month, Kind, MessageID FROM SumKeys WHERE Kind <> 'sync' AND Jobs > 0
  UNION ALL
  SELECT Target, CAST(strftime('%Y', EndTime, 'unixepoch') AS INTEGER),
         CAST(strftime('%m', EndTime, 'unixepoch') AS INTEGER), Kind, max(MessageID)
    FROM Messages JOIN MessageRecords USING (MessageID)
   WHERE State IN ('accepted', 'sending') AND Kind IN ('car', 'individual', 'individual-v04')
     AND length(MessageRecords.Digest) > 0 AND EndTime BETWEEN 1 AND 253402300799
   GROUP BY 1, 2, 3, 4
) ORDER BY MessageID;
UPDATE Months SET Incarnation = (SELECT Incarnation FROM Targets WHERE Targets.Target = Months.Target);

-- Months that are not sent, since the receiver's figures would fall and nothing explains it.
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

-- What operators said about such months.
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
CREATE INDEX AcceptedMonths_IDX ON AcceptedMonths (Target, Year, Month);
