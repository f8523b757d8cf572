"""
Configuration: arc.conf as ARC reads it, arcacct.conf beside it, and what both mean for us.

``parser`` and ``places`` are on the hook's path; ``settings`` and everything else here is not.
"""
