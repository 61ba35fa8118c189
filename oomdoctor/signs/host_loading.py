"""Weights on their way through host memory, or staying there."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.event import PROOF, RAM, Event
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import SIGKILL, Kill, RankFailure
from oomdoctor.families.lines import PROGRESS, SIGKILL_CODES
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.ollama import Short
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import held_by, held_in_words
from oomdoctor.incident.prints import ONE_OF_SEVERAL, is_told_last, own_lines
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import FREE
from oomdoctor.units import show

_LOADING: Final = (
    r"\bfrom_pretrained\b|_load_pretrained_model|load_state_dict|torch\.load|safe_open|\bload_file\b|_load_state_dict_into"
    r"|safetensors|\bload_checkpoint\b|load_checkpoint_and_dispatch|weight_utils\.py|model_loader"
)
_LOADING_LINE: Final = late(
    r"Loading (?:\w{1,20} )?checkpoint shards|Loading safetensors|Loading model weights|Starting to load model"
    r"|from_pretrained\(|Loading weights|llama_model_load|load_tensors:|Loading model\b|Loading pipeline components"
)
# "Loading the model from /models/base.ckpt", in any program's words; a set of data has other endings
_WEIGHTS_FILE: Final = late(
    r"(?i)\b(?:loading|restoring|reading|opening|importing)\b[^\n]{0,300}?(?:\.(?:ckpt|safetensors|gguf|ggml|pth|pdparams)\b"
    r"|\b(?:model|weights|checkpoint|lora|vae|unet|encoder)\b[^\n]{0,200}\.(?:pt|bin|h5|onnx|npz|msgpack|keras)\b)"
)
# What an engine says when it begins to work: llama.cpp's and GPT4All's examples, web servers
_RUNS: Final = late(
    r"^system_info: n_threads|^(?:llama_)?generate: (?:n_ctx|seed)|^sampler (?:chain|params|seed)"
    r"|^== Running in interactive|\bllama runner started in \d|Application startup complete|Uvicorn running on"
    r"|server is listening on"
)
_LOADED: Final = late(r"(?i)\b(?:loaded|done|finished|ready|complete\w?|listening|serving|saved|saving)\b")
_OVER: Final = (PROGRESS, _LOADED, _RUNS, ONE_OF_SEVERAL)  # what tells of the end of loading, or of what comes after it
_RIGHT_BEFORE: Final = 12  # lines: what is printed while a model is set up
# "blk.35.ffn_norm.weight, n_dims = 1", "model.layers.0.self_attn.q_proj.weight -> ..."
_TENSOR: Final = late(r"(?:^|[\s'\"|:>])[A-Za-z_]\w{0,40}(?:\.\w{1,40}){1,12}\.(?:weight|bias|scale|lora_[AB])\b")
# "Loading checkpoint runs/3.pt (120 MiB)", "loaded fold 2 of 5 from fold-2.onnx": one model a line, and no shard of one
_MODEL_LOADED: Final = late(
    r"(?i)\bload(?:ing|ed)\b(?![^\n]{0,200}(?:\bshard|\d-of-\d|tokenizer|optimizer|scheduler))"
    r"[^\n]{0,200}\.(?:pth?|ckpt|safetensors|onnx|keras)\b"
)
_SEVERAL: Final = 3
_LITTLE, _HALF = 0.1, 0.5
_WALK: Final = 3
_UP_TO_LOADING: Final = frozenset({"model_load", "unknown", "launch", "engine_init"})
_PARTS: Final = {"weights": mark("weights"), "kv": mark("kv"), "compute": mark("compute")}


@sign
def more_of_the_model_than_the_host_has(crash: Crash) -> Seen | None:
    """Ollama computes before loading that the CPU part of the model needs more than is available."""
    return _more_than_the_host_has(crash, 0, 1)


@sign
def little_more_of_the_model_than_the_host_has(crash: Crash) -> Seen | None:
    """Ollama computes that the CPU part of the model needs up to a ninth more than is available: the context may make
    that up."""
    return _more_than_the_host_has(crash, 0, _LITTLE)


@sign
def twice_as_much_of_the_model_as_the_host_has(crash: Crash) -> Seen | None:
    """Ollama computes that the CPU part of the model needs twice what is available: no context makes that up."""
    return _more_than_the_host_has(crash, _HALF, 1)


def _more_than_the_host_has(crash: Crash, least: float, most: float) -> Seen | None:
    """Where that share of what is needed is missing."""
    short = crash.root
    if not isinstance(short, Short) or not short.needed_bytes or short.free_bytes is None:
        return None
    if not least <= (short.needed_bytes - short.free_bytes) / short.needed_bytes <= most:
        return None
    words = say(
        "The part of the model in host memory needs {needed}; {free} is available.",
        needed=show(short.needed_bytes),
        free=show(short.free_bytes),
    )
    return Seen(words=words, evidence=(short,))


@sign
def a_part_of_the_model_was_refused(crash: Crash) -> Seen | None:
    """Ollama could not allocate host memory for a named part of the model."""
    short = crash.root
    if not isinstance(short, Short) or short.what not in _PARTS or not short.tried_bytes:
        return None
    words = say(
        "Allocating {tried} of host memory for the model's CPU part ({part}) failed.",
        tried=show(short.tried_bytes),
        part=translated(_PARTS[short.what]),
    )
    return Seen(words=words, evidence=(short,))


@sign
def a_buffer_for_weights_was_refused(crash: Crash) -> Seen | None:
    """llama.cpp could not allocate its host buffer for weights, and names the weights."""
    is_named = isinstance(crash.root, BufferRefused) and crash.root.what == "weights"
    return _buffer(crash) if is_named else None


@sign
def a_buffer_on_the_host_was_refused(crash: Crash) -> Seen | None:
    """llama.cpp could not allocate a host buffer and does not name its purpose."""
    is_nameless = isinstance(crash.root, BufferRefused) and crash.root.what is None
    return _buffer(crash) if is_nameless else None


def _buffer(crash: Crash) -> Seen:
    usage = crash.root.figures("usage")
    tried = usage.get("tried_bytes") or usage.get("buffer_bytes")
    if tried:
        words = say("Allocating {tried} of host memory for weights on the CPU failed.", tried=show(tried))
    else:
        words = say("Allocating host memory for weights on the CPU failed.")
    return Seen(words=words, evidence=(crash.root,))


@sign
def the_kernel_killed_while_loading_weights(crash: Crash) -> Seen | None:
    """The kernel OOM-killed a process while model weights were loading."""
    kill = crash.first(KernelKill)
    if kill is None or (crash.stage != "model_load" and not _speaks_of_loading(crash.root)):
        return None
    name, pid, held = kill.process.name or say("a process"), kill.process.pid, held_by(kill)
    if held is not None:
        words = say(
            "The kernel killed {name} (PID {pid}), which held {held}, while model weights were loading. Every "
            "process that loads weights needs host memory for them.",
            name=name,
            pid=pid,
            held=held_in_words(kill),
        )
    else:
        words = say(
            "The kernel killed {name} (PID {pid}) while model weights were loading. Every process that loads "
            "weights needs host memory for them.",
            name=name,
            pid=pid,
        )
    return Seen(words=words, evidence=(kill,), stage="model_load")


@sign
def several_models_were_loaded(crash: Crash) -> Seen | None:
    """The job was killed, and its last prints load one model or checkpoint after the other: all of them are kept."""
    if not isinstance(crash.root, KernelKill | LimitKill | Kill) or crash.pool not in (*RAM, "none"):
        return None
    lines = dict.fromkeys(islice(own_lines(crash), _RIGHT_BEFORE))
    loaded = list(takewhile(lambda line: _MODEL_LOADED.search(line) is not None, lines))
    if len(loaded) < _SEVERAL:
        return None
    words = say(
        "The last lines before the end load {count} models or checkpoints one after the other. Kept together, they "
        "need the sum of their sizes.",
        count=len(loaded),
    )
    return Seen(words=words, evidence=(crash.root,), stage="model_load")


@sign
def a_unit_was_killed_while_loading_weights(crash: Crash) -> Seen | None:
    """systemd, systemd-oomd or earlyoom tells of a process killed for memory while model weights were loading."""
    kill = crash.root
    if not isinstance(kill, UserspaceKill) or (crash.stage != "model_load" and not _speaks_of_loading(crash.root)):
        return None
    name = kill.unit or kill.process.name or say("a process")
    words = say("{name} was killed for memory while model weights were loading.", name=name)
    return Seen(words=words, evidence=(kill,), stage="model_load")


@sign
def refused_while_loading_weights(crash: Crash) -> Seen | None:
    """A frame that loads weights made the host allocation that failed."""
    refusal, frame = crash.first(HostAllocation), crash.in_trace(_LOADING)
    if refusal is None or refusal.pool != "host_ram" or frame is None:
        return None
    if refusal.tried_bytes:
        words = say(
            "Loading weights ({function}) requested {tried} of host memory, and the allocation failed.",
            function=frame.function,
            tried=show(refusal.tried_bytes),
        )
    else:
        words = say(
            "Loading weights ({function}) requested host memory, and the allocation failed.", function=frame.function
        )
    return Seen(words=words, evidence=(refusal,), stage="model_load")


@sign
def refused_at_the_time_of_loading(crash: Crash) -> Seen | None:
    """A host allocation failed while a model was loading, in any process."""
    refusal = crash.root if isinstance(crash.root, Shortage) else crash.first(HostAllocation)
    if refusal is None or refusal.pool != "host_ram" or refusal.strength < PROOF or crash.stage != "model_load":
        return None
    return Seen(words=say("A host memory allocation failed while the model was loading."), evidence=(refusal,))


@sign
def killed_in_the_middle_of_loading(crash: Crash) -> Seen | None:
    """The last print before a SIGKILL is an unfinished progress bar of loading weights."""
    if not _killed_at_loading(crash) or (bar := _bar(crash)) is None:
        return None
    done, _, whole = bar.partition("/")
    words = say(
        "The process was killed while it loaded model weights ({done} of {whole} shards loaded) through host memory.",
        done=done,
        whole=whole,
    )
    return _at_loading(crash, words, shows_memory=True)


@sign
def killed_behind_the_loading(crash: Crash) -> Seen | None:
    """A process was killed, and the last lines of the log are about loading weights."""
    if not _killed_at_loading(crash):
        return None
    words = say("The process was killed while it loaded model weights through host memory.")
    return _at_loading(crash, words)


def _at_loading(crash: Crash, words: str, *, shows_memory: bool = False) -> Seen:
    return Seen(
        words=words,
        evidence=(crash.root,),
        against=(say("the log does not print how much memory was available"),),
        shows_memory=shows_memory,
        stage="model_load",
        next_evidence=(FREE,),
    )


def _killed_at_loading(crash: Crash) -> bool:
    """Whether loading is the last thing the log speaks of: training may have begun since."""
    root = crash.root
    if not _is_a_kill(root) or crash.stage not in _UP_TO_LOADING:
        return False
    told = _is_still_loading(crash, root) or _speaks_of_loading(root)
    return told or _opens_weights(root) or _walks_weights(root)


def _is_a_kill(event: Event) -> bool:
    """Also of a process of which another one tells that it is dead, with its exit code."""
    return isinstance(event, Kill) or getattr(event, "exit_code", None) in SIGKILL_CODES


def _speaks_of_loading(event: Event) -> bool:
    """Whether what the model is loaded for had not begun behind the last line on loading."""
    if any(_LOADING_LINE.search(line) for line in event.around.after):
        return True
    return is_told_last(
        (event.at.text, *reversed(event.around.before)), _LOADING_LINE, (_RUNS, PROGRESS, ONE_OF_SEVERAL)
    )


def _is_still_loading(crash: Crash, kill: Event) -> bool:
    """Whether what tells of the loading is the message itself or stands right before it, and nothing ends it."""
    line = crash.doing.because
    if crash.stage != "model_load" or crash.doing.weak or not isinstance(line, str):
        return False
    near = [*kill.around.before[-_RIGHT_BEFORE:], kill.at.text]
    if line not in near:
        return False
    later = near[near.index(line) + 1 :]
    return not any(words.search(one) for one in later for words in _OVER)


def _opens_weights(kill: Event) -> bool:
    """Whether a file of weights was being read right before the kill: nothing says that it was done."""
    return is_told_last(reversed(kill.around.before[-_RIGHT_BEFORE:]), _WEIGHTS_FILE, _OVER)


def _walks_weights(kill: Event) -> bool:
    """Whether the last lines before the kill go from tensor to tensor of a model: it is read or converted."""
    last = kill.around.before[-_WALK:]
    return len(last) == _WALK and all(_TENSOR.search(line) for line in last)


def _bar(crash: Crash) -> str | None:
    """How far loading had come, where its bar is not at its end."""
    root = crash.root
    reports: tuple[Event, ...] = (root, *crash.every(Kill), *crash.every(RankFailure))
    bar = next((one.loaded for one in reports if isinstance(one, Kill | RankFailure) and one.loaded), None)
    done, _, whole = (bar or "").partition("/")
    under_way = isinstance(root, Kill) and root.signal == SIGKILL and bar and int(done) < int(whole)
    return bar if under_way else None
