"""Host memory that is refused though there may be some: limits on address space, what may be committed, heaps."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.budget import DataSpent, MapsSpent
from oomdoctor.families.container import LimitKill
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, set_limits, sign
from oomdoctor.signs.commands import ADDRESS_LIMIT, FREE, LIMIT_OR_FULL, MAPS_LIMIT, OVERCOMMIT, WHO_HOLDS_IT_NOW
from oomdoctor.signs.machine import is_on_windows
from oomdoctor.signs.set_limits import host_refusal, host_refusals
from oomdoctor.signs.spark import drivers_heap_is_full
from oomdoctor.units import GIB, TIB, show

_OVERCOMMIT: Final = late(r"\b__vm_enough_memory\b")
NO_MEMORY: Final = 12  # ENOMEM
# c10/core/impl/alloc_cpu.cpp, which says "can't allocate memory" elsewhere; TH/THGeneral.cpp, which prints "GB", says
# the same on every system
ON_WINDOWS: Final = late(r"not enough memory: you tried to allocate \d{1,20} bytes")
_FORK: Final = late(r"\b(?:os\.)?v?fork(?:pty|_exec)?\(|_fork_exec\b|popen_fork|\bfork(?:/exec|:)")
# torch/utils/data/dataloader.py starts workers anew for each pass over the data: "for batch in enumerate(val_loader):"
_OF_A_LOADER: Final = r"\btorch/utils/data/dataloader\.py|\bfor\b.{1,120}\bin\b.{1,60}(?i:loader)\b"
_STARTS_A_WORKER: Final = r"\bmultiprocessing/(?:popen_fork|process|context)\.py"
_SAYS_MEMORY: Final = late(r"Cannot allocate memory|errno=12\b")
_NEW_THREAD: Final = late(r"(?i)\bthreads?\b|pthread_create")
_CALL: Final = late(r"(?i)\b(?:v?fork\w{0,8}|clone|m(?:un|re)?map|mprotect|brk|pthread_create|exec\w{0,3}|jit)\b")
_MAPPING: Final = late(r"\b(?:mmap\w{0,3}|mremap|mprotect|MAP_FAILED)\b")
# cpp/src/arrow/io/file.cc, MemoryMappedFile; Python's mmap of a file, not of -1
_FILE_MAPPED: Final = late(r"(?i)\bmemory[- ]mapping (?:of )?(?:the |a )?file failed\b")
_MAPS_A_FILE: Final = late(r"\bmmap\.mmap\((?!\s{0,4}(?:fileno\s?=\s?)?-1)(?!.{0,200}ACCESS_COPY)")
_ON_A_MAC: Final = r"^/(?:Users|Library|opt/homebrew)/"
_SHARED_TENSOR: Final = late(r"unable to mmap \d{1,20} bytes from file <.{0,8}/?torch_\d")
# /torch_PID_NUMBER, since 1.13 /torch_PID_RANDOM_NUMBER: how many tensors the process had shared before
_NUMBERED: Final = late(r"/?torch_\d{1,10}_(?:\d{1,10}_)?(\d{1,9})>")
# Go's runtime/asm_386.s and the names of its releases; Python's installers for Windows, wheels' tags and
# sys.version; a Raspberry Pi's; R, Java and Node.js in their folders; a JVM's banner: only 32 bits had a client's
_OF_32_BITS: Final = (
    r"\basm_(?:386|arm)\.s\b|(?:windows|linux|freebsd|openbsd|netbsd|darwin)[-_]386\b|[-_./\\](?:i[36]86|ia32|armv[67]l)(?:[-_./\\\s]|$)|\bPython\d{2,3}-32\b"
    r"|\bProgram Files \(x86\)[/\\](?:Python|R[/\\]|Java|nodejs)"
    r"|\b32[- ]bit(?: \((?:Intel|AMD)|,? (?:Python|JVM|Server VM))|\bHotSpot\(TM\) Client VM\b|\bwin32-ia32\b"
    r"|\byour machine has a \dGb address limit\b"  # R up to 4.1 on Windows, do_memsize
)
_BY_DEFAULT: Final = 65_530  # vm.max_map_count: DEFAULT_MAX_MAP_COUNT of include/linux/mm.h
WINDOWS_COMMIT: Final = 1455  # ERROR_COMMITMENT_LIMIT
WINDOWS_RESOURCES: Final = (8, 14, 1450)  # ERROR_NOT_ENOUGH_MEMORY, _OUTOFMEMORY, _NO_SYSTEM_RESOURCES
NO_MACHINE: Final = 8 * TIB  # no limit on address space is needed to refuse it
LARGE: Final = 64 * GIB  # from here on a machine of the usual size may really not have it in one piece
SMALL: Final = 1 * GIB
A_LITTLE: Final = GIB // 16  # less than a heap of malloc's that a thread gets (glibc, malloc/arena.c)
ARRAYS: Final = ("numpy", "torch")  # arrays of data come in sizes between the two on machines that are simply full
MUCH_MORE: Final = 4  # times what was asked for: a larger machine has no more of what is short
OF_A_LIMIT_ALONE: Final = ("more-address-space", "low-memory-loading", "fewer-workers")
_OF_R: Final = ("raise-allocator-cap", "more-host-memory", "narrow-dtypes", "clear-references")
# Its limit is another one than that of more-address-space, and stands in the headline
_OF_DATA: Final = ("fewer-workers", "clear-references", "low-memory-loading")
# Fewer of them, or each with a smaller stack, before the limit itself
_OF_THREADS: Final = ("fewer-workers", "smaller-buffers", "more-address-space")
# So little fails at a number of mappings, too
_OF_A_MAPPING: Final = ("more-address-space", "raise-map-count", "fewer-workers", "low-memory-loading")
# Its limit on address space is a multiple of the container's memory
_OF_YARN: Final = ("more-address-space", "raise-container-limit")
_HEAPS: Final = {
    "runtime": mark("A runtime's own heap is full, not the machine's memory."),
    "redis": mark("Redis hit its own limit (maxmemory), not the machine's memory limit."),
    "heap": mark("The Java heap is full (-Xmx), not the machine's memory."),
    "metaspace": mark("Java's memory for classes is full (-XX:MaxMetaspaceSize), not the machine's memory."),
    "direct": mark(
        "Java's memory for direct buffers is full (-XX:MaxDirectMemorySize, or else as much as -Xmx), not its heap."
    ),
    "node": mark("The JavaScript heap is full (--max-old-space-size), not the machine's memory."),
}
_OF_SPARKS_DRIVER: Final = mark(
    "The Java heap of Spark's driver is full: the error is of the process that wrote this log, and the log is the "
    "driver's."
)


@sign
def scheduler_limits_virtual_memory(crash: Crash) -> Seen | None:
    """A scheduler ended the job at its virtual memory limit."""
    kill = kill_at_a_virtual_limit(crash)
    if kill is None:
        return None
    if kill.used_bytes is None or kill.limit_bytes is None:
        words = say("The scheduler ended the job at its virtual memory limit.")
    else:
        words = say(
            "The scheduler ended the job at its virtual memory limit ({used}, limit {limit}).",
            used=show(kill.used_bytes),
            limit=show(kill.limit_bytes),
        )
    if kill.resident_bytes is not None:
        held = say("It held {resident} of RAM: address space is only reserved.", resident=show(kill.resident_bytes))
        words = joined((words, held))
    if crash.job.world != "none":
        words = joined((words, say("A CUDA process reserves far more address space than it uses.")))
    return Seen(words=words, evidence=(kill,), knobs=_OF_YARN if kill.manager == "yarn" else ())


def kill_at_a_virtual_limit(crash: Crash) -> LimitKill | None:
    """A scheduler's word for a limit on address space."""
    return next((kill for kill in crash.every(LimitKill) if kill.virtual), None)


@sign
def windows_commit_is_used_up(crash: Crash) -> Seen | None:
    """Windows reports error 1455, or one of its own allocators failed."""
    refused = host_refusal(crash)
    if refused is None or not (refused.errno == WINDOWS_COMMIT or refused.allocator == "windows"):
        return None
    words = say(
        "Windows could not commit more memory (error 1455). RAM and page file together are fully promised, "
        "whether they are in use or not."
    )
    return Seen(words=words, evidence=(refused,))


@sign
def windows_has_no_resources(crash: Crash) -> Seen | None:
    """Windows reports error 8, 14 or 1450."""
    refused = host_refusal(crash)
    if refused is None or refused.errno not in WINDOWS_RESOURCES:
        return None
    words = say(
        "Windows could not map more memory (error {errno}). It had no room or no system resources left, "
        "however much RAM was free.",
        errno=refused.errno,
    )
    return Seen(words=words, evidence=(refused,))


@sign
def windows_refused_an_array(crash: Crash) -> Seen | None:
    """PyTorch could not allocate 1 GiB or more, and its message is the one for Windows: the commit limit was hit."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator != "torch" or (refused.tried_bytes or 0) < SMALL:
        return None
    if ON_WINDOWS.search(refused.at.text) is None:
        return None
    words = say(
        "This is PyTorch's message on Windows, where RAM and page file together limit how much memory can be committed."
    )
    return Seen(words=words, evidence=(refused,), against=(say("the log does not show how much RAM was in use"),))


@sign
def heap_of_a_runtime_is_full(crash: Crash) -> Seen | None:
    """The heap of Java, JavaScript or another runtime is full."""
    if crash.pool == "pinned":
        return None  # page-locked memory is no heap's
    if (of_r := limit_of_r_is_hit(crash)) is not None:
        return of_r
    refused = host_refusal(crash)
    full = _HEAPS.get(refused.part or refused.allocator) if refused is not None else None
    if refused is None or full is None or refused.errno is not None:
        return None
    if drivers_heap_is_full(crash):
        full = _OF_SPARKS_DRIVER
    return Seen(words=translated(full), evidence=(refused,))


@sign
def limit_of_r_is_hit(crash: Crash) -> Seen | None:
    """R up to 4.1 on Windows reached what it allows itself in all, and the vector alone would be less than that: for a
    larger one no limit makes room."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator != "r" or not refused.limit_bytes:
        return None
    if (refused.tried_bytes or 0) > refused.limit_bytes:
        return None
    words = say(
        "R on Windows stops at a limit of its own, which memory.limit() shows: {limit} for all of its objects. By "
        "default that is the machine's RAM, and less in a process of 32 bits.",
        limit=show(refused.limit_bytes),
    )
    return Seen(words=words, evidence=(refused,), knobs=_OF_R)


@sign
def the_program_is_of_32_bits(crash: Crash) -> Seen | None:
    """A folder, a source file or a banner is of a program for a processor of 32 bits."""
    refused = host_refusal(crash)
    if refused is None or not crash.shows(_OF_32_BITS):
        return None
    words = say(
        "The program is built for 32 bits: such a process can address 2 to 4 GiB in all, and less in one piece, "
        "however much RAM is free."
    )
    if refused.tried_bytes is None:
        return Seen(words=words, evidence=(refused,), knobs=OF_A_LIMIT_ALONE)
    asked = say("An allocation of {tried} failed.", tried=show(refused.tried_bytes))
    return Seen(words=joined((asked, words)), evidence=(refused,), knobs=OF_A_LIMIT_ALONE)


@sign
def maps_of_memory_are_spent(crash: Crash) -> Seen | None:
    """The process reached its maximum number of memory maps."""
    spent = crash.first(MapsSpent)
    if spent is None:
        return None
    words = say("The process reached its maximum number of memory maps (vm.max_map_count), however much RAM is free.")
    return Seen(words=words, evidence=(spent,), next_evidence=(MAPS_LIMIT, ADDRESS_LIMIT))


@sign
def data_of_a_process_is_limited(crash: Crash) -> Seen | None:
    """The kernel says that a process would go beyond its limit on private, writable memory (RLIMIT_DATA)."""
    spent = crash.first(DataSpent)
    if spent is None:
        return None
    words = say(
        "The kernel refused memory to {process} (PID {pid}): with {used} of private data it would go beyond its limit "
        "of {limit} (ulimit -d), however much RAM is free.",
        process=spent.process.name,
        pid=spent.process.pid,
        used=show(spent.used_bytes or 0),
        limit=show(spent.limit_bytes or 0),
    )
    return Seen(words=words, evidence=(spent,), knobs=_OF_DATA, next_evidence=(ADDRESS_LIMIT,))


@sign
def a_shared_tensor_was_not_mapped(crash: Crash) -> Seen | None:
    """PyTorch could not map a file of shared memory of less than 1 GiB, with errno 12. There is a mapping for each
    tensor that processes share (aten/src/ATen/MapAllocator.cpp); a full /dev/shm gives SIGBUS or errno 28."""
    refused = host_refusal(crash)
    if refused is None or refused.errno != NO_MEMORY or _SHARED_TENSOR.search(refused.at.text) is None:
        return None
    if (refused.tried_bytes or 0) >= SMALL:
        return None
    words = say(
        "PyTorch maps each tensor that processes share by itself, and the kernel refused such a mapping of {tried}. So "
        "little fails where the process has as many mappings as vm.max_map_count allows.",
        tried=show(refused.tried_bytes or 0),
    )
    number = _NUMBERED.search(refused.at.text)
    if number is not None and int(number[1]) >= _BY_DEFAULT // 2:
        counted = say(
            "The process had shared {count:,} before, as the file's name says; {limit:,} is the default.",
            count=int(number[1]),
            limit=_BY_DEFAULT,
        )
        words = joined((words, counted))
    against = (say("a limit on address space (ulimit -v) or on commits gives the same message"),)
    return Seen(words=words, evidence=(refused,), against=against, next_evidence=(MAPS_LIMIT, ADDRESS_LIMIT))


@sign
def killed_instead(crash: Crash) -> Seen | None:
    """The root cause is a kill: the process survived its failed allocation."""
    return Seen(words="") if isinstance(crash.root, KernelKill | UserspaceKill) else None


@sign
def more_than_any_limit(crash: Crash) -> Seen | None:
    """The allocation is 8 TiB or larger."""
    refused = host_refusal(crash)
    tried = refused.tried_bytes if refused is not None else None
    if tried is None or tried < NO_MACHINE or scheduler_limits_virtual_memory(crash):
        return None
    return Seen(words=say("an allocation of {tried} fails without any limit on address space", tried=show(tried)))


@sign
def refused_with_more_free(crash: Crash) -> Seen | None:
    """The log shows more unused RAM than was requested."""
    refused, free = host_refusal(crash), unused_ram(crash)
    tried = refused.tried_bytes if refused is not None else None
    if refused is None or tried is None or free is None or free <= tried:
        return None
    words = say(
        "An allocation of {tried} failed with {free} of RAM unused. A limit on address space or on committed "
        "memory stopped it, not a full machine.",
        tried=show(tried),
        free=show(free),
    )
    against = (say("the free memory may have been measured at another time"),)
    knobs = OF_A_LIMIT_ALONE if free >= MUCH_MORE * tried else ()
    return Seen(words=words, evidence=(refused,), against=against, knobs=knobs, next_evidence=(LIMIT_OR_FULL,))


@sign
def small_piece_refused(crash: Crash) -> Seen | None:
    """The allocation is smaller than 1 GiB, on Windows."""
    refused = host_refusal(crash)
    tried = refused.tried_bytes if refused is not None else None
    if refused is None or tried is None or tried >= SMALL or not _is_on_windows(crash, refused):
        return None
    return _refusal(crash, refused)


@sign
def large_piece_refused(crash: Crash) -> Seen | None:
    """The allocation is 64 GiB or larger: the machine may really not have it."""
    refused = host_refusal(crash)
    tried = refused.tried_bytes if refused is not None else None
    if refused is None or tried is None or tried < LARGE:
        return None
    return _refusal(crash, refused, against=(say("the machine may really not have so much memory in one piece"),))


@sign
def array_refused(crash: Crash) -> Seen | None:
    """NumPy or PyTorch could not allocate an array of a size that also fails on full machines, on Windows."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator not in ARRAYS or not _is_on_windows(crash, refused):
        return None
    return _refusal(crash, refused)


@sign
def a_fork_was_refused(crash: Crash) -> Seen | None:
    """Errno 12 of a call that starts a child process. A private writable mapping counts once per process, and the
    default policy refuses obvious overcommits, too (Documentation/mm/overcommit-accounting of Linux)."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator != "os":
        return None
    if _FORK.search(refused.at.text) is None and crash.in_trace(_FORK.pattern) is None:
        return None
    words = say(
        "The kernel refused to start a child process (fork). It must be able to promise the parent's memory a second "
        "time, though the child shares it at first: the parent is large, or little memory is left."
    )
    full = say("the log does not show how large the parent was and how much memory was left")
    look = (OVERCOMMIT, FREE, WHO_HOLDS_IT_NOW)
    return Seen(words=words, evidence=(refused,), against=(full,), unsure=True, next_evidence=look)


@sign
def a_loader_was_not_forked(crash: Crash) -> Seen | None:
    """The child was to be a worker of a data loader: without any it loads in the job's own process."""
    if a_fork_was_refused(crash) is None or crash.in_trace(_OF_A_LOADER) is None:
        return None
    return Seen(words="") if crash.in_trace(_STARTS_A_WORKER) is not None else None


@sign
def a_small_mapping_was_refused(crash: Crash) -> Seen | None:
    """The system did not map less than 64 MiB, as the call's name beside it tells."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator != "os" or _MAPPING.search(refused.at.text) is None:
        return None
    if not 0 < (refused.tried_bytes or 0) < A_LITTLE or set_limits.address_limit(crash) is not None:
        return None
    words = say(
        "The kernel refused to map {tried}. So little fails where the process has as many mappings as vm.max_map_count "
        "allows, or at a limit on address space.",
        tried=show(refused.tried_bytes or 0),
    )
    full = say("the log shows neither how many mappings there were nor how much memory was left")
    evidence = (MAPS_LIMIT, ADDRESS_LIMIT)
    return Seen(words=words, evidence=(refused,), against=(full,), knobs=_OF_A_MAPPING, next_evidence=evidence)


@sign
def a_file_was_not_mapped(crash: Crash) -> Seen | None:
    """The system did not map a file for want of memory, by the message or by the call that failed. What is mapped of a
    file is no RAM of the process."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator != "os" or refused.tried_bytes is not None:
        return None
    if set_limits.address_limit(crash) is not None or is_on_windows(crash) or crash.in_trace(_ON_A_MAC) is not None:
        return None
    call = next(crash.frames(), None)
    if _FILE_MAPPED.search(refused.at.text) is None and (call is None or _MAPS_A_FILE.search(call.code) is None):
        return None
    words = say(
        "The kernel did not map a file. That takes no RAM by itself: it fails where the process has as many mappings "
        "as vm.max_map_count allows, or at a limit on address space."
    )
    full = say("the log does not show how many mappings there were")
    return Seen(words=words, evidence=(refused,), against=(full,), next_evidence=(MAPS_LIMIT, ADDRESS_LIMIT))


@sign
def a_thread_was_refused(crash: Crash) -> Seen | None:
    """The system did not start a thread for want of memory: with errno 12, or under a limit on address space. Its stack
    is mapped at its start (pthread_attr_setstacksize(3), by default as large as ulimit -s says)."""
    refused = host_refusal(crash)
    if refused is None or refused.allocator not in ("os", "go") or _NEW_THREAD.search(refused.at.text) is None:
        return None
    limit = set_limits.address_limit(crash)
    if limit is not None:
        words = say(
            "The system refused a new thread. The stack of each thread takes address space (8 MiB by default), and "
            "that is limited to {limit} (ulimit -v).",
            limit=show(limit),
        )
    else:
        words = say("The system refused a new thread: the stack of each thread takes address space (8 MiB by default).")
    same = say("a limit on processes or threads (ulimit -u, pids) gives the same message")
    against = () if refused.errno == NO_MEMORY or _SAYS_MEMORY.search(refused.at.text) is not None else (same,)
    return Seen(
        words=words, evidence=(refused,), against=against, knobs=_OF_THREADS, next_evidence=(ADDRESS_LIMIT, OVERCOMMIT)
    )


@sign
def refused_with_an_errno(crash: Crash) -> Seen | None:
    """The operating system returned errno 12 (ENOMEM). NumPy and PyTorch print it whatever was short."""
    first, refused = host_refusal(crash), next((one for one in host_refusals(crash) if one.errno == NO_MEMORY), None)
    if first is None or refused is None or first.allocator in ARRAYS or refused.allocator in ARRAYS:
        return None
    return None if (first.tried_bytes or SMALL) < SMALL else _refusal(crash, refused)


@sign
def a_call_of_the_system_was_refused(crash: Crash) -> Seen | None:
    """The log names the system call that failed: a fork, a thread, a mapping. None of them needs RAM at once."""
    if (mapping := a_small_mapping_was_refused(crash)) is not None:
        return mapping
    refused = host_refusal(crash)
    if refused is None or refused.allocator != "os" or _CALL.search(refused.at.text) is None:
        return None
    return _refusal(crash, refused)


@sign
def overcommit_was_refused(crash: Crash) -> Seen | None:
    """The kernel names the check of its overcommit policy."""
    root = crash.root
    if not isinstance(root, Shortage) or _OVERCOMMIT.search(root.at.text) is None:
        return None
    return Seen(words=say("The kernel's overcommit policy rejected the allocation."), evidence=(root,))


@sign
def refused_by_any_allocator(crash: Crash) -> Seen | None:
    """Any allocator of host memory failed, whatever the size: none of a runtime, which means its own heap."""
    if heap_of_a_runtime_is_full(crash) is not None:
        return None
    refused = host_refusal(crash)
    return _refusal(crash, refused) if refused is not None else None


@sign
def shows_a_limit(crash: Crash) -> Seen | None:
    """Something besides the refusal speaks for a limit: the system's own answer, Windows, free memory beside it, or a
    size that a machine has."""
    signs = (
        set_limits.request_beyond_the_address_limit, set_limits.commit_limit_and_free_memory,
        set_limits.address_space_is_limited, set_limits.overcommit_is_off,
        maps_of_memory_are_spent, data_of_a_process_is_limited, a_shared_tensor_was_not_mapped,
        windows_has_no_resources, windows_commit_is_used_up, refused_with_more_free,
        windows_refused_an_array, small_piece_refused, array_refused, refused_with_an_errno,
        a_call_of_the_system_was_refused, heap_of_a_runtime_is_full,
        more_than_any_limit,
    )  # fmt: skip
    return next((seen for shown in signs if (seen := shown(crash)) is not None), None)


def _is_on_windows(crash: Crash, refused: HostAllocation) -> bool:
    """Whether the refusal's own words are those that it has there, or a path beside it is one of Windows."""
    return ON_WINDOWS.search(refused.at.text) is not None or is_on_windows(crash)


def _refusal(crash: Crash, refused: HostAllocation, against: tuple[str, ...] = ()) -> Seen:
    refusal = (
        say("An allocation of {tried} of host memory failed.", tried=show(refused.tried_bytes))
        if refused.tried_bytes
        else say("An allocation of host memory failed.")
    )
    how = (
        say("On Windows, RAM and page file together limit how much memory can be committed.")
        if _is_on_windows(crash, refused)
        else say(
            "A full Linux machine kills a process instead. A failed allocation points to ulimit -v, "
            "vm.overcommit_memory=2 or, on Windows, the commit limit."
        )
    )
    return Seen(
        words=joined((refusal, how)),
        evidence=(refused,),
        against=against,
        next_evidence=(LIMIT_OR_FULL,),
    )


def unused_ram(crash: Crash) -> int | None:
    """What the log shows of the machine's RAM beyond what is in use."""
    total, used = (crash.context.hardware.get(name) for name in ("ram_bytes", "ram_used_bytes"))
    return total - used if isinstance(total, int) and isinstance(used, int) else None
