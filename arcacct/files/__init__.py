"""Reading and writing files that others make: in directories that others may write, growing, rotated, compressed."""
