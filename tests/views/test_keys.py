"""Single keys: one table behind the controls, the list of keys and the tests."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from memories.views.keys import KEYS
from tests.views.conftest import Cast

NATIVE = {"Enter"}  # what is focused opens by it anyway
USED = re.compile(r'{% (?:key|steps) "([^"]+)"(?: "([^"]+)")? %}')
SHOWN = re.compile(r'data-(?:key|steps)="|aria-keyshortcuts|id="keys"')


def test_every_key_has_a_control_and_the_other_way_round() -> None:
    templates = Path(settings.BASE_DIR, "templates").rglob("*.html")
    found = [name for path in templates for name in USED.findall(path.read_text())]
    assert {key for names in found for key in names if key} | NATIVE == set(KEYS)


def test_no_key_begins_another() -> None:
    first = {key.split()[0] for key in KEYS if " " in key}
    assert first.isdisjoint(KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("rest", ["c/C0PUBLIC/", "catch-up/", "search/?q=said", "notes/"])
def test_who_wants_none_gets_none(cast: Cast, rest: str) -> None:
    client = cast.clients["editor"]
    page = client.get(cast.path(rest)).content.decode()
    assert 'data-key="g h"' in page and page.count("<kbd>") == len(KEYS)
    cast.users["editor"].save_preferences(shortcuts=False)
    assert not SHOWN.search(client.get(cast.path(rest)).content.decode())


@pytest.mark.slow
def test_a_page_names_no_key_twice_but_in_its_items(cast: Cast) -> None:
    """app.js would not know which is meant."""
    for path in (
        cast.path("c/C0PUBLIC/"),
        cast.path("search/"),
        f"/v/{cast.memory.current_id}/",
        f"/m/{cast.memory.pk}/edit/",
    ):
        page = cast.clients["editor"].get(path).content.decode()
        found = re.findall(r'data-key="([^"]+)"', page)
        assert len(found) == len(set(found)), path
