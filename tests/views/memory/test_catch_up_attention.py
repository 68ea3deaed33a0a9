"""Attention items and warnings of Catch up, and its empty pages."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memories.models import (
    Channel,
    ChannelSync,
    Heartbeat,
    Memory,
    MemoryVersion,
    QuarantinedLine,
    User,
    Workspace,
)
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    UserFactory,
    WorkspaceFactory,
    make_job,
    make_version,
    mark_channels_synced,
)
from tests.views.conftest import Cast
from tests.views.memory.test_catch_up import entry, main_of, mark_seen, page, texts

pytestmark = pytest.mark.slow


def test_an_ordinary_workspace_has_no_attention_items(cast: Cast) -> None:
    assert "Needs attention" not in page(cast, "editor")


def test_a_restored_line_needs_attention_until_it_is_seen(cast: Cast) -> None:
    mark_seen(cast, cast.memory, 1)
    lost = make_version(
        memory=cast.memory,
        text="- We launch on Monday\n- Aya owns iOS",
        put_back=["- Aya owns iOS"],
        until=MONDAY + timedelta(hours=2),
    )
    text = page(cast)
    assert "Needs attention (1)" in text
    assert f'/v/{lost.pk}/">#launch: 1 line by a person was dropped and restored' in text
    mark_seen(cast, cast.memory, 3)
    assert "Needs attention" not in page(cast)


def test_a_text_that_lost_many_lines_needs_attention(cast: Cast) -> None:
    mark_seen(cast, cast.memory, 2)
    make_version(memory=cast.memory, text="- Aya owns iOS", until=MONDAY + timedelta(hours=2))
    text = page(cast)
    second, third = cast.memory.versions.filter(number__gt=1).order_by("number")
    assert (
        f'/diff/{second.pk}..{third.pk}/">#launch: more than 30 percent was removed: 1 line' in text
    )
    assert "Nothing was added." in entry(text, cast.memory)


def test_quarantined_lines_need_the_attention_of_editors(cast: Cast) -> None:
    line = QuarantinedLine.objects.create(memory=cast.memory, text="bad", rule="link")
    line.sources.add(cast.messages[0])
    secret = QuarantinedLine.objects.create(memory=cast.private_memory, text="bad", rule="link")
    secret.sources.add(cast.private.messages.get())
    assert "1 line is in quarantine" in page(cast, "editor")
    assert "2 lines are in quarantine" in page(cast, "insider")
    assert "held back" not in page(cast)


# -- health


def connected(workspace: Workspace, synced: timedelta) -> None:
    now = timezone.now()
    Workspace.objects.filter(pk=workspace.pk).update(
        connected_at=now - timedelta(days=9), listed_at=now, synced_at=now - synced
    )
    mark_channels_synced(now)


@pytest.mark.parametrize(("minutes", "late"), [(2, False), (9, False), (11, True)])
def test_a_late_sync_has_a_warning(cast: Cast, minutes: int, late: bool) -> None:
    connected(cast.workspace, timedelta(minutes=minutes))
    mark_seen(cast, cast.memory, 2)
    text = page(cast)
    assert ("Slack was last read on" in text) is late
    assert ("No new messages were read." in text) is late
    assert ("Nothing new since" in text) is not late
    assert "Last sync" in text and "?since=7d" in main_of(text)


def test_a_sync_of_many_channels_may_take_longer(cast: Cast) -> None:
    """Slack allows about 38 of them a minute."""
    connected(cast.workspace, timedelta(minutes=11))
    ChannelSync.objects.update(synced_at=timezone.now() - timedelta(minutes=11))
    Channel.objects.update(is_followed=True, bot_is_in=True)
    assert "Slack was last read on" in page(cast)
    ChannelFactory.create_batch(50, workspace=cast.workspace, is_followed=True, bot_is_in=True)
    text = page(cast)
    assert "Slack was last read on" not in text and "The last sync was long ago" not in text
    jobs = cast.clients["member"].get(cast.path("jobs/")).content.decode()
    assert "Slack was not read for a long time." not in jobs


def test_a_week_without_news_has_no_link_to_itself(cast: Cast) -> None:
    MemoryVersion.objects.update(created_at=timezone.now() - timedelta(days=30))
    empty = page(cast, query="?since=7d").split('class="card empty"')[1]
    assert "since=7d" not in empty
    assert 'href="/w/team/"' in empty


def test_a_channel_that_needs_a_person_is_named(cast: Cast) -> None:
    connected(cast.workspace, timedelta(minutes=2))
    assert "The bot is not in the channel" not in page(cast)
    Channel.objects.update(bot_is_in=False)
    assert texts(page(cast)).count("The bot is not in the channel. Invite it in Slack.") == 1
    assert (
        texts(page(cast, "insider")).count("The bot is not in the channel. Invite it in Slack.")
        == 2
    )


@pytest.mark.nightly("quicker tests run the same lines")
def test_a_stopped_worker_and_failed_jobs_have_warnings(cast: Cast) -> None:
    assert "No worker has started yet" in texts(page(cast))
    assert "No worker" not in texts(page(cast, "guest")), "it is for members to know of"
    now = timezone.now()
    Heartbeat.objects.beat("one", now - timedelta(hours=1))
    assert "The worker was last active" in texts(page(cast))
    Heartbeat.objects.beat("one", now)
    assert 'class="band warn"' not in page(cast)
    memory = Memory.objects.of_channel(cast.private, MemoryType.SHORT_TERM)
    make_job(memory=memory, state="dead", fault="timeout")
    text = page(cast, "insider")
    assert "1 job failed." in texts(text) and f'href="{cast.path("jobs/")}"' in main_of(text)


def test_an_imported_workspace_has_no_late_sync(cast: Cast) -> None:
    Heartbeat.objects.beat("one", timezone.now())
    assert 'class="band warn"' not in page(cast)


# -- nothing to show


def reader_of(workspace: Workspace, **role: str) -> Client:
    user: User = UserFactory()
    MemberFactory(workspace=workspace, user=user, **role)
    client = Client()
    client.force_login(user)
    return client


def test_an_empty_workspace_has_first_steps(db: None) -> None:
    workspace = WorkspaceFactory(slug="empty")
    ChannelFactory(workspace=workspace)
    """Commands stand only before those who have a server to type them on; others learn whom to ask."""
    boss = Client()
    boss.force_login(UserFactory(is_superuser=True))
    who = {
        "operator": (boss, ("make demo", "import_slack", 'href="/setup/"', "/w/empty/slack/")),
        "admin": (
            reader_of(workspace, role="admin"),
            ("/w/empty/slack/", "Contact the operator of this installation"),
        ),
        "member": (reader_of(workspace), ("An admin of this workspace", "Contact one of them")),
    }
    for name, (client, words) in who.items():
        text = main_of(client.get("/w/empty/catch-up/").content.decode())
        assert "There is nothing to summarize yet." in text
        assert [word for word in words if word not in text] == [], name
        assert ("<code>" in text) is (name == "operator"), name
        assert ("/slack/" in text) is (name != "member"), name


def test_messages_without_a_memory_wait_for_the_worker(db: None) -> None:
    channel = ChannelFactory()
    MessageFactory(channel=channel)
    path = f"/w/{channel.workspace.slug}/catch-up/"
    text = reader_of(channel.workspace).get(path).content.decode()
    assert "No memories yet." in text and "import_slack" not in text


def test_a_reader_without_channels_gets_the_reason(cast: Cast) -> None:
    Channel.objects.update(kind=Channel.Kind.PRIVATE)
    assert "You have no access to any channel." in page(cast, "editor")


# -- many


def test_an_old_question_needs_attention(cast: Cast) -> None:
    version = make_version(memory=cast.private_memory, text="- Who owns the budget?\n- Friday")
    words = "question has had no answer for more than 7 days"
    assert words not in page(cast, "insider"), "asked just now"
    old_us = to_micros(timezone.now() - timedelta(days=8))
    version.lines.update(at_us=old_us)  # as in an import of today
    text = page(cast, "insider")
    assert f"1 {words}" in text and 'href="/w/team/c/C0PRIVATE/#memory"' in text
    assert words not in page(cast), "the channel is private"
    answer = make_version(memory=cast.private_memory, text="- Aya owns the budget.")
    assert words not in page(cast, "insider"), "it was answered"
    answer.lines.update(kind="question", at_us=old_us)
    assert f"1 {words}" in page(cast, "insider"), "the kind counts without a question mark"
