"""The decision: every cause's table read, the answers ranked, the verdict and how sure it is. Nobody else decides."""
