"""ARC itself: the control directory, the spool of the launcher, the sweep, and the databases that A-REX keeps."""
