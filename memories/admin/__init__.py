"""The rows as an operator sees them, by subject."""

from django.contrib import admin

from memories.admin.words import name_fields

name_fields()  # before forms are made of them
admin.site.enable_nav_sidebar = False  # lists need the room

from memories.admin import (  # noqa: E402
    accounts,
    audit,
    backfills,
    channels,
    connections,
    endpoints,
    events,
    generations,
    memories,
    money,
    notes,
    openings,
    quarantine,
    workspaces,
)

__all__ = [
    "accounts",
    "audit",
    "backfills",
    "channels",
    "connections",
    "endpoints",
    "events",
    "generations",
    "memories",
    "money",
    "notes",
    "openings",
    "quarantine",
    "workspaces",
]
