"""What is in force already, as the log shows it in other ways than by an option: by a file of the traceback, by a line
that says so, by the name of a model. `in_force.txt` has a row for each such sign; weights are looked at more closely.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from oomdoctor.incident.model import Crash
from oomdoctor.job.checkpoint_names import has_few_bits
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies import cells
from oomdoctor.remedies.settings import Spelling

_OF_QUANTIZED: Final = late(r"(?i)\bthe quantized model\b")  # Accelerate's and Transformers' words
# Layers of few bits: of vLLM and SGLang those that are not for the cache alone or for whole weights. Of bitsandbytes
# (0.48: functional.py, autograd/_functions.py) not its optimizers, whose states are of few bits, and not the weights
_LAYERS: Final = (
    r"bitsandbytes/(?:nn|autograd)\b|quantizers/quantizer_|auto_?gptq/|gptqmodel/|awq/(?:modules|models)/"
    r"|\blayers/quantization/(?!base_|kv_cache|unquant|utils/|__init__)"
    r"|\bdequantize_(?:4bit|nf4|fp4)\(|\b(?:bnb\.)?matmul_4bit\(|\bMatMul(?:4Bit|8bitLt)\b|\bLinear(?:4bit|8bitLt)\b"
)
# scaled_fp8_quant in vllm/_custom_ops.py since 0.5.4 makes what takes the values in 8 bits
_INTO_8_BITS: Final = r"\bscaled_fp8_quant\b|torch\.empty\(shape, device=input\.device, dtype=out_dtype\)"
_OF_8_BITS: Final = "fp8"
# The call by which AutoAWQ (awq/models/base.py 0.2), AutoGPTQ and GPTQModel make weights of few bits; PyTorch's own
# method of that name, of one tensor, is called with a scale
_QUANTIZES: Final = (
    r"\bmodel\.quantize\(\s{0,8}(?:tokenizer|examples|calibration\w{0,40}|\w{0,40}dataset|quant_config)\b"
)
# PEFT's adapters become part of the weights, which are whole for it: the sums would be rounded to few bits
# (peft/tuners/lora/bnb.py 0.17, "may get different generations due to rounding errors")
_MERGES: Final = r"(?i)\bmerge_and_unload\(|#[^\n]{0,80}\bmerg(?:e|ing)\b[^\n]{0,40}\b(?:lora|adapters?)\b"
# As calls, options and dumps have it, and as a comment says it of what is loaded
_IN_16_BITS: Final = (
    r"(?i)\b(?:torch_|param_|model_|weight_)?d?type\W{1,4}(?:torch\.)?(?:bfloat16|float16|bf16|fp16|half)\b"
    r"|\.(?:half|bfloat16)\(\)|\.to\((?:dtype=)?torch\.b?float16\)"
    r"|#\s{0,4}(?:re-?)?load(?:ing)?\b[^\n]{0,60}\b(?:in|as) (?:fp16|bf16|b?float16|half[- ]precision|16[- ]bits?)\b"
)
_IN_32_BITS: Final = r"(?i)d?type\W{1,4}(?:torch\.)?(?:float32|fp32)\b|\.float\(\)|\bautocast\b|Expected.{1,60}dtype"
_FEWER_BITS: Final = "quantize-weights"
# By their names: ComfyUI's comfy/sd.py and comfy/utils.py 0.3, diffusers' models/autoencoders 0.40, and their forks
_SHOWN: Final = 60  # characters
_TRACE: Final = "trace"
_STROKE: Final = r"\|"
_IN_TILES: Final = r"\b\w{0,20}_?tiled_(?:decode|encode|scale)|\b(?:de|en)code_tiled"
# Kernels that have no plain attention behind them: flash_attn/flash_attn_interface.py 2.8, xformers/ops/fmha 0.0.32,
# transformers/modeling_flash_attention_utils.py 4.57
_FUSED_KERNELS: Final = (
    r"\bflash_attn/|\bxformers/ops/fmha/|\b_?flash_attn(?:_varlen)?(?:_qkvpacked|_kvpacked)?_(?:func|forward|backward)\b"
    r"|\bflash_attn(?:_gpu|_cuda)\.|\b_flash_attention_forward\b|\bmemory_efficient_attention\("
)
# PyTorch's call in what is installed: whether it finds a kernel is not for the job to write
_FUSED_CALL: Final = r"(?:site|dist)-packages/.{1,200}\bscaled_dot_product_attention\("


def quantized(crash: Crash) -> str | None:
    """What shows that the weights are of few bits already: the model's name, or the loader that failed with it."""
    name = next((each for each in crash.context.models if has_few_bits(each)), None)
    if name is not None:
        return name
    said = _OF_QUANTIZED.search(crash.root.at.text)
    if said is not None:
        return said[0]
    frame = crash.in_trace(_LAYERS)
    if frame is not None and frame.file:
        return frame.file.rsplit("/", 1)[-1]
    shown = _found(_LAYERS, crash)
    return shown.strip("(") if shown is not None else _in_8_bits(crash)


def _found(pattern: str, crash: Crash) -> str | None:
    """What the pattern finds in the line nearest to the failure that holds it."""
    line = crash.mentions(pattern)
    found = late(pattern).search(line) if line is not None else None
    return found[0] if found is not None else None


def _in_8_bits(crash: Crash) -> str | None:
    """vLLM was making FP8 values: of weights or for layers of such weights, if not for a cache of FP8."""
    cache = crash.setting("kv_cache_dtype")
    if cache is not None and _OF_8_BITS in str(cache.value):
        return None
    return _OF_8_BITS if crash.shows(_INTO_8_BITS) else None


def fewer_bits(crash: Crash) -> str | None:
    """Why the weights cannot be of fewer bits: they are, the job is making them so, or it needs whole ones."""
    if (shown := quantized(crash)) is not None:
        return say("weights already quantized ({shown})", shown=shown)
    if crash.shows(_QUANTIZES):
        return say("the program is quantizing the weights itself")
    if merges(crash):
        return say("adapters are merged into the weights: into 8 or 4 bits that would be rounded")
    return None


def merges(crash: Crash) -> bool:
    """Whether the weights are loaded so that adapters become part of them."""
    return crash.shows(_MERGES)


def half_precision(crash: Crash) -> str | None:
    """Why the weights cannot be halved: they have 16 bits or fewer."""
    if (shown := quantized(crash)) is not None:
        return say("weights already quantized ({shown})", shown=shown)
    if crash.shows(_IN_16_BITS) and not crash.shows(_IN_32_BITS):
        return say("the weights are in 16 bits already")
    return None


def in_tiles(crash: Crash) -> bool:
    """Whether the picture was computed in tiles already."""
    return crash.in_trace(_IN_TILES) is not None


def fused(crash: Crash) -> bool:
    """Whether attention is a kernel's that keeps no scores, with no line of the job that could be another."""
    return crash.shows(_FUSED_KERNELS) or crash.in_trace(_FUSED_CALL) is not None


class Sign(NamedTuple):
    """A row of the table: what shows that the knob is turned."""

    knob: str
    values: tuple[str, ...]
    in_trace: bool
    shown: str
    unless: str


@cache
def table() -> tuple[Sign, ...]:
    return tuple(map(_sign, cells.rows(Path(__file__).with_suffix(".txt"))))


def _sign(cell: tuple[str, ...]) -> Sign:
    knob, values, where, shown, unless, _ = cell
    return Sign(knob, tuple(values.split()), where == _TRACE, shown.replace(_STROKE, "|"), unless.replace(_STROKE, "|"))


def refused(knob: str, crash: Crash, row: Spelling | None = None) -> str | None:
    """Why there is nothing to turn; None where nothing shows that it is in force."""
    if knob == _FEWER_BITS and (why := fewer_bits(crash)) is not None:
        return why
    about = (sign for sign in table() if sign.knob == knob and (not sign.values or _sets(row, sign.values)))
    shown = next(filter(None, (_shown_by(sign, crash) for sign in about)), None)
    return say("it is on already ({shown})", shown=shown) if shown is not None else None


def _sets(row: Spelling | None, values: tuple[str, ...]) -> bool:
    return row is not None and str(row.value).lower() in values


def _shown_by(sign: Sign, crash: Crash) -> str | None:
    """What shows it, in the log's own words; None where it is not there, or where it is on only in part."""
    found = _in_the_trace(sign.shown, crash)
    if found is None and not sign.in_trace:
        found = _found(sign.shown, crash)
    if found is None:
        return None
    stated = any(late(sign.unless).search(f"{each.name}={each.value}") for each in crash.context.settings.values())
    if sign.unless and (stated or crash.shows(sign.unless)):
        return None
    return found.strip(" (\"'-.")[:_SHOWN]


def _in_the_trace(pattern: str, crash: Crash) -> str | None:
    frame = crash.in_trace(pattern)
    found = late(pattern).search(f"{frame.path} {frame.function} {frame.code}") if frame is not None else None
    return found[0] if found is not None else None


__all__ = ["Sign", "fewer_bits", "fused", "half_precision", "in_tiles", "merges", "quantized", "refused", "table"]
