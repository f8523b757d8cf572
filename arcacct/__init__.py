"""Accounting of a NorduGrid ARC computing element. Importing this package imports nothing."""

__version__ = "0.3.0"
