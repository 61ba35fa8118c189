"""What the job was doing when an event happened.

Its witnesses are asked in turn: frames that tell much, the titles of Ray's workers, what a graph was at, other frames,
what the failure set off, the last progress line, what this kind of message can only come from, and last what the loop
or the engine is there for. Names and verbs stand in doing.txt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from oomdoctor.families.event import Event, Frame
from oomdoctor.families.frames import FRAME
from oomdoctor.families.kill import ABROAD, LINE_OF_A_SCRIPT
from oomdoctor.job import frames, rows, verbs
from oomdoctor.job.roles import class_and_method, role_of
from oomdoctor.job.rows import CHARACTERS, GENERATION, INFERENCE, SILENCE, STEPS, TRAINING, Row
from oomdoctor.job.session import source
from oomdoctor.patterns import late

UNKNOWN: Final = "unknown"
_FRAME: Final = late(r"\s{0,200}File \"")
OF_A_TRACEBACK: Final = late(r"\s|File \"|Traceback \(|During handling|The above exception")
# torch/distributed/elastic/multiprocessing/errors/__init__.py
_REPEATED: Final = late(r"\s{0,8}traceback {0,4}: Traceback \(most recent call last\):")
_REPORT: Final = 80  # lines
_DECISIVE: Final = 4  # the weight of a kind of message that says what was done, whatever stands around it
_REPORTED: Final = 8  # lines above an event in which a report names the operator
_NEAR: Final = 25  # lines below an event in which its aftermath is looked for

_LOSS: Final = late(
    r"(?i)\b(?:train(?:ing)?_)?loss(?:_\w{1,20})?(?:/\w{1,20}){0,2}[\"']?(?: ?[:=] ?| )-?\d(?!\d{0,3}%)"
)
# A line of a table of metrics, however far it is indented: no source is a name, a colon and a figure
_METRIC: Final = late(r"\s{1,40}[A-Za-z][\w /.-]{0,80}: {0,4}-?\d[\d.e+-]{0,20}\s{0,4}\Z")
# A line that says no more: MLX's "Training" and "Starting training..., iters: 600", a script's "Start training"
_BEGINS: Final = late(
    r"(?i)(?:\A|[\]:|>-] {1,4})\W{0,8}(?:(?:start|begin)(?:s|ning|ing|ed)? )?(?:the )?training(?: loop| now)?"
    r"(?:\W{0,8}|\W{1,8}iters: \d{1,9})\Z"
)
_ENDED: Final = late(
    r"(?i)\b(?:epoch|iteration|training)\b.{0,60}\b(?:done|finished|completed?|ended)\b"
    r"|\b(?:finished|done|completed) (?:loading|restoring|reading)\b"
    r"|\b(?:weights|param(?:eter)?s|checkpoint|state)\b[^.:\n]{0,30} (?:loaded|restored)\W{0,3}$"
)
# "1000/6060 [6:41:34<", "global_step: 200"; how often the job saves, and how seldom that has to be to tell
_COUNT: Final = late(r"\b(\d{1,9})/\d{1,9} \[\d|\b(?:global_)?step[ :=]{1,3}(\d{1,9})")
_BAR: Final = late(r"(?<!\d)\d{1,2}%\|[^|\n]{0,400}\| ?\d{1,9}/\d{1,9} \[\d")
_AT_ITS_END: Final = late(r"(?<!\d)100%(?: Completed )?\|(?:[^|\n]{0,400}\|)? ?(?:(\d{1,9})/\1(?!\d)|[^|\n]{0,400}$)")
# "Val 3/40 12/60 acc 0.5", "validation: [12/60]", "Epoch 4 (valid): 12%|#   | 7/60"
_VALIDATION: Final = late(
    r"(?i)(?:[\W\d]{0,40}|.{0,60}?\bepoch\b[^(\n]{0,20}\()(?:val(?:id(?:ation)?)?|eval(?:uation)?)\b"
    r"(?:\W{1,6}\d{1,3}%\|[^|\n]{0,400}\| ?|[^/\n]{0,30}?)(?:\b\d{1,7}/\d{1,7}\W{1,3})?\b(\d{1,7})/(\d{1,7})\b"
)
# What a shell says of a job's end, behind a bar that was not ended: it repeats the command, and tells of no work
_REPORT_OF_A_KILL: Final = late(rf"{LINE_OF_A_SCRIPT}(?:Killed|{ABROAD})(?= )")
# "checkpoint-500", "global_step_60/actor"
_SAVED: Final = late(r"\b(?:checkpoint|ckpt|global_?step|step)[-_=]?(\d{1,9})\b")
_SAVES: Final = late(r"\bsave_(?:steps|freq|interval|every)\b['\"]?[,:= ]{1,3}['\"]?(\d{1,7})\b")
_SELDOM: Final = 10
# Source that lost the head of its frame: how far above the message it stands, and what begins a statement
_SOURCE: Final = 3
_STATEMENT: Final = late(r"(?:return |await |self\.)\S|[\w.]{1,80}(?:, [\w.]{1,80}){0,3} [-+*/]?= |[\w.]{1,80}\(")
_CARETS: Final = late(r"[\s~^]{1,400}\Z")
_METHOD_FAILED: Final = late(
    r"(?:(?:while processing method|occurred while running \w{1,80}'s function|\brequest to|\bError in"
    r"|\bError executing method) |RAY_IGNORE_UNHANDLED_ERRORS=1'\): ray::\w{1,80}\."
    r"|\bRayTaskError(?:\(\w{1,80}\))?: ray::\w{1,80}\.)'?(\w{1,80})"
)
# loguru's "2031-01-02 03:04:05.678 | ERROR    | package.module:function:302 - "
_LOGGED: Final = late(r"\| [\w.]{1,200}:(\w{1,80}):\d{1,6} - ")
_LEARNING: Final = late(
    r"(?i)openrlhf|\bverl\b|/verl/|/trl/|grpo|\bppo\b|_ppo|skyrl|nemo_rl|/orz/|\bslime/|/roll/|areal|WorkerDict|LLMRayActor"
    r"|RolloutRayActor|generate_sequences|RayActor\b|rlhf|reinforce"
)

_Said = tuple[Row, Frame | str | None]
_MUTE: Final[_Said] = (SILENCE, None)


class Doing(Struct, frozen=True):
    """What a job was doing."""

    stage: str = UNKNOWN
    step: str | None = None  # a verb, often finer than the stage
    because: Frame | str | None = None  # the frame or the line that says so
    weak: bool = False  # it is said of other work, too


NOTHING: Final = Doing()
AROUND_ALL: Final = 0.5  # what a server's handler may have called is anything: it tells last
WEAK: Final = 1  # a row of less tells only where nothing else does


def doing_of(event: Event) -> Doing:
    """What the job was doing at this event. What the message itself says of the stage counts before all else."""
    row, because = _of_surroundings(event)
    stage = _settled(row.stage, event)
    if event.stage not in (UNKNOWN, stage):
        return Doing(event.stage, STEPS.get(event.stage), event.at.text)
    return Doing(stage, row.verb, because, weak=0 < row.weight < WEAK) if stage else NOTHING


def doing_of_crash(events: Iterable[Event], stage: str) -> Doing:
    """What these events of one crash, the root first, say of this stage; a message that leaves no doubt comes first."""
    told = [(bool(_of_kind(event, _DECISIVE)[0].stage), doing_of(event)) for event in events]
    decisive = next((doing for is_decisive, doing in told if is_decisive), None)
    return decisive or next((doing for _, doing in told if doing.stage == stage), NOTHING)


def _settled(stage: str, event: Event) -> str:
    """The stage of the contract."""
    if stage == TRAINING:
        return "forward" if event.pool == "gpu" else ""
    if stage == INFERENCE and event.pool != "gpu":
        return ""  # any program has chunks, segments and tracks
    if stage in (GENERATION, INFERENCE) or (stage == "forward" and _names_an_engine(event)):
        return "rollout" if _is_learning(event) else "serving"
    if stage == "forward" and role_of(event.process.name or "") == "reward":
        return "reward"
    return stage


def _of_surroundings(event: Event) -> _Said:
    if (said := _of_kind(event, _DECISIVE))[0].stage:
        return said
    if (said := _of_failed_operator(event))[0].stage:
        return said  # where a graph was defined is no frame of what failed
    traced = frames.of_frames(event.around.trace or _reported(event))
    if traced[0].weight >= frames.TELLING:  # cut: the innermost frames, which would tell more, are missing
        return _first(event, _of_aftermath if event.around.cut else lambda _: traced, lambda _: traced)
    other = (_of_titles, _of_operation, _of_failed_method)
    if traced[0].weight <= AROUND_ALL:
        return _first(event, *other, *_WITHOUT_FRAMES, lambda _: traced)
    return _first(event, *other, lambda _: traced, *_WITHOUT_FRAMES)


def _reported(event: Event) -> tuple[Frame, ...]:
    """The traceback that torchrun repeats below, in its report on the first rank that failed."""
    lines = event.around.below[:_REPORT]
    head = next((place for place, line in enumerate(lines) if _REPEATED.match(line)), len(lines))
    found = (FRAME.match(line) for line in lines[head:])
    return tuple(Frame(file=one[1], line=int(one[2]), function=one[3]) for one in found if one is not None)


def _first(event: Event, *witnesses: Callable[[Event], _Said]) -> _Said:
    return next((said for said in (witness(event) for witness in witnesses) if said[0].stage), _MUTE)


def _by_lines(lines: Iterable[str], look: Callable[[str], Row | None]) -> _Said:
    """The first of the lines that tells."""
    return next(((row, line) for line in lines if (row := look(line)) is not None and row.stage), _MUTE)


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
    return frames.of_call(*class_and_method(title))


def _titles(event: Event) -> Iterator[tuple[str, int]]:
    table: Iterable[Any] = getattr(event, "rows", ())
    for row in table:
        yield row.command, row.bytes or 0
    if event.process.name:
        yield event.process.name, 0


def _of_operation(event: Event) -> _Said:
    """The graph's node or the operation: TensorFlow and XLA print it below, ONNX Runtime and Ascend above."""
    said = _by_lines(_aftermath(event), verbs.of_operation)
    if not said[0].stage:
        said = _by_lines(event.around.before[-1:], verbs.of_listed_operation)
    return said if said[0].stage else _by_lines(reversed(event.around.before[-_REPORTED:]), verbs.of_operator)


def _of_failed_operator(event: Event) -> _Said:
    """The operator that the error itself names, in its own line or right above."""
    return _by_lines((event.at.text, *reversed(event.around.before[-_REPORTED:])), verbs.of_failed_operator)


def _of_source(event: Event) -> _Said:
    """The source right before a message that has lost its frames."""
    above = () if event.around.trace else reversed(event.around.before[-_SOURCE:])
    bare = (line.strip() if (typed := source(line)) is None else typed for line in above)
    nearest = next((line for line in bare if line and not _CARETS.match(line)), "")
    if not _STATEMENT.match(nearest):
        return _MUTE
    return max((*rows.of_code(nearest), verbs.of_call(nearest)), key=lambda row: row.weight), nearest


def _aftermath(event: Event) -> Sequence[str]:
    return (event.at.text, *event.around.below[:_NEAR])


def _of_aftermath(event: Event) -> _Said:
    return _by_lines(_aftermath(event), _set_off)


def _of_failed_method(event: Event) -> _Said:
    """The method that failed, by name, where the frames only tell what every stage does."""
    row, line = _by_lines(_aftermath(event), _failed_method)
    return (row, line) if row.weight >= frames.TELLING else _of_logger(event)


def _of_logger(event: Event) -> _Said:
    """The function that logged the message itself, where its prefix names one."""
    logged = _LOGGED.search(event.at.text[:CHARACTERS])
    return (frames.of_method(logged[1]), event.at.text) if logged else _MUTE


@lru_cache(maxsize=4096)
def _set_off(line: str) -> Row | None:
    told = _failed_method(line)
    return told if told.stage else rows.of_line("aftermath", line)


def _failed_method(line: str) -> Row:
    method = _METHOD_FAILED.search(line)
    return frames.of_method(method[1]) if method else SILENCE


def _of_building(event: Event) -> _Said:
    """A traceback in which nothing tells and that ends in a constructor: it put a model on the card."""
    trace = event.around.trace
    if event.pool != "gpu" or not frames.places_a_model(trace):
        return _MUTE
    return SILENCE._replace(stage="model_load", step="move"), trace[-1]


def _of_progress(event: Event) -> _Said:
    said = _last_progress(event)
    return said if said[0].stage != TRAINING else _MUTE


def _of_training(event: Event) -> _Said:
    """A training loop's line is the last that tells."""
    said = _last_progress(event)
    return said if said[0].stage == TRAINING else _of_the_bar(event)


def _of_the_bar(event: Event) -> _Said:
    """The bar that was under way: it is printed once more when the failure closes it."""
    bar = next((line for line in event.around.below[:_NEAR] if _BAR.search(line) or _VALIDATION.match(line)), None)
    row = _progress(bar) if bar is not None and _last_progress(event) is _MUTE else None
    return (row, bar) if row is not None and row.stage in (TRAINING, "eval") else _MUTE


def _last_progress(event: Event) -> _Said:
    above, held_back = event.around.before[::-1], event.around.held_back
    in_time = (line for line in above if line not in held_back)
    lines = (event.at.text, *in_time, *reversed(held_back))
    told = ((row, line) for line in lines if (row := _progress(line)) is not None)
    last = next(told, _MUTE)
    if last[0].stage != TRAINING:
        return last
    return next((said for said in told if _is_of_the_same_step(said, last)), last)


def _is_of_the_same_step(said: _Said, last: _Said) -> bool:
    """Whether a save stands above a print of the step that it saves: the bar is drawn again, and goes no further."""
    saved = _SAVED.search(said[1]) if isinstance(said[1], str) else None
    count = _COUNT.search(str(last[1]))
    if said[0].stage != "checkpoint_save" or saved is None or count is None:
        return False
    return int(count[1] or count[2]) <= int(saved[1])


@lru_cache(maxsize=4096)  # events stand near one another
def _progress(line: str) -> Row | None:
    """What a line says of the progress; silence where the job is past what stands above, and it does not say where."""
    line = _REPORT_OF_A_KILL.split(line, maxsplit=1)[0]
    short = line[:CHARACTERS]
    if _FRAME.match(short):
        return None  # its folders name what the program is for
    if _AT_ITS_END.search(short):
        return SILENCE
    listed = rows.of_line("progress", line)
    if listed and listed.stage not in ("", TRAINING):
        return listed
    if counts := _VALIDATION.match(short):
        return SILENCE._replace(stage="eval") if int(counts[1]) < int(counts[2]) else SILENCE
    if _BEGINS.search(short):
        return SILENCE._replace(stage=TRAINING)
    if listed and not listed.stage:
        return SILENCE
    said = verbs.of_sentence(line) or verbs.of_graph(line) or verbs.of_node(line)
    if said:
        return said
    if _ENDED.search(short):
        return SILENCE
    of_source = OF_A_TRACEBACK.match(line) and not _METRIC.match(short)  # which only looks like a loop's print
    if of_source or not (listed or _LOSS.search(short)):
        return None
    return SILENCE._replace(stage=TRAINING)


def _of_saving(event: Event) -> _Said:
    """The loop's last count is one of those at which the job saves, which are few."""
    near = (event.at.text, *reversed(event.around.before), *event.around.below)
    every = next((int(match[1]) for line in near if (match := _SAVES.search(line))), 0)
    line, count = next(((line, match) for line in near if (match := _COUNT.search(line))), ("", None))
    done = int(count[1] or count[2]) if count else 0
    saves = every >= _SELDOM and done > 0 and done % every == 0
    return (SILENCE._replace(stage="checkpoint_save"), line) if saves else _MUTE


def _of_start(event: Event) -> _Said:
    """What only says that something did not start, and not at which of its steps."""
    around = event.around
    return _by_lines((*around.below[:_NEAR], *reversed(around.before[-_NEAR:])), _failed_start)


@lru_cache(maxsize=4096)
def _failed_start(line: str) -> Row | None:
    return rows.of_line("start", line)


def _of_kind(event: Event, weight: float = 0) -> _Said:
    """What a kind of message can only come from: at once, or where nothing around it tells more."""
    told = (row for row in rows.about("kind") if row.weight >= weight and _is_of(event, row.pattern))
    return next(told, SILENCE), event.at.text


def _is_of(event: Event, kind: str) -> bool:
    """Whether it is of this family and kind, and has the values that stand behind them."""
    family, name, *values = kind.split()
    pairs = (value.partition("=") for value in values)
    return (family, name) == (event.family, event.kind) and all(
        str(getattr(event, field, None)) == value for field, _, value in pairs
    )


def _of_engine(event: Event) -> _Said:
    """An engine's process of which no line says more: those that serve print their requests. With graphs on the GPU it
    had captured some already."""
    captured = bool(getattr(event, "private_pools_bytes", None))
    starts = event.pool in ("gpu", "kv_cache") and _names_an_engine(event) and not _is_learning(event) and not captured
    return (SILENCE._replace(stage="engine_init"), event.process.name) if starts else _MUTE


_WITHOUT_FRAMES: Final = (
    _of_source, _of_aftermath, _of_building, _of_progress, _of_start, _of_kind, _of_saving, _of_training, _of_engine,
)  # fmt: skip


def _names_an_engine(event: Event) -> bool:
    name = event.process.name
    return event.process.role == "engine" or (name is not None and role_of(name) == "engine")


def _is_learning(event: Event) -> bool:
    around = event.around
    traced = (f"{frame.file} {frame.function}" for frame in around.trace)
    return any(_LEARNING.search(text) for text in (event.process.name or "", *traced, *around.before, *around.after))
