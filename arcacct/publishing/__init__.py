"""Publishing of new records and sums: runs, batches, ledger, safeguard, delivery. Knows no receiver."""
