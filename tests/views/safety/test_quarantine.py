"""Quarantined lines on the pages."""

import re

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from memories.models import AuditEvent, Memory, Message, Person, QuarantinedLine
from memories.pipeline.redaction.redactor import redact_messages
from memories.pipeline.redaction.removed import RemovedMessage
from memories.rules.memory.lines import Origin
from tests.views.conftest import Cast

pytestmark = pytest.mark.slow

TEXT = "See <b>https://evil.example/x</b>"


def quarantine(cast: Cast, text: str = TEXT, memory: Memory | None = None) -> QuarantinedLine:
    line = QuarantinedLine.objects.create(memory=memory or cast.memory, text=text, rule="link")
    line.sources.add(*(cast.messages[:2] if memory is None else memory.channel.messages.all()))
    return line


def page(cast: Cast, name: str = "editor") -> str:
    response = cast.clients[name].get(cast.path("quarantine/"))
    assert response.status_code == 200
    return response.content.decode()


def post(cast: Cast, path: str, name: str = "editor", htmx: bool = False, **given: object):
    headers = {"HX-Request": "true"} if htmx else {}
    return cast.clients[name].post(cast.path(path), given, headers=headers)


def test_an_empty_quarantine_is_explained(cast: Cast) -> None:
    assert "No lines in quarantine." in page(cast)


@pytest.mark.parametrize(
    ("name", "status"),
    [("editor", 200), ("member", 403), ("insider", 200), ("guest", 403), ("outsider", 404),
     ("operator", 200)],
)  # fmt: skip
def test_it_is_for_editors(cast: Cast, name: str, status: int) -> None:
    line = quarantine(cast)
    assert cast.clients[name].get(cast.path("quarantine/")).status_code == status
    words = ("accept", "reject")
    paths = [f"quarantine/{line.pk}/{word}/" for word in words]
    paths += [f"sources/messages/{cast.messages[0].pk}/", f"sources/people/{cast.author.pk}/"]
    if status != 200:
        for path in paths:
            assert post(cast, path, name, do="revoke", based_on=2, revision=0).status_code == status
        line.refresh_from_db()
        assert line.state == "waiting"
        assert not Message.objects.filter(is_revoked=True).exists()


def test_a_line_with_its_reason_and_its_sources(cast: Cast) -> None:
    quarantine(cast)
    shown = page(cast)
    assert "See &lt;b&gt;https://evil.example/x&lt;/b&gt;" in shown
    assert "Contains a link that is in no source" in shown
    for message in cast.messages[:2]:
        assert f"/messages/?around={message.ts}#msg-{message.ts}" in shown
    assert re.search(r'quarantine/"[^>]*>.*?<span class="count">1</span>', shown, re.S)
    assert "Quarantine" not in cast.clients["member"].get(cast.path()).content.decode()


def test_only_sources_in_use_can_be_excluded(cast: Cast) -> None:
    quarantine(cast)
    revoke = "sources/messages/{}/"
    shown = page(cast)
    assert shown.count("All messages of") == 1
    assert shown.count('Message of <span lang="en">mika</span>, <time ') == 2
    for message in cast.messages[:2]:
        assert f'hx-post="{cast.path(revoke.format(message.pk))}"' in shown
    Message.objects.filter(pk=cast.messages[0].pk).update(is_revoked=True)
    assert f'hx-post="{cast.path(revoke.format(cast.messages[0].pk))}"' not in page(cast)


def test_private_lines_are_only_for_their_readers(cast: Cast) -> None:
    line = quarantine(cast, "tom's secret line", cast.private_memory)
    assert "secret line" in page(cast, "insider")
    for name in ("editor", "operator"):
        assert "secret line" not in page(cast, name)
        for word in ("accept", "reject"):
            assert post(cast, f"quarantine/{line.pk}/{word}/", name).status_code == 404
    secret = cast.private.messages.get()
    assert post(cast, f"sources/messages/{secret.pk}/", do="revoke").status_code == 404


def test_lines_of_private_messages_are_only_for_members(cast: Cast) -> None:
    line = quarantine(cast)
    Message.objects.filter(pk=cast.messages[0].pk).update(was_private=True)
    assert "No lines in quarantine." in page(cast, "editor")
    assert post(cast, f"quarantine/{line.pk}/reject/").status_code == 404


def test_approved_it_is_the_editors_line(cast: Cast) -> None:
    line = quarantine(cast)
    response = post(cast, f"quarantine/{line.pk}/accept/", based_on=2, revision=0)
    assert (response.status_code, response["Location"]) == (302, cast.path("quarantine/"))
    cast.memory.refresh_from_db()
    version = cast.memory.current
    assert version.number == 3 and version.content.endswith(f"\n- {TEXT}")
    added = version.line_values()[-1]
    assert (added.origin, set(added.sources)) == (
        Origin.PERSON,
        {message.pk for message in cast.messages[:2]},
    )
    assert [value.origin for value in version.line_values()[:-1]] == [Origin.MODEL] * 2
    assert version.author == cast.users["editor"]
    line.refresh_from_db()
    assert (line.state, line.decided_by) == ("accepted", cast.users["editor"])
    assert AuditEvent.objects.get(action="quarantine_accept").actor == "editor"
    assert "Approved. It is your line in version 3." in page(cast)
    again = post(cast, f"quarantine/{line.pk}/accept/", based_on=3, revision=0)
    assert again.status_code == 302
    cast.memory.refresh_from_db()
    assert cast.memory.head == 3


@pytest.mark.parametrize("seen", [{"based_on": 1, "revision": 0}, {"based_on": 2, "revision": 7}])
def test_over_a_newer_text_nothing_is_done(cast: Cast, seen: dict[str, int]) -> None:
    line = quarantine(cast)
    response = post(cast, f"quarantine/{line.pk}/accept/", htmx=True, **seen)
    assert response.status_code == 409
    assert "Nothing was changed" in response.content.decode()
    line.refresh_from_db()
    cast.memory.refresh_from_db()
    assert (line.state, cast.memory.head) == ("waiting", 2)
    assert post(cast, f"quarantine/{line.pk}/accept/", based_on="x").status_code == 404


def test_a_rejected_line_leaves_the_page(cast: Cast) -> None:
    line = quarantine(cast)
    part = post(cast, f"quarantine/{line.pk}/reject/", htmx=True).content.decode()
    assert part.lstrip().startswith('<div id="quarantine"')
    assert "Rejected. The line stays out of the memory." in part and "evil" not in part
    assert (
        AuditEvent.objects.get(action="quarantine_reject").subject == f"quarantined line {line.pk}"
    )
    assert (
        "Somebody else" in post(cast, f"quarantine/{line.pk}/reject/", htmx=True).content.decode()
    )


@pytest.mark.parametrize("word", ["accept", "reject"])
def test_a_line_whose_message_was_deleted_is_no_longer_decided(cast: Cast, word: str) -> None:
    line = quarantine(cast)
    with transaction.atomic():
        redact_messages(cast.workspace, [RemovedMessage.of(cast.messages[0])])
    part = post(cast, f"quarantine/{line.pk}/{word}/", htmx=True, based_on=2, revision=0)
    shown = part.content.decode()
    assert "A message of this line was deleted or edited" in shown and "Somebody" not in shown
    line.refresh_from_db()
    assert line.state == "waiting"


def test_a_message_is_revoked_and_restored(cast: Cast) -> None:
    line = quarantine(cast)
    message = cast.messages[0]
    path = f"sources/messages/{message.pk}/"
    part = post(cast, path, htmx=True, do="revoke").content.decode()
    assert "Excluded." in part and "No lines in quarantine." in part
    message.refresh_from_db()
    line.refresh_from_db()
    assert message.is_revoked and line.state == "rejected"
    response = post(cast, path, do="restore", **{"from": "message"})
    assert response["Location"].endswith(f"?around={message.ts}#msg-{message.ts}")
    message.refresh_from_db()
    assert not message.is_revoked
    assert (
        "Nothing changed. It was already so."
        in post(cast, path, htmx=True, do="restore").content.decode()
    )
    assert post(cast, path, do="x").status_code == 404
    assert cast.clients["editor"].get(cast.path(path)).status_code == 405


def test_a_person_is_revoked_and_restored(cast: Cast) -> None:
    quarantine(cast)
    path = f"sources/people/{cast.author.pk}/"
    assert 'All messages of <span lang="en">mika</span>' in page(cast)
    assert post(cast, path, do="revoke").status_code == 302
    assert Person.objects.get(pk=cast.author.pk).is_revoked
    shown = page(cast)
    assert "People excluded from memories" in shown and "Include in memories" in shown
    assert post(cast, path, do="restore").status_code == 302
    assert not Person.objects.get(pk=cast.author.pk).is_revoked
    assert not Message.objects.filter(is_revoked=True).exists()


def test_the_message_row_shows_and_changes_its_exclusion(cast: Cast) -> None:
    path = cast.path("c/C0PUBLIC/messages/")
    Message.objects.filter(pk=cast.messages[0].pk).update(is_revoked=True)
    shown = cast.clients["editor"].get(path).content.decode()
    assert shown.count('value="revoke"') == 5 and shown.count('value="restore"') == 1
    read = cast.clients["member"].get(path).content.decode()
    assert 'value="revoke"' not in read and "excluded from memories" in read


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_more_lines_are_no_more_queries(cast: Cast) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(cast)
        return len(captured)

    quarantine(cast)
    few = queries()
    for i in range(5):
        quarantine(cast, f"{TEXT} {i}")
    assert queries() == few


def test_the_navigation_counts_at_most_a_hundred_lines(cast: Cast) -> None:
    lines = [QuarantinedLine(memory=cast.memory, text=TEXT, rule="link") for _ in range(100)]
    QuarantinedLine.objects.bulk_create(lines)
    count = r'<span class="count">(\S+)</span></a>'
    assert "100" in re.findall(count, page(cast))
    quarantine(cast)
    assert "100+" in re.findall(count, page(cast))
    news = cast.clients["editor"].get(cast.path("catch-up/")).content.decode()
    assert "100+ lines are in quarantine" in news
