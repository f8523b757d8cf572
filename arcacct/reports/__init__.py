"""The report of a month: its tables, and these as a page."""
