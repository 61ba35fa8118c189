from __future__ import annotations

import pytest
from gpu_logs import BACKWARD, FORWARD, LOADING, crash, refused, trace

from oomdoctor.incident.model import Crash
from oomdoctor.signs import loading


def while_loading(own: str, tried: str = "1.00 GiB") -> Crash:
    return crash(*trace(LOADING), refused(tried, total="80.00 GiB", own=own, allocated=None))


@pytest.mark.parametrize(
    ("own", "fills", "meets"),
    [("56.00 GiB", 1, 1), ("55.90 GiB", 0, 1), ("40.00 GiB", 0, 1), ("39.90 GiB", 0, 0)],
)
def test_how_much_of_the_card_is_the_loaders(own: str, fills: int, meets: int) -> None:
    assert bool(loading.loading_fills_the_card(while_loading(own))) is bool(fills)
    assert bool(loading.loading_meets_a_full_card(while_loading(own))) is bool(meets)


def test_one_piece_larger_than_the_card_needs_no_others() -> None:
    assert loading.loading_fills_the_card(while_loading("9.00 GiB", tried="80.10 GiB")) is not None
    assert loading.loading_fills_the_card(while_loading("9.00 GiB", tried="79.90 GiB")) is None


@pytest.mark.parametrize(
    ("tried", "own", "is_alone"),
    [("80.10 GiB", "3.90 GiB", True), ("80.10 GiB", "4.00 GiB", False), ("80.00 GiB", "3.90 GiB", False)],
)
def test_one_piece_on_a_card_that_holds_a_context_at_most(tried: str, own: str, is_alone: bool) -> None:
    line = refused(tried, total="80.00 GiB", own=own, allocated=None)
    assert (loading.one_piece_on_an_empty_card(crash(line)) is not None) is is_alone
    assert loading.one_piece_on_an_empty_card(crash(*trace(BACKWARD), line)) is None


START = ("seed 17, world size 1", "tokenizer: 32000 entries", "student: 6.7e9", "teacher: 13.0e9", "compiling")


@pytest.mark.parametrize(
    ("lines", "tried", "allocated", "is_before"),
    [
        (START, "512.00 MiB", "76.00 GiB", True),
        (START[1:], "512.00 MiB", "76.00 GiB", False),
        (START, "20.00 MiB", "76.00 GiB", False),
        (START, "512.00 MiB", "75.90 GiB", False),
    ],
)
def test_live_tensors_before_any_step(lines: tuple[str, ...], tried: str, allocated: str, is_before: bool) -> None:
    line = refused(tried, total="80.00 GiB", own="79.00 GiB", allocated=allocated)
    assert (loading.live_tensors_before_any_step(crash(*lines, line)) is not None) is is_before


@pytest.mark.parametrize(("share", "allocated", "is_beyond"), [("0.5", "56.00 GiB", True), ("0.5", "55.90 GiB", False)])
def test_live_tensors_beyond_an_engines_share(share: str, allocated: str, is_beyond: bool) -> None:
    launch = f"vllm serve some/model --gpu-memory-utilization {share}"
    line = refused(total="80.00 GiB", own="79.00 GiB", allocated=allocated)
    assert (loading.live_tensors_beyond_any_share(crash(launch, line)) is not None) is is_beyond


def test_a_job_that_computes_is_beyond_loading() -> None:
    for frames, is_beyond in (((LOADING,), False), ((FORWARD,), True), ((LOADING, FORWARD, BACKWARD), True)):
        assert (loading.beyond_loading(crash(*trace(*frames), refused())) is not None) is is_beyond


def test_states_are_there_where_a_trainer_is() -> None:
    setup = ("app/trainers.py", "__init__", "self.model.to(self.device)")
    flat = ("deepspeed/runtime/zero/stage_1_and_2.py", "__init__", "self.flatten_dense_tensors_aligned(")
    for frame, is_inference in ((LOADING, True), (setup, False), (flat, False)):
        assert (loading.nothing_is_trained(crash(*trace(frame), refused())) is not None) is is_inference


CREATION = (
    "RuntimeError: Executor creation failed due to insufficient GPU memory.",
    "",
    "The following component could not be created: {}",
    "Total GPU memory (GiB): 80.00",
    "Free GPU memory before component creation attempt (GiB): {}",
)


@pytest.mark.parametrize(
    ("component", "free", "fills"),
    [
        ("Initial KV cache (temporary for KV cache size estimation)", "8.00", True),
        ("Initial KV cache (temporary for KV cache size estimation)", "8.01", False),
        ("KV cache", "8.00", False),
    ],
)
def test_weights_fill_the_card_before_an_engine_measures(component: str, free: str, fills: bool) -> None:
    lines = "\n".join(CREATION).format(component, free).split("\n")
    assert (loading.executors_weights_fill_the_card(crash(*lines)) is not None) is fills


@pytest.mark.parametrize(("words", "is_said"), [("too large for the device's HBM memory", True), ("large", False)])
def test_the_program_says_that_the_model_is_too_large(words: str, is_said: bool) -> None:
    line = f"RuntimeError: CUDA error: out of memory, the model is {words}"
    assert (loading.message_says_that_the_model_is_too_large(crash(line)) is not None) is is_said


FIGURELESS = "RuntimeError: CUDA failed with error out of memory"
INIT = (
    "Traceback (most recent call last):",
    '  File "/srv/asr/model.py", line 9, in load_model',
    "    self.net = Net(path)",
)
RUN = (
    "Traceback (most recent call last):",
    '  File "/srv/asr/model.py", line 90, in transcribe',
    "    out = self.net(x)",
)


@pytest.mark.parametrize(
    ("lines", "is_seen"),
    [
        ((*INIT, FIGURELESS), True),
        ((*RUN, FIGURELESS), False),
        (("Loading model.safetensors...", FIGURELESS), False),  # nothing but a line far from the failure
        ((*INIT, refused("1.00 GiB", total="80.00 GiB", own="3.00 GiB", allocated=None)), False),  # prints figures
        ((*INIT, "RuntimeError: std::bad_alloc"), False),  # host memory
    ],
)
def test_an_allocator_without_figures_refused_a_loader(lines: tuple[str, ...], is_seen: bool) -> None:
    assert (loading.another_loader_was_refused(crash(*lines)) is not None) is is_seen


@pytest.mark.parametrize(
    ("words", "knobs"),
    [
        ("RuntimeError: not enough VRAM for the model and its cache", ("shorter-context", "quantize-kv-cache")),
        ("RuntimeError: not enough VRAM for the model", ()),
        ("RuntimeError: not enough VRAM for the model: the cached one is kept", ()),
    ],
)
def test_what_does_not_fit_with_its_cache_may_have_a_smaller_one(words: str, knobs: tuple[str, ...]) -> None:
    seen = loading.another_loader_was_refused(crash(*INIT, words))
    assert seen is not None
    assert seen.knobs == knobs


BEFORE = "lib/torch/__init__.py:614: UserWarning: torch.set_default_tensor_type() is deprecated as of PyTorch 2.1"
STORY = 'File "/u/llama/example_text_completion.py", line 61, in <module>'
FULL = refused("96.00 MiB", total="24.00 GiB", own="23.80 GiB", allocated="23.10 GiB")


@pytest.mark.parametrize(
    ("lines", "is_seen"),
    [
        ((BEFORE, STORY, FULL), True),
        ((BEFORE, STORY.replace("text", "chat"), FULL), True),
        ((BEFORE, STORY, "Loaded in 31.07 seconds", FULL), False),
        ((STORY, FULL), False),  # it may be gathering its checkpoint in host memory, or answering
        ((BEFORE, STORY.replace("example_text_completion", "train_nerf"), FULL), False),  # anybody's default
        ((BEFORE, STORY, *trace(FORWARD), FULL), False),
        ((BEFORE, STORY, "RuntimeError: CUDA error: out of memory"), False),  # prints no figures
    ],
)
def test_metas_program_says_when_its_model_is_loaded(lines: tuple[str, ...], is_seen: bool) -> None:
    seen = loading.program_makes_its_model(crash(*lines))
    assert (seen is not None) is is_seen
    assert seen is None or seen.stage == "model_load"


RENDER = ("app/scene.py", "draw", "return _C.blend_everything(*arguments)")


def test_one_piece_of_a_computation_is_no_model() -> None:
    line = refused("80.10 GiB", total="80.00 GiB", own="3.90 GiB", allocated=None)
    for lines, is_alone in (
        (trace(RENDER), False),
        (["    image, radii = _C.rasterize_gaussians(*arguments)"], False),
        (trace(("app/scene.py", "__init__", "self.net = Net(width).cuda()")), False),  # that is the model on its way
        (["    image, radii = _C.blend_everything(*arguments)"], True),
    ):
        assert (loading.one_piece_on_an_empty_card(crash(*lines, line)) is not None) is is_alone


def test_an_optimizers_state_comes_after_the_weights() -> None:
    inside = ("torch/optim/optimizer.py", "load_state_dict", "state_dict = deepcopy(state_dict)")
    outside = ("app/keep.py", "back", 'self.optimizer.load_state_dict(kept["optimizer"])')
    model = ("torch/nn/modules/module.py", "load_state_dict", "load(self, state_dict)")
    for frames, is_beyond in (((outside, inside), True), ((outside,), True), ((model,), False)):
        assert (loading.beyond_loading(crash(*trace(*frames), refused())) is not None) is is_beyond


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("packed = ops.awq_marlin_repack(weight, size_k=4096)", "model_load"),
        ("out = ops.gptq_marlin_gemm(x, weight)", "engine_init"),
    ],
)
def test_an_engine_that_repacks_its_weights_is_loading(line: str, stage: str) -> None:
    launch = "vllm serve acme/chat --gpu-memory-utilization 0.7"
    full = refused(total="80.00 GiB", own="79.70 GiB", allocated="79.50 GiB")
    seen = loading.live_tensors_beyond_any_share(crash(launch, line, full))
    assert seen is not None
    assert (seen.stage, bool(seen.against)) == (stage, stage == "engine_init")
