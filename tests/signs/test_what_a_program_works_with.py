"""Which part of a job asked: what XLA lists of a program, a function that an optimizer calls, a model's constructor."""

from __future__ import annotations

from pathlib import Path

from reports import body

HBM = (
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
    "Used {program} of 16.00G hbm. Exceeded hbm capacity by 4.00G.\n\nTotal hbm usage >= 20.50G:\n"
    "    reserved        512.00M\n    program         {program}\n    arguments       {arguments}\n"
)
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 22.44 MiB is free. Including non-PyTorch memory, this process has 79.12 GiB memory in use. Of the "
    "allocated memory 78.20 GiB is allocated by PyTorch, and 40.42 MiB is reserved by PyTorch but unallocated."
)
WINDOWS = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: {} you tried to allocate {} bytes."
)


def cause(folder: Path, text: str) -> str:
    return str(body(folder, text)["diagnoses"][0]["cause"])


def traced(*frames: tuple[str, str, str]) -> str:
    lines = "\n".join(f'  File "{file}", line 7, in {function}\n    {code}' for file, function, code in frames)
    return f"Traceback (most recent call last):\n{lines}\n{REFUSED}"


def test_a_program_without_arguments_is_what_it_works_with(tmp_path: Path) -> None:
    assert cause(tmp_path, HBM.format(program="20.00G", arguments="0B")) == "activations"
    assert cause(tmp_path, HBM.format(program="20.00G", arguments="512.00M")) == "activations"
    assert cause(tmp_path, HBM.format(program="20.00G", arguments="15.00G")) == "model-does-not-fit"


def test_an_optimizer_that_runs_the_passes_is_none(tmp_path: Path) -> None:
    update = ("/opt/lib/optimizer.py", "update")
    forward = ("/srv/net.py", "forward", "h = self.conv(x)")
    passes = traced(("/srv/fit.py", "run", "optimizer.step()"), (*update, "loss = loss_fn(*args, **kwds)"), forward)
    step = traced(("/srv/fit.py", "run", "optimizer.step()"), (*update, "state = zeros_like(param)"))
    assert cause(tmp_path, passes) == "activations"
    assert cause(tmp_path, step) == "optimizer-states"


def test_a_constructor_that_makes_tensors_builds(tmp_path: Path) -> None:
    built = traced(("/opt/lib/spec.py", "build", "return block()"), ("/opt/lib/dense.py", "__init__", "torch.empty("))
    worked = traced(("/opt/lib/dense.py", "forward", "torch.empty("))
    assert cause(tmp_path, built) == "model-does-not-fit"
    assert cause(tmp_path, worked) == "activations"


def test_a_large_piece_on_windows_meets_its_commit_limit(tmp_path: Path) -> None:
    assert cause(tmp_path, WINDOWS.format("not enough memory:", 85899345920)) == "address-space-limit"
    assert cause(tmp_path, WINDOWS.format("can't allocate memory:", 85899345920)) == "host-memory-exhausted"


def test_what_is_loaded_is_past(tmp_path: Path) -> None:
    loading = body(tmp_path, "I checkpointer.py:164] Restoring checkpoint from /srv/state\nKilled")
    loaded = body(tmp_path, "I checkpointer.py:164] Restoring checkpoint from /srv/state\nParameters loaded.\nKilled")
    assert [it["diagnoses"][0]["cause"] for it in (loading, loaded)] == ["checkpoint-spike", "killed-without-evidence"]


def test_a_dump_of_settings_is_no_source(tmp_path: Path) -> None:
    settings = ", ".join(
        f"attn_{name}_size=None, vision_{name}=None" for name in ("tp", "mlp", "outer", "inner", "all")
    )
    refused = "[TM][ERROR] CUDA runtime error: out of memory /srv/turbomind/core/allocator.cc:49"
    told = cause(tmp_path, f"engine_cfg:\nTurbomindEngineConfig({settings}, cache_max_entry_count=0.8)\n{refused}")
    assert told == "vllm-utilization-too-high"
