"""
The finished jobs of this CE as months of a dataset (`arcacct.dataset`), which every engine reads.

Written anew is what changed: the log of finished records tells most of it, counts by month tell the rest.
"""
