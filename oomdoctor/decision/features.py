"""What the classifier sees of a crash: names with values from 0 to 1, each with its reason.

Figures come in as shares of a whole (of the card, of the node, of what was asked for), because causes differ in
proportions and not in sizes, and in a few steps, because a linear model cannot bend. Words come in without numbers,
ids, paths and versions, because those belong to one job. What the rules say is left out: two opinions are worth more
when they are formed apart, and a model that saw the rules would only repeat them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from oomdoctor.families.unfamiliar import in_other_words
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import node_memory
from oomdoctor.patterns import late
from oomdoctor.signs.trace import card, phase

# A share below the first step is "none of it", above the last "nearly all".
STEPS: Final = (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)
# How a request compares with what lay unused: enough of it, or several times enough.
TIMES: Final = (0.1, 0.5, 1.0, 2.0)
WORDS_OF_A_LINE: Final = 40
LINES_BEFORE: Final = 4  # what a launcher prints in between pushes more than these away
INNER_FRAMES: Final = 6
LONGEST: Final = 600  # characters of a line

_WORD = late(r"[A-Za-z_][A-Za-z_]{2,40}")
_PATH = late(r"(?:[\w.~-]{0,80}/){1,40}[\w.-]{1,80}")
_HEX = late(r"\b(?:0x)?[0-9a-f]{8,64}\b")


def features(crash: Crash) -> dict[str, float]:
    """The features of a crash that are there; a feature that is not is nought."""
    return dict.fromkeys(
        (*_of_the_root(crash), *_of_the_card(crash), *_of_the_node(crash), *_of_the_job(crash), *_words(crash)), 1.0
    )


def _of_the_root(crash: Crash) -> Iterator[str]:
    root = crash.root
    yield f"root {root.family} {root.kind}"  # the message narrows the causes down most
    yield f"pool {crash.pool}"  # a cause belongs to few pools
    yield f"stage {crash.stage}"  # the same refusal means another cause in another stage
    if in_other_words(root):
        yield "in other words"  # the kind is then a guess, and the words tell more
    yield f"strength {root.strength}"  # a bare kill may have other reasons than memory
    for kind in {f"{event.family} {event.kind}" for event in crash.events if event is not root}:
        yield f"with {kind}"  # what is told beside it: tables, limits, an engine's figures
    if crash.trajectory is not None and crash.trajectory.growth_bytes:
        yield "grows"  # a leak is told by nothing else
    if root.around.cut:
        yield "cut"  # the frames that would name the cause are lost


def _of_the_card(crash: Crash) -> Iterator[str]:
    it = card(crash)
    yield from _step("asked of the card", it.tried_bytes, it.total_bytes)  # absurd sizes, one huge tensor
    yield from _step("free of the card", it.free_bytes, it.total_bytes)  # a refusal beside free memory is odd
    yield from _step("own of the card", it.own_bytes or it.reserved_bytes, it.total_bytes)  # mine, or somebody else's
    yield from _step("others of the card", it.others_bytes, it.total_bytes)  # a neighbour
    yield from _step("unallocated of the card", it.unallocated_bytes, it.total_bytes)  # fragments worth the name
    if it.tried_bytes and it.unallocated_bytes is not None:
        times = it.unallocated_bytes / it.tried_bytes
        yield f"unallocated / asked {_above(times, TIMES)}"  # whether the fragments would have held the request
    if it.allowed_bytes is not None:
        yield "allowed"  # a cap below the hardware


def _of_the_node(crash: Crash) -> Iterator[str]:
    memory = node_memory(crash)
    if memory is None or not memory.holders or not memory.base_bytes:
        return
    first = memory.holders[0]
    yield from _step("hog of the node", first.bytes, memory.base_bytes)  # one, or one name, holds it
    yield f"hogs {'one' if len(first.sizes) == 1 else 'several'}"  # one process, or many of a name
    yield f"hog's role {first.role}"  # reward models have a cause of their own
    if first.outside_ray:
        yield "hog outside Ray"  # Ray neither counts nor ends it


def _of_the_job(crash: Crash) -> Iterator[str]:
    for name in crash.context.frameworks:
        yield f"framework {name}"  # an engine fails in other ways than a trainer
    for name in crash.context.settings:
        last = name.rsplit(".", 1)[-1].replace("-", "_").lower()
        if last in _TELLING:
            yield f"setting {last}"  # offloading and shares are causes of their own
    doing = phase(crash)
    if doing:
        yield f"phase {doing}"  # what the traceback was busy with


_TELLING: Final = frozenset(
    ("adam_offload", "offload_optimizer", "swap_space", "gpu_memory_utilization", "vllm_gpu_memory_utilization",
     "mem_fraction_static", "colocate_all_models", "free_cache_engine", "max_model_len", "gradient_checkpointing",
     "object_store_memory", "num_workers")
)  # fmt: skip


def _words(crash: Crash) -> Iterator[str]:
    """The words near the root: what a new wording has in common with the known ones."""
    around = crash.root.around
    for word in islice(_masked(crash.root.at.text), WORDS_OF_A_LINE):
        yield f"word {word}"
    for line in around.before[-LINES_BEFORE:]:
        for word in islice(_masked(line), WORDS_OF_A_LINE):
            yield f"near {word}"  # a source line above a message that lost its frames, a progress bar
    for frame in islice(crash.frames(), INNER_FRAMES):
        for word in _masked(f"{frame.function} {frame.code}"):
            yield f"frame {word}"  # where it happened names the cause more often than the message


def holds_words(feature: str) -> bool:
    """Whether the feature is a word of the log."""
    return feature.startswith(("word ", "near ", "frame "))


def _masked(line: str) -> Iterator[str]:
    """The words of a line without paths, ids and numbers."""
    for word in _WORD.findall(_HEX.sub(" ", _PATH.sub(" ", line[:LONGEST]))):
        yield word.strip("_").lower()


def _step(name: str, part: int | None, whole: int | None) -> Iterator[str]:
    if part is not None and whole:
        yield f"{name} {_above(part / whole, STEPS)}"


def _above(share: float, steps: tuple[float, ...]) -> str:
    """The highest of the steps that the share reaches."""
    reached = [step for step in steps if share >= step]
    return f">= {reached[-1]:g}" if reached else f"< {steps[0]:g}"


__all__ = ["features", "holds_words"]
