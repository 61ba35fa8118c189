"""A page of Markdown on a terminal, as rich draws it; in Chinese a line may end between two signs."""

from __future__ import annotations

import io

from rich.console import Console, JustifyMethod, OverflowMethod
from rich.containers import Lines
from rich.markdown import Markdown, MarkdownContext, Paragraph
from rich.text import Text

from oomdoctor.columns import breaks
from oomdoctor.language import ENGLISH, in_use


class _Words(Text):
    def wrap(
        self,
        console: Console,
        width: int,
        *,
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        tab_size: int = 8,
        no_wrap: bool | None = None,
    ) -> Lines:
        del console, justify, overflow, no_wrap
        lines = Lines()
        for line in self.split(allow_blank=True):
            line.expand_tabs(tab_size)
            parts = line.divide(breaks(line.plain, width))
            for part in parts:
                part.rstrip_end(width)
            lines.extend(parts)
        return lines


class _Unbroken(Paragraph):
    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = _Words()


class _Chinese(Markdown):
    elements = {**Markdown.elements, "paragraph_open": _Unbroken}  # noqa: RUF012  (as rich has it)


def drawn(markdown: str, *, width: int, color: bool) -> str:
    canvas = io.StringIO()
    console = Console(
        file=canvas,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print((Markdown if in_use() == ENGLISH else _Chinese)(markdown))
    return "".join(line.rstrip() + "\n" for line in canvas.getvalue().splitlines())
