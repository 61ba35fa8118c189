"""What a field asks for is told from its words; near misses are left to the person."""

from __future__ import annotations

import pytest

from oomdoctor.helpers.asked import places, topic
from oomdoctor.helpers.forms import Field


def area(label: str, **more: str) -> Field:
    return Field(kind="textarea", label=label, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("Describe the bug", "happened"),
        ("🐛 Describe the bug", "happened"),
        ("What happened?", "happened"),
        ("What happened + What you expected to happen", "happened"),
        ("Current Behavior:", "happened"),
        ("Actual behaviour", "happened"),
        ("Bug description", "happened"),
        ("### What is the problem?", "happened"),
        ("**Describe the bug**", "happened"),
        ("Description", "happened"),
        ("Relevant log output", "log"),
        ("Logs", "log"),
        ("Error messages and logs", "log"),
        ("Full traceback", "log"),
        ("Stack trace", "log"),
        ("Your current environment", "versions"),
        ("System Info", "versions"),
        ("Versions / Dependencies", "versions"),
        ("Environment", "versions"),
        ("Package versions", "versions"),
        ("Reproduction", "reproduction"),
        ("Reproduction script", "reproduction"),
        ("How to reproduce", "reproduction"),
        ("Steps To Reproduce:", "reproduction"),
        ("Launch command and configuration", "settings"),
        ("Training config", "settings"),
        ("Hardware", "hardware"),
        ("Which GPUs?", "hardware"),
        ("Model", "model"),
        ("At which step did it die?", "when"),
        ("oomdoctor's diagnosis", "diagnosis"),
        ("Additional context", "more"),
        ("Anything else?", "more"),
    ],
)
def test_what_is_asked_for(label: str, wanted: str) -> None:
    assert topic(area(label)) == wanted


@pytest.mark.parametrize(
    "label",
    [
        "Expected behavior",
        "What did you expect to happen?",
        "Who can help?",
        "Issue Severity",
        "Impact on your logs",
        "Code of Conduct",
        "Is there an existing issue for this?",
        "Checklist of versions",
        "Before submitting a new issue...",
        "Contact details",
        "Proposed solution",
        "Workaround in the config",
        "Alternatives",
        "Is it a regression, and since which version?",
        "Are you willing to submit a pull request?",
        "Affected component",
    ],
)
def test_what_no_log_holds(label: str) -> None:
    assert topic(area(label)) == ""


@pytest.mark.parametrize(
    "label", ["Name", "Blog post", "Catalogue", "Remodelling", "Reconfigured?", "Your favourite dish"]
)
def test_words_that_only_look_like_it(label: str) -> None:
    assert topic(area(label)) is None


def test_the_id_counts_as_much_as_the_label() -> None:
    assert topic(area("Please paste it here", id="relevant_log-output")) == "log"


def test_the_description_counts_where_the_label_says_nothing() -> None:
    assert topic(area("Your setup and more", description="The versions of all packages")) == "versions"
    assert topic(area("Your story", placeholder="Paste the whole traceback here")) == "log"
    assert topic(area("Expected behavior", description="See the log")) == ""


def test_a_long_description_takes_no_time() -> None:
    assert topic(area("x", description="reprod" * 20_000)) is None


def test_what_no_field_asks_for_goes_where_it_fits() -> None:
    fields = [area("Describe the bug"), area("Environment"), area("Expected behavior")]
    assert places(fields) == {
        "happened": 0,
        "diagnosis": 0,
        "log": 0,
        "settings": 0,
        "versions": 1,
        "hardware": 1,
        "model": 1,
    }


def test_a_card_s_model_is_not_the_job_s() -> None:
    fields = [area("What happened?"), Field(kind="input", label="GPU model and memory")]
    found = places(fields)
    assert (found["hardware"], found["model"], found["versions"]) == (1, 0, 0)
    assert "model" not in places([Field(kind="input", label="GPU model")])


def test_a_field_that_becomes_code_takes_nothing_else() -> None:
    fields = [area("Logs", render="shell"), area("Launch command", render="bash")]
    assert places(fields) == {"log": 0, "settings": 1, "happened": None, "diagnosis": None}
    fields = [area("Environment", render="shell"), area("Reproduction", render="bash")]
    assert places(fields) == {
        "versions": 0,
        "hardware": 0,
        "model": 0,
        "settings": 1,
        "happened": None,
        "diagnosis": None,
        "log": None,
    }


def test_a_configuration_goes_where_it_is_asked_for_and_else_into_the_reproduction() -> None:
    assert places([area("Reproduction"), area("Config yaml", render="yaml")])["settings"] == 1
    assert places([area("Reproduction"), area("Expected behavior")])["settings"] == 0


def test_one_line_holds_no_log() -> None:
    fields = [Field(kind="input", label="Error message"), Field(kind="input", label="Model")]
    assert places(fields) == {"model": 1, "happened": None, "diagnosis": None, "log": None}


def test_dropdowns_and_boxes_take_no_text() -> None:
    fields = [Field(kind="dropdown", label="Hardware", options=("A100",)), Field(kind="checkboxes", label="Logs")]
    assert places(fields) == {"happened": None, "diagnosis": None, "log": None}


def test_the_first_of_two_fields_is_filled() -> None:
    assert places([area("Traceback"), area("Log"), area("Describe the bug")])["log"] == 0
