"""docs/ lists every command, option, word, setting and address of the code, and no others.

The keys of JSON are checked in tests/commands/test_json.py.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver

from memories import urls
from memories.pipeline.sync.sync_report import SyncState
from memories.rules.ingest.outcomes import Result
from memories.rules.notes.notes_file import Outcome
from memories.rules.settings import KEYS, MemorySettings
from memoryhub import urls as all_urls
from tests.documentation import (
    COMMANDS,
    ROOT,
    actions,
    code,
    parsers,
    prose,
    rows,
    sections,
    sentences,
)

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
DOCS = sections("commands.md")
DJANGOS = {
    *("--help", "-h", "--version", "--verbosity", "-v", "--settings", "--pythonpath"),
    *("--traceback", "--no-color", "--force-color", "--skip-checks"),
}
MAKERS = {"skipped", "quarantined", "Unreadable"}  # calls that name the reason of an outcome
OF_ALL_ACTIONS = {"--workspace", "--as", "--format"}
READ_BY_NEWCOMERS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "rules.md"]
MAX_SENTENCE_WORDS = 30
FOLDERS = ("memories/", "memoryhub/", "templates/", "tests/", "docs/", "bench/", ".ci/")


# -- commands and options


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option string of ours, and every argument by its name in capitals."""
    for action in parser._actions:
        if action.option_strings:
            yield from (word for word in action.option_strings if word not in DJANGOS)
        elif not isinstance(action, argparse._SubParsersAction):
            yield str(action.metavar or action.dest.upper())


def words(cells: list[str]) -> set[str]:
    """The options and arguments among the words in backticks."""
    pattern = re.compile(r"(?<![\w.])--?[a-z][\w-]*|\b[A-Z_=]{2,}\b")
    return {word for cell in cells for span in code(cell) for word in pattern.findall(span)}


@pytest.mark.parametrize("name", COMMANDS)
def test_options_of_commands(name: str) -> None:
    existing = {word for parser in parsers(name) for word in options_of(parser)}
    cells = [row[0] for head in ("argument", "option") for row in rows(DOCS[name], head)]
    documented = words(cells)
    if acting := rows(DOCS[name], "action"):
        above = DOCS[name].partition("| action |")[0]
        documented |= words([above])
        for row in acting:
            documented |= words(row[:2])
    assert documented == existing


def test_options_of_each_action_of_memory() -> None:
    parser = next(parsers("memory"))
    documented = {
        code(row[0])[0].split()[1]: words(row[:2]) for row in rows(DOCS["memory"], "action")
    }
    existing = {
        name: set(options_of(sub)) - OF_ALL_ACTIONS for name, sub in actions(parser).items()
    }
    assert documented == existing


def test_documented_commands_are_complete() -> None:
    assert set(DOCS) == {*COMMANDS, "All commands", "Outcomes"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_a_help(name: str) -> None:
    for parser in parsers(name):
        assert parser.description
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, f"{parser.prog}: {action.dest}"


# -- words


def first_words(section: str, head: str) -> list[str]:
    return [code(row[0])[0] for row in rows(DOCS[section], head)]


def test_outcomes() -> None:
    assert first_words("Outcomes", "outcome") == list(Result)


def test_reasons_of_outcomes() -> None:
    """Reasons are arguments of the calls that create an outcome."""
    made = {"left by the system", "canvas", "no messages", "a name that is no text", "not UTF-8"}
    made |= {"beside the export", "an archive inside", "in no channel's folder"}
    slack = "".join(path.read_text() for path in (ROOT / "memories" / "slack").glob("*.py"))
    assert all(f'"{reason}"' in slack for reason in made)
    for room in ("rules", "slack", "pipeline"):
        for path in (ROOT / "memories" / room).rglob("*.py"):
            made |= set(reasons(ast.parse(path.read_text())))
    documented = code(DOCS["Outcomes"].partition("Reasons of `skipped`:")[2])
    assert set(documented) - {"quarantined"} == made


def reasons(tree: ast.AST) -> Iterator[str]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in MAKERS:
            constants = (node.value for node in ast.walk(call) if isinstance(node, ast.Constant))
            yield from (value for value in constants if isinstance(value, str))


def test_outcomes_of_entries() -> None:
    assert first_words("memory", "outcome of an entry") == list(Outcome)


def test_states_of_a_sync() -> None:
    [row] = [row for row in rows(DOCS["sync"], "key") if code(row[0]) == ["by_channel[].state"]]
    assert code(row[2]) == list(SyncState)


def test_settings_and_their_defaults() -> None:
    defaults = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in asdict(MemorySettings()).items()
    }
    documented = [
        (code(row[0])[0], (code(row[1]) or [""])[0]) for row in rows(DOCS["settings"], "setting")
    ]
    assert documented == [(key, defaults[key]) for key in KEYS]


# -- addresses


def shown(each: URLPattern | URLResolver) -> str:
    """``w/<slug:slug>/`` as ``/w/<slug>/``."""
    return "/" + re.sub(r"<\w+:(\w+)>", r"<\1>", str(each.pattern))


def test_addresses_and_their_names() -> None:
    own = [each for each in all_urls.urlpatterns if shown(each) != "/"]
    existing = {shown(each): getattr(each, "name", None) for each in [*urls.urlpatterns, *own]}
    documented = {
        address: name
        for row in rows(prose(ROOT / "docs" / "pages.md"), "address")
        for address, name in zip(code(row[0]), code(row[1]) or [None], strict=True)
    }
    assert documented == existing


@pytest.mark.django_db
def test_health(client: Client) -> None:
    documented = {code(row[0])[0]: row[1] for row in rows(sections("pages.md")["Health"], "key")}
    answer = client.get("/readyz")
    assert answer.status_code == 503, "no worker runs"
    types = {bool: "true or false", str: "text"}
    assert {key: types[type(value)] for key, value in answer.json().items()} == documented
    assert client.get("/livez").content == b"ok"


# -- prose


def long_sentences(text: str) -> list[str]:
    return [each for each in sentences(text) if len(each.split()) > MAX_SENTENCE_WORDS]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_sentences_are_short(path: Path) -> None:
    assert long_sentences(prose(path)) == []


@pytest.mark.parametrize(
    "form",
    ["{}", "Short. {} Short.", "- {}\n- Short.", "1. **Bold.** {}", "| word | {} |", "# Title\n{}"],
)
def test_a_long_sentence_is_reported(form: str) -> None:
    words = ["a `code span`", "[a link](docs/rules.md)", *["word"] * 26]
    assert long_sentences(form.format(" ".join(words) + ".")) == []
    too_long = "\n".join([*words, "word"]) + "."
    assert len(long_sentences(form.format(too_long))) == 1


@pytest.mark.parametrize("path", READ_BY_NEWCOMERS, ids=lambda path: path.name)
def test_named_files_exist(path: Path) -> None:
    named = {span for span in code(prose(path)) if re.fullmatch(r"[\w./-]+", span)}
    inside = {span for span in named if span.startswith(FOLDERS)}
    assert [span for span in sorted(inside) if not (ROOT / span).exists()] == []


# -- links


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", prose(path))]
    near = [link for link in links if link and "://" not in link]
    assert [link for link in near if not (path.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_headings(path: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*)#([^)\s]+)\)", prose(path))
    pages = [(path.parent / page if page else path, anchor) for page, anchor in links]
    assert [anchor for page, anchor in pages if anchor not in anchors(page)] == []
