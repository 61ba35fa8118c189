"""Memory failures of JAX, TensorFlow and Paddle: XLA's RESOURCE_EXHAUSTED, the BFC allocator, TPU programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any, Final

from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.array_dumps import AMOUNT, Chunks, ProgramBuffer, account, bytes_of
from oomdoctor.families.event import Event, Lookalike, Place, Process, Read, Role, Usage
from oomdoctor.families.gpu_lookalike import SAYS_NO_FAILURE
from oomdoctor.families.lines import PAGEABLE, goes_on, place_of, process_of
from oomdoctor.families.loudness import is_loud
from oomdoctor.language import mark
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Line, Page
from oomdoctor.units import MIB, show

# TensorFlow's names of types, and the bytes of one number
_WIDTHS: Final = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "complex64": 8, "complex128": 16, "bool": 1,
    "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
}  # fmt: skip

# Floating-point types by TensorFlow's names and by XLA's (xla/primitive_util.cc)
OF_16_BITS: Final = frozenset({"half", "bfloat16", "f16", "bf16"})
OF_32_BITS: Final = frozenset({"float", "double", "complex64", "complex128", "f32", "f64", "c64", "c128"})  # or more


class ArrayOutOfMemory(Event, frozen=True, kw_only=True):
    """JAX, TensorFlow or Paddle could not get memory for an array or a program."""

    family = "jax_tf"
    kind = "array-out-of-memory"

    pool: str = "gpu"  # "host_ram" where the allocator is the CPU's
    strength: int = 3

    framework: str  # jax, tensorflow, paddle
    tried_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    exceeded_bytes: Usage[int | None] = None
    # What the allocator states below it: its limit, what is in use, its largest request
    limit_bytes: Usage[int | None] = None
    in_use_bytes: Usage[int | None] = None
    max_in_use_bytes: Usage[int | None] = None
    largest_bytes: Usage[int | None] = None
    largest_free_bytes: Usage[int | None] = None
    # What a TPU's program consists of
    reserved_bytes: Usage[int | None] = None
    program_bytes: Usage[int | None] = None
    arguments_bytes: Usage[int | None] = None
    reservable_bytes: Usage[int | None] = None
    # XLA's account of a program: beside its arguments, what it works with and gives back, and the sum
    temporary_bytes: Usage[int | None] = None
    outputs_bytes: Usage[int | None] = None
    constants_bytes: Usage[int | None] = None
    fragmentation_bytes: Usage[int | None] = None
    needed_bytes: Usage[int | None] = None
    # TensorFlow's pool: what it has of the driver, and how much it may still take
    region_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None
    rounded_bytes: Usage[int | None] = None  # the pool hands out whole pieces
    shape: str | None = None
    dtype: str | None = None
    allocator: str | None = None
    device: str | None = None  # "cpu", "gpu", "tpu", where the message or the log says so
    op: str | None = None
    executable: str | None = None  # "jit_train_step"
    replica: int | None = None
    partition: int | None = None
    buffers: tuple[ProgramBuffer, ...] = ()  # the largest of a compiled program
    chunks: tuple[Chunks, ...] = ()  # what most of TensorFlow's pool is in use for

    @property
    def array_bytes(self) -> int | None:
        """What was asked for: as printed, or what an array of this shape and type takes."""
        lengths, width = self.lengths, _WIDTHS.get(self.dtype or "")
        if self.tried_bytes is not None or not lengths or width is None:
            return self.tried_bytes
        return prod(lengths) * width

    @property
    def array_words(self) -> str | None:
        """The same in words, with its formula where it is not printed."""
        if self.array_bytes is None:
            return None
        if self.tried_bytes is not None:
            return show(self.tried_bytes)
        lengths = " x ".join(str(length) for length in self.lengths)
        return f"{lengths} numbers of {_WIDTHS[self.dtype or '']} bytes = {show(self.array_bytes)}"

    @property
    def usual_bytes(self) -> int | None:
        """The same where the type is cut off: numbers of TensorFlow are of 32 bits unless a program says otherwise."""
        if self.array_bytes is None and self.framework == "tensorflow" and self.lengths and self.dtype is None:
            return prod(self.lengths) * _WIDTHS["float"]
        return self.array_bytes

    @property
    def outputs_hold_most(self) -> bool:
        """What the program gives back takes half of what it needs, or more."""
        return bool(self.needed_bytes) and 2 * (self.outputs_bytes or 0) >= (self.needed_bytes or 0)

    @property
    def largest_buffer(self) -> ProgramBuffer | None:
        """The largest array of the program, where the program asked for more than that in one piece."""
        largest = max((one for one in self.buffers if one.shape), key=lambda one: one.bytes or 0, default=None)
        return largest if largest is not None and (largest.bytes or 0) < (self.tried_bytes or 0) else None

    @property
    def types(self) -> frozenset[str]:
        """Of what was refused, and of the largest arrays of the program."""
        largest = (one.shape.partition("[")[0] for one in self.buffers if one.shape)
        return frozenset((*largest, *((self.dtype,) if self.dtype else ())))

    @property
    def lengths(self) -> list[int]:
        return [int(length) for length in (self.shape or "").strip("[]").split(",") if length]


class AllocationProbe(Event, frozen=True, kw_only=True):
    """The card was fuller than expected: TensorFlow asks for less and less at its start, XLA reports the rest.

    A hint: TensorFlow goes on with what it gets.
    """

    family = "jax_tf"
    kind = "allocation-probe"

    pool: str = "gpu"
    strength: int = 1

    tried_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None


class ProgramTooLarge(Event, frozen=True, kw_only=True):
    """XLA's compiler could not get a program down to what the device has: a warning, and a failure to expect."""

    family = "jax_tf"
    kind = "program-too-large"

    role: Role = "context"
    pool: str = "gpu"
    strength: int = 1

    limit_bytes: Usage[int | None] = None
    needed_bytes: Usage[int | None] = None
    original_bytes: Usage[int | None] = None


_HBM = (
    rf"memory space hbm\. Used (?P<used>{AMOUNT}) of (?P<total>{AMOUNT}) hbm\."
    rf"(?: Exceeded hbm capacity by (?P<exceeded>{AMOUNT})\b)?"
)
_XLA = rf"(?i:resource.exhausted): Out of memory (?:while trying to allocate|allocating) (?P<tried>{AMOUNT})"
_RESERVE = (
    rf"Attempting to (?:reserve|allocate) (?P<tried>{AMOUNT}).{{0,60}}That was not possible"
    rf"(?:\. There are (?P<free>{AMOUNT}) free(?:, .{{1,40}} reserved, and (?P<reservable>{AMOUNT}) reservable)?)?"
)
_TENSOR = (
    r"OOM when allocating tensor (?:with|of) shape ?(?P<shape>\[[\d,]{0,200}\])(?: and type (?P<dtype>\w{1,20}))?"
    r"(?:.{0,200}? by allocator (?P<allocator>\w{1,60}))?"
)
# TensorFlow before 1.0 did not name the allocator, and Intel's extension does not.
_BFC = (
    r"(?:Allocator(?: \((?P<allocator>\w{1,60})\))? ran|bfc_allocator\.cc:\d{1,5}\] Ran) out of memory trying to "
    rf"allocate (?P<tried>{AMOUNT})"
)
_PADDLE = (
    rf"Out of memory error on GPU \d{{1,3}}\. Cannot allocate (?P<tried>{AMOUNT}) memory on GPU \d{{1,3}}"
    rf"(?:, (?:(?P<used>{AMOUNT}) memory has been allocated and )?available memory is only (?P<free>{AMOUNT}))?"
)
_PADDLES_LIMIT = late(r"maximum GPU memory usage is limited to (\d{1,9}) MB")
_PADDLES_LINES: Final = 12
_FAILURES = tuple(
    (framework, late(pattern))
    for framework, pattern in (
        ("jax", _HBM),
        ("jax", _RESERVE),
        ("jax", _XLA),
        ("jax", rf"Failed to allocate request for [\d.]{{1,20}}\w{{1,3}} \((?P<tried>{AMOUNT})\) on device ordinal"),
        ("jax", rf"cuMemAllocAsync failed to allocate (?P<tried>{AMOUNT})"),
        ("tensorflow", _TENSOR),
        ("tensorflow", _BFC),
        ("paddle", _PADDLE),
        ("tensorflow", r"Failed copying input tensor from .{0,200}GPU:\d{1,3} .{0,80}Dst tensor is not initialized"),
        ("tensorflow", r"Failed to allocate memory for the (?P<batch>batch) of component \d"),
        ("tensorflow", rf"failed to alloc (?P<tried>{AMOUNT}) on (?P<pinned>host)"),
        ("tensorflow", r"could not allocate (?P<pinned>pinned) host memory of size: (?P<tried>\d{1,20})"),
    )
)
# One of these at the end of a paste, by the file that writes it
_CUT_PROBE = late(rf"failed to allocate [\d.]{{1,20}}\w{{1,3}} \((?P<tried>{AMOUNT})\)\s{{0,4}}$")
_DRIVERS: Final = ("cuda_driver.cc", "rocm_driver.cc")
_PROBES = (
    late(
        rf"failed to allocate [\d.]{{1,20}}\w{{1,3}} \((?P<tried>{AMOUNT})\) from device: "
        r"(?:CUDA_ERROR_OUT|hipError|HIP_ERROR_OutOfMemory)"
    ),
    late(rf"Memory usage: (?P<free>{AMOUNT}) free, (?P<total>{AMOUNT}) total"),
)
# The two up to 1.2, and since
_FOUND = late(rf"\b(Total memory|Free memory|totalMemory|freeMemory): ({AMOUNT})")
_CREATED = late(r"Creat(?:ing|ed) TensorFlow device \(\S{0,80}(?:gpu|GPU):(\d{1,3})\b")
_RAN_OUT: Final = "ran out of memory trying to allocate"
_BROKEN: Final = 3  # lines
_HARMLESS = late(r"caller indicates that this is not a failure|memory space (?:vmem|smem)")
# What TensorFlow prints where it opens a library at the first operation that needs it, or tries algorithms
_COMPUTES = late(
    r"Successfully opened dynamic library|\bLoaded cu(?:DNN|BLAS)\b|caller indicates that this is not a fail"
)
_FAILS = late(
    r"(?:\d: |^)[EF](?:\d{4} | )|\b(?:\w{0,60}Error|\w{1,60}Exception|Killed|Abort\w{0,3}"
    r"|core dumped|OOM when|Traceback)\b"
)
# The last two: tensorflow/core/common_runtime/gpu/gpu_device.cc and stream_executor/cuda/cuda_driver.cc
ON_THE_CPU = late(
    r"CpuDevice\(|TFRT_CPU|Falling back to cpu\b|(?i:jax_platforms?(?:_name)?)\W{1,4}cpu\b"
    r"|Skipping registering GPU devices|failed call to cuInit: (?:CUDA_ERROR_NO_DEVICE|UNKNOWN ERROR \(303\))"
)
_CPU_CLIENT = late(r"\bJaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating \d{1,20} bytes\.")
# A message that ends before it says where the tensor was to be: "... on /job:.../device:CPU:0 by allocator cpu"
_DEVICE_CUT = late(r"OOM when allocating tensor with shape ?\[[\d,]{0,80}\](?: and type \w{0,20})?\s{0,4}$")
# tensorflow/core/framework of TensorFlow: who warns of large tensors in host memory, where no GPU is in sight
_OF_THE_CPU: Final = "cpu_allocator_impl.cc"
_OF_A_GPU = late(r"(?i)cuda|cudnn|cublas|gpu|nvidia|rocm|\btpu")
_ACCELERATOR = late(r"(?i)\b(?:cuda|gpu|tpu|rocm|nvidia|hbm)\w{0,20}\b")
# Up to 1.2 _device="/job:localhost/replica:0/task:0/cpu:0", since then ".../device:CPU:0"
_CPU_NODE = late(r'\b_device="[^"\n]{0,200}/(?:device:)?(?i:cpu):\d')
NODE_LINES: Final = 60
# What it goes on with where no pinned memory is to be had, behind its warnings
_PAGEABLE = late(
    rf"{PAGEABLE}|\b(?i:fall(?:ing|s)? ?back (?:to|on) (?:pageable|unpinned|non-pinned|regular|plain|system|malloc))\b"
)
_ITS_WARNINGS: Final = 4  # lines
_REMATERIALIZED = late(
    r"Can't reduce memory use below [\d.]{1,20}\w{1,3} \((?P<limit>\d{1,20}) bytes\) by rematerialization; "
    r"only reduced to [\d.]{1,20}\w{1,3} \((?P<needed>\d{1,20}) bytes\)"
    r"(?:, down from [\d.]{1,20}\w{1,3} \((?P<original>\d{1,20}) bytes\))?"
)
# What else the sentence says, whichever it is
_DETAILS = tuple(
    late(pattern)
    for pattern in (
        r"\(rounded to (?P<rounded>\d{1,20})\)",
        r"requested by op (?P<op>[\w./:-]{1,200})",
        r"executable_name='(?P<executable>[\w.<>-]{1,120})'",
        r"running replica (?P<replica>\d{1,6}) and partition (?P<partition>\d{1,6})",
    )
)
# "gpu_async_" and the device's number: xla/stream_executor/gpu/gpu_cudamallocasync_allocator.cc
_CARD = late(
    r"\bGPU_(\d{1,3})_bfc|/device:GPU:(\d{1,3})\b|on device ordinal (\d{1,3})\b|memory on GPU (\d{1,3})\b"
    r"|\bgpu_async_(\d{1,3})\b"
)
# libtpu: where the core is in the mesh, with its memory, and a program's place in it
TPU_CORE: Final = r"\b(?:\d{1,4}x){2}\d{1,4}_HBM\d"
TPU_WORDS: Final = rf"{TPU_CORE}|memory space (?:hbm|vmem|smem)\b|\bat the bottom of memory\b"
_OF_A_TPU = late(rf"{TPU_CORE}|\bat the bottom of memory\b")
# TensorFlow's own build names XLA's files "external/local_xla".
# XLA's sentence, wrapped before it names the size
_BROKEN_OFF = late(
    r"(?i:resource.exhausted): Out(?: of)?(?: memory)?(?: while trying)?(?: to)?(?: allocat(?:e|ing))?\s{0,4}$"
)
_OVER = late(r"\bUsed \S{1,30} of \S{1,30} hbm\.\s{0,4}$")
_OF_JAX = late(r"\bexternal/(?:xla|tsl|org_tensorflow)/")
# Whose graph a TPU's program was compiled from: operations of TensorFlow are written OfThatKind, JAX's of_that_kind;
# a device of a job; tensorflow/python/tpu/error_handling.py, for which TPUEstimator is
_OF_TENSORFLOW = late(r'\bop_type="[A-Z]|/job:\w{1,40}/(?:replica|task):\d|\bTPUEstimator\b|\berror_handling\.py:\d')
BELOW_LINES = 160
ABOVE_LINES = 60
# A pool's dump lists every chunk before it comes to the sum.
DUMP_LINES = 400
_HINT = "add report_tensor_allocations_upon_oom to RunOptions"
_TOLD = late(r"(?i)out of memory|\bOOM when alloc|exhausted|not enough memory|\bOOM\b(?! happens)")
_ARRAY = late(r"\b[a-z]\w{1,8}\[\d[\d,]{0,80}\]")
_DUMP_SUM = "Sum Total of in-use chunks:"
_DUMP_BIN = ", Chunk State:"  # of the size that was refused: tensorflow/core/framework/bfc_allocator.cc, DumpMemoryLog
_BIN = late(rf"\bBin for ({AMOUNT}) was ")
_DUMP_HEADS = ("Current allocation summary follows", "BFCAllocator dump for")
_TELLING = ("OOM when", "out of memory", "Out of memory", "ailed to alloc")
_DUMPED = late(r"\b(\w{0,40}bfc)\b")


# What XLA prints of the card below a library's failure
_CARD_USE: Final = late(r"Memory usage: (\d{1,15}) bytes free, (\d{1,15}) bytes total")
MOST: Final = 0.5  # of the card


def mostly_free(text: str) -> bool:
    """Whether the line prints that half of the card or more is free."""
    match = _CARD_USE.search(text)
    return match is not None and int(match[1]) >= MOST * int(match[2])


def _is_harmless_below(page: Page, index: int, text: str) -> bool:
    """The same in lines that somebody has broken."""
    if _RAN_OUT not in text or text.rstrip().endswith("."):
        return False
    return _HARMLESS.search(" ".join(line.text[:200].strip() for line in page.after(index, _BROKEN))) is not None


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    if _HARMLESS.search(text):
        return
    if _is_harmless_below(page, index, text):
        yield Lookalike(place_of(page, line), SAYS_NO_FAILURE)
        return
    place, process = place_of(page, line), process_of(line)
    if _HINT in text:
        yield from _hint_alone(page, index)
        return
    if _DUMP_SUM in text or (_of_a_refused_size(line) and not _sum_follows(page, index)):
        yield from _dump_alone(page, index, place, process)
        return
    if (probed := _probed(line, text)) is not None:
        yield _probe(page, index, _sizes(probed))
        return
    if match := _REMATERIALIZED.search(text):
        sizes: dict[str, Any] = {f"{name}_bytes": int(value) for name, value in match.groupdict().items() if value}
        yield ProgramTooLarge(at=place, time=line.mark.time, process=process, **sizes)
        return
    last = _last(page, index, text)
    if last is not line:
        text = f"{text.rstrip()} {last.text.lstrip()[:400]}"
    for framework, pattern in _FAILURES:
        if match := pattern.search(text):
            yield _failed(page, index, framework, match, last)
            return


def _last(page: Page, index: int, text: str) -> Line:
    """The line that the sentence ends on."""
    below = page.after(index, 2)[-1]
    told = _BROKEN_OFF.search(text) or (_OVER.search(text) and below.text.lstrip().startswith("Exceeded hbm"))
    return below if told else page.lines[index]


def _failed(page: Page, index: int, framework: str, match: re.Match[str], last: Line) -> Read:
    """The failure, or the warning that pageable memory will have to do."""
    line = page.lines[index]
    pinned = match.groupdict().get("pinned")
    if pinned and _does_without(page, index, line.text[:1200]):
        return Lookalike(place_of(page, line), mark("pageable memory works too; the program continued"))
    return _failure(page, index, _framework(page, index, framework, match), match, last)


def _does_without(page: Page, index: int, text: str) -> bool:
    """Whether pageable memory does it: a warning, one that the lines below take back, or progress behind it."""
    if not is_loud(page, index, text, sure=True, compared=True) or goes_on(page, index):
        return True
    return any(_PAGEABLE.search(line.text[:400]) for line in page.lines[index + 1 : index + 1 + _ITS_WARNINGS])


def _probed(line: Line, text: str) -> re.Match[str] | None:
    """The figures that a driver of TensorFlow's was refused or counted."""
    found = next((match for pattern in _PROBES if (match := pattern.search(text))), None)
    of_a_driver = (line.mark.source or "").partition(":")[0].endswith(_DRIVERS)
    return found or (_CUT_PROBE.search(text) if of_a_driver else None)


def _framework(page: Page, index: int, framework: str, match: re.Match[str]) -> str:
    """Whose words they are. Those of a TPU's compiler are XLA's own, whoever it compiled for."""
    line = page.lines[index]
    if _OF_JAX.search(line.raw[:400]):
        return "jax"
    if "memory space hbm" not in match[0] or "XlaRuntimeError" in line.raw:  # jaxlib's
        return framework
    texts = (*(one.raw[:1200] for one in page.before(index)), *_below(page, index, match[0]))
    return "tensorflow" if any(map(_OF_TENSORFLOW.search, texts)) else framework


def _probe(page: Page, index: int, sizes: dict[str, Any]) -> Read:
    line = page.lines[index]
    if mostly_free(line.text[:1200]):
        return Lookalike(place_of(page, line), mark("most of the GPU's memory is free, so memory is not short"))
    if "tried_bytes" in sizes and (goes_on(page, index) or _works(page, index)):
        why = mark("TensorFlow tries smaller and smaller sizes at its start and continues with what it gets")
        return Lookalike(place_of(page, line), why)
    found, gpu = _card_found(page, index)
    process = process_of(line) if gpu is None else replace(process_of(line), gpu=gpu)
    return AllocationProbe(at=place_of(page, line), time=line.mark.time, process=process, **{**found, **sizes})


def _works(page: Page, index: int) -> bool:
    """Whether TensorFlow computes behind it, and nothing there fails."""
    behind = [line.text[:400] for line in page.lines[index + 1 : index + 1 + BELOW_LINES]]
    return any(_COMPUTES.search(text) for text in behind) and not any(_FAILS.search(text) for text in behind)


def _card_found(page: Page, index: int) -> tuple[dict[str, Any], int | None]:
    """What TensorFlow 1.x said of the card when it found it: its memory, what of it was free, and its number."""
    found: dict[str, Any] = {}
    gpu = None
    for line in page.before(index, ABOVE_LINES):
        text = line.text[:400]
        for name, size in _FOUND.findall(text):
            found["total_bytes" if name[0] in "Tt" else "free_bytes"] = bytes_of(size)
        if device := _CREATED.search(text):
            gpu = int(device[1])
    return found, gpu


def _card_of_the_node(page: Page, index: int) -> re.Match[str] | None:
    """The card of the graph's node."""
    return _CARD.search(_node(page, index))


def _node(page: Page, index: int) -> str:
    """The graph's node, which TensorFlow 1.x prints on the line below."""
    below = page.after(index, 2)[-1].text
    return below[:4000] if below.lstrip().startswith("[[") else ""


def _is_of_the_cpu(page: Page, index: int, sentence: str) -> bool:
    """Whether the node whose tensor it was is placed on the CPU. The warning has none: the exception below repeats its
    sentence."""
    repeated = (at for at in range(index, min(index + NODE_LINES, len(page.lines))) if sentence in page.lines[at].text)
    node = next(filter(None, (_node(page, at) for at in repeated)), "")
    return _CPU_NODE.search(node) is not None


def _failure(page: Page, index: int, framework: str, match: re.Match[str], last: Line) -> ArrayOutOfMemory:
    line = page.lines[index]
    text = line.text[:1200]
    named = match.groupdict()
    allocator = named.get("allocator")
    on_cpu = _on_cpu(page, index, line.text) or (allocator is None and _is_of_the_cpu(page, index, match[0]))
    pool = "host_ram" if named.get("batch") or on_cpu else _pool(allocator, named.get("pinned"))
    card = _CARD.search(text) or _card_of_the_node(page, index)
    process = process_of(line)
    limit = _own_limit(page, index) if framework == "paddle" else {}
    if card is not None:
        process = replace(process, gpu=int(next(group for group in card.groups() if group)))
    return ArrayOutOfMemory(
        at=place_of(page, line, last),
        time=line.mark.time,
        process=process,
        pool=pool,
        framework=framework,
        shape=named.get("shape"),
        dtype=named.get("dtype"),
        allocator=allocator,
        device=_device(match, text, pool, is_card=card is not None),
        **{**_account(page, index, match[0]), **_details(text), **_sizes(match), **limit},
    )


def _own_limit(page: Page, index: int) -> dict[str, Any]:
    """What FLAGS_gpu_memory_limit_mb leaves the process, in the advice below Paddle's message."""
    limits = (_PADDLES_LIMIT.search(line.text[:400]) for line in page.after(index, _PADDLES_LINES))
    limit = next((match for match in limits if match), None)
    return {"limit_bytes": int(limit[1]) * MIB} if limit else {}


def _device(match: re.Match[str], text: str, pool: str, *, is_card: bool) -> str | None:
    if pool == "host_ram":
        return "cpu"
    of_a_tpu = "memory space hbm" in match[0] or _OF_A_TPU.search(text) is not None
    return "tpu" if of_a_tpu else "gpu" if is_card else None


def _details(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pattern in _DETAILS:
        for name, value in match.groupdict().items() if (match := pattern.search(text)) else ():
            if name == "rounded":
                found["rounded_bytes"] = int(value)
            else:
                found[name] = int(value) if name in ("replica", "partition") else value
    return found


def _hint_alone(page: Page, index: int) -> Iterator[Read]:
    """TensorFlow gives this hint with an exhausted resource and nothing else; its sentence was not pasted."""
    first = max(0, index - DUMP_LINES)
    around = [line.text[:1200] for line in page.lines[first : index + DUMP_LINES]]
    above = around[: index - first]
    if any(_HINT in text for text in above) or any(_TOLD.search(text) for text in around if _HINT not in text):
        return
    line = page.lines[index]
    largest = max((shape for text in above if "XLA label" in text for shape in _ARRAY.findall(text)), key=_elements,
                  default=None)  # fmt: skip
    yield ArrayOutOfMemory(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        strength=2,
        framework="tensorflow",
        buffers=(ProgramBuffer(shape=largest),) if largest is not None else (),
    )


def _elements(shape: str) -> int:
    return prod(ProgramBuffer(shape=shape).lengths)


def _dump_alone(page: Page, index: int, place: Place, process: Process) -> Iterator[Read]:
    """TensorFlow dumps its pool only when it refuses; here the sentence that says so was not pasted."""
    around = page.lines[max(0, index - DUMP_LINES) : index + DUMP_LINES]
    told = (line.text[:1200] for line in around if any(word in line.text for word in _TELLING))
    if any(pattern.search(text) for text in told for _, pattern in _FAILURES):
        return
    before = [line.text[:400] for line in page.before(index, DUMP_LINES)]
    named = next((match[1] for text in reversed(before) if (match := _DUMPED.search(text))), None)
    bins = (_BIN.search(text) for text in reversed([*before, page.lines[index].text[:400]]))
    refused = next((bytes_of(match[1]) for match in bins if match), None)
    yield ArrayOutOfMemory(
        at=place,
        time=page.lines[index].mark.time,
        process=process,
        pool=_pool(named, None),
        framework="tensorflow",
        allocator=named,
        **{"tried_bytes": refused, **account([*before, *_below(page, index, _DUMP_SUM)])},
    )


def _of_a_refused_size(line: Line) -> bool:
    """Whether the line heads the chunks of the size that was refused."""
    match = _BIN.search(line.text) if line.text.rstrip().endswith(_DUMP_BIN) else None
    return match is not None and bool(bytes_of(match[1])) and "bfc_allocator" in line.raw[:200]


def _sum_follows(page: Page, index: int) -> bool:
    """Whether the dump goes on to the sum of its chunks."""
    return any(_DUMP_SUM in line.text for line in page.lines[index + 1 : index + DUMP_LINES])


def _account(page: Page, index: int, message: str) -> dict[str, Any]:
    """The account around the message: below it, or above where nothing stands below."""
    return account(_below(page, index, message)) or account(_above(page, index))


def _below(page: Page, index: int, message: str) -> list[str]:
    """The lines that follow the message, up to another one; those of a pool's chunks are skipped over."""
    found: list[str] = []
    in_dump = False
    for line in page.after(index, BELOW_LINES + DUMP_LINES)[1:]:
        text = line.text[:400]
        in_dump = in_dump or any(head in text for head in _DUMP_HEADS)
        if len(found) >= (BELOW_LINES + DUMP_LINES if in_dump else BELOW_LINES) or _another(text, message):
            break
        found.append(text)
    return found


def _above(page: Page, index: int) -> list[str]:
    """The dump that leads up to the message; what stands below another message is that one's."""
    found: list[str] = []
    for line in reversed(page.before(index, DUMP_LINES)):
        text = line.text[:400]
        if _another(text, ""):
            return []
        if any(head in text for head in _DUMP_HEADS) or (
            len(found) >= ABOVE_LINES and "bfc_alloc" not in line.raw[:200]
        ):
            break
        found.append(text)
    return found[::-1]


def _another(text: str, message: str) -> bool:
    return not (message and message in text) and _is_failure(text)


@remembered
def _is_failure(text: str) -> bool:
    return any(pattern.search(text) for _, pattern in _FAILURES)


def _sizes(match: re.Match[str]) -> dict[str, Any]:
    names = ("tried", "used", "free", "total", "exceeded", "reservable")
    return {f"{name}_bytes": bytes_of(match[name]) for name in names if match.groupdict().get(name)}


def _on_cpu(page: Page, index: int, text: str) -> bool:
    """Whether the program says that it runs on the CPU, or the message is its client's and nothing names a card.

    A card's refusal says "while trying to allocate" since the exception is called JaxRuntimeError (JAX 0.4.3x).
    """
    before = [line.text[:400] for line in page.before(index)]
    if any(ON_THE_CPU.search(line) for line in before):
        return True
    if _DEVICE_CUT.search(text):
        around = [line.raw[:400] for line in (*page.before(index), *page.after(index, ABOVE_LINES))]
        return any(_OF_THE_CPU in line for line in around) and not any(_OF_A_GPU.search(line) for line in around)
    return _CPU_CLIENT.search(text) is not None and not any(_ACCELERATOR.search(line) for line in before)


def _pool(allocator: str | None, pinned: str | None) -> str:
    if pinned or (allocator and "host" in allocator.lower()):
        return "pinned"
    return "host_ram" if allocator and "cpu" in allocator.lower() else "gpu"


FAMILY = Family(
    name="jax_tf",
    anchors=(
        "out of memory",
        "Out of memory",
        "RESOURCE_EXHAUSTED",
        "Resource exhausted: Out",
        "OOM",
        "ailed to alloc",
        "in-use chunks:",
    ),
    triggers=(
        "Out of memory error on GPU",
        "RESOURCE_EXHAUSTED: Out",
        "Resource exhausted: Out",
        "memory space hbm",
        "That was not possible",
        "Dst tensor is not initialized",
        "for the batch of component",
        "Failed to allocate request for",
        "OOM when allocating tensor",
        "an out of memory trying to allocate",
        "failed to alloc",
        "could not allocate pinned host memory",
        "Memory usage: ",
        "Can't reduce memory use below",
        _DUMP_SUM,
        _DUMP_BIN,
        _HINT,
    ),
    read=read,
)
