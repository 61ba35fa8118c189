from __future__ import annotations

import pytest
from gpu_logs import ADAM, BACKWARD, FORWARD, LOADING, LOSS, crash, refused, trace

from oomdoctor.incident.model import Crash
from oomdoctor.signs import generation, passes

SERVING = ("vllm/v1/worker/gpu_model_runner.py", "execute_model", "model_output = self.model(")
SAMPLING = ("vllm/v1/sample/sampler.py", "forward", "return logits.argmax(dim=-1)")
PROFILING = ("vllm/v1/worker/gpu_worker.py", "profile_run", "self.model_runner.profile_run()")


def failed(*frames: tuple[str, str, str], own: str = "78.82 GiB") -> Crash:
    return crash(*trace(*frames), refused(own=own, allocated=None))


def test_not_a_pass_while_loading_or_updating() -> None:
    for frame in (LOADING, ADAM):
        assert passes.in_a_forward_pass(failed(frame)) is None
        assert passes.in_a_backward_pass(failed(frame)) is None
        assert passes.while_loading_or_updating(failed(frame)) is not None


def test_a_pass_is_one_of_the_jobs_or_of_an_engines() -> None:
    for sign, frames in (
        (passes.in_a_backward_pass, (BACKWARD,)),
        (passes.in_a_forward_pass, (FORWARD,)),
        (passes.measuring_its_need, (PROFILING, FORWARD)),
        (passes.in_an_engines_pass, (SERVING, FORWARD)),
    ):
        assert sign(failed(*frames)) is not None
        for other in {passes.in_a_backward_pass, passes.in_a_forward_pass, passes.in_an_engines_pass} - {sign}:
            assert other(failed(*frames)) is None
        assert passes.while_loading_or_updating(failed(*frames)) is None


def test_a_recomputed_pass_is_a_backward_one() -> None:
    assert passes.in_a_backward_pass(failed(BACKWARD, FORWARD)) is not None
    assert passes.in_a_forward_pass(failed(BACKWARD, FORWARD)) is None


def test_only_an_engine_has_steps_with_causes_of_their_own() -> None:
    seeing = ("app/vision/encoder.py", "forward", "x = self.patches(pixels)")
    assert passes.in_an_engines_special_step(failed(seeing)) is None
    assert passes.in_an_engines_special_step(failed(SERVING, FORWARD)) is None
    assert passes.in_an_engines_special_step(failed(SERVING, SAMPLING)) is not None


@pytest.mark.parametrize(("own", "is_less"), [("39.60 GiB", False), ("39.50 GiB", True)])
def test_half_of_the_card(own: str, is_less: bool) -> None:
    assert (passes.holds_less_than_half(failed(FORWARD, own=own)) is not None) is is_less


def test_an_engine_and_a_load_may_hold_less_than_half() -> None:
    assert passes.holds_less_than_half(failed(SERVING, FORWARD, own="9.00 GiB")) is None
    assert passes.holds_less_than_half(failed(LOADING, own="9.00 GiB")) is None


def test_the_logits_are_the_innermost_frames() -> None:
    assert passes.at_the_logits(failed(FORWARD, LOSS)) is not None
    assert passes.at_the_logits(failed(LOSS, FORWARD, FORWARD, FORWARD)) is None
    assert passes.at_the_logits(failed(SERVING, LOSS)) is None


@pytest.mark.parametrize(
    ("tried", "own", "is_beside"),
    [
        ("79.10 GiB", "20.00 GiB", False),
        ("79.20 GiB", "20.00 GiB", True),
        ("79.20 GiB", "4.00 GiB", True),
        ("79.20 GiB", "3.90 GiB", False),
    ],
)
def test_one_piece_is_larger_than_the_card_and_a_twentieth_of_it_is_held(tried: str, own: str, is_beside: bool) -> None:
    refusal = refused(tried=tried, own=own, allocated=None)
    assert (passes.one_piece_beside_a_model(crash(refusal)) is not None) is is_beside
    assert passes.one_piece_beside_a_model(crash(*trace(FORWARD), refusal)) is None


def test_a_program_that_only_serves_has_no_engines_settings() -> None:
    chat = ("app/server.py", "generate", "return self.model(ids)")
    assert passes.with_an_engines_settings(failed(SERVING, FORWARD)) is not None
    assert passes.with_an_engines_settings(failed(chat, FORWARD)) is None
    assert passes.generating(failed(chat, FORWARD)) is not None
    assert passes.generating(failed(BACKWARD)) is None
    for function, generates in (("_forward_generate", True), ("generate_masks", False), ("regenerate", False)):
        assert (passes.generating(failed(("app/tile.py", function, "x = f(x)"))) is not None) is generates


def test_few_tokens_of_an_answer_keep_little() -> None:
    told = "Output generated in 4.07 seconds ({} tokens/s, {} tokens, context {}, seed 90210)"
    line = refused("20.00 MiB", total="16.00 GiB", own="15.90 GiB", allocated="15.10 GiB")
    for answer, context, is_seen in ((1, 400, True), (600, 400, True), (601, 400, False), (1, 1000, False)):
        after = told.format(2.1, answer, context)
        assert (generation.little_was_generated(crash(*trace(FORWARD), line, after)) is not None) is is_seen
    for lines in (
        (told.format(2.1, 30, 40), *trace(FORWARD), line),  # the answer before
        (*trace(FORWARD), line, told.format(0.0, 0, 40)),  # was not streamed: nobody counted
        (*trace(FORWARD), line, "Output generated in 4.07 seconds"),
        (*trace(FORWARD), line),
    ):
        assert generation.little_was_generated(crash(*lines)) is None


def test_what_is_beyond_the_whole_gpu_needs_no_others() -> None:
    for tried, is_less in (("80.10 GiB", False), ("79.90 GiB", True)):
        line = refused(tried, total="80.00 GiB", own="4.00 GiB", allocated=None)
        assert (passes.holds_less_than_half(crash(*trace(FORWARD), line)) is not None) is is_less


BUFFER = "buf22 = empty_strided_cuda((54000, 4096), (4096, 1), torch.bfloat16)"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = torch.empty_strided((54, 40), (40, 1))", None),
        ("buf22 = buf7; del buf7", None),
        ("buf3 = empty_strided_cuda((s0, 4096), (4096, 1), torch.bfloat16)", None),
        (BUFFER, "a buffer of 54,000 x 4,096 (bfloat16)"),
        ("buf0 = empty_strided((2, ), (1, ), device='cuda', dtype=torch.float32)", "a buffer of 2 (float32)"),
    ],
)
def test_a_compiled_program_prints_the_shape_of_its_buffer(code: str, told: str | None) -> None:
    it = crash(*trace(("a/cab.py", "call", code)), refused())
    assert passes.compiled_buffer(it) == told
    seen = passes.in_its_own_computation(it)
    assert seen is not None
    assert ("compiled by torch.compile" in seen.words) is (told is not None)


ENGINE = ("studio/engine.py", "__init__", "self._dummy_run()")
RAISED = ("studio/engine.py", "_dummy_run", 'raise RuntimeError(f"Dummy run failed: {output.error}")')


@pytest.mark.parametrize(
    ("frames", "is_dummy"),
    [
        ((ENGINE, RAISED), True),
        ((("studio/engine.py", "run_warmup", "raise RuntimeError(output.error)"),), True),
        ((RAISED, ("studio/engine.py", "load_weights", "w.copy_(x)")), False),
        ((("studio/lr.py", "warmup_steps", "return step"),), False),
    ],
)
def test_made_up_inputs_of_a_starting_engine(frames: tuple[tuple[str, str, str], ...], is_dummy: bool) -> None:
    assert (passes.in_a_dummy_pass(failed(*frames)) is not None) is is_dummy
    assert passes.in_a_dummy_pass(crash("./server --warmup -ngl 99", refused())) is None  # no traceback


def quantizing(*lines: str) -> Crash:
    return crash(*lines, refused("96.00 GiB", free="70.12 GiB", own=None, allocated=None, unallocated=None))


AWQ = ("awq/quantize/quantizer.py", "quantize", "self._search_best_scale(block)")
LOAD = "model = AutoModelForCausalLM.from_pretrained(path)"


@pytest.mark.parametrize(
    ("lines", "calibrates"),
    [
        ((LOAD, "model.quantize(tokenizer, quant_config=config)"), True),
        (("model.quantize(calibration, batch_size=8)",), True),
        (("model.quantize(examples)",), True),
        (("quantizer.quantize_model(model, tokenizer)",), True),
        (("oneshot(model=model, dataset=rows, recipe=recipe)",), True),
        (tuple(trace(("awq/quantize/quantizer.py", "_compute_best_clip", "cur_out = (x * w).sum(dim=-1)"))), True),
        (tuple(trace(("gptqmodel/looper/module_looper.py", "loop", "layer(*inputs)"))), True),
        ((LOAD,), False),
        (("model = AutoModel.from_pretrained(path).quantize(4).cuda()",), False),  # the weights alone
        (("model = model.quantize(8)",), False),
        (("nn.quantize(model, bits=4)",), False),
        (("codes = self.codebook.quantize(latents)",), False),  # a layer's own
        (("price = price.quantize(CENT)",), False),
        (("small = picture.quantize(64)",), False),
        (tuple(trace(AWQ, ("torch/nn/modules/module.py", "convert", "return t.to("))), False),  # a layer moves first
        (tuple(trace(("gptqmodel/models/base.py", "quantize", 'layers[0] = layers[0].to("cuda:1")'))), False),
        (tuple(trace(AWQ)), True),
        (tuple(trace(AWQ, ("awq/quantize/quantizer.py", "pseudo_quantize_tensor", "w = w.reshape(-1, size)"))), True),
        (tuple(trace(("auto_gptq/modeling/_base.py", "from_quantized", "model = load_checkpoint(m)"))), False),
        (tuple(trace(BACKWARD)), False),
    ],
)
def test_samples_run_through_a_model_that_is_quantized(lines: tuple[str, ...], calibrates: bool) -> None:
    log = quantizing(*lines)
    assert (passes.calibrating(log) is not None) is calibrates
    assert not calibrates or passes.in_a_forward_pass(log) is not None


@pytest.mark.parametrize(
    ("code", "loads"),
    [
        ("model = net.to(device)", True),
        ("self.table = table.to(self.device)", True),
        ("weights = weights.cuda()", True),
        ("x = x.to(torch.float32)", False),
        ("hidden = hidden.to(input_dtype)", False),
        ("scores = scores.to(value.dtype)", False),
        ("mask = mask.to(dtype=torch.bool)", False),
    ],
)
def test_another_type_is_no_move(code: str, loads: bool) -> None:
    log = failed(("app/block.py", "mix", code))
    assert (passes.in_its_own_computation(log) is None) is loads
