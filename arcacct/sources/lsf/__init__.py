"""LSF as a source: its lsb.acct."""
