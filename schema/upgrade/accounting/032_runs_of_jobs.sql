-- Core seconds of jobs whose runs had different cores: the sums have what wall time x cores lacks of them.
ALTER TABLE MonthlyUsage ADD COLUMN CoreRest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE JobUsageShares ADD COLUMN CoreRest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE UsageBreakdown ADD COLUMN CoreRest INTEGER NOT NULL DEFAULT 0;

-- Phases of a run with different cores, and whether another run follows.
ALTER TABLE BatchRuns ADD COLUMN Phases TEXT NOT NULL DEFAULT '';
ALTER TABLE BatchRuns ADD COLUMN CoreS INTEGER;
ALTER TABLE BatchRuns ADD COLUMN IsFinal INTEGER NOT NULL DEFAULT 1;
