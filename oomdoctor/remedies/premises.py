"""What a remedy takes for granted of the job: an engine, several cards, worker processes, a loop that generates.

Where the log shows nothing of the kind, the remedy is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.arithmetic import vllm
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.card import card_of
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import node_memory
from oomdoctor.job.frameworks import among, engine_printing, framework, learners, some
from oomdoctor.remedies import engine
from oomdoctor.remedies.knobs import KNOBS

_WITHOUT_BATCHES: Final = ("data", "inference")  # tasks
_WITH_AN_ENGINE: Final = ("own cards", "shared cards")  # without being told so
_RL_SETTINGS: Final = ("max_completion_length", "max_response_length", "generate_max_len", "num_generations")
_RL_STAGES: Final = frozenset({"rollout", "reward", "weight_sync"})
_CARDS: Final = ("world_size", "nproc_per_node", "num_processes", "num_gpus", "n_gpus_per_node", "local_world_size")
_ENGINES: Final = ("vllm_num_engines", "vllm.num_engines", "num_inference_engines", "data_parallel_size")
_WORKERS: Final = r"multiprocess|concurrent/futures|joblib|torch/utils/data/_utils/worker|dask|/ray/"
_LOADING: Final = frozenset({"model_load", "checkpoint_load", "engine_init"})
_OF_WEIGHTS: Final = r"from_pretrained|load_state_dict|safetensors|torch/serialization|checkpoint|load_model"
# Causes that are about somebody else's memory on the card.
_NEIGHBOURS: Final = ("gpu-shared", "profiling-race")
MUCH: Final = 0.25  # of the card with somebody else


def holds(knob: str, cause: str, crash: Crash) -> bool:
    """Whether what the knob takes for granted is in the log."""
    premise = _PREMISES.get(knob)
    return premise is None or premise(cause, crash)


def runs_engine(cause: str, crash: Crash) -> bool:
    """An inference engine with a share of the card."""
    outer = [each for each in among(crash.context.frameworks) if each.engine in _WITH_AN_ENGINE]
    at_it = crash.job.in_engine and (crash.stage != "serving" or crash.root.process.role == "engine")
    stated = crash.setting(*KNOBS["lower-engine-reservation"].settings)
    told = any(engine_printing(event.family) for event in crash.events)
    sleeps = any(event.layer == "cumem" for event in crash.every(DeviceRefusal))  # the allocator of an engine's sleep
    by_name = crash.job.engine is not None or cause.startswith(vllm.NAME)
    return bool(outer) or at_it or told or sleeps or by_name or stated is not None


def many_cards(crash: Crash) -> bool:
    """More than one card or rank is in sight."""
    counts = [engine.cards_of_trainer(crash), crash.context.hardware.get("gpu_count")]
    counts += [setting.value for name in _CARDS if (setting := crash.setting(name)) is not None]
    if any(isinstance(count, int) and count > 1 for count in counts):
        return True
    processes = [event.process for event in crash.events]
    of_one = crash.context.frameworks.keys()
    return (
        any(process.rank is not None or process.gpu for process in processes)
        or bool(of_one & learners())
        or some(of_one, "spreads over cards")
    )


def generates(crash: Crash) -> bool:
    """Reinforcement learning: the sequences are prompts and the model's own answers."""
    return (
        bool(crash.context.frameworks.keys() & learners())
        or crash.setting(*_RL_SETTINGS) is not None
        or crash.stage in _RL_STAGES
    )


def neighbours_bytes(crash: Crash) -> int:
    """What processes that the message names hold of the card; in a job of several parts they are its own."""
    if engine.colocated(crash) and runs_engine("", crash):
        return 0
    return max((card_of(event).others_bytes or 0 for event in crash.every(DeviceOutOfMemory)), default=0)


def crowded(crash: Crash) -> bool:
    """A good share of the card is somebody else's."""
    total = engine.card_total(crash)
    return total is not None and neighbours_bytes(crash) >= MUCH * total


def _several_starts(cause: str, crash: Crash) -> bool:
    """An engine starts beside another one, or beside what somebody else holds."""
    if not runs_engine(cause, crash):
        return False
    engines = crash.setting(*_ENGINES)
    several = engines is not None and isinstance(engines.value, int) and engines.value > 1
    return several or cause in _NEIGHBOURS or crash.first(NotEnoughFree) is not None or neighbours_bytes(crash) > 0


def _workers(_cause: str, crash: Crash) -> bool:
    """A refusal is one process's own; a kill may be of one among many."""
    if not isinstance(crash.root, HostAllocation):
        return True
    stated = crash.setting(*KNOBS["fewer-workers"].settings)
    several = stated is not None and isinstance(stated.value, int) and stated.value > 1
    return several or crash.in_trace(_WORKERS) is not None or node_memory(crash) is not None


def _trains(_cause: str, crash: Crash) -> bool:
    """Something with batches: a script that builds an array in host memory has none."""
    if not isinstance(crash.root, HostAllocation):
        return True
    others = [
        one for one in map(framework, crash.context.frameworks) if one is None or one.task not in _WITHOUT_BATCHES
    ]
    return crash.setting(*KNOBS["smaller-microbatch"].settings) is not None or bool(others)


def _loads(_cause: str, crash: Crash) -> bool:
    """Weights: a script that builds an array in host memory loads none."""
    if not isinstance(crash.root, HostAllocation) or crash.stage in _LOADING:
        return True
    return crash.in_trace(_OF_WEIGHTS) is not None or bool(crash.context.models)


def _on_many_cards(cause: str, crash: Crash) -> bool:
    return cause == "device-misplacement" or many_cards(crash)


_PREMISES: Final[Mapping[str, Callable[[str, Crash], bool]]] = {
    **dict.fromkeys(
        (
            "lower-engine-reservation", "raise-engine-reservation", "fewer-sequences", "smaller-prefill", "eager-mode",
            "engine-sleep", "separate-placement", "less-swap-space",
        ),
        runs_engine,
    ),
    "start-in-sequence": _several_starts,
    "fix-placement": _on_many_cards,
    "shard-states": _on_many_cards,
    "sequence-parallel": _on_many_cards,
    "fewer-workers": _workers,
    "smaller-microbatch": _trains,
    "low-memory-loading": _loads,
}  # fmt: skip
