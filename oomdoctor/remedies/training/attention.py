"""Attention by a fused kernel."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import RAM
from oomdoctor.language import say
from oomdoctor.remedies import in_force, own_line
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import comes_later, known_versions
from oomdoctor.signs.passes import in_attention
from oomdoctor.versions import versions

_TORCH: Final = "torch"
_JAX: Final = "jax"  # a world, and the library that has its only fused kernel
# Dao-AILab/flash-attention, README of 1.0 and 2.0, "PyTorch 1.12 and above"; xformers' wheels since 0.0.13 the same
_TOO_OLD: Final = versions("<1.12")
_GGML: Final = "ggml"  # a world
_FUSED: Final = r"\bscaled_dot_product_attention\("
# Where the call is not causal, a mask is one of padding, and with a causal one in its place the model is another
_BOTH_WAYS: Final = r"\b(?:is_)?causal ?= ?False\b"
_FUSED_CALL: Final = "out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"
_UNMASKED_CALL: Final = _FUSED_CALL.replace("is_causal=True", "attn_mask=None")
_OF_SEVERAL_LENGTHS: Final = "flash_attn_varlen_func"  # flash_attn/flash_attn_interface.py
# transformers/modeling_utils.py, "attn_implementation"
_ATTENTION_OPTION: Final = "attn_implementation"
_PLAIN: Final = "eager"
_FUSED_ONE: Final = "sdpa"
_SCORES_AT_ONCE: Final = "-amb"  # an option of ik_llama.cpp, for what is not fused


def fused_attention(case: Case) -> Answer:
    """Who calls one already falls back to the plain one by an explicit mask or float32. On a CPU only PyTorch's own
    kernel is one, and it is what transformers takes where nobody asks for another; ggml's is one of its own
    (ggml/src/ggml-cpu/ops.cpp, ggml_compute_forward_flash_attn_ext)."""
    if case.crash.pool in RAM and case.crash.job.world != _GGML:
        return _attention_of_the_cpu(case)
    if in_force.fused(case.crash):
        return Skip()
    if case.crash.job.world == _TORCH and _TOO_OLD.covers(known_versions(_TORCH, case.crash.context)):
        return Skip()
    if case.row is None and case.crash.job.world == _JAX and comes_later(case.knob, _JAX, case.crash.context):
        return Skip()
    if case.row is not None and case.row.setting == _SCORES_AT_ONCE:
        return Proposal(
            action=say("Where flash attention (-fa) is off, bound the attention scores of one computation (MiB)"),
            snippet=f"{case.row.setting} {case.row.set}",
            cost=say("slower prompts"),
        )
    if case.crash.pool in RAM:
        return Proposal(suggested=case.row.value if case.row is not None else None, cost=say("none"))
    by_an_option = case.row is not None and not own_line.of_a_library(case.row)
    if by_an_option or not case.crash.shows(_FUSED):
        return None
    if case.crash.in_trace(_BOTH_WAYS) is not None:
        return Proposal(
            action=say("Let attention take a fused kernel: bf16 or fp16, and no mask where no sequence is padded"),
            snippet=_UNMASKED_CALL,
            cost=say("batches of one length, or a kernel for several ({name})", name=_OF_SEVERAL_LENGTHS),
        )
    action = say("Let attention take a fused kernel: bf16 or fp16, and is_causal in place of a causal mask")
    return Proposal(action=action, snippet=_FUSED_CALL)


def _attention_of_the_cpu(case: Case) -> Answer:
    """torch.nn.functional.scaled_dot_product_attention has a fused kernel for CPUs since 2.1."""
    row, now = case.row, case.now
    if row is not None and _ATTENTION_OPTION in row.key and now is not None and now.value == _PLAIN:
        return Proposal(
            action=say("Set {name} from {now} to {then}", name=case.name, now=_PLAIN, then=_FUSED_ONE),
            current=_PLAIN,
            suggested=_FUSED_ONE,
            snippet=case.own_spelling(_FUSED_ONE) or f"{now.written or ''}{_FUSED_ONE}",
        )
    shown = in_attention(case.crash) is not None or own_line.shows(case.knob, case.crash)
    return None if shown and row is not None and row.is_call else Skip()
