"""Which card a job's processes are on, and that several are on one by mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory, OtherProcess
from oomdoctor.families.event import Event
from oomdoctor.families.gpu_table import GpuTable
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import ON_THE_CARDS
from oomdoctor.signs.trace import card, innermost, refusal
from oomdoctor.text import sanitize
from oomdoctor.units import GIB, show

MUCH: Final = 0.25  # of the card in other hands: the other ranks' tensors are there already
ALIKE: Final = 0.15  # how far sizes of one job's ranks may differ
A_RANK: Final = GIB // 4  # less is a context
MOST_SHOWN: Final = 4
SOME: Final = 0.15  # of the card, in the hands of such a row: what idle ranks leave on it is less
SEVERAL: Final = 3  # processes of one size may be chance
STARTED_TOGETHER: Final = 8  # numbers between two that one launcher starts: shells and helpers take some

# torch.load without map_location puts every rank's tensors where they were saved: on card 0.
_RESTORING = r"restore_location|\b_cuda\b.{0,40}|_rebuild_\w+|load_tensor|persistent_load"
_RANKS = r"(?i)\b(?:local_)?rank\b|torchrun|torch[./]distributed|deepspeed|accelerate launch|world_size|nproc"
_LOADING = r"torch\.load\(|serialization\.py"
_FRAMES = 6
_LIST = 3  # lines
# ggml's list of devices, and the one that was current
_DEVICE: Final = late(r"\s{0,8}Device (\d{1,3}): ([^,\n]{2,80})")
_FAILED_ON: Final = late(r"\bcurrent device: (\d{1,3})\b")
# MPICH: "Abort(1) on node 3 (rank 3 in comm 0): application called MPI_Abort"; Open MPI: "MPI_ABORT was invoked on rank
# 0"; AMReX: "amrex::Abort::3::Out of gpu memory"
_ABORTED: Final = late(
    r"\(rank (\d{1,6}) in comm \d{1,6}\): application called MPI_Abort"
    r"|(?:MPI_ABORT was invoked on rank |amrex::Abort::)(\d{1,6})\b"
)
_CHARACTERS: Final = 400  # of a line
TWO: Final = 2  # ranks
MOST_RANKS: Final = 8  # shown
# What AMD, Intel and Qualcomm call what is on the processor's chip: a name without a model of a card
_INTEGRATED: Final = late(
    r"(?i)AMD Radeon(?:\(TM\))?(?: \d{3}M| Vega \d{1,2})? Graphics\b|\bVega \d{1,2} Graphics"
    r"|\bIntel\(R\) (?:U?HD|Iris)|\bAdreno\b"
)


@sign
def own_ranks_on_the_card(crash: Crash) -> Seen | None:
    """The message lists processes of 256 MiB or more that the log names as the job's own."""
    event = refusal(crash)
    if event is None:
        return None
    pids = {e.process.pid for e in crash.events if e.process.pid is not None} - {event.process.pid}
    own = [process for process in card(crash).others if process.pid in pids and (process.bytes or 0) >= A_RANK]
    if not own:
        return None
    words = say(
        "Processes of this job are on the GPU of the rank that ran out of memory (PID {pids}).",
        pids=", ".join(str(process.pid) for process in own),
    )
    also = [other for other in crash.every(DeviceOutOfMemory) if other is not event]
    return Seen(words=words, evidence=(event, *also[: MOST_SHOWN - 1]))


@sign
def numbers_beside_its_own(crash: Crash) -> Seen | None:
    """Other processes in the message are the job's own, by the log or by PIDs beside this one; an engine and a trainer
    may share a GPU on purpose."""
    return Seen(words="") if own_processes(crash) and not crash.job.runs_engine else None


@sign
def ranks_in_a_row(crash: Crash) -> Seen | None:
    """Three or more others of at least 256 MiB each, together 15% of the GPU, differ by at most 15% and have
    consecutive PIDs; two, where this process's PID is consecutive too."""
    found = next(((told, row) for told, others, total in _cards(crash) if (row := _row(others, total, crash))), None)
    if found is None:
        return None
    told, row = found
    words = say(
        "{count} other processes on this GPU have nearly the same size ({sizes}) and consecutive PIDs "
        "({pids}): one launcher started them as ranks of one job.",
        count=len(row),
        sizes=", ".join(show(process.bytes or 0) for process in row[:MOST_SHOWN]),
        pids=", ".join(str(process.pid) for process in row[:MOST_SHOWN]),
    )
    doubt = say("ranks of another job look the same")
    return Seen(words=words, evidence=(told, crash.root) if told is not crash.root else (told,), against=(doubt,))


@sign
def unsized_ranks_in_a_row(crash: Crash) -> Seen | None:
    """Three or more others have consecutive PIDs, and 0 bytes as the driver counts in a container; half of the GPU is
    neither free nor this process's."""
    event, it = refusal(crash), card(crash)
    row = _in_a_row([one for one in it.others if not one.bytes])
    if event is None or len(row) < SEVERAL or not it.total_bytes or (it.beyond_bytes or 0) < it.total_bytes // 2:
        return None
    words = say(
        "{count} other processes on this GPU have consecutive PIDs ({pids}): one launcher started them as ranks of one "
        "job. The driver does not say what each holds; {elsewhere} of {total} is neither free nor reserved by PyTorch "
        "in this process.",
        count=len(row), pids=", ".join(str(pid) for pid in row[:MOST_SHOWN]), elsewhere=show(it.beyond_bytes or 0),
        total=show(it.total_bytes),
    )  # fmt: skip
    doubt = say("ranks of another job look the same")
    return Seen(words=words, evidence=(event,), against=(doubt,))


@sign
def other_ranks_opened_a_context(crash: Crash) -> Seen | None:
    """Two or more others hold one and the same 300 to 700 MiB on the GPU of one of several ranks, and without them the
    request would have fit."""
    event, it = refusal(crash), card(crash)
    opened, sizes = it.contexts, [one.bytes or 0 for one in it.contexts]
    if event is None or not opened or not _names_ranks(crash):
        return None
    if it.tried_bytes is None or it.free_bytes is None or it.tried_bytes > it.free_bytes + sum(sizes):
        return None
    words = say(
        "{count} other processes hold {each} each on this GPU, {whole} together, as ranks do that opened a CUDA "
        "context here before their own GPU was set; {tried} were requested.",
        count=len(opened), each=show(sizes[0]), whole=show(sum(sizes)), tried=show(it.tried_bytes),
    )  # fmt: skip
    return Seen(words=words, evidence=(event,), against=(say("the next allocations may need more than they hold"),))


def _in_a_row(others: Sequence[OtherProcess]) -> list[int]:
    """The longest run of numbers that one launcher gives."""
    best: list[int] = []
    run: list[int] = []
    for pid in sorted(one.pid for one in others):
        run = [*run, pid] if run and pid - run[-1] <= STARTED_TOGETHER else [pid]
        best = max(best, run, key=len)
    return best


def _cards(crash: Crash) -> Iterator[tuple[Event, Sequence[OtherProcess], int | None]]:
    """Who tells of a card's processes: the message, or where it prints none, nvidia-smi of each card."""
    event = refusal(crash)
    if event is not None and event.others:
        yield event, event.others, event.total_bytes
        return
    for table in crash.every(GpuTable):
        for each in table.cards:
            on_it = [OtherProcess(pid=p.pid, bytes=p.used_bytes) for p in table.processes if p.gpu == each.gpu]
            yield table, on_it, each.total_bytes


def parent(crash: Crash) -> OtherProcess | None:
    """Who wrote the message, where it is listed there as another process: its child ran out of memory, and PyTorch
    names all but the process that asked (c10/cuda/CUDACachingAllocator.cpp, reportProcessMemoryInfo)."""
    event = refusal(crash)
    if event is None or event.process.pid is None:
        return None
    return next((one for one in card(crash).others if one.pid == event.process.pid), None)


def own_processes(crash: Crash) -> tuple[OtherProcess, ...]:
    """The others on the card that are this job's own: the log names them, or their numbers stand beside this process's
    own, as those do that one launcher starts."""
    event = refusal(crash)
    if event is None:
        return ()
    others = [one for one in card(crash).others if (one.bytes or 0) >= A_RANK]
    named = {e.process.pid for e in crash.events if e.process.pid is not None}
    mine = _own_number(event, others)
    beside = _beside(mine, others) if mine is not None else _of_a_rank(event, others)
    return tuple(one for one in others if one.pid in named or one in beside)


def _of_a_rank(event: DeviceOutOfMemory, others: Sequence[OtherProcess]) -> list[OtherProcess]:
    """Those of one size in a row of numbers, where a rank tells: PyTorch lists all on its card but itself."""
    return _longest_run(others, None) if event.process.rank is not None else []


def _own_number(event: DeviceOutOfMemory, others: Sequence[OtherProcess]) -> int | None:
    """The process that was refused: its number is printed, or it is the one of the list that its figures fit."""
    if event.process.pid is not None:
        return event.process.pid
    left = [one.pid for one in event.others if (one.bytes or 0) >= A_RANK and one not in others]
    return left[0] if len(left) == 1 else None


def _beside(mine: int, others: Sequence[OtherProcess]) -> list[OtherProcess]:
    """Those that are reached from this process's number in small steps, two of them or more: one may be chance."""
    found = _near([mine], others)
    return found if len(found) + 1 >= SEVERAL else []


def _near(numbers: Iterable[int], others: Sequence[OtherProcess]) -> list[OtherProcess]:
    """Those that are reached from these process numbers in small steps."""
    reached, found = set(numbers), list[OtherProcess]()
    for _ in others:
        more = [one for one in others if any(abs(one.pid - number) <= STARTED_TOGETHER for number in reached)]
        found = more
        reached |= {one.pid for one in more}
    return found


def ranks(crash: Crash) -> tuple[OtherProcess, ...]:
    """The others that one launcher started, whoever's it was: a row of one size, and what has numbers beside it."""
    for _, others, total in _cards(crash):
        if row := _row(others, total, crash):
            return tuple(_near((one.pid for one in row), [one for one in others if (one.bytes or 0) >= A_RANK]))
    return ()


def _row(others: Sequence[OtherProcess], total: int | None, crash: Crash) -> list[OtherProcess]:
    """The longest run of others that one launcher started, by their sizes and numbers, where it holds enough."""
    best = _longest_run(others, crash.root.process.pid)
    held = sum(process.bytes or 0 for process in best)
    return best if total and held >= SOME * total else []


def _longest_run(others: Sequence[OtherProcess], own: int | None) -> list[OtherProcess]:
    sized = sorted((one for one in others if (one.bytes or 0) >= A_RANK), key=lambda one: one.pid)
    best: list[OtherProcess] = []
    for first, one in enumerate(sized):
        run = [one]
        for other in sized[first + 1 :]:
            if other.pid - run[-1].pid <= STARTED_TOGETHER and _alike(one.bytes or 0, other.bytes or 0):
                run.append(other)
        beside = own is not None and any(abs(own - each.pid) <= STARTED_TOGETHER for each in run)
        if len(run) > len(best) and len(run) + beside >= SEVERAL:
            best = run
    return best


def _alike(one: int, other: int) -> bool:
    return abs(one - other) <= ALIKE * max(one, other)


@sign
def restored_beside_others(crash: Crash) -> Seen | None:
    """torch.load of one of several ranks failed, and other processes hold a quarter of the GPU. Of a program without
    ranks these may be anybody's."""
    it = card(crash)
    if not _names_ranks(crash) and not crash.job.spread:
        return None
    return _restored(crash) if (it.share(it.others_bytes or it.beyond_bytes) or 0) >= MUCH else None


@sign
def restored_by_a_rank(crash: Crash) -> Seen | None:
    """torch.load failed, and the message lists the processes on the GPU, or the log names ranks."""
    return _restored(crash) if _names_ranks(crash) or card(crash).others else None


@sign
def restored(crash: Crash) -> Seen | None:
    """torch.load failed; without figures the log does not show who holds the GPU."""
    return _restored(crash)


def _restored(crash: Crash) -> Seen | None:
    if not innermost(crash, _RESTORING, _FRAMES) or not crash.in_trace(_LOADING):
        return None
    words = say(
        "torch.load failed. It restores tensors to the GPU that they were saved from: if several ranks load the "
        "file, all of them load onto that one GPU."
    )
    ranks = _names_ranks(crash)
    alone = say("the log does not show several ranks; the others may be leftover processes")
    return Seen(
        words=words,
        evidence=(refusal(crash) or crash.root,),
        against=() if ranks else (alone,),
        unsure=not ranks,
        stage="checkpoint_load",
        next_evidence=() if ranks else (ON_THE_CARDS,),
    )


def _names_ranks(crash: Crash) -> bool:
    return crash.root.process.rank is not None or crash.mentions(_RANKS) is not None


@sign
def others_of_its_size(crash: Crash) -> Seen | None:
    """Two or more others of at least 256 MiB differ from each other and from this process by at most 15%."""
    event, it = refusal(crash), card(crash)
    sizes = [process.bytes or 0 for process in it.others]
    if event is None or len(sizes) < 2 or min(sizes) < A_RANK:
        return None
    mine = it.own_bytes or it.reserved_bytes
    reference = [*sizes, mine] if mine else sizes
    if max(reference) - min(reference) > ALIKE * max(reference):
        return None
    words = say(
        "{count} other processes of nearly the same size ({sizes}) are on this GPU, like ranks.",
        count=len(sizes),
        sizes=", ".join(show(size) for size in sizes[:MOST_SHOWN]),
    )
    return Seen(words=words, evidence=(event,), against=(say("the log does not mention their PIDs anywhere else"),))


@sign
def several_ranks_and_one_card(crash: Crash) -> Seen | None:
    """Two or more MPI ranks aborted around a refusal on a GPU, and a table of the machine shows one GPU."""
    table = next((table for table in crash.every(GpuTable) if len(table.cards) == 1), None)
    if table is None or crash.root.pool != "gpu":
        return None
    aborted = aborted_ranks(crash)
    if len(aborted) < TWO:
        return None
    words = say(
        "MPI ranks {ranks} aborted when the GPU had no memory, and the table shows one GPU: each rank allocates its "
        "own part on it.",
        ranks=", ".join(str(rank) for rank in aborted[:MOST_RANKS]),
    )
    doubt = say("ranks on other machines have GPUs that the table does not show")
    return Seen(words=words, evidence=(crash.root, table), against=(doubt,))


def aborted_ranks(crash: Crash) -> tuple[int, ...]:
    """The ranks of MPI that said that they abort, around the root."""
    around = crash.root.around
    lines = (line[:_CHARACTERS] for line in (*around.before, crash.root.at.text, *around.below))
    return tuple(sorted({int(match[1] or match[2]) for line in lines for match in _ABORTED.finditer(line)}))


@sign
def on_an_integrated_gpu(crash: Crash) -> Seen | None:
    """The device that refused is part of the processor, and the log lists a GPU of its own beside it."""
    told = _FAILED_ON.search(crash.root.at.text) or _FAILED_ON.search(" ".join(crash.root.around.below[:_LIST]))
    around = (*crash.root.around.before, crash.root.at.text, *crash.root.around.below)
    devices = {int(match[1]): match[2] for line in around if (match := _DEVICE.match(line))}
    failed = crash.root.process.gpu if told is None else int(told[1])
    if failed is None or _INTEGRATED.search(devices.get(failed, "")) is None:
        return None
    if all(_INTEGRATED.search(name) for name in devices.values()):
        return None
    words = say(
        "Device {number} ({name}) is part of the processor and shares its memory; the log lists another GPU beside it.",
        number=failed,
        name=sanitize(devices[failed].strip()),
    )
    return Seen(words=words, evidence=(crash.root,))


@sign
def process_on_several_cards(crash: Crash) -> Seen | None:
    """A table lists one process on several GPUs, and other processes on one of them: it has opened its neighbour's
    GPU."""
    found = intruder(crash)
    if found is None:
        return None
    table, pid, cards = found
    words = say(
        "Process {pid} has memory on {cards} GPUs, and other processes share one of them.", pid=pid, cards=cards
    )
    return Seen(words=words, evidence=(table, crash.root))


def intruder(crash: Crash) -> tuple[GpuTable, int, int] | None:
    """The table that lists such a process, its number, and on how many GPUs it is."""
    for table in crash.every(GpuTable):
        held = [process for process in table.processes if (process.used_bytes or 0) > 0]
        cards_of = Counter(process.pid for process in held)
        on_card = Counter(process.gpu for process in held)
        twice = next((p.pid for p in held if cards_of[p.pid] > 1 and on_card[p.gpu] > 1), None)
        if twice is not None:
            return table, twice, cards_of[twice]
    return None
