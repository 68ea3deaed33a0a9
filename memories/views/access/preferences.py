"""How a person likes to read: language, time zone, theme. Kept with their account, and in cookies
for who is not signed in."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.views import i18n
from django.views.decorators.http import require_POST

from memories.forms import PreferencesForm
from memories.models import User
from memories.views.access.access import UserRequest, only_place
from memories.views.pages import next_of, render_page

THEMES = ("light", "dark")
A_YEAR = 365 * 24 * 3600

Answer = Callable[[HttpRequest], HttpResponse]


def applied(get_response: Answer) -> Answer:
    """Middleware: every page in the language, zone and theme of its reader."""

    def answer(request: HttpRequest) -> HttpResponse:
        # Without a session nobody is signed in, and no page is tied to a cookie for asking.
        has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
        user = request.user if has_session else None
        theme = request.COOKIES.get("theme", "")
        if not isinstance(user, User):
            request.theme = theme  # type: ignore[attr-defined]
            return get_response(request)
        request.theme = user.theme or theme  # type: ignore[attr-defined]
        if user.language in dict(settings.LANGUAGES):
            translation.activate(user.language)
            request.LANGUAGE_CODE = translation.get_language() or ""
        with timezone.override(user.zone):
            return get_response(request)

    return answer


@login_required
def edit(request: UserRequest) -> HttpResponse:
    place = only_place(request)
    context: dict[str, Any] = {"place": place, "unproven": request.user.people.unproven().exists()}
    if request.method != "POST":
        context["form"] = PreferencesForm(user=request.user, theme=request.COOKIES.get("theme", ""))
        return render_page(request, "access/preferences/edit.html", context)
    form = PreferencesForm(request.POST, user=request.user)
    if not form.is_valid():
        context["form"] = form
        return render_page(request, "access/preferences/edit.html", context, status=422)
    form.save()
    # What is said from here on, this answer's own words too, is in the language just chosen.
    with translation.override(request.user.language or translation.get_language()):
        toasts.success(request, _("Settings saved."))
    response = redirect("preferences-edit")
    _keep_theme(response, request.user.theme)
    _keep_language(response, request.user.language)
    return response


@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Anything but light or dark follows the system again."""
    response = redirect(next_of(request) or "/")
    theme = request.POST.get("theme", "")
    _keep_theme(response, theme)
    if isinstance(request.user, User):
        request.user.prefer(theme=theme if theme in THEMES else User.Theme.SYSTEM)
    return response


def set_language(request: HttpRequest) -> HttpResponse:
    """Django's own, which keeps a cookie; and with the account of who has one."""
    language = request.POST.get("language", "")
    if isinstance(request.user, User) and language in dict(settings.LANGUAGES):
        request.user.prefer(language=language)
    return i18n.set_language(request)


def _keep_theme(response: HttpResponse, theme: str) -> None:
    if theme in THEMES:
        # app.js writes it too.
        response.set_cookie(
            "theme",
            theme,
            max_age=A_YEAR,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    else:
        response.delete_cookie("theme")


def _keep_language(response: HttpResponse, language: str) -> None:
    name = settings.LANGUAGE_COOKIE_NAME
    if language:
        response.set_cookie(name, language, secure=settings.SESSION_COOKIE_SECURE)
    else:
        response.delete_cookie(name)
