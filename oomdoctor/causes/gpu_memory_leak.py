"""Device memory grows step after step until it is full."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, growth_of_card, snapshot

CAUSE = Cause(
    id="gpu-memory-leak",
    title=mark("GPU memory grows with every step"),
    headlines=(
        mark("{never_freed} on {gpu} are never freed[: allocated in {keeper}]"),
        mark("GPU memory grows by about {gpu_growth}, from {growth_from} to {growth_to}"),
        mark("Free GPU memory falls by about {gpu_fall}, from {growth_from} to {growth_to}"),
        mark("Free GPU memory fell from {growth_from} to {growth_to} in {gpu_fell}"),
    ),
    pools=("gpu",),
    excluded=(growth_of_card.card_does_not_grow,),
    signs=(
        Row(snapshot.blocks_never_freed, Grade.PROVES),
        Row(growth_of_card.card_grows_for_long, Grade.PROVES),
        Row(growth_of_card.card_grows, Grade.NAMES),
        Row(growth_of_card.card_grows_by_fits, Grade.HINTS),
        Row(growth_of_card.people_say_that_it_grows, Grade.HINTS),
    ),
    knobs=("clear-references", "smaller-buffers", "pin-version", "restart-periodically"),
    before=("activations",),
)
