-- The accounting database as arcacct makes it (schema 35), for later programs.
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
CREATE TABLE Archives (
  Path        TEXT PRIMARY KEY,
  EndedBefore INTEGER NOT NULL,
  Jobs        INTEGER NOT NULL,
  Pruned      INTEGER NOT NULL
);
CREATE TABLE AttributeKinds (
  Kind TEXT PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO "AttributeKinds" VALUES('info');
INSERT INTO "AttributeKinds" VALUES('rte');
INSERT INTO "AttributeKinds" VALUES('token');
CREATE TABLE AuthGroups (
  RecordID INTEGER PRIMARY KEY,
  Names    TEXT NOT NULL
);
CREATE TABLE AuthTokenAttributes (
  RecordID  INTEGER NOT NULL,
  AttrKey   TEXT NOT NULL,
  AttrValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE BatchProgress (
  Place      TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0,
  AskedUntil INTEGER
) WITHOUT ROWID;
CREATE TABLE BatchRuns (
  RunNo      INTEGER PRIMARY KEY,
  Source     TEXT NOT NULL,
  RecordID   INTEGER,
  Place      TEXT NOT NULL,
  JobNumber  INTEGER NOT NULL,
  Task       INTEGER NOT NULL,
  StartTime  INTEGER NOT NULL,
  SubmitTime INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  LocalJobID TEXT NOT NULL,
  State      TEXT NOT NULL,
  Wall       INTEGER,
  CPUUser    INTEGER,
  CPUKernel  INTEGER,
  CPUs       INTEGER,
  GPUs       REAL,
  MaxRSS     INTEGER,
  MaxVMSize  INTEGER,
  ExitStatus INTEGER,
  ExitSignal INTEGER,
  NodeList   TEXT NOT NULL,
  QueueName  TEXT NOT NULL,
  UserName   TEXT NOT NULL,
  GroupName  TEXT NOT NULL,
  Account    TEXT NOT NULL,
  Project    TEXT NOT NULL,
  JobName    TEXT NOT NULL,
  Phases     TEXT NOT NULL DEFAULT '',
  CoreS      INTEGER,
  IsFinal    INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE ClusterNodes (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;
CREATE TABLE ClusterPartitions (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;
CREATE TABLE Clusters (
  ID   INTEGER PRIMARY KEY,
  Name TEXT NOT NULL UNIQUE
);
CREATE TABLE DBConfig (
  KeyName  TEXT PRIMARY KEY,
  KeyValue TEXT NOT NULL
);
INSERT INTO "DBConfig" VALUES('DBSCHEMA_VERSION','1');
CREATE TABLE DataTransfers (
  RecordID      INTEGER NOT NULL,
  URL           TEXT NOT NULL,
  FileSize      INTEGER NOT NULL,
  TransferStart INTEGER NOT NULL,
  TransferEnd   INTEGER NOT NULL,
  TransferType  INTEGER NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE Endpoints (
  ID        INTEGER PRIMARY KEY AUTOINCREMENT,
  Interface TEXT NOT NULL,
  URL       TEXT NOT NULL
);
CREATE TABLE Fence (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Horizon INTEGER NOT NULL,
  Passed  INTEGER NOT NULL
);
INSERT INTO "Fence" VALUES(1,0,0);
CREATE TABLE FieldSources (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,
  Source   TEXT NOT NULL,
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;
CREATE TABLE FinishedLog (
  Seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  RecordID INTEGER NOT NULL UNIQUE
);
CREATE TABLE GridEngineFailures (
  Failed  INTEGER PRIMARY KEY,
  Meaning TEXT NOT NULL
);
INSERT INTO "GridEngineFailures" VALUES(0,'no failure');
INSERT INTO "GridEngineFailures" VALUES(1,'assumedly before job');
INSERT INTO "GridEngineFailures" VALUES(2,'shepherd');
INSERT INTO "GridEngineFailures" VALUES(3,'before writing config');
INSERT INTO "GridEngineFailures" VALUES(4,'before writing pid');
INSERT INTO "GridEngineFailures" VALUES(5,'on reading config');
INSERT INTO "GridEngineFailures" VALUES(6,'setting processor set');
INSERT INTO "GridEngineFailures" VALUES(7,'before prolog');
INSERT INTO "GridEngineFailures" VALUES(8,'in prolog');
INSERT INTO "GridEngineFailures" VALUES(9,'before pestart');
INSERT INTO "GridEngineFailures" VALUES(10,'in pestart');
INSERT INTO "GridEngineFailures" VALUES(11,'before job');
INSERT INTO "GridEngineFailures" VALUES(12,'before pestop');
INSERT INTO "GridEngineFailures" VALUES(13,'in pestop');
INSERT INTO "GridEngineFailures" VALUES(14,'before epilog');
INSERT INTO "GridEngineFailures" VALUES(15,'in epilog');
INSERT INTO "GridEngineFailures" VALUES(16,'releasing processor set');
INSERT INTO "GridEngineFailures" VALUES(17,'through signal');
INSERT INTO "GridEngineFailures" VALUES(18,'shepherd returned error');
INSERT INTO "GridEngineFailures" VALUES(19,'before writing exit_status');
INSERT INTO "GridEngineFailures" VALUES(20,'found unexpected error file');
INSERT INTO "GridEngineFailures" VALUES(21,'in recognizing job');
INSERT INTO "GridEngineFailures" VALUES(22,'removed manually');
INSERT INTO "GridEngineFailures" VALUES(23,'on getting PTF pids');
INSERT INTO "GridEngineFailures" VALUES(24,'migrating');
INSERT INTO "GridEngineFailures" VALUES(25,'rescheduling');
INSERT INTO "GridEngineFailures" VALUES(26,'opening input/output file');
INSERT INTO "GridEngineFailures" VALUES(27,'searching requested shell');
INSERT INTO "GridEngineFailures" VALUES(28,'changing into working directory');
INSERT INTO "GridEngineFailures" VALUES(29,'AFS setup');
INSERT INTO "GridEngineFailures" VALUES(30,'rescheduling on application error');
INSERT INTO "GridEngineFailures" VALUES(36,'checking configured daemons');
INSERT INTO "GridEngineFailures" VALUES(37,'qmaster enforced h_rt limit');
INSERT INTO "GridEngineFailures" VALUES(38,'adding supplementary group');
INSERT INTO "GridEngineFailures" VALUES(100,'assumedly after job');
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
CREATE TABLE GridEngineProgress (
  Cell TEXT PRIMARY KEY,
  Seq  INTEGER NOT NULL
) WITHOUT ROWID;
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
CREATE TABLE GridEngineUsage (
  RecordNo   INTEGER NOT NULL REFERENCES GridEngineRecords (RecordNo),
  UsageGroup TEXT NOT NULL,
  Name       TEXT NOT NULL,
  Value      NOT NULL,
  PRIMARY KEY (RecordNo, UsageGroup, Name)
) WITHOUT ROWID;
CREATE TABLE HTCondorJobs (
  JobNo        INTEGER PRIMARY KEY,
  RecordID     INTEGER,
  Schedd       TEXT NOT NULL,
  Cluster      INTEGER NOT NULL,
  Proc         INTEGER NOT NULL,
  Queued       INTEGER NOT NULL,
  SubmitTime   INTEGER NOT NULL,
  JobStatus    INTEGER NOT NULL,
  StartTime    INTEGER NOT NULL,
  LastStart    INTEGER,
  EndTime      INTEGER NOT NULL,
  Wall         INTEGER NOT NULL,
  Starts       INTEGER,
  CPUs         INTEGER NOT NULL,
  GPUs         INTEGER,
  CPUUser      INTEGER,
  CPUKernel    INTEGER,
  MaxRSS       INTEGER,
  MaxVMSize    INTEGER,
  MemoryMiB    INTEGER,
  ExitStatus   INTEGER,
  ExitSignal   INTEGER,
  Hosts        TEXT NOT NULL,
  UserName     TEXT NOT NULL,
  Account      TEXT NOT NULL,
  Project      TEXT NOT NULL,
  JobName      TEXT NOT NULL,
  QueueName    TEXT NOT NULL,
  UserDN       TEXT NOT NULL,
  VO           TEXT NOT NULL,
  FQAN         TEXT NOT NULL,
  Benchmark    TEXT NOT NULL,
  TokenSubject TEXT,
  TokenIssuer  TEXT NOT NULL DEFAULT '',
  TokenGroups  TEXT NOT NULL DEFAULT '',
  TokenScopes  TEXT NOT NULL DEFAULT '',
  TokenID      TEXT DEFAULT ''
);
CREATE TABLE HTCondorProgress (
  Schedd     TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0,
  AskedUntil INTEGER
) WITHOUT ROWID;
CREATE TABLE HoldDecisions (
  RecordID  INTEGER NOT NULL,
  Decided   INTEGER NOT NULL,
  DecidedBy TEXT NOT NULL,
  State     TEXT NOT NULL,
  Reasons   TEXT NOT NULL
);
CREATE TABLE ImportQuarantine (
  RejectedID INTEGER PRIMARY KEY,
  Source     TEXT NOT NULL,
  Scope      TEXT NOT NULL,
  File       TEXT NOT NULL,
  Position   TEXT NOT NULL,
  Digest     BLOB NOT NULL,
  Reason     TEXT NOT NULL,
  IsOurs     INTEGER NOT NULL,
  Records    INTEGER NOT NULL,
  Rejected   INTEGER NOT NULL,
  Bytes      INTEGER NOT NULL,
  Content    BLOB,
  UNIQUE (Source, Scope, Digest)
);
CREATE TABLE ImportedFiles (
  FileID   INTEGER PRIMARY KEY,
  Origin   TEXT NOT NULL UNIQUE,
  RecordID INTEGER NOT NULL,
  JobID    TEXT NOT NULL,
  EventRow INTEGER NOT NULL,
  Event    TEXT NOT NULL,
  Stamp    TEXT NOT NULL,
  Imported INTEGER NOT NULL
);
CREATE TABLE JobAccelerators (
  RecordID      INTEGER NOT NULL,
  Source        TEXT NOT NULL,
  Place         TEXT NOT NULL,
  GPUCount      INTEGER,
  GPUAllocatedS REAL,
  GPUBusyS      REAL,
  GPUEnergyJ    REAL,
  EnergyJ       INTEGER,
  PRIMARY KEY (RecordID, Source)
) WITHOUT ROWID;
CREATE TABLE JobCommandUsage (
  SampledJobID   INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID         INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour           INTEGER NOT NULL,
  RunStart       INTEGER NOT NULL,
  Command        TEXT NOT NULL,
  Samples        INTEGER NOT NULL,
  PeakProcesses  INTEGER NOT NULL,
  PeakMemory     INTEGER NOT NULL,
  CPUAvgPercent  REAL NOT NULL,
  CPUUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart, Command)
) WITHOUT ROWID;
CREATE TABLE JobEvents (
  RecordID  INTEGER NOT NULL,
  EventKey  TEXT NOT NULL,
  EventTime TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE JobExtraInfo (
  RecordID  INTEGER NOT NULL,
  InfoKey   TEXT NOT NULL,
  InfoValue TEXT,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE JobGPUUsage (
  SampledJobID      INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID            INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour              INTEGER NOT NULL,
  RunStart          INTEGER NOT NULL,
  UUID              TEXT NOT NULL,
  Samples           INTEGER NOT NULL,
  OccupiedS         REAL NOT NULL,
  BusyS             REAL NOT NULL,
  EnergyJ           REAL,
  PeakMemory        INTEGER NOT NULL,
  CardIndex         INTEGER,
  MemoryUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart, UUID)
) WITHOUT ROWID;
CREATE TABLE JobSamples (
  SampledJobID INTEGER NOT NULL,
  NodeID       INTEGER NOT NULL,
  Hour         INTEGER NOT NULL,
  Written      INTEGER NOT NULL,
  Points       BLOB NOT NULL,
  PRIMARY KEY (SampledJobID, NodeID, Hour)
) WITHOUT ROWID;
CREATE TABLE JobTelemetry (
  RecordID      INTEGER PRIMARY KEY,
  ClusterID     INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID         INTEGER NOT NULL,
  CPUModel      TEXT,
  Samples       INTEGER NOT NULL,
  CPUS          INTEGER,
  PeakMemory    INTEGER,
  ReadKiB       INTEGER,
  WrittenKiB    INTEGER,
  GPUModel      TEXT,
  GPUOccupiedS  REAL,
  GPUPeakMemory INTEGER,
  CPUSource     TEXT,
  Task          INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE JobUsage (
  SampledJobID       INTEGER NOT NULL REFERENCES SampledJobs (ID),
  NodeID             INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour               INTEGER NOT NULL,
  RunStart           INTEGER NOT NULL,
  UserName           TEXT NOT NULL,
  Samples            INTEGER NOT NULL,
  FirstTime          INTEGER NOT NULL,
  LastTime           INTEGER NOT NULL,
  Starts             INTEGER NOT NULL,
  CPUS               INTEGER NOT NULL,
  ReadKiB            INTEGER NOT NULL,
  WrittenKiB         INTEGER NOT NULL,
  PeakMemory         INTEGER NOT NULL,
  PeakVirtMem        INTEGER NOT NULL,
  PeakProcesses      INTEGER NOT NULL,
  PeakThreads        INTEGER NOT NULL,
  CancelledKiB       INTEGER NOT NULL,
  InContainer        INTEGER NOT NULL,
  CPUAvgPercent      REAL,
  CPUUtilPercent     REAL,
  PeakCPUUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart)
) WITHOUT ROWID;
CREATE TABLE JobUsageShares (
  RecordID     INTEGER PRIMARY KEY,
  CellID       INTEGER NOT NULL,
  EndTime      INTEGER NOT NULL,
  Wall         INTEGER NOT NULL,
  Cpu          INTEGER NOT NULL,
  MonthID      INTEGER,
  DayID        INTEGER,
  HostID       INTEGER,
  StageIn      INTEGER,
  StageOut     INTEGER,
  NoWall       INTEGER NOT NULL DEFAULT 0,
  NoCpu        INTEGER NOT NULL DEFAULT 0,
  CoreUnpaired INTEGER NOT NULL DEFAULT 0,
  CoreRest     INTEGER NOT NULL DEFAULT 0,
  CpuUnpaired  INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE MonthlyUsage (
  CellID       INTEGER PRIMARY KEY,
  Month        INTEGER NOT NULL,
  UserID       INTEGER NOT NULL,
  VOID         INTEGER NOT NULL,
  FQAN         TEXT NOT NULL,
  EndpointID   INTEGER NOT NULL,
  NodeCount    INTEGER NOT NULL,
  CPUCount     INTEGER NOT NULL,
  Benchmark    TEXT NOT NULL,
  AuthGroups   TEXT NOT NULL,
  Jobs         INTEGER NOT NULL DEFAULT 0,
  Wall         INTEGER NOT NULL DEFAULT 0,
  Cpu          INTEGER NOT NULL DEFAULT 0,
  Earliest     INTEGER,
  Latest       INTEGER,
  ChangedSeq   INTEGER NOT NULL,
  NoWall       INTEGER NOT NULL DEFAULT 0,
  NoCpu        INTEGER NOT NULL DEFAULT 0,
  CoreUnpaired INTEGER NOT NULL DEFAULT 0,
  CoreRest     INTEGER NOT NULL DEFAULT 0,
  CpuUnpaired  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups)
);
CREATE TABLE NodeGPUs (
  NodesID           INTEGER NOT NULL REFERENCES Nodes (ID),
  CardIndex         INTEGER NOT NULL,
  UUID              TEXT NOT NULL,
  Address           TEXT NOT NULL,
  Manufacturer      TEXT NOT NULL,
  Model             TEXT NOT NULL,
  Architecture      TEXT NOT NULL,
  Driver            TEXT NOT NULL,
  Firmware          TEXT NOT NULL,
  Memory            INTEGER NOT NULL,
  PowerLimitW       INTEGER NOT NULL,
  MaxPowerLimitW    INTEGER NOT NULL,
  MinPowerLimitW    INTEGER NOT NULL,
  MaxCEClockMHz     INTEGER NOT NULL,
  MaxMemoryClockMHz INTEGER NOT NULL,
  PRIMARY KEY (NodesID, CardIndex, UUID)
) WITHOUT ROWID;
CREATE TABLE NodeNames (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  UNIQUE (ClusterID, Name)
);
CREATE TABLE NodeSamples (
  NodeID  INTEGER NOT NULL,
  Hour    INTEGER NOT NULL,
  Written INTEGER NOT NULL,
  Points  BLOB NOT NULL,
  PRIMARY KEY (NodeID, Hour)
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
  Hour     INTEGER NOT NULL,
  Device   TEXT NOT NULL,
  Measure  TEXT NOT NULL,
  Samples  INTEGER NOT NULL,
  CoveredS REAL NOT NULL,
  Mean     REAL,
  Low      REAL,
  High     REAL,
  Increase REAL,
  Text     TEXT,
  PRIMARY KEY (NodeID, Hour, Device, Measure)
) WITHOUT ROWID;
CREATE TABLE Nodes (
  ID             INTEGER PRIMARY KEY,
  NodeID         INTEGER NOT NULL REFERENCES NodeNames (ID),
  ValidFrom      INTEGER NOT NULL,
  LastSeen       INTEGER NOT NULL,
  Content        TEXT NOT NULL,
  OSName         TEXT NOT NULL,
  OSRelease      TEXT NOT NULL,
  NumaNodes      INTEGER NOT NULL,
  Sockets        INTEGER NOT NULL,
  CoresPerSocket INTEGER NOT NULL,
  ThreadsPerCore INTEGER NOT NULL,
  CPUModel       TEXT NOT NULL,
  Architecture   TEXT NOT NULL,
  Memory         INTEGER NOT NULL,
  Distances      TEXT NOT NULL,
  TopoSVG        TEXT NOT NULL,
  TopoText       TEXT NOT NULL,
  UNIQUE (NodeID, ValidFrom)
);
CREATE TABLE PreviousVersions (
  Seq        INTEGER NOT NULL,
  RecordID   INTEGER NOT NULL,
  JobID      TEXT NOT NULL,
  LocalJobID TEXT,
  VOID       INTEGER NOT NULL,
  EndpointID INTEGER NOT NULL,
  EndTime    INTEGER NOT NULL,
  Wall       INTEGER NOT NULL,
  Cpu        INTEGER NOT NULL
);
CREATE TABLE PseudonymisedMonths (
  Month INTEGER PRIMARY KEY
);
CREATE TABLE PseudonymisedRecords (
  RecordID INTEGER PRIMARY KEY
);
CREATE TABLE Queues (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE TABLE RecordCount (
  ID      INTEGER PRIMARY KEY CHECK (ID = 1),
  Records INTEGER NOT NULL
);
INSERT INTO "RecordCount" VALUES(1,0);
CREATE TABLE RecordHolds (
  RecordID          INTEGER PRIMARY KEY,
  Reasons           TEXT NOT NULL,
  Doubts            TEXT NOT NULL,
  State             TEXT NOT NULL,
  IsHeld            INTEGER NOT NULL,
  Since             INTEGER NOT NULL,
  Decided           INTEGER,
  DecidedBy         TEXT,
  NodeCount         INTEGER,
  CPUCount          INTEGER,
  UsedWalltime      INTEGER,
  UsedCPUUserTime   INTEGER,
  UsedCPUKernelTime INTEGER,
  Benchmark         TEXT
);
CREATE TABLE RecordSources (
  RecordID INTEGER PRIMARY KEY,
  Source   TEXT NOT NULL,
  Origin   TEXT NOT NULL
);
CREATE TABLE RunTimeEnvironments (
  RecordID INTEGER NOT NULL,
  RTEName  TEXT NOT NULL,
  FOREIGN KEY (RecordID) REFERENCES AAR (RecordID)
);
CREATE TABLE SampledJobs (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID     INTEGER NOT NULL,
  Epoch     INTEGER NOT NULL,
  Task      INTEGER NOT NULL,
  NodeID    INTEGER NOT NULL,
  UNIQUE (ClusterID, JobID, Epoch, Task, NodeID)
);
CREATE TABLE SlurmJobs (
  ClusterID              INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID                  INTEGER NOT NULL,
  JobStep                TEXT NOT NULL,
  Run                    INTEGER NOT NULL,
  JobName                TEXT,
  JobState               TEXT,
  ArrayJobID             INTEGER,
  ArrayTaskID            INTEGER,
  HetJobID               INTEGER,
  HetJobOffset           INTEGER,
  UserName               TEXT,
  Account                TEXT,
  SubmitTime             INTEGER,
  TimeLimitS             INTEGER,
  Partition              TEXT,
  Reservation            TEXT,
  Nodes                  TEXT,
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
  MinCPUS                INTEGER,
  AllocTRES              TEXT,
  AveCPUS                INTEGER,
  AveDiskRead            INTEGER,
  AveDiskWrite           INTEGER,
  AveRSS                 INTEGER,
  AveVMSize              INTEGER,
  ElapsedRawS            INTEGER,
  SystemCPUS             INTEGER,
  UserCPUS               INTEGER,
  MaxRSS                 INTEGER,
  MaxVMSize              INTEGER,
  FieldTimes             TEXT NOT NULL,
  PRIMARY KEY (ClusterID, JobID, JobStep, Run)
) WITHOUT ROWID;
CREATE TABLE SlurmProgress (
  Cluster    TEXT PRIMARY KEY,
  Seq        INTEGER NOT NULL DEFAULT 0,
  AskedUntil INTEGER
) WITHOUT ROWID;
CREATE TABLE SlurmRuns (
  RunNo       INTEGER PRIMARY KEY,
  RecordID    INTEGER,
  Cluster     TEXT NOT NULL,
  JobID       INTEGER NOT NULL,
  SubmitTime  INTEGER NOT NULL,
  ShownID     TEXT NOT NULL,
  State       TEXT NOT NULL,
  StartTime   INTEGER NOT NULL,
  EndTime     INTEGER NOT NULL,
  Elapsed     INTEGER NOT NULL,
  ExitStatus  INTEGER,
  ExitSignal  INTEGER,
  CPUs        INTEGER NOT NULL,
  Nodes       INTEGER,
  NodeList    TEXT NOT NULL,
  QPartition  TEXT NOT NULL,
  UserName    TEXT NOT NULL,
  GroupName   TEXT NOT NULL,
  Account     TEXT NOT NULL,
  QOS         TEXT NOT NULL,
  WCKey       TEXT NOT NULL,
  JobName     TEXT NOT NULL,
  AllocTRES   TEXT NOT NULL,
  CPUUs       INTEGER,
  CPUKernelUs INTEGER,
  MaxRSS      INTEGER,
  MaxVMSize   INTEGER
);
CREATE TABLE Status (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
INSERT INTO "Status" VALUES(1,'in-progress');
INSERT INTO "Status" VALUES(2,'completed');
INSERT INTO "Status" VALUES(3,'failed');
INSERT INTO "Status" VALUES(4,'aborted');
CREATE TABLE StatusFiles (
  RecordID INTEGER PRIMARY KEY,
  State    TEXT NOT NULL,
  EventNs  INTEGER NOT NULL,
  Size     INTEGER,
  MTimeNs  INTEGER,
  CTimeNs  INTEGER
);
CREATE TABLE TelemetryErrors (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Node      TEXT NOT NULL,
  Time      INTEGER NOT NULL,
  Detail    TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Node, Time, Detail)
) WITHOUT ROWID;
CREATE TABLE TelemetryToDivide (
  RecordID INTEGER PRIMARY KEY
);
CREATE TABLE TruncationNotes (
  RecordID INTEGER NOT NULL,
  Field    TEXT NOT NULL,
  Note     TEXT NOT NULL,
  Noted    INTEGER NOT NULL,
  PRIMARY KEY (RecordID, Field)
) WITHOUT ROWID;
CREATE TABLE UnfinishedImports (
  FileID   INTEGER NOT NULL,
  RecordID INTEGER NOT NULL,
  PRIMARY KEY (FileID, RecordID)
) WITHOUT ROWID;
CREATE TABLE UsageBreakdown (
  FinerID      INTEGER PRIMARY KEY,
  Kind         INTEGER NOT NULL,
  Period       INTEGER NOT NULL,
  UserID       INTEGER NOT NULL,
  VOID         INTEGER NOT NULL,
  FQAN         TEXT NOT NULL,
  EndpointID   INTEGER NOT NULL,
  QueueID      INTEGER NOT NULL,
  StatusID     INTEGER NOT NULL,
  Project      TEXT NOT NULL,
  Host         TEXT NOT NULL,
  CPUCount     INTEGER NOT NULL,
  Benchmark    TEXT NOT NULL,
  Jobs         INTEGER NOT NULL DEFAULT 0,
  Wall         INTEGER NOT NULL DEFAULT 0,
  Cpu          INTEGER NOT NULL DEFAULT 0,
  StageIn      INTEGER NOT NULL DEFAULT 0,
  StageOut     INTEGER NOT NULL DEFAULT 0,
  NoWall       INTEGER NOT NULL DEFAULT 0,
  NoCpu        INTEGER NOT NULL DEFAULT 0,
  CoreUnpaired INTEGER NOT NULL DEFAULT 0,
  CoreRest     INTEGER NOT NULL DEFAULT 0,
  CpuUnpaired  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (Kind, Period, UserID, VOID, FQAN, EndpointID, QueueID, StatusID, Project, Host, CPUCount, Benchmark)
);
CREATE TABLE UsageCursor (
  ID  INTEGER PRIMARY KEY CHECK (ID = 1),
  Seq INTEGER NOT NULL
);
INSERT INTO "UsageCursor" VALUES(1,0);
CREATE TABLE Users (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE TABLE WLCGVOs (
  ID   INTEGER PRIMARY KEY AUTOINCREMENT,
  Name TEXT NOT NULL UNIQUE
);
CREATE INDEX AAR_LocalJobID_IDX ON AAR (LocalJobID);
CREATE INDEX AAR_UserID_IDX ON AAR (UserID);
CREATE INDEX AAR_StatusID_IDX ON AAR (StatusID);
CREATE INDEX AAR_SubmitTime_IDX ON AAR (SubmitTime);
CREATE INDEX AAR_EndTime_IDX ON AAR (EndTime);
CREATE INDEX AAR_EndTimeOrNull_IDX ON AAR (CAST(nullif(EndTime, 0) AS INTEGER));
CREATE INDEX AAR_SubmitTimeOrNull_IDX ON AAR (CAST(nullif(SubmitTime, 0) AS INTEGER));
CREATE INDEX AAR_LocalJobIDOrNull_IDX ON AAR (CAST(nullif(LocalJobID, '') AS TEXT));
CREATE TRIGGER AAR_RecordID_fixed BEFORE UPDATE OF RecordID ON AAR
WHEN new.RecordID <> old.RecordID
BEGIN
  SELECT RAISE(ABORT, 'RecordID is the identity of a record: it cannot change');
END;
CREATE INDEX Endpoints_Interface_IDX ON Endpoints (Interface);
CREATE TRIGGER Endpoints_append_only BEFORE UPDATE ON Endpoints
WHEN (new.ID, new.Interface, new.URL) IS NOT (old.ID, old.Interface, old.URL)
BEGIN
  SELECT RAISE(ABORT, 'Endpoints is append-only: insert the new endpoint and update AAR');
END;
CREATE UNIQUE INDEX Queues_Name_IDX ON Queues (Name);
CREATE TRIGGER Queues_append_only BEFORE UPDATE ON Queues
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Queues is append-only: insert the new name and update AAR');
END;
CREATE UNIQUE INDEX Users_Name_IDX ON Users (Name);
CREATE INDEX Users_PlainName_IDX ON Users (
  CAST(nullif(replace(replace(replace(replace(replace(replace(replace(replace(Name, '%27', ''''), '%23', '#'),
         '%0D', "char"(13)), '%0d', "char"(13)), '%0A', "char"(10)), '%0a', "char"(10)), '%08', "char"(8)), '%25', '%'),
         '') AS TEXT));
CREATE TRIGGER Users_append_only BEFORE UPDATE ON Users
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Users is append-only: insert the new name and update AAR');
END;
CREATE UNIQUE INDEX WLCGVOs_Name_IDX ON WLCGVOs (Name);
CREATE TRIGGER WLCGVOs_append_only BEFORE UPDATE ON WLCGVOs
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'WLCGVOs is append-only: insert the new name and update AAR');
END;
CREATE UNIQUE INDEX Status_Name_IDX ON Status (Name);
CREATE TRIGGER Status_append_only BEFORE UPDATE ON Status
WHEN new.Name <> old.Name OR new.ID <> old.ID
BEGIN
  SELECT RAISE(ABORT, 'Status is append-only: insert the new name and update AAR');
END;
CREATE INDEX AuthTokenAttributes_RecordID_IDX ON AuthTokenAttributes (RecordID);
CREATE INDEX JobEvents_RecordID_IDX ON JobEvents (RecordID);
CREATE INDEX RunTimeEnvironments_RecordID_IDX ON RunTimeEnvironments (RecordID);
CREATE INDEX DataTransfers_RecordID_IDX ON DataTransfers (RecordID);
CREATE INDEX JobExtraInfo_RecordID_IDX ON JobExtraInfo (RecordID);
CREATE INDEX FieldSources_Unknown_IDX ON FieldSources (RecordID) WHERE Source = 'unknown';
CREATE TRIGGER FieldSources_unknown_insert AFTER INSERT ON FieldSources
WHEN new.Source = 'unknown'
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID AND Seq <= (SELECT Seq FROM UsageCursor))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FieldSources_unknown_update AFTER UPDATE ON FieldSources
WHEN (old.Source = 'unknown') <> (new.Source = 'unknown')
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID AND Seq <= (SELECT Seq FROM UsageCursor))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FieldSources_unknown_delete AFTER DELETE ON FieldSources
WHEN old.Source = 'unknown'
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID AND Seq <= (SELECT Seq FROM UsageCursor))
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE INDEX TruncationNotes_Noted_IDX ON TruncationNotes (Noted);
CREATE TRIGGER RecordHolds_insert BEFORE INSERT ON RecordHolds
WHEN new.State <> 'published' AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = new.RecordID)
BEGIN
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, AAR.RecordID, JobID, LocalJobID, Used.VOID, Used.EndpointID, Used.EndTime, Wall, Cpu
    FROM sqlite_sequence JOIN RecordUsage AS Used ON Used.RecordID = new.RecordID
    JOIN AAR ON AAR.RecordID = Used.RecordID
   WHERE name = 'FinishedLog';
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER RecordHolds_update BEFORE UPDATE ON RecordHolds
WHEN (old.IsHeld, old.NodeCount, old.CPUCount, old.UsedWalltime, old.UsedCPUUserTime, old.UsedCPUKernelTime, old.Benchmark)
 IS NOT
     (new.IsHeld, new.NodeCount, new.CPUCount, new.UsedWalltime, new.UsedCPUUserTime, new.UsedCPUKernelTime, new.Benchmark)
 AND (old.IsHeld, new.IsHeld) <> (1, 1)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, AAR.RecordID, JobID, LocalJobID, Used.VOID, Used.EndpointID, Used.EndTime, Wall, Cpu
    FROM sqlite_sequence JOIN RecordUsage AS Used ON Used.RecordID = old.RecordID
    JOIN AAR ON AAR.RecordID = Used.RecordID
   WHERE name = 'FinishedLog';
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE TRIGGER RecordHolds_delete BEFORE DELETE ON RecordHolds
WHEN old.State <> 'published' AND EXISTS (SELECT 1 FROM AAR WHERE RecordID = old.RecordID)
 AND EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, AAR.RecordID, JobID, LocalJobID, Used.VOID, Used.EndpointID, Used.EndTime, Wall, Cpu
    FROM sqlite_sequence JOIN RecordUsage AS Used ON Used.RecordID = old.RecordID
    JOIN AAR ON AAR.RecordID = Used.RecordID
   WHERE name = 'FinishedLog';
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
END;
CREATE INDEX HoldDecisions_RecordID_IDX ON HoldDecisions (RecordID);
CREATE VIEW AccountedAAR AS
SELECT AAR.RecordID, JobID, LocalJobID, EndpointID, QueueID, UserID, VOID, StatusID, ExitCode, SubmitTime, EndTime,
       CASE WHEN Hold.NodeCount IS NULL THEN AAR.NodeCount ELSE max(Hold.NodeCount, 1) END AS NodeCount,
       CASE WHEN Hold.CPUCount IS NULL THEN AAR.CPUCount ELSE max(Hold.CPUCount, 1) END AS CPUCount,
       UsedMemory, UsedVirtMem,
       CASE WHEN Hold.UsedWalltime IS NULL THEN AAR.UsedWalltime ELSE max(Hold.UsedWalltime, 0) END AS UsedWalltime,
       CASE WHEN Hold.UsedCPUUserTime IS NULL THEN AAR.UsedCPUUserTime ELSE max(Hold.UsedCPUUserTime, 0) END AS UsedCPUUserTime,
       CASE WHEN Hold.UsedCPUKernelTime IS NULL THEN AAR.UsedCPUKernelTime ELSE max(Hold.UsedCPUKernelTime, 0) END AS UsedCPUKernelTime,
       UsedScratch, StageInVolume, StageOutVolume, Hold.Benchmark AS HoldBenchmark,
       EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
                AND Field = 'wall_s' AND Source = 'unknown') OR Hold.UsedWalltime IS -1 AS NoWall,
       EXISTS (SELECT 1 FROM FieldSources WHERE FieldSources.RecordID = AAR.RecordID
                AND Field = 'cpu_user_s' AND Source = 'unknown') OR Hold.UsedCPUUserTime IS -1 AS NoCpu,
       CASE WHEN Hold.CPUCount IS NULL AND Hold.UsedWalltime IS NULL
            THEN coalesce((SELECT CAST(InfoValue AS INTEGER) - AAR.UsedWalltime * AAR.CPUCount FROM JobExtraInfo AS Extra
                            WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'coreseconds' LIMIT 1), 0)
            ELSE 0 END AS CoreRest
  FROM AAR
  LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = AAR.RecordID
 WHERE ifnull(Hold.IsHeld, 0) = 0;
CREATE VIEW RecordUsage AS
SELECT AAR.RecordID,
       CAST(strftime('%Y%m', EndTime, 'unixepoch') AS INTEGER) AS Month,
       UserID, VOID,
       coalesce((SELECT AttrValue FROM AuthTokenAttributes AS Token
                  WHERE Token.RecordID = AAR.RecordID AND +AttrKey IN ('mainfqan', 'vomsfqan')
                  ORDER BY +AttrKey, Token.rowid LIMIT 1), '') AS FQAN,
       EndpointID, NodeCount, CPUCount,
       coalesce(HoldBenchmark,
                (SELECT InfoValue FROM JobExtraInfo AS Extra
                  WHERE Extra.RecordID = AAR.RecordID AND +InfoKey = 'benchmark'
                  ORDER BY Extra.rowid LIMIT 1), '') AS Benchmark,
       coalesce((SELECT Names FROM AuthGroups WHERE AuthGroups.RecordID = AAR.RecordID), '') AS AuthGroups,
       EndTime,
       CASE WHEN UsedWalltime BETWEEN 0 AND 9007199254740992 THEN UsedWalltime ELSE 0 END AS Wall,
       CASE WHEN UsedCPUUserTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUUserTime ELSE 0 END
       + CASE WHEN UsedCPUKernelTime BETWEEN 0 AND 9007199254740992 THEN UsedCPUKernelTime ELSE 0 END AS Cpu,
       NoWall, NoCpu, CoreRest
  FROM AccountedAAR AS AAR
  JOIN Status ON Status.ID = +StatusID
 WHERE CASE WHEN Status.Name IN ('completed', 'failed') THEN EndTime > 0
            WHEN Status.Name = 'aborted'
            THEN EndTime > 0 AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime) <> (0, 0, 0) END;
CREATE TRIGGER RecordCount_insert AFTER INSERT ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records + 1;
END;
CREATE TRIGGER RecordCount_delete AFTER DELETE ON AAR
BEGIN
  UPDATE RecordCount SET Records = Records - 1;
END;
CREATE TRIGGER TruncationNotes_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM TruncationNotes WHERE RecordID = old.RecordID;
END;
CREATE TRIGGER AuthGroups_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM AuthGroups WHERE RecordID = old.RecordID;
END;
CREATE TRIGGER RecordHolds_AAR_delete AFTER DELETE ON AAR
WHEN NOT EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  DELETE FROM RecordHolds WHERE RecordID = old.RecordID;
  DELETE FROM HoldDecisions WHERE RecordID = old.RecordID;
END;
CREATE INDEX PreviousVersions_Seq_IDX ON PreviousVersions (Seq);
CREATE INDEX PreviousVersions_RecordID_IDX ON PreviousVersions (RecordID);
CREATE TRIGGER FinishedLog_AAR_insert AFTER INSERT ON AAR
WHEN (SELECT Name FROM Status WHERE ID = new.StatusID) IN ('completed', 'failed', 'aborted')
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
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
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, old.RecordID, old.JobID, old.LocalJobID, old.VOID, old.EndpointID, old.EndTime,
         CASE WHEN coalesce(Hold.UsedWalltime, old.UsedWalltime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedWalltime, old.UsedWalltime) ELSE 0 END,
         CASE WHEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) ELSE 0 END
         + CASE WHEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) BETWEEN 0 AND 9007199254740992
                THEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) ELSE 0 END
    FROM sqlite_sequence LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = old.RecordID
   WHERE name = 'FinishedLog' AND old.EndTime > 0 AND ifnull(Hold.IsHeld, 0) = 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'))
     AND (old.StatusID, old.EndTime, old.LocalJobID, old.UserID, old.VOID, old.EndpointID, old.NodeCount, old.CPUCount,
          old.UsedWalltime, old.UsedCPUUserTime, old.UsedCPUKernelTime, old.JobID)
      IS NOT
         (new.StatusID, new.EndTime, new.LocalJobID, new.UserID, new.VOID, new.EndpointID, new.NodeCount, new.CPUCount,
          new.UsedWalltime, new.UsedCPUUserTime, new.UsedCPUKernelTime, new.JobID);
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (new.RecordID);
END;
CREATE TRIGGER FinishedLog_AAR_delete AFTER DELETE ON AAR
WHEN EXISTS (SELECT 1 FROM FinishedLog WHERE RecordID = old.RecordID)
BEGIN
  INSERT INTO PreviousVersions (Seq, RecordID, JobID, LocalJobID, VOID, EndpointID, EndTime, Wall, Cpu)
  SELECT seq + 1, old.RecordID, old.JobID, old.LocalJobID, old.VOID, old.EndpointID, old.EndTime,
         CASE WHEN coalesce(Hold.UsedWalltime, old.UsedWalltime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedWalltime, old.UsedWalltime) ELSE 0 END,
         CASE WHEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) BETWEEN 0 AND 9007199254740992
              THEN coalesce(Hold.UsedCPUUserTime, old.UsedCPUUserTime) ELSE 0 END
         + CASE WHEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) BETWEEN 0 AND 9007199254740992
                THEN coalesce(Hold.UsedCPUKernelTime, old.UsedCPUKernelTime) ELSE 0 END
    FROM sqlite_sequence LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = old.RecordID
   WHERE name = 'FinishedLog' AND old.EndTime > 0 AND ifnull(Hold.IsHeld, 0) = 0
     AND EXISTS (SELECT 1 FROM Status WHERE ID = old.StatusID AND Name IN ('completed', 'failed', 'aborted'));
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) VALUES (old.RecordID);
  DELETE FROM RecordHolds WHERE RecordID = old.RecordID;
  DELETE FROM HoldDecisions WHERE RecordID = old.RecordID;
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
CREATE TRIGGER FinishedLog_AuthTokenAttributes_update AFTER UPDATE ON AuthTokenAttributes
WHEN (old.rowid, old.RecordID, old.AttrKey, old.AttrValue)
 IS NOT (new.rowid, new.RecordID, new.AttrKey, new.AttrValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
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
CREATE TRIGGER FinishedLog_RunTimeEnvironments_update AFTER UPDATE ON RunTimeEnvironments
WHEN (old.rowid, old.RecordID, old.RTEName)
 IS NOT (new.rowid, new.RecordID, new.RTEName)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
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
CREATE TRIGGER FinishedLog_DataTransfers_update AFTER UPDATE ON DataTransfers
WHEN (old.rowid, old.RecordID, old.URL, old.FileSize, old.TransferStart, old.TransferEnd, old.TransferType)
 IS NOT (new.rowid, new.RecordID, new.URL, new.FileSize, new.TransferStart, new.TransferEnd, new.TransferType)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
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
CREATE TRIGGER FinishedLog_JobExtraInfo_update AFTER UPDATE ON JobExtraInfo
WHEN (old.rowid, old.RecordID, old.InfoKey, old.InfoValue)
 IS NOT (new.rowid, new.RecordID, new.InfoKey, new.InfoValue)
BEGIN
  DELETE FROM FinishedLog WHERE RecordID = old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT old.RecordID WHERE changes() > 0;
  DELETE FROM FinishedLog WHERE RecordID = new.RecordID AND new.RecordID <> old.RecordID;
  INSERT INTO FinishedLog (RecordID) SELECT new.RecordID WHERE changes() > 0;
END;
CREATE INDEX MonthlyUsage_ChangedSeq_IDX ON MonthlyUsage (ChangedSeq, Month);
CREATE INDEX JobUsageShares_Cell_IDX ON JobUsageShares (CellID, EndTime);
CREATE INDEX JobUsageShares_Waiting_IDX ON JobUsageShares (RecordID) WHERE MonthID IS NULL;
CREATE VIEW CurrentUsage AS
WITH Tail AS (SELECT RecordID FROM FinishedLog WHERE Seq > (SELECT Seq FROM UsageCursor)),
     Touched AS (SELECT CellID FROM Tail CROSS JOIN JobUsageShares USING (RecordID)),
     Changed AS (
       SELECT CellID FROM Touched
       UNION
       SELECT CellID FROM Tail CROSS JOIN RecordUsage USING (RecordID)
         JOIN MonthlyUsage USING (Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups))
SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, NoWall,
       NoCpu, CoreRest, CpuUnpaired, CoreUnpaired, Earliest, Latest
  FROM MonthlyUsage WHERE Jobs > 0 AND CellID NOT IN Changed
UNION ALL
SELECT * FROM (
  SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
         sum(Jobs) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu,
         sum(CoreRest) AS CoreRest, sum(CpuUnpaired) AS CpuUnpaired, sum(CoreUnpaired) AS CoreUnpaired,
         min(Earliest) AS Earliest, max(Latest) AS Latest
    FROM (
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, Jobs, Wall, Cpu, NoWall,
             NoCpu, CoreRest, CpuUnpaired, CoreUnpaired, Earliest, Latest
        FROM MonthlyUsage WHERE Jobs > 0 AND CellID IN Changed AND CellID NOT IN Touched
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups,
             MonthlyUsage.Jobs - Gone.Jobs, MonthlyUsage.Wall - Gone.Wall, MonthlyUsage.Cpu - Gone.Cpu,
             MonthlyUsage.NoWall - Gone.NoWall, MonthlyUsage.NoCpu - Gone.NoCpu,
             MonthlyUsage.CoreRest - Gone.CoreRest, MonthlyUsage.CpuUnpaired - Gone.CpuUnpaired,
             MonthlyUsage.CoreUnpaired - Gone.CoreUnpaired,
             (SELECT min(EndTime) FROM JobUsageShares WHERE CellID = MonthlyUsage.CellID AND RecordID NOT IN Tail),
             (SELECT max(EndTime) FROM JobUsageShares WHERE CellID = MonthlyUsage.CellID AND RecordID NOT IN Tail)
        FROM (SELECT CellID, count(*) AS Jobs, sum(Wall) AS Wall, sum(Cpu) AS Cpu, sum(NoWall) AS NoWall,
                     sum(NoCpu) AS NoCpu, sum(CoreRest) AS CoreRest, sum(CpuUnpaired) AS CpuUnpaired,
                     sum(CoreUnpaired) AS CoreUnpaired
                FROM Tail CROSS JOIN JobUsageShares USING (RecordID) GROUP BY CellID) AS Gone
        CROSS JOIN MonthlyUsage USING (CellID)
       WHERE MonthlyUsage.Jobs > Gone.Jobs
      UNION ALL
      SELECT Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups, 1, Wall, Cpu, NoWall, NoCpu,
             CoreRest, CASE WHEN NoWall OR NoCpu THEN Cpu ELSE 0 END,
             CASE WHEN NoWall OR NoCpu THEN min(Wall * CPUCount + CoreRest, 9007199254740992) ELSE 0 END, EndTime, EndTime
        FROM Tail CROSS JOIN RecordUsage USING (RecordID)
    )
   GROUP BY Month, UserID, VOID, FQAN, EndpointID, NodeCount, CPUCount, Benchmark, AuthGroups
);
CREATE VIEW KnownAccelerators AS
SELECT Own.RecordID, Own.Source, Own.Place,
       CASE WHEN Better.GPUCount IS NULL THEN Own.GPUCount END AS GPUCount,
       CASE WHEN Better.GPUCount IS NULL OR (Better.GPUCount > 0 AND Better.GPUAllocatedS IS NULL) THEN
            CASE WHEN Hold.UsedWalltime IS NULL THEN Own.GPUAllocatedS
                 WHEN Hold.UsedWalltime >= 0 THEN min(Own.GPUAllocatedS, Own.GPUCount * Hold.UsedWalltime) END
            END AS GPUAllocatedS,
       Own.GPUBusyS, Own.GPUEnergyJ,
       CASE WHEN Better.EnergyJ IS NULL THEN Own.EnergyJ END AS EnergyJ
  FROM JobAccelerators AS Own LEFT JOIN JobAccelerators AS Better
    ON Better.RecordID = Own.RecordID AND Better.Source = 'sonar' AND Own.Source <> 'sonar'
  LEFT JOIN RecordHolds AS Hold ON Hold.RecordID = Own.RecordID;
CREATE TRIGGER PseudonymisedRecords_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM PseudonymisedRecords WHERE RecordID = old.RecordID;
END;
CREATE UNIQUE INDEX GridEngineRecords_Key_IDX ON GridEngineRecords (
  JobNumber, TaskNumber, coalesce(PeTaskID, ''), SubmissionTimeUs, StartTimeUs, EndTimeUs, Failed, ExitStatus,
  coalesce(QName, ''), coalesce(Hostname, ''), Cell
);
CREATE INDEX GridEngineRecords_RecordID_IDX ON GridEngineRecords (RecordID);
CREATE INDEX GridEngineRecords_StartTime_IDX ON GridEngineRecords (StartTimeUs);
CREATE INDEX GridEngineRecords_EndTime_IDX ON GridEngineRecords (EndTimeUs);
CREATE INDEX GridEngineRecords_Waiting_IDX ON GridEngineRecords (JobNumber, TaskNumber, Cell)
  WHERE RecordID IS NULL AND StartTimeUs > 0 AND PeTaskID IS NULL;
CREATE INDEX SlurmJobs_Array_IDX ON SlurmJobs (ArrayJobID, ArrayTaskID) WHERE ArrayJobID IS NOT NULL;
CREATE UNIQUE INDEX SlurmRuns_Key_IDX ON SlurmRuns (JobID, Cluster, SubmitTime);
CREATE INDEX SlurmRuns_RecordID_IDX ON SlurmRuns (RecordID);
CREATE INDEX SlurmRuns_EndTime_IDX ON SlurmRuns (EndTime);
CREATE INDEX SlurmRuns_Waiting_IDX ON SlurmRuns (Cluster, JobID) WHERE RecordID IS NULL;
CREATE UNIQUE INDEX HTCondorJobs_Key_IDX ON HTCondorJobs (Cluster, Proc, Schedd, Queued);
CREATE INDEX HTCondorJobs_RecordID_IDX ON HTCondorJobs (RecordID);
CREATE INDEX HTCondorJobs_EndTime_IDX ON HTCondorJobs (EndTime);
CREATE INDEX HTCondorJobs_Waiting_IDX ON HTCondorJobs (Schedd, Cluster, Proc) WHERE RecordID IS NULL;
CREATE UNIQUE INDEX BatchRuns_Key_IDX ON BatchRuns (JobNumber, Task, Place, StartTime, Source);
CREATE INDEX BatchRuns_RecordID_IDX ON BatchRuns (RecordID);
CREATE INDEX BatchRuns_EndTime_IDX ON BatchRuns (EndTime);
CREATE INDEX BatchRuns_Waiting_IDX ON BatchRuns (Place, JobNumber, Task) WHERE RecordID IS NULL;
CREATE INDEX NodeGPUs_UUID_IDX ON NodeGPUs (UUID);
CREATE INDEX JobTelemetry_Job_IDX ON JobTelemetry (ClusterID, JobID);
CREATE TRIGGER TelemetryToDivide_JobEvents_insert AFTER INSERT ON JobEvents
WHEN new.EventKey IN ('LRMSSTART', 'LRMSEND')
 AND EXISTS (SELECT 1 FROM JobTelemetry WHERE RecordID = new.RecordID)
BEGIN
  INSERT OR IGNORE INTO TelemetryToDivide VALUES (new.RecordID);
END;
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
CREATE VIEW v1_job_events AS
SELECT
  AAR.JobID AS job_id,
  JobEvents.EventKey AS event,
  CAST(strftime('%s', JobEvents.EventTime) AS INTEGER) AS event_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', JobEvents.EventTime) AS TEXT) AS event_time_iso
FROM JobEvents JOIN AAR ON AAR.RecordID = JobEvents.RecordID;
CREATE VIEW v1_record_notes AS
SELECT
  JobID AS job_id,
  Field AS field,
  Note AS note,
  Noted AS noted_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Noted, 'unixepoch') AS TEXT) AS noted_time_iso
FROM TruncationNotes
JOIN AAR USING (RecordID);
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
CREATE VIEW v1_slurm_jobs AS
SELECT
  Clusters.Name AS cluster,
  JobID AS job_id,
  CAST(nullif(JobStep, '') AS TEXT) AS job_step,
  JobName AS job_name,
  JobState AS state,
  ArrayJobID AS array_job_id,
  ArrayTaskID AS array_task_id,
  HetJobID AS het_job_id,
  HetJobOffset AS het_job_offset,
  UserName AS user_name,
  Account AS account,
  SubmitTime AS submit_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', SubmitTime, 'unixepoch') AS TEXT) AS submit_time_iso,
  StartTime AS start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', StartTime, 'unixepoch') AS TEXT) AS start_time_iso,
  EndTime AS end_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', EndTime, 'unixepoch') AS TEXT) AS end_time_iso,
  SuspendTimeS AS suspended_s,
  ElapsedRawS AS elapsed_s,
  ExitCode AS exit_code,
  CAST(CASE WHEN TimeLimitS >= 0 THEN TimeLimitS END AS INTEGER) AS time_limit_s,
  CAST(coalesce(TimeLimitS = -1, 0) AS INTEGER) AS is_unlimited,
  CAST(CASE WHEN Priority >= 0 THEN Priority END AS INTEGER) AS priority,
  Partition AS partition,
  Reservation AS reservation,
  Nodes AS nodes,
  Distribution AS distribution,
  GresDetail AS gres_detail,
  RequestedCPUs AS requested_cores,
  MinimumCPUsPerNode AS minimum_cores_per_node,
  RequestedMemoryPerNode AS requested_memory_kib,
  RequestedNodeCount AS requested_nodes,
  RequestedResources AS requested_tres,
  CAST(coalesce(AllocTRES, AllocatedResources) AS TEXT) AS allocated_tres,
  UserCPUS AS user_cpu_s,
  SystemCPUS AS system_cpu_s,
  AveCPUS AS average_cpu_s,
  MinCPUS AS minimum_cpu_s,
  AveRSS AS average_memory_kib,
  MaxRSS AS maximum_memory_kib,
  AveVMSize AS average_virtual_memory_kib,
  MaxVMSize AS maximum_virtual_memory_kib,
  AveDiskRead AS average_read_kib,
  AveDiskWrite AS average_written_kib
FROM SlurmJobs JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_cluster_nodes AS
SELECT
  Clusters.Name AS cluster,
  ClusterNodes.Name AS node,
  Content AS states,
  ValidFrom AS valid_from,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso,
  CAST((SELECT min(ValidFrom) FROM ClusterNodes AS Later WHERE Later.ClusterID = ClusterNodes.ClusterID
      AND Later.Name = ClusterNodes.Name AND Later.ValidFrom > ClusterNodes.ValidFrom) AS INTEGER) AS valid_until,
  LastSeen AS last_seen
FROM ClusterNodes JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_cluster_partitions AS
SELECT
  Clusters.Name AS cluster,
  ClusterPartitions.Name AS partition,
  Content AS nodes,
  ValidFrom AS valid_from,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso,
  CAST((SELECT min(ValidFrom) FROM ClusterPartitions AS Later WHERE Later.ClusterID = ClusterPartitions.ClusterID
      AND Later.Name = ClusterPartitions.Name AND Later.ValidFrom > ClusterPartitions.ValidFrom) AS INTEGER) AS valid_until,
  LastSeen AS last_seen
FROM ClusterPartitions JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_nodes AS
SELECT
  Nodes.ID AS hardware_id,
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  ValidFrom AS valid_from,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', ValidFrom, 'unixepoch') AS TEXT) AS valid_from_iso,
  CAST((SELECT min(ValidFrom) FROM Nodes AS Later WHERE Later.NodeID = Nodes.NodeID
      AND Later.ValidFrom > Nodes.ValidFrom) AS INTEGER) AS valid_until,
  LastSeen AS last_seen,
  OSName AS os_name,
  OSRelease AS os_release,
  Architecture AS architecture,
  CPUModel AS cpu_model,
  Sockets AS sockets,
  CoresPerSocket AS cores_per_socket,
  ThreadsPerCore AS threads_per_core,
  CAST(Sockets * CoresPerSocket * ThreadsPerCore AS INTEGER) AS logical_cores,
  NumaNodes AS numa_nodes,
  Distances AS numa_distances,
  Memory AS memory_kib,
  TopoSVG AS topology_svg_base64,
  TopoText AS topology_text_base64
FROM Nodes JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_node_cards AS
SELECT
  NodesID AS hardware_id,
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  ValidFrom AS valid_from,
  CardIndex AS card_index,
  UUID AS uuid,
  Address AS address,
  Manufacturer AS manufacturer,
  Model AS model,
  NodeGPUs.Architecture AS architecture,
  Driver AS driver,
  Firmware AS firmware,
  NodeGPUs.Memory AS memory_kib,
  PowerLimitW AS power_limit_w,
  MaxPowerLimitW AS max_power_limit_w,
  MinPowerLimitW AS min_power_limit_w,
  MaxCEClockMHz AS max_ce_clock_mhz,
  MaxMemoryClockMHz AS max_memory_clock_mhz
FROM NodeGPUs JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_node_software AS
SELECT
  NodesID AS hardware_id,
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  ValidFrom AS valid_from,
  Key AS key,
  NodeSoftware.Name AS name,
  Version AS version
FROM NodeSoftware JOIN Nodes ON Nodes.ID = NodesID JOIN NodeNames ON NodeNames.ID = NodeID
JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_node_usage AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  Hour AS hour,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Hour, 'unixepoch') AS TEXT) AS hour_iso,
  CAST(nullif(Device, '') AS TEXT) AS device,
  Measure AS measure,
  Samples AS samples,
  CoveredS AS covered_s,
  Mean AS mean,
  Low AS low,
  High AS high,
  Increase AS increase,
  Text AS text
FROM NodeUsage JOIN NodeNames ON NodeNames.ID = NodeID JOIN Clusters ON Clusters.ID = ClusterID;
CREATE VIEW v1_sampled_jobs AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  SampledJobs.JobID AS job_id,
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch,
  CAST(max(UserName) AS TEXT) AS user_name,
  CAST(min(FirstTime) AS INTEGER) AS first_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', min(FirstTime), 'unixepoch') AS TEXT) AS first_time_iso,
  CAST(max(LastTime) AS INTEGER) AS last_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', max(LastTime), 'unixepoch') AS TEXT) AS last_time_iso,
  CAST(sum(Samples) AS INTEGER) AS samples,
  CAST(sum(CPUS) AS INTEGER) AS cpu_s,
  CAST(max(PeakMemory) AS INTEGER) AS peak_memory_kib,
  CAST(max(PeakVirtMem) AS INTEGER) AS peak_virtual_memory_kib,
  CAST(max(PeakProcesses) AS INTEGER) AS peak_processes,
  CAST(max(PeakThreads) AS INTEGER) AS peak_threads,
  CAST(sum(ReadKiB) AS INTEGER) AS read_kib,
  CAST(sum(WrittenKiB) AS INTEGER) AS written_kib,
  CAST(max(CancelledKiB) AS INTEGER) AS cancelled_kib,
  CAST(max(InContainer) AS INTEGER) AS is_in_container,
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id,
  CAST(sum(CPUAvgPercent * Samples) / sum(CASE WHEN CPUAvgPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_avg_percent,
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent,
  CAST(max(PeakCPUUtilPercent) AS REAL) AS peak_cpu_util_percent,
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso
FROM (
  SELECT *, CASE (SELECT Epoch FROM SampledJobs WHERE SampledJobs.ID = SampledJobID) WHEN 0 THEN 0 ELSE
         sum(Starts) OVER (PARTITION BY SampledJobID, NodeID ORDER BY Hour) END AS Part
    FROM JobUsage
) AS JobUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobUsage.NodeID, Part, RunStart;
CREATE VIEW v1_job_telemetry AS
SELECT
  JobValues.job_id AS job_id,
  Clusters.Name AS cluster,
  JobTelemetry.JobID AS lrms_job_id,
  CPUModel AS cpu_model,
  Samples AS samples,
  CAST(CASE WHEN counted THEN CPUS END AS INTEGER) AS sampled_cpu_s,
  CAST(CASE WHEN counted THEN PeakMemory END AS INTEGER) AS peak_memory_kib,
  CAST(CASE WHEN counted THEN ReadKiB END AS INTEGER) AS read_kib,
  CAST(CASE WHEN counted THEN WrittenKiB END AS INTEGER) AS written_kib,
  CAST(GPUCount AS INTEGER) AS gpu_count,
  CAST(CASE WHEN counted THEN GPUAllocatedS END AS INTEGER) AS gpu_allocated_s,
  GPUModel AS gpu_model,
  CAST(CASE WHEN counted THEN GPUOccupiedS END AS REAL) AS gpu_occupied_s,
  CAST(CASE WHEN counted THEN GPUBusyS END AS REAL) AS gpu_busy_s,
  CAST(CASE WHEN counted THEN GPUPeakMemory END AS INTEGER) AS gpu_peak_memory_kib,
  CAST(CASE WHEN counted THEN GPUEnergyJ END AS REAL) AS gpu_energy_j,
  CAST(CASE WHEN counted THEN EnergyJ END AS INTEGER) AS energy_j,
  CPUSource AS cpu_source,
  counted
FROM JobTelemetry
JOIN JobValues ON JobValues.record_id = JobTelemetry.RecordID
JOIN Clusters ON Clusters.ID = ClusterID
LEFT JOIN JobAccelerators ON JobAccelerators.RecordID = JobTelemetry.RecordID AND JobAccelerators.Source = 'sonar';
CREATE VIEW v1_job_accelerators AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  SampledJobs.JobID AS job_id,
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch,
  JobGPUUsage.UUID AS uuid,
  (SELECT Model FROM NodeGPUs WHERE NodeGPUs.UUID = JobGPUUsage.UUID
    ORDER BY NodesID DESC LIMIT 1) AS model,
  CAST(sum(Samples) AS INTEGER) AS samples,
  CAST(sum(OccupiedS) AS REAL) AS occupied_s,
  CAST(sum(BusyS) AS REAL) AS busy_s,
  CAST(sum(EnergyJ) AS REAL) AS energy_j,
  CAST(max(JobGPUUsage.PeakMemory) AS INTEGER) AS peak_memory_kib,
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id,
  CAST(max(CardIndex) AS INTEGER) AS card_index,
  CAST(sum(MemoryUtilPercent * Samples) / sum(CASE WHEN MemoryUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS memory_util_percent,
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso
FROM JobGPUUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobGPUUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobGPUUsage.NodeID, JobGPUUsage.UUID, RunStart;
CREATE VIEW v1_job_commands AS
SELECT
  Clusters.Name AS cluster,
  NodeNames.Name AS node,
  SampledJobs.JobID AS job_id,
  CAST(nullif(Task, 0) AS INTEGER) AS array_task_id,
  CAST(nullif(Epoch, 0) AS INTEGER) AS epoch,
  Command AS command,
  CAST(sum(Samples) AS INTEGER) AS samples,
  CAST(max(PeakProcesses) AS INTEGER) AS peak_processes,
  CAST(max(JobCommandUsage.PeakMemory) AS INTEGER) AS peak_memory_kib,
  CAST(sum(CPUAvgPercent * Samples) / sum(Samples) AS REAL) AS cpu_avg_percent,
  CAST(sum(CPUUtilPercent * Samples) / sum(CASE WHEN CPUUtilPercent IS NOT NULL THEN Samples END) AS REAL) AS cpu_util_percent,
  CAST(nullif(RunStart, 0) AS INTEGER) AS run_start_time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', nullif(RunStart, 0), 'unixepoch') AS TEXT) AS run_start_time_iso
FROM JobCommandUsage
JOIN SampledJobs ON SampledJobs.ID = SampledJobID
JOIN NodeNames ON NodeNames.ID = JobCommandUsage.NodeID
JOIN Clusters ON Clusters.ID = SampledJobs.ClusterID
GROUP BY SampledJobID, JobCommandUsage.NodeID, Command, RunStart;
CREATE VIEW v1_producer_errors AS
SELECT
  Clusters.Name AS cluster,
  CAST(nullif(Node, '') AS TEXT) AS node,
  Time AS time,
  CAST(strftime('%Y-%m-%dT%H:%M:%SZ', Time, 'unixepoch') AS TEXT) AS time_iso,
  Detail AS detail
FROM TelemetryErrors JOIN Clusters ON Clusters.ID = ClusterID;
