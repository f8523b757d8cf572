"""What this host is and does, by psutil and /proc: records as Sonar writes them, machine/job features."""
