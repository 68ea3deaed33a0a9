import pytest
from pytest_httpserver import HTTPServer

from tests.llm.endpoint import FakeEndpoint


@pytest.fixture
def endpoint(httpserver: HTTPServer) -> FakeEndpoint:
    return FakeEndpoint(httpserver)
