"""The settings of the framework's allocator on the device."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.devices import maker
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies import pythons
from oomdoctor.remedies.captions import caption
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import comes_later, known_versions, of_knob, same
from oomdoctor.signs.machine import is_on_windows
from oomdoctor.spellings import title
from oomdoctor.units import GIB, MIB, in_print, percent, show
from oomdoctor.versions import version_of, versions

_SPLIT_MB: Final = 512
_SPLITS: Final = f"max_split_size_mb:{_SPLIT_MB}"
_IN_PIECES: Final = "allocator-fragmentation"  # a cause
_ALLOCATOR: Final = "PYTORCH_CUDA_ALLOC_CONF"
_NPU_ALLOCATOR: Final = "PYTORCH_NPU_ALLOC_CONF"
EXPANDABLE: Final = "expandable_segments:True"
_WAYS: Final = ((EXPANDABLE, "2.1"), (_SPLITS, "1.10"))  # with the first release that has it
ROUNDING: Final = GIB // 100 + 1  # two of the figures of a message are printed in hundredths of a GiB
A_REMAINDER: Final = 0.05  # of the card: PyTorch rounds what it reserves, 20 MiB for each request of 1 to 10 MiB
WORTH_A_TRY: Final = 128 * MIB
A_GOOD_DEAL: Final = 2  # times the request
LITTLE: Final = 0.1  # of the card: less than this unused inside PyTorch is no fragmentation


def allocator_config(case: Case) -> Answer:
    """Segments that grow clash with the pools of an engine that sleeps, and cost nothing where no engine is."""
    answer, job = _with_a_newer_release(case) or _allocator(case), case.crash.job
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
    return _of_a_refusal(case, root) if isinstance(root, DeviceOutOfMemory) else None


def _of_a_refusal(case: Case, root: DeviceOutOfMemory) -> Answer:
    crash = case.crash
    why = no_fragmentation(root)
    if why is not None:
        return Refusal(why)
    if is_a_remainder(root):
        return Skip()
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


def _with_a_newer_release(case: Case) -> Proposal | None:
    """Memory in pieces is what the setting is for, and a release without it is no reason to keep the pieces."""
    if case.cause != _IN_PIECES or not comes_later(case.knob, "torch", case.crash.context):
        return None
    runs = pythons.releases("torch", case.crash.context.frameworks.get("python"))
    ways = _WAYS[1:] if is_on_windows(case.crash) else _WAYS
    value, since = next((way for way in ways if runs.overlaps(versions(f">={way[1]}"))), ("", ""))
    if not since:
        return None
    return Proposal(
        action=say("Upgrade PyTorch to {since} or later, whose allocator can be set: the log's is older", since=since),
        setting=_ALLOCATOR,
        snippet=f"export {_ALLOCATOR}={value}",
        cost=say("an upgrade"),
    )


def _as_windows_counts(refused: DeviceOutOfMemory) -> bool:
    """Under the display driver model of Windows, which WSL has too, a GPU has its whole nominal size, and nothing is
    free once it is full; the drivers of Linux keep a part of it to themselves."""
    return refused.total_bytes is not None and refused.total_bytes % GIB == 0 and refused.free_bytes == 0


def _of_a_summary(case: Case) -> Proposal:
    """A summary has no request to compare with."""
    if is_on_windows(case.crash) or case.row is None or case.row.value is None:
        return _without_splits(None)
    return Proposal(suggested=EXPANDABLE)


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
    """Why there is nothing to set: the release is too old, or a framework of the job sets it for its processes, where
    nobody says otherwise."""
    if comes_later(case.knob, "torch", case.crash.context):  # pytorch/pytorch#44742
        return say("{name} came with PyTorch 1.10, and the log's is older", name=_ALLOCATOR)
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


def little_is_unused(card: Card) -> bool:
    """Of a GPU that is full of tensors, so that it gets one more request past, and the next one may not find room."""
    return bool(card.total_bytes) and (card.unallocated_bytes or 0) < LITTLE * (card.total_bytes or 0)


def no_fragmentation(event: DeviceOutOfMemory) -> str | None:
    """Why the allocator's settings do not matter here, None where they may: what is reserved but unused is as much as
    was missing. It need not hold the whole request, since PyTorch asks the driver for what it has not got itself
    (c10/cuda/CUDACachingAllocator.cpp, release_cached_blocks and a second try)."""
    card = card_of(event)
    unused, tried, free = card.unallocated_bytes, card.tried_bytes, card.free_bytes or 0
    if unused is None or tried is None:
        return None
    if not unused:
        return say("nothing is reserved but unused; {tried} was requested", tried=show(tried))
    if free >= A_GOOD_DEAL * tried:
        return say("{free} were free and {tried} requested: room was not missing", free=show(free), tried=show(tried))
    missing, total = tried - free, card.total_bytes
    if missing <= unused + ROUNDING or (total and unused >= LITTLE * total):
        return None
    told = {"unused": in_print(unused), "missing": in_print(missing)}
    if not total:
        return say("it can give back at most {unused}; {missing} were missing", **told)
    share = percent(unused / total)
    return say("it can give back at most {unused} ({share} of the GPU); {missing} were missing", share=share, **told)


def is_a_remainder(event: DeviceOutOfMemory) -> bool:
    """What every full GPU has: nothing speaks against the setting, and nothing for it."""
    card = card_of(event)
    unused, total = card.unallocated_bytes or 0, card.total_bytes
    return unused < WORTH_A_TRY and bool(total) and unused < A_REMAINDER * (total or 0)


def cap_preallocation(case: Case) -> Answer:
    if case.row is not None and case.now is not None and same(case.now.value, case.row.value):
        return already(case.now, case.now.value)
    if case.row is None:
        return None
    whole = say("Stop {framework} from reserving the whole GPU", framework=title(case.row.framework))
    return Proposal(action="" if caption(case.row).action else whole, suggested=case.row.value)
