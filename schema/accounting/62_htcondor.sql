-- Jobs of HTCondor's history.

-- What HTCondor itself accounts, as its history tells it: each job that had started and left the queue.
--
-- One row for each job. HTCondor knows a job by GlobalJobId: schedd, cluster, process, and when that was made.
--   RecordID: the AAR that it went into; NULL: it waits for A-REX to finish one that it may be
--   Queued: s since 1970, the last part of GlobalJobId
--   SubmitTime: QDate
--   JobStatus: 3: removed; 4: completed
--   StartTime: of the first run
--   Wall: s of all runs, with suspensions
--   CPUUser: s of all runs; NULL: not known of all
--   MaxRSS: KiB
--   MaxVMSize: KiB
--   MemoryMiB: that it was given
--   TokenSubject: The token that a job of HTCondor was submitted with; '': none, or not told. TokenSubject NULL: it
--     was read before tokens were, and its record does not say whose it is by its token.
--   TokenID: NULL: forgotten
CREATE TABLE HTCondorJobs (
  JobNo        INTEGER PRIMARY KEY,
  RecordID     INTEGER,
  Schedd       TEXT NOT NULL,
  Cluster      INTEGER NOT NULL,
  Proc         INTEGER NOT NULL,
  Queued       INTEGER NOT NULL,
  SubmitTime   INTEGER NOT NULL,
  JobStatus    INTEGER NOT NULL,
  StartTime    INTEGER NOT NULL,
  LastStart    INTEGER,
  EndTime      INTEGER NOT NULL,
  Wall         INTEGER NOT NULL,
  Starts       INTEGER,
  CPUs         INTEGER NOT NULL,
  GPUs         INTEGER,
  CPUUser      INTEGER,
  CPUKernel    INTEGER,
  MaxRSS       INTEGER,
  MaxVMSize    INTEGER,
  MemoryMiB    INTEGER,
  ExitStatus   INTEGER,
  ExitSignal   INTEGER,
  Hosts        TEXT NOT NULL,
  UserName     TEXT NOT NULL,
  Account      TEXT NOT NULL,
  Project      TEXT NOT NULL,
  JobName      TEXT NOT NULL,
  QueueName    TEXT NOT NULL,
  UserDN       TEXT NOT NULL,
  VO           TEXT NOT NULL,
  FQAN         TEXT NOT NULL,
  Benchmark    TEXT NOT NULL,
  TokenSubject TEXT,
  TokenIssuer  TEXT NOT NULL DEFAULT '',
  TokenGroups  TEXT NOT NULL DEFAULT '',
  TokenScopes  TEXT NOT NULL DEFAULT '',
  TokenID      TEXT DEFAULT ''
);
CREATE UNIQUE INDEX HTCondorJobs_Key_IDX ON HTCondorJobs (Cluster, Proc, Schedd, Queued);
CREATE INDEX HTCondorJobs_RecordID_IDX ON HTCondorJobs (RecordID);
CREATE INDEX HTCondorJobs_EndTime_IDX ON HTCondorJobs (EndTime);
CREATE INDEX HTCondorJobs_Waiting_IDX ON HTCondorJobs (Schedd, Cluster, Proc) WHERE RecordID IS NULL;

-- How far the records of A-REX were looked at for each schedd, and until when condor_history was asked.
--   Seq: of FinishedLog
--   AskedUntil: s since 1970
CREATE TABLE HTCondorProgress (
  Schedd     TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0,
  AskedUntil INTEGER
) WITHOUT ROWID;
