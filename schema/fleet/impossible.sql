-- How many jobs have values that no job can have, by CE and month (YYYYMM).
SELECT site, ce, month, count(*) AS jobs
FROM counted_jobs
WHERE is_possible = 0
GROUP BY site, ce, month
ORDER BY site, ce, month
