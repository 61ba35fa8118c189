"""The knobs of the host's memory: its processes, what is put there, and its limits."""
