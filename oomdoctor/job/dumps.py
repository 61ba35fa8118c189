"""Where settings stand in a log: launch lines, printed configurations, tables, lines that state one of them."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.job import launch, own_pairs, printed_back
from oomdoctor.job.literals import Entry, entries, strings, typed
from oomdoctor.job.model import Setting, Value
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

DUMP_LINES: Final = 900
DUMP_CHARACTERS: Final = 160_000
MOST_DUMPS: Final = 256
MOST_ROWS: Final = 300  # of a table
MOST_OWN: Final = 32  # settings of a program of one's own: a model's configuration has more

# Settings that are worth reading wherever a line states them with their value.
KNOWN: Final = (
    "gpu_memory_utilization", "mem_fraction_static", "max_model_len", "max_seq_len", "max_num_seqs",
    "max_num_batched_tokens", "tensor_parallel_size", "tensor_model_parallel_size", "pipeline_parallel_size",
    "distributed_executor_backend",
    "swap_space", "enforce_eager", "free_cache_engine", "enable_sleep_mode", "zero_stage", "zero_optimization_stage",
    "gradient_checkpointing", "activation_checkpointing", "micro_train_batch_size", "micro_rollout_batch_size",
    "per_device_train_batch_size",
    "per_device_eval_batch_size", "gradient_accumulation_steps", "eval_accumulation_steps",
    "ppo_micro_batch_size_per_gpu", "ppo_mini_batch_size", "train_batch_size", "rollout_batch_size",
    "micro_batch_size", "train_microbatch_size", "max_length", "max_seq_length",
    "max_new_tokens", "max_tokens", "max_prompt_length", "max_response_length", "max_completion_length", "cutoff_len",
    "sequence_len", "num_workers", "num_proc", "world_size", "num_local_procs",
    "nnodes", "n_gpus_per_node", "nproc_per_node", "infer_tp",
    "adam_offload", "param_offload", "optimizer_offload", "cpu_offload_gb", "kv_cache_dtype", "context_length",
    "chunked_prefill_size", "enable_chunked_prefill", "no_enable_chunked_prefill", "chunked_prefill_enabled",
    "max_running_requests", "max_total_tokens", "page_size", "load_in_4bit",
    "load_in_8bit", "pin_memory", "max_pixels", "MAX_PIXELS",
    "max_batch_prefill_tokens", "max_batch_total_tokens", "max_input_length", "max_input_tokens", "num_shard",
    "shm_size", "num_gpus", "num_cpus", "n_ctx", "batch_size", "num_envs", "torch_dtype",
    "CUDA_VISIBLE_DEVICES", "RAY_memory_usage_threshold", "RAY_memory_monitor_refresh_ms", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE",
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "VLLM_USE_V1",
)  # fmt: skip
# What a shell script names the size of its batches, on a line of its own
_VARIABLES: Final = ("BS=", "BSZ=", "BATCH_SIZE=", "BATCHSIZE=")
_VARIABLE: Final = late(
    r"\s{0,8}(?:export )?(?P<name>(?:MICRO_)?(?:BS|BSZ|BATCH_?SIZE))=(?P<quote>[\"']?)(?P<value>\d{1,6})(?P=quote)"
    r"\s{0,8}(?:#[^\n]{0,200})?\Z"
)
_KNOWN_NAMES: Final = "|".join(name.replace("_", "[_-]") for name in KNOWN)
# Some(8) is an option of a Rust program that is set
_KNOWN_STATED: Final = late(
    rf"(?P<quote>[\"'`]?)(?P<name>(?<![\w.\-])[\w.\-]{{0,60}}?(?:{_KNOWN_NAMES}))(?P=quote)\s{{0,12}}[=:]\s?(?:Some\()?"
    r"(?P<value>\"[^\"]{0,200}\"|'[^']{0,200}'|[+-]?\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,3})?(?!\.?\d|\w)"
    r"(?!(?:(?<=[A-Z]=\d)|(?<=[A-Z]=\d\d)),\d)"
    r"|True\b|False\b|None\b|true\b|false\b|null\b|(?<=[A-Z]=)[\w:,.]{1,100})"
)
# "try setting X=...", "(e.g., X=0.8)", "  1. Lower X: load(..., X=0.6)": printed advice states no setting.
_ADVICE: Final = late(
    r"\b(?:try|trying|consider|recommend\w*|suggest\w*|should|please|instead|e\.g\.|for example|default(?:s|ed)? to"
    r"|(?:setting|use) PYTORCH\w{0,40}|equivalent to|avoid fragmentation|set ['\"`]\w{1,60})\b"
    r"|^\W{0,8}(?:\d{1,2}[.)] ?)(?:lower|reduce|decrease|increase|raise|disable|enable|use|set|add|remove|pass)\b",
    re.IGNORECASE,
)

# src/llama-model-loader.cpp: what a GGUF file says of its model, "- kv   3:  llama.context_length u32  = 4096"
_OF_A_MODEL_FILE: Final = late(r"- kv {1,4}\d{1,4}: {1,60}[\w.-]{1,80} {1,60}(?:[uif]\d{1,2}|str|bool|arr)\b")
# What PyTorch ends its message with (c10/cuda/CUDACachingAllocator.cpp since 1.10), within lines of others
_HINT: Final = late(r"If reserved .{1,60}? try setting .{1,120}? to avoid fragmentation\b")

_DUMP: Final = late(r"\s*(?:[\w .\-\"]{0,60}[:=]\s*)?\{(?:\s*$|\s*['\"])")
_RENDERED: Final = late(r"\b(?:[A-Z]\w{0,60}(?:Args|Arguments|Config)|(?:argparse\.)?Namespace)\(")
_NO_VALUE: Final = late(r"\s{0,40}(?:-(?![\d.])|\\|\Z)")  # behind a switch comes another option or the line's end
_OF_ARGPARSE: Final = "Namespace("  # a program's own options, whoever wrote it
_DOTTED: Final = late(r"(?:^|\]\s)\s{0,40}([a-z_][a-z0-9_]{0,80}) \.{2,80} (.{0,300})$")
_TWO_COLUMNS: Final = late(r"\s*([A-Za-z_]\w{0,80})\s{2,80}(\S.{0,300})$")
# tabulate, DuckDB's shell, rich, psql; where all lines of a page stand in a box, its sides are gone
_HEAD_OF_SETTINGS: Final = late(
    r"\s{0,20}[|│┃]?\s{0,80}(?:config(?:uration)?|(?:hyper[- ]?)?param(?:eter)?s?|(?:arg(?:ument)?|option|setting|name"
    r"|key|flag)s?)\s{0,80}[|│┃]\s{0,80}(?:value|setting)s?\s{0,80}[|│┃]?\s{0,4}\Z",
    re.IGNORECASE,
)
_TWO_CELLS: Final = late(
    r"\s{0,20}[|│┃]?\s{0,80}([A-Za-z_][\w.]{0,80})\s{0,80}[|│┃]\s{0,80}([^\s|│┃][^|│┃\n]{0,300}?)\s{0,200}[|│┃]?\s{0,4}\Z"
)
_RULES: Final = " |+-=:─━═│┃┌┐└┘├┤┬┴┼┏┓┗┛┡┩╇╈╞╡╪╭╮╰╯╶╴"
_YAML: Final = late(r"(\s{0,40})(?:- )?([A-Za-z_][\w.\-]{0,80}):(?:\s+(\S.{0,200}))?\s{0,4}$")
_OVERRIDE: Final = late(
    r"\b(?:Override|Set args\.|Overriding) ?(?P<by>\w{1,80})(?: from \S{1,80})?(?: with \w+=| to )(?P<to>\S{1,100})"
    r"|\b(?P<left>\w{1,80}) already set by user to (?P<at>[^\s,]{1,100})"
)
# ultralytics/engine/trainer.py and utils/callbacks; yolov5/utils/general.py, print_args
_PAIRS: Final = late(r"[^\w]{0,12}(?:engine/\w{3,12}|train|val|detect)\W{1,8}(?=\w{1,40}=)")
_PAIR: Final = late(r"(?:^|, )([a-z]\w{0,40})=((?:(?!, [a-z]\w{0,40}=).){0,200})")
FEWEST_PAIRS: Final = 4
LONGEST_PAIRS: Final = 4000  # characters
_BANNER: Final = late(
    r"(Num examples|Num Epochs|[Gg]radient [Aa]ccumulation steps"
    r"|Total optimization steps|Total (?:training )?steps|Using max model len|Number of trainable parameters"
    r"|Total [Pp]arameters)(?: ?/ ?[^\W\d][^\d=:\n]{0,23})?\s?[=:]?\s?"
    r"([\d,]{1,18})(?![\d.,]{0,12} ?[BMK]\b)"
)
# "64 train batches of size 36", "Batch size per device = 2", "using a batch size of 16"; kohya-ss/sd-scripts 0.8 has
# the same in Japanese behind a stroke (train_network.py). A size that goes on is another figure: "8.5", "32x32",
# "8 GiB"
_OF_BATCHES: Final = late(
    r"(?i)(?<![\w.-])(?:(?P<of>train(?:ing)?|eval(?:uation)?|test(?:ing)?|val(?:idation)?|global|total|effective"
    r"|micro|mini|rollout)[ _-]?)?batch(?:es of size|[ ]size)(?P<each> per (?:device|gpu|core|replica))?"
    r"(?: ?/ ?[^\W\d][^\d=:\n]{0,23})?(?: is| of)?\s?[=:]?\s?(?P<size>[1-9]\d{0,5})(?![\w.]?\d|[x/*]| ?[KMG]i?B\b)"
)
# mpirun(1) of Open MPI and MPICH, srun(1) of Slurm, horovodrun: the program's own options come behind its name
_RANKS: Final = late(
    r"(?:^|[$#>/\s])(?P<flag>(?P<by>mpirun|mpiexec|srun|horovodrun)"
    r"(?: --?[a-z][\w-]{0,40}(?:[ =](?!-)[\w:./,]{1,60})?){0,8}? -np?) (?P<count>[1-9]\d{0,4})(?=\s|$)"
)
_OF_AN_ENGINE: Final = late(r"(?i)\b(?:vllm|sglang|generat\w{1,6}|roll-?outs?|serving)\b")  # whose batches are requests
_SAME_BATCH: Final = ("", "train", "training", "micro", "mini")
CALL_CHARACTERS: Final = 300
_ENDS_AN_ARGUMENT: Final = late(r"\s{0,4}[,)]")
_CALLED: Final = late(r"[A-Za-z_][\w.]{0,80}\Z")
# What Chainer's examples print of their options: "# Minibatch-size: 100"; and what Dorado chooses or is told (0.1 on)
_OF_A_SIZE: Final = late(
    r"^\s{0,4}# (?P<name>[A-Z][a-z]{2,20}[ -][Ss]ize): (?P<size>\d{1,9})\s{0,4}$"
    r"|- (?P<batch>selected batchsize|set batch size(?: for \S{1,20})? to) (?P<chosen>\d{1,9})\s{0,4}$"
)
# Python's list of a command's words: a program, a script or a flag comes first.
_WORDS_LISTED: Final = late(
    r"\[\s{0,4}['\"](?:(?:[^'\"\s]{0,200}/)?(?:python[\d.]{0,6}|torchrun|deepspeed|accelerate|uv)|[^'\"\s]{1,200}\.py"
    r"|--[a-z][\w-]{1,60}(?:=[^'\"]{0,200})?)['\"]\s{0,4},"
)
_LISTS: Final = ("overrides: [", "Command '[")
# transformers counts what it is given against what the model was made for
_TOO_LONG: Final = late(r"maximum sequence length for this model \((\d{1,9}) > (\d{1,9})\)")

# Keys of LLaMA-Factory's YAML file, which has no sections: src/llamafactory/hparams
_FLAT_KEYS: Final = (
    "finetuning_type", "enable_liger_kernel", "disable_gradient_checkpointing", "use_unsloth_gc", "flash_attn",
    "deepspeed", "quantization_bit",
)  # fmt: skip
_FLAT: Final = late(rf"(?P<name>{'|'.join(_FLAT_KEYS)}): {{1,8}}(?P<value>[\w./-]{{1,200}})\s{{0,8}}(?:#.*)?\Z")
# llm/server.go of Ollama, LoadRequest, 0.11 to 0.30: flash attention was true or false at first
_OF_OLLAMAS_RUNNER: Final = late(
    r"\brequest=\"\{Operation:\w{1,12} LoraPath:.{0,400}?Parallel:(?P<parallel>\d{1,6})"
    r" BatchSize:(?P<batch>[1-9]\d{0,8}) FlashAttention:(?P<attention>\w{1,12}) KvSize:(?P<cache>\d{1,12})"
    r" KvCacheType:(?P<type>\w{0,12})"
)

_OFFLOAD: Final = late(
    r"\boffload_(optimizer|param)(?!_)(?:(?!offload_)[^\n]){1,80}?\bdevice[\"']?\s?[=:]\s?[\"']?"
    r"(?:OffloadDeviceEnum\.)?(cpu|nvme|none)\b"
)
_CPU_OFFLOAD: Final = late(r"\bCPU Offload: True\b")

_METADATA: Final = "'general.architecture'"  # of a GGUF file, which llama_cpp/llama.py prints as a dict
_OF_OTHERS: Final = ('"event_id"', "'loss'", _METADATA)  # an event, a metric, a model
# A dict is a metric, an event or a state, unless it names something that is configured.
_CONFIGURES: Final = late(
    rf"(?:{_KNOWN_NAMES}|actor_rollout_ref|zero_optimization|train_micro_batch_size_per_gpu|model_name_or_path|env_vars"
    r"|learning_rate|episode_limit|limits|['\"]lr['\"])['\"]"
)
_YAML_ROOTS: Final = frozenset({
    "limits", "requests", "resources", "trl", "vllm", "sglang", "actor", "policy", "trainer", "data", "model",
    "zero_optimization", "fsdp_config", "deepspeed_config", "actor_train", "actor_infer", "rollout", "services", "env",
    "environment", "actor_rollout_ref", "algorithm", "critic",
})  # fmt: skip


class Allowance:
    """Lines that the dumps of one page may still be looked for in, all together: where each line opens a bracket that
    never closes, each would be the beginning of a long dump."""

    def __init__(self) -> None:
        self.lines = 500_000


class Here(Struct, frozen=True):
    """One line of a page, to be read."""

    page: Page
    index: int
    text: str
    seen: dict[int, int]  # the dumps read so far and how many lines they have: every rank prints the same one
    allowance: Allowance

    @property
    def line(self) -> Line:
        return self.page.lines[self.index]


class Stated(Struct, frozen=True):
    """A setting, where it stands, and whether the line only mentions it (then a flag or a dump knows better).

    Without a name it only says up to which line a dump goes that was read before.
    """

    name: str
    value: Value
    line: Line
    mentioned: bool = False
    written: str | None = None  # as a launch line spells it, up to its value
    call: str | None = None  # of Python, that takes it as an argument


def command(here: Here, *, continued: bool = False) -> Iterator[Stated]:
    """A shell line that starts a program."""
    for name, value in launch.read_line(here.text, continued=continued):
        yield Stated(name, value, here.line, written=as_written(name, here.text))
    if continued or launch.command_of(here.text):
        within = continued and here.page.lines[here.index - 1].text.rstrip().endswith(",\\")
        for name, value in launch.listed_pairs(here.text, within=within):
            yield Stated(name, value, here.line)


def continuation(here: Here) -> Iterator[Stated]:
    """A line after one that ends in a backslash."""
    yield from command(here, continued=True)


def defaults(here: Here, launched: Mapping[str, Setting]) -> Iterator[Stated]:
    """What the program was not told, and prints with what it was, below its launch line."""
    below = here.page.after(here.index, printed_back.WITHIN)[1:]
    manner = next((one.written for one in launched.values() if one.written and "_" in one.written), "")
    for one in printed_back.defaults(below, launched, here.text):
        yield Stated(one.name, one.value, one.line, written=printed_back.spelled(one, manner))


def as_written(name: str, text: str) -> str | None:
    """argparse takes an option as it was declared alone, with dashes or with underscores; a switch has no value, and
    nothing to stand before one."""
    options = (f"{prefix}{spelled}" for spelled in (name, name.replace("_", "-")) for prefix in ("--", "-"))
    for option in options:
        found = re.search(rf"(?:^\s*|\s){re.escape(option)}(?:=|(?=\s|$))", text)
        if found is not None:
            return option if _NO_VALUE.match(text, found.end()) is not None else f"{option} "
    if re.search(rf"(?:^|\s)-{re.escape(name)}\d", text) is not None:
        return f"-{name}"  # Java's heap: its value is part of the word
    return f"{name}=" if "." in name and f"{name}=" in text else None


def listed_command(here: Here) -> Iterator[Stated]:
    """`overrides: ['data.train_batch_size=16', ...]`, and the words of a command as Python and launchers print them:
    `Command '['python', 'train.py', '--save_steps', '100']' returned ...`."""
    match = _WORDS_LISTED.search(here.text)
    if match is None and not any(words in here.text for words in _LISTS):
        return
    at = match.start() if match else here.text.find("[")
    text = here.text if _closes(here.text, at) else _joined(here)[0]
    words = [word for word, _ in strings(text, at)]
    written = " ".join(words)
    found = launch.read_words(words)
    yield from (Stated(name, value, here.line, written=as_written(name, written)) for name, value in found)


def rendered(here: Here) -> Iterator[Stated]:
    """Namespace(...), ServerArgs(...), TrainingArguments(...) on one line or many."""
    match = _RENDERED.search(here.text)
    if match is None or "with config: " in here.text:
        return
    found = _dump(here, match.end() - 1)
    of_argparse = match[0].endswith(_OF_ARGPARSE)
    yield from (replace(one, written=f"{one.name}=") for one in found) if of_argparse else found


def pairs(here: Here) -> Iterator[Stated]:
    """Ultralytics' and YOLOv5's own line: "engine/trainer: task=detect, batch=16, ...", "train: weights=a.pt, ..."."""
    head = _PAIRS.match(here.text[:LONGEST_PAIRS])
    found = _PAIR.findall(here.text[head.end() : LONGEST_PAIRS]) if head is not None else []
    if len(found) >= FEWEST_PAIRS:
        for name, value in found:
            yield Stated(name, typed(value.strip("'\"")), here.line)


def named_dict(here: Here) -> Iterator[Stated]:
    """`non-default args: {...}`, `kwargs: {...}`."""
    yield from _dump(here, here.text.find("args: {"))


def printed_dict(here: Here) -> Iterator[Stated]:
    """A dict or JSON object, on one line or many, with a configuration's names in it."""
    match = _DUMP.match(here.text)
    if match is None or any(word in here.text for word in _OF_OTHERS):
        return
    at = here.text.index("{")
    if not _is_configured(here):
        return
    text = here.text if _closes(here.text, at) else _joined(here)[0]
    if _CONFIGURES.search(text[:20_000]):
        yield from _dump(here, at)


def _is_configured(here: Here) -> bool:
    """Whether a configuration's name stands in one of the lines that a dump may have: most dicts have none."""
    named = here.page.once(_naming_lines)
    following = bisect.bisect_left(named, here.index)
    # Others' lines may stand between those of a dump.
    return following < len(named) and named[following] - here.index <= 4 * DUMP_LINES


def _naming_lines(page: Page) -> list[int]:
    return [index for index, line in enumerate(page.lines) if _CONFIGURES.search(line.text[:20_000])]


def engine(here: Here) -> Iterator[Stated]:
    """vLLM's `... LLM engine (v0.8.3) with config: model='...', max_seq_len=4096, ...`: no bracket around it."""
    at = here.text.find("with config: ")
    if at >= 0:
        yield from _placed([(0, here.line)], entries(here.text, at + len("with config: "), bare=True))


def dotted(here: Here) -> Iterator[Stated]:
    """`name ....... value`, as Megatron and DeepSpeed print."""
    match = _DOTTED.search(here.text)
    if match and not match[2].lstrip().startswith("["):
        yield Stated(match[1], typed(match[2].strip()), here.line)


def two_columns(here: Here) -> Iterator[Stated]:
    """Open-Reasoner-Zero's table under `--- config key ---   --- value ---`."""
    for line in here.page.after(here.index, 300)[1:]:
        match = _TWO_COLUMNS.match(line.text)
        if match:
            yield Stated(match[1], typed(match[2].strip()), line)
        elif line.text.strip(" -="):
            return


def ruled(here: Here) -> Iterator[Stated]:
    """A table with lines between its columns, whose head says that each row is a setting and its value."""
    if not _HEAD_OF_SETTINGS.match(here.text):
        return
    yield from (Stated(name, typed(value), line) for name, value, line in _rows_below(here, MOST_ROWS, _two_cells))


def _two_cells(text: str) -> tuple[str, str] | None:
    match = _TWO_CELLS.match(text)
    return (match[1], match[2].strip("\"'")) if match is not None else None


def _rows_below(
    here: Here, most: int, read: Callable[[str], tuple[str, str] | None]
) -> Iterator[tuple[str, str, Line]]:
    """The names and values in the lines below, up to one that is neither such a row nor a rule."""
    for line in here.page.after(here.index, most)[1:]:
        found = read(line.text)
        if found is not None:
            yield (*found, line)
        elif line.text.strip(_RULES):
            return


def overridden(here: Here) -> Iterator[Stated]:
    """A framework says that it changed a setting by itself, or that it leaves what the user has set."""
    match = _OVERRIDE.search(here.text)
    if match:
        value = match["to"] or match["at"]
        yield Stated(match["by"] or match["left"], typed(value.strip("'\"`.,!")), here.line)


def banner(here: Here) -> Iterator[Stated]:
    """transformers' "***** Running training *****", verl's "Total steps: 302", vLLM's "Using max model len 4096"; what
    programs print of the size of a batch or a crop."""
    for match in _BANNER.finditer(here.text[:2000]):
        name = match[1].removeprefix("Using ").lower().replace(" ", "_")
        yield Stated(name, typed(match[2].replace(",", "")), here.line, mentioned=True)
    size = _OF_A_SIZE.search(here.text[:2000])
    if size is not None:
        name = (size["name"] or "batchsize").lower().replace("-", "_").replace(" ", "_")
        yield Stated(name, int(size["size"] or size["chosen"]), here.line, mentioned=True)
    too_long = _TOO_LONG.search(here.text)
    if too_long is not None:
        yield Stated("longest_input", int(too_long[1]), here.line, mentioned=True)
        yield Stated("model_max_length", int(too_long[2]), here.line, mentioned=True)


def offloaded(here: Here) -> Iterator[Stated]:
    """DeepSpeed's offload, however it is written: `offload_optimizer=...Config(device='cpu'`, `CPU Offload: True`."""
    text = here.text[:8000]
    if _ADVICE.search(text):
        return
    for match in _OFFLOAD.finditer(text):
        yield Stated(f"offload_{match[1]}.device", match[2], here.line, mentioned=True)
    if _CPU_OFFLOAD.search(text):
        yield Stated("offload_optimizer.device", "cpu", here.line, mentioned=True)


def known(here: Here) -> Iterator[Stated]:
    """A setting that we know, with its value, anywhere in a line that gives no advice, or before it in a dict."""
    text = _HINT.sub("", here.text[:8000])
    if _OF_A_MODEL_FILE.search(text) or _METADATA in text:
        return
    advice = _ADVICE.search(text)
    for match in _KNOWN_STATED.finditer(text):
        if advice is not None and (advice.start() < match.end() or not match["quote"]):
            return
        value = typed(match["value"].strip("\"'"))
        yield Stated(match["name"], value, here.line, mentioned=True, call=_call_around(text, match))


def _call_around(text: str, argument: re.Match[str]) -> str | None:
    """The function of the job's own code that takes the argument: "make_loaders(batch_size=8, num_workers=4)"."""
    if not _ENDS_AN_ARGUMENT.match(text, argument.end()) or "=" not in argument[0] or argument["quote"]:
        return None
    depth = 0
    for at in range(argument.start() - 1, max(-1, argument.start() - CALL_CHARACTERS), -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth < 0:
            called = _CALLED.search(text, max(0, at - CALL_CHARACTERS), at)
            return called[0] if called is not None and _RENDERED.search(f"{called[0]}(") is None else None
    return None


def prose(here: Here) -> Iterator[Stated]:
    """What programs say of the size of their batches in a sentence: the name has blanks, and is no option."""
    text = here.text[:2000]
    if _ADVICE.search(text) or _OF_AN_ENGINE.search(text):
        return
    for match in _OF_BATCHES.finditer(text):
        of = " ".join(match["of"].lower().split()).rstrip("-_ ") if match["of"] else ""
        words = "batch size" if of in _SAME_BATCH else f"{of} batch size"
        yield Stated(f"{words} per device" if match["each"] else words, int(match["size"]), here.line, mentioned=True)


def ranks(here: Here) -> Iterator[Stated]:
    """How many processes a launcher of MPI starts: "mpirun -np 64 ./solver"."""
    match = _RANKS.search(here.text[:2000])
    if match:
        yield Stated(f"{match['by']} processes", int(match["count"]), here.line, written=f"{match['flag']} ")


def own(here: Here) -> Iterator[Stated]:
    """What a program of one's own prints behind a word like "config": pairs, or a small dict."""
    if own_pairs.is_a_head_of_rows(here.text):
        yield from _own_rows(here)
    at = own_pairs.behind_a_head(here.text)
    at = own_pairs.of_a_start(here.text) if at is None else at
    if at is None or _ADVICE.search(here.text[:2000]):
        return
    if here.text.startswith("{", at):
        if _closes(here.text, at):
            found = list(islice(entries(here.text, at), MOST_OWN + 1))
            if len(found) <= MOST_OWN:
                yield from (Stated(one.name, one.value, here.line, written=f"{one.name}=") for one in found)
        return
    for name, value in own_pairs.stated(here.text[at:]):
        yield Stated(name, typed(value), here.line, written=f"{name}=")


def _own_rows(here: Here) -> Iterator[Stated]:
    below = here.page.after(here.index, MOST_OWN + 1)[1:]
    for name, value, line in own_pairs.rows(below):
        yield Stated(name, typed(value), line, written=f"{name}=")


def own_file(here: Here) -> Iterator[Stated]:
    """The file of settings that a launch line hands over, which the program prints right below."""
    if own_pairs.names_a_file(here.text):
        for one in _own_rows(here):
            yield replace(one, written=f"{one.name}: ")


def own_columns(here: Here) -> Iterator[Stated]:
    """Settings in two columns below one another: the first line of such a block."""
    above = here.page.lines[max(here.index - 1, 0) : here.index]
    if any(own_pairs.is_of_columns(line.text) for line in above):
        return
    block = takewhile(lambda line: own_pairs.is_of_columns(line.text), here.page.after(here.index, MOST_OWN))
    for name, value, line in own_pairs.columns(block):
        yield Stated(name, typed(value), line, written=f"{name}=")


def own_alone(here: Here) -> Iterator[Stated]:
    """Pairs that make up a line, and stand there once: metrics are printed again."""
    if here.page.once(_first_names)[own_pairs.first_name(here.text)] > 1:
        return
    for name, value in own_pairs.alone(here.text):
        yield Stated(name, typed(value), here.line, written=f"{name}=")


def _first_names(page: Page) -> Counter[str]:
    return Counter(own_pairs.first_name(line.text) for line in page.lines if "=" in line.text)


def flat(here: Here) -> Iterator[Stated]:
    """A line of a configuration without sections."""
    match = _FLAT.match(here.text[:600])
    if match:
        yield Stated(match["name"], typed(match["value"]), here.line)


def runner(here: Here) -> Iterator[Stated]:
    """What Ollama asks its runner for. The cache is that of all requests together, and one context's where there is one
    request at a time."""
    match = _OF_OLLAMAS_RUNNER.search(here.text[:4000])
    if match is None:
        return
    yield Stated("num_batch", int(match["batch"]), here.line)
    parallel = int(match["parallel"])
    if parallel == 1:
        yield Stated("num_ctx", int(match["cache"]), here.line)
    else:
        yield Stated("OLLAMA_NUM_PARALLEL", parallel, here.line)
    if match["attention"] in ("Enabled", "true"):
        yield Stated("OLLAMA_FLASH_ATTENTION", 1, here.line)
    if match["type"]:
        yield Stated("OLLAMA_KV_CACHE_TYPE", match["type"], here.line)


def variable(here: Here) -> Iterator[Stated]:
    """A variable of a shell script."""
    match = _VARIABLE.match(here.text[:400])
    if match:
        yield Stated(match["name"], int(match["value"]), here.line, written=f"{match['name']}=")


Reader = Callable[[Here], Iterator[Stated]]

# Which words lead to which reader.
READERS: Final[tuple[tuple[tuple[str, ...], Reader], ...]] = (
    ((" --", " -Xm", "python -m ", "python3 -m ", "uv run ", "tune run ", "ray start", "export ", "#SBATCH"), command),
    (_VARIABLES, variable),
    (("docker run", "serve ", "fill_template.py "), command),
    (("Namespace(", "Args(", "Arguments(", "Config("), rendered),
    (("args: {",), named_dict),
    (("engine/trainer: ", "engine/validator: ", "train: weights=", "val: data=", "detect: weights="), pairs),
    (("with config: ",), engine),
    ((*_LISTS, "', '--", '", "--'), listed_command),
    ((" .. ", " ..."), dotted),
    (("- config key -",), two_columns),
    ((" value", " Value", " VALUE", " setting", " Setting"), ruled),
    (("Override ", "Overriding ", "Set args.", " already set by user to "), overridden),
    (("offload_optimizer", "offload_param", "CPU Offload: "), offloaded),
    (
        (
            "Num examples", "Num Epochs", "Gradient Accumulation steps", "Total optimization",
            "radient accumulation steps",
            "Total steps", "Total training steps", "Number of trainable parameters", "Total Parameters",
            "Total parameters", "Using max model len",
            "maximum sequence length for this model", "-size: ", " Size: ", "selected batchsize ", "set batch size ",
        ),
        banner,
    ),
    (("atch size", "atch Size", "atches of size"), prose),
    (("mpirun ", "mpiexec ", "srun ", "horovodrun "), ranks),
    ((" KvSize:",), runner),
    (
        ("args", "Args", "rguments", "onfig", "cfg", "CONFIG", "etting", "params", "Params", "arameters", "ptions",
         "opts", "lags", '": "start', "': 'start", '": "init'),
        own,
    ),
    (tuple(f"{name}: " for name in _FLAT_KEYS), flat),
    (tuple(dict.fromkeys([*KNOWN, *(name.replace("_", "-") for name in KNOWN)])), known),
)  # fmt: skip


class Yaml:
    """`key: value` below `parent:` lines of less indentation; only below a parent, or prose would be read."""

    def __init__(self) -> None:
        self._parents: list[tuple[int, str]] = []

    def read(self, line: Line, text: str) -> Iterator[Stated]:
        match = _YAML.match(text) if ":" in text else None
        if match is None:
            self._parents.clear()
            return
        indent = len(match[1])
        while self._parents and self._parents[-1][0] >= indent:
            self._parents.pop()
        if match[3] is None:
            self._parents.append((indent, match[2]))
        elif self._parents and (len(self._parents) > 1 or self._parents[0][1].lower() in _YAML_ROOTS):
            name = ".".join([*(key for _, key in self._parents), match[2]])
            yield Stated(name, typed(match[3].strip().strip("\"'")), line)


def _dump(here: Here, at: int) -> Iterator[Stated]:
    if at < 0:
        return
    text, places = (here.text, [(0, here.line)]) if _closes(here.text, at) else _joined(here)
    key = hash(text[at : at + 20_000])
    if key in here.seen:
        yield Stated("", None, here.page.lines[min(here.index + here.seen[key], len(here.page.lines) - 1)])
        return
    last = here.line
    for stated in _placed(places, entries(text, at)):
        last = stated.line
        yield stated
    if len(here.seen) < MOST_DUMPS:
        here.seen[key] = last.number - here.line.number


def _placed(places: list[tuple[int, Line]], found: Iterable[Entry]) -> Iterator[Stated]:
    offsets = [offset for offset, _ in places]
    for entry in found:
        yield Stated(entry.name, entry.value, places[bisect.bisect_right(offsets, entry.offset) - 1][1])


def _joined(here: Here) -> tuple[str, list[tuple[int, Line]]]:
    """The lines of a dump as one text, with the offset at which each begins."""
    parts: list[str] = []
    places: list[tuple[int, Line]] = []
    length = 0
    for line in here.page.after(here.index, DUMP_LINES if here.allowance.lines > 0 else 1):
        places.append((length, line))
        parts.append(line.text)
        length += len(line.text) + 1
        if length > DUMP_CHARACTERS:
            break
    here.allowance.lines -= len(parts)
    return "\n".join(parts), places


def _closes(text: str, at: int) -> bool:
    """Whether the bracket at this place closes on the same line (strings are not looked into: a guess is enough)."""
    return sum(text.count(sign, at) for sign in "([{") <= sum(text.count(sign, at) for sign in ")]}")
