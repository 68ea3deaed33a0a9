"""The first run: what to do on an installation that nobody signed in to, or that remembers nothing."""

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
from memories.rules.sync import scopes
from memories.templatetags.reading import fault_words
from memories.views.access.access import UserRequest, must_operate
from memories.views.pages import render_page, render_page_or_part, wants_part

View = Callable[..., Any]


def first(sign_in: View) -> View:
    """All pages lead to the login; where nobody could sign in, that leads to the setup."""

    @wraps(sign_in)
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if is_new():
            return redirect("setup-index")
        return sign_in(request, *args, **kwargs)

    return view


def is_new() -> bool:
    """Nobody can sign in: accounts that an import created are inactive, and nobody whom
    Slack lists may come with it."""
    if User.objects.filter(is_active=True).exists():
        return False
    with_slack = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    return not (with_slack and Person.objects.who_may_sign_in().exists())


def index(request: UserRequest) -> HttpResponse:
    """Open to everybody while there is no account, then to operators. A stranger makes nothing:
    accounts are made on the server's own command line, which nobody else reaches first."""
    return _begin(request) if is_new() else _for_operators(request)


@login_required
def _for_operators(request: UserRequest) -> HttpResponse:
    must_operate(request)
    return _begin(request)


def _begin(request: UserRequest) -> HttpResponse:
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
    """What the app in Slack has to be allowed, why, and whether it can do without."""
    everything = scopes.required_scopes(private_channels=True, emails=True)
    return [
        (scope, FEATURE_NAMES[feature], scope in scopes.ALWAYS)
        for scope, feature in everything.items()
    ]


@login_required
@require_POST
def demo(request: UserRequest) -> HttpResponse:
    """Make the demo, unless it is there, and lead into it. As a part, so that the button can show
    that it is at work and is not pressed twice."""
    must_operate(request)
    if create_demo(timezone.now(), password=None):
        AuditEvent.objects.record("demo", by=request.user)
    path = reverse("catch_up-index", args=[SLUG])
    return HttpResponseClientRedirect(path) if wants_part(request) else redirect(path)


@login_required
@require_POST
def model(request: UserRequest) -> HttpResponse:
    """Ask the model that is named one small question, and say what answered."""
    must_operate(request)
    if not settings.MEMORYHUB_MODEL:
        return redirect("setup-index")
    trial = try_model(request.user, timezone.now())
    if wants_part(request):
        context = {"model": settings.MEMORYHUB_MODEL, "trial": trial}
        return render_page_or_part(request, "", "access/setup/_model.html", context)
    if trial.fault:
        toasts.error(request, _("The model does not answer: %s.") % fault_words(trial.fault))
    else:
        toasts.success(request, _("%s answered.") % trial.model)
    return redirect("setup-index")
