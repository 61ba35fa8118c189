from __future__ import annotations

import pytest
from gpu_logs import ADAM, BACKWARD, FORWARD, LOADING, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.model_does_not_fit import CAUSE
from oomdoctor.decision.judgement import Finding
from oomdoctor.signs import Grade


def test_not_after_the_backward_pass_has_begun() -> None:
    assert "passed loading" in ruled_out(CAUSE, *trace(FORWARD, BACKWARD), refused())


def test_not_in_the_optimizer() -> None:
    assert "passed loading" in ruled_out(CAUSE, *trace(ADAM), refused())


def test_not_when_others_hold_the_card_while_it_loads() -> None:
    lines = (
        *trace(LOADING),
        refused(own="12.00 GiB", unallocated="0 bytes", allocated="11.00 GiB", others=((9, "66.80 GiB"),)),
    )
    assert says(CAUSE, *lines) is None
    assert ranking(*lines)[0] == "gpu-shared"


def test_not_a_forward_pass_in_a_module_that_moves_a_tensor() -> None:
    moving = ("app/model.py", "forward", "x = x.to(self.device)")
    assert not isinstance(says(CAUSE, *trace(FORWARD, moving), refused()), Finding)


def test_weights_that_fill_the_card_while_they_are_loaded() -> None:
    found = finding(CAUSE, *trace(LOADING), refused(tried="224.00 MiB"))
    assert found.grade == Grade.PROVES
    assert "while the weights were loading" in found.why


def test_layers_that_are_made_on_the_card() -> None:
    layer = ("vllm/model_executor/models/llama.py", "__init__", "self.qkv_proj = QKVParallelLinear(")
    create = ("vllm/model_executor/layers/linear.py", "create_weights", "weight = Parameter(torch.empty(")
    assert ranking(*trace(layer, create), refused(tried="160.00 MiB"))[0] == "model-does-not-fit"


def test_one_request_larger_than_the_card() -> None:
    found = finding(
        CAUSE, *trace(LOADING), refused(tried="131.00 GiB", free="78.00 GiB", own="1.00 GiB", allocated="512.00 MiB")
    )
    assert found.grade == Grade.PROVES


def test_a_compiled_program_whose_arguments_are_larger_than_the_device() -> None:
    lines = (
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 21.20G of 15.75G hbm.",
        "Total hbm usage >= 21.70G:",
        "    reserved        512.00M",
        "    program           4.01G",
        "    arguments        17.19G",
    )
    assert "17.19 GiB, more than the GPU has" in finding(CAUSE, *lines).why
    assert ranking(*lines)[0] == "model-does-not-fit"


def test_one_piece_larger_than_an_empty_card() -> None:
    empty = refused("31.00 GiB", "23.60 GiB", "23.20 GiB", own="312.00 MiB", allocated="0 bytes", unallocated="0 bytes")
    assert ranking(empty)[0] == "model-does-not-fit"
    assert finding(CAUSE, empty).against


def test_not_one_piece_larger_than_a_card_that_is_in_use() -> None:
    assert says(CAUSE, refused(tried="31.00 GiB", total="23.60 GiB", own="14.00 GiB", allocated="13.40 GiB")) is None


ENGINE_START = "INFO 02-10 10:00:01 [core.py:58] Initializing a V1 LLM engine (v0.9.2) with config: model='/m/big'"


def test_live_tensors_to_the_brim_of_an_engines_card() -> None:
    brim = refused(tried="80.00 MiB", free="50.00 MiB", own="79.10 GiB", allocated="78.90 GiB", unallocated="9.00 MiB")
    assert ranking(ENGINE_START, brim)[0] == "model-does-not-fit"
    assert "model-does-not-fit" not in ranking(ENGINE_START, refused(own="73.00 GiB", allocated="71.00 GiB"))


def test_without_a_trainer_nothing_is_sharded_first() -> None:
    line = refused(total="23.60 GiB", own="23.40 GiB", allocated="23.10 GiB")
    assert finding(CAUSE, *trace(LOADING), line).knobs[:2] == ("quantize-weights", "tensor-parallel")
    deepspeed = "[INFO] DeepSpeed info: version=0.16.4, git-hash=unknown, git-branch=unknown"
    assert finding(CAUSE, deepspeed, *trace(LOADING), line).knobs == CAUSE.knobs


def test_not_a_huge_request_in_a_step_that_the_trainer_catches() -> None:
    line = "WARNING | trainer | OOM: Ran out of memory with exception: " + refused(
        tried="120.00 GiB", free="76.00 GiB", own=None, allocated="1.20 GiB", unallocated="20.00 MiB"
    )
    assert "model-does-not-fit" not in ranking(line, "Traceback (most recent call last):", "Exception:")


def test_tensors_made_on_a_stated_device_in_an_engine() -> None:
    made = ("torch/utils/_device.py", "__torch_function__", "return func(*args, **kwargs)")
    line = refused(tried="30.00 MiB", free="12.00 MiB", allocated="78.60 GiB", own="79.10 GiB", unallocated="90.00 MiB")
    assert ranking("INFO engine.py:1 -- vllm 0.9.0", *trace(made), line)[0] == "model-does-not-fit"


def test_live_tensors_well_beyond_the_stated_share() -> None:
    line = refused(tried="3.00 GiB", free="1.50 GiB", allocated="76.60 GiB", own="77.10 GiB", unallocated="30.00 MiB")
    served = "vllm serve some/model --gpu-memory-utilization "
    assert ranking(f"{served}0.5", line)[0] == "model-does-not-fit"
    assert ranking(f"{served}0.9", line)[0] == "vllm-utilization-too-high"


STARTED = (
    "seed 17, world size 1",
    "tokenizer: 32000 entries",
    "student: 6.7e9 parameters",
    "teacher: 13.0e9 parameters",
    "both on the card, compiling",
)
BRIMFUL = refused(allocated="76.00 GiB", unallocated="1.00 GiB")


def watchdog(sequence: int, operation: str = "ALLREDUCE") -> str:
    return (
        "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn=52428800, NumelOut=52428800, Timeout(ms)=600000) "
        "ran for 600021 milliseconds before timing out."
    )


def test_live_tensors_to_the_brim_where_the_start_is_shown_and_no_step() -> None:
    assert finding(CAUSE, *STARTED, BRIMFUL).grade == Grade.LEFT
    assert ranking(*STARTED, BRIMFUL)[0] == "model-does-not-fit"
    launched = "python distill.py --teacher-model /m/13b --batch-size 2"
    assert ranking(launched, BRIMFUL)[0] == "model-does-not-fit"


def test_a_message_alone_is_no_evidence_that_there_was_no_step() -> None:
    assert ranking(BRIMFUL)[0] == "activations"
    assert says(CAUSE, BRIMFUL) is None
    assert says(CAUSE, "both on the card, compiling", BRIMFUL) is None
    assert says(CAUSE, *trace(("app/run.py", "go", "run()")), "", "", BRIMFUL) is None


def test_not_live_tensors_to_the_brim_in_a_running_job() -> None:
    bar = " 12%|#2   | 30/250 [01:00<07:20,  2.00s/it]"
    assert not isinstance(says(CAUSE, *STARTED, bar, BRIMFUL), Finding)
    assert not isinstance(says(CAUSE, *STARTED, refused(allocated="60.00 GiB", unallocated="17.00 GiB")), Finding)


def test_not_where_the_other_ranks_wait_in_a_late_collective() -> None:
    late = (*STARTED, "[rank1]: " + BRIMFUL, watchdog(21907))
    assert says(CAUSE, *late) is None
    assert ranking(*late)[:2] == ["activations", "gpu-memory-exhausted"]


@pytest.mark.parametrize(("sequence", "operation"), [(3, "ALLREDUCE"), (640, "ALLREDUCE"), (1450, "BROADCAST")])
def test_setting_up_takes_collectives_too(sequence: int, operation: str) -> None:
    lines = (*STARTED, "[rank1]: " + BRIMFUL, watchdog(sequence, operation))
    assert ranking(*lines)[:2] == ["model-does-not-fit", "activations"]


MAIN = ("app/launch.py", "main", "run(options)")
MADE = ("app/workflow.py", "run", "trainer = PreferenceTrainer(")
SUPER = ("app/trainers.py", "__init__", "super().__init__(**options)")


def test_a_traceback_that_ends_in_a_constructor_had_computed_nothing() -> None:
    found = finding(CAUSE, *trace(MAIN, MADE, SUPER), refused())
    assert found.against
    assert found.grade == Grade.HINTS
    assert "computes nothing" in found.why
    assert found.knobs == CAUSE.knobs
    ranked = ranking(*trace(MAIN, MADE, SUPER), refused())
    assert ranked[0] == "model-does-not-fit"
    assert "activations" not in ranked


def test_others_on_the_card_come_first_while_a_trainer_is_built() -> None:
    shared = refused(own="9.00 GiB", allocated="8.10 GiB", unallocated="20.00 MiB", others=((71, "69.80 GiB"),))
    assert ranking(*trace(MAIN, MADE, SUPER), shared)[0] == "gpu-shared"


def test_not_a_pass_that_a_constructor_starts() -> None:
    warm = ("app/trainers.py", "__init__", "self.warm_up(sample)")
    assert ranking(*trace(MAIN, MADE, warm, FORWARD), refused())[0] == "activations"
    assert "model-does-not-fit" not in ranking(*trace(MAIN, MADE, warm, FORWARD), refused())


def test_a_plan_that_leaves_layers_off_the_card() -> None:
    line = (
        "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the "
        "quantized model."
    )
    found = finding(CAUSE, line)
    assert "part of the weights does not fit on the GPU" in found.why
    assert found.stage == "model_load"
    assert ranking(line)[0] == "model-does-not-fit"


def test_states_that_the_trainer_lays_out_before_the_first_batch() -> None:
    flat = ("deepspeed/runtime/zero/stage_1_and_2.py", "__init__", "self.flatten_dense_tensors_aligned(")
    configure = ("deepspeed/runtime/engine.py", "_configure_zero_optimizer", "optimizer = DeepSpeedZeroOptimizer(")
    lines = (*trace(configure, flat), refused(tried="13.00 GiB"))
    assert "weights, gradients and optimizer states" in finding(CAUSE, *lines).why
    assert ranking(*lines)[0] == "model-does-not-fit"
    assert "passed loading" in ruled_out(CAUSE, *trace(configure, FORWARD, BACKWARD), refused(tried="13.00 GiB"))


def test_the_weights_of_turbomind_and_not_those_of_its_ancestor() -> None:
    line = "[TM][ERROR] CUDA runtime error: out of memory /opt/{}/src/turbomind/utils/memory_utils.cu:32"
    assert "allocated the model's weights" in finding(CAUSE, line.format("lmdeploy")).why
    assert says(CAUSE, line.format("ft").replace("turbomind", "fastertransformer").replace("TM", "FT")) is None


def test_the_smallest_step_beside_the_weights_but_not_the_cache() -> None:
    line = "RuntimeError: No enough gpu memory for {}."
    found = finding(CAUSE, line.format("runtime"))
    assert "not even the engine's smallest step" in found.why
    assert ranking(line.format("runtime"))[0] == "model-does-not-fit"
    assert "model-does-not-fit" not in ranking(line.format("kv cache"))


GGML_FREE = "llama_model_load_from_file_impl: using device CUDA{} (NVIDIA RTX A4500) (0000:41:00.0) - 19603 MiB free"
GGML_ASKED = "ggml_cuda_buffer_type_alloc_buffer: allocating {} MiB on device 0: cudaMalloc failed: out of memory"
GGML_WEIGHTS = "llama_model_load: error loading model: unable to allocate CUDA0 buffer"


def test_ggmls_buffers_are_held_against_what_this_card_had() -> None:
    whole = finding(CAUSE, GGML_FREE.format(0), GGML_ASKED.format("24310.75"), GGML_WEIGHTS)
    assert "weights (23.74 GiB) could not be allocated on the GPU; 19.14 GiB was free" in whole.why
    assert whole.grade == Grade.PROVES
    other = finding(CAUSE, GGML_FREE.format(1), GGML_ASKED.format("24310.75"), GGML_WEIGHTS)
    assert "free" not in other.why
    assert other.grade == Grade.NAMES


def test_ggmls_compute_buffer_is_not_the_weights() -> None:
    sized = "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 1073741824"
    found = finding(CAUSE, GGML_FREE.format(0), sized)
    assert "A buffer of 1.00 GiB could not be allocated; 19.14 GiB was free at startup" in found.why
    assert found.grade == Grade.HINTS
    assert "not for the weights" in found.against[0]


def test_the_weights_of_ggml_without_their_size() -> None:
    found = finding(CAUSE, GGML_FREE.format(0), GGML_WEIGHTS)
    assert "weights could not be allocated on the GPU; 19.14 GiB was free" in found.why


PLAN = (
    'time=2025-02-11T21:14:03.122+01:00 level=INFO source=memory.go:356 msg="offload to cuda" layers.requested=-1 '
    'layers.model=81 layers.offload=44 memory.available="[23.1 GiB]" memory.required.full="48.2 GiB" '
    'memory.required.partial="22.1 GiB"'
)
ALLOCATIONS = (
    "panic: insufficient memory - required allocations: {{InputWeights:550502400A CPU:{{Name:CPU UUID: Weights:[0A 0A] "
    "Cache:[0U 0U] Graph:0U}} GPUs:[{{Name:CUDA0 UUID:GPU-0b1c Weights:[210763776A {weights}] Cache:[0U 0U] "
    "Graph:{graph}}}]}}"
)


def test_ollamas_list_says_that_the_weights_failed() -> None:
    found = finding(CAUSE, PLAN, ALLOCATIONS.format(weights="4294967296F", graph="0U"))
    assert "could not allocate 4.00 GiB for the model. Ollama had planned 44 of 81 layers" in found.why
    assert "estimate is too low" not in found.why
    assert not isinstance(says(CAUSE, ALLOCATIONS.format(weights="210763776A", graph="1275068416F")), Finding)


def test_a_simulation_has_no_model_to_load() -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/lab/fold.py", line 31, in <module>',
        "    simulation = Simulation(top, system, langevin)",
        '  File "/env/{}/app/simulation.py", line 98, in __init__',
        "    self.context = Context(self.system, self.integrator)",
        "{}Error: Error creating array pmeGrid2: CUDA_ERROR_OUT_OF_MEMORY (2)",
    )
    assert says(CAUSE, *(line.format("openmm") for line in lines)) is None
    assert isinstance(says(CAUSE, *(line.format("nets") for line in lines)), Finding)


def of_a_small_card(total: str) -> str:
    return refused(
        tried="48.00 MiB", free="0 bytes", own=None, allocated="180.00 MiB", unallocated="90.00 MiB", total=total
    )


def test_a_gpu_of_half_a_gibibyte_holds_no_model_whatever_runs() -> None:
    for lines in ((), trace(FORWARD)):
        found = finding(CAUSE, *lines, of_a_small_card("512.00 MiB"))
        assert found.grade == Grade.NAMES
        assert "512 MiB" in found.why
        assert ranking(*lines, of_a_small_card("512.00 MiB"))[0] == "model-does-not-fit"


@pytest.mark.parametrize("total", ["1024.00 MiB", "2.00 GiB", "4.75 GiB"])
def test_a_small_card_of_its_own_may_hold_one(total: str) -> None:
    assert "passed loading" in ruled_out(CAUSE, *trace(FORWARD), of_a_small_card(total))
