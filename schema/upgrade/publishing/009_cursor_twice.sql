-- A cursor is noted twice: where the two differ, one of them was damaged, and the log is read from its beginning.
ALTER TABLE Targets ADD COLUMN LastSeqAgain INTEGER;
UPDATE Targets SET LastSeqAgain = LastSeq;
