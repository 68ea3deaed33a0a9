"""The client of the Web API, over HTTP, with faults."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from memories.slack.web import SlackClient, SlackError
from tests.slack.fake_slack import TOKEN, FakeSlack, Fault

C = "C1"
ROOT = "1700000002.000100"


@pytest.fixture
def fake() -> Iterator[FakeSlack]:
    with FakeSlack() as slack:
        slack.add_channel(C, "general", members=["U1", "U2", "U3"])
        for n in range(5):
            slack.add_user(f"U{n}", f"person{n}")
            slack.say(C, "U1", f"line {n}", f"170000000{n}.000100")
        for n in range(3):
            slack.say(C, "U2", f"answer {n}", f"170000010{n}.000100", thread="1700000002.000100")
        yield slack


@pytest.fixture
def client(fake: FakeSlack) -> SlackClient:
    return SlackClient(TOKEN, fake.url, timeout=30, pause=0.001)


def texts(pages: Iterator[Any]) -> list[list[str]]:
    return [[message["text"] for message in page] for page in pages]


def history(client: SlackClient, oldest: str = "0", latest: str = "") -> list[list[str]]:
    return texts(page.messages for page in client.history(C, oldest, latest))


def replies(client: SlackClient, oldest: str = "") -> list[list[str]]:
    return texts(page.messages for page in client.replies(C, ROOT, oldest))


def test_identity_comes_from_one_call(fake: FakeSlack, client: SlackClient) -> None:
    identity = client.identity()
    assert (identity.team_id, identity.team_name, identity.domain) == (
        "T0FAKE",
        "Fake Team",
        "faketeam",
    )
    assert fake.counts() == {"auth.test": 1}


def test_pages_are_followed_to_the_end(fake: FakeSlack, client: SlackClient) -> None:
    fake.page_size = 2
    assert history(client) == [["line 4", "line 3"], ["line 2", "line 1"], ["line 0"]]
    assert [len(page) for page in client.people()] == [2, 2, 1]
    assert [len(page) for page in client.members(C)] == [2, 1]
    assert replies(client) == [["line 2", "answer 0", "answer 1"], ["line 2", "answer 2"]]
    assert client.calls == {
        "conversations.history": 3,
        "users.list": 3,
        "conversations.members": 2,
        "conversations.replies": 2,
    }


def test_bounds_are_exclusive(client: SlackClient) -> None:
    assert history(client, "1700000002.000100") == [["line 4", "line 3"]]
    assert history(client, "1700000001.000100", "1700000003.000100") == [["line 2"]]
    assert replies(client, "1700000100.000100") == [["line 2", "answer 1", "answer 2"]]


def test_the_last_page_is_marked(fake: FakeSlack, client: SlackClient) -> None:
    fake.page_size = 2
    assert [page.is_last for page in client.history(C, "0")] == [False, False, True]
    assert [page.is_last for page in client.replies(C, ROOT)] == [False, True]


def test_has_more_without_a_cursor_is_not_the_last_page(
    fake: FakeSlack, client: SlackClient
) -> None:
    fake.inject_fault(
        "conversations.history", Fault(200, '{"ok": true, "messages": [], "has_more": true}')
    )
    assert [page.is_last for page in client.history(C, "0")] == [False]


def test_channels_are_public_or_have_the_bot(fake: FakeSlack, client: SlackClient) -> None:
    fake.add_channel("C2", "elsewhere", bot_is_in=False)
    fake.add_channel("C3", "closed", is_private=True)
    fake.add_channel("C4", "unseen", is_private=True, bot_is_in=False)
    memberships = {
        channel["id"]: channel["is_member"] for page in client.channels() for channel in page
    }
    assert memberships == {"C1": True, "C2": False, "C3": True}
    public = {channel["id"] for page in client.channels(private=False) for channel in page}
    assert public == {"C1", "C2"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(500), id="500"),
        pytest.param(Fault(502), id="502 with a page instead of JSON"),
        pytest.param(Fault(504), id="504"),
        pytest.param(Fault(200, "<html>"), id="200 that is no JSON"),
        pytest.param(Fault(200, '{"ok": true, "messages": ['), id="200 cut off"),
        pytest.param(Fault(200, ""), id="200 and nothing"),
        pytest.param(Fault.dropped(), id="connection dropped"),
    ],
)
@pytest.mark.parametrize("page", [1, 2])
def test_a_short_fault_is_retried(
    fake: FakeSlack, client: SlackClient, fault: Fault, page: int
) -> None:
    fake.page_size = 3
    fake.inject_fault("conversations.history", fault, on=page, times=2)
    assert history(client) == [["line 4", "line 3", "line 2"], ["line 1", "line 0"]]
    assert fake.count("conversations.history") == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        pytest.param(Fault(503), "unreachable", id="503"),
        pytest.param(Fault(502), "unreachable", id="502"),
        pytest.param(Fault(200, "<html>"), "malformed", id="200 that is no JSON"),
        pytest.param(Fault(200, '{"ok": tru'), "unreachable", id="200 cut off"),
        pytest.param(Fault.dropped(), "unreachable", id="connection dropped"),
    ],
)
def test_a_lasting_fault_is_one_error(
    fake: FakeSlack, client: SlackClient, fault: Fault, code: str
) -> None:
    fake.page_size = 3
    fake.inject_fault("conversations.history", fault, on=2, times=9)
    with pytest.raises(SlackError) as raised:
        history(client)
    assert (raised.value.code, raised.value.permanent) == (code, False)
    assert "conversations.history" in raised.value.message
    assert fake.count("conversations.history") == 5  # page 1, then page 2 and three retries


@pytest.mark.parametrize(
    ("answer", "code", "permanent", "says"),
    [
        pytest.param({"ok": True}, "malformed", False, "no list of messages", id="no messages"),
        pytest.param({"messages": []}, "malformed", False, "history", id="not even ok"),
        pytest.param(
            {"ok": False, "error": "internal_error"},
            "internal_error",
            False,
            "internal_error",
            id="passing",
        ),
        pytest.param(
            {"ok": False, "error": "not_in_channel"}, "not_in_channel", True, "Invite", id="invite"
        ),
        pytest.param(
            {"ok": False, "error": "brand_new_code"},
            "brand_new_code",
            True,
            "brand_new_code",
            id="unknown",
        ),
    ],
)
def test_errors_of_slack(
    fake: FakeSlack,
    client: SlackClient,
    answer: dict[str, Any],
    code: str,
    permanent: bool,
    says: str,
) -> None:
    fake.inject_fault("conversations.history", Fault(200, json.dumps(answer)))
    with pytest.raises(SlackError, match=says) as raised:
        history(client)
    assert (raised.value.code, raised.value.permanent) == (code, permanent)
    assert not raised.value.refuses_token
    assert fake.count("conversations.history") == 1


@pytest.mark.parametrize("code", ["invalid_auth", "token_revoked", "account_inactive"])
def test_a_refused_token_is_recognised(fake: FakeSlack, client: SlackClient, code: str) -> None:
    fake.token_error = code
    with pytest.raises(SlackError) as raised:
        client.identity()
    assert raised.value.refuses_token
    assert raised.value.permanent
    assert TOKEN not in raised.value.message


def test_a_missing_scope_is_named(fake: FakeSlack, client: SlackClient) -> None:
    fake.scopes.remove("users:read")
    with pytest.raises(SlackError, match=r"Add the scope users:read .*channels:history") as raised:
        list(client.people())
    assert raised.value.code == "missing_scope"


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(SlackError, match="SLACK_BOT_TOKEN"):
        SlackClient("")


@pytest.mark.slow
def test_a_rate_limit_raises_and_delays_the_next_call(fake: FakeSlack, client: SlackClient) -> None:
    """The next call waits when the limit ends within seconds."""
    fake.inject_fault("conversations.history", Fault.rate_limited(1))
    with pytest.raises(SlackError) as raised:
        history(client)
    assert (raised.value.code, raised.value.retry_after) == ("ratelimited", 1)
    assert history(client) == [["line 4", "line 3", "line 2", "line 1", "line 0"]]
    first, second = fake.calls
    assert (first.status, second.status) == (429, 200)
    assert second.at - first.at >= 1
    assert fake.too_early == []


def test_a_long_rate_limit_stops_only_its_method(fake: FakeSlack, client: SlackClient) -> None:
    fake.inject_fault("conversations.history", Fault.rate_limited(31))
    for _ in range(2):
        with pytest.raises(SlackError, match=r"pause of 3[01] s") as raised:
            history(client)
        assert raised.value.code == "ratelimited"
        assert not raised.value.permanent
        assert raised.value.retry_after == pytest.approx(31, abs=1)
    assert len(replies(client)) == 1
    assert fake.counts() == {"conversations.history": 1, "conversations.replies": 1}
    assert fake.too_early == []


@pytest.mark.parametrize("header", [{}, {"Retry-After": "soon"}], ids=["none", "not a number"])
def test_a_rate_limit_without_retry_after(
    fake: FakeSlack, client: SlackClient, header: dict[str, str]
) -> None:
    fake.inject_fault("conversations.history", Fault(429, "{}", header))
    with pytest.raises(SlackError) as raised:
        history(client)
    assert raised.value.retry_after == pytest.approx(60, abs=1)
    assert fake.count("conversations.history") == 1


def test_a_repeated_cursor_is_an_error(fake: FakeSlack, client: SlackClient) -> None:
    page = '{"ok": true, "messages": [], "response_metadata": {"next_cursor": "again"}}'
    fake.inject_fault("conversations.history", Fault(200, page), times=9)
    with pytest.raises(SlackError, match="again and again"):
        history(client)
    assert fake.count("conversations.history") == 2


def test_a_new_message_does_not_move_the_pages(fake: FakeSlack, client: SlackClient) -> None:
    fake.page_size = 2
    pages = client.history(C, "0")
    assert [message["text"] for message in next(pages).messages] == ["line 4", "line 3"]
    fake.say(C, "U1", "meanwhile", "1700000009.000100")
    assert texts(page.messages for page in pages) == [["line 2", "line 1"], ["line 0"]]


# The limiter


class Calls:
    """A limiter with a number of free calls, then one after ``wait`` seconds."""

    def __init__(self, calls: int, wait: float = 60.0) -> None:
        self.left = calls
        self.wait = wait
        self.limits: list[tuple[str, float]] = []
        self.taken_calls: list[tuple[str, bool]] = []

    def take(self, method: str, *, slow: bool = False) -> float:
        self.taken_calls.append((method, slow))
        if self.left == 0:
            return self.wait
        self.left -= 1
        return 0.0

    def limited(self, method: str, seconds: float) -> None:
        self.limits.append((method, seconds))


def test_each_page_uses_a_call_of_the_limiter(fake: FakeSlack) -> None:
    fake.page_size = 2
    limiter = Calls(2)
    client = SlackClient(TOKEN, fake.url, limiter=limiter)
    with pytest.raises(SlackError) as raised:
        history(client)
    assert (raised.value.code, raised.value.retry_after) == ("ratelimited", 60)
    assert fake.count("conversations.history") == 2
    assert limiter.taken_calls == [("conversations.history", False)] * 3


@pytest.mark.parametrize(
    "fault", [Fault.dropped(), Fault(502), Fault(200, "")], ids=["dropped", "502", "nothing"]
)
def test_each_retry_uses_a_call_of_the_limiter(fake: FakeSlack, fault: Fault) -> None:
    client = SlackClient(TOKEN, fake.url, limiter=Calls(2), pause=0.001)
    fake.inject_fault("conversations.history", fault, times=3)
    with pytest.raises(SlackError) as raised:
        history(client)
    assert raised.value.code == "ratelimited"
    assert fake.count("conversations.history") == 2


def test_the_client_waits_a_few_seconds_for_a_call(fake: FakeSlack) -> None:
    limiter = Calls(0, wait=1.5)
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        limiter.left = 1

    client = SlackClient(TOKEN, fake.url, limiter=limiter, sleep=sleep)
    assert len(history(client)) == 1
    assert slept == [1.5]


def test_the_limiter_records_a_rate_limit(fake: FakeSlack) -> None:
    limiter = Calls(9)
    client = SlackClient(TOKEN, fake.url, limiter=limiter)
    fake.inject_fault("conversations.history", Fault.rate_limited(31))
    with pytest.raises(SlackError):
        history(client)
    assert limiter.limits == [("conversations.history", 31.0)]


# The slow plan


@pytest.mark.parametrize(
    ("page_size", "first_limit", "is_slow"),
    [
        pytest.param(2, 2, True, id="a short page of more, then a refusal"),
        pytest.param(1000, 2, False, id="all in one page"),
        pytest.param(2, 1, False, id="refused before any page"),
    ],
)
def test_the_slow_plan_is_detected(
    fake: FakeSlack, page_size: int, first_limit: int, is_slow: bool
) -> None:
    fake.page_size = page_size
    limiter = Calls(9)
    client = SlackClient(TOKEN, fake.url, limiter=limiter)
    fake.inject_fault("conversations.history", Fault.rate_limited(60), on=first_limit)
    try:
        history(client)
        history(client)
    except SlackError as error:
        assert error.code == "ratelimited"
    assert client.slow_plan is is_slow


def test_pages_are_small_on_the_slow_plan(fake: FakeSlack) -> None:
    limiter = Calls(9)
    client = SlackClient(TOKEN, fake.url, limiter=limiter, slow_plan=True)
    history(client)
    replies(client)
    list(client.people())
    assert [call.params["limit"] for call in fake.calls] == ["15", "15", "999"]
    assert all(slow for _, slow in limiter.taken_calls)
