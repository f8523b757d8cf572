"""Slurm's own accounting as a source: what sacct prints."""
