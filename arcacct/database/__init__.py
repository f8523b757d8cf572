"""Our databases as SQLite files: opened, written in turn, upgraded, backed up, moved."""
