"""What a log shows a job doing is the cause of its kill at a limit: each sign, and what only looks like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from system_logs import crashes_of

import oomdoctor
from oomdoctor.signs.scheduling import shared_roles

KILLED = (
    "[35256.620408] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "[35256.620649] memory: usage 1126400kB, limit 1126400kB, failcnt 0\n"
    "[35256.620777] Tasks state (memory values in pages):\n"
    "[35256.620779] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents "
    "oom_score_adj name\n"
    "{rows}"
    "[35256.620802] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,"
    "task_memcg=/job,task={name},pid=24367,uid=0\n"
    "[35256.620867] Memory cgroup out of memory: Killed process 24367 ({name}) total-vm:3204484kB, anon-rss:{held}kB, "
    "file-rss:173232kB, shmem-rss:0kB, UID:0 pgtables:4124kB oom_score_adj:0\n"
)
ROW = "[35256.620797] [  {pid}]     0 {pid}   801121   {pages}   {pages}    43308         0  4222976        0             0 {name}\n"  # noqa: E501


def dmesg(count: int = 1, name: str = "python") -> str:
    pages = 280155 // count
    rows = "".join(ROW.format(pid=24367 + number, pages=pages, name=name) for number in range(count))
    return KILLED.format(rows=rows, name=name, held=4 * pages)


def diagnosed(tmp_path: Path, log: str, kernel: str = "") -> dict[str, Any]:
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    if kernel:
        (tmp_path / "dmesg.log").write_text(kernel, encoding="utf-8")
    report: dict[str, Any] = oomdoctor.diagnose(tmp_path).as_json()
    return report


def causes(tmp_path: Path, log: str, kernel: str = "") -> list[str]:
    return [one["cause"] for one in diagnosed(tmp_path, log, kernel)["diagnoses"]]


def ended(command: str, *lines: str) -> str:
    return "\n".join([f"+ {command}", *lines, f"job.sh: line 2:     4 Killed     {command}", "exit code: 137", ""])


LIMIT = "container-limit"


@pytest.mark.parametrize(
    ("command", "lines", "cause"),
    [
        ("python tune.py --batch-size 8", ["***** Running Evaluation *****", "Evaluating:  40%|####  | 8/20"], "eval-accumulation"),  # noqa: E501
        ("python tune.py --batch-size 8", ["step 2 loss 0.03", "Saving model checkpoint to out"], "checkpoint-spike"),
        ("python serve.py --dtype float32", ["Loading weights:  79%|#######9  | 116/147"], "host-model-load"),
        ("python feed.py --cache memory", ["step 30 mean 0.5"], "dataset-in-ram"),
        ("python feed.py --in-memory --epochs 3", ["step 30 mean 0.5"], "dataset-in-ram"),
        ("python feed.py --cache ram", ["step 30 mean 0.5"], "dataset-in-ram"),
        ("python tune.py --batch-size 8", ["step 30 mean 0.5"], LIMIT),
        ("python tune.py --batch-size 8", ["***** Running Evaluation *****", "Evaluating: 100%|####| 20/20", "step 3 loss 0.1"], LIMIT),  # noqa: E501
        ("python feed.py --cache disk", ["step 30 mean 0.5"], LIMIT),
        ("python feed.py --cache false", ["step 30 mean 0.5"], LIMIT),
        ("python feed.py --cache 4096", ["step 30 mean 0.5"], LIMIT),
        ("python feed.py --cache-dir memory", ["step 30 mean 0.5"], LIMIT),
    ],
)  # fmt: skip
def test_what_the_log_shows_stands_before_the_limit(tmp_path: Path, command: str, lines: list[str], cause: str) -> None:
    found = causes(tmp_path, ended(command, *lines), dmesg())
    assert found[0] == cause
    assert LIMIT in found


def test_a_process_with_a_name_of_its_own_is_still_named(tmp_path: Path) -> None:
    log = "+ python tune.py\nstep 2 loss 0.03\nSaving model checkpoint to out\nKilled\n"
    assert causes(tmp_path, log, dmesg())[0] == "checkpoint-spike"
    assert causes(tmp_path, log, dmesg(name="postgres"))[0] == "process-ram-hog"


def test_the_kill_of_another_name_is_not_the_one_that_a_shell_reports(tmp_path: Path) -> None:
    log = ended("python tune.py", "step 2 loss 0.03", "Saving model checkpoint to out")
    report = diagnosed(tmp_path, log, dmesg(name="postgres"))
    assert [one["diagnoses"][0]["cause"] for one in report["incidents"]] == [LIMIT, "checkpoint-spike"]


@pytest.mark.parametrize(
    ("count", "line", "cause"),
    [
        (4, "[rank 0] Loading checkpoint from model.pt", "host-model-load"),
        (4, "round 0 read", "too-many-workers"),
        (4, "[rank 0] epoch 3 step 40 loss 0.1", "too-many-workers"),
        (1, "round 0 read", LIMIT),
    ],
)
def test_copies_of_weights_are_no_workers(tmp_path: Path, count: int, line: str, cause: str) -> None:
    assert causes(tmp_path, ended("python run.py", line), dmesg(count))[0] == cause


def test_weights_in_full_precision_are_halved(tmp_path: Path) -> None:
    first = diagnosed(
        tmp_path, ended("python serve.py --dtype float32", "Loading weights:  79%|###9  | 116/147"), dmesg()
    )
    remedy = first["diagnoses"][0]["remedies"][0]
    assert (remedy["knob"], remedy["snippet"]) == ("mixed-precision", "--dtype bfloat16")
    other = diagnosed(
        tmp_path, ended("python serve.py --dtype bfloat16", "Loading weights:  79%|###9  | 116/147"), dmesg()
    )
    assert other["diagnoses"][0]["remedies"][0]["knob"] == "low-memory-loading"


POOL = (
    "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was "
    "unexpectedly terminated. This could be caused by a segmentation fault while calling the function or by an "
    "excessive memory usage causing the Operating System to kill the worker.\n\nThe exit codes of the workers are "
    "{SIGKILL(-9)}\n"
)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ("--n-jobs 6", "too-many-workers"),
        ("--n-jobs 4", "too-many-workers"),
        ("--n-jobs 3", "killed-without-evidence"),
        ("--n-jobs 1", "killed-without-evidence"),
        ("--n-jobs auto", "killed-without-evidence"),
        ("--rows 6", "killed-without-evidence"),
    ],
)
def test_a_pool_of_workers_that_lost_one(tmp_path: Path, options: str, cause: str) -> None:
    report = diagnosed(tmp_path, f"+ python -u fit.py {options}\n{POOL}")
    assert report["verdict"] == "inconclusive"
    assert report["diagnoses"][0]["cause"] == cause


def test_a_process_that_is_no_pools_is_not_one_of_its_workers(tmp_path: Path) -> None:
    assert causes(tmp_path, ended("python fit.py --n-jobs 6"))[0] == "killed-without-evidence"


LOADER = (
    "/env/torch/utils/data/dataloader.py:431: UserWarning: This DataLoader will create {} worker processes in total. "
    "Our suggested max number of worker in current system is {}, which is smaller than what this DataLoader is going "
    "to create."
)


@pytest.mark.parametrize(
    ("workers", "cores", "cause"),
    [(8, 2, "too-many-workers"), (8, 4, "too-many-workers"), (8, 6, "killed-without-evidence")],
)
def test_pytorch_itself_finds_the_workers_too_many(tmp_path: Path, workers: int, cores: int, cause: str) -> None:
    log = ended("python fit.py --num-workers 8", LOADER.format(workers, cores), "epoch 0 of 6: 3840000 tokens")
    assert causes(tmp_path, log)[0] == cause


REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {} bytes. Error code 12 (Cannot allocate memory)\n"
)


def traced(*frames: tuple[str, str, str], size: int = 67108864) -> str:
    lines = "".join(f'  File "{file}", line 7, in {function}\n    {code}\n' for file, function, code in frames)
    return f"Traceback (most recent call last):\n{lines}{REFUSED.format(size)}"


MAIN = ("/srv/fit.py", "<module>", "fit()")
STEP = ("/env/lib/python3.11/site-packages/torch/optim/adam.py", "step", "has_complex = self._init_group(")
STATES = (
    "/env/lib/python3.11/site-packages/torch/optim/adam.py",
    "_init_group",
    'state["exp_avg"] = torch.zeros_like(',
)
LOOP = ("/env/lib/python3.11/site-packages/transformers/trainer.py", "evaluation_loop", "all_preds.add(logits)")
JOIN = ("/env/lib/python3.11/site-packages/transformers/trainer_pt_utils.py", "nested_concat",
        "return torch_pad_and_concatenate(tensors, new_tensors)")  # fmt: skip
BACK = ("/env/lib/python3.11/site-packages/torch/autograd/graph.py", "_engine_run_backward",
        "return Variable._execution_engine.run_backward(")  # fmt: skip


@pytest.mark.parametrize(
    ("frames", "cause", "first"),
    [
        ((MAIN, STEP, STATES), "optimizer-states", "low-memory-optimizer"),
        ((MAIN, LOOP, JOIN), "eval-accumulation", "smaller-buffers"),
        ((MAIN, BACK), "activations", "smaller-microbatch"),
        ((MAIN,), "host-memory-exhausted", "smaller-microbatch"),
    ],
)
def test_what_pytorch_was_refused_on_the_cpu(tmp_path: Path, frames: Any, cause: str, first: str) -> None:
    diagnoses = diagnosed(tmp_path, f"+ python fit.py --batch-size 8\n{traced(*frames)}")["diagnoses"]
    assert diagnoses[0]["cause"] == cause
    assert diagnoses[0]["remedies"][0]["knob"] == first
    assert "bitsandbytes" not in str(diagnoses[0]["remedies"])
    assert "cuda" not in str(diagnoses[0]["remedies"])
    assert "address-space-limit" in [one["cause"] for one in diagnoses]


@pytest.mark.parametrize(
    ("options", "size", "cause"),
    [
        ("--micro-batch-size 4 --seq-len 512 --vocab-size 128256", 1050673152, "logits-spike"),
        ("--micro-batch-size 4 --seq-len 512 --vocab-size 128256", 700000000, "activations"),
        ("--micro-batch-size 4 --seq-len 512", 1050673152, "activations"),
    ],
)
def test_logits_on_the_cpu(tmp_path: Path, options: str, size: int, cause: str) -> None:
    assert causes(tmp_path, f"+ python fit.py {options}\n{traced(MAIN, BACK, size=size)}")[0] == cause


CONTEXT = (
    "llama_context: n_ctx                 = {context}\n"
    "llama_kv_cache:        CPU KV buffer size =  {cache}.00 MiB\n"
    "llama_kv_cache: size = {cache}.00 MiB ({context} cells,   8 layers,  1/1 seqs), K (f16):  512.00 MiB, V (f16):  "
    "512.00 MiB\n"
    "ggml_aligned_malloc: insufficient memory (attempted to allocate 1283.51 MB)\n"
    "ggml_gallocr_reserve_n_impl: failed to allocate CPU buffer of size 1345857536\n"
    "graph_reserve: failed to allocate compute buffers\n"
)


@pytest.mark.parametrize(
    ("context", "cache", "cause"),
    [
        (131072, 1024, "max-model-len-too-long"),
        (131072, 64, "activations"),
        (4096, 1024, "activations"),
    ],
)
def test_a_long_context_on_the_host(tmp_path: Path, context: int, cache: int, cause: str) -> None:
    log = CONTEXT.format(context=context, cache=cache)
    assert causes(tmp_path, f"+ llama-cli -m model.gguf -c {context}\n{log}")[0] == cause


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        ("+ export POLARS_MAX_THREADS=2\n+ python join.py --rows 9\n", "dataset-in-ram"),
        ("+ python join.py --rows 9\n", "host-memory-exhausted"),
        ("+ ./bipolars --rows 9\n", "host-memory-exhausted"),
    ],
)
def test_a_library_for_tables_was_refused(tmp_path: Path, before: str, cause: str) -> None:
    assert causes(tmp_path, f"{before}memory allocation of 180000000 bytes failed\n")[0] == cause


JAX = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 839909632 bytes.\n"


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ('print(f"step {step} loss {float(loss):.4f}")', "activations"),
        ("grads = grad_of(params, batch)", "activations"),
        ("state = train_step(state, batch)", "activations"),
        ("table = jnp.zeros((9, 9))", "host-memory-exhausted"),
        ("glossary = load(words)", "host-memory-exhausted"),
    ],
)
def test_a_step_of_jax_on_the_host(tmp_path: Path, code: str, cause: str) -> None:
    frame = f'Traceback (most recent call last):\n  File "/srv/fit.py", line 38, in <module>\n    {code}\n'
    assert causes(tmp_path, f"+ python fit.py --batch-size 64\n{frame}{JAX}")[0] == cause


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("  0%|          | 0/2 [00:00<?, ?it/s]", 8),
        ("step 0 of 9", 8),
        ("step 12 loss 0.4", 16),
    ],
)
def test_before_a_step_was_done_a_half_is_often_too_little(tmp_path: Path, line: str, value: int) -> None:
    log = ended("python fit.py --per_device_train_batch_size 32 --gradient_accumulation_steps 1", line)
    remedies = diagnosed(tmp_path, log, dmesg())["diagnoses"][0]["remedies"]
    assert (remedies[0]["knob"], remedies[0]["suggested"]) == ("smaller-microbatch", value)
    assert remedies[0]["snippet"].endswith(f"--gradient_accumulation_steps {32 // value}")


@pytest.mark.parametrize(
    ("count", "advised"),
    [(1, False), (4, True)],
)
def test_one_process_has_no_fewer_workers(tmp_path: Path, count: int, advised: bool) -> None:
    diagnoses = diagnosed(tmp_path, ended("python run.py --points 12", "round 0 read"), dmesg(count))["diagnoses"]
    assert any(one["knob"] == "fewer-workers" for one in diagnoses[0]["remedies"]) == advised


SERVER = (
    "INFO vllm engine.py:3] Initializing an LLM engine (v0.6.3) with config: model='org/model', dtype={dtype}\n"
    '  File "/env/lib/python3.11/site-packages/vllm/model_executor/models/llama.py", line 7, in load_weights\n'
    "    weight = torch.empty(shape)\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 140.00 MiB. GPU 0 has a total capacity of 23.67 GiB "
    "of which 37.88 MiB is free. Including non-PyTorch memory, this process has 23.63 GiB memory in use. Of the "
    "allocated memory 23.28 GiB is allocated by PyTorch, and 51.00 MiB is reserved by PyTorch but unallocated.\n"
)


def test_an_engine_is_given_no_code_for_its_precision(tmp_path: Path) -> None:
    log = "$ vllm serve org/model --max-model-len 8192\n" + SERVER.format(dtype="torch.bfloat16")
    diagnoses = diagnosed(tmp_path, log)["diagnoses"]
    assert diagnoses[0]["cause"] == "model-does-not-fit"
    assert "autocast" not in str(diagnoses)


@pytest.mark.parametrize(
    ("gpus", "flags"),
    [(5, ["--colocate_actor_ref"]), (4, ["--colocate_actor_ref", "--colocate_critic_reward"]), (3, []), (6, [])],
)
def test_roles_that_share_their_gpus(gpus: int, flags: list[str]) -> None:
    launch = "python3 -m openrlhf.cli.train_ppo_ray --vllm_num_engines 2 " + " ".join(
        f"--{role}_num_nodes 1 --{role}_num_gpus_per_node 1" for role in ("actor", "ref", "critic", "reward")
    )
    assert list(shared_roles(crashes_of(f"$ {launch}\nKilled\n")[0], gpus)) == flags
