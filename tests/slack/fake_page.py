"""A page of the fake Slack that looks like a channel, to try the app by hand.

A person types messages and commands, presses buttons, and sees the answers that only they would see.
"""

import json
import re
import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.slack.fake_app import Shown
from tests.slack.fake_channel import Json
from tests.slack.fake_events import send_event

if TYPE_CHECKING:
    from tests.slack.fake_slack import FakeSlack

NEWEST = 25  # messages
PATIENCE = 8.0  # seconds that a page waits for the app's answer
REACTION = "memo"
SLACKBOT_BUDGET = 300  # tokens
SLACKBOT_PATIENCE = 120.0  # seconds: the hub loads MCP for the first answer
MCP = {"Accept": "application/json, text/event-stream"}
_LINK = re.compile(r"&lt;(https?://[^|&]+(?:&amp;[^|&]+)*)\|(.*?)&gt;")
_MENTION = re.compile(r"&lt;@(\w+)&gt;")
_CHANNEL = re.compile(r"&lt;#\w+\|(.*?)&gt;")
_DATE = re.compile(r"&lt;!date\^\d+\^{\w+}\|(.*?)&gt;")
_BOLD, _ITALIC = re.compile(r"(?<!\S)\*([^*\n]+)\*"), re.compile(r"(?<!\S)_([^_\n]+)_(?!\S)")

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:46rem;padding:1rem}
form{display:inline}li{list-style:none;margin:.5rem 0}ul{padding:0}
.only{background:#f3f1ff;border-left:3px solid #6a5acd;padding:.5rem 1rem;margin:.5rem 0;color:#111}
button{font:inherit}textarea,input[name=text]{width:100%;font:inherit;box-sizing:border-box}
.meta{color:#666}
.menu button{background:none;border:0;color:#666;font-size:.8rem;padding:0 .5rem 0 0;cursor:pointer}
li:hover .menu button{color:#1264a3}
"""


def render_page(slack: "FakeSlack", user: str, channel: str) -> str:
    """Return the page of a channel as one person sees it. Unknown ids become the first ones."""
    people = {key: raw for key, raw in slack.users.items() if not raw.get("is_bot")}
    user = user if user in people else next(iter(people))
    channels = {key: row for key, row in slack.channels.items() if user in row.members}
    channel = channel if channel in channels else next(iter(channels))
    here = {"user": user, "channel": channel}
    names = "".join(
        f'<option value="{key}"{" selected" * (key == user)}>{escape(str(raw.get("name")))}</option>'
        for key, raw in people.items()
    )
    rooms = "".join(
        f'<option value="{key}"{" selected" * (key == channel)}>#{escape(row.name)}</option>'
        for key, row in channels.items()
    )
    messages = "".join(
        f"<li>{_message(slack, message, here)}</li>"
        for message in channels[channel].in_channel()[-NEWEST:]
    )
    shown = "".join(_shown(slack, message) for message in slack.shown_to(user)[-3:])
    digests = _form("digests", "Send digests now", here) if slack.send_digests else ""
    home = slack.screen.homes.get(user)
    tab = f"<h2>Home</h2>{_blocks(slack, home['blocks'], here)}" if home else ""
    previews = "".join(
        f'<div class="only">{_blocks(slack, preview["blocks"], here)}</div>'
        for row in slack.screen.unfurls[-2:]
        if row["channel"] == channel
        for preview in row["unfurls"].values()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Fake Slack</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style><h1>#{escape(channels[channel].name)}</h1>'
        f'<form method="get"><label>You are <select name="user">{names}</select></label> '
        f'<label>in <select name="channel">{rooms}</select></label> <button>Go</button></form> '
        f"{_form('home', 'Open Home', here)}{digests}<ul>{messages}</ul>{previews}{shown}"
        f'<form method="post" action="/act">{_hidden({**here, "do": "say"})}<label>Message, or '
        f'/memory help<input name="text" autofocus autocomplete="off"></label><button>Send</button></form>'
        f'<form method="post" action="/act">{_hidden({**here, "do": "slackbot"})}<label>Question to '
        f'Slackbot<input name="text" autocomplete="off"></label><button>Ask</button></form>{tab}</html>'
    )


def act(slack: "FakeSlack", given: dict[str, str]) -> str:
    """Process a form of the page; return the address of the page after it."""
    user, channel, ts = given.get("user", ""), given.get("channel", ""), given.get("ts", "")
    text = given.get("text", "").strip()
    before = _seen(slack, user, channel)
    match given.get("do"):
        case "say" if text.startswith("/memory"):
            _send(slack, slack.command(user, channel, text.removeprefix("/memory").strip()))
        case "say" if text:
            urls = re.findall(rf"{re.escape(slack.hub_url)}\S*", text) if slack.hub_url else []
            if urls:
                _send(slack, slack.post_link(user, channel, *urls))
            else:
                slack.say(channel, user, text, slack.now_ts())
            for body in slack.take_events():
                _send(slack, body)
            if not urls:
                before = ()  # the app shows nothing
        case "remember" | "wrong" as callback:
            _send(slack, slack.shortcut(user, channel, ts, callback))
        case "react":
            _send(slack, slack.react(user, channel, ts, REACTION))
        case "slackbot" if text:
            answer = _ask_slackbot(slack, user, text)
            slack.screen.shown.append(Shown(user, channel, {"text": answer}))
        case "digests" if slack.send_digests:
            slack.sent.clear()  # a digest that is sent again is another message
            words = f"Digests sent: {slack.send_digests()}. /memory digest daily chooses yours."
            slack.screen.shown.append(Shown(user, channel, {"text": words}))
        case "home":
            _send(slack, slack.open_home(user))
        case "press":
            typed = {key[6:]: value for key, value in given.items() if key.startswith("typed-")}
            payload = slack.press(user, channel, given["action"], given["value"], typed)
            _send(slack, payload)
    until = time.monotonic() + PATIENCE
    while slack.hub_url and _seen(slack, user, channel) == before and time.monotonic() < until:
        time.sleep(0.1)
    return f"/?{urlencode({'user': user, 'channel': channel})}"


def _seen(slack: "FakeSlack", user: str, channel: str) -> tuple[int, ...]:
    """Return numbers that change when the app shows the person something."""
    screen = slack.screen
    posts = slack.posts(channel) if channel in slack.channels else []
    home = screen.homes.get(user)
    return len(slack.shown_to(user)), len(screen.unfurls), len(posts), id(home) if home else 0


def _send(slack: "FakeSlack", payload: Json) -> None:
    """Send a payload to the hub in the background, as Slack does, and show a refusal."""
    threading.Thread(target=_deliver, args=(slack, payload), daemon=True).start()


def _deliver(slack: "FakeSlack", payload: Json) -> None:
    if payload.get("type") == "event_callback":
        send_event(f"{slack.hub_url}/slack/events/", payload, sends=2)
        return
    is_command = "command" in payload
    form = payload if is_command else {"payload": json.dumps(payload)}
    path = "commands" if is_command else "interactivity"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    url = f"{slack.hub_url}/slack/{path}/"
    delivery = send_event(url, urlencode(form).encode(), sends=1, headers=kind)
    if is_command and delivery.body:
        answer = json.loads(delivery.body) if delivery.is_accepted else {"text": delivery.body}
        slack.screen.shown.append(Shown(payload["user_id"], payload["channel_id"], answer))


def _ask_slackbot(slack: "FakeSlack", user: str, question: str) -> str:
    """Return the context that Slackbot gets for a question by MCP, or the refusal."""
    body = slack.call_tool(user, "get_context", query=question, budget=SLACKBOT_BUDGET)
    url = f"{slack.hub_url}/mcp"
    delivery = send_event(url, body, sends=1, headers=MCP, timeout=SLACKBOT_PATIENCE)
    if not delivery.is_accepted:
        return delivery.body or "The hub did not answer."
    return "".join(part["text"] for part in json.loads(delivery.body)["result"]["content"])


def _message(slack: "FakeSlack", message: Json, here: dict[str, str]) -> str:
    raw = slack.users.get(str(message.get("user")), {})
    name = escape(str(raw.get("name") or message.get("username") or "Memory Hub"))
    blocks = message.get("blocks") if message.get("bot_id") else None
    body = _blocks(slack, blocks, here) if blocks else _markup(slack, str(message.get("text", "")))
    own = {**here, "ts": message["ts"]}
    forms = "".join(
        _form(do, words, own)
        for do, words in (
            ("remember", "Remember this"),
            ("wrong", "This is wrong"),
            ("react", ":memo:"),
        )
    )
    return f'<strong>{name}</strong><br>{body}<div class="menu">{forms}</div>'


def _shown(slack: "FakeSlack", shown: Shown) -> str:
    here = {"user": shown.user, "channel": shown.channel}
    body = _blocks(slack, shown.body.get("blocks"), here) or _markup(
        slack, str(shown.body.get("text"))
    )
    return f'<div class="only" role="status"><p class="meta">Only you can see this</p>{body}</div>'


def _blocks(slack: "FakeSlack", blocks: Any, here: dict[str, str]) -> str:
    """Return blocks as HTML. Inputs belong to the buttons below them."""
    html, inputs = "", ""
    for block in blocks or []:
        if block["type"] == "header":
            html += f"<h3>{_markup(slack, block['text']['text'])}</h3>"
        elif block["type"] == "section":
            html += f"<p>{_markup(slack, block['text']['text'])}</p>"
        elif block["type"] == "input":
            inputs += _input(block)
        elif block["type"] == "actions":
            for button in block["elements"]:
                fields = {
                    **here,
                    "do": "press",
                    "action": button["action_id"],
                    "value": button["value"],
                }
                words = escape(button["text"]["text"])
                html += f'<form method="post" action="/act">{_hidden(fields)}{inputs}<button>{words}</button></form>'
    return html


def _input(block: Json) -> str:
    element, label = block["element"], escape(block["label"]["text"])
    name = f"typed-{element['action_id']}"
    if element["type"] != "radio_buttons":
        return f'<label>{label}<textarea name="{name}"></textarea></label>'
    first = element["initial_option"]["value"]
    options = "".join(
        f'<label><input type="radio" name="{name}" value="{escape(option["value"])}"'
        f"{' checked' * (option['value'] == first)}> {escape(option['text']['text'])}</label><br>"
        for option in element["options"]
    )
    return f"<fieldset><legend>{label}</legend>{options}</fieldset>"


def _form(do: str, words: str, fields: dict[str, str]) -> str:
    hidden = _hidden({**fields, "do": do})
    return f'<form method="post" action="/act">{hidden}<button>{escape(words)}</button></form> '


def _hidden(fields: dict[str, str]) -> str:
    return "".join(
        f'<input type="hidden" name="{name}" value="{escape(value)}">'
        for name, value in fields.items()
    )


def _markup(slack: "FakeSlack", text: str) -> str:
    """Return Slack's markup as HTML: links, mentions and line breaks."""
    html = _LINK.sub(r'<a href="\1">\2</a>', escape(text, quote=False))
    html = _MENTION.sub(
        lambda match: f"@{slack.users.get(match[1], {}).get('name', match[1])}", html
    )
    html = _DATE.sub(r"\1", _CHANNEL.sub(r"#\1", html))
    html = _ITALIC.sub(r"<em>\1</em>", _BOLD.sub(r"<strong>\1</strong>", html))
    return (
        html.replace("&amp;lt;", "&lt;")
        .replace("&amp;gt;", "&gt;")
        .replace("&amp;amp;", "&amp;")
        .replace("\n", "<br>")
    )
