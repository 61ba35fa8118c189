"""The job as one value, made once a crash: what runs, with which engine, on how many cards, and who of it failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.job.frameworks import (
    Task,
    World,
    among,
    engine_printing,
    engines,
    files_by_world,
    files_of_engines,
    files_of_inference,
    files_of_simulation,
    files_of_training,
    framework,
    learners,
    names_of_engines,
    some,
    trainers,
)
from oomdoctor.job.model import Context
from oomdoctor.job.roles import role_of
from oomdoctor.patterns import late

Placement = Literal["none", "unknown", "own cards", "shared cards"]

_TURNS_COLOCATION: Final = ("colocate_all_models", "colocate_all")
_OFF: Final = (None, False, 0, "", "none", "None", "false")
# A share of the card, under every framework's name for it
SHARES: Final = (
    "gpu_memory_utilization", "vllm_gpu_memory_utilization", "vllm_gpu_util",
    "mem_fraction_static", "sglang_mem_fraction_static", "sglang_mem_fraction",
)  # fmt: skip
CHARACTERS: Final = 400  # of a line that are looked at
_LOSS: Final = late(r"(?i)\b(?:train(?:ing)?_)?loss(?:_\w{1,20})?[\"']? ?[:=] ?-?\d")
_SERVER: Final = late(r"\b[Uu]vicorn running on\b|\bGunicorn\b|\bRunning on (?:local )?(?:URL|http)|POST /\w")
_RL_SETTINGS: Final = ("max_completion_length", "max_response_length", "generate_max_len", "num_generations")
_RL_STAGES: Final = frozenset({"rollout", "reward", "weight_sync"})
_TRAINING_STAGES: Final = frozenset({"backward", "optimizer_step"})
_SERVING_STAGES: Final = frozenset({"serving"})
_TRAINING_SETTINGS: Final = (
    "learning_rate", "lr", "per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs",
    "micro_train_batch_size", "weight_decay", "max_steps",
)  # fmt: skip
_CARDS: Final = (
    "world_size", "nproc_per_node", "num_processes", "num_gpus", "n_gpus_per_node", "local_world_size",
    "actor_num_gpus_per_node", "actor.num_gpus_per_node", "actor_num_nodes", "total_num_nodes",
)  # fmt: skip

_WORLD_FILES: Final = tuple((world, late(rf"(?:^|/)(?:{files})/")) for world, files in files_by_world().items())
_ENGINE_FILE: Final = late(rf"(?:^|/)(?:{files_of_engines()})/")
_INFERENCE_FILES: Final = {name: late(rf"(?:^|/)(?:{files})") for name, files in files_of_inference().items()}
_SIMULATOR_FILE: Final = late(rf"(?:^|/)(?:{files_of_simulation()})/")
_TRAINER_FILE: Final = late(rf"(?:^|/)(?:{files_of_training()})")
_ENGINE_WORDS: Final = late(
    r"(?:^|[/\s(])(?:vllm|sglang|lmdeploy)[/.]|EngineCore|LLMEngine|llm_engine\b|\bmodel_runner(?:_base)?\.py"
    r"|\bgpu_worker\.py|\bmultiproc_executor\.py|\[TM\]\["
)
# What an engine's project serves diffusion models with: no cache of its own, and no share of the card
_DRAWING_FILE: Final = late(r"(?:^|/)(?:sglang/multimodal_gen|vllm_omni/diffusion)/")
_LIBRARY_FILE: Final = late(r"(?:site|dist)-packages/|/lib/python3|^<|\A\Z|multiprocessing/|(?:^|/)(?:torch|ray)/")
_REMOTE: Final = late(r"\bray::([\w.]{1,120})\(\)")
# Steps that only an engine takes, whoever names it
_ENGINE_STEPS: Final = frozenset({"memory_profiling", "kv_cache_init", "cuda_graph_capture"})


class Job(Struct, frozen=True, kw_only=True):
    world: World = "none"  # what its arrays are
    task: Task = "unknown"  # what it is run for
    frameworks: tuple[str, ...] = ()  # outermost first
    engine: str | None = None  # the inference engine that runs in the job, where its name is known
    runs_engine: bool = False  # an inference engine has a share of a card of this job
    in_engine: bool = False  # and it was the engine's process that failed
    reserves: bool = False  # it takes a share of the card at its start, as a setting says
    placement: Placement = "none"  # of the engine, beside a trainer
    learns: bool = False  # by reinforcement
    trains: bool = False  # a trainer is in the log
    cards: int | None = None  # how many there are or ranks take part, where a number says so
    spread: bool = False  # more than one card or rank is in sight

    @property
    def may_share(self) -> bool:
        """A trainer may have put the engine on its own cards."""
        return self.placement in ("unknown", "shared cards")

    @property
    def in_reserving_engine(self) -> bool:
        """The engine's process failed, and its share of the card may be at fault."""
        return self.in_engine and self.reserves


def job_of(root: Event, events: Sequence[Event], context: Context, stage: str) -> Job:
    names = tuple(name for name in context.frameworks)
    at_engine = _in_engine(root, events, names, stage)
    engine = _engine(root, events, names)
    runs = at_engine or engine is not None or _has_an_engine(root, events, context)
    cards = _cards(context)
    return Job(
        world=_world(root, names, engine),
        task=_task(root, context, names, stage, at_engine=at_engine),
        frameworks=names,
        engine=engine,
        runs_engine=runs,
        in_engine=at_engine,
        reserves=runs and not some([engine] if engine else names, "takes what it needs"),
        placement=_placement(context, names, runs=runs),
        learns=bool(learners() & set(names)),
        trains=bool(trainers() & set(names)),
        cards=cards,
        spread=(cards or 1) > 1 or _spread(events, names),
    )


def _world(root: Event, names: Collection[str], engine: str | None) -> World:
    """By whose refusal it is, by the innermost frame of such a library, else by what the log names."""
    if isinstance(root, DeviceOutOfMemory | MemorySummary):
        return "torch"  # no other allocator has this sentence, or this table
    if isinstance(root, HostAllocation) and root.allocator == "torch":
        return "torch"  # nor this one on the CPU
    if isinstance(root, HostAllocation) and root.allocator == "torch7":
        return "none"  # Lua's, whose folders are named like PyTorch's
    if isinstance(root, ArrayOutOfMemory):
        own = framework(root.framework)
        return own.world if own is not None else "none"
    printing = framework(engine_printing(root.family) or "")
    if printing is not None:
        return printing.world
    for frame in reversed(root.around.trace):
        if (world := next((world for world, file in _WORLD_FILES if file.search(frame.file)), None)) is not None:
            return world
    served = framework(engine or "")
    layers = [*among(names), *([served] if served is not None else [])]
    return next((each.world for each in layers if each.world != "none"), "none")


def _task(root: Event, context: Context, names: Collection[str], stage: str, *, at_engine: bool) -> Task:
    """What its frameworks are for, unless what failed or what it prints says more."""
    if any(_SIMULATOR_FILE.search(frame.file) for frame in root.around.trace):
        return "simulation"  # a step of its worlds, whoever learns in them
    names = [name for name in names if not _only_infers(name, root)]
    if learners() & set(names) or stage in _RL_STAGES or context.setting(*_RL_SETTINGS) is not None:
        return "rl"
    if trainers() & set(names) or stage in _TRAINING_STAGES or context.setting(*_TRAINING_SETTINGS) is not None:
        return "training"
    if at_engine:
        return "serving"
    lines = (root.at.text, *root.around.before)
    if any(_LOSS.search(line[:CHARACTERS]) for line in lines):
        return "training"
    tasks = [each.task for each in among(names) if each.task != "unknown"]
    if tasks:
        return tasks[0]
    if stage in _SERVING_STAGES or any(_SERVER.search(line[:CHARACTERS]) for line in lines):
        return "serving" if stage == "serving" or root.pool == "kv_cache" else "inference"
    return "data" if stage == "data_load" else "unknown"


def _only_infers(name: str, root: Event) -> bool:
    """The traceback goes through what of a trainer's framework serves a model that is not trained."""
    files = _INFERENCE_FILES.get(name)
    return files is not None and any(files.search(frame.file) for frame in root.around.trace)


def remote_call(root: Event) -> str | None:
    """The innermost remote call of Ray that failed: of the message itself, or in its traceback."""
    if own := _REMOTE.search(root.at.text):
        return own[1]
    return next((frame.function for frame in reversed(root.around.trace) if frame.file == "ray"), None)


def _engine(root: Event, events: Iterable[Event], names: Collection[str]) -> str | None:
    """The engine whose messages these are, vLLM where its own stand there too; else the one that the log names."""
    printed = among({name for event in (root, *events) if (name := engine_printing(event.family))})
    return printed[0].name if printed else next((name for name in names if name in engines()), None)


def _in_engine(root: Event, events: Iterable[Event], names: Collection[str], stage: str) -> bool:
    """Whether it was an engine that asked. What its own process says comes before what the whole log speaks of."""
    if engine_printing(root.family) is not None:
        return True
    if any(_DRAWING_FILE.search(frame.file) for frame in root.around.trace):
        return False
    role = root.process.role
    if isinstance(root, DeviceRefusal) and root.layer == "cumem":
        return role != "policy"
    trace = root.around.trace
    if any(_ENGINE_FILE.search(frame.file) for frame in trace):
        return True
    if _is_an_engine(root):
        return True
    training = trainers() & set(names)
    if role is not None or any(_TRAINER_FILE.search(frame.file) for frame in trace) or (training and trace):
        return False
    if stage in _ENGINE_STEPS:
        return True
    printed = {event.family for event in events}
    named = not training and (
        any(name in engines() for name in names) or not printed.isdisjoint(("vllm_figures", "vllm_cascade"))
    )
    if any(not (_LIBRARY_FILE.search(frame.file) or _ENGINE_WORDS.search(frame.file)) for frame in trace):
        return False  # somebody's own script, beside an engine or not
    return named or (not training and _nearby(root))


def _is_an_engine(root: Event) -> bool:
    """By the name of its process, or of the actor that a remote call of Ray was made to."""
    call, name = remote_call(root), root.process.name
    if root.process.role == "engine":
        return True
    if any(_names_engine(each) for each in (call, name) if each):
        return True
    # beside vLLM's bare "Worker" many a trainer's, whose cards an engine shares; not in JAX's and TensorFlow's worlds
    return not isinstance(root, ArrayOutOfMemory) and any(each.endswith("Worker") for each in (call, name) if each)


def _names_engine(process: str) -> bool:
    return any(word in process for word in names_of_engines()) or role_of(process.partition(".")[0]) == "engine"


def _nearby(root: Event) -> bool:
    around = root.around
    return any(_ENGINE_WORDS.search(line) for line in (root.at.text, *around.before, *around.after))


def _has_an_engine(root: Event, events: Iterable[Event], context: Context) -> bool:
    """A setting shares the card with one, a frame is one's, or the framework always brings one along."""
    if any(isinstance(event, DeviceRefusal) and event.layer == "cumem" for event in events):
        return True  # the allocator of an engine's sleep
    if context.setting(*SHARES) is not None or any(_ENGINE_FILE.search(f.file) for f in root.around.trace):
        return True
    return any(each.engine in ("own cards", "shared cards") for each in among(context.frameworks))


def _placement(context: Context, names: Collection[str], *, runs: bool) -> Placement:
    """Where the engine is, beside a trainer: the log says so, or it is how the framework does it."""
    with_one = [each for each in among(names) if each.engine != "never"]
    if not runs or not with_one:
        return "none"
    told = context.setting(*_TURNS_COLOCATION)
    if told is not None:
        return "own cards" if told.value in _OFF else "shared cards"
    return "shared cards" if any(each.engine == "shared cards" for each in with_one) else "unknown"


def _cards(context: Context) -> int | None:
    counts = [setting.value for name in _CARDS if (setting := context.setting(name)) is not None]
    counts.append(context.hardware.get("gpu_count"))
    numbers = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
    return max(numbers, default=None)


def _spread(events: Iterable[Event], names: Collection[str]) -> bool:
    """A rank or a further card is named, or it is how the framework works."""
    if any(event.process.rank is not None or event.process.gpu for event in events):
        return True
    return bool(learners() & set(names)) or some(names, "spreads over cards")


__all__ = ["SHARES", "Job", "Placement", "job_of", "remote_call"]
