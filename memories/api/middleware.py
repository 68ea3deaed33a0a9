"""Headers of all responses of the API: validators, caching, and the rate limit."""

from collections.abc import Callable
from hashlib import sha256
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.http import parse_etags, quote_etag

from memories.api.problems import respond


def api_headers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[..., HttpResponse]:
    """Add ETag, Cache-Control, Vary and rate-limit headers; return 304 if unchanged."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path.startswith("/api/"):
            return response
        if response.status_code >= 400 and "problem+json" not in response["Content-Type"]:
            phrase = HTTPStatus(response.status_code).phrase
            response = respond(response.status_code, f"The request was refused: {phrase}.")
        patch_cache_control(response, private=True, no_cache=True)
        patch_vary_headers(response, ["Authorization"])
        if hasattr(request, "rate_limit"):
            limit, remaining = request.rate_limit
            response["RateLimit-Limit"], response["RateLimit-Remaining"] = (
                str(limit),
                str(remaining),
            )
        if request.method == "GET" and response.status_code == 200:
            response.setdefault("ETag", quote_etag(sha256(response.content).hexdigest()[:32]))
            if response["ETag"] in parse_etags(request.headers.get("If-None-Match", "")):
                unchanged = HttpResponse(status=304)
                for name in ("ETag", "Cache-Control", "Vary"):
                    unchanged[name] = response[name]
                return unchanged
        return response

    return middleware
