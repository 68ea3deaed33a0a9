"""The settings of a workspace (rule 9) and their changes, for its admins."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from memories import tasks
from memories.forms import SETTING_WORDS, SettingsForm, focus_first_wrong, value_words
from memories.models import AuditEvent
from memories.pipeline.generate import probing
from memories.views.access.access import (
    UserRequest,
    WorkspaceContext,
    must_administer,
    must_operate,
    open_workspace,
)
from memories.views.costs.setting_costs import add_costs
from memories.views.pages import render_page

SAVES_SHOWN = 20


@dataclass(frozen=True)
class Change:
    """A setting with its old and new value."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Save:
    """Changes that were saved together. ``by`` is "" for the command line."""

    at: datetime
    by: str
    changes: list[Change]


@login_required
def edit(request: UserRequest, slug: str) -> HttpResponse:
    place = open_workspace(request, slug)
    must_administer(place)
    if request.method != "POST":
        return _page(request, place, SettingsForm(workspace=place.workspace))
    form = SettingsForm(request.POST, workspace=place.workspace)
    if not form.is_valid():
        focus_first_wrong(form)
        return _page(request, place, form, status=422)
    days = form.removes_after
    if days and request.POST.get("remove") != str(days):
        return _page(request, place, form, days=days, status=422)
    changed = form.save(by=request.user)
    toasts.success(request, _("Settings saved.") if changed else _("Nothing changed."))
    return redirect("settings-edit", slug)


@login_required
@require_POST
def probe(request: UserRequest, slug: str) -> HttpResponse:
    """Queue a probe of the model, for operators. The page shows its result."""
    open_workspace(request, slug)
    must_operate(request)
    model = probing.configured_model()
    if model is None:
        toasts.error(request, _("No model is configured."))
    else:
        tasks.schedule_probe(request.user, model.endpoint_name)
        toasts.success(
            request, _("The check is queued. A worker gives the model a few small tasks.")
        )
    return redirect("settings-edit", slug)


def _page(
    request: UserRequest,
    place: WorkspaceContext,
    form: SettingsForm,
    *,
    days: int = 0,
    status: int = 200,
) -> HttpResponse:
    """Render the page. ``days`` asks to confirm the deletion of messages that are older."""
    costs = add_costs(form, place, timezone.now())
    is_operator = place.reader.is_operator
    context = {
        "place": place,
        "form": form,
        "saves": _saves(place),
        "days": days,
        "may_probe": is_operator and probing.configured_model() is not None,
        "endpoint": probing.configured_endpoints().first() if is_operator else None,
        **costs,
    }
    return render_page(request, "settings/edit.html", context, status=status)


def _saves(place: WorkspaceContext) -> list[Save]:
    events = AuditEvent.objects.visible_to(place.reader)
    events = events.filter(workspace=place.workspace.slug, action="settings")
    return [
        Save(event.at, event.actor, [_change(key, *pair) for key, pair in sorted(changed.items())])
        for event in events[:SAVES_SHOWN]
        if (changed := event.details.get("changed"))
    ]


def _change(key: str, before: object, after: object) -> Change:
    name = str(SETTING_WORDS[key][0]) if key in SETTING_WORDS else key
    return Change(name, str(value_words(key, before)), str(value_words(key, after)))
