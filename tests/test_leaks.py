"""The matrix of `make hard` covers every address, page of the admin and command."""

import sys
from collections.abc import Sequence
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib import admin
from django_q.models import Schedule

from memories.admin.accounts import EmailAddressAdmin, UserAdmin
from memories.admin.tasks import ScheduleAdmin
from memories.models import Note, User
from memories.pipeline.access import operators
from memories.rules.slack_app.payloads import BUTTON, COMMAND, REACTION, SHORTCUT
from tests import documentation
from tests.leaks.attack import Attack, attack
from tests.leaks.attacked import ATTACKERS, AttackedTeam
from tests.leaks.forms import Learner
from tests.leaks.probes import (
    ADMIN,
    COMMANDS,
    MATRIX,
    TYPED,
    Eyes,
    api_asks,
    named_addresses,
    run_command,
)
from tests.leaks.slack import ALL, HUB, OWN, see, slack_asks
from tests.leaks.world import FULL, PLACES, ROLES, World, word

pytestmark = pytest.mark.django_db


def test_every_address_is_in_the_matrix():
    """A new address needs an entry in `tests/leaks/probes.py`."""
    assert named_addresses() == set(MATRIX)


def test_every_model_of_the_admin_is_in_the_matrix():
    assert {model._meta.label_lower for model in admin.site._registry} <= ADMIN


def test_every_command_is_in_the_matrix():
    assert set(documentation.COMMANDS) <= set(COMMANDS)


def test_a_new_address_is_reported():
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


@pytest.fixture
def world() -> World:
    return World().build()


@pytest.mark.slow
def test_a_leak_would_be_seen(world: World) -> None:
    """The page of messages shows the word of a place to its readers."""
    eyes = Eyes(world)
    readers = {(place, role) for place in PLACES for role in world.audiences[place] - {"public"}}
    shown = set()
    for path, _ in MATRIX["messages-index"](world):
        if path.endswith("/messages/"):
            for role in ROLES:
                text = eyes.get(role, path)
                shown |= {(place, role) for place in PLACES if word(place, "said") in text}
    assert shown == readers
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "app"),
    [("/api/v1/", False), pytest.param("/mcp", True, marks=pytest.mark.nightly("another door"))],
)
def test_a_key_reads_texts_of_its_account(world: World, at: str, app: bool) -> None:
    """A client that every probe of the API refuses would show no leak either."""
    eyes = Eyes(world)
    requests = [ask for ask in api_asks(world) if ask[0].startswith(at) and TYPED in str(ask)]
    answers = [eyes.api("member", "leaks", *ask, app=app) for ask in requests]
    for operation in ("context", "search"):
        texts = [text for ask, text in zip(requests, answers, strict=True) if operation in str(ask)]
        assert word("ember", "said") in "".join(texts), operation


# -- effects of forms


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_form_gives_an_attacker_anything() -> None:
    """No post extends the rights of an attacker, except access that an operator opens on the
    record. `tests/hard/bar_leaks.py` posts all forms on all rows.
    """
    # The admin refuses users who are not staff, so the member represents outsider and editor too.
    roles = [role for role in ATTACKERS if role not in ("outsider", "editor")]
    report = attack(AttackedTeam().build(), roles, is_full=False, share=(0, 2))
    sys.stderr.write(f"\n{report}\n")
    assert report.is_clean, report
    assert report.counts["posts"] > 250 and report.counts["opened on the record"]


def set_any_password(user: User, password: str, **given: Any) -> None:
    user.set_password(password)
    user.save()


def hole(where: Any, name: str, opened: Any, role: str, model: Any, counted: str) -> Any:
    return pytest.param(where, name, opened, role, model, counted, id=f"{name} {counted}")


def anybody(*args: Any) -> bool:
    return True


def hardly_any(*args: Any) -> tuple[str, ...]:
    return ("last_login", "date_joined", "linked_people")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "name", "opened", "role", "model", "counted"),
    [
        hole(ScheduleAdmin, "has_add_permission", anybody, "operator", Schedule, "functions"),
        hole(EmailAddressAdmin, "has_add_permission", anybody, "staff", EmailAddress, "leaks"),
        pytest.param(
            *(operators, "give_password", set_any_password, "operator", User, "leaks"),
            marks=pytest.mark.nightly("another hole"),
        ),
        hole(UserAdmin, "get_readonly_fields", hardly_any, "staff", User, "gains"),
    ],
)
def test_a_hole_would_be_counted(
    where: Any,
    name: str,
    opened: Any,
    role: str,
    model: Any,
    counted: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them was open once."""
    monkeypatch.setattr(where, name, opened)
    world = AttackedTeam().build()
    running = Attack(world, is_full=False)
    running.run(role, Learner(world, is_full=False).posts_of(model))
    assert getattr(running.report, counted), running.report


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "asking", [("member",), pytest.param(ROLES, marks=pytest.mark.nightly("all roles"))]
)
def test_nothing_leaks_in_slack(asking: Sequence[str]) -> None:
    """Each answer in Slack has words that its reader may read, and no others. So has what it leaves
    in the hub."""
    world = World().build()
    seen = set()
    for who, place, request in slack_asks(world, TYPED):
        roles = [role for role in asking if who != ALL or role in world.audiences[place]]
        text = ""
        for role in roles:
            if who != ALL or role == roles[0]:  # all of a channel see the same
                text = see(world, role, who, place, request)
            assert not world.leaks(text, role), (role, who, place, request)
            seen |= {(who, request.kind, role)} if "zqxj" in text else set()
    reading = {"member", "editor", "admin"}.intersection(asking)
    kinds = [
        *[(OWN, COMMAND), (OWN, SHORTCUT), (OWN, REACTION)],
        *[(ALL, COMMAND), (ALL, BUTTON), (HUB, SHORTCUT)],
    ]
    assert {(who, kind, role) for who, kind in kinds for role in reading} <= seen
