-- An efficiency is of jobs whose wall time and CPU time are both known: the sums have the CPU time and the core seconds of
-- the others, in the place of the wall time of jobs without CPU time.
-- These views read some that are not there while scripts run, so that SQLite would refuse to rename a column.
DROP VIEW IF EXISTS v1_job_telemetry;
DROP VIEW IF EXISTS v1_jobs;
DROP VIEW IF EXISTS v1_usage_by_month;
DROP VIEW IF EXISTS CurrentUsage;
ALTER TABLE MonthlyUsage RENAME COLUMN WallNoCpu TO CoreUnpaired;
ALTER TABLE JobUsageShares RENAME COLUMN WallNoCpu TO CoreUnpaired;
ALTER TABLE UsageBreakdown RENAME COLUMN WallNoCpu TO CoreUnpaired;
ALTER TABLE MonthlyUsage ADD COLUMN CpuUnpaired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE JobUsageShares ADD COLUMN CpuUnpaired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE UsageBreakdown ADD COLUMN CpuUnpaired INTEGER NOT NULL DEFAULT 0;

-- Pruned jobs have their amounts there, too. No record is logged as changed, so nothing is published again.
UPDATE JobUsageShares
   SET CpuUnpaired = Cpu,
       CoreUnpaired = min(Wall * ifnull((SELECT CPUCount FROM MonthlyUsage
                                          WHERE MonthlyUsage.CellID = JobUsageShares.CellID), 1)
                          + CoreRest, 9007199254740992)
 WHERE NoWall OR NoCpu;
UPDATE MonthlyUsage SET CpuUnpaired = Part.CpuUnpaired, CoreUnpaired = Part.CoreUnpaired
  FROM (SELECT CellID, sum(CpuUnpaired) AS CpuUnpaired, sum(CoreUnpaired) AS CoreUnpaired
          FROM JobUsageShares WHERE NoWall OR NoCpu GROUP BY CellID) AS Part
 WHERE MonthlyUsage.CellID = Part.CellID;
UPDATE UsageBreakdown SET CpuUnpaired = Part.CpuUnpaired, CoreUnpaired = Part.CoreUnpaired
  FROM (SELECT FinerID, sum(CpuUnpaired) AS CpuUnpaired, sum(CoreUnpaired) AS CoreUnpaired
          FROM (SELECT MonthID AS FinerID, CpuUnpaired, CoreUnpaired FROM JobUsageShares WHERE NoWall OR NoCpu
                UNION ALL
                SELECT DayID, CpuUnpaired, CoreUnpaired FROM JobUsageShares WHERE NoWall OR NoCpu
                UNION ALL
                SELECT HostID, CpuUnpaired, CoreUnpaired FROM JobUsageShares WHERE NoWall OR NoCpu)
         GROUP BY FinerID) AS Part
 WHERE UsageBreakdown.FinerID = Part.FinerID;
