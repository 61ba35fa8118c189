"""Hostile logs: fixtures changed at random, and what must hold of any of them."""
