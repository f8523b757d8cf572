-- Views of HTCondor's jobs.

-- One row for each job of HTCondor that had started and left the queue, as its history tells it.
--   job_no: number of the row; HTCondorJobs
--   job_id: the job in v1_jobs that it was accounted to; NULL: none yet; AAR
--   schedd: schedd that it was submitted to
--   htcondor_job: HTCondor's number of the job: cluster.process
--   state: completed or removed
--   submit_time: s since 1970: submitted
--   submit_time_iso: submit_time as text
--   start_time: s since 1970: its first run began
--   start_time_iso: start_time as text
--   last_start_time: s since 1970: its last run began
--   last_start_time_iso: last_start_time as text
--   end_time: s since 1970: completed or removed
--   end_time_iso: end_time as text
--   wall_s: s that it ran, all runs together, with suspensions
--   starts: how often it was started
--   cpus: CPUs that it was given, of all nodes
--   gpus: GPUs that it was given; NULL: not said
--   cpu_user_s: s of CPU time in user mode, all runs together; NULL: not known of all
--   cpu_kernel_s: s of CPU time in the kernel, all runs together; NULL: not known of all
--   max_memory_kib: KiB of resident memory at most
--   max_virtual_memory_kib: KiB of virtual memory at most
--   memory_mib: MiB of memory that it was given
--   exit_status: exit status; NULL: not known
--   exit_signal: signal that ended it; 0: none; NULL: not known
--   hosts: slots of its last run, slot@node, joined by ","
--   user_name: account that the job ran under
--   account: accounting group
--   project: project (ProjectName)
--   job_name: name that the user gave the batch of jobs
--   queue: queue of A-REX that it came through
--   user_dn: distinguished name of the proxy that it was submitted with
--   vo: virtual organisation of that proxy
--   fqan: main VOMS attribute of that proxy
--   benchmark: benchmark of a core of its machine, by the machine's own attribute
--   core_s: s that it ran, times CPUs
--   token_subject: subject of the token that it was submitted with
--   token_issuer: issuer of that token
--   token_groups: groups of that token, joined by ","
--   token_scopes: scopes of that token, joined by ","
--   token_id: identifier of that token (jti)
CREATE VIEW v1_htcondor_jobs AS
SELECT
  JobNo AS job_no,
  AAR.JobID AS job_id,
  Schedd AS schedd,
  CAST(Cluster || '.' || Proc AS TEXT) AS htcondor_job,
  CAST(CASE JobStatus WHEN 3 THEN 'removed' ELSE 'completed' END AS TEXT) AS state,
  HTCondorJobs.SubmitTime AS submit_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso,
  StartTime AS start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso,
  LastStart AS last_start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', LastStart, 'unixepoch') AS TEXT) AS last_start_time_iso,
  HTCondorJobs.EndTime AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.EndTime, 'unixepoch') AS TEXT) AS end_time_iso,
  Wall AS wall_s,
  Starts AS starts,
  CPUs AS cpus,
  GPUs AS gpus,
  CPUUser AS cpu_user_s,
  CPUKernel AS cpu_kernel_s,
  MaxRSS AS max_memory_kib,
  MaxVMSize AS max_virtual_memory_kib,
  MemoryMiB AS memory_mib,
  ExitStatus AS exit_status,
  ExitSignal AS exit_signal,
  Hosts AS hosts,
  UserName AS user_name,
  Account AS account,
  Project AS project,
  JobName AS job_name,
  QueueName AS queue,
  UserDN AS user_dn,
  VO AS vo,
  FQAN AS fqan,
  Benchmark AS benchmark,
  CAST(Wall * CPUs AS INTEGER) AS core_s,
  CAST(nullif(TokenSubject, '') AS TEXT) AS token_subject,
  CAST(nullif(TokenIssuer, '') AS TEXT) AS token_issuer,
  CAST(nullif(TokenGroups, '') AS TEXT) AS token_groups,
  CAST(nullif(TokenScopes, '') AS TEXT) AS token_scopes,
  CAST(nullif(TokenID, '') AS TEXT) AS token_id
FROM HTCondorJobs LEFT JOIN AAR ON AAR.RecordID = HTCondorJobs.RecordID;
