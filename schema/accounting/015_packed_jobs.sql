-- The outbox: the values of a finished job with its children in one piece, so that publishing reads one row for it and
-- not all of its tables. Written with the final status, by who has the values in hand; gone once every target has had the
-- record. What is not here is read from the tables, which are what counts.
CREATE TABLE PackedJob (
  RecordID INTEGER PRIMARY KEY,
  Seq      INTEGER NOT NULL,  -- of FinishedLog: a record that has moved there since is none of this pack's
  Version  INTEGER NOT NULL,  -- of the layout of Data
  Digest   BLOB NOT NULL,     -- of Data: what tells versions of a record apart, and that these bytes are what was written
  Data     BLOB NOT NULL
);

-- No value changes under its pack: what does not move the log, and is published, are the times of three events.
CREATE TRIGGER PackedJob_JobEvents_insert AFTER INSERT ON JobEvents
WHEN new.EventKey IN ('SUBMIT', 'LRMSSTART', 'LRMSEND')
BEGIN
  DELETE FROM PackedJob WHERE RecordID = new.RecordID;
END;
CREATE TRIGGER PackedJob_JobEvents_update AFTER UPDATE ON JobEvents
BEGIN
  DELETE FROM PackedJob WHERE RecordID IN (old.RecordID, new.RecordID);
END;
CREATE TRIGGER PackedJob_JobEvents_delete AFTER DELETE ON JobEvents
BEGIN
  DELETE FROM PackedJob WHERE RecordID = old.RecordID;
END;

-- A child that is given to another record changes the one that it is taken from, too; and so does one whose place among
-- its like changes: of several of a kind the first counts.
DROP TRIGGER FinishedLog_AuthTokenAttributes_update;
CREATE TRIGGER FinishedLog_AuthTokenAttributes_update AFTER UPDATE ON AuthTokenAttributes
WHEN (old.rowid, old.RecordID, old.AttrKey, old.AttrValue)
 IS NOT (new.rowid, new.RecordID, new.AttrKey, new.AttrValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
DROP TRIGGER FinishedLog_RunTimeEnvironments_update;
CREATE TRIGGER FinishedLog_RunTimeEnvironments_update AFTER UPDATE ON RunTimeEnvironments
WHEN (old.rowid, old.RecordID, old.RTEName)
 IS NOT (new.rowid, new.RecordID, new.RTEName)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
DROP TRIGGER FinishedLog_DataTransfers_update;
CREATE TRIGGER FinishedLog_DataTransfers_update AFTER UPDATE ON DataTransfers
WHEN (old.rowid, old.RecordID, old.URL, old.FileSize, old.TransferStart, old.TransferEnd, old.TransferType)
 IS NOT (new.rowid, new.RecordID, new.URL, new.FileSize, new.TransferStart, new.TransferEnd, new.TransferType)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
DROP TRIGGER FinishedLog_JobExtraInfo_update;
CREATE TRIGGER FinishedLog_JobExtraInfo_update AFTER UPDATE ON JobExtraInfo
WHEN (old.rowid, old.RecordID, old.InfoKey, old.InfoValue)
 IS NOT (new.rowid, new.RecordID, new.InfoKey, new.InfoValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;

-- Up to here nothing is packed: what an older program recorded.
INSERT INTO DBConfig SELECT 'ARCACCT_PACKS_AFTER', coalesce(max(Seq), 0) FROM FinishedLog;
