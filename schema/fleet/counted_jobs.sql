-- Jobs of the dataset as `stats` counts them, with what they can be told apart by. Read by DuckDB and Spark (and
-- PostgreSQL) alike: no division of whole numbers, no functions of dates, no types beyond BIGINT, INTEGER and text.
-- is_published: those that receivers are sent, as the CE says in counted, which files of older versions lack.
-- is_possible: 0 for values that no job can have (the ranges of arcacct.records.states, which every CE applies before it
-- exports); no figure counts such a job. NULL is what nobody measured: no_wall and no_cpu are 1 then of a published job,
-- and a job whose cores are not known has one. is_unpaired: 1 if nobody measured the wall time or the CPU time, so that
-- the job has no efficiency. core_rest_s: core_s less wall_s times cores, of a job whose runs had
-- different cores. Jobs may be told apart by texts of 8 KiB: a longer one would be compared as often as there are jobs,
-- and `stats` refuses its file.
-- wait_s: from the submission to the batch system to the start. Workers of A-REX write the start and the end in local time
-- as if it were UTC; end_time is UTC and follows soon, so the distance of both ends tells the zone, in half hours. Up to 3
-- hours may be stage-out, and what is more than any zone tells nothing. A clock may be a minute off.
SELECT
  site, ce, record_id, submit_time, end_time, coalesce(core_count, 1) AS core_count, benchmark_value,
  year * 100 + CAST(month AS INTEGER) AS month,
  end_time - end_time % 86400 AS day,
  CASE WHEN bit_length(status) > 65536 THEN 'a text of more than 8192 bytes' ELSE status END AS status,
  CASE WHEN bit_length(endpoint_type) > 65536 THEN 'a text of more than 8192 bytes' ELSE endpoint_type END AS endpoint_type,
  CASE WHEN bit_length(fqan) > 65536 THEN 'a text of more than 8192 bytes' ELSE fqan END AS fqan,
  CASE WHEN bit_length(benchmark_type) > 65536 THEN 'a text of more than 8192 bytes' ELSE benchmark_type END AS benchmark_type,
  CASE WHEN bit_length(user_dn) > 65536 THEN 'a text of more than 8192 bytes' ELSE user_dn END AS user_dn,
  CASE WHEN bit_length(vo) > 65536 THEN 'a text of more than 8192 bytes' ELSE vo END AS vo,
  CASE WHEN bit_length(queue) > 65536 THEN 'a text of more than 8192 bytes' ELSE queue END AS queue,
  CASE WHEN bit_length(endpoint_url) > 65536 THEN 'a text of more than 8192 bytes' ELSE endpoint_url END AS endpoint_url,
  CASE WHEN bit_length(project) > 65536 THEN 'a text of more than 8192 bytes' ELSE project END AS project,
  split_part(left(node_names, 255), ':', 1) AS node_names,
  is_published,
  -- NULL makes no job impossible.
  CASE WHEN wall_s NOT BETWEEN 0 AND 2147483647
         OR cpu_user_s NOT BETWEEN 0 AND 2147483647 OR cpu_kernel_s NOT BETWEEN 0 AND 2147483647
         OR core_count NOT BETWEEN 0 AND 10000000 OR node_count NOT BETWEEN 0 AND 200000
         OR 1e0 * core_count / nullif(node_count, 0) > 8192
         -- A wall time of 0 may be up to half a second.
         OR core_s NOT BETWEEN 0 AND 1e7 * coalesce(wall_s, 0) + 1e7
         -- Of a value that is no number: the least and the greatest value in a file leave it out, and engines rely on them.
         OR benchmark_value - benchmark_value <> 0
         OR benchmark_value NOT BETWEEN 0.2 AND 1000
            AND lower(substr(benchmark_type, 1, 16)) IN ('hepspec', 'hepscore23')
         OR benchmark_value NOT BETWEEN 50 AND 250000 AND lower(substr(benchmark_type, 1, 16)) = 'si2k'
       THEN 0 ELSE 1 END AS is_possible,
  CASE WHEN status = 'failed' THEN 1 ELSE 0 END AS is_failed,
  CASE WHEN wall_s BETWEEN 0 AND 9007199254740992 THEN wall_s ELSE 0 END AS wall_s,
  CASE WHEN cpu_user_s BETWEEN 0 AND 9007199254740992 THEN cpu_user_s ELSE 0 END
  + CASE WHEN cpu_kernel_s BETWEEN 0 AND 9007199254740992 THEN cpu_kernel_s ELSE 0 END AS cpu_s,
  measured_wall_s, core_count AS known_cores,
  CASE WHEN waited_s BETWEEN -60 AND -1 THEN 0 WHEN waited_s >= 0 THEN waited_s END AS wait_s,
  CASE WHEN wall_s IS NULL THEN is_published ELSE 0 END AS no_wall,
  CASE WHEN cpu_user_s IS NULL THEN is_published ELSE 0 END AS no_cpu,
  CASE WHEN wall_s IS NULL OR cpu_user_s IS NULL THEN 1 ELSE 0 END AS is_unpaired,
  CASE WHEN core_s BETWEEN 0 AND 9007199254740992 AND wall_s BETWEEN 0 AND 2147483647
            AND coalesce(core_count, 1) BETWEEN 0 AND 10000000
       THEN core_s - wall_s * coalesce(core_count, 1) ELSE 0 END AS core_rest_s,
  CASE WHEN stage_in_bytes BETWEEN 0 AND 9007199254740992 THEN stage_in_bytes ELSE 0 END AS stage_in_bytes,
  CASE WHEN stage_out_bytes BETWEEN 0 AND 9007199254740992 THEN stage_out_bytes ELSE 0 END AS stage_out_bytes
FROM (
  SELECT jobs.*, wall_s AS measured_wall_s,
    CASE WHEN counted IN (0, 1) THEN counted
         WHEN status IN ('completed', 'failed') THEN 1
         WHEN status = 'aborted' AND (wall_s <> 0 OR cpu_user_s <> 0 OR cpu_kernel_s <> 0) THEN 1
         ELSE 0 END AS is_published,
    lrms_start_time - coalesce(lrms_submit_time, CASE WHEN endpoint_url IS NULL THEN submit_time END)
    + CASE WHEN end_time - lrms_end_time BETWEEN -60 AND 10799 OR end_time - lrms_end_time > 54000 THEN 0
           WHEN end_time - lrms_end_time >= -50460 THEN end_time - lrms_end_time + 86460
                                                        - (end_time - lrms_end_time + 86460) % 1800 - 86400 END AS waited_s
  FROM jobs) AS told
