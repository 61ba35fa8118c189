"""What a job's last lines say that it holds in memory: buffers that fill, things that it collects, dense tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod
from typing import Final, NamedTuple

from oomdoctor.families.container import LimitKill
from oomdoctor.families.event import RAM
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.lines import PROGRESS
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE
from oomdoctor.incident.prints import A_COUNT, LAST, Held, growing, is_told_last, number, own_lines, type_of_numbers
from oomdoctor.job.frameworks import some
from oomdoctor.job.session import source
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.encoded_tables import Table, encoded_table
from oomdoctor.signs.first_step import HALF, killed_bare, memory_in_all
from oomdoctor.signs.growing_caches import an_unbounded_cache_grows, unbounded_cache
from oomdoctor.signs.host_caches import prompts_filled_the_limit
from oomdoctor.signs.limits import budget_beyond_the_limit
from oomdoctor.signs.made import IN_BLOCKS
from oomdoctor.signs.node_groups import several_alike_have_it
from oomdoctor.signs.printed_arrays import LEAST_TYPE, arrays_by_its_prints_fill_it
from oomdoctor.signs.set_limits import address_limit
from oomdoctor.units import percent, show, size

# tf.data (tensorflow/core/kernels/data/shuffle_dataset_op.cc): "Filling up shuffle buffer (this may take a while): 1482
# of 10000"; agents' replay memories; any program's queue, backlog or cache. An engine's caches are no data.
_HOLDER: Final = late(
    r"(?i)(?<!kv )(?<!kv-)(?<!prefix )(?<!page )(?<!gpu )(?<!cuda )(?<!encoder )"
    r"\b(?P<what>(?:replay|experience|transition|sample|shuffle|prefetch|result|work|task|message|event)s?[ _-]?"
    r"(?:buffer|memory|queue|cache)|(?:queue|backlog|cache|in-memory (?:index|store|table))s?|buffer(?=[ =:]{1,2}\d))"
    r"\b(?! (?:hit|miss|size))[^\d\n%]{0,40}" + A_COUNT
)
_FILLING: Final = late(r"(?i)\bfilling (?:up )?\w{0,20} ?(?:buffer|memory|cache|queue)")
# ... and its "Shuffle buffer filled." behind the last count
_FILLED: Final = late(r"(?i)\b(?:buffer|memory|cache|queue) (?:is |was |now )?(?:filled|full)\b(?! of)")
_COLLECTED: Final = late(
    r"(?i)\b(?P<what>loaded|decoded|read|collected|fetched|inserted|appended|added|stored|kept|parsed|indexed|ingested"
    r"|imported|received|buffered|gathered|accumulated)\b[^\d\n%]{0,30}" + A_COUNT
)
# A result as large as its rows times its columns, or as the pairs of two tables
_MADE_WHOLE: Final = late(
    r"(?i)\b(?P<what>pivot(?:ing|ed|_table)?|unstack(?:ing)?|crosstab|one-hot|densify(?:ing)?|(?:to|into) (?:a )?dense"
    r"|dense (?:matrix|table|array)|cross join|join(?:ing|ed)?|merg(?:e|ing|ed)|explod(?:e|ing|ed)|outer product"
    r"|(?:pairwise|distance|similarity|kernel|co-?occurrence) matrix)\b"
)
# Rows of it are computed, not read: there is nothing to stream
_OF_PAIRS: Final = late(r"(?i)\b(?:pairwise|distance|similarity|kernel|co-?occurrence) matrix|outer product")
# What is merged and joined there is no data
_OF_A_MODEL: Final = late(
    r"(?i)\b(?:lora|adapters?|weights?|checkpoints?|models?|layers?|shards?|branch|threads?|cluster|process group"
    r"|rank)\b"
)
_READS_A_FILE: Final = late(
    r"(?i)\b(?:reading|loading|parsing|importing|opening|ingesting)\b[^\n]{0,60}?(?P<file>[\w.*-]{1,60}\.(?:jsonl?|ndjson"
    r"|[ct]sv|parquet|feather|arrow|avro|orc|xml|xlsx?|pkl|pickle|np[yz]|h5|hdf5|h5ad|nc|zarr|tiff?|las|laz|dbf|sqlite"
    r"|txt|pbf|pcap|dcm|nii)(?:\.(?:gz|bz2|xz|zst))?)\b"
)
_CALL: Final = late(r"\b(?:\w{1,40}\.){0,3}(?:read|scan|load|open)_\w{1,40}(?=\()")
# Arguments by which pandas, Polars, NumPy, AnnData and datasets read a part or map the file
_IN_PIECES: Final = late(
    r"\b(?:chunk_?size|nrows|n_rows|iterator|batch_size|mmap_mode|backed)\s?=(?!\s?None\b)|\bstreaming\s?=\s?True\b"
)
# Rows in a file, whatever is done with them; one that was written has its work behind it
_FILE_OF_ROWS: Final = late(
    r"(?i)^(?!.*\b(?:saved|wrote|written|exported|done|finished)\b).*?(?P<file>[\w.*-]{1,60}\.(?:jsonl|ndjson|[ct]sv"
    r"|parquet|feather|arrow|avro|orc|xlsx)(?:\.(?:gz|bz2|xz|zst))?)\b"
)
_NEAR_THE_END: Final = 3  # lines
# "loaded 12 tables: 3.1 GB", and what Polars' estimated_size() and pandas' memory_usage() are printed as
_READ_SIZE: Final = late(
    r"(?i)\b(?:read|loaded|estimated[_ ]size|in[- ]memory|memory[_ ]usage)\b[^\n]{0,80}?"
    r"(?<![\d.])(?P<size>\d{1,6}(?:\.\d{1,3})?)\s?(?P<unit>[KMGT]i?B)\b(?!\s?/s)"
)
_ELSEWHERE: Final = late(r"(?i)\bon disk\b|\bfile size\b|compressed|\bfree\b|\bavailable\b|\blimit\b|\btotal memory\b")
_GOOD_PART: Final = 0.25  # of a limit: what is made of the data comes on top
# "polars 1.9.0", "pandas==2.2.3"; what Polars and pandas print of a table; a million rows or more
_OF_TABLES: Final = late(
    r"^\s{0,4}(?:polars|pandas|pyarrow|modin|vaex|cudf|datatable)(?: version)?[ =:/v]{1,3}\d{1,3}\.\d"
    r"|^shape: \(\d{1,12}, \d{1,6}\)$|^\[\d{1,12} rows x \d{1,6} columns\]$"
    r"|\b(?:\d{1,3}(?:[,_]\d{3}){2,3}|[1-9]\d{6,11}|\d{1,4}(?:\.\d{1,3})?\s?M) (?:rows|records)\b"
)
_BAR: Final = late(r"\d{1,3}%\|[^|\n]{0,200}\| ?(?P<done>\d{1,9})/(?P<all>\d{1,9}) \[")
_SHAPE: Final = late(r"\(\d{3,12}, ?\d{3,12}(?:, ?\d{1,12}){0,2}\)")
_LENGTH: Final = late(r"\d{1,12}")
# "3,000,000 rows x 200 columns", "DMatrix 3000000 x 200"
_ROWS_AND_COLUMNS: Final = late(
    r"(?<![\d.,_])(\d{1,3}(?:[,_]\d{3}){1,3}|\d{3,12})(?: (?:rows|samples|records|points|cells|users|items|vectors))?"
    r" ?[x\u00d7] ?(\d{1,3}(?:[,_]\d{3}){1,2}|\d{2,9})\b(?! ?(?:px|epochs|steps|iterations|times))"
)
# "cube float64 33.2 GB", "dataset: 41 GiB"
_SIZE_OF_DATA: Final = late(
    r"(?i)\b(?:array|cube|matrix|data ?set|data ?frame|table|volume|stack|grid|tensor|corpus|(?:float|int)(?:32|64))\b"
    r"[^\n\d]{0,40}(?<![\d.])(?P<size>\d{1,6}(?:\.\d{1,3})?)\s?(?P<unit>[KMGT]i?B)\b(?!\s?/s)"
)
_OF_INPUT: Final = late(
    r"(?i)\b\d[\d,_]{2,15} (?:\w{1,12} ){0,2}(?:line|row|record|key|entr(?:y|ie)|item|word|url|k-?mer|read|document"
    r"|id)s?\b"
)
_ROLLOUT: Final = r"(?i)\brollout_?buffers?\b"
_GROUPS: Final = (16, 8)
_LEAST_BUCKETS: Final = 2**14
# It holds what it was given until the end: a part of the keys at a time, or less of each
_OF_A_HASH_TABLE: Final = ("smaller-partitions", "narrow-dtypes", "spill-to-disk", "more-host-memory")
# Most cells of its table are empty, and each value has a column
_OF_AN_ENCODING: Final = ("narrow-dtypes", "smaller-partitions", "smaller-input", "stream-data", "more-host-memory")
_WORK: Final = ("unknown", "launch", "data_load", "rollout")  # stages: nothing else is known to fill the memory


@sign
def a_buffer_was_filling(crash: Crash) -> Seen | None:
    """The job was killed, and its last prints count what a buffer, a queue or a cache of data holds: more each time, or
    in words that say that it fills. Where it has no bound, it leaks."""
    held = buffer_of(crash)
    if held is None or unbounded_cache(crash) is not None:
        return None
    words = (
        say("The {what} had just been filled: it held {count:,}.", what=held.what, count=held.count)
        if held.is_full
        else say("At the last print the {what} held {count:,} of {total:,}, and it was still filling.", what=held.what,
            count=held.count, total=held.total)
        if held.total
        else say("At the last print the {what} held {count:,}, and it was still growing.", what=held.what,
                 count=held.count)
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,), stage=_stage(crash))


@sign
def a_rollout_was_refused(crash: Crash) -> Seen | None:
    """The array is the buffer of one rollout, which no batch is a part of."""
    refused = isinstance(crash.root, HostAllocation) and crash.in_trace(_ROLLOUT) is not None
    return Seen(words="") if refused else None


@sign
def things_were_collected(crash: Crash) -> Seen | None:
    """The job was killed for memory, or refused it, and its last prints count what it has loaded, decoded or collected:
    more each time."""
    held = collected_things(crash)
    if held is None:
        return None
    if held.total:
        words = say("At the last print the job had {what} {count:,} of {total:,}.", what=held.what, count=held.count,
                    total=held.total)  # fmt: skip
    else:
        words = say("At the last print the job had {what} {count:,}.", what=held.what, count=held.count)
    return Seen(words=words, evidence=(crash.root,), stage=_stage(crash))


@sign
def a_table_was_made_whole(crash: Crash) -> Seen | None:
    """The job was killed for memory, or ended with a refusal and without a traceback, and its last line speaks of a
    join, a pivot or a dense matrix."""
    if not (_was_killed(crash) or _ended_without_a_trace(crash)) or not crash.proven:
        return None
    last = next(iter(own_lines(crash)), "")
    match = _MADE_WHOLE.search(last)
    if match is None or _OF_A_MODEL.search(last) is not None:
        return None
    words = say(
        "The last line before the end speaks of this step: {what}. Its result is made whole in memory.",
        what=match["what"].lower(),
    )
    knobs = IN_BLOCKS if _OF_PAIRS.search(match["what"]) is not None else ()
    return Seen(words=words, evidence=(crash.root,), stage=_stage(crash), knobs=knobs)


@sign
def a_table_beyond_the_limit(crash: Crash) -> Seen | None:
    """The job was killed at a limit or on a full machine, and one of its last lines prints the shape of a table that
    takes more than that as one array, or that its data are larger."""
    limit = memory_in_all(crash)
    if limit is None or not _was_killed(crash) or not crash.proven or budget_beyond_the_limit(crash) is not None:
        return None
    lines = [line for line in islice(own_lines(crash), LAST) if _OF_A_MODEL.search(line) is None]
    shaped = next((told for line in lines for told in _tables(line) if told[1] > limit), None)
    if shaped is not None:
        shape, taken, dtype = shaped
        words = say(
            "The log names a table of shape {shape}: as an array of {dtype} it takes {size}, and there are "
            "{limit} in all.",
            shape=shape, dtype=dtype, size=show(taken), limit=show(limit),
        )  # fmt: skip
        return Seen(words=words, evidence=(crash.root,), stage=_stage(crash))
    data = max((_data_told(line) for line in lines), default=0)
    if data <= limit:
        return None
    words = say("The job prints data of {size}, and there are {limit} in all.", size=show(data), limit=show(limit))
    return Seen(words=words, evidence=(crash.root,), stage=_stage(crash))


def _tables(line: str) -> Iterator[tuple[str, int, str]]:
    """The shapes that a line prints, what each takes, and the type of its numbers."""
    width, dtype = type_of_numbers(line) or LEAST_TYPE
    for match in _SHAPE.finditer(line):
        yield match[0], prod(int(length) for length in _LENGTH.findall(match[0])) * width, dtype
    for match in _ROWS_AND_COLUMNS.finditer(line):
        yield match[0], number(match[1]) * number(match[2]) * width, dtype


def _data_told(line: str) -> int:
    match = None if _ELSEWHERE.search(line) else _SIZE_OF_DATA.search(line)
    return (size(match["size"], match["unit"]) or 0) if match is not None else 0


@sign
def an_encoded_table_is_large(crash: Crash) -> Seen | None:
    """The job was killed, its last lines say how many columns an encoding makes and how many rows there are, and the
    table takes 1 GiB or more, or half of the limit or machine where that is known."""
    table, limit = large_encoded_table(crash), memory_in_all(crash)
    if table is None:
        return None
    kind = table.dtype or say("at least {width} bytes each, for nothing prints the type", width=table.width)
    words = say(
        "The last lines tell of a table with a column for each value ({encoding}): {formula} = {size} ({dtype}).",
        encoding=table.encoding, formula=table.formula, size=show(table.bytes), dtype=kind,
    )  # fmt: skip
    beyond = say("There are {limit} in all.", limit=show(limit)) if limit is not None else ""
    against = () if crash.proven else (_unseen(),)
    return Seen(
        words=joined((words, beyond)),
        evidence=(crash.root,),
        against=against,
        stage=_stage(crash),
        knobs=_OF_AN_ENCODING,
    )


def large_encoded_table(crash: Crash) -> Table | None:
    """The table that an encoding was to make of a job that was killed, where it is large."""
    table, limit = encoded_table(crash) if _was_killed(crash) else None, memory_in_all(crash)
    if table is None or table.bytes < (limit * HALF if limit is not None else LARGE):
        return None
    return table


@sign
def data_were_being_read(crash: Crash) -> Seen | None:
    """The job was killed for memory, and the last thing that it printed is a bar of reading data, not at its end."""
    return _in_a_bar_of_reading(crash) if crash.proven else None


@sign
def killed_in_the_middle_of_reading(crash: Crash) -> Seen | None:
    """The job got a SIGKILL for no printed reason, and the last thing that it printed is a bar of reading data, not at
    its end."""
    return _in_a_bar_of_reading(crash) if _was_killed_bare(crash) else None


@sign
def the_data_fill_the_address_space(crash: Crash) -> Seen | None:
    """A process was refused memory whose address space is limited, and its last prints say that the data which it has
    read take a quarter of that or more."""
    limit = address_limit(crash) if isinstance(crash.root, HostAllocation) and crash.stage in _WORK else None
    sizes = (_size_read(line) for line in islice(own_lines(crash), LAST)) if limit else ()
    held = next((one for one in sizes if one is not None), None)
    if limit is None or held is None or not _GOOD_PART * limit <= held <= limit:
        return None
    words = say(
        "By its last prints the job had {held} of data in memory, {share} of the {limit} that its address space may "
        "have; what is made of them comes on top.",
        held=show(held), share=percent(held / limit), limit=show(limit),
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,), stage=_stage(crash))


def _size_read(line: str) -> int | None:
    """Of data in memory, as a line prints it."""
    match = _READ_SIZE.search(line)
    if match is None or _ELSEWHERE.search(line) or _OF_A_MODEL.search(line):
        return None
    return size(match["size"], match["unit"])


@sign
def a_hash_table_was_to_grow(crash: Crash) -> Seen | None:
    """A program in Rust was refused an allocation of exactly the size of a hash table."""
    table, refused = hash_table_of(crash), crash.root
    if table is None:
        return None
    words = say(
        "{size} is what a hash table of {buckets:,} buckets of {width} bytes takes (Rust's HashMap or HashSet). Such a "
        "table doubles when it is full, and the old one stays until its entries have moved.",
        size=show(table.bytes), buckets=table.buckets, width=table.width,
    )  # fmt: skip
    return Seen(words=words, evidence=(refused,), stage=_stage(crash), knobs=_OF_A_HASH_TABLE)


@sign
def a_hash_table_holds_the_input(crash: Crash) -> Seen | None:
    """The last prints count what such a table takes in: it grows until the input ends, and leaks nothing."""
    if hash_table_of(crash) is None or not any(_OF_INPUT.search(line) for line in islice(own_lines(crash), LAST)):
        return None
    return Seen(words="")


class HashTable(NamedTuple):
    """A table of hashbrown's, which Rust's standard library has since 1.36."""

    bytes: int
    buckets: int
    width: int  # of an entry, in bytes


def hash_table_of(crash: Crash) -> HashTable | None:
    """src/raw/mod.rs of hashbrown 0.15, `calculate_layout_for`: a power of two of entries, a byte for each, and those
    of one group, which are 16 or 8. Entries with pointers or numbers in them have an even width."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.allocator != "rust" or not root.tried_bytes:
        return None
    sizes = (root.tried_bytes - group for group in _GROUPS)
    size = next((one for one in sizes if one > 0 and one % _LEAST_BUCKETS == 0), None)
    if size is None:
        return None
    buckets = size & -size
    width = size // buckets - 1
    return HashTable(root.tried_bytes, buckets, width) if width > 0 else None


def _in_a_bar_of_reading(crash: Crash) -> Seen | None:
    bar = crash.doing.because
    if crash.stage != "data_load" or not isinstance(bar, str) or not _was_killed(crash):
        return None
    done = list(_BAR.finditer(bar))
    if not done or int(done[-1]["done"]) >= int(done[-1]["all"]):
        return None
    words = say("The last line before the end reads data: {done} of {all}.", done=done[-1]["done"], all=done[-1]["all"])
    return Seen(words=words, evidence=(crash.root,))


@sign
def refused_at_a_file(crash: Crash) -> Seen | None:
    """A library in C++ or Rust was refused memory and ended the job, whose last lines name a file of rows."""
    lines = list(islice(own_lines(crash), _NEAR_THE_END))
    if not _ended_without_a_trace(crash) or any(PROGRESS.search(line) or _OF_A_MODEL.search(line) for line in lines):
        return None
    match = next((found for line in lines if (found := _FILE_OF_ROWS.search(line)) is not None), None)
    if match is None:
        return None
    words = say("The last lines before the end name a file of data ({file}), and no other work.", file=match["file"])
    return Seen(words=words, evidence=(crash.root,), stage=_stage(crash))


@sign
def killed_bare_at_a_file(crash: Crash) -> Seen | None:
    """The job got a SIGKILL for no printed reason, and its last line says that it reads a file of data."""
    last = next(iter(own_lines(crash)), "")
    match = _READS_A_FILE.search(last)
    if not _was_killed_bare(crash) or match is None or _OF_A_MODEL.search(last) is not None:
        return None
    words = say("The last line before the end reads a file of data ({file}).", file=match["file"])
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=_stage(crash))


@sign
def killed_bare_at_a_prompt(crash: Crash) -> Seen | None:
    """The job got a SIGKILL for no printed reason, and what had been typed last reads data: nothing else ran."""
    last = next((line for line in reversed(crash.root.around.before) if line.strip()), "")
    typed = source(last)
    if not _was_killed_bare(crash) or not typed or crash.stage != "data_load" or typed != crash.doing.because:
        return None
    if _IN_PIECES.search(typed) is not None:
        return None
    call = _CALL.search(typed)
    words = (
        say("The last command before the end reads data ({call}).", call=call[0])
        if call is not None
        else say("The last command before the end reads data.")
    )
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage="data_load")


@sign
def killed_bare_among_tables(crash: Crash) -> Seen | None:
    """The job got a SIGKILL for no printed reason, and what it printed is of tables: the release of a library for them,
    or rows."""
    if not _was_killed_bare(crash) or any(PROGRESS.search(line) for line in own_lines(crash)):
        return None
    if not any(_OF_TABLES.search(line) for line in own_lines(crash)):
        return None
    words = say("The job works on tables, which its library keeps in memory whole, with what is made of them.")
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=_stage(crash))


@sign
def killed_bare_in_a_program_that_reads_all(crash: Crash) -> Seen | None:
    """A program that works on all of its data at once got a SIGKILL for no printed reason."""
    if not _was_killed_bare(crash) or not some(crash.job.frameworks, "reads all at once"):
        return None
    words = say("The program keeps all of its input in memory, and what it makes of it.")
    return Seen(words=words, evidence=(crash.root,), against=(_unseen(),), stage=_stage(crash))


@sign
def killed_bare_at_its_data(crash: Crash) -> Seen | None:
    """One of the four is seen."""
    signs = (
        killed_bare_at_a_prompt,
        killed_bare_at_a_file,
        killed_bare_in_a_program_that_reads_all,
        killed_bare_among_tables,
    )
    return next((found for one in signs if (found := one(crash)) is not None), None)


def _was_killed_bare(crash: Crash) -> bool:
    return killed_bare(crash) and _was_killed(crash)


def _unseen() -> str:
    return say("no line shows how much memory was in use")


@sign
def the_prints_say_what_was_filled(crash: Crash) -> Seen | None:
    """One of the signs above is seen, or a cache that grows: without a bound, or with one beyond what there is."""
    shown = (
        an_unbounded_cache_grows,
        a_buffer_was_filling,
        things_were_collected,
        a_table_beyond_the_limit,
        an_encoded_table_is_large,
        a_table_was_made_whole,
        data_were_being_read,
        arrays_by_its_prints_fill_it,
        prompts_filled_the_limit,
    )
    return Seen(words="") if any(one(crash) is not None for one in shown) else None


def collected_things(crash: Crash) -> Held | None:
    """What it has loaded, decoded or collected at the last print."""
    ended = _was_killed(crash) or (isinstance(crash.root, HostAllocation) and crash.stage in _WORK)
    return growing(crash, _COLLECTED, _FILLING) if ended and crash.proven else None


def buffer_of(crash: Crash) -> Held | None:
    """The buffer that was filling, and how much it held at the last print."""
    if not _was_killed(crash):
        return None
    held = growing(crash, _HOLDER, _FILLING)
    if held is None or held.total is None or not is_told_last(own_lines(crash), _FILLED, (_HOLDER,)):
        return held
    return Held(held.what, held.total, held.total)


def _stage(crash: Crash) -> str | None:
    return "data_load" if crash.stage == "unknown" else None


def _was_killed(crash: Crash) -> bool:
    """For host memory or for a reason that nobody printed, alone, and while nothing else is known to fill it."""
    if crash.pool not in (*RAM, "none") or not isinstance(crash.root, KernelKill | LimitKill | Kill):
        return False
    return crash.stage in _WORK and several_alike_have_it(crash) is None


def _ended_without_a_trace(crash: Crash) -> bool:
    """A library in C++ or Rust was refused memory and ended the process at once."""
    root = crash.root
    traced = any(frame.file for frame in root.around.trace)  # a line of code alone may be the program's own print
    return isinstance(root, HostAllocation) and not traced and crash.stage in _WORK


__all__ = [
    "HashTable",
    "a_buffer_was_filling",
    "a_hash_table_holds_the_input",
    "a_hash_table_was_to_grow",
    "a_rollout_was_refused",
    "a_table_beyond_the_limit",
    "a_table_was_made_whole",
    "an_encoded_table_is_large",
    "buffer_of",
    "collected_things",
    "hash_table_of",
    "killed_bare_among_tables",
    "killed_bare_at_a_file",
    "killed_bare_at_a_prompt",
    "killed_bare_at_its_data",
    "large_encoded_table",
    "refused_at_a_file",
    "the_data_fill_the_address_space",
    "the_prints_say_what_was_filled",
    "things_were_collected",
]
