"""Parts that htmx swaps in are announced in the status region of every page."""

import re

import pytest
from django.http import HttpResponse

from memories.models import QuarantinedLine
from tests.factories import MessageFactory
from tests.views.conftest import Cast

HTMX = {"HX-Request": "true"}


def status_text(response: HttpResponse) -> str:
    """The text that lands in the toast, which existed before."""
    matches = re.findall(
        r'<div id="toast" hx-swap-oob="innerHTML">(.*?)</div>', response.content.decode(), re.S
    )
    assert len(matches) == 1
    return " ".join(re.sub(r"<[^>]+>", " ", matches[0]).split())


def test_the_editor_opens(cast: Cast) -> None:
    client = cast.clients["editor"]
    path = f"/m/{cast.memory.pk}/edit/"
    assert status_text(client.get(path, headers=HTMX)) == "The editor is open."
    assert b"hx-swap-oob" not in client.get(path).content


@pytest.mark.parametrize(
    ("text", "based_on", "status", "words"),
    [
        ("- Another text", 1, 409, "Your text was kept"),
        ("", 2, 422, "A memory needs at least one line."),
    ],
)
def test_an_edit_that_is_not_saved(
    cast: Cast, text: str, based_on: int, status: int, words: str
) -> None:
    path = f"/m/{cast.memory.pk}/edit/"
    given = {"text": text, "based_on": based_on, "revision": 0}
    response = cast.clients["editor"].post(path, given, headers=HTMX)
    assert response.status_code == status
    assert status_text(response)
    if status == 409:
        assert status_text(response) == words


def test_more_messages(cast: Cast) -> None:
    last = MessageFactory(channel=cast.public, author=cast.author)
    path = cast.path(f"c/C0PUBLIC/messages/?before={last.ts}")
    response = cast.clients["member"].get(path, headers=HTMX)
    assert re.fullmatch(r"\d+ more messages? (is|are) shown\.", status_text(response))


def test_the_quarantine(cast: Cast) -> None:
    line = QuarantinedLine.objects.create(memory=cast.memory, text="- odd", rule="link")
    path = cast.path(f"quarantine/{line.pk}/reject/")
    response = cast.clients["editor"].post(path, headers=HTMX)
    assert status_text(response) == "Rejected. The line stays out of the memory."


def test_invalid_queries_are_announced(cast: Cast) -> None:
    client = cast.clients["member"]
    for path in ("catch-up/?since=day&day=nonsense", "context/?channel=nowhere"):
        response = client.get(cast.path(path), headers=HTMX)
        assert response.status_code == 422
        assert status_text(response)
