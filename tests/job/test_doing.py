"""What the job was doing: told by the frame that says most, then titles, then the last progress line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Event, Frame, Place, Process, Surroundings
from oomdoctor.families.ray_kill import NodeOutOfMemory, Row
from oomdoctor.families.vllm_error import WeightsDoNotFit
from oomdoctor.job.doing import Doing, doing_of, doing_of_crash

SITE = "/env/lib/python3.11/site-packages"


def frame(place: str) -> Frame:
    """ "torch/_tensor.py backward torch.autograd.backward(self)" """
    file, function, *code = place.split(" ", 2)
    return Frame(f"{SITE}/{file}", 1, function, code[0] if code else "")


def event(
    *frames: str, before: tuple[str, ...] = (), below: tuple[str, ...] = (), text: str = "", name: str = ""
) -> Event:
    around = Surroundings(before=before, after=below, below=below, trace=tuple(frame(place) for place in frames))
    return Event(at=Place("a.log", 1, 1, text), around=around, process=Process(name=name or None))


def stage_of(event: Event) -> str:
    return doing_of(event).stage


TRAIN = "transformers/trainer.py training_step"
CALL = "torch/nn/modules/module.py _call_impl return forward_call(*args, **kwargs)"
FORWARD = "transformers/models/llama/modeling_llama.py forward"


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        # training
        ((TRAIN, CALL, FORWARD), "forward"),
        ((TRAIN, "accelerate/accelerator.py backward loss.backward(**kwargs)"), "backward"),
        ((TRAIN, "torch/_tensor.py backward", "torch/autograd/graph.py _engine_run_backward"), "backward"),
        # checkpointing runs the forward again
        (("torch/autograd/__init__.py backward", "torch/utils/checkpoint.py recompute_fn", CALL, FORWARD), "backward"),
        (
            ("torch/optim/optimizer.py wrapper", "torch/optim/adamw.py step", "torch/optim/adamw.py _init_group"),
            "optimizer_step",
        ),
        (("app/train.py main optimizer.step()",), "optimizer_step"),
        # DeepSpeed steps inside accelerate's backward
        (
            (
                "accelerate/accelerator.py backward self.deepspeed_engine_wrapped.backward(loss)",
                "deepspeed/runtime/engine.py _take_model_step",
                "deepspeed/runtime/zero/stage3.py step",
            ),
            "optimizer_step",
        ),
        # Lightning computes the loss inside the optimizer's step
        (
            (
                "torch/optim/optimizer.py wrapper return wrapped(*args)",
                "app/loop.py f optimizer.step(closure)",
                "lightning/loops/closure.py closure",
                CALL,
                FORWARD,
            ),
            "forward",
        ),
        (
            (
                "lightning/loop.py f optimizer.step(closure)",
                "lightning/closure.py closure",
                "torch/_tensor.py backward",
            ),
            "backward",
        ),
        (("app/train.py main", "torch/nn/modules/module.py to", "torch/nn/modules/module.py convert"), "model_load"),
        (
            (
                "transformers/modeling_utils.py from_pretrained",
                "transformers/modeling_utils.py _load_state_dict_into_meta",
            ),
            "model_load",
        ),
        (
            ("deepspeed/__init__.py initialize", "deepspeed/runtime/zero/stage3.py _create_fp16_partitions"),
            "engine_init",
        ),
        (("transformers/trainer.py _save_checkpoint", "torch/serialization.py save"), "checkpoint_save"),
        (("app/train.py main torch.save(model, path)",), "checkpoint_save"),
        (("transformers/trainer.py _load_from_checkpoint", "torch/serialization.py load"), "checkpoint_load"),
        (("transformers/trainer.py evaluate", "transformers/trainer.py prediction_step", CALL, FORWARD), "eval"),
        (("app/loader.py getCrop", "numpy/lib/arraypad.py pad"), "data_load"),
        (("app/math.py apply_rope",), "forward"),
        (("app/train.py main noise = transformer(", "torch/nn/modules/module.py _wrapped_call_impl"), "forward"),
        (("app/train.py main scores = self.model(rows)",), "forward"),
        (
            ("app/train.py main self.model = make(rows)", "app/rnn.py __init__ self.w = Parameter(torch.Tensor(n, m))"),
            "model_load",
        ),
        (("app/dec.py forward_step", "torch/nn/functional.py log_softmax ret = input.log_softmax(dim)"), "forward"),
        (("/torch/nn/THNN.lua Tanh_updateOutput",), "forward"),
        (("/torch/nn/THNN.lua Linear_accGradParameters",), "backward"),
        # a verb may tell more than the folder that it stands in
        (
            ("ray/rllib/evaluation/worker_set.py sync_weights w = ray.put(x)", "ray/_raylet.pyx check_status"),
            "weight_sync",
        ),
        (("ray/rllib/evaluation/worker_set.py foreach_worker",), "rollout"),
        (("app/draw.py rasterize_triangles",), "forward"),
        (("vllm/model_executor/models/utils.py _merge_multimodal_embeddings",), "forward"),
        (("app/model.py forward", "app/model.py center_crop"), "forward"),  # of its features
        (("torch/utils/data/dataloader.py __next__", "torch/utils/data/dataloader.py _try_get_data"), "data_load"),
        (("datasets/arrow_dataset.py map", "datasets/arrow_dataset.py _map_single"), "data_load"),
        # vLLM
        (
            (
                "vllm/v1/worker/gpu_worker.py determine_available_memory",
                "vllm/v1/worker/gpu_model_runner.py profile_run",
                CALL,
                FORWARD,
            ),
            "memory_profiling",
        ),
        (
            (
                "vllm/v1/worker/gpu_worker.py compile_or_warm_up_model",
                "vllm/v1/worker/gpu_model_runner.py _dummy_sampler_run",
            ),
            "engine_init",
        ),
        (
            ("vllm/v1/worker/gpu_model_runner.py capture_model", CALL, "vllm/compilation/backends.py __call__"),
            "cuda_graph_capture",
        ),
        (
            ("vllm/v1/engine/core.py _initialize_kv_caches", "vllm/v1/worker/gpu_model_runner.py initialize_kv_cache"),
            "kv_cache_init",
        ),
        (("vllm/v1/worker/gpu_worker.py load_model", "vllm/model_executor/layers/linear.py __init__"), "model_load"),
        (
            ("vllm/v1/engine/core.py run_busy_loop", "vllm/v1/worker/gpu_model_runner.py execute_model", CALL, FORWARD),
            "serving",
        ),
        # reinforcement learning
        (
            ("openrlhf/trainer/ray/vllm_engine.py add_requests", "vllm/v1/worker/gpu_model_runner.py execute_model"),
            "rollout",
        ),
        (
            (
                "verl/workers/fsdp_workers.py update_actor",
                "verl/workers/actor/dp_actor.py update_policy",
                CALL,
                FORWARD,
            ),
            "forward",
        ),
        (
            (
                "verl/workers/fsdp_workers.py update_actor",
                "verl/workers/actor/dp_actor.py update_policy",
                "torch/_tensor.py backward",
            ),
            "backward",
        ),
        (
            ("verl/workers/fsdp_workers.py compute_log_prob", "verl/utils/torch_functional.py logprobs_from_logits"),
            "logprob",
        ),
        (("verl/workers/fsdp_workers.py compute_ref_log_prob", CALL, FORWARD), "logprob"),
        (
            (
                "verl/workers/sharding_manager/fsdp_vllm.py __enter__ params = self.module.state_dict()",
                "torch/nn/modules/module.py state_dict",
            ),
            "weight_sync",
        ),
        (
            (
                "openrlhf/trainer/ray/vllm_worker_wrap.py update_weight",
                "vllm/model_executor/models/llama.py load_weights",
            ),
            "weight_sync",
        ),
        (("trl/trainer/grpo_trainer.py _move_model_to_vllm",), "weight_sync"),
        (("trl/trainer/grpo_trainer.py _calculate_rewards", CALL, FORWARD), "reward"),
        (
            (
                "verl/trainer/ppo/ray_trainer.py fit",
                "verl/trainer/ppo/ray_trainer.py _save_checkpoint",
                "ray/_private/worker.py get",
            ),
            "checkpoint_save",
        ),
        (("verl/trainer/ppo/ray_trainer.py _validate", "verl/single_controller/ray/base.py func"), "eval"),
        (("torch/distributed/distributed_c10d.py destroy_process_group",), "shutdown"),
        # layers of 8 or 4 bits: their weights are quantized where they are moved, and unpacked where they compute
        (("bitsandbytes/nn/modules.py _quantize", "bitsandbytes/functional.py quantize_4bit"), "model_load"),
        (("bitsandbytes/nn/modules.py cuda", "bitsandbytes/functional.py double_quant"), "model_load"),
        (("bitsandbytes/functional.py quantize_nf4 return quantize_4bit(A)",), "model_load"),
        (("bitsandbytes/functional.py igemmlt", "bitsandbytes/functional.py get_transform_buffer"), "forward"),
        (("bitsandbytes/functional.py dequantize_4bit",), "forward"),
        (("bitsandbytes/autograd/_functions.py backward", "bitsandbytes/functional.py dequantize_4bit"), "backward"),
        (("bitsandbytes/functional.py optimizer_update_8bit_blockwise",), "optimizer_step"),
        (("bitsandbytes/functional.py double_quant",), "unknown"),  # of a batch, or of weights
        # a function of a library of layers, whoever called it
        (("einops/_backends.py reshape return x.reshape(shape)",), "forward"),
        (("xformers/ops/fmha/cutlass.py apply",), "forward"),
        (("torch/functional.py cdist",), "forward"),
        (("liger_kernel/ops/rms_norm.py rms_norm_backward",), "backward"),
        (("flash_attn/flash_attn_interface.py _flash_attn_varlen_backward",), "backward"),
        # layers that are built
        (("app/net.py tower", "torch/nn/modules/conv.py __init__ kernel_size, bias=bias)"), "model_load"),
        (("app/net.py tower", "torch/nn/modules/rnn.py reset_parameters"), "model_load"),
        (("app/net.py tower", "torch/nn/init.py kaiming_uniform_", "torch/nn/init.py _no_grad_fill"), "model_load"),
        (("timm/layers/mlp.py __init__ bias=bias[0])",), "model_load"),
        (("megatron/core/tensor_parallel/layers.py ColumnParallelLinear.__init__ dtype=dtype))",), "model_load"),
        (("app/net.py forward", "torch/nn/modules/pooling.py extra_repr"), "forward"),
        (("megatron/core/optimizer/optimizer.py __init__ x = y[0])",), "unknown"),
    ],
)
def test_the_frame_that_tells_most_decides(frames: tuple[str, ...], stage: str) -> None:
    assert stage_of(event(*frames)) == stage


@pytest.mark.parametrize(
    "frames",
    [
        (),
        ("app/train.py main",),
        ("ray/_private/worker.py get raise value", "ray/_private/client_mode_hook.py wrapper return func(*args)"),
        ("app/main.py <module> fire.Fire(main)",),
        ("torch/_ops.py __call__ return self._op(*args)",),
        ("app/metrics.py backward_compatible",),
        ("app/io.py saver", "app/io.py saved_at"),
        ("app/eval_config.py parse",),
        ("app/model.py eval_mode model.eval()",),
        ("app/step.py stepper",),
        ("app/math.py rope", "app/merge.py merge_dicts"),
        ("app/text.py load_average",),
        ("app/rollouts.py count",),
    ],
)
def test_frames_that_tell_nothing_leave_it_unknown(frames: tuple[str, ...]) -> None:
    assert stage_of(event(*frames)) == "unknown"


def test_what_the_message_itself_says_stays() -> None:
    said = Event(at=Place("a", 1, 1, ""), stage="kv_cache_init", around=event("torch/_tensor.py backward").around)
    assert stage_of(said) == "kv_cache_init"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Loading checkpoint shards:  50%|█████     | 2/4 [00:10<00:10,  5.1s/it]", "model_load"),
        ("Capturing CUDA graph shapes:  40%|████      | 14/35 [00:08<00:12,  1.7it/s]", "cuda_graph_capture"),
        ("Episode [11/147]:   3%|▎         | 3/100 [10:00<5:00:00, 190s/it]", "rollout"),
        ("After building vllm rollout, memory allocated (GB): 7.1, memory reserved (GB): 9.0", "engine_init"),
        ("After init actor from HF AutoModel, memory allocated (GB): 7.1", "model_load"),
        ("Before state_dict() in sharding manager memory, memory allocated (GB): 7.1", "weight_sync"),
        ("Map (num_proc=16):  40%|████      | 40000/100000 [00:10<00:15, 4000 examples/s]", "data_load"),
        ("Saving model checkpoint to /out/checkpoint-500", "checkpoint_save"),
        ("***** Running Evaluation *****", "eval"),
        ("Loading model weights took 14.99 GB", "memory_profiling"),
        ("> initializing pipeline with size 1", "model_load"),
        ("GPU KV cache size: 178,880 tokens", "kv_cache_init"),
        ("Resuming training from checkpoint /out/checkpoint-500", "checkpoint_load"),
        ("Val 12/40 7/60 acc 0.61 time 31.5s", "eval"),
        ("[2031-02-03 04:05:06] validation: [7/60] dice 0.61", "eval"),
        ("1/4 * Epoch (valid):  12% 7/60 [00:01<00:46,  1.30s/it, dice=0.61]", "eval"),
        ("Epoch 2 (val):  12%|#3        | 7/60 [00:01<00:46,  1.30s/it]", "eval"),
        ("Epoch 2 (val): 100%|##########| 60/60 [00:41<00:00,  1.30it/s]", "unknown"),
        # at its end, and what comes behind it is not said
        ("Val 12/40 60/60 acc 0.61 time 31.5s", "unknown"),
        ("Loading pipeline components...: 100%|██████████| 7/7 [00:01<00:00,  5.2it/s]", "unknown"),
        ("100%|██████████| 30/30 [00:41<00:00,  1.4s/it]", "unknown"),
        ("Decode batch. #running-req: 12, #token: 5000", "serving"),
        ("llama_init_from_model: failed to initialize the context: it", "kv_cache_init"),
        # past everything that stands above, and somewhere in a step
        ("Train epoch [1/1]:  20%|██        | 20/100 [01:00<04:00,  3.0s/it]", "unknown"),
        ("{'loss': 1.234, 'learning_rate': 1e-05, 'epoch': 0.5}", "unknown"),
        ("step:12 - actor/loss:0.1 - timing_s/gen:30.2", "unknown"),
        ("2026-03-01 08:15:30 INFO worker.py:1 -- Started a local Ray instance.", "unknown"),
    ],
)
def test_without_frames_the_last_progress_line_tells(line: str, stage: str) -> None:
    assert stage_of(event(before=("Loading checkpoint shards:  75%|█| 3/4", line, "nothing"))) == stage


@pytest.mark.parametrize("kind", ["train", "valuable", "devalued"])
def test_a_bar_in_brackets_of_another_kind_is_no_evaluation(kind: str) -> None:
    line = f"Epoch 2 ({kind}):  12%|#3        | 7/60 [00:01<00:46,  1.30s/it]"
    assert stage_of(event(before=(line, "nothing"))) != "eval"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "savings plan of the model railway",
        "the checkpoint was fine",
        "a map of 3 examples",
        "episode 3 was long",
        "loss of signal",
        "evaluating the options",
        "CUDA graphs are on",
        "memory profile",
        "validation split: 7 of 60 patients",
        "values 7/60",
        "evaluator at /data/7/60",
    ],
)
def test_a_line_that_only_sounds_like_progress_is_none(line: str) -> None:
    assert stage_of(event(before=("Loading checkpoint shards:  75%|█| 3/4", line))) == "model_load"
    assert stage_of(event(before=(line,))) == "unknown"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Epoch 1/1:   0%|  | 0/8 [00:00<?]job.sh: line 2:     4 Killed    python fit.py --validation 9", "unknown"),
        ("Epoch 1/1:   0%|  | 0/8 [00:00<?]run.sh: riga 7:  812 Ucciso    python fit.py --validation 9", "unknown"),
        ("Validation: run.sh: line 31: 4711 Killed      python fit.py --epochs 3", "eval"),
        ("Validation of the model, shard 3", "eval"),
    ],
)
def test_a_command_that_a_shell_repeats_is_no_work(line: str, stage: str) -> None:
    assert (stage_of(event(text=line)) or "unknown") == stage


@pytest.mark.parametrize(
    ("save", "count", "stage"),
    [
        ("Saving model to /data/ann/out/checkpoint-40", 40, "checkpoint_save"),
        ("Saving optimizer to /data/ann/global_step_40/actor", 39, "checkpoint_save"),
        ("Saving model to /data/ann/out/checkpoint-40", 41, "unknown"),  # a step of training, which has no stage alone
        ("Saving model to /data/ann/out", 40, "unknown"),
        ("Copied 12 files to /data/ann/out/checkpoint-40", 40, "unknown"),
        ("Loading the model from /data/ann/out/checkpoint-40", 40, "unknown"),
    ],
)
def test_a_bar_of_the_step_that_is_saved_is_no_new_work(save: str, count: int, stage: str) -> None:
    bar = f"Training Progress:  50%|#| {count}/80 [00:09<00:09, 1.2s/it]"
    assert stage_of(event(before=("loss 0.4", save, bar))) == stage


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Llama.save_state: saving 4096 bytes of llama state", "unknown"),  # of a context, into a cache
        ("state_write_data: writing state", "unknown"),
        ("Trainer.save_state: saving 4096 bytes of trainer state", "checkpoint_save"),
    ],
)
def test_a_context_that_is_put_aside_is_no_checkpoint(line: str, stage: str) -> None:
    assert stage_of(event(before=("loss 0.4", line))) == stage


def test_a_serving_engine_inside_of_a_trainer_is_a_rollout() -> None:
    line = "Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 300.0 tokens/s"
    assert stage_of(event(before=(line,))) == "serving"
    assert stage_of(event(before=("python3 -m openrlhf.cli.train_ppo_ray --pretrain x", line))) == "rollout"
    assert stage_of(event(before=(line,), name="LLMRayActor")) == "rollout"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("AsyncLLM output_handler failed.", "serving"),
        ("Stream generation failed: it", "serving"),
        ("Code generation failed: it", "unknown"),
        ("Starting the Plasma object store with 50.0GB memory using /tmp.", "cluster_start"),
        (
            "Exception in worker VllmWorkerProcess while processing method determine_num_available_blocks.",
            "memory_profiling",
        ),
        ("Exception in worker VllmWorkerProcess while processing method load_model.", "model_load"),
        ("EngineCore failed to start.", "engine_init"),
        ("llama_model_load: error loading model: unable to allocate CUDA0 buffer", "model_load"),
        ("EngineDeadError: EngineCore encountered an issue.", "unknown"),
        ("ERROR 01-02 03:04:05 [serving_chat.py:12] Engine loop is not running.", "serving"),
        ("Exception in thread Thread-4 (load_model):", "model_load"),
        ("OOM: Ran out of memory with exception: it", "forward"),
        ("Internal: unexpected error when creating modelInstanceState: it", "engine_init"),
        ("Exception occurred while running RolloutWorker's function sync_model_from_actor: it", "weight_sync"),
        ('ERROR:  could not resize shared memory segment "/PostgreSQL.81" to 4096 bytes: No space left', "serving"),
        ('psycopg.errors.DiskFull: could not resize shared memory segment "/PostgreSQL.81" to 4096 bytes', "serving"),
        ('FATAL:  could not resize shared memory segment "/PostgreSQL.81" to 4096 bytes: No space left', "launch"),
        ('DETAIL:  Failed on request of size 4096 in memory context "ExecutorState".', "serving"),
        ('DETAIL:  Failed on request of size 4096 in memory context "CacheMemoryContext".', "unknown"),
        ("DB::Exception: Memory limit (for query) exceeded: would use 9.35 GiB", "serving"),
        ("DB::Exception: Memory limit (total) exceeded: would use 9.35 GiB", "unknown"),
    ],
)
def test_what_a_failure_sets_off_tells_too(line: str, stage: str) -> None:
    assert stage_of(event(below=("", line))) == stage


def table(*rows: tuple[float, str], trace: tuple[Frame, ...] = ()) -> NodeOutOfMemory:
    gib = 1024**3
    return NodeOutOfMemory(
        at=Place("a.log", 1, 1, ""),
        rows=tuple(Row(pid=n, bytes=int(size * gib), command=command) for n, (size, command) in enumerate(rows)),
        around=Surroundings(trace=trace),
    )


def test_the_titles_of_the_table_tell_what_the_workers_ran() -> None:
    rollout = "ray::WorkerDict.actor_rollout_generate_sequences"
    assert stage_of(table((11.2, rollout), (11.1, rollout), (0.5, "ray::main_task"))) == "rollout"
    assert stage_of(table((9.0, "python reward.py"), (8.8, "ray::LLMRayActor.update_weight"))) == "weight_sync"
    assert stage_of(table((9.0, "ray::CriticModelRayActor.init_model_from_pretrained"))) == "model_load"


@pytest.mark.parametrize(
    ("call", "stage"),
    [
        ("LLMRayActor.update_weight", "weight_sync"),
        ("LLMRayActor.__init__", "engine_init"),
        ("RewardModelActor.forward", "reward"),
        ("ReferenceModelRayActor.forward", "logprob"),
        ("WorkerDict.actor_rollout_generate_sequences", "rollout"),
        ("PolicyModelActor.fit", "unknown"),
        ("PolicyModelActor.__init__", "unknown"),
        ("MyActor.forward", "unknown"),
    ],
)
def test_a_remote_call_that_failed_tells(call: str, stage: str) -> None:
    around = Surroundings(trace=(Frame("ray", 0, call, f"ray::{call}()"),))
    assert stage_of(Event(at=Place("a.log", 1, 1, ""), around=around)) == stage
    assert stage_of(table((9.0, f"ray::{call}"))) == (stage if "__init__" not in call else "unknown")


@pytest.mark.parametrize(
    "title",
    [
        "Zb4kQ1WorkerDict_0:5:WorkerDict.__init__",  # the creation task, whatever it was doing
        "ray::PolicyModelActor.__init__",
        "ray::PolicyModelActor.fit",
        "ray::PolicyModelActor",
        "ray::IDLE",
        "python train.py --save_checkpoint /out",
        "ray::update_weight",
    ],
)
def test_titles_that_tell_nothing(title: str) -> None:
    assert stage_of(table((9.0, title))) == "unknown"


def test_the_drivers_own_frames_outweigh_the_titles() -> None:
    saving = (Frame("/verl/trainer/ppo/ray_trainer.py", 1, "_save_checkpoint"), Frame("/ray/worker.py", 2, "get"))
    assert stage_of(table((9.0, "ray::WorkerDict.actor_rollout_generate_sequences"), trace=saving)) == "checkpoint_save"


@pytest.mark.parametrize(
    ("said", "stage"),
    [
        ("DeepSpeedZeRoOffload initialize [begin]", "engine_init"),
        ("After initializing ZeRO optimizer", "engine_init"),
        ("Before Building Model", "model_load"),
        ("Engine before forward", "forward"),
        ("Engine after backward", "backward"),
        ("In step before checking overflow", "optimizer_step"),
        ("After optimizer before all-gather", "optimizer_step"),
        ("my own marker", "unknown"),
    ],
)
def test_deepspeeds_report_says_where_in_the_program_it_stands(said: str, stage: str) -> None:
    figures = "MA 13.41 GB         Max_MA 13.41 GB         CA 13.52 GB         Max_CA 14 GB"
    assert stage_of(event(before=(said, figures), text="exits with return code = -9")) == stage


LOSS = "Epoch [3][40/900] lr: 0.01, memory: 5120, loss_cls: 0.91, loss: 1.72"
ASSIGN = "app/assigners.py assign overlaps = iou(boxes, targets)"


def test_a_traceback_under_a_line_of_a_training_loop_is_its_forward_pass() -> None:
    shown = (LOSS, '  File "app/assigners.py", line 1, in assign', "    overlaps = iou(boxes, targets)")
    on_card = replace(event(ASSIGN, before=shown), pool="gpu")
    assert stage_of(on_card) == "forward"
    assert stage_of(replace(on_card, pool="host_ram")) == "unknown"
    assert stage_of(replace(event(before=(LOSS,)), pool="gpu")) == "forward"
    assert stage_of(replace(event(ASSIGN, before=(LOSS, "epoch 3 done")), pool="gpu")) == "unknown"
    assert stage_of(replace(event("app/train.py main torch.save(", before=(LOSS,)), pool="gpu")) == "checkpoint_save"


def test_what_a_failure_sets_off_outweighs_a_traceback_that_is_cut() -> None:
    below = ("Exception in worker W while processing method determine_num_available_blocks.",)
    whole = event("vllm/worker/model_runner.py execute_model", below=below)
    assert stage_of(whole) == "serving"
    assert stage_of(replace(whole, around=replace(whole.around, cut=True))) == "memory_profiling"


RUN = "app/run.py run trainer = PairTrainer("
BUILT = "app/trainers.py __init__ super().__init__(**options)"


@pytest.mark.parametrize(
    "frames",
    [
        (RUN, BUILT),
        (RUN, "app/trainers.py PairTrainer.__init__ super().__init__(**options)"),
        (RUN, BUILT, "trl/trainer/base.py __init__ self.ref_model = create_reference_model(model)"),
        (RUN, BUILT, "copy.py deepcopy y = copier(memo)", "torch/nn/parameter.py __deepcopy__ result = type(self)("),
        (RUN, BUILT, "transformers/trainer.py _move_model_to_device model = model.to(device)"),
        ("transformers/trainer.py _inner_training_loop", "accelerate/accelerator.py prepare_model"),
    ],
)
def test_a_traceback_that_ends_in_what_builds_places_a_model(frames: tuple[str, ...]) -> None:
    assert stage_of(replace(event(*frames), pool="gpu")) == "model_load"


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        ((RUN, BUILT, CALL, FORWARD), "forward"),
        ((RUN, "app/trainers.py __init__ self.warm_up(sample)"), "unknown"),
        ((RUN, BUILT, "app/trainers.py warm_up return left @ right"), "unknown"),
        (("app/run.py run rows = PairDataset(files)", "app/rows.py __init__ super().__init__(files)"), "data_load"),
        (("app/run.py run self.rows = Feeder(n)", "app/data_loader.py __init__ self.x = Store(n)"), "data_load"),
        (("app/run.py run self.buffer = Replay(n)", "app/replay.py __init__ self.x = Store(n)"), "unknown"),
        (("app/run.py train_epoch graph = Graph(edges)", "app/graph.py __init__ self.e = e.to(device)"), "unknown"),
        ((TRAIN, "copy.py deepcopy y = copier(memo)"), "forward"),
        (("app/run.py prepare_latents return noise * sigma",), "unknown"),
    ],
)
def test_not_what_computes_or_belongs_to_a_step(frames: tuple[str, ...], stage: str) -> None:
    assert stage_of(replace(event(*frames), pool="gpu")) == stage


def test_what_is_built_in_host_memory_may_be_anything() -> None:
    assert stage_of(replace(event(RUN, BUILT), pool="host_ram")) == "unknown"


def test_a_constructor_tells_more_than_the_last_progress_line() -> None:
    before = ("Map (num_proc=8): 100%|##########| 512/512 [00:02<00:00, 230.00 examples/s]",)
    assert stage_of(replace(event(RUN, BUILT, before=before), pool="gpu")) == "model_load"


def doing(*frames: str, pool: str = "gpu", **around: object) -> Doing:
    return doing_of(replace(event(*frames, **around), pool=pool))  # type: ignore[arg-type]


EVALUATE = "app/run.py evaluate"
WAKE = "vllm/device_allocator/cumem.py wake_up"


@pytest.mark.parametrize(
    ("frames", "stage", "step"),
    [
        ((TRAIN, CALL, FORWARD), "forward", "forward"),
        ((EVALUATE,), "eval", "evaluate"),
        ((EVALUATE, CALL, FORWARD), "eval", "forward"),
        ((EVALUATE, CALL, "transformers/modeling_utils.py from_pretrained", CALL, FORWARD), "eval", "load"),
        ((CALL, FORWARD, EVALUATE), "eval", "evaluate"),  # what stands around it does not tell what it ran
        (("vllm/v1/worker/gpu_model_runner.py profile_run", CALL, FORWARD), "memory_profiling", "forward"),
        (("openrlhf/x.py update_weight", "vllm/x.py load_weights"), "weight_sync", "load"),
        (("openrlhf/x.py update_weight",), "weight_sync", "sync"),
        ((WAKE,), "weight_sync", "wake"),
        ((WAKE, "vllm/v1/worker/gpu_worker.py initialize_cache"), "kv_cache_init", "wake"),
        (("vllm/v1/worker/gpu_model_runner.py _dummy_sampler_run", CALL, FORWARD), "engine_init", "warm"),
        (("app/prep.py tokenize_rows",), "data_load", "tokenize"),
        (("app/run.py main model.to(device)",), "model_load", "move"),
        (("app/run.py main torch.load(p)",), "checkpoint_load", "restore"),
        ((), "unknown", None),
    ],
)
def test_the_step_says_what_was_run_in_the_end(frames: tuple[str, ...], stage: str, step: str | None) -> None:
    told = doing(*frames)
    assert (told.stage, told.step) == (stage, step)


def test_the_frame_or_the_line_that_says_so_is_told() -> None:
    assert doing(TRAIN, CALL, EVALUATE, CALL, FORWARD).because == frame(EVALUATE)
    assert doing("app/run.py main", RUN, BUILT).because == frame(BUILT)
    line = "Tokenizing:  41%|████"
    assert doing(before=(line, "nothing")).because == line
    assert doing(below=("", "AsyncLLM output_handler failed.")).because == "AsyncLLM output_handler failed."
    assert doing(before=("nothing", LOSS)).because == LOSS
    assert doing(name="ray::WorkerDict.actor_rollout_save_checkpoint").because is not None
    assert doing(text="failed at kv_cache_manager.cc:1").because == "failed at kv_cache_manager.cc:1"
    assert doing().because is None


def test_what_is_told_stays_when_the_event_has_its_stage() -> None:
    once = replace(event(TRAIN, EVALUATE, CALL, FORWARD), pool="gpu")
    assert doing_of(replace(once, stage="eval")) == doing_of(once)
    of_its_own = doing_of(replace(once, stage="kv_cache_init", at=Place("a.log", 1, 1, "no room")))
    assert of_its_own == Doing("kv_cache_init", "allocate", "no room")


def test_of_several_events_the_first_that_tells_this_stage_and_before_it_one_that_leaves_no_doubt() -> None:
    silent, told = event(), replace(event(TRAIN, CALL, FORWARD), pool="gpu")
    assert doing_of_crash((silent, told), "forward") == doing_of(told)
    assert doing_of_crash((silent, told), "eval") == Doing()
    at = Place("a.log", 1, 1, "Tried to allocate memory for the weights")
    assert doing_of_crash((told, WeightsDoNotFit(at=at)), "forward") == Doing("model_load", "load", at.text)


CLOSURE = "torch/optim/adamw.py step loss = closure()"


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        ((CLOSURE, "lightning/loops/closure.py _wrap_closure", CALL, FORWARD), "forward"),
        ((CLOSURE, "lightning/x.py closure", EVALUATE, "lightning/x.py closure", CALL, FORWARD), "forward"),
        ((CLOSURE, CALL, FORWARD), "forward"),
        ((CLOSURE, "app/loop.py closure"), "forward"),
        (("torch/optim/adamw.py step", CALL, FORWARD), "optimizer_step"),
        # what is called through a wrapper, and what the innermost line calls
        (("app/run.py main self.manager.generate_rollouts(batch)", "app/ray_tools.py wrapper run(coro)"), "rollout"),
        (("app/run.py main self.manager.generate_rollouts(batch)", "app/tools.py other run(coro)"), "unknown"),
        (("app/run.py main self.manager.generate_rollouts(batch)",), "rollout"),
        (("app/run.py train_batch self.manual_backward(loss)",), "backward"),
        # a function's own list says more than what it calls
        (("app/run.py save_checkpoint self.manual_backward(loss)",), "checkpoint_save"),
    ],
)
def test_closures_and_wrappers_are_seen_through(frames: tuple[str, ...], stage: str) -> None:
    assert doing(*frames).stage == stage


@pytest.mark.parametrize(
    ("above", "stage"),
    [
        (("return self._execution_engine.run_backward(  # calls into C++",), "backward"),
        (("    loss.backward()", "    ^^^^^^^^^^^^^^^"), "backward"),
        (("x = model.load_weights(path)", "", ""), "model_load"),
        ((">>> model = AutoModel.from_pretrained(name)",), "model_load"),
        (("In [3]: model = AutoModel.from_pretrained(name)",), "model_load"),
        (("In [3]: please call model.load_weights(path)",), "unknown"),
        ((">> model.load_weights(path)",), "unknown"),  # a shell's or a quotation
        (("x = model.load_weights(path)", "", "", ""), "unknown"),  # too far off
        (("please call model.load_weights(path)",), "unknown"),  # no source
        (("return x",), "unknown"),
        (("keras_hub.models.GPT2CausalLM.from_preset('gpt2_base_en')", ""), "model_load"),
        (('tensors = safe_open(file, framework="pt")',), "model_load"),
        (("out = torch.nn.functional.linear(x, w.to(x.dtype))",), "forward"),
        (("return F.silu(gate) * up",), "forward"),
        (("x = F.resize(image, size)",), "unknown"),  # torchvision's
    ],
)
def test_source_that_lost_its_frame_tells(above: tuple[str, ...], stage: str) -> None:
    assert doing(before=above).stage == stage
    assert doing("app/run.py main", before=above).stage == "unknown"


BAR_OF_STEPS = " 17%|█▋        | 1000/6060 [6:41:34<34:01:44, 24.21s/it]"


@pytest.mark.parametrize(
    ("lines", "stage"),
    [
        (("--save_steps 500 --x", BAR_OF_STEPS), "checkpoint_save"),
        (("['--save_steps', '250']", BAR_OF_STEPS), "checkpoint_save"),
        (("trainer.save_freq=20", "global_step: 200"), "checkpoint_save"),
        (("--save_steps 300", BAR_OF_STEPS), "unknown"),  # between two
        (("--save_steps 5", BAR_OF_STEPS), "unknown"),  # so often that it tells nothing
        (("--save_steps 500", " 0%|  | 0/6060 [00:00<?, ?it/s]"), "unknown"),  # nothing done yet
        (("--save_total_limit 500", BAR_OF_STEPS), "unknown"),
        (("--save_steps 500", BAR_OF_STEPS, " 17%|█▋  | 1001/6060 [6:41:58<34:01:44, 24.21s/it]"), "unknown"),
        (("--save_steps 500", "Tokenizing: 17%|█▋  | 1000/6060 [00:10<00:20]"), "data_load"),
    ],
)
def test_a_count_at_which_the_job_saves_tells_that_it_saved(lines: tuple[str, ...], stage: str) -> None:
    assert doing(before=lines, pool="host_ram").stage == stage
    assert doing(before=lines[1:], below=lines[:1], pool="host_ram").stage == stage


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Epoch 3:  41%|████      | 41/100 [00:10<00:15, loss=0.41]", "forward"),
        ("iter 120: loss 2.3412, time 512ms", "forward"),
        ("{'loss': 1.234, 'epoch': 0.5}", "forward"),
        ("***** Running training *****", "forward"),
        ("train_loss_cls: 0.91", "forward"),
        ("Epoch 3: 100%|██████████| 100/100 [00:10<00:15, loss=0.41]", "unknown"),  # between two epochs
        ("epoch 3 done, loss 0.41", "unknown"),
        ("Training completed", "unknown"),
        ("    loss = totals[-1]", "unknown"),  # source
        ("0% packet loss 5%", "unknown"),
        ("loss of 3 workers", "unknown"),
        ("lossless: 3", "unknown"),
    ],
)
def test_a_training_loops_line_means_its_forward_pass_where_the_card_is_short(line: str, stage: str) -> None:
    assert doing(before=(line, "something else")).stage == stage
    assert doing(before=(line,), pool="host_ram").stage == "unknown"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("steps:   1%|          | 30/2100 [00:40<46:05, 1.34s/it, loss=0.217]", "forward"),
        ("Epoch 2:  41%|####      | 41/100 [00:10<00:15, loss=0.41]", "forward"),
        ("Epoch 2: 100%|##########| 100/100 [00:10<00:00, loss=0.41]", "unknown"),  # it had ended
        ("steps:   1%|          | 30/2100 [00:40<46:05, 1.34s/it]", "unknown"),  # of whatever
        ("Map:  41%|####      | 41/100 [00:10<00:15]", "unknown"),
        ("loss=0.217 at step 30", "unknown"),  # no bar: another run's, or another rank's
    ],
)
def test_a_bar_that_the_failure_closed_tells_what_was_under_way(line: str, stage: str) -> None:
    assert doing(below=("", line)).stage == stage
    assert doing(below=("", line), pool="host_ram").stage == "unknown"
    assert doing(before=("Map: 10%|#   | 1/10 [00:01<00:09]",), below=(line,)).stage == "data_load"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Error occurred when executing VAEDecode:", "forward"),
        ("Error occurred when executing KSampler:", "forward"),
        ("Error occurred when executing CheckpointLoaderSimple:", "model_load"),
        ("- **Node Type:** UNETLoader", "model_load"),
        ("- **Node Type:** VAEEncode", "forward"),
        ("got prompt", "unknown"),
    ],
)
def test_the_node_that_failed_tells_what_was_done(line: str, stage: str) -> None:
    assert doing(before=(line, "")).stage == stage


def test_a_node_of_a_graph_that_was_running_is_a_pass() -> None:
    refused = "[E:onnxruntime] Non-zero status code returned while running Gemm node. Status Message: it"
    assert doing(text=refused).stage == "forward"
    assert doing(text="[E:onnxruntime] Status Message: it").stage == "unknown"


LAUNCH = "python -m openrlhf.cli.train_ppo_ray"


def test_an_engines_forward_pass_is_a_request_and_an_engine_that_says_nothing_is_not_up_yet() -> None:
    assert doing(CALL, FORWARD, name="EngineCore_0").stage == "serving"
    assert (
        doing(CALL, FORWARD, name="EngineCore_0", before=("python -m openrlhf.cli.train_ppo_ray",)).stage == "rollout"
    )
    assert doing(CALL, FORWARD, name="main_task").stage == "forward"
    assert doing(name="EngineCore_0").stage == "engine_init"
    assert doing(name="EngineCore_0", pool="host_ram").stage == "unknown"
    assert doing(name="EngineCore_0", before=(LAUNCH,)).stage == "unknown"
    assert doing(name="EngineCore_0", before=("Added request 7",)).stage == "serving"


def test_what_a_graph_was_at_comes_before_a_frame_that_tells_little_and_behind_one_that_tells_much() -> None:
    node = "OOM when allocating tensor [[{{node gradients/AddN}}]]"
    assert doing(CALL, FORWARD, text=node).stage == "backward"
    assert doing(EVALUATE, CALL, FORWARD, text=node).stage == "eval"
    assert doing(below=("", node)).stage == "backward"
    assert doing(before=(node,)).stage == "backward"
    assert doing(below=("",) * 25 + (node,)).stage == "unknown"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("Async request to resume_memory_occupation timed out", "weight_sync"),
        ("Error in save_checkpoint: no memory", "checkpoint_save"),
        ("Error executing method 'load_model'.", "model_load"),
        ("Error in forward", "unknown"),  # of whatever it was part of
        ("request to the server", "unknown"),
    ],
)
def test_a_line_that_names_the_method_that_failed_tells(line: str, stage: str) -> None:
    assert doing(below=("", line)).stage == stage


UNHANDLED = "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): ray::Policy.{}() (pid=71, ip=10.0.0.9)"
COARSE = "torch/nn/functional.py softmax ret = input.softmax(dim)"


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        (UNHANDLED.format("group_generate_sequences"), "rollout"),
        (UNHANDLED.format("run"), "forward"),
        (UNHANDLED.format("forward"), "forward"),
        ("ray::Policy.group_generate_sequences() (pid=71, ip=10.0.0.9)", "forward"),
        ("", "forward"),
    ],
)
def test_rays_name_of_the_method_tells_more_than_a_frame_of_every_stage(line: str, stage: str) -> None:
    assert doing(COARSE, below=("", line)).stage == stage
    assert doing(EVALUATE, CALL, COARSE, below=("", line)).stage == "eval"


def test_a_kind_of_message_tells_where_nothing_else_does_or_before_all_else() -> None:
    def refused(layer: str, function: str | None, *frames: str) -> Doing:
        around = event(*frames).around
        at = Place("a.log", 1, 1, "x")
        return doing_of(DeviceRefusal(at=at, layer=layer, function=function, device="cuda", around=around))

    assert refused("cumem", None) == Doing("weight_sync", "allocate", "x")
    assert refused("cumem", "resume").step == "wake"
    assert refused("cumem", "pause") == refused("driver", None) == Doing()
    assert refused("cumem", None, TRAIN, CALL, FORWARD).stage == "forward"
    around = event(TRAIN, CALL, FORWARD).around
    assert doing_of(WeightsDoNotFit(at=Place("a.log", 1, 1, "x"), around=around)).stage == "model_load"


def test_a_constructors_result_that_is_moved_is_a_model() -> None:
    assert doing("app/run.py main net = PairNet(3, 4).to(device)") == Doing(
        "model_load", "move", frame("app/run.py main net = PairNet(3, 4).to(device)")
    )
    assert doing("app/run.py main net = PairNet(3, 4).to(device)", pool="host_ram").stage == "unknown"
    assert doing("app/run.py main x = rows.repeat(3).to(device)").stage == "unknown"


def test_a_validation_that_goes_on_below_was_under_way() -> None:
    assert doing(below=("Val 3/40 2/60 acc 0.61",)).stage == "eval"
    assert doing(before=("Loading checkpoint shards:  50%|█    | 2/4",), below=("Val 3/40 2/60",)).stage == "model_load"
    assert doing(below=("Val 3/40 60/60 acc 0.61",)).stage == "unknown"


def test_an_engine_that_did_not_start_says_so_on_either_side() -> None:
    start = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    assert doing(before=(start, "")).stage == doing(below=(start,)).stage == "engine_init"
    assert doing(before=(start, "Avg prompt throughput: 10.0 tokens/s")).stage == "serving"
    assert doing(before=("the engine core is initialized",)).stage == "unknown"


ASCENDS = "RuntimeError: The process exits for this inner error, and the current working operator name is {}."
EL0004 = "[PID: 811] Memory_Allocation_Failure(EL0004): Failed to allocate memory."


@pytest.mark.parametrize(
    ("operator", "stage"),
    [
        ("Conv2D", "forward"),
        ("aclnnMatmul", "forward"),
        ("MatMulV2", "forward"),
        ("aclnnConvolution", "forward"),
        ("aclnnFlashAttentionScore", "forward"),
        ("SelfAttentionOperation", "forward"),
        ("Conv2DBackpropInput", "backward"),
        ("aclnnConvolutionBackward", "backward"),
        ("ApplyAdamW", "optimizer_step"),
        ("HcclAllReduce", "unknown"),
        ("aclnnInplaceCopy", "unknown"),
        ("Cast", "unknown"),
    ],
)
def test_the_operator_that_ascends_report_names_tells_what_was_computed(operator: str, stage: str) -> None:
    report = (
        ASCENDS.format(operator),
        "Since the operator is called asynchronously, the stacktrace may be inaccurate.",
    )
    assert doing(before=report, text=EL0004).stage == stage
    assert doing(text=f"RuntimeError: call {operator} failed, detail:EL0004").stage == (
        stage if operator.startswith("aclnn") else "unknown"
    )
    assert doing(before=(*report, *[""] * 7), text=EL0004).stage == "unknown"  # too far off


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("[Stems] Performing demix...", "serving"),
        ("[Stems] Performing demix of 4 stems", "serving"),
        ("Running inference on 12 pictures", "serving"),
        ("INFO: Processing chunk 1 of 9", "serving"),
        ("Separating track song.mp3", "serving"),
        ("Upscaling image 1/3", "serving"),
        ("Processing configuration", "model_load"),
        ("Running on cuda:0", "model_load"),
        ("Starting server ...", "model_load"),
    ],
)
def test_work_that_began_after_loading_is_what_is_under_way(line: str, stage: str) -> None:
    assert doing(before=("Loading the model weights...", line)).stage == stage
    assert doing(before=(line, "Loading the model weights...")).stage == "model_load"


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (("app/etl.py process_chunk",), "serving"),
        (("app/parts.py run_segmentation",), "serving"),
        (("app/stems.py separate_track",), "serving"),
        (("torch/cuda/random.py manual_seed_all", "torch/cuda/random.py cb"), "launch"),
        (("app/gen.py generate_image", "torch/random.py manual_seed"), "launch"),
        (("app/run.py evaluate", "torch/cuda/random.py seed_all"), "launch"),
        (("torch/utils/checkpoint.py backward", "torch/cuda/random.py set_rng_state"), "backward"),
        (("app/random.py manual_seed",), "unknown"),
        (("app/net.py forward self.blocks[3].cuda()",), "model_load"),
        (("app/net.py forward self.text_model.to(self.device)",), "model_load"),
        (("app/net.py forward hidden = hidden.to(self.device)",), "forward"),
        (("app/net.py forward layer.to(torch.float16)",), "forward"),
        (("app/net.py forward self.blocks[3].cuda()", CALL, FORWARD), "forward"),
        (("app/net.py training_step layer.to(device)",), "forward"),
    ],
)
def test_what_was_done_where_the_gpu_ran_out(frames: tuple[str, ...], stage: str) -> None:
    assert doing(*frames).stage == stage


@pytest.mark.parametrize("frame", ["process_chunk", "run_segmentation", "separate_track"])
def test_chunks_segments_and_tracks_of_a_host_are_any_programs(frame: str) -> None:
    assert doing(f"app/rows.py {frame}", pool="host_ram").stage == "unknown"


def test_a_segmentation_of_customers_is_no_service() -> None:
    line = "INFO Starting segmentation of buyers (3 clusters)"
    assert doing(before=(line,), pool="host_ram").stage == "unknown"
    assert doing(before=(line,)).stage == "serving"
