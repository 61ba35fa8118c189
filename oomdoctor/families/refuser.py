"""Which memory a failure's words name, and who refused it."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.shortage import OF_A_CLUSTER, Shortfall
from oomdoctor.patterns import late

# By the letters of `shortage`, the narrower ones first.
_POOLS: Final = (("kv_cache", "kU"), ("pinned", "p"), ("shm", "s"), ("object_store", "o"))
_GPU, _HOST = "vD", "rH"
_NEAR: Final = 4  # words around those that say it

_CONTAINER = late(
    r"(?i)\bslurm|\b(?:job|task|step|slurm\w{0,3}|kubelet|container\w{0,5}|pods?|c?groups?|limit of the allocation|evict\w{0,4})\b"
)
_MALLOC = late(
    r"(?i)\b\w{0,20}(?:m(?:em)?alloc|memalign|aligned_alloc|mmap)\b|\bheap\b|\berrno\b|os error|cannot allocate memory"
    r"|\bmemory mapping\b|\b(?:cannot|can not|could not|unable to|failed to) map\b|^Exception in thread|\bjava\.|\b(?:machine|host|node) "
)
_OOM_KILL = late(r"(?i)\boom[-_ ]?kill")
_A_CARD = late(r"(?i)(?<![a-z])(?:gpu|cuda|device|hip|xpu|npu|accelerator)s?(?![a-z])")  # in the name of a file
_TENSOR_STORE = late(r"(?i)\b(?:bank|tensor|channel)\b")
_OF_A_CLUSTER = late(
    r"(?i)\b(?:placement|schedul\w{0,4}|cluster|no node|nodes?|task|job|launcher|resource pool|world size|mesh|visible)\b"
)
_LARGEST_NODE = late(r"(?i)\b(?:no|largest|any|each) (?:node|worker|machine)\b|\bplacement\b|\bcluster\b")

_REFUSERS: Final = tuple(
    (refuser, late(words))
    for refuser, words in (
        (
            "kernel",
            r"(?i)\bkernel: |page allocation|vmalloc|__vm_enough|\bfork\b|\bm(?:un)?map\b|cannot allocate memory|not enough space$"
            r"|\bE?NOMEM\b|errno|os error 12|oom[-_ ]kill",
        ),
        (
            "scheduler",
            r"(?i)\b(?:slurm\w{0,6}|kubelet|batchd|pod_workers\.go|eviction|placement|(?<!lr_)(?<!lr )scheduler:)|\bpod\b"
            r"|limit of the allocation",
        ),
        (
            "driver",
            r"(?i:\bdriver\b|\bnvrm\b|\bmetal\b|command buffer|level[ -]?zero|native api)|\b(?:cu|hip|cuda|ze|vk|cl|drv|npu|acl|aclrt|hsa|zx)"
            r"(?:Mem|Malloc|Ctx|Device|Map|Create|Alloc|Host|Stream|Event)\w*|ERR(?:OR)?_(?:\w{1,20}_)?(?:NO|OUT_OF)_DEVICE_MEM"
            r"|\bVK_|\bCL_|\bPI_ERROR|\b\w{2,12}AllocDevice\b|\bhsa_",
        ),
        (
            "engine",
            r"(?i)\bkv[ _-]?(?:cache|pool|block|slot|page|cell|budget)|kvcache|paged[ _-]?(?:attention|cache)|cache[ _]blocks?"
            r"|\b(?:prompt|sequence|decode|prefill|batcher)\b",
        ),
        (
            "framework",
            r"(?i)\b(?:torch|pytorch|tensorflow|tf|jax(?:lib)?|xla|paddle|mxnet|mindspore|keras|megatron|deepspeed|autograd"
            r"|activations?|gradients?|optimizer|caching allocator|tensor allocator|bfc)\b|\bcuda:\d",
        ),
        (
            "library",
            r"\b(?!\w{0,40}(?:Error|Exception)\b)(?=[A-Za-z]{0,30}[a-z](?:Alloc|Heap|Pool|Arena|Buffer|Malloc|Mem))[A-Za-z]\w{3,60}"
            r"|\b[a-z]\w{1,30}::\w|\.(?:cu|cpp|cc|cuh|c)\b"
            r"|(?i:\b(?:workspace|scratch|work area|factori[sz]ation|solver|renderer|communicator|ring|fft|blas|gemm|sim)\b)"
            r"|\b[A-Z]{1,12}(?:BLAS|FFT|DNN|CCL|SOLVER|SPARSE)_|\b[a-z]{1,6}(?:blas|fft|dnn|solver|sparse)[A-Z]",
        ),
    )
)


def pool_of(found: Shortfall, text: str) -> str:
    """The memory that ran out, nearest to the words that say it; "none" where nothing names it."""
    letters = found.sentence.letters
    if found.waits or _of_devices(found):
        return "scheduling"
    if found.compared is not None and _LARGEST_NODE.search(text):
        return "scheduling"
    near = letters[max(0, found.start - _NEAR) : found.end + _NEAR]
    named = _named(near, text) or _named(letters, text)
    if named in ("host_ram", "") and _is_of_a_container(found, text):
        return "cgroup"
    if named:
        return named
    if _OOM_KILL.search(text):
        return "cgroup"
    if _A_CARD.search(text):
        return "gpu"
    return "host_ram" if _MALLOC.search(text) or _of_a_budget(letters) else "none"


def _of_a_budget(letters: str) -> bool:
    """Whether it is the limit of a program's memory, which is a host's where no card is named."""
    return "ml" in letters or "mwl" in letters


def _of_devices(found: Shortfall) -> bool:
    if found.compared is None:
        return "Y" in letters_of(found) and not _named(letters_of(found).replace("D", ""), "")
    return bool(OF_A_CLUSTER.intersection((found.compared.needed.unit, found.compared.there.unit)))


def letters_of(found: Shortfall) -> str:
    return found.sentence.letters[found.start : found.end]


def _is_of_a_container(found: Shortfall, text: str) -> bool:
    return _is_of_a_limit(found) and _CONTAINER.search(text) is not None


def _is_of_a_limit(found: Shortfall) -> bool:
    letters = found.sentence.letters
    return "l" in letters or "OOM" in found.sentence.parts[found.start].text


def _named(letters: str, text: str) -> str:
    for pool, kinds in _POOLS:
        if any(kind in letters for kind in kinds):
            return pool
    if "c" in letters:
        return "cgroup"
    if any(kind in letters for kind in _GPU):
        return "gpu"
    if "d" in letters:
        return "gpu" if _TENSOR_STORE.search(text) else "host_ram"
    return "host_ram" if any(kind in letters for kind in _HOST) else ""


def refuser_of(pool: str, text: str) -> str:
    """Who refused: "framework", "library", "engine", "driver", "kernel", "scheduler", or "unknown"."""
    if pool == "scheduling":
        return "scheduler"
    if pool == "kv_cache":
        return "engine"
    spaced = text.replace("_", " ")
    return next((name for name, words in _REFUSERS if words.search(text) or words.search(spaced)), "unknown")


__all__ = ["pool_of", "refuser_of"]
