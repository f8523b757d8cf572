-- Telemetry by run: a batch system uses a number again, so the samples of a number are divided among its runs.

-- Tables anew, since the run is part of what is unique. What was there is divided as soon as a sample, a report or a
-- record of its number comes; numbers with several records are listed below.
DROP VIEW v1_sampled_jobs;
DROP VIEW v1_job_accelerators;
DROP VIEW v1_job_commands;
CREATE TABLE NewJobUsage (
  SampledJobID       INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID             INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour               INTEGER NOT NULL,
  RunStart           INTEGER NOT NULL,  -- start of the run that holds these samples; 0: no known run, or no batch job
  UserName           TEXT NOT NULL,
  Samples            INTEGER NOT NULL,
  FirstTime          INTEGER NOT NULL,
  LastTime           INTEGER NOT NULL,
  Starts             INTEGER NOT NULL,  -- 1: a process group starts here; these reuse numbers, too
  CPUS               INTEGER NOT NULL,
  ReadKiB            INTEGER NOT NULL,
  WrittenKiB         INTEGER NOT NULL,
  PeakMemory         INTEGER NOT NULL,
  PeakVirtMem        INTEGER NOT NULL,
  PeakProcesses      INTEGER NOT NULL,
  PeakThreads        INTEGER NOT NULL,
  CancelledKiB       INTEGER NOT NULL,
  InContainer        INTEGER NOT NULL,
  CPUAvgPercent      REAL,              -- as the two below: means over the samples; NULL: not kept, or not reported
  CPUUtilPercent     REAL,
  PeakCPUUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart)
) WITHOUT ROWID;
INSERT INTO NewJobUsage
  SELECT SampledJobID, NodeID, Hour, 0, UserName, Samples, FirstTime, LastTime, Starts, CPUS, ReadKiB, WrittenKiB,
         PeakMemory, PeakVirtMem, PeakProcesses, PeakThreads, CancelledKiB, InContainer, CPUAvgPercent, CPUUtilPercent,
         PeakCPUUtilPercent
    FROM JobUsage;
DROP TABLE JobUsage;
ALTER TABLE NewJobUsage RENAME TO JobUsage;

CREATE TABLE NewJobCardUsage (
  SampledJobID      INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID            INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour              INTEGER NOT NULL,
  RunStart          INTEGER NOT NULL,
  UUID              TEXT NOT NULL,
  Samples           INTEGER NOT NULL,
  OccupiedS         REAL NOT NULL,
  BusyS             REAL NOT NULL,
  EnergyJ           REAL,              -- NULL: the card did not report its power
  PeakMemory        INTEGER NOT NULL,
  CardIndex         INTEGER,
  MemoryUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart, UUID)
) WITHOUT ROWID;
INSERT INTO NewJobCardUsage
  SELECT SampledJobID, NodeID, Hour, 0, UUID, Samples, OccupiedS, BusyS, EnergyJ, PeakMemory, CardIndex,
         MemoryUtilPercent
    FROM JobCardUsage;
DROP TABLE JobCardUsage;
ALTER TABLE NewJobCardUsage RENAME TO JobCardUsage;

CREATE TABLE NewJobCommandUsage (
  SampledJobID   INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID         INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour           INTEGER NOT NULL,
  RunStart       INTEGER NOT NULL,
  Command        TEXT NOT NULL,
  Samples        INTEGER NOT NULL,  -- in which it ran
  PeakProcesses  INTEGER NOT NULL,
  PeakMemory     INTEGER NOT NULL,  -- the largest sum over its processes
  CPUAvgPercent  REAL NOT NULL,     -- means over these samples of the sums over its processes
  CPUUtilPercent REAL,              -- NULL: not reported
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart, Command)
) WITHOUT ROWID;
INSERT INTO NewJobCommandUsage
  SELECT SampledJobID, NodeID, Hour, 0, Command, Samples, PeakProcesses, PeakMemory, CPUAvgPercent, CPUUtilPercent
    FROM JobCommandUsage;
DROP TABLE JobCommandUsage;
ALTER TABLE NewJobCommandUsage RENAME TO JobCommandUsage;

-- Records whose telemetry the next import of telemetry looks at again, beside those that FinishedLog names.
CREATE TABLE TelemetryToDivide (
  RecordID INTEGER PRIMARY KEY
);
-- Before this script each of several records with one number had all samples of the number.
INSERT INTO TelemetryToDivide
  SELECT RecordID FROM JobTelemetry JOIN (
      SELECT ClusterID, JobID, Task FROM JobTelemetry GROUP BY ClusterID, JobID, Task HAVING count(*) > 1
    ) USING (ClusterID, JobID, Task);
-- The times of a run are in its events, and a change of these alone is not logged.
CREATE TRIGGER TelemetryToDivide_JobEvents_insert AFTER INSERT ON JobEvents
WHEN new.EventKey IN ('LRMSSTART', 'LRMSEND')
 AND EXISTS (SELECT 1 FROM JobTelemetry WHERE RecordID = new.RecordID)
BEGIN
  INSERT OR IGNORE INTO TelemetryToDivide VALUES (new.RecordID);
END;

-- What the processes of each job used on each node, all hours together. Numbers are used again: there is one row for each
-- run of a job of the batch system, and one for the samples of its number that no known run holds. A process group that
-- runs on after a gap of two hours in its samples is another job.
CREATE VIEW v1_sampled_jobs AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  SampledJobs.JobID AS job_id, -- number of the batch system; or of the process group
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch, -- NULL: a job of the batch system; else tells one boot of the node from the next
  CAST(max(UserName) AS TEXT) AS user_name, -- account
  CAST(min(FirstTime) AS INTEGER) AS first_time, -- s since 1970: first sample
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', min(FirstTime), 'unixepoch') AS TEXT) AS first_time_iso, -- first_time as text
  CAST(max(LastTime) AS INTEGER) AS last_time, -- s since 1970: last sample
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', max(LastTime), 'unixepoch') AS TEXT) AS last_time_iso, -- last_time as text
  CAST(sum(Samples) AS INTEGER) AS samples, -- how many samples
  CAST(sum(CPUS) AS INTEGER) AS cpu_s, -- s of CPU time; what ran after the last sample is not in it
  CAST(max(PeakMemory) AS INTEGER) AS peak_memory_kib, -- KiB resident of all its processes (private pages)
  CAST(max(PeakVirtMem) AS INTEGER) AS peak_virtual_memory_kib, -- KiB of data and stack of all its processes
  CAST(max(PeakProcesses) AS INTEGER) AS peak_processes, -- processes at once
  CAST(max(PeakThreads) AS INTEGER) AS peak_threads, -- threads at once
  CAST(sum(ReadKiB) AS INTEGER) AS read_kib, -- KiB read from devices
  CAST(sum(WrittenKiB) AS INTEGER) AS written_kib, -- KiB written to devices
  CAST(max(CancelledKiB) AS INTEGER) AS cancelled_kib, -- KiB of writes that were not needed after all
  CAST(max(InContainer) AS INTEGER) AS is_in_container, -- 1: it ran in a container
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id, -- index in the array job_id; NULL: none, or an element of Slurm's
  CAST(sum(CPUAvgPercent * Samples) / sum(CASE WHEN CPUAvgPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_avg_percent, -- percent of a core that its processes used over their lives, mean of the samples; NULL: imported without --details
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent, -- percent of a core at the moments of the samples, mean; NULL: the same, or not reported
  CAST(max(PeakCPUUtilPercent) AS REAL) AS peak_cpu_util_percent, -- the largest of them
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time, -- s since 1970: start of the run that these samples belong to; NULL: no known run of the number holds them, or no job of a batch system
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso -- run_start_time as text
FROM (
  SELECT *, CASE (SELECT Epoch FROM SampledJobs WHERE SampledJobs.ID = SampledJobID) WHEN 0 THEN 0 ELSE
         sum(Starts) OVER (PARTITION BY SampledJobID, NodeID ORDER BY Hour) END AS Part
    FROM JobUsage
) AS JobUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobUsage.NodeID, Part, RunStart;

-- What each job used of each GPU, all hours together.
CREATE VIEW v1_job_accelerators AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  SampledJobs.JobID AS job_id, -- number of the batch system, or of the process group
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch, -- as in v1_sampled_jobs
  JobCardUsage.UUID AS uuid, -- the card
  (SELECT Model FROM NodeCards WHERE NodeCards.UUID = JobCardUsage.UUID
    ORDER BY NodesID DESC LIMIT 1) AS model, -- what it is; NodeCards
  CAST(sum(Samples) AS INTEGER) AS samples, -- samples in which the job had processes on it
  CAST(sum(OccupiedS) AS REAL) AS occupied_s, -- s that the job had processes on it
  CAST(sum(BusyS) AS REAL) AS busy_s, -- s of a fully used card
  CAST(sum(EnergyJ) AS REAL) AS energy_j, -- J: the job's share of what the card drew; NULL: the card does not tell
  CAST(max(JobCardUsage.PeakMemory) AS INTEGER) AS peak_memory_kib, -- KiB of the card's memory
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id, -- as in v1_sampled_jobs
  CAST(max(CardIndex) AS INTEGER) AS card_index, -- its number on the node; NULL: imported without --details
  CAST(sum(MemoryUtilPercent * Samples) / sum(CASE WHEN MemoryUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS memory_util_percent, -- percent of its memory that the job had, mean of the samples; NULL: the same
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time, -- as in v1_sampled_jobs
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso -- run_start_time as text
FROM JobCardUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCardUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCardUsage.NodeID, JobCardUsage.UUID, RunStart;

-- What sampled jobs ran, where telemetry was imported with --details.
CREATE VIEW v1_job_commands AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  SampledJobs.JobID AS job_id, -- number of the batch system, or of the process group
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id, -- as in v1_sampled_jobs
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch, -- as in v1_sampled_jobs
  Command AS command, -- name of the program, as the kernel has it
  CAST(sum(Samples) AS INTEGER) AS samples, -- samples in which it ran
  CAST(max(PeakProcesses) AS INTEGER) AS peak_processes, -- processes of it at once
  CAST(max(JobCommandUsage.PeakMemory) AS INTEGER) AS peak_memory_kib, -- KiB resident of all of them (private pages)
  CAST(sum(CPUAvgPercent * Samples) / sum(Samples) AS REAL) AS cpu_avg_percent, -- as in v1_sampled_jobs
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent, -- as in v1_sampled_jobs
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time, -- as in v1_sampled_jobs
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso -- run_start_time as text
FROM JobCommandUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCommandUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCommandUsage.NodeID, Command, RunStart;
