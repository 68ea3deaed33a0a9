"""The pages in the navigation, in two areas: for reading, and for managing the workspace."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.translation import gettext as _

from memories.views.access.access import WorkspaceAccess
from memoryhub.env import BASE_DIR, IS_CHECKOUT, PROGRAM

register = template.Library()


@dataclass(frozen=True)
class NavPage:
    """A page in the navigation. ``key`` is its keyboard shortcut, "" for none."""

    name: str
    path: str
    icon: str
    label: str
    key: str = ""


@register.simple_tag(takes_context=True)
def nav_pages(context: Context) -> dict[str, Any]:
    """Return the pages that the reader may open, and if the current one is for managing."""
    access: WorkspaceAccess = context["access"]
    request = context["request"]

    def page(name: str, icon: str, label: str, key: str = "") -> NavPage:
        return NavPage(name, reverse(name, args=[access.workspace.slug]), icon, label, key)

    read = [page("catch_up-index", "check", _("Catch up"), "g h")]
    read.append(page("search-index", "search", _("Search"), "/"))
    if access.workspace.memory_settings.notes_enabled:
        read.append(page("notes-index", "note", _("Notes"), "g n"))
    read.append(page("workspaces-detail", "book", str(access.workspace)))

    manage = [page("jobs-index", "jobs", _("Jobs"), "g j")]
    manage.append(page("costs-index", "cost", _("Cost")))
    if access.can_edit:
        manage.append(page("review-index", "compare", _("Proposals")))
        manage.append(page("quarantine-index", "alert", _("Quarantine")))
    if access.can_administer:
        manage.append(page("people-index", "person", _("People")))
        manage.append(page("slack-index", "hash", _("Slack")))
        manage.append(page("backfill-index", "clock", _("Backfill")))
        manage.append(page("settings-edit", "settings", _("Settings")))
    manage.append(page("api_keys-index", "key", _("API keys")))
    manage.append(page("context-index", "context", _("Context for agents"), "g c"))
    if access.reader.is_operator:
        manage.append(NavPage("setup-index", reverse("setup-index"), "down", _("First steps")))
    paths = [managed.path for managed in manage] + [page("invitations-index", "", "").path]
    is_managing = request.path.startswith(tuple(paths))
    return {"read": read, "manage": manage, "is_managing": is_managing}


@register.simple_tag
def manage_py() -> str:
    """Return `memoryhub`, or the command that runs manage.py in its folder with this Python."""
    if not IS_CHECKOUT:
        return PROGRAM
    python = Path(sys.executable)
    is_inside = python.is_relative_to(BASE_DIR)
    return f"{python.relative_to(BASE_DIR) if is_inside else 'python'} manage.py"
