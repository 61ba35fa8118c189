from __future__ import annotations

import pytest
from gpu_logs import FORWARD, LOSS, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.logits_spike import CAUSE
from oomdoctor.signs import Grade


def test_not_a_small_tensor() -> None:
    assert "20 MiB was requested" in ruled_out(CAUSE, *trace(FORWARD), refused(tried="20.00 MiB"))


def test_not_attention() -> None:
    attention = ("torch/nn/functional.py", "softmax", "ret = input.softmax(dim)")
    assert says(CAUSE, *trace(FORWARD, attention), refused(tried="4.00 GiB")) is None


def test_not_predictions_that_an_evaluation_joins() -> None:
    joining = ("transformers/trainer.py", "prediction_loop", "preds = torch.cat((preds, logits), dim=0)")
    assert says(CAUSE, *trace(joining), refused(tried="7.64 GiB")) is None


def test_not_a_product_that_does_not_give_the_size() -> None:
    launch = "python sft.py --vocab_size 128256 --per_device_train_batch_size 2 --max_seq_length 4096"
    assert says(CAUSE, launch, refused(tried="5.10 GiB")) is None


def test_a_small_request_in_the_loss_is_weaker() -> None:
    found = finding(CAUSE, *trace(LOSS), refused(tried="96.00 MiB"))
    assert found.grade == Grade.POINTS
    assert found.against


def test_the_innermost_frame_works_on_the_logits() -> None:
    found = finding(CAUSE, *trace(FORWARD, LOSS), refused(tried="9.28 GiB"))
    assert found.grade == Grade.NAMES
    assert "cross_entropy" in found.why


def test_the_source_line_alone_tells_it_where_the_frames_are_lost() -> None:
    line = "    per_token = torch.gather(logits.log_softmax(-1), 2, ids.unsqueeze(2)).squeeze(2)"
    assert ranking(line, refused(tried="8.36 GiB"))[0] == "logits-spike"


def test_the_product_of_the_printed_sizes_decides() -> None:
    launch = "python sft.py --vocab_size 128256 --per_device_train_batch_size 4 --max_seq_length 4096"
    found = finding(CAUSE, launch, refused(tried="7.83 GiB"))
    assert found.grade == Grade.PROVES
    assert "4 x 4096 tokens x 128256 words x 4 bytes = 7.83 GiB" in found.why


def compiled(shape: str, dtype: str) -> tuple[str, str, str]:
    return ("torchinductor_u/ab/cabcdef.py", "call", f"buf4 = empty_strided_cuda(({shape}), (1, 1), torch.{dtype})")


def test_not_a_layer_of_compiled_code() -> None:
    for shape, dtype in (("s0, 18432", "float32"), ("s0, 152064", "bfloat16"), ("4194304, 16", "float32")):
        assert "logits-spike" not in ranking(*trace(compiled(shape, dtype)), refused(tried="9.10 GiB"))


def test_compiled_code_that_asks_for_a_value_per_word() -> None:
    line = refused(tried="9.28 GiB")
    assert "64,128 values per token" in finding(CAUSE, *trace(compiled("s0, 1, 64128", "float32")), line).why
    assert ranking(*trace(compiled("s0, 1, 64128", "float32")), line)[0] == "logits-spike"


SCORING = ("app/workers/scorer.py", "compute_log_prob", "out = self.model(batch)")


def test_not_attention_or_little_while_tokens_are_scored() -> None:
    attention = ("app/model/attention.py", "forward", "scores = queries @ keys")
    assert "logits-spike" not in ranking(*trace(SCORING, attention), refused(tried="8.00 GiB"))
    assert "logits-spike" not in ranking(*trace(SCORING, FORWARD), refused(tried="512.00 MiB"))


def test_a_large_piece_while_tokens_are_scored() -> None:
    lines = (*trace(SCORING, ("app/model/head.py", "project", "return states @ weight.T")), refused(tried="9.27 GiB"))
    assert ranking(*lines)[0] == "logits-spike"
    assert finding(CAUSE, *lines).against


def test_in_an_engine_the_share_is_the_likelier_reason() -> None:
    engine = "INFO 02-10 10:00:01 [core.py:58] Initializing a V1 LLM engine (v0.9.2) with config: model='/m/big'"
    sampled = ("vllm/v1/sample/sampler.py", "compute_logprobs", "return logits.log_softmax(dim=-1)")
    scored = ("vllm/model_executor/layers/logits_processor.py", "_get_logits", "logits = lm_head.apply(hidden)")
    line = refused(tried="8.00 GiB")
    assert finding(CAUSE, engine, *trace(sampled), line).grade == Grade.HINTS
    assert finding(CAUSE, engine, *trace(scored), line).grade == Grade.POINTS
    assert finding(CAUSE, *trace(LOSS), line).grade == Grade.NAMES


CALLED = "ray::WorkerDict.actor_rollout_{}() (pid=4711, ip=10.1.2.3, repr=<verl.single_controller.ray.base.WorkerDict>)"
SOFTMAX = ("torch/nn/functional.py", "softmax", "ret = input.softmax(dim)")
TYPED = ("torch/nn/functional.py", "softmax", "ret = input.softmax(dim, dtype=dtype)")
SAMPLING = ("verl/workers/rollout/hf_rollout.py", "_generate", "probs = F.softmax(scores, dim=-1)")
LAYER = ("mine/layers.py", "self_attention", "weights = F.softmax(scores, dim=-1)")
POLICY = CALLED.format("generate_sequences")


@pytest.mark.parametrize(
    ("lines", "tried", "named"),
    [
        ((POLICY, *trace(SOFTMAX)), "5.20 GiB", True),
        ((CALLED.format("compute_log_prob"), *trace(SOFTMAX)), "5.20 GiB", True),
        ((POLICY, *trace(TYPED)), "5.20 GiB", False),  # attention of transformers
        ((POLICY, *trace(FORWARD, SOFTMAX)), "5.20 GiB", False),
        ((POLICY, *trace(LAYER, SOFTMAX)), "5.20 GiB", False),
        ((POLICY, *trace(SAMPLING, SOFTMAX)), "5.20 GiB", False),
        ((POLICY, *trace(SOFTMAX)), "300.00 MiB", False),
        (tuple(trace(SOFTMAX)), "5.20 GiB", False),  # anybody's attention
    ],
)
def test_a_policys_softmax_outside_of_its_layers_is_over_the_vocabulary(
    lines: tuple[str, ...], tried: str, *, named: bool
) -> None:
    assert (ranking(*lines, refused(tried=tried))[0] == "logits-spike") is named
