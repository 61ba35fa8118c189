"""What is known of the engine: its release, who built it, and the bytes of its card, its weights and its cache."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import kv_cache, vllm
from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_table import GpuTable
from oomdoctor.families.vllm_error import ContextDoesNotFit, NotEnoughFree
from oomdoctor.families.vllm_figures import KvCacheSize, MemoryProfile, Sleep, WeightsLoaded
from oomdoctor.incident.engine_facts import loading, phase
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import framework
from oomdoctor.language import say
from oomdoctor.remedies import models
from oomdoctor.remedies.settings import Spelling
from oomdoctor.remedies.sizes import size_of_model, tensor_parallel
from oomdoctor.signs.machine import is_in_a_notebook
from oomdoctor.units import show
from oomdoctor.versions import Version, version_of

_LENGTHS: Final = ("max_model_len", "max_seq_len")
_BUILT: Final = r"/vllm/entrypoints/llm\.py|\bLLM\(|/lmdeploy/api\.py|\bsgl\.Engine\("
# The same as lines of a script that stand beside the error: of lmdeploy and vLLM, whose servers print no such line
_WRITTEN: Final = (
    r"\bpipeline\(.{0,300}\bbackend_config ?=|\bfrom lmdeploy import pipeline\b|\bllm ?= ?(?:vllm\.)?LLM\("
)
# Where a script makes the trainer's configuration itself, and no command line does: TRL's and transformers' classes
_CONFIGURED: Final = r"\b(?:\w{0,20}TrainingArguments|[A-Z]{2,6}Config)\("
# Engines that a program of one's own makes from arguments, and servers, which take them as flags
_MADE: Final = r"\bLLMEngine\.from_engine_args\(|\bAsyncLLMEngine\.from_engine_args\("
# Whose call of LMDeploy's pipeline the traceback shows, where the frames of lmdeploy/api.py are none of it
_OF_LMDEPLOY: Final = r"(?:^|/)lmdeploy/(?!serve/|cli/)"
_PIPELINE: Final = r"(?:^|[\s=.])pipe(?:line)?\("
_BY_A_SERVER: Final = r"api_server|/vllm/entrypoints/|(?i:uvicorn|vllm serve)"
# Who puts the engine to sleep and wakes it up is a trainer that built it, unless a server's routes do
_SERVER: Final = r"api_server|/entrypoints/(?:openai|launcher)|async_llm|(?i:uvicorn|vllm serve)"
PRINTED: Final = "printed"


def engine_version(crash: Crash) -> Version | None:
    return version_of(crash.context.frameworks.get(vllm.NAME))


def card_total(crash: Crash) -> int | None:
    """The size of the card, from whatever line prints it."""
    for event in crash.events:
        if isinstance(event, DeviceOutOfMemory | NotEnoughFree | MemoryProfile) and event.total_bytes:
            return event.total_bytes
    sizes = {card.total_bytes for table in crash.every(GpuTable) for card in table.cards if card.total_bytes}
    return sizes.pop() if len(sizes) == 1 else None  # of several kinds it may be any


def free_at_start(crash: Crash) -> int | None:
    for event in crash.events:
        if isinstance(event, NotEnoughFree | MemoryProfile) and event.free_bytes:
            return event.free_bytes
    return None


def weights_bytes(crash: Crash) -> tuple[int, str] | None:
    """The weights on one card: printed, else from the model's size."""
    for event in crash.events:
        if isinstance(event, WeightsLoaded | MemoryProfile) and event.weights_bytes:
            return event.weights_bytes, PRINTED
    loaded = loading(crash)
    if loaded is not None:
        return loaded.weights_bytes, PRINTED
    size = size_of_model(crash)
    return None if size is None else (arithmetic.weights(size.parameters, tensor_parallel(crash)), size.source)


def token_bytes(crash: Crash) -> tuple[float, str] | None:
    """KV-cache bytes per token on one card, and where they come from."""
    for error in crash.every(ContextDoesNotFit):
        if error.needed_bytes and error.max_model_len:
            return kv_cache.of_need(error.needed_bytes, error.max_model_len), say("needed / length")
    model = models.known(crash.context.models)
    of_blocks = next((cache.cpu_blocks for cache in crash.every(KvCacheSize) if cache.cpu_blocks), None)
    # The swap space is a default that may have been changed; a model's shape is what it is, on a known number of GPUs.
    if of_blocks and (model is None or crash.setting("tensor_parallel_size") is None):
        return kv_cache.of_cpu_blocks(of_blocks), _of_swap_space(of_blocks)
    if model is not None:
        return model.kv_bytes_per_token(tensor_parallel(crash)), say("{model}'s layers and heads", model=model.name)
    return None


def _of_swap_space(blocks: int) -> str:
    return say("4 GiB of swap space, vLLM's default, in {blocks} blocks of 16 tokens", blocks=blocks)


def sleeps(crash: Crash) -> bool:
    """Whether the engine's sleep mode is in use; what wakes up has slept."""
    stated = crash.setting("vllm_enable_sleep", "vllm.enable_sleep", "enable_sleep_mode", "vllm_enable_sleep_mode")
    return bool(stated and stated.value is True) or crash.first(Sleep) is not None or phase(crash) == "waking"


def in_python(crash: Crash) -> bool:
    """Whether a program or a notebook builds the engine itself, by arguments of the options' names."""
    if crash.in_trace(_BUILT) is not None or is_in_a_notebook(crash) or crash.mentions(_WRITTEN) is not None:
        return True
    if crash.in_trace(_MADE) is not None and not crash.shows(_BY_A_SERVER):
        return True
    if crash.in_trace(_OF_LMDEPLOY) is not None and crash.in_trace(_PIPELINE) is not None:
        return not crash.shows(_BY_A_SERVER)
    return phase(crash) == "waking" and not crash.shows(_SERVER)


def is_set_in_code(row: Spelling, crash: Crash) -> bool:
    """Whether a framework's flags are written as arguments of the same names here."""
    own = framework(row.framework)
    if own is None or "takes its options as arguments" not in own.traits:
        return False
    if own.layer == "engine":
        return in_python(crash)
    launched = any(one.is_launched for one in crash.context.settings.values())
    return is_in_a_notebook(crash) or (crash.in_trace(_CONFIGURED) is not None and not launched)


def one_request(crash: Crash) -> tuple[int, str] | None:
    """What the cache of one request of the longest context takes, and how that is known."""
    per_token = token_bytes(crash)
    length = crash.setting(*_LENGTHS)
    if per_token is None or length is None or not isinstance(length.value, int) or length.value <= 0:
        return None
    need = kv_cache.need(per_token[0], length.value)
    told = say("{amount} for {tokens} tokens ({source})", amount=show(need), tokens=length.value, source=per_token[1])
    return need, told
