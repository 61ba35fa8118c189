"""The documentation site: `python docs/build.py [FOLDER]` (build/docs unless another is given). Needs the extra `docs`.

The pages beside this file are plain Markdown. What is said elsewhere already is not said again, but taken from there:

    <!-- include CHANGELOG.md # Unreleased -->        what stands under a heading, up to the next one
    <!-- include README.md # oomdoctor and below -->  ... with what stands under its subheadings
    <!-- code action.yml yaml -->                     a file
    <!-- help issue draft -->                         a command's help

A line in _italics_ right below is for who reads the pages in the repository; so are README.md beside this file and the
pages in Chinese (*.zh-CN.md). The reference follows from the package (reference.py). Links are kept where their target
is on the site, and their words where it is not.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

HERE: Final = Path(__file__).parent
TOP: Final = HERE.parent
sys.path[:0] = [str(HERE), str(TOP)]

import reference  # noqa: E402  (from this folder, about the package of this checkout)

_INCLUDE: Final = re.compile(r"^<!-- include (\S+) # (.+?)( and below)? -->$", re.MULTILINE)
_CODE: Final = re.compile(r"^<!-- code (\S+) (\w+) -->$", re.MULTILINE)
_HELP: Final = re.compile(r"^<!-- help ([\w -]+) -->$", re.MULTILINE)
_MEANWHILE: Final = re.compile(r"(?<= -->)\n_[^\n]+_$", re.MULTILINE)
_FENCED: Final = re.compile(r"(^(`{3,}).*?^\2$)", re.MULTILINE | re.DOTALL)
_SPAN: Final = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_HEADING: Final = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")
_ELSEWHERE: Final = re.compile(r'<(?:script|link|img)[^>]*?\b(?:src|href)="?(?:https?:)?//(?!www\.example\.com)')

Places = Mapping[tuple[str, str], str]  # a file of the repository and a heading's slug in it → where the site has it


def pages() -> dict[str, str]:
    """All pages of the site as Markdown, by their places in it."""
    files = {path.relative_to(HERE).as_posix(): path for path in HERE.rglob("*.md") if _on_the_site(path)}
    written = {name: _MEANWHILE.sub("", path.read_text(encoding="utf-8")) for name, path in files.items()}
    places = {(source, ""): name for source, name in reference.SOURCES.items()} | dict(_places(written))
    generated = reference.pages()
    known = {*written, *generated}
    found = {name: _whole(name, text, places, known) for name, text in written.items()}
    return found | generated


def _on_the_site(path: Path) -> bool:
    return path != HERE / "README.md" and not path.name.endswith(".zh-CN.md")


def _places(written: Mapping[str, str]) -> Iterator[tuple[tuple[str, str], str]]:
    for name, text in written.items():
        for include in _INCLUDE.finditer(text):
            file, heading, below = include.groups()
            before = headings(text[: include.start()])
            yield (file, slug(heading)), f"{name}#{before[-1]}" if len(before) > 1 else name
            if slug(heading) == headings((TOP / file).read_text(encoding="utf-8"))[0]:
                yield (file, ""), name  # which begins as the file does
            for inside in headings(section(file, heading, below=bool(below))):
                yield (file, inside), f"{name}#{inside}"


def _whole(name: str, text: str, places: Places, known: set[str]) -> str:
    """A page with all that it takes from elsewhere."""

    def included(include: re.Match[str]) -> str:
        file, heading, below = include.groups()
        return _relinked(section(file, heading, below=bool(below)), file, name, places, known)

    def code(of: re.Match[str]) -> str:
        return f"```{of[2]}\n{(TOP / of[1]).read_text(encoding='utf-8').rstrip()}\n```"

    text = _relinked(text, f"docs/{name}", name, places, known)
    text = _HELP.sub(lambda of: f"```text\n{reference.said(*of[1].split(), '--help').rstrip()}\n```", text)
    return _CODE.sub(code, _INCLUDE.sub(included, text))


def section(file: str, heading: str, *, below: bool) -> str:
    """What stands under a heading, its subheadings raised to follow a page's title."""
    text = (TOP / file).read_text(encoding="utf-8")
    found = [match for match in _HEADING.finditer(_without_code(text)) if match[2] == heading]
    if not found:
        raise SystemExit(f"{file} has no heading {heading!r}")
    level = len(found[0][1])
    others = (match for match in _HEADING.finditer(_without_code(text), found[0].end()))
    end = next((match.start() for match in others if not below or len(match[1]) <= level), len(text))
    body = text[found[0].end() : end].strip() + "\n"
    return _outside_code(body, lambda part: _HEADING.sub(lambda m: f"{m[1][level - 1 :]} {m[2]}", part))


def _relinked(text: str, origin: str, page: str, places: Places, known: set[str]) -> str:
    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if "://" in target:
            return match[0]
        path, _, anchor = target.partition("#")
        file = normpath(PurePosixPath(origin).parent / path) if path else origin
        there = places.get((file, anchor)) or places.get((file, ""))
        if file.startswith("docs/") and file.removeprefix("docs/") in known:
            there = target if not path else file.removeprefix("docs/") + (f"#{anchor}" if anchor else "")
        if there is None:
            return words
        to, _, at = there.partition("#")
        near = relpath(to, PurePosixPath(page).parent) if to and to != page else ""
        return f"[{words}]({near}{'#' + at if at else ''})" if near or at else words

    return _outside_code(text, lambda part: _LINK.sub(link, part))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts = _FENCED.split(text)
    # plain, fenced, its fence, plain, ...
    return "".join(change(part) if n % 3 == 0 else part for n, part in enumerate(parts) if n % 3 != 2)


def _without_code(text: str) -> str:
    """With blanks where code is."""
    return _FENCED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def headings(text: str) -> list[str]:
    """The slugs of the headings, in order."""
    return [slug(match[2]) for match in _HEADING.finditer(_without_code(text))]


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def broken(site: Mapping[str, str]) -> Iterator[str]:
    """Links to pages and headings that are not there."""
    anchors = {name: {*headings(text)} for name, text in site.items() if name.endswith(".md")}
    for name in anchors:
        for words, target in _LINK.findall(_SPAN.sub("code", _without_code(site[name]))):
            path, _, anchor = target.partition("#")
            to = normpath(PurePosixPath(name).parent / path) if path else name
            if "://" not in target and (to not in site or (anchor and anchor not in anchors.get(to, ()))):
                yield f"{name}: [{words}]({target})"


def write(to: Path, site: Mapping[str, str]) -> None:
    """What the site is built from."""
    shutil.rmtree(to, ignore_errors=True)
    for name, text in site.items():
        path = to / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copy(HERE / "zensical.toml", to)


def main(to: Path) -> None:
    site = pages()
    if problems := list(broken(site)):
        raise SystemExit("\n".join(problems))
    write(to, site)
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean"], cwd=to, check=True)
    outside = [path for path in (to / "site").rglob("*.html") if _ELSEWHERE.search(path.read_text(encoding="utf-8"))]
    if outside:
        raise SystemExit(f"something is loaded from elsewhere: {', '.join(map(str, outside[:5]))}")
    sys.stdout.write(f"The pages: {to / 'site' / 'index.html'}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "build" / "docs"))
