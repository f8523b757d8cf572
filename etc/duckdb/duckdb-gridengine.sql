-- The views of accounting.db in DuckDB, with numbers as numbers: its sqlite extension gives all columns of a view as text.
-- First: ATTACH '.../accounting.db' AS accounting (TYPE sqlite, READ_ONLY). The manual: "Other programs".
--
-- SQLite answers each view as a whole. To ask it for less, by its indexes:
--   SELECT * FROM sqlite_query('accounting', 'SELECT ... FROM v1_gridengine_records WHERE ...')

CREATE OR REPLACE VIEW v1_gridengine_records AS SELECT * REPLACE (
  CAST("record_no" AS BIGINT) AS "record_no",
  CAST("job_number" AS BIGINT) AS "job_number",
  CAST("task_number" AS BIGINT) AS "task_number",
  CAST("slots" AS BIGINT) AS "slots",
  CAST("arid" AS BIGINT) AS "arid",
  CAST("priority" AS BIGINT) AS "priority",
  CAST("submission_time" AS BIGINT) AS "submission_time",
  CAST("start_time" AS BIGINT) AS "start_time",
  CAST("end_time" AS BIGINT) AS "end_time",
  CAST("ar_submission_time" AS BIGINT) AS "ar_submission_time",
  CAST("failed" AS BIGINT) AS "failed",
  CAST("exit_status" AS BIGINT) AS "exit_status",
  CAST("ru_wallclock_s" AS DOUBLE) AS "ru_wallclock_s",
  CAST("ru_utime_s" AS DOUBLE) AS "ru_utime_s",
  CAST("ru_stime_s" AS DOUBLE) AS "ru_stime_s",
  CAST("ru_maxrss_kib" AS BIGINT) AS "ru_maxrss_kib",
  CAST("ru_ixrss" AS BIGINT) AS "ru_ixrss",
  CAST("ru_ismrss" AS BIGINT) AS "ru_ismrss",
  CAST("ru_idrss" AS BIGINT) AS "ru_idrss",
  CAST("ru_isrss" AS BIGINT) AS "ru_isrss",
  CAST("ru_minflt" AS BIGINT) AS "ru_minflt",
  CAST("ru_majflt" AS BIGINT) AS "ru_majflt",
  CAST("ru_nswap" AS BIGINT) AS "ru_nswap",
  CAST("ru_inblock" AS BIGINT) AS "ru_inblock",
  CAST("ru_oublock" AS BIGINT) AS "ru_oublock",
  CAST("ru_msgsnd" AS BIGINT) AS "ru_msgsnd",
  CAST("ru_msgrcv" AS BIGINT) AS "ru_msgrcv",
  CAST("ru_nsignals" AS BIGINT) AS "ru_nsignals",
  CAST("ru_nvcsw" AS BIGINT) AS "ru_nvcsw",
  CAST("ru_nivcsw" AS BIGINT) AS "ru_nivcsw",
  CAST("wallclock_s" AS DOUBLE) AS "wallclock_s",
  CAST("cpu_s" AS DOUBLE) AS "cpu_s",
  CAST("mem_gib_s" AS DOUBLE) AS "mem_gib_s",
  CAST("io_gib" AS DOUBLE) AS "io_gib",
  CAST("ioops" AS BIGINT) AS "ioops",
  CAST("iow_s" AS DOUBLE) AS "iow_s",
  CAST("maxvmem_bytes" AS BIGINT) AS "maxvmem_bytes",
  CAST("maxrss_bytes" AS BIGINT) AS "maxrss_bytes",
  CAST("maxpss_bytes" AS BIGINT) AS "maxpss_bytes",
  CAST("slot_s" AS DOUBLE) AS "slot_s",
  CAST("line" AS BIGINT) AS "line")
FROM sqlite_query('accounting', 'SELECT * FROM v1_gridengine_records');

CREATE OR REPLACE VIEW v1_gridengine_usage AS SELECT * REPLACE (
  CAST("record_no" AS BIGINT) AS "record_no",
  CAST("job_number" AS BIGINT) AS "job_number",
  CAST("task_number" AS BIGINT) AS "task_number",
  CAST("number" AS DOUBLE) AS "number")
FROM sqlite_query('accounting', 'SELECT * FROM v1_gridengine_usage');

CREATE OR REPLACE VIEW v1_gridengine_files AS SELECT * REPLACE (
  CAST("position_bytes" AS BIGINT) AS "position_bytes",
  CAST("lines" AS BIGINT) AS "lines",
  CAST("records" AS BIGINT) AS "records",
  CAST("bad_lines" AS BIGINT) AS "bad_lines",
  CAST("read_time" AS BIGINT) AS "read_time")
FROM sqlite_query('accounting', 'SELECT * FROM v1_gridengine_files');
