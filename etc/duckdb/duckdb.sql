-- The views of accounting.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../accounting.db' AS accounting (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('accounting', 'SELECT ... FROM v1_jobs WHERE ...')

CREATE OR REPLACE VIEW v1_jobs AS SELECT * REPLACE (
  CAST("exit_code" AS BIGINT) AS "exit_code",
  CAST("submit_time" AS BIGINT) AS "submit_time",
  CAST("lrms_submit_time" AS BIGINT) AS "lrms_submit_time",
  CAST("lrms_start_time" AS BIGINT) AS "lrms_start_time",
  CAST("lrms_end_time" AS BIGINT) AS "lrms_end_time",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("node_count" AS BIGINT) AS "node_count",
  CAST("core_count" AS BIGINT) AS "core_count",
  CAST("wall_s" AS BIGINT) AS "wall_s",
  CAST("cpu_s" AS BIGINT) AS "cpu_s",
  CAST("cpu_user_s" AS BIGINT) AS "cpu_user_s",
  CAST("cpu_kernel_s" AS BIGINT) AS "cpu_kernel_s",
  CAST("memory_kib" AS BIGINT) AS "memory_kib",
  CAST("virtual_memory_kib" AS BIGINT) AS "virtual_memory_kib",
  CAST("scratch_bytes" AS BIGINT) AS "scratch_bytes",
  CAST("stage_in_bytes" AS BIGINT) AS "stage_in_bytes",
  CAST("stage_in_s" AS BIGINT) AS "stage_in_s",
  CAST("stage_out_bytes" AS BIGINT) AS "stage_out_bytes",
  CAST("stage_out_s" AS BIGINT) AS "stage_out_s",
  CAST("benchmark_value" AS DOUBLE) AS "benchmark_value",
  CAST("counted" AS BIGINT) AS "counted",
  CAST("core_s" AS BIGINT) AS "core_s",
  CAST("allocated_gpus" AS BIGINT) AS "allocated_gpus",
  CAST("allocated_gpu_s" AS DOUBLE) AS "allocated_gpu_s",
  CAST("busy_gpu_s" AS DOUBLE) AS "busy_gpu_s",
  CAST("gpus_energy_j" AS DOUBLE) AS "gpus_energy_j",
  CAST("nodes_energy_j" AS BIGINT) AS "nodes_energy_j")
FROM sqlite_query('accounting', 'SELECT * FROM v1_jobs');

CREATE OR REPLACE VIEW v1_usage_by_month AS SELECT * REPLACE (
  CAST("node_count" AS BIGINT) AS "node_count",
  CAST("core_count" AS BIGINT) AS "core_count",
  CAST("benchmark_value" AS DOUBLE) AS "benchmark_value",
  CAST("jobs" AS BIGINT) AS "jobs",
  CAST("wall_s" AS BIGINT) AS "wall_s",
  CAST("cpu_s" AS BIGINT) AS "cpu_s",
  CAST("earliest_end_time" AS BIGINT) AS "earliest_end_time",
  CAST("latest_end_time" AS BIGINT) AS "latest_end_time",
  CAST("jobs_without_wall" AS BIGINT) AS "jobs_without_wall",
  CAST("jobs_without_cpu" AS BIGINT) AS "jobs_without_cpu",
  CAST("core_s" AS BIGINT) AS "core_s",
  CAST("core_with_cpu_s" AS BIGINT) AS "core_with_cpu_s",
  CAST("cpu_with_core_s" AS BIGINT) AS "cpu_with_core_s")
FROM sqlite_query('accounting', 'SELECT * FROM v1_usage_by_month');

CREATE OR REPLACE VIEW v1_transfers AS SELECT * REPLACE (
  CAST("size_bytes" AS BIGINT) AS "size_bytes",
  CAST("start_time" AS BIGINT) AS "start_time",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("duration_s" AS BIGINT) AS "duration_s")
FROM sqlite_query('accounting', 'SELECT * FROM v1_transfers');

CREATE OR REPLACE VIEW v1_job_attributes AS SELECT *
FROM sqlite_query('accounting', 'SELECT * FROM v1_job_attributes');

CREATE OR REPLACE VIEW v1_job_events AS SELECT * REPLACE (
  CAST("event_time" AS BIGINT) AS "event_time")
FROM sqlite_query('accounting', 'SELECT * FROM v1_job_events');

CREATE OR REPLACE VIEW v1_record_notes AS SELECT * REPLACE (
  CAST("noted_time" AS BIGINT) AS "noted_time")
FROM sqlite_query('accounting', 'SELECT * FROM v1_record_notes');

CREATE OR REPLACE VIEW v1_held_values AS SELECT *
FROM sqlite_query('accounting', 'SELECT * FROM v1_held_values');
