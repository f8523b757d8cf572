-- What is set aside and tried again by itself, and when; a receiver's refusal is believed when it repeats in a later run.

ALTER TABLE Targets ADD COLUMN Runs INTEGER NOT NULL DEFAULT 0;             -- how many there were

ALTER TABLE HeldRecords ADD COLUMN NextTry INTEGER;                         -- UTC seconds: not before then; NULL: held until it is settled, else not by itself
ALTER TABLE HeldRecords ADD COLUMN Tried INTEGER;                           -- UTC seconds: when it was held back last
ALTER TABLE HeldRecords ADD COLUMN Refusals INTEGER NOT NULL DEFAULT 0;     -- in so many runs the receiver refused it
ALTER TABLE HeldRecords ADD COLUMN RefusedRun INTEGER NOT NULL DEFAULT 0;   -- the last of them, by its number in Targets
-- An older program believed every refusal at once, and its own for ever: the next run tries all of them again.
UPDATE HeldRecords SET NextTry = 0, Refusals = Reason LIKE 'refused by the receiver: %' WHERE State = 'quarantined';

-- Sums that the receiver refused in the last run; each run sends them again.
CREATE TABLE RefusedSums (
  Target     TEXT NOT NULL,
  Kind       TEXT NOT NULL,
  Year       INTEGER NOT NULL,
  Month      INTEGER NOT NULL,
  Reason     TEXT NOT NULL,             -- the receiver's words
  Refusals   INTEGER NOT NULL,          -- in so many runs, one after the other
  RefusedRun INTEGER NOT NULL,
  Since      INTEGER NOT NULL,
  PRIMARY KEY (Target, Kind, Year, Month)
) WITHOUT ROWID;

DROP VIEW v1_quarantine;
-- One row for each record that a target is not sent, and why.
CREATE VIEW v1_quarantine AS
SELECT
  Target AS target, -- block of the configuration; HeldRecords
  JobID AS job_id, -- the job; HeldRecords
  State AS state, -- held (goes by itself), quarantined, correction, retry or dropped; HeldRecords
  Reason AS reason, -- why, in our words or the receiver's; HeldRecords
  Attempts AS attempts, -- how often it was held back again; HeldRecords
  EndTime AS end_time, -- s since 1970: end_time of the job; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS end_time_iso, -- end_time as text
  Since AS since_time, -- s since 1970: first held back; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', Since, 'unixepoch') AS since_time_iso, -- since_time as text
  NextTry AS next_try_time, -- s since 1970: a run tries it again from then on; NULL: once it is settled, or not by itself; HeldRecords
  strftime('%Y-%m-%dT%H:%M:%SZ', NextTry, 'unixepoch') AS next_try_time_iso, -- next_try_time as text
  Refusals AS refusals -- in so many runs the receiver refused it; HeldRecords
FROM HeldRecords;
