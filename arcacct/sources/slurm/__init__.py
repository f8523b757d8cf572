"""Slurm's own accounting as a source: the output of sacct."""
