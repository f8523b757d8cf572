-- What the recorder and the sweep remember of each job's status file: recording is monotone in its time, and the sweep
-- reads a job's files again only when the status file is another one.
CREATE TABLE StatusFiles (
  RecordID INTEGER PRIMARY KEY,
  State    TEXT NOT NULL,     -- the last state recorded
  EventNs  INTEGER NOT NULL,  -- its time, nanoseconds since 1970
  Size     INTEGER,           -- identity of the status file that the sweep has read; NULL: only the hook saw it
  MTimeNs  INTEGER,
  CTimeNs  INTEGER
);

-- One row that a publisher changes with synchronous=FULL before it reads: all that was committed earlier is on disk
-- then, so no power cut can take back a record that was published, nor give its Seq to another.
CREATE TABLE Fence (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Horizon INTEGER NOT NULL,   -- the highest Seq at the last fence
  Passed  INTEGER NOT NULL    -- how many fences there were: the row changes each time
);
INSERT INTO Fence VALUES (1, 0, 0);
