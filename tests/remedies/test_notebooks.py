"""A notebook's process keeps what its cells have put on the GPU; what it is told is Python, and no flags."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import cuda

from oomdoctor import diagnose
from oomdoctor.report.contract import Diagnosis

TITLE = "Traceback (most recent call last):\n"
KERNEL = (
    '  File "/opt/py/lib/python3.11/site-packages/ipykernel/ipkernel.py", line 771, in run_closure\n    _run(self)\n'
)
CELL = '  File "/tmp/ipykernel_4711/1122334455.py", line 2, in <module>\n    pipe = pipeline(path)\n'
SCRIPT = '  File "/srv/chat/answer.py", line 14, in main\n    pipe = pipeline(path)\n'
API = '  File "/opt/py/lib/python3.11/site-packages/lmdeploy/api.py", line 88, in pipeline\n    return cls(path)\n'
SERVER = (
    '  File "/opt/py/lib/python3.11/site-packages/lmdeploy/serve/openai/api_server.py", line 1210, in serve\n'
    "    VariableInterface.async_engine = cls(path)\n"
)
WEIGHTS = (
    '  File "/opt/py/lib/python3.11/site-packages/lmdeploy/turbomind/turbomind.py", line 231, in _create_weight_func\n'
    "    model_comm.create_shared_weights(device_id, rank)\n"
    "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /build/src/turbomind/utils/memory_utils.cu:32 \n"
)
LOADED = '  File "/opt/py/transformers/modeling_utils.py", line 4001, in from_pretrained\n    x\n'


def first(tmp_path: Path, *lines: str) -> Diagnosis:
    log = tmp_path / "cell.log"
    log.write_text(TITLE + "".join(lines))
    return diagnose(log).incidents[0].diagnoses[0]


@pytest.mark.parametrize("where", [KERNEL, CELL])
def test_the_kernel_is_restarted_before_a_model_is_split(tmp_path: Path, where: str) -> None:
    found = first(tmp_path, where, WEIGHTS)
    assert found.remedies[0].knob == "free-the-gpu"
    assert found.remedies[0].action.startswith("Restart the notebook's kernel")
    assert found.remedies[0].snippet
    assert "earlier cell" in " ".join(found.against)


@pytest.mark.parametrize("where", [SCRIPT, API, SERVER, ""])
def test_a_process_of_its_own_keeps_nothing(tmp_path: Path, where: str) -> None:
    found = first(tmp_path, where, WEIGHTS)
    assert found.remedies[0].knob == "quantize-weights"
    assert all("kernel" not in one.action for one in found.remedies)
    assert "earlier cell" not in " ".join(found.against)


def test_figures_of_the_process_say_what_it_holds(tmp_path: Path) -> None:
    found = first(tmp_path, CELL, LOADED, "torch.OutOfMemoryError: ", cuda())
    assert all("notebook" not in one.action for one in found.remedies)


@pytest.mark.parametrize(
    ("where", "in_code"), [(KERNEL, True), (CELL, True), (API, True), (SCRIPT, True), (SERVER, False), ("", False)]
)
def test_a_program_that_builds_the_engine_has_arguments(tmp_path: Path, where: str, in_code: bool) -> None:
    written = {one.knob: one.snippet for one in first(tmp_path, where, WEIGHTS).remedies}
    assert written["quantize-weights"] == ("model_format='awq'" if in_code else "--model-format awq")
    assert written["tensor-parallel"] == ("tp=2" if in_code else "--tp 2")


TUNER = '  File "/opt/py/lib/python3.11/site-packages/unsloth/models/loader.py", line 9, in from_pretrained\n    x\n'
ACCOUNT = (
    "INFO 02-03 04:05:06 [gpu_worker.py:391] Free memory on device (46.00/48.00 GiB) on startup. Desired GPU memory "
    "utilization is (0.9, 43.20 GiB). Actual usage is 9.00 GiB for weight, 1.00 GiB for peak activation, 0.20 GiB for "
    "non-torch memory, and 2.40 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with "
    "`--kv-cache-memory={fits}` to fit into requested memory, or `--kv-cache-memory=37580963840` to fully utilize gpu "
    "memory. Current kv cache memory in use is 35433480192 bytes.\n"
)
WARMED = (
    "RuntimeError: CUDA out of memory occurred when warming up sampler with {} dummy requests. Please try lowering "
    "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n"
)


def lines_of(tmp_path: Path, *lines: str) -> dict[str, str | None]:
    return {one.knob: one.snippet for one in first(tmp_path, *lines).remedies}


def test_what_starts_the_engine_hands_on_only_its_own_arguments(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, CELL, TUNER, WARMED.format(288), ACCOUNT.format(fits=32212254720))
    # 0.9 - (33 GiB - 30 GiB) / 48 GiB
    assert lines["lower-engine-reservation"] == "gpu_memory_utilization=0.83"
    assert lines["fewer-sequences"] == "conservativeness=0.5"


@pytest.mark.parametrize("fits", [35433480192, 36507222016])
def test_a_cache_that_fits_already_gives_no_share(tmp_path: Path, fits: int) -> None:
    lines = lines_of(tmp_path, CELL, TUNER, WARMED.format(288), ACCOUNT.format(fits=fits))
    assert lines["lower-engine-reservation"] == "gpu_memory_utilization=0.85"


def test_the_engine_itself_takes_bytes_and_a_number(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, CELL, WARMED.format(288), ACCOUNT.format(fits=32212254720))
    assert lines["lower-engine-reservation"] == "kv_cache_memory_bytes=32212254720"
    assert lines["fewer-sequences"] == "max_num_seqs=144"
