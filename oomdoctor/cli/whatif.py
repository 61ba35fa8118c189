"""`oomdoctor whatif`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Absolute, Assume, Config, ExitZero, Launch, Output, Paths
from oomdoctor.cli.quick import Lang, one_of
from oomdoctor.cli.reports import beside, facts
from oomdoctor.cli.speech import for_others
from oomdoctor.language import mark, say, translated

if TYPE_CHECKING:
    from oomdoctor.job.model import Value

FORMATS = ("text", "json")
EXIT_CODES = {"fits": 0, "does not fit": 1, "cannot tell": 3}
NOTHING_TO_COMPARE = 2
_FORM = mark("like --set gpu_memory_utilization=0.5")


def whatif(
    paths: Paths = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", show_default=False, help="A new value for a setting; may be repeated."
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option("-f", "--format", metavar="|".join(FORMATS), callback=one_of(*FORMATS), help="What to print."),
    ] = "text",
    output: Output = None,
    exit_zero: ExitZero = False,
    absolute_paths: Absolute = False,
    launch: Launch = None,
    config: Config = None,
    assume: Assume = None,
    _lang: Lang = None,
) -> None:
    """Compute whether the job would have fitted with other settings.

    \b
    Examples:
      oomdoctor whatif train.log --set gpu_memory_utilization=0.5
      oomdoctor whatif train.log --set zero_stage=3 --set adam_offload=true
      oomdoctor whatif raylet.out --set swap_space=0 --launch run.sh

    Shows the memory in the crash and with the new settings, each change with its formula. Where the log lacks a
    figure, the result is a range or names its assumption. Settings of unknown effect are listed, not counted.

    Known in any framework's spelling, among others: batch_size, max_length, gradient_checkpointing, zero_stage,
    adam_offload, world_size, num_workers, gpu_memory_utilization, max_model_len, max_num_seqs, max_num_batched_tokens,
    tensor_parallel_size, enforce_eager, enable_sleep_mode, kv_cache_dtype, swap_space, object_store_memory, shm_size,
    PYTORCH_CUDA_ALLOC_CONF.

    Exits with 0 (it fits), 1 (it does not fit), 3 (cannot tell), 2 (wrong usage, or no memory failure in the log) or 70
    (an error of oomdoctor itself).
    """
    if form == "json":
        for_others()
    wanted = _settings(settings)
    read = facts(paths, output, absolute=absolute_paths, told=beside(launch, config, assume))
    if not read.crashes:
        out.tell(say("no memory failure found: nothing to compute"))
        raise typer.Exit(NOTHING_TO_COMPARE)
    from oomdoctor.decision.diagnosis import decide  # noqa: PLC0415  (not for --help)
    from oomdoctor.remedies.whatif.compare import whatif as compared  # noqa: PLC0415
    from oomdoctor.report import whatif as report  # noqa: PLC0415

    decision = decide(read.crashes[0])
    crash = decision.first
    try:
        found = compared(crash, wanted, proven=decision.verdict == "oom")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from error
    for note in read.notes:
        out.tell(note)
    if form == "json":
        out.write(report.as_json(crash, found), output)
    else:
        look = out.style("never", to_file=output not in (None, "-"))
        out.write(report.text(crash, found, min(look.width, out.PIPED_WIDTH)), output)
    raise typer.Exit(0 if exit_zero else EXIT_CODES[found.answer])


def _settings(given: list[str] | None) -> dict[str, Value]:
    """Each NAME=VALUE, the value typed as in a log."""
    from oomdoctor.job import outside  # noqa: PLC0415
    from oomdoctor.job.literals import typed  # noqa: PLC0415

    if not given:
        raise typer.BadParameter(say("name at least one setting: {form}", form=translated(_FORM)), param_hint="--set")
    try:
        pairs = [outside.parted(one, "set", translated(_FORM)) for one in given]
    except outside.OutsideError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from error
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found and found[name] != typed(value):
            out.tell(say("--set {name} is given twice: using the last value, {value}", name=name, value=value))
        found[name] = typed(value)
    return found
