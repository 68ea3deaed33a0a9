"""The Django admin, by subject."""

# ruff: noqa: E402, F401 - the modules register their models when they are imported

from django.contrib import admin
from django_q import admin as task_admin

from memories.admin.lookups import add_checked_lookups
from memories.admin.verbose_names import set_verbose_names

set_verbose_names()  # before the admin builds forms from the fields
admin.site.enable_nav_sidebar = False

from memories.admin import (
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

add_checked_lookups()
