"""Slices of any bytes, under atheris.

python -m fuzz.harness_scan [CORPUS] [-max_total_time=600] [libFuzzer's other options]
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["oomdoctor"]):
    from fuzz.targets import run_scan

atheris.Setup(sys.argv, run_scan)
atheris.Fuzz()
