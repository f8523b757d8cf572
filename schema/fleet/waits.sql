-- Median and 90th percentile of the waiting times of jobs, by a column of counted_jobs, and how many jobs have one. Of n
-- times in order these are the ones at the places n / 2 and 9 n / 10, rounded up.
SELECT
  waiting, CAST(max(waited) AS BIGINT) AS jobs,
  CAST(min(CASE WHEN 2 * so_far >= waited THEN wait_s END) AS BIGINT) AS median_s,
  CAST(min(CASE WHEN 10 * so_far >= 9 * waited THEN wait_s END) AS BIGINT) AS most_s
FROM (
  SELECT waiting, wait_s,
    sum(jobs) OVER (PARTITION BY waiting ORDER BY wait_s) AS so_far,
    sum(jobs) OVER (PARTITION BY waiting) AS waited
  FROM (
    SELECT {key} AS waiting, wait_s, count(*) AS jobs
    FROM counted_jobs
    WHERE wait_s IS NOT NULL AND {where}
    GROUP BY {key}, wait_s) AS times) AS places
GROUP BY waiting
