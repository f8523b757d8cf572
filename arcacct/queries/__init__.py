"""Questions: usage, the story of a job, a month in all places, health, plain SQL."""
