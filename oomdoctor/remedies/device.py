"""The knobs of devices, clusters and versions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.arithmetic import vllm
from oomdoctor.families.budget import BudgetSpent, BudgetUsage
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import RAM
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory
from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.devices import NVIDIA, maker
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import early_kill, node_memory
from oomdoctor.job.frameworks import among
from oomdoctor.language import listed, say, semicolons, translated
from oomdoctor.patterns import late
from oomdoctor.regressions import Carrier, Regression
from oomdoctor.remedies import engine, ray_workers, wrong_axis
from oomdoctor.remedies.initial import as_default
from oomdoctor.remedies.misread import of_bytes
from oomdoctor.remedies.placement import VISIBLE
from oomdoctor.remedies.proposal import PROCESS_HOG, REWARD_HOG, Answer, Case, Compute, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import Spelling, known_versions, of_knob, same, spelling
from oomdoctor.remedies.sizes import size_of_model
from oomdoctor.remedies.training import WITHOUT_TRAINING
from oomdoctor.signs import commands, releases
from oomdoctor.signs.allocator import XPU_LARGEST, beyond_the_largest_allocation, card_partly_hidden
from oomdoctor.signs.host_caches import LMCACHE_BUFFER, LMCACHE_USUAL
from oomdoctor.signs.kv_pool import evictable_tokens_stayed, last_prompt_refused
from oomdoctor.signs.library import the_driver_of_an_embedded_gpu_had_no_room
from oomdoctor.signs.machine import is_on_windows
from oomdoctor.signs.releases import Match
from oomdoctor.signs.scheduling import (
    FOR_NO_NODE,
    Group,
    adds_up,
    amounts_in_words,
    asked_gpus,
    bound_to,
    cluster,
    group_of,
    lacking,
    request_of,
    shared_roles,
    what_of,
)
from oomdoctor.spellings import title
from oomdoctor.units import BINARY, GIB, MIB, percent, show
from oomdoctor.versions import version_of

_SPLIT_MB: Final = 512
_CAP: Final = "torch.cuda.set_per_process_memory_fraction"  # torch/cuda/memory.py since 1.8: 0 to 1 of the GPU
_WHOLE: Final = 1.0
_RELAXED: Final = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS"  # oneapi-src/unified-runtime#1245, 2024-01
_EVICTS: Final = "0.11.0"
_REFUSED_WHAT_IS_FREE: Final = "spurious-device-oom"
# What PyTorch calls the devices: ROCm's go by CUDA's name
_TYPES: Final[Mapping[str, str]] = {NVIDIA: "cuda", "AMD": "cuda", "Intel": "xpu", "NPU": "npu", "HPU": "hpu"}
_SPLITS: Final = f"max_split_size_mb:{_SPLIT_MB}"
_ALLOCATOR: Final = "PYTORCH_CUDA_ALLOC_CONF"
_NPU_ALLOCATOR: Final = "PYTORCH_NPU_ALLOC_CONF"
_WORKSPACE_STEP: Final = 512 * MIB
_REFERENCE = late(r"([\w.\-]+/[\w.\-]+)#(\d+)")
_ADDRESS = late(r"\d{1,3}(?:\.\d{1,3}){3}")
# What a library has a call for, and no option
BY_WORLD: Final = ("collect-evidence", "fix-placement")
EXPANDABLE: Final = "expandable_segments:True"
_SIZE: Final = late(r"(\d{1,12})([kKmMgGtT]?)")
_OF_A_BARE_NUMBER: Final = "m"  # V8
_SMALL_HEAP: Final = GIB // 2
_MANY_TIMES: Final = 4
LITTLE: Final = 0.1  # of the card: less than this unused inside PyTorch is no fragmentation
DRIVER_CPUS: Final = 1
_PODS: Final = "kubectl top pod -A --sort-by=memory | head -20; kubectl describe node NODE"
_AVAILABLE: Final = 10  # per cent


def allocator_config(case: Case) -> Answer:
    """Segments that grow clash with the pools of an engine that sleeps, and cost nothing where no engine is."""
    answer, job = _allocator(case), case.crash.job
    if not isinstance(answer, Proposal) or answer.cost is not None or job.runs_engine or job.learns:
        return answer
    return replace(answer, cost=say("none"))


def _allocator(case: Case) -> Answer:
    crash = case.crash
    if case.now is not None and "expandable_segments:true" in str(case.now.value).lower().replace(" ", ""):
        return Refusal(say("expandable_segments is already set ({place})", place=case.now.place))
    if crash.job.world == "jax":
        return _platform_allocator(case)
    hindrance = _by_itself(case)
    if hindrance is not None:
        return Refusal(hindrance)
    root = crash.root
    if isinstance(root, MemorySummary):
        return _of_a_summary(case)
    if not isinstance(root, DeviceOutOfMemory):
        return None
    why = no_fragmentation(root)
    if why is not None:
        return Refusal(why)
    if maker(crash) == "NPU":
        return _of_the_npu(card_of(root))
    if (case.row is not None and case.row.value is None) or is_on_windows(crash) or _as_windows_counts(root):
        return _without_splits(card_of(root))
    torch = version_of(crash.context.frameworks.get("torch"))
    assumes = [say("no engine sleep mode in this process")] if crash.job.runs_engine else []
    if torch is None or torch[:2] == (2, 9):
        assumes.append(say("PyTorch 2.9 ignores the new name PYTORCH_ALLOC_CONF for this: keep the old one"))
    return Proposal(
        suggested=True if case.row is not None and case.row.type == "bool" else EXPANDABLE,
        derivation=_unused(card_of(root)),
        assumes=tuple(assumes),
    )


def _as_windows_counts(refused: DeviceOutOfMemory) -> bool:
    """Under the display driver model of Windows, which WSL has too, a GPU has its whole nominal size, and nothing is
    free once it is full; the drivers of Linux keep a part of it to themselves."""
    return refused.total_bytes is not None and refused.total_bytes % GIB == 0 and refused.free_bytes == 0


def _of_a_summary(case: Case) -> Proposal:
    """The summary is PyTorch's, whatever else the log names."""
    if is_on_windows(case.crash):
        return replace(_without_splits(None), setting=_ALLOCATOR, snippet=f"export {_ALLOCATOR}={_SPLITS}")
    return Proposal(
        suggested=EXPANDABLE,
        setting=_ALLOCATOR,
        snippet=f"export {_ALLOCATOR}={EXPANDABLE}",
        assumes=(say("PyTorch >= 2.1 (not printed)"),) if not case.crash.context.frameworks.get("torch") else (),
    )


def _unused(it: Card | None) -> str | None:
    if it is None:
        return None
    unused, tried, free = it.unallocated_bytes, it.tried_bytes, it.free_bytes
    if not unused or not tried:
        return None
    if it.missing_bytes is not None and free:
        return say(
            "{unused} reserved but unused + {free} free = {room}; {tried} requested",
            unused=show(unused),
            free=show(free),
            room=show(unused + free),
            tried=show(tried),
        )
    return say("{unused} reserved but unused; {tried} requested", unused=show(unused), tried=show(tried))


def _without_splits(it: Card | None) -> Proposal:
    """Segments do not grow before 2.1, nor on Windows (c10/cuda/CUDACachingAllocator.cpp, "not supported on this
    platform")."""
    return Proposal(
        action=say("Keep PyTorch's allocator from splitting its largest blocks (max_split_size_mb)"),
        suggested=_SPLITS,
        derivation=_unused(it) or say("{value} is a usual start value", value=_SPLIT_MB),
        cost=say("slower allocation"),
    )


def _of_the_npu(it: Card) -> Proposal:
    """torch_npu/csrc/core/npu/NPUCachingAllocator.cpp reads a variable of its own."""
    return Proposal(
        suggested=EXPANDABLE,
        derivation=_unused(it),
        setting=_NPU_ALLOCATOR,
        snippet=f"export {_NPU_ALLOCATOR}={EXPANDABLE}",
    )


def _by_itself(case: Case) -> str | None:
    """A framework of the job sets it for its processes, where nobody says otherwise."""
    return set_by_a_framework(case.crash) if case.now is None else None


def set_by_a_framework(crash: Crash) -> str | None:
    """A sentence, where one of the job's frameworks lets the allocator grow its segments by default, in each release
    that it may be."""
    for framework, release in crash.context.frameworks.items():
        known = known_versions(framework, crash.context)
        row = next((one for one in of_knob("allocator-config", framework) if one.versions.covers(known)), None)
        if row is not None and row.default(version_of(release)) in (True, EXPANDABLE):
            return say("{framework} sets it by default", framework=title(framework))
    return None


def _platform_allocator(case: Case) -> Answer:
    if case.row is None or (case.now is not None and same(case.now.value, case.row.value)):
        return None
    action = say("Use XLA's platform allocator, which frees GPU memory at once")
    return Proposal(action=action, suggested=case.row.value)


def _in_its_world(case: Case) -> str | None:
    """What to copy, as the library spells it that the arrays live in."""
    row = spelling(case.knob, case.crash.context, case.crash.job.world)
    return row.write if row is not None else None


def no_fragmentation(event: DeviceOutOfMemory) -> str | None:
    """Why the allocator's settings do not matter here, None where they may."""
    card = card_of(event)
    unused, tried, total = card.unallocated_bytes, card.tried_bytes, card.total_bytes
    if unused is None or tried is None or unused >= tried or (total and unused >= LITTLE * total):
        return None
    if card.missing_bytes is not None:
        return None
    if not unused:
        return say("nothing is reserved but unused; {tried} was requested", tried=show(tried))
    if not total:
        return say(
            "only {unused} is reserved but unused; {tried} was requested", unused=show(unused), tried=show(tried)
        )
    return say(
        "only {unused} ({share} of the GPU) is reserved but unused; {tried} was requested",
        unused=show(unused),
        share=percent(unused / total),
        tried=show(tried),
    )


def cap_preallocation(case: Case) -> Answer:
    if case.row is not None and case.now is not None and same(case.now.value, case.row.value):
        return already(case.now, case.now.value)
    if case.row is None:
        return None
    name = title(case.row.framework)
    return Proposal(
        action=say("Stop {framework} from reserving the whole GPU", framework=name), suggested=case.row.value
    )


def raise_cap(case: Case) -> Answer:
    root = case.crash.root
    if isinstance(root, DeviceOutOfMemory) and root.limit == "watermark":
        if case.now is not None and case.number() == 0:
            return already(case.now, 0.0)
        return Proposal(
            action=say("Lift the limit on the Mac's unified memory"),
            setting="PYTORCH_MPS_HIGH_WATERMARK_RATIO",
            snippet="export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
            suggested=0.0,
            derivation=say("0.0 means no limit"),
            cost=say("the whole machine may freeze: beyond the limit macOS pages to disk"),
        )
    if beyond_the_largest_allocation(case.crash) is not None:
        return _larger_at_once(case.crash)
    if isinstance(root, LibraryOutOfMemory) and root.library == "FlashInfer" and root.tried_bytes:
        return _larger_workspace(root.tried_bytes)
    if isinstance(root, BufferFull):
        return _larger_host_buffer(case.crash)
    if isinstance(root, BudgetSpent) or case.crash.first(BudgetUsage) is not None:
        return _larger_budget(case)
    if case.crash.pool in RAM and case.now is not None and (size := _SIZE.fullmatch(str(case.now.value))):
        return _twice(case, int(size[1]), size[2])
    allowed = root.allowed_bytes if isinstance(root, DeviceOutOfMemory) else None
    if card_partly_hidden(case.crash) is not None:
        return _mapped_memory()
    if allowed:
        alone = isinstance(root, DeviceOutOfMemory) and (root.tried_bytes or allowed) <= (root.free_bytes or 0)
        return Proposal(
            action=say("Raise the process's memory fraction (now {allowed})", allowed=show(allowed)),
            setting=_CAP,
            suggested=_WHOLE,
            snippet=f"{_CAP}({_WHOLE})" if alone else None,
            derivation=say("{fraction} is the whole GPU", fraction=_WHOLE),
            cost=say("other processes on the GPU get less of it"),
        )
    return None


def _larger_at_once(crash: Crash) -> Proposal | Skip:
    """Intel's runtime lifts its limit where it is told to; what Metal and a framework refuse by themselves nobody
    lifts."""
    if isinstance(crash.root, DeviceOutOfMemory) and crash.root.limit == "per-allocation":
        return Skip()
    return Proposal(
        action=say(
            "Let Intel's runtime make single allocations of {limit} and more, or keep each tensor below that",
            limit=show(XPU_LARGEST),
        ),
        setting=_RELAXED,
        suggested=1,
        snippet=f"export {_RELAXED}=1",
        assumes=(say("a Level Zero runtime of 2024 or later (not in the log)"),),
        cost=say("slower kernels: they address memory with 64 bits"),
    )


def _mapped_memory() -> Proposal:
    """An APU's GPU takes system memory, of which the driver maps a part: docs of ROCm, system-optimization/rdna3-5; the
    kernel calls amdgpu.gttsize deprecated in favour of this (ROCm/legacy-rocm-build#5595)."""
    return Proposal(
        action=say(
            "On an APU: give the GPU less memory in the BIOS, and let it map more of the system's (ttm.pages_limit)"
        ),
        setting="ttm.pages_limit",
        snippet="amd-ttm --set N   # GiB; of the package amd-debug-tools",
        assumes=(say("the GPU is an APU's, and its runtime counts mapped memory only"),),
        cost=say("less RAM for the rest of the machine"),
    )


def _larger_workspace(tried: int) -> Proposal:
    """Engines have 384 MiB, or 512 MiB for some models: SGLANG_FLASHINFER_WORKSPACE_SIZE in sglang/srt/environ.py."""
    steps = math.ceil(tried / _WORKSPACE_STEP)
    then = steps * _WORKSPACE_STEP
    return Proposal(
        action=say("Give the engine a FlashInfer workspace of at least {then}", then=show(then)),
        suggested=then,
        derivation=say(
            "{tried} requested; {formula}",
            tried=show(tried),
            formula=f"{steps} x {show(_WORKSPACE_STEP)} = {show(then)}",
        ),
        cost=say("less GPU memory for the KV cache"),
    )


def _larger_host_buffer(crash: Crash) -> Proposal:
    """LMCache's own buffer."""
    stated = crash.setting(*LMCACHE_BUFFER)
    now = stated.number if stated is not None else None
    then = 2 * (now or LMCACHE_USUAL)
    return Proposal(
        action=say(
            "Raise LMCache's host buffer (max_local_cpu_size, in GB per rank): {now} -> {then}",
            now=f"{now:g}" if now else as_default(f"{LMCACHE_USUAL:g}"),
            then=f"{then:g}",
        ),
        setting=LMCACHE_BUFFER[1],
        current=now,
        suggested=then,
        snippet=f"export {LMCACHE_BUFFER[1]}={then:g}",
        derivation=f"2 x {now or LMCACHE_USUAL:g} = {then:g}",
        assumes=(say("double is a guess: the need is unknown"),),
        cost=say("as much more host RAM for each rank"),
    )


def _twice(case: Case, now: int, unit: str) -> Proposal:
    """A heap whose size the launch line states."""
    times = _MANY_TIMES if now * BINARY[unit.lower() or _OF_A_BARE_NUMBER] < _SMALL_HEAP else 2
    then = f"{times * now}{unit}"
    return Proposal(
        action=say(
            "Raise {name} from {now} to {then}, if the machine has the memory",
            name=case.name,
            now=f"{now}{unit}",
            then=then,
        ),
        suggested=then if unit else times * now,
        derivation=f"{times} x {now}{unit} = {then}",
        assumes=(
            say("double is a guess: the need is unknown")
            if times == 2
            else say("{times} times is a guess: the heap is small and the need is unknown", times=times),
        ),
    )


def _larger_budget(case: Case) -> Answer:
    """Twice what a program allows itself."""
    stated = [one for one in case.crash.events if isinstance(one, BudgetSpent | BudgetUsage) and one.limit_bytes]
    limit = stated[-1].limit_bytes if stated else None
    if not limit:
        return None
    then = f"{math.ceil(2 * limit / MIB)}MiB"
    return Proposal(
        action=say(
            "Raise the program's own limit from {now} to {then}, if the machine has the memory",
            now=show(limit),
            then=then,
        ),
        current=limit,
        suggested=then,
        derivation=f"2 x {show(limit)} = {then}",
        assumes=(say("double is a guess: the need is unknown"),),
        setting=next((one.setting for one in stated if isinstance(one, BudgetSpent) and case.row is None), None),
    )


def more_gpus(case: Case) -> Answer:
    """As many as the model's states need, in a job that may train it."""
    crash = case.crash
    if crash.job.task in WITHOUT_TRAINING:
        return None
    size, total = size_of_model(crash), engine.card_total(crash)
    cards = engine.cards_of_trainer(crash)
    if size is None or total is None:
        return None
    needed = math.ceil(arithmetic.STATES_BYTES * size.parameters / (0.8 * total))
    if cards is not None and needed <= cards:
        return None  # the states fit; what else is missing cannot be computed
    return Proposal(
        action=say("Train on at least {count} GPUs", count=needed),
        current=cards,
        suggested=needed,
        derivation=say(
            "ceil(18 bytes x {size} / 80 % of {total}) = {count}", size=size.billions, total=show(total), count=needed
        ),
        assumes=(size.source, say("all states are sharded"), say("20 % of the GPU for activations")),
    )


# versions


def pin_version(case: Case) -> Answer:
    match = releases.likely(case.crash)
    if match is None and case.cause == PROCESS_HOG:
        return _of_the_cluster(case.crash)
    if match is None and evictable_tokens_stayed(case.crash) is not None:
        return _without_a_prefix_cache()
    if match is None:
        return _that_evicts(case.crash) or _no_known_regression(case.crash) or _another_build(case)
    known = match.known
    package = known.affected.package
    return Proposal(
        action=say("{action}: {what}", action=_upgrade(case.crash, match), what=translated(known.what)),
        setting=package if known.install else None,
        current=case.crash.context.frameworks.get(package) if known.install else None,
        suggested=_bound(known),
        derivation=_affected(case.crash, match),
        snippet=_to_copy(match),
        assumes=(_assumed(known),) if match.told == "nowhere" else (),
        reference=_address(known.seen[0]),
    )


def _without_a_prefix_cache() -> Proposal:
    """python/sglang/srt/server_args.py: what ends with its request needs no eviction."""
    return Proposal(
        action=say("Upgrade SGLang; until then turn its prefix cache off, whose tokens it failed to evict"),
        snippet="--disable-radix-cache",
        cost=say("prompts that share a prefix are computed in full again"),
    )


def _of_the_cluster(crash: Crash) -> Answer:
    """A helper of Ray's own runs no code of the job: a restart frees what it holds, a later release may hold less."""
    memory = node_memory(crash)
    helper = memory.heaviest if memory is not None else None
    if helper is None or not helper.is_a_helper:
        return _no_known_regression(crash)
    return Proposal(
        action=say(
            "Upgrade Ray and restart it on this node: {who} runs Ray's code, not yours; the restart frees {held}",
            who=helper.who,
            held=show(helper.largest),
        ),
        snippet="pip install --upgrade ray",
        subject=helper.who,
        cost=say("the restart ends what Ray runs on this node"),
    )


def _that_evicts(crash: Crash) -> Proposal | None:
    """#338 of vllm.rs, between 0.10.11 and 0.11.0: the words of the refusal tell the releases apart."""
    refused = last_prompt_refused(crash)
    if refused is None or refused.evicts:
        return None
    return Proposal(
        action=say(
            "Upgrade vllm.rs to {release} or later: it evicts cached prefixes before it refuses a prompt",
            release=_EVICTS,
        ),
        subject=f"vllm.rs {_EVICTS}",
        reference="https://github.com/guoqingbao/vllm.rs/pull/338",
    )


def _no_known_regression(crash: Crash) -> Answer:
    """Where no known case fits, the newest fixes are the best guess."""
    names = crash.context.frameworks
    used = [f"{name} {version}" for name, version in names.items() if version and name != "python"]
    installed = [each for each in among(names) if each.packages and each.layer != "base"]
    package = next((each.packages[0] for each in sorted(installed, key=lambda one: not names[one.name])), None)
    if not used and package is None:
        return None
    return Proposal(
        action=say(
            "Try a later release ({releases}); no known regression matches",
            releases=listed(used[:4] or [package or ""]),
        ),
        snippet=f"pip install --upgrade {package}" if package is not None else None,
    )


def _another_build(case: Case) -> Answer:
    if case.cause != _REFUSED_WHAT_IS_FREE or maker(case.crash) not in VISIBLE:
        return None
    if the_driver_of_an_embedded_gpu_had_no_room(case.crash) is not None:
        return Proposal(
            action=say("Compare the release of L4T (JetPack) with those before and after it: 36.4.7 caps allocations"),
            snippet="cat /etc/nv_tegra_release",
            reference="https://github.com/ggml-org/llama.cpp/pull/23732",
        )
    return Proposal(
        action=say("Try another build of the framework for this driver, such as the GPU maker's container image")
    )


def _upgrade(crash: Crash, match: Match) -> str:
    """What to do; where a framework pins the package, a release of it that pins another one goes first."""
    known = match.known
    carrier = match.carrier or next(_may_pin(crash, known), None)
    if carrier is None:
        return known.cures[0].upper() + known.cures[1:]
    return say(
        "Upgrade {carrier} to {sound} or later (pins {package} {pinned}), or install {install} with the current one",
        carrier=carrier.releases.package,
        sound=carrier.sound,
        package=known.affected.package,
        pinned=carrier.pins,
        install=known.install,
    )


def _may_pin(crash: Crash, known: Regression) -> Iterator[Carrier]:
    """The frameworks that the job uses in a release that is not printed."""
    frameworks = crash.context.frameworks
    for carrier in known.carriers:
        if carrier.releases.package in frameworks and not frameworks[carrier.releases.package]:
            yield carrier


def _to_copy(match: Match) -> str | None:
    known = match.known
    if match.carrier is not None:
        return f"pip install '{match.carrier.releases.package}>={match.carrier.sound}'"
    return f"pip install '{known.install}'" if known.install else known.set


def _bound(known: Regression) -> str | None:
    """The version in the requirement."""
    return re.split("[=><]=", known.install)[1] if known.install else None


def _affected(crash: Crash, match: Match) -> str:
    """The range, what is printed, and where it was read."""
    known = match.known
    parts = [
        say("affected: {releases}; fixed in {sound}", releases=known.affected, sound=_bound(known))
        if known.install
        else say("affected: {releases}", releases=known.affected)
    ]
    if match.told == "printed":
        package = known.affected.package
        release = f"{package} {match.version}"
        given = package in crash.context.outside
        parts.append(say("{release}", release=release) if given else say("{release} (from the log)", release=release))
    if match.told == "pinned":
        parts.append(say("{release} pins one", release=match.version))
    if known.dated:
        day, _, change = known.dated.partition(" ")
        parts.append(say("fixed on {day} by {change} (release unknown)", day=day, change=change))
    return f"{semicolons(parts)} ({', '.join(known.seen[:2])})"


def _assumed(known: Regression) -> str:
    package = known.affected.package
    return say("{package} is an affected release (not in the log; check `pip show {package}`)", package=package)


def _address(reference: str) -> str | None:
    match = _REFERENCE.fullmatch(reference)
    return f"https://github.com/{match[1]}/issues/{match[2]}" if match else None


# clusters


def fix_request(case: Case) -> Answer:
    crash = case.crash
    visible = crash.first(GpuVisibility)
    if visible is not None and visible.asked is not None and visible.visible is not None:
        return Proposal(
            action=say(
                "Start Ray with the {visible} GPUs of CUDA_VISIBLE_DEVICES, not {asked}",
                visible=visible.visible,
                asked=visible.asked,
            ),
            setting="--num-gpus",
            current=visible.asked,
            suggested=visible.visible,
            derivation=say(
                "{visible} GPUs in CUDA_VISIBLE_DEVICES={mask}", visible=visible.visible, mask=visible.mask or ""
            ).strip(),
            snippet=f"ray start --head --num-gpus={visible.visible}",
        )
    if visible is not None and (line := _gpu_of_a_worker(crash)):
        return Proposal(
            action=say("Request a GPU for the work that needs one: Ray gives none to the others"), snippet=line
        )
    have, asked = _cluster(crash), asked_gpus(crash)
    if asked is not None:
        return _launch(crash, asked.gpus, asked.sum, have)
    request = request_of(crash)
    if request is None or not request.requested:
        return _of_the_engine(crash) or _of_the_job(case.row)
    short = lacking(request, have)
    if not short and request.state in FOR_NO_NODE and (node := bound_to(request)) is not None:
        group = group_of(crash, request)
        if group is not None and group.of_vllm:
            return _of_vllms_own_node(group, node)
        return Proposal(
            action=say(
                "Start Ray with {what} on node {node}, or do not bind the request to it (node:{node})",
                node=node,
                what=what_of(request),
            ),
            subject=node,
            snippet=commands.SCHEDULED,
        )
    if not short and request.state in FOR_NO_NODE:
        return Proposal(
            action=say("Request at most what one node has: no node can provide {what}", what=what_of(request)),
            snippet=commands.SCHEDULED,
        )
    if not short and not have and request.placement_group:
        return _of_a_group(case, request)
    group = group_of(crash, request)
    if group is not None and group.of_vllm and (fewer := _cards_of_vllm(crash, short)) is not None:
        return fewer
    return Proposal(
        action=_less(short) if short else say("Create fewer actors, or request less for each: the cluster is taken"),
        derivation=listed(f"{asked:g} {kind} > {there:g}" for kind, asked, there in short) if short else None,
        snippet=commands.SCHEDULED,
    )


def _of_a_group(case: Case, request: Unschedulable) -> Proposal:
    """Where nothing is known of what the cluster has."""
    row = _split_of_the_engine(case.crash) if case.crash.job.task == "serving" else None
    if row is not None:
        return _smaller_group(row)
    return Proposal(
        action=_compared(request),
        subject=what_of(request),
        setting=_asking(case.row),
        snippet=commands.SCHEDULED,
    )


def _cards_of_vllm(crash: Crash, short: Sequence[tuple[str, float, float]]) -> Proposal | None:
    """vLLM waits for one bundle per rank of its world: initialize_ray_cluster in vllm/v1/executor/ray_utils.py."""
    row = spelling("tensor-parallel", crash.context, vllm.NAME)
    wanted, there = next(((wanted, there) for kind, wanted, there in short if kind == "GPU"), (0.0, 0.0))
    if row is None or there < 1:
        return None
    fit = 2 ** (int(there).bit_length() - 1)
    return Proposal(
        action=say(
            "Let vLLM use no more GPUs than the cluster has (its tensor and pipeline parallel sizes multiply), or show "
            "Ray the GPUs that are missing there (--num-gpus of `ray start`)"
        ),
        setting=row.setting,
        suggested=fit,
        snippet=row.snippet(fit),
        derivation=say(
            "{asked:g} GPU > {there:g}; {fit} is the largest power of two not above {there:g}",
            asked=wanted, there=there, fit=fit,
        ),
        assumes=(say("a pipeline parallel size of 1 (not in the log)"),),
    )  # fmt: skip


def _of_vllms_own_node(group: Group, node: str) -> Proposal:
    """vLLM binds a worker to the address of its own machine, which Ray may know by another one."""
    return Proposal(
        action=say(
            "See whether Ray lists this machine as {node} with {what}: vLLM needs one of its {count} there; where Ray "
            "has another address of it, set VLLM_HOST_IP to that one",
            node=node,
            what=amounts_in_words(group.bundle),
            count=group.count,
        ),
        subject=node,
        setting="VLLM_HOST_IP",
        snippet=f"ray list nodes\n{commands.SCHEDULED}",
    )


def _compared(request: Unschedulable) -> str:
    """A bundle is never spread over nodes; a group of several may be."""
    if request.bundles is not None and request.bundles > 1:
        return say(
            "Compare {what} in {count} bundles with what the cluster has free: each bundle has to fit on one node, "
            "with its CPUs (--num-cpus of `ray start`)",
            what=what_of(request),
            count=request.bundles,
        )
    return say(
        "Compare a bundle of {what} with what one node has free: it has to fit on one, with its CPUs "
        "(--num-cpus of `ray start`)",
        what=what_of(request),
    )


def _of_the_job(row: Spelling | None) -> Proposal | None:
    """The knob as it is, without an option that asks for nothing."""
    return Proposal(setting="") if row is not None and not _asking(row) else None


def _asking(row: Spelling | None) -> str:
    """The option by which the job requests; `ray start` takes what a node offers, and less of it places nothing."""
    return row.setting if row is not None and row.framework != ray_workers.NAME else ""


# Who starts the work decides how it asks for a GPU: ray/tune/trainable/util.py, ray/air/config.py,
# ray/serve/config.py, ray/remote_function.py
_REQUESTS: Final = (
    (r"ray/tune/", 'trainable = tune.with_resources(trainable, {"gpu": 1})'),
    (r"ray/(?:train|air)/", "scaling_config = ScalingConfig(num_workers=N, use_gpu=True)"),
    (r"ray/serve/", '@serve.deployment(ray_actor_options={"num_gpus": 1})'),
    (r"ray::|ray/_private/|ray/worker\.py", "@ray.remote(num_gpus=1)"),
)


def _gpu_of_a_worker(crash: Crash) -> str | None:
    """The line by which this kind of Ray's work requests a GPU."""
    return next((line for frames, line in _REQUESTS if crash.shows(frames)), None)


def _less(short: Sequence[tuple[str, float, float]]) -> str:
    """Of what the cluster can never serve."""
    kinds = listed(kind for kind, _, _ in short)
    if any(kind == "GPU" for kind, _, _ in short):
        return say(
            "Request no more {kinds} than the cluster has; GPUs that are missing there have to be in "
            "CUDA_VISIBLE_DEVICES and in --num-gpus of `ray start`",
            kinds=kinds,
        )
    return say("Request no more {kinds} than the cluster has", kinds=kinds)


def _of_the_engine(crash: Crash) -> Answer:
    """It checks its own size against the cluster before it asks Ray for anything."""
    row, seen = _split_of_the_engine(crash), crash.root
    if row is None:
        return None
    if isinstance(seen, Shortage) and seen.needed and seen.available and seen.unit == "devices":
        return _over_the_nodes(crash, row, seen.needed, seen.available)
    return Proposal(
        action=say("Lower {option} to the number of GPUs that Ray sees, or show Ray more of them", option=row.setting),
        setting=row.setting,
        snippet=commands.SCHEDULED,
    )


def _split_of_the_engine(crash: Crash) -> Spelling | None:
    if not (crash.job.engine or vllm.NAME in crash.context.frameworks):
        return None
    row = spelling("tensor-parallel", crash.context, crash.job.world)
    return row or spelling("tensor-parallel", crash.context, vllm.NAME)


def _smaller_group(row: Spelling) -> Proposal:
    """The engine requests one bundle for each of its GPUs: vllm/executor/ray_utils.py, initialize_ray_cluster."""
    return Proposal(
        action=say("Lower {option} to the number of GPUs that Ray has free, or free more of them", option=row.setting),
        setting=row.setting,
        snippet=commands.SCHEDULED,
    )


def _over_the_nodes(crash: Crash, row: Spelling, needed: int, visible: int) -> Proposal:
    """Tensor parallelism within a node, the rest as a pipeline over the nodes: docs of vLLM, parallelism_scaling."""
    nodes, rest = divmod(needed, visible)
    lines = [row.snippet(visible)]
    if rest == 0 and nodes > 1 and _over_ray(crash) and row.framework == vllm.NAME:
        lines.append(f"--pipeline-parallel-size {nodes}")
    return Proposal(
        action=say(
            "Lower {option} to the GPUs that one node shows: {visible} instead of {needed}",
            option=row.setting,
            visible=visible,
            needed=needed,
        ),
        setting=row.setting,
        current=needed,
        suggested=visible,
        snippet=" ".join(line for line in lines if line),
        derivation=f"{visible} x {nodes} = {needed}" if len(lines) > 1 else None,
    )


def _over_ray(crash: Crash) -> bool:
    backend = crash.setting("distributed_executor_backend")
    return "ray" in crash.context.frameworks or (backend is not None and backend.value == "ray")


def _cluster(crash: Crash) -> Mapping[str, float]:
    have = dict(cluster(crash, request_of(crash)))
    for kind, name in (("GPU", "num_gpus"), ("CPU", "num_cpus")):
        stated = crash.setting(name)
        if kind not in have and stated is not None and isinstance(stated.value, int):
            have[kind] = stated.value
    return have


def _launch(crash: Crash, gpus: int, terms: str, have: Mapping[str, float]) -> Proposal:
    """Every bundle of a GPU takes a CPU too, and other tasks at least one more."""
    cpus = gpus + DRIVER_CPUS
    said = say(
        "{terms} GPUs, one CPU each + {driver} to spare = {cpus} CPUs",
        terms=terms,
        driver=DRIVER_CPUS,
        cpus=cpus,
    )
    cluster_gpus, cluster_cpus = have.get("GPU"), have.get("CPU")
    if cluster_gpus is not None and cluster_gpus < gpus:
        enough = cluster_gpus + DRIVER_CPUS
        short = cluster_cpus is not None and cluster_cpus < enough
        sharing = shared_roles(crash, cluster_gpus)
        figures = {"there": f"{cluster_gpus:g}", "asked": gpus}
        has = say("{asked}; the cluster has {there} GPUs", asked=said, there=f"{cluster_gpus:g}")
        return Proposal(
            action=say(
                "Request at most {there} GPUs instead of {asked} (fewer per role, fewer engines or colocated "
                "roles) and give Ray {cpus} CPUs instead of {told}",
                cpus=f"{enough:g}",
                told=f"{cluster_cpus:g}",
                **figures,
            )
            if short
            else say(
                "Request at most {there} GPUs instead of {asked} (fewer per role, fewer engines or colocated roles)",
                **figures,
            ),
            snippet="\n".join(
                [
                    *([" ".join(sharing)] if sharing else []),
                    *([f"ray start --head --num-cpus={enough:g} --num-gpus={cluster_gpus:g}"] if short else []),
                ]
            )
            or None,
            current=gpus,
            suggested=int(cluster_gpus),
            derivation=say(
                "{formula}; {gpus} + {driver} to spare = {cpus} CPUs",
                formula=has,
                gpus=f"{cluster_gpus:g}",
                driver=DRIVER_CPUS,
                cpus=f"{enough:g}",
            )
            if short
            else has,
            setting="the sum of the launch flags",
        )
    if cluster_cpus is not None and cluster_cpus < cpus:
        return Proposal(
            action=say(
                "If nothing else holds a GPU, give Ray at least {cpus} CPUs: the launch alone uses all {told}",
                cpus=cpus,
                told=f"{cluster_cpus:g}",
            )
            if cluster_gpus == gpus
            else say(
                "Give Ray at least {cpus} CPUs: the launch alone uses all {told}",
                cpus=cpus,
                told=f"{cluster_cpus:g}",
            ),
            setting="--num-cpus",
            current=cluster_cpus,
            suggested=cpus,
            derivation=say("{formula}; the cluster has {cpus}", formula=said, cpus=f"{cluster_cpus:g}"),
            snippet=f"ray start --head --num-cpus={cpus}" + (f" --num-gpus={cluster_gpus:g}" if cluster_gpus else ""),
        )
    return Proposal(
        action=say(
            "Stop jobs or actors of earlier runs that still hold the cluster: the launch requests {gpus} "
            "GPUs and {cpus} CPUs",
            gpus=gpus,
            cpus=cpus,
        ),
        derivation=said,
        setting="--num-gpus",
        snippet=commands.SCHEDULED,
    )


def add_nodes(case: Case) -> Answer:
    crash = case.crash
    if case.cause == "gpu-visibility" and isinstance(crash.root, Shortage | GpuVisibility):
        return Skip()  # one process counts what it sees itself
    have, asked, request = _cluster(crash).get("GPU"), asked_gpus(crash), request_of(crash)
    if request is not None and request.state in FOR_NO_NODE and request.requested and crash.pool == "scheduling":
        if bound_to(request) is not None:
            return Skip()  # a further node is not that one
        short = lacking(request, _cluster(crash))
        if adds_up(crash, request, _cluster(crash)):
            return _what_is_missing(short)
        return Proposal(
            action=say("Add a node that has {what} by itself: smaller nodes do not add up", what=what_of(request)),
            subject=what_of(request),
        )
    if asked is None or not have or asked.gpus <= have:
        return None
    return Proposal(
        action=say("Add GPUs to the cluster: {asked} requested, {have} available", asked=asked.gpus, have=f"{have:g}"),
        derivation=say(
            "{terms} GPUs - {have} = {missing} missing",
            terms=asked.sum,
            have=f"{have:g}",
            missing=f"{asked.gpus - have:g}",
        ),
    )


def _what_is_missing(short: Sequence[tuple[str, float, float]]) -> Proposal:
    """What all nodes together lack, whichever of them has it."""
    missing = amounts_in_words({kind: wanted - there for kind, wanted, there in short})
    return Proposal(
        action=say("Add nodes with {missing} more in all, or start Ray on them with what they have", missing=missing),
        subject=missing,
        derivation=listed(f"{wanted:g} - {there:g} = {wanted - there:g} {kind}" for kind, wanted, there in short),
    )


# what the log does not hold


def collect(case: Case) -> Answer:
    crash = case.crash
    if case.cause == _REFUSED_WHAT_IS_FREE and (alone := _the_same_alone(crash)) is not None:
        return alone
    if crash.pool in ("gpu", "kv_cache"):
        return Proposal(
            action=say("Record what holds GPU memory just before the failure"),
            snippet=_in_its_world(case),
        )
    if case.cause in (PROCESS_HOG, REWARD_HOG):
        return _of_the_next_run(crash)
    if "ray" in crash.context.frameworks or _ray_killed(crash):
        return _of_ray(crash)
    action, snippet = _record(crash)
    return Proposal(action=action, snippet=snippet)


def _the_same_alone(crash: Crash) -> Proposal | None:
    """Who holds a GPU says nothing where most of it is free; whether others get as much does."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or crash.job.world != "torch" or root.tried_bytes is None:
        return None
    kind = _TYPES.get(maker(crash))
    if kind is None:
        return None
    device = kind if root.process.gpu is None else f"{kind}:{root.process.gpu}"
    return Proposal(
        action=say("Allocate the same size alone, in the same environment: if that fails, the job is not the reason"),
        snippet=f"python -c \"import torch; torch.empty({root.tried_bytes}, dtype=torch.uint8, device='{device}')\"",
        derivation=say("{tried} = {bytes} bytes", tried=show(root.tried_bytes), bytes=root.tried_bytes),
        cost="",
    )


def _of_ray(crash: Crash) -> Answer:
    """A kill of Ray's leaves no line in the kernel's log."""
    asked = commands.raylet_log(crash)
    if not _ray_killed(crash):
        return Proposal(
            action=say("Read the node's raylet log and kernel log"), snippet="; ".join((*asked, commands.DMESG))
        )
    if not asked:
        return Skip()
    if commands.raised_by_rays_old_monitor(crash) or commands.rays_table_is_cut_off(crash):
        action = say("Read Ray's table of memory users in the whole log: it names who held the memory")
    else:
        action = say("Read the node's raylet log: Ray's table there names who held the memory")
    return Proposal(action=action, snippet="; ".join(asked))


def _ray_killed(crash: Crash) -> bool:
    return crash.first(NodeOutOfMemory) is not None or crash.first(KillCount) is not None


def _of_the_next_run(crash: Crash) -> Answer:
    """Who held it is known; what for is not, unless the log shows how it grew."""
    if crash.trajectory is not None and crash.trajectory.growth_bytes:
        return Skip()
    return Proposal(
        action=say(
            "Record the memory of the next run: it shows whether it grows slowly (a leak) or jumps at one place"
        ),
        snippet="oomdoctor run -- COMMAND",
        cost=say("none"),
    )


def _record(crash: Crash) -> tuple[str, str]:
    """Whose record shows how the process died, and the command that prints it."""
    if crash.first(KernelKill) is not None:
        action = say("Show the kernel's dump above the kill, and the RAM that belongs to no process")
        return action, f"{commands.DUMP}; {commands.OUTSIDE_PROCESSES}"
    first = commands.of_its_killer(commands.settling(crash), crash)[0]
    if commands.killer_of(crash) == commands.KUBELET:
        return say("See which pods use the node's memory, and what they request"), _PODS
    if commands.killer_of(crash):
        return say(
            "See what holds the machine's memory: {killer} leaves no line in the kernel's log",
            killer=commands.killer_of(crash),
        ), first
    if first.startswith("sacct"):
        return say("Ask Slurm how the job ended and for its peak memory"), first
    if first.startswith("docker"):
        return say("Ask Docker whether the container was OOM-killed, and for its limit"), first
    if first == commands.POD:
        return say("Ask Kubernetes for the pod's last state and its limits"), first
    return say("Check the node's kernel log for an OOM kill"), commands.DMESG


def fix_environment(case: Case) -> Answer:
    if case.crash.pool == "scheduling":
        return _visible_gpus(case.crash)
    if (early := early_kill(case.crash)) is not None and case.crash.pool in RAM:
        return _guard_that_waits(early)
    if (misread := of_bytes(case.crash)) is not None:
        return misread
    if case.cause == _REFUSED_WHAT_IS_FREE and case.row is not None:
        return _driver_and_mask(case.crash, case.row)
    if case.row is None and case.crash.pool in ("gpu", "kv_cache"):
        is_nvidias = maker(case.crash) == NVIDIA
        return Proposal(snippet="nvidia-smi -q -d COMPUTE,ECC,MEMORY") if is_nvidias else None
    return None


def _driver_and_mask(crash: Crash, row: Spelling) -> Answer:
    if (held := _held_already(crash)) and not is_on_windows(crash):
        return _limits_of_the_process(held)
    variable = VISIBLE.get(maker(crash))
    if variable is None or row.write is None:
        return None
    return Proposal(
        action=say(
            "Check that the driver fits the runtime that the framework was built for, and which GPUs {variable} shows",
            variable=variable,
        ),
        snippet=f'{row.write}; echo "${variable}"',
    )


def _held_already(crash: Crash) -> int:
    """What the process got from the same driver before: its runtime and its devices are right."""
    root = crash.root
    return (card_of(root).reserved_bytes or 0) if isinstance(root, DeviceOutOfMemory) else 0


def _limits_of_the_process(held: int) -> Proposal:
    """Each segment takes a memory map, with HIP's virtual memory a file, too: pytorch/pytorch#175431,
    ROCm/rocm-systems#10604."""
    return Proposal(
        action=say(
            "Look for a limit of the process (open files, memory maps, locked memory) and for the driver's own error: "
            "the driver and the GPU gave this process {held} before",
            held=show(held),
        ),
        setting="",
        snippet=f"{commands.ADDRESS_LIMIT}; {commands.MAPS_LIMIT}; dmesg -T | tail -n 50",
    )


def _guard_that_waits(early: UserspaceKill) -> Proposal:
    """earlyoom at the limit that it has by itself: earlyoom.1, and earlyoom.default of its repository."""
    total, free = early.total_bytes or 0, early.available_bytes or 0
    return Proposal(
        action=say(
            "Let earlyoom kill later: at {then}% available (its default), not at {now}; then restart it",
            then=_AVAILABLE,
            now=percent(early.limit_fraction or 0),
        ),
        setting="",
        snippet=f'EARLYOOM_ARGS="-m {_AVAILABLE}"   # in /etc/default/earlyoom; then: systemctl restart earlyoom',
        derivation=say(
            "{free} available - {share} of {total} = {more} more",
            free=show(free),
            share=f"{_AVAILABLE} %",
            total=show(total),
            more=show(free - total * _AVAILABLE // 100),
        ),
        cost=say("less memory is left for the rest of the machine"),
    )


def _visible_gpus(crash: Crash) -> Proposal:
    """Whether Ray sees all GPUs of the node; where it sees enough of them, who holds them."""
    masks, asked, request = crash.setting("CUDA_VISIBLE_DEVICES"), asked_gpus(crash), request_of(crash)
    look = 'echo "$CUDA_VISIBLE_DEVICES"; ' + commands.CARDS + "; ray status"
    if masks is not None:
        action = say(
            "Match CUDA_VISIBLE_DEVICES ({value} at {place}), Ray's --num-gpus and the node's GPUs",
            value=masks.value,
            place=masks.place,
        )
        return Proposal(action=action, snippet=look)
    if asked is not None and asked.gpus > cluster(crash, request_of(crash)).get("GPU", asked.gpus):
        return Proposal(action=say("Match CUDA_VISIBLE_DEVICES, Ray's --num-gpus and the node's GPUs"), snippet=look)
    if request is not None and request.state in FOR_NO_NODE:
        action = say("Compare what Ray counts on each node with what the node has (CUDA_VISIBLE_DEVICES, --num-gpus)")
        return Proposal(action=action, snippet=look)
    if isinstance(crash.root, Shortage | GpuVisibility):
        action = say("Compare the GPUs that the process sees with those of its node")
        return Proposal(action=action, snippet='echo "$CUDA_VISIBLE_DEVICES"; ' + commands.CARDS)
    action = say("See which tasks and actors hold the cluster's CPUs and GPUs")
    return Proposal(action=action, snippet="ray status -v; ray list actors --filter state=ALIVE")


_OF_PYTHON: Final = (
    r"\bsetup\.py\b|bdist_wheel|build_ext|Building wheel|\bpip\b|pyproject|CalledProcessError|/setuptools/"
)


def python_builds(crash: Crash) -> bool:
    """Whether setuptools or pip runs the build, so that nobody types the command of the build tool."""
    return crash.shows(_OF_PYTHON)


def fewer_jobs(case: Case) -> Answer:
    """One, as the tool spells it that builds; PyTorch's extensions where none is named."""
    row = case.row or next(of_knob(case.knob, "torch"))
    if case.now is not None and case.number() == 1:
        return already(case.now, 1)
    return Proposal(
        action=say("Compile with one job, then raise the number while it fits"),
        suggested=1,
        derivation=say("1 is the minimum"),
        snippet=row.snippet(1),
        setting=row.setting,
    )


FUNCTIONS: Final[Mapping[str, Compute]] = {
    "allocator-config": allocator_config,
    "cap-preallocation": cap_preallocation,
    "raise-allocator-cap": raise_cap,
    "more-gpus": more_gpus,
    "pin-version": pin_version,
    "fix-resource-request": fix_request,
    "add-nodes": add_nodes,
    "collect-evidence": collect,
    "fix-environment": fix_environment,
    "fewer-build-jobs": fewer_jobs,
    "fix-shape": wrong_axis.fix_shape,
}
