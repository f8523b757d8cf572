-- The names under which each record was sent, so that what is taken back is what was sent. Of records that were sent
-- before, only site and submit host are known.
CREATE TABLE SentNames (
  NamesID INTEGER PRIMARY KEY, Names TEXT NOT NULL UNIQUE COLLATE NOCASE, Site TEXT NOT NULL, SubmitHost TEXT NOT NULL
);
INSERT OR IGNORE INTO SentNames (Names, Site, SubmitHost)
  SELECT json_array(Site, SubmitHost), Site, SubmitHost FROM PublishedTotals;

CREATE TABLE NewTotals (
  PublishedTotalID INTEGER PRIMARY KEY, Target TEXT NOT NULL, NamesID INTEGER NOT NULL, Year INTEGER NOT NULL,
  Month INTEGER NOT NULL, Jobs INTEGER NOT NULL DEFAULT 0, Wall INTEGER NOT NULL DEFAULT 0,
  IsSent INTEGER NOT NULL DEFAULT 0, UNIQUE (Target, NamesID, Year, Month)
);
-- Spellings that differ in case alone are two places before, and one after.
INSERT INTO NewTotals SELECT min(PublishedTotalID), Target, NamesID, Year, Month, sum(Jobs), sum(Wall), 1
  FROM PublishedTotals JOIN SentNames ON Names = json_array(PublishedTotals.Site, PublishedTotals.SubmitHost)
 GROUP BY Target, NamesID, Year, Month;
CREATE TEMP TABLE Moved AS SELECT Old.PublishedTotalID AS Old, NewTotals.PublishedTotalID AS New FROM PublishedTotals AS Old
  JOIN SentNames ON Names = json_array(Old.Site, Old.SubmitHost)
  JOIN NewTotals ON (NewTotals.Target, NewTotals.NamesID, NewTotals.Year, NewTotals.Month)
   = (Old.Target, SentNames.NamesID, Old.Year, Old.Month) WHERE Old.PublishedTotalID <> NewTotals.PublishedTotalID;
UPDATE SentRecords SET PublishedTotalID = (SELECT New FROM Moved WHERE Old = PublishedTotalID)
 WHERE PublishedTotalID IN (SELECT Old FROM Moved);
UPDATE SentRecords SET ReplacedID = (SELECT New FROM Moved WHERE Old = ReplacedID) WHERE ReplacedID IN (SELECT Old FROM Moved);
DROP TABLE Moved;
DROP TABLE PublishedTotals;
ALTER TABLE NewTotals RENAME TO PublishedTotals;
CREATE INDEX SentRecords_zeroed_groups_IDX ON SentRecords (PublishedTotalID) WHERE length(Digest) = 0;
