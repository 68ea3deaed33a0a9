"""Events of the fake Slack, and how they are posted."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from slack_sdk.signature import SignatureVerifier

from tests.slack.fake_events import SIGNING_SECRET, WAITS, send_event, signed_event
from tests.slack.fake_slack import FakeSlack, VirtualClock

C, ROOT = "C1", "1700000002.000100"


@pytest.fixture
def fake() -> Iterator[FakeSlack]:
    with FakeSlack(clock=VirtualClock()) as slack:
        slack.add_user("U1", "ann")
        slack.add_channel(C, "general", members=["U1"])
        yield slack


def events(fake: FakeSlack) -> list[dict[str, Any]]:
    return [body["event"] for body in fake.take_events()]


def test_a_message_its_edit_and_its_deletion(fake: FakeSlack) -> None:
    fake.say(C, "U1", "hello", ROOT)
    fake.edit(C, ROOT, "hello all", "1700000003.000100")
    fake.delete(C, ROOT, "1700000004.000100")
    created, changed, deleted = events(fake)
    assert (created["type"], created["text"], created["channel"], created["channel_type"]) == (
        *("message", "hello", C, "channel"),
    )
    assert (changed["subtype"], changed["message"]["text"]) == ("message_changed", "hello all")
    assert changed["message"]["edited"]["ts"] == "1700000003.000100"
    assert changed["previous_message"]["text"] == "hello"
    assert (deleted["subtype"], deleted["deleted_ts"], deleted["ts"]) == (
        *("message_deleted", ROOT, "1700000004.000100"),
    )


def test_a_root_with_replies_becomes_a_tombstone(fake: FakeSlack) -> None:
    fake.say(C, "U1", "who knows?", ROOT)
    fake.say(C, "U1", "I do", "1700000005.000100", thread=ROOT)
    fake.delete(C, ROOT)
    _, reply, changed = events(fake)
    assert (reply["thread_ts"], reply["parent_user_id"]) == (ROOT, "U1")
    assert (changed["subtype"], changed["message"]["subtype"]) == ("message_changed", "tombstone")
    assert changed["previous_message"]["text"] == "who knows?"


def test_events_of_channels_and_people(fake: FakeSlack) -> None:
    fake.add_user("U2", "ben")
    fake.join(C, "U2")
    fake.rename(C, "town-square")
    fake.make_private(C)
    fake.archive(C)
    fake.leave(C, "U2")
    fake.change_user("U2", deleted=True)
    fake.remove_bot(C)
    fake.uninstall()
    assert [event.get("subtype") or event["type"] for event in events(fake)] == [
        *("team_join", "member_joined_channel", "channel_rename", "channel_convert_to_private"),
        *("group_archive", "member_left_channel", "user_change", "group_left"),
        *("tokens_revoked", "app_uninstalled"),
    ]


def test_channels_without_the_bot_have_no_events(fake: FakeSlack) -> None:
    fake.add_channel("C2", "elsewhere", bot_is_in=False)
    fake.add_channel("C3", "unseen", bot_is_in=False, is_private=True)
    for channel in ("C2", "C3"):
        fake.say(channel, "U1", "hello", ROOT)
        fake.join(channel, "U1")
    fake.rename("C3", "still-unseen")
    assert events(fake) == []


def test_each_body_has_a_unique_id(fake: FakeSlack) -> None:
    for n in range(5):
        fake.say(C, "U1", f"line {n}", f"170000000{n}.000100")
    bodies = fake.take_events()
    assert len({body["event_id"] for body in bodies}) == 5
    assert {(body["type"], body["team_id"]) for body in bodies} == {("event_callback", "T0FAKE")}
    assert fake.take_events() == []


def test_slack_sdk_accepts_the_signature() -> None:
    raw, headers = signed_event({"text": "ですね"}, at=1_700_000_000)
    verifier = SignatureVerifier(SIGNING_SECRET, clock=_At(1_700_000_000))
    assert verifier.is_valid_request(raw, headers)
    assert not verifier.is_valid_request(raw + b" ", headers)
    assert not SignatureVerifier("another", clock=_At(1_700_000_000)).is_valid_request(raw, headers)


class _At:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return self.seconds


class Listener:
    """A server that returns these statuses in turn, and records the posts."""

    def __init__(self, answers: list[tuple[int, dict[str, str]]]) -> None:
        self.posts: list[tuple[dict[str, str], Any]] = []
        self._answers = answers
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/slack/events/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                listener.posts.append((dict(self.headers), json.loads(raw)))
                status, headers = listener._answers[len(listener.posts) - 1]
                if not status:
                    return  # closes the connection
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def test_a_refused_event_is_retried_with_retry_headers() -> None:
    waited: list[float] = []
    with Listener([(500, {}), (0, {}), (302, {}), (500, {})]) as listener:
        delivery = send_event(listener.url, {"event_id": "Ev1"}, wait=waited.append)
    assert delivery.statuses == [500, 0, 302, 500]
    assert not delivery.is_accepted
    assert waited == list(WAITS)
    retries = [
        (headers.get("X-Slack-Retry-Num"), headers.get("X-Slack-Retry-Reason"))
        for headers, _ in listener.posts
    ]
    assert retries == [
        *((None, None), ("1", "http_error"), ("2", "http_timeout"), ("3", "http_error")),
    ]
    assert [body["event_id"] for _, body in listener.posts] == ["Ev1"] * 4


def test_an_accepted_event_is_not_retried() -> None:
    with Listener([(503, {}), (200, {})]) as listener:
        assert send_event(listener.url, {}).statuses == [503, 200]


def test_no_retry_ends_the_retries() -> None:
    with Listener([(500, {"X-Slack-No-Retry": "1"})]) as listener:
        assert send_event(listener.url, {}).statuses == [500]
