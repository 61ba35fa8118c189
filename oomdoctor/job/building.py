"""Tracebacks that end where something is built: a constructor, a copy of a model, what prepares one for its devices.

None of these computes with a batch. They put models on the card, whatever the trainer is called; a traceback that is
cut there (people paste the part that they understand) was on its way to a move or a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oomdoctor.families.event import Frame
from oomdoctor.patterns import late

_CONSTRUCTOR: Final = late(r"__(?:init|post_init|new)__\Z")
_PLACES: Final = late(
    r"_{0,2}(?:deepcopy(?:_\w{1,40}|__)?|from_pretrained|create_reference_model|(?:move_|place_)?model_to_device"
    r"|prepare(?:_(?:model|module|peft|deepspeed|fsdp|ddp)\w{0,40})?|setup(?:_(?:model|module|trainer|fsdp)\w{0,40})?)\Z"
)
# What a constructor's line may do and still only build: hand on, call a class or what builds, move
_ONLY_BUILDS: Final = late(
    r"\A\s{0,80}\Z|\b__(?:post_)?(?:init|new)__\(|\.(?:to|cuda|half|bfloat16|float)\(|deepcopy\("
    r"|\b_?(?:load|init|create|build|make|get|prepare|setup|set|move|place|wrap|shard|register|from|configure)(?:_\w{1,60})?\("
    r"|(?:\A|[\s=.(])_?[A-Z]\w{1,80}\("
)
# What happens again and again; what is built on the way belongs to a batch
_STEP: Final = late(
    r"(?:\A|_)(?:step|epoch|loop|iteration|iter|batch|collate(?:_fn)?|next|getitem|forward|backward|predict|generate"
    r"|evaluate)(?:_|\Z)"
)
_BEFORE_ITS_LOOP: Final = "_inner_training_loop"  # transformers: it prepares the model first
# What holds data and no model
_DATA: Final = late(r"(?i)data_?set|data_?loader|data_?module|sampler|collat|batch|buffer|cache|optimi[sz]er|scheduler")


def ends_in_building(trace: Sequence[Frame]) -> bool:
    """Whether the traceback ends in what builds or places something, outside of any step."""
    if not trace:
        return False
    last = trace[-1]
    function = _name(last)
    if not _PLACES.match(function) and not (_CONSTRUCTOR.match(function) and _ONLY_BUILDS.search(last.code)):
        return False
    return not any(_STEP.search(name) for name in map(_name, trace) if name != _BEFORE_ITS_LOOP)


def places_a_model(trace: Sequence[Frame]) -> bool:
    """Whether what it ends in puts a model on the card; a data set's constructor builds as well."""
    if not ends_in_building(trace):
        return False
    file = trace[-1].file.replace("\\", "/").rpartition("/")[2]
    called = (frame.code.partition("(")[0] for frame in trace[-2:])
    return not any(_DATA.search(text) for text in (file, *called))


def _name(frame: Frame) -> str:
    """The function's own name: Python 3.11 and later may print the class before it."""
    return frame.function.rpartition(".")[2]
