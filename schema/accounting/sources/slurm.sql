-- Views of Slurm's jobs, as sacct has them.

-- One row for each run of a job of Slurm that is over, as sacct tells it.
--   run_no: number of the row; SlurmRuns
--   job_id: the job in v1_jobs that it was accounted to; NULL: none yet; AAR
--   cluster: cluster that it is from
--   slurm_job_id: Slurm's number of the job; a job that was requeued has several runs
--   slurm_job: as sacct shows it: array_index, or job+offset of a heterogeneous job
--   state: Slurm's state, e.g. COMPLETED
--   submit_time: s since 1970: submitted, or requeued
--   submit_time_iso: submit_time as text
--   start_time: s since 1970: started
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
