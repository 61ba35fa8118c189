"""What is kept of nodes that are gone: folders, files and archives of this machine, or wherever fsspec reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

from oomdoctor.language import say
from oomdoctor.sources import Found, look, recognised, shown
from oomdoctor.sources.trouble import Trouble, why

INSTALL: Final = "pip install 'oomdoctor[remote]'"


@contextmanager
def archived(paths: Sequence[str]) -> Iterator[Found]:
    """The logs behind these paths and addresses. What lies elsewhere is copied into a temporary folder meanwhile."""
    with ExitStack() as stack:
        found = Found([], [], Counter())
        taken: Counter[str] = Counter()
        for path in paths:
            try:
                here = _fetched(path, Path(stack.enter_context(_folder()))) if "://" in path else path
            except FetchError as error:
                found.troubles.append(Trouble(shown(path), str(error)))
                continue
            _add(found, look([here]), _label(path, taken))
        yield found


class FetchError(Exception):
    """What lies elsewhere could not be copied; the text says why."""


def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="oomdoctor-")


def _label(path: str, taken: Counter[str]) -> str:
    name = shown(PurePosixPath(path.rstrip("/")).name) or "archived"
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}-{taken[name]}"


def _add(whole: Found, found: Found, label: str) -> None:
    for source in found.sources:
        if source.name.partition("/")[0] != label:
            source.name = f"{label}/{source.name}"
    whole.sources.extend(found.sources)
    whole.troubles.extend(found.troubles)
    if whole.left_out is not None:
        whole.left_out.update(found.left_out or ())


def _fetched(address: str, folder: Path) -> str:
    """Copies of what may be a log there, with the same names."""
    if find_spec("fsspec") is None:
        raise FetchError(say("reading it needs fsspec, which is not installed: {command}", command=INSTALL))
    import fsspec  # noqa: PLC0415  (few logs lie elsewhere)

    try:
        there, root = fsspec.core.url_to_fs(address)
        if there.isfile(root):
            return str(_copied(there, root, folder / PurePosixPath(root).name))
        files = there.find(root)
        if not files:
            raise FetchError(why(FileNotFoundError()))
        for file in files:
            name = PurePosixPath(file).relative_to(PurePosixPath(root))
            if _may_be_a_log(name):
                _copied(there, file, folder.joinpath(*name.parts))
    except (OSError, ValueError, ImportError, RuntimeError) as error:  # s3:// and others need packages of their own
        raise FetchError(shown(str(error) or type(error).__name__)) from error
    return str(folder)


def _may_be_a_log(name: PurePosixPath) -> bool:
    skipped = any(part == ".." or recognised.skips(part) for part in name.parts[:-1])
    return not skipped and recognised.not_by_name(name) is None


def _copied(there: Any, path: str, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    there.get_file(path, str(to))
    return to
