-- Grid Engine's accounting records, every field of them; the AARs of its jobs are made from these.

-- The files that were read, and how far. A file is known by what it begins with, wherever it was moved.
CREATE TABLE GridEngineFiles (
  FileID   INTEGER PRIMARY KEY,
  Cell     TEXT NOT NULL,
  Path     TEXT NOT NULL,              -- where it was last; '-' for standard input
  Device   INTEGER,
  Inode    INTEGER,
  Head     BLOB,                       -- digest of its first record
  Position INTEGER NOT NULL DEFAULT 0, -- bytes (of the text, if it is compressed) up to the end of the last whole line
  Tail     BLOB,                       -- digest of the bytes just before
  Checksum INTEGER NOT NULL DEFAULT 0, -- CRC-32 of all bytes before
  Lines    INTEGER NOT NULL DEFAULT 0, -- lines before
  Records  INTEGER NOT NULL DEFAULT 0, -- records that came from it and were new
  BadLines INTEGER NOT NULL DEFAULT 0,
  ReadAt   INTEGER NOT NULL DEFAULT 0  -- s since 1970
);

-- One row for each line. A line that is met again, in whatever file and dialect, is the same row.
CREATE TABLE GridEngineRecords (
  RecordNo           INTEGER PRIMARY KEY,
  Cell               TEXT NOT NULL,
  RecordID           INTEGER,          -- the AAR that it went into; NULL: none (never started, no record of the job yet)
  FileID             INTEGER NOT NULL REFERENCES GridEngineFiles (FileID),
  Line               INTEGER NOT NULL,
  JobNumber          INTEGER NOT NULL,
  TaskNumber         INTEGER NOT NULL, -- 0: not an array job
  PeTaskID           TEXT,
  QName              TEXT,
  Hostname           TEXT,
  Owner              TEXT,
  GroupName          TEXT,
  Account            TEXT,
  Project            TEXT,
  Department         TEXT,
  GrantedPE          TEXT,
  Slots              INTEGER NOT NULL, -- of the whole job, also in the records of its tasks
  ArID               INTEGER,
  JobName            TEXT,
  Priority           INTEGER,
  SubmissionTimeUs   INTEGER NOT NULL, -- 0: unknown; reset by a requeue
  StartTimeUs        INTEGER NOT NULL, -- 0: never started
  EndTimeUs          INTEGER NOT NULL,
  ArSubmissionTimeUs INTEGER,
  SubmitCmdLine      TEXT,
  Category           TEXT,
  Failed             INTEGER NOT NULL,
  ExitStatus         INTEGER NOT NULL,
  DeletedBy          TEXT,
  RuWallclock        REAL NOT NULL,    -- s
  RuUtime            REAL NOT NULL,    -- s
  RuStime            REAL NOT NULL,    -- s
  RuMaxrss           INTEGER NOT NULL, -- KiB
  RuIxrss            INTEGER,
  RuIsmrss           INTEGER,
  RuIdrss            INTEGER,
  RuIsrss            INTEGER,
  RuMinflt           INTEGER,
  RuMajflt           INTEGER,
  RuNswap            INTEGER,
  RuInblock          INTEGER,
  RuOublock          INTEGER,
  RuMsgsnd           INTEGER,
  RuMsgrcv           INTEGER,
  RuNsignals         INTEGER,
  RuNvcsw            INTEGER,
  RuNivcsw           INTEGER,
  Wallclock          REAL,             -- s until the daemon reaped the job
  Cpu                REAL,             -- s
  Mem                REAL,             -- GiB s
  Io                 REAL,             -- GiB
  IoOps              INTEGER,
  Iow                REAL,             -- s
  MaxVmem            INTEGER,          -- bytes
  MaxRss             INTEGER,          -- bytes
  MaxPss             INTEGER,          -- bytes
  JobClass           TEXT,
  SubmitHost         TEXT,
  Cwd                TEXT,
  BoundCores         TEXT
);
-- What makes two lines the same record; job and task first: it also finds what belongs to a job.
CREATE UNIQUE INDEX GridEngineRecords_Key_IDX ON GridEngineRecords (
  JobNumber, TaskNumber, coalesce(PeTaskID, ''), SubmissionTimeUs, StartTimeUs, EndTimeUs, Failed, ExitStatus,
  coalesce(QName, ''), coalesce(Hostname, ''), Cell
);
CREATE INDEX GridEngineRecords_RecordID_IDX ON GridEngineRecords (RecordID);
CREATE INDEX GridEngineRecords_StartTime_IDX ON GridEngineRecords (StartTimeUs);
CREATE INDEX GridEngineRecords_EndTime_IDX ON GridEngineRecords (EndTimeUs);
-- Jobs that ran and went into no AAR: they wait for A-REX to finish one that they may be.
CREATE INDEX GridEngineRecords_Waiting_IDX ON GridEngineRecords (JobNumber, TaskNumber, Cell)
  WHERE RecordID IS NULL AND StartTimeUs > 0 AND PeTaskID IS NULL;

-- Usage that the site added (usage_patterns: GPUs, power), and fields that this program does not know (UsageGroup '').
CREATE TABLE GridEngineUsage (
  RecordNo   INTEGER NOT NULL REFERENCES GridEngineRecords (RecordNo),
  UsageGroup TEXT NOT NULL,
  Name       TEXT NOT NULL,
  Value      NOT NULL,                 -- number or text, as it was
  PRIMARY KEY (RecordNo, UsageGroup, Name)
) WITHOUT ROWID;

-- What `failed` means.
CREATE TABLE GridEngineFailures (
  Failed  INTEGER PRIMARY KEY,
  Meaning TEXT NOT NULL
);
INSERT INTO GridEngineFailures VALUES
  (0, 'no failure'),
  (1, 'assumedly before job'),
  (2, 'shepherd'),
  (3, 'before writing config'),
  (4, 'before writing pid'),
  (5, 'on reading config'),
  (6, 'setting processor set'),
  (7, 'before prolog'),
  (8, 'in prolog'),
  (9, 'before pestart'),
  (10, 'in pestart'),
  (11, 'before job'),
  (12, 'before pestop'),
  (13, 'in pestop'),
  (14, 'before epilog'),
  (15, 'in epilog'),
  (16, 'releasing processor set'),
  (17, 'through signal'),
  (18, 'shepherd returned error'),
  (19, 'before writing exit_status'),
  (20, 'found unexpected error file'),
  (21, 'in recognizing job'),
  (22, 'removed manually'),
  (23, 'on getting PTF pids'),
  (24, 'migrating'),
  (25, 'rescheduling'),
  (26, 'opening input/output file'),
  (27, 'searching requested shell'),
  (28, 'changing into working directory'),
  (29, 'AFS setup'),
  (30, 'rescheduling on application error'),
  (36, 'checking configured daemons'),
  (37, 'qmaster enforced h_rt limit'),
  (38, 'adding supplementary group'),
  (100, 'assumedly after job');

-- Up to where FinishedLog was searched for jobs of A-REX that ran in each cell.
CREATE TABLE GridEngineProgress (
  Cell TEXT PRIMARY KEY,
  Seq  INTEGER NOT NULL
) WITHOUT ROWID;

-- One row for each record of Grid Engine: each run of a job or of a task of it, also those that never started.
CREATE VIEW v1_gridengine_records AS
SELECT
  Record.RecordNo AS record_no, -- number of the record, in v1_gridengine_usage too; GridEngineRecords
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none; AAR
  Record.Cell AS cell, -- cell (cluster) that it is from
  JobNumber AS job_number, -- number of the job; numbers begin again one day
  nullif(TaskNumber, 0) AS task_number, -- index in an array job
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
  nullif(SubmissionTimeUs, 0) / 1000000 AS submission_time, -- s since 1970: submitted, or requeued
  strftime('%Y-%m-%dT%H:%M:%SZ', nullif(SubmissionTimeUs, 0) / 1000000, 'unixepoch') AS submission_time_iso, -- submission_time as text
  nullif(StartTimeUs, 0) / 1000000 AS start_time, -- s since 1970: began to run; NULL: it never did
  strftime('%Y-%m-%dT%H:%M:%SZ', nullif(StartTimeUs, 0) / 1000000, 'unixepoch') AS start_time_iso, -- start_time as text
  nullif(EndTimeUs, 0) / 1000000 AS end_time, -- s since 1970: ended
  strftime('%Y-%m-%dT%H:%M:%SZ', nullif(EndTimeUs, 0) / 1000000, 'unixepoch') AS end_time_iso, -- end_time as text
  ArSubmissionTimeUs / 1000000 AS ar_submission_time, -- s since 1970: the advance reservation was submitted
  strftime('%Y-%m-%dT%H:%M:%SZ', ArSubmissionTimeUs / 1000000, 'unixepoch') AS ar_submission_time_iso, -- ar_submission_time as text
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
  CASE WHEN EndTimeUs > StartTimeUs AND StartTimeUs > 0 AND PeTaskID IS NULL
    THEN (EndTimeUs - StartTimeUs) / 1e6 * Slots ELSE 0.0 END AS slot_s, -- s from start to end, times slots; 0 in records of tasks
  File.Path AS file, -- file that it was read from, where it was last; GridEngineFiles
  Record.Line AS line -- line in that file
FROM GridEngineRecords AS Record
JOIN GridEngineFiles AS File ON File.FileID = Record.FileID
LEFT JOIN AAR ON AAR.RecordID = Record.RecordID;

-- One row for each value of usage that the site added to a record, e.g. of GPUs or power.
CREATE VIEW v1_gridengine_usage AS
SELECT
  Record.RecordNo AS record_no, -- the record in v1_gridengine_records; GridEngineUsage
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; AAR
  Record.JobNumber AS job_number, -- as in v1_gridengine_records
  nullif(Record.TaskNumber, 0) AS task_number, -- as in v1_gridengine_records
  nullif(Usage.UsageGroup, '') AS usage_group, -- name that the site gave the pattern; NULL: a field that this version does not know
  Usage.Name AS name, -- what was measured
  CASE WHEN typeof(Usage.Value) <> 'text' THEN Usage.Value END AS number, -- the value, if it is a number
  CASE WHEN typeof(Usage.Value) = 'text' THEN Usage.Value END AS text -- the value, if it is a text
FROM GridEngineUsage AS Usage
JOIN GridEngineRecords AS Record ON Record.RecordNo = Usage.RecordNo
LEFT JOIN AAR ON AAR.RecordID = Record.RecordID;

-- One row for each accounting file that was read, or read up to somewhere.
CREATE VIEW v1_gridengine_files AS
SELECT
  Cell AS cell, -- cell (cluster) that it is from; GridEngineFiles
  Path AS file, -- where it was last; - for standard input
  Position AS position_bytes, -- bytes that were read, up to the end of a line
  Lines AS lines, -- lines that were read
  Records AS records, -- records that were new when they were read
  BadLines AS bad_lines, -- lines that could not be used
  ReadAt AS read_time, -- s since 1970: last read
  strftime('%Y-%m-%dT%H:%M:%SZ', ReadAt, 'unixepoch') AS read_time_iso -- read_time as text
FROM GridEngineFiles;
