"""stable-diffusion-webui-forge: how it divides the card between weights and computation, and where a model goes."""

from __future__ import annotations

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Role, Usage
from oomdoctor.families.sentences import Sentence, bytes_of, number_of, reader, values


class MovePlan(Event, frozen=True, kw_only=True):
    """What stays on the card, and what goes to the host's memory: page-locked where it is called shared."""

    family = "forge"
    kind = "move-plan"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "model_load"

    weights_share: Usage[float | None] = None
    weights_bytes: Usage[int | None] = None
    compute_share: Usage[float | None] = None
    compute_bytes: Usage[int | None] = None
    wanted_free_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    needed_bytes: Usage[int | None] = None
    remaining_bytes: Usage[int | None] = None
    missing_bytes: Usage[int | None] = None  # printed as a negative rest
    swapped_bytes: Usage[int | None] = None
    on_card_bytes: Usage[int | None] = None
    swap: str | None = None  # "shared", "blocked method": page-locked or not


_SENTENCES = (
    Sentence("[GPU Setting] You will use", MovePlan),
    Sentence("[Unload] Trying to free", MovePlan),
    Sentence("[Memory Management] ", MovePlan),
)


def _share(text: str) -> float | None:
    number = number_of(text.strip().rstrip("%"))
    return None if number is None else round(number / 100, 6)


def _swap(text: str) -> str:
    return "shared" if "hared" in text else "blocked"


def _rest(text: str) -> int | None:
    """A size without its sign: which rest it is, the clause's name tells."""
    return bytes_of(text.lstrip("-"))


_CLAUSES = {
    "weights": values(weights_share=_share, weights_bytes=bytes_of),
    "compute": values(compute_share=_share, compute_bytes=bytes_of),
    "to_free": values(wanted_free_bytes=bytes_of),
    "free": values(free_bytes=bytes_of),
    "needed": values(needed_bytes=bytes_of),
    "inference": values(compute_bytes=bytes_of),
    "remaining": values(remaining_bytes=bytes_of),
    "missing": values(missing_bytes=_rest),
    "swapped": values(swap=_swap, swapped_bytes=bytes_of),
    "on_card": values(on_card_bytes=bytes_of),
}

FAMILY = Family(
    name="forge",
    anchors=(),
    triggers=tuple(sentence.head for sentence in _SENTENCES),
    read=reader("forge", _SENTENCES, _CLAUSES),
)
