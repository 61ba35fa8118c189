"""`oomdoctor issue`: whole drafts as they are printed, links, and what must never stand in them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from crash_logs import CRASH, HEALTHY, KILLED, TOKEN
from typer.testing import CliRunner, Result

from oomdoctor import __version__, diagnose
from oomdoctor.cli.app import app
from oomdoctor.helpers import forms, our_form
from oomdoctor.helpers.draft import LABEL_OF_MEMORY, LONGEST_LINK, OF_MEMORY, comment, parameterized

HERE = Path(__file__).parent
FORMS = HERE / "forms"
TOP = HERE.parent.parent
REWARD = TOP / "fixtures/stories/openrlhf-reward-server/log.txt"
SCHEDULING = TOP / "fixtures/stories/openrlhf-scheduling/log.txt"
ALL = ["vllm.yml", "ray.yml", "verl.yml", "openrlhf.md", "rendered.yml"]


def headline_of(log: Path) -> str:
    return diagnose(log).incidents[0].headline


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "serve.log"
    path.write_text(CRASH, encoding="utf-8")
    return path


def issue(*arguments: str | Path, feed: str | None = None) -> Result:
    return CliRunner().invoke(app, ["issue", *map(str, arguments)], input=feed)


def drafted(*arguments: str | Path) -> str:
    done = issue(*arguments)
    assert (done.exit_code, done.exception) == (0, None), done.output
    return done.stdout


@pytest.mark.parametrize("name", [*ALL, None])
def test_the_whole_draft(name: str | None, log: Path, update: bool) -> None:
    form = ["--form", str(FORMS / name)] if name else []
    text = drafted(log, *form).replace(f"oomdoctor {__version__}", "oomdoctor VERSION")
    kept = HERE / "drafts" / f"{name or 'ours'}.md"
    if update:
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ALL)
def test_nothing_secret_is_left_and_nothing_hostile_works(name: str, log: Path) -> None:
    text = drafted(log, "--form", FORMS / name)
    for secret in (TOKEN, TOKEN[3:20], "margarethe", "example-labs.com"):
        assert secret not in text
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", text)
    assert "@maintainer" in text
    for hostile in ("@maintainer", "<script>", "::error::", "#42", "end of the diagnosis"):
        assert hostile not in outside


def test_no_redact_is_explicit(log: Path) -> None:
    assert TOKEN in drafted(log, "--form", FORMS / "rendered.yml", "--no-redact")


def test_if_redaction_fails_nothing_is_printed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ValueError("of our own")

    monkeypatch.setattr("oomdoctor.redaction.Redactor.text", fail)
    done = issue(log)
    assert isinstance(done.exception, ValueError)
    assert done.stdout == ""


@pytest.mark.parametrize("name", ALL)
def test_no_box_is_ticked_and_every_field_is_there(name: str, log: Path) -> None:
    text = drafted(log, "--form", FORMS / name)
    assert "[x]" not in text.lower()
    form = forms.read(FORMS / name)
    for field in form.fields:
        if field.kind != "markdown":
            assert (field.label if form.is_template else f"### {field.label}") in text.split("\n")
        if field.kind == "checkboxes":
            assert all(f"- [ ] {option}" in text for option in field.options)


def test_an_option_is_picked_only_where_the_log_proves_it(log: Path, tmp_path: Path) -> None:
    text = drafted(log, "--form", FORMS / "rendered.yml")
    assert "### vLLM version\n\n0.8.3\n" in text
    assert "### Python Version\n\n3.11\n" in text
    assert "### CUDA version\n\n<!-- to fill in -->\n" in text
    assert "### Operating system\n\n<!-- to fill in: one of Linux; Windows; macOS -->" in text
    assumed = drafted(log, "--form", FORMS / "rendered.yml", "--assume", "cuda=12.4")
    assert "### CUDA version\n\n<!-- to fill in -->\n" in assumed  # said beside the log, not by it
    silent = tmp_path / "silent.log"
    silent.write_text(CRASH.replace("(v0.8.3)", ""), encoding="utf-8")
    text = drafted(silent, "--form", FORMS / "rendered.yml")
    assert "one of 0.8.3; 0.7.3; older (the form begins with 0.8.3)" in text


def test_the_prefilled_text_of_a_form_stays(log: Path) -> None:
    text = drafted(log, "--form", FORMS / "vllm.yml")
    assert "The output of `python print_env.py` here" in text
    assert "<!-- to fill in: Run this and put its output below. (required) -->" in text


def test_the_fingerprint_stands_in_every_draft(log: Path) -> None:
    fingerprint = diagnose(log).incidents[0].fingerprint
    for name in ALL:
        assert drafted(log, "--form", FORMS / name).count(fingerprint) == 1


@pytest.mark.parametrize("feed", [CRASH, KILLED])
def test_the_title_is_the_headline(feed: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(feed, encoding="utf-8")
    headline = diagnose(tmp_path / "log").incidents[0].headline
    done = issue("-", feed=feed)
    assert done.exit_code == 0
    title = done.stdout.split("\n")[0]
    assert re.fullmatch(rf"<!-- Title: (\[OOM\] )?{re.escape(headline)}( \([a-z-]+\))? -->", title), title


@pytest.mark.parametrize(
    ("log", "title"),
    [
        (SCHEDULING, f"{headline_of(SCHEDULING)} (ray-unschedulable)"),
        (TOP / "fixtures/kill/joblib.log", headline_of(TOP / "fixtures/kill/joblib.log")),
        (REWARD, None),  # the near miss: a kill that is one of memory
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_only_what_is_shown_to_be_of_memory_is_called_so(
    log: Path, title: str | None, kept: bool, tmp_path: Path
) -> None:
    form = tmp_path / "oom.yml"
    form.write_text(our_form.text(), encoding="utf-8")
    head = drafted(log, *(("--form", str(form)) if kept else ())).split("\n\n")[0]
    if title is None:
        assert head.startswith(f"<!-- Title: [OOM] {headline_of(log)}")
        assert head.endswith("<!-- Labels: out-of-memory -->")
    else:
        assert head == f"<!-- Title: {title} -->"
    link = query(issue(log, "--form", form, "--repo", "octo-org/octo", "--url"))
    assert link["title"].startswith(title or "[OOM] ")
    assert link.get("labels") == (None if title else "out-of-memory")


def test_what_another_form_begins_with_stays() -> None:
    text = drafted(SCHEDULING, "--form", FORMS / "vllm.yml").split("\n")
    assert text[:2] == [
        f"<!-- Title: [Bug]: {headline_of(SCHEDULING)} (ray-unschedulable) -->",
        "<!-- Labels: bug -->",
    ]


def test_our_form_marks_what_is_of_memory_as_the_draft_expects() -> None:
    form = our_form.form()
    assert (form.title.strip(), form.labels) == (OF_MEMORY, (LABEL_OF_MEMORY,))


def test_from_a_pipe_the_lines_that_the_report_keeps_are_quoted() -> None:
    done = issue("-", feed=CRASH)
    assert done.exit_code == 0
    assert "torch.OutOfMemoryError: CUDA out of memory." in done.stdout


def test_what_died_without_a_reason_says_what_to_look_at() -> None:
    done = issue("-", "--form", FORMS / "ray.yml", feed=KILLED)
    assert done.exit_code == 0
    assert "To check next:\n\n```shell\n" in done.stdout


@pytest.mark.parametrize("feed", [HEALTHY, ""])
def test_without_a_failure_there_is_nothing_to_report(feed: str) -> None:
    done = issue("-", feed=feed)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nothing to report" in done.stderr


def test_of_a_checkout_it_says_which_form(log: Path) -> None:
    done = issue(log, "--form", FORMS / "checkout")
    assert done.exit_code == 0
    assert "the form is 400-bug-report.yml (🐛 Something is broken)" in done.stderr
    assert "skipped: 600-broken.yml, line 7" in done.stderr


def query(done: Result) -> dict[str, str]:
    assert done.exit_code == 0, done.output
    url = done.stdout.rstrip("\n")
    assert len(url.encode()) <= LONGEST_LINK
    assert re.fullmatch(r"https://github\.com/octo-org/octo/issues/new\?[A-Za-z0-9_.~%&=-]+", url)
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query, strict_parsing=True).items()}


def link(log: Path, *arguments: str | Path) -> Result:
    return issue(log, *arguments, "--repo", "octo-org/octo", "--url")


def test_a_link_fills_the_fields_by_their_ids(log: Path) -> None:
    found = query(link(log, "--form", FORMS / "rendered.yml"))
    assert list(found)[:3] == ["template", "title", "labels"]
    assert found["template"] == "rendered.yml"
    assert found["title"].startswith(f"crash: {headline_of(log)}")
    assert found["labels"] == "crash,help wanted"
    assert found["vllm"] == "0.8.3"
    assert found["model"] == "org/small-7b"
    assert "CUDA out of memory" in found["logs"]
    assert "```" not in found["logs"].split("\n")[0]  # GitHub puts the fence around it
    assert "os" not in found


def test_a_link_says_what_it_leaves_to_fill_in_and_which_fields_have_no_id(log: Path) -> None:
    done = link(log, "--form", FORMS / "vllm.yml")
    found = query(done)
    assert set(found) == {"template", "title", "labels", "your-current-environment", "describe-the-bug"}
    assert (
        "no id in the form, so GitHub may leave them empty: Your current environment; 🐛 Describe the bug"
        in done.stderr
    )
    assert "fill these in yourself: Before submitting a new issue..." in done.stderr


def test_a_template_and_a_plain_issue_get_a_body(log: Path) -> None:
    assert set(query(link(log, "--form", FORMS / "openrlhf.md"))) == {"template", "title", "labels", "body"}
    plain = query(link(log))
    assert set(plain) == {"title", "body"}
    assert "### Launch command and configuration" in plain["body"]


def test_a_long_log_is_cut_to_the_link_s_length_and_that_is_said() -> None:
    done = link(REWARD, "--form", FORMS / "verl.yml")
    found = query(done)
    assert "the log and the settings in it were cut" in done.stderr
    assert "v1:" in found["reproduction"]
    assert "reward-model-ram-hog" in found["reproduction"]
    assert "Task was killed due to the node running low on memory" in found["reproduction"]


def test_a_link_is_as_harmless_as_a_draft(log: Path) -> None:
    log.write_text(CRASH.replace("org/small-7b", "@maintainer/x_y_z"), encoding="utf-8")
    found = query(link(log, "--form", FORMS / "rendered.yml"))
    assert found["model"] == "`@maintainer/x_y_z`"
    assert "\n### A heading ''' and" in found["logs"]
    assert "```" not in found["logs"]  # GitHub's own fence around it has three
    assert "```" not in found["config"]


def test_what_is_not_from_the_log_says_so(log: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("vllm serve org/small-7b --max-num-seqs 64\n")
    text = drafted(log, "--launch", script, "--assume", "torch=2.6.0")
    assert "max_num_seqs=64  (from run.sh line 1, not from the log)" in text
    assert "- torch 2.6.0 (from `--assume`, not from the log)" in text


def test_of_two_crashes_the_first_is_told(log: Path, tmp_path: Path) -> None:
    refusal = CRASH[CRASH.index("torch.OutOfMemoryError") :]
    other = tmp_path / "tuning.log"
    trainer = '  File "/w/src/llamafactory/train/sft/workflow.py", line 90, in run_sft\n'
    launch = "llamafactory-cli train --cutoff_len 4096\nTraceback (most recent call last):\n"
    other.write_text(launch + trainer + refusal.replace("3.50", "1.50"))
    log.write_text(
        "python3 -m verl.trainer.main_ppo data.max_prompt_length=512\nTraceback (most recent call last):\n"
        '  File "/w/verl/workers/actor/dp_actor.py", line 310, in update_policy\n' + refusal
    )
    done = issue(log, other)
    assert done.exit_code == 0
    assert "the logs hold 2 crashes; the draft is about the first" in done.stderr


def test_the_draft_is_of_the_first_crash_s_job_only(tmp_path: Path) -> None:
    own, other, beside = tmp_path / "own.log", tmp_path / "other.log", tmp_path / "setup.log"
    refusal = CRASH[CRASH.index("torch.OutOfMemoryError") :]
    own.write_text("vllm==0.8.3\n" + refusal)
    other.write_text(
        "torch==2.5.1\nRuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate "
        "8589934592 bytes. Error code 12 (Cannot allocate memory)\n"
    )
    beside.write_text("transformers==4.51.3\n")
    assert "2.5.1" in drafted(other)
    done = issue(own, other, beside)
    assert "the logs hold 2 crashes" in done.stderr
    assert "2.5.1" not in done.stdout
    assert "vllm 0.8.3" in done.stdout
    assert "4.51.3" in done.stdout


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("2.4; 2.5; 2.6", "2.5"),
        ("2; 2.5.x; 2.6.x", "2.5.x"),
        ("PyTorch 2.5; PyTorch 2.51", "PyTorch 2.5"),
        ("v2.5; v2.5.1; v2.5.2", "v2.5.1"),
        ("2.50; 2.6; 25; 1", None),
        ("2.5; 2.5.x", None),
        ("CUDA 2.5; older", None),
        (">= 2.5; older", None),
    ],
)
@pytest.mark.parametrize("label", ["PyTorch version", "Which version of PyTorch?"])
def test_a_version_is_told_by_the_option_that_it_belongs_to(
    options: str, wanted: str | None, label: str, log: Path, tmp_path: Path
) -> None:
    log.write_text("torch==2.5.1\n" + CRASH, encoding="utf-8")
    text = drafted(log, "--form", _dropdown(tmp_path, label, options))
    assert f"### {label}\n\n{wanted or f'<!-- to fill in: one of {options} -->'}\n" in text


def test_another_framework_s_version_is_none(log: Path, tmp_path: Path) -> None:
    log.write_text("torch==2.5.1\n" + CRASH, encoding="utf-8")
    assert "to fill in: one of" in drafted(log, "--form", _dropdown(tmp_path, "PyTorch CUDA version", "2.4; 2.5"))


def _dropdown(folder: Path, label: str, options: str) -> Path:
    lines = "".join(f'        - "{option}"\n' for option in options.split("; "))
    path = folder / "bug.yml"
    path.write_text(
        "name: Bug\ndescription: A bug\nbody:\n  - type: textarea\n    attributes:\n      label: What happened?\n"
        "    validations:\n      required: true\n"
        f"  - type: dropdown\n    attributes:\n      label: {label}\n      options:\n{lines}",
        encoding="utf-8",
    )
    return path


def test_a_field_that_is_answered_is_not_marked(log: Path, tmp_path: Path) -> None:
    text = drafted(log, "--form", _dropdown(tmp_path, "Severity", "low; high"))
    field = text[text.index("### What happened?") : text.index("### Severity")]
    assert "to fill in" not in field
    assert "The log names:\n\n- " in field


def test_a_draft_is_in_the_form_s_language(log: Path, tmp_path: Path) -> None:
    path = _dropdown(tmp_path, "Severity", "low; high")
    english = drafted(log, "--form", path)
    done = issue(log, "--form", path, "--lang", "zh")
    assert done.stdout == english
    assert "bug.yml" in done.stderr
    path.write_text(path.read_text("utf-8").replace("What happened?", "描述").replace("Severity", "严重程度"), "utf-8")
    assert "显存" in drafted(log, "--form", path)


def test_a_form_of_code_blocks_only_still_gets_the_diagnosis(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "bug.yml"
    path.write_text(
        "name: a\nbody:\n- type: textarea\n  id: logs\n  attributes: {label: Logs, render: text}\n", encoding="utf-8"
    )
    found = query(link(log, "--form", path))
    assert "Fingerprint: v1:" in found["logs"]
    assert "### What happened" in drafted(log, "--form", path)


def test_comments_of_a_template_go_where_they_are_answered(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "bug.md"
    path.write_text("# Logs\n<!-- a <!-- b --> kept <!-- c\n-->\n# Steps of the dance\n<!-- d -->\n<!-- e\n")
    text = drafted(log, "--form", path)
    assert "kept" in text
    assert "<!-- a" not in text
    assert "<!-- d -->\n<!-- e\n" in text
    path.write_text("# Logs\n" + "<!--" * 15_000)
    assert "CUDA out of memory" in drafted(log, "--form", path)


def test_a_form_s_own_long_texts_do_not_break_the_link(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "bug.yml"
    field = "- type: textarea\n  id: f{0}\n  attributes:\n    label: {1}\n    value: " + "é" * 6000 + "\n"
    path.write_text("name: a\nbody:\n" + field.format(1, "Logs") + field.format(2, "Describe the bug"), "utf-8")
    found = query(link(log, "--form", path))
    assert found["title"].startswith(headline_of(log))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url"], "Invalid value for --url: needs the repository: add --repo OWNER/NAME"),
        (["--repo", "a/b"], "Invalid value for --repo: only works with --url: add --url, or leave out --repo"),
        (["--repo", "a"], "Invalid value for --repo: 'a' is not OWNER/NAME"),
        (["--url", "--repo", "https://github.com/a/b"], "is not OWNER/NAME"),
        (["--url", "--repo", "a/b?x=y"], "is not OWNER/NAME"),
        (["--url", "--repo", "a/b\n"], "is not OWNER/NAME"),
        (
            ["--form", "https://github.com/a/b/blob/main/.github/ISSUE_TEMPLATE/bug.yml"],
            "download the form and name the file",
        ),
        (["--form", "gone.yml"], "no such file; name a form with --form"),
    ],
)
def test_wrong_usage_is_said(arguments: list[str], said: str, log: Path) -> None:
    done = issue(log, *arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_comment_ends_where_it_should() -> None:
    assert comment("one of a --> b; --zero 3; ---!> <!-- c") == "<!-- one of a -> b; --zero 3; -> <!-- c -->"


@pytest.mark.parametrize(
    ("label", "wanted"),
    [("Name?????", "name"), ("Versions / Dependencies", "versions-dependencies"), ("🐛 Bug_id - x", "bug_id-x")],
)
def test_a_field_without_an_id_is_called_as_github_calls_it(label: str, wanted: str) -> None:
    assert parameterized(label) == wanted


def test_the_output_is_a_file_and_never_one_of_the_logs(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "issue.md"
    assert issue(log, "-o", target).exit_code == 0
    assert target.read_text(encoding="utf-8").startswith("<!-- Title: [OOM] ")
    assert issue(log, "-o", log).exit_code != 0
    assert log.read_text(encoding="utf-8") == CRASH
