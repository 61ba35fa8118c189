"""Nothing of another world or task is advised: over all labelled logs, and in small ones of each kind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final, get_args

import pytest
from remedy_logs import advise, crashes_of, cuda

from benchmarks import catalogue
from benchmarks.catalogue import Program
from oomdoctor import street
from oomdoctor.decision.diagnosis import Decision, decide
from oomdoctor.job.frameworks import Task, World, some
from oomdoctor.job.job import Job
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advice import advise as advise_on
from oomdoctor.remedies.backfill import EVIDENCE, enough_remedies, table
from oomdoctor.remedies.conditions import CONDITIONS
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.sources import InMemory, Source
from oomdoctor.training.cases import cases_in

TOP: Final = Path(__file__).parent.parent.parent
CASES: Final = TOP.parent / "shared" / "cases"
FURTHER: Final = "OOMDOCTOR_LOGS"  # a folder of more cases, or of logs, in the environment
# Words that belong to one world alone
TORCH: Final = (
    "torch.", "PYTORCH_", "expandable_segments", "PyTorch", "DataLoader", "detach losses", "ZeRO", "FSDP", "DeepSpeed",
)  # fmt: skip
JAX: Final = ("jax.", "XLA_")
TENSORFLOW: Final = ("tf.config", "tf.keras", "TF_FORCE", "TF_GPU")
GGML: Final = ("-ngl ", "-ub ", "OLLAMA_", "GGML_")
ENGINES: Final = ("torch.", "PYTORCH_", "detach losses")  # most have their arrays in PyTorch, and hand its flags on
# What must not stand in a remedy for a job of this world
OF_OTHER_WORLDS: Final[Mapping[str, tuple[str, ...]]] = {
    "torch": (*JAX, *TENSORFLOW, *GGML),
    "jax": (*TORCH, *TENSORFLOW, *GGML),
    "tensorflow": (*TORCH, *JAX, *GGML),
    "ggml": (*TORCH, *JAX, *TENSORFLOW),
    "own": (*TORCH, *JAX, *TENSORFLOW, *GGML),
    "engine": (*ENGINES, *JAX, *TENSORFLOW),
    "none": (*ENGINES[:2], *JAX, *TENSORFLOW),
}
OF_TRAINING: Final = (
    "backward pass",
    "global batch",
    "optimizer",
    "accumulate over",
    "gradient",
    "Train without",
    "ZeRO",
    "detach losses",
    "the reward",
)
OF_OTHER_TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "serving": (*OF_TRAINING, "replay buffers", "trainer work"),
    "inference": OF_TRAINING,
    "data": (*OF_TRAINING, "KV cache", "Shorten prompts"),
}
# What only text has: pictures have a resolution, points a number, simulators environments
OF_SEQUENCES: Final = ("Shorten", "sequence length", "the sequences", "prompts and answers")
TRAINING_KNOBS: Final = frozenset({
    "gradient-checkpointing", "offload-activations", "packing", "shard-states", "offload-optimizer",
    "low-memory-optimizer", "lora", "chunked-logits", "token-budget-batching", "sequence-parallel", "cap-primitives",
    "fewer-environments",
})  # fmt: skip
SEQUENCE_KNOBS: Final = frozenset({"shorter-sequences", "shorter-context", "packing", "sequence-parallel"})
KNOBS_OF_OTHER_TASKS: Final = {"serving": TRAINING_KNOBS, "inference": TRAINING_KNOBS, "data": TRAINING_KNOBS}
# The libraries that take the card of others, whatever those are
FOR_ANOTHER_PROCESS: Final = ("cap-preallocation",)


def strangers(job: Job, remedy: Remedy) -> list[str]:
    """What of the remedy belongs to another job than this one."""
    if remedy.knob in FOR_ANOTHER_PROCESS:
        return []
    parts = (remedy.action, remedy.cost, remedy.snippet, remedy.setting, remedy.derivation, *remedy.assumes)
    pictures = some(job.frameworks, "has no sequences") and job.engine is None
    words = (*OF_OTHER_WORLDS[job.world], *OF_OTHER_TASKS.get(job.task, ()), *(OF_SEQUENCES if pictures else ()))
    knobs = KNOBS_OF_OTHER_TASKS.get(job.task, frozenset()) | (SEQUENCE_KNOBS if pictures else frozenset())
    return [word for word in words if word in " ".join(filter(None, parts))] + [remedy.knob] * (remedy.knob in knobs)


def slips(*logs: Source) -> list[tuple[str, str, str, list[str]]]:
    """What is printed for each crash in these logs and belongs to another job."""
    decisions = [decide(crash) for crash in street.facts_of(logs, ()).crashes]
    return [slip for decision in decisions for slip in _slips(decision, decision.crash.job)]


def _slips(decision: Decision, job: Job) -> Iterator[tuple[str, str, str, list[str]]]:
    advice = advise_on(decision)
    for remedy in chain.from_iterable(advice.remedies):
        if words := strangers(job, remedy):
            yield job.world, job.task, remedy.knob, words
    others = OF_OTHER_WORLDS[job.world]
    for told in (*(refused.why for refused in advice.rejected), *decision.next_evidence):
        if words := [word for word in others if word in told]:
            yield job.world, job.task, told, words


def _file(log: Path) -> Source:
    return InMemory(log.name, None, data=log.read_bytes())


def _message(text: str) -> Source:
    return InMemory("message.log", None, data=f"{text}\n".encode())


FAMILIES: Final = sorted({log.parent for log in (TOP / "fixtures").rglob("*.log")})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_fixture_is_told_what_is_for_another_job(family: Path) -> None:
    assert {log.stem: found for log in sorted(family.glob("*.log")) if (found := slips(_file(log)))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("program", catalogue.programs(), ids=lambda program: program.program)
def test_no_message_is_told_what_is_for_another_job(program: Program) -> None:
    assert {one.template: found for one in program.message if (found := slips(_message(one.rendered)))} == {}


@pytest.mark.slow
@pytest.mark.skipif(not CASES.is_dir(), reason="the cases do not lie beside this checkout")
def test_no_case_is_told_what_is_for_another_job() -> None:
    assert {case.name: found for case in cases_in(CASES) if (found := slips(*map(_file, case.logs)))} == {}


@pytest.mark.slow
@pytest.mark.skipif(FURTHER not in os.environ, reason=f"no further logs in ${FURTHER}")
def test_no_further_log_is_told_what_is_for_another_job() -> None:
    logs = sorted(file for kind in ("*.log", "*.txt") for file in Path(os.environ[FURTHER]).rglob(kind))
    assert {str(log): found for log in logs if (found := slips(_file(log)))} == {}


# small logs of each kind

XLA = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9663676 bytes.\n"
)
FRAME = 'Traceback (most recent call last):\n  File "/v/site-packages/{}", line 7, in {}\n    {}\n'
ALLOCATOR_OF_JAX = FRAME.format("jax/_src/interpreters/pxla.py", "__call__", "return self.execute(args)") + XLA


def test_evidence_is_spelled_in_the_jobs_own_world() -> None:
    knobs = ("collect-evidence", "fix-placement", "raise-allocator-cap", "allocator-config")
    jax = advise("[rank1]: " + ALLOCATOR_OF_JAX, *knobs, cause="device-misplacement")[0]
    assert "jax.profiler.save_device_memory_profile" in (jax["collect-evidence"].snippet or "")
    assert "jax.distributed" in (jax["fix-placement"].snippet or "")
    assert "torch" not in str(jax)
    torch = advise("[rank1]: " + cuda(), *knobs, cause="device-misplacement")[0]
    assert "torch.cuda.memory._record_memory_history()" in (torch["collect-evidence"].snippet or "")
    assert "torch.cuda.set_device" in (torch["fix-placement"].snippet or "")


def test_a_card_of_no_known_library_has_no_line_of_one() -> None:
    found = advise("CUDA error: out of memory\n", "collect-evidence", "allocator-config")[0]
    assert found["collect-evidence"].snippet is None
    assert "allocator-config" not in found


SERVE = "$ vllm serve org/M-7B\n"
TRAINING = ("gradient-checkpointing", "offload-activations", "packing", "shard-states", "chunked-logits", "lora")


def test_a_server_does_not_train() -> None:
    log = SERVE + FRAME.format("transformers/models/m/modeling_m.py", "forward", "y = self.mlp(x)") + cuda()
    assert crashes_of(log)[0].job.task == "serving"
    assert not advise(log, *TRAINING)[0]


def test_a_small_server_of_ones_own_does_not_train() -> None:
    log = (
        "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n"
        + FRAME.format("transformers/models/m/modeling_m.py", "forward", "y = self.mlp(x)")
        + cuda()
    )
    assert not advise(log, *TRAINING)[0]
    remedy = advise(log, "smaller-microbatch")[0]["smaller-microbatch"]
    assert "global batch" not in f"{remedy.action} {remedy.cost}"


@pytest.mark.parametrize("knob", [one for one in TRAINING if one != "packing"])  # for which the Trainer has no option
def test_what_trains_is_told_how_to(knob: str) -> None:
    log = (
        "torchrun --nproc_per_node 4 fit.py\n"
        + FRAME.format("transformers/trainer.py", "training_step", "loss.backward()")
        + cuda()
    )
    assert knob in advise(log, knob)[0]


def test_a_batch_that_nobody_could_halve_enough() -> None:
    small, beyond = (FRAME.format("m.py", "forward", "y = f(x)") + cuda(tried=f"{gib}.00 GiB") for gib in (60, 240))
    assert "smaller-microbatch" in advise(small, "smaller-microbatch")[0]
    assert "smaller-microbatch" not in advise(beyond, "smaller-microbatch")[0]


def test_pictures_have_no_sequences() -> None:
    log = FRAME.format("torch/nn/modules/conv.py", "_conv_forward", "return F.conv2d(x, w)") + cuda()
    assert "shorter-sequences" not in advise(log, "shorter-sequences")[0]
    stated = "$ python fit.py --max_seq_length 4096\n" + log
    assert "shorter-sequences" in advise(stated, "shorter-sequences")[0]


def test_evidence_comes_after_what_relieves_and_three_are_there() -> None:
    crash = crashes_of("CUDA error: out of memory\n")[0]
    chosen, _ = enough_remedies("gpu-memory-exhausted", ("collect-evidence",), crash)
    assert [remedy.knob for remedy in chosen] == [EVIDENCE]  # of a job of which nothing is known
    crash = crashes_of("step 12 loss: 2.3145\nCUDA error: out of memory\n")[0]
    chosen, _ = enough_remedies("gpu-memory-exhausted", ("free-the-gpu",), crash)
    assert len(chosen) == 3
    full, _ = enough_remedies("gpu-memory-exhausted", ("clear-references", "smaller-model", "free-the-gpu"), crash)
    assert len(full) == 3


def test_the_tables_name_what_there_is() -> None:
    for knob in KNOBS.values():
        assert set(knob.conditions) <= CONDITIONS.keys(), knob.id
        assert set(knob.worlds) <= set(get_args(World)), knob.id
        assert set(knob.tasks) <= set(get_args(Task)), knob.id
    assert {name for knob in KNOBS.values() for name in knob.conditions} == CONDITIONS.keys()
    assert {name for row in table() for name in row.knobs} <= KNOBS.keys()
    assert {task for row in table() for task in row.tasks} <= set(get_args(Task))


# pictures, simulators, libraries that only serve

PICTURES = (
    "Loading pipeline components...: 100%|##########| 7/7\n"
    + FRAME.format("diffusers/models/autoencoders/autoencoder_kl.py", "_decode", "dec = self.decoder(z)")
    + cuda(tried="9.00 GiB")
)


def test_what_draws_is_told_of_tiles_before_batches() -> None:
    found = remedies_of(PICTURES)
    assert found[0] == "tiled-processing"
    assert "smaller-input" in found
    assert not {"shorter-sequences", "gradient-checkpointing"} & set(found)
    assert advise(PICTURES, "tiled-processing")[0]["tiled-processing"].snippet == "pipe.vae.enable_tiling()"


def test_a_sampler_sees_the_whole_picture() -> None:
    log = FRAME.format("diffusers/models/unets/unet_2d_condition.py", "forward", "sample = block(sample)") + cuda()
    found = advise(log, "tiled-processing", "smaller-input", "offload-parameters")[0]
    assert list(found) == ["smaller-input", "offload-parameters"]
    assert found["offload-parameters"].snippet == "pipe.enable_model_cpu_offload()"


def test_a_server_of_text_has_no_tiles() -> None:
    log = SERVE + FRAME.format("transformers/models/m/modeling_m.py", "forward", "y = self.mlp(x)") + cuda()
    assert not advise(log, "tiled-processing", "smaller-input", "fewer-environments", "cap-primitives")[0]


HOOKS = FRAME.format("accelerate/hooks.py", "new_forward", "output = module._old_forward(*args)") + cuda()


def test_a_model_that_is_only_offloaded_is_not_trained() -> None:
    serving = crashes_of("Loading pipeline components...: 100%|#| 7/7\n" + HOOKS)[0].job
    assert serving.task == "inference"
    trained = crashes_of("accelerate launch fit.py --learning_rate 1e-4\n" + HOOKS)[0].job
    assert trained.task == "training"


@pytest.mark.parametrize(
    ("line", "knob", "snippet"),
    [
        ('  File "/w/isaaclab/sim/simulation_context.py", line 9, in step', "fewer-environments", "--num_envs"),
        ("Importing module 'gym_38' (/opt/isaacgym/python/gym_38.so)", "fewer-environments", "num_envs="),
        (
            '  File "/w/scene/gaussian_model.py", line 9, in densify',
            "cap-primitives",
            "--densify_grad_threshold 0.0004",
        ),
    ],
)
def test_worlds_and_points_have_fewer_of_them(line: str, knob: str, snippet: str) -> None:
    log = f"{line}\n" + cuda()
    found = advise(log, knob, "shorter-sequences")[0]
    assert knob in found
    assert snippet in f"{found[knob].setting} {found[knob].snippet}" or found[knob].setting == snippet.rstrip("=")
    assert "shorter-sequences" not in found


def test_the_rows_of_an_array_of_attention_are_tokens() -> None:
    line = (
        "W tensorflow/core/framework/op_kernel.cc:1431] OP_REQUIRES failed at {}: Resource exhausted: OOM when "
        "allocating tensor with shape[{}] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator "
        "GPU_0_bfc\n"
    )
    pictures, tokens = line.format("conv_ops.cc:71", "280,64,256,256"), line.format("softmax_op.cc:7", "8,16,4096,4096")
    assert list(advise(pictures, "smaller-input", "shorter-sequences")[0]) == ["smaller-input"]
    assert list(advise(tokens, "smaller-input", "shorter-sequences")[0]) == ["shorter-sequences"]


def remedies_of(text: str) -> list[str]:
    report = street.report_on([_message(text)], ())
    return [remedy.knob for remedy in report.incidents[0].diagnoses[0].remedies]


@pytest.mark.parametrize(
    ("settings", "knob", "value"),
    [
        ("num_envs=4096", "fewer-environments", 2048),
        ("", "fewer-environments", None),
        ("", "resize-sim-buffers", 4194304),
    ],
)
def test_what_is_counted_is_halved(settings: str, knob: str, value: int | None) -> None:
    log = f"python train.py task=Ant {settings}\nImporting module 'gym_38' (/opt/isaacgym/python/gym_38.so)\n" + cuda()
    assert advise(log, knob)[0][knob].suggested == value


def test_a_threshold_is_raised_and_never_halved() -> None:
    log = (
        "python train.py -s scene --densify_grad_threshold 0.0002 --resolution 4\n"
        + FRAME.format("scene/gaussian_model.py", "densify_and_split", "self.densification_postfix(d)")
        + cuda()
    )
    assert advise(log, "cap-primitives")[0]["cap-primitives"].suggested == 0.0004


LAYERS = "load_tensors: offloaded 24/33 layers to GPU\n"
BUFFER = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 148.04 MiB on device 0: cudaMalloc failed: out of memory\n"
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
)


@pytest.mark.parametrize(
    ("log", "snippet"),
    [
        (LAYERS + BUFFER, "-ngl 12"),
        ("$ llama-server -m m.gguf -ngl 40 --ctx-size 8192\n" + BUFFER, "-ngl 20"),
        (BUFFER, None),
        ("Welcome to KoboldCpp - Version 1.99\n" + LAYERS + BUFFER, "--gpulayers 12"),
    ],
)
def test_fewer_layers_go_to_the_card(log: str, snippet: str | None) -> None:
    assert advise(log, "offload-parameters")[0]["offload-parameters"].snippet == snippet
