"""Failures on the accelerator, one recipe per way that a cause shows."""

from __future__ import annotations

from typing import Final

from oomdoctor.training.generator.draw import Draw
from oomdoctor.training.generator.messages import FrameOf, bare, refused, traceback
from oomdoctor.training.generator.scene import Recipe, Scene

FULL: Final = "gpu-memory-exhausted"
# What a fair judge lets pass where the stage tells and no figure decides
FAIR: Final = (FULL, "activations")
TRAINER: Final = (
    ("transformers/trainer.py", "_inner_training_loop", "tr_loss_step = self.training_step(model, inputs)"),
    (
        "verl/workers/actor/dp_actor.py",
        "update_policy",
        "output = self.actor_module(input_ids=input_ids, use_cache=False)",
    ),
    ("openrlhf/trainer/ray/ppo_actor.py", "training_step", "status = self.strategy.run_step(experience)"),
    ("lightning/pytorch/trainer/trainer.py", "_run_stage", "self.fit_loop.run()"),
)
FORWARD: Final = (
    ("transformers/models/llama/modeling_llama.py", "forward", "hidden_states = self.mlp(hidden_states)"),
    ("torch/nn/modules/linear.py", "forward", "return F.linear(input, self.weight, self.bias)"),
    ("torchvision/models/resnet.py", "forward", "out = self.bn1(self.conv1(x))"),
    ("transformers/models/qwen2/modeling_qwen2.py", "forward", "down = self.down_proj(self.act_fn(self.gate_proj(x)))"),
)
BACKWARD: Final = (
    ("torch/_tensor.py", "backward", "torch.autograd.backward("),
    ("torch/autograd/graph.py", "_engine_run_backward", "return Variable._execution_engine.run_backward("),
    ("deepspeed/runtime/engine.py", "backward", "self.optimizer.backward(loss)"),
)
ATTENTION: Final = ("torch/nn/functional.py", "softmax", "ret = input.softmax(dim, dtype=dtype)")
ADAM: Final = (
    ("torch/optim/adamw.py", "_init_group", 'state["exp_avg"] = torch.zeros_like('),
    ("torch/optim/adam.py", "_multi_tensor_adam", "exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)"),
    ("deepspeed/runtime/zero/stage_1_and_2.py", "initialize_optimizer_states", "self.optimizer.step()"),
)
LOSS: Final = (
    ("torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss("),
    ("verl/utils/torch_functional.py", "logprobs_from_logits", "logprobs = F.log_softmax(logits, dim=-1)"),
    ("transformers/loss/loss_utils.py", "ForCausalLMLoss", "logits = logits.float()"),
)
LOADING: Final = (
    ("transformers/modeling_utils.py", "from_pretrained", ") = cls._load_pretrained_model("),
    ("vllm/model_executor/models/llama.py", "__init__", "self.layers = make_layers("),
    ("vllm/model_executor/layers/linear.py", "create_weights", "weight = Parameter(torch.empty("),
    ("sglang/srt/model_loader/loader.py", "load_model", "model = _initialize_model(model_config)"),
)
RUNNER: Final = "vllm/v1/worker/gpu_model_runner.py"
LAUNCHES: Final = (
    "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.gpu_memory_utilization=0.{} data.train_batch_size={}",
    "python -m openrlhf.cli.train_ppo_ray --vllm_gpu_memory_utilization 0.{} --micro_train_batch_size {}",
    "vllm serve /models/some-8b --gpu-memory-utilization 0.{} --max-num-seqs {}",
)


def _launch(draw: Draw) -> str:
    return draw.one(LAUNCHES).format(draw.whole(3, 95), draw.one((4, 8, 16, 64, 128)))


def _small(draw: Draw) -> float:
    return draw.one((0.0195, 0.0625, 0.25, 0.5, 1.0)) * draw.between(1, 2)


def _in(draw: Draw, *frames: FrameOf, last: str) -> tuple[str, ...]:
    return tuple(traceback(draw, frames, last))


def activations_forward(draw: Draw) -> Scene:
    inner = draw.one((*FORWARD, ATTENTION))
    return Scene(_in(draw, draw.one(TRAINER), inner, last=refused(draw, _small(draw) * 2)), also=(FULL,))


def activations_backward(draw: Draw) -> Scene:
    return Scene(_in(draw, draw.one(TRAINER), draw.one(BACKWARD), last=refused(draw, _small(draw))), also=(FULL,))


def activations_without_figures(draw: Draw) -> Scene:
    return Scene(_in(draw, draw.one(TRAINER), draw.one((*FORWARD, *BACKWARD)), last=bare(draw)), also=(FULL,))


def activations_jax(draw: Draw) -> Scene:
    size = draw.whole(2, 60) << 30
    last = f"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {size} bytes."
    return Scene(
        _in(draw, ("train_lib.py", "train_step", "loss, grads = grad_fn(params, batch)"), last=last), also=(FULL,)
    )


def optimizer(draw: Draw) -> Scene:
    end = bare(draw) if draw.often(0.2) else refused(draw, _small(draw))
    return Scene(_in(draw, draw.one(TRAINER), draw.one(ADAM), last=end), also=FAIR)


def logits(draw: Draw) -> Scene:
    return Scene(
        _in(draw, draw.one(TRAINER), draw.one(LOSS), last=refused(draw, draw.between(2.2, 16))),
        also=FAIR,
    )


def weights(draw: Draw) -> Scene:
    end = bare(draw) if draw.often(0.15) else refused(draw, _small(draw))
    return Scene(
        _in(draw, draw.one(LOADING), last=end), before=(_launch(draw),) if draw.often(0.5) else (), also=(FULL,)
    )


def weights_of_the_engine(draw: Draw) -> Scene:
    said = refused(draw, _small(draw)).split(": ", 1)[1]
    return Scene(
        (
            f"(Worker_TP0 pid={draw.pid}) ERROR 02-03 16:12:44 [gpu_model_runner.py:3701] Failed to load model - not "
            "enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights, increasing "
            f"--tensor-parallel-size, or using --quantization. (original error: {said})",
        )
    )


def larger_than_the_card(draw: Draw) -> Scene:
    return Scene(
        _in(draw, draw.one(LOADING), last=refused(draw, draw.card * draw.between(1.2, 3), free=draw.card * 0.97)),
        also=("absurd-size",),
    )


def fragmented(draw: Draw) -> Scene:
    tried = draw.between(0.6, 2.5)
    spare = max(tried * draw.between(1.3, 3), draw.card * draw.between(0.1, 0.25))
    frames = (draw.one(TRAINER), draw.one((*FORWARD, *BACKWARD)))
    return Scene(_in(draw, *frames, last=refused(draw, tried, unallocated=spare)))


def shared(draw: Draw) -> Scene:
    others = [draw.card * draw.between(0.3, 0.8)]
    frames = (draw.one((*FORWARD, *LOADING)),)
    return Scene(
        _in(draw, *frames, last=refused(draw, _small(draw), others=others)), also=("vllm-utilization-too-high",)
    )


def shared_at_start(draw: Draw) -> Scene:
    free, wanted = draw.card * draw.between(0.05, 0.5), 0.9
    return Scene(
        (
            f"ValueError: Free memory on device ({free:.2f}/{draw.card:.2f} GiB) on startup is less than desired GPU "
            f"memory utilization ({wanted}, {draw.card * wanted:.2f} GiB). Decrease GPU memory utilization or reduce "
            "GPU memory used by other processes.",
        ),
        also=("vllm-utilization-too-high",),
    )


def engine_share(draw: Draw) -> Scene:
    share = draw.between(0.91, 0.985)
    free = draw.card * draw.between(0.86, 0.9)
    return Scene(
        (
            f"ValueError: Free memory on device cuda:0 ({free:.2f}/{draw.card:.2f} GiB) on startup is less than desired "
            f"GPU memory utilization ({share:.2f}, {draw.card * share:.2f} GiB). Decrease GPU memory utilization or "
            "reduce GPU memory used by other processes.",
        ),
        also=("gpu-shared",),
    )


def engine_beside_the_trainer(draw: Draw) -> Scene:
    share = draw.one((0.6, 0.7, 0.8, 0.85))
    launch = (
        f"python -m openrlhf.cli.train_ppo_ray --colocate_all_models --vllm_gpu_memory_utilization {share} "
        "--pretrain /models/some-7b"
    )
    sentence = refused(draw, _small(draw), others=[draw.card * share])
    return Scene(
        _in(draw, draw.one(TRAINER), draw.one((*FORWARD, *BACKWARD)), last=sentence),
        before=(launch,),
        also=("gpu-shared", "activations", FULL),
    )


def engine_serves_too_full(draw: Draw) -> Scene:
    frames = (
        ("vllm/engine/llm_engine.py", "step", "output = self.model_executor.execute_model("),
        (RUNNER, "execute_model", "hidden_states = self.model("),
    )
    return Scene(
        _in(draw, *frames, last=refused(draw, _small(draw))),
        before=("vllm serve /models/some-8b --gpu-memory-utilization 0.97",),
        also=("activations", FULL, "logits-spike"),
    )


def no_cache(draw: Draw) -> Scene:
    return Scene(
        draw.one(
            (
                (
                    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
                    "initializing the engine.",
                ),
                (
                    f"[2025-03-01 09:00:10 TP0] RuntimeError: Not enough memory. Please try to increase "
                    f"--mem-fraction-static. Current value: self.server_args.mem_fraction_static=0.{draw.whole(40, 90)}",
                ),
                (
                    "ValueError: To serve at least one request with the models's max seq len (32768), (4.5 GiB KV cache "
                    f"is needed, which is larger than the available KV cache memory (-{draw.between(0.1, 4):.2f} GiB). "
                    "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
                ),
            )
        ),
        before=(_launch(draw),),
    )


def context_too_long(draw: Draw) -> Scene:
    length = draw.one((32768, 65536, 131072, 262144))
    need = draw.between(6, 40)
    have = need * draw.between(0.2, 0.8)
    return Scene(
        draw.one(
            (
                (
                    f"ValueError: To serve at least one request with the models's max seq len ({length}), ({need:.2f} "
                    f"GiB KV cache is needed, which is larger than the available KV cache memory ({have:.2f} GiB). Based "
                    f"on the available memory, the estimated maximum model length is {int(length * have / need)}. Try "
                    "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
                ),
                (
                    f"ValueError: The model's max seq len ({length}) is larger than the maximum number of tokens that "
                    f"can be stored in KV cache ({length // 3}). Try increasing `gpu_memory_utilization` or decreasing "
                    "`max_model_len` when initializing the engine.",
                ),
            )
        )
    )


def pool_exhausted(draw: Draw) -> Scene:
    return Scene(
        draw.one(
            (
                (
                    "RuntimeError: Aborted due to the lack of CPU swap space. Please increase the swap space to avoid "
                    "this error.",
                ),
                (
                    "[2025-07-02 07:41:20 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3",
                    "RuntimeError: Prefill out of memory. Try to lower your batch size.",
                    f"Try to allocate {draw.whole(2, 40) * 512} tokens.",
                ),
                (
                    "RuntimeError: Decode out of memory. Try to lower your batch size.",
                    f"Try to allocate {draw.whole(20, 300)} tokens.",
                ),
            )
        )
    )


def graphs(draw: Draw) -> Scene:
    if draw.often(0.4):
        return Scene(
            (
                "Exception: Capture cuda graph failed: " + refused(draw, draw.between(0.1, 1.2)).split(": ", 1)[1],
                "Possible solutions:",
                "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
            )
        )
    frames = (
        (RUNNER, "capture_model", "self._capture_cudagraphs("),
        ("torch/cuda/graphs.py", "__enter__", "self.cuda_graph.capture_begin("),
    )
    return Scene(
        _in(draw, *frames, last=refused(draw, draw.between(0.03, 0.5))), also=(FULL, "vllm-utilization-too-high")
    )


def weight_sync(draw: Draw) -> Scene:
    frames = draw.one(
        (
            (
                (
                    "openrlhf/trainer/ray/ppo_actor.py",
                    "_broadcast_to_vllm",
                    "torch.distributed.broadcast(param.data, 0)",
                ),
            ),
            (
                ("verl/workers/sharding_manager/fsdp_vllm.py", "__enter__", "params = self.module.state_dict()"),
                (
                    "torch/distributed/fsdp/_state_dict_utils.py",
                    "_full_pre_state_dict_hook",
                    "_enter_unshard_params_ctx(",
                ),
            ),
            (
                ("trl/trainer/grpo_trainer.py", "_move_model_to_vllm", "with gather_if_zero3([param]):"),
                ("deepspeed/runtime/zero/partition_parameters.py", "all_gather", "self._all_gather(params)"),
            ),
        )
    )
    return Scene(_in(draw, *frames, last=refused(draw, _small(draw))), also=(FULL, "vllm-utilization-too-high"))


def sampler(draw: Draw) -> Scene:
    what = draw.one(("sampler", "sampler", "pooler (task='embed')"))
    return Scene(
        (
            f"RuntimeError: CUDA out of memory occurred when warming up {what} with {draw.one((256, 512, 1024))} dummy "
            "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
        )
    )


def vision(draw: Draw) -> Scene:
    frames = (
        (RUNNER, "profile_run", "dummy_encoder_outputs = self.model.get_multimodal_embeddings("),
        ("vllm/model_executor/models/qwen2_vl.py", "_process_image_input", "image_embeds = self.visual(pixel_values"),
    )
    return Scene(_in(draw, *frames, last=refused(draw, draw.between(0.5, 20))), also=FAIR)


def outside_torch(draw: Draw) -> Scene:
    return Scene(
        (
            draw.one(
                (
                    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                    "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
                    f"n4:{draw.pid}:{draw.pid + 8} [0] include/alloc.h:184 NCCL WARN Cuda failure 'out of memory'",
                    f"n4:{draw.pid}:{draw.pid + 8} [3] include/alloc.h:231 NCCL WARN Cuda failure 2 'out of memory'",
                )
            ),
        )
    )


def grows_on_the_card(draw: Draw) -> Scene:
    first = draw.card * 1024 * 0.3
    step = (draw.card * 1024 * 0.95 - first) / 9
    lines = [
        f"[Rank 0] (after {10 * n} iterations) memory (MB) | allocated: {first + n * step:.2f} | max allocated: "
        f"{first + n * step + 300:.2f} | reserved: {first + n * step + 500:.2f} | max reserved: "
        f"{first + n * step + 900:.2f}"
        for n in range(1, 10)
    ]
    return Scene(_in(draw, draw.one(FORWARD), last=refused(draw, 0.25)), before=tuple(lines), also=FAIR)


def predictions_kept(draw: Draw) -> Scene:
    frames = draw.one(
        (
            (
                ("transformers/trainer.py", "evaluate", "output = eval_loop("),
                ("transformers/trainer_pt_utils.py", "nested_concat", "return torch_pad_and_concatenate(tensors"),
            ),
            (("transformers/trainer.py", "prediction_loop", "preds = torch.cat((preds, logits), dim=0)"),),
        )
    )
    return Scene(_in(draw, *frames, last=refused(draw, draw.between(1, 8))), also=FAIR)


def misplaced(draw: Draw) -> Scene:
    if draw.often(0.5):
        frames = (
            ("app/main.py", "load", "optimizer.load_state_dict(torch.load(path))"),
            ("torch/serialization.py", "default_restore_location", "result = fn(storage, location)"),
            ("torch/serialization.py", "_cuda_deserialize", "return storage_type(obj.size())"),
        )
        return Scene(_in(draw, *frames, last=refused(draw, 0.5, others=[draw.card * 0.9])), also=("gpu-shared",))
    half = draw.card / 2 - 0.4
    sentence = refused(draw, 0.25, others=[half])
    pid = int(sentence.split("Process ")[1].split(" ")[0])
    return Scene(
        (f"(Worker pid={draw.pid}) {sentence}",),
        before=(f"(Worker pid={draw.pid}) loading model", f"(Worker pid={pid}) loading model"),
        also=("gpu-shared",),
    )


def taken_beforehand(draw: Draw) -> Scene:
    free = draw.whole(100, 700) << 20
    total = int(draw.card * 2**30)
    return Scene(
        (
            "E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:439] Could not create cudnn handle: "
            "CUDNN_STATUS_INTERNAL_ERROR",
            f"E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:443] Memory usage: {free} bytes free, {total} bytes "
            "total.",
        ),
        also=("gpu-shared", "non-torch-memory"),
    )


def capped(draw: Draw) -> Scene:
    if draw.often(0.4):
        used = draw.between(9, 40)
        return Scene(
            (
                f"RuntimeError: MPS backend out of memory (MPS allocated: {used:.2f} GB, other allocations: 1.20 GB, max "
                f"allowed: {used + 1.4:.2f} GB). Tried to allocate {draw.between(0.3, 2):.2f} GB on private pool. Use "
                "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system "
                "failure).",
            )
        )
    limit = draw.card * draw.between(0.2, 0.5)
    return Scene(
        _in(draw, draw.one(FORWARD), last=refused(draw, draw.between(1, 2), free=draw.card - limit, allowed=limit)),
    )


def neighbour_freed(draw: Draw) -> Scene:
    first = draw.whole(10, 60) * 10**9
    return Scene(
        (
            f"AssertionError: Error in memory profiling. Initial free memory {first}, current free memory "
            f"{first + draw.whole(1, 9) * 10**8}. This happens when the GPU memory was not properly cleaned up before "
            "initializing the vLLM instance.",
        )
    )


def refused_while_free(draw: Draw) -> Scene:
    return Scene(
        _in(draw, draw.one(FORWARD), last=refused(draw, 0.002, free=draw.card * draw.between(0.6, 0.95), device="HIP")),
        also=("allocator-cap",),
    )


def larger_than_any_machine(draw: Draw) -> Scene:
    return Scene(
        _in(
            draw,
            draw.one((*FORWARD, *BACKWARD)),
            last=refused(draw, draw.between(90_000, 9_000_000), free=draw.card / 2),
        ),
    )


def full_and_nothing_else(draw: Draw) -> Scene:
    """Below a training loop's lines, which stand around some, the batch is a fair guess."""
    return Scene((bare(draw),), also=("activations",))


def refused_and_nothing_else(draw: Draw) -> Scene:
    """PyTorch's allocator, of which nine of fourteen labels on logs with nothing else say so."""
    return Scene((refused(draw, _small(draw)),), also=(FULL,))


def regression(draw: Draw) -> Scene:
    launch = (
        "python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3 --gradient_checkpointing --pretrain /models/llama-70b"
    )
    version = f"0.16.{draw.whole(0, 7)}"
    banner = f"[2025-02-24 08:16:41,119] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed info: version={version}, "
    return Scene(
        _in(draw, draw.one(TRAINER), draw.one(BACKWARD), last=refused(draw, _small(draw))),
        before=(launch, banner + "git-hash=unknown, git-branch=unknown"),
        also=FAIR,
    )


def visibility(draw: Draw) -> Scene:
    return Scene(
        (
            draw.one(
                (
                    "ValueError: Attempting to start raylet with 8 GPUs, but CUDA_VISIBLE_DEVICES contains ['0', '1'].",
                    "RuntimeError: CUDA error: invalid device ordinal",
                    "RuntimeError: No CUDA GPUs are available",
                )
            ),
        ),
        before=("export CUDA_VISIBLE_DEVICES=0,1",),
    )


def scheduling(draw: Draw) -> Scene:
    gpus = draw.whole(1, 8)
    line = draw.one(
        (
            f"(autoscaler +1m20s) Warning: The following resource request cannot be scheduled right now: {{'CPU': 1.0, "
            f"'GPU': {gpus}.0}}. This is likely due to all cluster resources being claimed by actors. Consider creating "
            "fewer actors or adding more nodes to this Ray cluster.",
            f"(autoscaler +9s) Error: No available node types can fulfill resource request {{'GPU': {gpus}.0, 'CPU': "
            "1.0}. Add suitable node types to this cluster to resolve this issue.",
            f"ValueError: Total available GPUs {gpus} is less than total desired GPUs {gpus * 2}",
        )
    )
    return Scene((line, line.replace("+1m20s", "+3m55s").replace("+9s", "+44s")))


RECIPES: Final[dict[str, tuple[Recipe, ...]]] = {
    "activations": (
        activations_forward,
        activations_backward,
        activations_without_figures,
        activations_jax,
        refused_and_nothing_else,
    ),
    "optimizer-states": (optimizer,),
    "logits-spike": (logits,),
    "model-does-not-fit": (weights, weights_of_the_engine, larger_than_the_card),
    "allocator-fragmentation": (fragmented,),
    "gpu-shared": (shared, shared_at_start),
    "vllm-utilization-too-high": (engine_share, engine_beside_the_trainer, engine_serves_too_full),
    "kv-cache-no-room": (no_cache,),
    "max-model-len-too-long": (context_too_long,),
    "kv-pool-exhausted": (pool_exhausted,),
    "cuda-graph-capture": (graphs,),
    "weight-sync-spike": (weight_sync,),
    "sampler-warmup": (sampler,),
    "multimodal-profiling": (vision,),
    "non-torch-memory": (outside_torch,),
    "gpu-memory-leak": (grows_on_the_card,),
    "eval-accumulation": (predictions_kept,),
    "device-misplacement": (misplaced,),
    "framework-preallocation": (taken_beforehand,),
    "allocator-cap": (capped,),
    "profiling-race": (neighbour_freed,),
    "spurious-device-oom": (refused_while_free,),
    "absurd-size": (larger_than_any_machine,),
    "gpu-memory-exhausted": (full_and_nothing_else,),
    "framework-regression": (regression,),
    "gpu-visibility": (visibility,),
    "ray-unschedulable": (scheduling,),
}

__all__ = ["RECIPES"]
