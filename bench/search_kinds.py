"""The queries of the measurement, and two ways to run them: as the page does, and with LIKE."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from django.db.models import Q

from bench.search_rows import SECRET, Rows
from memories.models import Message
from memories.pipeline.search.finding import COUNTED, MESSAGE_HITS, find
from memories.rules.search.query import Kind, parse


def kinds_of(rows: Rows) -> dict[str, list[str]]:
    """Return queries by kind. The most frequent words are in a third of the messages."""
    english, nouns = rows.talk.english, rows.talk.nouns
    rare, some = english[-3:], english[600:603]
    return {
        "rare word": rare,
        "word now and then": some,
        "common word": [*english[15:18], "the"],
        "Japanese, one character": ["の", "会", nouns[-1][0]],
        "Japanese, two characters": ["東京", "確認", next(n for n in nouns[900:] if len(n) == 2)],
        "Japanese, three characters": ["請求書", "担当者", _long(nouns[900:]), _long(nouns[-50:])],
        "two words": [
            "deploy meeting",
            "東京 会議",
            "deploy 東京",
            f"the {rare[0]}",
            " ".join(some),
        ],
        "quoted": ['"the deploy"', '"to and"', '"お願い"'],
        "no hit": ["nowhere", "駱駝", "deploy nowhere", "鯨"],
        "only where one may not look": [SECRET],
        "in a channel": ["deploy in:#channel0", "東京 in:#channel50", f"{rare[0]} in:#channel1"],
        "in a private channel": ["deploy in:#channel3", "会議 in:#channel7"],
        "from somebody": ["deploy from:person1", "東京 from:person299", f"{rare[1]} from:person2"],
        "without a word": ["deploy -the", "会議 -東京"],
        "in a week": [f"{word} after:2017-07-14 before:2017-07-18" for word in ("deploy", "東京")],
    }


def context_questions(rows: Rows) -> list[tuple[str, str | None]]:
    """Return questions to an agent's context, each with the id of its channel or none."""
    english, nouns = rows.talk.english, rows.talk.nouns
    texts = [
        "When is the deploy meeting?",
        f"Who decided about {english[600]} and {english[16]}?",
        f"What is {english[-3]}?",
        "東京の会議はいつですか",
        f"{nouns[900]}の担当者は誰ですか",
    ]
    return [(text, channel) for text in texts for channel in (None, rows.channels[0].slack_id)]


def by_search(rows: Rows, typed: str) -> int:
    """Return the number of messages on the search page, or COUNTED + 1 for more."""
    result = find(parse(typed), rows.workspace, rows.reader, rows.channels)
    return next((group.count for group in result.groups if group.kind is Kind.MESSAGES), 0)


def by_like(rows: Rows, typed: str) -> int:
    """Return the number of messages that contain the same text, without the index."""
    query = parse(typed)
    since, before = query.bounds(UTC)
    messages: Any = Message.objects.visible_to(rows.reader).filter(
        channel__workspace=rows.workspace
    )
    for term, word in zip(query.terms, query.words, strict=True):
        has = Q(text__contains=word.lstrip("-").strip('"'))
        messages = messages.filter(~has if term.excluded else has)
    if query.channel:
        messages = messages.filter(channel__name=query.channel)
    if query.person:
        messages = messages.filter(author__name=query.person)
    if since is not None and before is not None:
        messages = messages.filter(micros__range=(since, before - 1))
    newest = messages.select_related("channel", "author").order_by("-micros", "-pk")
    return min(len(newest[: MESSAGE_HITS + 1]), messages[: COUNTED + 1].count())


def _long(nouns: Sequence[str]) -> str:
    return next(noun for noun in nouns if len(noun) == 3)
