"""Configuration: arc.conf as ARC reads it, arcacct.conf next to it, and the settings of both for arcacct."""
