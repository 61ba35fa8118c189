"""Own ranks are no strangers: what is on the card beside this process, and how it gets a card of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise, crashes_of, cuda

from oomdoctor import diagnose
from oomdoctor.remedies.placement import launcher, launchers, own, strangers
from oomdoctor.signs.placement import own_processes, parent

ALIKE = ((4101, 6.00), (4102, 6.10), (4103, 6.05))
SPAWNED = (
    "Traceback (most recent call last):\n"
    '  File "/w/site-packages/torch/multiprocessing/spawn.py", line 76, in _wrap\n    fn(i, *args)\n'
    '  File "/w/train.py", line 12, in worker\n    model.to("cuda")\n'
)
LOCAL_RANK = 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'


def log(*others: tuple[int, float], pid: int | None = None, before: str = "", own_gib: str = "5.90 GiB") -> str:
    held = "".join(f"Process {number} has {size:.2f} GiB memory in use. " for number, size in others)
    free = 24.0 - sum(size for _, size in others) - float(own_gib.split(maxsplit=1)[0]) - 0.02
    text = cuda(tried="512.00 MiB", total="24.00 GiB", free=f"{free * 1024:.2f} MiB", own=own_gib)
    text = text.replace("Including non", f"{held}Including non")
    writer = f"(train_step pid={pid}) " if pid is not None else ""
    return before + writer + text


def pids(found: object) -> list[int]:
    return sorted(one.pid for one in found)  # type: ignore[attr-defined]


# whose they are


def test_a_row_of_one_size_is_one_launchers() -> None:
    (crash,) = crashes_of(log(*ALIKE))
    assert pids(own(crash)) == [4101, 4102, 4103]
    assert own_processes(crash) == ()  # whose launcher it was is open


def test_one_of_another_size_in_the_row_belongs_to_it() -> None:
    (crash,) = crashes_of(log((4100, 0.50), *ALIKE))
    assert pids(own(crash)) == [4100, 4101, 4102, 4103]


def test_numbers_beside_its_own_are_its_own() -> None:
    (crash,) = crashes_of(log((4101, 12.00), (4104, 0.40), pid=4107))
    assert pids(own_processes(crash)) == [4101, 4104]
    assert strangers(crash) == {}


@pytest.mark.parametrize(
    ("others", "pid"),
    [
        (((4101, 12.00),), 4102),  # one may be chance
        (((4101, 12.00), (9004, 0.40)), 4102),  # another's number
        (((101, 12.00), (9004, 5.00)), 4102),
        (((4101, 12.00), (4104, 0.40)), 9000),
        (((4101, 12.00), (4104, 0.40)), None),
        ((), 4102),
    ],
)
def test_who_is_no_own_process(others: tuple[tuple[int, float], ...], pid: int | None) -> None:
    (crash,) = crashes_of(log(*others, pid=pid))
    assert own(crash) == ()
    assert len(strangers(crash)) == len(others)


def test_contexts_are_no_ranks() -> None:
    (crash,) = crashes_of(log((4101, 0.10), (4104, 0.10), pid=4107, own_gib="20.00 GiB"))
    assert own_processes(crash) == ()


# what is advised


def test_own_ranks_get_a_card_each() -> None:
    chosen, _ = advise(log(*ALIKE), "fix-placement", "free-the-gpu", cause="device-misplacement")
    assert "PIDs 4101, 4102 and 1 other, likely of this job" in chosen["fix-placement"].action
    assert "likely of this job" in chosen["fix-placement"].action
    assert "free-the-gpu" not in chosen, "nobody is asked to end his own ranks"


def test_nobody_of_its_own_is_ended() -> None:
    before = "torchrun --nproc-per-node 4 train.py\n[rank2]: loading\n"
    chosen, rejected = advise(log((4101, 9.00), (4104, 3.40), pid=4107, before=before), "free-the-gpu", "fix-placement")
    assert list(chosen) == ["fix-placement"]
    assert not rejected


def test_workers_on_the_only_card_are_too_many() -> None:
    chosen, _ = advise(log((4101, 9.00), (4104, 3.40), pid=4107), "free-the-gpu", "clear-references")
    assert chosen["free-the-gpu"].action.startswith("Start fewer processes on this GPU; it holds PIDs 4101, 4104")
    assert "kill" not in (chosen["free-the-gpu"].snippet or "")


def test_a_stranger_is_looked_at_and_named() -> None:
    chosen, _ = advise(log((9001, 12.00), pid=4107), "free-the-gpu", "fix-placement")
    assert chosen["free-the-gpu"].snippet == "ps -o pid,user,etime,args -p 9001\n# kill 9001"
    assert "fix-placement" not in chosen


def test_of_both_only_the_stranger_is_named() -> None:
    chosen, _ = advise(log((4101, 4.00), (4104, 3.00), (90001, 6.00), pid=4107), "free-the-gpu", "clear-references")
    assert chosen["free-the-gpu"].snippet == "ps -o pid,user,etime,args -p 90001\n# kill 90001"


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("torchrun --nproc-per-node 4 train.py\n", "torchrun"),
        ("accelerate launch --num_processes 4 train.py\n", "accelerate"),
        ("srun -N 1 -n 4 python train.py\n", "slurm"),
        ("mpirun -np 4 python train.py\n", "mpi"),
        (SPAWNED, "multiprocessing"),
    ],
)
def test_the_line_is_the_launchers(before: str, name: str) -> None:
    (crash,) = crashes_of(log(*ALIKE, before=before))
    found = launcher(crash)
    assert found is not None
    assert found.name == name
    chosen, _ = advise(log(*ALIKE, before=before), "fix-placement", cause="device-misplacement")
    assert chosen["fix-placement"].snippet == found.line


def test_without_a_launcher_the_library_has_a_line() -> None:
    chosen, _ = advise(log(*ALIKE), "fix-placement", cause="device-misplacement")
    assert chosen["fix-placement"].snippet == LOCAL_RANK
    assert launcher(crashes_of(log(*ALIKE))[0]) is None


def test_every_launcher_has_a_line() -> None:
    assert all(one.line and one.shows for one in launchers())
    assert len({one.name for one in launchers()}) == len(launchers())


def test_what_relieves_the_card_stands_once(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(log((90001, 15.00)))
    (incident,) = diagnose(path).as_json()["incidents"]
    for diagnosis in incident["diagnoses"]:
        knobs = [one["knob"] for one in diagnosis["remedies"]]
        assert len(knobs) == len(set(knobs))


@pytest.mark.parametrize(("tried", "is_no_help"), [("7.00 GiB", False), ("7.20 GiB", True)])
def test_nobody_is_sent_away_where_that_would_not_be_enough(tried: str, is_no_help: bool) -> None:
    text = cuda(tried=tried, total="24.00 GiB", free="4.00 GiB", own="15.80 GiB").replace(
        "Including non-PyTorch memory, this process has 15.80 GiB memory in use. ", ""
    )
    chosen, rejected = advise(text, "free-the-gpu", "smaller-microbatch")
    assert ("free-the-gpu" in rejected) is is_no_help
    assert ("free-the-gpu" in chosen) is not is_no_help


def test_a_shared_gpu_is_freed_nonetheless() -> None:
    text = cuda(tried="20.00 GiB", total="24.00 GiB", free="0.50 GiB", own="10.00 GiB").replace(
        "Including non-PyTorch memory, this process has 10.00 GiB memory in use. ", ""
    )
    chosen, _ = advise(text, "free-the-gpu", cause="gpu-shared")
    assert "free-the-gpu" in chosen


ELSEWHERE = (
    "INFO 05-02 08:11:31 model_runner.py:1070] Loading model weights took {size} GB\n"
    "AssertionError: Error in memory profiling. Initial free memory 71000000000, current free memory 71000000000.\n"
)
SWIFT = '  File "/srv/swift/trainers/rlhf_trainer/grpo_trainer.py", line 88, in __init__\n'
TRL = '  File "/env/site-packages/trl/trainer/grpo_trainer.py", line 310, in __init__\n'


@pytest.mark.parametrize(
    ("above", "begins", "line"),
    [
        (
            SWIFT,
            "Give the engine",
            "env NPROC_PER_NODE=N swift rlhf ... --vllm_device auto   # N: one less than the GPUs",
        ),
        (
            TRL,
            "Give the engine",
            "accelerate launch --num_processes N ... --vllm_device auto   # N: one less than the GPUs",
        ),
        ("pip: trl==0.21.0 is there\n" + TRL, "Give the engine", None),
        ("", "Start this process on a free GPU", "export CUDA_VISIBLE_DEVICES=N   # its number"),
    ],
)
def test_an_engine_whose_weights_are_elsewhere_gets_a_gpu(above: str, begins: str, line: str | None) -> None:
    chosen = advise(above + ELSEWHERE.format(size="0.0000"), "fix-placement", cause="device-misplacement")[0]
    assert chosen["fix-placement"].action.startswith(begins)
    assert chosen["fix-placement"].snippet == line


@pytest.mark.parametrize("above", [SWIFT, TRL, ""])
def test_an_engine_with_its_weights_places_its_own_ranks(above: str) -> None:
    assert not advise(above + ELSEWHERE.format(size="0.4100"), "fix-placement", cause="device-misplacement")[0]


def test_a_shell_has_no_rank() -> None:
    said = "[rank3]: terminate called after throwing an instance of 'c10::Error'\nCUDA error: out of memory\n"
    chosen = advise(said, "fix-placement", cause="device-misplacement")[0]
    assert "CUDA_VISIBLE_DEVICES=" not in (chosen["fix-placement"].snippet or "")


# who started the process that failed

ENGINE = (
    "(Trainer pid={pid}) [2026-01-02 10:00:00] Received sigquit from a child process. It usually means the child "
    "failed.\n"
)


def of_a_child(other: int, *more: tuple[int, float], writer: int = 4107) -> str:
    own_gib = f"{17.9 - sum(size for _, size in more):.2f} GiB"
    told = log((other, 6.00), *more, pid=writer, own_gib=own_gib).replace("train_step", "Trainer")
    return told + ENGINE.format(pid=writer)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (of_a_child(4107), 4107),
        (of_a_child(4107, (90001, 2.00)), 4107),
        (of_a_child(4100), None),
        (of_a_child(4107).replace("pid=", "worker "), None),
        (
            of_a_child(4107).replace("Including non-PyTorch memory, this process has 17.90 GiB memory in use. ", ""),
            None,
        ),
    ],
)
def test_who_wrote_the_message_and_is_listed_there_has_started_the_one_that_failed(text: str, found: int) -> None:
    one = parent(crashes_of(text)[0])
    assert (one.pid if one is not None else None) == found


def test_a_parent_and_its_child_share_a_gpu_by_design() -> None:
    chosen, _ = advise(of_a_child(4107), "fix-placement", "free-the-gpu", "separate-placement", cause="gpu-shared")
    assert set(chosen) <= {"separate-placement"}


def test_of_a_parent_and_workers_the_workers_are_too_many() -> None:
    crowded = of_a_child(4107, (4104, 3.00), (4101, 3.00))
    chosen, _ = advise(crowded, "free-the-gpu", "clear-references", cause="gpu-shared")
    assert chosen["free-the-gpu"].action.startswith("Start fewer processes")


def test_of_a_parent_and_a_stranger_the_stranger_is_looked_at() -> None:
    chosen, _ = advise(of_a_child(4107, (90001, 2.00)), "free-the-gpu", cause="gpu-shared")
    assert chosen["free-the-gpu"].snippet == "ps -o pid,user,etime,args -p 90001\n# kill 90001"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (of_a_child(4107), "Trainer (PID 4107) holds 6.00 GiB of 24.00 GiB on GPU 0, where its child failed ("),
        (of_a_child(90001), "PID 90001 holds 6.00 GiB of 24.00 GiB"),
        (of_a_child(4107, (90001, 2.00)), "Other processes hold 8.00 GiB of 24.00 GiB"),
    ],
)
def test_the_headline_names_the_parent(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(text)
    first = diagnose(path).as_json()["diagnoses"][0]
    assert first["headline"].startswith(told)
    assert ("PID 4107 is the parent process" in first["explanation"]) == ("Process 4107 has" in text)


# Ranks that are apart already

APART = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB (GPU {}; 47.54 GiB total capacity; "
    "7.{}0 GiB already allocated; 12.00 MiB free; 7.90 GiB reserved in total by PyTorch)\n"
)


@pytest.mark.parametrize(
    ("mask", "gpus", "told"),
    [
        ("", (0,), "LOCAL_RANK"),
        ("", (0, 0), "LOCAL_RANK"),
        ("", (0, 1), "GPU 0 and GPU 1"),
        ("CUDA_VISIBLE_DEVICES=5,2 ", (0, 1), "GPU 5 and GPU 2"),
        ("CUDA_VISIBLE_DEVICES=5 ", (0, 1), "GPU 0 and GPU 1"),  # of another process
        ("CUDA_VISIBLE_DEVICES=GPU-8f1,MIG-2 ", (0, 1), "GPU 0 and GPU 1"),
    ],
)
def test_who_is_on_a_gpu_of_its_own_goes_to_a_free_one(mask: str, gpus: tuple[int, ...], told: str) -> None:
    refused = "".join(APART.format(gpu, place) for place, gpu in enumerate(gpus))
    knob = "fix-placement"
    found = advise(f"{mask}torchrun --nproc_per_node 2 fit.py\n{refused}", knob, cause="gpu-shared")[0][knob]
    assert told in found.action
