-- Where a record came from, when it was not A-REX's control directory.
CREATE TABLE RecordSources (
  RecordID INTEGER PRIMARY KEY,
  Source   TEXT NOT NULL,  -- arex (its own database), gridengine, slurm
  Origin   TEXT NOT NULL   -- the file, cell or cluster
);

-- Where single values came from, when it was not where the record came from: an enrichment, a default.
CREATE TABLE FieldSources (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,  -- a column of v1_jobs, e.g. benchmark, memory_kib
  Source   TEXT NOT NULL,  -- arc.conf, gridengine, sonar, features, ...
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;
