-- The views that third parties read (docs/reference/sql.md).

-- Parts of the views below, once for all of them: whoever opens a database parses each text in it, A-REX's hook too.
-- A-REX writes escapes with small letters, programs before this one wrote capital ones.
CREATE VIEW UserNames AS
SELECT ID, replace(replace(replace(replace(replace(replace(replace(replace(Name, '%27', ''''), '%23', '#'),
         '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%')
         AS Name
  FROM Users;

CREATE VIEW JobInfo AS
SELECT RecordID, InfoKey, JobExtraInfo.rowid AS Row, InfoValue,
       replace(replace(replace(replace(replace(replace(replace(replace(InfoValue, '%27', ''''), '%23', '#'),
         '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%')
         AS Value
  FROM JobExtraInfo;

CREATE VIEW FQANs AS
SELECT RecordID, +AttrKey AS AttrKey, AuthTokenAttributes.rowid AS Row,
       replace(replace(replace(AttrValue, '%27', ''''), '%23', '#'), '%25', '%') AS FQAN
  FROM AuthTokenAttributes WHERE +AttrKey IN ('mainfqan', 'vomsfqan');

CREATE VIEW EventTimes AS
SELECT RecordID, EventKey, JobEvents.rowid AS Row, CAST(strftime('%s', EventTime) AS INTEGER) AS Time,
       strftime('%Y-%m-%dT%H:%M:%SZ', EventTime) AS ISO
  FROM JobEvents;

CREATE VIEW UnknownFields AS
SELECT RecordID, Field FROM FieldSources WHERE Source = 'unknown';

-- The rows of v1_jobs with the number of the record, and with the usage of jobs that do not count, too. For our own use:
-- a job that is held has no value here that cannot be true, and its others as they were told.
--   counted: as RecordUsage has it
CREATE VIEW JobValues AS
SELECT
  AAR.RecordID AS record_id,
  AAR.JobID AS job_id,
  CAST(nullif(AAR.LocalJobID, '') AS TEXT) AS local_job_id,
  CAST((SELECT Value FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'jobname'
         ORDER BY Row LIMIT 1) AS TEXT) AS job_name,
  CAST(nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS endpoint_url,
  CAST(nullif(Endpoints.Interface, '') AS TEXT) AS endpoint_type,
  (SELECT InfoValue FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'lrms' ORDER BY Row LIMIT 1) AS lrms,
  CAST(nullif(replace(replace(replace(Queues.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS queue,
  (SELECT InfoValue FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey IN ('nodenames', 'nodename')
    ORDER BY Row LIMIT 1) AS node_names,
  (SELECT InfoValue FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'clienthost'
    ORDER BY Row LIMIT 1) AS client_host,
  CAST(nullif(replace(replace(replace(replace(replace(replace(replace(replace(Users.Name, '%27', ''''), '%23', '#'),
         '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%'),
         '') AS TEXT) AS user_dn,
  (SELECT InfoValue FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'localuser' ORDER BY Row LIMIT 1) AS local_user,
  CAST(nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'),
         '') AS TEXT) AS vo,
  CAST((SELECT FQAN FROM FQANs WHERE RecordID = AAR.RecordID ORDER BY AttrKey, Row LIMIT 1) AS TEXT) AS fqan,
  CAST((SELECT CASE WHEN substr(FQAN, 1, 1) = '/' THEN
    substr(FQAN, 1, min(instr(FQAN || '/Role=', '/Role='), instr(FQAN || '/Capability=', '/Capability=')) - 1) END
    FROM (SELECT FQAN FROM FQANs WHERE RecordID = AAR.RecordID ORDER BY AttrKey, Row LIMIT 1)) AS TEXT) AS vo_group,
  CAST((SELECT CASE WHEN instr(FQAN, '/Role=') THEN nullif(nullif(
      substr(FQAN, instr(FQAN, '/Role=') + 6, instr(substr(FQAN, instr(FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL') END
    FROM (SELECT FQAN FROM FQANs WHERE RecordID = AAR.RecordID ORDER BY AttrKey, Row LIMIT 1)) AS TEXT) AS vo_role,
  CAST((SELECT Value FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'projectname'
         ORDER BY Row LIMIT 1) AS TEXT) AS project,
  CAST(nullif(Status.Name, '') AS TEXT) AS status,
  CAST(CASE WHEN AAR.EndTime > 0 THEN AAR.ExitCode END AS INTEGER) AS exit_code,
  CAST(nullif(AAR.SubmitTime, 0) AS INTEGER) AS submit_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.SubmitTime, 0), 'unixepoch') AS TEXT) AS submit_time_iso,
  CAST((SELECT Time FROM EventTimes WHERE RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
         ORDER BY Row DESC LIMIT 1) AS INTEGER) AS lrms_submit_time,
  CAST((SELECT ISO FROM EventTimes WHERE RecordID = AAR.RecordID AND EventKey = 'SUBMIT'
         ORDER BY Row DESC LIMIT 1) AS TEXT) AS lrms_submit_time_iso,
  CAST((SELECT Time FROM EventTimes WHERE RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
         ORDER BY Row DESC LIMIT 1) AS INTEGER) AS lrms_start_time,
  CAST((SELECT ISO FROM EventTimes WHERE RecordID = AAR.RecordID AND EventKey = 'LRMSSTART'
         ORDER BY Row DESC LIMIT 1) AS TEXT) AS lrms_start_time_iso,
  CAST((SELECT Time FROM EventTimes WHERE RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
         ORDER BY Row DESC LIMIT 1) AS INTEGER) AS lrms_end_time,
  CAST((SELECT ISO FROM EventTimes WHERE RecordID = AAR.RecordID AND EventKey = 'LRMSEND'
         ORDER BY Row DESC LIMIT 1) AS TEXT) AS lrms_end_time_iso,
  CAST(nullif(AAR.EndTime, 0) AS INTEGER) AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(AAR.EndTime, 0), 'unixepoch') AS TEXT) AS end_time_iso,
  CAST(CASE WHEN EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = 'node_count')
    THEN NULL ELSE nullif(coalesce(Hold.NodeCount, AAR.NodeCount), -1) END AS INTEGER) AS node_count,
  CAST(CASE WHEN EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = 'core_count')
    THEN NULL ELSE nullif(coalesce(Hold.CPUCount, AAR.CPUCount), -1) END AS INTEGER) AS core_count,
  CAST(CASE WHEN EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = 'wall_s')
    THEN NULL ELSE nullif(coalesce(Hold.UsedWalltime, AAR.UsedWalltime), -1) END AS INTEGER) AS wall_s,
  CAST(CASE WHEN EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = 'cpu_user_s')
    THEN NULL ELSE nullif(coalesce(Hold.UsedCPUUserTime, AAR.UsedCPUUserTime), -1)
         + nullif(coalesce(Hold.UsedCPUKernelTime, AAR.UsedCPUKernelTime), -1) END AS INTEGER) AS cpu_s,
  CAST(CASE WHEN EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = 'cpu_user_s')
    THEN NULL ELSE nullif(coalesce(Hold.UsedCPUUserTime, AAR.UsedCPUUserTime), -1) END AS INTEGER) AS cpu_user_s,
  CAST(CASE WHEN EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = 'cpu_kernel_s')
    THEN NULL ELSE nullif(coalesce(Hold.UsedCPUKernelTime, AAR.UsedCPUKernelTime), -1) END AS INTEGER) AS cpu_kernel_s,
  CAST(nullif(AAR.UsedMemory, 0) AS INTEGER) AS memory_kib,
  CAST(nullif(AAR.UsedVirtMem, 0) AS INTEGER) AS virtual_memory_kib,
  AAR.UsedScratch AS scratch_bytes,
  AAR.StageInVolume AS stage_in_bytes,
  CAST((SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType IN (10, 11)) AS INTEGER) AS stage_in_s,
  AAR.StageOutVolume AS stage_out_bytes,
  CAST((SELECT sum(TransferEnd - TransferStart) FROM DataTransfers
    WHERE DataTransfers.RecordID = AAR.RecordID AND TransferType = 20) AS INTEGER) AS stage_out_s,
  CAST((SELECT group_concat(RTEName, ';') FROM (
     SELECT DISTINCT RTEName FROM RunTimeEnvironments WHERE RunTimeEnvironments.RecordID = AAR.RecordID
      ORDER BY RTEName)) AS TEXT) AS run_time_environments,
  CAST((SELECT Value FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'systemsoftware'
         ORDER BY Row LIMIT 1) AS TEXT) AS system_software,
  CAST((SELECT Value FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'wninstance'
         ORDER BY Row LIMIT 1) AS TEXT) AS wn_instance,
  CAST((SELECT CASE WHEN instr(B, ':') THEN substr(B, 1, instr(B, ':') - 1) END
    FROM (SELECT coalesce(Hold.Benchmark, (SELECT InfoValue FROM JobInfo
           WHERE RecordID = AAR.RecordID AND InfoKey = 'benchmark' ORDER BY Row LIMIT 1)) AS B LIMIT 1)) AS TEXT) AS benchmark_type,
  CAST((SELECT CASE WHEN instr(B, ':') THEN substr(B, instr(B, ':') + 1) END
    FROM (SELECT coalesce(Hold.Benchmark, (SELECT InfoValue FROM JobInfo
           WHERE RecordID = AAR.RecordID AND InfoKey = 'benchmark' ORDER BY Row LIMIT 1)) AS B LIMIT 1)) AS REAL) AS benchmark_value,
  CAST((SELECT CASE WHEN instr(B, ':') THEN CASE WHEN B IN ('HEPSPEC:1.0', 'HEPSPEC:1') THEN 'default' ELSE
    coalesce((SELECT Source FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID AND Field = 'benchmark'),
             (SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID), 'diag') END END
    FROM (SELECT coalesce(Hold.Benchmark, (SELECT InfoValue FROM JobInfo
           WHERE RecordID = AAR.RecordID AND InfoKey = 'benchmark' ORDER BY Row LIMIT 1)) AS B LIMIT 1)) AS TEXT) AS benchmark_source,
  CAST(coalesce((SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID),
           'arc') AS TEXT) AS source,
  CAST(Hold.Reasons AS TEXT) AS hold_reasons,
  CAST(Hold.State AS TEXT) AS hold_state,
  CAST(CASE WHEN AAR.EndTime > 0 AND ifnull(Hold.IsHeld, 0) = 0 THEN
    CASE WHEN Status.Name IN ('completed', 'failed') THEN 1
         WHEN Status.Name = 'aborted' THEN
              CASE WHEN Hold.UsedWalltime IS NULL THEN AAR.UsedWalltime ELSE max(Hold.UsedWalltime, 0) END <> 0
              OR CASE WHEN Hold.UsedCPUUserTime IS NULL THEN AAR.UsedCPUUserTime ELSE max(Hold.UsedCPUUserTime, 0) END <> 0
              OR CASE WHEN Hold.UsedCPUKernelTime IS NULL THEN AAR.UsedCPUKernelTime
                      ELSE max(Hold.UsedCPUKernelTime, 0) END <> 0
         ELSE 0 END ELSE 0 END AS INTEGER) AS counted,
  CAST(CASE WHEN EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = 'wall_s')
    THEN NULL ELSE nullif(coalesce(Hold.UsedWalltime, AAR.UsedWalltime), -1)
         * CASE WHEN Hold.CPUCount IS NULL THEN AAR.CPUCount ELSE max(Hold.CPUCount, 1) END
         + CASE WHEN Hold.CPUCount IS NULL AND Hold.UsedWalltime IS NULL
                THEN coalesce((SELECT CAST(InfoValue AS INTEGER) - AAR.UsedWalltime * AAR.CPUCount FROM JobInfo
                                WHERE RecordID = AAR.RecordID AND +InfoKey = 'coreseconds' LIMIT 1), 0)
                ELSE 0 END END AS INTEGER) AS core_s,
  CAST((SELECT GPUCount FROM KnownAccelerators WHERE RecordID = AAR.RecordID AND GPUCount > 0 LIMIT 1)
    AS INTEGER) AS allocated_gpus,
  CAST((SELECT GPUAllocatedS FROM KnownAccelerators WHERE RecordID = AAR.RecordID AND GPUAllocatedS > 0 LIMIT 1)
    AS REAL) AS allocated_gpu_s,
  CAST((SELECT GPUBusyS FROM KnownAccelerators WHERE RecordID = AAR.RecordID AND GPUBusyS IS NOT NULL LIMIT 1)
    AS REAL) AS busy_gpu_s,
  CAST((SELECT GPUEnergyJ FROM KnownAccelerators WHERE RecordID = AAR.RecordID AND GPUEnergyJ IS NOT NULL LIMIT 1)
    AS REAL) AS gpus_energy_j,
  CAST((SELECT EnergyJ FROM KnownAccelerators WHERE RecordID = AAR.RecordID AND EnergyJ IS NOT NULL LIMIT 1)
    AS INTEGER) AS nodes_energy_j,
  CAST((SELECT Source FROM KnownAccelerators WHERE RecordID = AAR.RecordID AND GPUCount > 0 LIMIT 1)
    AS TEXT) AS gpus_source,
  CAST((SELECT Source FROM KnownAccelerators WHERE RecordID = AAR.RecordID AND EnergyJ IS NOT NULL LIMIT 1)
    AS TEXT) AS energy_source
FROM AAR
LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = AAR.RecordID
LEFT JOIN Endpoints ON Endpoints.ID = AAR.EndpointID
LEFT JOIN Queues ON Queues.ID = AAR.QueueID
LEFT JOIN WLCGVOs ON WLCGVOs.ID = AAR.VOID
LEFT JOIN Status ON Status.ID = AAR.StatusID
JOIN Users ON Users.ID = AAR.UserID;

-- One row for each job, from its acceptance on. The values of a job that is not finished yet are those of the start.
-- The usage of a job that does not count in our sums is NULL (counted is 0): sums of this view are ours.
--   job_id: id that A-REX gave the job; AAR, as stored
--   local_job_id: id that the batch system gave the job; AAR, as stored
--   job_name: name that the user gave the job; JobExtraInfo jobname
--   endpoint_url: URL at which the job was submitted; NULL: a local job; Endpoints
--   endpoint_type: submission interface, e.g. org.nordugrid.arcrest; Endpoints
--   lrms: batch system, as [lrms] calls it; JobExtraInfo lrms
--   queue: queue or partition of the batch system; Queues
--   node_names: worker nodes joined by ":", one name for each slot; JobExtraInfo nodenames
--   client_host: address:port that the job was submitted from; JobExtraInfo clienthost
--   user_dn: distinguished name of the user, in OpenSSL's one-line form; Users
--   local_user: account that the job ran under, user or user:group; JobExtraInfo localuser
--   vo: virtual organisation; WLCGVOs
--   fqan: main VOMS attribute; AuthTokenAttributes mainfqan
--   vo_group: group part of fqan, with its leading slash; AuthTokenAttributes
--   vo_role: role part of fqan; NULL without one; AuthTokenAttributes
--   project: project or account that the job belongs to; JobExtraInfo projectname
--   status: in-progress, completed, failed or aborted; Status
--   exit_code: exit code of the job; 1 also if A-REX did not get it; AAR
--   submit_time: s since 1970: A-REX accepted the job; AAR
--   submit_time_iso: submit_time as text
--   lrms_submit_time: s since 1970: handed to the batch system; JobEvents SUBMIT
--   lrms_submit_time_iso: lrms_submit_time as text
--   lrms_start_time: s since 1970: started, by the worker's clock; JobEvents LRMSSTART
--   lrms_start_time_iso: lrms_start_time as text
--   lrms_end_time: s since 1970: ended, by the worker's clock; JobEvents LRMSEND
--   lrms_end_time_iso: lrms_end_time as text
--   end_time: s since 1970: the job reached its final status in A-REX; AAR
--   end_time_iso: end_time as text
--   node_count: worker nodes; NULL: not known; AAR
--   core_count: cores, on all nodes together; NULL: not known; AAR CPUCount
--   wall_s: s of clock time that the job ran, whatever its cores; NULL: not measured; AAR UsedWalltime
--   cpu_s: s of CPU time, user and kernel, of all cores; NULL: not measured; AAR
--   cpu_user_s: s of CPU time in user mode; NULL: not measured; AAR
--   cpu_kernel_s: s of CPU time in the kernel; NULL: not measured; AAR
--   memory_kib: KiB of resident memory at most; AAR UsedMemory
--   virtual_memory_kib: KiB of virtual memory at most; AAR UsedVirtMem
--   scratch_bytes: bytes in the scratch directory at the end; A-REX 6 writes 0; AAR
--   stage_in_bytes: bytes of input fetched, without what was in the cache; AAR StageInVolume
--   stage_in_s: s of all input transfers added up, queueing included; DataTransfers
--   stage_out_bytes: bytes of output stored; AAR StageOutVolume
--   stage_out_s: s of all output transfers added up, queueing included; DataTransfers
--   run_time_environments: ARC runtime environments joined by ";"; RunTimeEnvironments
--   system_software: operating system of the worker; JobExtraInfo systemsoftware
--   wn_instance: kind of worker, e.g. an instance type of a cloud; JobExtraInfo wninstance
--   benchmark_type: benchmark of the worker: HEPscore23, HEPSPEC (HS06) or Si2k; JobExtraInfo benchmark
--   benchmark_value: value of that benchmark for one core; JobExtraInfo benchmark
--   benchmark_source: where the benchmark is from: default (HEPSPEC 1.0, which is sent if there is no other), diag (the
--     job's .diag, or arc.conf), or FieldSources
--   source: where the record is from: arc (control directory), or RecordSources
--   hold_reasons: why values of the job cannot be true, words separated by blanks; NULL: nothing is wrong with them;
--     RecordHolds
--   hold_state: held (in no figure until an operator decides), unknown, bound, reported or excluded (as decided),
--     published (before holds existed); NULL: nothing is wrong; RecordHolds
--   counted: 1: the job counts in all sums; 0: it is in progress, held, excluded, or aborted without usage, and its usage
--     (wall_s to cpu_kernel_s, memory_kib to stage_out_s, core_s, allocated_gpu_s to nodes_energy_j) is NULL
--   core_s: s of core time: wall_s times cores, of a job whose runs had different cores their sum; a job whose cores are
--     not known counts with one; NULL: wall_s is
--   allocated_gpus: GPUs that the batch system gave the job; a job with a part of a GPU has 1; NULL: none, or unknown;
--     JobAccelerators
--   allocated_gpu_s: s: GPUs, or parts of one, times wall time; JobAccelerators
--   busy_gpu_s: s of GPUs in full use, by Sonar's samples; JobAccelerators
--   gpus_energy_j: J: the job's share of the energy of its GPUs, by Sonar's samples; JobAccelerators
--   nodes_energy_j: J, as the batch system measured the nodes; JobAccelerators
--   gpus_source: source of allocated_gpus and allocated_gpu_s: sonar (telemetry), or the batch system, as in source;
--     JobAccelerators
--   energy_source: source of nodes_energy_j, in the same way; JobAccelerators
CREATE VIEW v1_jobs AS
SELECT
  job_id, local_job_id, job_name, endpoint_url, endpoint_type, lrms, queue, node_names, client_host, user_dn,
  local_user, vo, fqan, vo_group, vo_role, project, status, exit_code, submit_time, submit_time_iso, lrms_submit_time,
  lrms_submit_time_iso, lrms_start_time, lrms_start_time_iso, lrms_end_time, lrms_end_time_iso, end_time, end_time_iso,
  node_count, core_count,
  CAST(CASE WHEN counted THEN wall_s END AS INTEGER) AS wall_s,
  CAST(CASE WHEN counted THEN cpu_s END AS INTEGER) AS cpu_s,
  CAST(CASE WHEN counted THEN cpu_user_s END AS INTEGER) AS cpu_user_s,
  CAST(CASE WHEN counted THEN cpu_kernel_s END AS INTEGER) AS cpu_kernel_s,
  CAST(CASE WHEN counted THEN memory_kib END AS INTEGER) AS memory_kib,
  CAST(CASE WHEN counted THEN virtual_memory_kib END AS INTEGER) AS virtual_memory_kib,
  CAST(CASE WHEN counted THEN scratch_bytes END AS INTEGER) AS scratch_bytes,
  CAST(CASE WHEN counted THEN stage_in_bytes END AS INTEGER) AS stage_in_bytes,
  CAST(CASE WHEN counted THEN stage_in_s END AS INTEGER) AS stage_in_s,
  CAST(CASE WHEN counted THEN stage_out_bytes END AS INTEGER) AS stage_out_bytes,
  CAST(CASE WHEN counted THEN stage_out_s END AS INTEGER) AS stage_out_s,
  run_time_environments, system_software, wn_instance, benchmark_type, benchmark_value, benchmark_source, source,
  hold_reasons, hold_state, counted,
  CAST(CASE WHEN counted THEN core_s END AS INTEGER) AS core_s,
  allocated_gpus,
  CAST(CASE WHEN counted THEN allocated_gpu_s END AS REAL) AS allocated_gpu_s,
  CAST(CASE WHEN counted THEN busy_gpu_s END AS REAL) AS busy_gpu_s,
  CAST(CASE WHEN counted THEN gpus_energy_j END AS REAL) AS gpus_energy_j,
  CAST(CASE WHEN counted THEN nodes_energy_j END AS INTEGER) AS nodes_energy_j,
  gpus_source, energy_source
FROM JobValues;

-- The jobs of each month (of their end, in UTC) that count (counted of v1_jobs is 1) and agree in all that a summary is
-- made by; pruned jobs stay in it. A duration that is no measurement counts 0.
--   month: month of end_time in UTC, e.g. 2026-11; AAR
--   user_dn: as in v1_jobs
--   vo: as in v1_jobs
--   fqan: as in v1_jobs
--   vo_group: as in v1_jobs
--   vo_role: as in v1_jobs
--   endpoint_url: as in v1_jobs
--   infrastructure: grid, or local for jobs without an endpoint; Endpoints
--   node_count: as in v1_jobs
--   core_count: as in v1_jobs
--   benchmark_type: as in v1_jobs
--   benchmark_value: as in v1_jobs
--   jobs: number of jobs
--   wall_s: s of clock time of all jobs
--   cpu_s: s of CPU time of all jobs
--   earliest_end_time: s since 1970: end_time of the first job
--   earliest_end_time_iso: earliest_end_time as text
--   latest_end_time: s since 1970: end_time of the last job
--   latest_end_time_iso: latest_end_time as text
--   auth_groups: authgroups of arc.conf that contain the user, separated by blanks, if no credential has the VO;
--     AuthGroups
--   jobs_without_wall: jobs whose clock time was not measured; it counts 0 in wall_s
--   jobs_without_cpu: jobs whose CPU time was not measured; it counts 0 in cpu_s
--   core_s: s of core time of all jobs: wall_s times core_count, corrected for jobs whose runs had different cores
--   core_with_cpu_s: s of core time of the jobs whose clock time and CPU time were measured
--   cpu_with_core_s: s of CPU time of these jobs: divided by core_with_cpu_s it is the efficiency
CREATE VIEW v1_usage_by_month AS
SELECT
  CAST(substr(Month, 1, 4) || '-' || substr(Month, 5) AS TEXT) AS month,
  CAST(nullif((SELECT Name FROM UserNames WHERE ID = CurrentUsage.UserID), '') AS TEXT) AS user_dn,
  CAST(nullif(replace(replace(replace(WLCGVOs.Name, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS vo,
  CAST(nullif(replace(replace(replace(FQAN, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS fqan,
  CAST(CASE WHEN substr(FQAN, 1, 1) = '/' THEN
    substr(FQAN, 1, min(instr(FQAN || '/Role=', '/Role='), instr(FQAN || '/Capability=', '/Capability=')) - 1)
  END AS TEXT) AS vo_group,
  CAST(CASE WHEN instr(FQAN, '/Role=') THEN
    nullif(nullif(
      substr(FQAN, instr(FQAN, '/Role=') + 6, instr(substr(FQAN, instr(FQAN, '/Role=') + 6) || '/', '/') - 1), ''), 'NULL')
  END AS TEXT) AS vo_role,
  CAST(nullif(replace(replace(replace(Endpoints.URL, '%27', ''''), '%23', '#'), '%25', '%'), '') AS TEXT) AS endpoint_url,
  CAST(CASE Endpoints.URL WHEN '' THEN 'local' ELSE 'grid' END AS TEXT) AS infrastructure,
  CAST(NodeCount AS INTEGER) AS node_count,
  CAST(CPUCount AS INTEGER) AS core_count,
  CAST(CASE WHEN instr(Benchmark, ':') THEN substr(Benchmark, 1, instr(Benchmark, ':') - 1) END AS TEXT) AS benchmark_type,
  CAST(CASE WHEN instr(Benchmark, ':') THEN
    substr(Benchmark, instr(Benchmark, ':') + 1) END AS REAL) AS benchmark_value,
  CAST(Jobs AS INTEGER) AS jobs,
  CAST(Wall AS INTEGER) AS wall_s,
  CAST(Cpu AS INTEGER) AS cpu_s,
  CAST(Earliest AS INTEGER) AS earliest_end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Earliest, 'unixepoch') AS TEXT) AS earliest_end_time_iso,
  CAST(Latest AS INTEGER) AS latest_end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Latest, 'unixepoch') AS TEXT) AS latest_end_time_iso,
  CAST(nullif(AuthGroups, '') AS TEXT) AS auth_groups,
  CAST(NoWall AS INTEGER) AS jobs_without_wall,
  CAST(NoCpu AS INTEGER) AS jobs_without_cpu,
  CAST(Wall * CPUCount + CoreRest AS INTEGER) AS core_s,
  CAST(Wall * CPUCount + CoreRest - CoreUnpaired AS INTEGER) AS core_with_cpu_s,
  CAST(Cpu - CpuUnpaired AS INTEGER) AS cpu_with_core_s
FROM CurrentUsage
JOIN WLCGVOs ON WLCGVOs.ID = VOID
JOIN Endpoints ON Endpoints.ID = EndpointID;

--   job_id: the job; AAR
--   url: where the file came from or went to, without user, password and query; DataTransfers
--   kind: input, cached_input (it was in the cache already) or output; DataTransfers TransferType
--   size_bytes: bytes; DataTransfers
--   start_time: s since 1970: the transfer was asked for; DataTransfers
--   start_time_iso: start_time as text
--   end_time: s since 1970: the transfer was done; DataTransfers
--   end_time_iso: end_time as text
--   duration_s: s that it took, queueing included; DataTransfers
-- The url is as `secrecy.without_credentials` makes it. Up to the last @ between scheme and path are user and password.
-- The query is left out; in SRM its first value is the path, which stays.
CREATE VIEW v1_transfers AS
SELECT
  JobID AS job_id,
  CAST(replace(replace(replace(replace(replace(replace(replace(replace(
      CASE WHEN instr(URL, '?') = 0 AND instr(URL, '@') = 0 THEN URL
        ELSE substr(Place, 1, instr(Place || '?', '?') - 1 + CASE
          WHEN lower(substr(Place, 1, 6)) = 'srm://' AND lower(substr(Place, instr(Place || '?', '?'), 5)) = '?sfn='
          THEN instr(substr(Place, instr(Place || '?', '?')) || '&', '&') - 1 ELSE 0 END) END,
      '%27', ''''), '%23', '#'),
      '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%')
      AS TEXT) AS url,
  CAST(CASE TransferType WHEN 20 THEN 'output' WHEN 11 THEN 'cached_input' ELSE 'input' END AS TEXT) AS kind,
  FileSize AS size_bytes,
  TransferStart AS start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', TransferStart, 'unixepoch') AS TEXT) AS start_time_iso,
  TransferEnd AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', TransferEnd, 'unixepoch') AS TEXT) AS end_time_iso,
  CAST(TransferEnd - TransferStart AS INTEGER) AS duration_s
FROM (
  SELECT
    *,
    substr(URL, 1, Start) || substr(URL, Start + 1 + length(rtrim(Authority, replace(Authority, '@', '')))) AS Place
  FROM (
    SELECT
      *,
      substr(URL, Start + 1, CASE Start WHEN 0 THEN 0 ELSE instr(substr(URL, Start + 1) || '/', '/') - 1 END)
        AS Authority
    FROM (
      SELECT
        AAR.JobID,
        DataTransfers.*,
        CASE instr(DataTransfers.URL, '://') WHEN 0 THEN 0 ELSE instr(DataTransfers.URL, '://') + 2 END AS Start
      FROM DataTransfers JOIN AAR ON AAR.RecordID = DataTransfers.RecordID
    )
  )
);

--   job_id: the job; AAR
--   kind: token (of the credential), rte (runtime environment) or info; the table
--   name: mainfqan, vomsfqan, jobname, lrms, ...; AttrKey or InfoKey; NULL for rte
--   value: the value; AttrValue, RTEName or InfoValue
CREATE VIEW v1_job_attributes AS
SELECT
  AAR.JobID AS job_id,
  Kind AS kind,
  CAST(coalesce(AttrKey, InfoKey) AS TEXT) AS name,
  CAST(replace(replace(replace(replace(replace(replace(replace(replace(
      coalesce(AttrValue, RTEName, InfoValue), '%27', ''''), '%23', '#'),
      '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%')
      AS TEXT) AS value
FROM AAR
CROSS JOIN AttributeKinds
LEFT JOIN AuthTokenAttributes AS Token ON Kind = 'token' AND Token.RecordID = AAR.RecordID
LEFT JOIN RunTimeEnvironments AS RTE ON Kind = 'rte' AND RTE.RecordID = AAR.RecordID
LEFT JOIN JobExtraInfo AS Extra ON Kind = 'info' AND Extra.RecordID = AAR.RecordID
WHERE coalesce(Token.RecordID, RTE.RecordID, Extra.RecordID) IS NOT NULL;

--   job_id: the job; AAR
--   event: state of A-REX, or LRMSSTART, LRMSEND, DTRDOWNLOADSTART, DTRDOWNLOADEND, DTRUPLOADSTART, DTRUPLOADEND;
--     JobEvents
--   event_time: s since 1970; JobEvents
--   event_time_iso: event_time as text
CREATE VIEW v1_job_events AS
SELECT
  AAR.JobID AS job_id,
  JobEvents.EventKey AS event,
  CAST(strftime('%s', JobEvents.EventTime) AS INTEGER) AS event_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', JobEvents.EventTime) AS TEXT) AS event_time_iso
FROM JobEvents JOIN AAR ON AAR.RecordID = JobEvents.RecordID;

--   job_id: id of the job at the computing element; AAR
--   field: what was cut: a column of v1_jobs, what a job has several of, or a control file (local, diag, statistics);
--     TruncationNotes
--   note: how it was cut; TruncationNotes
--   noted_time: s since 1970: when that was recorded; TruncationNotes
--   noted_time_iso: noted_time as text, UTC
CREATE VIEW v1_record_notes AS
SELECT
  JobID AS job_id,
  Field AS field,
  Note AS note,
  Noted AS noted_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Noted, 'unixepoch') AS TEXT) AS noted_time_iso
FROM TruncationNotes
JOIN AAR USING (RecordID);

-- The values of the jobs with impossible ones (hold_reasons of v1_jobs) as they were reported, whatever was decided.
--   job_id: the job; AAR
--   field: column of v1_jobs, end_time to stage_out_bytes, or benchmark
--   told: the value as the job's files or the batch system reported it, as text; benchmark: TYPE:VALUE; AAR
--   reason: why this value cannot be true, a word of hold_reasons; NULL: it can be true; RecordHolds
-- Lines of RecordHolds.Doubts begin with the reason and the field, and a tab behind each.
CREATE VIEW v1_held_values AS
SELECT
  job_id,
  field,
  CAST(Told AS TEXT) AS told,
  CAST(CASE WHEN instr(Doubts, Mark) THEN substr(substr(Doubts, 1, instr(Doubts, Mark) - 1),
         length(rtrim(substr(Doubts, 1, instr(Doubts, Mark) - 1), 'abcdefghijklmnopqrstuvwxyz-')) + 1) END AS TEXT) AS reason
FROM (
  SELECT
    AAR.JobID AS job_id,
    CAST(Fields.column1 AS TEXT) AS field,
    Hold.Doubts,
    "char"(9) || CASE WHEN Fields.column1 IN ('cpu_user_s', 'cpu_kernel_s') THEN 'cpu_s' ELSE Fields.column1 END
      || "char"(9) AS Mark,
    CASE Fields.column1
      WHEN 'end_time' THEN AAR.EndTime
      WHEN 'node_count' THEN AAR.NodeCount
      WHEN 'core_count' THEN AAR.CPUCount
      WHEN 'wall_s' THEN AAR.UsedWalltime
      WHEN 'cpu_user_s' THEN AAR.UsedCPUUserTime
      WHEN 'cpu_kernel_s' THEN AAR.UsedCPUKernelTime
      WHEN 'memory_kib' THEN nullif(AAR.UsedMemory, 0)
      WHEN 'virtual_memory_kib' THEN nullif(AAR.UsedVirtMem, 0)
      WHEN 'scratch_bytes' THEN AAR.UsedScratch
      WHEN 'stage_in_bytes' THEN AAR.StageInVolume
      WHEN 'stage_out_bytes' THEN AAR.StageOutVolume
      ELSE (SELECT InfoValue FROM JobInfo WHERE RecordID = AAR.RecordID AND InfoKey = 'benchmark' ORDER BY Row LIMIT 1)
    END AS Told
  FROM RecordHolds AS Hold
  JOIN AAR ON AAR.RecordID = Hold.RecordID
  CROSS JOIN (VALUES ('end_time'), ('node_count'), ('core_count'), ('wall_s'), ('cpu_user_s'), ('cpu_kernel_s'),
    ('memory_kib'), ('virtual_memory_kib'), ('scratch_bytes'), ('stage_in_bytes'), ('stage_out_bytes'), ('benchmark'))
    AS Fields
  WHERE NOT EXISTS (SELECT 1 FROM UnknownFields WHERE RecordID = AAR.RecordID AND Field = Fields.column1)
)
WHERE Told IS NOT NULL;
