-- Tasks of arrays in telemetry, and what is kept of processes where a site wants it (`import sonar --details`).

-- Grid Engine, Torque and LSF have one number for a whole array, Slurm one for each element. A table anew, since the task
-- is part of what is unique; before the node, so that those of a large array are found at once.
DROP VIEW v1_sampled_jobs;
DROP VIEW v1_job_accelerators;
CREATE TABLE NewSampledJobs (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID     INTEGER NOT NULL,
  Epoch     INTEGER NOT NULL,  -- 0: a job of the batch system
  Task      INTEGER NOT NULL,  -- index in an array that has one number as a whole; 0: none
  NodeID    INTEGER NOT NULL,  -- 0 when Epoch is 0
  UNIQUE (ClusterID, JobID, Epoch, Task, NodeID)
);
INSERT INTO NewSampledJobs SELECT ID, ClusterID, JobID, Epoch, 0, NodeID FROM SampledJobs;
DROP TABLE SampledJobs;
ALTER TABLE NewSampledJobs RENAME TO SampledJobs;
ALTER TABLE JobTelemetry ADD COLUMN Task INTEGER NOT NULL DEFAULT 0;

-- Which number an element of one of Slurm's arrays has.
CREATE INDEX SlurmJobs_Array_IDX ON SlurmJobs (ArrayJobID, ArrayTaskID) WHERE ArrayJobID IS NOT NULL;

-- Means over the samples of the hour; NULL: not kept, or not told.
ALTER TABLE JobUsage ADD COLUMN CPUAvgPercent REAL;
ALTER TABLE JobUsage ADD COLUMN CPUUtilPercent REAL;
ALTER TABLE JobUsage ADD COLUMN PeakCPUUtilPercent REAL;
ALTER TABLE JobCardUsage ADD COLUMN CardIndex INTEGER;
ALTER TABLE JobCardUsage ADD COLUMN MemoryUtilPercent REAL;

-- The commands of a job's processes on a node in each hour.
CREATE TABLE JobCommandUsage (
  SampledJobID   INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID         INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour           INTEGER NOT NULL,
  Command        TEXT NOT NULL,
  Samples        INTEGER NOT NULL,  -- in which it ran
  PeakProcesses  INTEGER NOT NULL,
  PeakMemory     INTEGER NOT NULL,  -- the largest sum over its processes
  CPUAvgPercent  REAL NOT NULL,     -- means over these samples of the sums over its processes
  CPUUtilPercent REAL,              -- NULL: not told
  PRIMARY KEY (SampledJobID, NodeID, Hour, Command)
) WITHOUT ROWID;

-- What the processes of each job used on each node, all hours together. Process groups reuse their numbers: there is one
-- row for each job, and a job that runs on after a gap of two hours in its samples is another.
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
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent, -- percent of a core at the moments of the samples, mean; NULL: the same, or not told
  CAST(max(PeakCPUUtilPercent) AS REAL) AS peak_cpu_util_percent -- the largest of them
FROM (
  SELECT *, CASE (SELECT Epoch FROM SampledJobs WHERE SampledJobs.ID = SampledJobID) WHEN 0 THEN 0 ELSE
         sum(Starts) OVER (PARTITION BY SampledJobID, NodeID ORDER BY Hour) END AS Part
    FROM JobUsage
) AS JobUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobUsage.NodeID, Part;

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
  CAST(sum(MemoryUtilPercent * Samples) / sum(CASE WHEN MemoryUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS memory_util_percent -- percent of its memory that the job had, mean of the samples; NULL: the same
FROM JobCardUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCardUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCardUsage.NodeID, JobCardUsage.UUID;

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
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent -- as in v1_sampled_jobs
FROM JobCommandUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCommandUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCommandUsage.NodeID, Command;
