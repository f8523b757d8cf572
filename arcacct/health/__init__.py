"""The health of a host and a site: facts, and the checks that `doctor`, `setup`, `status` and `metrics` show."""
