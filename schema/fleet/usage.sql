-- Jobs summed by what is asked (keys), and by what their hours are worth: cores and benchmark. Failed jobs and volumes
-- are further columns to read: where nobody asks for them they are 0. Core time of many jobs may be beyond a BIGINT.
SELECT
  {keys}core_count, benchmark_type, benchmark_value,
  count(*) AS jobs,
  CAST(sum(wall_s) AS BIGINT) AS wall_s,
  CAST(sum(cpu_s) AS BIGINT) AS cpu_s,
  CAST(sum({is_failed}) AS BIGINT) AS failed_jobs,
  CAST(sum({stage_in_bytes}) AS BIGINT) AS stage_in_bytes,
  CAST(sum({stage_out_bytes}) AS BIGINT) AS stage_out_bytes,
  CAST(sum(no_wall) AS BIGINT) AS jobs_without_wall,
  CAST(sum(no_cpu) AS BIGINT) AS jobs_without_cpu,
  sum(1e0 * core_rest_s) AS core_rest_s,
  CAST(sum(is_unpaired * cpu_s) AS BIGINT) AS cpu_unpaired_s,
  sum(is_unpaired * (1e0 * wall_s * core_count + core_rest_s)) AS core_unpaired_s
FROM counted_jobs
WHERE {where}
GROUP BY {keys}core_count, benchmark_type, benchmark_value
