"""Two languages: what is chosen, what stands in the catalogues, and that both say the same."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import copy_context
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from reports import LOGS, ROOT, diagnosed, diagnosed_in_chinese, of_each, report_on
from typer.testing import CliRunner, Result

import oomdoctor
from oomdoctor import catalogues, columns, language
from oomdoctor.cli import out
from oomdoctor.cli.app import app
from oomdoctor.helpers import asked, our_form
from oomdoctor.report import as_markdown, html, text
from oomdoctor.report.contract import Report
from oomdoctor.report.lines import drawn

STORIES = ("openrlhf-reward-server", "simplerl-third-rollout")
SCRIPT = ROOT / ".ci" / "catalogues.py"
CHINESE = ROOT / "oomdoctor" / "locale" / "zh_CN"
FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
HAN = re.compile("[\u4e00-\u9fff]")
LOG = ROOT / "fixtures" / "cuda" / "absurd-but-printed.log"

in_a_checkout = pytest.mark.skipif(not SCRIPT.is_file(), reason="the catalogues as they are written are not in a wheel")


def in_chinese(function: Callable[..., Any], *arguments: Any) -> Any:
    def speak() -> Any:
        language.use("zh")
        return function(*arguments)

    return copy_context().run(speak)


def run(*arguments: str, lang: str = "", **environ: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100", "LANG": lang, **environ})


# What is chosen


@pytest.mark.parametrize(
    ("option", "environ", "chosen"),
    [
        (None, {}, "en"),
        (None, {"LANG": "zh_CN.UTF-8"}, "zh"),
        (None, {"LANG": "zh_SG"}, "zh"),
        (None, {"LANG": "zh_Hans_CN"}, "zh"),
        (None, {"LANG": "zh_TW.UTF-8"}, "en"),
        (None, {"LANG": "de_DE@euro"}, "en"),
        (None, {"LANG": "C"}, "en"),
        (None, {"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_US.UTF-8"}, "en"),
        (None, {"LC_MESSAGES": "en_US.UTF-8", "LC_ALL": "zh_CN.UTF-8"}, "zh"),
        (None, {"LC_ALL": "zh_CN.UTF-8", "OOMDOCTOR_LANG": "en"}, "en"),
        (None, {"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ("en", {"OOMDOCTOR_LANG": "zh"}, "en"),
        ("zh", {"LANG": "en_GB.UTF-8"}, "zh"),
        ("zh-Hans", {}, "zh"),
        ("zho", {}, "en"),
    ],
)
def test_the_option_then_our_variable_then_the_locale_choose(
    option: str | None, environ: dict[str, str], chosen: str
) -> None:
    assert language.spoken(option, environ) == chosen


def test_there_is_no_other_language() -> None:
    with pytest.raises(ValueError, match=r"'fr'.*en, zh"):
        language.use("fr")


def test_a_language_holds_for_its_context_alone() -> None:
    assert in_chinese(language.say, "What to change") == "如何修改"
    assert language.say("What to change") == "What to change"
    assert language.in_use() == "en"


def test_what_is_not_translated_is_said_in_english() -> None:
    assert in_chinese(lambda: language.say("Nobody said this {often}.", often=3)) == "Nobody said this 3."
    assert in_chinese(language.translated, "") == ""


def test_a_value_is_no_text() -> None:
    hostile = "{0} {name} {name.__class__} %s"
    assert language.say("{name}: {why}", name=hostile, why="{}") == f"{hostile}: {{}}"
    assert in_chinese(lambda: language.say("{name}: {why}", name=hostile, why="What")) == f"{hostile}：What"


def test_lists_and_sentences_are_joined_as_the_language_does() -> None:
    names = ["a", "b", "c"]
    assert language.all_of(names) == "a, b and c"
    assert language.one_of(["a", "b"]) == "a or b"
    assert in_chinese(language.all_of, names) == "a、b 和 c"
    assert in_chinese(language.listed, names) == "a、b、c"
    assert language.joined(["One.", "", "Two."]) == "One. Two."
    assert in_chinese(language.joined, ["一。", "二。"]) == "一。二。"
    assert in_chinese(language.joined, ["One.", "二。"]) == "One. 二。"


# What the catalogues hold


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("catalogues_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@in_a_checkout
def test_everything_is_translated_and_nothing_is_left_over(script: ModuleType) -> None:
    assert [*script.calls(), *script.problems()] == []


@pytest.mark.slow
@in_a_checkout
def test_other_names_in_a_translation_are_found(script: ModuleType) -> None:
    assert script.names("{a} of {b:,}") == script.names("{b:,} 中的 {a}")
    assert script.names("{a}") != script.names("{a:,}")
    assert script.names("{a}") != script.names("{a} {a}")
    assert script.names("a {") is None


def test_guesses_and_what_is_out_of_use_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "one.po").write_text(
        '# head\nmsgid ""\nmsgstr ""\n"Language: zh_CN\\n"\n\n'
        '#: a.py\nmsgid "one"\nmsgstr "一"\n\n'
        '#, fuzzy\nmsgid "two"\nmsgstr "二"\n\n'
        'msgid ""\n"thr"\n"ee\\n"\nmsgstr ""\n"三"\n"\\"\\n"\n\n'
        'msgid "four"\nmsgstr ""\n\n'
        '#~ msgid "five"\n#~ msgstr "五"\n',
        encoding="utf-8",
    )
    (tmp_path / "two.po").write_text('msgid "six"\nmsgstr "六"', encoding="utf-8")
    read = catalogues.reader(tmp_path)
    assert [read(text) for text in ("one", "two", "three\n", "four", "five", "six")] == [
        "一", "two", '三"\n', "four", "five", "六",
    ]  # fmt: skip


# Both say the same


def strings(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """What a report holds, each with its place in it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from strings(item, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from strings(item, f"{place}[{number}]")
    else:
        yield place, value


SAME = re.compile(
    r"\.(?:id|cause|knob|pool|stage|role|basis|family|kind|verdict|fingerprint|event|file|text|snippet|setting|line"
    r"|relieves\[\d+\]|spends\[\d+\]|bytes|time|reference)$"
)


@of_each(LOGS)
def test_the_same_ids_and_the_same_figures_stand_in_both(log: Path) -> None:
    english = dict(strings(diagnosed(log)))
    chinese = dict(strings(diagnosed_in_chinese(log)))
    assert english.keys() == chinese.keys()
    for place, value in english.items():
        other = chinese[place]
        if not isinstance(value, str) or SAME.search(place):
            assert other == value, place
        else:
            assert Counter(FIGURES.findall(other)) == Counter(FIGURES.findall(value)), place


def rendered(report: Report) -> list[str]:
    return [
        text.rendered(report, width=200, color=False, unicode=False, verbose=True),
        as_markdown.document(report),
        unescape(re.sub(r"<[^>]*>", " ", html.document(report))),
    ]


@of_each(LOGS[::7])
def test_the_same_figures_are_shown_in_both(log: Path) -> None:
    chinese = in_chinese(lambda: rendered(oomdoctor.diagnose(log)))
    for one, other in zip(rendered(report_on(log)), chinese, strict=True):
        assert set(FIGURES.findall(one)) == set(FIGURES.findall(other))
        assert HAN.search(other)


@pytest.mark.parametrize("story", STORIES)
def test_a_story_as_it_is_told_in_chinese(story: str, update: bool) -> None:
    (log,) = (ROOT / "fixtures" / "stories" / story).glob("*")
    expected = Path(__file__).parent / "stories" / f"{story}.zh.txt"
    told = in_chinese(
        lambda: text.rendered(oomdoctor.diagnose(str(log)), width=100, color=False, unicode=True, verbose=True)
    )
    if update:
        expected.write_text(told, encoding="utf-8")
    assert told == expected.read_text(encoding="utf-8")


# The commands


@pytest.mark.parametrize("form", ["json", "jsonl", "github"])
def test_a_locale_alone_changes_nothing_that_programs_read(form: str) -> None:
    english = run("diagnose", str(LOG), "-f", form)
    assert run("diagnose", str(LOG), "-f", form, lang="zh_CN.UTF-8").output == english.output
    chinese = run("diagnose", str(LOG), "-f", form, "--lang", "zh").output
    assert HAN.search(chinese)
    assert not HAN.search(english.output)
    if form == "json":
        assert json.loads(chinese).keys() == json.loads(english.output).keys()


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_locale_changes_what_people_read(form: str) -> None:
    told = run("diagnose", str(LOG), "-f", form, lang="zh_CN.UTF-8")
    assert told.exit_code == 1
    assert "如何修改" in told.output
    assert "What to change" not in told.output
    assert "What to change" in run("diagnose", str(LOG), "-f", form, "--lang", "en", lang="zh_CN.UTF-8").output
    assert "What to change" in run("diagnose", str(LOG), "-f", form, lang="zh_CN.UTF-8", OOMDOCTOR_LANG="en").output


def test_html_says_which_language_it_is() -> None:
    assert '<html lang="zh-Hans">' in run("diagnose", str(LOG), "-f", "html", "--lang", "zh").output
    assert '<html lang="en">' in run("diagnose", str(LOG), "-f", "html").output


def test_a_draft_for_others_is_english_unless_it_is_asked_for() -> None:
    assert not HAN.search(run("issue", str(LOG), lang="zh_CN.UTF-8").stdout)
    assert "把握" in run("issue", str(LOG), "--lang", "zh").stdout


def test_our_form_asks_the_same_in_both() -> None:
    english, chinese = our_form.form(), in_chinese(our_form.form)
    assert [(one.kind, one.id, one.required, one.render) for one in english.fields] == [
        (one.kind, one.id, one.required, one.render) for one in chinese.fields
    ]
    assert all(HAN.search(one.label) for one in chinese.fields if one.kind != "markdown")
    assert asked.places(english.fields) == asked.places(chinese.fields)
    assert "Written by" in run("issue-form", lang="zh_CN.UTF-8").stdout
    assert not HAN.search(run("issue-form", lang="zh_CN.UTF-8").stdout)
    assert "issue form --lang zh --keep" in run("issue-form", "--lang", "zh").stdout


def test_an_excerpt_is_the_same_in_both() -> None:
    english, chinese = run("reduce", str(LOG)), run("reduce", str(LOG), "--lang", "zh")
    assert english.stdout == chinese.stdout
    assert "诊断相同" in chinese.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--help"], "读取已终止作业的日志"),
        (["diagnose", "--help"], "说明什么耗尽了"),
        (["whatif", "-h"], "写"),
        (["explain", "nope"], "没有名为 'nope' 的原因"),
        (["diagnose", "--nope"], "没有选项 --nope"),
        (["nope"], "没有命令 'nope'"),
        (["diagnose", "--verbose=3"], "不带值"),
        (["diagnose", "-f", "pdf"], "不属于 text、json"),
        (["schema", "more"], "多余的参数：more"),
        (["knobs", "zero_stage"], "的一个选项"),
        (["diagnose", "no-such.log"], "没有这个文件"),
        (["causes"], "显存"),
        (["knobs"], "做什么"),
        (["explain", "container-limit"], "如何修改"),
        (["whatif", str(LOG), "--set", "gpu_memory_utilization=0.5"], "这次崩溃"),
    ],
)
def test_every_command_speaks_chinese(arguments: list[str], said: str) -> None:
    assert said in run(*arguments, "--lang", "zh").output
    assert said in run(*arguments, lang="zh_CN.UTF-8").output
    english = run(*arguments)
    assert not HAN.search(english.output)
    assert english.exit_code == run(*arguments, "--lang", "zh").exit_code


def test_help_is_asked_for_before_or_behind_the_command() -> None:
    assert "用法：" in run("--lang", "zh", "diagnose", "-h").output
    assert "用法：" in run("diagnose", "-h", "--lang=zh").output
    assert "Usage:" in run("diagnose", "-h", "--", "--lang=zh").output
    assert "'fr' is not one of en, zh" in run("diagnose", "--lang", "fr").output


@pytest.mark.parametrize("command", [[], ["diagnose"], ["redact"], ["issue"], ["whatif"], ["explain"], ["knobs"]])
def test_help_fits_its_width(command: list[str]) -> None:
    lines = run(*command, "-h", "--lang", "zh", COLUMNS="80").output.splitlines()
    assert [line for line in lines if columns.cells(line) > 80 and " oomdoctor " not in line] == []
    assert [line for line in lines if line.strip().startswith(("，", "。", "、", "）", "："))] == []


# Columns


@pytest.mark.parametrize("width", [20, 33, 80])
def test_lines_of_chinese_keep_to_their_width(width: int) -> None:
    words = "容器的限制为 8.00 GiB（cgroup），进程 trainer 占用 7.94 GiB；数据加载器的 16 个工作进程各占 120 MiB。" * 3
    lines = columns.wrapped(words, width, "  1. ", "     ")
    assert [line for line in lines if columns.cells(line) > width] == []
    assert [line for line in lines[1:] if line.strip()[0] in "，。；）、"] == []
    assert [line for line in lines if line.endswith("（")] == []
    assert "".join("".join(lines).split()) == "1." + "".join(words.split())
    assert min(map(columns.cells, lines[:-1])) > width - 12  # no holes but those that Latin words leave


def test_a_word_longer_than_a_line_is_cut() -> None:
    assert columns.wrapped("路径 /" + "a" * 30, 12) == ["路径", "/aaaaaaaaaaa", "aaaaaaaaaaaa", "aaaaaaa"]


def test_a_line_of_settings_ends_between_two_of_them() -> None:
    line = "设置：" + "、".join(f"setting_number_{number}={number}" for number in range(20))
    told = in_chinese(lambda: drawn([text._line(line)], width=60, color=False))
    assert [part for part in told.splitlines() if columns.cells(part) > 60] == []
    assert all(part.startswith(("设置", "setting_number_")) for part in told.splitlines())


@pytest.mark.parametrize("unicode", [False, True])
@pytest.mark.parametrize("width", [44, 100])
def test_a_page_in_chinese_keeps_to_its_width(width: int, unicode: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "style", lambda *_: out.Style(width=width, color=False, unicode=unicode))
    lines = run("explain", "gpu-shared", "--lang", "zh").output.splitlines()
    prose = [line for line in lines if HAN.search(line)]
    assert len(prose) > 10
    assert [line for line in prose if columns.cells(line) > width] == []
    assert [line for line in prose if line.strip().startswith(("，", "。", "、", "）", "："))] == []


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_report_in_chinese_keeps_to_its_width(width: int) -> None:
    report = oomdoctor.diagnose(LOG)
    told = in_chinese(
        lambda: text.rendered(oomdoctor.diagnose(LOG), width=width, color=False, unicode=True, verbose=False)
    )
    pasted = {remedy.snippet for each in report.incidents for one in each.diagnoses for remedy in one.remedies}
    wide = [line for line in told.splitlines() if columns.cells(line) > width]
    assert [line for line in wide if line.strip() not in pasted] == [], "what is pasted stands on one line"


# English costs nothing


@pytest.mark.slow
def test_english_imports_no_catalogue() -> None:
    program = (
        "import sys, oomdoctor\n"
        f"report = oomdoctor.diagnose({str(LOG)!r})\n"
        "assert report.incidents\n"
        "print(*sorted({'babel', 'oomdoctor.catalogues'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == []
