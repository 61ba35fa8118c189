from __future__ import annotations

import pytest
from gpu_logs import FORWARD, LOSS, crash, refused, trace

from oomdoctor.incident.model import Crash
from oomdoctor.signs import logits

LAUNCH = "python sft.py --vocab_size 128000 --per_device_train_batch_size {batch} --max_seq_length 1024"
SCORING = ("app/workers/scorer.py", "compute_log_prob", "out = self.model(batch)")


@pytest.mark.parametrize(
    ("batch", "tried", "is_product"),
    [(4, "1.95 GiB", True), (4, "1.97 GiB", False), (4, "1000.00 MiB", True), (1, "500.00 MiB", False)],
)
def test_the_product_gives_the_size_and_is_no_small_one(batch: int, tried: str, is_product: bool) -> None:
    seen = logits.product_with_the_vocabulary(crash(LAUNCH.format(batch=batch), refused(tried=tried)))
    assert (seen is not None) is is_product


@pytest.mark.parametrize(
    ("values", "tried", "is_a_vocabulary"),
    [
        (29_999, "9.28 GiB", False),
        (30_000, "9.28 GiB", True),
        (600_000, "9.28 GiB", True),
        (600_001, "9.28 GiB", False),
        (64_128, "511.00 MiB", False),
        (64_128, "512.00 MiB", True),
    ],
)
def test_the_last_dimension_is_a_vocabularys(values: int, tried: str, is_a_vocabulary: bool) -> None:
    made = f"buf4 = empty_strided_cuda((s0, 1, {values}), (1, 1, 1), torch.float32)"
    compiled = trace(("torchinductor_u/ab/cabcdef.py", "call", made))
    seen = logits.compiled_code_over_a_vocabulary(crash(*compiled, refused(tried=tried)))
    assert (seen is not None) is is_a_vocabulary


@pytest.mark.parametrize(("tried", "is_large"), [("2047.00 MiB", False), ("2.00 GiB", True)])
def test_a_large_piece_while_scoring(tried: str, is_large: bool) -> None:
    scoring = trace(SCORING, ("app/model/head.py", "project", "return states @ weight.T"))
    assert (logits.large_piece_while_scoring(crash(*scoring, refused(tried=tried))) is not None) is is_large
    assert logits.large_piece_while_scoring(crash(*trace(FORWARD), refused(tried=tried))) is None


def at(tried: str, *frames: tuple[str, str, str]) -> Crash:
    return crash(*trace(*frames), refused(tried=tried))


def test_a_small_request_is_weaker_and_a_tiny_one_excludes_it_where_no_frame_tells() -> None:
    assert logits.small_for_logits(at("512.00 MiB", LOSS)) is None
    assert logits.small_for_logits(at("511.00 MiB", LOSS)) is not None
    assert logits.too_small_for_a_vocabulary(at("64.00 MiB", FORWARD)) is None
    assert logits.too_small_for_a_vocabulary(at("63.00 MiB", FORWARD)) is not None
    assert logits.too_small_for_a_vocabulary(at("63.00 MiB", LOSS)) is None


@pytest.mark.parametrize(("tried", "is_small"), [("63.00 MiB", True), ("64.00 MiB", False), ("511.00 MiB", False)])
def test_an_engine_has_a_row_per_request_and_less_is_much(tried: str, is_small: bool) -> None:
    engine = ("vllm/v1/worker/gpu_model_runner.py", "execute_model", "logits = self.model.compute_logits(hidden)")
    assert (logits.small_for_logits(at(tried, engine)) is not None) is is_small


def test_the_job_an_engine_and_its_sampler() -> None:
    engine = ("vllm/v1/worker/gpu_model_runner.py", "execute_model", "logits = self.model.compute_logits(hidden)")
    sampled = ("vllm/v1/sample/sampler.py", "compute_logprobs", "return logits.log_softmax(dim=-1)")
    signs = (logits.working_on_logits, logits.engine_working_on_logits, logits.sampler_working_on_logits)
    for frames, which in (((LOSS,), 0), ((engine,), 1), ((engine, sampled), 2)):
        assert [sign(at("4.00 GiB", *frames)) is not None for sign in signs] == [place == which for place in range(3)]


def test_log_probabilities_that_are_joined_and_predictions_that_are() -> None:
    scored = (
        "trl/trainer/utils.py",
        "selective",
        "values = torch.stack([torch.logsumexp(lg, dim=-1) for lg in logits])",
    )
    kept = ("app/eval.py", "gather", "logits = torch.cat([logits, one], dim=0)")
    assert logits.working_on_logits(at("4.00 GiB", scored)) is not None
    assert logits.working_on_logits(at("4.00 GiB", kept)) is None


def test_what_a_network_returns_is_not_yet_there() -> None:
    called = ("app/step.py", "step", 'logits = self.net(batch["image"])')
    upcast = ("app/step.py", "step", "logits = logits.float()")
    assert logits.working_on_logits(at("4.00 GiB", called)) is None
    assert logits.working_on_logits(at("4.00 GiB", upcast)) is not None


@pytest.mark.parametrize(
    ("line", "shape", "are_scores"),
    [
        ("self.scores = np.ndarray((n, v), dtype=np.single)", "(16384, 32000)", True),
        ("logits = np.zeros((n, v))", "(2048, 151936)", True),
        ("self.scores = np.ndarray((n, v), dtype=np.single)", "(16384, 4096)", False),  # no vocabulary
        ("self.table = np.ndarray((n, v), dtype=np.single)", "(16384, 32000)", False),
        ("self.scores = np.ndarray((n, v), dtype=np.single)", "(8, 16384, 32000)", False),
    ],
)
def test_scores_of_each_token_of_a_context(line: str, shape: str, are_scores: bool) -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/srv/llm.py", line 9, in __init__',
        f"    {line}",
        f"numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.95 GiB for an array with shape {shape}",
    )
    assert (logits.scores_of_a_context_were_refused(crash(*lines)) is not None) is are_scores


SHORTENED = "torch.OutOfMemoryError: Tried to allocate 9.40 GiB. GPU had 9.11 GiB free of {total}"


@pytest.mark.parametrize(("total", "whole"), [("79.19", 79.19), ("79.19 GiB", 79.19), ("44.5", 44.5)])
def test_a_trace_that_somebody_shortened_keeps_its_line_and_its_figures(total: str, whole: float) -> None:
    it = crash(
        "  -> DistributedLogprob.forward",
        "      sums = vocab_parallel_logits.exp().sum(-1)",
        SHORTENED.format(total=total),
    )
    assert it.root.figures("usage")["total_bytes"] == round(whole * 2**30)
    assert logits.working_on_logits(it) is not None


def test_the_line_of_something_else_above_a_shortened_message_names_no_logits() -> None:
    it = crash("  -> MLP.forward", "      hidden = self.up_proj(hidden).relu()", SHORTENED.format(total="79.19"))
    assert logits.working_on_logits(it) is None


JOINT = 10 * 150 * 40 * 640 * 4  # bytes
SHAPES = ("features (10, 150, 384)", "labels [10, 40, 384]")
ON_THE_HOST = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate {} bytes. Error code 12"


@pytest.mark.parametrize(
    ("launch", "above", "tried", "is_product"),
    [
        ("--vocab_size 640", SHAPES, JOINT, True),
        ("--vocab_size 640", SHAPES, JOINT // 2, True),  # of two bytes
        ("--vocab_size 640", SHAPES, JOINT + 4, False),
        ("--vocab_size 640", SHAPES, JOINT - 640 * 4, False),
        ("--vocab_size 641", SHAPES, JOINT, False),
        ("--units 640", SHAPES, JOINT, False),
        ("--vocab_size 640", (*SHAPES, *(f"read {n} files" for n in range(12))), JOINT, False),
        ("--vocab_size 640", ("features 10, 150, 384",), JOINT, False),
        ("--vocab_size 640", ("features (5, 75)", "labels [5, 32]"), 5 * 75 * 32 * 640 * 4, False),  # 29 MiB
        ("--vocab_size 640", (*SHAPES, f"sizes {tuple(range(20, 25))}", f"more {tuple(range(30, 35))}"), JOINT, False),
    ],
)
def test_the_product_of_lengths_that_shapes_print(
    launch: str, above: tuple[str, ...], tried: int, is_product: bool
) -> None:
    seen = logits.product_of_printed_lengths(crash(f"python rnnt.py {launch}", *above, ON_THE_HOST.format(tried)))
    assert (seen is not None) is is_product
    if seen is not None and tried == JOINT:
        assert "10 x 150 x 40 (printed in shapes above) x 640 words x 4 bytes = 146 MiB" in seen.words


@pytest.mark.parametrize(("tried", "is_product"), [("148.00 MiB", True), ("146.00 MiB", False), ("147.00 MiB", False)])
def test_the_allocator_of_a_card_rounds_up(tried: str, is_product: bool) -> None:
    told = crash("python rnnt.py --vocab_size 640", *SHAPES, refused(tried=tried))
    assert (logits.product_of_printed_lengths(told) is not None) is is_product
    assert (logits.small_for_logits(told) is None) is is_product


ENTROPY = (
    "Traceback (most recent call last):",
    '  File "/srv/speak.py", line 61, in main',
    "    loss = F.cross_entropy(scores.view(-1, words), labels.view(-1))",
)
WHOLE_BATCH = 4 * 8192 * 128256 * 4


@pytest.mark.parametrize(
    ("launch", "lines", "tried", "product", "working"),
    [
        ("--vocab 128256 --seq 8192 --batch 4", ENTROPY, WHOLE_BATCH, True, True),
        ("--vocabulary 128256 --ctx 8192 --bs 4", (), WHOLE_BATCH, True, False),
        ("--vocab 128256 --seq 8192 --batch 5", ENTROPY, WHOLE_BATCH, False, True),
        ("--words 128256 --seq 8192 --batch 4", ENTROPY, WHOLE_BATCH, False, True),
        ("--vocab 128 --seq 8192 --batch 4", ENTROPY, 4 * 8192 * 128 * 4, False, False),  # 16 MiB
    ],
)
def test_logits_on_the_host(launch: str, lines: tuple[str, ...], tried: int, *, product: bool, working: bool) -> None:
    told = crash(f"+ python speak.py {launch}", *lines, ON_THE_HOST.format(tried))
    assert (logits.product_with_the_vocabulary(told) is not None) is product
    assert (logits.working_on_logits(told) is not None) is working


@pytest.mark.parametrize(
    ("above", "tried", "is_product"),
    [
        (("model: 9.1 M parameters, vocabulary 128256", "drawn (32, 80)"), 32 * 32 * 128256 * 4, True),
        (("vocab size: 128,256", "drawn (32, 80)"), 32 * 80 * 128256 * 4, True),
        (("vocabulary 128256.5", "drawn (32, 80)"), 32 * 32 * 128256 * 4, False),
        (("128256 words", "drawn (32, 80)"), 32 * 32 * 128256 * 4, False),
        (("vocabulary 128256", "drawn (31, 80)"), 32 * 32 * 128256 * 4, False),
    ],
)
def test_the_vocabulary_that_a_job_prints(above: tuple[str, ...], tried: int, *, is_product: bool) -> None:
    told = crash(*above, ON_THE_HOST.format(tried))
    assert (logits.product_of_printed_lengths(told) is not None) is is_product
