"""A command that does nothing: the floor under every start of a program made of typer, rich and lark."""

from pathlib import Path

import lark  # noqa: F401
import rich.console
import typer


def main(path: Path) -> None:
    rich.console.Console().print(path.name)


if __name__ == "__main__":
    typer.run(main)
