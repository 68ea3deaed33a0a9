"""The content of docs/ as values: sections, tables, and words in backticks."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from django.core import management
from django.core.management import find_commands, get_commands, load_command_class

ROOT = Path(__file__).resolve().parent.parent
_DJANGOS = find_commands(str(Path(management.__file__).parent))  # Django documents these
COMMANDS = sorted(
    name for name, app in get_commands().items() if app == "memories" and name not in _DJANGOS
)


def sections(page: str) -> dict[str, str]:
    """Text below each ``## `` heading of a page of docs/, by the heading's words."""
    text = prose(ROOT / "docs" / page)
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip((name.strip("`") for name in parts[1::2]), parts[2::2], strict=True))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def rows(text: str, head: str) -> list[list[str]]:
    """Cells of the rows of the table whose first column has this heading."""
    table = re.search(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    lines = table[1].splitlines() if table else []
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


def code(cell: str) -> list[str]:
    """The words in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def parsers(command: str) -> Iterator[argparse.ArgumentParser]:
    """The parser of a command, and those of its actions."""
    parser = load_command_class("memories", command).create_parser("manage.py", command)
    yield parser
    yield from actions(parser).values()


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def sentences(text: str) -> Iterator[str]:
    """The sentences of Markdown prose. A paragraph, heading, list item or table cell ends one.

    Code in backticks, a link and an image count as the words that a reader sees.
    """
    text = re.sub(r"`[^`]+`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\|[-|: ]+\|$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\|", "\n\n", text)
    text = re.sub(r"^#+ .*$", r"\g<0>\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        yield from filter(None, re.split(r"(?<=[.?!])[*_\")]*\s+", " ".join(block.split())))
