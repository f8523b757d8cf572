"""The dataset of many CEs, as files: its layout, and what writes the finished jobs of this CE into it."""
