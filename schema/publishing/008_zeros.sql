-- Keys of job records that were sent with zeros: each sending of their month repeats them, since a receiver may lose any
-- message after it accepted it, or get an older one late. Few records are zeros, so these indexes are small.
CREATE INDEX SentRecords_zeros_IDX ON SentRecords (EndTime) WHERE length(Digest) = 0;
CREATE INDEX FormerRecords_zeros_IDX ON FormerRecords (EndTime) WHERE length(Digest) = 0;
