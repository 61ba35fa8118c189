"""What is advised of any job is left out where nothing in the log speaks for it."""

from __future__ import annotations

import pytest
from remedy_logs import advise, crashes_of, cuda, kill

from oomdoctor.remedies.backfill import EVIDENCE, enough_remedies

BATCH, SIZE = "smaller-microbatch", "smaller-input"
WORKERS = "fewer-workers"


@pytest.mark.parametrize(
    ("log", "batches"),
    [
        ("gridsolve: step()\ngridsolve: CUDA error 2: out of memory\n", False),
        ("field.cu: Cuda error out of memory\n", False),
        ("Error: Failed to allocate 512x300x768 GPU buffer: out of memory\n", False),
        ("epoch 3\ncore: CUDA error 2: out of memory\n", True),
        ("core: batch 7 of 9\ncore: CUDA error 2: out of memory\n", True),
        ("reading the network\ncore: CUDA error 2: out of memory\n", True),
        ("libtorch_cuda.so\ncore: CUDA error 2: out of memory\n", True),
        (cuda(), True),
    ],
)
def test_a_program_of_which_nothing_is_known_has_no_batches(log: str, batches: bool) -> None:
    chosen = advise(log, BATCH, SIZE, cause="gpu-memory-exhausted")[0]
    assert (BATCH in chosen) is batches
    if not batches:
        assert chosen[SIZE].action.startswith("Compute a smaller problem")


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("loss = loss_of(spectrogram)", "Compute shorter pieces of audio at once"),
        ("y = load('song.wav')", "Compute shorter pieces of audio at once"),
        ("y = load('film.mp4', audio=True)", "Make each input smaller"),
        ("y = self.step(x)", "Make each input smaller"),
        ("y = self.auditor(x)", "Make each input smaller"),
    ],
)
def test_an_input_is_called_what_it_is(line: str, action: str) -> None:
    log = f'Traceback (most recent call last):\n  File "/x/run.py", line 3, in run\n    {line}\n{cuda()}'
    assert advise(log, SIZE, cause="gpu-memory-exhausted")[0][SIZE].action.startswith(action)


def test_a_text_is_no_picture() -> None:
    log = f'Traceback (most recent call last):\n  File "/x/chatglm/run.py", line 3, in run\n    y = step(x)\n{cuda()}'
    assert SIZE not in advise(log, SIZE, cause="gpu-memory-exhausted")[0]


@pytest.mark.parametrize(("above", "count"), [("", 1), ("step 12 loss: 2.3145\n", 3), ("step 12 done\n", 1)])
def test_only_who_learns_is_told_what_any_such_job_can_do(above: str, count: int) -> None:
    crash = crashes_of(above + "RuntimeError: CUDA error: out of memory\n")[0]
    assert len(enough_remedies("gpu-memory-exhausted", ("free-the-gpu",), crash)[0]) == count


def test_what_only_records_is_left_out_beside_what_helps() -> None:
    crash = crashes_of("gridsolve: CUDA error 2: out of memory\n")[0]
    knobs = ("free-the-gpu", EVIDENCE)
    assert [one.knob for one in enough_remedies("gpu-memory-exhausted", knobs, crash)[0]] == ["free-the-gpu"]
    assert [one.knob for one in enough_remedies("gpu-memory-exhausted", (EVIDENCE,), crash)[0]] == [EVIDENCE]


TABLE = "".join(f"{4000 + n}\t{size}\tray::Roller.run\n" for n, size in enumerate(("9.10", "8.90", "8.80")))


@pytest.mark.parametrize(
    ("held", "rows", "fewer"), [("0.08GB", "", False), ("8.80GB", "", True), ("0.08GB", TABLE, True)]
)
def test_fewer_of_those_that_hold_nothing_free_nothing(held: str, rows: str, fewer: bool) -> None:
    log = kill(60.0, 62.0, rows).replace("8.80GB", held).replace("LLMRayActor", "Roller")
    assert (WORKERS in advise(log, WORKERS, cause="host-memory-exhausted")[0]) is fewer


def free(*used: int) -> str:
    """What `free` prints now and then, until the shell says that the job was killed."""
    return "".join(f"Mem:  100000  {size}  {99000 - size}  0  1000  {100000 - size}\n" for size in used) + "Killed\n"


def test_a_jump_is_looked_for_in_the_next_run_first() -> None:
    at_once, steadily = free(3_000, 6_000, 10_000, 95_000), free(20_000, 40_000, 62_000, 94_000)
    firsts = [
        enough_remedies("dataset-in-ram", (EVIDENCE, "stream-data"), crashes_of(log)[0])[0][0].snippet
        for log in (at_once, steadily)
    ]
    assert [first == "oomdoctor run -- COMMAND" for first in firsts] == [True, False]


@pytest.mark.parametrize(("steps", "grows"), [(0, False), (6, True)])
def test_one_look_at_a_process_shows_no_growth(steps: int, *, grows: bool) -> None:
    prints = "".join(f"[step {n}] memory used = {30 * n + 20:.2f} GiB\n" for n in range(steps))
    log = prints + kill(239.0, 251.5, "900\t200.00\tray::Sweep.run\n")
    action = advise(log, "clear-references", cause="process-ram-hog")[0]["clear-references"].action
    assert action.startswith("Drop references" if grows else "If it grows")


@pytest.mark.parametrize(("bound", "grows"), [("0", True), ("90000", False)])
def test_a_cache_that_has_no_bound_grows(bound: str, *, grows: bool) -> None:
    prints = "".join(f"request {n}: cache {400 * n + 20} items\n" for n in range(1, 6))
    log = f"+ python serve.py --cache-max-items {bound}\n{prints}" + kill(239.0, 251.5, "900\t200.00\tray::Sweep.run\n")
    action = advise(log, "clear-references", cause="process-ram-hog")[0]["clear-references"].action
    assert action.startswith("Drop references" if grows else "If it grows")
