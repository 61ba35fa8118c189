"""What other settings would have changed: the rules by side, what was missing, and the comparison of both.

Nothing is imported here: a diagnosis needs only `needs`, and the rules where something was missing.
"""
