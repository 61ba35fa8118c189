from __future__ import annotations

import pytest
from engine_logs import ENCODER_ANNOUNCED, RUNNER, grade, judged, refusal, traceback

from oomdoctor.decision.judgement import Finding, RuledOut
from oomdoctor.signs import Grade

CAUSE = "multimodal-profiling"
FULL = refusal("18.00 GiB", 44.53, 1.2, 43.2, 42.0)


def test_a_profiling_run_of_a_language_model() -> None:
    log = traceback((RUNNER, "profile_run"), ("vllm/model_executor/models/llama.py", "forward"), end=FULL)
    assert judged(CAUSE, log) is None


def test_a_vision_model_in_training() -> None:
    log = traceback(
        ("transformers/trainer.py", "training_step"), ("transformers/models/vit/modeling.py", "visual"), end=FULL
    )
    assert judged(CAUSE, log) is None


def test_an_encoder_that_was_profiled_before() -> None:
    log = ENCODER_ANNOUNCED + traceback((RUNNER, "_allocate_kv_cache_tensors"), end=FULL)
    assert isinstance(judged(CAUSE, log), RuledOut)


@pytest.mark.parametrize(
    ("log", "sure"),
    [
        (traceback((RUNNER, "profile_run"), (RUNNER, "_process_image_input"), end=FULL), Grade.PROVES),
        (ENCODER_ANNOUNCED + traceback((RUNNER, "profile_run"), end=FULL), Grade.NAMES),
    ],
)
def test_profiling_an_encoder(log: str, sure: Grade) -> None:
    assert grade(CAUSE, log) == sure


def test_what_it_is_profiled_with_is_said() -> None:
    log = ENCODER_ANNOUNCED + traceback(
        (RUNNER, "profile_run"), ("vllm/model_executor/models/vision.py", "forward"), end=FULL
    )
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert "1 video item" in finding.why
    assert finding.knobs[0] == "limit-multimodal"


def test_an_encoder_while_serving() -> None:
    log = traceback((RUNNER, "execute_model"), (RUNNER, "_execute_mm_encoder"), end=FULL)
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert finding.stage == "serving"


def test_the_announcement_is_the_last_thing_said_before_the_refusal() -> None:
    later = "INFO 03-02 10:00:09 [kv_cache_utils.py:634] GPU KV cache size: 91,200 tokens\n"
    assert grade(CAUSE, ENCODER_ANNOUNCED + FULL) == Grade.NAMES
    assert not isinstance(judged(CAUSE, ENCODER_ANNOUNCED + later + FULL), Finding)


def test_in_the_worst_case_the_items_make_so_many_tokens() -> None:
    warned = (
        "WARNING 04-02 11:20:31 [profiling.py:222] The sequence length used for profiling (max_num_batched_tokens / "
        "max_num_seqs = 4096) is too short to hold the multi-modal embeddings in the worst case (40960 tokens in "
        "total, out of which {'image': 16384, 'video': 24576} are reserved for multi-modal embeddings).\n"
    )
    log = traceback((RUNNER, "profile_run"), ("vllm/models/qwen2_vl.py", "get_multimodal_embeddings"), end=FULL)
    finding = judged(CAUSE, warned + log)
    assert isinstance(finding, Finding)
    assert "In the worst case they make 40,960 tokens." in finding.why


def test_words_of_an_encoder_beside_a_profiling_run() -> None:
    frames = (RUNNER, "profile_run"), ("vllm/model_executor/models/llama.py", "forward")
    log = "INFO the processor made 3 pixel_values\n" + traceback(*frames, end=FULL)
    assert grade(CAUSE, log) == Grade.POINTS
    assert judged(CAUSE, log.replace("pixel_values", "input_ids")) is None
