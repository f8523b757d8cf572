-- A finished job is read from its tables: no copy of it is kept until every target has it. Which records wait for a
-- target is said by a place in the log, the last before the first copy.
UPDATE DBConfig SET KeyName = 'ARCACCT_DELIVERED',
  KeyValue = coalesce((SELECT min(Seq) - 1 FROM PackedJobs JOIN FinishedLog USING (RecordID, Seq)),
                      (SELECT max(Seq) FROM FinishedLog), 0)
 WHERE KeyName = 'ARCACCT_PACKS_AFTER';

-- Older databases are without them since 026.
DROP TRIGGER IF EXISTS PackedJobs_JobEvents_insert;
DROP TRIGGER IF EXISTS PackedJobs_JobEvents_update;
DROP TRIGGER IF EXISTS PackedJobs_JobEvents_delete;
DROP TABLE PackedJobs;
