"""Buffers that llama.cpp and Ollama could not get: ggml puts what it keeps on a device into few large ones."""

from __future__ import annotations

from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.ollama import Short
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.units import show


@sign
def compute_buffer_refused(crash: Crash) -> Seen | None:
    """What the largest batch needs, which is reserved at the start, or the pool for conversions, which grows later."""
    root = crash.root
    if not isinstance(root, BufferRefused | Short) or root.what not in ("compute", "pool"):
        return None
    if root.what == "pool":
        refused = say(
            "More memory for the pool of intermediate results was refused, beside weights and KV "
            "cache that had found room."
        )
    elif root.tried_bytes:
        refused = say(
            "The compute buffer of {tried} was refused, beside weights and KV cache that had found room.",
            tried=show(root.tried_bytes),
        )
    else:
        refused = say("The compute buffer was refused, beside weights and KV cache that had found room.")
    grows = say("It grows with the batch of tokens (-ub) and, without flash attention, with the context.")
    return Seen(words=joined((refused, grows)), evidence=(root,))
