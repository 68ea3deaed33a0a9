"""Highlights are never in the wrong language, because they quote their messages (rule 8)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memories.demo.workspace import build_export
from memories.llm import OfflineSummariser
from memories.rules.generate.faults import Fault
from memories.rules.generate.language import detect_language
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.summariser import MessageLine, Request
from tests.llm.requests import messages, short


def segments(folder: Path, size: int) -> Iterator[list[MessageLine]]:
    for channel in sorted(path for path in folder.iterdir() if path.is_dir()):
        rows = [
            row for day in sorted(channel.glob("*.json")) for row in json.loads(day.read_text())
        ]
        texts = [row["text"] for row in rows if row.get("text")]
        for first in range(0, len(texts), size):
            yield messages(*texts[first : first + size])


def fault_as_reply_of_a_model(request: Request) -> str:
    reply = replace(OfflineSummariser().summarise(request), model="a-model")
    return parse_reply(reply, request).fault


@pytest.mark.slow
def test_highlights_of_the_demo_workspace_are_in_its_language(tmp_path: Path) -> None:
    build_export(tmp_path, datetime(2026, 11, 20, tzinfo=UTC))
    requests = [
        short(lines, language="conversation")
        for size in (5, 25, 50)
        for lines in segments(tmp_path, size)
    ]
    languages = {detect_language([m.text for m in request.messages]) for request in requests}
    assert len(requests) > 50 and languages - {None}
    assert [fault for fault in map(fault_as_reply_of_a_model, requests) if fault] == []


def test_highlights_may_differ_from_the_output_language() -> None:
    texts = [
        "来週の金曜日までに公開します。",
        "月末まで古いページを残しておきます。",
        "田中さんが連絡します。",
    ]
    request = short(messages(*texts, author="田中"), language="en")
    highlights = OfflineSummariser().summarise(request)
    assert parse_reply(highlights, request).fault == ""
    assert parse_reply(replace(highlights, model="a-model"), request).fault == Fault.WRONG_LANGUAGE
