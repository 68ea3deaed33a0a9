"""`manage.py prompt`."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("prompt", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("language", ["ja", "en"])
@pytest.mark.parametrize(
    ("scope", "kind", "block"),
    [
        ("channel", "short_term", "<<messages"),
        ("channel", "long_term", "<<added"),
        ("thread", "short_term", "<<messages"),
        ("workspace", "long_term", "<<existing"),
        ("workspace", "short_term", "<<added"),
    ],
)
def test_a_prompt_is_printed(scope: str, kind: str, block: str, language: str) -> None:
    printed = run("--scope", scope, "--type", kind, "--language", language)
    version, system, data, request = printed.rstrip("\n").split("\n\n")
    assert version.startswith(f"{scope}-{kind.removesuffix('_term')}-{language}-")
    assert "\n" not in system
    assert block in data
    assert "<<" not in request


@pytest.mark.parametrize("scope", ["channel", "workspace"])
def test_a_merge_is_shown_in_both_modes(scope: str) -> None:
    merge = ("--scope", scope, "--type", "long_term")
    assert '"~ L12,L15"' in run(*merge)
    assert "anew" in run(*merge, "--merge-mode", "rewrite")


def test_the_list_names_every_prompt() -> None:
    rows = json.loads(run("--list", "--json"))["prompts"]
    assert len({row["version"] for row in rows}) == len(rows) == 30
    assert len(run("--list").splitlines()) == 30


def test_a_thread_has_no_long_term_prompt() -> None:
    with pytest.raises(CommandError, match="no long-term"):
        run("--scope", "thread", "--type", "long_term")
