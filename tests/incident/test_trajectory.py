from __future__ import annotations

import pytest

from oomdoctor import streams
from oomdoctor.incident.climb import Climbs
from oomdoctor.incident.trajectory import MOST_POINTS, MOST_SERIES, TrajectoryBuilder, growth
from oomdoctor.job.model import Context, Point, Trajectory
from oomdoctor.signs.series import change

GIB = 1024**3


def read(log: str) -> list[Trajectory]:
    builder = TrajectoryBuilder()
    builder.add(streams.page("job.log", 1, log.encode()))
    return builder.build()


def points(*figures: float) -> list[Point]:
    return [Point(None, round(f * GIB), i) for i, f in enumerate(figures)]


def test_no_growth() -> None:
    assert growth(points(1, 2)) is None  # too few
    assert growth(points(10, 10, 10, 10, 10, 10)) is None  # flat
    assert growth(points(10, 11, 9, 10.5, 9.5, 10, 11, 9)) is None  # noise
    assert growth(points(5, 40, 80, 80, 80, 80, 80, 80, 80, 80, 80, 80)) is None  # warm-up, then a plateau
    assert growth(points(80, 70, 60, 50)) is None  # falls
    assert (
        growth(points(10.1, 10.3, 10.3, 10.3, 10.9, 11.0, 10.3, 11.1, 12.1, 12.1, 10.2, 11.0, 11.1, 11.8, 10.5)) is None
    )


def test_growth_is_per_step_and_one_outlier_does_not_matter() -> None:
    assert growth(points(10, 12, 14, 16, 18)) == 2 * GIB
    assert growth(points(10, 12, 14, 90, 18, 20, 22)) == 2 * GIB
    by_step = [Point(10 * i, (100 + 5 * i) * GIB, i) for i in range(8)]
    assert growth(by_step) == GIB // 2


def test_growth_is_per_print_also_where_not_all_prints_are_kept() -> None:
    (found,) = read("".join(f"RSS: {2000 + 10 * n} MiB\n" for n in range(8 * MOST_POINTS)))
    assert found.growth_bytes is not None
    assert abs(found.growth_bytes / (10 * 1024**2) - 1) < 0.01
    assert (found.prints, found.per) == (8 * MOST_POINTS, "print")


def test_prints_of_two_places_count_apart() -> None:
    line = "{place} the update, memory allocated (GB): {held}, memory reserved (GB): 70.0\n"
    log = "".join(line.format(place=place, held=10 + n / 4) for n in range(20) for place in ("Before", "After"))
    held = next(one for one in read(log) if one.what == "memory allocated")
    assert (held.prints, held.growth_bytes) == (20, GIB // 4)


def test_what_grows_most_stands_first() -> None:
    lines = "".join(
        f"step {n} {what}: {10 + rise * n}.0 GB\n"
        for n in range(12)
        for what, rise in (("RSS", 2), ("memory_allocated", 3), ("memory_reserved", 0))
    )
    assert [figure.growth_bytes for figure in read(lines)] == [3 * GIB, 2 * GIB, None]


def test_steps_that_begin_anew_are_no_measure() -> None:
    (found,) = read("".join(f"step {n % 6}: RSS: {10 + n} GiB\n" for n in range(12)))
    assert (found.growth_bytes, found.per) == (GIB, "print")


def test_verl_prints_the_nodes_memory_with_every_step() -> None:
    log = "".join(
        f"(TaskRunner pid=8) step:{s} - global_seqlen/mean:91 - perf/max_memory_allocated_gb:41.5 - "
        f"perf/max_memory_reserved_gb:60.0 - perf/cpu_memory_used_gb:{300 + 20 * s}.5 - timing_s/gen:40\n"
        for s in range(1, 9)
    )
    node, *rest = read(log)
    assert (node.what, node.pool, node.growth_bytes) == ("memory used on the node", "host_ram", 20 * GIB)
    assert [p.step for p in node.points] == list(range(1, 9))
    assert [p.line for p in node.points] == list(range(1, 9))
    assert [t.growth_bytes for t in rest] == [None, None]


def test_deepspeed_prints_both_pools() -> None:
    log = "".join(
        f"MA 12.0 GB         Max_MA 20.1 GB         CA 25.0 GB         Max_CA 25 GB\n"
        f"CPU Virtual Memory:  used = {100 + 10 * i}.0 GB, percent = 20.9%\n"
        for i in range(6)
    )
    found = {t.pool: t for t in read(log)}
    assert found["host_ram"].growth_bytes == 10 * GIB
    assert found["gpu"].growth_bytes is None
    assert len(found["gpu"].points) == 6


def test_prints_of_the_users_own_code() -> None:
    rss = read("".join(f"[INFO] step {i}: RSS: {10 + i}.0 GB, VMS: 99.1 GB\n" for i in range(5)))
    assert rss[0].growth_bytes == GIB
    ours = read("".join(f"iteration {i}: memory usage {4000 + 100 * i} MB\n" for i in range(5)))
    assert ours[0].growth_bytes == 100 * 1024**2
    tune = read("".join(f"Memory usage on this node: {10 + i}.0/62.0 GiB\n" for i in range(5)))
    assert tune[0].growth_bytes == GIB
    gpu = read("".join(f"step {i} torch memory_allocated: {1000 * i} MB\n" for i in range(1, 6)))
    assert gpu[0].pool == "gpu"


@pytest.mark.parametrize(
    "line",
    [
        "Available KV cache memory usage: 12.5 GiB, RSS 3\n",
        "torch.OutOfMemoryError: CUDA out of memory. memory usage 3.0 GiB\n",
        "program memory usage limit exceeded\n",
        "download: 3.1 GB/s RAM\n",
    ],
)
def test_no_point(line: str) -> None:
    assert read(line * 5) == []


def test_processes_are_told_apart() -> None:
    log = "".join(f"(A pid={p}) RSS: {i + 10 * p}.0 GB\n" for i in range(4) for p in (1, 2))
    found = read(log)
    if len(found) == 1:
        pytest.skip("streams do not tell writers apart yet")
    assert [t.growth_bytes for t in found] == [GIB, GIB]


def test_memory_is_bounded_and_the_points_stay_spread() -> None:
    found = read("".join(f"step {i} RSS: {i}.0 MB\n" for i in range(20_000)))
    steps = [p.step or 0 for p in found[0].points]
    assert len(steps) <= MOST_POINTS + 1
    assert steps[0] == 0
    assert steps[-1] == 19_999
    assert found[0].growth_bytes == 1024**2


def test_points_are_spread_evenly_where_a_part_of_the_log_is_read_more_closely() -> None:
    builder = TrajectoryBuilder()
    for first, lines in ((1, 2000), *((n * 1000, 1) for n in range(3, 300)), (300_000, 2000)):
        text = "".join(f"step {first + n} RSS: {first + n}.0 MB\n" for n in range(lines))
        builder.add(streams.page("job.log", first, text.encode()))
    points = builder.build()[0].points
    assert len(points) <= MOST_POINTS + 1
    middle = [point for point in points if 2000 < point.line < 300_000]
    assert len(middle) > 0.9 * len(points), "the two ends weigh no more than what is between them"
    assert points[-1].line == 301_999


def test_a_process_that_grows_from_kill_to_kill() -> None:
    log = "".join(
        "Top 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n"
        f"77\t{20 + 15 * i}.00\tpython serve_rm.py --port 5000\n"
        "912\t8.30\tray::LLMRayActor\n"
        for i in range(5)
    )
    grows, flat = read(log)
    assert (grows.what, grows.growth_bytes) == ("PID 77 (python serve_rm.py --port 5000)", 15 * GIB)
    assert (flat.what, flat.growth_bytes) == ("PID 912 (ray::LLMRayActor)", None)


def test_figures_that_stand_only_once_are_told_as_well() -> None:
    builder = TrajectoryBuilder()
    log = "MA 0.28 GB         Max_MA 0.28 GB         CA 0.45 GB         Max_CA 0 GB\nRSS: 49.5 GB\n"
    builder.add(streams.page("job.log", 1, log.encode()))
    assert builder.build() == []
    assert [(f.what, f.points[0].bytes) for f in builder.figures()] == [
        ("memory allocated", round(0.28 * GIB)),
        ("memory reserved", round(0.45 * GIB)),
        ("rss", round(49.5 * GIB)),
    ]


def test_openmmlab_counts_mebibytes() -> None:
    line = "Epoch [1][{}/7330]\tlr: 0.02, time: 0.385, data_time: 0.012, memory: {}, loss_cls: 0.7\n"
    found = read("".join(line.format(100 * i, 4000 + 500 * i) for i in range(1, 6)))
    assert found[0].growth_bytes == 500 * 1024**2


def deepspeed(said: str, host: float) -> str:
    prefix = "[2024-05-05 10:00:01,100] [INFO] [utils.py:800:see_memory_usage] "
    gpu = "MA 13.41 GB         Max_MA 13.41 GB         CA 13.52 GB         Max_CA 14 GB "
    node = f"CPU Virtual Memory:  used = {host} GB, percent = 12.1%"
    return "".join(f"{prefix}{line}\n" for line in (said, gpu, node))


def test_more_in_another_place_of_the_program_is_no_growth() -> None:
    places = ("Before creating fp16 partitions", "After creating fp32 partitions", "After initializing ZeRO optimizer")
    assert read("".join(deepspeed(place, 90.0 + 150 * n) for n, place in enumerate(places))) == []


def test_more_in_the_same_place_is() -> None:
    log = "".join(
        deepspeed(f"before step {n}", 90.5 + 4 * n) + deepspeed("after step", 190.0 - n % 2) for n in range(1, 6)
    )
    (grown,) = [found for found in read(log) if found.growth_bytes]
    assert grown.growth_bytes == 4 * GIB
    assert [point.text for point in grown.points] == [f"before step {n}" for n in range(1, 6)]


def test_memory_summaries_are_a_series() -> None:
    row = "| Allocated memory      | {:>6} MiB |  15012 MiB |    412 GiB |    403 GiB |\n"
    (grown,) = read("".join(row.format(4000 + 1024 * n) for n in range(5)))
    assert (grown.what, grown.growth_bytes) == ("memory allocated", GIB)


def test_torchtitan_counts_its_steps() -> None:
    line = "step: {:>2}  loss:  8.1234  memory: {:.2f}GiB(80.00%)  tps: 1,234\n"
    (grown,) = read("".join(line.format(10 * n, 20 + n) for n in range(1, 6)))
    assert grown.growth_bytes == round(GIB / 10)


def test_verls_logger_says_where_it_stands() -> None:
    log = "".join(
        f"(WorkerDict pid=7) {where}, memory allocated (GB): {held}, memory reserved (GB): {held + 2}, "
        f"device memory used/total (GB): {held + 5}/79.3\n"
        for n in range(6)
        for where, held in (("Before rollout", 10.5 + n), ("After offload to cpu", 2.5))
    )
    found = {trajectory.what: trajectory for trajectory in read(log)}
    assert {t.growth_bytes for t in found.values()} == {GIB}
    card = found["memory used on the card"]
    assert card.limit_bytes == round(79.3 * GIB)
    assert {point.text for point in card.points} == {"Before rollout"}


def test_megatron_counts_its_iterations() -> None:
    line = "[Rank 0] (after {} iterations) memory (MB) | allocated: {}.50 | max allocated: 70000.00 | reserved: 1.00\n"
    (grown,) = read("".join(line.format(10 * n, 20000 + 1024 * n) for n in range(1, 7)))
    assert [point.step for point in grown.points] == [10, 20, 30, 40, 50, 60]
    assert grown.growth_bytes == round(102.4 * 1024**2)


def smi(*held: int) -> str:
    rows = "".join(
        f"|   {card}  NVIDIA A100-SXM4-80GB          On  | 00000000:0{card}:00.0 Off |                    0 |\n"
        f"| N/A   34C    P0    62W / 400W |  {size}MiB / 81920MiB |      0%      Default |\n"
        "|                               |                      |             Disabled |\n"
        for card, size in enumerate(held)
    )
    return f"| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |\n{rows}\n"


def test_tables_of_nvidia_smi_are_a_series_for_each_card() -> None:
    grown, still = read("".join(smi(20480 + 2048 * n, 71000) for n in range(6)))
    assert (grown.what, grown.growth_bytes, grown.limit_bytes) == ("memory used on the card 0", 2 * GIB, 80 * GIB)
    assert (still.what, still.shape) == ("memory used on the card 1", "level")


def test_a_slices_bar1_is_no_memory_of_the_card() -> None:
    mig = (
        "|  0    7   0   0  |      6MiB /  9728MiB  | 14      0 |  1   0    0    0    0 |\n"
        "|                  |      0MiB / 16383MiB  |           |                       |\n"
    )
    assert read(mig * 5) == []


def test_gpustat() -> None:
    line = "[{}] NVIDIA A100 80GB | 52'C, 100 % | {} / 81920 MB | me(8000M)\n"
    found = read("".join(line.format(card, 10240 * (n + 1)) for n in range(5) for card in (0, 1)))
    assert [(t.what, t.growth_bytes) for t in found] == [
        ("memory used on the card 0", 10 * GIB),
        ("memory used on the card 1", 10 * GIB),
    ]


def test_ray_status_prints_what_is_requested_as_memory_and_what_is_used_of_the_store() -> None:
    table = (
        "======== Autoscaler status: 2026-03-01 10:00:0{n}.1 ========\nUsage:\n 4.0/8.0 CPU\n"
        " {n}0.00GiB/200.00GiB memory\n {n}.00GiB/30.00GiB object_store_memory\n\n"
        "Node: 0481 (node_0481)\n Usage:\n  0B/10.00GiB object_store_memory\n"
    )
    (store,) = read("".join(table.format(n=n) for n in range(1, 8)))
    assert (store.what, store.pool) == ("object store in use", "object_store")
    assert [point.bytes for point in store.points] == [n * GIB for n in range(1, 8)]
    assert store.limit_bytes == 30 * GIB


def test_what_an_engine_leaves_when_it_sleeps() -> None:
    line = "Sleep mode freed 46.35 GiB memory, {}.10 GiB memory is still in use.\n"
    (grown,) = read("".join(line.format(20 + 2 * n) for n in range(6)))
    assert (grown.growth_bytes, grown.shape) == (2 * GIB, "growing")


def test_the_nodes_total_is_its_limit() -> None:
    log = "".join(f"Memory usage on this node: {10 + i}.0/62.0 GiB\n" for i in range(5))
    (node,) = read(log)
    assert node.limit_bytes == 62 * GIB
    assert node.room(62 * GIB) == 48 * GIB


def test_slices_overlap_and_no_point_counts_twice() -> None:
    log = "".join(f"step {i} RSS: {10 + i}.0 GB\n" for i in range(6))
    builder = TrajectoryBuilder()
    builder.add(streams.page("job.log", 1, log.encode()))
    builder.add(streams.page("job.log", 4, "".join(log.splitlines(keepends=True)[3:]).encode()))
    (found,) = builder.build()
    assert [point.line for point in found.points] == [1, 2, 3, 4, 5, 6]


def test_a_sawtooth_tells_how_high_it_stood_last() -> None:
    log = "".join(f"step {i} RSS: {20 + i + 40 * (i % 2)}.0 GB\n" for i in range(25))
    (found,) = read(log)
    assert (found.growth_bytes, found.points[-1].bytes, found.reached_bytes) == (GIB, 44 * GIB, 83 * GIB)


def test_open_growth_has_an_interval_and_no_slope() -> None:
    figures = (100, 112, 103, 103, 120, 108, 118, 124)
    (found,) = read("".join(f"step {i} RSS: {figure}.0 GB\n" for i, figure in enumerate(figures)))
    assert (found.shape, found.growth_bytes) == ("unclear", None)
    assert found.growth_low_bytes is not None
    assert found.growth_high_bytes is not None
    assert found.growth_low_bytes <= 0 < found.growth_high_bytes


def test_a_print_of_the_users_own_that_begins_as_verls_does() -> None:
    (grown,) = read("".join(f"step {n} memory allocated (GB): {3 + n}.5\n" for n in range(6)))
    assert (grown.what, grown.growth_bytes) == ("memory allocated", GIB)


def test_verls_place_may_hold_a_comma() -> None:
    line = "Before {}, once more, memory allocated (GB): {}.50, memory reserved (GB): 20.00\n"
    grown, _ = read("".join(line.format("update_actor", 3 + n) for n in range(6)))
    assert grown.growth_bytes == GIB


def test_after_a_restart_the_new_processes_figures_take_the_place_of_those_that_are_gone() -> None:
    def printed(first: int, count: int, times: int) -> str:
        return "".join(
            f"(Worker pid={pid}) RSS: {time + 1} GiB\n" for time in range(times) for pid in range(first, first + count)
        )

    gone, left = printed(100, 100, 6), printed(500, 60, 100)
    kept = read(gone + left)
    assert len(kept) == MOST_SERIES
    assert [figure.points[-1].bytes for figure in kept].count(100 * GIB) == 60


def test_what_slime_counts_on_the_host() -> None:
    (figure,) = read("".join(f"perf step: {n} {{'host_used_GB': {10.5 + 2 * n}}}\n" for n in range(3)))
    assert (figure.what, figure.pool, figure.growth_bytes) == ("memory used on the node", "host_ram", 2 * GIB)
    assert read("'host_used_GB': None\n'host_free_GB': 10.5\n") == []


@pytest.mark.parametrize(
    ("line", "first", "of_rest"),
    [
        ("Free GPU ram: {}.5", 4096.5 * 1024**2, True),
        ("step {} VRAM free: {} MB", 4096 * 1024**2, True),
        ("gb_free={}", 4096 * GIB, True),
        ("available RAM: {} GB", 4096 * GIB, True),
        ("iter: 9 max_mem: {}M", 4096 * 1024**2, False),
        ("10it [00:10, 3.1it/s, mem={}M]", 4096 * 1024**2, False),
        ("mem_usage:cuda:1 {}MB, 0.8 sec/step", 4096 * 1024**2, False),
        ("  3/100   {}G   1.024   2.1", None, False),
        ("Peak GPU Memory (MB)={}", 4096 * 1024**2, False),
        ("epoch 3: GPU mem {}/8192 MB", 4096 * 1024**2, False),
        ("After the sync of weights: {}.5 GB / 8192.0 GB", 4096.5 * GIB, False),
        ("Mem:  64000  {}  1  0  1  1", 4096 * 1024**2, False),
    ],
)
def test_programs_print_what_they_hold_and_what_is_left(line: str, first: float | None, of_rest: bool) -> None:
    sizes = (4096, 3500, 3100, 2800) if of_rest else (4096, 4500, 4900, 5200)
    found = read("\n".join(line.replace("{}", str(size), 1).replace("{}", str(size)) for size in sizes))
    assert [series.of_rest for series in found] == ([of_rest] if first else [])
    assert [series.points[0].bytes for series in found] == ([round(first)] if first else [])
    assert all(series.growth_bytes for series in found)


def test_what_is_left_and_comes_back_does_not_grow() -> None:
    sizes = (20000, 15000, 10000, 5000) * 4
    (found,) = read("\n".join(f"VRAM free: {size} MB" for size in sizes))
    assert found.growth_bytes is None
    (level,) = read("\n".join(f"VRAM free: {20000 + n % 3} MB" for n in range(12)))
    assert level.growth_bytes is None


@pytest.mark.parametrize(
    "line",
    ["free gpu memory with del: {} tensors", "GPU memory free: {}%", "free_gpu={}", "feel free: {} MB", "gb_freed={}"],
)
def test_other_words_of_free_are_no_series(line: str) -> None:
    assert read("\n".join(line.format(4000 - n) for n in range(6))) == []


def test_megabytes_without_a_unit_and_gigabytes() -> None:
    for number, size in ((13724.5, 13724.5 * 1024**2), (13.5, 13.5 * GIB), (14391181312, 14391181312)):
        (found,) = read("\n".join(f"free cuda memory: {number * part}" for part in (1, 0.9, 0.8)))
        assert found.points[0].bytes == round(size)


def test_a_unit_that_no_line_prints_is_named() -> None:
    for tail, unit in (("", "MiB"), (" MB", None)):
        (found,) = read("\n".join(f"free cuda memory: {number}{tail}" for number in (13000, 11700, 10400)))
        assert found.assumed_unit == unit
        assert ("no unit" in change(found)) == (unit is not None)


def test_what_is_left_does_not_climb() -> None:
    sizes = range(10_000, 80_000, 10_000)
    (used,) = read("\n".join(f"cuda memory used: {size} MB" for size in sizes))
    (left,) = read("\n".join(f"free cuda memory: {size} MB" for size in reversed(sizes)))
    assert used.grown == left.grown == 60_000 * 1024**2
    assert Climbs().of([used], Context())
    assert not Climbs().of([left], Context())


def test_what_is_left_has_no_outlook_by_its_limit() -> None:
    (found,) = read("\n".join(f"VRAM free: {size} MB" for size in (9000, 6000, 3000)))
    assert (found.grown, found.room(0)) == (6000 * 1024**2, 3000 * 1024**2)


def test_thousands_may_stand_in_groups() -> None:
    (rss,) = read("".join(f"trial {i} done | RSS {1 + i},{139 + i} MB\n" for i in range(5)))
    assert rss.points[0].bytes == 1139 << 20
    assert rss.points[-1].bytes == 5143 << 20
    assert not read("".join(f"RSS {1 + i},{39 + i} MB\n" for i in range(5)))  # no group of three


@pytest.mark.parametrize(
    ("line", "before", "is_read"),
    [
        ("epoch {n} loss 0.4 time 1.3s mem {size}MB", "", True),
        ("epoch {n}: memory: {size} MiB", "", True),
        ("epoch {n} loss 0.4 mem {size}MB", "using cuda:0\n", False),  # of the card, perhaps
        ("epoch {n} max mem {size}MB", "", False),
        ("epoch {n} mem {size}MB / 8000MB", "", False),
        ("epoch {n} mem {size}", "", False),
    ],
)
def test_a_loops_bare_figure_is_the_hosts_where_nothing_speaks_of_a_card(
    line: str, before: str, *, is_read: bool
) -> None:
    found = read(before + "".join(f"{line.format(n=n, size=400 + 90 * n)}\n" for n in range(5)))
    assert [(one.what, one.pool, one.shape) for one in found] == [("host memory", "host_ram", "growing")] * is_read


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{{"event": "metrics", "polls": {n}, "rss_mb": {mb}}}', "rss"),
        ("poll {n} worker_rss_mb={mb}", "worker_rss"),
        ("poll {n} mem_used_mb: {mb}", "mem"),
        ("poll {n} free_mem_mb: {mb}", None),
        ("poll {n} perf/rss_mb: {mb}", None),
        ("poll {n} rss_mb_total: {mb}", None),
        ("cuda:0 ready\npoll {n} mem_used_mb: {mb}", None),  # which memory
    ],
)
def test_a_figure_whose_name_has_its_unit(line: str, what: str | None) -> None:
    found = read("".join(line.format(n=n, mb=100 * n) + "\n" for n in range(1, 9)))
    assert [one.what for one in found] == ([what] if what is not None else [])
