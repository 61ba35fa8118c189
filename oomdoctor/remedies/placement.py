"""Whose the others on a card are, and how the job's launcher gives every process a card of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from oomdoctor.arithmetic import vllm
from oomdoctor.families.cuda import DeviceOutOfMemory, OtherProcess
from oomdoctor.families.gpu_table import GpuTable
from oomdoctor.families.jax_tf import AllocationProbe
from oomdoctor.families.sglang import UnbalancedCards
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.card import SLACK, Card, card_of
from oomdoctor.incident.devices import maker
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some
from oomdoctor.language import all_of, counted, listed, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import A_WORD, cells
from oomdoctor.remedies.own_line import of_a_library
from oomdoctor.remedies.proposal import RACE, Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import assumptions, spelling
from oomdoctor.signs.commands import on_the_devices
from oomdoctor.signs.engine import its_pool_was_refused
from oomdoctor.signs.engine_steps import weights_on_another_card
from oomdoctor.signs.library import (
    a_handle_of_a_single_process_was_refused,
    the_driver_of_an_embedded_gpu_had_no_room,
)
from oomdoctor.signs.loading import a_card_for_no_model
from oomdoctor.signs.machine import is_in_a_notebook
from oomdoctor.signs.neighbours import a_server_woke_to_less, nothing_was_taken_at_the_start
from oomdoctor.signs.placement import (
    other_ranks_opened_a_context,
    own_processes,
    parent,
    ranks,
    restored,
    several_ranks_and_one_card,
)
from oomdoctor.signs.trace import card
from oomdoctor.units import show

_SHOWN: Final = 2
# By which variable a process sees some of the devices: CUDA programming guide, environment variables; ROCm's docs, GPU
# isolation; torch_npu's documentation; Habana's docs; oneAPI Level Zero's programming guide
VISIBLE: Final[Mapping[str, str]] = {
    "NVIDIA": "CUDA_VISIBLE_DEVICES",
    "AMD": "HIP_VISIBLE_DEVICES",
    "NPU": "ASCEND_RT_VISIBLE_DEVICES",
    "HPU": "HABANA_VISIBLE_MODULES",
    "Intel": "ZE_AFFINITY_MASK",
}
NOBODY: Final = 0.02  # of the GPU: a context alone takes more
# An option of the launch line that names GPUs by their numbers: "--gpuIds 0 2", "--gpu_id=3", "--device-ids 1,2"
_CHOSEN: Final = late(
    r"(?i)(?<=\s)(--?(?:gpu|cuda)[-_]?(?:ids?|devices?|list|index)|--?device[-_]?ids?)[ =]"
    r"((?:\d{1,2}(?:[ ,]{1,2}(?=\d))?){1,16})(?=\s|$)"
)
_SHARED: Final = "gpu-shared"  # a cause
_BESIDE: Final = "non-torch-memory"
_PREALLOCATED: Final = "framework-preallocation"
_BY_JAX: Final = 0.75
_RAY: Final = "ray"
_LOADS: Final = "transformers"
_ENDED: Final = 8  # processes in one command


class Launcher(NamedTuple):
    """A row of `launchers.txt`."""

    name: str
    shows: str
    line: str


@cache
def launchers() -> tuple[Launcher, ...]:
    return tuple(Launcher(*row[:-1]) for row in cells.rows(Path(__file__).with_name("launchers.txt")))


def launcher(crash: Crash) -> Launcher | None:
    """What started the job's processes, as the traceback, the settings or the lines around it show."""
    for each in launchers():
        if crash.shows(each.shows):
            return each
        if any(re.search(each.shows, name) for name in crash.context.settings):
            return each
    return None


def own(crash: Crash) -> tuple[OtherProcess, ...]:
    """The others on the card that look like this job's ranks or workers."""
    return own_processes(crash) or ranks(crash)


def strangers(crash: Crash) -> dict[int, int | None]:
    """The others on the card whose owner the log does not show, with what they hold."""
    mine = {one.pid for one in own_processes(crash)}
    return {pid: size for pid, size in _others(crash) if pid not in mine}


def _others(crash: Crash) -> Iterator[tuple[int, int | None]]:
    for event in crash.every(DeviceOutOfMemory):
        yield from ((other.pid, other.bytes) for other in card_of(event).others)
    for table in crash.every(GpuTable):
        yield from ((process.pid, process.used_bytes) for process in table.processes)


def free_the_gpu(case: Case) -> Answer:
    pids = strangers(case.crash)
    if case.cause == RACE:
        return Skip()  # the neighbour has let go of it
    if case.cause == "device-misplacement" and own(case.crash):
        return Skip()
    if the_driver_of_an_embedded_gpu_had_no_room(case.crash) is not None:
        return _ram_of_both()
    if not pids and maker(case.crash) == "TPU":
        return Skip() if case.crash.job.runs_engine else _of_this_process()  # a server has no earlier run
    if not pids and woken_by_a_request(case.crash):
        return Proposal(
            action=say("Find out which process holds the GPU that the engine wakes up on"),
            snippet=on_the_devices(case.crash),
        )
    if not pids and its_pool_was_refused(case.crash) is not None:
        return Proposal(
            action=say("Let a trainer on this GPU free or offload its memory before the engine takes its own back"),
            snippet=on_the_devices(case.crash),
            cost="",
        )
    if not pids and (start := nothing_was_taken_at_the_start(case.crash)) is not None:
        return Refusal(start.words)
    if not pids:
        return _none_but_own(case)
    return Proposal(
        action=say("Find leftover processes of yours on the GPU and stop them: {processes}", processes=_named(pids)),
        snippet=_look_and_end(list(pids)[:_ENDED]),
        assumes=(say("these PIDs are valid here (in a container they may be the host's)"),),
    )


def _ram_of_both() -> Proposal:
    """The driver counts the page cache as used: ollama/ollama#12283."""
    return Proposal(
        action=say("Free RAM, which CPU and GPU share here: end other programs, and drop the page cache"),
        snippet="free -h; sudo sysctl vm.drop_caches=3",
        cost=say("files are read from the disk again"),
    )


def _of_this_process() -> Proposal:
    """libtpu lets one process at a time open a TPU and ends the next with "The TPU is already in use by process with
    pid": xla/tsl tpu_initializer_helper.cc. What is in use, the process that failed has put there."""
    return Proposal(
        action=say("Restart this process (in a notebook: the kernel) if it ran something before, and drop old arrays"),
        snippet="del old_arrays   # and every other reference to them",
        cost="",
    )


def _look_and_end(pids: Sequence[int]) -> str:
    """Nobody ends a process that he has not looked at."""
    look = f"ps -o pid,user,etime,args -p {','.join(map(str, pids))}"
    return f"{look}\n# kill {' '.join(map(str, pids))}"


def _none_but_own(case: Case) -> Answer:
    """Nobody is to be ended: they are this job's, and either on the wrong card or too many for one."""
    crash = case.crash
    mine = own_processes(crash)
    if not mine:
        refused = _alone(crash) or _overflows(crash) or _too_little(case) or _beside_jax(case)
        return refused or _of_a_cell(crash) or Proposal(snippet=on_the_devices(crash))
    if crash.job.spread or _only_its_parent(crash):
        return Skip()
    return Proposal(
        action=say(
            "Start fewer processes on this GPU; it holds {processes}, likely of this job",
            processes=_named({one.pid: one.bytes for one in mine}),
        ),
        snippet=_of_tests(crash) or f"ps -o pid,ppid,etime,args -p {','.join(str(one.pid) for one in mine[:_ENDED])}",
        cost=say("less parallelism"),
    )


def _of_tests(crash: Crash) -> str | None:
    """Tests that run side by side are pytest's own processes, each with a driver context and what its test holds."""
    runners = (name for name in crash.context.frameworks if some([name], "runs tests"))
    row = next((spelling("fewer-workers", crash.context, name) for name in runners), None)
    return row.snippet(1) if row is not None else None


def _only_its_parent(crash: Crash) -> bool:
    """The others are the process that started this one: they share a GPU by design, and neither is a rank too many."""
    started_by = parent(crash)
    return started_by is not None and own(crash) == (started_by,)


def may_be_of_a_cell(crash: Crash) -> bool:
    """A notebook's process keeps what earlier cells have put on the GPU, and no figure says how much it holds."""
    return crash.pool == "gpu" and is_in_a_notebook(crash) and card(crash).own_bytes is None


def _of_a_cell(crash: Crash) -> Proposal | None:
    if not may_be_of_a_cell(crash):
        return None
    return Proposal(
        action=say("Restart the notebook's kernel: an earlier cell may still hold the GPU; then look what else does"),
        snippet=on_the_devices(crash),
        cost=say("variables of all cells are lost"),
    )


def _alone(crash: Crash) -> Refusal | None:
    """The message's own figures leave nobody else on the GPU."""
    it = card(crash)
    beside = it.unaccounted_bytes
    if beside is None or it.own_bytes is None or it.total_bytes is None or it.others_bytes:
        return None
    if beside > NOBODY * it.total_bytes:
        return None
    return Refusal(
        say(
            "no other process: {own} of this process + {free} free = {total}",
            own=show(it.own_bytes), free=show(it.free_bytes or 0), total=show(it.own_bytes + (it.free_bytes or 0)),
        )
    )  # fmt: skip


def _overflows(crash: Crash) -> Refusal | None:
    """More than the GPU has: on Windows the driver goes on in the host's memory."""
    it = card(crash)
    if it.allocated_bytes is None or it.total_bytes is None or it.allocated_bytes <= it.total_bytes:
        return None
    return Refusal(
        say(
            "PyTorch's tensors of this process alone take {allocated}; the GPU has {total}",
            allocated=show(it.allocated_bytes), total=show(it.total_bytes),
        )
    )  # fmt: skip


def _beside_jax(case: Case) -> Refusal | None:
    """JAX preallocates three quarters of the GPU (docs/gpu_memory_allocation.rst): what it leaves for others is less
    than a process's driver context and a model."""
    probe = next((one for one in case.crash.every(AllocationProbe) if one.total_bytes), None)
    if case.cause != _PREALLOCATED or case.crash.job.world != "jax" or probe is None or probe.free_bytes is None:
        return None
    total = probe.total_bytes or 0
    taken = math.floor(_BY_JAX * total)
    left = total - taken - probe.free_bytes
    if not 0 <= left < SLACK:
        return None
    return Refusal(
        say(
            "{total} - {taken} (three quarters, JAX's default) - {free} free = {left} for all others",
            total=show(total), taken=show(taken), free=show(probe.free_bytes), left=show(left),
        )
    )  # fmt: skip


def _beyond(it: Card) -> int | None:
    """What is in use beyond PyTorch's part of the card; at most that where its cache is not printed."""
    if it.beyond_bytes is not None or it.total_bytes is None or it.free_bytes is None or it.allocated_bytes is None:
        return it.beyond_bytes
    most = it.total_bytes - it.free_bytes - it.allocated_bytes
    return most if most >= 0 else None


def _too_little(case: Case) -> Refusal | None:
    """What others can hold is less than what was missing: gone, it would not do."""
    it = card(case.crash)
    beyond = _beyond(it)
    if case.cause == _SHARED or beyond is None or it.tried_bytes is None or it.free_bytes is None:
        return None
    missing = it.tried_bytes - it.free_bytes
    beside = beyond if it.own_bytes is not None else beyond - SLACK
    if beside >= missing:
        return None
    amounts = {"tried": it.tried_bytes, "free": it.free_bytes, "missing": missing, "beyond": beyond}
    figures = {name: show(amount) for name, amount in amounts.items()}
    if it.own_bytes is not None or it.beyond_bytes is None:
        return Refusal(
            say(
                "{tried} requested - {free} free = {missing} missing; all others together hold at most {beyond}",
                **figures,
            )
        )
    return Refusal(
        say(
            "{tried} requested - {free} free = {missing} missing; others hold less: of the {beyond} that are not "
            "PyTorch's, about 1 GiB is this process's driver context (assumed)",
            **figures,
        )
    )


def _named(pids: Mapping[int, int | None]) -> str:
    """All of them in a few words: "PIDs 101553, 101552 and 13 others"."""
    shown, more = listed(str(pid) for pid in list(pids)[:_SHOWN]), len(pids) - _SHOWN
    told = counted(len(pids), mark("PID {pids}"), mark("PIDs {pids}"), pids=shown)
    if more > 0:
        told = counted(more, mark("{names} and {count} other"), mark("{names} and {count} others"), names=told)
    held = next(iter(pids.values()))
    return say("{names} ({amount})", names=told, amount=show(held)) if len(pids) == 1 and held else told


def start_in_sequence(case: Case) -> Answer:
    """Engines that share a GPU by sleeping take turns: vLLM's sleep_mode.md, "Serving"."""
    if case.cause == RACE:
        return _once_it_is_steady(case.crash)
    if not woken_by_a_request(case.crash):
        return None
    row = spelling("engine-sleep", case.crash.context, vllm.NAME)
    needs = (say("it was started with {option}", option=row.setting),) if row is not None else ()
    return Proposal(
        action=say("Put the other engine on this GPU to sleep before this one wakes up"),
        snippet="curl -X POST 'http://OTHER_ENGINE/sleep?level=1'",
        assumes=needs,
        cost=say("only one of them serves at a time"),
    )


def _once_it_is_steady(crash: Crash) -> Proposal:
    """Nothing is short: the same start goes well where nobody else takes or frees memory meanwhile."""
    watch = "nvidia-smi --query-gpu=timestamp,index,memory.used --format=csv -l 2" if maker(crash) == "NVIDIA" else None
    return Proposal(
        action=say(
            "Start the engine again once no other process on this GPU takes or frees memory: several engines one after "
            "another"
        ),
        snippet=watch or on_the_devices(crash),
    )


def woken_by_a_request(crash: Crash) -> bool:
    return a_server_woke_to_less(crash) is not None


def _not_the_processors_own(crash: Crash) -> Answer:
    """An integrated GPU is mostly the first of two, or the only one."""
    variable, index = VISIBLE.get(maker(crash)), crash.root.process.gpu or 0
    if variable is None:
        return Skip()
    return Proposal(
        action=say("Run on the machine's other GPU, if it has one: GPU {index} is too small for a model", index=index),
        setting=variable,
        suggested=0 if index else 1,
        snippet=f"export {variable}={0 if index else 1}",
        derivation=translated(A_WORD),
        assumes=(say("the machine has a second GPU (not in the log)"),),
    )


def fix_placement(case: Case) -> Answer:
    crash = case.crash
    if a_card_for_no_model(crash) is not None:
        return _not_the_processors_own(crash)
    masks = crash.setting("CUDA_VISIBLE_DEVICES")
    row = own(crash)
    if isinstance(crash.root, NotEnoughFree) and not row and not crash.job.spread:
        return Proposal(
            action=say("Start the engine on another GPU that is free (CUDA_VISIBLE_DEVICES)"),
            snippet="nvidia-smi --query-gpu=index,memory.free,memory.total --format=csv",
        )
    if _only_its_parent(crash):
        return Skip()
    if several_ranks_and_one_card(crash) is not None:
        return Proposal(action=say("Start as many MPI ranks as there are GPUs, each on its own: one here"), suggested=1)
    if isinstance(crash.root, UnbalancedCards):
        return _other_gpus(crash)
    if not row and (elsewhere := _on_other_gpus(case)) is not None:
        return elsewhere
    if not row and (of_actors := _a_gpu_for_each_actor(case)) is not None:
        return of_actors
    action = say("Give every rank its own GPU: set the device from LOCAL_RANK before the first CUDA call")
    if row:
        action = say(
            "Give every rank its own GPU before its first CUDA call; this one holds {processes}, likely of this job",
            processes=_named({one.pid: one.bytes for one in row}),
        )
    elif masks is not None:
        action = say(
            "Set each rank's GPU from LOCAL_RANK before the first CUDA call (CUDA_VISIBLE_DEVICES is "
            "{value} at {place})",
            value=masks.value,
            place=masks.place,
        )
    told = row or _has_ranks(crash) or restored(crash) is None
    assumes = () if told else (say("several ranks run, and their launcher sets LOCAL_RANK (neither is in the log)"),)
    return Proposal(action=action, snippet=_lines(case), assumes=assumes)


def _a_gpu_for_each_actor(case: Case) -> Answer:
    """JAX in actors of Ray has no ranks: which GPU an actor sees, and with whom, its request says."""
    started = launcher(case.crash) if case.crash.job.world == "jax" else None
    if started is None or started.name != _RAY:
        return None
    return Proposal(
        action=say("Request a whole GPU for each actor: with a part of one, several share it"),
        snippet=started.line,
    )


def _a_card_for_the_engine(case: Case) -> Answer:
    """A trainer hands its engine a GPU; one that a rank trains on is not the engine's to measure."""
    crash = case.crash
    if not crash.job.trains:
        return _another_gpu(crash)
    row = spelling(case.knob, crash.context)
    own = row if row is not None and not of_a_library(row) else None
    return Proposal(
        action=say("Give the engine a GPU that no rank trains on: start one process fewer than there are GPUs"),
        snippet=own.write if own is not None else None,
        setting="",
        assumes=assumptions(own, crash.context) if own is not None else (),
    )


def _on_other_gpus(case: Case) -> Answer:
    """Where no other rank of the job is seen on this one."""
    crash = case.crash
    if weights_on_another_card(crash) is not None:
        return _a_card_for_the_engine(case)
    full = case.cause == _SHARED or a_handle_found_no_room(case)
    if full and (free := _where_nobody_is(crash)) is not None:
        return free
    if crash.job.in_engine and crash.setting("CUDA_VISIBLE_DEVICES") is None and launcher(crash) is None:
        return Skip()  # an engine hands its own ranks their GPUs
    return None


def a_handle_found_no_room(case: Case) -> bool:
    """A single process of its own got no room for a library's handle, and no mask says that it runs elsewhere."""
    crash = case.crash
    if case.cause != _BESIDE or a_handle_of_a_single_process_was_refused(crash) is None:
        return False
    return launcher(crash) is None and crash.setting(*VISIBLE.values()) is None


def _where_nobody_is(crash: Crash) -> Answer:
    """Of a single process, and of ranks that are apart already."""
    if crash.setting("CUDA_VISIBLE_DEVICES") is None and not _has_ranks(crash):
        return _another_gpu(crash)
    full = _full_devices(crash)
    if not full:
        return None
    action = say("Start on GPUs that are free: each rank has one of its own already, and others use {gpus}", gpus=full)
    return _with_a_mask(crash, action, "N,M   # numbers of free ones")


def _full_devices(crash: Crash) -> str:
    """The GPUs of several ranks, each of which was refused memory on its own, by the machine's own numbers; empty
    where it is one."""
    numbers = sorted({e.process.gpu for e in crash.every(DeviceOutOfMemory) if e.process.gpu is not None})
    masks = crash.setting("CUDA_VISIBLE_DEVICES")
    seen = str(masks.value).split(",") if masks is not None else []
    if all(one.isdecimal() for one in seen) and len(seen) > max(numbers, default=0):
        numbers = [int(seen[number]) for number in numbers]
    return all_of([f"GPU {number}" for number in numbers]) if len(numbers) > 1 else ""


def _has_ranks(crash: Crash) -> bool:
    return crash.job.spread or launcher(crash) is not None


def _another_gpu(crash: Crash) -> Answer:
    """Of who is not alone on this one, and is a single process."""
    line = crash.mentions(_CHOSEN.pattern)
    chosen = _CHOSEN.search(line) if line is not None else None
    if chosen is not None:
        return _by_its_own_option(chosen[1], re.split(r"[ ,]+", chosen[2].strip()))
    return _with_a_mask(crash, say("Start this process on a free GPU, if the machine has one"), "N   # its number")


def _by_its_own_option(option: str, numbers: list[str]) -> Proposal:
    """A mask would leave it without the numbers that its launch line names."""
    return Proposal(
        action=say("Name free GPUs with {option}, which is {now} now", option=option, now=" ".join(numbers)),
        snippet=f"nvidia-smi -i {','.join(numbers)}   # on the host, if the job runs in a container",
        setting=option,
        current=" ".join(numbers),
    )


def _other_gpus(crash: Crash) -> Answer:
    """Of a group that splits a model: as many as it has ranks."""
    return _with_a_mask(
        crash, say("Start the group on GPUs that are all free, one number for each rank"), "N,N   # their numbers"
    )


def _with_a_mask(crash: Crash, action: str, numbers: str) -> Answer:
    variable = VISIBLE.get(maker(crash))
    return Proposal(action=action, snippet=f"export {variable}={numbers}", setting="") if variable else Skip()


def _lines(case: Case) -> str | None:
    """The device before the first call, and where Transformers loads the weights, theirs, too."""
    line, frameworks = _line(case), case.crash.context.frameworks
    row = spelling(case.knob, case.crash.context, _LOADS) if _LOADS in frameworks else None
    if line is None or row is None or other_ranks_opened_a_context(case.crash) is None:
        return line
    return f"{line}\n{row.write}"


def _line(case: Case) -> str | None:
    """As the arrays' library spells it, of PyTorch's as the launcher has it. Who starts the ranks in a way that the log
    does not show has no LOCAL_RANK in his shell."""
    crash = case.crash
    row = spelling(case.knob, crash.context, crash.job.world)
    started = launcher(crash) if crash.job.world in ("torch", "engine", "none") else None
    if started is not None:
        return started.line
    return row.write if row is not None else None
