"""
The dataset of many CEs, as files: where they stand, what is in them, and which of them count.

It is what `export` writes and everybody else reads, with whatever engine; nothing here needs one.
"""
