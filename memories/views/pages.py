"""How a page is answered: whole, or the part that htmx asked for."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseServerError,
)
from django.http.response import HttpResponseBase
from django.middleware.csrf import get_token
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.template.loader import get_template
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from memories.models import AccessGrant
from memories.views.access.access import UserRequest, WorkspaceContext

POLLING_ENDS = 286  # htmx asks no more


def varied(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    """Middleware: no cache gives a part for a page, nor the other way round. Redirects, errors and
    the pages of others may be either as well."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        patch_vary_headers(response, ["HX-Request"])
        return response

    return answer


def unstored(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    """Middleware: no browser or proxy keeps a page of somebody who is signed in.

    Back after signing out then asks the server. The session cookie decides, so nothing is queried.
    The answer that takes the cookie away also has the browser drop what it kept before.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            patch_cache_control(response, no_store=True, private=True)
            session = response.cookies.get(settings.SESSION_COOKIE_NAME)
            if session is not None and session["max-age"] == 0:
                response["Clear-Site-Data"] = '"cache"'
        return response

    return answer


class Compressed(GZipMiddleware):
    """Middleware: pages are sent compressed, but for those that may repeat what was in an address or
    a form. Beside what is not for everybody the length of such a page would tell of it (BREACH)."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> Any:
        if request.method != "GET" or request.META.get("QUERY_STRING"):
            return response
        return super().process_response(request, response)


def wants_part(request: UserRequest) -> bool:
    """htmx asks for a part; when it rebuilds a page from its history it wants the page."""
    return bool(request.htmx) and not request.htmx.history_restore_request


def next_of(request: HttpRequest) -> str:
    """The page that a form came from, as its ``next`` says; "" for anything but a path of ours."""
    target = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(
        target, {request.get_host()}, require_https=request.is_secure()
    )
    return target if is_ours and target.startswith("/") else ""


def back_to(request: HttpRequest, path: str) -> str:
    """``path`` with the search and the page of its list that a form was sent from
    (``_from_page.html``)."""
    query = {name: value for name in ("q", "page") if (value := request.POST.get(name, ""))}
    return f"{path}?{urlencode(query)}" if query else path


def refused(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400: the request holds something impossible."""
    context = {"request": request, "csrf_token": get_token(request)}
    return HttpResponseBadRequest(get_template("400.html").render(context))


def broken(request: HttpRequest) -> HttpResponse:
    """500: in the reader's language and theme, and without a question to what may be broken."""
    context = {"request": request, "csrf_token": get_token(request)}
    return HttpResponseServerError(get_template("500.html").render(context))


def is_live(request: HttpRequest) -> bool:
    """Whether a page that tells of something under way asks again by itself; ``?live=off`` is how
    its reader stops that."""
    return request.GET.get("live") != "off"


def render_page_or_part(
    request: UserRequest,
    page: str,
    part: str,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    """The same address answers both. Times are told in the zone that the reader chose, else in that
    of ``context["place"]``."""
    as_part = bool(part) and wants_part(request)
    place: WorkspaceContext | None = context.get("place")
    zone = place.zone if place else request.user.zone if request.user.is_authenticated else None
    shown_banners = {} if as_part or place is None else banners(place)
    with timezone.override(zone):
        return render(
            request,
            part if as_part else page,
            {"is_part": as_part, **shown_banners, **context},
            status=status,
        )


def banners(place: WorkspaceContext) -> dict[str, Any]:
    """What stands above a page, whatever it is about."""
    return {"trouble": place.trouble, "stopped": place.stopped, "opened": opened_by(place)}


def opened_by(place: WorkspaceContext) -> list[AccessGrant]:
    """The private channels that an operator has open, for the banner."""
    if not place.reader.is_operator:
        return []
    return list(AccessGrant.objects.active_for(place.reader).of_workspace(place.workspace))


def render_page(
    request: UserRequest, page: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    return render_page_or_part(request, page, "", context, status=status)
