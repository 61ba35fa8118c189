"""The knobs of the host's memory, computed from what the kill, the table of users and the settings print."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import host as ram
from oomdoctor.arithmetic import vllm
from oomdoctor.arithmetic.kv_cache import SWAP_SPACE_BYTES
from oomdoctor.families.container import EndRecord, LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.data_loader import SharedMemoryFull
from oomdoctor.families.df import ShmUsage
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.families.ray_store import DiskFull, StoreFull, StoreTooLarge, StoreUsage
from oomdoctor.families.sglang import HostCacheTooLarge
from oomdoctor.families.sysctl import KernelSettings
from oomdoctor.families.vllm_error import SwapSpaceTooLarge
from oomdoctor.families.vllm_figures import KvCacheSize
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import (
    LARGE,
    Holder,
    NodeMemory,
    held_by,
    held_in_words,
    largest_kill,
    low_limit,
    machine_after,
    node_memory,
    ray_kill,
    store_bytes,
    total_bytes,
    used_bytes,
)
from oomdoctor.job.frameworks import among, some
from oomdoctor.job.model import Value
from oomdoctor.language import all_of, filled, listed, say, semicolons
from oomdoctor.patterns import late
from oomdoctor.remedies import A_CHOICE, engine, held, models, ray_workers
from oomdoctor.remedies.initial import as_default
from oomdoctor.remedies.proposal import NODE_FULL, REWARD_HOG, Answer, Case, Compute, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import Spelling, known_versions, of_knob, spelling
from oomdoctor.remedies.sizes import size_of_model, size_of_trained
from oomdoctor.signs import commands, limits, set_limits
from oomdoctor.signs.address_space import a_fork_was_refused, kill_at_a_virtual_limit
from oomdoctor.signs.host_caches import LMCACHE_BUFFER, LMCACHE_USUAL, caches_of_ranks, lmcache_was_refused
from oomdoctor.signs.host_data import MANY, data_goes_to_the_card_in_one_piece, many_readers_and_one_vanished
from oomdoctor.signs.machine import is_on_windows
from oomdoctor.signs.offload import (
    gpus_per_node,
    refused_for_parameters_on_the_host,
    refused_for_the_buffer_of_parameters,
    sleeping_engines_have_it,
)
from oomdoctor.signs.store import only_the_disk_is_short
from oomdoctor.units import GIB, MIB, show, size
from oomdoctor.versions import version_of

# Switches that put GPU memory into host memory, by the names under which they are stated.
OFFLOADS: Final = (
    "adam_offload", "ds.adam_offload", "optimizer_offload", "param_offload", "offload_optimizer.device",
    "offload_param.device", "cpu_offload_gb", "ref_reward_offload", "ref.offload", "vllm_enable_sleep",
    "vllm.enable_sleep", "enable_sleep_mode", "deepspeed_enable_sleep", "optimizer_cpu_offload",
)  # fmt: skip
_ON_THE_HOST: Final = (
    'with tf.device("CPU:0"):\n    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH_SIZE)'
)
OFF: Final = (False, None, 0, 0.0, "none", "None", "")
SEVERAL: Final = 2
ROOM: Final = 0.8  # of a limit, to come to rest below it
_MORE_THAN_ONE: Final = late(r"\d[,-]\d")  # "1-3", "0,2"
_AN_AMOUNT: Final = "BYTES"
_OF_RAY_START: Final = "--object-store-memory"
_AMOUNT: Final = late(r"(\d{1,9}(?:\.\d{1,3})?)([KMGTkmgt])i?[Bb]?")
USUAL_SHM: Final = "8g"
_CONTAINER: Final = r"(?i)\bdocker\b|\bcontainers?\b|podman|/\.dockerenv|\bipc=host|shm[-_]size"
_PROCESSES_OF_A_MAP: Final = 16  # preprocessing_num_workers in examples/train_lora of LLaMA-Factory v0.9.0
_SECOND_ENGINE: Final = (0, 8)  # V1, vLLM's default from here on, swaps nothing to the host
OTHER_NODE: Final = "OTHER_NODE"  # stands for a host that the reader fills in
_PORT: Final = "PORT"
_URL: Final = late(
    r"(?P<scheme>https?://)(?:[\w.\-]{1,253}|\[[0-9a-fA-F:]{2,45}\])(?P<port>:\d{1,5})?(?P<path>(?:/[\w.\-/]{0,200})?)"
)
_FREE_WITHOUT_RESERVE: Final = (0, 5, 3)  # SGLang
# Causes that leave open, or say otherwise, what an object store without a figure has to do with it
_SAYS_NOTHING_OF_THE_STORE: Final = (NODE_FULL, REWARD_HOG)
STORES_SHARE: Final = 0.3  # DEFAULT_OBJECT_STORE_MEMORY_PROPORTION of ray/_private/ray_constants.py
HARDLY: Final = 0.02  # of a node: giving back less is not worth a restart
# In the names of control groups, innermost first
_GROUPS: Final = (
    ("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("slurm", "slurm"), (".service", "systemd"),
    (".scope", "systemd"),
)  # fmt: skip
# A limit that a program of Python with its libraries may pass at its start
_SMALL: Final = 4 * GIB
_TINY: Final = 32 * MIB  # no interpreter with a few libraries starts in as much
_START: Final = 512 * MIB
# Names of KubeRay's objects, and of its guides: doc/source/cluster/kubernetes of Ray
_OF_KUBERAY: Final = r"(?i)\bkuberay\b|\bray-?cluster\b|\bRAY_HEAD\b|ray\.io/node-type|\bray-head\b"
_OF_A_POD: Final = r"\bkubepods\b"  # a path of a cgroup, on a line that the kernel broke off
_OFTEN: Final = 3  # restarts of a container that is killed again and again
_SESSION: Final = late(r"(/[\w./-]{1,200})/session_[\w-]{1,80} is over ")
_RESTARTS: Final = late(r"(?i)\brestart ?count\b\W{1,12}(\d{1,6})\b")
_ALWAYS: Final = 1  # vm.overcommit_memory: Documentation/mm/overcommit-accounting.rst of Linux
RAYS_DEFAULT: Final = 0.95  # RAY_memory_usage_threshold since 2.2: src/ray/common/ray_config_def.h
MORE: Final = 1.25  # a new limit against the one that was hit: what would have been needed was cut off by the kill
# docs/reference/generated/kubectl/kubectl-commands of kubernetes.io, `set resources`; of what made the pod, whose own
# limits are not changed while it runs
_SET_LIMIT: Final = (
    "kubectl set resources deployment NAME -c CONTAINER --limits=memory={amount}   # or statefulset, daemonset"
)
_EDIT_CLUSTER: Final = "kubectl edit raycluster NAME   # resources.limits.memory: {amount}"


def threshold_of(crash: Crash) -> tuple[int, str] | None:
    """Where the killer strikes: Ray's threshold, or the limit itself; and the figure in words."""
    for kill in crash.every(NodeOutOfMemory):
        if kill.bytes:
            return kill.bytes, show(kill.bytes)
        if kill.fraction and kill.total_bytes:
            limit = round(kill.fraction * kill.total_bytes)
            return limit, f"{show(limit)} ({kill.fraction:g} x {show(kill.total_bytes)})"
    limit_ = limit_bytes(crash)
    return (limit_, show(limit_)) if limit_ is not None else None


def limit_bytes(crash: Crash) -> int | None:
    """The limit of the container or job."""
    for event in crash.events:
        if isinstance(event, LimitKill | KernelKill | MemoryLimit) and event.limit_bytes:
            return event.limit_bytes
    return next((kill.requested_bytes for kill in crash.every(LimitKill) if kill.requested_bytes), None)


# who holds it


def move_process(case: Case) -> Answer:
    crash = case.crash
    memory = node_memory(crash)
    holder = memory.heaviest if memory is not None else None
    if memory is None or holder is None:
        return None
    if memory.equals and not memory.overlaps:
        return _apart(memory)
    threshold, used = threshold_of(crash), memory.used_bytes
    parts = [
        say("{process} holds {amount} of {whole}", process=holder.who, amount=show(holder.largest), whole=memory.whole)
    ]
    target: int | None = None
    assumes: tuple[str, ...] = ()
    if threshold is not None and used is not None:
        if used > threshold[0]:
            to_give_back = say(
                "{used} in use - {threshold} threshold = {amount} to free at least",
                used=show(used),
                threshold=threshold[1],
                amount=show(used - threshold[0]),
            )
            parts.append(to_give_back)
        total = memory.total_bytes or threshold[0]
        rest = round(ROOM * (total if ROOM * total < threshold[0] else threshold[0]))
        if rest < used and holder.largest - (used - rest) > 0:
            target = holder.largest - (used - rest)
            to_rest = say(
                "it must shrink by {amount} to bring the node to {share} ({rest})",
                rest=show(rest),
                share=f"{ROOM:.0%}",
                amount=show(used - rest),
            )
            parts.append(to_rest)
            assumes = (say("20 % free for growth of the other processes (a guess)"),)
    move = (
        say("Move {process} to another node", process=holder.who)
        if target is None
        else say("Move {process} to another node or cap it at {amount}", process=holder.who, amount=show(target))
    )
    if holder.outside_ray:
        move = say("{action}; Ray does not manage this process and never kills it", action=move)
    return Proposal(
        action=move,
        derivation=semicolons(parts),
        assumes=assumes,
        snippet=_reward_url(case, holder),
        setting=case.row.setting if case.row is not None and holder.role == "reward" else None,
    )


def _apart(memory: NodeMemory) -> Proposal:
    """Of processes that are as large as each other, one is as much to blame as the next."""
    first, *others = memory.equals
    both = sum(one.largest for one in memory.equals)
    return Proposal(
        action=say(
            "Put {others} on another node than {first}",
            others=all_of(one.who for one in others),
            first=first.who,
        ),
        derivation=say("{both} together of {whole}", both=show(both), whole=memory.whole),
        setting="",
        subject=others[0].who,
    )


def _reward_url(case: Case, holder: Holder) -> str | None:
    if holder.role != "reward" or case.row is None:
        return None
    return case.row.snippet(_elsewhere(case))


def _elsewhere(case: Case) -> Value:
    """The server's address on another node: the job's own, else the usual one with the port that the server got."""
    url = _URL.fullmatch(str(case.now.value)) if case.now is not None else None
    if url is not None:
        return f"{url['scheme']}{OTHER_NODE}{url['port'] or ''}{url['path']}"
    usual = case.row.value if case.row is not None else None
    port = _port_of_the_server(case.crash)
    return usual.replace(_PORT, str(port)) if isinstance(usual, str) and port is not None else usual


def _port_of_the_server(crash: Crash) -> int | None:
    """The option of the line that also names the reward model: an engine and a dashboard have ports too."""
    port, model = crash.setting("port"), crash.setting("reward_pretrain")
    if port is None or model is None or (port.file, port.line) != (model.file, model.line):
        return None
    return port.whole


def fewer_workers(case: Case) -> Answer:
    """As many as fit below the threshold, from what one of them holds."""
    if (threads := held.fewer_threads(case)) is not None:
        return threads
    memory = node_memory(case.crash)
    threshold = threshold_of(case.crash)
    group = memory.group if memory is not None else None
    if memory is None or group is None or threshold is None or memory.used_bytes is None:
        return _of_a_step(case) or _of_actors(case) or _of_tasks(case) or _of_a_map(case) or engine.half(case)
    limit, at = threshold
    one = group.bytes // len(group.sizes)
    others = memory.listed_bytes - group.bytes
    fit = math.floor((ROOM * limit - others) / one) if one else 0
    if memory.overlaps or fit < 1:
        if (half := _half_of_those_listed(case.row, group)) is not None:
            return half
        return Proposal(
            action=say("Run fewer {name} at once, and check the other processes", name=group.name),
            derivation=say(
                "{largest} in the largest of them; threshold {threshold}", largest=show(group.largest), threshold=at
            )
            if memory.overlaps
            else say(
                "{amount} in {count} listed processes + {others} in others; threshold {threshold}",
                count=len(group.sizes),
                amount=show(group.bytes),
                others=show(others),
                threshold=at,
            ),
        )
    line, assumed = _at_most(case.row, fit)
    return Proposal(
        action=say("Run at most {count} {name} at once on this node", count=fit, name=group.name),
        suggested=fit,
        derivation=say(
            "floor(({share} of the {threshold} threshold - {others} of others) / {each} each) = {count}",
            share=f"{ROOM:.0%}",
            threshold=at,
            others=show(others),
            each=show(one),
            count=fit,
        ),
        assumes=(say("processes not listed by Ray (it lists ten) are of the same kind"), *assumed),
        snippet=line,
    )


def _half_of_those_listed(row: Spelling | None, group: Holder) -> Proposal | None:
    """Where their option is known, and how many fit cannot be said."""
    listed = len(group.sizes)
    if row is None or not some([row.framework], "starts as many as its option says") or listed < SEVERAL:
        return None
    half = listed // 2
    return Proposal(
        action=say(
            "Run fewer {name} at once: {half} instead of the {listed} listed",
            name=group.name, half=half, listed=listed,
        ),
        suggested=half,
        derivation=say(
            "{listed} / 2 = {half}; {largest} in the largest of them",
            listed=listed, half=half, largest=show(group.largest),
        ),
    )  # fmt: skip


def _at_most(row: Spelling | None, count: int) -> tuple[str | None, tuple[str, ...]]:
    """The option with this number; where a task's own request for CPUs is all that is known, Ray's number of them."""
    if row is None or row.takes_value:
        return (row.snippet(count) if row is not None else None), ()
    by_number = next((one for one in of_knob(row.knob, row.framework) if one.is_call and one.takes_value), None)
    if by_number is None:
        return None, ()
    return by_number.snippet(count), (say("the program starts Ray itself (not in the log)"),)


def _of_actors(case: Case) -> Proposal | None:
    """Actors that the program starts: no option of Ray's says how many."""
    name = ray_workers.own_actor(case.crash) if case.row is None and case.now is None else None
    if name is None:
        return None
    action = say("Start fewer {name} actors: their number is set in your program", name=name)
    return Proposal(action=action, subject=name)


def _of_a_step(case: Case) -> Proposal | None:
    """Slurm names the tasks of a step that ran out together."""
    if not several_tasks(case.crash):
        return None
    row = next(of_knob("fewer-workers", "slurm"))
    return Proposal(
        action=say("Start fewer tasks on each node ({option}): they share the limit", option=row.setting),
        setting=row.setting,
        cost=say("more nodes, or fewer tasks in all"),
    )


def several_tasks(crash: Crash) -> bool:
    """More than one task of a step, in a job of no world of arrays: there each may be one of the ranks."""
    tasks = (kill.tasks or "" for kill in crash.every(LimitKill))
    return crash.job.world == "none" and any(_MORE_THAN_ONE.search(named) for named in tasks)


def _of_tasks(case: Case) -> Proposal | None:
    """Tasks of Ray, which runs as many at once as there are CPUs for."""
    row = case.row
    if row is None or row.framework != ray_workers.NAME or row.takes_value:
        return None
    unnamed = ray_workers.are_unnamed(case.crash)
    return Proposal(
        action=say("Run fewer Ray tasks at once: let each request more CPUs"),
        assumes=(say("Ray killed tasks; of actors the program starts as many as it is told"),) if unnamed else (),
        snippet=row.snippet(row.value),
    )


def _of_a_map(case: Case) -> Proposal | None:
    """Half of hundreds of processes is as many as no machine has cores for."""
    now = case.now
    if now is None or many_readers_and_one_vanished(case.crash) is None or (now.whole or 0) < MANY:
        return None
    answer = engine.half(case)
    if not isinstance(answer, Proposal):
        return None
    return replace(
        answer,
        action=say("Lower {name} from {now} to {then}", name=case.name, now=now.value, then=_PROCESSES_OF_A_MAP),
        suggested=_PROCESSES_OF_A_MAP,
        derivation=say("{value} is a usual start value", value=_PROCESSES_OF_A_MAP),
        snippet=case.own_spelling(_PROCESSES_OF_A_MAP) if answer.snippet is not None else None,
    )


# offload, swap, store


def less_offload(case: Case) -> Answer:
    crash = case.crash
    if (pair := caches_of_ranks(crash)) is not None:
        return _smaller_buffers_of_ranks(*pair)
    if lmcache_was_refused(crash) is not None:
        return _smaller_buffer(crash)
    refused = crash.first(HostCacheTooLarge)
    if refused is not None and refused.tried_bytes and refused.free_bytes is not None:
        return _smaller_host_cache(crash, refused.tried_bytes, refused.free_bytes)
    stated = [s for s in (crash.setting(name) for name in OFFLOADS) if s is not None]
    switched_on = [s for s in stated if s.value not in OFF]
    if not switched_on:
        if not stated:
            return _awake(case) or _parameters_back(case)
        return Refusal(say("{name} is already off ({place})", name=stated[0].name, place=stated[0].place))
    one = switched_on[0]
    names = listed(s.name for s in switched_on)
    row = case.row if case.row is not None and case.row.key == one.name else None
    derivation, assumes = _taken(crash, one.name)
    return Proposal(
        action=say("Turn off what moves GPU memory to host RAM: {names}", names=names),
        current=one.value,
        suggested=False if one.value is True else None,
        setting=one.name if row is None else None,
        snippet=row.snippet(row.value) if row is not None else None,
        derivation=derivation,
        assumes=assumes,
    )


def _awake(case: Case) -> Proposal | None:
    """Of a launch line that is not in the log, by what the engines say."""
    row = spelling("engine-sleep", case.crash.context)
    if row is None or sleeping_engines_have_it(case.crash) is None:
        return None
    return Proposal(
        action=say("Run without {option}, if it is set, where the trainer fits beside the engines", option=row.setting),
        setting=row.setting,
        cost=say("the engines keep their GPU memory while the trainer works"),
    )


def _parameters_back(case: Case) -> Proposal | None:
    """Of a configuration that is not in the log, by the frames."""
    row = next((one for one in of_knob(case.knob, "deepspeed") if one.key == "offload_param"), None)
    is_on = refused_for_the_buffer_of_parameters(case.crash) is not None
    if row is None or not (is_on or refused_for_parameters_on_the_host(case.crash) is not None):
        return None
    return Proposal(
        action=say("Turn off what keeps the parameters in RAM (offload_param): the GPU takes them")
        if is_on
        else say("Turn off what keeps the parameters in RAM (offload_param), if it is on: the GPU takes them"),
        setting=row.setting,
        snippet=row.write,
        cost=say("2 bytes of GPU memory per parameter, divided by the GPUs"),
    )


def _smaller_buffers_of_ranks(size: float, ranks: float) -> Proposal:
    """LMCache's setting counts for each rank."""
    half = math.floor(size / 2)
    return Proposal(
        action=say(
            "Lower max_local_cpu_size from {size:g} GB until {ranks:g} times that fits into the node's RAM",
            size=size,
            ranks=ranks,
        ),
        setting="max_local_cpu_size",
        current=size,
        suggested=half,
        snippet=f"max_local_cpu_size: {half}",
        derivation=say(
            "{size:g} / 2 = {half}; {ranks:g} ranks x {half} GB = {all:g} GB",
            size=size,
            half=half,
            ranks=ranks,
            all=ranks * half,
        ),
        cost=say("fewer cached prefixes"),
    )


def _smaller_buffer(crash: Crash) -> Proposal:
    stated = crash.setting(*LMCACHE_BUFFER)
    size = (stated.number if stated is not None else None) or LMCACHE_USUAL
    now, half = f"{size:g}", f"{size / 2:g}"
    return Proposal(
        action=say(
            "Lower LMCache's page-locked host buffer (max_local_cpu_size, in GB per rank): {now} -> {then}",
            now=now if stated is not None else as_default(now),
            then=half,
        ),
        setting=LMCACHE_BUFFER[1],
        current=stated.value if stated is not None else None,
        suggested=size / 2,
        snippet=f"export {LMCACHE_BUFFER[1]}={half}",
        derivation=f"{now} / 2 = {half}",
        assumes=(say("half is a guess: what may be page-locked is unknown"),),
        cost=say("fewer cached prefixes"),
    )


def _smaller_host_cache(crash: Crash, tried: int, free: int) -> Answer:
    """What fits beside the 10 GiB that SGLang leaves alone; from 0.5.3 on they are taken off what it prints as free."""
    known = known_versions("sglang", crash.context)
    row = next((r for r in of_knob("less-offload", "sglang") if r.key == "hicache_size"), None)
    if row is None or not row.versions.overlaps(known):
        return Proposal(action=say("Shrink the KV cache's host part"), setting="--hicache-ratio")
    version = version_of(crash.context.frameworks.get("sglang"))
    left_alone = 0 if version is not None and version >= _FREE_WITHOUT_RESERVE else 10 * GIB
    fits = (free - left_alone) // 10**9
    room = show(free - left_alone)
    derivation = (
        say(
            "{free} free - {reserve} reserve of SGLang = {room}",
            free=show(free),
            reserve=show(left_alone),
            room=room,
        )
        if left_alone
        else say("{room} free beyond SGLang's reserve", room=room)
    )
    if fits < 1:
        return Refusal(say("no room for the KV cache's host part ({formula})", formula=derivation))
    return Proposal(
        action=say(
            "Shrink the KV cache's host part from {tried} to {fits} GB",
            fits=fits,
            tried=f"{tried / 10**9:g}",
        ),
        setting=row.setting,
        suggested=fits,
        snippet=row.snippet(fits),
        derivation=semicolons((derivation, say("{fits} GB", fits=fits))),
        assumes=(say("each rank on the node requests as much; this one was the last"),),
        cost=say("fewer cached prefixes"),
    )


def _taken(crash: Crash, name: str) -> tuple[str | None, tuple[str, ...]]:
    """What the switch takes of the node's memory."""
    if "adam" in name or "optimizer" in name:
        return _adam(crash)
    return _copies(crash) if "sleep" in name and "deepspeed" not in name else (None, ())


def _copies(crash: Crash) -> tuple[str | None, tuple[str, ...]]:
    model = size_of_model(crash)
    engines = crash.setting("vllm_num_engines", "vllm.num_engines")
    if model is None or engines is None or not isinstance(engines.value, int) or engines.value < 1:
        return None, ()
    amount = ram.sleep_copies(model.parameters, engines.value)
    formula = say(
        "{count} engines x 2 bytes x {size} = {amount} of copies while they sleep",
        count=engines.value,
        size=model.billions,
        amount=show(amount),
    )
    return formula, (model.source, say("sleep level 1, all engines on one node, before pinned rounding"))


def _adam(crash: Crash) -> tuple[str | None, tuple[str, ...]]:
    found = _adam_states(crash)
    if found is None:
        return None, ()
    _, formula, source = found
    total = total_bytes(crash)
    if not total:
        return say("{formula} per trained model", formula=formula), (source,)
    told = say("{formula} of the node's {total} per trained model", formula=formula, total=show(total))
    return told, (source,)


def _adam_states(crash: Crash) -> tuple[int, str, str] | None:
    """What an offloaded Adam takes of one node, its formula, and where the model's size is from."""
    model = size_of_trained(crash)
    if model is None:
        return None
    count = nodes(crash)
    amount = ram.adam(model.parameters, count)
    formula = (
        say("12 bytes x {size} / {count} nodes = {amount}", size=model.billions, count=count, amount=show(amount))
        if count > 1
        else say("12 bytes x {size} = {amount}", size=model.billions, amount=show(amount))
    )
    return amount, formula, model.source


def nodes(crash: Crash) -> int:
    """Over how many machines the trained model is spread; one, where nothing says otherwise."""
    if some(crash.context.frameworks, "counts cards as nodes"):
        return 1
    stated = crash.setting("actor_num_nodes", "actor.num_nodes", "trainer.nnodes", "nnodes")
    return stated.value if stated is not None and isinstance(stated.value, int) and stated.value > 0 else 1


def less_swap_space(case: Case) -> Answer:
    crash = case.crash
    refused = crash.first(SwapSpaceTooLarge)
    now = case.number()
    if now == 0:
        return Refusal(say("{name} is already {value}", name=case.name, value=0))
    if refused is not None and refused.swap_bytes and refused.host_total_bytes:
        return Proposal(
            suggested=0,
            derivation=say(
                "{asked} requested / {total} RAM = {share}; rejected from 70 %",
                asked=show(refused.swap_bytes),
                total=show(refused.host_total_bytes),
                share=f"{refused.swap_bytes / refused.host_total_bytes:.0%}",
            ),
        )
    if now is None:
        return _default_swap(case)
    gpus, model, total = gpus_per_node(crash), models.known(crash.context.models), total_bytes(crash)
    assumes = () if gpus is not None else (_one_gpu(),)
    if model is None:
        nominal = f"{now:g} GiB x {gpus or 1} GPUs = {show(now * GIB * (gpus or 1))}"
        derivation = (
            say(
                "{formula} of the node's {total}, and up to twice that by pinned rounding; 0 with 0",
                formula=nominal,
                total=show(total),
            )
            if total
            else say("{formula}, and up to twice that by pinned rounding; 0 with 0", formula=nominal)
        )
        return Proposal(action=_from_swap(now, case), suggested=0, derivation=derivation, assumes=assumes)
    layer = now * GIB / model.layers
    taken = ram.swap_space(now, model.layers, gpus or 1)
    formula = say(
        "{swap} GiB / {layers} layers = {layer}, pinned in {buffer}; x {layers} layers x {gpus} GPUs = {amount}",
        swap=f"{now:g}",
        layers=model.layers,
        layer=show(layer),
        buffer=show(ram.pinned(layer)),
        gpus=gpus or 1,
        amount=show(taken),
    )
    derivation = (
        say("{formula} of the node's {total}; 0 with 0", formula=formula, total=show(total))
        if total
        else say("{formula}; 0 with 0", formula=formula)
    )
    served = say("model {model}, {layers} layers", model=model.name, layers=model.layers)
    return Proposal(
        action=_from_swap(now, case),
        suggested=0,
        derivation=derivation,
        assumes=(served, say("pinned buffers are powers of two"), *assumes),
    )


def _one_gpu() -> str:
    return say("one GPU per node (not printed)")


def _from_swap(now: float, case: Case) -> str:
    return say("Lower {name} from {now} to 0", name=case.now.name if case.now else case.name, now=f"{now:g}")


def _default_swap(case: Case) -> Answer:
    """vLLM's default, up to the version that removed the option; only V0, which had it, counts blocks for the CPU."""
    version = engine.engine_version(case.crash)
    counts_blocks = any(size.cpu_blocks for size in case.crash.every(KvCacheSize))
    told = known_versions(vllm.NAME, case.crash.context).before <= _SECOND_ENGINE
    if (version is None and not counts_blocks and not told) or (version is not None and version >= (0, 18)):
        return Skip()
    known = gpus_per_node(case.crash)
    gpus, by_default = known or 1, say("4 GiB per GPU (vLLM's default, not in the log)")
    return Proposal(
        suggested=0,
        derivation=say(
            "{formula}; 0 with 0", formula=f"{show(SWAP_SPACE_BYTES)} x {gpus} GPUs = {show(SWAP_SPACE_BYTES * gpus)}"
        ),
        assumes=(by_default,) if known is not None else (by_default, _one_gpu()),
    )


def smaller_store(case: Case) -> Answer:
    limit = limits.limit_of(case.crash)
    if limit is not None and limits.store_exceeds_the_limit(case.crash) is not None:
        return _store_within(case, limit)
    held = store_bytes(case.crash, ray_kill(case.crash))
    if held is None and case.now is None and case.cause in _SAYS_NOTHING_OF_THE_STORE:
        return Skip()
    total = total_bytes(case.crash)
    if total is None:  # nobody knows of how much
        return None if case.now is not None or case.cause != NODE_FULL else Skip()
    if held is not None and held < HARDLY * total:
        return Refusal(
            say(
                "Ray's object store holds only {held} of the node's {total}",
                held=show(held),
                total=show(total),
            )
        )
    now = case.number()
    share = 0.1
    then = int(share * total)
    if now is not None and now <= then:
        return Refusal(say("{name} is already {value}", name=case.name, value=show(now)))
    by_default = say("object store now 30 % of the node (Ray's default, not in the log)")
    return Proposal(
        action=say("Set Ray's object store to {amount}", amount=show(then)),
        suggested=then,
        derivation=say(
            "{share} of the node's {total} = {amount} bytes", share=f"{share:.0%}", total=show(total), amount=then
        ),
        assumes=(
            say("10 % is a guess; `ray memory` shows the usage"),
            *(() if now is not None else (by_default,)),
        ),
    )


def _store_within(case: Case, limit: int) -> Proposal:
    """Ray's usual share of what the container may have, with a /dev/shm that holds it."""
    then = int(STORES_SHARE * limit)
    line = case.snippet(then)
    return Proposal(
        action=say("Set Ray's object store to {amount}, and make /dev/shm as large", amount=show(then)),
        suggested=then,
        snippet="\n".join(filter(None, (line, _for_shm(case.crash, f"{_gib_up(then)}g")))),
        derivation=say(
            "{share} of the limit of {limit} = {amount} bytes",
            share=f"{STORES_SHARE:.0%}",
            limit=show(limit),
            amount=then,
        ),
        assumes=(say("30 % is the share that Ray takes by itself"),),
    )


def bigger_store(case: Case) -> Answer:
    if only_the_disk_is_short(case.crash):
        return Skip()
    answer, row = _with_more_room(case), case.row
    if isinstance(answer, Refusal) or row is None or not row.is_call:
        return answer
    if ray_workers.nodes_in_sight(case.crash) > 1:
        return _on_every_node(answer)
    if answer is None:
        line = row.write.format(_AN_AMOUNT)
        return Proposal(action=say("Make Ray's object store larger: {line}", line=line), setting=row.setting)
    return answer


def _on_every_node(answer: Proposal | None) -> Proposal:
    """python/ray/_private/worker.py, `init`: a driver that joins a cluster must not state it. Each node has its own."""
    then = answer.suggested if answer is not None else None
    line = f"{_OF_RAY_START}={_AN_AMOUNT if then is None else then}"
    if answer is None or then is None:
        return Proposal(
            action=say("Make Ray's object store larger on every node: ray start {option}", option=line),
            setting=_OF_RAY_START,
        )
    action = say("{action}, on every node (`ray start`)", action=answer.action)
    return replace(answer, action=action, setting=_OF_RAY_START, snippet=line)


def _with_more_room(case: Case) -> Proposal | Refusal | None:
    crash = case.crash
    full = crash.first(StoreFull)
    stores = [e.capacity_bytes for e in crash.events if isinstance(e, StoreFull | StoreUsage) and e.capacity_bytes]
    capacity = stores[0] if stores else None
    if full is not None and full.object_bytes and capacity:
        used = _used_of_store(full, capacity)
        then = used + full.object_bytes
        total = total_bytes(crash)
        if total and then > total:
            size_ = show(full.object_bytes)
            return Refusal(say("an object of {size} exceeds the node's memory: pass it in parts", size=size_))
        return Proposal(
            action=say("Set Ray's object store to {amount}", amount=show(then)),
            current=capacity,
            suggested=then,
            derivation=say(
                "{used} in use + {refused} that did not fit = {amount} bytes",
                used=show(used),
                refused=show(full.object_bytes),
                amount=then,
            ),
        )
    if capacity:
        return Proposal(
            action=say(
                "Double Ray's object store from {amount}, if /dev/shm and the node have room", amount=show(capacity)
            ),
            current=capacity,
            suggested=2 * capacity,
            derivation=f"2 x {show(capacity)} = {2 * capacity} bytes",
        )
    if full is not None and full.object_bytes:
        return Proposal(
            action=say("Make Ray's object store at least {amount} larger", amount=show(full.object_bytes)),
            snippet=case.row.write.format(_AN_AMOUNT) if case.row is not None else None,
        )
    return None


def _used_of_store(full: StoreFull, capacity: int) -> int:
    """All of it, where the log does not print how much: the object found no room."""
    if full.used_bytes is not None:
        return full.used_bytes
    return round(full.used_fraction * capacity) if full.used_fraction is not None else capacity


# limits


def bigger_shm(case: Case) -> Answer:
    crash = case.crash
    if (beyond := limits.store_exceeds_the_limit(crash)) is not None:
        return Refusal(beyond.words.rstrip("."))
    wanted = crash.first(StoreTooLarge)
    if wanted is not None and wanted.requested_bytes:
        asked_for = say("{amount} requested", amount=show(wanted.requested_bytes))
        return _shm(wanted.shm_bytes, wanted.requested_bytes, asked_for)
    seen = [e.total_bytes for e in crash.every(ShmUsage) if e.total_bytes]
    known = crash.context.hardware.get("shm_bytes")
    now = seen[-1] if seen else (known if isinstance(known, int) else None)
    asked = crash.first(SharedMemoryFull)
    tried = asked.tried_bytes if asked is not None else None
    if now is None:
        return Proposal(
            suggested=USUAL_SHM,
            derivation=say("{value} is a usual start value", value=USUAL_SHM),
            snippet=_for_shm(crash, USUAL_SHM),
            setting="--shm-size",
            assumes=(say("64 MiB of /dev/shm (Docker's default)"),),
        )
    twice = f"2 x {show(now)}"
    if not tried:
        return _shm(now, 2 * now, twice)
    return _shm(now, 2 * now + tried, say("{formula} + {amount} that failed", formula=twice, amount=show(tried)))


def _for_shm(crash: Crash, amount: str) -> str:
    """For the manager of the container; where none is in sight, first whether it is one."""
    if commands.in_a_pod(crash):
        return f"emptyDir: {{medium: Memory, sizeLimit: {amount.upper()}i}}   # mounted at /dev/shm"
    line = f"docker run --shm-size={amount}   # or --ipc=host, which uses the node's"
    return line if crash.shows(_CONTAINER) else f"df -h /dev/shm   # 64M is a container's\n{line}"


def _shm(now: int | None, needed: int, why: str) -> Proposal:
    then = _gib_up(needed)
    return Proposal(
        action=say("Give the container {amount} GiB of /dev/shm (or --ipc=host)", amount=then),
        current=now,
        suggested=f"{then}g",
        derivation=say("{formula} -> {amount} GiB", formula=why, amount=then),
        snippet=f"docker run --shm-size={then}g",
        setting="--shm-size",
    )


def raise_limit(case: Case) -> Answer:
    crash = case.crash
    if crash.pool == "host_ram" and commands.killer_of(crash) == commands.KUBELET:
        return _requested_by_the_pod(crash)
    limit = limit_bytes(crash) or _stated_limit(case)
    manager = _manager(crash)
    if limit is None:
        asked = _ask_for_more(crash, manager)
        created = any(limits.before_the_program(kill) for kill in crash.every(LimitKill))
        return _at_least_a_start(asked, crash, manager) if created and manager == "kubernetes" else asked
    states = _offloaded(crash)
    if states is not None and states[0] > limit:
        return _room_for_states(crash, manager, limit, *states)
    if limit < _TINY:
        return replace(
            _raised_to(_amount(_START), crash, manager, limit),
            derivation=say("{value} is a usual start value", value=show(_START)),
            assumes=(
                say(
                    "{limit} is probably a slip of the unit: an interpreter with a few libraries needs more",
                    limit=show(limit),
                ),
            ),
        )
    if limit < _SMALL and _dies_early(crash):
        return replace(
            _raised_to(_amount(2 * limit), crash, manager, limit),
            derivation=f"2 x {show(limit)} = {show(2 * limit)}",
            assumes=(say("twice is a guess: it dies at its start, and the peak is unknown"),),
        )
    then = max(_gib_up(MORE * limit), _gib_up(limit) + 1) if limit >= GIB else None
    amount = f"{then}G" if then is not None else _amount(MORE * limit)
    return replace(
        _raised_to(amount, crash, manager, limit),
        derivation=say("{formula}, rounded up", formula=f"{show(limit)} x {MORE} = {show(MORE * limit)}"),
        assumes=(say("25 % more is a guess: the peak is unknown"),),
    )


def _at_least_a_start(asked: Proposal, crash: Crash, manager: str) -> Proposal:
    """What ran was runc alone, so that any program needs more, whatever the limit is."""
    amount = _in_units_of(manager, _amount(_START))
    return replace(
        asked,
        suggested=amount,
        snippet="\n".join((commands.POD, *_beside(crash, manager, amount))),
        derivation=say("{value} is a usual start value", value=show(_START)),
    )


def _requested_by_the_pod(crash: Crash) -> Proposal:
    """Who uses more than it requests is evicted first: kubernetes.io, concepts/scheduling-eviction/
    node-pressure-eviction."""
    used = max((each.used_bytes or 0 for each in crash.every(NodePressure)), default=0)
    amount = f"{_gib_up(used)}Gi" if used else "PEAK"
    return Proposal(
        action=say(
            "Request the memory that the pod really uses, with a limit as high: Kubernetes evicts first who uses more "
            "than it requested"
        ),
        snippet=(
            "kubectl set resources deployment NAME -c CONTAINER "
            f"--requests=memory={amount} --limits=memory={amount}   # or statefulset, daemonset"
        ),
        setting="",
        cost=say("the pod waits for a node that has as much free"),
    )


def _amount(size_bytes: float) -> str:
    """In whole GiB where it comes to that, else in MiB, rounded up."""
    whole = size_bytes >= GIB and not size_bytes % GIB
    return f"{round(size_bytes / GIB)}G" if whole else f"{math.ceil(size_bytes / MIB)}M"


def _dies_early(crash: Crash) -> bool:
    """Again and again, or within seconds: what it needs is not a little more than the limit."""
    counted = crash.mentions(_RESTARTS.pattern)
    restarts = _RESTARTS.search(counted) if counted is not None else None
    if restarts is not None and int(restarts[1]) >= _OFTEN:
        return True
    lived = limits.lived_seconds(crash)
    return lived is not None and lived <= limits.AT_ITS_START


def _raised_to(amount: str, crash: Crash, manager: str | None, limit: int) -> Proposal:
    """The limit raised to so much, in the manager's words."""
    row = spelling("raise-container-limit", crash.context, manager) if manager else None
    written = _in_units_of(manager, amount)
    lines = (row.snippet(written) if row is not None else None, *_beside(crash, manager, written))
    return Proposal(
        action=_raised("kuberay" if _is_of_kuberay(crash, manager) else manager, show(limit), written),
        current=limit,
        suggested=written,
        snippet="\n".join(line for line in lines if line) or None,
        setting=row.setting if row is not None else None,
    )


def _raised(manager: str | None, now: str, then: str) -> str:
    """What to do, and where the limit is set."""
    if manager == "docker":
        return say(
            "Raise the memory limit from {now} to {then}, for the next run or of the running container",
            now=now,
            then=then,
        )
    if manager == "slurm":
        return say("Raise the memory limit from {now} to {then} in the batch script", now=now, then=then)
    if manager == "kubernetes":
        return say(
            "Raise the container's memory limit from {now} to {then} in the pod spec",
            now=now,
            then=then,
        )
    if manager == "kuberay":
        return say(
            "Raise the container's memory limit from {now} to {then} in the RayCluster, under headGroupSpec.template "
            "or workerGroupSpecs",
            now=now,
            then=then,
        )
    return say("Raise the memory limit from {now} to {then}", now=now, then=then)


def _offloaded(crash: Crash) -> tuple[int, str, tuple[str, ...]] | None:
    """What an offloaded optimizer takes of one node, where it is switched on and can be said."""
    stated = (crash.setting(name) for name in OFFLOADS if "adam" in name or "optimizer" in name)
    found = _adam_states(crash)
    if found is None or not any(one is not None and one.value not in OFF for one in stated):
        return None
    amount, formula, source = found
    return amount, say("{formula} offloaded states", formula=formula), (source,)


def _room_for_states(
    crash: Crash, manager: str | None, limit: int, needed: int, formula: str, assumes: tuple[str, ...]
) -> Proposal:
    """A limit below what the settings put into host memory is not worth raising by a little."""
    then = _gib_up(MORE * needed)
    raised = _raised_to(f"{then}G", crash, manager, limit)
    return replace(
        raised,
        action=say("{action}, or turn off the offload: its states alone exceed the limit", action=raised.action),
        derivation=say(
            "{states}; {formula}, rounded up = {amount} GiB",
            states=formula,
            formula=f"{show(needed)} x {MORE} = {show(MORE * needed)}",
            amount=then,
        ),
        assumes=(*assumes, say("25 % more for the rest of the job (a guess)")),
    )


def _in_units_of(manager: str | None, amount: str) -> str:
    """`625G` as the manager writes it."""
    if manager in ("docker", "podman", "pbs"):
        return amount.lower() + ("b" if manager == "pbs" else "")
    return amount + ("i" if manager == "kubernetes" else "")


def _stated_limit(case: Case) -> int | None:
    """`--mem=64G`, `--memory=16g`, `memory: 16Gi`; an amount per CPU or GPU is no limit of the job."""
    if case.now is None or "per" in case.now.name:
        return None
    amount = _AMOUNT.fullmatch(str(case.now.value))
    return size(amount[1], f"{amount[2]}ib") if amount else None


def _ask_for_more(crash: Crash, manager: str | None) -> Proposal:
    """Where the limit is not printed, the manager knows it."""
    row = spelling("raise-container-limit", crash.context, manager) if manager else None
    if manager is None or row is None:
        return Proposal(
            action=say("Raise the memory limit of the container or job; the command shows the current one"),
            snippet=commands.GROUP,
        )
    in_kuberay = _is_of_kuberay(crash, manager)
    return Proposal(
        action=_in_the_ray_cluster(row.setting) if in_kuberay else _asked_for(manager, row.setting),
        setting=row.setting,
        snippet="\n".join(_beside(crash, manager, None)) or None,
        derivation=_room_of_the_node(crash),
    )


def _is_of_kuberay(crash: Crash, manager: str | None) -> bool:
    return manager == "kubernetes" and crash.shows(_OF_KUBERAY)


def _in_the_ray_cluster(option: str) -> str:
    """KubeRay makes the pods from it: doc/source/cluster/kubernetes/user-guides/config.md of Ray."""
    return say(
        "Raise the container's memory limit ({option}) in the RayCluster, under headGroupSpec.template or "
        "workerGroupSpecs: its pods are made from it; the command shows the current one",
        option=option,
    )


def _room_of_the_node(crash: Crash) -> str | None:
    """How far a limit can go, where a tool printed the node's memory when the job was gone."""
    after = machine_after(crash)
    if after is None or not after.total_bytes or not after.available_bytes:
        return None
    return say(
        "{tool} after the failure: {available} of {total} available on the node",
        tool=after.tool, available=show(after.available_bytes), total=show(after.total_bytes),
    )  # fmt: skip


def _asked_for(manager: str, option: str) -> str:
    if manager == "docker":
        return say(
            "Raise the memory limit ({option}), for the next run or of the running container; the command "
            "shows the current one",
            option=option,
        )
    if manager == "slurm":
        return say(
            "Raise the memory limit ({option}) in the batch script; the command shows the current one",
            option=option,
        )
    if manager == "kubernetes":
        return say(
            "Raise the container's memory limit ({option}) in the pod spec; the command shows the current one",
            option=option,
        )
    return say("Raise the memory limit ({option}); the log does not show it", option=option)


def _beside(crash: Crash, manager: str | None, amount: str | None) -> Iterator[str]:
    """What changes a container that runs, or shows what a job had and used."""
    if manager == "slurm":
        yield commands.of_slurm(crash)
    elif manager == "kubernetes":
        set_limit = _EDIT_CLUSTER if _is_of_kuberay(crash, manager) else _SET_LIMIT
        yield commands.POD if amount is None else set_limit.format(amount=amount)
    elif manager == "docker":
        container = commands.container_of(crash) or "CONTAINER"
        yield (
            f"docker inspect -f '{{{{.HostConfig.Memory}}}}' {container}"
            if amount is None
            else f"docker update --memory={amount} --memory-swap={amount} {container}"
        )


def _manager(crash: Crash) -> str | None:
    """Who set the limit, and knows how it is raised."""
    managers = (*(each.manager for each in crash.every(LimitKill)), *(each.manager for each in crash.every(EndRecord)))
    for manager in managers:
        if any(of_knob("raise-container-limit", manager)):
            return manager
    groups = [kill.cgroup or kill.task_cgroup or "" for kill in crash.every(KernelKill)]
    named = (manager for group in groups for word, manager in _GROUPS if word in group)
    return next(named, None) or _manager_nearby(crash)


def _manager_nearby(crash: Crash) -> str | None:
    """Who started what died, by the lines near the failure."""
    if commands.in_slurm(crash):
        return "slurm"
    if commands.in_a_pod(crash) or crash.mentions(_OF_A_POD) is not None:
        return "kubernetes"
    return "docker" if commands.container_of(crash) is not None else None


def _gib_up(size_bytes: float) -> int:
    return math.ceil(size_bytes / GIB)


def more_host_memory(case: Case) -> Answer:
    crash = case.crash
    if isinstance(crash.root, BufferFull):
        return Proposal(
            action=say("Use a node with more memory if the larger buffer does not fit: it has a fixed size")
        )
    total, used = total_bytes(crash), used_bytes(crash)
    if total is None:
        return _more_than_the_victim(crash)
    if not used:
        return Proposal(action=say("Use a node with more than {total} of memory", total=show(total)))
    return Proposal(
        action=say("Use a node with more than {total} of memory", total=show(total)),
        derivation=say("{used} of {total} in use", used=show(used), total=show(total)),
    )


def _more_than_the_victim(crash: Crash) -> Proposal | None:
    """Where only the kernel's line stands: what the killed process alone held. No node but a machine of one's own is
    what a program with a window runs on."""
    if is_on_windows(crash) or any(each.layer == "local" for each in among(crash.context.frameworks)):
        return Proposal(action=say("Close other programs, or use a machine with more memory"))
    kill = largest_kill(crash)
    held = held_by(kill) if kill is not None else None
    if kill is None or held is None or held < LARGE:
        return None
    return Proposal(
        action=say(
            "Use a node with more memory: the killed process (PID {pid}) alone held {amount}",
            pid=kill.process.pid,
            amount=held_in_words(kill),
        ),
        subject=say("PID {pid}", pid=kill.process.pid),
    )


def restart(case: Case) -> Answer:
    """How many steps fit between two restarts; where none are counted, how many prints of the figure."""
    crash = case.crash
    grows = crash.trajectory
    if grows is None or not grows.growth_bytes or grows.per == "second":
        return None
    first, by_step = grows.points[0].bytes, grows.per == "step"
    limit, at = threshold_of(crash) or _whole_node(crash)
    if limit <= first:
        return None
    steps = math.floor(ROOM * (limit - first) / grows.growth_bytes)
    if steps < 1:
        growth = show(grows.growth_bytes)
        return Refusal(
            say("it grows by {amount} per step: not even one step fits between two restarts", amount=growth)
            if by_step
            else say("it grows by {amount} per print: not even one print fits between two restarts", amount=growth)
        )
    figures = {
        "share": f"{ROOM:.0%}",
        "limit": at,
        "first": show(first),
        "growth": show(grows.growth_bytes),
        "count": steps,
    }
    if not by_step:
        return Proposal(
            action=say("Save and restart every {count} prints of this figure until the leak is fixed", count=steps),
            derivation=say("floor({share} of ({limit} - {first} at first) / {growth} per print) = {count}", **figures),
        )
    return Proposal(
        action=say("Save and restart every {count} steps until the leak is fixed", count=steps),
        suggested=steps,
        derivation=say("floor({share} of ({limit} - {first} at first) / {growth} per step) = {count}", **figures),
    )


def _whole_node(crash: Crash) -> tuple[int, str]:
    total = total_bytes(crash) or 0
    return total, show(total)


def tune_monitor(case: Case) -> Answer:
    crash = case.crash
    kill = ray_kill(crash)
    if kill is None or kill.fraction is None:
        return None
    if (room := room_below_the_default(kill)) is not None:
        return _back_to_the_default(kill, room, case.row)
    return Proposal(
        action=say(
            "Raise RAY_memory_usage_threshold from {now} only to gain time; set it before `ray start` on every node",
            now=f"{kill.fraction:g}",
        ),
        current=kill.fraction,
    )


def room_below_the_default(kill: NodeOutOfMemory) -> int | None:
    """What Ray would still have let the node use, where it was told to kill far below its own limit."""
    low = low_limit(kill.figures("usage"), kill.figures("threshold"))
    if low is None or not kill.fraction or not kill.total_bytes or not kill.used_bytes:
        return None
    room = round(RAYS_DEFAULT * kill.total_bytes) - kill.used_bytes
    return room if room > 0 else None


def _back_to_the_default(kill: NodeOutOfMemory, room: int, row: Spelling | None) -> Proposal:
    return Proposal(
        action=say(
            "Raise Ray's limit from {now} to the usual {then}; set it before `ray start` on every node",
            now=f"{kill.fraction:g}",
            then=RAYS_DEFAULT,
        ),
        current=kill.fraction,
        suggested=RAYS_DEFAULT,
        derivation=say(
            "{then} x {total} - {used} in use = {room} more",
            then=RAYS_DEFAULT,
            total=show(kill.total_bytes or 0),
            used=show(kill.used_bytes or 0),
            room=show(room),
        ),
        snippet=row.snippet(RAYS_DEFAULT) if row is not None else f"export RAY_memory_usage_threshold={RAYS_DEFAULT}",
        cost=say("less is left for what runs outside Ray"),
    )


def more_address_space(case: Case) -> Answer:
    """At a scheduler's limit what it is asked for; on Windows, which promises RAM and page file, the latter; elsewhere
    the knob's own words say it."""
    kill = kill_at_a_virtual_limit(case.crash)
    if kill is not None:
        return _more_of_the_scheduler(kill, case.crash)
    if set_limits.address_limit(case.crash) is None and a_fork_was_refused(case.crash) is not None:
        return _promise_to_a_fork(case.crash)
    if case.row is None or case.row.framework != "windows":
        return None
    return Proposal(
        action=say("Let Windows manage the page file (as administrator), then restart"),
        suggested=True,
        cost=say("disk space"),
    )


def _promise_to_a_fork(crash: Crash) -> Answer:
    """A child shares its parent's memory at first, and with 1 the kernel promises it without counting. No policy helps
    where it was 1 before."""
    stated = next((one.overcommit_memory for one in crash.every(KernelSettings)), None)
    if stated in (_ALWAYS, set_limits.NEVER_BEYOND):
        return Skip() if stated == _ALWAYS else None
    return Proposal(
        action=say("Let the kernel promise memory without a check, so that a large process can start a child"),
        setting="vm.overcommit_memory",
        current=stated,
        suggested=_ALWAYS,
        derivation=filled(A_CHOICE, {"value": _ALWAYS}),
        snippet=f"sudo sysctl vm.overcommit_memory={_ALWAYS}",
    )


def _more_of_the_scheduler(kill: LimitKill, crash: Crash) -> Answer:
    """Beyond what the job had reached, where that or the limit is printed."""
    knobs = ("more-address-space", "raise-container-limit")
    row = next((row for knob in knobs if (row := spelling(knob, crash.context, kill.manager)) is not None), None)
    action = say("Request more virtual memory of the scheduler for this job")
    used = max(kill.used_bytes or 0, kill.limit_bytes or 0)
    if row is None or not used:
        return Proposal(action=action, setting=row.setting if row is not None else "")
    amount = _in_units_of(kill.manager, f"{_gib_up(MORE * used)}G")
    return Proposal(
        action=action,
        current=kill.limit_bytes,
        suggested=amount,
        setting=row.setting,
        snippet=row.snippet(amount),
        derivation=say("{formula}, rounded up", formula=f"{show(used)} x {MORE} = {show(MORE * used)}"),
        assumes=(say("25 % more is a guess: the peak is unknown"),),
        cost=say("may wait longer for a node"),
    )


def stream_data(case: Case) -> Answer:
    """tensorflow/python/data/ops/from_tensor_slices_op.py: slices of tensors stay where these are."""
    if data_goes_to_the_card_in_one_piece(case.crash) is None:
        return None
    return Proposal(
        action=say("Keep the arrays in host RAM, and give fit() a dataset that copies one batch at a time"),
        snippet=_ON_THE_HOST,
        setting="",
        cost=say("each batch is copied to the GPU when it is needed"),
    )


def files_to_disk(case: Case) -> Answer:
    """Files in memory are no option's: the command shows them."""
    if case.row is not None or limits.most_is_in_no_process(case.crash) is None:
        return None
    return Proposal(
        action=say("Keep the files in /dev/shm and other tmpfs on a disk, or delete them: they count for the limit"),
        snippet="df -h -t tmpfs; du -ah /dev/shm | sort -h | tail",
        cost=say("slower; needs disk space"),
    )


def free_disk(case: Case) -> Answer:
    full = case.crash.first(DiskFull)
    if full is None:
        return None if case.cause == "spill-disk-full" else Skip()
    return Proposal(
        action=say(
            "Free the disk of Ray's session folder ({left}): delete the folders of sessions that have ended; or move "
            "--temp-dir or object_spilling_directory to a larger one",
            left=_left(full),
        ),
        snippet="\n".join(filter(None, (_sessions(full), "ray start --head --temp-dir=/PATH/ON/A/LARGER/DISK"))),
    )


def _sessions(full: DiskFull) -> str | None:
    """What each session keeps on that disk; Ray deletes none of them."""
    folder = _SESSION.search(full.at.text)
    return f"du -sh {shlex.quote(folder[1])}/session_* | sort -h" if folder is not None else None


def _left(full: DiskFull) -> str:
    if full.available_bytes is None:
        return say("disk full")
    left = show(full.available_bytes)
    if not full.total_bytes:
        return say("{amount} left", amount=left)
    return say("{amount} of {total} left", amount=left, total=show(full.total_bytes))


FUNCTIONS: Final[Mapping[str, Compute]] = {
    "move-process": move_process,
    "fewer-workers": fewer_workers,
    "less-offload": less_offload,
    "less-swap-space": less_swap_space,
    "smaller-object-store": smaller_store,
    "bigger-object-store": bigger_store,
    "bigger-shm": bigger_shm,
    "more-address-space": more_address_space,
    "raise-container-limit": raise_limit,
    "more-host-memory": more_host_memory,
    "restart-periodically": restart,
    "tune-ray-monitor": tune_monitor,
    "free-disk": free_disk,
    "spill-to-disk": files_to_disk,
    "stream-data": stream_data,
}
