"""Solvers have cells and particles: no batches, no sequences, and nothing that is kept for a backward pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise

from oomdoctor import diagnose

ARENA = "amrex::Abort::1::Out of gpu memory. Free: 1048576 Asked: 4194304 !!!"
LIBRARY = "AMReX (25.03) initialized\nCUDA error 2 in file fft.cpp line 40: out of memory"
WAVES = "mpirun -n 2 ./xspecfem3D\nCUDA error !!!!! <out of memory> !!!!!\nat CUDA call error code: # 4001"
ATOMS = "LAMMPS (2 Aug 2023)\nERROR on proc 0: Insufficient memory on accelerator (src/GPU/pair_eam_gpu.cpp:91)"
WORLDS = (
    "Warp CUDA error 2: out of memory (in function wp_alloc_device_async, /b/warp/native/warp.cu:40)\n"
    "Traceback (most recent call last):\n"
    '  File "/env/mujoco_warp/_src/forward.py", line 12, in step\n'
    "    forward(m, d)"
)
OF_NETWORKS = (
    "smaller-microbatch", "gradient-checkpointing", "shorter-sequences", "memory-efficient-attention",
    "mixed-precision", "smaller-model", "packing", "offload-activations",
)  # fmt: skip


def first_knobs(folder: Path, log: str) -> list[str]:
    file = folder / "job.log"
    file.write_text(log + "\n", encoding="utf-8")
    return [one.knob for one in diagnose(file).incidents[0].diagnoses[0].remedies]


@pytest.mark.parametrize("log", [ARENA, WAVES, ATOMS, WORLDS])
def test_nothing_of_networks_is_advised(tmp_path: Path, log: str) -> None:
    assert not set(first_knobs(tmp_path, log)) & set(OF_NETWORKS)
    assert advise(log, *OF_NETWORKS)[0] == {}


@pytest.mark.parametrize("log", [ARENA, WAVES])
def test_the_grid_is_made_coarser_first(tmp_path: Path, log: str) -> None:
    assert first_knobs(tmp_path, log)[:3] == ["smaller-input", "free-the-gpu", "more-gpus"]
    assert advise(log, "smaller-input")[0]["smaller-input"].action.startswith("Compute a smaller system")


def test_worlds_are_counted_and_have_no_grid() -> None:
    chosen, _ = advise(WORLDS, "fewer-environments", "smaller-input", "resize-sim-buffers")
    assert [one.setting for one in chosen.values()] == ["nworld", "nconmax"]
    assert chosen["fewer-environments"].action == "Halve nworld (value not in the log)"


def test_an_arena_that_is_full_itself_is_not_made_smaller() -> None:
    assert advise(ARENA, "resize-sim-buffers")[0] == {}
    assert advise(LIBRARY, "resize-sim-buffers")[0]["resize-sim-buffers"].snippet == "amrex.the_arena_init_size=0"


def test_a_trainer_beside_a_simulator_keeps_its_batch() -> None:
    job = "python fit.py --learning_rate 0.1 --per_device_train_batch_size 8"
    refused = "RuntimeError: CUDA error: out of memory"
    assert list(advise(f"Info: NAMD 3.0.1 for Linux\n{job}\n{refused}", "smaller-microbatch")[0]) == [
        "smaller-microbatch"
    ]
    assert advise(f"Info: NAMD 3.0.1 for Linux\n{refused}", "smaller-microbatch")[0] == {}


def test_what_computes_the_forces_in_torch_has_no_script() -> None:
    refused = "RuntimeError: CUDA out of memory. Tried to allocate 9.50 GiB. GPU 0 has a total capacity of 39.39 GiB"
    chosen, _ = advise(f"  1 by 1 by 2 MPI processor grid\n{refused}", "smaller-input", cause="activations")
    assert chosen["smaller-input"].snippet is None
