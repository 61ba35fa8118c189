"""What a verb says that nobody listed: in a function's name or call, at the head of a sentence, in the node of a graph,
the name of a kernel or a source file of C++. The verbs and what they are done to stand in doing.txt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from oomdoctor.job.rows import CHARACTERS, SILENCE, Row, about, of_function, of_line
from oomdoctor.patterns import LONG, late

# Words of an identifier: "KVCacheManager_2" has four
_WORDS: Final = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# What a sentence's first word may stand behind: a date, a level, a logger's name, a bar of stars
_HEADS: Final = late(
    r"(?:\A|[\]:|>)=#*-] ?|\b(?:INFO|DEBUG|WARNING|WARN|ERROR|NOTICE) )[\W_]{0,8}(?=([A-Za-z]{3,20})\b)"
)
# A path's folders, whose names are anybody's, and a file of weights, which says how many ranks there are
_FOLDERS: Final = late(r"(?<=\s)(?:\S{1,80}/)?(?:[\w.-]{1,80}\.(?:pt|pth|bin|ckpt|safetensors|distcp)\b|(?<=/))")
_BAR: Final = late(r"\d{1,3}%\||\d(?:it|s)/(?:s|it)\b|\[ ?\d{1,9}/\d{1,9}\]|\b\d{1,9}/\d{1,9} \[|:\s{0,4}\Z")
_DONE: Final = late(r"\b100%\|")
# A line that is but a verb and what it is done to: "Init model"
_TITLE: Final = late(r"\A\W{0,8}([A-Z][a-z]{2,20})(?: (?!the\b)\w{1,20}){1,2}\W{0,4}\Z")
_JOINS: Final = frozenset({"and", "then"})
_NEAR: Final = 6  # words behind the first in which a sentence names its object
# Ascend's operator: torch_npu/csrc/framework/OpCommand.cpp and op_plugin's calls of aclnn
_ASCENDS: Final = r"\b(?:current working operator name is|call(?= aclnn\w{1,80} failed\b)) (\w{2,80})"
_OPERATOR: Final = late(_ASCENDS)
# An operator in which an error itself says that it arose: DALI's dali/pipeline/executor, Caffe2's and MXNet's
_FAILED_OPERATOR: Final = late(
    r"(?i)\berror (?:in|from|when executing|while executing|executing) (?:(?:gpu|cpu|mixed) )?operator:? [`'\"]?"
    r"(?!in\b|with\b)([\w.:]{2,80})"
)
# A node of TensorFlow's graph, an operation of XLA, a node of Theano's (theano/gof/link.py), the file of a source in
# C++ or CUDA
_OPERATION: Final = late(
    r"\[\[ ?(?:Node: ?|\{\{node |node )([^\s}=]{1,300})|\bop_name=\"([^\"]{1,300})"
    r"|\bApply node that caused the error: (\w{2,80})"
    rf"|{_ASCENDS}"
    r"|\b([A-Za-z]\w{2,80})\.(?:cpp|cc|cxx|cu|cuh|hpp|h|rs)\b"
)
# A name of several words, alone on its line
_NODE: Final = late(r"\A(?=\w{0,80}[a-z])(?=\w{0,80}[A-Z]\w{0,80}[A-Z])[A-Za-z]\w{2,80}\Z")
_NODE_TELLS: Final = 2  # the weight of a row
# A compiler's command names files of source, and so does the object file that it makes: neither runs
_COMPILES: Final = late(r"\s-c\s|\.(?:o|obj)\b")
# Libraries of trees, regressions and frames: their "gradients" and "solvers" are no network's
_CLASSICAL: Final = late(r"(?i)\b(?:xgboost|lightgbm|catboost|cuml|raft|cudf)\b|exception occurred! file=")
_CALL: Final = late(r"(?:(\w{1,80})\.)?([A-Za-z_]\w{1,80})\(")


class Verb(NamedTuple):
    """A row of verbs: what they are done to."""

    row: Row
    objects: frozenset[str]
    alone: bool  # nothing but fillers stands beside it
    by_file: bool  # what it is done to may stand in the name of its class or file


@cache
def classes_of_words() -> dict[str, frozenset[str]]:
    """The classes of words, each word also in its plural."""
    classes = (row.pattern.partition(" : ") for row in about("noun"))
    return {name: _plurals(words.split()) for name, _, words in classes}


def _plurals(words: Iterable[str]) -> frozenset[str]:
    return frozenset(form for word in words for form in (word, f"{word}s", f"{word.removesuffix('y')}ies"))


def _forms(verb: str) -> Iterator[str]:
    """The forms of a verb in which something is under way: what ends in -ed is done."""
    yield from (verb, f"{verb}s", f"{verb}es", f"{verb}ing", f"{verb}{verb[-1]}ing")
    if verb.endswith("e"):
        yield f"{verb[:-1]}ing"


def _agents(verb: str) -> Iterator[str]:
    """What does it: files of C++ are named after that."""
    yield from (f"{verb}er", f"{verb}r", f"{verb}or", f"{verb.removesuffix('e')}or")


@cache
def _verbs(*where: str) -> dict[str, list[Verb]]:
    """The verb rows by their words, the most telling first."""
    index: dict[str, list[Verb]] = {}
    for row in sorted((row for kind in where for row in about(kind)), key=lambda row: -row.weight):
        names, colons, things = re.split(r" (::?) ?", f"{row.pattern} ", maxsplit=1)
        objects = frozenset(
            form for thing in things.split() for form in classes_of_words().get(thing, _plurals((thing,)))
        )
        words = frozenset(form for name in names.split() for form in _forms(name))
        verb = Verb(row, objects, "." in objects, colons == "::")
        for word in words:
            index.setdefault(word, []).append(verb)
    return index


@cache
def _agent_verbs() -> dict[str, str]:
    """ "loader" -> "load" """
    return {agent: verb for verb in _verbs("verb", "kernel") for agent in _agents(verb)}


@cache
def _lies() -> frozenset[str]:
    """Names whose verb is not what they do."""
    return frozenset(name for row in about("lie") for name in row.pattern.split())


def words_of(identifier: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(identifier)]


def _joined(words: Sequence[str]) -> Iterator[str]:
    """The words, and each with the next: "MatMul" is "matmul", "warm_up" "warmup"."""
    yield from words
    yield from (one + other for one, other in pairwise(words))


def of_name(function: str) -> Row:
    """What a function's name says: the listed ones first, others by their verb."""
    listed = of_function(function)
    return listed if listed.stage else of_identifier(function)


@lru_cache(maxsize=8192)
def of_identifier(identifier: str, context: str = "") -> Row:
    """What the verb in an identifier says; what it is done to may stand in its class or file, where it names nothing
    itself."""
    words = words_of(identifier)
    if identifier in _lies() or not classes_of_words()["OTHER"].isdisjoint(words):
        return SILENCE
    around = frozenset(_joined(words_of(context)))
    if not classes_of_words()["OTHER"].isdisjoint(around):
        around = frozenset()
    return _of_words(words, around, _verbs("verb"))


@lru_cache(maxsize=1024)
def _of_kernel(name: str) -> Row:
    """What the name of a kernel, of a node of a graph or of a source file of C++ says."""
    words = [_agent_verbs().get(word, word) for word in words_of(name)]
    return _of_words(words, frozenset(), _verbs("kernel", "verb"))


def _of_words(words: Sequence[str], context: frozenset[str], index: dict[str, list[Verb]]) -> Row:
    every = list(_joined(words))
    told = [row for word in every if word in index and (row := _of_word(word, words, context, index[word])).stage]
    if len({row.stage for row in told}) > 1 and not _JOINS.isdisjoint(words):
        return SILENCE
    return max(told, key=lambda row: row.weight, default=SILENCE)


def _of_word(word: str, words: Sequence[str], context: frozenset[str], verbs: Iterable[Verb]) -> Row:
    others = {other for other in _joined(words) if other != word}
    alone = {other for other in words if other not in word} <= classes_of_words()["FILLER"]
    near = others | context if alone else others
    return next((verb.row for verb in verbs if _fits(verb, near if verb.by_file else others, alone)), SILENCE)


def _fits(verb: Verb, around: set[str], alone: bool) -> bool:
    if verb.alone:
        return alone
    return not verb.objects or not verb.objects.isdisjoint(around)


@lru_cache(maxsize=4096)
def of_call(code: str) -> Row:
    """What the calls in a source line say, the most telling of them."""
    said = (of_identifier(match[2], match[1] or "") for match in _CALL.finditer(code[:CHARACTERS]))
    return max(said, key=lambda row: row.weight, default=SILENCE)


@lru_cache(maxsize=4096)
def of_sentence(line: str) -> Row | None:
    """What a sentence says that begins with what is under way: "Loading the weights", "Tokenizing:  41%|"."""
    line = line[:CHARACTERS]
    index = _verbs("verb")
    for match in _HEADS.finditer(line):
        word = match[1].lower()
        if word in index and (word.endswith(("ing", "ion")) or _TITLE.match(line)):
            behind = line[match.end(1) : match.end(1) + 80]
            near = words_of(behind)[:_NEAR]
            row = next((verb.row for verb in index[word] if _is_said(verb, near, line)), SILENCE)
            said = words_of(_FOLDERS.sub("", behind))[:_NEAR]
            if row.stage and (_BAR.search(line) or classes_of_words()["OTHER"].isdisjoint(said)):
                return SILENCE if _DONE.search(line) else row
    return None


def _is_said(verb: Verb, near: Sequence[str], line: str) -> bool:
    if verb.objects and not verb.objects.isdisjoint(_joined(near)):
        return True
    return (not verb.objects or verb.alone or "BAR" in verb.objects) and _BAR.search(line) is not None


def of_graph(line: str) -> Row | None:
    """What a line says that names a node of a graph or an operation of XLA."""
    named = 'op_name="' in line or "[[" in line
    return row if named and (row := of_operation(line)).stage else None


def of_node(line: str) -> Row | None:
    """What a line says that is but the name of a node, in CamelCase, that does something: "ImageModelLoader"."""
    node = _NODE.match(line)
    row = _of_kernel(node[0]) if node is not None and words_of(node[0])[-1] in _agent_verbs() else SILENCE
    return row if row.weight >= _NODE_TELLS else None


def of_listed_operation(line: str) -> Row | None:
    """What a line says that holds one of the listed pieces."""
    return of_line("operation", line, LONG)


def of_operator(line: str) -> Row | None:
    """What a line above a failure says that names the operator of an Ascend NPU that was running."""
    return row if _OPERATOR.search(line) and (row := of_operation(line)).stage else None


def of_failed_operator(line: str) -> Row | None:
    """What an error says that names the operator in which it arose."""
    if (named := _FAILED_OPERATOR.search(line[:LONG])) is None:
        return None
    return of_listed_operation(line) or _of_kernel(named[1])


@lru_cache(maxsize=4096)
def of_operation(line: str) -> Row:
    """What a node of a graph, an operation of XLA or a source file of C++ says, wherever the line names one."""
    text = line[:LONG]
    if _CLASSICAL.search(text) or _COMPILES.search(text):
        return SILENCE
    if listed := of_listed_operation(text):
        return listed
    named = (match[match.lastindex or 0] for match in _OPERATION.finditer(text))
    best = max((_of_kernel(name) for name in named), key=lambda row: row.weight, default=SILENCE)
    return best if best.stage else of_line("other operation", text, LONG) or SILENCE
