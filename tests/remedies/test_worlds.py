"""Nothing of another world or task is advised: over all labelled logs, and in small ones of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, get_args

import pytest
from remedy_logs import advise, crashes_of, cuda

import oomdoctor
from oomdoctor import street
from oomdoctor.decision.diagnosis import Decision
from oomdoctor.job.frameworks import Task, World
from oomdoctor.job.job import Job
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advice import Advice
from oomdoctor.remedies.advice import advise as advise_on
from oomdoctor.remedies.backfill import EVIDENCE, enough_remedies, table
from oomdoctor.remedies.conditions import CONDITIONS
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.training.cases import cases_in

TOP: Final = Path(__file__).parent.parent.parent
CASES: Final = TOP.parent / "shared" / "cases"
TORCH: Final = ("torch.", "PYTORCH_", "expandable_segments", "PyTorch's allocator", "DataLoader", "ZeRO", "FSDP")
JAX: Final = ("jax.", "XLA_PYTHON_CLIENT")
TENSORFLOW: Final = ("tf.config", "TF_FORCE_GPU")
GGML: Final = ("-ngl ", "-ub ")
# What must not stand in a remedy for a job of this world
OF_OTHER_WORLDS: Final[Mapping[str, tuple[str, ...]]] = {
    "torch": GGML,
    "jax": ("torch.", "PYTORCH_", "expandable_segments", "PyTorch's allocator", "detach losses", *TENSORFLOW, *GGML),
    "tensorflow": (*TORCH, "detach losses", *JAX, *GGML),
    "ggml": (*TORCH, "detach losses", *JAX, *TENSORFLOW),
    "engine": ("torch.", "PYTORCH_", "detach losses", *JAX, *TENSORFLOW),
    "none": ("torch.", "PYTORCH_", *JAX[:1], *TENSORFLOW),
}
OF_TRAINING: Final = (
    "backward pass",
    "global batch",
    "optimizer",
    "accumulate",
    "Train without",
    "ZeRO",
    "detach losses",
)
OF_OTHER_TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "serving": (*OF_TRAINING, "replay buffers", "trainer work"),
    "inference": OF_TRAINING,
    "data": (*OF_TRAINING, "KV cache", "Shorten prompts"),
}
TRAINING_KNOBS: Final = frozenset({
    "gradient-checkpointing", "offload-activations", "packing", "shard-states", "offload-optimizer",
    "low-memory-optimizer", "lora", "chunked-logits", "token-budget-batching", "sequence-parallel",
})  # fmt: skip
KNOBS_OF_OTHER_TASKS: Final = {"serving": TRAINING_KNOBS, "inference": TRAINING_KNOBS, "data": TRAINING_KNOBS}
# The libraries that take the card of others, whatever those are
FOR_ANOTHER_PROCESS: Final = ("cap-preallocation",)


def strangers(job: Job, remedy: Remedy) -> list[str]:
    """What of the remedy belongs to another job than this one."""
    text = f"{remedy.action} {remedy.cost} {remedy.snippet or ''}"
    words = (*OF_OTHER_WORLDS[job.world], *OF_OTHER_TASKS.get(job.task, ()))
    found = [word for word in words if word in text and remedy.knob not in FOR_ANOTHER_PROCESS]
    return found + [remedy.knob] * (remedy.knob in KNOBS_OF_OTHER_TASKS.get(job.task, ()))


def slips(files: Sequence[Path]) -> list[tuple[str, str, str, list[str]]]:
    """What is printed for each crash in these logs and belongs to another job."""
    decisions: list[Decision] = []

    def heard(decision: Decision) -> Advice:
        decisions.append(decision)
        return advise_on(decision)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(street, "advise", heard)
        oomdoctor.diagnose(*map(str, files))
    return [
        (each.crash.job.world, each.crash.job.task, remedy.knob, words)
        for each in decisions
        for remedy in chain.from_iterable(advise_on(each).remedies)
        if (words := strangers(each.crash.job, remedy))
    ]


FAMILIES: Final = sorted({log.parent for log in (TOP / "fixtures").rglob("*.log")})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_fixture_is_told_what_is_for_another_job(family: Path) -> None:
    assert {log.stem: found for log in sorted(family.glob("*.log")) if (found := slips([log]))} == {}


@pytest.mark.slow
@pytest.mark.skipif(not CASES.is_dir(), reason="the cases do not lie beside this checkout")
def test_no_case_is_told_what_is_for_another_job() -> None:
    assert {case.name: found for case in cases_in(CASES) if (found := slips(case.logs))} == {}


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


def test_a_card_of_no_known_library_is_only_looked_at() -> None:
    found = advise("CUDA error: out of memory\n", "collect-evidence", "allocator-config")[0]
    assert "nvidia-smi" in (found["collect-evidence"].snippet or "")
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


@pytest.mark.parametrize("knob", TRAINING)
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
    assert [remedy.knob for remedy in chosen][-1] == EVIDENCE
    assert len(chosen) == 3
    full, _ = enough_remedies("gpu-memory-exhausted", ("clear-references", "smaller-model", "free-the-gpu"), crash)
    assert len(full) == 3


def test_the_tables_name_what_there_is() -> None:
    for knob in KNOBS.values():
        assert set(knob.conditions) <= CONDITIONS.keys(), knob.id
        assert set(knob.worlds) <= set(get_args(World)), knob.id
        assert set(knob.tasks) <= set(get_args(Task)), knob.id
    assert {name for knob in KNOBS.values() for name in knob.conditions} == CONDITIONS.keys()
    assert {name for _, tasks, names in table() for name in names} <= KNOBS.keys()
    assert {task for _, tasks, _ in table() for task in tasks} <= set(get_args(Task))
