-- Names of the field for our own tables and columns. The program then gives each object the text that a new
-- database has.
DROP VIEW IF EXISTS v1_publications;
DROP VIEW IF EXISTS SentRows;
DROP INDEX SumKeys_Month_IDX;
DROP INDEX AcceptedMonths_IDX;

ALTER TABLE Targets RENAME COLUMN Selection TO LastGoodSelection;
ALTER TABLE Targets RENAME COLUMN Walked TO FullScanSelection;
ALTER TABLE Targets RENAME COLUMN DoubtSeq TO UncertainAfterSeq;
ALTER TABLE KeyForms RENAME COLUMN FormID TO TemplateID;
ALTER TABLE KeyForms RENAME COLUMN Form TO Template;
ALTER TABLE KeyForms RENAME TO KeyTemplates;
ALTER TABLE SentRecords RENAME COLUMN FormID TO TemplateID;
ALTER TABLE SentRecords RENAME COLUMN GivenID TO PublishedTotalID;
ALTER TABLE Given RENAME COLUMN GivenID TO PublishedTotalID;
ALTER TABLE Given RENAME TO PublishedTotals;
ALTER TABLE SumKeys RENAME TO SentSummaries;
ALTER TABLE RefusedSums RENAME TO RefusedSummaries;
ALTER TABLE Months RENAME TO MonthFormats;
ALTER TABLE HeldMonths RENAME COLUMN GivenJobs TO PublishedJobs;
ALTER TABLE AcceptedMonths RENAME TO AcceptedDecreases;
ALTER TABLE OpenMonths RENAME TO UnfinishedMonths;
ALTER TABLE UnsureMonths RENAME TO UncertainMonths;

CREATE INDEX SentSummaries_Month_IDX ON SentSummaries (Target, Year, Month);
CREATE INDEX AcceptedDecreases_IDX ON AcceptedDecreases (Target, Year, Month);
