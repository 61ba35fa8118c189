"""GPU memory failures of the libraries beside the framework: cuBLAS, cuDNN, NCCL, RMM, CuPy, XGBoost, ..."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.echoes import echo
from oomdoctor.families.ended import ends_well
from oomdoctor.families.event import Event, Lookalike, Process, Read, Usage
from oomdoctor.families.jax_tf import mostly_free
from oomdoctor.families.lines import card_of_line, is_of_ggml, place_of, process_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, size


class LibraryOutOfMemory(Event, frozen=True, kw_only=True):
    """A library could not allocate, and says so."""

    family = "gpu_library"
    kind = "library-out-of-memory"

    pool: str = "gpu"  # "pinned" where the library says so
    strength: int = 2

    library: str  # cuBLAS, cuDNN, cuSOLVER, cuFFT, cuSPARSE, NCCL, RCCL, RMM, CuPy, bitsandbytes, ...
    capped: bool | None = None  # it says that its own limit was hit, of whatever size
    status: str | None = None  # CUBLAS_STATUS_ALLOC_FAILED, CANN's EL0004
    code: int | None = None  # the number of the error
    source: str | None = None  # the C++ file and line it names
    tried_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    allocated_bytes: Usage[int | None] = None
    limit_bytes: Usage[int | None] = None
    left_bytes: Usage[int | None] = None  # under its own limit
    used_bytes: Usage[int | None] = None  # of the GPU, by whomever
    total_bytes: Usage[int | None] = None


class LibraryTrouble(Event, frozen=True, kw_only=True):
    """A library failed in a way that a full card would explain, and other things too: a hint."""

    family = "gpu_library"
    kind = "library-trouble"

    pool: str = "gpu"
    strength: int = 1

    library: str
    status: str


_NUMBER = r"\d{1,20}(?!\.?\d)"
_DIGITS = r"[\d,]{1,30}"  # CuPy groups them with commas
_SIZE_OF = rf"size (?P<tried>{_NUMBER})"
_CUPY = (
    rf"Out of memory allocating (?P<tried>{_DIGITS}) bytes \(allocated so far: (?P<allocated>{_DIGITS}) bytes"
    rf"(?:, limit set to: (?P<limit>{_DIGITS}) bytes)?"
)
_NCCL_SOURCE = r"(?:(?P<file>[\w.-]{1,60}):(?P<row>\d{1,6}) (?:\(\w{1,80}\) )?NCCL WARN )?"
# RMM says what it was asked for since 2024: in bytes, or in GiB with six decimals.
_RMM = (
    r"(?!.{0,400}(?:system_memory_resource|/host_memory\.cpp))"
    r"(?:out_of_memory: (?:CUDA|RMM|std)|rmm::out_of_memory|RMM failure|RMM_ERROR_OUT_OF_MEMORY)"
    r"(?:.{0,400}?\(failed to allocate (?:(?P<tried>\d{1,20}) bytes|(?P<tried_gib>[\d.]{1,20}) GiB)\))?"
)
_CANN = (
    rf"halMemAlloc failed:(?:device_id=(?P<card>\d{{1,3}}), )?.{{0,80}}?\bsize=(?P<tried>{_NUMBER})\b"
    r".{0,120}drvRetCode=(?P<code>6)\b"
)
_FOR_PEOPLE = r"[\d.]{1,16} [KMG]?B\b"
# Its devices but for the CPU, DSP, DISK, NPY and PYTHON: tinygrad/runtime/ops_*.py, of which GPU and CLANG were renamed
TINYGRADS: Final = "NV|CUDA|AMD|HIP|METAL|QCOM|CL|GPU|WEBGPU"
# One of their frames; AMD's and NVIDIA's own page tables are those of support/memory.py
ONNX_RUNTIME: Final = "ONNX Runtime"
METAL: Final = "Metal"  # of any program, in the driver's words alone
_PROVIDER: Final = late(r"\b([A-Z][A-Za-z]{1,20})ExecutionProvider\b")
OF_TINYGRAD: Final = rf"(?i:/tinygrad/runtime/(?:ops_(?:{TINYGRADS})|support/memory)\.py\", line \d)"
# XGBoost says so of whatever its allocator throws, of a bad address too. Its cache (1.3 on) gives no reason.
_XGBOOST_HEAD = "Memory allocation error on worker"
_XGBOOST = (
    rf"{_XGBOOST_HEAD} (?P<worker>\d{{1,6}}): "
    r"(?:Caching allocator|.{0,400}?(?:out of memory|out_of_memory|OUT_OF_MEMORY))"
)
# include/flashinfer/allocator.h: newer releases also print what is left of the engine's workspace buffer
_FLASHINFER = (
    rf"memory for \w{{1,80}} with {_SIZE_OF} and alignment \d{{1,6}}(?:, but only (?P<left>{_NUMBER}) bytes available)?"
    r" in AlignedAllocator"
)
# Behind a progress bar where the library's own line break is missing
_BITSANDBYTES = (
    r"(?:^\W{0,4}|(?:it/s|s/it)\]\s{0,4})Error out of memory at line (?P<row>\d{1,6})"
    r" in file(?! \S{1,200}(?:(?<!csrc[/\\]pythonInterface)\.c|(?<!csrc[/\\])pythonInterface\.cpp)$)"
    r"(?: \S{0,200}?(?P<file>[\w.]{1,60}$))?"
)
_NO_SURFACE: Final = "No decoder surfaces left"
_JULIAS: Final = "CUDA.jl"
_OUT_OF_MEMORY = tuple(
    (library, late(pattern))
    for library, pattern in (
        (_JULIAS, r"\bOut of GPU memory trying to allocate (?P<tried_said>[\d.]{1,16} [KMG]iB\b)"),
        ("cuBLAS", r"(?P<status>CUBLAS_STATUS_ALLOC_FAILED)"),
        # cublasGetStatusString, as XLA and ggml print it: ggml_cuda_error names the call two lines below
        ("cuBLAS", r"(?:create cublas handle|\b(?i:cuda|cublas) error): (?P<status>the resource allocation failed)"),
        # ggml up to 2023, by the status' number: 3 is CUBLAS_STATUS_ALLOC_FAILED
        ("cuBLAS", r"\b(?P<status>cuBLAS error 3) at \S"),
        ("hipBLAS", r"(?P<status>HIPBLAS_STATUS_ALLOC_FAILED)"),
        ("cuBLAS", r"(?P<status>cublas runtime error : resource allocation failed)"),  # PyTorch up to 1.4
        ("cuDNN", r"(?P<status>CUDNN_STATUS_ALLOC_FAILED)"),
        (
            "cuDNN",  # MXNet
            (
                r"with minimum memory requirement (?P<tried>\d{1,20}) bytes have been tried\. "
                r"Workspace size is set to (?P<limit>\d{1,20}) bytes"
            ),
        ),
        ("cuSOLVER", r"(?P<status>CUSOLVER_STATUS_ALLOC_FAILED)"),
        ("cuSPARSE", r"(?P<status>CUSPARSE_STATUS_(?:ALLOC_FAILED|INSUFFICIENT_RESOURCES))"),
        ("cuSPARSE", r"CUSPARSE API failed .{0,80}(?P<status>insufficient resources)"),
        ("cuFFT", r"(?P<status>CUFFT_ALLOC_FAILED)"),
        ("cuFFT", r"cuFFT failed to allocate GPU or CPU memory"),  # CUDA.jl: lib/cufft/error.jl
        ("cuRAND", r"(?P<status>CURAND_STATUS_ALLOCATION_FAILED)"),
        ("RCCL", rf"{_NCCL_SOURCE}HIP failure(?: (?P<code>\d{{1,4}}))? 'out of memory'"),
        ("NCCL", rf"{_NCCL_SOURCE}Cuda failure(?: (?P<code>\d{{1,4}}))? 'out of memory'"),
        ("NCCL", rf"Failed to (?:CUDA|HIP) (?P<how>host alloc|calloc async|calloc|malloc) (?P<tried>{_NUMBER}) bytes"),
        ("NVSHMEM", r"nvshmem malloc failed \(hint: [^\n]{0,120}symmetric size = (?P<limit>\d{1,20})\b"),
        ("XGBoost", _XGBOOST),  # before RMM, which it may allocate with
        ("RMM", _RMM),
        ("RMM", rf"\[Upstream (?P<tried>{_NUMBER})B\]\[FAILURE maximum pool size exceeded"),
        (
            "RMM",
            r"RMM allocation of (?:(?P<tried_gib>[\d.]{1,20}) GiB|\S{1,20} \wi?B|\d{1,20})(?: bytes)? failed, spill-on",
        ),
        # torchrec/distributed/planner: partitioners.py and planners.py, 0.2 on
        (
            "TorchRec",
            (
                r"Device partition failed\. Couldn't find a rank for shard [^\n]{0,300}?\bhbm=(?P<tried>[1-9]\d{0,19})"
                r"[^\n]{0,400}?largest device storage: \w{0,12}\(?hbm=(?P<free>\d{1,20})"
            ),
        ),
        ("TorchRec", r"Unable to find a plan for this model [^\n]{0,80}?because of insufficient storage"),
        # its arena, before it dumps what it holds (arena_memory_resource.hpp, since 21.06)
        (
            "RMM",
            r"\]\[[\d:]{15}\]\[\w{4,8} {0,4}\] Ran out of memory trying to allocate (?P<tried_gib>[\d.]{1,20}) GiB",
        ),
        # catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h: MiB, of which it prints no unit
        (
            "CatBoost",
            (
                r"\bTOutOfMemoryError\b.{0,300}?Out of memory\. Requested (?P<tried_mib>\d[\d.]{0,20}); "
                r"Free (?P<free_mib>\d[\d.]{0,20})"
            ),
        ),
        ("CuPy", _CUPY),
        # CuPy up to 4
        ("CuPy", rf"out of memory to allocate (?P<tried>{_NUMBER}) bytes \(total (?P<allocated>{_NUMBER}) bytes\)"),
        # tinygrad/device.py, of a device by its name; what it held there in newer releases, before in all
        (
            "tinygrad",
            (
                rf"\bAllocation of (?P<tried_said>{_FOR_PEOPLE}) failed on (?:{TINYGRADS})(?::(?P<card>\d{{1,3}}))?"
                rf"\. Used: (?P<allocated_said>{_FOR_PEOPLE})"
            ),
        ),
        (
            "bitsandbytes",
            _BITSANDBYTES,
        ),
        ("CANN", _CANN),
        ("CANN", r"(?P<status>EL0004)\b"),
        ("CANN", r"(?P<status>EI0007)\b(?=.{0,400}(?i:memory))"),
        ("CANN", r"\berror code (?:is |: ?)?(?P<code>207018)\b|The memory on the device is exhausted"),
        ("TensorRT", rf"(?P<status>Error Code 2: OutOfMemory)(?: \(Requested size was (?P<tried>{_NUMBER}) bytes)?"),
        ("TensorRT", rf"Requested amount of GPU memory \((?P<tried>{_NUMBER}) bytes\) could not be allocated"),
        ("TensorRT", r"Could not find any implementation for node .{0,400}due to (?P<status>insufficient workspace)"),
        ("CTranslate2", r"\bCUDA failed with error out of memory\b"),  # HIP's, too
        ("CUDA graphs", r"ran out of memory trying to instantiate command buffer"),  # XLA
        ("Thrust", r"temporary_buffer::allocate: get_temporary_buffer failed"),
        # TVM hands Thrust a workspace that the compiler has planned (src/runtime/contrib/thrust/thrust.cu, 0.16 on)
        (
            "TVM",
            (
                rf"Check failed: \(?result\)?[^\n]{{0,20}}: "
                rf"Failed to allocate (?P<tried>{_NUMBER}) bytes with alignment \d"
            ),
        ),
        # CL_MEM_OBJECT_ALLOCATION_FAILURE by its number (cl.h)
        (
            "OpenCL",
            r"\bcl(?:Enqueue|Create|Build|Finish)[A-Za-z]{0,30}\b[^\n\w-]{0,6}(?:[a-z]{4,8}\W{1,4}){0,3}-4\b(?!\d)",
        ),
        ("OpenCL", r"(?P<status>(?:CL_)?\bMEM_OBJECT_ALLOCATION_FAILURE)|\bMemory Object Allocation Failure\b"),
        # The runtime says so of threads, too: here no memory was left
        ("HSA", r"(?P<status>HSA_STATUS_ERROR_OUT_OF_RESOURCES): (?=.{0,400}Available Free mem : \d{1,2} MB)"),
        ("FAISS", r"StandardGpuResources.{0,200}CUDA memory allocation error"),
        ("tensorview", r"\bcuda failed with error (?P<code>2) out of memory\b"),  # below spconv and cumm
        ("tensorview", r"\bcuda execution failed with error (?P<code>2)(?!\d)"),  # the same in spconv 1.0 to 1.2
        (
            ONNX_RUNTIME,
            rf"(?i:bfc_?arena|onnxruntime).{{0,400}}Failed to allocate memory for requested buffer of {_SIZE_OF}",
        ),
        # what an arena's own limit leaves
        (
            ONNX_RUNTIME,
            rf"Available memory of (?P<left>{_NUMBER}) is smaller than requested bytes of (?P<tried>{_NUMBER})",
        ),
        ("FlashInfer", _FLASHINFER),
        # mlx/backend/metal/eval.cpp
        ("MLX", r"\[METAL\] Command buffer execution failed: Insufficient Memory"),
        (METAL, r"\bkIOGPUCommandBufferCallbackErrorOutOfMemory"),
        ("MLX", rf"\[malloc\] Unable to allocate (?P<tried>{_NUMBER}) bytes"),
        # source/gpucommon/src/PxgCudaMemoryAllocator.cpp, with the driver's number of the error
        (
            "PhysX",
            (
                rf"PxgCuda\w{{4,40}}Allocator fail(?:ed)? to allocate memory (?P<tried>{_NUMBER}) bytes!! "
                r"Result = (?P<code>2)\b"
            ),
        ),
        # libavcodec/nvdec.c (FFmpeg 4.0 on): of the surfaces that the decoder was made with, and a frame is lost
        ("NVDEC", _NO_SURFACE),
        ("NVENC", r"\b(?:OpenEncodeSessionEx|Create(?:Input|Bitstream)Buffer) failed: out of memory\b"),
    )
)
_TROUBLE = tuple(
    (library, late(pattern))
    for library, pattern in (
        ("cuBLAS", r"(?P<status>CUBLAS_STATUS_NOT_INITIALIZED)"),
        ("hipBLAS", r"(?P<status>HIPBLAS_STATUS_NOT_INITIALIZED)"),
        ("cuDNN", r"(?P<status>CUDNN_STATUS_(?:INTERNAL_ERROR|NOT_INITIALIZED)\w{0,60})"),
        ("cuDNN", r"(?P<status>Unable to find a valid cuDNN algorithm to run convolution)"),
        ("cuDNN", r"(?P<status>GET was unable to find an engine to execute this computation)"),
        ("cuSOLVER", r"(?P<status>CUSOLVER_STATUS_INTERNAL_ERROR)"),
        ("cuBLAS", r"(?P<status>the library cublas was not initialized)"),
        ("cuBLAS", r"(?P<status>(?i:failed to create cublas handle))"),  # XLA, as the next two
        ("cuDNN", r"(?P<status>(?i:(?:could not|failed to) create cudnn handle))"),
        ("cuSOLVER", r"(?P<status>(?:gpu|cu)solverDnCreate\(\S{0,40}\) failed)"),
    )
)
# A pool's or an adaptor's limit, which somebody has set
_CAPPED = late(r"Exceeded memory limit|[Mm]aximum pool size exceeded")
# Paddle names the status below its number, NVSHMEM its setting behind the failure
_HINT = late(r"\s{0,4}\[Hint: 'C|[^\n]{0,400}nvshmem malloc failed \(hint: ")
_HARMLESS = tuple(
    (late(pattern), why)
    for pattern, why in (
        (r"NCCL INFO .{0,400}out of memory", mark("an INFO line: NCCL tries another way")),
        (
            r"\bAllocation of memory pattern buffer for [^\n]{0,200} failed\b",  # core/framework/execution_frame.cc
            mark("ONNX Runtime allocates the tensors one by one instead"),
        ),
        (
            r"Skipping tactic .{0,200}insufficient memory|memory is insufficient to use tactic",
            mark("TensorRT tried a tactic and takes another one"),
        ),
        (r"Plan failed with a cudnnException", mark("cuDNN tried a plan and takes another one")),
        (
            (
                r"failed with error (?:2 )?out of memory\b.{0,120}\b(?i:retry(?:ing)?|falling back|fallback|skipping)\b"
                r"|could not be allocated\b.{0,120}\b(?i:(?:us|allocat|tak)ing (?:\w{1,10} ){1,3}instead)\b"
            ),
            mark("the failed allocation was caught; the program continued"),
        ),
        (r"CUDNN_STATUS_NOT_SUPPORTED", mark("cuDNN does not support this computation; no allocation failed")),
    )
)
# What RMM's logger writes of every refusal, whoever asks again
_LOGGED = late(r"\]\[FAILURE maximum pool")
# XGBoost's figures stand below its message, in one line with it where the exception is shown by its repr(): in bytes,
# since 3.0 with units, whose "GB" is 1024 MB.
_FIGURES: Final = {
    "XGBoost": tuple(
        (name, late(rf"- {label} memory: (\d[\d.]{{0,20}})([KMG]?B)?(?!\.?\w)"))
        for name, label in (("free_bytes", "Free"), ("tried_bytes", "Requested"))
    ),
    # src/pool.jl, memory_status: 1.x to 3.x say what the allocator may take, 3.x to 5.x what the pool has
    _JULIAS: (
        ("used_bytes", late(r"^\s{0,8}Effective GPU memory usage: [\d.]{1,8}% \((\d[\d.]{0,12}) ([KMG]iB)/")),
        ("total_bytes", late(r"^\s{0,8}Effective GPU memory usage: [^/\n]{1,60}/(\d[\d.]{0,12}) ([KMG]iB)\)")),
        ("allocated_bytes", late(r"^\s{0,8}(?:CUDA allocator|Memory pool) usage: (\d[\d.]{0,12}) ([KMG]iB)\b")),
        ("limit_bytes", late(r"\b(?:capped at|hard limit =) (\d[\d.]{0,12}) ([KMG]iB)\b")),
    ),
}
_FIGURE_LINES = 5
_NEARLY: Final = 0.99  # of a limit: what is asked for comes on top, and sizes are rounded up
_PAIR: Final = 2  # lines: an empty one may stand between
# "host:pid:thread [card] "
_NCCL_WRITER = late(r"\s{0,4}[\w.<>-]{1,200}:(\d{1,9}):\d{1,9} \[(\d{1,3})\] ")
# Every error of the runtime ends with advice on "device-side assertions".
_ASSERTED = late(
    r"device-side assert triggered|illegal memory access was encountered"
    r"|: block: \[\d{1,9},\d{1,9},\d{1,9}\], thread: .{0,60}Assertion `"
)
# torch/cuda/__init__.py: the GPU is too old for any build, or for this one
_UNSUPPORTED = late(
    r"no longer supports this GPU because it is too old"
    r"|with CUDA capability sm_\d{1,4} is not compatible with the current PyTorch installation"
    r"|no kernel image is available for execution on the device"
)
_OF_A_SIZE_OF_THEIR_OWN: Final = ("FlashInfer", "NVSHMEM", "NVDEC", "TVM")
# Behind a lost frame FFmpeg goes on, mostly
_LOST_FRAMES: Final = 20  # lines
_GAVE_UP: Final = late(r"\bConversion failed!|\bCannot allocate memory\b|(?i:out of memory)")
# src/include/alloc.h of NCCL, CUDACHECKGOTO and the line behind it: the error of the call, then the call's size
_OF_THE_CALL: Final = late(r"NCCL WARN (?:Cuda|HIP) failure(?: \d{1,4})? 'out of memory'")
_OF_THE_SIZE: Final = late(
    rf"NCCL WARN Failed to (?:CUDA|HIP) (?:calloc async|calloc|malloc) (?P<tried>{_NUMBER}) bytes"
)
_FOR_THE_HOST: Final = late(r"Failed to (?:CUDA|HIP) host alloc \d")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    place = place_of(page, line)
    if why := next((why for pattern, why in _HARMLESS if pattern.search(text)), None):
        yield Lookalike(place, why)
        return
    failure, trouble = _first(_OUT_OF_MEMORY, text), _first(_TROUBLE, text)
    library, match = failure or trouble or (None, None)
    if library is None or match is None:
        return
    if _is_read_elsewhere(page, index, library):
        return
    why = _explained(page, index, match[0]) or (None if _HINT.match(text) else echo(text[: match.end()], text))
    if why:
        yield Lookalike(place, why)
        return
    if failure and _LOGGED.search(text) and ends_well(page, index):
        yield Lookalike(place, mark("the refused allocation was caught; the program went on"))
        return
    process = _process(page, index, match)
    if failure:
        stated = _stated(match)
        if (sized := _sized(page, index)) is not None:
            place, stated["tried_bytes"] = place_of(page, line, sized[0]), sized[1]
        if library in _OF_A_SIZE_OF_THEIR_OWN or (library == "RMM" and _CAPPED.search(text)):
            stated["capped"] = True
        if library in _FIGURES:
            last, figures = _below(page, index, match, _FIGURES[library])
            place, stated = place_of(page, line, last), stated | figures
        yield LibraryOutOfMemory(at=place, time=line.mark.time, process=process, library=library, **stated)
    else:
        yield LibraryTrouble(at=place, time=line.mark.time, process=process, library=library, status=match["status"])


def _is_read_elsewhere(page: Page, index: int, library: str) -> bool:
    """By another line, as host memory by host_alloc, or by llama_cpp."""
    if library == METAL:
        return page.once(is_of_ggml)
    if library == ONNX_RUNTIME:
        return page.once(runs_on_the_cpu)
    return library == "NCCL" and _said_by_another_line(page, index)


def runs_on_the_cpu(page: Page) -> bool:
    """Whether the log names ONNX Runtime's provider for the CPU, and none for a device."""
    lines = (line.text for line in page.lines if "ExecutionProvider" in line.text)
    return {name for text in lines for name in _PROVIDER.findall(text)} == {"CPU"}


def _gave_up(page: Page, index: int) -> bool:
    """Whether the conversion ended with it."""
    below = page.lines[index + 1 : index + 1 + _LOST_FRAMES]
    return any(_GAVE_UP.search(line.text[:1200]) for line in below) and not ends_well(page, index)


def _said_by_another_line(page: Page, index: int) -> bool:
    """Of what is refused on the host the next line tells; a size is the event's above."""
    if any(_FOR_THE_HOST.search(below.text[:1200]) for below in page.after(index, 2)[1:]):
        return True
    if _OF_THE_SIZE.search(page.lines[index].text[:1200]) is None:
        return False
    return any(_sized(page, above) for above in range(max(0, index - _PAIR), index))


def _sized(page: Page, index: int) -> tuple[Line, int | None] | None:
    """The line below that says of what size the call was: of the same thread of the same process."""
    text = page.lines[index].text[:1200]
    writer = _NCCL_WRITER.match(text)
    if writer is None or _OF_THE_CALL.search(text) is None:
        return None
    for below in page.after(index, 1 + _PAIR)[1:]:
        size_line = _OF_THE_SIZE.search(below.text[:1200])
        if size_line and below.text.lstrip().startswith(writer[0].strip()):
            return below, size(size_line["tried"])
    return None


def _process(page: Page, index: int, match: re.Match[str]) -> Process:
    process = process_of(page.lines[index], card_of_line(page, index))
    if named := _NCCL_WRITER.match(match.string):
        return replace(process, pid=int(named[1]), gpu=int(named[2]))
    said = match.groupdict()
    if worker := said.get("worker"):
        process = replace(process, rank=int(worker))
    return replace(process, gpu=int(card)) if (card := said.get("card")) else process


def _explained(page: Page, index: int, said: str) -> str | None:
    """Why a failure that does not speak of memory is none of memory."""
    if said == _NO_SURFACE and not _gave_up(page, index):
        return mark("a frame found no surface of the decoder's and was passed over")
    if "memory" in said.lower() or said == _NO_SURFACE:
        return None
    if _asserted(page, index):
        return mark("a consequence of a failed check or a bad address on the GPU, not a lack of memory")
    if any(_UNSUPPORTED.search(line.text[:400]) for line in page.before(index)):
        return mark("PyTorch does not support this GPU, as a warning above says; no allocation failed")
    if any(mostly_free(below.text[:400]) for below in page.after(index, 3)[1:]):
        return mark("most of the GPU's memory is free, so memory is not short")
    return None


def _first(table: tuple[tuple[str, re.Pattern[str]], ...], text: str) -> tuple[str, re.Match[str]] | None:
    found = ((library, pattern.search(text)) for library, pattern in table)
    return next(((library, match) for library, match in found if match), None)


def _stated(match: re.Match[str]) -> dict[str, Any]:
    found = {name: value for name, value in match.groupdict().items() if value}
    stated: dict[str, Any] = {"status": found.get("status")}
    for name in ("tried", "allocated", "free", "limit", "left"):
        if name in found:
            stated[f"{name}_bytes"] = size(found[name])
    for name in {"tried_said", "allocated_said"} & found.keys():
        number, unit = found[name].split()
        stated[name.replace("said", "bytes")] = size(number, unit, BINARY)
    for name in {"tried_gib", "tried_mib", "free_mib"} & found.keys():
        quantity, _, unit = name.partition("_")
        stated[f"{quantity}_bytes"] = size(found[name], unit, BINARY)
    if "code" in found:
        stated["code"] = int(found["code"])
    if "row" in found:
        stated["source"] = ":".join(part for part in (found.get("file"), found["row"]) if part)
    if found.get("how") == "host alloc":
        stated["pool"] = "pinned"
    return stated


def _below(
    page: Page, index: int, match: re.Match[str], sought: tuple[tuple[str, re.Pattern[str]], ...]
) -> tuple[Line, dict[str, Any]]:
    """The figures of the account under the message, and the line of the last one."""
    first, *below = page.after(index, _FIGURE_LINES)
    last, found = first, dict[str, Any]()
    for line, text in ((first, first.text[match.end() :]), *((line, line.text) for line in below)):
        if line is not first and _XGBOOST_HEAD in text:
            break  # another worker's
        for name, pattern in sought:
            if figure := pattern.search(text[:200]):
                last, found[name] = line, size(figure[1], figure[2] or "")
    limit = found.get("limit_bytes")
    full = limit is not None and (found.get("allocated_bytes") or 0) >= _NEARLY * limit
    return last, {**found, "capped": True} if full else found


def _asserted(page: Page, index: int) -> bool:
    """After a failed check or a bad address every later call fails too, a library's own allocations among them."""
    return any(_ASSERTED.search(line.text[:400]) for line in page.before(index))


FAMILY = Family(
    name="gpu_library",
    anchors=(
        "ALLOC_FAILED",
        "resource allocation failed",
        "cuBLAS error 3",
        "out of memory",
        "out_of_memory",
        "Out of memory",
        "ailed to alloc",
        "Memory allocation error on",
        "MemoryAllocator fail",
    ),
    triggers=(
        "_ALLOC_FAILED",
        "_INSUFFICIENT_RESOURCES",
        "cublas runtime error : resource",
        "_ALLOCATION_FAILED",
        "cuFFT failed to",
        "'out of memory'",
        "NCCL INFO",
        "Failed to CUDA",
        "nvshmem malloc failed",
        "MemoryAllocator fail",
        "Failed to HIP",
        "out_of_memory",
        "RMM failure",
        "RMM_ERROR_OUT_OF_MEMORY",
        "Out of memory allocating",
        "Out of GPU memory trying",
        "Out of memory. Requested ",
        "Error out of memory at line",
        " failed on ",
        "Error Code 2: OutOfMemory",
        "Failed to allocate memory for requested buffer",
        "is smaller than requested bytes of",
        "[malloc] Unable to allocate",
        "CallbackErrorOutOfMemory",
        "in AlignedAllocator",
        "OpenEncodeSessionEx failed",
        "Buffer failed: out of memory",
        "clEnqueue",
        "clCreate",
        "clBuild",
        "clFinish",
        _NO_SURFACE,
        "_STATUS_NOT_INITIALIZED",
        "_STATUS_INTERNAL_ERROR",
        "cuDNN algorithm to run convolution",
        "unable to find an engine",
        "Plan failed with a cudnnException",
        "library cublas was not initialized",
        "Requested amount of GPU memory",
        "due to insufficient memory",
        "insufficient to use tactic",
        "due to insufficient workspace",
        "out of memory to allocate",
        "halMemAlloc failed",
        "EL0004",
        "207018",
        "EI0007",
        "get_temporary_buffer failed",
        "to instantiate command buffer",
        "with minimum memory requirement",
        "CUSPARSE API failed",
        "MEM_OBJECT_ALLOCATION",
        "Memory Object Allocation",
        "StandardGpuResources",
        "Available Free mem :",
        "[FAILURE maximum pool",
        "RMM allocation of",
        "Device partition failed",
        "Unable to find a plan for this model",
        "Ran out of memory trying",
        "memory on the device is exhausted",
        "he resource allocation failed",
        "cuBLAS error 3",
        "ublas handle",
        "uBLAS handle",
        "udnn handle",
        "uDNN handle",
        "solverDnCreate(",
        "CUDNN_STATUS_NOT_SUPPORTED",
        _XGBOOST_HEAD,
        "bytes with alignment ",
        "memory pattern buffer",
        "failed with error out of memory",
        "failed with error 2 out of memory",
        "cuda execution failed with",
    ),
    read=read,
)
