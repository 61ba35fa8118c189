"""Weights, or one copy of them per process, do not fit into RAM while they are loaded."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import SIGKILL, Kill, RankFailure
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.ollama import Short
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say, translated
from oomdoctor.units import show

# Where one process serves one model, there are no workers to take away.
_ENGINE_KNOBS = ("smaller-model", "quantize-weights", "shorter-context", "more-host-memory", "low-memory-loading")
_FRAMES = (
    r"\bfrom_pretrained\b|_load_pretrained_model|load_state_dict|torch\.load|safe_open|\bload_file\b|_load_state_dict_into"
    r"|safetensors|\bload_checkpoint\b|load_checkpoint_and_dispatch|weight_utils\.py|model_loader"
)
_LINES = (
    r"Loading (?:\w{1,20} )?checkpoint shards|Loading safetensors|Loading model weights|Starting to load model"
    r"|from_pretrained\(|Loading weights|llama_model_load|load_tensors:|Loading model\b|Loading pipeline components"
)


_PARTS = {"weights": mark("weights"), "kv": mark("kv"), "compute": mark("compute")}


def judge(crash: Crash) -> Judgement | None:
    if isinstance(crash.root, Short):
        return _reckoned(crash.root)
    if isinstance(crash.root, BufferRefused):
        return _buffer(crash.root)
    kill = crash.first(KernelKill)
    frame = crash.in_trace(_FRAMES)
    line = crash.mentions(_LINES)
    if kill is not None:
        return _killed(crash, kill, line)
    refused = crash.first(HostAllocation)
    if refused is not None and refused.pool == "host_ram" and frame is not None:
        return Finding(
            weight=0.72,
            why=say(
                "Loading weights ({function}) asked for {tried} of host memory and was refused.",
                function=frame.function,
                tried=show(refused.tried_bytes),
            )
            if refused.tried_bytes
            else say(
                "Loading weights ({function}) asked for a piece of host memory and was refused.",
                function=frame.function,
            ),
            evidence=(refused,),
            stage="model_load",
        )
    if isinstance(crash.root, Kill) and line is not None and _is_last(crash, crash.root):
        bar = _under_way(crash, crash.root)
        done, _, whole = (bar or "").partition("/")
        return Finding(
            weight=0.52 if bar else 0.42,
            shows_memory=bar is not None,
            why=say(
                "The process was killed while it loaded model weights ({done} of {whole} pieces were "
                "in), which passes through host memory.",
                done=done,
                whole=whole,
            )
            if bar
            else say("The process was killed while it loaded model weights, which passes through host memory."),
            evidence=(crash.root,),
            against=(say("nothing printed shows how much memory there was"),),
            stage="model_load",
            next_evidence=("free -h",),
        )
    return None


def _reckoned(short: Short) -> Finding | None:
    """Ollama adds up what the processor's part of the model needs before it starts."""
    if short.needed_bytes is None or short.free_bytes is None:
        return _not_allocated(short)
    return Finding(
        weight=0.94,
        why=say(
            "The part of the model that stays in host memory needs {needed}, and {free} are available.",
            needed=show(short.needed_bytes),
            free=show(short.free_bytes),
        ),
        evidence=(short,),
        knobs=_ENGINE_KNOBS,
    )


def _not_allocated(short: Short) -> Finding | None:
    if short.what not in _PARTS or not short.tried_bytes:
        return None
    return Finding(
        weight=0.85,
        why=say(
            "Host memory of {tried} was refused for the {part} that stay with the processor.",
            tried=show(short.tried_bytes),
            part=translated(_PARTS[short.what]),
        ),
        evidence=(short,),
        knobs=_ENGINE_KNOBS,
    )


def _buffer(refused: BufferRefused) -> Finding | None:
    if refused.what not in ("weights", None):
        return None
    tried = refused.tried_bytes or refused.buffer_bytes
    return Finding(
        weight=0.85 if refused.what else 0.55,
        why=say("Host memory of {tried} was refused for the weights that stay with the processor.", tried=show(tried))
        if tried
        else say("Host memory was refused for the weights that stay with the processor."),
        evidence=(refused,),
        knobs=_ENGINE_KNOBS,
    )


def _killed(crash: Crash, kill: KernelKill, line: str | None) -> Judgement | None:
    loading = line is not None or crash.stage == "model_load"
    name, pid, held = kill.process.name or say("The process"), kill.process.pid, kill.anon_rss_bytes
    if loading:
        return Finding(
            weight=0.86,
            why=say(
                "The kernel killed {name} (PID {pid}) with {held} of its own while model weights were "
                "being loaded: they pass through host memory, once per process that loads them.",
                name=name,
                pid=pid,
                held=show(held),
            )
            if held is not None
            else say(
                "The kernel killed {name} (PID {pid}) while model weights were being loaded: they "
                "pass through host memory, once per process that loads them.",
                name=name,
                pid=pid,
            ),
            evidence=(kill,),
            stage="model_load",
        )
    return None


def _under_way(crash: Crash, root: Kill) -> str | None:
    """How far loading had come, where a bar of it that is not at its end is the last thing that was printed."""
    reports: tuple[Kill | RankFailure, ...] = (root, *crash.every(Kill), *crash.every(RankFailure))
    loaded = next((report.loaded for report in reports if report.loaded), None)
    done, _, whole = (loaded or "").partition("/")
    return loaded if root.signal == SIGKILL and loaded and int(done) < int(whole) else None


def _is_last(crash: Crash, root: Event) -> bool:
    """Whether loading is the last thing the log speaks of: training may have begun since."""
    return crash.stage in {"model_load", "unknown", "launch", "engine_init"} and bool(
        root.around.before or root.at.text
    )


CAUSE = Cause(
    id="host-model-load",
    title=mark("Model weights do not fit into host memory while they are loaded"),
    pools=("host_ram", "cgroup"),
    knobs=("low-memory-loading", "fewer-workers", "quantize-weights", "smaller-model", "more-host-memory"),
    rule=judge,
)
