"""Sonar's telemetry: its envelopes as values, the data about jobs and nodes in them, and telemetry of this host."""
