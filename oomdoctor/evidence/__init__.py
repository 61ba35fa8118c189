"""The evidence that a machine still has after a crash, in one archive beside the log."""
