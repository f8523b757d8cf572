-- The views of publishing.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../publishing.db' AS publishing (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('publishing', 'SELECT ... FROM v1_publications WHERE ...')

CREATE OR REPLACE VIEW v1_publications AS SELECT * REPLACE (
  CAST("message_id" AS BIGINT) AS "message_id",
  CAST("created_time" AS BIGINT) AS "created_time",
  CAST("answered_time" AS BIGINT) AS "answered_time",
  CAST("attempts" AS BIGINT) AS "attempts",
  CAST("answer_code" AS BIGINT) AS "answer_code",
  CAST("record_count" AS BIGINT) AS "record_count",
  CAST("message_bytes" AS BIGINT) AS "message_bytes",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("is_neutralised" AS BIGINT) AS "is_neutralised")
FROM sqlite_query('publishing', 'SELECT * FROM v1_publications');

CREATE OR REPLACE VIEW v1_quarantine AS SELECT * REPLACE (
  CAST("attempts" AS BIGINT) AS "attempts",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("since_time" AS BIGINT) AS "since_time",
  CAST("next_try_time" AS BIGINT) AS "next_try_time",
  CAST("refusals" AS BIGINT) AS "refusals")
FROM sqlite_query('publishing', 'SELECT * FROM v1_quarantine');
