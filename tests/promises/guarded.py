"""A program that runs commands under an audit hook and tells what they did that they promise never to do.

Started as a process of its own, since a hook cannot be taken away again. On standard input it takes JSON: the commands
(each with what its standard input is), the files that may be read, those that may be written, and whether processes may
be forked. What it prints is JSON, too: the offences, each with the command; the exit codes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import sysconfig
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Whatever these are about, no diagnosis needs it.
NEVER = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.forkpty",
    "pty.", "urllib.", "http.", "ftplib.", "imaplib.", "smtplib.", "poplib.", "telnetlib.", "webbrowser.", "ctypes.",
    "shutil.", "tempfile.", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chown", "os.utime", "os.setxattr",
    "os.kill", "signal.pthread_kill", "os.putenv", "os.unsetenv", "sqlite3.", "syslog.", "builtins.input", "code.",
    "mmap.",
)  # fmt: skip
MOVES = ("os.rename", "os.remove", "os.chmod", "os.truncate")

# The libraries that write code of their own out of their own text, in these modules.
MAKES_CODE = frozenset({
    "dataclasses", "collections", "enum", "typing", "functools", "inspect", "ast", "jinja2.environment",
    "jinja2.nativetypes", "oomdoctor.catalogues", "gettext", "importlib._bootstrap", "importlib._bootstrap_external",
    "_frozen_importlib", "_frozen_importlib_external",
})  # fmt: skip
# What a copy of this process sends, beside classes of ours.
PLAIN = {
    ("builtins", "getattr"),
    ("msgspec._utils", "rebuild"),
    *(("datetime", name) for name in ("datetime", "timedelta", "timezone")),
}
LOADS_CODE = frozenset({"importlib._bootstrap_external", "_frozen_importlib_external", "zipimport"})


class Forbidden(BaseException):
    """Not an Exception, so that nobody takes it for an error of a file."""


class Guard:
    """What is allowed, and what was done that is not."""

    def __init__(self, readable: list[str], writable: list[str], *, forks: bool) -> None:
        self.offences: list[dict[str, str]] = []
        self.command = ""
        self._readable = [os.path.realpath(path) for path in (*readable, *writable, *_code())]
        self._writable = {os.path.realpath(path) for path in writable}
        self._forks = forks
        self._inside = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._inside or not self.command:
            return
        self._inside = True
        try:
            why = self._why_not(event, arguments)
        finally:
            self._inside = False
        if why is not None:
            self.offences.append({"command": self.command, "event": event, "what": why})
            raise Forbidden(event, why)

    def _why_not(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        if event == "os.kill" and self._forks and arguments[1] == signal.SIGTERM:
            return None  # a copy of ours that is not needed any more
        if event.startswith(NEVER) or (event == "os.fork" and not self._forks):
            return repr(arguments)[:200]
        if event == "open":
            return self._opening(*arguments)
        if event in MOVES:
            return None if all(self._may_write(path) for path in _paths(arguments)) else repr(arguments)
        if event in ("os.listdir", "os.scandir"):
            return None if self._may_read(arguments[0]) else repr(arguments)
        if event in ("compile", "exec"):
            return None if _caller() in MAKES_CODE else f"{_caller()}: {arguments[0]!r:.200}"
        if event == "marshal.loads":
            return None if _caller() in LOADS_CODE else _caller()
        if event == "pickle.find_class":
            ours = arguments[0].startswith("oomdoctor.") or arguments in PLAIN
            return None if self._forks and ours else repr(arguments)
        return None

    def _opening(self, path: Any, mode: str | None, flags: int) -> str | None:
        if isinstance(path, int):
            return None
        writes = bool(flags & WRITING) or bool(mode and set(mode) & set("wax+"))
        allowed = self._may_write(path) if writes else self._may_read(path)
        return None if allowed else f"{path!r} {mode} {flags:#o}"

    def _may_read(self, path: Any) -> bool:
        real = os.path.realpath(os.fsdecode(path if path is not None else "."))
        return real == os.devnull or any(real == one or real.startswith(one + os.sep) for one in self._readable)

    def _may_write(self, path: Any) -> bool:
        """The file that was named, or one beside it that is to take its place."""
        real = Path(os.path.realpath(os.fsdecode(path)))
        beside = real.name.startswith(".oomdoctor-") and real.name.endswith(".part")
        folders = {str(Path(named).parent) for named in self._writable}
        return str(real) in {*self._writable, os.devnull} or (beside and str(real.parent) in folders)


def _paths(arguments: tuple[Any, ...]) -> list[Any]:
    return [one for one in arguments if isinstance(one, str | bytes | os.PathLike)]


def _code() -> set[str]:
    """Where the code that runs comes from."""
    import oomdoctor

    package = Path(oomdoctor.__file__).parent
    found = {sys.prefix, sys.base_prefix, str(package), str(package.parent / "grammars")}
    return found | {path for path in sysconfig.get_paths().values() if Path(path).is_dir()}


def _caller() -> str:
    """The module that does it, behind the hook."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back  # type: ignore[assignment]
    return str(frame.f_globals.get("__name__")) if frame is not None else ""


def _run(arguments: list[str], given: str | None) -> int:
    from oomdoctor.cli import out
    from oomdoctor.cli.app import app

    source = os.open(given or os.devnull, os.O_RDONLY)
    os.dup2(source, 0)
    os.close(source)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (it stays for the command)
    sys.stdout, sys.stderr = TextIOWrapper(BytesIO(), "utf-8"), TextIOWrapper(BytesIO(), "utf-8")
    try:
        app(arguments, prog_name="oomdoctor")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except out.CannotWriteError:
        return 2
    return 0


def _snippet(code: str) -> Callable[[], None]:
    """What the guard itself is tested with."""
    names: dict[str, Any] = {"__name__": "offender"}
    exec(f"def offend():\n    {code}\n", names)
    offend: Callable[[], None] = names["offend"]
    return offend


def main() -> None:
    told = json.load(sys.stdin)
    guard = Guard(told["readable"], told["writable"], forks=told.get("forks", False))
    if told.get("large"):
        from oomdoctor.reading import parallel

        parallel.FULL, parallel.cores = 1, lambda: 2  # type: ignore[misc]
    ours, codes = sys.stdout, {}
    works = {" ".join(one["arguments"]): one for one in told.get("commands", ())}
    snippets = {code: _snippet(code) for code in told.get("snippets", ())}
    sys.addaudithook(guard)
    for name, one in works.items():
        guard.command = name
        try:
            codes[name] = _run(one["arguments"], one.get("stdin"))
        except Forbidden:
            codes[name] = -1
        finally:
            guard.command = ""
    for name, snippet in snippets.items():
        guard.command = name
        try:
            snippet()
        except BaseException:  # noqa: BLE001  (the hook has it on its list)
            pass
        finally:
            guard.command = ""
    ours.write(json.dumps({"offences": guard.offences, "codes": codes}))
    ours.flush()


if __name__ == "__main__":
    main()
