"""Every address by every role: unreadable objects answer 404, forbidden actions 403."""

import pytest
from django.http import QueryDict
from django.utils import timezone

from memories.models import ApiKey, Memory
from memories.views.access.access import WorkspaceAccess
from memories.views.context.forms import PreviewForm
from memories.views.notes.note_form import NoteForm
from tests.factories import make_workspace_memory
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow

READERS = ("editor", "member", "insider", "guest", "outsider", "operator")


def addresses(cast: Cast) -> dict[str, str]:
    version = cast.memory.current.pk
    secret = cast.private_memory.current.pk
    older = cast.memory.versions.get(number=1).pk
    return {
        "workspace": cast.path(),
        "notes": cast.path("notes/"),
        "settings": cast.path("settings/"),
        "slack": cast.path("slack/"),
        "slack test": cast.path("slack/test/"),
        "quarantine": cast.path("quarantine/"),
        "accept a line": cast.path("quarantine/987654/accept/"),
        "reject a line": cast.path("quarantine/987654/reject/"),
        "revoke a message": cast.path(f"sources/messages/{cast.messages[0].pk}/"),
        "revoke a person": cast.path(f"sources/people/{cast.author.pk}/"),
        "backfill": cast.path("backfill/"),
        "backfill estimate": cast.path("backfill/?estimate=1&since=30&cap=100"),
        "unknown backfill": cast.path("backfill/987654/"),
        "resume": cast.path("jobs/resume/"),
        "jobs": cast.path("jobs/"),
        "unknown job": cast.path("jobs/987654/"),
        "costs": cast.path("jobs/cost/"),
        "context": cast.path("context/"),
        "context as a file": cast.path("context/download/"),
        "channel": cast.path("c/C0PUBLIC/"),
        "messages": cast.path("c/C0PUBLIC/messages/"),
        "memory": f"/m/{cast.memory.pk}/versions/",
        "edit": f"/m/{cast.memory.pk}/edit/",
        "version": f"/v/{version}/",
        "sources": f"/v/{version}/sources/",
        "compare": f"/diff/{older}..{version}/",
        "proposal": f"/m/{cast.memory.pk}/proposal/",
        "accept": f"/m/{cast.memory.pk}/proposal/accept/",
        "reject": f"/m/{cast.memory.pk}/proposal/reject/",
        "restore": f"/v/{older}/restore/",
        "pin": f"/v/{version}/pin/",
        "private channel": cast.path("c/C0PRIVATE/"),
        "private messages": cast.path("c/C0PRIVATE/messages/"),
        "private versions": f"/m/{cast.private_memory.pk}/versions/",
        "private edit": f"/m/{cast.private_memory.pk}/edit/",
        "private version": f"/v/{secret}/",
        "sources of a private version": f"/v/{secret}/sources/",
        "private compare": f"/diff/{secret}..{secret}/",
        "two memories compared": f"/diff/{version}..{secret}/",
        "private sources": cast.path(f"c/C0PUBLIC/messages/?v={secret}"),
        "unknown channel": cast.path("c/C0NOWHERE/"),
        "unknown version": "/v/987654/",
        "sources of an unknown version": "/v/987654/sources/",
        "unknown thread": cast.path("c/C0PUBLIC/t/1.000000/"),
        "not a ts": cast.path("c/C0PUBLIC/messages/?around=x"),
    }


# editor, member, insider, guest, outsider, operator
ANSWERS = {
    "workspace": (200, 200, 200, 200, 404, 200),
    "notes": (200, 200, 200, 200, 404, 200),
    "settings": (403, 403, 200, 403, 404, 200),
    "slack": (403, 403, 200, 403, 404, 200),
    "slack test": (405, 405, 405, 405, 405, 405),  # POST only: see test_slack.py
    "quarantine": (200, 403, 200, 403, 404, 200),
    "accept a line": (405, 405, 405, 405, 405, 405),  # POST only: see test_quarantine.py
    "reject a line": (405, 405, 405, 405, 405, 405),
    "revoke a message": (405, 405, 405, 405, 405, 405),
    "revoke a person": (405, 405, 405, 405, 405, 405),
    "backfill": (403, 403, 200, 403, 404, 200),
    "backfill estimate": (403, 403, 200, 403, 404, 200),
    "unknown backfill": (403, 403, 404, 403, 404, 404),
    "resume": (405, 405, 405, 405, 405, 405),  # POST only: see test_banner.py
    "jobs": (200, 200, 200, 200, 404, 200),
    "unknown job": (404, 404, 404, 404, 404, 404),
    "costs": (200, 200, 200, 403, 404, 200),
    "context": (200, 200, 200, 200, 404, 200),
    "context as a file": (200, 200, 200, 200, 404, 200),
    "channel": (200, 200, 200, 200, 404, 200),
    "messages": (200, 200, 200, 200, 404, 200),
    "memory": (200, 200, 200, 200, 404, 200),
    "edit": (200, 403, 200, 403, 404, 200),
    "version": (200, 200, 200, 200, 404, 200),
    "sources": (200, 200, 200, 200, 404, 200),
    "compare": (200, 200, 200, 200, 404, 200),
    "proposal": (404, 404, 404, 404, 404, 404),  # none waits: see test_proposals.py
    "accept": (405, 405, 405, 405, 405, 405),  # POST only
    "reject": (405, 405, 405, 405, 405, 405),
    "restore": (405, 405, 405, 405, 405, 405),
    "pin": (405, 405, 405, 405, 405, 405),
    "private channel": (404, 404, 200, 404, 404, 404),
    "private messages": (404, 404, 200, 404, 404, 404),
    "private versions": (404, 404, 200, 404, 404, 404),
    "private edit": (404, 404, 200, 404, 404, 404),
    "private version": (404, 404, 200, 404, 404, 404),
    "sources of a private version": (404, 404, 200, 404, 404, 404),
    "private compare": (404, 404, 200, 404, 404, 404),
    "two memories compared": (404, 404, 404, 404, 404, 404),
    "private sources": (404, 404, 200, 404, 404, 404),
    "unknown channel": (404, 404, 404, 404, 404, 404),
    "unknown version": (404, 404, 404, 404, 404, 404),
    "sources of an unknown version": (404, 404, 404, 404, 404, 404),
    "unknown thread": (404, 404, 404, 404, 404, 404),
    "not a ts": (404, 404, 404, 404, 404, 404),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_status_of_each_page_by_reader(cast: Cast, what: str) -> None:
    path = addresses(cast)[what]
    answers = tuple(cast.clients[name].get(path).status_code for name in READERS)
    assert answers == ANSWERS[what]


@pytest.mark.parametrize("what", ANSWERS)
def test_anonymous_visitors_are_sent_to_sign_in(cast: Cast, what: str) -> None:
    response = cast.clients["nobody"].get(addresses(cast)[what])
    assert response.status_code == 302
    assert response["Location"].startswith("/login/")


def test_a_part_and_its_page_vary_by_header(cast: Cast) -> None:
    path = addresses(cast)["edit"]
    whole = cast.clients["editor"].get(path)
    part = cast.clients["editor"].get(path, headers={"HX-Request": "true"})
    rebuilt = cast.clients["editor"].get(
        path, headers={"HX-Request": "true", "HX-History-Restore-Request": "true"}
    )
    assert "HX-Request" in whole["Vary"] and "HX-Request" in part["Vary"]
    assert whole.content.startswith(b"<!doctype") and rebuilt.content.startswith(b"<!doctype")
    assert part.content.lstrip().startswith(b"<section")


@pytest.mark.parametrize("is_narrowed", [True, False])
def test_a_reader_of_single_channels_does_not_read_the_workspace(
    cast: Cast, is_narrowed: bool
) -> None:
    """A key that is limited to channels, and all readers of a channel with a guest."""
    now, user = timezone.now(), cast.users["member"]
    channels = [cast.public] if is_narrowed else []
    key, _ = ApiKey.objects.issue(cast.workspace, name="bot", by=None, user=user, channels=channels)
    memory = make_workspace_memory(workspace=cast.workspace, texts=["- Everybody ships"])
    readers = [key.reader(now), *([cast.public.common_reader(now)] if is_narrowed else [])]
    for reader in readers:
        access = WorkspaceAccess(cast.workspace, reader)
        assert access.reads_workspace is (not is_narrowed)
        assert (
            Memory.objects.visible_to(reader).filter(pk=memory.pk).exists()
            is access.reads_workspace
        )
        assert ("as" in PreviewForm(QueryDict(), access=access).fields) is access.reads_workspace
        assert NoteForm(access=access).fields["channel"].required is is_narrowed
