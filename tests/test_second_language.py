"""The pages in the second language say the same as the first: what both must have in common is compared here.

Figures, code, links, quoted log text and names are the same in every language, in the same section. `pytest --update`
takes over into README.zh-CN.md and docs the blocks that are printed or run as they are; the rest is for people.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import copy_context
from itertools import zip_longest
from pathlib import Path

import pytest

from oomdoctor.causes import Cause, causes
from oomdoctor.language import CHINESE, ENGLISH, translated, use
from oomdoctor.pages import FOLDER, page

TOP = Path(__file__).parent.parent
README = TOP / "README.md"
ITS_PAGES = sorted((TOP / "docs").rglob("*.zh-CN.md"))
IN_TWO = {path.name: path for path in (TOP / "README.zh-CN.md", *ITS_PAGES)}
HEADINGS = ["发生了什么", "原因", "判断依据", "如何修改", "代价", "容易混淆的情况", "参考资料"]
TRANSLATED = {"RAM", "GPU"}  # written like names, and words of the language: "GPU memory" is one word in Chinese

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARKED = re.compile(r"(?<=^<!-- )(\w+) -->\n(```.*?^```)$", re.DOTALL | re.MULTILINE)
SHOWN = re.compile(r"^```console\n.*?^```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"\s+# .*$", re.MULTILINE)
SPAN = re.compile(r"`[^`]+`")
LINK = re.compile(r"(?<=\]\()[^)]+|https?://[^\s)]+")
QUOTED = re.compile(r'"[^"]*"')
NAME = re.compile(r"[A-Za-z]*[A-Z][A-Za-z0-9_]*[A-Z][A-Za-z0-9_]*")  # ZeRO, vLLM, DeepSpeed


def differences(english: str, chinese: str) -> Iterator[str]:
    """What the one has and the other has not, section by section."""
    for first, second in zip_longest(_sections(english), _sections(chinese), fillvalue=""):
        heading = first.partition("\n")[0] or second.partition("\n")[0]
        if _level(first) != _level(second):
            yield f"{heading}: a heading of another level, or none, in Chinese"
        for kind, found in COMPARED.items():
            one, other = found(first), found(second)
            yield from (f"{heading}: {kind}, only in English: {it}" for it in (one - other).elements())
            yield from (f"{heading}: {kind}, only in Chinese: {it}" for it in (other - one).elements())
        yield from (f"{heading}: name, only in English: {name}" for name in sorted(_names(first) - _names(second)))
        invented = set(QUOTED.findall(_prose(second))) - set(QUOTED.findall(_prose(first)))
        yield from (f"{heading}: quotation, only in Chinese: {it}" for it in sorted(invented))


def _sections(markdown: str) -> list[str]:
    """From the first heading on; a comment within code is none."""
    shaded = FENCE.sub(lambda block: block[0].replace("\n#", "\n\0"), markdown)
    return [part.replace("\0", "#") for part in re.split(r"^(?=#)", shaded, flags=re.MULTILINE)[1:]]


def _level(section: str) -> int:
    return len(section) - len(section.lstrip("#"))


def _text(section: str) -> str:
    return FENCE.sub("", section)


def _prose(section: str) -> str:
    return " ".join(LINK.sub("", SPAN.sub("", _text(section))).split())


def _code(section: str) -> Counter[str]:
    """Lines that are run; their comments, and drawings, are for people."""
    blocks = [COMMENT.sub("", block) for kind, block in FENCE.findall(section) if kind != "text"]
    return Counter(line.rstrip() for block in blocks for line in block.splitlines() if line.strip())


def _marked(section: str) -> Counter[str]:
    return Counter(f"<!-- {name} --> {block}" for name, block in MARKED.findall(section))


def _spans(section: str) -> Counter[str]:
    return Counter(" ".join(span.split()) for span in SPAN.findall(_text(section)))


def _links(section: str) -> Counter[str]:
    return Counter(target.replace(".zh-CN.md", ".md") for target in LINK.findall(SPAN.sub("", _text(section))))


def _numbers(section: str) -> Counter[str]:
    return Counter(re.findall(r"\d+(?:[.,]\d+)*", _prose(section)))


def _names(section: str) -> set[str]:
    return {name.removesuffix("s") for name in NAME.findall(_prose(section))} - TRANSLATED


def _parts(section: str) -> Counter[str]:
    paragraphs = [part for part in re.split(r"\n\n|^#.*\n", _text(section), flags=re.MULTILINE) if part.strip()]
    lines = _text(section).splitlines()
    return Counter(
        {
            "paragraph": len(paragraphs),
            "item": sum(line.startswith("- ") for line in lines),
            "row": sum(line.startswith("|") for line in lines),
            "block of code": len(FENCE.findall(section)),
            "quotation": len(re.findall(r'"[^"]*"|“[^”]*”', _prose(section))),
        }
    )


COMPARED: dict[str, Callable[[str], Counter[str]]] = {
    "code": _code,
    "block printed or run as it is": _marked,
    "code in the text": _spans,
    "link": _links,
    "number": _numbers,
    "part": _parts,
}


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_page_and_its_second_one_say_the_same(cause: Cause) -> None:
    english, chinese = (page(cause.id, language) for language in (ENGLISH, CHINESE))
    assert english, f"{cause.id} has no page"
    assert chinese, f"{cause.id} has no page in Chinese"
    assert list(differences(english, chinese)) == []
    assert re.findall(r"^## (.+)$", chinese, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_page_is_called_as_the_report_calls_the_cause(cause: Cause) -> None:
    for language in (ENGLISH, CHINESE):
        title = copy_context().run(titled, cause, language)
        assert (page(cause.id, language) or "").startswith(f"# {title}\n")


def titled(cause: Cause, language: str) -> str:
    use(language)
    return translated(cause.title)


def test_no_page_is_left_over() -> None:
    names = {cause.id.replace("-", "_") for cause in causes()}
    assert {path.stem for path in FOLDER.glob("*.md")} == names | {f"{name}.{CHINESE}" for name in names}


IN_CHINESE = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob(f"*.{CHINESE}.md"))}


@pytest.mark.parametrize("name", [*IN_CHINESE, *IN_TWO])
def test_blanks_and_punctuation_are_those_of_chinese(name: str) -> None:
    whole = IN_CHINESE.get(name) or IN_TWO[name].read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->", "", FENCE.sub("", whole))
    prose = SPAN.sub("`code`", LINK.sub("", text))
    han, latin = "[\u4e00-\u9fff]", "[A-Za-z0-9`]"
    close = [f"{han}{latin}", f"{latin}{han}", f"{han}[,;:.?!]", f"{han} +{han}", r"[，。；：、（）] (?!\|)"]
    broken = rf"^(?!#).*{han}\n{han}.*"  # Markdown puts a blank where a line ends
    assert [found for pattern in close for found in re.findall(f".{{0,12}}{pattern}.{{0,12}}", prose)] == []
    assert re.findall(broken, prose, re.MULTILINE) == []


@pytest.mark.parametrize("name", IN_TWO)
def test_both_say_the_same(name: str, update: bool) -> None:
    second = IN_TWO[name]
    first = second.with_name(name.replace(".zh-CN", ""))
    english, chinese = (path.read_text(encoding="utf-8") for path in (first, second))
    if update:
        blocks, shown = dict(MARKED.findall(english)), iter(SHOWN.findall(english))
        chinese = MARKED.sub(lambda old: f"{old[1]} -->\n{blocks.get(old[1], old[2])}", chinese)
        chinese = SHOWN.sub(lambda old: next(shown, old[0]), chinese)
        second.write_text(chinese, encoding="utf-8")
    assert list(differences(english, chinese)) == []


def test_the_readmes_lead_to_each_other() -> None:
    first = [path.read_text(encoding="utf-8").partition("\n")[0] for path in (README, IN_TWO["README.zh-CN.md"])]
    assert first == ["English | [简体中文](README.zh-CN.md)", "[English](README.md) | 简体中文"]


PAGE = """# A title

## Why
vLLM 0.8.3 takes `-ngl 4` of 7 GiB of RAM ("no room", see https://example.org/a): "so".

```bash
oomdoctor diagnose a.log  # a comment
```
"""
ITS_SECOND = """# 标题

## 原因
vLLM 0.8.3 占用 7 GiB 内存，即 `-ngl 4`（"no room"，见 https://example.org/a ）：“如此”。

```bash
oomdoctor diagnose a.log  # 注释
```
"""


def test_a_faithful_page_has_no_differences() -> None:
    assert list(differences(PAGE, ITS_SECOND)) == []


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ("0.8.3", "0.8.4", "number, only in English: 0.8.4"),
        ("`-ngl 4`", "`-ngl 5`", "code in the text, only in Chinese: `-ngl 4`"),
        ("example.org/a", "example.org/b", "link, only in English: https://example.org/b"),
        ("diagnose a.log", "diagnose b.log", "code, only in English: oomdoctor diagnose b.log"),
        ("no room", "no space", 'quotation, only in Chinese: "no room"'),
        ('"so"', "so", "part, only in Chinese: quotation"),
        ("vLLM", "SGLang", "name, only in English: SGLang"),
        ("\n```bash", "\nMore.\n\n```bash", "part, only in English: paragraph"),
        ("## Why", "### Why", "a heading of another level, or none, in Chinese"),
    ],
)
def test_what_changes_in_english_is_named(was: str, becomes: str, told: str) -> None:
    changed = PAGE.replace(was, becomes)
    assert changed != PAGE
    assert any(line.endswith(told) for line in differences(changed, ITS_SECOND))


def test_a_section_that_is_new_is_named() -> None:
    told = next(differences(f"{PAGE}\n## What it costs\n9 GiB\n", ITS_SECOND))
    assert told.startswith("## What it costs: a heading")
