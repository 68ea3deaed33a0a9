"""Keyboard shortcuts."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from memories.templatetags import navigation
from memories.views.keys import KEYS
from tests.views.conftest import Cast

NATIVE = {"Enter"}  # Enter opens the focused link anyway
USED = re.compile(r'{% (?:key|steps) "([^"]+)"(?: "([^"]+)")? %}')
SHOWN = re.compile(r'data-(?:key|steps)="|aria-keyshortcuts|id="keys"')


def test_every_key_has_a_control_and_every_control_a_key() -> None:
    templates = Path(settings.BASE_DIR, "templates").rglob("*.html")
    results = [name for path in templates for name in USED.findall(path.read_text())]
    source = Path(navigation.__file__).read_text()
    results += [(key, "") for key in re.findall(r'page\(.*, "(/|g \w)"\)', source)]
    assert {key for names in results for key in names if key} | NATIVE == set(KEYS)


def test_no_key_is_a_prefix_of_another() -> None:
    first = {key.split()[0] for key in KEYS if " " in key}
    assert first.isdisjoint(KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["c/C0PUBLIC/", "catch-up/", "search/?q=said", "notes/"])
def test_keys_can_be_switched_off(cast: Cast, path: str) -> None:
    client = cast.clients["editor"]
    page = client.get(cast.path(path)).content.decode()
    assert 'data-key="g h"' in page and page.count("<kbd>") == len(KEYS)
    cast.users["editor"].save_preferences(shortcuts=False)
    assert not SHOWN.search(client.get(cast.path(path)).content.decode())


@pytest.mark.slow
def test_a_page_has_each_key_once_outside_of_items(cast: Cast) -> None:
    """Otherwise app.js cannot choose a control."""
    for path in (
        cast.path("c/C0PUBLIC/"),
        cast.path("search/"),
        f"/v/{cast.memory.current_id}/",
        f"/m/{cast.memory.pk}/edit/",
    ):
        page = cast.clients["editor"].get(path).content.decode()
        results = re.findall(r'data-key="([^"]+)"', page)
        assert len(results) == len(set(results)), path
