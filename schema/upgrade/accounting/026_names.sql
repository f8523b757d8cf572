-- Names of the field for our own tables and columns. The program then gives each object the text that a new
-- database has.
DROP TRIGGER RecordNotes_AAR_delete;
DROP TRIGGER ForgottenRecords_AAR_delete;
DROP TRIGGER PackedJob_JobEvents_insert;
DROP TRIGGER PackedJob_JobEvents_update;
DROP TRIGGER PackedJob_JobEvents_delete;

DROP INDEX RecordNotes_Noted_IDX;
DROP INDEX FormerVersions_Seq_IDX;
DROP INDEX FormerVersions_RecordID_IDX;
DROP INDEX Cells_ChangedSeq_IDX;
DROP INDEX Contributions_Cell_IDX;
DROP INDEX Contributions_Waiting_IDX;
DROP INDEX NodeCards_UUID_IDX;

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
ALTER TABLE JobCardUsage RENAME TO JobGPUUsage;
ALTER TABLE ProducerErrors RENAME TO TelemetryErrors;
ALTER TABLE ForgottenRecords RENAME TO PseudonymisedRecords;
ALTER TABLE ForgottenMonths RENAME TO PseudonymisedMonths;
ALTER TABLE PackedJob RENAME TO PackedJobs;

CREATE INDEX TruncationNotes_Noted_IDX ON TruncationNotes (Noted);
CREATE INDEX PreviousVersions_Seq_IDX ON PreviousVersions (Seq);
CREATE INDEX PreviousVersions_RecordID_IDX ON PreviousVersions (RecordID);
CREATE INDEX MonthlyUsage_ChangedSeq_IDX ON MonthlyUsage (ChangedSeq, Month);
CREATE INDEX JobUsageShares_Cell_IDX ON JobUsageShares (CellID, EndTime);
CREATE INDEX JobUsageShares_Waiting_IDX ON JobUsageShares (RecordID) WHERE MonthID IS NULL;
CREATE INDEX NodeGPUs_UUID_IDX ON NodeGPUs (UUID);

-- A view of its new name comes with the texts.
DROP VIEW UsageCells;
