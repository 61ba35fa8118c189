from __future__ import annotations

from gpu_logs import finding, ranking, ruled_out, says
from host_logs import LEFTOVERS, kill

from oomdoctor.causes.object_store_full import CAUSE
from oomdoctor.signs import Grade

FULL = (
    "ray.exceptions.ObjectStoreFullError: Failed to put object 71c0e2b971c0e2b9 in object store because it is "
    "full. Object size is 53687091200 bytes."
)


def status(used: str) -> list[str]:
    head = ["======== Autoscaler status: 2026-03-01 10:00:00.000000 ========", "Resources", "Usage:"]
    return [*head, " 2.0/4.0 CPU", f" {used}/120.00GiB object_store_memory", "Demands:", " (no resource demands)"]


def killed_in_2_60(in_use: int) -> list[str]:
    return [
        (
            "(raylet) Task f failed due to oom. There are 1 oom retries remaining, so the task will be retried. Error: "
            "1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: 10.24.0.17, "
            "ID: 3483cb5b17e81ef2db3782b522cdceb3) was 60.00GB used / 63.00GB limit (0.952381)"
        ),
        "OOM kill reason: Memory usage 64400000000B exceeded threshold of 64264500000B (95.0% of 67645734912B limit)",
        f"Object store memory usage: [- objects spillable: 3\n- bytes in use: {in_use}\n(global lru) bytes evicted: 0]",
        "Ray killed 1 worker(s) based on the killing policy",
        "Top 10 memory users: PID\tMEM(GB)\tCOMMAND",
        "501\t31.00\tpython produce.py",
    ]


def test_not_where_it_is_nearly_empty() -> None:
    assert "less than 0.1%" in ruled_out(CAUSE, *killed_in_2_60(1000))


def test_not_where_the_rows_explain_the_use() -> None:
    assert says(CAUSE, *kill((1, 200.0, "python train.py"))) is None


def test_not_spilling_that_works() -> None:
    assert (
        says(CAUSE, "(raylet) Spilled 2304 MiB, 9 objects, write throughput 215 MiB/s.", *kill(*LEFTOVERS[:0])) is None
    )


def test_what_is_in_no_row_may_be_the_store() -> None:
    found = finding(CAUSE, *kill((1, 7.5, "ray::work"), used=239.0))
    assert found.grade is Grade.HINTS
    assert "231.50 GiB" in found.why


def test_an_object_that_did_not_fit() -> None:
    found = finding(CAUSE, FULL)
    assert found.grade is Grade.PROVES
    assert found.pool == "object_store"
    assert "An object of 50.00 GiB did not fit" in found.why


def test_the_kill_says_how_full_it_was() -> None:
    found = finding(CAUSE, *killed_in_2_60(30 * 1024**3))
    assert "30.00 GiB of the 60.00 GiB in use (50%)" in found.why
    assert ranking(*killed_in_2_60(30 * 1024**3))[0] == "object-store-full"


def test_before_2_55_the_table_of_the_cluster_says_it() -> None:
    lines = (*status("110.00GiB"), *kill((501, 111.0, "python produce.py"), used=200.0))
    assert "110.00 GiB of the 200.00 GiB in use (55%)" in finding(CAUSE, *lines).why


def test_before_1_3_the_stores_own_figures_follow() -> None:
    full = (
        "ray.exceptions.ObjectStoreFullError: Failed to put object 71c0e2b971c0e2b9 in object store because it is full."
    )
    assert "store of 50.00 GiB." in finding(CAUSE, full, "(global lru) capacity: 53687091200").why
    assert "object store." in finding(CAUSE, full, "(global lru) evictions: 53687091200").why
