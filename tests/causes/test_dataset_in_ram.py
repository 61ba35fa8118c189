from __future__ import annotations

from gpu_logs import FORWARD, finding, frame, ranking, refused, says, trace
from host_logs import TRAINERS, kill

from oomdoctor.causes.dataset_in_ram import CAUSE
from oomdoctor.signs import Grade

REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] data. DefaultCPUAllocator: not enough memory: you tried "
    "to allocate 20401094656 bytes."
)


def test_not_a_forward_pass_on_the_cpu() -> None:
    assert says(CAUSE, *trace(FORWARD), REFUSED) is None


def test_not_the_card() -> None:
    assert says(CAUSE, *trace(FORWARD), refused()) is None


def test_not_a_kill_in_training() -> None:
    assert says(CAUSE, "step 14 loss 0.7", *kill(*TRAINERS)) is None


def test_a_cache_with_its_size() -> None:
    lines = (
        "train: Caching images (41.2GB ram):  64%|██████▍   | 19204/30006 [04:40<02:37, 68.52it/s]",
        (
            "cv2.error: OpenCV(4.9.0) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate 12582912 "
            "bytes in function 'cv::OutOfMemoryError'"
        ),
    )
    assert finding(CAUSE, *lines).why == (
        "41.2 GB of data was cached in memory when the next allocation failed. All of it takes about 64.4 GB: "
        "41.2 / 19204 x 30006."
    )
    assert ranking(*lines)[0] == "dataset-in-ram"


def test_tokenising() -> None:
    found = finding(
        CAUSE, "Running tokenizer on dataset (num_proc=64):  71%|███████  | 63900/90000 [01:10<00:28]", *kill()
    )
    assert found.stage == "data_load"


def test_reading_a_table() -> None:
    lines = (
        "Traceback (most recent call last):",
        *frame("pandas/io/parsers/readers.py", "read_csv", "return _read("),
        REFUSED,
    )
    assert "19.00 GiB requested" in finding(CAUSE, *lines).why


def numpy(size: str, shape: str) -> str:
    return f"numpy.core._exceptions.MemoryError: Unable to allocate {size} for an array with shape {shape}"


def test_an_array_that_no_frame_tells_of_is_data_at_a_guess() -> None:
    for size, shape in (("335. GiB", "(300000, 300000)"), ("2.40 GiB", "(684, 684, 688)")):
        assert finding(CAUSE, numpy(size, shape)).grade is Grade.HINTS


def test_not_a_small_array() -> None:
    assert says(CAUSE, numpy("922. MiB", "(11000, 11000)")) is None


def test_not_a_tensor() -> None:
    words = "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate {} bytes."
    assert says(CAUSE, words.format(9663676416)) is None


def test_a_dense_table_of_samples_and_features() -> None:
    line = numpy("412. GiB", "(2211840, 25000)")
    assert finding(CAUSE, line).grade is Grade.POINTS
    assert ranking(line)[0] == "dataset-in-ram"


def test_a_frame_that_makes_a_dataset_beside_one_that_reads_a_file() -> None:
    made = ("app/prepare.py", "main", "rows = load_dataset(path)")
    assert "while data was loaded or tokenized (19.00 GiB requested)" in finding(CAUSE, *trace(made), REFUSED).why
    held = ("pandas/core/frame.py", "_ensure_valid_index", "self._mgr = mgr")
    assert "reading data (_ensure_valid_index) (19.00 GiB" in finding(CAUSE, *trace(held), REFUSED).why
    assert says(CAUSE, *trace(("app/prepare.py", "main", "rows = json.load(file)")), REFUSED) is None


FULL = "train: Caching images (27.5GB RAM): 100%|██████████| 20110/20110 [02:11<00:00, 153.1it/s]"
RANK_DIED = "E0301 02:11:07.912000 60 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) {}"


def test_a_kill_without_a_reason_proves_no_full_memory() -> None:
    found = finding(CAUSE, FULL, RANK_DIED.format("local_rank: 1 (pid: 71) of binary: /usr/bin/python3"))
    assert found.why == "27.5 GB of data was cached in memory before the process died."
    assert found.unsure
    assert found.next_evidence


def test_a_kill_for_memory_is_no_failed_allocation() -> None:
    found = finding(CAUSE, FULL, *kill(*TRAINERS))
    assert found.why == "27.5 GB of data was cached in memory when memory ran out."
    assert not found.unsure
    assert not found.next_evidence


def test_a_refused_allocation_is_sure() -> None:
    found = finding(CAUSE, FULL, REFUSED)
    assert found.why == "27.5 GB of data was cached in memory when the next allocation failed."
    assert not found.unsure


def test_what_was_cached_is_not_made_smaller_by_batches() -> None:
    assert "smaller-microbatch" not in finding(CAUSE, FULL, REFUSED).knobs
    assert "smaller-microbatch" in finding(CAUSE, "Running tokenizer on dataset:  71%|███ | 63/90", *kill()).knobs


def memory(*used: int) -> list[str]:
    return [f"Mem:  100000  {size}  {99000 - size}  0  1000  {100000 - size}" for size in used]


def test_memory_that_comes_at_once_is_no_leak() -> None:
    at_once = (*memory(3_000, 6_000, 10_000, 95_000), "Killed")
    assert "a jump, no slow growth" in finding(CAUSE, *at_once).why
    assert ranking(*at_once)[0] == "dataset-in-ram"
    steadily = (*memory(20_000, 40_000, 62_000, 94_000), "Killed")
    assert says(CAUSE, *steadily) is None
    assert ranking(*steadily)[0] == "host-memory-leak"
