"""A vision or audio encoder runs, most often with items of the largest size to see what it needs."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.vllm_figures import EncoderProfile
from oomdoctor.incident.engine_facts import in_engine, phase
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say

_ENCODER = (
    r"(?i)\b(?:embed_multimodal|get_multimodal_embeddings|_execute_mm_encoder|_process_(?:image|video|audio)_\w{1,20}"
    r"|_?get_?image_features|encode_images?|general_mm_embed_routine|run_encoder|image_embeds|pixel_values)\b"
    r"|vision|visual|siglip|[/_]clip\b|\bvit\.py|whisper|audio_tower|mm_encoder|enc_dec_model_runner"
)
_SAID = r"(?i)multi-?modal|pixel_values|vision encoder|image tokens"


def judge(crash: Crash) -> Judgement | None:
    if not in_engine(crash):
        return None
    doing = phase(crash)
    frame = crash.in_trace(_ENCODER)
    profile = _profiled(crash)
    if doing == "profiling" and frame is not None:
        return _finding(crash, 0.88, profile)
    if frame is not None and doing == "serving":
        return Finding(
            weight=0.75,
            why=say("The vision or audio encoder ran out of device memory while it served a request."),
            evidence=(crash.root,),
            stage="serving",
        )
    if doing == "profiling":
        if profile is not None:
            return _finding(crash, 0.65, profile)
        if crash.mentions(_SAID):
            return _finding(crash, 0.6, None)
    if profile is not None and doing not in (None, "profiling"):
        return RuledOut(say("the encoder had been profiled before that"))
    return None


def _finding(crash: Crash, weight: float, profile: EncoderProfile | None) -> Finding:
    items = ""
    if profile is not None and profile.items is not None:
        items = (
            say(
                "It is profiled with {count} {modality} items of the largest size.",
                count=profile.items,
                modality=profile.modality,
            )
            if profile.modality
            else say("It is profiled with {count} items of the largest size.", count=profile.items)
        )
    elif profile is not None and profile.embedding_tokens is not None:
        items = say("In the worst case they make {tokens:,} tokens.", tokens=profile.embedding_tokens)
    return Finding(
        weight=weight,
        why=joined(
            (
                say(
                    "The engine ran its vision or audio encoder to measure what it needs and ran out of device memory."
                ),
                say("The items are as large as the model allows, not as large as yours."),
                items,
            )
        ),
        evidence=(crash.root,) if profile is None else (crash.root, profile),
        stage="memory_profiling",
    )


def _profiled(crash: Crash) -> EncoderProfile | None:
    """The last announcement before the failure."""
    root = crash.root.at
    before = [e for e in crash.every(EncoderProfile) if e.at.file == root.file and e.at.line <= root.line]
    return before[-1] if before else None


CAUSE = Cause(
    id="multimodal-profiling",
    title=mark("Profiling the vision or audio encoder ran out of device memory"),
    pools=("gpu",),
    knobs=("limit-multimodal", "smaller-prefill", "fewer-sequences", "shorter-context", "tensor-parallel"),
    rule=judge,
)
