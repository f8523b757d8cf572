"""ARC itself: the control directory, the hook and its spool, the sweep, and the databases that A-REX keeps."""
