"""What a line says, in whatever words, of memory that could not be had: how much of which, and what there was.

The grammar knows the words and binds each figure to the one beside it. Here every word is a letter of its kind, and
patterns over the letters say which kinds in which order are a failure: "could not reserve 2 GiB" is C A S, and so is
"unable to allocate 58982400 bytes". Where figures can be compared they decide: what needs more than there is fails in
any words, and what needs less does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from oomdoctor import grammars
from oomdoctor.families.amounts import BYTES, DEVICES, OF_A_WHOLE, Comparison, Figure, comparison, figures, stated
from oomdoctor.families.echoes import ADVICE, echo
from oomdoctor.families.identifiers import Words, as_words
from oomdoctor.families.other_senses import Said, in_another_sense
from oomdoctor.grammars import Part
from oomdoctor.patterns import late
from oomdoctor.units import MIB

_LETTERS: Final = {
    # figures: a size, a count, a bare number, "3 of 4 GiB", nothing
    "SIZE": "S", "HEX": "S", "COUNT": "N", "NUMBER": "0", "RATIO": "R", "ZERO": "z",
    # memory by its name, and words that are memory in company
    "KV": "k", "PINNED": "p", "HOST_ALLOC": "p", "SHM": "s", "STORE": "o", "CGROUP": "c", "VRAM": "v", "DRAM": "d",
    "MEMORY": "m", "RAM": "r", "DEVICE": "D", "PLACE": "D", "DEVICES": "Y", "HOST": "H", "SPACE": "e", "CACHE": "q",
    "UNIT": "u",
    # what a figure is
    "NEED": "n", "ASKED": "n", "ASKED_IS": "n", "HAVE": "h", "FREE": "f", "FREE_IS": "f", "LIMIT": "l",
    "LIMIT_IS": "l", "USED": "t", "USED_IS": "t", "BY": "b", "BEYOND": "V", "SHORT": "b", "ONLY": "y",
    # verbs
    "CANNOT": "C", "ALLOCATE": "A", "PASSIVE": "P", "GET": "G", "FAILS": "F", "REFUSES": "J", "GONE": "X",
    "OVER": "V", "TOO": "V", "MUST": "M", "MUST_NOT_BE_LESS": "B", "LESS": "B", "MORE": "=", "WAIT": "W",
    "RESOURCE": "g", "REACHED": "!", "LACK": "L", "NO": "O", "SHORTAGE": "E", "OOM_ENDS": "E",
    # what makes it no failure
    "IF": "I", "MAY": "i", "NOT": "T", "KEPT": "K", "KEPT_BEFORE": "<", "KEPT_AFTER": ">", "OTHER": "Z", "DISK": "Q",
    # signs
    "KEY_UNIT": "a", "LINK": "a", "FOR": "a", "ORDINAL": "x", "COLON": ":", "EQUALS": ":", "PAREN": "(",
    "PAREN_END": ")", "COMMA": ",", "STOP": ".", "WORD": "w",
}  # fmt: skip
_RECOMMENDS = late(r"(?i)\b(?:recommend|suggest|advise)\w{0,3}\b")
_MEM = "[kpsovdmr]"
_FEW = r"(?:[wafnhltyxDYHequSN0RUkpsovdmr]|~-*){0,5}?"
_END = r"(?:[.,;:()fFJCIGh]|a[^T]|wf|$)"
_PREDICATES = tuple(
    late(pattern)
    for pattern in (
        # a name for it: ENOMEM, OutOfMemory
        r"E",
        # "out of device memory", "not enough room for 3 GiB", "no more KV blocks", "lacks the 2 GiB"
        rf"L{_FEW}{_MEM}",
        rf"L[waf]{{0,2}}e(?:aA)?{_FEW}(?:S|{_MEM}|D)",
        r"La{0,2}S",
        rf"O[waf]{{0,2}}e{_FEW}(?:S|{_MEM})",
        # "out of GPU and host memory"
        rf"L[aDH]{{1,3}},[waDH]{{0,2}}{_MEM}",
        # "no device memory left", "has no room", "no free cell", "nothing remains for the KV cache"
        rf"O[wafHDq]{{0,2}}?{_MEM}{{1,2}}[eu]?(?={_END})",
        rf"hO{_FEW}(?:e|{_MEM})",
        r"Oea{0,2}D",
        rf"z[waf]{{0,3}}f{_FEW}{_MEM}",
        r"O[wfD]{0,2}Ya?f",
        # "not enough GPUs", "insufficient cluster resources", "cannot meet the required number of nodes"
        r"L[waf]{0,2}[Yg]",
        rf"C{_FEW}G{_FEW}Y",
        # "not enough buffers 1 for swapping 4"
        r"Le[N0]",
        # "memory is exhausted", "the card is full", "memory limit exceeded", "exhausted the heap"
        rf"{_MEM}(?:[wafhltyDHequSN0RUx]|~-*){{0,4}}?:?[wa]{{0,2}}X",
        rf"(?:{_MEM}|c)(?:[wacfltyqmDSN]|~-*){{0,5}}?[VX](?=[.,;:()S]|$|[wa]{{0,2}}[b.])",
        rf"{_MEM}[wa]{{0,3}}L(?=[.,;:()]|$)",
        # "the memory available (0.42 GB) is less than ..."
        rf"{_MEM}{_FEW}\(?S?\)?aB",
        rf"{_MEM}[waHD]{{0,4}}f(?:[wa,]|~-*){{0,5}}?B",
        r"Da{0,2}X",
        rf"X{_FEW}(?:{_MEM}|D)",
        # "GPU memory size 21 GiB is smaller than 27 GiB"
        rf"{_MEM}[waD]{{0,3}}Sa?Ba?S(?![waf]{{0,2}}[il])",
        # "memory requirements not met"
        rf"{_MEM}[wa]{{0,2}}n[wa]{{0,2}}X",
        # "91% of the memory, exceeding the limit of 90%"
        rf"{_MEM},?[wa]{{0,3}}V[waf]{{0,3}}l",
        # "exceeds the device's memory"
        rf"V{_FEW}(?:{_MEM}|D)",
        # "could not reserve 1.2 GiB", "unable to pin 24 GiB", "does not fit into memory"
        rf"C{_FEW}A{_FEW}(?:{_MEM}|[SNUeu]|D)",
        rf"C{_FEW}G{_FEW}(?:{_MEM}|S)",
        # "failed to allocate the control signal of a sequence in CPU memory"
        rf"CA[wa]{{1,8}}[HD]{_MEM}",
        # "unable to satisfy an allocation of 7 GiB"
        rf"C{_FEW}G{_FEW}A{_FEW}(?:{_MEM}|S)",
        # "could not allocate metaspace: 1073741824 bytes"
        rf"C{_FEW}A{_FEW}:a{{0,2}}S(?=[.,;()]|$)",
        r"Ca?p",
        # "only 310 MiB left", "only 2 of 24 GiB GPU memory is free"
        r"ya{0,2}[SUR][waDHmvr]{0,4}f",
        # "host allocation of 3 GiB failed", "refused a block of 64 MiB", "page allocation failure"
        rf"J{_FEW}S",
        rf"S{_FEW}J",
        rf"{_MEM}{_FEW}J",
        # "memory could not be obtained", "a tensor of 3 GiB cannot be placed"
        rf"(?:{_MEM}|[SNUeA]){_FEW}C(?:a{{1,2}}G|P)",
        rf"[SNU]{_FEW}CG",
    )
)
# A limit that was met, where the sentence is of memory
_OF_A_LIMIT = tuple(late(pattern) for pattern in (rf"l{_FEW}[VX!]", rf"!{_FEW}A?{_FEW}l"))
# An allocation that failed, where the sentence says of what
_OF_MEMORY = tuple(late(pattern) for pattern in (rf"A{_FEW}[,:]?[wa]{{0,2}}[FJ]", rf"[FJ]{_FEW}A"))
_OF_AN_OBJECT = late(rf"C{_FEW}A")
# "an array of 170 TB exceeds the maximum array size", where the sentence counts bytes
_LARGER_THAN_A_LIMIT = late(
    r"[HA][^.]{0,12}S[)~-]{0,4}[wafDHA]{0,4}V[wafH]{0,3}l|S[)~-]{0,4}[wafD]{0,2}[HA]V[wafH]{0,3}l"
)
# "aborted due to insufficient system resources", where a model was being loaded
_LOADS_A_MODEL = late(
    r"(?i)^(?!.*\bnan\b)"  # a guard that works with a broken figure
    r".*?(?:\bmodel (?:\w{1,12} )?load|\bload\w{0,3} (?:of )?(?:\w{1,12} ){0,3}(?:model|weights|checkpoint)"
    r"|\bmodel weights\b)"
)
_RESOURCES_SHORT = tuple(late(pattern) for pattern in (r"L[waH]{0,2}g", r"g[wa]{0,3}L"))
# A pool, where the sentence counts bytes; "exceeds the capacity by 8 GiB"
_OF_BYTES = tuple(
    late(pattern)
    for pattern in (
        r"[qe][wl]{0,3}[VX]",
        r"gX",
        r"CA[wa]{0,3}\([^()]{0,24}?[S0]",
        r"A[wna]{0,3}X",
        r"AC[wa]{1,3}(?=[,:])",  # "Allocation failed in Mallocator, requested ..."
        r"CA[wa]{0,2}VS",
        r"L[waH]{0,2}g",
        rf"V{_FEW}bS",
    )
)
# "does not fit on the card", "cannot fit its weights and activations within 5 GiB"
_NOT_FIT = late(r"(?i)\b(?:not|\w{1,8}n't|cannot|never) fit\b")
_OF_A_PLACE = tuple(late(pattern) for pattern in (r"CGa{1,2}[wfDH]{0,2}[DYH]", r"CG[waAequ,]{0,24}aS"))
# "not enough gpu fitted on this node", "failed to reserve TPU slice" (ray/util/tpu.py): cards, and nothing on them
FEW_CARDS: Final = late(
    r"(?i)\b(?:failed to|could not|cannot|unable to) (?:reserve|acquire|allocate|find)"
    r" (?:an? |the |any |\d{1,4} )?(?:free )?(?:[gnt]pu|mig|accelerator) slices?\b"
    r"(?! (?:name|info\w*|id|label|config\w*))"
    r"|\b(?:not enough|insufficient|no (?:free|idle)) (?:[gnx]pus?|accelerators?)(?: cards?)?"
    r"(?: (?:fitted|left|available|free))? (?:on|in|for) (?:this|the|any|each|that) (?:node|cluster|host|machine)\b"
)
# "not enough resources to allocate 4 placement groups"
_PLACEMENT = late(r"(?i)\b(?:placement|gpus?|devices?)\b")
_OF_RESOURCES = late(r"L[wa]{0,2}g")
# "due to insufficient workspace"
# "the KV cache budget is below the minimum"
_BELOW = late(r"(?i)\bbelow (?:the |its )?(?:minimum|required)\b")
_WORKING = late(r"(?i)\b(?:workspace|scratch|work area|arena)\b")
_OF_A_WORKSPACE = tuple(late(pattern) for pattern in (r"L[waf]{0,2}e(?=[.,;:()]|$)", r"e[wat]{0,3}X", r"CA[waD]{0,3}e"))
# "pinning shared memory failed with error 2"
_PINNING = late(r"(?i)\b(?:(?:un)?pinning|page-?locking|host registration of|registering) (?:\w{1,12} ){0,3}memory\b")
# "posix_memalign failed", "que_alloc failed", without a word on memory
_NO_MEMORY: Final = (
    r"ports?|addr(?:ess(?:es)?)?|ips?|ids?|pids?|jobs?|slots?|leases?|nodes?|devices?|sockets?|channels?|vlans?|tty|fds?"
    r"|tasks?|gpus?|net(?:work)?s?|inodes?|disks?|extents?|threads?|workers?|executors?|cores?|cpus?|sessions?|subnets?"
    r"|seats?|licen[cs]es?|bandwidth|budget|quota|resources?|streams?|events?|teams?|qps?|cqs?|keys?|mkeys?|domains?"
    r"|instances?|hosts?|volumes?|partitions?|shards?|replicas?|regions?|zones?|numbers?|names?|tokens?|credits?|time"
)
_BY_ITS_CALL = late(
    r"(?i)\b(?:\w{0,20} ?mem ?align|\w{0,8}malloc|calloc|realloc|aligned alloc) (?:has |call )?failed\b"
    rf"|\b(?!(?:{_NO_MEMORY})\b)[a-z]\w{{1,20}} alloc (?:has |call )?failed\b"
)
# "unable to malloc", "could not calloc!", "error on realloc"
_OF_LIBC = late(
    r"(?i)\b(?:could not|couldn't|cannot|can't|unable to|failed to|error (?:on|in)) (?:m|c|re|xm|xre|v|z)alloc\b"
)
_RETURNS_NULL = late(r"(?i)\breturn(?:s|ed) (?:null|nil|nullptr)\b")
# Python's, raised by a program's own allocator
_MEMORY_ERROR = late(r"^(?:\w{1,40} ){0,6}Memory Error :")
# "allocation size is too large"
_TOO_LARGE = late(
    r"(?i)\b(?:re|pre)?-?alloc\w{0,6} (?:size |request |of (?:the |a )?[\w.]{1,16} ?(?:[KMGT]i?B )?)?"
    r"(?:is |was |are )?too (?:large|big)\b"
)
# "cannot place the model and keep 4.5 GiB free"
_TO_BE_LEFT = late(r"(?i)\b(?:keep|leave|retain|spare)\w{0,3} (?:at least )?\d[\d.,]{0,12} ?[KMGT]i?B")
# "unable to allocate 4 worker groups with the resources there are"
_WORKERS = late(
    r"(?i)\b(?:workers?|actors?|replicas?|bundles?|ranks)\b"
    r".{0,24}\b(?:with|from|on|given) (?:the |all )?(?:\w{1,12} )?resources\b"
)
# "cannot create std::vector larger than max_size()"
_CONTAINER = late(
    r"(?i)^(?!.*\b\d{1,6}\b).*?\b(?:create|allocate) .{0,20}\b(?:vector|deque|buffer|tensor)\b"
    r".{0,24}\bmax(?:imum)? size\b"
)
# "memory map failed"
_MAPPING = late(r"(?i)\bmemory map(?:ping)? (?:has )?failed\b")
# "used gpus are more than num_nodes x num_gpus_per_node"
_OF_GPUS = late(r"(?i)\b(?:gpus|npus|accelerators)\b.*\b(?:available|visible|nodes?|cluster|machine|host)\b")
# "ResourceInsufficientError: cannot form 4 segments of 8 nodes", by the exception's name
_OF_A_CLUSTER = late(r"(?i)^(?:\w{1,40} ){0,8}Resources? Insufficient Error : .*\b(?:nodes?|cluster|placement)\b")
# "can not free tree tokens", "failed to evict 12 blocks of the cache": what holds tokens
_FREES = late(
    r"(?i)\b(?:can ?not|could not|couldn't|unable to|failed to) (?:free|evict|reclaim) (?:enough )?"
    r"(?=(?:\w{1,12} ){0,3}(?:tokens?|blocks?|pages?|slots?)\b)(?=.*\b(?:tokens|tree|radix|kv|cached?|sequences?)\b)"
)
# What was used, where it is held against what was allowed: "memory usage of 12 GB is over the request of 8 GB"
_USAGE = late(
    r"(?i)^(?!.*\b(?:thresholds?|water ?marks?|soft|targets?|warn\w*|alerts?|alarms?|recommended|fraction)\b)"
    r".*?\b(?:memory|ram|rss|vram|hbm|swap|resident set) (?:size )?(?:usage|use|used|footprint|consumption)\b"
)
# ... or against what somebody only watches for: "is over the threshold of 96 GiB for 10 seconds"
_THRESHOLD = late(
    r"(?i)\b(?:over|above|exceed\w{0,3}|than|beyond)\s{1,2}(?:the |its |a )?(?:\w{1,12} ){0,2}"
    r"(?:threshold|water ?mark)\b"
)
# "GPU memory was not freed": by whoever holds it
_NOT_FREED = late(
    r"(?i)(?<!of )\b(?:gpu|device|video) memory (?:was|is|has) (?:still )?not (?:been )?(?:freed|released)(?: \.|$)"
)
# What an engine keeps for a request, in the words of lmdeploy and lightllm and nothing else
_OF_A_STATE = late(r"(?i)^(?:\w{1,40} ){0,8}: (?:no free states|error alloc state)\b")
# "insufficient number of spool buffers: required 65, only 12 available"
_BUFFERS = late(r"(?i)\b(?:number of|enough|insufficient) (?:\w{1,12} ){0,3}buffers\b")
# "No requests can be scheduled and no request can be offloaded" (Transformers, continuous_api.py)
_NO_REQUEST = late(
    r"(?i)\bno (?:\w{1,8} )?(?:requests?|sequences?) can be (?:scheduled|admitted|served|run)\b"
    r".{0,40}\bno(?:ne|thing)?\b.{0,24}\bcan be (?:offloaded|evicted|preempted|swapped|freed|released)\b"
)
# "segment cache capacity exceeded; evict older segments or raise the budget"
_FULL_OF_TOKENS = late(
    r"(?i)^(?=.*\b(?:evict\w*|tokens?|sequences?|positions?|contexts?|attention|prompts?|decod\w{1,3}|encod\w{1,3})\b)"
    r".*\bcache (?:capacity|budget) (?:is |was |has been )?exceeded\b"
)
# "Can not alloc MLX auxiliary cache"; a key of a cache is reserved
_ALLOCATES_A_CACHE = late(
    r"(?i)\balloc(?:ate)? (?:(?!(?:in|of|from|for|to|by|on)\b)\w{1,14} ){0,4}cache(?: ?[.,;:()]|$)"
)
# What a sentence is about, and what says it there
_ABOUT_A_THING = (
    (_LOADS_A_MODEL, _RESOURCES_SHORT),
    (_PLACEMENT, (_OF_RESOURCES,)),
    (FEW_CARDS, (late(r"LD|C[AG][wafON0D]{1,5}"),)),
    (_NO_REQUEST, (late(r"Ow{1,3}a"),)),
    (_FULL_OF_TOKENS, (late(r"ql?V"),)),
    (_ALLOCATES_A_CACHE, (late(r"CA[waD]{0,5}q"),)),
    (_PINNING, (late(r"p[wsHD]{0,3}[FJ]"),)),
    (_MAPPING, (late(rf"{_MEM}GF"),)),
    (_OF_GPUS, (late(rf"Y{_FEW}V{_FEW}Y"),)),
    (_OF_A_CLUSTER, (late(r"gL"),)),
    (_FREES, (late(r"C[wafL]{0,5}[NUuk]"),)),
    (_NOT_FIT, _OF_A_PLACE),
    (_WORKING, _OF_A_WORKSPACE),
    (_BELOW, (late(rf"{_MEM}[wal]{{0,3}}Ba?[wl]"),)),
    (_MEMORY_ERROR, (late(r"L[waf]{0,2}e"),)),
    (_TOO_LARGE, (late(r"A[waS]{0,5}X"),)),
    (_TO_BE_LEFT, (late(r"C[wa]{0,3}G[wa,DH]{0,8}Sf"),)),
    (_WORKERS, (late(r"CA[wa0N]{0,6}f?g"),)),
    (_CONTAINER, (late(r"C[wa:]{0,2}[GA][^.]{0,8}V[wa]{0,2}l"),)),
    (_BY_ITS_CALL, _OF_MEMORY),
    (_OF_LIBC, (late(r"CA"),)),
    (_RETURNS_NULL, (late(rf"G{_FEW}SF"),)),
    (_NOT_FREED, (late(r"v[wa]{0,3}T[wa]{1,2}"),)),
    (_OF_A_STATE, (late(r"Lw|wAw"),)),
    (_BUFFERS, (late(r"L[waf]{0,4}e:?n?[N0]"),)),
    (_USAGE, (late(r"[tw][wamSHx0]{0,8}V[waf]{0,3}[ln]"),)),
)
# What a kernel has on the chip, beside the memory that processes share
_ON_CHIP = late(
    r"(?i)\b(?:tactic|stages?|tiles?|multiprocessor|matrix mult\w*|gemm|per block|threads?|kernel needs|kokkos|epilogue"
    r"|sm ?\d{2,3}|smem|dynamic shared|speciali[sz]ation|kernel constraints|head dim|cuda ?arch|config fits)\b"
)
# Of the cache that an engine keeps its tokens in, where the sentence is about it
_OF_A_CACHE = tuple(
    late(pattern)
    for pattern in (
        r"[LO][wafnlq]{0,3}[euNU]",
        rf"C{_FEW}G{_FEW}[euNU]",
        r"O[wf]{0,3}e",
        r"[lqe](?:[0SwN]|~-*){0,3}CG",
        r"Lq(?=[n.,;:()]|$)",
        r"V[afl]{0,2}q",
        r"q[wa]{0,2}X",
    )
)
# Whose pools hold no tokens
_OF_OTHERS = late(
    r"(?i)\b(?:connections?|backends?|sessions?|clients?|databases?|threads?|upstreams?|prox(?:y|ies)|users?|logins?|sockets?"
    r"|sql|postgres\w*|redis|https?|smtp|ftp|players?|phones?|calls?|jobs?|agents?|runners?|peers)\b"
)
OF_A_CACHE: Final = frozenset({"tokens", "blocks", "cells", "slots", "pages"})
OF_A_CLUSTER: Final = frozenset({DEVICES, "nodes", "cpus"})
# A wait for GPUs, or for what a cluster has
_WAITING = late(r"W[wafnN0]{0,4}[YgN]")
# Whose resources: a workflow engine waits for what its other jobs give back
_OF_ITS_NODES = late(r"(?i)\b(?:ray|cluster|placement|gpus?|nodes?|bundles?|actors?|workers?|autoscaler|CPU)\b")
_ASIDE = late(r"\([^()]{0,12}\)")
OF_AN_ENGINE: Final = late(
    r"(?i)\b(?:one|a|this|the|any) (?:\w{1,12}[- ]){0,2}(?:request|sequence|prompt)\b"
    r"|\b(?:request|sequence|prompt) #?\d|\b(?:create|allocate|add|append|admit) (?:a |an |the |any )?(?:new )?"
    r"(?:\w{1,12} )?(?:state|sequence|prompt|cache entry)\b|\bblock ?#?\d{1,9} has no\b"
    r"|\b(?:space|room|slots?) (?:left )?in (?:the )?cache for (?:a |the |one |single ){0,2}(?:state|sequence|prompt)\b"
    r"|\breq(?:uest)? to token (?:pool|slots)\b|\b(?:radix|prefix) (?:cache|tree|blocks|tokens)\b|\btree tokens\b"
    r"|\b(?:blocks|pages|cells|tokens) (?:left |free )?to (?:schedule|prefill|decode|admit|serve|batch)\b"
    r"|\[ ?TM ?\] ?\["  # TurboMind's own log
)
# "failed to build on the GPU, using the CPU instead. Error: out of memory": what is done stands before the reason
_WAY_ROUND = late(r"[CFJL][^.,>]*,[^.,>]*>[waDH>]*\.?[^.>CFJ]*:[^.]*$")
# "Retraction pool exhausted. Aborting the request.": what was tried before has failed, too
_GIVES_UP = late(r"(?i)\babort(?:ing|ed)? (?:the |this )?(?:request|job|task|run|training)\b")
# "malloc failed. Skip StressDetect.": no advice, which has an article or says please
_WITHOUT = late(r"\.<w{1,2}\.?$")
# A device as one of several: "on the device", "a loopback device"
_A_DEVICE = late(r"(?i)(?:gpu|device|card|accelerator|[nxt]pu)(?: ?[:#] ?-?\d{1,5})?")
_PLACING: Final = frozenset({"on", "in", "from", "for", "at", "onto", "within", "into"})
# What takes memory where it is said to be allocated
_OBJECT = late(
    r"(?i)\b(?:re)?alloc\w* (?:[\w.]{1,14} ){0,4}(?:tensor|frame|surface|segment|chunk|region|stack|backup|mirror"
    r"|queue(?! pair)"
    r"|object|bitmap|image|weight|activation|gradient|sample|state|string|matrix|vector|array|texture|mesh|volume|grid|page"
    r"|request(?!s)|structure|msg|message|argv|copy|table|descriptor(?!s)|packet)s?\b"
)
_SUSPICION = late(
    r"(?i)\b(?:likely|probably|possibly|may|might|could) (?:\w{1,8} )?(?:indicate|mean|suggest|due|caused)"
)
# A program in C names its file, and what it has no memory for is a structure of its own:
# "tcp_ep.c:427 ERROR failed to allocate tcp ep"
_IN_C = late(r"(?:^|[\s\[(/])[\w-]{1,60}\.(?:c|cc|cpp|cxx|h|hpp|m)[:(]\d{1,6}\b")
_NO_STRUCTURE = rf"{_NO_MEMORY}|memory|requests|pair|window|vip|range|group|space|percent|more|least|from"
_A_STRUCTURE = late(
    r"(?i)\b(?:failed to|unable to|cannot|can not|could not|couldn't|can't) (?:re|m|c)?alloc(?:ate)?"
    rf" (?!(?:[\w.]{{1,30}} ){{0,5}}(?:{_NO_STRUCTURE})\b)[a-z]\w"
    rf"|\balloc (?!(?:\w{{1,30}} ){{0,4}}(?:{_NO_STRUCTURE}|buffers?)\b)[a-z]\w{{1,30}}(?: \w{{1,20}}){{0,3}} failed\b"
)
_BUFFER = late(r"(?i)\bbuf(?:fer)?s?\b")
_ALLOCATES = late(r"(?i)\balloc(?:ator|ate)?\b")
# "attempted allocation of 402653184, but only 117440512 free": of bytes, where no word says of what else
_ALLOCATION_OF = late(r"(?i)\ballocation of \d{7,20}(?: ,| but\b| ;)")
# "size 6442450944 is larger than maxBufferSize 4294967296"
_LARGEST_BUFFER = late(r"(?i)\bmax(?:imum)? buffer (?:size|length)\b")
_OF_CACHE = late(r"(?i)cache|\bkv\b")  # a count that says of what it is
_NAME = late(rf"E|L[aDH]{{0,2}}{_MEM}|Xam")
_RUNS_OUT = late(r"[DH]a?X(?:am)?")  # "your device running out"
_LOW = late(r"(?i)(?:running )?low on$")  # that little is left, and not that it ran out
_NEGATED = late(r"[Ti][wa]{0,2}[:(]{0,2}$")
_CONDITION = late(r"[Ii][^.:;]{0,60}$")
# What it is not to come to: "the largest batch that doesn't result in your device running out of memory"
_NOT_TO_HAPPEN = late(
    r"(?i)(?:\b(?:do|does|will|would)(?: not|n['’]t)|\bwon['’]t)"
    r"(?: (?!(?:because|due|since|as|after|from|with|when|while|have|fit|start|work|load|continue|complete|finish)\b)"
    r"\w{1,16}){0,9} ?$"
)
# ... and the reason for which a parameter is asked for, and a value recommended
_DEMANDS = late(
    r"(?i)\b(?:you must|please|you need to|you have to) (?:\w{1,10} )?(?:provide|pass|specify|set|give|choose|supply)\b"
    r"|\b(?:must|has to|have to|needs to) be (?:\w{1,10} )?(?:provided|passed|specified|set|given|chosen|supplied)\b"
    r"|\bmissing (?:\w{1,10} ){0,2}(?:arguments?|parameters?|options?)\b"
    r"|\b(?:argument|parameter|option|value) (?:\S{1,40} )?is required\b"
)
_CHOOSE = late(r"(?i)\b(?:recommend|suggest|advise|choos|pick|prefer)\w{0,5}\b")
_OPENING: Final = 2  # words
# "sort: ", "alloc.c: grow: ", "curl: (27) ", "map(file, 4): ", behind "[pool] [412.5] "
_PROGRAM = late(
    r"(?:\([^()]{1,16}\)|:{1,2}0:{0,2}){0,6}(?:(?:\w{1,3}:){1,2}(?:\([0x]\))?|:{0,2}\w{1,6}\([\w,()]{0,24}\):)?"
)
# "no memory left", "not enough memory for command submission."
_ENDS = late(r"f?(?:$|[.,:(]|aw{1,3}\.?$)")
_THERE_IS = late(r"(?i)\W{0,4}there (?:is|was|are|were) (?:not enough|insufficient)\b")
_OF_MEMORY_BEHIND = late(r"a{0,2}[kpsovdmr]")  # "4096 bytes of memory for the payload"
_MAY_BE = late(r"[wa]{0,2}i")
# What a line is about; without any of these nothing in it can be short. Most exceptions have none.
_ABOUT = late(
    r"(?i)mem|mmap|ram\b|heap|alloc|[\d.] ?[KMGT]i?B?\b|bytes?\b|oom|hbm|cache|kv|(?:token|block|page|cell|slot)s?\b"
    r"|gpu|cuda|device|accelerator|\bcards?\b|[nxt]pus?\b|\bpin|lock|shm|shared|space|\broom|buffer|arena|pool|plasma|swap"
    r"|can be (?:offloaded|evicted|preempted|swapped|freed|released)\b"
    r"|cpus?\b|nodes?\b|resource|spill|store\b|states\b|内存|显存|メモリ|Speicher|mémoire"
)
_OF_NAMES = late(
    r"(?:\w{1,40}\.){0,4}(?:Attribute|Name|Import|ModuleNotFound|Key|Syntax|FileNotFound|Type|IllegalArgument)"
    r"(?:Error|Exception)\b"
)
# An error's number that means memory: CUDA's and HIP's 2, CANN's 6 and 207001, Linux' 12, Windows' 8, 14, 1450 and
# 1455, netCDF's -61
_CODES = frozenset({-61, 2, 6, 8, 12, 14, 1450, 1455, 207001})
_FULL: Final = 28  # ... and ENOSPC, of a file in shared memory
_ANOTHERS_NAME = late(r"\b(?:cuda|hip) Error (?!Memory|Out)[A-Z]")  # by its identifier, as words
_KEY = late(r"\s{0,80}([\"']?[a-z][a-z\d_.-]{1,60}[\"']?)\s?[:=]\s?[\"']?[\w.-]{1,40}[\"',]{0,3}$")
_CARD = late(r"(?i)^(?!.*(?:index|ordinal)).*?(\d{1,3})$")
_CODE = late(r"(?i)(?:code|rc|errno|status|result|ret)\s?[:#=]?\s?(-?\d+)")
# Fields of logfmt with figures and nothing else: their names are no sentence.
_FIELDS = late(
    r"\s{0,80}(?:[A-Za-z][\w.-]{1,60}="
    r"(?:\"[\d.,;\[\] -]{0,40}(?:[KMGT]?i?B|%)?\]?\"|\[?-?\d[\w.%-]{0,40}\]?)(?:\s{1,4}|$)){2,40}$"
)
# What a collector did, and why: "Pause Full (Allocation Failure) 4030M->4011M(4096M)"
_COLLECTS = late(r"\bGC\(\d{1,9}\) |\[(?:Full )?GC\b|\bPause (?:Full|Young|Initial|Remark|Cleanup)\b")
# A figure or a handle that could not be had, and no memory: "cannot get memory available for device 0"
_LOOKS_UP = late(
    r"(?i)\bmem_?get_?info\b"
    r"|\b(?:get|read|query|fetch|find|determine|retrieve|obtain)\w{0,3} (?:the )?(?:\w{1,12} ){0,2}"
    r"(?:memory|vram|ram|kv ?cache) (?:available|breakdown|info\w*|usage|stat\w*|size|capacity"
    r"|limits?(?! (?:was |is |has been )?(?:exceeded|reached|hit)\b)"
    r"|(?:allocation )?(?:pool|node|handle|type|attribute\w*))\b"
    r"|\b(?:get|read|query|find|determine) (?:the )?(?:amount|size|number) of (?:\w{1,12} ){0,2}memory\b"
)
# What a device is not made for: "<CUDA device 0> cannot map host memory"
_IS_UNABLE = late(
    r"(?i)^(?!.*\b(?:out of|not enough|insufficient|ENOMEM)\b).*?\b(?:gpu|device|card|adapter|accelerator|platform)\b"
    r"[^:;]{0,60}(?:can ?not|can't|does not|doesn't)"
    r" (?:map|access|pin|register|share|address) (?:the )?(?:host|system|peer|mapped|managed|pinned|pageable) memory\b"
)
# ... and what it, its driver or its program does not offer: "async memory pool is not available for this device"
_IS_LACKING = late(
    r"(?i)^(?!.*\b(?:out of|not enough|insufficient|ENOMEM)\b)"
    r".*?\b(?:memory (?:pools?|resources?|allocators?|managers?|compression)|allocators?"
    r"|(?:unified|managed|shared|pinned|async\w{0,8}|mapped) memory)"
    r" (?:is|are) (?:currently )?(?:not available|unavailable|not supported|disabled)"
    r" (?:for|on|in|with|by) (?:the |this |your |any )?(?:[\w-]{1,16} ){0,2}"
    r"(?:device|gpu|card|platform|architecture|build|driver|runtime|system|machine|backend|version)s?\b"
)
# ... or what is to be switched on first: "cannot allocate host-visible VRAM. Ensure that resizable BAR is enabled"
_IS_OFF = late(
    r"(?i)^(?!.*\b(?:out of|not enough|insufficient|exhausted|ENOMEM|\d[\d.]{0,20} ?(?:[KMGT]i?B|bytes))\b)"
    r".*?\b(?:ensure|make sure|check|verify) (?:that )?[^.;:]{2,60}\b(?:is|are) (?:enabled|supported|turned on)\b"
)
# What is given back, and not asked for: "unable to detach shared memory segment", "failed to clear mmap cache"
_GIVES_BACK = late(
    r"(?i)^(?!.*\b(?:out of|not enough|insufficient|ENOMEM)\b).*?\b(?:failed to|unable to|cannot|could not|couldn't)"
    r" (?:detach|unmap|munmap|clear|release|deallocate|unregister|deregister)\b(?! (?:\w{1,12} )?enough\b)"
    r"|^(?!.*\b(?:out of|ENOMEM)\b).*?\b(?:munmap|shmdt|shmctl)\((?!.*\bIPC_CREAT)"
)
# What a connection carries at most: "message length 5242880 exceed maximum message size of 4194304"
_IS_A_MESSAGE = late(
    r"(?i)\bmessage (?:length|size) \d{1,20} exceeds? (?:the )?max(?:imum)?\b|\bin-flight requests exceeded\b"
)
# A plan that is worked out anew: "cannot meet the free memory target of 2048 MiB, must use 512 MiB less"
_IS_A_TARGET = late(
    r"(?i)\b(?:cannot|can't|could not|couldn't|unable to|does not|doesn't) (?:meet|reach|hit|satisfy|match|fulfil)"
    r" (?:the |its |this |all )?(?:\w{1,12} ){0,3}targets?\b"
)
# Of time, and of what is learned from: "exceeded your GPU quota (60s requested vs. 12s left)", "insufficient data"
_IS_OF_ANOTHER_THING = late(
    r"(?i)^(?!.*\b(?:mem(?:ory)?|v?ram|heap|rss|cache)\b|.*\d ?[KMGT]i?B\b).*?"
    r"(?:\b(?:quota|budget|allowance|credits?)\b.{0,80}\b\d[\d.]{0,8} ?(?:s|sec(?:ond)?s?|min(?:ute)?s?|h(?:our)?s?)\b"
    r"|\b(?:insufficient|not enough) (?:\w{1,12} )?(?:data|samples|examples|observations|points|labels|statistics)\b"
    r"|\b(?:lora|adapter|model|expert)s? slots?\b|thread[ _]?pool|(?:\b|_)heads\b)"
)
# What the kernel left out of its log, by the function that printed it
_IS_LEFT_OUT = late(r"\b\d{1,9} (?:callbacks|messages) suppressed\b")
# A setting that has to be positive: "page_size must be >= 1, got 0"
_IS_A_BOUND = late(
    r"(?i)\b(?:must|should|has to|have to|needs to) be"
    r" (?:(?:>=?|at least|greater than(?: or equal to)?|more than) ?[01]"
    r"(?![\d.,]*\d| ?[KMGT]i?B| \w{0,12} ?(?:gpus?|devices?|nodes?)\b)|positive\b|non-?negative\b|in \[)"
)
# Ray's src/ray/common/file_system_monitor.cc: that a disk is nearly full, whatever lies on it
_IS_OF_A_DISK = late(r"\bis over \d{1,3}(?:\.\d{1,3})?% full, available space\b")
# Another kind of array than the pool holds: "allocate from pool failed, has shape [2, 64], require shape [4, 64]"
_IS_OF_ANOTHER_SHAPE = late(
    r"(?i)\bshape must be\b|\b\w{0,20}shape\b.{1,120}\b(?:require|expect|request|got|given)\w{0,3}:? shape\b"
)
# What watches a program loses records of its own: "profiler: event pool exhausted, allocation failed"
# What the system says of a call for another reason: EEXIST, ENOENT, EACCES
_IS_FOR_ANOTHER_REASON = late(r"(?i)[:(] ?(?:\[errno \d{1,3}\] )?(?:file exists|no such file|permission denied)\b")
_OBSERVER = late(
    r"(?i)\b(?:profiler|inspector|tracer|tracing|telemetry|metrics?|span|flight recorder)\b"
    r"[^.]{0,60}\b(?:pool|ring|buffers?|slots?|queue)\b"
)
# Rows of counters: /proc/vmstat, memory.stat, as `cat` and `grep .` print them
_COUNTER = late(r"\s{0,8}(?:/[\w./@-]{1,200}:)?[a-z][a-z\d]{0,40}(?:_[a-z\d]{1,40}){1,10}\s{1,8}\d{1,20}\s{0,8}$")
# What a program guards its memory with, and nothing else that is counted in bytes
_GUARD = late(r"(?i)\b(?:circuit )?break(?:er|ing)\b|\bmem(?:ory)? ?guard\b|\b(?:query|spill) ?guard\b")
_ON_A_DISK = late(
    r"(?i)\b(?:database|tablespace|filegroup|table|index|segment|extent|volume|partition|log|journal|file|disk|inode"
    r"|snapshot|backup|archive|swap|director(?:y|ie)|core)s?\b"
)
# The name of a program's own setting on memory: "maxmemory", "spark.driver.memory", "PYSCF_MAX_MEMORY"; and of no
# function, "torch.cuda.memory.empty_cache()", also where it is named without its brackets
OF_A_SETTING: Final = late(
    r"\b(?:max_?memory|\w{0,30}(?:memory|mem|heap)_(?:limits?|budget|quota|cap)(?:_\w{1,12})?"
    r"|max_\w{0,20}(?:memory|mem|heap)(?:_\w{1,12})?|[A-Z][A-Z\d]{1,16}_MAX_(?:MEMORY|MEM|HEAP)"
    r"|(?!torch|cupy|jax|np\b)[a-z]{2,16}(?:\.(?!cuda)\w{2,20}){1,4}\.(?:memory|memoryOverhead)"
    r"|(?<![.\w])(?!torch|cupy|jax|cuda)[a-z]{4,16}\.memory(?:\.[a-z][\w-]{2,20}){1,3})\b"
)
_RANK = late(r"(?i)(?:rank|proc)\s?[:#=]?\s?(\d{1,7})")
_NEGATIVE = late(r"(?<!\w)-(\d{1,3})$")  # an error's number as C gives it back


class Sentence(Struct, frozen=True):
    """A line as its words, their letters and its figures."""

    parts: tuple[Part, ...]
    letters: str
    text: str
    amounts: tuple[Figure, ...]
    compared: Comparison | None
    of_a_structure: bool = False  # of a program in C, for which it found no memory

    def around(self, start: int, end: int) -> str:
        """The letters of the clause that these are part of."""
        return _around(self.letters, start, end)


class Shortfall(Struct, frozen=True):
    """A line that says so: the words with which it does, and the figures that it holds against each other."""

    sentence: Sentence
    start: int  # of the words that say it, among the parts
    end: int
    compared: Comparison | None = None
    waits: bool = False

    @property
    def sure(self) -> bool:
        """Whether figures say it, beside a verb that does: a list of figures may hold any."""
        around = self.sentence.around(self.start, self.end)
        if self._is_watched(around):
            return False
        if self.compared is not None and re.search("[V=MBCLJXy]", around):
            return True
        if "V" in self.letters and self._of_usage:
            return True
        return (
            any(one.unit == BYTES for one in self.sentence.amounts)
            and re.search("[CLJ]|E[:(]?A|A[()]{0,2}E|mla?SVaS", around) is not None
        )

    def _is_watched(self, around: str) -> bool:
        """Whether usage is held against a threshold, at which somebody may act: nothing was refused yet."""
        return _THRESHOLD.search(self.sentence.text) is not None and re.search("[CFJLX]", around) is None

    @property
    def over_request(self) -> bool:
        """Whether more was used than a scheduler was asked for: "memory usage of 12 GB is over the request of 8 GB"."""
        if "Vn" not in re.sub("[waf]", "", self.letters) or not self._of_usage:
            return False
        return self.compared is None or self.compared.needed.role != "need"

    @property
    def _of_usage(self) -> bool:
        return _USAGE.search(self.sentence.text) is not None

    @property
    def letters(self) -> str:
        return self.sentence.letters[self.start : self.end]

    @property
    def card(self) -> int | None:
        """The number of the card that the sentence names."""
        named = (_CARD.search(part.text) for part in self.sentence.parts if part.terminal == "PLACE")
        return next((int(card[1]) for card in named if card), None)

    @property
    def rank(self) -> int | None:
        """The number of the process that the sentence names: "on rank 3", "on proc 12"."""
        ranks = (_RANK.match(part.text) for part in self.sentence.parts if part.terminal == "ORDINAL")
        return next((int(rank[1]) for rank in ranks if rank), None)

    @property
    def code(self) -> int | None:
        """The error's number."""
        codes = (_CODE.match(part.text) for part in self.sentence.parts if part.terminal == "ORDINAL")
        return next((int(code[1]) for code in codes if code), None)

    @property
    def asks(self) -> bool:
        """Whether it speaks of what was asked for."""
        return re.search("[AGnCVJLEX]", self.sentence.letters.replace("Lm:", "", 1)) is not None

    @property
    def limited(self) -> bool:
        """Whether it was a limit that was hit: "maximum pool size exceeded", "over its budget of 2 GiB"."""
        bound = next((one for one in self.sentence.amounts if one.role == "limit"), None)
        if bound is not None and self.compared is not None:
            return self.compared.there == bound
        if bound is not None and bound.unit == BYTES and self.named:
            return True
        return re.search("l[^.]{0,6}[VX!]|[V!][^.]{0,6}l", self._bounds) is not None

    @property
    def _bounds(self) -> str:
        """The letters around it, where what a machine has in all is no limit."""
        parts = zip(self.sentence.parts, self.sentence.letters, strict=True)
        letters = "".join(
            "W" if letter == "l" and OF_A_WHOLE.fullmatch(part.text) else letter for part, letter in parts
        )
        letters = letters.replace("Wq", "lq").replace("W", "w")  # "the total pool size"
        return _ASIDE.sub("", _around(letters, self.start, self.end))

    @property
    def named(self) -> bool:
        """Whether it stands there by its own name: "out of memory", ENOMEM."""
        return _NAME.fullmatch(self.letters) is not None and _LOW.match(self.sentence.parts[self.start].text) is None

    @property
    def opens(self) -> bool:
        """Whether the line begins with it."""
        letters = self.sentence.letters
        named = _PROGRAM.match(letters)
        first = self.start - (named.end() if named else 0)
        if self._is_said_to_be:
            return True
        if first >= _OPENING or (re.search(_MEM, self.letters) is None and not self._of_space):
            return False
        return "C" in self.letters or _ENDS.match(letters, self.end) is not None

    @property
    def _is_said_to_be(self) -> bool:
        """Whether the line states just that: "There is insufficient system memory to run this"."""
        return re.search(_MEM, self.letters) is not None and _THERE_IS.match(self.sentence.text) is not None

    @property
    def _of_space(self) -> bool:
        """Whether space was to be allocated, and not on a disk: "could not allocate space for ..."."""
        return re.search("Aa{0,2}e", self.letters) is not None and _ON_A_DISK.search(self.sentence.text) is None

    @property
    def _goes_on_after(self) -> bool:
        """Whether it does something else then, which it does not only recommend."""
        then = self.sentence.letters.find(">", self.end)
        between = " ".join(part.text for part in self.sentence.parts[self.end : max(then, 0)])
        return then >= 0 and _RECOMMENDS.search(between) is None

    @property
    def kept(self) -> bool:
        """Whether the program goes on all the same."""
        letters = self.sentence.letters
        if _GIVES_UP.search(self.sentence.text):
            return False
        if _WAY_ROUND.search(letters[: self.start]) or _WITHOUT.search(letters, self.end):
            return True
        return "K" in letters or "<" in letters[: self.end] or self._goes_on_after


def shortfall(text: str, *, raised: bool) -> Shortfall | None:
    """What the line says of memory that could not be had: that it was so, not that it may be.

    An exception is raised whatever was tried before.
    """
    others = (_OF_NAMES.match, _FIELDS.match, _COUNTER.match, _COLLECTS.search, _GIVES_BACK.search,
              _LOOKS_UP.search, _IS_UNABLE.search,
              _IS_LACKING.search, _IS_OFF.search, _IS_A_MESSAGE.search, _IS_A_TARGET.search,
              _IS_OF_ANOTHER_SHAPE.search, _IS_OF_ANOTHER_THING.search, _IS_A_BOUND.search,
              _IS_LEFT_OUT.search, _IS_FOR_ANOTHER_REASON.search, _IS_OF_A_DISK.search)  # fmt: skip
    if _ABOUT.search(text) is None or any(is_another(text) for is_another in others):
        return None
    words = as_words(text)
    sentence = _sentence(words, in_c=_IN_C.search(text) is not None)
    said = (found for found in chain(_said(sentence), _counted(sentence)) if raised or not _is_passed(found))
    found = next(said, None)
    if found is None or _is_a_key(found, words, text):
        return None
    why = echo(text[: words.place(sentence.parts[found.end - 1].end)], text)
    suspected = why == ADVICE and raised and (found.compared is not None or _SUSPICION.search(text) is not None)
    return found if why is None or suspected else None


def _is_passed(found: Shortfall) -> bool:
    """Whether the program goes on all the same, or what only watches it has no room for its records."""
    return found.kept or (
        re.search("[kpsovdmrE]", found.sentence.letters) is None and _OBSERVER.search(found.sentence.text) is not None
    )


def listed(text: str) -> dict[str, Any]:
    """The figures of a list that stands below a failure's line, by the names that an event has for them."""
    sentence = _sentence(as_words(text))
    return stated(sentence.amounts, sentence.compared, asks=True)


def _sentence(words: Words, *, in_c: bool = False) -> Sentence:
    parts = grammars.parts("shortage", words.text)
    amounts = figures(parts)
    letters = "".join([_letter(part) for part in parts])
    text = " ".join([part.text for part in parts])
    structure = in_c and _A_STRUCTURE.search(text) is not None
    return Sentence(parts, letters, text, amounts, comparison(parts, amounts), structure)


def _around(letters: str, start: int, end: int) -> str:
    """Those between two full stops."""
    last = letters.find(".", end)
    return letters[letters.rfind(".", 0, start) + 1 : last if last >= 0 else None]


def _is_a_key(found: Shortfall, words: Words, text: str) -> bool:
    """Whether the words are the name of a setting: "on_out_of_memory: abort"."""
    setting = _KEY.match(text)
    return setting is not None and words.place(found.sentence.parts[found.end - 1].end) <= setting.end(1)


def _said(sentence: Sentence) -> Iterator[Shortfall]:
    """What words say."""
    short = sentence.compared if sentence.compared is not None and sentence.compared.short else None
    patterns = (*_PREDICATES, *_fitting(sentence))
    aside = _ASIDE.sub(_passed_over, sentence.letters)
    for letters in dict.fromkeys((aside, sentence.letters)):
        for match in (match for pattern in patterns for match in pattern.finditer(letters)):
            if not _is_denied(sentence, match):
                yield Shortfall(sentence, match.start(), match.end(), short)


def _counted(sentence: Sentence) -> Iterator[Shortfall]:
    """What figures say."""
    compared = sentence.compared
    if compared is None:
        yield from _nothing_left(sentence)
    if compared is None or not compared.short:
        return
    first, last = sorted((compared.needed.at, compared.there.at))
    around = sentence.around(first, last)
    if "Q" in around or "Z" in around or _CONDITION.search(sentence.letters[:last]):
        return
    if _is_of_memory(sentence, compared) and not (compared.unit == BYTES and compared.needed.value < MIB):
        yield Shortfall(sentence, first, last + 1, compared)


def _fitting(sentence: Sentence) -> Iterator[re.Pattern[str]]:
    """What says it in a sentence about memory, and of another one does not."""
    if sentence.of_a_structure or _OBJECT.search(sentence.text):
        yield _OF_AN_OBJECT
    if _is_of_a_cache(sentence) or OF_AN_ENGINE.search(sentence.text):
        yield from _OF_A_CACHE
    by_name = any("malloc" in part.text.lower() for part in sentence.parts if part.terminal == "ALLOCATE")
    sized = by_name or any(one.unit == BYTES or (not one.unit and one.value >= MIB) for one in sentence.amounts)
    if sized or sentence.of_a_structure or _is_of(sentence.letters, "kpsovdmrDYeuUH"):
        yield from _OF_MEMORY
    if sized or _is_of(sentence.letters, "kpsovdmrDYeUH"):
        yield from _OF_A_LIMIT
    if sized and not by_name:
        yield from (*_OF_BYTES, _LARGER_THAN_A_LIMIT)
    for about, patterns in _ABOUT_A_THING:
        if about.search(sentence.text):
            yield from patterns


def _is_of_a_cache(sentence: Sentence) -> bool:
    """Whether a cache of tokens is named; a pool may be one of anything."""
    if _is_of(sentence.letters, "kU"):
        return True
    return "q" in sentence.letters and _OF_OTHERS.search(sentence.text) is None


def _passed_over(aside: re.Match[str]) -> str:
    """What stands in brackets parts no words that belong together."""
    return "~".ljust(len(aside[0]), "-")


def _letter(part: Part) -> str:
    if part.terminal == "COUNT" and _OF_CACHE.search(part.text):
        return "U"
    return _LETTERS[part.terminal]


def _nothing_left(sentence: Sentence) -> Iterator[Shortfall]:
    """What cannot be done, where no memory is left."""
    nothing = next((one for one in sentence.amounts if one.role == "have" and one.value <= 0 and one.unit), None)
    if nothing is None:
        return
    of_memory = _is_of(sentence.letters, "kpsovdmrU") and _is_of(sentence.letters, "CFJX")
    if of_memory or (nothing.unit in OF_A_CLUSTER and "L" in sentence.letters):
        yield Shortfall(sentence, nothing.at, nothing.at + 1)


def waits(text: str) -> Shortfall | None:
    """The line, where it says that something waits for a cluster's resources."""
    sentence = _sentence(as_words(text))
    match = _WAITING.search(sentence.letters)
    if match is None or "K" in sentence.letters or ("g" in match[0] and _OF_ITS_NODES.search(text) is None):
        return None
    return Shortfall(sentence, match.start(), match.end(), waits=True)


def _is_of(letters: str, kinds: str) -> bool:
    return any(kind in letters for kind in kinds)


def _is_of_memory(sentence: Sentence, compared: Comparison) -> bool:
    """Whether the figures are of memory, or of what a cluster has."""
    if compared.unit == BYTES:
        return _is_of(sentence.letters, "kpsovdmrcDYHAeq") or any(
            words.search(sentence.text) for words in (_GUARD, _USAGE)
        )
    if compared.unit in OF_A_CLUSTER or compared.there.unit in OF_A_CLUSTER:
        return _is_of(sentence.letters, "YNR")
    if compared.unit:
        if _ALLOCATES.search(sentence.text):
            return True
        if OF_AN_ENGINE.search(sentence.text) or _WORKING.search(sentence.text):
            return True
        refused = _is_of(sentence.letters, "OLJC") and _is_of(sentence.letters, "uA")
        return refused or _is_of(sentence.letters, "kqU") or (compared.unit != "tokens" and "e" in sentence.letters)
    if compared.needed.value >= MIB:
        if any(words.search(sentence.text) for words in (_ALLOCATION_OF, _LARGEST_BUFFER)):
            return True
        return _is_of(sentence.letters, "kpsovdmr") or ("D" in sentence.letters and "bytes" in sentence.text)
    asked = (compared.needed.role, compared.there.role) == ("need", "have")
    return _is_of(sentence.around(compared.needed.at, compared.there.at), "kYr") or (
        asked and _ALLOCATES.search(sentence.text) is not None
    )


def _is_denied(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether the words around it say that it did not happen, or of what else it speaks."""
    letters, start, end = sentence.letters, match.start(), match.end()
    if _CONDITION.search(letters[:end]) or _NEGATED.search(letters[:start]) or _MAY_BE.match(letters, end):
        return True
    if _is_advised_against(sentence, start, match[0]):
        return True
    around = sentence.around(start, end)
    if _is_on_the_chip(sentence, around):
        return True
    if _opens_by_name(letters, match):
        around = match[0]
    if match[0][-1:] == "D" and "A" in match[0] and _of_the_device(sentence, match):
        return True
    if "Z" in around or ("Q" in around and not _is_of_memory_itself(sentence, match)):
        return True
    if _is_a_setting(sentence, match) or _is_of_a_disk_before(sentence, match):
        return True
    if in_another_sense(Said(sentence.parts, letters, start, end)):
        return True
    return _zero_before(sentence, start) or _for_another_reason(sentence, match[0])


def _is_advised_against(sentence: Sentence, start: int, said: str) -> bool:
    """Whether it is named as what a value, a parameter that is missing, is to be chosen against."""
    if _NAME.fullmatch(said) is None and _RUNS_OUT.fullmatch(said) is None:
        return False
    before = " ".join(part.text for part in sentence.parts[:start])
    if _NOT_TO_HAPPEN.search(before):
        return True
    demanded = _DEMANDS.search(before)
    return demanded is not None and _CHOOSE.search(before, demanded.end()) is not None


def _is_a_setting(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether a limit is said to be too small, and not for how much: "default GPU_MEM_LIMIT is too small"."""
    last = sentence.parts[match.end() - 1].text.lower()
    return last in {"too small", "too low"} and "l" in match[0] and not sentence.amounts


def _is_of_a_disk_before(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether what is left is told of the disk before: "Not enough disk space. Only 3.2 GB free"."""
    return match[0].startswith("y") and "Q" in sentence.letters[: match.start()]


def _is_of_memory_itself(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether the words name memory, or a buffer, whatever it was for."""
    if re.search("[kpsovdmrE]", match[0]) or _OF_MEMORY_BEHIND.match(sentence.letters, match.end()):
        return True
    if match[0].startswith("A") and re.search("[vdmr]$", sentence.letters[: match.start()]):
        return True
    said = " ".join(part.text for part in sentence.parts[match.start() : match.end()])
    return "A" in match[0] and _BUFFER.search(said) is not None


def _of_the_device(sentence: Sentence, match: re.Match[str]) -> bool:
    """Whether a device itself was to be had, and nothing on it: "failed to allocate a loopback device"."""
    *before, device = sentence.parts[match.start() : match.end()]
    where = any(part.text.lower() in _PLACING for part in before)
    return not where and _A_DEVICE.fullmatch(device.text) is not None


def _opens_by_name(letters: str, match: re.Match[str]) -> bool:
    """Whether a sentence begins with it, by its own name: "Out of memory in HIP queue (Invalid value)"."""
    return letters[match.start() - 1 : match.start()] in {"", ".", ":", "("} and _NAME.fullmatch(match[0]) is not None


def _is_on_the_chip(sentence: Sentence, said: str) -> bool:
    """Whether the shared memory is a kernel's own, of which a chip has less than a megabyte."""
    if "s" not in said:
        return False
    sizes = [one.value for one in sentence.amounts if one.unit == BYTES]
    return max(sizes, default=0) < MIB and (bool(sizes) or _ON_CHIP.search(sentence.text) is not None)


def _for_another_reason(sentence: Sentence, said: str) -> bool:
    """Whether a call that allocates failed with another error's number, or its name."""
    if "A" in said and "L" not in said and _ANOTHERS_NAME.search(sentence.text):
        return True
    of_a_segment = re.fullmatch(r"C[^L]*s", said) is not None
    of_pages = re.fullmatch(r"p[^L]*[FJ]|Ca?p", said) is not None
    if not (of_a_segment or of_pages) and ("A" not in said or re.search(_MEM, sentence.letters.replace("mA", "A"))):
        return False
    codes = (
        _CODE.match(part.text) or _NEGATIVE.search(part.text) for part in sentence.parts if part.terminal == "ORDINAL"
    )
    of_memory = _CODES | {_FULL} if of_a_segment else _CODES
    return any(int(code[1]) not in of_memory for code in codes if code)


def _zero_before(sentence: Sentence, start: int) -> bool:
    """Whether it is counted, and there was none: "0 out of memory errors"."""
    return start > 0 and any(one.at == start - 1 and one.value == 0 for one in sentence.amounts)


__all__ = [
    "FEW_CARDS",
    "OF_AN_ENGINE",
    "OF_A_CACHE",
    "OF_A_CLUSTER",
    "Sentence",
    "Shortfall",
    "listed",
    "shortfall",
    "waits",
]
