-- Questions that read what they ask for, whatever the database has: jobs by time and by their id in the batch system, and
-- sums for `stats`.

-- The views show these as NULL where there is none: so the index has to be of what they show. CAST: it would not be used
-- for a comparison with anything but a literal, CAST(strftime('%s', 'now') AS INTEGER) say.
CREATE INDEX AAR_EndTimeOrNull_IDX ON AAR (CAST(nullif(EndTime, 0) AS INTEGER));
CREATE INDEX AAR_SubmitTimeOrNull_IDX ON AAR (CAST(nullif(SubmitTime, 0) AS INTEGER));
CREATE INDEX AAR_LocalJobIDOrNull_IDX ON AAR (CAST(nullif(LocalJobID, '') AS TEXT));

-- LEFT: whatever ANALYZE found, SQLite begins with the jobs that are asked for, and not with all users.
DROP VIEW v1_jobs;
-- One row for each job, from its acceptance on. The values of a job that is not finished yet are those of the start.
CREATE VIEW v1_jobs AS
SELECT
  AAR.JobID AS job_id, -- id that A-REX gave the job; AAR, as stored
  CAST(nullif(AAR.LocalJobID, '') AS TEXT) AS local_job_id, -- id that the batch system gave the job; AAR, as stored
  (SELECT replace(replace(replace(replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%0D', char(13)),
                                  '%0A', char(10)), '%08', char(8)), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'jobname'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS job_name, -- name that the user gave the job; JobExtraInfo jobname
  nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS endpoint_url, -- URL at which the job was submitted; NULL: a local job; Endpoints
  nullif(Endpoints.Interface, '') AS endpoint_type, -- submission interface, e.g. org.nordugrid.arcrest; Endpoints
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'lrms'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS lrms, -- batch system, as [lrms] calls it; JobExtraInfo lrms
  nullif(replace(replace(replace(Queues.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS queue, -- queue or partition of the batch system; Queues
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID
      AND InfoKey IN ('nodenames', 'nodename')
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS node_names, -- worker nodes joined by ":", one name for each slot; JobExtraInfo nodenames
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'clienthost'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS client_host, -- address:port that the job was submitted from; JobExtraInfo clienthost
  nullif(replace(replace(replace(replace(replace(replace(Users.Name, '%27', ''''), '%23', '#'), '%0D', char(13)),
                                 '%0A', char(10)), '%08', char(8)), '%25', '%'),
         '') AS user_dn, -- distinguished name of the user, in OpenSSL's one-line form; Users
  (SELECT InfoValue FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'localuser'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS local_user, -- account that the job ran under, user or user:group; JobExtraInfo localuser
  nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS vo, -- virtual organisation; WLCGVOs
  AAR.FQAN AS fqan, -- main VOMS attribute; AuthTokenAttributes mainfqan
  CASE WHEN AAR.FQAN LIKE '/%' THEN
    substr(AAR.FQAN, 1, min(instr(AAR.FQAN || '/Role=', '/Role='), instr(AAR.FQAN || '/Capability=', '/Capability=')) - 1)
  END AS vo_group, -- group part of fqan, with its leading slash; AuthTokenAttributes
  CASE WHEN instr(AAR.FQAN, '/Role=') THEN
    nullif(nullif(
      substr(AAR.FQAN, instr(AAR.FQAN, '/Role=') + 6,
             instr(substr(AAR.FQAN, instr(AAR.FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL')
  END AS vo_role, -- role part of fqan; NULL without one; AuthTokenAttributes
  (SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'projectname'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS project, -- project or account that the job belongs to; JobExtraInfo projectname
  nullif(Status.Name, '') AS status, -- in-progress, completed, failed or aborted; Status
  CASE WHEN AAR.EndTime > 0 THEN AAR.ExitCode END AS exit_code, -- exit code of the job; 1 when A-REX did not learn it; AAR
  CAST(nullif(AAR.SubmitTime, 0) AS INTEGER) AS submit_time, -- s since 1970: A-REX accepted the job; AAR
  strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.SubmitTime, 0), 'unixepoch') AS submit_time_iso, -- submit_time as text
  (SELECT CAST(strftime('%s', EventTime) AS INTEGER) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS lrms_submit_time, -- s since 1970: handed to the batch system; JobEvents SUBMIT
  (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS lrms_submit_time_iso, -- lrms_submit_time as text
  (SELECT CAST(strftime('%s', EventTime) AS INTEGER) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS lrms_start_time, -- s since 1970: began to run, by the worker's clock; JobEvents LRMSSTART
  (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS lrms_start_time_iso, -- lrms_start_time as text
  (SELECT CAST(strftime('%s', EventTime) AS INTEGER) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS lrms_end_time, -- s since 1970: ended to run, by the worker's clock; JobEvents LRMSEND
  (SELECT strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) FROM JobEvents
    WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
    ORDER BY JobEvents.rowid DESC LIMIT 1) AS lrms_end_time_iso, -- lrms_end_time as text
  CAST(nullif(AAR.EndTime, 0) AS INTEGER) AS end_time, -- s since 1970: the job reached its final status in A-REX; AAR
  strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.EndTime, 0), 'unixepoch') AS end_time_iso, -- end_time as text
  AAR.NodeCount AS node_count, -- worker nodes; AAR
  AAR.CPUCount AS core_count, -- cores, on all nodes together; AAR CPUCount
  AAR.UsedWalltime AS wall_s, -- s of clock time that the job ran, whatever its cores; AAR UsedWalltime
  AAR.UsedCPUUserTime + AAR.UsedCPUKernelTime AS cpu_s, -- s of CPU time, user and kernel, of all cores; AAR
  AAR.UsedCPUUserTime AS cpu_user_s, -- s of CPU time in user mode; AAR
  AAR.UsedCPUKernelTime AS cpu_kernel_s, -- s of CPU time in the kernel; AAR
  nullif(AAR.UsedMemory, 0) AS memory_kib, -- KiB of resident memory at most; AAR UsedMemory
  nullif(AAR.UsedVirtMem, 0) AS virtual_memory_kib, -- KiB of virtual memory at most; AAR UsedVirtMem
  AAR.UsedScratch AS scratch_bytes, -- bytes in the scratch directory at the end; A-REX 6 writes 0; AAR
  AAR.StageInVolume AS stage_in_bytes, -- bytes of input fetched, without what was in the cache; AAR StageInVolume
  (SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType IN (10, 11)) AS stage_in_s, -- s of all input transfers added up, queueing included; DataTransfers
  AAR.StageOutVolume AS stage_out_bytes, -- bytes of output stored; AAR StageOutVolume
  (SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType = 20) AS stage_out_s, -- s of all output transfers added up, queueing included; DataTransfers
  (SELECT group_concat(RTEName, ';') FROM (
     SELECT DISTINCT RTEName FROM RunTimeEnvironments WHERE RunTimeEnvironments.RecordID = AAR.RecordID
      ORDER BY RTEName)) AS run_time_environments, -- ARC runtime environments joined by ";"; RunTimeEnvironments
  (SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'systemsoftware'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS system_software, -- operating system of the worker; JobExtraInfo systemsoftware
  (SELECT replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'), '%25', '%')
     FROM JobExtraInfo WHERE JobExtraInfo.RecordID = AAR.RecordID AND InfoKey = 'wninstance'
    ORDER BY JobExtraInfo.rowid LIMIT 1) AS wn_instance, -- kind of worker, e.g. an instance type of a cloud; JobExtraInfo wninstance
  CASE WHEN instr(AAR.Benchmark, ':') THEN
    substr(AAR.Benchmark, 1, instr(AAR.Benchmark, ':') - 1)
  END AS benchmark_type, -- benchmark of the worker: HEPscore23, HEPSPEC (HS06) or Si2k; JobExtraInfo benchmark
  CASE WHEN instr(AAR.Benchmark, ':') THEN
    CAST(substr(AAR.Benchmark, instr(AAR.Benchmark, ':') + 1) AS REAL)
  END AS benchmark_value, -- value of that benchmark for one core; JobExtraInfo benchmark
  CASE WHEN instr(AAR.Benchmark, ':') THEN
    coalesce((SELECT Source FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID AND Field = 'benchmark'),
             (SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID), 'diag')
  END AS benchmark_source, -- where the benchmark is from: diag (the job's .diag or the site's default), or FieldSources
  coalesce((SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID),
           'arc') AS source -- where the record is from: arc (control directory), or RecordSources
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

-- One row for each further thing that is known of a job: what came with its credential, its environments, the rest.
-- From the job to its values: of a list of all values SQLite would first make a table, whichever job is asked for.
DROP VIEW v1_job_attributes;
CREATE VIEW v1_job_attributes AS
SELECT
  AAR.JobID AS job_id, -- the job; AAR
  Kind AS kind, -- token (of the credential), rte (runtime environment) or info; the table
  coalesce(AttrKey, InfoKey) AS name, -- mainfqan, vomsfqan, jobname, lrms, ...; AttrKey or InfoKey; NULL for rte
  replace(replace(replace(replace(replace(replace(coalesce(AttrValue, RTEName, InfoValue), '%27', ''''), '%23', '#'),
                          '%0D', char(13)), '%0A', char(10)), '%08', char(8)), '%25', '%') AS value -- the value; AttrValue, RTEName or InfoValue
FROM AAR
CROSS JOIN (SELECT 'token' AS Kind UNION ALL SELECT 'rte' UNION ALL SELECT 'info') AS Kinds
LEFT JOIN AuthTokenAttributes AS Token ON Kind = 'token' AND Token.RecordID = AAR.RecordID
LEFT JOIN RunTimeEnvironments AS RTE ON Kind = 'rte' AND RTE.RecordID = AAR.RecordID
LEFT JOIN JobExtraInfo AS Extra ON Kind = 'info' AND Extra.RecordID = AAR.RecordID
WHERE coalesce(Token.RecordID, RTE.RecordID, Extra.RecordID) IS NOT NULL;

-- Sums for `stats`, finer than Cells, which summaries are made of. Each job is in one row of each kind:
--   1: of a month, all but its host;
--   2: of a day, all but its user and host (with them there would be nearly a row for each job);
--   3: of a month, host, status, cores and benchmark.
-- What a kind does not tell apart is 0 or ''.
CREATE TABLE FinerCells (
  FinerID    INTEGER PRIMARY KEY,
  Kind       INTEGER NOT NULL,
  Period     INTEGER NOT NULL,      -- 202611, or days since 1970
  UserID     INTEGER NOT NULL,
  VOID       INTEGER NOT NULL,
  FQAN       TEXT NOT NULL,
  EndpointID INTEGER NOT NULL,
  QueueID    INTEGER NOT NULL,
  StatusID   INTEGER NOT NULL,
  Project    TEXT NOT NULL,         -- as in JobExtraInfo; '' when there is none
  Host       TEXT NOT NULL,         -- the node that the batch system named first
  CPUCount   INTEGER NOT NULL,
  Benchmark  TEXT NOT NULL,
  Jobs       INTEGER NOT NULL DEFAULT 0,
  Wall       INTEGER NOT NULL DEFAULT 0,
  Cpu        INTEGER NOT NULL DEFAULT 0,
  StageIn    INTEGER NOT NULL DEFAULT 0,
  StageOut   INTEGER NOT NULL DEFAULT 0,
  UNIQUE (Kind, Period, UserID, VOID, FQAN, EndpointID, QueueID, StatusID, Project, Host, CPUCount, Benchmark)
);

-- The rows of FinerCells that a job counts in, and what it adds there beside Wall and Cpu; NULL: it is in none yet. The
-- commands that write put it in.
ALTER TABLE Contributions ADD COLUMN MonthID INTEGER;
ALTER TABLE Contributions ADD COLUMN DayID INTEGER;
ALTER TABLE Contributions ADD COLUMN HostID INTEGER;
ALTER TABLE Contributions ADD COLUMN StageIn INTEGER;
ALTER TABLE Contributions ADD COLUMN StageOut INTEGER;
CREATE INDEX Contributions_Waiting_IDX ON Contributions (RecordID) WHERE MonthID IS NULL;
