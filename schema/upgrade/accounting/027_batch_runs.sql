-- Runs of jobs of batch systems that have no tables of their own (PBS, LSF).
CREATE TABLE BatchRuns (
  RunNo      INTEGER PRIMARY KEY,
  Source     TEXT NOT NULL,
  RecordID   INTEGER,
  Place      TEXT NOT NULL,
  JobNumber  INTEGER NOT NULL,
  Task       INTEGER NOT NULL,
  StartTime  INTEGER NOT NULL,
  SubmitTime INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  LocalJobID TEXT NOT NULL,
  State      TEXT NOT NULL,
  Wall       INTEGER,
  CPUUser    INTEGER,
  CPUKernel  INTEGER,
  CPUs       INTEGER,
  GPUs       REAL,
  MaxRSS     INTEGER,
  MaxVMSize  INTEGER,
  ExitStatus INTEGER,
  ExitSignal INTEGER,
  NodeList   TEXT NOT NULL,
  QueueName  TEXT NOT NULL,
  UserName   TEXT NOT NULL,
  GroupName  TEXT NOT NULL,
  Account    TEXT NOT NULL,
  Project    TEXT NOT NULL,
  JobName    TEXT NOT NULL
);
CREATE UNIQUE INDEX BatchRuns_Key_IDX ON BatchRuns (JobNumber, Task, Place, StartTime, Source);
CREATE INDEX BatchRuns_RecordID_IDX ON BatchRuns (RecordID);
CREATE INDEX BatchRuns_EndTime_IDX ON BatchRuns (EndTime);
CREATE INDEX BatchRuns_Waiting_IDX ON BatchRuns (Place, JobNumber, Task) WHERE RecordID IS NULL;

CREATE TABLE BatchProgress (
  Place      TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0,
  AskedUntil INTEGER
) WITHOUT ROWID;
