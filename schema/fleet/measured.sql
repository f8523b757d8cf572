-- What was measured of GPUs and energy of the same jobs; NULL where nothing tells it of any of them.
SELECT
  {keys}sum(gpu_allocated_s) AS gpu_s, sum(gpu_busy_s) AS gpu_busy_s, sum(gpu_energy_j) AS gpu_energy_j,
  sum(energy_j) AS energy_j
FROM (
  SELECT site AS of_site, ce AS of_ce, record_id AS of_record,
         CASE WHEN gpu_allocated_s BETWEEN 0 AND 9007199254740992 THEN 1e0 * gpu_allocated_s END AS gpu_allocated_s,
         CASE WHEN gpu_busy_s BETWEEN 0 AND 9007199254740992 THEN gpu_busy_s END AS gpu_busy_s,
         CASE WHEN gpu_energy_j BETWEEN 0 AND 9007199254740992 THEN gpu_energy_j END AS gpu_energy_j,
         CASE WHEN energy_j BETWEEN 0 AND 9007199254740992 THEN 1e0 * energy_j END AS energy_j
    FROM accelerators
) AS told
JOIN counted_jobs ON of_site = site AND of_ce = ce AND of_record = record_id
WHERE {where}
{grouped}
