-- From the schema of arcacct 0.2 to the one of 0.3. The program then gives each table the text that a new database has, and
-- makes the indexes, triggers and views that this one lacks or has otherwise (arcacct/database/schema.py).

DROP VIEW v1_usage_by_month;
DROP VIEW UsageCells;
DROP VIEW v1_sampled_jobs;
DROP VIEW v1_job_accelerators;
DROP VIEW v1_job_commands;
DROP VIEW v1_job_telemetry;
DROP TRIGGER RecordNotes_AAR_delete;
DROP TRIGGER ForgottenRecords_AAR_delete;
DROP INDEX IF EXISTS RecordNotes_Noted_IDX;
DROP INDEX IF EXISTS FormerVersions_Seq_IDX;
DROP INDEX IF EXISTS FormerVersions_RecordID_IDX;
DROP INDEX IF EXISTS Cells_ChangedSeq_IDX;
DROP INDEX IF EXISTS Contributions_Cell_IDX;
DROP INDEX IF EXISTS Contributions_Waiting_IDX;
DROP INDEX IF EXISTS NodeCards_UUID_IDX;
DROP INDEX IF EXISTS HTCondorJobs_GPUs_IDX;

-- A finished job is read from its tables: no copy of it is kept until every target has it. Which records wait for a
-- target is said by a place in the log, the last before the first copy.
UPDATE DBConfig SET KeyName = 'ARCACCT_DELIVERED',
  KeyValue = coalesce((SELECT min(Seq) - 1 FROM PackedJob JOIN FinishedLog USING (RecordID, Seq)),
                      (SELECT max(Seq) FROM FinishedLog), 0)
 WHERE KeyName = 'ARCACCT_PACKS_AFTER';
DROP TRIGGER PackedJob_JobEvents_insert;
DROP TRIGGER PackedJob_JobEvents_update;
DROP TRIGGER PackedJob_JobEvents_delete;
DROP TABLE PackedJob;

-- Names of the field.
ALTER TABLE FinerCells RENAME TO UsageBreakdown;
ALTER TABLE Cells RENAME TO MonthlyUsage;
ALTER TABLE CellsPosition RENAME TO UsageCursor;
ALTER TABLE Contributions RENAME TO JobUsageShares;
ALTER TABLE FormerVersions RENAME TO PreviousVersions;
ALTER TABLE RejectedRecords RENAME TO ImportQuarantine;
ALTER TABLE ImportPending RENAME TO UnfinishedImports;
ALTER TABLE RecordNotes RENAME TO TruncationNotes;
ALTER TABLE JobPoints RENAME TO JobSamples;
ALTER TABLE NodePoints RENAME TO NodeSamples;
ALTER TABLE NodeCards RENAME TO NodeGPUs;
ALTER TABLE ProducerErrors RENAME TO TelemetryErrors;
ALTER TABLE ForgottenRecords RENAME TO PseudonymisedRecords;
ALTER TABLE ForgottenMonths RENAME TO PseudonymisedMonths;

-- Telemetry by run: a batch system uses a number again, so the samples of a number are divided among its runs. Tables anew,
-- since the run is part of what is unique. What was there is divided as soon as a sample, a report or a record of its
-- number comes; numbers with several records, each of which had all samples, are listed.
ALTER TABLE JobUsage RENAME TO FormerJobUsage;
CREATE TABLE JobUsage (
  SampledJobID INTEGER NOT NULL REFERENCES SampledJobs (ID), NodeID INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour INTEGER NOT NULL, RunStart INTEGER NOT NULL, UserName TEXT NOT NULL, Samples INTEGER NOT NULL,
  FirstTime INTEGER NOT NULL, LastTime INTEGER NOT NULL, Starts INTEGER NOT NULL, CPUS INTEGER NOT NULL,
  ReadKiB INTEGER NOT NULL, WrittenKiB INTEGER NOT NULL, PeakMemory INTEGER NOT NULL, PeakVirtMem INTEGER NOT NULL,
  PeakProcesses INTEGER NOT NULL, PeakThreads INTEGER NOT NULL, CancelledKiB INTEGER NOT NULL,
  InContainer INTEGER NOT NULL, CPUAvgPercent REAL, CPUUtilPercent REAL, PeakCPUUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart)
) WITHOUT ROWID;
INSERT INTO JobUsage
  SELECT SampledJobID, NodeID, Hour, 0, UserName, Samples, FirstTime, LastTime, Starts, CPUS, ReadKiB, WrittenKiB,
         PeakMemory, PeakVirtMem, PeakProcesses, PeakThreads, CancelledKiB, InContainer, CPUAvgPercent, CPUUtilPercent,
         PeakCPUUtilPercent
    FROM FormerJobUsage;
DROP TABLE FormerJobUsage;

CREATE TABLE JobGPUUsage (
  SampledJobID INTEGER NOT NULL REFERENCES SampledJobs (ID), NodeID INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour INTEGER NOT NULL, RunStart INTEGER NOT NULL, UUID TEXT NOT NULL, Samples INTEGER NOT NULL, OccupiedS REAL NOT NULL,
  BusyS REAL NOT NULL, EnergyJ REAL, PeakMemory INTEGER NOT NULL, CardIndex INTEGER, MemoryUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart, UUID)
) WITHOUT ROWID;
INSERT INTO JobGPUUsage
  SELECT SampledJobID, NodeID, Hour, 0, UUID, Samples, OccupiedS, BusyS, EnergyJ, PeakMemory, CardIndex,
         MemoryUtilPercent
    FROM JobCardUsage;
DROP TABLE JobCardUsage;

ALTER TABLE JobCommandUsage RENAME TO FormerJobCommandUsage;
CREATE TABLE JobCommandUsage (
  SampledJobID INTEGER NOT NULL REFERENCES SampledJobs (ID), NodeID INTEGER NOT NULL REFERENCES NodeNames (ID),
  Hour INTEGER NOT NULL, RunStart INTEGER NOT NULL, Command TEXT NOT NULL, Samples INTEGER NOT NULL,
  PeakProcesses INTEGER NOT NULL, PeakMemory INTEGER NOT NULL, CPUAvgPercent REAL NOT NULL, CPUUtilPercent REAL,
  PRIMARY KEY (SampledJobID, NodeID, Hour, RunStart, Command)
) WITHOUT ROWID;
INSERT INTO JobCommandUsage
  SELECT SampledJobID, NodeID, Hour, 0, Command, Samples, PeakProcesses, PeakMemory, CPUAvgPercent, CPUUtilPercent
    FROM FormerJobCommandUsage;
DROP TABLE FormerJobCommandUsage;

CREATE TABLE TelemetryToDivide (RecordID INTEGER PRIMARY KEY);
INSERT INTO TelemetryToDivide
  SELECT RecordID FROM JobTelemetry JOIN (
      SELECT ClusterID, JobID, Task FROM JobTelemetry GROUP BY ClusterID, JobID, Task HAVING count(*) > 1
    ) USING (ClusterID, JobID, Task);

-- GPUs and energy of jobs in one table, from telemetry and from the runs of batch systems, whose texts the program parses
-- (arcacct/resources.py): of each job the number of GPUs of its last run, and sums. Energy 0 of Slurm was not measured.
CREATE TABLE JobAccelerators (
  RecordID INTEGER NOT NULL, Source TEXT NOT NULL, Place TEXT NOT NULL, GPUCount INTEGER, GPUAllocatedS REAL,
  GPUBusyS REAL, GPUEnergyJ REAL, EnergyJ INTEGER,
  PRIMARY KEY (RecordID, Source)
) WITHOUT ROWID;
INSERT INTO JobAccelerators
  SELECT RecordID, 'sonar', Clusters.Name, GPUCount, GPUAllocatedS, GPUBusyS, GPUEnergyJ, nullif(EnergyJ, 0)
    FROM JobTelemetry JOIN Clusters ON Clusters.ID = ClusterID
   WHERE coalesce(GPUCount, GPUAllocatedS, GPUBusyS, GPUEnergyJ, nullif(EnergyJ, 0)) IS NOT NULL;
ALTER TABLE JobTelemetry RENAME TO FormerJobTelemetry;
CREATE TABLE JobTelemetry (
  RecordID INTEGER PRIMARY KEY, ClusterID INTEGER NOT NULL REFERENCES Clusters (ID), JobID INTEGER NOT NULL,
  CPUModel TEXT, Samples INTEGER NOT NULL, CPUS INTEGER, PeakMemory INTEGER, ReadKiB INTEGER, WrittenKiB INTEGER,
  GPUModel TEXT, GPUOccupiedS REAL, GPUPeakMemory INTEGER, CPUSource TEXT, Task INTEGER NOT NULL DEFAULT 0
);
INSERT INTO JobTelemetry
  SELECT RecordID, ClusterID, JobID, CPUModel, Samples, CPUS, PeakMemory, ReadKiB, WrittenKiB, GPUModel, GPUOccupiedS,
         GPUPeakMemory, CPUSource, Task
    FROM FormerJobTelemetry;
DROP TABLE FormerJobTelemetry;
CREATE TEMP TABLE Granted AS
  SELECT RecordID, 'sacct' AS Source, Cluster AS Place, SubmitTime AS Time, slurm_gpus(AllocTRES) AS GPUs,
         Elapsed AS ElapsedS, slurm_energy_j(AllocTRES) AS EnergyJ
    FROM SlurmRuns WHERE instr(AllocTRES, 'gres/gpu') OR instr(AllocTRES, 'energy=')
  UNION ALL
  SELECT RecordID, 'htcondor', Schedd, EndTime, GPUs, Wall, NULL FROM HTCondorJobs WHERE GPUs > 0
  UNION ALL
  SELECT RecordID, 'gridengine', Cell, StartTimeUs,
         gridengine_gpus(coalesce(Category, ''),
           coalesce((SELECT CAST(Value AS TEXT) FROM GridEngineUsage AS Told
                      WHERE Told.RecordNo = Run.RecordNo AND UsageGroup = '' AND Name = 'resource_map'), ''),
           coalesce((SELECT CAST(Value AS TEXT) FROM GridEngineUsage AS Told
                      WHERE Told.RecordNo = Run.RecordNo AND UsageGroup = '' AND Name = 'granted_req'), ''),
           coalesce((SELECT CAST(Value AS TEXT) FROM GridEngineUsage AS Told
                      WHERE Told.RecordNo = Run.RecordNo AND UsageGroup = '' AND Name = 'gpus'), '')),
         CAST(round((EndTimeUs - StartTimeUs) / 1000000.0) AS INTEGER), NULL
    FROM GridEngineRecords AS Run
   WHERE PeTaskID IS NULL AND StartTimeUs > 0 AND EndTimeUs > StartTimeUs
     AND Failed NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 21, 26, 27, 28, 29, 36, 38)
     AND (instr(lower(Category), 'gpu') OR EXISTS (SELECT 1 FROM GridEngineUsage AS Told
           WHERE Told.RecordNo = Run.RecordNo AND UsageGroup = '' AND Name IN ('resource_map', 'granted_req', 'gpus')));
INSERT INTO JobAccelerators
  SELECT RecordID, Source, Place, nullif(CAST(GPUs AS INTEGER) + (GPUs > CAST(GPUs AS INTEGER)), 0),
         sum(CASE WHEN GPUs > 0 AND ElapsedS > 0 AND 1.0 * GPUs * ElapsedS <= 9007199254740992 THEN 1.0 * GPUs * ElapsedS END),
         NULL, NULL, sum(EnergyJ)
    FROM Granted
   WHERE (GPUs > 0 OR EnergyJ IS NOT NULL) AND RecordID IN (SELECT RecordID FROM AAR)
   GROUP BY RecordID, Source
  -- The other columns are those of the last run.
  HAVING max(Time) IS NOT NULL;
DROP TABLE Granted;

-- Records with values that cannot be true, and other records that are in no figure until an operator decides about them.
CREATE TABLE RecordHolds (
  RecordID INTEGER PRIMARY KEY, Reasons TEXT NOT NULL, Doubts TEXT NOT NULL, State TEXT NOT NULL, IsHeld INTEGER NOT NULL,
  Since INTEGER NOT NULL, Decided INTEGER, DecidedBy TEXT, NodeCount INTEGER, CPUCount INTEGER, UsedWalltime INTEGER,
  UsedCPUUserTime INTEGER, UsedCPUKernelTime INTEGER, Benchmark TEXT
);
CREATE TABLE HoldDecisions (
  RecordID INTEGER NOT NULL, Decided INTEGER NOT NULL, DecidedBy TEXT NOT NULL, State TEXT NOT NULL, Reasons TEXT NOT NULL
);
-- Records from before: which are judged already, up to which they are from before, and up to which place in the log a
-- receiver may have them, so that they stay as they are there.
INSERT INTO DBConfig
SELECT 'ARCACCT_UNJUDGED', '0 ' || coalesce(max(RecordID), 0) || ' ' || (SELECT Horizon FROM Fence) FROM AAR;

-- Runs of jobs of batch systems that have no tables of their own (PBS, LSF).
CREATE TABLE BatchRuns (
  RunNo INTEGER PRIMARY KEY, Source TEXT NOT NULL, RecordID INTEGER, Place TEXT NOT NULL, JobNumber INTEGER NOT NULL,
  Task INTEGER NOT NULL, StartTime INTEGER NOT NULL, SubmitTime INTEGER NOT NULL, EndTime INTEGER NOT NULL,
  LocalJobID TEXT NOT NULL, State TEXT NOT NULL, Wall INTEGER, CPUUser INTEGER, CPUKernel INTEGER, CPUs INTEGER, GPUs REAL,
  MaxRSS INTEGER, MaxVMSize INTEGER, ExitStatus INTEGER, ExitSignal INTEGER, NodeList TEXT NOT NULL,
  QueueName TEXT NOT NULL, UserName TEXT NOT NULL, GroupName TEXT NOT NULL, Account TEXT NOT NULL, Project TEXT NOT NULL,
  JobName TEXT NOT NULL, Phases TEXT NOT NULL DEFAULT '', CoreS INTEGER, IsFinal INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE BatchProgress (Place TEXT PRIMARY KEY, Seq INTEGER NOT NULL DEFAULT 0, AskedUntil INTEGER) WITHOUT ROWID;

-- TokenSubject NULL: the job was read before tokens were, and its record does not say whose it is by its token.
ALTER TABLE HTCondorJobs ADD COLUMN TokenSubject TEXT;
ALTER TABLE HTCondorJobs ADD COLUMN TokenIssuer TEXT NOT NULL DEFAULT '';
ALTER TABLE HTCondorJobs ADD COLUMN TokenGroups TEXT NOT NULL DEFAULT '';
ALTER TABLE HTCondorJobs ADD COLUMN TokenScopes TEXT NOT NULL DEFAULT '';
ALTER TABLE HTCondorJobs ADD COLUMN TokenID TEXT DEFAULT '';

-- Values that nobody told are told apart from 0. A-REX's tables hold 0 for such a value. Who told a value is in
-- FieldSources; of a value that nobody told it says 'unknown'. What is sent to receivers is as before.
--
-- Jobs of A-REX that completed, or had started, without any measurement: there was no .diag, or none of the job itself.
INSERT OR IGNORE INTO FieldSources (RecordID, Field, Source)
SELECT RecordID, Field, 'unknown'
  FROM AAR
  CROSS JOIN (SELECT 'wall_s' AS Field UNION ALL SELECT 'cpu_user_s' UNION ALL SELECT 'cpu_kernel_s')
 WHERE EndTime > 0
   AND (UsedWalltime, UsedCPUUserTime, UsedCPUKernelTime, UsedMemory, UsedVirtMem) = (0, 0, 0, 0, 0)
   AND (SELECT Source FROM RecordSources WHERE RecordSources.RecordID = AAR.RecordID AND Source <> 'arex') IS NULL
   AND CASE (SELECT Name FROM Status WHERE ID = StatusID)
       WHEN 'completed' THEN 1
       WHEN 'failed' THEN
         EXISTS (SELECT 1 FROM JobEvents WHERE JobEvents.RecordID = AAR.RecordID AND EventKey = 'LRMSSTART') END;

-- Jobs of sacct without CPU time (a run of more than a second with 0 was not measured), and jobs of HTCondor without CPU
-- time of all their runs.
UPDATE SlurmRuns SET CPUUs = NULL, CPUKernelUs = NULL WHERE CPUUs = 0 AND Elapsed > 1;
INSERT OR IGNORE INTO FieldSources (RecordID, Field, Source)
SELECT RecordID, Field, 'unknown'
  FROM (SELECT RecordID, 'sacct' AS Source FROM SlurmRuns WHERE CPUUs IS NULL
        UNION SELECT RecordID, 'htcondor' FROM HTCondorJobs WHERE CPUUser IS NULL)
  CROSS JOIN RecordSources USING (RecordID, Source)
  CROSS JOIN (SELECT 'cpu_user_s' AS Field UNION ALL SELECT 'cpu_kernel_s');

-- The sums count the jobs without a value. An efficiency is of jobs whose wall time and CPU time are both known: the sums
-- have the CPU time and the core seconds of the others. CoreRest is what wall time x cores lacks of the core seconds of
-- jobs whose runs had different cores. No record is logged as changed, so nothing is published again.
ALTER TABLE JobUsageShares ADD COLUMN NoWall INTEGER NOT NULL DEFAULT 0;
ALTER TABLE JobUsageShares ADD COLUMN NoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE JobUsageShares ADD COLUMN CoreUnpaired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE JobUsageShares ADD COLUMN CoreRest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE JobUsageShares ADD COLUMN CpuUnpaired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE MonthlyUsage ADD COLUMN NoWall INTEGER NOT NULL DEFAULT 0;
ALTER TABLE MonthlyUsage ADD COLUMN NoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE MonthlyUsage ADD COLUMN CoreUnpaired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE MonthlyUsage ADD COLUMN CoreRest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE MonthlyUsage ADD COLUMN CpuUnpaired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE UsageBreakdown ADD COLUMN NoWall INTEGER NOT NULL DEFAULT 0;
ALTER TABLE UsageBreakdown ADD COLUMN NoCpu INTEGER NOT NULL DEFAULT 0;
ALTER TABLE UsageBreakdown ADD COLUMN CoreUnpaired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE UsageBreakdown ADD COLUMN CoreRest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE UsageBreakdown ADD COLUMN CpuUnpaired INTEGER NOT NULL DEFAULT 0;

CREATE TEMP TABLE Unpaired AS
SELECT RecordID, CellID, MonthID, DayID, HostID, max(Field = 'wall_s') AS NoWall, max(Field = 'cpu_user_s') AS NoCpu,
       JobUsageShares.Cpu AS Cpu, min(JobUsageShares.Wall * ifnull(CPUCount, 1), 9007199254740992) AS Core
  FROM FieldSources CROSS JOIN JobUsageShares USING (RecordID) LEFT JOIN MonthlyUsage USING (CellID)
 WHERE Source = 'unknown' AND Field IN ('wall_s', 'cpu_user_s')
 GROUP BY RecordID;
UPDATE JobUsageShares SET NoWall = Job.NoWall, NoCpu = Job.NoCpu, CpuUnpaired = Job.Cpu, CoreUnpaired = Job.Core
  FROM Unpaired AS Job WHERE Job.RecordID = JobUsageShares.RecordID;
UPDATE MonthlyUsage
   SET NoWall = Part.NoWall, NoCpu = Part.NoCpu, CpuUnpaired = Part.Cpu, CoreUnpaired = Part.Core
  FROM (SELECT CellID, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu, sum(Cpu) AS Cpu, sum(Core) AS Core
          FROM Unpaired GROUP BY CellID) AS Part
 WHERE Part.CellID = MonthlyUsage.CellID;
UPDATE UsageBreakdown
   SET NoWall = Part.NoWall, NoCpu = Part.NoCpu, CpuUnpaired = Part.Cpu, CoreUnpaired = Part.Core
  FROM (SELECT FinerID, sum(NoWall) AS NoWall, sum(NoCpu) AS NoCpu, sum(Cpu) AS Cpu, sum(Core) AS Core
          FROM (SELECT MonthID AS FinerID, * FROM Unpaired UNION ALL SELECT DayID, * FROM Unpaired
                UNION ALL SELECT HostID, * FROM Unpaired)
         GROUP BY FinerID) AS Part
 WHERE Part.FinerID = UsageBreakdown.FinerID;
DROP TABLE Unpaired;
