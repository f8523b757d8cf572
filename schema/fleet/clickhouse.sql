-- The dataset of many CEs in ClickHouse, read where it stands. DATASET is its directory:
--
--     sed 's|DATASET|/srv/accounting|' clickhouse.sql | clickhouse-local --path /var/lib/arcacct-clickhouse --multiquery
--
-- On a server the directory is below its user_files_path; for a dataset in an object store replace file('DATASET/...')
-- by s3('https://...'). Of the files that lie there, only those are read that a manifest names.
CREATE DATABASE IF NOT EXISTS arcacct;

CREATE OR REPLACE VIEW arcacct.manifests AS
SELECT
  JSONExtractString(json, 'site') AS site, JSONExtractInt(json, 'year') AS year,
  leftPad(toString(JSONExtractInt(json, 'month')), 2, '0') AS month, JSONExtractString(json, 'ce') AS ce,
  JSONExtractInt(json, 'dataset_version') AS dataset_version, JSONExtractString(json, 'life') AS life,
  JSONExtractInt(json, 'written_s') AS written_s, JSONExtractString(json, 'names') AS names, json
FROM file('DATASET/manifests/v1/site=*/year=*/month=*/ce=*.json', RawBLOB, 'json String');

CREATE OR REPLACE VIEW arcacct.jobs AS
SELECT * FROM file('DATASET/jobs/v1/site=*/year=*/month=*/ce=*/part-*.parquet', Parquet,
  'record_id Int64, job_id Nullable(String), local_job_id Nullable(String), job_name Nullable(String),
   endpoint_url Nullable(String), endpoint_type Nullable(String), lrms Nullable(String), queue Nullable(String),
   node_names Nullable(String), client_host Nullable(String), user_dn Nullable(String),
   local_user Nullable(String), vo Nullable(String), fqan Nullable(String), vo_group Nullable(String),
   vo_role Nullable(String), project Nullable(String), status Nullable(String), exit_code Nullable(Int64),
   submit_time Nullable(Int64), lrms_submit_time Nullable(Int64), lrms_start_time Nullable(Int64),
   lrms_end_time Nullable(Int64), end_time Nullable(Int64), node_count Nullable(Int64), core_count Nullable(Int64),
   wall_s Nullable(Int64), cpu_s Nullable(Int64), cpu_user_s Nullable(Int64), cpu_kernel_s Nullable(Int64),
   memory_kib Nullable(Int64), virtual_memory_kib Nullable(Int64), scratch_bytes Nullable(Int64),
   stage_in_bytes Nullable(Int64), stage_in_s Nullable(Int64), stage_out_bytes Nullable(Int64),
   stage_out_s Nullable(Int64), run_time_environments Nullable(String), system_software Nullable(String),
   wn_instance Nullable(String), benchmark_type Nullable(String), benchmark_value Nullable(Float64),
   benchmark_source Nullable(String), source Nullable(String), counted Nullable(Int64), core_s Nullable(Int64),
   allocated_gpus Nullable(Int64), allocated_gpu_s Nullable(Float64), busy_gpu_s Nullable(Float64),
   gpus_energy_j Nullable(Float64), nodes_energy_j Nullable(Int64), gpus_source Nullable(String),
   energy_source Nullable(String),
   site String, year Int64, month String, ce String')
WHERE (site, year, month, ce, _file) IN (
  SELECT site, year, month, ce, JSONExtractString(json, 'tables', 'jobs', 'file') FROM arcacct.manifests)
SETTINGS optimize_move_to_prewhere = 0;

CREATE OR REPLACE VIEW arcacct.events AS
SELECT * FROM file('DATASET/events/v1/site=*/year=*/month=*/ce=*/part-*.parquet', Parquet,
  'record_id Int64, event Nullable(String), event_time Nullable(Int64), site String, year Int64, month String,
   ce String')
WHERE (site, year, month, ce, _file) IN (
  SELECT site, year, month, ce, JSONExtractString(json, 'tables', 'events', 'file') FROM arcacct.manifests)
SETTINGS optimize_move_to_prewhere = 0;

CREATE OR REPLACE VIEW arcacct.transfers AS
SELECT * FROM file('DATASET/transfers/v1/site=*/year=*/month=*/ce=*/part-*.parquet', Parquet,
  'record_id Int64, url Nullable(String), kind Nullable(String), size_bytes Nullable(Int64),
   start_time Nullable(Int64), end_time Nullable(Int64), duration_s Nullable(Int64), site String, year Int64,
   month String, ce String')
WHERE (site, year, month, ce, _file) IN (
  SELECT site, year, month, ce, JSONExtractString(json, 'tables', 'transfers', 'file') FROM arcacct.manifests)
SETTINGS optimize_move_to_prewhere = 0;

CREATE OR REPLACE VIEW arcacct.attributes AS
SELECT * FROM file('DATASET/attributes/v1/site=*/year=*/month=*/ce=*/part-*.parquet', Parquet,
  'record_id Int64, kind Nullable(String), name Nullable(String), value Nullable(String), site String, year Int64,
   month String, ce String')
WHERE (site, year, month, ce, _file) IN (
  SELECT site, year, month, ce, JSONExtractString(json, 'tables', 'attributes', 'file') FROM arcacct.manifests)
SETTINGS optimize_move_to_prewhere = 0;

CREATE OR REPLACE VIEW arcacct.accelerators AS
SELECT * FROM file('DATASET/accelerators/v1/site=*/year=*/month=*/ce=*/part-*.parquet', Parquet,
  'record_id Int64, cluster Nullable(String), gpu_count Nullable(Int64), gpu_allocated_s Nullable(Int64),
   gpu_model Nullable(String), gpu_occupied_s Nullable(Float64), gpu_busy_s Nullable(Float64),
   gpu_peak_memory_kib Nullable(Int64), gpu_energy_j Nullable(Float64), energy_j Nullable(Int64), site String,
   year Int64, month String, ce String')
WHERE (site, year, month, ce, _file) IN (
  SELECT site, year, month, ce, JSONExtractString(json, 'tables', 'accelerators', 'file') FROM arcacct.manifests)
SETTINGS optimize_move_to_prewhere = 0;
