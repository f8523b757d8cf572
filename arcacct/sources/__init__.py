"""Other sources than A-REX: bytes in, rows out, nothing read or written in the parsers."""
