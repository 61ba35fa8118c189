"""The page as a person sees it, in a real browser.

Pictures go to build/artefacts, or to the folder that OOMDOCTOR_ARTEFACTS names. Without a browser this is skipped.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import MISSING, Browser, found
from pages import HOSTILE, LOGS, ROOT, STORIES, changed, page_of, reported
from sample_reports import HEALTHY, INCONCLUSIVE, OOM, UNREADABLE

from oomdoctor.report.html import document
from oomdoctor.text import disarm

BROWSER = found()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason=MISSING)]

PHONE, DESK = 320, 1280
SAMPLES = {"oom": OOM, "inconclusive": INCONCLUSIVE, "healthy": HEALTHY, "unreadable": UNREADABLE}

WIDEST = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)"
# Every text with its colour, and what is painted under it.
CONTRASTS = """
(() => {
  const parsed = color => {
    const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number);
    return {r, g, b, a};
  };
  const light = ({r, g, b}) => {
    const part = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const under = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = parsed(getComputedStyle(at).backgroundColor);
      if (color.a === 1) return color;
    }
    return parsed('rgb(255 255 255)');
  };
  const bad = [];
  let seen = 0;
  for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || ['TITLE', 'DESC'].includes(element.tagName.toUpperCase())) continue;
    const style = getComputedStyle(element);
    const inSvg = element instanceof SVGElement;
    const text = parsed(inSvg ? style.fill : style.color);
    const ground = inSvg && style.stroke !== 'none' ? parsed(style.stroke) : under(element);
    const [high, low] = [light(text), light(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    seen += 1;
    if (ratio < 4.5) bad.push([element.tagName, element.className.baseVal ?? element.className, ratio]);
  }
  return {seen, bad};
})()
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert BROWSER is not None
    opened = Browser(BROWSER)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def artefacts() -> Path:
    folder = Path(os.environ.get("OOMDOCTOR_ARTEFACTS") or ROOT / "build" / "artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def written(folder: Path, html: str) -> Path:
    page = folder / "report.html"
    page.write_text(html, encoding="utf-8")
    return page


def widest(browser: Browser) -> int:
    return int(browser.evaluate(WIDEST))


@pytest.mark.parametrize("part", range(8))
def test_every_fixture_opens_without_a_word_and_fits_a_phone(browser: Browser, tmp_path: Path, part: int) -> None:
    logs = [*LOGS, *STORIES][part::8]
    assert len(logs) > 50
    wrong = {}
    browser.look(PHONE, 640)
    for log in logs:
        troubles = browser.open(written(tmp_path, page_of(log)))
        if width := widest(browser) - PHONE:
            troubles.append(f"{width} pixels too wide")
        if browser.evaluate("document.title.length + document.querySelector('h1').offsetHeight") < 10:
            troubles.append("nothing to see")
        if troubles:
            wrong[f"{log.parent.name}/{log.name}"] = troubles
    assert wrong == {}


@pytest.mark.parametrize("report", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("width", [PHONE, 600, 960, DESK])
def test_it_is_as_wide_as_the_window(browser: Browser, tmp_path: Path, report: Any, width: int) -> None:
    browser.look(width)
    assert browser.open(written(tmp_path, document(report))) == []
    assert widest(browser) <= width


@pytest.mark.parametrize("words", [*HOSTILE, "x" * 100_000, "\u05d0" * 5_000, "wide " * 20_000])
def test_hostile_words_are_words(browser: Browser, tmp_path: Path, words: str) -> None:
    def hostile(before: str) -> str:
        return before if before.startswith("https://") else f"{words} {before}"

    page = written(tmp_path, document(changed(OOM, hostile)))
    for width in (PHONE, DESK):
        browser.look(width)
        assert browser.open(page) == []
        assert widest(browser) <= width
    assert browser.evaluate("document.scripts.length") == 0
    assert browser.evaluate("document.querySelectorAll('img, iframe, object, embed, form, input, base').length") == 0
    assert browser.evaluate("document.title") != "owned"
    shown = " ".join(browser.evaluate("document.body.textContent").split())
    assert " ".join(disarm(words[:1000]).split()) in shown


def test_what_the_browser_is_asked_would_be_told(browser: Browser, tmp_path: Path) -> None:
    """The tests above rest on these."""
    browser.look(PHONE)
    page = document(OOM)
    for added in ('<script>"x"</script>', '<img src="x.png">', '<p style="color:red">', "<link rel=stylesheet href=x>"):
        assert browser.open(written(tmp_path, page.replace("<main>", f"<main>{added}"))) != []
    unguarded = page.replace("Content-Security-Policy", "x")
    assert browser.open(written(tmp_path, unguarded.replace("<main>", '<main><img src="x.png">'))) != []
    assert browser.open(written(tmp_path, unguarded.replace("<main>", "<main><script>nope()</script>"))) != []
    browser.open(written(tmp_path, page.replace("<main>", "<main><svg width='900' height='1'></svg>")))
    assert widest(browser) > PHONE


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_every_word_stands_out_from_its_ground(browser: Browser, tmp_path: Path, story: Path, scheme: str) -> None:
    browser.look(DESK, dark=scheme == "dark", media="print" if scheme == "print" else "")
    browser.open(written(tmp_path, page_of(story)))
    found = browser.evaluate(CONTRASTS)
    assert found["seen"] > 50
    assert found["bad"] == []


def test_light_and_dark_are_not_the_same(browser: Browser, tmp_path: Path) -> None:
    page = written(tmp_path, document(OOM))
    grounds = []
    for dark in (False, True):
        browser.look(DESK, dark=dark)
        browser.open(page)
        grounds.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1]


def test_on_paper_everything_is_open(browser: Browser, tmp_path: Path, artefacts: Path) -> None:
    browser.look(DESK)
    browser.open(written(tmp_path, document(OOM)))
    heights = (
        "[...document.querySelectorAll('details > :not(summary)')]"
        ".map(e => e.checkVisibility({contentVisibilityAuto: true}) ? e.getBoundingClientRect().height : 0)"
    )
    assert set(browser.evaluate(heights)) == {0}
    browser.look(DESK, media="print")
    assert min(browser.evaluate(heights)) > 0
    browser.look(DESK)
    browser.paper(artefacts / "oom.pdf")
    assert (artefacts / "oom.pdf").read_bytes().startswith(b"%PDF-")


def test_a_snippet_is_taken_whole_and_a_link_shows_that_it_is_next(browser: Browser, tmp_path: Path) -> None:
    browser.look(DESK)
    browser.open(written(tmp_path, document(OOM)))
    chosen = "getComputedStyle(document.querySelector('pre.copy')).userSelect"
    assert browser.evaluate(chosen) == "all"
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.evaluate("document.activeElement.tagName") in ("A", "SUMMARY")
    assert browser.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_first_screen_says_what_who_and_what_to_change(
    browser: Browser, tmp_path: Path, artefacts: Path, story: Path
) -> None:
    page = written(tmp_path, page_of(story))
    looks = ("desk", DESK, 800, False), ("dark", DESK, 800, True), ("phone", PHONE, 640, False)
    for look, width, height, dark in looks:
        browser.look(width, height, dark=dark)
        assert browser.open(page) == []
        target = artefacts / f"{story.name}-{look}.png"
        browser.picture(target, whole=look != "desk")
        assert struct.unpack(">I", target.read_bytes()[16:20]) == (width,)
    browser.look(DESK)
    seen = ["h1", ".explanation", ".remedy .action"] + ([".bar"] if reported(story).incidents[0].ledger else [])
    for one in seen:
        assert browser.evaluate(f"document.querySelector('{one}').getBoundingClientRect().bottom") < 800
