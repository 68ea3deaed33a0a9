"""How a page is answered: whole, or the part that htmx asked for."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

from memories.models import Member, Opening, SlackConnection
from memories.pipeline.operate import trouble_of
from memories.rules.waits import Trouble
from memories.views.access import Place, UserRequest


def wants_part(request: UserRequest) -> bool:
    """htmx asks for a part; when it rebuilds a page from its history it wants the page."""
    return bool(request.htmx) and not request.htmx.history_restore_request


def next_of(request: HttpRequest) -> str:
    """The page that a form came from, as its ``next`` says; "" for an address that is not ours."""
    target = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(
        target, {request.get_host()}, require_https=request.is_secure()
    )
    return target if is_ours else ""


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
    place: Place | None = context.get("place")
    zone = place.zone if place else request.user.zone if request.user.is_authenticated else None
    told = None if as_part or place is None else trouble_for(place)
    stopped = None if as_part or place is None else stopped_for(place)
    opened = [] if as_part or place is None else opened_by(place)
    with timezone.override(zone):
        response = render(
            request,
            part if as_part else page,
            {
                "is_part": as_part,
                "trouble": told,
                "stopped": stopped,
                "opened": opened,
                **context,
            },
            status=status,
        )
    patch_vary_headers(response, ["HX-Request"])
    return response


def trouble_for(place: Place) -> Trouble | None:
    """What keeps memories from being made, for the banner: members are told, guests are not."""
    return trouble_of(place.workspace, timezone.now()) if place.role in Member.READING else None


def stopped_for(place: Place) -> SlackConnection | None:
    """The connection to Slack that ended, for the banner: members are told, guests are not."""
    if place.role not in Member.READING:
        return None
    return SlackConnection.objects.stopped().filter(workspace=place.workspace).first()


def opened_by(place: Place) -> list[Opening]:
    """The private channels that an operator has open, for the banner."""
    if not place.reader.is_operator:
        return []
    return list(place.reader.openings().of_workspace(place.workspace))


def render_page(
    request: UserRequest, page: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    return render_page_or_part(request, page, "", context, status=status)
