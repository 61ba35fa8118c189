"""The knobs of a cluster: what a job requests of it, and what its nodes have."""
