"""What settings put into host memory on purpose: offloaded states, swap space, offloaded caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import SIGKILL, Kill
from oomdoctor.families.lines import PROGRESS
from oomdoctor.families.memory_report import MemoryReport
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE, TOGETHER, machine_after
from oomdoctor.incident.prints import is_told_last, own_lines
from oomdoctor.job.frameworks import some
from oomdoctor.job.model import Setting
from oomdoctor.job.verbs import words_of
from oomdoctor.language import joined, listed, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.address_space import refused_with_more_free, unused_ram
from oomdoctor.signs.commands import CARDS, FREE
from oomdoctor.signs.host_caches import (
    HALF,
    QUARTER,
    engines_keep_a_quarter_of_the_node,
    host_buffer_of_kv_blocks_is_full,
    host_cache_was_refused,
    memory_of_the_node,
    no_host_memory_for_waiting_sequences,
    object_store_was_refused,
    swap_space_was_refused,
    table_or_root,
)
from oomdoctor.signs.node import first_rows_are_missing, table
from oomdoctor.signs.node_groups import there_is_one_for_each_gpu
from oomdoctor.signs.ray_kills import a_rank_was_killed
from oomdoctor.units import GIB, percent, show

# vLLM's own default: a setting of this size is no decision of the job.
DEFAULT_SWAP_GIB: Final = 4
_SHARDING: Final = frozenset({"deepspeed", "fsdp", "megatron"})
_PER_GPU: Final = {
    "swap_space": mark("swap space"),
    "vllm_swap_space": mark("swap space"),
    "cpu_offload_gb": mark("offloaded weights"),
}
# Of all ranks of an engine together.
_PER_ENGINE: Final = {"kv_offloading_size": mark("offloaded KV cache")}
_SWITCHES: Final = (
    "adam_offload",
    "optimizer_offload",
    "param_offload",
    "offload_policy",
    "grad_offload",
    "optimizer_cpu_offload",
    "cpu_offload",
    "offload_optimizer",
    "offload_param",
    "offload_optimizer.device",
    "offload_param.device",
    "offload_optimizer_device",
    "offload_param_device",
    "vllm_enable_sleep",
    "enable_sleep",
    "deepspeed_enable_sleep",
    "vllm_enable_sleep_mode",
)
_NO: Final = (False, "false", "False", "none", "None", None, 0, "")
_GPUS: Final = ("n_gpus_per_node", "nproc_per_node", "num_gpus_per_node", "actor_num_gpus_per_node", "gpus_per_node")
_RANKS: Final = ("num_gpus", "num_processes", "world_size", "num_local_procs")
_FRAMES: Final = (
    r"cpu_adam|parameter_offload|offload_(?:optimizer|param|states|to_cpu)|swap_tensor|CPUAdam|_pin_memory|pin_memory\("
    r"|initialize_optimizer_states|_create_fp32_partitions"
)
# OpenRLHF's, verl's and NeMo-RL's names of an engine's worker; vLLM's lines on sleep (gpu_worker.py, executor_base.py)
_ENGINE_WORKER: Final = late(r"(?i)\bLLM\w{0,8}Actor|vllm|sglang|RolloutWorker|GenerationWorker")
_SLEEPS: Final = late(r"^Sleep\b|Sleep mode freed|\bto fall asleep\b")
AWAKE: Final = 4 * GIB  # a worker whose weights are on the card takes less
# deepspeed/runtime/zero since 0.3.10
_PARAMETERS: Final = r"_convert_to_zero_parameters|zero[/\\](?:partition_parameters|parameter_offload)\.py"
# deepspeed/runtime/zero/stage3.py, called where offload_param is on
_FLAT_BUFFER: Final = r"_create_param_groups_fp16_flat_cpu_memory"
# deepspeed/runtime/zero/stage3.py, see_memory_usage()
_PARTITIONS: Final = r"(?:Before|After) creating fp(?:16|32) partitions"
# What it says before it makes the states of the optimizer, and behind them; stage_1_and_2.py says the second, too
_MAKES_STATES: Final = late(r"\bBefore (?:creating fp32 partitions|initializing optimizer states)\b")
_MADE_STATES: Final = late(r"\bAfter (?:initializing optimizer states|initializing ZeRO optimizer)\b")
_RIGHT_BEFORE: Final = 8  # lines
_OF_THE_OPTIMIZER: Final = (
    "adam_offload",
    "optimizer_offload",
    "optimizer_cpu_offload",
    "offload_optimizer",
    "offload_optimizer.device",
    "offload_optimizer_device",
)
# The class, and its extension as it is built and loaded (deepspeed/ops/adam/cpu_adam.py since 0.3)
_OPTIMIZER_ON_THE_CPU: Final = (
    r"\bDeepSpeedCPU(?:Adam|Adagrad|Lion)\b|extension module cpu_(?:adam|adagrad|lion)\b|Time to load cpu_\w{4,8} op"
)
_OFFLOADS: Final = "offload"
_NOT: Final = frozenset({"no", "not", "disable", "without"})
TO_A_DISK: Final = frozenset({"disk", "nvme", "ssd"})
_PLACES: Final = frozenset({"true", "cpu", "disk", "nvme"})
_STAGES: Final = frozenset({"optimizer_step", "weight_sync", "model_load", "engine_init"})


@sign
def states_are_sharded(crash: Crash) -> Seen | None:
    """DeepSpeed, FSDP or Megatron shards the training states."""
    return Seen(words="") if _SHARDING & crash.context.frameworks.keys() else None


@sign
def no_cluster_in_sight(crash: Crash) -> Seen | None:
    """The log shows no Ray: there is no other node to move anything to."""
    return None if "ray" in crash.context.frameworks else Seen(words="")


@sign
def engine_makes_its_cache_anew(crash: Crash) -> Seen | None:
    """verl's first generation, with vLLM up to 0.6.3, reallocates the engine's cache at each rollout."""
    cache = crash.setting("free_cache_engine")
    return Seen(words="") if cache is not None and cache.value is True else None


@sign
def engine_has_swap_space(crash: Crash) -> Seen | None:
    """The engine has pinned swap space, which is reallocated with its cache."""
    swap = crash.setting("swap_space", "vllm_swap_space")
    is_set = swap is not None and isinstance(swap.value, int | float) and swap.value > 0
    return Seen(words="") if is_set else None


@sign
def engine_makes_cache_and_swap_space_anew(crash: Crash) -> Seen | None:
    """The engine's cache and its swap space are reallocated at each rollout."""
    return engine_has_swap_space(crash) if engine_makes_its_cache_anew(crash) is not None else None


@sign
def settings_reserve_half_of_the_node(crash: Crash) -> Seen | None:
    """Settings with sizes reserve at least half of the node's memory."""
    return _share_of_settings(crash, HALF)


@sign
def settings_reserve_a_quarter_of_the_node(crash: Crash) -> Seen | None:
    """Settings with sizes reserve at least a quarter of the node's memory."""
    return _share_of_settings(crash, QUARTER)


def _share_of_settings(crash: Crash, least: float) -> Seen | None:
    reservations, total = list(_reservations(crash)), memory_of_the_node(crash)
    need = sum(one.bytes for one in reservations)
    if not reservations or not total or need < least * total:
        return None
    words = say(
        "{settings}: {share} of the node's {total}, pinned from the start. Pinned buffers are rounded up to "
        "powers of two, so they can take more.",
        settings=listed(one.words for one in reservations),
        share=percent(need / total),
        total=show(total),
    )
    again = (
        say("With free_cache_engine, every rollout frees and reallocates the engine's cache and its swap space.")
        if engine_makes_its_cache_anew(crash) is not None
        else ""
    )
    return Seen(words=joined((words, again)), evidence=table_or_root(crash), shows_memory=True)


@sign
def refused_for_states_on_the_host(crash: Crash) -> Seen | None:
    """A frame that keeps states in host memory made the allocation that failed."""
    frame = crash.in_trace(_FRAMES)
    if frame is None or crash.first(HostAllocation) is None:
        return None
    words = say(
        "The allocation that failed is for states in host memory ({function} in {file}).",
        function=frame.function,
        file=frame.file,
    )
    return Seen(words=words, evidence=(crash.root,))


@sign
def more_was_free_and_no_setting_offloads(crash: Crash) -> Seen | None:
    """The frame alone speaks for offloaded states, and the log shows more unused RAM than was requested: ZeRO-3 runs
    the same code where nothing is offloaded (deepspeed/runtime/zero/parameter_offload.py)."""
    free = unused_ram(crash)
    if free is None or _switches(crash) or refused_for_states_on_the_host(crash) is None:
        return None
    if refused_with_more_free(crash) is None:
        return None
    return Seen(words=say("{free} of RAM is unused, and no setting in the log offloads states", free=show(free)))


@sign
def refused_for_parameters_on_the_host(crash: Crash) -> Seen | None:
    """DeepSpeed was making its partitions of the parameters and was refused host memory for them."""
    refused = crash.first(HostAllocation) is not None and crash.in_trace(_PARAMETERS) is not None
    return Seen(words="") if refused else None


@sign
def refused_for_the_buffer_of_parameters(crash: Crash) -> Seen | None:
    """DeepSpeed was making the pinned buffer of all parameters, which it has only where they are offloaded."""
    return Seen(words="") if crash.in_trace(_FLAT_BUFFER) is not None else None


@sign
def refused_beside_an_option_that_offloads(crash: Crash) -> Seen | None:
    """The launch line moves states or weights off the GPU, whatever its option is called, and a large allocation in
    host memory failed."""
    option, refused = option_that_offloads(crash), crash.first(HostAllocation)
    if option is None or refused is None or refused.pool != "host_ram" or (refused.tried_bytes or 0) < LARGE:
        return None
    goes_through = (
        say("What {option} moves to a disk passes through buffers in host memory.", option=option.flag)
        if TO_A_DISK & frozenset(words_of(option.name))
        else say("What {option} moves off the GPU is kept in host memory.", option=option.flag)
    )
    asked = say("One allocation of {tried} failed.", tried=show(refused.tried_bytes or 0))
    after = machine_after(crash)
    left = (
        say("After the failure {available} of {total} were available.", available=show(after.available_bytes or 0),
            total=show(after.total_bytes))
        if after is not None and after.total_bytes else ""
    )  # fmt: skip
    return Seen(words=joined((goes_through, asked, left)), evidence=(refused,))


def option_that_offloads(crash: Crash) -> Setting | None:
    """An option of the launch line that is a switch, or names where to."""
    flags = (one for one in crash.context.settings.values() if one.is_launched)
    return next((one for one in flags if _moves_off(words_of(one.name)) and _is_on(one)), None)


def _moves_off(words: Sequence[str]) -> bool:
    return _OFFLOADS in words and _NOT.isdisjoint(words)


def _is_on(option: Setting) -> bool:
    return option.value is True or str(option.value).lower() in _PLACES


# What shows, settings aside, that something is kept on the host.
_BESIDE_SETTINGS: Final = (
    swap_space_was_refused,
    host_cache_was_refused,
    object_store_was_refused,
    no_host_memory_for_waiting_sequences,
    host_buffer_of_kv_blocks_is_full,
    engines_keep_a_quarter_of_the_node,
    refused_for_states_on_the_host,
)


@sign
def settings_reserve_little(crash: Crash) -> Seen | None:
    """Only sizes in settings are kept in host memory, and they are less than a quarter of the node's memory."""
    reservations, total = _little(crash)
    if not reservations or not all(one.counted for one in reservations):
        return None
    if any(other(crash) is not None for other in _BESIDE_SETTINGS):
        return None
    words = say(
        "{settings}: {share} of the node's {total}",
        settings=listed(one.words for one in reservations),
        share=percent(sum(one.bytes for one in reservations) / total),
        total=show(total),
    )
    return Seen(words=words)


@sign
def gpus_are_not_counted(crash: Crash) -> Seen | None:
    """Settings reserve host memory per GPU, and the log does not say how many GPUs there are."""
    reservations, _ = _little(crash)
    if all(one.counted for one in reservations):
        return None
    return Seen(words=say("how many GPUs of the node the engine uses"), next_evidence=(CARDS,))


def _little(crash: Crash) -> tuple[list[Reservation], int]:
    """What settings reserve where it is less than a quarter of the node's memory and no states are offloaded beside."""
    reservations, total = list(_reservations(crash)), memory_of_the_node(crash)
    if not total or sum(one.bytes for one in reservations) >= QUARTER * total or _switches(crash):
        return [], 0
    return reservations, total


class Reservation(Struct, frozen=True):
    """Host memory that a setting takes, where it says how much."""

    bytes: int
    words: str
    counted: bool = True  # of all GPUs, and not of one because their number is not known


def _reservations(crash: Crash) -> Iterator[Reservation]:
    gpus = gpus_per_node(crash)
    for name, what in (*_PER_GPU.items(), *_PER_ENGINE.items()):
        setting = crash.setting(name)
        if setting is None or isinstance(setting.value, bool | str) or not setting.value:
            continue
        gib = float(setting.value)
        if gib <= DEFAULT_SWAP_GIB and "swap" in name:
            continue
        if name in _PER_ENGINE:
            each = say("{what} {name}: {gib:g} GiB per engine", what=translated(what), name=setting.name, gib=gib)
            yield Reservation(round(gib * GIB), each)
        elif gpus:
            size = gib * GIB * gpus
            all_ = say(
                "{what} {name}: {gib:g} GiB x {gpus} GPUs = {sum}",
                what=translated(what),
                name=setting.name,
                gib=gib,
                gpus=gpus,
                sum=show(size),
            )
            yield Reservation(round(size), all_)
        else:
            each = say("{what} {name}: {gib:g} GiB per GPU", what=translated(what), name=setting.name, gib=gib)
            yield Reservation(round(gib * GIB), each, counted=False)


def gpus_per_node(crash: Crash) -> int | None:
    """How many GPUs of one node the job uses, as it was told or as the log counts them."""
    setting = crash.setting(*_GPUS)
    if setting is not None and isinstance(setting.value, int) and setting.value > 0:
        return setting.value
    count = crash.context.hardware.get("gpu_count")
    return count if isinstance(count, int) and count > 0 else None


@sign
def workers_that_offload_have_it(crash: Crash) -> Seen | None:
    """Settings offload states, and the job's workers hold 40% of the memory in use."""
    held = _held_by_workers(crash)
    if held is None or held[0] < TOGETHER:
        return None
    words = say("The job's own workers hold {held} of {whole}.", held=held[1], whole=held[2])
    return _offloading(crash, words)


@sign
def workers_that_offload_have_little(crash: Crash) -> Seen | None:
    """Settings offload states, and the job's workers hold less than 40% of the memory in use."""
    held, names = _held_by_workers(crash), names_of_switches(crash)
    if held is None or held[0] >= TOGETHER or not names:
        return None
    little = say("the job's workers hold {held} of {whole}", held=held[1], whole=held[2])
    words = say("{names}: states are in host memory.", names=names)
    return Seen(words=words, evidence=table_or_root(crash), against=(little,))


def _held_by_workers(crash: Crash) -> tuple[float, str, str] | None:
    """What the table lists of the job's workers: their share, and in words what they hold and of what."""
    memory = table(crash)
    if memory is None or not memory.holders:
        return None
    workers = [holder for holder in memory.holders if holder.role not in ("reward", None) or "Worker" in holder.name]
    held = sum(holder.bytes for holder in workers)
    return memory.share(held), show(held), memory.whole


@sign
def a_rank_that_offloads_was_killed(crash: Crash) -> Seen | None:
    """Settings offload states, and the kernel killed one of several ranks of the same size."""
    stated = (crash.setting(name) for name in (*_GPUS, *_RANKS))
    several = any(one is not None and isinstance(one.value, int) and one.value > 1 for one in stated)
    if not several or crash.first(KernelKill) is None:
        return None
    return _offloading(crash, say("Every rank on the node holds its part there, also the killed rank."))


@sign
def at_a_step_with_offloaded_states(crash: Crash) -> Seen | None:
    """Settings offload states, and the job was moving states to the host or computing with them there."""
    if crash.stage not in _STAGES and crash.in_trace(_FRAMES) is None:
        return None
    return _offloading(crash)


@sign
def states_are_offloaded(crash: Crash) -> Seen | None:
    """Settings keep states in host memory, and do not say how much."""
    return _offloading(crash)


@sign
def sleeping_engines_have_it(crash: Crash) -> Seen | None:
    """The rows of the table are engine workers with 4 GiB or more each, and the engine sleeps with its weights in host
    memory."""
    memory = table(crash)
    engines = [one for one in memory.holders if _ENGINE_WORKER.search(one.name)] if memory is not None else []
    large = [one for one in engines if max(one.sizes) >= AWAKE]
    if memory is None or not large or large[0] is not memory.holders[0] or not _goes_to_sleep(crash):
        return None
    words = say(
        "{count} engine workers hold {held} together. The engine sleeps and keeps its weights in host memory.",
        count=sum(len(one.sizes) for one in large),
        held=show(sum(one.bytes for one in large)),
    )
    doubt = first_rows_are_missing(crash)
    against = (doubt.words,) if doubt is not None else ()
    return Seen(words=words, evidence=table_or_root(crash), against=against, unsure=bool(against))


def _goes_to_sleep(crash: Crash) -> bool:
    around = crash.root.around
    return any(_SLEEPS.search(line) for line in (*around.before, *around.below))


@sign
def partitions_off_the_card(crash: Crash) -> Seen | None:
    """DeepSpeed was making its partitions and reports that nothing is on the GPU: they are made in host memory."""
    reports = [report for report in crash.every(MemoryReport) if report.reporter == "deepspeed"]
    if not reports or reports[-1].allocated_bytes != 0 or crash.mentions(_PARTITIONS) is None:
        return None
    words = say("DeepSpeed was partitioning the states and none was on the GPU, so they are in host memory.")
    doubt = say("the log does not say how much they take")
    return Seen(words=words, evidence=(reports[-1], crash.root), against=(doubt,), shows_memory=True)


@sign
def killed_while_states_were_made(crash: Crash) -> Seen | None:
    """The last print before a SIGKILL announces DeepSpeed's optimizer states, and no setting keeps them on the GPU: a
    shortage there is an error of PyTorch's, and no kill."""
    root = crash.root
    reports = [report for report in crash.every(MemoryReport) if report.host_used_bytes is not None]
    if not isinstance(root, Kill) or root.signal != SIGKILL or not reports or _stays_on_the_card(crash):
        return None
    if not is_told_last(islice(own_lines(crash), _RIGHT_BEFORE), _MAKES_STATES, (PROGRESS, _MADE_STATES)):
        return None
    words = say(
        "DeepSpeed was creating the optimizer states. On the GPU a shortage raises an error; a kill comes from the "
        "host, so the states were probably created there. {used} of the node's RAM were in use before.",
        used=show(reports[-1].host_used_bytes or 0),
    )
    doubts = (say("no setting in the log offloads states"), say("the log does not say how much they take"))
    return Seen(words=words, evidence=(root, reports[-1]), against=doubts, unsure=True, next_evidence=(FREE,))


def _stays_on_the_card(crash: Crash) -> bool:
    told = (crash.setting(name) for name in _OF_THE_OPTIMIZER)
    return any(one is not None and one.value in _NO for one in told)


@sign
def ranks_may_keep_their_states(crash: Crash) -> Seen | None:
    """Ranks hold the memory in use, of a program that moves their states to host memory between its phases where its
    options say so; the log does not show these options."""
    if not some(crash.context.frameworks, "brings states back") or _switches(crash):
        return None
    hold = there_is_one_for_each_gpu(crash) or a_rank_was_killed(crash)
    return Seen(words="") if hold is not None else None


@sign
def optimizer_on_the_cpu(crash: Crash) -> Seen | None:
    """DeepSpeed loads or names its CPU optimizer, which only works on offloaded states."""
    if crash.mentions(_OPTIMIZER_ON_THE_CPU) is None:
        return None
    words = say("DeepSpeed runs the optimizer on the CPU, so the optimizer states are in host memory.")
    return Seen(words=words, evidence=table_or_root(crash), against=(say("the log does not say how much they take"),))


def _offloading(crash: Crash, words: str = "") -> Seen | None:
    names = names_of_switches(crash)
    if not names:
        return None
    where = (
        say("{names}: these settings keep states on a disk, and buffers for them in host memory.", names=names)
        if states_are_on_a_disk(crash)
        else say("{names}: these settings keep states in host memory.", names=names)
    )
    return Seen(words=joined((where, words)), evidence=table_or_root(crash), shows_memory=True)


def states_are_on_a_disk(crash: Crash) -> bool:
    """Whether all that is offloaded goes there: DeepSpeed keeps only buffers and what `max_in_cpu` says in host memory
    (runtime/zero/offload_config.py)."""
    switches = _switches(crash)
    return bool(switches) and all(one.value in TO_A_DISK for one in switches)


def names_of_switches(crash: Crash) -> str:
    return ", ".join(f"{one.name} {one.value}" for one in _switches(crash)[:3])


def _switches(crash: Crash) -> list[Setting]:
    settings = (crash.setting(name) for name in _SWITCHES)
    return [setting for setting in settings if setting is not None and setting.value not in _NO]
