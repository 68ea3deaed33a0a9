"""Answers with a model: cited, checked, and paid from the budget."""

import pytest
from pytest_httpserver import HTTPServer

from memories.models import Cap, ModelCall, Reader, Workspace
from memories.pipeline.ask.asking import ask
from memories.pipeline.search import indexing
from tests.factories import MONDAY, ChannelFactory, MessageFactory, WorkspaceFactory
from tests.llm.endpoint import FakeEndpoint

pytestmark = pytest.mark.django_db

QUESTION = "When does Kazoe launch?"


@pytest.fixture
def workspace() -> Workspace:
    created: Workspace = WorkspaceFactory()
    channel = ChannelFactory(workspace=created)
    MessageFactory(channel=channel, at=MONDAY, text="Decided: Kazoe launches on 26 November.")
    indexing.catch_up()
    return created


@pytest.fixture
def endpoint(httpserver: HTTPServer) -> FakeEndpoint:
    return FakeEndpoint(httpserver)


def test_an_answer_cites_readable_passages(workspace: Workspace, endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("Kazoe launches on 26 November [1]. It costs 900 euros [1].")
    answer = ask(QUESTION, workspace, Reader.public(MONDAY), MONDAY, endpoint.summariser())
    assert [sentence.text for sentence in answer.sentences or ()] == [
        "Kazoe launches on 26 November"
    ]
    call = ModelCall.objects.get()
    assert (call.job, call.workspace, call.prompt_tokens) == (None, workspace, 100)


def test_the_model_is_not_called_without_readable_passages(
    workspace: Workspace, endpoint: FakeEndpoint
) -> None:
    answer = ask(QUESTION, workspace, Reader(now=MONDAY), MONDAY, endpoint.summariser())
    assert (answer.passages, answer.sentences) == ([], None)
    assert not endpoint.requests


def test_an_unsupported_answer_is_empty(workspace: Workspace, endpoint: FakeEndpoint) -> None:
    endpoint.reply_with("UNKNOWN")
    answer = ask(QUESTION, workspace, Reader.public(MONDAY), MONDAY, endpoint.summariser())
    assert answer.sentences == [] and answer.passages


def test_without_a_budget_or_an_endpoint_the_texts_remain(
    workspace: Workspace, endpoint: FakeEndpoint
) -> None:
    endpoint.fail_with(500)
    reader = Reader.public(MONDAY)
    assert ask(QUESTION, workspace, reader, MONDAY, endpoint.summariser()).sentences is None
    Cap.objects.create(workspace=workspace, period="day", tokens=1)
    answer = ask(QUESTION, workspace, reader, MONDAY, endpoint.summariser())
    assert answer.sentences is None and answer.passages
    assert ModelCall.objects.count() == 1
