"""Labels and colours of the admin."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.core.exceptions import FieldDoesNotExist
from django.urls import reverse

from memories.admin.verbose_names import VERBOSE_NAMES
from memories.models import Budget
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    make_channel_memory,
)

STATIC = Path(settings.BASE_DIR) / "memories" / "static" / "memories"
OURS = [model for model in admin.site._registry if model._meta.app_label == "memories"]
WITHOUT_LABEL = {"id"}  # in every language


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
def test_every_column_and_field_has_a_label(model) -> None:
    shown = admin.site._registry[model]
    details = getattr(shown, "details", ())
    names = {*shown.list_display, *flatten(shown.fields or ()), *shown.readonly_fields, *details}
    unlabelled = set()
    for name in names - WITHOUT_LABEL - VERBOSE_NAMES.keys():
        try:
            field = model._meta.get_field(name)
        except FieldDoesNotExist:
            continue  # a method with its own description
        if getattr(field, "_verbose_name", "") is None:  # a reverse relation has none
            unlabelled.add(name)
    assert not unlabelled


@pytest.mark.django_db
def test_rows_have_names_that_a_person_knows() -> None:
    channel = ChannelFactory(name="launch")
    person = PersonFactory(workspace=channel.workspace, name="Mika")
    memory = make_channel_memory(channel=channel, texts=["- one", "- two"])
    rows = [
        (MessageFactory(channel=channel, at=MONDAY), f"#launch, {MONDAY:%Y-%m-%d %H:%M}"),
        (channel.memberships.create(person=person), "Mika, #launch"),
        (memory.versions.get(number=2), f"{memory}, v2"),
        (Budget(period="month"), "the whole installation, month"),
        (Budget(period="day", workspace=channel.workspace), f"{channel.workspace}, day"),
    ]
    assert [str(row) for row, _ in rows] == [name for _, name in rows]


def test_the_colours_are_those_of_the_pages() -> None:
    def colours(name: str) -> set[str]:
        return set(re.findall(r"#[0-9A-F]{6}\b", (STATIC / name).read_text()))

    assert len(colours("admin.css")) > 30
    assert colours("admin.css") <= colours("app.css")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("theme", "expected"), [("dark", {"in-dark"}), ("light", {"in-light"}), ("", set())]
)
def test_the_admin_uses_the_theme_of_the_reader(client, theme: str, expected: set[str]) -> None:
    client.force_login(UserFactory(is_staff=True, is_superuser=True, theme=theme))
    page = client.get(reverse("admin:index")).content.decode()
    assert set(re.findall(r'<body class="([^"]*)"', page)[0].split()) == expected | {"dashboard"}
    assert "theme.js" not in page
