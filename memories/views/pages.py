"""Render complete pages or the parts for htmx, and the middleware of pages."""

import re
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseServerError,
    QueryDict,
)
from django.http.response import HttpResponseBase
from django.middleware.csrf import get_token
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.template.loader import get_template
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from memories.models import AccessGrant
from memories.rules.memory.lines import hash_text
from memories.views.access.access import UserRequest, WorkspaceAccess

# Fields of forms that hold long texts. The page of all proposals has one for each of them.
TYPED = re.compile("title|content|text|text-of-.+|yours|reason|source")
STOP_POLLING = 286  # the status that stops polling in htmx


def vary_on_htmx(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    """Middleware: let caches distinguish pages from parts, also for redirects and errors."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        patch_vary_headers(response, ["HX-Request"])
        return response

    return middleware


def no_store(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    """Middleware: prevent browsers and proxies from storing pages of signed-in people.

    The session cookie decides, so this needs no query. The response that deletes the cookie also clears
    the browser's cache.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            patch_cache_control(response, no_store=True, private=True)
            session = response.cookies.get(settings.SESSION_COOKIE_NAME)
            if session is not None and session["max-age"] == 0:
                response["Clear-Site-Data"] = '"cache"'
        return response

    return middleware


def keep_typed_text(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    """Middleware: show the text of a form that was sent after the session ended.

    The redirect to the sign-in page alone would lose it where no script keeps it. A browser that
    showed the form has the cookie of its token.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        address = response.get("Location", "")
        if request.method != "POST" or not address.startswith(f"{reverse('login')}?"):
            return response
        texts = _typed_texts(request.POST)
        is_page = settings.CSRF_COOKIE_NAME in request.COOKIES and not request.headers.get(
            "HX-Request"
        )
        if not (texts and is_page):
            return response
        context = {"texts": texts, "sign_in": address}
        return render(request, "signed_out.html", context, status=403)

    return middleware


def _typed_texts(form: QueryDict) -> list[str]:
    """Return the long texts of a form without those that it showed itself (``shown``)."""
    names = filter(TYPED.fullmatch, form)
    texts = {name: form.get(name, "").strip() for name in names}
    shown = {name: form.get(name.replace("text", "shown", 1), "") for name in texts}
    return [text for name, text in texts.items() if text and hash_text(text) != shown[name]]


class CompressPages(GZipMiddleware):
    """Middleware: compress pages, except pages that may repeat text of a URL or a form.

    The length of such a page could reveal private text beside it (BREACH).
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> Any:
        is_api = request.path.startswith("/api/")  # compression would weaken its ETags
        if is_api or request.method != "GET" or request.META.get("QUERY_STRING"):
            return response
        return super().process_response(request, response)


def wants_part(request: UserRequest) -> bool:
    """Return whether htmx requests a part. For its history it requests the whole page."""
    return bool(request.htmx) and not request.htmx.history_restore_request


def next_of(request: HttpRequest) -> str:
    """Return the path in the ``next`` field of a form. Empty: it is not a path of this site."""
    target = request.POST.get("next", "")
    is_own_path = url_has_allowed_host_and_scheme(
        target, {request.get_host()}, require_https=request.is_secure()
    )
    return target if is_own_path and target.startswith("/") else ""


def back_to(request: HttpRequest, path: str) -> str:
    """Return ``path`` with the search and the page of the list (``_from_page.html``)."""
    query = {name: value for name in ("q", "page") if (value := request.POST.get(name, ""))}
    return f"{path}?{urlencode(query)}" if query else path


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Respond 400."""
    context = {"request": request, "csrf_token": get_token(request)}
    return HttpResponseBadRequest(get_template("400.html").render(context))


def server_error(request: HttpRequest) -> HttpResponse:
    """Respond 500 in the language and theme of the reader, without a query."""
    context = {"request": request, "csrf_token": get_token(request)}
    return HttpResponseServerError(get_template("500.html").render(context))


def is_live(request: HttpRequest) -> bool:
    """Return whether a page refreshes itself. ``?live=off`` stops that."""
    return request.GET.get("live") != "off"


def render_page_or_part(
    request: UserRequest,
    page: str,
    part: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    """Render the page, or the part that htmx requests from the same URL.

    Times are shown in the time zone of the reader or of ``context["access"]``.
    """
    as_part = bool(part) and wants_part(request)
    access: WorkspaceAccess | None = context.get("access")
    zone = access.zone if access else request.user.zone if request.user.is_authenticated else None
    banner_context = {} if as_part or access is None else banners(access)
    with timezone.override(zone):
        return render(
            request,
            part if as_part else page,
            {"is_part": as_part, **banner_context, **context},
            status=status,
        )


def banners(access: WorkspaceAccess) -> dict[str, Any]:
    """Return the context of the banners above every page."""
    grants: list[AccessGrant] = []
    if access.reader.is_operator:
        grants = list(AccessGrant.objects.active_for(access.reader).of_workspace(access.workspace))
    return {"blocker": access.blocker, "stopped": access.stopped, "grants": grants}


def render_part(
    request: UserRequest, part: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render a template that is the answer with and without htmx."""
    return render_page_or_part(request, part, part, context, status=status)


def render_page(
    request: UserRequest, page: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    return render_page_or_part(request, page, "", context, status=status)
