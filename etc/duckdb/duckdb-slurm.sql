-- The views of accounting.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../accounting.db' AS accounting (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('accounting', 'SELECT ... FROM v1_slurm_runs WHERE ...')

CREATE OR REPLACE VIEW v1_slurm_runs AS SELECT * REPLACE (
  CAST("run_no" AS BIGINT) AS "run_no",
  CAST("slurm_job_id" AS BIGINT) AS "slurm_job_id",
  CAST("submit_time" AS BIGINT) AS "submit_time",
  CAST("start_time" AS BIGINT) AS "start_time",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("elapsed_s" AS BIGINT) AS "elapsed_s",
  CAST("exit_status" AS BIGINT) AS "exit_status",
  CAST("exit_signal" AS BIGINT) AS "exit_signal",
  CAST("cpus" AS BIGINT) AS "cpus",
  CAST("nodes" AS BIGINT) AS "nodes",
  CAST("cpu_s" AS DOUBLE) AS "cpu_s",
  CAST("cpu_kernel_s" AS DOUBLE) AS "cpu_kernel_s",
  CAST("max_memory_kib" AS BIGINT) AS "max_memory_kib",
  CAST("max_virtual_memory_kib" AS BIGINT) AS "max_virtual_memory_kib",
  CAST("core_s" AS BIGINT) AS "core_s")
FROM sqlite_query('accounting', 'SELECT * FROM v1_slurm_runs');
