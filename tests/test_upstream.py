"""`python -m benchmarks.upstream` finds what a program prints of memory, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.catalogue import Answer
from benchmarks.upstream import __main__ as upstream
from benchmarks.upstream import about, literals, python, rendered, tree
from benchmarks.upstream.figures import filled
from benchmarks.upstream.text import BRACES, EITHER, PERCENT, Printed, Value, formatted, joined


def in_python(source: str) -> list[Printed]:
    return python.printed("kiln/fire.py", source.encode())


def only(printed: list[Printed]) -> Printed:
    (one,) = printed
    return one


@pytest.mark.parametrize(
    ("source", "level", "name", "template"),
    [
        ('raise MemoryError("no room")', "failure", "MemoryError", "no room"),
        ('raise errors.Full("a " "b")', "failure", "errors.Full", "a b"),
        ('from clay.e import Full\nraise Full(f"{a} of {b:.2f} GiB")', "failure", "clay.e.Full", "{} of {} GiB"),
        ('class Full(Exception): pass\nraise Full("full")', "failure", "kiln.fire.Full", "full"),
        ('def f():\n    text = "a"\n    text += f" {b}"\n    raise ValueError(text)', "failure", "ValueError", "a {}"),
        ('TEXT = "a {} b"\nraise ValueError(TEXT.format(3))', "failure", "ValueError", "a {} b"),
        ('raise ValueError("a {size} b".format(size=3))', "failure", "ValueError", "a {} b"),
        ('raise ValueError("%d of %s, 100%%" % (a, b))', "failure", "ValueError", "{} of {}, 100%"),
        ('raise ValueError(_("a") + str(b) + "c")', "failure", "ValueError", "a{}c"),
        ('raise web.Fault(code=3, message="full")', "failure", "web.Fault", "full"),
        ('assert blocks > 0, "no blocks"', "failure", "AssertionError", "no blocks"),
        ('logger.error("%s left", free)', "failure", "error", "{} left"),
        ('self._log.exception("gone")', "failure", "exception", "gone"),
        ('logger.warning_once("low")', "warning", "warning", "low"),
        ('logging.getLogger(__name__).warning("low")', "warning", "warning", "low"),
        ('rank_zero_warn("low")', "warning", "warn", "low"),
        ('warnings.warn("low", ResourceWarning)', "warning", "ResourceWarning", "low"),
        ('logger.debug(f"{n} blocks")', "info", "debug", "{} blocks"),
        ('print("free:", free)', "print", "print", "free:"),
        ('click.echo("done")', "print", "print", "done"),
        ('sys.exit("no memory")', "failure", "error", "no memory"),
    ],
)  # fmt: skip
def test_what_python_prints_is_seen(source: str, level: str, name: str, template: str) -> None:
    one = only(in_python(source))
    assert (one.level, one.name, one.template) == (level, name, template)


@pytest.mark.parametrize(
    "source",
    [
        '"""raise MemoryError("out of memory")"""',
        '# raise MemoryError("out of memory")',
        'parser.add_argument("--swap", help="out of memory")',
        'text = "out of memory"',
        'math.log("out of memory")',
        "raise MemoryError(size)",
        "raise MemoryError",
        "raise",
        'if "out of memory" in str(error): pass',
        "raise MemoryError(",
    ],
)
def test_what_python_does_not_print_is_not(source: str) -> None:
    assert in_python(source) == []


def test_the_text_of_another_function_is_not_taken() -> None:
    source = 'def f():\n    text = "mine"\ndef g(text):\n    raise ValueError(text)\n'
    assert in_python(source) == []


@pytest.mark.parametrize(
    ("language", "source", "level", "name", "template"),
    [
        ("c", 'throw std::runtime_error("no room");', "failure", "std::runtime_error", "no room"),
        ("c", 'throw Full(fmt::format("{} of {:.2f} GiB", a, b));', "failure", "Full", "{} of {} GiB"),
        ("c", 'throw Full("a " + std::to_string(n) + " b");', "failure", "Full", "a {} b"),
        ("c", 'TORCH_CHECK(n > 0, "a ", n,\n  " b");', "failure", "", "a {} b"),
        ("c", 'CHECK_GE(a, b) << "a " << n << " b";', "failure", "", "a {} b"),
        ("c", 'LOG(ERROR) << "a " << std::endl;', "failure", "error", "a"),
        ("c", 'RAY_LOG(WARNING) << "low";', "warning", "warning", "low"),
        ("c", 'LOG_FIRST_N(INFO, 3) << "so";', "info", "info", "so"),
        ("c", 'GGML_LOG_ERROR("%zu of %" PRIu64 " bytes\\n", a, b);', "failure", "error", "{} of {} bytes"),
        ("c", 'GGML_ABORT("not enough: %zu", n);', "failure", "", "not enough: {}"),
        ("c", 'logger->warn("low: {}", n);', "warning", "warn", "low: {}"),
        ("c", 'spdlog::error("gone");', "failure", "error", "gone"),
        ("c", 'error (EXIT_FAILURE, 0, _("memory exhausted"));', "failure", "", "memory exhausted"),
        ("c", 'warnx("low");', "warning", "warn", "low"),
        ("c", 'return Status::Internal("no room" PLACE);', "failure", "Internal", "no room"),
        ("c", 'WARN("Failed %ld", n);', "failure", "", "Failed {}"),
        ("c", 'absl::InternalError(absl::StrCat("a ", n, " b"));', "failure", "InternalError", "a {} b"),
        ("c", 'fprintf(stderr, "a %d\\n", n);', "print", "", "a {}"),
        ("c", 'std::cerr << "a " << n;', "print", "cerr", "a {}"),
        ("c", 'throw Full(R"x(a "b")x");', "failure", "Full", 'a "b"'),
        ("rust", 'panic!("no room for {n} of {:?}", m);', "failure", "", "no room for {} of {}"),
        ("rust", 'bail!("no room");', "failure", "", "no room"),
        ("rust", 'tracing::warn!("low {}", n);', "warning", "warn", "low {}"),
        ("rust", '#[error("full: {0}")]\nFull(u64),', "failure", "", "full: {}"),
        ("rust", 'return Err(Error::Full(r#"a "b""#.into()));', "failure", "Error::Full", 'a "b"'),
        ("go", 'return fmt.Errorf("no room for %s: %w", n, err)', "failure", "", "no room for {}: {}"),
        ("go", "errors.New(`no room`)", "failure", "", "no room"),
        ("go", 'slog.Warn("low", "free", free)', "warning", "warn", '"low" free={}'),
        ("go", 'klog.ErrorS(err, "gone")', "failure", "error", "gone"),
        ("go", 'panic("gone")', "failure", "", "gone"),
        ("java", 'throw new kiln.FullError("no room for " + n);', "failure", "kiln.FullError", "no room for {}"),
        ("java", 'log.warn("low: {}", n);', "warning", "warn", "low: {}"),
        ("java", 'logError("gone")', "failure", "error", "gone"),
    ],
)  # fmt: skip
def test_what_other_languages_print_is_seen(language: str, source: str, level: str, name: str, template: str) -> None:
    one = only(literals.printed("kiln/fire.x", source, language))
    assert (one.level, one.name, one.template) == (level, name, template)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("c", '// throw Full("out of memory");'),
        ("c", '/* CHECK(a) << "out of memory"; */'),
        ("c", 'const char* text = "throw Full(3)";'),
        ("c", 'flags.add("swap", "help: out of memory");'),
        ("c", "throw Full(text);"),
        ("c", "char quote = '\"'; // \""),
        ("c", 'if (strstr(text, "out of memory")) throw Full(text);'),
        ("c", 'CHECK(a); run("out of memory");'),
        ("rust", "fn f<'a>(x: &'a str) {} // panic!(\"gone\")"),
        ("go", 'flag.String("swap", "", "out of memory")'),
        ("java", 'throw new FullException(text); run("out of memory");'),
    ],
)
def test_what_other_languages_do_not_print_is_not(language: str, source: str) -> None:
    assert literals.printed("kiln/fire.x", source, language) == []


def test_lines_are_counted_behind_comments_and_long_texts() -> None:
    source = '/* a\n b */\nauto x = R"(c\nd)";\n\nthrow Full("e" // f\n  "g");\n'
    one = only(literals.printed("fire.cc", source, "c"))
    assert (one.line, one.template) == (6, "eg")


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("Tried to allocate {} GiB, {} GiB free of {} GiB", "Tried to allocate 24.00 GiB, 1.50 GiB free of 16.00 GiB"),
        ("{} MiB in use", "14848 MiB in use"),
        ("failed to allocate {} bytes", "failed to allocate 25769803776 bytes"),
        ("requires {} blocks, only {} are available", "requires 24576 blocks, only 1536 are available"),
        ("limit is {} tokens", "limit is 16384 tokens"),
        ("on device {}", "on device 0"),
        ("pid {}", "pid 4117"),
        ("cannot map file {}", "cannot map file /data/model"),
        ("retry {}", "retry 8"),
    ],
)
def test_values_get_figures_of_their_kind(text: str, figures: str) -> None:
    assert filled(joined(formatted(text, BRACES))) == figures


@pytest.mark.parametrize(
    ("value", "figure"),
    [
        (Value("free / 2**30", "{:.1f}"), "1.5"),
        (Value("format_bytes(need)", "%s"), "24.00 GiB"),
        (Value("strerror(errno)", "%s"), "see the lines above"),
        (Value("block_size", "%d"), "24576"),
        (Value("total_mem_mb", "%d"), "16384"),
        (Value("dim", "{dim}"), "8"),
        (Value("free", "{free:.1f}"), "1.5"),
        (Value("ptr", "%p"), "0x7f3a5c000000"),
        (Value("", "%m"), "Cannot allocate memory"),
    ],
)
def test_expressions_and_formats_tell_what_a_value_is(value: Value, figure: str) -> None:
    assert filled(("it is: ", value)) == f"it is: {figure}"


def test_a_value_may_have_its_name_in_the_format() -> None:
    names = [
        piece.expression for piece in formatted("{free} {} %(size)d", EITHER, ["used"]) if isinstance(piece, Value)
    ]
    assert names == ["free", "used", "size"]
    one = only(in_python('raise Full("{a} of {b} bytes".format(a=used, b=total))'))
    assert [piece.expression for piece in one.pieces if isinstance(piece, Value)] == ["used", "total"]


def test_a_per_cent_sign_and_doubled_braces_are_no_values() -> None:
    assert list(joined(formatted("100%% of 5%d, 3% o", PERCENT))) == ["100% of 5", Value("", "%d"), ", 3% o"]
    assert list(joined(formatted("{{a}} {b!r:>3}", BRACES))) == ["{a} ", Value("b", "{b!r:>3}")]


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory",
        "ran out of free KV cache blocks",
        "std::bad_alloc",
        "Unable to allocate 3.00 GiB",
        "Failed to reserve a KV slot",
        "memory allocation of 8 bytes failed",
        "Not enough GPU memory to serve one block",
        "no free slots in the token pool: no available memory",
        "The KV cache is full",
        "device memory exhausted",
        "The request needs 24.00 GiB, which is larger than the available memory",
        "needs 24576 blocks but only 1536 are available",
        "Maximum pool size exceeded",
        "llama-server reported out-of-memory during startup",
    ],
)
def test_a_shortage_is_told_by_its_words(text: str) -> None:
    assert about.shortage(text)


@pytest.mark.parametrize(
    "text",
    [
        "memory leak: 3 blocks",
        "illegal memory access",
        "channels_last memory format is not supported",
        "Failed to configure 131072 bytes of dynamic shared memory",
        "max_memory must be larger than the memory in use",
        "Set this to reduce the risk of out of memory",
        "probably out of memory",
        "index out of range of the memory pool",
        "file is too large: 3 bytes",
        "allocated 3 GiB of memory",
        "KV cache size: 3 GiB",
        "Device 0 does not support memory pools",
        "could not open the file",
        "needs 3 arguments but only 2 are available",
        "launch exceeds the grid capacity",
        "unable to allocate TCP sub-batch",
        "failed to set the allocation context",
        "could not reserve 3 worker nodes",
        "cudaGetDevice failed before the allocation",
        "cannot allocate a zero-sized buffer",
        "cannot mmap the data file",
        "cannot read the length from mmap",
        "cannot read OOM kill counts",
        "unable to request the job allocation",
        "the row exceeds the block size",
        "the tensor needs 8192 bytes, only 12 remaining in file",
    ],
)
def test_near_misses_are_no_shortage(text: str) -> None:
    assert not about.shortage(text)


def test_a_row_of_dashes_costs_no_time() -> None:
    assert not about.shortage(f"{'-' * 900}\nFree memory: 3\nTotal memory: 3\nWorkspace: {'-/' * 900}")


JAVA = literals.printed("a/B.java", 'throw new FullException("x y");', "java")
FRAMES = [
    ("raise", in_python('def f():\n    raise Full("no room")'), "in f\n    raise Full(\nFull: no room"),
    ("log", in_python('logger.error("gone")'), "ERROR kiln.fire: gone"),
    ("warn", in_python('warnings.warn("low")'), "kiln/fire.py:1: UserWarning: low\n"),
    ("throw", literals.printed("a/b.cc", 'throw Full("x y")', "c"), "instance of 'Full'\n  what():  x y"),
    ("glog", literals.printed("a/b.cc", 'LOG(WARNING) << "x y";', "c"), "W0304 09:14:55.217304   812 b.cc:1] x y"),
    ("nccl", literals.printed("a/b.cc", 'WARN("x y");', "c"), "NCCL WARN x y"),
    ("panic", literals.printed("a/b.rs", 'panic!("x y")', "rust"), "panicked at a/b.rs:1:5:\nx y\n"),
    ("slog", literals.printed("a/b.go", 'slog.Error("x y", "n", n)', "go"), 'level=ERROR source=b.go:1 msg="x y" n=8'),
    ("java", JAVA, "FullException: x y\n\tat B.run(B.java:1)"),
]  # fmt: skip


@pytest.mark.parametrize(("printed", "seen"), [case[1:] for case in FRAMES], ids=[case[0] for case in FRAMES])
def test_a_string_is_shown_as_a_user_sees_it(printed: list[Printed], seen: str) -> None:
    assert seen in rendered.rendered(only(printed))


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("kiln/fire.py", "python"),
        ("src/fire.cu", "c"),
        ("core/src/lib.rs", "rust"),
        ("testbed/fire.go", "go"),
        ("kiln/Fire.scala", "java"),
        ("kiln/latest.py", "python"),
        ("tests/fire.py", None),
        ("kiln/test_fire.py", None),
        ("kiln/tst-fire.c", None),
        ("kiln/fire_test.go", None),
        ("kiln/FireTest.java", None),
        ("third_party/fire.cc", None),
        ("docs/conf.py", None),
        (".github/fire.py", None),
        ("fire.txt", None),
    ],
)
def test_what_is_read_of_a_checkout(path: str, language: str | None) -> None:
    assert tree.language(path) == language


FIRE = '''\
"""Fires a kiln, which may be out of memory."""
import logging

logger = logging.getLogger(__name__)


def fire(size, free):
    """Raise MemoryError("out of memory")."""
    if size > free:
        raise RuntimeError(f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB.")
    if not free:
        raise RuntimeError(f"The memory pool of the kiln is exhausted: {size} shards of glaze")
    logger.warning("CUDA out of memory. Tried to allocate %.2f GiB.", size)
    logger.info("%d GiB of memory in the kiln", free)
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "kiln"
    for path in ("kiln/fire.py", "tests/fire.py"):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(FIRE, encoding="utf-8")
    return folder


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["upstream", *arguments])
    assert upstream.main() == 0
    return capsys.readouterr().out


def test_a_checkout_is_walked(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(monkeypatch, capsys, str(checkout), "--all")
    assert "kiln/fire.py:13: warning: oom" in out.split(upstream.LOUD)[1].split("all (")[0]
    assert "tests/" not in out
    assert "short failure kiln/fire.py:10: RuntimeError: oom" in out
    assert "- info kiln/fire.py:14" in out
    assert "4 strings about memory: of 2 that fail for want of it" in out
    assert "of 2 others 1 are called a failure" in out


def test_a_failure_in_no_words_for_a_shortage(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check = 'def lit(kind):\n    raise ValueError(f"the memory of the {kind} kiln is lit")\n'
    (checkout / "kiln/fire.py").write_text(check, encoding="utf-8")
    assert upstream.WORDLESS not in run(monkeypatch, capsys, str(checkout), "--all")
    monkeypatch.setattr(upstream, "answer", lambda _: Answer("oom", "gpu-memory-exhausted"))
    assert "kiln/fire.py:2" in run(monkeypatch, capsys, str(checkout), "--all").split(upstream.WORDLESS)[1]
    assert upstream.WORDLESS not in run(monkeypatch, capsys, str(checkout))


def test_all_is_written_as_json(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in run(monkeypatch, capsys, str(checkout), "--json").splitlines()]
    assert [row["line"] for row in rows] == [10, 12, 13, 14]
    assert rows[0]["rendered"].endswith("RuntimeError: CUDA out of memory. Tried to allocate 24.00 GiB.")
    assert (rows[0]["verdict"], rows[0]["wrong"]) == ("oom", "")
    assert rows[2]["wrong"] == upstream.LOUD


def test_a_git_directory_is_read_at_its_head(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git = ["git", "-C", str(checkout), "-c", "user.name=m", "-c", "user.email=m@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "fire"]):
        subprocess.run([*git, *command], check=True)
    expected = run(monkeypatch, capsys, str(checkout))
    (checkout / "kiln/fire.py").write_text('raise Full("kiln out of memory")', encoding="utf-8")
    assert run(monkeypatch, capsys, str(checkout / ".git")) == expected
    assert "1 strings" in run(monkeypatch, capsys, str(checkout))
    assert run(monkeypatch, capsys, str(checkout), "--at", "HEAD") == expected
    subprocess.run([*git, "commit", "-qam", "again"], check=True)
    assert run(monkeypatch, capsys, str(checkout / ".git"), "--at", "HEAD~") == expected
    assert "1 strings" in run(monkeypatch, capsys, str(checkout / ".git"), "--since", "HEAD~")
    assert "0 strings" in run(monkeypatch, capsys, str(checkout / ".git"), "--since", "HEAD")


def test_what_is_not_read_is_said(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(upstream, "answer", lambda _: Answer("no-oom"))
    out = run(monkeypatch, capsys, str(checkout))
    assert out.startswith(f"{upstream.MISSED} (2):\n  kiln/fire.py:10: RuntimeError: no-oom: CUDA out of memory.")
    assert upstream.LOUD not in out
    assert "0 are read, 2 missed" in out
