-- The views of accounting.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../accounting.db' AS accounting (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('accounting', 'SELECT ... FROM v1_htcondor_jobs WHERE ...')

CREATE OR REPLACE VIEW v1_htcondor_jobs AS SELECT * REPLACE (
  CAST("job_no" AS BIGINT) AS "job_no",
  CAST("submit_time" AS BIGINT) AS "submit_time",
  CAST("start_time" AS BIGINT) AS "start_time",
  CAST("last_start_time" AS BIGINT) AS "last_start_time",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("wall_s" AS BIGINT) AS "wall_s",
  CAST("starts" AS BIGINT) AS "starts",
  CAST("cpus" AS BIGINT) AS "cpus",
  CAST("gpus" AS BIGINT) AS "gpus",
  CAST("cpu_user_s" AS BIGINT) AS "cpu_user_s",
  CAST("cpu_kernel_s" AS BIGINT) AS "cpu_kernel_s",
  CAST("max_memory_kib" AS BIGINT) AS "max_memory_kib",
  CAST("max_virtual_memory_kib" AS BIGINT) AS "max_virtual_memory_kib",
  CAST("memory_mib" AS BIGINT) AS "memory_mib",
  CAST("exit_status" AS BIGINT) AS "exit_status",
  CAST("exit_signal" AS BIGINT) AS "exit_signal",
  CAST("core_s" AS BIGINT) AS "core_s")
FROM sqlite_query('accounting', 'SELECT * FROM v1_htcondor_jobs');
