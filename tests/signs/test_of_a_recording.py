"""Programs that are given a whole recording: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import TRACEBACK, crash, refused
from reports import body

from oomdoctor.signs.passes import of_a_recording

PASS = ['  File "/srv/net.py", line 90, in forward', "    y = torch.relu(self.conv(x))"]


def log(*frames: tuple[str, str]) -> list[str]:
    own = [line for name, code in frames for line in (f'  File "/srv/cli.py", line 31, in {name}', f"    {code}")]
    return [TRACEBACK, *own, *PASS, refused()]


@pytest.mark.parametrize(
    "frames",
    [
        [("main", "y = model(image)")],
        [("main", "y = model(tokens)")],
        [("train", "y = model(audio)")],
        [("main", "l = criterion(model(waveform), y)")],
        [("transcribe", "segments = whisper_model(audio)")],
        [("audio_config", "y = model(x)")],
        [("main", "inspect(species)")],
        [("load", "spec.loader.exec_module(plugin)")],  # what a module is made of
        [("chat", "y = model.forward(tokens, spec)")],
        [("main", "y = model(specs)")],
        [("route", "y = self.experts(mixture)")],
    ],
)
def test_no_recording_that_could_be_cut(frames: list[tuple[str, str]]) -> None:
    assert of_a_recording(crash(*log(*frames))) is None


@pytest.mark.parametrize(
    "frames",
    [
        [("separate", "stems = separator(audio)")],
        [("enhance", "clean = model(wav)")],
        [("main", "spec = torch.stft(x, n_fft)"), ("main", "y = net(spec)")],
        [("convert", "y = vocoder(spectrogram)")],
        [("convert", "y = vocoder(mel_spec)")],
        [("main", "y = model(waveforms)")],
    ],
)
def test_a_recording(frames: list[tuple[str, str]]) -> None:
    assert of_a_recording(crash(*log(*frames))) is not None


def test_it_is_handed_on_in_pieces(tmp_path) -> None:  # type: ignore[no-untyped-def]
    remedies = body(tmp_path, "\n".join(log(("separate", "stems = separator(audio)"))))["diagnoses"][0]["remedies"]
    assert remedies[0]["knob"] == "smaller-input"
    assert "interpolate" not in str(remedies)
