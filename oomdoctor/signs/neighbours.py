"""Others on the card: what they hold, what lists them, and what shows that it was full before this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from oomdoctor.families import gpu_table
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.driver_calls import A_CONTEXT, OPENS_A_CONTEXT
from oomdoctor.families.event import Event
from oomdoctor.families.gpu_table import CardProcess, GpuTable
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.families.sglang import UnbalancedCards
from oomdoctor.families.tensorrt_llm import CreationFailed
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.families.vllm_figures import WeightsLoaded
from oomdoctor.incident.card import OUTSIDE_PYTORCH, Card
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import is_after, is_of_another_day
from oomdoctor.job.frameworks import some
from oomdoctor.language import joined, listed, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import CARDS_NOW, WHOLE_LOG, on_the_devices
from oomdoctor.signs.placement import parent
from oomdoctor.signs.trace import MOVE, STRAW, asked, card, innermost, refusal, stepped
from oomdoctor.units import GIB, MIB, percent, show

A_DESKTOP: Final = 2 * GIB  # a display with its programs, or the driver's own reserve, takes so much of a card
BESIDE_WEIGHTS: Final = 2 * GIB  # a process with weights has a context and a library's buffers, too
SMALL_PROGRAM: Final = 256 * MIB  # of arguments, temporaries and outputs together
MUCH: Final = 0.25  # of the card, held by processes that the message lists
MOST: Final = 0.8  # of the card
_MANY_TIMES: Final = 100
HIDDEN: Final = 0.10  # of the card, held by processes that it cannot list
LITTLE: Final = 0.05  # of the card: contexts of processes that do nothing, a desktop
FULL: Final = 0.5  # of the card, in use behind the refusal
NAMED: Final = 4
TWO_DIGITS: Final = 10
LARGE_CARD: Final = 80 * GIB  # a quarter of it is much of any card
NO_CARD: Final = GIB  # no card that trains has less

# vllm/entrypoints/serve/sleep/api_router.py, and what the engine's client answers where the call failed
_ROUTE: Final = late(r"(?:https?://\S{1,200}|\b(?:POST|GET) )/wake_up\b|Call to wake_up method failed")
# A batch that goes to the card on its way into a model is there: "out = net(x.to(device))"
_HANDED_TO_A_MODEL: Final = (
    r"\b(?:\w{0,24}(?:model|net|module|encoder|decoder|backbone|policy|actor|critic|unet|vae|loss_fn)|criterion|forward)"
    r"\((?:[^()]{1,80}, ?)?\*{0,2}[\w.\[\]'\"]{1,60}\.(?:to|cuda|xpu|npu)\("
)
_FIRST_TOUCH: Final = (
    rf"{MOVE}|_lazy_init|set_device|cudart|torch\.(?:zeros|empty|ones|tensor|randn)\(|init_process_group"
    # a layer that is built, where tensors of the GPU are the default
    r"|torch/nn/(?:(?:modules/\w{1,40}|parameter)\.py (?:\w{1,40}\.)?(?:__init__|__new__|reset_parameters)|init\.py) "
)
# What works on a tensor that lies on the GPU: bitsandbytes/functional.py
_ON_THE_CARD: Final = r"\b(?:de)?quantize_(?:4bit|blockwise|no_absmax)\b"
# torch/random.py, torch/cuda/random.py, torch/cuda/__init__.py: they take no memory of their own, but open the context
_SEEDS: Final = r"torch/(?:cuda/)?random\.py (?:manual_)?seed(?:_all)? "
_OPENS: Final = r"torch/cuda/__init__\.py _lazy_init "
LINES_OF_A_CALL: Final = 2  # a check prints the place, then the call
_TRAINER: Final = "policy"  # a role
_CREATING: Final = frozenset({"launch", "model_load"})
# What a job's ranks do together before anything else
_MEETING: Final = r"\bbarrier\b|\bnew_group\b|\b_verify_param|\bmonitored_barrier\b"
# What to change where JAX's pool got nothing. In actors of Ray it is one of them that took three quarters of the GPU.
_IN_JAX: Final = ("free-the-gpu", "cap-preallocation", "fix-placement")
_OF_ACTORS_IN_JAX: Final = ("cap-preallocation", "fix-placement", "free-the-gpu")
_OF_AN_ACTOR: Final = r"\bray::\w{1,80}\.\w{1,80}\(\)"
_EMPTY_POOL: Final = "<allocator contains no memory>"  # xla/tsl/framework/bfc_allocator.cc, RenderOccupancy
_RIGHT_BELOW: Final = 8  # lines


class _Neighbours(Struct, frozen=True):
    """What is not this process's: how much, of which part of the card on it counts, and whose, a clause."""

    bytes: int
    share: float
    counts_from: float
    words: str
    listed: bool = True  # the message names or counts processes; else it is what remains
    assumed: bool = False  # a context's size is taken off


@sign
def asks_for_more_than_the_card(crash: Crash) -> Seen | None:
    """The request does not fit beside this process's own tensors even on an otherwise empty GPU."""
    it = card(crash)
    mine = it.allocated_bytes or 0
    if it.tried_bytes is None or not it.total_bytes or it.oversubscribed or it.tried_bytes + mine <= it.total_bytes:
        return None
    tried, total = show(it.tried_bytes), show(it.total_bytes)
    if not mine:
        return Seen(words=say("{tried} requested, more than the whole GPU has ({total})", tried=tried, total=total))
    words = say(
        "{tried} requested and {mine} held by this process are more than the whole GPU has ({total})",
        tried=tried,
        mine=show(mine),
        total=total,
    )
    return Seen(words=words)


@sign
def others_hold_little(crash: Crash) -> Seen | None:
    """Others hold less than 5 % of the GPU, and no table lists a process with more."""
    others = _neighbours(card(crash))
    if others is None or others.share >= LITTLE or a_table_lists_another(crash) is not None:
        return None
    return Seen(words=others.words[:1].lower() + others.words[1:])


@sign
def a_table_lists_another(crash: Crash) -> Seen | None:
    """nvidia-smi lists a process that the message does not, with at least 25 % of the GPU, and it fits beside this
    process's memory."""
    refused, it = refusal(crash), card(crash)
    if refused is None or not it.total_bytes:
        return None
    room = (it.used_bytes or 0) - (it.own_bytes or it.reserved_bytes or 0) + NO_CARD
    for table, process in _processes_beside(refused, crash):
        held = process.used_bytes or 0
        if MUCH * it.total_bytes <= held <= room:
            words = say(
                "{tool} lists a process (PID {pid}) that holds {held} of GPU memory, but the error "
                "message does not; {asked}.",
                tool=told_by(table),
                pid=process.pid,
                held=show(held),
                asked=asked(it),
            )
            doubt = say("the table was printed at another time")
            return Seen(words=words, evidence=(refused, table), against=(doubt,))
    return None


@sign
def others_hold_as_much(crash: Crash) -> Seen | None:
    """Others hold 25 % of the GPU (10 % if the driver does not list them), and as much as this process."""
    it = card(crash)
    others = _neighbours(it)
    mine = it.own_bytes or it.reserved_bytes or 0
    return _seen(crash, others) if others and others.share >= others.counts_from and others.bytes >= mine else None


@sign
def others_hold_very_much(crash: Crash) -> Seen | None:
    """Others hold 50 % of the GPU (20 % if the driver does not list them)."""
    others = _neighbours(card(crash))
    return _seen(crash, others) if others and others.share >= 2 * others.counts_from else None


@sign
def others_hold_much(crash: Crash) -> Seen | None:
    """Others hold 25 % of the GPU (10 % if the driver does not list them). If this process itself fills most of the
    GPU, they only took the rest."""
    it = card(crash)
    others = _neighbours(it)
    if others is None or others.share < others.counts_from or _is_a_desktop(it, others):
        return None
    return _seen(crash, others)


def _is_a_desktop(it: Card, others: _Neighbours) -> bool:
    """Whether what nobody lists is no more than a display takes, and this process fills the rest."""
    small = not others.listed and others.bytes < A_DESKTOP
    return small and (it.own_bytes or 0) >= MOST * (it.total_bytes or 0)


@sign
def others_hold_some(crash: Crash) -> Seen | None:
    """The message lists other processes, and 10 % of the GPU is not this process's."""
    it = card(crash)
    others = _neighbours(it)
    return _seen(crash, others) if others and it.others and others.share >= HIDDEN else None


@sign
def others_hold_hardly_any(crash: Crash) -> Seen | None:
    """The message lists other processes, whatever they hold."""
    it = card(crash)
    others = _neighbours(it)
    return _seen(crash, others) if others and it.others else None


@sign
def others_hold_many_times_what_was_missing(crash: Crash) -> Seen | None:
    """Others hold 25 % of the GPU, and a hundred times what the request was short of: what it was for is no matter of
    its size."""
    it = card(crash)
    others = _neighbours(it)
    if others is None or others.share < MUCH or it.tried_bytes is None or it.free_bytes is None:
        return None
    missing = it.tried_bytes - it.free_bytes
    if not 0 < _MANY_TIMES * missing <= others.bytes:
        return None
    words = say("only {missing} were missing, and others hold {held}", missing=show(missing), held=_figure_of(others))
    return Seen(words=words)


@sign
def figures_of_a_card_beside_an_engine(crash: Crash) -> Seen | None:
    """The job runs an inference engine, and the message prints figures of the GPU: its share can be made to fit."""
    return Seen(words="") if card(crash).total_bytes and crash.job.runs_engine else None


@sign
def cards_are_unequal(crash: Crash) -> Seen | None:
    """SGLang compares the GPUs of a group before it loads anything, and one of them has less free memory."""
    root = crash.root
    if not isinstance(root, UnbalancedCards):
        return None
    words = say("One GPU of the group had much less free memory than the others before the engine loaded anything.")
    if root.least_bytes is not None and root.own_bytes is not None:
        words = say(
            "One GPU of the group had {least} free and another one {own}, before the engine loaded anything.",
            least=show(root.least_bytes),
            own=show(root.own_bytes),
        )
    doubt = say("GPUs of different sizes, or a rank that began to load earlier, are unequal too")
    return Seen(words=words, evidence=(root,), against=(doubt,), unsure=True, next_evidence=(CARDS_NOW,))


@sign
def nothing_was_taken_at_the_start(crash: Crash) -> Seen | None:
    """Less than 5 % of the GPU was in use before the engine loaded anything."""
    start = _start(crash)
    if start is None or _share_in_use(*start[1:]) >= LITTLE:
        return None
    words = say("{taken} of {total} ({share}) was in use before the engine loaded anything", **_figures(*start[1:]))
    return Seen(words=words)


@sign
def a_process_of_the_log_was_there_first(crash: Crash) -> Seen | None:
    """Another process of the log goes on behind the refusal; what it loads is what was in use, but for a context."""
    start, root = _start(crash), crash.root
    if start is None:
        return None
    taken = start[2] - start[1]
    for each in crash.every(WeightsLoaded):
        held = each.weights_bytes or 0
        goes_on = each.at.file == root.at.file and each.at.line > root.at.line and _is_another_on_it(each, root)
        if goes_on and held >= MOST * taken and 0 <= taken - held <= BESIDE_WEIGHTS:
            words = say(
                "{taken} of {total} ({share}) was in use before the engine loaded anything: another process of this "
                "log loads {held} of weights, and a context takes the rest.",
                held=show(held),
                **_figures(*start[1:]),
            )
            return Seen(words=words, evidence=(start[0], each))
    return None


def _is_another_on_it(each: Event, root: Event) -> bool:
    """Who wrote a line is not who was refused, and nothing says that it has another GPU."""
    theirs, own = each.process, root.process
    same = theirs.pid == own.pid if theirs.pid is not None else theirs == own
    return not same and theirs.gpu in (None, own.gpu) and theirs.rank in (None, own.rank)


@sign
def much_was_taken_at_the_start(crash: Crash) -> Seen | None:
    """At least 25 % of the GPU was in use before the engine loaded anything."""
    return _at_the_start(crash, MUCH)


@sign
def some_was_taken_at_the_start(crash: Crash) -> Seen | None:
    """At least 10 % of the GPU was in use before the engine loaded anything."""
    return _at_the_start(crash, HIDDEN)


@sign
def little_was_taken_at_the_start(crash: Crash) -> Seen | None:
    """At least 5 % of the GPU was in use before the engine loaded anything."""
    return _at_the_start(crash, LITTLE)


@sign
def tensorflow_found_nearly_nothing_free(crash: Crash) -> Seen | None:
    """TensorFlow's limit is the memory that it found free at startup, and it is less than any GPU has."""
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory) or root.framework != "tensorflow" or root.limit_bytes is None:
        return None
    if root.limit_bytes >= NO_CARD:
        return None
    words = say(
        "TensorFlow may use {limit} in total, the memory that it found free at startup (or was told to use). "
        "The GPU was already full.",
        limit=show(root.limit_bytes),
    )
    return Seen(words=words, evidence=(root,), against=(say("the program may have set the limit itself"),))


@sign
def its_pool_got_nothing(crash: Crash) -> Seen | None:
    """XLA's pool, or TensorFlow's, had got nothing of the GPU when a small array was requested."""
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory) or root.pool != "gpu" or not 0 < (root.tried_bytes or 0) <= STRAW:
        return None
    if not any(_EMPTY_POOL in line for line in root.around.below[:_RIGHT_BELOW]):
        return None
    words = say(
        "The framework's pool had got no memory of the GPU when {tried} were requested: others hold it, or another "
        "process of this job reserved it first.",
        tried=show(root.tried_bytes or 0),
    )
    return Seen(words=words, evidence=(root,), knobs=_for_its_pool(crash))


def _for_its_pool(crash: Crash) -> tuple[str, ...]:
    if crash.job.world != "jax":
        return ()
    return _OF_ACTORS_IN_JAX if crash.shows(_OF_AN_ACTOR) else _IN_JAX


@sign
def what_tensorflow_counted_as_free_was_not(crash: Crash) -> Seen | None:
    """TensorFlow requested memory that it had counted as free, and the allocation failed."""
    root = crash.root
    if not isinstance(root, AllocationProbe) or not root.tried_bytes:
        return None
    words = say(
        "TensorFlow requested {tried}, which it had counted as free, and the allocation failed.",
        tried=show(root.tried_bytes),
    )
    return Seen(words=words, evidence=(root,), shows_memory=True)


@sign
def a_table_lists_another_that_holds_much(crash: Crash) -> Seen | None:
    """The message does not say how full the GPU was, and afterwards a table lists a process of others with a quarter of
    it."""
    refused, found = _without_total(crash), _listed(crash)
    if refused is None or found is None:
        return None
    table, processes = found
    words = say(
        "An allocation on the GPU failed, and {tool} lists what other processes hold: {processes}.",
        tool=told_by(table),
        processes=listed(
            say("PID {pid} {held}", pid=one.pid, held=show(one.used_bytes or 0)) for one in processes[:NAMED]
        ),
    )
    doubt = say("the process may belong to the same job")
    return Seen(words=words, evidence=(refused, table), against=(doubt,))


def listed_neighbour(crash: Crash) -> CardProcess | None:
    """The process that the last table lists, where a failure without figures leaves it to the table."""
    found = _listed(crash) if _without_total(crash) is not None else None
    return found[1][0] if found is not None else None


def _listed(crash: Crash) -> tuple[GpuTable, list[CardProcess]] | None:
    """The last table of after the failure that lists others of which one holds much, with all of them, the largest
    first. Before it, the one that failed is among them."""
    for table in (each for each in reversed(crash.every(GpuTable)) if is_after(each, crash.root)):
        strange = set(_others(crash, table))
        others = sorted((one for one in table.processes if one.pid in strange), key=lambda one: -(one.used_bytes or 0))
        if others and _is_much(others[0], table):
            return table, [one for one in others if one.used_bytes]
    return None


def _is_much(process: CardProcess, table: GpuTable) -> bool:
    """Of its card, or where the table does not say which one that is, of any card that trains."""
    sizes = [card.total_bytes for card in table.cards if card.total_bytes and process.gpu in (None, card.gpu)]
    return (process.used_bytes or 0) >= MUCH * max(sizes, default=LARGE_CARD)


def _without_total(crash: Crash) -> Event | None:
    """A refusal that prints neither what the card has nor what is free."""
    known = isinstance(crash.root, DeviceRefusal | DeviceOutOfMemory) and not card(crash).total_bytes
    return crash.root if known else None


@sign
def a_table_lists_others_without_figures(crash: Crash) -> Seen | None:
    """The message has no figures, and nvidia-smi lists processes that the log does not show to be the job's."""
    found = strangers(crash)
    if found is None:
        return None
    table, others = found
    words = say(
        "An allocation on the GPU failed, and the message has no figures. {tool} lists processes on the GPU (PID "
        "{pids}).",
        tool=told_by(table),
        pids=", ".join(str(pid) for pid in others[:NAMED]),
    )
    return Seen(words=words, evidence=(crash.root, table))


def strangers(crash: Crash) -> tuple[GpuTable, list[int]] | None:
    """Beside a failure without figures the first table that lists processes that are not the job's, with them."""
    if _without_figures(crash) is None:
        return None
    found = ((table, _others(crash, table)) for table in _tables(crash))
    return next(((table, others) for table, others in found if others), None)


@sign
def the_card_is_full_afterwards(crash: Crash) -> Seen | None:
    """After a failure without figures, half of a GPU is in use by processes that nvidia-smi cannot list, such as those
    of another container."""
    found = full_card(crash)
    if found is None:
        return None
    table, full = found
    words = say(
        "An allocation on the GPU failed, and the message has no figures. Afterwards, {tool} shows {used} of {total} "
        "in use by processes that it cannot list: another container's, or a dead one's leftovers.",
        tool=told_by(table),
        used=show(full.used_bytes or 0),
        total=show(full.total_bytes or 0),
    )
    doubt = say("the failed process may have been still alive, and hidden like the others")
    return Seen(words=words, evidence=(crash.root, table), against=(doubt,))


def full_card(crash: Crash) -> tuple[GpuTable, gpu_table.Card] | None:
    """The first card that is full behind a failure without figures, of processes that its table cannot list."""
    if _without_figures(crash) is None:
        return None
    behind = (each for each in crash.every(GpuTable) if each.processes_hidden and is_after(each, crash.root))
    return next(((table, each) for table in behind for each in table.cards if _is_full(each)), None)


def _is_full(it: gpu_table.Card) -> bool:
    return bool(it.used_bytes and it.total_bytes and it.used_bytes >= FULL * it.total_bytes)


@sign
def a_server_woke_to_less(crash: Crash) -> Seen | None:
    """A server's route woke an engine, whose memory was taken by then, and no trainer is in sight: nobody else of the
    job was to leave the GPU first. What the share is, the engine had before it slept."""
    refused = _without_figures(crash)
    if refused is None or crash.job.trains or not _ROUTE.search(refused.at.text):
        return None
    words = say("The engine had this memory before it slept. Another process held it when a request woke the engine.")
    doubt = say("the log does not show who holds the GPU")
    look = (on_the_devices(crash),)
    return Seen(words=words, evidence=(refused,), against=(doubt,), unsure=True, stage="serving", next_evidence=look)


@sign
def an_engine_woke_to_less(crash: Crash) -> Seen | None:
    """An allocation of vLLM's sleep-mode allocator failed, without figures, and not while the model was loading."""
    refused = _without_figures(crash)
    if refused is None or refused.layer != "cumem" or _loads_into_it(crash, refused):
        return None
    words = say("The engine's sleep-mode allocator requested memory that somebody else held by then.")
    return Seen(words=words, evidence=(refused,))


def _loads_into_it(crash: Crash, refused: DeviceRefusal) -> bool:
    """Whether vLLM's own loads a model: nothing has slept by then."""
    return crash.stage == "model_load" and (refused.source or "").startswith("cumem_allocator")


@sign
def refused_at_the_first_touch(crash: Crash) -> Seen | None:
    """The process failed, without figures, at its first use of the GPU: its context, a first tensor, moving the
    model."""
    opens = innermost(crash, _OPENS) or (not stepped(crash) and innermost(crash, _SEEDS))
    refused = _without_figures(crash) or (_bare(crash) if opens else None)
    if refused is None or (isinstance(refused, DeviceRefusal) and refused.layer == "nvml"):
        return None
    if not opens and (not innermost(crash, _FIRST_TOUCH) or innermost(crash, f"{_ON_THE_CARD}|{_HANDED_TO_A_MODEL}")):
        return None
    if crash.stage == "data_load":
        return None  # what is loaded before may lie on the GPU
    words = say("The allocation failed when this process first used the GPU: the GPU was already full.")
    return Seen(words=words, evidence=(refused,))


@sign
def no_context_could_be_created(crash: Crash) -> Seen | None:
    """The driver refused the process its context on the GPU, which it needs before it can allocate anything."""
    call = _refused_call(crash) if crash.pool == "gpu" else None
    if call is None:
        return None
    words = say(
        "The driver refused this process its context on the GPU ({call}), so others hold what it would need.",
        call=call,
    )
    return Seen(words=words, evidence=(crash.root,), stage="launch" if crash.stage == "unknown" else None)


def _refused_call(crash: Crash) -> str | None:
    """The call that would have opened the context, of the message or alone on a line right below it."""
    if (own := A_CONTEXT.search(crash.root.at.text)) is not None:
        return own[0]
    below = (OPENS_A_CONTEXT.match(line) for line in crash.root.around.below[:LINES_OF_A_CALL])
    return next((call[0].strip(" (") for call in below if call is not None), None)


@sign
def a_trainer_started_beside_a_sleeping_engine(crash: Crash) -> Seen | None:
    """A trainer's worker failed, without figures, while it was created: where its engine is put to sleep before, the
    engine's share is not what is held by then. nemo_rl/algorithms/grpo.py, `setup`; whose `finish_generation` prints an
    error, and goes on, where that fails."""
    refused = _without_figures(crash)
    if refused is None or crash.stage not in _CREATING:
        return None
    if refused.process.role != _TRAINER or refused.process.name is None:
        return None
    if crash.job.engine is None or not some(crash.context.frameworks, "sleeps before the trainer starts"):
        return None
    words = say(
        "{process} failed while it was created, in a call that prints no figures. By then the engine sleeps, as the "
        "framework is written, and its share does not explain it.",
        process=refused.process.name,
    )
    doubts = (say("the failed call is not shown"), say("no line shows that the engine went to sleep"))
    return Seen(words=words, evidence=(refused,), against=doubts, unsure=True, next_evidence=(WHOLE_LOG,))


@sign
def a_small_program_was_refused(crash: Crash) -> Seen | None:
    """XLA prints all the memory that a compiled program needs, and it is 256 MiB at most: the GPU was already full."""
    array = crash.root
    needed = array.needed_bytes if isinstance(array, ArrayOutOfMemory) else None
    if not needed or needed > SMALL_PROGRAM:
        return None
    words = say(
        "The whole program needs {needed}, but its allocation failed: the GPU was full before the program ran.",
        needed=show(needed),
    )
    doubt = say("the log does not show what this process had allocated before")
    return Seen(words=words, evidence=(array,), against=(doubt,))


@sign
def refused_when_the_ranks_met(crash: Crash) -> Seen | None:
    """An allocation failed, without figures, when the ranks first met, and the log shows no step before."""
    refused = _without_figures(crash)
    if refused is None or crash.stage not in ("launch", "unknown") or stepped(crash):
        return None
    if not innermost(crash, _MEETING, 2):
        return None
    words = say(
        "An allocation failed when the ranks first met, before any of them had computed. The GPU was already "
        "full, or several ranks opened the same GPU."
    )
    return Seen(words=words, evidence=(refused,))


def _neighbours(it: Card) -> _Neighbours | None:
    """Older messages do not split it; what is not PyTorch's in this process itself is taken off."""
    hidden, listed, total = it.unaccounted_bytes, it.others_bytes, it.total_bytes
    if not total:
        return None
    if hidden is not None and listed is not None and hidden > max(listed, LITTLE * total):
        return _of_unlisted(hidden + listed, total)
    if listed is not None:
        return _of_listed(listed, total, [process.pid for process in it.others])
    return _not_split(max(it.beyond_bytes - OUTSIDE_PYTORCH // 4, 0), total) if it.beyond_bytes is not None else None


def _of_unlisted(held: int, total: int) -> _Neighbours:
    words = say(
        "{held} of the GPU's {total} ({share}) belong to nothing that is listed here: other processes, a display "
        "or the driver",
        held=show(held),
        total=show(total),
        share=percent(held / total),
    )
    return _Neighbours(held, held / total, HIDDEN, words, listed=False)


def _of_listed(held: int, total: int, pids: list[int]) -> _Neighbours:
    figures = {"held": show(held), "total": show(total), "share": percent(held / total)}
    words = (
        say(
            "Other processes (PID {pids}) hold {held} of the GPU's {total} ({share})",
            pids=", ".join(map(str, pids[:3])),
            **figures,
        )
        if pids
        else say("Other processes hold {held} of the GPU's {total} ({share})", **figures)
    )
    return _Neighbours(held, held / total, MUCH, words)


def _not_split(held: int, total: int) -> _Neighbours:
    words = say(
        "Others hold about {held} of the GPU's {total} ({share}): what is not this process's PyTorch memory, less "
        "1 GiB for its driver context (assumed)",
        held=about(held),
        total=show(total),
        share=percent(held / total),
    )
    return _Neighbours(held, held / total, MUCH, words, assumed=True)


def _figure_of(others: _Neighbours) -> str:
    return about(others.bytes) if others.assumed else show(others.bytes)


def about(size: int) -> str:
    """A size that rests on an assumption, in two digits."""
    gib = size / GIB
    return f"{gib:.1f} GiB" if gib < TWO_DIGITS else f"{gib:.0f} GiB"


def held_by_nobody_listed(it: Card) -> int | None:
    """What the message leaves over where it lists no other process: a display or the driver may have it, too."""
    others = _neighbours(it)
    return others.bytes if others is not None and not others.listed and not it.others else None


def is_assumed(it: Card) -> bool:
    """Whether what others hold is what remains of an older message, less a guess of this process's own."""
    return it.others_bytes is None and it.unaccounted_bytes is None


def _seen(crash: Crash, others: _Neighbours) -> Seen:
    refused = [event for event in (refusal(crash),) if event is not None]
    it = card(crash)
    told = say("{held}; {asked}.", held=others.words, asked=asked(it))
    words = joined((told, _of_its_parent(crash), _more_was_free(it, others)))
    doubts = list(_doubts(it, others))
    return Seen(
        words=words,
        evidence=(*refused, *crash.every(GpuTable)[:1]),
        against=tuple(doubts),
        unsure=bool(doubts),
        next_evidence=(on_the_devices(crash),) if doubts else (),
    )


def _of_its_parent(crash: Crash) -> str:
    """Whose it is, where the process that wrote the message is the other one."""
    one = parent(crash)
    return say("PID {pid} is the parent process of the one that failed.", pid=one.pid) if one else ""


def _more_was_free(it: Card, others: _Neighbours) -> str:
    """How that fits together, where others hold much."""
    if others.bytes < A_DESKTOP or (it.free_bytes or 0) < (it.tried_bytes or 0) or not it.tried_bytes:
        return ""
    return say("As much was free as was requested: others may allocate and free memory at the same moment.")


def _doubts(it: Card, others: _Neighbours) -> Iterator[str]:
    """Whether what remains is another process's at all, and whether it was in the way."""
    if others.listed or others.bytes >= A_DESKTOP:
        return
    if it.free_bytes is not None and it.tried_bytes is not None and it.free_bytes >= it.tried_bytes:
        yield say("as much was free as was requested")
    yield say("no process is listed for this remainder; a display and the driver take as much")


def told_by(table: GpuTable) -> str:
    """The tool that printed the table."""
    return table.tool or "nvidia-smi"


def _processes_beside(refused: DeviceOutOfMemory, crash: Crash) -> Iterator[tuple[GpuTable, CardProcess]]:
    """The processes of its card that tables list and the message does not, the last table's first."""
    named = {refused.process.pid, *(process.pid for process in refused.others), *_own_pids(crash)}
    for table in reversed(_tables(crash)):
        for process in table.processes:
            on_it = process.gpu in (None, refused.process.gpu)  # a list names no GPU
            if on_it and process.pid not in named:
                yield table, process


def _start(crash: Crash) -> tuple[NotEnoughFree | CreationFailed, int, int] | None:
    """What was free before an engine loaded anything, of how much, where its refusal prints both."""
    root = crash.root
    if not isinstance(root, NotEnoughFree | CreationFailed) or not root.total_bytes:
        return None
    free = root.free_bytes if isinstance(root, NotEnoughFree) else root.start_bytes
    return (root, free, root.total_bytes) if free is not None else None


def _share_in_use(free: int, total: int) -> float:
    return 1 - free / total


def _at_the_start(crash: Crash, least: float) -> Seen | None:
    start = _start(crash)
    if start is None or _share_in_use(*start[1:]) < least:
        return None
    words = say("{taken} of {total} ({share}) was in use before the engine loaded anything.", **_figures(*start[1:]))
    return Seen(words=words, evidence=(start[0],))


def _figures(free: int, total: int) -> dict[str, str]:
    return {"taken": show(total - free), "total": show(total), "share": percent(_share_in_use(free, total))}


def _without_figures(crash: Crash) -> DeviceRefusal | None:
    """A refusal that prints nothing, where no other message prints the card's figures."""
    root = crash.root
    return root if isinstance(root, DeviceRefusal) and not card(crash).total_bytes else None


def _bare(crash: Crash) -> DeviceOutOfMemory | None:
    """PyTorch's own words of a refusal, and no figure with them."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or root.tried_bytes is not None or card(crash).total_bytes:
        return None
    return root


def _others(crash: Crash, table: GpuTable) -> list[int]:
    """The listed processes that the log does not show to be the job's own."""
    own = {crash.root.process.pid, *_own_pids(crash)}
    return [process.pid for process in table.processes if process.pid not in own]


def _tables(crash: Crash) -> list[GpuTable]:
    """All but those of another day."""
    return [table for table in crash.every(GpuTable) if not is_of_another_day(table, crash.root)]


def _own_pids(crash: Crash) -> set[int]:
    return {pid for pids in crash.context.processes.values() for pid in pids}


def held_by_others(it: Card) -> int | None:
    """What other processes hold of the card."""
    others = _neighbours(it)
    return others.bytes if others is not None else None
