"""What programs say of their batches in sentences, in calls and by launchers of MPI."""

from __future__ import annotations

import pytest

from oomdoctor import streams
from oomdoctor.job.context import ContextBuilder
from oomdoctor.job.model import Setting


def read(log: str) -> dict[str, Setting]:
    builder = ContextBuilder()
    builder.add(streams.page("job.log", 1, log.encode()))
    return dict(builder.build().settings)


# near misses


@pytest.mark.parametrize(
    "line",
    [
        "batch size 8.5 GiB",
        "the batch size 32x32 is that of a tile",
        "Try a batch size of 4.",
        "Consider batch size = 2",
        "batch sizes 8",
        "minibatch size unknown",
        "batches of sizes 3 and 4",
        "my-batch size: 3",
        "batch size: 0",
        "batch size / 2 = 8 GB",
        "vLLM generating sequences with batch size 1024",
        "rollout with a batch size of 64",
    ],
)
def test_what_states_no_size_of_a_batch(line: str) -> None:
    assert not {name for name in read(line) if "batch size" in name}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Total batch size = 96", "total batch size"),
        ("global batch size: 512", "global batch size"),
        ("effective batch size 64", "effective batch size"),
        ("eval batch size = 3", "eval batch size"),
    ],
)
def test_what_is_another_batch_has_another_name(line: str, name: str) -> None:
    assert [one for one in read(line) if "batch size" in one] == [name]


@pytest.mark.parametrize(
    ("line", "name", "size"),
    [
        ("Sorted 40 train batches of size 24 in 9.1 sec", "batch size", 24),
        ("O^O/ Batch size per device = 3 | Gradient Accumulation steps = 5", "batch size per device", 3),
        ("  Instantaneous batch size per device = 6", "batch size per device", 6),
        ("  batch size per device / \u30d0\u30c3\u30c1\u30b5\u30a4\u30ba: 7", "batch size per device", 7),
        ("using a batch size of 12 on each rank", "batch size", 12),
        ("[info] training batch size: 20", "batch size", 20),
        ("mini-batch size is 9", "batch size", 9),
    ],
)
def test_what_states_one(line: str, name: str, size: int) -> None:
    assert read(line)[name].value == size


@pytest.mark.parametrize("words", ["Gradient Accumulation steps = 5", "gradient accumulation steps / \u7d2f\u7a4d = 5"])
def test_how_often_gradients_are_added_up(words: str) -> None:
    assert read(f"num epochs = 2\n{words}")["gradient_accumulation_steps"].value == 5


# calls


@pytest.mark.parametrize(
    "line",
    [
        "INFO (batch_size=8, num_workers=4)",
        "Namespace(batch_size=8, num_workers=4)",
        "SFTConfig(batch_size=8, num_workers=4)",
        "load(x) batch_size=8, y",
        "load(batch_size: 8, num_workers: 4)",
        "(pid=3) batch_size=8)",
        "batch_size=8)",
    ],
)
def test_what_is_no_call_of_the_jobs_own(line: str) -> None:
    assert not [one for one in read(line).values() if one.call is not None]


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("dl = make_loaders(root, batch_size=8, num_workers=4)", "make_loaders"),
        ("dl = data.loaders(size(3), batch_size=8)", "data.loaders"),
        ("    dl = DataLoader(dataset, batch_size=8, shuffle=True)", "DataLoader"),
    ],
)
def test_the_call_that_takes_an_argument(line: str, call: str) -> None:
    assert read(line)["batch_size"].call == call


# launchers of MPI


@pytest.mark.parametrize(
    "line",
    [
        "mpirun noticed that process rank 3 exited on signal 9",
        "mpirun ./solver -n 64",
        "see mpirun -n for help",
        "mpirun -n",
        "srun -N 4 ./solver",
        "tail -n 64 run.log",
        "mpirun -n 0 ./solver",
    ],
)
def test_what_starts_no_number_of_processes(line: str) -> None:
    assert not [name for name in read(line) if name.endswith(" processes")]


@pytest.mark.parametrize(
    ("line", "name", "written", "count"),
    [
        ("mpirun -n 48 ./solver -p 2", "mpirun processes", "mpirun -n ", 48),
        ("$ mpirun --bind-to core -np 6 ./solver", "mpirun processes", "mpirun --bind-to core -np ", 6),
        ("srun --mem=8G -n 12 python fit.py", "srun processes", "srun --mem=8G -n ", 12),
        ("horovodrun -np 4 python fit.py", "horovodrun processes", "horovodrun -np ", 4),
    ],
)
def test_how_many_a_launcher_starts(line: str, name: str, written: str, count: int) -> None:
    found = read(line)[name]
    assert (found.value, found.written) == (count, written)


# beside advice

TRIAL = "Trial 4 failed with parameters: {{'learning_rate': 2e-05, '{}': 6}} because of: OutOfMemoryError('CUDA out of "
HINT = (
    "memory. Tried to allocate 36.00 MiB. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation')"
)


@pytest.mark.parametrize("name", ["per_device_train_batch_size", "num_workers", "max_seq_length"])
@pytest.mark.parametrize("hint", [HINT, "memory. Please reduce the batch size, e.g. batch_size=2')"])
def test_what_stands_in_a_dict_before_advice_is_set(name: str, hint: str) -> None:
    found = read(TRIAL.format(name) + hint)
    assert {each: setting.value for each, setting in found.items()} == {name: 6}


def test_what_stands_behind_the_allocators_hint_is_set() -> None:
    assert read(f"{HINT}; batch_size=6, num_workers=2")["num_workers"].value == 2


@pytest.mark.parametrize(
    "line",
    [
        HINT,
        HINT.partition("memory is large ")[2],
        "Try parameters: {'num_workers': 6}",
        "num_workers=6 is what we recommend",
        "Error: memory. Please consider {'num_workers': 6}",
    ],
)
def test_what_is_advised_is_not_set(line: str) -> None:
    assert not read(line)
