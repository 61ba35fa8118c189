"""A build that compiles with fewer jobs."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.proposal import Answer, Case, Proposal, already
from oomdoctor.remedies.settings import of_knob
from oomdoctor.signs.builds import whole_program_crate

_OF_PYTHON: Final = (
    r"\bsetup\.py\b|bdist_wheel|build_ext|Building wheel|\bpip\b|pyproject|CalledProcessError|/setuptools/"
)
# PyTorch's headers are there where an extension of it is compiled
_WITH_PYTORCH: Final = r"/torch/include\b|cpp_extension"
_OF_PYTORCH: Final = rf"{_OF_PYTHON}|{_WITH_PYTORCH}"
# CMake's, of a package: what its setup.py hands to `cmake --build` is not in the log
_BY_CMAKE: Final = r"\bCMakeFiles/|\bcmake --build\b"
# CMake's variable goes to any build tool, make's to its own; a number on the command line counts before both:
# Help/manual/cmake.1, --build; GNU Make's manual, 5.7.3 Options/Recursion
_BY_CMAKES_VARIABLE: Final = "CMAKE_BUILD_PARALLEL_LEVEL"
_ONE_JOB: Final = f"export {_BY_CMAKES_VARIABLE}=1 MAKEFLAGS=-j1"
# "cargo build --release -j 8", "make -j16": doc/man/cargo-build of rust-lang/cargo, GNU Make's manual
_COMMAND: Final = late(
    r"(?:^|[\s/;&])(?P<tool>cargo (?:build|b|test|install|check|rustc)|(?:g|b)?make|ninja|cmake --build \S{1,60}"
    r"|bazel build)(?: [^\n|;&]{1,200}?)?? (?P<flag>-j ?|--jobs[= ])(?P<jobs>[1-9]\d{0,3})\b"
)
_ONE_OF_PYTORCH: Final = " MAX_JOBS=1"


def python_builds(crash: Crash) -> bool:
    """Whether setuptools or pip runs the build, so that nobody types the command of the build tool."""
    return crash.shows(_OF_PYTHON)


def _of_a_package(crash: Crash) -> Proposal:
    """By the environment, which is all that pip hands on."""
    return Proposal(
        action=say("Compile with one job, then raise the number while it fits"),
        suggested=1,
        derivation=say("1 is the minimum"),
        snippet=_ONE_JOB + (_ONE_OF_PYTORCH if crash.shows(_WITH_PYTORCH) else ""),
        setting=_BY_CMAKES_VARIABLE,
        assumes=(
            say(
                "the package's setup.py passes no `--parallel` or `-j` of its own, which counts before these; else "
                "build from its source with `cmake --build build -j 1`"
            ),
        ),
    )


def _of_the_command(typed: re.Match[str]) -> Proposal:
    """The number that stands on the command line counts before any variable."""
    return Proposal(
        action=say("Compile with one job, then raise the number while it fits"),
        current=int(typed["jobs"]),
        suggested=1,
        derivation=say("1 is the minimum"),
        snippet=f"{typed['tool']} {typed['flag']}1",
        setting=typed["flag"].strip(" ="),
    )


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
    if python_builds(case.crash) and case.crash.shows(_BY_CMAKE):
        return _of_a_package(case.crash)
    row = case.row or (next(of_knob(case.knob, "torch")) if case.crash.shows(_OF_PYTORCH) else None)
    if case.now is not None and case.number() == 1:
        return already(case.now, 1)
    if (typed := _COMMAND.search(case.crash.mentions(_COMMAND.pattern) or "")) is not None:
        return _of_the_command(typed)
    return Proposal(
        action=say("Compile with one job, then raise the number while it fits"),
        suggested=1,
        derivation=say("1 is the minimum"),
        snippet=row.snippet(1) if row is not None else None,
        setting=row.setting if row is not None else None,
    )
