"""A typed day or time is in the zone in which the reader sees times."""

from datetime import UTC, datetime

import pytest

from memories.models import Message
from memories.pipeline.search import indexing
from tests.factories import MessageFactory
from tests.views.conftest import Cast

EVENING = datetime(2026, 1, 20, 20, 0, tzinfo=UTC)  # the morning of the 21st in Tokyo


@pytest.fixture(params=["", "Asia/Tokyo"])
def in_tokyo(request: pytest.FixtureRequest, cast: Cast) -> bool:
    """The member uses the zone of the workspace (UTC), or Tokyo."""
    cast.users["member"].save_preferences(time_zone=request.param)
    word = "a word at dusk"
    message = MessageFactory(channel=cast.public, author=cast.author, at=EVENING, text=word)
    Message.objects.filter(pk=message.pk).update(stored_at=EVENING)
    return bool(request.param)


def page(cast: Cast, path: str) -> str:
    response = cast.clients["member"].get(cast.path(path), follow=True)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.nightly("quicker tests run the same lines")
def test_the_days_of_a_search(cast: Cast, in_tokyo: bool) -> None:  # noqa: FBT001
    indexing.index_pending()
    later = page(cast, "search/?q=dusk&from=2026-01-21")
    typed = page(cast, "search/?q=dusk+after:2026-01-20")
    assert ("1 result in" in later, "1 result in" in typed) == (in_tokyo, in_tokyo)
    before = page(cast, "search/?q=dusk&to=2026-01-20")
    assert ("1 result in" in before) is not in_tokyo


def test_the_day_of_catch_up(cast: Cast, in_tokyo: bool) -> None:  # noqa: FBT001
    zone = "+09:00" if in_tokyo else "+00:00"
    assert f'datetime="2026-01-21T00:00:00{zone}"' in page(cast, "catch-up/?since=2026-01-21")


@pytest.mark.slow
def test_the_time_of_a_context_is_in_the_readers_zone(cast: Cast, in_tokyo: bool) -> None:  # noqa: FBT001
    """The message is from 20:00 in UTC, which is 05:00 of the next day in Tokyo."""
    before = page(cast, "context/?channel=launch&at=2026-01-20T19:00")
    assert "a word at dusk" not in before
    after = page(cast, "context/?channel=launch&at=2026-01-21T06:00")
    assert "a word at dusk" in after
    between = page(cast, "context/?channel=launch&at=2026-01-20T21:00")
    assert ("a word at dusk" in between) is not in_tokyo
