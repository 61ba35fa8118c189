"""Typer's commands without the half of their start-up that this command line has no use for."""

from __future__ import annotations

import os
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# The versions that are known to convert values with pydantic, whose import takes longer than reading a small log.
# Others are left as they are: a slower start is better than none.
_HEAVY = ((0, 26), (0, 30))


def _is_heavy(version: str) -> bool:
    release = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return _HEAVY[0] <= release < _HEAVY[1]


class AsTyped:
    """Takes a parameter's value as it was typed; all of ours are strings, lists of strings and flags."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        del ctx
        return [] if value is None and param.nargs == -1 else value


def _lighten(params: list[Any]) -> list[Any]:
    for param in params if _is_heavy(typer.__version__) else ():
        param._runtime_param = AsTyped()  # noqa: SLF001  (there is no public way)
    return params


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _lighten(super().get_params(ctx))


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _lighten(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A path where the command should stand is the commonest slip: say what to type."""
        if args[0] not in self.commands and os.path.exists(args[0]):  # noqa: PTH110  (Path's fails on a long name)
            ctx.fail(f"there is no command {args[0]!r}; to read that file: oomdoctor diagnose {args[0]}")
        return super().resolve_command(ctx, args)


def one_of(*allowed: str) -> Any:
    """A callback that turns away every other value."""

    def check(value: str) -> str:
        if value not in allowed:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(allowed)}")
        return value

    return check
