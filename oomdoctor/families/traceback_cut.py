"""Logs that end inside a traceback, whoever's: what failed is not there, what it was doing is.

Where the traceback or what stands above it shows that it was something else than memory, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oomdoctor.families import Family, training_cut, vllm_cut
from oomdoctor.families.echoes import echo
from oomdoctor.families.ended import explained
from oomdoctor.families.event import PROOF, Frame, Read
from oomdoctor.families.frames import Unfinished, frames, is_exception, unfinished, waits
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.families.loudness import LOUD, is_error
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

HINT: Final = 1  # the strength of a traceback that does not say what failed
ABOVE: Final = 400  # lines that are searched for the exception
NEAR: Final = 12  # those that are searched for another message
SHOWN: Final = 400  # characters of each
INNERMOST: Final = 2  # frames: the store's own, and the one that called it

_QUIET = ("DEBUG", "WARN", "WARNING")
# Raised where nobody catches it, on the way to another try, or when all was done
_HARMLESS = late(r"\bexit(?:ed)?(?: with)?(?: code)? 0\b|Exception ignored in|Logging error|\^C|Call stack:|[Rr]etry")
_CHECK = late(
    r"assert\b|import\b|(?:with |\w{1,40} = )?open\(|from \S{1,200} import\b|(?:sys\.|os\._)?exit\(-?\d{0,3}\)"
    r"|raise (?P<own>(?:\w{1,60}\.){0,6}[A-Z]\w{0,80})"
    r"|(?:[\w.]{1,80} = |return )[\w.]{1,80}(?:\[[\"'][^\[\]]{1,80}[\"']\]){1,6}$"  # a key that is not there
)
# Raised by who waited for another process
_OF_ANOTHER = late(r"Child|Process|Worker|Actor|Engine|Task|Remote|Pool|Memory|OOM|Executor|Server")
# JAX's and Keras' word, above the exception itself, that frames were left out
_FILTERED = late(r"\W{0,4}jax\.errors\.SimplifiedTraceback|.{0,80}TRACEBACK_FILTERING")
# The allocator's own refusal of a request: whoever asked may go on, and may not
_REFUSED = late(
    r"Allocator \((?:GPU|gpu)_\d{1,3}_bfc\) ran out of memory trying to allocate"
    r"|memory allocation failed with OOM on device \d"  # c10/cuda/CUDACachingAllocator.cpp, a warning since 2.12
)
_REMOTE = late(r"RayTaskError\((\w{1,80})\)")
# What fails in these modules fails of a file, a connection, a setting, a text, or of Ctrl-C while it waits.
_ELSEWHERE = late(
    r"(?:^|[/<])(?:os|shutil|pathlib|tempfile|subprocess|threading|queue|selectors|signal|socket|ssl|http|urllib3?"
    r"|requests|aiohttp|httpx|httpcore|uvicorn|huggingface_hub|wandb|mlflow|argparse|configparser|click|hydra|omegaconf"
    r"|pydantic\w{0,20}|json|yaml|importlib|frozen importlib\S{0,30}"
    r"|torch/distributed/(?:rendezvous|elastic))(?:[/.>]|$)"
)
# IPython's title: "MemoryError          Traceback (most recent call last)"
_NAMED_TITLE = late(r"\s{0,8}(?:[a-z_]\w{0,40}\.){0,8}(\w{1,60}) {2,80}Traceback \(most recent call last\)")
_OF_A_CARD = late(r"OutOfMemory|ResourceExhausted")
_OF_THE_HOST = late(r"^_?\w{0,20}MemoryError$(?<!OutOfMemoryError)")
_ANY = late(r"Runtime|System|Exit|Killed|Process|Xla|Internal|Unknown|Child|Worker|Actor|Task|^Exception$|^Error$")
_TOLD = late(r"(?i)\b(?:out[- ]of[- ]memory|OOM)\b(?! (?:handl|guard|protect|retr|score|kill))")
_GAVE_UP = late(r"\[[EF] |(?i:time[d-]? ?out)")
_ANNOUNCED = late(r"(?i)error executing job|(?:exception|error) in |\b(?:unhandled|uncaught)\b")
# What takes memory, in the words of functions and of what a program says that it does
_TAKES = late(
    r"(?i)sav(?:e|ing)|load|restor|checkpoint|state_?dict|generat|rollout|backward|optimi[sz]er|init_model|init_workers"
    r"|weights|gather|broadcast|evaluat|training_step|train_step|_put|put_"
)
# Ray's workers put results into the object store: python/ray/_raylet.pyx, before 0.8 python/ray/worker.py and Arrow's
# plasma.pyx
_STORES = late(
    r"(?:^|/)ray/\S{1,80} (?:put_object|put_serialized_object\w{0,40}|store_task_outputs?|_store_outputs_in_objstore"
    r"|store_and_register|_create_put_buffer)$|\bplasma\.pyx (?:\w{1,60}\.)?(?:put|create|seal)\w{0,20}$"
)
_STATE = late(
    r"(?i)sav(?:e|ing)|load|restor|checkpoint|state_?dict"
)  # which memory holds it, the traceback does not say
_ON_A_CARD = late(
    r"(?i)cuda|gpu|/torch/|torch\.|/(?:vllm|sglang|deepspeed|jax|accelerate|transformers|diffusers)/|kv_cache"
    r"|backward\(|optimi[sz]er\.step\(|\.to\("
)


class CutProgram(training_cut.CutTraining, frozen=True, kw_only=True):
    """The last lines of the log are a traceback without its exception."""

    family = "traceback_cut"
    kind = "cut-traceback"
    in_traceback = True

    step: str | None = None  # "wait" for another process, "store" an object


def read(page: Page, index: int) -> Iterator[Read]:
    end = page.once(unfinished)
    if end is None or index != end.index or _is_read(page, end):
        return
    trace = frames(page.lines[end.first : end.last + 1])
    name = _name(page.lines[end.first])
    of_memory = _OF_A_CARD.search(name) is not None or _OF_THE_HOST.search(name) is not None
    if end.index == end.first and not of_memory:
        return
    above = page.lines[max(0, end.first - ABOVE) : end.first]
    if (
        not (trace or of_memory)
        or (not of_memory and _of_something_else(trace))
        or _says_why(page, end, above)
        or (not of_memory and waits(trace) and not _takes(trace, above))
    ):
        return
    line = page.lines[index]
    if _OF_THE_HOST.search(name):
        yield HostAllocation(
            at=place_of(page, page.lines[end.first], line),
            time=line.mark.time,
            process=process_of(line),
            pool="host_ram",
            allocator="python",
        )
        return
    on_a_card = _OF_A_CARD.search(name) is not None or any(_REFUSED.search(line.text[:SHOWN]) for line in above)
    stores = any(_STORES.search(f"{frame.file} {frame.function}") for frame in trace[-INNERMOST:])
    yield CutProgram(
        at=place_of(page, line, page.lines[end.last]),
        time=line.mark.time,
        process=process_of(line),
        pool="gpu" if on_a_card else "object_store" if stores else _pool(trace),
        step="store" if stores else training_cut.WAIT if waits(trace) else None,
        strength=PROOF if on_a_card or any(map(_says_it, above)) else HINT,
    )


def _is_read(page: Page, end: Unfinished) -> bool:
    """Whether a family knows a step of the traceback."""
    block = range(end.first, end.last + 1)
    return any(True for index in block for family in (training_cut, vllm_cut) for _ in family.read(page, index))


def _of_something_else(trace: Sequence[Frame]) -> bool:
    """Whether the innermost frame raises, or fails, of something else."""
    check = _CHECK.match(trace[-1].code)
    if check is None:
        return _ELSEWHERE.search(trace[-1].file) is not None
    return not check["own"] or not _OF_ANOTHER.search(f"{check['own']} {trace[-1].file}")


def _says_why(page: Page, end: Unfinished, above: Sequence[Line]) -> bool:
    """Whether what stands above tells what it was, or that it was nothing."""
    title = page.lines[end.first]
    remote = (_REMOTE.search(line.text) for line in page.lines[end.first : end.last + 1])
    return (
        title.mark.level in _QUIET
        or _names_something_else(title)
        or any(_HARMLESS.search(line.text[:SHOWN]) for line in (*above[-2:], title))
        or any(match and not _OF_ANOTHER.search(match[1]) for match in remote)
        or any(_is_error(line) and not _goes_on(line) for line in above[-NEAR:])
        or any(is_exception(line.text) and not _goes_on(line) for line in above)
        or explained(page, end.index) is not None
    )


def _says_it(line: Line) -> bool:
    """Whether who shows the traceback says above it of what the job died."""
    text = line.text[:SHOWN]
    return _TOLD.search(text) is not None and line.mark.level is None and echo(text) is None


def _name(title: Line) -> str:
    """Of the exception, in the title that IPython prints above a traceback."""
    named = _NAMED_TITLE.match(title.text)
    return named[1] if named else ""


def _names_something_else(title: Line) -> bool:
    name = _name(title)
    return bool(name) and not any(names.search(name) for names in (_ANY, _OF_A_CARD, _OF_THE_HOST))


def _is_error(line: Line) -> bool:
    text = line.text[:SHOWN]
    return line.mark.level in LOUD or is_error(text) or _GAVE_UP.search(text) is not None


def _announces(line: Line) -> bool:
    """Whether the traceback below is what the line speaks of."""
    return line.text.endswith(":") or _ANNOUNCED.search(line.text[:SHOWN]) is not None


def _goes_on(line: Line) -> bool:
    """Whether the line leaves open what the traceback below is of."""
    text = line.text[:SHOWN]
    return _announces(line) or _FILTERED.match(text) is not None or _REFUSED.search(text) is not None


def _takes(trace: Sequence[Frame], above: Sequence[Line]) -> bool:
    """Whether who only waited says for what: something that takes memory."""
    words = next((line.text[:SHOWN] for line in reversed(above) if line.text.strip()), "")
    return any(_TAKES.search(text) for text in (words, *(f"{frame.function} {frame.code}" for frame in trace)))


def _pool(trace: Sequence[Frame]) -> str:
    of_state = any(_STATE.search(f"{frame.function} {frame.code}") for frame in trace)
    on_a_card = any(_ON_A_CARD.search(f"{frame.file} {frame.code}") for frame in trace)
    return "gpu" if on_a_card and not of_state else "none"


FAMILY = Family(
    name="traceback_cut",
    anchors=(),
    triggers=('File "', "❱", "--> ", "Traceback (most recent call last)"),
    read=read,
    last=True,
    otherwise=True,
)
