"""Our databases as files of SQLite: opened, written in turn, taken forward, backed up, moved."""
