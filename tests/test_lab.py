"""The lab's programs can be read and launched, and what it counts is right. They are run by `python -m lab` alone."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.__main__ import table
from lab.cell import Run, of_group
from lab.program import BUYING, Change, Limits, Program, changed, programs, scaled, size
from lab.trial import Outcome, Trial, Try, done, figures, outcome_of, trial
from oomdoctor.causes import causes
from oomdoctor.remedies.knobs import KNOBS

# Of the contract, and without a row of their own as yet
LATER = {"narrow-dtypes", "smaller-partitions", "spill-to-disk", "smaller-input"}
CAUSES = {cause.id for cause in causes()}
PROGRAMS = programs()
LONGEST = 80


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_has_a_cause_and_knobs_of_the_contract_and_turns_its_own_flags(program: Program) -> None:
    assert program.causes
    assert {*program.causes} <= CAUSES
    assert {*program.knobs} <= {*KNOBS, *LATER}
    assert size(program.limits.memory) > 0
    for change in (change for those in program.knobs.values() for change in those):
        assert [change.flag, change.env, change.limit].count(None) == 2
        assert change.flag is None or change.flag in program.flags
        assert change.limit is None or change.limit in Limits.__struct_fields__
    for knob in program.knobs:
        assert changed(program, knob) != program, f"{knob} changes nothing"
    assert set(program.scale) <= set(program.flags)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_is_short_and_knows_its_flags(program: Program) -> None:
    text = program.file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert program.file.name in f"{program.line()} {program.prepare}"
    if program.file.suffix == ".py":
        ast.parse(text)
    elsewhere = "TrainingArguments" in text or program.command.startswith("gunicorn")
    for flag in program.flags:
        name = flag.strip("-")
        known = (
            any(form in text for form in (f'"{flag}"', f"{name}: ", f'"{name}": ', f'"{name}=', f'"{name}" '))
            or elsewhere
        )
        assert known or f"{{{flag}}}" in program.command, f"{flag} is no flag of {program.name}"


def test_there_are_enough_programs_and_each_file_belongs_to_one() -> None:
    assert len([it for it in PROGRAMS if not it.cuda]) >= 24
    names = {it.name for it in PROGRAMS}
    files = [path for it in {one.folder for one in PROGRAMS} for path in it.iterdir() if path.is_file()]
    assert {path.stem for path in files} == names


PROGRAM = Program(
    about="",
    causes=("activations",),
    limits=Limits(memory="900M", shm="64M"),
    flags={"--batch-size": 9, "--ratio": 0.5, "--cap": "200MB", "--remat": False, "-j": 4},
    knobs={
        "smaller-microbatch": (Change(flag="--batch-size", to="half"),),
        "gradient-checkpointing": (Change(flag="--remat", to=True),),
        "raise-allocator-cap": (Change(flag="--cap", to="double"),),
        "bigger-shm": (Change(limit="shm", to="1G"),),
        "fix-environment": (Change(env="MALLOC_ARENA_MAX", to=2),),
        "raise-container-limit": (Change(limit="memory", to="double"),),
    },
    name="torch_logits",
)


def flags_after(knob: str, setting: str | None = None, suggested: Any = None) -> dict[str, Any]:
    return dict(changed(PROGRAM, knob, setting, suggested).flags)


def test_a_knob_turns_its_flag_by_the_suggestion_or_by_the_mapping() -> None:
    assert flags_after("smaller-microbatch")["--batch-size"] == 4
    assert flags_after("smaller-microbatch", suggested=2)["--batch-size"] == 2
    assert flags_after("gradient-checkpointing", suggested=8)["--remat"] is True
    assert flags_after("raise-allocator-cap")["--cap"] == "400MB"
    assert flags_after("raise-allocator-cap", suggested=300_000_000)["--cap"] == "300MB"
    assert changed(PROGRAM, "bigger-shm").limits.shm == "1G"
    assert changed(PROGRAM, "fix-environment").env == {"MALLOC_ARENA_MAX": "2"}
    assert changed(PROGRAM, "raise-container-limit").limits.memory == "1800M"


def test_an_option_that_the_program_has_is_set_as_the_report_says() -> None:
    assert flags_after("lower-engine-reservation", "--ratio", 0.25)["--ratio"] == 0.25
    assert flags_after("smaller-buffers", "train.batch_size", 3)["--batch-size"] == 3


@pytest.mark.parametrize(
    ("knob", "setting", "suggested"),
    [
        ("lora", None, None),  # no knob of the program's
        ("lora", "--lora_r", 8),  # nor is its option
        ("lora", "--ratio", None),  # an option without a value
        ("lora", "--ratio", 0.5),  # which it has already
    ],
)
def test_what_the_program_does_not_have_changes_nothing(knob: str, setting: str | None, suggested: Any) -> None:
    assert changed(PROGRAM, knob, setting, suggested) == PROGRAM


def test_what_a_remedy_sets_beside_its_own_option_is_set_too() -> None:
    remedy = {"knob": "smaller-microbatch", "suggested": 3, "beside": [{"setting": "ratio", "value": 0.1}]}
    assert done(PROGRAM, remedy).flags == {**PROGRAM.flags, "--batch-size": 3, "--ratio": 0.1}


def test_a_line_is_typed_as_a_user_types_it() -> None:
    program = msgspec.structs.replace(
        PROGRAM, command="make {-j} {program} {flags}", flags={**PROGRAM.flags, "--remat": True}
    )
    assert program.line() == "make -j4 torch_logits.py --batch-size 9 --ratio 0.5 --cap 200MB --remat"


def test_sizes_and_halves() -> None:
    assert [size("64M"), size("1.5g"), size("200MB"), size("7")] == [64 << 20, 3 << 29, 200_000_000, 7]
    assert [scaled(9, 0.5), scaled(1, 0.5), scaled("350MB", 2), scaled(0.5, 0.5)] == [4, 1, "700MB", 0.25]
    with pytest.raises(ValueError, match="no amount"):
        scaled("fast", 0.5)


def a_run(status: int | None = 1, progress: int = 10) -> Run:
    return Run(status=status, seconds=1.0, peak=None, kills=0, progress=progress, log="")


@pytest.mark.parametrize(
    ("again", "outcome"),
    [
        (a_run(0), "ends"),
        (a_run(0, progress=2), "ends"),  # larger steps are fewer
        (a_run(137), "dies"),
        (a_run(1, progress=9), "dies"),
        (a_run(1, progress=8), "worse"),  # less far than it came
        (a_run(2), "worse"),  # no longer starts
        (a_run(None), "worse"),  # hangs
        (a_run(None, progress=11), "slow"),  # past where it died
    ],
)
def test_what_came_of_a_remedy(again: Run, outcome: Outcome) -> None:
    assert outcome_of(a_run(), again) == outcome


@pytest.mark.parametrize(("before", "after", "outcome"), [(5, 4, "dies"), (1, 0, "dies"), (5, 3, "worse")])
def test_one_line_less_of_few_is_no_loss(before: int, after: int, outcome: Outcome) -> None:
    assert outcome_of(a_run(progress=before), a_run(progress=after)) == outcome


def tries(*outcomes: str) -> tuple[Try, ...]:
    """Of words like "lora ends"."""
    return tuple(Try(knob, "", "", outcome) for knob, _, outcome in (it.partition(" ") for it in outcomes))  # type: ignore[arg-type]


TRIALS = [
    Trial(name="a", right=("activations",), cause="activations", tries=tries("lora ends", "packing dies")),
    Trial(
        name="b",
        right=("logits-spike",),
        cause="activations",
        tries=tries("lora dies", "packing ends"),
        together="ends",
    ),
    Trial(
        name="c", right=("activations",), cause="activations", tries=tries("raise-container-limit ends", "lora no flag")
    ),
    Trial(name="d", right=("activations",), cause=None),
    Trial(name="e", right=("x", "y"), cause="y", tries=tries("lora dies"), together="worse"),
    Trial(name="f", skipped="no GPU here"),
]


def test_the_figures_count_what_was_tried() -> None:
    counted = figures(TRIALS)
    assert counted.programs == 5
    assert counted.cause_right == 3
    assert counted.first_ends == 2
    assert counted.one_ends == 2
    assert counted.together_ends == 1
    assert counted.worse == 1
    assert "cause right: 3 of 5 (60%)" in table(TRIALS, counted)
    assert figures([]).programs == 0


def test_the_first_three_remedies_are_done_one_by_one_and_those_that_buy_nothing_together() -> None:
    launched: list[tuple[str, str, Any]] = []

    def run(program: Program, name: str) -> Run:
        launched.append((name, program.limits.memory, program.flags["--batch-size"]))
        return a_run(0 if name == "together" else 1)

    knobs = ("gradient-checkpointing", "raise-container-limit", "smaller-microbatch", "bigger-shm")
    remedies = [{"knob": knob, "action": knob} for knob in knobs]
    one = trial(PROGRAM, run, lambda _: {"diagnoses": [{"cause": "activations", "headline": "", "remedies": remedies}]})
    assert launched == [
        ("crash", "900M", 9),
        ("remedy-1", "900M", 9),
        ("remedy-2", "1800M", 9),
        ("remedy-3", "900M", 4),
        ("together", "900M", 4),
    ]
    assert [it.outcome for it in one.tries] == ["dies", "dies", "dies"]
    assert (one.cause_right, one.first_ends, one.one_ends, one.together, one.worse) == (
        True,
        False,
        False,
        "ends",
        False,
    )


def test_remedies_that_come_to_the_same_are_run_once() -> None:
    names: list[str] = []

    def run(program: Program, name: str) -> Run:
        names.append(name)
        return a_run(0 if program.flags["--remat"] else 1)

    remedies = [{"knob": knob, "action": ""} for knob in ("gradient-checkpointing", "lora", "gradient-checkpointing")]
    one = trial(PROGRAM, run, lambda _: {"diagnoses": [{"cause": "activations", "remedies": remedies}]})
    assert names == ["crash", "remedy-1"]
    assert [it.outcome for it in one.tries] == ["ends", "no flag", "ends"]
    assert one.together == "ends"


def test_a_program_that_does_not_die_is_left_out() -> None:
    one = trial(PROGRAM, lambda *_: a_run(0), lambda _: {})
    assert not one.counts
    assert figures([one]).programs == 0


def test_nothing_is_diagnosed_without_a_diagnosis() -> None:
    one = trial(PROGRAM, lambda *_: a_run(), lambda _: {"diagnoses": [], "verdict": "no-oom"})
    assert (one.cause, one.tries, one.together, one.cause_right) == (None, (), None, False)


def test_what_buys_is_a_knob() -> None:
    assert set(KNOBS) >= BUYING


def test_no_program_names_a_folder_of_this_machine() -> None:
    for program in PROGRAMS:
        assert str(Path.home()) not in program.file.read_text(encoding="utf-8")


def test_the_kernels_reports_are_those_of_the_runs_own_group() -> None:
    def report(name: str) -> list[str]:
        return [
            "python invoked oom-killer: gfp_mask=0xcc0",
            f"oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/{name},task=python,pid=7",
            "Memory cgroup out of memory: Killed process 7 (python) total-vm:9kB",
        ]

    lines = [*report("oomdoctor-lab-12-crash"), *report("oomdoctor-lab-31-crash"), *report("other")]
    assert list(of_group("oomdoctor-lab-31-crash", lines)) == report("oomdoctor-lab-31-crash")
