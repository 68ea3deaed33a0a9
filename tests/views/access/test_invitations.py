"""Invitations by link."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memories.models import AuditEvent, Invitation, Member, Reader, User
from memories.models.access.invitations import InvitationExpired
from tests.views.conftest import Cast

NEW = {"username": "nina", "password1": "a long phrase", "password2": "a long phrase"}


def invite(cast: Cast) -> str:
    """Return the path of a new link."""
    response = cast.clients["insider"].post(cast.path("invitations/"), {"role": "editor"})
    page = response.content.decode()
    [path] = re.findall(r"<code>http://[^/]+(/invitations/[\w-]+/)</code>", page)
    return path


@pytest.mark.slow
def test_a_person_joins_with_the_role_of_the_link(cast: Cast) -> None:
    path, client = invite(cast), Client()
    assert "Join The team" in client.get(path).content.decode()
    assert client.post(path, NEW)["Location"] == cast.path("catch-up/")
    nina = User.objects.get(username="nina")
    assert cast.workspace.role_of(Reader.of(nina)) == "editor"
    page = client.get(cast.path("catch-up/")).content.decode()
    assert "#launch" in page and "#salaries" not in page
    event = AuditEvent.objects.get(action="invitation_accept")
    assert (event.actor, event.workspace, event.details["invited_by"]) == (
        "nina",
        "team",
        "insider",
    )
    again = Client().post(path, NEW | {"username": "otto"})
    assert again.status_code == 404 and not User.objects.filter(username="otto").exists()


def test_the_browser_that_joined_is_a_known_device(cast: Cast) -> None:
    path, client = invite(cast), Client()
    client.post(path, NEW)
    client.post("/logout/")
    for n in range(5):
        wrong = {"username": "nina", "password": "wrong"}
        Client().post("/login/", wrong, REMOTE_ADDR=f"192.0.2.{n}")
    right = {"username": "nina", "password": NEW["password1"]}
    assert client.post("/login/", right).status_code == 302


def test_the_link_is_shown_once_and_stored_nowhere(cast: Cast) -> None:
    token = invite(cast).split("/")[2]
    page = cast.clients["insider"].get(cast.path("invitations/")).content.decode()
    assert token not in page and "Revoke invitation" in page
    assert token not in str(Invitation.objects.values()) + str(AuditEvent.objects.values())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda cast: Invitation.objects.update(expires_at=timezone.now()), "expired"),
        (lambda cast: User.objects.filter(username="insider").update(is_active=False), "inactive"),
        (
            lambda cast: Member.objects.filter(user__username="insider").delete(),
            "no admin any more",
        ),
        (
            lambda cast: cast.clients["insider"].post(
                cast.path("invitations/"), {"revoke": Invitation.objects.get().pk}
            ),
            "revoked",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_link_that_no_longer_works(cast: Cast, change, why: str) -> None:
    path = invite(cast)
    change(cast)
    for response in (Client().get(path), Client().post(path, NEW)):
        assert response.status_code == 404
        assert "This invitation no longer works" in response.content.decode()
    assert not User.objects.filter(username="nina").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"username": "MEMBER"}, "already exists"),
        ({"password2": "another phrase"}, "match"),
        ({"password1": "12345678", "password2": "12345678"}, "entirely numeric"),
        ({"username": "a/b c"}, "valid username"),
    ],
    ids=["taken", "different", "weak", "no name"],
)
def test_a_wrong_name_or_password(cast: Cast, changes: dict[str, str], words: str) -> None:
    path = invite(cast)
    response = Client().post(path, NEW | changes)
    assert response.status_code == 422 and words in response.content.decode()
    assert Client().post(path, NEW).status_code == 302, "the link still works"


def test_a_signed_in_person_has_to_sign_out_first(cast: Cast) -> None:
    path = invite(cast)
    page = cast.clients["member"].post(path, NEW).content.decode()
    assert "signed in as member" in page and not User.objects.filter(username="nina").exists()


@pytest.mark.parametrize(
    ("name", "status"), [("editor", 403), ("member", 403), ("outsider", 404), ("nobody", 302)]
)
def test_only_admins_invite(cast: Cast, name: str, status: int) -> None:
    path = cast.path("invitations/")
    assert cast.clients[name].get(path).status_code == status
    assert cast.clients[name].post(path, {"role": "member"}).status_code == status
    assert not Invitation.objects.exists()


def test_an_unknown_role_or_invitation_is_not_found(cast: Cast) -> None:
    client, path = cast.clients["insider"], cast.path("invitations/")
    assert client.post(path, {"role": "operator"}).status_code == 404
    assert client.post(path, {"revoke": "12345"}).status_code == 404


def test_only_an_admin_may_invite(cast: Cast) -> None:
    with pytest.raises(ValueError, match="Only an admin"):
        Invitation.objects.issue(
            cast.workspace, "admin", by=cast.users["editor"], now=timezone.now()
        )


def test_an_invitation_is_accepted_once(cast: Cast) -> None:
    invite(cast)
    first, second = Invitation.objects.get(), Invitation.objects.get()
    now = timezone.now()
    first.accept(User(username="nina"), now)
    with pytest.raises(InvitationExpired):
        second.accept(User(username="otto"), now + timedelta(seconds=1))
    assert not User.objects.filter(username="otto").exists()
