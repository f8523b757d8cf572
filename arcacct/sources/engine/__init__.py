"""The common parts of all sources of batch systems: imports, runs, and logs in one common table."""
