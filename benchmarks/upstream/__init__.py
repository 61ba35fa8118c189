"""What a program can print of memory, by its source, and whether it is read: `python -m benchmarks.upstream`."""
