"""What takes a card beside PyTorch's allocator: a framework that reserves it in advance, libraries, the context; and
refusals of what is free."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.cuda_warning import AllocatorPressure
from oomdoctor.families.gpu_library import LibraryOutOfMemory, LibraryTrouble
from oomdoctor.families.jax_tf import AllocationProbe
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.families.vllm_cascade import WORKER_DIED, EngineFailed
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, commands, sign
from oomdoctor.signs.trace import card, refusal, stepped
from oomdoctor.units import GIB, MIB, percent, show

LEAST: Final = 0.70  # of a card: JAX takes three quarters of it
MOST: Final = 0.99  # ... and TensorFlow nearly all
ROUNDING: Final = 0.05  # of a card: what the context and the figures' digits make of three quarters
ORDINARY: Final = 3 * GIB // 2  # context, NCCL and cuBLAS of an ordinary job
SUSPICIOUS: Final = 3 * GIB  # ... and twice as much
SHARE: Final = 0.10  # of the card: a large one has a large context
VERY: Final = 2 * SHARE
MANY_TIMES: Final = 8  # of what was asked for: no other process takes as much between the refusal and the print
PLENTY: Final = 0.10  # of the card free: no rounding or late print explains it
NARROW: Final = 0.02  # of the request: the printed digits, whole segments and the driver's pages explain it
_LOADS_A_PROGRAM = late(
    r"(?i)\bload(?:ing)? (?:the )?(?:in-memory )?(?:CUBIN|PTX|module)\b|cuModuleLoad"
)  # XLA's driver
CRUMBS: Final = 128 * MIB  # whole segments of 2 and 20 MiB and what the driver keeps for itself
NOTICED: Final = 0.05  # of the card free: with less, the card is full to anybody who looks at it

# What a simulator on the GPU lays out for its environments and their contacts
OF_A_SIMULATOR: Final = ("fewer-environments", "resize-sim-buffers", "free-the-gpu", "smaller-microbatch")
# Three quarters of the GPU are JAX's before a library asks: docs/gpu_memory_allocation.rst
_BESIDE_JAX: Final = ("cap-preallocation", "free-the-gpu", "smaller-microbatch", "fix-environment")
TAKERS: Final = ("jax", "tensorflow")
# Libraries that allocate for themselves; RMM, CuPy and bitsandbytes are the program's own allocators.
_BESIDE: Final = frozenset(
    ("cuBLAS", "cuDNN", "cuSOLVER", "cuSPARSE", "cuFFT", "cuRAND", "hipBLAS", "NCCL", "RCCL", "CUDA graphs", "PhysX")
)
_START_OF_PHYSX: Final = late(r"\+\+\+ Using GPU PhysX\b")
# NVIDIA/warp: warp/native/error.cpp and warp.cu
_OF_WARP: Final = late(r"\bWarp CUDA error\b|\bwp_alloc_device")
_RESERVES: Final = "XLA_PYTHON_CLIENT_PREALLOCATE"
_OFF: Final = (False, 0, "false", "False", "0")
_TENSORFLOWS_HANDLE: Final = late(
    r"(?:tensorflow/|external/local_xla/).{0,40}stream_executor/.{0,80}\bcreate \w{4,8} handle"
)
_HANDLES: Final = ("cuBLAS", "cuDNN", "cuSOLVER")
# After these every call on the GPU fails, an allocation among them.
_BROKEN: Final = r"illegal memory access|device-side assert|unspecified launch failure|misaligned address"
# src/include/alloc.h of NCCL prints this of whatever error the call returns.
_THE_CALL_ALONE: Final = late(r"Failed to (?:CUDA|HIP) (?:host alloc|calloc async|calloc|malloc) ")
_TEARDOWN: Final = "shutdown"  # a stage
_OUT_OF_MEMORY: Final = r"(?i)\bout of memory\b"
# aten/src/ATen/cuda/Exceptions.h of PyTorch prints the status and the call. After a failed assertion of a kernel, whose
# own lines go to stderr alone, making a library's handle is often the first call that waits: yuanweining/FusionDTA#3
_MAKES_A_HANDLE: Final = late(r"when calling `(?:cublas(?:Lt)?|cudnn|cusolverDn|cusparse)Create\b")
_EMBEDDED: Final = r"NvMap|Jetson|Orin\b|\bGB10\b|\btegra"
# python/rmm/rmm/rmm.py: without a size it is half of the GPU
_LAYS_OUT_A_POOL: Final = (
    r"\brmm(?:\.\w{1,20}){0,2}\.(?:reinitialize|PoolMemoryResource)\([^\n]{0,200}(?:pool_allocator=True|pool_size)"
)
_OF_THE_START: Final = late(r"\b(?:cuInit|hipInit|cuDeviceGetCount|nvmlInit(?:_v2)?)\b")
# "runtime/ipcUtils.cpp:48", "customAllReduceKernels.cu:12"
_OF_AN_EXCHANGE: Final = late(
    r"\b(\w{0,24}(?:(?i:ipc|nccl|rccl|nvshmem|all_?reduce)|[Cc]ommunicator)\w{0,24}\.(?:cpp|cu|cc|cuh|h))\b(?=[:\s\"',)]{0,3}\d)"
)
_BELOW_THE_ALLOCATOR: Final = ("driver", "runtime", "nvml")  # layers
_QUIRKS: Final = rf"\bWSL2?\b|{_EMBEDDED}"


@sign
def a_handle_found_the_card_taken(crash: Crash) -> Seen | None:
    """A library could not initialize, and a probe shows as much of the GPU taken as JAX or TensorFlow preallocate."""
    handle = crash.first(LibraryTrouble)
    if handle is None and not crash.mentions(r"Failed to create|Could not create"):
        return None
    for probe in crash.every(AllocationProbe):
        taken = 1 - probe.free_bytes / probe.total_bytes if probe.total_bytes and probe.free_bytes is not None else 0.0
        if LEAST <= taken <= MOST:
            words = say(
                "A library requested its own memory with {free} of {total} free. {taken} of the GPU was taken, "
                "as by JAX's default preallocation.",
                free=show(probe.free_bytes or 0),
                total=show(probe.total_bytes or 0),
                taken=percent(taken),
            )
            evidence = (probe, *([handle] if handle else []))
            # with nearly all of the GPU free, a cuDNN of another release fails in the same words: jax-ml/jax#21396
            doubt = say("a version mismatch gives the same message")
            return Seen(words=words, evidence=evidence, against=(doubt,), shows_memory=True, unsure=True)
    return None


@sign
def jax_or_tensorflow_beside_pytorch(crash: Crash) -> Seen | None:
    """PyTorch runs out of memory in a job that also runs JAX or TensorFlow, and as much as these preallocate is not
    PyTorch's."""
    event, it = refusal(crash), card(crash)
    taker = next((name for name in TAKERS if name in crash.context.frameworks), None)
    outside = it.non_torch_bytes or it.others_bytes or it.beyond_bytes
    share = it.share(outside)
    if event is None or taker is None or outside is None or share is None or not LEAST - ROUNDING <= share <= MOST:
        return None
    words = say(
        "{outside} of GPU memory ({share}) is not PyTorch's; {taker} runs in the same job.",
        outside=show(outside),
        share=percent(share),
        taker=taker,
    )
    return Seen(words=words, evidence=(event,))


@sign
def a_handle_fails_in_jax(crash: Crash) -> Seen | None:
    """A library could not initialize in a JAX program, whose pool is allocated before the libraries."""
    handle = crash.first(LibraryTrouble)
    if handle is None or handle is not crash.root or handle.library not in _HANDLES:
        return None
    if "jax" not in crash.context.frameworks and crash.in_trace(r"\bjax(?:lib)?/") is None:
        return None
    words = say(
        "{library} could not initialize in a JAX program. JAX preallocates three quarters of the GPU by "
        "default and leaves the rest to libraries and other processes.",
        library=handle.library,
    )
    against = (say("the log does not say how much was free"), say("a version mismatch gives the same message"))
    return Seen(words=words, evidence=(handle,), against=against)


@sign
def a_handle_of_a_single_process_was_refused(crash: Crash) -> Seen | None:
    """cuBLAS or cuDNN got no memory for its handle in a process without ranks and without an engine."""
    root = crash.root
    if not isinstance(root, LibraryOutOfMemory) or root.library not in _HANDLES:
        return None
    return None if crash.job.spread or crash.job.runs_engine else Seen(words="")


@sign
def a_program_found_no_room_to_be_loaded(crash: Crash) -> Seen | None:
    """The driver could not load a compiled program of JAX: not into its pool, but beside it."""
    root = crash.root
    if _LOADS_A_PROGRAM.search(root.at.text) is None or crash.job.world != "jax":
        return None
    words = say(
        "The driver had no memory to load a compiled program, which lies beside JAX's pool. JAX preallocates three "
        "quarters of the GPU by default and leaves the rest to libraries and other processes."
    )
    return Seen(words=words, evidence=(root,), against=(say("the log does not say how much was free"),))


@sign
def warp_was_refused_in_jax(crash: Crash) -> Seen | None:
    """The driver refused Warp's own pool, in a job that runs JAX and does not say that it reserves nothing."""
    root = crash.root
    if _OF_WARP.search(root.at.text) is None or root.pool != "gpu" or "jax" not in crash.context.frameworks:
        return None
    if _reserves_nothing(crash):
        return None
    words = say(
        "Warp allocates in a pool of its own, beside JAX's, and got no memory. JAX preallocates three quarters of the "
        "GPU by default and leaves the rest to Warp."
    )
    doubt = say("the log does not say how much was free")
    return Seen(words=words, evidence=(root,), against=(doubt,), stage="rollout" if stepped(crash) else None)


@sign
def a_handle_is_refused_in_tensorflow(crash: Crash) -> Seen | None:
    """TensorFlow could not create a library's handle for lack of memory. By default its pool takes nearly the whole
    GPU first (tf.config.experimental.set_memory_growth)."""
    root = crash.root
    if not isinstance(root, LibraryOutOfMemory) or root.library not in _HANDLES:
        return None
    if _TENSORFLOWS_HANDLE.search(root.at.text) is None:
        return None
    words = say(
        "{library} got no memory for its handle in TensorFlow, whose pool takes nearly the whole GPU before "
        "its libraries allocate.",
        library=root.library,
    )
    return Seen(words=words, evidence=(root,), against=(say("the log does not say how much was free"),))


@sign
def a_library_was_refused(crash: Crash) -> Seen | None:
    """A library with its own allocations, outside the framework, got no memory from the driver. Where its message names
    the call alone, or an error that leaves the GPU unusable stands beside it, another failure may be behind it."""
    root = crash.root
    if not isinstance(root, LibraryOutOfMemory) or root.library not in _BESIDE:
        return None
    refused = (
        say(
            "{library} requested {tried} from the driver and got none.",
            library=root.library,
            tried=show(root.tried_bytes),
        )
        if root.tried_bytes
        else say("{library} requested memory from the driver and got none.", library=root.library)
    )
    words = joined(
        (refused, say("It allocates outside the framework and cannot use what the framework's cache keeps."))
    )
    doubt, again = _another_failure(crash, root)
    if root.library != "PhysX":
        knobs = _BESIDE_JAX if _beside_jax(crash, root) else ()
        return Seen(words=words, evidence=(root,), against=doubt, unsure=bool(doubt), knobs=knobs, next_evidence=again)
    return Seen(
        words=joined((words, _of_which_start(crash))),
        evidence=(root,),
        against=doubt,
        unsure=True,  # PhysX prints no figure of the GPU: its own buffers may fill it, or others
        knobs=OF_A_SIMULATOR,
        next_evidence=(*again, commands.devices_now(crash)),
    )


def _beside_jax(crash: Crash, refused: LibraryOutOfMemory) -> bool:
    """Whether the library was refused beside JAX's pool, and nothing says that the pool reserves nothing."""
    return refused.library in _HANDLES and crash.job.world == "jax" and not _reserves_nothing(crash)


def _reserves_nothing(crash: Crash) -> bool:
    stated = crash.setting(_RESERVES)
    return stated is not None and stated.value in _OFF


def _of_which_start(crash: Crash) -> str:
    """How often Isaac Gym had started PhysX: each start of a simulation prints it, and each allocates its buffers."""
    starts = sum(_START_OF_PHYSX.search(line) is not None for line in crash.root.around.before)
    if starts <= 1:
        return ""
    return say("The log shows {count} starts of PhysX: what the earlier ones hold is on the GPU, too.", count=starts)


@sign
def nccl_was_refused(crash: Crash) -> Seen | None:
    """NCCL asked the driver for a buffer of its own, and not while a job is taken down."""
    root = crash.root
    refused = isinstance(root, LibraryOutOfMemory) and root.library == "NCCL" and crash.stage != _TEARDOWN
    return Seen(words="") if refused else None


def _another_failure(crash: Crash, root: LibraryOutOfMemory) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What else the refusal may come from, and the run that would tell."""
    if root.status and crash.mentions(_BROKEN) is not None:
        doubt = say("the log also prints a failure of the GPU's code, which alone makes later calls fail like this")
        return (doubt,), (commands.ONE_CALL_AT_A_TIME,)
    if _THE_CALL_ALONE.search(root.at.text) and crash.mentions(_OUT_OF_MEMORY) is None:
        doubt = say("the message names the call that failed and no reason; an earlier error gives the same message")
        return (doubt,), (commands.NCCL_IN_FULL,)
    if crash.stage == _TEARDOWN:
        return (_torn_down(crash, root),), (commands.FIRST_ERRORS,)
    if _MAKES_A_HANDLE.search(root.at.text) and crash.mentions(_OUT_OF_MEMORY) is None:
        doubt = say("an earlier failure of the GPU's code, such as an index out of range, gives the same message")
        return (doubt,), (commands.ONE_CALL_AT_A_TIME,)
    return (), ()


def _torn_down(crash: Crash, root: LibraryOutOfMemory) -> str:
    """A job that is taken down has ended or failed before; a worker that died meanwhile may have been the first."""
    died = (one.worker for one in crash.every(EngineFailed) if one.said == WORKER_DIED and one.worker)
    other = next((name for name in died if not _is_rank(name, root.process.rank)), None)
    if other is None:
        return say("it failed while the processes were shut down: what ended the job failed before and is not shown")
    return say(
        "it failed while the processes were shut down: {worker} died unexpectedly, so read its lines first",
        worker=other,
    )


def _is_rank(worker: str, rank: int | None) -> bool:
    """Whether "VllmWorker-3" is the worker of this rank."""
    return rank is not None and worker.rpartition("-")[2] == str(rank)


@sign
def a_buffer_of_all_ranks_was_refused(crash: Crash) -> Seen | None:
    """The driver could not allocate a buffer of PyTorch's symmetric memory, which is outside the allocator."""
    root = crash.root
    if not isinstance(root, DeviceRefusal) or crash.in_trace(r"_symmetric_memory|symm_mem") is None:
        return None
    words = say(
        "The driver could not allocate a buffer that all ranks share. This buffer is outside the allocator's memory."
    )
    return Seen(words=words, evidence=(root,))


@sign
def a_library_failed(crash: Crash) -> Seen | None:
    """A library failed with a status that a full GPU gives, among other reasons."""
    root = crash.root
    if not isinstance(root, LibraryTrouble):
        return None
    words = say(
        "{library} failed ({status}). A full GPU is one of several reasons for this status.",
        library=root.library,
        status=root.status,
    )
    doubt = say("the message does not mention memory")
    again = (commands.on_the_devices(crash),)
    return Seen(words=words, evidence=(root,), against=(doubt,), shows_memory=True, unsure=True, next_evidence=again)


@sign
def a_library_failed_beside_a_pool(crash: Crash) -> Seen | None:
    """The same in a program that lays out a pool of RMM, of which libraries that allocate by themselves get nothing."""
    failed = a_library_failed(crash)
    if failed is None or not crash.shows(_LAYS_OUT_A_POOL):
        return None
    pool = say("The program gives RMM a pool of GPU memory at its start; libraries beside it get what is left.")
    return replace(failed, words=joined((failed.words, pool)))


@sign
def an_ordinary_context(crash: Crash) -> Seen | None:
    """This process holds at most 1.5 GiB outside PyTorch."""
    it = card(crash)
    if it.non_torch_bytes is None or it.non_torch_bytes > ORDINARY or isinstance(crash.root, LibraryTrouble):
        return None
    if a_library_was_refused(crash) is not None:
        return None
    words = say(
        "{outside} of this process is outside PyTorch ({share} of the GPU): the CUDA context and the libraries "
        "usually take as much",
        outside=show(it.non_torch_bytes),
        share=percent(it.share(it.non_torch_bytes)),
    )
    return Seen(words=words)


@sign
def very_much_outside_pytorch(crash: Crash) -> Seen | None:
    """This process, not an engine's, holds at least 3 GiB and a fifth of the GPU outside PyTorch."""
    it = card(crash)
    return (
        _outside_pytorch(crash, it) if not crash.job.in_engine and (it.share(it.non_torch_bytes) or 0) >= VERY else None
    )


@sign
def much_outside_pytorch(crash: Crash) -> Seen | None:
    """This process, not an engine's, holds at least 3 GiB and a tenth of the GPU outside PyTorch."""
    return None if crash.job.in_engine else _outside_pytorch(crash, card(crash))


@sign
def much_outside_pytorch_in_an_engine(crash: Crash) -> Seen | None:
    """An engine's process, with its graphs and communicators, holds at least 3 GiB and a tenth of the GPU outside
    PyTorch."""
    return _outside_pytorch(crash, card(crash))


@sign
def less_was_free(crash: Crash) -> Seen | None:
    """Less was free than requested."""
    it = _card_with_free(crash)
    if it is None or (it.free_bytes or 0) >= (it.tried_bytes or 0):
        return None
    return Seen(words=say("{free} was free and {tried} requested", **_figures(it)))


@sign
def a_limit_of_the_process(crash: Crash) -> Seen | None:
    """The message says how much of the GPU the process may use."""
    it = _card_with_free(crash)
    if it is None or it.allowed_bytes is None:
        return None
    words = say(
        "{free} was free and {tried} requested, but the process may use only {allowed}",
        allowed=show(it.allowed_bytes),
        **_figures(it),
    )
    return Seen(words=words)


@sign
def plenty_was_free(crash: Crash) -> Seen | None:
    """A tenth of the GPU was free, and at least 2% more than requested."""
    it = _card_with_free(crash)
    if it is None or (it.share(it.free_bytes) or 0) < PLENTY:
        return None
    return _not_full(crash, it) if not _narrow(it) else None


def _narrow(it: Card) -> bool:
    """Whether what was free is what was requested, but for the rounding of both."""
    return (it.free_bytes or 0) - (it.tried_bytes or 0) < NARROW * (it.tried_bytes or 0)


@sign
def twice_as_much_was_free(crash: Crash) -> Seen | None:
    """At least 1 GiB was free, a twentieth of the GPU, and twice the requested size."""
    it = _card_with_free(crash)
    if it is None or _is_nearly_full(it) or (it.free_bytes or 0) < max(2 * (it.tried_bytes or 0), GIB):
        return None
    return _not_full(crash, it, _read_later())


@sign
def enough_was_free(crash: Crash) -> Seen | None:
    """A twentieth of the GPU was free, and at least 2% more than requested: the figure is of after the failure, when
    others may have freed some."""
    it = _card_with_free(crash)
    if it is None or _narrow(it) or _is_nearly_full(it) or (it.free_bytes or 0) < CRUMBS:
        return None
    return _not_full(crash, it, _read_later())


def _is_nearly_full(it: Card) -> bool:
    share = it.share(it.free_bytes)
    return share is not None and share < NOTICED


@sign
def buffers_between_cards_were_refused(crash: Crash) -> Seen | None:
    """The source file that failed lays out the buffers through which GPUs exchange data."""
    root = crash.root
    file = _OF_AN_EXCHANGE.search(root.at.text)
    if root.pool != "gpu" or file is None or root.figures("usage"):
        return None
    words = say("The failed allocation was for buffers through which GPUs exchange data ({file}).", file=file[1])
    return Seen(words=words, evidence=(root,), stage="engine_init" if crash.stage == "unknown" else None)


@sign
def refused_at_the_drivers_start(crash: Crash) -> Seen | None:
    """The driver refused its own initialization, before anything could be allocated."""
    root = crash.root
    call = _OF_THE_START.search(root.at.text) if root.pool == "gpu" else None
    if call is None:
        return None
    words = say(
        "The driver refused at its initialization ({call}), before the program had allocated anything.", call=call[0]
    )
    return Seen(words=words, evidence=(root,), stage="launch" if crash.stage == "unknown" else None)


@sign
def far_more_was_free_for_a_library(crash: Crash) -> Seen | None:
    """A library or an unknown program says that many times the requested size was free."""
    root = crash.root
    if not isinstance(root, LibraryOutOfMemory | Shortage) or root.pool != "gpu":
        return None
    free, tried = root.free_bytes or 0, root.tried_bytes
    if tried is None or free < max(MANY_TIMES * tried, GIB):
        return None
    words = say(
        "A {tried} allocation failed with {free} free: the GPU was not full.", free=show(free), tried=show(tried)
    )
    return Seen(words=words, evidence=(root,), against=(_read_later(),))


@sign
def the_driver_of_an_embedded_gpu_had_no_room(crash: Crash) -> Seen | None:
    """NvMap says ENOMEM with the size, and no message prints figures. L4T 36.4.7 caps what it gives a process:
    ggml-org/llama.cpp#23732; PyTorch's report needs NVML, which is not there: pytorch/pytorch#185240."""
    refused = of_nvmap(crash)
    if refused is None or not _is_bare(crash):
        return None
    words = say(
        "NvMap, the driver's allocator of an embedded GPU (Jetson), could not allocate {tried} of the RAM that CPU and "
        "GPU share (error 12). That RAM is full or in pieces, or this release of the driver caps what a process gets.",
        tried=show(refused.tried_bytes or 0),
    )
    return Seen(words=words, evidence=(refused, crash.root), against=(_unsaid(),), next_evidence=(commands.FREE,))


def of_nvmap(crash: Crash) -> AllocatorPressure | None:
    """The last allocation that Tegra's driver had no memory for."""
    refused = (event for event in reversed(crash.every(AllocatorPressure)) if event.code is not None)
    return next(refused, None)


@sign
def a_platform_that_refuses_what_is_free(crash: Crash) -> Seen | None:
    """The log names a platform whose virtual-memory calls fail with memory free, and no message prints figures."""
    if not _is_bare(crash) or crash.mentions(_QUIRKS) is None:
        return None
    embedded = crash.mentions(_EMBEDDED) is not None
    words = (
        say(
            "The log names an embedded GPU, which shares the machine's RAM; there such allocations fail with memory "
            "free."
        )
        if embedded
        else say("The log names WSL, where such allocations fail with memory free.")
    )
    look = (commands.FREE,) if embedded else ()
    return Seen(words=words, evidence=(crash.root,), against=(_unsaid(),), next_evidence=look)


def _is_bare(crash: Crash) -> bool:
    """The driver or the runtime refuses, and no message prints figures."""
    root = crash.root
    return refusal(crash) is None and isinstance(root, DeviceRefusal) and root.layer in _BELOW_THE_ALLOCATOR


def _unsaid() -> str:
    return say("the log does not say how much was free")


def _outside_pytorch(crash: Crash, it: Card) -> Seen | None:
    event, outside, share = refusal(crash), it.non_torch_bytes, it.share(it.non_torch_bytes)
    if event is None or outside is None or outside < SUSPICIOUS or share is None or share < SHARE:
        return None
    words = say(
        "{outside} of this process is outside PyTorch ({share} of the GPU): more than a CUDA context and "
        "communicators take.",
        outside=show(outside),
        share=percent(share),
    )
    return Seen(words=words, evidence=(event,))


def _card_with_free(crash: Crash) -> Card | None:
    """The card's figures where the message says how much was free and asked for; Metal's is no card's."""
    event, it = refusal(crash), card(crash)
    if event is None or event.device == "MPS" or it.free_bytes is None or it.tried_bytes is None:
        return None
    return it


def _figures(it: Card) -> dict[str, str]:
    return {"free": show(it.free_bytes or 0), "tried": show(it.tried_bytes or 0)}


def _not_full(crash: Crash, it: Card, *against: str) -> Seen:
    event = refusal(crash)
    words = say(
        "A {tried} allocation failed with {free} free ({share} of the GPU): the GPU was not full. A memory pool, "
        "the driver or the platform rejected the allocation.",
        share=percent(it.share(it.free_bytes)),
        **_figures(it),
    )
    return Seen(words=words, evidence=(event,) if event is not None else (), against=against)


def _read_later() -> str:
    return say("the free memory was read after the failure, when others may have freed some")
