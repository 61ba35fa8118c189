from __future__ import annotations

from engine_logs import NO_BLOCKS, RUNNER, context_too_long, grade, judged, refusal, started, traceback, v0_account

from oomdoctor.decision.judgement import Finding
from oomdoctor.signs import Grade

CAUSE = "kv-cache-no-room"


def test_a_refused_allocation_is_the_opposite() -> None:
    assert judged(CAUSE, traceback((RUNNER, "execute_model"), end=refusal("1.00 GiB", 23.5, 0.1, 23, 22))) is None


def test_a_cache_that_is_only_too_short() -> None:
    assert judged(CAUSE, context_too_long(65536, 12.0, 7.47)) is None
    assert grade(CAUSE, context_too_long(65536, 12.0, -0.47)) == Grade.PROVES


def test_the_account_explains_the_room() -> None:
    finding = judged(CAUSE, v0_account(8.0, 0.75, 5.2, 1.42) + NO_BLOCKS)
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert "6.00 GiB" in finding.why
    assert "-676 MiB" in finding.why
    assert finding.knobs[0] == "raise-engine-reservation"


def test_heavy_activations_come_down_first() -> None:
    finding = judged(CAUSE, v0_account(23.6, 0.9, 16.0, 6.2) + NO_BLOCKS)
    assert isinstance(finding, Finding)
    assert finding.knobs[0] == "smaller-prefill"


def test_no_share_helps_where_the_whole_card_would_not_do() -> None:
    finding = judged(CAUSE, v0_account(23.6, 0.9, 23.2, 0.5) + NO_BLOCKS)
    assert isinstance(finding, Finding)
    assert "raise-engine-reservation" not in finding.knobs


def test_a_version_that_counts_its_neighbours_is_said_to() -> None:
    finding = judged(CAUSE, started("0.8.5") + NO_BLOCKS)
    assert isinstance(finding, Finding)
    assert "counts memory of other processes" in finding.against[0]
    later = judged(CAUSE, started("0.10.2") + NO_BLOCKS)
    assert isinstance(later, Finding)
    assert later.against == ()


def test_state_blocks_of_mamba_layers() -> None:
    log = (
        "(EngineCore pid=1) ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (173). Please lower "
        "max_num_seqs to at most 173 or increase gpu_memory_utilization.\n"
    )
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert finding.knobs[0] == "fewer-sequences"


def test_sglang_without_a_pool() -> None:
    finding = judged(CAUSE, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n")
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES


def test_sglang_computes_the_fraction_itself() -> None:
    log = (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.83. Raise "
        "--mem-fraction-static above 0.912 (minimum viable = 1 - available/pre = 0.9112).\n"
    )
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert "above 0.912" in finding.why


def test_a_pool_that_is_cut_to_size_is_one() -> None:
    log = (
        "[2025-08-11 13:05:41 TP0] max_total_tokens=600000 is larger than the profiled value 401920. Use the profiled "
        "value instead.\n" + refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0) + "\n"
    )
    assert judged(CAUSE, log) is None


def test_lmdeploys_own_check() -> None:
    assert grade(CAUSE, "RuntimeError: No enough gpu memory for kv cache.\n") == Grade.PROVES
    assert judged(CAUSE, "RuntimeError: No enough gpu memory for runtime.\n") is None


def test_a_share_at_its_limit_is_not_the_first_thing_to_change() -> None:
    finding = judged(CAUSE, "$ vllm serve org/M-7B --gpu-memory-utilization 0.97\n" + NO_BLOCKS)
    assert isinstance(finding, Finding)
    assert finding.knobs[:3] == ("tensor-parallel", "quantize-weights", "shorter-context")
    below = judged(CAUSE, "$ vllm serve org/M-7B --gpu-memory-utilization 0.80\n" + NO_BLOCKS)
    assert isinstance(below, Finding)
    assert below.knobs[0] == "raise-engine-reservation"


LOADED = (
    "[2025-07-02 07:41:58 TP{0}] Load weight begin. avail mem={1} GB\n"
    "[2025-07-02 07:42:09 TP{0}] Load weight end. type=DemoForCausalLM, dtype=torch.bfloat16, avail mem={2} GB, "
    "mem usage=19.79 GB.\n"
)
NO_POOL = (
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
    "Current value: mem_fraction_static={}\n"
)


def test_sglangs_answer_comes_from_the_rank_with_the_least_room() -> None:
    log = LOADED.format(0, "23.10", "3.31") + LOADED.format(1, "22.50", "2.71") + NO_POOL.format(0.83)
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert "1 - 2.71 GiB / 22.50 GiB = 0.880" in finding.why
    assert finding.grade == Grade.PROVES


def test_a_fraction_that_should_do_decides_nothing() -> None:
    finding = judged(CAUSE, LOADED.format(0, "23.10", "3.31") + NO_POOL.format(0.9))
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.NAMES


def test_a_log_that_is_cut_behind_a_negative_budget() -> None:
    negative = "INFO 10-11 09:14:06 [gpu_worker.py:298] Available KV cache memory: -3.40 GiB\n"
    finding = judged(CAUSE, negative)
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.NAMES
    assert "the log ends" in finding.against[-1]
    with_error = judged(CAUSE, negative + NO_BLOCKS)
    assert isinstance(with_error, Finding)
    assert with_error.grade == Grade.PROVES


GGML = (
    "ggml_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "llama_kv_cache_unified: failed to allocate buffer for kv cache\n"
)


def test_ggmls_cache_with_and_without_its_context() -> None:
    alone = judged(CAUSE, GGML)
    assert isinstance(alone, Finding)
    assert "GPU memory had no room for 8.79 GiB of KV cache" in alone.why
    told = judged(CAUSE, "llama_context: n_ctx         = 131072\n" + GGML)
    assert isinstance(told, Finding)
    assert "for a context of 131,072 tokens" in told.why


def test_what_sglang_found_free_stands_beside_the_fraction_that_it_computes() -> None:
    loading = (
        "[2025-08-11 13:05:41 TP0] Load weight begin. avail mem=78.50 GB\n"
        "[2025-08-11 13:06:41 TP0] Load weight end. type=Llama, dtype=torch.bfloat16, avail mem=7.10 GB, mem "
        "usage=71.40 GB.\n"
    )
    refused = (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.83. Raise "
        "--mem-fraction-static above 0.912 (minimum viable = 1 - available/pre = 0.9112).\n"
    )
    printed = judged(CAUSE, loading + refused)
    assert isinstance(printed, Finding)
    assert (
        "78.50 GiB was free before loading and 7.10 GiB after loading. The fraction must be above 0.912." in printed.why
    )
    computed = judged(
        CAUSE, loading + "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    assert isinstance(computed, Finding)
    assert "1 - 7.10 GiB / 78.50 GiB = 0.910" in computed.why


def test_an_account_of_weights_alone() -> None:
    log = (
        "INFO 03-02 17:40:55 [worker.py:287] the current vLLM instance can use total_gpu_memory (8.00GiB) x "
        "gpu_memory_utilization (0.75) = 6.00GiB\n"
        "INFO 03-02 17:40:55 [worker.py:287] model weights take 5.20GiB; the rest of the memory reserved for KV Cache "
        "is -0.67GiB.\n"
    )
    finding = judged(CAUSE, log + NO_BLOCKS)
    assert isinstance(finding, Finding)
    assert "Of the engine's 6.00 GiB, weights take 5.20 GiB: -686 MiB is left" in finding.why


def test_weights_that_another_process_holds_for_the_engine() -> None:
    held = "Externally held weights on device cuda:1 ({}) exceed the desired GPU memory utilization (0.4, {}).\n"
    finding = judged(CAUSE, "ValueError: " + held.format("38.10 GiB", "31.68 GiB"))
    assert isinstance(finding, Finding)
    assert finding.why.endswith(
        "holds 38.10 GiB of weights for the engine, more than the engine's share of 0.4 (31.68 GiB)."
    )
