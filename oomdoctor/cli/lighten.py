"""Typer without pydantic, whose import takes as long as all the rest of a small log's diagnosis."""

from __future__ import annotations

from typing import Any, Final

import typer

# The versions of Typer that are known to convert values with it. Others are left as they are: a slower start is better
# than none.
CONVERTS_WITH_PYDANTIC: Final = ((0, 26), (0, 30))


class NoConversion:
    """Takes a parameter's value as it was typed; all of ours are strings, lists of strings and flags."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        del ctx
        return [] if value is None and param.nargs == -1 else value


def converts_with_pydantic(version: str) -> bool:
    first, after = CONVERTS_WITH_PYDANTIC
    return first <= tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < after


def skip_pydantic(params: list[Any]) -> list[Any]:
    """The parameters, whose values are not converted."""
    for param in params if converts_with_pydantic(typer.__version__) else ():
        param._runtime_param = NoConversion()  # noqa: SLF001  (there is no public way)
    return params
