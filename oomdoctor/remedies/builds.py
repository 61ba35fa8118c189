"""A build that compiles with fewer jobs."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Answer, Case, Proposal, already
from oomdoctor.remedies.settings import Spelling, of_knob

_OF_PYTHON: Final = (
    r"\bsetup\.py\b|bdist_wheel|build_ext|Building wheel|\bpip\b|pyproject|CalledProcessError|/setuptools/"
)
# Nobody but CMake makes a folder of this name, and PyTorch's headers are there where an extension of it is compiled
_BY_FILES: Final = (("torch", rf"{_OF_PYTHON}|/torch/include\b|cpp_extension"), ("cmake", r"\bCMakeFiles/"))


def python_builds(crash: Crash) -> bool:
    """Whether setuptools or pip runs the build, so that nobody types the command of the build tool."""
    return crash.shows(_OF_PYTHON)


def fewer_jobs(case: Case) -> Answer:
    """One, as the tool spells it that builds; only words where nothing shows which that is."""
    row = case.row or _by_files(case)
    if case.now is not None and case.number() == 1:
        return already(case.now, 1)
    return Proposal(
        action=say("Compile with one job, then raise the number while it fits"),
        suggested=1,
        derivation=say("1 is the minimum"),
        snippet=row.snippet(1) if row is not None else None,
        setting=row.setting if row is not None else None,
    )


def _by_files(case: Case) -> Spelling | None:
    """By the files that are compiled, where no tool says its name."""
    builder = next((name for name, files in _BY_FILES if case.crash.shows(files)), None)
    return next(of_knob(case.knob, builder)) if builder is not None else None
