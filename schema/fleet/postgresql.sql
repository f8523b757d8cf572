-- The dataset of many CEs in PostgreSQL 13 or newer, for federations that work there. `arcacct fleet load` runs this where
-- a table or a column is missing, and fills the tables; other programs may fill them in the same way. To run it again
-- changes nothing, and brings tables of an older version up to date.
--
-- A month of a CE is taken at once, in one transaction: SELECT arcacct.begin_partition(), COPY into the incoming_
-- tables, SELECT arcacct.take_partition(...). A job is known by (site, ce, job_id). Its revision is that of its partition:
-- what was exported later replaces what was exported earlier, never the other way round, in whatever order it is taken.
CREATE SCHEMA IF NOT EXISTS arcacct;

CREATE TABLE IF NOT EXISTS arcacct.partitions (
  site             text NOT NULL,
  ce               text NOT NULL,
  year             bigint NOT NULL,   -- of end_time in UTC
  month            text NOT NULL,     -- 01 to 12
  life             text NOT NULL,     -- which database it is from; two of one CE are two CEs of one name
  written_s        bigint NOT NULL,   -- the revision: when it was exported, in s since 1970,
  finished_log_seq bigint NOT NULL,   -- and how far the CE had come
  names            text NOT NULL,     -- plain, hashed or withheld
  digest           text NOT NULL,     -- of what was loaded
  PRIMARY KEY (site, ce, year, month)
);

-- Columns of all of these are described in columns.csv. What belongs to a job has no foreign key to it: to look at each
-- row would take longer than all the rest, and only what is below writes here.
CREATE TABLE IF NOT EXISTS arcacct.jobs (
  site                  text NOT NULL,
  year                  bigint NOT NULL,
  month                 text NOT NULL,
  ce                    text NOT NULL,
  record_id             bigint NOT NULL,
  job_id                text NOT NULL,
  local_job_id          text,
  job_name              text,
  endpoint_url          text,
  endpoint_type         text,
  lrms                  text,
  queue                 text,
  node_names            text,
  client_host           text,
  user_dn               text,
  local_user            text,
  vo                    text,
  fqan                  text,
  vo_group              text,
  vo_role               text,
  project               text,
  status                text,
  exit_code             bigint,
  submit_time           bigint,
  lrms_submit_time      bigint,
  lrms_start_time       bigint,
  lrms_end_time         bigint,
  end_time              bigint,
  node_count            bigint,
  core_count            bigint,
  wall_s                bigint,
  cpu_s                 bigint,
  cpu_user_s            bigint,
  cpu_kernel_s          bigint,
  memory_kib            bigint,
  virtual_memory_kib    bigint,
  scratch_bytes         bigint,
  stage_in_bytes        bigint,
  stage_in_s            bigint,
  stage_out_bytes       bigint,
  stage_out_s           bigint,
  run_time_environments text,
  system_software       text,
  wn_instance           text,
  benchmark_type        text,
  benchmark_value       double precision,
  benchmark_source      text,
  source                text,
  counted               bigint,
  core_s                bigint,
  allocated_gpus        bigint,
  allocated_gpu_s       double precision,
  busy_gpu_s            double precision,
  gpus_energy_j         double precision,
  nodes_energy_j        bigint,
  gpus_source           text,
  energy_source         text,
  PRIMARY KEY (site, ce, job_id),
  UNIQUE (site, ce, year, month, record_id)
);
-- Of tables that an older version made.
ALTER TABLE arcacct.jobs ADD COLUMN IF NOT EXISTS counted bigint, ADD COLUMN IF NOT EXISTS core_s bigint,
  ADD COLUMN IF NOT EXISTS allocated_gpus bigint, ADD COLUMN IF NOT EXISTS allocated_gpu_s double precision,
  ADD COLUMN IF NOT EXISTS busy_gpu_s double precision, ADD COLUMN IF NOT EXISTS gpus_energy_j double precision,
  ADD COLUMN IF NOT EXISTS nodes_energy_j bigint, ADD COLUMN IF NOT EXISTS gpus_source text,
  ADD COLUMN IF NOT EXISTS energy_source text;
-- Each partition is taken in the order of end_time.
CREATE INDEX IF NOT EXISTS jobs_end_time_idx ON arcacct.jobs USING brin (end_time);

CREATE TABLE IF NOT EXISTS arcacct.events (
  site       text NOT NULL,
  year       bigint NOT NULL,
  month      text NOT NULL,
  ce         text NOT NULL,
  record_id  bigint NOT NULL,
  event      text,
  event_time bigint
);
CREATE INDEX IF NOT EXISTS events_site_ce_year_month_record_id_idx
  ON arcacct.events (site, ce, year, month, record_id);

CREATE TABLE IF NOT EXISTS arcacct.transfers (
  site       text NOT NULL,
  year       bigint NOT NULL,
  month      text NOT NULL,
  ce         text NOT NULL,
  record_id  bigint NOT NULL,
  url        text,
  kind       text,
  size_bytes bigint,
  start_time bigint,
  end_time   bigint,
  duration_s bigint
);
CREATE INDEX IF NOT EXISTS transfers_site_ce_year_month_record_id_idx
  ON arcacct.transfers (site, ce, year, month, record_id);

CREATE TABLE IF NOT EXISTS arcacct.attributes (
  site      text NOT NULL,
  year      bigint NOT NULL,
  month     text NOT NULL,
  ce        text NOT NULL,
  record_id bigint NOT NULL,
  kind      text,
  name      text,
  value     text
);
CREATE INDEX IF NOT EXISTS attributes_site_ce_year_month_record_id_idx
  ON arcacct.attributes (site, ce, year, month, record_id);

CREATE TABLE IF NOT EXISTS arcacct.accelerators (
  site                text NOT NULL,
  year                bigint NOT NULL,
  month               text NOT NULL,
  ce                  text NOT NULL,
  record_id           bigint NOT NULL,
  cluster             text,
  gpu_count           bigint,
  gpu_allocated_s     bigint,
  gpu_model           text,
  gpu_occupied_s      double precision,
  gpu_busy_s          double precision,
  gpu_peak_memory_kib bigint,
  gpu_energy_j        double precision,
  energy_j            bigint
);
CREATE INDEX IF NOT EXISTS accelerators_site_ce_year_month_record_id_idx
  ON arcacct.accelerators (site, ce, year, month, record_id);

-- The views of a CE's own database, of all of them: with the same names and columns, and behind these site and ce, and
-- what came later. The usage of a job that does not count is NULL.
CREATE OR REPLACE FUNCTION arcacct.iso(seconds bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT to_char(to_timestamp(seconds) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
$$;

CREATE OR REPLACE VIEW arcacct.v1_jobs AS
SELECT
  job_id, local_job_id, job_name, endpoint_url, endpoint_type, lrms, queue, node_names, client_host, user_dn,
  local_user, vo, fqan, vo_group, vo_role, project, status, exit_code,
  submit_time, arcacct.iso(submit_time) AS submit_time_iso,
  lrms_submit_time, arcacct.iso(lrms_submit_time) AS lrms_submit_time_iso,
  lrms_start_time, arcacct.iso(lrms_start_time) AS lrms_start_time_iso,
  lrms_end_time, arcacct.iso(lrms_end_time) AS lrms_end_time_iso,
  end_time, arcacct.iso(end_time) AS end_time_iso,
  node_count, core_count,
  CASE WHEN counted = 0 THEN NULL ELSE wall_s END AS wall_s,
  CASE WHEN counted = 0 THEN NULL ELSE cpu_s END AS cpu_s,
  CASE WHEN counted = 0 THEN NULL ELSE cpu_user_s END AS cpu_user_s,
  CASE WHEN counted = 0 THEN NULL ELSE cpu_kernel_s END AS cpu_kernel_s,
  CASE WHEN counted = 0 THEN NULL ELSE memory_kib END AS memory_kib,
  CASE WHEN counted = 0 THEN NULL ELSE virtual_memory_kib END AS virtual_memory_kib,
  CASE WHEN counted = 0 THEN NULL ELSE scratch_bytes END AS scratch_bytes,
  CASE WHEN counted = 0 THEN NULL ELSE stage_in_bytes END AS stage_in_bytes,
  CASE WHEN counted = 0 THEN NULL ELSE stage_in_s END AS stage_in_s,
  CASE WHEN counted = 0 THEN NULL ELSE stage_out_bytes END AS stage_out_bytes,
  CASE WHEN counted = 0 THEN NULL ELSE stage_out_s END AS stage_out_s,
  run_time_environments, system_software, wn_instance, benchmark_type, benchmark_value, benchmark_source, source, site, ce,
  counted, CASE WHEN counted = 0 THEN NULL ELSE core_s END AS core_s,
  allocated_gpus,
  CASE WHEN counted = 0 THEN NULL ELSE allocated_gpu_s END AS allocated_gpu_s,
  CASE WHEN counted = 0 THEN NULL ELSE busy_gpu_s END AS busy_gpu_s,
  CASE WHEN counted = 0 THEN NULL ELSE gpus_energy_j END AS gpus_energy_j,
  CASE WHEN counted = 0 THEN NULL ELSE nodes_energy_j END AS nodes_energy_j,
  gpus_source, energy_source
FROM arcacct.jobs;

CREATE OR REPLACE VIEW arcacct.v1_job_events AS
SELECT job_id, event, event_time, arcacct.iso(event_time) AS event_time_iso, site, ce
FROM arcacct.events JOIN arcacct.jobs USING (site, ce, year, month, record_id);

CREATE OR REPLACE VIEW arcacct.v1_transfers AS
SELECT
  job_id, url, kind, size_bytes, told.start_time, arcacct.iso(told.start_time) AS start_time_iso,
  told.end_time, arcacct.iso(told.end_time) AS end_time_iso, duration_s, site, ce
FROM arcacct.transfers AS told JOIN arcacct.jobs USING (site, ce, year, month, record_id);

CREATE OR REPLACE VIEW arcacct.v1_job_attributes AS
SELECT job_id, kind, name, value, site, ce
FROM arcacct.attributes JOIN arcacct.jobs USING (site, ce, year, month, record_id);

-- Empty tables incoming_jobs, incoming_events, ... of this session, until the end of the transaction.
CREATE OR REPLACE FUNCTION arcacct.begin_partition() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['jobs', 'events', 'transfers', 'attributes', 'accelerators'] LOOP
    EXECUTE format('CREATE TEMP TABLE incoming_%s (LIKE arcacct.%I) ON COMMIT DROP', name, name);
  END LOOP;
END $$;

-- Takes what is in the incoming tables as all that there is of a month of a CE; false if a later export was taken.
CREATE OR REPLACE FUNCTION arcacct.take_partition(
  of_site text, of_ce text, of_year bigint, of_month text, its_life text, its_written_s bigint, its_seq bigint,
  its_names text, its_digest text
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  name text;
BEGIN
  -- One at a time of each name.
  PERFORM pg_advisory_xact_lock(hashtextextended(of_ce, 0));
  SELECT site INTO name FROM arcacct.partitions
   WHERE ce = of_ce AND (site = of_site) <> (life = its_life) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '% of % is here from %', of_ce, name,
      CASE WHEN name = of_site THEN 'another database' ELSE 'this very database, which now says ' || of_site END
      USING HINT = format('if it is the same CE, SELECT arcacct.remove_ce(%L, %L) removes what is there of it',
                          name, of_ce);
  END IF;
  INSERT INTO arcacct.partitions AS kept
  VALUES (of_site, of_ce, of_year, of_month, its_life, its_written_s, its_seq, its_names, its_digest)
      ON CONFLICT (site, ce, year, month) DO UPDATE
     SET written_s = its_written_s, finished_log_seq = its_seq, names = its_names, digest = its_digest
   WHERE (kept.written_s, kept.finished_log_seq) <= (its_written_s, its_seq);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  ANALYZE incoming_jobs;
  -- Jobs that are gone or told otherwise. What is as it was stays, and costs nothing.
  DELETE FROM arcacct.jobs AS kept
   WHERE kept.site = of_site AND kept.ce = of_ce AND kept.year = of_year AND kept.month = of_month
     AND NOT EXISTS (SELECT FROM incoming_jobs AS told
                      WHERE told.job_id = kept.job_id AND ROW (told.*) IS NOT DISTINCT FROM ROW (kept.*));
  -- Jobs that were in another month, by an earlier export: what belongs to them goes below.
  CREATE TEMP TABLE moved ON COMMIT DROP AS
  SELECT kept.site, kept.ce, kept.year, kept.month, kept.record_id
    FROM incoming_jobs JOIN arcacct.jobs AS kept USING (site, ce, job_id)
    JOIN arcacct.partitions AS former
      ON (former.site, former.ce, former.year, former.month) = (kept.site, kept.ce, kept.year, kept.month)
   WHERE (kept.year, kept.month) <> (of_year, of_month)
     AND (former.written_s, former.finished_log_seq) <= (its_written_s, its_seq);
  DELETE FROM arcacct.jobs AS kept USING moved
   WHERE (kept.site, kept.ce, kept.year, kept.month, kept.record_id)
       = (moved.site, moved.ce, moved.year, moved.month, moved.record_id);
  INSERT INTO arcacct.jobs SELECT * FROM incoming_jobs ORDER BY end_time, record_id
      ON CONFLICT (site, ce, job_id) DO NOTHING;
  FOREACH name IN ARRAY ARRAY['events', 'transfers', 'attributes', 'accelerators'] LOOP
    EXECUTE format('DELETE FROM arcacct.%I WHERE site = $1 AND ce = $2 AND year = $3 AND month = $4', name)
      USING of_site, of_ce, of_year, of_month;
    EXECUTE format('DELETE FROM arcacct.%I AS kept USING moved
                     WHERE (kept.site, kept.ce, kept.year, kept.month, kept.record_id)
                         = (moved.site, moved.ce, moved.year, moved.month, moved.record_id)', name);
    -- Not those of jobs that a later export has in another month.
    EXECUTE format('INSERT INTO arcacct.%I SELECT told.* FROM incoming_%s AS told
                      JOIN arcacct.jobs USING (site, ce, year, month, record_id)', name, name);
  END LOOP;
  RETURN true;
END $$;

-- Everything of a CE: of one that is no more, or that comes from another database now.
CREATE OR REPLACE FUNCTION arcacct.remove_ce(of_site text, of_ce text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  name text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(of_ce, 0));
  FOREACH name IN ARRAY ARRAY['partitions', 'jobs', 'events', 'transfers', 'attributes', 'accelerators'] LOOP
    EXECUTE format('DELETE FROM arcacct.%I WHERE site = $1 AND ce = $2', name) USING of_site, of_ce;
  END LOOP;
END $$;
