"""What the frames of a traceback say of what was being done, and Ray's lines about the call that failed.

The most telling frame counts, the innermost of equals: an optimizer's first state inside DeepSpeed's `backward` is the
optimizer step, a forward that checkpointing runs again inside `backward` is backward. A traceback in which nothing
tells and that ends where something is built (a constructor, a copy of a model, what prepares one for its devices) put
a model on the card: none of these computes with a batch, whatever the trainer is called, and people paste the part
that they understand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Final

from oomdoctor.families.event import Frame
from oomdoctor.job import rows, verbs
from oomdoctor.job.frameworks import files_of_simulation
from oomdoctor.job.roles import role_of
from oomdoctor.job.rows import SILENCE, Row
from oomdoctor.patterns import late

RAY: Final = "ray"  # the file of a frame that is Ray's line about a call
TELLING: Final = 2  # the weight from which a frame needs no other witness
MOVING: Final = 1.5  # the weight of a move: beyond what every stage does, and below a stage's own work
_MOVED: Final = SILENCE._replace(weight=MOVING, stage="model_load", step="move")

# Physics has verbs of networks: MuJoCo's `forward` computes accelerations
_SIMULATOR: Final = late(rf"(?:^|/)(?:{files_of_simulation()})/")

# What these run is finer than they are: the innermost of the others, or a forward pass
_RUNS_A_PASS: Final = frozenset({"evaluate", "score", "generate", "profile", "capture", "sync", "forward", "train"})
_IS_RUN: Final = frozenset({"optimize", "backward", "load"})
# PyTorch's name for it, and what Chainer's and Paddle's optimizers call it
_CLOSURE: Final = late(r"\b(?:closure|loss_?fu?n(?:c(?:tion)?)?)\((?:\)|\*)")
# What a line of a script makes, and the names in a line
_MADE: Final = late(r"\s{0,80}([A-Za-z_]\w{0,60}) = ")
_NAMES: Final = late(r"(?<![\w.'\"])[A-Za-z_]\w{0,60}\b(?! =)(?!=[^=])")
# What stands between a call and the function that is called
_WRAPPER: Final = late(
    r"(?:\A|_)(?:wrap\w{0,20}|inner|func|fn|decorate\w{0,20}|reraise\w{0,40}|call|dispatch|remote)(?:_|\Z)|lambda"
)

# Markdown takes the underscores of a name for its own
_CONSTRUCTOR: Final = late(r"(?:__(?:init|post_init|new)__|init)\Z")
_PLACES: Final = late(
    r"_{0,2}(?:deepcopy(?:_\w{1,40}|__)?|from_pretrained|create_reference_model|(?:move_|place_)?model_to_device"
    r"|prepare(?:_(?:model|module|peft|deepspeed|fsdp|ddp)\w{0,40})?|setup(?:_(?:model|module|trainer|fsdp)\w{0,40})?)\Z"
)
# What a constructor's line may do and still only build: hand on, call a class or what builds, move
_ONLY_BUILDS: Final = late(
    r"\A\s{0,80}\Z|\b__(?:post_)?(?:init|new)__\(|\.(?:to|cuda|half|bfloat16|float)\(|deepcopy\("
    r"|\b_?(?:load|init|create|build|make|get|prepare|setup|set|move|place|wrap|shard|register|from|configure)(?:_\w{1,60})?\("
    r"|(?:\A|[\s=.(])_?[A-Z]\w{1,80}\(|\btorch\.(?:empty|zeros|ones|full|rand\w{0,6})\("
)
# The innermost line, where it is a layer or a model that moves: whoever moves it does not compute with it yet
_MOVES_A_LAYER: Final = late(
    r"\b(?:\w{1,40}_)?(?:model|module|layer|block)s?(?:\[\w{1,20}\])?\.(?:cuda\(|to\([\"']?(?:(?i:cuda)|\w{0,20}device))"
)
# What happens again and again; what is built on the way belongs to a batch
_STEP: Final = late(
    r"(?:\A|_)(?:step|epoch|loop|iteration|iter|batch|collate(?:_fn)?|next|getitem|forward|backward|predict|generate"
    r"|evaluate)(?:_|\Z)"
)
_BEFORE_ITS_LOOP: Final = "_inner_training_loop"  # transformers: it prepares the model first
# What holds data and no model
_DATA: Final = late(
    r"(?i)camera|scene|data_?set|data_?loader|data_?module|sampler|collat|batch|buffer|cache|optimi[sz]er|scheduler"
)
_MADE_AND_MOVED: Final = late(r"(?:\A|[\s=.(])[A-Z]\w{1,80}\([^()]{0,120}\)\.(?:to|cuda|half)\(")


def of_frames(trace: Sequence[Frame]) -> tuple[Row, Frame | None]:
    """The most telling frame and what it says; what it ran in the end is the finer verb.

    An optimizer's step may run the passes themselves, as its closure: what stands around that does not tell.
    """
    trace = _not_done(trace)
    begin = next((at for at in range(len(trace) - 1, 0, -1) if _runs_a_closure(trace[at - 1])), 0)
    told = [_of_frame(frame, after) for frame, after in zip_longest(trace[begin:], trace[begin + 1 :])]
    best = max((at for at, row in enumerate(told) if row.stage), key=lambda at: (told[at].weight, at), default=None)
    if best is None:
        return SILENCE, None
    return told[best]._replace(step=_step(told, best)), trace[begin + best]


def _not_done(trace: Sequence[Frame]) -> Sequence[Frame]:
    """Without the lines of a script, pasted without heads, whose result a later one of them uses: these are done."""
    lines = [frame.code for frame in trace if not frame.file]
    done = {code for at, code in enumerate(lines) if (made := _MADE.match(code)) and _is_used(made[1], lines[at + 1 :])}
    return [frame for frame in trace if frame.file or frame.code not in done] if done else trace


def _is_used(name: str, lines: Iterable[str]) -> bool:
    return any(name in _NAMES.findall(line) for line in lines)


def _runs_a_closure(frame: Frame) -> bool:
    return "closure" in frame.function or _CLOSURE.search(frame.code) is not None


def _step(told: Sequence[Row], best: int) -> str:
    if any(row.step == "wake" for row in told):
        return "wake"  # what an engine allocates then it gave away before
    step = told[best].verb
    if step not in _RUNS_A_PASS:
        return step
    inner = [row.verb for row in told[best + 1 :]]
    return next((one for one in reversed(inner) if one in _IS_RUN), "forward" if "forward" in inner else step)


def _of_frame(frame: Frame, after: Frame | None) -> Row:
    """What a frame says; the innermost, and what calls through a wrapper, also by the calls of its line."""
    if _SIMULATOR.search(frame.path):
        return SILENCE
    row = _by_name(frame)
    if after is None and row.weight <= MOVING and _MOVES_A_LAYER.search(frame.code):
        return _MOVED
    if frame.file != RAY and (after is None or _WRAPPER.search(after.function)):
        return max(verbs.of_call(frame.code), row, key=lambda one: one.weight)  # of equals what is called
    return row


@lru_cache(maxsize=4096)  # the ranks of a job fail at the same frames
def _by_name(frame: Frame) -> Row:
    if frame.file == RAY:
        return of_remote_call(frame.function)
    function = _name(frame)
    file = "/" + frame.path
    named = rows.of_function(function)
    told = max((named, SILENCE, *rows.of_place(file, function), *rows.of_code(frame.code)), key=lambda row: row.weight)
    verb = verbs.of_identifier(function, _place_of(frame))
    return told if named.stage or (told.stage and told.weight >= verb.weight) else verb


def _place_of(frame: Frame) -> str:
    """The class of a function where Python prints it, its folder and its file."""
    parts = frame.path.removesuffix(".py").rsplit("/", 2)
    return " ".join((frame.function.rpartition(".")[0], *parts[-2:]))


def of_remote_call(call: str) -> Row:
    """Ray's line about the call that failed: here `__init__` is what it says, other than in a kill's line."""
    name, _, method = call.rpartition(".")
    if method == "__init__" and role_of(name) == "engine":
        return SILENCE._replace(weight=1.5, stage="engine_init")
    row = of_call(name, method)
    return row._replace(weight=TELLING) if row.stage else SILENCE


def of_call(name: str, method: str) -> Row:
    """What a method of a worker of this name says."""
    return rows.of_worker(name, role_of(name) or "", method) or of_method(method)


def of_method(method: str) -> Row:
    """What a method's name says, where it says enough."""
    # verl puts the model's role before the method of a worker that holds several
    bare = re.sub(r"^(?:actor_rollout_ref_|actor_rollout_|actor_|critic_|ref_|rm_)", "", method)
    told = max(verbs.of_name(bare), verbs.of_name(method), key=lambda row: row.weight)
    return told if told.weight >= TELLING else SILENCE


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
    """Whether what it ends in puts a model on the card; data sets and simulators have constructors as well."""
    if trace and _MADE_AND_MOVED.search(trace[-1].code):
        return True
    if not ends_in_building(trace) or _SIMULATOR.search(trace[-1].path):
        return False
    file = trace[-1].path.rpartition("/")[2]
    called = (frame.code.partition("(")[0] for frame in trace[-2:])
    return not any(_DATA.search(text) for text in (file, *called))


def _name(frame: Frame) -> str:
    """The function's own name: Python 3.11 and later may print the class before it."""
    return frame.function.rpartition(".")[2]
