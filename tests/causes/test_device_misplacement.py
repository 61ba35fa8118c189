from __future__ import annotations

from gpu_logs import LOADING, finding, ranking, refused, says, trace

from oomdoctor.causes.device_misplacement import CAUSE
from oomdoctor.signs import Grade


def test_not_strangers_of_different_sizes() -> None:
    assert (
        says(CAUSE, refused(own="30.00 GiB", allocated="28.00 GiB", others=((11, "40.10 GiB"), (12, "8.40 GiB"))))
        is None
    )


def test_not_gpu_0_on_every_rank() -> None:
    lines = [f"[rank{rank}]: {refused()}" for rank in range(3)]
    assert says(CAUSE, *lines) is None


def test_not_an_ordinary_load() -> None:
    assert says(CAUSE, *trace(LOADING), refused()) is None


def test_not_one_process_per_card_in_the_table() -> None:
    rows = [
        f"|    {gpu}   N/A  N/A     {9000 + gpu}      C   python                          40000MiB |"
        for gpu in range(3)
    ]
    assert says(CAUSE, *rows, refused()) is None


def test_torch_load_restores_every_rank_to_the_card_it_was_saved_from() -> None:
    load = (
        ("app/main.py", "load", "optimizer.load_state_dict(torch.load(path))"),
        ("torch/serialization.py", "default_restore_location", "result = fn(storage, location)"),
        ("torch/serialization.py", "_cuda_deserialize", "return storage_type(obj.size())"),
    )
    lines = (*trace(*load), refused(own="2.00 GiB", allocated="1.00 GiB", others=((31, "76.80 GiB"),)))
    several = ("torchrun --nproc-per-node 8 main.py", *lines)
    assert finding(CAUSE, *several).grade == Grade.PROVES
    assert ranking(*several)[0] == "device-misplacement"
    assert finding(CAUSE, *lines).grade == Grade.NAMES  # the other may be anybody's


def test_the_jobs_own_ranks_on_the_card_of_another() -> None:
    lines = (
        "(Worker pid=501) " + refused(own="39.00 GiB", allocated="37.00 GiB", others=((502, "39.70 GiB"),)),
        "(Worker pid=502) " + refused(own="39.70 GiB", allocated="38.00 GiB", others=((501, "39.00 GiB"),)),
    )
    found = finding(CAUSE, *lines)
    assert "PID 502" in found.why
    assert ranking(*lines)[0] == "device-misplacement"


def test_several_of_one_size_look_like_ranks() -> None:
    for apart, grade in ((1, Grade.NAMES), (100, Grade.POINTS)):
        others = ((21, "19.50 GiB"), (21 + apart, "19.60 GiB"), (21 + 2 * apart, "19.40 GiB"))
        found = finding(CAUSE, refused(own="19.70 GiB", allocated="18.00 GiB", others=others))
        assert found.grade == grade


def test_a_rank_that_has_opened_its_neighbours_card() -> None:
    rows = (
        "|    0     61877      C   python                                      4917MiB |",
        "|    0     61878      C   python                                       731MiB |",
        "|    1     61878      C   python                                      4917MiB |",
        "RuntimeError: CUDA error: out of memory",
    )
    assert "61878" in finding(CAUSE, *rows).why


def test_a_bare_refusal_in_torch_load_without_ranks_is_a_load_first() -> None:
    load = (
        ("torch/serialization.py", "default_restore_location", "result = fn(storage, location)"),
        ("torch/serialization.py", "_cuda_deserialize", "return storage_type(obj.size())"),
    )
    bare = (*trace(*load), "RuntimeError: CUDA error: out of memory")
    assert ranking(*bare)[0] == "checkpoint-spike"
    assert ranking("torchrun --nproc_per_node 4 train.py", *bare)[0] == "device-misplacement"
