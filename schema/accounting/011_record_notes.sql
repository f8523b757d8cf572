-- What the recorder left out of what a job's files say, since it was more than a job may have stored. No child of the
-- record: a note is not published, so it does not log the record anew.
CREATE TABLE RecordNotes (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,    -- a column of v1_jobs, what a job has several of (transfers, ...), or a file (local, diag, ...)
  Note     TEXT NOT NULL,
  Noted    INTEGER NOT NULL, -- s since 1970
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;
CREATE INDEX RecordNotes_Noted_IDX ON RecordNotes (Noted);

CREATE TRIGGER RecordNotes_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM RecordNotes WHERE RecordID = old.RecordID;
END;

-- One row for each thing that was left out of a record.
CREATE VIEW v1_record_notes AS
SELECT
  JobID AS job_id, -- id of the job at the computing element; AAR
  Field AS field, -- what was cut: a column of v1_jobs, what a job has several of, or a control file (local, diag, statistics); RecordNotes
  Note AS note, -- how it was cut; RecordNotes
  Noted AS noted_time, -- s since 1970: when that was recorded; RecordNotes
  strftime('%Y-%m-%dT%H:%M:%SZ', Noted, 'unixepoch') AS noted_time_iso -- noted_time as text, UTC
FROM RecordNotes
JOIN AAR USING (RecordID);
