"""The page "Ask": texts without a model, and an answer with one."""

from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from memories.pipeline.ask import asking
from memories.pipeline.search import indexing
from tests.llm.endpoint import FakeEndpoint, use_model
from tests.views.conftest import Cast

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_the_texts_about_a_question_have_links(cast: Cast) -> None:
    indexing.index_pending()
    page = cast.clients["member"].get(cast.path("ask/?q=When+do+we+launch")).content.decode()
    assert "We launch on Monday" in page and "Answer with the model" not in page
    page = cast.clients["member"].get(cast.path("ask/?q=Who+earns+a+lot")).content.decode()
    assert "om earns" not in page and "I don't know." in page
    assert "om earns" in cast.clients["insider"].get(cast.path("ask/?q=earns")).content.decode()
    assert cast.clients["outsider"].get(cast.path("ask/?q=earns")).status_code == 404


def test_only_a_post_calls_the_model(cast: Cast, settings: Any, httpserver: HTTPServer) -> None:
    indexing.index_pending()
    endpoint = FakeEndpoint(httpserver)
    endpoint.reply_with("We launch on Monday [1].")
    use_model(settings, httpserver)
    client, path = cast.clients["member"], cast.path("ask/")
    page = client.get(f"{path}?q=When+do+we+launch").content.decode()
    assert "Answer with the model" in page and not endpoint.requests
    page = client.post(path, {"q": "When do we launch?"}).content.decode()
    assert '<span class="line-text">We launch on Monday</span>' in page and 'href="#text-1"' in page


def test_a_question_that_the_texts_cannot_answer_is_not_put_to_the_model(
    cast: Cast, settings: Any, httpserver: HTTPServer
) -> None:
    indexing.index_pending()
    endpoint = FakeEndpoint(httpserver)
    endpoint.reply_with("We launch on Monday [1].")
    use_model(settings, httpserver)
    client, path = cast.clients["member"], cast.path("ask/")
    question = {"q": "Which salary does Tom earn after the launch?"}
    for response in (client.get(path, question), client.post(path, question)):
        page = response.content.decode()
        assert "I don't know." in page and "We launch on Monday" in page
        assert "Answer with the model" not in page and 'class="line-text"' not in page
    assert not endpoint.requests


def test_a_person_asks_the_model_a_few_times_a_minute(
    cast: Cast, settings: Any, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PER_MINUTE", 1)
    indexing.index_pending()
    endpoint = FakeEndpoint(httpserver)
    endpoint.reply_with("We launch on Monday [1].")
    use_model(settings, httpserver)
    counts = []
    for name in ("member", "member", "insider"):
        response = cast.clients[name].post(cast.path("ask/"), {"q": "When do we launch?"})
        assert b"We launch on Monday" in response.content
        counts.append(len(endpoint.requests))
    assert counts == [1, 1, 2]


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("We launch on Friday [1].", "The texts that you may read do not answer this question."),
        ("", "The model did not answer, or a limit allows no call now."),
    ],
)
def test_without_a_supported_sentence_the_page_says_why(
    cast: Cast, settings: Any, httpserver: HTTPServer, reply: str, shown: str
) -> None:
    indexing.index_pending()
    FakeEndpoint(httpserver).reply_with(reply)
    use_model(settings, httpserver)
    response = cast.clients["member"].post(cast.path("ask/"), {"q": "When do we launch?"})
    page = response.content.decode()
    assert shown in page and "We launch on Monday" in page and "on Friday" not in page
