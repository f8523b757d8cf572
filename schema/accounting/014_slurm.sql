-- What Slurm itself accounts, as sacct prints it: each run of a job that is over, with what its steps used together.

-- One row for each run. Slurm knows a run by its number and its time of submission, which a requeue sets anew.
CREATE TABLE SlurmRuns (
  RunNo          INTEGER PRIMARY KEY,
  RecordID       INTEGER,          -- the AAR that it went into; NULL: it waits for A-REX to finish one that it may be
  Cluster        TEXT NOT NULL,
  JobID          INTEGER NOT NULL, -- of an element of an array, or a component of a heterogeneous job, its own
  SubmitTime     INTEGER NOT NULL, -- s since 1970
  ShownID        TEXT NOT NULL,
  State          TEXT NOT NULL,
  StartTime      INTEGER NOT NULL,
  EndTime        INTEGER NOT NULL,
  Elapsed        INTEGER NOT NULL, -- s, without suspensions
  ExitStatus     INTEGER,
  ExitSignal     INTEGER,
  CPUs           INTEGER NOT NULL,
  Nodes          INTEGER,
  NodeList       TEXT NOT NULL,
  QPartition     TEXT NOT NULL,
  UserName       TEXT NOT NULL,
  GroupName      TEXT NOT NULL,
  Account        TEXT NOT NULL,
  QOS            TEXT NOT NULL,
  WCKey          TEXT NOT NULL,
  JobName        TEXT NOT NULL,
  AllocTRES      TEXT NOT NULL,
  CPUUs          INTEGER,          -- user and kernel; NULL: sacct was asked without steps
  CPUKernelUs    INTEGER,
  MaxRSS         INTEGER,          -- KiB, of the task that used most
  MaxVMSize      INTEGER           -- KiB
);
CREATE UNIQUE INDEX SlurmRuns_Key_IDX ON SlurmRuns (JobID, Cluster, SubmitTime);
CREATE INDEX SlurmRuns_RecordID_IDX ON SlurmRuns (RecordID);
CREATE INDEX SlurmRuns_EndTime_IDX ON SlurmRuns (EndTime);
CREATE INDEX SlurmRuns_Waiting_IDX ON SlurmRuns (Cluster, JobID) WHERE RecordID IS NULL;

-- How far the records of A-REX were looked at for each cluster, and until when sacct was asked.
CREATE TABLE SlurmProgress (
  Cluster    TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0, -- of FinishedLog
  AskedUntil INTEGER                     -- s since 1970
) WITHOUT ROWID;

-- One row for each run of a job of Slurm that is over, as sacct tells it.
CREATE VIEW v1_slurm_runs AS
SELECT
  SlurmRuns.RunNo AS run_no, -- number of the row; SlurmRuns
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none yet; AAR
  Cluster AS cluster, -- cluster that it is from
  SlurmRuns.JobID AS slurm_job_id, -- Slurm's number of the job; a job that was requeued has several runs
  ShownID AS slurm_job, -- as sacct shows it: array_index, or job+offset of a heterogeneous job
  State AS state, -- Slurm's state, e.g. COMPLETED
  SlurmRuns.SubmitTime AS submit_time, -- s since 1970: submitted, or requeued
  strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.SubmitTime, 'unixepoch') AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970: began to run
  strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS start_time_iso, -- start_time as text
  SlurmRuns.EndTime AS end_time, -- s since 1970: ended
  strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.EndTime, 'unixepoch') AS end_time_iso, -- end_time as text
  Elapsed AS elapsed_s, -- s that it ran, without those that it was suspended
  ExitStatus AS exit_status, -- exit status of the job script; NULL: not known
  ExitSignal AS exit_signal, -- signal that ended it; 0: none; NULL: not known
  CPUs AS cpus, -- CPUs that it was given
  Nodes AS nodes, -- nodes that it was given
  NodeList AS node_list, -- their names, in brackets
  QPartition AS partition, -- partition
  UserName AS user_name, -- account that the job ran under
  GroupName AS group_name, -- group that the job ran under
  Account AS account, -- Slurm's account (project)
  QOS AS qos, -- quality of service
  WCKey AS wckey, -- workload characterization key
  JobName AS job_name, -- name that the user gave the job
  AllocTRES AS allocated_tres, -- trackable resources that it was given, GPUs among them
  CPUUs / 1e6 AS cpu_s, -- s of CPU time of all steps; NULL: sacct was asked without steps
  CPUKernelUs / 1e6 AS cpu_kernel_s, -- s of it in the kernel
  MaxRSS AS max_memory_kib, -- KiB of resident memory, of the task that used most
  MaxVMSize AS max_virtual_memory_kib, -- KiB of virtual memory, of the task that used most
  Elapsed * CPUs AS core_s -- s that it ran, times CPUs: what sreport sums
FROM SlurmRuns LEFT JOIN AAR ON AAR.RecordID = SlurmRuns.RecordID;
