-- Keys of job records that were sent with zeros: each sending of their month repeats them, since a receiver may lose any
-- message after it accepted it, or get an older one late. Few records are zeros, so these indexes are small.
CREATE INDEX SentRecords_zeros_IDX ON SentRecords (EndTime) WHERE length(Digest) = 0;
CREATE INDEX FormerRecords_zeros_IDX ON FormerRecords (EndTime) WHERE length(Digest) = 0;

-- Months of which the ledger may not know what the receiver has: both databases were put back from copies. They are held
-- until an operator accepts what the database has, or until the jobs are back.
CREATE TABLE UnsureMonths (
  Target    TEXT NOT NULL,          -- '': every target, where the ledger was lost; a row of a target itself goes first
  Year      INTEGER NOT NULL,
  Month     INTEGER NOT NULL,
  Jobs      INTEGER,                -- given, as the ledger that was replaced says; NULL: nobody knows
  Since     INTEGER NOT NULL,       -- UTC seconds
  Answered  INTEGER,                -- UTC seconds: accepted, or the jobs were back; NULL: still held
  IsEarlier INTEGER NOT NULL DEFAULT 0,  -- 1: of before these months, and asked about since something touched it
  PRIMARY KEY (Target, Year, Month)
) WITHOUT ROWID;
