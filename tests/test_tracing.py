"""Traces of requests, sent to a collector on loopback."""

from typing import Any

import pytest
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpResponse
from django.test import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from werkzeug import Request, Response

from memoryhub.tracing import trace_requests


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces"),
    ],
)
def test_a_span_has_the_route_and_no_query(
    client: Client,
    db: None,
    httpserver: Any,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    path: str,
) -> None:
    bodies: list[bytes] = []

    def receive(request: Request) -> Response:
        bodies.append(request.get_data())
        return Response(status=200)

    httpserver.expect_request("/v1/traces").respond_with_handler(receive)
    address = httpserver.url_for(path).rstrip("/")
    setattr(settings, name, address)
    monkeypatch.setenv(name, address)
    processors: list[BatchSpanProcessor] = []
    start = BatchSpanProcessor.__init__

    def remember(self: BatchSpanProcessor, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        processors.append(self)

    monkeypatch.setattr(BatchSpanProcessor, "__init__", remember)
    client.get("/w/team/search/?q=salary")
    [processor] = processors
    processor.force_flush()
    processor.shutdown()
    export = ExportTraceServiceRequest.FromString(bodies[0])
    [span] = export.resource_spans[0].scope_spans[0].spans
    assert span.name == "GET /w/<slug:slug>/search/"
    assert {each.key for each in span.attributes} == {
        *("http.request.method", "http.route", "http.response.status_code")
    }
    assert b"salary" not in b"".join(bodies)


def test_without_a_collector_there_are_no_traces() -> None:
    with pytest.raises(MiddlewareNotUsed):
        trace_requests(lambda request: HttpResponse())
