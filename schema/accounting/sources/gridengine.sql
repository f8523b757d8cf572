-- Views of Grid Engine's records.

--   record_no: number of the record, in v1_gridengine_usage too; GridEngineRecords
--   job_id: the job in v1_jobs that it was accounted to; NULL: none; AAR
--   cell: cell (cluster) that it is from
--   job_number: number of the job; numbers are reused
--   task_number: index in an array job
--   pe_taskid: task of a tightly integrated parallel job; NULL for the record of the job itself
--   qname: cluster queue
--   hostname: execution host
--   owner: account that the job ran under
--   group_name: group that the job ran under
--   account: account string of qsub -A
--   project: project
--   department: department
--   granted_pe: parallel environment
--   slots: slots of the whole job, also in the records of its tasks
--   arid: advance reservation
--   job_name: name that the user gave the job
--   priority: priority of the queue's configuration
--   submission_time: s since 1970: submitted, or requeued
--   submission_time_iso: submission_time as text
--   start_time: s since 1970: started; NULL: it never did
--   start_time_iso: start_time as text
--   end_time: s since 1970: ended
--   end_time_iso: end_time as text
--   ar_submission_time: s since 1970: the advance reservation was submitted
--   ar_submission_time_iso: ar_submission_time as text
--   submit_cmd_line: command line of the submission
--   category: what the job asked for
--   failed: 0, or why the job failed or must run again
--   failed_text: failed in words
--   exit_status: exit status of the job script; above 128: signal
--   deleted_by: user@host that deleted the job; execd@ and qmaster@ enforce limits
--   ru_wallclock_s: s from start to end
--   ru_utime_s: s of CPU time in user mode, of the processes that were waited for
--   ru_stime_s: s of CPU time in the kernel, of the same
--   ru_maxrss_kib: KiB of resident memory at most
--   ru_ixrss: KiB s of shared memory; mostly 0
--   ru_ismrss: not used; 0
--   ru_idrss: KiB s of data; mostly 0
--   ru_isrss: KiB s of stack; mostly 0
--   ru_minflt: page faults without input
--   ru_majflt: page faults with input
--   ru_nswap: times swapped out
--   ru_inblock: blocks read, of 512 bytes
--   ru_oublock: blocks written, of 512 bytes
--   ru_msgsnd: messages sent
--   ru_msgrcv: messages received
--   ru_nsignals: signals received
--   ru_nvcsw: voluntary context switches
--   ru_nivcsw: involuntary context switches
--   wallclock_s: s until the execution daemon reaped the job; longer than it ran
--   cpu_s: s of CPU time as the execution daemon saw it, or reserved slots times wall clock
--   mem_gib_s: GiB s: memory integrated over time
--   io_gib: GiB of input and output
--   ioops: operations of input and output
--   iow_s: s waited for input and output
--   maxvmem_bytes: bytes of virtual memory at most; the limit if usage is accounted as reserved
--   maxrss_bytes: bytes of resident memory at most
--   maxpss_bytes: bytes of proportional set size at most
--   job_class: job class; Univa
--   submit_host: host of the submission; Univa
--   cwd: working directory; Univa
--   bound_cores: cores that the job was bound to; Univa
--   slot_s: s from start to end, times slots; 0 in records of tasks
--   file: file that it was read from, where it was last; GridEngineFiles
--   line: line in that file
CREATE VIEW v1_gridengine_records AS
SELECT
  Record.RecordNo AS record_no,
  AAR.JobID AS job_id,
  Record.Cell AS cell,
  JobNumber AS job_number,
  CAST(nullif(TaskNumber, 0) AS INTEGER) AS task_number,
  PeTaskID AS pe_taskid,
  QName AS qname,
  Hostname AS hostname,
  Owner AS owner,
  GroupName AS group_name,
  Account AS account,
  Project AS project,
  Department AS department,
  GrantedPE AS granted_pe,
  Slots AS slots,
  ArID AS arid,
  JobName AS job_name,
  Priority AS priority,
  CAST(nullif(SubmissionTimeUs, 0) / 1000000 AS INTEGER) AS submission_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(SubmissionTimeUs, 0) / 1000000, 'unixepoch') AS TEXT) AS submission_time_iso,
  CAST(nullif(StartTimeUs, 0) / 1000000 AS INTEGER) AS start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(StartTimeUs, 0) / 1000000, 'unixepoch') AS TEXT) AS start_time_iso,
  CAST(nullif(EndTimeUs, 0) / 1000000 AS INTEGER) AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(EndTimeUs, 0) / 1000000, 'unixepoch') AS TEXT) AS end_time_iso,
  CAST(ArSubmissionTimeUs / 1000000 AS INTEGER) AS ar_submission_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ArSubmissionTimeUs / 1000000, 'unixepoch') AS TEXT) AS ar_submission_time_iso,
  SubmitCmdLine AS submit_cmd_line,
  Category AS category,
  Failed AS failed,
  (SELECT Meaning FROM GridEngineFailures WHERE GridEngineFailures.Failed = Record.Failed) AS failed_text,
  ExitStatus AS exit_status,
  DeletedBy AS deleted_by,
  RuWallclock AS ru_wallclock_s,
  RuUtime AS ru_utime_s,
  RuStime AS ru_stime_s,
  RuMaxrss AS ru_maxrss_kib,
  RuIxrss AS ru_ixrss,
  RuIsmrss AS ru_ismrss,
  RuIdrss AS ru_idrss,
  RuIsrss AS ru_isrss,
  RuMinflt AS ru_minflt,
  RuMajflt AS ru_majflt,
  RuNswap AS ru_nswap,
  RuInblock AS ru_inblock,
  RuOublock AS ru_oublock,
  RuMsgsnd AS ru_msgsnd,
  RuMsgrcv AS ru_msgrcv,
  RuNsignals AS ru_nsignals,
  RuNvcsw AS ru_nvcsw,
  RuNivcsw AS ru_nivcsw,
  Wallclock AS wallclock_s,
  Cpu AS cpu_s,
  Mem AS mem_gib_s,
  Io AS io_gib,
  IoOps AS ioops,
  Iow AS iow_s,
  MaxVmem AS maxvmem_bytes,
  MaxRss AS maxrss_bytes,
  MaxPss AS maxpss_bytes,
  JobClass AS job_class,
  SubmitHost AS submit_host,
  Cwd AS cwd,
  BoundCores AS bound_cores,
  CAST(CASE WHEN EndTimeUs > StartTimeUs AND StartTimeUs > 0 AND PeTaskID IS NULL
    THEN (EndTimeUs - StartTimeUs) / 1e6 * Slots ELSE 0.0 END AS REAL) AS slot_s,
  File.Path AS file,
  Record.Line AS line
FROM GridEngineRecords AS Record
JOIN GridEngineFiles AS File ON File.FileID = Record.FileID
LEFT JOIN AAR ON AAR.RecordID = Record.RecordID;

--   record_no: the record in v1_gridengine_records; GridEngineUsage
--   job_id: the job in v1_jobs that it was accounted to; AAR
--   job_number: as in v1_gridengine_records
--   task_number: as in v1_gridengine_records
--   usage_group: name that the site gave the pattern; NULL: a field that this version does not know
--   name: what was measured
--   number: the value, if it is a number
--   text: the value, if it is a text
CREATE VIEW v1_gridengine_usage AS
SELECT
  Record.RecordNo AS record_no,
  AAR.JobID AS job_id,
  Record.JobNumber AS job_number,
  CAST(nullif(Record.TaskNumber, 0) AS INTEGER) AS task_number,
  CAST(nullif(Usage.UsageGroup, '') AS TEXT) AS usage_group,
  Usage.Name AS name,
  CAST(CASE WHEN typeof(likely(Usage.Value)) <> 'text' THEN Usage.Value END AS NUMERIC) AS number,
  CAST(CASE WHEN typeof(likely(Usage.Value)) = 'text' THEN Usage.Value END AS TEXT) AS text
FROM GridEngineUsage AS Usage
JOIN GridEngineRecords AS Record ON Record.RecordNo = Usage.RecordNo
LEFT JOIN AAR ON AAR.RecordID = Record.RecordID;

--   cell: cell (cluster) that it is from; GridEngineFiles
--   file: where it was last; - for standard input
--   position_bytes: bytes that were read, up to the end of a line
--   lines: lines that were read
--   records: records that were new when they were read
--   bad_lines: lines that could not be used
--   read_time: s since 1970: last read
--   read_time_iso: read_time as text
CREATE VIEW v1_gridengine_files AS
SELECT
  Cell AS cell,
  Path AS file,
  Position AS position_bytes,
  Lines AS lines,
  Records AS records,
  BadLines AS bad_lines,
  ReadAt AS read_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ReadAt, 'unixepoch') AS TEXT) AS read_time_iso
FROM GridEngineFiles;
