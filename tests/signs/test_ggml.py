from __future__ import annotations

from engine_logs import crash_of

from oomdoctor.signs import ggml

COMMAND = "Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"


def test_a_command_that_failed_on_metal_is_a_buffer_of_llama_cpps_alone() -> None:
    assert ggml.some_buffer_refused(crash_of(f"RuntimeError: {COMMAND}\n")) is None
    assert (
        ggml.some_buffer_refused(
            crash_of(f"ggml_metal_graph_compute: command buffer 3 failed with status 5\nerror: {COMMAND}\n")
        )
        is not None
    )
