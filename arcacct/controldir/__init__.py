"""Where A-REX keeps a job's files and what they say. On the hook's path: standard library only, and little of it."""
