"""A progress bar on standard error, where somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def steps(what: str, count: int) -> Iterator[Callable[[], None]]:
    """What to call after each step."""
    from rich.console import Console  # noqa: PLC0415  (not for --help)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:  # rich before 15 ends a bar with an empty line, even one that it does not show
        yield lambda: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=count)
        yield lambda: progress.advance(task)
