"""Training on the CPU that ends in its first step: at a limit, on a full machine, or for no printed reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import oomdoctor

KERNEL = (
    "[7120.100001] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "[7120.100002] memory: usage 1843200kB, limit 1843200kB, failcnt 0\n"
    "[7120.100003] Tasks state (memory values in pages):\n"
    "[7120.100004] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents "
    "oom_score_adj name\n"
    "{rows}"
    "[7120.100009] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,"
    "task_memcg=/job,task=python,pid=5150,uid=0\n"
    "[7120.100010] Memory cgroup out of memory: Killed process 5150 (python) total-vm:3404484kB, anon-rss:{held}kB, "
    "file-rss:1032kB, shmem-rss:0kB, UID:0 pgtables:4124kB oom_score_adj:0\n"
)
ROW = "[7120.100005] [  {pid}]     0  {pid}   851121   {pages}   {pages}      258         0  4222976        0             0 python\n"  # noqa: E501
LIMIT, STEP, STATES, BARE = "container-limit", "activations", "optimizer-states", "killed-without-evidence"
ON_CPU = "Using device: cpu"
OF_TENSORFLOW = "I0 12 cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use available CPU instructions"


def dmesg(held: int = 1_830_000, count: int = 1) -> str:
    rows = "".join(ROW.format(pid=5150 + number, pages=held // 4) for number in range(count))
    return KERNEL.format(rows=rows, held=held)


def diagnosed(tmp_path: Path, command: str, *lines: str, kernel: str = "") -> list[dict[str, Any]]:
    ended = [f"+ {command}", *lines, f"run.sh: line 3:    12 Killed     {command}", "exit code: 137", ""]
    (tmp_path / "job.log").write_text("\n".join(ended), encoding="utf-8")
    if kernel:
        (tmp_path / "dmesg.log").write_text(kernel, encoding="utf-8")
    found: list[dict[str, Any]] = oomdoctor.diagnose(tmp_path).as_json()["diagnoses"]
    return found


def first(tmp_path: Path, command: str, *lines: str, kernel: str = "") -> str:
    cause: str = diagnosed(tmp_path, command, *lines, kernel=kernel or dmesg())[0]["cause"]
    return cause


RUN = "python fit.py --batch-size 96"


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (RUN, [ON_CPU, "***** Running training *****", "  Num examples = 900"]),
        (RUN, [ON_CPU, "***** distillation: 9 steps *****"]),
        (RUN, [ON_CPU, "Epoch 1/4"]),
        (RUN, [ON_CPU, "Epoch 000"]),
        (RUN, [ON_CPU, "  0%|          | 0/70 [00:00<?, ?it/s]"]),
        (RUN, [ON_CPU, "Epoch 0:   0%|          | 0/70 [00:00<?, ?it/s]"]),
        (RUN, [ON_CPU, "fitting 812 series"]),
        (RUN, [ON_CPU, "rollout step 512 of 512", "rollout done"]),
        (RUN, ["Using cpu device", "|    ep_rew_mean     | 3.1      |", "|    iterations      | 1        |"]),
        (f"{RUN} --use_cpu", ["Starting training"]),
        (f"{RUN} --device cpu", ["loss before training: 2.3"]),
        (RUN, ["jax 0.9.1, devices [CpuDevice(id=0)], optax 0.2.6", "net: 3,400,100 parameters"]),
        (RUN, ["GPU available: False, used: False", "Epoch 0"]),
        (RUN, ["student: 14M parameters on cpu", "Epoch 0"]),
        (RUN, ["jax 0.9.1, devices [CpuDevice(id=0)]", "compiling train step ...", "compiled in 8.1 s"]),
        (RUN, [OF_TENSORFLOW, "TensorFlow 2.20.0", "Epoch 1/2"]),
        (RUN, [OF_TENSORFLOW, "[towers] keras 3.9.2 on tensorflow 2.20.0", "Epoch 1/2"]),
    ],
)
def test_a_kill_in_the_first_step_on_the_cpu_is_the_steps(tmp_path: Path, command: str, lines: list[str]) -> None:
    found = diagnosed(tmp_path, command, *lines, kernel=dmesg())
    assert [one["cause"] for one in found[:2]] == [STEP, LIMIT]
    assert "in the first training step on the CPU: python (PID 5150) held 1.75 GiB" in found[0]["headline"]
    assert found[0]["confidence"] <= 0.8


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (RUN, ["Epoch 1/4"]),  # of no device
        (RUN, ["Using device: cuda", "Epoch 1/4"]),
        (RUN, ["Using device: cuda:0", "torch 2.9.0+cpu", "Epoch 1/4"]),
        (RUN, ["offload_optimizer device: cpu", "Epoch 1/4"]),
        (RUN, ["torch.load(path, map_location='cpu')", "Epoch 1/4"]),
        (RUN, [OF_TENSORFLOW, "Epoch 1/4"]),  # imported
        (RUN, [ON_CPU, "GPU available: True (cuda), used: True", "Epoch 0"]),
        (RUN, [ON_CPU, "Epoch 1/4", "step 12 loss 0.31"]),
        (RUN, [ON_CPU, "Epoch 000 loss 0.2"]),
        (RUN, [ON_CPU, "Training:  45%|####      | 45/100 [00:09<00:11, 5.0it/s]"]),
        (RUN, [ON_CPU, "Tokenizing:   0%|          | 0/70 [00:00<?, ?it/s]"]),
        (RUN, [ON_CPU, "Epoch 3/4"]),
        (RUN, [ON_CPU, "net: 3,400,100 parameters"]),  # of no training
        ("python serve.py --lr 1 --n-steps 20", [ON_CPU, "Uvicorn running on http://0.0.0.0:80"]),
        (RUN, [ON_CPU, "training data: 9 files"]),
    ],
)
def test_what_is_no_first_step_on_the_cpu(tmp_path: Path, command: str, lines: list[str]) -> None:
    assert first(tmp_path, command, *lines) != STEP


@pytest.mark.parametrize(("held", "cause"), [(1_382_400, STEP), (1_382_396, LIMIT)])
def test_one_process_held_three_quarters(tmp_path: Path, held: int, cause: str) -> None:
    found = diagnosed(tmp_path, RUN, ON_CPU, "Epoch 1/4", kernel=dmesg(held))
    assert (found[0]["cause"] == STEP) is (cause == STEP)


def test_several_alike_are_not_one_step(tmp_path: Path) -> None:
    assert first(tmp_path, RUN, ON_CPU, "Epoch 1/4", kernel=dmesg(450_000, 4)) == "too-many-workers"


@pytest.mark.parametrize(
    ("option", "line", "cause"),
    [
        ("--optimizer adam", "model: 58,982,400 parameters", STATES),  # x 16 bytes = 900 MiB of 1800
        ("--optimizer adam", "model: 56,000,000 parameters", STEP),
        ("--optimizer adamw", "number of parameters: 124.44M", STATES),
        ("--optimizer sgd", "model: 58,982,400 parameters", STEP),
        ("--optimizer adam8bit", "model: 58,982,400 parameters", STEP),
        ("--optimizer adafactor", "model: 58,982,400 parameters", STEP),
        ("--optimizer adam --dtype bf16", "model: 58,982,400 parameters", STEP),
        ("--optimizer adam", "teacher: 58,982,400 parameters", STEP),
        ("--optimizer adam", "58,982,400 rows", STEP),
    ],
)
def test_states_that_are_half_of_the_limit(tmp_path: Path, option: str, line: str, cause: str) -> None:
    found = diagnosed(tmp_path, f"{RUN} {option}", ON_CPU, line, "Epoch 1/4", kernel=dmesg())
    assert found[0]["cause"] == cause
    if "58,982,400" in line and cause == STATES:
        formula = "58,982,400 parameters x 16 bytes (weights, gradients and Adam's two states in 32 bits) = 900 MiB"
        assert f"{formula}: 50% of 1.76 GiB" in found[0]["explanation"]
        assert found[1]["cause"] == LIMIT
        assert STEP in [one["cause"] for one in found]
        assert found[0]["remedies"][0]["knob"] == "low-memory-optimizer"


def knobs(tmp_path: Path, command: str, *lines: str, cause: str = BARE) -> list[str]:
    found = diagnosed(tmp_path, command, *lines)
    assert found[0]["cause"] == cause
    return [one["knob"] for one in found[0]["remedies"]]


@pytest.mark.parametrize(
    ("option", "line", "cause", "heads"),
    [
        (
            "--optimizer adam",
            "model: 67,108,864 parameters",
            STATES,
            ["low-memory-optimizer", "smaller-model"],
        ),  # 1 GiB
        ("--optimizer adam", "model: 67,108,863 parameters", STEP, ["smaller-microbatch", "low-memory-optimizer"]),
        ("--optimizer sgd", "model: 67,108,864 parameters", STEP, ["smaller-microbatch"]),
        ("--optimizer adam", "model: ready", STEP, ["smaller-microbatch"]),
    ],
)
def test_a_bare_kill_before_the_first_step(
    tmp_path: Path, option: str, line: str, cause: str, heads: list[str]
) -> None:
    found = knobs(tmp_path, f"{RUN} --embedding-dim 48 {option}", line, "Epoch 1/4", cause=cause)
    assert found[: len(heads)] == heads
    assert ("low-memory-optimizer" in found) is ("low-memory-optimizer" in heads)
    assert "smaller-model" in found[:3]


def test_a_quarter_of_the_batch_where_no_step_was_done(tmp_path: Path) -> None:
    for lines, then in ((["Epoch 1/4"], 24), (["Epoch 1/4", "step 3 loss 0.2"], 48)):
        batch = next(
            one for one in diagnosed(tmp_path, RUN, *lines)[0]["remedies"] if one["knob"] == "smaller-microbatch"
        )
        assert batch["suggested"] == then


@pytest.mark.parametrize(
    "lines",
    [
        ["Epoch 1/4", "step 3 loss 0.2"],
        ["4 GPUs per node", "Epoch 1/4"],
        ["Using device: cuda:0", "Epoch 1/4"],
        ["reading 9 files"],
    ],
)
def test_a_bare_kill_of_other_work_is_looked_into_first(tmp_path: Path, lines: list[str]) -> None:
    assert "smaller-model" not in knobs(tmp_path, RUN, *lines)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ("--max-length 128 --vocab-size 6400", "logits-spike"),  # 96 x 128 x 6400 x 4 x 3 = 900 MiB
        ("--max-length 127 --vocab-size 6400", STEP),
        ("--vocab-size 64000", STEP),
    ],
)
def test_logits_that_are_half_of_the_limit(tmp_path: Path, options: str, cause: str) -> None:
    found = diagnosed(tmp_path, f"{RUN} {options}", ON_CPU, "Epoch 1/4", kernel=dmesg())
    assert found[0]["cause"] == cause
    if cause != STEP:
        assert "(logits, their probabilities and their gradient) = 900 MiB of 1.76 GiB" in found[0]["explanation"]


@pytest.mark.parametrize(
    ("line", "first_knob"),
    [
        ("resuming from runs/last.pt", "low-memory-loading"),
        ("Saving checkpoint to runs/last.pt", "sharded-checkpoint"),
    ],
)
def test_a_state_that_is_read_is_mapped_before_it_is_sharded(tmp_path: Path, line: str, first_knob: str) -> None:
    found = diagnosed(tmp_path, RUN, "torch 2.8.0", line, kernel=dmesg())
    assert found[0]["cause"] == "checkpoint-spike"
    assert found[0]["remedies"][0]["knob"] == first_knob


@pytest.mark.parametrize(
    ("option", "knob", "setting"),
    [
        ("--kl-chunk 0", "chunked-logits", "--kl-chunk"),
        ("--fused-batch-size 0", "chunked-logits", "--fused-batch-size"),
        ("--hidden-size 96", "smaller-model", "--hidden-size"),
        ("--crop-width 96", "smaller-model", None),
        ("--precision fp32", "mixed-precision", "--precision"),
    ],
)
def test_a_program_is_turned_by_its_own_options(tmp_path: Path, option: str, knob: str, setting: str | None) -> None:
    found = diagnosed(tmp_path, f"{RUN} {option}", "Epoch 1/4")
    assert {one["knob"]: one["setting"] for one in found[0]["remedies"]}.get(knob) == setting


@pytest.mark.parametrize(
    ("world", "option", "action", "snippet"),
    [
        ("TensorFlow 2.20.0, Keras 3.9.2", "--lr 1", "(Adafactor, SGD)", "optimizer = keras.optimizers.SGD(learning_rate)"),  # noqa: E501
        ("TensorFlow 2.20.0, Keras 3.9.2", "--optimizer adam", "(Adafactor, SGD): --optimizer is adam now", None),
        ("TensorFlow 2.20.0", "--lr 1", "(Adafactor, SGD)", None),
        ("devices [CpuDevice(id=0)] of jaxlib", "--optimizer adam", "(Adafactor, SGD): --optimizer is adam now", None),
        ("torch 2.9.0", "--optimizer adam", "(Adafactor): --optimizer is adam now", None),
    ],
)  # fmt: skip
def test_smaller_states_in_the_words_of_the_world(
    tmp_path: Path, world: str, option: str, action: str, snippet: str | None
) -> None:
    found = diagnosed(tmp_path, f"{RUN} {option}", world, "Adam: 70,000,000 parameters", "Epoch 1/4")
    remedy = next(one for one in found[0]["remedies"] if one["knob"] == "low-memory-optimizer")
    assert (remedy["action"].partition("states ")[2], remedy["snippet"]) == (action, snippet)


GREW = "[warm-up] sequence length -> {}"
DONE = "step {} | loss 2.5 | 900 tok/s"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([GREW.format(512), DONE.format(1), GREW.format(1024)], STEP),
        (["resolution: 256 -> 384", DONE.format(1), "resolution: 384 -> 512"], STEP),
        ([GREW.format(512), DONE.format(1), GREW.format(1024), DONE.format(2)], BARE),
        ([GREW.format(1024), DONE.format(1), GREW.format(512)], BARE),
        ([DONE.format(1), GREW.format(1024)], BARE),
        (["cuda:0", GREW.format(512), DONE.format(1), GREW.format(1024)], BARE),
        (["version 12 -> 14", DONE.format(1), "version 14 -> 16"], BARE),
    ],
)
def test_a_bare_kill_at_larger_inputs_than_before(tmp_path: Path, lines: list[str], cause: str) -> None:
    assert diagnosed(tmp_path, "python fit.py --batch-size 8", "model: 192,396 parameters", *lines)[0]["cause"] == cause


REFUSED = (
    'Traceback (most recent call last):\n  File "/srv/tag.py", line 55, in loss_of\n    return bce(scores, marks)\n'
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {} bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("size", "options", "exact"),
    [
        (256 * 90_011 * 4, "--batch-size 256 --num-labels 90011", True),
        (256 * 90_011 * 4 + 4, "--batch-size 256 --num-labels 90011", False),
        (256 * 90_011 * 4, "--batch-size 256", False),
        (256 * 90_011 * 4, "--batch-size 256 --num-layers 90011", False),
    ],
)
def test_scores_of_all_labels(tmp_path: Path, size: int, options: str, exact: bool) -> None:
    (tmp_path / "job.log").write_text(f"+ python tag.py {options}\n{REFUSED.format(size)}\n", encoding="utf-8")
    assert (oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]["cause"] == "logits-spike") is exact


SMALL = "number of parameters: 5.1M"  # x 16 bytes = 78 MiB of 1.75 GiB
BEGUN = "start training"
TOKENS = "python fit.py --batch-size 96 --lr 3e-4"


@pytest.mark.parametrize(
    ("command", "lines", "cause"),
    [
        (TOKENS, [SMALL, BEGUN], STEP),
        (TOKENS, [SMALL, "untrained val loss 4.1"], STEP),
        (TOKENS, [SMALL, "step 0: train loss 4.1701, val loss 4.1688"], STEP),  # nanoGPT evaluates ahead of it
        (TOKENS, ["initial loss 4.17", "model: 14,300,000 parameters"], STEP),
        (TOKENS, ["model: 14,700,000 parameters", BEGUN], LIMIT),  # x 16 bytes = an eighth
        (TOKENS, [BEGUN], LIMIT),
        (TOKENS, [SMALL, "step 0: train loss 4.1701, val loss 4.1688", "iter 0: loss 4.17, time 900ms"], LIMIT),
        (TOKENS, [SMALL, "step 250: train loss 2.1, val loss 2.2"], LIMIT),
        (TOKENS, [SMALL, "step 0: loss 4.17"], LIMIT),
        (TOKENS, [SMALL, "using fused AdamW: True", BEGUN], LIMIT),
        (TOKENS, [SMALL, "Using device: cuda", BEGUN], LIMIT),
        (f"{TOKENS} --num-workers 4", [SMALL, BEGUN], LIMIT),
        ("python fit.py --lr 3e-4", [SMALL, BEGUN], LIMIT),
        ("python serve.py --batch-size 96", [SMALL, "Uvicorn running on http://0.0.0.0:80"], LIMIT),
    ],
)
def test_a_model_that_is_small_beside_what_was_held(tmp_path: Path, command: str, lines: list[str], cause: str) -> None:
    found = diagnosed(tmp_path, command, *lines, kernel=dmesg())
    assert found[0]["cause"] == cause
    if cause == STEP:
        assert "on the CPU" not in found[0]["headline"]
        assert "in the first training step: python (PID 5150) held 1.75 GiB" in found[0]["headline"]
        assert found[0]["confidence"] <= 0.8
    if SMALL in lines and cause == STEP:
        formula = "5,100,000 parameters x 16 bytes (weights, gradients and Adam's two states in 32 bits) = 78 MiB"
        assert f"{formula}: little of 1.75 GiB" in found[0]["explanation"]


WIDE = "trainable params: 50,000,000"  # x 8 bytes = 381 MiB
PASSED = "RSS after the first backward: 910 MB (loss 0.69)"
ADAM = "python fit.py --batch-size 96 --optimizer adamw --lora-rank 0"


@pytest.mark.parametrize(
    ("command", "lines", "comes"),
    [
        (ADAM, [WIDE, PASSED], True),
        (ADAM, [WIDE, "backward pass done"], True),
        (ADAM, [WIDE, "finished backward in 3.1 s"], True),
        (ADAM, [WIDE, "forward done", "backward completed", "clipping gradients"], True),
        (ADAM, [PASSED], False),
        (ADAM, [WIDE, PASSED, "step 1 loss 0.69"], False),
        (ADAM, [WIDE, "backward pass done", "step 1 loss 0.69", "backward pass done: 2"], False),
        (ADAM, [WIDE, "Using device: cuda", PASSED], False),
        (ADAM, [WIDE, "before backward: 700 MB"], False),
        (ADAM, [WIDE, "backward compatible mode"], False),
        (ADAM.replace("adamw", "sgd"), [WIDE, PASSED], False),
        (ADAM.replace("adamw", "adamw_8bit"), [WIDE, PASSED], False),
        (f"{ADAM} --dtype bf16", [WIDE, PASSED], False),
    ],
)
def test_after_the_first_backward_pass_come_adams_states(
    tmp_path: Path, command: str, lines: list[str], *, comes: bool
) -> None:
    bare, limited = (diagnosed(tmp_path, command, *lines, kernel=kernel) for kernel in ("", dmesg()))
    assert ((bare[0]["cause"], limited[0]["cause"]) == (STATES, STATES)) is comes
    if not comes:
        assert STATES not in (bare[0]["cause"], limited[0]["cause"])
    elif WIDE in lines:
        assert "50,000,000 parameters x 2 x 4 bytes = 381 MiB" in bare[0]["explanation"]
        assert "after its first backward pass: python (PID 5150)" in limited[0]["headline"]
        assert [one["knob"] for one in bare[0]["remedies"]][:2] == ["low-memory-optimizer", "lora"]
        assert bare[0]["remedies"][1]["snippet"] == "--lora-rank 8"
        assert "smaller-microbatch" not in [one["knob"] for one in bare[0]["remedies"]]


def test_states_that_are_too_little(tmp_path: Path) -> None:
    """128 MiB; at a limit of 1.76 GiB an eighth of it."""
    for parameters, cause in ((16_777_216, STATES), (16_777_215, BARE)):
        assert diagnosed(tmp_path, ADAM, f"trainable params: {parameters}", PASSED)[0]["cause"] == cause
    for parameters, cause in ((29_500_000, STATES), (29_400_000, LIMIT)):
        assert first(tmp_path, ADAM, f"trainable params: {parameters}", PASSED) == cause


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["step 3 loss 0.71", "step 4: running the forward pass"], STEP),
        (["step 3 loss 0.71", "running the backward pass"], STEP),
        (["[step 1] rollout of 128 done", "[step 1] computing logprobs"], "logits-spike"),
        (["Epoch 0/2 5/6 loss 0.92", "Val 0/2 0/9  image (1, 1, 128, 128)"], STEP),  # nothing is kept yet
        (["step 3 loss 0.71", "step 4: running the forward pass", "step 4 loss 0.70"], LIMIT),  # it is through
        (["Using device: cuda", "step 3 loss 0.71", "step 4: running the forward pass"], LIMIT),
        (["step 4: running the forward pass of the renderer"], LIMIT),  # nothing says that it trains
    ],
)
def test_a_kill_at_a_limit_in_a_pass_is_the_passes(tmp_path: Path, lines: list[str], cause: str) -> None:
    found = diagnosed(tmp_path, "python fit.py --batch-size 96", *lines, kernel=dmesg())
    assert found[0]["cause"] == cause
    if cause != LIMIT:
        assert found[0]["confidence"] < 0.9
    several = diagnosed(tmp_path, "python fit.py --batch-size 96", *lines, kernel=dmesg(610_000, 3))
    assert several[0]["cause"] not in (STEP, "logits-spike")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Val 0/2 0/9  image (1, 1, 128, 128)", STEP),
        ("Evaluating:   0%|          | 0/63 [00:00<?, ?it/s]", STEP),
        ("Val 0/2 3/9  image (1, 1, 128, 128)", "eval-accumulation"),
        ("Evaluating:  10%|#         | 6/63 [00:09<01:12,  1.2s/it]", "eval-accumulation"),
    ],
)
def test_an_evaluation_keeps_nothing_of_its_first_batch(tmp_path: Path, line: str, cause: str) -> None:
    command = "python fit.py --batch_size 2 --val_inferer simple"
    found = diagnosed(tmp_path, command, "Epoch 0/2 5/6 loss 0.92", line)
    assert found[0]["cause"] == cause
    if cause == STEP:
        first = found[0]["remedies"][0]
        assert (first["knob"], first["setting"], first["suggested"]) == (
            "tiled-processing", "--val_inferer", "sliding_window",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        (
            [
                "user_embedding \u2502 (None, 96) \u2502 46,098,144 \u2502 user_id[0][0]",
                "(Embedding) \u2502 \u2502 \u2502",
            ],
            STATES,
        ),
        (["user_embedding (Embedding)  (None, 96)  46098144  user_id[0][0]"], STATES),
        (["user_embedding \u2502 (None, 96) \u2502 6,098,144 \u2502 user_id[0][0]"], STEP),  # an eighth of them
        (["hidden (Dense) \u2502 (None, 96) \u2502 46,098,144 \u2502 x[0][0]"], STEP),
        ([], STEP),
    ],
)
def test_a_batch_takes_few_rows_of_embeddings(tmp_path: Path, rows: list[str], cause: str) -> None:
    command = "python fit.py --batch-size 96 --optimizer adam"
    lines = [*rows, "Total params: 48,169,760 (183.8 MB)", "Epoch 1/2"]  # x 16 bytes = 735 MiB
    assert diagnosed(tmp_path, command, *lines)[0]["cause"] == cause


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["step 5 loss 0.9 points 600", "step 10 loss 0.8 points 1697", "step 15 loss 0.7 points 7354"], STEP),
        (["step 5 loss 0.9 gaussians: 600", "step 10 loss 0.8 gaussians: 7354"], STEP),
        (["step 5 loss 0.9 points 7354", "step 10 loss 0.8 points 7354"], BARE),  # no more of them
        (["step 5 loss 0.9 points 7354", "step 10 loss 0.8 points 600"], BARE),
        (["frame 5 points 600", "frame 10 points 7354"], BARE),  # nothing trains
    ],
)
def test_a_step_computes_with_more_primitives_each_time(tmp_path: Path, lines: list[str], cause: str) -> None:
    found = diagnosed(tmp_path, "python fit.py --cap_max -1 --pixels 64", *lines)
    assert found[0]["cause"] == cause
    if cause == STEP:
        first = found[0]["remedies"][0]
        assert (first["knob"], first["setting"], first["suggested"]) == ("cap-primitives", "--cap_max", 3677)
    limited = diagnosed(tmp_path, "python fit.py --cap_max -1 --pixels 64", *lines, kernel=dmesg())
    assert limited[0]["cause"] == (STEP if cause == STEP else LIMIT)


TABLE = ("Parameter head.weight: torch.Size([{}, 256]), require_grad = True", "Parameter tail.weight: (64, 64)")


@pytest.mark.parametrize(
    ("rows", "lines", "cause"),
    [
        (241_600, ("optimizer = Adam", "Start Training..."), STATES),  # x 256 x 16 bytes: more than half of the limit
        (200_000, ("optimizer = Adam", "Start Training..."), LIMIT),
        (241_600, ("optimizer = SGD", "Start Training..."), LIMIT),
        (241_600, ("optimizer = Adam", "Start Training...", "step 1 loss 0.4"), LIMIT),
        (241_600, ("optimizer = Adam", "cuda:0 ready", "Start Training..."), LIMIT),
        (4_416_000, ("optimizer = Adam", "Start Training..."), LIMIT),  # more than a thousand million
    ],
)
def test_parameters_that_are_listed_one_by_one(tmp_path: Path, rows: int, lines: tuple[str, ...], cause: str) -> None:
    listed = (line.format(rows) for line in TABLE)
    assert first(tmp_path, "python kge.py --batch 64", *listed, *lines) == cause


UNEVEN = ("Device: cpu", "Using DynamicBucketingSampler.", "Epoch 1, batch 0, loss[loss=6.7, over 2197.00 frames. ]")


@pytest.mark.parametrize(
    ("options", "lines", "cause"),
    [
        ("--max-duration 90", UNEVEN, STEP),
        ("--seed 90", UNEVEN, STEP),
        ("--max-duration 90", (UNEVEN[0], UNEVEN[2]), STEP),
        ("--seed 90", (UNEVEN[0], UNEVEN[2]), BARE),  # of one size each
        ("--max-duration 90", UNEVEN[1:], BARE),  # on whatever it computes
        ("--max-duration 90", (*UNEVEN[:2], "Epoch 2, batch 0, loss[loss=6.7]"), BARE),  # all of them fitted
    ],
)
def test_batches_that_are_filled_up(tmp_path: Path, options: str, lines: tuple[str, ...], cause: str) -> None:
    assert diagnosed(tmp_path, f"python asr.py {options}", *lines)[0]["cause"] == cause


def test_a_batch_size_that_is_told_is_no_option(tmp_path: Path) -> None:
    told = f"{UNEVEN[2]}, batch size: 13"
    remedy = diagnosed(tmp_path, "python asr.py --max-duration 90", *UNEVEN[:2], told)[0]["remedies"][0]
    assert (remedy["knob"], remedy["snippet"]) == ("smaller-microbatch", "--max-duration 45")
