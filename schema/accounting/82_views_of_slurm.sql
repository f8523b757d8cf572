-- Views of Slurm's jobs.

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
--   exit_code: exit code; a signal is not told, nor is 0
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

-- One row for each run of a job of Slurm that is over, as sacct tells it.
--   run_no: number of the row; SlurmRuns
--   job_id: the job in v1_jobs that it was accounted to; NULL: none yet; AAR
--   cluster: cluster that it is from
--   slurm_job_id: Slurm's number of the job; a job that was requeued has several runs
--   slurm_job: as sacct shows it: array_index, or job+offset of a heterogeneous job
--   state: Slurm's state, e.g. COMPLETED
--   submit_time: s since 1970: submitted, or requeued
--   submit_time_iso: submit_time as text
--   start_time: s since 1970: began to run
--   start_time_iso: start_time as text
--   end_time: s since 1970: ended
--   end_time_iso: end_time as text
--   elapsed_s: s that it ran, without those that it was suspended
--   exit_status: exit status of the job script; NULL: not known
--   exit_signal: signal that ended it; 0: none; NULL: not known
--   cpus: CPUs that it was given; NULL: not known
--   nodes: nodes that it was given
--   node_list: their names, in brackets
--   partition: partition
--   user_name: account that the job ran under
--   group_name: group that the job ran under
--   account: Slurm's account (project)
--   qos: quality of service
--   wckey: workload characterization key
--   job_name: name that the user gave the job
--   allocated_tres: trackable resources that it was given, GPUs among them
--   cpu_s: s of CPU time of all steps; NULL: sacct was asked without steps, or nothing measured it
--   cpu_kernel_s: s of it in the kernel
--   max_memory_kib: KiB of resident memory, of the task that used most
--   max_virtual_memory_kib: KiB of virtual memory, of the task that used most
--   core_s: s that it ran, times CPUs: what sreport sums
CREATE VIEW v1_slurm_runs AS
SELECT
  SlurmRuns.RunNo AS run_no,
  AAR.JobID AS job_id,
  Cluster AS cluster,
  SlurmRuns.JobID AS slurm_job_id,
  ShownID AS slurm_job,
  State AS state,
  SlurmRuns.SubmitTime AS submit_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso,
  StartTime AS start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso,
  SlurmRuns.EndTime AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.EndTime, 'unixepoch') AS TEXT) AS end_time_iso,
  Elapsed AS elapsed_s,
  ExitStatus AS exit_status,
  ExitSignal AS exit_signal,
  CAST(nullif(CPUs, 0) AS INTEGER) AS cpus,
  Nodes AS nodes,
  NodeList AS node_list,
  QPartition AS partition,
  UserName AS user_name,
  GroupName AS group_name,
  Account AS account,
  QOS AS qos,
  WCKey AS wckey,
  JobName AS job_name,
  AllocTRES AS allocated_tres,
  CAST(CPUUs / 1e6 AS REAL) AS cpu_s,
  CAST(CPUKernelUs / 1e6 AS REAL) AS cpu_kernel_s,
  MaxRSS AS max_memory_kib,
  MaxVMSize AS max_virtual_memory_kib,
  CAST(Elapsed * nullif(CPUs, 0) AS INTEGER) AS core_s
FROM SlurmRuns LEFT JOIN AAR ON AAR.RecordID = SlurmRuns.RecordID;
