-- Jobs of Slurm's sacct.

-- What Slurm knew of each run of a job (JobStep '') and of each of its steps, all reports merged field by field.
--   JobID: of an array or heterogeneous job the one of the element
--   JobStep: '' for the job itself
--   Run: StartTime; 0 as long as it did not start. A requeued job has several
--   JobState: first word of Slurm's state
--   TimeLimitS: -1: unlimited
--   Nodes: in brackets, as Slurm lists them
--   MinCPUS: from here on what sacct says; CPU in seconds
--   SystemCPUS: a lower bound: Sonar loses the seconds of times with fractions
--   UserCPUS: the same
--   FieldTimes: JSON: when each field was said, so that reports may come in any order
CREATE TABLE SlurmJobs (
  ClusterID              INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID                  INTEGER NOT NULL,
  JobStep                TEXT NOT NULL,
  Run                    INTEGER NOT NULL,
  JobName                TEXT,
  JobState               TEXT,
  ArrayJobID             INTEGER,
  ArrayTaskID            INTEGER,
  HetJobID               INTEGER,
  HetJobOffset           INTEGER,
  UserName               TEXT,
  Account                TEXT,
  SubmitTime             INTEGER,
  TimeLimitS             INTEGER,
  Partition              TEXT,
  Reservation            TEXT,
  Nodes                  TEXT,
  Priority               INTEGER,
  Distribution           TEXT,
  GresDetail             TEXT,
  RequestedResources     TEXT,
  AllocatedResources     TEXT,
  RequestedCPUs          INTEGER,
  MinimumCPUsPerNode     INTEGER,
  RequestedMemoryPerNode INTEGER,
  RequestedNodeCount     INTEGER,
  StartTime              INTEGER,
  SuspendTimeS           INTEGER,
  EndTime                INTEGER,
  ExitCode               INTEGER,
  MinCPUS                INTEGER,
  AllocTRES              TEXT,
  AveCPUS                INTEGER,
  AveDiskRead            INTEGER,
  AveDiskWrite           INTEGER,
  AveRSS                 INTEGER,
  AveVMSize              INTEGER,
  ElapsedRawS            INTEGER,
  SystemCPUS             INTEGER,
  UserCPUS               INTEGER,
  MaxRSS                 INTEGER,
  MaxVMSize              INTEGER,
  FieldTimes             TEXT NOT NULL,
  PRIMARY KEY (ClusterID, JobID, JobStep, Run)
) WITHOUT ROWID;

-- Which number an element of one of Slurm's arrays has.
CREATE INDEX SlurmJobs_Array_IDX ON SlurmJobs (ArrayJobID, ArrayTaskID) WHERE ArrayJobID IS NOT NULL;

-- What Slurm itself accounts, as sacct prints it: each run of a job that is over, with what its steps used together.
--
-- One row for each run. Slurm knows a run by its number and its time of submission, which a requeue sets anew.
--   RecordID: the AAR that it went into; NULL: it waits for A-REX to finish one that it may be
--   JobID: of an element of an array, or a component of a heterogeneous job, its own
--   SubmitTime: s since 1970
--   Elapsed: s, without suspensions
--   CPUUs: user and kernel; NULL: sacct was asked without steps
--   MaxRSS: KiB, of the task that used most
--   MaxVMSize: KiB
CREATE TABLE SlurmRuns (
  RunNo       INTEGER PRIMARY KEY,
  RecordID    INTEGER,
  Cluster     TEXT NOT NULL,
  JobID       INTEGER NOT NULL,
  SubmitTime  INTEGER NOT NULL,
  ShownID     TEXT NOT NULL,
  State       TEXT NOT NULL,
  StartTime   INTEGER NOT NULL,
  EndTime     INTEGER NOT NULL,
  Elapsed     INTEGER NOT NULL,
  ExitStatus  INTEGER,
  ExitSignal  INTEGER,
  CPUs        INTEGER NOT NULL,
  Nodes       INTEGER,
  NodeList    TEXT NOT NULL,
  QPartition  TEXT NOT NULL,
  UserName    TEXT NOT NULL,
  GroupName   TEXT NOT NULL,
  Account     TEXT NOT NULL,
  QOS         TEXT NOT NULL,
  WCKey       TEXT NOT NULL,
  JobName     TEXT NOT NULL,
  AllocTRES   TEXT NOT NULL,
  CPUUs       INTEGER,
  CPUKernelUs INTEGER,
  MaxRSS      INTEGER,
  MaxVMSize   INTEGER
);
CREATE UNIQUE INDEX SlurmRuns_Key_IDX ON SlurmRuns (JobID, Cluster, SubmitTime);
CREATE INDEX SlurmRuns_RecordID_IDX ON SlurmRuns (RecordID);
CREATE INDEX SlurmRuns_EndTime_IDX ON SlurmRuns (EndTime);
CREATE INDEX SlurmRuns_Waiting_IDX ON SlurmRuns (Cluster, JobID) WHERE RecordID IS NULL;

-- How far the records of A-REX were looked at for each cluster, and until when sacct was asked.
--   Seq: of FinishedLog
--   AskedUntil: s since 1970
CREATE TABLE SlurmProgress (
  Cluster    TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0,
  AskedUntil INTEGER
) WITHOUT ROWID;
