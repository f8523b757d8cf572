"""The command line: options in, one call, a table or an error out. Commands are imported when they run."""
