"""SGLang's reservation. Its fraction is of what was free at start, before the weights; not of the card."""

from __future__ import annotations

from oomdoctor.arithmetic import shares


def smallest_fraction(after_weights: float, before_weights: float) -> float:
    """The fraction that the weights alone take: a larger one leaves room for the cache."""
    return shares.ceil(1 - after_weights / before_weights, digits=3)


def fraction_that_leaves(fraction: float, left: float, wanted: float, before_weights: float) -> float:
    """The fraction that leaves `wanted` at the end, where this one leaves `left`."""
    return shares.floor(fraction - (wanted - left) / before_weights, digits=3)
