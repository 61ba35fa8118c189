"""One grammar and its family on any text, under atheris.

python -m fuzz.harness_grammar ray_kill [CORPUS] [-max_total_time=600] [libFuzzer's other options]
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["oomdoctor"]):
    from fuzz.targets import run_grammar

name = sys.argv.pop(1)
atheris.Setup(sys.argv, run_grammar(name))
atheris.Fuzz()
