"""The rows as an operator sees them, by subject."""

from django.contrib import admin
from django_q import admin as task_admin

from memories.admin.lookups import check_all
from memories.admin.words import name_fields

name_fields()  # before forms are made of them
admin.site.enable_nav_sidebar = False  # lists need the room

from memories.admin import (  # noqa: E402
    access_grants,
    accounts,
    audit,
    backfills,
    channels,
    connections,
    endpoints,
    events,
    jobs,
    memories,
    money,
    notes,
    quarantine,
    tasks,
    workspaces,
)

assert task_admin  # registered before
check_all()

__all__ = [
    "accounts",
    "audit",
    "backfills",
    "channels",
    "connections",
    "endpoints",
    "events",
    "jobs",
    "memories",
    "money",
    "notes",
    "access_grants",
    "quarantine",
    "tasks",
    "workspaces",
]
