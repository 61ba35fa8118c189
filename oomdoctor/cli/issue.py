"""`oomdoctor issue`, `oomdoctor issue form` and `oomdoctor issue draft`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Assume, Config, Launch, Output, Paths
from oomdoctor.cli.quick import Lang
from oomdoctor.cli.reports import STDIN, beside
from oomdoctor.cli.speech import for_others
from oomdoctor.language import in_use, say, use
from oomdoctor.patterns import late

if TYPE_CHECKING:
    from oomdoctor.helpers.answers import Answers, Budget
    from oomdoctor.helpers.draft import Link
    from oomdoctor.helpers.forms import Form
    from oomdoctor.incident.model import Crash
    from oomdoctor.job.outside import Outside
    from oomdoctor.sources import Source
    from oomdoctor.street import Facts

NOTHING_TO_REPORT = 2
PLACE = ".github/ISSUE_TEMPLATE"  # GitHub's own folder for forms, which is made where it is missing
CHANGED = 1  # how a hook says that it wrote
_REPOSITORY = late(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}\Z")

NoRedact = Annotated[bool, typer.Option("--no-redact", help="Keep secrets, names and addresses: only for yourself.")]


def issue(
    paths: Paths = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--form",
            metavar="FILE",
            show_default=False,
            help="The repository's issue form or template, or its checkout. Default: our own form.",
        ),
    ] = None,
    repo: Annotated[
        str | None,
        typer.Option("--repo", metavar="OWNER/NAME", show_default=False, help="The repository that --url opens."),
    ] = None,
    url: Annotated[bool, typer.Option("--url", help="Print a link to the filled-in form.")] = False,
    output: Output = None,
    no_redact: NoRedact = False,
    launch: Launch = None,
    config: Config = None,
    assume: Assume = None,
    _lang: Lang = None,
) -> None:
    """Draft an issue from a log; redact or shorten a log to share it.

    \b
    Examples:
      oomdoctor issue train.log -o issue.md
      oomdoctor issue train.log --form ~/src/vllm
      oomdoctor issue train.log --form bug.yml --repo vllm-project/vllm --url

    \b
    More commands:
      oomdoctor issue redact    a log without secrets and names
      oomdoctor issue reduce    the shortest excerpt that still gets the diagnosis
      oomdoctor issue draft     the diagnosis, added to a draft of your own
      oomdoctor issue form      an issue form for your repository

    The draft fills in the repository's own issue form. What the log does not show is marked "to fill in"; no box is
    ticked for you. Secrets, names and addresses are taken out; read the draft before you send it.

    Exits with 0 (a draft was written), 2 (wrong usage, or no memory failure in the log) or 70 (an error of oomdoctor
    itself).
    """
    for_others()
    if url and repo is None:
        raise typer.BadParameter(say("needs the repository: add --repo OWNER/NAME"), param_hint="--url")
    if repo is not None and not _REPOSITORY.match(repo):
        raise typer.BadParameter(
            say("{word} is not OWNER/NAME, like vllm-project/vllm", word=repr(repo)), param_hint="--repo"
        )
    if repo is not None and not url:
        raise typer.BadParameter(
            say("only works with --url: add --url, or leave out --repo for a draft"), param_hint="--repo"
        )
    wanted = _form(form, output)
    if form is not None:
        _speak_as(wanted)
    ask = _asked(paths, output, no_redact, beside(launch, config, assume, output), [*(launch or ()), *(config or ())])
    from oomdoctor.helpers import draft  # noqa: PLC0415  (not for --help)

    if repo is None:
        text = draft.document(wanted, ask)
        if not draft.fits(text):
            out.tell(say("the draft is too long for GitHub, because the form itself is; shorten the draft"))
    else:
        link = draft.link(wanted, repo, ask, is_theirs=form is not None)
        text = link.url + "\n"
        _say_what_is_missing(link)
    out.write(text, output)


def _form(given: str | None, output: str | None) -> Form:
    """The form to fill in; where there is a choice, which it is."""
    from oomdoctor.helpers import forms, our_form  # noqa: PLC0415
    from oomdoctor.sources.trouble import why  # noqa: PLC0415

    if given is None:
        return our_form.form()
    if given.startswith(("https://", "http://")):
        raise typer.BadParameter(
            say("this is a link, and oomdoctor downloads nothing: download the form and name the file"),
            param_hint="--form",
        )
    path = Path(os.path.expanduser(given))  # noqa: PTH111  (Path's fails where there is no such home)
    out.check_spares(output, [path])
    try:
        if not os.path.isdir(path):  # noqa: PTH112  (Path's fails on a long name)
            return forms.read(path)
        form, troubles = forms.choose(path)
    except forms.UnusableFormError as error:
        raise typer.BadParameter(str(error), param_hint="--form") from error
    except OSError as error:
        raise typer.BadParameter(f"{given}: {why(error)}", param_hint="--form") from error
    for trouble in troubles:
        out.tell(say("skipped: {what}", what=trouble))
    out.tell(say("the form is {file} ({name})", file=form.file, name=form.name))
    return form


def _speak_as(form: Form) -> None:
    """A draft is in one language: that of the repository's form."""
    asked = in_use()
    if form.language != asked:
        out.tell(say("{file} is in another language; the draft uses that language", file=form.file))
        use(form.language)


def _asked(
    paths: list[str] | None, output: str | None, no_redact: bool, told: Outside | None, outside: list[str]
) -> Callable[[Budget], Answers]:
    """What the logs answer, as briefly as a budget wants it."""
    from oomdoctor import street  # noqa: PLC0415
    from oomdoctor.cli.reports import facts  # noqa: PLC0415
    from oomdoctor.helpers import answers, excerpt  # noqa: PLC0415
    from oomdoctor.redaction.learned import knowing  # noqa: PLC0415

    found = facts(paths, output, absolute=False, told=told)
    sources, _ = street.gather(paths or [STDIN])
    if not found.crashes:
        out.tell(say("no memory failure found: nothing to report"))
        raise typer.Exit(NOTHING_TO_REPORT)
    for note in found.notes:
        out.tell(note)
    if len(found.crashes) > 1:
        out.tell(say("the logs hold {count} crashes; the draft is about the first", count=len(found.crashes)))
        found = _of_the_first(found, sources, told)
    report = street.report_of(found)
    lines = excerpt.lines(report, report.incidents[0], sources)
    redactor = None if no_redact else knowing(paths or [], outside)
    shared = redactor.report(report) if redactor else report
    return lambda budget: answers.answers(shared, shared.incidents[0], lines, redactor, budget)


def _of_the_first(found: Facts, sources: Sequence[Source], told: Outside | None) -> Facts:
    """What the logs say of the first crash and its job: a log that only another one stands in may be of another job."""
    from oomdoctor import street  # noqa: PLC0415

    first, *others = found.crashes
    left_out = {file for other in others for file in _failed_in(other)} - _failed_in(first)
    if left_out and all(source.path for source in sources):  # a pipe is read once
        found = street.facts_of([one for one in sources if one.name not in left_out], (), told=told)
        first = found.crashes[0]
    return replace(found, crashes=(first,), context=first.context)


def _failed_in(crash: Crash) -> set[str]:
    """The logs that its failure stands in, not those that only its consequences do."""
    return {event.at.file for event in crash.events if event.role in ("root", "confirmation")}


def _say_what_is_missing(link: Link) -> None:
    if link.is_cut:
        out.tell(
            say(
                "a link holds at most 8,192 characters: the log and the settings in it were cut; "
                "a draft without --url has all of them"
            )
        )
    if link.nameless:
        labels = "; ".join(link.nameless)
        out.tell(say("these fields have no id in the form, so GitHub may leave them empty: {labels}", labels=labels))
    if link.left_to_fill:
        out.tell(say("fill these in yourself: {labels}", labels="; ".join(link.left_to_fill)))


def issue_form(
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="FILE", show_default=False, help="Update this file; exit with 1 if it changed."),
    ] = None,
    _lang: Lang = None,
) -> None:
    """Print an issue form for memory crashes, for a repository's maintainers.

    \b
    Examples:
      oomdoctor issue form > .github/ISSUE_TEMPLATE/oom.yml
      oomdoctor issue form --keep .github/ISSUE_TEMPLATE/oom.yml
    """
    from oomdoctor.helpers import our_form  # noqa: PLC0415

    for_others()
    text = our_form.text()
    if keep is None:
        out.write(text)
        return
    path = Path(keep)
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return
        is_new = not path.exists()
        if path.parent.as_posix().endswith(PLACE):
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise out.CannotWriteError(f"{keep}: {error.strerror}") from error
    out.check_folder(keep)
    out.write(text, keep)
    if is_new:
        out.tell(say("{file}: written; check the file and add it to the commit", file=keep))
    else:
        out.tell(say("{file}: updated; check the file and add it to the commit", file=keep))
    raise typer.Exit(CHANGED)


def draft(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Markdown files that quote a log.")],
    no_redact: NoRedact = False,
    _lang: Lang = None,
) -> None:
    """Add the diagnosis to issue drafts, below the log that they quote.

    \b
    Examples:
      oomdoctor issue draft crash.md

    A draft is a Markdown file with a log in a fenced block. The diagnosis stands between two comments; running the
    command again renews it and changes nothing else.

    Exits as a pre-commit hook does: 0 (all files were up to date), 1 (a file was changed) or 2 (a file could not be
    read, written or understood).
    """
    for_others()
    raise typer.Exit(max(_refreshed(file, redact=not no_redact) for file in files))


def _refreshed(file: str, *, redact: bool) -> int:
    from oomdoctor.helpers import block  # noqa: PLC0415
    from oomdoctor.sources.trouble import why  # noqa: PLC0415

    try:
        if not block.refresh(Path(file), redact=redact):
            return 0
    except (OSError, block.BrokenMarkersError) as error:
        out.tell(f"{file}: {why(error) if isinstance(error, OSError) else error}")
        return NOTHING_TO_REPORT
    out.tell(say("{file}: diagnosis updated; check the file and add it to the commit", file=file))
    return CHANGED
