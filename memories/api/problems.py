"""Errors of the API as problem details (RFC 9457)."""

import json
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError

from memories.views.paths import full_url


class Problem(Exception):
    """An error response: a status, a sentence for people, and headers."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}


class ProblemOut(Schema):
    """Problem details. ``errors`` has the invalid inputs of a 422."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[str] = []


def respond(
    status: int,
    detail: str,
    *,
    headers: dict[str, str] | None = None,
    errors: list[str] | None = None,
) -> HttpResponse:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": errors or [],
    }
    response = HttpResponse(
        json.dumps(body), status=status, content_type="application/problem+json"
    )
    for name, value in (headers or {}).items():
        response[name] = value
    return response


def respond_unauthorized(request: HttpRequest) -> HttpResponse:
    """Respond 401. A client that supports OAuth learns where to begin (RFC 9728)."""
    detail = "No usable API key: send Authorization: Bearer with one that is not revoked."
    challenge = "Bearer"
    if settings.MEMORYHUB_OAUTH:
        name = "oauth-mcp_resource" if request.path == reverse("mcp") else "oauth-resource"
        challenge += f' resource_metadata="{full_url(reverse(name))}"'
    return respond(401, detail, headers={"WWW-Authenticate": challenge})


def add_handlers(api: NinjaAPI) -> None:
    """Return problem details for every error of the API."""

    @api.exception_handler(Problem)
    def problem(request: HttpRequest, error: Problem) -> HttpResponse:
        return respond(error.status, error.detail, headers=error.headers)

    @api.exception_handler(AuthenticationError)
    def unauthorized(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
        return respond_unauthorized(request)

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        errors = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors]
        return respond(422, "Some inputs are not valid.", errors=errors)

    @api.exception_handler(HttpError)
    def http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
        return respond(error.status_code, str(error))
