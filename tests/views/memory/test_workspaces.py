"""The list of workspaces, and the page of a workspace."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from memories.models import Memory
from memories.rules.memory.identity import MemoryType
from memories.views.memory import workspaces
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_segment,
    make_version,
    make_workspace_memory,
)
from tests.views.conftest import Cast, assert_same_queries


def test_a_single_workspace_opens_at_once(cast: Cast) -> None:
    response = cast.clients["member"].get("/")
    assert response.status_code == 302
    assert response["Location"] == "/w/team/catch-up/"


def test_several_workspaces_are_listed(cast: Cast) -> None:
    second = WorkspaceFactory(slug="other", name="Another team")
    MemberFactory(workspace=second, user=cast.users["member"])
    page = cast.clients["member"].get("/").content.decode()
    assert "/w/team/" in page and "/w/other/" in page


def test_an_account_without_a_person_gets_instructions(cast: Cast) -> None:
    page = cast.clients["outsider"].get("/").content.decode()
    assert "not linked to a person in Slack" in page
    assert "The team" not in page


@pytest.mark.slow
def test_the_workspace_memory_is_shown_to_members_and_not_to_guests(cast: Cast) -> None:
    memory = make_workspace_memory(workspace=cast.workspace, texts=["- We moved to Kobe"])
    for name, sees in (("member", True), ("editor", True), ("operator", True), ("guest", False)):
        page = cast.clients[name].get(cast.path()).content.decode()
        assert ("We moved to Kobe" in page) is sees, name
        status = cast.clients[name].get(f"/v/{memory.current.pk}/").status_code
        assert status == (200 if sees else 404)


@pytest.mark.parametrize("switched_on", [True, False], ids=["on", "off"])
def test_its_short_term_memory_is_shown_if_it_is_on(cast: Cast, switched_on: bool) -> None:
    make_workspace_memory(
        workspace=cast.workspace,
        memory_type=MemoryType.SHORT_TERM,
        texts=["- The stairs are wet", "- The lift is broken"],
    )
    cast.workspace.change_settings({"workspace_short_term": switched_on})
    page = cast.clients["member"].get(cast.path()).content.decode()
    assert ("Short-term memory, now" in page) is switched_on
    assert ('id="history-title"' in page) is switched_on
    assert ("The stairs are wet" in page) is switched_on


def test_each_channel_has_its_remembered_and_waiting_messages(cast: Cast) -> None:
    MessageFactory(
        channel=cast.public, author=cast.author, at=timezone.now() - timedelta(minutes=30)
    )
    page = cast.clients["member"].get(cast.path()).content.decode()
    assert "4 summarized" in page
    assert "3 waiting" in page


@pytest.mark.slow
def test_a_source_in_a_channel_that_the_reader_may_not_open_is_no_link(cast: Cast) -> None:
    memory = Memory.objects.of_workspace(cast.workspace, MemoryType.LONG_TERM)
    secret = cast.private.messages.get()
    make_version(memory=memory, text="- From behind the door", sources=[secret])
    page = cast.clients["member"].get(cast.path()).content.decode()
    assert "a source you cannot access" in page
    assert secret.ts not in page
    assert "C0PRIVATE" not in page
    assert secret.ts in cast.clients["insider"].get(cast.path()).content.decode()


@pytest.mark.nightly("quicker tests run the same lines")
def test_notes_of_the_whole_workspace_are_listed(cast: Cast) -> None:
    def page(name: str = "member") -> str:
        html: str = cast.clients[name].get(cast.path()).content.decode().split("<main")[1]
        return html

    assert "No notes for the whole workspace." in page()
    whole = NoteFactory(workspace=cast.workspace, title="Shops, never clients")
    NoteFactory(workspace=cast.workspace, channel=cast.public, title="Of the launch alone")
    NoteFactory(workspace=cast.workspace, title="Thrown away").remove(by=None)
    text = page()
    assert f'href="{cast.path(f"notes/{whole.pk}/")}" lang="en">Shops, never clients</a>' in text
    assert "Of the launch alone" not in text and "Thrown away" not in text
    assert "#add" not in text and f"{cast.path('notes/')}#add" in page("editor")
    assert "Shops, never clients" not in page("guest")
    cast.workspace.change_settings({"notes_enabled": False})
    assert "Shops, never clients" not in page() and 'id="notes-title"' not in page()


def test_it_lists_the_bots_that_use_its_memory(cast: Cast) -> None:
    for name, is_told in (("member", True), ("guest", False)):
        text = cast.clients[name].get(cast.path()).content.decode()
        assert ("bots everywhere in the workspace" in text) is is_told


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_queries_do_not_grow_with_rows(cast: Cast) -> None:
    def grow(size: int) -> None:
        for i in range(size):
            channel = ChannelFactory(workspace=cast.workspace, start_us=0)
            at = MONDAY + timedelta(hours=i)
            message = MessageFactory(channel=channel, author=cast.author, at=at)
            make_segment(messages=[message], outcome="remembered")
            MessageFactory(channel=channel, author=cast.author, at=at + timedelta(days=1))
            make_channel_memory(channel=channel, memory_type=MemoryType.SHORT_TERM)
            make_workspace_memory(workspace=cast.workspace)
            NoteFactory(workspace=cast.workspace)

    def look() -> None:
        assert cast.clients["member"].get(cast.path()).status_code == 200

    assert_same_queries(grow, look, sizes=(10, 60))


@pytest.mark.nightly("quicker tests run the same lines")
def test_channels_are_paged_and_searched(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "PAGE_SIZE", 3)
    for name in ("alpha", "beta", "gamma", "zeta"):
        ChannelFactory(workspace=cast.workspace, name=name)

    def listed(query: str) -> list[str]:
        page = cast.clients["member"].get(cast.path(query)).content.decode()
        html = page.partition('class="channel-list"')[2].partition("</ul>")[0]
        return re.findall(r"</svg>([\w-]+)</a>", html)

    assert listed("")[:2] == ["alpha", "beta"] and len(listed("")) == 3
    assert "zeta" in listed("?page=9999")
    assert listed("?q=%23ZETA") == ["zeta"]
    assert listed("?q=salaries") == [], "a private channel stays unknown"
