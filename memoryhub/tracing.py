"""Traces of requests with OpenTelemetry, whose packages are optional."""

import logging
from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

logger = logging.getLogger(__name__)


def trace_requests(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[..., HttpResponse]:
    """Middleware: send a span for each request to the collector in the settings.

    A span holds the method, the route and the status. A path or a query may hold a search.
    """
    if not (settings.OTEL_EXPORTER_OTLP_ENDPOINT or settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT):
        raise MiddlewareNotUsed
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        logger.warning("no traces are sent: install OpenTelemetry (docs/operate.md, Traces)")
        raise MiddlewareNotUsed from error

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("memoryhub")

    def middleware(request: HttpRequest) -> HttpResponse:
        with tracer.start_as_current_span(request.method or "") as span:
            response = get_response(request)
            route = request.resolver_match.route if request.resolver_match else ""
            span.update_name(f"{request.method} /{route}")
            span.set_attribute("http.request.method", request.method or "")
            span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", response.status_code)
        return response

    return middleware
