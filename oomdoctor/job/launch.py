"""Launch lines: what a shell line, a continued line or a printed command asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from oomdoctor.job.frameworks import commands, roots
from oomdoctor.job.literals import TEXT_CAP, entries, typed
from oomdoctor.job.model import Value
from oomdoctor.patterns import late

Found = tuple[str, Value]

LINE_CAP = 32_000

_WORD = late(r"""(?:"[^"]*"|'[^']*'|\\.|[^\s"'\\])+""")
_QUOTED = late(r"""\"([^"]*)\"|'([^']*)'|\\(.)""")
_ASSIGNMENT = late(r"\+{0,2}~?([A-Za-z_][\w.]{0,150})=(.*)\Z", re.DOTALL)
_VARIABLE = late(r"[A-Z][A-Z\d_]{0,80}=")
_FLAG = late(r"--?([A-Za-z][\w.\-]{0,100})(?:=(.*))?\Z", re.DOTALL)
# A name of such a list. triton-inference-server/tensorrtllm_backend, tools/fill_template.py: a single pair is one, too
_LISTED = late(r"[A-Za-z]\w{2,80}\Z")
_GIVES_PAIRS = late(r"\bfill_template\.py\s")
_NEGATIVE = late(r"-\d")
_LENGTH_OF_A_LIST = late(r"\d{1,9}\Z")
_HEAP = late(r"-(Xm[sx])(\d{1,12}[kKmMgGtT]?)\Z")  # Java's, whose size is part of the word

# The programs whose flags are settings of a job, by the last part of their path; frameworks have more.
_HEADS = frozenset({
    "python", "python2", "python3", "mpirun", "mpiexec", "horovodrun", "uv", "nohup", "singularity", "apptainer",
    "bash", "sh", "env", "export", "set",
})  # fmt: skip
_PYTHON = late(r"python\d?(?:\.\d+)?\Z")

# Words before the program that a shell, a prompt or a launcher's echo puts there; anything else there is prose.
_WORDS_BEFORE_HEAD = 4
_ECHO = frozenset({"bash", "sudo", "time", "cmd", "command", "command:", "running", "running:", "run", "exec", "cmd:"})

# A program of whatever language, which a shell was told to run: "./dedup", "target/release/dedup", "/opt/tools/dedup"
_BY_ITS_PATH = late(r"(?:~|\.{1,2}|[\w.\-]{1,80})?(?:/[\w.+\-]{1,80}){1,12}\Z")
_SIGN = "$"  # of a prompt
_TRACE = late(r"\++\Z")  # bash's, of `set -x`

# What a line does before it starts the program: "cd run && ulimit -v 4000000; python train.py"
_PREPARES = frozenset({"cd", "pushd", "ulimit", "umask", "source", ".", "module", "conda", "mamba", "mkdir", "sleep"})
_SHELLS = frozenset({"bash", "sh"})
_SCRIPT = late(r"-[elx]{0,3}c\Z")  # of a shell, in one word behind it

# What a shell says of a job's end before it repeats the command: bash "run.sh: line 3:  812 Killed     COMMAND" and
# "[1]+  Killed     COMMAND", zsh "[1]    812 killed     COMMAND" and "zsh: killed     COMMAND"
_SHELLS_REPORT = late(
    r"(?:\S{1,200}: \D{1,12}\d{1,6}:\s{1,9}\d{1,9} |\[\d{1,4}\][+-]?\s{1,8}(?:[+-]\s{1,4})?(?:\d{1,9}\s{1,4})?|zsh: )"
    r"[^\W\d][\w ]{1,30}?\s{2,60}(?:\(core dumped\) )?\(?(?=\S)"
)

# Short flags that say something about memory, by program.
_SHORT = {
    "-m": "memory", "-tp": "tensor_parallel_size", "-pp": "pipeline_parallel_size", "-e": "env",
    "-ngl": "n_gpu_layers", "-ub": "ubatch_size",
}  # fmt: skip

# Those that other programs mean something else by: common/arg.cpp of llama.cpp
_OF_LLAMA = {"-c": "--ctx-size", "-np": "--parallel"}
_LLAMA = "llama-"  # how its programs are named

_SERVERS = frozenset({"api_server", "gradio"})  # lmdeploy serve api_server MODEL


def words(text: str) -> list[str]:
    """The words of a shell line, quotes taken off."""
    return [_unquoted(m[0]) for m in _WORD.finditer(text[:LINE_CAP])]


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda m: m[1] or m[2] or m[3] or "", word)


def read_line(text: str, *, continued: bool) -> list[Found]:
    """The settings of one line of a launch; `continued` says that the line before ended in a backslash."""
    line = _past_what_prepares(words(_command(text)))
    begins = 0 if continued or _starts_with_option(line) or _is_of_a_report(text, line) else _after_head(line)
    if begins is None and text.rstrip().endswith("\\") and all(map(_VARIABLE.match, line)):
        begins = len(line)  # the program stands in a line below
    if begins is None:
        return []
    if line[begins:] and line[begins].rpartition("/")[2].startswith(_LLAMA):
        line = [_OF_LLAMA.get(word, word) for word in line]
    found = list(read_words(line[begins:], before=line[:begins]))
    named = [word for word in line[begins:] if word not in _SERVERS]
    for word, after in pairwise(named):
        if word == "serve" and not after.startswith(("-", "$", "\\")):  # vllm serve MODEL
            found.append(("model", after[:TEXT_CAP]))
    return found


def command_of(text: str) -> list[str]:
    """The words of the command that a line starts, from its program on; none where it starts none that we know."""
    line = _past_what_prepares(words(text))
    begins = _after_head(line)
    return line[begins:] if begins is not None else []


def _past_what_prepares(line: list[str]) -> list[str]:
    """A line, with the command that it is for next to the prompt."""
    start = _prompt(line) + 1 or int(bool(line) and _TRACE.match(line[0]) is not None)
    prompt, rest = line[:start], line[start:]
    if len(rest) > 2 and rest[0].rpartition("/")[2] in _SHELLS and _SCRIPT.match(rest[1]):
        rest = words(rest[2])
    if rest and (inside := rest[0].removeprefix("(")) in _PREPARES and inside != rest[0]:
        rest = [inside, *rest[1:-1], rest[-1].removesuffix(")")]
    while rest and rest[0] in _PREPARES:
        end = next((place for place, word in enumerate(rest) if word == "&&" or word.endswith(";")), None)
        if end is None:
            return line
        prompt, rest = prompt or [_SIGN], rest[end + 1 :]
    return [*prompt, *rest]


def _command(text: str) -> str:
    """What a shell repeats of the line that it ran, without the brackets of a subshell; else the line."""
    report = _SHELLS_REPORT.match(text)
    if report is None:
        return text
    command = text[report.end() :]
    return command.rstrip().removesuffix(")") if report[0].endswith("(") else command


def _is_of_a_report(text: str, line: list[str]) -> bool:
    """What a shell repeats of a program by its path, of whatever language, is the command that died."""
    return bool(line) and _BY_ITS_PATH.match(line[0]) is not None and _SHELLS_REPORT.match(text) is not None


def _starts_with_option(line: list[str]) -> bool:
    if not line:
        return False
    if line[0].startswith("--"):
        return bool(_FLAG.match(line[0]))
    return is_override(line[0])


def is_override(word: str) -> bool:
    """A hydra override like `actor_rollout_ref.rollout.n=8`; any other `a.b=c` in a log may be anything."""
    match = _ASSIGNMENT.match(word)
    return bool(match and "." in match[1] and match[1].split(".", 1)[0] in roots())


def _after_head(line: list[str]) -> int | None:
    """Where the words begin that belong to a program we know, None where the line starts none."""
    others = 0
    prompt = _prompt(line)
    is_told = prompt >= 0 or bool(line and _TRACE.match(line[0]))
    for index, word in enumerate(line):
        if index <= prompt:
            continue
        if _is_head(word) or (is_told and _BY_ITS_PATH.match(word)):
            return index
        if _ASSIGNMENT.match(word):
            continue
        others += 1
        if others > _WORDS_BEFORE_HEAD or (word.isalpha() and word.lower() not in _ECHO):
            return None
        if index == 0 and word.replace(".", "").isdecimal():
            return None  # a row of a process table: another process than the job
    return None


def _prompt(line: list[str]) -> int:
    """Where a shell's prompt ends: "(base) me@box ~/x $", and of zsh a name or a folder before its sign: "lora %"."""
    places = (at for at, word in enumerate(line[:_WORDS_BEFORE_HEAD]) if word == _SIGN or (word == "%" and at == 1))
    last = next(places, -1)
    return last if last < 1 or not line[last - 1].isdecimal() else -1


def _is_head(word: str) -> bool:
    name = word.rsplit("/", 1)[-1]
    return name in _HEADS or name in commands() or bool(_PYTHON.match(name))


def read_words(line: Iterable[str], before: Iterable[str] = ()) -> Iterator[Found]:
    """The settings among the words of a command: flags, hydra overrides, environment assignments."""
    yield from (found for word in before for found in _assignment(word))
    pending: str | None = None
    for word in _with_lists(line):
        if pending is not None and (not word.startswith("-") or _NEGATIVE.match(word)) and word != "\\":
            yield from _behind(pending, word)
            pending = None
            continue
        if pending is not None and pending != "env":
            yield pending, True
        pending = None
        if heap := _HEAP.match(word):
            yield heap[1], heap[2]
            continue
        flag = _FLAG.match(word)
        if flag and (word.startswith("--") or word in _SHORT):
            name = _SHORT.get(word) or _plain(flag[1])
            if flag[2] is None:
                pending = name
            else:
                yield from _value(name, flag[2])
        elif not flag:
            yield from _assignment(word)
    if pending is not None and pending not in _SHORT.values():
        yield pending, True


def _with_lists(line: Iterable[str]) -> Iterator[str]:
    """The words, with numbers that follow one another behind a flag as one: "--patch-size 96 96 96"."""
    flagged, numbers = False, ""
    for word in line:
        if _LENGTH_OF_A_LIST.match(word) and (flagged or numbers):
            numbers = f"{numbers} {word}".strip()
        else:
            if numbers:
                yield numbers
            numbers = ""
            yield word
        flagged = word.startswith("--") and "=" not in word
    if numbers:
        yield numbers


def _behind(flag: str, word: str) -> Iterator[Found]:
    """What a flag is given: its value, or with spark-submit's --conf an option of that name."""
    pair = _ASSIGNMENT.match(word) if flag == "conf" else None
    if flag == "env":
        yield from _assignment(word)
    else:
        yield from _value(pair[1], pair[2]) if pair else _value(flag, word)


def _plain(name: str) -> str:
    return name.replace("-", "_")


def listed_pairs(text: str, *, within: bool) -> Iterator[Found]:
    """What a script is given in one word as "name:value,other_name:value"; `within` says that the word began in the
    line above. An address or an image has one colon and no comma."""
    for place, word in enumerate(words(text)):
        *parts, last = word.rstrip("\\").split(",")
        pairs = [pair.partition(":") for pair in (*parts, last) if pair]
        if not pairs or not all(colon and _LISTED.match(name) for name, colon, _ in pairs):
            continue
        is_list = len(pairs) > 1 or (parts and not last) or (within and place == 0) or _GIVES_PAIRS.search(text)
        if not is_list:
            continue
        yield from ((name, typed(value[:TEXT_CAP])) for name, _, value in pairs if value and "_" in name)


def _assignment(word: str) -> Iterator[Found]:
    match = _ASSIGNMENT.match(word)
    if match and (match[1].isupper() or match[1].startswith(("RAY_", "VLLM_")) or is_override(word)):
        yield from _value(match[1], match[2])


def _value(name: str, word: str) -> Iterator[Found]:
    """One setting; a JSON object given as value is opened."""
    if word.startswith("{"):
        yield from ((f"{name}.{entry.name}", entry.value) for entry in entries(word))
    elif name == "m" or (name == "memory" and not word[:1].isdecimal()):  # python -m module
        return
    elif not word.startswith("$"):
        yield name, typed(word.rstrip("\\")[:TEXT_CAP])
