"""What the texts call a device: by its own name where the log prints it, GPU everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_logs import crash_of

from oomdoctor import diagnose
from oomdoctor.language import GPU, call_devices
from oomdoctor.signs.commands import on_the_devices


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    call_devices(GPU)


REFUSED = "out of memory. Tried to allocate 512.00 MiB ({0} 0; 31.00 GiB total capacity; 30.00 GiB already allocated; "
REFUSED += "30.10 GiB current active; 210.00 MiB free; 30.50 GiB reserved in total by PyTorch)"


XLA = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: {}"


@pytest.mark.parametrize(
    ("line", "name", "others"),
    [
        (f"RuntimeError: NPU {REFUSED.format('NPU')}", "NPU", ("GPU",)),
        (f"torch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}", "GPU", ("NPU", "TPU")),
        (f"torch.OutOfMemoryError: HIP {REFUSED.format('GPU')}", "GPU", ("NPU", "TPU")),
        (
            f"TPU available: False, using: 0 TPU cores\ntorch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}",
            "GPU",
            ("TPU",),
        ),
        (XLA.format("Attempting to allocate 3.75G. That was not possible; (2x1x0_HBM1)"), "TPU", ("GPU",)),
        (
            XLA.format("Attempting to reserve 3.75G at the bottom of memory. That was not possible."),
            "TPU",
            ("GPU",),
        ),
        (XLA.format("Attempting to allocate 3.75G for 2x1x0_HBM. That was not possible."), "GPU", ("TPU",)),
        (XLA.format("Out of memory while trying to allocate 8053063680 bytes."), "GPU", ("TPU",)),
        ("ERROR  TDRV:dmem_alloc_internal  Failed to alloc DEVICE memory: 94371840", "NeuronCore", ("GPU",)),
        ("Failed to allocate 94371840 bytes of GPU memory for NEFFS", "GPU", ("NeuronCore",)),
        (f"step 3 INPUT NPUTS\ntorch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}", "GPU", ("NPU", "TPU")),
    ],
)
def test_a_device_has_its_own_name(line: str, name: str, others: tuple[str, ...], tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{line}\n", encoding="utf-8")
    headline = diagnose(log).incidents[0].headline
    assert name in headline
    assert not [other for other in others if other in headline]


def test_the_next_report_forgets_it(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"RuntimeError: NPU {REFUSED.format('NPU')}\n", encoding="utf-8")
    diagnose(log)
    log.write_text(f"torch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}\n", encoding="utf-8")
    incident = diagnose(log).incidents[0]
    assert "NPU" not in incident.headline
    assert incident.ledger[0].device == "GPU 0"


def test_the_ledger_names_it_too(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"RuntimeError: NPU {REFUSED.format('NPU')}\n", encoding="utf-8")
    assert diagnose(log).incidents[0].ledger[0].device.startswith("NPU")


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        (f"RuntimeError: NPU {REFUSED.format('NPU')}", "npu-smi info"),
        (f"torch.OutOfMemoryError: HIP {REFUSED.format('GPU')}", "rocm-smi "),
        (f"torch.OutOfMemoryError: XPU {REFUSED.format('GPU')}", "xpu-smi ps"),
        (f"torch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}", "nvidia-smi "),
        (
            "Out of Memory: Not enough space to allocate 91 B DRAM buffer across 8 banks",
            "sudo lsof -w /dev/tenstorrent",
        ),
        (f"banks of DRAM: 8\ntorch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}", "nvidia-smi "),
        (f"tenstorrent is not used\ntorch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}", "nvidia-smi "),
        (f"tool: rocm is not installed\ntorch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}", "nvidia-smi "),
        (f"Metal is not used\ntorch.OutOfMemoryError: CUDA {REFUSED.format('GPU')}", "nvidia-smi "),
    ],
)
def test_its_makers_tool_shows_who_holds_it(line: str, tool: str) -> None:
    assert on_the_devices(crash_of(f"{line}\n")).startswith(tool)
