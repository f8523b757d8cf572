-- The views for programs other than ours: each column has a type, and other parsers read the text.
--
-- CAST gives a column that is computed an affinity: SQLite from 3.41 on tells its type by that (before, only of columns
-- that are a table's), and a comparison with a number or a text converts by it. Columns, names and values are as before.
--
-- DuckDB parses the text of a view, writes it anew and has SQLite run that. So there is no LIKE here (it becomes ~~), no
-- IS with a value, no UNION, and char() stands in quotes, since it is a type elsewhere.

DROP VIEW v1_jobs;
-- One row for each job, from its acceptance on. The values of a job that is not finished yet are those of the start.
CREATE VIEW v1_jobs AS
SELECT
  AAR.JobID AS job_id, -- id that A-REX gave the job; AAR, as stored
  CAST(nullif(AAR.LocalJobID, '') AS TEXT) AS local_job_id, -- id that the batch system gave the job; AAR, as stored
  CAST((SELECT replace(replace(replace(replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%0D', "char"(13)),
                                  '%0A', "char"(10)), '%08', "char"(8)), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'jobname'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS job_name, -- name that the user gave the job; JobExtraInfo jobname
  CAST(nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS endpoint_url, -- URL at which the job was submitted; NULL: a local job; Endpoints
  CAST(nullif(Endpoints.Interface, '') AS TEXT) AS endpoint_type, -- submission interface, e.g. org.nordugrid.arcrest; Endpoints
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'lrms'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS lrms, -- batch system, as [lrms] calls it; JobExtraInfo lrms
  CAST(nullif(replace(replace(replace(Queues.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS queue, -- queue or partition of the batch system; Queues
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID
      AND InfoKey IN ('nodenames', 'nodename')
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS node_names, -- worker nodes joined by ":", one name for each slot; JobExtraInfo nodenames
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'clienthost'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS client_host, -- address:port that the job was submitted from; JobExtraInfo clienthost
  CAST(nullif(replace(replace(replace(replace(replace(replace(Users.Name, '%27', ''''), '%23', '#'), '%0D', "char"(13)),
                                 '%0A', "char"(10)), '%08', "char"(8)), '%25', '%'),
         '') AS TEXT) AS user_dn, -- distinguished name of the user, in OpenSSL's one-line form; Users
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'localuser'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS local_user, -- account that the job ran under, user or user:group; JobExtraInfo localuser
  CAST(nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS vo, -- virtual organisation; WLCGVOs
  CAST(AAR.FQAN AS TEXT) AS fqan, -- main VOMS attribute; AuthTokenAttributes mainfqan
  CAST(CASE WHEN substr(AAR.FQAN, 1, 1) = '/' THEN
    substr(AAR.FQAN, 1, min(instr(AAR.FQAN || '/Role=', '/Role='), instr(AAR.FQAN || '/Capability=', '/Capability=')) - 1)
  END AS TEXT) AS vo_group, -- group part of fqan, with its leading slash; AuthTokenAttributes
  CAST(CASE WHEN instr(AAR.FQAN, '/Role=') THEN
    nullif(nullif(
      substr(AAR.FQAN, instr(AAR.FQAN, '/Role=') + 6,
             instr(substr(AAR.FQAN, instr(AAR.FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL')
  END AS TEXT) AS vo_role, -- role part of fqan; NULL without one; AuthTokenAttributes
  CAST((SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'projectname'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS project, -- project or account that the job belongs to; JobExtraInfo projectname
  CAST(nullif(Status.Name, '') AS TEXT) AS status, -- in-progress, completed, failed or aborted; Status
  CAST(CASE WHEN AAR.EndTime > 0 THEN AAR.ExitCode END AS INTEGER) AS exit_code, -- exit code of the job; 1 when A-REX did not learn it; AAR
  CAST(nullif(AAR.SubmitTime, 0) AS INTEGER) AS submit_time, -- s since 1970: A-REX accepted the job; AAR
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.SubmitTime, 0), 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  CAST((SELECT strftime('%s', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS INTEGER) AS lrms_submit_time, -- s since 1970: handed to the batch system; JobEvents SUBMIT
  CAST((SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS TEXT) AS lrms_submit_time_iso, -- lrms_submit_time as text
  CAST((SELECT strftime('%s', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS INTEGER) AS lrms_start_time, -- s since 1970: began to run, by the worker's clock; JobEvents LRMSSTART
  CAST((SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS TEXT) AS lrms_start_time_iso, -- lrms_start_time as text
  CAST((SELECT strftime('%s', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS INTEGER) AS lrms_end_time, -- s since 1970: ended to run, by the worker's clock; JobEvents LRMSEND
  CAST((SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS TEXT) AS lrms_end_time_iso, -- lrms_end_time as text
  CAST(nullif(AAR.EndTime, 0) AS INTEGER) AS end_time, -- s since 1970: the job reached its final status in A-REX; AAR
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.EndTime, 0), 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  AAR.NodeCount AS node_count, -- worker nodes; AAR
  AAR.CPUCount AS core_count, -- cores, on all nodes together; AAR CPUCount
  AAR.UsedWalltime AS wall_s, -- s of clock time that the job ran, whatever its cores; AAR UsedWalltime
  CAST(AAR.UsedCPUUserTime + AAR.UsedCPUKernelTime AS INTEGER) AS cpu_s, -- s of CPU time, user and kernel, of all cores; AAR
  AAR.UsedCPUUserTime AS cpu_user_s, -- s of CPU time in user mode; AAR
  AAR.UsedCPUKernelTime AS cpu_kernel_s, -- s of CPU time in the kernel; AAR
  CAST(nullif(AAR.UsedMemory, 0) AS INTEGER) AS memory_kib, -- KiB of resident memory at most; AAR UsedMemory
  CAST(nullif(AAR.UsedVirtMem, 0) AS INTEGER) AS virtual_memory_kib, -- KiB of virtual memory at most; AAR UsedVirtMem
  AAR.UsedScratch AS scratch_bytes, -- bytes in the scratch directory at the end; A-REX 6 writes 0; AAR
  AAR.StageInVolume AS stage_in_bytes, -- bytes of input fetched, without what was in the cache; AAR StageInVolume
  CAST((SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType IN (10, 11)) AS INTEGER) AS stage_in_s, -- s of all input transfers added up, queueing included; DataTransfers
  AAR.StageOutVolume AS stage_out_bytes, -- bytes of output stored; AAR StageOutVolume
  CAST((SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType = 20) AS INTEGER) AS stage_out_s, -- s of all output transfers added up, queueing included; DataTransfers
  CAST((SELECT group_concat(RTEName, ';') FROM (
     SELECT DISTINCT RTEName FROM RunTimeEnvironments WHERE RunTimeEnvironments.RecordID = AAR.RecordID
      ORDER BY RTEName)) AS TEXT) AS run_time_environments, -- ARC runtime environments joined by ";"; RunTimeEnvironments
  CAST((SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'systemsoftware'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS system_software, -- operating system of the worker; JobExtraInfo systemsoftware
  CAST((SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'wninstance'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS TEXT) AS wn_instance, -- kind of worker, e.g. an instance type of a cloud; JobExtraInfo wninstance
  CAST(CASE WHEN instr(AAR.Benchmark, ':') THEN
    substr(AAR.Benchmark, 1, instr(AAR.Benchmark, ':') - 1)
  END AS TEXT) AS benchmark_type, -- benchmark of the worker: HEPscore23, HEPSPEC (HS06) or Si2k; JobExtraInfo benchmark
  CAST(CASE WHEN instr(AAR.Benchmark, ':') THEN
    substr(AAR.Benchmark, instr(AAR.Benchmark, ':') + 1)
  END AS REAL) AS benchmark_value, -- value of that benchmark for one core; JobExtraInfo benchmark
  CAST(CASE WHEN instr(AAR.Benchmark, ':') THEN
    coalesce((SELECT Source FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID AND Field = 'benchmark'),
             (SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID), 'diag')
  END AS TEXT) AS benchmark_source, -- where the benchmark is from: diag (the job's .diag or the site's default), or FieldSources
  CAST(coalesce((SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID),
           'arc') AS TEXT) AS source -- where the record is from: arc (control directory), or RecordSources
FROM (
  SELECT *,
         (SELECT replace(replace(replace(AttrValue, '%27', ''''), '%23', '#'), '%25', '%') FROM AuthTokenAttributes
           WHERE AuthTokenAttributes.RecordID = AAR.RecordID AND +AttrKey IN ('mainfqan', 'vomsfqan')
           ORDER BY +AttrKey, AuthTokenAttributes.rowid LIMIT 1) AS FQAN,
         (SELECT InfoValue FROM JobExtraInfo
           WHERE JobExtraInfo.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'
           ORDER BY JobExtraInfo.rowid LIMIT 1) AS Benchmark
    FROM AAR
) AS AAR
LEFT JOIN Endpoints ON Endpoints.ID = AAR.EndpointID
LEFT JOIN Queues ON Queues.ID = AAR.QueueID
LEFT JOIN Users ON Users.ID = AAR.UserID
LEFT JOIN WLCGVOs ON WLCGVOs.ID = AAR.VOID
LEFT JOIN Status ON Status.ID = AAR.StatusID;

DROP VIEW v1_job_events;
CREATE VIEW v1_job_events AS
SELECT
  AAR.JobID AS job_id, -- the job; AAR
  JobEvents.EventKey AS event, -- state of A-REX, or LRMSSTART, LRMSEND, DTRDOWNLOADSTART, DTRDOWNLOADEND, DTRUPLOADSTART, DTRUPLOADEND; JobEvents
  CAST(strftime('%s', JobEvents.EventTime) AS INTEGER) AS event_time, -- s since 1970; JobEvents
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', JobEvents.EventTime) AS TEXT) AS event_time_iso -- event_time as text
FROM JobEvents JOIN AAR ON AAR.RecordID = JobEvents.RecordID;

DROP VIEW v1_transfers;
CREATE VIEW v1_transfers AS
SELECT
  AAR.JobID AS job_id, -- the job; AAR
  CAST(replace(replace(replace(replace(replace(replace(DataTransfers.URL, '%27', ''''), '%23', '#'), '%0D', "char"(13)),
                          '%0A', "char"(10)), '%08', "char"(8)), '%25', '%') AS TEXT) AS url, -- where the file came from or went to; DataTransfers
  CAST(CASE DataTransfers.TransferType WHEN 20 THEN 'output' WHEN 11 THEN 'cached_input'
    ELSE 'input' END AS TEXT) AS kind, -- input, cached_input (it was in the cache already) or output; DataTransfers TransferType
  DataTransfers.FileSize AS size_bytes, -- bytes; DataTransfers
  DataTransfers.TransferStart AS start_time, -- s since 1970: the transfer was asked for; DataTransfers
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', DataTransfers.TransferStart, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  DataTransfers.TransferEnd AS end_time, -- s since 1970: the transfer was done; DataTransfers
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', DataTransfers.TransferEnd, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  CAST(DataTransfers.TransferEnd - DataTransfers.TransferStart AS INTEGER) AS duration_s -- s that it took, queueing included; DataTransfers
FROM DataTransfers JOIN AAR ON AAR.RecordID = DataTransfers.RecordID;

-- The kinds of further values, as a table: a UNION within a view DuckDB gives back to SQLite in brackets, which it refuses.
CREATE TABLE AttributeKinds (
  Kind TEXT PRIMARY KEY  -- token, rte or info
) WITHOUT ROWID;
INSERT INTO AttributeKinds VALUES ('token'), ('rte'), ('info');

DROP VIEW v1_job_attributes;
CREATE VIEW v1_job_attributes AS
SELECT
  AAR.JobID AS job_id, -- the job; AAR
  Kind AS kind, -- token (of the credential), rte (runtime environment) or info; the table
  CAST(coalesce(AttrKey, InfoKey) AS TEXT) AS name, -- mainfqan, vomsfqan, jobname, lrms, ...; AttrKey or InfoKey; NULL for rte
  CAST(replace(replace(replace(replace(replace(replace(coalesce(AttrValue, RTEName, InfoValue), '%27', ''''), '%23', '#'),
                          '%0D', "char"(13)), '%0A', "char"(10)), '%08', "char"(8)), '%25', '%') AS TEXT) AS value -- the value; AttrValue, RTEName or InfoValue
FROM AAR
CROSS JOIN AttributeKinds
LEFT JOIN AuthTokenAttributes AS Token ON Kind = 'token' AND Token.RecordID = AAR.RecordID
LEFT JOIN RunTimeEnvironments AS RTE ON Kind = 'rte' AND RTE.RecordID = AAR.RecordID
LEFT JOIN JobExtraInfo AS Extra ON Kind = 'info' AND Extra.RecordID = AAR.RecordID
WHERE coalesce(Token.RecordID, RTE.RecordID, Extra.RecordID) IS NOT NULL;

DROP VIEW v1_usage_by_month;
CREATE VIEW v1_usage_by_month AS
SELECT
  CAST(substr(Month, 1, 4) || '-' || substr(Month, 5) AS TEXT) AS month, -- month of end_time in UTC, e.g. 2026-11; AAR
  CAST(nullif(replace(replace(replace(replace(replace(replace(Users.Name, '%27', ''''), '%23', '#'), '%0D', "char"(13)),
                                 '%0A', "char"(10)), '%08', "char"(8)), '%25', '%'), '') AS TEXT) AS user_dn, -- as in v1_jobs
  CAST(nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS vo, -- as in v1_jobs
  CAST(nullif(replace(replace(replace(FQAN, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS fqan, -- as in v1_jobs
  CAST(CASE WHEN substr(FQAN, 1, 1) = '/' THEN
    substr(FQAN, 1, min(instr(FQAN || '/Role=', '/Role='), instr(FQAN || '/Capability=', '/Capability=')) - 1)
  END AS TEXT) AS vo_group, -- as in v1_jobs
  CAST(CASE WHEN instr(FQAN, '/Role=') THEN
    nullif(nullif(
      substr(FQAN, instr(FQAN, '/Role=') + 6, instr(substr(FQAN, instr(FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL')
  END AS TEXT) AS vo_role, -- as in v1_jobs
  CAST(nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS endpoint_url, -- as in v1_jobs
  CAST(CASE Endpoints.URL WHEN '' THEN 'local' ELSE 'grid' END AS TEXT) AS infrastructure, -- grid, or local for jobs without an endpoint; Endpoints
  NodeCount AS node_count, -- as in v1_jobs
  CPUCount AS core_count, -- as in v1_jobs
  CAST(CASE WHEN instr(Benchmark, ':') THEN substr(Benchmark, 1, instr(Benchmark, ':') - 1) END AS TEXT) AS benchmark_type, -- as in v1_jobs
  CAST(CASE WHEN instr(Benchmark, ':') THEN
    substr(Benchmark, instr(Benchmark, ':') + 1) END AS REAL) AS benchmark_value, -- as in v1_jobs
  CAST(Jobs AS INTEGER) AS jobs, -- number of jobs
  CAST(Wall AS INTEGER) AS wall_s, -- s of clock time of all jobs; multiplied by core_count it is the core time
  CAST(Cpu AS INTEGER) AS cpu_s, -- s of CPU time of all jobs
  CAST(Earliest AS INTEGER) AS earliest_end_time, -- s since 1970: end_time of the first job
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Earliest, 'unixepoch') AS TEXT) AS earliest_end_time_iso, -- earliest_end_time as text
  CAST(Latest AS INTEGER) AS latest_end_time, -- s since 1970: end_time of the last job
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Latest, 'unixepoch') AS TEXT) AS latest_end_time_iso, -- latest_end_time as text
  CAST(nullif(AuthGroups, '') AS TEXT) AS auth_groups -- authgroups of arc.conf that A-REX found the user in, with blanks between, where no credential told the VO; AuthGroups
FROM UsageCells
JOIN Users ON Users.ID = UserID
JOIN WLCGVOs ON WLCGVOs.ID = VOID
JOIN Endpoints ON Endpoints.ID = EndpointID;

DROP VIEW v1_gridengine_records;
CREATE VIEW v1_gridengine_records AS
SELECT
  Record.RecordNo AS record_no, -- number of the record, in v1_gridengine_usage too; GridEngineRecords
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none; AAR
  Record.Cell AS cell, -- cell (cluster) that it is from
  JobNumber AS job_number, -- number of the job; numbers begin again one day
  CAST(nullif(TaskNumber, 0) AS INTEGER) AS task_number, -- index in an array job
  PeTaskID AS pe_taskid, -- task of a tightly integrated parallel job; NULL for the record of the job itself
  QName AS qname, -- cluster queue
  Hostname AS hostname, -- execution host
  Owner AS owner, -- account that the job ran under
  GroupName AS group_name, -- group that the job ran under
  Account AS account, -- account string of qsub -A
  Project AS project, -- project
  Department AS department, -- department
  GrantedPE AS granted_pe, -- parallel environment
  Slots AS slots, -- slots of the whole job, also in the records of its tasks
  ArID AS arid, -- advance reservation
  JobName AS job_name, -- name that the user gave the job
  Priority AS priority, -- priority of the queue's configuration
  CAST(nullif(SubmissionTimeUs, 0) / 1000000 AS INTEGER) AS submission_time, -- s since 1970: submitted, or requeued
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(SubmissionTimeUs, 0) / 1000000, 'unixepoch') AS TEXT) AS submission_time_iso, -- submission_time as text
  CAST(nullif(StartTimeUs, 0) / 1000000 AS INTEGER) AS start_time, -- s since 1970: began to run; NULL: it never did
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(StartTimeUs, 0) / 1000000, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  CAST(nullif(EndTimeUs, 0) / 1000000 AS INTEGER) AS end_time, -- s since 1970: ended
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(EndTimeUs, 0) / 1000000, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  CAST(ArSubmissionTimeUs / 1000000 AS INTEGER) AS ar_submission_time, -- s since 1970: the advance reservation was submitted
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ArSubmissionTimeUs / 1000000, 'unixepoch') AS TEXT) AS ar_submission_time_iso, -- ar_submission_time as text
  SubmitCmdLine AS submit_cmd_line, -- command line of the submission
  Category AS category, -- what the job asked for
  Failed AS failed, -- 0, or why the job failed or has to run again
  (SELECT Meaning FROM GridEngineFailures WHERE GridEngineFailures.Failed = Record.Failed) AS failed_text, -- failed in words
  ExitStatus AS exit_status, -- exit status of the job script; above 128: signal
  DeletedBy AS deleted_by, -- user@host that deleted the job; execd@ and qmaster@ enforce limits
  RuWallclock AS ru_wallclock_s, -- s from start to end
  RuUtime AS ru_utime_s, -- s of CPU time in user mode, of the processes that were waited for
  RuStime AS ru_stime_s, -- s of CPU time in the kernel, of the same
  RuMaxrss AS ru_maxrss_kib, -- KiB of resident memory at most
  RuIxrss AS ru_ixrss, -- KiB s of shared memory; mostly 0
  RuIsmrss AS ru_ismrss, -- not used; 0
  RuIdrss AS ru_idrss, -- KiB s of data; mostly 0
  RuIsrss AS ru_isrss, -- KiB s of stack; mostly 0
  RuMinflt AS ru_minflt, -- page faults without input
  RuMajflt AS ru_majflt, -- page faults with input
  RuNswap AS ru_nswap, -- times swapped out
  RuInblock AS ru_inblock, -- blocks read, of 512 bytes
  RuOublock AS ru_oublock, -- blocks written, of 512 bytes
  RuMsgsnd AS ru_msgsnd, -- messages sent
  RuMsgrcv AS ru_msgrcv, -- messages received
  RuNsignals AS ru_nsignals, -- signals received
  RuNvcsw AS ru_nvcsw, -- voluntary context switches
  RuNivcsw AS ru_nivcsw, -- involuntary context switches
  Wallclock AS wallclock_s, -- s until the execution daemon reaped the job; longer than it ran
  Cpu AS cpu_s, -- s of CPU time as the execution daemon saw it, or reserved slots times wall clock
  Mem AS mem_gib_s, -- GiB s: memory integrated over time
  Io AS io_gib, -- GiB of input and output
  IoOps AS ioops, -- operations of input and output
  Iow AS iow_s, -- s waited for input and output
  MaxVmem AS maxvmem_bytes, -- bytes of virtual memory at most; the limit if usage is accounted as reserved
  MaxRss AS maxrss_bytes, -- bytes of resident memory at most
  MaxPss AS maxpss_bytes, -- bytes of proportional set size at most
  JobClass AS job_class, -- job class; Univa
  SubmitHost AS submit_host, -- host of the submission; Univa
  Cwd AS cwd, -- working directory; Univa
  BoundCores AS bound_cores, -- cores that the job was bound to; Univa
  CAST(CASE WHEN EndTimeUs > StartTimeUs AND StartTimeUs > 0 AND PeTaskID IS NULL
    THEN (EndTimeUs - StartTimeUs) / 1e6 * Slots ELSE 0.0 END AS REAL) AS slot_s, -- s from start to end, times slots; 0 in records of tasks
  File.Path AS file, -- file that it was read from, where it was last; GridEngineFiles
  Record.Line AS line -- line in that file
FROM GridEngineRecords AS Record
JOIN GridEngineFiles AS File ON File.FileID = Record.FileID
LEFT JOIN AAR ON AAR.RecordID = Record.RecordID;

-- likely(): DuckDB, which does not know it, asks SQLite then. Itself it takes a column without a type for bytes.
DROP VIEW v1_gridengine_usage;
CREATE VIEW v1_gridengine_usage AS
SELECT
  Record.RecordNo AS record_no, -- the record in v1_gridengine_records; GridEngineUsage
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; AAR
  Record.JobNumber AS job_number, -- as in v1_gridengine_records
  CAST(nullif(Record.TaskNumber, 0) AS INTEGER) AS task_number, -- as in v1_gridengine_records
  CAST(nullif(Usage.UsageGroup, '') AS TEXT) AS usage_group, -- name that the site gave the pattern; NULL: a field that this version does not know
  Usage.Name AS name, -- what was measured
  CAST(CASE WHEN typeof(likely(Usage.Value)) <> 'text' THEN Usage.Value END AS NUMERIC) AS number, -- the value, if it is a number
  CAST(CASE WHEN typeof(likely(Usage.Value)) = 'text' THEN Usage.Value END AS TEXT) AS text -- the value, if it is a text
FROM GridEngineUsage AS Usage
JOIN GridEngineRecords AS Record ON Record.RecordNo = Usage.RecordNo
LEFT JOIN AAR ON AAR.RecordID = Record.RecordID;

DROP VIEW v1_gridengine_files;
CREATE VIEW v1_gridengine_files AS
SELECT
  Cell AS cell, -- cell (cluster) that it is from; GridEngineFiles
  Path AS file, -- where it was last; - for standard input
  Position AS position_bytes, -- bytes that were read, up to the end of a line
  Lines AS lines, -- lines that were read
  Records AS records, -- records that were new when they were read
  BadLines AS bad_lines, -- lines that could not be used
  ReadAt AS read_time, -- s since 1970: last read
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ReadAt, 'unixepoch') AS TEXT) AS read_time_iso -- read_time as text
FROM GridEngineFiles;

DROP VIEW v1_slurm_jobs;
CREATE VIEW v1_slurm_jobs AS
SELECT
  Clusters.Name AS cluster, -- cluster as its Sonar calls it; Clusters
  JobID AS job_id, -- Slurm's number of the job; of an array the one of the element
  CAST(nullif(JobStep, '') AS TEXT) AS job_step, -- step (0, 1, batch, extern, ...); NULL: the job itself
  JobName AS job_name, -- name of the job, or of the step's program
  JobState AS state, -- Slurm's state, e.g. COMPLETED
  ArrayJobID AS array_job_id, -- the array that it is an element of
  ArrayTaskID AS array_task_id, -- its index there
  HetJobID AS het_job_id, -- the heterogeneous job that it is a part of
  HetJobOffset AS het_job_offset, -- its place there
  UserName AS user_name, -- account of the user; of the job itself only
  Account AS account, -- Slurm's account (project)
  SubmitTime AS submit_time, -- s since 1970; of a step its start
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970; NULL: it never started
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  EndTime AS end_time, -- s since 1970
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  SuspendTimeS AS suspended_s, -- s that it was suspended
  ElapsedRawS AS elapsed_s, -- s that sacct calls elapsed
  ExitCode AS exit_code, -- exit code; a signal is not told, nor is 0
  CAST(CASE WHEN TimeLimitS >= 0 THEN TimeLimitS END AS INTEGER) AS time_limit_s, -- s of clock time allowed; NULL: unlimited or unknown
  CAST(coalesce(TimeLimitS = -1, 0) AS INTEGER) AS is_unlimited, -- 1: no limit of time
  CAST(CASE WHEN Priority >= 0 THEN Priority END AS INTEGER) AS priority, -- Slurm's priority
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
  CAST(coalesce(AllocTRES, AllocatedResources) AS TEXT) AS allocated_tres, -- trackable resources given
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

DROP VIEW v1_slurm_runs;
CREATE VIEW v1_slurm_runs AS
SELECT
  SlurmRuns.RunNo AS run_no, -- number of the row; SlurmRuns
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none yet; AAR
  Cluster AS cluster, -- cluster that it is from
  SlurmRuns.JobID AS slurm_job_id, -- Slurm's number of the job; a job that was requeued has several runs
  ShownID AS slurm_job, -- as sacct shows it: array_index, or job+offset of a heterogeneous job
  State AS state, -- Slurm's state, e.g. COMPLETED
  SlurmRuns.SubmitTime AS submit_time, -- s since 1970: submitted, or requeued
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970: began to run
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  SlurmRuns.EndTime AS end_time, -- s since 1970: ended
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SlurmRuns.EndTime, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  Elapsed AS elapsed_s, -- s that it ran, without those that it was suspended
  ExitStatus AS exit_status, -- exit status of the job script; NULL: not known
  ExitSignal AS exit_signal, -- signal that ended it; 0: none; NULL: not known
  CPUs AS cpus, -- CPUs that it was given
  Nodes AS nodes, -- nodes that it was given
  NodeList AS node_list, -- their names, in brackets
  QPartition AS partition, -- partition
  UserName AS user_name, -- account that the job ran under
  GroupName AS group_name, -- group that the job ran under
  Account AS account, -- Slurm's account (project)
  QOS AS qos, -- quality of service
  WCKey AS wckey, -- workload characterization key
  JobName AS job_name, -- name that the user gave the job
  AllocTRES AS allocated_tres, -- trackable resources that it was given, GPUs among them
  CAST(CPUUs / 1e6 AS REAL) AS cpu_s, -- s of CPU time of all steps; NULL: sacct was asked without steps
  CAST(CPUKernelUs / 1e6 AS REAL) AS cpu_kernel_s, -- s of it in the kernel
  MaxRSS AS max_memory_kib, -- KiB of resident memory, of the task that used most
  MaxVMSize AS max_virtual_memory_kib, -- KiB of virtual memory, of the task that used most
  CAST(Elapsed * CPUs AS INTEGER) AS core_s -- s that it ran, times CPUs: what sreport sums
FROM SlurmRuns LEFT JOIN AAR ON AAR.RecordID = SlurmRuns.RecordID;

DROP VIEW v1_nodes;
CREATE VIEW v1_nodes AS
SELECT
  Nodes.ID AS hardware_id, -- joins v1_node_cards and v1_node_software
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node as it calls itself; NodeNames
  ValidFrom AS valid_from, -- s since 1970: first seen so
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso, -- valid_from as text
  CAST((SELECT min(ValidFrom) FROM Nodes AS Later WHERE Later.NodeID = Nodes.NodeID
      AND Later.ValidFrom > Nodes.ValidFrom) AS INTEGER) AS valid_until, -- s since 1970: first seen otherwise; NULL: it still is so
  LastSeen AS last_seen, -- s since 1970: last seen so
  OSName AS os_name, -- operating system
  OSRelease AS os_release, -- its version
  Architecture AS architecture, -- e.g. x86_64
  CPUModel AS cpu_model, -- as the manufacturer calls it
  Sockets AS sockets, -- CPU sockets
  CoresPerSocket AS cores_per_socket, -- physical cores in each
  ThreadsPerCore AS threads_per_core, -- hardware threads of each
  CAST(Sockets * CoresPerSocket * ThreadsPerCore AS INTEGER) AS logical_cores, -- what the system calls CPUs
  NumaNodes AS numa_nodes, -- NUMA nodes
  Distances AS numa_distances, -- JSON: the matrix between them
  Memory AS memory_kib, -- KiB of memory
  TopoSVG AS topology_svg_base64, -- drawing by lstopo
  TopoText AS topology_text_base64 -- text by lstopo
FROM Nodes JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;

DROP VIEW v1_node_usage;
CREATE VIEW v1_node_usage AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  Hour AS hour, -- s since 1970: first second of the hour
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Hour, 'unixepoch') AS TEXT) AS hour_iso, -- hour as text
  CAST(nullif(Device, '') AS TEXT) AS device, -- NULL: the node; UUID of a card; disk:NAME
  Measure AS measure, -- what was measured, with its unit, e.g. used_memory_kib
  Samples AS samples, -- how many samples
  CoveredS AS covered_s, -- s that they stand for
  Mean AS mean, -- mean of what goes up and down
  Low AS low, -- smallest
  High AS high, -- largest
  Increase AS increase, -- growth of a counter (cpu_busy_s, read_kib, ...); J for power_w
  Text AS text -- last value of a measure in words
FROM NodeUsage JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;

DROP VIEW v1_sampled_jobs;
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
  CAST(max(InContainer) AS INTEGER) AS is_in_container -- 1: it ran in a container
FROM (
  SELECT *, CASE (SELECT Epoch FROM SampledJobs WHERE SampledJobs.ID = SampledJobID) WHEN 0 THEN 0 ELSE
         sum(Starts) OVER (PARTITION BY SampledJobID, NodeID ORDER BY Hour) END AS Part
    FROM JobUsage
) AS JobUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobUsage.NodeID, Part;

DROP VIEW v1_job_accelerators;
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
  CAST(max(JobCardUsage.PeakMemory) AS INTEGER) AS peak_memory_kib -- KiB of the card's memory
FROM JobCardUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCardUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCardUsage.NodeID, JobCardUsage.UUID;

DROP VIEW v1_cluster_partitions;
CREATE VIEW v1_cluster_partitions AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  ClusterPartitions.Name AS partition, -- partition
  Content AS nodes, -- its nodes, in brackets
  ValidFrom AS valid_from, -- s since 1970: first seen so
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso, -- valid_from as text
  CAST((SELECT min(ValidFrom) FROM ClusterPartitions AS Later WHERE Later.ClusterID = ClusterPartitions.ClusterID
      AND Later.Name = ClusterPartitions.Name AND Later.ValidFrom > ClusterPartitions.ValidFrom) AS INTEGER) AS valid_until, -- s since 1970: first seen otherwise
  LastSeen AS last_seen -- s since 1970: last seen so
FROM ClusterPartitions JOIN Clusters ON Clusters.ID = ClusterID;

DROP VIEW v1_cluster_nodes;
CREATE VIEW v1_cluster_nodes AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  ClusterNodes.Name AS node, -- node
  Content AS states, -- Slurm's states, joined by ","
  ValidFrom AS valid_from, -- s since 1970: first seen so
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso, -- valid_from as text
  CAST((SELECT min(ValidFrom) FROM ClusterNodes AS Later WHERE Later.ClusterID = ClusterNodes.ClusterID
      AND Later.Name = ClusterNodes.Name AND Later.ValidFrom > ClusterNodes.ValidFrom) AS INTEGER) AS valid_until, -- s since 1970: first seen otherwise
  LastSeen AS last_seen -- s since 1970: last seen so
FROM ClusterNodes JOIN Clusters ON Clusters.ID = ClusterID;

DROP VIEW v1_producer_errors;
CREATE VIEW v1_producer_errors AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  CAST(nullif(Node, '') AS TEXT) AS node, -- node
  Time AS time, -- s since 1970
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Time, 'unixepoch') AS TEXT) AS time_iso, -- time as text
  Detail AS detail -- the complaint
FROM ProducerErrors JOIN Clusters ON Clusters.ID = ClusterID;

DROP VIEW v1_record_notes;
CREATE VIEW v1_record_notes AS
SELECT
  JobID AS job_id, -- id of the job at the computing element; AAR
  Field AS field, -- what was cut: a column of v1_jobs, what a job has several of, or a control file (local, diag, statistics); RecordNotes
  Note AS note, -- how it was cut; RecordNotes
  Noted AS noted_time, -- s since 1970: when that was recorded; RecordNotes
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Noted, 'unixepoch') AS TEXT) AS noted_time_iso -- noted_time as text, UTC
FROM RecordNotes
JOIN AAR USING (RecordID);
