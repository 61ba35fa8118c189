"""Whether a line says, in whatever words, that memory could not be had; the vocabulary of `unfamiliar`."""

from __future__ import annotations

import re

from oomdoctor.families.echoes import echo
from oomdoctor.patterns import late

_FEW = r"(?:[\w'/()-]{1,24} ){0,4}"
# What ran out; where another word follows that makes it a name ("memory card", "RAM role"), it did not.
_NO_NAME = (
    r"(?![ _-](?:info\w*|usage|stat\w*|leak\w*|card|slot|profil\w*|dump|monitor|format|layout|command|collection"
    r"|roles?|share|lock)\b)"
)
_MEMORY = (
    r"(?:mem\b|(?:\w{0,20}[ _-])?(?<!replay )(?<!conversation )(?<!experience )(?<!chat )memory"
    rf"{_NO_NAME}|VRAM|RAM{_NO_NAME}|HBM|VMEM|DRAM|heap{_NO_NAME}|KV[ -]?(?:cache|blocks?)|cache (?:blocks|pages)|swap)"
)
_SIZE = r"\d[\d.,]{0,12} ?[KMGT]i?B"
_ALLOCATE = r"(?:re-?)?(?:alloc\w{0,7}|malloc|mmap|reserv(?:e|ing))"
_GET = r"(?:map|obtain|secure|acquire|get|grab|pin|grow|expand)"
_TO_GET = rf"(?:{_MEMORY}|\d ?[KMGT]i?B|(?:pinned|device|host|staging) buffers?)\b"
_TO_ALLOCATE = rf"(?:{_MEMORY}|\d ?[KMGT]i?B|bytes|(?:KV|cache|memory) (?:blocks?|pages?)|workspace|arena)\b"
_CANNOT = (
    r"(?:can ?not|can't|could ?n[o']t|could not|unable to|not able to|fail(?:s|ed|ure|ing)? (?:to|in|while)"
    r"|did not manage to|refus\w{2,3} to|'t)"
)
_SHORT = late(
    "(?i)"
    + "|".join(
        (
            # "short of memory", "no more device memory", "too little RAM", "no device memory remains"
            rf"\b(?:(?:out|short|shy) of|(?:ran|run|running) (?:out of|low on|short of)) {_FEW}{_MEMORY}\b",
            rf"\b(?:not enough|no (?:enough|sufficient|more|free|available|room|space)) {_FEW}{_MEMORY}\b",
            rf"\bno {_FEW}{_MEMORY} (?:remain\w{{0,3}}|left|available)\b",
            rf"\b(?:insufficient|too little|lack(?:s|ing)?(?: of)?|depleted|low on) {_FEW}{_MEMORY}\b",
            rf"\b(?:card|device|gpu|accelerator|host|node) has no {_FEW}(?:memory|room|space)\b",
            # "memory is exhausted", "memory limit exceeded", "exceeds the device's memory"
            rf"\b{_MEMORY} {_FEW}(?:exhaust\w{{2,4}}|deplet\w{{2,3}}|used up|overflow\w{{0,4}}|is full(?! of)|ran out)",
            rf"\b{_MEMORY} (?:{_FEW}insufficient|(?:is |was |far |much )?too (?:small|low))\b",
            rf"\b{_MEMORY} {_FEW}(?:limit|budget|capacity) (?:\w{{1,12}} ){{0,3}}(?:exceeded|passed|reached|hit)\b",
            rf"\b(?:exceed(?:s|ed|ing)?|exhaust(?:ed|ing)|passed|is (?:above|over)|larger than) {_FEW}{_MEMORY}\b",
            # "does not fit in GPU memory", "needs 40 GiB of memory but only", "only 310 MiB left"
            rf"(?:not|n't) fit (?:in|into|on|onto|within) {_FEW}{_MEMORY}\b",
            rf"\b(?:requires?|needs?) (?:more|{_SIZE})(?: of)? {_FEW}{_MEMORY} {_FEW}(?:than|only)\b",
            rf"\bonly {_SIZE} (?:of )?{_FEW}(?:left|free|available|remain\w{{0,3}})\b(?! disk)",
            # "could not reserve 2 GiB", "unable to get pinned buffers"
            rf"\b{_CANNOT} {_FEW}(?:{_ALLOCATE} {_FEW}{_TO_ALLOCATE}|{_GET} {_FEW}{_TO_GET})",
            rf"\b{_TO_ALLOCATE} (?:\w{{1,12}} ){{0,3}}(?:can ?not|could not|couldn't) be (?:{_ALLOCATE}|mapped)",
            rf"\b(?:malloc|mmap)\b {_FEW}(?:fail\w{{0,4}}|refused|rejected|returned NULL)",
            # counts of kills, names of errors
            r"\b[1-9]\d{0,6} oom[-_ ]kill",
            r"ALLOC(?:ATION)?_FAIL\w{0,3}|OUT_OF_(?:\w{1,20}_)?MEM\w{0,3}|\bENOMEM\b|NO_MEMORY",
            r"(?<![\w/.'\"-])OOM(?![\w/.'\"])|(?<!\()(?:\b|Error)OutOf(?:Device|Host)?Memory\w{0,20}",
            # systems that speak another language
            r"(?:内存|显存|メモリ)\w{0,4}(?:不足|不够|耗尽|溢出)|无法分配\w{0,12}(?:内存|显存)",
            r"Speicher nicht allozieren|Nicht genügend (?:Haupt|Arbeits)?speicher|d'allouer de la mémoire",
        )
    )
)
_REFUSED = late(
    rf"(?i)\b(?:alloc\w{{0,7}}|reservation)\b {_FEW}(?:fail\w{{0,4}}|refused|rejected)"
    rf"|\b(?:fail(?:ed|ure)|refused|rejected|denied) {_FEW}(?:alloc\w{{0,7}}|reservation)\b"
)
_OF_MEMORY = late(rf"(?i)\b(?:{_MEMORY}|bytes)\b|\d ?[KMGT]i?B\b|\bc(?:u|uda|ublas)[a-z]{{0,20}}alloc|\bbuffer\b")

_RAISED = late(
    r"(?:\w{1,60}(?:\.|::)){0,8}\w{0,60}(?:Error|Exception|Failure|Fault|Panic|Exit)\w{0,20}(?:: |\b)|panic: "
    r"|terminate called|\s{0,4}what\(\):|fatal(?: error)?: |FATAL: |thread '[^'\n]{0,60}' panicked at"
)
_ERROR = late(
    r"(?i)\b(?:error|err|fatal|fail(?:ed|ure)?|abort(?:ed|ing)?|panic(?:ked)?|crash(?:ed)?|exception|killed"
    r"|terminat\w{2,3})\b|^[EF]\d{4} |^[EF] |fork: |错误"
)
# What may happen or was kept from happening, in the clause of the shortage
_IF = late(
    r"(?i)\b(?:if|when(?:ever)?|unless|would(?! exceed)|should|may|might|could(?! ?n[o']t)|until|avoid\w{0,3}"
    r"|prevent\w{0,3}|reduc\w{1,3}|warning)\b[^:;]{0,200}$"
)
_NOT = late(
    r"(?i)(?:\bno(?:t|r)?(?: longer)?|n't|\bnever|\bneither|\bwithout|(?<![\d.,])0|\brather than|\bexpected"
    r"|\bsimulated|\bfake)(?: \w{1,12}){0,2}[ :(]{0,3}$"
)
# What a program goes on after, unless it raises the error nevertheless
_KEPT = late(
    r"(?i)\b(?:retr(?:y|ies|ying)(?! fail)|(?<!cannot )skip\w{0,4}|fall(?:ing|s)? ?back|ignor\w{1,3}|recover\w{0,3}"
    r"|continu\w{1,3}|handl(?:ed|er|ing)|caught|protect\w{0,4})\b"
)
_AFTERWARDS = late(
    r"(?i)\b(?:retrying|will retry|handl(?:er|ing)|skipp(?:ed|ing)|falling back|fall back|ignor(?:ed|ing)"
    r"|recover(?:ed|ing)|continuing|instead|using (?:the |a )?(?:default|smaller|CPU|slower))\b"
)
# The line gives another reason, or asks for nothing
_ANOTHER_REASON = late(
    r"(?i)\b(?:permission denied|not permitted|no such (?:file|process)|not found|not defined|not? raise|invalid"
    r"|unknown|not (?:exist|loaded|supported|raised)|undefined symbol|time[ds]? ?out|timeout|connection|read-only"
    r"|policy|already exists|unexpected keyword|has no attribute|ruled out|for lock table)\b"
    r"|(?:of memory|errors?): 0\b|\ballocat\w{2,3} 0(?![\d.,]{0,20}\d)"
)
_OF_NAMES = late(
    r"(?:\w{1,40}\.){0,4}(?:Attribute|Name|Import|ModuleNotFound|Key|Syntax|FileNotFound|Type|IllegalArgument)"
    r"(?:Error|Exception)\b"
)


def raised(text: str) -> bool:
    """Whether the line is an exception's own."""
    return _RAISED.match(text) is not None


def is_error(text: str) -> bool:
    return _ERROR.search(text) is not None


def says_so(text: str) -> bool:
    """Whether the line says that memory could not be had: that it was so, not that it may be."""
    short = _shortage(text)
    if short is None or _OF_NAMES.match(text) or _ANOTHER_REASON.search(text) or echo(text[: short.end()]):
        return False
    if _IF.search(text[: short.end()]) or _NOT.search(text[: short.start()]):
        return False
    return raised(text) or not (_KEPT.search(text[: short.end()]) or _AFTERWARDS.search(text[short.end() :]))


def _shortage(text: str) -> re.Match[str] | None:
    return _SHORT.search(text) or (_REFUSED.search(text) if _OF_MEMORY.search(text) else None)


__all__ = ["is_error", "raised", "says_so"]
