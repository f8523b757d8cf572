-- The views of accounting.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../accounting.db' AS accounting (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('accounting', 'SELECT ... FROM v1_batch_runs WHERE ...')

CREATE OR REPLACE VIEW v1_batch_runs AS SELECT * REPLACE (
  CAST("run_no" AS BIGINT) AS "run_no",
  CAST("job_number" AS BIGINT) AS "job_number",
  CAST("array_index" AS BIGINT) AS "array_index",
  CAST("submit_time" AS BIGINT) AS "submit_time",
  CAST("start_time" AS BIGINT) AS "start_time",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("wall_s" AS BIGINT) AS "wall_s",
  CAST("cpu_user_s" AS BIGINT) AS "cpu_user_s",
  CAST("cpu_kernel_s" AS BIGINT) AS "cpu_kernel_s",
  CAST("cpus" AS BIGINT) AS "cpus",
  CAST("gpus" AS DOUBLE) AS "gpus",
  CAST("max_memory_kib" AS BIGINT) AS "max_memory_kib",
  CAST("max_virtual_memory_kib" AS BIGINT) AS "max_virtual_memory_kib",
  CAST("exit_status" AS BIGINT) AS "exit_status",
  CAST("exit_signal" AS BIGINT) AS "exit_signal",
  CAST("core_s" AS BIGINT) AS "core_s",
  CAST("is_final" AS BIGINT) AS "is_final")
FROM sqlite_query('accounting', 'SELECT * FROM v1_batch_runs');
