"""Reading and writing foreign files: in directories that other users may write, growing, rotated, compressed."""
