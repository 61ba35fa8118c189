"""Issue forms and templates are read, and what cannot be read is said with what, where and what to do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from oomdoctor.helpers.forms import LARGEST, UnusableFormError, choose, parse, read

FORMS = Path(__file__).parent / "forms"
FIELD = "  - type: textarea\n    attributes:\n      label: What happened\n"


def test_a_form_as_it_is_written() -> None:
    form = read(FORMS / "rendered.yml")
    assert (form.name, form.file, form.title) == ("Crash", "rendered.yml", "crash: <summary>")
    assert form.labels == ("crash", "help wanted")
    model, vllm, _, _, system, happened, logs, config, *_ = form.fields
    assert (model.kind, model.id, model.required) == ("input", "model", True)
    assert (vllm.kind, vllm.options, vllm.default) == ("dropdown", ("0.8.3", "0.7.3", "older"), "0.8.3")
    assert (system.multiple, system.default, system.required) == (True, None, False)
    assert (happened.render, logs.render) == (None, "shell")
    assert config.value == "# your config.yaml"


def test_checkboxes_have_labels_and_prefilled_text_is_kept() -> None:
    form = read(FORMS / "vllm.yml")
    assert [field.kind for field in form.fields] == ["markdown", "textarea", "textarea", "markdown", "checkboxes"]
    assert form.fields[1].id is None
    assert form.fields[1].value.startswith("<details>\n<summary>")
    assert len(form.fields[-1].options) == 1


def test_yaml_s_words_stay_words() -> None:
    form = parse(f"name: on\ndescription: 1.10\ntitle: 2025-01-01\nbody:\n{FIELD}", "a.yml")
    assert (form.name, form.description, form.title) == ("on", "1.10", "2025-01-01")


def test_a_template_is_its_sections() -> None:
    form = read(FORMS / "openrlhf.md")
    assert form.is_template
    assert form.labels == ("bug", "needs triage")
    assert form.opening == "<!-- Thank you. Please search first. -->"
    assert [field.label for field in form.fields] == [
        "**Describe the bug**",
        "**To Reproduce**",
        "**Expected behavior**",
        "**Log**",
        "**System info (please complete the following information):**",
        "**Additional context**",
    ]
    assert form.fields[1].value == "The launch script and its arguments:\n1.\n2."


def test_headings_in_a_template_s_fences_are_code() -> None:
    form = parse("# Bug\n```sh\n# a comment\n```\n## Log\n~~~\n# x\n~~~~\n", "bug.md")
    assert [(field.label, field.value) for field in form.fields] == [
        ("# Bug", "```sh\n# a comment\n```"),
        ("## Log", "~~~\n# x\n~~~~"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("body:\n - type: textarea\n   attributes: {label: *x}\n", "line 3: invalid YAML: an alias"),
        ("name: a\n  b: c\n", "line 2: invalid YAML"),
        ("name: 'open\n", "line 2: invalid YAML"),
        ("name: a\x00b\n", "invalid YAML"),
        ("[" * 3000, "nested more than 16 levels"),
        ("- " * 5000, "nested more than 16 levels"),
        ("- a\n- b\n", "is not an issue form: it needs name, description and body"),
        ("name: a\n", "has no body"),
        ("name: a\nbody: []\n", "has no body"),
        ("body:\n- type: markdown\n  attributes: {value: hello}\n", "no field to fill in"),
        ("body:\n- hello\n", "body[0]: a field needs type and attributes"),
        ("body:\n- attributes: {label: a}\n", "body[0] has no type; known: markdown, input"),
        (f"body:\n{FIELD}  - type: upload\n    attributes: {{label: a}}\n", "body[1] has the unknown type 'upload'"),
        ("body:\n- type: input\n", "body[0]: input has no attributes"),
        ("body:\n- type: input\n  attributes: {id: x}\n", "body[0]: input has no label"),
        ("body:\n- type: dropdown\n  attributes: {label: a}\n", "body[0]: dropdown has no options"),
        ("body:\n- type: dropdown\n  attributes: {label: a, options: b}\n", "options must be a list"),
        ("body:\n- type: checkboxes\n  attributes: {label: a, options: [{x: b}]}\n", "an option has no text"),
        ("body:\n" + FIELD * 201, "more than 200 fields"),
    ],
)
def test_what_cannot_be_used_is_said(text: str, said: str) -> None:
    with pytest.raises(UnusableFormError) as caught:
        parse(text, "bug.yml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("bug.yml")


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    begun = time.process_time()
    with pytest.raises(UnusableFormError, match="an alias"):
        parse(bomb, "bug.yml")
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system ['touch owned']", "!!python/name:os.system ''"])
def test_tags_make_nothing(tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnusableFormError, match="body"):
        parse(f"name: a\nbody: {tag}\n", "bug.yml")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "bug.yml"
    path.write_bytes(b"x" * (LARGEST + 1))
    with pytest.raises(UnusableFormError, match="larger than 64 KiB"):
        read(path)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("bug.yml", b"name: \xff\n", "byte 6 is not UTF-8"),
        ("bug.txt", b"hello", "ends in .yml or .yaml, a template in .md"),
        ("bug.md", b"just words\n", "has no headings"),
        ("bug.md", b"---\nname: [\n---\n# Bug\n", "line 3: invalid YAML"),
        ("bug.md", b"# Bug\n" * 300, "bug.md has more than 200 headings"),
    ],
)
def test_files_that_are_no_forms(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UnusableFormError) as caught:
        read(tmp_path / name)
    assert said in str(caught.value)


def test_no_such_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnusableFormError, match="no such file; name a form"):
        read(tmp_path / "gone.yml")


def test_windows_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "bug.yml"
    path.write_bytes(b"\xef\xbb\xbf" + f"name: a\nbody:\n{FIELD}".replace("\n", "\r\n").encode())
    assert [field.label for field in read(path).fields] == ["What happened"]


def test_of_a_checkout_the_bug_report_is_taken_and_the_broken_form_said() -> None:
    form, troubles = choose(FORMS / "checkout")
    assert form.file == "400-bug-report.yml"
    assert len(troubles) == 1
    assert troubles[0].startswith("600-broken.yml, line 7: invalid YAML")


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["1_feature_request.md", "0_question.md", "2_bug_report.md"], "2_bug_report.md"),
        (["bug.yml", "oom.yml", "crash.yml"], "oom.yml"),
        (["chat_bug_report.md", "compression_bug_report.md", "training_bug_report.md"], "training_bug_report.md"),
        (["rooms.yml", "bug-report.yml"], "bug-report.yml"),
        (["documentation.yml", "question.yml"], "question.yml"),
        (["ci-failure.yml", "300-usage.yml", "400-bug-report.yml", "450-installation.yml"], "400-bug-report.yml"),
    ],
)
def test_the_form_that_fits_a_crash(tmp_path: Path, names: list[str], wanted: str) -> None:
    folder = tmp_path / ".github/ISSUE_TEMPLATE"
    folder.mkdir(parents=True)
    for name in names:
        text = f"name: {Path(name).stem}\nbody:\n{FIELD}" if name.endswith(".yml") else "---\nabout: x\n---\n# A\n"
        (folder / name).write_text(text)
    assert choose(tmp_path)[0].file == wanted
    assert choose(folder)[0].file == wanted


def test_a_single_template_of_old_is_found(tmp_path: Path) -> None:
    (tmp_path / "ISSUE_TEMPLATE.md").write_text("# What happened\n")
    assert choose(tmp_path)[0].file == "ISSUE_TEMPLATE.md"


@pytest.mark.parametrize("file", ["notes.md", "config.yml", "train.log"])
def test_a_folder_without_forms_is_said(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text("# notes\n")
    with pytest.raises(UnusableFormError, match="holds no issue form"):
        choose(tmp_path)


def test_a_folder_of_broken_forms_says_why(tmp_path: Path) -> None:
    (tmp_path / "bug.yml").write_text("name: [\n")
    with pytest.raises(UnusableFormError, match=r"holds no usable form: bug.yml, line 2"):
        choose(tmp_path)
