import pytest
from pytest_httpserver import HTTPServer

from tests.llm.endpoint import Endpoint


@pytest.fixture
def endpoint(httpserver: HTTPServer) -> Endpoint:
    return Endpoint(httpserver)
