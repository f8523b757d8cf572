-- How far the import of each database that A-REX writes has come, so that the next import looks only at what is new.
CREATE TABLE ImportedFiles (
  FileID   INTEGER PRIMARY KEY,
  Origin   TEXT NOT NULL UNIQUE,  -- absolute path
  RecordID INTEGER NOT NULL,      -- in that file: the highest that was looked at, and its job, which tells whether the
  JobID    TEXT NOT NULL,         --   file is still the same one
  EventRow INTEGER NOT NULL,      -- in that file: the last row of JobEvents that was looked at, and what it said:
  Event    TEXT NOT NULL,         --   whatever happens to a job adds rows to it
  Stamp    TEXT NOT NULL,         -- size, times and change counter of a file that was imported to its end; '': unknown
  Imported INTEGER NOT NULL       -- when, UTC seconds
);

-- Records of such a file that were not at their end when they were looked at.
CREATE TABLE ImportPending (
  FileID   INTEGER NOT NULL,
  RecordID INTEGER NOT NULL,      -- in that file
  PRIMARY KEY (FileID, RecordID)
) WITHOUT ROWID;

-- Where pruned jobs went. An import looks there before it takes over a job that ended before then: a pruned job is
-- counted and published already, and must not come back.
CREATE TABLE Archives (
  Path        TEXT PRIMARY KEY,
  EndedBefore INTEGER NOT NULL,   -- UTC seconds: no job in it ended at this time or later
  Jobs        INTEGER NOT NULL,
  Pruned      INTEGER NOT NULL    -- when, UTC seconds
);
