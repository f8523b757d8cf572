-- A-REX's indexes that find nothing: a quarter of the database, and of what is written for a job.

-- A second one of what UNIQUE has an index of.
DROP INDEX AAR_JobID_IDX;

-- Few names for all jobs: to follow one of these is dearer than to read the table, and SQLite may prefer it to the times
-- of a question.
DROP INDEX AAR_EndpointID_IDX;
DROP INDEX AAR_QueueID_IDX;
DROP INDEX AuthTokenAttributes_AttrKey_IDX;
DROP INDEX JobEvents_EventKey_IDX;
DROP INDEX JobExtraInfo_InfoKey_IDX;
DROP INDEX RunTimeEnvironments_RTEName_IDX;

-- Of texts as they are stored: the views, which undo A-REX's escapes, cannot use it.
DROP INDEX DataTransfers_URL_IDX;
