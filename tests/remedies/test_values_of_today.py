"""What a remedy says of a value that the log does not print, and which option of several it names."""

from __future__ import annotations

import pytest
from remedy_logs import OPENRLHF, advise, crashes_of, cuda

from oomdoctor.causes import Cause
from oomdoctor.causes import causes as all_causes
from oomdoctor.decision.diagnosis import decide
from oomdoctor.language import say
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advise import remedies
from oomdoctor.remedies.order import knobs_of
from oomdoctor.remedies.sizes import size_of_model
from oomdoctor.report.headline import headline
from oomdoctor.report.words import formula
from oomdoctor.signs.ggml import computed_after
from oomdoctor.units import GIB

FRAME = '  File "/x/{}", line 1, in {}\n    {}\n'
VLLM = FRAME.format("site-packages/vllm/v1/worker/gpu_worker.py", "execute_model", "x = y()")
AXOLOTL = FRAME.format("site-packages/axolotl/train.py", "train", "trainer.train()")
VERL = FRAME.format("verl/workers/fsdp_workers.py", "{0}", "output = self.actor.{0}(data=data)")
START = (
    "ValueError: Free memory on device (7.34/139.72 GiB) on startup is less than desired GPU memory utilization "
    "(0.9, 125.75 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)
SAVER = "[torch_memory_saver.cpp] cudaError error: 2 (out of memory)  file=csrc/core.cpp func=resume line=172\n"
ACCOUNT = (
    "INFO 11-01 00:32:07 [gpu_worker.py:391] Free memory on device (22.52/23.51 GiB) on startup. Desired GPU memory "
    "utilization is (0.86, 20.32 GiB). Actual usage is 3.61 GiB for weight, 0.59 GiB for peak activation, 0.02 GiB for "
    "non-torch memory, and 2.28 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with "
    "`--kv-cache-memory=14689787392` to fit into requested memory, or `--kv-cache-memory=17049050624` to fully utilize "
    "gpu memory. Current kv cache memory in use is {} bytes.\n"
)
DUMMIES = FRAME.format("site-packages/vllm/v1/worker/gpu_model_runner.py", "_dummy_sampler_run", "x = sampler(y)")
METAL = (
    "llama_kv_cache:      Metal KV buffer size = 11440.00 MiB\n"
    "{}llama_context:      Metal compute buffer size =   307.00 MiB\n"
    "common_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)\n"
    "ggml_metal_synchronize: error: command buffer 0 failed with status 5\n"
    "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n"
)
SCORES = (
    "llama_kv_cache_init:      CUDA0 KV buffer size =   {}.00 MiB\n"
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 2147483648\n"
)


def causes() -> dict[str, Cause]:
    return {cause.id: cause for cause in all_causes()}


def one(log: str, knob: str, cause: str = "activations") -> Remedy:
    return advise(log, knob, cause=cause)[0][knob]


def held(tensors: float) -> str:
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 50.00 MiB. GPU 0 has a total capacity of 20.00 "
        f"GiB of which 20.00 MiB is free. Including non-PyTorch memory, this process has 19.98 GiB memory in use. Of "
        f"the allocated memory {tensors:.2f} GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but "
        "unallocated.\n"
    )


# --- values that nobody printed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("knob", ["smaller-prefill", "shorter-context"])
def test_of_tokens_no_number_is_made_up(knob: str) -> None:
    remedy = one(VLLM + held(17), knob)
    assert (remedy.suggested, remedy.snippet) == (None, None)
    assert remedy.setting is not None


def test_a_printed_budget_is_halved() -> None:
    log = "vllm serve m --max-num-batched-tokens 8192\n" + VLLM + held(17)
    assert one(log, "smaller-prefill").suggested == 4096


def test_a_length_that_nobody_printed_is_halved_in_words() -> None:
    remedy = one(AXOLOTL + cuda(), "shorter-sequences")
    assert remedy.action == say("Halve {name} (value not in the log)", name="sequence_len")
    assert remedy.snippet is None


def test_no_batch_no_accumulation() -> None:
    remedy = one(AXOLOTL + cuda(), "smaller-microbatch")
    assert remedy.suggested == 1
    assert "accumulation" not in f"{remedy.action} {remedy.snippet}"


def test_a_default_is_called_one() -> None:
    assert one(VLLM + held(17), "fewer-sequences").action == "Halve --max-num-seqs: 256 (default) -> 128"
    assert "0.90 (default) ->" in one(VLLM + held(17), "lower-engine-reservation").action


def test_a_printed_share_is_no_default() -> None:
    log = "vllm serve m --gpu-memory-utilization 0.9\n" + VLLM + held(17)
    assert "default" not in one(log, "lower-engine-reservation").action


@pytest.mark.parametrize(("tensors", "assumed"), [(18.9, True), (19.4, False)])
def test_a_default_that_the_tensors_contradict_is_not_assumed(tensors: float, assumed: bool) -> None:
    remedy = one(VLLM + held(tensors), "lower-engine-reservation")
    assert ("(default)" in remedy.action) is assumed
    assert (remedy.suggested is not None) is assumed
    assert remedy.derivation


def test_a_level_is_no_value_to_begin_with() -> None:
    log = OPENRLHF.format("--lora_rank 16 --zero_stage 2")
    remedy = one(log + cuda(), "shard-states", "optimizer-states")
    assert remedy.suggested == 3
    assert formula(remedy) == ""


# --- the setting of the failing call ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "option"),
    [
        ("compute_log_prob", "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"),
        ("compute_ref_log_prob", "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"),
        ("update_actor", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"),
    ],
)
def test_the_option_of_the_failing_call(function: str, option: str) -> None:
    assert one(VERL.format(function) + cuda(), "smaller-microbatch").setting == option


def test_a_stated_option_stays() -> None:
    name = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    log = f"python -m verl.trainer.main_ppo {name}=8\n" + VERL.format("update_actor") + cuda()
    assert one(log, "smaller-microbatch").setting == name


def test_an_engines_flags_stand_only_where_it_is_shown() -> None:
    remedy = one(SAVER, "lower-engine-reservation", "vllm-utilization-too-high")
    assert "gpu-memory-utilization" not in f"{remedy.setting} {remedy.snippet} {remedy.action}"
    shown = one(VLLM + held(17), "lower-engine-reservation", "vllm-utilization-too-high")
    assert shown.setting == "--gpu-memory-utilization"


def test_who_wakes_an_engine_offloads_the_trainer_first() -> None:
    assert "before the engine wakes up" in one(SAVER, "clear-references", "vllm-utilization-too-high").action


def test_before_anything_is_loaded_nothing_else_matters() -> None:
    chosen, _ = advise(START, "shorter-context", "fewer-sequences", "free-the-gpu", "fix-placement", cause="gpu-shared")
    assert list(chosen) == ["free-the-gpu", "fix-placement"]
    assert "another GPU" in chosen["fix-placement"].action


# --- vLLM's own count -------------------------------------------------------------------------------------------------


def test_the_engines_own_size_of_the_cache_comes_first() -> None:
    log = ACCOUNT.format(17292353024) + DUMMIES + "torch.OutOfMemoryError: CUDA out of memory.\n"
    remedy = one(log, "lower-engine-reservation", "sampler-warmup")
    assert remedy.snippet == "--kv-cache-memory-bytes 14689787392"
    assert remedy.suggested == 14689787392


def test_a_cache_that_is_no_larger_needs_no_limit() -> None:
    log = ACCOUNT.format(14689787392) + DUMMIES + "torch.OutOfMemoryError: CUDA out of memory.\n"
    assert "kv-cache-memory" not in (one(log, "lower-engine-reservation", "sampler-warmup").snippet or "")


def test_a_notebook_has_arguments_and_no_flags() -> None:
    title = "OutOfMemoryError                          Traceback (most recent call last)\n"
    log = "-" * 75 + f"\n{title}" + DUMMIES + cuda(total="23.57 GiB").removeprefix("torch.")
    assert one(log, "fewer-sequences", "sampler-warmup").snippet == "max_num_seqs=128"
    assert one(DUMMIES + cuda(total="23.57 GiB"), "fewer-sequences", "sampler-warmup").snippet == "--max-num-seqs 128"


@pytest.mark.parametrize(("cache", "outside"), [(17292353024, 0.91), (14689787392, 3.19)])
def test_graphs_behind_a_full_share_count_once(cache: int, outside: float) -> None:
    (crash,) = crashes_of(ACCOUNT.format(cache) + DUMMIES + "torch.OutOfMemoryError: CUDA out of memory.\n")
    rows = {row.what: row.bytes for ledger in crash.ledgers for row in ledger.rows}
    assert round((rows["outside the engine's share"] or 0) / GIB, 2) == outside


# --- llama.cpp --------------------------------------------------------------------------------------------------------


def knobs(log: str) -> tuple[str, tuple[str, ...]]:
    """The likeliest cause and its knobs."""
    decision = decide(crashes_of(log)[0])
    return decision.answers[0].cause.id, knobs_of(decision.answers[0], decision)


def test_a_computation_on_metal_is_no_cache_without_room() -> None:
    cause, found = knobs(METAL.format(""))
    assert (cause, found[0]) == ("model-does-not-fit", "shorter-context")
    (crash,) = crashes_of(METAL.format(""))
    told = headline(causes()[cause], crash)
    assert told.startswith("Metal ran out of memory") and "11.17 GiB" in told


def test_before_the_compute_buffers_it_is_another_buffer() -> None:
    log = METAL.format("").replace("llama_context:      Metal compute buffer size =   307.00 MiB\n", "")
    log = log.replace("common_init_from_params: warming up the model", "llama_kv_cache: reserving")
    assert computed_after(crashes_of(log)[0]) is None


@pytest.mark.parametrize(("flash", "snippet"), [(True, "-ctk q8_0 -ctv q8_0"), (False, "-ctk q8_0")])
def test_values_are_quantized_with_flash_attention_alone(flash: bool, snippet: str) -> None:
    log = METAL.format("llama_context: Flash Attention was auto, set to enabled\n" if flash else "")
    assert one(log, "quantize-kv-cache", "model-does-not-fit").snippet == snippet


@pytest.mark.parametrize(("cache", "knob"), [(100, "memory-efficient-attention"), (1000, "smaller-prefill")])
def test_scores_in_the_compute_buffer_want_flash_attention_first(cache: int, knob: str) -> None:
    assert knobs(SCORES.format(cache))[1][0] == knob


def test_half_of_the_batch_says_what_it_comes_to() -> None:
    assert "2.00 GiB / 2 = 1.00 GiB" in (one(SCORES.format(100), "smaller-prefill").derivation or "")


# --- headlines and samplers -------------------------------------------------------------------------------------------

SAMPLING = FRAME.format("site-packages/vllm/v1/sample/ops/topk_topp_sampler.py", "forward_native", "logits.sort()")


def test_a_sampler_is_not_said_to_serve() -> None:
    (crash,) = crashes_of(VLLM + SAMPLING + held(17))
    assert "while serving" not in headline(causes()["vllm-utilization-too-high"], crash)
    cause, found = knobs(VLLM + SAMPLING + held(17))
    assert found[0] == "fewer-sequences", cause


def test_what_was_free_and_enough_is_the_headline() -> None:
    log = cuda(tried="388.00 MiB", total="23.64 GiB", free="562.00 MiB", own="22.14 GiB")
    sync = (
        "Exception occurred while running MultiStepRolloutWorker's function sync_model_from_actor: exception is The "
        "actor died unexpectedly before finishing this task.\n{}"
    )
    killed = "The actor is dead because it was killed by `ray.kill`.\n"
    (crash,) = crashes_of(log + sync.format(killed))
    cause = causes()["weight-sync-spike"]
    assert headline(cause, crash) == "An allocation of 388 MiB failed although 562 MiB of 23.64 GiB were free on GPU 0"
    (crash,) = crashes_of(cuda() + sync.format(""))
    assert "although" not in headline(cause, crash)


# --- applications -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "in_code"),
    [
        ("Training ended early: ", False),
        ("Training stopped for lack of memory - ", False),
        ("RuntimeError: ", True),
        ("torch.cuda.OutOfMemoryError: ", True),
        ("[rank1]: torch.OutOfMemoryError: ", True),
        ("", True),
    ],
)
def test_no_code_for_who_reads_an_applications_own_words(head: str, in_code: bool) -> None:
    message = cuda().removeprefix("torch.OutOfMemoryError: ")
    remedy = one(f"{head}{message}", "gradient-checkpointing")
    assert (remedy.snippet is not None) is in_code


def test_forges_own_switch_for_pinned_memory() -> None:
    log = (
        "Environment vars changed: {'stream': False, 'inference_memory': 950.0, 'pin_shared_memory': True}\n"
        "[Memory Management] Target: KModel, Free GPU: 3301.12 MB, Model Require: 6246.84 MB, Previously Loaded: 0.00 "
        "MB, Inference Require: 950.00 MB, Remaining: -3895.72 MB, CPU Swap Loaded (shared memory): 4012.40 MB, GPU "
        "Loaded: 2234.44 MB\nRuntimeError: CUDA error: out of memory\n"
    )
    decision = decide(crashes_of(log)[0])
    chosen, _ = remedies("pinned-memory-exhausted", ("unpin-memory",), decision.crash_of(decision.answers[0]))
    assert [remedy.snippet for remedy in chosen] == ["Swap Location: CPU"]


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("saved", "snippet", "loses"),
    [
        ("", "['model']", True),
        ("actor_rollout_ref.actor.checkpoint.save_contents=['model','hf_model','optimizer','extra']",
         "['model','optimizer','extra']", False),
    ],
)  # fmt: skip
def test_a_checkpoint_keeps_its_optimizer_states_or_says_so(saved: str, snippet: str, loses: bool) -> None:
    log = f"python -m verl.trainer.main_ppo {saved}\n" + VERL.format("save_checkpoint") + cuda()
    remedy = one(log, "sharded-checkpoint", "checkpoint-spike")
    assert snippet in (remedy.snippet or "")
    assert ("no optimizer states" in remedy.cost) is loses


@pytest.mark.parametrize("name", ["org/Some-Llama-3.1-70B-Instruct-AWQ-INT4", "org/some-70b:Q4_0", "org/some-70b-gptq"])
def test_weights_of_four_bits_are_not_counted_with_two_bytes(name: str) -> None:
    assert size_of_model(crashes_of(f"vllm serve {name}\ntorch.OutOfMemoryError: {cuda()}")[0]) is None


def test_other_weights_are() -> None:
    assert (
        size_of_model(crashes_of(f"vllm serve org/Some-Llama-3.1-70B-Instruct\ntorch.OutOfMemoryError: {cuda()}")[0])
        is not None
    )


@pytest.mark.parametrize(
    ("log", "is_nobodys"),
    [
        (SAVER, True),
        ("(SGLangEngine pid=41) " + SAVER, False),
        ("sglang.launch_server --model-path a/b\n" + SAVER, False),
        (SAVER.replace("func=resume", "func=malloc"), False),
    ],
)
def test_a_memory_saver_of_nobody_named_may_be_a_trainers(log: str, is_nobodys: bool) -> None:
    cause = "vllm-utilization-too-high"
    crash = crashes_of(log)[0]
    told = headline(causes()[cause], crash)
    assert told.startswith("torch_memory_saver could not take its memory back") is is_nobodys
    remedy = advise(log, "lower-engine-reservation", cause=cause)[0].get("lower-engine-reservation")
    assumed = remedy is not None and "the engine is SGLang (not in the log)" in remedy.assumes
    assert assumed is is_nobodys
    if is_nobodys:
        assert remedy is not None
        assert remedy.setting == "--mem-fraction-static"


@pytest.mark.parametrize(
    ("launch", "first"),
    [
        ("python -m playground.orz_7b_grpo", None),
        ("python3 -m openrlhf.cli.train_ppo_ray --vllm_gpu_memory_utilization 0.9", 0.85),
    ],
)
def test_no_share_is_taken_for_granted_where_each_recipe_sets_its_own(launch: str, first: float | None) -> None:
    woken = FRAME.format(
        "orz/ppo/trainer.py" if first is None else "openrlhf/trainer/ray/vllm_engine.py", "wake_up", "x()"
    )
    log = f"{launch}\n{woken}" + SAVER.replace("[torch_memory_saver.cpp] ", "(LLMRayActor pid=7) ")
    remedy = one(log, "lower-engine-reservation", "vllm-utilization-too-high")
    assert remedy.suggested == first
