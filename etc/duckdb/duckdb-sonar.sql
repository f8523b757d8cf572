-- The views of accounting.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../accounting.db' AS accounting (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('accounting', 'SELECT ... FROM v1_slurm_jobs WHERE ...')

CREATE OR REPLACE VIEW v1_slurm_jobs AS SELECT * REPLACE (
  CAST("job_id" AS BIGINT) AS "job_id",
  CAST("array_job_id" AS BIGINT) AS "array_job_id",
  CAST("array_task_id" AS BIGINT) AS "array_task_id",
  CAST("het_job_id" AS BIGINT) AS "het_job_id",
  CAST("het_job_offset" AS BIGINT) AS "het_job_offset",
  CAST("submit_time" AS BIGINT) AS "submit_time",
  CAST("start_time" AS BIGINT) AS "start_time",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("suspended_s" AS BIGINT) AS "suspended_s",
  CAST("elapsed_s" AS BIGINT) AS "elapsed_s",
  CAST("exit_code" AS BIGINT) AS "exit_code",
  CAST("time_limit_s" AS BIGINT) AS "time_limit_s",
  CAST("is_unlimited" AS BIGINT) AS "is_unlimited",
  CAST("priority" AS BIGINT) AS "priority",
  CAST("requested_cores" AS BIGINT) AS "requested_cores",
  CAST("minimum_cores_per_node" AS BIGINT) AS "minimum_cores_per_node",
  CAST("requested_memory_kib" AS BIGINT) AS "requested_memory_kib",
  CAST("requested_nodes" AS BIGINT) AS "requested_nodes",
  CAST("user_cpu_s" AS BIGINT) AS "user_cpu_s",
  CAST("system_cpu_s" AS BIGINT) AS "system_cpu_s",
  CAST("average_cpu_s" AS BIGINT) AS "average_cpu_s",
  CAST("minimum_cpu_s" AS BIGINT) AS "minimum_cpu_s",
  CAST("average_memory_kib" AS BIGINT) AS "average_memory_kib",
  CAST("maximum_memory_kib" AS BIGINT) AS "maximum_memory_kib",
  CAST("average_virtual_memory_kib" AS BIGINT) AS "average_virtual_memory_kib",
  CAST("maximum_virtual_memory_kib" AS BIGINT) AS "maximum_virtual_memory_kib",
  CAST("average_read_kib" AS BIGINT) AS "average_read_kib",
  CAST("average_written_kib" AS BIGINT) AS "average_written_kib")
FROM sqlite_query('accounting', 'SELECT * FROM v1_slurm_jobs');

CREATE OR REPLACE VIEW v1_cluster_nodes AS SELECT * REPLACE (
  CAST("valid_from" AS BIGINT) AS "valid_from",
  CAST("valid_until" AS BIGINT) AS "valid_until",
  CAST("last_seen" AS BIGINT) AS "last_seen")
FROM sqlite_query('accounting', 'SELECT * FROM v1_cluster_nodes');

CREATE OR REPLACE VIEW v1_cluster_partitions AS SELECT * REPLACE (
  CAST("valid_from" AS BIGINT) AS "valid_from",
  CAST("valid_until" AS BIGINT) AS "valid_until",
  CAST("last_seen" AS BIGINT) AS "last_seen")
FROM sqlite_query('accounting', 'SELECT * FROM v1_cluster_partitions');

CREATE OR REPLACE VIEW v1_nodes AS SELECT * REPLACE (
  CAST("hardware_id" AS BIGINT) AS "hardware_id",
  CAST("valid_from" AS BIGINT) AS "valid_from",
  CAST("valid_until" AS BIGINT) AS "valid_until",
  CAST("last_seen" AS BIGINT) AS "last_seen",
  CAST("sockets" AS BIGINT) AS "sockets",
  CAST("cores_per_socket" AS BIGINT) AS "cores_per_socket",
  CAST("threads_per_core" AS BIGINT) AS "threads_per_core",
  CAST("logical_cores" AS BIGINT) AS "logical_cores",
  CAST("numa_nodes" AS BIGINT) AS "numa_nodes",
  CAST("memory_kib" AS BIGINT) AS "memory_kib")
FROM sqlite_query('accounting', 'SELECT * FROM v1_nodes');

CREATE OR REPLACE VIEW v1_node_cards AS SELECT * REPLACE (
  CAST("hardware_id" AS BIGINT) AS "hardware_id",
  CAST("valid_from" AS BIGINT) AS "valid_from",
  CAST("card_index" AS BIGINT) AS "card_index",
  CAST("memory_kib" AS BIGINT) AS "memory_kib",
  CAST("power_limit_w" AS BIGINT) AS "power_limit_w",
  CAST("max_power_limit_w" AS BIGINT) AS "max_power_limit_w",
  CAST("min_power_limit_w" AS BIGINT) AS "min_power_limit_w",
  CAST("max_ce_clock_mhz" AS BIGINT) AS "max_ce_clock_mhz",
  CAST("max_memory_clock_mhz" AS BIGINT) AS "max_memory_clock_mhz")
FROM sqlite_query('accounting', 'SELECT * FROM v1_node_cards');

CREATE OR REPLACE VIEW v1_node_software AS SELECT * REPLACE (
  CAST("hardware_id" AS BIGINT) AS "hardware_id",
  CAST("valid_from" AS BIGINT) AS "valid_from")
FROM sqlite_query('accounting', 'SELECT * FROM v1_node_software');

CREATE OR REPLACE VIEW v1_node_usage AS SELECT * REPLACE (
  CAST("hour" AS BIGINT) AS "hour",
  CAST("samples" AS BIGINT) AS "samples",
  CAST("covered_s" AS DOUBLE) AS "covered_s",
  CAST("mean" AS DOUBLE) AS "mean",
  CAST("low" AS DOUBLE) AS "low",
  CAST("high" AS DOUBLE) AS "high",
  CAST("increase" AS DOUBLE) AS "increase")
FROM sqlite_query('accounting', 'SELECT * FROM v1_node_usage');

CREATE OR REPLACE VIEW v1_sampled_jobs AS SELECT * REPLACE (
  CAST("job_id" AS BIGINT) AS "job_id",
  CAST("epoch" AS BIGINT) AS "epoch",
  CAST("first_time" AS BIGINT) AS "first_time",
  CAST("last_time" AS BIGINT) AS "last_time",
  CAST("samples" AS BIGINT) AS "samples",
  CAST("cpu_s" AS BIGINT) AS "cpu_s",
  CAST("peak_memory_kib" AS BIGINT) AS "peak_memory_kib",
  CAST("peak_virtual_memory_kib" AS BIGINT) AS "peak_virtual_memory_kib",
  CAST("peak_processes" AS BIGINT) AS "peak_processes",
  CAST("peak_threads" AS BIGINT) AS "peak_threads",
  CAST("read_kib" AS BIGINT) AS "read_kib",
  CAST("written_kib" AS BIGINT) AS "written_kib",
  CAST("cancelled_kib" AS BIGINT) AS "cancelled_kib",
  CAST("is_in_container" AS BIGINT) AS "is_in_container",
  CAST("array_task_id" AS BIGINT) AS "array_task_id",
  CAST("cpu_avg_percent" AS DOUBLE) AS "cpu_avg_percent",
  CAST("cpu_util_percent" AS DOUBLE) AS "cpu_util_percent",
  CAST("peak_cpu_util_percent" AS DOUBLE) AS "peak_cpu_util_percent",
  CAST("run_start_time" AS BIGINT) AS "run_start_time")
FROM sqlite_query('accounting', 'SELECT * FROM v1_sampled_jobs');

CREATE OR REPLACE VIEW v1_job_telemetry AS SELECT * REPLACE (
  CAST("lrms_job_id" AS BIGINT) AS "lrms_job_id",
  CAST("samples" AS BIGINT) AS "samples",
  CAST("sampled_cpu_s" AS BIGINT) AS "sampled_cpu_s",
  CAST("peak_memory_kib" AS BIGINT) AS "peak_memory_kib",
  CAST("read_kib" AS BIGINT) AS "read_kib",
  CAST("written_kib" AS BIGINT) AS "written_kib",
  CAST("gpu_count" AS BIGINT) AS "gpu_count",
  CAST("gpu_allocated_s" AS BIGINT) AS "gpu_allocated_s",
  CAST("gpu_occupied_s" AS DOUBLE) AS "gpu_occupied_s",
  CAST("gpu_busy_s" AS DOUBLE) AS "gpu_busy_s",
  CAST("gpu_peak_memory_kib" AS BIGINT) AS "gpu_peak_memory_kib",
  CAST("gpu_energy_j" AS DOUBLE) AS "gpu_energy_j",
  CAST("energy_j" AS BIGINT) AS "energy_j",
  CAST("counted" AS BIGINT) AS "counted")
FROM sqlite_query('accounting', 'SELECT * FROM v1_job_telemetry');

CREATE OR REPLACE VIEW v1_job_accelerators AS SELECT * REPLACE (
  CAST("job_id" AS BIGINT) AS "job_id",
  CAST("epoch" AS BIGINT) AS "epoch",
  CAST("samples" AS BIGINT) AS "samples",
  CAST("occupied_s" AS DOUBLE) AS "occupied_s",
  CAST("busy_s" AS DOUBLE) AS "busy_s",
  CAST("energy_j" AS DOUBLE) AS "energy_j",
  CAST("peak_memory_kib" AS BIGINT) AS "peak_memory_kib",
  CAST("array_task_id" AS BIGINT) AS "array_task_id",
  CAST("card_index" AS BIGINT) AS "card_index",
  CAST("memory_util_percent" AS DOUBLE) AS "memory_util_percent",
  CAST("run_start_time" AS BIGINT) AS "run_start_time")
FROM sqlite_query('accounting', 'SELECT * FROM v1_job_accelerators');

CREATE OR REPLACE VIEW v1_job_commands AS SELECT * REPLACE (
  CAST("job_id" AS BIGINT) AS "job_id",
  CAST("array_task_id" AS BIGINT) AS "array_task_id",
  CAST("epoch" AS BIGINT) AS "epoch",
  CAST("samples" AS BIGINT) AS "samples",
  CAST("peak_processes" AS BIGINT) AS "peak_processes",
  CAST("peak_memory_kib" AS BIGINT) AS "peak_memory_kib",
  CAST("cpu_avg_percent" AS DOUBLE) AS "cpu_avg_percent",
  CAST("cpu_util_percent" AS DOUBLE) AS "cpu_util_percent",
  CAST("run_start_time" AS BIGINT) AS "run_start_time")
FROM sqlite_query('accounting', 'SELECT * FROM v1_job_commands');

CREATE OR REPLACE VIEW v1_producer_errors AS SELECT * REPLACE (
  CAST("time" AS BIGINT) AS "time")
FROM sqlite_query('accounting', 'SELECT * FROM v1_producer_errors');
