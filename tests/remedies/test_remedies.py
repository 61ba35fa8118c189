"""The remedies for whole logs: what seeds and arithmetic demand, and what must never be printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from remedy_logs import HOG, OPENRLHF, advise, crashes_of, cuda, kill

from oomdoctor import diagnose
from oomdoctor.incident.model import Crash
from oomdoctor.remedies.advise import remedies
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.printed import rejected_advice

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
LOGS = sorted(p for p in FIXTURES.rglob("*") if p.suffix in {".log", ".txt"} and "lab" not in p.parts)


# the share of the card


def test_the_largest_share_that_what_is_free_allows() -> None:
    log = (
        "vllm serve m --gpu-memory-utilization 0.95\nValueError: Free memory on device (31.44/47.38 GiB) on startup is "
        "less than desired GPU memory utilization (0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU "
        "memory used by other processes.\n"
    )
    chosen, _ = advise(log, "lower-engine-reservation")
    remedy = chosen["lower-engine-reservation"]
    assert (remedy.current, remedy.suggested) == (0.95, 0.66)
    assert remedy.snippet == "--gpu-memory-utilization 0.66"
    assert remedy.derivation == "31.44 GiB free at start / 47.38 GiB = 0.66"


def test_no_share_fits_a_card_that_is_full() -> None:
    log = (
        "ValueError: Free memory on device (0.49/79.32 GiB) on startup is less than desired GPU memory utilization "
        "(0.6, 47.59 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    chosen, rejected = advise(log, "lower-engine-reservation", "free-the-gpu")
    assert list(chosen) == ["free-the-gpu"]
    assert "0.49 GiB" not in rejected["lower-engine-reservation"].why  # it is shown as a person would: 502 MiB
    assert "502 MiB" in rejected["lower-engine-reservation"].why


def test_a_colocated_trainer_gets_room_for_its_states() -> None:
    log = (
        "--------- config key ---------        ------ value ------\n"
        "pretrain                                  Qwen/Qwen2.5-1.5B\n"
        "critic_pretrain                           Qwen/Qwen2.5-1.5B\n"
        "actor_num_nodes                           4\n"
        "gpu_memory_utilization                    0.70\n"
        "zero_stage                                3\n"
        "----------------------------------------------------------\n"
        "(CriticRayActorBase pid=7) init\n" + cuda(tried="1.50 GiB", free="278.19 MiB", own="66.85 GiB")
    )
    remedy = advise(log, "lower-engine-reservation", cause="vllm-utilization-too-high")[0]["lower-engine-reservation"]
    assert remedy.setting == "exp.gpu_memory_utilization"
    assert remedy.current == 0.7
    # 0.70 - (1.50 - 0.27) / 79.15 = 0.68; 2 x 18 bytes x 1.54 B / 4 cards = 12.94 GiB; 0.68 - 12.94 / 79.15 = 0.51
    assert remedy.suggested == 0.51
    assert remedy.derivation is not None
    assert "278 MiB" in remedy.derivation
    assert "12.94 GiB" in remedy.derivation
    assert any("Qwen2.5-1.5B" in text for text in remedy.assumes)


def test_an_unknown_share_is_taken_for_the_smallest_default() -> None:
    log = '  File "/x/site-packages/vllm/worker/worker.py", line 1, in x\n' + cuda()
    remedy = advise(log, "lower-engine-reservation")[0]["lower-engine-reservation"]
    assert (remedy.current, remedy.suggested) == (None, 0.88)
    assert remedy.derivation == "0.90 - (2.00 GiB requested - 1.00 GiB free + 512 MiB spare) / 79.15 GiB = 0.88 at most"
    assert "--gpu-memory-utilization is 0.9 (its default, not in the log)" in remedy.assumes


def test_a_default_share_is_an_assumption() -> None:
    log = "INFO vLLM API server version 0.8.3\n" + cuda()
    remedy = advise(log, "lower-engine-reservation")[0]["lower-engine-reservation"]
    assert remedy.current is None
    assert remedy.suggested == 0.88
    assert "share 0.9 (default of vLLM 0.8.3, not in the log)" in remedy.assumes


NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
CONTEXT = (
    "vllm serve m --gpu-memory-utilization {}\n{}ValueError: To serve at least one request with the models's max seq "
    "len (40960), (5.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.00 GiB). Try "
    "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
)
PROFILE = (
    "INFO worker.py:267] the current vLLM instance can use total_gpu_memory (40.00GiB) x gpu_memory_utilization (0.80) "
    "= 32.00GiB\n"
)


def test_the_longest_context_and_the_smallest_share_that_serves_it() -> None:
    chosen, _ = advise(
        CONTEXT.format("0.8", PROFILE), "shorter-context", "raise-engine-reservation", "quantize-kv-cache"
    )
    assert chosen["shorter-context"].suggested == 24496  # 40960 x 2.995 / 5.005
    assert chosen["raise-engine-reservation"].suggested == 0.85  # 0.80 + 2 / 40
    assert chosen["quantize-kv-cache"].suggested == "fp8"


def test_a_share_that_cannot_be_given_is_no_remedy() -> None:
    log = CONTEXT.format("0.95", PROFILE.replace("0.80", "0.95"))
    chosen, rejected = advise(log, "raise-engine-reservation")
    assert not chosen
    assert "0.98" in rejected["raise-engine-reservation"].why
    quoted = rejected_advice(crashes_of(log)[0])
    assert any("gpu_memory_utilization" in why for _, why in quoted)


def test_sequences_are_halved_from_the_warm_up() -> None:
    log = (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try "
        "lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n"
    )
    remedy = advise(log, "fewer-sequences", cause="sampler-warmup")[0]["fewer-sequences"]
    assert (remedy.current, remedy.suggested) == (1024, 512)


def test_media_are_limited_only_where_something_sees() -> None:
    assert not advise("vllm serve org/Text-7B\n" + cuda(), "limit-multimodal")[0]
    assert advise("vllm serve Qwen/Qwen2.5-VL-7B-Instruct\n" + cuda(), "limit-multimodal")[0]


NOT_FREE = (
    "ValueError: Free memory on device ({}/{} GiB) on startup is less than desired GPU memory utilization ({}). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)


@pytest.mark.parametrize(
    ("model", "share", "why"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 0.42, ""),  # 14.19 GiB
        (
            "Qwen/Qwen2.5-14B-Instruct",
            None,
            "the weights take 27.51 GiB (Qwen2.5-14B: 14.77 B parameters)",
        ),
    ],
)
def test_a_share_that_does_not_hold_the_weights_is_none(model: str, share: float | None, why: str) -> None:
    log = f"vllm serve {model}\n" + NOT_FREE.format("20.0", "47.4", "0.9, 42.66 GiB")
    chosen, rejected = advise(log, "lower-engine-reservation")
    assert [one.suggested for one in chosen.values()] == ([share] if share else [])
    assert [one.why.partition(", but ")[0] for one in rejected.values()] == ([why] if why else [])


@pytest.mark.parametrize(
    ("free", "why"),
    [
        ("3.3", "at most 0.06 would pass (2.84 GiB): too little for most models. Free the GPU first"),
        ("0.21", "no share fits: only 215 MiB of 47.40 GiB are free. Free the GPU first"),
    ],
)
def test_a_share_that_passes_the_check_alone_is_called_so(free: str, why: str) -> None:
    chosen, rejected = advise(NOT_FREE.format(free, "47.4", "0.9, 42.66 GiB"), "lower-engine-reservation")
    assert not chosen
    assert [one.why for one in rejected.values()] == [why]


def test_a_share_that_is_not_printed_is_lowered_to_what_is_free() -> None:
    remedy = advise(NOT_FREE.format("31.44", "47.38", "45.01 GiB"), "lower-engine-reservation")[0][
        "lower-engine-reservation"
    ]
    assert (remedy.action, remedy.current) == ("Lower the engine's GPU memory share to 0.66", None)


@pytest.mark.parametrize(("version", "on_top"), [("0.19.1", True), ("0.20.0", False)])
def test_graphs_come_on_top_of_the_share_up_to_a_version(version: str, on_top: bool) -> None:
    log = f"INFO vLLM API server version {version}\n" + NOT_FREE.format("31.44", "47.38", "0.95, 45.01 GiB")
    remedy = advise(log, "lower-engine-reservation")[0]["lower-engine-reservation"]
    assert any("CUDA graphs" in assumed for assumed in remedy.assumes) is on_top


def test_beside_a_cache_of_stated_size_the_share_means_nothing_but_at_start() -> None:
    serve = "vllm serve m --gpu-memory-utilization 0.8 --kv-cache-memory-bytes {}\n"
    for failed, knob in ((cuda(), "lower-engine-reservation"), (NO_BLOCKS, "raise-engine-reservation")):
        chosen, rejected = advise(serve.format("8G") + failed, knob, cause="kv-cache-no-room")
        assert not chosen
        assert rejected[knob].why == "kv_cache_memory_bytes is set (line 1) and overrides the share"
    assert advise(serve.format("0") + cuda(), "lower-engine-reservation")[0]
    start = serve.format("8G") + NOT_FREE.format("20.0", "47.4", "0.8, 37.92 GiB")
    assert advise(start, "lower-engine-reservation")[0]["lower-engine-reservation"].suggested == 0.42


HELD = "ValueError: Externally held weights on device cuda:1 ({} GiB) exceed the desired GPU memory utilization ({}).\n"


def test_weights_of_another_process_ask_for_a_larger_share() -> None:
    knob = "raise-engine-reservation"
    crash = replace(crashes_of(HELD.format("41.20", "0.45, 35.63 GiB"))[0], pool="kv_cache")
    (remedy,), _ = remedies("kv-cache-no-room", (knob,), crash)
    assert (remedy.current, remedy.suggested) == (0.45, 0.55)  # 0.45 x 41.20 / 35.63 = 0.5203, and 0.02 more
    assert "0.02 for the KV cache is a guess: the longest request may need more" in remedy.assumes
    crash = replace(crashes_of(HELD.format("77.50", "0.45, 35.63 GiB"))[0], pool="kv_cache")
    chosen, (rejected,) = remedies("kv-cache-no-room", (knob,), crash)
    assert not chosen
    assert "no share of the GPU fits" in rejected.why


@pytest.mark.parametrize(("free", "share"), [("21.31", 0.47), ("1.20", 0.21), ("31.40", 0.59)])
def test_weights_of_another_process_need_not_be_free(free: str, share: float) -> None:
    """0.6 of 79.19 GiB are 47.51: 16.01 of them are held already."""
    log = (
        f"ValueError: Free memory on device cuda:0 ({free}/79.19 GiB) on startup is less than the engine's budget "
        "after excluding external process's weights (0.6, 31.50 GiB). Decrease GPU memory utilization.\n"
    )
    remedy = advise(log, "lower-engine-reservation")[0]["lower-engine-reservation"]
    assert (remedy.current, remedy.suggested) == (0.6, share)


def test_v0_lacks_tokens() -> None:
    log = (
        PROFILE
        + "INFO executor_base.py:111] # cuda blocks: 835, # CPU blocks: 2048\nValueError: The model's max seq len "
        "(32768) is larger than the maximum number of tokens that can be stored in KV cache (13360). Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
    )
    remedy = advise(log, "raise-engine-reservation", cause="max-model-len-too-long")[0]["raise-engine-reservation"]
    assert remedy.suggested == 0.86  # 19408 x 128 KiB = 2.37 GiB of 40
    source = "4 GiB of swap space, vLLM's default, in 2048 blocks of 16 tokens"
    assert f"19408 tokens x 131072 bytes ({source})" in (remedy.derivation or "")


@pytest.mark.parametrize(
    ("version", "stages", "counted_wrongly"),
    [("0.13.0", 2, False), ("0.14.0", 2, True), ("0.16.2", 2, True), ("0.17.0", 2, False), ("0.15.0", 1, False)],
)
def test_the_engines_own_estimate_over_pipeline_stages(version: str, stages: int, counted_wrongly: bool) -> None:
    log = f"INFO vLLM API server version {version}\nvllm serve m --pipeline-parallel-size {stages}\n" + CONTEXT.format(
        "0.8", ""
    ).replace("Try inc", "Based on the available memory, the estimated maximum model length is 24500. Try inc")
    remedy = advise(log, "shorter-context", cause="max-model-len-too-long")[0]["shorter-context"]
    assert remedy.suggested == 24500
    assert any("more may fit" in assumed for assumed in remedy.assumes) is counted_wrongly


@pytest.mark.parametrize(("kind", "done"), [("fp8", True), ("fp8_e4m3", True), ("auto", False), ("bfloat16", False)])
def test_a_cache_in_8_bits_is_not_halved_again(kind: str, done: bool) -> None:
    log = CONTEXT.format("0.8", "").replace("serve m", f"serve m --kv-cache-dtype {kind}")
    chosen, rejected = advise(log, "quantize-kv-cache", cause="max-model-len-too-long")
    assert ("quantize-kv-cache" in rejected, "quantize-kv-cache" in chosen) == (done, not done)


def test_the_caches_type_is_the_engines_own() -> None:
    log = "./llama-server -m m.gguf -c 8192\nllama_kv_cache_init: failed to allocate buffer for kv cache\n"
    remedy = advise(log, "quantize-kv-cache", cause="kv-cache-no-room")[0]["quantize-kv-cache"]
    assert (remedy.suggested, remedy.action) == ("q8_0", "Store the KV cache in 8 bits")


TABLE = (
    "| GPU  Name   Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
    "|   {gpu}  NVIDIA L4       Off | 00000000:00:04.0 Off |                    0 |\n"
    "| N/A   40C    P0    29W /  72W |    100MiB / {total}MiB |      0%      Default |\n\n"
)
LOADING = '  File "/v/vllm/worker/model_runner.py", line 3, in load_model\nRuntimeError: CUDA error: out of memory\n'


def test_the_card_of_a_table_says_over_how_many_to_split() -> None:
    serve = "vllm serve Qwen/Qwen2.5-72B-Instruct\n"
    table = TABLE.format(gpu=0, total=24576)
    remedy = advise(serve + table + LOADING, "tensor-parallel")[0]["tensor-parallel"]
    assert remedy.suggested == 8
    assert remedy.derivation == "135.43 GiB of weights / 24.00 GiB per GPU -> 8 (a power of two)"
    two_kinds = serve + table + TABLE.format(gpu=1, total=81559) + LOADING
    assert (
        advise(two_kinds, "tensor-parallel")[0]["tensor-parallel"].suggested == 2
    )  # of which the engine is, is unknown


@pytest.mark.parametrize(("items", "suggested"), [(1, None), (3, 1)])
def test_one_of_several_media_is_profiled(items: int, suggested: int | None) -> None:
    log = (
        "vllm serve m\nINFO 07-01 10:00:00 [gpu_model_runner.py:2100] Encoder cache will be initialized with a budget "
        f"of 16384 tokens, and profiled with {items} image items of the maximum feature size.\n" + cuda()
    )
    remedy = advise(log, "limit-multimodal", cause="multimodal-profiling")[0]["limit-multimodal"]
    assert remedy.suggested == suggested
    assert remedy.snippet == (None if suggested is None else "--limit-mm-per-prompt '{\"image\": 1}'")


# the host


def test_a_hog_outside_ray_is_moved_and_what_spends_host_memory_is_refused() -> None:
    knobs = ("move-process", "more-host-memory", "less-offload", "offload-optimizer", "engine-sleep", "shard-states")
    chosen, rejected = advise(OPENRLHF.format("") + HOG, *knobs, cause="reward-model-ram-hog")
    move = chosen["move-process"]
    assert "PID 14" in move.action
    assert "Ray does not manage this process" in move.action
    assert move.setting == "--remote_rm_url"
    assert move.current == "http://localhost:5000/get_reward"
    assert move.derivation is not None
    assert "176.97 GiB" in move.derivation
    assert {"offload-optimizer", "engine-sleep", "shard-states", "tune-ray-monitor"} <= rejected.keys()
    assert "less-offload" not in chosen  # nothing is offloaded
    assert "only delays" in rejected["tune-ray-monitor"].why


def test_the_printed_threshold_advice_is_rejected() -> None:
    assert any("only delays" in why for _, why in rejected_advice(crashes_of(HOG)[0]))


def test_offload_that_is_on_is_taken_back() -> None:
    chosen, _ = advise(OPENRLHF.format("--adam_offload") + HOG, "less-offload")
    remedy = chosen["less-offload"]
    assert remedy.current is True
    assert remedy.suggested is False
    assert remedy.setting == "adam_offload"
    assert remedy.derivation is not None
    assert "12 bytes x 7.62 B parameters" in remedy.derivation


def test_copies_of_sleeping_engines() -> None:
    remedy = advise(OPENRLHF.format("--vllm_num_engines 8 --vllm_enable_sleep") + HOG, "less-offload")[0][
        "less-offload"
    ]
    assert remedy.setting == "vllm_enable_sleep"
    assert remedy.derivation is not None
    assert "8 engines x 2 bytes x 7.62 B parameters = 113.48 GiB" in remedy.derivation


def test_swap_space_in_a_hydra_dump() -> None:
    log = (
        "{'actor_rollout_ref': {'model': {'path': '/m/Qwen2.5-7B'},\n"
        "  'rollout': {'free_cache_engine': True, 'swap_space': 40}},\n"
        " 'trainer': {'n_gpus_per_node': 8, 'nnodes': 1}}\n"
        "  File '/w/simpleRL-reason/verl/trainer/main_ppo.py', line 1\n"
        + kill(960.1, 1007.0, "1\t90.00\tray::WorkerDict\n")
    )
    chosen, _ = advise(log, "keep-engine-cache", "less-swap-space")
    swap = chosen["less-swap-space"]
    assert (swap.setting, swap.current, swap.suggested) == ("actor_rollout_ref.rollout.swap_space", 40, 0)
    assert swap.derivation is not None
    assert "1.43 GiB, pinned" in swap.derivation
    assert "448.00 GiB of the node's 1007.00 GiB" in swap.derivation
    keep = chosen["keep-engine-cache"]
    assert keep.snippet == "actor_rollout_ref.rollout.free_cache_engine=False"
    assert keep.spends == ("gpu",)


def test_the_cache_is_kept_only_in_the_fork_that_builds_it_anew() -> None:
    log = "{'actor_rollout_ref': {'rollout': {'free_cache_engine': True}}}\nvLLM API server version 0.8.5\n" + HOG
    chosen, rejected = advise(log, "keep-engine-cache")
    assert not chosen
    assert "sleep mode" in rejected["keep-engine-cache"].why


def test_workers_that_fit() -> None:
    rows = "".join(f"{100 + i}\t5.00\tray::SimEnv.step\n" for i in range(10))
    remedy = advise(kill(60.0, 62.0, rows), "fewer-workers")[0]["fewer-workers"]
    # 80 % of 58.9 GiB / 5 GiB
    assert remedy.suggested == 9


def test_restarts_from_the_growth() -> None:
    steps = "".join(
        f"(main_task pid=1) step:{i} - perf/cpu_memory_used_gb:{100 + 20 * i}.0 - x:1\n" for i in range(1, 8)
    )
    remedy = advise(steps + HOG, "restart-periodically")[0]["restart-periodically"]
    # 80 % of (238.98 - 120) / 20
    assert remedy.suggested == 4
    assert remedy.derivation is not None
    assert "(0.95 x 251.56 GiB)" in remedy.derivation


def test_prints_are_no_steps() -> None:
    prints = "".join(f"CPU Virtual Memory:  used = {100 + 20 * i}.0 GB, percent = 41.0%\n" for i in range(1, 8))
    remedy = advise(prints + HOG, "restart-periodically")[0]["restart-periodically"]
    assert "every 4 prints of this figure" in remedy.action
    assert (remedy.suggested, remedy.snippet) == (None, None)


SWAP = "INFO vLLM API server version 0.8.3\nvllm serve {} --swap-space {} {}\n"
ONE_GPU = "one GPU per node (not printed)"


def test_swap_space_of_a_model_that_is_not_known() -> None:
    remedy = advise(SWAP.format("acme/own", 16, "") + HOG, "less-swap-space")[0]["less-swap-space"]
    assert (remedy.current, remedy.suggested, remedy.snippet) == (16, 0, "--swap-space 0")
    assert remedy.derivation == (
        "16 GiB x 1 GPUs = 16.00 GiB of the node's 251.56 GiB, and up to twice that by pinned rounding; 0 with 0"
    )
    assert remedy.assumes == (ONE_GPU,)
    told = advise("torchrun --nproc_per_node 4 x.py\n" + SWAP.format("acme/own", 16, "") + HOG, "less-swap-space")[0]
    assert "16 GiB x 4 GPUs = 64.00 GiB of" in (told["less-swap-space"].derivation or "")
    assert told["less-swap-space"].assumes == ()


def test_what_was_in_use_is_not_the_nodes_memory() -> None:
    alone = HOG.replace(" / 251.56GB (0.950151)", "")
    remedy = advise(SWAP.format("acme/own", 16, "") + alone, "less-swap-space")[0]["less-swap-space"]
    assert remedy.derivation == "16 GiB x 1 GPUs = 16.00 GiB, and up to twice that by pinned rounding; 0 with 0"


def test_swap_space_of_one_gpu_is_an_assumption() -> None:
    known = advise(SWAP.format("Qwen/Qwen2.5-7B-Instruct", 16, "") + HOG, "less-swap-space")[0]["less-swap-space"]
    assert "x 28 layers x 1 GPUs = 28.00 GiB" in (known.derivation or "")
    assert ONE_GPU in known.assumes
    default = advise(SWAP.format("m", 16, "").replace(" --swap-space 16", "") + HOG, "less-swap-space")[0]
    assert (default["less-swap-space"].current, ONE_GPU in default["less-swap-space"].assumes) == (None, True)
    off = advise(SWAP.format("m", 0, "") + HOG, "less-swap-space")[1]["less-swap-space"]
    assert off.why == "--swap-space is already 0"


def test_a_store_that_is_small_is_not_capped() -> None:
    start = "ray start --head --object-store-memory {}\n" + HOG
    assert advise(start.format(10**9), "smaller-object-store")[1]["smaller-object-store"].why == (
        "--object-store-memory is already 954 MiB"
    )
    large = advise(start.format(10**11), "smaller-object-store")[0]["smaller-object-store"]
    assert (large.current, large.suggested) == (10**11, 27011049324)
    assert not any("Ray's default" in assumed for assumed in large.assumes)


@pytest.mark.parametrize(("node_kib", "fits"), [(48_000_000, False), (97_000_000, True)])
def test_an_object_larger_than_the_node_goes_in_parts(node_kib: int, fits: bool) -> None:
    """An object of 50.00 GiB, and nothing in the store."""
    log = f"MemTotal:       {node_kib} kB\n" + (FIXTURES / "ray_store" / "full-with-status.log").read_text()
    chosen, rejected = advise(log, "bigger-object-store")
    assert [one.suggested for one in chosen.values()] == ([53687091200] if fits else [])
    assert [one.why for one in rejected.values()] == (
        [] if fits else ["an object of 50.00 GiB exceeds the node's memory: pass it in parts"]
    )


def test_shared_memory_for_what_was_refused_as_well() -> None:
    log = (
        "tmpfs            16G  4.1G   12G  26% /dev/shm\nNCCL WARN Error while creating shared memory segment "
        "/dev/shm/nccl-Xq2r (size 2147483648), error: No space left on device (28)\n"
    )
    remedy = advise(log, "bigger-shm")[0]["bigger-shm"]
    assert (remedy.suggested, remedy.snippet) == ("34g", "docker run --shm-size=34g")
    assert remedy.derivation == "2 x 16.00 GiB + 2.00 GiB that failed -> 34 GiB"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("(main_task pid=1) step:{n} - perf/cpu_memory_used_gb:{size}.0 - x:1\n", "step"),
        ("CPU Virtual Memory:  used = {size}.0 GB, percent = 41.0%\n", "print"),
    ],
)
def test_no_restart_where_not_one_step_fits(line: str, word: str) -> None:
    """80 % of 238.98 - 100 are 111 GiB."""
    for growth, why in (
        (130, f"it grows by 130.00 GiB per {word}: not even one {word} fits between two restarts"),
        (110, None),
    ):
        grown = "".join(line.format(n=n, size=100 + growth * n) for n in range(3))
        chosen, rejected = advise(grown + HOG, "restart-periodically")
        assert "restart-periodically" in (chosen if why is None else rejected)
        assert why is None or rejected["restart-periodically"].why == why


def test_what_an_offloaded_optimizer_of_adapters_takes_is_not_said() -> None:
    log = OPENRLHF.format("--adam_offload {}") + HOG
    whole, adapters = (
        advise(log.format(options), "less-offload")[0]["less-offload"] for options in ("", "--lora_rank 8")
    )
    assert "12 bytes x 7.62 B parameters" in (whole.derivation or "")
    assert "bytes" not in (adapters.derivation or "")


def test_a_switch_of_a_launch_line_takes_no_value() -> None:
    """And what another option of the same knob takes for granted is no matter of this one."""
    flag = advise(OPENRLHF.format("--adam_offload --lr 1") + HOG, "less-offload")[0]["less-offload"]
    assert (flag.setting, flag.current, flag.suggested, flag.snippet) == ("adam_offload", True, False, None)
    assert not any("cpu_offload_gb" in assumed for assumed in flag.assumes)
    hydra = "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.fsdp_config.optimizer_offload=True\n" + HOG
    assert (advise(hydra, "less-offload")[0]["less-offload"].snippet or "").endswith("optimizer_offload=False")


# the device


def test_allocator_settings_only_where_memory_lies_idle() -> None:
    chosen, _ = advise(cuda(tried="864.00 MiB", unused="6.12 GiB"), "allocator-config")
    assert chosen["allocator-config"].snippet == "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    chosen, rejected = advise(cuda(), "allocator-config")
    assert not chosen
    assert "100 MiB" in rejected["allocator-config"].why
    assert rejected_advice(crashes_of(cuda())[0])
    assert not rejected_advice(crashes_of(cuda(tried="864.00 MiB", unused="6.12 GiB"))[0])


@pytest.mark.parametrize(("unused", "is_refuted"), [("538.40 MiB", False), ("500.00 MiB", True)])
def test_what_is_unused_counts_beside_what_is_free(unused: str, *, is_refuted: bool) -> None:
    """3.88 GiB requested, 3.35 GiB free: within rounding, 538.40 MiB are all that was missing."""
    log = cuda(tried="3.88 GiB", free="3.35 GiB", total="9.50 GiB", own="6.00 GiB", unused=unused)
    assert ("allocator-config" in advise(log, "allocator-config")[1]) is is_refuted


@pytest.mark.parametrize(
    "setting", ["export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n", "vllm serve m --enable-sleep-mode\n"]
)
def test_allocator_settings_not_twice_and_not_with_sleep(setting: str) -> None:
    log = setting + cuda(tried="864.00 MiB", unused="6.12 GiB")
    chosen, rejected = advise(log, "allocator-config")
    assert not chosen
    assert "allocator-config" in rejected
    assert rejected_advice(crashes_of(log)[0])


def test_no_growing_segments_beside_an_engine_that_was_seen_to_sleep() -> None:
    slept = (
        "INFO 06-11 10:02:11 [gpu_worker.py:81] Sleep mode freed 31.20 GiB memory, 3.10 GiB memory is still in use.\n"
    )
    log = cuda(tried="864.00 MiB", unused="6.12 GiB")
    chosen, rejected = advise(slept + log, "allocator-config")
    assert not chosen
    assert "sleep mode" in rejected["allocator-config"].why


@pytest.mark.parametrize(("release", "told"), [("2.8.0", False), ("2.9.1", True), ("2.10.0", False), (None, True)])
def test_the_old_name_of_the_allocators_variable(release: str | None, told: bool) -> None:
    log = (f"torch=={release}\n" if release else "") + cuda(tried="864.00 MiB", unused="6.12 GiB")
    remedy = advise(log, "allocator-config")[0]["allocator-config"]
    assert any("PyTorch 2.9 ignores the new name" in assumed for assumed in remedy.assumes) is told


@pytest.mark.parametrize(("now", "advised"), [("false", False), ("False", False), ("true", True), (None, True)])
def test_the_card_is_not_reserved_whole_already(now: str | None, advised: bool) -> None:
    log = (f"export XLA_PYTHON_CLIENT_PREALLOCATE={now}\n" if now else "") + (
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 "
        "bytes.\n"
    )
    chosen, rejected = advise(log, "cap-preallocation", cause="framework-preallocation")
    assert ("cap-preallocation" in chosen, "cap-preallocation" in rejected) == (advised, not advised)


@pytest.mark.parametrize(("now", "advised"), [("0.0", False), ("0.7", True)])
def test_a_macs_limit_that_is_lifted_already(now: str, advised: bool) -> None:
    log = (
        f"export PYTORCH_MPS_HIGH_WATERMARK_RATIO={now}\nRuntimeError: MPS backend out of memory (MPS allocated: "
        "16.20 GB, other allocations: 1.04 GB, max allowed: 18.13 GB). Tried to allocate 1.00 GB on private pool.\n"
    )
    chosen, rejected = advise(log, "raise-allocator-cap", cause="allocator-cap")
    assert [(one.current, one.suggested) for one in chosen.values()] == ([(0.7, 0.0)] if advised else [])
    assert ("raise-allocator-cap" in rejected) is not advised


def test_another_option_than_the_usual_one_keeps_its_own_name() -> None:
    log = "python -m openrlhf.cli.x --micro_rollout_batch_size 16\n" + cuda()
    remedy = advise(log, "smaller-microbatch")[0]["smaller-microbatch"]
    assert (remedy.setting, remedy.snippet) == ("micro_rollout_batch_size", "--micro_rollout_batch_size 8")
    dump = "{'actor_rollout_ref': {'rollout': {'micro_rollout_batch_size; rm -rf ~': 4}}}\n" + cuda()
    assert ";" not in (advise(dump, "smaller-microbatch")[0]["smaller-microbatch"].snippet or "")


def test_nothing_is_killed_blindly() -> None:
    log = cuda().replace("Including", "Process 4711 has 8.00 GiB memory in use. Including")
    remedy = advise(log, "free-the-gpu")[0]["free-the-gpu"]
    look, end = (remedy.snippet or "").splitlines()
    assert look == "ps -o pid,user,etime,args -p 4711"
    assert end == "# kill 4711"
    assert "8.00 GiB" in remedy.action


def test_batches_are_halved_until_they_are_one() -> None:
    chosen, _ = advise("python -m openrlhf.cli.x --micro_train_batch_size 4\n" + cuda(), "smaller-microbatch")
    assert chosen["smaller-microbatch"].snippet == "--micro_train_batch_size 2"
    chosen, rejected = advise("python -m openrlhf.cli.x --micro_train_batch_size 1\n" + cuda(), "smaller-microbatch")
    assert not chosen
    assert "already" in rejected["smaller-microbatch"].why


@pytest.mark.parametrize(
    ("flags", "knob"),
    [
        ("--gradient_checkpointing", "gradient-checkpointing"),
        ("--zero_stage 3", "shard-states"),
        ("--adam_offload", "offload-optimizer"),
        ("--packing_samples", "packing"),
        ("--flash_attn", "memory-efficient-attention"),
    ],
)
def test_what_is_set_already_is_no_remedy(flags: str, knob: str) -> None:
    chosen, rejected = advise(f"python -m openrlhf.cli.train_ppo_ray {flags} --bf16\n" + cuda(), knob)
    assert not chosen
    assert "already" in rejected[knob].why


# what training keeps


SHARDED = (
    "deepspeed --module openrlhf.cli.train_sft --pretrain Qwen/Qwen2.5-7B --nproc_per_node {} {}\n"
    "DeepSpeed info: version=0.15.4\n"
)


@pytest.mark.parametrize(
    ("options", "derivation"),
    [
        ("--zero_stage 1", "18 bytes x 7.62 B parameters / 8 GPUs = 15.96 GiB per GPU instead of 39.01 GiB (ZeRO-1)"),
        ("--zero_stage 2", "18 bytes x 7.62 B parameters / 8 GPUs = 15.96 GiB per GPU instead of 30.14 GiB (ZeRO-2)"),
        ("", "18 bytes x 7.62 B parameters / 8 GPUs = 15.96 GiB per GPU instead of 30.14 GiB (ZeRO-2)"),
        (
            "--zero_stage 2 --adam_offload",
            "2 bytes x 7.62 B parameters / 8 GPUs = 1.77 GiB per GPU instead of 14.19 GiB (ZeRO-2)",
        ),
        ("--zero_stage 2 --lora_rank 16", "3 is one of its values: nothing to compute"),  # adapters have the states
        (
            "--zero_stage 2 --lora_rank 0",
            "18 bytes x 7.62 B parameters / 8 GPUs = 15.96 GiB per GPU instead of 30.14 GiB (ZeRO-2)",
        ),
    ],
)
def test_what_sharding_leaves_on_a_card(options: str, derivation: str) -> None:
    remedy = advise(SHARDED.format(8, options) + cuda(), "shard-states")[0]["shard-states"]
    assert (remedy.suggested, remedy.derivation) == (3, derivation)
    assert ("ZeRO-2 (not in the log)" in remedy.assumes) is (not options)


def test_one_card_has_nothing_to_shard_over() -> None:
    assert advise(SHARDED.format(1, "--zero_stage 2") + cuda(), "shard-states") == ({}, {})


def test_the_size_of_a_shard_group_is_no_stage() -> None:
    """verl's `fsdp_size` counts cards."""
    log = "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.fsdp_config.fsdp_size={}\n" + cuda()
    chosen, _ = advise(log.format(8), "shard-states")
    assert (chosen["shard-states"].current, chosen["shard-states"].suggested) == (8, -1)
    assert "already" in advise(log.format(-1), "shard-states")[1]["shard-states"].why


@pytest.mark.parametrize(
    ("options", "derivation"),
    [
        ("", "12 bytes x 7.62 B parameters = 85.11 GiB moved to host RAM"),
        ("--lora_rank 16", "a switch: nothing to compute"),
    ],
)
def test_the_optimizer_of_adapters_is_not_the_models(options: str, derivation: str) -> None:
    remedy = advise(SHARDED.format(8, options) + cuda(), "offload-optimizer")[0]["offload-optimizer"]
    assert remedy.derivation == derivation


def test_frames_of_peft_tell_of_adapters() -> None:
    trace = '  File "/v/site-packages/peft/tuners/lora/layer.py", line 4, in forward\n'
    remedy = advise(SHARDED.format(8, "") + trace + cuda(), "offload-optimizer")[0]["offload-optimizer"]
    assert remedy.derivation == "a switch: nothing to compute"


# clusters and versions

PENDING = (
    "Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0, 'CPU': 1.0}. This is likely "
    "due to all cluster resources being claimed by actors. Consider creating fewer actors or adding more nodes to this "
    "Ray cluster.\n"
) * 3


def test_the_launch_against_the_cluster() -> None:
    start = "ray start --head --num-cpus={} --num-gpus={}\n"
    launch = (
        "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 1 --ref_num_nodes 1 "
        "--ref_num_gpus_per_node 1 --reward_num_nodes 1 --reward_num_gpus_per_node 1 --vllm_num_engines 1 "
        "--vllm_tensor_parallel_size 1\n"
    )
    cpus = advise(start.format(4, 4) + launch + PENDING, "fix-resource-request")[0]["fix-resource-request"]
    assert (cpus.setting, cpus.current, cpus.suggested) == ("--num-cpus", 4, 5)
    assert cpus.derivation is not None
    assert "1 (actor) + 1 (ref) + 1 (reward) + 1 x 1 (engines) = 4" in cpus.derivation
    gpus, _ = advise(start.format(64, 3) + launch + PENDING, "fix-resource-request", "add-nodes", "more-gpus")
    assert (gpus["fix-resource-request"].current, gpus["fix-resource-request"].suggested) == (4, 3)
    assert "1 missing" in (gpus["add-nodes"].derivation or "")


@pytest.mark.parametrize(("gpus", "looks_first"), [(4, True), (5, False)])
def test_a_cpu_more_is_no_gpu_more(gpus: int, looks_first: bool, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        f"ray start --head --num-cpus=4 --num-gpus={gpus}\npython3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 "
        "--actor_num_gpus_per_node 3 --vllm_num_engines 1 --vllm_tensor_parallel_size 1\n" + PENDING
    )
    best = diagnose(log).as_json()["diagnoses"][0]
    order = [remedy["knob"] for remedy in best["remedies"]]
    assert (order.index("fix-environment") < order.index("fix-resource-request")) is looks_first
    cpus = next(remedy for remedy in best["remedies"] if remedy["knob"] == "fix-resource-request")
    assert cpus["action"].startswith("If nothing else holds a GPU") is looks_first
    assert "The cluster has" not in best["explanation"]
    assert "launch line requests" not in best["explanation"]


def test_a_cluster_with_all_that_is_asked_for_is_held_by_others() -> None:
    log = (
        "ray start --head --num-cpus=5 --num-gpus=4\npython3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 "
        "--actor_num_gpus_per_node 2 --vllm_num_engines 2 --vllm_tensor_parallel_size 1\n" + PENDING
    )
    remedy = advise(log, "fix-resource-request")[0]["fix-resource-request"]
    assert (
        "jobs or actors of earlier runs that still hold the cluster: the launch requests 4 GPUs and 5 CPUs"
        in remedy.action
    )
    assert (remedy.snippet, remedy.current, remedy.suggested) == ("ray status -v", None, None)


def test_the_sound_version_and_not_the_old_pin() -> None:
    log = (
        "DeepSpeed info: version=0.16.3, git-hash=unknown\npython -m openrlhf.cli.train_ppo_ray --zero_stage 3 "
        "--gradient_checkpointing --pretrain /m/llama3_70b\n"
        '  File "/x/torch/autograd/graph.py", line 1, in _engine_run_backward\n' + cuda()
    )
    chosen, rejected = advise(log, "pin-version", cause="framework-regression")
    remedy = chosen["pin-version"]
    assert (remedy.setting, remedy.current, remedy.suggested) == ("deepspeed", "0.16.3", "0.16.8")
    assert remedy.snippet == "pip install 'deepspeed>=0.16.8'"
    assert "0.15.0" in rejected["pin-version"].why
    another = log.replace("--gradient_checkpointing", "").replace("0.16.3", "0.15.4")
    assert "pin-version" not in advise(another, "pin-version", cause="framework-regression")[1]


# what must hold for every crash that the fixtures tell of


def every_crash() -> Iterator[tuple[str, Crash]]:
    for path in LOGS:
        text = path.read_bytes().decode("utf-8", "replace")
        for number, crash in enumerate(crashes_of(text)):
            yield f"{path.relative_to(FIXTURES)}#{number}", crash


CRASHES = list(every_crash())
RAM = {"host_ram", "cgroup", "pinned"}


@pytest.mark.parametrize("crash", [c for _, c in CRASHES], ids=[name for name, _ in CRASHES])
def test_no_knob_is_ever_harmful_unfounded_or_dangerous(crash: Crash) -> None:
    chosen, rejected = remedies("", tuple(KNOBS), crash)
    spent = RAM if crash.pool in RAM else {crash.pool}
    for remedy in chosen:
        assert not spent & set(remedy.spends), remedy.knob
        if isinstance(remedy.suggested, int | float) and not isinstance(remedy.suggested, bool):
            assert remedy.derivation, remedy.knob
        if remedy.current is not None and remedy.suggested is not None:
            assert remedy.current != remedy.suggested, remedy.knob
        assert remedy.action, remedy.knob
        text = f"{remedy.action} {remedy.snippet or ''}"
        assert not re.search(
            r"\bkill -9\b|\bkill \$|pkill|max_split_size_mb:(?:\d|[12]\d|3[0-2])\b|redis-max-memory|0\.15\.0", text
        ), remedy.knob
    assert all(r.why for r in rejected)
    assert not {r.knob for r in chosen} & {r.knob for r in rejected}
    rejected_advice(crash)


def test_there_are_crashes_to_look_at() -> None:
    assert len(CRASHES) > 50


# what is set already, whoever spells it


@pytest.mark.parametrize(
    "setting",
    [
        "gradient_checkpointing=True",
        "--gradient-checkpointing --lr 1e-5",
        "--recompute-granularity full",
        "disable_gradient_checkpointing=False",
        "--use_gradient_checkpointing unsloth",
        "enable_activation_checkpointing=True",
    ],
)
def test_what_is_on_is_not_advised_where_no_framework_is_known(setting: str) -> None:
    log = f"python finetune.py {setting} --per_device_train_batch_size 16\n" + cuda()
    assert list(crashes_of(log)[0].context.frameworks) == ["torch"]
    chosen, rejected = advise(log, "gradient-checkpointing")
    assert not chosen
    assert "is already " in rejected["gradient-checkpointing"].why


@pytest.mark.parametrize(
    "setting",
    [
        "gradient_checkpointing=False",
        "disable_gradient_checkpointing=True",
        "--recompute-granularity selective",
        "pin_memory=True",
    ],
)
def test_what_is_off_is_advised(setting: str) -> None:
    log = f"python finetune.py {setting} --per_device_train_batch_size 16\n" + cuda()
    chosen, _ = advise(log, "gradient-checkpointing")
    assert "gradient-checkpointing" in chosen


def test_one_knob_that_is_set_is_no_other_one() -> None:
    log = "python finetune.py gradient_checkpointing=True --per_device_train_batch_size 16\n" + cuda()
    chosen, _ = advise(log, "offload-activations", "shorter-sequences")
    assert list(chosen) == ["offload-activations", "shorter-sequences"]


# the reward server's address

SERVED = kill(239.02, 251.56, "14\t176.97\tpython -m openrlhf.cli.serve_rm --reward_pretrain m\n")


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ("--remote_rm_url http://localhost:5005/get_reward", "http://OTHER_NODE:5005/get_reward"),
        ("--remote_rm_url https://10.0.0.4/score", "https://OTHER_NODE/score"),
        ("--remote_rm_url http://[::1]:77/r", "http://OTHER_NODE:77/r"),
        ("--remote_rm_url 'http://a:1/r;reboot'", "http://OTHER_NODE:PORT/get_reward"),
        ("--port 5005", "http://OTHER_NODE:PORT/get_reward"),  # whose port that is, nothing says
        ("--reward_pretrain m --port 5005", "http://OTHER_NODE:5005/get_reward"),
    ],
)
def test_the_reward_server_keeps_its_own_port(settings: str, url: str) -> None:
    log = f"python3 -m openrlhf.cli.train_ppo_ray {settings}\n" + SERVED
    remedy = advise(log, "move-process", cause="reward-model-ram-hog")[0]["move-process"]
    assert remedy.snippet is not None
    assert remedy.snippet.split()[-1] == url


BESIDE_A_LIMIT = (
    "docker run --memory=40G trainer /run.sh\n"
    "WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes available.\n"
    "Starting the Plasma object store with {size} GB memory using /tmp.\n"
    "/b/plasma/io.cc:99: Connection to IPC socket failed for pathname /tmp/ray/s/plasma_store, retrying 9 more times\n"
)


def test_a_store_beyond_its_containers_limit_shrinks_with_a_shm_that_holds_it() -> None:
    log = BESIDE_A_LIMIT.format(size=61)
    chosen, rejected = advise(log, "bigger-shm", "smaller-object-store", cause="container-limit")
    assert "bigger-shm" not in rejected  # the warning's --shm-size is no wrong hint: with the smaller store it is right
    store = chosen["smaller-object-store"]
    assert store.suggested == 12 * 1024**3
    assert "--shm-size=12g" in (store.snippet or "")


def test_a_store_within_its_containers_limit_has_its_shm() -> None:
    chosen, _ = advise(BESIDE_A_LIMIT.format(size=20), "bigger-shm", "smaller-object-store", cause="shm-too-small")
    assert chosen["bigger-shm"].snippet == "docker run --shm-size=19g"
    assert "--shm-size" not in (chosen["smaller-object-store"].snippet or "")
