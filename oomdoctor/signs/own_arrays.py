"""What the innermost line of a traceback makes in host memory: an array in one piece, or one thing more of what the job
keeps. NumPy and Python say no more than that there was no memory for it."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.families.event import Frame
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE, asked_for
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.sizes import MANY_HOSTS

# Its room is laid out before anything is in it
LAID_OUT: Final = ("smaller-buffers", "spill-to-disk", "narrow-dtypes", "smaller-input", "more-host-memory")
_OF_PYTHON: Final = ("python", "numpy", "c++")
# Stages: a pass of a network and its weights have causes of their own
_WORK: Final = ("unknown", "launch", "data_load", "rollout", "eval")
# NumPy's own frames, in which its functions in Python call those in C
_WITHIN_NUMPY: Final = late(r"(?:^|/)numpy/|^<__array_function__")
_MAKES: Final = late(
    r"\b(?:(?:np|numpy|onp|cp|xp)\.(?:empty|zeros|ones|full|array|asarray|asanyarray|ascontiguousarray|asfortranarray|copy"
    r"|tile|repeat|concatenate|stack|[vhd]stack|column_stack|row_stack|append|insert|pad|eye|identity|meshgrid|mgrid|indices"
    r"|fromiter|fromfile|frombuffer|block|lib\.stride_tricks\.as_strided|random\.(?:rand|randn|random|random_sample"
    r"|uniform|normal|standard_normal|randint|choice|permutation))(?:_like)?|to_categorical)(?=[(\[])"
    # arrays' own: a dictionary, a file or a tensor has a copy() or a tolist(), too
    r"|(?<=\w|\]|\))\.(?P<method>astype|toarray|todense)(?=\()"
)
# Collections' own: a progress bar or a digest has an update(), too
_KEEPS: Final = late(r"(?<=\w|\]|\))\.(?P<method>append|extend|appendleft|setdefault)(?=\()")
# What is allocated once for all that will come (a replay memory, a ring, a store of transitions) has it as its first
# length: a later one is what a sequence is padded to
_CAPACITY: Final = late(
    r"(?<=[(\[])(?P<name>(?:self\.)?_{0,2}(?:(?:max|mem(?:ory)?|buf(?:fer)?|replay)_?){0,2}(?:capacity|maxlen)"
    r"|(?:self\.)?_{0,2}(?:max_)?(?:mem(?:ory)?|buf(?:fer)?|replay(?:_buffer)?)_(?:size|len(?:gth)?|cap))\b"
)
_OF_A_BUFFER: Final = late(
    r"(?i)(?:replay|experience|transition|trajectory|rollout)s?_?(?:buffer|storage|memory|pool)"
    r"|(?:^|experience_?|prioriti[sz]ed_?)replay\b"
)
# What is kept for an agent; transitions are a Markov chain's, too, and trajectories a molecule's
_OF_AN_AGENT: Final = late(r"(?:^|\bself\.)_{0,2}(?:experiences?|transitions|trajectories)\b ?=(?!=)")
_AGENTS: Final = (
    r"(?i)replay|\bagents?\b|\b(?:rainbow|(?:\w{1,9}_)?dqn|ddpg|td3|gym(?:nasium)?|dopamine|stable_baselines3)\b"
)
_OF_A_NETWORK: Final = late(
    r"(?i)\bregister_buffer\b|grad|momentum|optim|(?:^|[\s.,(])(?:d?w(?:eights?|\d{0,2}|_?[a-z]{0,3})|biases|bias|b\d|kernels?"
    r"|params?|theta)(?:\[[^\]]{0,40}\])? ?[-+*/]?=(?!=)"
)
_LAYS_OUT: Final = late(r"\b(?:np|numpy|onp|torch)\.(?:empty|zeros|ones|full)(?=\()")


@sign
def a_buffer_is_made_at_once(crash: Crash) -> Seen | None:
    """The innermost line makes an array as large as a buffer will ever be, as a replay memory does, and of a size that
    machines have."""
    if (_tried(crash) or 0) >= MANY_HOSTS:
        return None
    frame = _innermost(crash, (*_OF_PYTHON, "torch"))
    made = _LAYS_OUT.search(frame.code) if frame is not None else None
    if frame is None or made is None or not _is_of_a_buffer(crash, frame):
        return None
    words = say(
        "A buffer lays out all of its room at once ({call}), however little is in it yet, and there was no memory for "
        "it{asked}.",
        call=_call(made),
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), stage=crash.stage, knobs=LAID_OUT)


@sign
def an_array_is_made_at_once(crash: Crash) -> Seen | None:
    """The innermost line makes an array, and no size is printed, or 1 GiB or more."""
    frame = _innermost(crash, _OF_PYTHON)
    made = _MAKES.search(frame.code) if frame is not None else None
    if made is None or _is_small(crash):
        return None
    words = say(
        "The innermost line of the traceback makes an array ({call}), which NumPy keeps in memory as a whole{asked}.",
        call=_call(made),
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), stage=crash.stage)


@sign
def a_line_fills_the_memory(crash: Crash) -> Seen | None:
    """One of the two is seen."""
    return an_array_is_made_at_once(crash) or one_thing_more_is_kept(crash)


@sign
def one_thing_more_is_kept(crash: Crash) -> Seen | None:
    """The innermost line adds to a list or a dictionary: what it kept before fills the memory."""
    frame = _innermost(crash, ("python",))
    kept = _KEEPS.search(frame.code) if frame is not None else None
    if kept is None or crash.stage == "eval":
        return None
    words = say(
        "The innermost line of the traceback adds to what the job keeps in memory ({call}): all that it has collected "
        "lies there.",
        call=_call(kept),
    )
    return Seen(words=words, evidence=(crash.root,), stage=crash.stage)


def _innermost(crash: Crash, allocators: tuple[str, ...]) -> Frame | None:
    """The innermost frame that is not NumPy's, where the job was refused memory for something else than a network."""
    refused = crash.root
    if not isinstance(refused, HostAllocation) or refused.allocator not in allocators or crash.stage not in _WORK:
        return None
    frame = next((one for one in crash.frames() if not _WITHIN_NUMPY.search(one.path)), None)
    return frame if frame is not None and frame.code and not _OF_A_NETWORK.search(frame.code) else None


def capacity_of(crash: Crash) -> str | None:
    """What the line that lays out a buffer calls the number of its entries: "self.memory_size"."""
    frame = next((one for one in crash.frames() if not _WITHIN_NUMPY.search(one.path)), None)
    if frame is None or a_buffer_is_made_at_once(crash) is None:
        return None
    named = _CAPACITY.search(frame.code)
    return named["name"] if named is not None else None


def an_agent_is_in_sight(crash: Crash) -> bool:
    """Whether a frame or a line near the failure speaks of an agent, its library or its replay."""
    return crash.job.task == "rl" or crash.shows(_AGENTS)


def _is_of_a_buffer(crash: Crash, frame: Frame) -> bool:
    if _CAPACITY.search(frame.code) or _OF_A_BUFFER.search(f"{_file(frame)} {frame.function} {frame.code}"):
        return True
    return _OF_AN_AGENT.search(frame.code) is not None and an_agent_is_in_sight(crash)


def _file(frame: Frame) -> str:
    return frame.path.rpartition("/")[2]


def _is_small(crash: Crash) -> bool:
    """An array of such a size may be anything's, on a machine that others have filled."""
    tried = _tried(crash)
    return tried is not None and tried < LARGE


def _tried(crash: Crash) -> int | None:
    return crash.root.tried_bytes if isinstance(crash.root, HostAllocation) else None


def _call(found: re.Match[str]) -> str:
    """The name of the function alone: no more of the line is told."""
    return found[0].lstrip(".")


__all__ = [
    "a_buffer_is_made_at_once",
    "a_line_fills_the_memory",
    "an_agent_is_in_sight",
    "an_array_is_made_at_once",
    "capacity_of",
    "one_thing_more_is_kept",
]
