"""What the job was doing with host memory: data, weights, checkpoints."""

from __future__ import annotations

from typing import Final

from oomdoctor.causes.host import LARGE, asked_for
from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import SIGKILL, Kill, RankFailure
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.ollama import Short
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.units import show, size

_READING: Final = (
    r"\bdatasets/|load_dataset|arrow_dataset|pyarrow/|pandas/|read_(?:csv|parquet|json|pickle)|numpy/lib/npyio"
    r"|\btokenize_|\btokeni[sz]e\w*\(|preprocess_dataset|get_dataset\b|build_dataset|cache_images|load_image|imread"
    r"|torch/utils/data|DataLoader|dask/"
)
_READING_LINE: Final = (
    r"(?i)caching images|running tokenizer|tokenizing|\bmap \(num_proc|\bmap:|generating \w+ split|loading dataset"
    r"|filter \(num_proc|packing dataset|grouping texts|converting format of dataset|preprocessing dataset"
    r"|abruptly died during map"
)
_CACHED: Final = late(r"\((\d{1,6}(?:\.\d{1,3})?)\s?([KMGT]i?B) (?:ram|RAM)")
_PROCESSES: Final = late(r"\bnum_proc=(\d{1,5})\b")
_TABLE: Final = late(r"\((\d{1,12}), ?(\d{1,12})\)")
# The columns of a table that is rather mostly empty than a matrix of the model.
FEATURES: Final = 1000
# Processes, each with its own batches and interpreter: so many fill a machine.
MANY: Final = 64

_LOADING: Final = (
    r"\bfrom_pretrained\b|_load_pretrained_model|load_state_dict|torch\.load|safe_open|\bload_file\b|_load_state_dict_into"
    r"|safetensors|\bload_checkpoint\b|load_checkpoint_and_dispatch|weight_utils\.py|model_loader"
)
_LOADING_LINE: Final = (
    r"Loading (?:\w{1,20} )?checkpoint shards|Loading safetensors|Loading model weights|Starting to load model"
    r"|from_pretrained\(|Loading weights|llama_model_load|load_tensors:|Loading model\b|Loading pipeline components"
)
_UP_TO_LOADING: Final = frozenset({"model_load", "unknown", "launch", "engine_init"})
_PARTS: Final = {"weights": mark("weights"), "kv": mark("kv"), "compute": mark("compute")}

# Frames that build or move a whole state, the innermost names first looked for.
_SAVING: Final = (
    r"_?save_checkpoint\b|save_pretrained|\bsave_model\b|_save_zero|save_16bit|torch/serialization.{0,40}\bsave\b"
    r"|_zero3_consolidated_16bit_state_dict|full_state_dict|FullStateDict|_gather_state_dict|_full_post_state_dict_hook"
    r"|_optim_state_dict|\bstate_dict\b.{0,80}fsdp|fsdp.{0,80}\bstate_dict\b|zero_to_fp32|get_fsdp_full_state_dict"
    r"|dist_checkpointing|dcp\.save|FSDPCheckpointManager|safetensors.{0,40}save_file"
)
# Not "resume_from_checkpoint": it is an argument of every training run's outermost frame.
_RESUMING: Final = r"_?load_checkpoint\b|_load_from_checkpoint|_load_optimizer|load_optimizer_states|dcp\.load"
_SAVING_LINE: Final = (
    r"(?i)saving (?:model |training |optimizer )?(?:checkpoint|state)|save_checkpoint|local_global_step_folder"
    r"|\[_save_checkpoint|global_step_\d+|_zero3_consolidated|saving model"
)
_STATE_DICT_ENTRY: Final = r"Failed to clone\(\) tensor with name .{0,200}state_dict"


@sign
def data_is_cached_in_memory(crash: Crash) -> Seen | None:
    """A line near the failure says how much data is cached in RAM."""
    line = crash.mentions(_READING_LINE)
    cached = _CACHED.search(line) if line is not None else None
    if cached is None:
        return None
    held = show(size(cached[1], cached[2]) or 0)
    words = say("Data is cached in memory, {held} of it when the next allocation failed.", held=held)
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, stage="data_load")


@sign
def memory_ran_out_at_a_line_on_data(crash: Crash) -> Seen | None:
    """Memory ran out, and a line near it speaks of data that is read or tokenised."""
    if not crash.proven or crash.mentions(_READING_LINE) is None:
        return None
    return _while_reading(crash)


@sign
def memory_ran_out_while_reading_data(crash: Crash) -> Seen | None:
    """Memory ran out while the job was reading its data."""
    return _while_reading(crash) if crash.proven and crash.stage == "data_load" else None


@sign
def many_readers_and_one_vanished(crash: Crash) -> Seen | None:
    """64 processes prepare the data, and one of them was killed or vanished: what shows that memory ran out."""
    line = crash.mentions(_PROCESSES.pattern) if crash.mentions(_READING_LINE) is not None else None
    many = _PROCESSES.search(line) if line is not None else None
    if crash.proven or many is None or int(many[1]) < MANY:
        return None
    return _while_reading(crash, shows_memory=True)


@sign
def vanished_at_a_line_on_data(crash: Crash) -> Seen | None:
    """Something was killed or vanished, and a line near it speaks of data that is read or tokenised."""
    if crash.proven or crash.mentions(_READING_LINE) is None:
        return None
    return _while_reading(crash)


@sign
def vanished_while_reading_data(crash: Crash) -> Seen | None:
    """Something was killed or vanished while the job was reading its data."""
    return _while_reading(crash) if not crash.proven and crash.stage == "data_load" else None


def _while_reading(crash: Crash, *, shows_memory: bool = False) -> Seen:
    asked, in_a_worker = asked_for(crash), crash.first(Kill) is not None
    if crash.proven and in_a_worker:
        words = say(
            "Memory ran out while data was loaded or tokenised in one of several worker processes{asked}.", asked=asked
        )
    elif crash.proven:
        words = say("Memory ran out while data was loaded or tokenised{asked}.", asked=asked)
    elif in_a_worker:
        words = say(
            "A process was killed or vanished while data was loaded or tokenised in one of "
            "several worker processes{asked}.",
            asked=asked,
        )
    else:
        words = say("A process was killed or vanished while data was loaded or tokenised{asked}.", asked=asked)
    return Seen(words=words, evidence=(crash.root,), shows_memory=shows_memory, stage="data_load")


@sign
def a_wide_table_was_refused(crash: Crash) -> Seen | None:
    """1 GiB was refused for a table of 1000 columns, twice as many of one side as of the other at least."""
    table = next((event for event in crash.every(HostAllocation) if _is_wide(event)), None)
    if table is None:
        return None
    words = say(
        "A table of {shape} numbers was to be held in memory in one piece{asked}: data of "
        "this shape is mostly empty, or need not be there all at once.",
        shape=table.shape,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(table,), stage="data_load" if crash.stage == "unknown" else None)


def _is_wide(event: HostAllocation) -> bool:
    """Many rows of many columns, and not as many of one as of the other (that is a matrix of all pairs)."""
    match = _TABLE.fullmatch(event.shape or "")
    if match is None or (event.tried_bytes or 0) < LARGE:
        return False
    rows, columns = int(match[1]), int(match[2])
    return min(rows, columns) >= FEATURES and max(rows, columns) >= 2 * min(rows, columns)


@sign
def refused_while_reading_data(crash: Crash) -> Seen | None:
    """A frame that reads data made the allocation that was refused."""
    frame = crash.in_trace(_READING)
    if frame is None or crash.first(HostAllocation) is None:
        return None
    words = say(
        "The refused allocation was made while reading data ({function}){asked}.",
        function=frame.function,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), stage="data_load")


@sign
def more_of_the_model_than_the_host_has(crash: Crash) -> Seen | None:
    """Ollama adds up what the processor's part of the model needs before it starts: more than is available."""
    short = crash.root
    if not isinstance(short, Short) or short.needed_bytes is None or short.free_bytes is None:
        return None
    words = say(
        "The part of the model that stays in host memory needs {needed}, and {free} are available.",
        needed=show(short.needed_bytes),
        free=show(short.free_bytes),
    )
    return Seen(words=words, evidence=(short,))


@sign
def a_part_of_the_model_was_refused(crash: Crash) -> Seen | None:
    """Ollama was refused host memory for a part of the model that it names."""
    short = crash.root
    if not isinstance(short, Short) or short.what not in _PARTS or not short.tried_bytes:
        return None
    words = say(
        "Host memory of {tried} was refused for the {part} that stay with the processor.",
        tried=show(short.tried_bytes),
        part=translated(_PARTS[short.what]),
    )
    return Seen(words=words, evidence=(short,))


@sign
def a_buffer_for_weights_was_refused(crash: Crash) -> Seen | None:
    """llama.cpp was refused the buffer for the weights on the host, and says that it is for them."""
    named = isinstance(crash.root, BufferRefused) and crash.root.what == "weights"
    return _buffer(crash) if named else None


@sign
def a_buffer_on_the_host_was_refused(crash: Crash) -> Seen | None:
    """llama.cpp was refused a buffer on the host and does not say what it was for."""
    nameless = isinstance(crash.root, BufferRefused) and crash.root.what is None
    return _buffer(crash) if nameless else None


def _buffer(crash: Crash) -> Seen:
    usage = crash.root.figures("usage")
    tried = usage.get("tried_bytes") or usage.get("buffer_bytes")
    if tried:
        words = say(
            "Host memory of {tried} was refused for the weights that stay with the processor.", tried=show(tried)
        )
    else:
        words = say("Host memory was refused for the weights that stay with the processor.")
    return Seen(words=words, evidence=(crash.root,))


@sign
def the_kernel_killed_while_loading_weights(crash: Crash) -> Seen | None:
    """The kernel killed for memory while model weights were being loaded."""
    kill = crash.first(KernelKill)
    if kill is None or (crash.stage != "model_load" and crash.mentions(_LOADING_LINE) is None):
        return None
    name, pid, held = kill.process.name or say("The process"), kill.process.pid, kill.anon_rss_bytes
    if held is not None:
        words = say(
            "The kernel killed {name} (PID {pid}) with {held} of its own while model weights were "
            "being loaded: they pass through host memory, once per process that loads them.",
            name=name,
            pid=pid,
            held=show(held),
        )
    else:
        words = say(
            "The kernel killed {name} (PID {pid}) while model weights were being loaded: they "
            "pass through host memory, once per process that loads them.",
            name=name,
            pid=pid,
        )
    return Seen(words=words, evidence=(kill,), stage="model_load")


@sign
def refused_while_loading_weights(crash: Crash) -> Seen | None:
    """A frame that loads weights made the allocation that was refused on the host."""
    refused, frame = crash.first(HostAllocation), crash.in_trace(_LOADING)
    if refused is None or refused.pool != "host_ram" or frame is None:
        return None
    if refused.tried_bytes:
        words = say(
            "Loading weights ({function}) asked for {tried} of host memory and was refused.",
            function=frame.function,
            tried=show(refused.tried_bytes),
        )
    else:
        words = say(
            "Loading weights ({function}) asked for a piece of host memory and was refused.", function=frame.function
        )
    return Seen(words=words, evidence=(refused,), stage="model_load")


@sign
def killed_in_the_middle_of_loading(crash: Crash) -> Seen | None:
    """A bar of loaded weights that is not at its end is the last that was printed before a SIGKILL."""
    if not _killed_at_loading(crash) or (bar := _bar(crash)) is None:
        return None
    done, _, whole = bar.partition("/")
    words = say(
        "The process was killed while it loaded model weights ({done} of {whole} pieces were "
        "in), which passes through host memory.",
        done=done,
        whole=whole,
    )
    return _at_loading(crash, words, shows_memory=True)


@sign
def killed_behind_the_loading(crash: Crash) -> Seen | None:
    """Something was killed, and the last that the log speaks of is the loading of weights."""
    if not _killed_at_loading(crash):
        return None
    words = say("The process was killed while it loaded model weights, which passes through host memory.")
    return _at_loading(crash, words)


def _at_loading(crash: Crash, words: str, *, shows_memory: bool = False) -> Seen:
    return Seen(
        words=words,
        evidence=(crash.root,),
        against=(say("nothing printed shows how much memory there was"),),
        shows_memory=shows_memory,
        stage="model_load",
        next_evidence=("free -h",),
    )


def _killed_at_loading(crash: Crash) -> bool:
    """Whether loading is the last thing the log speaks of: training may have begun since."""
    root = crash.root
    if not isinstance(root, Kill) or crash.stage not in _UP_TO_LOADING or crash.mentions(_LOADING_LINE) is None:
        return False
    return bool(root.around.before or root.at.text)


def _bar(crash: Crash) -> str | None:
    """How far loading had come, where its bar is not at its end."""
    root = crash.root
    reports: tuple[Event, ...] = (root, *crash.every(Kill), *crash.every(RankFailure))
    loaded = next((one.loaded for one in reports if isinstance(one, Kill | RankFailure) and one.loaded), None)
    done, _, whole = (loaded or "").partition("/")
    under_way = isinstance(root, Kill) and root.signal == SIGKILL and loaded and int(done) < int(whole)
    return loaded if under_way else None


@sign
def a_copy_of_a_state_was_refused(crash: Crash) -> Seen | None:
    """FSDP could not clone a tensor of the full state that it gathers to be saved."""
    if crash.mentions(_STATE_DICT_ENTRY) is None:
        return None
    words = say(
        "A full state was gathered on one device to be saved, and cloning a tensor of it was refused{asked}.",
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, stage="checkpoint_save")


@sign
def in_code_that_saves_a_state(crash: Crash) -> Seen | None:
    """A frame saves a state, or gathers it to be saved."""
    frame = crash.in_trace(_SAVING)
    if frame is None:
        return None
    words = say(
        "The job was saving its state ({function}) when memory ran out{asked}: gathering a "
        "full state needs the weights once more, with the optimizer several times as much.",
        function=frame.function,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, stage="checkpoint_save")


@sign
def in_code_that_loads_a_state(crash: Crash) -> Seen | None:
    """A frame loads a state that was saved."""
    frame = crash.in_trace(_RESUMING)
    if frame is None:
        return None
    words = say(
        "The job was loading its state ({function}) when memory ran out{asked}: gathering a "
        "full state needs the weights once more, with the optimizer several times as much.",
        function=frame.function,
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, stage="checkpoint_load")


@sign
def while_a_checkpoint_was_written_or_read(crash: Crash) -> Seen | None:
    """The job was saving or loading a checkpoint; no frame says where."""
    if crash.stage == "checkpoint_load":
        words = say("Memory ran out while a checkpoint was loaded{asked}.", asked=asked_for(crash))
    elif crash.stage == "checkpoint_save":
        words = say("Memory ran out while a checkpoint was saved{asked}.", asked=asked_for(crash))
    else:
        return None
    return Seen(words=words, evidence=(crash.root,), shows_memory=True)


@sign
def a_line_on_a_checkpoint(crash: Crash) -> Seen | None:
    """A line near a failure that memory would explain speaks of a checkpoint."""
    if crash.root.strength < 1 or crash.mentions(_SAVING_LINE) is None:
        return None
    words = say("The last lines before the failure speak of a checkpoint.")
    unseen = say("no frame shows that the job was in it when memory ran out")
    return Seen(words=words, evidence=(crash.root,), against=(unseen,))
