"""The fake Slack, called by slack_sdk: as strict as Slack's documentation."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from memories.rules.ingest.timestamps import micros, ts_from_micros
from tests.slack.fake_limits import INTERNAL_APP
from tests.slack.fake_slack import APP_TOKEN, TOKEN, FakeSlack, RandomFaults, VirtualClock

C, CLOSED = "C1", "C2"
ROOT = "1700000002.000100"
HISTORY, REPLIES = "conversations.history", "conversations.replies"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def fake(clock: VirtualClock) -> Iterator[FakeSlack]:
    """Five lines in a channel, three answers to the third, and a private channel."""
    with FakeSlack(clock=clock) as slack:
        for n in range(5):
            slack.add_user(f"U{n}", f"person{n}", profile={"email": f"person{n}@example.com"})
        slack.add_channel(C, "general", members=["U1", "U2", "U3"])
        slack.add_channel(CLOSED, "closed", is_private=True, members=["U1"])
        for n in range(5):
            slack.say(C, "U1", f"line {n}", f"170000000{n}.000100")
        for n in range(3):
            slack.say(C, "U2", f"answer {n}", f"170000010{n}.000100", thread=ROOT)
        slack.take_events()
        yield slack


@pytest.fixture
def client(fake: FakeSlack) -> WebClient:
    """Return a client without retries."""
    return WebClient(TOKEN, base_url=fake.url, timeout=30, retry_handlers=[])


def refusal(call: Any, *args: Any, **params: Any) -> dict[str, Any]:
    with pytest.raises(SlackApiError) as raised:
        call(*args, **params)
    data = raised.value.response.data
    assert isinstance(data, dict)
    return data


def texts(answer: Any) -> list[str]:
    return [message["text"] for message in answer["messages"]]


# Tokens and scopes


def test_auth_test_returns_the_bot_and_the_scopes(client: WebClient) -> None:
    answer = client.auth_test()
    assert (answer["team_id"], answer["bot_id"], answer["user_id"]) == ("T0FAKE", "B0BOT", "U0BOT")
    assert "channels:history" in answer.headers["X-OAuth-Scopes"].split(",")
    assert "app_id" not in answer
    assert client.bots_info(bot="B0BOT")["bot"]["app_id"] == "A0FAKE"
    assert client.auth_test(token=APP_TOKEN)["app_id"] == "A0FAKE"
    assert client.team_info()["team"]["domain"] == "faketeam"


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("xoxb-of-another", "invalid_auth"),
        ("", "not_authed"),
        (APP_TOKEN, "not_allowed_token_type"),
    ],
)
def test_an_unknown_token_is_refused(fake: FakeSlack, token: str, code: str) -> None:
    stranger = WebClient(token, base_url=fake.url, retry_handlers=[])
    with pytest.raises(SlackApiError) as raised:
        stranger.api_call("users.list", headers={} if token else {"Authorization": ""})
    assert raised.value.response["error"] == code
    assert "X-OAuth-Scopes" not in raised.value.response.headers


def test_a_socket_needs_an_app_token(fake: FakeSlack, client: WebClient) -> None:
    fake.socket_url = "ws://127.0.0.1:1/link"
    assert refusal(client.api_call, "apps.connections.open")["error"] == "not_allowed_token_type"
    assert client.apps_connections_open(app_token=APP_TOKEN)["url"] == fake.socket_url


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scope", "method", "params"),
    [
        ("users:read", "users.list", {}),
        ("team:read", "team.info", {}),
        ("channels:read", "conversations.list", {}),
        ("groups:read", "conversations.list", {"types": "public_channel,private_channel"}),
        ("im:read", "conversations.list", {"types": "im"}),
        ("channels:history", HISTORY, {"channel": C}),
        ("groups:history", HISTORY, {"channel": CLOSED}),
        ("groups:read", "conversations.members", {"channel": CLOSED}),
        ("channels:history", REPLIES, {"channel": C, "ts": ROOT}),
    ],
)
def test_each_kind_of_conversation_needs_its_scope(
    fake: FakeSlack, client: WebClient, scope: str, method: str, params: dict[str, str]
) -> None:
    fake.scopes.discard(scope)
    error = refusal(client.api_call, method, params=params)
    assert (error["error"], error["needed"]) == ("missing_scope", scope)
    assert scope not in error["provided"].split(",")


def test_the_bot_sees_no_private_channel_without_membership(
    fake: FakeSlack, client: WebClient
) -> None:
    fake.channels[CLOSED].bot_is_in = False
    fake.channels[C].bot_is_in = False
    for method in (HISTORY, "conversations.info", "conversations.members"):
        assert refusal(client.api_call, method, params={"channel": CLOSED})["error"] == (
            "channel_not_found"
        )
    listed = client.conversations_list(types="public_channel,private_channel")["channels"]
    assert [(row["id"], row["is_member"]) for row in listed] == [(C, False)]
    assert client.conversations_info(channel=C)["channel"]["name"] == "general"
    assert refusal(client.conversations_history, channel=C)["error"] == "not_in_channel"


def test_query_form_and_json_are_understood(fake: FakeSlack) -> None:
    def ask(url: str, **given: Any) -> list[str]:
        request = Request(fake.url + url, **given)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        with urlopen(request) as answer:
            return texts(json.load(answer))

    as_json = {"Content-Type": "application/json; charset=utf-8"}
    query = f"{HISTORY}?channel={C}&limit=1"
    assert ask(query) == ["line 4"]
    assert ask(HISTORY, data=f"channel={C}&limit=1".encode()) == ["line 4"]
    body = json.dumps({"channel": C, "limit": 1}).encode()
    assert ask(HISTORY, data=body, headers=as_json) == ["line 4"]


# Pages


def test_a_root_counts_its_answers(client: WebClient) -> None:
    root = client.conversations_history(channel=C)["messages"][2]
    assert (root["reply_count"], root["latest_reply"]) == (3, "1700000102.000100")
    assert (root["thread_ts"], root["reply_users"]) == (ROOT, ["U2"])


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"limit": "0"}, "invalid_limit"),
        ({"limit": "1001"}, "invalid_limit"),
        ({"cursor": "bm9uc2Vuc2U="}, "invalid_cursor"),
        ({"oldest": "soon"}, "invalid_ts_oldest"),
        ({"latest": "1.2.3"}, "invalid_ts_latest"),
    ],
)
def test_invalid_parameters_are_refused(
    client: WebClient, params: dict[str, str], code: str
) -> None:
    assert refusal(client.api_call, HISTORY, params={"channel": C, **params})["error"] == code


def test_no_page_is_longer_than_slack_gives(fake: FakeSlack, client: WebClient) -> None:
    for n in range(1000):
        fake.say(CLOSED, "U1", f"{n}", ts_from_micros(micros(ROOT) + n))
    assert len(client.conversations_history(channel=CLOSED, limit=1000)["messages"]) == 999
    assert len(client.conversations_history(channel=CLOSED)["messages"]) == 100
    assert len(client.conversations_members(channel=C, limit=2)["members"]) == 2


# Limits


def test_a_budget_refuses_with_retry_after(
    clock: VirtualClock, fake: FakeSlack, client: WebClient
) -> None:
    fake.budgets.calls = {"users.list": 2}
    client.users_list()
    clock.advance(20)
    client.users_list()
    assert refusal(client.users_list)["error"] == "ratelimited"
    assert fake.calls[-1].status == 429
    client.conversations_list()
    clock.advance(39)
    refusal(client.users_list)
    clock.advance(1)
    client.users_list()
    assert [call.at for call in fake.over_budget] == [clock() - 40, clock() - 1]
    assert fake.too_early == [fake.over_budget[1]]
    assert fake.busiest_minute("users.list") == 4


def test_the_tiers_of_an_internal_app(fake: FakeSlack, client: WebClient) -> None:
    fake.budgets.calls = dict(INTERNAL_APP)
    for _ in range(50):
        client.conversations_history(channel=C)
    assert refusal(client.conversations_history, channel=C)["error"] == "ratelimited"
    assert client.conversations_replies(channel=C, ts=ROOT)["ok"]


# Faults


def test_random_faults_depend_on_the_seed() -> None:
    def statuses(seed: int) -> list[int | None]:
        random_faults = RandomFaults(seed, {"502": 0.2, "dropped": 0.2, "429": 0.1})
        return [fault and fault.status for fault in (random_faults(HISTORY) for _ in range(200))]

    assert statuses(1) == statuses(1) != statuses(2)
    assert 60 <= sum(status is not None for status in statuses(1)) <= 140
