"""The ETag of a context: a 304 without a build while the data is the same, and never a stale one."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from time_machine import TimeMachineFixture

from memories.api import routes
from memories.models import (
    ApiKey,
    EarlierWording,
    Line,
    MemoryVersion,
    Message,
    Note,
    NoteVersion,
)
from memories.models.context.revision_triggers import TABLES
from memories.pipeline.search import indexing
from tests.api.context_changes import CHANGES, DAY, LAUNCH, NO_CHANGES, QUESTION, WHOLE, Scene
from tests.factories import (
    MessageFactory,
    NoteFactory,
    make_reply,
    make_thread_memory,
    make_workspace_memory,
)
from tests.views.conftest import Cast

pytestmark = pytest.mark.postgres("triggers count the changes")

PLANS = (
    "Berlin gets an office in March",
    "The old printer goes to Kyoto",
    "Lunch moves to noon",
    "Invoices wait for 3 signatures",
    "Support answers within 4 hours",
    "A new logo costs 900 dollars",
)


@pytest.fixture
def minute(time_machine: TimeMachineFixture) -> datetime:
    """The middle of a minute at which the clock stands."""
    now = timezone.now().replace(second=30, microsecond=0)
    time_machine.move_to(now, tick=False)
    return now


@pytest.fixture
def team(cast: Cast) -> Cast:
    """The team with a row of each kind that a context can show."""
    workspace, channel = cast.workspace, cast.public
    NoteFactory(workspace=workspace, content="Ship on Fridays", author=cast.users["editor"])
    root = MessageFactory(channel=channel, author=cast.author, text="launch <@U0000001>")
    make_reply(root=root, author=cast.author)
    make_thread_memory(channel=channel, thread_ts=root.ts)
    make_workspace_memory(workspace=workspace, texts=["\n".join(f"- {x}" for x in PLANS)])
    line = Line.objects.filter(version=cast.memory.current, text__contains="Aya")
    line.update(author=cast.users["editor"])
    Message.objects.update(stored_at=timezone.now() - 2 * DAY)
    indexing.index_pending()
    return cast


def after(etag: str) -> dict[str, str]:
    return {"If-None-Match": etag}


@pytest.mark.slow
def test_the_triggers_watch_the_tables_of_a_context(team: Cast, token: Any, ask: Any) -> None:
    """A table that a context begins to read has to be added to `revision_triggers.TABLES`."""
    now = timezone.now()
    at = f"{now - DAY:%Y-%m-%dT%H:%M:%SZ}"
    EarlierWording.objects.keep(team.memory.current)
    note = Note.objects.get()
    note.rewrite("Ship on Mondays", by=None)
    EarlierWording.objects.keep(team.memory.current)
    thread = Message.objects.exclude(thread_ts="").values_list("thread_ts", flat=True)[0]
    keys = [
        token("insider"),
        token("operator"),
        token(""),
        token("member", channels=[team.public]),
    ]
    paths = [
        "context?",
        QUESTION,
        f"{QUESTION}&at={at}",
        f"context?at={at}",
        f"context?channel=launch&thread={thread}",
        f"context?channel=launch&thread={thread}&at={at}",
    ]
    with CaptureQueriesContext(connection) as captured:
        for key in keys:
            for path in paths:
                assert ask(key, path).status_code == 200
    words = set(re.findall(r"\w+", " ".join(query["sql"] for query in captured)))
    read = words.intersection(connection.introspection.table_names())
    # Of the key and of the search index, a request reads the row itself.
    at_sign_in = {"memories_apikey", "memories_revision"}
    assert read - at_sign_in - {"memories_searchwords"} == set(TABLES)


def test_an_unchanged_context_takes_one_query_and_no_build(
    team: Cast,
    token: Any,
    ask: Any,
    minute: datetime,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Any,
) -> None:
    key = token("member")
    full = {path: ask(key, path) for path in (WHOLE, QUESTION, f"{QUESTION}&format=json")}
    monkeypatch.setattr(routes, "context_for", None)
    for path, first in full.items():
        with django_assert_num_queries(1):
            again = ask(key, path, headers=after(f'"x", {first["ETag"]}'))
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
        for name in ("Cache-Control", "RateLimit-Limit"):
            assert again[name] == first[name]
        assert "private" in again["Cache-Control"] and "Authorization" in again["Vary"]


def test_after_a_minute_the_text_decides(
    team: Cast, token: Any, ask: Any, minute: datetime, time_machine: TimeMachineFixture
) -> None:
    key = token("member")
    first = ask(key, LAUNCH)
    time_machine.move_to(minute + timedelta(minutes=1), tick=False)
    second = ask(key, LAUNCH, headers=after(first["ETag"]))
    assert second.status_code == 304
    assert second["ETag"] != first["ETag"]
    assert second["ETag"].split(".")[0] == first["ETag"].split(".")[0]


def test_a_weak_etag_of_a_proxy_matches(team: Cast, token: Any, ask: Any, minute: datetime) -> None:
    key = token("member")
    first = ask(key, LAUNCH)
    assert ask(key, LAUNCH, headers=after(f"W/{first['ETag']}")).status_code == 304


@pytest.mark.parametrize("given", ["*", '"{}', '"x"', ""])
def test_other_etags_do_not_match(
    team: Cast, token: Any, ask: Any, minute: datetime, given: str
) -> None:
    key = token("member")
    first = ask(key, LAUNCH)
    again = ask(key, LAUNCH, headers=after(given.format(first["ETag"].strip('"'))))
    assert (again.status_code, again.content) == (200, first.content)


@pytest.mark.slow
def test_an_etag_is_of_one_reader_and_one_request(
    team: Cast, token: Any, ask: Any, minute: datetime
) -> None:
    """The second part alone, with another first part, matches for the same request only."""
    etags = {}
    for name in ("member", "insider"):
        key = token(name)
        for path in (LAUNCH, "context?", "context?budget=100", "context?format=json"):
            state = ask(key, path)["ETag"].partition(".")[2]
            for forged in etags.values():
                assert ask(key, path, headers=after(f'"x.{forged}')).status_code == 200
            etags[name, path] = state
    assert len(set(etags.values())) == len(etags)


@pytest.fixture
def scene(team: Cast, token: Any, minute: datetime) -> Callable[[str], tuple[Scene, str]]:
    def make(name: str) -> tuple[Scene, str]:
        given = token("insider", channels=[team.public]) if name == "narrowed" else token(name)
        return Scene(team, ApiKey.objects.get(), minute), given

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_ends_the_304(name: str, scene: Any, ask: Any) -> None:
    user, path, change = CHANGES[name]
    state, key = scene(user)
    if "{at}" in path:
        EarlierWording.objects.keep(state.team.memory.current)
        EarlierWording.objects.update(content="- Before", lines=[])
        state.note.rewrite("Ship on Mondays", by=None)
        NoteVersion.objects.update(written_at=state.now - DAY)
        MemoryVersion.objects.update(created_at=state.now - DAY)
    an_hour_ago = f"{state.now - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    path = path.format(at=an_hour_ago, thread=state.thread)
    first = ask(key, path)
    assert first.status_code == 200
    assert ask(key, path, headers=after(first["ETag"])).status_code == 304
    change(state)
    second, whole = ask(key, path, headers=after(first["ETag"])), ask(key, path)
    assert whole.content != first.content, "the change changes nothing"
    assert (second.status_code, second.content) == (whole.status_code, whole.content)


@pytest.mark.parametrize("name", NO_CHANGES)
def test_the_304_outlasts_what_no_context_shows(
    name: str, scene: Any, ask: Any, django_assert_num_queries: Any
) -> None:
    state, key = scene("insider")
    first = ask(key, LAUNCH)
    NO_CHANGES[name](state)
    with django_assert_num_queries(1):
        assert ask(key, LAUNCH, headers=after(first["ETag"])).status_code == 304
    assert ask(key, LAUNCH).content == first.content


@pytest.mark.parametrize("write", [Scene.store, lambda x: x.say(text="edited")])
def test_a_change_during_the_build_ends_the_304(
    write: Callable[[Scene], object], scene: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the build sees the change or not, the next request builds again."""
    state, key = scene("member")
    build, done = routes.context_for, []

    def build_then_write(*given: Any, **options: Any) -> Any:
        built = build(*given, **options)
        write(state)
        done.append(True)
        return built

    with monkeypatch.context() as patched:
        patched.setattr(routes, "context_for", build_then_write)
        first = ask(key, LAUNCH)
    assert done
    second = ask(key, LAUNCH, headers=after(first["ETag"]))
    assert second.status_code == 200
    assert second.content == ask(key, LAUNCH).content
