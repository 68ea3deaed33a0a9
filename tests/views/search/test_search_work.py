"""Searches for names, and those of the admin, do no work for rows that their reader may not see."""

from functools import partial

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from memories.models import Channel, Message, Note
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    NoteFactory,
    UserFactory,
    WorkspaceFactory,
)
from tests.work import work_of

pytestmark = [pytest.mark.django_db, pytest.mark.postgres("plans differ"), pytest.mark.slow]

MANY = 3_000
SECRET, NOWHERE = "kabuto", "nobuko"


@pytest.fixture
def client_of_operator(client: Client) -> Client:
    """An operator's, who reads #ops and none of many private channels, messages and notes."""
    workspace = WorkspaceFactory(slug="team")
    MessageFactory(channel=ChannelFactory(workspace=workspace, name="ops"))
    NoteFactory(workspace=workspace)
    private = ChannelFactory(workspace=workspace, kind=Channel.Kind.PRIVATE)
    Channel.objects.bulk_create(
        Channel(workspace=workspace, slack_id=f"P{n}", name=f"{SECRET}-{n}", topic=SECRET)
        for n in range(MANY)
    )
    Message.objects.bulk_create(
        Message(channel=private, ts=f"{n}.000000", micros=n, text=SECRET) for n in range(MANY)
    )
    Note.objects.bulk_create(
        Note(workspace=workspace, channel=private, content=SECRET, date=MONDAY.date())
        for _ in range(MANY)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    client.force_login(UserFactory(is_superuser=True, is_staff=True))
    return client


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_names_of_unreadable_rows_cost_no_work(client_of_operator: Client) -> None:
    suggestions = "?app_label=memories&model_name=note&field_name=channel&term="
    differing = {}
    for path in (
        reverse("slack-index", args=["team"]) + "?q=",
        reverse("people-index", args=["team"]) + "?q=",
        reverse("notes-index", args=["team"]) + "?q=",
        reverse("admin:autocomplete") + suggestions,
        *(
            reverse(f"admin:memories_{model}_changelist") + "?q="
            for model in ("channel", "message", "note")
        ),
    ):
        client_of_operator.get(path)  # loaded by the first request only
        secret, nowhere = (
            work_of(partial(client_of_operator.get, path + word)) for word in (SECRET, NOWHERE)
        )
        if not 0 < nowhere * 0.9 <= secret <= nowhere * 1.1:
            differing[path] = secret, nowhere
    assert differing == {}
