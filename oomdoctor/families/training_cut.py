"""Logs that end inside a trainer's traceback: where it failed is there, of what is not.

What gathers, computes or updates a model's states fails of memory more often than of anything else, which is a hint
and no more. A driver that waits for its workers only hears that one of them failed: there it takes a sign that memory
was short before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

MOST_LINES = 60  # a traceback that goes on for longer after this frame is not about this step
ABOVE = 400  # lines that are searched for what went before
WAIT: Final = "wait"  # the step of who waits for others, one of which may have been killed

_STEPS = (
    ("gather", "/deepspeed/runtime/zero/partition_parameters.py", late(r", in (?:__enter__|_?all_gather\w{0,40})$")),
    ("gather", "/torch/distributed/fsdp/", late(r", in (?:_?all_gather\w{0,40}|_?unshard\w{0,40})$")),
    ("backward", "/torch/autograd/", late(r", in (?:backward|_engine_run_backward)$")),
    ("optimizer", "/torch/optim/", late(r", in (?:step|_init_group|_?multi_tensor_\w{1,20})$")),
    (WAIT, "/ray/_private/", late(r", in (?:get|get_objects|wrapper|auto_init_wrapper)$")),
)
_FRAME = late(r'\s*File "')
_INSIDE = late(r"\s|File \"|$")
_TRAINER = late(r'File "[^"]{1,300}/(?:openrlhf|verl|orz|skyrl|skyrl_train|nemo_rl|slime|roll)/')
# DeepSpeed prints the one where ZeRO-3 loses count of what it has to release, the other when the allocator is full.
_SHORT = late(r"Invalidate trace cache @ step|pytorch allocator cache flushes since last step")
_SAID = late(r"(?:[\w.]{1,80}\.)?[A-Z]\w{0,60}(?:Error|Exception)\b(?:: |$)")


class CutTraining(Event, frozen=True, kw_only=True):
    """The last lines of the log are a trainer's traceback through this step."""

    family = "training_cut"
    kind = "cut-traceback"
    once_a_log = True

    pool: str = "gpu"
    strength: int = 1

    step: str | None  # "gather", "backward", "optimizer", or "wait" for the workers


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    above, below = page.lines[max(0, index - ABOVE) : index], page.lines[index + 1 :]
    if not page.ends or len(below) > MOST_LINES or not _FRAME.match(line.text):
        return
    step = next((name for name, file, function in _STEPS if file in line.text and function.search(line.text)), None)
    if step is None or not all(_INSIDE.match(other.text) for other in below):
        return
    if any(_SAID.match(other.text) for other in above) or (step == WAIT and not _short_of_memory(above)):
        return
    last = next((other for other in reversed(below) if other.text.strip()), line)
    shown = last if step == WAIT else line  # who waits shows nothing of what failed
    yield CutTraining(at=place_of(page, shown, last), time=line.mark.time, process=process_of(line), step=step)


def _short_of_memory(above: list[Line]) -> bool:
    """Whether a trainer's driver waits, and one of its workers had said before that memory was short."""
    waits = any(_TRAINER.search(line.text) for line in above)
    return waits and any(_SHORT.search(line.text) for line in above)


FAMILY = Family(
    name="training_cut",
    anchors=("deepspeed.zero.GatheredParameters(",),
    triggers=tuple(dict.fromkeys(file for _, file, _ in _STEPS)),
    read=read,
)
