"""Accounts that use the admin, and their requests."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from memories.models import Channel, Job, Memory, User
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import Reply
from tests.factories import (
    ChannelFactory,
    MessageFactory,
    UserFactory,
    make_segment,
    make_version,
)


@pytest.fixture
def operator(client: Client, db: None) -> User:
    """An operator who is signed in and reads no private channel."""
    user: User = UserFactory(username="boss", is_staff=True, is_superuser=True)
    client.force_login(user)
    return user


@pytest.fixture
def clerk() -> User:
    """Staff with every permission of Django."""
    user: User = UserFactory(username="clerk", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    return user


def page_of(model: type[Model], page: str = "changelist", *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


def change_page(row: Model) -> str:
    return page_of(type(row), "change", row.pk)


def act(client: Client, action: str, *rows: Model, **data: Any) -> list[str]:
    """Run an action on these rows, and return its messages."""
    data = {"action": action, "_selected_action": [row.pk for row in rows], **data}
    response = client.post(page_of(type(rows[0])), data, follow=True)
    return [str(message) for message in response.context["messages"]]


def sent_data(form: Any) -> dict[str, Any]:
    """Return what a browser sends for an unchanged form. It sends no unchecked boxes."""
    values = {name: form[name].value() for name in form.fields}
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def proposed_merge(channel: Channel | None = None) -> Job:
    """Return a merge that may be accepted."""
    channel = channel or ChannelFactory()
    message = MessageFactory(channel=channel)
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    segment = make_segment(messages=[message], outcome="remembered")
    added = make_version(memory=short, text="- new", sources=[message], segment=segment)
    memory = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    base = make_version(memory=memory, text="- one\n- two\n- three", sources=[message])
    reply = Reply("- L1, L2, L3 [4]\n+ Ben ships the beta [4]", "stop", "tiny", "p").as_json()
    row = Job.objects.create(
        memory=memory,
        as_of_us=0,
        input_key=f"merge {memory.pk}",
        state="proposed",
        base=base,
        reply=reply,
        reply_sources=[[message.pk]] * 4,
    )
    row.add_inputs([added])
    return row
