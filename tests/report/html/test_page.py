"""The page as text: sound, closed to the outside, and nothing of a log is markup in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pages import HOSTILE, LOGS, STORIES, Page, changed, page_of, parsed, reported, without_style
from reports import of_each
from sample_reports import HEALTHY, INCONCLUSIVE, OOM, UNREADABLE

from oomdoctor.report import text
from oomdoctor.report.contract import Report
from oomdoctor.report.html import MOST_INCIDENTS, document
from oomdoctor.text import disarm
from oomdoctor.units import percent, show

HERE = Path(__file__).parent
SAMPLES = {"oom": OOM, "inconclusive": INCONCLUSIVE, "healthy": HEALTHY, "unreadable": UNREADABLE}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "article", "section", "header", "footer", "nav", "div",
    "h1", "h2", "h3", "h4", "h5", "p", "span", "strong", "b", "code", "pre", "a", "ol", "ul", "li", "dl", "dt", "dd",
    "figure", "figcaption", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary",
    "svg", "defs", "pattern", "rect", "circle", "path", "line", "text", "desc",
}  # fmt: skip
GEOMETRY = ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height")


@of_each([*LOGS, *STORIES])
def test_a_page_is_sound(log: Path) -> None:
    check(page_of(log))


@pytest.mark.parametrize("report", SAMPLES.values(), ids=SAMPLES)
def test_so_is_that_of_a_report_made_by_hand(report: Report) -> None:
    check(document(report))


def check(html: str) -> None:
    page = parsed(html)
    assert html.startswith("<!doctype html>\n")
    assert {element.tag for element in page.elements} <= TAGS
    assert page.comments == []
    asks_for_nothing(page, html)
    is_well_labelled(page)
    draws_within_the_page(page)


def asks_for_nothing(page: Page, html: str) -> None:
    attributes = [(name, value) for element in page.elements for name, value in element.attributes.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in ("style", "src", "srcset", "action")]
    assert all(re.match(r"https://\S+$|#[\w-]+$", value) for name, value in attributes if name == "href")
    assert all(element.tag == "a" for element in page.elements if "href" in element.attributes)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    hashed = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policies = [e.attributes["content"] for e in page.all("meta") if "http-equiv" in e.attributes]
    assert policies == [f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"]


def is_well_labelled(page: Page) -> None:
    ids = Counter(element.attributes["id"] for element in page.elements if "id" in element.attributes)
    assert max(ids.values()) == 1
    for element in page.elements:
        named = element.attributes.get("aria-labelledby", "").split()
        links = [element.attributes["href"][1:]] if element.attributes.get("href", "").startswith("#") else []
        fills = re.findall(r"url\(#([\w-]+)\)", element.attributes.get("fill", ""))
        assert {*named, *links, *fills} <= ids.keys()
    levels = [int(element.tag[1]) for element in page.elements if re.fullmatch(r"h[1-6]", element.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert [element.attributes["lang"] for element in page.all("html")] == ["en"]
    assert all(element.attributes.get("scope") in ("col", "row") for element in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all({"role", "aria-labelledby"} <= e.attributes.keys() for e in page.all("svg") if is_told(e.attributes))


def is_told(attributes: dict[str, str]) -> bool:
    """The one inside another is a part of it."""
    return "aria-hidden" not in attributes and "viewbox" not in attributes


def draws_within_the_page(page: Page) -> None:
    for element in page.all("rect", "line", "circle", "text", "svg"):
        for name in GEOMETRY:
            if name in element.attributes:
                number = float(element.attributes[name].removesuffix("%"))
                assert 0 <= number <= (100.01 if element.attributes[name].endswith("%") else 1000)
    for element in page.all("path"):
        assert re.fullmatch(r"(?:[MLhvz ]|-?\d+(?:\.\d+)?)+", element.attributes["d"])


@pytest.mark.parametrize("name", ["oom", "inconclusive", "healthy"])
def test_the_whole_page(name: str, update: bool) -> None:
    page = without_style(document(SAMPLES[name]))
    beside = HERE / f"{name}.html"
    if update:
        beside.write_text(page, encoding="utf-8")
    assert page == beside.read_text(encoding="utf-8")


def test_the_same_report_gives_the_same_page() -> None:
    assert document(OOM) == document(replace(OOM))


@pytest.mark.parametrize("words", HOSTILE)
def test_no_word_of_a_log_is_markup(words: str) -> None:
    def added(before: str) -> str:
        return before if before.startswith("https://") else f"{before} {words}"

    for report in SAMPLES.values():
        tame = parsed(document(changed(report, lambda before: added(before).replace(words, "x"))))
        hostile = parsed(document(changed(report, added)))
        assert hostile.skeleton == tame.skeleton
        assert disarm(words) in hostile.text


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\x1b", "\x00", "\u200b", "\ud800"])
def test_signs_that_no_reader_sees_are_gone(sign: str) -> None:
    page = document(changed(OOM, lambda before: f"{before}{sign}"))
    assert sign not in page
    page.encode()


def test_a_reference_is_a_link_only_where_it_is_an_address() -> None:
    def referring(to: str) -> Page:
        (crash,) = OOM.incidents
        best = crash.diagnoses[0]
        remedy = replace(best.remedies[0], reference=to)
        first = replace(best, remedies=(remedy, *best.remedies[1:]))
        return parsed(document(replace(OOM, incidents=(replace(crash, diagnoses=(first, *crash.diagnoses[1:])),))))

    assert [a.attributes["href"] for a in referring("https://docs.vllm.ai/").all("a")] == ["https://docs.vllm.ai/"]
    for other in ("javascript:alert(1)", "http://plain.example/", " https://late.example/", "#crash-1"):
        page = referring(other)
        assert page.all("a") == []
        assert other.strip() in page.text


def test_a_huge_report_makes_a_page_that_opens() -> None:
    (crash,) = OOM.incidents
    endless = "x" * 100_000
    huge = replace(
        OOM,
        incidents=tuple(
            replace(crash, ledger=crash.ledger * 50, timeline=crash.timeline * 1000, next_evidence=("a",) * 500)
            for _ in range(300)
        ),
        lookalikes=HEALTHY.lookalikes * 1000,
        notes=(endless,) * 300,
        events=tuple(replace(event, text=endless) for event in OOM.events),
        context={**OOM.context, "settings": {f"s{number}": endless for number in range(2000)}},
    )
    html = document(huge)
    assert len(html) < 4_000_000
    page = parsed(html)
    assert len(page.all("article")) == MOST_INCIDENTS
    assert len(page.all("li")) < 3000
    for left_out in ("200 more", "2940 more", "1940 more", "98800 more characters", "34 more"):
        assert left_out in page.text


def test_several_crashes_have_an_index() -> None:
    (crash,) = OOM.incidents
    page = parsed(document(replace(OOM, incidents=(crash, crash, crash))))
    index = [a.attributes["href"] for a in page.all("a") if a.attributes["href"].startswith("#crash-")]
    assert index == ["#crash-1", "#crash-2", "#crash-3"]
    assert "1 of 3 crashes" in page.text


NUMBER = re.compile(r"\d+(?:\.\d+)?")


@of_each([*LOGS, *STORIES])
def test_no_number_that_the_report_does_not_hold(log: Path) -> None:
    report = reported(log)
    held = set(NUMBER.findall(json.dumps(report.as_json(), ensure_ascii=False)))
    held |= set(NUMBER.findall(text.rendered(report, width=200, color=False, unicode=True, verbose=True)))
    held |= {
        number for value in values(report.as_json()) for number in NUMBER.findall(f"{show(value)} {percent(value)}")
    }
    held |= {number for crash in report.incidents for number in shares(crash)}
    page = parsed(page_of(log))
    counts = {str(number) for number in range(40)}
    said = {number for tag, words in page.texts if tag not in ("style", "desc") for number in NUMBER.findall(words)}
    left_out = set(re.findall(r"(\d+) more characters", page.text))
    assert said - held - counts - left_out == set()


def values(part: Any) -> set[float]:
    if isinstance(part, bool):
        return set()
    if isinstance(part, (int, float)):
        return {abs(part)}
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()
    return {value for one in parts for value in values(one)}


def shares(crash: Any) -> set[str]:
    rows = [(row.bytes, ledger.total_bytes) for ledger in crash.ledger for row in ledger.rows if row.bytes is not None]
    rows += [(ledger.unexplained_bytes or 0, ledger.total_bytes) for ledger in crash.ledger]
    return {NUMBER.findall(percent(abs(size) / total))[0] for size, total in rows if total}
