"""The first run: what to do on an installation that nobody signed in to, or that remembers nothing."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from memories.models import Person, User, Workspace
from memories.views.access import UserRequest
from memories.views.pages import render_page

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
    """Nobody can sign in: accounts that a bundle brought along are switched off, and nobody whom
    Slack lists may come with it."""
    if User.objects.filter(is_active=True).exists():
        return False
    with_slack = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    return not (with_slack and Person.objects.who_may_sign_in().exists())


def index(request: UserRequest) -> HttpResponse:
    """Open to everybody while there is no account, then to operators. It makes nothing: accounts
    are made on the server's own command line, which no stranger reaches first."""
    return _begin(request) if is_new() else _for_operators(request)


@login_required
def _for_operators(request: UserRequest) -> HttpResponse:
    if not request.user.is_operator:
        raise PermissionDenied
    return _begin(request)


def _begin(request: UserRequest) -> HttpResponse:
    is_in = request.user.is_authenticated
    workspaces = list(Workspace.objects.all()) if is_in else []
    context = {"is_new": not is_in, "workspaces": workspaces}
    return render_page(request, "setup/index.html", context)
