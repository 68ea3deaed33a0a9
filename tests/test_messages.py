"""The Japanese catalogue: every text of the interface is in it, translated, and compiled.

Reads sources and catalogue itself, so that it runs where GNU gettext is not installed.
"""

import ast
import gettext
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "memories" / "locale" / "ja" / "LC_MESSAGES" / "django.po"
CALLS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "gettext_noop"}
CALLS |= {"pgettext", "pgettext_lazy", "npgettext", "npgettext_lazy"}
SPACES = re.compile(r"%\(\w+\)[sd]|\{\w*\}")


class Entry(NamedTuple):
    """``many`` is the plural of the text; Japanese has the same words for both."""

    many: str
    translations: list[str]


def read_catalogue(text: str) -> dict[str, Entry]:
    """By msgid; the header is left out."""
    entries: dict[str, Entry] = {}
    for block in re.split(r"\n\s*\n", text):
        if re.search(r"^#,.*\bfuzzy\b", block, re.MULTILINE) and 'msgid ""\nmsgstr' not in block:
            raise AssertionError(f"fuzzy: {block}")
        parts: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if match := re.match(r"(msg\w+(?:\[\d\])?) (\".*\")$", line):
                name = match[1]
                parts[name] = ast.literal_eval(match[2])
            elif line.startswith('"'):
                parts[name] += ast.literal_eval(line)
        if parts.get("msgid"):
            entries[parts["msgid"]] = Entry(
                parts.get("msgid_plural", parts["msgid"]),
                [value for key, value in parts.items() if key.startswith("msgstr")],
            )
    return entries


def wanted_texts(source: str) -> set[str]:
    """The first text of every call of gettext in Python source (of ngettext the singular)."""
    collected = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            at = 1 if "pgettext" in name else 0
            text = node.args[at] if name in CALLS and len(node.args) > at else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                collected.add(text.value)
    return collected


LITERAL = r"u?'(?:[^'\\]|\\.)*'|u?\"(?:[^\"\\]|\\.)*\""


def template_texts(source: str) -> set[str]:
    """The same of a template, by Django's own way of making it look like Python."""
    calls = re.findall(
        rf"\b(_|n?p?gettext)\(\s*((?:{LITERAL})(?:,\s*(?:{LITERAL}))*)", templatize(source)
    )
    collected = set()
    for name, arguments in calls:
        texts = re.findall(LITERAL, arguments)
        collected.add(ast.literal_eval(texts[1 if "pgettext" in name else 0]))
    return collected


@pytest.fixture(scope="module")
def catalogue() -> dict[str, Entry]:
    return read_catalogue(CATALOGUE.read_text())


@pytest.mark.slow
def test_every_text_is_in_the_catalogue(catalogue: dict[str, Entry]) -> None:
    missing = {}
    for path in sorted((ROOT / "memories").rglob("*.py")) + [ROOT / "memoryhub" / "settings.py"]:
        if "migrations" not in path.parts and (
            texts := wanted_texts(path.read_text()) - catalogue.keys()
        ):
            missing[str(path.relative_to(ROOT))] = texts
    for path in sorted((ROOT / "templates").rglob("*.html")):
        if texts := template_texts(path.read_text()) - catalogue.keys():
            missing[str(path.relative_to(ROOT))] = texts
    assert not missing, "run `make messages` and translate"


def test_every_text_is_translated(catalogue: dict[str, Entry]) -> None:
    assert not [text for text, entry in catalogue.items() if not all(entry.translations)]


def test_translations_keep_placeholders(catalogue: dict[str, Entry]) -> None:
    different = [
        text
        for text, (many, translations) in catalogue.items()
        if any(
            set(SPACES.findall(translation)) != set(SPACES.findall(many))
            for translation in translations
        )
    ]
    assert not different


def test_the_compiled_catalogue_is_current(catalogue: dict[str, Entry]) -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    stale = [
        text
        for text, (_, translations) in catalogue.items()
        if translations[0] not in (compiled.gettext(text), compiled.ngettext(text, text, 1))
    ]
    assert not stale, "run `make messages`"


def test_a_text_is_seen() -> None:
    assert wanted_texts('a = _("One")\nb = ngettext("%(n)d two", "%(n)d twos", n)') == {
        "One",
        "%(n)d two",
    }
    seen = template_texts(
        '{% load i18n %}{% translate "Three" %} {% blocktranslate %}Four {{ n }}{% endblocktranslate %}'
        "{% blocktranslate trimmed count n=n %}\n five\n{% plural %} fives {% endblocktranslate %}"
        "{% translate 'Six' context 'a number' %}"
    )
    assert seen == {"Three", "Four %(n)s", "five", "Six"}
