"""What a checkpoint's name says of its weights: how many there are, and in how many bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oomdoctor.patterns import late

# In the names of checkpoints whose weights have four bits or fewer; GGUF files mostly have where they do not say more
_FEW_BITS: Final = late(
    r"(?i)(?:^|[-_/.:])(?:[234]-?bits?|bnb|awq|gptq|int4|nf4|mxfp4|nvfp4|w4a(?:8|16)|exl[23]|"
    r"i?q[2-4]_(?:[01k]|k_[sml]|xs|xxs))(?:$|[-_/.])"
)
_EIGHT_BITS: Final = late(r"(?i)(?:^|[-_/.:])(?:8-?bits?|fp8|int8|w8a(?:8|16)|q8_\w{1,4})(?:$|[-_/.:])")
_GGUF: Final = late(r"(?i)\bgguf\b")
_MORE_BITS: Final = late(r"(?i)(?:^|[-_/.:])(?:b?f16|fp16|f32|q[568]_\w{1,4})(?:$|[-_/.:])")
_SIZE: Final = late(r"(?<![A-Za-z0-9.])(\d{1,3}(?:[._]\d)?)[bB](?![a-zA-Z0-9])")


def has_few_bits(model: str) -> bool:
    """Whether a checkpoint of this name has weights of four bits or fewer."""
    of_ggml = _GGUF.search(model) is not None and _MORE_BITS.search(model) is None
    return of_ggml or _FEW_BITS.search(model) is not None


def has_eight_bits(model: str) -> bool:
    """Whether a checkpoint of this name has weights of eight bits."""
    return _EIGHT_BITS.search(model) is not None


def billions(models: Iterable[str]) -> float | None:
    """Of parameters, as the first of the names that says so."""
    sizes = (_SIZE.search(name.rsplit("/", 1)[-1]) for name in models)
    return next((float(size[1].replace("_", ".")) for size in sizes if size is not None), None)


__all__ = ["billions", "has_eight_bits", "has_few_bits"]
