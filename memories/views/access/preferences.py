"""Preferences: language, time zone, theme and density.

They are columns of the account. Without an account, language and theme are cookies.
"""

from collections.abc import Callable
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.views import i18n
from django.views.decorators.http import require_POST

from memories.models import Digest, User
from memories.views.access.access import UserRequest, find_only_workspace
from memories.views.access.preferences_form import DigestForm, PreferencesForm
from memories.views.pages import next_of, render_page

THEMES = ("light", "dark")
YEAR_SECONDS = 365 * 24 * 3600

GetResponse = Callable[[HttpRequest], HttpResponse]


def applied(get_response: GetResponse) -> GetResponse:
    """Middleware: activate the language, time zone and theme of the user."""

    def middleware(request: HttpRequest) -> HttpResponse:
        # Access to request.user would make each response vary by cookie.
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

    return middleware


@login_required
def edit(request: UserRequest) -> HttpResponse:
    access = find_only_workspace(request)
    digest = Digest.objects.filter(user=request.user).first()
    context: dict[str, Any] = {
        "access": access,
        "unproven": request.user.people.unproven().exists(),
        "digest_form": DigestForm(initial={"frequency": digest.frequency if digest else ""}),
        "has_feed": digest is not None and digest.feed_digest is not None,
        "has_mail": bool(settings.EMAIL_HOST),
        "linked": list(
            SocialAccount.objects.filter(user=request.user).values_list("provider", flat=True)
        ),
    }
    if request.method != "POST":
        context["form"] = PreferencesForm(user=request.user, theme=request.COOKIES.get("theme", ""))
        return render_page(request, "access/preferences/edit.html", context)
    form = PreferencesForm(request.POST, user=request.user)
    if not form.is_valid():
        context["form"] = form
        return render_page(request, "access/preferences/edit.html", context, status=422)
    form.save()
    # The message is in the chosen language.
    with translation.override(request.user.language or translation.get_language()):
        toasts.success(request, _("Settings saved."))
    response = redirect("preferences-edit")
    _set_theme_cookie(response, request.user.theme)
    _set_language_cookie(response, request.user.language)
    return response


@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Save the theme. Any value except light and dark means the system's theme."""
    response = redirect(next_of(request) or "/")
    theme = request.POST.get("theme", "")
    _set_theme_cookie(response, theme)
    if isinstance(request.user, User):
        request.user.save_preferences(theme=theme if theme in THEMES else User.Theme.SYSTEM)
    return response


def set_language(request: HttpRequest) -> HttpResponse:
    """Save the language in the account, and in the cookie of Django's view."""
    language = request.POST.get("language", "")
    if isinstance(request.user, User) and language in dict(settings.LANGUAGES):
        request.user.save_preferences(language=language)
    return i18n.set_language(request)


def _set_theme_cookie(response: HttpResponse, theme: str) -> None:
    if theme in THEMES:
        # app.js sets this cookie too.
        response.set_cookie(
            "theme",
            theme,
            max_age=YEAR_SECONDS,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    else:
        response.delete_cookie("theme")


def _set_language_cookie(response: HttpResponse, language: str) -> None:
    name = settings.LANGUAGE_COOKIE_NAME
    if language:
        response.set_cookie(name, language, secure=settings.SESSION_COOKIE_SECURE)
    else:
        response.delete_cookie(name)
