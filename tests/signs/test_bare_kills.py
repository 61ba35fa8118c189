"""Logs that end with a bare kill: what stands in their last lines, and near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import oomdoctor

BARE, WORKERS = "killed-without-evidence", "too-many-workers"


def diagnosed(tmp_path: Path, command: str, *lines: str) -> dict[str, Any]:
    ended = [f"+ {command}", *lines, f"run.sh: line 3:    12 Killed     {command}", "exit code: 137", ""]
    (tmp_path / "job.log").write_text("\n".join(ended), encoding="utf-8")
    report: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()
    assert report["verdict"] == "inconclusive"
    return report


def cause(tmp_path: Path, command: str, *lines: str) -> str:
    found: str = diagnosed(tmp_path, command, *lines)["diagnoses"][0]["cause"]
    return found


EVALUATING = ("step 40 loss 0.61", "***** Running evaluation: 96 clips *****", "clip 12/96")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("step 40 loss 0.61", "clip 12/96"), BARE),
        (("rank 3 ready", "eval_steps: 40", "clip 12/96"), BARE),
        ((*EVALUATING, "step 41 loss 0.60"), BARE),
        (EVALUATING, "eval-accumulation"),
    ],
)
def test_a_job_that_evaluates(tmp_path: Path, lines: tuple[str, ...], found: str) -> None:
    assert cause(tmp_path, "python sample.py --keep-every 1", *lines) == found


def test_the_results_of_an_evaluation_are_kept_less_often(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, "python sample.py --keep-every 1 --batch-size 16", *EVALUATING)
    said = report["diagnoses"][0]
    assert said["headline"] == "python sample.py (PID 12) was killed (SIGKILL) during an evaluation"
    assert [said["remedies"][0][name] for name in ("knob", "suggested", "derivation")] == [
        "smaller-buffers", 10, "10 x 1 = 10",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("wrote readings.jsonl",), BARE),
        (("reading 12 sensors",), BARE),
        (("reading config.yaml",), BARE),
        (("loading model from weights.npz",), "host-model-load"),
        (("reading readings.jsonl", "fitted 4 curves"), BARE),
        (("reading readings.jsonl",), "dataset-in-ram"),
        (("tool 3.1; parsing dumps/part-07.csv.gz ...",), "dataset-in-ram"),
    ],
)
def test_a_last_line_that_reads_a_file(tmp_path: Path, lines: tuple[str, ...], found: str) -> None:
    assert cause(tmp_path, "python ingest.py", *lines) == found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("pandas is not installed", "9 shops"), BARE),
        (("torch 2.9.0", "shape: (3, 4) of the kernel"), BARE),
        (("polars 1.30.0", "step 3 loss 0.2"), BARE),
        (("polars 1.30.0", "9 shops"), "dataset-in-ram"),
        (("[70000 rows x 12 columns]", "9 shops"), "dataset-in-ram"),
        (("shape: (70_000, 12)", "9 shops"), BARE),
    ],
)
def test_a_job_whose_prints_are_of_tables(tmp_path: Path, lines: tuple[str, ...], found: str) -> None:
    report = diagnosed(tmp_path, "python churn.py --chunk-rows 0", *lines)
    assert report["diagnoses"][0]["cause"] == found
    if found != BARE:
        assert "while it worked on tables" in report["diagnoses"][0]["headline"]
        assert report["diagnoses"][0]["remedies"][0]["setting"] == "--chunk-rows"
        assert "smaller-microbatch" not in [one["knob"] for one in report["diagnoses"][0]["remedies"]]


TRAIN = "python fit.py --batch-size 96 --lr 0.1"
ON_CPU = "jax 0.9.1 on [CpuDevice(id=0)]"


@pytest.mark.parametrize(
    ("command", "lines", "found"),
    [
        (TRAIN, ("Loading graph roads", "full-batch training"), "activations"),
        (TRAIN, ("full-batch training", "Loading graph roads"), BARE),
        (TRAIN, ("Loading graph roads", "full-batch normalization"), BARE),
        (TRAIN, (ON_CPU, "CPC: 12 crops"), "activations"),
        (TRAIN, ("jax 0.9.1 on [CudaDevice(id=0)]", "CPC: 12 crops"), BARE),
        (TRAIN, ("CPC: 12 crops",), BARE),
        (TRAIN, (ON_CPU, "step 1 loss 0.3"), BARE),
        ("python fit.py --batch-size 96", (ON_CPU, "CPC: 12 crops"), BARE),
        ("python fit.py --lr 0.1", (ON_CPU, "CPC: 12 crops"), BARE),
    ],
)
def test_a_job_that_was_about_to_train(tmp_path: Path, command: str, lines: tuple[str, ...], found: str) -> None:
    assert (cause(tmp_path, command, *lines) == "activations") is (found == "activations")


SHOP = "python shop.py --max-seq-length 64 --train-batch-size {batch} --num-items 21846"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (SHOP.format(batch=63), "activations"),
        (SHOP.format(batch=64), "logits-spike"),  # 64 x 64 x 21,846 x 4 x 3 = 1 GiB
        ("python shop.py --train-batch-size 64 --num-items 2184600", "activations"),
    ],
)
def test_scores_of_all_items(tmp_path: Path, command: str, found: str) -> None:
    report = diagnosed(tmp_path, f"{command} --loss-chunk 0", "Epoch 1/4")
    assert report["diagnoses"][0]["cause"] == found
    if found == "logits-spike":
        assert report["diagnoses"][0]["remedies"][0]["setting"] == "--loss-chunk"
        assert "before its first training step was done" not in report["diagnoses"][0]["title"]


SMALL_LAYERS = "--num-layers {layers} --hidden-size 256"
POLICY = "python reward.py --mini-batch-size 32 --max-prompt-length 24 --max-completion-length {answer} --optim adamw"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        # 32 x (24 + 104) x 8,192 x 4 x 3 = 384 MiB; 8,192 x 12 bytes for a token, and 2 x 256 x 34 of the layers
        (f"{POLICY.format(answer=104)} --vocab-size 8192 {SMALL_LAYERS.format(layers=2)}", "logits-spike"),
        (f"{POLICY.format(answer=104)} --vocab-size 8192 {SMALL_LAYERS.format(layers=12)}", "activations"),
        (f"{POLICY.format(answer=104)} --vocab-size 8192", "activations"),  # of layers that nobody tells
        (f"{POLICY.format(answer=60)} --vocab-size 8192 {SMALL_LAYERS.format(layers=2)}", "activations"),  # 252 MiB
        (f"{POLICY.format(answer=62)} --vocab-size 8192 {SMALL_LAYERS.format(layers=2)}", "logits-spike"),  # 258 MiB
    ],
)
def test_more_logits_than_what_the_layers_keep(tmp_path: Path, command: str, found: str) -> None:
    assert cause(tmp_path, command, "Epoch 1/4") == found


FLOW = "python flow.py --samples reads"


@pytest.mark.parametrize(
    ("options", "says", "found"),
    [
        ("--jobs 4", "Command '['python', 'align.py', '--sample', 's2']' died with <Signals.SIGKILL: 9>.", WORKERS),
        ("--cores 4", "Command '['python', 'align.py', '--sample', 's2']' died with <Signals.SIGKILL: 9>.", WORKERS),
        ("--jobs 3", "Command '['python', 'align.py', '--sample', 's2']' died with <Signals.SIGKILL: 9>.", BARE),
        ("", "Command '['python', 'align.py', '--sample', 's2']' died with <Signals.SIGKILL: 9>.", BARE),
    ],
)
def test_one_of_several_commands_side_by_side(tmp_path: Path, options: str, says: str, found: str) -> None:
    log = f"+ {FLOW} {options}\nbegin s1\nbegin s2\nsubprocess.CalledProcessError: {says}\nexit code: 1\n"
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    assert oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]["cause"] == found


@pytest.mark.parametrize(("options", "found"), [("--cores 8", BARE), ("--jobs 8", BARE)])
def test_a_shell_tells_of_the_program_itself(tmp_path: Path, options: str, found: str) -> None:
    assert cause(tmp_path, f"{FLOW} {options}", "begin s1") == found


DPO = "python prefer.py --vocab-size 90000 --train-batch-size 4 --length 256 --logprob-chunk-size 0 --optim adamw"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("step 0 part 0: computing policy log probs",), "logits-spike"),
        (("step 3 loss 0.61", "step 4: computing reference logprobs"), "logits-spike"),
        (("step 3 loss 0.61", "step 4: computing gradients of the loss"), "activations"),
        (("step 3 loss 0.61",), BARE),
        (("cuda:0 ready", "step 4: computing log probs"), BARE),
        (("step 4: computing log probs", "step 4 loss 0.61"), BARE),
        (("vLLM engine started on 8 GPUs", "step 4: computing log probs"), BARE),
    ],
)
def test_a_pass_that_the_last_line_tells_of(tmp_path: Path, lines: tuple[str, ...], found: str) -> None:
    first = diagnosed(tmp_path, DPO, *lines)["diagnoses"][0]
    assert first["cause"] == found
    if found == "logits-spike":
        assert first["remedies"][0]["setting"] == "--logprob-chunk-size"


COUNTED = ("Epoch 0 |   Training | Steps: 91 | Loss: 24.9", "Epoch 0 |   Training | Steps: 93 | Loss: 24.5")
OVER_ITS_LIMIT = (
    "slurmstepd: error: Job 41 exceeded memory limit (9359956 > 8388608), being killed",
    "slurmstepd: error: *** JOB 41 ON node1 CANCELLED AT 2022-06-09T16:11:35 ***",
)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (COUNTED, "container-limit"),  # such steps fitted
        ((*COUNTED, "step 94: computing gradients of the loss"), "activations"),
        (
            (*COUNTED, "step 94: computing gradients of the loss", "singularity exec --nv speech.sif python train.py"),
            "container-limit",
        ),
        ((*COUNTED, "step 94: computing gradients of the loss", "docker run --gpus all speech"), "container-limit"),
    ],
)
def test_a_pass_at_the_limit_of_a_job(tmp_path: Path, lines: tuple[str, ...], found: str) -> None:
    (tmp_path / "job.log").write_text("\n".join((*lines, *OVER_ITS_LIMIT, "")), encoding="utf-8")
    assert oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]["cause"] == found


NETWORK = ("Network(", "  (inward): Linear(in_features=64, out_features=96, bias=True)", ")")


@pytest.mark.parametrize(
    ("command", "lines", "found"),
    [
        ("python graph.py --optimizer adam --epochs 2", NETWORK, "activations"),
        ("python graph.py --optimizer adam --epochs 2", (*NETWORK, "step 4 loss 0.61"), BARE),
        ("python graph.py --nodes 20000", NETWORK, BARE),  # of no training
        ("python graph.py --optimizer adam --epochs 2", (*NETWORK, "using cuda:0"), BARE),
    ],
)
def test_a_model_that_was_printed_last(tmp_path: Path, command: str, lines: tuple[str, ...], found: str) -> None:
    assert cause(tmp_path, command, *lines) == found


FIT = "python fit.py --optimizer {name} --history-size {pairs} --width 9"


@pytest.mark.parametrize(
    ("name", "pairs", "parameters", "found"),
    [
        ("adam", 80, 838_861, BARE),
        ("lbfgs", 80, 838_860, BARE),  # a few bytes less than 512 MiB
        ("lbfgs", 80, 838_861, "optimizer-states"),
    ],
)
def test_the_history_of_lbfgs(tmp_path: Path, name: str, pairs: int, parameters: int, found: str) -> None:
    lines = (f"net of {parameters:,} parameters", "round 1 loss 4.8")
    said = diagnosed(tmp_path, FIT.format(name=name, pairs=pairs), *lines)["diagnoses"][0]
    assert said["cause"] == found
    if found != BARE:
        assert "2 x 80 x 838,861 parameters x 4 bytes = 512 MiB when it is full" in said["explanation"]
        history, optimizer = (
            one for one in said["remedies"] if one["knob"] in ("smaller-buffers", "low-memory-optimizer")
        )
        assert (history["setting"], history["suggested"]) == ("--history-size", 10)
        assert history["derivation"].endswith("SciPy's default (maxcor)")
        assert (optimizer["setting"], optimizer["suggested"]) == ("--optimizer", "adam")


@pytest.mark.parametrize(
    ("dtype", "pairs", "found"),
    [
        ("float64", 40, "optimizer-states"),
        ("float64", 39, BARE),
        ("float32", 40, BARE),
        ("float32", 80, "optimizer-states"),
    ],
)
def test_a_history_of_numbers_twice_as_wide(tmp_path: Path, dtype: str, pairs: int, found: str) -> None:
    command = f"{FIT.format(name='lbfgs', pairs=pairs)} --dtype {dtype}"
    said = diagnosed(tmp_path, command, "net of 838,861 parameters", "round 1 loss 4.8")["diagnoses"][0]
    assert said["cause"] == found


KERNEL = """\
[  912.204110] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[  912.204180] memory: usage 1048576kB, limit 1048576kB, failcnt 12
[  912.204190] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[  912.204200] [   4410]     0  4410   580506   258048  4231168        0             0 python
[  912.204210] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,oom_memcg=/box,task=python,pid=4410,uid=0
[  912.204220] Memory cgroup out of memory: Killed process 4410 (python) total-vm:2322024kB, anon-rss:1032192kB
"""


@pytest.mark.parametrize(
    ("name", "parameters", "found"),
    [
        ("lbfgs", 1_677_722, "optimizer-states"),  # just more than the limit of 1 GiB
        ("lbfgs", 1_677_721, "container-limit"),
        ("adam", 1_677_722, "container-limit"),
    ],
)
def test_a_history_beyond_the_limit_that_was_hit(tmp_path: Path, name: str, parameters: int, found: str) -> None:
    (tmp_path / "kernel.log").write_text(KERNEL, encoding="utf-8")
    job = (
        f"+ {FIT.format(name=name, pairs=80)}\nnet of {parameters:,} parameters\nround 1 loss 4.8\n"
        f"job.sh: line 3:     4 Killed                  {FIT.format(name=name, pairs=80)}\nexit code: 137\n"
    )
    (tmp_path / "job.log").write_text(job, encoding="utf-8")
    report = oomdoctor.diagnose(tmp_path / "job.log", tmp_path / "kernel.log").as_json()
    first = report["diagnoses"][0]
    assert first["cause"] in ({found} if found == "optimizer-states" else {found, "process-ram-hog"})
    assert ("L-BFGS" in first["explanation"]) is (found == "optimizer-states")


@pytest.mark.parametrize(
    ("command", "lines", "suggested"),
    [
        ("--window 400", ("step 1 ok", "step 2 ok"), 100),  # so few are a start
        ("--window 400", ("step 10 ok", "step 20 ok", "step 30 ok"), 15),
        ("--window 24", ("step 10 ok", "step 20 ok", "step 30 ok"), 6),
        ("--window-mb 400", ("step 10 ok", "step 20 ok", "step 30 ok"), 100),
        ("--window 6", ("step 10 ok", "step 20 ok", "step 30 ok"), 3),
    ],
)
def test_how_far_a_buffer_has_to_shrink(tmp_path: Path, command: str, lines: tuple[str, ...], suggested: int) -> None:
    remedies = diagnosed(tmp_path, f"python serve.py {command}", *lines)["diagnoses"][0]["remedies"]
    assert next(one["suggested"] for one in remedies if one["knob"] == "smaller-buffers") == suggested


LIMIT_OF_RANKS = (
    "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 1740800kB, limit 1740800kB, failcnt 0",
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[   4840]     0  4840  1042023   201359  2961408        0             0 python",
    "[   4841]     0  4841  1119473   218625  3579904        0             0 python",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=4841,uid=0",
    "Memory cgroup out of memory: Killed process 4841 (python) total-vm:4477892kB, anon-rss:874584kB, file-rss:0kB",
)
RANKS = "+ torchrun --standalone --nproc_per_node {} finetune.py --heatmaps true"
COUNTING = ("epoch 0 step 20/25 loss 0.5", "epoch 0: validating", "  val batch 0/375", "  val batch 70/375")


@pytest.mark.parametrize(
    ("launch", "lines", "found"),
    [
        (RANKS.format(2), COUNTING, "eval-accumulation"),
        (f"{RANKS.format(2)} --num_workers 4", COUNTING, WORKERS),
        (RANKS.format(9), COUNTING, WORKERS),  # nobody needs so many
        (RANKS.format(2), COUNTING[:1], "container-limit"),
        ("+ python finetune.py", COUNTING, WORKERS),
    ],
)
def test_ranks_that_evaluate(tmp_path: Path, launch: str, lines: tuple[str, ...], found: str) -> None:
    (tmp_path / "job.log").write_text("\n".join((launch, *lines, *LIMIT_OF_RANKS, "")), encoding="utf-8")
    first = oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]
    assert first["cause"] == found
    if found == "eval-accumulation":
        assert first["remedies"][0]["action"] == "Set --heatmaps from True to False"


LOADED = "Loading weights: 100%|##########| 20/20 [00:00<00:00, 7077.80it/s]"
ANSWERS = tuple(f"batch {n} of 18, {8 * n} answers, 320 tokens" for n in range(1, 5))
SCORES = '  "output_scores": true,'


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((LOADED,), "host-model-load"),
        ((LOADED, *ANSWERS), BARE),  # loading is over
        ((LOADED, SCORES, *ANSWERS), "eval-accumulation"),
        ((LOADED, SCORES.replace("true", "false"), *ANSWERS), BARE),
        ((LOADED, SCORES, ANSWERS[0]), BARE),
    ],
)
def test_what_is_kept_of_each_answer(tmp_path: Path, lines: tuple[str, ...], found: str) -> None:
    report = diagnosed(tmp_path, "python calibrate.py --top-logprobs 0 --batch 8", *lines)["diagnoses"][0]
    assert report["cause"] == found
    if found == "eval-accumulation":
        assert report["remedies"][0]["snippet"] == "--top-logprobs 64"
