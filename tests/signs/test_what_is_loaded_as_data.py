"""What a stage rules out: data on its way to the GPU is no model, a handler no pass, a prediction no evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.78 GiB "
    "of which 9.12 MiB is free."
)
BARE = "RuntimeError: CUDA error: out of memory"
TRANSLATE = "RuntimeError: CUDA failed with error out of memory"
CUPY = (
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 1,207,959,552 bytes (allocated so far: "
    "13,019,824,128 bytes)."
)
EXHAUSTED = "gpu-memory-exhausted"
SITE = "/opt/venv/lib/python3.10/site-packages"


def trace(*frames: str, ends: str) -> str:
    parts = (frame.split(" ", 2) for frame in frames)
    heads = [f'  File "{file}", line 7, in {function}\n    {code}' for file, function, code in parts]
    return "\n".join(["Traceback (most recent call last):", *heads, ends])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # a model is moved, used for the first time, run, evaluated
        (trace("/srv/fit.py main self.net = net.to(self.device)", ends=FULL), "model-does-not-fit"),
        (trace("/srv/fit.py main x = torch.zeros(1).cuda()", ends=BARE), "gpu-shared"),
        (trace(f"{SITE}/ctranslate2/ext.py generate_tokens out = model.generate(x)", ends=TRANSLATE), "activations"),
        (trace("/srv/fit.py validate y = model.evaluate(x)", ends=CUPY), "eval-accumulation"),
        # pictures are, points are, a handler was there, a pipeline predicts
        (trace("/srv/splats/scene/cameras.py __init__ self.image = image.to(self.device)", ends=FULL), EXHAUSTED),
        (trace("/srv/splats/scene/gauss.py create_from_pcd x = points.cuda()", ends=BARE), EXHAUSTED),
        (trace(f"{SITE}/faster_whisper/transcribe.py encode x = self.model.encode(x)", ends=TRANSLATE), EXHAUSTED),
        (trace(f"{SITE}/thinc/model.py predict return self._func(self, X, is_train=False)[0]",
               f"{SITE}/spacy/pipe.py pipe docs = self.predict_batch(docs)", ends=CUPY), "activations"),
    ],
)  # fmt: skip
def test_first_cause(text: str, cause: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == cause
