-- Telemetry of Sonar: clusters, nodes, samples of jobs.

-- What Sonar's telemetry tells of clusters, nodes and jobs. Memory in KiB, times in UTC seconds since 1970.
--   Name: '': the producer was not told one
CREATE TABLE Clusters (
  ID   INTEGER PRIMARY KEY,
  Name TEXT NOT NULL UNIQUE
);

--   Content: its states, joined by ','
CREATE TABLE ClusterNodes (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;

--   Content: its nodes, in brackets
CREATE TABLE ClusterPartitions (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  ValidFrom INTEGER NOT NULL,
  LastSeen  INTEGER NOT NULL,
  Content   TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Name, ValidFrom)
) WITHOUT ROWID;

-- What a node was, from the first to the last time it said so; another row when something of it or its cards changed.
--   Content: digest of the rest and of the cards and packages
--   Distances: JSON: between NUMA nodes
--   TopoSVG: base64
--   TopoText: base64
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

CREATE TABLE NodeNames (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Name      TEXT NOT NULL,
  UNIQUE (ClusterID, Name)
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
CREATE INDEX NodeGPUs_UUID_IDX ON NodeGPUs (UUID);

CREATE TABLE NodeSoftware (
  NodesID INTEGER NOT NULL REFERENCES Nodes (ID),
  Key     TEXT NOT NULL,
  Name    TEXT NOT NULL,
  Version TEXT NOT NULL,
  PRIMARY KEY (NodesID, Key)
) WITHOUT ROWID;

-- What an hour needs to take in a sample that comes late or twice. Removed two weeks after the last change.
CREATE TABLE NodeSamples (
  NodeID  INTEGER NOT NULL,
  Hour    INTEGER NOT NULL,
  Written INTEGER NOT NULL,
  Points  BLOB NOT NULL,
  PRIMARY KEY (NodeID, Hour)
) WITHOUT ROWID;

-- The readings of each hour of a node, its cards and its disks; the readings themselves are not kept.
--   Hour: its first second
--   Device: '': the node; a card by UUID; disk:NAME
--   CoveredS: seconds that the samples stand for
--   Increase: of a counter; of power_w the energy in J
--   Text: of a measure that is a word, the last one
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

--   Epoch: 0: a job of the batch system
--   Task: index in an array that has one number as a whole; 0: none
--   NodeID: 0 when Epoch is 0
CREATE TABLE SampledJobs (
  ID        INTEGER PRIMARY KEY,
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  JobID     INTEGER NOT NULL,
  Epoch     INTEGER NOT NULL,
  Task      INTEGER NOT NULL,
  NodeID    INTEGER NOT NULL,
  UNIQUE (ClusterID, JobID, Epoch, Task, NodeID)
);

-- As NodeSamples.
CREATE TABLE JobSamples (
  SampledJobID INTEGER NOT NULL,
  NodeID       INTEGER NOT NULL,
  Hour         INTEGER NOT NULL,
  Written      INTEGER NOT NULL,
  Points       BLOB NOT NULL,
  PRIMARY KEY (SampledJobID, NodeID, Hour)
) WITHOUT ROWID;

-- What telemetry knows of a record of ours: of Slurm, of ARC or of Grid Engine. Its GPU time and energy are in
-- JobAccelerators.
--   CPUModel: of its nodes, joined by ';' if they differ
--   CPUS: of its processes, while they were sampled
--   PeakMemory: the largest sum over its processes on one node
--   CPUSource: of a record of Slurm: sacct, steps or samples
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
CREATE INDEX JobTelemetry_Job_IDX ON JobTelemetry (ClusterID, JobID);

--   RunStart: start of the run that holds these samples; 0: no known run, or no batch job
--   Starts: 1: a process group starts here; these reuse numbers, too
--   CPUAvgPercent: as the two below: means over the samples; NULL: not kept, or not reported
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

--   EnergyJ: NULL: the card did not report its power
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

--   Samples: in which it ran
--   PeakMemory: the largest sum over its processes
--   CPUAvgPercent: means over these samples of the sums over its processes
--   CPUUtilPercent: NULL: not reported
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

-- Records whose telemetry the next import of telemetry looks at again, beside those that FinishedLog names.
CREATE TABLE TelemetryToDivide (
  RecordID INTEGER PRIMARY KEY
);

-- What producers could not do: whoever misses telemetry looks here first.
CREATE TABLE TelemetryErrors (
  ClusterID INTEGER NOT NULL REFERENCES Clusters (ID),
  Node      TEXT NOT NULL,
  Time      INTEGER NOT NULL,
  Detail    TEXT NOT NULL,
  PRIMARY KEY (ClusterID, Node, Time, Detail)
) WITHOUT ROWID;

-- The times of a run are in its events, and a change of these alone is not logged.
CREATE TRIGGER TelemetryToDivide_JobEvents_insert AFTER INSERT ON JobEvents
WHEN new.EventKey IN ('LRMSSTART', 'LRMSEND')
 AND EXISTS (SELECT 1 FROM JobTelemetry WHERE RecordID = new.RecordID)
BEGIN
  INSERT OR IGNORE INTO TelemetryToDivide VALUES (new.RecordID);
END;
