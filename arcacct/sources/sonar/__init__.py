"""Sonar's telemetry: envelopes as values, what they say of jobs and nodes, and telemetry of this host."""
