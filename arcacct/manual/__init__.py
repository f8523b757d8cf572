"""The manual without a browser: the pages of docs/, found by name or by words, and shown as text."""
