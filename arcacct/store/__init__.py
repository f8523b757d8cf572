"""The only package that speaks SQL. `connect`, `transaction`, `recorder` and `spool` are on the hook's path."""
