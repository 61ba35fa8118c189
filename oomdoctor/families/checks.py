"""Programs that look themselves: a check that quotes the call which was refused, and a size that has overflowed."""

from __future__ import annotations

from math import prod
from typing import Final

from oomdoctor.patterns import late
from oomdoctor.units import NO_MACHINE, asked

_ON_A_CARD: Final = (
    r"\b(?:cuda|hip|mu|cn|aclrt|nrt_?)(?:rt)?(?!Host)\w{0,12}(?:Malloc|Alloc)(?!Host)\w{0,16}|\bcuMem(?!Host)\w{0,8}Alloc\w{0,8}"
    r"|\bclCreateBuffer|\bvkAllocateMemory"
)
_PINNED: Final = r"\b(?:cuda|hip|aclrt)(?:Host(?:Alloc|Malloc)|MallocHost)\w{0,12}|\bcuMemHostAlloc|\bcuMemAllocHost"
_ON_THE_HOST: Final = (
    r"\b(?:posix_memalign|memalign|_?aligned_(?:alloc|malloc)|_mm_malloc|malloc|(?:x|v|c|re)alloc|xmalloc|mmap|sbrk)"
)
_CALLS: Final = tuple(
    (pool, late(rf"(?:{calls})\s?\("))
    for pool, calls in (("pinned", _PINNED), ("gpu", _ON_A_CARD), ("host_ram", _ON_THE_HOST))
)
# "assertion 'cudaMalloc(p, size) == cudaSuccess' failed", "Check failed: malloc(n) != NULL"
_FAILED = late(
    r"(?i)\b(?:assert\w{0,6}|check\w{0,4}|require\w{0,3}|ensure\w{0,3}|verif\w{1,8}|invariant|precondition)\b[^\n]{0,400}?"
    r"\b(?:fail(?:ed|ure|s)?|violated|does not hold)\b|\[enforce fail at "
)
_SUCCEEDS = late(
    r"==\s?(?:\w{0,30}[Ss]uccess\b|\w{0,30}_SUCCESS\b|0\b)|!="
    r"\s?(?:\([\w *]{1,20}\)\s?)?(?:NULL|nullptr|0|nil|MAP_FAILED)\b"
    r"|\b(?:NULL|nullptr|0|MAP_FAILED)\s?!="
)
# What a call that allocates may fail with, and no memory was short
_OF_ANOTHER = late(
    r"(?i)illegal|launch|busy|invalid|initiali[sz]|driver|no \S{0,20} ?device|not supported|unsupported|peer"
    r"|\bassert triggered"
    r"|(?<![\w.])(?!(?:2|12) )\d{1,4} vs\.? 0\b|\b(?:error|code|status|errno)\s?[:=]?\s?(?!2\b|12\b)\d{1,4}\b"
    r"|\b(?:expected|simulat\w{2,3}|inject\w{2,3}|pass(?:ed|es)?|xfail|never|no longer)\b"
)
# What a call that allocates gives back where there is no memory: of CUDA, HIP, MUSA (driver_types.h, 2), Vulkan
# (vulkan_core.h, -1 and -2), OpenCL (cl.h, -4 to -6), CANN (rt_error_codes.h, 207001), Neuron (nrt_status.h, 4)
_RESULTS: Final = tuple(
    (late(rf"\b(?:{calls})\w{{0,20}}"), frozenset(codes))
    for calls, codes in (
        (r"(?:cuda|hip|musa)(?!Host)\w{0,12}(?:Malloc|Alloc)(?!Host)|cuMem(?!Host)\w{0,8}(?:Alloc|Create)", (2,)),
        (r"vkAllocateMemory", (-1, -2)),
        (r"cl(?:CreateBuffer|CreateImage|SVMAlloc|EnqueueNDRangeKernel)", (-4, -5, -6)),
        (r"(?:aclrt|rt)Malloc(?!Host)", (207001,)),
        (r"nrt_tensor_allocate", (4,)),
    )
)
_GAVE_BACK = late(
    r"(?i)^(?:\([^()\n]{0,120}\))?[^\n]{0,40}?(?:->|=>|[:=]|\breturn(?:s|ed|ing)?\b|\b(?:ret(?:urn)?|code|status|rc|error|result)\b)"
    r"[ :=\[(]{0,4}(?:[A-Z][A-Z_]{3,60} \()?(-?\d{1,6})\b(?!\.\d|[\w ]{0,2}B\b)"
)
# What says by itself that it was about to happen, whatever the level
_ABOUT_TO = late(
    r"(?i)\b(?:try\w{0,3}|tried|attempt\w{0,3}|request\w{0,3}|want\w{0,2}|about) (?:to )?(?:re)?(?:allocat|reserv)"
)
# What failed is to be mended by a smaller share of a device's memory: "check max len infer fail, you can try: set the
# --mem_fraction to a smaller value"
_FAILS = late(r"(?i)\b(?:fail(?:s|ed|ure)?|error)\b")
_SHARE = late(
    r"(?i)\b(?:(?:gpu|cuda|device)_)?mem(?:ory)?_(?:frac(?:tion)?(?:_static)?|util(?:i[sz]ation)?|ratio|share)\b"
)
_LESS = late(r"(?i)\b(?:smaller|lower(?:ing)?|reduc(?:e|ing)|decreas(?:e|ing)|less)\b")
_MORE = late(r"(?i)\b(?:larger|higher|increas(?:e|ing)|rais(?:e|ing)|bigger)\b")
CHARACTERS: Final = 800

# What a program looked up, and found less than it was to have: "available_size()=9.0 < need_size=30"
# What a check compares, and what both sides were: "allocating <= available failed, 900 > 300", "(900 vs. 300)"
_NO_HELP = late(r"(?i)\b(?:not|won't|cannot|never) (?:be of )?help\b|\bnot an? (?:out[- ]of[- ]memory|OOM|memory)\b")
_AMOUNTS: Final = late(
    r"\b(?P<asked>[A-Za-z_][\w.>()-]{0,60}) ?<=? ?(?P<left>[A-Za-z_][\w.>()-]{0,60})\W{1,3}"
    r"(?:fail(?:ed|s|ure)?\b\W{0,3})?\(?(?P<needed>\d{1,19}) (?:>=?|vs\.?) (?P<there>\d{1,19})\b(?![.\d])"
)
_CHECKED: Final = late(r"(?i)\b(?:assert|check|enforce|require|ensure|verif|expect)\w{0,8}\b|\bfailed\b")
_OF_MEMORY: Final = late(r"(?i)alloc|mem(?!ber|o\b)|bytes|reserv")
_TO_BE_HAD: Final = late(r"(?i)avail|free|remain|left|capacity|limit|total|budget|alloc|mem(?!ber|o\b)")
_SOME_BYTES: Final = 1 << 20  # what is less may be counted in something else
_COUNT: Final = r"\s?[=:]\s?(?P<{}>\d{{1,12}})(?:\.\d{{1,3}})?"
_LESS_THAN_NEEDED = late(
    rf"(?i)\b(?:avail(?:able)?|free|remaining)(?:_\w{{1,20}})?(?:\(\))?{_COUNT.format('there')}\s?<\s?"
    rf"(?:need(?:ed)?|required?|requested)(?:_\w{{1,20}})?{_COUNT.format('needed')}(?![\d.])"
)

# What a program was about to take, where it says how many: "trying to allocate an array of size -1208014592"
_THING: Final = r"(?:array|matrix|vector|tensor|buffer|table|work ?space|list|grid)"
_EXTENT: Final = r"(?:size|length|dimension)"
_TAKES = late(
    rf"(?i)\b(?:allocat(?:e|ing|ion)|reserv(?:e|ing)|{_THING} (?:of )?{_EXTENT}"
    rf"|{_EXTENT}s? of (?:the )?(?:\w{{1,16}} )?{_THING}"
    rf"|\b(?:passed|given|handed) to (?:an? |the )?(?:\w{{1,16}} )?alloc\w{{2,6}}"
    rf"|negative (?:{_THING} )?{_EXTENT}|NegativeArraySize)"
)
_PLACES = late(
    r"(?i)\b(?:index|offset|subscript|position|address|pointer|stride|value|seed|delta|diff\w{0,8}|change|since|freed|net|balance|return\w{0,3}|seek)\b"
    r"|\bout of (?:range|bounds)"
)
_OVERFLOWED = late(r"(?<![\w.,/:-])(-[1-9]\d{5,18}|[1-9]\d{15,19})(?![\w.,]\d|[\w:/]|\s?(?:bytes|[KMGT]i?B)\b)")

# What it multiplied for that, and how it says so: "Multiplication overflow : 4294967295 * 8589934592"
_MULTIPLIED = late(
    r"(?i)\b(?:(?:multiplication|product|(?:alloc\w{0,6}|buffer|array|image|total|memory) size"
    r"|size (?:comput|calcul)ation) (?:has |would )?overflow(?:s|ed)?"
    r"|overflow (?:in |while |when )?(?:comput|calculat)ing (?:\w{1,16} ){0,3}size)\b[^\n:=]{0,40}[:=] ?"
    r"(\d{1,20}) ?[*x×] ?(\d{1,20})(?: ?[*x×] ?(\d{1,20}))?(?![\d.*x])"
)
# ... or lists one by one, along the axes of what was to be made: "Storage size calculation overflowed with
# sizes=[4294967296, 65536, 8192]"; "Encountered overflow when multiplying 8589934592 with 4294967296"
_OF_A_SHAPE = late(
    r"(?i)\b(?:storage|tensor|array|buffer|numel|elements?|shapes?|dim(?:ension)?s?|sizes?|nbytes|multiply(?:ing)?)\b"
)
_EXTENTS = late(
    r"[\[({<](\d{1,20}(?: ?[,x×*] ?\d{1,20}){1,7}),?[\])}>]"
    r"|(?<![\w.])(\d{1,20}(?: ?[x×*] ?\d{1,20}){1,7})(?![\w.])"
    r"|(?i:\bmultiplying) (\d{1,20} (?:with|by|and) \d{1,20})(?![\d.])"
)
_NUMBER = late(r"\d{1,20}")
# What is refused whatever is free: "Requested allocation size of 18446744073709547520 is out of range"
_REQUEST = late(
    r"(?i)\b(?:request\w{0,3} (?:memory |buffer )?alloc\w{0,6}|(?:memory |mem |buffer |re|m)?alloc\w{0,6})"
    r"(?: request)? size (?:of |is |was |= ?|: ?)?(\d{13,20})\b(?![.\d]|[\w ]{0,2}bits)"
)
_REFUSED = late(
    r"(?i)\b(?:out of range|invalid|exceed(?:s|ed|ing)?|too (?:large|big)|(?:larger|greater|bigger) than|impossible"
    r"|not (?:allowed|possible|supported)|illegal|overflow(?:s|ed)?)\b"
)
# ... where a program computes for itself, and takes nothing
_COMPUTED = late(
    r"(?i)\b(?:u?int\d{0,3}|(?:big|huge|small)int|decimal|numeric|column|literal|expression|constant|quer(?:y|ies)|sql"
    r"|timestamp|interval|exponent|out of range|prices?|amount)\b"
)
_ADDRESSABLE: Final = 1 << 47  # what a process has of addresses


def refused_by_a_check(text: str) -> str | None:
    """The memory that a call in a failed check was asked for."""
    shown = text[:CHARACTERS]
    if "lloc" not in shown and "mmap" not in shown and "memalign" not in shown and "CreateBuffer" not in shown:
        return None
    if _FAILED.search(shown) is None or _SUCCEEDS.search(shown) is None or _OF_ANOTHER.search(shown):
        return None
    return next((pool for pool, call in _CALLS if call.search(shown)), None)


def mended_by_a_smaller_share(text: str) -> bool:
    """Whether an exception says that something failed, and advises a smaller share of a device's memory."""
    shown = text[:CHARACTERS]
    if "mem" not in shown or _MORE.search(shown) or _NO_HELP.search(shown):
        return False
    return all(words.search(shown) is not None for words in (_FAILS, _SHARE, _LESS))


def refused_by_a_call(text: str) -> bool:
    """Whether a call that allocates on a device gave back the number that means: no memory."""
    shown = text[:CHARACTERS]
    for call, codes in _RESULTS:
        if found := call.search(shown):
            gave = _GAVE_BACK.match(shown[found.end() : found.end() + 240])
            return gave is not None and int(gave[1]) in codes
    return False


def less_than_needed(text: str) -> tuple[int, int] | None:
    """What was needed and what was there, where the program compares them and there is less."""
    found = _LESS_THAN_NEEDED.search(text[:CHARACTERS]) if "<" in text else None
    if found is None:
        return None
    needed, there = int(found["needed"]), int(found["there"])
    return (needed, there) if there < needed else None


def compared_by_a_check(text: str) -> tuple[int, int] | None:
    """The bytes that were to be taken and those that were to be had, where a failed check on memory prints both."""
    shown = text[:CHARACTERS]
    found = _AMOUNTS.search(shown) if "<" in shown else None
    if found is None or not _CHECKED.search(shown) or not _TO_BE_HAD.search(found["left"]):
        return None
    needed, there = int(found["needed"]), int(found["there"])
    of_memory = _OF_MEMORY.search(f"{found['asked']} {found['left']}") is not None
    return (needed, there) if of_memory and needed >= _SOME_BYTES and there < needed else None


def overflowed(text: str) -> int | None:
    """A count below nothing, or of more than any machine has, where the line speaks of what is to be taken."""
    shown = text[:CHARACTERS]
    found = _OVERFLOWED.search(shown)
    if found is None or _TAKES.search(shown) is None or _PLACES.search(shown):
        return None
    return int(found[1])


def factors_of_overflow(text: str) -> tuple[int, ...]:
    """The numbers whose product is more than any machine has, where the line says that it overflowed."""
    shown = text[:CHARACTERS]
    if "verflow" not in shown or _PLACES.search(shown):
        return ()
    found = _MULTIPLIED.search(shown)
    if found is not None and _COMPUTED.search(shown) is None:
        products = [tuple(int(factor) for factor in found.groups() if factor)]
    elif _OF_A_SHAPE.search(shown):
        products = [tuple(map(int, _NUMBER.findall(one[0]))) for one in _EXTENTS.finditer(shown)]
    else:
        return ()
    return next((factors for factors in products if prod(factors) >= _ADDRESSABLE), ())


def beyond_any_machine(text: str) -> int | None:
    """The bytes of a request that no machine has, where the line says that it was refused."""
    shown = text[:CHARACTERS]
    found = _REQUEST.search(shown) if "lloc" in shown else None
    if found is None or int(found[1]) < NO_MACHINE or _REFUSED.search(shown) is None:
        return None
    return asked(found[1])


def about_to_take(text: str) -> bool:
    """Whether the line says that it was about to allocate."""
    return _ABOUT_TO.search(text[:CHARACTERS]) is not None


__all__ = [
    "about_to_take",
    "beyond_any_machine",
    "compared_by_a_check",
    "factors_of_overflow",
    "mended_by_a_smaller_share",
    "overflowed",
    "refused_by_a_call",
    "refused_by_a_check",
]
