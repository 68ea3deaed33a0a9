"""The setup page of a new installation."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from memories.demo.create import SLUG, create_demo
from memories.models import AuditEvent, Person, Upload, User, Workspace
from memories.pipeline.generate.trial import try_model
from memories.pipeline.sync.connecting import FEATURE_NAMES
from memories.rules.settings import MemorySettings
from memories.rules.sync import scopes
from memories.templatetags.reading import fault_words
from memories.views.access.access import UserRequest, must_operate
from memories.views.pages import render_page, render_page_or_part, wants_part

View = Callable[..., Any]


def first(sign_in: View) -> View:
    """Decorate the sign-in view: redirect to the setup page while nobody can sign in."""

    @wraps(sign_in)
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if is_new():
            return redirect("setup-index")
        return sign_in(request, *args, **kwargs)

    return view


def is_new() -> bool:
    """Return whether nobody can sign in, by password or with Slack.

    Accounts that an import created are inactive.
    """
    if User.objects.filter(is_active=True).exists():
        return False
    with_slack = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    return not (with_slack and Person.objects.who_may_sign_in().exists())


def index(request: UserRequest) -> HttpResponse:
    """Show the setup page: to everybody while there is no account, then to operators.

    The page creates no account. That takes a command on the server, so no stranger can be first.
    """
    return _setup_page(request) if is_new() else _operators_page(request)


@login_required
def _operators_page(request: UserRequest) -> HttpResponse:
    must_operate(request)
    return _setup_page(request)


def _setup_page(request: UserRequest) -> HttpResponse:
    if not request.user.is_authenticated:
        return render_page(request, "access/setup/index.html", {"is_new": True})
    workspaces = list(Workspace.objects.all())
    context = {
        "workspaces": [workspace for workspace in workspaces if workspace.slug != SLUG],
        "has_demo": any(workspace.slug == SLUG for workspace in workspaces),
        "scopes": _scopes(),
        "uploads": Upload.objects.unfinished(),
        "model": settings.MEMORYHUB_MODEL,
    }
    return render_page(request, "access/setup/index.html", context)


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
    """Call the configured model once, and show the result."""
    must_operate(request)
    if not settings.MEMORYHUB_MODEL:
        return redirect("setup-index")
    trial = try_model(request.user, timezone.now())
    if wants_part(request):
        context = {"model": settings.MEMORYHUB_MODEL, "trial": trial}
        return render_page_or_part(request, "", "access/setup/_model.html", context)
    if trial.fault:
        toasts.error(request, _("The model is not responding: %s.") % fault_words(trial.fault))
    else:
        toasts.success(request, _("%s replied.") % trial.model)
    return redirect("setup-index")
