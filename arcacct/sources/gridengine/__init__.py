"""Grid Engine: its accounting files as records, jobs made from them, and qacct's questions."""
