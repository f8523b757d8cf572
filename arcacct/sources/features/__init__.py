"""Machine/job features (HSF-TN-2016-02): write, read and check them, and add them to records."""
