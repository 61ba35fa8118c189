"""Host allocations that are refused: PyTorch's CPU allocator, Python, numpy, Arrow, C++, Rust, Java, Windows, pinned
memory; and compilers that were killed while building."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.budget import MUMPS
from oomdoctor.families.echoes import CHANGE, COMMENT, SOURCE, TEST, echo
from oomdoctor.families.event import Event, Lookalike, Read, Threshold, Usage
from oomdoctor.families.frames import OF_SHARED_MEMORY
from oomdoctor.families.gpu_library import OF_TINYGRAD, TINYGRADS, runs_on_the_cpu
from oomdoctor.families.kill import ABROAD
from oomdoctor.families.lines import (
    DEVICE_FAULT,
    FAULT_LINES,
    PAGEABLE,
    goes_on,
    goes_on_to_the_end,
    place_of,
    process_of,
)
from oomdoctor.families.loudness import is_exception, is_loud, is_marked_loud
from oomdoctor.families.refuser import OF_A_SUBMISSION
from oomdoctor.families.registrations import registration
from oomdoctor.families.shortage import OF_A_SETTING, listed, shortfall
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, GIB, MIB, asked, size

CHARACTERS: Final = 1500
HEAD: Final = 200  # characters of a line that quotes a command, and as many of its end
FRAMES: Final = 4  # lines above an exception: the innermost frames


class HostAllocation(Event, frozen=True, kw_only=True):
    """An allocation of host memory was refused. A full Linux machine kills instead: think of limits, overcommit and
    sizes that no machine has."""

    family = "host_alloc"
    kind = "host-allocation"

    pool: str = "host_ram"
    strength: int = 2  # 3 where the size is printed

    allocator: str  # "torch", "python", "numpy", "arrow", "c++", "rust", "os", "windows", "java", "node", "opencv"
    tried_bytes: Usage[int | None] = None
    mapped_bytes: Usage[int | None] = None  # what a runtime wanted of the system for it
    errno: int | None = None  # 12 on Linux; on Windows 1455: the commit limit, 1450: system resources
    shape: str | None = None  # as printed: "(60000, 60000)"
    dtype: str | None = None
    free_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    limit_bytes: Threshold[int | None] = None
    heap_used_bytes: Usage[int | None] = None  # of V8, after its last collection
    heap_free_bytes: Usage[int | None] = None  # of Java
    heap_committed_bytes: Usage[int | None] = None
    heap_limit_bytes: Threshold[int | None] = None
    metaspace_limit_bytes: Threshold[int | None] = None

    @property
    def part(self) -> str | None:
        """Which of its memories Java ran out of: each has a limit of its own."""
        if self.allocator != "java":
            return None
        return next((part for part, words in _PARTS_OF_JAVA if words.search(self.at.text)), "heap")


# std::length_error: libstdc++'s (bits/stl_vector.h, basic_string.tcc) and MSVC's; PyTorch's c10/core/TensorImpl.h
BEYOND_COUNTING: Final = (
    r"\bnumel: integer multiplication overflow\b"
    r"|\bcannot create std::\w{2,20} larger than max_size\(\)"
    r"|\bwhat\(\):\s{1,4}(?:(?:vector|deque|basic_string)::_M_(?:default_append|fill_insert|range_insert|realloc_\w{1,12}"
    r"|create|replace_aux)|(?:vector|deque|string) too long)$"
)
# numpy/_core/src/multiarray/conversion_utils.c and ctors.c: a length that npy_intp does not hold
BEYOND_NUMPY: Final = r"Maximum allowed (?:dimension|size) exceeded"
_PARTS_OF_JAVA: Final = (
    ("metaspace", late(r"\bMetaspace\b|\bCompressed class space\b|\bPermGen space\b")),
    ("direct", late(r"(?i)\bdirect (?:buffer )?memory\b|\bOutOfDirectMemoryError\b")),
)


# Who locks pages by the system's own call, which RLIMIT_MEMLOCK bounds
LOCKING: Final = ("rdma", "mlock", "bpf", "adapter")


class PinnedAllocation(Event, frozen=True, kw_only=True):
    """Page-locked host memory was refused: by the driver, or by the limit on locked memory.

    Where a GPU library's own sentence tells of it, that library's family reads it, with the pool "pinned"."""

    family = "host_alloc"
    kind = "pinned-allocation"

    pool: str = "pinned"
    strength: int = 2  # 3 where the size is printed

    allocator: str  # "cuda", "rdma", "mlock", "hugepages"; "bpf" and "adapter" where a registration was refused
    tried_bytes: Usage[int | None] = None
    errno: int | None = None


class CutPinning(PinnedAllocation, frozen=True, kw_only=True):
    """A traceback ends in the call that pins memory, and no exception stands below it."""

    strength: int = 1

    allocator: str = "cuda"


class CompilerKill(Event, frozen=True, kw_only=True):
    """A compiler was killed, or found no memory, while building."""

    family = "host_alloc"
    kind = "compiler-kill"

    pool: str = "host_ram"
    strength: int = 2

    program: str | None = None  # "cc1plus", "cicc", "ptxas"
    signal: int | None = None  # the number, where it is printed
    tried_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None  # of its own heap, as GNU's programs count it: libiberty/xmalloc.c

    @property
    def ended_itself(self) -> bool:
        """Whether it found no memory, and nobody killed it."""
        return self.tried_bytes is not None or _RAN_OUT.search(self.at.text) is not None


_AFTER_A_TOTAL: Final = late(r"\bafter a total of (\d{1,20}) bytes")
_RAN_OUT = late(r"(?i)out of (?:heap|memory)|memory exhausted|allocation failure|\b(?:C3859|C1076)\b")
WARNINGS: Final = ("WARN", "WARNING", "Warning")
_WARNED = late(r"(?i)\bwarn(?:ing)? ?:")
_OF_A_FAULT: Final = rf"{DEVICE_FAULT}|\b(?:CUDA|HIP) error: ?7\d\d\b"
_DEVICE_FAILED = late(
    rf"(?i){_OF_A_FAULT}|\bcu[A-Z]\w{{3,40}} fail|launch timed out|\b(?:memcpy|kernel|stream) \w{{0,12}} ?failed"
)
# What a kernel did before, and the next call reports
_FAULT = late(rf"(?i){_OF_A_FAULT}|\b(?:cuda|hip)Error(?:Illegal|Launch)\w{{4,20}}")
_ONNX_RUNTIME: Final = "onnx"
# The system's calls that ask for memory: what they fail with is an error's number
_CALLS: Final = (
    r"mmap\d{0,2}|mremap|shm(?:get|at|_open)|memfd_create|ftruncate|s?brk|clone\d?|v?fork|mlock(?:all)?|execve"
)
_NUMBERS: Final = ("errno=12", "errno 12", "errno: 12", "errno = 12")
# Refused host memory, by who refused it. "bad_alloc" and MemoryError may also be a GPU library's: see _of_the_gpu.
_ALLOCATORS: Final = tuple(
    (allocator, late("|".join(patterns)))
    for allocator, *patterns in (
        ("torch7", r"\.lua:\d{1,7}: \$ Torch: not enough memory: you"),  # Lua's, no PyTorch
        (
            "torch",
            r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)",
            r"Torch: not enough memory: you",
            r"enforce fail at CPUAllocator\.cpp:\d{1,5}\]\W{1,4}posix_memalign",  # 1.0, without the size
        ),
        (
            "numpy",
            r"Unable to allocate \d[\d.]{0,12} ?[KMGTPE]?i?B(?:ytes)? for an array with shape",
            r"Unable to allocate array with shape",  # 1.17.0
            r"\bValueError: array is too big\b",
            rf"\b(?:Value|Overflow)Error: {BEYOND_NUMPY}$",
        ),
        # pybind11/pytypes.h, of Python's own objects
        ("python", r"\bCould not allocate (?:bytes|string|list|tuple|dict|set|memory ?view) object!"),
        ("r", r"\b[Cc]annot allocate (?:vector|memory block) of (?:size|length) \d"),  # memory.c; also an Rcpp's
        ("redis-server", r"^\S{1,12} .{6,40} # Out Of Memory allocating \d{1,20} bytes!"),  # zmalloc's handler
        # MySQL's and MariaDB's, at its start
        ("innodb", r"\bInnoDB(?:\]|: Fatal error:|:) [Cc]annot allocate memory for the buffer pool"),
        (
            "postgresql",
            r"\bcould not (?:map anonymous shared memory|create shared memory segment): Cannot allocate memory",
            r"\bDETAIL: {1,4}Failed on request of size \d{1,20}(?: in memory context|\.\s{0,4}$)",  # of a query
        ),
        ("arrow", r"\b(?:malloc|realloc|mmap) of size \d{1,20} failed"),
        (
            "jemalloc",
            r"^<jemalloc>: Error in \w{1,20}\(\): out of memory\b",
        ),  # with opt.xmalloc; SPAdes' own says how much
        # OpenBLAS, driver/level3/level3_gemm3m_thread.c; any library that names the call and where it was made
        ("libc", r"(?<![\w.])(?:OpenBLAS ?: )?(?:m|c|re)alloc failed (?:in|at) (?:\w{1,40}_\w{1,40}|\w{2,60}\(\))"),
        ("libgomp", r"^\W{0,4}libgomp: Out of memory allocating \d"),  # libgomp/alloc.c: of malloc()
        ("tcmalloc", r"\btcmalloc\b[^\n]{0,80}\bUnable to allocate \d{1,20} \(new failed\)"),  # of operator new
        ("rust", r"\bmemory allocation of \d{1,20} bytes failed", r"kind: OutOfMemory, message: "),
        # its own on the CPU gives back nullptr; those of a card throw (src/storage_view.cc)
        ("ctranslate2", r"\bstorage_view\.cc:\d{1,5}: failed to allocated? memory"),
        ("opencv", r"Insufficient memory\) Failed to allocate \d"),
        # its arena serves the CPU as it serves a card
        (_ONNX_RUNTIME, r"(?i:bfc_?arena).{0,400}Failed to allocate memory for requested buffer of size \d"),
        (
            "c++",
            r"\] C\+\+ OOM in -fno-exceptions case",  # gperftools'
            r"\] bad allocation$|^bad allocation$",  # of MSVC's library
            r"\bLLVM ERROR: out of memory",
            rf"(?:{BEYOND_COUNTING})",
            r"std::bad_alloc\b|\bwhat\(\):\s{1,4}bad[_ ]alloc|: bad allocation$",
        ),
        (
            "windows",
            r"WinError 1455\b|\(os error 1455\)|\(1455\)|error code: <(?:1450|1455)>",
            # no other system counts so high: Go's runtime (mem_windows.go), and whoever prints GetLastError()
            r"(?i:\b(?:errno|GetLastError(?:\(\))?|(?:win32 |system )?error(?: code)?))[ :=]{1,3}1455\b",
            # Ray's object store; 8 and 14 are Windows' words for "out of memory", 1450 for "out of resources"
            r"\b(?:CreateFileMapping|MapViewOfFile)\(\) failed\. GetLastError\(\) = (?:8|14|1450|1455)\b",
        ),
        (
            "java",
            r"java\.lang\.OutOfMemoryError: (?:Java heap space|GC overhead|Metaspace|Compressed class|Requested array)",
            r"java\.lang\.OutOfMemoryError: (?:Direct buffer|Cannot reserve \d)|\bOutOfDirectMemoryError: ",
            # Gradle's daemon
            r"\bJVM (?:heap space|Metaspace) is exhausted|\brunning out of JVM (?:heap|memory|Metaspace)",
            r"GC triggered before VM initialization completed",
        ),
        # of the machine: its stacks, its code, the pages under its heap
        (
            "jvm",
            r"os::commit_memory\(.{0,200}(?:Cannot allocate memory|Not enough space)",
            r"OutOfMemoryError: requested \d{1,20} bytes for .{1,80}Out of swap space",  # before JDK 7
            r"Native memory allocation \(m(?:alloc|map)\) failed to",
            r"^Could not reserve enough space for (?:\d{1,15}KB )?(?:object heap|code cache)",
            # what it sets aside at its start
            (
                r"^Could not allocate (?:metaspace|compressed class space|code cache|(?:java |object )?heap"
                r"|CodeHeap \S{1,40}): \d"
            ),
        ),
        (
            "node",
            r"JavaScript heap out of memory|\bJS heap out of memory",
            r"Fatal JavaScript out of memory: ",  # V8 without Node.js: Deno
        ),
        (
            "runtime",
            r"\bHeap exhausted(?:;| during )",  # GHC's, SBCL's
            r"\b(?:vector|cons) memory (?:exhausted \(limit reached|limit of [\d.]{1,20} \w{1,6} reached)",  # R's
            r"\bExhausted heap space, trying to allocate \d",  # Dart's
            r"Not enough memory to run compilation\. Try to increase it",  # Kotlin's daemon
            r"JVMDUMP039I .{0,80}java/lang/OutOfMemoryError",  # OpenJ9's
            r"\bcache resources exhausted\b.{0,300}OpenPixelCache",  # ImageMagick's policy
        ),
        ("v8", r"Fatal process out of memory: "),
        ("redis", r"command not allowed when used memory > 'maxmemory'"),
        ("dotnet", r"(?:failed with error|HRESULT:) 0x8007000E\b"),
        ("wsl", r"\b(?:0x800705aa|HCS/E_OUTOFMEMORY)\b"),
        (
            "go",
            r"fatal error: runtime: (?:out of memory|cannot allocate memory)",
            r"failed to create new OS thread \([^()\n]{0,60}errno=12\)",
        ),
        (
            "os",
            r"\[Errno 12\]",
            (
                # InnoDB and whoever goes on with other memory say more on lines of their own
                r"(?i:^(?![^\n]{0,600}(?:fall(?:s|ing)? ?back|retry|instead|innodb))"
                r"(?=[^\n]{0,400}\b(?:fail|error|could not|cannot|unable))[^\n]{0,400}?"
                rf"(?:\b(?:{_CALLS})\b|\b(?:memory|region|segment)\b)[^\n]{{0,120}}\berrno\b[ :=]{{1,3}}12\b)"
            ),
            # MUMPS' numbers for an array that it could not allocate (4.10 to 5.7)
            rf"{MUMPS}-(?:5|7|13)\b",
            r"\bpixel cache allocation failed\b|\bPixelCacheAllocationFailed\b",  # ImageMagick's
            r"\bfork: Cannot allocate memory",
            r"unable to mmap \d{1,20} bytes from file",
            r"mach_vm_map\(size=\d{1,20}[^()\n]{0,40}\) failed|\bmalloc: can't allocate region",  # macOS
            r"Insufficient free host memory pages available to allocate guest RAM",  # QEMU
            r"AddressSanitizer: (?:requested allocation size 0x|out of memory: allocator is|failed to allocate 0x)",
            r"\bfork/exec \S{1,200}: cannot allocate memory",  # Go
            r"[Cc]annot allocate memory(?: \(os error 12\)| \(12\)| - \S{1,200} \(Errno::ENOMEM\)| \(ThreadError\)|$)",
        ),
        # what YNNPACK computes with on a CPU, for XLA since 2025: google/slinky, runtime/evaluate.cc
        ("slinky", r"^allocate of <?[\w.]{1,60}>? failed\.$"),
        ("python", r"(?:^|[\s.])(?:_Array|Arrow)?MemoryError(?::(?! Task )|\s{0,4}$|\(\))"),
    )
)

HUGE_PAGES: Final = "hugepages"
_FAILED_TO = "(?i:could not|failed to|unable to)"
_PINNED: Final = tuple(
    (allocator, late("|".join(patterns)))
    for allocator, *patterns in (
        (
            "cuda",
            r"\bcudaHost(?:Alloc|Register)\b[^\n]{0,80}(?:fail|error|out of memory|refus)",
            r"\bcudaMallocHost\b[^\n]{0,80}(?:fail|error|out of memory)",
            # CANN's, without memory
            r"\baclrtMallocHost\b[^\n]{0,200}(?:error code is |\b(?:ret(?:urn)?|rc|code|err(?:or)?)[ :=]{1,3})207001",
            # llama.cpp prints this too, and goes on with pageable memory
            (
                rf"^(?!.{{0,80}}ggml_).{{0,200}}{_FAILED_TO} (?:allocate|pin|lock) "
                r"(?:(?!\. ).){0,40}(?<!non-)(?<!un)pinned"  # in the same sentence
            ),
        ),
        (
            "rdma",
            r"\bibv_(?:reg_mr|create_qp|create_cq|alloc_pd)\w{0,20}\b[^\n]{0,120}Cannot allocate memory",
            r"\bibv_(?:reg_mr|create_qp|create_cq)\w{0,20}\b[^\n]{0,80}(?:errno|error)[ :=]{0,3}12\b",
        ),
        (
            "rdma",
            # what libfabric keeps its packets in is registered with the card
            r"\blibfabric:\d[^\n]{0,200}: Cannot allocate memory",
            r"\bgdr_(?:pin_buffer|map)\w{0,6}\([^\n]{0,160}\) failed: 12\b",  # NCCL
            r"^\s{1,8}Memlock limit:\s{1,8}\d",  # at the end of Open MPI's notice
        ),
        (
            HUGE_PAGES,  # of a pool that is set aside for them (hugetlbpage.rst of Linux), and not transparent ones
            (
                rf"{_FAILED_TO} (?i:allocate|reserve|get|obtain|map)\b(?![^\n]{{0,120}}transparent)[^\n]{{0,60}}"
                r"(?i:\bhuge ?pages?\b(?! (?:statist|stats|info|setting|support|count|size)))"
            ),
            r"\bMAP_HUGETLB\b[^\n]{0,80}(?:[Cc]annot allocate memory|\bENOMEM\b)",
        ),
        (
            "mlock",
            r"\bmmap: too much locked memory\b",  # Go's
            r"\bmlock(?:all)?(?:\(\))?\b[^\n]{0,80}(?:Cannot allocate memory|RLIMIT_MEMLOCK)",
        ),
    )
)
_PIN_THREAD = late(r"Caught RuntimeError in pin memory thread")
_DRIVER_REFUSED = late(r"CUDA error: (?:out of memory|invalid argument)")
# A traceback drawn by rich that ends in a call of pin_memory, and the message was not pasted with it.
_PIN_FRAME = late(r"❱ ?\d{1,6}[ │]{0,80}[^\n]{0,200}\.pin_memory\(")
_MESSAGE = late(r"^\W{0,8}(?:\w{1,40}\.){0,6}\w{1,60}(?:Error|Exception|Interrupt)\b")
MESSAGE_LINES: Final = 30
# llama.cpp locks the model if it can, and goes on if it cannot.
_GOES_ON = late(r"(?i)\bwarn(?:ing)?\b[^\n]{0,20}failed to mlock|failed to mlock \d|Unable to lock JVM Memory")

_COMPILERS = late(
    # gcc.c names the signal in the user's language, of which a pipe may leave nothing
    rf"(?:Killed|fatal error:|{ABROAD}) signal terminated program"
    r"|internal compiler error: Killed \(program|died due to signal \d"
    r"|(?:ld|collect2|cc1plus|clang\S{0,6}|[gc]\+\+|gcc|lto1) terminated with signal 9"
    r"|unable to execute command: Killed"
    r"|/pkg/tool/\w{1,40}/\w{1,20}: signal: killed|failed: \(Killed\): \S{1,80} failed: error executing command"
    r"|rustc\b.{0,400}\(signal: 9|LLVM ERROR: out of memory|\bout of memory allocating \d{1,20} bytes after a total"
    r"|virtual memory exhausted: Cannot allocate memory|\bneuronx?-cc was forcibly killed"
    # MSVC's and its linker's, Intel's, CUDA's, binutils'
    r"|\bfatal error (?:C1060|C1002|C1076|LNK1102)\b|\berror C3859\b|\bcatastrophic error: [^\n]{0,40}out of memory"
    r"|\b(?:nvcc|ptxas|fatbinary|nvlink) (?:fatal|error) {1,4}: [Mm]emory allocation failure"
    r"|\bld(?:\.\w{2,5})?: [^\n]{0,400}\bmemory exhausted"
)
# LLVM also compiles inside of other programs: kernels of OpenCL, a query, a function of Numba
_LLVM = late(r"\bLLVM ERROR: out of memory")
_BUILD = late(
    r"(?i)\b(?:rustc|cargo|swiftc?|nvcc|hipcc|cmake|ninja|bazel|xcodebuild|cc1\w{0,4}|cicc|lld)\b"
    r"|\b(?:clang|gcc|g\+\+|c\+\+)|could not compile|Program arguments: |\bmake(?:\[\d{1,3}\])?: |\bBuilding \w"
)
BUILD_LINES: Final = 60
_RUSTC = late(r"(?:^|[`/\s])rustc --")
_SIGNAL = late(r"(?:died due to signal|terminated with signal|\(signal:) (\d{1,2})\b")
# Gradle's own, which watches the heap of its daemon (LowHeapSpaceDaemonExpirationStrategy, 3.0 on)
_OF_A_DAEMON = late(
    r"\bExpiring Daemon because JVM (?:heap space|Metaspace) is exhausted"
    r"|\b(?:will expire after|will be stopped at the end of) the build\b"
)
_BUILD_FAILED = late(
    r"^FAILURE: |\bBUILD FAILED\b|\bdaemon (?:has been stopped|disappeared)|OutOfMemoryError|^> (?:Java heap|Metaspace)"
)
_CRASHED = late(r"died due to signal (?!9\b)\d|terminated with signal (?!9\b)\d")

_SHM = late(r"/dev/shm/|(?i:unable to allocate|failed to map) shared memory\b")  # noqa: S108  (read, not written to)
# of its error's number 11; with 12 it is memory
_THREADS = late(
    r"^(?![^\n]{0,400}(?:Cannot allocate memory|errno=12\b))[^\n]{0,400}"
    r"(?:can't start new thread|fork: retry: (?:Resource|No child)|fork: Resource temporarily unavailable"
    r"|pthread_create failed|unable to create (?:new )?native thread|BlockingIOError: \[Errno 11\]"
    r"|failed to create (?:new )?(?:OS )?thread|libgomp: Thread creation failed"
    r"|\bthread(?: constructor failed)?: Resource temporarily unavailable)"
)
# A thread's stack is address space: where that is limited, pthread_create's EAGAIN is for the stack (nptl: glibc says
# EAGAIN where its mmap was refused)
_THREAD = late(
    r"\bnew thread|native thread|OS thread|pthread_create failed|Thread creation failed"
    r"|\bthread(?: constructor failed)?: Resource"
)
_OF_A_FORK = late(r"fork: retry: (?:Resource|No child)|fork: Resource temporarily unavailable")  # fork(2): limits alone
_ADDRESS_LIMIT = late(r"(?:^|\s)(?:[$#%>] |\+{1,3} )ulimit (?:-[SH] {1,2})?-[SH]?v {1,2}\d{1,15}\s{0,4}(?:$|[;&|])")
_GPU = late(r"(?i)cuda|\brmm\b|cudf|\brapids|\bgpu\b|hip(?:Error|Malloc)|\bMEM_OBJECT_ALLOCATION_FAILURE")
_OF_THE_SYSTEM = late(r"system_memory_resource|/host_memory\.cpp")  # RMM's and libcudf's for the host's memory
# arrays of these are the card's, and what tinygrad's devices allocate is theirs
_ON_A_CARD = late(rf"/(?:cuml|cudf|cupy)/|{OF_TINYGRAD}")
# What a program's own MemoryError says that it is of
_OF_ANOTHER = late(
    r"MemoryError: (?=.{0,200}\b(?:(?i:vram|gpu memory|device memory|(?:cache|memory|kv) blocks?|kv[ _]?cache)\b"
    r"|\b(?:pages|blocks|slots) for (?:the |an? |this )?(?:decod|prefill|sequence|request|batch)"
    r"|(?:cuMem|cudaMalloc|hipMalloc|clCreateBuffer)|(?i:(?:free |not enough |no )disk space\b)"
    r"|(?i:metal|cuda|hip) (?:OOM|[Oo]ut of memory)\b"
    rf"|failed on (?:{TINYGRADS})(?::\d{{1,3}})?\. Used: ))"
)
# perror() prints the last errno, whoever set it
_ERRNO_OF_ANOTHER = late(
    r"\b(?:CUDA|cuDNN|cuBLAS|HIP) (?:status )?[Ee]rror: [^:\n]{1,120}: Cannot allocate memory\s{0,4}$"
)
_ERROR_CODE = late(r"\s{0,8}Error code (\d{1,5}) \(")  # of PyTorch 1.x, on its own line
# Where a terminal broke PyTorch's sentence
_BROKEN = late(r": you(?: tried(?: to(?: allocate)?)?)?\s{0,4}\Z")
# "[9278:0x7394fe0] 18895011 ms: Mark-sweep 3461.9 (4133.4) -> 3461.9 (4131.2) MB": V8's MB are MiB
_COLLECTION = late(
    r"\[(\d{1,9}):(?:0x)?[0-9A-Fa-f]{6,16}\]\s{1,9}\d{1,12} ms: (?:Mark-|Scavenge)[^\n>]{1,80}"
    r" -> (\d{1,9}\.\d) \((\d{1,9}\.\d)\) MB\b"
)
_COLLECTION_LINES: Final = 40
_BESIDE: Final = ("free_bytes", "used_bytes", "total_bytes", "limit_bytes")
# java.lang.Runtime's, as its functions are called: "totalMemory()=4294967296", "maxMemory: 8589934592"
_RUNTIME: Final = {
    "max": "heap_limit_bytes", "total": "heap_committed_bytes", "free": "heap_free_bytes"
}  # fmt: skip
_OF_THE_RUNTIME = late(r"\b(max|total|free)Memory(?:\(\))?\s?[:=]\s?(\d{6,15})\b")
# What Gradle's daemon says below its own message
_CONFIGURED = late(r"\bmax (heap space|metaspace) is '(\d{1,6}(?:\.\d{1,3})?) ([KMGT]i?B)'")
_OF_GRADLE: Final = {"heap space": "heap_limit_bytes", "metaspace": "metaspace_limit_bytes"}
_LINES_OF_R: Final = 12
_LIMIT_OF_R: Final = late(r"\bReached total allocation of (\d{1,9})Mb: see help\(memory\.size\)")
_RUNTIME_LINES: Final = 30
# src/runtime/mem.go: sysAlloc(n, ...), the others (v, n, ...); since 1.18 a "?" follows what a register held
_SYSTEM_MAP = late(
    r"runtime\.sys(?:(?:Map|Reserve|Used)(?:OS)?\(0x[\da-f]{1,16}\??, |Alloc(?:OS)?\()0x([\da-f]{1,16})\??[,)]"
)
_LARGE_ALLOCATION = late(
    r"runtime\.(?:\(\*mcache\)\.allocLarge\((?:0x[\da-f]{1,16}\??, )?|largeAlloc\()0x([\da-f]{5,12})\??[,)]"
)
_STACK_LINES: Final = 20
# storage/innobase/srv/srv0start.cc of 5.5, 5.7 and 10; src/backend/port/sysv_shmem.c. MySQL 8 says no size.
_OF_A_DATABASE: Final = {
    "innodb": ("above", late(r"\bInitializing buffer pool, (?:total )?size = (\d{1,15}(?:\.\d)?)([KMG]?)(?![\d.])")),
    "postgresql": ("below", late(r"\b(?:request of size|size \(currently|currently) (\d{1,20})()\b")),
}
_DATABASE_LINES: Final = 6
_SWAP_STAYS = late(r"\bswapoff failed: Cannot allocate memory")
# What a CUDA call fails with where no card can be used at all
_NO_DRIVER = late(
    r"(?i)\b(?:pinned|page-locked|cudaHostAlloc|cudaMallocHost|cudaHostRegister)\b[^\n]{0,200}"
    r"(?:driver version is insufficient|no cuda-capable device|no kernel image|initialization error"
    r"|(?:system )?driver (?:not loaded|is shutting down|mismatch)|system not yet initialized|no device found"
    r"|no pinned (?:memory )?pool\b"
    r"|cudaError(?:InsufficientDriver|NoDevice|InitializationError)|hipErrorNoDevice|invalid device ordinal)"
)
_NOT_MEMORY = (
    (_OF_A_FORK, mark("the limit on processes or threads was hit (ulimit -u, pids), not memory")),
    (
        _THREADS,
        mark(
            "probably the limit on processes or threads (ulimit -u, pids), not memory; this would tell: "
            "ulimit -u; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current"
        ),
    ),
    (_SWAP_STAYS, mark("the swap could not be released and stays in use")),
    (_NO_DRIVER, mark("no driver can pin memory here; memory was not short")),
    (_GOES_ON, mark("locking memory is optional; the program continues without")),
    (_ERRNO_OF_ANOTHER, mark("the device failed with another error; the printed errno is an old one")),
)
_PAGEABLE = late(PAGEABLE)
_HANDLED = late(
    r"(?i)\b(?:retry(?:ing)?|falling back|skipping|ignored|continuing|anyway|will not be available"
    r"|fallback to(?=[^.;:\n]{1,80}\b(?:because|since|as|due to)\b))\b"
    r"|\bmemory\b[^\n]{0,60}\. {1,2}disabling \w"  # RCCL's, of its clique-based kernels
)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:CHARACTERS]
    if not _is_ours(text) or echo(text) in {SOURCE, COMMENT, TEST, CHANGE}:
        return
    if _SHM.search(text):
        return  # of data_loader
    if "out of memory" in text and _ERRNO_OF_ANOTHER.search(text):
        return
    stack = _for_its_stack(page, text)
    if why := _no_failure(page, index, text, stack=stack):
        yield Lookalike(place_of(page, line), why)
    elif _is_a_compilers(page, index, text):
        yield _compiler(page, line, _command(line, text))
    elif (pinned := _of_locked_pages(page, index, text)) is not None:
        yield pinned
    elif _PIN_THREAD.search(text):
        yield from _pin_thread(page, index)
    elif _PIN_FRAME.search(text):
        yield from _pin_frame(page, index)
    elif allocator := "os" if stack else _allocator(page, index, text):
        yield _refused(page, index, allocator, text)


def _of_locked_pages(page: Page, index: int, text: str) -> Read | None:
    """What the line says of page-locked memory: by its words, or as a registration of memory."""
    if by := _first(_PINNED, text):
        handled = _is_handled(page, index, text) or (by == HUGE_PAGES and _takes_another_way(text))
        tried = listed(text).get("tried_bytes") if by == HUGE_PAGES else None
        return _handled(page, page.lines[index]) if handled else _pinned(page, index, by, tried)
    asked_for = registration(page, index, text)
    if asked_for is None:
        return None
    if _is_handled(page, index, text) or _takes_another_way(text):
        return _handled(page, page.lines[index])
    return _pinned(page, index, asked_for.by, asked_for.size)


# jemalloc, src/pages.c: built for smaller pages than the kernel's
_NOT_MADE_FOR_THE_KERNEL: Final = "<jemalloc>: Unsupported system page size"
_ALLOCATOR_LINES: Final = 5


def _no_failure(page: Page, index: int, text: str, *, stack: bool) -> str | None:
    """Why the line is none of memory."""
    if _goes_on_without(page, index, text):
        return mark("Gradle ends its daemon behind this build; no line says that the build failed")
    if any(_NOT_MADE_FOR_THE_KERNEL in above.text for above in page.before(index, _ALLOCATOR_LINES)):
        return mark("the allocator is not made for this kernel's page size and refuses every request")
    return next((why for pattern, why in _NOT_MEMORY if pattern.search(text) and not stack), None)


def _goes_on_without(page: Page, index: int, text: str) -> bool:
    """Whether Gradle only says that it ends its daemon behind this build, and no line tells of a failed build."""
    if _OF_A_DAEMON.search(text) is None:
        return False
    return not any(
        _BUILD_FAILED.search(line.text[:CHARACTERS]) for line in page.lines[index + 1 : index + 1 + BUILD_LINES]
    )


def _allocator(page: Page, index: int, text: str) -> str | None:
    """Which allocator of host memory it was."""
    found = _first(_ALLOCATORS, text)
    if found is None or _of_another(page, index, found, text) or (found == "python" and _is_its_own(text)):
        return None
    return found


def _for_its_stack(page: Page, text: str) -> bool:
    """Whether a thread was refused where address space is limited."""
    refused = _THREADS.search(text) is not None and _THREAD.search(text) is not None
    return refused and page.once(_has_an_address_limit)


def _has_an_address_limit(page: Page) -> bool:
    """Whether a shell was told a limit on address space."""
    return any(_ADDRESS_LIMIT.search(line.text[:CHARACTERS]) for line in page.lines if "ulimit" in line.text)


def _command(line: Line, text: str) -> str:
    """The line without the middle of a command that it quotes: Cargo says behind it how it ended."""
    return f"{text[:HEAD]} {line.text[-HEAD:]}" if "exit successfully" in text and len(line.text) > 2 * HEAD else text


def _is_ours(text: str) -> bool:
    """Torch's own exception is the card's, whose families read it."""
    without = text.replace("torch.OutOfMemoryError", "").replace("torch.cuda.OutOfMemoryError", "")
    return any(trigger in without for trigger in _TRIGGERS)


def _first(table: tuple[tuple[str, re.Pattern[str]], ...], text: str) -> str | None:
    return next((name for name, pattern in table if pattern.search(text)), None)


def _of_another(page: Page, index: int, allocator: str, text: str) -> bool:
    """RMM raises "MemoryError: std::bad_alloc: out_of_memory: CUDA error": that is the card. An engine raises one where
    its own blocks run out."""
    if allocator == _ONNX_RUNTIME:
        return not page.once(runs_on_the_cpu)
    if allocator == "os":
        return OF_A_SUBMISSION.search(text) is not None  # the errno is the kernel's driver's
    if allocator not in {"c++", "python"}:
        return False
    if allocator == "python" and _OF_ANOTHER.search(text):
        return True
    following = [line.text for line in page.after(index, 2)[:2]]
    if any(_FAULT.search(line.text) for line in (*page.before(index, 2), *page.after(index, 2))):
        return True
    if any(_OF_THE_SYSTEM.search(text) for text in following):
        return False
    if any(_GPU.search(text) for text in following):
        return True
    above = [line.text[:CHARACTERS] for line in page.before(index, FRAMES)]
    return any(_ON_A_CARD.search(text) or OF_SHARED_MEMORY.search(text) for text in above)


def _is_its_own(text: str) -> bool:
    """Whether the program itself raised it, and names its setting, or says what it wanted and what there was."""
    found = shortfall(text, raised=True)
    return found is not None and (found.compared is not None or OF_A_SETTING.search(text) is not None)


def _refused(page: Page, index: int, allocator: str, text: str) -> Read:
    line = page.lines[index]
    if _HANDLED.search(text):
        return _handled(page, line)
    beside = {name: value for name, value in listed(text).items() if name in _BESIDE}
    figures = {**beside, **_figures(text)}
    below = page.after(index, 2)[-1]
    code = _ERROR_CODE.match(below.text) if allocator == "torch" else None
    if code is not None:
        figures.setdefault("errno", int(code[1]))
    broken = allocator == "torch" and _BROKEN.search(text) is not None
    if broken:
        figures = {**figures, **_figures(f"{text.rstrip()} {below.text}")}
    last = below if code is not None or broken or "what():" in below.text else line
    process = process_of(line)
    if allocator == "node":
        heap = _heap(page, index)
        process = replace(process, pid=heap.pop("pid", process.pid))
        figures |= heap
    elif allocator == "java":
        figures |= _runtime(page, index)
    elif allocator == "go":
        figures |= _mapped(page, index)
    elif allocator == "r":
        figures |= _limit_of_r(page, index)
    elif allocator == "windows":
        figures.setdefault("tried_bytes", listed(text).get("tried_bytes"))
    elif allocator in _OF_A_DATABASE:
        figures |= _pool(page, index, *_OF_A_DATABASE[allocator])
    return HostAllocation(
        at=place_of(page, line, last),
        time=line.mark.time,
        process=process,
        allocator=allocator,
        strength=3 if figures.get("tried_bytes") else 2,
        **{key: value for key, value in figures.items() if key != "program"},
    )


def _pool(page: Page, index: int, where: str, said: re.Pattern[str]) -> dict[str, Any]:
    """What a database wanted, as its lines above tell, or PostgreSQL's hint below."""
    near = page.before(index, _DATABASE_LINES) if where == "above" else page.after(index, _DATABASE_LINES)
    found = next((match for line in near if (match := said.search(line.text[:CHARACTERS]))), None)
    return {} if found is None else {"tried_bytes": size(found[1], found[2] or "b", BINARY)}


def _limit_of_r(page: Page, index: int) -> dict[str, Any]:
    """What R up to 4.1 allows itself on Windows, as its warnings beside the error tell (src/main/memory.c)."""
    near = page.lines[max(0, index - _LINES_OF_R) : index + _LINES_OF_R]
    told = next((found for line in near if (found := _LIMIT_OF_R.search(line.text[:CHARACTERS])) is not None), None)
    return {} if told is None else {"limit_bytes": int(told[1]) * MIB}


def _mapped(page: Page, index: int) -> dict[str, Any]:
    """What Go's runtime wanted to map, in the innermost frame below: "runtime.sysMap(0xc000000000, 0x400000)"; and the
    program of it, where that is one large piece."""
    below = [line.text[:CHARACTERS] for line in page.after(index, _STACK_LINES)]
    mapped, asked_for = (
        next((int(found[1], 16) for text in below if (found := pattern.match(text)) is not None), None)
        for pattern in (_SYSTEM_MAP, _LARGE_ALLOCATION)
    )
    return {"tried_bytes": asked_for or mapped, "mapped_bytes": mapped}


def _runtime(page: Page, index: int) -> dict[str, Any]:
    """What a program in Java prints near its end of what its runtime tells of the heap."""
    near = page.lines[max(0, index - _RUNTIME_LINES) : index + _RUNTIME_LINES]
    said = [found for line in near for found in _OF_THE_RUNTIME.findall(line.text[:CHARACTERS])]
    configured = [found for line in near for found in _CONFIGURED.findall(line.text[:CHARACTERS])]
    limits = {_OF_GRADLE[name]: size(value, unit, BINARY) for name, value, unit in configured}
    return {**limits, **{_RUNTIME[name]: int(value) for name, value in said}}


def _heap(page: Page, index: int) -> dict[str, Any]:
    """V8's process and its heap, as it lists its last collections above."""
    lines = (line.text for line in reversed(page.before(index, _COLLECTION_LINES)))
    last = next((found[-1] for text in lines if (found := list(_COLLECTION.finditer(text)))), None)
    if last is None:
        return {}
    used, committed = (size(number, "mib", BINARY) for number in last.groups()[1:])
    return {"pid": int(last[1]), "heap_used_bytes": used, "heap_committed_bytes": committed}


def _is_handled(page: Page, index: int, text: str) -> bool:
    """Whether pageable memory does it, too: a warning behind which nothing fails, or the next line says so."""
    following = page.after(index, 2)[-1].text[:CHARACTERS]
    if _HANDLED.search(text) or _PAGEABLE.search(following):
        return True
    if not is_exception(text) and (_PAGEABLE.search(text) or _was_done_without(page, index, text)):
        return True
    return not is_loud(page, index, text, sure=True, compared=True)


def _was_done_without(page: Page, index: int, text: str) -> bool:
    """Whether the job's own progress shows that it went on: a ladder of tries has errors right below a warning, and a
    transport that fails, as Open MPI says in a notice, leaves another one."""
    if is_marked_loud(page, index, text):
        return goes_on_to_the_end(page, index)
    return goes_on(page, index)


def _takes_another_way(text: str) -> bool:
    """Whether its words say that another way was taken: "using TCP because registering the buffer failed"."""
    if is_exception(text):
        return False
    return shortfall(text, raised=True) is not None and shortfall(text, raised=False) is None


def _handled(page: Page, line: Line) -> Lookalike:
    return Lookalike(place_of(page, line), mark("the failed allocation was caught; the program continued"))


def _pinned(page: Page, index: int, allocator: str, tried: int | None = None) -> Read:
    line = page.lines[index]
    warned = line.mark.level in WARNINGS or _WARNED.search(line.text) is not None
    if warned and any(_DEVICE_FAILED.search(above.text) for above in page.before(index, FAULT_LINES)):
        return Lookalike(place_of(page, line), mark("an earlier call on the GPU had failed"))
    figures = {"tried_bytes": tried, **_figures(line.text)}
    return PinnedAllocation(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        allocator=allocator,
        strength=1 if warned else 3 if figures["tried_bytes"] else 2,
        tried_bytes=figures["tried_bytes"],
        errno=figures.get("errno"),
    )


def _pin_thread(page: Page, index: int) -> Iterator[Read]:
    """The thread copies batches into pinned memory; the driver's refusal stands at the end of its traceback."""
    lines = page.after(index, 40)
    end = next((line for line in lines if _DRIVER_REFUSED.search(line.text)), None)
    if end is not None:
        first = lines[0]
        at = place_of(page, first, end)
        yield PinnedAllocation(at=at, time=first.mark.time, process=process_of(first), allocator="cuda")


def _pin_frame(page: Page, index: int) -> Iterator[Read]:
    lines = page.after(index, MESSAGE_LINES)
    if not any(_MESSAGE.search(line.text) or _PIN_FRAME.search(line.text) for line in lines[1:]):
        line = lines[0]
        yield CutPinning(at=place_of(page, line), time=line.mark.time, process=process_of(line))


def _is_a_compilers(page: Page, index: int, text: str) -> bool:
    if _COMPILERS.search(_command(page.lines[index], text)) is None:
        return False
    if _LLVM.search(text) is None:
        return True
    near = page.lines[max(0, index - BUILD_LINES) : index + BUILD_LINES]
    return any(_BUILD.search(line.text[:CHARACTERS]) for line in near)


def _compiler(page: Page, line: Line, text: str) -> Read:
    if _CRASHED.search(text):
        return Lookalike(place_of(page, line), mark("the compiler crashed; no process was killed for memory"))
    figures = _figures(text)
    return CompilerKill(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        program=figures.get("program") or ("rustc" if _RUSTC.search(text) else None),
        signal=int(signal[1]) if (signal := _SIGNAL.search(text)) else None,
        tried_bytes=figures.get("tried_bytes"),
        used_bytes=int(total[1]) if (total := _AFTER_A_TOTAL.search(text)) else None,
    )


def _figures(text: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, values in grammars.clauses("host_alloc", text[:CHARACTERS]):
        if values and name in _READERS:
            for key, value in _READERS[name](values[0]).items():
                figures.setdefault(key, value)
    return {key: value for key, value in figures.items() if value is not None}


_SIZE = late(r"(-?\d[\d.]*) ?([A-Za-z]*)")


def _bytes(text: str) -> int | None:
    match = _SIZE.match(text)
    return asked(match[1], match[2], BINARY) if match else None


def _whole_gib(text: str) -> dict[str, Any]:
    """THGeneral printed whole GiB, rounded down: "0GB" says nothing."""
    return {"tried_bytes": int(text.removesuffix("GB")) * GIB or None}


_READERS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "tried": lambda text: {"tried_bytes": _bytes(text)},
    "tried_whole_gib": _whole_gib,
    "errno": lambda text: {"errno": int(text)},
    "shape": lambda text: {"shape": text},
    "dtype": lambda text: {"dtype": text},
    "program": lambda text: {"program": text.strip("'")},
}


_TRIGGERS: Final = (
    *_NUMBERS,
    "exit successfully: `rustc",
    "DefaultCPUAllocator",
    "not enough memory: you tried",
    "Unable to allocate",
    "of size",
    "MemoryError",
    "bad_alloc",
    "larger than max_size",
    "integer multiplication overflow",
    "what():",
    "bad allocation",
    "thread: Resource",
    "constructor failed: Resource",
    "memory allocation of",
    "alloc failed in ",
    "alloc failed at ",
    "<jemalloc>: Error in",
    "kind: OutOfMemory",
    "Insufficient memory",
    "memory for requested buffer",
    "1455",
    "error code: <1450",
    "() failed. GetLastError()",
    "heap out of memory",
    "Fatal JavaScript",
    "Fatal process out of",
    "eap exhausted",
    "locked memory (",
    "vector memory ",
    "cons memory ",
    "Exhausted heap",
    "libgomp: Out of",
    "to run compilation",
    "JVMDUMP039I",
    "cache resources exhausted",
    "cache allocation failed",
    "CacheAllocationFailed",
    "MUMPS",
    "JVM heap space",
    "JVM Metaspace",
    "out of JVM",
    "GC triggered before",
    "Native memory allocation",
    "Could not allocate ",
    "to allocated memory",
    "'maxmemory'",
    "0x8007",
    "E_OUTOFMEMORY",
    "mach_vm_map(",
    "malloc: can't allocate",
    "fork/exec ",
    "Insufficient free host memory",
    "AddressSanitizer: ",
    "C++ OOM",
    "signal: killed",
    "(Killed): ",
    "runtime: out of memory",
    "allocate of ",
    "Could not reserve enough space",
    "runtime: cannot allocate",
    "posix_memalign",
    "Failed on request of size",
    "os::commit_memory",
    "annot allocate memory",
    "annot allocate vector",
    "annot allocate memory block",
    "Could not allocate ",
    "array is too big",
    "aximum allowed ",
    "Out Of Memory allocating",
    "[Errno 12]",
    "unable to mmap",
    "pinned",
    ".pin_memory(",
    "cudaHost",
    "cudaMallocHost",
    "aclrtMallocHost",
    "page-locked",
    "pin memory thread",
    "ibv_",
    "gdr_",
    "libfabric:",
    "lock JVM Memory",
    "uge page",
    "ugepage",
    "HUGETLB",
    "mlock",
    "signal terminated program",
    "Killed (program",
    "died due to signal",
    "terminated with signal",
    "was forcibly killed",
    "execute command: Killed",
    "LLVM ERROR",
    "fatal error C1",
    "error C3859",
    "LNK1102",
    "catastrophic error",
    "emory allocation failure",
    "memory exhausted",
    "(signal: 9",
    "out of memory allocating",
    "new thread",
    "native thread",
    "OS thread",
    "Thread creation failed",
    "pthread_create failed",
    "fork: ",
    "[Errno 11]",
)

FAMILY = Family(
    name="host_alloc",
    anchors=(
        *_NUMBERS,
        "CreateFileMapping() failed",
        "bad_alloc",
        "memory allocation of",
        "alloc failed in ",
        "alloc failed at ",
        "<jemalloc>: Error in",
        "out of memory",
        "annot allocate",
        "Native memory allocation (m",
        "Fatal JavaScript out",
        "heap space is exhausted",
        "died due to signal",
        "Killed",
    ),
    triggers=_TRIGGERS,
    read=read,
)
