"""Data that fills the host: read, tokenised or cached."""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from oomdoctor.families.container import LimitKill
from oomdoctor.families.data_loader import WorkerDeath as LoaderDeath
from oomdoctor.families.event import RAM
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import SIGKILL, Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE, asked_for
from oomdoctor.incident.prints import several_steps_went_by
from oomdoctor.job.frameworks import some
from oomdoctor.job.model import Setting, Value
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import OF_THE_MACHINE
from oomdoctor.signs.first_step import killed_bare
from oomdoctor.signs.made import IN_BLOCKS
from oomdoctor.signs.mapped_data import without_processes
from oomdoctor.signs.trace import STRAW
from oomdoctor.units import show, size

_READING: Final = (
    r"\bdatasets/|load_dataset|arrow_dataset|pyarrow/|pandas/|read_(?:csv|parquet|json|pickle)|numpy/lib/npyio"
    r"|\btokenize_|\btokeni[sz]e\w*\(|preprocess_dataset|get_dataset\b|build_dataset|cache_images|load_image|imread"
    r"|torch/utils/data|DataLoader|data_?loaders?(?:/|\.py)|dask/|(?i:replay_?(?:buffers?|memory)(?:/|\.py|\())"
    # libraries that hold the whole of their data; a factorization of a matrix is none
    # whole files at once
    r"|\bjson/(?:__init__|decoder)\.py|\bpickle\.loads?\(|/csv\.py|\.readlines\(|\bsqlite3?\b.{0,40}\b(?:fetchall|executemany)"
    r"|\b(?:fetchall|executemany|toarray|todense)\(|\bPIL/|\bcv2\.|\bimageio/|\brasterio/|\bxarray/|\bnetworkx/"
    r"|\b(?:h5py|zarr|polars|modin|sklearn|scipy/sparse(?!/linalg)|faiss|catboost|lightgbm|xgboost|cudf)/|_catboost\.pyx"
)
# pandas' own steps on tables that are in memory (pandas/core at 3.1); what reads them is beside it, or the job's own
_ON_TABLES: Final = late(r"\bpandas/core/(?:reshape|internals|groupby)/")
# pandas.DataFrame and polars.DataFrame, by what their users call them
_CALLED_ON_TABLES: Final = late(
    r"\b(?:pd|pl|pandas|polars|df\w{0,20}|\w{0,20}(?:frame|table)s?)\.(?P<step>concat|merge|join|crosstab|get_dummies"
    r"|pivot(?:_table)?|unstack|melt|explode|sort_values|groupby|group_by|to_numpy|to_dict|to_records|drop_duplicates)\("
)
_READS_THEM: Final = r"\bpandas/io/|\b(?:read|load)_?\w{0,40}\(|\b(?:read|load)_\w|\bload(?:er)?s?\b"
# cudf/io/*.py; load_video_frames of facebookresearch/sam2, and functions of that name elsewhere
_READING_ONTO_THE_CARD: Final = (
    r"\bcudf/io/|\bread_(?:csv|parquet|json|orc|feather|avro)\b|\bload_\w*(?:frame|image|video)s\b"
)
# faiss/python/class_wrappers.py and the wrappers of SWIG; hnswlib, annoy, usearch, chromadb, qdrant_client
_INDEXES: Final = (
    r"\b(?:faiss|hnswlib|annoy|usearch|chromadb|qdrant_client|lancedb|vectorstores?)/|\bIndex\w{0,30}_add\b"
)
_ADDS: Final = r"\b(?:replacement_)?add(?:_with_ids|_items|_texts|_documents|_item|_c|_batch)?\b|\bupsert\b|_add\b"
# sklearn/metrics/pairwise.py, scipy/spatial/distance.py, sklearn/gaussian_process, sklearn/manifold
_OF_PAIRS: Final = r"\bpairwise|\b[cp]dist\b|squareform|_kernel\b|kernel_|gaussian_process|affinity|linkage|similarity"
_IN_ONE_PROCESS: Final = r"\bdisable multiprocessing\b"  # datasets: iflatmap_unordered
_READING_LINE: Final = (
    r"(?i)caching images|running tokenizer|tokenizing|\bmap \(num_proc|\bmap:|generating \w+ split|loading dataset"
    r"|filter \(num_proc|packing dataset|grouping texts|converting format of dataset|preprocessing dataset"
    r"|abruptly died during map"
    # "Load the 24000 image of 25000."
    r"|\b(?:load|read)(?:ing)?\b[^\n\d]{1,24}\b\d{1,9} (?:image|picture|file|sample|record|video|clip|document)s? of \d"
)
# keras/engine/training.py; tensorflow/python/framework/constant_op.py
_FITTED: Final = r"\.(?:fit|evaluate|predict)\("
_CONSTANT: Final = r"\b_EagerConst\b|\bconvert_to_eager_tensor\b"
# YOLOv5's "GB" is decimal up to 6.2 and binary from 7.0 on (utils/datasets.py, utils/dataloaders.py)
_CACHED: Final = late(
    r"\((?P<size>\d{1,6}(?:\.\d{1,3})?)\s?(?P<unit>[KMGT]i?B) (?:ram|RAM)"
    r"(?:\W.{0,60}?\s(?P<done>\d{1,12})/(?P<total>\d{1,12})\s)?"
)
_PROCESSES: Final = late(r"\bnum_proc=(\d{1,5})\b")
# Options that keep a data set in memory: of Ultralytics, datasets, tf.data scripts, h5ad readers, recommender systems
_KEEPS: Final = (
    "cache", "cache_images", "cache_data", "cache_dataset", "cache_mode", "in_memory", "keep_in_memory",
    "load_in_memory", "load_in_ram", "load_into_memory", "preload", "preload_data", "cache_in_memory", "ram_cache",
)  # fmt: skip
_LATER_EPOCH: Final = late(r"(?i)\bepoch\W{0,4}(?:0{0,3}[2-9]|0{0,2}[1-9]\d)")
_BY_SIGKILL: Final = "Killed"  # torch/utils/data/_utils/signal_handling.py: strsignal(3)
_MEMORY: Final = ("memory", "ram", "mem", "in_memory", "true", "all")
_STRINGS: Final = late(r"[<>|=]?([US])(\d{1,9})")
_LENGTH: Final = late(r"\d{1,12}")
_TABLE: Final = late(r"\((\d{1,12}), ?(\d{1,12})\)")
# The columns of a table that is rather mostly empty than a matrix of the model.
FEATURES: Final = 1000
# Processes, each with its own batches and interpreter: so many fill a machine.
MANY: Final = 64


@sign
def data_goes_to_the_card_in_one_piece(crash: Crash) -> Seen | None:
    """Keras' fit() was given arrays, and TensorFlow could not allocate a constant of 1 GiB or more for them."""
    tried = crash.root.figures("usage").get("tried_bytes")
    if crash.pool != "gpu" or not isinstance(tried, int) or tried < LARGE:
        return None
    if crash.mentions(_FITTED) is None or crash.mentions(_CONSTANT) is None:
        return None
    words = say(
        "TensorFlow tried to put all data on the GPU in one tensor of {tried}: fit() was given arrays, and "
        "TensorFlow makes a constant of them.",
        tried=show(tried),
    )
    return Seen(words=words, evidence=(crash.root,), stage="data_load")


@sign
def data_are_read_onto_the_card(crash: Crash) -> Seen | None:
    """A function that reads data into GPU memory was refused it."""
    if crash.pool != "gpu" or crash.stage != "data_load":
        return None
    frame = crash.in_trace(_READING_ONTO_THE_CARD)
    if frame is None:
        return None
    words = say(
        "The allocation that failed was made while reading data onto the GPU ({function}){asked}.",
        function=frame.function,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,))


@sign
def a_card_without_data(crash: Crash) -> Seen | None:
    """GPU memory was short, and no data were on their way to it."""
    data = data_goes_to_the_card_in_one_piece(crash) or data_are_read_onto_the_card(crash)
    return Seen(words="") if crash.pool == "gpu" and data is None else None


@sign
def data_is_cached_in_memory(crash: Crash) -> Seen | None:
    """A line near the failure says how much data is cached in RAM."""
    cached = cached_data(crash)
    if cached is None:
        return None
    words = joined(
        (
            _cached_until(crash, cached),
            say("All of it takes about {whole}: {formula}.", whole=cached.whole, formula=cached.formula)
            if cached.is_filling
            else "",
        )
    )
    return Seen(
        words=words,
        evidence=(crash.root,),
        shows_memory=True,
        unsure=not crash.proven,
        used_bytes=size(cached.size, cached.unit) or 0,
        stage="data_load",
        next_evidence=() if crash.proven else OF_THE_MACHINE,
    )


def _cached_until(crash: Crash, cached: Cached) -> str:
    """How much was cached, and when: a kill or a worker's end tells of no allocation."""
    if not crash.proven:
        return say("{held} of data was cached in memory before the process died.", held=cached.held)
    if isinstance(crash.root, HostAllocation):
        return say("{held} of data was cached in memory when the next allocation failed.", held=cached.held)
    return say("{held} of data was cached in memory when memory ran out.", held=cached.held)


class Cached(NamedTuple):
    """Data that a program keeps in RAM, as its progress bar counts them."""

    size: str
    unit: str
    done: int
    total: int

    @property
    def held(self) -> str:
        return f"{self.size} {self.unit}"

    @property
    def is_filling(self) -> bool:
        """Whether more is to come."""
        return 0 < self.done < self.total

    @property
    def whole(self) -> str:
        return f"{float(self.size) / self.done * self.total:.3g} {self.unit}"

    @property
    def formula(self) -> str:
        return f"{self.size} / {self.done} x {self.total}"


def cached_data(crash: Crash) -> Cached | None:
    """How much data is cached in RAM, by the line nearest to the failure that speaks of data."""
    line = crash.mentions(_READING_LINE)
    match = _CACHED.search(line) if line is not None else None
    if match is None:
        return None
    return Cached(match["size"], match["unit"], int(match["done"] or 0), int(match["total"] or 0))


@sign
def data_is_kept_by_a_setting(crash: Crash) -> Seen | None:
    """The kernel or a manager killed a job for host memory, and a setting says that the job keeps its data there."""
    kept = kept_in_memory(crash) if isinstance(crash.root, KernelKill | LimitKill) else None
    if kept is None:
        return None
    words = say(
        "{name} {value} keeps the data in memory, and the job was killed for it.", name=kept.name, value=kept.value
    )
    return Seen(words=words, evidence=(crash.root,), stage="data_load" if crash.stage == "unknown" else None)


@sign
def data_is_kept_by_batches(crash: Crash) -> Seen | None:
    """A SIGKILL for no printed reason in the middle of the first epoch, after several batches, and a setting says that
    the job keeps its data in memory: each batch adds to it, and what a pass takes had room from the first one on."""
    kept = kept_in_memory(crash) if killed_bare(crash) and several_steps_went_by(crash) else None
    if kept is None or any(_LATER_EPOCH.search(line) for line in crash.root.around.before):
        return None
    words = say(
        "{name} {value} keeps the data in memory, and more of it with each batch of the first epoch. What a pass takes "
        "is there from the first batch on.",
        name=kept.name,
        value=kept.value,
    )
    doubt = say("no line shows how much memory was in use")
    stage = "data_load" if crash.stage == "unknown" else None
    return Seen(words=words, evidence=(crash.root,), against=(doubt,), stage=stage)


@sign
def data_is_kept_by_workers(crash: Crash) -> Seen | None:
    """A worker of a data loader was killed for no printed reason, and a setting says that data is kept in memory: each
    worker comes to keep what it has loaded."""
    root = crash.root
    killed = isinstance(root, LoaderDeath) and root.signal in (None, _BY_SIGKILL) and not crash.proven
    kept = kept_in_memory(crash) if killed else None
    if kept is None:
        return None
    words = say(
        "{name} {value} keeps the data in memory: each worker comes to keep what it has loaded.",
        name=kept.name,
        value=kept.value,
    )
    doubt = say("no line shows how much memory was in use")
    return Seen(words=words, evidence=(root,), against=(doubt,))


def kept_in_memory(crash: Crash) -> Setting | None:
    """What says that data is kept, where nothing else is known to fill the memory."""
    if crash.pool not in RAM or not _fills_with_data(crash.stage):
        return None
    stated = (setting for name in _KEEPS if (setting := crash.setting(name)) is not None)
    return next((setting for setting in stated if _is_memory(setting.value)), None)


def _is_memory(value: Value) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in _MEMORY)


def _fills_with_data(stage: str) -> bool:
    """Not while something else is known to fill the memory."""
    return stage in ("unknown", "launch", "data_load", "forward", "backward")


@sign
def memory_ran_out_at_a_line_on_data(crash: Crash) -> Seen | None:
    """Memory ran out, and a line near the failure mentions reading or tokenizing data."""
    if not crash.proven or crash.mentions(_READING_LINE) is None:
        return None
    return _while_reading(crash)


@sign
def memory_ran_out_while_reading_data(crash: Crash) -> Seen | None:
    """Memory ran out while the job was reading its data."""
    return _while_reading(crash) if crash.proven and crash.stage == "data_load" else None


@sign
def many_readers_and_one_vanished(crash: Crash) -> Seen | None:
    """64 or more processes prepare the data, and one of them was killed or disappeared."""
    line = crash.mentions(_PROCESSES.pattern) if crash.mentions(_READING_LINE) is not None else None
    many = _PROCESSES.search(line) if line is not None else None
    if crash.proven or many is None or int(many[1]) < MANY:
        return None
    several = say("{count} processes prepared the data; one of them was killed or disappeared.", count=many[1])
    words = joined((several, _alone(crash)))
    killed = isinstance(crash.root, Kill) and crash.root.signal == SIGKILL  # else it may as well have failed
    return Seen(words=words, evidence=(crash.root,), shows_memory=killed, stage="data_load")


@sign
def vanished_at_a_line_on_data(crash: Crash) -> Seen | None:
    """A process was killed or disappeared, and a line near the failure mentions reading or tokenizing data."""
    if crash.proven or crash.mentions(_READING_LINE) is None:
        return None
    return _while_reading(crash)


@sign
def vanished_while_reading_data(crash: Crash) -> Seen | None:
    """A process was killed or disappeared while the job was reading its data."""
    return _while_reading(crash) if not crash.proven and crash.stage == "data_load" else None


def _alone(crash: Crash) -> str:
    """What the message of `datasets` advises, which tells what failed."""
    if crash.mentions(_IN_ONE_PROCESS) is None:
        return ""
    return without_processes()


def _while_reading(crash: Crash) -> Seen:
    asked, in_a_worker = asked_for(crash), crash.first(Kill) is not None
    if crash.proven and in_a_worker:
        words = say("Memory ran out while one of several workers loaded or tokenized data{asked}.", asked=asked)
    elif crash.proven:
        words = say("Memory ran out while data was loaded or tokenized{asked}.", asked=asked)
    elif in_a_worker:
        words = say(
            "One of several workers was killed or disappeared while it loaded or tokenized data{asked}.",
            asked=asked,
        )
        words = joined((words, _alone(crash)))
    else:
        words = say("A process was killed or disappeared while it loaded or tokenized data{asked}.", asked=asked)
    return Seen(words=words, evidence=(crash.root,), stage="data_load")


@sign
def a_wide_table_was_refused(crash: Crash) -> Seen | None:
    """1 GiB or more failed for a table of at least 1000 columns, one side at least twice as long as the other."""
    table = next((event for event in crash.every(HostAllocation) if _is_wide(event)), None)
    if table is None:
        return None
    words = say(
        "A table of {shape} numbers did not fit in memory as one array{asked}. Such a table is mostly zeros, "
        "or need not be in memory all at once.",
        shape=table.shape,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(table,), stage="data_load" if crash.stage == "unknown" else None)


@sign
def strings_of_one_width(crash: Crash) -> Seen | None:
    """1 GiB or more failed for an array of strings: NumPy gives each of them the room of the longest."""
    table = crash.root
    if not isinstance(table, HostAllocation) or (_padded(table) or 0) < LARGE:
        return None
    words = say(
        "NumPy pads every string of an array to the longest one: shape {shape} of type {dtype} takes {size}.",
        shape=table.shape,
        dtype=table.dtype,
        size=show(_padded(table) or 0),
    )
    return Seen(words=words, evidence=(table,), stage="data_load" if crash.stage == "unknown" else None)


def _padded(event: HostAllocation) -> int | None:
    """The lengths of the array times the width of its strings: 4 bytes for a character, 1 for a byte."""
    width = _STRINGS.fullmatch(event.dtype or "")
    if width is None or not event.shape:
        return None
    return prod(int(length) for length in _LENGTH.findall(event.shape)) * int(width[2]) * (4 if width[1] == "U" else 1)


def _is_wide(event: HostAllocation) -> bool:
    """Many rows of many columns, and not as many of one as of the other (that is a matrix of all pairs)."""
    match = _TABLE.fullmatch(event.shape or "")
    if match is None or (event.tried_bytes or 0) < LARGE:
        return False
    rows, columns = int(match[1]), int(match[2])
    return min(rows, columns) >= FEATURES and max(rows, columns) >= 2 * min(rows, columns)


@sign
def arrow_was_refused(crash: Crash) -> Seen | None:
    """The exception comes from Arrow, which holds tables."""
    refused = crash.first(HostAllocation)
    if refused is None or "ArrowMemoryError" not in refused.at.text:
        return None
    words = say("Allocating memory for an Arrow table failed{asked}.", asked=asked_for(crash))
    return Seen(words=words, evidence=(refused,))


@sign
def an_array_of_data_was_refused(crash: Crash) -> Seen | None:
    """R was refused a vector of more than 20 MiB, or NumPy an array of 1 GiB or more: networks have their framework's
    allocator."""
    square = a_square_array_was_refused(crash)
    if square is not None:
        return square
    refused = crash.first(HostAllocation)
    if refused is not None and refused.allocator == "r" and (refused.tried_bytes or LARGE) > STRAW:
        words = say("R was refused memory for a vector{asked}: R keeps all its data in memory.", asked=asked_for(crash))
        return Seen(words=words, evidence=(refused,))
    if refused is None or refused.allocator != "numpy" or (refused.tried_bytes or 0) < LARGE:
        return None
    words = say("A NumPy array of {size} did not fit in memory.", size=show(refused.tried_bytes or 0))
    return Seen(words=words, evidence=(refused,))


@sign
def a_data_library_was_refused(crash: Crash) -> Seen | None:
    """The runtime of a library for tables in Rust was refused memory, which says neither where nor for what."""
    refused = crash.first(HostAllocation)
    if refused is None or refused.allocator != "rust":
        return None
    library = next((name for name in crash.job.frameworks if some([name], "holds tables in Rust")), None)
    if library is None:
        return None
    words = say("{library} was refused memory for its tables{asked}.", library=library, asked=asked_for(crash))
    stage = "data_load" if crash.stage == "unknown" else None
    return Seen(words=words, evidence=(refused,), stage=stage)


@sign
def an_index_was_refused(crash: Crash) -> Seen | None:
    """A library for vector search was refused memory while vectors were added to its index."""
    frame = crash.in_trace(_INDEXES)
    if frame is None or crash.first(HostAllocation) is None or crash.in_trace(_ADDS) is None:
        return None
    words = say(
        "The allocation that failed was made while vectors were added to an index, which keeps all of them in "
        "memory{asked}.",
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), stage="data_load" if crash.stage == "unknown" else None)


@sign
def a_matrix_of_pairs_was_refused(crash: Crash) -> Seen | None:
    """A library was refused a square matrix with a row and a column for each of at least 1000 samples."""
    matrix = crash.first(HostAllocation)
    shape = _TABLE.fullmatch(matrix.shape or "") if matrix is not None else None
    if matrix is None or shape is None or shape[1] != shape[2] or int(shape[1]) < FEATURES:
        return None
    if crash.in_trace(_OF_PAIRS) is None:
        return None
    words = say(
        "A matrix of all pairs of {count} samples did not fit in memory{asked}. Twice as many samples take four "
        "times as much.",
        count=f"{int(shape[1]):,}",
        asked=asked_for(crash),
    )
    stage = "data_load" if crash.stage == "unknown" else None
    return Seen(words=words, evidence=(matrix,), stage=stage, knobs=IN_BLOCKS)


@sign
def a_square_array_was_refused(crash: Crash) -> Seen | None:
    """NumPy was refused 1 GiB or more for an array with as many rows as columns, at least 1000 of them."""
    refused = crash.first(HostAllocation)
    shape = _TABLE.fullmatch(refused.shape or "") if refused is not None else None
    if refused is None or shape is None or shape[1] != shape[2] or int(shape[1]) < FEATURES:
        return None
    if (refused.tried_bytes or 0) < LARGE:
        return None
    words = say(
        "An array with a row and a column for each of {count} did not fit in memory{asked}: twice as many take four "
        "times as much.",
        count=f"{int(shape[1]):,}",
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(refused,), knobs=IN_BLOCKS)


@sign
def refused_among_tables(crash: Crash) -> Seen | None:
    """A step of pandas on tables that were in memory made the allocation that failed, and no frame reads any."""
    step = step_on_tables(crash)
    if step is None or crash.first(HostAllocation) is None or crash.in_trace(_READS_THEM) is not None:
        return None
    words = say(
        "The allocation that failed was made for the result of a step on tables in memory ({function}){asked}.",
        function=step,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), stage="data_load")


def step_on_tables(crash: Crash) -> str | None:
    """The function of pandas that the others there work for, or the one that the job's own line calls."""
    steps = [frame.function for frame in crash.frames() if _ON_TABLES.search(frame.path)]
    if steps:
        return steps[-1]
    innermost = next(crash.frames(), None)
    called = _CALLED_ON_TABLES.search(innermost.code) if innermost is not None else None
    return called["step"] if called is not None else None


@sign
def refused_while_reading_data(crash: Crash) -> Seen | None:
    """A frame that reads data made the allocation that failed."""
    frame = crash.in_trace(_READING)
    if frame is None or crash.first(HostAllocation) is None:
        return None
    words = say(
        "The allocation that failed was made while reading data ({function}){asked}.",
        function=frame.function,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), stage="data_load")
