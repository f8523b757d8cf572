-- The dataset of many CEs in Trino, read where it stands, by its Hive connector: replace s3://DATASET by its place. The
-- catalog has hive.recursive-directories=true, and after each export
--
--     CALL hive.system.sync_partition_metadata('arcacct', 'jobs_files', 'ADD');
--
-- and so for the other tables and manifest_lines. Of the files that lie there, jobs, events, transfers, attributes and
-- accelerators have those that a manifest names.
CREATE SCHEMA IF NOT EXISTS hive.arcacct;
USE hive.arcacct;

-- A row for each line of a manifest.
CREATE TABLE IF NOT EXISTS manifest_lines (line varchar, site varchar, year bigint, month varchar)
WITH (
  external_location = 's3://DATASET/manifests/v1', format = 'TEXTFILE', textfile_field_separator = U&'\0001',
  partitioned_by = ARRAY['site', 'year', 'month']
);

CREATE TABLE IF NOT EXISTS jobs_files (
  record_id bigint, job_id varchar, local_job_id varchar, job_name varchar, endpoint_url varchar,
  endpoint_type varchar, lrms varchar, queue varchar, node_names varchar, client_host varchar, user_dn varchar,
  local_user varchar, vo varchar, fqan varchar, vo_group varchar, vo_role varchar, project varchar,
  status varchar, exit_code bigint, submit_time bigint, lrms_submit_time bigint, lrms_start_time bigint,
  lrms_end_time bigint, end_time bigint, node_count bigint, core_count bigint, wall_s bigint, cpu_s bigint,
  cpu_user_s bigint, cpu_kernel_s bigint, memory_kib bigint, virtual_memory_kib bigint, scratch_bytes bigint,
  stage_in_bytes bigint, stage_in_s bigint, stage_out_bytes bigint, stage_out_s bigint,
  run_time_environments varchar, system_software varchar, wn_instance varchar, benchmark_type varchar,
  benchmark_value double, benchmark_source varchar, source varchar, counted bigint, core_s bigint,
  allocated_gpus bigint, allocated_gpu_s double, busy_gpu_s double, gpus_energy_j double, nodes_energy_j bigint,
  gpus_source varchar, energy_source varchar,
  site varchar, year bigint, month varchar,
  ce varchar
)
WITH (
  external_location = 's3://DATASET/jobs/v1', format = 'PARQUET', partitioned_by = ARRAY['site', 'year', 'month', 'ce']
);
CREATE OR REPLACE VIEW jobs AS
SELECT * FROM jobs_files
 WHERE regexp_extract("$path", '/v1/(site=[^/]+/year=.+)$', 1) IN (
   SELECT regexp_extract("$path", '/v1/(site=[^/]+/year=.+)\.json$', 1) || '/'
          || regexp_extract(line, '"file": "(part-[0-9a-f]+\.parquet)"', 1)
     FROM manifest_lines WHERE line LIKE '%"file":%');

CREATE TABLE IF NOT EXISTS events_files (
  record_id bigint, event varchar, event_time bigint, site varchar, year bigint, month varchar, ce varchar
)
WITH (
  external_location = 's3://DATASET/events/v1', format = 'PARQUET', partitioned_by = ARRAY['site', 'year', 'month', 'ce']
);
CREATE OR REPLACE VIEW events AS
SELECT * FROM events_files
 WHERE regexp_extract("$path", '/v1/(site=[^/]+/year=.+)$', 1) IN (
   SELECT regexp_extract("$path", '/v1/(site=[^/]+/year=.+)\.json$', 1) || '/'
          || regexp_extract(line, '"file": "(part-[0-9a-f]+\.parquet)"', 1)
     FROM manifest_lines WHERE line LIKE '%"file":%');

CREATE TABLE IF NOT EXISTS transfers_files (
  record_id bigint, url varchar, kind varchar, size_bytes bigint, start_time bigint, end_time bigint,
  duration_s bigint, site varchar, year bigint, month varchar, ce varchar
)
WITH (
  external_location = 's3://DATASET/transfers/v1', format = 'PARQUET', partitioned_by = ARRAY['site', 'year', 'month', 'ce']
);
CREATE OR REPLACE VIEW transfers AS
SELECT * FROM transfers_files
 WHERE regexp_extract("$path", '/v1/(site=[^/]+/year=.+)$', 1) IN (
   SELECT regexp_extract("$path", '/v1/(site=[^/]+/year=.+)\.json$', 1) || '/'
          || regexp_extract(line, '"file": "(part-[0-9a-f]+\.parquet)"', 1)
     FROM manifest_lines WHERE line LIKE '%"file":%');

CREATE TABLE IF NOT EXISTS attributes_files (
  record_id bigint, kind varchar, name varchar, value varchar, site varchar, year bigint, month varchar,
  ce varchar
)
WITH (
  external_location = 's3://DATASET/attributes/v1', format = 'PARQUET', partitioned_by = ARRAY['site', 'year', 'month', 'ce']
);
CREATE OR REPLACE VIEW attributes AS
SELECT * FROM attributes_files
 WHERE regexp_extract("$path", '/v1/(site=[^/]+/year=.+)$', 1) IN (
   SELECT regexp_extract("$path", '/v1/(site=[^/]+/year=.+)\.json$', 1) || '/'
          || regexp_extract(line, '"file": "(part-[0-9a-f]+\.parquet)"', 1)
     FROM manifest_lines WHERE line LIKE '%"file":%');

CREATE TABLE IF NOT EXISTS accelerators_files (
  record_id bigint, cluster varchar, gpu_count bigint, gpu_allocated_s bigint, gpu_model varchar,
  gpu_occupied_s double, gpu_busy_s double, gpu_peak_memory_kib bigint, gpu_energy_j double, energy_j bigint,
  site varchar, year bigint, month varchar, ce varchar
)
WITH (
  external_location = 's3://DATASET/accelerators/v1', format = 'PARQUET', partitioned_by = ARRAY['site', 'year', 'month', 'ce']
);
CREATE OR REPLACE VIEW accelerators AS
SELECT * FROM accelerators_files
 WHERE regexp_extract("$path", '/v1/(site=[^/]+/year=.+)$', 1) IN (
   SELECT regexp_extract("$path", '/v1/(site=[^/]+/year=.+)\.json$', 1) || '/'
          || regexp_extract(line, '"file": "(part-[0-9a-f]+\.parquet)"', 1)
     FROM manifest_lines WHERE line LIKE '%"file":%');
