"""The dataset of many CEs, as files: its layout, and the code that writes the finished jobs of this CE into it."""
