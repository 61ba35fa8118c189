"""Loading, tokenising or caching data fills memory."""

from __future__ import annotations

from typing import Final

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.causes.host import LARGE, asked_for
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.patterns import late
from oomdoctor.units import show, size

_FRAMES: Final = (
    r"\bdatasets/|load_dataset|arrow_dataset|pyarrow/|pandas/|read_(?:csv|parquet|json|pickle)|numpy/lib/npyio"
    r"|\btokenize_|\btokeni[sz]e\w*\(|preprocess_dataset|get_dataset\b|build_dataset|cache_images|load_image|imread"
    r"|torch/utils/data|DataLoader|dask/"
)
_SAID: Final = (
    r"(?i)caching images|running tokenizer|tokenizing|\bmap \(num_proc|\bmap:|generating \w+ split|loading dataset"
    r"|filter \(num_proc|packing dataset|grouping texts|converting format of dataset|preprocessing dataset"
    r"|abruptly died during map"
)
_CACHED: Final = late(r"\((\d{1,6}(?:\.\d{1,3})?)\s?([KMGT]i?B) (?:ram|RAM)")
_PROCESSES: Final = late(r"\bnum_proc=(\d{1,5})\b")
_TABLE: Final = late(r"\((\d{1,12}), ?(\d{1,12})\)")
FEATURES: Final = 1000
MANY: Final = 64  # processes, each with its own batches and interpreter


def judge(crash: Crash) -> Judgement | None:
    said = crash.mentions(_SAID)
    cached = _CACHED.search(said) if said else None
    if cached:
        held = size(cached[1], cached[2])
        return Finding(
            weight=0.88,
            shows_memory=True,
            why=say("Data is cached in memory, {held} of it when the next allocation failed.", held=show(held or 0)),
            evidence=(crash.root,),
            stage="data_load",
        )
    frame = crash.in_trace(_FRAMES)
    if said is not None or crash.stage == "data_load":
        return Finding(
            weight=_weight(crash, said),
            shows_memory=_many(crash, said),
            why=_while_loading(crash),
            evidence=(crash.root,),
            stage="data_load",
        )
    table = next((event for event in crash.every(HostAllocation) if _is_table(event)), None)
    if table is not None:
        return Finding(
            weight=0.62,
            why=say(
                "A table of {shape} numbers was to be held in memory in one piece{asked}: data of "
                "this shape is mostly empty, or need not be there all at once.",
                shape=table.shape,
                asked=asked_for(crash),
            ),
            evidence=(table,),
            stage="data_load" if crash.stage == "unknown" else None,
        )
    if frame is not None and crash.first(HostAllocation) is not None:
        return Finding(
            weight=0.55,
            why=say(
                "The refused allocation was made while reading data ({function}){asked}.",
                function=frame.function,
                asked=asked_for(crash),
            ),
            evidence=(crash.root,),
            stage="data_load",
        )
    return None


def _is_table(event: HostAllocation) -> bool:
    """Many rows of many columns, and not as many of one as of the other (that is a matrix of all pairs)."""
    match = _TABLE.fullmatch(event.shape or "")
    if match is None or (event.tried_bytes or 0) < LARGE:
        return False
    rows, columns = int(match[1]), int(match[2])
    return min(rows, columns) >= FEATURES and max(rows, columns) >= 2 * min(rows, columns)


def _while_loading(crash: Crash) -> str:
    asked, in_a_worker = asked_for(crash), crash.first(Kill) is not None
    if crash.proven and in_a_worker:
        return say(
            "Memory ran out while data was loaded or tokenised in one of several worker processes{asked}.", asked=asked
        )
    if crash.proven:
        return say("Memory ran out while data was loaded or tokenised{asked}.", asked=asked)
    if in_a_worker:
        return say(
            "A process was killed or vanished while data was loaded or tokenised in one of "
            "several worker processes{asked}.",
            asked=asked,
        )
    return say("A process was killed or vanished while data was loaded or tokenised{asked}.", asked=asked)


def _weight(crash: Crash, said: str | None) -> float:
    """A worker that was killed for no printed reason does not show that memory ran out."""
    if not crash.proven:
        return 0.52 if _many(crash, said) else 0.45 if said is not None else 0.25
    return 0.75 if said is not None else 0.6


def _many(crash: Crash, said: str | None) -> bool:
    """So many processes that their batches and interpreters alone fill a machine."""
    line = crash.mentions(_PROCESSES.pattern) if said is not None else None
    many = _PROCESSES.search(line) if line is not None else None
    return many is not None and int(many[1]) >= MANY


CAUSE = Cause(
    id="dataset-in-ram",
    title=mark("Loading, tokenising or caching data fills the memory"),
    pools=("host_ram", "cgroup", "shm"),
    knobs=("stream-data", "fewer-workers", "smaller-buffers", "smaller-microbatch", "more-host-memory"),
    rule=judge,
)
