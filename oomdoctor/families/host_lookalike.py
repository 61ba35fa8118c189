"""What sounds like host memory running out and is something else: quotas, devices, faulty chips, limits on time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.echoes import COMMENT, SOURCE, echo
from oomdoctor.families.event import Lookalike, Read
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page

# What glibc's malloc finds, and sanitizers (malloc/malloc.c, debug/stack_chk_fail.c)
HEAP: Final = (
    r"\b(?:free|malloc|realloc|calloc|munmap_chunk|malloc_consolidate|_int_\w{1,12})\(\): "
    r"(?:double free|corrupted|invalid|unaligned|unsorted|largebin|memory corruption|smallbin|chunk|mismatching|broken)"
    r"|\bdouble free or corruption\b|\bcorrupted (?:size vs\. prev_size|double-linked list)\b"
    r"|\*{3} stack smashing detected \*{3}|AddressSanitizer: (?:heap-|attempting double-free|stack-)"
)
# The first that fits says why.
_LOOKALIKES = tuple(
    (late("|".join(patterns)), why)
    for why, *patterns in (
        (
            mark("native code corrupted the heap (such as a double free): a bug, not a lack of memory"),
            HEAP,
        ),
        (
            mark("a message is larger than gRPC allows, not memory"),
            r"\b(?:Received|Sent|[Ss]end) message larger than max\b",
        ),
        (
            mark("a function carries too much data to be sent to workers, not memory"),
            r"FUNCTION_SIZE_ERROR_THRESHOLD",
        ),
        (
            mark("a service's quota or rate limit is used up, not memory"),
            r"(?i:resource.{0,2}(?:has been )?exhausted.{0,300}\b(?:quota|rate.?limit|too many|429|too_many_pings)\b)",
            r"(?i:\b(?:429|quota|rate.?limit).{0,300}resource.{0,2}(?:has been )?exhausted)",
        ),
        (
            mark("the device plugin or runtime could not give the container a GPU, not memory"),
            r"UnexpectedAdmissionError(?!.{0,200}\bmemory\b)|device plugin resource",
            r"(?i:failed to allocate (?:vGPU )?device\b(?! (?:memory|mem|buffer|heap)))",
        ),
        (
            mark("the scheduler rejects or does not start the job (limits, partitions); nothing ran out of memory"),
            r"(?:salloc|srun|sbatch): error: Unable to allocate resources",
            r"\b(?:QOS|Assoc)(?:Grp|Max)Mem\w{0,40}|Memory specification can not be satisfied",
            r"memory is (?:already overallocated|under-?allocated) \(\d",
            # Slurm's of what it may choose, with DebugFlags=SelectType (select/cons_tres, 21.08 to 25.11); others'
            r"\b(?:SELECT_TYPE|BACKFILL|RESERVATION): [^\n]{0,200}\b(?:[Ii]nsufficient|not enough) memory\b",
            r"(?i:\b(?:insufficient|not enough) memory (?:for|on|in) any (?:gres|nodes?|hosts?|partition|offer)\b)",
            r"\bDimension \\?\"memory\\?\" exhausted on \d|\bResources exhausted on \d{1,6} nodes",  # Nomad's
        ),
        (
            mark("a requested limit was rejected or cannot be changed; nothing ran out of memory"),
            # the JVM's
            r"Initial heap size set to a larger value than|Invalid maximum heap size: |Too small maximum heap",
            r"(?i:\b(?:updating|setting|changing|raising|lowering|cannot decrease) memory limit\b)",
            r"\bset memory limit \d{1,20} too low|requested amount of memory \(\d{1,9} MB\) greater than total system",
        ),
        (
            mark("a warning that little memory is left; a failure has a line of its own"),
            r"Reached total allocation of \d{1,9}Mb: see help",  # R's, on Windows
            r"Virtual Memory Minimum Too Low|\bdiagnosed a low virtual memory condition",
            r"\bNodeHasInsufficientMemory\b",
            r"\bMemory pressure for \S{1,400} is [\d.]{1,9}% > |\bmemory usage=\d{1,20} hit threshold=",
        ),
        (
            mark("the service may swap beyond its quota; no process was ended yet"),
            r"\bError R14 \(Memory quota exceeded\)",
        ),
        (
            mark("a zone of nginx's of fixed size is full, not memory: it serves on"),
            # src/core/ngx_slab.c, src/http/modules/ngx_http_limit_req_module.c and its neighbours
            r"\bngx_slab_alloc\(\) failed: no memory in",
            r"\bcould not allocate node(?: \w{1,20}){0,3} in \w{1,20} zone \"",
        ),
        (
            mark("PostgreSQL's lock table is full, not memory"),
            r"(?:^|ERROR: {1,2}|FATAL: {1,2})out of shared memory(?:\"|$)",
        ),
        (
            mark("the kernel had no memory for a driver or its own tables; no process was killed for memory"),
            r"\bvmap allocation for size \d{1,20} failed: use vmalloc|HugeTLB: allocating \d{1,9} of page size",
            r"\bSLUB: Unable to allocate memory on|\bcma_alloc: .{0,60}alloc failed|\bswiotlb buffer is full",
            r"\bTCP: out of memory -- consider|\bzram: Error allocating memory for compressed page",
        ),
        (
            # mm/page_alloc.c: WARN_ON_ONCE_GFP(order > MAX_PAGE_ORDER, gfp)
            mark("the kernel was asked for more pages in one piece than it ever gives; memory need not be short"),
            r"\bPID: \d{1,10} at mm/page_alloc\.c:\d{1,6} __alloc_(?:frozen_)?pages(?:_nodemask|_noprof)?\+",
        ),
        (
            mark("Ray's object store evicted objects that nobody uses, to make room, as it should"),
            r"\bThere is not enough space to create this object, so evicting \d",
        ),
        (
            mark("an address, a port or a terminal was not available, not memory"),
            r"(?i:\bto allocate (?:a |an |any |new |free ){0,3}(?:ports?|gateway|for interface|ip(?:v[46])?|pseudo)\b)",
            r"(?i:\bto allocate (?:a |an |any |new |free ){0,3}(?:address(?:es)?|subnet|network|tty|pty)\b)",
        ),
        (
            mark("Python cleans up after a process that has ended: a consequence, not the reason"),
            r"There appear to be \d{1,9} leaked (?:shared_memory|semaphore|folder|file)",
        ),
        (
            mark(
                "the segment of shared memory is not there: the process that made it has gone, or the two share no "
                "/dev/shm (containers: --ipc=host); /dev/shm was not full"
            ),
            r"\battaching to shared memory segment [^\n]{1,200}\bNo such file or directory",  # NCCL's shmutils.cc
        ),
        (
            mark("the limit on watched files (inotify) was hit, not memory"),
            r"\binotify\b.{0,80}\b(?:limit|No space|watch)|number of file watchers reached",
        ),
        (mark("the disk quota is used up, not memory"), r"\[Errno 122\]|\bDisk quota exceeded\b"),
        (
            mark("a disk is full, not memory"),
            r"^(?!.{0,400}/dev/shm).{0,400}\bno space left on device",  # Go's spelling
            r"\bdatabase or disk is full\b",  # SQLite's
        ),
        (mark("file descriptors ran out (ulimit -n), not memory"), r"\btoo many open files\b"),
        (
            mark("the kernel's network buffers are full, not memory"),
            r"\[Errno 105\]|No buffer space available",
        ),
        (mark("the limit on processes (pids) was hit, not memory"), r"fork rejected by pids controller"),
        (
            mark(
                "OpenBLAS may start no more threads: the limit on processes (ulimit -u) was hit, not memory; "
                "OPENBLAS_NUM_THREADS=1 starts fewer"
            ),
            r"\bblas_thread_init: RLIMIT_NPROC \d{1,5} current",  # blas_server.c; larger ones were not hit
        ),
        (
            mark("the loader's block for thread-local data is used up, not memory: import that library earlier"),
            r"in static TLS block",
        ),
        (mark("it was told to stop (SIGTERM, SIGINT or SIGHUP)"), r"\bKilled by signal (?:1|2|15)\b|^Terminated: 15"),
        (
            mark("a warning: little memory may be locked (ulimit -l); no allocation has failed yet"),
            r"libibverbs: Warning: RLIMIT_MEMLOCK|Warning: .{0,80}locked memory limit",
        ),
        (
            mark("earlyoom prints how much is free and when it acts; no process was killed"),
            r"\bmem avail: {0,8}\d|\bsending SIGTERM when mem\b|\bSIGKILL when mem\b",
        ),
        (
            mark("the machine reports a faulty memory chip or processor; no memory ran out"),
            r"\bEDAC \w{1,20}: |\[Hardware Error\]|\bMemory failure: 0x|\bmce: .{0,80}(?:[Ee]rror|CPU)",
        ),
        (
            mark("the cgroup touched its limit and the kernel freed memory; no process was killed"),
            r"Memory limit reached of cgroup",
        ),
        (
            mark("the scheduler's limit on time or processors ended the job"),
            r"PBS: job killed: (?:walltime|cput|ncpus)\b|TERM_(?:RUNLIMIT|CPULIMIT)\b",
        ),
        (mark("a user or another job ended it through the scheduler"), r"TERM_(?:OWNER|ADMIN|PREEMPT)\b"),
        (
            mark("TensorFlow warns of a large allocation, which succeeded"),
            r"Allocation of \d{1,20} exceeds \d{1,3}(?:\.\d{1,3})?% of (?:free )?system memory",
        ),
    )
)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    why = next((why for pattern, why in _LOOKALIKES if pattern.search(text)), None)
    if why is not None and echo(text) not in {SOURCE, COMMENT}:
        yield Lookalike(place_of(page, line), why)


FAMILY = Family(
    name="host_lookalike",
    anchors=(),
    triggers=(
        "double free",
        "(): corrupted ",
        "(): invalid ",
        "(): unaligned ",
        "corrupted size vs",
        "corrupted double-linked",
        "stack smashing detected",
        "AddressSanitizer: ",
        "message larger than max",
        "FUNCTION_SIZE_ERROR",
        "xhausted",
        "EXHAUSTED",
        "UnexpectedAdmissionError",
        "device plugin resource",
        "to allocate ",
        "MaxMem",
        "GrpMem",
        "Memory specification",
        "Error R14 ",
        "nsufficient memory",
        "ot enough memory",
        "Reached total allocation",
        "Memory Minimum Too Low",
        "low virtual memory condition",
        "NodeHasInsufficientMemory",
        "Memory pressure for ",
        " hit threshold=",
        "memory is already over",
        "memory is under",
        "ing memory limit",
        "decrease memory limit",
        "set memory limit",
        "heap size ",
        "maximum heap",
        "requested amount of memory",
        "out of shared memory",
        "vmap allocation",
        "HugeTLB: allocating",
        "SLUB: Unable",
        "cma_alloc: ",
        "swiotlb buffer",
        "at mm/page_alloc.c:",
        "so evicting ",
        "TCP: out of memory",
        "zram: Error",
        " leaked ",
        "inotify",
        "shared memory segment ",
        "RLIMIT_NPROC ",
        "file watchers",
        "no space left on device",
        "or disk is full",
        "ngx_slab_alloc",
        "could not allocate node",
        "too many open files",
        "[Errno 105]",
        "No buffer space",
        "pids controller",
        "static TLS block",
        "Killed by signal",
        "Terminated: 15",
        "[Errno 122]",
        "Disk quota exceeded",
        "RLIMIT_MEMLOCK",
        "locked memory limit",
        "mem avail: ",
        "when mem ",
        "EDAC ",
        "[Hardware Error]",
        "Memory failure: 0x",
        "mce: ",
        "Memory limit reached of cgroup",
        "PBS: job killed",
        "TERM_",
        "system memory",
    ),
    read=read,
    last=True,
)
