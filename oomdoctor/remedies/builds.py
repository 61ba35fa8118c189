"""A build that compiles with fewer jobs."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Answer, Case, Proposal, already
from oomdoctor.remedies.settings import of_knob
from oomdoctor.signs.builds import whole_program_crate

_OF_PYTHON: Final = (
    r"\bsetup\.py\b|bdist_wheel|build_ext|Building wheel|\bpip\b|pyproject|CalledProcessError|/setuptools/"
)
# PyTorch's headers are there where an extension of it is compiled
_OF_PYTORCH: Final = rf"{_OF_PYTHON}|/torch/include\b|cpp_extension"


def python_builds(crash: Crash) -> bool:
    """Whether setuptools or pip runs the build, so that nobody types the command of the build tool."""
    return crash.shows(_OF_PYTHON)


def _without_lto() -> Proposal:
    """doc/book/src/reference of rust-lang/cargo: profiles, `lto`; environment-variables, CARGO_PROFILE_<name>_LTO."""
    return Proposal(
        action=say("Compile without link-time optimization over all crates, or with the thin one"),
        setting="CARGO_PROFILE_RELEASE_LTO",
        snippet="export CARGO_PROFILE_RELEASE_LTO=off",
        suggested="off",
        cost=say("a somewhat slower and larger program"),
    )


def fewer_jobs(case: Case) -> Answer:
    """One, as the tool spells it that builds; only words where nothing shows which that is."""
    if whole_program_crate(case.crash) is not None:
        return _without_lto()
    row = case.row or (next(of_knob(case.knob, "torch")) if case.crash.shows(_OF_PYTORCH) else None)
    if case.now is not None and case.number() == 1:
        return already(case.now, 1)
    return Proposal(
        action=say("Compile with one job, then raise the number while it fits"),
        suggested=1,
        derivation=say("1 is the minimum"),
        snippet=row.snippet(1) if row is not None else None,
        setting=row.setting if row is not None else None,
    )
