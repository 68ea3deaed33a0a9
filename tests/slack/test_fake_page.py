"""The page of the fake Slack: a person types, and sees their private answers."""

import http.client
from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import pytest

from tests.processes import PATIENCE
from tests.slack.fake_app import Shown
from tests.slack.fake_slack import FakeSlack


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as fake:
        for user in ("U1", "U2"):
            fake.add_user(user, f"person{user}")
        fake.add_channel("C1", "launch", members=["U1", "U2"])
        yield fake


def ask(slack: FakeSlack, method: str, path: str, **form: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(urlsplit(slack.url).netloc, timeout=PATIENCE)
    connection.request(method, path, body=urlencode(form) if form else None)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Location", ""), body


def test_a_message_is_posted_and_shown(slack: FakeSlack) -> None:
    status, address, _body = ask(
        slack, "POST", "/act", do="say", user="U1", channel="C1", text="hi <b> & co"
    )
    assert (status, address) == (303, "/?user=U1&channel=C1")
    page = ask(slack, "GET", address)[2]
    assert "hi &lt;b&gt; &amp; co" in page and "Remember this" in page


def test_only_one_person_sees_an_answer_with_its_form(slack: FakeSlack) -> None:
    blocks = [
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "See <https://a.example/|the text>"},
        },
        {
            "type": "input",
            "label": {"text": "What is right?"},
            "element": {"type": "plain_text_input", "action_id": "text"},
        },
        {
            "type": "actions",
            "elements": [
                {"type": "button", "action_id": "go", "value": "1", "text": {"text": "Propose"}}
            ],
        },
    ]
    slack.screen.shown.append(Shown("U1", "C1", {"text": "form", "blocks": blocks}))
    own = ask(slack, "GET", "/?user=U1&channel=C1")[2]
    assert '<a href="https://a.example/">the text</a>' in own
    assert 'name="typed-text"' in own and "Propose" in own
    assert "Propose" not in ask(slack, "GET", "/?user=U2&channel=C1")[2]
