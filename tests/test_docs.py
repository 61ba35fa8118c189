"""The documentation: what its pages show is what happens (`pytest --update` writes it anew), and its links lead
somewhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace
from test_readme import block, installed, oomdoctor

from benchmarks.catalogue import Message, programs
from oomdoctor.causes import causes
from oomdoctor.cli.commands import OLD_NAMES

TOP = Path(__file__).parent.parent
DOCS = TOP / "docs"
SHOWN = re.compile(r"```console\n\$ oomdoctor ([^\n]*)\n(.*?)```", re.DOTALL)
HELP = re.compile(r"^## ([\w -]+)\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)  # as commands.md has it
PAGES = sorted(path for path in DOCS.rglob("*.md") if SHOWN.search(path.read_text(encoding="utf-8")))

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="only in a checkout")


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_build", DOCS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.path[:]
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture(scope="module")
def site(builder: ModuleType) -> dict[str, str]:
    found: dict[str, str] = builder.pages()
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_is_printed(page: Path, update: bool) -> None:
    text = page.read_text(encoding="utf-8")

    def printed(shown: re.Match[str]) -> str:
        done = oomdoctor(*shown[1].split())
        assert done.returncode in (0, 1), done.stderr
        return f"```console\n$ oomdoctor {shown[1]}\n{done.stdout}```"

    found = SHOWN.sub(printed, text)
    if update:
        page.write_text(found, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == found


def test_links_lead_somewhere(builder: ModuleType, site: dict[str, str]) -> None:
    assert list(builder.broken(site)) == []
    page = "[a](b.md) [c](#d)\n\n# C\n\n```\n[x](y.md)\n```\n"
    assert list(builder.broken({"a.md": page})) == ["a.md: [a](b.md)", "a.md: [c](#d)"]
    assert list(builder.broken({"a.md": page.replace("#d", "#c"), "b.md": ""})) == []
    assert list(builder.broken({"a.md": "a `[x](y.md)` b ``[x](`z.md)`` [`c`](d.md)"})) == ["a.md: [code](d.md)"]


def test_the_pages_can_be_followed_in_the_repository_too(builder: ModuleType) -> None:
    for path in DOCS.rglob("*.md"):
        for target, anchor in re.findall(r"\]\(([^)#\s]+)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                there = path.parent / target
                assert there.exists(), f"{path}: {target}"
                text = there.read_text(encoding="utf-8") if anchor else ""
                anchors = {"", *builder.headings(text), *re.findall(r"<a id=([\w-]+)></a>", text)}
                assert anchor in anchors, f"{path}: #{anchor}"


def test_what_is_taken_from_elsewhere_is_linked_to_in_the_repository(site: dict[str, str]) -> None:
    taken = re.compile(r"^<!-- (\w+) (.+) -->\n(.*)$", re.MULTILINE)
    found = [(path, *parts) for path in DOCS.rglob("*.md") for parts in taken.findall(path.read_text(encoding="utf-8"))]
    assert {kind for _, kind, _, _ in found} == {"include", "code", "help"}
    for path, kind, what, line in found:
        named = f"`oomdoctor {what} --help`" if kind == "help" else what.split()[0]
        assert line.startswith(("_Here stand", "_此处是")), f"{path}: {kind} {what}"
        assert named in line, f"{path}: {line}"
    assert "_Here stand" not in "".join(site.values())


def test_every_page_can_be_reached(builder: ModuleType, site: dict[str, str]) -> None:
    nav = set(re.findall(r'"([\w/-]+\.md)"', (DOCS / "zensical.toml").read_text(encoding="utf-8")))
    assert nav <= site.keys()
    listed = {f"reference/causes/{cause.id}.md" for cause in causes()}
    listed |= {f"reference/messages/{builder.slug(program.kind)}.md" for program in programs()}
    assert {name for name in site if name.endswith(".md")} == nav | listed
    for folder in ("causes", "messages"):
        index = site[f"reference/{folder}/index.md"]
        pages = [name.rpartition("/")[2] for name in listed if f"/{folder}/" in name]
        assert [page for page in pages if f"]({page})" not in index] == []


def test_the_reference_is_of_what_is_there(site: dict[str, str]) -> None:
    assert all(f"## {command}\n" in site["reference/commands.md"] for command in ("diagnose", "watch", "whatif"))
    assert "| 70 | an error of oomdoctor itself |" in site["reference/exit-codes.md"]
    assert re.findall(r"^Usage: (?!oomdoctor ).*", "".join(site.values()), re.MULTILINE) == []
    assert all(f"## {form}\n" in site["reference/formats.md"] for form in ("text", "json", "markdown", "github"))
    assert "`actor_rollout_ref.rollout.gpu_memory_utilization={}`" in site["reference/spellings.md"]
    assert "| `out-of-memory` |" in site["reference/events.md"]
    assert "list of [Incident](#incident)" in site["reference/schema.md"]
    assert "## Not to be confused with" in site["reference/causes/container-limit.md"]
    assert [name for name, text in site.items() if str(TOP) in text] == []


def test_what_is_read_is_the_catalogue(builder: ModuleType, site: dict[str, str]) -> None:
    index = site["reference/messages/index.md"]
    for program in programs():
        page = site[f"reference/messages/{builder.slug(program.kind)}.md"]
        (part,) = re.findall(rf"^## {re.escape(program.program)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        assert f"[{program.program}]({builder.slug(program.kind)}.md#" in index
        assert f"`{program.repository}`" in part
        assert len(re.findall(r"^\| `", part, re.MULTILINE)) == len(program.message)
    assert f"{sum(len(program.message) for program in programs())} messages" in index


def test_a_message_is_shown_with_its_releases_and_what_is_said_of_it(builder: ModuleType) -> None:
    reference = builder.reference
    message = Message(file="f.py", template="a |`b`|", rendered="", expect="oom", causes=("activations",), pool="gpu")
    assert reference._said(message) == "[activations](../causes/activations.md) (GPU memory)"
    releases = {("", ""): "", ("1.0", ""): "since 1.0", ("", "2.0"): "up to 2.0", ("1.0", "2.0"): "1.0 to 2.0"}
    releases[("1.0", "1.0")] = "1.0"
    assert {pair: reference._releases(replace(message, first=pair[0], last=pair[1])) for pair in releases} == releases
    assert reference._said(replace(message, gap="why")) == "not read rightly yet: why"
    quiet = replace(message, expect="no-oom", causes=(), pool="")
    assert reference._said(quiet) == "no failure"
    assert "goes on" in reference._said(replace(quiet, expect="pressure"))
    assert [reference._verbatim(text) for text in ("a  {}\nb", "`a` b", "a `b` c")] == [
        "`a {} b`", "`` `a` b ``", "``a `b` c``"
    ]  # fmt: skip


def test_the_exit_codes_lead_to_the_commands_that_tell_theirs(site: dict[str, str]) -> None:
    linked = set(re.findall(r"\(commands\.md#([\w-]+)\)", site["reference/exit-codes.md"]))
    assert {"diagnose", "issue-redact", "issue-form", "issue-reduce"} <= linked
    assert not {"explain", "explain-causes", "explain-knobs", "dev-schema"} & linked
    deciding = {
        name.replace(" ", "-") for name, text in HELP.findall(site["reference/commands.md"]) if "--exit-zero" in text
    }
    assert "dev-events" in deciding
    assert deciding <= linked


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq")
@pytest.mark.parametrize(("log", "cause"), [("step 1 loss 0.3\n", "none"), (None, "reward-model-ram-hog")])
def test_the_cause_is_read_of_a_healthy_log_too(log: str | None, cause: str, tmp_path: Path) -> None:
    (line,) = re.findall(r"^oomdoctor (.*) \| jq -r '(.*)'$", (DOCS / "how-to/ci.md").read_text("utf-8"), re.MULTILINE)
    path = TOP / "fixtures/stories/openrlhf-reward-server/log.txt"
    if log is not None:
        path = tmp_path / "train.log"
        path.write_text(log, encoding="utf-8")
    done = oomdoctor(*line[0].replace("train.log", str(path)).split())
    assert done.returncode == 0
    read = subprocess.run(["jq", "-r", line[1]], input=done.stdout, capture_output=True, text=True, check=True)
    assert read.stdout == f"{cause}\n"


def test_every_command_that_a_page_names_is_understood(site: dict[str, str]) -> None:
    helps = dict(HELP.findall(site["reference/commands.md"]))
    written = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    lines = re.findall(r"^(?:[^#\n`]*\| )?oomdoctor ([\w-]+)([^#\n|]*)", written, re.MULTILINE)
    assert len(lines) >= 6
    for command, rest in lines:
        flags = [word for word in rest.split() if word.startswith("-") and word != "-"]
        name = f"{command} {rest.split()[0] if rest.split() else ''}"
        text = helps.get(name) or helps[OLD_NAMES.get(command, command)]
        assert [flag for flag in flags if flag not in text] == []


def test_what_is_said_elsewhere_is_taken_from_there(builder: ModuleType, site: dict[str, str]) -> None:
    assert "## How right it is" in site["index.md"]
    assert "](how-to/what-if.md)" in site["index.md"]
    assert "](../index.md#install-and-diagnose)" in site["how-to/ci.md"]
    assert "Usage: oomdoctor dev bench" in site["how-to/own-logs.md"]
    assert re.findall("<!-- (?:include|code|help) ", "".join(site.values())) == []
    assert builder.section("README.md", "Three more uses", below=False).startswith("**Watch a job.**")
    with pytest.raises(SystemExit, match="no heading"):
        builder.section("README.md", "Three fewer uses", below=False)


PROGRAM = DOCS / "how-to/program.md"


@pytest.mark.parametrize("name", ["", "chinese"], ids=["english", "chinese"])
def test_the_program_runs(name: str, tmp_path: Path) -> None:
    log = (TOP / block("diagnose").split("oomdoctor diagnose ", 1)[1].strip()).read_bytes()
    (tmp_path / "driver.log").write_bytes(log)
    done = subprocess.run(
        [sys.executable, "-c", (block(name, PROGRAM) if name else "") + block("library", PROGRAM)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    told = "raylet.out 没有这个文件" if name else "raylet.out no such file"
    assert done.stdout.startswith(f"oom\n{told}\nreward-model-ram-hog 0.")


def test_what_the_pages_install_is_in_the_clone() -> None:
    assert sum(len(installed(page)) for page in DOCS.rglob("*.md")) >= 3


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    if find_spec("zensical") is None:
        pytest.skip("needs the extra docs")
    done = subprocess.run(
        [sys.executable, str(DOCS / "build.py"), str(tmp_path / "docs")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"The pages: {tmp_path / 'docs/site/index.html'}\n")
    assert "A job that died in its third step" in (tmp_path / "docs/site/tutorial.html").read_text(encoding="utf-8")
