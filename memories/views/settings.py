"""The settings of a workspace (rule 9) and their changes, for its admins."""

import re
from typing import Any

from django import forms
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from memories import tasks
from memories.forms import SETTING_WORDS, SettingsForm, focus_first_error, value_words
from memories.models import AuditEvent, Budget, User, Workspace
from memories.pipeline.generate import probing
from memories.rules.ingest.permalinks import normalize_domain
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_administer,
    must_operate,
    open_workspace,
)
from memories.views.costs.setting_costs import add_costs
from memories.views.pages import render_page

SAVES_SHOWN = 20
MAX_TOKENS = 10**15


class WorkspaceForm(forms.Form):
    """The name of the workspace, and its address in Slack."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    domain = forms.CharField(
        label=gettext_lazy("Slack domain"),
        required=False,
        max_length=100,
        help_text=gettext_lazy(
            "The part before .slack.com. Messages then have a link that opens them in Slack."
        ),
    )

    def __init__(self, data: QueryDict | None, *, access: WorkspaceAccess) -> None:
        self.workspace = access.workspace
        initial = {"name": str(self.workspace), "domain": self.workspace.domain}
        super().__init__(data, initial=initial, prefix="workspace")

    def clean_domain(self) -> str:
        domain = normalize_domain(self.cleaned_data["domain"])
        if not re.fullmatch("[a-z0-9-]*", domain):
            raise forms.ValidationError(_("Enter the part before .slack.com, such as acme."))
        return domain

    def save(self, *, by: User) -> bool:
        return self.workspace.save_details(**self.cleaned_data, by=by)


class BudgetForm(forms.Form):
    """The limits of the workspace for a month. An empty field is no limit."""

    money = forms.DecimalField(
        label=gettext_lazy("Dollars a month"),
        required=False,
        min_value=0,
        max_digits=12,
        decimal_places=2,
    )
    tokens = forms.IntegerField(
        label=gettext_lazy("Tokens a month"), required=False, min_value=0, max_value=MAX_TOKENS
    )

    def __init__(self, data: QueryDict | None, *, access: WorkspaceAccess) -> None:
        self.workspace = access.workspace
        budget = self.workspace.budgets.filter(period=Budget.Period.MONTH).first()
        initial = {"money": budget.money, "tokens": budget.tokens} if budget else {}
        super().__init__(data, initial=initial, prefix="budget")

    def save(self, *, by: User) -> bool:
        if self.has_changed():
            Budget.objects.change(self.workspace, Budget.Period.MONTH, by=by, **self.cleaned_data)
        return self.has_changed()


# The limits of a budget by period.
LIMIT_WORDS: dict[str, dict[str, Any]] = {
    Budget.Period.DAY: {
        "money": gettext_lazy("Dollars a day"),
        "tokens": gettext_lazy("Tokens a day"),
    },
    Budget.Period.MONTH: {
        "money": gettext_lazy("Dollars a month"),
        "tokens": gettext_lazy("Tokens a month"),
    },
}
OTHER_FORMS: dict[str, type[WorkspaceForm | BudgetForm]] = {
    "workspace": WorkspaceForm,
    "budget": BudgetForm,
}


@login_required
def edit(request: UserRequest, slug: str) -> HttpResponse:
    """Show the settings. POST ``do`` names the form: workspace, budget, or "" for the settings."""
    access = open_workspace(request, slug)
    must_administer(access)
    form_class = OTHER_FORMS.get(request.POST.get("do", ""))
    if form_class is not None:
        return _save_other(request, access, form_class(request.POST, access=access))
    if request.method != "POST":
        return _page(request, access, SettingsForm(workspace=access.workspace))
    form = SettingsForm(request.POST, workspace=access.workspace)
    if not form.is_valid():
        focus_first_error(form)
        return _page(request, access, form, status=422)
    days = form.shorter_retention_days
    if days and request.POST.get("remove") != str(days):
        return _page(request, access, form, days=days, status=422)
    return _saved(request, access, changed=bool(form.save(by=request.user)))


def _save_other(
    request: UserRequest, access: WorkspaceAccess, form: WorkspaceForm | BudgetForm
) -> HttpResponse:
    if form.is_valid():
        return _saved(request, access, changed=form.save(by=request.user))
    focus_first_error(form)
    settings_form = SettingsForm(workspace=access.workspace)
    return _page(request, access, settings_form, wrong_form=form, status=422)


def _saved(request: UserRequest, access: WorkspaceAccess, *, changed: bool) -> HttpResponse:
    toasts.success(request, _("Settings saved.") if changed else _("Nothing changed."))
    return redirect("settings-edit", access.workspace.slug)


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
    access: WorkspaceAccess,
    form: SettingsForm,
    *,
    wrong_form: WorkspaceForm | BudgetForm | None = None,
    days: int = 0,
    status: int = 200,
) -> HttpResponse:
    """Render the page. ``days`` asks to confirm the deletion of messages that are older.

    ``wrong_form`` is a form of `OTHER_FORMS` with errors.
    """
    costs = add_costs(form, access, timezone.now())
    is_operator = access.reader.is_operator
    context = {
        "access": access,
        "form": form,
        **{
            f"{name}_form": wrong_form
            if isinstance(wrong_form, kind)
            else kind(None, access=access)
            for name, kind in OTHER_FORMS.items()
        },
        "saves": _saves(access),
        "days": days,
        "may_probe": is_operator and probing.configured_model() is not None,
        "endpoint": probing.configured_endpoints().first() if is_operator else None,
        **costs,
    }
    return render_page(request, "settings/edit.html", context, status=status)


def _saves(access: WorkspaceAccess) -> list[tuple[AuditEvent, list[tuple[str, str, str]]]]:
    """Return the last saves, each with its changes: the name, the old and the new value."""
    events = AuditEvent.objects.visible_to(access.reader).filter(
        workspace=access.workspace.slug, action__in=("settings", "workspace", "cap")
    )
    saves = ((event, _changes(event)) for event in events[:SAVES_SHOWN])
    return [(event, changes) for event, changes in saves if changes]


def _changes(event: AuditEvent) -> list[tuple[str, str, str]]:
    if event.action == "cap":
        before, after = event.details["before"], event.details["after"]
        return [
            (str(words), _limit_words(name, before[name]), _limit_words(name, after[name]))
            for name, words in LIMIT_WORDS[event.subject].items()
            if before[name] != after[name]
        ]
    changed = sorted(event.details.get("changed", {}).items())
    if event.action == "workspace":
        return [
            (_field_name(key), before or _("(nothing)"), after or _("(nothing)"))
            for key, (before, after) in changed
        ]
    return [
        (_setting_name(key), str(value_words(key, before)), str(value_words(key, after)))
        for key, (before, after) in changed
    ]


def _field_name(name: str) -> str:
    return capfirst(str(getattr(Workspace._meta.get_field(name), "verbose_name", name)))


def _setting_name(key: str) -> str:
    return str(SETTING_WORDS[key][0]) if key in SETTING_WORDS else key


def _limit_words(name: str, limit: str | int | None) -> str:
    if limit is None:
        return _("no limit")
    return f"${limit}" if name == "money" else f"{limit:,}"
