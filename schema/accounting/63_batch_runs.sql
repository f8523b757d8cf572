-- Runs of jobs of batch systems that have no tables of their own.

-- What a batch system itself accounts of each run of a job that is over, as its log reports it. One row for each run.
--   Source: pbs, lsf, ...: the batch system
--   RecordID: the AAR that it went into; NULL: it waits for A-REX to finish one that it may be
--   Place: server or cluster
--   Task: index in an array; -1: not an element of an array
--   StartTime: s since 1970; tells the runs of a job from each other
--   LocalJobID: as the batch system writes it
--   State: completed, failed or aborted; '': only phases of the run are reported, its end is not
--   Wall: s; NULL: not reported
--   CPUUser: s; NULL: not reported
--   MaxRSS: KiB
--   MaxVMSize: KiB
--   NodeList: joined by ","
--   Phases: END:WALL:CORES of each phase whose cores are reported, in s, joined by ","
--   CoreS: core s, where these are not Wall x CPUs
--   IsFinal: 0: the batch system says that another run follows
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
  JobName    TEXT NOT NULL,
  Phases     TEXT NOT NULL DEFAULT '',
  CoreS      INTEGER,
  IsFinal    INTEGER NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX BatchRuns_Key_IDX ON BatchRuns (JobNumber, Task, Place, StartTime, Source);
CREATE INDEX BatchRuns_RecordID_IDX ON BatchRuns (RecordID);
CREATE INDEX BatchRuns_EndTime_IDX ON BatchRuns (EndTime);
CREATE INDEX BatchRuns_Waiting_IDX ON BatchRuns (Place, JobNumber, Task) WHERE RecordID IS NULL;

-- How far the records of A-REX were looked at for each server or cluster.
--   Place: with its batch system before it: pbs:server.example.org
--   Seq: of FinishedLog
--   AskedUntil: s since 1970; of batch systems whose program is asked
CREATE TABLE BatchProgress (
  Place      TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0,
  AskedUntil INTEGER
) WITHOUT ROWID;
