"""Which memory a failure's words name, and who refused it."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.families.registrations import registers
from oomdoctor.families.shortage import FEW_CARDS, OF_A_CACHE, OF_A_CLUSTER, OF_AN_ENGINE, Shortfall
from oomdoctor.patterns import late

# By the letters of `shortage`, the narrower ones first
_POOLS: Final = (
    ("kv_cache", "kU"), ("pinned", "p"), ("shm", "s"), ("object_store", "o"), ("cgroup", "c"), ("gpu", "vD"),
)  # fmt: skip
_NEAR: Final = 4  # words around those that say it

_CONTAINER = late(
    r"(?i)\bslurm|\b(?:job|task|step|kubelet|container\w{0,5}|pods?|(?:c-?|control )groups?|evict(?:s|ed|ing|ion)?)\b"
    r"|allocation$"
    r"|\b(?:runc|crun|conmon|podman|docker\w{0,4}|oci runtime)\b|(?-i:Job(?:Id|Status|State)=)"
    r"|\bfunction invocation\b|\bmemory quota\b|cloud\.google\.com"  # of services that run a container
)
_OOM_KILL = late(r"(?i)\boom[-_ ]?kill|\bJobState=OUT_OF_ME")
# A pass of what training consists of
_IN_TRAINING: Final = (
    r"\bOOM (?:error )?(?:during|in|at|while) (?:the |a )?(?:\w{1,12} ){0,2}"
    r"(?:optimi[sz](?:ation|er)|forward|backward|gradients?|training|fine-?tuning)\b"
)
_OF_TRAINING = late(rf"(?i){_IN_TRAINING}")
# What a driver in user space hands to the kernel's for a card: radv's and iris' words, nouveau's push buffers
OF_A_SUBMISSION: Final = late(
    r"(?i)\b(?:push ?buf(?:fer)?s?|batch ?buf(?:fer)?s?|exec ?buf(?:fer)?\d?|command (?:submission|stream|buffer)s?)\b"
)
# Also in the name of a file
_CARD = late(
    r"(?i)(?<![a-z])(?:gpu|cuda|device|hip|xpu|npu|accelerator|hsa|amdgpu|drm|ttm|i915|nvshmem"
    r"|opencl|mem_reuse)s?(?![a-z])|(?<![\w/.-])workspaces?(?![\w/])"  # also a folder's name
    # libraries that compute on a card: "cufft plan", "hipBLAS workspace"
    r"|\b(?:cu|hip|roc|mu)(?:fft|blas|dnn|solver|sparse|rand|tensor)(?:lt|mg|xt)?\b"
    r"|\b(?-i:CL_(?:OUT_OF|MEM_OBJECT)_|cl(?:Create|Enqueue|SVM)[A-Z])"
    r"|\b(?-i:vk|cl|ze):|\bMPS[A-Z]\w|\b(?:hpu|mlu)s?\b|\b(?-i:aclrt|rt(?=Malloc)|cnrt|musa(?=[A-Z])|nrt_|syn(?=[A-Z]|apse\b))|pooled_storage_manager"
    # pictures are made on a card, and models unloaded from it
    r"|\bOOM(?: \w{1,12})?[,.;:]? unload(?:ing|ed) (?:\w{1,8} ){0,2}models?\b"
    r"|\brapids|\bdirectml\b|(?-i:Dml[A-Z])|\bvulkan|\btensorrt\b|\[trt\]|nvenc|cuvid"
    r"|\b(?:lower|smaller|reduce the) resolution\b"
    # Metal's files; OpenCL's and Level Zero's words for a card's memory
    r"|\bMTLDevice\b|MetalPerformanceShaders|torch_?memory_?saver"
    r"|\b(?:max(?:imum)?|total|device) global mem(?:ory)?\b"
    r"|\b(?:private|scratch) surface\b"
    # the log of HIP's runtime: ":1:rocdevice.cpp            :2368: 48213940 us: [pid:31 tid:0x7f]"
    r"|^:\d:(?:(?:roc|pal|gpu)[a-z]{3,12}|hip_\w{1,30})\.[ch]pp {0,40}:\d{1,5} {0,4}: "
    # what cards of one node lend each other
    r"|\bpeer[- ]memory (?:pool|buffers?|arena)\b"
    rf"|{OF_A_SUBMISSION.pattern.removeprefix('(?i)')}"
    r"|\bsycl\b|\bdpct_"  # SYCL's compatibility layer
    r"|\b(?-i:VAE) (?:de|en)cod|\bOOM\) observed\b"  # torch.cuda's observers
    rf"|{_IN_TRAINING}"
)
# TensorFlow's name of it; a file in memory; pandas' reader in C, a solver of sparse systems, MuJoCo's stack, a source
# file ("[host_memory_pool.cpp:..."), what exllamav2 reads weights into (exllamav2_ext/ext_stloader.cpp)
_ON_THE_CPU = late(
    r"/device:CPU:\d(?!.{0,400}/device:GPU:)|\bmemfd\b|\btokenizing data\. C error\b|\bUMFPACK_|\bmj_(?:stack|arena)"
    r"|\[(?:host|cpu)_\w{1,40}\.cpp:|\bCan't allocate buffer for tensor$"
)
# It is the machine's memory that has no room, whatever was to be kept there: "Not enough host memory for the pages",
# "needs 24 GiB but only 20 GiB of RAM is available", "the offloaded KV cache does not fit in CPU memory"
_SHORT_OF_RAM = late(
    r"(?i)\b(?:(?:not enough|insufficient|no|out of|ran out of) (?:free |available )?(?:host|cpu|system) (?:memory|ram)"
    r"|(?:host|cpu|system) (?:memory|ram) (?:is |was )?(?:exhausted|full)"
    r"|only \d[\d.]{0,12} ?[KMGT]i?B of (?:(?:host|cpu|system) )?(?:memory|ram) (?:is|was) (?:available|free|left)"
    r"|fit in(?:to)? (?:the )?(?:host|cpu|system)(?:'s)? (?:memory|ram))\b"
)
# The limit on what may not be swapped, setrlimit(2)
_LOCKED = late(r"\b(?:RLIMIT_)?MEMLOCK\b")
_NO_MEMORY = late(r"(?i)\b(?:cannot allocate memory|ENOMEM)\b")  # the kernel's answer, whoever asked
# "void voxel_grid::ExtractTriangleMeshCUDA(...)": of a device, what it allocates, too
_FUNCTION_OF_A_CARD = late(r"\b(?:\w{1,40}::)?\w{2,60}(?:CUDA|Cuda|_cuda|_gpu|GPU|HIP)\(")
_MALLOC = late(
    r"(?<![A-Za-z_])(?:m|c|re)alloc\(|(?i:(?:failed to|could not|cannot|unable to) malloc \d)"
    r"|(?i:\b(?:could not|couldn't|cannot|can't|unable to|failed to|error (?:on|in)) (?:m|c|re)alloc\b)"
)  # of libc, whoever calls it
_OF_THE_CPU = late(
    r"(?i)\b(?:on (?:the )?|device )['\"(]?cpu\b"
    r"|\b(?<!shared )(?<!and )(?<!\+ )(?:cpu|host|system) (?:memory|ram|backup|mirror|shadow|staging|malloc)\b"
    # ggml's own functions; those of a backend are named after it
    r"|\bggml_(?!cuda|hip|metal|vulkan|vk|sycl|cann|opencl|cl_|backend|gallocr|rpc|kompute|musa|webgpu|tallocr)\w{1,40}:"
)
# "no memory for 8192 tokens"
_FOR_TOKENS = late(
    r"(?i)\b(?:mem(?:ory)?|room|space|slots|pages|blocks) (?:\w{1,8} )?"
    r"for (?:\w{1,12} )?\d[\d,]{0,12} (?:\w{1,8} )?tokens\b"
)
# "could not pin 34359738368 bytes"
_PINS = late(
    r"(?i)\b(?:page-?lock|m?lock|pin) (?:(?:the|all|up to|at least|another|more) )?"
    r"\d[\d.,]{0,20} ?(?:[KMGT]i?B|bytes|pages)\b"
)
# "hipHostRegister failed for the 24 GiB host pool: out of memory"
_PINS_BY_A_CALL = late(r"\b(?:cuda|hip|musa|aclrt)(?:Host(?:Register|Malloc|Alloc)|MallocHost)\b")
# "leaving none for the KV cache"
_LEAVES_NONE = late(
    r"(?i)\b(?:leav(?:es|ing)|left with) (?:none|nothing|no \w{1,12}) for (?:the |an? )?(?:\w{1,12} )?kv[ _-]?cache\b"
)
# "Not enough GPU memory for hybrid state cache"
_FOR_A_CACHE = late(r"(?i)\b(?:memory|room|space|vram|hbm) (?:left )?for (?:\S{1,40} ){0,3}?(?:state |kv )?cache\b")
# "Cache too small for batch shape", "cannot fit ONE worst-case request": a cache of tokens, whatever else is named
_FOR_A_REQUEST = late(
    r"(?i)\bno (?:\w{1,8} )?(?:requests?|sequences?) can be \w{3,9}\b"
    r"|\bcache (?:capacity|budget) (?:\w{2,4} ){0,2}exceeded\b"
    r"|\bcache (?:is |was )?too small for (?:the |this |a )?(?:batch|sequence|prompt|request)\b"
    r"|\b(?:sequence|prompt|context|input) length exceeds (?:the )?cache size\b"
    r"|\bno (?:usable |free |more )?cache memory (?:left|available)\b"
    r"|\bfit (?:even )?(?:one|a single) (?:[\w-]{1,12} ){0,2}(?:request|sequence)\b"
    r"|\benough free (?:memory |cache |gpu )?(?:blocks|pages)\.?$"
    # lmdeploy/pytorch/paging, lightllm/common/mem_manager.py
    r"|: no free states\b|: error alloc state\b"
    # transformers/generation/continuous_batching/cache.py
    r"|\bmemory footprint \d{1,20} is more than available memory\b"
    # src/llama-context.cpp: of its caches and states
    r"|\bfailed to initialize the context: failed to allocate buffer for\b"
)
# "while running Conv node. Name:'/decoder/conv1'"
_OF_A_GRAPH = late(r"\brunning \w{1,40} node\. Name:")
_HOST = late(
    r"(?i)\b\w{0,20}(?:m(?:em)?alloc|memalign|aligned_alloc|mmap)\b|\bheap\b|\berrno\b|os error|cannot allocate memory"
    r"|\bmemory mapping\b|\b(?:cannot|can not|could not|unable to|failed to) map\b|^Exception in thread|\bjava\."
    r"|\b(?:machine|host|node) |\bggml-backend\.c:\d"  # of its buffers on the CPU
)
# What did not help: "even with 72 of 80 layers in host RAM the model does not fit"
_CONCEDED = late(r"(?i)\beven (?:with|after) [^.;:,]{1,120}?(?=,| (?:the|this|that|there|it)\b)")
# What is to be done: "restart the server", "Enable --vae-tiling"
_OUT_OF_DEVICE = late(r"(?i)\bout ?of ?device ?mem")
_DOING = late(r"(?i)(?:creat|allocat|reserv|mapp?)(?:e|ing)?$")
_BIDS = late(r"(?i)(?:re(?:start|boot|launch)|enable|disable)$")
_BANKS = late(r"(?i)\b(?:bank|tensor|channel)\b")  # of a card's own DRAM
# What a program keeps its accounts in, also of a card's
_STRUCTURE = late(
    r"(?i)\balloc\w{0,6} (?:\w{1,20} ){0,4}"
    r"(?:entry|entries|descriptors?|requests?|struct\w{0,4}|list|handle|queue node|tables?|ids? (?:array|list|map))\b"
    r"|\bSizesAndStrides\b"
)
_NODES = late(
    r"(?i)\b(?:no|largest|any|each) (?:node|worker|machine)\b|\bplacement\b"
    r"|\b(?:worker|actor) (?:groups?|bundles?)\b|\breplicas?\b|\bcluster\b|\bnodes are available\b"
    r"|\b(?:master|head|worker|each|the|this) node\b|\b(?:DP|TP|PP|EP) (?:ranks|workers|engines)\b"
)

_FITS = late(r"(?i)\b(?:not|\w{1,8}n't|cannot) fit\b")
_KERNEL = (
    r"\bkernel: |page allocation|vmalloc|__vm_enough|\bfork\b|\bm(?:un)?map\b|cannot allocate memory|not enough space$",
    r"\bE?NOMEM\b|errno|os error 12|oom[-_ ]kill",
)
_SCHEDULER = (
    r"\b(?:slurm\w{0,6}|kubelet|batchd|pod_workers\.go|eviction|placement|(?<!lr_)(?<!lr )scheduler:)|\bpod\b",
    r"limit of the allocation",
)
_CALL = r"(?:Mem|Malloc|Ctx|Device|Map|Create|Alloc|Host|Stream|Event)"
_DRIVER = (
    r"\bdriver\b|\bnvrm\b|\bdrm\b|\bamdgpu\b|\bttm\b|\bmetal\b|command buffer|level[ -]?zero|native api",
    rf"(?-i:\b(?:cu|hip|cuda|ze|vk|cl|drv|npu|acl|aclrt|hsa|zx){_CALL}\w*)",
    r"ERR(?:OR)?_(?:\w{1,20}_)?(?:NO|OUT_OF)_DEVICE_MEM|(?-i:\b(?:VK|CL)_|\bPI_ERROR|\b\w{2,12}AllocDevice\b|\bhsa_)",
)
_ENGINE = (
    r"\bkv[ _-]?(?:cache|pool|block|slot|page|cell|budget)|kvcache|paged[ _-]?(?:attention|cache)|cache[ _]blocks?",
    r"\b(?:prompt|sequence|decode|prefill|batcher)\b",
)
_FRAMEWORK = (
    r"\b(?:torch|pytorch|tensorflow|tf|jax(?:lib)?|xla|paddle|mxnet|mindspore|keras|megatron|deepspeed|autograd|bfc)\b",
    r"\b(?:activations?|gradients?|optimizer|caching allocator|tensor allocator)\b|\bcuda:\d",
)
# What a library keeps for itself, whatever framework calls it: "outside PyTorch's allocator", "dropout states" (cuDNN's
# descriptor of them, jaxlib/gpu/rnn_kernels.cc), "workspace for cuSOLVER"
_ITS_OWN = r"(?:workspaces?|handles?|states?|descriptors?|plans?|communicators?|scratch)"
_A_LIBRARY = r"(?:(?:cu|hip|roc)(?:dnn|blas(?:lt)?|solver|sparse|fft|rand|tensor)|miopen|nccl|rccl|nvshmem)"
BESIDE_AN_ALLOCATOR: Final = late(
    r"(?i)\b(?:outside|beside)(?: of)?(?: the)?(?: [\w'’-]{1,24}){0,2} allocator\b|\bdropout (?:states?|descriptors?)\b"
    rf"|\b{_ITS_OWN} (?:for|of|by|in) (?:the |an? )?{_A_LIBRARY}\b|\b{_A_LIBRARY}(?:'s)? {_ITS_OWN}\b"
)
_ALLOCATOR = r"(?:Alloc|Heap|Pool|Arena|Buffer|Malloc|Mem)"
_LIBRARY = (
    # an allocator by its identifier, a namespace, a file of C++
    rf"(?-i:\b(?!\w{{0,40}}(?:Error|Exception)\b)(?=[A-Za-z]{{0,30}}[a-z]{_ALLOCATOR})[A-Za-z]\w{{3,60}})",
    r"(?-i:\b[a-z]\w{1,30}::\w)|\.(?:cu|cpp|cc|cuh|c)\b",
    r"\b(?:workspace|scratch|work area|factori[sz]ation|solver|renderer|communicator|ring|fft|blas|gemm|sim)\b",
    r"\b(?:nv|roc|i)shmem\b|\bnccl\b|\brccl\b|\bucx\b|\bnixl\b",
    r"(?-i:\b[A-Z]{1,12}(?:BLAS|FFT|DNN|CCL|SOLVER|SPARSE)_|\b[a-z]{1,6}(?:blas|fft|dnn|solver|sparse)[A-Z])",
)
_REFUSERS: Final = tuple(
    (refuser, late("(?i)" + "|".join(words)))
    for refuser, words in (
        ("kernel", _KERNEL),
        ("scheduler", _SCHEDULER),
        ("driver", _DRIVER),
        ("engine", _ENGINE),
        ("framework", _FRAMEWORK),
        ("library", _LIBRARY),
    )
)


def pool_of(found: Shortfall, text: str) -> str:
    """The memory that ran out, nearest to the words that say it; "none" where nothing names it."""
    if _is_of_a_cluster(found, text):
        return "scheduling"
    text = _CONCEDED.sub("", text)
    letters = _without_what_follows(found)
    if found.compared is not None and found.compared.unit in OF_A_CACHE and _named(letters, text) in {"", "host_ram"}:
        return "kv_cache"
    if (placed := _by_a_name(letters, found, text)) is not None:
        return placed
    named = _named_near(letters, found, text) or _named_elsewhere(letters, text, found.sentence.text)
    if named == "gpu" and not _is_of_a_card_itself(found) and _OF_THE_CPU.search(text):
        return "host_ram"
    if named == "pinned" and _is_held_against_ram(found):
        return "host_ram"
    if named in {"gpu", "host_ram", ""} and (purpose := _by_purpose(found, named, text)):
        return purpose
    if named in {"host_ram", ""} and re.search("u|Le", found.letters) and OF_AN_ENGINE.search(text):
        return "kv_cache"
    if named in {"host_ram", ""} and (_OOM_KILL.search(text) or _is_a_limit_of_a_container(found, text)):
        return "cgroup"
    return named or _unnamed(letters, text, found.sentence.text)


def _by_a_name(letters: str, found: Shortfall, text: str) -> str | None:
    """The memory that a device's, a function's or a structure's name alone decides."""
    if (own := _by_its_own_words(found)) is not None:
        return own
    if _ON_THE_CPU.search(text) or ("p" not in letters and _SHORT_OF_RAM.search(text)):
        return "host_ram"
    if found.compared is None and (_PINS_BY_A_CALL.search(text) or _is_of_locked_pages(found, text)):
        return "pinned"
    if _FUNCTION_OF_A_CARD.search(text) and not _OF_THE_CPU.search(text):
        return "gpu"
    return "host_ram" if not {"v", "k"} & set(letters) and _is_of_the_program(found, text) else None


def _by_its_own_words(found: Shortfall) -> str | None:
    """The memory in the name of the failure itself, VK_ERROR_OUT_OF_DEVICE_MEMORY, whatever else stands there; a
    driver's OUT_OF_HOST_MEMORY may be of either."""
    own = " ".join(part.text for part in found.sentence.parts[found.start : found.end])
    return "gpu" if _OUT_OF_DEVICE.search(own) is not None else None


def _is_of_locked_pages(found: Shortfall, text: str) -> bool:
    """Whether what may not be swapped was to be had: by its limit's name, or for a network adapter."""
    if _NO_MEMORY.search(text) and _LOCKED.search(text):
        return True
    return found.named and "v" not in found.sentence.letters and registers(text)


def _is_of_the_program(found: Shortfall, text: str) -> bool:
    """Whether it was libc that was asked, or a structure of the program's own that found no memory."""
    return found.sentence.of_a_structure or any(words.search(text) for words in (_MALLOC, _STRUCTURE))


def _by_purpose(found: Shortfall, named: str, text: str) -> str:
    """What a memory that several things take was wanted for."""
    if (
        _FOR_A_REQUEST.search(text)
        or _FOR_TOKENS.search(text)
        or _LEAVES_NONE.search(text)
        or (named == "gpu" and _FOR_A_CACHE.search(text))
    ):
        return "kv_cache"
    if named != "gpu" and any(one.unit == "cells" for one in found.sentence.amounts):
        return "kv_cache"
    return "pinned" if _PINS.search(text) else ""


def _without_what_follows(found: Shortfall) -> str:
    """The letters up to what is advised behind the failure: "consider ...", "when ...", "; restart the server"."""
    letters = _without_what_was_conceded(found)
    behind = enumerate(found.sentence.parts[found.end :], found.end)
    advice = next((at for at, part in behind if _is_advice(found, at) or _BIDS.match(part.text)), None)
    return letters if advice is None else letters[:advice]


def _is_advice(found: Shortfall, at: int) -> bool:
    """Whether a condition stands there; "failed when creating shared memory" has happened."""
    part, *behind = found.sentence.parts[at : at + 2]
    if found.sentence.letters[at] != "I":
        return False
    return part.text.lower() != "when" or not behind or _DOING.match(behind[0].text) is None


def _without_what_was_conceded(found: Shortfall) -> str:
    """The letters with blanks for what did not help."""
    letters, parts = found.sentence.letters, found.sentence.parts
    conceded = _CONCEDED.search(found.sentence.text)
    if conceded is None:
        return letters
    words = found.sentence.text[: conceded.start()].count(" ")
    last = min(found.start, words + conceded[0].count(" ") + 1)
    return letters[:words] + "w" * (last - words) + letters[last:] if words < last <= len(parts) else letters


def _is_of_a_card_itself(found: Shortfall) -> bool:
    """Whether the words that say it are of a card's memory: "does not fit in GPU memory, so a part went to the CPU"."""
    behind = re.match(f"[^.,]{{0,{_NEAR}}}", found.sentence.letters[found.end :])
    return "v" in found.letters or (behind is not None and "v" in behind[0])


def _is_held_against_ram(found: Shortfall) -> bool:
    """Whether it is the machine's memory that has too little for what was to be locked."""
    if found.compared is None:
        return False
    at = found.compared.there.at
    return "r" in found.sentence.letters[at : at + _NEAR]


def _is_of_a_cluster(found: Shortfall, text: str) -> bool:
    if found.waits or (found.compared is None and FEW_CARDS.search(text)):
        return True
    if found.compared is None and _FITS.search(text):
        return False
    if found.compared is None and "g" in found.letters and any(map(_NODES.search, (text, found.sentence.text))):
        return True
    if found.compared is None:
        return "Y" in found.letters and not _named(found.letters.replace("D", ""), "")
    units = {found.compared.needed.unit, found.compared.there.unit}
    return not OF_A_CLUSTER.isdisjoint(units) or _NODES.search(text) is not None


def _is_a_limit_of_a_container(found: Shortfall, text: str) -> bool:
    of_a_request = found.compared is not None and found.compared.there.role == "need"
    if _OF_TRAINING.search(text):
        return False
    limited = of_a_request or "l" in found.sentence.letters or "OOM" in found.sentence.parts[found.start].text
    return (limited and _CONTAINER.search(text) is not None) or found.over_request


def _named(letters: str, text: str) -> str:
    named = next((pool for pool, kinds in _POOLS if any(kind in letters for kind in kinds)), "")
    if named:
        return named
    if "d" in letters:
        return "gpu" if _BANKS.search(text) else "host_ram"
    return "host_ram" if "r" in letters or "H" in letters else ""


def _named_near(letters: str, found: Shortfall, text: str) -> str:
    """By the words around those that say it, in their own sentence first: the next one may be of another memory."""
    near = slice(max(0, found.start - _NEAR), found.end + _NEAR)
    last = letters.find(".", found.end)
    own = slice(letters.rfind(".", 0, found.start) + 1, last if last >= 0 else len(letters))
    both = slice(max(near.start, own.start), min(near.stop, own.stop))
    return next((named for part in (both, own, near) if (named := _named(letters[part], text))), "")


def _named_elsewhere(letters: str, text: str, spaced: str) -> str:
    """By a word anywhere; a node may be one of a graph that runs on a card."""
    return "" if _OF_A_GRAPH.search(text) and _unnamed(letters, text, spaced) == "gpu" else _named(letters, text)


def _unnamed(letters: str, text: str, spaced: str) -> str:
    """By the program's own words; the limit of a program's memory is a host's."""
    if _CARD.search(text) or _CARD.search(spaced):
        return "gpu"
    return "host_ram" if _HOST.search(text) or "ml" in letters or "mwl" in letters else "none"


def refuser_of(pool: str, text: str) -> str:
    """Who refused: "framework", "library", "engine", "driver", "kernel", "scheduler", or "unknown"."""
    if pool == "scheduling":
        return "scheduler"
    if pool == "kv_cache":
        return "engine"
    if pool == "gpu" and BESIDE_AN_ALLOCATOR.search(text):
        return "library"
    spaced = text.replace("_", " ")
    return next((name for name, words in _REFUSERS if words.search(text) or words.search(spaced)), "unknown")


__all__ = ["BESIDE_AN_ALLOCATOR", "OF_A_SUBMISSION", "pool_of", "refuser_of"]
