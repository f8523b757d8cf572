-- Records in which the names of users were replaced by pseudonyms. They are at their receivers as they were, and stay there:
-- such a record is never sent again, and no import gives it its names back.
CREATE TABLE ForgottenRecords (
  RecordID INTEGER PRIMARY KEY
);
CREATE TRIGGER ForgottenRecords_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM ForgottenRecords WHERE RecordID = old.RecordID;
END;

-- The months with such records (of their end, in UTC): their sums have other keys than those that receivers have, so they
-- are not sent any more.
CREATE TABLE ForgottenMonths (
  Month INTEGER PRIMARY KEY  -- 202611
);
