"""Template tags for times, spans and faults."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone, translation

from memories.llm import faults
from memories.rules.generate.faults import Fault
from memories.rules.ingest.timestamps import to_micros
from memories.templatetags import reading

FRIDAY = datetime(2026, 11, 20, 9, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("language", "style", "words"),
    [
        ("en", "full", "20 Nov 2026, 09:05"),
        ("ja", "full", "2026年11月20日 09:05"),
        ("en", "day", "Friday, 20 Nov 2026"),
        ("ja", "day", "2026年11月20日（金）"),
        ("en", "time", "09:05"),
        ("ja", "date", "2026年11月20日"),
    ],
)
def test_a_time_in_each_style(language: str, style: str, words: str) -> None:
    with translation.override(language):
        html = reading.moment(to_micros(FRIDAY), style)
    assert f">{words}</time>" in html
    assert 'datetime="2026-11-20T09:05:00+00:00"' in html


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=20), "just now"),
        (timedelta(minutes=35), "35 min ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
    ],
)
def test_a_recent_time_is_relative(ago: timedelta, words: str) -> None:
    assert f">{words}</time>" in reading.moment(timezone.now() - ago)


@pytest.mark.parametrize("ago", [timedelta(hours=24, minutes=1), timedelta(hours=-1)])
def test_an_older_time_is_absolute(ago: timedelta) -> None:
    html = reading.moment(timezone.now() - ago)
    assert "ago" not in html and ", " in html


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (0, ["20 Nov 2026, 09:05</time>"]),
        (61, ["20 Nov 2026, 09:05</time>", ">10:06</time>"]),
        (24 * 60, ["20 Nov 2026, 09:05</time>", ">21 Nov 2026, 09:05</time>"]),
    ],
)
def test_a_span_shows_the_day_once(minutes: int, words: list[str]) -> None:
    last = FRIDAY + timedelta(minutes=minutes)
    html = reading.span(to_micros(FRIDAY), to_micros(last))
    assert all(word in html for word in words)
    assert html.count("<time") == len(words)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(40, "40 s"), (90, "1 min"), (7200, "2 h"), (5400, "1 h 30 min"), (0, "0 s")],
)
def test_a_duration(seconds: int, words: str) -> None:
    assert reading.duration(seconds) == words


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ({"reason": "idle", "new": 3, "quiet_s": 0}, "3 messages"),
        ({"reason": "idle", "new": 12, "quiet_s": 7200}, "12 messages, then 2 h without a message"),
        ({"reason": "full", "new": 50}, "50 messages: message limit of a segment"),
        ({"reason": "merge", "new": 1}, "from 1 summary"),
        ({"reason": "edited"}, "a message was edited or deleted"),
        ({"reason": "of a later version of the product"}, ""),
        ({}, ""),
    ],
)
def test_a_reason(trigger: dict[str, object], words: str) -> None:
    assert reading.reason_words(trigger) == words


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a & b <i>", "a &amp; b &lt;i&gt;"),
        ("use `x<y` here", "use <code>x&lt;y</code> here"),
        ("*Decided:* yes", "<strong>Decided:</strong> yes"),
        ("mi<a: go", "mi&lt;a: go"),
        ("https://a.example stays text", "https://a.example stays text"),
    ],
)
def test_a_line(text: str, html: str) -> None:
    assert reading.line_text(text) == html


@pytest.mark.parametrize(
    ("text", "language"),
    [("plain words", "en"), ("在庫数は整数", "ja"), ("カタカナ", "ja"), ("déjà vu", "")],
)
def test_the_language_of_a_text(text: str, language: str) -> None:
    assert reading.text_lang(text) == language


CODES = {*Fault, "empty", "malformed", "connection", "timeout", "gave_no_answer", "unexpected"}
CODES |= set(faults._CODE_OF_STATUS.values())


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_fault_is_described_in_the_language_of_the_page(code: str) -> None:
    with translation.override("ja"):
        assert not reading.fault_words(code).isascii()
