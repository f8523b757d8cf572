"""Sonar's telemetry: envelopes as values, what they tell of jobs and nodes; telemetry of this host, too."""
