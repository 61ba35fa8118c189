"""What the job was doing when an event happened.

The innermost frame that tells most wins: an optimizer's first state inside DeepSpeed's `backward` is the optimizer
step, a forward that checkpointing runs again inside `backward` is backward. Then come the titles of Ray's workers,
then the last progress line, then what this kind of message can only come from. Names stand in doing.txt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

from oomdoctor.families.event import Event, Frame
from oomdoctor.job import verbs
from oomdoctor.job.building import places_a_model
from oomdoctor.job.roles import class_and_method, role_of
from oomdoctor.job.verbs import SILENCE, Row
from oomdoctor.patterns import late
from oomdoctor.records import dataclass

UNKNOWN: Final = "unknown"
# An engine's work is the rollout of a trainer or somebody's service: decided by what else the log shows.
GENERATION: Final = "generation"
# A step of training: where the card is short, mostly its forward pass, and elsewhere anything
TRAINING: Final = "training"
# The verb of each stage, where its row has no finer one
STEPS: Final = {
    "launch": "launch",
    "cluster_start": "launch",
    "model_load": "load",
    "engine_init": "launch",
    "memory_profiling": "profile",
    "kv_cache_init": "allocate",
    "cuda_graph_capture": "capture",
    "data_load": "read",
    "rollout": "generate",
    "reward": "score",
    "logprob": "score",
    "forward": "forward",
    "backward": "backward",
    "optimizer_step": "optimize",
    "weight_sync": "sync",
    "checkpoint_save": "save",
    "checkpoint_load": "restore",
    "eval": "evaluate",
    "serving": "generate",
    "shutdown": "stop",
    GENERATION: "generate",
    TRAINING: "forward",
}

# What evaluates, measures or receives weights runs something in which it fails: the innermost of these, or a forward pass
_RUNS_A_PASS: Final = frozenset({"evaluate", "score", "generate", "profile", "capture", "sync", "forward"})
_ENDS: Final = frozenset({"optimize", "backward", "load"})

_LOSS: Final = late(r"(?i)\b(?:train(?:ing)?_)?loss(?:_\w{1,20})?[\"']?(?: ?[:=] ?| )-?\d(?!\d{0,3}%)")
_PLACED: Final = late(r"(?:\A|[\s=.(])[A-Z]\w{1,80}\([^()]{0,120}\)\.(?:to|cuda|half)\(")
OF_A_TRACEBACK: Final = late(r"\s|File \"|Traceback \(|During handling|The above exception")
# Source that lost the head of its frame: how many lines are looked at, and what begins a statement
_SOURCE: Final = 3
_STATEMENT: Final = late(r"(?:return|await|self\.|with|raise|for|if) ?\S|[\w.]{1,80}(?:, [\w.]{1,80}){0,3} [-+*/]?= |[\w.]{1,80}\(")
_CARETS: Final = late(r"[\s~^]{1,400}\Z")
# "1000/6060 [6:41:34<", "global_step: 200"; how often the job saves, and how seldom that has to be to tell
_COUNT: Final = late(r"\b(\d{1,9})/\d{1,9} \[\d|\b(?:global_)?step[ :=]{1,3}(\d{1,9})")
_SAVES: Final = late(r"\bsave_(?:steps|freq|interval|every)\b['\"]?[,:= ]{1,3}['\"]?(\d{1,7})\b")
_FEW: Final = 10
# An optimizer's step may run the passes themselves: what stands around them does not tell
_CLOSURE: Final = late(r"closure")
# What stands between a call and the function that is called
_WRAPPER: Final = late(r"(?:\A|_)(?:wrap\w{0,20}|inner|func|fn|decorate\w{0,20}|reraise\w{0,40}|call|dispatch|remote)(?:_|\Z)|lambda")
_METHOD_FAILED: Final = late(
    r"(?:while processing method|occurred while running \w{1,80}'s function|\brequest to|\bError (?:in|executing method)) "
    r"'?(\w{1,80})"
)
_OVER: Final = late(r"\b100%\|")
# How far below an event its aftermath is looked for
_NEAR: Final = 25
_LEARNING: Final = late(
    r"(?i)openrlhf|\bverl\b|/verl/|/trl/|grpo|\bppo\b|_ppo|skyrl|nemo_rl|/orz/|\bslime/|/roll/|areal|WorkerDict|LLMRayActor"
    r"|RolloutRayActor|generate_sequences|RayActor\b|rlhf|reinforce"
)
_DECISIVE: Final = 4  # the weight of a kind of message that says what was done, whatever stands around it
_TELLING: Final = 2  # the weight from which a frame needs no other witness


@dataclass(frozen=True, slots=True)
class Doing:
    """What a job was doing."""

    stage: str = UNKNOWN
    step: str | None = None  # a verb, often finer than the stage
    because: Frame | str | None = None  # the frame or the line that says so


NOTHING: Final = Doing()


def doing_of(event: Event) -> Doing:
    """What the job was doing at this event. What the message itself says of the stage counts before all else."""
    row, because = _of_surroundings(event)
    stage = _settled(row.stage, event)
    if event.stage not in (UNKNOWN, stage):
        return Doing(event.stage, STEPS.get(event.stage), event.at.text)
    return Doing(stage, row.step or STEPS[stage], because) if stage else NOTHING


def _settled(stage: str, event: Event) -> str:
    """The stage of the contract."""
    if stage == GENERATION:
        return "rollout" if _is_learning(event) else "serving"
    if stage == TRAINING:
        return "forward" if event.pool == "gpu" else ""
    if stage == "forward" and _in_engine(event):
        return _settled(GENERATION, event)
    return stage


def doing_of_crash(events: Iterable[Event], stage: str) -> Doing:
    """What these events of one crash, the root first, say of this stage; a message that leaves no doubt comes first."""
    told = [(_of_kind(event, _DECISIVE)[0].weight, doing_of(event)) for event in events]
    decisive = next((doing for weight, doing in told if weight), None)
    return decisive or next((doing for _, doing in told if doing.stage == stage), NOTHING)


_SAVING: Final = SILENCE._replace(stage="checkpoint_save")
_STEP_OF_TRAINING: Final = SILENCE._replace(stage=TRAINING)
_Because = Frame | str | None
_Said = tuple[Row, _Because]
_MUTE: Final[_Said] = (SILENCE, None)


def _of_surroundings(event: Event) -> _Said:
    if (said := _of_kind(event, _DECISIVE))[0].stage:
        return said
    row, frame = _of_frames(event.around.trace)
    if row.weight < _TELLING:
        return _first_of(event, (_of_titles, _of_operation, lambda _: (row, frame), _of_source, _of_aftermath, _of_building, _of_progress,
                                 _of_start, lambda event: _of_kind(event, 0), _of_saving, _of_training, _of_role))  # fmt: skip
    if event.around.cut:  # its innermost frames, which would tell more, are missing
        return _first_of(event, (_of_aftermath, lambda _: (row, frame)))
    return row, frame


def _first_of(event: Event, witnesses: Sequence[Callable[[Event], _Said]]) -> _Said:
    return next((said for said in (witness(event) for witness in witnesses) if said[0].stage), _MUTE)


def _of_frames(trace: Sequence[Frame]) -> _Said:
    """The most telling frame, the innermost of equals; what it ran in the end is the finer verb."""
    begin = next((at for at in range(len(trace), 0, -1) if _CLOSURE.search(trace[at - 1].function)), 1) - 1
    told = [(_row_of(frame, after), frame) for frame, after in zip_longest(trace[begin:], trace[begin + 1 :])]
    best, frame, inside = SILENCE, None, 0
    for position, (row, at) in enumerate(told):
        if row.stage and row.weight >= best.weight:
            best, frame, inside = row, at, position + 1
    step = _step_of(best)
    if any(row.step == "wake" for row, _ in told):
        step = "wake"  # what it allocates then it gave away before
    elif step in _RUNS_A_PASS:
        inner = [_step_of(row) for row, _ in told[inside:]]
        step = next((one for one in reversed(inner) if one in _ENDS), "forward" if "forward" in inner else step)
    return best._replace(step=step), frame


def _row_of(frame: Frame, after: Frame | None) -> Row:
    """What a frame says; the innermost, and what calls through a wrapper, also by the calls of its line."""
    row = _of_frame(frame)
    if after is None or _WRAPPER.search(after.function):
        return max(verbs.of_call(frame.code), row, key=lambda one: one.weight)  # of equals what is called
    return row


def _step_of(row: Row) -> str:
    return row.step or STEPS.get(row.stage, "")


@lru_cache(maxsize=4096)  # the ranks of a job fail at the same frames
def _of_frame(frame: Frame) -> Row:
    if frame.file == "ray":
        return _of_remote_call(frame.function)
    function = frame.function.rpartition(".")[2]
    file = "/" + frame.file.replace("\\", "/")
    told = (verbs.of_function(function), SILENCE, *verbs.of_place(file, function), *verbs.of_code(frame.code))
    listed = max(told, key=lambda row: row.weight)
    return listed if listed.stage else verbs.of_identifier(function, _context(frame))


def _context(frame: Frame) -> str:
    """The class of a function where Python prints it, its file and its folder."""
    parts = frame.file.replace("\\", "/").removesuffix(".py").rsplit("/", 2)
    return f"{frame.function.rpartition('.')[0]} {' '.join(parts[-2:])}"


def _of_titles(event: Event) -> _Said:
    """What most of the memory's holders were running, by the titles in Ray's table."""
    shares: Counter[str] = Counter()
    first: dict[str, _Said] = {}
    for title, size in _titles(event):
        row = _of_title(title)
        if row.stage:
            shares[row.stage] += max(size, 1)
            first.setdefault(row.stage, (row, title))
    return first[shares.most_common(1)[0][0]] if shares else _MUTE


@lru_cache(maxsize=1024)  # workers have few names
def _of_title(title: str) -> Row:
    return _of_call(*class_and_method(title))


def _titles(event: Event) -> Iterator[tuple[str, int]]:
    rows: Iterable[Any] = getattr(event, "rows", ())
    for row in rows:
        yield row.command, row.bytes or 0
    if event.process.name:
        yield event.process.name, 0


def _of_remote_call(call: str) -> Row:
    """Ray's line about the call that failed: here `__init__` is what it says, other than in a kill's line."""
    name, _, method = call.rpartition(".")
    if method == "__init__" and role_of(name) == "engine":
        return SILENCE._replace(weight=1.5, stage="engine_init")
    return _of_call(name, method)._replace(weight=_TELLING)


def _of_call(name: str, method: str) -> Row:
    return verbs.of_worker(name, role_of(name) or "", method) or _of_method(method)


def _of_method(method: str) -> Row:
    # verl puts the model's role before the method of a worker that holds several
    bare = re.sub(r"^(?:actor_rollout_ref_|actor_rollout_|actor_|critic_|ref_|rm_)", "", method)
    told = max(verbs.of_name(bare), verbs.of_name(method), key=lambda row: row.weight)
    return told if told.weight >= _TELLING else SILENCE


def _of_operation(event: Event) -> _Said:
    for line in (event.at.text, *event.around.below[:_NEAR]):
        row = verbs.of_operation(line)
        if row.stage:
            return row, line
    return _MUTE


def _of_progress(event: Event) -> _Said:
    row, line = _last_progress(event)
    return (row, line) if row.stage != TRAINING else _MUTE


def _of_training(event: Event) -> _Said:
    """A training loop's line is the last that tells: the weakest witness."""
    row, line = _last_progress(event)
    return (row, line) if row.stage == TRAINING else _MUTE


def _of_saving(event: Event) -> _Said:
    """The loop's last count is one of those at which the job saves, which are few."""
    every = next((int(match[1]) for line in _near(event) if (match := _SAVES.search(line))), 0)
    if every < _FEW:
        return _MUTE
    line, count = next(((line, match) for line in _near(event) if (match := _COUNT.search(line))), ("", None))
    done = int(count[1] or count[2]) if count else 0
    return (_SAVING, line) if done and done % every == 0 else _MUTE


def _near(event: Event) -> Iterator[str]:
    yield event.at.text
    yield from reversed(event.around.before)
    yield from event.around.below


def _of_source(event: Event) -> _Said:
    """The source right before a message that has lost its frames."""
    if event.around.trace:
        return _MUTE
    above = (line.strip() for line in reversed(event.around.before[-_SOURCE:]))
    nearest = next((line for line in above if line and not _CARETS.match(line)), "")
    if not _STATEMENT.match(nearest):
        return _MUTE
    row = max(*verbs.of_code(nearest), verbs.of_call(nearest), SILENCE, key=lambda one: one.weight)
    return row, nearest


def _last_progress(event: Event) -> tuple[Row, str]:
    for line in (event.at.text, *reversed(event.around.before)):
        if (row := _progress(line)) is not None:
            return row, line
    return SILENCE, ""


@lru_cache(maxsize=4096)  # events stand near one another
def _progress(line: str) -> Row | None:
    listed = verbs.of_line("progress", line)
    if listed and listed.stage not in ("", TRAINING):
        return listed
    if said := verbs.of_sentence(line) or verbs.of_graph(line):
        return said
    if listed is not None and not listed.stage:
        return SILENCE
    if (listed is None and not _LOSS.search(line[: verbs.CHARACTERS])) or OF_A_TRACEBACK.match(line):
        return None  # no loop's print; or source that only looks like one
    return SILENCE if _OVER.search(line) else _STEP_OF_TRAINING


def _of_aftermath(event: Event) -> _Said:
    for line in (event.at.text, *event.around.below[:_NEAR]):
        row = _aftermath(line)
        if row.stage:
            return row, line
    return _MUTE


@lru_cache(maxsize=4096)
def _aftermath(line: str) -> Row:
    method = _METHOD_FAILED.search(line)
    told = _of_method(method[1]) if method else SILENCE
    return told if told.stage else verbs.of_line("aftermath", line) or SILENCE


def _of_building(event: Event) -> _Said:
    """A traceback in which nothing tells and that ends in a constructor: it put a model on the card."""
    trace = event.around.trace
    if event.pool != "gpu" or not (places_a_model(trace) or (trace and _PLACED.search(trace[-1].code))):
        return _MUTE
    return SILENCE._replace(stage="model_load", step="move"), trace[-1]


def _of_start(event: Event) -> _Said:
    """What only says that something did not start, and not at which of its steps."""
    for line in event.around.below[:_NEAR]:
        row = _failed_start(line)
        if row is not None:
            return row, line
    return _MUTE


@lru_cache(maxsize=4096)
def _failed_start(line: str) -> Row | None:
    return verbs.of_line("start", line)


def _of_kind(event: Event, weight: float) -> _Said:
    """What a kind of message can only come from: at once, or where nothing around it tells more."""
    rows = (row for row in verbs.rows("kind") if row.weight >= weight and _is_of(event, row.pattern))
    return next(rows, SILENCE), event.at.text


def _is_of(event: Event, kind: str) -> bool:
    """Whether it is of this family and kind, and has the values that stand behind them."""
    family, name, *values = kind.split()
    return (family, name) == (event.family, event.kind) and all(
        str(getattr(event, field, None)) == value for field, _, value in (each.partition("=") for each in values)
    )


def _in_engine(event: Event) -> bool:
    """Whether it is an engine's process: what is forward there is a request's."""
    name = event.process.name
    return event.process.role == "engine" or (name is not None and role_of(name) == "engine")


def _of_role(event: Event) -> _Said:
    """What an engine is there for, where nothing tells more."""
    served = event.pool in ("gpu", "kv_cache") and _in_engine(event)
    return (SILENCE._replace(stage="engine_init"), event.process.name or "") if served else _MUTE


def _is_learning(event: Event) -> bool:
    around = event.around
    frames = (f"{frame.file} {frame.function}" for frame in around.trace)
    return any(_LEARNING.search(text) for text in (event.process.name or "", *frames, *around.before, *around.after))
