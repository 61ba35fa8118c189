from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from gpu_logs import ADAM, BACKWARD, LOADING, crash, finding, missing, ranking, refused, ruled_out, says, trace
from host_logs import Row, kill
from msgspec import Struct

from oomdoctor.causes.framework_regression import CAUSE
from oomdoctor.decision.judgement import Finding, Judgement, NotEnough, RuledOut
from oomdoctor.regressions import TABLE, Regression, blocks, regressions
from oomdoctor.report.vocabulary import POOLS, STAGES
from oomdoctor.signs import Grade
from oomdoctor.signs.releases import KINDS, ONE_SIGN, Match, fitting, matches
from oomdoctor.versions import version_of

LAUNCH = "python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3 --gradient_checkpointing --pretrain /models/llama-3-70b"
BANNER = (
    "[2025-02-24 08:16:41,119] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed info: version={}, git-hash=unknown"
)
CACHE_LINE = "Invalidate trace cache @ step 1447 and module 2893: cache has only 1447 modules"


def job(version: str, launch: str = LAUNCH) -> list[str]:
    return [launch, BANNER.format(version), *trace(BACKWARD), refused()]


def best(*lines: str) -> Match:
    match = fitting(crash(*lines))
    assert match is not None
    return match


# the table

KEYS = (
    "id", "what", "affected", "dated", "carrier", "around", "pools", "short", "must", "may", "install", "set", "cure",
    "worse", "seen",
)  # fmt: skip
RANGE = r"(?:(?:>=|<)\d+(?:\.\d+){1,3}(?: (?=<)|$)){1,2}"
REFERENCE = r"[\w.-]+/[\w.-]+#\d+"
ENTRIES = list(blocks(TABLE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[0][1])
def test_an_entry_is_well_formed(entry: list[tuple[str, str]]) -> None:
    keys = [key for key, _ in entry]
    assert keys == sorted(keys, key=KEYS.index), "the facts stand in one order, `must` before `may`"
    facts = dict(entry)
    assert {"what", "short", "affected", "pools", "must", "seen"} <= facts.keys()
    assert len({"install", "set", "cure"} & facts.keys()) == 1
    assert re.fullmatch(r"[a-z0-9.-]+", facts["id"])
    assert not any(facts[key].endswith(".") for key in ("what", "short", "worse") if key in facts)
    assert re.fullmatch(rf"[a-z-]+ {RANGE}", facts["affected"])
    assert all(re.fullmatch(REFERENCE, one) for one in facts["seen"].split())
    assert re.fullmatch(rf"20\d\d-\d\d-\d\d {REFERENCE}", facts.get("dated", "2026-01-01 a/b#1"))
    assert re.fullmatch(rf"[a-z-]+ {RANGE}", facts.get("around", "a >=1.0"))
    assert re.fullmatch(r"[a-z-]+(?:>=|==)[\w.]+", facts.get("install", "a>=1"))


@pytest.mark.parametrize("known", regressions(), ids=lambda known: known.id)
def test_an_entry_means_something(known: Regression) -> None:
    assert known.pools
    assert {*known.pools} <= {*POOLS} & {*CAUSE.pools}
    assert known.affected.versions.since < known.affected.versions.before
    for symptom in known.symptoms:
        assert symptom.kind in KINDS, symptom
        if symptom.kind in ("frame", "code", "line", "model"):
            re.compile(symptom.text)
        if symptom.kind == "stage":
            assert {*symptom.words} <= STAGES.keys(), symptom
    for carrier in known.carriers:
        assert known.install is not None
        sound, pins = version_of(carrier.sound), version_of(carrier.pins)
        assert sound is not None
        assert sound >= carrier.releases.versions.before
        assert not known.affected.holds(pins), carrier
    if known.install:
        wanted = version_of(re.split("[=>]=", known.install)[1])
        assert not known.affected.holds(wanted)


@pytest.mark.parametrize("known", regressions(), ids=lambda known: known.id)
def test_the_weights_of_an_entry(known: Regression) -> None:
    texts = [s.weight for s in known.symptoms if s.kind in ("line", "code")]
    others = [s.weight for s in known.symptoms if s.kind not in ("line", "code")]
    assert all(0 < weight <= ONE_SIGN for weight in others)
    assert all(s.weight <= 0.1 for s in known.symptoms if s.kind in ("stage", "unset"))
    assert sum(others) <= 0.8 + 1e-9
    assert sum(texts) + sum(others) <= 0.95 + 1e-9
    if any(weight > ONE_SIGN for weight in texts):
        assert sum(texts) + sum(others) >= 0.9 - 1e-9
    assert any(s.needed and s.kind not in ("stage", "unset") for s in known.symptoms)


def test_every_id_stands_once() -> None:
    ids = [known.id for known in regressions()]
    assert len(ids) == len({*ids})


# every entry with its symptoms, with an affected and a sound release, and without its symptoms


GROWING = tuple(f"(main_task pid=7) [step {n}] memory used = {40 + 50 * n}.00 GiB" for n in range(4))
LEVEL = tuple(f"(main_task pid=7) [step {n}] memory used = 210.{n % 2}0 GiB" for n in range(4))
RAYLET: Row = (713, 181.20, "/opt/env/ray/core/src/ray/raylet/raylet --raylet_socket_name=/tmp/ray/s/sockets/raylet")
SMALL_RAYLET: Row = (713, 0.21, RAYLET[2])
PINNED = (
    *trace(("deepspeed/accelerator/cuda_accelerator.py", "pin_memory", "return tensor.pin_memory()")),
    "RuntimeError: CUDA error: out of memory",
)
PAGEABLE = (
    *trace(("deepspeed/runtime/zero/stage3.py", "defragment", "buffer = torch.empty(size, device='cpu')")),
    PINNED[-1],
)
DISTRIBUTED = ("torch/distributed/checkpoint/state_dict.py", "get_model_state_dict", "return _get_model_state_dict(")
SAVING = ("verl/utils/checkpoint/fsdp_checkpoint_manager.py", "save_checkpoint", "state = self.model.state_dict()")
MASK = ("transformers/models/llama/modeling_llama.py", "_update_causal_mask", "causal_mask = {}")
FORWARD = ("transformers/models/llama/modeling_llama.py", "forward", "hidden_states = self.mlp(hidden_states)")
SFT = ("trl/trainer/sft_trainer.py", "compute_loss", "loss = super().compute_loss(model, inputs)")
PREPARE = ("accelerate/utils/fsdp_utils.py", "fsdp2_prepare_model", "model = model.to(torch.float32)")
SHARDING = ("accelerate/utils/fsdp_utils.py", "fsdp2_load_full_state_dict", "dist.broadcast(full, src=0)")
FSDP1 = ("accelerate/accelerator.py", "prepare_model", "model = FSDP(model, **kwargs)")
GRPO = ("trl/trainer/grpo_trainer.py", "get_per_token_logps", "log_probs = {}")
SAVED = (
    ("bitsandbytes/nn/modules.py", "_save_to_state_dict", "self.weight.data = undo_layout(self.state.CxB, indices)"),
    ("bitsandbytes/autograd/_functions.py", "undo_layout", "outputs = torch.empty_like(tensor)"),
)
WAKING = ("vllm/device_allocator/cumem.py", "wake_up", "create_and_map(handle)")
UPDATING = ("vllm/worker/worker_base.py", "update_weight", "weight = torch.empty(shape, device='cuda')")
ENGINE = ("vllm/model_executor/models/llama.py", "forward", "hidden = self.layers(hidden)")
LOGITS = ("transformers/loss/loss_utils.py", "ForCausalLMLoss", "logits = logits.float()")
SLEPT = "INFO 02-02 08:14:31 [gpu_worker.py:133] Sleep mode freed {} GiB memory, {} GiB memory is still in use."
TOO_LONG = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.0 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (7.43 GiB). Based on the available memory, the estimated "
    "maximum model length is 60832. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)
IN_PIECES = refused(tried="2.00 GiB", allocated="58.10 GiB", unallocated="19.60 GiB")
VL = "--model Qwen/Qwen2.5-VL-7B-Instruct"

TOO_FEW = "AssertionError: local_world_size (16) must be less than or equal to the number of visible devices (8)."


class Told(Struct, frozen=True, kw_only=True):
    """An entry's job: its log behind the package's version, and one that lacks a symptom."""

    id: str
    package: str
    affected: str
    sound: str
    log: Sequence[str]
    lacks: Sequence[str]
    weight: float


def zero(stage: int, *options: str) -> str:
    return " ".join(("deepspeed train.py --zero_stage", str(stage), *options))


JOBS = (
    Told(
        id="deepspeed-zero3-checkpointing", package="deepspeed", affected="0.16.5", sound="0.16.8", weight=0.95,
        log=(zero(3, "--gradient_checkpointing"), CACHE_LINE, *trace(BACKWARD), refused()),
        lacks=(zero(3), CACHE_LINE, *trace(BACKWARD), refused()),
    ),
    Told(
        id="deepspeed-offload-keeps-parameters", package="deepspeed", affected="0.16.9", sound="0.17.0", weight=0.75,
        log=(zero(2, "--adam_offload"), *trace(ADAM), refused()),
        lacks=(zero(2), *trace(ADAM), refused()),
    ),
    Told(
        id="deepspeed-offload-pins-unasked", package="deepspeed", affected="0.18.2", sound="0.18.3", weight=0.8,
        log=(zero(2, "--adam_offload --pin_memory false"), *PINNED),
        lacks=(zero(3, "--adam_offload --pin_memory false"), *PINNED),
    ),
    Told(
        id="deepspeed-pins-by-default", package="deepspeed", affected="0.19.5", sound="0.19.4", weight=0.65,
        log=(zero(3, "--adam_offload"), *PINNED),
        lacks=(zero(3, "--adam_offload --pin_memory false"), *PINNED),
    ),
    Told(
        id="deepspeed-autocast-weights-twice", package="deepspeed", affected="0.18.1", sound="0.18.2", weight=0.75,
        log=(zero(3, "--torch_autocast_enabled true"), *trace(BACKWARD), refused()),
        lacks=(zero(3, "--torch_autocast_enabled false"), *trace(BACKWARD), refused()),
    ),
    Told(
        id="torch-fsdp2-state-dict", package="torch", affected="2.6.0+cu124", sound="2.7.1", weight=0.75,
        log=("python -m verl.trainer.main_ppo actor_rollout_ref.actor.strategy=fsdp2", *trace(SAVING, DISTRIBUTED),
             refused()),
        lacks=("python -m verl.trainer.main_ppo actor_rollout_ref.actor.strategy=fsdp2", *trace(SAVING), refused()),
    ),
    Told(
        id="torch-alloc-conf-ignored", package="torch", affected="2.9.1", sound="2.11.0", weight=0.75,
        log=("export PYTORCH_ALLOC_CONF=expandable_segments:True", *trace(FORWARD), IN_PIECES),
        lacks=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", *trace(FORWARD), IN_PIECES),
    ),
    Told(
        id="transformers-full-causal-mask", package="transformers", affected="4.38.2", sound="4.40.1", weight=0.9,
        log=(*trace((*MASK[:2], MASK[2].format("self.causal_mask[None, None].repeat(rows, 1, 1, 1)"))), refused()),
        lacks=(*trace(FORWARD), refused()),
    ),
    Told(
        id="transformers-4.47.0", package="transformers", affected="4.47.0", sound="4.46.3", weight=0.6,
        log=("  0%|          | 0/940 [00:00<?, ?it/s]", *trace(SFT, FORWARD), refused()),
        lacks=(" 12%|#         | 113/940 [09:41<70:12, 5.09s/it]", *trace(SFT, FORWARD), refused()),
    ),
    Told(
        id="accelerate-fsdp2-upcasts-frozen", package="accelerate", affected="1.12.0", sound="1.13.0", weight=0.75,
        log=("accelerate launch sft.py --use_peft --lora_r 32", *trace(PREPARE), refused()),
        lacks=("accelerate launch sft.py --use_peft --lora_r 32", *trace(FSDP1), refused()),
    ),
    Told(
        id="accelerate-fsdp2-loads-whole", package="accelerate", affected="1.6.0", sound="1.7.0", weight=0.65,
        log=("accelerate launch sft.py --fsdp_cpu_ram_efficient_loading true", *trace(SHARDING), refused()),
        lacks=("accelerate launch sft.py --fsdp_cpu_ram_efficient_loading true", *trace(FSDP1), refused()),
    ),
    Told(
        id="bitsandbytes-copies-when-saving", package="bitsandbytes", affected="0.38.1", sound="0.39.1", weight=0.9,
        log=(*trace(SAVED[0], SAVED[1]), refused()), lacks=(*trace(FORWARD), refused()),
    ),
    Told(
        id="trl-grpo-log-softmax", package="trl", affected="0.14.0", sound="0.15.1", weight=0.9,
        log=(*trace((*GRPO[:2], GRPO[2].format("logits_row.log_softmax(dim=-1)"))), refused()),
        lacks=(*trace(FORWARD), refused()),
    ),
    Told(
        id="trl-colocates-by-default", package="trl", affected="1.2.0", sound="0.29.1", weight=0.45,
        log=("accelerate launch grpo.py --use_vllm true", *trace(ENGINE), refused()),
        lacks=("accelerate launch grpo.py --use_vllm true --vllm_mode colocate", *trace(ENGINE), refused()),
    ),
    Told(
        id="liger-without-transformers-5", package="liger-kernel", affected="0.6.5", sound="0.7.0", weight=0.8,
        log=("transformers 5.1.0", "accelerate launch sft.py --use_liger_kernel true", *trace(LOGITS), refused()),
        lacks=("transformers 4.57.3", "accelerate launch sft.py --use_liger_kernel true", *trace(LOGITS), refused()),
    ),
    Told(
        id="vllm-wake-up-twice", package="vllm", affected="0.7.3", sound="0.8.4", weight=0.75,
        log=(f"{LAUNCH} --vllm_enable_sleep", *trace(WAKING), refused()),
        lacks=(f"{LAUNCH} --vllm_enable_sleep", *trace(UPDATING), refused()),
    ),
    Told(
        id="vllm-sleep-leaves-memory", package="vllm", affected="0.15.1", sound="0.13.0", weight=0.75,
        log=(f"{LAUNCH} --vllm_enable_sleep", SLEPT.format("6.13", "16.42"), *trace(BACKWARD), refused()),
        lacks=(f"{LAUNCH} --vllm_enable_sleep", SLEPT.format("21.80", "1.14"), *trace(BACKWARD), refused()),
    ),
    Told(
        id="vllm-sleep-frees-nothing", package="vllm", affected="0.7.3", sound="0.8.5", weight=0.9,
        log=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", SLEPT.format("0.00", "61.70"),
             *trace(BACKWARD), refused()),
        lacks=("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", SLEPT.format("40.00", "21.70"),
               *trace(BACKWARD), refused()),
    ),
    Told(
        id="vllm-n-samples-leak", package="vllm", affected="0.7.2", sound="0.8.5.post1", weight=0.65,
        log=("Namespace(n_samples_per_prompt=8, rollout_batch_size=256)", *GROWING, *kill()),
        lacks=("Namespace(n_samples_per_prompt=8, rollout_batch_size=256)", *LEVEL, *kill()),
    ),
    Told(
        id="vllm-image-cache", package="vllm", affected="0.8.2", sound="0.10.2", weight=0.7,
        log=(f"vllm serve {VL}", *GROWING, *kill()),
        lacks=(f"vllm serve {VL} --disable-mm-preprocessor-cache", *GROWING, *kill()),
    ),
    Told(
        id="vllm-prefix-cache-leak", package="vllm", affected="0.12.0", sound="0.17.0", weight=0.65,
        log=(f"vllm serve {VL}", *GROWING, *kill()),
        lacks=("vllm serve --model Qwen/Qwen2.5-7B-Instruct", *GROWING, *kill()),
    ),
    Told(
        id="vllm-block-ids-leak", package="vllm", affected="0.22.0", sound="0.20.1", weight=0.35,
        log=("vllm serve --model Qwen/Qwen2.5-7B-Instruct", *GROWING, *kill()),
        lacks=("vllm serve --model Qwen/Qwen2.5-7B-Instruct", *LEVEL, *kill()),
    ),
    Told(
        id="vllm-pipeline-needs-whole-model", package="vllm", affected="0.15.1", sound="0.17.0", weight=0.7,
        log=("vllm serve /models/m --pipeline-parallel-size 2", TOO_LONG),
        lacks=("vllm serve /models/m --pipeline-parallel-size 1 --tensor-parallel-size 2", TOO_LONG),
    ),
    Told(
        id="vllm-gpus-of-all-nodes", package="vllm", affected="0.11.1", sound="0.11.2", weight=0.9,
        log=("vllm serve /models/m --tensor-parallel-size 16 --distributed-executor-backend ray", TOO_FEW),
        lacks=("vllm serve /models/m --tensor-parallel-size 16 --distributed-executor-backend mp", TOO_FEW),
    ),
    Told(
        id="raylet-leak", package="ray", affected="2.41.0", sound="2.44.0", weight=0.65,
        log=(*GROWING, *kill(RAYLET)),
        lacks=(*GROWING, *kill(SMALL_RAYLET)),
    ),
)  # fmt: skip
OF_JOBS = pytest.mark.parametrize("told", JOBS, ids=lambda told: told.id)


def known_as(judgement: Judgement | None, id_: str) -> bool:
    known = next(known for known in regressions() if known.id == id_)
    return isinstance(judgement, Finding) and known.what in judgement.why


def test_every_entry_has_its_job() -> None:
    assert [told.id for told in JOBS] == [known.id for known in regressions()]


@OF_JOBS
def test_not_a_sound_release(told: Told) -> None:
    assert not known_as(says(CAUSE, f"{told.package} {told.sound}", *told.log), told.id)


@OF_JOBS
def test_not_an_affected_release_alone(told: Told) -> None:
    assert not known_as(says(CAUSE, f"{told.package} {told.affected}", *told.lacks), told.id)


@OF_JOBS
def test_symptom_and_release_together(told: Told) -> None:
    found = finding(CAUSE, f"{told.package} {told.affected}", *told.log)
    assert known_as(found, told.id), found.why
    assert best(f"{told.package} {told.affected}", *told.log).weight == pytest.approx(told.weight)
    assert told.affected in found.why
    assert found.next_evidence == ()


@OF_JOBS
def test_an_unknown_release_weakens_it(told: Told) -> None:
    found = next((match for match in matches(crash(*told.log)) if match.known.id == told.id), None)
    assert found is not None
    assert found.told in ("nowhere", "source")
    assert found.weight < told.weight


# what the versions say


@pytest.mark.parametrize("version", ["0.15.4", "0.16.8", "0.17.5", "0.16.10"])
def test_not_a_version_that_is_not_affected(version: str) -> None:
    why = ruled_out(CAUSE, *job(version))
    assert f"deepspeed {version} is not affected" in why
    assert ">=0.16.0 <0.16.8" in why


def test_where_no_release_is_known_to_be_sound_it_says_so() -> None:
    log = ("vllm serve /models/m --enable-sleep-mode", SLEPT.format("6.13", "16.42"), *trace(BACKWARD), refused())
    judgement = says(CAUSE, "vllm 0.17.0", *log)
    assert isinstance(judgement, RuledOut)
    assert "as far as is known" in judgement.why


def test_not_where_the_framework_works_around_it() -> None:
    told = next(told for told in JOBS if told.id == "torch-fsdp2-state-dict")
    judgement = says(CAUSE, "verl 0.5.0", "torch 2.6.0", *told.log)
    assert isinstance(judgement, RuledOut)
    assert "works around the problem" in judgement.why
    assert isinstance(says(CAUSE, "verl 0.4.1", "torch 2.6.0", *told.log), Finding)


def test_not_without_checkpointing() -> None:
    launch = "python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3 --pretrain /models/llama-3-70b"
    assert not isinstance(says(CAUSE, *job("0.16.3", launch)), Finding)


def test_not_while_the_weights_are_loaded() -> None:
    assert not isinstance(says(CAUSE, LAUNCH, BANNER.format("0.16.3"), *trace(LOADING), refused()), Finding)


def test_an_unknown_version_is_asked_for() -> None:
    judgement = says(CAUSE, LAUNCH, *trace(BACKWARD), refused())
    assert isinstance(judgement, NotEnough)
    assert judgement.next_evidence == ("pip show deepspeed",)


def test_half_a_version_is_asked_for_too() -> None:
    judgement = says(CAUSE, "deepspeed 0.16", LAUNCH, *trace(BACKWARD), refused())
    assert isinstance(judgement, NotEnough)


def test_little_of_a_symptom_is_not_worth_a_question() -> None:
    assert says(CAUSE, "  0%|          | 0/940 [00:00<?, ?it/s]", *trace(FORWARD), refused()) is None


@pytest.mark.parametrize("version", ["0.16.0", "0.16.3", "0.16.7+cu124"])
def test_symptoms_and_version_come_before_the_activations(version: str) -> None:
    found = finding(CAUSE, *job(version))
    assert best(*job(version)).weight == pytest.approx(0.8)
    assert "deepspeed>=0.16.8" in found.why
    assert ranking(*job(version))[:2] == ["framework-regression", "activations"]


def test_its_line_tells_it_where_no_version_is_printed() -> None:
    found = finding(CAUSE, LAUNCH, CACHE_LINE, *trace(BACKWARD), refused())
    assert found.grade is Grade.POINTS
    assert found.next_evidence == ("pip show deepspeed",)


def test_a_framework_that_pins_it() -> None:
    found = finding(CAUSE, "openrlhf 0.7.1", LAUNCH, *trace(BACKWARD), refused())
    assert "openrlhf 0.7.1 pins an affected deepspeed" in found.why
    assert 0.75 < best("openrlhf 0.7.1", LAUNCH, *trace(BACKWARD), refused()).weight < 0.8
    assert isinstance(says(CAUSE, "openrlhf 0.8.1", LAUNCH, *trace(BACKWARD), refused()), NotEnough)


def test_the_failing_source_may_be_that_of_the_affected_versions_alone() -> None:
    whole = (MASK[0], MASK[1], MASK[2].format("self.causal_mask[None, None, :, :].repeat(rows, 1, 1, 1)"))
    assert best(*trace(whole), refused(tried="8.00 GiB")).weight == pytest.approx(0.8)


def test_not_the_mask_of_later_versions() -> None:
    later = (MASK[0], MASK[1], MASK[2].format("torch.full((length, total), fill_value=lowest)"))
    assert not isinstance(says(CAUSE, *trace(later), refused(tried="8.00 GiB")), Finding)


def test_the_best_of_several_is_told() -> None:
    lines = ("vllm 0.8.2", f"vllm serve {VL} --n 4", *GROWING, *kill())
    weights = [match.weight for match in matches(crash(*lines)) if match.told == "printed"]
    assert weights == sorted(weights, reverse=True)
    assert best(*lines).weight == weights[0]


def test_not_pieces_that_would_not_do_or_that_any_cache_has() -> None:
    job = ("torch 2.9.1", "export PYTORCH_ALLOC_CONF=expandable_segments:True", *trace(FORWARD))
    assert isinstance(says(CAUSE, *job, IN_PIECES), Finding)
    assert says(CAUSE, *job, refused(tried="24.00 GiB", allocated="58.10 GiB", unallocated="19.60 GiB")) is None
    assert says(CAUSE, *job, refused(tried="1.00 GiB", allocated="73.00 GiB", unallocated="3.10 GiB")) is None


def test_a_package_of_which_the_log_says_nothing_is_not_asked_for() -> None:
    stated = "export PYTORCH_ALLOC_CONF=expandable_segments:True"
    assert missing(CAUSE, stated, *trace(FORWARD), IN_PIECES) == "the version of torch"
    unnamed = IN_PIECES.replace("torch.", "").replace("PyTorch", "the library")
    assert says(CAUSE, stated, *trace(FORWARD), unnamed) is None
