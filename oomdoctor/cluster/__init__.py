"""The first half of the street as Ray tasks, one on every node: logs are read where they lie; what was read travels."""
