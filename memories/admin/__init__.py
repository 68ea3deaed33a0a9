"""The Django admin, by subject."""

from django.contrib import admin
from django_q import admin as task_admin

from memories.admin.lookups import check_registered_admins
from memories.admin.verbose_names import set_verbose_names

set_verbose_names()  # before the admin builds forms from the fields
admin.site.enable_nav_sidebar = False

from memories.admin import (  # noqa: E402
    access_grants,
    accounts,
    api_keys,
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
    proposals,
    quarantine,
    tasks,
    workspaces,
)

assert task_admin  # registers django-q2's tables first
check_registered_admins()

__all__ = [
    "access_grants",
    "accounts",
    "api_keys",
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
    "proposals",
    "quarantine",
    "tasks",
    "workspaces",
]
