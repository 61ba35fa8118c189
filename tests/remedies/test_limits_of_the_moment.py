"""What is advised where the limit that was hit is not the one that the knob's usual words are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor import diagnose
from oomdoctor.signs.address_space import a_loader_was_not_forked

FORK = """\
Traceback (most recent call last):
  File "/srv/bird/sing.py", line 31, in main
    worker.start()
  File "/usr/lib/python3.9/multiprocessing/popen_fork.py", line 66, in _launch
    self.pid = os.fork()
OSError: [Errno 12] Cannot allocate memory
"""
LOADS = """\
{above}Traceback (most recent call last):
  File "/srv/bird/sing.py", line 31, in {function}
    {line}
  File "{file}", line 66, in _launch
    self.pid = os.fork()
OSError: [Errno 12] Cannot allocate memory
"""
POPEN = "/usr/lib/python3.9/multiprocessing/popen_fork.py"
LOOP = "for at, (songs, birds) in enumerate(self.val_loader):"
MAPPED = """\
Traceback (most recent call last):
  File "/srv/bird/sing.py", line 31, in main
    view = mmap.mmap(-1, size)
OSError: [Errno 12] Cannot allocate memory
"""
POD = """\
    State:          Terminated
      Reason:       {reason}
      Exit Code:    137
    Limits:
      memory:  24Gi
"""
CREATED = (
    'Warning  Failed  9s  kubelet  Error: container create failed: time="2024-02-03T04:05:06Z" level=error '
    'msg="runc create failed: unable to start container process: {what}"\n'
)
PLAN = (
    "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA RTX A2000) (0000:01:00.0) - {free} MiB free\n"
    "llama_memory_breakdown_print: | memory breakdown [MiB] | total   free   self   model   context   compute   "
    "unaccounted |\n"
    "llama_memory_breakdown_print: |   - CUDA0 (RTX A2000)  | 12000 = {free} + ({planned} =  {model} +     200 +     "
    "100) + 17592186036000 |\n"
    "llama_params_fit: failed to fit params to free device memory: n_gpu_layers already set by user to 60, abort\n"
)
WAITS = (
    "(EngineCore pid=51) INFO 03-04 10:11:12 [ray_utils.py:464] Waiting for creating a placement group of specs for 30 "
    "seconds. specs=[{specs}]. Check `ray status` and `ray list nodes` to see if you have enough resources.\n"
    "======== Autoscaler status: 2026-03-04 10:11:30.000001 ========\n"
    "Resources\n---------------------------------------------------------------\n"
    "Total Usage:\n 0.0/48.0 CPU\n 0.0/{gpus}.0 GPU\n 0B/90.00GiB memory\n\nTotal Demands:\n"
    " {{'GPU': 1.0}} * {count} ({strategy}): 1+ pending placement groups\n"
)


def incident(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "job.log"
    path.write_text(text, encoding="utf-8")
    found: dict[str, Any] = diagnose(path).as_json()["incidents"][0]
    return found


def remedies(folder: Path, text: str) -> dict[str, dict[str, Any]]:
    return {one["knob"]: one for one in incident(folder, text)["diagnoses"][0]["remedies"]}


def test_a_refused_fork_is_about_what_the_kernel_promises() -> None:
    chosen, _ = advise(FORK, "more-address-space", cause="address-space-limit")
    assert chosen["more-address-space"].snippet == (
        "sudo sysctl vm.overcommit_memory=1   # and in /etc/sysctl.d/, to keep it"
    )


@pytest.mark.parametrize(
    "text",
    [
        MAPPED,
        f"$ ulimit -v\n3000000\nvirtual memory          (kbytes, -v) 3000000\n{FORK}",
        f"vm.overcommit_memory = 2\n{FORK}",
    ],
)
def test_another_limit_is_not(text: str) -> None:
    chosen, _ = advise(text, "more-address-space", cause="address-space-limit")
    assert "overcommit_memory=1" not in (chosen["more-address-space"].snippet or "")


def test_what_is_promised_already_is_not_promised_again() -> None:
    chosen, _ = advise(f"vm.overcommit_memory = 1\n{FORK}", "more-address-space", cause="address-space-limit")
    assert not chosen


def test_the_limit_of_a_pod_is_raised_in_its_own_units(tmp_path: Path) -> None:
    raised = remedies(tmp_path, POD.format(reason="Error"))["raise-container-limit"]
    assert raised["suggested"] == "30Gi"


def test_its_own_record_speaks_against_the_limit(tmp_path: Path) -> None:
    against = incident(tmp_path, POD.format(reason="Error"))["diagnoses"][0]["against"]
    assert against[0] == "Kubernetes reports no OOM kill at the container's own limit"


def test_the_record_of_another_container_is_not_tied(tmp_path: Path) -> None:
    apart = POD.format(reason="Error").replace("137", "1") + "\n\n" * 80 + "run.sh: line 7:   914 Killed   ./sing\n"
    against = incident(tmp_path, apart)["diagnoses"][0]["against"]
    assert not [one for one in against if one == "Kubernetes reports no OOM kill at the container's own limit"]


def test_a_container_that_was_killed_while_it_was_created(tmp_path: Path) -> None:
    log = CREATED.format(what="container init was OOM-killed (memory limit too low?)")
    first = incident(tmp_path, log)["diagnoses"][0]
    assert "before the program started" in first["explanation"]
    assert "--limits=memory=512Mi" in first["remedies"][0]["snippet"]


def test_one_that_was_killed_later(tmp_path: Path) -> None:
    log = "Warning  Failed  9s  kubelet  Error: OOMKilled\n  Last State: Terminated\n    Reason: OOMKilled\n"
    first = incident(tmp_path, log)["diagnoses"][0]
    assert "before the program started" not in first["explanation"]
    assert "512Mi" not in (first["remedies"][0]["snippet"] or "")


@pytest.mark.parametrize(
    ("free", "planned", "frees"), [(7000, 9300, True), (7000, 11600, False), (11000, 14300, False)]
)
def test_what_an_empty_card_would_hold(free: int, planned: int, frees: bool, tmp_path: Path) -> None:
    log = PLAN.format(free=free, planned=planned, model=planned - 300)
    assert ("free-the-gpu" in list(remedies(tmp_path, log))[:3]) is frees


@pytest.mark.parametrize(("free", "planned", "shown"), [(7000, 9300, 5000), (12000, 14300, None)])
def test_what_was_in_use_before(free: int, planned: int, shown: int | None, tmp_path: Path) -> None:
    ledgers = incident(tmp_path, PLAN.format(free=free, planned=planned, model=planned - 300))["ledger"]
    rows = {row["what"]: row["bytes"] for one in ledgers for row in one["rows"]}
    assert rows.get("in use before loading") == (shown * 2**20 if shown else None)


def waits(count: int, gpus: int, strategy: str = "PACK") -> str:
    specs = ", ".join(["{'GPU': 1.0}"] * count)
    return WAITS.format(specs=specs, count=count, gpus=gpus, strategy=strategy)


@pytest.mark.parametrize(
    ("count", "gpus", "fit", "missing"), [(2, 1, 1, "1 GPU"), (8, 5, 4, "3 GPU"), (6, 2, 2, "4 GPU")]
)
def test_a_group_of_vllm_that_the_cluster_is_too_small_for(
    count: int, gpus: int, fit: int, missing: str, tmp_path: Path
) -> None:
    found = remedies(tmp_path, waits(count, gpus))
    assert found["fix-resource-request"]["snippet"] == f"--tensor-parallel-size {fit}"
    assert f"with {missing} more in all" in found["add-nodes"]["action"]


def test_a_group_that_has_to_lie_on_one_node(tmp_path: Path) -> None:
    found = remedies(tmp_path, waits(4, 2, "STRICT_PACK"))
    assert "more in all" not in found["add-nodes"]["action"]


def test_a_cluster_without_any(tmp_path: Path) -> None:
    found = remedies(tmp_path, waits(4, 0))
    assert "tensor-parallel" not in (found["fix-resource-request"]["snippet"] or "")
    assert "add-nodes" not in found or "more in all" not in found["add-nodes"]["action"]


WOKEN = (
    "python3 -m openrlhf.cli.train_ppo_ray --colocate_all_models --vllm_num_engines 2 {options}\n"
    "(LLMRayActor pid=612) ERROR 02-03 04:05:06 [core.py:459]     {call}\n"
    '(LLMRayActor pid=612) ERROR 02-03 04:05:06 [core.py:459]   File "/w/vllm/device_allocator/cumem.py", line 84, in '
    "create_and_map\n"
    "(LLMRayActor pid=612) ERROR 02-03 04:05:06 [core.py:459] RuntimeError: CUDA Error: out of memory at "
    "/workspace/csrc/cumem_allocator.cpp:62\n"
)
SLEEPS = "Offload the trainer and empty its cache before the engine wakes up"


def test_the_option_that_puts_the_trainer_to_sleep(tmp_path: Path) -> None:
    found = remedies(tmp_path, WOKEN.format(options="--zero_stage 3", call="allocator.wake_up(tags)"))
    assert "clear-references" not in found
    one = found["offload-optimizer"]
    assert (one["action"], one["snippet"]) == (SLEEPS, "--deepspeed_enable_sleep")


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("Train epoch [1/1]: 100%|##########| 4/4 [00:09<00:00,  2.2s/it, act_loss=0.0312, kl=0]", "offload-optimizer"),
        ("(TaskRunner pid=51) step:2 - actor/pg_loss:-0.021 - actor/kl_loss:0.001", "offload-optimizer"),
        ("(TaskRunner pid=51) global_step: 1 begins", "lower-engine-reservation"),
        ("{'loss': 0.0312, 'grad_norm': 1.2, 'epoch': 0.1}", "offload-optimizer"),
        ("", "lower-engine-reservation"),
        ("Episode [1/20]:   0%|          | 0/40 [00:00<?, ?it/s]", "lower-engine-reservation"),
        ("use_kl_loss=True kl_loss_coef=0.001 loss_agg_mode=token-mean", "lower-engine-reservation"),
        ("max_loss_scale: 65536, dynamic_loss_args: None, loss_scale: 0", "lower-engine-reservation"),
    ],
)
def test_an_engine_that_wakes_up_behind_a_training(line: str, first: str, tmp_path: Path) -> None:
    """It takes back what it had before: what is new is the trainer's."""
    log = WOKEN.format(options="--zero_stage 3", call="allocator.wake_up(tags)").replace("\n", f"\n{line}\n", 1)
    assert next(iter(remedies(tmp_path, log))) == first
    explained = incident(tmp_path, log)["diagnoses"][0]["explanation"]
    assert ("since then is in its way" in explained) is (first == "offload-optimizer")


def test_a_trainer_without_that_option() -> None:
    log = WOKEN.format(options="", call="allocator.wake_up(tags)").replace(
        "python3 -m openrlhf.cli.train_ppo_ray", "run"
    )
    chosen, _ = advise(log.replace("LLMRayActor", "Engine"), "clear-references", cause="vllm-utilization-too-high")
    assert chosen["clear-references"].action == SLEEPS


def test_an_optimizer_that_no_engine_wakes_up_beside() -> None:
    log = (
        "python3 -m openrlhf.cli.train_ppo_ray --colocate_all_models\n"
        '  File "/w/torch/optim/adamw.py", line 9, in step\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n"
    )
    chosen, _ = advise(log, "offload-optimizer", cause="optimizer-states")
    assert chosen["offload-optimizer"].action != SLEEPS


def falling(*free: int) -> str:
    prints = "".join(
        f"03:{minute:02}:07 INFO Free GPU ram: {left}.5\n03:{minute:02}:09 INFO Batch loss: 0.7{minute}\n"
        for minute, left in enumerate(free)
    )
    return f"{prints}03:59:09 ERROR CUDA out of memory at /tmp/build/src/gpu.cu:11\n"


def test_a_rate_that_tells_nothing(tmp_path: Path) -> None:
    first = incident(tmp_path, falling(15000, 14700, 14300, 6200, 800))["diagnoses"][0]
    assert first["cause"] == "gpu-memory-leak"
    assert first["headline"].startswith("Free GPU memory fell from 14.65 GiB to 800 MiB in 5 prints")
    assert "every step" not in first["explanation"]
    assert "about" not in first["explanation"]


@pytest.mark.parametrize("free", [(15000, 11800, 8100, 4400, 800), (15000, 12800, 8900, 4100, 800)])
def test_a_rate_that_tells(free: tuple[int, ...], tmp_path: Path) -> None:
    first = incident(tmp_path, falling(*free))["diagnoses"][0]
    assert "falls by about" in first["headline"]
    assert "every step" in first["explanation"]


PODS = (
    "  Warning  OOMKilling  9m  {by}, node-3  Memory cgroup out of memory: Kill process 71 (indexer) score 1400 or "
    "sacrifice child\n"
    "Killed process 71 (indexer) total-vm:90000000kB, anon-rss:4194304kB, file-rss:0kB, shmem-rss:0kB\n"
    "  Warning  OOMKilling  9m  {by}, node-3  Memory cgroup out of memory: Kill process 82 (agent) score {score} or "
    "sacrifice child\n"
    "Killed process 82 (agent) total-vm:90000kB, anon-rss:8192kB, file-rss:0kB, shmem-rss:0kB\n"
)


def test_a_limit_that_pods_share_is_left_to_those_with_one_of_their_own() -> None:
    log = PODS.format(by="kernel-monitor", score=1000)
    remedy = advise(log, "raise-container-limit", cause="container-limit")[0]["raise-container-limit"]
    assert "--limits=memory=5Gi" in (remedy.snippet or "")
    assert remedy.derivation == "4.00 GiB x 1.25 = 5.00 GiB, rounded up"


@pytest.mark.parametrize(("by", "score"), [("kernel-monitor", 998), ("someone", 1000)])
def test_any_other_limit_is_raised(by: str, score: int) -> None:
    log = PODS.format(by=by, score=score)
    remedy = advise(log, "raise-container-limit", cause="container-limit")[0]["raise-container-limit"]
    assert "5Gi" not in (remedy.snippet or "")


@pytest.mark.parametrize(
    ("above", "line", "file", "snippet"),
    [
        ("", LOOP, POPEN, "DataLoader(..., num_workers=0)"),
        ("", "for batch in train_dataloader:", POPEN, "DataLoader(..., num_workers=0)"),
        ("+ python sing.py --workers 8\n", LOOP, POPEN, "--workers 0"),
        ("", "worker.start()", POPEN, None),
        ("", "pool = multiprocessing.Pool(9)", POPEN, None),
        ("", "for line in reader:", POPEN, None),
        ("", LOOP, "/usr/lib/python3.9/subprocess.py", None),  # of what its body calls
    ],
)
def test_without_workers_a_loader_forks_nothing(above: str, line: str, file: str, snippet: str | None) -> None:
    text = LOADS.format(above=above, function="main", line=line, file=file)
    chosen, _ = advise(text, "fewer-workers", cause="address-space-limit")
    found = chosen["fewer-workers"].snippet if "fewer-workers" in chosen else None
    assert found == snippet
    assert (a_loader_was_not_forked(crashes_of(text)[0]) is not None) is (snippet is not None)


@pytest.mark.parametrize(
    ("file", "line", "cause"),
    [
        (POPEN, "self.pid = os.fork()", "address-space-limit"),
        ("/opt/torch/utils/data/_utils/fetch.py", "data = [self.dataset[at] for at in index]", "dataset-in-ram"),
    ],
)
def test_a_copy_of_the_parent_is_no_data(tmp_path: Path, file: str, line: str, cause: str) -> None:
    text = LOADS.format(above="", function="main", line=LOOP, file=file).replace("self.pid = os.fork()", line)
    (tmp_path / "job.log").write_text(text, encoding="utf-8")
    assert diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]["cause"] == cause


def test_workers_that_were_not_started_go_before_what_the_launch_states(tmp_path: Path) -> None:
    text = LOADS.format(above="+ python sing.py --batch-size 4 --workers 8\n", function="fit", line=LOOP, file=POPEN)
    assert next(iter(remedies(tmp_path, text))) == "fewer-workers"
