"""Who has which role in a workspace: shown to its admins, given and taken by them."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memories.models import AuditEvent, Member, Reader, User
from tests.factories import MemberFactory, PersonFactory, UserFactory, WorkspaceFactory
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow


def post(cast: Cast, who: str, **data: Any) -> int:
    return cast.clients[who].post(cast.path("people/"), data).status_code


def role(cast: Cast, name: str) -> str:
    member = Member.objects.filter(workspace=cast.workspace, user=cast.users[name]).first()
    return member.role if member else ""


def pk(cast: Cast, name: str) -> int:
    return int(cast.users[name].pk)


def forms_with(page: str, name: str) -> list[dict[str, str]]:
    """Return the data of the forms that have a control of this name."""
    return [
        dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
        for form in re.findall(r"<form.*?</form>", page, re.DOTALL)
        if f'name="{name}"' in form
    ]


def test_it_is_for_admins(cast: Cast) -> None:
    for name, status in {
        "operator": 200,
        "insider": 200,
        "editor": 403,
        "member": 403,
        "guest": 403,
        "outsider": 404,
        "nobody": 302,
    }.items():
        client = cast.clients[name]
        assert client.get(cast.path("people/")).status_code == status, name
        given = post(cast, name, user=pk(cast, "guest"), role="guest")
        assert given == (302 if status == 200 else status), name
        assert ("/people/" in client.get(cast.path(), follow=True).content.decode()) is (
            status == 200
        )


def test_the_page_shows_roles_and_linked_people(cast: Cast) -> None:
    page = " ".join(cast.clients["insider"].get(cast.path("people/")).content.decode().split())
    mika = cast.users["member"].people.get()
    assert f'<span lang="en">mika</span> in Slack ({mika.slack_id})' in page
    assert "Same as in Slack (member (reads))" in page and "Same as in Slack (guest)" in page
    assert '<option value="editor" selected>' in page and '<option value="admin" selected>' in page
    assert "<strong>outsider" not in page and "<strong>operator" not in page
    assert "<strong>operator" in cast.clients["operator"].get(cast.path("people/")).content.decode()
    results = cast.clients["insider"].get(cast.path("people/?q=mik")).content.decode()
    assert "<strong>member</strong>" in results and "<strong>editor</strong>" not in results
    none = cast.clients["insider"].get(cast.path("people/?q=nobody-at-all")).content.decode()
    assert "No person with this name" in none and "All accounts</a>" in none


def test_role_changes_are_recorded(cast: Cast) -> None:
    assert post(cast, "insider", user=pk(cast, "member"), role="editor") == 302
    assert role(cast, "member") == "editor"
    assert post(cast, "insider", user=pk(cast, "member"), role="editor") == 302
    assert post(cast, "insider", user=pk(cast, "member"), role="") == 302
    assert role(cast, "member") == ""
    assert cast.workspace.role_of(Reader.of(cast.users["member"])) == "member"
    assert post(cast, "insider", name="outsider", role="guest") == 302
    events = [
        (e.actor, e.workspace, e.subject, e.details["before"], e.details["after"])
        for e in AuditEvent.objects.filter(action="role").order_by("pk")
    ]
    assert events == [
        ("insider", "team", "member", None, "editor"),
        ("insider", "team", "member", "editor", None),
        ("insider", "team", "outsider", None, "guest"),
    ]


def test_the_last_admin_stays(cast: Cast) -> None:
    for who in ("insider", "operator"):
        for lower_role in ("", "guest", "editor"):
            assert post(cast, who, user=pk(cast, "insider"), role=lower_role, sure=1) == 422
    assert role(cast, "insider") == "admin"
    off = UserFactory(is_active=False)
    MemberFactory(workspace=cast.workspace, user=off, role="admin")  # who cannot sign in is none
    itself = {"user": pk(cast, "insider"), "role": "editor", "sure": 1}
    assert post(cast, "insider", **itself) == 422
    assert post(cast, "insider", user=pk(cast, "editor"), role="admin") == 302
    assert post(cast, "insider", **itself) == 302
    assert cast.clients["insider"].get(cast.path("people/")).status_code == 403


def test_an_operator_cannot_raise_their_own_role(cast: Cast) -> None:
    assert post(cast, "operator", name="operator", role="admin") == 422
    assert role(cast, "operator") == ""
    assert post(cast, "insider", name="operator", role="editor") == 302
    assert post(cast, "operator", name="operator", role="admin") == 422
    assert role(cast, "operator") == "editor"
    assert post(cast, "operator", name="operator", role="guest") == 302


def test_removing_a_role_that_raises_access_is_refused(cast: Cast) -> None:
    """Who is a guest here, and a member by Slack's word, is raised when the row goes."""
    person = PersonFactory(workspace=cast.workspace, user=cast.users["operator"])
    assert post(cast, "insider", name="operator", role="guest") == 302
    assert post(cast, "operator", user=pk(cast, "operator"), role="") == 422
    person.is_guest = True
    person.save()
    assert post(cast, "operator", user=pk(cast, "operator"), role="") == 302


@pytest.mark.parametrize(
    ("name", "does", "question"),
    [
        ("insider", {"role": "editor"}, "Remove your own admin role?"),
        ("insider", {"role": ""}, "Remove your own admin role?"),
        ("operator", {"do": "dismiss"}, "Remove your own operator role?"),
    ],
)
def test_lowering_ones_own_role_needs_confirmation(
    cast: Cast, name: str, does: dict[str, str], question: str
) -> None:
    MemberFactory(workspace=cast.workspace, user=cast.users["outsider"], role="admin")
    UserFactory(is_superuser=True)
    address = cast.path("people/")
    page = cast.clients[name].post(address, {"user": pk(cast, name)} | does)
    assert page.status_code == 422 and question in page.content.decode()
    assert not AuditEvent.objects.filter(action__in=("role", "account")).exists()
    [form] = forms_with(page.content.decode(), "sure")
    page = cast.clients[name].post(address, form, follow=True)
    assert page.status_code == 200 and f"Saved: {name}." in page.content.decode()
    assert cast.clients[name].get(address).status_code in (403, 404)
    assert role(cast, name) == does.get("role", "")


def test_changes_that_keep_ones_access_need_no_confirmation(cast: Cast) -> None:
    assert post(cast, "insider", user=pk(cast, "insider"), role="admin") == 302
    assert post(cast, "insider", user=pk(cast, "editor"), role="guest") == 302
    MemberFactory(workspace=cast.workspace, user=cast.users["operator"], role="editor")
    assert post(cast, "operator", user=pk(cast, "operator"), role="guest") == 302


def test_an_unknown_name_keeps_the_chosen_role(cast: Cast) -> None:
    data = {"name": "nobody-here", "role": "guest"}
    response = cast.clients["insider"].post(cast.path("people/"), data)
    page = response.content.decode()
    assert response.status_code == 422
    field = page[page.index('<input id="name"') :]
    assert 'aria-invalid="true" aria-describedby="wrong"' in field[: field.index(">")]
    assert '<option value="guest" selected>' in field


def test_strangers_are_found_by_their_whole_name_alone(cast: Cast) -> None:
    elsewhere = MemberFactory(workspace=WorkspaceFactory(), user=UserFactory(username="zoe")).user
    assert post(cast, "insider", user=elsewhere.pk, role="member") == 404
    for name in ("zo", "", "zoe%"):
        assert post(cast, "insider", name=name, role="member") == 422
    for wrong in ({"user": "x"}, {"user": ""}, {"name": "zoe", "role": "king"}, {}):
        assert post(cast, "insider", **{"role": "member", **wrong}) == 404
    assert post(cast, "insider", name="Zoe", role="member") == 302, "as she may sign in"


def test_operators_appoint_operators_and_the_last_stays(cast: Cast) -> None:
    for do in ("appoint", "dismiss"):
        assert post(cast, "insider", user=pk(cast, "editor"), do=do) == 404
    assert post(cast, "operator", user=pk(cast, "operator"), do="dismiss", sure=1) == 422
    assert post(cast, "operator", user=pk(cast, "editor"), do="appoint") == 302
    editor = User.objects.get(username="editor")
    assert editor.is_operator and editor.is_staff
    assert post(cast, "operator", user=pk(cast, "operator"), do="dismiss", sure=1) == 302
    assert not User.objects.get(username="operator").is_superuser
    assert cast.clients["operator"].get(cast.path("people/")).status_code == 404
    events = AuditEvent.objects.filter(action="account").order_by("pk")
    assert [(e.actor, e.subject, e.details["is_superuser"]) for e in events] == [
        ("operator", "editor", True),
        ("operator", "operator", False),
    ]


def test_an_account_that_is_off_is_not_appointed(cast: Cast) -> None:
    User.objects.filter(username="editor").update(is_active=False)
    assert post(cast, "operator", user=pk(cast, "editor"), do="appoint") == 404


@pytest.mark.parametrize("who", ["insider", "operator"])
def test_queries_do_not_grow_with_people(cast: Cast, who: str) -> None:
    counts = []
    for many in (10, 100):
        for _ in range(many):
            user = UserFactory()
            MemberFactory(workspace=cast.workspace, user=user)
            PersonFactory(workspace=cast.workspace, user=user)
        with CaptureQueriesContext(connection) as queries:
            assert cast.clients[who].get(cast.path("people/")).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("slack", "status"), [({}, 200), ({"is_guest": True}, 403), ({"is_deleted": True}, 404)]
)
def test_no_role_outlives_slack(client, slack, status):
    """An admin who became a guest there, or left, neither sees the people nor gives a role."""
    team = WorkspaceFactory(slug="hub")
    admin = MemberFactory(workspace=team, role="admin").user
    PersonFactory(workspace=team, user=admin, **slack)
    friend = UserFactory(username="friend")
    client.force_login(admin)
    assert client.get("/w/hub/people/").status_code == status
    client.post("/w/hub/people/", {"name": "friend", "role": "admin"})
    assert team.members.filter(user=friend).exists() is (status == 200)
