"""The draft of an issue: a form's fields filled with what the log tells, the rest marked; or a link that opens it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from oomdoctor.helpers.answers import FULL, Answer, Answers, Budget, folded
from oomdoctor.helpers.asked import TOPICS, places, topic
from oomdoctor.helpers.forms import Field, Form
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.report import as_markdown, markup
from oomdoctor.text import sanitize
from oomdoctor.versions import Version, version_of

# How our form, also where it is kept in a repository, marks an issue: only where it is one of memory.
OF_MEMORY: Final = "[OOM]"
LABEL_OF_MEMORY: Final = "out-of-memory"
LONGEST_TITLE: Final = 256
LONGEST_LINK: Final = 8_192  # bytes; GitHub answers a longer one with 414
LONGEST_HINT: Final = 200
_SECTIONS: Final = {"happened": mark("What happened"), "diagnosis": mark("Diagnosis"), "log": mark("Log")}
_END_OF_COMMENT: Final = late(r"(?<!-)-{2,}!?>")
_RELEASE: Final = late(r"v?(\d{1,4}(?:\.\d{1,4}){0,3})(?:\.[x*])?")
_BESIDE_A_NAME: Final = frozenset({"version", "of", "the", "your", "which", "installed", "used"})
_TICKS: Final = late("`{3,}")
_PLACEHOLDER: Final = late(r"\s{0,4}<[^<>\n]{0,80}(?i:title|summary|description|describe)[^<>\n]{0,80}>\s{0,4}\Z")

# What a link gives up, step by step, until it fits. The sentences and the fingerprint are given up last.
SHORTER: Final = (
    FULL,
    *(
        Budget(log=log, settings=settings, words=words)
        for log, settings, words in (
            (5_000, 60, 2_000),
            (3_500, 40, 1_200),
            (2_000, 25, 1_000),
            (1_000, 10, 600),
            (400, 0, 400),
            (0, 0, 200),
        )
    ),
)
Ask = Callable[[Budget], Answers]
Labels = tuple[str, ...]


class Filled(Struct, frozen=True):
    """A field and what goes into it; None where the person has to fill it in."""

    field: Field
    answer: str | None
    is_part: bool = False  # the person has to add something


class Link(Struct, frozen=True):
    url: str
    is_cut: bool
    left_to_fill: Labels  # the fields that the link does not fill
    nameless: Labels  # those that it fills by their labels, for want of an id


def title(form: Form, told: Answers) -> str:
    """As the form begins it, then what ran out."""
    begun = _PLACEHOLDER.sub(" ", sanitize(form.title)) if form.title else ""
    if not told.of_memory:
        begun = begun.removeprefix(OF_MEMORY)
    return f"{begun}{told.title}"[:LONGEST_TITLE].strip()


def labels(form: Form, told: Answers) -> Labels:
    """The form's, as far as they are true."""
    return tuple(label for label in form.labels if told.of_memory or label != LABEL_OF_MEMORY)


def body(form: Form, told: Answers) -> str:
    """The issue as GitHub makes it of the form, what is left to fill in marked in comments that nobody is shown."""
    fields, rest = _filled(form, told)
    sections = [_section(form, one) for one in fields]
    sections += [f"### {translated(_SECTIONS[name])}\n\n{answer.markdown}" for name, answer in rest.items()]
    opening = [form.opening] if form.opening else []
    return "\n\n".join([*opening, *sections]) + "\n"


def document(form: Form, ask: Ask) -> str:
    """The draft as a file: the title, the labels, and as much as GitHub takes."""
    for budget in SHORTER:
        told = ask(budget)
        head = [say("Title: {title}", title=title(form, told))]
        if fitting := labels(form, told):
            head.append(say("Labels: {labels}", labels=", ".join(fitting)))
        text = "\n".join(comment(line) for line in head) + "\n\n" + body(form, told)
        if fits(text):
            break
    return text


def fits(text: str) -> bool:
    """Whether GitHub takes it as the body of an issue."""
    return as_markdown.size(text) <= as_markdown.LIMIT


def _filled(form: Form, told: Answers) -> tuple[list[Filled], dict[str, Answer]]:
    """Every field with its answer, and the answers that no field takes."""
    where = places(form.fields)
    parts: dict[int, list[Answer]] = {}
    whole: set[int] = set()  # the fields whose own question is answered, whatever else stands in them
    rest: dict[str, Answer] = {}
    for name in TOPICS:
        answer = told.by_topic.get(name)
        place = where.get(name)
        if answer is None or name not in where:
            continue
        if place is None:
            rest[name] = answer
        else:
            parts.setdefault(place, []).append(answer)
            if topic(form.fields[place]) == "more" or (topic(form.fields[place]) == name and not answer.is_part):
                whole.add(place)
    fields = [
        Filled(field, _answer(field, parts.get(number, []), told), number in parts.keys() - whole)
        for number, field in enumerate(form.fields)
        if field.kind != "markdown"
    ]
    return fields, rest


def _answer(field: Field, parts: list[Answer], told: Answers) -> str | None:
    if field.kind == "dropdown":
        return _proven(field, told)
    if field.kind == "input" and not parts:
        return _version(field, told)
    if field.kind == "checkboxes" or not parts:
        return None
    if field.kind == "input":
        return ", ".join(", ".join(part.plain.split("\n")) for part in parts)
    if field.render:
        return "\n\n".join(part.plain for part in parts)
    return _joined([part.markdown for part in parts])


def _joined(parts: list[str]) -> str:
    """Parts one under the other; lists become one list, which says behind other words what it is."""
    text = ""
    for part in parts:
        is_list = part.startswith("- ")
        if not text:
            text = part
        elif is_list and text.rpartition("\n")[2].startswith("- "):
            text += f"\n{part}"
        else:
            text += "\n\n" + (say("The log names:") + "\n\n" if is_list else "") + part
    return text


def _version(field: Field, told: Answers) -> str | None:
    """The printed version of the framework that the label names: "vLLM version", "Version of PyTorch"."""
    return told.versions.get(_versioned(field))


def _versioned(field: Field) -> str:
    """The framework whose version the label asks for."""
    words = folded(field.label).rstrip("?: ").split()
    names = [word for word in words if word not in _BESIDE_A_NAME]
    return names[0] if len(names) == 1 and "version" in words else ""


def _proven(field: Field, told: Answers) -> str | None:
    """The one option that says what the log proves."""
    version = _version(field, told)
    wanted = told.options | {folded(version) for version in (version,) if version}
    chosen = [option for option in field.options if folded(option) in wanted]
    if not chosen and version:
        releases = {option: _release_in(option, _versioned(field), version) for option in field.options}
        nearest = max(releases.values())
        chosen = [option for option, release in releases.items() if release and release == nearest]
    return chosen[0] if len(chosen) == 1 else None


def _release_in(option: str, name: str, version: str) -> Version:
    """The release of an option ("2.5", "v2.5.x", "PyTorch 2.5") that the version is of; else none."""
    named = _RELEASE.fullmatch(folded(option).removeprefix(f"{name} "))
    release = tuple(int(part) for part in named[1].split(".")) if named else ()
    return release if release == (version_of(version) or ())[: len(release)] else ()


def _section(form: Form, one: Filled) -> str:
    field = one.field
    heading = field.label if form.is_template else f"### {field.label}"
    if field.kind == "checkboxes":
        boxes = "\n".join(f"- [ ] {option}" for option in field.options)
        return f"{heading}\n\n{boxes}"
    return f"{heading}\n\n" + "\n\n".join(_content(form, one))


def _content(form: Form, one: Filled) -> Iterator[str]:
    """What the log tells, then what the form had put into the field, for the person to go on with."""
    field, answer = one.field, one.answer
    if answer is None:
        yield comment(_left_to_do(field, form))
        if field.value:
            yield _as_submitted(field, field.value)
        return
    left = _uncommented(field.value) if form.is_template else field.value
    if field.render and field.kind == "textarea":
        yield _as_submitted(field, f"{answer}\n\n{left}" if left else answer)
    else:
        yield answer if field.kind != "input" else markup.prose(answer)
        if left:
            yield left
    if one.is_part:
        yield comment(_left_to_do(field, form))
    elif left or "expect" in field.label.lower():
        yield comment(_hint(field, form))


def _uncommented(text: str) -> str:
    """Without the comments that tell the person what to write."""
    kept, at = "", 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        kept += text[at:begin]
        at = end + len("-->")
    kept += text[at:]
    return kept.strip("\n") if kept.strip() else ""


def _as_submitted(field: Field, text: str) -> str:
    return markup.fenced(text, field.render) if field.render else text


def _left_to_do(field: Field, form: Form) -> str:
    hint = _hint(field, form)
    return say("{hint} (required)", hint=hint) if field.required else hint


def _hint(field: Field, form: Form) -> str:
    """What is left to do, as the form says it, in one line."""
    if field.kind == "dropdown":
        options = "; ".join(field.options)
        if not field.default:
            return say("to fill in: one of {options}", options=options)
        return say(
            "to fill in: one of {options} (the form begins with {default})", options=options, default=field.default
        )
    said = "" if form.is_template else field.description or field.placeholder
    first = next((line.strip() for line in said.split("\n") if line.strip()), "")
    return say("to fill in: {what}", what=first) if first else say("to fill in")


def comment(text: str) -> str:
    """A comment of one line that ends where it should."""
    return f"<!-- {_END_OF_COMMENT.sub('->', sanitize(text, LONGEST_HINT + LONGEST_TITLE))} -->"


def link(form: Form, repository: str, ask: Ask, *, is_theirs: bool) -> Link:
    """What opens the repository's new issue, filled in as far as a link may be long.

    A form that is not theirs is written out as the text of a plain issue.
    """
    base = f"https://github.com/{repository}/issues/new?"
    for budget in SHORTER:
        pairs, unfilled, nameless = _pairs(form, ask(budget), is_theirs=is_theirs)
        url = base + _query(pairs)
        if len(url) <= LONGEST_LINK:
            return Link(url, budget is not FULL, unfilled, nameless)
    while len(url) > LONGEST_LINK:  # the form's own texts are that long: the last fields are given up
        pairs.pop()
        url = base + _query(pairs)
    return Link(url, True, unfilled, nameless)


def _query(pairs: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in pairs)


def _pairs(form: Form, told: Answers, *, is_theirs: bool) -> tuple[list[tuple[str, str]], Labels, Labels]:
    """The link's parameters, and the labels of the fields that it leaves empty and of those that have no id."""
    if not is_theirs:
        return [("title", title(form, told)), ("body", body(form, told))], (), ()
    pairs = [("template", form.file), ("title", title(form, told))]
    if fitting := labels(form, told):
        pairs.append(("labels", ",".join(fitting)))
    if form.is_template:
        return [*pairs, ("body", body(form, told))], (), ()
    fields, rest = _filled(form, told)
    answered = [one for one in fields if one.answer is not None]
    takes_more = min((one for one in answered if one.field.kind == "textarea"), key=_is_code, default=None)
    is_code = takes_more is not None and _is_code(takes_more)
    extra = "\n\n".join(answer.plain if is_code else answer.markdown for answer in rest.values())
    for one in answered:
        parts = (_typed(one), extra if one is takes_more else "", one.field.value)
        text = "\n\n".join(part for part in parts if part)
        pairs.append((one.field.id or parameterized(one.field.label), text))
    unfilled = tuple(one.field.label for one in fields if one.answer is None)
    return pairs, unfilled, tuple(one.field.label for one in answered if one.field.id is None)


def _is_code(one: Filled) -> bool:
    return one.field.render is not None


def _typed(one: Filled) -> str:
    """As it is typed into the field: GitHub reads a line as Markdown, and its code blocks have three ticks."""
    text = one.answer or ""
    if one.field.kind == "input":
        return markup.prose(text)
    return _TICKS.sub("'''", text) if one.field.render else text


def parameterized(label: str) -> str:
    """What GitHub calls a field that has no id: its label through Rails' `parameterize`."""
    ascii_only = label.encode("ascii", "replace").decode().lower()
    return re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9_-]+", "-", ascii_only)).strip("-")
