"""stable-diffusion-webui-forge: how it divides the card between weights and computation, and where a model goes."""

from __future__ import annotations

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Role, usage
from oomdoctor.families.sentences import Sentence, bytes_of, number_of, reader, values
from oomdoctor.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan(Event):
    """What stays on the card, and what goes to the host's memory: page-locked where it is called shared."""

    family = "forge"
    kind = "move-plan"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "model_load"

    weights_share: float | None = usage()
    weights_bytes: int | None = usage()
    compute_share: float | None = usage()
    compute_bytes: int | None = usage()
    wanted_free_bytes: int | None = usage()
    free_bytes: int | None = usage()
    needed_bytes: int | None = usage()
    remaining_bytes: int | None = usage()
    missing_bytes: int | None = usage()  # printed as a negative rest
    swapped_bytes: int | None = usage()
    on_card_bytes: int | None = usage()
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
