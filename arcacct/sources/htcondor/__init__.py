"""HTCondor's history as a source: the ClassAds of jobs that have left the queue."""
