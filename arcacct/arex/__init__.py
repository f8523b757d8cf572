"""A-REX: the control directory, the spool of the launcher, the sweep, and the databases of A-REX."""
