"""Headers of the API: validators and caching, and the rate limit of MCP too."""

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control, patch_vary_headers

from memories.api.etags import etag_of, has_etag, not_modified
from memories.api.problems import respond


def api_headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    """Add ETag, Cache-Control and Vary to the API, and rate-limit headers; return 304 if unchanged."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.path.startswith("/api/"):
            response = _with_validators(request, response)
        if hasattr(request, "rate_limit"):
            limit, remaining = request.rate_limit
            response["RateLimit-Limit"] = str(limit)
            response["RateLimit-Remaining"] = str(remaining)
        return response

    return middleware


def _with_validators(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if response.status_code >= 400 and "problem+json" not in response["Content-Type"]:
        phrase, allowed = HTTPStatus(response.status_code).phrase, response.get("Allow")
        response = respond(response.status_code, f"The request was refused: {phrase}.")
        if allowed:
            response["Allow"] = allowed
    if request.method == "GET" and response.status_code == 200:
        state = getattr(request, "context_state", "")
        response.setdefault("ETag", etag_of(response.content, state))
        if has_etag(request, response["ETag"]):
            response = not_modified(response["ETag"])
    patch_cache_control(response, private=True, no_cache=True)
    patch_vary_headers(response, ["Authorization"])
    return response
