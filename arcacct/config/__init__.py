"""Configuration: arc.conf as ARC reads it, arcacct.conf beside it, and what both mean for arcacct."""
