-- Jobs of Grid Engine's accounting file.

-- One row for each line. A line that is met again, in whatever file and dialect, is the same row.
--   RecordID: the AAR that it went into; NULL: none (never started, no record of the job yet)
--   TaskNumber: 0: not an array job
--   Slots: of the whole job, also in the records of its tasks
--   SubmissionTimeUs: 0: unknown; reset by a requeue
--   StartTimeUs: 0: never started
--   RuWallclock: s
--   RuUtime: s
--   RuStime: s
--   RuMaxrss: KiB
--   Wallclock: s until the daemon reaped the job
--   Cpu: s
--   Mem: GiB s
--   Io: GiB
--   Iow: s
--   MaxVmem: bytes
--   MaxRss: bytes
--   MaxPss: bytes
CREATE TABLE GridEngineRecords (
  RecordNo           INTEGER PRIMARY KEY,
  Cell               TEXT NOT NULL,
  RecordID           INTEGER,
  FileID             INTEGER NOT NULL REFERENCES GridEngineFiles (FileID),
  Line               INTEGER NOT NULL,
  JobNumber          INTEGER NOT NULL,
  TaskNumber         INTEGER NOT NULL,
  PeTaskID           TEXT,
  QName              TEXT,
  Hostname           TEXT,
  Owner              TEXT,
  GroupName          TEXT,
  Account            TEXT,
  Project            TEXT,
  Department         TEXT,
  GrantedPE          TEXT,
  Slots              INTEGER NOT NULL,
  ArID               INTEGER,
  JobName            TEXT,
  Priority           INTEGER,
  SubmissionTimeUs   INTEGER NOT NULL,
  StartTimeUs        INTEGER NOT NULL,
  EndTimeUs          INTEGER NOT NULL,
  ArSubmissionTimeUs INTEGER,
  SubmitCmdLine      TEXT,
  Category           TEXT,
  Failed             INTEGER NOT NULL,
  ExitStatus         INTEGER NOT NULL,
  DeletedBy          TEXT,
  RuWallclock        REAL NOT NULL,
  RuUtime            REAL NOT NULL,
  RuStime            REAL NOT NULL,
  RuMaxrss           INTEGER NOT NULL,
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
  Wallclock          REAL,
  Cpu                REAL,
  Mem                REAL,
  Io                 REAL,
  IoOps              INTEGER,
  Iow                REAL,
  MaxVmem            INTEGER,
  MaxRss             INTEGER,
  MaxPss             INTEGER,
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

-- Usage that the site added (usage_patterns: GPUs, power), and fields that this program does not know (UsageGroup
-- '').
--   Value: number or text, as it was
CREATE TABLE GridEngineUsage (
  RecordNo   INTEGER NOT NULL REFERENCES GridEngineRecords (RecordNo),
  UsageGroup TEXT NOT NULL,
  Name       TEXT NOT NULL,
  Value      NOT NULL,
  PRIMARY KEY (RecordNo, UsageGroup, Name)
) WITHOUT ROWID;

-- Grid Engine's accounting records, every field of them; the AARs of its jobs are made from these.
--
-- The files that were read, and how far. A file is known by what it begins with, wherever it was moved.
--   Path: where it was last; '-' for standard input
--   Head: digest of its first record
--   Position: bytes (of the text, if it is compressed) up to the end of the last whole line
--   Tail: digest of the bytes just before
--   Checksum: CRC-32 of all bytes before
--   Lines: lines before
--   Records: records that came from it and were new
--   ReadAt: s since 1970
CREATE TABLE GridEngineFiles (
  FileID   INTEGER PRIMARY KEY,
  Cell     TEXT NOT NULL,
  Path     TEXT NOT NULL,
  Device   INTEGER,
  Inode    INTEGER,
  Head     BLOB,
  Position INTEGER NOT NULL DEFAULT 0,
  Tail     BLOB,
  Checksum INTEGER NOT NULL DEFAULT 0,
  Lines    INTEGER NOT NULL DEFAULT 0,
  Records  INTEGER NOT NULL DEFAULT 0,
  BadLines INTEGER NOT NULL DEFAULT 0,
  ReadAt   INTEGER NOT NULL DEFAULT 0
);

-- Up to where FinishedLog was searched for jobs of A-REX that ran in each cell.
CREATE TABLE GridEngineProgress (
  Cell TEXT PRIMARY KEY,
  Seq  INTEGER NOT NULL
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
