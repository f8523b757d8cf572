"""Questions: usage, one job's story, a month in all places, is all well, plain SQL."""
