"""Machine/job features (HSF-TN-2016-02): written, read, checked, and added to records."""
