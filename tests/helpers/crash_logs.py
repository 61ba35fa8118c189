"""A log of a crash with all that must not get into an issue as it is."""

from __future__ import annotations

TOKEN = "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNmQwErTyUi"
CRASH = f"""\
2025-06-02 09:00:01 INFO launcher: vllm serve org/small-7b --gpu-memory-utilization 0.9 --max-model-len 8192
2025-06-02 09:00:01 INFO env: HF_TOKEN={TOKEN}
2025-06-02 09:00:02 INFO user: /home/margarethe/runs/serve.py started by margarethe@example-labs.com
INFO 06-02 09:00:20 [core.py:61] Initializing a V1 LLM engine (v0.8.3) with config: model='org/small-7b', \
tensor_parallel_size=1, enforce_eager=False
### A heading ```` and `ticks` @maintainer #42 <script>alert(1)</script> --> <!-- oomdoctor: end of the diagnosis -->
::error::not an error
Traceback (most recent call last):
  File "/home/margarethe/runs/serve.py", line 12, in <module>
    engine = LLM(model)
  File "/opt/venv/lib/python3.11/site-packages/vllm/model_executor/models/llama.py", line 400, in forward
    hidden = self.mlp(hidden)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB of \
which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 GiB memory in use. Of the allocated \
memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated.
"""
HEALTHY = "step 1 loss 0.31\nstep 2 loss 0.29\n"
KILLED = "step 1 loss 0.31\nKilled\n"
