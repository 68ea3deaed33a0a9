"""Metrics for Prometheus: `/metrics`, and the middleware that measures requests.

`serve` sets PROMETHEUS_MULTIPROC_DIR for its web processes. They share their counts in that folder, so
each of them can respond for all.
"""

import time
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from memories.pipeline.metrics import DatabaseCollector

KINDS = ("static", "api", "mcp", "admin", "slack")  # first parts of paths
PAGE = "page"  # every other kind
PROBES = ("livez", "readyz", "metrics")

REQUESTS = Histogram(
    "memoryhub_http_request_duration_seconds",
    "Time to respond to a request, by kind of address and class of status.",
    ["kind", "status"],
    buckets=(0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
    registry=None,
)


def measure_requests(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[..., HttpResponse]:
    """Middleware: measure each request except probes. Not used without MEMORYHUB_METRICS_KEY.

    Series of errors begin at 0. Prometheus sees no increase in the first sample of a series.
    """
    if not settings.MEMORYHUB_METRICS_KEY:
        raise MiddlewareNotUsed
    for kind in (*KINDS, PAGE):
        REQUESTS.labels(kind, "5xx")

    def middleware(request: HttpRequest) -> HttpResponse:
        first = request.path.split("/")[1]
        began = time.perf_counter()
        response = get_response(request)
        if first not in PROBES:
            status = f"{response.status_code // 100}xx"
            seconds = time.perf_counter() - began
            kind = first if first in KINDS else PAGE
            REQUESTS.labels(kind, status).observe(seconds)
        return response

    return middleware


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Respond with all metrics in the text format. 404: there is no key. 401: it is another one."""
    key = settings.MEMORYHUB_METRICS_KEY
    if not key:
        raise Http404
    if not constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {key}"):
        return HttpResponse(
            "The key of the metrics is missing or wrong.\n",
            status=401,
            content_type="text/plain",
            headers={"WWW-Authenticate": "Bearer"},
        )
    registry = CollectorRegistry()
    try:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    except ValueError:  # not run by `serve`: this process is the only one
        registry.register(REQUESTS)
    registry.register(DatabaseCollector())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
