from __future__ import annotations

from gpu_logs import finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.gpu_shared import CAUSE
from oomdoctor.signs import Grade


def test_not_a_process_that_is_this_one_itself() -> None:
    line = refused(own=None, others=((214, "78.82 GiB"),))
    assert "other processes hold" in ruled_out(CAUSE, line)


def test_not_a_card_that_this_process_fills() -> None:
    assert "(0%)" in ruled_out(CAUSE, refused())


def test_not_the_context_of_old_messages() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 23.69 GiB total capacity; 21.20 GiB "
        "already allocated; 310.00 MiB free; 22.30 GiB reserved in total by PyTorch)"
    )
    assert "GiB" in ruled_out(CAUSE, line)


def test_not_what_wsl_makes_up() -> None:
    line = refused(total="31.84 GiB", free="0 bytes", own="17179869184.00 GiB", allocated="52.93 GiB")
    assert says(CAUSE, line) is None


def test_a_small_neighbour_is_no_more_than_a_hint() -> None:
    found = finding(CAUSE, refused(own="68.00 GiB", allocated="66.00 GiB", others=((77, "10.60 GiB"),)))
    assert found.grade == Grade.HINTS


def test_listed_processes_that_hold_most_of_it_decide() -> None:
    found = finding(
        CAUSE, refused(own="30.00 GiB", allocated="28.00 GiB", others=((51230, "40.10 GiB"), (51988, "8.40 GiB")))
    )
    assert found.grade == Grade.PROVES
    assert "48.50 GiB" in found.why
    assert "51230, 51988" in found.why


def test_processes_of_other_containers_are_found_by_subtraction() -> None:
    found = finding(CAUSE, refused(own="40.00 GiB", allocated="38.00 GiB"))
    assert found.grade == Grade.PROVES
    assert "nothing that is listed here" in found.why


def test_old_messages_show_it_by_subtraction() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.70 GiB total capacity; 1.21 GiB "
        "already allocated; 6.69 MiB free; 1.22 GiB reserved in total by PyTorch)"
    )
    assert ranking(line)[0] == "gpu-shared"


def test_an_engine_that_has_loaded_nothing_finds_the_card_taken() -> None:
    line = (
        "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization "
        "(0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    found = finding(CAUSE, line)
    assert "15.94 GiB of 47.38 GiB" in found.why


def test_a_refusal_of_the_first_touch_without_figures() -> None:
    moving = trace(("torch/nn/modules/module.py", "convert", "return t.to(device, dtype, non_blocking)"))
    assert finding(CAUSE, *moving, "RuntimeError: CUDA error: out of memory").grade == Grade.POINTS


def dump(limit: int) -> tuple[str, ...]:
    return (
        "I tensorflow/core/common_runtime/bfc_allocator.cc:980] Bin for 512.00MiB was 256.00MiB, Chunk State:",
        "I tensorflow/core/common_runtime/bfc_allocator.cc:1016] Sum Total of in-use chunks: 1.2KiB",
        f"I bfc_allocator.cc:1018] total_region_allocated_bytes_: 62914560 memory_limit_: {limit} available bytes: 0",
    )


def test_not_a_pool_of_tensorflow_that_has_the_card() -> None:
    assert says(CAUSE, *dump(11330115994)) is None


def test_a_pool_of_tensorflow_that_found_nearly_nothing_free() -> None:
    assert "200 MiB" in finding(CAUSE, *dump(209715200)).why
    assert ranking(*dump(209715200))[0] == "gpu-shared"


def test_no_array_is_too_large_for_a_limit_that_is_no_cards() -> None:
    def at(limit: int) -> tuple[str, ...]:
        stats = ("Stats: ", f"Limit:     {limit}", "InUse:     7340032", "MaxInUse:  7340032", "")
        return (
            *stats,
            "W op_kernel.cc:1295] Resource exhausted: OOM when allocating tensor of shape [2,500,600,3] and type float",
        )

    assert ranking(*at(9437184))[0] == "gpu-shared"
    assert "activations" not in ranking(*at(9437184))
    assert ranking(*at(11330115994))[0] == "activations"


def test_not_where_the_request_fits_on_no_card_of_this_size() -> None:
    others = ((331, "30.00 GiB"), (912, "12.00 GiB"))
    assert "more than the whole GPU has" in ruled_out(
        CAUSE, refused(tried="91.50 GiB", own="20.00 GiB", allocated="18.00 GiB", others=others)
    )
    assert "48.00 GiB held by this process" in ruled_out(
        CAUSE, refused(tried="40.00 GiB", own="50.00 GiB", allocated="48.00 GiB", others=((331, "25.00 GiB"),))
    )


def test_neighbours_count_where_the_request_would_fit_without_them() -> None:
    line = refused(tried="40.00 GiB", own="20.00 GiB", allocated="18.00 GiB", others=((331, "45.00 GiB"),))
    assert finding(CAUSE, line).grade == Grade.PROVES


MEETING = trace(
    ("app/run.py", "main", "trainer.initialize()"),
    ("torch/distributed/distributed_c10d.py", "barrier", "work = group.barrier(opts=opts)"),
)


def test_ranks_that_meet_for_the_first_time_find_the_card_full() -> None:
    assert ranking(*MEETING, "RuntimeError: CUDA error: out of memory")[0] == "gpu-shared"


def test_not_where_they_meet_behind_steps_of_training() -> None:
    log = ("epoch 1: 40/90 loss=1.2", *MEETING, "RuntimeError: CUDA error: out of memory")
    assert says(CAUSE, *log) is None or ranking(*log)[0] != "gpu-shared"


TABLE = (
    "|   0  NVIDIA H100 80GB HBM3          On  | 00000000:1B:00.0 Off |                    0 |",
    "| N/A   41C    P0             118W / 700W |  80512MiB /  81559MiB |      0%      Default |",
    "| Processes:                                                                              |",
    "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
    "|    0   N/A  N/A      7713      C   python3                                     70990MiB |",
    "|    0   N/A  N/A      7714      C   /opt/server                                  9000MiB |",
)


def test_a_table_beside_a_refusal_without_figures_names_who_is_there() -> None:
    found = finding(CAUSE, *TABLE, "RuntimeError: CUDA error: out of memory")
    assert "(PID 7713, 7714)" in found.why
    assert says(CAUSE, *TABLE[:2], "RuntimeError: CUDA error: out of memory") is None


def test_the_jobs_own_processes_are_nobody_else() -> None:
    own = "(Worker pid={}) RuntimeError: CUDA error: out of memory"
    assert "(PID 7714)" in finding(CAUSE, *TABLE, own.format(7713)).why
    assert says(CAUSE, *TABLE[:-1], own.format(7713)) is None


def test_not_an_engine_that_asks_for_more_than_a_nearly_empty_card() -> None:
    line = (
        "ValueError: Free memory on device (46.44/47.38 GiB) on startup is less than desired GPU memory utilization "
        "(0.99, 46.91 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    assert "963 MiB of 47.38 GiB (2.0%) was in use" in ruled_out(CAUSE, line)
    assert ranking(line)[0] == "vllm-utilization-too-high"
