"""Quarantined lines in the admin."""

import pytest
from django.urls import reverse

from memories.models import Channel, QuarantinedLine
from tests.factories import ChannelFactory, MessageFactory, make_channel_memory

pytestmark = pytest.mark.django_db
LIST = "admin:memories_quarantinedline_changelist"


def quarantine_line(kind=Channel.Kind.PUBLIC, text="See https://evil.example"):
    channel = ChannelFactory(kind=kind)
    memory = make_channel_memory(channel=channel)
    line = QuarantinedLine.objects.create(memory=memory, text=text, rule="link")
    line.sources.add(MessageFactory(channel=channel))
    return line


def test_lines_are_shown(client, operator):
    line = quarantine_line()
    assert "See https://evil.example" in client.get(reverse(LIST)).content.decode()
    path = reverse("admin:memories_quarantinedline_change", args=[line.pk])
    page = client.get(path).content.decode()
    assert "See https://evil.example" in page and line.sources.get().author_name in page


def test_private_lines_are_not_shown(client, operator):
    line = quarantine_line(Channel.Kind.PRIVATE, "earns a lot")
    assert "earns a lot" not in client.get(reverse(LIST)).content.decode()
    path = reverse("admin:memories_quarantinedline_change", args=[line.pk])
    assert client.get(path).status_code == 302
    client.post(reverse(LIST), {"action": "reject", "_selected_action": [line.pk]})
    line.refresh_from_db()
    assert line.state == "waiting"


def test_lines_are_rejected(client, operator):
    line = quarantine_line()
    given = {"action": "reject", "_selected_action": [line.pk]}
    response = client.post(reverse(LIST), given, follow=True)
    assert "1 line was rejected." in response.content.decode()
    line.refresh_from_db()
    assert (line.state, line.decided_by) == ("rejected", operator)


def test_nothing_is_added_changed_or_deleted(client, operator):
    line = quarantine_line()
    assert client.get(reverse("admin:memories_quarantinedline_add")).status_code == 403
    path = reverse("admin:memories_quarantinedline_change", args=[line.pk])
    assert client.post(path, {"text": "other"}).status_code == 403
    path = reverse("admin:memories_quarantinedline_delete", args=[line.pk])
    assert client.post(path, {"post": "yes"}).status_code == 403
