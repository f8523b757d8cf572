-- Other sources, archives of `db prune`, and names that were forgotten.

-- How far the import of each database that A-REX writes has come, so that the next import looks only at what is new.
--   Origin: absolute path
--   RecordID: in that file: the highest that was looked at, and its job, which tells whether the
--   JobID: file is still the same one
--   EventRow: in that file: the last row of JobEvents that was looked at, and what it said:
--   Event: whatever happens to a job adds rows to it
--   Stamp: size, times and change counter of a file that was imported to its end; '': unknown
--   Imported: when, UTC seconds
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

-- Records of such a file that were not at their end when they were looked at.
--   RecordID: in that file
CREATE TABLE UnfinishedImports (
  FileID   INTEGER NOT NULL,
  RecordID INTEGER NOT NULL,
  PRIMARY KEY (FileID, RecordID)
) WITHOUT ROWID;

-- GPUs and energy of a job, a row for each source that reports them: its batch system's accounting, and telemetry. NULL:
-- unknown.
--   Source: as in RecordSources; sonar: telemetry
--   Place: cluster, cell, schedd or server
--   GPUCount: that the batch system granted; a part of one is 1
--   GPUAllocatedS: s: GPUs, or parts of one, times wall time
--   GPUBusyS: s of GPUs in full use, by samples
--   GPUEnergyJ: J: the job's share of the energy of its GPUs, by samples
--   EnergyJ: J of its nodes, as the batch system measured it
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

-- The values of JobAccelerators that count: what telemetry reports of a batch system precedes what that itself reports
-- (of a run whose end it missed it has no GPU seconds). GPU seconds come from the wall time: where an operator decided
-- that it is not as reported, they are at most GPUs times the wall time that counts, or unknown with it.
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

-- Records of imports that could not be used, kept until they can be, or until somebody drops them.
--   Source: gridengine, sonar, arex, features
--   Scope: cell of Grid Engine; '' for others
--   File: where it was read; '-' for standard input
--   Position: line, object or number of the record in it
--   Digest: of the whole record: one that is met again is the same row
--   IsOurs: 1: an error of this program, not of the record
--   Records: 1, or how many further ones of the file were only counted (Content is NULL then)
--   Rejected: s since 1970: met first
--   Bytes: of the whole record; of one that is too long Content has the beginning
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

-- Where pruned jobs went. An import looks there before it takes over a job that ended before then: a pruned job is
-- counted and published already, and must not come back.
--   EndedBefore: UTC seconds: no job in it ended at this time or later
--   Pruned: when, UTC seconds
CREATE TABLE Archives (
  Path        TEXT PRIMARY KEY,
  EndedBefore INTEGER NOT NULL,
  Jobs        INTEGER NOT NULL,
  Pruned      INTEGER NOT NULL
);

-- The months with such records (of their end, in UTC): their sums have other keys than those that receivers have, so
-- they are not sent any more.
--   Month: 202611
CREATE TABLE PseudonymisedMonths (
  Month INTEGER PRIMARY KEY
);

-- Records in which the names of users were replaced by pseudonyms. They are at their receivers as they were, and stay
-- there: such a record is never sent again, and no import gives it its names back.
CREATE TABLE PseudonymisedRecords (
  RecordID INTEGER PRIMARY KEY
);

CREATE TRIGGER PseudonymisedRecords_AAR_delete AFTER DELETE ON AAR
BEGIN
  DELETE FROM PseudonymisedRecords WHERE RecordID = old.RecordID;
END;
