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


def test_not_a_matrix_of_all_pairs() -> None:
    assert says(CAUSE, numpy("335. GiB", "(300000, 300000)")) is None


def test_not_a_volume() -> None:
    assert says(CAUSE, numpy("2.40 GiB", "(684, 684, 688)")) is None


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
