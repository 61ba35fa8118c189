"""What the log shows to be in force is not advised, and what only resembles it says nothing."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor.decision.diagnosis import decide
from oomdoctor.remedies import in_force
from oomdoctor.remedies.advice import advise as advise_on

BITS = "quantize-weights"
HALF = "mixed-precision"
LOADER = (
    'Traceback (most recent call last):\n  File "/x/merge.py", line 9, in <module>\n'
    "    model = AutoModelForCausalLM.from_pretrained(\n"
    '  File "/env/site-packages/accelerate/utils/modeling.py", line 200, in set_module_tensor_to_device\n'
    "    new_value = value.to(device)\n"
)


def frame(file: str, code: str, function: str = "forward") -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 7, in {function}\n    {code}\n{cuda()}'


@pytest.mark.parametrize(
    ("log", "why"),
    [
        # near misses: an optimizer's states, a cache, a tensor, a comment about something else
        (frame("/env/site-packages/bitsandbytes/optim/adamw.py", "self.state1 = torch.zeros_like(p)"), None),
        (frame("/x/net.py", "q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)"), None),
        (frame("/x/net.py", "y = self.model.quantize(x, scale=0.1)"), None),
        (frame("/x/net.py", "k = self.cache.quantize(tokenizer_ids)"), None),
        (frame("/x/net.py", "x = dequantize(x)"), None),
        (frame("/x/net.py", "x = self.merge(x)  # merge the two branches"), None),
        # weights of few bits, by their layers or by a line without a frame
        (frame("/env/site-packages/bitsandbytes/autograd/_functions.py", "out = A @ B"), "already quantized"),
        ("--> 31 y = linear(A, F.dequantize_4bit(B, state).t(), bias)\n" + cuda(), "already quantized"),
        ("  (up): Linear4bit(in_features=64, out_features=64)\n" + cuda(), "already quantized"),
        # the job is making them
        ("model.quantize(tokenizer, quant_config=made)\n" + cuda(), "is quantizing"),
        (frame("/x/awq.py", "model.quantize(examples)", "<module>"), "is quantizing"),
        # or needs whole ones
        ("# Load it again to merge the LoRA weights\n" + LOADER + cuda(), "adapters are merged"),
        (frame("/x/join.py", "model = model.merge_and_unload()", "<module>"), "adapters are merged"),
    ],
)
def test_weights_that_are_or_become_of_few_bits_are_not_made_so(log: str, why: str | None) -> None:
    told = in_force.refused(BITS, crashes_of(log)[0])
    assert (told is None) if why is None else (why in (told or ""))
    if why is not None:
        assert BITS not in advise(log, BITS, cause="model-does-not-fit")[0]


@pytest.mark.parametrize(
    ("comment", "advised"),
    [
        ("# Load the model in FP16", False),
        ("# Reload weights as bfloat16", False),
        ("# load in half precision first", False),
        ("# Load the tokenizer", True),
        ("# FP16 needs another card", True),
        ("# Load the model in FP32", True),
        ("# Load the images in 16 colours", True),
    ],
)
def test_a_loader_that_is_told_to_halve_is_not_told_again(comment: str, advised: bool) -> None:
    log = f"{comment}\n{LOADER}{cuda()}"
    assert (HALF in advise(log, HALF, cause="model-does-not-fit")[0]) is advised


@pytest.mark.parametrize(
    ("code", "advised"),
    [("return tensor.float()", False), ("return self.net(x)", True)],
)
def test_outputs_are_widened_only_where_passes_are_narrow(code: str, advised: bool) -> None:
    function = "_convert_to_fp32" if not advised else "convert"
    log = frame("/env/site-packages/accelerate/utils/operations.py", code, function)
    assert (HALF in advise(log, HALF, cause="activations")[0]) is advised


def test_adapters_are_merged_where_there_is_room() -> None:
    log = "# Merge the LoRA weights into the base\n" + LOADER + cuda()
    known = advise(log, "offload-parameters", cause="model-does-not-fit")[0]["offload-parameters"]
    assert known.snippet == 'from_pretrained(..., device_map="cpu")'
    plain = advise(LOADER + cuda(), "offload-parameters", cause="model-does-not-fit")[0]
    assert "Merge" not in str(plain)


@pytest.mark.parametrize(
    ("code", "advised"),
    [
        ("dec = self.spatial_tiled_decode(z)", False),
        ("dec = vae.decode_tiled(z)", False),
        ("dec = self.decode(z)", True),
        ("tiled = decode(z)", True),
    ],
)
def test_one_tile_is_as_large_for_a_small_picture(code: str, advised: bool) -> None:
    log = frame("/x/autoencoder_kl.py", code, "decode")
    assert ("smaller-input" in advise(log, "smaller-input", cause="activations")[0]) is advised


@pytest.mark.parametrize(("file", "option"), [("hyvideo/vae/net.py", True), ("models/hyvideo/vae/net.py", False)])
def test_a_folder_of_another_program_has_its_options(file: str, option: bool) -> None:
    log = frame(file, "y = self.conv2d(x)") + "hyvideo/"
    known = advise(log, "offload-parameters", cause="activations")[0]
    assert ("--use-cpu-offload" in str(known)) is option


TILES = "tiled-processing"
DIFFUSERS = "/env/site-packages/diffusers/models/autoencoders/autoencoder_kl.py"
COMFY = "/w/ComfyUI/comfy/sd.py"


@pytest.mark.parametrize(
    ("file", "function", "advised"),
    [
        (DIFFUSERS, "tiled_decode", False),
        (DIFFUSERS, "_decode", True),
        (DIFFUSERS, "untiled", True),
        (COMFY, "decode_tiled_", False),
        ("/w/ComfyUI/comfy/utils.py", "tiled_scale_multidim", False),
        (COMFY, "decode", True),
    ],
)
def test_what_runs_in_tiles_is_not_told_to(file: str, function: str, advised: bool) -> None:
    log = frame(file, "y = self.decoder(z)", function)
    assert (TILES in advise(log, TILES, cause="activations")[0]) is advised


def test_a_tile_can_be_smaller_where_its_size_is_an_option() -> None:
    log = "python inference_realesrgan.py -i in\n" + frame("/w/net.py", "y = model.tiled_decode(z)")
    assert advise(log, TILES, cause="activations")[0][TILES].snippet == "--tile 400"


@pytest.mark.parametrize(("function", "option"), [("decode_tiled_", "--cpu-vae"), ("decode", "--novram")])
def test_the_autoencoder_goes_to_the_cpu_where_tiles_do_not_fit(function: str, option: str) -> None:
    known = advise(frame(COMFY, "y = self.decoder(z)", function), "offload-parameters", cause="activations")[0]
    assert known["offload-parameters"].snippet == option


ATTENTION = "memory-efficient-attention"


@pytest.mark.parametrize(
    ("file", "code", "advised"),
    [
        ("/env/site-packages/flash_attn/flash_attn_interface.py", "out = kernel(q, k, v)", False),
        ("/x/net.py", "y = flash_attn_varlen_func(q, k, v, causal=False)", False),
        ("/x/net.py", "y = self._flash_attention_forward(q, k, v)", False),
        ("/x/net.py", "y = xformers.ops.memory_efficient_attention(q, k, v)", False),
        ("/env/site-packages/x/attention.py", "y = F.scaled_dot_product_attention(q, k, v)", False),
        # near misses: the job's own call has arguments to change; a name, a plain one
        ("/x/net.py", "y = F.scaled_dot_product_attention(q, k, v)", True),
        ("/x/net.py", "use_flash_attn = False; attention = attend(q, k)", True),
        ("/env/site-packages/x/attention.py", "scores = torch.matmul(q, k.transpose(1, 2))", True),
    ],
)
def test_a_kernel_for_attention_is_not_advised_twice(file: str, code: str, advised: bool) -> None:
    log = frame(file, code)
    assert (ATTENTION in advise(log, ATTENTION, cause="activations")[0]) is advised


@pytest.mark.parametrize(
    ("function", "code", "first"),
    [
        ("get_attention_scores", "scores = make(q)", True),
        ("forward", "attention_scores = torch.baddbmm(empty, query, key)", True),
        ("forward", "sim = einsum('b i d, b j d -> b i j', q, k)", True),
        ("forward", "attn = sim.softmax(dim=-1)", True),
        ("forward", "y = torch.matmul(weight, hidden)", False),
        ("forward", "y = torch.softmax(logits, dim=-1)", False),
        ("forward", "y = self.attn1(x)", False),
    ],
)
def test_who_draws_looks_at_plain_attention_first(function: str, code: str, first: bool) -> None:
    log = frame("/env/site-packages/diffusers/models/processor.py", code, function)
    chosen = advise_on(decide(crashes_of(log)[0])).remedies[0]
    assert (chosen[0].knob == ATTENTION) is first
    assert (chosen[0].snippet == "pipe.enable_attention_slicing()") is first


# the allocator


@pytest.mark.parametrize(
    ("tried", "free", "total", "unused", "advised"),
    [
        # near misses: less than was missing; nothing at all, which room of its own makes up for
        ("640.00 MiB", "0 bytes", "24.00 GiB", "451.00 MiB", False),
        ("3.00 GiB", "1.80 GiB", "24.00 GiB", "1.10 GiB", False),
        ("128.00 MiB", "30.00 GiB", "45.00 GiB", "0 bytes", False),
        ("6.00 GiB", "10.00 MiB", "79.00 GiB", "4.50 GiB", False),
        ("64.00 MiB", "0 bytes", "24.00 GiB", "451.00 MiB", True),
        ("3.00 GiB", "2.00 GiB", "24.00 GiB", "1.10 GiB", True),
        ("64.00 MiB", "0 bytes", "24.00 GiB", "1.30 GiB", True),
        ("2.00 GiB", "1.00 GiB", "24.00 GiB", "1.50 GiB", True),
        ("4.00 GiB", "10.00 MiB", "79.00 GiB", "4.50 GiB", True),
    ],
)
def test_the_allocator_matters_where_a_good_part_lies_idle(
    tried: str, free: str, total: str, unused: str, advised: bool
) -> None:
    log = 'Traceback (most recent call last):\n  File "/x/fit.py", line 3, in forward\n    y = self.mlp(x)\n'
    chosen, rejected = advise(log + cuda(tried, total, free, unused=unused), "allocator-config", cause="activations")
    assert ("allocator-config" in chosen) is advised
    assert ("allocator-config" in rejected) is not advised


OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 11.00 GiB total capacity; 6.00 GiB already "
    "allocated; 20.00 MiB free; 9.50 GiB reserved in total by PyTorch)\n"
)


@pytest.mark.parametrize(("cause", "advised"), [("activations", False), ("allocator-fragmentation", True)])
def test_an_old_release_is_upgraded_where_memory_lies_in_pieces(cause: str, advised: bool) -> None:
    known = advise(OLD, "allocator-config", cause=cause)[0]
    assert ("allocator-config" in known) is advised
    if advised:
        assert known["allocator-config"].action.startswith("Upgrade PyTorch to 2.1 or later")


@pytest.mark.parametrize(
    ("python", "since", "value"),
    [
        ("3.6", "1.10", "max_split_size_mb:512"),
        ("3.7", "1.10", "max_split_size_mb:512"),
        ("3.8", "2.1", "expandable_segments:True"),
        ("3.5", None, None),  # which runs no release with the variable
    ],
)
def test_to_a_release_that_the_jobs_python_runs(python: str, since: str | None, value: str | None) -> None:
    log = f'  File "/env/lib/python{python}/site-packages/torch/tensor.py", line 107, in backward\n{OLD}'
    known = advise(log, "allocator-config", cause="allocator-fragmentation")[0].get("allocator-config")
    assert (known is None) is (since is None)
    if known is not None:
        assert known.action.startswith(f"Upgrade PyTorch to {since} or later")
        assert known.snippet == f"export PYTORCH_CUDA_ALLOC_CONF={value}"


# by a file of the traceback, by a line, by the name of a model's file

RECOMPUTE, SHARDS = "gradient-checkpointing", "shard-states"
PACKAGES = "/env/lib/python3.11/site-packages"


def behind(file: str, code: str = "y = call(x)", function: str = "call") -> str:
    """A traceback that goes through the file and ends in the job's own line."""
    through = f'  File "{file}", line 70, in {function}\n    {code}\n'
    return (
        'Traceback (most recent call last):\n  File "/x/train.py", line 12, in <module>\n    loss.backward()\n'
        f'{through}  File "/x/net.py", line 7, in forward\n    y = self.mlp(x)\n{cuda()}'
    )


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        # near misses: files and lines that only sound like it
        (behind(f"{PACKAGES}/torch/distributed/checkpoint/state_dict_saver.py"), None),
        (behind("/x/utils/checkpoint.py"), None),
        (behind(f"{PACKAGES}/transformers/modeling_layers.py", "return super().__call__(*args, **kwargs)"), None),
        (behind("/x/net.py", "x = self.checkpoint(x)"), None),
        (f"    y = self._gradient_checkpointing_func(block, x)\n{frame('/x/net.py', 'y = self.mlp(x)')}", None),
        (f"recompute: selective\n{behind(f'{PACKAGES}/torch/utils/checkpoint.py')}", None),
        (behind(f"{PACKAGES}/torch/utils/checkpoint.py"), "torch/utils/checkpoint.py"),
        (behind(f"{PACKAGES}/deepspeed/runtime/activation_checkpointing/checkpointing.py"), "activation_checkpointing"),
        (behind("/x/net.py", "y = self._gradient_checkpointing_func(block, x)"), "_gradient_checkpointing_func"),
        (behind("/x/net.py", "y = cp.checkpoint(inner, x)"), "cp.checkpoint"),
        (behind(f"{PACKAGES}/unsloth_zoo/gradient_checkpointing.py"), "unsloth_zoo/gradient_checkpointing.py"),
        (f"{PACKAGES}/torch/utils/checkpoint.py:90: UserWarning: none\n{cuda()}", "torch/utils/checkpoint.py"),
    ],
)
def test_what_recomputes_is_not_told_to(log: str, shown: str | None) -> None:
    chosen, rejected = advise(log, RECOMPUTE, cause="activations")
    assert (RECOMPUTE in chosen) is (shown is None)
    if shown is not None:
        assert rejected[RECOMPUTE].why.startswith("it is on already (")
        assert shown in rejected[RECOMPUTE].why


@pytest.mark.parametrize(
    ("log", "advised"),
    [
        # near misses: sharded in part, or by nobody
        ("sharding_strategy=SHARD_GRAD_OP\n" + behind(f"{PACKAGES}/torch/distributed/fsdp/_runtime_utils.py"), True),
        (behind(f"{PACKAGES}/torch/distributed/distributed_c10d.py"), True),
        (behind(f"{PACKAGES}/deepspeed/runtime/zero/stage_1_and_2.py"), True),
        (behind(f"{PACKAGES}/torch/nn/parallel/distributed.py") + "see fsdp in the documentation\n", True),
        (behind(f"{PACKAGES}/torch/distributed/fsdp/_runtime_utils.py"), False),
        (behind(f"{PACKAGES}/torch/distributed/fsdp/_fully_shard/_fsdp_state.py"), False),
        (behind(f"{PACKAGES}/deepspeed/runtime/zero/stage3.py"), False),
        ("_fsdp_wrapped_module.layers.3.up.weight\n" + behind("/x/net.py"), False),
    ],
)
def test_what_is_sharded_is_not_sharded_again(log: str, advised: bool) -> None:
    log = "torchrun --nproc_per_node 8 train.py\n" + log
    assert (in_force.refused(SHARDS, crashes_of(log)[0]) is None) is advised


@pytest.mark.parametrize(
    ("line", "advised"),
    [
        ("Replacing CrossAttention took 3 s", True),
        ("xformers is not installed", True),
        ("No module 'xformers'. Proceeding without it.", True),
        ("Applying attention optimization: Doggettx... done.", True),
        ("Using split attention in VAE", True),
        ("flash_attn = 0", True),
        ("Replace CrossAttention.forward to use xformers", False),
        ("Applying attention optimization: sdp-no-mem... done.", False),
        ("Applying xformers cross attention optimization.", False),
        ("Using pytorch attention in VAE", False),
        ("llama_context: flash_attn    = 1", False),
        ("{'attn_implementation': 'sdpa'}", False),
    ],
)
def test_attention_that_was_replaced_is_not_replaced_again(line: str, advised: bool) -> None:
    log = f"{line}\n{frame('/x/net.py', 'attn = q @ k')}"
    assert (in_force.refused(ATTENTION, crashes_of(log)[0]) is None) is advised


@pytest.mark.parametrize(
    ("name", "advised"),
    [
        ("falcon-IQ4_XS.gguf", False),
        ("falcon-Q4_K_M-00001-of-00003.gguf", False),
        ("falcon.q3_k_s.gguf", False),
        ("falcon-MXFP4.gguf", False),
        ("falcon-Q8_0.gguf", True),
        ("falcon-q5_k_m.gguf", True),
        ("falcon-BF16.gguf", True),
        ("Q4_notes.txt", True),
    ],
)
def test_a_file_of_four_bits_is_not_made_one_of_four_bits(name: str, advised: bool) -> None:
    log = (
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9000.00 MiB on device 0: cudaMalloc failed: out of "
        f"memory\nllama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
        f"srv    load_model: failed to load model, '/m/{name}'\n"
    )
    assert (BITS in advise(log, BITS, cause="model-does-not-fit")[0]) is advised


@pytest.mark.parametrize(
    ("model", "advised"),
    [("org/net-7B-FP8", False), ("org/net-7B-w8a8", False), ("org/net-7B", True), ("org/net-7B-FP16", True)],
)
def test_weights_of_eight_bits_are_not_made_so(model: str, advised: bool) -> None:
    log = f"vllm serve {model}\nINFO vLLM API server version 0.9.1\n{cuda()}"
    assert (BITS in advise(log, BITS, cause="model-does-not-fit")[0]) is advised


@pytest.mark.parametrize(
    ("line", "advised"),
    [
        ("  Batch Size Per Device = 1", False),
        ("  Batch Size Per Device = 2", True),
        ("  Batch Size Of The Index", True),
    ],
)
def test_a_batch_of_one_is_not_halved_however_it_is_printed(line: str, advised: bool) -> None:
    log = f"{line}\n{frame('/x/net.py', 'y = self.mlp(x)')}"
    assert ("smaller-microbatch" in advise(log, "smaller-microbatch", cause="activations")[0]) is advised


@pytest.mark.parametrize(("line", "then"), [("", 4), ("actor_rollout_ref.rollout.tensor_model_parallel_size=1", 2)])
def test_a_model_that_is_split_by_default_is_split_further(line: str, then: int) -> None:
    log = (
        f"python3 -m verl.trainer.main_ppo {line} actor_rollout_ref.rollout.name=vllm\n"
        "(WorkerDict pid=88) ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.\n"
    )
    known = advise(log, "tensor-parallel", cause="kv-cache-no-room")[0]["tensor-parallel"]
    assert known.suggested == then


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("  -> SequencePackingLossWrapper.__call__", "policy.sequence_packing.train_mb_tokens"),
        ("  -> LossWrapper.__call__", "policy.dynamic_batching.enabled"),
    ],
)
def test_of_two_ways_to_fill_batches_one_at_a_time(line: str, option: str) -> None:
    log = f"uv run examples/run_grpo_math.py\nnemo_rl/algorithms/grpo.py\n{line}\n{cuda()}"
    assert advise(log, "token-budget-batching", cause="logits-spike")[0]["token-budget-batching"].setting == option
