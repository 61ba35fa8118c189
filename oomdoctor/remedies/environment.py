"""What is set around the job: the driver, the GPUs in sight, limits and guards of the machine."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import RAM
from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.kernel import UserspaceKill
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.card import card_of
from oomdoctor.incident.devices import NVIDIA, maker
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import early_kill
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.cluster import states
from oomdoctor.remedies.conditions import LOCAL_RAY
from oomdoctor.remedies.misread import of_bytes
from oomdoctor.remedies.placement import VISIBLE
from oomdoctor.remedies.proposal import REFUSED_WHAT_IS_FREE, Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import Spelling
from oomdoctor.signs import commands
from oomdoctor.signs.card import no_unified_memory_at_all
from oomdoctor.signs.machine import is_on_windows
from oomdoctor.signs.pinned import huge_pages_were_refused
from oomdoctor.signs.scheduling import FOR_NO_NODE, RESERVED, asked_gpus, cluster, of_all_pools, request_of
from oomdoctor.units import percent, show

_SWITCHES_IT_OFF: Final = "unified-memory"  # in the option of a program that sets the variable itself
_AVAILABLE: Final = 10  # per cent
_ALWAYS: Final = 100  # per cent: tasks wait all the time, and nothing is killed
_OF_A_USER: Final = ".service/"  # below user@UID.service its own manager is asked
# Ray's logs: doc/source/ray-observability/user-guides/configure-logging.md; ray/_private/utils.py, get_user_temp_dir
_WORKERS: Final = "tail -n 20 /tmp/ray/session_latest/logs/worker-*.err"
_WORKERS_ON_WINDOWS: Final = 'Get-Content -Tail 20 "$env:TEMP\\ray\\session_*\\logs\\worker-*.err"'
_UNIT: Final = late(r"[A-Za-z0-9:_.@-]{1,200}\.(?:slice|service|scope)")


def fix_environment(case: Case) -> Answer:
    if case.crash.pool == "scheduling":
        return _visible_gpus(case.crash)
    if (early := early_kill(case.crash)) is not None and case.crash.pool in RAM:
        return _guard_that_waits(early) if early.pressed is None else _pressure_that_is_borne(early, early.pressed)
    if (misread := of_bytes(case.crash)) is not None:
        return misread
    if huge_pages_were_refused(case.crash) is not None:
        return _more_huge_pages()
    if no_unified_memory_at_all(case.crash) is not None:
        return _without_unified_memory(case.row)
    if case.cause == REFUSED_WHAT_IS_FREE and case.row is not None:
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


def _more_huge_pages() -> Proposal:
    """Documentation/admin-guide/mm/hugetlbpage.rst of Linux."""
    return Proposal(
        action=say("Set more huge pages aside (vm.nr_hugepages), of the size that the program asks for"),
        setting="",
        snippet=commands.HUGE_PAGES_FREE,
        cost=say("what is set aside is no RAM for anything else"),
    )


def _without_unified_memory(row: Spelling | None) -> Proposal:
    """XLA asks the driver for GPU memory alone then: stream_executor's GpuDriver::DeviceAllocate."""
    own = row.write if row is not None and _SWITCHES_IT_OFF in row.write else None
    return Proposal(
        action=say("Do without unified memory"),
        setting=None if own else "",
        snippet=own or "unset TF_FORCE_UNIFIED_MEMORY XLA_PYTHON_CLIENT_MEM_FRACTION",
        cost=say("what is larger than the GPU does not fit any more"),
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


def _pressure_that_is_borne(early: UserspaceKill, group: str) -> Proposal | None:
    """A limit of systemd-oomd above what was found: systemd.resource-control(5), ManagedOOMMemoryPressureLimit=."""
    unit, found = group.rsplit("/", 1)[-1], early.pressure_fraction or 0
    then = 10 * (int(10 * found) + 1)
    if _UNIT.fullmatch(unit) is None or then >= _ALWAYS:
        return None
    manager = " --user" if _OF_A_USER in group else ""
    return Proposal(
        action=say(
            "Let systemd-oomd kill {unit} later: at a pressure of {then}%, not of {now}",
            unit=unit,
            then=then,
            now=percent(early.limit_fraction or 0),
        ),
        setting="",
        suggested=then,
        snippet=f"systemctl{manager} set-property {unit} ManagedOOMMemoryPressureLimit={then}%",
        derivation=say("{found} were found, rounded up = {then}%", found=f"{found:.2%}", then=then),
        cost=say("it may stall for longer before something is killed"),
    )


def _visible_gpus(crash: Crash) -> Proposal | Skip:
    """Whether Ray sees all GPUs of the node; where it sees enough of them, who holds them."""
    masks, asked, request = crash.setting("CUDA_VISIBLE_DEVICES"), asked_gpus(crash), request_of(crash)
    look = 'echo "$CUDA_VISIBLE_DEVICES"; ' + commands.CARDS + "; ray status"
    if request is not None and request.state == RESERVED:
        action = say("Look why the worker does not start: the end of its log")
        return Proposal(action=action, snippet=_WORKERS_ON_WINDOWS if is_on_windows(crash) else _WORKERS)
    if of_all_pools(request):
        return Proposal(
            action=say(
                "If other nodes should be there, connect the driver to their cluster: alone it counts its own node"
            ),
            setting="address",
            snippet='ray.init(address="auto")   # or: export RAY_ADDRESS=auto',
        )
    if masks is not None:
        action = say(
            "Match CUDA_VISIBLE_DEVICES ({value} at {place}), Ray's --num-gpus and the node's GPUs",
            value=masks.value,
            place=masks.place,
        )
        return Proposal(action=action, snippet=look)
    if asked is not None and asked.gpus > cluster(crash, request_of(crash)).get("GPU", asked.gpus):
        return Proposal(action=say("Match CUDA_VISIBLE_DEVICES, Ray's --num-gpus and the node's GPUs"), snippet=look)
    if request is not None and (request.idle or request.within is not None):
        return Skip()  # nobody holds anything, or the group's own actors do
    if request is not None and request.state in FOR_NO_NODE and "GPU" not in (request.requested or {"GPU": 0}):
        action = say("Compare what Ray counts on each node with what the node has (--num-cpus)")
        return Proposal(action=action, snippet=f"nproc; {states.scheduled(crash)}")
    if request is not None and request.state in FOR_NO_NODE:
        action = say("Compare what Ray counts on each node with what the node has (CUDA_VISIBLE_DEVICES, --num-gpus)")
        return Proposal(action=action, snippet=look)
    if isinstance(crash.root, Shortage | GpuVisibility) or crash.shows(LOCAL_RAY):
        action = say("Compare the GPUs that the process sees with those of its node")
        return Proposal(action=action, snippet='echo "$CUDA_VISIBLE_DEVICES"; ' + commands.CARDS)
    action = say("See which tasks and actors hold the cluster's CPUs and GPUs")
    return Proposal(action=action, snippet=states.of_each_actor(crash))
