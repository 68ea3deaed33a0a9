"""Answers as blocks of Slack's Block Kit. All texts are plain: code escapes them."""

from collections.abc import Iterable, Sequence
from typing import Any

from memories.rules.ingest.markup import escape
from memories.rules.ingest.timestamps import from_micros

Block = dict[str, Any]

MAX_SECTION = 3_000  # characters, a limit of Slack
MAX_VALUE = 2_000  # of the value of a button
MAX_BLOCKS = 50
MAX_ITEM = 400  # characters of one item of a list
MAX_OPTION = 75  # of one option of a choice


def link(url: str, words: str) -> str:
    """Return a link in Slack's markup."""
    shown = escape(words).replace("|", "¦").replace("\n", " ")
    return f"<{url.replace('|', '%7C').replace('>', '%3E')}|{shown}>"


def date(us: int) -> str:
    """Return a date in Slack's markup. Each reader sees it in the own zone and language."""
    return f"<!date^{us // 1_000_000}^{{date_short}}|{from_micros(us):%Y-%m-%d}>"


def item(text: str, *more: str) -> str:
    """Return an item of a list. ``more`` is markup behind the text, such as links."""
    return " ".join([f"• {escape(_cut(text, MAX_ITEM))}", *more])


def _cut(text: str, most: int) -> str:
    """Return the text as one line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def sections(lines: Iterable[str]) -> list[Block]:
    """Return sections of these lines of markup, each within the limit of Slack."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + len(line) < MAX_SECTION:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line[:MAX_SECTION])
    return [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in texts]


def header(text: str) -> Block:
    return {"type": "header", "text": {"type": "plain_text", "text": text[:150]}}


def button(action: str, words: str, value: str) -> Block:
    text = {"type": "plain_text", "text": words}
    return {"type": "button", "action_id": action, "text": text, "value": value}


def actions(*elements: Block) -> Block:
    return {"type": "actions", "elements": list(elements)}


def text_input(action: str, label: str) -> Block:
    element = {
        "type": "plain_text_input",
        "action_id": action,
        "multiline": True,
        "max_length": 2_000,
    }
    return _input(label, element)


def choice(action: str, label: str, options: Sequence[tuple[str, str]]) -> Block:
    """Return radio buttons for (value, words). The first one is chosen."""
    rows = [
        {"text": {"type": "plain_text", "text": _cut(words, MAX_OPTION) or "…"}, "value": value}
        for value, words in options
    ]
    element = {"type": "radio_buttons", "action_id": action, "options": rows}
    return _input(label, element | {"initial_option": rows[0]})


def _input(label: str, element: Block) -> Block:
    return {"type": "input", "label": {"type": "plain_text", "text": label}, "element": element}


def answer(
    text: str, blocks: Sequence[Block] = (), *, in_channel: bool = False, replaces: bool = False
) -> Block:
    """Return an answer for a response URL. Only the asker sees it unless it is ``in_channel``.

    ``replaces``: it takes the place of the answer whose button was pressed.
    """
    kind = "in_channel" if in_channel else "ephemeral"
    # Slack reads the text of a notification as markup too. So ``<!channel>`` notifies everybody.
    markup = escape(text)
    body: Block = {"response_type": kind, "replace_original": replaces, "text": markup}
    return body | {"blocks": list(blocks)[:MAX_BLOCKS] or sections([markup])}
