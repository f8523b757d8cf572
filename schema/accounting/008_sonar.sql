-- What Sonar's telemetry tells of clusters, nodes and jobs. Memory in KiB, times in UTC seconds since 1970.

CREATE TABLE Clusters (
  ID   INTEGER PRIMARY KEY,
  Name TEXT NOT NULL UNIQUE  -- '': the producer was not told one
);

CREATE TABLE NodeNames (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  UNIQUE (ClusterID, Name)
);

-- What Slurm knew of each run of a job (JobStep '') and of each of its steps, all reports merged field by field.
CREATE TABLE SlurmJobs (
  ClusterID              INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID                  INTEGER NOT NULL,  -- of an array or heterogeneous job the one of the element
  JobStep                TEXT NOT NULL,     -- '' for the job itself
  Run                    INTEGER NOT NULL,  -- StartTime; 0 as long as it did not start. A requeued job has several
  JobName                TEXT,
  JobState               TEXT,              -- first word of Slurm's state
  ArrayJobID             INTEGER,
  ArrayTaskID            INTEGER,
  HetJobID               INTEGER,
  HetJobOffset           INTEGER,
  UserName               TEXT,
  Account                TEXT,
  SubmitTime             INTEGER,
  TimeLimitS             INTEGER,           -- -1: unlimited
  Partition              TEXT,
  Reservation            TEXT,
  Nodes                  TEXT,              -- in brackets, as Slurm lists them
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
  MinCPUS                INTEGER,           -- from here on what sacct says; CPU in seconds
  AllocTRES              TEXT,
  AveCPUS                INTEGER,
  AveDiskRead            INTEGER,
  AveDiskWrite           INTEGER,
  AveRSS                 INTEGER,
  AveVMSize              INTEGER,
  ElapsedRawS            INTEGER,
  SystemCPUS             INTEGER,           -- a lower bound: Sonar loses the seconds of times with fractions
  UserCPUS               INTEGER,           -- the same
  MaxRSS                 INTEGER,
  MaxVMSize              INTEGER,
  FieldTimes             TEXT NOT NULL,     -- JSON: when each field was said, so that reports may come in any order
  PRIMARY KEY (ClusterID, JobID, JobStep, Run)
) WITHOUT ROWID;

-- What a node was, from the first to the last time it said so; another row when something of it or its cards changed.
CREATE TABLE Nodes (
  ID             INTEGER PRIMARY KEY,
  NodeID         INTEGER NOT NULL REFERENCES NodeNames (ID),
  ValidFrom      INTEGER NOT NULL,
  LastSeen       INTEGER NOT NULL,
  Content        TEXT NOT NULL,      -- digest of the rest and of the cards and packages
  OSName         TEXT NOT NULL,
  OSRelease      TEXT NOT NULL,
  NumaNodes      INTEGER NOT NULL,
  Sockets        INTEGER NOT NULL,
  CoresPerSocket INTEGER NOT NULL,
  ThreadsPerCore INTEGER NOT NULL,
  CPUModel       TEXT NOT NULL,
  Architecture   TEXT NOT NULL,
  Memory         INTEGER NOT NULL,
  Distances      TEXT NOT NULL,      -- JSON: between NUMA nodes
  TopoSVG        TEXT NOT NULL,      -- base64
  TopoText       TEXT NOT NULL,      -- base64
  UNIQUE (NodeID, ValidFrom)
);

CREATE TABLE NodeCards (
  NodesID        INTEGER NOT NULL REFERENCES Nodes (ID),
  CardIndex      INTEGER NOT NULL,
  UUID           TEXT NOT NULL,
  Address        TEXT NOT NULL,
  Manufacturer   TEXT NOT NULL,
  Model          TEXT NOT NULL,
  Architecture   TEXT NOT NULL,
  Driver         TEXT NOT NULL,
  Firmware       TEXT NOT NULL,
  Memory         INTEGER NOT NULL,
  PowerLimitW    INTEGER NOT NULL,
  MaxPowerLimitW INTEGER NOT NULL,
  MinPowerLimitW INTEGER NOT NULL,
  MaxCEClockMHz  INTEGER NOT NULL,
  MaxMemoryClockMHz INTEGER NOT NULL,
  PRIMARY KEY (NodesID, CardIndex, UUID)
) WITHOUT ROWID;
CREATE INDEX NodeCards_UUID_IDX ON NodeCards (UUID);

CREATE TABLE NodeSoftware (
  NodesID INTEGER NOT NULL REFERENCES Nodes (ID),
  Key     TEXT NOT NULL,
  Name    TEXT NOT NULL,
  Version TEXT NOT NULL,
  PRIMARY KEY (NodesID, Key)
) WITHOUT ROWID;

-- The readings of each hour of a node, its cards and its disks; the readings themselves are not kept.
CREATE TABLE NodeUsage (
  NodeID   INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour     INTEGER NOT NULL,  -- its first second
  Device   TEXT NOT NULL,     -- '': the node; a card by UUID; disk:NAME
  Measure  TEXT NOT NULL,
  Samples  INTEGER NOT NULL,
  CoveredS REAL NOT NULL,     -- seconds that the samples stand for
  Mean     REAL,
  Low      REAL,
  High     REAL,
  Increase REAL,              -- of a counter; of power_w the energy in J
  Text     TEXT,              -- of a measure that is a word, the last one
  PRIMARY KEY (NodeID, Hour, Device, Measure)
) WITHOUT ROWID;

-- What an hour needs to take in a sample that comes late or twice. Removed two weeks after the last change.
CREATE TABLE NodePoints (
  NodeID  INTEGER NOT NULL,
  Hour    INTEGER NOT NULL,
  Written INTEGER NOT NULL,
  Points  BLOB NOT NULL,
  PRIMARY KEY (NodeID, Hour)
) WITHOUT ROWID;

-- Jobs of which samples were seen: batch jobs over all nodes (Epoch 0), and process groups of one node.
CREATE TABLE SampledJobs (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID     INTEGER NOT NULL,
  Epoch     INTEGER NOT NULL,  -- 0: a job of the batch system
  NodeID    INTEGER NOT NULL,  -- 0 when Epoch is 0
  UNIQUE (ClusterID, JobID, Epoch, NodeID)
);

-- What the processes of a job used on a node in each hour.
CREATE TABLE JobUsage (
  SampledJobID  INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID        INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour          INTEGER NOT NULL,
  UserName      TEXT NOT NULL,
  Samples       INTEGER NOT NULL,
  FirstTime     INTEGER NOT NULL,
  LastTime      INTEGER NOT NULL,
  Starts        INTEGER NOT NULL,  -- 1: a job begins here; process groups reuse numbers
  CPUS          INTEGER NOT NULL,
  ReadKiB       INTEGER NOT NULL,
  WrittenKiB    INTEGER NOT NULL,
  PeakMemory    INTEGER NOT NULL,
  PeakVirtMem   INTEGER NOT NULL,
  PeakProcesses INTEGER NOT NULL,
  PeakThreads   INTEGER NOT NULL,
  CancelledKiB  INTEGER NOT NULL,
  InContainer   INTEGER NOT NULL,
  PRIMARY KEY (SampledJobID, NodeID, Hour)
) WITHOUT ROWID;

CREATE TABLE JobCardUsage (
  SampledJobID INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID       INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour         INTEGER NOT NULL,
  UUID         TEXT NOT NULL,
  Samples      INTEGER NOT NULL,
  OccupiedS    REAL NOT NULL,
  BusyS        REAL NOT NULL,
  EnergyJ      REAL,               -- NULL: the card did not tell its power
  PeakMemory   INTEGER NOT NULL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, UUID)
) WITHOUT ROWID;

-- As NodePoints.
CREATE TABLE JobPoints (
  SampledJobID INTEGER NOT NULL,
  NodeID       INTEGER NOT NULL,
  Hour         INTEGER NOT NULL,
  Written      INTEGER NOT NULL,
  Points       BLOB NOT NULL,
  PRIMARY KEY (SampledJobID, NodeID, Hour)
) WITHOUT ROWID;

CREATE TABLE ClusterPartitions (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,  -- its nodes, in brackets
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;

CREATE TABLE ClusterNodes (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,  -- its states, joined by ','
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;

-- What producers could not do: whoever misses telemetry looks here first.
CREATE TABLE ProducerErrors (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Node      TEXT NOT NULL,
  Time      INTEGER NOT NULL,
  Detail    TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Node, Time, Detail)
) WITHOUT ROWID;

-- What telemetry knows of a record of ours: of Slurm, of ARC or of Grid Engine.
CREATE TABLE JobTelemetry (
  RecordID      INTEGER PRIMARY KEY,
  ClusterID     INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID         INTEGER NOT NULL,
  CPUModel      TEXT,               -- of its nodes, joined by ';' if they differ
  Samples       INTEGER NOT NULL,
  CPUS          INTEGER,            -- of its processes, while they were sampled
  PeakMemory    INTEGER,            -- the largest sum over its processes on one node
  ReadKiB       INTEGER,
  WrittenKiB    INTEGER,
  GPUCount      INTEGER,            -- allocated by the batch system; NULL: it was not asked
  GPUAllocatedS INTEGER,
  GPUModel      TEXT,
  GPUOccupiedS  REAL,
  GPUBusyS      REAL,
  GPUPeakMemory INTEGER,
  GPUEnergyJ    REAL,
  EnergyJ       INTEGER,            -- as the batch system measured it
  CPUSource     TEXT                -- of a record of Slurm: sacct, steps or samples
);
CREATE INDEX JobTelemetry_Job_IDX ON JobTelemetry (ClusterID, JobID);

-- The runs of Slurm's jobs (step '') and their steps, as Slurm knew them.
CREATE VIEW v1_slurm_jobs AS
SELECT
  Clusters.Name AS cluster, -- cluster as its Sonar calls it; Clusters
  JobID AS job_id, -- Slurm's number of the job; of an array the one of the element
  nullif(JobStep, '') AS job_step, -- step (0, 1, batch, extern, ...); NULL: the job itself
  JobName AS job_name, -- name of the job, or of the step's program
  JobState AS state, -- Slurm's state, e.g. COMPLETED
  ArrayJobID AS array_job_id, -- the array that it is an element of
  ArrayTaskID AS array_task_id, -- its index there
  HetJobID AS het_job_id, -- the heterogeneous job that it is a part of
  HetJobOffset AS het_job_offset, -- its place there
  UserName AS user_name, -- account of the user; of the job itself only
  Account AS account, -- Slurm's account (project)
  SubmitTime AS submit_time, -- s since 1970; of a step its start
  strftime('%Y-%m-%dT%H:%M:%SZ', SubmitTime, 'unixepoch') AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970; NULL: it never started
  strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS start_time_iso, -- start_time as text
  EndTime AS end_time, -- s since 1970
  strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS end_time_iso, -- end_time as text
  SuspendTimeS AS suspended_s, -- s that it was suspended
  ElapsedRawS AS elapsed_s, -- s that sacct calls elapsed
  ExitCode AS exit_code, -- exit code; a signal is not told, nor is 0
  CASE WHEN TimeLimitS >= 0 THEN TimeLimitS END AS time_limit_s, -- s of clock time allowed; NULL: unlimited or unknown
  TimeLimitS IS -1 AS is_unlimited, -- 1: no limit of time
  CASE WHEN Priority >= 0 THEN Priority END AS priority, -- Slurm's priority
  Partition AS partition, -- partition; of a waiting job there may be several
  Reservation AS reservation, -- reservation that it used
  Nodes AS nodes, -- nodes, in brackets
  Distribution AS distribution, -- layout of the tasks that was asked for
  GresDetail AS gres_detail, -- generic resources (old Sonar only)
  RequestedCPUs AS requested_cores, -- cores asked for, in total
  MinimumCPUsPerNode AS minimum_cores_per_node, -- cores asked for on each node (old Sonar only)
  RequestedMemoryPerNode AS requested_memory_kib, -- KiB asked for
  RequestedNodeCount AS requested_nodes, -- nodes asked for
  RequestedResources AS requested_tres, -- trackable resources asked for
  coalesce(AllocTRES, AllocatedResources) AS allocated_tres, -- trackable resources given
  UserCPUS AS user_cpu_s, -- s of CPU in user mode, as sacct says; a lower bound (Sonar loses seconds)
  SystemCPUS AS system_cpu_s, -- s of CPU in the kernel; a lower bound as well
  AveCPUS AS average_cpu_s, -- s of CPU of a task, on average
  MinCPUS AS minimum_cpu_s, -- s of CPU of the task that used least
  AveRSS AS average_memory_kib, -- KiB resident of a task, on average
  MaxRSS AS maximum_memory_kib, -- KiB resident of the task that used most
  AveVMSize AS average_virtual_memory_kib, -- KiB virtual of a task, on average
  MaxVMSize AS maximum_virtual_memory_kib, -- KiB virtual of the task that used most
  AveDiskRead AS average_read_kib, -- KiB read by a task, on average
  AveDiskWrite AS average_written_kib -- KiB written by a task, on average
FROM SlurmJobs JOIN Clusters ON Clusters.ID = ClusterID;

-- What each node was and when: one row for each state of its hardware and system.
CREATE VIEW v1_nodes AS
SELECT
  Nodes.ID AS hardware_id, -- joins v1_node_cards and v1_node_software
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node as it calls itself; NodeNames
  ValidFrom AS valid_from, -- s since 1970: first seen so
  strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS valid_from_iso, -- valid_from as text
  (SELECT min(ValidFrom) FROM Nodes AS Later WHERE Later.NodeID = Nodes.NodeID
      AND Later.ValidFrom > Nodes.ValidFrom) AS valid_until, -- s since 1970: first seen otherwise; NULL: it still is so
  LastSeen AS last_seen, -- s since 1970: last seen so
  OSName AS os_name, -- operating system
  OSRelease AS os_release, -- its version
  Architecture AS architecture, -- e.g. x86_64
  CPUModel AS cpu_model, -- as the manufacturer calls it
  Sockets AS sockets, -- CPU sockets
  CoresPerSocket AS cores_per_socket, -- physical cores in each
  ThreadsPerCore AS threads_per_core, -- hardware threads of each
  Sockets * CoresPerSocket * ThreadsPerCore AS logical_cores, -- what the system calls CPUs
  NumaNodes AS numa_nodes, -- NUMA nodes
  Distances AS numa_distances, -- JSON: the matrix between them
  Memory AS memory_kib, -- KiB of memory
  TopoSVG AS topology_svg_base64, -- drawing by lstopo
  TopoText AS topology_text_base64 -- text by lstopo
FROM Nodes JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;

-- The GPUs of each row of v1_nodes.
CREATE VIEW v1_node_cards AS
SELECT
  NodesID AS hardware_id, -- row of v1_nodes
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  ValidFrom AS valid_from, -- s since 1970: first seen so
  CardIndex AS card_index, -- number on the node; may change when it boots
  UUID AS uuid, -- the card's own name
  Address AS address, -- e.g. on PCI
  Manufacturer AS manufacturer, -- NVIDIA, AMD, Intel, ...
  Model AS model, -- as the manufacturer calls it
  NodeCards.Architecture AS architecture, -- e.g. Turing
  Driver AS driver, -- version of the driver
  Firmware AS firmware, -- version of the firmware
  NodeCards.Memory AS memory_kib, -- KiB
  PowerLimitW AS power_limit_w, -- W; 0: unknown
  MaxPowerLimitW AS max_power_limit_w, -- W
  MinPowerLimitW AS min_power_limit_w, -- W
  MaxCEClockMHz AS max_ce_clock_mhz, -- MHz of the compute elements
  MaxMemoryClockMHz AS max_memory_clock_mhz -- MHz of the memory
FROM NodeCards JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;

-- The packages of each row of v1_nodes.
CREATE VIEW v1_node_software AS
SELECT
  NodesID AS hardware_id, -- row of v1_nodes
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  ValidFrom AS valid_from, -- s since 1970: first seen so
  Key AS key, -- identifier of the package
  NodeSoftware.Name AS name, -- its name for people
  Version AS version -- its version
FROM NodeSoftware JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;

-- Each measure of each node, card and disk in each hour.
CREATE VIEW v1_node_usage AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  Hour AS hour, -- s since 1970: first second of the hour
  strftime('%Y-%m-%dT%H:%M:%SZ', Hour, 'unixepoch') AS hour_iso, -- hour as text
  nullif(Device, '') AS device, -- NULL: the node; UUID of a card; disk:NAME
  Measure AS measure, -- what was measured, with its unit, e.g. used_memory_kib
  Samples AS samples, -- how many samples
  CoveredS AS covered_s, -- s that they stand for
  Mean AS mean, -- mean of what goes up and down
  Low AS low, -- smallest
  High AS high, -- largest
  Increase AS increase, -- growth of a counter (cpu_busy_s, read_kib, ...); J for power_w
  Text AS text -- last value of a measure in words
FROM NodeUsage JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;

-- What the processes of each job used on each node, all hours together. Process groups reuse their numbers: there is one
-- row for each job, and a job that runs on after a gap of two hours in its samples is another.
CREATE VIEW v1_sampled_jobs AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  SampledJobs.JobID AS job_id, -- number of the batch system; or of the process group
  nullif(Epoch, 0) AS epoch, -- NULL: a job of the batch system; else tells one boot of the node from the next
  max(UserName) AS user_name, -- account
  min(FirstTime) AS first_time, -- s since 1970: first sample
  strftime('%Y-%m-%dT%H:%M:%SZ', min(FirstTime), 'unixepoch') AS first_time_iso, -- first_time as text
  max(LastTime) AS last_time, -- s since 1970: last sample
  strftime('%Y-%m-%dT%H:%M:%SZ', max(LastTime), 'unixepoch') AS last_time_iso, -- last_time as text
  sum(Samples) AS samples, -- how many samples
  sum(CPUS) AS cpu_s, -- s of CPU time; what ran after the last sample is not in it
  max(PeakMemory) AS peak_memory_kib, -- KiB resident of all its processes (private pages)
  max(PeakVirtMem) AS peak_virtual_memory_kib, -- KiB of data and stack of all its processes
  max(PeakProcesses) AS peak_processes, -- processes at once
  max(PeakThreads) AS peak_threads, -- threads at once
  sum(ReadKiB) AS read_kib, -- KiB read from devices
  sum(WrittenKiB) AS written_kib, -- KiB written to devices
  max(CancelledKiB) AS cancelled_kib, -- KiB of writes that were not needed after all
  max(InContainer) AS is_in_container -- 1: it ran in a container
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
  nullif(Epoch, 0) AS epoch, -- as in v1_sampled_jobs
  JobCardUsage.UUID AS uuid, -- the card
  (SELECT Model FROM NodeCards WHERE NodeCards.UUID = JobCardUsage.UUID
    ORDER BY NodesID DESC LIMIT 1) AS model, -- what it is; NodeCards
  sum(Samples) AS samples, -- samples in which the job had processes on it
  sum(OccupiedS) AS occupied_s, -- s that the job had processes on it
  sum(BusyS) AS busy_s, -- s of a fully used card
  sum(EnergyJ) AS energy_j, -- J: the job's share of what the card drew; NULL: the card does not tell
  max(JobCardUsage.PeakMemory) AS peak_memory_kib -- KiB of the card's memory
FROM JobCardUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCardUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCardUsage.NodeID, JobCardUsage.UUID;

-- What telemetry adds to the records of v1_jobs.
CREATE VIEW v1_job_telemetry AS
SELECT
  AAR.JobID AS job_id, -- the record; joins v1_jobs
  Clusters.Name AS cluster, -- cluster; Clusters
  JobTelemetry.JobID AS lrms_job_id, -- number of the batch system
  CPUModel AS cpu_model, -- CPU of its nodes, joined by ";" if they differ
  Samples AS samples, -- samples of its processes
  CPUS AS sampled_cpu_s, -- s of CPU time, by samples
  PeakMemory AS peak_memory_kib, -- KiB: the largest sum over its processes on a node
  ReadKiB AS read_kib, -- KiB read from devices
  WrittenKiB AS written_kib, -- KiB written to devices
  GPUCount AS gpu_count, -- GPUs that the batch system gave it; NULL: it was not asked
  GPUAllocatedS AS gpu_allocated_s, -- s: GPUs times clock time, what is charged for
  GPUModel AS gpu_model, -- what they are, joined by ";"
  GPUOccupiedS AS gpu_occupied_s, -- s that it had processes on GPUs, added up
  GPUBusyS AS gpu_busy_s, -- s of fully used GPUs
  GPUPeakMemory AS gpu_peak_memory_kib, -- KiB on one card
  GPUEnergyJ AS gpu_energy_j, -- J: its share of what its cards drew
  EnergyJ AS energy_j, -- J, as the batch system measured the nodes
  CPUSource AS cpu_source -- of a record made from Slurm: sacct, steps or samples
FROM JobTelemetry JOIN AAR ON AAR.RecordID = JobTelemetry.RecordID JOIN Clusters ON Clusters.ID = ClusterID;

-- Which nodes each partition had, and when.
CREATE VIEW v1_cluster_partitions AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  ClusterPartitions.Name AS partition, -- partition
  Content AS nodes, -- its nodes, in brackets
  ValidFrom AS valid_from, -- s since 1970: first seen so
  strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS valid_from_iso, -- valid_from as text
  (SELECT min(ValidFrom) FROM ClusterPartitions AS Later WHERE Later.ClusterID = ClusterPartitions.ClusterID
      AND Later.Name = ClusterPartitions.Name AND Later.ValidFrom > ClusterPartitions.ValidFrom) AS valid_until, -- s since 1970: first seen otherwise
  LastSeen AS last_seen -- s since 1970: last seen so
FROM ClusterPartitions JOIN Clusters ON Clusters.ID = ClusterID;

-- Which states each node had, and when.
CREATE VIEW v1_cluster_nodes AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  ClusterNodes.Name AS node, -- node
  Content AS states, -- Slurm's states, joined by ","
  ValidFrom AS valid_from, -- s since 1970: first seen so
  strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS valid_from_iso, -- valid_from as text
  (SELECT min(ValidFrom) FROM ClusterNodes AS Later WHERE Later.ClusterID = ClusterNodes.ClusterID
      AND Later.Name = ClusterNodes.Name AND Later.ValidFrom > ClusterNodes.ValidFrom) AS valid_until, -- s since 1970: first seen otherwise
  LastSeen AS last_seen -- s since 1970: last seen so
FROM ClusterNodes JOIN Clusters ON Clusters.ID = ClusterID;

-- What producers of telemetry complained of.
CREATE VIEW v1_producer_errors AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  nullif(Node, '') AS node, -- node
  Time AS time, -- s since 1970
  strftime('%Y-%m-%dT%H:%M:%SZ', Time, 'unixepoch') AS time_iso, -- time as text
  Detail AS detail -- the complaint
FROM ProducerErrors JOIN Clusters ON Clusters.ID = ClusterID;
