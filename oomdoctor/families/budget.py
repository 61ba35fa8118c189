"""Programs that keep a budget of memory for themselves and refuse what goes beyond it: databases, caches, executors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Event, Lookalike, Process, Read, Role, Threshold, Usage
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import size

CHARACTERS: Final = 1500


class BudgetSpent(Event, frozen=True, kw_only=True):
    """A program's own budget of memory does not hold what was asked for."""

    family = "budget"
    kind = "budget-spent"

    pool: str = "host_ram"
    strength: int = 3

    program: str
    setting: str | None = None  # that sets the budget
    tried_bytes: Usage[int | None] = None  # the piece, on top of what was in use
    needed_bytes: Usage[int | None] = None  # all that would have been in use with it
    used_bytes: Usage[int | None] = None
    resident_bytes: Usage[int | None] = None  # of what the program counts as in use
    free_bytes: Usage[int | None] = None
    held_bytes: Usage[int | None] = None  # by the part of the program that asked
    limit_bytes: Threshold[int | None] = None
    lowered_bytes: Threshold[int | None] = None  # the limit that it was to be lowered to, below what is in use
    fraction: Threshold[float | None] = None  # of the limit


class SpillRefused(Event, frozen=True, kw_only=True):
    """What a program writes to a disk for want of memory finds no room there."""

    family = "budget"
    kind = "spill-refused"

    pool: str = "host_ram"
    strength: int = 3

    program: str | None = None
    used_bytes: Usage[int | None] = None
    limit_bytes: Threshold[int | None] = None

    @property
    def folder(self) -> str | None:
        """Where it was to be written, by the file that the message names."""
        named = _FILE_WITHOUT_ROOM.search(self.at.text)
        return named["folder"] if named is not None else None


class MapsSpent(Event, frozen=True, kw_only=True):
    """A process may have no more maps of memory (vm.max_map_count), whatever is free."""

    family = "budget"
    kind = "maps-spent"

    pool: str = "host_ram"
    strength: int = 2


class DataSpent(Event, frozen=True, kw_only=True):
    """A process may have no more private, writable memory (RLIMIT_DATA), whatever is free."""

    family = "budget"
    kind = "data-spent"

    pool: str = "host_ram"
    strength: int = 3

    used_bytes: Usage[int | None] = None  # with what was refused
    limit_bytes: Threshold[int | None] = None


class BudgetUsage(Event, frozen=True, kw_only=True):
    """How much of its budget a worker uses: context."""

    family = "budget"
    kind = "budget-usage"

    role: Role = "context"
    pool: str = "host_ram"

    program: str
    used_bytes: Usage[int | None] = None
    limit_bytes: Threshold[int | None] = None


_FILE_WITHOUT_ROOM: Final = late(
    r"(?<![^\s'\"])(?P<folder>[^\s'\":]{1,200})/[^\s'\":/]{1,100}['\"]?: No space left on device"
)
_AMOUNT: Final = r"[\d.,]{1,20} ?(?:[KMGT]i?B|bytes|B)\b"
_NUMBER: Final = r"\d{1,20}"
# What it gave up with, by a number, and not what a text says of such numbers
MUMPS: Final = r"^(?!.{0,80}\b(?:[Ii]f|[Ww]hen|[Ii]n case)\b).{0,200}MUMPS\b.{0,200}\bINFOG?\(1\) ?= {0,20}"
# Up to 24.x the scope stands behind the words, then before them, and later as a description ("Query"); since 24.5 with
# what is resident, since 25.x in units
_OF_CLICKHOUSE: Final = (
    r"(?:Memory limit \({scope}\)|\({scope}\) memory limit|{word} memory limit) exceeded: "
    r"would use (?P<needed>{amount}) "
    r"\(attempt to allocate chunk of (?P<tried>{amount})(?: bytes)?\),(?: current RSS:? (?P<resident>{amount}),)? "
    r"maximum: (?P<limit>{amount})"
)
OF_A_QUERY: Final = ("max_memory_usage", "max_memory_usage_for_user")  # none where nobody sets them
# By the program, what it calls the setting, and its sentence. "needed" is all that would be held, "tried" the piece.
_BUDGETS: Final = tuple(
    (program, setting, late(pattern))
    for program, setting, pattern in (
        (
            "elasticsearch",  # OpenSearch's, too; 1.4 on
            "indices.breaker.total.limit",
            (
                rf"Data too large, data for \[.{{1,200}}?\] would be \[(?P<needed>{_NUMBER})/[^\]]{{1,20}}\], "
                rf"which is larger than the limit of \[(?P<limit>{_NUMBER})/"
                rf"(?:[^\]]{{1,20}}\], real usage: \[(?P<used>{_NUMBER})/[^\]]{{1,20}}\], "
                rf"new bytes reserved: \[(?P<tried>{_NUMBER})/)?"
            ),
        ),
        (
            "elasticsearch",  # to 1.x
            "indices.breaker.fielddata.limit",
            (
                rf"New used memory (?P<needed>{_NUMBER}) \[[^\]]{{1,20}}\] from field \[.{{1,200}}?\] would be "
                rf"larger than configured (?:limit|breaker)(?: of)?:? \[?(?P<limit>{_NUMBER})"
                rf"|Data too large, data for (?:field )?\[.{{1,200}}?\] would be larger than "
                rf"limit of \[(?P<bound>{_NUMBER})/"
            ),
        ),
        (
            "elasticsearch",  # 7.9 on
            "indexing_pressure.memory.limit",
            (
                rf"rejected execution of \w{{4,20}} operation \[.{{0,200}}\ball_bytes=(?P<used>{_NUMBER})\b"
                rf".{{0,200}}\bmax_\w{{4,40}}_bytes=(?P<limit>{_NUMBER})"
            ),
        ),
        *(
            ("clickhouse", setting, _OF_CLICKHOUSE.format(scope=scope, word=word, amount=_AMOUNT))
            for scope, word, setting in (
                ("total", "Total", "max_server_memory_usage"),
                ("for query", "Query", OF_A_QUERY[0]),
                ("for user", "User", OF_A_QUERY[1]),
            )
        ),
        (
            "redis",
            "maxmemory",
            r"OOM (?:command not allowed|allow-oom flag is not set).{0,80}used memory > 'maxmemory'",
        ),
        (
            "spark",
            "spark.driver.maxResultSize",
            (
                rf"serialized results of \d{{1,9}} tasks \((?P<needed>{_AMOUNT})\) is bigger than "
                rf"(?:\S{{1,40}}|local )maxResultSize \((?P<limit>{_AMOUNT})\)"
            ),
        ),
        (
            "spark",
            "spark.executor.memory",
            rf"Unable to acquire (?P<tried>{_NUMBER}) bytes of memory, got (?P<free>{_NUMBER})\b",
        ),
        ("spark", "spark.driver.memory", r"Not enough memory to build and broadcast the table"),
        (
            "spark",
            "spark.executor.memory",
            (
                rf"Can't acquire (?P<tried>{_NUMBER}) bytes memory to build hash relation, got (?P<free>{_NUMBER})\b"
                r"|There is not enough memory to build the hash map"
            ),
        ),
        (
            "kafka",
            "buffer.memory",
            (
                rf"Failed to allocate (?P<tried>{_NUMBER}) bytes within the configured max blocking time \d{{1,9}} ms\."
                rf"(?: Total memory: (?P<limit>{_NUMBER}) bytes\. Available memory: (?P<free>{_NUMBER}) bytes)?"
            ),
        ),
        (
            "milvus",
            "queryNode.overloadedMemoryThresholdPercentage",
            (
                r"OOM if load, .{0,200}?(?:memUsage = (?P<used>[\d.]{1,24} MB), )?"
                r"(?:predictMemUsage|usedMemAfterLoad) = (?P<needed>[\d.]{1,24} MB), "
                r"totalMem = (?P<limit>[\d.]{1,24} MB)(?: thresholdFactor = (?P<share>\d{1,3}(?:\.\d{1,6})?))?"
            ),
        ),
        ("milvus", "quotaAndLimits.limitWriting.memProtection", r"reason=memory quota exceeded\b"),
        ("milvus", "queryNode.overloadedMemoryThresholdPercentage", r"deny to load, insufficient memory\b"),
        (
            "dask",
            "memory_limit",
            (
                rf"has (?P<needed>{_AMOUNT}) worth of input dependencies, but worker \S{{1,80}} has memory_limit "
                rf"set to (?P<limit>{_AMOUNT})"
            ),
        ),
        (
            "dask",
            "memory_limit",
            r"\bWorker (?:\S{1,80} )?(?:\(pid=\d{1,9}\) )?exceeded (?P<share>\d{1,3})% memory budget",
        ),
        ("duckdb", "memory_limit", rf"Out of Memory Error: could not allocate block of (?P<tried>{_NUMBER} bytes)"),
        (
            "duckdb",
            "memory_limit",
            (
                rf"(?:allocate block|pin block|allocate data|reserve memory data) of size (?P<tried>{_AMOUNT}) "
                rf"\((?P<used>{_AMOUNT})/(?P<limit>{_AMOUNT}) used\)"
            ),
        ),
        # src/storage/standard_buffer_manager.cpp: what goes beyond the limit has nowhere to wait
        ("duckdb", "memory_limit", r"Out-of-memory: cannot write buffer because no temporary directory is specified"),
        # src/storage/buffer/buffer_pool.cpp, SetLimit: the old limit stays
        (
            "duckdb",
            "memory_limit",
            (
                rf"Failed to change memory limit to (?P<lowered>{_NUMBER}): could not free up enough"
                rf"(?: memory for the new limit \((?P<used>{_AMOUNT})/(?P<limit>{_AMOUNT}) used\))?"
            ),
        ),
        # datafusion/execution/src/memory_pool/pool.rs: in bytes, later for people, last with the pool and its size
        (
            "DataFusion",
            "datafusion.runtime.memory_limit",
            (
                rf"Failed to allocate additional (?P<tried>{_AMOUNT}) (?:for .{{1,200}}? )?with (?P<held>{_AMOUNT}) "
                rf"already allocated(?: for this reservation)?(?: - (?:maximum available is (?P<free>{_NUMBER}\b)"
                rf"|(?P<left>{_AMOUNT}) remain available for the total (?:memory )?pool)"
                rf"(?:.{{1,60}}?\bpool_size: (?P<limit>{_AMOUNT}))?)?"
            ),
        ),
        # swap buffers in page-locked memory, of a number and a size that the settings say (aio and offload_param):
        # deepspeed/runtime/swap_tensor/partitioned_param_swapper.py and the optimizers' beside it, 0.4 on
        (
            "DeepSpeed",
            "buffer_count",
            (
                r"(?:^\W{0,4}|Error: )Not enough (?:swap in )?buffers \d{1,6} for (?:swapping )?\d{1,6}\b"
                r"|Swapper ran out of swap buffers, try increasing"
                r"|\bNo swap buffers to allocate for \w{1,12} param|\bNo buffer available to swap param"
            ),
        ),
        ("DeepSpeed", "buffer_size", r"\bMore elements \d{1,15} than buffer size \d{1,15}\b"),
        # cpp/tensorrt_llm/batch_manager/peftCacheManager.cpp: what the host keeps of adapters
        ("TensorRT-LLM", "host_cache_size", r"\bPEFT Cache is full\. Could not store taskId="),
        # colossalai/legacy/nn/parallel/layers/cache_embedding/cache_mgr.py, 0.1.10 on
        (
            "ColossalAI",
            "cuda_row_num",
            (
                r"\bYou move \d{1,15} embedding rows from CPU to CUDA\. It is larger than the capacity of the cache, "
                r"which at most contains \d{1,15} rows"
            ),
        ),
        # Zend/zend_alloc.c, zend_mm_safe_error
        (
            "php",
            "memory_limit",
            (
                r"\bAllowed memory size of (?P<limit>\d{1,15}) bytes exhausted"
                r"(?: at \S{1,120})? \(tried to allocate (?P<tried>\d{1,15}) bytes\)"
            ),
        ),
        # src/tensors/allocator.h: of its workspace, and of what it reserves for the parameters
        (
            "marian",
            "workspace",
            r"\bAttempted allocation of (?P<tried>\d{1,15}), but only (?P<free>\d{1,15}) free\b",
        ),
        # src/projects/spades/main.cpp: limit_memory() sets RLIMIT_AS to what -m says
        ("spades", "-m", r"\bNot enough memory to run SPAdes\b"),
        (
            "mongodb",  # 2.6 on; 4.4's engine says "spilling" for "sort"
            "internalDocumentSourceGroupMaxMemoryBytes",
            r"Exceeded memory limit for \$(?:group|bucket(?:Auto)?)\b.{0,40}didn't allow external",
        ),
        (
            "flink",  # 1.0 on
            "taskmanager.memory.network.max",
            r"Insufficient number of network buffers: required \d{1,9}, but only \d{1,9} (?:of \d{1,9} )?available",
        ),
        (
            "mysql",  # InnoDB's, MariaDB's too: it then ends the server; at 67 % it only warns
            "innodb_buffer_pool_size",
            (
                r"\b[Oo]ver 95 percent of the buffer pool is occupied by"
                r"(?:.{0,400}?(?:buffer pool size is |innodb_buffer_pool_size=)(?P<limit>\d{1,9} ?MB?)\b)?"
            ),
        ),
        # Oracle's shared pool, of tens of years' standing, and what all its processes may take (12.1 on)
        ("oracle", "SGA_TARGET", r"\bORA-04031: unable to allocate (?P<tried>\d{1,12} bytes) of shared memory\b"),
        ("oracle", "PGA_AGGREGATE_LIMIT", r"\bORA-04036: "),
        # TiDB's of one query, up to 6.x and since
        (
            "tidb",
            "tidb_mem_quota_query",
            r"\bOut Of Memory Quota!\[conn|\bdue to exceeding the allowed memory limit for a single SQL query\b",
        ),
        ("postgresql", "temp_buffers", r"\bno empty local buffer available\b"),
        (
            "MUMPS",  # 4.10 to 5.7: an array or a buffer that it has laid out itself is too small
            "ICNTL(14)",
            rf"{MUMPS}-(?:8|9|1[1245]|17|20)\b",
        ),
        ("MUMPS", "ICNTL(23)", rf"{MUMPS}-19\b"),
    )
)
_NOT_ON_THE_HEAP: Final = {"ColossalAI": "gpu", "marian": "gpu", "DeepSpeed": "pinned"}  # by the program
_SPILLS: Final = tuple(
    (program, late(pattern))
    for program, pattern in (
        (
            "duckdb",
            rf"failed to offload data block of size {_AMOUNT} \((?P<used>{_AMOUNT})/(?P<limit>{_AMOUNT}) used\)",
        ),
        # src/sort.c of coreutils, create_temp_file: what does not fit into its buffer waits in files of these names
        ("sort", r"\bsort: write failed: [^\n:]{1,200}/sort[A-Za-z0-9]{6}: No space left on device"),
        ("dask", r"\bP2P ran out of available disk space\b"),  # distributed/shuffle/_exceptions.py, 2023.12 on
        ("", r"(?i)\bspill\w{0,6} (?:file|data|to disk)\b.{0,200}No space left on device"),
    )
)
# PostgreSQL lays its table of locks out in shared memory when it starts, and answers "out of memory" (SQLSTATE 53200)
# where that is full; which setting makes it larger stands on the line below (lock.c since 7.4, predicate.c since 9.1)
_LOCKS: Final = late(r"\bout of shared memory(?:\s|\\n|$)")
_OF_LOCKS: Final = late(r"\bYou might need to increase \"?(max_(?:pred_)?locks_per_transaction)\b")
LOCKS: Final = ("max_locks_per_transaction", "max_pred_locks_per_transaction")
_HINT_LINES: Final = 3
# Dask's, whatever it does then
_USAGE: Final = late(
    rf"Worker is at \d{{1,3}}% memory usage\..{{0,60}}Process memory: (?P<used>{_AMOUNT}) -- Worker memory limit: "
    rf"(?P<limit>{_AMOUNT})"
)
# distributed/worker_memory.py, since 2021.10
_PAUSES: Final = "Pausing worker"
_RESUMES: Final = "Resuming worker"
_PAUSED: Final = mark(
    "a Dask worker is paused near its limit, and no line below resumes it: it takes no tasks until its memory falls"
)
# What Spark cannot cache in memory it writes to a disk, or computes again
_NOT_CACHED: Final = late(r"\bMemoryStore: (?:Not enough space to cache|Failed to reserve initial|Will not store)")
_MAPS: Final = late(r"OutOfMemoryError: Map failed\b|\bnot enough memory mappings\b")
# mm/mmap.c, since 6.12 mm/vma.c: the kernel's message of the first refusal since it booted. Without the option's name
# the limit is ignored, and it only warns.
_DATA: Final = late(
    r"\bmmap: (?P<name>.{1,15}) \((?P<pid>\d{1,10})\): VmData (?P<used>\d{1,20}) exceed data ulimit (?P<limit>\d{1,20})"
    r"\. Update limits or use boot option\b"
)
# distributed/spill.py, since 2021.11, above the traceback of the write: the data stay in memory and the work goes on
_KEPT: Final = late(r"\bSpill to disk failed; keeping data in memory\b")
_NO_SPACE: Final = "No space left on device"
_TRACEBACK_LINES: Final = 60
_SIZE: Final = late(r"([\d.,]+) ?(\w*)")


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    if match := _USAGE.search(text):
        yield BudgetUsage(**_about(page, index), program="dask", **_figures(match))
        if _PAUSES in text and not _resumes_below(page, index):
            yield Lookalike(place_of(page, page.lines[index]), _PAUSED)
    elif _NOT_CACHED.search(text):
        why = mark("data that is not cached in memory is written to disk or computed again; the job continues")
        yield Lookalike(place_of(page, page.lines[index]), why)
    elif _KEPT.search(text):
        if any(_NO_SPACE in line.text for line in page.lines[index : index + _TRACEBACK_LINES]):
            yield SpillRefused(**_about(page, index), role="context", program="dask")
    else:
        yield from _refused(page, index, text)


def _resumes_below(page: Page, index: int) -> bool:
    return any(_RESUMES in line.text for line in page.lines[index + 1 :])


def _refused(page: Page, index: int, text: str) -> Iterator[Read]:
    for program, setting, pattern in _BUDGETS:
        if (match := pattern.search(text)) and not echo(text[: match.end()], text):
            figures = _figures(match)
            for other, name in (("bound_bytes", "limit_bytes"), ("left_bytes", "free_bytes")):
                if (value := figures.pop(other, None)) is not None:
                    figures[name] = value
            pool = _NOT_ON_THE_HEAP.get(program, "host_ram")
            yield BudgetSpent(**_about(page, index), pool=pool, program=program, setting=setting, **figures)
            return
    for name, pattern in _SPILLS:
        if (match := pattern.search(text)) and not echo(text[: match.end()], text):
            yield SpillRefused(**_about(page, index), program=name or None, **_figures(match))
            return
    if locks := _of_locks(page, index, text):
        yield BudgetSpent(**_about(page, index), program="postgresql", setting=locks)
    elif match := _DATA.search(text):
        process = Process(pid=int(match["pid"]), name=match["name"])
        figures = {"used_bytes": int(match["used"]), "limit_bytes": int(match["limit"])}
        yield DataSpent(**{**_about(page, index), "process": process}, **figures)
    elif (match := _MAPS.search(text)) and not echo(text[: match.end()], text):
        yield MapsSpent(**_about(page, index))


def _of_locks(page: Page, index: int, text: str) -> str | None:
    """The setting that PostgreSQL names where its table of locks is full."""
    if _LOCKS.search(text) is None:
        return None
    near = page.lines[index : index + _HINT_LINES]
    return next((hint[1] for line in near if (hint := _OF_LOCKS.search(line.text[:CHARACTERS]))), None)


def _about(page: Page, index: int) -> dict[str, Any]:
    line = page.lines[index]
    return {"at": place_of(page, line), "time": line.mark.time, "process": process_of(line)}


def _figures(match: re.Match[str]) -> dict[str, Any]:
    said = {name: value for name, value in match.groupdict().items() if value}
    share = said.pop("share", None)
    sizes = {name: found for name, value in said.items() if (found := _SIZE.match(value))}
    figures: dict[str, Any] = {f"{name}_bytes": size(one[1].replace(",", ""), one[2]) for name, one in sizes.items()}
    return figures if share is None else {**figures, "fraction": _fraction(float(share))}


def _fraction(share: float) -> float:
    return share / 100 if share > 1 else share  # "95%", "0.9"


FAMILY = Family(
    name="budget",
    anchors=(
        "Data too large, data for",
        "OOM command not",
        "OOM if load",
        "memory quota exceeded",
        "maxResultSize (",
        "memory mappings",
        "number of network buffers:",
        "MUMPS error in",
        "exceed data ulimit",
    ),
    triggers=(
        "Allowed memory size of",
        "Data too large, data for",
        "(attempt to allocate chunk of",
        "'maxmemory'",
        "rejected execution of",
        "serialized results of",
        "Unable to acquire",
        "to build hash relation",
        "to build the hash map",
        "to build and broadcast the table",
        "within the configured max blocking time",
        "OOM if load",
        "New used memory ",
        "% memory budget",
        "could not allocate block of",
        "memory quota exceeded",
        "deny to load",
        "worth of input dependencies",
        "no temporary directory is",
        "Failed to change memory limit",
        "Failed to allocate additional",
        " used)",
        "Exceeded memory limit for $",
        "number of network buffers:",
        "95 percent of the buffer pool",
        "empty local buffer",
        "out of shared memory",
        "ORA-0403",
        "Out Of Memory Quota!",
        "limit for a single SQL query",
        "MUMPS",
        "% memory usage.",
        "Spill to disk failed",
        "MemoryStore: ",
        "failed to offload data block",
        "No space left on device",
        "P2P ran out of",
        "Map failed",
        "exceed data ulimit",
        "memory mappings",
        "Not enough buffers",
        "swap in buffers",
        "out of swap buffers",
        "No swap buffers",
        "No buffer available",
        " than buffer size ",
        "PEFT Cache is full",
        "embedding rows from",
        "Attempted allocation of",
        "memory to run SPAdes",
    ),
    read=read,
)
