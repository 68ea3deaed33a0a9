"""Users change their own password on a page."""

import pytest
from django.test import Client

from memories.models import AuditEvent
from tests.factories import PASSWORD, UserFactory

pytestmark = pytest.mark.django_db

NEW = "a long word 7"


@pytest.fixture
def user(client):
    user = UserFactory(username="mika")
    client.force_login(user)
    return user


def change(client, old=PASSWORD, new=NEW, again=NEW):
    return client.post("/password/", {"oldpassword": old, "password1": new, "password2": again})


def test_a_change_is_recorded_and_other_browsers_are_signed_out(client, user):
    elsewhere = Client()
    elsewhere.force_login(user)
    assert change(client)["Location"] == "/settings/"
    assert "Your password was saved." in client.get("/settings/").content.decode()
    user.refresh_from_db()
    assert user.check_password(NEW)
    assert elsewhere.get("/settings/").status_code == 302
    assert AuditEvent.objects.filter(action="password_chosen", actor="mika").count() == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"old": "wrong"}, "The current password is not correct."),
        ({"again": "another word 8"}, "same password"),
        ({"new": "short", "again": "short"}, "too short"),
        ({"new": "password123", "again": "password123"}, "too common"),
    ],
)
def test_an_invalid_password_is_explained_and_not_saved(client, user, given, words):
    answer = change(client, **given)
    assert answer.status_code == 200 and words in answer.content.decode()
    user.refresh_from_db()
    assert user.check_password(PASSWORD) and not AuditEvent.objects.filter(action="password_chosen")


def test_an_account_without_a_password_sets_one(client, user):
    user.set_unusable_password()
    user.save()
    client.force_login(user)
    assert client.get("/password/")["Location"] == "/password/new/"
    page = client.get("/password/new/").content.decode()
    assert "Choose a password" in page and "oldpassword" not in page
    client.post("/password/new/", {"password1": NEW, "password2": NEW})
    user.refresh_from_db()
    assert user.check_password(NEW)


def test_the_admin_uses_the_same_page(client, user):
    """The admin's own page has no limit of attempts, and leaves keys of a given password."""
    user.is_staff = True
    user.save()
    data = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    for answer in (
        client.get("/admin/password_change/"),
        client.post("/admin/password_change/", data),
    ):
        assert (answer.status_code, answer["Location"]) == (302, "/password/")
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_the_page_needs_a_sign_in(client):
    assert client.get("/password/")["Location"].startswith("/login/")


def test_it_is_in_the_account_menu_in_both_languages(client, user):
    for language, words in (("en", "Change your password"), ("ja", "パスワードの変更")):
        user.save_preferences(language=language)
        page = client.get("/settings/").content.decode()
        assert page.count('href="/password/"') == 2
        assert words in client.get("/password/").content.decode()
