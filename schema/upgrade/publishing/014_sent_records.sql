-- A row for each record that was sent, with its JobID: no table of jobs, of hashes or of templates of keys beside it.
DROP VIEW IF EXISTS v1_publications;
DROP VIEW IF EXISTS SentRows;

ALTER TABLE Messages ADD COLUMN KeyPrefix TEXT NOT NULL DEFAULT '';
-- What a template begins with, where all keys of a message have the same one; each other key is stored whole.
CREATE TEMP TABLE Templates AS
SELECT MessageID, substr(Template, 1, instr(replace(replace(Template, char(2), char(1)), char(3), char(1)) || char(1), char(1)) - 1) AS Prefix
  FROM (SELECT Number >> 20 AS MessageID, min(TemplateID) AS TemplateID, max(TemplateID) AS Last FROM SentRecords GROUP BY 1)
  JOIN KeyTemplates USING (TemplateID) WHERE TemplateID = Last;
UPDATE Messages SET KeyPrefix = Prefix FROM Templates WHERE Templates.MessageID = Messages.MessageID;
DROP TABLE Templates;

ALTER TABLE SentRecords RENAME TO FormerRecords;
CREATE TABLE SentRecords (
  MessageID INTEGER NOT NULL, Position INTEGER NOT NULL, JobID TEXT NOT NULL, EndTime INTEGER NOT NULL,
  Digest BLOB NOT NULL, KeyRest TEXT, Notes TEXT, PublishedTotalID INTEGER, Wall INTEGER, ReplacedID INTEGER,
  ReplacedWall INTEGER, PRIMARY KEY (MessageID, Position)
) WITHOUT ROWID;
-- CROSS: in the order of the records, so that each page is written once.
INSERT INTO SentRecords
SELECT Messages.MessageID, Number & 1048575, JobID, EndTime, Record.Digest,
       nullif(substr(replace(replace(replace(Template, char(1), JobID), char(2), EndTime), char(3), KeyRest), length(KeyPrefix) + 1), JobID),
       Notes, PublishedTotalID, Wall, ReplacedID, ReplacedWall
  FROM FormerRecords AS Record CROSS JOIN Messages ON Messages.MessageID = Number >> 20
 CROSS JOIN Jobs ON Jobs.Job = Record.Job CROSS JOIN KeyTemplates ON KeyTemplates.TemplateID = Record.TemplateID
 ORDER BY Number;
DROP TABLE FormerRecords;
DROP TABLE Jobs;
DROP TABLE JobHashes;
DROP TABLE NewJobHashes;
DROP TABLE KeyTemplates;

CREATE INDEX SentRecords_Job_IDX ON SentRecords (substr(JobID, -16));
CREATE INDEX SentRecords_zeros_IDX ON SentRecords (EndTime) WHERE length(Digest) = 0;
CREATE INDEX SentRecords_zeroed_groups_IDX ON SentRecords (PublishedTotalID) WHERE length(Digest) = 0;
