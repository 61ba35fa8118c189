"""The classifier: a linear model over a crash's features, and one ranking of its word and the rules'."""
