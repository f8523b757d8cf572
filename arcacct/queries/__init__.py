"""Queries: usage, the history of a job, a month in all places, health, plain SQL."""
