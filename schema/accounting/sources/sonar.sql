-- Views of telemetry.

--   cluster: cluster as its Sonar calls it; Clusters
--   job_id: Slurm's number of the job; of an array the one of the element
--   job_step: step (0, 1, batch, extern, ...); NULL: the job itself
--   job_name: name of the job, or of the step's program
--   state: Slurm's state, e.g. COMPLETED
--   array_job_id: the array that it is an element of
--   array_task_id: its index there
--   het_job_id: the heterogeneous job that it is a part of
--   het_job_offset: its place there
--   user_name: account of the user; of the job itself only
--   account: Slurm's account (project)
--   submit_time: s since 1970; of a step its start
--   submit_time_iso: submit_time as text
--   start_time: s since 1970; NULL: it never started
--   start_time_iso: start_time as text
--   end_time: s since 1970
--   end_time_iso: end_time as text
--   suspended_s: s that it was suspended
--   elapsed_s: s that sacct calls elapsed
--   exit_code: exit code; Sonar reports neither 0 nor a signal
--   time_limit_s: s of clock time allowed; NULL: unlimited or unknown
--   is_unlimited: 1: no limit of time
--   priority: Slurm's priority
--   partition: partition; of a waiting job there may be several
--   reservation: reservation that it used
--   nodes: nodes, in brackets
--   distribution: layout of the tasks that was asked for
--   gres_detail: generic resources (old Sonar only)
--   requested_cores: cores asked for, in total
--   minimum_cores_per_node: cores asked for on each node (old Sonar only)
--   requested_memory_kib: KiB asked for
--   requested_nodes: nodes asked for
--   requested_tres: trackable resources asked for
--   allocated_tres: trackable resources given
--   user_cpu_s: s of CPU in user mode, as sacct says; a lower bound (Sonar loses seconds)
--   system_cpu_s: s of CPU in the kernel; a lower bound as well
--   average_cpu_s: s of CPU of a task, on average
--   minimum_cpu_s: s of CPU of the task that used least
--   average_memory_kib: KiB resident of a task, on average
--   maximum_memory_kib: KiB resident of the task that used most
--   average_virtual_memory_kib: KiB virtual of a task, on average
--   maximum_virtual_memory_kib: KiB virtual of the task that used most
--   average_read_kib: KiB read by a task, on average
--   average_written_kib: KiB written by a task, on average
CREATE VIEW v1_slurm_jobs AS
SELECT
  Clusters.Name AS cluster,
  JobID AS job_id,
  CAST(nullif(JobStep, '') AS TEXT) AS job_step,
  JobName AS job_name,
  JobState AS state,
  ArrayJobID AS array_job_id,
  ArrayTaskID AS array_task_id,
  HetJobID AS het_job_id,
  HetJobOffset AS het_job_offset,
  UserName AS user_name,
  Account AS account,
  SubmitTime AS submit_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso,
  StartTime AS start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso,
  EndTime AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS TEXT) AS end_time_iso,
  SuspendTimeS AS suspended_s,
  ElapsedRawS AS elapsed_s,
  ExitCode AS exit_code,
  CAST(CASE WHEN TimeLimitS >= 0 THEN TimeLimitS END AS INTEGER) AS time_limit_s,
  CAST(coalesce(TimeLimitS = -1, 0) AS INTEGER) AS is_unlimited,
  CAST(CASE WHEN Priority >= 0 THEN Priority END AS INTEGER) AS priority,
  Partition AS partition,
  Reservation AS reservation,
  Nodes AS nodes,
  Distribution AS distribution,
  GresDetail AS gres_detail,
  RequestedCPUs AS requested_cores,
  MinimumCPUsPerNode AS minimum_cores_per_node,
  RequestedMemoryPerNode AS requested_memory_kib,
  RequestedNodeCount AS requested_nodes,
  RequestedResources AS requested_tres,
  CAST(coalesce(AllocTRES, AllocatedResources) AS TEXT) AS allocated_tres,
  UserCPUS AS user_cpu_s,
  SystemCPUS AS system_cpu_s,
  AveCPUS AS average_cpu_s,
  MinCPUS AS minimum_cpu_s,
  AveRSS AS average_memory_kib,
  MaxRSS AS maximum_memory_kib,
  AveVMSize AS average_virtual_memory_kib,
  MaxVMSize AS maximum_virtual_memory_kib,
  AveDiskRead AS average_read_kib,
  AveDiskWrite AS average_written_kib
FROM SlurmJobs JOIN Clusters ON Clusters.ID = ClusterID;

--   cluster: cluster; Clusters
--   node: node
--   states: Slurm's states, joined by ","
--   valid_from: s since 1970: first seen so
--   valid_from_iso: valid_from as text
--   valid_until: s since 1970: first seen otherwise
--   last_seen: s since 1970: last seen so
CREATE VIEW v1_cluster_nodes AS
SELECT
  Clusters.Name AS cluster,
  ClusterNodes.Name AS node,
  Content AS states,
  ValidFrom AS valid_from,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso,
  CAST((SELECT min(ValidFrom) FROM ClusterNodes AS Later WHERE Later.ClusterID = ClusterNodes.ClusterID
      AND Later.Name = ClusterNodes.Name AND Later.ValidFrom > ClusterNodes.ValidFrom) AS INTEGER) AS valid_until,
  LastSeen AS last_seen
FROM ClusterNodes JOIN Clusters ON Clusters.ID = ClusterID;

--   cluster: cluster; Clusters
--   partition: partition
--   nodes: its nodes, in brackets
--   valid_from: s since 1970: first seen so
--   valid_from_iso: valid_from as text
--   valid_until: s since 1970: first seen otherwise
--   last_seen: s since 1970: last seen so
CREATE VIEW v1_cluster_partitions AS
SELECT
  Clusters.Name AS cluster,
  ClusterPartitions.Name AS partition,
  Content AS nodes,
  ValidFrom AS valid_from,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso,
  CAST((SELECT min(ValidFrom) FROM ClusterPartitions AS Later WHERE Later.ClusterID = ClusterPartitions.ClusterID
      AND Later.Name = ClusterPartitions.Name AND Later.ValidFrom > ClusterPartitions.ValidFrom) AS INTEGER) AS valid_until,
  LastSeen AS last_seen
FROM ClusterPartitions JOIN Clusters ON Clusters.ID = ClusterID;

--   hardware_id: joins v1_node_cards and v1_node_software
--   cluster: cluster; Clusters
--   node: node as it calls itself; NodeNames
--   valid_from: s since 1970: first seen so
--   valid_from_iso: valid_from as text
--   valid_until: s since 1970: first seen otherwise; NULL: it still is so
--   last_seen: s since 1970: last seen so
--   os_name: operating system
--   os_release: its version
--   architecture: e.g. x86_64
--   cpu_model: as the manufacturer calls it
--   sockets: CPU sockets
--   cores_per_socket: physical cores in each
--   threads_per_core: hardware threads of each
--   logical_cores: what the system calls CPUs
--   numa_nodes: NUMA nodes
--   numa_distances: JSON: the matrix between them
--   memory_kib: KiB of memory
--   topology_svg_base64: drawing by lstopo
--   topology_text_base64: text by lstopo
CREATE VIEW v1_nodes AS
SELECT
  Nodes.ID AS hardware_id,
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  ValidFrom AS valid_from,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso,
  CAST((SELECT min(ValidFrom) FROM Nodes AS Later WHERE Later.NodeID = Nodes.NodeID
      AND Later.ValidFrom > Nodes.ValidFrom) AS INTEGER) AS valid_until,
  LastSeen AS last_seen,
  OSName AS os_name,
  OSRelease AS os_release,
  Architecture AS architecture,
  CPUModel AS cpu_model,
  Sockets AS sockets,
  CoresPerSocket AS cores_per_socket,
  ThreadsPerCore AS threads_per_core,
  CAST(Sockets * CoresPerSocket * ThreadsPerCore AS INTEGER) AS logical_cores,
  NumaNodes AS numa_nodes,
  Distances AS numa_distances,
  Memory AS memory_kib,
  TopoSVG AS topology_svg_base64,
  TopoText AS topology_text_base64
FROM Nodes JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;

-- The GPUs of each row of v1_nodes.
--   hardware_id: row of v1_nodes
--   cluster: cluster; Clusters
--   node: node; NodeNames
--   valid_from: s since 1970: first seen so
--   card_index: number on the node; may change when it boots
--   uuid: the card's own name
--   address: e.g. on PCI
--   manufacturer: NVIDIA, AMD, Intel, ...
--   model: as the manufacturer calls it
--   architecture: e.g. Turing
--   driver: version of the driver
--   firmware: version of the firmware
--   memory_kib: KiB
--   power_limit_w: W; 0: unknown
--   max_power_limit_w: W
--   min_power_limit_w: W
--   max_ce_clock_mhz: MHz of the compute elements
--   max_memory_clock_mhz: MHz of the memory
CREATE VIEW v1_node_cards AS
SELECT
  NodesID AS hardware_id,
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  ValidFrom AS valid_from,
  CardIndex AS card_index,
  UUID AS uuid,
  Address AS address,
  Manufacturer AS manufacturer,
  Model AS model,
  NodeGPUs.Architecture AS architecture,
  Driver AS driver,
  Firmware AS firmware,
  NodeGPUs.Memory AS memory_kib,
  PowerLimitW AS power_limit_w,
  MaxPowerLimitW AS max_power_limit_w,
  MinPowerLimitW AS min_power_limit_w,
  MaxCEClockMHz AS max_ce_clock_mhz,
  MaxMemoryClockMHz AS max_memory_clock_mhz
FROM NodeGPUs JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;

-- The packages of each row of v1_nodes.
--   hardware_id: row of v1_nodes
--   cluster: cluster; Clusters
--   node: node; NodeNames
--   valid_from: s since 1970: first seen so
--   key: identifier of the package
--   name: its name for people
--   version: its version
CREATE VIEW v1_node_software AS
SELECT
  NodesID AS hardware_id,
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  ValidFrom AS valid_from,
  Key AS key,
  NodeSoftware.Name AS name,
  Version AS version
FROM NodeSoftware JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;

--   cluster: cluster; Clusters
--   node: node; NodeNames
--   hour: s since 1970: first second of the hour
--   hour_iso: hour as text
--   device: NULL: the node; UUID of a card; disk:NAME
--   measure: what was measured, with its unit, e.g. used_memory_kib
--   samples: how many samples
--   covered_s: s that they cover
--   mean: mean of what goes up and down
--   low: smallest
--   high: largest
--   increase: growth of a counter (cpu_busy_s, read_kib, ...); J for power_w
--   text: last value of a measure in words
CREATE VIEW v1_node_usage AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  Hour AS hour,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Hour, 'unixepoch') AS TEXT) AS hour_iso,
  CAST(nullif(Device, '') AS TEXT) AS device,
  Measure AS measure,
  Samples AS samples,
  CoveredS AS covered_s,
  Mean AS mean,
  Low AS low,
  High AS high,
  Increase AS increase,
  Text AS text
FROM NodeUsage JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;

-- What the processes of each job used on each node, all hours together. Numbers are used again: there is one row for
-- each run of a job of the batch system, and one for the samples of its number that no known run holds. A process
-- group that runs on after a gap of two hours in its samples is another job.
--   cluster: cluster; Clusters
--   node: node; NodeNames
--   job_id: number of the batch system; or of the process group
--   epoch: NULL: a job of the batch system; else distinguishes boots of the node
--   user_name: account
--   first_time: s since 1970: first sample
--   first_time_iso: first_time as text
--   last_time: s since 1970: last sample
--   last_time_iso: last_time as text
--   samples: how many samples
--   cpu_s: s of CPU time; what ran after the last sample is not in it
--   peak_memory_kib: KiB resident of all its processes (private pages)
--   peak_virtual_memory_kib: KiB of data and stack of all its processes
--   peak_processes: processes at once
--   peak_threads: threads at once
--   read_kib: KiB read from devices
--   written_kib: KiB written to devices
--   cancelled_kib: KiB of writes that were not needed after all
--   is_in_container: 1: it ran in a container
--   array_task_id: index in the array job_id; NULL: none, or an element of Slurm's
--   cpu_avg_percent: percent of a core that its processes used over their lives, mean of the samples; NULL: imported
--     without --details
--   cpu_util_percent: percent of a core at the moments of the samples, mean; NULL: the same, or not reported
--   peak_cpu_util_percent: the largest of them
--   run_start_time: s since 1970: start of the run that these samples belong to; NULL: no known run of that number
--     contains them, or no job of a batch system
--   run_start_time_iso: run_start_time as text
CREATE VIEW v1_sampled_jobs AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  SampledJobs.JobID AS job_id,
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch,
  CAST(max(UserName) AS TEXT) AS user_name,
  CAST(min(FirstTime) AS INTEGER) AS first_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', min(FirstTime), 'unixepoch') AS TEXT) AS first_time_iso,
  CAST(max(LastTime) AS INTEGER) AS last_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', max(LastTime), 'unixepoch') AS TEXT) AS last_time_iso,
  CAST(sum(Samples) AS INTEGER) AS samples,
  CAST(sum(CPUS) AS INTEGER) AS cpu_s,
  CAST(max(PeakMemory) AS INTEGER) AS peak_memory_kib,
  CAST(max(PeakVirtMem) AS INTEGER) AS peak_virtual_memory_kib,
  CAST(max(PeakProcesses) AS INTEGER) AS peak_processes,
  CAST(max(PeakThreads) AS INTEGER) AS peak_threads,
  CAST(sum(ReadKiB) AS INTEGER) AS read_kib,
  CAST(sum(WrittenKiB) AS INTEGER) AS written_kib,
  CAST(max(CancelledKiB) AS INTEGER) AS cancelled_kib,
  CAST(max(InContainer) AS INTEGER) AS is_in_container,
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id,
  CAST(sum(CPUAvgPercent * Samples) / sum(CASE WHEN CPUAvgPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_avg_percent,
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent,
  CAST(max(PeakCPUUtilPercent) AS REAL) AS peak_cpu_util_percent,
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso
FROM (
  SELECT *, CASE (SELECT Epoch FROM SampledJobs WHERE SampledJobs.ID = SampledJobID) WHEN 0 THEN 0 ELSE
         sum(Starts) OVER (PARTITION BY SampledJobID, NodeID ORDER BY Hour) END AS Part
    FROM JobUsage
) AS JobUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobUsage.NodeID, Part, RunStart;

-- What telemetry adds to the records of v1_jobs: of those that do not count (counted is 0) no usage.
--   job_id: the record; joins v1_jobs
--   cluster: cluster; Clusters
--   lrms_job_id: number of the batch system
--   cpu_model: CPU of its nodes, joined by ";" if they differ
--   samples: samples of its processes
--   sampled_cpu_s: s of CPU time, by samples
--   peak_memory_kib: KiB: the largest sum over its processes on a node
--   read_kib: KiB read from devices
--   written_kib: KiB written to devices
--   gpu_count: GPUs that the batch system gave it; 0: none, or Slurm does not count them; NULL: it was not asked
--   gpu_allocated_s: s: GPUs times clock time, what is charged for
--   gpu_model: what they are, joined by ";"
--   gpu_occupied_s: s that it had processes on GPUs, added up
--   gpu_busy_s: s of fully used GPUs
--   gpu_peak_memory_kib: KiB on one card
--   gpu_energy_j: J: its share of what its cards drew
--   energy_j: J, as the batch system measured the nodes
--   cpu_source: of a record made from Slurm: sacct, steps or samples
--   counted: as in v1_jobs; 0: the usage (sampled_cpu_s to written_kib, gpu_allocated_s, gpu_occupied_s to energy_j) is NULL
CREATE VIEW v1_job_telemetry AS
SELECT
  JobValues.job_id AS job_id,
  Clusters.Name AS cluster,
  JobTelemetry.JobID AS lrms_job_id,
  CPUModel AS cpu_model,
  Samples AS samples,
  CAST(CASE WHEN counted THEN CPUS END AS INTEGER) AS sampled_cpu_s,
  CAST(CASE WHEN counted THEN PeakMemory END AS INTEGER) AS peak_memory_kib,
  CAST(CASE WHEN counted THEN ReadKiB END AS INTEGER) AS read_kib,
  CAST(CASE WHEN counted THEN WrittenKiB END AS INTEGER) AS written_kib,
  CAST(GPUCount AS INTEGER) AS gpu_count,
  CAST(CASE WHEN counted THEN GPUAllocatedS END AS INTEGER) AS gpu_allocated_s,
  GPUModel AS gpu_model,
  CAST(CASE WHEN counted THEN GPUOccupiedS END AS REAL) AS gpu_occupied_s,
  CAST(CASE WHEN counted THEN GPUBusyS END AS REAL) AS gpu_busy_s,
  CAST(CASE WHEN counted THEN GPUPeakMemory END AS INTEGER) AS gpu_peak_memory_kib,
  CAST(CASE WHEN counted THEN GPUEnergyJ END AS REAL) AS gpu_energy_j,
  CAST(CASE WHEN counted THEN EnergyJ END AS INTEGER) AS energy_j,
  CPUSource AS cpu_source,
  counted
FROM JobTelemetry
JOIN JobValues ON JobValues.record_id = JobTelemetry.RecordID
JOIN Clusters ON Clusters.ID = ClusterID
LEFT JOIN JobAccelerators ON JobAccelerators.RecordID = JobTelemetry.RecordID AND JobAccelerators.Source = 'sonar';

-- What each job used of each GPU, all hours together.
--   cluster: cluster; Clusters
--   node: node; NodeNames
--   job_id: number of the batch system, or of the process group
--   epoch: as in v1_sampled_jobs
--   uuid: the card
--   model: what it is; NodeGPUs
--   samples: samples in which the job had processes on it
--   occupied_s: s that the job had processes on it
--   busy_s: s of a fully used card
--   energy_j: J: the job's share of what the card drew; NULL: the card does not report it
--   peak_memory_kib: KiB of the card's memory
--   array_task_id: as in v1_sampled_jobs
--   card_index: its number on the node; NULL: imported without --details
--   memory_util_percent: percent of its memory that the job had, mean of the samples; NULL: the same
--   run_start_time: as in v1_sampled_jobs
--   run_start_time_iso: run_start_time as text
CREATE VIEW v1_job_accelerators AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  SampledJobs.JobID AS job_id,
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch,
  JobGPUUsage.UUID AS uuid,
  (SELECT Model FROM NodeGPUs WHERE NodeGPUs.UUID = JobGPUUsage.UUID
    ORDER BY NodesID DESC LIMIT 1) AS model,
  CAST(sum(Samples) AS INTEGER) AS samples,
  CAST(sum(OccupiedS) AS REAL) AS occupied_s,
  CAST(sum(BusyS) AS REAL) AS busy_s,
  CAST(sum(EnergyJ) AS REAL) AS energy_j,
  CAST(max(JobGPUUsage.PeakMemory) AS INTEGER) AS peak_memory_kib,
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id,
  CAST(max(CardIndex) AS INTEGER) AS card_index,
  CAST(sum(MemoryUtilPercent * Samples) / sum(CASE WHEN MemoryUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS memory_util_percent,
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso
FROM JobGPUUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobGPUUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobGPUUsage.NodeID, JobGPUUsage.UUID, RunStart;

-- What sampled jobs ran, where telemetry was imported with --details.
--   cluster: cluster; Clusters
--   node: node; NodeNames
--   job_id: number of the batch system, or of the process group
--   array_task_id: as in v1_sampled_jobs
--   epoch: as in v1_sampled_jobs
--   command: name of the program, as the kernel has it
--   samples: samples in which it ran
--   peak_processes: processes of it at once
--   peak_memory_kib: KiB resident of all of them (private pages)
--   cpu_avg_percent: as in v1_sampled_jobs
--   cpu_util_percent: as in v1_sampled_jobs
--   run_start_time: as in v1_sampled_jobs
--   run_start_time_iso: run_start_time as text
CREATE VIEW v1_job_commands AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  SampledJobs.JobID AS job_id,
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id,
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch,
  Command AS command,
  CAST(sum(Samples) AS INTEGER) AS samples,
  CAST(max(PeakProcesses) AS INTEGER) AS peak_processes,
  CAST(max(JobCommandUsage.PeakMemory) AS INTEGER) AS peak_memory_kib,
  CAST(sum(CPUAvgPercent * Samples) / sum(Samples) AS REAL) AS cpu_avg_percent,
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent,
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso
FROM JobCommandUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCommandUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCommandUsage.NodeID, Command, RunStart;

--   cluster: cluster; Clusters
--   node: node
--   time: s since 1970
--   time_iso: time as text
--   detail: the complaint
CREATE VIEW v1_producer_errors AS
SELECT
  Clusters.Name AS cluster,
  CAST(nullif(Node, '') AS TEXT) AS node,
  Time AS time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Time, 'unixepoch') AS TEXT) AS time_iso,
  Detail AS detail
FROM TelemetryErrors JOIN Clusters ON Clusters.ID = ClusterID;
