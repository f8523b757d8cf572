-- The accounting database as arcacct 0.2 makes it (schema 21), for the check of its backups.
CREATE TABLE AAR (
  RecordID          INTEGER PRIMARY KEY AUTOINCREMENT,
  JobID             TEXT NOT NULL UNIQUE,
  LocalJobID        TEXT,
  EndpointID        INTEGER NOT NULL,
  QueueID           INTEGER NOT NULL,
  UserID            INTEGER NOT NULL,
  VOID              INTEGER NOT NULL,
  StatusID          INTEGER NOT NULL,
  ExitCode          INTEGER NOT NULL,
  SubmitTime        INTEGER NOT NULL,
  EndTime           INTEGER NOT NULL,
  NodeCount         INTEGER NOT NULL,
  CPUCount          INTEGER NOT NULL,
  UsedMemory        INTEGER NOT NULL,
  UsedVirtMem       INTEGER NOT NULL,
  UsedWalltime      INTEGER NOT NULL,
  UsedCPUUserTime   INTEGER NOT NULL,
  UsedCPUKernelTime INTEGER NOT NULL,
  UsedScratch       INTEGER NOT NULL,
  StageInVolume     INTEGER NOT NULL,
  StageOutVolume    INTEGER NOT NULL,
  FOREIGN KEY (EndpointID) REFERENCES Endpoints (ID),
  FOREIGN KEY (QueueID) REFERENCES Queues (ID),
  FOREIGN KEY (UserID) REFERENCES Users (ID),
  FOREIGN KEY (VOID) REFERENCES WLCGVOs (ID),
  FOREIGN KEY (StatusID) REFERENCES Status (ID)
);
CREATE TABLE Endpoints (
  ID        INTEGER PRIMARY KEY AUTOINCREMENT,
  Interface TEXT NOT NULL,
  URL       TEXT NOT NULL
);
CREATE TABLE Queues (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE TABLE Users (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE TABLE WLCGVOs (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE TABLE Status (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE TABLE AuthTokenAttributes (
  RecordID  INTEGER NOT NULL,
  AttrKey   TEXT NOT NULL,  -- mainfqan, vomsfqan
  AttrValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE JobEvents (
  RecordID  INTEGER NOT NULL,
  EventKey  TEXT NOT NULL,  -- a state of the job, LRMSSTART, LRMSEND, DTR{DOWNLOAD,UPLOAD}{START,END}
  EventTime TEXT NOT NULL,  -- YYYY-MM-DD hh:mm:ss, UTC (A-REX: local time)
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE RunTimeEnvironments (
  RecordID INTEGER NOT NULL,
  RTEName  TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE DataTransfers (
  RecordID      INTEGER NOT NULL,
  URL           TEXT NOT NULL,
  FileSize      INTEGER NOT NULL,  -- bytes
  TransferStart INTEGER NOT NULL,
  TransferEnd   INTEGER NOT NULL,
  TransferType  INTEGER NOT NULL,  -- 10 input, 11 input from the cache, 20 output
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE JobExtraInfo (
  RecordID  INTEGER NOT NULL,
  InfoKey   TEXT NOT NULL,  -- jobname, lrms, nodenames, clienthost, localuser, projectname, systemsoftware, ...
  InfoValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);
CREATE TABLE FinishedLog (
  Seq      INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice, also after pruning and VACUUM
  RecordID INTEGER NOT NULL UNIQUE             -- no foreign key: a deleted record stays as a tombstone until handled
);
CREATE TABLE StatusFiles (
  RecordID INTEGER PRIMARY KEY,
  State    TEXT NOT NULL,     -- the last state recorded
  EventNs  INTEGER NOT NULL,  -- its time, nanoseconds since 1970
  Size     INTEGER,           -- identity of the status file that the sweep has read; NULL: only the hook saw it
  MTimeNs  INTEGER,
  CTimeNs  INTEGER
);
CREATE TABLE Fence (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Horizon INTEGER NOT NULL,   -- the highest Seq at the last fence
  Passed  INTEGER NOT NULL    -- how many fences there were: the row changes each time
);
CREATE TABLE RecordSources (
  RecordID INTEGER PRIMARY KEY,
  Source   TEXT NOT NULL,  -- arex (its own database), gridengine, slurm
  Origin   TEXT NOT NULL   -- the file, cell or cluster
);
CREATE TABLE FieldSources (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,  -- a column of v1_jobs, e.g. benchmark, memory_kib
  Source   TEXT NOT NULL,  -- arc.conf, gridengine, sonar, features, ...
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;
CREATE TABLE RecordCount (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Records INTEGER NOT NULL
);
CREATE TABLE Contributions (
  RecordID INTEGER PRIMARY KEY,
  CellID   INTEGER NOT NULL,
  EndTime  INTEGER NOT NULL,
  Wall     INTEGER NOT NULL,
  Cpu      INTEGER NOT NULL
, MonthID INTEGER, DayID INTEGER, HostID INTEGER, StageIn INTEGER, StageOut INTEGER);
CREATE TABLE CellsPosition (
  ID  INTEGER PRIMARY KEY CHECK (ID = 1),
  Seq INTEGER NOT NULL
);
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
CREATE TABLE GridEngineUsage (
  RecordNo   INTEGER NOT NULL REFERENCES GridEngineRecords (RecordNo),
  UsageGroup TEXT NOT NULL,
  Name       TEXT NOT NULL,
  Value      NOT NULL,                 -- number or text, as it was
  PRIMARY KEY (RecordNo, UsageGroup, Name)
) WITHOUT ROWID;
CREATE TABLE GridEngineFailures (
  Failed  INTEGER PRIMARY KEY,
  Meaning TEXT NOT NULL
);
CREATE TABLE GridEngineProgress (
  Cell TEXT PRIMARY KEY,
  Seq  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE Clusters (
  ID   INTEGER PRIMARY KEY,
  Name TEXT NOT NULL UNIQUE  -- '': the producer was not told one
);
CREATE TABLE NodeNames (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  UNIQUE (ClusterID, Name)
);
CREATE TABLE SlurmJobs (
  ClusterID              INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID                  INTEGER NOT NULL,  -- of an array or heterogeneous job the one of the element
  JobStep                TEXT NOT NULL,     -- '' for the job itself
  Run                    INTEGER NOT NULL,  -- StartTime; 0 as long as it did not start. A requeued job has several
  JobName                TEXT,
  JobState               TEXT,              -- first word of Slurm's state
  ArrayJobID             INTEGER,
  ArrayTaskID            INTEGER,
  HetJobID               INTEGER,
  HetJobOffset           INTEGER,
  UserName               TEXT,
  Account                TEXT,
  SubmitTime             INTEGER,
  TimeLimitS             INTEGER,           -- -1: unlimited
  Partition              TEXT,
  Reservation            TEXT,
  Nodes                  TEXT,              -- in brackets, as Slurm lists them
  Priority               INTEGER,
  Distribution           TEXT,
  GresDetail             TEXT,
  RequestedResources     TEXT,
  AllocatedResources     TEXT,
  RequestedCPUs          INTEGER,
  MinimumCPUsPerNode     INTEGER,
  RequestedMemoryPerNode INTEGER,
  RequestedNodeCount     INTEGER,
  StartTime              INTEGER,
  SuspendTimeS           INTEGER,
  EndTime                INTEGER,
  ExitCode               INTEGER,
  MinCPUS                INTEGER,           -- from here on what sacct says; CPU in seconds
  AllocTRES              TEXT,
  AveCPUS                INTEGER,
  AveDiskRead            INTEGER,
  AveDiskWrite           INTEGER,
  AveRSS                 INTEGER,
  AveVMSize              INTEGER,
  ElapsedRawS            INTEGER,
  SystemCPUS             INTEGER,           -- a lower bound: Sonar loses the seconds of times with fractions
  UserCPUS               INTEGER,           -- the same
  MaxRSS                 INTEGER,
  MaxVMSize              INTEGER,
  FieldTimes             TEXT NOT NULL,     -- JSON: when each field was said, so that reports may come in any order
  PRIMARY KEY (ClusterID, JobID, JobStep, Run)
) WITHOUT ROWID;
CREATE TABLE Nodes (
  ID             INTEGER PRIMARY KEY,
  NodeID         INTEGER NOT NULL REFERENCES NodeNames (ID),
  ValidFrom      INTEGER NOT NULL,
  LastSeen       INTEGER NOT NULL,
  Content        TEXT NOT NULL,      -- digest of the rest and of the cards and packages
  OSName         TEXT NOT NULL,
  OSRelease      TEXT NOT NULL,
  NumaNodes      INTEGER NOT NULL,
  Sockets        INTEGER NOT NULL,
  CoresPerSocket INTEGER NOT NULL,
  ThreadsPerCore INTEGER NOT NULL,
  CPUModel       TEXT NOT NULL,
  Architecture   TEXT NOT NULL,
  Memory         INTEGER NOT NULL,
  Distances      TEXT NOT NULL,      -- JSON: between NUMA nodes
  TopoSVG        TEXT NOT NULL,      -- base64
  TopoText       TEXT NOT NULL,      -- base64
  UNIQUE (NodeID, ValidFrom)
);
CREATE TABLE NodeCards (
  NodesID        INTEGER NOT NULL REFERENCES Nodes (ID),
  CardIndex      INTEGER NOT NULL,
  UUID           TEXT NOT NULL,
  Address        TEXT NOT NULL,
  Manufacturer   TEXT NOT NULL,
  Model          TEXT NOT NULL,
  Architecture   TEXT NOT NULL,
  Driver         TEXT NOT NULL,
  Firmware       TEXT NOT NULL,
  Memory         INTEGER NOT NULL,
  PowerLimitW    INTEGER NOT NULL,
  MaxPowerLimitW INTEGER NOT NULL,
  MinPowerLimitW INTEGER NOT NULL,
  MaxCEClockMHz  INTEGER NOT NULL,
  MaxMemoryClockMHz INTEGER NOT NULL,
  PRIMARY KEY (NodesID, CardIndex, UUID)
) WITHOUT ROWID;
CREATE TABLE NodeSoftware (
  NodesID INTEGER NOT NULL REFERENCES Nodes (ID),
  Key     TEXT NOT NULL,
  Name    TEXT NOT NULL,
  Version TEXT NOT NULL,
  PRIMARY KEY (NodesID, Key)
) WITHOUT ROWID;
CREATE TABLE NodeUsage (
  NodeID   INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour     INTEGER NOT NULL,  -- its first second
  Device   TEXT NOT NULL,     -- '': the node; a card by UUID; disk:NAME
  Measure  TEXT NOT NULL,
  Samples  INTEGER NOT NULL,
  CoveredS REAL NOT NULL,     -- seconds that the samples stand for
  Mean     REAL,
  Low      REAL,
  High     REAL,
  Increase REAL,              -- of a counter; of power_w the energy in J
  Text     TEXT,              -- of a measure that is a word, the last one
  PRIMARY KEY (NodeID, Hour, Device, Measure)
) WITHOUT ROWID;
CREATE TABLE NodePoints (
  NodeID  INTEGER NOT NULL,
  Hour    INTEGER NOT NULL,
  Written INTEGER NOT NULL,
  Points  BLOB NOT NULL,
  PRIMARY KEY (NodeID, Hour)
) WITHOUT ROWID;
CREATE TABLE JobUsage (
  SampledJobID  INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID        INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour          INTEGER NOT NULL,
  UserName      TEXT NOT NULL,
  Samples       INTEGER NOT NULL,
  FirstTime     INTEGER NOT NULL,
  LastTime      INTEGER NOT NULL,
  Starts        INTEGER NOT NULL,  -- 1: a job begins here; process groups reuse numbers
  CPUS          INTEGER NOT NULL,
  ReadKiB       INTEGER NOT NULL,
  WrittenKiB    INTEGER NOT NULL,
  PeakMemory    INTEGER NOT NULL,
  PeakVirtMem   INTEGER NOT NULL,
  PeakProcesses INTEGER NOT NULL,
  PeakThreads   INTEGER NOT NULL,
  CancelledKiB  INTEGER NOT NULL,
  InContainer   INTEGER NOT NULL, CPUAvgPercent REAL, CPUUtilPercent REAL, PeakCPUUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour)
) WITHOUT ROWID;
CREATE TABLE JobCardUsage (
  SampledJobID INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID       INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour         INTEGER NOT NULL,
  UUID         TEXT NOT NULL,
  Samples      INTEGER NOT NULL,
  OccupiedS    REAL NOT NULL,
  BusyS        REAL NOT NULL,
  EnergyJ      REAL,               -- NULL: the card did not tell its power
  PeakMemory   INTEGER NOT NULL, CardIndex INTEGER, MemoryUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, UUID)
) WITHOUT ROWID;
CREATE TABLE JobPoints (
  SampledJobID INTEGER NOT NULL,
  NodeID       INTEGER NOT NULL,
  Hour         INTEGER NOT NULL,
  Written      INTEGER NOT NULL,
  Points       BLOB NOT NULL,
  PRIMARY KEY (SampledJobID, NodeID, Hour)
) WITHOUT ROWID;
CREATE TABLE ClusterPartitions (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,  -- its nodes, in brackets
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;
CREATE TABLE ClusterNodes (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,  -- its states, joined by ','
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;
CREATE TABLE ProducerErrors (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Node      TEXT NOT NULL,
  Time      INTEGER NOT NULL,
  Detail    TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Node, Time, Detail)
) WITHOUT ROWID;
CREATE TABLE JobTelemetry (
  RecordID      INTEGER PRIMARY KEY,
  ClusterID     INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID         INTEGER NOT NULL,
  CPUModel      TEXT,               -- of its nodes, joined by ';' if they differ
  Samples       INTEGER NOT NULL,
  CPUS          INTEGER,            -- of its processes, while they were sampled
  PeakMemory    INTEGER,            -- the largest sum over its processes on one node
  ReadKiB       INTEGER,
  WrittenKiB    INTEGER,
  GPUCount      INTEGER,            -- allocated by the batch system; NULL: it was not asked
  GPUAllocatedS INTEGER,
  GPUModel      TEXT,
  GPUOccupiedS  REAL,
  GPUBusyS      REAL,
  GPUPeakMemory INTEGER,
  GPUEnergyJ    REAL,
  EnergyJ       INTEGER,            -- as the batch system measured it
  CPUSource     TEXT                -- of a record of Slurm: sacct, steps or samples
, Task INTEGER NOT NULL DEFAULT 0);
CREATE TABLE ImportedFiles (
  FileID   INTEGER PRIMARY KEY,
  Origin   TEXT NOT NULL UNIQUE,  -- absolute path
  RecordID INTEGER NOT NULL,      -- in that file: the highest that was looked at, and its job, which tells whether the
  JobID    TEXT NOT NULL,         --   file is still the same one
  EventRow INTEGER NOT NULL,      -- in that file: the last row of JobEvents that was looked at, and what it said:
  Event    TEXT NOT NULL,         --   whatever happens to a job adds rows to it
  Stamp    TEXT NOT NULL,         -- size, times and change counter of a file that was imported to its end; '': unknown
  Imported INTEGER NOT NULL       -- when, UTC seconds
);
CREATE TABLE ImportPending (
  FileID   INTEGER NOT NULL,
  RecordID INTEGER NOT NULL,      -- in that file
  PRIMARY KEY (FileID, RecordID)
) WITHOUT ROWID;
CREATE TABLE Archives (
  Path        TEXT PRIMARY KEY,
  EndedBefore INTEGER NOT NULL,   -- UTC seconds: no job in it ended at this time or later
  Jobs        INTEGER NOT NULL,
  Pruned      INTEGER NOT NULL    -- when, UTC seconds
);
CREATE TABLE FormerVersions (
  Seq        INTEGER NOT NULL,  -- of FinishedLog, where the change was logged: what was read up to before it was this
  RecordID   INTEGER NOT NULL,
  JobID      TEXT NOT NULL,
  LocalJobID TEXT,
  VOID       INTEGER NOT NULL,
  EndpointID INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  Wall       INTEGER NOT NULL,  -- as in Contributions
  Cpu        INTEGER NOT NULL
);
CREATE TABLE RecordNotes (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,    -- a column of v1_jobs, what a job has several of (transfers, ...), or a file (local, diag, ...)
  Note     TEXT NOT NULL,
  Noted    INTEGER NOT NULL, -- s since 1970
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;
CREATE TABLE AuthGroups (
  RecordID INTEGER PRIMARY KEY,
  Names    TEXT NOT NULL         -- with blanks between, in the order of .local
);
CREATE TABLE "Cells" (
  CellID     INTEGER PRIMARY KEY,
  Month      INTEGER NOT NULL,      -- 202611
  UserID     INTEGER NOT NULL,
  VOID       INTEGER NOT NULL,
  FQAN       TEXT NOT NULL,         -- the first one, as in AuthTokenAttributes; '' when there is none
  EndpointID INTEGER NOT NULL,
  NodeCount  INTEGER NOT NULL,
  CPUCount   INTEGER NOT NULL,
  Benchmark  TEXT NOT NULL,         -- as in JobExtraInfo; '' when there is none
  AuthGroups TEXT NOT NULL,         -- as in AuthGroups; '' when there are none
  Jobs       INTEGER NOT NULL DEFAULT 0,
  Wall       INTEGER NOT NULL DEFAULT 0,
  Cpu        INTEGER NOT NULL DEFAULT 0,
  Earliest   INTEGER,
  Latest     INTEGER,
  ChangedSeq INTEGER NOT NULL,      -- of FinishedLog, when it changed last
  UNIQUE (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups)
);
CREATE TABLE RejectedRecords (
  RejectedID INTEGER PRIMARY KEY,
  Source     TEXT NOT NULL,     -- gridengine, sonar, arex, features
  Scope      TEXT NOT NULL,     -- cell of Grid Engine; '' for others
  File       TEXT NOT NULL,     -- where it was read; '-' for standard input
  Position   TEXT NOT NULL,     -- line, object or number of the record in it
  Digest     BLOB NOT NULL,     -- of the whole record: one that is met again is the same row
  Reason     TEXT NOT NULL,
  IsOurs     INTEGER NOT NULL,  -- 1: an error of this program, not of the record
  Records    INTEGER NOT NULL,  -- 1, or how many further ones of the file were only counted (Content is NULL then)
  Rejected   INTEGER NOT NULL,  -- s since 1970: met first
  Bytes      INTEGER NOT NULL,  -- of the whole record; of one that is too long Content has the beginning
  Content    BLOB,
  UNIQUE (Source, Scope, Digest)
);
CREATE TABLE SlurmRuns (
  RunNo          INTEGER PRIMARY KEY,
  RecordID       INTEGER,          -- the AAR that it went into; NULL: it waits for A-REX to finish one that it may be
  Cluster        TEXT NOT NULL,
  JobID          INTEGER NOT NULL, -- of an element of an array, or a component of a heterogeneous job, its own
  SubmitTime     INTEGER NOT NULL, -- s since 1970
  ShownID        TEXT NOT NULL,
  State          TEXT NOT NULL,
  StartTime      INTEGER NOT NULL,
  EndTime        INTEGER NOT NULL,
  Elapsed        INTEGER NOT NULL, -- s, without suspensions
  ExitStatus     INTEGER,
  ExitSignal     INTEGER,
  CPUs           INTEGER NOT NULL,
  Nodes          INTEGER,
  NodeList       TEXT NOT NULL,
  QPartition     TEXT NOT NULL,
  UserName       TEXT NOT NULL,
  GroupName      TEXT NOT NULL,
  Account        TEXT NOT NULL,
  QOS            TEXT NOT NULL,
  WCKey          TEXT NOT NULL,
  JobName        TEXT NOT NULL,
  AllocTRES      TEXT NOT NULL,
  CPUUs          INTEGER,          -- user and kernel; NULL: sacct was asked without steps
  CPUKernelUs    INTEGER,
  MaxRSS         INTEGER,          -- KiB, of the task that used most
  MaxVMSize      INTEGER           -- KiB
);
CREATE TABLE SlurmProgress (
  Cluster    TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0, -- of FinishedLog
  AskedUntil INTEGER                     -- s since 1970
) WITHOUT ROWID;
CREATE TABLE PackedJob (
  RecordID INTEGER PRIMARY KEY,
  Seq      INTEGER NOT NULL,  -- of FinishedLog: a record that has moved there since is none of this pack's
  Version  INTEGER NOT NULL,  -- of the layout of Data
  Digest   BLOB NOT NULL,     -- of Data: what tells versions of a record apart, and that these bytes are what was written
  Data     BLOB NOT NULL
);
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
CREATE TABLE ForgottenRecords (
  RecordID INTEGER PRIMARY KEY
);
CREATE TABLE ForgottenMonths (
  Month INTEGER PRIMARY KEY  -- 202611
);
CREATE TABLE AttributeKinds (
  Kind TEXT PRIMARY KEY  -- token, rte or info
) WITHOUT ROWID;
CREATE TABLE HTCondorJobs (
  JobNo          INTEGER PRIMARY KEY,
  RecordID       INTEGER,          -- the AAR that it went into; NULL: it waits for A-REX to finish one that it may be
  Schedd         TEXT NOT NULL,
  Cluster        INTEGER NOT NULL,
  Proc           INTEGER NOT NULL,
  Queued         INTEGER NOT NULL, -- s since 1970, the last part of GlobalJobId
  SubmitTime     INTEGER NOT NULL, -- QDate
  JobStatus      INTEGER NOT NULL, -- 3: removed; 4: completed
  StartTime      INTEGER NOT NULL, -- of the first run
  LastStart      INTEGER,
  EndTime        INTEGER NOT NULL,
  Wall           INTEGER NOT NULL, -- s of all runs, with suspensions
  Starts         INTEGER,
  CPUs           INTEGER NOT NULL,
  GPUs           INTEGER,
  CPUUser        INTEGER,          -- s of all runs; NULL: not known of all
  CPUKernel      INTEGER,
  MaxRSS         INTEGER,          -- KiB
  MaxVMSize      INTEGER,          -- KiB
  MemoryMiB      INTEGER,          -- that it was given
  ExitStatus     INTEGER,
  ExitSignal     INTEGER,
  Hosts          TEXT NOT NULL,
  UserName       TEXT NOT NULL,
  Account        TEXT NOT NULL,
  Project        TEXT NOT NULL,
  JobName        TEXT NOT NULL,
  QueueName      TEXT NOT NULL,
  UserDN         TEXT NOT NULL,
  VO             TEXT NOT NULL,
  FQAN           TEXT NOT NULL,
  Benchmark      TEXT NOT NULL
);
CREATE TABLE HTCondorProgress (
  Schedd     TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0, -- of FinishedLog
  AskedUntil INTEGER                     -- s since 1970
) WITHOUT ROWID;
CREATE TABLE "SampledJobs" (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID     INTEGER NOT NULL,
  Epoch     INTEGER NOT NULL,  -- 0: a job of the batch system
  Task      INTEGER NOT NULL,  -- index in an array that has one number as a whole; 0: none
  NodeID    INTEGER NOT NULL,  -- 0 when Epoch is 0
  UNIQUE (ClusterID, JobID, Epoch, Task, NodeID)
);
CREATE TABLE JobCommandUsage (
  SampledJobID   INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID         INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour           INTEGER NOT NULL,
  Command        TEXT NOT NULL,
  Samples        INTEGER NOT NULL,  -- in which it ran
  PeakProcesses  INTEGER NOT NULL,
  PeakMemory     INTEGER NOT NULL,  -- the largest sum over its processes
  CPUAvgPercent  REAL NOT NULL,     -- means over these samples of the sums over its processes
  CPUUtilPercent REAL,              -- NULL: not told
  PRIMARY KEY (SampledJobID, NodeID, Hour, Command)
) WITHOUT ROWID;
CREATE INDEX AAR_LocalJobID_IDX ON AAR (LocalJobID);
CREATE INDEX AAR_UserID_IDX ON AAR (UserID);
CREATE INDEX AAR_StatusID_IDX ON AAR (StatusID);
CREATE INDEX AAR_SubmitTime_IDX ON AAR (SubmitTime);
CREATE INDEX AAR_EndTime_IDX ON AAR (EndTime);
CREATE INDEX Endpoints_Interface_IDX ON Endpoints (Interface);
CREATE UNIQUE INDEX Queues_Name_IDX ON Queues (Name);
CREATE UNIQUE INDEX Users_Name_IDX ON Users (Name);
CREATE UNIQUE INDEX WLCGVOs_Name_IDX ON WLCGVOs (Name);
CREATE UNIQUE INDEX Status_Name_IDX ON Status (Name);
CREATE INDEX AuthTokenAttributes_RecordID_IDX ON AuthTokenAttributes (RecordID);
CREATE INDEX JobEvents_RecordID_IDX ON JobEvents (RecordID);
CREATE INDEX RunTimeEnvironments_RecordID_IDX ON RunTimeEnvironments (RecordID);
CREATE INDEX DataTransfers_RecordID_IDX ON DataTransfers (RecordID);
CREATE INDEX JobExtraInfo_RecordID_IDX ON JobExtraInfo (RecordID);
CREATE INDEX Contributions_Cell_IDX ON Contributions (CellID, EndTime);
CREATE UNIQUE INDEX GridEngineRecords_Key_IDX ON GridEngineRecords (
  JobNumber, TaskNumber, coalesce(PeTaskID, ''), SubmissionTimeUs, StartTimeUs, EndTimeUs, Failed, ExitStatus,
  coalesce(QName, ''), coalesce(Hostname, ''), Cell
);
CREATE INDEX GridEngineRecords_RecordID_IDX ON GridEngineRecords (RecordID);
CREATE INDEX GridEngineRecords_StartTime_IDX ON GridEngineRecords (StartTimeUs);
CREATE INDEX GridEngineRecords_EndTime_IDX ON GridEngineRecords (EndTimeUs);
CREATE INDEX GridEngineRecords_Waiting_IDX ON GridEngineRecords (JobNumber, TaskNumber, Cell)
  WHERE RecordID IS NULL AND StartTimeUs > 0 AND PeTaskID IS NULL;
CREATE INDEX NodeCards_UUID_IDX ON NodeCards (UUID);
CREATE INDEX JobTelemetry_Job_IDX ON JobTelemetry (ClusterID, JobID);
CREATE INDEX FormerVersions_Seq_IDX ON FormerVersions (Seq);
CREATE INDEX FormerVersions_RecordID_IDX ON FormerVersions (RecordID);
CREATE INDEX RecordNotes_Noted_IDX ON RecordNotes (Noted);
CREATE INDEX Cells_ChangedSeq_IDX ON Cells (ChangedSeq, Month);
CREATE UNIQUE INDEX SlurmRuns_Key_IDX ON SlurmRuns (JobID, Cluster, SubmitTime);
CREATE INDEX SlurmRuns_RecordID_IDX ON SlurmRuns (RecordID);
CREATE INDEX SlurmRuns_EndTime_IDX ON SlurmRuns (EndTime);
CREATE INDEX SlurmRuns_Waiting_IDX ON SlurmRuns (Cluster, JobID) WHERE RecordID IS NULL;
CREATE INDEX AAR_EndTimeOrNull_IDX ON AAR (CAST(nullif(EndTime, 0) AS INTEGER));
CREATE INDEX AAR_SubmitTimeOrNull_IDX ON AAR (CAST(nullif(SubmitTime, 0) AS INTEGER));
CREATE INDEX AAR_LocalJobIDOrNull_IDX ON AAR (CAST(nullif(LocalJobID, '') AS TEXT));
CREATE INDEX Contributions_Waiting_IDX ON Contributions (RecordID) WHERE MonthID IS NULL;
CREATE UNIQUE INDEX HTCondorJobs_Key_IDX ON HTCondorJobs (Cluster, Proc, Schedd, Queued);
CREATE INDEX HTCondorJobs_RecordID_IDX ON HTCondorJobs (RecordID);
CREATE INDEX HTCondorJobs_EndTime_IDX ON HTCondorJobs (EndTime);
CREATE INDEX HTCondorJobs_GPUs_IDX ON HTCondorJobs (RecordID) WHERE GPUs > 0;
CREATE INDEX HTCondorJobs_Waiting_IDX ON HTCondorJobs (Schedd, Cluster, Proc) WHERE RecordID IS NULL;
CREATE INDEX SlurmJobs_Array_IDX ON SlurmJobs (ArrayJobID, ArrayTaskID) WHERE ArrayJobID IS NOT NULL;
CREATE TRIGGER FinishedLog_AAR_insert AFTER INSERT ON AAR
WHEN (SELECT Name FROM Status WHERE ID = new.StatusID) IN ('completed', 'failed', 'aborted')
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER AAR_RecordID_fixed BEFORE UPDATE OF RecordID ON AAR
WHEN new.RecordID <> old.RecordID
BEGIN
  SELECT RAISE(ABORT, 'RecordID is the identity of a record: it cannot change');
END;
CREATE TRIGGER FinishedLog_AuthTokenAttributes_insert AFTER INSERT ON AuthTokenAttributes
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_AuthTokenAttributes_delete AFTER DELETE ON AuthTokenAttributes
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE TRIGGER FinishedLog_RunTimeEnvironments_insert AFTER INSERT ON RunTimeEnvironments
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_RunTimeEnvironments_delete AFTER DELETE ON RunTimeEnvironments
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE TRIGGER FinishedLog_DataTransfers_insert AFTER INSERT ON DataTransfers
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_DataTransfers_delete AFTER DELETE ON DataTransfers
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE TRIGGER FinishedLog_JobExtraInfo_insert AFTER INSERT ON JobExtraInfo
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_JobExtraInfo_delete AFTER DELETE ON JobExtraInfo
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE TRIGGER Users_append_only BEFORE UPDATE ON Users
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Users is append-only: insert the new name and update AAR');
END;
CREATE TRIGGER WLCGVOs_append_only BEFORE UPDATE ON WLCGVOs
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'WLCGVOs is append-only: insert the new name and update AAR');
END;
CREATE TRIGGER Queues_append_only BEFORE UPDATE ON Queues
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Queues is append-only: insert the new name and update AAR');
END;
CREATE TRIGGER Status_append_only BEFORE UPDATE ON Status
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Status is append-only: insert the new name and update AAR');
END;
CREATE TRIGGER Endpoints_append_only BEFORE UPDATE ON Endpoints
WHEN (new.ID, new.Interface, new.URL) IS NOT (old.ID, old.Interface, old.URL)
BEGIN
  SELECT RAISE(ABORT, 'Endpoints is append-only: insert the new endpoint and update AAR');
END;
CREATE TRIGGER RecordCount_insert AFTER INSERT ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records + 1;
END;
CREATE TRIGGER RecordCount_delete AFTER DELETE ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records - 1;
END;
CREATE TRIGGER FinishedLog_AAR_update AFTER UPDATE ON AAR
WHEN (old.StatusID, old.EndTime, old.ExitCode, old.LocalJobID, old.SubmitTime, old.EndpointID, old.QueueID,
      old.UserID, old.VOID, old.NodeCount, old.CPUCount, old.UsedMemory, old.UsedVirtMem, old.UsedWalltime,
      old.UsedCPUUserTime, old.UsedCPUKernelTime, old.UsedScratch, old.StageInVolume, old.StageOutVolume, old.JobID)
 IS NOT
     (new.StatusID, new.EndTime, new.ExitCode, new.LocalJobID, new.SubmitTime, new.EndpointID, new.QueueID,
      new.UserID, new.VOID, new.NodeCount, new.CPUCount, new.UsedMemory, new.UsedVirtMem, new.UsedWalltime,
      new.UsedCPUUserTime, new.UsedCPUKernelTime, new.UsedScratch, new.StageInVolume, new.StageOutVolume, new.JobID)
 AND EXISTS (SELECT 1 FROM Status WHERE ID IN (old.StatusID, new.StatusID) AND Name IN ('completed', 'failed', 'aborted'))
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, old.RecordID, old.JobID, old.LocalJobID, old.VOID, old.EndpointID, old.EndTime,
         CASE WHEN old.UsedWalltime BETWEEN 0 AND 9007199254740992 THEN old.UsedWalltime ELSE 0 END,
         CASE WHEN old.UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUUserTime ELSE 0 END
         + CASE WHEN old.UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUKernelTime ELSE 0 END
    FROM sqlite_sequence
   WHERE name = 'FinishedLog' AND old.EndTime > 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'))
     AND (old.StatusID, old.EndTime, old.LocalJobID, old.VOID, old.EndpointID, old.UsedWalltime, old.UsedCPUUserTime,
          old.UsedCPUKernelTime, old.JobID)
      IS NOT
         (new.StatusID, new.EndTime, new.LocalJobID, new.VOID, new.EndpointID, new.UsedWalltime, new.UsedCPUUserTime,
          new.UsedCPUKernelTime, new.JobID);
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_AAR_delete AFTER DELETE ON AAR
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO FormerVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, old.RecordID, old.JobID, old.LocalJobID, old.VOID, old.EndpointID, old.EndTime,
         CASE WHEN old.UsedWalltime BETWEEN 0 AND 9007199254740992 THEN old.UsedWalltime ELSE 0 END,
         CASE WHEN old.UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUUserTime ELSE 0 END
         + CASE WHEN old.UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN old.UsedCPUKernelTime ELSE 0 END
    FROM sqlite_sequence
   WHERE name = 'FinishedLog' AND old.EndTime > 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'));
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE TRIGGER RecordNotes_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM RecordNotes WHERE RecordID = old.RecordID;
END;
CREATE TRIGGER AuthGroups_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM AuthGroups WHERE RecordID = old.RecordID;
END;
CREATE TRIGGER PackedJob_JobEvents_insert AFTER INSERT ON JobEvents
WHEN new.EventKey IN ('SUBMIT', 'LRMSSTART', 'LRMSEND')
BEGIN
  DELETE FROM PackedJob WHERE RecordID = new.RecordID;
END;
CREATE TRIGGER PackedJob_JobEvents_update AFTER UPDATE ON JobEvents
BEGIN
  DELETE FROM PackedJob WHERE RecordID IN (old.RecordID, new.RecordID);
END;
CREATE TRIGGER PackedJob_JobEvents_delete AFTER DELETE ON JobEvents
BEGIN
  DELETE FROM PackedJob WHERE RecordID = old.RecordID;
END;
CREATE TRIGGER FinishedLog_AuthTokenAttributes_update AFTER UPDATE ON AuthTokenAttributes
WHEN (old.rowid, old.RecordID, old.AttrKey, old.AttrValue)
 IS NOT (new.rowid, new.RecordID, new.AttrKey, new.AttrValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
CREATE TRIGGER FinishedLog_RunTimeEnvironments_update AFTER UPDATE ON RunTimeEnvironments
WHEN (old.rowid, old.RecordID, old.RTEName)
 IS NOT (new.rowid, new.RecordID, new.RTEName)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
CREATE TRIGGER FinishedLog_DataTransfers_update AFTER UPDATE ON DataTransfers
WHEN (old.rowid, old.RecordID, old.URL, old.FileSize, old.TransferStart, old.TransferEnd, old.TransferType)
 IS NOT (new.rowid, new.RecordID, new.URL, new.FileSize, new.TransferStart, new.TransferEnd, new.TransferType)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
CREATE TRIGGER FinishedLog_JobExtraInfo_update AFTER UPDATE ON JobExtraInfo
WHEN (old.rowid, old.RecordID, old.InfoKey, old.InfoValue)
 IS NOT (new.rowid, new.RecordID, new.InfoKey, new.InfoValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
CREATE TRIGGER ForgottenRecords_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM ForgottenRecords WHERE RecordID = old.RecordID;
END;
CREATE VIEW v1_node_cards AS
SELECT
  NodesID AS hardware_id, -- row of v1_nodes
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  ValidFrom AS valid_from, -- s since 1970: first seen so
  CardIndex AS card_index, -- number on the node; may change when it boots
  UUID AS uuid, -- the card's own name
  Address AS address, -- e.g. on PCI
  Manufacturer AS manufacturer, -- NVIDIA, AMD, Intel, ...
  Model AS model, -- as the manufacturer calls it
  NodeCards.Architecture AS architecture, -- e.g. Turing
  Driver AS driver, -- version of the driver
  Firmware AS firmware, -- version of the firmware
  NodeCards.Memory AS memory_kib, -- KiB
  PowerLimitW AS power_limit_w, -- W; 0: unknown
  MaxPowerLimitW AS max_power_limit_w, -- W
  MinPowerLimitW AS min_power_limit_w, -- W
  MaxCEClockMHz AS max_ce_clock_mhz, -- MHz of the compute elements
  MaxMemoryClockMHz AS max_memory_clock_mhz -- MHz of the memory
FROM NodeCards JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_node_software AS
SELECT
  NodesID AS hardware_id, -- row of v1_nodes
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  ValidFrom AS valid_from, -- s since 1970: first seen so
  Key AS key, -- identifier of the package
  NodeSoftware.Name AS name, -- its name for people
  Version AS version -- its version
FROM NodeSoftware JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_job_telemetry AS
SELECT
  AAR.JobID AS job_id, -- the record; joins v1_jobs
  Clusters.Name AS cluster, -- cluster; Clusters
  JobTelemetry.JobID AS lrms_job_id, -- number of the batch system
  CPUModel AS cpu_model, -- CPU of its nodes, joined by ";" if they differ
  Samples AS samples, -- samples of its processes
  CPUS AS sampled_cpu_s, -- s of CPU time, by samples
  PeakMemory AS peak_memory_kib, -- KiB: the largest sum over its processes on a node
  ReadKiB AS read_kib, -- KiB read from devices
  WrittenKiB AS written_kib, -- KiB written to devices
  GPUCount AS gpu_count, -- GPUs that the batch system gave it; NULL: it was not asked
  GPUAllocatedS AS gpu_allocated_s, -- s: GPUs times clock time, what is charged for
  GPUModel AS gpu_model, -- what they are, joined by ";"
  GPUOccupiedS AS gpu_occupied_s, -- s that it had processes on GPUs, added up
  GPUBusyS AS gpu_busy_s, -- s of fully used GPUs
  GPUPeakMemory AS gpu_peak_memory_kib, -- KiB on one card
  GPUEnergyJ AS gpu_energy_j, -- J: its share of what its cards drew
  EnergyJ AS energy_j, -- J, as the batch system measured the nodes
  CPUSource AS cpu_source -- of a record made from Slurm: sacct, steps or samples
FROM JobTelemetry JOIN AAR ON AAR.RecordID = JobTelemetry.RecordID JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW RecordUsage AS
SELECT AAR.RecordID,
       CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER) AS Month,
       UserID, VOID,
       coalesce((SELECT AttrValue FROM AuthTokenAttributes AS Token
                  -- The plus keeps SQLite off the index of AttrKey, which has half of all rows under one key.
                  WHERE Token.RecordID = AAR.RecordID AND +AttrKey IN ('mainfqan', 'vomsfqan')
                  ORDER BY +AttrKey, Token.rowid LIMIT 1), '') AS FQAN,
       EndpointID, NodeCount, CPUCount,
       coalesce((SELECT InfoValue FROM JobExtraInfo AS Extra
                  WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'
                  ORDER BY Extra.rowid LIMIT 1), '') AS Benchmark,
       coalesce((SELECT Names FROM AuthGroups WHERE AuthGroups.RecordID = AAR.RecordID), '') AS AuthGroups,
       EndTime,
       CASE WHEN UsedWalltime BETWEEN 0 AND 9007199254740992 THEN UsedWalltime ELSE 0 END AS Wall,
       CASE WHEN UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUUserTime ELSE 0 END
       + CASE WHEN UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUKernelTime ELSE 0 END AS Cpu
  FROM AAR
  JOIN Status ON Status.ID = +StatusID
 -- A condition on AAR alone would let SQLite read all of it, to make a Bloom filter for a few records.
 WHERE CASE WHEN Status.Name IN ('completed', 'failed') THEN EndTime > 0
            WHEN Status.Name = 'aborted'
            THEN EndTime > 0 AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) <> (0, 0, 0) END;
CREATE VIEW UsageCells AS
WITH Tail AS (SELECT RecordID FROM FinishedLog WHERE Seq > (SELECT Seq FROM CellsPosition)),
     -- Something left these; into the others something came.
     Touched AS (SELECT CellID FROM Tail CROSS JOIN Contributions USING (RecordID)),
     Changed AS (
       SELECT CellID FROM Touched
       UNION
       SELECT CellID FROM Tail CROSS JOIN RecordUsage USING (RecordID)
         JOIN Cells USING (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups))
SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, Earliest, Latest
  FROM Cells WHERE Jobs > 0 AND CellID NOT IN Changed
UNION ALL
SELECT * FROM (
  SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
         sum(Jobs) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, min(Earliest) AS Earliest, max(Latest) AS Latest
    FROM (
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, Earliest, Latest
        FROM Cells WHERE Jobs > 0 AND CellID IN Changed AND CellID NOT IN Touched
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
             Cells.Jobs - Gone.Jobs, Cells.Wall - Gone.Wall, Cells.Cpu - Gone.Cpu,
             (SELECT min(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail),
             (SELECT max(EndTime) FROM Contributions WHERE CellID = Cells.CellID AND RecordID NOT IN Tail)
        FROM (SELECT CellID, count(*) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu
                FROM Tail CROSS JOIN Contributions USING (RecordID) GROUP BY CellID) AS Gone
        CROSS JOIN Cells USING (CellID)
       WHERE Cells.Jobs > Gone.Jobs
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, 1, Wall, Cpu, EndTime, EndTime
        FROM Tail CROSS JOIN RecordUsage USING (RecordID)
    )
   GROUP BY Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups
);
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
CREATE VIEW v1_job_events AS
SELECT
  AAR.JobID AS job_id, -- the job; AAR
  JobEvents.EventKey AS event, -- state of A-REX, or LRMSSTART, LRMSEND, DTRDOWNLOADSTART, DTRDOWNLOADEND, DTRUPLOADSTART, DTRUPLOADEND; JobEvents
  CAST(strftime('%s', JobEvents.EventTime) AS INTEGER) AS event_time, -- s since 1970; JobEvents
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', JobEvents.EventTime) AS TEXT) AS event_time_iso -- event_time as text
FROM JobEvents JOIN AAR ON AAR.RecordID = JobEvents.RecordID;
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
CREATE VIEW v1_producer_errors AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  CAST(nullif(Node, '') AS TEXT) AS node, -- node
  Time AS time, -- s since 1970
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Time, 'unixepoch') AS TEXT) AS time_iso, -- time as text
  Detail AS detail -- the complaint
FROM ProducerErrors JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_record_notes AS
SELECT
  JobID AS job_id, -- id of the job at the computing element; AAR
  Field AS field, -- what was cut: a column of v1_jobs, what a job has several of, or a control file (local, diag, statistics); RecordNotes
  Note AS note, -- how it was cut; RecordNotes
  Noted AS noted_time, -- s since 1970: when that was recorded; RecordNotes
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Noted, 'unixepoch') AS TEXT) AS noted_time_iso -- noted_time as text, UTC
FROM RecordNotes
JOIN AAR USING (RecordID);
CREATE VIEW v1_htcondor_jobs AS
SELECT
  JobNo AS job_no, -- number of the row; HTCondorJobs
  AAR.JobID AS job_id, -- the job in v1_jobs that it was accounted to; NULL: none yet; AAR
  Schedd AS schedd, -- schedd that it was submitted to
  CAST(Cluster || '.' || Proc AS TEXT) AS htcondor_job, -- HTCondor's number of the job: cluster.process
  CAST(CASE JobStatus WHEN 3 THEN 'removed' ELSE 'completed' END AS TEXT) AS state, -- completed or removed
  HTCondorJobs.SubmitTime AS submit_time, -- s since 1970: submitted
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso, -- submit_time as text
  StartTime AS start_time, -- s since 1970: its first run began
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso, -- start_time as text
  LastStart AS last_start_time, -- s since 1970: its last run began
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', LastStart, 'unixepoch') AS TEXT) AS last_start_time_iso, -- last_start_time as text
  HTCondorJobs.EndTime AS end_time, -- s since 1970: completed or removed
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', HTCondorJobs.EndTime, 'unixepoch') AS TEXT) AS end_time_iso, -- end_time as text
  Wall AS wall_s, -- s that it ran, all runs together, with suspensions
  Starts AS starts, -- how often it was started
  CPUs AS cpus, -- CPUs that it was given, of all nodes
  GPUs AS gpus, -- GPUs that it was given; NULL: not said
  CPUUser AS cpu_user_s, -- s of CPU time in user mode, all runs together; NULL: not known of all
  CPUKernel AS cpu_kernel_s, -- s of CPU time in the kernel, all runs together; NULL: not known of all
  MaxRSS AS max_memory_kib, -- KiB of resident memory at most
  MaxVMSize AS max_virtual_memory_kib, -- KiB of virtual memory at most
  MemoryMiB AS memory_mib, -- MiB of memory that it was given
  ExitStatus AS exit_status, -- exit status; NULL: not known
  ExitSignal AS exit_signal, -- signal that ended it; 0: none; NULL: not known
  Hosts AS hosts, -- slots of its last run, slot@node, joined by ","
  UserName AS user_name, -- account that the job ran under
  Account AS account, -- accounting group
  Project AS project, -- project (ProjectName)
  JobName AS job_name, -- name that the user gave the batch of jobs
  QueueName AS queue, -- queue of A-REX that it came through
  UserDN AS user_dn, -- distinguished name of the proxy that it was submitted with
  VO AS vo, -- virtual organisation of that proxy
  FQAN AS fqan, -- main VOMS attribute of that proxy
  Benchmark AS benchmark, -- benchmark of a core of its machine, by the machine's own attribute
  CAST(Wall * CPUs AS INTEGER) AS core_s -- s that it ran, times CPUs
FROM HTCondorJobs LEFT JOIN AAR ON AAR.RecordID = HTCondorJobs.RecordID;
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
  CAST(max(InContainer) AS INTEGER) AS is_in_container, -- 1: it ran in a container
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id, -- index in the array job_id; NULL: none, or an element of Slurm's
  CAST(sum(CPUAvgPercent * Samples) / sum(CASE WHEN CPUAvgPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_avg_percent, -- percent of a core that its processes used over their lives, mean of the samples; NULL: imported without --details
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent, -- percent of a core at the moments of the samples, mean; NULL: the same, or not told
  CAST(max(PeakCPUUtilPercent) AS REAL) AS peak_cpu_util_percent -- the largest of them
FROM (
  SELECT *, CASE (SELECT Epoch FROM SampledJobs WHERE SampledJobs.ID = SampledJobID) WHEN 0 THEN 0 ELSE
         sum(Starts) OVER (PARTITION BY SampledJobID, NodeID ORDER BY Hour) END AS Part
    FROM JobUsage
) AS JobUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobUsage.NodeID, Part;
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
  CAST(max(JobCardUsage.PeakMemory) AS INTEGER) AS peak_memory_kib, -- KiB of the card's memory
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id, -- as in v1_sampled_jobs
  CAST(max(CardIndex) AS INTEGER) AS card_index, -- its number on the node; NULL: imported without --details
  CAST(sum(MemoryUtilPercent * Samples) / sum(CASE WHEN MemoryUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS memory_util_percent -- percent of its memory that the job had, mean of the samples; NULL: the same
FROM JobCardUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCardUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCardUsage.NodeID, JobCardUsage.UUID;
CREATE VIEW v1_job_commands AS
SELECT
  Clusters.Name AS cluster, -- cluster; Clusters
  NodeNames.Name AS node, -- node; NodeNames
  SampledJobs.JobID AS job_id, -- number of the batch system, or of the process group
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id, -- as in v1_sampled_jobs
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch, -- as in v1_sampled_jobs
  Command AS command, -- name of the program, as the kernel has it
  CAST(sum(Samples) AS INTEGER) AS samples, -- samples in which it ran
  CAST(max(PeakProcesses) AS INTEGER) AS peak_processes, -- processes of it at once
  CAST(max(JobCommandUsage.PeakMemory) AS INTEGER) AS peak_memory_kib, -- KiB resident of all of them (private pages)
  CAST(sum(CPUAvgPercent * Samples) / sum(Samples) AS REAL) AS cpu_avg_percent, -- as in v1_sampled_jobs
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent -- as in v1_sampled_jobs
FROM JobCommandUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCommandUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCommandUsage.NodeID, Command;
INSERT INTO "Status" VALUES (1, 'in-progress');
INSERT INTO "Status" VALUES (2, 'completed');
INSERT INTO "Status" VALUES (3, 'failed');
INSERT INTO "Status" VALUES (4, 'aborted');
INSERT INTO "DBConfig" VALUES ('DBSCHEMA_VERSION', '1');
INSERT INTO "DBConfig" VALUES ('ARCACCT_PACKS_AFTER', '0');
INSERT INTO "Fence" VALUES (1, 0, 0);
INSERT INTO "RecordCount" VALUES (1, 0);
INSERT INTO "CellsPosition" VALUES (1, 0);
INSERT INTO "GridEngineFailures" VALUES (0, 'no failure');
INSERT INTO "GridEngineFailures" VALUES (1, 'assumedly before job');
INSERT INTO "GridEngineFailures" VALUES (2, 'shepherd');
INSERT INTO "GridEngineFailures" VALUES (3, 'before writing config');
INSERT INTO "GridEngineFailures" VALUES (4, 'before writing pid');
INSERT INTO "GridEngineFailures" VALUES (5, 'on reading config');
INSERT INTO "GridEngineFailures" VALUES (6, 'setting processor set');
INSERT INTO "GridEngineFailures" VALUES (7, 'before prolog');
INSERT INTO "GridEngineFailures" VALUES (8, 'in prolog');
INSERT INTO "GridEngineFailures" VALUES (9, 'before pestart');
INSERT INTO "GridEngineFailures" VALUES (10, 'in pestart');
INSERT INTO "GridEngineFailures" VALUES (11, 'before job');
INSERT INTO "GridEngineFailures" VALUES (12, 'before pestop');
INSERT INTO "GridEngineFailures" VALUES (13, 'in pestop');
INSERT INTO "GridEngineFailures" VALUES (14, 'before epilog');
INSERT INTO "GridEngineFailures" VALUES (15, 'in epilog');
INSERT INTO "GridEngineFailures" VALUES (16, 'releasing processor set');
INSERT INTO "GridEngineFailures" VALUES (17, 'through signal');
INSERT INTO "GridEngineFailures" VALUES (18, 'shepherd returned error');
INSERT INTO "GridEngineFailures" VALUES (19, 'before writing exit_status');
INSERT INTO "GridEngineFailures" VALUES (20, 'found unexpected error file');
INSERT INTO "GridEngineFailures" VALUES (21, 'in recognizing job');
INSERT INTO "GridEngineFailures" VALUES (22, 'removed manually');
INSERT INTO "GridEngineFailures" VALUES (23, 'on getting PTF pids');
INSERT INTO "GridEngineFailures" VALUES (24, 'migrating');
INSERT INTO "GridEngineFailures" VALUES (25, 'rescheduling');
INSERT INTO "GridEngineFailures" VALUES (26, 'opening input/output file');
INSERT INTO "GridEngineFailures" VALUES (27, 'searching requested shell');
INSERT INTO "GridEngineFailures" VALUES (28, 'changing into working directory');
INSERT INTO "GridEngineFailures" VALUES (29, 'AFS setup');
INSERT INTO "GridEngineFailures" VALUES (30, 'rescheduling on application error');
INSERT INTO "GridEngineFailures" VALUES (36, 'checking configured daemons');
INSERT INTO "GridEngineFailures" VALUES (37, 'qmaster enforced h_rt limit');
INSERT INTO "GridEngineFailures" VALUES (38, 'adding supplementary group');
INSERT INTO "GridEngineFailures" VALUES (100, 'assumedly after job');
INSERT INTO "AttributeKinds" VALUES ('info');
INSERT INTO "AttributeKinds" VALUES ('rte');
INSERT INTO "AttributeKinds" VALUES ('token');
