"""The first run: an installation without an account leads to what to do, and to nothing else."""

import pytest
from django.test import Client

from memories.models import User
from tests.factories import UserFactory, WorkspaceFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/", "/w/team/", "/settings/", "/admin/", "/login/", "/factors/"])
def test_every_page_leads_to_the_setup(client: Client, path: str) -> None:
    UserFactory(is_active=False)  # as a bundle brings them along
    answer = client.get(path, follow=True)
    assert answer.redirect_chain[-1][0] == "/setup/"
    page = answer.content.decode()
    for words in ("createadmin", "make demo", "import_slack", "slack_token set"):
        assert words in page
    assert page.count("<form") == 2  # language and theme: nothing is made here
    assert client.post("/setup/", {"username": "me", "password": "mine"}).status_code == 200
    assert not User.objects.filter(is_active=True).exists()


def test_who_may_open_it_afterwards(client: Client) -> None:
    user, boss = UserFactory(), UserFactory(is_superuser=True)
    WorkspaceFactory(slug="secret-team", name="Secret team")
    assert client.get("/setup/")["Location"] == "/login/?next=/setup/"
    assert client.get("/login/").status_code == 200
    client.force_login(user)
    assert client.get("/setup/").status_code == 403
    client.force_login(boss)
    page = client.get("/setup/").content.decode()
    assert "/w/secret-team/slack/" in page and "createadmin" not in page
