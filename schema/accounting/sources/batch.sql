-- Views of the batch systems that have no tables of their own.

-- One row for each run of a job that is over, as the batch system's log reports it.
--   run_no: number of the row; BatchRuns
--   job_id: the job in v1_jobs that it was accounted to; NULL: none yet; AAR
--   source: batch system: pbs, lsf, or the name of an installed source
--   place: server or cluster
--   job_number: the batch system's number of the job; a job that was requeued has several runs
--   array_index: index in an array of jobs; NULL: not an element of an array
--   local_job_id: as the batch system writes it
--   state: completed, failed or aborted
--   submit_time: s since 1970: submitted
--   submit_time_iso: submit_time as text
--   start_time: s since 1970: started
--   start_time_iso: start_time as text
--   end_time: s since 1970: ended
--   end_time_iso: end_time as text
--   wall_s: s that it ran; NULL: not reported
--   cpu_user_s: s of CPU time in user mode, with the kernel's where both are reported together; NULL: not reported
--   cpu_kernel_s: s of CPU time in the kernel; 0: in cpu_user_s; NULL: not reported
--   cpus: CPUs that it was given; NULL: not reported
--   gpus: GPUs that it was given; NULL: not reported
--   max_memory_kib: KiB of resident memory at most; NULL: not reported
--   max_virtual_memory_kib: KiB of virtual memory at most; NULL: not reported
--   exit_status: exit status; NULL: not known
--   exit_signal: signal that ended it; NULL: none, or not known
--   node_list: names of its nodes, joined by ","; NULL: not reported
--   queue: queue; NULL: not reported
--   user_name: account that the job ran under; NULL: not reported
--   group_name: group that the job ran under; NULL: not reported
--   account: account in the batch system; NULL: none
--   project: project in the batch system; NULL: none
--   job_name: name that the user gave the job; NULL: none
--   core_s: s that it ran, times CPUs; without wall_s from start to end; NULL: CPUs are not reported
--   is_final: 0: the batch system says that another run follows; 1: it does not
CREATE VIEW v1_batch_runs AS
SELECT
  RunNo AS run_no,
  AAR.JobID AS job_id,
  Source AS source,
  Place AS place,
  JobNumber AS job_number,
  CAST(nullif(Task, -1) AS INTEGER) AS array_index,
  BatchRuns.LocalJobID AS local_job_id,
  State AS state,
  BatchRuns.SubmitTime AS submit_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', BatchRuns.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso,
  StartTime AS start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso,
  BatchRuns.EndTime AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', BatchRuns.EndTime, 'unixepoch') AS TEXT) AS end_time_iso,
  Wall AS wall_s,
  CPUUser AS cpu_user_s,
  CPUKernel AS cpu_kernel_s,
  CPUs AS cpus,
  GPUs AS gpus,
  MaxRSS AS max_memory_kib,
  MaxVMSize AS max_virtual_memory_kib,
  ExitStatus AS exit_status,
  ExitSignal AS exit_signal,
  CAST(nullif(NodeList, '') AS TEXT) AS node_list,
  CAST(nullif(QueueName, '') AS TEXT) AS queue,
  CAST(nullif(UserName, '') AS TEXT) AS user_name,
  CAST(nullif(GroupName, '') AS TEXT) AS group_name,
  CAST(nullif(Account, '') AS TEXT) AS account,
  CAST(nullif(Project, '') AS TEXT) AS project,
  CAST(nullif(JobName, '') AS TEXT) AS job_name,
  CAST(coalesce(CoreS, coalesce(Wall, BatchRuns.EndTime - StartTime) * CPUs) AS INTEGER) AS core_s,
  IsFinal AS is_final
FROM BatchRuns LEFT JOIN AAR ON AAR.RecordID = BatchRuns.RecordID
WHERE State <> '';
