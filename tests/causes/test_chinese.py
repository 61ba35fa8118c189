"""What the causes say in Chinese: the same figures and names as in English, written as Chinese is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from oomdoctor import diagnose
from oomdoctor.catalogues import filled
from oomdoctor.language import CHINESE, ENGLISH, use

TOP = Path(__file__).parents[2]
CATALOGUE = TOP / "oomdoctor" / "locale" / "zh_CN" / "causes.po"
STORIES = sorted((TOP / "fixtures" / "stories").glob("*/*"))

PLACE = re.compile(r"\{[^{}]*\}")
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
HAN = "[\u4e00-\u9fff]"
CHINESE_PUNCTUATION = "，。；：、（）？！"
WRONG = {
    "no blank between Chinese and other words": rf"{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}",
    "a blank at Chinese punctuation": rf"[ ][{CHINESE_PUNCTUATION}]|[{CHINESE_PUNCTUATION}][ ]",
    "punctuation of another language": rf"{HAN}[,;:.?!]",
}


def spoken(language: str, log: Path) -> list[str]:
    def told() -> Iterator[str]:
        use(language)
        for incident in diagnose(str(log)).incidents:
            for diagnosis in incident.diagnoses:
                yield from (diagnosis.title, diagnosis.explanation, *diagnosis.against)
            yield from (ruled.why for ruled in incident.ruled_out)

    return copy_context().run(lambda: list(told()))


def wrong(text: str) -> list[str]:
    return [what for what, pattern in WRONG.items() if re.search(pattern, text)]


@pytest.mark.parametrize("log", STORIES, ids=lambda log: log.parent.name)
def test_the_stories_tell_the_same_figures(log: Path) -> None:
    english, chinese = spoken(ENGLISH, log), spoken(CHINESE, log)
    assert len(english) == len(chinese) >= 2
    for one, other in zip(english, chinese, strict=True):
        assert Counter(FIGURE.findall(one)) == Counter(FIGURE.findall(other)), other
        assert re.search(HAN, other), other
        assert not wrong(other), other


@pytest.mark.skipif(not CATALOGUE.exists(), reason="a wheel has the compiled catalogues only")
def test_every_translation_is_written_as_chinese_is() -> None:
    with CATALOGUE.open("rb") as stream:
        entries = [(str(entry.id), str(entry.string)) for entry in read_po(stream) if entry.id]
    assert len(entries) > 600
    for english, chinese in entries:
        assert not wrong(PLACE.sub("…", chinese)), chinese
        assert Counter(FIGURE.findall(PLACE.sub("", english))) == Counter(FIGURE.findall(PLACE.sub("", chinese))), (
            chinese
        )
        assert english.endswith(".") == chinese.endswith("。"), chinese


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"who": "cc1plus"}, "内核杀死 cc1plus 了，见 cc1plus"),
        ({"who": "某个编译器"}, "内核杀死某个编译器了，见某个编译器"),
        ({"who": "日志 里的 名字"}, "内核杀死日志 里的 名字了，见日志 里的 名字"),
        ({"who": "{pid}"}, "内核杀死 {pid} 了，见 {pid}"),
        ({"who": ""}, "内核杀死  了，见 "),
    ],
)
def test_a_blank_stands_between_chinese_and_other_words(values: dict[str, object], text: str) -> None:
    assert filled("内核杀死 {who} 了，见 {who}", values) == text


def test_figures_are_written_as_the_text_says() -> None:
    assert filled("{{{count:,}}} 个，{share:g}", {"count": 4096, "share": 0.50}) == "{4,096} 个，0.5"
