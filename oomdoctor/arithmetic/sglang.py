"""SGLang's reservation. Its fraction is of what was free at start, before the weights; not of the card."""

from __future__ import annotations

from oomdoctor.arithmetic import shares


def at_start(after_weights: float, weights: float) -> float:
    """What was free before the weights were loaded: both figures stand in "Load weight end"."""
    return after_weights + weights


def pool_room(after_weights: float, before_weights: float, fraction: float) -> float:
    """What is left for the token pool: free after the weights, minus what the fraction keeps back. Negative where the
    weights alone are more than the fraction allows."""
    return after_weights - before_weights * (1 - fraction)


def pool_tokens(room: float, bytes_per_token: float, page: int = 1) -> int:
    return int(room / bytes_per_token) // page * page


def smallest_fraction(after_weights: float, before_weights: float, cache: float = 0) -> float:
    """The fraction that leaves room for so much cache beside the weights."""
    return shares.ceil(1 - (after_weights - cache) / before_weights, digits=3)


def fraction_that_leaves(fraction: float, left: float, wanted: float, before_weights: float) -> float:
    """The fraction that leaves `wanted` at the end, where this one leaves `left`."""
    return shares.floor(fraction - (wanted - left) / before_weights, digits=3)


def fraction_in_force(after_weights: float, before_weights: float, room: float) -> float:
    """The fraction that the engine really used, from the room that it found."""
    return 1 - (after_weights - room) / before_weights
