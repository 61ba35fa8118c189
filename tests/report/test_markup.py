from __future__ import annotations

import pytest
from gfm import LINKED, content, inline, kinds, loose_text, tokens
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.report.markup import cell, code, command, fenced, harmless, link, prose

HOSTILE = [
    "@team", "someone@example.com", "#123", "owner/repo#1", "GH-1", "gh-7", "JIRA-12", "GHSA-abcd-1234-efgh",
    "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "deadbee", "1048576", "user@deadbeef", "https://evil.test/x",
    "http://evil.test", "www.evil.test", "ftp://evil.test", "mailto:a@b.test", "<https://evil.test>",
    "[x](http://e.test)", "![x](http://e.test/i.png)", "[x]:", "[^1]", "[ ]", "[!NOTE]", "<img", "src=x",
    "onerror=alert(1)>", "<script>", "</details>", "<!--", "-->", "&lt;", "&#64;team", "*b*", "**b**", "_i_",
    "__init__", "~~s~~", "`", "``", "```", "~~~", "`a`", "`a", "a`", "a``b", "\\", "\\`", "\\|", "|", "|---|",
    "---", "===", "***", "#", "##", "- x", "-", "+", "1.", "2)", ">", ":tada:", ":100:", "$x$", "$$", "$`x`$",
    "::error::x", "%0A", "%s", "{0}", "(PID", "14),", "251.56", "GiB;", "main()", "--flag",
    "gpu_memory_utilization", "Qwen/Qwen2.5-7B", "C:\\x\\", "\u202e", "\u200b", "\u001b[31m", "\u2028", "\n", "\r",
    "\t", "    ", "é", "资源", "䷀", "@team`b䷀`", "www.9", "www.1.2.3",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=6), max_size=12).map(" ".join) | st.lists(
    st.sampled_from(HOSTILE), max_size=8
).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The node's memory (RAM) ran out: 74% of 251.56 GiB.", "The node's memory (RAM) ran out: 74% of 251.56 GiB."),
        ("9.02 GiB - 8.98 GiB (0.95 x 9.46 GiB) = 39 MiB", "9.02 GiB - 8.98 GiB (0.95 x 9.46 GiB) = 39 MiB"),
        ("the server, reward_server.py (PID 14), holds", "the server, `reward_server.py` (PID 14), holds"),
        ("in load_model() it asks", "in `load_model()` it asks"),
        ("(main() is first)", "(main() is first)"),
        ("Lower gpu_memory_utilization, see #12.", "Lower `gpu_memory_utilization`, see `#12`."),
        ("`ray logs` cut it; use `--tail -1`.", "`ray logs` cut it; use `--tail -1`."),
        ("thanks @team!", "thanks `@team`!"),
        ("- 3 rows", "`-` 3 rows"),
        ("1. first", "`1.` first"),
        ("of commit deadbee or RFC-1918", "of commit `deadbee` or `RFC-1918`"),
        ("a\nb\u202ec\x1b[2Jd", "a bcd"),
        ("", ""),
    ],
)  # fmt: skip
def test_prose_reads_well_raw(text: str, expected: str) -> None:
    assert prose(text) == expected


@given(TEXTS)
def test_prose_is_one_paragraph_of_words_and_code(text: str) -> None:
    markdown = prose(text)
    assert "\n" not in markdown
    assert kinds(markdown) <= {"paragraph_open", "paragraph_close", "inline", "text", "code_inline"}
    assert [piece for piece in loose_text(markdown) if LINKED.search(piece)] == []


@given(TEXTS.filter(lambda text: "`" not in text))
def test_prose_changes_no_word(text: str) -> None:
    from oomdoctor.text import sanitize

    assert content(prose(text)).split() == sanitize(text).split()


@given(TEXTS)
def test_a_code_span_is_one(text: str) -> None:
    markdown = code(text)
    pieces = list(inline(tokens(markdown)))
    assert [piece.type for piece in pieces] in (["code_inline"], [])
    assert bool(pieces) == bool(markdown)


@given(st.lists(TEXTS, min_size=2, max_size=4))
def test_a_table_keeps_its_cells(texts: list[str]) -> None:
    rows = "".join(f"| {cell(prose(text))} | {cell(code(text))} | end |\n" for text in texts)
    parsed = tokens("| a | b | c |\n| --- | --- | --- |\n" + rows)
    assert [token.type for token in parsed].count("td_open") == 3 * len(texts)
    assert [t.content for t in parsed if t.type == "inline"][5::3] == ["end"] * len(texts)
    assert {token.type for token in inline(parsed)} <= {"text", "code_inline"}


@given(st.lists(TEXTS, max_size=5).map("\n".join), st.sampled_from([0, 3]))
def test_a_fence_holds_all_of_it(text: str, indent: int) -> None:
    parsed = tokens(("1. x\n\n" if indent else "") + fenced(text, indent=indent) + "\nafter")
    (fence,) = [token for token in parsed if token.type == "fence"]
    assert fence.info == "text"
    assert parsed[-2].content == "after"
    assert "html_block" not in {token.type for token in parsed}


@pytest.mark.parametrize("text", ["```", "````\nx", "a\n```sh\nb", "~~~", "    ```", "`````````"])
def test_a_fence_in_a_fence_stays_text(text: str) -> None:
    (fence,) = tokens(fenced(text))
    assert fence.content.strip() == text.strip()


def test_the_info_of_a_fence_ends_with_its_line() -> None:
    (fence,) = tokens(fenced("a", info="sh`\nell ```x"))
    assert (fence.info, fence.content) == ("shellx", "a\n")


def test_long_lines_are_cut_and_say_so() -> None:
    assert prose("a" * 2_010).endswith("… (10 characters more)")
    assert "… (1,000 characters more)" in fenced("b" * 3_000)
    assert len(code("c " * 3_000)) < 2_100


@pytest.mark.parametrize("url", ["https://docs.ray.io/en/latest/x.html#a_b", "https://github.com/o/r/pull/12"])
def test_our_own_addresses_are_links(url: str) -> None:
    assert [token.type for token in inline(tokens(link(url)))] == ["link_open", "text", "link_close"]


@pytest.mark.parametrize(
    "url", ["http://a.test", "https://a.test/ x", "https://a.test/>x", "javascript:x", "https://a\n"]
)
def test_other_addresses_are_not(url: str) -> None:
    assert [token.type for token in inline(tokens(link(url)))] == ["code_inline"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::set-output name=x::y", ": :set-output name=x::y"),
        ("  \t::add-mask::a", "  \t: :add-mask::a"),
        ("\ufeff::stop-commands::t", ": :stop-commands::t"),
        ("\u3000::error::x", "\u3000: :error::x"),
        ("a\r::error::x", "a ::error::x"),
        ("a\n:::error::x", "a\n: ::error::x"),
        ("2024 ##[set-env name=x;]y", "2024 ## [set-env name=x;]y"),
        ("###[group]", "### [group]"),
        ("\x1b[0m::debug::x", ": :debug::x"),
        ("std::bad_alloc, ## 3", "std::bad_alloc, ## 3"),
    ],
)
def test_no_line_is_a_workflow_command(text: str, expected: str) -> None:
    assert harmless(text) == expected


def test_a_workflow_command_is_escaped_as_the_runner_reads_it() -> None:
    made = command(
        "error", "50% of a,b:\n::set-output name=x::y\n##[group]", file="a,b:c%.log", line=3, title="x\ny", col=None
    )
    assert made == (
        "::error file=a%2Cb%3Ac%25.log,line=3,title=x y::50%25 of a,b:%0A: :set-output name=x::y%0A## [group]\n"
    )
    assert command("notice", "x") == "::notice::x\n"
