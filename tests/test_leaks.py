"""Nothing that can be asked for is left out of the matrix of `make hard`, which asks for it all."""

import pytest
from django.contrib import admin
from django.core.management import get_commands

from memories.models import Note
from tests.leaks.probes import ADMIN, COMMANDS, MATRIX, Eyes, named_addresses, probes, run_command
from tests.leaks.world import FULL, PLACES, ROLES, World, word

pytestmark = pytest.mark.django_db


def test_every_address_is_in_the_matrix():
    """A new one says in `tests/leaks/probes.py` how it is asked for."""
    assert named_addresses() == set(MATRIX)


def test_every_model_of_the_admin_is_in_the_matrix():
    assert {model._meta.label_lower for model in admin.site._registry} <= ADMIN


def test_every_command_is_in_the_matrix():
    ours = {name for name, app in get_commands().items() if app == "memories"}
    assert ours <= set(COMMANDS)


def test_a_new_one_would_be_seen():
    from django.urls import path

    from memories import urls

    urls.urlpatterns.append(path("new/", lambda request: None, name="new"))
    try:
        from django.urls import clear_url_caches

        clear_url_caches()
        assert named_addresses() - set(MATRIX) == {"new"}
    finally:
        urls.urlpatterns.pop()
        clear_url_caches()


def test_a_leak_would_be_seen():
    """Each way of asking finds the word of a place by whoever may read it."""
    world = World().build()
    eyes = Eyes(world)
    found = {
        (place, role): False for place in PLACES for role in world.audiences[place] - {"public"}
    }
    for probe in probes(world):
        if not probe.what.endswith("/messages/"):
            continue
        text = probe.ask(eyes)
        for place in PLACES:
            if (place, probe.role) in found and word(place, "said") in text:
                found[place, probe.role] = True
    assert all(found.values()), [key for key, seen in found.items() if not seen]
    # A page that shows a stranger's word is a leak.
    note = Note.objects.live().get(channel=world.channels["secret"])
    text = f"… {note.content} …"
    assert [role for role in ROLES if world.leaks(text, role)] == list(ROLES)
    assert {role for role in ROLES if not world.leaks(word("market", "said"), role)} == FULL - {
        "public"
    }
    assert word("market", "said") in run_command(
        ["context", "--workspace", "leaks", "--channel", "CMARKET"], "public"
    ) or word("market", "new") in run_command(["context", "--workspace", "leaks"], "public")
