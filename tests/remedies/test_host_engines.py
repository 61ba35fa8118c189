"""What an engine or a pass keeps lies in host memory where it computes there, and only there its knobs relieve it."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of
from test_free_before_bought import POD, WHOLE, advised

from oomdoctor.signs.host_engines import a_pass_computes_on_the_host, an_engine_computes_on_the_host

LIMIT = POD + "      Limits:\n      memory:  64Gi\n"
REFUSED = (
    "llama_kv_cache:        CPU KV buffer size = 40960.00 MiB\n"
    "ggml_aligned_malloc: insufficient memory (attempted to allocate 40960.00 MB)\n"
    "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 42949672960\n"
    "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n"
)
ON_THE_CPU = "load_tensors:          CPU model buffer size = 40460.00 MiB\n"
ON_A_CARD = "load_tensors:        CUDA0 model buffer size = 40460.00 MiB\n"
VLLM = (
    "INFO 11-20 10:00:01 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen2.5-7B', "
    "max_seq_len=131072, device_config={}\n"
)
KNOBS = ("shorter-context", "fewer-sequences", "quantize-kv-cache", "smaller-prefill")


@pytest.mark.parametrize("log", [REFUSED, ON_THE_CPU + LIMIT, VLLM.format("cpu") + LIMIT])
def test_an_engine_computes_on_the_host(log: str) -> None:
    assert an_engine_computes_on_the_host(crashes_of(log)[0]) is not None
    chosen, _ = advise(log, *KNOBS)
    assert chosen.keys() >= {"shorter-context"}
    assert ("quantize-kv-cache" in chosen) is ("LLM engine" not in log)
    assert {"host_ram", "cgroup"} <= set(chosen["shorter-context"].relieves)
    assert "gpu" not in chosen["shorter-context"].relieves


SUM = "llama_kv_cache: size =    4.00 MiB (  4096 cells,   2 layers,  1/1 seqs), K (f16): 2.00 MiB, V (f16): 2.00 MiB\n"


@pytest.mark.parametrize(("log", "computes"), [(ON_THE_CPU + SUM, True), (ON_A_CARD + SUM, False)])
def test_the_sum_of_a_cache_is_of_no_device(log: str, *, computes: bool) -> None:
    (crash,) = crashes_of(log + LIMIT)
    assert (an_engine_computes_on_the_host(crash) is not None) == computes


@pytest.mark.parametrize("log", [ON_A_CARD + LIMIT, VLLM.format("cuda") + LIMIT, LIMIT, WHOLE, LIMIT + "device: cpu\n"])
def test_a_card_has_what_the_engine_keeps(log: str) -> None:
    assert an_engine_computes_on_the_host(crashes_of(log)[0]) is None
    assert advise(log, *KNOBS)[0] == {}


OWN_SERVER = "+ python chat_server.py {option}\nserver: model loaded on {device}\nserver: {does}\n"
KILLED = "run.sh: line 2:    41 Killed                  python chat_server.py {option}\nexit code: 137\n"


@pytest.mark.parametrize(
    ("option", "device", "does", "computes"),
    [
        ("--max-model-len 4096 --max-num-seqs 32", "cpu", "serving batch 1, preparing the KV cache", True),
        ("--max-model-len 4096 --max-num-seqs 32", "cpu", "serving batch 1", False),
        ("--max-num-seqs 32", "cpu", "serving batch 1, preparing the KV cache", False),
        ("--max-model-len 4096", "cpu", "KV cache off\n{'loss': 2.31, 'learning_rate': 1e-05, 'epoch': 0.1}", False),
        ("--max-model-len 4096", "NVIDIA A100-SXM4-80GB", "serving batch 1, preparing the KV cache", False),
    ],
)
def test_a_server_that_somebody_wrote_has_its_cache_on_the_host(
    option: str, device: str, does: str, *, computes: bool
) -> None:
    (crash,) = crashes_of((OWN_SERVER + KILLED).format(option=option, device=device, does=does))
    assert (an_engine_computes_on_the_host(crash) is not None) == computes


def test_on_a_card_they_relieve_the_card_alone() -> None:
    log = VLLM.format("cuda") + (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.\n"
    )
    chosen, _ = advise(log, "quantize-kv-cache", cause="kv-cache-no-room")
    assert chosen["quantize-kv-cache"].relieves == ("gpu", "kv_cache")


def test_a_limit_with_such_an_engine_behind_it_is_relieved_by_its_knobs(tmp_path: Path) -> None:
    cause, knobs, lines = advised(tmp_path, VLLM.format("cpu") + LIMIT)
    assert (cause, knobs[0]) == ("container-limit", "shorter-context")
    assert lines["shorter-context"] == "--max-model-len 65536"
    assert "raise-container-limit" in knobs[:3]


FRAME = 'Traceback (most recent call last):\n  File "/home/me/fit.py", line 5, in <module>\n    {}\n'
MODEL = '  File "/v/site-packages/torch/nn/modules/module.py", line 9, in _call_impl\n    return forward(*args)\n'
TORCH = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 13184021299 bytes. Error code 12 (Cannot allocate memory)\n"
)


def test_a_pass_on_the_host_keeps_its_activations_there() -> None:
    log = FRAME.format("loss = model(x)") + MODEL + TORCH
    assert a_pass_computes_on_the_host(crashes_of(log)[0]) is not None
    assert "host_ram" in advise(log, "gradient-checkpointing")[0]["gradient-checkpointing"].relieves


@pytest.mark.parametrize("log", [FRAME.format("x = torch.cat(parts)") + TORCH, FRAME.format("fit()") + MODEL + WHOLE])
def test_an_array_of_the_jobs_own_and_a_kill_are_no_pass(log: str) -> None:
    assert a_pass_computes_on_the_host(crashes_of(log)[0]) is None
    assert advise(log, "gradient-checkpointing", "chunked-logits")[0] == {}


CPU = (
    "WARNING 03-04 09:12:01 [cpu.py:118] Environment variable VLLM_CPU_KVCACHE_SPACE (GiB) for CPU backend is not set, "
    "using 4 by default.\n"
)
DETECTED = "INFO [__init__.py:239] Automatically detected platform cpu.\n"
ADVICE = "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
COUNTED = (
    "ERROR 03-04 09:12:31 [core.py:396] ValueError: The model's max seq len ({length}) is larger than the maximum "
    f"number of tokens that can be stored in KV cache ({{held}}). {ADVICE}"
)
WEIGHED = (
    "ERROR 03-04 09:12:31 [core.py:842] ValueError: To serve at least one request with the models's max seq len "
    "(40960), (4.38 GiB KV cache is needed, which is larger than the available KV cache memory (4.00 GiB). Based on "
    f"the available memory, the estimated maximum model length is 37376. {ADVICE}"
)


@pytest.mark.parametrize(
    ("log", "suggested"),
    [
        (CPU + COUNTED.format(length=65536, held=18720), 15),  # 14.004
        (CPU + COUNTED.format(length=32768, held=32767), 5),
        (
            DETECTED + COUNTED.format(length=65536, held=18720),
            None,
        ),
        (DETECTED + WEIGHED, 5),
    ],
)
def test_the_cache_of_an_engine_on_a_cpu_is_set_by_a_variable(log: str, suggested: int | None) -> None:
    knobs = ("raise-engine-reservation", "quantize-kv-cache", "tensor-parallel", "eager-mode", "engine-sleep")
    chosen, _ = advise(log, *knobs, cause="max-model-len-too-long")
    assert set(chosen) == {"raise-engine-reservation"}
    remedy = chosen["raise-engine-reservation"]
    assert (remedy.setting, remedy.suggested) == ("VLLM_CPU_KVCACHE_SPACE", suggested)


@pytest.mark.parametrize("before", ["", "INFO [__init__.py:239] Automatically detected platform cuda.\n"])
def test_the_cache_of_an_engine_on_a_gpu_is_not(before: str) -> None:
    chosen, _ = advise(before + WEIGHED, "raise-engine-reservation", cause="max-model-len-too-long")
    assert chosen["raise-engine-reservation"].setting == "--gpu-memory-utilization"
