"""The setup page of a new installation."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages as toasts
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from memories.demo.create import SLUG, create_demo
from memories.devices import remember_device
from memories.forms import focus_first_error
from memories.models import AuditEvent, ModelServer, Upload, Workspace
from memories.pipeline.access.first_account import create_operator, is_new_installation, setup_token
from memories.pipeline.generate.model_check import check_model
from memories.pipeline.sync.connecting import FEATURE_NAMES
from memories.rules.settings import MemorySettings
from memories.rules.sync import scopes
from memories.templatetags.reading import fault_words
from memories.views.access.access import UserRequest, must_operate
from memories.views.access.forms import ModelServerForm, NewAccountForm
from memories.views.pages import render_page, render_page_or_part, wants_part

View = Callable[..., Any]


def first(sign_in: View) -> View:
    """Decorate the sign-in view: redirect to the setup page while nobody can sign in."""

    @wraps(sign_in)
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if is_new_installation():
            return redirect("setup-index")
        return sign_in(request, *args, **kwargs)

    return view


def index(request: UserRequest) -> HttpResponse:
    """Show the setup page: to everybody while there is no account, then to operators."""
    return _first_account(request) if is_new_installation() else _operators_page(request)


def _first_account(request: UserRequest) -> HttpResponse:
    """Create the first account with the token that the server printed, so no stranger can be first."""
    token = request.POST.get("token") or request.GET.get("token", "")
    form, status = None, 200
    if constant_time_compare(token, setup_token()):
        form = NewAccountForm(request.POST if request.method == "POST" else None)
        if form.is_valid() and create_operator(form.save(commit=False)):
            login(request, form.instance, settings.AUTHENTICATION_BACKENDS[0])
            response = redirect("setup-index")
            remember_device(response, form.instance)
            return response
        status = 422 if form.is_bound else 200
        focus_first_error(form)
    context = {"is_new": True, "form": form, "token": token}
    return render_page(request, "access/setup/index.html", context, status=status)


@login_required
def _operators_page(
    request: UserRequest, model_form: ModelServerForm | None = None
) -> HttpResponse:
    must_operate(request)
    workspaces = list(Workspace.objects.all())
    context = {
        "workspaces": [workspace for workspace in workspaces if workspace.slug != SLUG],
        "has_demo": any(workspace.slug == SLUG for workspace in workspaces),
        "scopes": _scopes(),
        "uploads": Upload.objects.unfinished(),
        **_model_context(model_form),
    }
    status = 422 if model_form else 200
    return render_page(request, "access/setup/index.html", context, status=status)


def _model_context(form: ModelServerForm | None = None) -> dict[str, Any]:
    server = ModelServer.objects.in_use()
    return {"server": server, "model_form": form or ModelServerForm(server=server)}


def _scopes() -> list[tuple[str, Any, bool]]:
    """Return the scopes of the Slack app, each with its feature and whether it is required."""
    everything = scopes.required_scopes(
        MemorySettings(read_private_channels=True, read_emails=True)
    )
    return [
        (scope, FEATURE_NAMES[feature], scope in scopes.ALWAYS)
        for scope, feature in everything.items()
    ]


@login_required
@require_POST
def demo(request: UserRequest) -> HttpResponse:
    """Create the demo workspace, if there is none, and redirect to it."""
    must_operate(request)
    if create_demo(timezone.now(), password=None):
        AuditEvent.objects.record("demo", by=request.user)
    path = reverse("catch_up-index", args=[SLUG])
    return HttpResponseClientRedirect(path) if wants_part(request) else redirect(path)


@login_required
@require_POST
def model(request: UserRequest) -> HttpResponse:
    """Call the model once, and show the result. With ``do=save``, save the model."""
    must_operate(request)
    server = ModelServer.objects.in_use()
    if request.POST.get("do") == "save" and not server.is_environment:
        form = ModelServerForm(request.POST, server=server)
        if not form.is_valid():
            focus_first_error(form)
            return _operators_page(request, form)
        form.save(by=request.user)
        toasts.success(request, _("The model is saved. New memories use it."))
        return redirect(f"{reverse('setup-index')}#model")
    if not server.model:
        return redirect("setup-index")
    check = check_model(request.user, timezone.now())
    if wants_part(request):
        context = {**_model_context(), "check": check}
        return render_page_or_part(request, "", "access/setup/_model.html", context)
    if check.fault:
        toasts.error(request, _("The model is not responding: %s.") % fault_words(check.fault))
    else:
        toasts.success(request, _("%s replied.") % check.model)
    return redirect("setup-index")
