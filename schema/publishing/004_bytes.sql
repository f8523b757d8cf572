-- Which messages still have their bytes: looking for those to forget must not read the whole ledger.
CREATE INDEX Messages_Bytes_IDX ON Messages (Answered) WHERE Bytes IS NOT NULL;
