"""GPU memory failures without figures: the driver or the runtime refuses, PyTorch cannot say more."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Event, Lookalike, Read
from oomdoctor.families.frames import frames
from oomdoctor.families.lines import PAGEABLE, card_of_line, goes_on, place_of, process_of
from oomdoctor.families.loudness import is_quiet
from oomdoctor.families.remote_call import caller, raised_by_ray
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page


class DeviceRefusal(Event, frozen=True, kw_only=True):
    """The device said "out of memory" and nothing else."""

    family = "cuda_error"
    kind = "device-refusal"

    pool: str = "gpu"  # "pinned" where page-locked host memory was asked for
    strength: int = 2

    device: str  # CUDA, HIP, ...
    # Who was asked: "runtime", "driver", "cumem" (an engine's sleep allocator), "thc" (PyTorch up to 0.4),
    # "nvml" (an out-of-memory report that itself failed), "framework" (an exception whose text is lost),
    # "dispatch" (the loader's plan leaves a part of the model off the card), "batch-size-search" (every size was
    # too large)
    layer: str
    source: str | None = None  # the C++ file and line it names
    source_line: int | None = None  # that line's number
    function: str | None = None  # the C++ function
    code: int | None = None  # the number of the error
    exception: str | None = None  # the exception's name, where it is raised in Python


_SOURCE = r"(?:.{0,200}?(?P<source>[\w.+-]{1,80}\.(?:cpp|cu|cc|h|cuh):\d{1,6}))?"
# Calls for page-locked host memory are another family's.
_CALL = r"\b(?P<device>cuda|hip)(?!Host)\w{0,20}(?:Malloc|Alloc)(?!Host)\w{0,20}"
_CHECK = r"THCudaCheck FAIL file=.{0,300}?(?P<source>[\w.+-]{1,80}\.(?:cpp|cu|cc|cuh|h)) line=(?P<row>\d{1,6})"
# torch_memory_saver's, behind which it exits: "file=csrc/core.cpp func=resume line=190"
_PLACE = (
    r"(?:\s{1,4}file=.{0,200}?(?P<source>[\w.+-]{1,80}\.(?:cpp|cu|cc|h)) "
    r"func=(?P<function>\w{1,80}) line=(?P<at>\d{1,6}))?"
)
_NVML = (
    r"NVML_SUCCESS == .{0,120}INTERNAL ASSERT FAILED at "
    r"\"[^\"]{0,300}?(?P<source>CUDACachingAllocator\.cpp)\":(?P<at>\d{1,6})"
)
# Who was asked, what the message always holds, the message. Most lines hold none of the words.
_REFUSALS = tuple(
    (layer, word, late(pattern))
    for layer, word, pattern in (
        ("thc", "cuda runtime error (2)", r"cuda runtime error \((?P<code>2)\) : out of memory" + _SOURCE),
        ("thc", "THCudaCheck FAIL", _CHECK + r" error=(?P<code>2) : out of memory"),
        ("cumem", "CUDA Error: out of memory at", r"CUDA Error: out of memory at" + _SOURCE),
        (
            "cumem",
            "cumem_allocator.cpp:",
            r"(?i:cuda error: out of memory at).{0,200}?(?P<source>cumem_allocator\.cpp:\d{1,6})",
        ),
        ("cumem", " error: 2 (out of memory)", r"(?:CUresult|cudaError) error: (?P<code>2) \(out of memory\)" + _PLACE),
        ("driver", " driver error: out of memory", r"(?P<device>CUDA|HIP) driver error: out of memory"),
        (
            "driver",
            "CUDA_ERROR_OUT_OF_MEMORY",
            r"(?:\b(?:error|code|status)[ :=]{1,3}(?P<code>2)\b.{0,12}?)?\bCUDA_ERROR_OUT_OF_MEMORY\b",
        ),
        (
            "runtime",
            ": out of memory",
            r"(?P<device>CUDA|HIP|cuda|hip) error(?: (?P<code>\d{1,6}))?: out of memory" + _SOURCE,
        ),
        ("runtime", "error: invalid argument", r"(?P<device>CUDA|HIP) error: (?P<invalid>invalid argument)"),
        ("runtime", "cudaErrorMemoryAllocation", r"cudaErrorMemoryAllocation:? (?:error )?\(?out of memory"),
        # helper_cuda.h of the samples, and its many copies
        ("runtime", "(cudaErrorMemoryAllocation)", r"\bcode=(?P<code>2)\(cudaErrorMemoryAllocation\)"),
        ("runtime", "hipErrorOutOfMemory", r"hipErrorOutOfMemory"),
        ("nvml", "NVML_SUCCESS == ", _NVML),
        (
            "runtime",
            "",
            r"(?i)\b(?P<device>CUDA|HIP)\b[^.]{0,60}\b(?:error|fail(?:ed|ure)?|assert)\b[^.]{0,160}: ?out of memory"
            + _SOURCE,
        ),
        (
            "framework",
            "OutOfMemoryError: ",
            (
                r"\btorch\.(?:cuda\.)?OutOfMemoryError: (?!.{0,400}(?:out of memory|Allocation on|out of resource)"
                r"|Tried to allocate [\d.]{1,12} [KMG]iB(?:\.| \(GPU))"
            ),
        ),
        ("framework", "OutOfMemoryError", r"^\W{0,4}OutOfMemoryError\s{2,60}Traceback \(most recent call last\)"),
        (
            "framework",
            "RayTaskError(OutOfMemoryError): ",
            r"RayTaskError\(OutOfMemoryError\): (?!.{0,2000}out of memory)",
        ),
        ("runtime", ": out of memory", _CALL + r"\b[^.]{0,80}\bfail[^.]{0,40}: out of memory"),
        ("runtime", "cudaSuccess (2 vs. 0)", r"cudaSuccess \((?P<code>2) vs\. 0\)\s{1,4}out of memory"),
        # Caffe2
        (
            "runtime",
            "== cudaSuccess. 2 vs 0",
            r"== cudaSuccess\. (?P<code>2) vs 0\. Error at: \S{0,200}?(?P<source>[\w.]{1,60}:\d{1,6}): out of memory",
        ),
        (
            "runtime",
            "(error 2 out of memory)",
            r"\b(?P<device>cuda|hip)Malloc \d{1,20} bytes \(error (?P<code>2) out of memory\)",
        ),
        # dlib
        (
            "runtime",
            "rror while calling ",
            r"[Ee]rror while calling " + _CALL + r"\(.{0,400}?\bcode: (?P<code>2), reason: out of memory",
        ),
        ("runtime", "cudaErrorCudartUnloading", r"cudaErrorCudartUnloading:? (?P<device>CUDA): out of memory"),  # MXNet
        ("driver", " failed: out of memory", r"\bcu[A-Z]\w{2,30}(?:\([^)]{0,200}\))? failed: out of memory"),
        ("driver", " return value:", r"\bcu(?:Mem|Ipc)\w{3,30} return value:\s{1,6}(?P<code>2)\s{0,4}$"),  # Open MPI
        # The driver could not lock so much: cuda.h, CUDA_ERROR_OPERATING_SYSTEM (304)
        (
            "driver",
            "OS call failed",
            r"\bcu(?:Mem|da)(?:HostAlloc|AllocHost|MallocHost|HostRegister).{0,120}\bOS call failed",
        ),
        ("runtime", "Triton Error [", r"Triton Error \[(?P<device>CUDA|HIP)\]: out of memory"),
        ("runtime", "CudaError: out of memory (2)", r"\bCudaError: out of memory \((?P<code>2)\)"),
        ("runtime", "]: out of memory", r"\b(?P<device>CUDA) error (?P<code>2) \[[^\]]{0,300}\]: out of memory"),
        (
            "runtime",
            " failed: out of memory",
            r"\b(?:parallel_for|\w{1,40}_by_key|trivial_device_copy \w->\w) failed: out of memory",
        ),
        # SYCL; the second one is what Level Zero makes of the first
        ("runtime", "ERROR_OUT_OF_DEVICE_MEMORY", r"\b(?P<device>UR|PI|ZE)_(?:RESULT_)?ERROR_OUT_OF_DEVICE_MEMORY"),
        ("runtime", "UR_RESULT_ERROR_OUT_OF_RESOURCES", r"\b(?P<device>UR)_RESULT_ERROR_OUT_OF_RESOURCES"),
        ("runtime", "Native API returns: -5 ", r"Native API returns: -5 \((?P<device>PI)_ERROR_OUT_OF_RESOURCES\)"),
        (
            "runtime",
            "error code is 207001",
            r"\b(?P<device>NPU) function error: ?(?P<call>\w{1,60}), error code is (?P<code>207001)",
        ),
        (
            "framework",
            "Observe OOM",
            r"\bObserve OOM, will dump snapshot to \S",
        ),  # slime's observer of PyTorch's allocator
        ("framework", "during OOM", r"^saving allocated state during OOM\s{0,4}$"),  # Megatron-LM's observer
        # the same since 2026: megatron/training/utils
        ("framework", " saved memory snapshot to ", r"\[OOM\] rank \d{1,6} saved memory snapshot to \S"),
        # polygraphy/cuda/cuda.py, which has no word for the code
        ("runtime", "CUDA Error: 2.", r"\bPolygraphyException: (?P<device>CUDA) Error: (?P<code>2)\. "),
        ("runtime", "nrt_tensor_allocate", r"\b(?P<device>nrt)_tensor_allocate status=(?P<code>4)\b"),  # AWS Neuron
        ("framework", "OutOfMemoryError", r"^\W{0,4}torch\.(?:cuda\.)?OutOfMemoryError\s{0,4}$"),
        ("framework", "Insufficient VRAM", r"\bInsufficient VRAM\b"),
        (
            "dispatch",
            "Some modules are dispatched",
            r"Some modules are dispatched on the CPU or the disk\. Make sure you have enough GPU RAM",
        ),
        (
            "dispatch",
            "offload_",
            (
                r"The current `device_map` had weights offloaded to the disk\b.{0,300}"
                r"Please provide an `offload_folder`|We need an `offload_dir` to dispatch this model"
            ),
        ),
        ("dispatch", " model to the disk", r"\btrying to offload the (?P<ram>whole|entire) model to the disk\b"),
        ("batch-size-search", "No executable batch size found", r"No executable batch size found, reached zero"),
    )
)
# What page-locked host memory is asked with: the driver refuses it with the same two words.
# TurboMind allocates its weights there and nothing else (0.1 to 0.8).
_STAGES = {"memory_utils.cu": "model_load"}
_RUNTIMES = {"UR": "XPU", "PI": "XPU", "ZE": "XPU", "NRT": "NEURON"}
_PINNING = late(
    r"pin_memory|pinned|cuMemHost|(?:cuda|hip)Host(?:Alloc|Malloc|Register)|MallocHost|CachingHostAllocator"
)
# What is done stands before what failed: torch_memory_saver, of its hooks into PyTorch's allocator; CuPy's "Using
# synchronous transfer as pinned memory could not be allocated" (_core/core.pyx)
_FALLS_BACK = late(
    r"(?i)\bfall(?:s|ing)? ?back to\b"
    r"|\busing (?:[\w-]{1,20} ){1,4}(?:as|because|since) [^;:\n]{1,60}? "
    r"(?:could not|couldn't|cannot|can't|failed|is not|was not)\b"
)
# "INFO decode.py:733 Caught exception:", and on the next line the exception's own words
_CAUGHT_ABOVE = late(r"\b[Cc]aught (?:an? |the )?(?:\w{1,30} )?exception\s?:?\s{0,4}$")
_PAGEABLE = late(PAGEABLE)
_RETRIED = late(r"may not be an issue e\.g\. torch allocator will free cache and retry")
_ANOTHER_WAY = late(
    r"(?i)\)?[;,.] (?:falling back|using (?:pageable|unpinned|the cpu|host|a smaller)|retrying|will retry|skipping)\b"
)
# "level=WARN msg="load failed; evicting all other models and retrying once" error="..."": what is done comes first
_GOES_ON_FIRST = late(
    r"(?i)\blevel=(?:warn|info|debug)\w{0,4}\b[^\n]{0,400}\bmsg=\"[^\"\n]{0,300}"
    r"\b(?:retrying|trying again|falling back)\b[^\"\n]{0,100}\""
)
_OTHERS = late(r"(?i)\brmm\b|bad_alloc|NCCL|RCCL|cublas|cudnn|cupy|failed to alloc|ggml|llama runner")
_TOLD = late(r"out of memory|running low on memory|actual memory used=|Allocation on device|out of resource")
_EXCEPTION = late(r"\W{0,4}((?:\w{1,60}\.){0,6}\w{1,60}(?:Error|Exception)): ")
CHARACTERS = 8000
TRACEBACK_LINES = 60


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:CHARACTERS]
    refused = ((layer, pattern.search(text)) for layer, word, pattern in _REFUSALS if word in text)
    found = next(((layer, match) for layer, match in refused if match), None)
    if found is None or _OTHERS.search(text[:600]):
        return
    layer, match = found
    if _of_ggml(page, index):
        return
    called = layer == "framework" and "RayTaskError(" in match[0]
    if (layer == "framework" and _told_below(page, index)) or (called and raised_by_ray(page, index)):
        return
    place = place_of(page, line)
    groups = match.groupdict()
    if "row" in groups and any("runtime error (2)" in one.text for one in page.after(index, TRACEBACK_LINES)[1:]):
        return  # the exception says it again
    if why := _survived(page, index, match):
        yield Lookalike(place, why)
        return
    pins = _pins(page, index)
    if groups.get("invalid") and not pins:
        return  # of a kernel or a copy; host memory that cannot be pinned is refused with these words too
    named = ":".join(part for part in (groups.get("source"), groups.get("row") or groups.get("at")) if part)
    row = named.rpartition(":")[2]
    yield DeviceRefusal(
        at=place,
        time=line.mark.time,
        process=caller(page, index) if called else process_of(line, card_of_line(page, index)),
        pool="host_ram" if groups.get("ram") else "pinned" if pins else "gpu",
        stage=_STAGES.get(named.partition(":")[0], "unknown") if "turbomind" in text else "unknown",
        device=_device(match),
        layer=layer,
        source=named or None,
        source_line=int(row) if row.isdecimal() else None,
        function=groups.get("function"),
        code=int(groups["code"]) if groups.get("code") else None,
        exception=raised[1] if (raised := _EXCEPTION.match(text[: match.start() + 1])) else None,
    )


def _survived(page: Page, index: int, match: re.Match[str]) -> str | None:
    """Why it is no failure: the words are an echo, or the program goes on."""
    text = match.string
    if why := echo(text[: match.end()], text):
        return why
    before = text[: match.start()]
    if _ANOTHER_WAY.search(text, match.end()) or _FALLS_BACK.search(before) or _GOES_ON_FIRST.search(before):
        return mark("caught: the program says that it continues in another way")
    above = page.lines[index - 1].text[:CHARACTERS] if index else ""
    if _CAUGHT_ABOVE.search(above) and is_quiet(page, index - 1, above):
        return mark("caught: the program continues after it")
    if _RETRIED.search(text):
        return mark("first failure: the allocator frees its cache and tries again")
    below = page.after(index, 2)[-1].text[:CHARACTERS]
    pageable = any(_PAGEABLE.search(said) for said in (text[match.end() :], below if below != text else ""))
    caught = pageable or ("row" in match.groupdict() and goes_on(page, index))
    return mark("caught: the program continues after it") if caught else None


def _of_ggml(page: Page, index: int) -> bool:
    """ggml's check prints the device and its own function below the driver's words."""
    return any("in function" in line.text and "ggml" in line.text for line in page.after(index, 2)[1:])


def _device(match: re.Match[str]) -> str:
    named = (match.groupdict().get("device") or ("HIP" if "hip" in match[0] else "CUDA")).upper()
    return _RUNTIMES.get(named, named)


def _told_below(page: Page, index: int) -> bool:
    """The exception's own text stands further down: the allocator's sentence, or Ray's about the host's memory."""
    return any(_TOLD.search(line.text[:400]) for line in page.after(index)[1:])


def _pins(page: Page, index: int) -> bool:
    """Whether page-locked host memory was asked for: the message or the innermost frames say so."""
    trace = frames(page.before(index, TRACEBACK_LINES))
    said = [page.lines[index].text, *(f"{frame.function} {frame.code}" for frame in trace[-2:])]
    return any(_PINNING.search(text[:600]) for text in said)


FAMILY = Family(
    name="cuda_error",
    anchors=("out of memory", "OUT_OF_ME", "OutOfMemory", "(cudaErrorMemoryAllocation)", "ERROR_OUT_OF_RESOURCES"),
    triggers=(
        "out of memory",
        "OutOfMemoryError",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "hipErrorOutOfMemory",
        "(cudaErrorMemoryAllocation)",
        "allocated state during OOM",
        " saved memory snapshot to ",
        " return value:",
        "NVML_SUCCESS == ",
        "ERROR_OUT_OF_DEVICE_MEMORY",
        "PI_ERROR_OUT_OF_RESOURCES",
        "UR_RESULT_ERROR_OUT_OF_RESOURCES",
        "No executable batch size found",
        "Insufficient VRAM",
        "error: invalid argument",
        "Some modules are dispatched on the CPU",
        "weights offloaded to the disk",
        " model to the disk",
        "`offload_dir` to dispatch",
        "nrt_tensor_allocate",
        "PolygraphyException: CUDA Error: 2.",
        "Observe OOM",
        "error code is 207001",
        "OS call failed",
    ),
    read=read,
)
