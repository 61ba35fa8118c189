from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from gfm import LINKED, content, inline, kinds, loose_text, tokens
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from poison import poisoned
from reports import LOGS, ROOT, of_each, report_on
from sample_reports import CRASH, GIB, HEALTHY, HOG, INCONCLUSIVE, KILL, MOVE, NODE, OOM, UNREADABLE
from test_markup import HOSTILE, TEXTS

from oomdoctor.redaction import Redactor
from oomdoctor.report.as_markdown import LIMIT, document, size
from oomdoctor.report.contract import CauseRuledOut, Evidence, LedgerRow, Moment, Report
from oomdoctor.report.words import also_possible

HERE = Path(__file__).parent
STORIES = sorted(ROOT.glob("fixtures/stories/*/*"))

BLOCKS = {
    f"{name}_{end}"
    for name in ("heading", "paragraph", "table", "thead", "tbody", "tr", "th", "td", "bullet_list", "ordered_list",
                 "list_item", "strong", "link")
    for end in ("open", "close")
} | {"inline", "text", "code_inline", "fence", "softbreak"}  # fmt: skip

AROUND_IT = replace(
    OOM,
    context={
        "frameworks": {"vllm": "0.8.3", "ray": None},
        "settings": {"zero_stage": 3, "remote_rm_url": "http://10.3.0.8:5000/get_reward", "bf16": True},
        "models": ["my-org/policy-7b"],
        "hardware": {"gpu": "H100"},
        "progress": {"done": 3, "total": 12},
        "exit_codes": [137],
        "outside": {"vllm": "from --assume, not from the log", "zero_stage": "from run.sh line 4, not from the log"},
    },
    errors=UNREADABLE.errors,
    notes=("driver.log: 12 NUL bytes left out",),
)


@pytest.mark.parametrize(
    ("name", "report"),
    [("oom", AROUND_IT), ("healthy", HEALTHY), ("inconclusive", INCONCLUSIVE), ("unreadable", UNREADABLE)],
)
def test_the_whole_report(name: str, report: Report, update: bool) -> None:
    check(HERE / f"markdown/{name}.md", document(report), update)


def test_a_whole_story_redacted(update: bool) -> None:
    (log,) = (path for path in STORIES if "reward-server" in str(path))
    check(HERE / "markdown/reward-server.md", document(Redactor().report(report_on(log)), redacted=True), update)


def check(expected: Path, found: str, update: bool) -> None:
    if update:
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


def assert_harmless(markdown: str) -> None:
    """No piece of it is a link but to our own references, and none would be made one."""
    assert kinds(markdown) <= BLOCKS
    links = [token.attrs["href"] for token in inline(tokens(markdown)) if token.type == "link_open"]
    assert [link for link in links if link != MOVE.reference] == []
    texts = [text for text in loose_text(markdown) if text != MOVE.reference]
    assert [text for text in texts if LINKED.search(text)] == []
    assert size(markdown) <= LIMIT


@of_each(LOGS + STORIES)
def test_no_log_makes_markup(log: Path) -> None:
    report = report_on(log)
    markdown = document(report)
    parsed = tokens(markdown)
    assert {token.type for token in [*parsed, *inline(parsed)]} <= BLOCKS
    assert [text for text in loose_text(markdown) if LINKED.search(text) and not text.startswith("https://")] == []
    for incident in report.incidents:
        assert incident.fingerprint in markdown
    for incident in report.incidents[:1]:
        for diagnosis in (*incident.diagnoses[:1], *also_possible(incident)):
            assert f"`{diagnosis.cause}`" in markdown


@given(TEXTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_log_says_is_text(poison: str) -> None:
    for report in (AROUND_IT, HEALTHY, INCONCLUSIVE):
        assert_harmless(document(poisoned(report, lambda text: f"{poison} {text}")))


def headings(markdown: str) -> int:
    return sum(token.type == "heading_open" for token in tokens(markdown))


@cache
def harmless_headings() -> int:
    return headings(document(AROUND_IT))


@pytest.mark.parametrize("poison", HOSTILE)
def test_each_kind_of_markup_is_text(poison: str) -> None:
    for poison_it in (lambda text: poison + text, lambda text: text + poison, lambda text: f"{text}\n{poison}\n{text}"):
        markdown = document(poisoned(AROUND_IT, poison_it))
        assert_harmless(markdown)
        assert headings(markdown) == harmless_headings()


def test_a_large_number_is_no_commit() -> None:
    kill = replace(KILL, process={**KILL.process, "pid": 4101608}, line=1234567, repeats=7654321)
    ledger = replace(NODE, rows=tuple(replace(row, line=1234567) for row in NODE.rows))
    assert_harmless(document(replace(OOM, events=(kill,), incidents=(replace(CRASH, ledger=(ledger,)),))))


def test_a_lines_text_is_in_a_fence_as_it_stands() -> None:
    nasty = "```` @team <b> ]( #12 ``"
    evidence = (Evidence("e1", "a`b|c.log", 7, nasty),)
    report = replace(OOM, incidents=(replace(CRASH, diagnoses=(replace(HOG, evidence=evidence),)),))
    fences = [token.content for token in tokens(document(report)) if token.type == "fence"]
    assert f"a`b|c.log:7: {nasty}\n" in "".join(fences)


def huge(count: int, letter: str = "x") -> Report:
    """A report with a great many of everything."""
    words = f"{letter * 300} and {letter * 300}"
    remedies = tuple(replace(MOVE, derivation=words, snippet=words) for _ in range(count))
    events = tuple(replace(KILL, id=f"e{n}", line=n, text=words) for n in range(count))
    rows = tuple(LedgerRow(f"{words} {n}", GIB, "printed", n) for n in range(count))
    best = replace(
        HOG,
        explanation=words * 20,
        against=(words,) * count,
        remedies=remedies,
        evidence=tuple(Evidence("e1", "a.log", n, words) for n in range(count)),
    )
    crash = replace(
        CRASH,
        diagnoses=(best, *[replace(best, cause=f"cause-{n}") for n in range(count)]),
        ruled_out=(CauseRuledOut("activations", words),) * count,
        ledger=(replace(NODE, rows=rows),) * count,
        timeline=tuple(Moment(f"e{n}", "root" if not n else "cascade", None) for n in range(count)),
        next_evidence=tuple(f"{words} {n}" for n in range(count)),
    )
    context = {**OOM.context, "settings": {f"name_{n}": words for n in range(count)}}
    return replace(OOM, incidents=(crash,) * count, events=events, context=context, notes=(words,) * count)


@pytest.mark.parametrize("letter", ["x", "é", "内", "😀", "`", "_", "\n"])
@pytest.mark.parametrize("count", [1, 5, pytest.param(60, marks=pytest.mark.slow)])
def test_it_is_never_longer_than_github_takes(count: int, letter: str) -> None:
    markdown = document(huge(count, letter))
    assert len(markdown.encode("utf-16-le")) // 2 + markdown.count("\n") <= LIMIT
    assert len(markdown.encode()) <= LIMIT
    assert CRASH.fingerprint in markdown
    assert kinds(markdown) <= BLOCKS


def test_what_is_left_out_is_said_and_what_matters_least_goes_first() -> None:
    markdown = document(huge(60))
    assert '60 of 60 events under "In the order of the log".' in markdown
    assert "### In the order of the log" not in markdown
    assert '48 of 60 remedies under "What to change".' in markdown
    assert re.findall("^## OUT OF MEMORY", markdown, re.MULTILINE)
    assert "Left out" not in document(AROUND_IT)


@pytest.mark.parametrize("limit", [10_000, 20_000])
def test_a_smaller_limit_holds_as_well(limit: int) -> None:
    markdown = document(huge(20), limit)
    assert size(markdown) <= limit
    assert "### What to change" in markdown


def test_the_ledgers_table_has_a_row_for_each_row() -> None:
    parsed = tokens(document(OOM))
    assert [token.type for token in parsed].count("tr_open") == 1 + len(NODE.rows) + 1 + len(CRASH.timeline)
    assert "reward server (PID 230)" in content(document(OOM))


def test_it_says_whether_it_is_redacted() -> None:
    assert document(OOM).endswith("Nothing in it is redacted: read it before you share it.\n")
    assert "`<HOST-1>`" in document(OOM, redacted=True)
