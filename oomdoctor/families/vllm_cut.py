"""Logs that end inside an engine's traceback: which step failed is there, of what is not.

These steps exist to fill or measure the card, so memory is a usual reason; that makes it a hint and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page

MOST_LINES = 60  # a traceback that goes on for longer after this frame is not about this step

LEAST_BEGUN = 20  # characters
# Errors of a lack of memory, and with how many of their characters hardly any other is meant ("operation not supported"
# begins with an o, too)
_SENTENCES = {
    "RuntimeError: CUDA Error: out of memory": 27,
    "RuntimeError: CUDA error: out of memory": 27,
    "torch.OutOfMemoryError: CUDA out of memory": 20,
    "torch.cuda.OutOfMemoryError: CUDA out of memory": 20,
    "ValueError: No available memory for the cache blocks": 22,
}

# They look whether the KV cache has room, and raise for nothing else: worker/worker.py 0.2.7 to 0.9,
# v1/core/kv_cache_utils.py since 0.8
CHECKS: Final = (
    "raise_if_cache_size_invalid", "check_enough_kv_cache_memory", "_check_enough_kv_cache_memory",
)  # fmt: skip
# The step's function, and the stage of the job
_STEPS = {
    "determine_num_available_blocks": "memory_profiling",
    "determine_available_memory": "memory_profiling",
    "profile_run": "memory_profiling",
    "_dummy_sampler_run": "engine_init",
    "capture_model": "cuda_graph_capture",
    "_allocate_kv_cache_tensors": "kv_cache_init",
    **dict.fromkeys(CHECKS, "kv_cache_init"),
    "python_create_and_map": "weight_sync",
}
_STEP = late(r"\b(" + "|".join(_STEPS) + r")\b")
_HEAD = late(r"File \".{1,300}\", line \d{1,7}, in (\w{1,100})")
_IN_A_TRACEBACK = late(r"\s|File \"|Exception in worker ")


class CutTraceback(Event, frozen=True, kw_only=True):
    """The last lines of the log are a traceback through this step."""

    family = "vllm_cut"
    kind = "cut-traceback"
    once_a_log = True

    pool: str = "gpu"
    strength: int = 1

    step: str
    begun: bool | None = None  # as far as the error's own words go, they are those of a lack of memory
    said: str | None = None  # these words, without the error's class


class CutCheck(Event, frozen=True, kw_only=True):
    """The last lines of the log are a traceback through vLLM's own look at the size of its cache: of its words only
    these are missing which of the two it was, no block or too few."""

    family = "vllm_cut"
    kind = "cut-check"
    once_a_log = True

    pool: str = "kv_cache"
    strength: int = 2

    step: str


def _begun(text: str) -> bool:
    """Whether the log is cut within the error's own words, as far as it goes of a lack of memory."""
    return len(text) >= LEAST_BEGUN and any(sentence.startswith(text) for sentence in _SENTENCES)


def _tells(text: str) -> bool:
    """Whether no other error begins like this."""
    return any(sentence.startswith(text) and len(text) >= least for sentence, least in _SENTENCES.items())


def _leads_on(text: str, step: str) -> bool:
    """Whether the line heads a frame of another function, which the check called."""
    frame = _HEAD.search(text)
    return frame is not None and not step.startswith(frame[1])


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    step = _STEP.search(line.text)
    rest = page.lines[index + 1 :]
    if step is None or not page.ends or len(rest) > MOST_LINES:
        return
    below = [r for r in rest if r.text.strip()]
    error = below.pop() if below and _begun(below[-1].text) else None
    telling = error if error is not None and _tells(error.text) else None
    if _IN_A_TRACEBACK.match(line.text) and all(_IN_A_TRACEBACK.match(r.text) for r in below):
        last = telling or error or (below[-1] if below else line)
        if step[1] in CHECKS and telling is None and not any(_leads_on(r.text, step[1]) for r in below):
            yield CutCheck(
                at=place_of(page, line, last),
                time=line.mark.time,
                process=process_of(line),
                stage=_STEPS[step[1]],
                step=step[1],
            )
            return
        yield CutTraceback(
            at=place_of(page, telling or line, last),
            time=line.mark.time,
            process=process_of(line),
            stage=_STEPS[step[1]],
            step=step[1],
            begun=True if telling else None,
            said=telling.text.partition(": ")[2] if telling else None,
            strength=2 if telling else 1,
        )


FAMILY = Family(
    name="vllm_cut",
    anchors=tuple(_STEPS),
    triggers=tuple(_STEPS),
    read=read,
)
