-- What HTCondor itself accounts, as its history tells it: each job that had started and left the queue.

-- One row for each job. HTCondor knows a job by GlobalJobId: schedd, cluster, process, and when that was made.
CREATE TABLE HTCondorJobs (
  JobNo          INTEGER PRIMARY KEY,
  RecordID       INTEGER,          -- the AAR that it went into; NULL: it waits for A-REX to finish one that it may be
  Schedd         TEXT NOT NULL,
  Cluster        INTEGER NOT NULL,
  Proc           INTEGER NOT NULL,
  Queued         INTEGER NOT NULL, -- s since 1970, the last part of GlobalJobId
  SubmitTime     INTEGER NOT NULL, -- QDate
  JobStatus      INTEGER NOT NULL, -- 3: removed; 4: completed
  StartTime      INTEGER NOT NULL, -- of the first run
  LastStart      INTEGER,
  EndTime        INTEGER NOT NULL,
  Wall           INTEGER NOT NULL, -- s of all runs, with suspensions
  Starts         INTEGER,
  CPUs           INTEGER NOT NULL,
  GPUs           INTEGER,
  CPUUser        INTEGER,          -- s of all runs; NULL: not known of all
  CPUKernel      INTEGER,
  MaxRSS         INTEGER,          -- KiB
  MaxVMSize      INTEGER,          -- KiB
  MemoryMiB      INTEGER,          -- that it was given
  ExitStatus     INTEGER,
  ExitSignal     INTEGER,
  Hosts          TEXT NOT NULL,
  UserName       TEXT NOT NULL,
  Account        TEXT NOT NULL,
  Project        TEXT NOT NULL,
  JobName        TEXT NOT NULL,
  QueueName      TEXT NOT NULL,
  UserDN         TEXT NOT NULL,
  VO             TEXT NOT NULL,
  FQAN           TEXT NOT NULL,
  Benchmark      TEXT NOT NULL
);
CREATE UNIQUE INDEX HTCondorJobs_Key_IDX ON HTCondorJobs (Cluster, Proc, Schedd, Queued);
CREATE INDEX HTCondorJobs_RecordID_IDX ON HTCondorJobs (RecordID);
CREATE INDEX HTCondorJobs_EndTime_IDX ON HTCondorJobs (EndTime);
CREATE INDEX HTCondorJobs_GPUs_IDX ON HTCondorJobs (RecordID) WHERE GPUs > 0;
CREATE INDEX HTCondorJobs_Waiting_IDX ON HTCondorJobs (Schedd, Cluster, Proc) WHERE RecordID IS NULL;

-- How far the records of A-REX were looked at for each schedd, and until when condor_history was asked.
CREATE TABLE HTCondorProgress (
  Schedd     TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0, -- of FinishedLog
  AskedUntil INTEGER                     -- s since 1970
) WITHOUT ROWID;

-- One row for each job of HTCondor that had started and left the queue, as its history tells it.
CREATE VIEW v1_htcondor_jobs AS
SELECT
  JobNo AS job_no, -- number of the row; HTCondorJobs
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none yet; AAR
  Schedd AS schedd, -- schedd that it was submitted to
  CAST(Cluster || '.' || Proc AS TEXT) AS htcondor_job, -- HTCondor's number of the job: cluster.process
  CAST(CASE JobStatus WHEN 3 THEN 'removed' ELSE 'completed' END AS TEXT) AS state, -- completed or removed
  HTCondorJobs.SubmitTime AS submit_time, -- s since 1970: submitted
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970: its first run began
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  LastStart AS last_start_time, -- s since 1970: its last run began
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', LastStart, 'unixepoch') AS TEXT) AS last_start_time_iso, -- last_start_time as text
  HTCondorJobs.EndTime AS end_time, -- s since 1970: completed or removed
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.EndTime, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  Wall AS wall_s, -- s that it ran, all runs together, with suspensions
  Starts AS starts, -- how often it was started
  CPUs AS cpus, -- CPUs that it was given, of all nodes
  GPUs AS gpus, -- GPUs that it was given; NULL: not said
  CPUUser AS cpu_user_s, -- s of CPU time in user mode, all runs together; NULL: not known of all
  CPUKernel AS cpu_kernel_s, -- s of CPU time in the kernel, all runs together; NULL: not known of all
  MaxRSS AS max_memory_kib, -- KiB of resident memory at most
  MaxVMSize AS max_virtual_memory_kib, -- KiB of virtual memory at most
  MemoryMiB AS memory_mib, -- MiB of memory that it was given
  ExitStatus AS exit_status, -- exit status; NULL: not known
  ExitSignal AS exit_signal, -- signal that ended it; 0: none; NULL: not known
  Hosts AS hosts, -- slots of its last run, slot@node, joined by ","
  UserName AS user_name, -- account that the job ran under
  Account AS account, -- accounting group
  Project AS project, -- project (ProjectName)
  JobName AS job_name, -- name that the user gave the batch of jobs
  QueueName AS queue, -- queue of A-REX that it came through
  UserDN AS user_dn, -- distinguished name of the proxy that it was submitted with
  VO AS vo, -- virtual organisation of that proxy
  FQAN AS fqan, -- main VOMS attribute of that proxy
  Benchmark AS benchmark, -- benchmark of a core of its machine, by the machine's own attribute
  CAST(Wall * CPUs AS INTEGER) AS core_s -- s that it ran, times CPUs
FROM HTCondorJobs LEFT JOIN AAR ON AAR.RecordID = HTCondorJobs.RecordID;
