from __future__ import annotations

from gpu_logs import ADAM, BACKWARD, FORWARD, LOADING, LOSS, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.activations import CAUSE
from oomdoctor.signs import Grade


def test_not_while_the_weights_are_loaded() -> None:
    assert "no activations" in ruled_out(CAUSE, *trace(LOADING), refused())


def test_not_in_the_optimizers_step() -> None:
    assert "no activations" in ruled_out(CAUSE, *trace(ADAM), refused())


OWN = "own computation"


def test_what_only_builds_is_no_computation_of_the_program() -> None:
    data = ("app/data.py", "load", "train_set = PairDataset(files)")
    built = ("app/data.py", "__init__", "self.rows = Rows(files).to(device)")
    for frames in ((data, built), (data, ("app/data.py", "__init__", "super().__init__(files)"))):
        assert says(CAUSE, *trace(*frames), refused()) is None


def test_what_a_constructor_computes_itself_is() -> None:
    made = ("app/run.py", "go", "kernel = Gram(points)")
    assert OWN in finding(CAUSE, *trace(made, ("app/gram.py", "__init__", "self.k = x @ x.T")), refused()).why
    product = ("app/gram.py", "product", "return left @ right")
    inner = trace(made, ("app/gram.py", "__init__", "self.k = self.product(x, x)"), product)
    assert OWN in finding(CAUSE, *inner, refused()).why


def test_it_is_guessed_of_a_bare_message_and_no_more() -> None:
    assert finding(CAUSE, refused()).grade == Grade.HINTS
    assert finding(CAUSE, refused()).unsure
    assert says(CAUSE, "RuntimeError: CUDA error: out of memory") is None


def test_not_first_when_the_innermost_frames_work_on_the_logits() -> None:
    assert ranking(*trace(FORWARD, LOSS), refused(tried="9.28 GiB"))[:2] == ["logits-spike", "activations"]


def test_weaker_when_this_process_holds_less_than_half_of_the_card() -> None:
    found = finding(CAUSE, *trace(FORWARD), refused(own="20.00 GiB", allocated="18.00 GiB", others=((4, "58.80 GiB"),)))
    assert found.grade == Grade.HINTS
    assert "25% of the GPU" in found.against[-1]


def test_in_an_engine_that_serves_it_is_at_most_one_of_two() -> None:
    serving = trace(("vllm/v1/worker/gpu_model_runner.py", "execute_model", "model_output = self.model("), FORWARD)
    found = finding(CAUSE, *serving, refused())
    assert found.grade == Grade.POINTS
    assert found.knobs[0] == "lower-engine-reservation"


def test_the_backward_pass_of_a_training_step() -> None:
    found = finding(CAUSE, *trace(BACKWARD), refused(tried="2.47 GiB"))
    assert found.grade == Grade.NAMES
    assert "backward pass" in found.why
    assert ranking(*trace(BACKWARD), refused(tried="2.47 GiB"))[0] == "activations"


def test_a_recomputed_forward_pass_is_part_of_the_backward_pass() -> None:
    checkpoint = ("torch/utils/checkpoint.py", "recompute_fn", "fn(*args, **kwargs)")
    assert "backward pass" in finding(CAUSE, *trace(BACKWARD, checkpoint, FORWARD), refused()).why


def test_tensorflow_names_the_shape() -> None:
    line = (
        "ResourceExhaustedError: OOM when allocating tensor with shape[64,512,128,128] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
    )
    assert "[64,512,128,128]" in finding(CAUSE, line).why


def xla(size: int) -> tuple[str, ...]:
    return (
        "    out = compiled(*args)",
        f"jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {size} bytes.",
    )


def test_not_a_small_array_on_a_card_that_is_full() -> None:
    assert "activations" not in ranking(*xla(4194304))
    assert ranking(*xla(4294967296))[0] == "activations"


def test_a_request_larger_than_the_card_is_a_tensor_over_all_pairs() -> None:
    found = finding(CAUSE, refused(tried="91.50 GiB", own="20.00 GiB", allocated="18.00 GiB"))
    assert "all pairs" in found.why
    assert "memory-efficient-attention" in found.knobs
    assert ranking(refused(tried="500.00 GiB", own="20.00 GiB", allocated="18.00 GiB"))[0] == "activations"
    assert ranking(refused(tried="1300.00 GiB"))[0] == "absurd-size"


def test_attention_of_the_jobs_own_tells_the_pass() -> None:
    scores = ("app/net.py", "run", "w = torch.softmax(scores, dim=-1)")
    assert "In the forward pass" in finding(CAUSE, *trace(scores), refused()).why
    joined = ("app/net.py", "run", "w = torch.cat(scores)")
    assert "does not show which pass" in finding(CAUSE, *trace(joined), refused()).against[0]


def test_before_a_step_is_done_the_optimizers_states_are_still_to_come() -> None:
    start = "steps:   0% 0/1800 [00:02<?, ?it/s]"
    launch = "python sd-scripts/sdxl_train.py --config full.toml"
    for lines in ((launch, start, refused()), (launch, refused(), start)):
        assert "low-memory-optimizer" in finding(CAUSE, *lines).knobs[:3]
    for others in (
        (launch, "", refused()),
        (launch, "steps:   1% 18/1800 [00:40<57:11,  1.92s/it]", refused()),
        (launch, "steps:  10% 180/1800 [05:40<57:11,  1.92s/it]", refused()),
        ("python draw.py", start, refused()),
    ):
        assert "low-memory-optimizer" not in finding(CAUSE, *others).knobs


def test_sharded_states_may_lie_in_host_memory() -> None:
    gather = ("deepspeed/runtime/zero/partition_parameters.py", "_allgather_params", "whole = torch.empty(shape)")
    assert {"offload-optimizer", "offload-parameters"} <= set(finding(CAUSE, *trace(gather), refused()).knobs)
    assert "offload-parameters" not in finding(CAUSE, *trace(gather, FORWARD), refused()).knobs
