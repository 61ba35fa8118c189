from __future__ import annotations

from gpu_logs import finding, ranking, refused, ruled_out, says

from oomdoctor.causes.gpu_visibility import CAUSE
from oomdoctor.signs import Grade

WAITS = (
    "(autoscaler +1m55s) Warning: The following resource request cannot be scheduled right now: {'GPU': 4.0, "
    "'CPU': 1.0}. This is likely due to all cluster resources being claimed by actors."
)


def status(gpus: str) -> list[str]:
    head = ["======== Autoscaler status: 2026-03-01 10:00:00.000000 ========", "Resources", "Usage:"]
    return [*head, " 2.0/16.0 CPU", f" {gpus} GPU", "Demands:", " (no resource demands)"]


def test_not_a_full_card() -> None:
    assert says(CAUSE, refused()) is None


def test_not_where_ray_counts_what_it_was_told() -> None:
    assert "started with (4)" in ruled_out(CAUSE, "ray start --head --num-gpus=4", *status("4.0/4.0"), WAITS)


def test_not_where_nothing_is_known_of_the_cluster() -> None:
    assert says(CAUSE, WAITS) is None


def test_ray_counts_fewer_than_it_was_told() -> None:
    found = finding(CAUSE, "ray start --head --num-gpus=8", *status("0.0/1.0"), WAITS)
    assert "started with num_gpus=8 but counts 1" in found.why


def test_more_than_the_mask_lets_through() -> None:
    line = "ValueError: Attempting to start raylet with 8 GPUs, but CUDA_VISIBLE_DEVICES contains ['0', '1', '2', '3']."
    found = finding(CAUSE, line)
    assert found.grade is Grade.PROVES
    assert "started with num_gpus=8, but CUDA_VISIBLE_DEVICES shows only 4" in found.why


def test_a_worker_without_a_gpu() -> None:
    lines = (
        "ray.exceptions.RayTaskError(RuntimeError): ray::ImplicitFunc.train() (pid=41016, ip=10.24.0.17, repr=f)",
        "RuntimeError: No CUDA GPUs are available",
    )
    assert "sees only the GPUs that it requests" in finding(CAUSE, *lines).why
    assert ranking(*lines)[0] == "gpu-visibility"


def test_an_ordinal_beyond_the_mask() -> None:
    found = finding(CAUSE, "export CUDA_VISIBLE_DEVICES=0,1", "RuntimeError: CUDA error: invalid device ordinal")
    assert "CUDA_VISIBLE_DEVICES is 0,1" in found.why
