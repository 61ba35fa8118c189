"""Small jobs on the CPU: what has no object goes behind, and what the job itself offers goes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import crashes_of, kill

import oomdoctor
from oomdoctor.remedies.inputs import names_no_batch
from oomdoctor.signs.growing_caches import cache_of_items

RUN = "+ python -u {options}\n{prints}run.sh: line 2:    71 Killed                  python -u {options}\n"
GRAPH = "jax 0.7.1 on cpu: 52,000 vertices, 610,000 edges, 88,410 parameters\n"
STEPS = "".join(f"step {n}00 loss 2.{9 - n}1\n" for n in range(1, 5))
EPOCHS = "".join(f"epoch {n}/30 loss 0.{9 - n}12 (48.1 s)\n" for n in range(1, 4))
REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 2147483648 bytes. Error code 12 (Cannot allocate memory)\n"
)
ANSWERS = (
    "+ python answer.py --questions q.jsonl --max-tokens 4096 --threads 4\n"
    "Traceback (most recent call last):\n"
    '  File "/srv/qa/answer.py", line 61, in <module>\n'
    "    main()\n"
    '  File "/srv/qa/answer.py", line 44, in {function}\n'
    "    {call}\n"
    '  File "/srv/env/lib/python3.11/site-packages/torch/utils/_contextlib.py", line 120, in decorate_context\n'
    "    return func(*args, **kwargs)\n"
    '  File "/srv/env/lib/python3.11/site-packages/transformers/models/bert/modeling_bert.py", line 402, in forward\n'
    "    hidden = self.intermediate(hidden)\n" + REFUSED
)
FIRST = 3


def ran(options: str, prints: str = "") -> str:
    return RUN.format(options=options, prints=prints)


def remedies(path: Path, text: str) -> list[dict[str, Any]]:
    (path / "job.log").write_text(text)
    first = oomdoctor.diagnose(path / "job.log").as_json()["diagnoses"][0]
    found: list[dict[str, Any]] = first["remedies"]
    return found


@pytest.mark.parametrize(
    ("options", "prints", "none"),
    [
        ("gnn.py --vertices 52000 --hidden 32 --epochs 3", GRAPH, True),
        ("field.py --nx 512 --ny 512 --substeps 8", "", True),
        ("gnn.py --vertices 52000 --hidden 32", GRAPH, False),
        ("gnn.py --vertices 52000 --hidden 32 --batch-size 16", GRAPH, False),
        ("gnn.py --vertices 52000 --hidden 32 --bs 16", GRAPH, False),
        ("gnn.py --vertices 52000 --hidden 32 --graphs-per-batch 4", GRAPH, False),
        ("gnn.py --vertices 52000 --hidden 32 --epochs 3", GRAPH + "12 batches an epoch\n", False),
        ("gnn.py --vertices 52000 --hidden 32 --epochs 3", GRAPH + "1,200 samples\n", False),
        ("gnn.py", GRAPH, False),
    ],
)
def test_a_whole_line_without_a_batch(options: str, prints: str, none: bool) -> None:
    assert names_no_batch(crashes_of(ran(options, prints))[0]) is none


def test_half_of_no_batch_goes_behind(tmp_path: Path) -> None:
    options = "train_gnn.py --vertices 52000 --hidden-dim 32 --epochs 3"
    knobs = [one["knob"] for one in remedies(tmp_path, ran(options, GRAPH + "train_step compiled in 2.0 s\n"))]
    assert knobs[0] != "smaller-microbatch"
    assert "smaller-microbatch" not in knobs[:FIRST]


@pytest.mark.parametrize(
    ("function", "call", "offered"),
    [
        ("main", "out = model(**inputs)", False),
        ("main", "out = encode(inputs)", False),
        ("train", "out = model(**inputs)", True),
        ("main", "loss = model(**inputs).loss", True),
    ],
)
def test_a_trainers_options_where_nothing_trains(tmp_path: Path, function: str, call: str, offered: bool) -> None:
    found = remedies(tmp_path, ANSWERS.format(function=function, call=call))
    assert any("--per_device_train_batch_size" in (one["snippet"] or "") for one in found) is offered
    assert any(one["knob"] == "gradient-checkpointing" for one in found) is offered


@pytest.mark.parametrize(
    ("file", "mapped"), [("base.pth", True), ("base.ckpt", True), ("base.safetensors", False), ("base.bin", False)]
)
def test_a_checkpoint_of_torch_is_mapped(tmp_path: Path, file: str, mapped: bool) -> None:
    found = remedies(tmp_path, ran(f"score.py --ckpt {file} --split dev", f"Loading checkpoint {file} (6.1 GB)\n"))
    assert ("mmap=True" in (found[0]["snippet"] or "")) is mapped
    assert all(one["knob"] != "clear-references" for one in found)


def test_a_switch_of_both_kinds_is_one_remedy(tmp_path: Path) -> None:
    options = "tune.py --resume last.pt --mmap-weights False --lr 0.1"
    found = remedies(tmp_path, ran(options, "Resuming from last.pt (3000 MiB)\n"))
    assert [one["snippet"] for one in found].count("--mmap-weights True") == 1


@pytest.mark.parametrize(
    ("name", "options", "first"),
    [
        ("Index.__init__", "--days 90 --window 60 --mmap False", "stream-data"),
        ("Index.__init__", "--days 90 --window 60 --mmap True", "smaller-buffers"),
        ("Index.__init__", "--days 90 --window 60 --lazy no", "stream-data"),
        ("Index.search", "--days 90 --window 60 --http-stream no", "smaller-buffers"),
    ],
)
def test_what_keeps_the_result_comes_first(tmp_path: Path, name: str, options: str, first: str) -> None:
    rows = f"2201\t52.40\tray::{name}\n4\t0.30\tpython -u index.py {options}\n"
    killed = kill(61.0, 64.0, rows).replace("LLMRayActor.__init__", name)
    found = remedies(tmp_path, f"+ python -u index.py {options}\n{killed}")
    knobs = [one["knob"] for one in found]
    assert knobs[0] == first
    assert ("clear-references" in knobs) is not name.endswith("__init__")


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ("--cache-volumes 48", 48),
        ("--cached-cases 12", 12),
        ("--cache-rate 1.0", 1.0),
        ("--cache-rate 4.0", None),
        ("--cache 1", None),
        ("--cache-volumes 1", None),
        ("--cache-dir 48", None),
        ("--kv-cache-blocks 48", None),
        ("--cache-mb 48", None),
        ("--cache-every 48", None),
        ("--cache-dtype float32", None),
        ("--prompt-cache-tokens 48", None),
        ("--volumes 48", None),
    ],
)
def test_a_cache_of_things(options: str, value: float | None) -> None:
    found = cache_of_items(crashes_of(ran(f"fit.py --lr 0.1 {options}", EPOCHS))[0])
    assert (found.value if found is not None else None) == value


@pytest.mark.parametrize(
    ("options", "snippet"),
    [
        ("--num-workers 6 --cache-cases 40 --batch-size 2", "--cache-cases 10"),
        ("--num-workers 6 --cache-cases 6 --batch-size 2", "--cache-cases 3"),
        ("--num-workers 6 --cache-rate 1.0 --batch-size 2", "--cache-rate 0.25"),
        ("--num-workers 6 --cache-dir 40 --batch-size 2", "--batch-size 1"),
    ],
)
def test_a_cache_of_each_worker_comes_before_the_batch(tmp_path: Path, options: str, snippet: str) -> None:
    found = remedies(tmp_path, ran(f"seg.py --epochs 30 {options}", EPOCHS))
    assert [one["snippet"] for one in found[:2]] == ["--num-workers 3", snippet]
    if "cache" in snippet:
        assert "each of 6 workers has one" in found[1]["derivation"]


def test_a_buffer_that_fills_comes_before_the_batch(tmp_path: Path) -> None:
    prints = "torch 2.6.0+cpu\n" + STEPS
    found = remedies(tmp_path, ran("words.py --shuffle-buffer 90000 --batch-size 64 --epochs 3", prints))
    assert [one["knob"] for one in found[:2]] == ["smaller-buffers", "smaller-microbatch"]


def test_workers_come_before_what_each_fetches_ahead(tmp_path: Path) -> None:
    died = "RuntimeError: DataLoader worker (pid 4410) is killed by signal: Killed.\n"
    run = "+ python -u asr.py --batch-size 32 {} --prefetch-factor 8\n"
    assert remedies(tmp_path, run.format("--workers 12") + died)[0]["snippet"] == "--workers 6"
    assert "--prefetch-factor 4" in [one["snippet"] for one in remedies(tmp_path, run.format("--lr 12") + died)]


def test_the_stated_number_of_points_comes_before_what_any_job_may_do(tmp_path: Path) -> None:
    killed = (
        "Memory cgroup out of memory: Killed process 71 (python) total-vm:9812344kB, anon-rss:3981220kB, "
        "file-rss:30144kB, shmem-rss:0kB, UID:0 pgtables:8400kB oom_score_adj:0\n"
    )
    for what in ("similarity matrix", "join"):
        found = remedies(tmp_path, ran("pairs.py --points 40000 --out a.npy", f"computing the {what}\n") + killed)
        assert (found[0]["knob"], found[0]["setting"]) == ("smaller-input", "--points")


@pytest.mark.parametrize(
    ("options", "prints", "offered"),
    [
        ("", "Batches:  58%|#####     | 2810/4843 [2:10:11<1:33:20,  3.63s/it]\n", False),
        ("", "Batches:   0%|          | 2/4843 [00:02<1:33:20,  3.63s/it]\n", True),
        ("", "Steps:  58%|#####     | 2810/4843 [2:10:11<1:33:20,  3.63s/it, loss=0.4]\n", True),
        (" --optimizer sgd", "Batches:  58%|#####     | 2810/4843 [2:10:11<1:33:20,  3.63s/it]\n", True),
    ],
)
def test_no_smaller_batch_behind_many_that_went_well(tmp_path: Path, options: str, prints: str, offered: bool) -> None:
    found = remedies(tmp_path, ran(f"embed.py --input a.jsonl --encode-batch 256 --device cpu{options}", prints))
    assert any(one["knob"] == "smaller-microbatch" for one in found) is offered


@pytest.mark.parametrize(
    ("options", "prints", "kept"),
    [
        ("fit.py", STEPS, True),
        ("fit.py", "step 1 loss 2.81\n", False),
        ("fit.py", "torch 2.6.0+cpu\n" + STEPS, True),
        ("fit.py --bs 8", STEPS, False),
    ],
)
def test_a_bare_kill_behind_several_steps(tmp_path: Path, options: str, prints: str, kept: bool) -> None:
    found = [one["knob"] for one in remedies(tmp_path, ran(options, prints))]
    assert ("clear-references" in found) is kept
    assert found.index("collect-evidence") < found.index("clear-references") if kept else True


def test_a_bar_in_front_of_the_report_counts(tmp_path: Path) -> None:
    bar = "  61/139 \u2501\u2501\u2501\u2501\u2501 3:12 2s/step - loss: 0.4410"
    options = "unet.py --size 512 --batch-size 16 --epochs 40"
    (tmp_path / "job.log").write_text(ran(options, f'Model: "unet", 31,031,685 params\nEpoch 1/40\n{bar}'))
    first = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    assert first["cause"] == "killed-without-evidence"


def test_who_starts_the_workers_is_none_of_them(tmp_path: Path) -> None:
    options = "seg.py --epochs 30 --num-workers 24 --batch-size 2"
    (tmp_path / "job.log").write_text(ran(options, EPOCHS))
    first = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    assert first["headline"].endswith("beside the workers that it started")
    assert "the one that starts them was killed" in first["explanation"]


BAGS = (
    "+ python bags.py --max-patches 480 --width 32 --lr 0.1\n{steps}"
    "Traceback (most recent call last):\n"
    '  File "/srv/bags.py", line 61, in <module>\n'
    "    seen = encoder(patches)\n"
    '  File "/srv/env/lib/python3.11/site-packages/torch/nn/modules/conv.py", line 560, in _conv_forward\n'
    "    return F.conv2d(\n" + REFUSED
)


def test_what_the_job_states_comes_before_what_it_may_keep(tmp_path: Path) -> None:
    found = remedies(tmp_path, BAGS.format(steps=STEPS))
    assert (found[0]["setting"], found[0]["suggested"]) == ("--max-patches", 240)
    assert found[1]["knob"] == "clear-references"


def test_whether_workers_are_kept_is_no_number_of_them(tmp_path: Path) -> None:
    prints = (
        "/srv/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py:431: UserWarning: 4 workers\n" + EPOCHS
    )
    found = remedies(tmp_path, ran("see.py --epochs 4 --workers 4 --persistent-workers", prints))
    assert (found[0]["setting"], found[0]["suggested"]) == ("--workers", 2)
