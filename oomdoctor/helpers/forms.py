"""A repository's issue form (GitHub's form schema) or Markdown template, read as what it asks for.

It is other people's text: YAML without tags, types or aliases, of bounded size and depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from msgspec import Struct

from oomdoctor.language import CHINESE, ENGLISH, say
from oomdoctor.patterns import late
from oomdoctor.sources.source import opened
from oomdoctor.sources.trouble import UnreadableError, why
from oomdoctor.text import sanitize

Kind = Literal["markdown", "input", "textarea", "dropdown", "checkboxes"]
KINDS: Final = get_args(Kind)
LARGEST: Final = 64 * 1024  # bytes; the largest forms in use have a tenth of it
DEEPEST: Final = 16  # lists and maps inside each other; the form schema needs five
MOST_FIELDS: Final = 200
LONGEST_LABEL: Final = 300

_ID: Final = late(r"[A-Za-z0-9_-]{1,100}\Z")
_FRONT: Final = late(r"---[ \t]*\n(.*?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_HEADING: Final = late(r"#{1,6}[ \t]{1,8}(\S.{0,299})")
_SPOKEN: Final = late(r"\*{1,2}([^*\n]{2,200})\*{1,2}:?[ \t]*\Z")
_CHINESE: Final = late("[\u4e00-\u9fff]")
_FENCE: Final = late(r" {0,3}(`{3,}|~{3,})")


class UnusableFormError(ValueError):
    """The form cannot be used; the text says which, where and why."""


class Field(Struct, frozen=True, kw_only=True):
    """One element of a form, or one section of a template."""

    kind: Kind
    label: str = ""
    id: str | None = None
    description: str = ""
    placeholder: str = ""
    value: str = ""  # what stands in it before anybody writes
    render: str | None = None  # the language of the code block that GitHub makes of the answer
    options: tuple[str, ...] = ()
    multiple: bool = False
    default: str | None = None  # the option that is chosen before anybody does
    required: bool = False


class Form(Struct, frozen=True, kw_only=True):
    """What a new issue is asked for."""

    file: str  # its own name, as `template=` in a link wants it
    name: str
    description: str = ""
    title: str = ""
    labels: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    is_template: bool = False  # Markdown with headings instead of a form
    opening: str = ""  # of a template: what stands before its first heading

    @property
    def language(self) -> str:
        """The one that it asks in: what is filled in is said in it, too."""
        labels = [field.label for field in self.fields if field.label]
        return CHINESE if 2 * sum(bool(_CHINESE.search(label)) for label in labels) > len(labels) else ENGLISH


def read(path: Path) -> Form:
    """The form in that file."""
    return parse(_text(path), path.name)


def _text(path: Path) -> str:
    try:
        with opened(path) as stream:
            data = stream.read(LARGEST + 1)
    except (OSError, UnreadableError) as error:
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise UnusableFormError(say("{file}: {why}; name a form with --form", file=path, why=reason)) from error
    if len(data) > LARGEST:
        raise UnusableFormError(
            say(
                "{file} is larger than {size} KiB, too large for an issue form; name another file",
                file=path,
                size=LARGEST // 1024,
            )
        )
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnusableFormError(
            say("{file}: byte {number} is not UTF-8; save it as UTF-8", file=path, number=error.start)
        ) from error


def parse(text: str, file: str) -> Form:
    """The form that a file of this name holds."""
    suffix = Path(file).suffix.lower()
    if suffix in (".yml", ".yaml"):
        return _form(_yaml(text, file), file)
    if suffix in (".md", ".markdown"):
        return _template(text, file)
    raise UnusableFormError(
        say("{file}: an issue form ends in .yml or .yaml, a template in .md; name one of these", file=file)
    )


def _yaml(text: str, file: str, first_line: int = 1) -> Any:
    """The document as maps, lists and texts: nothing is resolved, so that `on`, `1.10` and dates stay what they are."""
    import yaml  # noqa: PLC0415  (only for forms)

    class Loader(yaml.BaseLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            here: Any = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            if self.check_event(yaml.AliasEvent):
                why = say("an alias (*name) is not supported; write the text out")
                raise yaml.MarkedYAMLError(problem=why, problem_mark=here)
            self.depth += 1
            if self.depth > DEEPEST:
                why = say("nested more than {count} levels deep", count=DEEPEST)
                raise yaml.MarkedYAMLError(problem=why, problem_mark=here)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    try:
        return yaml.load(text, Loader)  # noqa: S506  (makes maps, lists and texts only)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = sanitize(error.problem or say("it cannot be read"), 200)
        if mark:
            line = mark.line + first_line
            told = say("{file}, line {number}: invalid YAML: {why}", file=file, number=line, why=problem)
        else:
            told = say("{file}: invalid YAML: {why}", file=file, why=problem)
        raise UnusableFormError(told) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UnusableFormError(say("{file}: invalid YAML: {why}", file=file, why=sanitize(str(error), 200))) from error


def _form(data: Any, file: str) -> Form:
    if not isinstance(data, dict):
        raise UnusableFormError(say("{file} is not an issue form: it needs name, description and body", file=file))
    body = data.get("body")
    if not isinstance(body, list) or not body:
        if file.startswith("config."):
            raise UnusableFormError(
                say(
                    "{file} has no body with fields; config.yml only lists the forms: name one of them",
                    file=file,
                )
            )
        raise UnusableFormError(say("{file} has no body with fields", file=file))
    if len(body) > MOST_FIELDS:
        raise UnusableFormError(
            say("{file} has more than {count} fields; name a smaller form", file=file, count=MOST_FIELDS)
        )
    fields = tuple(_field(one, f"{file}: body[{number}]") for number, one in enumerate(body))
    if all(one.kind == "markdown" for one in fields):
        raise UnusableFormError(say("{file} has no field to fill in, only text; name another form", file=file))
    return Form(
        file=file,
        name=_line(data.get("name")) or file,
        description=_line(data.get("description")),
        title=_text_of(data.get("title")),
        labels=_names(data.get("labels")),
        fields=fields,
    )


def _field(one: Any, where: str) -> Field:
    """One element; `where` is spelled as GitHub spells it in its own complaints."""
    if not isinstance(one, dict):
        raise UnusableFormError(say("{file}: a field needs type and attributes", file=where))
    kind = one.get("type")
    if kind not in KINDS:
        kinds = ", ".join(KINDS)
        if kind is None:
            raise UnusableFormError(say("{file} has no type; known: {kinds}", file=where, kinds=kinds))
        named = repr(sanitize(str(kind), 60))
        raise UnusableFormError(
            say("{file} has the unknown type {type}; known: {kinds}", file=where, type=named, kinds=kinds)
        )
    attributes = one.get("attributes")
    if not isinstance(attributes, dict):
        raise UnusableFormError(say("{file}: {kind} has no attributes", file=where, kind=kind))
    label = _line(attributes.get("label"))[:LONGEST_LABEL]
    if not label and kind != "markdown":
        raise UnusableFormError(say("{file}: {kind} has no label", file=where, kind=kind))
    identifier = one.get("id")
    validations = one.get("validations")
    options = tuple(_options(attributes.get("options"), f"{where}: {kind}"))
    if kind in ("dropdown", "checkboxes") and not options:
        raise UnusableFormError(say("{file}: {kind} has no options", file=where, kind=kind))
    return Field(
        kind=cast("Kind", kind),
        label=label,
        id=identifier if isinstance(identifier, str) and _ID.match(identifier) else None,
        description=_text_of(attributes.get("description")),
        placeholder=_text_of(attributes.get("placeholder")),
        value=_text_of(attributes.get("value")).strip("\n"),
        render=_line(attributes.get("render")) or None,
        options=options,
        multiple=_is_true(attributes.get("multiple")),
        default=_default(attributes.get("default"), options),
        required=isinstance(validations, dict) and _is_true(validations.get("required")),
    )


def _options(options: Any, where: str) -> Iterator[str]:
    if options is None:
        return
    if not isinstance(options, list) or len(options) > MOST_FIELDS:
        raise UnusableFormError(say("{file}: options must be a list of at most {count}", file=where, count=MOST_FIELDS))
    for option in options:
        text = option.get("label") if isinstance(option, dict) else option
        if not isinstance(text, str) or not text.strip():
            raise UnusableFormError(say("{file}: an option has no text", file=where))
        yield _line(text)


def _default(index: Any, options: Sequence[str]) -> str | None:
    at_hand = isinstance(index, str) and index.isascii() and index.isdecimal() and len(index) < 4
    return options[int(index)] if at_hand and int(index) < len(options) else None


def _line(value: Any) -> str:
    return sanitize(value).strip() if isinstance(value, str) else ""


def _text_of(value: Any) -> str:
    return "\n".join(sanitize(line) for line in value.split("\n")) if isinstance(value, str) else ""


def _names(value: Any) -> tuple[str, ...]:
    """A list, or names with commas between."""
    names = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    return tuple(name for name in map(_line, names) if name)


def _is_true(value: Any) -> bool:
    return isinstance(value, str) and value.lower() == "true"


def _template(text: str, file: str) -> Form:
    """Markdown: front matter, then sections. What stands in a section before anybody writes is its value."""
    front = _FRONT.match(text)
    head = _yaml(front[1] or "", file, first_line=2) if front else {}
    about: Mapping[str, Any] = head if isinstance(head, dict) else {}
    opening, sections = _sections(text[front.end() :] if front else text, file)
    if not sections:
        raise UnusableFormError(say("{file} has no headings to fill in; name another form", file=file))
    return Form(
        file=file,
        name=_line(about.get("name")) or file,
        description=_line(about.get("about")),
        title=_text_of(about.get("title")),
        labels=_names(about.get("labels")),
        fields=sections,
        is_template=True,
        opening=opening,
    )


def _sections(text: str, file: str) -> tuple[str, tuple[Field, ...]]:
    heading, lines = "", list[str]()
    parts = [(heading, lines)]
    fence = ""
    for line in (sanitize(line) for line in text.split("\n")):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1].startswith(fence) and line.strip() == mark[1])):
            fence = "" if fence else mark[1]
        if not fence and (_HEADING.match(line) or _SPOKEN.match(line)):
            heading, lines = line, []
            parts.append((heading, lines))
        else:
            lines.append(line)
    if len(parts) > MOST_FIELDS:
        raise UnusableFormError(
            say("{file} has more than {count} headings; name a smaller template", file=file, count=MOST_FIELDS)
        )
    opening = "\n".join(parts[0][1]).strip("\n")
    texts = [(heading.rstrip(), "\n".join(lines).strip("\n")) for heading, lines in parts[1:]]
    return opening, tuple(Field(kind="textarea", label=heading, value=text) for heading, text in texts)


def choose(folder: Path) -> tuple[Form, tuple[str, ...]]:
    """The form of a folder (or of a checkout) that asks for a crash, and what else there is or cannot be read."""
    found = next((place for place in _places(folder) if place.is_dir()), None)
    files = sorted(p for p in found.iterdir() if _may_be_a_form(p)) if found else []
    if not files:
        single = [p for p in (folder / ".github/ISSUE_TEMPLATE.md", folder / "ISSUE_TEMPLATE.md") if p.is_file()]
        if not single:
            raise UnusableFormError(
                say(
                    "{folder} holds no issue form (.github/ISSUE_TEMPLATE/*.yml or *.md); name one with --form",
                    folder=folder,
                )
            )
        files = single
    read_ones = [_form_or_trouble(file) for file in files[:MOST_FIELDS]]
    forms = [one for one in read_ones if isinstance(one, Form)]
    troubles = tuple(one for one in read_ones if isinstance(one, str))
    if not forms:
        raise UnusableFormError(say("{folder} holds no usable form: {why}", folder=folder, why=troubles[0]))
    return max(forms, key=_fits), troubles


def _form_or_trouble(file: Path) -> Form | str:
    try:
        return read(file)
    except UnusableFormError as error:
        return str(error)


def _places(folder: Path) -> Iterator[Path]:
    yield from (folder / place for place in (".github/ISSUE_TEMPLATE", "ISSUE_TEMPLATE", "docs/ISSUE_TEMPLATE"))
    yield folder


def _may_be_a_form(path: Path) -> bool:
    if path.stem.lower() == "config" or path.is_symlink() or not path.is_file():
        return False
    if path.suffix.lower() in (".yml", ".yaml"):
        return True
    with path.open("rb") as stream:  # a template names itself in its front matter; other Markdown is a page
        return path.suffix.lower() == ".md" and stream.read(4).rstrip() == b"---"


# What a form's name says of it, the best first.
_FITTING: Final = (
    (r"\boom\b|out.of.memory|memory.crash", 6),
    (r"\bcrash", 4),
    (r"\bbug\b", 3),
    (r"problem|failure|error|issue report", 2),
    (r"question|usage|help|train", 1),
    (r"feature|documentation|\bdocs?\b|\brfc\b|new.model|proposal|security|\bci\b|release|performance|install", -3),
)


def _fits(form: Form) -> int:
    """How well it fits a crash, by its file's and its own name, then by its labels and what it says of itself."""
    name = f"{form.file} {form.name}".lower().replace("_", " ")
    about = f"{form.description} {' '.join(form.labels)}".lower()
    by_name = sum(points for pattern, points in _FITTING if re.search(pattern, name))
    return 4 * by_name + sum(points for pattern, points in _FITTING if re.search(pattern, about))
